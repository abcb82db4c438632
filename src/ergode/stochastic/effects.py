"""Assignments of events: separate random draws from formulas, and choose how to round values.

Numbers of molecules are integers.  An assignment that always gives an integer is used unchanged.
For any other assignment the user chooses the rounding.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.core.parsing import parse
from ergode.models.expressions import DRAWS, TIME, Expression
from ergode.models.reactions.events import Event
from ergode.stochastic.laws import DRAWN, Naming

ROUNDINGS = {"whole": 0, "stochastic": 1, "nearest": 2, "down": 3, "none": 4}
KINDS = {name: k for k, name in enumerate(DRAWS)}
_ALIKE = 1e-9


class Effects:
    """Separates random draws from the assignments of events, one event after another.

    `drawn` has for each draw its kind, the variable that holds it, and its two arguments.
    """

    def __init__(self, naming: Naming) -> None:
        self.naming = naming
        self.drawn: list[tuple[int, int, Expression, Expression]] = []
        self.whole: set[str] = set()

    def without_draws(self, value: float | Expression) -> Expression:
        """The formula with a variable in place of every draw."""
        expression = self.naming.inline(value)
        if not expression.draws:
            return expression
        tree = _TakeOut(self).visit(parse(ast.unparse(expression.tree), mode="eval").body)
        return Expression(ast.unparse(tree))

    def take(self, name: str, arguments: list[ast.expr]) -> ast.Name:
        """Record one more draw; return the variable that holds it."""
        place = f"{DRAWN}{len(self.drawn)}"
        first, *rest = (Expression(ast.unparse(argument)) for argument in arguments)
        second = rest[0] if rest else Expression("0")
        self.drawn.append((KINDS[name], self.naming.index[place], first, second))
        if name in ("binomial", "poisson"):
            self.whole.add(place)
        return ast.Name(place, ast.Load())


class _TakeOut(ast.NodeTransformer):
    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments = [self.visit(argument) for argument in node.args]
        assert isinstance(node.func, ast.Name)
        if node.func.id in DRAWS:
            return self.effects.take(node.func.id, arguments)
        return ast.Call(node.func, arguments, [])


class Wholeness:
    """Decides whether formulas give integers in all states and at all points of a sweep.

    `known` are the values of parameters and compartments, and `whole` the variables besides the
    species that are integers.
    """

    def __init__(self, naming: Naming, known: Mapping[str, Any], whole: set[str]) -> None:
        self.naming, self.known, self.whole = naming, known, whole

    def of(self, expression: Expression, size: str | None = None, later: bool = False) -> bool:
        """Whether a value, multiplied by a compartment's size if given, is an integer.

        `later` means that the size may have changed since the value was computed.
        """
        volume = 1.0 if size is None else self._fixed(size)
        text = None
        if size is not None and not (later and size in self.naming.index):
            text = ast.unparse(self.naming.inline(Expression(size)).tree)
        return self._both(expression.tree, volume, text)[1]

    def _fixed(self, size: str) -> Any:
        """The size of a compartment; not a number if it changes."""
        return np.nan if size in self.naming.index else self.known[size]

    def _both(self, node: ast.AST, volume: Any, size: str | None) -> tuple[bool, bool]:
        """Whether a value is an integer, and whether its product with the volume is an integer.

        `size` is the formula of the volume.
        """
        times = _is_whole(volume)
        if not self.naming.varies(node):
            value = np.asarray(Expression(ast.unparse(node)).evaluate(self.known))
            return _is_whole(value), _is_whole(value * volume)
        if isinstance(node, ast.Name):
            own = self.naming.size_of(node.id)
            if node.id == TIME:
                return False, False
            if node.id in self.naming.continuous:
                return False, False
            if node.id in self.naming.network.index:
                one = own is None or bool((np.asarray(self._fixed(own)) == 1).all())
                return one, (one and times) or (own is not None and own == size)
            return node.id in self.whole, node.id in self.whole and times
        if isinstance(node, ast.Compare | ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            return True, times
        if isinstance(node, ast.UnaryOp):
            return self._both(node.operand, volume, size)
        parts: list[ast.AST] = []
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("floor", "ceil"):
                return True, times
            parts = list(node.args) if node.func.id in ("abs", "min", "max") else []
        if not parts:
            return False, False
        found = [self._both(part, volume, size) for part in parts]
        whole, scaled = all(one[0] for one in found), all(one[1] for one in found)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Sub):
            (a, a_scaled), (b, b_scaled) = found
            if isinstance(node.op, ast.Div):
                return False, a and ast.unparse(node.right) == size
            if isinstance(node.op, ast.Mult):
                return whole, (a and b_scaled) or (a_scaled and b)
            power = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant)
            exponent = node.right.value if isinstance(node.right, ast.Constant) else -1.0
            fine = power and whole and isinstance(exponent, float) and exponent >= 0
            return fine, fine and times
        return whole, scaled


def _is_whole(value: Any) -> bool:
    value = np.asarray(value, float)
    return bool((np.abs(value - np.rint(value)) <= _ALIKE * np.maximum(1, np.abs(value))).all())


def whole_parameters(
    naming: Naming,
    events: list[tuple[Event, dict[str, Expression]]],
    known: Mapping[str, Any],
    drawn: set[str],
) -> set[str]:
    """Parameters with integer initial values, to which events assign only integers."""
    species = len(naming.network.species)
    moving = set(naming.variables[species:]) - {*naming.draws, *naming.continuous}
    whole = {name for name in moving if _is_whole(known[name])}
    while True:
        test = Wholeness(naming, known, whole | drawn)
        broken = {
            name
            for _, assigned in events
            for name, value in assigned.items()
            if name in whole and not test.of(value)
        }
        if not broken:
            return whole
        whole -= broken


def rounding_of(
    event: Event,
    number: int,
    assigned: Mapping[str, Expression],
    test: Wholeness,
    rounding: str | None,
    whole: bool,
) -> int:
    """How to round the value that an event assigns.

    Raises a PlanError if the value may not be an integer, and the user did not choose how to round
    it.
    """
    if not whole:
        return ROUNDINGS["none"]
    chosen = event.rounding or rounding
    if chosen is not None:
        return ROUNDINGS[chosen]
    naming = test.naming
    for name, value in assigned.items():
        if name in naming.continuous or name not in naming.network.index:
            continue
        size = naming.size_of(name)
        if not test.of(value, size, event.delay != 0.0 and event.values_from_trigger):
            given = event.assignments[name]
            text = given.text if isinstance(given, Expression) else repr(given)
            member = naming.network.species[naming.network.index[name]]
            unit = f" ('{name}' is a concentration)" if member.quantity == "concentration" else ""
            raise PlanError(
                f"event '{event.name or number}' assigns '{text}' to '{name}', which may not be a "
                f"whole number of molecules{unit}; choose how to round: rounding='stochastic', "
                "'nearest' or 'down', of the Event or of simulate"
            )
    return ROUNDINGS["whole"]
