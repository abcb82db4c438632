"""Compartments with a number of places: simultaneous events, and what is refused."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

LONELY = ergode.ContactNetwork.from_edges([], [], node_count=40)
# Each comes to the hospital H at the age of 4 days in E, and stays for one day.
MODEL = ergode.CompartmentModel(
    ["S", "E", "H", "N", "R"],
    [ergode.Infection("S", "E", {"H": 1.0})],
    [
        ergode.Progression("E", {"H": 1.0, "N": 0.0}, ergode.Deterministic(4.0)),
        ergode.Progression("H", "R", ergode.Deterministic(1.0)),
        ergode.Progression("N", "R", ergode.Deterministic(9.0)),
    ],
)


def turned_away(arrivals, *capacities):
    """Number of nodes that found no place; nodes arrive at these days."""
    ages = 4.0 - np.array(arrivals)
    counts = simulate(
        MODEL, LONELY, initial={"E": ergode.Seeds(np.arange(ages.size), age=ages)},
        times=[0.0, 6.0], interventions=capacities, device="cpu",
    )  # fmt: skip
    assert counts.attrs["method"] == "sellke"
    return int(counts["count"].isel(time=-1, replicate=0).sel(compartment="N"))


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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ergode.Capacity("H", 0, instead="N"), "places is 0; expected a whole number, 1"),
        (lambda: ergode.Capacity("H", -3, instead="N"), "places is -3; expected a whole number"),
        (lambda: ergode.Capacity("H", 2.5, instead="N"), "places is 2.5; expected a whole number"),
        (lambda: ergode.Capacity("H", float("nan"), instead="N"), "places is nan; expected"),
        (lambda: ergode.Capacity("H", 3, instead="H"), "'H' cannot be its own replacement"),
        (lambda: ergode.Capacity("H", 3, instead="N", start=2.0), "it has no start and no stop"),
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
    ],
)
def test_what_is_wrong_is_said_in_one_line(wrong, said):
    with pytest.raises(ergode.ModelError, match=said) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_what_time_steps_do_not_take():
    with pytest.raises(ergode.PlanError, match="a Capacity is reached at an exact time"):
        simulate(
            MODEL, LONELY, initial={"E": 1}, times=[0, 1], method="renewal-leap",
            interventions=[ergode.Capacity("H", 3, instead="N")],
        )  # fmt: skip
