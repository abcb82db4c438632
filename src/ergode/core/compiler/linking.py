"""Link the functions of a model into a kernel that was compiled without them.

A kernel that calls functions of a model is compiled once, to LLVM code in which those functions
are only declared.  A model's functions are compiled alone, and linked with that code: of all the
work of compiling, only LLVM's is done again, and a short function's own.

    external(name, ...)     stands for a function of the model in the module of a kernel
    linked(module, ...)     a kernel of that module, linked with functions

This uses internal names of numba, like `inner_functions`.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding
from numba import jit, njit, types
from numba.core import cgutils, compiler
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import Environment
from numba.core.types import unliteral  # type: ignore[attr-defined]
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin
from numba.np.numpy_support import as_dtype

from ergode.core.compiler.inner_functions import (
    InnerLibrary,
    KernelLibrary,
    OpenCompiler,
    inner_libraries,
)

_PREFIX = "ergode_external_"


class Declared(NamedTuple):
    """A function of the model, as a kernel declares it."""

    name: str
    arguments: tuple[Any, ...]  # types of numba
    returned: Any


_DECLARED: dict[str, Declared] = {}
"""By the symbol in LLVM code."""


@cache
def external(name: str, shape: tuple[int, ...], real: Any) -> Any:
    """A function of the model, for numba: it is declared where it is called.

    Parameters
    ----------
    name : str
    shape : tuple of int
        Shape of the returned numbers: () one, (3,) a tuple of three, (2, 3) two tuples of three.
    real : type
        NumPy type of the returned numbers.
    """
    returned: Any = types.float32 if real.__name__ == "float32" else types.float64
    for length in reversed(shape):
        returned = types.UniTuple(returned, length)

    def function(*_: Any) -> Any:
        raise TypeError(f"'{name}' has a meaning only inside a compiled kernel")

    class Declaration(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, arguments: Any, _: Any) -> Any:
            return returned(*map(unliteral, arguments))

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        spelled = f"{signature.args} {returned}"
        symbol = f"{_PREFIX}{name}_{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"
        _DECLARED[symbol] = Declared(name, signature.args, returned)
        convention = context.call_conv
        kind = convention.get_function_type(returned, signature.args)
        function = cgutils.get_or_insert_function(builder.module, kind, symbol)
        status, result = convention.call_function(
            builder, function, returned, signature.args, values
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    infer_global(function, types.Function(Declaration))
    lower_builtin(function, types.VarArg(types.Any))(call)
    return function


class Open(NamedTuple):
    """A kernel without the functions of the model, for given types of arguments."""

    entry: bytes  # LLVM code of the kernel's own function
    short: tuple[bytes, ...]  # of functions that call the model, and are optimised on their own
    rest: tuple[bytes, ...]  # of all others
    declared: dict[str, Declared]
    description: Any  # numba's description of the function
    constants: Any  # Python objects of its environment
    signature: Any
    reload: tuple[Any, ...]


_OPEN: dict[Any, Open] = {}


def linked(module: str, **functions: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a stand-in: the kernel of its name in `module`, linked with `functions`."""

    def decorate(stand_in: Callable[..., Any]) -> Any:
        kernel = njit(nogil=True, error_model="numpy", cache=True, no_cfunc_wrapper=True)(stand_in)
        usual = kernel._compiler
        kernel._compiler = _Linker(
            stand_in, usual.targetdescr, usual.targetoptions, usual.locals, usual.pipeline_class
        )
        kernel._compiler.links(module, functions)
        return kernel

    return decorate


class _Linker(_FunctionCompiler):  # type: ignore[misc]
    """Makes the compiled form of a linked kernel."""

    def links(self, module: str, functions: Mapping[str, Any]) -> None:
        self._module, self._functions = module, functions

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        target = self.targetdescr.target_context
        opened = self._open(args, return_type)
        modules, digest = _compiled(opened, self._functions, target.codegen())
        library = KernelLibrary(target.codegen(), self.py_func.__qualname__)
        library.enable_object_caching()  # so that it can be cached on disk
        description = copy(opened.description)
        description.modname = self.py_func.__module__
        description.mangled_name += f"_{digest}"
        description.env_name += f"_{digest}"
        environment = Environment.from_fndesc(description)
        environment.consts[:] = opened.constants
        final = binding.parse_bitcode(opened.entry)
        for code in opened.short:
            final.link_in(_optimised(_closed(binding.parse_bitcode(code), modules), library))
        for code in opened.rest:
            final.link_in(binding.parse_bitcode(code))
        _closed(final, modules)
        for old, new in zip(_names(opened.description), _names(description), strict=True):
            _rename(final, old, new)
        library.close(final)
        return compiler.CompileResult(
            target_context=target, typing_context=target.typing_context, library=library,
            environment=environment,
            entry_point=target.get_executable(library, description, environment),
            fndesc=description, type_annotation="", signature=opened.signature, objectmode=False,
            lifted=(), typing_error=None, call_helper=None, metadata=None,
            reload_init=opened.reload, referenced_envs=(environment,),
        )  # fmt: skip

    def _open(self, args: Any, return_type: Any) -> Open:
        """The kernel without the model: from this process, from disk, or compiled."""
        magic = self.targetdescr.target_context.codegen().magic_tuple()
        spelled = f"{self._module} {self.py_func.__name__} {args} {magic}"
        digest = hashlib.sha256(spelled.encode()).hexdigest()[:16]
        if digest not in _OPEN:
            folder = Path(self.py_func.__code__.co_filename).parent / "__pycache__"
            path = folder / f"{self._module}.{self.py_func.__name__}.{digest}.open"
            _OPEN[digest] = _read(path) or _written(path, self._opened(args, return_type))
        return _OPEN[digest]

    def _opened(self, args: Any, return_type: Any) -> Open:
        kernel = getattr(sys.modules[self._module], self.py_func.__name__)
        usual = _FunctionCompiler(
            kernel.py_func, kernel.targetdescr, kernel.targetoptions, kernel.locals, OpenCompiler
        )
        result = usual._compile_core(args, return_type)
        description, library = result.fndesc, result.library
        description.typemap = description.calltypes = None
        entry = library._final_module
        called = {module for module, _ in library.parts}
        found = {symbol for module in (entry, *called) for symbol in _declared_in(module)}
        short = [one for one, is_short in library.parts if is_short and any(_declared_in(one))]
        return Open(
            entry.as_bitcode(), tuple(one.as_bitcode() for one in short),
            tuple(one.as_bitcode() for one, _ in library.parts if one not in short),
            {symbol: _DECLARED[symbol] for symbol in sorted(found)},
            description, result.environment.consts, result.signature, tuple(library._reload_init),
        )  # fmt: skip


def _read(path: Path) -> Open | None:
    try:
        return Open(*pickle.loads(path.read_bytes()))
    except Exception:  # absent, damaged, or of a module that this process does not have
        return None


def _written(path: Path, opened: Open) -> Open:
    with suppress(OSError):  # without room on the disk it is compiled again
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(pickle.dumps(tuple(opened)))
        os.replace(part, path)
    return opened


def _compiled(
    opened: Open, functions: Mapping[str, Any], codegen: Any
) -> tuple[dict[str, Any], str]:
    """Modules of the functions of the model, by their symbols; and a digest of them."""
    modules, digest = {}, hashlib.sha256()
    for symbol, declared in opened.declared.items():
        function = _in_form(functions[declared.name], declared)
        with inner_libraries(codegen):
            function.compile(declared.arguments)
        result = function.overloads[declared.arguments]
        module = result.library.own_module().clone()
        module.get_function(result.fndesc.mangled_name).name = symbol
        modules[symbol] = module
        digest.update(result.fndesc.mangled_name.encode())
        digest.update(module.as_bitcode())
    return modules, digest.hexdigest()[:16]


def _in_form(function: Any, declared: Declared) -> Any:
    """The function with the numbers that it returns in their declared form and precision."""
    names = ", ".join(f"argument_{k}" for k in range(len(declared.arguments)))
    text = (
        f"def {declared.name}({names}):\n    value = function({names})\n"
        f"    return {_text('value', declared.returned)}\n"
    )
    home = function.py_func.__module__
    space = {"function": function, "real": _scalar(declared.returned), "__name__": home}
    exec(text, space)
    return jit(**function.targetoptions)(space[declared.name])


def _text(value: str, form: Any) -> str:
    if not isinstance(form, types.BaseTuple):
        return f"real({value})"
    return f"({''.join(_text(f'{value}[{k}]', item) + ', ' for k, item in enumerate(form))})"


def _scalar(form: Any) -> Any:
    while isinstance(form, types.BaseTuple):
        form = form[0]
    return as_dtype(form).type


def _declared_in(module: Any) -> Iterator[str]:
    """Symbols of the model that a module calls, and does not have."""
    return (
        one.name for one in module.functions if one.is_declaration and one.name.startswith(_PREFIX)
    )


def _closed(module: Any, modules: Mapping[str, Any]) -> Any:
    """The module, linked with the functions of the model that it calls."""
    for symbol in list(_declared_in(module)):
        module.link_in(modules[symbol], preserve=True)
    return module


def _optimised(module: Any, library: Any) -> Any:
    """The module, optimised on its own; of its functions, the one that a kernel calls remains."""
    alone = InnerLibrary(library.codegen, library.name)
    alone._final_module = module
    alone._optimize_final_module()
    alone._finalized = True
    return alone.own_module()


def _names(description: Any) -> tuple[str, str, str]:
    return (
        description.llvm_func_name, description.llvm_cpython_wrapper_name, description.env_name
    )  # fmt: skip


def _rename(module: Any, old: str, new: str) -> None:
    for group in (module.functions, module.global_variables):
        for one in group:
            if one.name == old:
                one.name = new
