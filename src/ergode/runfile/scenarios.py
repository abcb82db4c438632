"""Tables of a run file for interventions, importations and calendars of an epidemic."""

from __future__ import annotations

from typing import Any

from ergode.models.epidemic import interventions
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.importations import Importation
from ergode.models.epidemic.interventions import Intervention, Trigger
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination
from ergode.runfile.described import Described, Each, Either
from ergode.runfile.models import by_attribute, calendar, holding_time
from ergode.runfile.tables import Readers, Table

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
    return [_IMPORTATION.read(one) for one in top.tables("importations")]


def layer_factors_of(top: Table) -> dict[str, Calendar]:
    """The calendars of layers of a file."""
    return Each(calendar)(top, "layer_factors")


def _measure(table: Table) -> Intervention:
    make = MEASURES[table.choice("kind", MEASURES)]
    measure = table.call(make, also=["kind"], special=SPECIAL)
    assert isinstance(measure, Intervention)
    return measure


def text_or_by_attribute(table: Table, key: str) -> str | ByAttribute:
    """The name of an attribute, or a number for each of its values."""
    return by_attribute(table, key, Table.number) or table.text(key)


def _trigger(table: Table, key: str) -> Trigger:
    """A table that describes a trigger."""
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
SPECIAL: Readers = {
    "Trigger": Either(_trigger, Table.moment),
    "float | Mapping": Either(Each(Table.number), Table.number),
    "Mapping": Each(Table.one_or_more),
    "float | Exponential": Either(holding_time, Table.number),
    "Exponential": Either(holding_time, calendar, "distribution"),
    "Calendar": Either(calendar, Table.number),
    "ByAttribute": text_or_by_attribute,
    "float | Sequence": Table.one_or_more,
}


_IMPORTATION = Described(
    Importation,
    {
        "compartment": Table.text, "rate": Table.number, "times": Table.moments,
        "start": Table.moment, "stop": Table.moment,
    },
)  # fmt: skip

TABLES = {
    "interventions": interventions_of,
    "importations": importations_of,
    "layer_factors": layer_factors_of,
}
"""Arguments of `ergode.epidemics.simulate` that have tables of their own, and their readers."""
