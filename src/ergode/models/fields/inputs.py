"""Inputs of fields of named variables: interpolants that their functions call as ``c.drive(t)``.

A function receives all that differs between trajectories in its parameters.  An input is a further
parameter, whose value is the number of a table: one, or one for each trajectory.  Two more
parameters hold the address of all tables.  Kernels therefore depend on no table, and what passes
parameters on - events, observables, derivatives - passes inputs on.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ergode.core.arguments import within_rounding
from ergode.core.compiler.syntax import as_function, function_from_text, outer_value
from ergode.core.devices import Device
from ergode.core.errors import ModelError, PlanError
from ergode.core.math import tables
from ergode.core.words import counted
from ergode.models.fields.functions import check_form, check_function
from ergode.models.fields.interpolants import Interpolant
from ergode.models.sweep import Implied

_READ = "ergode_input"


class Input(Implied):
    """The parameter of an input."""

    tables: tuple[Interpolant, ...]
    number: int  # among the inputs of its field
    is_forcing = False  # whether it is called with the time, so that its knots are times
    is_shifted = False  # whether the field calls it with something else, and it has steps
    is_backward = False  # whether time runs backward

    @property
    def has_steps(self) -> bool:
        """Whether the input jumps."""
        return any(one.kind == "steps" for one in self.tables)

    def reversed(self) -> Input:
        """The same input where time runs backward."""
        made = Input(self)
        vars(made).update(vars(self) | {"is_backward": not self.is_backward})
        return made


class Address(Implied):
    """One of the two parameters with the address of all tables."""

    value = 0.0


def with_inputs(constants: Any, parameters: Sequence[str], variables: Sequence[str]) -> Any:
    """The parameters of a field, and those of the inputs among its constants.

    Raises a ModelError if a constant is not an interpolant or a list of them.
    """
    if constants is None:
        return tuple(parameters)
    if not isinstance(constants, Mapping):
        raise ModelError(f"constants is {type(constants).__name__}; expected interpolants by name")
    known = {str(one) for one in parameters if isinstance(one, Input)}
    own = [one for one in parameters if not isinstance(one, Implied)]
    found = [one for one in parameters if isinstance(one, Input)]
    for name, given in constants.items():
        if name in known:
            continue
        if not isinstance(name, str) or not name.isidentifier():
            raise ModelError(f"constants has {name!r}; expected Python identifiers")
        if name in (*own, *variables):
            raise ModelError(f"'{name}' is a constant and a variable or parameter")
        several = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not several or not all(isinstance(one, Interpolant) for one in several):
            raise ModelError(
                f"constant '{name}' is {type(given).__name__}; expected an ergode.interpolant, or "
                "a list of them, one for each trajectory (numbers are parameters; arrays are for "
                "variables that are arrays)"
            )
        one = Input(name)
        one.tables, one.number = several, len(found)
        one.value = 0.0 if len(several) == 1 else np.arange(float(len(several)))
        found.append(one)
    addresses = [Address(f"address of tables {k}") for k in (1, 2)] if found else []
    return (*own, *found, *addresses)


def inputs_among(parameters: Sequence[str]) -> tuple[Input, ...]:
    """The inputs among the parameters of a field."""
    return tuple(one for one in parameters if isinstance(one, Input))


def ready(
    function: Any, arguments: Mapping[str, int | None], returned: Sequence[str] | None, what: str,
    parameters: Sequence[str],
) -> Any:  # fmt: skip
    """A user's function, checked, in the form that is compiled: it calls no inputs.

    `arguments` and `returned` are as for `check_function`.  A function that calls inputs has one
    argument more, the last one.
    """
    inputs = inputs_among(parameters)
    plain = as_function(function)
    count = len(inspect.signature(plain).parameters) if isinstance(plain, FunctionType) else 0
    if not inputs or count != len(arguments) + 1:
        check_function(function, arguments, returned, what)
        return function
    own = sum(not isinstance(one, Implied) for one in parameters)
    known = SimpleNamespace(**{one: one.tables[0] for one in inputs})
    whole = {**arguments, "p": own, "c": known}
    check_function(function, whole, returned, what)  # type: ignore[arg-type]
    plain, tree = check_form(function, whole, what)
    names = [one.arg for one in tree.args.args]
    roles = dict(zip(whole, names, strict=True))
    tree = _Calls(plain.__name__, roles, inputs, parameters, what == "function").visit(tree)
    tree.args.args.pop()
    ast.fix_missing_locations(tree)
    used = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    outer = {name: outer_value(plain, name) for name in used - {*plain.__code__.co_varnames}}
    values = {name: one[0] for name, one in outer.items() if one}
    return function_from_text(ast.unparse(tree) + "\n", {**values, _READ: tables.input_value})


class _Calls(ast.NodeTransformer):
    """Replaces ``c.drive(t)`` by a function of the parameters."""

    def __init__(
        self, function: str, roles: Mapping[str, str], inputs: Sequence[Input],
        parameters: Sequence[str], is_field: bool,
    ) -> None:  # fmt: skip
        self.function, self.roles, self.is_field = function, roles, is_field
        self.inputs, self.parameters = {str(one): one for one in inputs}, list(parameters)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.roles["c"]:
            raise ModelError(f"function '{self.function}' uses {node.id} as a whole")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called, c = node.func, self.roles["c"]
        if not (
            isinstance(called, ast.Attribute)
            and isinstance(called.value, ast.Name)
            and called.value.id == c
        ):
            return self.generic_visit(node)
        one = self.inputs.get(called.attr)
        if one is None or len(node.args) != 1 or node.keywords:
            known = ", ".join(f"{c}.{name}" for name in self.inputs)
            raise ModelError(
                f"function '{self.function}' calls {ast.unparse(node)}; expected one of {known}, "
                "and a time"
            )
        time = node.args[0]
        if isinstance(time, ast.Name) and time.id in (self.roles.get("t"), self.roles.get("t1")):
            one.is_forcing = True
        elif self.is_field and one.has_steps:
            one.is_shifted = True
        places = [self.parameters.index(one)]
        places += [i for i, name in enumerate(self.parameters) if isinstance(name, Address)]
        rows: list[ast.expr] = [
            ast.Subscript(ast.Name(self.roles["p"], ast.Load()), ast.Constant(i), ast.Load())
            for i in places
        ]
        first = ast.Constant(float(one.number))
        return ast.Call(ast.Name(_READ, ast.Load()), [first, *rows, self.visit(time)], [])


def check_inputs(
    parameters: Sequence[str], rows: Mapping[str, np.ndarray], grid: np.ndarray
) -> None:
    """Refuse numbers of tables that there are not, and a run beyond a table.

    Raises a ModelError that names the input.
    """
    for one in inputs_among(parameters):
        for chosen in _chosen(one, rows[one]):
            low, high = one.tables[chosen].reach
            here = within_rounding(grid, low, high)
            if one.is_forcing and (low > here.min() or high < here.max()):
                of = f" of trajectory {chosen}" if len(one.tables) > 1 else ""
                raise ModelError(
                    f"constant '{one}' is a table{of} from {low:.12g} to {high:.12g}, but times "
                    f"are from {grid[0]:.12g} to {grid[-1]:.12g}"
                )


def _chosen(one: Input, row: np.ndarray) -> list[int]:
    numbers = np.unique(row)
    if (numbers != np.floor(numbers)).any() or numbers[0] < 0 or numbers[-1] >= len(one.tables):
        raise ModelError(
            f"parameters of '{one}' are numbers of tables, and it has "
            f"{counted(len(one.tables), 'table')}; expected whole numbers from 0"
        )
    return [int(number) for number in numbers]


def knots_within(parameters: Sequence[str], grid: np.ndarray) -> np.ndarray:
    """Knots of all tables during a run; after one at which an input jumps, a second one."""
    found = [np.zeros(0)]
    for one in inputs_among(parameters):
        for table in one.tables if one.is_forcing else ():
            knots = table.times
            if table.period is not None:
                turns = np.floor((np.array([grid.min(), grid.max()]) - knots[0]) / table.period)
                starts = table.period * np.arange(turns[0], turns[1] + 1.0)
                knots = np.add.outer(starts, knots).ravel()
            knots = -knots if one.is_backward else knots
            scale = np.abs(table.times).max() + (table.period or 0.0)
            after = knots + 256.0 * np.finfo(float).eps * (np.abs(knots) + scale)
            found += [knots, after] if table.kind == "steps" else [knots]
    return np.unique(np.concatenate(found))


class Tables:
    """The tables of a field's inputs on a device."""

    def __init__(self, parameters: Sequence[str], device: Device, precision: str) -> None:
        self._inputs = inputs_among(parameters)
        self._rows = [list(parameters).index(one) for one in self._inputs]
        self._address = [i for i, one in enumerate(parameters) if isinstance(one, Address)]
        if not self._inputs:
            return
        numbers = _numbers(self._inputs)
        if precision == "float32" and numbers.size > 2**24:
            raise PlanError("tables of inputs have more than 2^24 numbers; use float64")
        self._array = device.put(numbers.astype(precision))
        if device.is_cuda:
            address = self._array.__cuda_array_interface__["data"][0]
        else:
            address = self._array.ctypes.data
        self._parts = (address >> 3) >> 24, (address >> 3) & (2**24 - 1)

    def placed(self, parameters: np.ndarray) -> np.ndarray:
        """Parameters [parameter, trajectory] with the address of the tables."""
        if not self._inputs:
            return parameters
        for one, row in zip(self._inputs, self._rows, strict=True):
            _chosen(one, parameters[row])
        parameters = np.array(parameters)
        for row, part in zip(self._address, self._parts, strict=True):
            parameters[row] = part
        return parameters


def _numbers(inputs: Sequence[Input]) -> np.ndarray:
    """The numbers that `tables.input_value` reads."""
    parts: list[np.ndarray] = []
    lists, at = [], len(inputs)
    for one in inputs:
        lists.append(at)
        places, inside = [], at + 1 + len(one.tables)
        bodies = [_table(table, one.is_backward) for table in one.tables]
        for body in bodies:
            places.append(inside)
            inside += body.size
        parts += [np.array([len(places), *places], float), *bodies]
        at = inside
    return np.concatenate([np.array(lists, float), *parts])


def _table(one: Interpolant, is_backward: bool) -> np.ndarray:
    rows, ends, period = one.table[:-1], one.table[1:, 0], one.period or 0.0
    if is_backward:
        shift = ends - rows[:, 0]
        c0, c1, c2, c3 = rows[:, 1:].T
        turned = np.stack([
            -ends, ((c3 * shift + c2) * shift + c1) * shift + c0,
            -((3.0 * c3 * shift + 2.0 * c2) * shift + c1), 3.0 * c3 * shift + c2, -c3,
        ])  # fmt: skip
        rows = turned.T[::-1]
    scale = float(np.abs(one.table[:, 0]).max()) + period
    way = -1.0 if is_backward else 1.0
    head = [len(rows), period, rows[0, 0], scale, way]
    return np.concatenate([head, rows.ravel()])
