"""Rosenbrock methods on CUDA: a block of threads for every zone.

State, stages and factors of the zone stay in shared memory; coefficients, which change with the
conditions alone, in device memory. Blocks take zones from a queue until it is empty, so that no
block waits for another's zone. The methods are those of `ergode.kinetics.rosenbrock`, step for
step; sums are taken in another order.
"""

from __future__ import annotations

from ergode.core.machine import cuda, real, unroll
from ergode.core.status import Status
from ergode.kinetics.block import (
    ALL,
    block_conditions,
    block_products,
    block_sum,
    block_sums,
    next_zone,
)
from ergode.kinetics.block_tables import AHEAD, SLOPE_WIDTH, SUM_WIDTH, BlockSystem
from ergode.kinetics.mechanism import NATURAL
from ergode.kinetics.rosenbrock import LEAST, MOST, SAFETY, SHORTEST

_REDUCTION = 32


def shared_count(system: BlockSystem, stage_count: int, invariant_count: int) -> int:
    """Numbers that a zone keeps in shared memory."""
    n = system.pivot.size
    partial = partial_count(system)
    return (
        _REDUCTION
        + (system.entry_count + 1)
        + 6 * (n + 1)
        + stage_count * n
        + max(system.complexes.first.size, system.tail.size)
        + partial
        + (invariant_count + 1) ** 2
    )


def partial_count(system: BlockSystem) -> int:
    """Segments of rows that have several."""
    parts = (system.sums, system.slopes, system.gather, system.spread)
    return max(1, *(int(part.start[-1]) for part in parts))


def scratch_count(system: BlockSystem, slot_count: int) -> int:
    """Numbers that a block keeps in device memory."""
    return slot_count + system.pivot.size + system.complex.size


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
DONE, NOT_FINITE, TOO_MANY_STEPS = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.TOO_MANY_STEPS)
)  # fmt: skip
INFINITY = float("inf")


def block_jacobian(system, values, y, diagonal, matrix, partial):
    """Fill `matrix` with diagonal - dy'/dy; ends in a barrier."""
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    sums, layer, nothing = system.slopes, system.slopes.layer, system.slope.size - 1
    for count in range(tid, sums.target.size, threads):
        segment = count & NATURAL
        total = 0.0
        for k in unroll(range(SLOPE_WIDTH)):
            place = layer[k] + segment
            item = system.slope[(place if place < layer[k + 1] else nothing) & NATURAL]
            a, b = y[(item >> 16) & 0xFFFF], y[(item >> 32) & 0xFFFF]
            total -= values[item & 0xFFFF] * a * b
        target = sums.target[segment]
        if target >= 0:
            matrix[target] = total
        else:
            partial[-1 - target] = total
    if tid == 0:
        matrix[system.entry_count] = 0.0
    cuda.syncthreads()
    for row in range(tid, sums.row.size, threads):
        total = 0.0
        for place in range(sums.start[row], sums.start[row + 1]):
            total += partial[place]
        matrix[sums.row[row]] = total
    cuda.syncthreads()
    for i in range(tid, system.pivot.size, threads):
        matrix[system.pivot[i]] += diagonal
    cuda.syncthreads()


def block_factorize(system, matrix, inverse):
    """Eliminate in place; returns whether the pivots this thread saw were sound."""
    tid, threads = cuda.threadIdx.x & NATURAL, cuda.blockDim.x
    program = system.factorization
    sound = True
    first, second = program.item[0, tid], program.item[1, tid]
    third, fourth = program.item[2, tid], program.item[3, tid]
    for level in range(program.level.size - 1):
        for k in range(system.pivot_level[level] + tid, system.pivot_level[level + 1], threads):
            i = system.pivots[k]
            pivot = matrix[system.pivot[i]]
            sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
            inverse[i] = 1.0 / pivot
        cuda.syncthreads()
        for step in range(program.level[level], program.level[level + 1]):
            item = first
            first, second, third = second, third, fourth
            fourth = program.item[(step + AHEAD) & NATURAL, tid]
            factor = matrix[(item >> 16) & 0xFFFF] * inverse[(item >> 48) & 0xFFFF]
            matrix[item & 0xFFFF] -= factor * matrix[(item >> 32) & 0xFFFF]
        cuda.syncthreads()
    count = system.tail.size
    for k in range(tid, count, threads):
        inverse[system.tail[k]] = 1.0
    dense = matrix[system.entry_count - count * count : system.entry_count]
    return block_invert(dense, count) and sound


def block_invert(dense, count):
    """Invert a small dense matrix in place by Gauss and Jordan, without pivoting.

    Returns whether its pivots were sound; ends in a barrier.
    """
    column, first, stride = cuda.threadIdx.x & 31, cuda.threadIdx.x >> 5, cuda.blockDim.x >> 5
    sound = True
    for k in range(count):
        pivot = dense[(k * count + k) & NATURAL]
        sound = sound and abs(pivot) > 0.0 and abs(pivot) < INFINITY
        inverse = 1.0 / pivot
        if column < count and column != k:
            scaled = dense[(k * count + column) & NATURAL] * inverse
            for i in range(first, count, stride):
                if i != k:
                    dense[(i * count + column) & NATURAL] -= (
                        dense[(i * count + k) & NATURAL] * scaled
                    )
        cuda.syncthreads()
        for i in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            if i != k:
                dense[(k * count + i) & NATURAL] *= inverse
                dense[(i * count + k) & NATURAL] *= -inverse
            else:
                dense[(k * count + k) & NATURAL] = inverse
        cuda.syncthreads()
    return sound


def warp_substitute(program, matrix, inverse, x):
    """One direction of substitution, by the first warp."""
    lane = cuda.threadIdx.x & 31
    first, second = program.item[0, lane], program.item[1, lane]
    third, fourth = program.item[2, lane], program.item[3, lane]
    for level in range(program.level.size - 1):
        for step in range(program.level[level], program.level[level + 1]):
            item = first
            first, second, third = second, third, fourth
            fourth = program.item[(step + AHEAD) & NATURAL, lane]
            source = (item >> 32) & 0xFFFF
            x[item & 0xFFFF] -= matrix[(item >> 16) & 0xFFFF] * inverse[source] * x[source]
        cuda.syncwarp()


def block_subtract(sums, term, matrix, inverse, x, partial):
    """x_i -= sum of a_ik x_k / a_kk over all rows at once; ends in a barrier."""
    layer, nothing = sums.layer, term.size - 1
    for count in range(cuda.threadIdx.x, sums.target.size, cuda.blockDim.x):
        segment = count & NATURAL
        total = 0.0
        for k in unroll(range(SUM_WIDTH)):
            place = layer[k] + segment
            item = term[(place if place < layer[k + 1] else nothing) & NATURAL]
            source = (item >> 16) & 0xFFFF
            total += matrix[item & 0xFFFF] * inverse[source] * x[source]
        target = sums.target[segment]
        if target >= 0:
            x[target] -= total
        else:
            partial[-1 - target] = total
    cuda.syncthreads()
    for row in range(cuda.threadIdx.x, sums.row.size, cuda.blockDim.x):
        total = 0.0
        for place in range(sums.start[row], sums.start[row + 1]):
            total += partial[place]
        x[sums.row[row]] -= total
    cuda.syncthreads()


def block_solve(system, matrix, inverse, x, room, partial):
    """Replace the right-hand side `x` by the solution; begins and ends in a barrier.

    `room` holds as many numbers as the tail.
    """
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    count = system.tail.size
    cuda.syncthreads()
    if tid < 32:
        if tid == 0:
            x[system.pivot.size] = 0.0
        cuda.syncwarp()
        warp_substitute(system.forward, matrix, inverse, x)
    cuda.syncthreads()
    block_subtract(system.gather, system.gathered, matrix, inverse, x, partial)
    # The tail: four threads a row of the inverse.
    part, rows = tid & 3, threads >> 2
    base = system.entry_count - count * count
    for block in range((count + rows - 1) // rows):
        row = block * rows + (tid >> 2)
        total = 0.0
        if row < count:
            for j in range(part, count, 4):
                total += matrix[(base + row * count + j) & NATURAL] * x[system.tail[j]]
        total += cuda.shfl_xor_sync(ALL, total, 1)
        total += cuda.shfl_xor_sync(ALL, total, 2)
        if row < count and part == 0:
            room[row] = total
    cuda.syncthreads()
    for k in range(tid, count, threads):
        x[system.tail[k]] = room[k]
    cuda.syncthreads()
    block_subtract(system.spread, system.scattered, matrix, inverse, x, partial)
    if tid < 32:
        warp_substitute(system.backward, matrix, inverse, x)
    cuda.syncthreads()
    for i in range(tid, system.pivot.size, threads):
        x[i] *= inverse[i]
    cuda.syncthreads()


def block_project(invariants, totals, y, gram, room):
    """Clip negative amounts and restore sums; as `rosenbrock.project`. Ends in a barrier."""
    tid, threads = cuda.threadIdx.x, cuda.blockDim.x
    count, size = invariants.shape
    for i in range(tid, size, threads):
        y[i] = max(y[i], 0.0)
    worst = 0.0
    for k in range(count):
        for other in range(count):
            part = 0.0
            for i in range(tid, size, threads):
                part += invariants[k, i] * y[i] * invariants[other, i]
            total = block_sum(part, room, other & 1)
            if tid == 0:
                gram[k * (count + 1) + other] = total
        part, scale = 0.0, 0.0
        for i in range(tid, size, threads):
            part += invariants[k, i] * y[i]
            scale += abs(invariants[k, i]) * y[i]
        cuda.syncthreads()
        missing = totals[k] - block_sum(part, room, 0)
        scale = block_sum(scale, room, 1)
        cuda.syncthreads()
        if scale > 0.0:
            worst = max(worst, abs(missing) / scale)
        if tid == 0:
            gram[k * (count + 1) + count] = missing
    if tid == 0:
        width = count + 1
        for k in range(count):
            pivot = gram[k * width + k]
            for other in range(k + 1, count):
                factor = gram[other * width + k] / pivot if pivot > 0.0 else 0.0
                for m in range(k, width):
                    gram[other * width + m] -= factor * gram[k * width + m]
        for back in range(count):
            k = count - 1 - back
            total = gram[k * width + count]
            for m in range(k + 1, count):
                total -= gram[k * width + m] * gram[m * width + count]
            own = gram[k * width + k]
            gram[k * width + count] = total / own if own > 1e-280 else 0.0
    cuda.syncthreads()
    for i in range(tid, size, threads):
        factor = 1.0
        for k in range(count):
            factor += gram[k * (count + 1) + count] * invariants[k, i]
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
    room = shared[0:32]
    matrix = shared[32 : 33 + system.entry_count]
    place = 33 + system.entry_count
    y = shared[place : place + width]
    new = shared[place + width : place + 2 * width]
    change = shared[place + 2 * width : place + 3 * width]
    inverse = shared[place + 3 * width : place + 4 * width]
    right = shared[place + 4 * width : place + 5 * width]
    in_time = shared[place + 5 * width : place + 6 * width]
    place += 6 * width
    stages = shared[place : place + stage_count * size]
    place += stage_count * size
    found_count = max(system.complexes.first.size, system.tail.size)
    found = shared[place : place + found_count]
    place += found_count
    partial = shared[place : place + several]
    place += several
    gram = shared[place : place + invariants.shape[0] * (invariants.shape[0] + 1)]
    place += invariants.shape[0] * (invariants.shape[0] + 1)
    totals = shared[place : place + invariants.shape[0] + 1]
    mine = scratch[cuda.blockIdx.x]
    slot_count = rates.slot_start.size - 1
    slots = mine[0:slot_count]
    volumes = mine[slot_count : slot_count + size]
    values = mine[slot_count + size : slot_count + size + system.complex.size]

    zone = next_zone(counter, room)
    while zone < out.shape[0]:
        hot, dense = temperature[zone], density[zone]
        for i in range(tid, size, threads):
            y[i] = out[zone, 0, i]
        if tid == 0:
            y[size] = 1.0
            new[size] = 1.0
        cuda.syncthreads()
        for k in range(invariants.shape[0]):
            part = 0.0
            for i in range(tid, size, threads):
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
                block_products(system.complexes, y, found)
                block_sums(system.sums, system.complex, values, found, partial, change)
                if steps == 0:
                    amount, speed = 0.0, 0.0
                    for i in range(tid, size, threads):
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
            sound = block_factorize(system, matrix, inverse)
            if DYNAMIC:
                shift = 1e-6 * h
                block_conditions(
                    system, rates, thermo, times, hot, dense, t + shift, slots, values, volumes
                )
                block_products(system.complexes, y, found)
                block_sums(system.sums, system.complex, values, found, partial, in_time)
                for i in range(tid, size, threads):
                    in_time[i] = (in_time[i] - change[i]) / shift
            for stage in range(stage_count):
                if stage > 0:
                    for i in range(tid, size, threads):
                        total = y[i]
                        for j in range(stage):
                            total += method.a[stage, j] * stages[j * size + i]
                        new[i] = total
                    cuda.syncthreads()
                    if DYNAMIC:
                        block_conditions(
                            system, rates, thermo, times, hot, dense,
                            t + method.alpha[stage] * h, slots, values, volumes,
                        )  # fmt: skip
                    block_products(system.complexes, new, found)
                    block_sums(system.sums, system.complex, values, found, partial, right)
                for i in range(tid, size, threads):
                    total = 0.0
                    for j in range(stage):
                        total += method.c[stage, j] * stages[j * size + i]
                    before = right[i] if stage > 0 else change[i]
                    right[i] = before + total / h
                    if DYNAMIC:
                        right[i] += method.gammas[stage] * h * in_time[i]
                block_solve(system, matrix, inverse, right, found, partial)
                for i in range(tid, size, threads):
                    stages[stage * size + i] = right[i]
                cuda.syncthreads()
            part = 0.0
            for i in range(tid, size, threads):
                total, error = y[i], 0.0
                for j in range(stage_count):
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
            worst = max(worst, block_project(invariants, totals, new, gram, room))
            while point < point_count and grid[point] <= then:
                theta = (grid[point] - t) / h
                for i in range(tid, size, threads):
                    curve, bend = 0.0, 0.0
                    for j in range(stage_count):
                        curve += method.p[j] * stages[j * size + i]
                        bend += method.q[j] * stages[j * size + i]
                    inner = new[i] + (1.0 - theta) * (curve + theta * bend)
                    out[zone, point, i] = max((1.0 - theta) * y[i] + theta * inner, 0.0)
                point += 1
            cuda.syncthreads()
            for i in range(tid, size, threads):
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
