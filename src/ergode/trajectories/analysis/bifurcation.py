"""Long-term behaviour: Poincare sections, bifurcation diagrams and basins of attraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import results
from ergode.core.arguments import by_name, choice, integer, number, refuse_idle, sequence
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.status import has_failed
from ergode.core.stopwatch import Stopwatch
from ergode.models.fields.vector_field import VectorField, check_field
from ergode.models.sweep import TRAJECTORY, Grid, refuse_reserved
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.integrate import integrate
from ergode.trajectories.labels import derived

if TYPE_CHECKING:
    import xarray

results.register(
    "trajectories",
    "sections",
    [
        Variable("section", (SWEPT, "hit", "variable"), "floating", "1", "state at a crossing"),
        Variable("section_time", (SWEPT, "hit"), "floating", "time", "time of a crossing"),
        Variable("section_count", (SWEPT,), "integer", "1", "crossings after the transient"),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
    ],
)
results.register(
    "trajectories",
    "basins",
    [
        Variable(
            "basin", (SWEPT,), "number", "1",
            "number of the attractor; -1 for none, NaN for trajectories that did not end",
        ),
        Variable("centre", ("attractor", "feature"), "floating", "1", "features of an attractor"),
        Variable(
            "share", ("attractor",), "floating", "1",
            "fraction of the trajectories that reached their end",
        ),
        Variable("status", (SWEPT,), "uint8", "1", "how the trajectory ended (see Status)"),
    ],
)  # fmt: skip


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def poincare_section(
    field: VectorField,
    *,
    section: ZeroCrossing | str,
    initial: Mapping[str, Any],
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    transient: float = 0.0,
    start_time: float = 0.0,
    record: int = 256,
    **options: Any,
) -> xarray.Dataset:
    """Poincare section: crossings of a surface after a transient.

    Parameters
    ----------
    field : VectorField
    section : ZeroCrossing or str
        Surface and direction of crossing; or the name of a variable, whose maxima are recorded.
    initial, parameters : mapping
        As for `integrate`; sweeps become dims.
    duration : float
        Duration of the recording, after the transient [time].
    transient : float
        Duration of the transient [time].
    start_time : float
        Time of the initial state [time]. A state of another run, with its time, continues that run:
        a forcing keeps its phase.
    record : int
        Number of most recent crossings to store.
    **options
        Options of `integrate`: method, tolerances, device ...

    Returns
    -------
    xarray.Dataset
        section(<swept dims>, hit, variable), section_time(<swept dims>, hit),
        section_count(<swept dims>), status(<swept dims>). Missing crossings are NaN.

    Raises
    ------
    ModelError
        The section is not a ZeroCrossing or the name of a variable.
    """
    begin = number("start_time", start_time)
    return _crossings(
        field, section, initial, begin, duration, parameters, transient, record, options
    )[0]


def _crossings(
    field: VectorField, section: ZeroCrossing | str, initial: Mapping[str, Any], begin: float,
    duration: float, parameters: Mapping[str, Any] | None, transient: float, record: int,
    options: dict[str, Any],
) -> tuple[xarray.Dataset, np.ndarray]:  # fmt: skip
    """A Poincare section, and the final states of its trajectories."""
    check_field(field)
    field.refuse_arrays("a section")
    for labels in (initial, parameters):
        refuse_reserved(labels, results.names("trajectories", "sections"))
    duration = number("duration", duration, above=0)
    transient = number("transient", transient, least=0)
    record = integer("record", record, 1, 2**31 - 1)
    event = _section(field, section)
    found = integrate(
        field, times=[begin, begin + transient + duration], initial=initial,
        parameters=parameters, events=[event], record=record, observe_from=begin + transient,
        **options,
    )  # fmt: skip
    values = {
        "section": found["event_state"].isel(event=0).values,
        "section_time": found["event_time"].isel(event=0).values,
        "section_count": found["event_count"].isel(event=0).values,
        "status": found["status"].values,
    }
    attrs = {"section": event.name, "transient": transient, "duration": duration}
    crossings = derived(found, "sections", values, {"variable": found["variable"]}, attrs)
    return crossings, found["state"].isel(time=-1).values


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def bifurcation_diagram(
    field: VectorField,
    *,
    parameter: str,
    values: ArrayLike,
    section: ZeroCrossing | str,
    initial: Mapping[str, Any],
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    transient: float = 0.0,
    start_time: float = 0.0,
    record: int = 64,
    continuation: str | None = None,
    frequency: str | None = None,
    **options: Any,
) -> xarray.Dataset:
    """Bifurcation diagram: Poincare sections over a range of one parameter.

    Parameters
    ----------
    field : VectorField
    parameter : str
        The parameter to vary.
    values : array_like
        Values of this parameter.
    section, initial, duration, parameters, transient, start_time, record, **options
        As for `poincare_section`; `parameters` are the other parameters.
    continuation : {None, "up", "down"}
        None: all values start from `initial` and run concurrently. "up", "down": the values run
        one after another, in the order of `values` or in reverse order, and each starts from the
        final state of the previous one. This shows hysteresis, as in an experiment. Time runs on
        from value to value, so that a forcing keeps its phase. Continuation does not support
        delays.
    frequency : str, optional
        With `continuation`: the parameter that multiplies time in the forcing, such as omega in
        cos(omega t). Where its value changes, time is set so that frequency times time, the phase,
        does not jump. Give it to sweep the frequency. If the phase is a variable of the field, it
        is not needed.

    Returns
    -------
    xarray.Dataset
        As from `poincare_section`, with the parameter as a dim. In a continuation `section_time`
        runs on.

    Raises
    ------
    ModelError
        The parameter or the frequency is unknown, or the parameter is given twice.
    PlanError
        The continuation is not None, "up" or "down", or is combined with delays or another sweep.
        A frequency is zero, or given without continuation.

    Examples
    --------
    >>> import ergode
    >>> def rossler(t, y, p):
    ...     return -y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - p[0])
    >>> field = ergode.VectorField(rossler, ["x", "y", "z"], ["c"])
    >>> diagram = ergode.trajectories.bifurcation_diagram(
    ...     field, parameter="c", values=[2.5, 3.5], section="x", record=8, transient=300,
    ...     initial={"x": 1, "y": 1, "z": 0}, duration=100, device="cpu",
    ... )
    >>> dict(diagram.sizes)
    {'c': 2, 'hit': 8, 'variable': 3}
    """
    check_field(field)
    others = by_name("parameters", parameters, "values")
    if not isinstance(parameter, str) or parameter not in field.parameters or parameter in others:
        what = "given twice" if parameter in list(others) else "not of the field"
        raise ModelError(f"parameter '{parameter}' is {what}; it has {', '.join(field.parameters)}")
    if not (frequency is None or (isinstance(frequency, str) and frequency in field.parameters)):
        raise ModelError(
            f"frequency {frequency!r} is not a parameter of the field; it has "
            f"{', '.join(field.parameters)}"
        )
    if continuation is None:
        refuse_idle(frequency=(frequency is not None, "there is no continuation"))
        crossed = Grid({parameter: values, **others})
        return poincare_section(
            field, section=section, initial=initial, duration=duration, parameters=crossed,
            transient=transient, start_time=start_time, record=record, **options,
        )  # fmt: skip
    choice("continuation", continuation, (None, "up", "down"))
    if field.delays:
        raise PlanError("continuation is for equations without delays: it starts from a state")
    if any(np.ndim(value) for value in (*others.values(), *initial.values())):
        raise PlanError("a continuation follows one trajectory: no other sweep is possible")
    import xarray

    stopwatch = Stopwatch()
    row = np.atleast_1d(np.asarray(values, float))
    order = range(row.size) if continuation == "up" else reversed(range(row.size))
    state, pieces = dict(initial), {}
    time, rate = number("start_time", start_time), 0.0
    for i in order:
        here = {parameter: float(row[i]), **others}
        if frequency is not None:
            now = number("frequency", here.get(frequency))
            if now == 0.0:
                raise PlanError(f"frequency '{frequency}' is zero; the forcing then has no phase")
            time *= rate / now if rate != 0.0 else 1.0
            rate = now
        pieces[i], end = _crossings(
            field, section, state, time, duration, here, transient, record, options
        )
        if np.isfinite(end).all():
            state = dict(zip(field.variables, map(float, end), strict=True))
            time += transient + duration
    index = xarray.Variable(parameter, row)
    together: xarray.Dataset = xarray.concat(
        [pieces[i] for i in range(row.size)], index, combine_attrs="override"
    )
    together.attrs |= stopwatch.seconds() | {"continuation": continuation}
    return together


@recorded(dict.fromkeys(("initial", "parameters"), TRAJECTORY))
def basins(
    field: VectorField,
    *,
    initial: Mapping[str, Any],
    duration: float,
    parameters: Mapping[str, Any] | None = None,
    attractors: ArrayLike | None = None,
    tolerance: float = 1e-2,
    observables: Any = (),
    transient: float = 0.0,
    start_time: float = 0.0,
    **options: Any,
) -> xarray.Dataset:
    """Basins of attraction: the attractor that each initial state leads to.

    Parameters
    ----------
    field : VectorField
    initial : mapping
        Initial states, such as ``ergode.grid(x=..., y=...)``.
    duration : float
        Duration of the integration [time].
    parameters : mapping, optional
        As for `integrate`.
    attractors : array_like, shape [attractor_count, feature_count], optional
        Features of the known attractors. By default the attractors are found by clustering:
        trajectories whose features differ by at most `tolerance` have one attractor.
    tolerance : float
        Largest distance of a trajectory from its attractor, in every feature.
    observables : sequence, optional
        Features of a trajectory, accumulated after the transient, for attractors that are not
        points. The default feature is the final state.
    transient : float
        Duration in which observables are ignored [time].
    start_time : float
        Time of the initial states [time]: the phase of a forcing at which the basins are cut.
    **options
        Options of `integrate`.

    Returns
    -------
    xarray.Dataset
        basin(<swept dims>), the number of the attractor, -1 for a trajectory near no attractor, and
        NaN for one that failed, was stopped or did not run; centre(attractor, feature), the
        features of an attractor; share(attractor), the fraction of trajectories that ended at the
        attractor, among those that reached their end; status(<swept dims>).

    Raises
    ------
    ModelError
        Attractors and trajectories have different numbers of features.
    """
    check_field(field)
    field.refuse_arrays("basins")
    for labels in (initial, parameters):
        refuse_reserved(labels, results.names("trajectories", "basins"))
    duration = number("duration", duration, above=0)
    transient = number("transient", transient, least=0)
    begin = number("start_time", start_time)
    observables = tuple(sequence("observables", observables, "observables"))
    refuse_idle(transient=(transient != 0 and not observables, "there are no observables"))
    found = integrate(
        field, times=[begin, begin + duration], initial=initial, parameters=parameters,
        observables=observables, observe_from=begin + transient if observables else None,
        **options,
    )  # fmt: skip
    if observables:
        names = [str(name) for name in found["observable"].values]
        features = found["observed"].values
    else:
        names, features = list(field.variables), found["state"].values[..., -1, :]
    rows = features.reshape(-1, len(names))
    status = found["status"].values
    followed = ~has_failed(status.ravel()) & np.isfinite(rows).all(axis=1)
    if attractors is None:
        centres = _clusters(rows[followed], tolerance)
    else:
        centres = np.atleast_2d(np.asarray(attractors, float))
        if centres.shape[1] != len(names):
            raise ModelError(
                f"attractors have {centres.shape[1]} features, and trajectories {len(names)}: "
                f"{', '.join(names)}"
            )
    basin = np.full(len(rows), -1, np.int64)
    for place, centre in enumerate(centres):
        near = (np.abs(rows - centre) <= tolerance).all(axis=1) & (basin < 0)
        basin[near & followed] = place
    ended = np.array([(basin == place).sum() for place in range(len(centres))], float)
    if not followed.all():
        basin = np.where(followed, basin, np.nan)
    values = {
        "basin": basin.reshape(status.shape), "centre": centres,
        "share": ended / followed.sum() if followed.any() else np.full(len(centres), np.nan),
        "status": status,
    }  # fmt: skip
    coords = {"attractor": np.arange(len(centres)), "feature": names}
    return derived(found, "basins", values, coords, {})


def _clusters(rows: np.ndarray, tolerance: float) -> np.ndarray:
    """Centres of clusters of rows, largest cluster first."""
    left = rows
    centres, sizes = [], []
    while len(left):
        near = (np.abs(left - left[0]) <= tolerance).all(axis=1)
        centre = np.median(left[near], axis=0)
        near |= (np.abs(left - centre) <= tolerance).all(axis=1)
        centres.append(centre)
        sizes.append(int(near.sum()))
        left = left[~near]
    order = np.argsort(-np.array(sizes, int), kind="stable")
    return np.array([centres[i] for i in order]).reshape(len(centres), rows.shape[1])


def _section(field: VectorField, section: ZeroCrossing | str) -> ZeroCrossing:
    if isinstance(section, ZeroCrossing):
        return section
    if not isinstance(section, str) or section not in field.variables:
        raise ModelError(
            f"section is {section!r}; expected a ZeroCrossing or one of the variables "
            f"{', '.join(field.variables)}"
        )
    i = field.variables.index(section)
    arguments = "t, y, yd, p" if field.delays else "t, y, p"
    slope = function_from_text(
        f"def slope_of_section({arguments}):\n    slopes = field({arguments})\n"
        f"    return slopes[{i}]\n",
        {"field": field.function},
    )
    return ZeroCrossing(slope, -1, name=f"maximum of {section}")
