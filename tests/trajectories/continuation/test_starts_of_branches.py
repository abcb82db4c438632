"""Branches that begin at zero, where branches meet, or where derivatives do not exist."""

import warnings

import numpy as np
import pytest

import ergode
from ergode.core.errors import PlanError
from ergode.trajectories import branch

RANGE = {"mu": (-1.5, 1.5)}


@pytest.fixture(scope="module")
def transcritical():
    return ergode.field_from_equations({"x": "mu * x - x**2"})


@pytest.mark.parametrize("guess", [0.0, 1e-15, -1e-300, 1e-3])
def test_a_start_that_is_zero_up_to_rounding(transcritical, guess, names):
    found = branch(transcritical, start={"x": guess}, parameters={"mu": -1}, vary=RANGE)
    assert names(found) == ["bound-1", "branch-1", "bound-2"]
    np.testing.assert_allclose(found["state"], 0, atol=1e-15)


def test_lorenz_from_beside_the_origin(names, special):
    """The origin loses its stability at rho = 1, the others theirs at 470 / 19."""
    start = {"x": 1e-3, "y": 1e-3, "z": 1e-3}
    rest = branch(
        ergode.fields.lorenz63(), start=start, vary={"rho": (0, 30)},
        parameters={"sigma": 10, "rho": 0.5, "beta": 8 / 3},
    )  # fmt: skip
    assert names(rest) == ["bound-1", "branch-1", "bound-2"]
    assert float(special(rest, "branch-1")["rho"]) == pytest.approx(1)
    other = branch(ergode.fields.lorenz63(), start=rest, at="branch-1", vary={"rho": (0, 30)})
    assert float(special(other, "hopf-1")["rho"]) == pytest.approx(470 / 19, rel=1e-9)


@pytest.mark.parametrize("start", [0.0, -1.0])
def test_the_other_branch_of_a_transcritical_point(transcritical, start, special, names):
    """From x = 0 to x = mu, and back, over the whole range."""
    first = branch(transcritical, start={"x": start}, parameters={"mu": -1}, vary=RANGE)
    assert float(special(first, "branch-1")["mu"]) == pytest.approx(0, abs=1e-9)
    other = branch(transcritical, start=first, at="branch-1", vary=RANGE)
    expected = other["mu"].values if start == 0 else 0.0
    np.testing.assert_allclose(other["state"].values[:, 0], expected, atol=1e-12)
    assert names(other) == ["bound-1", "branch-1", "bound-2"]
    assert other.sizes["point"] < 100


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_ranges_of_any_size(size, names):
    line = ergode.field_from_equations({"x": "mu - x"})
    vary = {"mu": (-size, size)}
    found = branch(line, start={"x": 0}, parameters={"mu": 0}, vary=vary)
    assert names(found) == ["bound-1", "bound-2"]
    np.testing.assert_allclose(found["state"].values[:, 0], found["mu"], rtol=1e-12)
    fold = ergode.field_from_equations({"x": "mu + x**2"})
    found = branch(fold, start={"x": 0}, parameters={"mu": 0}, vary=vary)
    assert names(found) == ["bound-1", "fold-1", "bound-2"]
    assert float(found["mu"].min()) == pytest.approx(-size)


def test_a_parameter_whose_effect_has_a_corner():
    field = ergode.field_from_equations({"x": "max(mu, 0) - x", "y": "x - y"})
    found = branch(field, start={"x": 0.7, "y": 0.7}, parameters={"mu": 0.7}, vary={"mu": (-1, 2)})
    np.testing.assert_allclose(found["mu"].values[[0, -1]], [-1, 2])
    expected = np.maximum(found["mu"].values, 0)[:, None] * [1, 1]
    np.testing.assert_allclose(found["state"], expected, atol=1e-9)


def test_equilibria_that_are_not_isolated_are_refused_as_such():
    field = ergode.field_from_equations({"x": "mu * (y - x)", "y": "mu * (x - y)"})
    with pytest.raises(PlanError, match="is an equilibrium at mu = 0.7, and the Jacobian is singu"):
        branch(field, start={"x": 3, "y": 3}, parameters={"mu": 0.7}, vary={"mu": (0.1, 2)})


def test_a_branch_that_is_cut_by_the_default_of_max_points_is_told():
    line = ergode.field_from_equations({"x": "mu - x"})
    options = {"start": {"x": 0}, "parameters": {"mu": 0}, "vary": {"mu": (-1, 1)}}
    with pytest.warns(ergode.AccuracyWarning, match="400 points, the default of max_points"):
        branch(line, max_step=1e-4, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        branch(line, max_step=1e-4, max_points=5, **options)


def test_two_hopf_points_within_a_step_are_both_found():
    field = ergode.field_from_equations({
        "x": "mu * x - y - x**3", "y": "x + mu * y",
        "u": "(mu - 0.01) * u - 2 * v - u**3", "v": "2 * u + (mu - 0.01) * v",
    })  # fmt: skip
    found = branch(
        field, start=dict.fromkeys("xyuv", 0), parameters={"mu": -1}, vary={"mu": (-1, 1)},
        max_step=0.3,
    )  # fmt: skip
    is_hopf = np.array(["hopf" in str(one) for one in found["special"].values])
    np.testing.assert_allclose(found["mu"][is_hopf], [0, 0.01], atol=1e-12)


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e9, 1e20])
def test_a_start_at_zero_needs_no_unit(size):
    """The branch ended where it began, or there was none: zero tells no size of the variable.

    a = 3 u - 4 u^2 + u^3 folds at u = (4 - sqrt(7)) / 3.
    """
    field = ergode.field_from_equations(
        {"x": "K*(a - 3*(x/K) + 4*(x/K)**2 - (x/K)**3)", "y": "x/K - y"}, ["a", "K"]
    )
    found = ergode.trajectories.branch(
        field, start={"x": 0.0, "y": 0.3}, parameters={"a": 0.3, "K": size}, vary={"a": (0, 2)}
    )
    u = (4 - np.sqrt(7)) / 3
    fold = found.isel(point=int(np.flatnonzero(found["special"].values == "fold-1")[0]))
    np.testing.assert_allclose(fold["a"], 3 * u - 4 * u**2 + u**3, rtol=1e-8)
    assert ((found["a"] > -1e-9) & (found["a"] < 2 + 1e-9)).all()
