"""Steps of the density: grow, move, prune, until a time is reached.

A step grows the grid where there is mass to move, takes as long as the fastest cell allows (or
what is left to the target), and moves the mass; every so many steps the grid is pruned and rebuilt
from the keys of what stays.  The mass of all cells together is known from the books - what was
loaded, less what was pruned and lost - so that nothing is normalised: the threshold is scaled.

The whole loop runs on the device.  On a GPU it is one cooperative grid with a barrier wherever
cells read what others wrote.  On a CPU a thread takes all of a small grid; a large one is shared
between threads, phase by phase.
"""

from __future__ import annotations

import numpy as np

from ergode.core.machine import cuda, real, unroll
from ergode.density import corner_transport, split
from ergode.density.cells import (
    CELL_STEPS,
    CLIPPED,
    COMPLETE,
    COURANT,
    DUE,
    EMPTY,
    FULL,
    LOST,
    PAUSED,
    PEAK,
    PRUNED,
    REACHED,
    READY,
    SINCE,
    STATE,
    STEPS,
    TARGET,
    THRESHOLD,
    TIME,
    USED,
    enter,
    grow,
    grow_towards,
    is_due,
    link,
    link_all,
    list_key,
    mark,
    survey,
    total_mass,
    units,
)
from ergode.density.lattice import DIMENSION

# Bound for each kernel.
CORNER = False  # corner transport, else split
VARYING = False  # the field depends on time
MOVES = 4  # four times the square of the dimension
# On a GPU: fluxes are kept rather than found twice. It halves what is gathered from memory, which
# large grids wait for, and doubles the barriers, which small ones wait for.
FLUXES_FIRST = False

# Of a field that depends on time no step is much longer than the last; the first is short.
_LONGER = np.float64(1.05)
_FIRST_STEP = np.float64(1 / 256)
_EVERY_LANE = np.uint32(0xFFFFFFFF)


# ---- CPU: what a loop looks at is gathered first, a block at a time, so that the arithmetic on it
# is done in vector instructions

_LANES = 256


def build(cells, frame, t):
    """Table, rates and neighbours of all cells, from their keys."""
    for at in range(cells.table.size):
        cells.table[at] = EMPTY
    used = cells.tally[USED]
    cells.fastest[0] = real(0.0)
    for i in range(1, used):
        enter(i, cells)
    for i in range(1, used):
        survey(i, t, cells, frame)
        link_all(i, cells)
    cells.tally[READY] = 1


def prune(floor, cells, p, kept):
    """Drop the cells below the floor, but for those that mass above it flows into."""
    tally = cells.tally
    used = tally[USED]
    for i in range(used):
        kept[i] = np.uint8(0)
    for i in range(1, used):
        if p[i] >= floor:
            mark(i, cells, kept)
    count = 1
    dropped = np.int64(0)
    for i in range(1, used):
        if kept[i] != 0:
            cells.key[count] = list_key(i, floor, cells, p)
            p[count] = p[i]
            count += 1
        else:
            dropped += units(p[i])
    tally[USED] = count
    tally[PRUNED] += dropped
    tally[READY] = 0


def expand(floor, t, cells, p, q, frame):
    """Grow the grid; whether there was room."""
    tally = cells.tally
    before = tally[USED]
    flow = cells.flow
    for i in range(1, before):
        # Asked here: to hand all arrays to a function costs more than the answer.
        if p[i] >= floor and flow[i] & COMPLETE == 0:
            grow(i, cells, p, q, frame)
    if tally[USED] > cells.key.size:
        tally[STATE] = FULL
        tally[USED] = before
        tally[READY] = 0
    if tally[STATE] != REACHED:
        return False
    if VARYING:
        cells.fastest[0] = real(0.0)
        for i in range(1, tally[USED]):
            survey(i, t, cells, frame)
    else:
        for i in range(before, tally[USED]):
            survey(i, t, cells, frame)
    for i in range(before, tally[USED]):
        link_all(i, cells)
    return True


def corner_step(step, cells, masses, p, q, frame):
    """Corner transport of all cells, from `p` to `q`."""
    tally = cells.tally
    used = tally[USED]
    s, flux = masses.half, masses.flux
    for i in range(1, used):
        s[i] = corner_transport.transverse(np.uint32(i), step, cells, p)
    rate, beyond, here, there = np.empty((4, _LANES), real)
    far, corners, joined = np.empty((3, _LANES), real)
    lost = np.int64(0)
    for d in unroll(range(DIMENSION)):
        above, below = cells.above[d], cells.below[d]
        spread = frame.spread[d]
        for first in range(1, used, _LANES):
            count = min(_LANES, used - first)
            for n in range(count):
                i = np.uint32(first + n)
                (rate[n], beyond[n], here[n], there[n], far[n], corners[n], joined[n]) = (
                    corner_transport.gather(d, i, above[i], cells, p, s)
                )
            block = flux[first : first + count]
            for n in range(count):
                block[n] = corner_transport.moved(
                    step,
                    spread,
                    rate[n],
                    beyond[n],
                    here[n],
                    there[n],
                    far[n],
                    corners[n],
                    joined[n],
                )
            for n in range(count):
                if joined[n] == 0.0:
                    lost += units(block[n])
        for i in range(1, used):
            before = p[i] if d == 0 else q[i]
            q[i] = before - flux[i] + flux[below[i]]
    clipped = np.int64(0)
    for i in range(1, used):
        if q[i] < 0.0:
            clipped -= units(q[i])
            q[i] = real(0.0)
    tally[LOST] += lost
    tally[CLIPPED] += clipped


def sweep_fluxes(start, stop, d, step, cells, masses, p, frame):
    """What crosses the faces above a range of cells along one dimension."""
    rate, beyond, here, there = np.empty((4, _LANES), real)
    far = np.empty(_LANES, real)
    above = cells.above[d]
    spread = frame.spread[d]
    for first in range(start, stop, _LANES):
        count = min(_LANES, stop - first)
        for n in range(count):
            i = np.uint32(first + n)
            rate[n], beyond[n], here[n], there[n], far[n] = split.gather(d, i, above[i], cells, p)
        block = masses.flux[first : first + count]
        for n in range(count):
            block[n] = split.moved(step, spread, rate[n], beyond[n], here[n], there[n], far[n])


def sweep_masses(start, stop, d, cells, masses, p, q):
    """Masses of a range of cells after what crossed their faces."""
    flux = masses.flux
    below = cells.below[d]
    for i in range(start, stop):
        q[i] = p[i] - flux[i] + flux[below[i]]


def advance_cpu(start, stop, budget, prune_every, resort_above, cells, masses, frame, clock):
    """Take steps until the target time, or until `budget` cell-steps are done; on one thread."""
    tally = cells.tally
    p, q = masses.now, masses.next
    t = clock[TIME]
    target = clock[TARGET]
    taken = (target - t) * _FIRST_STEP
    tally[STATE] = REACHED
    work = 0
    while t < target:
        if work > budget or (tally[READY] == 0 and work > 0 and tally[USED] > resort_above):
            tally[STATE] = PAUSED
            break
        if tally[READY] == 0:
            build(cells, frame, t)
        left = target - t
        # A field that depends on time is taken in the middle of the step that is expected.
        middle = t + 0.5 * min(_LONGER * taken, left) if VARYING else t
        if not expand(real(clock[THRESHOLD] * total_mass(tally)), middle, cells, p, q, frame):
            break
        dt = clock[COURANT] / np.float64(cells.fastest[0])
        if VARYING:
            dt = min(dt, _LONGER * taken)
            taken = dt
        last = dt >= left
        dt = left if last else dt
        step = real(dt)
        if CORNER:
            corner_step(step, cells, masses, p, q, frame)
            p, q = q, p
        else:
            backward = (tally[STEPS] & 1) != 0
            for turn in range(DIMENSION):
                axis = DIMENSION - 1 - turn if backward else turn
                for d in unroll(range(DIMENSION)):
                    if d == axis:
                        sweep_fluxes(1, tally[USED], d, step, cells, masses, p, frame)
                        sweep_masses(1, tally[USED], d, cells, masses, p, q)
                p, q = q, p
        t = target if last else t + dt
        tally[STEPS] += 1
        tally[SINCE] += 1
        tally[PEAK] = max(tally[PEAK], tally[USED] - 1)
        if tally[SINCE] % prune_every == 0:
            prune(real(clock[THRESHOLD] * total_mass(tally)), cells, p, masses.kept)
        tally[CELL_STEPS] += tally[USED] - 1
        work += tally[USED]
    clock[TIME] = t
    for i in range(1, tally[USED]):
        masses.now[i] = p[i]


def prune_cpu(start, stop, cells, masses, frame, clock):
    """Prune alone: what follows a correction."""
    if cells.tally[READY] == 0:
        build(cells, frame, clock[TIME])
    prune(real(clock[THRESHOLD] * total_mass(cells.tally)), cells, masses.now, masses.kept)


# ---- CUDA: one cooperative grid


def _sum_of_warp(value):
    """Sum over the lanes of a warp, in its first lane."""
    for shift in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(_EVERY_LANE, value, shift)
    return value


def _book(tally, at, amount):
    """Add what all lanes of a warp have to one account."""
    total = _sum_of_warp(amount)
    if total != 0 and cuda.threadIdx.x & 31 == 0:
        cuda.atomic.add(tally, at, total)


def advance_cuda(budget, prune_every, resort_above, cells, masses, frame, clock):
    """Take steps until the target time, or until `budget` cell-steps are done.

    Every thread keeps the time, and the numbers of cells and steps, by the same arithmetic.
    """
    grid = cuda.cg.this_grid()
    first = cuda.grid(1) + 1
    stride = cuda.gridsize(1)
    tally = cells.tally
    capacity = cells.key.size
    p, q = masses.now, masses.next
    t = clock[TIME]
    target = clock[TARGET]
    threshold = clock[THRESHOLD]
    courant = clock[COURANT]
    used = tally[USED]
    ready = tally[READY]
    steps = tally[STEPS]
    since = tally[SINCE]
    cell_steps = tally[CELL_STEPS]
    peak = tally[PEAK]
    state = REACHED
    work = np.int64(0)
    taken = (target - t) * _FIRST_STEP
    grid.sync()  # nobody writes before everybody has read
    if first == 1:
        tally[STATE] = REACHED
    while t < target:
        if work > budget or (ready == 0 and work > 0 and used > resort_above):
            state = PAUSED
            break
        if ready == 0:
            _build_cuda(grid, first, stride, used, t, cells, frame)
            ready = 1
        floor = real(threshold * total_mass(tally))
        _list_due(first, stride, used, floor, cells, masses, p)
        grid.sync()
        due = tally[DUE]
        if due > 0:
            # A thread a move: all that it waits for is one place of the table.
            for n in range(first - 1, due * MOVES, stride):
                row = n // MOVES
                i = masses.key[row]
                grow_towards(n - row * MOVES, i, cells.key[i], cells.flow[i], cells, p, q, frame)
            grid.sync()
            if first == 1:
                tally[DUE] = 0
        before = used
        used = tally[USED]
        state = tally[STATE]
        if used > capacity:
            state = FULL
            used = before
        if state != REACHED:
            break
        if VARYING:
            if first == 1:
                cells.fastest[0] = real(0.0)
            grid.sync()
        if VARYING or used > before:
            middle = t + 0.5 * min(_LONGER * taken, target - t) if VARYING else t
            for i in range(first if VARYING else before + first - 1, used, stride):
                survey(i, middle, cells, frame)
            for n in range(first - 1, 2 * DIMENSION * (used - before), stride):
                i = before + n // (2 * DIMENSION)
                way = n - (i - before) * (2 * DIMENSION)
                link(i, way >> 1, way & 1, cells)
            grid.sync()
        left = target - t
        dt = courant / np.float64(cells.fastest[0])
        if VARYING:
            dt = min(dt, _LONGER * taken)
            taken = dt
        last = dt >= left
        dt = left if last else dt
        step = real(dt)
        if CORNER:
            s = masses.half
            for i in range(first, used, stride):
                s[i] = corner_transport.transverse(np.uint32(i), step, cells, p)
            grid.sync()
            lost = np.int64(0)
            clipped = np.int64(0)
            for i in range(first, used, stride):
                mass, out = corner_transport.update(np.uint32(i), step, cells, p, s, frame)
                lost += units(out)
                if mass < 0.0:
                    clipped -= units(mass)
                    mass = real(0.0)
                q[i] = mass
            _book(tally, LOST, lost)
            _book(tally, CLIPPED, clipped)
            grid.sync()
            p, q = q, p
        else:
            backward = (steps & 1) != 0
            for turn in range(DIMENSION):
                axis = DIMENSION - 1 - turn if backward else turn
                for d in unroll(range(DIMENSION)):
                    if d == axis:
                        if FLUXES_FIRST:
                            _fluxes(d, first, stride, used, step, cells, masses, p, frame)
                            grid.sync()
                        _sweep(d, first, stride, used, step, cells, masses, p, q, frame)
                grid.sync()
                p, q = q, p
        t = target if last else t + dt
        steps += 1
        since += 1
        peak = max(peak, used - 1)
        if since % prune_every == 0:
            floor = real(threshold * total_mass(tally))
            used = _prune_cuda(grid, first, stride, used, floor, cells, masses, p, q)
            p, q = q, p
            ready = 0
        cell_steps += used - 1
        work += used
    grid.sync()
    for i in range(first, used, stride):
        masses.now[i] = p[i]
    if first == 1:
        clock[TIME] = t
        tally[USED] = used
        tally[READY] = ready if state != FULL else 0
        tally[STATE] = state
        tally[STEPS] = steps
        tally[SINCE] = since
        tally[CELL_STEPS] = cell_steps
        tally[PEAK] = peak


def _list_due(first, stride, used, floor, cells, masses, p):
    """List the cells that are due to grow, and call them complete: as soon they will be."""
    lane = cuda.threadIdx.x & 31
    # Whole warps go round together, so that a warp asks for its places at once.
    for warp in range(first - 1 - lane, used, stride):
        i = warp + lane
        due = i > 0 and i < used and is_due(i, floor, cells, p)
        mask = np.uint32(cuda.ballot_sync(_EVERY_LANE, due))
        if mask != 0:
            place = np.int64(0)
            if lane == 0:
                place = cuda.atomic.add(cells.tally, DUE, np.int64(cuda.popc(mask)))
            place = cuda.shfl_sync(_EVERY_LANE, place, 0)
            if due:
                ahead = np.uint32(mask & np.uint32((np.int64(1) << lane) - 1))
                masses.key[place + cuda.popc(ahead)] = i
                cells.flow[i] = np.uint32(cells.flow[i] | COMPLETE)


def _fluxes(d, first, stride, used, step, cells, masses, p, frame):
    """What crosses the faces above cells along one dimension, by split transport."""
    spread = frame.spread[d]
    for i in range(first, used, stride):
        me = np.uint32(i)
        masses.flux[me] = split.moved(
            step, spread, *split.gather(d, me, cells.above[d, me], cells, p)
        )


def _sweep(d, first, stride, used, step, cells, masses, p, q, frame):
    """Split transport along one dimension, from `p` to `q`."""
    for i in range(first, used, stride):
        me = np.uint32(i)
        if FLUXES_FIRST:
            q[me] = p[me] - masses.flux[me] + masses.flux[cells.below[d, me]]
        else:
            q[me] = split.sweep(d, me, step, cells, p, frame)


def _build_cuda(grid, first, stride, used, t, cells, frame):
    """Table, rates and neighbours of all cells, as `build` makes them."""
    if first == 1:
        cells.fastest[0] = real(0.0)
    for at in range(first - 1, cells.table.size, stride):
        cells.table[at] = EMPTY
    grid.sync()
    for i in range(first, used, stride):
        enter(i, cells)
    grid.sync()
    for i in range(first, used, stride):
        survey(i, t, cells, frame)
    for n in range(first - 1, DIMENSION * used, stride):
        d = n // used
        i = n - d * used
        if i != 0:
            link(i, d, 0, cells)
    grid.sync()


def _prune_cuda(grid, first, stride, used, floor, cells, masses, p, q):
    """Drop cells as `prune` does; keys stay in place, masses move from `p` to `q`."""
    tally, kept = cells.tally, masses.kept
    for i in range(first - 1, used, stride):
        kept[i] = np.uint8(0)
    grid.sync()
    for i in range(first, used, stride):
        if p[i] >= floor:
            mark(i, cells, kept)
    if first == 1:
        tally[USED] = 1
    grid.sync()
    dropped = np.int64(0)
    lane = cuda.threadIdx.x & 31
    # Whole warps go round together, so that a warp asks for its places at once.
    for warp in range(first - 1 - lane, used, stride):
        i = warp + lane
        stays = i > 0 and i < used and kept[i] != 0
        mask = np.uint32(cuda.ballot_sync(_EVERY_LANE, stays))
        place = np.int64(0)
        if lane == 0:
            place = cuda.atomic.add(tally, USED, np.int64(cuda.popc(mask)))
        place = cuda.shfl_sync(_EVERY_LANE, place, 0)
        if stays:
            place += cuda.popc(np.uint32(mask & np.uint32((np.int64(1) << lane) - 1)))
            masses.key[place] = list_key(i, floor, cells, p)
            q[place] = p[i]
        elif i > 0 and i < used:
            dropped += units(p[i])
    _book(tally, PRUNED, dropped)
    grid.sync()
    count = tally[USED]
    for i in range(first, count, stride):
        cells.key[i] = masses.key[i]
    grid.sync()
    return count


def prune_cuda(cells, masses, frame, clock):
    """Prune alone: what follows a correction."""
    grid = cuda.cg.this_grid()
    first = cuda.grid(1) + 1
    stride = cuda.gridsize(1)
    floor = real(clock[THRESHOLD] * total_mass(cells.tally))
    used = cells.tally[USED]
    ready = cells.tally[READY]
    grid.sync()
    if ready == 0:
        _build_cuda(grid, first, stride, used, clock[TIME], cells, frame)
    used = _prune_cuda(grid, first, stride, used, floor, cells, masses, masses.now, masses.next)
    for i in range(first, used, stride):
        masses.now[i] = masses.next[i]
    if first == 1:
        cells.tally[READY] = 0
