"""Events and observables of fields of arrays: closed forms, the small form, and each other."""

import math
import pickle

import numpy as np
import pytest
from both_devices import on_both
from cuda_on_host import check_ptx, outcome_on_host
from well_known import lorenz_96, lorenz_96_in_place, lorenz_96_small

import ergode
from ergode.core.status import Status
from ergode.trajectories import (
    Maximum,
    Mean,
    Minimum,
    Observable,
    TimeAbove,
    ZeroCrossing,
    integrate,
)
from ergode.trajectories.arrays import followers
from ergode.trajectories.steppers.noise import Paths


def third(t, y, p):
    return y[3] - 2.0


def second_or_time(t, y, p):
    return y[2] - 1.5 - 0.1 * t


def lowered(t, y, p):
    y[3] = y[3] - 0.5 * y[1] / (1.0 + abs(y[1]))


def very_high(t, y, p):
    return y[0] - 9.0


def energy(t, y, p):
    total = 0.0
    for j in range(len(y)):
        total += y[j] * y[j]
    return total / len(y)


def zeroth(t, y, p):
    return y[0]


EVENTS = [
    ZeroCrossing(third, 0), ZeroCrossing(second_or_time, 1),
    ZeroCrossing(very_high, 1, terminal=True),
    ZeroCrossing(third, -1, effect=lowered, name="kick"),
]  # fmt: skip
OBSERVABLES = [Maximum(energy), Minimum(energy), Mean(energy), TimeAbove(zeroth, 2.0)]
WATCHED = {"events": EVENTS, "observables": OBSERVABLES, "record": 3}


def field_of(n, function=lorenz_96):
    return ergode.VectorField(component=function, variables=("x", n), parameters=["F"])


def starts(count, n, seed=0):
    return 3.0 + np.random.default_rng(seed).normal(size=(count, n))


def same(one, other):
    """No bit differs."""
    for name in one.data_vars:
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)


# ---- numbers


def fires(i, t, y, p, c):
    return c.speed[i] + 0.0 * y[i]


def full(t, y, p, c):
    return y[c.which[0]] - 1.0


def emptied(t, y, p, c):
    y[c.which[0]] = 0.0


def mean_of(t, y, p, c):
    total = 0.0
    for j in range(y.size):
        total += y[j]
    return total / y.size


def half(t, y, p, c):
    return y[0] - 0.5


@pytest.mark.parametrize(("n", "how"), [(1, {"rtol": 1e-6, "atol": 1e-9}), (7, {"step": 0.03})])
def test_an_effect_in_place_and_its_closed_form(n, how, monkeypatch):
    """Units rise at constant speeds, and the last falls to zero at one."""
    speed = np.linspace(0.5, 1.0, n) if n > 1 else np.ones(1)
    field = ergode.VectorField(component=fires, variables=("x", n),
                               constants={"speed": speed, "which": [n - 1]})  # fmt: skip
    end, times = 4.25, np.array([0.0, 1.0, 1.5, 4.25])
    found = outcome_on_host("thread", monkeypatch, field, "tsit5", times, np.zeros((1, n)),
                            np.zeros((0, 1)), {
        **how, "events": [ZeroCrossing(full, 1, effect=emptied), ZeroCrossing(half, 0)],
        "observables": [Mean(mean_of), Maximum(mean_of), TimeAbove(half, 0.0), Minimum(full)],
        "recorded": 10,
    })  # fmt: skip
    assert found.status.tolist() == [Status.DONE]
    # The first unit is the last one if there is one: half is passed in every turn.
    # Then the effect carries it back across half.
    assert found.hit_counts.ravel().tolist() == [4, 8 if n == 1 else 1]
    np.testing.assert_allclose(found.hits[0, :4, 0, 0], [1, 2, 3, 4], rtol=1e-9)
    np.testing.assert_allclose(found.hits[0, :4, -1, 0], 1.0, rtol=1e-9)
    exact = speed * times[:, None]
    exact[:, -1] = [0.0, 1.0, 0.5, 0.25]  # at the moment of an event: the state before it
    np.testing.assert_allclose(found.states[..., 0], exact, rtol=1e-9, atol=1e-12)
    others = speed[:-1].sum()
    mean = (others * end / 2 + (4 * 0.5 + 0.25**2 / 2) / end) / n
    top = max(others * end + 0.25, others * 4 + 1.0) / n
    above = 2.0 if n == 1 else end - 1.0
    np.testing.assert_allclose(found.observed[:, 0], [mean, top, above, -1.0], rtol=1e-8)


def wave(i, j, t, y, p):
    return p[0] * math.cos(p[0] * t) + 0.0 * y.u[i, j]


def decays(i, t, y, p):
    return -y.v[i]


def crosses_zero(t, y, p):
    return y.u[1, 2] + 0.0 * y.v[0]


def whole_sum(t, y, p):
    total = 0.0
    for i in range(y.u.shape[0]):
        for j in range(y.u.shape[1]):
            total += y.u[i, j]
    return total + y.v[1]


@pytest.mark.exhaustive
def test_two_arrays_sweeps_and_time_that_runs_backward():
    field = ergode.VectorField(component={"u": wave, "v": decays}, parameters=["w"],
                               variables={"u": (2, 3), "v": 4})  # fmt: skip
    speeds = np.array([2.0, 3.0])
    common = {"events": [ZeroCrossing(crosses_zero, -1, name="fall")], "record": 2,
              "observables": [Mean(whole_sum), TimeAbove(whole_sum, 0.0)], "max_step": 0.05,
              "device": "cpu", "rtol": 1e-9, "atol": 1e-11}  # fmt: skip
    found = integrate(
        field, times=[0.0, 3.2], initial={"u": 0.0, "v": 1.0}, **common,
        parameters=ergode.grid(w=speeds),
    )  # fmt: skip
    assert found["event_u"].dims == ("w", "event", "hit", "u_i", "j")
    assert found["event_v"].shape == (2, 1, 2, 4)
    falls = [np.pi / 2.0, 0.0], [np.pi / 3.0, np.pi]
    assert found["event_count"].values.ravel().tolist() == [1, 2]
    np.testing.assert_allclose(found["event_time"].values[0, 0, 0], falls[0][0], rtol=1e-7)
    np.testing.assert_allclose(found["event_time"].values[1, 0], falls[1], rtol=1e-7)
    np.testing.assert_allclose(found["event_u"].values[1, 0], 0.0, atol=1e-7)
    np.testing.assert_allclose(
        found["event_v"].values[1, 0, :, 2], np.exp(-np.array(falls[1])), rtol=1e-7
    )
    mean = [6 * (1 - math.cos(w * 3.2)) / w / 3.2 + (1 - math.exp(-3.2)) / 3.2 for w in speeds]
    np.testing.assert_allclose(found["observed"][:, 0], mean, rtol=1e-7)
    last = {name: found[name].values[:, -1] for name in "uv"}
    back = integrate(
        field, times=[3.2, 0.0], initial=last,
        parameters={"w": speeds}, **common,
    )  # fmt: skip
    np.testing.assert_allclose(back["observed"], found["observed"], rtol=1e-6)
    np.testing.assert_allclose(back["u"].values[:, -1], 0.0, atol=1e-6)
    # Backward, u falls where it rises forward.  Rounding decides whether it falls at the very end.
    np.testing.assert_allclose(back["event_time"].values[:, 0, 0], 2 * np.pi / speeds, rtol=1e-6)
    np.testing.assert_allclose(np.nan_to_num(back["event_time"].values[:, 0, 1]), 0.0, atol=1e-6)


def drift(i, t, y, p):
    return -y[i]


def square(t, y, p):
    return y[0] * y[1] - 0.3


def test_noise_is_a_straight_line_within_a_step(monkeypatch):
    field = ergode.VectorField(component=drift, variables=("x", 3), diffusion=0.8)
    times, count = np.linspace(0.0, 2.0, 51), 2
    run = (field, "euler-maruyama", times, np.full((count, 3), 0.5), np.zeros((0, count)))
    bare = outcome_on_host("thread", monkeypatch, *run, {"step": 0.04}, paths=Paths(seed=4)).states
    found = outcome_on_host("thread", monkeypatch, *run, {
        "step": 0.04, "events": [ZeroCrossing(square), ZeroCrossing(very_high, terminal=True)],
        "observables": [Mean(zeroth), Maximum(zeroth), Mean(square)],
    }, paths=Paths(seed=4))  # fmt: skip
    np.testing.assert_array_equal(found.states, bare)
    x = bare[:, 0]
    np.testing.assert_allclose(found.observed[0], np.trapezoid(x, times, axis=0) / 2.0, rtol=1e-9)
    np.testing.assert_allclose(found.observed[1], x.max(0), rtol=1e-12)
    fine = np.linspace(0.0, 2.0, 20_001)
    for i in range(count):
        one, other = (np.interp(fine, times, bare[:, k, i]) for k in (0, 1))
        gap = one * other - 0.3
        known = np.count_nonzero(np.sign(gap[1:]) != np.sign(gap[:-1]))
        assert abs(found.hit_counts[0, i] - known) <= 2  # within a cell of the sample
        np.testing.assert_allclose(found.observed[2, i], np.trapezoid(gap, fine) / 2, atol=1e-5)


# ---- the same numbers whoever follows a trajectory


@pytest.mark.slow
@pytest.mark.parametrize("how", [
    {"rtol": 1e-7, "atol": 1e-8}, pytest.param({"step": 0.01}, marks=pytest.mark.exhaustive),
    pytest.param({"method": "dop853"}, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_lanes_threads_and_counts_change_no_bit(how, monkeypatch):
    first = starts(19, 40, 2)
    common = {"times": [0.0, 0.31, 1.0], "parameters": {"F": 8.0}, **WATCHED, **how}
    lanes = integrate(field_of(40), initial={"x": first}, device="cpu:2", **common)
    assert (lanes["event_count"].sum("trajectory") > 0).all()
    assert {Status.DONE, Status.STOPPED} == {*lanes["status"].values.tolist()}
    assert lanes["event_x"].dims == ("trajectory", "event", "hit", "i")
    assert lanes["event"].values.tolist() == ["third", "second_or_time", "very_high", "kick"]
    same(integrate(field_of(40), initial={"x": first[:8]}, device="cpu:1", **common),
         lanes.isel(trajectory=slice(8)))  # fmt: skip
    monkeypatch.setattr(followers, "_CACHE_BYTES", 0)
    same(integrate(field_of(40), initial={"x": first}, device="cpu:2", **common), lanes)


@pytest.mark.exhaustive
def test_many_threads_on_one_trajectory_change_no_bit():
    y = starts(1, 9_000, 6)[0]
    common = {"times": [0.0, 0.31, 0.6], "initial": {"x": y}, "parameters": {"F": 8.0}, **WATCHED}
    one, three = (integrate(field_of(9_000), device=f"cpu:{k}", **common) for k in (1, 3))
    assert float(one["event_count"].sum()) > 0
    same(one, three)


DOP853 = {"method": "dop853", "rtol": 1e-5, "atol": 1e-6}
EULER, RKC2 = {"method": "euler", "step": 0.011}, {"method": "rkc2", "rtol": 1e-3, "atol": 1e-4}


_RARE = [("block", RKC2), ("grid", DOP853), ("block", EULER), ("grid", RKC2)]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "how"), [
    ("block, all in shared memory", DOP853), ("grid", EULER),
    *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in _RARE),
])  # fmt: skip
def test_groups_of_cuda_threads_compute_the_same(case, how, monkeypatch):
    """Kernels run as Python threads, with barriers that are real; one thread is the reference."""
    times = np.array([0.0, 0.13, 0.3])
    first = np.vstack([starts(1, 11, 4), starts(1, 11, 11) + 4.0])
    first = first[:1] if case == "grid" else first
    count = len(first)
    options = {"events": EVENTS, "recorded": 2, "observables": OBSERVABLES, "observe_from": 0.02,
               **{name: value for name, value in how.items() if name != "method"}}  # fmt: skip
    run = (field_of(11), how["method"], times, first, np.full((1, count), 8.0), options)
    alone, found = (outcome_on_host(one, monkeypatch, *run) for one in ("thread", case))
    assert alone.status.tolist() == [Status.DONE, Status.STOPPED][:count]
    assert np.isnan(alone.states[-1, :, 1:]).all() and alone.hit_counts[3, 0] == 1
    np.testing.assert_array_equal(found.status, alone.status)
    np.testing.assert_array_equal(found.hit_counts, alone.hit_counts)
    for name in ("states", "hits", "observed"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(alone, name), rtol=1e-9, atol=1e-10, err_msg=name
        )


CUDA = {
    "thread": (field_of(6), "tsit5", 10, {}),
    "block": (field_of(40), "dop853", 100_000, {}),
    "grid": (field_of(20_000), "rk4", 1, {"step": 0.1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CUDA)
def test_cuda_kernels_compile(case):
    field, method, count, options = CUDA[case]
    more = {"events": EVENTS[2:], "recorded": 2, "observables": OBSERVABLES[2:3]}
    check_ptx(case, field, method, count, "float32", **options, **more)


@pytest.mark.cuda
@pytest.mark.parametrize("how", [{"rtol": 1e-7, "atol": 1e-8}, {"step": 0.01}])
@pytest.mark.parametrize(
    ("n", "count", "form"),
    [(6, 100, "component"), (9, 100, "component"), (40, 50, "component"), (40, 50, "rhs"),
     (300, 9, "component"), (20_000, 2, "component")],
)  # fmt: skip
def test_a_gpu_has_the_same_events_and_observables(n, count, form, how):
    """A thread, a block or the grid for a trajectory."""
    field = field_of(n)
    if form == "rhs":
        field = ergode.VectorField(rhs=lorenz_96_in_place, variables=("x", n), parameters=["F"])
    common = {"times": [0.0, 0.31, 0.8], "initial": {"x": starts(count, n, 5)},
              "parameters": {"F": 8.0}, **WATCHED, **how}  # fmt: skip
    one, other = on_both(integrate, field, **common)
    np.testing.assert_array_equal(other["status"], one["status"])
    np.testing.assert_array_equal(other["event_count"], one["event_count"])
    for name in ("x", "event_time", "event_x", "observed"):
        np.testing.assert_allclose(other[name], one[name], rtol=1e-6, atol=1e-6, err_msg=name)


# ---- what cannot be


NOWHERE = math.nan


def no_number(t, y, p):
    return y[0] if y[0] > 2.6 else NOWHERE


def test_an_event_function_that_is_no_number_ends_the_trajectory(monkeypatch):
    found = outcome_on_host(
        "thread", monkeypatch, field_of(5), "tsit5", np.array([0.0, 2.0]), starts(1, 5),
        np.full((1, 1), 8.0), {"events": [ZeroCrossing(no_number)], "rtol": 1e-4},
    )  # fmt: skip
    assert found.status.tolist() == [Status.NOT_FINITE] and np.isnan(found.states[-1]).all()


def test_observables_of_functions_pickle():
    one = pickle.loads(pickle.dumps(Maximum(lambda t, y, p: y[0] - 1.0, name="first")))
    assert one.name == "first" and one.variable(0.0, [3.0], ()) == 2.0
    assert Mean(zeroth).name == "mean of zeroth" and Mean("x").name == "mean of x"
    assert TimeAbove(lambda t, y, p: y[0], 2.0).name == "time of function above 2"


def beyond(t, y, p):
    return y[40]


def returns(t, y, p):
    return y[0]


def condition(t, y, p):
    return y[0] > 1.0


def forces(t, y, p, c):
    return y[0] - c.force(t)


LATE = ergode.VectorField(component=fires, variables=("x", 3), constants={
    "speed": [1.0, 1.0, 1.0], "which": [0],
    "force": ergode.interpolant([0.0, 0.5], [0.0, 1.0]),
})  # fmt: skip
REFUSED = [
    ({"events": [ZeroCrossing(beyond)]}, "'beyond' uses y.40., but an index of this"),
    ({"observables": [Mean(beyond)]}, "'beyond' uses y.40., but an index of this"),
    ({"events": [ZeroCrossing(third, effect=returns)]}, "returns y\\[0\\]; expected it to set"),
    ({"events": [ZeroCrossing(third, effect=lambda t, y, p: y[30])]}, "expected it to set"),
    ({"events": [ZeroCrossing(condition)]}, "returns a condition"),
    ({"events": [ZeroCrossing(lambda t, y: y[0])]}, "expected .*\\(t, y, p\\)"),
    ({"events": [ZeroCrossing(lambda t, y, p: y)]}, "returns array"),
    ({"events": [ZeroCrossing(lambda t, y, p: y[0] + p[1])]}, "p\\[1\\], but there is 1"),
    ({"events": [ZeroCrossing(third), ZeroCrossing(third)]}, "two events are called 'third'"),
    ({"events": [7]}, "events has 7"),
    ({"observables": [Maximum("x")]}, "'maximum of x' names 'x'; where variables are arrays"),
    ({"observables": [Maximum(7)]}, "observable 'maximum of function' is 7; expected a function"),
    ({"observables": [Observable(third, third, third, name="own")]}, "where variables are arrays"),
    ({"observables": [Mean(lambda t, y, p: y[0]), Mean(lambda t, y, p: y[1])]}, "two observables"),
    ({"events": [ZeroCrossing(third)], "method": "rk4"}, "does not estimate its error"),
    ({"initial": {"x": np.zeros(39)}}, "39"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_is_refused_in_one_line(options, said):
    request = {"times": [0.0, 1.0], "initial": {"x": 0.0}, "parameters": {"F": 8.0}, **options}
    with pytest.raises(ergode.ErgodeError, match=said) as refused:
        integrate(field_of(40), device="cpu", **request)
    assert "\n" not in str(refused.value)


def test_tables_effects_with_noise_and_small_fields_are_refused_too():
    with pytest.raises(ergode.ModelError, match="'force' is a table from 0 to 0.5, but times are"):
        integrate(LATE, times=[0.0, 1.0], initial={"x": 0.0}, device="cpu",
                  events=[ZeroCrossing(forces)])  # fmt: skip
    counts = ergode.VectorField(component=drift, variables=("count", 5))
    with pytest.raises(ergode.ModelError, match="variable 'count' would be 'event_count'"):
        integrate(counts, times=[0.0, 1.0], initial={"count": 0.0}, device="cpu",
                  events=[ZeroCrossing(zeroth)])  # fmt: skip
    noisy = ergode.VectorField(component=drift, variables=("x", 5), diffusion=0.8)
    with pytest.raises(ergode.PlanError, match="effect of event 'zeroth'"):
        integrate(noisy, times=[0.0, 1.0], initial={"x": 0.0}, device="cpu", step=0.1,
                  events=[ZeroCrossing(zeroth, effect=lowered)])  # fmt: skip
    small = ergode.VectorField(lorenz_96_small, list("abcde"), ["F"])
    with pytest.raises(ergode.ModelError, match="is of a function; where variables are single"):
        integrate(small, times=[0.0, 1.0], initial=dict.fromkeys("abcde", 1.0), device="cpu",
                  parameters={"F": 8.0}, observables=[Mean(zeroth)])  # fmt: skip
