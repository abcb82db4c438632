"""read_bionetgen: rules, against the networks and curves of BioNetGen, and against counting."""

import re
from collections import Counter

import numpy as np
import pytest

import ergode
from ergode import ReadError, read_bionetgen
from ergode.models.expressions import Expression
from ergode.models.rules.compartments import Compartment, Compartments
from ergode.models.rules.patterns import canonical
from ergode.readers.bngl import _pattern

# Models whose network is known, and why others are refused.
REFUSED = {
    "michment_cont": "is an action", "test_sbml_structured": "is an action",
}  # fmt: skip
STARTS_CHANGED = {"michment", "test_setconc"}  # by actions
EMPTY = """begin parameters
k 2
end parameters
begin molecule types
{types}
end molecule types
begin seed species
{seeds}
end seed species
begin reaction rules
{rules}
end reaction rules
begin observables
{observables}
end observables
"""


@pytest.fixture
def read(tmp_path):
    def write(rules, seeds, types="A(b,b,b,s~U~P)\nB(a)\nD(x,x)", observables="", **options):
        path = tmp_path / "model.bngl"
        path.write_text(
            EMPTY.format(rules=rules, seeds=seeds, types=types, observables=observables)
        )
        return read_bionetgen(path, **options)

    return write


def species_of(label):
    """The species of a label, whose molecules are in its compartment if they say no other."""
    places = {name: Compartment(False, "1", None) for name in re.findall(r"@(\w+)", label)}
    return Compartments(places).filled(_pattern(label)[0])


def facts(network):
    """Rate constants of reactions between canonical species, and values of rules."""
    names = {one.name: canonical(species_of(one.label)) for one in network.species}
    parameters = network.evaluate_parameters()
    known = {name: 1 + sum(map(ord, pattern)) % 97 / 10 for name, pattern in names.items()}
    known |= {**parameters, "time": 1.5}
    for rule in network.rule_order:
        known[rule] = network.rules[rule].evaluate(known)
    rates = Counter()
    for one in network.reactions:
        sides = (
            tuple(sorted(names[name] for name, n in side.items() for _ in range(int(n))))
            for side in (one.reactants, one.products)
        )
        value = one.value.evaluate(known) if isinstance(one.value, Expression) else one.value
        rates[tuple(sides)] += value
    start = {}
    for one in network.species:
        amount = one.initial
        amount = amount.evaluate(parameters) if isinstance(amount, Expression) else amount
        start[names[one.name]] = amount, one.constant
    groups = {name: known[name] for name in network.rules if not name.startswith("_rateLaw")}
    return rates, groups, start


def test_networks_of_bionetgen(shared_data):
    """Every species, rate constant, observable and initial amount, up to the order."""
    compared = 0
    for path in sorted((shared_data / "bngl").glob("*.net")):
        model = path.with_suffix(".bngl")
        if not model.exists():
            continue
        if path.stem in REFUSED:
            with pytest.raises(ReadError, match=REFUSED[path.stem]):
                read_bionetgen(model)
            continue
        limit = re.search(r"max_iter=>(\d+)", model.read_text())
        made = facts(read_bionetgen(model, max_iterations=int(limit[1]) if limit else None))
        known = facts(read_bionetgen(path))
        assert made[0].keys() == known[0].keys(), path.stem
        for key, rate in known[0].items():
            assert made[0][key] == pytest.approx(rate, rel=1e-12), (path.stem, key)
        assert made[1] == pytest.approx(known[1], rel=1e-12), path.stem
        assert made[2] == known[2] or path.stem in STARTS_CHANGED
        compared += 1
    assert compared == 24


def block(text, name):
    return re.search(rf"begin {name}\n.*?end {name} *\n", text, re.S)[0]


def test_the_network_of_bionetgen_in_seven_compartments(shared_data, tmp_path):
    """Moves of species across membranes and of molecules in them, with what is bound to them."""
    known = shared_data / "bngl" / "Motivating_example_cBNGL.net"
    text = known.read_text().replace("{MatchOnce}", "")
    names = "parameters", "compartments", "molecule types", "species", "observables"
    path = tmp_path / "model.bngl"
    blocks = [block(text, name) for name in (*names, "reaction rules")]
    first_seven = re.sub(r"(?m)^ +(\d\d|8|9) @.*\n", "", blocks[3])
    path.write_text("".join([*blocks[:3], first_seven, *blocks[4:]]))
    made, expected = facts(read_bionetgen(path)), facts(read_bionetgen(known))
    assert len(made[2]) == 78 and len(made[0]) == 354
    assert made[0] == pytest.approx(expected[0], rel=1e-12)
    assert made[1] == pytest.approx(expected[1], rel=1e-12)
    assert made[2] == expected[2]
    with pytest.raises(ReadError, match="line 5.: compartments are not supported without"):
        ergode.read_rules(path)


CELL = """end reaction rules
begin compartments
EC 3 10
PM 2 0.5 EC
CP 3 k+1 PM
EM 2 0.1 CP
EN 3 0.2 EM
NM 2 0.3 EC
XX 3 1 {}
end compartments
begin reaction rules"""
LOCAL = """Molecules bound A(b!+)
Molecules phos A(s~P)
Species one B()
end observables
begin functions
f(x) = k*(1+bound(x))+h(x)
h(y) one(y)
g(x) g(x)
end functions
begin observables"""


def test_rates_are_functions_of_what_a_rule_takes(read):
    """Of the species (before the molecules), of a molecule, and of both reactants."""
    seeds = "A(b!1,b,b,s~U).A(b!1,b!2,b,s~P).B(a!2) 1\nB(a) 1"
    rates, _, _ = facts(read("%x:A(s~U) -> %x:A(s~P) f(x)", seeds, observables=LOCAL))
    assert list(rates.values()) == [2 * (1 + 3) + 1]
    rates, _, _ = facts(read("A%x(s~U) -> A%x(s~P) f(x)", seeds, observables=LOCAL))
    assert list(rates.values()) == [2 * (1 + 1) + 0]
    # Both molecules of the species match, and each gives its own rate.
    rates, _, _ = facts(read("A(s)%x -> A(s)%x + B(a) f(x)", seeds, observables=LOCAL))
    assert list(rates.values()) == [2 * (1 + 1) + 2 * (1 + 2)]
    # The rate backwards is of what the rule takes then.
    rule = "%x:A(s~P) + B%y(a) <-> %x:A(s~U) + B%y(a) f(x)*(1+one(y)), 3*phos(x)"
    rates, _, _ = facts(read(rule, seeds, observables=LOCAL, max_iterations=1))
    assert sorted(rates.values()) == [3 * 1, (2 * (1 + 3) + 1) * 2]
    rule = '%x:A(s~P) + %y:B(a) -> %x:A(s~U) + %y:B(a) FunctionProduct("f(x)", "1+one(y)")'
    assert list(facts(read(rule, seeds, observables=LOCAL))[0].values()) == [9 * 2]
    # Two equal patterns, one of which the rate depends on: both orders count.
    rule = "A%x(b,s~U) + A(b,s~U) -> A%x(b!1,s~U).A(b!1,s~U) 1+bound(x)"
    pairs = "A(b,b,b,s~U) 2\nA(b!1,b,b,s~U).B(a!1) 2"
    rates, _, _ = facts(read(rule, pairs, observables=LOCAL, max_iterations=1))
    assert sorted(rates.values()) == [2 * 2 * 2, 3 * 3, 3 * 2 * (1 + 2)]


def test_states_that_count(read):
    """Up and down by one, between numbers that there are; NFsim's words for it."""
    network = read("E(m~?) -> E(m~PLUS) 3\nE(m) -> E(m~MINUS) 2", "E(m~1) 1", "E(m~0~1~2~4)")
    rates, _, _ = facts(network)
    assert rates == {
        (("E(m~1)",), ("E(m~2)",)): 3, (("E(m~0)",), ("E(m~1)",)): 3,
        (("E(m~1)",), ("E(m~0)",)): 2, (("E(m~2)",), ("E(m~1)",)): 2,
    }  # fmt: skip
    with pytest.raises(ReadError, match="a state counts in a rule that goes both ways"):
        read("E(m~?) <-> E(m~PLUS) 3, 1", "E(m~1) 1", "E(m~0~1)")


def test_energies_keep_the_detailed_balance(read):
    """Whatever share of the energy each direction has; a pattern of equal halves counts once."""
    energies = "\nend observables\nbegin energy patterns\nD(x!1).D(x!1) -1.5\n"
    energies += "D(x!+) 0.25\nend energy patterns\nbegin observables"
    rates, _, _ = facts(
        read("D(x) + D(x) <-> D(x!1).D(x!1) Arrhenius(0.3,0.1*k)", "D(x,x) 1", max_molecules=3,
             observables=energies)
    )  # fmt: skip
    alone, pair = "D(x,x)", "D(x,x!1).D(x,x!1)"
    change = -1.5 + 2 * 0.25
    made = rates[(alone, alone), (pair,)] / 2  # of 2 x 2 sites, and two equal molecules
    gone = rates[(pair,), (alone, alone)]
    assert made == pytest.approx(np.exp(-(0.2 + 0.3 * change)))
    assert gone == pytest.approx(np.exp(-(0.2 - 0.7 * change)))


# Of others, actions between two runs change amounts, or the table is not of the file's names.
@pytest.mark.parametrize(
    "name",
    [
        "Haugh2b", "Motivating_example", "Repressilator", "issue_198_short", "michment",
        "simple_system", "test_fixed", "test_synthesis_complex", "test_synthesis_simple",
    ],
)  # fmt: skip
def test_curves_of_bionetgen(shared_data, name):
    network = read_bionetgen(shared_data / "bngl" / f"{name}.bngl")
    smooth = ergode.ReactionNetwork(
        network.species, network.reactions, network.parameters, rules=network.rules,
        continuous=[one.name for one in network.species],
    )  # fmt: skip
    path = shared_data / "bngl" / f"{name}.gdat"
    head = path.read_text().splitlines()[0].lstrip("#").split()
    table = np.loadtxt(path)[:40]
    found = ergode.stochastic.simulate(
        smooth, times=table[:, 0], method="hybrid", tolerance=1e-8, device="cpu:1"
    )
    for column, rule in enumerate(head[1:], 1):
        expected = table[:, column]
        np.testing.assert_allclose(
            found["value"].sel(rule=rule).values[0], expected,
            rtol=2e-5, atol=1e-6 * max(abs(expected).max(), 1e-9),
        )  # fmt: skip


def test_equal_sites_are_counted(read):
    """Three sites that bind: j of them are bound at a time; on 3 - j times k, off j times k."""
    network = read("A(b) + B(a) <-> A(b!1).B(a!1) k, 3*k", "A(b,b,b,s~U) 1\nB(a) 100")
    rates, _, _ = facts(network)
    bound = {
        (name.count("A("), name.count("B(")): name
        for name in (canonical(_pattern(one.label)[0]) for one in network.species)
    }
    assert len(network.species) == 5
    for j in range(3):
        here, more = bound[1, j], bound[1, j + 1]
        assert rates[tuple(sorted((here, bound[0, 1]))), (more,)] == 2 * (3 - j)
        assert rates[(more,), tuple(sorted((here, bound[0, 1])))] == 6 * (j + 1)


def test_symmetric_rules_and_context(read):
    """Two equal reactants; equal sites of the context do not count; a ring that must open."""
    rates, _, _ = facts(read("D(x) + D(x) -> D(x!1).D(x!1) k", "D(x,x) 10", max_iterations=1))
    assert list(rates.values()) == [2 * 2 * 2 / 2]
    rates, _, _ = facts(read("A(b,s~U) -> A(b,s~P) k", "A(b,b,b,s~U) 1"))
    assert list(rates.values()) == [2]
    ring = "D(x!1,x!2).D(x!1,x!2) 1"
    rates, _, _ = facts(read("D(x!1).D(x!1) -> D(x).D(x) k", ring))
    assert sorted(rates.values()) == [4]
    assert len(read("D(x!1).D(x!1) -> D(x) + D(x) k", ring).reactions) == 0


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("D(x) + D(x) -> B(a)", 1 / 2), ("D(x) + D(x) -> 0", 1 / 2), ("D() + D() -> 0", 1 / 2),
        ("D() + D() -> B(a) DeleteMolecules", 1 / 2), ("D() + D() -> D()", 1),
        ("D() + D() -> D() + D() + B(a)", 1 / 2), ("D() + D() + D() -> 0", 1 / 6),
        ("A(s~U) + A(s~U) -> A(s~P) + A(s~U)", 1), ("A(s~U) + A(s~U) -> A(s~P) + A(s~P)", 1 / 2),
    ],
)  # fmt: skip
def test_equal_reactants(read, rule, factor):
    """Pairs and triples of equal molecules are not counted twice, whatever becomes of them."""
    keyword = " DeleteMolecules" if rule.endswith("DeleteMolecules") else ""
    text = f"{rule.removesuffix(keyword)} k{keyword}"
    rates, _, _ = facts(read(text, "D(x,x) 10\nA(b,b,b,s~U) 5", max_iterations=1))
    assert list(rates.values()) == [pytest.approx(2 * factor)]


@pytest.mark.parametrize("seeds", ["A(b!1,b,b,s~U).B(a!1) 1", "B(a!1).A(b!1,b,b,s~U) 1"])
@pytest.mark.parametrize("products", ["A(b) + B(a)", "B(a) + A(b)"])
def test_conditions_are_of_the_product_with_that_number(read, seeds, products):
    """However the molecules of a species are ordered."""
    rule = f"A(b!1).B(a!1) -> {products} k"
    for k, name in enumerate(re.findall(r"[AB](?=\()", products), 1):
        other = "AB".replace(name, "")
        assert len(read(f"{rule} exclude_products({k},{name})", seeds).reactions) == 0
        assert len(read(f"{rule} exclude_products({k},{other})", seeds).reactions) == 1
        assert len(read(f"{rule} include_products({k},{name})", seeds).reactions) == 1


def test_a_polymer_that_is_cut_off(read):
    rule = "D(x) + D(x) -> D(x!1).D(x!1) k"
    network = read(rule, "D(x,x) 10", max_molecules=4)
    assert max(one.label.count("D(") for one in network.species) == 4
    # Two chains of sixteen make one of 32.
    inner = "".join(f".D(x!{k},x!{k + 1})" for k in range(1, 15))
    with pytest.raises(ergode.ReadError, match="species of more than 30 molecules; max_iterations"):
        read("D(x) + D(x) -> D(x!1).D(x!1) k", f"D(x,x!1){inner}.D(x!15,x) 3")


def test_deletion_and_synthesis(read):
    """A pattern that is deleted takes what is bound to it, but with DeleteMolecules."""
    seeds = "A(b!1,b,b,s~U).B(a!1) 1"
    rates, _, _ = facts(read("A() -> 0 k", seeds))
    ((_, right),) = rates
    assert right == ()
    rates, _, _ = facts(read("A() -> 0 k DeleteMolecules", seeds))
    ((_, right),) = rates
    assert right == ("B(a)",)
    network = read("0 -> B(a) k\nA() -> A() + B(a) 3*k", seeds)
    assert sorted(facts(network)[0].values()) == [2, 6]


def test_observables(read):
    network = read(
        "A(b) + B(a) <-> A(b!1).B(a!1) k, k", "A(b,b,b,s~U) 1\nB(a) 1",
        observables="Molecules free A(b)\nSpecies any A(b)\nMolecules pairs A(b!1).B(a!1), B(a)\n"
        "Species two B()==2",
    )  # fmt: skip
    named = {one.name: canonical(_pattern(one.label)[0]) for one in network.species}
    count = {name: pattern.count("B(") for name, pattern in named.items()}
    for name, j in count.items():
        values = {one: float(one == name) for one in named}
        is_a = named[name].startswith("A")
        assert network.rules["free"].evaluate(values) == (3 - j if is_a else 0)
        assert network.rules["any"].evaluate(values) == (is_a and j < 3)
        assert network.rules["pairs"].evaluate(values) == (j if is_a else 1)
        assert network.rules["two"].evaluate(values) == (j == 2)


def test_other_names_and_orders_make_the_same_network(shared_data, tmp_path):
    """Names of bonds, the order of molecules, sites and rules: things without an effect."""
    text = (shared_data / "bngl" / "Haugh2b.bngl").read_text()
    for old, new in (
        ("R(Y1~P!1).S1(SH2!1)", "S1(SH2!77).R(Y1~P!77)"), ("S2(SH2!1,Y~U)", "S2(Y~U,SH2!1)"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "again.bngl"
    path.write_text(text)
    assert facts(read_bionetgen(path)) == facts(
        read_bionetgen(shared_data / "bngl" / "Haugh2b.bngl")
    )


@pytest.mark.parametrize(
    ("rules", "seeds", "message"),
    [
        ("A(b) + B(a) A(b!1).B(a!1) k", "B(a) 1", "line 13: the rule has no arrow"),
        ("A(b) + B(a) <-> A(b!1).B(a!1) k", "B(a) 1", "line 13: the rule has 1 rate.*expected 2"),
        ("A(b) + B(a) -> A(b!1).B(a) k", "B(a) 1", r"the bond '1' has 1 end\(s\)"),
        ("A(b!+) -> A(b) k", "B(a) 1", r"the site 'b' has '!\+' on one side only"),
        ("A(b) -> A(s) k", "B(a) 1", "has a site 's' that the reactant has not"),
        ("A(c) -> A(c) k", "B(a) 1", "the molecule type 'A' has no site 'c'"),
        ("C(b) -> C(b) k", "B(a) 1", "'C' is no molecule type"),
        ("A(s~U) -> A(s~V) k", "B(a) 1", "has the state 'V'; expected P, U"),
        ("A(b) -> A() k", "B(a) 1", "has no site 'b', which the reactant has"),
        ("0 -> A(b) k", "B(a) 1", "the site 's' of 'A' has the state None; expected one of U, P"),
        ("0 -> E() k", "B(a) 1", "'E' is no molecule type"),
        ("B(a) -> 0 k exclude_reactants(2,A)", "B(a) 1", "'2' is none of the 1 reactants"),
        ("B(a) -> 0 k exclude_reactants(1,Q)", "B(a) 1", "'Q' is no molecule type"),
        ("0 -> B(a) k TotalRate", "B(a) 1", "'TotalRate' is not supported"),
        ("0 -> B(a)@EC k", "B(a) 1", "line 13: 'EC' is no compartment"),
        (
            "0 -> B(a) k\n" + CELL.format("CP"),
            "B(a)@EC 1",
            "line 13: the compartment of 'B'",
        ),
        ("0 -> B(a)@EC k\n" + CELL.format("CQ"), "B(a)@EC 1", "'XX' is in 'CQ', which is no comp"),
        (
            "@EC:B(a) -> @PM:B(a) k\n" + CELL.format("CP"),
            "B(a)@EC 1",
            "'EC' to 'PM': one is a",
        ),
        (
            "@EM:B(a) -> @NM:B(a) k\n" + CELL.format("CP"),
            "B(a)@EC 1",
            "no volume joins the surf",
        ),
        ("B(a) -> B(a)@EC k\n" + CELL.format("CP"), "B(a)@EC 1", "the reactant does not name"),
        ("B(a)+D(x) -> 0 MM(k,k)\n" + CELL.format("CP"), "B(a)@EC 1", "not supported in compartm"),
        ("0 -> B(a)@EC k\n" + CELL.format("CP"), "B(a)@QC 1", "line 10: 'QC' is no compartment"),
        ("%x:B(a) -> 0 f(y)*h(x)", "B(a) 1", "'y' in 'f.y.' is no tag of what the rule takes"),
        ("%x:B(a) -> 0 f(x,x)", "B(a) 1", "'f.x,x.' has 2 argument.*expected 1"),
        ("%x:B(a) -> 0 g(x)", "B(a) 1", "the function 'g' calls itself"),
        ("B(a) <-> 0 Arrhenius(k)", "B(a) 1", "'Arrhenius' has two arguments"),
        ("0 -> B(a) k", "B(a)", "line 10: the species has no amount"),
        ("0 -> B(a) k", "B(a).B(a) 1", "are not bound to each other"),
        ("0 -> B(a) k", "B(q) 1", "the molecule type 'B' has no site 'q'"),
        ("0 -> B(a) k", "B(a 1", r"expected a site at 'a 1'"),
        ("D(x) + D(x) -> D(x!1).D(x!1) k", "D(x,x) 1", "more than max_species = 20 species"),
    ],
)
def test_what_is_refused(read, rules, seeds, message):
    with pytest.raises(ReadError, match=message):
        read(rules, seeds, max_species=20, observables=LOCAL)
