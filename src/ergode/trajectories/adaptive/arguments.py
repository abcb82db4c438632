"""What the kernels of `adaptive` are told, and what they fill."""

from __future__ import annotations

from typing import Any, NamedTuple


class Run(NamedTuple):
    """What all trajectories of a run have in common."""

    times: Any  # real [time]: when to save states
    initial: Any  # real [variable, trajectory]
    parameters: Any  # real [parameter, trajectory]
    sizes: Any  # real [trajectory]: of the first step, if above zero; of all, if steps are equal
    frame: Any  # real [width of a cell, and for each delay its range, trajectory]
    lags: Any  # int64 [delay]: in cells that all trajectories share
    breaks: Any  # uint8 [cell]: whether the solution breaks where a shared cell begins
    given: Any  # real [slot, delayed variable, 2, trajectory]: points of the history
    jumps: Any  # real [jump, row]: those of the history, as breakpoints
    limit: Any  # real: interpolation error that is allowed
    rtol: Any  # real
    atol: Any  # real
    largest: Any  # real: largest step [time]
    since: Any  # real: time from which events and observables count
    most: Any  # int64: most steps
    source: Any  # of the noise: its seed, and increments of a step
    offset: Any  # int64: number of the first trajectory, for its noise
    origin: Any  # real: first time
    last: Any  # real: last time
    period: Any  # int64: slots of the ring


class Out(NamedTuple):
    """What became of trajectories."""

    states: Any  # real [time, variable, trajectory]
    hit_counts: Any  # int64 [event, trajectory]
    hits: Any  # real [event, hit, time and variables, trajectory]
    observed: Any  # real [observable, trajectory]
    status: Any  # uint8 [trajectory]
    taken: Any  # int64 [trajectory]: steps that were kept
    rejected: Any  # int64 [trajectory]: steps that were not
    interpolation_errors: Any  # real [trajectory]: the largest, in units of the tolerance
    step_log: Any  # real [step, time and variables, trajectory]


class Storage(NamedTuple):
    """Where a CUDA kernel keeps histories (see `segments.StoredHistory`)."""

    ring: Any  # real [slot, delayed variable, 2, trajectory]
    breakpoints: Any  # real [breakpoint, row, trajectory]
    whole: Any  # int64 [row, trajectory]
    pieces: Any  # real [row, trajectory]
