"""Inputs of named variables: tables that functions call, against SciPy from knot to knot."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode.core.errors import ModelError, PlanError
from ergode.trajectories import Observable, ZeroCrossing, fit, integrate, sensitivities

KNOTS = np.array([0.0, 0.7, 1.1, 2.3, 3.3, 4.7, 6.0])
VALUES = np.array([1.0, 0.2, 2.0, 0.0, 1.5, 0.4, 1.0])
TIMES = np.linspace(0, 6, 13)
EQUATIONS = {"depot": "share * dose(t) - ka * depot", "blood": "ka * depot - ke * blood"}
START = {"depot": 0.2, "blood": 0.1}
GIVEN = {"share": 0.8, "ka": 1.2, "ke": 0.3}
TIGHT = {"rtol": 1e-9, "atol": 1e-11, "device": "cpu"}


def table(kind="steps", period=None):
    return ergode.interpolant(KNOTS, VALUES, kind, period)


def two_compartments(dose):
    return ergode.field_from_equations(EQUATIONS, constants={"dose": dose})


def in_pieces(slopes, begin, times, knots):
    """Solution of y' = slopes(t, y, earlier) by SciPy; no piece contains a knot."""
    ends = sorted({times[0], times[-1], *(k for k in knots if times[0] < k < times[-1])})
    found, state = [], np.asarray(begin, float)

    def earlier(t):
        return next(one.sol(t) for one in found if t <= one.t[-1] + 1e-9)

    for a, b in zip(ends[:-1], ends[1:], strict=True):
        inner = (np.nextafter(a, b), np.nextafter(b, a))
        found.append(
            solve_ivp(
                lambda t, y, inner=inner: slopes(np.clip(t, *inner), y, earlier), (a, b), state,
                "DOP853", rtol=1e-12, atol=1e-13, dense_output=True,
            )
        )  # fmt: skip
        state = found[-1].y[:, -1]
    return np.array([earlier(t) for t in times])


def expected(dose, times=TIMES, knots=KNOTS, share=0.8, ka=1.2, ke=0.3):
    return in_pieces(
        lambda t, y, _: [share * dose(t) - ka * y[0], ka * y[0] - ke * y[1]],
        [*START.values()], times, knots,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["steps", "linear", "cubic"])
@pytest.mark.parametrize("period", [None, 6.5])
@pytest.mark.parametrize("method", ["tsit5", "rodas5p", "rk4"])
def test_scipy_from_knot_to_knot(kind, period, method):
    dose = table(kind, period)
    times = TIMES if period is None else np.linspace(0, 20, 21)
    knots = [k + 6.5 * turn for turn in range(4) for k in KNOTS]
    options = {"step": 0.01, "device": "cpu"} if method == "rk4" else TIGHT
    found = integrate(
        two_compartments(dose), times=times, initial=START, parameters=GIVEN, method=method,
        **options,
    )  # fmt: skip
    assert found["state"].values == pytest.approx(expected(dose, times, knots), abs=2e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["dopri5", "dop853", "radau5", "rosenbrock23"])
def test_scipy_by_every_adaptive_method(method):
    for kind in ("steps", "cubic"):
        found = integrate(
            two_compartments(table(kind)), times=TIMES, initial=START, parameters=GIVEN,
            method=method, **TIGHT,
        )  # fmt: skip
        assert found["state"].values == pytest.approx(expected(table(kind)), abs=3e-7)


@pytest.mark.parametrize("kind", ["steps", "linear"])
def test_many_variables_of_a_stiff_method(kind):
    """Named variables that are taken as one array: a chain of compartments, in two periods."""
    count, dose = 20, table(kind, 6.5)
    chain = {f"x{i}": f"ka * (x{i - 1} - x{i})" for i in range(1, count)}
    field = ergode.field_from_equations(
        {"x0": "dose(t) - ka * x0", **chain}, constants={"dose": [dose, table(kind, 7.0)]}
    )
    times = np.linspace(0, 10, 11)
    found = integrate(field, times=times, initial=dict.fromkeys(field.variables, 0.0),
                      parameters={"ka": 3.0}, method="rodas5p", **TIGHT)  # fmt: skip
    exact = in_pieces(
        lambda t, y, _: 3.0 * (np.append(dose(t) / 3.0, y[:-1]) - y), np.zeros(count), times,
        [k + 6.5 * turn for turn in range(2) for k in KNOTS],
    )  # fmt: skip
    assert found["state"].values[0] == pytest.approx(exact, abs=1e-8)


def test_every_trajectory_has_a_table():
    rng = np.random.default_rng(3)
    doses = []
    for count in range(2, 7):
        knots = np.append(0.0, np.sort(rng.uniform(0.2, 5.5, count)))
        doses.append(ergode.interpolant(knots, rng.uniform(0, 2, knots.size), "steps"))
    field = two_compartments(doses)
    shared = {"times": TIMES, "initial": START, **TIGHT}
    found = integrate(field, parameters=GIVEN, **shared)
    assert found["dose"].values.tolist() == [0, 1, 2, 3, 4]
    for state, dose in zip(found["state"].values, doses, strict=True):
        assert state == pytest.approx(expected(dose, TIMES, dose.times), abs=1e-9)
    grid = ergode.grid(dose=[4, 1], ke=[0.3, 0.5], share=0.8, ka=1.2)
    crossed = integrate(field, parameters=grid, **shared)
    assert np.array_equal(crossed["state"].values[:, 0], found["state"].values[[4, 1]])


def test_single_precision():
    shared = {"times": TIMES, "initial": START, "parameters": GIVEN}
    for kind in ("steps", "linear"):
        found = integrate(two_compartments(table(kind)), precision="float32", rtol=1e-5,
                          device="cpu", **shared)  # fmt: skip
        assert found["state"].values == pytest.approx(expected(table(kind)), abs=2e-4)


def over(t, y, p, c):
    return y[1] - 0.5 * c.dose(t)


def top_up(t, y, p, c):
    return y[0] + c.dose(t), y[1]


def nothing(t, y, p):
    return (0.0,)


def amount(s, t, y, f, t1, y1, f1, p, c):
    return (s[0] + (t1 - t) * c.dose(0.5 * (t + t1)),)


def total(s, t, y, p):
    return (s[0],)


def test_events_effects_and_observables_call_inputs():
    field = two_compartments(table())
    found = integrate(
        field, times=TIMES, initial=START, parameters=GIVEN, record=4, **TIGHT,
        events=[
            ZeroCrossing(over, 1, terminal=True), ZeroCrossing(over, 1, top_up, name="more")
        ],
        observables=[Observable(nothing, amount, total, "given")],
    )  # fmt: skip
    first, second = found["event_time"].values[:, 0]
    assert first == second == pytest.approx(0.7, abs=1e-9)  # where the level falls
    state = expected(table(), np.array([0.0, 0.7]))[-1]
    after = found["event_state"].values[1, 0]
    assert after == pytest.approx(state, abs=1e-8)
    assert found["observed"].item() == pytest.approx(0.7, abs=1e-9)


@pytest.mark.parametrize("kind", ["steps", "linear"])
@pytest.mark.parametrize(("method", "most"), [("tsit5", 1e-8), ("rodas5p", 1e-7)])
def test_knots_are_breaking_points_of_delay_equations(kind, method, most):
    dose, tau = table(kind), 0.9
    field = ergode.field_from_equations({"y": "dose(t) - k * y(t - tau)"}, constants={"dose": dose})
    found = integrate(field, times=TIMES, initial={"y": 1.0}, method=method,
                      parameters={"k": 1.1, "tau": tau}, **TIGHT)  # fmt: skip
    late = in_pieces(
        lambda t, y, earlier: [dose(t) - 1.1 * (1.0 if t <= tau else earlier(t - tau)[0])],
        [1.0], TIMES, [k + tau * n for n in range(8) for k in (0.0, *KNOTS)],
    )  # fmt: skip
    assert found["state"].values == pytest.approx(late, abs=most)


@pytest.mark.parametrize("method", ["sra1", "milstein", "euler-maruyama"])
def test_an_input_adds_its_response_to_a_noisy_path(method):
    """The equation is linear: with and without the input, one path differs by the response."""
    field = ergode.field_from_equations(
        {"x": "dose(t) - k * x"}, diffusion={"x": "s"},
        constants={"dose": [table(), ergode.interpolant([0.0], [0.0], "steps")]},
    )  # fmt: skip

    def run(dose, s):
        return integrate(
            field, times=TIMES, initial={"x": 0.0}, step=0.01, method=method, seed=1,
            parameters={"k": 0.7, "s": s, "dose": dose}, replicates=3, device="cpu",
        )["state"].values  # fmt: skip

    response = run(0, 0.3) - run(1, 0.3)
    assert response == pytest.approx(run(0, 0.0), abs=1e-13)
    # Explicit Euler's global error at this step; SRA1 has order 2 without noise.
    most = 1e-4 if method == "sra1" else 2e-2
    exact = in_pieces(lambda t, y, _: [table()(t) - 0.7 * y[0]], [0.0], TIMES, KNOTS)
    assert response[0] == pytest.approx(exact, abs=most)


def test_sensitivities_and_differences():
    shared = {"times": TIMES, "initial": START, "device": "cpu"}
    field = two_compartments(table())
    found = sensitivities(field, parameters=GIVEN, with_respect_to=["share", "ka", "depot"],
                          rtol=1e-9, atol=1e-12, **shared)  # fmt: skip
    for name in ("share", "ka"):
        low, high = (expected(table(), **{name: GIVEN[name] + d}) for d in (-1e-4, 1e-4))
        difference = (high - low) / 2e-4
        computed = found["sensitivity"].sel(with_respect_to=name).values
        assert computed == pytest.approx(difference, abs=2e-7)
    ramp = ergode.field_from_equations(
        {"x": "dose(t - lag) - x"}, constants={"dose": table("cubic")}
    )
    moved = sensitivities(ramp, times=[3, 6], initial={"x": 0.0}, parameters={"lag": 0.5},
                          with_respect_to=["lag"], rtol=1e-9, atol=1e-11, device="cpu")  # fmt: skip
    low, high = (
        in_pieces(lambda t, y, _, lag=lag: [table("cubic")(t - lag) - y[0]], [0.0],
                  np.array([3.0, 6.0]), KNOTS + lag)
        for lag in (0.5 - 1e-4, 0.5 + 1e-4)
    )  # fmt: skip
    assert moved["sensitivity"].values[:, :, 0] == pytest.approx((high - low) / 2e-4, abs=1e-6)


def test_fit_of_patients_with_inputs_of_their_own():
    doses = [
        ergode.interpolant([0.0, 1.0], [2.0, 0.0], "steps"),
        ergode.interpolant([0.0, 0.5, 3.0, 3.5], [1.0, 0.0, 1.0, 0.0], "steps"),
        ergode.interpolant([0.0, 2.0, 6.0], [0.0, 1.0, 0.5]),
    ]
    data = np.array([expected(dose, TIMES, dose.times)[:, 1] for dose in doses])
    data[1, ::3] = np.nan
    found = fit(
        two_compartments(doses), times=TIMES, data={"blood": data}, initial=START,
        parameters={"share": 0.5, "ka": 2.0, "ke": 0.2}, estimate=["share", "ka", "ke"], starts=2,
        device="cpu",
    )  # fmt: skip
    assert found["estimate"].values == pytest.approx([0.8, 1.2, 0.3], rel=1e-5)


@pytest.mark.parametrize("kind", ["steps", "cubic"])
def test_there_and_back(kind):
    field = two_compartments(table(kind))
    shared = {"parameters": GIVEN, "rtol": 1e-11, "atol": 1e-13, "device": "cpu"}
    there = integrate(field, times=[0, 6], initial=START, **shared)["state"].values[-1]
    end = dict(zip(START, there, strict=True))
    back = integrate(field, times=[6, 0], initial=end, **shared)["state"].values[-1]
    assert back == pytest.approx([*START.values()], abs=1e-8)


def test_a_measured_law_of_the_state():
    law = ergode.interpolant(np.linspace(0, 2, 21), np.linspace(0, 2, 21) ** 2, "cubic")

    def loss(t, y, p, c):
        return (-c.law(y[0]),)

    field = ergode.VectorField(loss, ["x"], constants={"law": law})
    found = integrate(field, times=[0, 3], initial={"x": 1.5}, method="rodas5p", **TIGHT)
    assert found["state"].values[-1, 0] == pytest.approx(1.5 / (1 + 4.5), abs=1e-8)


def test_kernels_compile_for_a_gpu(compiles_to_registers):
    from ergode.trajectories.adaptive.bindings import bindings_of
    from ergode.trajectories.adaptive.outcome import Control
    from ergode.trajectories.methods import METHODS

    control = Control(1e-6, 1e-9, None, np.inf, 1000, -np.inf, (), (), 0)
    for precision in ("float32", "float64"):
        bindings = bindings_of(two_compartments(table()), METHODS["tsit5"], control, precision)
        compiles_to_registers(bindings, precision)


def test_what_is_refused():
    shared = {"initial": START, "parameters": GIVEN, "device": "cpu"}
    with pytest.raises(ModelError, match="'dose' is a table from 0 to 6, but times are from 0 to"):
        integrate(two_compartments(table("linear")), times=[0, 7], **shared)
    with pytest.raises(ModelError, match="'dose' are numbers of tables, and it has 1 table"):
        integrate(two_compartments(table()), times=[0, 1], initial=START,
                  parameters={**GIVEN, "dose": 1}, device="cpu")  # fmt: skip
    with pytest.raises(ModelError, match="'ke' has 3 values and 'dose' has 2"):
        integrate(two_compartments([table(), table()]), times=[0, 1], initial=START,
                  parameters={**GIVEN, "ke": [1, 2, 3]}, device="cpu")  # fmt: skip
    with pytest.raises(ModelError, match="constant 'dose' is ndarray; expected an ergode.interp"):
        two_compartments(VALUES)
    with pytest.raises(ModelError, match="period of an interpolant is 2; expected a number above"):
        table(period=2)
    with pytest.raises(PlanError, match="'dose' is not called with t alone; use kind='linear'"):
        late = ergode.field_from_equations({"x": "dose(t - lag)"}, constants={"dose": table()})
        sensitivities(late, times=[0, 1], initial={"x": 0.0}, parameters={"lag": 0.1},
                      with_respect_to=["lag"], device="cpu")  # fmt: skip

    def whole(t, y, p, c):
        return (c.drug(t),)

    with pytest.raises(ModelError, match=r"has no attribute 'drug'|calls c.drug\(t\)"):
        ergode.VectorField(whole, ["x"], constants={"dose": table()})
