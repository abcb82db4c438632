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
    COURANT,
    FULL,
    LOADED_AT,
    LOST,
    NOISE_TIME,
    PAUSED,
    PEAK,
    REACHED,
    READY,
    SINCE,
    STATE,
    STEPS,
    TARGET,
    THRESHOLD,
    TIME,
    USED,
    total_mass,
    units,
)
from ergode.density.diffusion import diffuse, diffuse_cuda, longest, spread_most
from ergode.density.growth import build, build_cuda, expand, expand_cuda
from ergode.density.lattice import DIMENSION
from ergode.density.pruning import book, drop_cuda, prune

# Bound for each kernel.
CORNER = False  # corner transport, else split
ANY_NOISE = False
VARYING = False  # the field or the noise depends on time
# On a GPU: fluxes are kept rather than found twice. It halves what is gathered from memory, which
# large grids wait for, and doubles the barriers, which small ones wait for.
FLUXES_FIRST = False

# Of a field that depends on time no step is much longer than the last; the first is short.
_LONGER = np.float64(1.05)
_FIRST_STEP = np.float64(1 / 256)


def _longest_step(t, taken, cells, frame, clock):
    """How long the next step may be, after one of length `taken`."""
    dt = clock[COURANT] / np.float64(cells.fastest[0])
    if VARYING:
        dt = min(dt, _LONGER * taken)
    if ANY_NOISE:
        dt = min(dt, longest(t - clock[LOADED_AT], spread_most(cells, frame)))
    return dt


# ---- CPU: what a loop looks at is gathered first, a block at a time, so that the arithmetic on it
# is done in vector instructions

_LANES = 256


def corner_step(step, cells, masses, p, q):
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


def sweep_fluxes(start, stop, d, step, cells, masses, p):
    """What crosses the faces above a range of cells along one dimension."""
    rate, beyond, here, there = np.empty((4, _LANES), real)
    far = np.empty(_LANES, real)
    above = cells.above[d]
    for first in range(start, stop, _LANES):
        count = min(_LANES, stop - first)
        for n in range(count):
            i = np.uint32(first + n)
            rate[n], beyond[n], here[n], there[n], far[n] = split.gather(d, i, above[i], cells, p)
        block = masses.flux[first : first + count]
        for n in range(count):
            block[n] = split.moved(step, rate[n], beyond[n], here[n], there[n], far[n])


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
    noise_time = clock[NOISE_TIME]
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
        floor = real(clock[THRESHOLD] * total_mass(tally))
        if ANY_NOISE:
            until = t + 0.5 * min(_longest_step(t, taken, cells, frame, clock), left)
            if until > noise_time:
                middle = 0.5 * (noise_time + until)
                if not diffuse(until - noise_time, floor, middle, cells, masses, p, q, frame):
                    break
                noise_time = until
        # A field that depends on time is taken in the middle of the step that is expected.
        middle = t + 0.5 * min(_LONGER * taken, left) if VARYING else t
        if not expand(floor, middle, cells, p, q, frame):
            break
        dt = _longest_step(t, taken, cells, frame, clock)
        taken = dt
        last = dt >= left
        dt = left if last else dt
        step = real(dt)
        if CORNER:
            corner_step(step, cells, masses, p, q)
            p, q = q, p
        else:
            backward = (tally[STEPS] & 1) != 0
            for turn in range(DIMENSION):
                axis = DIMENSION - 1 - turn if backward else turn
                for d in unroll(range(DIMENSION)):
                    if d == axis:
                        sweep_fluxes(1, tally[USED], d, step, cells, masses, p)
                        sweep_masses(1, tally[USED], d, cells, masses, p, q)
                p, q = q, p
        t = target if last else t + dt
        tally[STEPS] += 1
        tally[SINCE] += 1
        tally[PEAK] = max(tally[PEAK], tally[USED] - 1)
        if tally[SINCE] % prune_every == 0:
            prune(t, cells, p, masses.kept, clock)
        tally[CELL_STEPS] += tally[USED] - 1
        work += tally[USED]
    if ANY_NOISE and tally[STATE] == REACHED and noise_time < t:
        if tally[READY] == 0:
            build(cells, frame, t)
        floor = real(clock[THRESHOLD] * total_mass(tally))
        middle = 0.5 * (noise_time + t)
        if diffuse(t - noise_time, floor, middle, cells, masses, p, q, frame):
            noise_time = t
    clock[TIME] = t
    clock[NOISE_TIME] = noise_time
    for i in range(1, tally[USED]):
        masses.now[i] = p[i]


# ---- CUDA: one cooperative grid


def advance_cuda(budget, prune_every, resort_above, cells, masses, frame, clock):
    """Take steps until the target time, or until `budget` cell-steps are done.

    Every thread keeps the time, and the numbers of cells and steps, by the same arithmetic.
    """
    grid = cuda.cg.this_grid()
    first = cuda.grid(1) + 1
    stride = cuda.gridsize(1)
    tally = cells.tally
    p, q = masses.now, masses.next
    t = clock[TIME]
    target = clock[TARGET]
    noise_time = clock[NOISE_TIME]
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
            build_cuda(grid, first, stride, used, t, cells, frame)
            ready = 1
        left = target - t
        floor = real(clock[THRESHOLD] * total_mass(tally))
        if ANY_NOISE:
            until = t + 0.5 * min(_longest_step(t, taken, cells, frame, clock), left)
            if until > noise_time:
                middle = 0.5 * (noise_time + until)
                used, state = diffuse_cuda(
                    grid, first, stride, used, until - noise_time, floor, middle, cells, masses,
                    p, q, frame,
                )  # fmt: skip
                if state != REACHED:
                    break
                noise_time = until
        middle = t + 0.5 * min(_LONGER * taken, left) if VARYING else t
        used, state = expand_cuda(
            grid, first, stride, used, floor, middle, cells, masses.key, p, q, frame
        )
        if state != REACHED:
            break
        dt = _longest_step(t, taken, cells, frame, clock)
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
                mass, out = corner_transport.update(np.uint32(i), step, cells, p, s)
                lost += units(out)
                if mass < 0.0:
                    clipped -= units(mass)
                    mass = real(0.0)
                q[i] = mass
            book(tally, LOST, lost)
            book(tally, CLIPPED, clipped)
            grid.sync()
            p, q = q, p
        else:
            backward = (steps & 1) != 0
            for turn in range(DIMENSION):
                axis = DIMENSION - 1 - turn if backward else turn
                for d in unroll(range(DIMENSION)):
                    if d == axis:
                        if FLUXES_FIRST:
                            _fluxes(d, first, stride, used, step, cells, masses, p)
                            grid.sync()
                        _sweep(d, first, stride, used, step, cells, masses, p, q)
                grid.sync()
                p, q = q, p
        t = target if last else t + dt
        steps += 1
        since += 1
        peak = max(peak, used - 1)
        if since % prune_every == 0:
            used = drop_cuda(grid, first, stride, used, t, cells, masses, p, q, clock)
            p, q = q, p
            ready = 0
        cell_steps += used - 1
        work += used
    if ANY_NOISE and state == REACHED and noise_time < t:
        if ready == 0:
            build_cuda(grid, first, stride, used, t, cells, frame)
            ready = 1
        floor = real(clock[THRESHOLD] * total_mass(tally))
        middle = 0.5 * (noise_time + t)
        used, state = diffuse_cuda(
            grid, first, stride, used, t - noise_time, floor, middle, cells, masses, p, q, frame
        )
        noise_time = t if state == REACHED else noise_time
    grid.sync()
    for i in range(first, used, stride):
        masses.now[i] = p[i]
    if first == 1:
        clock[TIME] = t
        clock[NOISE_TIME] = noise_time
        tally[USED] = used
        tally[READY] = ready if state != FULL else 0
        tally[STATE] = state
        tally[STEPS] = steps
        tally[SINCE] = since
        tally[CELL_STEPS] = cell_steps
        tally[PEAK] = peak


def _fluxes(d, first, stride, used, step, cells, masses, p):
    """What crosses the faces above cells along one dimension, by split transport."""
    for i in range(first, used, stride):
        me = np.uint32(i)
        masses.flux[me] = split.moved(step, *split.gather(d, me, cells.above[d, me], cells, p))


def _sweep(d, first, stride, used, step, cells, masses, p, q):
    """Split transport along one dimension, from `p` to `q`."""
    for i in range(first, used, stride):
        me = np.uint32(i)
        if FLUXES_FIRST:
            q[me] = p[me] - masses.flux[me] + masses.flux[cells.below[d, me]]
        else:
            q[me] = split.sweep(d, me, step, cells, p)
