import pickle
import time

import numpy as np
import pytest

import ergode
from ergode import Compartment, Event, ModelError, Reaction, ReactionNetwork, ReactionTable, Species
from ergode.models.expressions import Expression
from ergode.models.reactions.rates import RateCoefficient
from ergode.models.reactions.reaction import Law

from ...readers.networks import propensities


def immigration_death(**options):
    return ReactionNetwork(
        {"X": 0},
        [
            Reaction("0 -> X", rate_constant="alpha", name="immigration"),
            Reaction("X -> 0", rate_constant="mu", name="death"),
        ],
        parameters={"alpha": 10.0, "mu": 0.1},
        **options,
    )


# ---- formulas


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("2 * A ^ 2 + 1", {"A": 3}, 19),
        ("-A^2", {"A": 3}, -9),
        ("piecewise(1, A < 2, 5, A < 4, 7)", {"A": 3}, 5),
        ("1 if A > 2 and not A > 5 else 0", {"A": 3}, 1),
        ("1 < A < 4", {"A": 3}, 1),
        ("max(A, 7, 5) + pow(A, 2) + ln(exp(2))", {"A": 3}, 18),
        ("where * A", {"A": 3, "where": 2}, 6),
        ("exp", {"exp": 2.5}, 2.5),
        ("exp * exp(0)", {"exp": 2.5}, 2.5),
        ("lambda * is - yield", {"lambda": 3, "is": 2, "yield": 1}, 5),
    ],
)
def test_value_of_a_formula(text, values, expected):
    expression = Expression(text)
    assert expression.evaluate(values) == expected
    arrays = {name: np.full(3, float(value)) for name, value in values.items()}
    np.testing.assert_array_equal(expression.evaluate(arrays), expected)


@pytest.mark.parametrize(
    "text",
    ["A.b", "A[0]", "'a'", "f(A)", "__import__('os')", "[A]", "A +", "lambda: 1", "sin(A, A)",
     "piecewise(1, A)", "exp(x=1)", "A := 2", ""],
)  # fmt: skip
def test_what_is_not_arithmetic_is_refused(text):
    with pytest.raises(ModelError):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "9^9^9", "(-8)^(1/3) * 2", "9" * 400, "(" * 5000 + "A" + ")" * 5000, "-" * 9000 + "A",
     "A" + " + A" * 90_000],
)  # fmt: skip
def test_what_has_no_value_is_refused_in_one_line(text):
    with pytest.raises(ModelError) as caught:
        Expression(text).evaluate({"A": 1.0})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1300


def test_formulas_of_formulas_are_not_written_out_without_end():
    formula = Expression("y + y")
    with pytest.raises(ModelError, match="characters after the formulas that it uses"):
        for _ in range(60):
            formula = formula.substitute({"y": formula})


def test_a_molecule_taken_billions_of_times_is_a_power():
    network = ReactionNetwork({"A": 0.5}, [Reaction("4294967296 A -> 0", rate_constant=1.0)])
    assert ergode.kinetics.reaction_rates(network)["rate"].item() == 0.0
    assert ergode.kinetics.reaction_rates(network, initial={"A": 1.0})["rate"].item() == 1.0


def test_substitution_keeps_brackets():
    doubled = Expression("2 * y").substitute({"y": Expression("a + b")})
    assert doubled.evaluate({"a": 1, "b": 2}) == 6


def test_formulas_are_equal_whatever_their_blanks():
    formula = Expression("(lambda*A)+2")
    assert formula == Expression("lambda * A + 2.0") != Expression("lambda * (A + 2)")
    assert hash(formula) == hash(Expression("lambda * A + 2.0"))
    assert repr(formula) == "Expression('lambda * A + 2.0')"
    formula.evaluate({"lambda": 1, "A": 1})
    assert pickle.loads(pickle.dumps(formula)) == formula


def test_a_formula_may_not_be_too_deep():
    with pytest.raises(ModelError, match="too deeply"):
        Expression(" + ".join("A" * 3000))


# ---- reactions


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("2 A + B -> C", {"A": 2, "B": 1}, {"C": 1}),
        ("A+B->C", {"A": 1, "B": 1}, {"C": 1}),
        ("0 -> A", {}, {"A": 1}),
        ("A -> ", {"A": 1}, {}),
        ("A + A -> ∅", {"A": 2}, {}),
        ("H3O+ + OH- -> 2 H2O", {"H3O+": 1, "OH-": 1}, {"H2O": 2}),
        ("A -> 0.5 B", {"A": 1}, {"B": 0.5}),
    ],
)
def test_reaction_from_text(text, left, right):
    reaction = Reaction(text, rate_constant=1.0)
    assert reaction.reactants == left
    assert reaction.products == right
    again = Reaction(list(left) if set(left.values()) == {1} else left, right, rate_constant=1)
    assert again == reaction


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("A <-> B",), {"rate_constant": 1}, "is reversible"),
        (("A = B",), {"rate_constant": 1}, "cannot be read"),
        (("A + + B -> C",), {"rate_constant": 1}, "term"),
        (("A -> B",), {}, "no rate"),
        (("A -> B",), {"rate_constant": 1, "rate": 2}, "rate_constant and rate"),
        (("A -> B",), {"rate_constant": -1}, "-1"),
        (("A -> B",), {"rate_constant": float("nan")}, "finite"),
        (({"A": 0}, []), {"rate_constant": 1}, "positive"),
        (("A -> B", ["C"]), {"rate_constant": 1}, "text and products"),
        (("A -> B",), {"rate_constant": 1, "delay": -1}, "delay"),
    ],
)
def test_bad_reactions_are_refused(arguments, options, message):
    with pytest.raises(ModelError, match=message):
        Reaction(*arguments, **options)


def test_a_rate_coefficient_is_accepted():
    class Constant(RateCoefficient):
        pass

    coefficient = Constant()
    assert Reaction("A -> B", rate_constant=coefficient).value is coefficient
    with pytest.raises(ModelError):
        Reaction("A -> B", rate=coefficient)


# ---- networks


def test_matrices():
    network = ReactionNetwork(
        [Species("A", 5), Species("B"), Species("S", 3, boundary=True)],
        [
            Reaction("2 A + S -> B + A", rate_constant=1.0),
            Reaction("B -> 2 A", stochastic_rate_constant=1.0),
        ],
    )
    np.testing.assert_array_equal(network.stoichiometry.toarray(), [[-1, 2], [1, -1], [0, 0]])
    np.testing.assert_array_equal(network.reactant_orders.toarray(), [[2, 0], [0, 1], [1, 0]])


def test_conserved_quantities_are_conserved_and_complete():
    network = ReactionNetwork(
        {"E": 1, "S": 9, "C": 0, "P": 0, "D": 0},
        [
            Reaction("E + S -> C", rate_constant=1.0),
            Reaction("C -> E + P", rate_constant=1.0),
            Reaction("2 P -> D", rate_constant=1.0),
        ],
    )
    laws = network.conserved_quantities()
    weights = np.array([[law.get(s.name, 0) for s in network.species] for law in laws])
    matrix = network.stoichiometry.toarray()
    np.testing.assert_array_equal(weights @ matrix, 0)
    assert len(laws) == 5 - np.linalg.matrix_rank(matrix) == np.linalg.matrix_rank(weights)


def test_propensities_show_volumes_and_combinations():
    network = ReactionNetwork(
        [Species("A", 5, compartment="cell"), Species("B", compartment="cell")],
        [
            Reaction("0 -> A", rate_constant="k"),
            Reaction("2 A -> B", rate_constant="k"),
            Reaction("2 A -> B", stochastic_rate_constant=0.5),
            Reaction("A + B -> A", rate_constant="k / 2"),
            Reaction("B -> A", rate="k * B"),
        ],
        parameters={"k": 1.0},
        compartments={"cell": 2.0},
    )
    assert list(network.propensities()) == [
        "k * cell", "k * A * (A - 1) / cell", "0.5 * A * (A - 1) / 2", "(k / 2) * A * B / cell",
        "k * B",
    ]  # fmt: skip


def test_reactions_come_back_as_they_were():
    reactions = [
        Reaction("2 A -> B", rate_constant=0.25, name="pair", delay=2.0),
        Reaction("B -> 2 A", rate="v * B / (K + B)", name="back"),
    ]
    network = ReactionNetwork({"A": 1, "B": 2}, reactions, parameters={"v": 1, "K": 2})
    assert list(network.reactions) == reactions
    assert network.reactions[-1].law is Law.RATE
    assert network.reactions.number == {"pair": 0, "back": 1}


def test_parameters_may_be_formulas_and_arrays():
    network = ReactionNetwork(
        {"A": 1},
        [Reaction("A -> 0", rate_constant="b")],
        parameters={"b": "2 * a", "a": 3.0},
    )
    assert network.evaluate_parameters()["b"] == 6
    np.testing.assert_array_equal(
        network.evaluate_parameters({"a": np.array([1.0, 2.0])})["b"], [2.0, 4.0]
    )
    with pytest.raises(ModelError, match="did you mean 'a'"):
        network.evaluate_parameters({"aa": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {"alpha": 1.0}}, "uses 'mu'"),
        ({"parameters": {"alpha": "mu", "mu": "alpha"}}, "define each other"),
        ({"parameters": {"alpha": 1.0, "mu": 1.0, "X": 2.0}}, "'X' is the name"),
        ({"parameters": {"alpha": 1.0, "mu": 1.0, "time": 2.0}}, "'time'"),
        ({"parameters": {"alpha": 1.0, "mu": 1.0, "pi": 2.0}}, "'pi'"),
        ({"species": {"X": 0, "if": 0}}, "'if' is the name"),
        ({"rules": {"y": "2 * Y"}}, "uses 'Y', which"),
        ({"rules": {"y": "z", "z": "y"}}, "define each other"),
        ({"events": [Event("X > 3", {"Z": 1})]}, "assigns to 'Z'"),
        ({"events": [Event("Q > 3", {"X": 1})]}, "uses 'Q'"),
        ({"events": [Event("X", {"X": 1})]}, "trigger .* 'X' is a number; expected .* 'X > 0'"),
        ({"events": [Event("y", {"X": 1})], "rules": {"y": "X - 3"}}, "'y' is a number"),
        ({"events": [Event("X if X > 3 else 0", {"X": 1})]}, "is a number"),
        ({"species": [Species("X", compartment="cell")]}, "compartment 'cell'"),
        ({"species": [], "reactions": [], "parameters": {}}, "the network is empty"),
        ({"species": {"Y": 1}}, "species 'X'"),
        ({"compartments": {"cell": 0}}, "more than 0"),
        ({"species": {"X": -1}}, "0 or more"),
    ],
)
def test_bad_networks_are_refused(change, message):
    network = immigration_death()
    arguments = {
        "species": network.species, "reactions": list(network.reactions),
        "parameters": network.parameters,
    }  # fmt: skip
    with pytest.raises(ModelError, match=message):
        ReactionNetwork(**{**arguments, **change})


def test_rate_constants_are_constant():
    with pytest.raises(ModelError, match="changes in time"):
        ReactionNetwork({"A": 1}, [Reaction("A -> 0", rate_constant="A")])


def test_network_does_not_change_and_travels():
    network = immigration_death(events=[Event("time >= 3", {"X": 0})], rules={"y": "2 * X"})
    with pytest.raises(AttributeError):
        network.name = "other"
    assert pickle.loads(pickle.dumps(network)).digest == network.digest


def test_digest_sees_every_part():
    digests = {
        immigration_death(**options).digest
        for options in (
            {}, {"rules": {"y": "X"}}, {"events": [Event("X > 1", {"X": 0})]},
            {"compartments": {"c": 2.0}},
        )
    }  # fmt: skip
    assert len(digests) == 4


def test_species_in_different_compartments_need_a_whole_rate():
    network = ReactionNetwork(
        [Species("A", 1, compartment="a"), Species("B", 1, compartment="b")],
        [Reaction("A + B -> 0", rate_constant=1.0)],
        compartments=[Compartment("a"), Compartment("b")],
    )
    with pytest.raises(ModelError, match="compartments"):
        _ = network.propensities()[0]


def test_a_thousand_reactions_are_quick():
    start = time.process_time()
    names = [f"S{i}" for i in range(400)]
    reactions = [
        Reaction(
            f"{names[i % 400]} + {names[7 * i % 400]} -> {names[3 * i % 400]}", rate_constant=i
        )
        for i in range(1600)
    ]
    ReactionNetwork(names, reactions)
    assert time.process_time() - start < 5  # far above what it takes: a guard against squares


def test_a_table_is_checked():
    starts, one = np.array([0, 1, 2]), np.ones(2)
    members = np.array([0, 1])
    table = ReactionTable(
        ("A", "B"), starts, members, one, starts, members[::-1], one, np.zeros(2), one
    )
    network = ReactionNetwork(["A", "B"], table)
    assert [str(r) for r in network.reactions] == ["A -> B", "B -> A"]
    for change in (
        {"values": -one},
        {"reactant_species": members + 1},
        {"product_counts": 0 * one},
    ):
        with pytest.raises(ModelError):
            ReactionTable(
                **{**{f: getattr(table, f) for f in table.__dataclass_fields__}, **change}
            )
    with pytest.raises(ModelError, match="species of the reaction table"):
        ergode.ReactionNetwork(["A", "C"], table)


@pytest.mark.parametrize("text", ["2A -> B", "A + 3B -> C", "2*A -> B", "A -> 2 * B"])
def test_a_number_next_to_a_name_is_not_a_species(text):
    with pytest.raises(ModelError, match=r"write '[23] [AB]'"):
        ergode.ReactionNetwork(["A", "B", "C"], [Reaction(text, rate_constant=1.0)])
    assert Reaction("2 A -> B", rate_constant=1.0).reactants == {"A": 2.0}
    assert Reaction("1-butene -> B2", rate_constant=1.0).reactants == {"1-butene": 1.0}
    assert Reaction("56Ni -> 56Co", rate_constant=1.0).reactants == {"56Ni": 1.0}


def test_propensities_have_one_meaning_for_a_name():
    """Printed formulas, evaluated in amounts, are the definitions of their laws."""
    network = ReactionNetwork(
        [
            Species("A", 3, "cell", "concentration"), Species("B", 1, "cell", "concentration"),
            Species("C", 4, "cell"), Species("lambda", 2, "cell", "concentration"),
        ],
        [
            Reaction("A + B -> 0", rate_constant="k"),
            Reaction("2 A -> B", stochastic_rate_constant="k * 2"),
            Reaction("A -> 0", rate="cell * k * A / (1 + A)"),
            Reaction("B -> 0", rate="cell * k * B^2 * (C if A > 1 else lambda)"),
            Reaction("C -> 0", rate="both * C"),
        ],
        parameters={"k": 0.3}, compartments={"cell": 4.0}, rules={"both": "A + B * C"},
    )  # fmt: skip
    printed = network.propensities()
    assert printed[2] == "cell * k * (A / cell) / (1.0 + A / cell)"
    amounts = {"A": 12.0, "B": 5.0, "C": 4.0, "lambda": 8.0}
    words = {**network.evaluate_parameters(), **amounts, "both": 3.0 + 1.25 * 4.0}
    found = [Expression(text).evaluate(words) for text in printed]
    np.testing.assert_allclose(found, propensities(network, amounts), rtol=1e-14)


def test_the_rate_of_a_reaction_can_be_read():
    for argument in ("rate_constant", "stochastic_rate_constant", "rate"):
        one = ergode.Reaction("A -> B", **{argument: 0.5})
        others = {"rate_constant", "stochastic_rate_constant", "rate"} - {argument}
        assert getattr(one, argument) == 0.5
        assert all(getattr(one, other) is None for other in others)
