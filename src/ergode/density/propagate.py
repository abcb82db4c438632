"""Probability densities over time: from a vector field, a prior and measurements to results."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import integer
from ergode.core.errors import PlanError
from ergode.core.results import Variable
from ergode.core.source import Precision
from ergode.density.diffusion import LONGEST
from ergode.density.evolution import Evolution
from ergode.density.initial import directions, lay_lattice, lay_prior, within
from ergode.density.noise import Noise, check_at, check_axes, noise_of
from ergode.density.record import Record
from ergode.density.run import Run
from ergode.density.specialize import Limits
from ergode.models.estimation import OF_MEASUREMENTS, estimation
from ergode.models.measurement import Measurement
from ergode.models.priors import Prior
from ergode.models.sweep import Layout
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
        Variable("time_reached", (), "floating", "time", "time up to which the density was found"),
        Variable(
            "cells_in_deviation", ("time", "variable"), "floating", "1",
            "standard deviation of the density's features, in cells: below about 2 they are not "
            "resolved",
        ),
        *OF_MEASUREMENTS,
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
        batch: as many densities, of which no cells are kept, along dims of their own. Each has a
        thread of the CPU, or a block on CUDA (a cluster of blocks, where they are few).
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
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`). A single density is shared by
        as many threads as it keeps busy; results do not depend on how many.
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
        Or the run ended early - memory, Ctrl-C: the result ends with the last good density. In a
        batch the others go on; what there was of this one is in the row of the first time that it
        did not reach, and ``time_reached`` tells when that was.

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
    _check_choice("scheme", scheme, ("split", "corner-transport"))
    _check_choice("precision", precision, ("float32", "float64"))
    _check_choice("keep", keep, ("all", "last", "none"))
    asked = estimation(field, prior, times, measurements, parameters)
    prior, grid, layout, values = asked.prior, asked.times, asked.parameters, asked.values
    sorted_measurements = asked.measurements
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
        check_at(noise, prior.mean, grid[0], values[0])
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
    given = _limits(field, conserved, region)
    place = devices.resolve(device)
    started = clock.perf_counter()
    many = bool(layout.dims)
    records = [
        Record(lattice, grid, len(sorted_measurements), "none" if many else keep)
        for _ in range(layout.count)
    ]
    work: list[dict[str, int]] = []
    ended_early = ""
    size = Evolution.count_that_fits(lattice.dimension, len(keys), place)
    for start, stop in devices.spans(layout.count, size):
        priors, limits = [], []
        for row in values[start:stop]:
            own_keys, own_mass, limit = within(given, lattice, row, keys, mass)
            priors.append((own_keys, own_mass))
            limits += [limit] if limit is not None else []
        evolution = Evolution(
            field, lattice, values[start:stop], scheme=scheme, threshold=chosen, device=place,
            precision=precision, noise=noise, limits=limits, cells_most=cells_most,
            loss_rate=None if allowed is None else allowed[1],
        )  # fmt: skip
        run = Run(
            evolution, records[start:stop], sorted_measurements, left_out=left_out,
            may_lose=allowed[0] if allowed else 0.0, show=progress,
        )  # fmt: skip
        run.go(priors)
        work.append(evolution.work)
        ended_early = ended_early or run.ended_early
    return _dataset(
        field, layout, records, sorted_measurements, place,
        method=scheme,
        method_reason="the more accurate scheme" if scheme == "split" else "asked for",
        precision=precision,
        threshold=chosen,
        threshold_reason=_threshold_reason(threshold, retained),
        process_noise=_noise_note(noise),
        ended_early=ended_early,
        wall_seconds=clock.perf_counter() - started,
        steps=sum(one["steps"] for one in work),
        cell_steps=sum(one["cell_steps"] for one in work),
        cell_count_most=max(one["cell_count_most"] for one in work),
    )  # fmt: skip


def _dataset(
    field: VectorField,
    layout: Layout,
    records: Sequence[Record],
    measurements: Sequence[Measurement],
    device: devices.Device,
    **attrs: Any,
) -> xarray.Dataset:
    import xarray

    lattice = records[0].lattice
    found = [record.finish() for record in records]
    _warn(found, field.variables)
    notes = results.provenance(
        engine="density",
        device=device.name,
        device_model=device.model,
        device_reason=device.reason,
        model_digest=field.digest,
        centre=lattice.centre,
        width=lattice.width,
        axes=lattice.axes.ravel(),
        **attrs,
    )
    names = list(field.variables)
    coords = {
        "time": records[0].times,
        "variable": names,
        "variable_": names,
        "measurement": [measurement.time for measurement in measurements],
    }
    first = results.dataset("density", "moments", found[0], coords=coords, attrs=notes)
    if not layout.dims:
        return first
    arrays = {}
    for name, variable in first.data_vars.items():
        if "cell" not in variable.dims:
            each = np.stack([values[str(name)] for values in found])
            arrays[name] = (
                (*layout.dims, *variable.dims),
                each.reshape(*layout.shape, *variable.shape),
                variable.attrs,
            )
    return xarray.Dataset(arrays, coords=dict(first.coords) | layout.coords, attrs=first.attrs)


def _warn(found: Sequence[Mapping[str, np.ndarray]], names: Sequence[str]) -> None:
    said = []
    lost = np.nanmax([values["mass_lost"] for values in found])
    if lost > _LOST_MOST:
        said.append(f"{100 * lost:.2g} % of the probability was dropped on the way")
    sharp = np.nanmin([values["cells_in_deviation"] for values in found], axis=(0, 1))
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
