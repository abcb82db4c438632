"""Measures that start and stop: when exactly, by fixed stays and meetings that are sure to infect.

Nodes of the compartment T1 enter U at time 1, those of T2 at time 2, and so on; each is in U for
two days.  Some pairs of an infectious and a susceptible node meet at one moment each.  The
susceptible node is infected unless all contacts are closed then.
"""

from typing import NamedTuple

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

ENTRIES = (1, 2, 3, 5, 7)
ALWAYS = 1e3  # contact time of a meeting that is sure to transmit
MODEL = ergode.CompartmentModel(
    ["S", "I", "U", "V", *(f"T{k}" for k in ENTRIES)],
    [ergode.Infection("S", "I", {"I": 1.0})],
    [
        # Every compartment must be within reach; this is long after the end.
        ergode.Progression("I", {f"T{k}": 0.2 for k in ENTRIES}, ergode.Deterministic(999.0)),
        ergode.Progression("U", "V", ergode.Deterministic(2.0)),
        *(ergode.Progression(f"T{k}", "U", ergode.Deterministic(float(k))) for k in ENTRIES),
    ],
)
NEVER = ergode.LayerClosure(start=ergode.Trigger("S", 10**6))  # all tests share its kernel
BOTH = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def at_least(level, count="U", **options):
    return ergode.Trigger(count, level, **options)


def below(level, count="U", **options):
    return ergode.Trigger(count, level, below=True, **options)


def is_closed(times, entries, measure, device="cpu", begin=0.0):
    """Whether contacts were closed at some times, given when nodes enter U."""
    count = len(times)
    contacts = ergode.TemporalContacts.from_meetings(
        np.arange(count), count + np.arange(count), begin + np.array(times), contact_time=ALWAYS,
        node_count=2 * count + len(entries),
    )  # fmt: skip
    initial = {"I": np.arange(count)}
    for k in set(entries):
        initial[f"T{k}"] = 2 * count + np.flatnonzero(np.array(entries) == k)
    counts = simulate(
        MODEL, contacts, initial=initial, times=begin + np.union1d(0.0, times), method="sellke",
        device=device, interventions=[measure, NEVER], precision="float64",
    )  # fmt: skip
    # At each of the times one node more is a case, or none.
    cases = counts["cases"].isel(replicate=0).values[-count:]
    return (np.diff(cases, prepend=count) == 0).tolist()


class Case(NamedTuple):
    entries: tuple
    start: object
    stop: object
    spans: tuple  # in which contacts are closed: after the first time, up to the second
    from_first: bool = False  # or from the first time, and before the second


CASES = {
    # U has 1 node from time 1 on, 2 from time 2 on, 1 from time 4 on, and none from time 5 on.
    "hysteresis": Case((1, 2, 3), at_least(2), below(1), ((2, 5),)),
    # One node comes and one goes at time 3.
    "no width": Case((1, 2, 3), at_least(2), below(2), ((2, 4),)),
    "again and again": Case((1, 5), at_least(1), below(1), ((1, 3), (5, 7))),
    "below at the beginning": Case((1, 5), below(1), at_least(1), ((0, 1), (3, 5), (7, 12))),
    "several counted": Case((1, 5), at_least(2, ("T5", "U")), below(2, ("T5", "U")), ((1, 3),)),
    "level of all": Case((1, 1, 1), at_least(3), below(3), ((1, 3),)),
    "level above all": Case((1, 1, 1), at_least(4), below(4), ()),
    "stop level above all": Case((1, 1, 1), at_least(1), at_least(4), ((1, 12),)),
    # The condition of the stop holds until time 2.
    "start held back": Case((1, 2), at_least(1), at_least(1, ("T1", "T2")), ((2, 12),)),
    "both at one moment": Case((1, 2), at_least(1), at_least(2), ((1, 2), (3, 12))),
    "from the beginning": Case((1, 5), None, at_least(1), ((0, 1),)),
    "from a time": Case((1, 5), 1.5, below(1), ((1.5, 3),)),
    "from a time at which it stops": Case((1, 5), 3.5, below(1), ((3.5, 3.5),)),
    "from a moment before the beginning": Case((2,), -3.0, at_least(1), ((0, 2),)),
    # Of one kind of time: closed at the first, and open at the second.
    "times": Case((1,), 2.0, 4.0, ((2, 4),), True),
    "equal times": Case((1,), 2.0, 2.0, (), True),
    "over before the beginning": Case((1,), None, -1.0, (), True),
    "delays": Case((1,), at_least(1, delay=0.5), below(1, delay=1.0), ((1.5, 4),), True),
    # The count falls before the start takes effect; the stop is decided at the start.
    "long delay": Case((1,), at_least(1, delay=3.0), below(1, delay=1.0), ((4, 5),), True),
    # The count rises again before the stop takes effect; the next start is decided at the stop.
    "long delay of the stop": Case(
        (1, 5), at_least(1, delay=0.5), below(1, delay=3.0), ((1.5, 6), (6.5, 10)), True
    ),
}


def expected(case, time):
    if case.from_first:
        return any(a <= time < b for a, b in case.spans)
    if isinstance(case.start, float) or case.start is None:  # its beginning is a time
        (first, stop), *_ = case.spans
        return first <= time <= stop
    return any(a < time <= b for a, b in case.spans)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("begin", [0.0, 16.0])
@pytest.mark.parametrize("name", CASES)
def test_a_measure_starts_and_stops_at_its_moments(name, begin, device):
    case = CASES[name]
    times = np.arange(0, 11.0, 0.25)
    start, stop = (
        begin + one if isinstance(one, float) else one for one in (case.start, case.stop)
    )
    closure = ergode.LayerClosure(start=start, stop=stop)
    found = is_closed(times, case.entries, closure, device, begin)
    assert found == [expected(case, time) for time in times]


def test_a_stop_at_a_date_of_a_measure_that_a_count_starts():
    closure = ergode.LayerClosure(start=at_least(1), stop=2.5)
    assert is_closed([1.0, 1.25, 2.25, 2.5, 5.25], (1, 5), closure) == [
        False, True, True, False, False,
    ]  # fmt: skip
    late = ergode.LayerClosure(start=at_least(1), stop=0.5)
    assert not any(is_closed([0.25, 0.75, 1.25], (1, 5), late))


def test_a_duration_equals_a_stop():
    times = np.arange(0, 6.0, 0.25)
    lasting, stopped = (
        ergode.LayerClosure(start=1, duration=3),
        ergode.LayerClosure(start=1, stop=4),
    )
    assert is_closed(times, (1,), lasting) == is_closed(times, (1,), stopped)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_least(1, below="no"), "below is 'no'"),
        (lambda: ergode.LayerClosure(stop="soon"), "stop is 'soon'"),
        (lambda: ergode.LayerClosure(stop=np.inf), "stop is inf; expected a finite time"),
        (lambda: ergode.LayerClosure(stop=np.nan), "stop is nan"),
        (lambda: ergode.LayerClosure(start=3, stop=2), "stops at 2, before it starts at 3"),
        (
            lambda: ergode.Isolation("I", start="2026-03-09", stop="2026-03-01"),
            "Isolation: it stops at 2026-03-01, before it starts at 2026-03-09",
        ),
        (lambda: ergode.LayerClosure(stop=2, duration=2), "a stop and a duration"),
        (
            lambda: ergode.LayerClosure(["school", "work"]),
            r"layer is \['school', 'work'\]; expected the name of one layer",
        ),
        (lambda: ergode.Isolation(["I", "H"]), r"compartment is \['I', 'H'\]; expected text"),
        (lambda: ergode.Capacity(None, 3, wait=True), "Capacity: compartment is None; expected"),
        (lambda: ergode.Importation(["I"], rate=1.0), r"Importation: compartment is \['I'\]"),
        (lambda: ergode.Testing({"I": 1}, among=["a"]), r"Testing: among is \['a'\]; expected"),
        (lambda: ergode.Vaccination(stop=2), "Vaccination: expected no stop"),
        (
            lambda: ergode.LayerClosure(start=at_least(2), stop=below(3)),
            "U >= 2 starts it and U < 3 stops it, and both may hold together",
        ),
        (
            lambda: ergode.LayerClosure(start=below(3), stop=at_least(2)),
            "U < 3 starts it and U >= 2 stops it",
        ),
        (
            lambda: ergode.LayerClosure(start=at_least(5), stop=at_least(5)),
            "it never starts: while U >= 5, U >= 5 stops it",
        ),
        (
            lambda: ergode.LayerClosure(start=below(5), stop=below(6)),
            "it never starts: while U < 5, U < 6 stops it",
        ),
        (
            lambda: ergode.LayerClosure(
                start=at_least(5), stop=ergode.Trigger("cases", 3, below=True)
            ),
            "never stops by cases < 3, because cases are cumulative",
        ),
        (
            lambda: is_closed([1.0], (1,), ergode.LayerClosure(stop=at_least(1, "X"))),
            "a trigger names the unknown compartment 'X'",
        ),
    ],
)
def test_a_bad_stop_is_an_error_that_names_it(make, message):
    with pytest.raises(ergode.ModelError, match=message):
        make()
