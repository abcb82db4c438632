"""Link the functions of a model into a kernel that was compiled without them.

A kernel that calls functions of a model is compiled once, with those functions only declared.  What
does not call them becomes machine code at once.  The rest stays LLVM code, which is short: a new
model's functions are compiled alone, linked with it, inlined, and become the other part of the
machine code.

A long kernel that calls them seldom does not inline them (`language.calls_model`): all of it is
machine code at once, and so is each function of a model.

    external(name, ...)     stands for a function of the model in the module of a kernel
    linked(module, ...)     a kernel of that module, linked with functions

This uses internal names of numba, like `inner_functions`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding
from numba import _dynfunc, jit, njit, types
from numba.core import cgutils, codegen, compiler, config
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import Environment
from numba.core.runtime import rtsys
from numba.core.types import unliteral  # type: ignore[attr-defined]
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from ergode.core.compiler.declared import Declared, Numba, declaration, file_of, read, written
from ergode.core.compiler.inner_functions import (
    InnerLibrary,
    OpenCompiler,
    inner_libraries,
    is_inlined,
    leave_as_it_is,
    missing,
)

_DECLARED: dict[str, Declared] = {}
"""By the symbol in LLVM code."""


_NUMBA = Numba(
    types, unliteral, AbstractTemplate, infer_global, lower_builtin, cgutils,
    lambda context: context.call_conv,
)  # fmt: skip


@cache
def external(name: str, shape: tuple[int, ...], real: Any, called: bool = False) -> Any:
    """A function of the model, which is declared where it is called (see `declaration`)."""
    return declaration(name, shape, real, _NUMBA, _DECLARED, called)


class Open(NamedTuple):
    """A kernel without the functions of the model, for given types of arguments."""

    fixed: bytes  # machine code of all that does not depend on the model
    open_symbols: frozenset[str]  # functions that it calls, and does not have
    entry: bytes  # LLVM code of the kernel's own function; empty if it does not depend on it
    # LLVM code of functions that call the model, or of all that the entry calls, callers first;
    # and whether it is optimised on its own
    parts: tuple[tuple[bytes, bool], ...]
    declared: dict[str, Declared]
    description: Any  # numba's description of the function
    constants: Any  # Python objects of its environment
    signature: Any
    reload: tuple[Any, ...]


class Linked(NamedTuple):
    """The machine code of a linked kernel, in parts; and what numba needs to call it."""

    parts: tuple[bytes, ...]
    description: Any
    constants: Any
    signature: Any
    reload: tuple[Any, ...]


_OPEN: dict[Any, Open] = {}


def linked(module: str, **functions: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a stand-in: the kernel of its name in `module`, linked with `functions`."""

    def decorate(stand_in: Callable[..., Any]) -> Any:
        kernel = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(stand_in)
        usual = kernel._compiler
        kernel._compiler = _Linker(
            stand_in, usual.targetdescr, usual.targetoptions, usual.locals, usual.pipeline_class
        )
        kernel._compiler.links(module, functions)
        return kernel

    return decorate


class _Linker(_FunctionCompiler):  # type: ignore[misc]
    """Makes the compiled form of a linked kernel, or reads it from disk."""

    def links(self, module: str, functions: Mapping[str, Any]) -> None:
        self._module, self._functions = module, functions

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        target = self.targetdescr.target_context
        path = self._path(self.py_func.__module__, args, "nbc")
        found = read(path, Linked)
        if found is None:
            found = written(path, self._linked(self._open(args, return_type)))
        rtsys.initialize(target)  # the code counts references
        for initialize in found.reload:
            initialize()
        library = _Machine(target.codegen(), self.py_func.__qualname__)
        library.hold(found.parts)
        description = found.description
        description.modname = self.py_func.__module__
        environment = Environment(description.lookup_globals())
        environment.env_name = description.env_name
        environment.consts.extend(found.constants)
        library.set_environment(environment)
        address = library.get_pointer_to_function(description.llvm_cpython_wrapper_name)
        function = _dynfunc.make_function(
            description.lookup_module(), self.py_func.__name__, "linked kernel", address,
            environment, (library,),
        )  # fmt: skip
        return compiler.CompileResult(
            target_context=target, typing_context=target.typing_context, library=library,
            environment=environment, entry_point=function, fndesc=description, type_annotation="",
            signature=found.signature, objectmode=False, lifted=(), typing_error=None,
            call_helper=None, metadata=None, reload_init=found.reload,
            referenced_envs=(environment,),
        )  # fmt: skip

    def _path(self, module: str, args: Any, ending: str) -> Path:
        machine = self.targetdescr.target_context.codegen().magic_tuple()
        return file_of(self.py_func, module, args, machine, ending)

    def _linked(self, opened: Open) -> Linked:
        modules: list[Any] = []
        try:
            return self._linked_in(binding.create_context(), modules, opened)
        finally:  # a collection of garbage may dispose of a context before its modules, and crash
            for module in modules:
                module.close()

    def _linked_in(self, context: Any, own: list[Any], opened: Open) -> Linked:
        """As `_linked`, in a context of its own; `own` gets the modules that are made there."""

        def parsed(code: bytes) -> Any:
            own.append(binding.parse_bitcode(code, context=context))
            return own[-1]

        codegen = self.targetdescr.target_context.codegen()
        modules = _compiled(opened, self._functions, codegen)
        closed = partial(_closed, modules=modules, parsed=parsed)
        needed = [
            _optimised(closed(parsed(code)), codegen) if is_short else parsed(code)
            for code, is_short in opened.parts
        ]
        if opened.entry:  # LLVM drops what nobody calls yet, so the caller has to be there first
            needed = [parsed(opened.entry), *map(_inlinable, needed)]
        code = [opened.fixed]
        if needed:
            whole, *others = needed
            for one in others:
                whole.link_in(one)
            if opened.entry or not all(is_short for _, is_short in opened.parts):
                whole = _optimised(closed(whole), codegen)
            wrapper = opened.description.llvm_cpython_wrapper_name
            _check(whole, opened.open_symbols, {wrapper} if opened.entry else None)
            code.append(codegen._tm.emit_object(whole))
        for symbol, declared in opened.declared.items():
            if declared.called:
                alone = parsed(modules[symbol])
                alone.get_function(symbol).linkage = "external"
                code.append(codegen._tm.emit_object(_optimised(alone, codegen)))
        return Linked(
            tuple(code), opened.description, opened.constants, opened.signature, opened.reload
        )

    def _open(self, args: Any, return_type: Any) -> Open:
        """The kernel without the model: from this process, from disk, or compiled."""
        path = self._path(self._module, args, "open")
        if path.name not in _OPEN:
            found = read(path, Open)
            if found is None:
                found = written(path, self._opened(args, return_type))
            _OPEN[path.name] = found
        return _OPEN[path.name]

    def _opened(self, args: Any, return_type: Any) -> Open:
        kernel = getattr(sys.modules[self._module], self.py_func.__name__)
        usual = _FunctionCompiler(
            kernel.py_func, kernel.targetdescr, kernel.targetoptions, kernel.locals, OpenCompiler
        )
        result = usual._compile_core(args, return_type)
        description, library = result.fndesc, result.library
        description.typemap = description.calltypes = None
        fixed, codegen = library._final_module, library.codegen
        wrapper = fixed.get_function(description.llvm_cpython_wrapper_name)
        leave_as_it_is(wrapper)
        entry, parts = b"", [part for part in library.parts if any(missing(part[0]))]
        closed = [one for one, _ in library.parts if not any(missing(one))]
        if any(missing(fixed)) or any(is_inlined(one) for one, _ in parts):
            entry = _without(fixed, wrapper.name, description.env_name).as_bitcode()
            fixed.get_function(description.llvm_func_name).linkage = "available_externally"
            parts = library.parts
        for one in closed:
            fixed.link_in(one, preserve=True)
        needed = [library._final_module, *(one for one, _ in parts)]
        fixed = _optimised(fixed, codegen)
        return Open(
            codegen._tm.emit_object(fixed), _called_elsewhere(fixed), entry,
            tuple((one.as_bitcode(), is_short) for one, is_short in parts),
            {
                one.name: _DECLARED[one.name] for module in needed for one in module.functions
                if one.name in _DECLARED
            },
            description, result.environment.consts, result.signature, tuple(library._reload_init),
        )  # fmt: skip


class _Machine(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a linked kernel, whose names are its own."""

    def hold(self, parts: tuple[bytes, ...]) -> None:
        options: dict[str, Any] = {"opt": config.OPT}
        self._codegen._customize_tm_options(options)
        machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
            **options
        )
        self._own = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        for part in parts:
            self._own.add_object_file(binding.ObjectFileRef.from_data(part))
        self._own.finalize_object()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return int(self._own.get_function_address(name))

    def set_environment(self, environment: Any) -> None:
        address = self._own.get_global_value_address(environment.env_name)
        ctypes.c_void_p.from_address(address).value = id(environment)


def _compiled(opened: Open, functions: Mapping[str, Any], codegen: Any) -> dict[str, bytes]:
    """LLVM code of the functions of the model, by their symbols."""
    modules = {}
    for symbol, declared in opened.declared.items():
        function = functions[declared.name]
        function = declared.given_by(function, jit(**function.targetoptions))
        with inner_libraries(codegen):
            function.compile(declared.arguments)
        result = function.overloads[declared.arguments]
        module = result.library.own_module().clone()
        module.get_function(result.fndesc.mangled_name).name = symbol
        modules[symbol] = module.as_bitcode()
    return modules


def _closed(module: Any, modules: Mapping[str, bytes], parsed: Callable[[bytes], Any]) -> Any:
    """The module, linked with the functions of the model that it calls."""
    for symbol in list(missing(module)):
        module.link_in(parsed(modules[symbol]))
    return module


def _called_elsewhere(module: Any) -> frozenset[str]:
    """Functions of generated modules that a module calls, and does not have."""
    return frozenset(
        one.name for one in module.functions if one.name.startswith("_ZN")
        and (one.is_declaration or one.linkage == binding.Linkage.available_externally)
    )  # fmt: skip


def _check(module: Any, open_symbols: frozenset[str], elsewhere: set[str] | None) -> None:
    """Raise a RuntimeError if one part of a kernel calls what the other does not have.

    `open_symbols` are those that the first part calls in this one.  `elsewhere` are those that this
    one may call in the first part; None for any.
    """
    called = _called_elsewhere(module)
    absent = open_symbols - ({one.name for one in module.functions} - called)
    if elsewhere is not None:
        absent |= called - elsewhere
    if absent:
        raise RuntimeError(f"these functions were not linked: {', '.join(sorted(absent))}")


def _without(module: Any, *names: str) -> Any:
    """A copy of a module from which some things become no machine code: they are elsewhere."""
    rest = module.clone()
    for group in (rest.functions, rest.global_variables):
        for one in group:
            if one.name in names:
                one.linkage = "available_externally"
    return rest


def _inlinable(module: Any) -> Any:
    """The module, whose exported functions are dropped where they have been inlined."""
    for function in module.functions:
        if not function.is_declaration and function.linkage == binding.Linkage.external:
            function.linkage = "linkonce_odr"
    return module


def _optimised(module: Any, codegen: Any) -> Any:
    alone = InnerLibrary(codegen, module.name)
    alone._final_module = module
    alone._optimize_final_module()
    return alone._final_module
