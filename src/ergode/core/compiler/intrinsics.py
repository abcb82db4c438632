"""Machine instructions without a Python name, built for any numba target."""

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

        def of_complex(_, builder, __, arguments):  # type: ignore[no-untyped-def]
            (x, xi), (y, yi), (z, zi) = (
                [builder.extract_value(number, part) for part in (0, 1)] for number in arguments
            )
            real = builder.fma(x, y, builder.fsub(z, builder.fmul(xi, yi)))
            imaginary = builder.fma(x, yi, builder.fma(xi, y, zi))
            result = builder.insert_value(arguments[0], real, 0)
            return builder.insert_value(result, imaginary, 1)

        if not a == b == c:
            return None
        if a in (types.complex64, types.complex128):
            return a(a, a, a), of_complex
        return (a(a, a, a), generate) if a in unsigned else None

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


def define_number_at(intrinsic: Callable[..., Any], types: Any) -> Any:
    """Make `number_at` with a target's own `intrinsic` decorator."""

    def number_at(context, kind, address, i):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            form = context.get_value_type(signature.return_type).as_pointer()
            first = builder.inttoptr(arguments[1], form)
            return builder.load(builder.gep(first, [arguments[2]]))

        return kind(kind, types.int64, types.int64), generate

    return intrinsic(number_at)


def define_window(intrinsic: Callable[..., Any], types: Any, arrays: Any, cgutils: Any) -> Any:
    """Make `window` with a target's own `intrinsic` decorator, `arrayobj` and `cgutils`."""

    def window(context, array, begin, shape):  # type: ignore[no-untyped-def]
        if not (isinstance(array, types.Array) and array.ndim == 1):
            return None
        kind = array.copy(ndim=shape.count, layout="C" if array.layout == "C" else "A")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            source = context.make_array(array)(context, builder, arguments[0])
            (stride,) = cgutils.unpack_tuple(builder, source.strides, 1)
            shape = cgutils.unpack_tuple(builder, arguments[2], kind.ndim)
            start = cgutils.pointer_add(
                builder, source.data, builder.mul(arguments[1], stride), source.data.type
            )
            strides = [stride]
            for length in shape[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            result = context.make_array(kind)(context, builder)
            arrays.populate_array(
                result, data=start, shape=shape, strides=strides, itemsize=source.itemsize,
                meminfo=None,
            )  # fmt: skip
            return result._getvalue()

        intp = types.intp
        return kind(array, intp, types.UniTuple(intp, shape.count)), generate

    return intrinsic(window)
