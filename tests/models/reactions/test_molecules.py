"""Networks in molecules: the same model in another unit, but for what a single molecule is."""

import numpy as np
import pytest

from ergode import Compartment, Event, ModelError, Reaction, ReactionNetwork, Species, in_molecules
from ergode.models.reactions.rates import RateCoefficient
from ergode.models.reactions.reaction import Law

from ...readers.networks import propensities

NETWORK = ReactionNetwork(
    [
        Species("A", 3.0, "cell"),
        Species("B", "k / 3", "cell", "concentration"),
        Species("C", 0, "cell", "concentration"),
        Species("D+", 1.5),
    ],
    [
        Reaction("0 -> A", rate_constant="k"),
        Reaction("A -> B", stochastic_rate_constant="k"),
        Reaction("2 A -> B", rate="k * A * A"),
        Reaction("B + C -> A", rate_constant=0.7),
        Reaction("3 C -> A", rate="(k + h) * cell * C^3"),
        Reaction("A + B -> C", rate="h * A / (k + A) * total"),
        Reaction("A -> C", rate=0.25),
        Reaction("D+ -> 0", rate_constant="k"),
    ],
    parameters={"k": 0.5, "h": 2.0},
    compartments=[Compartment("cell", 2.5)],
    rules={"total": "A + cell * (B + C)"},
    events=[Event("A > 2 and time > 3", {"A": "A / 2", "B": 1.5, "k": "A"}, delay="A / 3")],
    name="units",
)
SIZE = 1e7


def test_rates_are_the_same_for_many_molecules():
    moles = {"A": 3.0, "B": 1.7, "C": 0.9, "D+": 2.2}
    many = {name: np.rint(value * SIZE) for name, value in moles.items()}
    network = in_molecules(NETWORK, SIZE)
    # c of the second reaction is the k of concentrations, both of first order.
    expected = SIZE * np.array(propensities(NETWORK, moles))
    np.testing.assert_allclose(propensities(network, many), expected, rtol=1e-6)


def test_two_alike_need_two_molecules():
    network = in_molecules(NETWORK, 100.0)
    few = {"A": 1.0, "B": 4.0, "C": 2.0, "D+": 0.0}
    rates = propensities(network, few)
    assert rates[2] == rates[4] == 0 and rates[3] == pytest.approx(0.7 / 100 * 8 / 2.5)
    laws = [reaction.law for reaction in network.reactions]
    assert laws.count(Law.RATE) == 2 and laws[5] == laws[6] == Law.RATE


def test_amounts_are_whole():
    network = in_molecules(NETWORK, 1234.5)
    values = network.evaluate_parameters()
    first = [
        one.initial if isinstance(one.initial, float) else one.initial.evaluate(values)
        for one in network.species
    ]
    whole = [np.floor(3 * 1234.5 + 0.5), np.floor(0.5 / 3 * 2.5 * 1234.5 + 0.5) / 2.5, 0, 1852]
    np.testing.assert_allclose(first, whole, rtol=1e-15)
    swept = network.evaluate_parameters({"molecules_per_unit": np.array([10.0, 20.0])})
    np.testing.assert_array_equal(network.species[0].initial.evaluate(swept), [30, 60])


def test_events_and_rules_keep_their_unit():
    network = in_molecules(NETWORK, 10.0)
    words = {**network.evaluate_parameters(), "A": 35.0, "B": 2.0, "C": 4.0, "time": 4.0}
    assert network.rules["total"].evaluate(words) == 3.5 + 2.5 * 0.6
    (event,) = network.events
    assert event.trigger.evaluate(words) and not event.trigger.evaluate(words | {"A": 20.0})
    assert event.assignments["A"].evaluate(words) == 18
    assert event.assignments["B"].evaluate(words) == np.floor(1.5 * 2.5 * 10 + 0.5) / 2.5
    assert event.assignments["k"].evaluate(words) == 3.5
    assert event.delay.evaluate(words) == pytest.approx(3.5 / 3)


def test_what_is_refused():
    with pytest.raises(ModelError, match="molecules_per_unit is 0"):
        in_molecules(NETWORK, 0)
    with pytest.raises(ModelError, match="already in molecules"):
        in_molecules(in_molecules(NETWORK, 10), 10)

    class Warm(RateCoefficient):
        pass

    network = ReactionNetwork({"X": 1}, [Reaction("X -> 0", rate_constant=Warm(), name="burn")])
    with pytest.raises(ModelError, match="reaction 'burn' depends on conditions"):
        in_molecules(network, 10)
