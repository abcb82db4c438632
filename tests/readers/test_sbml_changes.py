"""read_sbml: changes that are not by whole molecules, each against a closed form."""

import numpy as np
import pytest

import ergode
from ergode import ReadError, read_sbml

from .networks import sbml
from .test_sbml import death, event, lists, reaction, species

pytest.importorskip("libsbml")

TIMES = np.linspace(0, 2, 5)


def read(**parts):
    parts.setdefault("species", species("X"))
    return read_sbml(sbml(lists(**parts).replace('fast="false"', ""), version=2))


def course(network, name="X", **options):
    """Amount of a species, or value of a rule, over time."""
    result = ergode.stochastic.simulate(
        network, times=TIMES, method="hybrid", tolerance=1e-9, device="cpu:1", **options
    )
    assert (result["status"] == 0).all()
    if "rule" in result.dims and name in result["rule"]:
        return result["value"].sel(rule=name).values[0]
    return result["amount"].sel(species=name).values[0]


def parameter(name, value, constant=False):
    return f'<parameter id="{name}" value="{value}" constant="{str(constant).lower()}"/>'


def taken(**options):
    """A death that takes `n` molecules."""
    text = death(**options).replace("<speciesReference", '<speciesReference id="n"')
    return text.replace('stoichiometry="1" constant="true"', 'stoichiometry="2" constant="false"')


K = parameter("k", 0.5, constant=True)
STEEP = np.exp(-0.5 * TIMES)


@pytest.mark.parametrize("whole", [True, False])
def test_conversion_factors(whole):
    """Of a species, instead of the model's; concentrations, too."""
    of_species = ' conversionFactor="two"'
    start = 'initialAmount="10"'
    network = read(
        species=species("X", start + of_species, whole) + species("Y", 'initialAmount="0"', whole),
        parameters=K + parameter("two", 2, constant=True),
        reactions=reaction("k * X", {"X": 1}, {"Y": 3}, name="death"),
    )
    rate = 2 * 0.5 / (1 if whole else 2)  # the size is 2
    np.testing.assert_allclose(course(network), 10 * np.exp(-rate * TIMES), rtol=1e-6)
    made = 3 * 5 * (1 - np.exp(-rate * TIMES))
    np.testing.assert_allclose(course(network, "Y"), made, rtol=1e-6, atol=1e-7)


def test_stoichiometry_by_rules():
    growing = read(reactions=taken(), rules='<rateRule variable="n">{{k}}</rateRule>')
    expected = 10 * np.exp(-0.5 * (2 * TIMES + 0.25 * TIMES**2))
    np.testing.assert_allclose(course(growing), expected, rtol=1e-6)
    ruled = read(
        reactions=taken(), rules='<assignmentRule variable="n">{{2 * time}}</assignmentRule>'
    )
    np.testing.assert_allclose(course(ruled), 10 * np.exp(-0.5 * TIMES**2), rtol=1e-6)


def test_stoichiometry_by_an_event():
    network = read(reactions=taken(), events=event("time >= 1", {"n": "0"}))
    expected = 10 * np.exp(-np.minimum(TIMES, 1))
    np.testing.assert_allclose(course(network), expected, rtol=1e-6)


def test_stoichiometry_by_a_formula_follows_a_sweep():
    network = read(
        reactions=taken(), start='<initialAssignment symbol="n">{{3 * k}}</initialAssignment>'
    )
    result = ergode.stochastic.simulate(
        network, times=TIMES, method="hybrid", parameters={"k": [0.5, 1.0]}, device="cpu:1"
    )
    rows = result["amount"].sel(species="X", replicate=0).transpose("point", "time").values
    for k, row in zip((0.5, 1.0), rows, strict=True):
        np.testing.assert_allclose(row, 10 * np.exp(-3 * k * k * TIMES), rtol=1e-5)


def test_the_rate_of_change():
    """Of a species that reactions change, of one with a rate rule, of a size; of a constant."""
    network = read(
        parameters=K + parameter("p", 1) + parameter("q", 0) + parameter("none", 0),
        rules='<rateRule variable="p">{{-2 * p}}</rateRule>'
        '<rateRule variable="q">{{rateOf(X) + rateOf(p)}}</rateRule>'
        '<assignmentRule variable="none">{{rateOf(k) + rateOf(cell) + 3 * rateOf(p)}}'
        "</assignmentRule>",
        reactions=death(),
    )
    np.testing.assert_allclose(course(network, "none"), -6 * np.exp(-2 * TIMES), rtol=1e-6)
    assert set(network.rate_rules) == {"p", "q"}
    with pytest.raises(ReadError, match="circular"):
        read(reactions=death("k * X + rateOf(X)"))
    with pytest.raises(ReadError, match="must not appear as the 'variable' of an <assign"):
        read(
            parameters=K + parameter("p", 1),
            rules='<assignmentRule variable="p">{{X}}</assignmentRule>',
            reactions=death("k * X + rateOf(p)"),
        )


def test_delays():
    """Of a species, of a delayed one, by a time that changes, in a trigger; from 0, and from 3."""
    rules = {
        "y": "delay(X, 0.4)",
        "w": "delay(y, k)",
        "z": "delay(X, time / 2)",
        "q": "p",
        "r": "delay(rateOf(X), 0.4)",
    }
    network = read(
        species=species("X") + species("Y"),
        parameters=K + "".join(parameter(name, 0) for name in (*rules, "p")),
        rules="".join(f'<assignmentRule variable="{name}">{{{{{text}}}}}</assignmentRule>'
                      for name, text in rules.items()),
        reactions=reaction("k * X", {"X": 1}, {"Y": 1}, name="death"),
        events=event("y < 6", {"p": "time"}),
    )  # fmt: skip
    assert network.continuous == ("X", "Y")
    for begin in (0.0, 3.0):
        result = ergode.stochastic.simulate(
            network, times=TIMES + begin, method="hybrid", tolerance=1e-9, device="cpu:1"
        )
        ages = {"y": TIMES - 0.4, "w": TIMES - 0.9, "z": (TIMES + begin) / 2 - begin}
        for name, age in ages.items():
            found = result["value"].sel(rule=name, replicate=0)
            np.testing.assert_allclose(found, 10 * np.exp(-0.5 * np.maximum(age, 0)), rtol=1e-6)
        rate = result["value"].sel(rule="r", replicate=0)
        expected = np.where(ages["y"] < 0, 0, -5 * np.exp(-0.5 * ages["y"]))
        np.testing.assert_allclose(rate, expected, rtol=1e-6)
        last = result["value"].sel(rule="q")[0, -1]
        assert last == pytest.approx(begin + 0.4 + 2 * np.log(10 / 6), rel=1e-6)
    with pytest.warns(ergode.FailureWarning):  # the delay k is negative
        failed = ergode.stochastic.simulate(
            network, times=TIMES, method="hybrid", parameters={"k": -1.0}, device="cpu:1"
        )
    assert failed["status"] != 0 and np.isnan(failed["value"].sel(rule="w")[0, 1:]).all()


def test_algebraic_rules():
    """Two, each with a variable that only it can determine; the order does not matter."""
    rules = ["<algebraicRule>{{X + a - 12}}</algebraicRule>",
             "<algebraicRule>{{2 * (a - b) / k}}</algebraicRule>"]  # fmt: skip
    for order in (rules, rules[::-1]):
        network = read(
            parameters=K + parameter("a", 0) + parameter("b", 0), rules="".join(order),
            reactions=death(),
        )  # fmt: skip
        network = ergode.ReactionNetwork(
            network.species, network.reactions, network.parameters, network.compartments,
            network.rules, continuous=["X"],
        )  # fmt: skip
        np.testing.assert_allclose(course(network, "b"), 12 - 10 * STEEP, rtol=1e-6)


def test_algebraic_rules_of_large_numbers():
    """Moles of molecules: nothing is lost by the way in which the rule is solved."""
    network = read(
        species=species("X", 'initialAmount="6e23"'),
        parameters=K + parameter("total", 9e23, constant=True) + parameter("a", 0),
        rules="<algebraicRule>{{X + a - total}}</algebraicRule>", reactions=death(),
    )  # fmt: skip
    known = {"X": 6e23, "total": 9e23}
    assert network.rules["a"].evaluate(known) == pytest.approx(3e23, rel=1e-14)
    for rule in ("2 * (a - X) / k - 1", "k - (X - a)", "-(3 - a * k)", "a / 4 + X * k"):
        found = read(
            parameters=K + parameter("a", 0), reactions=death(),
            rules=f"<algebraicRule>{{{{{rule}}}}}</algebraicRule>",
        ).rules["a"].evaluate({"X": 10.0, "k": 0.5})  # fmt: skip
        exact = {"2": 10.25, "k": 9.5, "-": 6.0, "a": -20.0}[rule[0]]
        assert found == pytest.approx(exact)


def test_algebraic_rules_that_determine_nothing():
    for rule, events, match in (
        ("a * a - X", "", r"0 = a \* a - X is not linear in 'a', which it determines"),
        ("a - X", event("X < 3", {"a": "1"}), "0 = a - X determines no variable that is not"),
        ("X - k", "", "must not be overdetermined"),
    ):
        with pytest.raises(ReadError, match=match):
            read(
                parameters=K + parameter("a", 1), reactions=death(), events=events,
                rules=f"<algebraicRule>{{{{{rule}}}}}</algebraicRule>",
            )  # fmt: skip


def test_a_compartment_whose_size_is_a_formula():
    """A concentration falls as the cell grows; an event sets it; an amount stays."""
    network = read(
        compartments='<compartment id="cell" constant="false"/>',
        species=species("X", 'initialConcentration="5"', False) + species("Y", 'initialAmount="4"'),
        parameters=K + parameter("shown", 0),
        rules='<assignmentRule variable="cell">{{2 + time}}</assignmentRule>'
        '<assignmentRule variable="shown">{{X}}</assignmentRule>',
        reactions=reaction("k * X * cell", {"X": 1}, name="death"),
        events=event("time >= 1.25", {"X": "7"}),
    )
    network = ergode.ReactionNetwork(
        network.species, network.reactions, network.parameters, network.compartments,
        network.rules, network.events, continuous=["X", "Y"],
    )  # fmt: skip
    before, after = TIMES < 1.25, TIMES >= 1.25
    amount = np.where(before, 10 * STEEP, 7 * 3.25 * np.exp(-0.5 * (TIMES - 1.25)))
    np.testing.assert_allclose(course(network), amount, rtol=1e-6)
    np.testing.assert_allclose(course(network, "shown"), amount / (2 + TIMES), rtol=1e-6)
    assert after.sum() == 2 and (course(network, "Y") == 4).all()


def test_elements_without_a_formula_say_nothing():
    network = read(
        parameters=K + parameter("p", 3),
        rules='<assignmentRule variable="p"/>',
        start='<initialAssignment symbol="k"/>',
        reactions=death("p * k * X"),
        events='<event useValuesFromTriggerTime="true"><trigger initialValue="true" '
        'persistent="true"/></event>',
    )
    assert network.parameters["p"] == 3 and not network.events


def test_factorials():
    assert read(reactions=death("factorial(4) * X")).propensities()[0] == "24 * X"
