"""Tables of a run file that describe a compartment model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.transitions import Infection, Progression
from ergode.models.holding_times import families
from ergode.models.holding_times.families import HoldingTime
from ergode.runfile.described import Described, Each
from ergode.runfile.tables import Table

KINDS = ("si", "sis", "sir", "sirs", "seir", "seirs", "seird", "seair")
DISTRIBUTIONS = {
    "exponential": families.Exponential,
    "log-normal": families.LogNormal,
    "weibull": families.Weibull,
    "gamma": families.Gamma,
    "erlang": families.Erlang,
    "deterministic": families.Deterministic,
    "empirical": families.Empirical,
}
SPELLED_OUT = ("compartments", "infections", "progressions", "susceptibility", "infectivity")


def compartment_model(table: Table) -> CompartmentModel:
    """The model of a table: a standard kind, or compartments and transitions."""
    if "kind" in table or "compartments" not in table:
        make = getattr(CompartmentModel, table.choice("kind", KINDS))
        model = table.call(make, also=["kind"], special={"HoldingTime": holding_time})
        return model
    table.only(SPELLED_OUT)
    infections = [_infection(one) for one in table.tables("infections")]
    progressions = []
    if "progressions" in table:
        progressions = [_progression(one) for one in table.tables("progressions")]
    names = {key: table.text(key) for key in SPELLED_OUT[3:] if key in table}
    compartments = _texts(table, "compartments")
    with table.explaining():
        return CompartmentModel(compartments, infections, progressions, **names)


def holding_time(table: Table, key: str) -> HoldingTime:
    """The distribution that a key of a table describes."""
    described = table.table(key)
    make = DISTRIBUTIONS[described.choice("distribution", DISTRIBUTIONS)]
    time = described.call(make, also=["distribution"])
    assert isinstance(time, HoldingTime)
    return time


calendar = Described(
    Calendar, {"changes": Table.moments, "factors": Table.numbers, "period": Table.number}
)


def _infection(table: Table) -> Infection:
    factors = [key for key in ("susceptibility", "infectivity") if key in table]
    table.only(
        ["susceptible", "infected", "transmission_rate", "profile", "susceptibility", "infectivity"]
    )
    ends = table.text("susceptible"), table.text("infected")
    rates = _numbers(table, "transmission_rate")
    profile = Each(calendar)(table, "profile") if "profile" in table else {}
    given: dict[str, Any] = {
        key: by_attribute(table, key, Table.number) or table.text(key) for key in factors
    }
    with table.explaining():
        return Infection(*ends, rates, profile, **given)


def _progression(table: Table) -> Progression:
    table.only(["compartment", "to", "holding_time", "exit_rate", "exit_to"])
    to = by_attribute(table, "to", _branches) or _branches(table, "to")
    stay = by_attribute(table, "holding_time", holding_time) or holding_time(table, "holding_time")
    compartment = table.text("compartment")
    exits: dict[str, Any] = {}
    if "exit_rate" in table:
        exits["exit_rate"] = by_attribute(table, "exit_rate", Table.number) or table.number(
            "exit_rate"
        )
    if "exit_to" in table:
        exits["exit_to"] = _branches(table, "exit_to")
    with table.explaining():
        return Progression(compartment, to, stay, **exits)


def _branches(table: Table, key: str) -> Any:
    """A compartment, or the probability of each."""
    if isinstance(table.values.get(key), Mapping):
        return _numbers(table, key)
    return table.text(key)


def by_attribute(table: Table, key: str, entry: Callable[[Table, str], Any]) -> ByAttribute | None:
    """What a key has for each value of a node attribute; None if it does not differ between nodes.

    `entry` reads what holds for one value.
    """
    described = table.values.get(key)
    if not (isinstance(described, Mapping) and isinstance(described.get("attribute"), str)):
        return None
    by = table.table(key)
    by.only(["attribute", "values", "groups"])
    in_groups = isinstance(by.values.get("values"), list)
    values = by.numbered("values") if in_groups else by.table("values")
    entries = {_value(name): entry(values, name) for name in values.values}
    groups = by.numbers("groups") if "groups" in by else None
    with by.explaining():
        given: Any = list(entries.values()) if in_groups else entries
        return ByAttribute(by.text("attribute"), given, groups)


def _value(key: str) -> Any:
    """A value of an attribute; keys of a run file are text."""
    if key in ("true", "false"):
        return key == "true"
    try:
        return float(key)
    except ValueError:
        return key


_numbers = Each(Table.number)


def _texts(table: Table, key: str) -> list[str]:
    texts = table.items(key)
    if not all(isinstance(text, str) for text in texts):
        raise table.error(f"{table.place} {key} is {texts!r}; expected a list of texts")
    return texts
