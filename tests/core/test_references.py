"""Records that kernels for a CPU pass by their address."""

from typing import Any, NamedTuple

import numpy as np

from ergode.core import devices, kernels
from ergode.core.compiler.language import by_reference, hold, no_refcount
from ergode.core.compiler.references import AtAddress


class Part(NamedTuple):
    flags: Any
    pair: Any
    number: Any


class Whole(NamedTuple):
    part: Any
    table: Any
    is_used: Any
    empty: Any


@no_refcount
def total(whole, row):
    part = whole.part
    found = part.number * whole.table[row, 1] + part.pair[1]
    if part.flags[row] and whole.is_used:
        found += 0.5
    return found


def totals(start, stop, whole, out):
    made = Whole(Part(np.zeros(4, np.bool_), (1.0, 2.0), 3.0), np.ones((4, 2)), True, ())
    whole, others, nothing = by_reference(whole), by_reference(made), by_reference(())
    for row in range(start, stop):
        again = by_reference(whole)
        mixed = by_reference(Whole(whole.part, others.table, others.is_used, nothing))
        out[row, 0] = total(again, row)
        out[row, 1] = total(others, row)
        out[row, 2] = total(mixed, row)
    hold(made)


def test_a_record_by_its_address_is_the_record():
    table = np.arange(8.0).reshape(4, 2)
    part = Part(np.array([True, False, True, False]), (10.0, 20.0), 2.0)
    out = np.zeros((4, 3))
    kernel = kernels.cpu_kernel(totals)
    whole = Whole(part, table, np.True_, ())
    for _ in range(100):  # what `made` holds is freed once, and not before
        devices.resolve("cpu:1").run(kernel, 4, whole, out)
    np.testing.assert_array_equal(out[:, 0], [22.5, 26.0, 30.5, 34.0])
    np.testing.assert_array_equal(out[:, 1], 5.0)
    np.testing.assert_array_equal(out[:, 2], [22.5, 22.0, 22.5, 22.0])


class Numbers(NamedTuple):
    is_used: Any
    small: Any
    half: Any
    table: Any


class Nest(NamedTuple):
    numbers: Any
    count: Any


def gather(start, stop, nest, out):
    nest = by_reference(nest)
    numbers = nest.numbers
    for row in range(start, stop):
        out[row] = numbers.small + numbers.half * numbers.table[row, 1] + nest.count
        if numbers.is_used:
            out[row] *= 2.0


def test_a_record_is_put_into_memory_before_a_kernel_runs():
    table = np.arange(12.0).reshape(4, 3)[:, ::2]
    table.setflags(write=False)
    nest = Nest(Numbers(np.True_, np.uint16(40_000), np.float32(0.5), table), -39_996)
    found = np.zeros((2, 4))
    kernel = kernels.cpu_kernel(gather)
    for record, out in zip((nest, AtAddress(nest)), found, strict=True):
        devices.resolve("cpu:1").run(kernel, 4, record, out)
    np.testing.assert_array_equal(found, [2 * (4 + 0.5 * table[:, 1])] * 2)
