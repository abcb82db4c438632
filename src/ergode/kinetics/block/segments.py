"""Sums over rows that a block of threads computes in segments (see `schedule`).

All threads of a block call these functions together.
"""

from __future__ import annotations

from ergode.core.compiler.language import cuda, no_unroll
from ergode.kinetics.block.collectives import ALL
from ergode.kinetics.block.schedule import SUM_WIDTH
from ergode.kinetics.tables import NONNEGATIVE

# --- device functions -----------------------------------------------------------------------------


def block_products(triple, y, found):
    """Product of the amounts of every complex, four at a time; ends in a barrier."""
    thread, threads, last = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x, triple.size - 1
    for base in no_unroll(range(thread, triple.size, 4 * threads)):
        # Beyond the last, the last one is repeated.
        a = base & NONNEGATIVE
        b = min(a + threads, last)
        c = min(b + threads, last)
        d = min(c + threads, last)
        i, j, k, m = triple[a], triple[b], triple[c], triple[d]
        one = y[i & 0xFFFF] * y[(i >> 16) & 0xFFFF] * y[(i >> 32) & 0xFFFF]
        two = y[j & 0xFFFF] * y[(j >> 16) & 0xFFFF] * y[(j >> 32) & 0xFFFF]
        three = y[k & 0xFFFF] * y[(k >> 16) & 0xFFFF] * y[(k >> 32) & 0xFFFF]
        four = y[m & 0xFFFF] * y[(m >> 16) & 0xFFFF] * y[(m >> 32) & 0xFFFF]
        found[a] = one
        found[b] = two
        found[c] = three
        found[d] = four
    cuda.syncthreads()


def put_segment(sums, segment, total, partial, result, sign):
    """Set a row to the sum of its segments (`sign` 0), or subtract the sum from it.

    All threads of a warp call this together.
    """
    if segment < sums.joined:
        rest = sums.rest[segment]
        for shift in range(5):
            other = cuda.shfl_down_sync(ALL, total, 1 << shift)
            total += other if rest >= 1 << shift else 0.0
    target = sums.target[segment]
    if target >= 0:
        result[target] = total if sign == 0 else result[target] - total
    elif target < -1:
        partial[-2 - target] = total


def block_rows(sums, partial, result, sign):
    """Add up rows of several parts, four threads for each; begins and ends in a barrier."""
    thread, threads = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x
    cuda.syncthreads()
    if sums.row.size > 0:
        quarter, rows = thread & 3, threads >> 2
        for first in no_unroll(range(0, sums.row.size, rows)):
            row = first + (thread >> 2)
            total = 0.0
            if row < sums.row.size:
                for place in range(sums.start[row] + quarter, sums.stop[row], 4):
                    total += partial[place & NONNEGATIVE]
            total += cuda.shfl_xor_sync(ALL, total, 1)
            total += cuda.shfl_xor_sync(ALL, total, 2)
            if row < sums.row.size and quarter == 0:
                target = sums.row[row]
                result[target] = total if sign == 0 else result[target] - total
        cuda.syncthreads()


def block_sums(sums, values, found, partial, result):
    """Sum of values times products for every row; ends in a barrier."""
    thread, threads, count = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x, sums.target.size
    for base in no_unroll(range(thread, count, threads)):
        segment = base & NONNEGATIVE
        even, odd = 0.0, 0.0
        # No branch or store, so that all loads overlap.
        for k in range(0, SUM_WIDTH - 1, 2):
            a, b = sums.item[k, segment], sums.item[k + 1, segment]
            even += values[a & 0xFFFF] * found[(a >> 16) & 0xFFFF]
            odd += values[b & 0xFFFF] * found[(b >> 16) & 0xFFFF]
        a = sums.item[SUM_WIDTH - 1, segment]
        even += values[a & 0xFFFF] * found[(a >> 16) & 0xFFFF]
        put_segment(sums, segment, even + odd, partial, result, 0)
    block_rows(sums, partial, result, 0)
