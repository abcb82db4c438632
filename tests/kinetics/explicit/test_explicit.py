"""The explicit method, and what all methods have in common."""

import dataclasses

import numpy as np
import pytest
from kernel_cases import EXPLICIT, ROBERTSON
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import ergode
from ergode.core.status import Status
from ergode.kinetics import integrate
from ergode.kinetics.methods import METHODS

RATES = {"A -> B": 3.0, "B -> A": 5.0, "B -> C": 400.0, "C -> B": 100.0, "C -> D": 2.0}


def linear(rates):
    return ergode.ReactionNetwork(
        dict.fromkeys("ABCD", 0.0),
        [ergode.Reaction(text, rate_constant=k) for text, k in rates.items()],
    )


def exact(rates, t):
    matrix = np.zeros((4, 4))
    for text, k in rates.items():
        source, target = ("ABCD".index(text[0]), "ABCD".index(text[-1]))
        matrix[source, source] -= k
        matrix[target, source] += k
    return expm(matrix * t)[:, 0]


# By the mass that a step of the asymptotic method may gain or lose; the others by rtol.
ALLOWED = {"asymptotic": 5e-3}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_follows_a_linear_network(method):
    times = [0.0, 1e-3, 0.1, 1.0]
    result = integrate(
        linear(RATES), times=times, initial={"A": [1.0, 2.0]}, method=method, rtol=1e-4,
        device="cpu",
    )  # fmt: skip
    assert (result["status"] == Status.DONE).all()
    found = result["concentration"].values
    for k, t in enumerate(times):
        np.testing.assert_allclose(found[0, k], exact(RATES, t), atol=ALLOWED.get(method, 1e-3))
        np.testing.assert_allclose(found[1, k], 2 * found[0, k], rtol=2e-2, atol=1e-3)
    assert (found >= 0).all()
    off = np.abs(found.sum(axis=2) / found[:, :1].sum(axis=2) - 1).max()
    if method in EXPLICIT:
        assert off < 10 * ALLOWED[method]
        # What is left at the end is what is told.
        end = np.abs(found[:, -1].sum(axis=1) / found[:, 0].sum(axis=1) - 1)
        np.testing.assert_allclose(result["conservation_error"], end, atol=1e-12)
    else:
        assert off < 1e-12
    taken, repeated = result["step_count"].values, result["repeated_count"].values
    assert result.attrs["steps_taken"] == taken.sum()
    assert (taken > 10).all()
    assert (repeated >= 0).all()
    with pytest.warns(RuntimeWarning, match="limit on the number of steps"):
        limited = integrate(
            linear(RATES), times=times, initial={"A": 1.0}, method=method, rtol=1e-4,
            max_steps=int(taken[0] + repeated[0]) - 1, device="cpu",
        )  # fmt: skip
    assert limited["status"].item() == Status.TOO_MANY_STEPS
    assert limited["step_count"].item() + limited["repeated_count"].item() == (
        taken[0] + repeated[0] - 1
    )


@pytest.mark.parametrize("method", EXPLICIT)
def test_the_error_of_a_species_that_lags_behind_is_stated(method):
    """Robertson for long: B is set by algebra, a step late, which drains A and C all the time."""

    def change(t, y):
        a, b, c = y
        one, two, three = 0.04 * a, 3e7 * b * b, 1e4 * b * c
        return [three - one, one - two - three, two]

    exact = solve_ivp(
        change, (0, 1e4), [1.0, 0.0, 0.0], method="Radau", rtol=1e-9, atol=1e-14
    ).y[:, -1]  # fmt: skip
    with pytest.warns(ergode.AccuracyWarning, match="estimated error"):
        result = integrate(
            ROBERTSON, times=[0, 1e4], initial={"A": 1.0}, method=method, device="cpu"
        )
    error = np.abs(result["concentration"].values[0, -1] - exact).max()
    assert error > 1e-3
    assert result["error_estimate"].item() == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("method", EXPLICIT)
@pytest.mark.parametrize("rtol", [1e-3, 1e-4])
def test_an_error_above_ten_times_rtol_gives_a_warning(method, rtol, recwarn):
    """Whether the method follows rtol or not: "asymptotic" is between 1e-3 and 1e-2 off here."""
    result = integrate(
        ROBERTSON, times=[0, 1e4], initial={"A": 1.0}, method=method, rtol=rtol, device="cpu"
    )
    estimate = result["error_estimate"].item()
    said = any("estimated error" in str(one.message) for one in recwarn)
    assert said == (estimate > 10 * rtol)
    if method == "asymptotic":
        assert said == (rtol == 1e-4)


def test_the_error_of_zones_is_stated_one_by_one(monkeypatch):
    """Not a number for a zone that failed, and infinite where rodas4 failed."""
    options = {"times": [0, 1.0], "initial": {"A": [1.0, 2.0]}, "rtol": 1e-3, "device": "cpu"}
    found = integrate(linear(RATES), method="asymptotic", **options)
    off = np.abs(
        found["concentration"].values[:, -1] - np.outer([1.0, 2.0], exact(RATES, 1.0))
    ).max(axis=1)
    np.testing.assert_allclose(found["error_estimate"], off / [1.0, 2.0], rtol=0.1)
    implicit = integrate(linear(RATES), **options)
    assert np.isnan(implicit["error_estimate"]).all()
    with pytest.warns(ergode.FailureWarning):
        failed = integrate(linear(RATES), method="asymptotic", max_steps=2, **options)
    assert np.isnan(failed["error_estimate"]).all()
    few = dataclasses.replace(METHODS["rodas4"], max_steps=2)
    monkeypatch.setitem(METHODS, "rodas4", few)
    with pytest.warns(ergode.AccuracyWarning, match="in 2 of 2 zones .rodas4. failed"):
        unknown = integrate(linear(RATES), method="asymptotic", **options)
    assert np.isinf(unknown["error_estimate"]).all()
