"""Checks of a user's function of a field before it is compiled."""

from __future__ import annotations

import ast
import inspect
import linecache
import traceback
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.compiler import bundle
from ergode.core.compiler.syntax import as_function, syntax
from ergode.core.errors import ModelError
from ergode.core.words import counted

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


def check_function(
    function: Any,  # argument of the user
    # arguments by name: None for a number, otherwise the length of a tuple
    arguments: Mapping[str, int | None],
    # elements of the tuple that it returns; if not given, it returns a number
    variables: Sequence[str] | None,
    what: str = "function",  # name of the function in messages
    *,
    tries: bool = True,  # whether to call it with tuples of numbers, to check what it returns
) -> None:
    """Refuse a function that cannot be compiled to one number for each variable.

    Raises a ModelError if it is not a function, or has another form; the message explains it in one
    line.
    """
    function, tree = check_form(function, arguments, what)
    name = function.__name__
    returned = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    is_field = what == "function"
    elements = [f"d{one}/dt" if is_field else one for one in variables or ()]
    if not returned:
        expected = "a number" if variables is None else _tuple_of(elements)
        raise ModelError(f"function '{name}' returns nothing; expected {expected}")
    for node in returned:
        if variables is not None:
            _check_return(name, node.value, variables, elements)
        elif node.value is None or isinstance(node.value, ast.Tuple | ast.List | ast.Dict):
            found = ast.unparse(node.value) if node.value is not None else "nothing"
            raise ModelError(f"function '{name}' returns {found}; expected a number")
    _check_indices(tree, arguments)
    check_parts(function, tree)
    if tries:
        _try(function, arguments, variables, elements)


def check_form(
    function: Any, arguments: Mapping[str, Any], what: str
) -> tuple[FunctionType, ast.FunctionDef]:
    """A user's function and its syntax tree.

    Raises a ModelError if it is not a function with these arguments.
    """
    function = as_function(function)
    if not isinstance(function, FunctionType):
        raise ModelError(f"{what} is {function!r}; expected a function")
    tree = syntax(function)
    check_signature(function, arguments, what)
    return function, tree


def check_parts(function: FunctionType, tree: ast.FunctionDef) -> None:
    """Refuse a function that does not work on single numbers, or cannot be compiled.

    Raises a ModelError if it does not; the message names the unsupported syntax.
    """
    name = function.__name__
    for part in ast.walk(tree):
        if part is not tree and type(part) in _NOT_SCALAR:
            raise ModelError(
                f"function '{name}' uses {_NOT_SCALAR[type(part)]} (line {_line(part, tree)} of "
                f"'{name}'); expected arithmetic on single numbers"
            )
    bundle.formula_text(function)  # raises if a name cannot be compiled


def _line(part: ast.AST, tree: ast.FunctionDef) -> int:
    """Number of a line, counted from the beginning of the function."""
    first: int = getattr(tree, "lineno", 1)
    return max(1, getattr(part, "lineno", first) - first + 1)


def failing_line(error: Exception) -> str:
    """The line of a user's function, or of a helper in its file, that raised an error."""
    _, *inside = traceback.walk_tb(error.__traceback__)
    file = inside[0][0].f_code.co_filename if inside else ""
    for frame, number in reversed(inside):
        code = frame.f_code
        line = linecache.getline(file, number).strip()
        if code.co_filename == file and line:
            return f" (line {number - code.co_firstlineno + 1} of '{code.co_name}': {line})"
    return ""


def check_signature(function: FunctionType, arguments: Mapping[str, int | None], what: str) -> None:
    """Refuse other arguments than these, and these in another order."""
    parameters = [*inspect.signature(function).parameters.values()]
    given = [one.name for one in parameters]
    is_reordered = given != list(arguments) and sorted(given) == sorted(arguments)
    if (
        not is_reordered
        and len(parameters) == len(arguments)
        and all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    ):
        return
    name = function.__name__
    more = ""
    if len(parameters) == 4 and list(arguments) == ["t", "y", "p"]:
        more = f" - or list the delays, or bind '{parameters[3].name}' with functools.partial"
    free = [p for p in parameters[len(arguments) :] if p.kind is not p.VAR_KEYWORD]
    if free and all(p.default is not p.empty for p in free):
        bound = ", ".join(f"{p.name}={p.default!r}" for p in free)
        more = f"; bind the other arguments: functools.partial({name}, {bound})"
    elif free and len(parameters) > 4:
        names = ", ".join(p.name for p in free)
        more = f"; bind the other arguments, {names}, with functools.partial"
    raise ModelError(
        f"{what} is {name}{inspect.signature(function)}; expected {name}({', '.join(arguments)})"
        f"{more}"
    )


def _check_indices(tree: ast.FunctionDef, arguments: Mapping[str, int | None]) -> None:
    """Refuse an index beyond the end of an argument: compiled code does not check bounds."""
    role = dict(zip((one.arg for one in tree.args.args), arguments, strict=True))
    kinds = {"y": "variable", "y1": "variable", "yd": "delay", "p": "parameter"}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
            continue
        which = role.get(node.value.id, "")
        length = arguments.get(which)
        index = whole_constant(node.slice)
        if isinstance(length, int) and index is not None and not -length <= index < length:
            raise ModelError(
                f"function '{tree.name}' uses {ast.unparse(node)}, but there "
                f"{'is' if length == 1 else 'are'} {counted(length, kinds.get(which, 'value'))}"
            )


def whole_constant(node: ast.expr) -> int | None:
    """An index as an int, if it is a constant integer."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _check_return(
    name: str, value: ast.expr | None, variables: Sequence[str], elements: Sequence[str]
) -> None:
    expected = f"expected a tuple, {_tuple_of(elements)}"
    if type(value) in _NOT_SCALAR:
        raise ModelError(f"function '{name}' returns {_NOT_SCALAR[type(value)]}; {expected}")
    if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.List):
        called = ast.unparse(value.func)
        raise ModelError(f"function '{name}' returns {called}([...]), an array; {expected}")
    if value is None or isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Subscript):
        found = ast.unparse(value) if value is not None else "nothing"
        if value is not None and len(elements) == 1:
            expected = f"expected a tuple, {_tuple_of([found])}"
        raise ModelError(f"function '{name}' returns {found}; {expected}")
    if isinstance(value, ast.Tuple):
        _check_length(name, len(value.elts), variables, elements)


def _try(
    function: FunctionType,
    arguments: Mapping[str, int | None],
    variables: Sequence[str] | None,
    elements: Sequence[str],
) -> None:
    """Check the return value of the function by calling it."""
    name = function.__name__
    trial: list[Any] = [
        0.5 if length is None else (0.5,) * length if isinstance(length, int) else length
        for length in arguments.values()
    ]
    try:
        value = function(*trial)
    except (ArithmeticError, ValueError, IndexError):
        return  # not defined for these numbers, or refused by a later check
    except Exception as error:
        said = f"{type(error).__name__}: {error}{failing_line(error)}"
        raise ModelError(f"function '{name}' failed: {said}") from None
    kind = type(value).__name__
    if variables is None:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
            raise ModelError(f"function '{name}' returns {value!r}, a {kind}; expected a number")
        return
    if not isinstance(value, tuple):
        raise ModelError(
            f"function '{name}' returns a {kind}; expected a tuple, {_tuple_of(elements)}"
        )
    _check_length(name, len(value), variables, elements)
    for variable, one in zip(variables, value, strict=True):
        if not isinstance(one, int | float | np.number):
            raise ModelError(
                f"function '{name}' returns {one!r} for '{variable}'; expected a real number"
            )


def _check_length(
    name: str, length: int, variables: Sequence[str], elements: Sequence[str]
) -> None:
    if length == len(variables):
        return
    missing = ", ".join(f"'{variable}'" for variable in variables[length:])
    raise ModelError(
        f"function '{name}' returns {counted(length, 'value')} for "
        f"{counted(len(variables), 'variable')}: "
        f"{f'none is for {missing}' if missing else 'there are too many'}; expected "
        f"{_tuple_of(elements)}"
    )


def _tuple_of(elements: Sequence[str]) -> str:
    inner = ", ".join(elements)
    return f"({inner},)" if len(elements) == 1 else f"({inner})"
