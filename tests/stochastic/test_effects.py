"""Whether what events assign is a whole number of molecules."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

import ergode
from ergode import Event, PlanError, Reaction, ReactionNetwork
from ergode.stochastic import simulate
from ergode.stochastic.to_tables import build


def check_whole(network, fine):
    """A network is accepted, or refused because an amount may not be whole."""
    with nullcontext() if fine else pytest.raises(PlanError, match="whole number"):
        build(network, {}, {}, 1)


@pytest.mark.parametrize(
    ("value", "fine"),
    [
        ("A + 3", True), ("2 * A - B * B", True), ("floor(A / 2)", True), ("max(A, n)", True),
        ("A if B > 2.5 else n * 7", True), ("A^2", True), ("binomial(A, 0.3)", True),
        ("A + r", False), ("A / 2", False), ("sqrt(A)", False), ("A * 1.5", False),
        ("uniform(0, 9)", False), ("2^A", False),
    ],
)  # fmt: skip
def test_what_may_not_be_whole(value, fine):
    network = ReactionNetwork(
        {"A": 4, "B": 1}, [Reaction("A -> 0", rate_constant=0.0)], {"n": 3.0, "r": 0.5},
        events=[Event("time >= 1", {"A": value})],
    )  # fmt: skip
    check_whole(network, fine)


def test_concentrations_of_whole_numbers_of_molecules_are_accepted():
    """Ten more a litre, in a volume of half a litre, are five."""

    def network(value):
        return ReactionNetwork(
            [ergode.Species("A", 4, compartment="cell", quantity="concentration")],
            [Reaction("A -> 0", rate_constant=0.0)],
            compartments={"cell": 0.5},
            events=[Event("time >= 1", {"A": value})],
        )

    build(network("A + 10"), {}, {}, 1)
    with pytest.raises(PlanError, match="whole number"):
        build(network("A + 1"), {}, {}, 1)


@pytest.mark.parametrize("sizes", [{}, {"cell": 0.3}, {"cell": "cell * 1.7"}])
def test_concentrations_that_in_molecules_rounds_are_accepted(sizes):
    """Also where events change the size, one of them together with the concentration."""
    moles = ReactionNetwork(
        [
            ergode.Species("A", 3, compartment="cell", quantity="concentration"),
            ergode.Species("B", 1, compartment="cell", quantity="concentration"),
        ],
        [Reaction("A -> 0", rate_constant=0.0)],
        compartments={"cell": 2.0},
        events=[Event("time >= 1", {"A": "A + 1", **sizes}), Event("time >= 2", {"cell": 0.7})],
    )
    counts = ergode.in_molecules(moles, 1001)
    found = ergode.stochastic.simulate(counts, times=[0, 1.5, 3], device="cpu:1")
    after = round(4 * 2.0 * 1001)  # at the size before
    assert found["amount"].sel(species="A")[0].values.tolist() == [6006, after, after]


@pytest.mark.parametrize(
    ("value", "fine"),
    [
        ("floor(A) / cell", True), ("(floor(A) + n) / cell", True), ("A + n / cell", True),
        ("A / cell", False), ("floor(A) / n", False), ("floor(A) / cell / cell", False),
    ],
)  # fmt: skip
def test_whole_numbers_over_the_size_are_accepted(value, fine):
    network = ReactionNetwork(
        [ergode.Species("A", 0, compartment="cell", quantity="concentration")],
        [Reaction("A -> 0", rate_constant=0.0)], {"n": 3.0}, compartments={"cell": 1.7},
        events=[Event("time >= 1", {"A": value}), Event("time >= 2", {"cell": 0.7})],
    )  # fmt: skip
    check_whole(network, fine)


def concentration(events, **options):
    """A species of four molecules in a cell of size two, which nothing but events changes."""
    return ReactionNetwork(
        [ergode.Species("A", 2, compartment="cell", quantity="concentration")],
        [Reaction("A -> 0", rate_constant=0.0)], compartments={"cell": 2.0},
        events=events, **options,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["direct", "next-reaction", "hybrid", "tau-leap"])
def test_a_concentration_is_an_amount_by_the_size_before_its_event(method):
    """SBML assigns all values of an event at once (cases 01779 and 01780 of its test suite)."""
    both = {"A": "A + 3", "cell": "cell / 4"}
    for assignments in (both, dict(reversed(both.items()))):
        network = concentration([Event("time >= 1", assignments, rounding="nearest")])
        found = simulate(network, times=[0, 0.5, 1.5], method=method, device="cpu:1")
        assert found["amount"][0, :, 0].values.tolist() == [4, 4, 10]


@pytest.mark.parametrize("from_trigger", [True, False])
def test_a_delayed_concentration_is_an_amount_by_the_size_after_the_delay(from_trigger):
    """The value is one of the trigger if it says so, the size is not."""
    network = concentration(
        [
            Event("time >= 1", {"A": "2 * A"}, 1.0, values_from_trigger=from_trigger,
                  rounding="nearest"),
            Event("time >= 1.5", {"cell": 5.0}),
        ]
    )  # fmt: skip
    found = simulate(network, times=[0, 1.8, 3], device="cpu:1")
    after = 2 * 2 * 5 if from_trigger else 2 * 4
    assert found["amount"][0, :, 0].values.tolist() == [4, 4, after]


def test_a_concentration_of_a_trigger_may_not_be_whole_at_a_later_size():
    late = Event("time >= 1", {"A": "floor(A * cell) / cell"}, 1.0)
    with pytest.raises(PlanError, match="whole number"):
        build(concentration([late, Event("time >= 1.5", {"cell": 5.0})]), {}, {}, 1)
    build(concentration([replace(late, values_from_trigger=False)]), {}, {}, 1)
    build(concentration([late]), {}, {}, 1)
