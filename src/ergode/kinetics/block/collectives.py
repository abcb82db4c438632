"""What threads of a block do together for one zone.

Every function here is called by all threads of a block; those that say so end in a barrier.
"""

from __future__ import annotations

from ergode.core.compiler.language import cuda, no_unroll, real
from ergode.kinetics.block.schedule import SUM_WIDTH
from ergode.kinetics.tables import NONNEGATIVE

ALL = -1  # every lane of a warp


def block_sum(value, scratch, slot):
    """Sum over all threads, for all threads, with one barrier.

    Two reductions that follow one another without a barrier between need different slots, 0 or 1.
    """
    for shift in range(5):
        value += cuda.shfl_down_sync(ALL, value, 16 >> shift)
    if cuda.threadIdx.x & 31 == 0:
        scratch[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    o = 8 * slot
    left = (scratch[o] + scratch[o + 1]) + (scratch[o + 2] + scratch[o + 3])
    return left + ((scratch[o + 4] + scratch[o + 5]) + (scratch[o + 6] + scratch[o + 7]))


def block_max(value, scratch, slot):
    """Largest value of all threads, as `block_sum`; not-a-number counts as largest."""
    for shift in range(5):
        other = cuda.shfl_down_sync(ALL, value, 16 >> shift)
        value = value if value >= other or value != value else other
    if cuda.threadIdx.x & 31 == 0:
        scratch[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    largest = 0.0
    for warp in range(8):
        other = scratch[8 * slot + warp]
        largest = largest if largest >= other or largest != largest else other
    return largest


def next_zone(counter, scratch):
    """The zone that this block is to integrate next, from a queue.

    Begins and ends in a barrier; the scratch of reductions is made ready.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        scratch[cuda.threadIdx.x] = 0.0
    if cuda.threadIdx.x == 0:
        scratch[16] = real(cuda.atomic.add(counter, 0, 1))
    cuda.syncthreads()
    zone = int(scratch[16])
    cuda.syncthreads()
    return zone


def block_products(triple, y, found):
    """Product of the amounts of every complex, four at a time; ends in a barrier."""
    thread, threads, last = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x, triple.size - 1
    for base in no_unroll(range(thread, triple.size, 4 * threads)):
        # What is beyond the last is done again.
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
    """Add what a row's segments sum up to to the row; `sign` 0: set it.

    All threads of a warp call it together.
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
    """Rows in several parts, four threads each; begins and ends in a barrier."""
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
        # Without a branch or a store, so that all terms are on their way at once.
        for k in range(0, SUM_WIDTH - 1, 2):
            a, b = sums.item[k, segment], sums.item[k + 1, segment]
            even += values[a & 0xFFFF] * found[(a >> 16) & 0xFFFF]
            odd += values[b & 0xFFFF] * found[(b >> 16) & 0xFFFF]
        a = sums.item[SUM_WIDTH - 1, segment]
        even += values[a & 0xFFFF] * found[(a >> 16) & 0xFFFF]
        put_segment(sums, segment, even + odd, partial, result, 0)
    block_rows(sums, partial, result, 0)
