"""Inner functions on disk, as LLVM code: other kernels, in other processes, do not compile them.

A kernel of one combination of options has most inner functions of another one.  Within a process
`shared_functions` makes them one; here they are kept from process to process.  Functions that miss
those of a model are not kept.

This uses internal names of numba, like `inner_functions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from llvmlite import binding
from numba.core.compiler import CompileResult
from numba.core.environment import Environment

from ergode.core.compiler import kernel_cache
from ergode.core.compiler.declared import read, written
from ergode.core.compiler.inner_functions import InnerLibrary, missing


class Kept(NamedTuple):
    """A compiled form of a function."""

    code: bytes  # LLVM code, with all that it calls
    is_short: bool
    description: Any  # numba's description of the function
    signature: Any
    reload: tuple[Any, ...]


class Keeper:
    """Reads and writes the compiled forms of one function: what numba calls its cache."""

    cache_path = ""  # numba shows it

    def __init__(self, function: Any, digest: str) -> None:
        self._function, self._digest = function, digest

    def _path(self, arguments: Any, target: Any) -> Path:
        spelled = f"{self._digest} {arguments} {target.codegen().magic_tuple()}"
        name = hashlib.sha256(spelled.encode()).hexdigest()[:24]
        return kernel_cache.folders().own / "__pycache__" / f"ergode_functions.{name}.inner"

    def load_overload(self, arguments: Any, target: Any) -> Any:
        """The compiled form for some types of arguments, or None."""
        found = read(self._path(arguments, target), Kept)
        if found is None or target.codegen()._library_class is not InnerLibrary:
            return None
        for initialize in found.reload:
            initialize()
        function, description = self._function.py_func, found.description
        library = InnerLibrary(target.codegen(), description.qualname)
        library.hold(binding.parse_bitcode(found.code), found.is_short, found.reload)
        description.modname = function.__module__
        environment = Environment(function.__globals__)
        environment.env_name = description.env_name
        return CompileResult(
            target_context=target, typing_context=self._function.typingctx, library=library,
            environment=environment, fndesc=description, signature=found.signature,
            entry_point=target.get_executable(library, description, environment),
            type_annotation="", objectmode=False, lifted=(), typing_error=None, call_helper=None,
            metadata=None, reload_init=found.reload, referenced_envs=(),
        )  # fmt: skip

    def save_overload(self, arguments: Any, result: Any) -> None:
        """Keep a compiled form."""
        library, description = result.library, result.fndesc
        if not isinstance(library, InnerLibrary) or library._linking_libraries:
            return
        module = library._final_module
        if any(missing(module)):
            return
        module = module.clone()
        for one in module.functions:
            # Numba gives names of its own functions to others in another process.
            if not one.is_declaration and "ergode_cpu_" not in one.name:
                one.linkage = "internal"
        description.typemap = description.calltypes = None
        written(
            self._path(arguments, self._function.targetctx),
            Kept(
                module.as_bitcode(), library.is_short, description, result.signature,
                tuple(library._reload_init),
            ),
        )  # fmt: skip


def digest_of(compilers: str, key: str | None, used: Mapping[str, str | None]) -> str | None:
    """Digest of an inner function and all that it reaches.

    `compilers` spells what compiles it, `key` the function alone, and `used` what it uses, by name.
    None if one of them changes from process to process.
    """
    if key is None or None in used.values():
        return None
    text = f"{compilers} {key} {sorted(used.items())}"
    return hashlib.sha256(text.encode()).hexdigest()


def spelled(value: Any) -> str | None:
    """What a name of a generated module stands for, besides numbers and inner functions."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    if getattr(value, "__module__", "") == "ergode.core.compiler.declared":
        return None
    said = getattr(value, "__name__", getattr(value, "_name", None))
    return said and f"{type(value).__name__} {said}"
