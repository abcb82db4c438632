"""What is counted in species: matches of patterns."""

from __future__ import annotations

import operator
from typing import NamedTuple

from ergode.models.rules.patterns import Graph, matches

_COMPARE = {
    "==": operator.eq, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


class Counted(NamedTuple):
    """A pattern of an observable; with a condition such as ``>= 2``, species that meet it."""

    pattern: Graph
    condition: str = ""


class Observable(NamedTuple):
    """What is counted: matches of patterns, or species that have any."""

    name: str
    of_species: bool
    patterns: tuple[Counted, ...]

    def number(self, species: Graph, molecule: int | None = None) -> int:
        """How much of it a species has; of a `molecule`, where that is the first of a pattern."""
        total = 0
        for pattern, condition in self.patterns:
            found = matches(pattern, species)
            count = len(found)
            if molecule is not None:
                count = sum(match.molecules[0] == molecule for match in found)
            if condition:
                sign, bound = condition.split()
                count = int(_COMPARE[sign](count, int(bound)))
            total += min(count, 1) if self.of_species else count
        return total
