"""Reaction networks from SBML, the format in which systems biologists exchange them.

What a document says and a `ReactionNetwork` cannot carry is refused, by element, id and line;
nothing that bears on the dynamics is passed over.

References
----------
M. Hucka et al., The Systems Biology Markup Language (SBML): Language Specification for Level 3
Version 2 Core, J. Integr. Bioinform. 16, 20190021 (2019).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ergode.core.errors import ModelError, ReadError
from ergode.models.events import Event
from ergode.models.expressions import RESERVED, TIME, Expression
from ergode.models.mass_action import both_ways, law_of, recognise
from ergode.models.reaction_network import ReactionNetwork
from ergode.models.reactions import Reaction
from ergode.models.species import Compartment, Quantity, Species
from ergode.readers.mathml import MathReader

ANNOTATION = "urn:ergode:reaction-network"
"""Namespace of what `write_sbml` notes beside what SBML can say."""

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_PACKAGES = ("l3v2extendedmath",)
_UNITS = ("item", "dimensionless", "mole")


def read_sbml(path: str | os.PathLike[str], *, split_reversible: bool = True) -> ReactionNetwork:
    """Read a reaction network from SBML, of any level.

    A species means its amount in formulas if the document gives it ``hasOnlySubstanceUnits``,
    and its concentration otherwise. A kinetic law becomes mass action where it is that exactly:
    ``k * P * (P - 1) / 2`` for two ``P`` is Gillespie's c = k, while ``k * P * P`` remains the
    formula it is. Calls of defined functions are written out, local parameters become
    parameters of the network with the id of their reaction before their own, assignment rules
    become rules, and initial assignments become formulas of parameters.

    Parameters
    ----------
    path : str or path
        A file, or the text of a document itself.
    split_reversible : bool
        Whether a reaction that is marked reversible, and whose law is a difference such as
        ``kf * A - kr * B``, becomes two, with ``_forward`` and ``_reverse`` after its id. As one
        it would have a negative propensity; the rate of change of all is the same.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ReadError
        The file is not there, is not valid SBML, or has an element that a network cannot carry:
        algebraic and rate rules, constraints, fast reactions, delayed or undefined values,
        compartments and stoichiometries that change, conversion factors, packages that change the
        meaning. The message names the element and the line.

    Notes
    -----
    Numbers are taken as they are written, in the units of the document. Amounts may be items,
    dimensionless or moles, of any scale, but all alike; `ergode.stochastic` takes them as numbers
    of molecules.

    Examples
    --------
    >>> import ergode
    >>> text = '''
    ... <sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
    ... <model>
    ...   <listOfCompartments><compartment id="cell" size="2" constant="true"/></listOfCompartments>
    ...   <listOfSpecies>
    ...     <species id="X" compartment="cell" initialAmount="100" constant="false"
    ...              hasOnlySubstanceUnits="true" boundaryCondition="false"/>
    ...   </listOfSpecies>
    ...   <listOfReactions>
    ...     <reaction id="death" reversible="false" fast="false">
    ...       <listOfReactants>
    ...         <speciesReference species="X" stoichiometry="1" constant="true"/>
    ...       </listOfReactants>
    ...       <kineticLaw>
    ...         <math xmlns="http://www.w3.org/1998/Math/MathML">
    ...           <apply><times/><cn>0.5</cn><ci>X</ci></apply>
    ...         </math>
    ...       </kineticLaw>
    ...     </reaction>
    ...   </listOfReactions>
    ... </model>
    ... </sbml>'''
    >>> print(ergode.read_sbml(text).propensities())
    death  X -> 0  0.5 * X
    """
    if isinstance(path, str) and path.lstrip().startswith("<"):
        return read_document(path, "SBML text", split_reversible=split_reversible)
    file = Path(path)
    if not file.is_file():
        raise ReadError(f"{file}: there is no such file")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"{file}: cannot be read as text: {error}") from None
    return read_document(text, str(file), split_reversible=split_reversible)


def read_document(
    text: str,
    source: str,
    *,
    split_reversible: bool = True,
    lines: bool = True,
    implied: str | None = None,
) -> ReactionNetwork:
    """The network of an SBML document.

    Parameters
    ----------
    text : str
    source : str
        What error messages begin with.
    split_reversible : bool
    lines : bool
        Whether they name lines, too.
    implied : str, optional
        A compartment that its author did not write: left out, if of size one and in no formula.
    """
    return _Reader(text, source, lines).network(implied, split_reversible)


def _libsbml(source: str) -> Any:
    try:
        import libsbml
    except ImportError:
        raise ReadError(
            f"{source}: reading SBML needs python-libsbml (pip install python-libsbml)"
        ) from None
    return libsbml


class _Reader:
    """One document on its way to be a network."""

    def __init__(self, text: str, source: str, lines: bool) -> None:
        self.source = source
        self.lines = lines
        self.libsbml = _libsbml(source)
        if not text.lstrip().startswith("<?xml"):
            text = _DECLARATION + text  # libsbml would add a line of its own, and count it
        self.document = self.libsbml.readSBMLFromString(text)
        self._check_document()
        self.model = self.document.getModel()
        self._refuse_what_cannot_be()
        self.math = MathReader(
            self.libsbml,
            {one.getId(): one.getMath() for one in self.model.getListOfFunctionDefinitions()},
        )
        self.used: set[str] = set()  # every name in a formula
        self.stoichiometries: dict[str, float] = {}
        self.locals: dict[str, float] = {}
        self.start = {
            one.getSymbol(): self._formula(one, one)
            for one in self.model.getListOfInitialAssignments()
        }
        self.rules = {
            one.getVariable(): self._formula(one, one) for one in self.model.getListOfRules()
        }
        self.sides = {
            one.getId(): (
                self._side(one, one.getListOfReactants()),
                self._side(one, one.getListOfProducts()),
            )
            for one in self.model.getListOfReactions()
        }
        self.laws = {one.getId(): self._law(one) for one in self.model.getListOfReactions()}

    # ---- what is wrong, and where

    def _refusal(self, element: Any, why: str) -> ReadError:
        return ReadError(f"{self.source}: {self._line(element)}{_called(element)}: {why}")

    def _line(self, element: Any) -> str:
        return f"line {element.getLine()}: " if self.lines and element.getLine() else ""

    @contextmanager
    def _within(self, element: Any) -> Iterator[None]:
        """Errors of the model, said of an element."""
        try:
            yield
        except ModelError as error:
            raise self._refusal(element, str(error)) from None

    def _check_document(self) -> None:
        document, libsbml = self.document, self.libsbml
        self._check_packages()
        self._raise_first_error()
        if document.getModel() is None:
            raise ReadError(f"{self.source}: there is no model in it")
        if document.getLevel() < 3 and not document.setLevelAndVersion(3, 1, False):
            self._raise_first_error()
            raise ReadError(f"{self.source}: cannot be converted to SBML Level 3")
        for category in (
            libsbml.LIBSBML_CAT_UNITS_CONSISTENCY,
            libsbml.LIBSBML_CAT_MODELING_PRACTICE,
            libsbml.LIBSBML_CAT_SBO_CONSISTENCY,
        ):
            document.setConsistencyChecks(category, False)
        document.checkConsistency()
        self._raise_first_error()

    def _check_packages(self) -> None:
        """Packages may not change what the core means; of those unknown to it libsbml says so."""
        document = self.document
        if document.getLevel() < 3:
            return
        if document.getPlugin("comp") is not None:
            # A model of models is written out as one.
            flatten = self.libsbml.ConversionProperties()
            flatten.addOption("flatten comp", True)
            flatten.addOption("performValidation", False)
            if document.convert(flatten):
                self._raise_first_error()
                raise ReadError(f"{self.source}: its submodels cannot be made one model")
        known = [document.getPlugin(i).getPackageName() for i in range(document.getNumPlugins())]
        needed = [
            name for name in known if name not in _PACKAGES and document.getPackageRequired(name)
        ]
        if needed:
            raise ReadError(
                f"{self.source}: the document needs the SBML package '{needed[0]}', which ergode "
                "does not support"
            )

    def _raise_first_error(self) -> None:
        for i in range(self.document.getNumErrors()):
            error = self.document.getError(i)
            if error.getSeverity() >= self.libsbml.LIBSBML_SEV_ERROR:
                message = " ".join(error.getMessage().split())
                raise ReadError(f"{self.source}: {self._line(error)}{message}")

    def _refuse_what_cannot_be(self) -> None:
        model = self.model
        for one in (model, *model.getListOfSpecies()):
            if one.isSetConversionFactor():
                raise self._refusal(one, "its conversion factor is not supported")
        for one in model.getListOfConstraints():
            raise self._refusal(one, "constraints are not supported")
        for one in model.getListOfRules():
            if one.isAlgebraic():
                raise self._refusal(one, "algebraic rules are not supported")
            if one.isRate():
                raise self._refusal(
                    one,
                    "rate rules are not supported; what changes in time is changed by reactions",
                )
        for one in model.getListOfReactions():
            if one.isSetFast() and one.getFast():
                raise self._refusal(one, "fast reactions are not supported")
        for one in (
            *model.getListOfCompartments(), *model.getListOfSpecies(), *model.getListOfParameters(),
        ):  # fmt: skip
            if one.getId() in RESERVED or one.getId() == TIME:
                raise self._refusal(one, "its id is a word of ergode's formulas; give it another")
        self._check_units()

    def _check_units(self) -> None:
        """Amounts are in one unit, which counts things."""
        model = self.model
        first: tuple[Any, Any] | None = None
        for one in model.getListOfSpecies():
            name = one.getSubstanceUnits() or model.getSubstanceUnits()
            definition = model.getUnitDefinition(name)
            unit: Any = name
            kinds = [(name, 1.0)]
            if definition is not None:
                unit = [
                    (
                        self.libsbml.UnitKind_toString(part.getKind()),
                        part.getExponentAsDouble(), part.getScale(), part.getMultiplier(),
                    )
                    for part in definition.getListOfUnits()
                ]  # fmt: skip
                kinds = [part[:2] for part in unit]
            if name and any(kind not in _UNITS or power != 1 for kind, power in kinds):
                raise self._refusal(
                    one, f"its amount is in '{name}'; expected {', '.join(_UNITS)}, or none"
                )
            first = first or (one, unit)
            if unit != first[1]:
                raise self._refusal(
                    one, f"its amount is in another unit than that of {_called(first[0])}"
                )

    # ---- formulas

    def _formula(
        self, owner: Any, holder: Any, renamed: Mapping[str, str] | None = None
    ) -> Expression:
        """The formula that an element holds; errors are said of its owner."""
        if not holder.isSetMath():
            raise self._refusal(owner, "it has no formula")
        with self._within(owner):
            expression = self.math.expression(holder.getMath(), renamed)
        self.used |= expression.names
        return expression

    def _settled(self, expression: Expression) -> Expression:
        """A formula in which rates of reactions and stoichiometries are written out."""
        replaced: dict[str, Expression | float] = {}
        for name in expression.names:
            if name in self.stoichiometries:
                replaced[name] = self.stoichiometries[name]
            elif name in self.laws:
                replaced[name] = self._settled(self.laws[name])
        return expression.substitute(replaced)

    def _at_start(self, expression: Expression) -> float | Expression:
        """A formula as it is at time zero: of parameters and sizes of compartments alone."""
        replaced: dict[str, Expression | float] = {}
        expression = self._settled(expression)
        for name in expression.names:
            if name == TIME:
                replaced[name] = 0.0
            elif name in self.rules:
                replaced[name] = self._at_start(self.rules[name])
            elif (member := self.model.getSpecies(name)) is not None:
                replaced[name] = self._initial(member)
        expression = expression.substitute(replaced)
        return expression if expression.names else float(expression.evaluate({}))

    def _value(self, element: Any, number: float | None) -> float | Expression:
        """What an element begins with: its initial assignment, or the number it has."""
        name = element.getId()
        if name in self.start:
            with self._within(element):
                return self._at_start(self.start[name])
        if number is None:
            raise self._refusal(element, "it has no value; give it one")
        return number

    # ---- elements

    def _compartment(self, element: Any) -> Compartment:
        name = element.getId()
        if name in self.rules:
            raise self._refusal(element, "its size changes by a rule, which is not supported")
        size = element.getSize() if element.isSetSize() else None
        if size is None and name not in self.start:
            if name in self.used:
                raise self._refusal(element, "it has no size, and a formula uses it; give it one")
            size = 1.0
        with self._within(element):
            return Compartment(name, self._value(element, size))

    def _initial(self, element: Any) -> float | Expression:
        """What there is of a species at first, in the sense that its id has in formulas."""
        place = self.model.getCompartment(element.getCompartment())
        sized = place.isSetSize() or place.getId() in self.start
        amount = _is_amount(element, place)
        if not sized and (not amount or element.isSetInitialConcentration()):
            raise self._refusal(
                element,
                f"its concentration needs the size of {_called(place)}, which has none",
            )
        number: float | None = None
        if element.isSetInitialAmount():
            number = element.getInitialAmount()
        elif element.isSetInitialConcentration():
            number = element.getInitialConcentration()
        value = self._value(element, number)
        if not value or element.getId() in self.start or element.isSetInitialAmount() == amount:
            return value
        return Expression(f"{value!r} {'*' if amount else '/'} {place.getId()}")

    def _species(self, element: Any, implied: set[str]) -> Species:
        place = self.model.getCompartment(element.getCompartment())
        quantity: Quantity = "amount" if _is_amount(element, place) else "concentration"
        notes = _notes(element)
        with self._within(element):
            return Species(
                element.getId(),
                self._initial(element),
                None if place.getId() in implied else place.getId(),
                quantity,
                element.getBoundaryCondition() and notes.get("boundary") != "false",
                element.getConstant(),
                int(notes["mass_number"]) if "mass_number" in notes else None,
                int(notes["charge_number"]) if "charge_number" in notes else None,
                label=element.getName() or None,
            )

    def _side(self, reaction: Any, references: Any) -> dict[str, float]:
        side: dict[str, float] = {}
        for one in references:
            name, count = one.getSpecies(), one.getStoichiometry()
            label = one.getId()
            if label and label in self.rules:
                raise self._refusal(reaction, f"its stoichiometry '{label}' changes by a rule")
            if label and label in self.start:
                if self.start[label].names:
                    raise self._refusal(
                        reaction, f"its stoichiometry '{label}' is a formula; expected a number"
                    )
                count = float(self.start[label].evaluate({}))
            elif not one.isSetStoichiometry():
                raise self._refusal(reaction, f"its stoichiometry of '{name}' has no value")
            if not 0 <= count < float("inf"):
                raise self._refusal(
                    reaction, f"its stoichiometry of '{name}' is {count:g}; expected 0 or more"
                )
            if label:
                self.stoichiometries[label] = count
            # A species with a rule is held at its formula, whatever reactions say.
            if count and name not in self.rules:
                side[name] = side.get(name, 0.0) + count
        return side

    def _law(self, reaction: Any) -> Expression:
        law = reaction.getKineticLaw()
        if law is None:
            raise self._refusal(reaction, "it has no kinetic law")
        renamed = {}
        for one in law.getListOfLocalParameters():
            name = f"{reaction.getId()}_{one.getId()}"
            while self.model.getElementBySId(name) is not None or name in self.locals:
                name += "_"
            if not one.isSetValue():
                raise self._refusal(one, f"it has no value in {_called(reaction)}")
            renamed[one.getId()] = name
            self.locals[name] = one.getValue()
        return self._formula(reaction, law, renamed)

    def _reactions(
        self, element: Any, species: Mapping[str, Species], fixed: set[str], split: bool
    ) -> list[Reaction]:
        """The reaction of an element, or the two that it is when it goes both ways."""
        name = element.getId()
        left, right = self.sides[name]
        law = self._settled(self.laws[name])
        notes = _notes(element)
        named = notes.get("name", name)
        with self._within(element):
            word = notes.get("law")
            if word in ("rate_constant", "stochastic_rate_constant"):
                # Which of several equal ways it was written in, if it still is equal.
                noted: dict[str, Any] = {word: notes.get("constant", "")}
                if law_of(Reaction(left, right, **noted), species) == law:
                    return [Reaction(left, right, name=named, **noted)]
            if word == "rate":
                whole: Any = law if law.names else law.evaluate({})
                return [Reaction(left, right, name=named, rate=whole)]
            ways = both_ways(law, fixed) if split and element.getReversible() else None
            if ways is None:
                given = [(named, left, right, law)]
            else:
                given = [
                    (f"{named}_forward", left, right, ways[0]),
                    (f"{named}_reverse", right, left, ways[1]),
                ]
            return [
                Reaction(
                    taken,
                    made,
                    name=called,
                    **recognise(rate, taken, made, species, fixed),
                )
                for called, taken, made, rate in given
            ]

    def _event(self, element: Any) -> Event:
        if not element.isSetTrigger():
            raise self._refusal(element, "it has no trigger")
        trigger = element.getTrigger()
        assignments = {}
        for one in element.getListOfEventAssignments():
            name = one.getVariable()
            if self.model.getSpecies(name) is None and self.model.getParameter(name) is None:
                raise self._refusal(
                    element, f"it assigns to '{name}', which is neither species nor parameter"
                )
            assignments[name] = self._number(element, one)
        with self._within(element):
            return Event(
                self._settled(self._formula(element, trigger)),
                assignments,
                self._number(element, element.getDelay()) if element.isSetDelay() else 0.0,
                self._number(element, element.getPriority()) if element.isSetPriority() else None,
                persistent=not trigger.isSetPersistent() or trigger.getPersistent(),
                initially_true=not trigger.isSetInitialValue() or trigger.getInitialValue(),
                values_from_trigger=element.getUseValuesFromTriggerTime(),
                name=_notes(element).get("name", element.getId() or None),
            )

    def _number(self, owner: Any, holder: Any) -> float | Expression:
        expression = self._settled(self._formula(owner, holder))
        return expression if expression.names else float(expression.evaluate({}))

    def network(self, default: str | None, split: bool) -> ReactionNetwork:
        """The network that the document describes."""
        model = self.model
        events = [self._event(one) for one in model.getListOfEvents()]
        compartments = [self._compartment(one) for one in model.getListOfCompartments()]
        implied = {
            place.name
            for place, element in zip(compartments, model.getListOfCompartments(), strict=True)
            if (place.name == default or _notes(element).get("implied"))
            and place.size == 1
            and place.name not in self.used
        }
        compartments = [place for place in compartments if place.name not in implied]
        species = {
            one.getId(): self._species(one, implied)
            for one in model.getListOfSpecies()
            if one.getId() not in self.rules
        }
        parameters: dict[str, Any] = {
            one.getId(): self._value(one, one.getValue() if one.isSetValue() else None)
            for one in model.getListOfParameters()
            if one.getId() not in self.rules
        }
        parameters |= self.locals
        fixed = {*parameters, *(place.name for place in compartments)}
        reactions = [
            reaction
            for one in model.getListOfReactions()
            for reaction in self._reactions(one, species, fixed, split)
        ]
        rules: dict[str, Any] = {name: self._settled(rule) for name, rule in self.rules.items()}
        noted = {
            one.getId(): _notes(one).get("name", one.getId()) for one in model.getListOfSpecies()
        }
        try:
            return ReactionNetwork(
                [replace(one, name=noted[one.name]) for one in species.values()],
                [_renamed(one, noted) for one in reactions],
                parameters,
                compartments,
                rules,
                events,
                model.getName() or model.getId() or None,
            )
        except ModelError as error:
            raise ReadError(f"{self.source}: {error}") from None


def _renamed(reaction: Reaction, names: Mapping[str, str]) -> Reaction:
    """A reaction under the names of its species instead of their ids."""
    rate: dict[str, Any] = {reaction.law.argument: reaction.value}
    return Reaction(
        {names[one]: count for one, count in reaction.reactants.items()},
        {names[one]: count for one, count in reaction.products.items()},
        name=reaction.name,
        **rate,
    )


def _called(element: Any) -> str:
    """What an element is, and its id."""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in element.getElementName())
    name = element.getIdAttribute() or getattr(element, "getVariable", str)()
    return f"{words} '{name}'" if name else words


def _is_amount(element: Any, place: Any) -> bool:
    points = place.isSetSpatialDimensions() and place.getSpatialDimensionsAsDouble() == 0
    return bool(element.getHasOnlySubstanceUnits() or points)


def _notes(element: Any) -> dict[str, str]:
    """What `write_sbml` noted at an element."""
    annotation = element.getAnnotation()
    children = (
        [] if annotation is None else map(annotation.getChild, range(annotation.getNumChildren()))
    )
    for child in children:
        if child.getURI() == ANNOTATION:
            attributes = child.getAttributes()
            return {
                attributes.getName(k): attributes.getValue(k) for k in range(attributes.getLength())
            }
    return {}
