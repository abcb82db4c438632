"""Functions of a model as kernels declare them, and files of what is compiled without them.

Both linkers use this: `linking` for CPUs, `device_linking` for CUDA.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

EXTERNAL = "ergode_external_"
"""Beginning of the symbols of functions that are linked later."""
CALLED = "ergode_called_"
"""The same of functions that are not inlined."""


class Declared(NamedTuple):
    """A function of the model, as a kernel declares it."""

    name: str
    arguments: tuple[Any, ...]  # types of numba
    returned: Any
    called: bool = False  # whether it is not inlined

    @property
    def symbol(self) -> str:
        """Its name in LLVM code."""
        spelled = f"{self.arguments} {self.returned}"
        beginning = CALLED if self.called else EXTERNAL
        return f"{beginning}{self.name}_{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"

    def given_by(self, function: Any, decorator: Callable[[Any], Any]) -> Any:
        """A function of this name, whose numbers have their declared form and precision."""
        names = ", ".join(f"argument_{k}" for k in range(len(self.arguments)))
        text = (
            f"def {self.name}({names}):\n    value = function({names})\n"
            f"    return {_text('value', self.returned)}\n"
        )
        space = {
            "function": function, "real": _scalar(self.returned),
            "__name__": function.py_func.__module__,
        }  # fmt: skip
        exec(text, space)
        return decorator(space[self.name])


class Numba(NamedTuple):
    """Names of numba, or of numba-cuda, by which a function is declared where it is called."""

    types: Any
    unliteral: Any
    template: Any
    infer_global: Any
    lower_builtin: Any
    cgutils: Any
    convention: Callable[[Any], Any]  # how functions are called, of a target's context


def declaration(
    name: str, shape: tuple[int, ...], real: Any, numba: Numba, known: dict[str, Declared],
    called: bool = False,
) -> Any:  # fmt: skip
    """A function of the model, for numba: it is declared where it is called.

    Parameters
    ----------
    name : str
    shape : tuple of int
        Shape of the returned numbers: () one, (3,) a tuple of three, (2, 3) two tuples of three.
    real : type
        NumPy type of the returned numbers.
    numba : Numba
    known : dict of str to Declared
        Gets what is declared, by the symbol in LLVM code.
    called : bool
        Whether it is called, not inlined.
    """
    returned = numba.types.float32 if real.__name__ == "float32" else numba.types.float64
    for length in reversed(shape):
        returned = numba.types.UniTuple(returned, length)

    def function(*_: Any) -> Any:
        raise TypeError(f"'{name}' has a meaning only inside a compiled kernel")

    class Declaration(numba.template):  # type: ignore[misc, name-defined]
        key = function

        def generic(self, arguments: Any, _: Any) -> Any:
            return returned(*map(numba.unliteral, arguments))

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        declared = Declared(name, signature.args, returned, called)
        known[declared.symbol] = declared
        convention = numba.convention(context)
        kind = convention.get_function_type(returned, signature.args)
        function = numba.cgutils.get_or_insert_function(builder.module, kind, declared.symbol)
        status, result = convention.call_function(
            builder, function, returned, signature.args, values
        )
        with numba.cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    numba.infer_global(function, numba.types.Function(Declaration))
    numba.lower_builtin(function, numba.types.VarArg(numba.types.Any))(call)
    return function


def _parts(form: Any) -> Any:
    """Types of the items of a tuple; None for a number."""
    return getattr(form, "types", None)


def _text(value: str, form: Any) -> str:
    if _parts(form) is None:
        return f"real({value})"
    return (
        f"({''.join(_text(f'{value}[{k}]', item) + ', ' for k, item in enumerate(_parts(form)))})"
    )


def _scalar(form: Any) -> Any:
    while _parts(form) is not None:
        form = _parts(form)[0]
    return np.dtype(str(form)).type


def file_of(stand_in: Any, module: str, arguments: Any, machine: Any, ending: str) -> Path:
    """File of a form of a kernel, which depends on the types of the arguments and the machine.

    It lies beside the generated module of `stand_in`, and is named like a kernel of `module`.
    """
    digest = hashlib.sha256(f"{arguments} {machine}".encode()).hexdigest()[:16]
    folder = Path(stand_in.__code__.co_filename).parent / "__pycache__"
    return folder / f"{module}.{stand_in.__name__}.{digest}.{ending}"


def read(path: Path, kind: type[Any]) -> Any:
    """What a file holds, as a named tuple of this kind; None if it cannot be read."""
    try:
        return kind(*pickle.loads(path.read_bytes()))
    except Exception:  # absent, damaged, or of a module that this process does not have
        return None


def written(path: Path, found: Any) -> Any:
    """Write a named tuple to a file, and return it."""
    with suppress(OSError):  # without room on the disk it is compiled again
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(pickle.dumps(tuple(found)))
        os.replace(part, path)
    return found
