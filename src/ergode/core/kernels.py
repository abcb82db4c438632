"""Python bodies -> kernels: a loop over a range on the CPU, a grid on CUDA.

    for_each(body)    body(index, *args)         both targets
    cpu_kernel(body)  body(start, stop, *args)   a range at a time, on one CPU thread
    cuda_kernel(body) body(*args)                a whole grid, in CUDA's own vocabulary
    kernel(cpu, cuda)                            one of these for each target

A kernel is compiled when it first runs; compiled kernels are cached on disk
(`core.compiler.kernel_cache`).
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from ergode.core import log, stopwatch
from ergode.core.compiler import bundle, kernel_cache, kernel_files, shared_functions
from ergode.core.compiler.bundle import formula_text
from ergode.core.compiler.language import Option, UserFunction
from ergode.core.compiler.source import Precision, Source, Target
from ergode.core.errors import ModelError

_COMPILED: dict[Any, Any] = {}
# Modules that were generated lately, by what they are made of.
_SOURCES: dict[Any, Source] = {}
_MOST_SOURCES = 32


@dataclass(frozen=True, eq=False)
class Kernel:
    """A body for each target, with the option values bound into it.

    Kernels made together share one generated module, so that their common functions are compiled
    once.
    """

    bodies: Mapping[Target, tuple[Callable[..., Any], ...]]
    number: int
    precision: Precision
    bindings: Mapping[Any, Any]
    loop: bool = False
    registers: int | None = None
    _compiled: dict[Target, Any] = field(default_factory=dict, init=False, repr=False)

    def source(self, target: Target, links: bool = False) -> Source:
        """The generated module for `target`; read its `.text` to debug a kernel.

        If it `links`, the functions of a model are only declared in it.
        """
        return bundle.bundle(
            self._bodies_of(target),
            target=target,
            precision=self.precision,
            bindings=self.bindings,
            loop=self.loop,
            registers=self.registers if target == "cuda" else None,
            links=links,
            others=[one for bodies in self.bodies.values() for one in bodies],
        )

    def argument_count(self, target: Target) -> int:
        """Number of arguments of the compiled function."""
        body = self._bodies_of(target)[self.number]
        return len(inspect.signature(body).parameters) + (1 if self.loop else 0)

    def compiled(self, target: Target) -> Any:
        """The numba function for `target`, built once per process and cached on disk."""
        log.computes()
        if target not in self._compiled:
            key = self.key(target)
            if key not in _COMPILED:
                with stopwatch.compiling():
                    _COMPILED[key] = self._loaded(self._looked_up(target))
            self._compiled[target] = _COMPILED[key]
        return self._compiled[target]

    def _loaded(self, source: Source) -> Any:
        if not source.externals:
            return load(source, self.number)
        name = _name_of(source)
        load(source)
        return load(bundle.linked(source, self.number, name, self))

    def key(self, target: Target) -> Any:
        """Key that identifies a kernel in this process.

        Gathering the sources takes longer than a small run, so the key consists of the parts of
        the kernel.  A user's function is identified by its text and by the current values of the
        constants and functions that it uses.
        """
        return (
            self._bodies_of(target), self.number, self.precision, self.loop, self.registers, target,
            frozenset((name, _identity(value)) for name, value in self.bindings.items()),
        )  # fmt: skip

    def _looked_up(self, target: Target) -> Source:
        """The generated module; to generate it takes a second for a large kernel."""
        linked = _links(target)
        key = (
            self._bodies_of(target), self.precision, self.loop, self.registers, target,
            frozenset(
                (name, _identity(value, linked)) for name, value in self.bindings.items()
                if not (linked and isinstance(name, Option) and name.of_linked)
            ),
        )  # fmt: skip
        found = _SOURCES.get(key)
        if found is None:
            for old in list(_SOURCES)[: max(0, len(_SOURCES) + 1 - _MOST_SOURCES)]:
                _SOURCES.pop(old, None)
            found = _SOURCES[key] = self.source(target, linked)
        return found

    def _bodies_of(self, target: Target) -> tuple[Callable[..., Any], ...]:
        if target not in self.bodies:
            name = next(iter(self.bodies.values()))[self.number].__name__
            raise TypeError(f"kernel '{name}' has no {target} form")
        return self.bodies[target]


def _links(target: Target) -> bool:
    """Whether the functions of a model are linked into its kernels, not written into them."""
    if target == "cuda":
        from ergode.core.devices import cuda

        return cuda.linked is not None
    from ergode.core.compiler import inner_functions

    return inner_functions.DEFERS  # otherwise numba lacks what linking needs


def _identity(value: Any, linked: bool = False) -> Any:
    """A key for a bound value. The values 1, 1.0 and True are equal, but compile differently.

    A function that is `linked` does not change the module of a kernel.
    """
    if linked and bundle.shape_of(value) is not None:
        return "function", bundle.shape_of(value)
    if isinstance(value, UserFunction):
        return formula_text(value.function), value.parameters  # one text, another `len(p)`
    return repr(value) if isinstance(value, int | float | tuple | np.generic) else value


def for_each(
    body: Callable[..., Any],
    *,
    precision: Precision = "float64",
    bindings: Mapping[Any, Any] | None = None,
) -> Kernel:
    """Kernel that calls ``body(index, *args)`` for every index of a range, on any target."""
    bodies: dict[Target, Any] = {"cpu": (body,), "cuda": (body,)}
    return Kernel(bodies, 0, precision, dict(bindings or {}), loop=True)


def kernels(*pairs: tuple[Callable[..., Any], Callable[..., Any]], **options: Any) -> list[Kernel]:
    """Kernels with one body for the CPU and one for CUDA; see `cpu_kernels` and `cuda_kernels`."""
    return _of({"cpu": tuple(one for one, _ in pairs), "cuda": tuple(one for _, one in pairs)},
               **options)  # fmt: skip


def kernel(cpu: Callable[..., Any], cuda: Callable[..., Any], **options: Any) -> Kernel:
    """One kernel; see `kernels`."""
    return kernels((cpu, cuda), **options)[0]


def cpu_kernels(*bodies: Callable[..., Any], **options: Any) -> list[Kernel]:
    """Kernels for one CPU thread: each ``body(start, stop, *args)`` works through a range.

    Options are `precision` and `bindings`.
    """
    return _of({"cpu": bodies}, **options)


def cpu_kernel(body: Callable[..., Any], **options: Any) -> Kernel:
    """One kernel; see `cpu_kernels`."""
    return cpu_kernels(body, **options)[0]


def cuda_kernels(*bodies: Callable[..., Any], **options: Any) -> list[Kernel]:
    """Kernels in CUDA's own vocabulary (threads, shared memory, grid barriers).

    Options are `precision`, `bindings` and `registers`.  `registers` limits the registers of a
    thread, so that more threads are resident.
    """
    return _of({"cuda": bodies}, **options)


def cuda_kernel(body: Callable[..., Any], **options: Any) -> Kernel:
    """One kernel; see `cuda_kernels`."""
    return cuda_kernels(body, **options)[0]


def _of(
    bodies: Mapping[Target, tuple[Callable[..., Any], ...]],
    *,
    precision: Precision = "float64",
    bindings: Mapping[Any, Any] | None = None,
    registers: int | None = None,
) -> list[Kernel]:
    """Kernels of one generated module; `bodies` has the same number for each target."""
    bound = dict(bindings or {})
    count = len(next(iter(bodies.values())))
    return [Kernel(bodies, k, precision, bound, registers=registers) for k in range(count)]


_BEYOND = "tuple index out of range"
# What a compiler says of a user's function, and what that means.
_SAID = [
    (_BEYOND, "reads beyond the end of a tuple; keep its index between 0 and its length"),
    (
        r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'",
        r"uses \2.\1, which cannot be compiled; write it with arithmetic and other functions of "
        "numbers",
    ),
    (
        "Only accept returning of array",
        "calls a function that returns a part of an array; let it return elements, or pass it the "
        "array and an index",
    ),
]


@contextmanager
def readable_errors(what: str = "a function of the model") -> Iterator[None]:
    """Turn a compiler error about a kernel with a user's formula into one readable line.

    Parameters
    ----------
    what : str
        Name of the formula in the message.

    Raises a ModelError if the kernel did not compile.
    """
    try:
        yield
    except IndexError as error:
        if str(error) != _BEYOND:
            raise
        raise ModelError(f"{what} {_SAID[0][1]}") from error
    except Exception as error:
        if not type(error).__module__.startswith(("numba.", "numba_cuda.")):
            raise
        for pattern, meaning in _SAID:
            if found := re.search(pattern, str(error)):
                raise ModelError(f"{what} {found.expand(meaning)}") from error
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = [line for line in said if not line.startswith(("Failed in", "During:"))]
        why = " ".join([*told[:1], *(line[4:] for line in told if line.startswith(">>> "))][:2])
        raise ModelError(f"{what} cannot be compiled: {why}") from error


@cache
def _module(name: str, path: Path, entries: tuple[str, ...]) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except (EOFError, ImportError, TypeError, ValueError):  # a crash cut what Python compiled
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)
        specification.loader.exec_module(module)
    for entry in entries:
        kernel_files.guard(getattr(module, entry))
    shared_functions.share(vars(module), entries)
    return module


_LOADING = Lock()


def load(generated: Source, number: int = 0) -> Any:
    """Write a generated module to the cache, import it, and return one of its entries."""
    with _LOADING:
        return getattr(_module_of(generated), generated.entries[number])


def _name_of(generated: Source) -> str:
    return f"ergode_{generated.target}_{generated.digest}"


def _module_of(generated: Source) -> ModuleType:
    name = _name_of(generated)
    return _module(name, kernel_cache.file_of(name, generated.text), generated.entries)
