"""Generate the source text of a kernel.

`bundle` starts from one Python function, follows every name it reaches, and writes a
self-contained module for one target and one working precision: constants as constants, functions
as device functions, float literals typed.  The text holds everything that the kernel depends on:
its own source, the functions it calls, the constants and functions bound into it.  The digest of
the text and of the compilers' versions therefore names the compiled kernel on disk.

Two passes come first: `unroll` unrolls loops over the size of a model, and `user_functions`
turns the integers of a user's formula into floats.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ergode.core.compiler.language import ByPrecision, ByTarget, Intrinsic, Option, UserFunction
from ergode.core.compiler.named_options import named_options
from ergode.core.compiler.renaming import Rename, RenameFormula
from ergode.core.compiler.source import Precision, Source, Target
from ergode.core.compiler.syntax import syntax
from ergode.core.compiler.trees import shorten
from ergode.core.errors import ModelError
from ergode.core.parsing import parse

# Modules that numba compiles: their members stay as they are.
_PLAIN_MODULES = (math, np)
# Names that a generated module defines itself.
_RESERVED = {
    "math", "numpy", "real", "bits", "fma", "to_bits", "from_bits", "cuda",
    "kernel", "device_function", "opaque_int", "noinline_function", "no_refcount_function",
    "noinline_cpu_function", "start", "stop", "index", "atomic_add", "atomic_max", "atomic_swap_if",
    "atomic_load", "yield_thread", "window", "release_add", "acquire", "barrier_of_cluster",
    "external", "linked", "as_lanes", "flat_numbers", "lane_of", "where", "by_reference",
    "hold", "now", "number_at",
}  # fmt: skip


def bundle(
    # kernel bodies, or with ``loop=True`` bodies of loops, ``body(index, *args)``
    bodies: Sequence[Callable[..., Any]],
    *,
    target: Target,  # target whose names the module imports
    precision: Precision = "float64",  # type of `real`, of float literals and of float constants
    # values of options, which specialise a method to a model.  A string key replaces all
    # module-level names of that spelling.
    bindings: Mapping[Any, Any] | None = None,
    loop: bool = False,  # wrap each body in a loop over a range of indices
    registers: int | None = None,  # largest number of registers of a CUDA thread
    links: bool = False,  # only declare the functions of a model that have a shape
    others: Sequence[Callable[..., Any]] = (),  # for other targets: they too may use what is bound
) -> Source:
    """Gather kernel bodies and everything they reach into the source of one module.

    Raises a ModelError if a function's source is not available, or it uses a value that cannot be
    compiled. Raises a TypeError if a bound option is named nowhere, not even in dropped branches.
    """
    collector = Collector(precision, dict(bindings or {}), target, links)
    calls = target == "cpu" and any(getattr(body, "calls_model", False) for body in bodies)
    collector.external_form = "real, True" if calls else "real"
    decorator = f"@kernel(registers={registers})" if registers else "@kernel"
    entries = []
    for number, body in enumerate(bodies):
        name = collector.function(body)
        if loop:
            count = len(inspect.signature(body).parameters) - 1
            arguments = ", ".join(f"argument_{k}" for k in range(count))
            run = collector.unused(f"run_{number}")
            text = _LOOPS[target].format(run=run, body=name, arguments=arguments)
            collector.definitions[run] = f"{decorator}\n{text}"
            name = run
            if target == "cuda":
                collector.words.add("cuda")
        else:
            text = collector.definitions[name]
            collector.definitions[name] = text.replace("@device_function", decorator, 1)
        entries.append(name)
    unused = [key.name for key in collector.bindings if isinstance(key, Option)
              and not (links and key.of_linked) and key not in collector.used]  # fmt: skip
    if unused:
        named = named_options([*bodies, *others, *collector.bindings.values()])
        unused = [key.name for key in collector.bindings if isinstance(key, Option)
                  and key not in collector.used | named]  # fmt: skip
    if unused:
        names = ", ".join(body.__name__ for body in bodies)
        raise TypeError(f"nothing in kernel {names} uses what is bound to {', '.join(unused)}")
    if target == "cpu":  # only CPU code counts references
        collector.leave_out_refcounts()
    title = ", ".join(f"{body.__module__}.{body.__qualname__}" for body in bodies)
    text = collector.text(f"{title} for {target}, {precision}", "kernel")
    return Source(text, tuple(entries), target, collector.externals)


def linked(
    open_kernel: Source,  # module of the kernel, which declares functions of the model
    number: int,  # which of its entries
    module: str,  # its name
    kernel: Any,  # `Kernel`: precision and bindings
) -> Source:
    """The module of a kernel that is linked with the functions of a model (see `linking`)."""
    collector = Collector(kernel.precision, dict(kernel.bindings), open_kernel.target)
    entry = collector.unused(open_kernel.entries[number])  # no helper of the user takes its name
    given = []
    for name, key in open_kernel.externals.items():
        given.append(f", {name}={collector.function(kernel.bindings.get(key, key), name)}")
    if open_kernel.target == "cpu":
        collector.leave_out_refcounts()
    count = kernel.argument_count(open_kernel.target)
    arguments = ", ".join(f"argument_{k}" for k in range(count))
    collector.definitions[entry] = (
        f"@linked('{module}'{''.join(given)})\ndef {entry}({arguments}):\n    pass"
    )
    text = collector.text(f"{entry} of {module}, with the functions of a model", "linked")
    return Source(text, (entry,), open_kernel.target)


def shape_of(function: Any) -> tuple[int, ...] | None:
    """Shape of the numbers that a function returns, if it is linked."""
    if isinstance(function, UserFunction):
        return function.shape
    return () if getattr(function, "linked", False) else None


def formula_text(function: Callable[..., Any]) -> str:
    """Source that a user's function is compiled from: the function, its helpers and constants.

    Raises
    ------
    ModelError
        See `bundle`.
    """
    known = _TEXTS.get(function) if isinstance(function, FunctionType) else None
    # The cached text is valid while every name in it has the same value.
    if known and all(user.outer(name) is value for user, name, value in known[1]):
        return known[0]
    collector = Collector("float64", {})
    collector.function(UserFunction(function))
    text = "\n\n".join([*collector.constants, *collector.definitions.values()])
    modules = [value for _, _, value in collector.found if isinstance(value, ModuleType)]
    if all(module in _PLAIN_MODULES for module in modules):  # names in other modules may change
        if len(_TEXTS) >= _TEXTS_MOST:
            _TEXTS.clear()
        _TEXTS[function] = text, collector.found
    return text


_TEXTS: dict[Any, tuple[str, list[tuple[Rename, str, Any]]]] = {}
_TEXTS_MOST = 256


# The mask proves that an index is not negative: otherwise numba adds wrap-around to every access,
# and the loop does not vectorise.
_LOOPS: dict[Target, str] = {
    "cpu": """\
def {run}(start, stop, {arguments}):
    for index in range(start, stop):
        {body}(index & 0x7FFFFFFFFFFFFFFF, {arguments})""",
    "cuda": """\
def {run}(start, stop, {arguments}):
    for index in range(start + cuda.grid(1), stop, cuda.gridsize(1)):
        {body}(index & 0x7FFFFFFFFFFFFFFF, {arguments})""",
}


class Collector:
    """Follows names from function to function and gives each value one name in the module."""

    def __init__(
        self, precision: Precision, bindings: dict[Any, Any], target: Target = "cpu",
        links: bool = False,
    ) -> None:  # fmt: skip
        self.precision = precision
        self.links = links
        self.externals: dict[str, Any] = {}
        self.external_form = "real"
        self.bindings = bindings
        self.target = target
        self.used: set[Option] = set()
        self.definitions: dict[str, str] = {}
        self.constants: list[str] = []
        self.words: set[str] = set()
        self._taken = {*_RESERVED, *dir(builtins)}
        self._names: dict[Any, str] = {}
        self.found: list[tuple[Rename, str, Any]] = []  # names outside of functions
        self._open: list[FunctionType] = []
        self._calls: dict[FunctionType, list[FunctionType]] = {}

    def text(self, title: str, *words: str) -> str:
        """Text of the module."""
        names = [*words, *sorted(self.words)]
        parts = [
            f'"""Generated by ergode: {title}."""',
            "\n".join(
                [
                    "import math",
                    "import numpy",
                    f"from ergode.core.devices.{self.target} import {', '.join(names)}",
                    f"real = numpy.{self.precision}",
                    f"bits = numpy.uint{self.precision[-2:]}",
                ]
            ),
            "\n".join(self.constants),
            *self.definitions.values(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def function(self, function: Any, wanted: str | None = None) -> str:
        """Define `function` after its dependencies, and return its name in the module."""
        shape = shape_of(function)
        if self.links and shape is not None:
            return self._external(function, shape, wanted or function.__name__)
        rename, length = Rename, None
        if isinstance(function, UserFunction):
            length = function.parameters
            rename, function = RenameFormula, function.function
        if isinstance(function, ByPrecision):
            function = getattr(function, self.precision)
        elif isinstance(function, ByTarget):
            function = getattr(function, self.target)
        if not isinstance(function, FunctionType):
            raise ModelError(f"expected a plain Python function, found {function!r}")
        if self._open:
            self._calls.setdefault(self._open[-1], []).append(function)
        key = function if length is None else (function, length)
        if key in self._names:
            return self._names[key]
        if function in self._open:
            raise ModelError(f"function '{function.__name__}' calls itself; use a loop instead")
        self._open.append(function)
        tree = syntax(function)
        if length is not None:
            shorten(tree, len(tree.args.args) - len(function.__defaults__ or ()) - 1, length)
        tree = rename(self, function).rewritten(tree)
        # Defaults were evaluated when the function was defined, so their values are used.
        default = self._real_default if rename is RenameFormula else self._default
        tree.args.defaults = [default(function, value) for value in function.__defaults__ or ()]
        by_name = function.__kwdefaults__ or {}
        tree.args.kw_defaults = [
            default(function, by_name[argument.arg]) if argument.arg in by_name else None
            for argument in tree.args.kwonlyargs
        ]
        self._open.pop()
        named = function.__name__ if function.__name__.isidentifier() else tree.name
        tree.name = self._name(key, wanted or named)
        self._names.setdefault(function, tree.name)
        if self.target == "cuda" and getattr(function, "noinline", False):
            self.words.add("noinline_function")
            tree.body.insert(
                0, ast.Expr(ast.Call(ast.Name("noinline_function", ast.Load()), [], []))
            )
        text = ast.unparse(tree)
        kind = (
            "noinline_cpu_function"
            if getattr(function, "noinline_cpu", False)
            else "device_function"
        )
        self.words.add(kind)
        self.definitions[tree.name] = f"@{kind}\n{text}"
        return tree.name

    def _external(self, function: Any, shape: tuple[int, ...], wanted: str) -> str:
        """Declare a function that is linked later."""
        # A kernel serves other models too, in which two options may have two functions.
        key = next((key for key, value in self.bindings.items() if value is function), function)
        if ("external", key) not in self._names:
            name = self._name(("external", key), wanted)
            self.definitions[name] = f"{name} = external('{name}', {shape}, {self.external_form})"
            self.externals[name] = key
            self.words.add("external")
        return self._names["external", key]

    def bound(self, value: Any) -> Any:
        """The value bound to an option in this module, or a constant in its precision.

        Any other value is returned unchanged.
        """
        if isinstance(value, ByPrecision) and not isinstance(value.float64, FunctionType):
            return getattr(value, self.precision)
        if not isinstance(value, Option):
            return value
        if self.links and value.of_linked:
            raise TypeError(f"{value!r} is for linked functions, and is used outside of them")
        self.used.add(value)
        return self.bindings.get(value, value.default)

    def leave_out_refcounts(self) -> None:
        """Choose the decorator of the functions that are marked `no_refcount`."""
        for name in self._no_refcount():
            text = self.definitions[name]
            self.definitions[name] = text.replace("@device_f", "@no_refcount_f", 1)
            self.words.add("no_refcount_function")

    def _no_refcount(self) -> list[str]:
        """Names of the functions without reference counts, and of all functions they call.

        By default a function counts references if its first caller does.  The explicit list keeps
        `shared_functions` from sharing a function of another kernel that does count.
        """
        found: dict[FunctionType, None] = {}
        marks = "no_refcount", "noinline_cpu"
        waiting = [one for one in self._calls if any(getattr(one, mark, False) for mark in marks)]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                waiting += self._calls.get(one, [])
        return [self._names[one] for one in found]

    def value(self, name: str, value: Any, user: FunctionType) -> str:
        """Name in the module of `value`, which the function `user` calls `name`."""
        if isinstance(value, Intrinsic):
            if value.name not in ("real", "bits"):
                self.words.add(value.name)
            return value.name
        plain = _plain_name(value)
        if plain is not None:
            return plain
        if isinstance(value, ByPrecision | ByTarget | UserFunction | FunctionType):
            return self.function(value, name.strip("<>"))
        if _is_named_tuple(value):
            return self._named_tuple(value)
        text = self._literal(value)
        if text is None:
            raise ModelError(
                f"function '{user.__name__}' uses '{name}', {_describe(value)}; a compiled "
                "function can use numbers, tuples of numbers, `math`, `numpy` scalar types and "
                "other plain functions - pass arrays as arguments"
            )
        if (name, text) not in self._names:
            self.constants.append(f"{self._name((name, text), name)} = {text}")
        return self._names[name, text]

    def alias(self, name: str) -> str:
        """Another name for `name`, for a function with a local variable of this name."""
        key = ("alias", name)
        if key not in self._names:
            alias = self._name(key, name.replace(".", "_"))
            self.definitions[alias] = f"{alias} = {name}"
        return self._names[key]

    def unused(self, wanted: str) -> str:
        """Reserve a name that is not yet used in the module."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}__{count}"
        self._taken.add(name)
        return name

    def _name(self, key: Any, wanted: str) -> str:
        self._names[key] = self.unused(wanted)
        return self._names[key]

    def _named_tuple(self, kind: Any) -> str:
        """Import a named tuple's class."""
        if kind not in self._names:
            home = vars(sys.modules.get(kind.__module__, builtins))
            if home.get(kind.__name__) != kind:
                raise ModelError(
                    f"named tuple '{kind.__qualname__}' must be defined at the top of a module"
                )
            name = self._name(kind, kind.__name__)
            # Compiled code depends on the fields, so they are part of the text.
            fields = ", ".join(kind._fields)
            self.constants.append(
                f"from {kind.__module__} import {kind.__name__} as {name}  # {fields}"
            )
        return self._names[kind]

    def _default(self, function: FunctionType, value: Any) -> ast.expr:
        text = self._literal(value)
        if text is None:
            raise ModelError(
                f"function '{function.__name__}' has a default argument that is "
                f"{_describe(value)}; a compiled function can have numbers"
            )
        return parse(text, mode="eval").body

    def _real_default(self, function: FunctionType, value: Any) -> ast.expr:
        return self._default(function, float(value) if type(value) is int else value)

    def _literal(self, value: Any) -> str | None:
        if isinstance(value, type) and issubclass(value, np.generic):
            return f"numpy.{value.__name__}"
        if isinstance(value, np.number | np.bool_):
            item = value.item()
            if not isinstance(item, bool | int | float | complex):
                return None  # wider than Python's own types
            inner = repr(item) if np.isfinite(item) else f'"{item}"'
            return f"numpy.{type(value).__name__}({inner})"
        if isinstance(value, bool):
            return repr(value)
        if isinstance(value, int):
            return int.__repr__(value)  # the repr of an enum is not source code
        if isinstance(value, str) and not isinstance(value, np.generic):
            return str.__repr__(value)
        if isinstance(value, float):
            inner = float.__repr__(value) if math.isfinite(value) else f'float("{float(value)}")'
            return f"real({inner})"
        if isinstance(value, tuple):
            items = [self._literal(item) for item in value]
            if None in items:
                return None
            kind = self._named_tuple(type(value)) if _is_named_tuple(type(value)) else ""
            return f"{kind}({''.join(f'{item}, ' for item in items)})"
        return None


def _plain_name(value: Any) -> str | None:
    """Dotted name of `math`, `numpy` or one of their members."""
    for module in _PLAIN_MODULES:
        if value is module:
            return module.__name__
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(module, name, None) is value:
            return f"{module.__name__}.{name}"
    return None


def _is_named_tuple(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _describe(value: Any) -> str:
    kind = type(value).__name__
    return f"a {kind}" if kind[0].lower() not in "aeiou" else f"an {kind}"
