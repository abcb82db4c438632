"""Get the text and syntax tree of a function, and make a function from text or a partial."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ergode.core.compiler.trees import copied
from ergode.core.errors import ModelError
from ergode.core.parsing import parse


def function_from_text(text: str, names: Mapping[str, Any]) -> FunctionType:
    """A function from its text; `inspect` finds its source like any other's.

    Parameters
    ----------
    text : str
        One definition with `def`.
    names : mapping of str to object
        Values of its free names.
    """
    given = tuple(names.items())
    if all(isinstance(value, FunctionType | ModuleType) for _, value in given):
        return _function_from_text(text, given)  # the same function for the same call
    return _function_from_text.__wrapped__(text, given)


@lru_cache(maxsize=512)
def _function_from_text(text: str, names: tuple[tuple[str, Any], ...]) -> FunctionType:
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    file = f"<ergode {digest}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"__name__": "formula", **dict(names)}
    exec(compile(text, file, "exec"), namespace)
    function = namespace[text[4 : text.index("(")]]
    assert isinstance(function, FunctionType)
    return function


def as_function(value: Any) -> Any:
    """Turn a `functools.partial` of a function into a function; return anything else unchanged."""
    plain = not isinstance(value, partial) or not isinstance(value.func, FunctionType)
    return value if plain else _function_of_partial(value)


@lru_cache(maxsize=256)
def _function_of_partial(value: partial[Any]) -> FunctionType:
    given = inspect.signature(value).parameters.values()
    unbound = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    free = [p.name for p in unbound]
    fixed = {f"given_{k}": one for k, one in enumerate(value.args)}
    named = {f"given_{name}": one for name, one in value.keywords.items()}
    arguments = [*fixed, *free, *(f"{name}=given_{name}" for name in value.keywords)]
    name = value.func.__name__ if value.func.__name__.isidentifier() else "formula"
    text = f"def {name}({', '.join(free)}):\n    return whole({', '.join(arguments)})\n"
    function = function_from_text(text, {"whole": value.func, **fixed, **named})
    function.__defaults__ = tuple(p.default for p in unbound if p.default is not p.empty) or None
    return function


def outer_value(function: FunctionType, name: str) -> tuple[Any] | None:
    """Current value of a name outside of a function, in a tuple; None if it has none."""
    if name not in function.__code__.co_freevars or not function.__closure__:
        return (function.__globals__[name],) if name in function.__globals__ else None
    try:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        return (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return None


@lru_cache(maxsize=1024)
def _definition_of(code: CodeType) -> ast.FunctionDef | None:
    """The definition of a function, read once because the file may change later."""
    if code.co_name == "<lambda>":
        return _definition_of_lambda(code)
    try:
        tree = parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except SyntaxError:
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


@lru_cache(maxsize=1024)
def _is_source_of(code: CodeType) -> bool:
    """Whether the file still holds the code that Python runs."""
    lines, _ = inspect.findsource(code)
    try:
        written = _codes_of(code.co_filename, "".join(lines))
    except SyntaxError:  # cannot be decided
        return True
    here = (code.co_name, code.co_firstlineno)
    found = [one for one in written if (one.co_name, one.co_firstlineno) == here]
    return any(_done_by(one) == _done_by(code) for one in found)


@lru_cache(maxsize=16)
def _codes_of(file: str, text: str) -> list[CodeType]:
    """All functions of a file."""
    return _codes_in(file, parse(text))


def _codes_in(file: str, tree: ast.Module) -> list[CodeType]:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # which a notebook cell may have
    found = [compile(tree, file, "exec", flags, dont_inherit=True)]
    for code in found:
        found += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def _done_by(code: CodeType) -> Any:
    """Content of a code object, without its position in a file."""
    constants = [
        _done_by(one) if isinstance(one, CodeType) else (type(one), repr(one))
        for one in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _definition_of_lambda(code: CodeType) -> ast.FunctionDef | None:
    """A lambda as a definition; None if its file no longer holds it.

    Lambdas on one line are told apart by what they compile to. Two that compile to the same code
    are the same function.
    """
    lines, _ = inspect.findsource(code)
    tree = parse("".join(lines))
    lambdas = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    if len(lambdas) > 1:
        lambdas = [one for one in lambdas if _done_by(_compiled(one, tree, code)) == _done_by(code)]
    if not lambdas:
        return None
    body: list[ast.stmt] = [ast.Return(lambdas[0].body)]
    definition = ast.FunctionDef("formula", lambdas[0].args, body, [], lineno=1, col_offset=0)
    return ast.fix_missing_locations(definition)


def _compiled(one: ast.Lambda, tree: ast.Module, beside: CodeType) -> CodeType:
    """The code of a lambda of a file, which for this has lines of its own."""
    below = 1 + max(getattr(node, "end_lineno", None) or 0 for node in ast.walk(tree))
    ast.increment_lineno(one, below)  # all of it: Python marks where a line ends
    codes = _codes_in(beside.co_filename, tree)
    found = next(code for code in codes if code.co_firstlineno == one.lineno)
    ast.increment_lineno(one, -below)
    return found


def syntax(function: Callable[..., Any]) -> ast.FunctionDef:
    """Syntax tree of a function without decorators, annotations, defaults and docstring."""
    if hasattr(function, "__wrapped__"):
        raise ModelError(
            f"function '{function.__name__}' is wrapped by a decorator, which would be lost; pass "
            "the function without it"
        )
    try:
        definition = _definition_of(function.__code__)
    except (AttributeError, OSError, TypeError):
        raise ModelError(
            f"the source of function '{function.__name__}' is not available; define it in a file "
            "or a notebook cell"
        ) from None
    if definition is None:
        raise ModelError(
            f"the source of function '{function.__name__}' cannot be read; define it "
            "with `def`, in a file or a notebook cell"
        )
    asserts = any(isinstance(part, ast.Assert) for part in ast.walk(definition))
    own = (function.__module__ or "").startswith("ergode.")
    # Pytest rewrites assertions.
    if not own and not asserts and not _is_source_of(function.__code__):
        raise ModelError(
            f"the source of function '{function.__name__}' has changed since it was read; import "
            "or define it again"
        )
    tree = copied(definition)
    tree.decorator_list = []
    tree.returns = None
    tree.args.defaults = []
    tree.args.kw_defaults = [None for _ in tree.args.kwonlyargs]
    for argument in [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]:
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass()]
    return tree


def local_names(code: CodeType) -> Iterator[str]:
    """Names of local variables, including those of comprehensions."""
    yield from code.co_varnames
    yield from code.co_cellvars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from local_names(constant)
