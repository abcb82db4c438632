"""field_from_network: the equations of a network, against closed forms and SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

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
            Reaction("S -> A", rate_constant="fed"),
        ],
        {"c": 1.0, "fed": 1.0},
    )
    found = course(network, {"A": 0.0, "B": 0.0, "S": 1.0}, c=1.0, fed=1.0)
    np.testing.assert_allclose(found["A"], np.tanh(TIMES), rtol=1e-8, atol=1e-12)
    assert (found["S"] == 1).all()


def test_concentrations_rules_and_rate_rules():
    """Everything that a field writes otherwise, as it is."""
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

    def slopes(t, y):
        a, b, p = y
        first = 0.2 * np.log10(10 + a) * 2.0 * 2
        return [-first / 2.0, first - p * b - np.ceil(0.2) * b / 2.0, np.sin(a + t) - p]

    known = solve_ivp(slopes, (0, 2), [4.0, 3.0, 0.3], t_eval=TIMES, rtol=1e-11, atol=1e-13).y
    found = course(network, {"A": 4.0, "B": 3.0, "p": 0.3}, k=0.4, cell=2.0)
    for name, values in zip("ABp", known, strict=True):
        np.testing.assert_allclose(found[name], values, rtol=1e-7)


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
