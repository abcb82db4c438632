"""Compile functions that only kernels call to LLVM code, not to machine code.

Numba generates machine code for every inner function, though a kernel is built from the LLVM code
of the functions that it calls.  Here only the kernel becomes machine code.  This saves up to 40 %
of the compile time, depending on the engine, and does not change run times.

This uses internal names of numba.  If one is missing, numba compiles as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import binding
from llvmlite.binding import Linkage
from numba import types
from numba.core import codegen, cpu
from numba.core.compiler import Compiler
from numba.core.environment import Environment
from numba.core.errors import TypingError
from numba.core.types import unliteral  # type: ignore[attr-defined]

from ergode.core.compiler.declared import EXTERNAL
from ergode.core.compiler.references import say_what_is_known

_LONG = 320
"""Basic blocks, including called functions, from which on a function counts as long."""


class InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of an inner function, without machine code.

    A function of a generated module is optimised separately: its loops then vectorise, which they
    may not do inside a long kernel.  Long functions gain nothing by this and are skipped, as are
    numba's own functions.
    """

    is_short = False  # whether it is one of ours, and optimised separately

    def add_ir_module(self, ir_module: Any) -> None:
        say_what_is_known(ir_module)
        super().add_ir_module(ir_module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        if _is_ours(self._final_module):
            # What is called, not inlined, and waits for a function of a model stays apart: its
            # callers then do not depend on the model.
            apart = [one for one in _with_all_they_call(self._linking_libraries) if _is_apart(one)]
            _link(self, apart)
            self.is_short = not _is_long(self._final_module)
            if self.is_short:
                self._optimize_final_module()
            self._linking_libraries: list[Any] = apart
        else:
            for library in self._linking_libraries:
                self._reload_init.update(library._reload_init)
        self._finalized = True

    def hold(self, module: Any, is_short: bool, reload: Any) -> None:
        """Be a library that was compiled before."""
        self._final_module, self.is_short, self._finalized = module, is_short, True
        self._reload_init.update(reload)

    def get_pointer_to_function(self, name: str) -> int:
        """Null: Python never calls it."""
        self._ensure_finalized()
        return 0

    def own_module(self) -> Any:
        """The module of this function alone, ready to be linked."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The module together with the modules of all functions that it calls.

        A function that numba compiles in its own way links only this one module.
        """
        whole = self.own_module().clone()
        for library in _with_all_they_call(self._linking_libraries):
            whole.link_in(_own_module(library), preserve=True)
        return whole


class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The library of a kernel: it links every function that is reached from it."""

    def finalize(self) -> None:
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        _link(self)
        for function in self._final_module.functions:
            if function.name.startswith(_WRAPPER) and not function.is_declaration:
                leave_as_it_is(function)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()


_WRAPPER = "_ZN7cpython"
"""Beginning of the name of the function that Python calls."""


def leave_as_it_is(wrapper: Any) -> None:
    """Do not optimise the function that Python calls: it is long, and only unpacks arguments."""
    if _takes_attributes():
        for attribute in ("noinline", "optnone"):
            wrapper.add_function_attribute(attribute)


@cache
def _takes_attributes() -> bool:
    """Whether llvmlite gives attributes to functions; older ones give them to what is returned."""
    module = binding.parse_assembly("define i64 @one() {\n  ret i64 1\n}")
    module.get_function("one").add_function_attribute("noinline")
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


class OpenLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of a kernel that misses the functions of a model (see `linking`)."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        called = _with_all_they_call(self._linking_libraries)
        for library in called:
            self._reload_init.update(library._reload_init)
        self.parts: list[tuple[Any, bool]] = []  # modules, and whether they are short
        for one in called:
            # What is optimised again when a model is linked must export its function until then.
            is_open = isinstance(one, InnerLibrary) and any(missing(one._final_module))
            module = one._final_module if is_open else _own_module(one)
            self.parts.append((module, is_open and one.is_short))
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Null: it is no machine code."""
        return 0


def _link(library: Any, apart: Sequence[Any] = ()) -> None:
    """Link everything that a library calls, directly or indirectly, into its module."""
    for called in _with_all_they_call(library._linking_libraries):
        library._reload_init.update(called._reload_init)
        if called not in apart:
            library._final_module.link_in(_own_module(called), preserve=True)


def _is_apart(library: Any) -> bool:
    return (
        isinstance(library, InnerLibrary)
        and any(missing(library._final_module))
        and not is_inlined(library._final_module)
    )


def is_inlined(module: Any) -> bool:
    """Whether the function that a module exports is always inlined where it is called."""
    return any(
        b"alwaysinline" in function.attributes for function in module.functions
        if not function.is_declaration and function.linkage == Linkage.external
    )  # fmt: skip


def _is_ours(module: Any) -> bool:
    """Whether a module holds a function of a generated module, not one of numba's own."""
    return any(
        "ergode_cpu_" in function.name and not function.is_declaration
        for function in module.functions
    )


def missing(module: Any) -> Iterator[str]:
    """Symbols of functions that a module calls, and that are linked later."""
    return (
        one.name for one in module.functions if one.is_declaration and one.name.startswith(EXTERNAL)
    )


def _is_long(module: Any) -> bool:
    return sum(1 for function in module.functions for _ in function.blocks) >= _LONG


def _own_module(library: Any) -> Any:
    inner = isinstance(library, InnerLibrary)
    return library.own_module() if inner else library._get_module_for_linking()


def _with_all_they_call(libraries: list[Any]) -> list[Any]:
    """These libraries and all that they link, each once, callers before callees.

    LLVM drops what nobody calls yet (``linkonce_odr``), so the caller has to be there first.
    """
    found: dict[Any, None] = {}

    def visit(library: Any) -> None:
        if library in found:
            return
        if isinstance(library, InnerLibrary):
            for callee in library._linking_libraries:
                visit(callee)
        found[library] = None

    for library in libraries:
        visit(library)
    return [*reversed(found)]


class _Compiler(Compiler):  # type: ignore[misc]
    """Compiles a kernel; functions compiled meanwhile are its inner functions."""

    library = KernelLibrary

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any,
        flags: Any, local_types: Any,
    ) -> None:  # fmt: skip
        super().__init__(typingctx, targetctx, library, args, return_type, flags, local_types)
        self._codegen = self.state.targetctx.codegen()

    def compile_extra(self, func: Any) -> Any:
        library = self.library(self._codegen, func.__qualname__)
        library.enable_object_caching()  # so that it can be cached on disk
        self.state.library = library
        with inner_libraries(self._codegen):
            return _with_room(super().compile_extra, func)


class OpenCompiler(_Compiler):
    """Compiles a kernel that misses the functions of a model."""

    library = OpenLibrary


def _with_room(function: Any, argument: Any) -> Any:
    """Call a function with a very deep call stack, as numba's compiler has.

    Python allocates call frames in blocks of 16 kB.  A function that is called repeatedly at the
    end of a block allocates the next block every time, which takes up to a tenth of the compile
    time.  The frame of this function is large, so that all later frames share one block.
    """
    return function(argument)


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=66_000)


@contextmanager
def inner_libraries(owner: Any) -> Iterator[None]:
    """Make every new library an `InnerLibrary`.  Numba holds its compiler lock meanwhile."""
    usual = owner._library_class
    owner._library_class = InnerLibrary
    try:
        yield
    finally:
        owner._library_class = usual


_get_executable = cpu.CPUContext.get_executable


def _executable(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
    if not isinstance(library, InnerLibrary | OpenLibrary):
        return _get_executable(self, library, fndesc, env)
    library._ensure_finalized()
    if isinstance(library, InnerLibrary):
        # An inner function uses no Python objects.  Its module may belong to another kernel, so
        # the cached kernel must not name it.
        Environment._memo.pop(env.env_name, None)
    name = fndesc.qualname.split(".")[-1]
    return cpu._dynfunc.make_function(fndesc.lookup_module(), name, "inner", 0, env, (library,))


def _can_defer() -> bool:
    """Whether numba has the internal names that this file needs."""
    library, context = codegen.JITCodeLibrary, cpu.CPUContext
    return (
        all(hasattr(library, name) for name in ("_get_module_for_linking", "_raise_if_finalized"))
        and hasattr(codegen.JITCPUCodegen, "_library_class")
        and hasattr(context, "get_executable")
        and hasattr(cpu, "_dynfunc")
        and hasattr(Environment, "_memo")
    )


DEFERS = _can_defer()
if DEFERS:
    cpu.CPUContext.get_executable = _executable
    KernelCompiler: Any = _Compiler
else:
    KernelCompiler = Compiler


_PLAIN = types.IntegerLiteral, types.BooleanLiteral


def without_literal_types(function: Any) -> Any:
    """Pass literal numbers and bools to a device function with their plain type.

    Otherwise numba compiles another form for every literal argument.  `function` is a numba
    dispatcher for CPUs or CUDA.
    """
    usual = function.get_call_template

    def template(args: Any, kws: Any) -> Any:
        plain = tuple(unliteral(kind) if isinstance(kind, _PLAIN) else kind for kind in args)
        if plain != tuple(args):
            try:
                return usual(plain, kws)
            except TypingError:
                pass  # it needs the literal
        return usual(args, kws)

    function.get_call_template = template
    return function
