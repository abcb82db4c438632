"""A run of an ensemble of equations: by the runner of its method, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergode.core import devices
from ergode.core.arguments import check_apart
from ergode.core.calls import launch
from ergode.core.compiler.source import Precision
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import Layout, stacked
from ergode.trajectories.adaptive.outcome import Control, Outcome, chronological
from ergode.trajectories.adaptive.runner import Runner
from ergode.trajectories.arrays.runner import Runner as ArrayRunner
from ergode.trajectories.arrays.stiff import (
    follow_stiff,
    suited,
    watched_with_arrays,
    why_not_on,
    why_unwatched,
    with_arrays,
)
from ergode.trajectories.delays.history import InitialHistory
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.fixed.refinement import EqualSteps, Refinement
from ergode.trajectories.fixed.runner import Ensemble
from ergode.trajectories.methods import Choice, Method
from ergode.trajectories.steppers.noise import Paths

# A trajectory that needs more adaptive explicit steps than this may be stiff, or only long.  Steps
# that the cells of a history take are not counted: every method takes them.
EXPLICIT_STEPS = 100_000
# A trajectory that needs more implicit steps than this is long rather than stiff.
_STIFF_STEPS = EXPLICIT_STEPS // 4


class Problem(NamedTuple):
    """The problem: equations, values, times, device and options."""

    field: VectorField
    rows: Mapping[str, np.ndarray]  # values of every variable and parameter [trajectory]
    layout: Layout
    grid: np.ndarray
    history: InitialHistory
    device: devices.Device
    precision: Precision
    paths: Paths  # of noise
    show: bool  # whether to show progress


class Found(NamedTuple):
    """Results of all trajectories."""

    states: Any  # [time, variable, trajectory], on the device where results stay
    status: np.ndarray  # [trajectory]
    work: dict[str, Any]  # attributes of the result
    values: dict[str, np.ndarray]  # further results by name, swept dimensions first


def why_undivided(
    field: VectorField, rows: Mapping[str, np.ndarray], history: Any, chosen: Choice
) -> str:
    """Why trajectories are not divided: their steps or method depend on each other."""
    if history is not None:
        return "trajectories with a history are integrated together"
    for _, delay in field.delays:
        if isinstance(delay, str) and np.ptp(rows[delay]) > 0.0:
            return f"trajectories that differ in the delay '{delay}' share their steps"
    stiff = chosen.method if chosen.method.stiff else chosen.otherwise
    if stiff is not None and (field.arrays is not None or stiff.is_wide(field)):
        return (
            "stiff trajectories of arrays, or of more than 16 variables, share a matrix; name an "
            "explicit method"
        )
    return ""


def follow_together(problem: Problem, chosen: Choice, control: Control) -> Found:
    """Integrate with fixed steps (`fixed`)."""
    tableau, known = chosen.method.tableau, problem.history
    assert tableau is not None
    ensemble = Ensemble(
        problem.field, tableau, known.function, times=problem.grid, device=problem.device,
        precision=problem.precision, jumps=known.jumps, scheme=chosen.method.scheme,
        paths=problem.paths,
    )  # fmt: skip
    return _in_equal_steps(problem, ensemble, chosen, control)


def _in_equal_steps(
    problem: Problem, integrator: EqualSteps, chosen: Choice, control: Control
) -> Found:
    """Integrate with steps of one size, which are halved to meet a tolerance."""
    run = Refinement(
        problem.field, integrator, problem.rows, problem.layout.count, problem.grid, problem.show
    )
    out, status = (
        run.within(control.rtol, control.atol, chosen.order)
        if control.step is None
        else run.with_step(control.step)
    )
    return Found(out, status, {"step": run.step, "steps_taken": run.steps_taken}, {})


def follow_arrays(problem: Problem, chosen: Choice, control: Control, every_step: bool) -> Found:
    """Integrate variables that are arrays."""
    field, layout, precision = problem.field, problem.layout, problem.precision
    grid, count = problem.grid, layout.count
    launch.check_room(
        np.dtype(precision).itemsize * (grid.size + 1) * field.size * count,
        f"an array of states at {grid.size:,} times, for {count:,} trajectories,",
        "use fewer times or trajectories",
    )
    options: dict[str, Any] = {"times": grid, "device": problem.device, "precision": precision}
    options["history"] = problem.history.functions
    if chosen.is_fixed:
        # Step halving runs the kernel for fixed steps, once for every step size.
        equal = replace(control, step=control.step or 1.0)
        runner = ArrayRunner(field, chosen.method, equal, **options, paths=problem.paths)
        return _in_equal_steps(problem, runner, chosen, control)
    check_apart(grid, precision)
    if chosen.method.stiff:
        return follow_wide(problem, chosen, control, every_step)
    Outcome.check_room(grid.size, field.size, control, count, precision)
    if chosen.method.scheme:
        options["paths"] = problem.paths
    steps: dict[str, Any] = {}
    if control.step is not None:
        span = float(grid[-1] - grid[0])
        # No step is longer than a delay.
        taus = [float(problem.rows[tau].min()) for _, tau in field.delays if isinstance(tau, str)]
        steps = {"steps": plan_steps(span, min([control.step, *taus]), count, [], [])}
    initial, parameters = _columns(problem)
    otherwise = chosen.otherwise
    if otherwise is not None and why_unwatched(field, otherwise, control) is not None:
        otherwise = None
    work: dict[str, Any] = {}

    def run(control: Control) -> Outcome:
        most = control.max_steps if otherwise is None else min(control.max_steps, EXPLICIT_STEPS)
        runner = ArrayRunner(field, chosen.method, replace(control, max_steps=most), **options)
        outcome = runner.run(initial, parameters, show=problem.show, **steps)
        if otherwise is not None:
            slow = np.flatnonzero(_is_stiff(outcome))
            some = initial[:, slow], parameters[:, slow]
            method, why = suited(field, control, *some, grid, problem.device.target)
            number = slow.size
            if slow.size:
                number = _repeat(
                    outcome, slow, control,
                    lambda who, limits: _follow_stiff(
                        problem, method, limits, initial[:, who], parameters[:, who]
                    ),
                    lambda who, limits: ArrayRunner(field, chosen.method, limits, **options).run(
                        initial[:, who], parameters[:, who]
                    ),
                )  # fmt: skip
            work.update(stiff_method=method.name, stiff_trajectories=number, stiff_reason=why)
        return outcome

    found = _found(_logged(run, control, problem, every_step), control, layout)
    return found._replace(work=found.work | work)


def follow_long(problem: Problem, chosen: Choice, control: Control, every_step: bool) -> Found:
    """Integrate very many named variables by an explicit method, as one array."""
    if control.step is not None:
        problem.field.refuse_inputs("a run with steps of one size of more than 100 variables")
    field = with_arrays(problem.field, problem.grid)
    columns, _ = _columns(problem)
    rows = {**problem.rows, field.variables[0]: columns}
    control = watched_with_arrays(problem.field, control)
    return follow_arrays(problem._replace(field=field, rows=rows), chosen, control, every_step)


def follow_wide(problem: Problem, chosen: Choice, control: Control, every_step: bool) -> Found:
    """Integrate arrays, or many named variables, by an implicit method."""
    check_apart(problem.grid, problem.precision)
    chosen.method.refuse(why_unwatched(problem.field, chosen.method, control))
    columns = _columns(problem)

    def run(control: Control) -> Outcome:
        return _follow_stiff(problem, chosen.method, control, *columns)

    return _found(_logged(run, control, problem, every_step), control, problem.layout)


def _logged(
    run: Callable[[Control], Outcome], control: Control, problem: Problem, every_step: bool
) -> Outcome:
    """An outcome with every step where that is wanted; a first run counts the steps."""
    if not every_step:
        return run(control)
    outcome = run(replace(control, step_log=1))
    if (outcome.status == Status.NOT_RUN).any():
        outcome.step_log = outcome.step_log[:0]
        return outcome
    again = replace(control, step_log=int(outcome.taken.max()) + 1)
    if len(outcome.step_log) < again.step_log:
        sizes = problem.grid.size, problem.field.size
        Outcome.check_room(*sizes, again, problem.layout.count, problem.precision)
        outcome = run(again)
    return outcome


def _is_stiff(outcome: Outcome) -> np.ndarray:
    """Trajectories that an explicit method did not end."""
    return np.isin(outcome.status, (Status.TOO_MANY_STEPS, Status.STEP_TOO_SMALL))


def _repeat(
    outcome: Outcome,
    slow: np.ndarray,  # numbers of the trajectories to repeat
    control: Control,
    implicit: Callable[[np.ndarray, Control], Outcome],
    explicit: Callable[[np.ndarray, Control], Outcome],
) -> int:
    """Repeat trajectories by an implicit method, and long ones by the explicit method.

    A step of an implicit method costs several explicit ones.  Where it does not save most of the
    steps, accuracy limits the steps, not stability.  Returns how many trajectories the implicit
    method has integrated.
    """
    brief = replace(control, max_steps=min(control.max_steps, _STIFF_STEPS))
    outcome.put(slow, implicit(slow, brief))
    long = slow[outcome.status[slow] == Status.TOO_MANY_STEPS]
    if not long.size or control.max_steps <= _STIFF_STEPS:
        return slow.size
    outcome.put(long, explicit(long, control))
    left = long[_is_stiff(outcome)[long]]
    if left.size:
        outcome.put(left, implicit(left, control))
    return slow.size - long.size + left.size


def _follow_stiff(
    problem: Problem, method: Method, control: Control, initial: np.ndarray, parameters: np.ndarray
) -> Outcome:
    field = problem.field
    method.refuse(why_not_on(field, method, problem.device.target))
    if field.arrays is None:
        control = watched_with_arrays(field, control)
        field = with_arrays(field, problem.grid)
    return follow_stiff(
        field, method, control, initial, parameters, times=problem.grid, device=problem.device,
        precision=problem.precision, show=problem.show,
    )  # fmt: skip


def _columns(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Initial values and parameters [row, trajectory]."""
    names = problem.field.variables, problem.field.parameters
    initial, parameters = (
        stacked(problem.rows, some, problem.layout.count, problem.precision) for some in names
    )
    return initial, parameters


def _found(outcome: Outcome, control: Control, layout: Layout) -> Found:
    work = {"steps_taken": outcome.taken.sum(), "steps_rejected": outcome.rejected.sum()}
    return Found(outcome.states, outcome.status, work, _values(outcome, control, layout.shape))


def follow_apart(problem: Problem, chosen: Choice, control: Control, every_step: bool) -> Found:
    """Integrate with `adaptive`: adaptive steps, events, observables."""
    field, grid, count = problem.field, problem.grid, problem.layout.count
    sizes = grid.size, field.size
    check_apart(grid, problem.precision)
    Outcome.check_room(*sizes, control, count, problem.precision)
    initial, parameters = _columns(problem)
    otherwise = chosen.otherwise
    if otherwise is not None and otherwise.is_wide(field):
        otherwise = None if why_unwatched(field, otherwise, control) else otherwise
    patience = None if otherwise is None else EXPLICIT_STEPS
    options: dict[str, Any] = {
        "times": grid, "device": problem.device, "precision": problem.precision,
        "history": problem.history, "paths": problem.paths,
    }  # fmt: skip
    work: dict[str, Any] = {}

    def implicit(who: np.ndarray, limits: Control) -> Outcome:
        assert otherwise is not None
        if otherwise.is_wide(field):
            some = initial[:, who], parameters[:, who]
            return _follow_stiff(problem, otherwise, limits, *some)
        return repeated(otherwise, who, limits)

    def explicit(who: np.ndarray, limits: Control) -> Outcome:
        return repeated(chosen.method, who, limits)

    def repeated(method: Method, who: np.ndarray, limits: Control) -> Outcome:
        whole = replace(limits, max_steps=control.max_steps)  # with the cells of a history
        runner = Runner(field, method, whole, **options, patience=limits.max_steps)
        return runner.integrate(initial[:, who], parameters[:, who], who)

    def run(control: Control) -> Outcome:
        runner = Runner(field, chosen.method, control, **options, patience=patience)
        outcome = runner.integrate(initial, parameters, show=problem.show)
        if runner.widest:
            work["cell"] = runner.widest
        if otherwise is not None:
            failed = _is_stiff(outcome)
            slow = np.flatnonzero(failed)
            number = slow.size
            if runner.interrupted:
                outcome.leave_out(failed)
            elif slow.size:
                number = _repeat(outcome, slow, control, implicit, explicit)
            work.update(stiff_method=otherwise.name, stiff_trajectories=number)
        return outcome

    outcome = _logged(run, control, problem, every_step)
    found = _found(outcome, control, problem.layout)
    return found._replace(work=found.work | work)


def _values(outcome: Outcome, control: Control, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Results other than the states, with the swept dimensions first."""

    def swept(array: np.ndarray) -> np.ndarray:
        return np.moveaxis(array, -1, 0).reshape((*shape, *array.shape[:-1]))

    values = {"step_count": swept(outcome.taken), "rejected_count": swept(outcome.rejected)}
    if control.events:
        values["event_count"] = swept(outcome.hit_counts)
        if control.recorded:
            hits = chronological(outcome.hit_counts, outcome.hits)
            values["event_time"] = swept(hits[:, :, 0])
            values["event_state"] = swept(hits[:, :, 1:])
    if control.observables:
        values["observed"] = swept(outcome.observed)
    if outcome.step_log.size:
        log, n = outcome.step_log, outcome.states.shape[1]
        values["step_time"] = swept(log[:, 0])
        values["step_state"] = swept(log[:, 1 : 1 + n])
        if control.powers:
            values["step_size"] = swept(log[:, 1 + n])
            coefficients = log[:, 2 + n :].reshape(len(log), control.powers, n, -1)
            values["step_coefficient"] = swept(coefficients)
    return values
