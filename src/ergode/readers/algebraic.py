"""Algebraic rules of SBML, ``0 = f(x, ...)``, as assignment rules ``x = ...``.

Each rule determines one variable that nothing else determines.  A rule that is linear in it is
solved exactly: with f0 and f1 the formula at x = 0 and x = 1, x = f0 / (f0 - f1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression

_TRIES = 8  # random points at which linearity is checked


def solved(rules: Sequence[Expression], free: Iterable[str]) -> dict[str, Expression]:
    """The variable that each rule determines, of those that are `free`, with its formula.

    Raises a ModelError that shows the equation, if a rule determines none or is not linear in it.
    """
    unknown = set(free)
    choices = [{name for name in rule.names & unknown if _is_linear(rule, name)} for rule in rules]
    owner: dict[str, int] = {}
    for k, rule in enumerate(rules):
        if not _match(k, choices, owner, set()):
            names = sorted(rule.names & unknown)
            why = (
                f"is not linear in {' or '.join(repr(name) for name in names)}, which it determines"
                if names and not choices[k]
                else "determines no variable that is not determined otherwise"
            )
            raise ModelError(f"the algebraic rule 0 = {rule.text} {why}")
    return {name: _solution(rules[k], name) for name, k in owner.items()}


def _match(k: int, choices: list[set[str]], owner: dict[str, int], seen: set[str]) -> bool:
    """Give the rule `k` a variable; others may have to change theirs (Kuhn's algorithm)."""
    for name in sorted(choices[k] - seen):
        seen.add(name)
        if name not in owner or _match(owner[name], choices, owner, seen):
            owner[name] = k
            return True
    return False


def _ends(rule: Expression, name: str) -> tuple[Expression, Expression]:
    return rule.substitute({name: 0.0}), rule.substitute({name: 1.0})


def _solution(rule: Expression, name: str) -> Expression:
    zero, one = (end.text for end in _ends(rule, name))
    return Expression(f"({zero}) / (({zero}) - ({one}))")


def _is_linear(rule: Expression, name: str) -> bool:
    """Whether values at random points lie on a line in the variable, which is not level."""
    random = np.random.default_rng(len(rule.text))
    for _ in range(_TRIES):
        others = {one: float(random.uniform(0.5, 2.0)) for one in sorted(rule.names - {name})}
        places = np.array([0.0, 1.0, float(random.uniform(-30.0, 30.0))])
        zero, one, value = (rule.evaluate({**others, name: float(at)}) for at in places)
        slope = one - zero
        expected = zero + slope * places[2]
        size = max(abs(zero), abs(one), abs(value), abs(slope * places[2]))
        if not (slope != 0 and abs(value - expected) <= 1e-9 * size):
            return False
    return True
