"""Eight numbers in one vector register, as a type of numba: a lane for each of eight members.

A device function that does arithmetic on the elements of arrays runs unchanged for one member, with
arrays of float64, and for eight, with arrays of this type. LLVM does not vectorise loops over the
last, short axis of an array.

No operation is fused or reordered: a lane has the bits that its member has alone. A condition on
eight numbers has eight answers, so there are no comparisons: such code takes the lanes one by one,
with `lane_of`, or chooses numbers, with `where`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_cast,
    models,
    register_model,
)
from numba.np import arrayobj

WIDTH = 8
"""Lanes of a vector."""
_BYTES = 8 * WIDTH
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class Lanes(types.Type):  # type: ignore[misc]
    """Eight float64 numbers."""

    def __init__(self) -> None:
        super().__init__("Lanes")

    def unify(self, context: Any, other: Any) -> Any:
        """The type of a variable that is a number at first, and then a vector."""
        return self if isinstance(other, types.Number) else None

    def can_convert_from(self, context: Any, other: Any) -> Any:
        """A number is eight equal ones."""
        return Conversion.safe if isinstance(other, types.Number) else None


LANES = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@lower_cast(types.Number, Lanes)  # type: ignore[untyped-decorator]
def _spread(context: Any, builder: Any, given: Any, _: Any, value: Any) -> Any:
    value = context.cast(builder, value, given, types.float64)
    if isinstance(value, ir.Constant):
        return ir.Constant(_VECTOR, [value.constant] * WIDTH)
    none = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(none, value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, none, mask)


def _define(name: Any, count: int, generate: Callable[..., Any]) -> None:
    """Define an operation on lanes, and on lanes and a number."""

    @infer_global(name)
    class _Operation(AbstractTemplate):  # type: ignore[misc]
        def generic(self, arguments: Any, named: Any) -> Any:
            kinds = [isinstance(one, Lanes) for one in arguments]
            fits = all(k or isinstance(a, types.Number)
                       for k, a in zip(kinds, arguments, strict=True))  # fmt: skip
            if named or len(kinds) != count or not any(kinds) or not fits:
                return None
            return signature(LANES, *[LANES] * count)

    lower_builtin(name, *[Lanes] * count)(lambda _, builder, __, values: generate(builder, *values))


def _library(name: str) -> Callable[..., Any]:
    def generate(builder: Any, value: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f64")
        return builder.call(function, [value])

    return generate


for _names, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _name in _names:
        _define(_name, 2, lambda b, x, y, i=_instruction: getattr(b, i)(x, y))
_define(operator.neg, 1, lambda b, x: b.fneg(x))
_define(max, 2, lambda b, x, y: b.select(b.fcmp_ordered(">", y, x), y, x))
_define(min, 2, lambda b, x, y: b.select(b.fcmp_ordered("<", y, x), y, x))
_define(abs, 1, _library("fabs"))
_define(math.sqrt, 1, _library("sqrt"))


def _put(
    context: Any, builder: Any, source: Any, result: Any, data: Any, shape: Any, strides: Any
) -> Any:
    """A view of the memory of an array."""
    found = context.make_array(result)(context, builder)
    size = _BYTES if result.dtype is LANES else 8
    arrayobj.populate_array(
        found, data=data, shape=shape, strides=strides,
        itemsize=context.get_constant(types.intp, size), meminfo=source.meminfo,
        parent=source.parent,
    )  # fmt: skip
    return impl_ret_borrowed(context, builder, result, found._getvalue())


def _as_it_is(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])


@intrinsic
def as_lanes(context, array, shape):  # type: ignore[no-untyped-def]
    """Vectors [shape], in the memory of numbers [WIDTH (product of shape + 1)].

    Each vector is in one line of the cache.
    """
    result = types.Array(LANES, shape.count, "C", aligned=False)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        source = context.make_array(array)(context, builder, arguments[0])
        number = ir.IntType(64)
        address = builder.ptrtoint(source.data, number)
        address = builder.add(address, ir.Constant(number, _BYTES - 1))
        address = builder.and_(address, ir.Constant(number, -_BYTES))
        data = builder.inttoptr(address, context.get_data_type(LANES).as_pointer())
        lengths = cgutils.unpack_tuple(builder, arguments[1], shape.count)
        strides = [context.get_constant(types.intp, _BYTES)]
        for length in lengths[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        return _put(context, builder, source, result, data, lengths, strides)

    return result(array, types.UniTuple(types.intp, shape.count)), generate


@intrinsic
def flat_numbers(context, array):  # type: ignore[no-untyped-def]
    """All numbers of a one-dimensional array of vectors; an array of numbers is as it is."""
    if not isinstance(array.dtype, Lanes):
        return array(array), _as_it_is
    result = types.Array(types.float64, 1, "C")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        source = context.make_array(array)(context, builder, arguments[0])
        data = builder.bitcast(source.data, ir.DoubleType().as_pointer())
        (count,) = cgutils.unpack_tuple(builder, source.shape, 1)
        size = builder.mul(count, context.get_constant(types.intp, WIDTH))
        strides = [context.get_constant(types.intp, 8)]
        return _put(context, builder, source, result, data, [size], strides)

    return result(array), generate


@intrinsic
def lane_of(context, array, lane):  # type: ignore[no-untyped-def]
    """The numbers of one lane of an array of vectors; an array of numbers is as it is."""
    if not isinstance(array.dtype, Lanes):
        return array(array, lane), _as_it_is
    result = types.Array(types.float64, array.ndim, "A")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        source = context.make_array(array)(context, builder, arguments[0])
        data = builder.bitcast(source.data, ir.DoubleType().as_pointer())
        data = builder.gep(data, [context.cast(builder, arguments[1], lane, types.intp)])
        shape, strides = (
            cgutils.unpack_tuple(builder, part, array.ndim)
            for part in (source.shape, source.strides)
        )
        return _put(context, builder, source, result, data, shape, strides)

    return result(array, lane), generate


@intrinsic
def where(context, condition, one, other):  # type: ignore[no-untyped-def]
    """`one` where the condition is not zero, else `other`; numbers or vectors."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        holds, first, second = arguments
        holds = builder.fcmp_unordered("!=", holds, ir.Constant(holds.type, None))
        return builder.select(holds, first, second)

    return one(one, one, one), generate
