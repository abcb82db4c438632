"""Wrong input of `branch` is refused at the door, by name."""

import math

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError, PlanError
from ergode.trajectories import branch

FOLD = {"start": {"x": -1}, "parameters": {"mu": -1}, "vary": {"mu": (-2, 1)}}


@pytest.fixture(scope="module")
def field():
    return ergode.field_from_equations({"x": "mu + x**2"})


@pytest.fixture(scope="module")
def rest(field):
    return branch(field, **FOLD)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"vary": {"nu": (0, 1)}}, ModelError, "'nu', which the field does not have; it has mu"),
        ({"vary": {"mu": (1, 1)}}, ModelError, "expected the smaller one first"),
        ({"vary": {"mu": (1, -2)}}, ModelError, "expected the smaller one first"),
        ({"vary": {"mu": (0, math.nan)}}, ModelError, "expected two finite numbers"),
        ({"vary": {"mu": 3}}, ModelError, "expected two finite numbers"),
        ({"vary": "mu"}, ModelError, r"vary is 'mu'; expected the name of a parameter with"),
        ({"vary": {}}, ModelError, "vary has 0 parameters; expected one parameter"),
        ({"vary": {"mu": (0, 1)}}, PlanError, "'mu' is -1 at the start; expected a value between"),
        ({"start": {"x": math.nan}}, ModelError, "start of 'x' is nan"),
        ({"start": {"y": 1}}, ModelError, "start"),
        ({"start": {"x": [1, 2]}}, PlanError, "a branch has one start"),
        ({"start": 3}, ModelError, "start is int; expected a value for each variable"),
        ({"parameters": None}, ModelError, "parameters has no value for 'mu'"),
        ({"parameters": {"mu": [-1, 1]}}, PlanError, "a branch has one start"),
        ({"kind": "cycle"}, PlanError, "did you mean 'cycles'"),
        ({"kind": "cycles"}, PlanError, "cycles start at a Hopf point of a branch"),
        ({"kind": "folds"}, ModelError, "expected two parameters"),
        ({"at": "fold-1"}, PlanError, "at has no effect: start is not a branch"),
        ({"longest_period": 3}, PlanError, "longest_period has no effect"),
        ({"max_points": 0}, PlanError, "max_points is 0"),
        ({"max_step": 0}, PlanError, "max_step is 0"),
    ],
)
def test_wrong_arguments(field, changes, error, message):
    with pytest.raises(error, match=message):
        branch(field, **(FOLD | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, PlanError, "at is missing: .* its special points are bound-1, fold-1, bound-2"),
        ({"at": "hopf-1"}, ModelError, "at is 'hopf-1'; the special points of the branch are"),
        ({"at": 1000}, PlanError, "at is 1000; expected 0 to"),
        ({"at": "fold-1", "kind": "cycles"}, PlanError, "such as 'hopf-1', and at= is 'fold-1'"),
        ({"at": 3, "kind": "cycles"}, PlanError, "point 3, which is not special"),
        ({"at": "fold-1", "parameters": {"mu": 0}}, PlanError, "parameters has no effect"),
    ],
)
def test_wrong_points_of_a_branch(field, rest, changes, error, message):
    with pytest.raises(error, match=message):
        branch(field, start=rest, vary={"mu": (-2, 1)}, **changes)


def test_models_that_cannot_be_continued(rest):
    other = ergode.field_from_equations({"x": "mu - x**2"})
    with pytest.raises(PlanError, match="one of another field"):
        branch(other, start=rest, at=0, vary={"mu": (-2, 1)})
    forced = ergode.field_from_equations({"x": "mu - x + cos(t)"})
    with pytest.raises(PlanError, match="depends on the time t"):
        branch(forced, **FOLD)
    noisy = ergode.field_from_equations({"x": "mu - x"}, diffusion={"x": "0.1"})
    with pytest.raises(PlanError, match="without noise"):
        branch(noisy, **FOLD)
    named = ergode.field_from_equations({"x": "period + x**2"})
    with pytest.raises(ModelError, match="'period' cannot label the result"):
        branch(named, start={"x": -1}, parameters={"period": -1}, vary={"period": (-2, 1)})
    delayed = ergode.field_from_equations({"x": "-x(t - tau)"})
    with pytest.raises(PlanError, match="delay 'tau' becomes -1; expected 0 or more"):
        branch(delayed, start={"x": 0}, parameters={"tau": 1}, vary={"tau": (-1, 2)})


def test_a_field_that_depends_on_time_and_on_a_case():
    def forced(t, y, p):
        return (p[0] - y[0] if t < 0.5 else p[0] - 2 * y[0],)

    with pytest.raises(PlanError, match="depends on the time t"):
        branch(ergode.VectorField(forced, ["x"], ["mu"]), **FOLD)


def test_a_start_without_a_solution_nearby():
    field = ergode.field_from_equations({"x": "mu + 1 + x**2"})
    with pytest.raises(PlanError, match="no equilibrium was found near the start at mu = 0.5"):
        branch(field, start={"x": 0.3}, parameters={"mu": 0.5}, vary={"mu": (0, 1)})


def test_a_simulation_that_is_on_no_cycle():
    field = ergode.field_from_equations({"x": "mu - x"})
    run = ergode.trajectories.integrate(
        field, times=np.linspace(0, 3, 100), initial={"x": 0}, parameters={"mu": 1}, device="cpu"
    )
    options = {"kind": "cycles", "parameters": {"mu": 1}, "vary": {"mu": (0, 2)}}
    with pytest.raises(PlanError, match="does not repeat itself"):
        branch(field, start=run, **options)
    with pytest.raises(PlanError, match="has 5 times after its transient; expected the last two"):
        branch(field, start=run.isel(time=slice(5)), **options)
    swept = ergode.trajectories.integrate(
        field, times=[0, 1], initial={"x": 0}, parameters={"mu": [1, 2]}, device="cpu"
    )
    with pytest.raises(PlanError, match="trajectory of integrate that is not swept"):
        branch(field, start=swept, **options)


def test_newton_that_fails_is_told():
    """A branch that ends where its equation does."""
    field = ergode.field_from_equations({"x": "mu - sqrt(x)"})
    with pytest.warns(ergode.FailureWarning, match="Newton's method did not converge"):
        found = branch(field, start={"x": 1}, parameters={"mu": 1}, vary={"mu": (-1, 2)})
    assert found.attrs["first_end"].startswith("Newton's method did not converge")
    assert float(found["mu"].min()) < 0.01
