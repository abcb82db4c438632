"""from_gillespy2: the propensities that GillesPy2 itself would evaluate."""

import numpy as np
import pytest

import ergode
from ergode import ModelError
from ergode.models.reactions.reaction import Law

from .networks import propensities

gillespy2 = pytest.importorskip("gillespy2")


def model():
    made = gillespy2.Model(name="mixed", volume=2.5)
    a, b, c = (gillespy2.Species(name, value) for name, value in (("A", 40), ("B", 7), ("C", 0)))
    s = gillespy2.Species("S", 3, boundary_condition=True)
    made.add_species([a, b, c, s])
    k = gillespy2.Parameter("k", 0.3)
    h = gillespy2.Parameter("h", "k * 2")
    made.add_parameter(k)
    made.add_parameter(h)
    made.add_reaction(
        [
            gillespy2.Reaction("make", {}, {a: 1}, rate=k),
            gillespy2.Reaction("pair", {a: 2}, {b: 1}, rate=k),
            gillespy2.Reaction("bind", {a: 1, b: 1}, {c: 1}, rate=h),
            gillespy2.Reaction("decay", {s: 1}, {c: 1}, rate=k),
            gillespy2.Reaction(
                "hill", {a: 1}, {c: 2}, propensity_function="h * A^2 / (vol + A) * (1 + t)"
            ),
        ]
    )
    trigger = gillespy2.EventTrigger(expression="t >= 2.5", persistent=True)
    made.add_event(
        gillespy2.Event(
            "reset", trigger=trigger, delay="1",
            assignments=[gillespy2.EventAssignment(variable=a, expression="A / 2")],
        )
    )  # fmt: skip
    made.add_assignment_rule(gillespy2.AssignmentRule(variable=c, formula="2 * A", name="twice"))
    return made


def test_propensities_are_its_own():
    made = model()
    network = ergode.from_gillespy2(made)
    amounts = {"A": 40.0, "B": 7.0, "S": 3.0}
    namespace = {**amounts, "C": 80.0, "k": 0.3, "h": 0.6, "vol": 2.5, "t": 1.5}
    expected = [
        eval(one.propensity_function.replace("^", "**"), {}, namespace)
        for one in made.listOfReactions.values()
    ]
    np.testing.assert_allclose(propensities(network, amounts, 1.5), expected, rtol=1e-14)
    whole = [one.name for one in network.reactions if one.law == Law.RATE]
    assert whole == ["hill"]
    assert network.rules["C"].text == "2 * A" and network.name == "mixed"
    assert network.held.tolist() == [False, False, True]
    (event,) = network.events
    assert event.trigger.text == "time >= 2.5" and event.delay == 1 and event.priority == 0
    assert event.persistent and not event.initially_true and event.name == "reset"


def test_rate_rules_and_continuous_species():
    made = gillespy2.Model(name="hybrid", volume=2.0)
    x, y, n = (gillespy2.Species(*one, mode=mode) for *one, mode in (
        ("X", 2.5, "continuous"), ("Y", 1.0, "continuous"), ("N", 3, "discrete")))  # fmt: skip
    k, v = gillespy2.Parameter("k", 0.3), gillespy2.Species("v", 1.0, mode="continuous")
    made.add_species([x, y, n, v])
    made.add_parameter(k)
    make = gillespy2.Reaction("make", {}, {n: 1}, propensity_function="k * Y * t")
    made.add_reaction([gillespy2.Reaction("pair", {x: 2}, {}, rate=k), make])
    of_y = gillespy2.RateRule(variable=y, formula="v - Y / vol", name="of_y")
    made.add_rate_rule([of_y, gillespy2.RateRule(variable=v, formula="1", name="of_v")])
    network = ergode.from_gillespy2(made)
    assert {name: rule.text for name, rule in network.rate_rules.items()} == {
        "Y": "v - Y / vol", "v": "1.0",
    }  # fmt: skip
    assert network.continuous == ("X", "Y", "v")
    rates = zip((one.name for one in network.reactions), network.propensities(), strict=True)
    assert dict(rates) == {"pair": "k * X * X / vol", "make": "k * Y * time"}
    assert [network.reactions[k].name for k in np.flatnonzero(network.flows)] == ["pair"]


def test_what_is_refused():
    made = model()
    made.add_function_definition(
        gillespy2.FunctionDefinition(name="f", function="x + 1", args=["x"])
    )
    with pytest.raises(ModelError, match="function definition 'f'"):
        ergode.from_gillespy2(made)
    made = model()
    made.units = "concentration"
    with pytest.raises(ModelError, match="units"):
        ergode.from_gillespy2(made)
