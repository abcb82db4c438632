"""Mass action and formulas: each written as the other is the same function, or is left alone."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ergode import Compartment, ModelError, Reaction, ReactionNetwork, Species
from ergode.models.expressions import Expression
from ergode.models.reactions.mass_action import both_ways, deterministic, law_of, recognise
from ergode.models.reactions.reaction import Law

from ...readers.networks import propensities

SPECIES = {
    "P": Species("P", 40, "cell"),
    "Q": Species("Q", 30, "cell"),
    "A": Species("A", 20, "cell", "concentration"),
    "B": Species("B", 10, "cell", "concentration"),
    "C": Species("C", 10, "shell", "concentration"),
    "N": Species("N", 5),
    "M": Species("M", 5, None, "concentration"),
}
FIXED = {"k", "h", "cell", "shell"}
VALUES = {"k": 0.3, "h": 1.7, "cell": 2.5, "shell": 0.5, "time": 0.0}


def found(law, reactants, products=(), **options):
    result = recognise(
        Expression(law), reactants, dict.fromkeys(products, 1), SPECIES, FIXED, **options
    )
    ((word, value),) = result.items()
    return word, value if isinstance(value, float) else value.text


@pytest.mark.parametrize(
    ("law", "reactants", "expected"),
    [
        # amounts: Gillespie's c
        ("k", {}, ("stochastic_rate_constant", "k")),
        ("2", {}, ("stochastic_rate_constant", 2.0)),
        ("k * P", {"P": 1}, ("stochastic_rate_constant", "k")),
        ("P / k", {"P": 1}, ("stochastic_rate_constant", "1.0 / k")),
        ("k * (P / 2) / 0.5", {"P": 1}, ("stochastic_rate_constant", "k")),
        ("0.1 * P", {"P": 1}, ("stochastic_rate_constant", 0.1)),
        ("k * P * Q", {"P": 1, "Q": 1}, ("stochastic_rate_constant", "k")),
        ("Q^2 / Q * k * P", {"P": 1, "Q": 1}, ("stochastic_rate_constant", "k")),
        ("k * P * (P - 1) / 2", {"P": 2}, ("stochastic_rate_constant", "k")),
        ("k * P * (P - 1)", {"P": 2}, ("stochastic_rate_constant", "2.0 * k")),
        ("k*P*(P-1)*(P-2)/6 * h", {"P": 3}, ("stochastic_rate_constant", "k * h")),
        ("P * (P - 1) * 0.5 * (k + h)", {"P": 2}, ("stochastic_rate_constant", "k + h")),
        ("exp(-k) * P", {"P": 1}, ("stochastic_rate_constant", "exp(-k)")),
        ("k * cell * P", {"P": 1}, ("stochastic_rate_constant", "k * cell")),
        ("k * P * Q / cell", {"P": 1, "Q": 1}, ("rate_constant", "k")),
        ("k * N", {"N": 1}, ("stochastic_rate_constant", "k")),
        # concentrations: the deterministic constant
        ("k * A * cell", {"A": 1}, ("rate_constant", "k")),
        ("cell * k * A * B", {"A": 1, "B": 1}, ("rate_constant", "k")),
        ("k * A", {"A": 1}, ("rate_constant", "k / cell")),
        ("k * cell * A * (A - 1 / cell)", {"A": 2}, ("rate_constant", "k")),
        ("k * cell * shell * A * C", {"A": 1, "C": 1}, ("stochastic_rate_constant", "k")),
        ("k * M", {"M": 1}, ("rate_constant", "k")),
    ],
)
def test_what_is_mass_action(law, reactants, expected):
    assert found(law, reactants) == expected


@pytest.mark.parametrize(
    ("law", "reactants"),
    [
        ("k * P * P", {"P": 2}),  # k n^2, not k n (n - 1)
        ("k * P^2 / 2", {"P": 2}),
        ("k * A * A * cell", {"A": 2}),
        ("k * A * (A - 1) * cell", {"A": 2}),  # one molecule less is a concentration of 1 / cell
        ("k * P", {"P": 2}),
        ("k * P * (P - 1)", {"P": 1}),
        ("k * P * (P - 2)", {"P": 2}),
        ("k", {"P": 1}),
        ("k * P", {}),
        ("k * P * Q", {"P": 1}),
        ("k * P / (h + P)", {"P": 1}),
        ("k * P * time", {"P": 1}),
        ("k * y * P", {"P": 1}),  # a rule
        ("-k * P", {"P": 1}),
        ("0 * P", {"P": 1}),
        ("P / 0", {"P": 1}),
        ("k * P^0.5", {"P": 1}),
        ("k * P - h", {"P": 1}),
        ("k * P", {"P": 1.5}),
        ("k if P > 3 else h * P", {"P": 1}),
    ],
)
def test_what_is_not_mass_action_is_left_as_it_is(law, reactants):
    word, value = found(law, reactants)
    assert word == "rate" and value == law


def test_powers_are_mass_action_of_concentrations_without_chance():
    assert found("k * cell * A^2", {"A": 2}, powers=True) == ("rate_constant", "k")
    assert found("k * A * A", {"A": 2}, powers=True) == ("rate_constant", "k / cell")
    assert found("k * P * P", {"P": 2}, powers=True) == ("rate_constant", "k * cell")
    assert found("k * P * Q / cell", {"P": 1, "Q": 1}, powers=True) == ("rate_constant", "k")
    assert found("k * P * (P - 1)", {"P": 2}, powers=True)[0] == "rate"
    assert found("k * A * C", {"A": 1, "C": 1}, powers=True)[0] == "rate"


@pytest.mark.parametrize(
    ("law", "ways"),
    [
        ("k * P - h * Q", ("k * P", "h * Q")),
        ("k * P - h", ("k * P", "h")),
        ("-h * Q + k * P", ("k * P", "h * Q")),
        ("k * P + 1 - (h * Q - 2)", ("k * P + 1 + 2", "h * Q")),
        ("cell * (k * P - h * Q) / 2", ("cell * (k * P) / 2", "cell * (h * Q) / 2")),
        ("k * (P - Q / h) / (1 + P + Q)", ("k * P / (1 + P + Q)", "k * (Q / h) / (1 + P + Q)")),
        ("k * P * (P - 1) / 2 - h * Q", ("k * P * (P - 1) / 2", "h * Q")),
        ("k * P", None),
        ("k * P * (P - 1) / 2", None),
        ("k * (100 - 2 * P) * (100 - 2 * P - 1) / 2", None),
        ("k / (P - Q)", None),
        ("exp(P - Q)", None),
    ],
)
def test_laws_that_go_both_ways(law, ways):
    found = both_ways(Expression(law), FIXED)
    assert found == (ways and tuple(map(Expression, ways)))
    if ways:
        words = {**VALUES, "P": 3.0, "Q": 2.0}
        ahead, back = (way.evaluate(words) for way in found)
        assert ahead - back == pytest.approx(Expression(law).evaluate(words))


def test_deterministic_network():
    network = ReactionNetwork(
        SPECIES.values(),
        [
            Reaction("2 A -> B", rate="k * cell * A * A", name="pair"),
            Reaction("A -> B", rate="k * A / (h + A)"),
            Reaction("3 P -> A", stochastic_rate_constant="k"),
        ],
        parameters={"k": 1.0, "h": 2.0},
        compartments={"cell": 2.5, "shell": 0.5},
    )
    laws = [reaction.law for reaction in deterministic(network).reactions]
    assert laws == [Law.DETERMINISTIC, Law.RATE, Law.DETERMINISTIC]
    assert deterministic(network).propensities()[2] == (
        "(k * cell ** 2.0 / 6.0) * P * (P - 1) * (P - 2) / cell^2"
    )
    assert deterministic(deterministic(network)).digest == deterministic(network).digest


@pytest.mark.parametrize(
    ("reaction", "expected"),
    [
        (Reaction("2 P -> Q", stochastic_rate_constant="k"), "k * P * (P - 1.0) / 2.0"),
        (Reaction("2 P -> Q", rate_constant="k"), "k * P * (P - 1.0) / cell"),
        (Reaction("0 -> A", rate_constant="k"), "k * cell"),
        (Reaction("A + B -> P", rate_constant=0.5), "A * B * cell / 2.0"),
        (Reaction("A -> B", rate_constant=0.3), "0.3 * A * cell"),
        (Reaction("A -> B", rate="k * A"), "k * A"),
        (Reaction("A -> B", rate=2.0), "2.0"),
    ],
)
def test_law_in_words(reaction, expected):
    assert law_of(reaction, SPECIES).text == expected


def test_what_has_no_formula_is_refused():
    with pytest.raises(ModelError, match="different compartments"):
        law_of(Reaction("A + C -> P", rate_constant=1.0), SPECIES)
    with pytest.raises(ModelError, match="1.5 'P'"):
        law_of(Reaction({"P": 1.5}, {}, rate_constant=1.0), SPECIES)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(sorted(SPECIES)), st.integers(1, 4), max_size=3),
    st.sampled_from(["stochastic_rate_constant", "rate_constant"]),
    st.sampled_from([0.25, 0.3, 7.0, "k", "k / h", "2 * k", "cell * k", "k + h"]),
    st.data(),
)
def test_there_and_back_is_the_same_propensity(reactants, word, constant, data):
    """Any mass action, written as a formula and recognised again, has the same value."""
    network_species = list(SPECIES.values())
    reaction = Reaction(reactants, {"Q": 1}, **{word: constant})
    places = {SPECIES[name].compartment for name in (reactants or {"Q": 1})}
    if word == "rate_constant" and len(places) > 1:
        return
    law = law_of(reaction, SPECIES)
    again = Reaction(reactants, {"Q": 1}, **recognise(law, reactants, {"Q": 1}, SPECIES, FIXED))
    assert again.law != Law.RATE
    counts = {name: float(data.draw(st.integers(0, 50))) for name in SPECIES}
    expected, *others = (
        propensities(
            ReactionNetwork(
                network_species, [one], {"k": 0.3, "h": 1.7},
                [Compartment("cell", 2.5), Compartment("shell", 0.5)],
            ),
            counts,
        )[0]
        for one in (reaction, again, Reaction(reactants, {"Q": 1}, rate=law))
    )  # fmt: skip
    np.testing.assert_allclose(others, expected, rtol=1e-12, atol=1e-9)
