"""Write reaction networks as SBML Level 3.

SBML cannot represent the form in which a law was given, the mass number of a nucleus, that the
amount of a species is a real number where those of others are not, or a name that is not a valid
id.  These go into annotations, which `read_sbml` reads and other programs ignore.  Reading the file
therefore returns a network equal to the one that was written.
"""

from __future__ import annotations

import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ergode.core import files
from ergode.core.errors import ModelError
from ergode.models.expressions import TIME, Expression
from ergode.models.reactions.events import Event
from ergode.models.reactions.mass_action import law_of, recognise
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.readers import mathml
from ergode.readers.sbml_document import ANNOTATION

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIES = {
    "name", "initial", "compartment", "quantity", "boundary", "constant", "mass_number",
    "charge_number", "label",
}  # fmt: skip


def write_sbml(
    network: ReactionNetwork, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a reaction network to a file of SBML Level 3.

    `read_sbml` returns the same network, with the same digest. Mass action is written as a formula
    with the factors n (n - 1) / 2 of equal molecules, so that every program simulates the same
    propensities.

    Parameters
    ----------
    network : ReactionNetwork
    path : path
        The file appears under this name only when it is complete.
    overwrite : bool
        Replace any existing file of this name; a folder is never replaced.

    Returns
    -------
    Path
        The path of the written file.

    Raises
    ------
    PlanError
        The name is taken, or the folder does not exist.
    WriteError
        The file could not be written, for example because the disk is full.
    ModelError
        SBML cannot represent part of the network: rate constants that depend on temperature,
        reactions with a delay, reactions that change a species with a rate rule, events that draw
        or round, non-ASCII names in formulas. No file is written then.

    Examples
    --------
    >>> import ergode, pathlib, tempfile
    >>> network = ergode.ReactionNetwork(
    ...     {"P": 100, "P2": 0}, [ergode.Reaction("2 P -> P2", stochastic_rate_constant=0.001)]
    ... )
    >>> path = pathlib.Path(tempfile.mkdtemp(), "dimerisation.xml")
    >>> _ = ergode.write_sbml(network, path)
    >>> ergode.read_sbml(path).digest == network.digest
    True
    """
    text = _Writer(network).text()
    with files.new_file(path, overwrite=overwrite) as partial:
        partial.write_text(text, "utf-8")
    return Path(path)


class _Writer:
    def __init__(self, network: ReactionNetwork) -> None:
        self.network = network
        self.newer = False
        self.fixed = {*network.parameters, *(place.name for place in network.compartments)}
        self.taken = {TIME, *self.fixed, *network.rules}
        for kind, names in (
            ("parameter", network.parameters),
            ("rule", network.rules),
            ("compartment", (place.name for place in network.compartments)),
        ):
            for name in names:
                if not _ID.fullmatch(name):
                    raise ModelError(
                        f"the name of {kind} '{name}' cannot be an id of SBML, which has letters "
                        "a to z, digits and underscores"
                    )
        plain = [one.name for one in network.species if _ID.fullmatch(one.name)]
        self.ids = {name: self.id_of(name) for name in plain}
        self.ids |= {
            one.name: self.id_of(one.name) for one in network.species if one.name not in self.ids
        }
        table = network.reactions
        members = {*table.reactant_species.tolist(), *table.product_species.tolist()}
        self.reacting = {network.species[i].name for i in members}
        self.implied = self.id_of("volume")
        real = (*network.rate_rules, *network.continuous)
        self.real = {self.ids.get(name, name) for name in real}
        self.moving = {name for event in network.events for name in event.assignments}
        self.moving |= {*network.rate_rules, *network.following}
        # The species by id, because formulas use ids.
        self.species = {
            self.ids[one.name]: replace(one, name=self.ids[one.name]) for one in network.species
        }

    def id_of(self, name: str) -> str:
        """A unique id; the name itself if possible."""
        made = name if _ID.fullmatch(name) else re.sub(r"[^A-Za-z0-9_]", "_", f"_{name}")
        while made in self.taken:
            made += "_"
        self.taken.add(made)
        return made

    def text(self) -> str:
        model = _with(Element("model"), name=self.network.name)
        self.compartments(model)
        self.list(model, "Species", self.network.species, self.one_species)
        self.parameters(model)
        self.initial_assignments(model)
        followed = {name: self.network.parameters[name] for name in self.network.following}
        rules = [("assignmentRule", *one) for one in {**followed, **self.network.rules}.items()]
        rules += [
            ("rateRule", self.ids.get(name, name), rule)
            for name, rule in self.network.rate_rules.items()
        ]
        self.list(model, "Rules", rules, self.rule)
        self.list(model, "Reactions", self.network.reactions, self.reaction)
        self.list(model, "Events", self.network.events, self.event)
        version = "2" if self.newer else "1"
        root = Element(
            "sbml", xmlns=f"http://www.sbml.org/sbml/level3/version{version}/core",
            level="3", version=version,
        )  # fmt: skip
        root.append(model)
        if self.newer:  # this version has no attribute for fast reactions
            for one in model.iter("reaction"):
                del one.attrib["fast"]
        ElementTree.indent(root)
        body = ElementTree.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'

    def list(self, parent: Element, kind: str, items: Any, write: Any) -> None:
        """Write a list of elements, if there are any."""
        element = Element(f"listOf{kind}")
        for item in items:
            write(element, item)
        if len(element):
            parent.append(element)

    def math(self, parent: Element, value: float | Expression, *, condition: bool = False) -> None:
        """Write a formula or number into an element."""
        expression = value if isinstance(value, Expression) else Expression(repr(float(value)))
        self.check(expression)
        self.newer |= mathml.needs_newer(expression)
        mathml.write(parent, expression, condition=condition)

    def check(self, value: Any) -> None:
        """Refuse a formula with a species whose id in the document differs from its name."""
        for name in value.names if isinstance(value, Expression) else ():
            if self.ids.get(name, name) != name:
                raise ModelError(
                    f"formula '{value.text}' uses the species '{name}', which cannot be an id of "
                    "SBML: those have letters a to z, digits and underscores"
                )

    # ---- elements

    def compartments(self, model: Element) -> None:
        element = Element("listOfCompartments")
        for place in self.network.compartments:
            one = SubElement(
                element, "compartment", id=place.name, spatialDimensions="3",
                constant=_truth(place.name not in self.moving),
            )  # fmt: skip
            if not isinstance(place.size, Expression):
                one.set("size", repr(place.size))
        if any(one.compartment is None for one in self.network.species):
            one = SubElement(
                element, "compartment", id=self.implied, spatialDimensions="3", size="1",
                constant="true",
            )  # fmt: skip
            _note(one, implied="true")
        if len(element):
            model.append(element)

    def one_species(self, parent: Element, member: Species) -> None:
        for item in fields(member):
            if item.name not in _SPECIES and getattr(member, item.name) != item.default:
                raise ModelError(f"SBML cannot express {item.name} of species '{member.name}'")
        one = _with(SubElement(parent, "species", id=self.ids[member.name]), name=member.label)
        one.set("compartment", member.compartment or self.implied)
        if not isinstance(member.initial, Expression):
            concentration = member.quantity == "concentration"
            one.set(
                "initialConcentration" if concentration else "initialAmount", repr(member.initial)
            )
        one.set("hasOnlySubstanceUnits", _truth(member.quantity == "amount"))
        # A constant species, and one with a rate rule, may take part in reactions only as a
        # boundary species.
        ruled = member.name in self.network.rate_rules
        if ruled and not (member.boundary or member.constant) and self.is_changed(member.name):
            raise ModelError(
                f"reactions change the species '{member.name}', which has a rate rule, too; SBML "
                "cannot express that"
            )
        held = member.boundary or ((member.constant or ruled) and member.name in self.reacting)
        one.set("boundaryCondition", _truth(held))
        one.set("constant", _truth(member.constant))
        _note(
            one,
            name=None if self.ids[member.name] == member.name else member.name,
            boundary="false" if held != member.boundary else None,
            mass_number=member.mass_number,
            charge_number=member.charge_number,
            continuous="true" if member.name in self.network.continuous else None,
        )

    def is_changed(self, name: str) -> bool:
        """Whether a reaction changes the amount of a species."""
        return bool(self.network.stoichiometry[self.network.index[name]].nnz)

    def parameters(self, model: Element) -> None:
        element = Element("listOfParameters")
        for name, value in self.network.parameters.items():
            one = SubElement(element, "parameter", id=name)
            if not isinstance(value, Expression):
                one.set("value", repr(value))
            one.set("constant", _truth(name not in self.moving))
            _note(one, formula="true" if name in self.network.following else None)
        for name in self.network.rules:
            SubElement(element, "parameter", id=name, constant="false")
        if len(element):
            model.append(element)

    def initial_assignments(self, model: Element) -> None:
        network = self.network
        values = [(place.name, place.size) for place in network.compartments]
        values += [(self.ids[one.name], one.initial) for one in network.species]
        values += network.parameters.items()
        element = Element("listOfInitialAssignments")
        for name, value in values:
            if isinstance(value, Expression) and name not in network.following:
                self.math(SubElement(element, "initialAssignment", symbol=name), value)
        if len(element):
            model.append(element)

    def rule(self, parent: Element, item: tuple[str, str, Any]) -> None:
        kind, variable, formula = item
        self.math(SubElement(parent, kind, variable=variable), formula)

    def reaction(self, parent: Element, given: Reaction) -> None:
        name = str(given.name)
        if given.delay is not None:
            raise ModelError(f"SBML cannot express the delay of reaction '{name}'")
        left, right = (
            {self.ids[one]: count for one, count in side.items()}
            for side in (given.reactants, given.products)
        )
        word = given.law.argument
        value: Any = given.value
        self.check(value)
        given_by_id = Reaction(left, right, name=name, **{word: value})
        law = law_of(given_by_id, self.species, self.real)
        own = self.id_of(name)
        element = SubElement(parent, "reaction", id=own, reversible="false", fast="false")
        # Write a note only if a reader would otherwise not recover the form of the law.
        found = recognise(law, left, right, self.species, self.fixed, continuous=self.real)
        told = found != {word: value}
        constant = value.text if isinstance(value, Expression) else repr(value)
        _note(
            element,
            name=None if own == name else name,
            law=word if told else None,
            constant=constant if told and word != "rate" else None,
        )
        for kind, side in (("Reactants", left), ("Products", right)):
            self.list(element, kind, side.items(), _reference)
        others = sorted(law.names & set(self.species) - set(left) - set(right))
        self.list(element, "Modifiers", others, _modifier)
        self.math(SubElement(element, "kineticLaw"), law)

    def event(self, parent: Element, event: Event) -> None:
        drawn = any(isinstance(v, Expression) and v.draws for v in event.assignments.values())
        if drawn or event.rounding or event.at_begin:
            what = "rounds" if event.rounding else "is at the begin"
            what = "draws random numbers" if drawn else what
            raise ModelError(
                f"event '{event.name or event.trigger.text}' {what}; SBML cannot express that"
            )
        own = None if event.name is None else self.id_of(event.name)
        element = _with(SubElement(parent, "event"), id=own)
        element.set("useValuesFromTriggerTime", _truth(event.values_from_trigger))
        _note(element, name=None if own == event.name else event.name)
        trigger = SubElement(
            element, "trigger", initialValue=_truth(event.initially_true),
            persistent=_truth(event.persistent),
        )  # fmt: skip
        self.math(trigger, event.trigger, condition=True)
        if event.delay != 0.0:
            self.math(SubElement(element, "delay"), event.delay)
        if event.priority is not None:
            self.math(SubElement(element, "priority"), event.priority)
        self.list(element, "EventAssignments", event.assignments.items(), self.assignment)

    def assignment(self, parent: Element, item: tuple[str, float | Expression]) -> None:
        name, value = item
        variable = self.ids.get(name, name)
        self.math(SubElement(parent, "eventAssignment", variable=variable), value)


def _reference(parent: Element, item: tuple[str, float]) -> None:
    name, count = item
    SubElement(parent, "speciesReference", species=name, stoichiometry=repr(count), constant="true")


def _modifier(parent: Element, name: str) -> None:
    SubElement(parent, "modifierSpeciesReference", species=name)


def _note(element: Element, **notes: Any) -> None:
    """Attach notes that SBML itself cannot express, as the first child of an element."""
    attributes = {name: str(value) for name, value in notes.items() if value is not None}
    if attributes:
        annotation = Element("annotation")
        SubElement(annotation, "ergode:network", {"xmlns:ergode": ANNOTATION} | attributes)
        element.insert(0, annotation)


def _with(element: Element, **attributes: str | None) -> Element:
    """Set the attributes that have a value."""
    for name, value in attributes.items():
        if value is not None:
            element.set(name, value)
    return element


def _truth(value: bool) -> str:
    return "true" if value else "false"
