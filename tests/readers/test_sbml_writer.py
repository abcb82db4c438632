"""write_sbml: valid SBML, from which the same network is read; nothing half-written."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ergode import (
    Compartment,
    Event,
    ModelError,
    Reaction,
    ReactionNetwork,
    Species,
    read_sbml,
    write_sbml,
)
from ergode.models.reactions.mass_action import law_of
from ergode.models.reactions.rates import RateCoefficient

libsbml = pytest.importorskip("libsbml")
DATA = Path(__file__).parents[3] / "shared" / "data" / "dsmts"


def there_and_back(network, folder):
    path = folder / "network.xml"
    write_sbml(network, path, overwrite=True)
    document = libsbml.readSBML(str(path))
    document.setConsistencyChecks(libsbml.LIBSBML_CAT_UNITS_CONSISTENCY, False)
    document.checkConsistency()
    errors = [document.getError(i) for i in range(document.getNumErrors())]
    bad = [one.getMessage() for one in errors if one.getSeverity() >= libsbml.LIBSBML_SEV_WARNING]
    assert not bad, bad
    return read_sbml(path)


def same(network, other):
    """Whether two networks are the same in all that is simulated, and in names."""
    assert other.species == network.species
    assert list(other.reactions) == list(network.reactions)
    assert dict(other.parameters) == dict(network.parameters)
    assert dict(other.rules) == dict(network.rules)
    assert other.compartments == network.compartments and other.events == network.events
    assert other.name == network.name
    return other.digest == network.digest


EVERYTHING = ReactionNetwork(
    [
        Species("A", 10, "cell"),
        Species("B", "h * 2", "cell", "concentration", label="Beta & co <b>"),
        Species("C", 0.1 + 0.2, "shell", "concentration"),
        Species("S", 3, "cell", boundary=True),
        Species("W", 3, "cell", constant=True),
        Species("n", 1e-7, mass_number=1, charge_number=0),
        Species("H3O+", 5),
        Species("OH-", 5),
        Species("lambda", 1),
    ],
    [
        Reaction("2 A + S -> B", stochastic_rate_constant="k"),
        Reaction("2 A -> B", rate_constant="k * cell / 3", name="A"),  # the name of a species
        Reaction("A + W -> A", rate_constant=1 / 3, name="two words"),
        Reaction("3 B -> 0.5 C", rate_constant="k"),
        Reaction("B + C -> 0", stochastic_rate_constant="k + h"),
        Reaction("H3O+ + OH- -> 0", rate_constant="k"),
        Reaction("0 -> C", rate_constant="k"),
        Reaction("0 -> A + C", stochastic_rate_constant=2.0),
        Reaction("A -> 0", rate="k * A"),  # mass action in the words of a whole rate
        Reaction("A -> 0", rate="k * max(A, B, 3) / (h + twice)"),
        Reaction("S -> A", rate=2.5),
        Reaction("n + lambda -> 0", stochastic_rate_constant="k"),
    ],
    parameters={"k": 1e-7, "h": "k * 3 + exp(-k)", "g": 6.02214076e23},
    compartments=[Compartment("cell", 2.5), Compartment("shell", "cell / 3")],
    rules={
        "twice": "2 * A",
        "chosen": "piecewise(1, A < 2, twice, 2 < B < 5 and not A == 3, -4.5)",
        "many": "+".join(f"{i} * A" for i in range(60)),
        "wave": "sin(time)^2 + log10(A + 1) + sqrt(abs(-A)) + ceil(A / 3) - (A - (B - C))",
    },
    events=[
        Event("time >= 22.5", {"A": 20, "C": "C / 2"}, name="time"),
        Event("A > 3 or twice > 7", {"k": "k * 2"}, 2.5, "A", False, False, False),
        Event("True", {"A": -1.5 + 2}, delay="k", priority=-3),
    ],
    name="Everything & more",
)


def test_everything_comes_back(tmp_path):
    assert same(EVERYTHING, there_and_back(EVERYTHING, tmp_path))
    labels = [member.label for member in there_and_back(EVERYTHING, tmp_path).species]
    assert labels == [member.label for member in EVERYTHING.species]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")
def test_what_was_read_comes_back(tmp_path):
    for path in sorted(DATA.glob("*/model.xml")):
        network = read_sbml(path)
        assert same(network, there_and_back(network, tmp_path))
        text = (tmp_path / "network.xml").read_text()
        assert "annotation" not in text  # the law alone says what it is


HYBRID = ReactionNetwork(
    [
        Species("X", 2.5, "cell", "concentration"), Species("Y", 0.5, "cell"),
        Species("N", 3, "cell"), Species("Z", 1.5, boundary=True),
    ],
    [
        Reaction("2 X -> Y", stochastic_rate_constant="k"),
        Reaction("2 Y -> 0", rate_constant="k"),
        Reaction("2 N + 2 Y -> N", stochastic_rate_constant="k * g"),
        Reaction("2 Z -> N", rate="k * Z * (Z - 1)"),
    ],
    parameters={"k": 0.5, "g": "k / 3", "s": 2.0},
    compartments=[Compartment("cell", 2.5)],
    rate_rules={"cell": "s * cell", "Z": "1 - Z", "s": "-s"},
    continuous=["Y", "X"],
    events=[Event("cell > 5", {"cell": "cell / 2", "N": 1})],
    name="hybrid",
)  # fmt: skip


def test_hybrid_models_come_back(tmp_path):
    found = there_and_back(HYBRID, tmp_path)
    assert same(HYBRID, found)
    assert dict(found.rate_rules) == dict(HYBRID.rate_rules) and set(found.continuous) == {"X", "Y"}


def test_a_volume_that_grows_and_falls_is_the_same_in_other_programs(tmp_path):
    roadrunner = pytest.importorskip("roadrunner")
    network = ReactionNetwork(
        [Species("A", 40, "cell"), Species("Z", 1.0, "cell", "concentration", boundary=True)],
        [Reaction("A -> 0", rate="0.1 * cell * Z")],
        parameters={"growth": 0.3}, compartments={"cell": 2.0},
        rate_rules={"cell": "growth * cell", "Z": "-Z / 2"},
        events=[Event("cell >= 3", {"cell": "cell / 2"})],
    )  # fmt: skip
    write_sbml(network, tmp_path / "network.xml")
    theirs = roadrunner.RoadRunner(str(tmp_path / "network.xml"))
    t, a, z, cell = theirs.simulate(0, 3, 7, ["time", "A", "[Z]", "cell"]).T
    halved = np.log(1.5) / 0.3
    # The amount of Z stays when the volume is halved, so its concentration doubles.
    np.testing.assert_allclose(z, np.where(t < halved, 1.0, 2.0) * np.exp(-t / 2), rtol=1e-4)
    np.testing.assert_allclose(cell, np.where(t < halved, 2.0, 1.0) * np.exp(0.3 * t), rtol=1e-4)
    np.testing.assert_allclose(a, 40 - (1 - np.exp(-0.2 * t)), rtol=1e-4)


def test_networks_without_compartments(tmp_path):
    network = ReactionNetwork(
        {"X": 3, "volume": 2}, [Reaction("2 X -> volume", rate_constant="k")], {"k": 1.5}
    )
    assert same(network, there_and_back(network, tmp_path))


def test_an_annotation_that_has_become_untrue_is_not_believed(tmp_path):
    network = ReactionNetwork({"X": 3}, [Reaction("2 X -> 0", rate_constant=1.5)])
    path = tmp_path / "network.xml"
    write_sbml(network, path)
    text = path.read_text()
    assert 'constant="1.5"' in text
    (one,) = read_sbml(text.replace("<cn>1.5</cn>", "<cn>2.5</cn>")).reactions
    assert law_of(one, {"X": network.species[0]}).evaluate({"X": 3.0}) == 15


NAMES = ["A", "B", "C", "is"]
LEAVES = st.sampled_from([*NAMES, "k", "h", "time", "2", "0.1", "1e-7", "cell", "(-3)"])
NUMBERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/^"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(
            st.sampled_from(
                ["exp", "log", "log10", "sqrt", "abs", "floor", "ceil", "sin", "atan", "tanh", "-"]
            ),
            inner,
        ).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(inner, inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner).map(
            lambda t: f"piecewise({t[0]}, {t[1]} {t[2]} {t[3]} and not k < 1 or h > 2, {t[3]})"
        ),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NUMBERS, min_size=3, max_size=3), st.booleans(), st.floats(1e-300, 1e300))
def test_any_formula_comes_back(tmp_path_factory, formulas, amount, number):
    formulas = [f"A + {formula}" for formula in formulas]  # a number would be one at once
    quantity = "amount" if amount else "concentration"
    network = ReactionNetwork(
        [Species(name, 1, "cell", quantity) for name in NAMES],
        [
            Reaction("A -> B", rate=formulas[0]),
            Reaction("A + 2 B -> C", rate_constant="k"),
            Reaction("2 C -> 0", stochastic_rate_constant=number),
        ],
        parameters={"k": number, "h": -number},
        compartments={"cell": number},
        rules={"y": formulas[1]},
        events=[Event(f"({formulas[2]}) > y", {"A": formulas[0], "k": formulas[1]})],
    )
    assert same(network, there_and_back(network, tmp_path_factory.mktemp("sbml")))


@pytest.mark.parametrize(
    ("species", "reaction", "options", "message"),
    [
        ({"X": 1}, Reaction("X -> 0", rate_constant=1.0, delay=2.0), {}, "delay of reaction 'R1'"),
        ({"X": 1}, Reaction({"X": 0.5}, [], rate_constant=1.0), {}, "0.5 'X'"),
        ({"X": 1}, Reaction("X -> 0", rate="β * X"), {"parameters": {"β": 1}}, "parameter 'β'"),
        (
            {"X": 1},
            Reaction("X -> 0", rate="X"),
            {"events": [Event("X and X > 3", {"X": 1})]},
            "is a number; SBML needs a condition",
        ),
    ],
)
def test_what_sbml_has_no_place_for_is_refused(tmp_path, species, reaction, options, message):
    path = tmp_path / "network.xml"
    path.write_text("as it was")
    with pytest.raises(ModelError, match=message):
        write_sbml(ReactionNetwork(species, [reaction], **options), path)
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_rate_coefficients_are_refused(tmp_path):
    class Warm(RateCoefficient):
        pass

    network = ReactionNetwork({"X": 1}, [Reaction("X -> 0", rate_constant=Warm(), name="burn")])
    with pytest.raises(ModelError, match="reaction 'burn' depends on conditions"):
        write_sbml(network, tmp_path / "network.xml")
    assert not list(tmp_path.iterdir())


def test_species_of_other_scripts_go_by_other_ids(tmp_path):
    network = ReactionNetwork(
        {"β": 4, "X": 1, "_H_": 2, "H+": 1},
        [Reaction("β + H+ -> X", rate_constant=1.5), Reaction("_H_ -> 0", rate="2 * _H_")],
    )
    assert same(network, there_and_back(network, tmp_path))
    network = ReactionNetwork({"β": 4}, [Reaction("β -> 0", rate="2 * β")])
    with pytest.raises(ModelError, match="uses the species 'β'"):
        write_sbml(network, tmp_path / "other.xml")


def test_other_programs_see_the_same_rates(tmp_path):
    roadrunner = pytest.importorskip("roadrunner")
    network = ReactionNetwork(
        [Species("A", 40, "cell"), Species("B", 7, "cell", "concentration")],
        [
            Reaction("2 A -> B", stochastic_rate_constant="k"),
            Reaction("2 A -> B", rate_constant="k"),
            Reaction("3 B -> A", rate_constant="k"),
            Reaction("A + B -> A", rate_constant="k"),
            Reaction("B -> A", rate="k * B / (2 + B)"),
        ],
        parameters={"k": 0.3},
        compartments={"cell": 2.5},
    )
    path = tmp_path / "network.xml"
    write_sbml(network, path)
    peer = roadrunner.RoadRunner(str(path))
    a, b, k, v = 40, 7 * 2.5, 0.3, 2.5
    expected = [
        k * a * (a - 1) / 2, k * a * (a - 1) / v, k * b * (b - 1) * (b - 2) / v**2, k * a * b / v,
        k * 7 / (2 + 7),
    ]  # fmt: skip
    np.testing.assert_allclose(peer.model.getReactionRates(), expected, rtol=1e-13)
