"""One Python body -> a loop over a range on the CPU and a grid on CUDA.

    for_each(body)    body(index, *args)         both targets
    cpu_kernel(body)  body(start, stop, *args)   a range at a time, on one CPU thread
    cuda_kernel(body) body(*args)                a whole grid, in CUDA's own vocabulary

Nothing is compiled until it runs; what was compiled is kept on disk (`core.kernel_cache`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from ergode.core import kernel_cache
from ergode.core.compiler import bundle
from ergode.core.compiler.bundle import Precision, Source, Target, formula_text
from ergode.core.compiler.language import UserFunction
from ergode.core.errors import ModelError

_COMPILED: dict[Any, Any] = {}


@dataclass(frozen=True, eq=False)
class Kernel:
    """A body, what is bound into it, and a compiled function for each target it runs on.

    Kernels made together share one generated module, so that what they have in common is
    compiled once.
    """

    bodies: tuple[Callable[..., Any], ...]
    number: int
    precision: Precision
    bindings: Mapping[str, Any]
    targets: tuple[Target, ...]
    loop: bool
    registers: int | None = None

    def source(self, target: Target) -> Source:
        """The generated module for `target`; `.text` is worth reading when a kernel surprises."""
        if target not in self.targets:
            raise TypeError(f"kernel '{self.bodies[self.number].__name__}' has no {target} form")
        return bundle.bundle(
            self.bodies,
            target=target,
            precision=self.precision,
            bindings=self.bindings,
            loop=self.loop,
            registers=self.registers if target == "cuda" else None,
        )

    def compiled(self, target: Target) -> Any:
        """The numba function for `target`, built once a process and cached on disk."""
        # Gathering the sources takes longer than a small run, so a kernel is known by what it is
        # made of: a user's function by its text, with the constants and functions that it uses at
        # this moment, all else by itself.
        key = (
            self.bodies, self.number, self.precision, self.loop, self.registers, target,
            *(
                (name, formula_text(value.function) if isinstance(value, UserFunction) else value)
                for name, value in sorted(self.bindings.items())
            ),
        )  # fmt: skip
        if key not in _COMPILED:
            _COMPILED[key] = load(self.source(target), self.number)
        return _COMPILED[key]


def for_each(
    body: Callable[..., Any],
    *,
    precision: Precision = "float64",
    bindings: Mapping[str, Any] | None = None,
) -> Kernel:
    """Kernel that calls ``body(index, *args)`` for every index of a range, on any target."""
    return Kernel((body,), 0, precision, dict(bindings or {}), ("cpu", "cuda"), True)


def cpu_kernels(
    *bodies: Callable[..., Any],
    precision: Precision = "float64",
    bindings: Mapping[str, Any] | None = None,
) -> list[Kernel]:
    """Kernels for one CPU thread: each ``body(start, stop, *args)`` works through a range."""
    bound = dict(bindings or {})
    return [Kernel(bodies, i, precision, bound, ("cpu",), False) for i in range(len(bodies))]


def cpu_kernel(body: Callable[..., Any], **options: Any) -> Kernel:
    """One kernel as `cpu_kernels` makes them."""
    return cpu_kernels(body, **options)[0]


def cuda_kernels(
    *bodies: Callable[..., Any],
    precision: Precision = "float64",
    bindings: Mapping[str, Any] | None = None,
    registers: int | None = None,
) -> list[Kernel]:
    """Kernels in CUDA's own vocabulary (threads, shared memory, grid barriers).

    `registers` bounds what a thread may use, so that more of them are resident.
    """
    bound = dict(bindings or {})
    return [
        Kernel(bodies, i, precision, bound, ("cuda",), False, registers) for i in range(len(bodies))
    ]


def cuda_kernel(body: Callable[..., Any], **options: Any) -> Kernel:
    """One kernel as `cuda_kernels` makes them."""
    return cuda_kernels(body, **options)[0]


@contextmanager
def readable_errors() -> Iterator[None]:
    """Make one line of what the compiler says about a kernel with a user's formula in it.

    Raises
    ------
    ModelError
        The kernel did not compile.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("numba.", "numba_cuda.")):
            raise
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        found = [line for line in said if not line.startswith(("Failed in", "During:"))]
        what = " ".join([*found[:1], *(line[4:] for line in found if line.startswith(">>> "))][:2])
        raise ModelError(f"a function of the model cannot be compiled: {what}") from error


@cache
def _module(name: str, path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


_LOADING = Lock()


def load(generated: Source, number: int = 0) -> Any:
    """Write a generated module to the cache, import it, and return one of its entries."""
    with _LOADING:
        return getattr(_module_of(generated), generated.entries[number])


def _module_of(generated: Source) -> ModuleType:
    name = f"ergode_{generated.target}_{generated.digest}"
    return _module(name, kernel_cache.file_of(name, generated.text))
