"""Fields whose variables are arrays: their shapes, their functions, and the data they read.

A user writes ``y.u[i, j]``, ``c.drive(t)`` and ``c.A[i] @ y``.  The compiled function takes tuples
of arrays, and names become indices: ``y[0][i, j]``, an interpolation in a table, a dot product.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.arguments import within_rounding
from ergode.core.compiler import bundle
from ergode.core.compiler.syntax import function_from_text, outer_value, syntax
from ergode.core.errors import ModelError
from ergode.core.math import tables
from ergode.models.fields.computed_indices import FUNCTIONS, with_checks
from ergode.models.fields.functions import (
    check_form,
    check_function,
    check_parts,
    whole_constant,
)
from ergode.models.fields.interpolants import Interpolant
from ergode.models.fields.trial import Trial

_INDICES = ("i", "j", "k", "l")
# Prefixes of generated names in compiled functions.
_INTERPOLATED, _DOT = "ergode_interpolated", "ergode_dot"


@dataclass(frozen=True, eq=False)
class ArrayField:
    """The array variables of a field, and the functions of their derivatives."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]  # of each variable, one to four lengths
    # one for each variable, ``rate(i, ..., t, y, p)``, or with constants ``(..., p, c)``; or where
    # `in_place` the only one, ``rhs(t, y, dy, p)``.  `y` is an array where `is_single`, and else a
    # tuple of arrays; `c` is a tuple.  With delays `yd`, a tuple of arrays, follows `y`.
    functions: tuple[FunctionType, ...]
    in_place: bool
    is_single: bool
    dims: tuple[tuple[str, ...], ...]  # dims of each variable in results
    constants: tuple[np.ndarray, ...]  # float64 or int64; an interpolant is given by its table
    recorded: dict[str, Interpolant]  # interpolants that are evaluated at the time of the run
    data: Mapping[str, Any]  # the constants by name
    # one for each variable, ``amplitude(i, ..., t, y, p)``; () without noise
    noise: tuple[FunctionType, ...] = ()
    # of each delay the number of its variable, and of the parameter that is the delay
    delays: tuple[tuple[int, int], ...] = ()
    is_backward: bool = False  # whether derivatives are with respect to reversed time
    further_knots: tuple[float, ...] = ()  # of inputs of named variables that are taken as an array

    @cached_property
    def begins(self) -> np.ndarray:
        """Index of the first unknown of each variable, and the number of unknowns."""
        sizes = [math.prod(shape) for shape in self.shapes]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return int(self.begins[-1])

    @property
    def knots(self) -> np.ndarray:
        """Times of the knots of recorded data, ascending."""
        sign = -1.0 if self.is_backward else 1.0
        found = [sign * one.times for one in self.recorded.values()]
        return np.unique(np.concatenate([*found, self.further_knots]))

    @cached_property
    def content(self) -> str:
        """Data that determine the equations, for a digest."""
        data = [(one.shape, one.dtype.str, hashlib.sha256(one.tobytes()).hexdigest())
                for one in self.constants]  # fmt: skip
        texts = [bundle.formula_text(function) for function in (*self.functions, *self.noise)]
        late = [self.delays] if self.delays else []
        return json.dumps(
            [self.names, self.shapes, self.in_place, self.is_single, data, texts, *late]
        )

    def views(self, state: np.ndarray) -> list[np.ndarray]:
        """The variables of a flat `state`, shape [..., unknown], each in its shape."""
        return [
            state[..., begin : begin + math.prod(shape)].reshape(*state.shape[:-1], *shape)
            for begin, shape in zip(self.begins, self.shapes, strict=False)
        ]

    def reader(self, parameter_count: int) -> Reader:
        """What checks further functions of the arrays."""
        late = [v for v, _ in self.delays]
        return Reader(self.by_name, self.is_single, parameter_count, self.data, late)

    @property
    def by_name(self) -> dict[str, tuple[int, ...]]:
        """Shape of each variable."""
        return dict(zip(self.names, self.shapes, strict=True))

    def also(self, recorded: Mapping[str, Interpolant]) -> ArrayField:
        """The same arrays in a run that evaluates these interpolants as well."""
        return replace(self, recorded={**self.recorded, **recorded})

    def check_times(self, grid: np.ndarray) -> None:
        """Refuse a run that goes beyond a recorded table.

        Raises a ModelError if it does; the message names the table.
        """
        for name, one in self.recorded.items():
            here = within_rounding(grid, one.times[0], one.times[-1])
            if one.times[0] > here.min() or one.times[-1] < here.max():
                raise ModelError(
                    f"constant '{name}' is a table from {one.times[0]:.12g} to "
                    f"{one.times[-1]:.12g}, but times are from {grid[0]:.12g} to {grid[-1]:.12g}"
                )


def array_field(
    variables: Any, parameters: Sequence[str], component: Any, rhs: Any, constants: Any,
    diffusion: Any = None, delays: Sequence[tuple[str, Any]] = (),
) -> ArrayField:  # fmt: skip
    """The array variables of a `VectorField`, checked.

    Raises a ModelError if a shape, a function or a constant is invalid.
    """
    if component is not None and rhs is not None:
        raise ModelError("component and rhs are both given; expected one of them")
    is_single = not isinstance(variables, Mapping)
    shapes = _shapes(variables)
    data = _constants(constants, {*shapes, *parameters})
    names = list(shapes)
    late = tuple((names.index(name), [*parameters].index(tau)) for name, tau in delays)
    reader = Reader(shapes, is_single, len(parameters), data, [v for v, _ in late])
    if rhs is not None:
        functions: tuple[FunctionType, ...] = (reader.in_place(rhs),)
        dims = tuple(_INDICES[: len(shape)] for shape in shapes.values())
    else:
        given = by_variable("component", component, shapes, is_single)
        functions, dims = zip(*(reader.component(one, name, f"component of '{name}'")
                                for name, one in given.items()), strict=True)  # fmt: skip
    noise: tuple[FunctionType, ...] = ()
    if diffusion is not None:
        given = by_variable("diffusion", diffusion, shapes, is_single)
        noise = tuple(
            constant(
                one,
                [*_INDICES[: len(shapes[name])], "t", "y", *reader.last],
                f"diffusion of '{name}'",
            )
            if isinstance(one, int | float | np.number)
            else reader.component(one, name, f"diffusion of '{name}'")[0]
            for name, one in given.items()
        )
    values = tuple(one.table if isinstance(one, Interpolant) else one for one in data.values())
    return ArrayField(
        tuple(shapes), tuple(shapes.values()), functions, rhs is not None, is_single,
        _distinct(shapes, dims, parameters), values, reader.recorded, data, noise, late,
    )  # fmt: skip


def names_of_arrays(variables: Any) -> list[str]:
    """Names of the array variables of a `VectorField`, checked."""
    return list(_shapes(variables))


class Reader:
    """Checks functions of the arrays of a field, and makes their compiled forms.

    Attributes
    ----------
    recorded : dict of str to Interpolant
        Interpolants that any of them evaluates at the time of the run.
    last : dict of str to int
        Last arguments of every function, and their lengths.
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], is_single: bool, parameter_count: int,
        data: Mapping[str, Any], late: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._shapes, self._is_single, self._data = shapes, is_single, data
        self._late = {"yd": len(late)} if late else {}
        self.last = {"p": parameter_count, **({"c": 0} if data else {})}
        self._trial = Trial(shapes, is_single, parameter_count, data, late)
        self.recorded: dict[str, Interpolant] = {}

    def component(
        self, function: Any, name: str, what: str
    ) -> tuple[FunctionType, tuple[str, ...]]:
        """A function of one unknown of an array, and the names of its indices."""
        indices = _INDICES[: len(self._shapes[name])]
        expected = {**dict.fromkeys(indices), "t": None, "y": None, **self._late, **self.last}
        check_function(function, expected, None, what, tries=False)
        made, function, own = self._compiled(function, expected, what, len(indices))
        self._trial.component(function, name, what)
        return made, own

    def history(self, function: Any, name: str, begin: float) -> FunctionType:
        """A function of the history of an array, ``history(i, t)``, before the time `begin`."""
        what = f"history of '{name}'"
        indices = _INDICES[: len(self._shapes[name])]
        arguments = [*indices, "t", *[one for one in self.last if one == "c"]]
        if isinstance(function, int | float | np.number):
            return constant(function, arguments, what)
        expected = dict.fromkeys(arguments)
        check_function(function, expected, None, what, tries=False)
        made, function, _ = self._compiled(function, expected, what, len(indices))
        self._trial.history(function, name, what, begin)
        return made

    def in_place(self, function: Any) -> FunctionType:
        """A function that sets all derivatives."""
        expected = {"t": None, "y": 0, **self._late, "dy": 0, **self.last}
        made, function, _ = self._compiled(function, expected, "rhs")
        _check_in_place(function, "dy")
        self._trial.whole(function)
        return made

    def of_state(self, function: Any, what: str) -> FunctionType:
        """A function of the whole state, ``g(t, y, p)``, that returns a number."""
        expected = {"t": None, "y": None, **self._late, **self.last}
        check_function(function, expected, None, what, tries=False)
        made, function, _ = self._compiled(function, expected, what)
        self._trial.of_state(function, what)
        return made

    def change(self, function: Any, what: str) -> FunctionType:
        """A function that changes the state in place, ``effect(t, y, p)``."""
        made, function, _ = self._compiled(function, {"t": None, "y": None, **self.last}, what)
        _check_in_place(function, "y")
        self._trial.change(function, what)
        return made

    def _compiled(
        self, function: Any, expected: Mapping[str, Any], what: str, indices: int = 0
    ) -> tuple[FunctionType, FunctionType, tuple[str, ...]]:
        """The compiled form of a function, the function, and the names of its indices."""
        function, tree = check_form(function, expected, what)
        own = [argument.arg for argument in tree.args.args]
        roles = dict(zip(own, expected, strict=True))
        names = () if self._is_single else tuple(self._shapes)
        places = _Places(function.__name__, roles, names, self._data)
        counters = tuple(own[:indices])
        self._check_constant_indices(tree, roles)
        tree = with_checks(tree, roles, self._shapes, self._data)
        made = _compiled_form(function, places.visit(tree), counters)
        self.recorded.update({one: self._data[one] for one in places.recorded})
        return made, function, counters

    def _check_constant_indices(self, tree: ast.FunctionDef, roles: Mapping[str, str]) -> None:
        """Refuse an index beyond the end of an array: compiled code does not check bounds."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.Subscript):
                continue
            owner = node.value
            array = owner.attr if isinstance(owner, ast.Attribute) else next(iter(self._shapes))
            name = owner.value if isinstance(owner, ast.Attribute) else owner
            role = roles.get(name.id, "") if isinstance(name, ast.Name) else ""
            lengths: tuple[int, ...] = ()
            if role in ("y", "dy"):
                lengths = self._shapes.get(array, ())
            elif role == "c":
                lengths = np.shape(self._data.get(array, 0.0))
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for one, length in zip(indices, lengths, strict=False):
                index = whole_constant(one)
                if index is not None and not -length <= index < length:
                    raise ModelError(
                        f"function '{tree.name}' uses {ast.unparse(node)}, but an index of this "
                        f"array is from 0 to {length - 1}"
                    )


def _shapes(variables: Any) -> dict[str, tuple[int, ...]]:
    pair = isinstance(variables, tuple | list) and len(variables) == 2
    if not isinstance(variables, Mapping) and not (
        pair and isinstance(variables[0], str) and not isinstance(variables[1], str)
    ):
        raise ModelError(
            f"variables is {variables!r}; expected a name and its length or shape, such as "
            "('x', 40), or a mapping such as {'u': (100, 100), 'v': (100, 100)}"
        )
    given = dict(variables) if isinstance(variables, Mapping) else {variables[0]: variables[1]}
    shapes = {}
    for name, shape in given.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ModelError(f"variables has {name!r}; expected Python identifiers")
        lengths = shape if isinstance(shape, tuple | list) else (shape,)
        whole = [isinstance(n, int | np.integer) and not isinstance(n, bool) for n in lengths]
        if not all(whole) or not 1 <= len(lengths) <= 4 or any(n < 1 for n in lengths):
            raise ModelError(
                f"variable '{name}' has shape {shape!r}; expected one to four positive integers"
            )
        shapes[name] = tuple(int(n) for n in lengths)
    if not shapes:
        raise ModelError("variables is empty; a vector field has at least one variable")
    return shapes


def by_variable(
    what: str, given: Any, shapes: Mapping[str, Any], is_single: bool
) -> dict[str, Any]:
    """A function of each variable, by the variable's name."""
    if is_single:
        return {next(iter(shapes)): given}
    if not isinstance(given, Mapping):
        raise ModelError(
            f"{what} is {given!r}; expected a function for each variable: {', '.join(shapes)}"
        )
    for name in [*given, *shapes]:
        if name not in shapes or name not in given:
            missing = "variables" if name not in shapes else what
            raise ModelError(f"{missing} has no '{name}'; {what} and variables have one set of "
                             "names")  # fmt: skip
    return {name: given[name] for name in shapes}


def constant(value: Any, arguments: Sequence[str], what: str) -> FunctionType:
    """A function that returns the number given in its place.

    Raises a ModelError if the number is not finite.
    """
    if isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ModelError(f"{what} is {value!r}; expected a function or a finite number")
    text = f"def constant({', '.join(arguments)}):\n    return {float(value)!r}\n"
    return function_from_text(text, {})


def _constants(constants: Any, taken: set[str]) -> dict[str, Any]:
    if constants is None:
        return {}
    if not isinstance(constants, Mapping):
        raise ModelError(f"constants is {type(constants).__name__}; expected arrays by name")
    found: dict[str, Any] = {}
    for name, value in constants.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ModelError(f"constants has {name!r}; expected Python identifiers")
        if name in taken:
            raise ModelError(f"'{name}' is a constant and a variable or parameter")
        if isinstance(value, Interpolant):
            value.refuse_for_arrays(name)
            found[name] = value
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or not 1 <= array.ndim <= 3 or array.size == 0:
            raise ModelError(
                f"constant '{name}' is {array.dtype}{array.shape}; expected numbers in an array "
                "of one to three dimensions, or an ergode.interpolant (a single number is a "
                "parameter)"
            )
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            where = ", ".join(map(str, bad[0]))
            raise ModelError(
                f"constant '{name}'[{where}] is {array[tuple(bad[0])]}; expected finite numbers"
            )
        kind = np.float64 if array.dtype.kind == "f" else np.int64
        array = np.array(array, kind)
        array.flags.writeable = False
        found[name] = array
    return found


def _distinct(
    shapes: Mapping[str, tuple[int, ...]], dims: Sequence[tuple[str, ...]], taken: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """Dims of results: index names, prefixed by the variable's name where lengths differ."""
    lengths: dict[str, set[int]] = {}
    for shape, names in zip(shapes.values(), dims, strict=True):
        for dim, length in zip(names, shape, strict=True):
            lengths.setdefault(dim, set()).add(length)
    reserved = {
        "time", "trajectory", "event", "hit", "observable", "step", "power", *shapes, *taken
    }  # fmt: skip
    return tuple(
        tuple(f"{name}_{dim}" if len(lengths[dim]) > 1 or dim in reserved else dim for dim in names)
        for name, names in zip(shapes, dims, strict=True)
    )


# ---- functions


class _Places(ast.NodeTransformer):
    """Replaces names of arrays by indices, and reads of tables and rows by function calls."""

    def __init__(
        self, function: str, roles: Mapping[str, str], variables: tuple[str, ...],
        constants: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.function, self.roles, self.constants = function, roles, constants
        self.names = {"y": variables, "dy": variables, "c": tuple(constants)}
        self.recorded: list[str] = []

    def _known(self, node: ast.expr) -> tuple[str, ...]:
        """Names allowed after a name and a dot."""
        return self.names.get(self.roles.get(node.id, ""), ()) if isinstance(node, ast.Name) else ()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if known := self._known(node):
            raise ModelError(
                f"function '{self.function}' uses {node.id} as a whole; expected one of "
                f"{', '.join(f'{node.id}.{name}' for name in known)}"
            )
        if node.id in self.roles and not isinstance(node.ctx, ast.Load):
            raise ModelError(f"function '{self.function}' assigns its argument '{node.id}'")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        role = self.roles.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        known = self._known(node.value)
        if not known:
            if role in ("y", "dy") and node.attr not in ("shape", "size"):
                raise ModelError(
                    f"function '{self.function}' uses {ast.unparse(node)}, but "
                    f"{ast.unparse(node.value)} is the array itself"
                )
            return self.generic_visit(node)
        if node.attr not in known:
            raise ModelError(
                f"function '{self.function}' uses {ast.unparse(node)}; expected one of "
                f"{', '.join(f'{ast.unparse(node.value)}.{name}' for name in known)}"
            )
        if isinstance(self.constants.get(node.attr), Interpolant) and role == "c":
            raise ModelError(
                f"function '{self.function}' uses {ast.unparse(node)} without a time; expected "
                f"{ast.unparse(node)}(t)"
            )
        return ast.Subscript(node.value, ast.Constant(known.index(node.attr)), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        if not (isinstance(called, ast.Attribute) and self._known(called.value)):
            return self.generic_visit(node)
        assert isinstance(called.value, ast.Name)
        if not isinstance(self.constants.get(called.attr), Interpolant) or len(node.args) != 1:
            raise ModelError(
                f"function '{self.function}' calls {ast.unparse(node)}; expected an interpolant "
                "and a time"
            )
        time = node.args[0]
        if isinstance(time, ast.Name) and self.roles.get(time.id) == "t":
            self.recorded.append(called.attr)
        place = self.names["c"].index(called.attr)
        table = ast.Subscript(called.value, ast.Constant(place), ast.Load())
        return ast.Call(ast.Name(_INTERPOLATED, ast.Load()), [table, self.visit(time)], [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if not isinstance(node.op, ast.MatMult):
            return self.generic_visit(node)
        return ast.Call(
            ast.Name(_DOT, ast.Load()), [self.visit(node.left), self.visit(node.right)], []
        )


def _compiled_form(
    function: FunctionType, tree: ast.FunctionDef, counters: Sequence[str]
) -> FunctionType:
    """The function that is compiled instead of a user's function."""
    ast.fix_missing_locations(tree)
    used = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    names = {name: outer_value(function, name) for name in used - {*function.__code__.co_varnames}}
    known = {name: one[0] for name, one in names.items() if one}
    own: dict[str, Any] = {_INTERPOLATED: tables.interpolated, _DOT: tables.dot}
    own |= {name: one for name, one in FUNCTIONS.items() if name in used}
    made = function_from_text(ast.unparse(tree) + "\n", {**known, **own})
    made.counters = tuple(counters)  # type: ignore[attr-defined]
    return made


def _check_in_place(function: FunctionType, what: str) -> None:
    tree = syntax(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            raise ModelError(
                f"function '{function.__name__}' returns {ast.unparse(node.value)}; expected it "
                f"to set elements of {what} and return nothing"
            )
    check_parts(function, tree)
