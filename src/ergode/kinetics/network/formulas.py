"""From formulas of coefficients to programs.

Concentrations enter through sums of species, so that each sum is one direction of the Jacobian. A
part of a formula that is a linear combination of species, such as ``A + 2 * B``, is one sum.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ergode.core.compiler.programs import Operation, Step, depth_of, programs_arrays, steps_of
from ergode.core.compiler.trees import copied
from ergode.core.errors import ModelError
from ergode.kinetics.compositions import molar_masses, on_surface
from ergode.kinetics.tables import DENSITY, FIRST_OF_PARAMETERS, SUNLIGHT, TEMPERATURE, Formulas
from ergode.models.constants import GAS_CONSTANT
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.rate_expression import CONDITIONS
from ergode.models.reactions.thermochemistry import Molecule

Sum = tuple[tuple[str, float], ...]
"""Species and their weights."""


class FormulaGatherer:
    """Gathers the formulas of a network's coefficients."""

    def __init__(self, network: ReactionNetwork, driven: Collection[str]) -> None:
        self._network = network
        moving = set(driven)
        # In rules a species may be an amount.
        sizes = {
            one.name: Expression(f"{one.name} * {one.compartment}")
            for one in network.species
            if one.compartment and one.quantity == "amount" and one.name.isidentifier()
        }
        self._inner = {name: rule.substitute(sizes) for name, rule in network.rules.items()}
        for name in network.parameter_order:
            value = network.parameters.get(name)
            if name not in moving and isinstance(value, Expression) and value.names & moving:
                moving.add(name)
                self._inner[name] = value
        self._moving = frozenset(moving)
        self._driven = {name: k for k, name in enumerate(driven)}
        fixed = (*network.parameters, *(place.name for place in network.compartments))
        self._fixed = frozenset(fixed) - self._moving
        self._parameters: dict[str, int] = {}
        self._sums: list[Sum] = []
        self._reactions: list[int] = []
        self._programs: list[list[Step]] = []
        self._used: list[list[int]] = []  # sums of each formula
        self._names: set[str] = set()

    def follows(self, formula: Expression) -> bool:
        """Whether a formula of parameters changes in time."""
        return bool(formula.names & self._moving)

    def add(self, k: int, formula: Expression) -> None:
        """Add the coefficient of reaction k."""
        network = self._network
        what = f"the rate coefficient of reaction '{network.reactions.name_of(k)}'"
        for _ in self._inner:
            if not formula.names & self._inner.keys():
                break
            formula = formula.substitute(self._inner)
        for name in sorted(formula.names & CONDITIONS):
            self._check_condition(name, what)
        used: list[int] = []

        def sum_of(weights: Sum) -> list[Step]:
            if weights not in self._sums:
                self._sums.append(weights)
            place = self._sums.index(weights)
            if place not in used:
                used.append(place)
            return [(Operation.PARAMETER, place)]

        def steps(name: str) -> Sequence[Step]:
            if name in sums:
                return sum_of(sums[name])
            if name in self._driven:
                return [(Operation.VARIABLE, FIRST_OF_PARAMETERS + self._driven[name])]
            if name in self._fixed:
                first = FIRST_OF_PARAMETERS + len(self._driven)
                place = self._parameters.setdefault(name, len(self._parameters))
                return [(Operation.VARIABLE, first + place)]
            return self._condition(name, sum_of)

        tree, sums = _with_sums(formula, frozenset(network.index))
        self._names |= formula.names
        self._reactions.append(k)
        self._programs.append(steps_of(tree, steps))
        self._used.append(used)

    def _check_condition(self, name: str, what: str) -> None:
        network = self._network
        own = {*network.index, *network.parameters, *network.rules}
        if name in own:
            raise ModelError(
                f"{what} uses '{name}', which is a condition of the zone and a name of the "
                "network; rename it in the network"
            )
        nuclear = all(one.mass_number is not None for one in network.species)
        molecular = all(isinstance(one.thermochemistry, Molecule) for one in network.species)
        if (name == "pressure" and not molecular) or (
            name == "density" and not (nuclear or molecular)
        ):
            having = "molecules with NASA polynomials"
            having = f"nuclei and {having}" if name == "density" else having
            raise ModelError(
                f"{what} uses the {name}, which only {having} have; give a parameter or a sum of "
                "species"
            )

    def _condition(self, name: str, sum_of: Callable[[Sum], list[Step]]) -> list[Step]:
        species = self._network.species
        hot: Step = (Operation.VARIABLE, TEMPERATURE)
        if name == "temperature":
            return [hot]
        if name == "sunlight":
            return [(Operation.VARIABLE, SUNLIGHT)]
        if name == "time":
            return [(Operation.TIME, 0)]
        if name == "pressure":
            gas = zip(species, on_surface(self._network), strict=True)
            every = sum_of(tuple((one.name, 1.0) for one, on in gas if not on))
            constant = (Operation.CONSTANT, GAS_CONSTANT)
            return [*every, constant, (Operation.MULTIPLY, 0), hot, (Operation.MULTIPLY, 0)]
        assert name == "density"
        if isinstance(species[0].thermochemistry, Molecule):
            masses = molar_masses(self._network).tolist()
            return sum_of(tuple((one.name, m) for one, m in zip(species, masses, strict=True)))
        return [(Operation.VARIABLE, DENSITY)]

    @property
    def sums(self) -> list[Sum]:
        """The sums of species, in the order of the programs."""
        return self._sums

    def dependents(self, first_slope: int) -> list[list[tuple[int, int]]]:
        """Reactions that depend on each sum, and the places of their derivatives."""
        found: list[list[tuple[int, int]]] = [[] for _ in self._sums]
        for k, used in zip(self._reactions, self._used, strict=True):
            for place in used:
                found[place].append((k, first_slope))
                first_slope += 1
        return found

    def tables(self, first_sum: int) -> Formulas:
        """Programs and what they read; the sums have rows from `first_sum` on."""
        idle = min(self._driven.keys() - self._names, default=None)
        if idle is not None:
            raise ModelError(
                f"parameter '{idle}' changes in time, and no rate coefficient depends on it"
            )
        arrays = programs_arrays(self._programs)
        counts = [len(used) for used in self._used]
        return Formulas(
            np.array(self._reactions, np.uint32),
            arrays["program_starts"], arrays["operations"], arrays["arguments"],
            arrays["constants"],
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.uint32),
            np.array([place for used in self._used for place in used], np.uint32),
            first_sum,
            FIRST_OF_PARAMETERS + len(self._driven) + len(self._parameters),
            max([1, *map(depth_of, self._programs)]),
            len(self._driven),
            tuple(self._driven),
            tuple(self._parameters),
            frozenset(self._names & {"time", *CONDITIONS}),
        )  # fmt: skip


def _with_sums(formula: Expression, species: Collection[str]) -> tuple[ast.expr, dict[str, Sum]]:
    """The tree of a formula in which names stand for sums of species, and the sums."""
    found: dict[Sum, str] = {}

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            weights = _linear(node, species) if isinstance(node, ast.expr) else None
            if weights is not None:
                key = tuple(sorted(weights.items()))
                # A name with a space is none of the network.
                return ast.Name(found.setdefault(key, f"sum {len(found)}"), ast.Load())
            if isinstance(node, ast.Call):
                return ast.Call(node.func, [self.visit(one) for one in node.args], [])
            return self.generic_visit(node)

    tree = Replace().visit(copied(formula.tree))
    return tree, {name: key for key, name in found.items()}


def _linear(node: ast.AST, species: Collection[str]) -> dict[str, float] | None:
    """Weights of a linear combination of species without a constant; None if it is not one."""
    match node:
        case ast.Name(name) if name in species:
            return {name: 1.0}
        case ast.UnaryOp(ast.USub(), operand):
            return _scaled(_linear(operand, species), -1.0)
        case ast.BinOp(ast.Constant(float(factor)), ast.Mult(), right):
            return _scaled(_linear(right, species), factor)
        case ast.BinOp(left, ast.Mult(), ast.Constant(float(factor))):
            return _scaled(_linear(left, species), factor)
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            second = _linear(right, species)
            first = None if second is None else _linear(left, species)
            if first is None or second is None:
                return None
            sign = 1.0 if isinstance(operator, ast.Add) else -1.0
            for name, weight in second.items():
                first[name] = first.get(name, 0.0) + sign * weight
            return first
    return None


def _scaled(weights: dict[str, float] | None, factor: float) -> dict[str, float] | None:
    return weights and {name: factor * weight for name, weight in weights.items()}
