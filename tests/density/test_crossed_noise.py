"""Noise whose covariances depend on the state, against moments that close."""

from types import SimpleNamespace

import numpy as np
import pytest
from host_threads import Machine

import ergode
from ergode.core import kernels
from ergode.core.errors import ModelError, PlanError
from ergode.density.grid.lattice import CROSSED, DIMENSION, NOISY, SPREAD_KEPT
from ergode.density.transport import diffusion

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
GROWTH, SHARES, CORRELATION = np.array([0.3, -0.2]), np.array([0.25, 0.2]), 0.8
NAMES = ["up", "down", "one", "other", "both"]
VALUES = dict(zip(NAMES, (*GROWTH, *SHARES, CORRELATION), strict=True))
PRIOR = ergode.Gaussian([2.0, 1.5], [[0.04, -0.01], [-0.01, 0.03]])


def growth(t, y, p):
    return p[0] * y[0], p[1] * y[1]


def shaken(t, y, p):
    one, other = p[2] * y[0], p[3] * y[1]
    return one * one, p[4] * one * other, p[4] * one * other, other * other


def amplitudes(t, y, p):
    return p[2] * y[0], p[3] * y[1]


FIELD = ergode.VectorField(growth, ["x", "y"], NAMES)
STOCHASTIC = ergode.VectorField(
    growth, ["x", "y"], NAMES, diffusion=amplitudes,
    correlation=[[1.0, CORRELATION], [CORRELATION, 1.0]],
)  # fmt: skip


def geometric(field, **options):
    settings = {"width": 0.06, "threshold": 1e-9, "scale_threshold": False, "keep": "none"}
    return ergode.density.propagate(
        field, PRIOR, times=[0.0, 0.5, 1.0], parameters=VALUES, **settings | options
    )


@DEVICES
def test_correlated_geometric_brownian_motion(device):
    """E[x_i x_j] grows by growth_i + growth_j + correlation share_i share_j, for every prior."""
    whole = geometric(FIELD, process_noise=shaken, device=device)
    check_moments(whole, 0.01)
    assert abs(float(whole["mass_out"][-1])) < 1e-3  # what was negative
    own = geometric(STOCHASTIC, device=device)  # amplitudes and a correlation
    np.testing.assert_allclose(own["covariance"], whole["covariance"], rtol=1e-9, atol=1e-12)


def check_moments(whole, near):
    product = np.outer(SHARES, SHARES) * np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    rate = GROWTH[:, None] + GROWTH + product
    for k, time in enumerate(whole["time"].values):
        mean = PRIOR.mean * np.exp(GROWTH * time)
        second = (PRIOR.covariance + np.outer(PRIOR.mean, PRIOR.mean)) * np.exp(rate * time)
        np.testing.assert_allclose(whole["mean"][k], mean, rtol=2e-4)
        covariance = second - np.outer(mean, mean)
        np.testing.assert_allclose(whole["covariance"][k], covariance, rtol=near, atol=0.01 * near)


@DEVICES
@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")  # cells are skew
def test_gaussian_cells_have_these_moments(device):
    found = ergode.density.propagate(
        STOCHASTIC, PRIOR, times=[0.0, 0.5, 1.0], parameters=VALUES, scheme="flow", keep="none",
        device=device,
    )  # fmt: skip
    check_moments(found, 1e-4)


def moved(index, cells, p, out):
    """A kernel body: what noise does to a cell."""
    out[index] = diffusion.change(index, cells, p, ())


def test_its_stencil_keeps_mass_and_has_the_covariance():
    """With a cell missing; the change of a second moment is exact where no cell is."""
    size, rng = 7, np.random.default_rng(1)
    places = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij")).reshape(2, -1)
    number = np.zeros((size + 2, size + 2), np.int64)
    number[places[0] + 1, places[1] + 1] = 1 + np.arange(size * size)
    for missing in (0, 26):
        number[number == missing] = 0
        above, below = np.zeros((2, 2, 1 + size * size), np.int64)
        for d, step in enumerate(np.eye(2, dtype=int)):
            above[d, 1:] = number[tuple(places + 1 + step[:, None])]
            below[d, 1:] = number[tuple(places + 1 - step[:, None])]
        spread = rng.uniform(0.5, 1.0, (3, 1 + size * size))
        p = np.zeros(1 + size * size)
        inner = ((places > 1) & (places < size - 2)).all(axis=0)
        p[1:][inner] = rng.random(inner.sum())
        p[missing] = 0.0
        out = np.zeros_like(p)
        cells = SimpleNamespace(above=above, below=below, spread=spread)
        bindings = {DIMENSION: 2, NOISY: (True, True), SPREAD_KEPT: True, CROSSED: True}
        kernel = kernels.for_each(moved, bindings=bindings)
        Machine(1, 1).run_kernel(kernel, 1, p.size, cells, p, out)
        assert abs(np.delete(out, missing).sum()) < 1e-14
        if missing == 0:
            x, y = places
            np.testing.assert_allclose((x * y) @ out[1:], 2 * spread[2] @ p, rtol=1e-12)
            np.testing.assert_allclose((x * x) @ out[1:], 2 * spread[0] @ p, rtol=1e-12)


def skew(t, y, p):
    return 1.0, 0.5, -0.5, 1.0


def indefinite(t, y, p):
    return 1.0, 2.0 * y[0], 2.0 * y[0], 1.0


@pytest.mark.parametrize(
    ("error", "message", "settings"),
    [
        (ModelError, "is not symmetric", {"process_noise": skew}),
        (ModelError, "not positive semi-definite", {"process_noise": indefinite}),
        (PlanError, "a region is for noise without covariances",
         {"process_noise": shaken, "region": lambda y, t, p: (y[0],)}),
        (PlanError, "leave axes out", {"process_noise": shaken, "axes": "principal"}),
    ],
)  # fmt: skip
def test_what_is_refused(error, message, settings):
    with pytest.raises(error, match=message):
        geometric(FIELD, **settings)
