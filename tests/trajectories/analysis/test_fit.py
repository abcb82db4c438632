"""Fits of trajectories, against linear regression, known truth and SciPy with differences."""

import math
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, least_squares

import ergode
from ergode.core.errors import AccuracyWarning, FailureWarning, ModelError, PlanError
from ergode.trajectories import ZeroCrossing, fit, integrate

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def line(t, y, p):
    return p[0] + p[1] * t, 0.0 * y[1]


def hunting(t, y, p):
    return p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]


def fall(t, y, p):
    return y[1], -p[1]


def height(t, y, p):
    return y[0]


def bounce(t, y, p):
    return 0.0, -p[0] * y[1]


def burst(t, y, p):
    return (p[0] * y[0] * y[0],)


LINE = ergode.VectorField(line, ["x", "idle"], ["slope", "bend"])
HUNT = ergode.VectorField(hunting, ["prey", "predator"], ["birth", "hunt", "death"])
BALL = ergode.VectorField(fall, ["height", "speed"], ["restitution", "gravity"])
BURST = ergode.VectorField(burst, ["x"], ["k"])
TRUTH = {"birth": 1.1, "hunt": 0.4, "death": 0.6}
TIMES = np.linspace(0, 12, 25)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("second", [1e-9, 1e9])
def test_units_do_not_matter(unit, second):
    """Of a chain whose second member is measured; without deviations, and from far away."""
    chain = ergode.field_from_equations({"x": "-k * x", "z": "k * x - q * z"})
    times = np.linspace(0, 5, 11)
    data = 3 * unit * 0.6 / 0.9 * (np.exp(-0.6 * times) - np.exp(-1.5 * times))
    found = fit(
        chain, times=times * second, data={"z": data}, initial={"x": 2 * unit, "z": 0.0},
        parameters={"k": 0.5 / second, "q": 2 / second}, estimate=["k", "q", "x"], device="cpu",
        atol=1e-9 * unit,
    )  # fmt: skip
    np.testing.assert_allclose(
        found["estimate"] * [second, second, 1 / unit], [0.6, 1.5, 3.0], rtol=1e-8
    )


def test_data_below_the_tolerance_and_estimates_on_a_bound_are_told():
    given = {
        "times": [0, 1, 2, 3], "initial": {"x": 1e-12, "idle": 1.0}, "device": "cpu",
        "parameters": {"slope": 0.0, "bend": 0.0}, "estimate": ["slope", "bend", "x"],
    }  # fmt: skip
    with pytest.warns(ergode.AccuracyWarning, match="data of 'x' are at most 4e-12, and atol is"):
        fit(LINE, data={"x": [1e-12, 2e-12, 4e-12, 4e-12]}, **given)
    data = [0.0, 2.0, 4.1, 6.1]
    with pytest.warns(ergode.AccuracyWarning, match="ended where slope meets its bound"):
        fit(LINE, data={"x": data}, bounds={"slope": (-1.0, 1.0)}, **given)


@pytest.mark.parametrize("begin", [0.0, 1e-12, 1e-3, 1.0, -1e3])
def test_where_a_search_begins_says_nothing_about_its_end(begin):
    """Of a parabola, which has a closed form."""
    times, data = np.arange(4.0), np.array([0.0, 2.0, 4.1, 6.1])
    found = fit(
        LINE,
        times=times,
        data={"x": data},
        initial={"x": begin, "idle": 1.0},
        device="cpu",
        parameters={"slope": 0.0, "bend": 0.0},
        estimate=["slope", "bend", "x"],
    )
    _, slope, x = np.polyfit(times, data, 2)
    best = found["estimate"].sel(parameter=["slope", "x"])
    np.testing.assert_allclose(best, [slope, x], atol=1e-7)
    assert found.attrs["converged"] == 1 and found.attrs["cost"] < 0.01


@DEVICES
@pytest.mark.parametrize("known", [True, False])
def test_a_linear_model_is_regression(known, device):
    """Of x = x0 + slope t + bend t^2 / 2, with deviations that are known or not."""
    rng = np.random.default_rng(1)
    times = np.array([0, 0.5, 1, 2, 3, 4.5, 5])
    deviation = np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.5]) if known else np.ones(7)
    data = 2.0 + 0.7 * times - 0.05 * times**2 + 0.3 * rng.normal(size=7)
    data[3] = np.nan
    found = fit(
        LINE, times=times, data={"x": data}, initial={"x": 0.0, "idle": 1.0},
        parameters={"slope": 0.0, "bend": 0.0}, estimate=["slope", "bend", "x"],
        deviation={"x": deviation} if known else None, device=device, profile=["bend", "slope"],
    )  # fmt: skip
    kept = np.isfinite(data)
    design = np.column_stack([times, times**2 / 2, np.ones(7)])[kept] / deviation[kept, None]
    exact, (square,), *_ = np.linalg.lstsq(design, data[kept] / deviation[kept], rcond=None)
    covariance = np.linalg.inv(design.T @ design) * (1.0 if known else square / 3)
    np.testing.assert_allclose(found["estimate"], exact, rtol=1e-7)
    np.testing.assert_allclose(found["covariance"], covariance, rtol=1e-6)
    np.testing.assert_allclose(found["standard_error"] ** 2, np.diag(covariance), rtol=1e-6)
    assert found.attrs["reduced_chi_square"] == pytest.approx(square / 3)
    assert found.attrs["converged"] == 1
    half = 1.9599639845 * np.diag(covariance)[[1, 0]] ** 0.5
    ends = exact[[1, 0], None] + np.array([-1.0, 1.0]) * half[:, None]
    np.testing.assert_allclose(found["interval"], ends, rtol=1e-5)
    residual = found["residual"].sel(variable="x").values
    np.testing.assert_allclose(
        residual[kept], data[kept] / deviation[kept] - design @ exact, atol=1e-7
    )
    assert (
        np.isnan(residual[~kept]).all() and np.isnan(found["residual"].sel(variable="idle")).all()
    )


def test_profiles_of_a_chain_are_those_of_its_formula():
    """The least cost for each rate, by SciPy. Both rates may be exchanged, so a bound is an end."""
    chain = ergode.field_from_equations({"x": "-k * x", "z": "k * x - q * z"})
    times = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    data = np.array([0.02, 0.61, 0.86, 0.72, 0.33])

    def gaps(q, k, x):
        return (data - x * k / (q - k) * (np.exp(-k * times) - np.exp(-q * times))) / 0.05

    def rise(q):
        """Of twice the least cost at q, less its quantile."""
        own = least_squares(lambda v: gaps(q, *v), [1.6, 2.0], xtol=1e-14, ftol=1e-14)
        return 2 * (own.cost - least.cost) - 3.841458820694124

    least = least_squares(lambda v: gaps(*v), [0.5, 1.6, 2.0], xtol=1e-14, ftol=1e-14)
    found = fit(
        chain, times=times, data={"z": data}, initial={"x": 2.0, "z": 0.0}, device="cpu",
        parameters={"k": 1.5, "q": 0.6}, estimate=["k", "q", "x"], deviation={"z": 0.05},
        profile=["q"], bounds={"q": (0.1, 1.0)}, atol=1e-10,
    )  # fmt: skip
    q = float(found["estimate"].sel(parameter="q"))
    np.testing.assert_allclose(found["interval"][0], [brentq(rise, 0.15, q), 1.0], rtol=2e-4)
    costs = [rise(float(value)) for value in found["profile_value"][0]]
    np.testing.assert_allclose(
        2 * (found["profile_cost"][0] - found.attrs["cost"]) - 3.841458820694124, costs, atol=1e-4
    )


def test_the_truth_is_found_from_two_experiments():
    start = {"prey": np.array([5.0, 1.0]), "predator": 2.0}
    seen = integrate(HUNT, times=TIMES, initial=start, parameters=TRUTH, rtol=1e-10, device="cpu")
    prey = seen["state"].sel(variable="prey").values.copy()
    prey[1, 5:9] = np.nan
    found = fit(
        HUNT, times=TIMES, data={"prey": prey}, initial=start | {"predator": 1.0},
        parameters={"birth": 0.9, "hunt": 0.3, "death": 0.8},
        estimate=["hunt", "birth", "death", "predator"], rtol=1e-10, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], [0.4, 1.1, 0.6, 2.0], rtol=1e-6)
    assert found["state"].dims == ("trajectory", "time", "variable")
    np.testing.assert_allclose(found["state"], seen["state"], rtol=1e-5)


@pytest.mark.parametrize("loss", ["linear", "soft_l1"])
def test_it_agrees_with_scipy(loss):
    """With noise, an outlier, and a bound that is active."""
    rng = np.random.default_rng(4)

    def states(q):
        return solve_ivp(
            lambda t, y: hunting(t, y, q[:3]), (0, 12), [q[3], 2.0], "DOP853", TIMES,
            rtol=1e-11, atol=1e-11,
        ).y  # fmt: skip

    data = states([*TRUTH.values(), 5.0]) + 0.05 * rng.normal(size=(2, 25))
    data[0, 7] += 2.0
    low, high = [0.0, 0.0, 0.65, 0.0], [np.inf] * 4
    expected = least_squares(
        lambda q: ((states(q) - data) / 0.05).ravel(), [1.0, 0.35, 0.7, 4.0], "3-point",
        (low, high), x_scale="jac", loss=loss, ftol=1e-14, xtol=1e-13, gtol=1e-14,
    )  # fmt: skip
    found = fit(
        HUNT, times=TIMES, data=dict(zip(HUNT.variables, data, strict=True)),
        initial={"prey": 4.0, "predator": 2.0},
        parameters={"birth": 1.0, "hunt": 0.35, "death": 0.7},
        estimate=["birth", "hunt", "death", "prey"], bounds={"death": (0.65, np.inf)},
        deviation={"prey": 0.05, "predator": 0.05}, loss=loss, rtol=1e-10, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], expected.x, rtol=2e-5)
    assert found.attrs["cost"] == pytest.approx(expected.cost, rel=1e-6)


def test_through_bounces():
    times = np.linspace(0, 2.5, 26)
    hits = [ZeroCrossing(height, direction=-1, effect=bounce)]
    start, truth = {"height": 1.0, "speed": 0.0}, {"restitution": 0.8, "gravity": 9.8}
    seen = integrate(
        BALL, times=times, initial=start, parameters=truth, events=hits, rtol=1e-10, device="cpu"
    )
    found = fit(
        BALL, times=times, data={"height": seen["state"].sel(variable="height").values},
        initial=start, parameters={"restitution": 0.75, "gravity": 9.6}, events=hits,
        estimate=["restitution", "gravity"], rtol=1e-10, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], [0.8, 9.8], rtol=1e-6)


def decaying_late(t, y, yd, p):
    return (-p[0] * yd[0],)


def late_exactly(times, rate, tau, start):
    """The sum of (-rate)^n (t - (n - 1) tau)^n / n!, term by term from t = (n - 1) tau on."""
    terms = [
        np.where(
            times > (n - 1) * tau, (-rate) ** n * (times - (n - 1) * tau) ** n / math.factorial(n),
            0.0,
        )
        for n in range(1, 20)
    ]  # fmt: skip
    return start * (1.0 + np.sum(terms, axis=0))


@DEVICES
def test_a_delay_agrees_with_scipy(device):
    """Of a linear equation with its exact solution, from noisy data."""
    late = ergode.VectorField(decaying_late, ["x"], ["rate", "tau"], [("x", "tau")])
    times, rng = np.linspace(0, 12, 25), np.random.default_rng(5)
    data = late_exactly(times, 1.1, 0.9, 2.0) + 0.05 * rng.normal(size=25)
    found = fit(
        late, times=times, data={"x": data}, deviation={"x": 0.05}, initial={"x": 1.5},
        parameters={"rate": 1.0, "tau": 1.0}, estimate=["rate", "tau", "x"], device=device,
    )  # fmt: skip
    expected = least_squares(
        lambda q: (late_exactly(times, *q) - data) / 0.05, [1.0, 1.0, 1.5], xtol=1e-12, ftol=1e-14
    )
    np.testing.assert_allclose(found["estimate"], expected.x, rtol=1e-6)
    assert found.attrs["cost"] == pytest.approx(expected.cost, rel=1e-7)
    errors = np.sqrt(np.diag(np.linalg.inv(expected.jac.T @ expected.jac)))
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-4)
    assert found.attrs["derivatives"].startswith("differences: sensitivities by 'tau', a delay")


def absorbed(t, y, p):
    return -p[0] * y[0], p[0] * y[0] - 0.3 * y[1]


def dose_is_due(t, y, p):
    return p[1] - t


def dosed(t, y, p):
    return y[0] + 1.0, y[1]


def test_the_time_of_a_dose_agrees_with_scipy():
    field = ergode.VectorField(absorbed, ["gut", "blood"], ["uptake", "when"])

    def blood(uptake, when):
        age = np.maximum(times - when, 0.0)
        return uptake / (uptake - 0.3) * (np.exp(-0.3 * age) - np.exp(-uptake * age))

    times = np.arange(0.0, 10.0, 0.5)
    data = blood(1.2, 2.8) + 0.01 * np.random.default_rng(2).normal(size=times.size)
    found = fit(
        field, times=times, data={"blood": data}, initial={"gut": 0.0, "blood": 0.0},
        parameters={"uptake": 1.0, "when": 2.1}, estimate=["uptake", "when"], rtol=1e-10,
        events=[ZeroCrossing(dose_is_due, direction=-1, effect=dosed)], device="cpu",
    )  # fmt: skip
    expected = least_squares(lambda q: blood(*q) - data, [1.0, 2.6], xtol=1e-14)
    np.testing.assert_allclose(found["estimate"], expected.x, rtol=1e-6)
    assert found.attrs["derivatives"] == "variational equations"


def room(t, y, p):
    return 0.1 * (5.0 - y[0]) + 3.0 * y[1], 0.0 * y[1]


def to_switch(t, y, p):
    return (p[1] - y[0]) * y[1] + (y[0] - p[0]) * (1.0 - y[1])


def switched(t, y, p):
    return y[0], 1.0 - y[1]


def test_thresholds_of_a_thermostat_are_recovered():
    field = ergode.VectorField(room, ["temperature", "heater"], ["low", "power"])
    times, start = np.linspace(0, 20, 41), {"temperature": 20.0, "heater": 0.0}
    given = {
        "events": [ZeroCrossing(to_switch, direction=-1, effect=switched)], "rtol": 1e-10,
        "device": "cpu", "times": times, "initial": start,
    }  # fmt: skip
    seen = integrate(field, parameters={"low": 18.0, "power": 22.0}, **given)
    assert int(seen["event_count"][0]) == 7
    found = fit(
        field, data={"temperature": seen["state"].values[:, 0]}, estimate=["low", "power"],
        parameters={"low": 17.9, "power": 22.1}, **given,
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], [18.0, 22.0], rtol=1e-8)


def saturated(t, y, p):
    rate = p[0] * y[0]
    if y[0] > p[1]:
        rate = p[0] * p[1]
    return (-rate,)


def test_branches_are_fitted_by_differences():
    """x falls evenly to `most`, and then exponentially; a bound keeps differences inside."""
    field = ergode.VectorField(saturated, ["x"], ["rate", "most"])
    times = np.linspace(0, 10, 21)
    until = (5.0 - 2.0) / (0.5 * 2.0)
    exact = np.where(times < until, 5.0 - times, 2.0 * np.exp(-0.5 * (times - until)))
    found = fit(
        field, times=times, data={"x": exact}, initial={"x": 5.0}, estimate=["rate", "most"],
        parameters={"rate": 0.4, "most": 2.4}, bounds={"rate": (0.1, 0.5)}, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["estimate"], [0.5, 2.0], rtol=1e-5)
    assert "SymPy cannot derive the field" in found.attrs["derivatives"]


def test_a_trial_that_cannot_be_integrated_is_no_step():
    """x = x0 / (1 - k x0 t) is infinite before the last time where k x0 > 1."""
    times = np.linspace(0, 1, 6)
    data = 1.0 / (1 - 0.95 * times)
    found = fit(
        BURST, times=times, data={"x": data}, initial={"x": 1.0}, parameters={"k": 0.1},
        estimate=["k"], rtol=1e-10, max_steps=20_000, device="cpu",
    )  # fmt: skip
    assert float(found["estimate"][0]) == pytest.approx(0.95, rel=1e-6)
    with pytest.raises(PlanError, match="where the search begins"):
        fit(BURST, times=times, data={"x": data}, initial={"x": 1.0}, parameters={"k": 3.0},
            estimate=["k"], max_steps=20_000, device="cpu")  # fmt: skip


LOTKA_VOLTERRA = ergode.VectorField(
    lambda t, y, p: (p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]),
    ["prey", "pred"], ["a", "b", "c", "d"],
)  # fmt: skip


def test_several_starts_find_a_frequency():
    """Of sin(wt), which has many local minima; with and without bounds."""
    field = ergode.field_from_equations({"x": "w*cos(w*t)"})
    times = np.linspace(0, 10, 41)
    data = np.sin(4.0 * times) + 0.05 * np.random.default_rng(2).normal(size=41)
    call = {
        "times": times, "data": {"x": data}, "deviation": {"x": 0.05}, "initial": {"x": 0.0},
        "parameters": {"w": 2.4}, "estimate": ["w"], "device": "cpu",
    }  # fmt: skip
    with pytest.warns(AccuracyWarning, match="chi square is .*starts=20"):
        fit(field, **call)
    # The second point of the sequence, 0.5 + 2 / (golden ratio) modulo 1, lies near 4.
    for bounds in ({}, {"w": (-1.0, 5.8)}, {"w": (1.5, 5.7)}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", AccuracyWarning)
            found = fit(field, **call, bounds=bounds, starts=2)
        assert float(found["estimate"][0]) == pytest.approx(4.0, abs=0.02)
        assert found.attrs["cost"] == float(found["start_cost"][2]) < 41
        if bounds:
            low, high = bounds["w"]
            ends = found["start_estimate"].values
            assert (ends >= low).all() and (ends <= high).all()


@pytest.mark.parametrize("sweep", ["one", "paired", "crossed"])
def test_searches_that_advance_together_are_those_of_each_start(sweep):
    """To the last bit, though some searches end early and one start has no solution."""
    times = np.linspace(0, 1, 6)
    first = {"one": 1.0, "paired": np.array([0.9, 1.0]), "crossed": np.array([0.9, 1.0])}[sweep]
    initial = ergode.grid(x=first) if sweep == "crossed" else {"x": first}
    factor = np.multiply.outer(np.atleast_1d(first), 0.95 * times)
    data = (np.atleast_1d(first)[:, None] / (1 - factor)).reshape((*np.shape(first), 6))
    call = {
        "times": times, "data": {"x": data + 0.01 * np.cos(9 * data)}, "initial": initial,
        "estimate": ["k"], "max_steps": 500, "device": "cpu",
        "method": "tsit5",
    }  # fmt: skip
    found = fit(BURST, **call, parameters={"k": 0.5}, starts=6)
    ends = found["start_estimate"].values[:, 0]
    assert np.isnan(ends).any() and np.isfinite(ends).sum() > 2
    assert found["start_point"].values[0, 0] == 0.5
    for place, end, cost in zip(
        found["start_point"].values[:, 0], ends, found["start_cost"].values, strict=True
    ):
        own = call | {"parameters": {"k": float(place)}}
        if np.isnan(end):
            with pytest.raises(PlanError, match="where the search begins"):
                fit(BURST, **own)
            continue
        alone = fit(BURST, **own)
        assert float(alone["estimate"][0]) == end
        assert alone.attrs["cost"] == cost
    assert found["state"].dims == {
        "one": ("time", "variable"), "paired": ("trajectory", "time", "variable"),
        "crossed": ("x", "time", "variable"),
    }[sweep]  # fmt: skip
    np.testing.assert_allclose(found["state"].values[..., 0], data, rtol=0.05)


@pytest.mark.exhaustive
def test_several_starts_leave_a_local_minimum():
    """Ten periods, guessed at 80 % of the truth: the nearest minimum is a wrong one."""
    rng, times = np.random.default_rng(1), np.linspace(0, 20, 41)
    truth = {"a": 1.0, "b": 0.1, "c": 0.075, "d": 1.5}
    seen = integrate(LOTKA_VOLTERRA, times=times, initial={"prey": 10.0, "pred": 5.0},
                     parameters=truth, rtol=1e-10, atol=1e-10, device="cpu")  # fmt: skip
    data = seen["state"].values + rng.normal(0, 0.5, (41, 2))
    call = {
        "times": times, "data": dict(zip(("prey", "pred"), data.T, strict=True)),
        "initial": {"prey": 9.0, "pred": 6.0},
        "parameters": {"a": 0.8, "b": 0.08, "c": 0.06, "d": 1.2},
        "estimate": ["a", "b", "c", "d", "prey", "pred"], "device": "cpu",
    }  # fmt: skip
    with pytest.warns(AccuracyWarning, match="chi square is 3.*starts=20"):
        wrong = fit(LOTKA_VOLTERRA, **call, deviation={"prey": 0.5, "pred": 0.5})
    with pytest.warns(AccuracyWarning, match="successive residuals of prey, pred"):
        fit(LOTKA_VOLTERRA, **call)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        found = fit(LOTKA_VOLTERRA, **call, deviation={"prey": 0.5, "pred": 0.5}, starts=3)
    assert found.attrs["reduced_chi_square"] == pytest.approx(1.0, abs=0.5)
    error = found["estimate"].values - [*truth.values(), 10.0, 5.0]
    assert (np.abs(error) < 4.5 * found["standard_error"].values).all()
    assert found["start_cost"].sizes == {"start": 4}
    assert float(found["start_cost"][0]) == wrong.attrs["cost"]
    assert found.attrs["cost"] == float(found["start_cost"].min())
    best = found["start_estimate"][int(found["start_cost"].values.argmin())]
    np.testing.assert_array_equal(best, found["estimate"])


LINE_CALL = {
    "times": [0, 1, 2], "data": {"x": [0.0, 1.0, 2.1]}, "initial": {"x": 0.0, "idle": 1.0},
    "parameters": {"slope": 0.5, "bend": 0.0}, "estimate": ["slope"], "device": "cpu",
}  # fmt: skip


def test_what_the_data_do_not_determine_is_said():
    with pytest.warns(AccuracyWarning, match="do not determine idle"):
        found = fit(LINE, **LINE_CALL | {"estimate": ["slope", "idle"], "profile": ["idle"]})
    np.testing.assert_array_equal(found["interval"][0], [-np.inf, np.inf])
    assert np.isfinite(found["standard_error"][0]) and np.isinf(found["standard_error"][1])
    assert float(found["estimate"][1]) == 1.0


def test_a_search_that_ends_early_is_said():
    with pytest.warns(FailureWarning, match="did not converge"):
        found = fit(LINE, **LINE_CALL | {"estimate": ["slope", "bend"], "max_evaluations": 1})
    assert found.attrs["converged"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimate": []}, "empty"),
        ({"estimate": ["tilt"]}, "'tilt'"),
        ({"parameters": {"slope": [0.5, 0.6], "bend": 0.0}}, "one number to begin with"),
        ({"parameters": {"slope": np.nan, "bend": 0.0}}, "expected finite"),
        ({"data": {"z": [0, 1, 2]}}, "'z'"),
        ({"data": {"x": [0, 1]}}, "shape"),
        ({"data": {"x": [0, 1, np.inf]}}, "infinite"),
        ({"data": {"x": [np.nan, np.nan, np.nan]}}, "0 values for 1"),
        ({"data": {"x": ["a", "b", "c"]}}, "no numbers"),
        ({"deviation": {"x": [1, 0, 1]}}, "not positive"),
        ({"deviation": {"idle": 1.0}}, "'idle'"),
        ({"bounds": {"bend": (0, 1)}}, "'bend'"),
        ({"bounds": {"slope": (1, 2)}}, "outside 1 to 2"),
        ({"bounds": {"slope": (2, 1)}}, "ascending"),
        ({"bounds": {"slope": 3}}, "least and a largest"),
        ({"loss": "square"}, "loss"),
        ({"data": np.ones((3, 2))}, r"of shape \(3, 2\); .* such as {'x': ..., 'idle': ...}"),
        ({"starts": -1}, "starts"),
        ({"estimate": ["x"], "starts": 2}, "'x' begins at 0; several starts need finite bounds"),
        ({"max_evaluations": 0}, "max_evaluations"),
        ({"profile": ["bend"]}, "profile has 'bend'; estimated are slope"),
        ({"profile": ["slope"], "loss": "huber"}, "profiles are those of normal residuals"),
        ({"level": 95, "profile": ["slope"]}, "level is 95"),
    ],
)
def test_refusals(change, message):
    with pytest.raises((ModelError, PlanError), match=message):
        fit(LINE, **LINE_CALL | change)
