"""Steps of the density: grow, move, prune, until a time is reached.

A step grows the grid where there is mass to move, takes as long as the fastest cell allows (or
what is left to the target), and moves the mass; every so many steps the grid is pruned and rebuilt
from the keys of what stays.  The mass of all cells together is known from the books - what was
loaded, less what was pruned and lost - so that nothing is normalised: the threshold is scaled.

The whole loop runs on the device, by a crew (see `crew`): every thread keeps the time, and the
numbers of cells and steps, by the same arithmetic, and takes its share of the cells.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import no_unroll, real
from ergode.density.grid.cells import (
    CELL_STEPS,
    FLOOR,
    LOADED_AT,
    NOISE_TIME,
    PAUSED,
    PEAK,
    REACHED,
    READY,
    SEEN,
    SINCE,
    STATE,
    STEPS,
    TAKEN,
    TARGET,
    THRESHOLD,
    TIME,
    TO_PRUNE,
    UNDEFINED,
    USED,
    cells_of,
    is_undefined,
    masses_of,
    total_mass,
)
from ergode.density.grid.group import meet, place, share
from ergode.density.grid.growth import build, expand
from ergode.density.grid.lattice import DIMENSION, frame_of
from ergode.density.grid.pruning import drop
from ergode.density.moments import forget, summarize
from ergode.density.transport import corner, split
from ergode.density.transport.diffusion import diffuse, longest, spread_most

# Bound for each kernel.
CORNER = False  # corner transport, else split
ANY_NOISE = False
VARYING = False  # the field or the noise depends on time

# Of a field that depends on time no step is much longer than the last; the first is short.
_LONGER = np.float64(1.05)
_FIRST_STEP = np.float64(1 / 256)


def _longest_step(t, taken, cells, frame, clock):
    """How long the next step may be, after one of length `taken`."""
    dt = np.float64(1.0) / np.float64(cells.fastest[0])
    if VARYING:
        dt = min(dt, _LONGER * taken)
    if ANY_NOISE:
        dt = min(dt, longest(t - clock[LOADED_AT], spread_most(cells, frame)))
    return dt


def advance(
    rank, size, first, budget, prune_every, resort_above, every_cells, every_masses, frames, clocks
):
    """Take steps until the target time, or until `budget` cell-steps are done: a kernel.

    When the target is reached the grid is built, so that cells know their neighbours, and the
    density is summarized.
    """
    which, rank, size = place(rank, size, first)
    cells = cells_of(every_cells, which)
    masses = masses_of(every_masses, which)
    frame = frame_of(frames, which)
    clock = clocks[which]
    tally = cells.tally
    due = masses.key
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
    to_prune = clock[TO_PRUNE] != 0.0
    is_stuck = t < target and ready != 0 and not to_prune and is_undefined(cells)
    state = UNDEFINED if is_stuck else REACHED
    listed = False
    earlier = clock[FLOOR]
    work = np.int64(0)
    taken = clock[TAKEN] if clock[TAKEN] > 0.0 else (target - t) * _FIRST_STEP
    seen = clock[SEEN]
    meet(size, cells.meeting)  # nobody writes before everybody has read
    if rank == 0:
        tally[STATE] = REACHED
        clock[TO_PRUNE] = 0.0
        forget(tally)
    if to_prune:
        used = drop(rank, size, used, t, cells, masses, p, q, clock)
        p, q = q, p
        ready = 0
        seen = t
        earlier = np.float64(0.0)
    while state == REACHED and (t < target or ready == 0):
        if work > budget or (ready == 0 and work > 0 and used > resort_above):
            state = PAUSED
            break
        if ready == 0:
            build(rank, size, used, seen, cells, frame)
            ready = 1
            if t >= target:
                break
            if is_undefined(cells):
                state = UNDEFINED
                break
        left = target - t
        # Who is due to grow was seen, or could have been, as mass moved: by the floor of that step.
        if ANY_NOISE:
            fresh = clock[THRESHOLD] * total_mass(tally)
            floor = real(earlier if earlier > 0.0 else fresh)
            # What was seen of a field that depends on time may be of one moment or another.
            ahead = _LONGER * taken if VARYING else _longest_step(t, taken, cells, frame, clock)
            until = t + 0.5 * min(ahead, left)
            if until > noise_time:
                middle = 0.5 * (noise_time + until)
                used, state = diffuse(
                    rank, size, used, until - noise_time, floor, middle, cells, masses, p, q, frame
                )
                if state != REACHED:
                    break
                noise_time = until
                seen = middle
        fresh = clock[THRESHOLD] * total_mass(tally)
        floor = real(earlier if earlier > 0.0 else fresh)
        # A field that depends on time is taken in the middle of the step that is expected.
        middle = t + 0.5 * min(_LONGER * taken, left) if VARYING else t
        used, state = expand(rank, size, used, floor, listed, middle, cells, due, p, q, frame)
        if state != REACHED:
            break
        seen = middle
        earlier = fresh
        dt = _longest_step(t, taken, cells, frame, clock)
        taken = dt
        last = dt >= left
        dt = left if last else dt
        step = real(dt)
        # What the next step needs is seen as mass moves, unless something comes in between.
        listed = not ANY_NOISE and not last and (since + 1) % prune_every != 0
        if CORNER:
            corner.move(rank, size, used, step, real(fresh), listed, cells, masses, p, q)
            p, q = q, p
        else:
            backward = (steps & 1) != 0
            for turn in range(DIMENSION):
                axis = DIMENSION - 1 - turn if backward else turn
                listing = listed and turn == DIMENSION - 1
                split.move(rank, size, used, axis, step, real(fresh), listing, cells, masses, p, q)
                p, q = q, p
        t = target if last else t + dt
        steps += 1
        since += 1
        peak = max(peak, used - 1)
        if since % prune_every == 0:
            used = drop(rank, size, used, t, cells, masses, p, q, clock)
            p, q = q, p
            ready = 0
            seen = t
        cell_steps += used - 1
        work += used
    if ANY_NOISE and state == REACHED and noise_time < t:
        floor = real(clock[THRESHOLD] * total_mass(tally))
        middle = 0.5 * (noise_time + t)
        used, state = diffuse(
            rank, size, used, t - noise_time, floor, middle, cells, masses, p, q, frame
        )
        noise_time = t if state == REACHED else noise_time
    meet(size, cells.meeting)
    for i in no_unroll(share(rank, size, 1, used)):
        masses.now[i] = p[i]
    if rank == 0:
        clock[TIME] = t
        clock[NOISE_TIME] = noise_time
        clock[FLOOR] = earlier
        clock[SEEN] = seen if VARYING else t
        clock[TAKEN] = 0.0 if state == REACHED else taken
        tally[USED] = used
        tally[READY] = ready if state == REACHED or state == PAUSED else 0
        tally[STATE] = state
        tally[STEPS] = steps
        tally[SINCE] = since
        tally[CELL_STEPS] = cell_steps
        tally[PEAK] = peak
    if state == REACHED:
        meet(size, cells.meeting)
        summarize(rank, size, used, cells, masses.now, frame)
