"""Rate laws in the form that is simulated: mass action wherever possible.

A law such as ``k * X * (X - 1) / 2`` is recognised as a coefficient times falling factorials of
amounts, n (n - 1) ....  Every method can bound, factor and update that form.  Any other law is
compiled to a program (see `programs`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.compiler.programs import Operation, Step, steps_of
from ergode.core.errors import PlanError
from ergode.models.expressions import DRAWS, TIME, Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.propensities import reactants_of, volume_power
from ergode.models.reactions.reaction import Law


@dataclass(frozen=True)
class MassAction:
    """A coefficient times falling factorials of amounts."""

    coefficient: float | Expression  # a function of parameters and compartments
    orders: Mapping[int, int]  # order in each variable, by its index


@dataclass(frozen=True)
class Formula:
    """Any other law."""

    expression: Expression  # a function of variables, parameters, compartments and time
    # Orders of falling factorials that multiply the expression.
    orders: Mapping[int, int] = field(default_factory=dict)


# This letter does not occur in names of models.
DRAWN = "\ua60cdraw"


def draws_of(tree: ast.AST) -> list[ast.Call]:
    """Calls of random draws; nested calls come before the calls that contain them."""
    found = [call for child in ast.iter_child_nodes(tree) for call in draws_of(child)]
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in DRAWS:
        found.append(tree)
    return found


class Naming:
    """Meaning of the names in a network's formulas; parameters in `given` have fixed values.

    `variables` change in time: species; parameters and compartments that events assign to or that
    have a rate rule; and last the `draws`, which hold the random draws of events. Those that are
    `continuous` change between firings: with a rate rule, or continuous species. With a partition
    (`parted`) all species may, so these are `flowing`, too. `parameters` have
    constant values: the other parameters, and compartments.
    """

    def __init__(
        self, network: ReactionNetwork, given: Collection[str] = (), parted: bool = False
    ) -> None:
        self.network = network
        assigned = {name for event in network.events for name in event.assignments}
        assigned |= set(network.rate_rules)
        sizes = [compartment.name for compartment in network.compartments]
        moving = [name for name in (*network.parameters, *sizes) if name in assigned]
        # A parameter whose formula uses a changing parameter also changes, like a rule.
        self._rules: dict[str, Expression] = {}
        formulas = dict(network.parameters) | {c.name: c.size for c in network.compartments}
        for name in network.parameter_order:
            formula = formulas[name]
            if name in assigned or name in given or not isinstance(formula, Expression):
                continue
            formula = formula.substitute(self._rules)
            if formula.names.isdisjoint(moving):
                continue
            if name not in network.parameters:
                raise PlanError(
                    f"the size of compartment '{name}' follows '{min(formula.names & set(moving))}'"
                    ", which changes in time; give the compartment a rate rule, or assign to it"
                )
            self._rules[name] = formula
        # Each draw of an event has a variable after the state, numbered in order.
        effects = [value for event in network.events for value in event.assignments.values()]
        count = sum(len(draws_of(v.tree)) for v in effects if isinstance(v, Expression) and v.draws)
        self.draws = tuple(f"{DRAWN}{k}" for k in range(count))
        self.variables = (*(member.name for member in network.species), *moving, *self.draws)
        fixed = [
            name for name in network.parameters if name not in assigned and name not in self._rules
        ]
        self.parameters = (*fixed, *(name for name in sizes if name not in assigned))
        real = {*network.rate_rules, *network.continuous}
        self.continuous = tuple(name for name in self.variables if name in real)
        # With a partition, all amounts change between firings at times.
        species = {member.name for member in network.species} if parted else set()
        self.flowing = tuple(name for name in self.variables if name in real | species)
        self.index = {name: i for i, name in enumerate(self.variables)}
        self._number = {name: i for i, name in enumerate(self.parameters)}
        self._size = {
            member.name: member.compartment
            for member in network.species
            if member.quantity == "concentration" and member.compartment is not None
        }
        for name in network.rule_order:
            self._rules[name] = network.rules[name].substitute(self._rules)

    def inline(self, value: float | Expression) -> Expression:
        """A formula with rules replaced by their definitions."""
        if not isinstance(value, Expression):
            return Expression(repr(float(value)))
        return value.substitute(self._rules)

    def size_of(self, name: str) -> str | None:
        """Compartment whose size divides the species' amount in formulas, or None."""
        return self._size.get(name)

    def steps_of_name(self, name: str) -> list[Step]:
        """Steps that push the value of a name on the stack."""
        if name == TIME:
            return [(Operation.TIME, 0)]
        if name not in self.index:
            return [(Operation.PARAMETER, self._number[name])]
        steps: list[Step] = [(Operation.VARIABLE, self.index[name])]
        size = self._size.get(name)
        if size is not None:
            steps += [*self.steps_of_name(size), (Operation.DIVIDE, 0)]
        return steps

    def steps(self, expression: Expression) -> list[Step]:
        """The program of a formula, with rules replaced by their definitions."""
        return steps_of(expression.tree, self.steps_of_name)

    def varies(self, node: ast.AST) -> bool:
        """Whether a formula, or part of it, changes in time."""
        return any(
            isinstance(part, ast.Name) and (part.id == TIME or part.id in self.index)
            for part in ast.walk(node)
        )

    def variables_of(self, expression: Expression) -> set[str]:
        """Variables in a formula, including sizes that divide amounts."""
        names = set(expression.names)
        names |= {self._size[name] for name in expression.names if name in self._size}
        return names & set(self.index)

    def follows_state(self, expression: Expression) -> bool:
        """Whether a firing or an event can change the value of a formula."""
        return not expression.names.isdisjoint(self.index)

    def flows(self, expression: Expression) -> bool:
        """Whether the value of a formula can change between firings, time aside."""
        return not self.variables_of(expression).isdisjoint(self.flowing)


def law_of(network: ReactionNetwork, naming: Naming, k: int) -> MassAction | Formula:
    """The law of reaction `k`.

    Raises a PlanError if the law cannot be simulated: a coefficient that depends on conditions, or
    a fractional stoichiometry.
    """
    table = network.reactions
    given = table.formulas.get(k, float(table.values[k]))
    if not isinstance(given, float | Expression):
        raise PlanError(
            f"the rate_constant of reaction '{table.name_of(k)}' is a {type(given).__name__}, a "
            "function of conditions such as the temperature; a stochastic simulation needs a "
            "number or a formula"
        )
    if table.laws[k] == Law.RATE:
        expression = naming.inline(given)
        found = _as_mass_action(expression, naming)
        if found is None or _pairs_of_real(network, found.orders):
            return _counts_apart(expression, network, naming)
        return found
    members, counts = reactants_of(network, k)
    orders: dict[int, Any] = {}
    for member, count in zip(members.tolist(), counts.tolist(), strict=True):
        orders[member] = orders.get(member, 0) + (int(count) if count % 1 == 0 else count)
    coefficient = naming.inline(given)
    if table.laws[k] == Law.STOCHASTIC:
        divisor = math.prod(math.factorial(order) for order in orders.values())
        if divisor > 1:
            coefficient = Expression(f"({coefficient.text}) / {divisor}")
    else:
        size, power = volume_power(network, k)
        if size is not None and power:
            coefficient = Expression(f"({coefficient.text}) * {size} ** ({power!r})")
    for i in _pairs_of_real(network, orders):  # n^2 in place of n (n - 1)
        name = network.species[i].name
        size = naming.size_of(name)
        amount = name if size is None else f"({name} * {size})"
        order = orders.pop(i)
        if order % 1 == 0:
            orders[i], order = 1, order - 1
        coefficient = Expression(f"({coefficient.text}) * {amount} ** {order}")
    if naming.varies(coefficient.tree):  # a parameter that an event assigns to
        return Formula(coefficient, orders)
    return MassAction(coefficient, orders)


def _pairs_of_real(network: ReactionNetwork, orders: Mapping[int, int]) -> list[int]:
    """Continuous species whose order in a law is two or more, or a fraction."""
    return [
        i
        for i, order in orders.items()
        if (order > 1 or order % 1 > 0) and network.is_continuous[i]
    ]


def _counts_apart(expression: Expression, network: ReactionNetwork, naming: Naming) -> Formula:
    """A law beside continuous variables, with counts that are factors apart.

    If firings change only these, what remains is known until the equations go on.
    """
    orders: dict[int, int] = {}
    text = "1.0"
    for node, above in _factors(expression.tree):
        name = node.id if above and isinstance(node, ast.Name) else ""
        i = network.index.get(name, -1)
        if i >= 0 and i not in orders and not (network.is_continuous[i] or naming.size_of(name)):
            orders[i] = 1
        else:
            text += f" {'*' if above else '/'} ({ast.unparse(node)})"
    if not (orders and naming.continuous):
        return Formula(expression)
    return Formula(Expression(text), orders)


def _as_mass_action(expression: Expression, naming: Naming) -> MassAction | None:
    """The expression as mass action; None if it is not mass action."""
    coefficient: ast.expr = ast.Constant(1.0)
    offsets: dict[str, list[float]] = {}
    for node, above in _factors(expression.tree):
        if not naming.varies(node):
            operator = ast.Mult() if above else ast.Div()
            coefficient = ast.BinOp(coefficient, operator, node)
            continue
        name, offset = _falling(node)
        if not above or name not in naming.index:
            return None
        size = naming.size_of(name)
        if size is not None:
            if offset or size in naming.index:
                return None
            coefficient = ast.BinOp(coefficient, ast.Div(), ast.Name(size, ast.Load()))
        offsets.setdefault(name, []).append(offset)
    orders = {}
    for name, found in offsets.items():
        if sorted(found) != list(range(len(found))):
            return None
        orders[naming.index[name]] = len(found)
    return MassAction(Expression(ast.unparse(coefficient)), orders)


def _factors(node: ast.expr, above: bool = True) -> list[tuple[ast.expr, bool]]:
    """Factors of a product, each with whether it is in the numerator."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left, above) + _factors(node.right, above)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _factors(node.left, above) + _factors(node.right, not above)
    return [(node, above)]


def _falling(node: ast.expr) -> tuple[str, float]:
    """Name and number of a factor ``n - number``; an empty name for anything else."""
    if isinstance(node, ast.Name):
        return node.id, 0.0
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Name)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, float)
    ):
        return node.left.id, node.right.value
    return "", 0.0


# ---- time in formulas


def breaks_of(expression: Expression) -> tuple[list[Expression], bool]:
    """Times at which comparisons with ``time`` change, and whether time has no other effect.

    If it has none, the formula does not depend on time between those times.
    """
    found: list[Expression] = []
    outside = False

    def visit(node: ast.AST) -> None:
        nonlocal outside
        if isinstance(node, ast.Compare) and _uses_time(node):
            sides = [node.left, *node.comparators]
            for left, right in zip(sides, sides[1:], strict=False):
                if not (_uses_time(left) or _uses_time(right)):
                    continue
                line = _linear(ast.BinOp(left, ast.Sub(), right))
                if line is None or line[0] is None:
                    visit(left)  # a side may itself change at comparisons only
                    visit(right)
                    continue
                root = ast.BinOp(ast.UnaryOp(ast.USub(), line[1]), ast.Div(), line[0])
                found.append(Expression(ast.unparse(root)))
        elif isinstance(node, ast.Name) and node.id == TIME:
            outside = True
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(expression.tree)
    return found, not outside


def _uses_time(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) and part.id == TIME for part in ast.walk(node))


def _linear(node: ast.expr) -> tuple[ast.expr | None, ast.expr] | None:
    """Slope and intercept of an expression that is linear in time; None if it is not linear."""
    if not _uses_time(node):
        return None, node
    if isinstance(node, ast.Name):
        return ast.Constant(1.0), ast.Constant(0.0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _linear(node.operand)
        if inner is None or inner[0] is None:
            return None
        return ast.UnaryOp(ast.USub(), inner[0]), ast.UnaryOp(ast.USub(), inner[1])
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _linear(node.left), _linear(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add | ast.Sub):
        slope: ast.expr | None
        if left[0] is None or right[0] is None:
            slope = left[0] or right[0]
            if left[0] is None and isinstance(node.op, ast.Sub):
                assert slope is not None
                slope = ast.UnaryOp(ast.USub(), slope)
        else:
            slope = ast.BinOp(left[0], node.op, right[0])
        return slope, ast.BinOp(left[1], node.op, right[1])
    if isinstance(node.op, ast.Mult) and (left[0] is None or right[0] is None):
        constant, line = (left[1], right) if left[0] is None else (right[1], left)
        assert line[0] is not None
        return (ast.BinOp(line[0], ast.Mult(), constant), ast.BinOp(line[1], ast.Mult(), constant))
    if isinstance(node.op, ast.Div) and right[0] is None and left[0] is not None:
        return (ast.BinOp(left[0], ast.Div(), right[1]), ast.BinOp(left[1], ast.Div(), right[1]))
    return None


def check_whole(network: ReactionNetwork) -> None:
    """Refuse a stoichiometry that is not an integer, except of a deterministic reaction.

    Raises a PlanError if a stoichiometry is fractional; the message names the reaction.
    """
    table = network.reactions
    for side in ("reactant", "product"):
        # A stochastic rate constant is one of each choice of whole molecules.
        some = network.flows & ((table.laws != Law.STOCHASTIC) | (side == "product"))
        counts, starts = getattr(table, f"{side}_counts"), getattr(table, f"{side}_starts")
        bad = np.flatnonzero((counts != np.rint(counts)) & ~np.repeat(some, np.diff(starts)))
        if bad.size:
            k = int(np.searchsorted(starts, bad[0], side="right")) - 1
            raise PlanError(
                f"reaction '{table.name_of(k)}' has the stoichiometry {counts[bad[0]]:g}; molecules"
                " come in whole numbers"
            )
