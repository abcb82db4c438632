"""A JSON schema of run files, for editors.

It is made from the records and signatures that `ergode.runfile.read` reads tables with, so the two
know the same keys. A schema sees keys, types and choices; what depends on several values, such as
whether a compartment exists, only `read` sees.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.readers.edges import read_contacts
from ergode.readers.meetings import read_meetings
from ergode.runfile import kinetics, models, networks, scenarios
from ergode.runfile.described import Described, Each, Either
from ergode.runfile.read import ENGINES, OUTPUT, TOP
from ergode.runfile.tables import Readers, Table, reader_of

Schema = dict[str, Any]

_NUMBER: Schema = {"type": "number"}
_NAMED: Schema = {"type": ["number", "string"]}  # or a parameter of a sweep, or a formula
_TEXT: Schema = {"type": "string"}
_OBJECT: Schema = {"type": "object"}
_LIST: Schema = {"type": "array"}
_SEVERAL: Schema = {"type": ["number", "array"], "items": _NUMBER}


def _closed(properties: Mapping[str, Schema], *required: str) -> Schema:
    """The schema of a table with these keys and no others."""
    return {
        "type": "object", "additionalProperties": False, "required": list(required),
        "properties": dict(properties),
    }  # fmt: skip


_GRID: Schema = {
    **_closed({"start": {}, "stop": {}, "step": _NUMBER, "count": {"type": "integer"}}, "stop"),
    "oneOf": [{"required": ["step"]}, {"required": ["count"]}],
}
_PART = _closed({"start": {"type": "integer"}, "stop": {"type": "integer"}}, "stop")
_SPACE = _closed(
    {
        "shape": {"type": "array", "items": {"type": "integer"}},
        "diffusion": _OBJECT,
        "spacing": _SEVERAL,
        "periodic": {"type": ["boolean", "array"], "items": {"type": "boolean"}},
    },
    "shape", "diffusion",
)  # fmt: skip
_HOLDING_TIME: Schema = {"$ref": "#/$defs/holding-time"}
_BY_READER: dict[Any, Schema] = {
    Table.number: _NUMBER,
    Table.integer: {"type": "integer"},
    Table.boolean: {"type": "boolean"},
    Table.text: _TEXT,
    Table.path: _TEXT,
    Table.items: _LIST,
    Table.numbers: {"type": "array", "items": _NUMBER},
    Table.one_or_more: _SEVERAL,
    Table.times: {"anyOf": [{"type": "array", "items": _NUMBER}, _GRID]},
    Table.times_or_dates: {"anyOf": [_LIST, _GRID]},
    Table.moment: _NAMED,  # a date is text for an editor
    Table.replicates: {"anyOf": [{"type": "integer"}, _PART]},
    Table.swept: _OBJECT,
    models.holding_time: _HOLDING_TIME,
    kinetics.rows: {"type": "array", "items": {"type": ["number", "array"], "items": _NUMBER}},
    kinetics.flows: {"type": "array", "items": {"type": "array", "minItems": 3, "maxItems": 3}},
    kinetics.criterion: {"type": ["string", "number"]},
    scenarios.text_or_by_attribute: {"type": ["string", "object"]},
}


def schema() -> Schema:
    """The JSON schema (draft 2020-12) of run files of all engines.

    Examples
    --------
    >>> from ergode.runfile.schema import schema
    >>> schema()["properties"]["engine"]["enum"][:2]
    ['density', 'epidemics']
    """
    families = dict(models.DISTRIBUTIONS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Run file of ergode",
        "type": "object",
        "required": ["engine"],
        "properties": {"engine": {"enum": list(ENGINES)}},
        "allOf": [_engine(name) for name in ENGINES],
        "$defs": {"holding-time": _choice("distribution", families, number=_NAMED)},
    }


def _engine(name: str) -> Schema:
    """What holds for the files of one engine."""
    module = import_module(ENGINES[name])
    tables: dict[str, Schema] = {
        **{key: {"type": ["object", "array"]} for key in module.TABLES},
        "output": _table({**OUTPUT, "figure": networks.as_given}),
        "title": _TEXT,
        "engine": {},
        module.OPTIONS: _table(module.READERS, ["times"]),
    }
    if name == "epidemics":
        tables |= _of_epidemics()
    if name == "stochastic":
        tables["space"] = _SPACE
    if name == "kinetics":
        delays = _table(kinetics.OF_DELAYS, ["output", "temperature", "pressure"])
        tables[module.OPTIONS] = {
            "if": {"required": ["output"]}, "then": delays, "else": tables[module.OPTIONS],
        }  # fmt: skip
    required = [module.OPTIONS, *module.NEEDED]
    then = {"properties": tables, "required": required, "additionalProperties": False}
    assert set(tables) == {*TOP, *module.TABLES}
    return {"if": {"properties": {"engine": {"const": name}}}, "then": then}


def _of_epidemics() -> dict[str, Schema]:
    kinds = {kind: getattr(CompartmentModel, kind) for kind in models.KINDS}
    standard = _choice("kind", kinds, number=_NAMED)
    spelled = _closed({key: {} for key in models.SPELLED_OUT}, "compartments", "infections")
    makers = {
        **{name: getattr(ContactNetwork, of) for name, of in networks.GENERATORS.items()},
        **{name: getattr(ComputedNetwork, of) for name, of in networks.COMPUTED.items()},
    }
    layers = _closed({"layers": _OBJECT}, "layers")
    contacts = {
        "if": {"required": ["generator"]},
        "then": _choice("generator", makers, number=_NAMED),
        "else": {
            "anyOf": [
                _call(read_contacts, {"file": _TEXT}, given=1, number=_NAMED),
                _call(read_meetings, {"meetings": _TEXT}, given=1, number=_NAMED),
                layers,
            ]
        },
    }
    return {
        "model": {"if": {"required": ["kind"]}, "then": standard, "else": spelled},
        "contacts": contacts,
        "interventions": {
            "type": "array",
            "items": _choice("kind", dict(scenarios.MEASURES), number=_NAMED),
        },
        "importations": _LIST,
        "layer_factors": _OBJECT,
        "parameters": _OBJECT,
    }


def _table(readers: Readers, required: Iterable[str] = ()) -> Schema:
    """The schema of a table whose keys have these readers."""
    return _closed({key: _value(read) for key, read in readers.items()}, *required)


def _value(read: Any) -> Schema:
    if isinstance(read, partial) and read.func is Table.choice:
        return {"enum": list(read.keywords["choices"])}
    if isinstance(read, Described):
        return _table(read.readers, read.needed)
    if isinstance(read, Each):
        return {"type": "object", "additionalProperties": _value(read.reader)}
    if isinstance(read, Either):
        return {"anyOf": [_value(read.second), _value(read.first)]}
    return _BY_READER.get(read, {})


def _or_named(found: Schema) -> Schema:
    """The schema of numbers, also inside, with names of parameters in their place."""
    changed = {
        name: {key: _or_named(one) for key, one in part.items()} if name == "properties"
        else [_or_named(one) for one in part] if name == "anyOf"
        else _or_named(part) if name in ("items", "additionalProperties") and part else part
        for name, part in found.items()
    }  # fmt: skip
    types = found.get("type", [])
    types = [types] if isinstance(types, str) else types
    if {"number", "integer"} & set(types) and "string" not in types:
        changed["type"] = [*types, "string"]
    return changed


def _call(
    function: Callable[..., Any], also: Mapping[str, Schema], given: int = 0,
    number: Schema = _NUMBER,
) -> Schema:  # fmt: skip
    """The schema of a table of the arguments of a function, as `Table.call` reads it."""
    parameters = list(inspect.signature(function).parameters.values())[given:]
    properties: dict[str, Schema] = dict(also)
    for one in parameters:
        found = _value(reader_of(str(one.annotation), _SPECIAL))
        properties[one.name] = _or_named(found) if number is _NAMED else found
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    return _closed(properties, *also, *needed)


_SPECIAL: Readers = {
    **scenarios.SPECIAL,
    "Mapping": networks.as_given,
    "HoldingTime": models.holding_time,
}


def _choice(key: str, makers: Mapping[str, Callable[..., Any]], number: Schema = _NUMBER) -> Schema:
    """The schema of a table in which one key says whose arguments the others are."""
    cases = [
        {
            "if": {"properties": {key: {"const": name}}},
            "then": _call(make, {key: {"const": name}}, number=number),
        }
        for name, make in makers.items()
    ]
    head = {"required": [key], "properties": {key: {"enum": list(makers)}}}
    return {"type": "object", **head, "allOf": cases}
