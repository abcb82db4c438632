"""`integrate`: ensembles of differential equations, from a vector field to labelled results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import (
    check_range,
    check_switch,
    choice,
    integer,
    number,
    refuse_idle,
    replicate_numbers,
    sequence,
    time_grid,
)
from ergode.core.calls import launch
from ergode.core.calls.divide import Axis, Executor, StorePath, divisible, replicates_of
from ergode.core.calls.job import Job, Whole
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import PlanError
from ergode.core.stopwatch import Stopwatch
from ergode.models.cut import axis_of_values
from ergode.models.fields.inputs import check_inputs
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import (
    REPLICATE,
    TRAJECTORY,
    Layout,
    lay_out,
    lay_out_arrays,
    refuse_reserved,
    replicated,
)
from ergode.trajectories import backward, runs
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.arrays.delayed import history_functions
from ergode.trajectories.arrays.watched import check_watched
from ergode.trajectories.consistent import consistent_rows
from ergode.trajectories.delays.history import initial_history
from ergode.trajectories.delays.mesh import have_common_step
from ergode.trajectories.events import (
    Event,
    Jump,
    ZeroCrossing,
    check_events,
    check_jumps,
    is_random,
)
from ergode.trajectories.labels import check_step_labels, dataset
from ergode.trajectories.methods import Choice, MethodName, choose
from ergode.trajectories.observables import check_observables
from ergode.trajectories.steppers.noise import Paths
from ergode.trajectories.tolerances import check_steps, check_tolerances, step_of_noise

if TYPE_CHECKING:
    import xarray


_MAX_STEPS = 1_000_000


def _axis_of(arguments: Mapping[str, Any]) -> Axis:
    """The replicates of a call, or else the slowest dim of its trajectories."""
    if arguments["replicates"] is not None:
        return replicates_of(arguments)
    field = arguments["field"]
    given = {name: arguments[name] for name in ("initial", "parameters")}
    shapes = () if field.arrays is None else field.arrays.shapes
    depths = {name: len(shape) for name, shape in zip(field.variables, shapes, strict=False)}
    found = axis_of_values(given, TRAJECTORY, depths)
    return found or Axis(TRAJECTORY, range(1), lambda start, stop: {})


def _beginning(observe_from: Any, way: float, grid: np.ndarray) -> float:
    """When observing begins, in the order of the integration."""
    if observe_from is None:
        return -np.inf
    begin = way * number("observe_from", observe_from)
    if begin >= way * grid[-1]:
        raise PlanError(
            f"observe_from is {observe_from:g}, not before the last time {grid[-1]:g}: there is "
            "nothing to observe"
        )
    return begin


@divisible("trajectories", _axis_of, rows=dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def integrate(
    whole: Whole,
    field: VectorField,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    history: Any = None,
    method: MethodName = "auto",
    step: float | None = None,
    rtol: float | None = None,
    atol: float | ArrayLike | Mapping[str, ArrayLike] | None = None,
    events: Sequence[Event] = (),
    record: int = 1,
    observables: Sequence[Any] = (),
    observe_from: float | None = None,
    max_step: float | None = None,
    max_steps: int = _MAX_STEPS,
    every_step: bool = False,
    dense_output: bool = False,
    replicates: int | range | None = None,
    common_random_numbers: bool = False,
    seed: int = 0,
    noise_per_step: int = 1,
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    precision: Precision = "float64",
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
    checkpoint: float | None = None,
) -> Job:
    """Integrate ordinary, delay or stochastic differential equations for many values at once.

    Parameters
    ----------
    field : VectorField
        The equations.
    times : array_like, shape [time_count]
        Grid on which results are reported [time]. The integration begins at ``times[0]`` and ends
        at ``times[-1]``. Dense output gives the states between two steps. If the grid descends,
        time runs backward, for equations without delays and noise; the directions of events and
        `observe_from` then follow the order of the integration.
    initial : mapping of str to float or array_like, shape [trajectory_count]
        State at ``times[0]`` by name of the variable. If variables are arrays: a number, an array
        of the variable's shape, or an array of shape [trajectory_count, ...].
    parameters : mapping of str to float or array_like, shape [trajectory_count]
        Parameters by name. All arrays, here and in `initial`, have equal length; element i belongs
        to trajectory i of the dim ``trajectory``. With `ergode.grid`, the arrays are combined as a
        Cartesian product, and each becomes its own dim.
    history : function, History or DataArray, optional
        ``history(t) -> tuple`` of all variables at times up to ``times[0]``, compiled like the
        field. Its value at ``times[0]`` may differ from the initial state. An
        `ergode.trajectories.History` may have jumps, or consist of samples. A DataArray with the
        dims time and variable, such as the states of another run, is used as samples. If variables
        are arrays, the history is a number or a function ``history(i, t)`` of one unknown (with
        constants, ``history(i, t, c)``); several arrays have a mapping of these. The default is a
        constant history.
    method : str
        Without `step`, ``"auto"`` chooses ``"tsit5"``; trajectories that need more than 100,000
        steps are repeated with ``"rodas5p"``. If 25,000 steps of that method do not suffice either,
        they are long rather than stiff, and are repeated with ``"tsit5"`` up to `max_steps`. With
        `step` it chooses ``"rk4"``. With noise it chooses the method of highest order. With a mass
        matrix, which ``"radau5"`` takes too, it chooses ``"rodas5p"``, and the initial values are
        made consistent. ``attrs["method_reason"]`` gives the reason. More than 100 named variables
        without delays and noise are taken as one array. For up to 16 variables SymPy
        derives the Jacobian of a method for stiff equations; if it cannot, finite differences
        approximate it. For more variables, and for variables that are arrays, the Rosenbrock
        methods use finite differences, and do not support delays. Several trajectories of up to 256
        unknowns, or one with events or observables, then run in a compiled kernel on every device.
        Others run on a CPU in float64, one after the other, without events and observables.
        ``"bdf"`` always has the kernel, in float64, and chooses its steps. On a CPU it has any
        number of unknowns if they can be ordered so that a derivative reads near ones alone;
        ``"auto"`` then repeats stiff trajectories of more than 50 unknowns with it.
        Symplectic methods take fixed steps and need a separable system: derivatives of positions
        depend on momenta alone, those of momenta on positions and time. The positions are
        identified from the field. Between two steps the state is a cubic polynomial.
        The history is interpolated at order 6 for explicit methods of order 5 and 8, and at order 4
        for other methods. The history of arrays is the dense output of the method, which keeps its
        order.

        - ``"euler"``: Euler's method, of order 1; for comparison
        - ``"rk4"``: the classical Runge-Kutta method, of order 4; for the fastest fixed steps
        - ``"tsit5"``: Tsitouras' explicit pair, of order 5; for equations that are not stiff
        - ``"dopri5"``: Dormand and Prince's explicit pair, of order 5; for comparison with other
          codes
        - ``"dop853"``: Dormand and Prince's explicit method of order 8; for equations that are not
          stiff, to 8 digits and more
        - ``"rkc2"``: a Runge-Kutta-Chebyshev method of order 2, with as many stages as stability
          needs; for diffusion in arrays of many unknowns
        - ``"rosenbrock23"``: a Rosenbrock method of order 2; for stiff equations, to 2 or 3 digits
        - ``"rodas5p"``: a Rosenbrock method of order 5, with one Jacobian per step; for stiff
          equations
        - ``"rodas5p-krylov"``: the same method of order 5 without a matrix: Krylov subspaces solve
          its linear systems; for stiff equations in arrays of two and three dimensions
        - ``"radau5"``: the implicit Runge-Kutta method Radau IIA, of order 5, which solves its
          stages by Newton's method; for stiff and strongly nonlinear equations, also with a mass
          matrix
        - ``"bdf"``: backward differentiation formulas up to order 5, which keep the Jacobian and
          its factors over many steps; for stiff equations in arrays of one dimension
        - ``"verlet"``: the Stoermer-Verlet or leapfrog method, symplectic of order 2; for long
          times, with positions and momenta
        - ``"blanes-moan4"``: Blanes and Moan's symplectic method of order 4; for long times, to 3
          to 6 digits
        - ``"kahan-li6"``: Kahan and Li's symplectic method of order 6; for long times, to 6 to 10
          digits
        - ``"suzuki-umeno8"``: Suzuki and Umeno's symplectic method of order 8; for long times, to
          10 digits and more
        - ``"euler-maruyama"``: Euler's method with noise, of strong order 1/2; for any noise
        - ``"implicit-euler-maruyama"``: Euler's method with noise and an implicit drift, of strong
          order 1/2; for noise and a stiff drift
        - ``"milstein"``: Milstein's method, of strong order 1; for noise that depends on its own
          variable only, not on delayed values; for noise that mixes variables it has Levy areas
          from `noise_per_step`
        - ``"platen2"``: Platen's method, of weak order 2; for expectations with any noise
        - ``"sra1"``: Roessler's method, of strong order 3/2; for additive noise, which does not
          depend on the state
    step : float, optional
        Largest size of a fixed step [time]. Each trajectory uses the largest step up to this size
        that divides all its delays; without delays, one that divides ``times[-1] - times[0]``.
        With noise it divides the times between `times`, too, if one from half this size on does:
        within a step, a noisy path is a straight line. Without it, ``"milstein"`` and ``"sra1"``
        take adaptive steps, for named variables without delays. If variables are arrays, steps
        divide the time between two sums of delays. The default is adaptive steps, which the
        tolerances control.
    rtol : float, optional
        Relative tolerance of adaptive steps; default 1e-6, with noise 1e-3. It must be at least
        four times the machine epsilon of the `precision` (8.9e-16, in float32 4.8e-7). Methods with
        an error estimate keep the error of a step, root mean square over the variables, below
        ``atol + rtol * abs(state)``; with delays of single variables also the interpolation error
        of the history. With noise this is the expected difference from a step of Euler's method,
        which is about the global error; it does not depend on the path within the step. ``"rk4"``,
        ``"euler"`` and the symplectic methods have no error estimate. Without `step`, their steps
        are halved until the estimated global error at every time is below this bound. The estimate
        is the difference between the results of the last two step sizes, divided by ``2^order -
        1``. Trajectories that do not reach the bound have the status ``INACCURATE``.
    atol : float, array_like, shape [variable_count], or mapping of str to float, optional
        Absolute tolerance [unit of the variable]; default 1e-9 in any unit. A variable that stays
        below 1e-3 needs a smaller one for a relative error of 1e-6; one below 1e-9 is not resolved
        by the default. A list gives one to each variable, ``[1e-9, 1e-3]``; a mapping to some,
        ``{"v": 1e-3}``, and the others keep 1e-9. For a variable that is an array it is a number or
        an array of its shape. Paths with noise that pass zero need thousands of steps with the
        default: give the error that is allowed there.
    events : sequence of ZeroCrossing, Scheduled and Jump
        Events to count, record, act on or stop at: crossings of a function, lists of times, and
        jumps at random times. Two crossings within one step are found if the event function is
        nearly polynomial there, as for thresholds of variables. If the function changes faster than
        the state, give `max_step` or a smaller `step`.
    record : int
        Number of most recent hits of every event to store, with time and state. 0 only counts.
    observables : sequence of Maximum, Minimum, Mean, TimeAbove or Observable
        Quantities to accumulate during the integration. If variables are arrays, they are given
        by functions.
    observe_from : float, optional
        Time before which hits and observables are ignored, for example a transient [time].
    max_step : float, optional
        Largest adaptive step [time]. For an event function that changes faster than the state,
        choose less than half the time between two crossings. A pulse that is shorter than a step
        may be stepped over: choose less than its duration.
    max_steps : int
        Largest number of steps, rejected ones included. A trajectory that needs more has the status
        ``TOO_MANY_STEPS``.
    every_step : bool
        Also store time and state at the end of every step.
    dense_output : bool
        Also store the interpolating polynomial of every step: ``result.ergode.solution(t)`` then
        gives the state at any time.
    replicates : int or range, optional
        Number of runs with different noise, along the last swept dim ``replicate``; or their
        numbers: ``range(50, 100)`` gives those rows of ``replicates=100``, bit for bit.
        `ergode.concat` joins parts.
    common_random_numbers : bool
        Whether all trajectories of a replicate have the same noise, so that they differ by their
        values alone. By default all are independent. Without noise it changes nothing.
    seed : int
        Seed of the noise. The noise depends only on the seed, the replicate and, without common
        random numbers, the trajectory's index in the sweep and the size of the sweep. With adaptive
        steps it depends on `times`, too, and neither on the tolerances nor on `max_step`.
    noise_per_step : int
        Noise increments that are summed in a step, at most 64. A run with half the step and half
        this number has the same noise path.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    keep_on_device : bool
        Whether the result stays on the device: the call returns a `DeviceResult` of NumPy arrays
        (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read without a copy. Not with `executor`,
        `store` or several devices. Hits of events and logs of steps come from the host.
    precision : {"float32", "float64"}
        Type of the state and all arithmetic.
    progress : bool
        Show progress on standard error.
    executor : concurrent.futures.Executor, optional
        Computes parts of the trajectories on its workers: a process pool, Dask, MPI. The result
        is bitwise equal to that without it.
    store : path, optional
        A folder such as ``"run.zarr"`` to which finished parts are written. A repeated call
        computes only the missing parts.
    chunk : int, optional
        Number of trajectories in a part; the default is 1/64 of all.
    checkpoint : float, optional
        Seconds between two checkpoints of a part in `store`. The same call again goes on from the
        latest; the result has the same bits.

    Returns
    -------
    xarray.Dataset
        state(<swept dims>, time, variable) and status(<swept dims>); with adaptive steps
        step_count and rejected_count(<swept dims>); with events event_count(<swept dims>, event)
        and, in chronological order, event_time(<swept dims>, event, hit) and
        event_state(<swept dims>, event, hit, variable); with observables observed(<swept dims>,
        observable); with `every_step` step_time(<swept dims>, step) and step_state(<swept dims>,
        step, variable), NaN after a trajectory's last step; with `dense_output` also
        step_size(<swept dims>, step) and step_coefficient(<swept dims>, step, power, variable).
        Variables that are arrays are separate variables of the result, with their own dims after
        time; their state at hits is event_<name>(<swept dims>, event, hit, ...), and their steps
        are step_<name>(<swept dims>, step, ...) and step_coefficient_<name>(<swept dims>, step,
        power, ...). ``attrs`` record version, method and its reason, device, model, and the work
        done.

    Raises
    ------
    ModelError
        A value is missing, unknown or not finite, or a delay is not positive.
    PlanError
        The run is not possible with this method, step or memory.

    Warns
    -----
    AccuracyWarning
        With noise, some times lie within steps.
    InterruptionWarning
        The run was interrupted (Ctrl-C). Trajectories that did not run are NaN, with the status
        ``NOT_RUN``.

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
    grid = time_grid(times, may_descend=True)
    choice("precision", precision, PRECISIONS)
    rtol, tolerance = check_tolerances(rtol, atol, step, precision, field)
    check_steps(step, max_step)
    if field.diffusion is not None and step is not None:
        step = step_of_noise(grid, step, bool(field.delays))
    check_switch("integrate", "every_step", every_step)
    check_switch("integrate", "dense_output", dense_output)
    check_switch("integrate", "common_random_numbers", common_random_numbers)
    events = tuple(sequence("events", events, "ZeroCrossing"))
    observables = tuple(sequence("observables", observables, "observables"))
    if field.arrays is None:
        events = check_events(events, field, only_crossings=False)
        observables = check_observables(observables, field)
    else:
        if every_step or dense_output:
            check_step_labels(field, dense_output)
        field.arrays.also(check_watched(field, events, observables)).check_times(grid)
    model, way = field, 1.0
    if backward.descends(grid):
        field, way = backward.reversed_field(field), -1.0
        if field.arrays is None:  # the functions of arrays are reversed where they are called
            events, observables = (
                backward.reversed_events(events),
                backward.reversed_observables(observables, model),
            )
    layout = _layout(field, initial, {} if parameters is None else parameters, dense_output)
    attrs: dict[str, Any] = {}
    has_draws = any(map(is_random, events))
    if (field.diffusion is not None or has_draws) and layout.dims:
        attrs["common_random_numbers"] = int(common_random_numbers)
    first, numbers, sharers = whole.first_row, range(0), 1
    if common_random_numbers:  # of one replicate, or of all trajectories
        sharers = 2**62 if replicates is None else layout.count
    if replicates is not None:
        numbers = replicate_numbers(replicates, 2**31)
        first, layout = numbers.start * layout.count, replicated(layout, numbers)
    rows = {name: layout.rows[name] for name in (*field.variables, *field.parameters)}
    check_inputs(model.parameters, rows, grid)
    check_jumps(events, rows, float(grid[0]))
    if field.mass is not None:
        if any(one.effect is not None for one in events):
            raise PlanError("effects of events with a mass matrix would leave the conditions")
        rows = consistent_rows(field, rows, float(way * grid[0]))
    past = history if field.arrays is None else None
    known = initial_history(field, past, float(way * grid[0]), rows, layout.count)
    if field.arrays is not None:
        known = replace(known, functions=history_functions(field, history, float(grid[0])))
    check_range({**rows, "times": grid, **known.numbers, **field.numbers}, precision)
    delays = [delay for _, delay in field.delays if isinstance(delay, str)]
    common = have_common_step(delays, [rows[delay] for delay in delays])
    chosen = choose(
        field, method, step, watched=bool(events or observables or every_step or dense_output),
        free=not common or known.sampled or known.breakpoints.size > 0,
    )  # fmt: skip
    if has_draws or not all(isinstance(event, ZeroCrossing) for event in events):
        chosen = _for_jumps(chosen, events, field, step, observe_from)
    control = Control(
        rtol=rtol,
        atol=tolerance,
        step=None if step is None else float(step),
        max_step=np.inf if max_step is None else float(max_step),
        max_steps=integer("max_steps", max_steps, 1, 2**53),
        observe_from=_beginning(observe_from, way, grid),
        events=events,
        observables=observables,
        recorded=integer("record", record, 0, 2**31 - 1),
        powers=chosen.method.powers if dense_output else 0,
    )
    problem = runs.Problem(
        field, rows, layout, way * grid, known, devices.resolve(device), precision,
        Paths(
            integer("seed", seed, 0, 2**64 - 1),
            integer("noise_per_step", noise_per_step, 1, 64), first, sharers,
        ), progress,
    )  # fmt: skip
    if field.is_neutral and (known.jumps or any(event.effect is not None for event in events)):
        raise PlanError(
            "with a delayed derivative the state may not jump: a history ends with the initial "
            "values, and events have no effects"
        )
    one_size = "all trajectories have steps of one size"
    has_steps = control.is_watched or every_step or dense_output
    is_equal = chosen.is_fixed or (field.arrays is not None and step is not None and not has_steps)
    refuse_idle(
        record=(control.recorded > 1 and not events, "there are no events"),
        observe_from=(
            observe_from is not None and not control.is_watched,
            "there are no events and no observables",
        ),
        noise_per_step=(
            noise_per_step > 1 and (field.diffusion is None or step is None),
            "the field has no noise" if field.diffusion is None else "steps are adaptive",
        ),
        max_step=(chosen.is_fixed and control.max_step < np.inf, one_size),
        max_steps=(is_equal and control.max_steps != _MAX_STEPS, one_size),
    )
    attrs |= {} if replicates is None else {"replicates": len(numbers), "seed": seed}
    attrs |= {"first_replicate": numbers.start} if numbers.start else {}

    def compute() -> xarray.Dataset:
        with launch.Interruptible("trajectories", "were integrated") as run:
            if field.arrays is not None:
                found = runs.follow_arrays(problem, chosen, control, every_step or dense_output)
            elif chosen.method.is_long(field) and all(hasattr(o, "variable") for o in observables):
                found = runs.follow_long(problem, chosen, control, every_step or dense_output)
            elif chosen.is_fixed:
                found = runs.follow_together(problem, chosen, control)
            elif chosen.is_wide:
                found = runs.follow_wide(problem, chosen, control, every_step or dense_output)
            else:
                found = runs.follow_apart(problem, chosen, control, every_step or dense_output)
            run.ends_with(found.status)
            told = problem
            if way < 0.0:
                told, found = problem._replace(field=model, grid=grid), backward.in_time(found)
            return dataset(told, chosen, control, found, stopwatch, attrs)

    facts = log.choice(chosen.method.name, chosen.reason, problem.device)
    return Job(compute, facts, runs.why_undivided(field, rows, history, chosen))


def _for_jumps(
    chosen: Choice, events: Sequence[Event], field: VectorField, step: float | None,
    observe_from: float | None,
) -> Choice:  # fmt: skip
    """The choice of a method for events that are no crossings, or whose effects take draws.

    Draws are those of a trajectory's place among all, so no trajectory is repeated among others.

    Raises a PlanError if this run cannot have these events.
    """
    if field.arrays is not None or chosen.is_wide or chosen.method.is_long(field):
        raise PlanError(
            f"Scheduled, Jump and effects with draws are for up to 16 variables by methods for "
            f"stiff equations and 100 by others, and the field has {field.size:,}"
        )
    draws = [event.name for event in events if is_random(event)]
    if draws and field.delays and step is None:
        raise PlanError(
            f"event '{draws[0]}' depends on draws, and the field has delays: give a step"
        )
    counted = [event.name for event in events if is_random(event) and not isinstance(event, Jump)]
    if counted and observe_from is not None:
        raise PlanError(
            f"event '{counted[0]}' has draws by the number of its occurrence, and those before "
            "observe_from are not counted; leave it out"
        )
    stays = not draws and (chosen.otherwise is None or not chosen.otherwise.is_wide(field))
    return chosen if stays else replace(chosen, otherwise=None)


def _layout(
    field: VectorField, initial: Mapping[str, Any], parameters: Mapping[str, Any], dense: bool
) -> Layout:
    """Values of variables and parameters of every trajectory."""
    if field.arrays is None:
        taken = results.names("trajectories", "states") | {REPLICATE}
        return lay_out(
            {"initial": field.variables, "parameters": field.parameters},
            {"initial": initial, "parameters": parameters},
            reserved=taken if dense else taken - {"power"},  # many a parameter is a power
        )
    shapes = dict(zip(field.variables, field.arrays.shapes, strict=True))
    reserved = results.names("trajectories", "arrays") | {REPLICATE, TRAJECTORY}
    refuse_reserved(initial, reserved, numbers=True)
    dims = {dim for dims in field.arrays.dims for dim in dims}
    return lay_out_arrays(shapes, initial, field.parameters, parameters, reserved=reserved | dims)
