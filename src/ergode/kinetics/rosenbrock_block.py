"""Rosenbrock methods on CUDA: a block of threads for every zone.

State, stages and factors of the zone stay in shared memory; coefficients, which change with the
conditions alone, in device memory. Blocks take zones from a queue until it is empty, so that no
block waits for another's zone. The methods are those of `ergode.kinetics.rosenbrock`, step for
step; sums are taken in another order.
"""

from __future__ import annotations

from ergode.core.machine import cuda, real, rolled, unroll
from ergode.core.status import Status
from ergode.kinetics.block import (
    ALL,
    block_conditions,
    block_products,
    block_rows,
    block_sum,
    block_sums,
    next_zone,
    put_segment,
)
from ergode.kinetics.block_tables import AHEAD, BETWEEN_WIDTH, SLOPE_WIDTH, BlockSystem
from ergode.kinetics.mechanism import NATURAL
from ergode.kinetics.rosenbrock import LEAST, MOST, SAFETY, SHORTEST

_REDUCTION = 32


def tiles(system: BlockSystem, threads: int) -> dict[str, int]:
    """How the matrix of the tail is spread over the registers of threads (see `invert_tile`)."""
    tail = system.tail.size
    across = threads // 8
    rows, columns = tail // across, tail // 8
    return {
        "TAIL": tail, "ACROSS": across, "TILE_ROWS": rows, "TILE_COLUMNS": columns,
        "TILE": rows * columns, "CHUNK": min(8, across),
    }  # fmt: skip


def shared_count(system: BlockSystem, stage_count: int, invariant_count: int) -> int:
    """Numbers that a zone keeps in shared memory."""
    n = system.pivot.size
    return (
        _REDUCTION
        + matrix_count(system, stage_count)
        + 6 * (n + 1)
        + 4 * system.tail.size
        + partial_count(system)
        + (invariant_count + 3) * invariant_count
    )


def matrix_count(system: BlockSystem, stage_count: int) -> int:
    """Room for the matrix; once its tail is in registers, stages and products take its place."""
    front = system.entry_count - system.tail_count**2
    stages = stage_count * system.pivot.size + system.triple.size
    return front + max(system.tail_count**2, stages)


def partial_count(system: BlockSystem) -> int:
    """Room for parts of rows that have several."""
    parts = (system.sums, system.slopes, system.gather, system.spread)
    return max(system.tail.size, *(part.place_count for part in parts))


def scratch_count(system: BlockSystem, slot_count: int) -> int:
    """Numbers that a block keeps in device memory."""
    return slot_count + system.pivot.size + system.value_count


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
DONE, NOT_FINITE, TOO_MANY_STEPS = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS)
)  # fmt: skip
INFINITY = float("inf")


TAIL, ACROSS, TILE_ROWS, TILE_COLUMNS, TILE, CHUNK = 48, 16, 3, 6, 18, 8


def block_jacobian(system, values, y, diagonal, matrix, partial):
    """Fill `matrix` with diagonal - dy'/dy; ends in a barrier."""
    thread, threads = cuda.threadIdx.x & NATURAL, cuda.blockDim.x
    sums, count = system.slopes, system.slopes.target.size
    # What is filled in begins with zero.
    for k in rolled(range(thread, system.entry_count, threads)):
        matrix[k & NATURAL] = 0.0
    cuda.syncthreads()
    for base in rolled(range(thread, count, 2 * threads)):
        segment = base & NATURAL
        other = segment + threads
        second = other if other < count else segment
        total, more = 0.0, 0.0
        for k in unroll(range(SLOPE_WIDTH)):
            a, b = sums.item[k, segment], sums.item[k, second]
            total -= values[a & 0xFFFF] * y[(a >> 16) & 0xFFFF] * y[(a >> 32) & 0xFFFF]
            more -= values[b & 0xFFFF] * y[(b >> 16) & 0xFFFF] * y[(b >> 32) & 0xFFFF]
        put_segment(sums, segment, total, partial, matrix, 0)
        if other < count:
            put_segment(sums, other, more, partial, matrix, 0)
    block_rows(sums, partial, matrix, 0)
    for i in rolled(range(thread, system.pivot.size, threads)):
        matrix[system.pivot[i]] += diagonal
    cuda.syncthreads()


def block_factorize(system, matrix, inverse, room, tile):
    """Eliminate in place, and invert what is left; ends in a barrier.

    Returns whether the pivots this thread saw were sound.
    """
    tid, program, pivots = cuda.threadIdx.x & NATURAL, system.factorization, system.pivots
    sound = True
    first, second = program.item[0, tid], program.item[1, tid]
    third, fourth = program.item[2, tid], program.item[3, tid]
    mine = pivots.item[0, tid]
    at, step = 0, 0
    pivots_end, end = pivots.level[1], program.level[1]
    for level in range(program.level.size - 2):
        # What the next level needs is on its way while this one is worked on.
        next_pivots, next_end = pivots.level[level + 2], program.level[level + 2]
        while at < pivots_end:
            item = mine
            at += 1
            mine = pivots.item[at & NATURAL, tid]
            if item >= 0:
                pivot = matrix[(item >> 16) & 0xFFFF]
                sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
                inverse[item & 0xFFFF] = 1.0 / pivot
        cuda.syncthreads()
        while step < end:
            item = first
            first, second, third = second, third, fourth
            fourth = program.item[(step + AHEAD) & NATURAL, tid]
            step += 1
            factor = matrix[(item >> 16) & 0xFFFF] * inverse[(item >> 48) & 0xFFFF]
            matrix[item & 0xFFFF] -= factor * matrix[(item >> 32) & 0xFFFF]
        cuda.syncthreads()
        pivots_end, end = next_pivots, next_end
    count = system.tail_count
    for k in rolled(range(tid, count, cuda.blockDim.x)):
        inverse[system.tail[k]] = 1.0
    front = system.entry_count - count * count
    column, row = tid & 7, tid >> 3
    for a in unroll(range(TILE_ROWS)):
        for b in unroll(range(TILE_COLUMNS)):
            i, j = row + a * ACROSS, column + 8 * b
            value = 1.0 if i == j else 0.0
            if i < count and j < count:
                value = matrix[(front + i * count + j) & NATURAL]
            tile[a * TILE_COLUMNS + b] = value
    return invert_tile(tile, count, room) and sound


def invert_tile(tile, count, room):
    """Invert the dense matrix that lies in the registers of all threads, by Gauss and Jordan.

    A thread has every eighth column and every `ACROSS`-th row, one for each eight threads. The row
    and the column of a pivot pass through shared memory, in turn one half of `room` and the other,
    so that a pivot takes one barrier. There is no pivoting. Ends in a barrier; returns whether the
    pivots were sound.
    """
    tid = cuda.threadIdx.x & NATURAL
    column, row = tid & 7, tid >> 3
    sound = True
    # Within a chunk the tile's row and column of the pivot, c // ACROSS and c // 8, are the same.
    for c in unroll(range(0, TAIL, CHUNK)):
        for step in range(CHUNK if c < count else 0):
            half = (step & 1) * 2 * TAIL
            own_row = row == c % ACROSS + step
            own_column = column == c % 8 + step
            if own_row:
                for b in unroll(range(TILE_COLUMNS)):
                    room[half + column + 8 * b] = tile[c // ACROSS * TILE_COLUMNS + b]
            if own_column:
                for a in unroll(range(TILE_ROWS)):
                    room[half + TAIL + row + a * ACROSS] = tile[a * TILE_COLUMNS + c // 8]
            cuda.syncthreads()
            pivot = room[half + c + step]
            sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
            inverse = 1.0 / pivot
            for b in unroll(range(TILE_COLUMNS)):
                scaled = room[half + column + 8 * b] * inverse
                for a in unroll(range(TILE_ROWS)):
                    tile[a * TILE_COLUMNS + b] -= room[half + TAIL + row + a * ACROSS] * scaled
                if own_row:
                    tile[c // ACROSS * TILE_COLUMNS + b] = scaled
            if own_column:
                for a in unroll(range(TILE_ROWS)):
                    factor = room[half + TAIL + row + a * ACROSS]
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
        fourth = items[(step + AHEAD) & NATURAL, lane]
        source = (item >> 32) & 0xFFFF
        x[item & 0xFFFF] -= matrix[(item >> 16) & 0xFFFF] * inverse[source] * x[source]
        cuda.syncwarp()


def block_subtract(sums, matrix, inverse, x, partial):
    """x_i -= sum of a_ik x_k / a_kk over all rows at once; ends in a barrier."""
    for count in rolled(range(cuda.threadIdx.x, sums.target.size, cuda.blockDim.x)):
        segment = count & NATURAL
        total = 0.0
        for k in unroll(range(BETWEEN_WIDTH)):
            item = sums.item[k, segment]
            source = (item >> 16) & 0xFFFF
            total += matrix[item & 0xFFFF] * inverse[source] * x[source]
        put_segment(sums, segment, total, partial, x, -1)
    block_rows(sums, partial, x, -1)


def block_solve(system, matrix, inverse, tile, x, partial):
    """Replace the right-hand side `x` by the solution; begins and ends in a barrier."""
    tid, threads = cuda.threadIdx.x & NATURAL, cuda.blockDim.x
    cuda.syncthreads()
    if tid < 32:
        if tid == 0:
            # What variables that there are not stand for.
            x[system.pivot.size] = 0.0
        cuda.syncwarp()
        warp_substitute(system.forward, matrix, inverse, x)
    cuda.syncthreads()
    block_subtract(system.gather, matrix, inverse, x, partial)
    column, row = tid & 7, tid >> 3
    totals = cuda.local.array(TILE_ROWS, real)
    for a in unroll(range(TILE_ROWS)):
        totals[a] = 0.0
    for b in unroll(range(TILE_COLUMNS)):
        amount = x[system.tail[column + 8 * b]]
        for a in unroll(range(TILE_ROWS)):
            totals[a] += tile[a * TILE_COLUMNS + b] * amount
    for a in unroll(range(TILE_ROWS)):
        total = totals[a]
        total += cuda.shfl_xor_sync(ALL, total, 1)
        total += cuda.shfl_xor_sync(ALL, total, 2)
        total += cuda.shfl_xor_sync(ALL, total, 4)
        if column == 0:
            partial[row + a * ACROSS] = total
    cuda.syncthreads()
    for k in rolled(range(tid, system.tail_count, threads)):
        x[system.tail[k]] = partial[k]
    cuda.syncthreads()
    block_subtract(system.spread, matrix, inverse, x, partial)
    if tid < 32:
        warp_substitute(system.backward, matrix, inverse, x)
    cuda.syncthreads()
    for i in rolled(range(tid, system.pivot.size, threads)):
        x[i] *= inverse[i]
    cuda.syncthreads()


def block_project(invariants, totals, y, gram):
    """Clip negative amounts and restore sums; as `rosenbrock.project`. Ends in a barrier.

    `gram` has rows of as many numbers as there are invariants, then what is missing, then a scale.
    """
    tid, threads = cuda.threadIdx.x & NATURAL, cuda.blockDim.x
    count, size = invariants.shape
    width = count + 2
    for i in rolled(range(tid, size, threads)):
        y[i] = max(y[i], 0.0)
    cuda.syncthreads()
    # A warp for every sum.
    turn = tid >> 5
    for k in rolled(range(count)):
        for other in rolled(range(width)):
            if turn == 0:
                total = 0.0
                for i in rolled(range(tid & 31, size, 32)):
                    term = invariants[k, i] * y[i]
                    if other < count:
                        term *= invariants[other, i]
                    elif other > count:
                        term = abs(term)
                    total += term
                for shift in unroll(range(5)):
                    total += cuda.shfl_down_sync(ALL, total, 16 >> shift)
                if tid & 31 == 0:
                    gram[k * width + other] = totals[k] - total if other == count else total
            turn = turn - 1 if turn > 0 else (threads >> 5) - 1
    cuda.syncthreads()
    worst = 0.0
    for k in rolled(range(count)):
        scale = gram[k * width + count + 1]
        if scale > 0.0:
            worst = max(worst, abs(gram[k * width + count]) / scale)
    cuda.syncthreads()
    if tid == 0:
        for k in rolled(range(count)):
            pivot = gram[k * width + k]
            for other in rolled(range(k + 1, count)):
                factor = gram[other * width + k] / pivot if pivot > 0.0 else 0.0
                for m in range(k, count + 1):
                    gram[other * width + m] -= factor * gram[k * width + m]
        for back in range(count):
            k = count - 1 - back
            total = gram[k * width + count]
            for m in range(k + 1, count):
                total -= gram[k * width + m] * gram[m * width + count]
            own = gram[k * width + k]
            gram[k * width + count] = total / own if own > 1e-280 else 0.0
    cuda.syncthreads()
    for i in rolled(range(tid, size, threads)):
        factor = 1.0
        for k in rolled(range(count)):
            factor += gram[k * width + count] * invariants[k, i]
        y[i] *= max(factor, 0.0)
    cuda.syncthreads()
    return worst


def integrate_block(
    system, several, rates, thermo, method, invariants, absolute, times, temperature, density,
    grid, rtol, most_steps, scratch, counter, out, status, taken, repeated, defect,
):  # fmt: skip
    """Zones from a queue, each by one block."""
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    size, stage_count, point_count = system.pivot.size, method.m.size, grid.size
    width = size + 1
    shared = cuda.shared.array(0, real)
    tile = cuda.local.array(TILE, real)
    room = shared[0:32]
    pivoting = shared[32 : 32 + 4 * TAIL]
    place = 32 + 4 * TAIL
    y = shared[place : place + width]
    new = shared[place + width : place + 2 * width]
    change = shared[place + 2 * width : place + 3 * width]
    inverse = shared[place + 3 * width : place + 4 * width]
    right = shared[place + 4 * width : place + 5 * width]
    in_time = shared[place + 5 * width : place + 6 * width]
    place += 6 * width
    gram = shared[place : place + invariants.shape[0] * (invariants.shape[0] + 2)]
    place += invariants.shape[0] * (invariants.shape[0] + 2)
    totals = shared[place : place + invariants.shape[0]]
    place += invariants.shape[0]
    partial = shared[place : place + several]
    place += several
    matrix = shared[place : place + system.entry_count]
    # Where the matrix of the tail was, which is in registers then.
    place += system.entry_count - system.tail_count * system.tail_count
    stages = shared[place : place + stage_count * size]
    place += stage_count * size
    found = shared[place : place + system.triple.size]
    mine = scratch[cuda.blockIdx.x]
    slot_count = rates.slot_start.size - 1
    slots = mine[0:slot_count]
    volumes = mine[slot_count : slot_count + size]
    values = mine[slot_count + size : slot_count + size + system.value_count]

    zone = next_zone(counter, room)
    while zone < out.shape[0]:
        hot, dense = temperature[zone], density[zone]
        for i in rolled(range(tid, size, threads)):
            y[i] = out[zone, 0, i]
        if tid == 0:
            y[size] = 1.0
            new[size] = 1.0
        cuda.syncthreads()
        for k in rolled(range(invariants.shape[0])):
            part = 0.0
            for i in rolled(range(tid, size, threads)):
                part += invariants[k, i] * y[i]
            part = block_sum(part, room, k & 1)
            if tid == 0:
                totals[k] = part
        t, end = grid[0], grid[point_count - 1]
        block_conditions(system, rates, thermo, times, hot, dense, t, slots, values, volumes)
        h = 0.0
        point, steps, again, worst, outcome = 1, 0, 0, 0.0, DONE
        fresh, after_reject = True, False
        while point < point_count:
            if steps + again >= most_steps:
                outcome = TOO_MANY_STEPS
                break
            if DYNAMIC:
                block_conditions(
                    system, rates, thermo, times, hot, dense, t, slots, values, volumes
                )
            if fresh:
                block_products(system.triple, y, found)
                block_sums(system.sums, values, found, partial, change)
                if steps == 0:
                    amount, speed = 0.0, 0.0
                    for i in rolled(range(tid, size, threads)):
                        allowed = absolute[i] + rtol * abs(y[i])
                        amount += (y[i] / allowed) ** 2
                        speed += (change[i] / allowed) ** 2
                    amount = block_sum(amount, room, 0)
                    speed = block_sum(speed, room, 1)
                    h = end - t
                    if speed != 0.0:
                        h = min(h, 0.01 * max((amount / speed) ** 0.5, 1e-3 / speed**0.5))
                fresh = False
            if not (h > SHORTEST * max(abs(t), 1e-12 * (end - t))) or not (h < INFINITY):
                outcome = NOT_FINITE
                break
            last = t + h * 1.0000001 >= end
            if last:
                h = end - t
            block_jacobian(system, values, y, 1.0 / (h * method.gamma), matrix, partial)
            sound = block_factorize(system, matrix, inverse, pivoting, tile)
            if DYNAMIC:
                shift = 1e-6 * h
                block_conditions(
                    system, rates, thermo, times, hot, dense, t + shift, slots, values, volumes
                )
                block_products(system.triple, y, found)
                block_sums(system.sums, values, found, partial, in_time)
                for i in rolled(range(tid, size, threads)):
                    in_time[i] = (in_time[i] - change[i]) / shift
            for stage in range(stage_count):
                if stage > 0:
                    for i in rolled(range(tid, size, threads)):
                        total = y[i]
                        for j in rolled(range(stage)):
                            total += method.a[stage, j] * stages[j * size + i]
                        new[i] = total
                    cuda.syncthreads()
                    if DYNAMIC:
                        block_conditions(
                            system, rates, thermo, times, hot, dense,
                            t + method.alpha[stage] * h, slots, values, volumes,
                        )  # fmt: skip
                    block_products(system.triple, new, found)
                    block_sums(system.sums, values, found, partial, right)
                for i in rolled(range(tid, size, threads)):
                    total = 0.0
                    for j in rolled(range(stage)):
                        total += method.c[stage, j] * stages[j * size + i]
                    before = right[i] if stage > 0 else change[i]
                    right[i] = before + total / h
                    if DYNAMIC:
                        right[i] += method.gammas[stage] * h * in_time[i]
                block_solve(system, matrix, inverse, tile, right, partial)
                for i in rolled(range(tid, size, threads)):
                    stages[stage * size + i] = right[i]
                cuda.syncthreads()
            part = 0.0
            for i in rolled(range(tid, size, threads)):
                total, error = y[i], 0.0
                for j in rolled(range(stage_count)):
                    total += method.m[j] * stages[j * size + i]
                    error += method.e[j] * stages[j * size + i]
                new[i] = total
                ratio = error / (absolute[i] + rtol * max(abs(y[i]), abs(total)))
                part += ratio * ratio
            if not sound:
                part = INFINITY
            error = (block_sum(part, room, 0) / size) ** 0.5
            if not error < INFINITY:
                again += 1
                h *= 0.1
                after_reject = True
                continue
            factor = SAFETY * max(error, 1e-10) ** -method.exponent
            factor = min(max(factor, LEAST), MOST)
            if error > 1.0:
                again += 1
                h *= min(factor, 0.9)
                after_reject = True
                continue
            steps += 1
            then = end if last else t + h
            worst = max(worst, block_project(invariants, totals, new, gram))
            while point < point_count and grid[point] <= then:
                theta = (grid[point] - t) / h
                for i in rolled(range(tid, size, threads)):
                    curve, bend = 0.0, 0.0
                    for j in rolled(range(stage_count)):
                        curve += method.p[j] * stages[j * size + i]
                        bend += method.q[j] * stages[j * size + i]
                    inner = new[i] + (1.0 - theta) * (curve + theta * bend)
                    out[zone, point, i] = max((1.0 - theta) * y[i] + theta * inner, 0.0)
                point += 1
            cuda.syncthreads()
            for i in rolled(range(tid, size, threads)):
                y[i] = new[i]
            cuda.syncthreads()
            t = then
            h *= min(factor, 1.0) if after_reject else factor
            after_reject = False
            fresh = True
        if tid == 0:
            status[zone] = outcome
            taken[zone] = steps
            repeated[zone] = again
            defect[zone] = worst
        zone = next_zone(counter, room)
