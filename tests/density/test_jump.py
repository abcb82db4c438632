"""Maneuvers: jumps of the state with their covariance, in all tools."""

import numpy as np
import pytest
from density_cases import LINEAR

import ergode
from ergode.core.errors import ModelError, PlanError

RATES = dict(zip("abcdef", (-0.3, 0.8, -0.9, -0.1, 0.2, -0.1), strict=True))
PRIOR = ergode.Gaussian([1.0, -0.5], [[0.5, 0.1], [0.1, 0.3]])
Q = np.array([[0.3, -0.25], [-0.25, 0.4]])
OBLIQUE = np.outer([0.5, -0.8], [0.5, -0.8])
COMMON = {"parameters": RATES, "device": "cpu:1"}


def height(y, t, p):
    return (y[0],)


def on_grid(maneuvers, **options):
    settings = {"times": [0, 0.5, 1.0], "width": 0.12, "threshold": 1e-9} | COMMON | options
    return ergode.density.propagate(LINEAR, PRIOR, maneuvers=maneuvers, **settings)


def filtered(maneuvers, prior=PRIOR, times=(0, 0.5, 1.0)):
    return ergode.particles.unscented_kalman(
        LINEAR, prior, times=times, maneuvers=maneuvers, **COMMON
    )


@pytest.mark.parametrize("covariance", [Q, OBLIQUE, [4e-3, 1e-4], 6 * Q])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_mean_and_covariance_jump_exactly(covariance, precision):
    jump = ergode.Maneuver(0.5, [3.0, -2.0], covariance)
    without, found = (on_grid(some, precision=precision, times=[0, 0.5]) for some in ([], [jump]))
    np.testing.assert_allclose(found["mean"][1], without["mean"][1] + [3.0, -2.0], atol=2e-6)
    added = found["covariance"].values[1] - without["covariance"].values[1]
    # Tails are cut at 1e-9 of the probability.
    np.testing.assert_allclose(added, jump.covariance, atol=2e-5 * max(1, added.max()))
    assert float(found["mass_kept"][1]) > 1 - 1e-5
    balance = found["mass_kept"] + found["mass_pruned"] + found["mass_out"]
    np.testing.assert_allclose(balance[1], 1.0, atol=1e-11 if precision == "float64" else 1e-5)


def test_all_tools_agree_where_the_filter_is_exact():
    jump = ergode.Maneuver(0.3, {"y": 0.7}, Q)
    seen = ergode.Measurement(0.3, height, 1.2, 0.2)
    found = ergode.particles.compare(
        LINEAR, PRIOR, times=[0, 0.3, 1.0], maneuvers=[jump], measurements=[seen], width=0.1,
        threshold=1e-9, count=40_000, **COMMON,
    )  # fmt: skip
    mean, deviation = found["mean"].values, found["deviation"].values
    np.testing.assert_allclose(mean[0], mean[2], atol=0.01)
    np.testing.assert_allclose(deviation[0], deviation[2], rtol=0.01)
    assert (np.abs(mean[1] - mean[2]) < 6 * found["mean_error"].values + 1e-3).all()
    assert (np.abs(deviation[1] - deviation[2]) < 6 * found["deviation_error"].values + 1e-3).all()
    evidence = found["log_evidence"].values[:, 0]
    np.testing.assert_allclose(evidence, evidence[2], atol=0.05)
    assert found.attrs["maneuver_times"] == pytest.approx(0.3)


def test_nothing_changes_nothing():
    for found, plain in (
        (on_grid([ergode.Maneuver(0.5, [0, 0], np.zeros((2, 2)))]), on_grid([])),
        (filtered([ergode.Maneuver(0.5, [0, 0])]), filtered([])),
    ):
        for name in ("mean", "covariance"):
            np.testing.assert_array_equal(found[name], plain[name])


def test_maneuvers_of_one_time_are_their_sum():
    two = [ergode.Maneuver(0.5, [1.0, 0.25], Q), ergode.Maneuver(0.5, {"x": 0.5}, OBLIQUE)]
    one = [ergode.Maneuver(0.5, [1.5, 0.25], Q + OBLIQUE)]
    for tool in (on_grid, filtered):
        several, single = tool(two), tool(one)
        for name in ("mean", "covariance"):
            np.testing.assert_array_equal(several[name], single[name])


def test_a_run_split_at_a_maneuver_is_the_whole():
    jump = ergode.Maneuver(0.5, [1.0, -1.0], Q)
    whole = filtered([jump])
    half = filtered([jump], times=[0, 0.5])
    middle = ergode.Gaussian(half["mean"].values[-1], half["covariance"].values[-1])
    rest = filtered([], middle, times=[0.5, 1.0])
    np.testing.assert_allclose(rest["mean"][-1], whole["mean"][-1], rtol=1e-7)
    np.testing.assert_allclose(rest["covariance"][-1], whole["covariance"][-1], rtol=1e-7)
    on_whole = on_grid([jump])
    np.testing.assert_allclose(on_whole["mean"][-1], whole["mean"][-1], atol=0.01)
    np.testing.assert_allclose(on_whole["covariance"][-1], whole["covariance"][-1], atol=0.01)


def test_each_density_its_own_change_and_cells_where_they_are():
    changes = np.array([[1.0, 0.0], [-2.0, 0.5]])
    found = on_grid([ergode.Maneuver(0.5, changes, Q)], keep="all")
    for k, change in enumerate(changes):
        alone = on_grid([ergode.Maneuver(0.5, change, Q)])
        one = found.isel(trajectory=k)
        np.testing.assert_array_equal(one["mean"], alone["mean"])
        cells = ergode.density.cells_at(one, 0.5)
        np.testing.assert_allclose(
            cells["mass"].values @ cells["point"].values, one["mean"][1], atol=1e-9
        )
        np.testing.assert_array_equal(one["grid_shift"][1:], [change, change])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ergode.Maneuver("noon", [1, 0]), "time of a maneuver"),
        (lambda: ergode.Maneuver(0.5, [np.nan, 0]), "finite"),
        (lambda: ergode.Maneuver(0.5, [1, 0], [1, 1, 1]), "is of 3 variables and its change of 2"),
        (lambda: ergode.Maneuver(0.5, [1, 0], [[1, 2], [2, 1]]), "positive semi-definite"),
        (lambda: ergode.Maneuver(0.5, {"x": 1}, {"x": -1}), "not negative"),
        (lambda: filtered([ergode.Maneuver(0.5, {"z": 1})]), "changes 'z'"),
        (lambda: filtered([ergode.Maneuver(0.5, [1.0])]), "is of 1 variables"),
        (lambda: filtered([ergode.Maneuver(2.0, [1, 0])]), r"maneuvers\[0\] is at time 2"),
        (lambda: filtered([1]), r"maneuvers\[0\] is 1"),
    ],
)
def test_wrong_maneuvers_are_refused_by_name(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_a_region_is_refused():
    with pytest.raises(PlanError, match="maneuvers and region"):
        on_grid([ergode.Maneuver(0.5, [1, 0])], region=height)


@pytest.mark.cuda
@pytest.mark.parametrize("scheme", ["split", "corner-transport"])
def test_a_device_spreads_as_a_cpu_does(scheme):
    """Between times that are stored, with cells pruned before: what was there must not stay."""
    jumps = [ergode.Maneuver(0.4, [0.3, 0], [0.02, 0.1]), ergode.Maneuver(0.7, [0, 0], Q)]
    here, there = (
        on_grid(jumps, device=device, scheme=scheme, threshold=1e-6) for device in ("cpu", "cuda")
    )
    for name in ("mean", "covariance"):
        np.testing.assert_allclose(here[name], there[name], atol=1e-4)
