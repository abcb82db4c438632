"""Arguments of the kernels of `adaptive`: inputs, outputs and storage."""

from __future__ import annotations

from typing import Any, NamedTuple


class Run(NamedTuple):
    """Inputs of a run."""

    times: Any  # real [time]: when states are saved
    initial: Any  # real [variable, trajectory]
    parameters: Any  # real [parameter, trajectory]
    sizes: Any  # real [trajectory]: first step, 0 to estimate it; every step, if fixed [time]
    frame: Any  # real [row, trajectory]: cell width, then least and largest value of each delay
    lags: Any  # int64 [delay]: each delay in cells; a shared mesh only
    breaks: Any  # uint8 [cell]: whether a shared cell begins at a breaking point
    given: Any  # real [slot, delayed variable, 2, trajectory]: sampled history
    jumps: Any  # real [jump, row]: jumps of the history, stored as breakpoints
    limit: Any  # real: largest interpolation error allowed, in units of the tolerance
    rtol: Any  # real
    atol: Any  # real; or a tuple [variable], where every variable has its own
    largest: Any  # real: largest step [time]
    since: Any  # real: events and observables before this time are ignored
    most: Any  # int64: largest number of steps, rejected ones included
    source: Any  # noise: (seed, increments per step, trajectories per path)
    offset: Any  # int64: number of the first trajectory, a key of its noise
    origin: Any  # real: first time
    last: Any  # real: last time
    period: Any  # int64: slots of the ring buffer


class Out(NamedTuple):
    """Outputs of a run."""

    states: Any  # real [time, variable, trajectory]
    hit_counts: Any  # int64 [event, trajectory]
    hits: Any  # real [event, hit, time and variables, trajectory]
    observed: Any  # real [observable, trajectory]
    status: Any  # uint8 [trajectory]
    taken: Any  # int64 [trajectory]: accepted steps
    rejected: Any  # int64 [trajectory]: rejected steps
    interpolation_errors: Any  # real [trajectory]: largest error, in units of the tolerance
    step_log: Any  # real [step, time and variables, trajectory]


class Storage(NamedTuple):
    """History buffers of a CUDA kernel, or of one that resumes (see `segments.StoredHistory`)."""

    ring: Any  # real [slot, delayed variable, 2, trajectory]
    breakpoints: Any  # real [breakpoint, row, trajectory]
    whole: Any  # int64 [row, trajectory]
    pieces: Any  # real [row, trajectory]
    kept: Any = ()  # what else lies between two launches, if the kernel resumes (see `resume`)
