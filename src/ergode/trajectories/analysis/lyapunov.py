"""Lyapunov exponents: growth rates of tangent vectors.

Tangent vectors, v' = J v (with delays, plus the Jacobian of the delayed values times the delayed
tangent vector), are integrated with the trajectory as additional variables of an extended field.
They are orthonormalized at intervals, and the logarithms of their norms are accumulated.  Without
delays an event does this; with delays the kernel does it, including the history (see `tangents`).

G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15, 9 and 21 (1980);
J. D. Farmer, Physica D 4, 366 (1982) for delay equations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import devices, results
from ergode.core.arguments import integer, number, refuse_idle, time_grid
from ergode.core.calls import launch
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import PlanError
from ergode.core.inputs import recorded
from ergode.core.math.tableaus import RK4
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import TRAJECTORY, Layout, lay_out, lay_out_arrays
from ergode.trajectories.adaptive.outcome import Outcome, control_of
from ergode.trajectories.adaptive.runner import Runner
from ergode.trajectories.analysis import tangent_arrays
from ergode.trajectories.analysis.sensitivities import not_zero, sum_of
from ergode.trajectories.arrays.runner import Runner as ArrayRunner
from ergode.trajectories.delays.history import initial_history
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.fixed.runner import Ensemble, Growth
from ergode.trajectories.fixed.tangents import PARALLEL
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers.derivatives import Symbols, function_of
from ergode.trajectories.tolerances import check_tolerances

if TYPE_CHECKING:
    import xarray

_UNROLLED = 5_000  # slopes of named variables and their tangents; 1,640 compile in a minute
_APART = 40  # such slopes with code for each; more are in loops over the tangents
_MOST = 64  # most exponents of a delay equation, which has infinitely many
_RTOL, _ATOL = 1e-8, 1e-10
_MAX_STEPS = 1_000_000
# An interval is shortened where tangent vectors become parallel in it, up to rounding.
_SHORTER, _ATTEMPTS = 8, 7
_SETTLING = 4  # shortest transient, in longest delays; tangent vectors begin after two

results.register(
    "trajectories",
    "exponents",
    [
        Variable("exponent", (SWEPT, "exponent_number"), "floating", "1/time", "Lyapunov exponent"),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
    ],
)


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def lyapunov_spectrum(
    field: VectorField,
    *,
    initial: Mapping[str, Any],
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    count: int | None = None,
    transient: float = 0.0,
    interval: float | None = None,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = _MAX_STEPS,
    device: str | devices.Device = "auto",
    history: Any = None,
) -> xarray.Dataset:
    """Lyapunov exponents of many trajectories, in descending order.

    Parameters
    ----------
    field : VectorField
        The equations, without noise. SymPy derives the Jacobian; if it cannot, finite differences
        along the tangent vectors replace it. Where variables are arrays, of one to three
        dimensions, without delays, the functions are derived by rewriting them (see the theory of
        trajectories).
    initial, parameters : mapping
        As for `integrate`; sweeps become dims.
    duration : float
        Time over which exponents are averaged, after the transient [time].
    count : int, optional
        Number of exponents, the largest ones. The default is all; with delays, which give
        infinitely many, one.
    transient : float
        Duration of the transient [time], in which tangent vectors also turn to the directions that
        grow most. Give enough of it. With delays it is at least four times the longest delay.
    interval : float, optional
        Time between two orthonormalizations [time]. The default is 1; with delays, the longest
        delay. It is shortened if tangent vectors become parallel within it.
    step : float, optional
        With delays only: the step of `integrate`, for ``"rk4"``.
    rtol, atol : float, optional
        Without delays only: tolerances, by default 1e-8 and 1e-10.
    max_steps : int
        Without delays only: largest number of steps of a trajectory, rejected ones included. A
        trajectory that needs more has the status ``TOO_MANY_STEPS``.
    device : str or Device
    history : function, optional
        With delays only: as for `integrate`.

    Returns
    -------
    xarray.Dataset
        exponent(<swept dims>, exponent_number) [1 / time], NaN where a trajectory failed, and
        status(<swept dims>).

    Raises
    ------
    PlanError
        There are fewer exponents than `count`, a time is not positive, the field has noise, or a
        delay depends on the state; with delays, `step` is missing or tolerances are given; without
        delays, `step` is given. Arrays have delays or four dimensions, or a function of them has a
        part whose derivative is not known.

    References
    ----------
    G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15, 9 and 21 (1980);
    J. D. Farmer, Physica D 4, 366 (1982), for delay equations.

    Examples
    --------
    >>> import ergode
    >>> def saddle(t, y, p):
    ...     return p[0] * y[0], -2.0 * y[1]
    >>> field = ergode.VectorField(saddle, ["x", "y"], ["rate"])
    >>> found = ergode.trajectories.lyapunov_spectrum(
    ...     field, initial={"x": 0, "y": 0}, parameters={"rate": 0.5}, transient=10, duration=10,
    ...     device="cpu",
    ... )
    >>> found["exponent"].values.round(6).tolist()
    [0.5, -2.0]
    """
    stopwatch = Stopwatch()
    check_field(field)
    digest = field.digest
    if field.state_dependent:
        raise PlanError("Lyapunov exponents are for delays that do not depend on the state")
    if field.is_neutral:
        raise PlanError("Lyapunov exponents are for fields without delayed derivatives")
    if field.mass is not None:
        raise PlanError("Lyapunov exponents are for fields without a mass matrix")
    if field.diffusion is not None:
        raise PlanError("a Lyapunov spectrum is for fields without noise; this field has diffusion")
    refuse_idle(max_steps=(bool(field.delays) and max_steps != _MAX_STEPS, "steps have one size"))
    limit = integer("max_steps", max_steps, 1, 2**53)
    most = _MOST if field.delays else field.size
    usual = 1 if field.delays else most
    wanted = usual if count is None else integer("count", count, 1, most)
    parameters = {} if parameters is None else parameters
    reserved = results.names("trajectories", "exponents")
    if field.arrays is not None:
        tangent_arrays.check_tangents(field, "a Lyapunov spectrum")
        layout = lay_out_arrays(
            field.arrays.by_name, initial, field.parameters, parameters, reserved=reserved
        )
        extended = tangent_arrays.with_tangent_arrays(field, wanted, grows=True)
    else:
        slopes = field.size * (1 + wanted)
        written = slopes if field.delays else min(slopes, 2 * field.size)
        if written > _UNROLLED:
            raise PlanError(
                f"{wanted} Lyapunov exponents of {field.size} named variables need code for "
                f"{written:,} slopes; expected up to {_UNROLLED:,}: declare the variables as an "
                "array"
            )
        layout = lay_out(
            {"initial": field.variables, "parameters": field.parameters},
            {"initial": initial, "parameters": parameters}, reserved=reserved,
        )  # fmt: skip
        if slopes > _APART and not field.delays:
            rows = np.array([layout.rows[name] for name in field.variables], float)
            field, extended = tangent_arrays.one_array_with_tangents(
                field, with_tangents(field, 1), wanted
            )
            layout = replace(layout, rows={**layout.rows, field.variables[0]: rows})
        else:
            extended = with_tangents(field, wanted)
    place = devices.resolve(device)
    number("duration", duration, above=0)
    number("transient", transient, least=0)
    times = time_grid(np.unique([0.0, transient, transient + duration]))
    for name, time in (("interval", interval), ("step", step)):
        if time is not None:
            number(name, time, above=times[-1] * np.finfo(np.float64).eps)
    with launch.Interruptible("trajectories", "were integrated") as run:
        if field.delays:
            if step is None:
                raise PlanError("with delays a step is needed")
            check_tolerances(rtol, atol, step, "float64")
            longest = float(np.max([layout.rows[d] for _, d in field.delays if isinstance(d, str)]))
            first = min(longest if interval is None else interval, duration)

            def measure(between: float) -> tuple[np.ndarray, np.ndarray]:
                spans = transient, duration, between
                return _of_delays(
                    field, extended, layout, wanted, spans, longest, step, place, history
                )
        else:
            if step is not None:
                raise PlanError(f"step is {step!r}; it is for delays; otherwise give rtol, atol")
            rtol, absolute = check_tolerances(
                _RTOL if rtol is None else rtol, _ATOL if atol is None else atol, None, "float64"
            )
            options: dict[str, Any] = {"times": times, "device": place, "precision": "float64"}
            control = {"rtol": rtol, "atol": absolute, "max_steps": limit}
            first = 1.0 if interval is None else interval
            if field.arrays is None:
                events = [_renewal(field, wanted)]
                runner = Runner(
                    _with_growth(extended, wanted), METHODS["tsit5"],
                    control_of({**control, "events": events}), **options,
                )  # fmt: skip

            def measure(between: float) -> tuple[np.ndarray, np.ndarray]:
                if field.arrays is not None:
                    found, status = _of_arrays(
                        field, extended, layout, wanted, between, control, options
                    )
                else:
                    found, status = _of_states(runner, field, layout, wanted, between)
                return found / duration, status

        for attempt in range(_ATTEMPTS):
            exponents, status = measure(first / _SHORTER**attempt)
            if not (exponents > PARALLEL / duration / 2).any():
                break
        exponents[exponents > PARALLEL / duration / 2] = np.nan
        run.ends_with(status)
        failed = (status != Status.DONE) | ~np.isfinite(exponents).all(axis=1)
        status = np.where(failed & (status == Status.DONE), Status.NOT_FINITE, status).astype(
            np.uint8
        )
        # Averages of a finite time are not in order where exponents are equal or nearly so.
        exponents = np.where(failed[:, None], np.nan, -np.sort(-exponents, axis=1))
        attrs = results.provenance(
            stopwatch, engine="trajectories", method="tangents", device=place.name,
            transient=transient, duration=duration, model_digest=digest,
            trajectories=layout.count,
        )  # fmt: skip
        coords = {**layout.coords, "exponent_number": np.arange(wanted)}
        values = {
            "exponent": exponents.reshape((*layout.shape, wanted)),
            "status": status.astype(np.uint8).reshape(layout.shape),
        }
        return results.dataset(
            "trajectories", "exponents", values, coords=coords, attrs=attrs, swept=layout.dims
        )


def _of_states(
    runner: Runner, field: VectorField, layout: Layout, wanted: int, interval: float
) -> tuple[np.ndarray, np.ndarray]:
    """Growth [trajectory, exponent] of tangent vectors between the last two times; status."""
    size, count = len(field.variables), layout.count
    base = np.array([layout.rows[name] for name in field.variables], float)
    tangents = np.repeat(tangent_arrays.first_vectors(wanted, size).reshape(-1, 1), count, axis=1)
    sums = np.zeros((wanted + 1, count))
    sums[-1] = interval
    parameters = np.full((len(field.parameters) + 1, count), interval)
    for row, name in zip(parameters, field.parameters, strict=False):
        row[:] = layout.rows[name]
    outcome = runner.integrate(np.concatenate([base, tangents, sums]), parameters)
    states = outcome.states[-2:]
    grown = states[:, size : size * (wanted + 1)].reshape(2, wanted, size, count)
    return _growth(grown, states[:, -wanted - 1 : -1]), outcome.status


def _growth(vectors: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Growth [trajectory, exponent] between two times.

    `vectors` [2, exponent, unknown, trajectory] have grown since their last orthonormalization,
    and `sums` [2, exponent, trajectory] are the growth until then.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        lengths = np.linalg.qr(vectors.transpose(0, 3, 2, 1), mode="r")
        left = np.abs(np.diagonal(lengths, axis1=2, axis2=3))
        until = sums.transpose(0, 2, 1)
        parallel = (left < 1e-9 * np.linalg.norm(lengths, axis=2)) | (until > PARALLEL / 2)
        total = until + np.log(left)
        growth: np.ndarray = np.where(parallel.any(axis=0), PARALLEL, total[1] - total[0])
    return growth


def _of_arrays(
    field: VectorField, extended: VectorField, layout: Layout, wanted: int, interval: float,
    control: dict[str, Any], options: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """As `_of_states`, for variables that are arrays."""
    arrays, count = field.arrays, layout.count
    assert arrays is not None
    due, orthonormal = tangent_arrays.renewal(field, wanted)
    event = ZeroCrossing(due, 1, orthonormal)
    assert extended.arrays is not None
    extended.arrays.check_times(options["times"])
    whole = control_of({**control, "events": [event]})
    Outcome.check_room(options["times"].size, extended.size, whole, count, "float64")
    runner = ArrayRunner(extended, METHODS["tsit5"], whole, **options)
    units = arrays.views(tangent_arrays.first_vectors(wanted, arrays.size))
    parts = [layout.rows[name] for name in arrays.names]
    parts += [np.tile(one.reshape(-1, 1), count) for one in units]
    parts += [np.zeros((wanted, count)), np.full((1, count), interval)]
    parameters = np.full((len(field.parameters) + 1, count), interval)
    for row, name in zip(parameters, field.parameters, strict=False):
        row[:] = layout.rows[name]
    outcome = runner.run(np.concatenate(parts), parameters)
    views = extended.arrays.views(np.moveaxis(outcome.states[-2:], 1, -1))
    vectors = np.concatenate(
        [one.reshape(2, count, wanted, -1) for one in views[len(arrays.names) : -2]], axis=3
    )
    return _growth(vectors.transpose(0, 2, 3, 1), views[-2].transpose(0, 2, 1)), outcome.status


def _with_growth(extended: VectorField, count: int) -> VectorField:
    """The extended field, with variables for accumulated growth and for the next renewal time."""
    own = "".join(f"f[{i}], " for i in range(len(extended.variables)))
    still = "0.0, " * (count + 1)
    text = f"def growing(t, y, p):\n    f = field(t, y, p)\n    return ({own}{still})\n"
    return VectorField(
        function_from_text(text, {"field": extended.function}),
        [*extended.variables, *(f"growth {k}" for k in range(count)), "renewal"],
        [*extended.parameters, "interval of renewal"],
    )


def _renewal(field: VectorField, count: int) -> ZeroCrossing:
    """The event that orthonormalizes tangent vectors, by modified Gram-Schmidt."""
    size = len(field.variables)
    vectors = [range(size * (k + 1), size * (k + 2)) for k in range(count)]
    last = size * (count + 1) + count
    lines = [f"    v{i} = y[{i}]\n" for i in range(last)]
    for k, vector in enumerate(vectors):
        square = " + ".join(f"v{i} * v{i}" for i in vector)
        lines.append(f"    before = {square}\n")
        for other in vectors[:k]:
            pairs = " + ".join(f"v{i} * v{j}" for i, j in zip(vector, other, strict=True))
            lines.append(f"    part = {pairs}\n")
            lines += [f"    v{i} -= part * v{j}\n" for i, j in zip(vector, other, strict=True)]
        lines.append(f"    square = {square}\n    length = math.sqrt(square)\n")
        lines += [f"    v{i} /= length\n" for i in vector]
        lines.append(f"    v{last - count + k} += {tangent_arrays.GROWN}\n")
    own = "".join(f"v{i}, " for i in range(last))
    following = f"y[{last}] + p[{len(field.parameters)}]"
    act = f"def orthonormal(t, y, p):\n{''.join(lines)}    return ({own}{following})\n"
    due = f"def due(t, y, p):\n    return t - y[{last}]\n"
    return ZeroCrossing(function_from_text(due, {}), 1, function_from_text(act, {"math": math}))


def _of_delays(
    field: VectorField, extended: VectorField, layout: Layout, wanted: int,
    spans: tuple[float, float, float], longest: float, step: float, place: devices.Device,
    history: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Exponents [trajectory, exponent] for delay equations, and status (see `tangents`)."""
    transient, duration, interval = spans
    count, zero = layout.count, np.zeros(layout.count)
    rows = {**layout.rows, **dict.fromkeys(extended.variables[len(field.variables) :], zero)}
    known = initial_history(extended, _with_zeros(history, field, extended), 0.0, rows, count)
    taus = [rows[delay] for _, delay in extended.delays if isinstance(delay, str)]
    since = max(transient, _SETTLING * longest)
    span = since + duration + interval
    names = [delay for _, delay in extended.delays if isinstance(delay, str)]
    steps = plan_steps(span, step, count, names, taus)
    points = int(steps.lags.max()) + 1
    if wanted > points:
        raise PlanError(
            f"count is {wanted}, but a delay of {points - 1} steps does not have as many "
            "exponents; use a smaller step"
        )
    ensemble = Ensemble(
        extended, RK4, known.function, times=np.array([0.0, span]), device=place, jumps=known.jumps,
        tangents=wanted,
    )  # fmt: skip
    every = max(1, round(interval / float(steps.size.max())))
    growth = Growth((2 * points, every, since), np.zeros((wanted + 1, count)))
    initial, parameters = (
        np.array([rows[name] for name in some], float).reshape(len(some), count)
        for some in (extended.variables, extended.parameters)
    )
    _, status = ensemble.integrate(initial, parameters, steps, growth)
    return (growth.sums[:-1] / growth.sums[-1]).T, status


def _with_zeros(history: Any, field: VectorField, extended: VectorField) -> Any:
    """The history of the extended field, with zero tangent vectors."""
    if history is None:
        return None
    if not callable(history):
        raise PlanError("the history for a Lyapunov spectrum must be a function of t")
    own = "".join(f"values[{i}], " for i in range(len(field.variables)))
    zeros = "0.0, " * (len(extended.variables) - len(field.variables))
    return function_from_text(
        f"def known(t):\n    values = history(t)\n    return ({own}{zeros})\n", {"history": history}
    )


def with_tangents(field: VectorField, count: int) -> VectorField:
    """The extended field: `count` tangent vectors are additional variables."""
    size, delay_count = len(field.variables), len(field.delays)
    arguments = "t, y, yd, p" if field.delays else "t, y, p"
    here = "".join(f"y[{i}], " for i in range(size))
    there = "".join(f"yd[{d}], " for d in range(delay_count))
    names: dict[str, Any] = {"field": field.function}
    call = f"field(t, ({here}), ({there}), p)" if field.delays else f"field(t, ({here}), p)"
    lines = [f"    f = {call}\n"]
    terms = []
    try:
        symbols = Symbols(field)
        found = [not_zero(symbols.jacobian())]
        if field.delays:
            found.append(not_zero(symbols.delayed_jacobian()))
    except Exception:  # SymPy is not installed, or the function cannot be called with symbols
        found = []
    if found:
        jacobian, at = found[0]
        names["jacobian"] = function_of("jacobian", "t, y, yd, p", jacobian)
        lines.append(f"    j = jacobian(t, ({here}), ({there}), p)\n")
        if field.delays:
            coupling, late = found[1]
            names["coupling"] = function_of("coupling", "t, y, yd, p", coupling)
            lines.append(f"    c = coupling(t, ({here}), ({there}), p)\n")
        for k in range(count):
            own_rows, own_delays = size * (k + 1), delay_count * (k + 1)
            for i in range(size):
                parts = [
                    f"j[{at[i * size + q]}] * y[{own_rows + q}]"
                    for q in range(size) if i * size + q in at
                ]  # fmt: skip
                parts += [
                    f"c[{late[i * delay_count + d]}] * yd[{own_delays + d}]"
                    for d in range(delay_count) if i * delay_count + d in late
                ]  # fmt: skip
                terms.append(sum_of(parts or [f"0.0 * y[{own_rows + i}]"]))
    else:  # central differences along each tangent vector
        for k in range(count):
            first = size * (k + 1)
            for side, sign in (("up", "+"), ("down", "-")):
                moved = "".join(f"y[{q}] {sign} 1e-6 * y[{first + q}], " for q in range(size))
                past = "".join(
                    f"yd[{d}] {sign} 1e-6 * yd[{delay_count * (k + 1) + d}], "
                    for d in range(delay_count)
                )
                middle = f"({past}), " if field.delays else ""
                lines.append(f"    {side}_{k} = field(t, ({moved}), {middle}p)\n")
            terms += [f"(up_{k}[{i}] - down_{k}[{i}]) / 2e-6" for i in range(size)]
    own = "".join(f"f[{i}], " for i in range(size))
    text = f"def tangents({arguments}):\n{''.join(lines)}    return ({own}{', '.join(terms)},)\n"
    tangents = [f"tangent {k} of {name}" for k in range(count) for name in field.variables]
    further = [
        (f"tangent {k} of {name}", delay) for k in range(count) for name, delay in field.delays
    ]
    return VectorField(
        function_from_text(text, names),
        [*field.variables, *tangents],
        field.parameters,
        [*field.delays, *further],
    )
