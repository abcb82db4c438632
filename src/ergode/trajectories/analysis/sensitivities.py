"""Forward sensitivities: derivatives of a trajectory by parameters and initial values.

Every sensitivity s = dy/dq obeys the variational equation s' = J s + df/dq.  The sensitivities are
additional variables of one larger field, so the error control of `integrate` covers them.

At an event with an effect r, the time of the event depends on q.  With the event function g, the
slopes f before and f+ after the event, and dtau/dq = -(g_y s + g_q) / (g_y f + g_t),
the sensitivities jump to r_y s + r_q + (r_y f + r_t - f+) dtau/dq, the saltation condition.

M. A. Aizerman, F. R. Gantmakher, Q. J. Mech. Appl. Math. 11, 225 (1958), for the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import check_once, choice, sequence
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import TRAJECTORY, Grid, Implied, lay_out
from ergode.trajectories.analysis.array_sensitivities import of_arrays
from ergode.trajectories.events import ZeroCrossing, check_events
from ergode.trajectories.integrate import integrate
from ergode.trajectories.labels import derived
from ergode.trajectories.methods import MethodName
from ergode.trajectories.steppers.derivatives import Symbols, function_of
from ergode.trajectories.tolerances import check_tolerances

if TYPE_CHECKING:
    import xarray

results.register(
    "trajectories",
    "sensitivities",
    [
        Variable("state", (SWEPT, "time", "variable"), "floating", "1", "state at a time"),
        Variable(
            "sensitivity",
            (SWEPT, "time", "variable", "with_respect_to"),
            "floating",
            "1",
            "derivative of the state by a parameter or initial value",
        ),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
    ],
)


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def sensitivities(
    field: VectorField,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    with_respect_to: Sequence[str],
    events: Sequence[ZeroCrossing] = (),
    method: MethodName = "auto",
    step: float | None = None,
    rtol: float | None = None,
    atol: Any = None,
    max_step: float | None = None,
    max_steps: int = 1_000_000,
    device: str | devices.Device = "auto",
    precision: Precision = "float64",
) -> xarray.Dataset:
    """Integrate states and their derivatives by parameters and initial values.

    Parameters
    ----------
    field : VectorField
        The equations, without noise. SymPy must be able to derive them. With delays, the history
        is constant and equals the initial values. Functions of arrays, of one to three dimensions
        and without delays, are derived by rewriting them.
    times, initial, parameters
        As for `integrate`; sweeps become dims.
    with_respect_to : sequence of str
        Names of parameters; the name of a variable stands for its initial value. A parameter that
        is a delay is refused. Where variables are arrays, ``"x[3]"`` stands for the initial value
        of an element.
    events : sequence of ZeroCrossing
        Events that act or stop. At an effect the sensitivities jump by the saltation condition.
        Effects are refused in fields with delays and in fields of arrays.
    method, step, rtol, atol, max_step, max_steps, device, precision
        As for `integrate`. The tolerances hold for states and sensitivities together: the `atol` of
        a variable is also that of its derivatives. With events or delays methods for stiff
        equations support up to 16 variables, sensitivities included.

    Returns
    -------
    xarray.Dataset
        state(<swept dims>, time, variable), sensitivity(<swept dims>, time, variable,
        with_respect_to) and status(<swept dims>). Every variable x that is an array is a variable
        of the result, and so is sensitivity_x(<swept dims>, time, ..., with_respect_to).

    Raises
    ------
    ModelError
        A name is unknown or given twice.
    PlanError
        The field has noise or delays that depend on the state, `with_respect_to` names a delay, an
        effect meets a delay, or SymPy cannot derive a function.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> field = ergode.VectorField(decay, ["x"], ["rate"])
    >>> found = ergode.trajectories.sensitivities(
    ...     field, times=[0, 1], initial={"x": 1}, parameters={"rate": 1},
    ...     with_respect_to=["rate", "x"], device="cpu",
    ... )
    >>> found["sensitivity"].values[1, 0].round(4).tolist()
    [-0.3679, 0.3679]
    """
    check_field(field)
    events = tuple(sequence("events", events, "ZeroCrossing"))
    parameters = {} if parameters is None else parameters
    if field.arrays is not None:
        choice("precision", precision, PRECISIONS)
        return of_arrays(
            field, with_respect_to, events, times=times, initial=initial, parameters=parameters,
            method=method, step=step, rtol=rtol, atol=atol, max_step=max_step, max_steps=max_steps,
            device=device, precision=precision,
        )  # fmt: skip
    names = checked_names(field, "with_respect_to", with_respect_to)
    events = check_events(events, field)
    lay_out(
        {"initial": field.variables, "parameters": field.parameters},
        {"initial": initial, "parameters": parameters},
        reserved=results.names("trajectories", "sensitivities"),
    )
    variational = Variational(field, names, events)
    return variational.integrate(
        times=times, initial=initial, parameters=parameters, method=method, step=step, rtol=rtol,
        atol=atol, max_step=max_step, max_steps=max_steps, device=device, precision=precision,
    )  # fmt: skip


class Variational:
    """A field with sensitivities by some names as further variables, derived once for many runs."""

    def __init__(
        self, field: VectorField, names: Sequence[str], events: Sequence[ZeroCrossing]
    ) -> None:
        _refuse_underivable(field, names)
        self._field, self._names = field, list(names)
        self._extended = with_sensitivities(field, names)
        self._events = [_with_jump(event, field, names) for event in events]

    def integrate(
        self, *, initial: Mapping[str, Any], parameters: Mapping[str, Any], step: float | None,
        rtol: float | None, atol: Any, precision: Precision, **options: Any,
    ) -> xarray.Dataset:  # fmt: skip
        """States and sensitivities; arguments and result are those of `sensitivities`."""
        field, names = self._field, self._names
        choice("precision", precision, PRECISIONS)
        tolerance = check_tolerances(rtol, atol, step, precision, field)[1]
        if np.ndim(tolerance):
            atol = np.tile(tolerance, 1 + len(names))
        size = len(field.variables)
        ones = {
            self._extended.variables[size * (k + 1) + i]: float(name == variable)
            for k, name in enumerate(names)
            for i, variable in enumerate(field.variables)
        }
        start = {**initial, **ones}
        found = integrate(
            self._extended, initial=Grid(start) if isinstance(initial, Grid) else start,
            parameters=parameters, events=self._events, record=0, step=step, rtol=rtol, atol=atol,
            precision=precision, **options,
        )  # fmt: skip
        states = found["state"].values
        tangents = states[..., size:].reshape(*states.shape[:-1], len(names), size)
        values = {
            "state": states[..., :size],
            "sensitivity": np.ascontiguousarray(np.swapaxes(tangents, -1, -2)),
            "status": found["status"].values,
        }
        variables = list(field.variables)
        coords = {"time": found["time"], "variable": variables, "with_respect_to": names}
        return derived(found, "sensitivities", values, coords, {"model_digest": field.digest})


def checked_names(field: VectorField, argument: str, given: Sequence[str]) -> list[str]:
    """The names that an argument has, if there are sensitivities by them."""
    check_field(field)
    field.refuse_arrays("a fit")
    if field.diffusion is not None:
        raise PlanError("sensitivities are for fields without noise; this field has a diffusion")
    if isinstance(given, str):
        raise ModelError(f"{argument} is {given!r}; expected a list of names")
    names = list(sequence(argument, given, "names"))
    parameters = [one for one in field.parameters if not isinstance(one, Implied)]
    known = (*field.variables, *parameters)
    if not names:
        raise ModelError(f"{argument} is empty; name parameters or variables")
    for name in names:
        if name not in known:
            raise ModelError(f"{argument} has {name!r}; the field has {', '.join(map(str, known))}")
    check_once(argument, names)
    return names


def _refuse_underivable(field: VectorField, names: Sequence[str]) -> None:
    """Refuse what has no variational equations here."""
    if field.state_dependent:
        raise PlanError("sensitivities do not support delays that depend on the state")
    if field.is_neutral:
        raise PlanError("sensitivities do not support delayed derivatives")
    if shifted := [one for one in field.inputs if one.is_shifted]:
        raise PlanError(
            f"sensitivities do not support steps of an input at times that depend on the state or "
            f"on parameters, and '{shifted[0]}' is not called with t alone; use kind='linear'"
        )
    delays = {delay for _, delay in field.delays}
    for name in names:
        if name in delays:
            raise PlanError(f"sensitivities by '{name}', a delay, are not supported")


def _tuple(name: str, count: int) -> str:
    return f"({''.join(f'{name}[{i}], ' for i in range(count))})"


def _derivatives(
    what: str, function: Callable[..., Any], field: VectorField, by: Callable[[Any], list[Any]]
) -> Any:
    """A function of derivatives of `function`; `by` makes the expressions from symbols."""
    try:
        copied = VectorField(function, field.variables, field.parameters, field.delays)
        return function_of("derivatives", "t, y, yd, p", by(Symbols(copied)))
    except Exception as error:
        raise PlanError(
            f"sensitivities need symbolic derivatives, and SymPy cannot derive {what} ({error}); "
            "write it without branches, max, min and loops that depend on the state"
        ) from None


_TERMS = 32  # of a sum without brackets


def not_zero(expressions: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
    """The expressions that are not zero, at least one; and their places by their numbers."""
    kept = [k for k, one in enumerate(expressions) if one != 0]
    at = {k: place for place, k in enumerate(kept)}
    return [expressions[k] for k in kept] or list(expressions[:1]), at


def sum_of(parts: Sequence[str]) -> str:
    """A sum, in groups: an expression of hundreds of terms one after the other is too deep."""
    if len(parts) <= _TERMS:
        return " + ".join(parts)
    groups = [parts[k : k + _TERMS] for k in range(0, len(parts), _TERMS)]
    return sum_of([f"({' + '.join(one)})" for one in groups])


def with_sensitivities(field: VectorField, names: Sequence[str]) -> VectorField:
    """The field with sensitivities by each name as further variables."""
    size, delay_count = len(field.variables), len(field.delays)
    own = [name for name in names if name in field.parameters]

    at: dict[int, int] = {}  # places of the derivatives that are not zero

    def by(symbols: Symbols) -> list[Any]:
        places = [symbols.p[field.parameters.index(name)] for name in own]
        forcing = [slope.diff(p) for p in places for slope in symbols.slopes]
        kept, places_of = not_zero([*symbols.jacobian(), *symbols.delayed_jacobian(), *forcing])
        at.update(places_of)
        return kept

    functions = {
        "field": field.function,
        "derivatives": _derivatives("the field", field.function, field, by),
    }
    here, there = _tuple("y", size), _tuple("yd", delay_count)
    arguments, middle = ("t, y, yd, p", f"{there}, ") if field.delays else ("t, y, p", "")
    terms = []
    for k, name in enumerate(names):
        own_rows = size * (k + 1)
        for i in range(size):
            parts = [
                f"d[{at[i * size + q]}] * y[{own_rows + q}]"
                for q in range(size) if i * size + q in at
            ]  # fmt: skip
            first = size * size + i * delay_count
            parts += [
                f"d[{at[first + e]}] * yd[{delay_count * (k + 1) + e}]"
                for e in range(delay_count) if first + e in at
            ]  # fmt: skip
            if name in own:
                place = size * (size + delay_count + own.index(name)) + i
                parts += [f"d[{at[place]}]"] if place in at else []
            terms.append(sum_of(parts or [f"0.0 * y[{own_rows + i}]"]))
    text = (
        f"def with_sensitivities({arguments}):\n    f = field(t, {here}, {middle}p)\n"
        f"    d = derivatives(t, {here}, {there}, p)\n"
        f"    return ({''.join(f'f[{i}], ' for i in range(size))}{', '.join(terms)},)\n"
    )
    return VectorField(
        function_from_text(text, functions),
        [*field.variables, *(f"{one} by {name}" for name in names for one in field.variables)],
        field.parameters,
        [
            *field.delays,
            *((f"{one} by {name}", tau) for name in names for one, tau in field.delays),
        ],
    )


def _with_jump(event: ZeroCrossing, field: VectorField, names: Sequence[str]) -> ZeroCrossing:
    """The event for the extended field; its effect moves sensitivities by saltation."""
    size = len(field.variables)
    here = _tuple("y", size)
    arguments = "t, y, yd, p" if field.delays else "t, y, p"
    middle = f"{_tuple('yd', len(field.delays))}, " if field.delays else ""
    gap = function_from_text(
        f"def gap({arguments}):\n    return function(t, {here}, {middle}p)\n",
        {"function": event.function},
    )
    if event.effect is None:
        return ZeroCrossing(gap, event.direction, None, event.terminal, event.name)
    if field.delays:
        raise PlanError(f"event '{event.name}' has an effect; sensitivities with delays refuse it")
    own = [name for name in names if name in field.parameters]

    def by(rows: int) -> Callable[[Any], list[Any]]:
        def expressions(symbols: Symbols) -> list[Any]:
            places = [symbols.p[field.parameters.index(name)] for name in own]
            inputs = [*symbols.y, symbols.t, *places]
            return [slope.diff(one) for slope in symbols.slopes[:rows] for one in inputs]

        return expressions

    padded = function_from_text(
        f"def padded(t, y, p):\n    return (function(t, y, p), {'0.0, ' * (size - 1)})\n",
        {"function": event.function},
    )
    width = size + 1 + len(own)
    speed = " + ".join(f"g[{i}] * f[{i}]" for i in range(size))
    lines = [
        f"    f = field(t, {here}, p)\n    r = effect(t, {here}, p)\n",
        f"    after = field(t, {_tuple('r', size)}, p)\n",
        f"    g = gap_slopes(t, {here}, (), p)\n    e = effect_slopes(t, {here}, (), p)\n",
        f"    speed = g[{size}] + {speed}\n",
    ]
    terms = [f"r[{i}]" for i in range(size)]
    for k, name in enumerate(names):
        at = size * (k + 1)

        def along(row: int, slopes: str, at: int = at, name: str = name) -> str:
            parts = [f"{slopes}[{row * width + q}] * y[{at + q}]" for q in range(size)]
            if name in own:
                parts.append(f"{slopes}[{row * width + size + 1 + own.index(name)}]")
            return " + ".join(parts)

        lines.append(f"    moved_{k} = -({along(0, 'g')}) / speed\n")
        for i in range(size):
            carried = " + ".join(f"e[{i * width + q}] * f[{q}]" for q in range(size))
            change = f"{carried} + e[{i * width + size}] - after[{i}]"
            terms.append(f"{along(i, 'e')} + ({change}) * moved_{k}")
    functions = {
        "field": field.function,
        "effect": event.effect,
        "gap_slopes": _derivatives(f"event '{event.name}'", padded, field, by(1)),
        "effect_slopes": _derivatives(
            f"the effect of event '{event.name}'", event.effect, field, by(size)
        ),
    }
    text = f"def jump(t, y, p):\n{''.join(lines)}    return ({', '.join(terms)},)\n"
    act = function_from_text(text, functions)
    return ZeroCrossing(gap, event.direction, act, event.terminal, event.name)
