"""field_from_network: the equations of a network, against closed forms and the hybrid method."""

import numpy as np
import pytest

import ergode
from ergode import Compartment, Event, ModelError, Reaction, ReactionNetwork, Species

TIMES = [0.0, 0.5, 2.0]


def course(network, initial, **parameters):
    field = ergode.field_from_network(network)
    found = ergode.trajectories.integrate(
        field, times=TIMES, initial=initial, parameters=parameters, rtol=1e-10, atol=1e-12,
        device="cpu:1",
    )  # fmt: skip
    return dict(zip(field.variables, found["state"].values.T, strict=True))


def test_equal_molecules_and_a_held_species():
    """2 A -> B at rate k A^2, fed from a boundary: A' = 1 - 2 k A^2."""
    network = ReactionNetwork(
        [Species("A", 0), Species("B", 0), Species("S", 1, boundary=True)],
        [
            Reaction("2 A -> B", stochastic_rate_constant="c"),
            Reaction("S -> A", rate_constant=1.0),
        ],
        {"c": 1.0},
    )
    found = course(network, {"A": 0.0, "B": 0.0, "S": 1.0}, c=1.0)
    np.testing.assert_allclose(found["A"], np.tanh(TIMES), rtol=1e-8, atol=1e-12)
    assert (found["S"] == 1).all()


def test_concentrations_rules_and_rate_rules():
    """Everything that a field writes otherwise: the hybrid method reads it as it is."""
    network = ReactionNetwork(
        [Species("A", 4, compartment="cell", quantity="concentration"), Species("B", 3, "cell")],
        [
            Reaction("A -> B", rate="half * log10(10 + A) * cell * (2 if A > 1e-9 else 1)"),
            Reaction("B -> 0", rate="p * B + ceil(half) * B / cell"),
        ],
        parameters={"k": 0.4, "half": "k / 2", "p": 0.3},
        compartments=[Compartment("cell", 2.0)],
        rules={"seen": "A + time"},
        rate_rules={"p": "sin(seen) - p"},
    )
    smooth = ReactionNetwork(
        network.species, network.reactions, network.parameters, network.compartments,
        network.rules, rate_rules=network.rate_rules, continuous=["A", "B"],
    )  # fmt: skip
    known = ergode.stochastic.simulate(
        smooth, times=TIMES, method="hybrid", tolerance=1e-10, device="cpu:1"
    )
    found = course(network, {"A": 4.0, "B": 3.0, "p": 0.3}, k=0.4, cell=2.0)
    amounts = known["amount"].values[0]
    np.testing.assert_allclose(found["A"], amounts[:, 0] / 2, rtol=1e-7)
    np.testing.assert_allclose(found["B"], amounts[:, 1], rtol=1e-7)


def test_what_is_refused():
    def with_(**more):
        return ReactionNetwork(
            [Species("A", 1, "cell")], [Reaction("A -> 0", rate_constant="k", name="fall")],
            {"k": 1.0}, {"cell": 1.0}, **more,
        )  # fmt: skip

    for network, message in (
        (with_(events=[Event("A < 1", {"A": 2}, name="feed")]), "the event 'feed' has no place"),
        (with_(rate_rules={"cell": "1"}), "the size of the compartment 'cell' changes"),
        (
            ReactionNetwork({"A": 1}, [Reaction("A -> 0", rate="t * A", name="r")], {"t": 1.0}),
            "a quantity is called 't'",
        ),
        (
            ReactionNetwork({"A": 1}, [Reaction("A -> A", rate_constant=1.0, delay=2.0)]),
            "has a delay",
        ),
    ):
        with pytest.raises(ModelError, match=message):
            ergode.field_from_network(network)
