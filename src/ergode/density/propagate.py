"""Probability densities over time: from a vector field, a prior and measurements to results."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core import progress as progress_bar
from ergode.core.arguments import integer, time_grid
from ergode.core.errors import ModelError, PlanError
from ergode.core.results import Variable
from ergode.core.source import Precision
from ergode.density.diffusion import LONGEST
from ergode.density.evolution import Evolution, Limits, OutOfMemoryError
from ergode.density.initial import directions, lay_lattice, lay_prior, within
from ergode.density.noise import Noise, check_at, check_axes, noise_of
from ergode.density.record import Record, sharpness
from ergode.density.update import correct
from ergode.models.measurement import Measurement, in_order
from ergode.models.priors import Prior
from ergode.models.sweep import Layout, lay_out
from ergode.models.vector_field import VectorField, check_function

if TYPE_CHECKING:
    import xarray

Scheme = Literal["split", "corner-transport"]

results.register(
    "density",
    "moments",
    [
        Variable("mean", ("time", "variable"), "floating", "1", "mean of the density"),
        Variable(
            "covariance", ("time", "variable", "variable_"), "floating", "1",
            "covariance of the density",
        ),
        Variable(
            "mass_lost", ("time",), "floating", "1",
            "probability dropped so far: of the prior, by pruning and at missing neighbours",
        ),
        Variable(
            "mass_kept", ("time",), "floating", "1",
            "sum over cells before it is made one, since the latest measurement",
        ),
        Variable(
            "mass_pruned", ("time",), "floating", "1",
            "probability dropped by pruning since the latest measurement",
        ),
        Variable(
            "mass_out", ("time",), "floating", "1",
            "probability lost at missing neighbours, less what clipping at zero made, since the "
            "latest measurement",
        ),
        Variable("cell_count", ("time",), "integer", "1", "number of cells"),
        Variable(
            "cells_in_deviation", ("time", "variable"), "floating", "1",
            "standard deviation of the density's features, in cells: below about 2 they are not "
            "resolved",
        ),
        Variable(
            "log_evidence", ("measurement",), "floating", "1",
            "log probability density of what was measured, given all before",
        ),
        Variable(
            "prior_mean", ("measurement", "variable"), "floating", "1",
            "mean just before a measurement",
        ),
        Variable(
            "prior_covariance", ("measurement", "variable", "variable_"), "floating", "1",
            "covariance just before a measurement",
        ),
        Variable(
            "cell_start", ("time",), "integer", "1", "first cell of each time along dim cell"
        ),
        Variable(
            "coordinate", ("cell", "variable"), "integer", "1", "coordinates of cells, by time"
        ),
        Variable("mass", ("cell",), "floating", "1", "probability of cells, by time"),
        Variable("cells_stored", ("time",), "integer", "1", "cells of each time along dim cell"),
    ],
)  # fmt: skip

# A density of which more was dropped, or which is sharper, than this is not to be trusted.
_LOST_MOST = 0.01
_SHARPEST = 1.75
_THINNEST = 0.85
_STEPS_MOST = 1e7


def propagate(
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    measurements: Sequence[Measurement] = (),
    parameters: Mapping[str, float] | None = None,
    process_noise: ArrayLike | Callable[..., tuple[Any, ...]] | None = None,
    width: float | Sequence[float] | None = None,
    threshold: float | None = None,
    retained: float | None = None,
    scheme: Scheme = "split",
    device: str | devices.Device = "auto",
    precision: Precision = "float64",
    axes: Literal["variables", "principal"] | ArrayLike = "variables",
    conserved: Callable[..., tuple[Any, ...]] | None = None,
    region: Callable[..., tuple[Any, ...]] | None = None,
    keep: Literal["all", "last", "none"] = "all",
    cells_most: int | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Move a probability density with a field, and correct it by measurements.

    Between measurements the density obeys the Fokker-Planck equation, solved by finite volumes on
    a grid that has cells only where there is probability; a measurement multiplies it by its
    likelihood (Bayes' theorem).

    Parameters
    ----------
    field : VectorField
        The equations, without delays; evaluated on the faces of cells.
    prior : Gaussian, Mixture, Samples or Density
        The density at ``times[0]``.
    times : array_like, shape [time_count]
        Ascending times at which results are reported [time]. At the time of a measurement they
        are those after it.
    measurements : sequence of Measurement
        In any order; several may have one time.
    parameters : mapping of str to float or array_like
        Parameters of the field by name. Arrays, side by side or crossed by `ergode.grid`, are a
        batch: as many densities, of which no cells are kept, along dims of their own.
    process_noise : array_like or function, optional
        Q of white noise added to the equations [variable^2 / time]: covariance grows by Q a unit
        of time. A matrix, shape [variable_count, variable_count] - if it is not diagonal, the grid
        is turned to its axes - or variances alone, shape [variable_count]; or a function
        ``q(t, y, p)`` of the field's form that returns a tuple of the variances where the state
        is, in the sense of Ito. A field with a `diffusion` brings its own noise.
    width : float or sequence of float, optional
        Width of cells, of all or of each variable (of each axis, where the grid is turned). Half
        a standard deviation of the prior if not given: errors of a few per cent where the density
        keeps its size, more where it contracts. Halving it quarters them.
    threshold : float, optional
        Cells of less probability than this are dropped, unless probability flows into them. 1e-4
        of the largest cell of the prior if not given.
    retained : float, optional
        Instead: the probability to be kept over the whole run, such as 0.999. Half of what may be
        lost is shared between the prior and the measurements, the other half is lost evenly in
        time; the threshold follows from it whenever cells are dropped. With corner transport what
        is lost at missing neighbours comes on top.
    scheme : {"split", "corner-transport"}
        How mass moves: third-order sweeps, one dimension after the other, or the scheme of the
        published runs, with their box of three standard deviations as the prior.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    precision : {"float32", "float64"}
        Type of masses; sums are exact in either.
    axes : {"variables", "principal"} or array_like, shape [variable_count, variable_count]
        Directions of the grid: of the variables, the principal axes of the prior's covariance, or
        the columns of an orthogonal matrix.
    conserved : function, optional
        ``conserved(y, t, p)`` that returns a tuple with one quantity that the equations conserve,
        such as Jacobi's constant: cells where it is outside the range it has in the prior are
        never made.
    region : function, optional
        ``region(y, t, p)`` that returns a tuple with one number, positive where the density may
        be. Nothing leaves the region.
    keep : {"all", "last", "none"}
        Of which times the density itself is part of the result.
    cells_most : int, optional
        Stop when more cells than this would be needed, even if memory had room.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        mean(time, variable), covariance(time, variable, variable_), mass_lost(time),
        cell_count(time) and the books of mass; for each measurement the evidence and the moments
        before it; and the cells of all times, end to end (see `ergode.density.cells_at`).

    Raises
    ------
    ModelError
        Prior, measurements, parameters or noise do not suit the field.
    PlanError
        The run is not possible as asked.

    Warns
    -----
    RuntimeWarning
        More than 1 % of the probability was dropped, or the density is sharper than the grid can
        show: use smaller widths or a smaller threshold, or an ensemble (`ergode.trajectories`).
        Or the run ended early - memory, Ctrl-C: the result ends with the last good density.

    References
    ----------
    T. R. Bewley, A. S. Sharma, "Efficient grid-based Bayesian estimation of nonlinear
    low-dimensional systems with sparse non-Gaussian PDFs", Automatica 48 (2012).

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> result = ergode.density.propagate(
    ...     ergode.VectorField(decay, ["y"], ["rate"]), ergode.Gaussian([4.0], [1.0]),
    ...     times=[0, 1], parameters={"rate": 0.5}, width=0.1, device="cpu",
    ... )
    >>> round(float(result["mean"][-1, 0]), 2)
    2.43
    """
    if not isinstance(field, VectorField):
        raise ModelError(f"field is {type(field).__name__}; expected a VectorField")
    if field.delays:
        raise ModelError("the field has delays; a density obeys an equation without memory only")
    if not isinstance(prior, Prior):
        raise ModelError(
            f"prior is {type(prior).__name__}; expected Gaussian, Mixture, Samples or Density"
        )
    _check_choice("scheme", scheme, ("split", "corner-transport"))
    _check_choice("precision", precision, ("float32", "float64"))
    _check_choice("keep", keep, ("all", "last", "none"))
    grid = time_grid(times)
    prior = prior.by_name(field.variables)
    layout = lay_out(
        {"parameters": field.parameters}, {"parameters": {} if parameters is None else parameters}
    )
    if layout.dims:
        return _run_batch(
            layout, device, field=field, prior=prior, times=grid, measurements=measurements,
            process_noise=process_noise, width=width, threshold=threshold, retained=retained,
            scheme=scheme, precision=precision, axes=axes, conserved=conserved, region=region,
            cells_most=cells_most,
        )  # fmt: skip
    values = np.array([layout.rows[name][0] for name in field.parameters], np.float64)
    sorted_measurements = in_order(measurements, field, grid)
    if threshold is not None and not (
        isinstance(threshold, int | float | np.number) and 0 <= threshold < 1
    ):
        raise PlanError(f"threshold is {threshold!r}; expected a probability, 0 to below 1")
    if cells_most is not None:
        cells_most = integer("cells_most", cells_most, 1, 2**31)
    allowed = _allowed(retained, threshold, len(sorted_measurements), float(np.ptp(grid)))
    noise = noise_of(process_noise, field)
    lattice = lay_lattice(
        prior, width, directions(axes, prior, None if noise is None else noise.matrix)
    )
    check_axes(noise, lattice)
    if noise is not None:
        check_at(noise, prior.mean, grid[0], values)
        spread = float(np.nanmax(noise.spread(lattice), initial=0.0))
        steps = 2 * spread * (grid[-1] - grid[0]) / LONGEST
        if steps > _STEPS_MOST:
            raise PlanError(
                f"process_noise spreads the density over a cell in {0.5 / spread:.3g} of time, "
                f"which would take {steps:.1e} steps; use larger widths"
            )
    boxed = scheme == "corner-transport" and retained is None
    keys, mass, chosen, left_out = lay_prior(
        prior, lattice, threshold, boxed=boxed, cut=None if allowed is None else allowed[0]
    )
    limits = _limits(field, conserved, region)
    keys, mass, limits = within(limits, lattice, values, keys, mass)
    place = devices.resolve(device)
    started = clock.perf_counter()
    evolution = Evolution(
        field, lattice, values, scheme=scheme, threshold=chosen, device=place,
        precision=precision, noise=noise, limits=limits, cells_most=cells_most,
        loss_rate=None if allowed is None else allowed[1],
    )  # fmt: skip
    record = Record(lattice, grid, len(sorted_measurements), keep)
    run = _Run(
        evolution, record, sorted_measurements, values, left_out, allowed[0] if allowed else 0.0,
        progress,
    )  # fmt: skip
    run.go(keys, mass)
    return _dataset(
        field, record, sorted_measurements, chosen, noise, evolution,
        method=scheme,
        method_reason="the more accurate scheme" if scheme == "split" else "asked for",
        ended_early=run.ended_early,
        threshold_reason=_threshold_reason(threshold, retained),
        wall_seconds=clock.perf_counter() - started,
    )  # fmt: skip


def _run_batch(layout: Layout, device: str | devices.Device, **options: Any) -> xarray.Dataset:
    """Densities for many values of the parameters: on a CPU, one a thread."""
    import xarray

    place = devices.resolve(device)
    each: str | devices.Device = place if place.is_cuda else devices.resolve("cpu:1")
    started = clock.perf_counter()

    def one(index: int) -> xarray.Dataset:
        values = {name: float(row[index]) for name, row in layout.rows.items()}
        return propagate(parameters=values, device=each, keep="none", **options)

    first = one(0)  # compiles what all others use
    with ThreadPoolExecutor(1 if place.is_cuda else place.core_count) as pool:
        rest = list(pool.map(one, range(1, layout.count)))
    found = [first, *rest]
    kept = [name for name in first.data_vars if "cell" not in first[name].dims]
    flat = xarray.concat([one[kept] for one in found], "batch", combine_attrs="drop")
    shape = layout.shape
    arrays = {
        name: (
            (*layout.dims, *flat[name].dims[1:]),
            flat[name].values.reshape(*shape, *flat[name].shape[1:]),
            first[name].attrs,
        )
        for name in kept
    }
    work = {name: sum(one.attrs[name] for one in found) for name in ("steps", "cell_steps")}
    attrs = first.attrs | work | {"wall_seconds": clock.perf_counter() - started}
    coords = {name: first[name] for name in first.coords} | layout.coords
    return xarray.Dataset(arrays, coords=coords, attrs=attrs)


class _Run:
    """From time to time and from measurement to measurement."""

    def __init__(
        self,
        evolution: Evolution,
        record: Record,
        measurements: Sequence[Measurement],
        parameters: np.ndarray,
        left_out: float,
        may_lose: float,
        show: bool,
    ) -> None:
        self.evolution, self.record = evolution, record
        self.measurements, self.parameters = measurements, parameters
        self.may_lose, self.show = may_lose, show
        self.ended_early = ""
        self._lost = left_out  # before the latest measurement

    def go(self, keys: np.ndarray, mass: np.ndarray) -> None:
        """Run from the first time to the last."""
        grid = self.record.times
        events = np.union1d(grid, [m.time for m in self.measurements])
        self.evolution.load(float(grid[0]), keys, mass)
        label = "density"
        with progress_bar.track(label, len(events), unit="times", show=self.show) as report:
            try:
                for time in events.tolist():
                    self.evolution.advance(time)
                    for index, measurement in enumerate(self.measurements):
                        if measurement.time == time:
                            self._measure(index, measurement)
                    if time in grid:
                        self._note()
                    report(1)
            except (OutOfMemoryError, KeyboardInterrupt) as error:
                self._end_early(error)

    def _note(self) -> None:
        keys, mass = self.evolution.read()
        self.record.at_time(keys, mass, self.evolution.budget, self._lost)

    def _measure(self, index: int, measurement: Measurement) -> None:
        evolution = self.evolution
        keys, mass = evolution.read()
        after, evidence = correct(
            measurement, evolution.lattice, self.parameters, evolution.device, keys, mass
        )
        self.record.at_measurement(index, keys, mass, evidence)
        if not np.isfinite(evidence):
            raise PlanError(
                f"the measurement at time {measurement.time:g} is impossible: its likelihood is "
                "zero wherever the density is not"
            )
        cells = float(sharpness(evolution.lattice, keys, after).min())
        if cells < _THINNEST:
            warnings.warn(
                f"the measurement at time {measurement.time:g} leaves a density thinner than a "
                "cell: it lies far from the density, or its noise is narrower than the cells; its "
                "evidence, and what follows, are not to be trusted",
                RuntimeWarning,
                stacklevel=5,
            )
        budget = evolution.budget
        self._lost += budget["pruned"] + budget["lost"]
        evolution.load(evolution.time, keys, after, self.may_lose)
        evolution.prune()

    def _end_early(self, error: BaseException) -> None:
        if self.record.done == 0:
            raise error
        why = str(error) if isinstance(error, OutOfMemoryError) else "interrupted"
        keys, mass = self.evolution.read()
        self.record.stop(self.evolution.time)
        self.record.at_time(keys, mass, self.evolution.budget, self._lost)
        self.ended_early = why
        warnings.warn(
            f"the run ended at time {self.evolution.time:g}: {why}", RuntimeWarning, stacklevel=5
        )


def _dataset(
    field: VectorField,
    record: Record,
    measurements: Sequence[Measurement],
    threshold: float,
    noise: Noise | None,
    evolution: Evolution,
    **attrs: Any,
) -> xarray.Dataset:
    lattice, device = evolution.lattice, evolution.device
    values = record.finish()
    _warn(values, field.variables)
    notes = results.provenance(
        engine="density",
        device=device.name,
        device_model=device.model,
        device_reason=device.reason,
        precision=evolution.precision,
        model_digest=field.digest,
        threshold=threshold,
        centre=lattice.centre,
        width=lattice.width,
        axes=lattice.axes.ravel(),
        process_noise=_noise_note(noise),
        **evolution.work,
        **attrs,
    )
    names = list(field.variables)
    coords = {
        "time": record.times,
        "variable": names,
        "variable_": names,
        "measurement": [measurement.time for measurement in measurements],
    }
    return results.dataset("density", "moments", values, coords=coords, attrs=notes)


def _warn(values: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    said = []
    lost = np.nanmax(values["mass_lost"])
    if lost > _LOST_MOST:
        said.append(f"{100 * lost:.2g} % of the probability was dropped on the way")
    sharp = np.nanmin(values["cells_in_deviation"], axis=0)
    if sharp.min() < _SHARPEST:
        which = int(sharp.argmin())
        said.append(
            f"along '{names[which]}' a standard deviation of its features comes to "
            f"{sharp[which]:.2g} cells, so that what is thinner was smeared"
        )
    if said:
        warnings.warn(
            f"the density is not resolved: {' and '.join(said)}; use smaller widths or a smaller "
            "threshold, or an ensemble of trajectories",
            RuntimeWarning,
            stacklevel=4,
        )


def _noise_note(noise: Noise | None) -> np.ndarray | str:
    if noise is None:
        return np.zeros(0)
    return "a function of the state" if noise.matrix is None else noise.matrix.ravel()


def _threshold_reason(threshold: float | None, retained: float | None) -> str:
    if retained is not None:
        return f"at first; then what keeps {retained:g} of the probability"
    return "1e-4 of the prior's largest cell" if threshold is None else "asked for"


def _allowed(
    retained: float | None, threshold: float | None, measurement_count: int, duration: float
) -> tuple[float, float] | None:
    """What may be lost at once, of the prior and at each measurement, and a unit of time."""
    if retained is None:
        return None
    if threshold is not None:
        raise PlanError("threshold and retained are both given; expected one of them")
    if not (isinstance(retained, int | float | np.number) and 0 < retained < 1):
        raise PlanError(f"retained is {retained!r}; expected a probability between 0 and 1")
    lost = 1.0 - float(retained)
    return 0.5 * lost / (1 + measurement_count), 0.5 * lost / duration if duration > 0 else 0.0


def _check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise PlanError(f"{name} {value!r} is unknown; expected {' or '.join(map(repr, known))}")


def _limits(
    field: VectorField,
    conserved: Callable[..., tuple[Any, ...]] | None,
    region: Callable[..., tuple[Any, ...]] | None,
) -> Limits | None:
    if conserved is not None and region is not None:
        raise PlanError("conserved and region are both given; expected one of them")
    function = region if conserved is None else conserved
    if function is None:
        return None
    name = "region" if conserved is None else "conserved"
    arguments = {"y": len(field.variables), "t": None, "p": len(field.parameters)}
    check_function(function, arguments, ["value"], name)
    return Limits(function, 0.0 if conserved is None else np.nan, np.inf)
