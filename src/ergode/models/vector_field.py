"""Vector fields: the right-hand side of a differential equation, in plain scalar Python."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from ergode.core import source
from ergode.core.errors import ModelError

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
class VectorField:
    """A system of ordinary or delay differential equations, y' = f(t, y, y(t - delay), p).

    Parameters
    ----------
    function : function
        ``f(t, y, p)``, or with delays ``f(t, y, yd, p)``, that returns a tuple with the derivative
        of each variable [variable / time]. ``y`` and ``p`` are indexed in the order of
        `variables` and `parameters`; ``yd[k]`` is the variable of the k-th pair of `delays`, that
        delay ago. It works on single numbers: arithmetic, comparisons, `math`, and other
        functions of this kind. It is compiled, and never called by Python.
    variables : sequence of str
        Names of the state variables.
    parameters : sequence of str
        Names of the parameters.
    delays : sequence of (str, str)
        Pairs of a variable and the parameter that is its delay [time].

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
    delays: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        for what in ("variables", "parameters"):
            object.__setattr__(self, what, _names(what, getattr(self, what)))
        if not self.variables:
            raise ModelError("variables is empty; a vector field has at least one variable")
        shared = set(self.variables) & set(self.parameters)
        if shared:
            raise ModelError(f"'{min(shared)}' is both a variable and a parameter")
        object.__setattr__(self, "delays", tuple(map(self._delay, self.delays)))
        arguments = ("t", "y", "yd", "p") if self.delays else ("t", "y", "p")
        check_function(self.function, arguments, self.variables)
        self._check_indices(arguments)
        source.formula_text(self.function)

    def _delay(self, pair: Any) -> tuple[str, str]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ModelError(
                f"delays has {pair!r}; expected pairs of a variable and the parameter that is its "
                "delay, such as ('y', 'tau')"
            )
        variable, parameter = pair
        for name, known, kind in (
            (variable, self.variables, "variable"),
            (parameter, self.parameters, "parameter"),
        ):
            if name not in known:
                raise ModelError(
                    f"delay {(variable, parameter)!r} names the {kind} {name!r}, which is not "
                    f"among the {kind}s: {', '.join(known) or 'none'}"
                )
        return variable, parameter

    def _check_indices(self, expected: tuple[str, ...]) -> None:
        """Refuse an index beyond the names, which compiled code would not notice."""
        tree = source.syntax(self.function)
        given = [argument.arg for argument in tree.args.args]
        lengths = {"y": self.variables, "yd": self.delays, "p": self.parameters}
        kinds = {"y": "variable", "yd": "delay", "p": "parameter"}
        role = dict(zip(given, expected, strict=True))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
                continue
            which = role.get(node.value.id, "t")
            index = node.slice.value if isinstance(node.slice, ast.Constant) else 0
            if which != "t" and isinstance(index, int) and index >= len(lengths[which]):
                count = len(lengths[which])
                raise ModelError(
                    f"function '{self.function.__name__}' uses {node.value.id}[{index}], but there "
                    f"{'is' if count == 1 else 'are'} {count} "
                    f"{kinds[which]}{'' if count == 1 else 's'}"
                )

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of the model, kept in the attributes of every result."""
        names = json.dumps([self.variables, self.parameters, self.delays])
        text = names + source.formula_text(self.function)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_function(
    function: Any, arguments: Sequence[str], variables: Sequence[str], what: str = "function"
) -> None:
    """Refuse a function that cannot be compiled to one number for each variable.

    Parameters
    ----------
    function : object
        What the user gave.
    arguments : sequence of str
        What it is called with.
    variables : sequence of str
        What its tuple holds.
    what : str
        What the user calls it.

    Raises
    ------
    ModelError
        It is not a function, or of another form; the message says which, in one line.
    """
    if not isinstance(function, FunctionType):
        raise ModelError(f"{what} is {function!r}; expected a function written with `def`")
    name = function.__name__
    call = f"{name}({', '.join(arguments)})"
    tree = source.syntax(function)
    parameters = inspect.signature(function).parameters.values()
    if len(parameters) != len(arguments) or any(
        p.kind is not p.POSITIONAL_OR_KEYWORD or p.default is not p.empty for p in parameters
    ):
        found = f"{name}{inspect.signature(function)}"
        raise ModelError(f"{what} is {found}; expected {call}")
    for node in ast.walk(tree):
        if node is not tree and type(node) in _NOT_SCALAR and not _is_returned(tree, node):
            raise ModelError(
                f"function '{name}' uses {_NOT_SCALAR[type(node)]} (its line {_line(node)}); "
                "expected arithmetic on single numbers"
            )
    returned = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    if not returned:
        raise ModelError(f"function '{name}' returns nothing; expected {_tuple_of(variables)}")
    for node in returned:
        _check_return(name, node, variables)


def _check_return(name: str, node: ast.Return, variables: Sequence[str]) -> None:
    expected = _tuple_of(variables)
    value = node.value
    if type(value) in _NOT_SCALAR:
        raise ModelError(
            f"function '{name}' returns {_NOT_SCALAR[type(value)]}; expected a tuple, {expected}"
        )
    if value is None or isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Subscript):
        found = ast.unparse(value) if value is not None else "nothing"
        raise ModelError(f"function '{name}' returns {found}; expected a tuple, {expected}")
    if isinstance(value, ast.Tuple) and len(value.elts) != len(variables):
        count = len(value.elts)
        missing = [f"'{variable}'" for variable in variables[count:]]
        why = f"none is for {', '.join(missing)}" if missing else "there are too many"
        raise ModelError(
            f"function '{name}' returns {count} value{'' if count == 1 else 's'} for "
            f"{len(variables)} variable{'' if len(variables) == 1 else 's'}: {why}; expected "
            f"{expected}"
        )


def _is_returned(tree: ast.FunctionDef, node: ast.AST) -> bool:
    return any(isinstance(part, ast.Return) and part.value is node for part in ast.walk(tree))


def _tuple_of(variables: Sequence[str]) -> str:
    inner = ", ".join(f"d{variable}/dt" for variable in variables)
    return f"({inner},)" if len(variables) == 1 else f"({inner})"


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


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
