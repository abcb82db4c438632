"""Pass a record to device functions by its address in shared memory; only on CUDA.

A record of many arrays that is passed in parts fills the registers of every thread, and more: each
keeps its own copy of addresses that all have in common. A record `by_reference` is in shared
memory, once for a warp, and a function loads the fields that it uses. So functions need not be
inlined (see `language.noinline`).

All threads of a warp make the same record. It contains numbers, records, and arrays in C order. Of
an array, the address and the shape are kept. Arrays of local memory have equal addresses in all
threads. A `Group` is not kept: a thread that reads it gets its own, in its warp.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, NamedTuple

from llvmlite import ir
from numba.cuda import cgutils, nvvmutils, types
from numba.cuda.core.imputils import impl_ret_borrowed
from numba.cuda.cudadecl import registry as declared
from numba.cuda.cudaimpl import registry as lowered
from numba.cuda.datamodel import models
from numba.cuda.extending import intrinsic, register_model
from numba.cuda.np import arrayobj
from numba.cuda.typing.templates import AttributeTemplate

_SHARED, _WORD, _WARP, _MOST_WARPS = 3, 8, 32, 8
_GROUP = "Group"


class Field(NamedTuple):
    """A part of a record in memory."""

    kind: Any  # its type: a reference for a record
    offset: int  # [words]


class Reference(types.Type):  # type: ignore[misc]
    """The type of a record that is passed by its address."""

    def __init__(self, record: Any) -> None:
        self.record = record
        digest = hashlib.sha256(record.name.encode()).hexdigest()[:16]
        super().__init__(name=f"Reference({record.instance_class.__name__}_{digest})")

    @cached_property
    def fields(self) -> dict[str, Field]:
        """Fields by name."""
        found, at = {}, 0
        for name, kind in zip(self.record.fields, self.record.types, strict=True):
            inside = _is_record(kind) and kind.instance_class.__name__ != _GROUP
            field = Field(Reference(kind) if inside else kind, at)
            found[name] = field
            at += _words_of(field.kind)
        return found

    @property
    def words(self) -> int:
        """Size."""
        return sum(_words_of(field.kind) for field in self.fields.values())


def _is_record(kind: Any) -> bool:
    return isinstance(kind, types.BaseNamedTuple)


def _words_of(kind: Any) -> int:
    if isinstance(kind, Reference):
        return kind.words
    if isinstance(kind, types.Array):
        assert kind.layout == "C", kind
        return 1 + int(kind.ndim)
    if isinstance(kind, types.BaseTuple):
        assert _is_record(kind) or not len(kind), kind
        return 0
    return 1


@register_model(Reference)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer(_SHARED))


def _place(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    place = builder.gep(address, [ir.IntType(32)(offset)], inbounds=True)
    return builder.bitcast(place, kind.as_pointer(_SHARED))


def _store(context: Any, builder: Any, address: Any, kind: Any, record: Any) -> None:
    for index, (field, own) in enumerate(zip(kind.fields.values(), kind.record.types, strict=True)):
        value = builder.extract_value(record, index)
        if isinstance(field.kind, Reference):
            place = builder.gep(address, [ir.IntType(32)(field.offset)], inbounds=True)
            _store(context, builder, place, field.kind, value)
        elif isinstance(own, types.Array):
            array = context.make_array(own)(context, builder, value)
            shape = cgutils.unpack_tuple(builder, array.shape, own.ndim)
            for step, part in enumerate([array.data, *shape]):
                builder.store(part, _place(builder, address, field.offset + step, part.type))
        elif _words_of(own):
            builder.store(value, _place(builder, address, field.offset, value.type))


def _load(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    field = kind.fields[name]
    own = field.kind
    if isinstance(own, Reference):
        return builder.gep(address, [ir.IntType(32)(field.offset)], inbounds=True)
    if isinstance(own, types.Array):
        number = ir.IntType(64)
        data = context.get_data_type(own.dtype).as_pointer()
        parts = [
            builder.load(_place(builder, address, field.offset + step, part))
            for step, part in enumerate([data, *[number] * own.ndim])
        ]
        item = context.get_constant(types.intp, context.get_abi_sizeof(data.pointee))
        strides = [item]
        for length in parts[:1:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        found = context.make_array(own)(context, builder)
        arrayobj.populate_array(
            found, data=parts[0], shape=parts[1:], strides=strides, itemsize=item, meminfo=None
        )
        return found._getvalue()
    if _is_record(own):
        rank = builder.and_(nvvmutils.call_sreg(builder, "tid.x"), ir.IntType(32)(_WARP - 1))
        values = [builder.zext(rank, ir.IntType(64)), ir.IntType(64)(_WARP)]
        values += [context.make_tuple(builder, one, ()) for one in own.types[2:]]
        return context.make_tuple(builder, own, values)
    if isinstance(own, types.BaseTuple):
        return context.make_tuple(builder, own, ())
    return builder.load(_place(builder, address, field.offset, context.get_value_type(own)))


@declared.register_attr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.fields[name].kind if name in kind.fields else None


@lowered.lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    found = _load(context, builder, kind, value, name)
    return impl_ret_borrowed(context, builder, kind.fields[name].kind, found)


@intrinsic
def by_reference(context, record):  # type: ignore[no-untyped-def]
    """The record in shared memory; a barrier has to follow. A reference stays as it is."""
    if isinstance(record, Reference):
        return record(record), lambda context, builder, signature, arguments: arguments[0]

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = signature.return_type
        memory = cgutils.add_global_variable(
            builder.module, ir.ArrayType(ir.IntType(64), _MOST_WARPS * max(kind.words, 1)),
            builder.module.get_unique_name("record"), _SHARED,
        )  # fmt: skip
        memory.linkage, memory.align = "internal", _WORD
        memory.initializer = ir.Constant(memory.type.pointee, ir.Undefined)
        address = builder.bitcast(memory, ir.IntType(64).as_pointer(_SHARED))
        warp = builder.udiv(nvvmutils.call_sreg(builder, "tid.x"), ir.IntType(32)(_WARP))
        address = builder.gep(address, [builder.mul(warp, ir.IntType(32)(kind.words))])
        _store(context, builder, address, kind, arguments[0])
        return address

    return (Reference(record)(record), generate) if _is_record(record) else None
