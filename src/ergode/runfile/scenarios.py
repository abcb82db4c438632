"""Tables of a run file for interventions, importations and calendars of an epidemic."""

from __future__ import annotations

from datetime import date
from typing import Any

from ergode.models.epidemic import interventions
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.interventions import Importation, Intervention, Trigger
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination
from ergode.models.holding_times.families import HoldingTime
from ergode.runfile.models import by_attribute, calendar, holding_time
from ergode.runfile.tables import Table

MEASURES = {
    "layer-closure": interventions.LayerClosure,
    "vaccination": Vaccination,
    "isolation": interventions.Isolation,
    "contact-tracing": interventions.ContactTracing,
    "testing": Testing,
    "capacity": interventions.Capacity,
}


def interventions_of(top: Table) -> list[Intervention]:
    """The measures of a file."""
    return [_measure(one) for one in top.tables("interventions")]


def importations_of(top: Table) -> list[Importation]:
    """The importations of a file."""
    return [_importation(one) for one in top.tables("importations")]


def layer_factors_of(top: Table) -> dict[str, Calendar]:
    """The calendars of layers of a file."""
    factors = top.table("layer_factors")
    return {name: calendar(factors.table(name)) for name in factors.values}


def _measure(table: Table) -> Intervention:
    make = MEASURES[table.choice("kind", MEASURES)]
    measure = table.call(make, also=["kind"], special=SPECIAL)
    assert isinstance(measure, Intervention)
    return measure


def _reductions(table: Table, key: str) -> dict[str, float | list[float]]:
    described = table.table(key)
    return {name: described.one_or_more(name) for name in described.values}


def number_or_layers(table: Table, key: str) -> float | dict[str, float]:
    """A number, or one for each layer."""
    if not isinstance(table.values[key], dict):
        return table.number(key)
    described = table.table(key)
    return {name: described.number(name) for name in described.values}


def number_or_calendar(table: Table, key: str) -> float | Calendar:
    """A number, or the changes and factors of a calendar."""
    return calendar(table.table(key)) if isinstance(table.values[key], dict) else table.number(key)


def text_or_by_attribute(table: Table, key: str) -> str | ByAttribute:
    """The name of an attribute, or a number for each of its values."""
    return by_attribute(table, key, Table.number) or table.text(key)


def _waning(table: Table, key: str) -> Any:
    """A distribution, or the changes and factors of a calendar."""
    if "distribution" in table.table(key):
        return holding_time(table, key)
    return calendar(table.table(key))


def number_or_stay(table: Table, key: str) -> float | HoldingTime:
    """A time, or a distribution of times."""
    described = isinstance(table.values[key], dict)
    return holding_time(table, key) if described else table.number(key)


def _start(table: Table, key: str) -> float | date | Trigger:
    """A time, a date, or a table that describes a trigger."""
    if not isinstance(table.values[key], dict):
        return table.moment(key)
    described = table.table(key)
    described.only(["count", "level", "delay", "below", "window", "fraction", "among"])
    count: Any = described.values.get("count")
    if not isinstance(count, list):
        count = described.text("count")
    with described.explaining():
        return Trigger(
            count, None if "fraction" in described else described.integer("level"),
            described.number("delay", 0.0), described.boolean("below", False),
            **{key: described.number(key) for key in ("window", "fraction") if key in described},
            among=described.values.get("among"),
        )  # fmt: skip


# The first of these words that occurs in an annotation decides.
SPECIAL = {
    "Trigger": _start,
    "float | Mapping": number_or_layers,
    "Mapping": _reductions,
    "float | Exponential": number_or_stay,
    "Exponential": _waning,
    "Calendar": number_or_calendar,
    "ByAttribute": text_or_by_attribute,
    "float | Sequence": Table.one_or_more,
}


def _importation(table: Table) -> Importation:
    table.only(["compartment", "rate", "times", "start", "stop"])
    rate = table.number("rate") if "rate" in table else None
    bounds = {key: table.moment(key) for key in ("start", "stop") if key in table}
    times = table.moments("times") if "times" in table else None
    with table.explaining():
        return Importation(table.text("compartment"), rate, times, **bounds)


TABLES = {
    "interventions": interventions_of,
    "importations": importations_of,
    "layer_factors": layer_factors_of,
}
"""Arguments of `ergode.epidemics.simulate` that have tables of their own, and their readers."""
