"""Ensembles of differential equations: from a vector field and a sweep to labelled results."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core import progress as progress_bar
from ergode.core.arguments import time_grid
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import SWEPT, Variable
from ergode.core.source import Precision
from ergode.core.status import Status
from ergode.models.sweep import lay_out
from ergode.models.vector_field import VectorField, check_function
from ergode.trajectories.ensemble import Ensemble
from ergode.trajectories.plan import Steps, plan_steps
from ergode.trajectories.tableaus import TABLEAUS

if TYPE_CHECKING:
    import xarray

Method = Literal["auto", "euler", "rk4", "tsit5"]

# The cubic through the past limits the order of every method with delays.
_HISTORY_ORDER = 4
_JUMP = 1e-9

results.register(
    "trajectories",
    "states",
    [
        Variable("state", (SWEPT, "time", "variable"), "floating", "1", "state at a time"),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
    ],
)


def integrate(
    field: VectorField,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    history: Callable[[float], tuple[float, ...]] | None = None,
    method: Method = "auto",
    step: float | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    device: str | devices.Device = "auto",
    precision: Precision = "float64",
    progress: bool = False,
) -> xarray.Dataset:
    """Integrate differential equations, with delays or without, for many values at once.

    Parameters
    ----------
    field : VectorField
        The equations.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [time]. The integration begins at ``times[0]``
        and ends at ``times[-1]``. A time between two steps is read off the cubic through both.
    initial : mapping of str to float or array_like, shape [trajectory_count]
        State at ``times[0]`` by name of the variable.
    parameters : mapping of str to float or array_like, shape [trajectory_count]
        Parameters by name. Arrays, here and in `initial`, have one length and run side by side
        along the dim ``trajectory``; in `ergode.grid` every array is crossed with every other
        and becomes a dim of its own.
    history : function, optional
        ``history(t) -> tuple`` of all variables at times up to ``times[0]``, compiled like the
        field. If not given, the past is constant.
    method : {"auto", "rk4", "tsit5", "euler"}
        Explicit Runge-Kutta methods with steps of one size, of order 4, 5 and 1; with delays of
        order 4 at most. ``"auto"`` is ``"rk4"``.
    step : float, optional
        Largest size of a step [time]. A trajectory takes the largest step up to this of which its
        delays, or without delays the time from ``times[0]`` to ``times[-1]``, are whole multiples.
        If not given, steps are halved until the tolerances are met.
    rtol, atol : float
        Without `step`: trajectories are integrated with ever smaller steps, by halves, until at
        every time the estimated error of every variable is within ``atol + rtol * abs(state)``.
        The estimate, of the global error, is the difference between the last two step sizes over
        ``2^order - 1``. Trajectories that do not get there get the status ``INACCURATE``.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    precision : {"float32", "float64"}
        Type of the state and all arithmetic.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        state(<swept dims>, time, variable) and status(<swept dims>); ``attrs`` say which version,
        method, step, device and model they come from, and how much work it was.

    Raises
    ------
    ModelError
        A value is missing, unknown or not finite, or a delay is not positive.
    PlanError
        The run is not possible as asked: method, step, delays without a common step, memory.

    Warns
    -----
    RuntimeWarning
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
    if not isinstance(field, VectorField):
        raise ModelError(f"field is {type(field).__name__}; expected a VectorField")
    grid = time_grid(times)
    if method not in ("auto", *TABLEAUS):
        known = ", ".join(repr(name) for name in ("auto", *TABLEAUS))
        raise PlanError(f"method {method!r} is unknown; expected {known}")
    if precision not in ("float32", "float64"):
        raise PlanError(f"precision {precision!r} is unknown; expected 'float32' or 'float64'")
    _check_positive("rtol", rtol)
    _check_positive("atol", atol)
    if step is not None:
        _check_positive("step", step)
    layout = lay_out(
        {"initial": field.variables, "parameters": field.parameters},
        {"initial": initial, "parameters": {} if parameters is None else parameters},
    )
    rows = {name: layout.rows[name] for name in (*field.variables, *field.parameters)}
    if history is not None:
        _check_history(field, history, float(grid[0]), rows)
    chosen = "rk4" if method == "auto" else method
    tableau = TABLEAUS[chosen]
    order = min(tableau.order, _HISTORY_ORDER) if field.delays else tableau.order
    place = devices.resolve(device)
    started = clock.perf_counter()
    ensemble = Ensemble(field, tableau, history, times=grid, device=place, precision=precision)
    run = _Run(field, ensemble, rows, layout.count, grid, progress)
    if step is not None:
        out, status = run.with_step(float(step))
    else:
        out, status = run.within(rtol, atol, order)
    attrs = results.provenance(
        engine="trajectories",
        method=chosen,
        method_reason="the classical method" if method == "auto" else "asked for",
        order=order,
        step=run.step,
        device=place.name,
        device_model=place.model,
        device_reason=place.reason,
        precision=precision,
        trajectories=layout.count,
        model_digest=field.digest,
        steps_taken=run.steps_taken,
        interrupted=int(bool((status == Status.NOT_RUN).any())),
        wall_seconds=clock.perf_counter() - started,
    )
    if step is None:
        attrs.update(rtol=rtol, atol=atol)
    coords = {"time": grid, "variable": list(field.variables), **layout.coords}
    shape = (*layout.shape, grid.size, len(field.variables))
    values = {
        "state": np.moveaxis(out, 2, 0).reshape(shape),
        "status": status.reshape(layout.shape),
    }
    return results.dataset(
        "trajectories", "states", values, coords=coords, attrs=attrs, swept=layout.dims
    )


class _Run:
    """Integrates all trajectories once, or again and again with smaller steps."""

    _HALVINGS = 12

    def __init__(
        self,
        field: VectorField,
        ensemble: Ensemble,
        rows: Mapping[str, np.ndarray],
        count: int,
        grid: np.ndarray,
        show: bool,
    ) -> None:
        self._field, self._ensemble, self._rows = field, ensemble, rows
        self._count, self._grid, self._show = count, grid, show
        self.step = 0.0
        self.steps_taken = 0

    def with_step(self, step: float) -> tuple[np.ndarray, np.ndarray]:
        """States [time, variable, trajectory] and status of every trajectory."""
        return self._integrate(step, np.arange(self._count))

    def within(self, rtol: float, atol: float, order: int) -> tuple[np.ndarray, np.ndarray]:
        """The same, with the step halved for each until its estimated error is allowed."""
        span = float(self._grid[-1] - self._grid[0])
        step = span / 32 if span > 0 else 1.0
        for _, delay in self._field.delays:
            step = min(step, float(self._rows[delay].max()) / 8)
        out, status = self.with_step(step)
        todo = np.flatnonzero(status == Status.DONE)
        # Infinity may come of too large a step: look again with smaller ones.
        todo = np.union1d(todo, np.flatnonzero(status == Status.NOT_FINITE))
        for _ in range(self._HALVINGS):
            if not todo.size:
                break
            step /= 2
            finer, outcome = self._integrate(step, todo)
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(finer - out[..., todo]) / (2**order - 1)
                allowed = error <= atol + rtol * np.abs(finer)
            out[..., todo] = finer
            status[todo] = outcome
            if (outcome == Status.NOT_RUN).any():
                break
            todo = todo[~allowed.all(axis=(0, 1))]
        unmet = todo[status[todo] == Status.DONE]
        status[unmet] = Status.INACCURATE
        return out, status

    def _integrate(self, step: float, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        field, precision = self._field, self._ensemble.precision
        shape = (self._grid.size, len(field.variables), which.size)
        _check_memory(np.dtype(precision).itemsize * int(np.prod(shape, dtype=object)))
        whole = which.size == self._count
        rows = {name: row if whole else row[which] for name, row in self._rows.items()}
        delays = [delay for _, delay in field.delays]
        span = float(self._grid[-1] - self._grid[0])
        steps: Steps = plan_steps(span, step, which.size, delays, [rows[d] for d in delays])
        out = np.full(shape, np.nan, precision)
        status = np.full(which.size, Status.NOT_RUN, np.uint8)
        self.step = float(steps.size.max())
        initial, parameters = (
            np.array([rows[name] for name in names], precision).reshape(len(names), which.size)
            for names in (field.variables, field.parameters)
        )
        done = 0
        label = "trajectories"
        with progress_bar.track(label, which.size, unit=label, show=self._show) as report:

            def finished(amount: int) -> None:
                nonlocal done
                done += amount
                report(amount)

            try:
                self._ensemble.integrate(initial, parameters, steps, out, status, finished)
            except KeyboardInterrupt:
                if done == 0:
                    raise
                warnings.warn(
                    f"interrupted: {done} of {which.size} trajectories were integrated",
                    RuntimeWarning,
                    stacklevel=5,
                )
        self.steps_taken += int(steps.count.sum())
        return out, status


def _check_history(
    field: VectorField, history: Any, begin: float, rows: Mapping[str, np.ndarray]
) -> None:
    if not field.delays:
        raise ModelError("history is given, but the vector field has no delays")
    check_function(history, {"t": None}, field.variables, "history")
    try:
        values = tuple(float(value) for value in history(begin))
    except Exception as error:
        raise ModelError(f"history({begin:g}) failed: {type(error).__name__}: {error}") from None
    if len(values) != len(field.variables):
        raise ModelError(
            f"history({begin:g}) has {len(values)} values for {len(field.variables)} variables"
        )
    for name, value in zip(field.variables, values, strict=True):
        row = rows[name]
        apart = np.abs(row - value) > _JUMP * np.maximum(1.0, np.abs(row))
        if apart.any():
            first = int(np.argmax(apart))
            raise PlanError(
                f"initial '{name}' is {row[first]:g} and history({begin:g}) is {value:g}: a jump "
                "at the first time cannot be followed; let both be the same"
            )


def _check_positive(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and 0 < value < np.inf):
        raise PlanError(f"{name} is {value!r}; expected a positive number")


def _check_memory(needed: int) -> None:
    room = devices.resolve("cpu").available_bytes()
    if needed > room:
        raise PlanError(
            f"the states need {needed / 1e9:.1f} GB and {room / 1e9:.1f} GB are free; use fewer "
            "times or trajectories"
        )
