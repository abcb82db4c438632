"""Sums over rows that a block of threads computes in segments (see `schedule`).

All threads of a block call these functions together.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import cuda, no_unroll, real, unroll
from ergode.core.group import (
    EVERY_LANE,
    ONE,
    barrier,
    sum_of_lanes,
    thread_in_group,
    threads_of_group,
)
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.block.schedule import PRODUCTS_AT_ONCE, SUM_WIDTH, SUM_WORDS, WARP

# --- device functions -----------------------------------------------------------------------------


def block_products(triple, y, found):
    """Product of the amounts of every complex; ends in a barrier."""
    thread, threads, last = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x, triple.size - 1
    place = cuda.local.array(PRODUCTS_AT_ONCE, np.int64)
    item = cuda.local.array(PRODUCTS_AT_ONCE, np.int64)
    for base in no_unroll(range(0, triple.size, PRODUCTS_AT_ONCE * threads)):
        for k in unroll(range(PRODUCTS_AT_ONCE)):
            # Beyond the last, the last one is repeated.
            place[k] = min(base + thread + k * threads, last) & NONNEGATIVE
            item[k] = triple[place[k]]
        # The compiler moves no load past this, so all of them overlap.
        cuda.syncwarp()
        for k in unroll(range(PRODUCTS_AT_ONCE)):
            i = item[k]
            found[place[k]] = y[i & 0xFFFF] * y[(i >> 16) & 0xFFFF] * y[(i >> 32) & 0xFFFF]
    cuda.syncthreads()


def put_segment(label, total, partial, result, sign):
    """Set a row to the sum of its segments (`sign` 0), or subtract the sum from it.

    All threads of a warp call this together.
    """
    rest, turns = label & 31, (label >> 5) & 7
    for turn in unroll(range(5)):
        if turn < turns:
            other = cuda.shfl_down_sync(EVERY_LANE, total, 1 << turn)
            total += other if rest >= 1 << turn else 0.0
    target = label >> 8
    if target >= 0:
        place = target & NONNEGATIVE
        result[place] = total if sign == 0 else result[place] - total
    elif target < -1:
        partial[(-2 - target) & NONNEGATIVE] = total


def block_rows(sums, partial, result, sign):
    """Add up rows of several parts, four threads for each; begins and ends in a barrier."""
    thread, threads = thread_in_group(), threads_of_group()
    barrier(ONE)
    if sums.row.size > 0:
        quarter, rows = thread & 3, threads >> 2
        for first in no_unroll(range(0, sums.row.size, rows)):
            row = first + (thread >> 2)
            total = 0.0
            if row < sums.row.size:
                for place in range(sums.start[row] + quarter, sums.stop[row], 4):
                    total += partial[place & NONNEGATIVE]
            total = sum_of_lanes(total, 4)
            if row < sums.row.size and quarter == 0:
                target = sums.row[row]
                result[target] = total if sign == 0 else result[target] - total
        barrier(ONE)


def block_sums(sums, values, found, partial, result):
    """Sum of values times products for every row; ends in a barrier."""
    thread, threads, count = thread_in_group(), threads_of_group(), sums.label.size
    for base in no_unroll(range(thread, count, threads)):
        segment = base & NONNEGATIVE
        label, warp, lane = sums.label[segment], segment >> 5, segment & 31
        at = (warp * (SUM_WORDS * WARP) + lane) & NONNEGATIVE
        place = (warp * (SUM_WIDTH * WARP) + lane) & NONNEGATIVE
        items = cuda.local.array(SUM_WORDS, np.int64)
        value = cuda.local.array(SUM_WIDTH, real)
        for word in unroll(range(SUM_WORDS)):
            items[word] = sums.item[at + word * WARP]
        for k in unroll(range(SUM_WIDTH)):
            value[k] = values[place + k * WARP]
        cuda.syncwarp()
        even, odd = 0.0, 0.0
        for word in unroll(range(SUM_WORDS)):
            item = items[word]
            even += value[4 * word] * found[item & 0xFFFF]
            odd += value[4 * word + 1] * found[(item >> 16) & 0xFFFF]
            even += value[4 * word + 2] * found[(item >> 32) & 0xFFFF]
            odd += value[4 * word + 3] * found[(item >> 48) & 0xFFFF]
        put_segment(label, even + odd, partial, result, 0)
    block_rows(sums, partial, result, 0)
