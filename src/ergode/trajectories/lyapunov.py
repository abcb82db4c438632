"""Lyapunov exponents: how fast neighbours part.

Beside a trajectory its tangent vectors are followed, v' = J v (with delays, and what the delayed
values do to it), as more variables of one larger field.  Without delays they are made orthonormal
again at intervals, and what their lengths were is summed up.

G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Meccanica 15, 9 and 21 (1980);
J. D. Farmer, Physica D 4, 366 (1982) for delay equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import devices, results
from ergode.core.arguments import integer
from ergode.core.errors import PlanError
from ergode.core.results import SWEPT, Variable
from ergode.core.source import function_from_text
from ergode.models.sweep import lay_out
from ergode.models.vector_field import VectorField
from ergode.trajectories.derivatives import Symbols, function_of
from ergode.trajectories.integrate import integrate
from ergode.trajectories.methods import METHODS
from ergode.trajectories.runner import Runner, control_of

if TYPE_CHECKING:
    import xarray

_WINDOW = 64  # times in the longest delay at which a tangent is measured

results.register(
    "trajectories",
    "exponents",
    [Variable("exponent", (SWEPT, "exponent_number"), "floating", "1/time", "Lyapunov exponent")],
)


def lyapunov_spectrum(
    field: VectorField,
    *,
    initial: Mapping[str, Any],
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    count: int | None = None,
    transient: float = 0.0,
    interval: float = 1.0,
    step: float | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    device: str | devices.Device = "auto",
    history: Any = None,
) -> xarray.Dataset:
    """Lyapunov exponents of many trajectories, the largest first.

    Parameters
    ----------
    field : VectorField
        Its Jacobian is derived by SymPy, or taken as differences along the tangents where that
        cannot be.
    initial, parameters : mapping
        As for `integrate`; sweeps become dims.
    duration : float
        Time over which exponents are averaged, after the transient [time].
    count : int, optional
        How many exponents; all if not given. With delays only the largest is computed.
    transient : float
        Time to forget the beginning [time].
    interval : float
        Time after which tangents are made orthonormal again [time].
    step : float, optional
        With delays: the step of `integrate`.
    rtol, atol : float
        Tolerances, without delays.
    device : str or Device
    history : function, optional
        With delays: as for `integrate`.

    Returns
    -------
    xarray.Dataset
        exponent(<swept dims>, exponent_number) [1 / time].

    Raises
    ------
    PlanError
        More exponents than there are, or more than one with delays, or no step with delays.

    Examples
    --------
    >>> import ergode
    >>> def saddle(t, y, p):
    ...     return p[0] * y[0], -2.0 * y[1]
    >>> field = ergode.VectorField(saddle, ["x", "y"], ["rate"])
    >>> found = ergode.trajectories.lyapunov_spectrum(
    ...     field, initial={"x": 0, "y": 0}, parameters={"rate": 0.5}, duration=10, device="cpu"
    ... )
    >>> found["exponent"].values.round(6).tolist()
    [0.5, -2.0]
    """
    most = 1 if field.delays else len(field.variables)
    wanted = most if count is None else integer("count", count, 1, most)
    if field.state_dependent:
        raise PlanError("Lyapunov exponents are for delays that do not depend on the state")
    extended = with_tangents(field, wanted)
    layout = lay_out(
        {"initial": field.variables, "parameters": field.parameters},
        {"initial": initial, "parameters": {} if parameters is None else parameters},
    )
    place = devices.resolve(device)
    if field.delays:
        if step is None:
            raise PlanError("with delays a step is needed")
        exponents = _of_delays(
            field, extended, initial, parameters, transient, duration, step, place, history
        )
    else:
        rows = np.array([layout.rows[name] for name in field.variables], float)
        others = np.array([layout.rows[name] for name in field.parameters], float).reshape(
            len(field.parameters), layout.count
        )
        control = control_of({"rtol": rtol, "atol": atol})
        method = METHODS["tsit5"]
        if transient > 0:
            before = Runner(
                field, method, control, times=np.array([0.0, transient]), device=place,
                precision="float64",
            )  # fmt: skip
            rows = before.integrate(rows, others, lambda _: None).states[-1]
        segments = max(1, round(duration / interval))
        runner = Runner(
            extended, method, control, times=np.array([transient, transient + 1.0]), device=place,
            precision="float64",
        )  # fmt: skip
        times = transient + np.linspace(0.0, duration, segments + 1)
        exponents = _of_segments(runner, rows, others, wanted, times)
    attrs = results.provenance(
        engine="trajectories", method="tangents", device=place.name, transient=transient,
        duration=duration, model_digest=field.digest, trajectories=layout.count,
    )  # fmt: skip
    coords = {**layout.coords, "exponent_number": np.arange(wanted)}
    values = {"exponent": exponents.reshape((*layout.shape, wanted))}
    return results.dataset(
        "trajectories", "exponents", values, coords=coords, attrs=attrs, swept=layout.dims
    )


def _of_segments(
    runner: Runner, rows: np.ndarray, others: np.ndarray, wanted: int, times: np.ndarray
) -> np.ndarray:
    """Exponents [trajectory, exponent] by orthonormalising after every segment."""
    size, trajectories = rows.shape
    tangents = np.broadcast_to(np.eye(size)[:, :wanted], (trajectories, size, wanted))
    sums = np.zeros((trajectories, wanted))
    for begin, end in zip(times[:-1], times[1:], strict=True):
        flat = tangents.transpose(2, 1, 0).reshape(size * wanted, trajectories)
        outcome = runner.at(np.array([begin, end])).integrate(
            np.concatenate([rows, flat]), others, lambda _: None
        )
        state = outcome.states[-1]
        rows = state[:size]
        grown = state[size:].reshape(wanted, size, trajectories).transpose(2, 1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            tangents, lengths = np.linalg.qr(grown)
            sums += np.log(np.abs(np.diagonal(lengths, axis1=1, axis2=2)))
    return sums / (times[-1] - times[0])


def _of_delays(
    field: VectorField, extended: VectorField, initial: Mapping[str, Any], parameters: Any,
    transient: float, duration: float, step: float, place: devices.Device, history: Any,
) -> np.ndarray:  # fmt: skip
    """The largest exponent [trajectory, 1], from the growth of a tangent over a whole delay."""
    size = len(field.variables)
    longest = max(float(np.max((parameters or {})[delay])) for _, delay in field.delays)
    window = np.linspace(-longest, 0.0, _WINDOW)
    first, last = transient + longest, transient + longest + duration
    times = np.concatenate([[0.0], first + window, last + window])
    start = type(initial)({**initial, **{name: 1.0 for name in extended.variables[size:]}})  # type: ignore[call-arg]
    past = None
    if history is not None:
        inner = "".join(f"values[{i}], " for i in range(size)) + "1.0, " * size
        past = function_from_text(
            f"def past(t):\n    values = history(t)\n    return ({inner})\n", {"history": history}
        )
    states = integrate(
        extended, times=np.unique(times), initial=start, parameters=parameters, step=step,
        method="rk4", device=place, history=past,
    )["state"].values  # fmt: skip
    tangents = states.reshape(-1, *states.shape[-2:])[..., size:]
    at = np.searchsorted(np.unique(times), times[1:])
    norms = np.linalg.norm(tangents[:, at].reshape(len(tangents), 2, -1), axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(norms[:, 1:] / norms[:, :1]) / duration


def with_tangents(field: VectorField, count: int) -> VectorField:
    """The field with `count` tangent vectors as further variables."""
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
        names["jacobian"] = function_of("jacobian", "t, y, yd, p", symbols.jacobian())
        lines.append(f"    j = jacobian(t, ({here}), ({there}), p)\n")
        if field.delays:
            names["coupling"] = function_of("coupling", "t, y, yd, p", symbols.delayed_jacobian())
            lines.append(f"    c = coupling(t, ({here}), ({there}), p)\n")
        for k in range(count):
            at = size * (k + 1)
            for i in range(size):
                parts = [f"j[{i * size + q}] * y[{at + q}]" for q in range(size)]
                parts += [
                    f"c[{i * delay_count + d}] * yd[{delay_count + d}]" for d in range(delay_count)
                ]
                terms.append(" + ".join(parts))
    except Exception:  # no symbols: differences to both sides along each tangent
        for k in range(count):
            at = size * (k + 1)
            for side, sign in (("up", "+"), ("down", "-")):
                moved = "".join(f"y[{q}] {sign} 1e-6 * y[{at + q}], " for q in range(size))
                past = "".join(
                    f"yd[{d}] {sign} 1e-6 * yd[{delay_count + d}], " for d in range(delay_count)
                )
                middle = f"({past}), " if field.delays else ""
                lines.append(f"    {side}_{k} = field(t, ({moved}), {middle}p)\n")
            terms += [f"(up_{k}[{i}] - down_{k}[{i}]) / 2e-6" for i in range(size)]
    own = "".join(f"f[{i}], " for i in range(size))
    text = f"def tangents({arguments}):\n{''.join(lines)}    return ({own}{', '.join(terms)},)\n"
    tangents = [f"tangent {k} of {name}" for k in range(count) for name in field.variables]
    further = [(f"tangent 0 of {name}", delay) for name, delay in field.delays]
    return VectorField(
        function_from_text(text, names),
        [*field.variables, *tangents],
        field.parameters,
        [*field.delays, *further],
    )
