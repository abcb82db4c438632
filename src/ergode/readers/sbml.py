"""Reaction networks from SBML, the exchange format of systems biology.

If a `ReactionNetwork` cannot represent an element, the element is refused by its id and line.
Nothing that affects the dynamics is ignored.

References
----------
M. Hucka et al., The Systems Biology Markup Language (SBML): Language Specification for Level 3
Version 2 Core, J. Integr. Bioinform. 16, 20190021 (2019).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import TIME, Effect, Expression, is_condition
from ergode.models.reactions.events import Event
from ergode.models.reactions.mass_action import both_ways, law_of, recognise
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Compartment, Quantity, Species
from ergode.readers.algebraic import solved
from ergode.readers.bounded import file_of, located, text_of
from ergode.readers.mathml import DELAYED, RATE_OF, MathReader
from ergode.readers.sbml_changes import Changes, written
from ergode.readers.sbml_delays import BEGUN, Delays
from ergode.readers.sbml_document import Document, called, has_formula, is_amount, notes_of


def read_sbml(path: str | os.PathLike[str], *, split_reversible: bool = True) -> ReactionNetwork:
    """Read a reaction network from SBML, of any level.

    In formulas a species is its amount if the document sets ``hasOnlySubstanceUnits``, and its
    concentration otherwise. A kinetic law becomes mass action only if it equals it exactly:
    ``k * P * (P - 1) / 2`` for two ``P`` is Gillespie's c = k, while ``k * P * P`` stays a formula.
    Calls of defined functions are inlined. Local parameters become parameters of the network,
    prefixed with the id of their reaction. Assignment rules become rules, and initial assignments
    become formulas of parameters. An algebraic rule becomes the rule of the one variable that it
    determines, if it is linear in it.

    A quantity with a delay, ``delay(x, d)``, gets a copy that runs behind: a parameter with a rate
    rule. Species that are copied, and all that their reactions change, are continuous.

    A stoichiometry may follow a rule, an event or an initial assignment, and a conversion factor
    may scale it. Such a reaction cannot fire with a whole number of molecules. It becomes a part
    of the rate rules of its species, which are then continuous. Species in a compartment whose
    size has an assignment rule become amounts.

    Parameters
    ----------
    path : str or path
        A file, or the text of a document.
    split_reversible : bool
        Split a reaction into ``_forward`` and ``_reverse`` if it is marked reversible and its law
        is a difference such as ``kf * A - kr * B``. A single reaction would have a negative
        propensity. The rates of change stay the same.

    Returns
    -------
    ReactionNetwork

    Raises
    ------
    ReadError
        The file does not exist, is not valid SBML, or has an element that a network cannot
        represent: algebraic rules that are not linear in what they determine, constraints, fast
        reactions, reactions without a law, delays of what depends on its own delayed value or is
        changed by events, undefined values, packages that change the meaning. The message names
        the element and the line.

    Notes
    -----
    Numbers are used as written, in the units of the document. Amounts may be in items,
    dimensionless or in moles, of any scale, but all in the same unit; `ergode.stochastic` uses them
    as numbers of molecules.

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
    file = file_of(path)
    text = text_of(file)
    return read_document(text, str(file), split_reversible=split_reversible, path=file)


def read_document(
    text: str,
    source: str,  # prefix of error messages
    *,
    split_reversible: bool = True,
    lines: bool = True,  # whether messages name lines
    # A compartment that the author did not write. It is omitted if its size is one and no formula
    # uses it.
    implied: str | None = None,
    path: Path | None = None,  # files that submodels name are beside it
) -> ReactionNetwork:
    """The network of an SBML document."""
    return _Reader(text, source, lines, path).network(implied, split_reversible)


class _Reader:
    """Converts one document to a network."""

    def __init__(self, text: str, source: str, lines: bool, path: Path | None) -> None:
        self.document = Document(text, source, lines, path)
        self.model = self.document.model
        self.math = MathReader(
            self.document.libsbml,
            {one.getId(): one.getMath() for one in self.model.getListOfFunctionDefinitions()},
        )
        self.used: set[str] = set()  # all names in formulas
        self.locals: dict[str, float] = {}
        self.owners: dict[str, Any] = {}  # of formulas with delays
        self.drawn: set[str] = set()  # what has a random initial value
        self.start = {
            one.getSymbol(): self._formula(one, one, kind=Effect)
            for one in self.model.getListOfInitialAssignments()
            if one.isSetMath()
        }
        # Without a formula, a rule says nothing (Level 3 Version 2, section 3.4).
        every = [
            (one, self._formula(one, one)) for one in self.model.getListOfRules() if one.isSetMath()
        ]
        self.rules = {one.getVariable(): formula for one, formula in every if one.isAssignment()}
        self.rate_rules = {one.getVariable(): formula for one, formula in every if one.isRate()}
        self.algebraic = [(one, formula) for one, formula in every if one.isAlgebraic()]
        if self.algebraic:
            self.rules |= self._solved()
        # Species whose compartment has a size by a rule: the network has their amounts, and their
        # name, which means a concentration, is written as amount / size.
        self.over_size = {
            one.getId(): one.getCompartment()
            for one in self.model.getListOfSpecies()
            if one.getCompartment() in self.rules
            and one.getId() not in self.rules
            and not is_amount(one, self.model.getCompartment(one.getCompartment()))
        }
        for name in self.over_size:
            if name in self.rate_rules:
                why = "its concentration has a rate rule, and the size of its compartment a rule"
                raise self.document.refusal(self.model.getSpecies(name), why)
        self.changes = Changes(self.document, self.start, self.rules, self.rate_rules)
        self.noted_real = [
            one.getId()
            for one in self.model.getListOfSpecies()
            if notes_of(one).get("continuous") == "true"
        ]
        self.real = {*self.rate_rules, *self.noted_real, *self.changes.flows}
        # Parameters that `write_sbml` marked as formulas: they follow assignments by events.
        self.following = {
            one.getId()
            for one in self.model.getListOfParameters()
            if notes_of(one).get("formula") == "true" and one.getId() in self.rules
        }
        self.start |= {name: self.rules.pop(name) for name in self.following}
        self.laws = {one.getId(): self._law(one) for one in self.model.getListOfReactions()}
        self.delays = Delays(
            self._inlined, self._rate_of, self._copied, self.start, self.changes.assigned,
            self._unused,
        )  # fmt: skip

    # ---- formulas

    def _formula(
        self,
        owner: Any,
        holder: Any,
        renamed: Mapping[str, str] | None = None,
        kind: type[Expression] = Expression,
    ) -> Expression:
        """The formula of an element; errors name its owner."""
        if not holder.isSetMath():
            raise self.document.refusal(owner, "it has no formula")
        with self.document.within(owner):
            expression = self.math.expression(holder.getMath(), renamed, kind)
        names = set(expression.names)
        for name in self.math.delayed.keys() - self.owners.keys():
            self.owners[name] = owner
            names |= {one for part in self.math.delayed[name] for one in part.names}
        self.used |= {name.removeprefix(RATE_OF) for name in names}
        return expression

    def _settled(self, expression: Expression) -> Expression:
        """A formula with rates of reactions, stoichiometries and rates of change written out."""
        replaced: dict[str, Expression | float] = {}
        for name in expression.names:
            if name in self.changes.numbers:
                replaced[name] = self.changes.numbers[name]
            elif name in self.laws:
                replaced[name] = self._settled(self.laws[name])
            elif name in self.over_size:
                replaced[name] = Expression(f"{name} / {self.over_size[name]}")
            elif name.startswith(RATE_OF):
                replaced[name] = self._rate_of(name.removeprefix(RATE_OF))
            elif name.startswith(DELAYED):
                replaced[name] = self.delays.delayed(*self.math.delayed[name])
        return expression.substitute(replaced)

    def _rate_of(self, name: str) -> Expression | float:
        """The rate of change of a quantity, as its name means in formulas."""
        if name in self.over_size:
            raise ModelError(
                f"its formula has the rate of change of '{name}', a concentration in a "
                "compartment whose size a rule determines"
            )
        if name in self.rate_rules:
            return self._settled(self.rate_rules[name])
        species = self.model.getSpecies(name)
        if species is None:
            return 0.0
        return self._of_quantity(species, self.changes.rate(name, self._law_of, False)) or 0.0

    def _inlined(self, expression: Expression) -> Expression:
        """A settled formula of a delay, with rules written out; what has not begun is marked."""
        known = {**self.rules, **self.laws}
        for _ in range(2 * len(known) + 2):
            if expression.names.isdisjoint(known):
                rates = [name for name in expression.names if name.startswith(RATE_OF)]
                begun = {name: Expression(f"{name} * {BEGUN}") for name in rates}
                expression = self._settled(expression.substitute(begun))
                if expression.names.isdisjoint(known):
                    return expression
            expression = expression.substitute(known)
        raise ModelError(f"its formula {expression.text:.60} has rules that depend on each other")

    def _copied(self, name: str) -> None:
        """Make what has a copy continuous, with all that its reactions change."""
        more = self.changes.beside(name) - {*self.noted_real}
        self.noted_real += sorted(more)
        self.real |= more

    def _unused(self, name: str) -> str:
        """The name of a new parameter, which begins so."""
        while self.model.getElementBySId(name) is not None or name in self.locals:
            name += "_"
        self.locals[name] = 0.0
        return name

    def _law_of(self, reaction: str) -> Expression:
        return self._settled(self.laws[reaction])

    def _of_quantity(self, species: Any, rate: str) -> Expression | None:
        """A rate of change of an amount as one of what the species means in formulas."""
        name, place = species.getId(), self.model.getCompartment(species.getCompartment())
        if name in self.over_size or is_amount(species, place):
            return Expression(rate) if rate else None
        size = place.getId()
        if rate:
            self.used.add(size)
            rate = f"({rate}) / {size}"
        if size in self.rate_rules:
            rate += f" - {name} * ({self._settled(self.rate_rules[size]).text}) / {size}"
        return Expression(rate) if rate else None

    def _solved(self) -> dict[str, Expression]:
        """Algebraic rules as assignment rules of variables that nothing else determines."""
        model = self.model
        changed = {
            one.getSpecies()
            for reaction in model.getListOfReactions()
            for one in (*reaction.getListOfReactants(), *reaction.getListOfProducts())
            if not model.getSpecies(one.getSpecies()).getBoundaryCondition()
        }
        assigned = {
            one.getVariable()
            for event in model.getListOfEvents()
            for one in event.getListOfEventAssignments()
        }
        free = [
            one.getId()
            for one in (*model.getListOfParameters(), *model.getListOfSpecies(),
                        *model.getListOfCompartments())
            if not one.getConstant()
            and one.getId() not in {*self.rules, *self.rate_rules, *changed, *assigned}
        ]  # fmt: skip
        with self.document.within(self.algebraic[0][0]):
            return solved([formula for _, formula in self.algebraic], free)

    def _at_start(self, expression: Expression) -> float | Expression:
        """A formula at time zero, in terms of parameters and sizes of compartments only."""
        replaced: dict[str, Expression | float] = {}
        expression = self._settled(expression)
        for name in expression.names:
            if name == TIME:
                replaced[name] = 0.0
            elif name in self.rules:
                replaced[name] = self._at_start(self.rules[name])
            elif name in self.delays.of:
                replaced[name] = self._at_start(Expression(self.delays.of[name]))
            elif (member := self.model.getSpecies(name)) is not None:
                replaced[name] = self._initial(member)
        expression = expression.substitute(replaced)
        return expression if expression.names else float(expression.evaluate({}))

    def _value(self, element: Any, number: float | None) -> float | Expression:
        """The initial value of an element: its initial assignment, or its own number."""
        name = element.getId()
        if name in self.start:
            with self.document.within(element):
                return self._at_start(self.start[name])
        if name in self.drawn:  # it has none before the begin
            return 1.0 if self.model.getCompartment(name) is not None else 0.0
        if number is None:
            raise self.document.refusal(element, "it has no value; give it one")
        return number

    # ---- elements

    def _compartment(self, element: Any) -> Compartment:
        name = element.getId()
        size = element.getSize() if element.isSetSize() else None
        if size is None and name not in self.start:
            if name in self.used:
                raise self.document.refusal(
                    element, "it has no size, and a formula uses it; give it one"
                )
            size = 1.0
        with self.document.within(element):
            return Compartment(name, self._value(element, size))

    def _initial(self, element: Any) -> float | Expression:
        """Initial value of a species: an amount or concentration, as its id means in formulas."""
        place = self.model.getCompartment(element.getCompartment())
        sized = place.isSetSize() or place.getId() in {*self.start, *self.rules}
        amount = is_amount(element, place)
        if not sized and (not amount or element.isSetInitialConcentration()):
            raise self.document.refusal(
                element, f"its concentration needs the size of {called(place)}, which has none"
            )
        number: float | None = None
        if element.isSetInitialAmount():
            number = element.getInitialAmount()
        elif element.isSetInitialConcentration():
            number = element.getInitialConcentration()
        value = self._value(element, number)
        if element.getId() in self.over_size:
            if not value or (element.isSetInitialAmount() and element.getId() not in self.start):
                return value
            return self._at_start(Expression(f"({written(value)}) * {place.getId()}"))
        if not value or element.getId() in self.start or element.isSetInitialAmount() == amount:
            return value
        formula = Expression(f"{value!r} {'*' if amount else '/'} {place.getId()}")
        return self._at_start(formula) if place.getId() in self.rules else formula

    def _species(self, element: Any, implied: set[str]) -> Species:
        place = self.model.getCompartment(element.getCompartment())
        apart = element.getId() in self.over_size or place.getId() in self.rules
        quantity: Quantity = "amount" if apart or is_amount(element, place) else "concentration"
        notes = notes_of(element)
        with self.document.within(element):
            return Species(
                element.getId(),
                self._initial(element),
                None if apart or place.getId() in implied else place.getId(),
                quantity,
                element.getBoundaryCondition() and notes.get("boundary") != "false",
                element.getConstant(),
                int(notes["mass_number"]) if "mass_number" in notes else None,
                int(notes["charge_number"]) if "charge_number" in notes else None,
                label=element.getName() or None,
            )

    def _law(self, reaction: Any) -> Expression:
        law = reaction.getKineticLaw()
        if law is None:
            raise self.document.refusal(reaction, "it has no kinetic law")
        renamed = {}
        for one in law.getListOfLocalParameters():
            name = self._unused(f"{reaction.getId()}_{one.getId()}")
            if not one.isSetValue():
                raise self.document.refusal(one, f"it has no value in {called(reaction)}")
            renamed[one.getId()] = name
            self.locals[name] = one.getValue()
        return self._formula(reaction, law, renamed)

    def _reactions(
        self, element: Any, species: Mapping[str, Species], fixed: set[str], split: bool
    ) -> list[Reaction]:
        """The reaction of an element, or its forward and reverse reactions if it is split."""
        name = element.getId()
        sides: Any = self.changes.sides[name]
        left, right = sides
        law = self._settled(self.laws[name])
        notes = notes_of(element)
        named = notes.get("name", name)
        with self.document.within(element):
            word = notes.get("law")
            if word in ("rate_constant", "stochastic_rate_constant"):
                # Use the noted form of the law if it still gives the same law.
                noted: dict[str, Any] = {word: notes.get("constant", "")}
                if law_of(Reaction(left, right, **noted), species, self.real) == law:
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
                    name=own,
                    **recognise(rate, taken, made, species, fixed, continuous=self.real),
                )
                for own, taken, made, rate in given
            ]

    def _event(self, element: Any) -> Event | None:
        """An event; None if it has no condition, so that it never happens."""
        trigger, delay, priority = element.getTrigger(), element.getDelay(), element.getPriority()
        if not has_formula(trigger):
            return None
        assignments = {
            one.getVariable(): self._number(element, one, Effect)
            for one in element.getListOfEventAssignments()
            if one.isSetMath()
        }
        for name in self.over_size.keys() & assignments.keys():
            assignments[name] = Expression(
                f"({written(assignments[name])}) * {self.over_size[name]}"
            )
        condition = self._formula(element, trigger)
        with self.document.within(element):
            condition = self._settled(condition)
            if not is_condition(condition):  # a number is true unless it is zero
                condition = Expression(f"({condition.text}) != 0")
            return Event(
                condition,
                assignments,
                self._number(element, delay) if has_formula(delay) else 0.0,
                self._number(element, priority) if has_formula(priority) else None,
                persistent=not trigger.isSetPersistent() or trigger.getPersistent(),
                initially_true=not trigger.isSetInitialValue() or trigger.getInitialValue(),
                values_from_trigger=element.getUseValuesFromTriggerTime(),
                name=notes_of(element).get("name", element.getId() or None),
            )

    def _number(
        self, owner: Any, holder: Any, kind: type[Expression] = Expression
    ) -> float | Expression:
        expression = self._formula(owner, holder, kind=kind)
        with self.document.within(owner):
            expression = self._settled(expression)
        constant = not (expression.names or expression.draws)
        return float(expression.evaluate({})) if constant else expression

    def _drawn(self) -> dict[str, Expression]:
        """Initial assignments that draw random numbers, and those that depend on them, in order.

        They are taken out of `start`.
        """
        found: dict[str, Expression] = {}
        while True:
            known = {name: self._settled(formula) for name, formula in self.start.items()}
            while any(not formula.names.isdisjoint(self.rules) for formula in known.values()):
                known = {name: one.substitute(self.rules) for name, one in known.items()}
            moved = [
                name
                for name, formula in known.items()
                if formula.draws or not formula.names.isdisjoint(found)
            ]
            # Of those that depend on each other, the first that waits for no other.
            ready = [name for name in moved if known[name].names.isdisjoint(moved)]
            if not ready:
                return found
            for name in ready:
                found[name] = known[name]
                del self.start[name]

    def _flows(self) -> dict[str, Expression]:
        """Rates of change of species by reactions whose stoichiometries are no numbers."""
        found = {}
        for name in self.changes.flows:
            rate = self.changes.rate(name, self._law_of, only_flowing=True)
            change = self._of_quantity(self.model.getSpecies(name), rate)
            if change is not None:
                found[name] = change
        return found

    def network(self, default: str | None, split: bool) -> ReactionNetwork:
        """The network that the document describes."""
        model, delays = self.model, self.delays
        for name, owner in self.owners.items():
            with self.document.within(owner):
                delays.delayed(*self.math.delayed[name])
        drawn = self._drawn()
        always = Expression("1 > 0")
        events = [
            Event(always, {name: formula}, name=f"initial {name}", at_begin=True)
            for name, formula in drawn.items()
        ]
        events += [one for one in map(self._event, model.getListOfEvents()) if one is not None]
        if delays.assignments:
            events.append(Event(always, delays.assignments, name=delays.begin, at_begin=True))
        self.drawn = set(drawn)
        places = [one for one in model.getListOfCompartments() if one.getId() not in self.rules]
        compartments = [self._compartment(one) for one in places]
        moved = {*self.rate_rules, *(name for one in events for name in one.assignments)}
        implied = {
            place.name
            for place, element in zip(compartments, places, strict=True)
            if (place.name == default or notes_of(element).get("implied"))
            and place.size == 1
            and place.name not in self.used
            and place.name not in moved
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
        for name, number in self.changes.parameters.items():
            parameters[name] = self._value(model.getElementBySId(name), number)
        rate_rules = {name: self._settled(rule) for name, rule in self.rate_rules.items()}
        rate_rules |= {**self._flows(), **delays.rates}
        fixed = {*parameters, *(place.name for place in compartments)}
        reactions = [
            reaction
            for one in model.getListOfReactions()
            if one.getId() not in self.changes.flowing
            for reaction in self._reactions(one, species, fixed, split)
        ]
        rules: dict[str, Any] = {name: self._settled(rule) for name, rule in self.rules.items()}
        noted = {
            one.getId(): notes_of(one).get("name", one.getId()) for one in model.getListOfSpecies()
        }
        with located(self.document.source):
            made: list[Any] = [
                [replace(one, name=noted[one.name]) for one in species.values()],
                [_renamed(one, noted) for one in reactions],
                parameters,
                compartments,
                rules,
                events,
                model.getName() or model.getId() or None,
                {noted.get(name, name): rule for name, rule in rate_rules.items()},
                [noted[name] for name in self.noted_real],
            ]
            network = ReactionNetwork(*made)
            settled = [name for name in network.following if name not in self.following]
            if settled:
                # An initial assignment is evaluated once; later events do not change it.
                known = network.evaluate_parameters()
                made[2] = {**parameters, **{name: known[name] for name in settled}}
                network = ReactionNetwork(*made)
            return network


def _renamed(reaction: Reaction, names: Mapping[str, str]) -> Reaction:
    """A reaction with names of species instead of their ids."""
    rate: dict[str, Any] = {reaction.law.argument: reaction.value}
    return Reaction(
        {names[one]: count for one, count in reaction.reactants.items()},
        {names[one]: count for one, count in reaction.products.items()},
        name=reaction.name,
        **rate,
    )
