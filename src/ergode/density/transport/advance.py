"""Steps of the density: grow, move, prune, until a time is reached.

A step grows the grid where there is mass to move, and moves the mass. The fastest cell limits the
step; the last step ends at the target. The grid is pruned at regular intervals, and rebuilt from
the keys of the cells that stay. The mass balance in the counters gives the total mass (loaded, less
pruned and lost): the threshold is scaled, and masses are never normalised. A killing rate acts half
a step before mass moves, and half a step after it.

The whole loop runs on the device, by a thread group (see `group`). Every thread computes the time
and the numbers of cells and steps for itself, and takes its share of the cells.
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import no_unroll, noinline_cpu, option, real
from ergode.core.group import accumulate, barrier, group_of, share
from ergode.density.grid.cells import (
    BEGAN,
    CELL_STEPS,
    CONTROLS,
    FLOOR,
    KILLED_MASS,
    LOADED_AT,
    NOISE_TIME,
    PART_RATE,
    PARTS,
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
    TIME,
    TO_PRUNE,
    UNDEFINED,
    USED,
    cells_of,
    is_undefined,
    mass_at_threshold,
    masses_of,
    units,
)
from ergode.density.grid.growth import build, expand
from ergode.density.grid.lattice import DIMENSION, KILLED, LOSSY, VARYING, frame_of
from ergode.density.grid.pruning import drop
from ergode.density.moments import forget, summarize
from ergode.density.transport import corner, split
from ergode.density.transport.diffusion import diffuse, longest, spread_most

CORNER = option(False)
"""Whether mass moves by corner transport, not by split transport."""

ANY_NOISE = option(False)
"""Whether noise acts along any dimension."""

# If the field depends on time: the largest ratio of a step to the last one, and the first step as a
# fraction of the time to the target.
_LONGER = np.float64(1.05)
_FIRST_STEP = np.float64(1 / 256)


def _longest_varying(t, taken, control):
    """Largest next step of a field that depends on time, whatever its rates are."""
    part = min(np.int64((t - control[BEGAN]) * control[PART_RATE]), np.int64(PARTS - 1))
    return min(_LONGER * taken, control[CONTROLS + part])


def _longest_step(t, taken, cells, frame, control):
    """Largest next step, after a step of length `taken`."""
    dt = np.float64(1.0) / np.float64(cells.fastest[0])
    if VARYING:
        dt = min(dt, _longest_varying(t, taken, control))
    if ANY_NOISE:
        dt = min(dt, longest(t - control[LOADED_AT], spread_most(cells, frame)))
    return dt


def advance(
    thread_rank, thread_count, first, budget, prune_every, resort_above, every_cells, every_masses,
    frames, controls,
):  # fmt: skip
    """Take steps until the target time, or until `budget` cell-steps are done: a kernel.

    At the target the grid is built, so that cells have neighbours, and the density is summarized.
    """
    which, group = group_of(thread_rank, thread_count, first, every_cells.barrier_words)
    cells = cells_of(every_cells, which)
    masses = masses_of(every_masses, which)
    frame = frame_of(frames, which)
    control = controls[which]
    counters = cells.counters
    p, q = masses.now, masses.next
    used, ready, steps, since, cell_steps, peak = _counts_of(counters)
    t, noise_time, earlier, taken, seen = _times_of(control)
    target = control[TARGET]
    to_prune = control[TO_PRUNE] != 0.0
    is_stuck = t < target and ready != 0 and not to_prune and is_undefined(cells)
    state = UNDEFINED if is_stuck else REACHED
    listed = False
    work = np.int64(0)
    barrier(group)  # no thread writes before all have read
    if group.rank == 0:
        counters[STATE] = REACHED
        control[TO_PRUNE] = 0.0
        forget(counters)
    if to_prune:
        used = drop(group, used, t, cells, masses, p, q, control)
        p, q = q, p
        ready = 0
        seen = t
        earlier = np.float64(0.0)
    while state == REACHED and (t < target or ready == 0):
        if work > budget or (ready == 0 and work > 0 and used > resort_above):
            state = PAUSED
            break
        if ready == 0:
            build(group, used, seen, cells, frame)
            ready = 1
            if t >= target:
                break
            if is_undefined(cells):
                state = UNDEFINED
                break
        used, state, (t, noise_time, earlier, taken, seen) = _prepare(
            group, used, listed, (t, noise_time, earlier, taken, seen), cells,
            masses, p, q, frame, control,
        )  # fmt: skip
        if state != REACHED:
            break
        if LOSSY:
            barrier(group)  # all have read the total mass
        last = taken >= target - t
        dt = target - t if last else taken
        steps += 1
        since += 1
        # Cells that need neighbours are listed as mass moves, unless noise or pruning comes first.
        listed = not ANY_NOISE and not last and since % prune_every != 0
        if KILLED:
            fade(group, used, real(0.5 * dt), cells, p)
        _transport(
            group, used, real(dt), real(earlier), listed, (steps & 1) == 0,
            cells, masses, p, q,
        )  # fmt: skip
        if CORNER or DIMENSION & 1 != 0:
            p, q = q, p
        if KILLED:
            fade(group, used, real(0.5 * dt), cells, p)
        t = target if last else t + dt
        peak = max(peak, used - 1)
        if since % prune_every == 0:
            used = drop(group, used, t, cells, masses, p, q, control)
            p, q = q, p
            ready = 0
            seen = t
        cell_steps += used - 1
        work += used
    if ANY_NOISE and state == REACHED and noise_time < t:
        floor = real(mass_at_threshold(counters, control))
        used, state = diffuse(
            group, used, t - noise_time, floor, 0.5 * (noise_time + t), cells,
            masses, p, q, frame,
        )  # fmt: skip
        noise_time = t if state == REACHED else noise_time
    _finish(
        group, state, (used, ready, steps, since, cell_steps, peak),
        (t, noise_time, earlier, taken, seen), cells, masses, p, frame, control,
    )  # fmt: skip


def _counts_of(counters):
    """Number of cells, whether the grid is built, and the counts of steps."""
    return (
        counters[USED], counters[READY], counters[STEPS], counters[SINCE], counters[CELL_STEPS],
        counters[PEAK],
    )  # fmt: skip


def _times_of(control):
    """Time, time of noise, mass at the threshold, length of a step and time of rates."""
    t = control[TIME]
    taken = control[TAKEN] if control[TAKEN] > 0.0 else (control[TARGET] - t) * _FIRST_STEP
    return t, control[NOISE_TIME], control[FLOOR], taken, control[SEEN]


@noinline_cpu
def _prepare(
    group, used, listed, times, cells, masses, p, q, frame, control
):  # fmt: skip
    """Let noise act up to the middle of the next step, and grow the grid.

    `times` are those of `_times_of`. Returns the number of cells, a value of STATE, and `times`
    with the mass at the threshold and the length of the next step.
    """
    t, noise_time, earlier, taken, seen = times
    if ANY_NOISE:
        used, state, noise_time, seen = _diffuse_ahead(
            group, used, times, cells, masses, p, q, frame, control
        )
        if state != REACHED:
            return used, state, (t, noise_time, earlier, taken, seen)
    fresh = mass_at_threshold(cells.counters, control)
    # The last step listed the cells that need neighbours, with its own floor.
    floor = real(earlier if earlier > 0.0 else fresh)
    # A field that depends on time is evaluated in the middle of the expected step.
    middle = t
    if VARYING:
        middle = t + 0.5 * min(_longest_varying(t, taken, control), control[TARGET] - t)
    used, state = expand(group, used, floor, listed, middle, cells, masses.key, p, q, frame)
    if state != REACHED:
        return used, state, (t, noise_time, earlier, taken, seen)
    taken = _longest_step(t, taken, cells, frame, control)
    return used, state, (t, noise_time, fresh, taken, middle)


def _diffuse_ahead(
    group, used, times, cells, masses, p, q, frame, control
):  # fmt: skip
    """Let noise act up to the middle of the next step.

    Returns the number of cells, a value of STATE, the time up to which noise has acted, and the
    time at which rates were last computed.
    """
    t, noise_time, earlier, taken, seen = times
    state = REACHED
    fresh = mass_at_threshold(cells.counters, control)
    floor = real(earlier if earlier > 0.0 else fresh)
    # Rates of a field that depends on time may be of an earlier time, so they bound no step.
    if VARYING:
        ahead = _longest_varying(t, taken, control)
    else:
        ahead = _longest_step(t, taken, cells, frame, control)
    until = t + 0.5 * min(ahead, control[TARGET] - t)
    if until > noise_time:
        middle = 0.5 * (noise_time + until)
        used, state = diffuse(
            group, used, until - noise_time, floor, middle, cells, masses, p, q,
            frame,
        )  # fmt: skip
        if state == REACHED:
            noise_time = until
            seen = middle
    return used, state, noise_time, seen


def _transport(
    group, used, step, floor, listed, backward, cells, masses, p, q
):  # fmt: skip
    """Move the mass of all cells by one step; the result is in `q` after an odd number of sweeps.

    Corner transport is one sweep; split transport sweeps each dimension, `backward` or forward.
    """
    if CORNER:
        corner.move(group, used, step, floor, listed, cells, masses, p, q)
    else:
        for turn in range(DIMENSION):
            axis = DIMENSION - 1 - turn if backward else turn
            listing = listed and turn == DIMENSION - 1
            split.move(group, used, axis, step, floor, listing, cells, masses, p, q)
            p, q = q, p


def _finish(
    group, state, counts, times, cells, masses, p, frame, control
):  # fmt: skip
    """Store masses, counts and times for the next call; summarize if the target is reached."""
    used, ready, steps, since, cell_steps, peak = counts
    t, noise_time, earlier, taken, seen = times
    counters = cells.counters
    barrier(group)
    for i in no_unroll(share(group, 1, used)):
        masses.now[i] = p[i]
    if group.rank == 0:
        control[TIME] = t
        control[NOISE_TIME] = noise_time
        control[FLOOR] = earlier
        control[SEEN] = seen if VARYING else t
        control[TAKEN] = 0.0 if state == REACHED else taken
        counters[USED] = used
        counters[READY] = ready if state == REACHED or state == PAUSED else 0
        counters[STATE] = state
        counters[STEPS] = steps
        counters[SINCE] = since
        counters[CELL_STEPS] = cell_steps
        counters[PEAK] = peak
    if state == REACHED:
        barrier(group)
        summarize(group, used, cells, masses.now, frame)


def fade(group, used, step, cells, p):
    """Let the killing rate act on `p`; count the mass that vanishes."""
    killed = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        mass = p[i]
        left = mass * math.exp(-step * cells.decay[i])
        killed += units(mass) - units(left)
        p[i] = left
    accumulate(group, cells.counters, KILLED_MASS, killed)
    barrier(group)
