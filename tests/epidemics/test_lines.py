"""Tests and places of which there are too few, and counts in a window, event by event.

All calls have the same kinds of measures, and so share one compiled kernel.
"""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

PAIRS = 20
IDS = {"number": np.arange(2 * PAIRS)}
LONELY = ergode.ContactNetwork.from_edges([], [], node_count=2 * PAIRS).with_attributes(**IDS)
# Node 20 + i is at risk from node i alone.
CONTACTS = ergode.ContactNetwork.from_edges(
    np.arange(PAIRS), np.arange(PAIRS) + PAIRS, node_count=2 * PAIRS, directed=True
).with_attributes(**IDS)
# Each comes to the hospital H at the age of 4 days in E, and stays for one day.
HOSPITAL = ergode.CompartmentModel(
    ["S", "E", "H", "N", "R"],
    [ergode.Infection("S", "E", {"H": 1.0, "N": 0.5})],
    [
        ergode.Progression("E", {"H": 1.0, "N": 0.0}, ergode.Deterministic(4.0)),
        ergode.Progression("H", "R", ergode.Deterministic(1.0)),
        ergode.Progression("N", "R", ergode.Deterministic(9.0)),
    ],
)


def cases(illness):
    """Each falls ill at the age of 4 days in E: I for some days, and then J."""
    return ergode.CompartmentModel(
        ["S", "E", "I", "J", "R"],
        [ergode.Infection("S", "E", {"I": 100.0, "J": 90.0})],
        [
            ergode.Progression("E", {"I": 1.0, "R": 0.0}, ergode.Deterministic(4.0)),
            ergode.Progression("I", "J", ergode.Deterministic(illness)),
            ergode.Progression("J", "R", ergode.Deterministic(20.0)),
        ],
    )


def compartments(model, contacts, arrivals, measures, times, factor):
    """Where each node is, by time and node; the first nodes leave E at the arrivals [days].

    Who arrives on day 0 begins in I.
    """
    arrivals = np.array(arrivals)
    seeds = np.flatnonzero(arrivals)
    initial = {"E": ergode.Seeds(seeds, age=4.0 - arrivals[seeds])}
    if seeds.size < arrivals.size:
        initial["I"] = np.flatnonzero(arrivals == 0)
    name, instead = ("H", "N") if model is HOSPITAL else ("I", "R")
    enough = [
        ergode.Capacity(name, 10**6, instead, wait=True, patience=10.0**6),
        ergode.Testing({"R": 0.5}, capacity=10**6),
        ergode.LayerClosure(start=ergode.Trigger("R", fraction=1.0, window=0.5)),
    ]  # fmt: skip
    counts = simulate(
        model, contacts, initial=initial, times=times, interventions=[*measures, *enough],
        strata="number", layer_factors=factor, device="cpu",
    )  # fmt: skip
    assert counts.attrs["method"] == "sellke"
    where = counts["count"].isel(replicate=0).transpose("time", "stratum", "compartment").values
    return np.array(model.compartments)[where.argmax(axis=2)]


def in_hospital(arrivals, measures, times):
    """Where each of those who arrive at these days is."""
    always = ergode.Calendar([0.0], [1.0])
    found = compartments(HOSPITAL, LONELY, arrivals, measures, [0.0, *times], always)
    return ["".join(row[: len(arrivals)]) for row in found[1:]]


def turned_away(arrivals, *capacities):
    """Number of nodes that found no place; nodes arrive at these days."""
    return in_hospital(arrivals, capacities, [6.0])[0].count("N")


def isolated(arrivals, day, illness=9.0, sensitivity=None, **options):
    """Which of those who fall ill at some days are isolated on a day, when all transmit."""
    testing = ergode.Testing(sensitivity or {"I": 1.0}, **options)
    factor = ergode.Calendar([0.0, day, day + 0.25], [0.0, 1.0, 0.0])
    found = compartments(
        cases(illness), CONTACTS, arrivals, [testing], [0.0, day + 0.5], factor
    )[-1, PAIRS : PAIRS + len(arrivals)]  # fmt: skip
    return "".join("-" if name == "E" else "+" for name in found)


def test_who_arrives_when_all_places_are_taken_goes_elsewhere():
    one, two = (ergode.Capacity("H", places, instead="N") for places in (1, 2))
    assert turned_away([2.0, 2.5, 2.75, 3.5], one) == 2
    assert turned_away([2.0, 2.5, 2.75, 3.25], two) == 1
    # A place that becomes free on day 3 can be taken from then on, but not at that moment.
    assert turned_away([2.0, 3.0], one) == 1
    assert turned_away([2.0, 3.0625], one) == 0
    # All who arrive at one moment enter if there was a place before.
    assert turned_away([2.0, 2.0, 2.0, 2.5], one) == 1
    assert turned_away([2.0, 2.5], ergode.Capacity("H", 10**9, instead="N")) == 0


def test_who_waits_the_longest_gets_the_place():
    one, two = (ergode.Capacity("H", places, wait=True) for places in (1, 2))
    days = [2.75, 3.25, 4.25, 5.25]
    assert in_hospital([2.0, 2.25, 2.5], [one], days) == ["HEE", "RHE", "RRH", "RRR"]
    assert in_hospital([2.0, 2.5, 2.25], [one], days) == ["HEE", "REH", "RHR", "RRR"]
    # Whoever arrives at the moment at which a place becomes free comes after those who wait.
    assert in_hospital([2.0, 3.0, 2.5], [one], days) == ["HEE", "REH", "RHR", "RRR"]
    # The node with the lower number comes first; two places, which become free at one moment.
    assert in_hospital([2.0, 2.0, 2.5, 2.5, 2.5], [two], [3.25, 4.25]) == ["RRHHE", "RRRRH"]
    # The place is taken just after it is free, and the row of that moment shows it.
    assert in_hospital([2.0, 2.5], [one], [3.0]) == ["RH"]
    oldest = ergode.Capacity("H", 1, wait=True, priority="number")
    assert in_hospital([2.0, 2.25, 2.5], [oldest], days) == ["HEE", "REH", "RHR", "RRR"]
    halves = ergode.ByAttribute("number", [1, 0], groups=[0, 2])
    first = ergode.Capacity("H", 1, wait=True, priority=halves)
    assert in_hospital([2.25, 2.75, 2.5, 2.0], [first], days) == ["EEEH", "HEER", "RHER", "RRHR"]
    # A place that nobody waits for is there for the next.
    assert in_hospital([1.0, 1.5, 3.5], [one], [2.5, 3.25, 3.75]) == ["RHE", "RRE", "RRH"]


def test_who_loses_patience_goes_elsewhere():
    one = ergode.Capacity("H", 1, "N", wait=True, patience=0.5)
    days = [2.5, 2.8125, 3.125, 4.125]
    # The second leaves before the place is free; the third gets it, and the fourth is late.
    found = in_hospital([2.0, 2.25, 2.75, 2.875], [one], days)
    assert found == ["HEEE", "HNEE", "RNHE", "RNRN"]
    # A place that becomes free when patience ends is not for who has lost it.
    assert in_hospital([2.0, 2.5], [one], [3.125]) == ["RN"]
    first = ergode.Capacity("H", 1, "N", wait=True, patience=0.5, priority="number")
    assert in_hospital([2.0, 2.75, 2.875], [first], [3.125, 3.5]) == ["REH", "RNH"]


def test_tests_are_taken_at_once_while_there_are_some():
    # The second waits for the next day, and takes the test of the third.
    assert isolated([0.25, 0.5, 1.5], 1.75, capacity=1) == "++-"
    assert isolated([0.25, 0.5, 1.5], 2.25, capacity=1) == "+++"
    assert isolated([0.25, 0.5, 1.5], 3.0, capacity=1, wait=False) == "+-+"
    # Isolation begins with a delay after the test.
    assert isolated([0.25, 0.5], 1.125, capacity=1, delay=0.5) == "+-"
    assert isolated([0.25, 0.5], 1.625, capacity=1, delay=0.5) == "++"
    # All who ask at one moment are tested, and the next day has a test less.
    assert isolated([0.5, 0.5, 1.5], 1.75, capacity=1) == "++-"
    assert isolated([0.5, 0.5, 1.5], 2.25, capacity=1) == "+++"
    assert isolated([0.5, 0.75], 1.75, capacity=0) == "--"


def test_seeds_ask_in_a_line():
    begin = [0.0, 0.0, 0.0, 0.5]
    assert isolated(begin, 0.75, capacity=1) == "+---"
    assert isolated(begin, 0.75, capacity=2) == "++--"
    # The test that is left is for the next who asks.
    assert isolated(begin, 0.75, capacity=4) == "++++"
    assert isolated(begin, 1.5, capacity=1) == "++--"
    assert isolated(begin, 3.5, capacity=1) == "++++"
    assert isolated(begin, 0.75, capacity=1, priority="number") == "--+-"
    assert isolated(begin, 1.5, capacity=1, priority="number") == "--++"
    # Without a wait, those for whom no test is left are not tested.
    assert isolated(begin, 2.5, capacity=2, wait=False) == "++--"
    assert isolated(begin, 2.5, capacity=4, wait=False) == "++++"
    # A period that began before the run has the tests of its first moment.
    assert isolated(begin, 0.625, capacity=1, start=-0.25) == "+---"
    assert isolated(begin, 0.875, capacity=1, start=-0.25) == "++--"
    assert isolated(begin, 0.75, capacity=1, start=0.5) == "---+"


def test_periods_begin_with_the_measure_and_calendars_are_read_then():
    assert isolated([0.25, 0.75, 1.0], 2.0, capacity=1, start=0.5, period=2) == "-+-"
    assert isolated([0.25, 0.75, 1.0], 2.75, capacity=1, start=0.5, period=2) == "-++"
    assert isolated([0.25, 0.5, 0.75], 1.5, capacity=ergode.Calendar([0, 1], [0, 2])) == "++-"
    # Those who wait when a period begins without the measure leave the line.
    assert isolated([0.25, 0.5], 3.0, capacity=1, stop=0.875) == "+-"


def test_priority_and_changes_while_waiting():
    # The node with the largest number comes first.
    arrivals = [0.25, 0.5, 0.625, 0.75]
    assert isolated(arrivals, 1.5, capacity=1, priority="number") == "+--+"
    assert isolated(arrivals, 2.5, capacity=1, priority="number") == "+-++"
    assert isolated(arrivals, 2.5, capacity=1) == "+++-"
    # The second is in J when its turn comes: the test is spent, and negative.
    assert isolated([0.25, 0.375, 1.625], 2.5, illness=0.5, capacity=1) == "+-+"
    # Each asks again in J; who waits keeps one place.
    both = {"I": 1.0, "J": 1.0}
    found = isolated([0.25, 0.375, 0.5], 2.75, illness=0.25, sensitivity=both, capacity=1)
    assert found == "++-"


def closed(arrivals, day, start, stop=None):
    """Whether contacts are closed on a day, because of those who fall ill at some days."""
    closure = ergode.LayerClosure(start=start, stop=stop)
    factor = ergode.Calendar([0.0, day, day + 0.25], [0.0, 1.0, 0.0])
    times = [0.0, day + 0.5]
    found = compartments(cases(9.0), CONTACTS, arrivals, [closure], times, factor)
    return bool(found[-1, PAIRS] == "S")


def test_triggers_by_what_is_new_and_by_a_group():
    two = ergode.Trigger("I", 2, window=0.75)
    assert closed([1.0, 1.5], 2.0, two) and not closed([1.0, 2.0], 2.5, two)
    # An entry counts until just before its age is the window.
    assert not closed([1.0, 1.75], 2.0, two)
    # The last entry is over on day 2.25.
    none = ergode.Trigger("I", 1, window=0.75, below=True)
    assert closed([1.0, 1.5], 1.75, two, none) and not closed([1.0, 1.5], 2.5, two, none)
    for among, share, expected in [
        ({"number": [0, 1]}, 1.0, True), ({"number": [0, 2]}, 1.0, False), ("number", 0.02, True),
        ({"number": range(4)}, 0.5, True), ({"number": range(4)}, 0.51, False),
        (None, 0.05, True), (None, 0.06, False), ({"number": 1}, 0.1, True),
    ]:  # fmt: skip
        start = ergode.Trigger("I", fraction=share, among=among)
        assert closed([1.0, 1.5], 2.0, start) == expected, (among, share)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ergode.Capacity("H", 0, instead="N"), "places is 0; expected a whole number, 1"),
        (lambda: ergode.Capacity("H", -3, instead="N"), "places is -3; expected a whole number"),
        (lambda: ergode.Capacity("H", 2.5, instead="N"), "places is 2.5; expected a whole number"),
        (lambda: ergode.Capacity("H", float("nan"), instead="N"), "places is nan; expected"),
        (lambda: ergode.Capacity("H", 3, instead="H"), "'H' cannot be its own replacement"),
        (lambda: ergode.Capacity("H", 3, instead="N", start=2.0), "expected no start and no stop"),
        (lambda: ergode.Capacity("H", 3), "a compartment that nodes enter instead, or wait=True"),
        (lambda: ergode.Capacity("H", 3, "N", wait=True), "enter instead, or wait=True"),
        (lambda: ergode.Capacity("H", 3, "N", patience=2), "patience is for nodes that wait"),
        (lambda: ergode.Capacity("H", 3, "N", True, None, 0), "patience is 0; expected a finite"),
        (
            lambda: turned_away([1.0], ergode.Capacity("Q", 3, instead="N")),
            "unknown compartment 'Q'",
        ),
        (
            lambda: turned_away([1.0], ergode.Capacity("S", 3, instead="N")),
            r"interventions\[0\] is a capacity of 'S', but no progression leads there",
        ),
        (
            lambda: turned_away([1.0], ergode.Capacity("H", 3, instead="R")),
            "the progression out of 'E' has no branch 'R'; expected one, of probability 0",
        ),
        (
            lambda: in_hospital(
                [1.0], [ergode.Capacity("H", 1, wait=True), ergode.Testing({"E": 1}, rate=1)], [2]
            ),
            r"interventions\[1\] tests nodes in 'E' at a rate, where they may wait for 'H'",
        ),
        (lambda: ergode.Testing({"I": 1}, capacity=2.5), "capacity is 2.5; expected a whole"),
        (lambda: ergode.Testing({"I": 1}, capacity=-1), "capacity is -1; expected a number, betw"),
        (lambda: ergode.Testing({"I": 1}, capacity=3, rate=1), "a rate is a limit already"),
        (lambda: ergode.Testing({"I": 1}, capacity=3, period=0), "period is 0.0; expected a fin"),
        (lambda: ergode.Testing({"I": 1}, wait=False), "expected a capacity"),
        (
            lambda: ergode.Testing({"I": 1}, capacity=3, wait=False, priority="age"),
            "priority is for nodes that wait",
        ),
        (
            lambda: ergode.Capacity("H", 3, instead="N", priority="age"),
            "Capacity: priority is for nodes that wait",
        ),
        (lambda: ergode.Trigger(["I", "R", "I"], 3), "count has 'I' twice; expected it once"),
        (lambda: ergode.Trigger("I"), "expected either a level or a fraction"),
        (lambda: ergode.Trigger("I", 3, fraction=0.5), "expected either a level or a fraction"),
        (lambda: ergode.Trigger("I", fraction=0), "fraction is 0; expected a number above zero"),
        (lambda: ergode.Trigger("I", fraction=1.5), "fraction is 1.5; expected a number, betw"),
        (lambda: ergode.Trigger("I", 3, window=0), "window is 0.0; expected a finite time"),
        (lambda: ergode.Trigger("I", 3, among=["a"]), "expected the name of a node attribute"),
        (
            lambda: closed([1.0], 2.0, ergode.Trigger("I", 3, among={"number": [3, 99]})),
            "a trigger counts nodes with number 99, but there are none",
        ),
        (
            lambda: closed([1.0], 2.0, ergode.Trigger("I", 3, among="age")),
            "a trigger needs the node attribute 'age'",
        ),
        (lambda: isolated([1.0], 2.0, capacity=3, priority="age"), "needs the node attribute 'age"),
        (lambda: isolated([1.0], 2.0, capacity=3, period=1e-9), "expected at most 1,000,000"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(wrong, said):
    with pytest.raises(ergode.ModelError, match=said) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_what_time_steps_do_not_take():
    for one, why in [
        (ergode.Capacity("H", 3, wait=True), "a Capacity is reached at an exact time"),
        (ergode.Testing({"H": 1}, capacity=3), "Testing changes whom a node infects"),
    ]:
        with pytest.raises(ergode.PlanError, match=why):
            simulate(
                HOSPITAL, LONELY, initial={"E": 1}, times=[0, 1], method="renewal-leap",
                interventions=[one],
            )  # fmt: skip
