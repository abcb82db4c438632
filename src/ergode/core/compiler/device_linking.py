"""Link the functions of a model into a CUDA kernel that was compiled without them.

Typing a kernel and lowering it to LLVM code takes two thirds of the time that a new model would
cost.  So this is done once, with the functions of the model only declared.  A new model's functions
are lowered alone; NVVM then sees their LLVM code beside that of the kernel and inlines them, as if
all had been written in one module: the machine code is the same.

    external(name, ...)     stands for a function of the model in the module of a kernel
    linked(module, ...)     a kernel of that module, linked with functions

This uses internal names of numba-cuda.  If one is missing, functions are written into kernels.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from numba import cuda
from numba.cuda import cgutils, dispatcher, types
from numba.cuda.codegen import CUDACodeLibrary
from numba.cuda.compiler import CUDACallConv, compile_cuda, kernel_fixup
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.imputils import lower_builtin
from numba.cuda.types import unliteral
from numba.cuda.typing.templates import AbstractTemplate, infer_global

from ergode.core.compiler.declared import Declared, Numba, declaration, file_of, read, written

_DECLARED: dict[str, Declared] = {}
"""By the symbol in LLVM code."""


_NUMBA = Numba(
    types, unliteral, AbstractTemplate, infer_global, lower_builtin, cgutils,
    CUDACallConv,
)  # fmt: skip


@cache
def external(name: str, shape: tuple[int, ...], real: Any) -> Any:
    """A function of the model, which is declared where it is called (see `declaration`)."""
    return declaration(name, shape, real, _NUMBA, _DECLARED)


class Open(NamedTuple):
    """A kernel without the functions of the model, for given types of arguments."""

    code: tuple[str, ...]  # LLVM code of the kernel and of all that it calls
    entry: str  # symbol of the kernel
    signature: Any
    cooperative: bool  # whether it has barriers of the whole grid
    declared: tuple[Declared, ...]


_OPEN: dict[Any, Open] = {}


def linked(module: str, **functions: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a stand-in: the kernel of its name in `module`, linked with `functions`."""

    def decorate(stand_in: Callable[..., Any]) -> Any:
        whole = getattr(sys.modules[module], stand_in.__name__)
        kernel = cuda.jit(cache=True)(stand_in)
        kernel.__class__ = _Linked
        kernel.links(whole, functions)
        return kernel

    return decorate


class _Linked(dispatcher.CUDADispatcher):  # type: ignore[misc]
    """A linked kernel, whose compiled forms are kept on disk like those of any kernel."""

    def links(self, whole: Any, functions: dict[str, Any]) -> None:
        self._whole, self._functions = whole, functions

    def compile(self, signature: Any) -> Any:
        arguments = tuple(signature)
        if arguments in self.overloads:
            return self.overloads[arguments]
        kernel = self._cache.load_overload(arguments, self.targetctx)
        if kernel is None:
            kernel = self._kernel(arguments)
            kernel.bind()
            self._cache.save_overload(arguments, kernel)
        self.add_overload(kernel, arguments)
        return kernel

    def ptx(self, arguments: tuple[Any, ...], capability: Any, optimized: bool) -> str:
        """PTX of the kernel for these types of arguments."""
        opened, code = self._code(arguments, capability)
        library = self._library(opened, code, optimized)
        return str(library.get_asm_str(cc=capability))

    @global_compiler_lock  # type: ignore[untyped-decorator]
    def _kernel(self, arguments: tuple[Any, ...]) -> Any:
        capability = tuple(cuda.get_current_device().compute_capability)
        opened, code = self._code(arguments, capability)
        library = self._library(opened, code, True)
        library.get_asm_str()  # it is part of compiling, which `stopwatch` counts
        kernel = dispatcher._Kernel._rebuild(
            cooperative=opened.cooperative, name=opened.entry, signature=opened.signature,
            codelibrary=library, debug=False, lineinfo=False, call_helper=None, extensions=[],
        )  # fmt: skip
        kernel.target_context = self.targetctx
        return kernel

    def _library(self, opened: Open, code: list[str], optimized: bool) -> Any:
        return CUDACodeLibrary._rebuild(
            codegen=self.targetctx.codegen(), name=self.py_func.__name__, entry_name=opened.entry,
            llvm_strs=code, ptx_cache={}, cubin_cache={}, linkerinfo_cache={},
            max_registers=self._whole.targetoptions.get("max_registers"),
            nvvm_options={"fastmath": False, "opt": 3 if optimized else 0},
            needs_cudadevrt=opened.cooperative, nrt=False, use_cooperative=opened.cooperative,
            lto=False,
        )  # fmt: skip

    def _code(self, arguments: tuple[Any, ...], capability: Any) -> tuple[Open, list[str]]:
        """The kernel without the model, and LLVM code of both."""
        name = self._whole.py_func.__module__
        path = file_of(self.py_func, name, arguments, capability, "open")
        if path.name not in _OPEN:
            found = read(path, Open)
            if found is None:
                found = written(path, _opened(self._whole, arguments, capability))
            _OPEN[path.name] = found
        opened = _OPEN[path.name]
        functions = (
            _function(self._functions[one.name], one, capability) for one in opened.declared
        )
        return opened, [*opened.code, *(code for function in functions for code in function)]


def _opened(kernel: Any, arguments: tuple[Any, ...], capability: Any) -> Open:
    result = _lowered(kernel.py_func, types.void, arguments, capability)
    library = result.library
    kernel_fixup(library.get_function(result.fndesc.llvm_func_name), False)
    code = tuple(map(str, library.modules))
    symbols = {symbol for one in code for symbol in _SYMBOL.findall(one)}
    return Open(
        code, result.fndesc.llvm_func_name, result.signature, library.use_cooperative,
        tuple(_DECLARED[symbol] for symbol in sorted(symbols & _DECLARED.keys())),
    )  # fmt: skip


def _function(function: Any, declared: Declared, capability: Any) -> Iterator[str]:
    """LLVM code of a function of the model, and of all that it calls."""
    function = declared.given_by(function, cuda.jit(device=True))
    result = _lowered(function.py_func, declared.returned, declared.arguments, capability)
    entry = result.fndesc.llvm_func_name
    result.library.get_function(entry).linkage = "linkonce_odr"  # inlined, it is dropped
    for module in result.library.modules:
        # Numba counts functions in each process: an equal name may be another function's there.
        yield _SYMBOL.sub(
            lambda found: declared.symbol if found[0] == entry else f"{found[0]}_{declared.symbol}",
            str(module),
        )


def _lowered(function: Any, returned: Any, arguments: Any, capability: Any) -> Any:
    return compile_cuda(
        function, returned, arguments, cc=capability, nvvm_options={"fastmath": False, "opt": 3}
    )


_SYMBOL = re.compile(r'(?<=@")(?:_ZN|ergode_)[^"]*')
"""A symbol of ours in LLVM code."""
