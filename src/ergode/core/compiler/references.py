"""Pass a record to functions by its address; only on the CPU.

Numba passes a tuple in parts: an array is eight of them, a record of a hundred arrays a thousand
arguments of every function that gets it.  Of the LLVM code of a kernel with many functions, four
instructions in five then only take records apart and put them together.  A record `by_reference`
is one argument, and a function loads the fields that it uses.

Fields that are records are references too.  The memory is that of the function that calls
`by_reference`, so a reference must not be returned from it.  A reference does not keep arrays:
those that a kernel makes are in a variable of it until it is done with them (`hold`).

`at_address` puts a record into memory in Python. The function that Python calls then need not take
it apart, which is a fifth of the compile time of a kernel with many tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache, cached_property
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba._dispatcher import compute_fingerprint
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.registry import cpu_target
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

_WIDTH = 16  # records begin at a multiple of it [bytes]
ADDRESS = ir.ArrayType(ir.IntType(8), 0).as_pointer()
"""The type in LLVM code of a reference, and of nothing else."""


class Reference(types.Type):  # type: ignore[misc]
    """The type of a record that is passed by its address."""

    def __init__(self, record: Any) -> None:
        self.record = record
        digest = hashlib.sha256(record.name.encode()).hexdigest()[:16]
        super().__init__(name=f"Reference({record.instance_class.__name__}_{digest})")

    @property
    def key(self) -> Any:
        return self.name

    @cached_property
    def layout(self) -> Layout:
        fields, at = {}, 0
        for name, kind in zip(self.record.fields, self.record.types, strict=True):
            inside = isinstance(kind, types.BaseNamedTuple)
            if inside:
                kind = Reference(kind)
                size, width = kind.layout.size, _WIDTH
            else:
                size, width = _size_of(cpu_target.target_context.get_value_type(kind))
            at = -(-at // width) * width
            fields[name] = Field(kind, at, inside)
            at += size
        return Layout(fields, max(at, 1))


class Field(NamedTuple):
    """A part of a record in memory."""

    kind: Any  # its type: a reference for a record
    offset: int  # [bytes]
    inside: bool  # whether it is a record whose fields are there, not their address


class Layout(NamedTuple):
    """A record in memory."""

    fields: dict[str, Field]
    size: int  # [bytes]


@cache
def _size_of(kind: Any) -> tuple[int, int]:
    """Size and alignment [bytes]."""
    context = cpu_target.target_context
    return context.get_abi_sizeof(kind), context.get_abi_alignment(kind)


@register_model(Reference)
class _Model(models.OpaqueModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super(models.OpaqueModel, self).__init__(manager, kind, ADDRESS)


def _place(context: Any, builder: Any, address: Any, field: Field) -> Any:
    first = builder.bitcast(address, cgutils.voidptr_t)
    place = builder.gep(first, [ir.IntType(64)(field.offset)], inbounds=True)
    kind = ADDRESS if field.inside else context.get_value_type(field.kind).as_pointer()
    return builder.bitcast(place, kind)


def _store(context: Any, builder: Any, address: Any, kind: Any, value: Any) -> None:
    for index, field in enumerate(kind.layout.fields.values()):
        place = _place(context, builder, address, field)
        part = builder.extract_value(value, index)
        if field.inside:
            _store(context, builder, place, field.kind, part)
        else:
            builder.store(part, place)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.layout.fields[name].kind if name in kind.layout.fields else None


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    field = kind.layout.fields[name]
    place = _place(context, builder, value, field)
    if field.inside:
        return place
    return impl_ret_borrowed(context, builder, field.kind, builder.load(place))


def _by_reference(context: Any, record: Any) -> Any:
    if not isinstance(record, types.BaseNamedTuple):
        return record(record), lambda context, builder, signature, arguments: impl_ret_borrowed(
            context, builder, record, arguments[0]
        )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.IntType(8), kind.layout.size))
        memory.align = _WIDTH
        address = builder.bitcast(memory, ADDRESS)
        _store(context, builder, address, kind, arguments[0])
        return address

    return Reference(record)(record), generate


class AtAddress:
    """A record in memory, for kernels that get it by reference; it keeps the arrays.

    A record that has arrays of an `earlier` one is made faster.
    """

    __slots__ = "_arrays", "_memory", "_record", "address", "kind"

    def __init__(self, record: Any, earlier: AtAddress | None = None) -> None:
        self._record = record
        self._arrays: dict[int, tuple[int, ...]] = {}
        self.kind = _kind_of(record)
        spelled = _spelled(self.kind)
        self._memory: Any = np.empty(spelled.size + _WIDTH, np.uint8)
        first = self._memory.ctypes.data
        self.address = -(-first // _WIDTH) * _WIDTH
        values: list[Any] = []
        _take_apart(record, values, self._arrays, earlier._arrays if earlier else {})
        spelled.pack_into(self._memory.data, self.address - first, *values)


def _kind_of(record: Any) -> Reference:
    """The type of a reference to a record; numba looks at one of its kind a second time fast."""
    form = compute_fingerprint(record)
    if form not in _KINDS:
        _KINDS[form] = Reference(typeof(record))
    return _KINDS[form]


_KINDS: dict[bytes, Reference] = {}


def _take_apart(record: Any, values: list[Any], arrays: Any, earlier: Any) -> None:
    """Append the numbers in a record, as `_parts` spells them; those of arrays by their `id`."""
    for part in record:
        if isinstance(part, np.ndarray):
            found = earlier.get(id(part))
            if found is None:  # nobody counts references to it
                address = part.__array_interface__["data"][0]
                found = (0, 0, part.size, part.itemsize, address, *part.shape, *part.strides)
            arrays[id(part)] = found
            values += found
        elif isinstance(part, tuple):
            _take_apart(part, values, arrays, earlier)
        else:
            values.append(part)


@cache
def _spelled(kind: Reference) -> Struct:
    """The memory of a record."""
    spelled, at = "=", 0
    for offset, letters in _parts(kind, 0):
        spelled += f"{offset - at}x{letters}"
        at = offset + Struct(f"={letters}").size
    return Struct(spelled)


def _parts(kind: Reference, begin: int) -> Iterator[tuple[int, str]]:
    """Offsets and letters of numbers and arrays in a record, as `struct` spells them."""
    for field in kind.layout.fields.values():
        if field.inside:
            yield from _parts(field.kind, begin + field.offset)
        elif isinstance(field.kind, types.Array):
            yield begin + field.offset, f"{5 + 2 * field.kind.ndim}q"
        else:
            number = np.dtype(str(field.kind).replace("boolean", "bool"))
            yield begin + field.offset, _LETTERS[number.str[1:]]


_LETTERS = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip


@typeof_impl.register(AtAddress)  # type: ignore[untyped-decorator]
def _typeof(value: AtAddress, _: Any) -> Reference:
    return value.kind


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox(kind: Any, value: Any, call: Any) -> Any:
    number = call.pyapi.object_getattr_string(value, "address")
    address = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return NativeValue(call.builder.bitcast(address, ADDRESS))


def _hold(context: Any, value: Any) -> Any:
    return types.void(value), lambda context, *_: context.get_dummy_value()


_by_reference.__name__, _hold.__name__ = "by_reference", "hold"
by_reference, hold = intrinsic(_by_reference), intrinsic(_hold)


def say_what_is_known(module: Any) -> None:
    """Tell LLVM that nobody writes to a record while a function runs, and who keeps its address.

    Those that return it do, alone or in a record: numba's first argument is what they return.
    """
    for function in module.functions:
        returned = str(function.args[0].type) if function.args else ""
        known = _KNOWN[:1] if str(ADDRESS) in returned else _KNOWN
        for argument in function.args:
            if argument.type == ADDRESS:
                for attribute in known:
                    argument.add_attribute(attribute)


_KNOWN = [
    one for one in ("noalias", "captures(none)", "nocapture")
    if one in getattr(ir.values.ArgumentAttributes, "_known", ())
]  # fmt: skip
