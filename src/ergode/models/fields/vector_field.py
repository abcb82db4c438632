"""Vector fields: the right-hand side of a differential equation, in plain scalar Python."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.compiler import bundle
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.compiler.syntax import as_function, syntax
from ergode.core.errors import ModelError
from ergode.core.notebook import card
from ergode.models.fields.delay import Delay

_NOT_SCALAR = {
    ast.List: "a list",
    ast.ListComp: "a list",
    ast.Dict: "a dict",
    ast.DictComp: "a dict",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.Lambda: "a lambda",
    ast.FunctionDef: "a function inside a function",
    ast.ClassDef: "a class",
    ast.Try: "try",
    ast.With: "with",
    ast.Raise: "raise",
    ast.JoinedStr: "text",
    ast.Yield: "yield",
    ast.Await: "await",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Import: "import",
    ast.ImportFrom: "import",
}


@dataclass(frozen=True)
class VectorField(HoldsFunctions):
    """A system of ordinary or delay differential equations, y' = f(t, y, y(t - delay), p).

    Parameters
    ----------
    function : function
        ``f(t, y, p)``, or with delays ``f(t, y, yd, p)``, that returns a tuple with the derivative
        of each variable [variable / time]. ``y`` and ``p`` are indexed in the order of
        `variables` and `parameters`; ``yd[k]`` is the variable of the k-th pair of `delays`, that
        delay ago. It works on single numbers: arithmetic, comparisons, `math`, and other
        functions of this kind. Whole numbers are real numbers, also those of `int`, except as
        indices, bounds of ranges and operands of bit operators. An index beyond the end of a table
        gives NaN. It is compiled, and never called by Python. Its source must be in
        a file or a notebook cell; a lambda, a closure over numbers and a `functools.partial` will
        do. The field pickles with this source.
    variables : sequence of str
        Names of the state variables.
    parameters : sequence of str
        Names of the parameters.
    delays : sequence of (str, str or Delay)
        Pairs of a variable and the parameter that is its delay [time], or an `ergode.Delay` that
        depends on the state.
    diffusion : function, optional
        Of the same form as `function`: makes the equation stochastic, dy_i = f_i dt + g_i dW_i,
        with a Wiener process of its own for every variable; it returns the g_i
        [variable / time^(1/2)]. Where one depends on another variable or a delayed value,
        trajectories need ``method="euler-maruyama"``.

    Raises
    ------
    ModelError
        A name is repeated or unknown, or the function is not of this form; the message says
        where.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> ergode.VectorField(decay, variables=["y"], parameters=["rate"]).variables
    ('y',)
    """

    function: Callable[..., tuple[Any, ...]]
    variables: Sequence[str]
    parameters: Sequence[str] = ()
    delays: Sequence[tuple[str, str | Delay]] = ()
    diffusion: Callable[..., tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("variables", "parameters"):
            object.__setattr__(self, what, _names(what, getattr(self, what)))
        if not self.variables:
            raise ModelError("variables is empty; a vector field has at least one variable")
        shared = set(self.variables) & set(self.parameters)
        if shared:
            raise ModelError(f"'{min(shared)}' is both a variable and a parameter")
        object.__setattr__(self, "delays", tuple(map(self._delay, self.delays)))
        tuples = {"y": self.variables, "yd": self.delays, "p": self.parameters}
        if not self.delays:
            del tuples["yd"]
        lengths = {"t": None, **{name: len(names) for name, names in tuples.items()}}
        check_function(self.function, lengths, self.variables)
        if self.diffusion is not None:
            check_function(self.diffusion, lengths, self.variables, "diffusion")

    def _delay(self, pair: Any) -> tuple[str, str | Delay]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ModelError(
                f"delays has {pair!r}; expected pairs of a variable and the parameter that is its "
                "delay, such as ('y', 'tau')"
            )
        variable, delay = pair
        named = [(variable, self.variables, "variable")]
        if isinstance(delay, Delay):
            lengths = {"t": None, "y": len(self.variables), "p": len(self.parameters)}
            check_function(delay.function, lengths, None, f"delay of '{variable}'")
            bounds = (delay.least, delay.most)
            named += [(name, self.parameters, "parameter") for name in bounds if _is_text(name)]
            numbers = [float(value) for value in bounds if not isinstance(value, str)]
            if not all(0 < value < math.inf for value in numbers) or (
                len(numbers) == 2 and numbers[0] >= numbers[1]
            ):
                raise ModelError(
                    f"delay of '{variable}' is between {delay.least!r} and {delay.most!r}; "
                    "expected positive numbers or parameters, the least first"
                )
        else:
            named.append((delay, self.parameters, "parameter"))
        for name, known, kind in named:
            if name not in known:
                raise ModelError(
                    f"delay {(variable, delay)!r} names the {kind} {name!r}, which is not "
                    f"among the {kind}s: {', '.join(known) or 'none'}"
                )
        return variable, delay

    def _repr_html_(self) -> str:
        facts = {
            "variables": self.variables,
            "parameters": self.parameters or None,
            "delays": ", ".join(
                f"{name} by {'a function' if isinstance(by, Delay) else by}"
                for name, by in self.delays
            )
            or None,
            "noise": "yes" if self.diffusion is not None else None,
        }
        return card(f"VectorField {self.function.__name__}", facts)

    @property
    def state_dependent(self) -> bool:
        """Whether any delay depends on the state."""
        return any(isinstance(delay, Delay) for _, delay in self.delays)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of all that is compiled, kept in the attributes of every result."""
        delays = [
            (name, [bundle.formula_text(delay.function), delay.least, delay.most])
            if isinstance(delay, Delay)
            else (name, delay)
            for name, delay in self.delays
        ]
        names = json.dumps([self.variables, self.parameters, delays])
        text = names + bundle.formula_text(self.function)
        if self.diffusion is not None:
            text += bundle.formula_text(self.diffusion)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_function(
    function: Any,
    arguments: Mapping[str, int | None],
    variables: Sequence[str] | None,
    what: str = "function",
) -> None:
    """Refuse a function that cannot be compiled to one number for each variable.

    Parameters
    ----------
    function : object
        What the user gave.
    arguments : mapping of str to int or None
        What it is called with: None for a number, else the length of a tuple.
    variables : sequence of str, optional
        What its own tuple holds; it returns a number if not given.
    what : str
        What the user calls it.

    Raises
    ------
    ModelError
        It is not a function, or of another form; the message says which, in one line.
    """
    function = as_function(function)
    if not isinstance(function, FunctionType):
        raise ModelError(f"{what} is {function!r}; expected a function")
    name = function.__name__
    tree = syntax(function)
    _check_signature(function, arguments, what)
    returned = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    if not returned:
        expected = "a number" if variables is None else _tuple_of(variables)
        raise ModelError(f"function '{name}' returns nothing; expected {expected}")
    for node in returned:
        if variables is not None:
            _check_return(name, node.value, variables)
        elif node.value is None or isinstance(node.value, ast.Tuple | ast.List | ast.Dict):
            found = ast.unparse(node.value) if node.value is not None else "nothing"
            raise ModelError(f"function '{name}' returns {found}; expected a number")
        elif _is_condition(node.value):
            raise ModelError(
                f"function '{name}' returns a condition, {ast.unparse(node.value)}; expected a "
                "number that changes its sign there, such as the difference a - b instead of a > b"
            )
    for part in ast.walk(tree):
        if part is not tree and type(part) in _NOT_SCALAR:
            raise ModelError(
                f"function '{name}' uses {_NOT_SCALAR[type(part)]} (line "
                f"{getattr(part, 'lineno', 1)} of it); expected arithmetic on single numbers"
            )
    _check_indices(tree, arguments)
    bundle.formula_text(function)  # that every name is one that can be compiled
    _try(function, arguments, variables)


def _check_signature(
    function: FunctionType, arguments: Mapping[str, int | None], what: str
) -> None:
    """Refuse other arguments than these."""
    parameters = [*inspect.signature(function).parameters.values()]
    if len(parameters) == len(arguments) and all(
        p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters
    ):
        return
    name = function.__name__
    more = ""
    if len(parameters) == 4 and list(arguments) == ["t", "y", "p"]:
        more = (
            f" - or say which delays there are, or bind '{parameters[3].name}' with "
            "functools.partial"
        )
    free = [p for p in parameters[len(arguments) :] if p.kind is not p.VAR_KEYWORD]
    if free and all(p.default is not p.empty for p in free):
        bound = ", ".join(f"{p.name}={p.default!r}" for p in free)
        more = f"; bind what else it takes: functools.partial({name}, {bound})"
    elif free and len(parameters) > 4:
        names = ", ".join(p.name for p in free)
        more = f"; bind what else it takes, {names}, with functools.partial"
    raise ModelError(
        f"{what} is {name}{inspect.signature(function)}; expected {name}({', '.join(arguments)})"
        f"{more}"
    )


def _check_indices(tree: ast.FunctionDef, arguments: Mapping[str, int | None]) -> None:
    """Refuse an index beyond the end of an argument, which compiled code would not notice."""
    role = dict(zip((one.arg for one in tree.args.args), arguments, strict=True))
    kinds = {"y": "variable", "y1": "variable", "yd": "delay", "p": "parameter"}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
            continue
        which = role.get(node.value.id, "")
        length = arguments.get(which)
        index = _whole_constant(node.slice)
        if length is not None and index is not None and not -length <= index < length:
            raise ModelError(
                f"function '{tree.name}' uses {ast.unparse(node)}, but there "
                f"{_count(length, kinds.get(which, 'value'), verb=True)}"
            )


def _whole_constant(node: ast.expr) -> int | None:
    """The whole number that an index is, if it is one."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _is_condition(node: ast.expr) -> bool:
    """Whether an expression is true or false, or one and zero for these."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_condition, node.values))
    if isinstance(node, ast.IfExp):
        ends = [node.body, node.orelse]
        return all(isinstance(one, ast.Constant) for one in ends) and any(
            isinstance(one, ast.Constant) and one.value == 0 for one in ends
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        converted = node.func.id in ("bool", "float", "int") and len(node.args) == 1
        return converted and _is_condition(node.args[0])
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negation or isinstance(node, ast.Compare)


def _check_return(name: str, value: ast.expr | None, variables: Sequence[str]) -> None:
    expected = f"expected a tuple, {_tuple_of(variables)}"
    if type(value) in _NOT_SCALAR:
        raise ModelError(f"function '{name}' returns {_NOT_SCALAR[type(value)]}; {expected}")
    if value is None or isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Subscript):
        found = ast.unparse(value) if value is not None else "nothing"
        raise ModelError(f"function '{name}' returns {found}; {expected}")
    if isinstance(value, ast.Tuple):
        _check_length(name, len(value.elts), variables)


def _try(
    function: FunctionType,
    arguments: Mapping[str, int | None],
    variables: Sequence[str] | None,
) -> None:
    """Look at what the function returns, for its text does not tell all."""
    name = function.__name__
    trial = [0.5 if length is None else (0.5,) * length for length in arguments.values()]
    try:
        value = function(*trial)
    except (ArithmeticError, ValueError, IndexError):
        return  # not defined for such numbers, or what is asked about next
    except Exception as error:
        raise ModelError(f"function '{name}' failed: {type(error).__name__}: {error}") from None
    kind = type(value).__name__
    if variables is None:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
            raise ModelError(f"function '{name}' returns {value!r}, a {kind}; expected a number")
        return
    if not isinstance(value, tuple):
        raise ModelError(
            f"function '{name}' returns a {kind}; expected a tuple, {_tuple_of(variables)}"
        )
    _check_length(name, len(value), variables)
    for variable, one in zip(variables, value, strict=True):
        if not isinstance(one, int | float | np.number):
            raise ModelError(
                f"function '{name}' returns {one!r} for '{variable}'; expected a real number"
            )


def _check_length(name: str, length: int, variables: Sequence[str]) -> None:
    if length == len(variables):
        return
    missing = ", ".join(f"'{variable}'" for variable in variables[length:])
    raise ModelError(
        f"function '{name}' returns {_count(length, 'value')} for "
        f"{_count(len(variables), 'variable')}: "
        f"{f'none is for {missing}' if missing else 'there are too many'}; expected "
        f"{_tuple_of(variables)}"
    )


def _count(count: int, noun: str, verb: bool = False) -> str:
    words = f"{count} {noun}" if count == 1 else f"{count} {noun}s"
    return f"{'is' if count == 1 else 'are'} {words}" if verb else words


def _tuple_of(variables: Sequence[str]) -> str:
    inner = ", ".join(f"d{variable}/dt" for variable in variables)
    return f"({inner},)" if len(variables) == 1 else f"({inner})"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _names(what: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ModelError(f"{what} is {names!r}; expected a sequence of names, such as [{names!r}]")
    result = tuple(names)
    for name in result:
        if not isinstance(name, str) or not name:
            raise ModelError(f"{what} has {name!r}; expected names")
        if result.count(name) > 1:
            raise ModelError(f"{what} has '{name}' twice")
    return result
