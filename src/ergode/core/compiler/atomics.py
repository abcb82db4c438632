"""Atomic operations for CPU threads, built from LLVM instructions.

CUDA has its own.  Updates are sequentially consistent and loads acquire: a thread that sees a new
value also sees everything written before it.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_ORDER = "seq_cst"
_GIVE_WAY = "SwitchToThread" if sys.platform == "win32" else "sched_yield"


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Address of an element of a one-dimensional array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(
        context, builder, signature.args[0], array, [arguments[1]], wraparound=False
    )


@intrinsic
def atomic_add(context, array, at, amount):  # type: ignore[no-untyped-def]
    """Add to an element of an integer array; return its previous value."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], _ORDER)

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def atomic_max(context, array, at, value):  # type: ignore[no-untyped-def]
    """Set an element to the larger of itself and `value`; return its previous value."""
    larger = "fmax" if isinstance(array.dtype, types.Float) else "max"

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw(larger, place, arguments[2], _ORDER)

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def atomic_swap_if(context, array, at, expected, value):  # type: ignore[no-untyped-def]
    """Compare-and-swap: set an element if it equals `expected`; return its previous value."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        result = builder.cmpxchg(place, arguments[2], arguments[3], _ORDER, _ORDER)
        return builder.extract_value(result, 0)

    return array.dtype(array, types.intp, array.dtype, array.dtype), generate


@intrinsic
def atomic_load(context, array, at):  # type: ignore[no-untyped-def]
    """Load the current value of an element."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, "acquire", array.dtype.bitwidth // 8)

    return array.dtype(array, types.intp), generate


@intrinsic
def yield_thread(context):  # type: ignore[no-untyped-def]
    """Yield this core to another waiting thread, if there is one."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _GIVE_WAY), [])
        return context.get_dummy_value()

    return types.void(), generate
