"""Ensembles of differential equations: from a vector field and a sweep to labelled results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, launch, results
from ergode.core.arguments import (
    check_range,
    check_switch,
    choice,
    integer,
    number,
    sequence,
    time_grid,
)
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import PlanError
from ergode.core.formulation import COMPILE, Compile, Formulation
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import (
    REPLICATE,
    TRAJECTORY,
    Layout,
    lay_out,
    lay_out_arrays,
    refuse_reserved,
    replicated,
    stacked,
)
from ergode.trajectories.adaptive.outcome import Control, Outcome, chronological
from ergode.trajectories.adaptive.runner import Runner
from ergode.trajectories.arrays.runner import Runner as ArrayRunner
from ergode.trajectories.delays.history import InitialHistory, initial_history
from ergode.trajectories.delays.mesh import have_common_step
from ergode.trajectories.events import ZeroCrossing, check_events
from ergode.trajectories.fixed.refinement import Refinement
from ergode.trajectories.fixed.runner import Ensemble
from ergode.trajectories.methods import Choice, MethodName, choose
from ergode.trajectories.observables import check_observables

if TYPE_CHECKING:
    import xarray

_RTOL, _ATOL = 1e-6, 1e-9
# Steps of an explicit method, chosen by itself, after which a trajectory counts as stiff.
_EXPLICIT_STEPS = 100_000

results.register(
    "trajectories",
    "states",
    [
        Variable("state", (SWEPT, "time", "variable"), "floating", "1", "state at a time"),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
        Variable("step_count", (SWEPT,), "integer", "1", "steps that were taken", True),
        Variable("rejected_count", (SWEPT,), "integer", "1", "steps that were tried in vain", True),
        Variable("event_count", (SWEPT, "event"), "number", "1", "times an event happened", True),
        Variable(
            "event_time",
            (SWEPT, "event", "hit"),
            "floating",
            "time",
            "when, of the last hits",
            True,
        ),
        Variable(
            "event_state",
            (SWEPT, "event", "hit", "variable"),
            "floating",
            "1",
            "state at the last hits",
            True,
        ),
        Variable(
            "observed", (SWEPT, "observable"), "floating", "1", "value of an observable", True
        ),
        Variable("step_time", (SWEPT, "step"), "floating", "time", "end of every step", True),
        Variable("step_state", (SWEPT, "step", "variable"), "floating", "1", "state there", True),
    ],
)

results.register(
    "trajectories",
    "arrays",  # with a variable for each of the model's, by its name
    [
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
        Variable("step_count", (SWEPT,), "integer", "1", "steps that were taken", True),
        Variable("rejected_count", (SWEPT,), "integer", "1", "steps that were tried in vain", True),
    ],
    coords=["time"],
)


def integrate(
    field: VectorField,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    history: Any = None,
    method: MethodName = "auto",
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    events: Sequence[ZeroCrossing] = (),
    record: int = 1,
    observables: Sequence[Any] = (),
    observe_from: float | None = None,
    max_step: float | None = None,
    max_steps: int = 1_000_000,
    every_step: bool = False,
    replicates: int | None = None,
    seed: int = 0,
    noise_per_step: int = 1,
    device: str | devices.Device = "auto",
    precision: Precision = "float64",
    compile: Compile = "auto",  # noqa: A002
    progress: bool = False,
) -> xarray.Dataset:
    """Integrate ordinary, delay or stochastic differential equations for many values at once.

    Parameters
    ----------
    field : VectorField
        The equations.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [time]. The integration begins at ``times[0]``
        and ends at ``times[-1]``. Between two steps the state is interpolated by a cubic.
    initial : mapping of str to float or array_like, shape [trajectory_count]
        State at ``times[0]`` by name of the variable. Where variables are arrays: a number, an
        array of the variable's shape, or one for every trajectory, shape [trajectory_count, ...].
    parameters : mapping of str to float or array_like, shape [trajectory_count]
        Parameters by name. Arrays, here and in `initial`, have one length and run side by side
        along the dim ``trajectory``; in `ergode.grid` every array is crossed with every other
        and becomes a dim of its own.
    history : function, History or DataArray, optional
        ``history(t) -> tuple`` of all variables at times up to ``times[0]``, compiled like the
        field. Its last value may differ from the initial state. An `ergode.trajectories.History`
        may have jumps, or consist of samples. A DataArray with the dims time and variable, such as
        the states of another run, is taken as samples. If not given, the history is constant.
    method : str
        Without `step`, ``"auto"`` is ``"tsit5"``, and ``"rodas5p"`` for trajectories that would
        need more than 100,000 steps; with `step` it is ``"rk4"``. With noise it is the method of
        highest order, and `step` must be given. ``attrs["method_reason"]`` says why a method was
        chosen. Methods for stiff equations take up to 16 variables. Their Jacobian is derived from
        the function by SymPy, or approximated by differences where SymPy cannot. The history is
        read at order 6 by explicit methods of order 5 and 8, else at order 4.

        - ``"euler"``: Euler's method, of order 1; for comparison
        - ``"rk4"``: the classical Runge-Kutta method, of order 4; for the fastest steps of one size
        - ``"tsit5"``: Tsitouras' explicit pair, of order 5; for equations that are not stiff
        - ``"dopri5"``: Dormand and Prince's explicit pair, of order 5; for comparison with other
          codes
        - ``"dop853"``: Dormand and Prince's explicit method of order 8; for equations that are not
          stiff, to 8 digits and more
        - ``"rosenbrock23"``: a Rosenbrock method of order 2; for stiff equations, to 2 or 3 digits
        - ``"rodas5p"``: a Rosenbrock method of order 5, with one Jacobian a step; for stiff
          equations
        - ``"kvaerno5"``: a diagonally implicit Runge-Kutta method of order 5, which solves its
          stages by Newton's method; for stiff and strongly nonlinear equations
        - ``"euler-maruyama"``: Euler's method with noise, of strong order 1/2; for any noise
        - ``"milstein"``: Milstein's method, of strong order 1; for noise of a variable that depends
          on no other variable and on no delayed value
        - ``"sra1"``: Roessler's method, of strong order 3/2; for noise that does not depend on the
          state
    step : float, optional
        Largest size of a fixed step. A trajectory takes the largest step up to this that divides
        all its delays; without delays, one that divides ``times[-1] - times[0]``. If not given,
        every trajectory chooses its own steps by the tolerances.
    rtol, atol : float, optional
        Without `step`; 1e-6 and 1e-9 if not given. `rtol` is at least four times the relative
        spacing of numbers of the `precision` (8.9e-16, in float32 4.8e-7). Methods that estimate
        the error of a step (all but ``"rk4"`` and ``"euler"``) keep it within
        ``atol + rtol * abs(state)``, root mean square over the variables; with delays also the
        interpolation error of the history. For the others, steps are halved until the estimated
        global error at every time is within that: the difference between the last two step sizes
        over ``2^order - 1``. Trajectories that do not get there have the status ``INACCURATE``.
    events : sequence of ZeroCrossing
        What to count, record, act on or stop at. Two crossings within one step are found if the
        event's function is close to a polynomial there, as for thresholds of variables. If the
        function changes faster than the state, give `max_step` or a smaller `step`.
    record : int
        Number of last hits of every event to keep, with time and state. 0 only counts.
    observables : sequence of Maximum, Minimum, Mean, TimeAbove or Observable
        Numbers to gather on the way.
    observe_from : float, optional
        Time before which hits and observables do not count, such as the end of a transient.
    max_step : float, optional
        Largest step that the tolerances may choose [time]. For an event whose function changes
        faster than the state, choose less than half the time between two crossings.
    max_steps : int
        Steps, rejected ones included, after which a trajectory gets the status
        ``TOO_MANY_STEPS``.
    every_step : bool
        Keep time and state at the end of every step as well.
    replicates : int, optional
        Number of runs with different noise, along a last swept dim ``replicate``.
    seed : int
        Of the noise: a trajectory's is a function of the seed and its place in the sweep.
    noise_per_step : int
        Increments of noise that are summed in a step, at most 64: with half the step and half of
        this the noise follows the same path.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    precision : {"float32", "float64"}
        Type of the state and all arithmetic.
    compile : {"auto", "now", "never"}
        When a CPU compiles the field, which takes seconds. ``"never"`` runs it as a program, step
        by step, 10 to 30 times slower; the kernel that does so is kept on disk for any field
        of as many variables. ``"auto"`` begins with the program, and compiles where that is
        sooner done, or has been done before. Results are the same to the last bit. Fields with
        noise, events, `history` or delays that depend on the state, observables of your own,
        methods for stiff equations and fields that are not plain arithmetic are always compiled,
        and so is everything on a GPU.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        state(<swept dims>, time, variable) and status(<swept dims>); where steps differ
        step_count and rejected_count(<swept dims>); with events event_count(<swept dims>, event)
        and, in the order they happened, event_time(<swept dims>, event, hit) and
        event_state(<swept dims>, event, hit, variable); with observables observed(<swept dims>,
        observable); if every step is kept step_time(<swept dims>, step) and step_state(<swept
        dims>, step, variable), NaN after a trajectory's last. Where variables are arrays, each is
        a variable of the result, with its own dims after time. ``attrs`` say which version, method,
        device and model they come from, why this method, and how much work it was.

    Raises
    ------
    ModelError
        A value is missing, unknown or not finite, or a delay is not positive.
    PlanError
        The run is not possible as asked: method, step, memory.

    Warns
    -----
    InterruptionWarning
        The run was interrupted (Ctrl-C): trajectories that were not reached are NaN, with the
        status ``NOT_RUN``.

    References
    ----------
    E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed.
    (1993), chapters II.1, II.4 (eq. 4.4, the estimate), II.6 and II.17.

    Examples
    --------
    >>> import ergode
    >>> def logistic(t, y, yd, p):
    ...     return (y[0] * (p[0] - yd[0]),)
    >>> field = ergode.VectorField(
    ...     logistic, variables=["y"], parameters=["growth", "tau"], delays=[("y", "tau")]
    ... )
    >>> result = ergode.trajectories.integrate(
    ...     field, times=range(11), initial={"y": 0.5}, step=0.05, device="cpu",
    ...     parameters=ergode.grid(growth=[0.5, 1.0, 1.5], tau=1.0),
    ... )
    >>> dict(result.sizes)
    {'growth': 3, 'time': 11, 'variable': 1}
    """
    check_field(field)
    stopwatch = Stopwatch()
    grid = time_grid(times)
    choice("precision", precision, PRECISIONS)
    choice("compile", compile, COMPILE)
    rtol, atol = check_tolerances(rtol, atol, step, precision)
    _check_steps(step, max_step)
    check_switch("integrate", "every_step", every_step)
    events = tuple(sequence("events", events, "ZeroCrossing"))
    observables = tuple(sequence("observables", observables, "observables"))
    if field.arrays is None:  # else no method has them
        check_events(events, field)
        check_observables(observables, field)
    layout = _layout(field, initial, {} if parameters is None else parameters, grid)
    if replicates is not None:
        layout = replicated(layout, integer("replicates", replicates, 1, 2**31 - 1))
    rows = {name: layout.rows[name] for name in (*field.variables, *field.parameters)}
    check_range({**rows, "times": grid}, precision)
    if history is not None:
        field.refuse_arrays("history")
    known = initial_history(field, history, float(grid[0]), rows, layout.count)
    delays = [delay for _, delay in field.delays if isinstance(delay, str)]
    common = have_common_step(delays, [rows[delay] for delay in delays])
    chosen = choose(
        field, method, step, watched=bool(events or observables or every_step),
        free=not common or known.sampled or known.breakpoints.size > 0,
    )  # fmt: skip
    control = Control(
        rtol=float(rtol),
        atol=float(atol),
        step=None if step is None else float(step),
        max_step=np.inf if max_step is None else float(max_step),
        max_steps=integer("max_steps", max_steps, 1, 2**53),
        observe_from=-np.inf if observe_from is None else number("observe_from", observe_from),
        events=events,
        observables=observables,
        recorded=integer("record", record, 0, 2**31 - 1),
    )
    problem = _Problem(
        field, rows, layout, grid, known, devices.resolve(device), precision,
        integer("noise_per_step", noise_per_step, 1, 64), integer("seed", seed, 0, 2**64 - 1),
        compile, progress,
    )  # fmt: skip
    attrs = {} if replicates is None else {"replicates": replicates, "seed": seed}
    with launch.Interruptible("trajectories", "were integrated") as run:
        if field.arrays is not None:
            found = _follow_arrays(problem, chosen, control)
        elif chosen.is_fixed:
            found = _follow_together(problem, chosen, control)
        else:
            found = _follow_apart(problem, chosen, control, every_step)
        run.ends_with(found.status)
        return _dataset(problem, chosen, control, found, stopwatch, attrs)


def _layout(
    field: VectorField, initial: Mapping[str, Any], parameters: Mapping[str, Any], grid: np.ndarray
) -> Layout:
    """The values of every trajectory."""
    if field.arrays is None:
        return lay_out(
            {"initial": field.variables, "parameters": field.parameters},
            {"initial": initial, "parameters": parameters},
            reserved=results.names("trajectories", "states") | {REPLICATE},
        )
    field.arrays.check_times(grid)
    shapes = dict(zip(field.variables, field.arrays.shapes, strict=True))
    reserved = results.names("trajectories", "arrays") | {REPLICATE, TRAJECTORY}
    refuse_reserved(initial, reserved, numbers=True)
    dims = {dim for dims in field.arrays.dims for dim in dims}
    return lay_out_arrays(shapes, initial, field.parameters, parameters, reserved=reserved | dims)


class _Problem(NamedTuple):
    """What is to be integrated, and where."""

    field: VectorField
    rows: Mapping[str, np.ndarray]  # values of every variable and parameter [trajectory]
    layout: Layout
    grid: np.ndarray
    history: InitialHistory
    device: devices.Device
    precision: Precision
    noise_substeps: int
    seed: int
    compile: Compile
    show: bool  # progress


class _Found(NamedTuple):
    """What became of all trajectories."""

    states: np.ndarray  # [time, variable, trajectory]
    status: np.ndarray  # [trajectory]
    work: dict[str, Any]  # attributes of the result
    values: dict[str, np.ndarray]  # by name of the result, swept dimensions first


def _check_steps(step: float | None, max_step: float | None) -> None:
    """Refuse steps that are not positive, and a bound of steps that are all of one size."""
    for name, value in {"step": step, "max_step": max_step}.items():
        if value is not None:
            number(name, value, above=0)
    if step is not None and max_step is not None:
        raise PlanError(
            f"step is {step!r} and max_step {max_step!r}; give a step, or a bound of the "
            "steps that the tolerances choose"
        )


def _method_attributes(chosen: Choice, work: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Which methods were used, and why."""
    used, reason = chosen.method.name, chosen.reason
    if work.get("stiff_trajectories"):
        mixed = work["stiff_trajectories"] < count
        stiff = work["stiff_method"]
        used = f"{used}, {stiff}" if mixed else stiff
        reason = (
            f"{work['stiff_trajectories']} of {count} trajectories are stiff: "
            f"'{chosen.method.name}' did not end within {_EXPLICIT_STEPS:,} steps"
        )
    return {"method": used, "method_reason": reason}


def _dataset(
    problem: _Problem, chosen: Choice, control: Control, found: _Found, stopwatch: Stopwatch,
    more: Mapping[str, Any],
) -> xarray.Dataset:  # fmt: skip
    """What was found, with labels; `more` are further attributes."""
    field, layout, grid = problem.field, problem.layout, problem.grid
    attrs = results.provenance(
        stopwatch,
        engine="trajectories",
        **_method_attributes(chosen, found.work, layout.count),
        order=chosen.order,
        device=problem.device.name,
        device_model=problem.device.model,
        device_reason=problem.device.reason,
        precision=problem.precision,
        trajectories=layout.count,
        model_digest=field.digest,
        **found.work,
        **more,
        interrupted=int(bool((found.status == Status.NOT_RUN).any())),
    )
    if control.step is None:
        attrs.update(rtol=control.rtol, atol=control.atol)
    if field.arrays is not None:
        return _dataset_of_arrays(problem, found, attrs)
    coords = {"time": grid, "variable": list(field.variables), **layout.coords}
    if control.events:
        coords["event"] = [event.name for event in control.events]
    if control.observables:
        coords["observable"] = [one.name for one in control.observables]
    shape = (*layout.shape, grid.size, len(field.variables))
    values = found.values
    values["state"] = np.moveaxis(found.states, 2, 0).reshape(shape)
    values["status"] = found.status.reshape(layout.shape)
    _leave_out_failed(values)
    return results.dataset(
        "trajectories", "states", values, coords=coords, attrs=attrs, swept=layout.dims,
        computed_rows=_computed_rows(values["state"]),
    )  # fmt: skip


def _dataset_of_arrays(
    problem: _Problem, found: _Found, attrs: Mapping[str, Any]
) -> xarray.Dataset:
    """What was found of variables that are arrays."""
    arrays, layout = problem.field.arrays, problem.layout
    assert arrays is not None
    states = np.moveaxis(found.states, 2, 0).reshape(*layout.shape, problem.grid.size, -1)
    views = dict(zip(arrays.names, arrays.views(states), strict=True))
    own = [
        Variable(name, (SWEPT, "time", *dims), "floating", "1", "state at a time")
        for name, dims in zip(arrays.names, arrays.dims, strict=True)
    ]
    return results.dataset(
        "trajectories", "arrays", {**found.values, **views,
                                   "status": found.status.reshape(layout.shape)},
        coords={"time": problem.grid, **layout.coords}, attrs=attrs, swept=layout.dims,
        computed_rows=_computed_rows(states), own=own,
    )  # fmt: skip


def _computed_rows(states: np.ndarray) -> np.ndarray:
    """How many times of the grid each trajectory reached with finite states."""
    rows = np.full(states.shape[:-2], states.shape[-2])
    if not np.isfinite(states).all():
        missing = ~np.isfinite(states).all(axis=-1)
        rows = np.where(missing.any(-1), missing.argmax(-1), rows)
    return rows


def _leave_out_failed(values: dict[str, np.ndarray]) -> None:
    """Make NaN of what is counted and observed over a whole run, where it was not followed."""
    status = values["status"]
    failed = np.isin(status, [one for one in Status if one.is_error and one != Status.INACCURATE])
    for name in ("event_count", "observed"):
        if name in values and failed.any():
            values[name] = np.where(failed[..., None], np.nan, values[name])


def _follow_together(problem: _Problem, chosen: Choice, control: Control) -> _Found:
    """Integrate with steps of one size, side by side."""
    tableau, known = chosen.method.tableau, problem.history
    assert tableau is not None
    ensemble = Ensemble(
        problem.field, tableau, known.function, times=problem.grid, device=problem.device,
        precision=problem.precision, jumps=known.jumps, scheme=chosen.method.scheme,
        noise_substeps=problem.noise_substeps, seed=problem.seed, when=problem.compile,
    )  # fmt: skip
    run = Refinement(
        problem.field, ensemble, problem.rows, problem.layout.count, problem.grid, problem.show
    )
    out, status = (
        run.within(control.rtol, control.atol, chosen.order)
        if control.step is None
        else run.with_step(control.step)
    )
    work = {"step": run.step, "steps_taken": run.steps_taken}
    return _Found(out, status, work | _equations(ensemble.formulation), {})


def _follow_arrays(problem: _Problem, chosen: Choice, control: Control) -> _Found:
    """Integrate variables that are arrays."""
    field, layout, precision = problem.field, problem.layout, problem.precision
    grid, count = problem.grid, layout.count
    launch.check_room(
        np.dtype(precision).itemsize * (grid.size + 1) * field.size * count,
        f"an array of states at {grid.size:,} times, for {count:,} trajectories,",
        "use fewer times or trajectories",
    )
    options: dict[str, Any] = {"times": grid, "device": problem.device, "precision": precision}
    if chosen.is_fixed:
        # Steps that are halved until they do are steps of one size, each time.
        equal = replace(control, step=control.step or 1.0)
        runner = ArrayRunner(field, chosen.method, equal, **options)
        run = Refinement(field, runner, problem.rows, count, grid, problem.show)
        out, status = (
            run.within(control.rtol, control.atol, chosen.order)
            if control.step is None
            else run.with_step(control.step)
        )
        return _Found(out, status, {"step": run.step, "steps_taken": run.steps_taken}, {})
    runner = ArrayRunner(field, chosen.method, control, **options)
    initial, parameters = (
        stacked(problem.rows, names, count, precision)
        for names in (field.variables, field.parameters)
    )
    outcome = runner.run(initial, parameters, show=problem.show)
    work = {"steps_taken": outcome.taken.sum(), "steps_rejected": outcome.rejected.sum()}
    return _Found(outcome.states, outcome.status, work, _values(outcome, control, layout.shape))


def _equations(*used: Formulation) -> dict[str, str]:
    """The attribute that says what the equations were: a program, compiled, or both in turn."""
    names = dict.fromkeys(name for one in used for name in one.used)
    return {"equations": ", ".join(names)} if names else {}


def _follow_apart(problem: _Problem, chosen: Choice, control: Control, every_step: bool) -> _Found:
    """Integrate with steps of the trajectories' own, or with events and observables."""
    field, grid, count = problem.field, problem.grid, problem.layout.count
    names = field.variables, field.parameters
    sizes = grid.size, field.size
    Outcome.check_room(*sizes, control, count, problem.precision)
    initial, parameters = (stacked(problem.rows, some, count, problem.precision) for some in names)
    first = replace(control, step_log=int(every_step))
    if chosen.otherwise is not None:
        first = replace(first, max_steps=min(control.max_steps, _EXPLICIT_STEPS))
    options: dict[str, Any] = {
        "times": grid, "device": problem.device, "precision": problem.precision,
        "history": problem.history, "noise_substeps": problem.noise_substeps, "seed": problem.seed,
        "when": problem.compile,
    }  # fmt: skip
    runner = Runner(field, chosen.method, first, **options)
    outcome = runner.integrate(initial, parameters, show=problem.show)
    if every_step and runner.interrupted:
        raise KeyboardInterrupt
    if every_step:  # how many they are is known now
        step_log = int(outcome.taken.max()) + 1
        logged = replace(control, step_log=step_log)
        Outcome.check_room(*sizes, logged, count, problem.precision)
        runner = Runner(field, chosen.method, replace(first, step_log=step_log), **options)
        outcome = runner.integrate(initial, parameters)
    work: dict[str, Any] = {"cell": runner.widest} if runner.widest else {}
    used = [runner.formulation]
    if chosen.otherwise is not None:
        failed = np.isin(outcome.status, (Status.TOO_MANY_STEPS, Status.STEP_TOO_SMALL))
        slow = np.flatnonzero(failed)
        if runner.interrupted:
            outcome.leave_out(failed)
        elif slow.size and not every_step:
            runner = Runner(field, chosen.otherwise, control, **options)
            again = runner.integrate(initial[:, slow], parameters[:, slow], slow)
            used.append(runner.formulation)
            outcome.put(slow, again)
        work |= {"stiff_method": chosen.otherwise.name, "stiff_trajectories": slow.size}
    work = {
        "steps_taken": outcome.taken.sum(), "steps_rejected": outcome.rejected.sum(), **work,
        **_equations(*used),
    }  # fmt: skip
    values = _values(outcome, control, problem.layout.shape)
    return _Found(outcome.states, outcome.status, work, values)


def _values(outcome: Outcome, control: Control, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """What was found besides the states, with the swept dimensions first."""

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
        values["step_time"] = swept(outcome.step_log[:, 0])
        values["step_state"] = swept(outcome.step_log[:, 1:])
    return values


def check_tolerances(
    rtol: float | None, atol: float | None, step: float | None, precision: Precision
) -> tuple[float, float]:
    """The tolerances, or what they are if not given.

    Raises
    ------
    PlanError
        One is not positive, `rtol` is above 1 or below what the precision can do, or one is given
        together with a step.
    """
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if value is not None and step is not None:
            raise PlanError(
                f"step is {step!r} and {name} {value!r}; give a step, or tolerances that choose it"
            )
        if value is not None:
            number(name, value, above=0)
    rtol = _RTOL if rtol is None else float(rtol)
    atol = _ATOL if atol is None else float(atol)
    if rtol > 1:
        raise PlanError(f"rtol is {rtol:g}; expected at most 1, an error as large as the state")
    least = 4.0 * float(np.finfo(precision).eps)
    if rtol < least:
        raise PlanError(
            f"rtol is {rtol:g}; expected at least {least:.2g}, for numbers in {precision} are "
            f"{least / 4:.2g} of themselves apart"
        )
    return rtol, atol
