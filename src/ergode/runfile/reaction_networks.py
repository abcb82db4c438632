"""Tables of a run file that describe a reaction network."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.runfile.models import holding_time
from ergode.runfile.tables import Table

_READERS = {
    ".xml": ("sbml", "read_sbml"),
    ".sbml": ("sbml", "read_sbml"),
    ".ant": ("antimony", "read_antimony"),
    ".bngl": ("bionetgen", "read_bionetgen"),
    ".net": ("bionetgen", "read_bionetgen"),
    ".yaml": ("cantera", "read_cantera"),
    ".def": ("kpp", "read_kpp"),
    ".kpp": ("kpp", "read_kpp"),
    ".eqn": ("kpp", "read_kpp"),
}


def reaction_network(table: Table) -> ReactionNetwork:
    """The network of a table: from a file, files of nuclei and rates, nuclei, or reactions."""
    if "nuclei" in table:
        from ergode.readers.reaclib import read_reaclib

        table.only(["nuclei"])
        names = table.values["nuclei"]
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise table.error(f"{table.place} nuclei is {names!r}; expected a list of names")
        with table.explaining():
            return read_reaclib(names)
    if "rates" in table:
        from ergode.readers.fern import read_fern

        table.only(["file", "rates"])
        with table.explaining():
            return read_fern(table.path("file"), table.path("rates"))
    return _from_file(table) if "file" in table else _from_reactions(table)


def _from_file(table: Table) -> ReactionNetwork:
    path = table.path("file")
    kpp = _READERS.get(path.suffix, ("",))[0] == "kpp"
    table.only(["file", "parameters"] if kpp else ["file"])
    if path.suffix not in _READERS:
        raise table.error(
            f"{table.place} file is '{path.name}'; expected a name that ends in "
            f"{', '.join(_READERS)}, or a second file, 'rates'"
        )
    module, name = _READERS[path.suffix]
    with table.explaining():
        reader: Callable[..., ReactionNetwork] = getattr(
            import_module(f"ergode.readers.{module}"), name
        )
        return (
            reader(path, parameters=table.table("parameters", {}).values) if kpp else reader(path)
        )


def _from_reactions(table: Table) -> ReactionNetwork:
    table.only(["species", "parameters", "reactions", "rules", "rate_rules", "continuous"])
    reactions = []
    for entry in table.tables("reactions"):
        rates = ("rate_constant", "stochastic_rate_constant", "rate", "name")
        entry.only(["reaction", *rates, "delay", "consuming"])
        given = {key: entry.values[key] for key in (*rates, "delay", "consuming") if key in entry}
        if isinstance(given.get("delay"), dict):
            given["delay"] = holding_time(entry, "delay")
        with entry.explaining():
            reactions.append(Reaction(entry.text("reaction"), **given))
    with table.explaining():
        return ReactionNetwork(
            table.table("species").values, reactions, table.table("parameters", {}).values,
            rules=table.table("rules", {}).values,
            rate_rules=table.table("rate_rules", {}).values,
            continuous=table.values.get("continuous", ()),
        )  # fmt: skip
