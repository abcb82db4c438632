"""A Jacobian, and the elimination of its variables, by a block of CUDA threads.

The tables are those of `schedule`. The matrix is in shared memory, its tail in registers.
"""

from __future__ import annotations

from typing import Any

from ergode.core.compiler.language import cuda, no_unroll, option, real, unroll
from ergode.kinetics.block.collectives import ALL
from ergode.kinetics.block.schedule import AHEAD, BETWEEN_WIDTH, SLOPE_WIDTH
from ergode.kinetics.block.segments import block_rows, put_segment
from ergode.kinetics.tables import NONNEGATIVE, BlockSystem


def tiles(system: BlockSystem, threads: int) -> dict[Any, int]:
    """Layout of the tail of the matrix in the registers of threads (see `invert_tile`)."""
    tail = system.tail.size
    across = threads // 8
    rows, columns = tail // across, tail // 8
    return {
        TAIL: tail, ACROSS: across, TILE_ROWS: rows, TILE_COLUMNS: columns,
        TILE: rows * columns, CHUNK: min(8, across),
    }  # fmt: skip


# --- device functions -----------------------------------------------------------------------------

INFINITY = float("inf")
TAIL, ACROSS, TILE_ROWS, TILE_COLUMNS = option(48), option(16), option(3), option(6)
TILE, CHUNK = option(18), option(8)
"""Layout of the tail of the matrix in registers (see `tiles`)."""


def block_slopes(system, values, y, matrix, partial):
    """Fill `matrix` with -dy'/dy of mass action; ends in a barrier."""
    thread, threads = cuda.threadIdx.x & NONNEGATIVE, cuda.blockDim.x
    sums, count = system.slopes, system.slopes.target.size
    # Fill-in starts at zero.
    for k in no_unroll(range(thread, system.entry_count, threads)):
        matrix[k & NONNEGATIVE] = 0.0
    cuda.syncthreads()
    for base in no_unroll(range(thread, count, 2 * threads)):
        segment = base & NONNEGATIVE
        other = segment + threads
        second = other if other < count else segment
        total, more = 0.0, 0.0
        for k in range(SLOPE_WIDTH):
            a, b = sums.item[k, segment], sums.item[k, second]
            total -= values[a & 0xFFFF] * y[(a >> 16) & 0xFFFF] * y[(a >> 32) & 0xFFFF]
            more -= values[b & 0xFFFF] * y[(b >> 16) & 0xFFFF] * y[(b >> 32) & 0xFFFF]
        put_segment(sums, segment, total, partial, matrix, 0)
        if other < count:
            put_segment(sums, other, more, partial, matrix, 0)
    block_rows(sums, partial, matrix, 0)


def block_factorize(system, matrix, diagonal, inverse, scratch, tile):
    """Add to the diagonal, eliminate in place, and invert the tail; ends in a barrier.

    Returns whether the pivots that this thread saw are finite and not zero.
    """
    tid, program, pivots = cuda.threadIdx.x & NONNEGATIVE, system.factorization, system.pivots
    for i in no_unroll(range(tid, system.pivot.size, cuda.blockDim.x)):
        matrix[system.pivot[i]] += diagonal
    cuda.syncthreads()
    sound = True
    first, second = program.item[0, tid], program.item[1, tid]
    third, fourth = program.item[2, tid], program.item[3, tid]
    mine = pivots.item[0, tid]
    at, step = 0, 0
    pivots_end, end = pivots.level[1], program.level[1]
    for level in range(program.level.size - 2):
        # Prefetch for the next level.
        next_pivots, next_end = pivots.level[level + 2], program.level[level + 2]
        while at < pivots_end:
            item = mine
            at += 1
            mine = pivots.item[at & NONNEGATIVE, tid]
            if item >= 0:
                pivot = matrix[(item >> 16) & 0xFFFF]
                sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
                inverse[item & 0xFFFF] = 1.0 / pivot
        cuda.syncthreads()
        while step < end:
            item = first
            first, second, third = second, third, fourth
            fourth = program.item[(step + AHEAD) & NONNEGATIVE, tid]
            step += 1
            factor = matrix[(item >> 16) & 0xFFFF] * inverse[(item >> 48) & 0xFFFF]
            matrix[item & 0xFFFF] -= factor * matrix[(item >> 32) & 0xFFFF]
        cuda.syncthreads()
        pivots_end, end = next_pivots, next_end
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
    return invert_tile(tile, count, scratch) and sound


def invert_tile(tile, count, scratch):
    """Invert the dense matrix in the registers of all threads, by Gauss-Jordan without pivoting.

    A thread holds every eighth column and every `ACROSS`-th row. The row and the column of a pivot
    pass through shared memory. Successive pivots alternate between the two halves of `scratch`, so
    each pivot takes one barrier. Ends in a barrier; returns whether the pivots are finite and not
    zero.
    """
    tid = cuda.threadIdx.x & NONNEGATIVE
    column, row = tid & 7, tid >> 3
    sound = True
    # Within a chunk the tile's row and column of the pivot, c // ACROSS and c // 8, are the same.
    for c in unroll(range(0, TAIL, CHUNK)):
        for step in range(CHUNK if c < count else 0):
            half = (step & 1) * 2 * TAIL
            own_row = row == c % ACROSS + step
            own_column = column == c % 8 + step
            if own_row:
                for b in range(TILE_COLUMNS):
                    scratch[half + column + 8 * b] = tile[c // ACROSS * TILE_COLUMNS + b]
            if own_column:
                for a in range(TILE_ROWS):
                    scratch[half + TAIL + row + a * ACROSS] = tile[a * TILE_COLUMNS + c // 8]
            cuda.syncthreads()
            pivot = scratch[half + c + step]
            sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
            inverse = 1.0 / pivot
            for b in range(TILE_COLUMNS):
                scaled = scratch[half + column + 8 * b] * inverse
                for a in range(TILE_ROWS):
                    tile[a * TILE_COLUMNS + b] -= scratch[half + TAIL + row + a * ACROSS] * scaled
                if own_row:
                    tile[c // ACROSS * TILE_COLUMNS + b] = scaled
            if own_column:
                for a in range(TILE_ROWS):
                    factor = scratch[half + TAIL + row + a * ACROSS]
                    tile[a * TILE_COLUMNS + c // 8] = -factor * inverse
                if own_row:
                    tile[c // ACROSS * TILE_COLUMNS + c // 8] = inverse
    cuda.syncthreads()
    return sound


def warp_substitute(items, matrix, inverse, x):
    """One direction of substitution, by the first warp."""
    lane = cuda.threadIdx.x & 31
    first, second, third, fourth = items[0, lane], items[1, lane], items[2, lane], items[3, lane]
    for step in range(items.shape[0] - AHEAD):
        item = first
        first, second, third = second, third, fourth
        fourth = items[(step + AHEAD) & NONNEGATIVE, lane]
        source = (item >> 32) & 0xFFFF
        x[item & 0xFFFF] -= matrix[(item >> 16) & 0xFFFF] * inverse[source] * x[source]
        cuda.syncwarp()


def block_subtract(sums, matrix, inverse, x, partial):
    """x_i -= sum of a_ik x_k / a_kk over all rows at once; ends in a barrier."""
    for count in no_unroll(range(cuda.threadIdx.x, sums.target.size, cuda.blockDim.x)):
        segment = count & NONNEGATIVE
        total = 0.0
        for k in range(BETWEEN_WIDTH):
            item = sums.item[k, segment]
            source = (item >> 16) & 0xFFFF
            total += matrix[item & 0xFFFF] * inverse[source] * x[source]
        put_segment(sums, segment, total, partial, x, -1)
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
        total += cuda.shfl_xor_sync(ALL, total, 1)
        total += cuda.shfl_xor_sync(ALL, total, 2)
        total += cuda.shfl_xor_sync(ALL, total, 4)
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
