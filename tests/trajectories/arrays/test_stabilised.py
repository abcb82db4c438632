"""The Runge-Kutta-Chebyshev method: its polynomials, diffusion with known solutions, and limits."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from stiff_fields import bar, modes, robertson

import ergode
from ergode.trajectories import integrate
from ergode.trajectories.steppers.chebyshev import stage_counts, stage_table, stages_of


def solved(n=200, times=(0.0, 0.1), **how):
    return integrate(
        bar(n), times=times, initial={"x": modes(n, 0.0)}, parameters={"D": 1.0}, method="rkc2",
        **{"device": "cpu", **how},
    )  # fmt: skip


def amplification(count, z):
    """What a step does to the linear equation with the product `z` of step and eigenvalue."""
    before, now = np.ones_like(z), np.ones_like(z)
    for row, (mu, nu, new, old, _) in enumerate(stages_of(count)):
        moved = 1 + mu * (now - 1) + nu * (before - 1) + z * (new * now + old)
        before, now = (np.ones_like(z) if row == 0 else now), moved
    return now


def test_every_number_of_stages_is_stable_as_far_as_its_limit():
    counts = stage_counts(1e-6, 2.2e-16)
    limits = stage_table(1e-6, 2.2e-16)[2]
    for count, limit in zip(counts, limits, strict=True):
        factors = amplification(count, np.linspace(-limit, -1e-3 * limit, 4_001))
        assert np.abs(factors).max() < 1
        z = np.array([-1e-3, -2e-3])
        one, other = amplification(count, z) - (1 + z + z**2 / 2)
        assert abs(one) < 1e-9 and (abs(other) < 1e-12 or 7 < other / one < 9)  # of order 3
    assert counts[-1] == 500 and (np.diff(counts) <= 0.06 * counts[1:] + 1).all()


def test_order_of_convergence():
    errors = [np.abs(solved(step=0.1 / count)["x"].values[-1] - modes(200, 0.1)).max()
              for count in (64, 128)]  # fmt: skip
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.15


def test_few_steps_keep_the_tolerance_where_stability_would_take_thousands():
    for tolerance in (1e-3, 1e-5, 1e-7):
        found = solved(times=[0.0, 0.013, 0.1], rtol=tolerance, atol=tolerance)
        exact = np.array([modes(200, t) for t in (0.0, 0.013, 0.1)])
        assert np.abs(found["x"].values - exact).max() < 0.3 * tolerance ** (
            2 / 3
        )  # of order 2, per step 3
        assert found.attrs["steps_taken"] < 1.2 / tolerance ** (1 / 2.5) + 30
        assert found.attrs["steps_rejected"] < 5
    # One of tsit5's steps is at most 3.3 / 161,604 long: 4,900 of them.


@pytest.mark.parametrize("count", [1, 3, 20])
def test_trajectories_do_not_depend_on_each_other(count):
    """A direction that another trajectory left behind would be another spectral radius."""
    rates = np.linspace(0.1, 2.0, 20)
    found, one = (
        integrate(
            bar(50), times=[0.0, 0.1], initial={"x": modes(50, 0.0)}, method="rkc2",
            parameters={"D": some}, device=device,
        )["x"].values
        for some, device in ((rates, "cpu:2"), (rates[-count:], "cpu:1"))
    )  # fmt: skip
    assert_array_equal(found[-count:], one)


def test_threads_that_share_a_trajectory_change_no_bit():
    one, three = (solved(9_000, (0.0, 1e-5), device=f"cpu:{n}")["x"].values for n in (1, 3))
    assert_array_equal(one, three)


def test_stiff_chemistry_is_given_up_and_said_so():
    field = ergode.VectorField(rhs=robertson, variables=("y", 3))
    with pytest.warns(ergode.FailureWarning):
        found = integrate(field, times=[0.0, 1e5], initial={"y": [1.0, 0.0, 0.0]}, method="rkc2",
                          device="cpu", max_steps=500)  # fmt: skip
    assert found["status"] == ergode.Status.TOO_MANY_STEPS


def test_small_fields_are_refused():
    field = ergode.field_from_equations({"x": "-x"})
    with pytest.raises(ergode.PlanError, match="'rkc2' is for variables that are arrays"):
        integrate(field, times=[0.0, 1.0], initial={"x": 1.0}, method="rkc2", device="cpu")


def test_a_tolerance_of_each_unknown():
    """Equal ones give the numbers of one for all."""
    found = [
        integrate(bar(100), times=[0.0, 0.1], initial={"x": modes(100, 0.0)}, method="rkc2",
                  parameters={"D": 1.0}, rtol=1e-4, atol=atol, device="cpu")
        for atol in (1e-6, {"x": np.full(100, 1e-6)})
    ]  # fmt: skip
    np.testing.assert_array_equal(*(one["x"].values for one in found))
