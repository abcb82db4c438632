"""Stochastic equations: strong and weak orders, stationary laws, keyed paths."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats

import ergode
from ergode.trajectories import Maximum, Mean, ZeroCrossing


def growth(t, y, p):
    return p[0] * y[0], 0.0


def growth_noise(t, y, p):
    return p[1] * y[0], 1.0


def relaxation(t, y, p):
    return -p[0] * y[0], 0.0


def constant_noise(t, y, p):
    return p[1], 0.0


def shaking(t, y, p):
    return math.cos(2 * y[0]), 0.0


def shaking_noise(t, y, p):
    return 1.0 + 0.5 * math.cos(t), 0.0


def feedback(t, y, yd, p):
    return (-p[0] * yd[0],)


def feedback_noise(t, y, yd, p):
    return (p[1] + p[3] * y[0],)


def threshold(t, y, p):
    return y[0] - 1.0


def zero_of_feedback(t, y, yd, p):
    return y[0]


# The second variable is the second Wiener process itself; the first's is another.
GBM = ergode.VectorField(growth, ["y", "w"], ["drift", "noise"], diffusion=growth_noise)
OU = ergode.VectorField(relaxation, ["y", "unused"], ["rate", "noise"], diffusion=constant_noise)
SHAKEN = ergode.VectorField(shaking, ["y", "unused"], diffusion=shaking_noise)
FEEDBACK = ergode.VectorField(
    feedback, ["y"], ["rate", "noise", "tau", "slope"], [("y", "tau")], diffusion=feedback_noise
)
WIENER = {"rate": 0.0, "noise": 1.0}  # then it is a Wiener process


def solve(field, **options):
    return ergode.trajectories.integrate(field, **{"device": "cpu", **options})


def paths(field, method, per_step, finest=64, **options):
    """The same noise in steps of `per_step` / `finest` of a time unit."""
    return solve(
        field, method=method, times=[0.0, 1.0], step=per_step / finest, noise_per_step=per_step,
        replicates=4000, seed=3, **options,
    )["state"].values[:, -1, 0]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "order"),
    [("euler-maruyama", 0.5), ("implicit-euler-maruyama", 0.5), ("milstein", 1.0)],
)
def test_strong_order_with_multiplicative_noise(method, order):
    options = {"initial": {"y": 1.0, "w": 0.0}, "parameters": {"drift": 0.5, "noise": 0.8}}
    steps = (4, 8, 16)
    found = [paths(GBM, method, m, **options) for m in steps]
    # The exact path has the first variable's process: y0 exp((drift - noise^2 / 2) t + noise W),
    # with W got from a field whose first variable it is.
    w = paths(OU, "euler-maruyama", 1, initial={"y": 0.0, "unused": 0.0}, parameters=WIENER)
    exact = np.exp(0.5 - 0.32 + 0.8 * w)
    errors = [np.abs(states - exact).mean() for states in found]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15)


def test_a_stiff_drift_is_damped():
    """(1 + stiffness h) y1 = (1 + noise W) y0; the other variable is a Wiener process."""
    stiff, h, noise, n = 1e6, 1 / 4, 0.8, 20_000
    y, w = solve(
        GBM, method="implicit-euler-maruyama", times=[0.0, h, 1.0], step=h, replicates=n, seed=4,
        initial={"y": 1.0, "w": 0.0}, parameters={"drift": -stiff, "noise": noise},
        noise_per_step=2,
    )["state"].values[:, 1:].transpose(2, 1, 0)  # fmt: skip
    factor = (1 + stiff * h) * y[0]
    assert factor.mean() == pytest.approx(1.0, abs=5 * factor.std() / math.sqrt(n))
    assert factor.std() == pytest.approx(noise * math.sqrt(h), rel=5 / math.sqrt(2 * n))
    assert (np.abs(y[1]) < 1e-18).all()
    assert w[1].var() == pytest.approx(1.0, rel=5 * math.sqrt(2 / n))


def test_strong_order_with_additive_noise():
    options = {"initial": {"y": 0.3, "unused": 0.0}}
    exact = paths(SHAKEN, "sra1", 1, 512, **options)
    steps = (8, 16, 32)
    errors = [np.abs(paths(SHAKEN, "sra1", m, 512, **options) - exact).mean() for m in steps]
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(1.5, abs=0.15)


@pytest.mark.parametrize(
    ("field", "method", "order", "initial"),
    [
        (GBM, "euler-maruyama", 1, {"y": 1.0, "w": 0.0}),
        (GBM, "milstein", 1, {"y": 1.0, "w": 0.0}),
        (OU, "sra1", 2, {"y": 1.0, "unused": 0.0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_weak_order(field, method, order, initial):
    """What expectations change by when steps are halved, along the same noise: little varies."""
    parameters = {"drift": 1.0, "noise": 0.3} if field is GBM else {"rate": 1.0, "noise": 0.05}
    count, finest = 40_000, 64

    def found(per_step):
        return solve(
            field, method=method, times=[0.0, 1.0], step=per_step / finest, noise_per_step=per_step,
            replicates=count, seed=8, initial=initial, parameters=parameters,
        )["state"].values[:, -1, 0]  # fmt: skip

    fine, middle, coarse = (found(per_step) for per_step in (1, 2, 4))
    changes = [coarse - middle, middle - fine]
    means = [change.mean() for change in changes]
    errors = [change.std() / math.sqrt(count) / abs(mean) for change, mean in
              zip(changes, means, strict=True)]  # fmt: skip
    assert max(errors) < 0.01
    assert math.log2(abs(means[0] / means[1])) == pytest.approx(order, abs=0.15)
    # The first two moments of linear equations are known, at any step.
    for states, h in ((fine, 1 / 64), (coarse, 1 / 16)):
        if method == "sra1":
            factor, added = 1 - h + h**2 / 2, 0.05**2 * (h - h**2 + h**3 / 3)
            mean = factor ** (1 / h)
            variance = added * (1 - factor ** (2 / h)) / (1 - factor**2)
        else:
            # Milstein's derivative is a difference over a step with its drift.
            bent = 0.3**2 / 2 + 0.3 * math.sqrt(h) / 2 if method == "milstein" else 0.0
            second = (1 + h) ** 2 + 0.3**2 * h + 2 * (h * bent) ** 2
            mean = (1 + h) ** (1 / h)
            variance = second ** (1 / h) - mean**2
        assert states.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / count))
        spread = (states - mean) ** 2
        assert spread.mean() == pytest.approx(variance, abs=5 * spread.std() / math.sqrt(count))


def test_stationary_variance_and_what_auto_chooses():
    result = solve(
        OU, times=[0.0, 8.0], step=0.05, replicates=100_000, initial={"y": 0.0, "unused": 0.0},
        parameters={"rate": 1.0, "noise": 1.0}, seed=2,
    )  # fmt: skip
    assert result.attrs["method"] == "sra1"
    assert result["state"].dims == ("replicate", "time", "variable")
    variance = float(result["state"][:, -1, 0].var())
    assert variance == pytest.approx(0.5, rel=5 * math.sqrt(2 / 100_000) + 1e-3)
    other = solve(
        GBM, times=[0.0, 1.0], step=0.5, initial={"y": 1, "w": 0},
        parameters={"drift": 0.5, "noise": 0.2},
    )  # fmt: skip
    assert other.attrs["method"] == "milstein"


def test_noise_in_a_delay_equation():
    # dy = -a y(t - tau) dt + s dW: Kuechler and Mensch (1992) give the stationary variance
    # s^2 / (2 a) (1 + sin(a tau)) / cos(a tau).
    result = solve(
        FEEDBACK, method="euler-maruyama", times=[0.0, 30.0], step=1 / 64, replicates=40_000,
        initial={"y": 0.0}, seed=5, noise_per_step=2,
        parameters={"rate": 1.0, "noise": 1.0, "tau": 1.0, "slope": 0.0},
    )["state"].values[:, -1, 0]  # fmt: skip
    exact = 0.5 * (1 + math.sin(1.0)) / math.cos(1.0)
    assert result.var() == pytest.approx(exact, rel=5 * math.sqrt(2 / 40_000) + 0.03)


@pytest.mark.parametrize(("method", "order"), [("euler-maruyama", 0.5), ("milstein", 1.0)])
def test_strong_order_with_a_delay(method, order):
    """The past is read in steps of the path itself; the noise depends on the state."""
    states = {
        m: solve(
            FEEDBACK, method=method, times=[0.0, 1.0], step=m / 512, noise_per_step=m,
            initial={"y": 1.0}, replicates=4000, seed=6,
            parameters={"rate": 1.0, "noise": 1.0, "tau": 0.5, "slope": 1.0},
        )["state"].values[:, -1, 0]
        for m in (2, 4, 8, 16)
    }  # fmt: skip
    # With twice the step the error is 2^order times as large, so are differences of neighbours.
    steps = (2, 4, 8)
    errors = [np.abs(states[2 * m] - states[m]).mean() for m in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15)


def test_steps_of_noise_end_at_the_times():
    """A path within a step is straight: its variance there is not that of a Wiener process."""
    options = {"initial": {"y": 0.0, "unused": 0.0}, "parameters": WIENER, "replicates": 20_000,
               "seed": 1}  # fmt: skip
    times = [0.0, 0.15, 0.25, 0.5, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solve(OU, times=times, step=0.1, method="euler-maruyama", **options)
    assert found.attrs["step"] == 0.05
    np.testing.assert_allclose(found["state"].var("replicate")[:, 0], times, rtol=0.06)
    with pytest.warns(ergode.AccuracyWarning, match="some times are within steps of 0.1"):
        solve(OU, times=[0.0, 0.1234567, 1.0], step=0.1, method="euler-maruyama", **options)


def far_away(t, y, p):
    return y[0] - 1e9


def watched(event):
    """What two tests watch with one kernel."""
    return {"events": [ZeroCrossing(event, 1, terminal=True)],
            "observables": [Mean("y"), Maximum("y")]}  # fmt: skip


def test_an_observable_of_noise():
    """The mean of a Wiener process over a unit of time has the variance 1/3, less that of steps."""
    found = solve(
        OU, times=[0.0, 1.0], step=1 / 4, initial={"y": 0.0, "unused": 0.0}, parameters=WIENER,
        replicates=20_000, seed=2, method="euler-maruyama", **watched(far_away),
    )  # fmt: skip
    variance = found["observed"][:, 0].var("replicate").item()
    assert variance == pytest.approx(1 / 3 - 1 / (12 * 4**2), rel=0.06)


def test_events_and_observables_do_not_change_a_noisy_path():
    for field, events, options in (
        (OU, [ZeroCrossing(threshold)], {"parameters": {"rate": 1.0, "noise": 1.0}, "initial": {
            "y": 0.5, "unused": 0.0}}),
        (FEEDBACK, [ZeroCrossing(zero_of_feedback)],
         {"parameters": {"rate": 1.0, "noise": 1.0, "tau": 0.5, "slope": 0.0}}),
    ):  # fmt: skip
        options = {
            "initial": {"y": 0.5}, **options, "times": [0.0, 0.33, 2.0], "step": 1 / 64,
            "method": "euler-maruyama", "replicates": 100, "seed": 4, "noise_per_step": 2,
        }  # fmt: skip
        plain = solve(field, **options)["state"].values
        seen = solve(
            field, events=events, observables=[Mean("y"), Maximum("y")], record=2, **options
        )
        np.testing.assert_allclose(seen["state"], plain, rtol=1e-12, atol=1e-12)
        level = 1.0 if field is OU else 0.0
        hits = seen["event_state"].values[:, 0, :, 0]
        np.testing.assert_allclose(hits[np.isfinite(hits)], level, atol=1e-9)
        assert (seen["event_count"] > 0).mean() > 0.3
        assert (seen["observed"].values[:, 1] >= plain[:, :, 0].max(axis=1) - 1e-12).all()


@pytest.mark.parametrize("step", [1.0, 1 / 16])
def test_first_passage_of_a_wiener_process(step):
    """It passes 1 before the time t with probability 2 P(W(t) > 1), by the reflection principle."""
    count, known = 40_000, 2 * scipy.stats.norm.sf(1)
    result = solve(
        OU, method="euler-maruyama", times=[0.0, 1.0], step=step, replicates=count, seed=5,
        initial={"y": 0.0, "unused": 0.0}, parameters=WIENER, **watched(threshold),
    )  # fmt: skip
    passed = result["event_count"].values[:, 0] > 0
    # Three tests in each of two cases: 1e-6 / 6 of two tails is 5.2 standard errors.
    assert passed.mean() == pytest.approx(known, abs=5.2 * math.sqrt(known * (1 - known) / count))
    times = result["event_time"].values[passed, 0, 0]
    law = scipy.stats.kstest(times, lambda t: 2 * scipy.stats.norm.sf(1 / np.sqrt(t)) / known)
    assert law.pvalue > 1e-6 / 6
    assert result["event_state"].values[passed][..., 0] == pytest.approx(1.0, abs=1e-12)


STRATONOVICH = ergode.field_from_equations(
    {"y": "drift * y", "w": "0 * y"}, diffusion={"y": "noise * y", "w": "1"},
    correlation=np.ones((2, 2)), interpretation="stratonovich",
)  # fmt: skip


@pytest.mark.parametrize("method", ["euler-maruyama", "milstein"])
def test_stratonovich_obeys_the_usual_rules(method):
    """y = exp(drift t + noise W), where W is the other variable; both methods have order 1."""
    options = {"initial": {"y": 1.0, "w": 0.0}, "parameters": {"drift": 0.3, "noise": 0.8}}
    errors, steps = [], (2, 4, 8)
    for per_step in steps:
        y, w = solve(
            STRATONOVICH, method=method, times=[0.0, 1.0], step=per_step / 64, replicates=4000,
            noise_per_step=per_step, seed=3, **options,
        )["state"].values[:, -1].T  # fmt: skip
        errors.append(np.sqrt(np.mean((y - np.exp(0.3 + 0.8 * w)) ** 2)))
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.15)


def test_stratonovich_noise_turns_a_circle():
    """dx = -y dW, dy = x dW: the angle is W, and the radius stays; in Ito's sense it would grow."""
    circle = ergode.field_from_equations(
        {"x": "0 * x", "y": "0 * x", "w": "0 * x"}, diffusion={"x": "-y", "y": "x", "w": "1"},
        correlation=np.ones((3, 3)), interpretation="stratonovich",
    )  # fmt: skip
    result = solve(circle, times=[0.0, 1.0], step=1 / 256, replicates=500, seed=3,
                   initial={"x": 1.0, "y": 0.0, "w": 0.0})  # fmt: skip
    assert result.attrs["method"] == "euler-maruyama"
    x, y, w = result["state"].values[:, -1].T
    assert np.sqrt(np.mean((x - np.cos(w)) ** 2 + (y - np.sin(w)) ** 2)) < 5e-3


def test_paths_are_keyed():
    options = {
        "times": [0.0, 1.0], "step": 0.1, "initial": {"y": 0.0, "unused": 0.0}, "seed": 4,
        "parameters": {"rate": 1.0, "noise": 1.0},
    }  # fmt: skip
    many = solve(OU, replicates=300, **{**options, "device": "cpu:2"})["state"].values
    few = solve(OU, replicates=7, **{**options, "device": "cpu:1"})["state"].values
    np.testing.assert_array_equal(many[:7], few)
    assert np.unique(many[:, -1, 0]).size == 300
    other = solve(OU, replicates=7, **{**options, "seed": 5})["state"].values
    assert not np.isin(other[:, -1, 0], few[:, -1, 0]).any()


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (OU, {"method": "rk4", "step": 0.1}, "choose 'euler-maruyama'"),
        (GBM, {"method": "sra1", "step": 0.1}, "noise that depends on time and parameters alone"),
        (STRATONOVICH, {"method": "implicit-euler-maruyama", "step": 0.1}, "in the sense of Ito"),
        (OU, {"method": "implicit-euler-maruyama"}, "has steps of one size: give a step"),
        (OU, {"step": 0.1, "noise_per_step": 65}, "noise_per_step is 65; expected 1 to 64"),
        (OU, {"step": 0.1, "replicates": 0}, "replicates is 0"),
    ],
)
def test_bad_input_is_one_line(field, options, message):
    names = {"initial": dict.fromkeys(field.variables, 1.0)}
    names["parameters"] = dict.fromkeys(field.parameters, 1.0)
    with pytest.raises(ergode.PlanError, match=message):
        solve(field, times=[0, 1], **names, **options)


def mixed_noise(t, y, p):
    return p[1] * y[1], 0.0


def mixed_under_a_condition(t, y, p):
    if y[1] > 0.0:
        return p[1] * y[0], 1.0
    return 0.5 * p[1] * y[0], 1.0


def delayed_noise(t, y, yd, p):
    return (p[1] + p[3] * yd[0],)


def bounded_noise(t, y, p):
    first, _ = y
    return p[1] * (first if first > 0.0 else -first), 1.0


@pytest.mark.parametrize(
    ("noise", "found"),
    [(mixed_noise, "'y' depends on 'w'"), (mixed_under_a_condition, "'y' depends on 'w'")],
)
def test_milstein_chooses_steps_for_noise_of_its_own_variable(noise, found):
    field = ergode.VectorField(growth, ["y", "w"], ["rate", "noise"], diffusion=noise)
    asked = {
        "times": [0.0, 1.0], "initial": {"y": 1.0, "w": 1.0}, "step": 0.1, "device": "cpu",
        "parameters": {"rate": 0.1, "noise": 0.1},
    }  # fmt: skip
    with pytest.raises(ergode.PlanError, match=f"noise of {found}, which .* give a step"):
        ergode.trajectories.integrate(field, method="milstein", **asked | {"step": None})
    result = ergode.trajectories.integrate(field, **asked)
    assert (result.attrs["method"], result.attrs["order"]) == ("euler-maruyama", 0.5)
    assert found in result.attrs["method_reason"]


def test_milstein_is_not_for_delayed_noise_and_is_for_conditions_on_its_own_variable():
    delayed = ergode.VectorField(
        feedback, ["y"], ["rate", "noise", "tau", "slope"], [("y", "tau")], diffusion=delayed_noise
    )
    with pytest.raises(ergode.PlanError, match="noise of 'y' depends on a delayed value"):
        ergode.trajectories.integrate(
            delayed, times=[0.0, 1.0], initial={"y": 1.0}, step=0.1, method="milstein",
            parameters={"rate": 1.0, "noise": 0.1, "tau": 0.5, "slope": 0.1}, device="cpu",
        )  # fmt: skip
    own = ergode.VectorField(growth, ["y", "w"], ["rate", "noise"], diffusion=bounded_noise)
    result = ergode.trajectories.integrate(
        own, times=[0.0, 1.0], initial={"y": 1.0, "w": 1.0}, step=0.1, device="cpu",
        parameters={"rate": 0.1, "noise": 0.1},
    )  # fmt: skip
    assert result.attrs["method"] == "milstein"
