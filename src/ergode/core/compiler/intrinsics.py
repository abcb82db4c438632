"""The few machine instructions that Python has no word for, built for any numba target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def define(intrinsic: Callable[..., Any], types: Any) -> tuple[Any, Any, Any]:
    """Make `fma`, `to_bits` and `from_bits` with a target's own `intrinsic` decorator."""
    unsigned = {types.float32: types.uint32, types.float64: types.uint64}
    floating = {value: key for key, value in unsigned.items()}

    def fma(context, a, b, c):  # type: ignore[no-untyped-def]
        def generate(_, builder, __, arguments):  # type: ignore[no-untyped-def]
            return builder.fma(*arguments)

        return (a(a, a, a), generate) if a == b == c and a in unsigned else None

    def bit_cast(result_of):  # type: ignore[no-untyped-def]
        def cast(context, x):  # type: ignore[no-untyped-def]
            if x not in result_of:
                return None
            result = result_of[x]

            def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
                return builder.bitcast(arguments[0], context.get_value_type(result))

            return result(x), generate

        return cast

    to_bits, from_bits = bit_cast(unsigned), bit_cast(floating)
    to_bits.__name__, from_bits.__name__ = "to_bits", "from_bits"
    return intrinsic(fma), intrinsic(to_bits), intrinsic(from_bits)
