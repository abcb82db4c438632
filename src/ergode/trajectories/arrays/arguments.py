"""Arguments of the kernels of `arrays`: inputs, outputs and workspace."""

from __future__ import annotations

from typing import Any, NamedTuple


class Run(NamedTuple):
    """Inputs of a run."""

    times: Any  # real [time]: when states are saved; with fixed steps, relative to the origin
    initial: Any  # real [unknown, trajectory]
    parameters: Any  # real [parameter, trajectory]
    sizes: Any  # real [trajectory]: size of fixed steps [time]
    counts: Any  # int64 [trajectory]: number of fixed steps
    begins: Any  # int64 [array + 1]: first unknown of each array, then the number of unknowns
    widths: Any  # int64 [array]: length of the last dimension
    shapes: Any  # int64 [array, dimension]
    constants: Any  # tuple of arrays
    knots: Any  # real [knot]: times that no step crosses
    source: Any  # noise: (seed, increments per step, trajectories per path)
    offset: Any  # int64: number of the first trajectory, a key of its noise
    # Of a method that chooses its stages (see `steppers.chebyshev`).
    stages: Any  # real [stage, 5]; of implicit methods the tableau (see `rosenbrock`)
    # int64 [choice]: the first stage of every choice, and the number of all; of implicit methods
    # the band of the matrix and the place of every unknown.
    stage_begins: Any
    limits: Any  # real [choice]: step times spectral radius up to which it is stable
    rtol: Any  # real
    atol: Any  # real; or real [unknown], where every unknown has its own
    largest: Any  # real: largest step [time]
    most: Any  # int64: largest number of steps, rejected ones included
    origin: Any  # real: first time
    last: Any  # real: last time
    since: Any  # real: events and observables before this time are ignored
    delays: Any  # `past.Delays`


class Out(NamedTuple):
    """Outputs of a run."""

    states: Any  # real [time, unknown, trajectory]
    status: Any  # uint8 [trajectory]
    taken: Any  # int64 [trajectory]: accepted steps
    rejected: Any  # int64 [trajectory]: rejected steps
    hit_counts: Any  # int64 [event, trajectory]
    hits: Any  # real [event, hit, 1 + unknown, trajectory]: time and state; a ring
    observed: Any  # real [observable, trajectory]
    step_log: Any  # real [step, row, trajectory]: see `step_log`


class Workspace(NamedTuple):
    """Workspace of a group.  With delays, the delayed values follow the unknowns of a state."""

    y: Any  # real [unknown]: state at the beginning of a step
    stage: Any  # real [3, unknown]: states of stages, and at the end of a step
    k: Any  # real [stage, unknown]: slopes of the stages, at the end of the step, of extra stages;
    # then amplitudes of the noise (see `noisy`)
    parts: Any  # these two as in `core.group.Group`
    words: Any
    g: Any  # real [function, 3, node]: watched functions at the nodes of a step, their slopes, and
    # further numbers (see `inside_step`)
    s: Any  # real: accumulators of observables
    past: Any  # `past.Past`
    own: Any  # real: numbers of a thread, of a multistep method (see `multistep`)
    kept: Any  # `group.Kept`, or () where all steps are in one launch
