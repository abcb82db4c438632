"""The discrete stochastic test models: structure, and propensities as libRoadRunner has them."""

from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.models.reactions.mass_action import law_of
from ergode.models.reactions.reaction import Law

from .networks import propensities

pytest.importorskip("libsbml")
DATA = Path(__file__).parents[3] / "shared" / "data" / "dsmts"
CASES = sorted(path.parent.name for path in DATA.glob("*/model.xml")) if DATA.is_dir() else []
pytestmark = pytest.mark.skipif(not CASES, reason=f"{DATA} is not there")
WHOLE_RATES = {("00025", "Immigration"), ("00035", "Dimerisation")}


def read(case):
    return ergode.read_sbml(DATA / case / "model.xml")


@pytest.mark.parametrize("case", CASES)
def test_rates_are_those_of_libroadrunner(case):
    roadrunner = pytest.importorskip("roadrunner")
    peer = roadrunner.RoadRunner(str(DATA / case / "model.xml"))
    network = read(case)
    species = {member.name: member for member in network.species}
    assert list(peer.model.getReactionIds()) == [r.name for r in network.reactions]
    floating = set(peer.model.getFloatingSpeciesIds()) & set(species)
    rng = np.random.default_rng(int(case))
    for trial in range(5):
        if trial == 0:
            peer.reset()
        else:
            for name in floating:
                peer.model[name] = float(rng.integers(0, 200))
        values = [float(peer.model[name]) for name in species]
        amounts = dict(zip(species, values, strict=True))
        expected = peer.model.getReactionRates()
        np.testing.assert_allclose(propensities(network, amounts), expected, rtol=1e-14)
        words = network.evaluate_parameters()
        for name, member in species.items():
            size = words["Cell"] if member.quantity == "concentration" else 1.0
            words[name] = amounts[name] / size
        whole = [law_of(reaction, species).evaluate(words) for reaction in network.reactions]
        np.testing.assert_allclose(whole, expected, rtol=1e-14)
        if trial == 0:
            for name, member in species.items():
                first = member.initial
                if not isinstance(first, float):
                    first = first.evaluate(words)
                assert first == words[name]


@pytest.mark.parametrize("case", CASES)
def test_stoichiometry_is_that_of_libroadrunner(case):
    roadrunner = pytest.importorskip("roadrunner")
    peer = roadrunner.RoadRunner(str(DATA / case / "model.xml"))
    matrix = peer.getFullStoichiometryMatrix()
    network = read(case)
    ours = network.stoichiometry.toarray()
    for row, name in enumerate(matrix.rownames):
        mine = ours[network.index[name]] if name not in network.rules else 0
        np.testing.assert_array_equal(mine, np.asarray(matrix)[row])
    held = set(network.index) - set(matrix.rownames)
    assert not any(ours[network.index[name]].any() for name in held)


@pytest.mark.parametrize("case", CASES)
def test_all_that_is_mass_action_is_taken_for_it(case):
    for reaction in read(case).reactions:
        whole = (case, reaction.name) in WHOLE_RATES
        assert (reaction.law == Law.RATE) == whole


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("00001", ["Lambda * X", "Mu * X"]),
        ("00011", ["(Lambda / Cell) * X", "(Mu / Cell) * X"]),
        ("00013", ["(Lambda / 2.0) * X", "Mu * X"]),
        ("00015", ["Lambda * X", "Mu * X"]),
        ("00017", ["(Cell * Lambda) * X", "(Cell * Mu) * X"]),
        ("00025", ["Alpha", "Mu * X"]),
        ("00027", ["Immigration_k", "Death_k * X"]),
        ("00031", ["k1 * P * (P - 1) / 2", "k2 * P2"]),
    ],
)
def test_propensities_in_words(case, expected):
    assert list(read(case).propensities()) == expected


def test_events_and_rules():
    (event,) = read("00029").events
    assert event.trigger.text == "time >= 22.5" and event.assignments == {"X": 20}
    assert event.name == "reset" and not event.initially_true and event.persistent
    (event,) = read("00033").events
    assert event.trigger.text == "P2 > 30.0" and event.assignments == {"P": 100, "P2": 0}
    network = read("00019")
    assert network.rules["y"].text == "2.0 * X" and list(network.index) == ["X"]
    assert read("00025").held.tolist() == [False, True, False]
