"""Rules with what they begin from and what is observed: a model without its network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ergode.core.words import counted
from ergode.models.expressions import Expression
from ergode.models.rules.generation import Rule
from ergode.models.rules.observables import Observable
from ergode.models.rules.patterns import Graph

Types = Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]
"""Sites of every type of molecule, with their states."""


class Seed(NamedTuple):
    """A species that is there at the begin."""

    graph: Graph
    amount: float | Expression


@dataclass(frozen=True, eq=False, repr=False)
class RuleModel:
    """Molecules with sites, and rules that change them, as `ergode.read_rules` reads them.

    Attributes
    ----------
    types : mapping
        Sites of every type of molecule, with their states.
    seeds : tuple of Seed
        Species at the begin, with their amounts.
    rules : tuple of Rule
        The rate of a rule is a formula of parameters, observables and functions. It is multiplied
        by the number of ways in which the rule applies.
    observables : tuple of Observable
    functions : mapping of str to Expression
    parameters : mapping of str to float or Expression
    name : str
    """

    types: Types
    seeds: tuple[Seed, ...]
    rules: tuple[Rule, ...]
    observables: tuple[Observable, ...]
    functions: Mapping[str, Expression]
    parameters: Mapping[str, float | Expression]
    name: str = ""

    def __repr__(self) -> str:
        parts = (
            counted(len(self.types), "molecule type"), counted(len(self.rules), "rule"),
            counted(len(self.observables), "observable"),
        )  # fmt: skip
        return f"<RuleModel{f' {self.name!r}' if self.name else ''}: {', '.join(parts)}>"

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the model, in the attributes of every result."""
        texts = {
            part: {name: getattr(one, "text", one) for name, one in getattr(self, part).items()}
            for part in ("functions", "parameters")
        }
        seeds = [(one.graph, sorted(one.graph.partners.items()), getattr(one.amount, "text", one))
                 for one in self.seeds]  # fmt: skip
        parts = self.types, seeds, self.rules, self.observables, texts
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
