"""read_antimony: the same network as from the SBML it stands for."""

import sys

import pytest

from ergode import Compartment, Event, ReadError, read_antimony
from ergode.models.expressions import Expression
from ergode.models.reactions.reaction import Law

from .networks import propensities

pytest.importorskip("antimony")
pytest.importorskip("libsbml")

DIMERISATION = """
model dimerisation()
  compartment cell = 2
  substanceOnly species P in cell, P2 in cell
  species E in cell
  pair: 2 P => P2; k1 * P * (P - 1) / 2
  split: P2 => 2 P; k2 * P2
  make: => E; cell * v * total / (K + total)
  total := P + 2 * P2
  P = 100; P2 = 0; E = 5
  k1 = 0.001; k2 = 0.01; v = 3; K = 10
  reset: at P2 > 30, t0=false: P = 100, P2 = 0
  late: at (time >= 22.5), persistent=false, priority=2: k1 = k1 / 2
end
"""


def test_a_model(tmp_path):
    path = tmp_path / "dimerisation.ant"
    path.write_text(DIMERISATION)
    network = read_antimony(path)
    assert network.digest == read_antimony(DIMERISATION).digest
    assert network.name == "dimerisation" and network.compartments == (Compartment("cell", 2),)
    assert [r.law for r in network.reactions] == [Law.STOCHASTIC, Law.STOCHASTIC, Law.RATE]
    assert [one.quantity for one in network.species] == ["amount", "amount", "concentration"]
    assert network.rules == {"total": Expression("P + 2 * P2")}
    rates = propensities(network, {"P": 100, "P2": 5, "E": 0})
    assert rates == pytest.approx([0.001 * 4950, 0.05, 2 * 3 * 110 / 120])
    reset, late = network.events
    assert reset == Event("P2 > 30", {"P": 100, "P2": 0}, initially_true=False, name="reset")
    assert late.priority == 2 and not late.persistent
    assert late.assignments == {"k1": Expression("k1 / 2")}


def test_a_compartment_that_nobody_wrote_is_left_out():
    network = read_antimony("A + B -> C; k * A * B; k = 0.5; A = 3; B = 2; C = 0")
    assert not network.compartments
    assert network.propensities()[0] == "k * A * B"
    assert network.species[0].initial == 3


def test_modules():
    network = read_antimony("""
        model decay()
            compartment cell = 2; species S in cell; S = 3; k = 0.5
            r: S => ; k * S * cell
        end
        model *both()
            a: decay(); b: decay()
            b.k = 7
        end
    """)
    assert network.parameters == {"a_k": 0.5, "b_k": 7.0}
    assert propensities(network, {"a_S": 6.0, "b_S": 4.0}) == [3.0, 28.0]


def test_reactions_that_go_both_ways():
    text = """
        compartment cell = 2; species A in cell, B in cell; A = 3; B = 2; kf = 0.5; kr = 0.25
        turn: A -> B; cell * (kf * A - kr * B)
        turned := turn
    """
    network = read_antimony(text)
    assert [r.name for r in network.reactions] == ["turn_forward", "turn_reverse"]
    assert [str(r) for r in network.reactions] == ["A -> B", "B -> A"]
    assert list(network.propensities()) == ["kf * A", "kr * B"]
    assert network.rules["turned"].names == {"cell", "kf", "kr", "A", "B"}
    (whole,) = read_antimony(text, split_reversible=False).reactions
    assert whole.law == Law.RATE
    (whole,) = read_antimony(text.replace("->", "=>")).reactions
    assert whole.law == Law.RATE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A -> ; k * A\nk = )(", "Antimony text: .*line 2"),
        ("A -> ; k * A; A = 3", "Antimony text: parameter 'k': it has no value"),
        ("nowhere.ant", "nowhere.ant: there is no such file"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ReadError, match=message):
        read_antimony(text)


def test_rate_rules():
    text = "compartment cell; cell = 1; cell' = 0.1 * cell; species A in cell; A = 3"
    network = read_antimony(text)
    assert network.rate_rules["cell"].names == {"cell"}
    assert network.species[0].compartment == "cell"


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "antimony", None)
    with pytest.raises(ReadError, match="pip install antimony"):
        read_antimony("A -> ; A")


def test_a_trigger_that_is_a_number_is_true_unless_it_is_zero():
    network = read_antimony("J: A -> ; k * A; k = 1; A = 3; at (A - 1): k = 2")
    assert network.events[0].trigger == Expression("A - 1 != 0")
