"""A Jacobian, and the elimination of its variables, by a block of CUDA threads.

The tables are those of `schedule`. The matrix is in shared memory, its tail in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.compiler.language import cuda, no_unroll, option, real, unroll
from ergode.core.group import ONE, barrier, sum_of_lanes, thread_in_group
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.block.schedule import (
    BETWEEN_WORDS,
    CHUNK,
    SINGLES_AT_ONCE,
    SLOPE_WIDTH,
    SLOPES_AT_ONCE,
    WARP,
)
from ergode.kinetics.block.segments import block_rows, put_segment
from ergode.kinetics.tables import BlockSystem


def tiles(system: BlockSystem, threads: int) -> dict[Any, int]:
    """Layout of the tail of the matrix in the registers of threads (see `invert_tile`)."""
    tail = system.tail.size
    across = threads // 8
    rows, columns = tail // across, tail // 8
    return {
        TAIL: tail, ACROSS: across, TILE_ROWS: rows, TILE_COLUMNS: columns,
        THREADS: threads, TILE: rows * columns, SAME_TILE: min(8, across),
    }  # fmt: skip


# --- device functions -----------------------------------------------------------------------------

INFINITY = float("inf")
TAIL, ACROSS, TILE_ROWS, TILE_COLUMNS = option(48), option(16), option(3), option(6)
TILE, SAME_TILE, THREADS = option(18), option(8), option(128)
"""Layout of the tail of the matrix in registers (see `tiles`)."""


def block_slopes(system, values, y, matrix, partial):
    """Fill `matrix` with -dy'/dy of mass action; ends in a barrier."""
    thread, threads = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x
    sums, count = system.slopes, system.slopes.label.size
    # Fill-in starts at zero.
    for k in no_unroll(range(thread, system.entry_count, threads)):
        matrix[k & NONNEGATIVE] = 0.0
    cuda.syncthreads()
    for base in no_unroll(range(thread, sums.single, 2 * threads)):
        segment = base & NONNEGATIVE
        other = segment + threads
        second = (other if other < sums.single else segment) & NONNEGATIVE
        label, another = sums.label[segment], sums.label[second]
        here = ((segment >> 5) * (SLOPE_WIDTH * WARP) + (segment & 31)) & NONNEGATIVE
        there = ((second >> 5) * (SLOPE_WIDTH * WARP) + (second & 31)) & NONNEGATIVE
        item = cuda.local.array(SLOPES_AT_ONCE, np.int64)
        value = cuda.local.array(SLOPES_AT_ONCE, real)
        for k in unroll(range(SLOPE_WIDTH)):
            item[2 * k] = sums.item[here + k * WARP]
            item[2 * k + 1] = sums.item[there + k * WARP]
        # The compiler moves no load past this, so all of them overlap.
        cuda.syncwarp()
        for k in unroll(range(SLOPES_AT_ONCE)):
            value[k] = values[item[k] & 0xFFFF]
        cuda.syncwarp()
        total, more = 0.0, 0.0
        for k in unroll(range(0, SLOPES_AT_ONCE, 2)):
            a, b = item[k], item[k + 1]
            total -= value[k] * y[(a >> 16) & 0xFFFF] * y[(a >> 32) & 0xFFFF]
            more -= value[k + 1] * y[(b >> 16) & 0xFFFF] * y[(b >> 32) & 0xFFFF]
        put_segment(label, total, partial, matrix, 0)
        if other < sums.single:
            put_segment(another, more, partial, matrix, 0)
    for base in no_unroll(range(sums.single, count, SINGLES_AT_ONCE * threads)):
        item = cuda.local.array(SINGLES_AT_ONCE, np.int64)
        value = cuda.local.array(SINGLES_AT_ONCE, real)
        target = cuda.local.array(SINGLES_AT_ONCE, np.int64)
        for k in unroll(range(SINGLES_AT_ONCE)):
            # Beyond the last, the last one is repeated.
            segment = min(base + thread + k * threads, count - 1) & NONNEGATIVE
            place = (segment >> 5) * (SLOPE_WIDTH * WARP) + (segment & 31)
            item[k], target[k] = sums.item[place & NONNEGATIVE], sums.label[segment] >> 8
        cuda.syncwarp()
        for k in unroll(range(SINGLES_AT_ONCE)):
            value[k] = values[item[k] & 0xFFFF]
        cuda.syncwarp()
        for k in unroll(range(SINGLES_AT_ONCE)):
            a = item[k]
            if target[k] >= 0:
                total = value[k] * y[(a >> 16) & 0xFFFF] * y[(a >> 32) & 0xFFFF]
                matrix[target[k] & NONNEGATIVE] = -total
    block_rows(sums, partial, matrix, 0)


def eliminate_entry(item, matrix, inverse):
    """Subtract a_ik a_kj / a_kk from a_ij."""
    factor = matrix[(item >> 16) & 0xFFFF] * inverse[(item >> 48) & 0xFFFF]
    matrix[item & 0xFFFF] -= factor * matrix[(item >> 32) & 0xFFFF]


def eliminate_levels(program, pivots, matrix, inverse):
    """Eliminate the sparse pivots in place, level by level; ends in a barrier.

    Returns whether the pivots that this thread saw are finite and not zero.
    """
    items, place = program.item, thread_in_group()
    turn, sound = place, True
    first, second = items[place], items[place + THREADS]
    third, fourth = items[place + 2 * THREADS], items[place + 3 * THREADS]
    mine = pivots.item[turn]
    pivot_rounds, rounds = pivots.level[0], program.level[0]
    for level in range(program.level.size - 1):
        # Prefetch for the next level.
        following = (level + 1) & NONNEGATIVE
        next_pivots, next_rounds = pivots.level[following], program.level[following]
        for _ in no_unroll(range(pivot_rounds)):
            item = mine
            turn = (turn + THREADS) & NONNEGATIVE
            mine = pivots.item[turn]
            if item >= 0:
                pivot = matrix[(item >> 16) & 0xFFFF]
                sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
                inverse[item & 0xFFFF] = 1.0 / pivot
        barrier(ONE)
        for step in no_unroll(range(0, rounds, CHUNK)):
            # Nothing waits for the loads of the next chunk before the end of this one.
            place = (place + CHUNK * THREADS) & NONNEGATIVE
            next_first, next_second = items[place], items[place + THREADS]
            next_third, next_fourth = items[place + 2 * THREADS], items[place + 3 * THREADS]
            eliminate_entry(first, matrix, inverse)
            if step + 1 < rounds:
                eliminate_entry(second, matrix, inverse)
            if step + 2 < rounds:
                eliminate_entry(third, matrix, inverse)
            if step + 3 < rounds:
                eliminate_entry(fourth, matrix, inverse)
            first, second, third, fourth = next_first, next_second, next_third, next_fourth
        barrier(ONE)
        pivot_rounds, rounds = next_pivots, next_rounds
    return sound


def block_factorize(system, matrix, diagonal, inverse, scratch, tile):
    """Add to the diagonal, eliminate in place, and invert the tail; ends in a barrier.

    Returns whether the pivots that this thread saw are finite and not zero.
    """
    tid = cuda.threadIdx.x & NONNEGATIVE
    for i in no_unroll(range(tid, system.pivot.size, cuda.blockDim.x)):
        matrix[system.pivot[i]] += diagonal
    if tid == 0:
        # Missing variables refer to this one.
        inverse[system.pivot.size] = 1.0
    cuda.syncthreads()
    sound = eliminate_levels(system.factorization, system.pivots, matrix, inverse)
    count = system.tail_count
    for k in no_unroll(range(tid, count, cuda.blockDim.x)):
        inverse[system.tail[k]] = 1.0
    front = system.entry_count - count * count
    column, row = tid & 7, tid >> 3
    for a in range(TILE_ROWS):
        for b in range(TILE_COLUMNS):
            i, j = row + a * ACROSS, column + 8 * b
            value = 1.0 if i == j else 0.0
            if i < count and j < count:
                value = matrix[(front + i * count + j) & NONNEGATIVE]
            tile[a * TILE_COLUMNS + b] = value
    # What follows may use the memory of the tail.
    cuda.syncthreads()
    return invert_tile(tile, count, scratch) and sound


def invert_tile(tile, count, scratch):
    """Invert the dense matrix in the registers of all threads, by Gauss-Jordan without pivoting.

    A thread holds every eighth column and every `ACROSS`-th row. Pivots are taken in pairs, whose
    rows and columns pass through shared memory. Successive pairs alternate between the two halves
    of `scratch`, so each takes one barrier. Ends in a barrier; returns whether the determinants of
    the pairs are finite and not zero.
    """
    tid = cuda.threadIdx.x & NONNEGATIVE
    column, row = tid & 7, tid >> 3
    sound = True
    # Within a chunk the tile's row and column of the pivots, c // ACROSS and c // 8, are the same.
    for c in unroll(range(0, TAIL, SAME_TILE)):
        for step in range(0, SAME_TILE if c < count else 0, 2):
            half = (step & 2) * 2 * TAIL
            # In a row or a column of the pair: zero or one.
            up, left = row - (c % ACROSS + step), column - (c % 8 + step)
            own_row, own_column = up == 0 or up == 1, left == 0 or left == 1
            if own_row:
                for b in range(TILE_COLUMNS):
                    value = tile[c // ACROSS * TILE_COLUMNS + b]
                    scratch[(half + up * TAIL + column + 8 * b) & NONNEGATIVE] = value
            if own_column:
                for a in range(TILE_ROWS):
                    value = tile[a * TILE_COLUMNS + c // 8]
                    scratch[(half + (2 + left) * TAIL + row + a * ACROSS) & NONNEGATIVE] = value
            cuda.syncthreads()
            n = half + c + step
            upper, right = scratch[n], scratch[n + 1]
            lower, corner = scratch[n + TAIL], scratch[n + TAIL + 1]
            determinant = upper * corner - right * lower
            sound = sound and abs(determinant) > 0.0 and abs(determinant) < INFINITY
            inverse = 1.0 / determinant
            # The inverse of the pair's own matrix.
            upper, right, lower, corner = (
                corner * inverse, -right * inverse, -lower * inverse, upper * inverse,
            )  # fmt: skip
            for b in range(TILE_COLUMNS):
                one, two = scratch[half + column + 8 * b], scratch[half + TAIL + column + 8 * b]
                first, second = upper * one + right * two, lower * one + corner * two
                if b == c // 8 and own_column:
                    first, second = (upper, lower) if left == 0 else (right, corner)
                for a in range(TILE_ROWS):
                    value = tile[a * TILE_COLUMNS + b]
                    if b == c // 8 and own_column:
                        value = 0.0
                    value -= scratch[half + 2 * TAIL + row + a * ACROSS] * first
                    value -= scratch[half + 3 * TAIL + row + a * ACROSS] * second
                    if a == c // ACROSS and own_row:
                        value = first if up == 0 else second
                    tile[a * TILE_COLUMNS + b] = value
    cuda.syncthreads()
    return sound


def factor_of(item, matrix, inverse):
    """The factor a_ik / a_kk of an item."""
    return matrix[(item >> 16) & 0xFFFF] * inverse[(item >> 32) & 0xFFFF]


def subtract_known(item, factor, x):
    """Subtract the factor times x_k from x_i; all lanes of a warp call this together."""
    x[item & 0xFFFF] -= factor * x[(item >> 32) & 0xFFFF]
    cuda.syncwarp()


def warp_substitute(items, matrix, inverse, x):
    """One direction of substitution, by the first warp."""
    place = cuda.threadIdx.x & 31
    first, second = items[place], items[place + WARP]
    third, fourth = items[place + 2 * WARP], items[place + 3 * WARP]
    for _ in no_unroll(range(items.size // (CHUNK * WARP) - 1)):
        place = (place + CHUNK * WARP) & NONNEGATIVE
        next_first, next_second = items[place], items[place + WARP]
        next_third, next_fourth = items[place + 2 * WARP], items[place + 3 * WARP]
        # What does not depend on the solution is ready before it.
        one, two = factor_of(first, matrix, inverse), factor_of(second, matrix, inverse)
        three, four = factor_of(third, matrix, inverse), factor_of(fourth, matrix, inverse)
        subtract_known(first, one, x)
        subtract_known(second, two, x)
        subtract_known(third, three, x)
        subtract_known(fourth, four, x)
        first, second, third, fourth = next_first, next_second, next_third, next_fourth


def block_subtract(sums, matrix, inverse, x, partial):
    """x_i -= sum of a_ik x_k / a_kk over all rows at once; ends in a barrier."""
    for count in no_unroll(range(cuda.threadIdx.x, sums.label.size, cuda.blockDim.x)):
        segment = count & NONNEGATIVE
        label = sums.label[segment]
        place = ((segment >> 5) * (BETWEEN_WORDS * WARP) + (segment & 31)) & NONNEGATIVE
        items = cuda.local.array(BETWEEN_WORDS, np.int64)
        for k in unroll(range(BETWEEN_WORDS)):
            items[k] = sums.item[place + k * WARP]
        cuda.syncwarp()
        even, odd = 0.0, 0.0
        for k in unroll(range(BETWEEN_WORDS)):
            item = items[k]
            a, b = (item >> 16) & 0xFFFF, (item >> 48) & 0xFFFF
            even += matrix[item & 0xFFFF] * inverse[a] * x[a]
            odd += matrix[(item >> 32) & 0xFFFF] * inverse[b] * x[b]
        put_segment(label, even + odd, partial, x, -1)
    block_rows(sums, partial, x, -1)


def block_solve(system, matrix, inverse, tile, x, partial):
    """Replace the right-hand side `x` by the solution; begins and ends in a barrier."""
    tid, threads = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x
    cuda.syncthreads()
    if tid < 32:
        if tid == 0:
            # Missing variables refer to this one.
            x[system.pivot.size] = 0.0
        cuda.syncwarp()
        warp_substitute(system.forward, matrix, inverse, x)
    cuda.syncthreads()
    block_subtract(system.gather, matrix, inverse, x, partial)
    column, row = tid & 7, tid >> 3
    totals = cuda.local.array(TILE_ROWS, real)
    for a in range(TILE_ROWS):
        totals[a] = 0.0
    for b in range(TILE_COLUMNS):
        amount = x[system.tail[column + 8 * b]]
        for a in range(TILE_ROWS):
            totals[a] += tile[a * TILE_COLUMNS + b] * amount
    for a in range(TILE_ROWS):
        total = totals[a]
        total = sum_of_lanes(total, 8)
        if column == 0:
            partial[row + a * ACROSS] = total
    cuda.syncthreads()
    for k in no_unroll(range(tid, system.tail_count, threads)):
        x[system.tail[k]] = partial[k]
    cuda.syncthreads()
    block_subtract(system.scatter, matrix, inverse, x, partial)
    if tid < 32:
        warp_substitute(system.backward, matrix, inverse, x)
    cuda.syncthreads()
    for i in no_unroll(range(tid, system.pivot.size, threads)):
        x[i] *= inverse[i]
    cuda.syncthreads()
