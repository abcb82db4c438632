"""Cantera's format: what is read, and that all else is refused by name."""

import copy
import json

import numpy as np
import pytest

import ergode
from ergode.models.reactions.rates import Arrhenius, Falloff, ThreeBody

pytest.importorskip("ruamel.yaml")

ATOMS = {"H": {"H": 1}, "O2": {"O": 2}, "HO2": {"H": 1, "O": 2}, "AR": {"Ar": 1}}


def species(name):
    data = [2.5, 0.0, 0.0, 0.0, 0.0, -700.0, 1.0]
    thermo = {"model": "NASA7", "temperature-ranges": [200.0, 1000.0, 3500.0], "data": [data, data]}
    return {"name": name, "composition": ATOMS[name], "thermo": thermo}


RATE = {"A": 2.0, "b": 0.5, "Ea": 0.0}
NAMED = {"equation": "H + O2 + AR => HO2 + AR", "type": "three-body", "rate-constant": RATE}
MASEL = {
    "type": "Blowers-Masel", "rate-constant": {"A": 1.0, "b": 0.0, "Ea0": 100.0, "w": 1000.0},
}  # fmt: skip
FALLOFF = {
    "equation": "H + O2 (+M) => HO2 (+M)", "type": "falloff", "high-P-rate-constant": RATE,
    "low-P-rate-constant": {"A": 3.0, "b": 0.0, "Ea": 0.0},
}  # fmt: skip
CONTENT = {
    "units": {"length": "cm", "quantity": "mol", "activation-energy": "K"},
    "phases": [
        {"name": "gas", "thermo": "ideal-gas", "kinetics": "gas", "species": list(ATOMS)}
    ],
    "species": [species(name) for name in ATOMS],
    "reactions": [{"equation": "H + O2 => HO2", "rate-constant": RATE}],
}  # fmt: skip


def changed(*, phase=None, thermo=None, one=None, reactions=None, **top):
    content = copy.deepcopy(CONTENT | top)
    content["phases"][0] |= phase or {}
    content["species"][0] |= one or {}
    content["species"][0]["thermo"] |= thermo or {}
    if reactions is not None:
        content["reactions"] = copy.deepcopy(reactions)
    return content


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mechanism.yaml"


def reading(path, **changes):
    path.write_text(json.dumps(changed(**changes)))
    return ergode.read_cantera(path)


def rates(network):
    return [network.reactions[k].value for k in range(len(network.reactions))]


def test_units_of_a_reaction_are_its_own(path):
    plain = CONTENT["reactions"][0]
    own = plain | {"units": {"length": "m", "quantity": "kmol", "time": "min"}}
    (rate,) = rates(reading(path, reactions=[own]))
    assert rate == Arrhenius(2.0 * 1e6 / 1e3 / 60, 0.5, 0.0)
    energies = [
        ({"activation-energy": "cal/mol"}, 100.0, 100 * 4.184 / 8.31446261815324),
        ({"activation-energy": "K"}, 100.0, 100.0),
        ({"activation-energy": "eV"}, 0.1, 0.1 * 11604.518121550082),
        ({}, "5 kJ/mol", 5000 / 8.31446261815324),
    ]
    for units, energy, kelvin in energies:
        one = plain | {"rate-constant": RATE | {"Ea": energy}, "units": units}
        (rate,) = rates(reading(path, reactions=[one]))
        assert rate.activation_temperature == pytest.approx(kelvin, rel=1e-14)
    # The first entry of a list may have those of all that follow; a factor may have its own.
    several = [{"units": {"time": "min"}}, plain | {"rate-constant": RATE | {"A": 120.0}}]
    assert rates(reading(path, reactions=several)) == [Arrhenius(2.0, 0.5, 0.0)]
    spelled = plain | {"rate-constant": RATE | {"A": "2e-3 m^3/kmol/s"}}
    assert rates(reading(path, reactions=[spelled]))[0].factor == pytest.approx(2e-3 * 1e6 / 1e3)


def test_efficiencies_of_a_named_collider_count(path):
    twice = {"efficiencies": {"AR": 2.5}}
    assert rates(reading(path, reactions=[NAMED | twice])) == [Arrhenius(5.0, 0.5, 0.0)]
    assert rates(reading(path, reactions=[NAMED])) == [Arrhenius(2.0, 0.5, 0.0)]
    named = FALLOFF | {"equation": "H + O2 (+AR) => HO2 (+AR)"}
    (rate,) = rates(reading(path, reactions=[named | twice]))
    assert isinstance(rate, Falloff)
    assert (rate.efficiencies, rate.default) == ((("AR", 2.5),), 0.0)
    generic = {"equation": "H + O2 + M => HO2 + M", "rate-constant": RATE, "default-efficiency": 0}
    assert rates(reading(path, reactions=[generic | twice])) == [
        ThreeBody(Arrhenius(2.0, 0.5, 0.0), (("AR", 2.5),), 0.0)
    ]


def test_a_reference_pressure_counts(path):
    def entropies(**thermo):
        found = reading(path, thermo=thermo).species[0].thermochemistry
        return found.low[6], found.high[6]

    shift = np.log(1e6 / 1.01325e6)
    assert entropies() == (1.0, 1.0)
    assert entropies(**{"reference-pressure": "1 atm"}) == (1.0, 1.0)
    for bar in ("1 bar", 1e5, "100 kPa"):
        assert entropies(**{"reference-pressure": bar}) == pytest.approx((1 + shift, 1 + shift))


def test_a_temperature_of_zero_leaves_a_term_of_troe_out(path):
    troe = {"A": 0.5, "T3": 100.0, "T1": 1000.0}
    (rate,) = rates(reading(path, reactions=[FALLOFF | {"Troe": troe | {"T2": 0}}]))
    assert rate.troe == (0.5, 100.0, 1000.0)


def test_what_cannot_change_kinetics_is_passed_over(path):
    plain = reading(path)
    noted = reading(
        path, description="text", date="today", generator="me",
        phase={"transport": "mixture-averaged", "state": {"T": 300}, "note": "n"},
        thermo={"note": "n"},
        one={"note": "n", "transport": {"model": "gas"}, "equation-of-state": {"model": "x"}},
        reactions=[CONTENT["reactions"][0] | {"note": "n", "id": "one", "duplicate": False}],
    )  # fmt: skip
    assert noted.digest == plain.digest


def test_other_files_are_read_beside_it(path, tmp_path):
    content = changed(phase={
        "species": [{"other.yaml/species": ["H", "O2"]}, {"species": "all"}],
        "reactions": [{"other.yaml/reactions": "declared-species"}, "more"],
    }, more=CONTENT["reactions"])  # fmt: skip
    content["species"] = [species("HO2")]
    other = changed(units={"quantity": "kmol"}, reactions=[NAMED, *CONTENT["reactions"]])
    other["reactions"][1]["duplicate"] = True
    content["more"][0]["duplicate"] = True
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    path.write_text(json.dumps(content))
    network = ergode.read_cantera(path)
    assert [one.name for one in network.species] == ["H", "O2", "HO2"]
    assert [rate.factor for rate in rates(network)] == [2.0 * 1e6 / 1e3, 2.0]


REFUSED = [
    ({"phase": {"rate-multiplier": 2}}, "phase 'gas' has the key 'rate-multiplier'"),
    ({"phase": {"kinetics": "none"}}, "so no reactions"),
    ({"phase": {"kinetics": "surface"}}, "kinetics 'surface'"),
    ({"phase": {"explicit-third-body-duplicates": "modify-efficiency"}}, "modify-efficiency"),
    ({"phase": {"species": [{"nowhere": "all"}]}}, "the section 'nowhere', which does not exist"),
    ({"phase": {"species": ["H", "H"]}}, "species 'H' is in the phase twice"),
    ({"phase": {"reactions": "some"}}, "reactions: 'some'"),
    ({"one": {"sites": 2}}, "species 'H' has the key 'sites'"),
    ({"thermo": {"model": "constant-cp"}}, "'constant-cp'; expected NASA7, NASA9, Shomate"),
    ({"thermo": {"model": "NASA9"}}, "7 numbers in a row of data; NASA9 has 9"),
    ({"thermo": {"data": []}}, "NASA7 with 0 ranges"),
    ({"thermo": {"data": [[1.0] * 7] * 3}}, "NASA7 with 3 ranges; expected one or two"),
    ({"thermo": {"reference-pressure": "1 furlong"}}, "pressure '1 furlong'"),
    ({"thermo": {"reference-pressure": 0}}, "reference-pressure 0"),
    ({"thermo": {"temperature-ranges": [200, 1000]}}, "2 temperature-ranges and 2 rows"),
    ({"thermo": {"temperature-ranges": [200, 3500, 1000]}}, "do not ascend"),
    ({"thermo": {"cold": 1}}, "thermo has the key 'cold'"),
    ({"units": {"length": "furlong"}}, "unit 'furlong' of length"),
    ({"units": {"colour": "red"}}, "unit of 'colour'"),
    ({"units": {"activation-energy": "m/s"}}, "unit 'm/s' of activation-energy"),
]
LIMITS = {
    "type": "falloff", "low-P-rate-constant": RATE, "high-P-rate-constant": RATE,
    "Troe": {"A": 0.5, "T3": 1e2, "T1": 1e3},
}  # fmt: skip
ARGON = {"name": "AR", "efficiency": RATE}
MIXTURE = {
    "equation": "H + O2 => HO2", "type": "linear-Burke", "colliders": [{"name": "M"} | LIMITS],
}  # fmt: skip


def mixture(*colliders):
    """A reaction of the kind linear-Burke; the first collider may replace M."""
    usual = MIXTURE["colliders"][colliders[0]["name"] == "M" :]
    return MIXTURE | {"colliders": [*usual, *colliders]}


REACTIONS = [
    ({"orders": {"H": 2}, "equation": "H + O2 <=> HO2"}, "has orders, but is reversible"),
    ({"orders": {"H": -2}}, "order -2 in H without negative-orders"),
    ({"orders": {"AR": 1}}, "an order in AR, which is no reactant, without nonreactant-orders"),
    ({"orders": {"XE": 1}}, "an order in 'XE', not a species of the phase"),
    ({"orders": {"H": "two"}}, "order in H: 'two' is not a finite number"),
    ({"orders": [1]}, "has the orders [1]; expected a mapping"),
    ({"orders": {"H": 1}, "negative-orders": 1}, "negative-orders: 1; expected true or false"),
    ({"Motz-Wise": True}, "has the key 'Motz-Wise'"),
    ({"efficiencies": {"AR": 2}}, "three-body reaction with 0 species on both sides"),
    ({"type": "elementary", "efficiencies": {"AR": 2}}, "has the key 'efficiencies'"),
    ({"type": "Blowers-Masel"}, "rate constant has the key 'Ea'"),
    ({"type": "Blowers-Masel", "rate-constant": [1, 2, 3, 4]}, "expected A, b, Ea0 and w"),
    (MASEL | {"rate-constant": MASEL["rate-constant"] | {"w": 50.0}}, "less than the bond"),
    (MASEL | {"rate-constant": MASEL["rate-constant"] | {"Ea0": -1.0}}, "expected 0 or more"),
    (MASEL | {"equation": "H + O2 + M => HO2 + M"}, "does not go with a rate of the kind Blow"),
    ({"type": "surface"}, "rate of the kind 'surface'"),
    (MIXTURE | {"colliders": []}, "has the colliders []; expected a list, M first"),
    (MIXTURE | {"colliders": [ARGON]}, "expected a list, M first"),
    (MIXTURE | {"equation": "H + O2 (+AR) => HO2 (+AR)"}, "partner (+AR), which does not go with"),
    (mixture({"name": "M", "type": "falloff"}), "collider 'M' has a falloff without Troe"),
    (
        mixture({"name": "M"}),
        "collider 'M' has a rate of the kind None; expected falloff, pressure",
    ),
    (mixture(ARGON | {"type": "Arrhenius"}), "collider 'AR' has a rate of the kind 'Arrhenius'"),
    (mixture(ARGON | {"efficiencies": {}}), "collider 'AR' has the key 'efficiencies'"),
    (mixture(ARGON, ARGON), "collider 'AR' is listed twice"),
    (mixture({"name": "AR"}), "collider 'AR': efficiency is None; expected A, b and Ea"),
    (mixture({"name": "AR", "eig0": RATE}), "collider 'AR' has the key 'eig0'"),
    (mixture({"name": "AR", "efficiency": RATE | {"A": -1}}), "efficiency of 'AR'"),
    (mixture({"name": "HE", "efficiency": RATE}), "the collider 'HE', not a species of the phase"),
    (
        mixture(MIXTURE["colliders"][0] | {"efficiency": RATE | {"A": 2}}),
        "collider M has efficiency {'A': 2",
    ),
    (
        mixture({"name": "AR", "efficiency": RATE | {"A": 0.0}} | LIMITS),
        "rate of 'AR' in a LinearBurke needs an efficiency above 0",
    ),
    ({"type": ["falloff"]}, "rate of the kind"),
    ({"rate-constant": RATE | {"A": -2}}, "negative factor -2 without negative-A"),
    ({"rate-constant": RATE | {"T": 1}}, "rate constant has the key 'T'"),
    ({"rate-constant": {"A": 1}}, "expected A, b and Ea"),
    ({"rate-constant": [1, 2, 3, 4]}, "expected A, b and Ea"),
    ({"rate-constant": RATE | {"A": "2 s"}}, "does not fit a reaction of order 2"),
    ({"rate-constant": RATE | {"A": float("nan")}}, "factor"),
    ({"rate-constant": RATE | {"b": "x"}}, "'x' is not a finite number"),
    ({"equation": "H + O2 => HO2 + H"}, "is not balanced: 1 H on the left, 2 on the right"),
    ({"equation": "H + O2 + M => HO2"}, "partner M on the left and none on the right"),
    ({"equation": "H + O2 (+M) => HO2 (+M)"}, "does not go with a rate of the kind elementary"),
    ({"equation": 5}, "has the equation 5"),
    ({"duplicate": True}, "is marked as a duplicate, but there is no other"),
    ({"duplicate": "yes"}, "duplicate: 'yes'; expected true or false"),
    (
        NAMED | {"efficiencies": {"H": 2}},
        "efficiencies of species other than its collision",
    ),
    (NAMED | {"default-efficiency": 1}, "its collision partner is AR alone"),
    (FALLOFF | {"efficiencies": {"HE": 2}}, "efficiency of 'HE', not a species"),
    (FALLOFF | {"efficiencies": [1]}, "the efficiencies"),
    (FALLOFF | {"Tsang": {"A": 1, "B": 0}}, "has the key 'Tsang'"),
    (FALLOFF | {"Troe": {"A": 1}}, "expected A, T3, T1, and perhaps T2"),
    (FALLOFF | {"Troe": {"A": 1, "T3": 1, "T1": 1, "T4": 1}}, "expected A, T3, T1"),
    (FALLOFF | {"SRI": {"A": 1, "B": 1, "C": 1, "F": 1}}, "expected A, B, C, and perhaps D, E"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_known_is_refused_by_name(path, refusal, changes, message):
    path.write_text(json.dumps(changed(**changes)))
    assert message in refusal(ergode.read_cantera, path)


@pytest.mark.parametrize(("change", "message"), REACTIONS)
def test_a_reaction_that_is_not_known_is_refused_by_name(path, refusal, change, message):
    whole = "low-P-rate-constant" in change or change.get("type") in ("three-body", "linear-Burke")
    one = change if whole else None
    one = one or CONTENT["reactions"][0] | change
    path.write_text(json.dumps(changed(reactions=[one])))
    said = refusal(ergode.read_cantera, path)
    assert message in said
    assert "reaction 1" in said


def test_a_refusal_has_the_line_of_the_file(path, refusal):
    damage = {"damaged": 1}
    for place, entry in (
        ("phases", 0), ("species", 2), ("reactions", 1), ("reactions", 2), ("units", "damaged"),
    ):  # fmt: skip
        content = changed(reactions=[CONTENT["reactions"][0], NAMED, FALLOFF])
        if place == "units":
            content[place] = damage | content[place]
        else:
            content[place][entry] = damage | content[place][entry]
        text = json.dumps(content, indent=1)
        path.write_text(text)
        line = text[: text.index("damaged")].count("\n")  # of the bracket before it
        said = refusal(ergode.read_cantera, path)
        assert said.startswith(f"{path}, line {line}") and "'damaged'" in said
    path.write_text("phases:\n- name: gas\n  thermo: [ideal-gas\nspecies: []\n")
    assert refusal(ergode.read_cantera, path).startswith(f"{path}, line 4: not YAML: ")
    twice = [CONTENT["reactions"][0]] * 2
    path.write_text(json.dumps(changed(reactions=twice)).replace('{"equation"', '\n{"equation"'))
    said = refusal(ergode.read_cantera, path)
    assert "line 3: reaction 2" in said and "line 2: reaction 1" in said


def test_where_the_mechanisms_of_cantera_are(refusal):
    said = refusal(ergode.read_cantera, "gri30.yaml")
    assert "gri30.yaml: there is no such file (Cantera's own are in" in said


def test_aliases_that_unfold_without_end_are_quoted_shortly(path, refusal):
    rows = ["a0: &a0 {x: 1, y: 2}"]
    rows += [f"a{k}: &a{k} {{x: *a{k - 1}, y: *a{k - 1}, z: *a{k - 1}}}" for k in range(1, 60)]
    path.write_text("\n".join([*rows, "phases: *a59"]))
    assert "expected a list" in refusal(ergode.read_cantera, path)


ONE = CONTENT["reactions"][0]
M = {"equation": "H + O2 + M => HO2 + M", "rate-constant": RATE}
TWICE = [
    [ONE, ONE],
    [ONE, ONE | {"equation": "O2 + H => HO2", "rate-constant": RATE | {"A": 9}}],
    [ONE, ONE | {"duplicate": True}],
    [ONE | {"equation": "H + O2 <=> HO2"}, ONE | {"equation": "HO2 => O2 + H"}],
    [ONE, ONE | {"equation": "2 H + 2 O2 => 2 HO2"}],
    [NAMED, NAMED | {"type": "elementary"}],
    [M, M],
    [M | {"efficiencies": {"AR": 0}}, M],
]


@pytest.mark.parametrize("both", TWICE)
def test_an_unmarked_duplicate_is_refused(path, refusal, both):
    path.write_text(json.dumps(changed(reactions=both)))
    said = refusal(ergode.read_cantera, path)
    assert "reaction 2" in said
    assert ("is the same as" in said and ": reaction 1 " in said) or "no other" in said
    marked = [one | {"duplicate": True} for one in both]
    assert len(reading(path, reactions=marked).reactions) >= 2


def test_reactions_with_different_partners_are_no_duplicates(path):
    argon = FALLOFF | {"equation": "H + O2 (+AR) => HO2 (+AR)"}
    both = [ONE, M, NAMED, FALLOFF | {"efficiencies": {"AR": 0}}, argon]
    both += [{"equation": "HO2 => H + O2", "rate-constant": RATE}]
    assert len(reading(path, reactions=both).reactions) == 6


@pytest.mark.parametrize(
    "twin",
    ["H + O2 + AR => HO2 + AR", "H + 2 O2 => HO2 + O2", "HO2 + AR <=> H + O2 + AR"],
)
def test_partners_of_their_own_are_marked_as_duplicates_of_m(path, twin):
    """As in Cantera, where both are marked."""
    marked = {"duplicate": True}
    both = [M | marked, {"equation": twin, "rate-constant": RATE} | marked]
    assert len(reading(path, reactions=both).reactions) in (2, 3)


def test_a_phase_that_could_be_read_is_named(path, refusal):
    content = changed()
    content["phases"].insert(0, {"name": "wall", "thermo": "ideal-surface", "kinetics": "surface"})
    path.write_text(json.dumps(content))
    message = refusal(ergode.read_cantera, path)
    assert "phase 'wall' is 'ideal-surface'" in message and "such as 'gas' (phase=)" in message
    assert len(ergode.read_cantera(path, phase="gas").reactions) == 1


def test_mechanisms_of_another_shape_are_refused(path, refusal):
    for text in (
        "phases: [[[]]]", "phases: {name: gas}", "phases: [1]", "phases: [{name: gas}]",
        "a: &a [*a]\nphases: *a", "units: 3", "? [1, 2]\n: 3", "[" * 20_000, "{a: " * 20_000,
        json.dumps(changed(reactions=[[[[1]]]])), json.dumps(changed(reactions=[3])),
        json.dumps(changed(reactions=3)), json.dumps(changed(thermo={"data": [[1], [[2]]]})),
        json.dumps(changed(thermo={"data": 3})), json.dumps(changed(one={"composition": [1]})),
        json.dumps(changed(one={"composition": {"H": [1]}})),
        json.dumps(changed(phase={"species": [[["H"]]]})),
        json.dumps(changed(reactions=[ONE | {"rate-constant": [[[1]]]}])),
        json.dumps(changed(reactions=[ONE | {"rate-constant": RATE | {"A": 10**400}}])),
    ):  # fmt: skip
        path.write_text(text)
        assert len(refusal(ergode.read_cantera, path)) < 600
