"""Edges between the centres of cells: walls that reflect, and the jump of a likelihood."""

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import jnp_zeros, jv
from scipy.stats import norm

import ergode

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
pytestmark = pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")  # cells are wide


def at_rest(t, y, p):
    return (0.0 * y[0],)


def seen_above(y, t, p):
    return (1.0 if y[0] > p[0] else 0.0,)


def pulled(t, y, p):
    return (p[0] - p[2] * y[0], p[1] - p[2] * y[1])


def half_plane(y, t, p):
    return (p[3] * y[0] + p[4] * y[1] - p[5],)


def disc(y, t, p):
    return (1.0 - y[0] * y[0] - y[1] * y[1],)


FIELD = ergode.VectorField(at_rest, ["x"], ["edge"])
PLANE = ergode.VectorField(pulled, ["x", "y"], ["u", "v", "pull", "a", "b", "edge"])
FRACTIONS = np.linspace(0, 0.95, 6)


def propagate(mean, times, width, region, **options):
    values = {"u": 0.0, "v": 0.0, "pull": 0.0, "a": 0.0, "b": 1.0, "edge": 0.0}
    values |= options.pop("parameters", {})
    settings = {"process_noise": [1.0, 1.0], "device": "cpu", "scheme": "split"} | options
    found = ergode.density.propagate(
        PLANE, ergode.Gaussian(mean, [0.01, 0.01]), times=times, region=region, width=width,
        threshold=1e-9, parameters=values, **settings,
    )  # fmt: skip
    kept = found["mass_kept"] + found["mass_pruned"] + found["mass_out"]
    rounding = 1e-12 if options.get("precision") != "float32" else 1e-3
    np.testing.assert_allclose(kept, 1.0, rtol=0, atol=rounding)
    np.testing.assert_allclose(found["mass_out"], 0.0, rtol=0, atol=1e-8)  # what is clipped
    return found


def reflected(edge, drift, time, count=400):
    """Mean and variance of Brownian motion above an edge that reflects, from 0.6 beyond zero."""
    h = 5.0 / count
    x = edge + h * (np.arange(count) + 0.5)
    s, c = 0.5 / h**2, 0.5 * drift / h
    rates = np.diag(np.full(count - 1, s - c), 1) + np.diag(np.full(count - 1, s + c), -1)
    rates -= np.diag(rates.sum(axis=0))
    weight = expm(rates * time) @ norm.pdf(x, 0.6, 0.1)
    mean = (x * weight).sum() / weight.sum()
    return mean, (x * x * weight).sum() / weight.sum() - mean**2


@DEVICES
@pytest.mark.parametrize("scheme", ["split", "corner-transport"])
@pytest.mark.parametrize(
    "angle", [0.0, math.atan(0.5), math.pi / 4], ids=["along an axis", "oblique", "diagonal"]
)
@pytest.mark.parametrize("drift", [0.0, -1.0], ids=["still", "drift"])
def test_errors_at_an_oblique_edge_fall_with_the_square_of_the_width(scheme, angle, drift, device):
    normal, along = np.array([np.sin(angle), np.cos(angle)]), [np.cos(angle), -np.sin(angle)]
    worst = []
    for width in (0.1, 0.05):
        errors = []
        for part in (0.03, 0.37, 0.81):
            edge = part * width
            values = {"u": drift * normal[0], "v": drift * normal[1]}
            values |= {"a": normal[0], "b": normal[1], "edge": edge}
            found = propagate(
                0.6 * normal, [0, 0.4], width, half_plane, parameters=values, scheme=scheme,
                device=device,
            )  # fmt: skip
            mean, covariance = found["mean"].values[-1], found["covariance"].values[-1]
            exact = reflected(edge, drift, 0.4)
            errors.append(
                [
                    mean @ normal - exact[0], normal @ covariance @ normal - exact[1],
                    mean @ along, along @ covariance @ along - 0.41,
                ]
            )  # fmt: skip
        worst.append(np.abs(errors).max(axis=0))
    # An edge along faces of cells is half a cell off: .02 to .04.
    assert (worst[0] < [0.013, 0.008, 0.006, 0.004]).all()
    assert (worst[1] < [0.004, 0.0025, 0.005, 0.0015]).all()


def of_disc(time):
    """Mean of x in the disc, from the prior, by the series of the disc that reflects."""
    grid = np.linspace(-1, 1, 401)
    x, y = np.meshgrid(grid, grid)
    r = np.maximum(np.hypot(x, y), 1e-12)
    weight = np.exp(-((x - 0.4) ** 2 + y * y) / 0.02) * (r < 1)
    total = 0.0
    for k in jnp_zeros(1, 20):
        part = 2 * jv(2, k) / (k * (1 - 1 / k**2) * jv(1, k) ** 2)
        total += part * np.exp(-k * k * time / 2) * (weight * jv(1, k * r) * x / r).sum()
    return total / weight.sum()


@DEVICES
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_brownian_motion_in_a_disc(precision, device):
    r = np.linspace(0, 1, 10_001)
    for pull in (0.0, 2.0):
        weight = r * np.exp(-pull * r * r)
        exact = (weight * r * r).sum() / weight.sum() / 2  # at rest
        worst = []
        for width in (0.1, 0.05):
            found = propagate(
                [0.4, 0], [0, 0.3, 4], [width, 1.1 * width], disc, parameters={"pull": pull},
                precision=precision, device=device,
            )  # fmt: skip
            errors = np.diagonal(found["covariance"].values[-1]) - exact
            law = float(found["mean"][1, 0]) - of_disc(0.3) if pull == 0.0 else 0.0
            worst.append(np.abs([*errors, law]).max())
        assert worst[0] < 0.006 and worst[1] < 0.0015


def cut(edge):
    """Mean of a standard Gaussian above an edge."""
    return norm.pdf(edge) / norm.sf(edge)


@DEVICES
def test_the_jump_of_a_likelihood_is_where_it_is_within_a_cell(device):
    prior = ergode.Gaussian([0.0], [1.0])
    measured = [ergode.Measurement(0.0, seen_above, 1.0, 0.01)]
    worst = []
    for width in (0.1, 0.05):
        errors = []
        for edge in width * FRACTIONS:
            found = ergode.density.propagate(
                FIELD, prior, times=[0.0], parameters={"edge": edge}, width=width, threshold=1e-9,
                device=device, measurements=measured,
            )  # fmt: skip
            errors.append(float(found["mean"][-1, 0]) - cut(edge))
            evidence = float(found["log_evidence"][0]) - norm.logpdf(0.0, 0.0, 0.1)
            errors.append(evidence - norm.logsf(edge))
        worst.append(np.abs(errors).max())
    assert worst[0] < 0.002 and worst[1] < 0.0005  # at centres, half a cell off: 0.03
