"""read_sbml: what every element means, in small documents, and what is refused."""

import math
import time

import numpy as np
import pytest

import ergode
from ergode import ReadError, read_sbml
from ergode.models.expressions import Expression
from ergode.models.reactions.reaction import Law
from ergode.stochastic.methods import choose
from ergode.stochastic.to_tables import build

from .networks import propensities, sbml

pytest.importorskip("libsbml")


def lists(
    *,
    functions="",
    units="",
    compartments='<compartment id="cell" size="2" constant="true"/>',
    species="",
    parameters='<parameter id="k" value="0.5" constant="true"/>',
    start="",
    rules="",
    constraints="",
    reactions="",
    events="",
):
    parts = (
        ("FunctionDefinitions", functions), ("UnitDefinitions", units),
        ("Compartments", compartments), ("Species", species), ("Parameters", parameters),
        ("InitialAssignments", start), ("Rules", rules), ("Constraints", constraints),
        ("Reactions", reactions), ("Events", events),
    )  # fmt: skip
    return "\n".join(f"<listOf{name}>\n{text}\n</listOf{name}>" for name, text in parts if text)


def species(name, attributes='initialAmount="10"', amount=True, boundary=False, constant=False):
    return (
        f'<species id="{name}" compartment="cell" {attributes} '
        f'hasOnlySubstanceUnits="{str(amount).lower()}" '
        f'boundaryCondition="{str(boundary).lower()}" constant="{str(constant).lower()}"/>\n'
    )


def reaction(law, reactants=(), products=(), name="R", local="", attributes="", modifiers=()):
    def side(kind, names):
        inner = "".join(
            f'<speciesReference species="{one}" stoichiometry="{count}" constant="true"/>\n'
            for one, count in dict(names).items()
        )
        return f"<listOf{kind}>\n{inner}</listOf{kind}>\n" if inner else ""

    local = f"<listOfLocalParameters>{local}</listOfLocalParameters>" if local else ""
    fast = 'fast="false"' if "fast=" not in attributes else ""
    others = "".join(f'<modifierSpeciesReference species="{one}"/>' for one in modifiers)
    others = f"<listOfModifiers>{others}</listOfModifiers>" if others else ""
    return (
        f'<reaction id="{name}" reversible="false" {fast} {attributes}>\n'
        f"{side('Reactants', reactants)}{side('Products', products)}{others}"
        f"<kineticLaw>{{{{{law}}}}}{local}</kineticLaw>\n</reaction>\n"
    )


def read(version=1, **parts):
    parts.setdefault("species", species("X"))
    return read_sbml(sbml(lists(**parts), version=version))


def death(law="k * X", **options):
    return reaction(law, {"X": 1}, name="death", **options)


# ---- species: amounts, concentrations


@pytest.mark.parametrize(
    ("attributes", "amount", "initial", "rate"),
    [
        ('initialAmount="10"', True, 10.0, 5.0),
        ('initialConcentration="5"', True, Expression("5 * cell"), 5.0),
        ('initialAmount="10"', False, Expression("10 / cell"), 2.5),
        ('initialConcentration="5"', False, 5.0, 2.5),
    ],
)
def test_amount_and_concentration(attributes, amount, initial, rate):
    network = read(species=species("X", attributes, amount), reactions=death())
    (member,) = network.species
    assert member.initial == initial
    assert member.quantity == ("amount" if amount else "concentration")
    assert propensities(network, {"X": 10.0}) == [rate]


def test_a_species_in_a_compartment_without_dimensions_is_an_amount():
    network = read(
        compartments='<compartment id="cell" spatialDimensions="0" constant="true"/>',
        species=species("X", amount=False),
        reactions=death(),
    )
    assert network.species[0].quantity == "amount"
    assert propensities(network, {"X": 10.0}) == [5.0]


UNSIZED = '<compartment id="cell" constant="true"/>'


def test_a_compartment_without_size_is_no_matter_until_it_is():
    assert read(compartments=UNSIZED, reactions=death()).compartments[0].size == 1.0
    with pytest.raises(ReadError, match=r"line 4: compartment 'cell': it has no size"):
        read(compartments=UNSIZED, reactions=death("k * cell * X"))
    for attributes, amount in (('initialAmount="10"', False), ('initialConcentration="10"', True)):
        with pytest.raises(ReadError, match=r"species 'X': its concentration needs the size of"):
            read(compartments=UNSIZED, species=species("X", attributes, amount))


def test_boundary_and_constant_species_are_held():
    network = read(
        species=species("X")
        + species("S", boundary=True)
        + species("W", boundary=True, constant=1),
        reactions=reaction("k * S * W", {"S": 1, "W": 1}, {"X": 2}),
    )
    assert network.held.tolist() == [False, True, True]
    assert network.stoichiometry.toarray().ravel().tolist() == [2, 0, 0]
    assert network.reactions[0].law == Law.STOCHASTIC


def test_labels_are_the_names_that_people_read():
    network = read(species=species("X", 'initialAmount="1" name="ATP (total)"'))
    assert network.species[0].label == "ATP (total)"


# ---- reactions and laws


def test_stoichiometry_is_added_up():
    text = death().replace(
        "</listOfReactants>",
        '<speciesReference species="X" stoichiometry="2" constant="true"/></listOfReactants>',
    )
    (one,) = read(reactions=text).reactions
    assert one.reactants == {"X": 3} and one.law == Law.RATE


def test_local_parameters_shadow():
    local = '<localParameter id="k" value="3"/>'
    network = read(reactions=death(local=local) + reaction("k", {}, {"X": 1}, name="birth"))
    assert network.parameters == {"k": 0.5, "death_k": 3.0}
    assert propensities(network, {"X": 10.0}) == [30.0, 0.5]
    taken = '<parameter id="death_k" value="9" constant="true"/>'
    network = read(
        parameters='<parameter id="k" value="0.5" constant="true"/>' + taken,
        reactions=death(local=local),
    )
    assert network.parameters == {"k": 0.5, "death_k": 9.0, "death_k_": 3.0}
    assert propensities(network, {"X": 10.0}) == [30.0]


def test_functions_are_written_out():
    functions = (
        '<functionDefinition id="hill">{{lambda(X, n, twice(X)^n / (1 + twice(X)^n))}}'
        "</functionDefinition>"
        '<functionDefinition id="twice">{{lambda(k, 2 * k)}}</functionDefinition>'
    )
    network = read(functions=functions, reactions=death("k * hill(X / 10, 2)"))
    assert propensities(network, {"X": 10.0}) == [pytest.approx(0.5 * 4 / 5)]
    assert "hill" not in network.reactions[0].value.names


@pytest.mark.parametrize(
    ("law", "value"),
    [
        ("piecewise(1, X < 5, 2, X < 20, 3)", 2),
        ("piecewise(1, X > 5 && !(X == 7), 3)", 1),
        ("piecewise(1, X > 5 || k > 1, 3) * sqrt(X * 10)", 10),
        ("piecewise(1, xor(X > 5, k > 0.1, true), 3)", 1),
        ("piecewise(1, 5 < X, 3) + root(3, 27)", 4),
        ("ln(exp(2)) + log10(1000) + log(2, 8)", 8),
        ("floor(3.7) + ceil(3.2) + abs(-2) + 2^3", 17),
        ("sec(1) * cos(1) + csc(1) * sin(1) + cot(1) * tan(1)", 3),
        ("sech(1) * cosh(1) + csch(1) * sinh(1) + coth(1) * tanh(1)", 3),
        ("tan(atan(2)) + sin(asin(0.5)) + cos(acos(0.5))", 3),
        ("sinh(arcsinh(2)) + cosh(arccosh(2)) + tanh(arctanh(0.5))", 4.5),
        ("sec(arcsec(2)) + csc(arccsc(2)) + cot(arccot(2))", 6),
        ("sech(arcsech(0.5)) + csch(arccsch(2)) + coth(arccoth(2))", 4.5),
        ("pi + exponentiale", math.pi + math.e),
        ("avogadro / 6.02214179e23", 1),
        ("X + 1 + 2 + 3 + k + k", 17),
    ],
)
def test_formulas(law, value):
    (rate,) = propensities(read(reactions=death(law)), {"X": 10.0})
    assert rate == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("law", "value"),
    [
        ("max(1, X, 3) - min(4, 2, X)", 8),
        ("quotient(7, 2) + rem(7, 2)", 4),
        ("quotient(-7, 2) + rem(-7, 2) + 10", 6),
        ("piecewise(1, implies(X > 3, k > 3), 7)", 7),
    ],
)
def test_formulas_of_version_two(law, value):
    text = sbml(lists(species=species("X"), reactions=death(law)), version=2)
    (rate,) = propensities(read_sbml(text.replace('fast="false"', "")), {"X": 10.0})
    assert rate == value


def test_numbers_are_read_to_the_last_digit():
    text = sbml(lists(species=species("X"), reactions=death("k * X + 12345")))
    for written, value in (
        ('<cn type="e-notation"> 3.3 <sep/> -7 </cn>', 3.3e-7),
        ("<cn> 0.30000000000000004 </cn>", 0.1 + 0.2),
        ('<cn type="rational"> 1 <sep/> 3 </cn>', 1 / 3),
    ):
        network = read_sbml(text.replace('<cn type="integer"> 12345 </cn>', written))
        assert propensities(network, {"X": 0.0}) == [value]


def test_sums_of_thousands():
    members = [f"X{i}" for i in range(3000)]
    network = read(
        species="".join(map(species, members)),
        rules=f'<assignmentRule variable="total">{{{{{" + ".join(members)}}}}}</assignmentRule>',
        parameters='<parameter id="total" constant="false"/>',
    )
    assert network.rules["total"].evaluate(dict.fromkeys(members, 2)) == 6000


def test_names_that_are_words_of_python():
    network = read(
        parameters='<parameter id="lambda" value="0.5" constant="true"/>',
        species=species("is"),
        reactions=reaction("lambda * is", {"is": 1}, name="def"),
    )
    assert network.propensities()[0] == "lambda * is"
    assert propensities(network, {"is": 10.0}) == [5.0]


# ---- rules and initial values


def test_assignment_rules_are_outputs_and_in_laws():
    network = read(
        parameters='<parameter id="k" constant="false"/>',
        species=species("X") + species("y", ""),
        rules='<assignmentRule variable="y">{{2 * X}}</assignmentRule>'
        '<assignmentRule variable="k">{{y / 100 + 0 * time}}</assignmentRule>',
        reactions=death(),
    )
    assert list(network.rules) == ["y", "k"] and list(network.index) == ["X"]
    assert network.reactions[0].law == Law.RATE  # k is not constant
    assert propensities(network, {"X": 10.0}) == [2.0]


def test_a_ruled_species_in_a_reaction_is_held_by_its_rule():
    network = read(
        species=species("X") + species("y", "", boundary=True),
        rules='<assignmentRule variable="y">{{2 * X}}</assignmentRule>',
        reactions=reaction("k * y", {"y": 1}, {"X": 1}),
    )
    assert str(network.reactions[0]) == "0 -> X"
    assert propensities(network, {"X": 10.0}) == [10.0]


def test_initial_assignments():
    network = read(
        species=species("X", "") + species("Y") + species("Z", "", amount=False),
        parameters='<parameter id="k" value="7" constant="true"/>'
        '<parameter id="h" constant="true"/><parameter id="g" constant="true"/>'
        '<parameter id="total" constant="false"/>',
        rules='<assignmentRule variable="total">{{Y + X + time}}</assignmentRule>',
        start='<initialAssignment symbol="X">{{3 * h + Y}}</initialAssignment>'
        '<initialAssignment symbol="h">{{k + 1}}</initialAssignment>'
        '<initialAssignment symbol="g">{{total / 4}}</initialAssignment>'
        '<initialAssignment symbol="Z">{{4}}</initialAssignment>'
        '<initialAssignment symbol="cell">{{2 * k}}</initialAssignment>',
    )
    values = network.evaluate_parameters()
    assert values == {"k": 7, "h": 8, "g": 11, "cell": 14}
    assert network.species[0].initial.evaluate(values) == 34
    assert network.species[2].initial == 4.0 and network.species[2].quantity == "concentration"
    swept = network.evaluate_parameters({"k": 1.0})
    assert network.species[0].initial.evaluate(swept) == 16 and swept["g"] == 6.5


def test_rates_of_reactions_and_stoichiometries_in_formulas():
    network = read(
        parameters='<parameter id="k" value="0.5" constant="true"/>'
        '<parameter id="flux" constant="false"/>',
        rules='<assignmentRule variable="flux">{{2 * death + taken}}</assignmentRule>',
        reactions=death().replace("<speciesReference", '<speciesReference id="taken"'),
    )
    assert network.rules["flux"].evaluate({"X": 10.0, "k": 0.5}) == 11


def test_stoichiometry_from_an_initial_assignment():
    network = read(
        reactions=death().replace("<speciesReference", '<speciesReference id="taken"'),
        start='<initialAssignment symbol="taken">{{1 + 1}}</initialAssignment>',
    )
    assert network.reactions[0].reactants == {"X": 2}


# ---- events


def event(trigger="time >= 2.5", assignments=None, inner="", attributes="", options=""):
    made = "".join(
        f'<eventAssignment variable="{name}">{{{{{value}}}}}</eventAssignment>'
        for name, value in (assignments or {"X": "20"}).items()
    )
    return (
        f'<event id="reset" useValuesFromTriggerTime="true" {attributes}>'
        f'<trigger initialValue="false" persistent="true" {options}>{{{{{trigger}}}}}</trigger>'
        f"{inner}<listOfEventAssignments>{made}</listOfEventAssignments></event>"
    )


def test_an_event():
    text = event("X > 3 && time > k", {"X": "X / 2", "k": "7"}, "<delay>{{k + 1}}</delay>")
    parameters = '<parameter id="k" value="1" constant="false"/>'
    (one,) = read(events=text, parameters=parameters).events
    assert one == ergode.Event(
        "X > 3 and time > k", {"X": "X / 2", "k": 7}, "k + 1", initially_true=False, name="reset"
    )
    text = event(inner="<priority>{{3}}</priority>")
    for old, new in (
        ('initialValue="false"', 'initialValue="true"'),
        ('persistent="true"', 'persistent="false"'),
        ('useValuesFromTriggerTime="true"', 'useValuesFromTriggerTime="false"'),
    ):
        text = text.replace(old, new)
    (one,) = read(events=text).events
    assert one.priority == 3 and one.initially_true and not one.persistent
    assert not one.values_from_trigger and one.delay == 0


def test_rate_rules():
    """Of a size, a parameter and a species that reactions use and do not change; a cell divides."""
    network = read(
        compartments='<compartment id="cell" size="1" constant="false"/>',
        species=species("X") + species("S", 'initialConcentration="0.5"', False, True),
        parameters='<parameter id="k" value="0.5" constant="false"/>',
        rules='<rateRule variable="cell">{{0.7 * cell}}</rateRule>'
        '<rateRule variable="S">{{k - S}}</rateRule><rateRule variable="k">{{-death}}</rateRule>',
        reactions=reaction("k * X * S", {"X": 1, "S": 1}, name="death"),
        events=event("cell >= 2", {"cell": "cell / 2"}),
    )
    rules = {name: rule.text for name, rule in network.rate_rules.items()}
    assert rules.keys() == {"cell", "S", "k"}
    assert rules["cell"].replace(" ", "") == "0.7*cell"
    assert network.rate_rules["k"].names == {"k", "X", "S"}
    assert network.stoichiometry.toarray().ravel().tolist() == [-1, 0]
    assert network.is_continuous.tolist() == [False, True]
    assert network.compartments[0].name == "cell"  # though its size is one
    assert network.events[0].assignments["cell"].names == {"cell"}
    assert choose(build(network, {}, {}, 1))[0].name == "hybrid"


# ---- levels


def test_level_one():
    body = (
        '<listOfCompartments><compartment name="cell" volume="2"/></listOfCompartments>'
        '<listOfSpecies><species name="X" compartment="cell" initialAmount="10"/>'
        '<species name="Y" compartment="cell" initialAmount="0"/></listOfSpecies>'
        '<listOfParameters><parameter name="k" value="0.5"/></listOfParameters>'
        '<listOfReactions><reaction name="R" reversible="false"><listOfReactants>'
        '<speciesReference species="X" stoichiometry="2"/></listOfReactants><listOfProducts>'
        '<speciesReference species="Y"/></listOfProducts>'
        '<kineticLaw formula="k*X^2"/></reaction></listOfReactions>'
    )
    text = f'<sbml xmlns="http://www.sbml.org/sbml/level1" level="1" version="2"><model>{body}'
    network = read_sbml(text + "</model></sbml>")
    assert str(network.reactions[0]) == "2 X -> Y"
    assert propensities(network, {"X": 10.0, "Y": 0.0}) == [12.5]


def test_level_two():
    body = (
        '<listOfCompartments><compartment id="cell" size="2"/></listOfCompartments>'
        '<listOfSpecies><species id="X" compartment="cell" initialConcentration="5"/>'
        "</listOfSpecies>"
        '<listOfParameters><parameter id="k" value="0.5" constant="false"/></listOfParameters>'
        '<listOfReactions><reaction id="R" reversible="false"><listOfReactants>'
        '<speciesReference species="X"/></listOfReactants>'
        '<kineticLaw>{{h * cell * X}}<listOfParameters><parameter id="h" value="3"/>'
        "</listOfParameters></kineticLaw></reaction></listOfReactions>"
        '<listOfEvents><event id="e"><trigger>{{X < k}}</trigger><listOfEventAssignments>'
        '<eventAssignment variable="k">{{1}}</eventAssignment></listOfEventAssignments></event>'
        "</listOfEvents>"
    )
    for version in (1, 4):
        network = read_sbml(sbml(body, level=2, version=version))
        (one,) = network.reactions
        assert one.law == Law.DETERMINISTIC and one.value == Expression("R_h")
        assert propensities(network, {"X": 10.0}) == [30.0]
        assert network.events[0].initially_true and network.events[0].persistent


def test_units_of_one_law_are_refused():
    body = (
        '<listOfCompartments><compartment id="cell" size="2"/></listOfCompartments>'
        '<listOfSpecies><species id="X" compartment="cell" initialConcentration="5"/>'
        '</listOfSpecies><listOfReactions><reaction id="R"><listOfReactants>'
        '<speciesReference species="X"/></listOfReactants>'
        '<kineticLaw timeUnits="second">{{cell * X}}</kineticLaw></reaction></listOfReactions>'
    )
    with pytest.raises(ReadError, match="kinetic law.*: units of its own"):
        read_sbml(sbml(body, level=2, version=1))


# ---- units


@pytest.mark.parametrize("kind", ["item", "dimensionless", "mole"])
def test_units_that_count(kind):
    units = (
        f'<unitDefinition id="some"><listOfUnits><unit kind="{kind}" exponent="1" scale="-9" '
        'multiplier="1"/></listOfUnits></unitDefinition>'
    )
    text = species("X", 'initialAmount="10" substanceUnits="some"')
    assert read(species=text, units=units).species[0].initial == 10


def test_other_units_and_mixtures_are_refused():
    gram = species("X", 'initialAmount="10" substanceUnits="gram"')
    with pytest.raises(ReadError, match="species 'X': its amount is in 'gram'"):
        read(species=gram)
    mixed = species("X", 'initialAmount="10" substanceUnits="mole"')
    mixed += species("Y", 'initialAmount="10" substanceUnits="item"')
    with pytest.raises(ReadError, match="species 'Y': .* another unit than that of species 'X'"):
        read(species=mixed)


# ---- refusals

LAMBDA = '<functionDefinition id="f">{{lambda(x, x)}}</functionDefinition>'


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"constraints": "<constraint>{{X > 1}}</constraint>"}, "constraint: constraints are not"),
        ({"reactions": death(attributes='fast="true"')}, "reaction 'death': fast reactions"),
        ({"reactions": death("delay(X, 2)")}, "'death': .* delay of 'X', which depends on its"),
        ({"reactions": death("X"), "parameters": '<parameter id="k" value="1" constant="false"/>',
          "rules": '<assignmentRule variable="k">{{delay(X, X * X)}}</assignmentRule>'},
         "rule 'k': .* the delay X \\* X, which is not linear in 'X'"),
        ({"reactions": death("delay(k, -1)")}, "'death': .* the delay -1.0; expected 0 or more"),
        ({"reactions": death("factorial(X)")}, "'death': its formula has a factorial that is not"),
        ({"reactions": death("infinity")}, "'death': its formula has the number inf"),
        ({"reactions": death("k * Y")}, r"line \d+: .*Y"),
        ({"reactions": death("g(X)")}, r"line \d+: .*g"),
        ({"reactions": death("f(X, X)"), "functions": LAMBDA}, r"line \d+: "),
        ({"reactions": death().replace('stoichiometry="1"', "")},
         "reaction 'death': its stoichiometry of 'X' has no value"),
        ({"reactions": reaction("k", {"X": 1}).partition("<kineticLaw>")[0] + "</reaction>"},
         "reaction 'R': it has no kinetic law"),
        ({"reactions": death(local='<localParameter id="k"/>')},
         "local parameter 'k': it has no value in reaction 'death'"),
        ({"species": species("X", "")}, "species 'X': it has no value"),
        ({"species": species("X", 'initialAmount="-1"')}, "species 'X': initial .* -1"),
        ({"parameters": '<parameter id="k" constant="true"/>'}, "parameter 'k': it has no value"),
        ({"compartments": '<compartment id="cell" size="0" constant="true"/>'},
         "compartment 'cell': size .* is 0"),
        ({"events": event(trigger="X > delay(X, 1)")}, "event 'reset': .*, which an event ch"),
    ],
)  # fmt: skip
def test_what_is_refused(parts, message):
    with pytest.raises(ReadError, match=message):
        read(**parts)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ReadError, match=r"none\.xml: there is no such file"):
        read_sbml(tmp_path / "none.xml")
    path = tmp_path / "broken.xml"
    path.write_text(sbml(lists(species=species("X")))[:-9])
    with pytest.raises(ReadError, match=r"broken\.xml: line \d+: "):
        read_sbml(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReadError, match="cannot be read as text"):
        read_sbml(path)
    with pytest.raises(ReadError, match="SBML text: "):
        read_sbml("<html/>")
    with pytest.raises(ReadError, match="no model"):
        read_sbml(
            '<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"/>'
        )


def test_packages_that_change_the_meaning_are_refused():
    text = sbml(lists(species=species("X")))
    for package, required in (("qual", "true"), ("mystery", "true"), ("layout", "false")):
        space = f"http://www.sbml.org/sbml/level3/version1/{package}/version1"
        marked = text.replace(
            '" level="3"',
            f'" xmlns:{package}="{space}" {package}:required="{required}" level="3"',
            1,
        )
        if required == "false":
            assert read_sbml(marked).species[0].name == "X"
            continue
        with pytest.raises(ReadError, match=f"package '{package}'|required"):
            read_sbml(marked)


def test_models_of_models_are_written_out():
    antimony = pytest.importorskip("antimony")
    antimony.clearPreviousLoads()
    antimony.loadAntimonyString("""
        model decay()
            compartment cell = 2; species S in cell; S = 3; k = 0.5
            r: S => ; k * S * cell
        end
        model both()
            a: decay(); b: decay()
        end
    """)
    text = antimony.getCompSBMLString("both")
    antimony.clearPreviousLoads()
    assert "submodel" in text
    network = read_sbml(text)
    assert list(network.index) == ["a__S", "b__S"]
    assert propensities(network, {"a__S": 6.0, "b__S": 4.0}) == [3.0, 2.0]


def test_without_libsbml_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "libsbml", None)
    with pytest.raises(ReadError, match="pip install"):
        read_sbml("<sbml/>")


def test_a_large_document_is_read_in_time():
    count = 2000
    names = [f"X{i}" for i in range(count)]
    reactions = (
        reaction("k * 7", {one: 1}, {other: 1}, name=f"R{one}")
        for one, other in zip(names[:-1], names[1:], strict=True)
    )
    text = sbml(lists(species="".join(map(species, names)), reactions="".join(reactions)))
    start = time.process_time()
    network = read_sbml(text)
    assert time.process_time() - start < 30  # far above what it takes: a guard against squares
    assert len(network.reactions) == count - 1
    assert np.isfinite(network.stoichiometry.data).all()


# ---- legal, and rare


def test_ids_that_are_words_of_formulas_get_a_letter():
    """MathML tells the parameter `pi` from the number."""
    network = read(
        species=species("X") + species("time"),
        parameters='<parameter id="pi" value="3" constant="true"/>'
        '<parameter id="k" value="1" constant="true"/>',
        reactions=death(),
    )
    assert list(network.index) == ["X", "time_"]
    assert network.parameters["pi_"] == 3.0


def test_a_choice_without_otherwise_has_no_value_where_no_condition_holds():
    network = read(reactions=death("piecewise(X, X > 2)"))
    found = ergode.stochastic.simulate(
        network, times=[0, 1e3], method="direct", device="cpu:1", output="final"
    )
    assert found["status"].item() == ergode.Status.NOT_FINITE
    # Where a condition holds, the other case is no error, though it is 0 / 0.
    network = read(reactions=death("X * piecewise(2, time < 20)"))
    found = ergode.stochastic.linear_noise(network, times=[0, 1])
    start = found["mean"][0].item()
    np.testing.assert_allclose(found["mean"][1].item(), start * np.exp(-2.0), rtol=1e-6)
