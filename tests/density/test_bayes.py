"""Prediction with noise and correction, against what theory knows exactly."""

import warnings

import numpy as np
import pytest
from density_cases import LINEAR, first, lorenz, on_plane
from density_reference import kalman

import ergode
from ergode.core import devices
from ergode.core.errors import ModelError, PlanError
from ergode.density import views


def sum_and_first(y, t, p):
    return y[0] + y[1], y[0]


def bearing(y, t, p):
    return (3.0 + y[0],)


def log_likelihood_of_one(y, t, p):
    return (-0.5 * (y[0] - 1) ** 2 / 0.25,)


def drive(t, y, p):
    return (p[0] * t,)


def radius(y, t, p):
    return (y[0] * y[0] + y[1] * y[1],)


def right_half(y, t, p):
    return (y[0],)


def test_ornstein_uhlenbeck():
    """Mean and variance on the way, and the stationary law, within the accuracy of the grid."""
    rate, q = 1.0, 0.5
    times = np.array([0.0, 0.25, 0.5, 1.0, 6.0])
    result = on_plane(
        np.diag([-rate, -rate]), (0, 0), ergode.Gaussian([1.5, -1.0], [0.04, 0.09]), times,
        process_noise=[q, q], width=0.05, threshold=1e-8,
    )  # fmt: skip
    fade = np.exp(-rate * times)
    for k, (mean, variance) in enumerate(((1.5, 0.04), (-1.0, 0.09))):
        exact = q / (2 * rate) + (variance - q / (2 * rate)) * fade**2
        assert np.allclose(result["mean"][:, k], mean * fade, atol=2e-3)
        assert np.allclose(result["covariance"][:, k, k], exact, rtol=0.01)
    # At rest the density is Gaussian everywhere, not only in its moments.
    cells = views.cells_at(result)
    density = views.marginal(cells, "x")
    gaussian = np.exp(-(density["x"] ** 2) / (2 * 0.25)) / np.sqrt(2 * np.pi * 0.25)
    assert float(np.abs(density - gaussian).max()) < 0.01


def at_once(measurement, **options):
    prior = ergode.Gaussian([0.5, 0.0], [0.5, 0.5])
    return on_plane(
        np.zeros((2, 2)), (0, 0), prior, [0], measurements=measurement, width=0.05, **options
    )


def test_several_components_and_several_measurements_at_one_time():
    H = np.array([[1.0, 1.0], [1.0, 0.0]])
    R = np.array([[0.3, 0.1], [0.1, 0.2]])
    result = at_once(
        [
            ergode.Measurement(0.0, sum_and_first, [0.9, 0.3], R),
            ergode.Measurement(0.0, first, 0.6, 0.4),
        ]
    )
    (_, _), (mean, covariance) = kalman(
        np.array([0.5, 0.0]), np.diag([0.5, 0.5]), np.eye(2), np.zeros(2), np.zeros((2, 2)),
        [(H, np.array([0.9, 0.3]), R), (H[1:], np.array([0.6]), np.array([[0.4]]))],
    )  # fmt: skip
    assert np.allclose(result["mean"][-1], mean, atol=1e-3)
    assert np.allclose(result["covariance"][-1], covariance, atol=1e-3)
    assert result.sizes["measurement"] == 2


def test_angles_go_the_short_way_round():
    straight = at_once([ergode.Measurement(0.0, bearing, 3.6, 0.25)])
    wrapped = at_once([ergode.Measurement(0.0, bearing, 3.6 - 2 * np.pi, 0.25, angles=[0])])
    assert np.allclose(straight["mean"], wrapped["mean"], atol=1e-9)


def test_any_likelihood():
    given = at_once([ergode.Measurement(0.0, likelihood=log_likelihood_of_one)])
    gaussian = at_once([ergode.Measurement(0.0, first, 1.0, 0.25)])
    assert np.allclose(given["mean"], gaussian["mean"], atol=1e-12)
    constant = -0.5 * np.log(2 * np.pi * 0.25)
    difference = float(gaussian["log_evidence"][0] - given["log_evidence"][0])
    assert difference == pytest.approx(constant)


def test_impossible_measurement():
    with pytest.raises(PlanError, match="measurement at time 0 is impossible"):
        at_once([ergode.Measurement(0.0, first, 1e200, 1e-300)])


def test_what_is_left_out_of_the_prior_is_lost():
    """A threshold that cuts the prior, and the box of corner transport: in the books."""
    prior = ergode.Gaussian([1.0, 0.0], [[0.5, 0.1], [0.1, 0.4]])
    nothing = np.zeros((2, 2))
    with pytest.warns(RuntimeWarning, match="dropped"):
        cut = on_plane(
            nothing, (0, 0), prior, [0], width=0.1, threshold=1e-4, scale_threshold=False
        )
    assert 0.02 < float(cut["mass_lost"][0]) < 0.04
    round_prior = ergode.Gaussian([0.0, 0.0], [1.0, 1.0])
    boxed = on_plane(nothing, (0, 0), round_prior, [0], width=0.1, scheme="corner-transport")
    assert float(boxed["mass_lost"][0]) == pytest.approx(1 - 0.99771**2, rel=0.02)


def test_measurement_far_from_the_density_is_told():
    with pytest.warns(RuntimeWarning, match="measurement at time 0 leaves a density thinner"):
        at_once([ergode.Measurement(0.0, first, 40.0, 0.01)])


def test_time_dependent_field():
    field = ergode.VectorField(drive, ["y"], ["a"])
    result = ergode.density.propagate(
        field, ergode.Gaussian([0.0], [1.0]), times=[0, 2], parameters={"a": 1.5}, width=0.05,
        device="cpu:1",
    )  # fmt: skip
    assert float(result["mean"][-1, 0]) == pytest.approx(3.0, abs=0.02)


def test_nothing_leaves_the_range_of_a_conserved_quantity():
    """Rotation keeps the radius; without the limit numerical diffusion would not."""
    turn = 2 * np.pi * np.array([[0.0, -1.0], [1.0, 0.0]])
    prior = ergode.Gaussian([2.0, 0.0], [0.04, 0.04])
    limited = on_plane(turn, (0, 0), prior, [0, 0.5], width=0.1, conserved=radius)
    start, end = ((views.cells_at(limited, index=i)["point"] ** 2).sum("variable") for i in (0, 1))
    assert float(end.max()) <= float(start.max()) and float(end.min()) >= float(start.min())
    assert limited["mass_lost"][-1] < 0.02
    assert np.allclose(limited["mean"][-1], (-2, 0), atol=0.05)


def test_region():
    result = on_plane(
        np.zeros((2, 2)), (-2.0, 0), ergode.Gaussian([1.0, 0.0], [0.04, 0.04]), [0, 1], width=0.1,
        region=right_half,
    )  # fmt: skip
    cells = views.cells_at(result)
    assert float(cells["point"][:, 0].min()) >= -0.05  # half a cell
    assert float(result["mass_kept"][-1]) > 0.95  # what comes to the wall stays at it
    assert float(result["mean"][-1, 0]) < 0.2


DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])


@DEVICES
@pytest.mark.parametrize("limited_by", ["max_cells", "memory"])
def test_full_memory_ends_the_run_with_what_there_is(limited_by, device, monkeypatch):
    """The last density is the one that a run to that time finds."""
    options = {"device": device}
    if limited_by == "max_cells":
        options["max_cells"] = 4000
    else:
        kind = type(devices.resolve(device))
        monkeypatch.setattr(kind, "available_bytes", lambda self: 800_000)
    times = np.linspace(0, 0.9, 10)
    with pytest.warns(RuntimeWarning, match=r"ended at time .*cells of .* bytes.*larger widths"):
        result = lorenz("split", times, **options)
    assert "larger widths" in result.attrs["ended_early"]
    assert result["status"] == ergode.Status.NO_ROOM
    with pytest.raises(ergode.ErgodeError, match="More cells were needed"):
        result.ergode.raise_for_status()
    assert 1 < result.sizes["time"] < 10
    monkeypatch.undo()
    end = float(result["time"][-1])
    assert end < 0.9
    whole = lorenz("split", [*times[times < end], end], device=device)
    assert np.array_equal(result["mean"][:-1], whole["mean"][:-1])
    assert np.allclose(result["mean"][-1], whole["mean"][-1], atol=1e-9)
    last = views.cells_at(result)
    assert float(last["mass"].sum()) == pytest.approx(1)


@DEVICES
def test_densities_of_a_batch_end_each_for_itself(device):
    """Those that stay small go on as if alone; what another did not reach is missing."""
    rates = np.array([-2.0, 0.0, 1.0, 3.0])
    prior = ergode.Gaussian([0.0, 0.0], [0.1, 0.1])
    times = [0.0, 0.4, 0.8, 1.2]

    def run(a, device, **options):
        return ergode.density.propagate(
            LINEAR, prior, times=times, width=0.1, threshold=1e-7, device=device,
            measurements=ergode.Measurement(1.0, first, 0.1, 0.5),
            parameters=ergode.grid(a=a, b=0, c=0, d=-1, e=0, f=0), **options,
        )  # fmt: skip

    with pytest.warns(RuntimeWarning, match=r"of \d of 4 densities ended at .*larger widths"):
        result = run(rates, device, max_cells=2000)
    whole = run(rates, device)
    reached = result["time_reached"].values
    assert (reached[:3] == 1.2).all() and 0.4 < reached[3] < 0.8
    assert result["status"].values.tolist() == [0, 0, 0, ergode.Status.NO_ROOM]
    for which, end in enumerate(reached):
        good = np.array(times) <= end
        assert np.array_equal(result["mean"][which, good], whole["mean"][which, good])
        for name in ("mean", "covariance", "cell_count", "mass_lost", "cells_in_deviation"):
            assert np.isnan(result[name].values[which, ~good]).all()
    assert np.isnan(result["log_evidence"][3]).all() and np.isnan(result["posterior_cut"][3]).all()


@DEVICES
def test_prior_that_does_not_fit(device, monkeypatch):
    kind = type(devices.resolve(device))
    monkeypatch.setattr(kind, "available_bytes", lambda self: 100_000)
    with pytest.raises(PlanError, match=r"needs more than \d+ cells of \d+ bytes, .*larger thr"):
        lorenz("split", device=device)


def test_priors():
    two = ergode.Mixture(
        [1, 3], [ergode.Gaussian([-2, 0], [0.2, 0.2]), ergode.Gaussian([2, 1], [0.1, 0.3])]
    )
    rng = np.random.default_rng(1)
    points = rng.multivariate_normal([1.0, -1.0], [[0.5, 0.2], [0.2, 0.4]], 20_000)
    gaussian = ergode.Gaussian([1.0, -1.0], [[0.5, 0.2], [0.2, 0.4]])
    cases = (
        (two, two.mean, two.covariance, 0.01),
        (ergode.Samples(points), points.mean(0), np.cov(points.T), 0.02),
        (
            ergode.Density(gaussian.log_density, gaussian.mean, gaussian.covariance),
            gaussian.mean, gaussian.covariance, 0.01,
        ),
    )  # fmt: skip
    for prior, mean, covariance, tolerance in cases:
        result = on_plane(np.zeros((2, 2)), (0, 0), prior, [0], width=0.1, threshold=1e-7)
        assert np.allclose(result["mean"][0], mean, atol=tolerance)
        assert np.allclose(result["covariance"][0], covariance, atol=tolerance + 0.01)


def test_prior_by_name():
    named = ergode.Gaussian({"y": 1.0, "x": -1.0}, {"x": 0.1, "y": 0.4})
    result = on_plane(np.zeros((2, 2)), (0, 0), named, [0], width=0.1, threshold=1e-7)
    assert np.allclose(result["mean"][0], (-1, 1), atol=1e-6)
    assert float(result["covariance"][0, 1, 1]) == pytest.approx(0.4, rel=0.01)


GOOD = ergode.Gaussian([0, 0], [1, 1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"prior": ergode.Gaussian([0], [1])}, ModelError, "1 component and the field 2"),
        ({"width": [1, -1]}, ModelError, "width"),
        ({"width": "thin"}, ModelError, "width is 'thin'"),
        ({"threshold": 2.0}, PlanError, "threshold is 2.0"),
        ({"threshold": 0.9}, PlanError, "largest cell of the prior"),
        ({"scheme": "godunov"}, PlanError, "scheme 'godunov'"),
        ({"keep": "some"}, PlanError, "keep 'some'"),
        ({"process_noise": [1, 2, 3]}, ModelError, r"process_noise has shape \(3,\)"),
        ({"process_noise": [[1, 0], [0, -1]]}, ModelError, "positive semi-definite"),
        ({"axes": [[1, 1], [0, 1]]}, PlanError, "orthogonal"),
        ({"measurements": [ergode.Measurement(5.0, first, 0, 1)]}, ModelError, "at time 5"),
        ({"measurements": [3]}, ModelError, r"measurements\[0\] is 3"),
        ({"width": 1e-7}, PlanError, "larger widths"),
    ],
)
def test_bad_input_is_an_error_at_the_door(options, error, message):
    settings = {"prior": GOOD, "times": [0, 1]} | options
    prior, times = settings.pop("prior"), settings.pop("times")
    with pytest.raises(error, match=message):
        on_plane(np.zeros((2, 2)), (0, 0), prior, times, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ergode.Gaussian([0, 1], [[1, 2], [2, 1]]), "not positive definite"),
        (lambda: ergode.Gaussian([0, 1], [[1, 2], [0, 1]]), "not symmetric"),
        (lambda: ergode.Gaussian([0, np.nan], [1, 1]), r"mean\[1\] is nan"),
        (lambda: ergode.Gaussian({"x": 0}, {"y": 1}), "x, y"),
        (lambda: ergode.Mixture([1], [GOOD, GOOD]), "for 2 components"),
        (lambda: ergode.Samples([[1.0, 2.0]]), "at least two points"),
        (lambda: ergode.Measurement(0.0, first), "needs h, value and covariance"),
        (lambda: ergode.Measurement(0.0, first, 1.0, -1.0), "not positive definite"),
        (lambda: ergode.Measurement(0.0, first, 1.0, 1.0, angles=[1]), "angles"),
        (lambda: ergode.fields.lorenz96(3), "4 variables or more"),
    ],
)
def test_bad_models(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_views():
    prior = ergode.Gaussian([0.0, 1.0], [[0.5, 0.2], [0.2, 0.4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = on_plane(np.zeros((2, 2)), (0, 0), prior, [0, 1], width=0.1, threshold=1e-9)
    cells = views.cells_at(result, 1.0)
    exact = 0.5 * np.log((2 * np.pi * np.e) ** 2 * np.linalg.det(prior.covariance))
    assert views.entropy(cells) == pytest.approx(exact, abs=1e-3)
    half = views.region_probability(cells, lambda x: 0.5 * (x[:, 1] > 1) + 0.5 * (x[:, 1] >= 1))
    assert half == pytest.approx(0.5, abs=1e-6)
    level = views.highest_density(cells, [0.5, 0.9]) / 0.01
    peak = 1 / (2 * np.pi * np.sqrt(np.linalg.det(prior.covariance)))
    assert np.allclose(level, peak * np.array([0.5, 0.1]), rtol=0.06)
    drawn = views.samples(cells, 100_000, seed=3)
    assert np.allclose(drawn.mean(0), prior.mean, atol=0.012)  # 5 standard errors
    assert np.allclose(np.cov(drawn.T), prior.covariance, atol=0.015)
    plane = views.marginal(cells, ["x", "y"])
    assert float(plane.sum()) * 0.01 == pytest.approx(1)
    with pytest.raises(PlanError, match="no variable 'z'"):
        views.marginal(cells, "z")
    with pytest.raises(PlanError, match="no time 7"):
        views.cells_at(result, 7)
