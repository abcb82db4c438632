"""What the reactions of an SBML document change, and by how much.

A stoichiometry may be a number, or follow a rule, an event or an initial assignment; a conversion
factor scales it.  A reaction with numbers only is a `Reaction`.  Any other one cannot fire with a
whole number of molecules: it is a rate of change of its species, which are continuous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ergode.models.expressions import Expression
from ergode.readers.sbml_document import Document

Count = float | Expression


class Changes:
    """Stoichiometries of all reactions."""

    def __init__(
        self,
        document: Document,
        start: Mapping[str, Expression],  # initial assignments
        rules: Mapping[str, Expression],  # assignment rules
        rate_rules: Mapping[str, Expression],
    ) -> None:
        self._document, self._model = document, document.model
        self._start, self._rules = start, rules
        self.assigned = {
            one.getVariable() for event in self._model.getListOfEvents()
            for one in event.getListOfEventAssignments()
        }  # fmt: skip
        self._moved = {*rate_rules, *self.assigned}
        # Stoichiometries with an id: numbers, and those that become parameters.
        self.numbers: dict[str, float] = {}
        self.parameters: dict[str, float | None] = {}
        # [reaction]: reactants and products; all numbers are positive.
        self.sides: dict[str, tuple[dict[str, Count], dict[str, Count]]] = {
            one.getId(): self._sides(one) for one in self._model.getListOfReactions()
        }
        self.flowing = {
            name
            for name, sides in self.sides.items()
            if any(isinstance(n, Expression) for side in sides for n in side.values())
        }
        self.flows = [  # species that these reactions change
            name
            for name in dict.fromkeys(
                name for one in self.sides if one in self.flowing
                for side in self.sides[one] for name in side
            )
            if not self._is_held(name)
        ]  # fmt: skip

    def _sides(self, reaction: Any) -> tuple[dict[str, Count], dict[str, Count]]:
        given = [
            self._side(reaction, references)
            for references in (reaction.getListOfReactants(), reaction.getListOfProducts())
        ]
        # A negative stoichiometry is one of the other side.
        sides: list[dict[str, Count]] = [
            {name: n for name, n in side.items() if isinstance(n, Expression) or n > 0}
            for side in given
        ]
        for side, other in zip(given, reversed(sides), strict=True):
            for name, count in side.items():
                if not isinstance(count, Expression) and count < 0:
                    other[name] = _sum(other.get(name, 0.0), -count)
        return sides[0], sides[1]

    def _side(self, reaction: Any, references: Any) -> dict[str, Count]:
        side: dict[str, Count] = {}
        for one in references:
            name, count = one.getSpecies(), self._count(reaction, one)
            species = self._model.getSpecies(name)
            factor = species.getConversionFactor() or self._model.getConversionFactor()
            if factor and not self._is_held(name):
                count = Expression(f"{factor} * ({written(count)})")
            # A rule determines the value of its species, whatever the reactions are.
            if count and name not in self._rules:
                side[name] = _sum(side.get(name, 0.0), count)
        return side

    def _count(self, reaction: Any, reference: Any) -> Count:
        label, name = reference.getId(), reference.getSpecies()
        number = reference.getStoichiometry() if reference.isSetStoichiometry() else None
        if label and label in self._rules:
            return Expression(label)
        formula = self._start.get(label) if label else None
        if label in self._moved or (formula is not None and formula.names):
            self.parameters[label] = number
            return Expression(label)
        if formula is not None:
            number = float(formula.evaluate({}))
        if number is None:
            raise self._document.refusal(reaction, f"its stoichiometry of '{name}' has no value")
        if not abs(number) < float("inf"):
            raise self._document.refusal(
                reaction, f"its stoichiometry of '{name}' is {number:g}; expected a number"
            )
        if label:
            self.numbers[label] = number
        return number

    def _is_held(self, name: str) -> bool:
        species = self._model.getSpecies(name)
        return bool(species.getBoundaryCondition() or species.getConstant())

    def beside(self, name: str) -> set[str]:
        """What the reactions change that change a species, with itself."""
        sides = [{*left, *right} for left, right in self.sides.values()]
        return {one for names in sides if name in names for one in names if not self._is_held(one)}

    def rate(self, name: str, law: Callable[[str], Expression], only_flowing: bool) -> str:
        """Amount of a species per time that reactions make; empty if they make none."""
        terms = []
        for reaction, (left, right) in self.sides.items():
            if self._is_held(name) or (only_flowing and reaction not in self.flowing):
                continue
            if name in left or name in right:
                net = f"{written(right.get(name, 0.0))} - ({written(left.get(name, 0.0))})"
                terms.append(f"({net}) * ({law(reaction).text})")
        return " + ".join(terms)


def written(count: Count) -> str:
    """A number or formula as text."""
    return count.text if isinstance(count, Expression) else repr(count)


def _sum(one: Count, other: Count) -> Count:
    if isinstance(one, Expression) or isinstance(other, Expression):
        return Expression(f"{written(one)} + {written(other)}") if one else other
    return one + other
