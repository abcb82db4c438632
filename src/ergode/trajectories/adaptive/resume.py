"""Adaptive integration in several launches, between which the state can be kept.

On a shared mesh a launch ends at the end of a cell (`Kept.until`). Otherwise it ends after a number
of attempted steps (`Run.most`), in the middle of a cell. A trajectory that has then ended is not
touched again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ergode.core.calls import checkpoint
from ergode.core.compiler.language import option, real, unroll
from ergode.core.devices import Device
from ergode.trajectories.adaptive.arguments import Out, Run, Storage
from ergode.trajectories.adaptive.step import TOO_MANY_STEPS
from ergode.trajectories.delays.segments import CELLS, SHARED
from ergode.trajectories.steppers.equations import PLACES, VARIABLES
from ergode.trajectories.steppers.inside_step import EVENTS
from ergode.trajectories.steppers.noise import SCHEME
from ergode.trajectories.steppers.observing import SEEN
from ergode.trajectories.steppers.stepper import ADAPTS

RESUMES = option(False)
"""Whether a launch takes some of the steps, and leaves the state for the next one."""

STAGE, TRIED, ACCEPTED, CURSOR = range(4)
"""Rows of `Kept.counts`."""

NEW, UNDER_WAY, ENDED = range(3)
"""Values of STAGE."""

SINGLES = 6


class Kept(NamedTuple):
    """What lies between two launches, beside the histories."""

    until: Any  # int64: the cell of a shared mesh before which a launch ends
    cell: Any  # int64: and the cell with which it begins
    most: Any  # int64: largest number of steps of all launches
    rows: Any  # real [row, trajectory]: state, slope, event functions, accumulators, and SINGLES
    counts: Any  # int64 [row, trajectory]


def rows_of(variables: int, events: int, seen: int) -> int:
    """Number of rows of `Kept.rows`."""
    return 2 * variables + 2 * events + seen + SINGLES


# ---- of both targets


def stage_of(outcome, tried, most):
    """STAGE of a trajectory with this outcome of a launch."""
    if outcome == TOO_MANY_STEPS and tried < most and not SHARED:
        return UNDER_WAY
    return ENDED


# ---- CPU


def take_up(lane, me, run, lanes, storage):
    """Load what the last launch has left of a trajectory, after `lanes.load`."""
    rows, counts = storage.kept.rows, storage.kept.counts
    at = 0
    for block in (lanes.y, lanes.f):
        for i in unroll(range(VARIABLES)):
            block[i, lane] = rows[at + i, me]
        at += VARIABLES
    for e in unroll(range(EVENTS)):
        lanes.g[e, lane] = rows[at + 2 * e, me]
        lanes.met[e, lane] = rows[at + 2 * e + 1, me]
    at += 2 * EVENTS
    for j in unroll(range(SEEN)):
        lanes.s[j, lane] = rows[at + j, me]
    at += SEEN
    lanes.t[lane] = rows[at, me]
    lanes.h[lane] = rows[at + 1, me]
    lanes.previous[lane] = rows[at + 2, me]
    lanes.last_step_rejected[lane] = rows[at + 3, me]
    lanes.interpolation_error[lane] = rows[at + 4, me]
    lanes.goal[lane] = rows[at + 5, me]
    lanes.tried[lane] = real(counts[TRIED, me])
    lanes.kept_count[lane] = real(counts[ACCEPTED, me])
    cursor, times = counts[CURSOR, me], run.times
    lanes.cursor[lane] = cursor
    lanes.soonest[lane] = times[cursor] if cursor < times.size else 2.0 * abs(times[-1]) + 1.0
    _move_history(lane, me, lanes, storage, True)


def leave(lane, me, stage, lanes, storage):
    """Leave a trajectory to the next launch."""
    rows, counts = storage.kept.rows, storage.kept.counts
    at = 0
    for block in (lanes.y, lanes.f):
        for i in unroll(range(VARIABLES)):
            rows[at + i, me] = block[i, lane]
        at += VARIABLES
    for e in unroll(range(EVENTS)):
        rows[at + 2 * e, me] = lanes.g[e, lane]
        rows[at + 2 * e + 1, me] = lanes.met[e, lane]
    at += 2 * EVENTS
    for j in unroll(range(SEEN)):
        rows[at + j, me] = lanes.s[j, lane]
    at += SEEN
    rows[at, me] = lanes.t[lane]
    rows[at + 1, me] = lanes.h[lane]
    rows[at + 2, me] = lanes.previous[lane]
    rows[at + 3, me] = lanes.last_step_rejected[lane]
    rows[at + 4, me] = lanes.interpolation_error[lane]
    rows[at + 5, me] = lanes.goal[lane]
    counts[STAGE, me] = stage
    counts[TRIED, me] = np.int64(lanes.tried[lane])
    counts[ACCEPTED, me] = np.int64(lanes.kept_count[lane])
    counts[CURSOR, me] = lanes.cursor[lane]
    _move_history(lane, me, lanes, storage, False)


def _move_history(lane, me, lanes, storage, is_loaded):
    """Copy the history of a trajectory into a lane, or out of it."""
    if len(PLACES) > 0:
        _move(lanes.ring, lane, storage.ring, me, is_loaded)
    if CELLS and not SHARED:
        _move(lanes.whole, lane, storage.whole, me, is_loaded)
        if SCHEME > 0 and ADAPTS:
            _move(lanes.breakpoints[:1], lane, storage.breakpoints, me, is_loaded)
        if len(PLACES) > 0:
            _move(lanes.breakpoints, lane, storage.breakpoints, me, is_loaded)
            _move(lanes.pieces, lane, storage.pieces, me, is_loaded)


def _move(inside, lane, outside, me, is_loaded):
    """Copy all rows of an array [..., lane] from an array [..., trajectory], or back."""
    flat = inside.size // inside.shape[-1]
    here, there = (
        inside.reshape((flat, inside.shape[-1])),
        outside.reshape((flat, outside.shape[-1])),
    )
    for row in range(flat):
        if is_loaded:
            here[row, lane] = there[row, me]
        else:
            there[row, me] = here[row, lane]


# ---- host


def in_launches(
    device: Device,
    name: str,  # of the trajectories that are integrated together
    # Whether the trajectories share a mesh, and whether there are histories and noise.
    is_shared: bool,
    has_delays: bool,
    has_noise: bool,
    # On the device.
    run: Run,
    out: Out,
    storage: Storage,
    # ``launch(run, storage)`` continues, up to the limits in both.
    launch: Callable[[Run, Storage], None],
) -> None:
    """Integrate trajectories to their end."""
    kept = storage.kept
    arrays = {name: array for name, array in out._asdict().items() if array.size}
    arrays |= {"rows": kept.rows, "counts": kept.counts}
    del arrays["interpolation_errors"]  # they are in the rows
    if has_delays:
        arrays["ring"] = storage.ring
        if not is_shared:
            arrays["pieces"] = storage.pieces
    if not is_shared and (has_delays or has_noise):
        arrays |= {"whole": storage.whole, "breakpoints": storage.breakpoints}
    most, span = int(kept.most), float(run.last - run.origin)
    with checkpoint.single_run(name, device) as single:
        begin = int(single.state["begin"]) if is_shared and single.state is not None else 0
        single.restore(device, arrays)

        def state() -> dict[str, Any]:
            own = {"begin": begin} if is_shared else {}
            return own | checkpoint.state_of(device, arrays)

        while True:
            counts = device.get(kept.counts)
            is_open = counts[STAGE] != ENDED
            if not is_open.any():
                device.copy(kept.rows[kept.rows.shape[0] - 2], out.interpolation_errors)
                return
            steps = single.steps()
            if is_shared:
                until = begin + max(1, steps * max(1, begin) // (1 + int(counts[TRIED].max())))
                launch(run, storage._replace(kept=kept._replace(
                    cell=np.int64(begin), until=np.int64(until)
                )))  # fmt: skip
                begin = until
            else:
                limit = min(most, int(counts[TRIED, is_open].max()) + steps)
                launch(run._replace(most=np.int64(limit)), storage)
            at = device.get(kept.rows)[-SINGLES][is_open]
            single.boundary(state, float(at.min() - run.origin) / span if span > 0 else 1.0)
