"""Branches of delay equations: exact Hopf points and roots, and cycles against simulations."""

import numpy as np
import pytest
from scipy.special import lambertw

import ergode
from ergode.trajectories import branch


@pytest.fixture(scope="module")
def hutchinson():
    return ergode.field_from_equations({"x": "r * x * (1 - x(t - tau))"})


@pytest.fixture(scope="module")
def logistic(hutchinson):
    return branch(hutchinson, start={"x": 1}, parameters={"r": 1, "tau": 0.5}, vary={"tau": (0, 3)})


@pytest.fixture(scope="module")
def mackey_glass():
    return ergode.field_from_equations({"x": "b * x(t - tau) / (1 + x(t - tau)**10) - g * x"})


def test_characteristic_roots_are_branches_of_the_lambert_function(logistic):
    """x' = -x(t - tau): the roots are W_k(-tau) / tau."""
    for k in (5, 15, 25):
        tau = float(logistic["tau"][k])
        exact = np.array([lambertw(-tau, n) / tau for n in range(-4, 4)])
        found = logistic["eigenvalue"].values[k] @ [1, 1j]
        for root in exact:
            assert np.nanmin(np.abs(found - root)) < 1e-9 * (1 + abs(root))
        assert found[0].real == pytest.approx(exact.real.max(), abs=1e-10)
    assert logistic["eigenvalue"].values[0, 0, 0] == pytest.approx(-1)  # without a delay


def test_the_hopf_point_of_the_delayed_logistic_equation(hutchinson, logistic, special):
    """r tau = pi / 2 with frequency r (Hutchinson 1948), and the supercritical coefficient.

    B. D. Hassard, N. D. Kazarinoff, Y.-H. Wan, "Theory and applications of Hopf bifurcation"
    (1981): the amplitude squared grows as 40 / (3 pi - 2) (r tau - pi / 2).
    """
    hopf = special(logistic, "hopf-1")
    assert float(hopf["tau"]) == pytest.approx(np.pi / 2, rel=1e-12)
    assert float(hopf["frequency"]) == pytest.approx(1, rel=1e-10)
    # With |q| = 1 the amplitude squared grows as 4 Re(d root / d tau) / (w |coefficient|).
    slope = 1 / (1 + np.pi**2 / 4)
    exact = -4 * slope * (3 * np.pi - 2) / 40
    assert float(hopf["lyapunov_coefficient"]) == pytest.approx(exact, rel=1e-9)
    cycles = branch(
        hutchinson, start=logistic, at="hopf-1", kind="cycles", vary={"tau": (1, 2)},
        max_step=0.01, max_points=8,
    )  # fmt: skip
    amplitude = (cycles["highest"] - cycles["lowest"]).values[:, 0] / 2
    grown = cycles["tau"].values - np.pi / 2
    ratios = amplitude[1:] ** 2 / grown[1:]
    limit = np.polynomial.polynomial.polyfit(amplitude[1:] ** 2, ratios, 2)[0]
    assert limit == pytest.approx(40 / (3 * np.pi - 2), rel=1e-3)


def test_hopf_points_of_two_parameters(hutchinson, logistic, names):
    found = branch(
        hutchinson, start=logistic, at="hopf-1", kind="hopf", vary={"tau": (0.5, 4), "r": (0.4, 3)}
    )
    np.testing.assert_allclose(found["r"] * found["tau"], np.pi / 2, rtol=1e-12)
    np.testing.assert_allclose(found["frequency"], found["r"], rtol=1e-12)
    assert names(found) == ["bound-1", "bound-2"]


def test_mackey_glass(mackey_glass, special):
    """Hopf points where cos(w tau) = -1/4 with w = sqrt(0.15), at x = 1."""
    rest = branch(
        mackey_glass, start={"x": 1}, parameters={"b": 0.2, "g": 0.1, "tau": 1},
        vary={"tau": (0, 25)},
    )  # fmt: skip
    w = 0.15**0.5
    for k in (0, 1):
        exact = (np.arccos(-0.25) + 2 * np.pi * k) / w
        hopf = special(rest, f"hopf-{k + 1}")
        assert float(hopf["tau"]) == pytest.approx(exact, rel=1e-10)
        assert float(hopf["frequency"]) == pytest.approx(w, rel=1e-10)
    cycles = branch(mackey_glass, start=rest, at="hopf-1", kind="cycles", vary={"tau": (0, 15)})
    doubling = special(cycles, "doubling-1")
    assert float(doubling["tau"]) == pytest.approx(13.25, abs=0.01)
    np.testing.assert_allclose(np.abs(cycles["multiplier"].values[1:] @ [1, 1j] - 1).min(axis=1), 0,
                               atol=1e-6)  # fmt: skip
    double = branch(mackey_glass, start=cycles, at="doubling-1", kind="cycles",
                    vary={"tau": (13, 14)}, max_points=5)  # fmt: skip
    assert double["stable"].values[1:].all()
    assert float(double["period"][0]) == pytest.approx(2 * float(doubling["period"]))
    curve = branch(
        mackey_glass, start=cycles, at="doubling-1", kind="doublings",
        vary={"tau": (10, 20), "b": (0.19, 0.21)}, max_step=0.3, max_points=1,
    )  # fmt: skip
    tau, b = float(curve["tau"][0]), float(curve["b"][0])
    assert abs(b - 0.2) > 1e-3
    beside = branch(
        mackey_glass, start=curve, at=0, kind="cycles", vary={"tau": (tau - 1, tau + 1)},
        max_step=0.3, max_points=2,
    )  # fmt: skip
    assert float(special(beside, "doubling-1")["tau"]) == pytest.approx(tau, abs=1e-8)


def test_a_stable_cycle_with_delay_is_that_of_a_simulation(hutchinson, logistic):
    cycles = branch(hutchinson, start=logistic, at="hopf-1", kind="cycles", vary={"tau": (1, 2.5)})
    k = int(np.abs(cycles["tau"].values - 2.0).argmin())
    tau, period = float(cycles["tau"][k]), float(cycles["period"][k])
    times = np.concatenate([[0.0], np.linspace(100, 100 + 2.2 * period, 800)])
    run = ergode.trajectories.integrate(
        hutchinson, times=times, initial={"x": 0.5}, parameters={"r": 1, "tau": tau}, device="cpu",
        rtol=1e-9, atol=1e-9,
    )  # fmt: skip
    again = branch(
        hutchinson, start=run, kind="cycles", parameters={"r": 1, "tau": tau},
        vary={"tau": (1, 3)}, max_points=1,
    )  # fmt: skip
    one = again.isel(point=int(np.abs(again["arclength"].values).argmin()))
    assert bool(one["stable"])
    assert float(one["period"]) == pytest.approx(period, rel=1e-9)
    np.testing.assert_allclose(one["highest"], cycles["highest"][k], rtol=1e-8)
    state = run["state"].values[1:, 0]
    assert state.max() == pytest.approx(float(one["highest"][0]), rel=1e-3)
    assert state.min() == pytest.approx(float(one["lowest"][0]), abs=1e-4)


def test_two_delays_of_which_one_is_longer_than_the_period():
    """x' = -x(t - 1) + e x(t - 9): its roots obey the characteristic equation."""
    field = ergode.field_from_equations({"x": "a * tanh(x(t - s)) + b * tanh(x(t - 9))"})
    rest = branch(
        field, start={"x": 0}, parameters={"a": -0.1, "b": 0.05, "s": 1}, vary={"a": (-2.2, 0)}
    )
    roots = rest["eigenvalue"].values @ [1, 1j]
    a = rest["a"].values[:, None]
    error = roots - a * np.exp(-roots) - 0.05 * np.exp(-9 * roots)
    assert np.nanmax(np.abs(error)) < 1e-9
    first = [str(one) for one in rest["special"].values if "hopf" in str(one)][-1]
    cycles = branch(field, start=rest, at=first, kind="cycles", vary={"a": (-2.2, 0)}, max_points=3)
    assert float(cycles["period"][0]) < 9
    trivial = np.abs(cycles["multiplier"].values[1:] @ [1, 1j] - 1).min(axis=1)
    np.testing.assert_allclose(trivial, 0, atol=1e-6)


# The mesh is that of the circle, whose perturbations oscillate faster if the delay is long.
@pytest.mark.parametrize(("tau", "error"), [(1.5, 1e-6), (7.0, 1e-4)])
def test_multipliers_of_a_cycle_with_delay_are_exact(tau, error):
    """A circle of period pi beside z' = -z(t - tau), with multipliers exp(pi W_k(-tau) / tau)."""
    field = ergode.field_from_equations({
        "x": "mu * x - 2 * y - x * (x**2 + y**2)", "y": "2 * x + mu * y - y * (x**2 + y**2)",
        "z": "-z(t - tau)",
    })  # fmt: skip
    rest = branch(
        field, start={"x": 0, "y": 0, "z": 0}, parameters={"mu": -1, "tau": tau},
        vary={"mu": (-1, 1)}, max_step=0.2,
    )  # fmt: skip
    found = branch(
        field, start=rest, at="hopf-1", kind="cycles", vary={"mu": (-1, 1)}, max_step=0.2
    )
    multipliers = found["multiplier"].values[-1] @ [1, 1j]
    exact = np.exp(np.pi * np.array([lambertw(-tau, k) for k in range(-3, 3)]) / tau)
    exact = np.append(exact, [1.0, np.exp(-2 * np.pi)])
    for one in exact[np.abs(exact) > np.abs(multipliers).min() + error]:
        assert np.abs(multipliers - one).min() < error * max(1, abs(one))
    assert int(found["unstable_count"][-1]) == np.count_nonzero(np.abs(exact) > 1 + 1e-9)


def test_a_cycle_of_two_variables_and_two_delays_is_that_of_a_simulation():
    field = ergode.field_from_equations(
        {"x": "-x + a * tanh(y(t - 1.3))", "y": "-0.7 * y - b * tanh(x(t - tau))"}
    )
    parameters = {"a": 1.5, "b": 0.2, "tau": 0.8}
    rest = branch(field, start={"x": 0, "y": 0}, parameters=parameters, vary={"b": (0, 4)})
    cycles = branch(field, start=rest, at="hopf-1", kind="cycles", vary={"b": (0, 3)})
    b, period = float(cycles["b"][-1]), float(cycles["period"][-1])
    times = np.concatenate([[0.0], np.linspace(150, 150 + 2.2 * period, 1000)])
    run = ergode.trajectories.integrate(
        field, times=times, initial={"x": 0.5, "y": 0.1}, parameters={**parameters, "b": b},
        rtol=1e-9, atol=1e-9, device="cpu",
    )  # fmt: skip
    parameters = {**parameters, "b": b}
    again = branch(
        field, start=run, kind="cycles", parameters=parameters, vary={"tau": (0.7, 0.9)},
        max_points=1,
    )  # fmt: skip
    one = again.isel(point=int(np.abs(again["arclength"].values).argmin()))
    assert float(one["period"]) == pytest.approx(period, rel=1e-8)
    assert bool(one["stable"])
    np.testing.assert_allclose(run["state"].values[1:].max(axis=0), one["highest"], rtol=2e-5)


@pytest.mark.parametrize("exponent", [-30, 30])
def test_delays_in_any_unit_of_time(exponent, special):
    unit = 2.0**exponent
    field = ergode.field_from_equations({"x": "b * x(t - tau) / (1 + x(t - tau)**10) - g * x"})
    vary = {"tau": (unit, 12 * unit)}
    parameters = {"b": 0.2 / unit, "g": 0.1 / unit, "tau": unit}
    rest = branch(field, start={"x": 1}, parameters=parameters, vary=vary)
    hopf = special(rest, "hopf-1")
    assert float(hopf["tau"]) / unit == pytest.approx(np.arccos(-0.25) / 0.15**0.5, rel=1e-10)
    assert np.isfinite(rest["eigenvalue"].values[:, :4]).all()
    cycles = branch(field, start=rest, at="hopf-1", kind="cycles", vary=vary)
    assert float(cycles["tau"][-1]) / unit == pytest.approx(12)
    assert float(cycles["highest"][-1, 0]) == pytest.approx(1.2200025, abs=1e-6)
    assert cycles["stable"].all()


@pytest.mark.parametrize(
    ("a", "b", "longest"), [(5, 6, 5), (1, 1.05, 60), (1, 20, 3)], ids=["close", "long", "many"]
)
def test_all_hopf_points_and_unstable_roots_of_a_linear_equation(a, b, longest):
    """x' = -a x - b x(t - tau): w^2 = b^2 - a^2 and cos(w tau) = -a / b; two roots each cross."""
    field = ergode.field_from_equations({"x": "-a * x - b * x(t - tau)"})
    found = branch(
        field, start={"x": 0}, parameters={"a": a, "b": b, "tau": 0}, vary={"tau": (0, longest)}
    )
    w = (b**2 - a**2) ** 0.5
    exact = (np.arccos(-a / b) + 2 * np.pi * np.arange(20)) / w
    is_hopf = np.array(["hopf" in str(one) for one in found["special"].values])
    np.testing.assert_allclose(found["tau"][is_hopf], exact[exact < longest], rtol=1e-9)
    np.testing.assert_allclose(found["frequency"][is_hopf], w, rtol=1e-9)
    tau = found["tau"].values[~is_hopf]
    expected = 2 * np.count_nonzero(exact < tau[:, None], axis=1)
    np.testing.assert_array_equal(found["unstable_count"].values[~is_hopf], expected)
    roots = found["eigenvalue"].values @ [1, 1j]
    error = roots + a + b * np.exp(-roots * found["tau"].values[:, None])
    assert np.nanmax(np.abs(error) / (1 + np.abs(roots))) < 1e-9
    assert np.all(np.count_nonzero(roots.real > 0, axis=1)[~is_hopf] == expected)


def test_hopf_points_of_a_steep_feedback():
    """Blood cells (Mackey and Glass) at x = 1: x' = -x - 4 x(t - tau), with six of them."""
    field = ergode.field_from_equations({"x": "-x + p / (1 + x(t - tau)**n)"})
    found = branch(
        field, start={"x": 1}, parameters={"p": 2, "n": 8, "tau": 0.1}, vary={"tau": (0, 10)}
    )
    is_hopf = np.array(["hopf" in str(one) for one in found["special"].values])
    exact = (np.arccos(-0.25) + 2 * np.pi * np.arange(6)) / 15**0.5
    np.testing.assert_allclose(found["tau"][is_hopf], exact, rtol=1e-9)
    assert int(found["unstable_count"][-1]) == 12


def test_roots_that_coincide_are_all_counted():
    """Two copies of x' = -x(t - tau), and a fast variable that follows a slow one."""
    field = ergode.field_from_equations({"x": "-x(t - tau)", "y": "-y(t - tau)"})
    found = branch(
        field, start={"x": 0, "y": 0}, parameters={"tau": 1}, vary={"tau": (0, 9)}, max_step=0.1
    )
    tau = found["tau"].values
    expected = 4 * ((tau > np.pi / 2) * 1 + (tau > 5 * np.pi / 2))
    plain = found["special"].values == ""
    np.testing.assert_array_equal(found["unstable_count"].values[plain], expected[plain])
    fast = ergode.field_from_equations({"x": "-x - 3 * tanh(y(t - tau))", "y": "1e6 * (x - y)"})
    found = branch(
        fast, start={"x": 0, "y": 0}, parameters={"tau": 1}, vary={"tau": (0, 5)}, max_step=0.1
    )
    plain = found["special"].values == ""
    exact = (np.arccos(-1 / 3) + 2 * np.pi * np.arange(3)) / 8**0.5
    expected = 2 * np.count_nonzero(exact < found["tau"].values[:, None], axis=1)
    np.testing.assert_array_equal(found["unstable_count"].values[plain], expected[plain])


def test_roots_that_cannot_be_counted_are_told():
    field = ergode.field_from_equations({"x": "-x - b * x(t - tau)"})
    with pytest.warns(ergode.AccuracyWarning, match="characteristic roots of 3 of 3 points"):
        branch(
            field, start={"x": 0}, parameters={"b": 1e4, "tau": 10}, vary={"tau": (9, 11)},
            max_points=1,
        )  # fmt: skip
