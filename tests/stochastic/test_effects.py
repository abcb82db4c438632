"""Whether what events assign is a whole number of molecules."""

import pytest

import ergode
from ergode import Event, PlanError, Reaction, ReactionNetwork
from ergode.stochastic.to_tables import build


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
    if fine:
        build(network, {}, {}, 1)
    else:
        with pytest.raises(PlanError, match="whole number"):
            build(network, {}, {}, 1)


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
