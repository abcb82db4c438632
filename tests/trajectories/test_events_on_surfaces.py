"""Events whose function is zero where a step begins: starts, landings, and effects that jump."""

import numpy as np
import pytest

import ergode
from ergode.core.status import Status
from ergode.trajectories import ZeroCrossing

GRAVITY = 9.81


def falling(t, y, p):
    return y[1], -9.81


def falling_one(i, t, y, p):
    return y[1] if i == 0 else -9.81


def height(t, y, p):
    return y[0]


def above_two(t, y, p):
    return y[0] - 2.0


def above_five(t, y, p):
    return y[0] - 5.0


def land(t, y, p):
    return 0.0, -p[0] * y[1]


def land_in_place(t, y, p):
    y[0] = 0.0
    y[1] = -p[0] * y[1]


def toggle(t, y, p):
    return y[0], y[1] - 1.0


def toggle_in_place(t, y, p):
    y[1] = y[1] - 1.0


def lower(t, y, p):
    return y[0] - 3.0, y[1]


def lower_in_place(t, y, p):
    y[0] = y[0] - 3.0


NAMED = ergode.VectorField(falling, ["height", "speed"], ["restitution"])
ARRAY = ergode.VectorField(component=falling_one, variables=("y", 2), parameters=["restitution"])
EFFECTS = {"land": (land, land_in_place), "toggle": (toggle, toggle_in_place),
           "lower": (lower, lower_in_place)}  # fmt: skip
FORMS = [
    ("named", {"method": "tsit5"}),
    ("array", {"method": "tsit5"}),
    pytest.param("named", {"method": "rk4", "step": 0.01}, marks=pytest.mark.slow),
    # Where it gives up, the others of "auto" go on: kernels of two methods.
    pytest.param("named", {}, marks=pytest.mark.exhaustive),
    pytest.param("array", {}, marks=pytest.mark.exhaustive),
    pytest.param("named", {"method": "rodas5p"}, marks=pytest.mark.exhaustive),
    pytest.param("array", {"method": "rodas5p"}, marks=pytest.mark.exhaustive),
    pytest.param("array", {"method": "rk4", "step": 0.01}, marks=pytest.mark.exhaustive),
    pytest.param("named", {"precision": "float32", "rtol": 1e-5}, marks=pytest.mark.exhaustive),
]


def event(function, direction, effect=None, form="named", **options):
    if effect is not None:
        options["effect"] = EFFECTS[effect][form == "array"]
    return ZeroCrossing(function, direction, **options)


def fly(form, starts, events, restitution=0.5, end=0.3, **options):
    """Final height and speed [trajectory, 2], and the result."""
    starts = np.array(starts, float)
    if form == "array":
        field, initial = ARRAY, {"y": starts}
    else:
        field, initial = NAMED, {"height": starts[:, 0], "speed": starts[:, 1]}
    options.setdefault("device", "cpu")
    found = ergode.trajectories.integrate(
        field, times=[0.0, end], initial=initial, parameters={"restitution": restitution},
        events=events, record=4, **options,
    )  # fmt: skip
    return found["y" if form == "array" else "state"].values[:, -1], found


STARTS = [(0.0, -1.0), (0.0, 1.0), (0.0, 0.0), (0.1, 0.0)]


# Of two lists of events each, so that a form has two kernels; always several trajectories.
def stopping(form):
    return [event(above_two, -1, "lower", form, name="lower"),
            event(height, -1, form=form, terminal=True, name="ground"),
            event(height, -1, form=form, name="falls"), event(height, 1, name="rises"),
            event(height, 0, name="both"),
            event(above_five, -1, "toggle", form, name="toggle")]  # fmt: skip


def landing(form):
    return [event(height, -1, name="before"), event(above_two, -1, "lower", form, name="lower"),
            event(height, -1, "land", form, name="ground"), event(height, 1, name="rises"),
            event(height, -1, form=form, name="after")]  # fmt: skip


def check_starts(form, options):
    """A terminal ground stops a fall that begins on it, and no throw; the others are counted.

    The last is lowered below the ground, which stops it too.
    """
    states, found = fly(form, [*STARTS, (2.1, 0.0)], stopping(form), end=0.25, **options)
    np.testing.assert_array_equal(found["status"], Status.STOPPED)
    assert np.isnan(states).all()
    np.testing.assert_array_equal(
        found["event_count"],
        [
            [0, 1, 1, 0, 1, 0],
            [0, 1, 1, 1, 2, 0],
            [0, 1, 1, 0, 1, 0],
            [0, 1, 1, 0, 1, 0],
            [1, 1, 1, 0, 1, 0],
        ],
    )
    hits = found["event_time"].sel(event="ground").values[:, 0]
    low = np.sqrt(0.2 / GRAVITY)
    exact = [0.0, 2.0 / GRAVITY, 0.0, low, low]
    np.testing.assert_allclose(hits, exact, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(("form", "options"), FORMS)
def test_a_start_on_a_surface(form, options):
    """A start at zero that moves down missed the ground, and fell on."""
    check_starts(form, options)


def check_rebounds(form, options):
    # v = -1 at the ground, restitution 0.9: the first flight lasts 0.18.
    states, found = fly(form, STARTS[:2], landing(form), 0.9, 0.1, **options)
    late = np.array([0.9, 1.0])
    exact = np.array([0.1 * late - GRAVITY * 0.1**2 / 2, late - GRAVITY * 0.1]).T
    np.testing.assert_allclose(states, exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["event_count"].sel(event="ground"), [1, 0])


@pytest.mark.parametrize(("form", "options"), FORMS)
def test_landing_without_rebound_does_not_fall_through_the_floor(form, options):
    """The ball fell through the floor, with the status DONE."""
    check_rebounds(form, options)
    with pytest.warns(ergode.FailureWarning):
        states, found = fly(
            form, [(0.1, 0.0)] * 3, landing(form), [0.0, 1e-12, 0.3], 2.0, max_steps=10_000,
            **options,
        )  # fmt: skip
    np.testing.assert_array_equal(found["status"], Status.STEP_TOO_SMALL)
    assert np.isnan(states).all()
    first = found["event_time"].sel(event="ground").values[:2, 0]
    np.testing.assert_allclose(first, np.sqrt(0.2 / GRAVITY), rtol=1e-5)


@pytest.mark.parametrize(("form", "options"), FORMS[:3])
def test_an_effect_that_goes_on_through_the_surface_acts_once(form, options):
    states, found = fly(form, [(5.1, 0.0)] * 2, stopping(form), **options)
    t = np.sqrt(0.2 / GRAVITY)
    exact = [[5.1 - GRAVITY * 0.3**2 / 2 - (0.3 - t), -GRAVITY * 0.3 - 1.0]] * 2
    np.testing.assert_allclose(states, exact, rtol=1e-5)
    np.testing.assert_array_equal(found["event_count"], [[0, 0, 0, 0, 0, 1]] * 2)


def check_jumps(form, options):
    states, found = fly(form, [(2.1, 0.0)] * 2, landing(form), 0.5, 0.2, **options)
    t = np.sqrt(0.2 / GRAVITY)
    up, late = 0.5 * GRAVITY * t, 0.2 - t
    exact = [[up * late - GRAVITY * late**2 / 2, up - GRAVITY * late]] * 2
    np.testing.assert_allclose(states, exact, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found["event_count"], [[1, 1, 1, 0, 1]] * 2)
    times = found["event_time"].values[:, [0, 1, 2, 4], 0]
    np.testing.assert_allclose(times, t, rtol=1e-5)


@pytest.mark.parametrize(("form", "options"), FORMS)
def test_an_effect_that_crosses_another_surface_is_a_crossing(form, options):
    """An effect put the ball below the ground, and the ground did not act."""
    check_jumps(form, options)


@pytest.mark.cuda
@pytest.mark.parametrize("form", ["named", "array"])
@pytest.mark.parametrize("check", [check_starts, check_rebounds, check_jumps])
def test_a_gpu_has_the_same_events_on_surfaces(form, check):
    check(form, {"device": "cuda"})


def clock(t, y, p):
    return 1.0, 0.0


def dead_band(t, y, p):
    """Zero from 2 to 3, and below it then."""
    return max(2.0 - y[0], 0.0) + min(3.0 - y[0], 0.0)


def below(t, y, p):
    return -y[0]


def far(t, y, p):
    return y[0] + 9.0


def ticking(surface, ends, first, end):
    """Events of a clock, as many and of the same kinds as in `stopping`: one kernel."""
    events = [
        event(far, -1, "lower", name="a"),
        event(surface if ends else far, -1, terminal=True, name="b"), event(surface, -1, name="c"),
        event(far, 1, name="d"), event(far, 0, name="e"), event(far, -1, "toggle", name="f"),
    ]  # fmt: skip
    field = ergode.VectorField(clock, ["height", "speed"], ["restitution"])
    found = ergode.trajectories.integrate(
        field, times=[0, end], initial={"height": first, "speed": 0.0}, max_step=0.7,
        parameters={"restitution": 0.0}, device="cpu", record=4, events=events, method="tsit5",
    )  # fmt: skip
    return found["event_count"].values, found["event_time"].values[:3, 0]


@pytest.mark.parametrize("first", [0.0, 0.37])
def test_a_function_that_is_zero_over_a_stretch_crosses_where_the_stretch_begins(first):
    for ends in (False, True):
        counts, times = ticking(dead_band, ends, first, 4)
        assert counts.tolist() == [0, int(ends), 1, 0, 0, 0]
        assert times[1 + (not ends) :] == pytest.approx(2.0 - first, abs=1e-12)


def test_an_event_at_the_start_has_its_time():
    times = ticking(below, True, 0.0, 1)[1]
    assert set(times[np.isfinite(times)]) <= {0.0}
