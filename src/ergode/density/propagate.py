"""Public function `propagate`: from a field, a prior and measurements to a Dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import check_range, check_switch, choice, count_of, integer
from ergode.core.calls import launch
from ergode.core.calls.divide import Executor, StorePath, divisible
from ergode.core.calls.job import Job, Whole
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.stopwatch import Stopwatch
from ergode.density import outputs  # noqa: F401 - registers the variables of results
from ergode.density.choice import KILLING, WALLS, check_flow, choose, is_wide
from ergode.density.edges import closed, killing_of, limits_of, periods_of
from ergode.density.flow.bend import Bend, bend_of
from ergode.density.flow.check import check, smearing_warning
from ergode.density.flow.points import CUT
from ergode.density.flow.reliable import flow_warning
from ergode.density.flow.solve import FlowSolver
from ergode.density.grid.lattice import Lattice
from ergode.density.initial import check_lattices, directions, lay_lattice
from ergode.density.methods import GRIDS, METHODS, SchemeName
from ergode.density.noise import Noise, check_function_of_noise, check_noise, noise_of
from ergode.density.record import together
from ergode.density.resolution import SHARPEST, across, measured_scale, resolving_width
from ergode.density.solve import Solver, measurement_warning
from ergode.density.threshold import check_threshold, reason_of, thresholds_of
from ergode.models.cut import ROWS, axis_of_densities
from ergode.models.estimation.approach import ClosestApproach
from ergode.models.estimation.estimation import Estimation, estimation
from ergode.models.estimation.likelihood import undefined_warning
from ergode.models.estimation.maneuver import Maneuver, noted
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField

if TYPE_CHECKING:
    import xarray

_LOST_MOST = 0.01  # fraction of probability dropped, without a warning


@divisible("density", axis_of_densities, rows=ROWS)
def propagate(
    whole: Whole,
    field: VectorField,
    prior: Prior | Sequence[Prior],
    *,
    times: ArrayLike,
    measurements: Sequence[Measurement] = (),
    maneuvers: Sequence[Maneuver] = (),
    parameters: Mapping[str, float] | None = None,
    process_noise: ArrayLike | Callable[..., tuple[Any, ...]] | None = None,
    width: float | Sequence[float] | None = None,
    threshold: float | None = None,
    retained: float | None = None,
    scale_threshold: bool = True,
    lower_threshold: bool = False,
    scheme: SchemeName = "auto",
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    precision: Precision = "float64",
    axes: Literal["variables", "principal"] | ArrayLike = "variables",
    conserved: Callable[..., tuple[Any, ...]] | None = None,
    region: Callable[..., tuple[Any, ...]] | None = None,
    boundary: Literal["reflecting", "absorbing"] = "reflecting",
    killing_rate: Callable[..., tuple[Any, ...]] | None = None,
    periodic: Mapping[str, float] | None = None,
    closest_approach: ClosestApproach | None = None,
    keep: Literal["all", "last", "none"] | None = None,
    smooth: bool = False,
    max_cells: int | None = None,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
    checkpoint: float | None = None,
) -> Job:
    """Propagate a probability density by a field, and update it by measurements.

    Between measurements the density obeys the Fokker-Planck equation, solved by finite volumes on
    a grid that has cells only where there is probability; a measurement multiplies it by its
    likelihood (Bayes' theorem).

    Many densities can run at once, such as a bank of filters. They differ in priors, measured
    values or parameters. Lists of equal length run together along the dim ``trajectory``;
    parameters crossed by `ergode.grid` are dims of their own. Each density has its own grid, and
    runs on one CPU thread, or on CUDA in one block (a cluster of blocks, if there are few).
    Each result is bitwise equal to a separate run.

    Parameters
    ----------
    field : VectorField
        The equations, without delays; evaluated on the faces of cells. If the field depends on
        time, it is sampled at least 256 times between two ``times``, and its changes bound the
        steps. A pulse shorter than the interval between two samples may be missed: add its time
        to ``times``.
    prior : Gaussian, Mixture, Samples or Density, or a list of them
        The density at ``times[0]``. A list, or a Gaussian with an axis in front, gives one prior to
        each density.
    times : array_like, shape [time_count]
        Ascending times at which results are reported [time]. At the time of a measurement, results
        include the measurement.
    measurements : sequence of Measurement
        In any order; several may have the same time. A value with an axis in front gives one value
        to each density. The likelihood is taken at the centres of cells; where it jumps within a
        cell, its mean over 128 points of the cell counts.
    maneuvers : sequence of Maneuver
        Jumps of the state with their covariance, in any order. At equal times a maneuver acts
        before a measurement, and before results are reported. Its change moves the whole grid, and
        its covariance spreads mass between cells. Mean, covariance and total probability are exact,
        except for the effect of the threshold. Not with a `region` or a conserved quantity.
    parameters : mapping of str to float or array_like
        Parameters of the field by name.
    process_noise : array_like or function, optional
        Covariance Q of white noise added to the equations [variable^2 / time]: the covariance
        grows by Q per unit of time. One of three forms: a matrix of shape [variable_count,
        variable_count], and if it is not diagonal, the grid is rotated to its principal axes;
        variances of shape [variable_count]; or a function ``q(t, y, p)`` at the state (Ito) that
        returns a tuple of variances, or of all entries of Q, row by row. A field with a `diffusion`
        has its own noise, with the field's `correlation`.
    width : float or sequence of float, optional
        Width of cells, for all variables or for each (for each axis of a rotated grid). The
        default is half a standard deviation of the prior, or, with ``"split"``, of the narrowest
        posterior of a single measurement, if cells of half a deviation of the prior do not resolve
        it (by the linearised measurement at the prior's mean; up to about 130,000 cells). Errors
        are then a few per cent if the density keeps its size, and larger if it contracts. Halving
        the width divides the errors by four. With ``"flow"`` points are as far apart as the widths,
        relative to the prior's deviations; of several, the geometric mean counts.
    threshold : float, optional
        Cells of less probability than this are dropped, unless probability flows into them. The
        default is 1e-4 of the largest cell of the prior. It applies to cells at least half a
        standard deviation of the prior wide; see `scale_threshold` for smaller ones.
    retained : float, optional
        Instead of `threshold`: the probability to be kept over the whole run, such as 0.999. Half
        of the permitted loss is divided between the prior and the measurements. The other half is
        spread evenly over time. The threshold is chosen from this budget whenever cells are
        dropped. With corner transport, losses at missing neighbours are not part of the budget.
    scale_threshold : bool
        Whether the threshold is lower for smaller cells: in proportion to their volume and, in
        addition, to the cube of their width. Halving the width then reduces the truncation error
        by more than the error of the scheme. False: one threshold for all widths, as in the
        published runs; a smaller width then cuts more of the tails.
    lower_threshold : bool
        Whether to repeat a run with a threshold 1000 times smaller if a measurement lies in the
        tail that the threshold cut off. The run is repeated at most four times. It is of no use for
        a prior of `Samples`, which has no further tail.
    scheme : str
        How mass moves. ``"auto"`` is ``"flow"`` for priors that are Gaussians or mixtures, and
        otherwise ``"split"``. It is ``"split"`` as well with strong noise, a region, a conserved
        quantity, an option of the grid such as `width` or `threshold`, or more than 100 measured
        values of all densities. ``attrs["method_reason"]`` says why. ``"flow"`` has no numerical
        diffusion. With noise its cells are Gaussians, computed in float64.
        `width`, relative to the prior's deviations, is then the distance between its points
        (default 0.5, less in one dimension and more in more than four). Where measurements leave
        few, new points are laid in the posterior at the first time. Cells of the result are images
        of the points' cells. The schemes:

        - ``"split"``: third-order sweeps, one dimension after the other; for every density
        - ``"corner-transport"``: the scheme of the published runs, with their box of three standard
          deviations as the prior; for comparison with those runs
        - ``"flow"``: cells of the prior keep their mass and move with the field; for densities
          without walls or strong noise, above all those that travel far
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`). A single density is shared by
        as many threads as it keeps busy; results do not depend on how many.
    keep_on_device : bool
        Whether the cells stay on the device: the call returns a `DeviceResult` of NumPy arrays
        (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read without a copy. Its other variables
        are computed on the host. Not with `executor` or `store`.
    precision : {"float32", "float64"}
        Type of masses and rates; sums are exact in both. Numbers out of its range are refused, and
        so are cells so narrow that their coordinates would be equal.
    axes : {"variables", "principal"} or array_like, shape [variable_count, variable_count]
        Directions of the grid: of the variables, the principal axes of the prior's covariance, or
        the columns of an orthogonal matrix.
    conserved : function, optional
        ``conserved(y, t, p)`` returns a tuple with one quantity that the equations conserve, such
        as the Jacobi constant. Cells are made only where it is within its range in the prior.
    region : function, optional
        ``region(y, t, p)`` returns a tuple with one number, positive inside the allowed region.
        The prior is restricted to it. The `boundary` says what its edge does.
    boundary : {"reflecting", "absorbing"}
        ``"reflecting"``: no probability leaves the `region`. Its edge cuts cells, and errors fall
        with the square of the width if the function has a slope at the edge. A function without,
        such as one of values 1 and -1, has its edge along faces of cells. A prior of `Samples`
        should be inside. ``"absorbing"``: probability that reaches the edge leaves. The
        result has the law of first passage, ``mass_absorbed``, and ``survival``. The edge lies
        where the function is zero between two centres (linearly). With noise across the edge,
        errors fall nearly with the square of the width; without, this is so for an edge along
        faces, and an oblique edge has errors in proportion to the width.
    killing_rate : function, optional
        ``killing_rate(y, t, p)`` returns a tuple with one rate, not negative [1 / time]:
        probability vanishes at this rate, as by decay, capture or failure (the killing of a
        process). On a grid a step is at most half of the time 1 / rate. With ``"flow"`` the rate is
        integrated along each path.
    periodic : mapping of str to float, optional
        Period of each variable that is an angle, such as ``{"theta": 2 * math.pi}``. Its cells
        close a circle; they are a little narrower than `width`, so that they divide the period. The
        field, and all other functions of the state, must have the period. A mean is that of the
        short ways from the mean direction, within half a period of the prior's mean, and a variance
        is that of the short ways: at most that of a uniform angle, a twelfth of the squared period.
        Not with rotated `axes`.
    closest_approach : ClosestApproach, optional
        Span of time, and radii, for the law of the least distance along paths, such as the
        probability of a collision. Only with ``"flow"``, and without noise. It is that of the
        density given the measurements up to the beginning of the span (with `smooth`, all
        measurements). Paths that end within the span, such as by a fall into a singularity, count
        with their distance up to then. Several approaches to an object have a call each, or the
        span should have one.
    keep : {"all", "last", "none"}, optional
        Times at which the density itself is part of the result. The default is ``"all"`` for a
        single density, and ``"none"`` for many.
    smooth : bool
        Whether results at every time are given all measurements, later ones too (fixed-interval
        smoothing). By default they are given the measurements up to then (filtering). The variables
        of a measurement, such as its evidence, are the filter's. Only with ``"flow"``; noise is
        weak.
    max_cells : int, optional
        Limit on the number of cells. A run that needs more cells ends, even if memory is free.
    progress : bool
        Show progress on standard error.
    executor : concurrent.futures.Executor, optional
        Computes parts of many densities on its workers: a process pool, Dask, MPI. The result is
        bitwise equal to that without it.
    store : path, optional
        A folder such as ``"run.zarr"`` to which finished parts are written. A repeated call
        computes only the missing parts.
    chunk : int, optional
        Number of densities in a part; the default is 1/64 of all.
    checkpoint : float, optional
        Seconds between two checkpoints of a part in `store`. The same call again goes on
        from the latest; the result has the same bits.

    Returns
    -------
    xarray.Dataset
        mean(time, variable), ``covariance(time, variable, variable_)``, mass_lost(time),
        cell_count(time) and the mass balance; for each measurement the evidence, the moments
        before it, whether a gate left it out (``left_out``) and whether the posterior can be
        trusted (``posterior_cut``, ``posterior_shift``, ``evidence_shift``,
        ``posterior_cells_in_deviation``); and the cells of all times, end to end (see
        `ergode.density.cells_at`). ``unreliable_from`` is the first time from which the
        density may be wrong, by a measurement or by transport: the alarm of measurements is
        cautious, and a shift is what the error could be, not what it is. ``mean_error`` and
        ``deviation_error`` are differences from points that follow the flow, which have no
        numerical diffusion; they are missing if the density moved too little to be smeared.
        The grid's centre, width and axes, and the threshold.
        With a `closest_approach`, ``approach_probability(radius)`` and ``approach_error(radius)``,
        an estimate of its error: by the width of the windows around points, and by the mass that
        the lattice leaves out, for an approach at its edge (`retained` makes it less).
        With an absorbing boundary or a killing rate, ``survival(time)`` is the probability that is
        left, and ``mass_absorbed`` and ``mass_killed`` are what has been taken by then.
        ``result["mass_absorbed"].differentiate("time")`` is the density of the time of first
        passage. Means, covariances and cells are those given survival. What is measured has
        survived: evidence is that given survival, and after a measurement these are
        probabilities since then.
        Of many densities all but the cells have their dims in front:
        ``result.isel(trajectory=3)`` is one of them.

    Raises
    ------
    ModelError
        Prior, measurements, parameters or noise do not suit the field.
    PlanError
        The run is not possible as requested.

    Warns
    -----
    PerformanceWarning
        The prior has far more cells than are needed to resolve it.
    AccuracyWarning
        More than 1 % of the probability was dropped, or the density is sharper than the grid can
        show; transport has smeared the density on its way; or a measurement lies in a tail that
        had been cut or smeared, or outside of the grid. The message says what to change, and
        suggests a width. Or use an ensemble (`ergode.particles`).
    FailureWarning, InterruptionWarning
        The run ended early - memory, a field that is not finite, an impossible measurement, Ctrl-C:
        the result ends with the last valid density, at ``time_reached``. Other densities of the
        call continue, and values that this one did not reach are missing (NaN). ``status`` is DONE,
        NO_ROOM, NOT_FINITE, OUT_OF_LATTICE, IMPOSSIBLE, INTERRUPTED or NOT_RUN.

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
    stopwatch = Stopwatch()
    choice("scheme", scheme, ("auto", *METHODS))
    choice("precision", precision, PRECISIONS)
    check_switch("propagate", "scale_threshold", scale_threshold)
    check_switch("propagate", "lower_threshold", lower_threshold)
    check_switch("propagate", "smooth", smooth)
    if keep is not None:
        choice("keep", keep, ("all", "last", "none"))
    _check_room(1, count_of(times), 1)  # before they are read, which takes long for many times
    names = results.names("density", "moments")
    asked = estimation(
        field, prior, times, measurements, parameters, maneuvers, reserved=names
    )  # fmt: skip
    grid, layout = asked.times, asked.layout
    values = asked.values
    keep = keep or ("none" if layout.dims else "all")
    if max_cells is not None:
        max_cells = integer("max_cells", max_cells, 1, 2**31)
    limits = limits_of(field, conserved, region, boundary)
    killing = killing_of(field, killing_rate)
    periods = periods_of(asked, periodic)
    also = KILLING if killing is not None else ""
    also = also or ("periodic variables" if periods is not None else "")
    if limits is not None and asked.maneuvers:
        name = "region" if conserved is None else "conserved"
        raise PlanError(
            f"maneuvers and {name} are both given; expected one of them, because a jump may carry "
            "probability outside"
        )
    noise = noise_of(process_noise, field, may_cross=True)
    if noise is not None and noise.is_crossed and region is not None:
        raise PlanError(
            "a region is for noise without covariances that depend on the state; give "
            "process_noise as a matrix, or as a function that returns variances"
        )
    check_function_of_noise(noise, asked.priors, float(grid[0]), values)
    check_range({name: layout.rows[name] for name in field.parameters} | {"times": grid}, precision)
    given = {
        "width": width is not None, "threshold": threshold is not None,
        "lower_threshold": lower_threshold, "scale_threshold": not scale_threshold,
        "max_cells": max_cells is not None,
    }  # fmt: skip
    device = devices.resolve(device)
    of_carrier: dict[str, Any] = {"device": device, "precision": precision}
    if is_wide(asked, noise):
        of_carrier |= {"precision": "float64", "noise": noise}
    of_carrier |= {"killing": killing, "periods": periods}
    reason, approach = "asked for", None
    bend: Bend | None = None
    if closest_approach is not None:
        if not isinstance(closest_approach, ClosestApproach):
            raise ModelError(
                f"closest_approach is {closest_approach!r}; expected an ergode.ClosestApproach"
            )
        approach = closest_approach.of(asked)
    if scheme == "auto":
        scheme, reason, bend = whole.decided_once(
            "scheme",
            lambda: choose(
                asked, noise, limits, also, of_carrier, smooth=smooth,
                approach=approach is not None, **given,
            ),
        )  # fmt: skip
    on_grid = GRIDS.get(scheme)
    if smooth and on_grid is not None:
        raise PlanError(
            f"smooth=True is for scheme='flow'; '{scheme}' forgets where mass came from"
        )
    if approach is not None and on_grid is not None:
        raise PlanError(f"closest_approach is for scheme='flow'; {WALLS}")
    if smooth and not asked.measurements:
        raise PlanError("smooth=True has no effect without measurements")
    on_axes = noise
    if noise is not None and on_grid is not None and periods is not None and region is None:
        on_axes = noise.along_variables()  # periods are along them
    turned = None if on_axes is None or on_grid is None else on_axes.matrix
    boxed = on_grid is not None and on_grid.boxed
    each = _lattices(asked, width, axes, turned, narrows=width is None and not boxed)
    each = closed(each, periods)
    check_lattices(each + _moved(each, asked), precision)
    if on_grid is not None:
        check_noise(on_axes, each, grid)
    check_threshold(threshold, retained)
    jumps = whole.decided("maneuvers", noted(asked.maneuvers))
    if on_grid is None:
        check_flow(
            asked, noise, limits, also, smooth=smooth, approach=approach is not None, **given
        )
    else:
        solver_of_grid = Solver(
            asked, each, limits, **thresholds_of(asked, each, threshold, retained, scale_threshold),
            boxed=boxed and retained is None, keep=keep,
            show=progress,
            options={
                "scheme": scheme, "device": device, "precision": precision, "noise": on_axes,
                "max_cells": max_cells, "killing": killing,
            },
        )  # fmt: skip
        solver_of_grid.check_counts()

    def compute() -> xarray.Dataset:
        _check_room(layout.count, grid.size, len(field.variables))
        solver: Solver | FlowSolver
        if on_grid is None:
            solver = FlowSolver(
                asked, each, _spacings(asked, width), CUT if retained is None else 1.0 - retained,
                keep=keep, show=progress,
                options=of_carrier, is_wide=is_wide(asked, noise), smooth=smooth, approach=approach,
            )  # fmt: skip
            if solver.is_wide:
                solver.bend = bend or bend_of(asked, of_carrier)
            solver.solve()
            found = together(solver.records)
            warnings = [flow_warning(solver)]
        else:
            solver = solver_of_grid
            solver.solve()
            if lower_threshold:
                solver.solve_cut_ones_again()
            is_plain = limits is None and not also
            if is_plain:
                check(asked, solver.records, on_grid.steps_to_smear, noise, whole.first_row)
            found = together(solver.records)
            smaller = resolving_width(found, each, scheme)
            _warn(found, field.variables, each, smaller)
            cure = "smaller widths, or ergode.particles"
            warnings = [
                measurement_warning(solver, lower_threshold, smaller),
                smearing_warning(
                    solver.records, cure if noise else "scheme='flow', or smaller widths"
                ),
            ]
        warnings.append(undefined_warning(solver.undefined, field.variables))
        for said in warnings:
            if said:
                launch.warn(said, AccuracyWarning)
        attrs = results.provenance(
            stopwatch,
            engine="density",
            method=scheme,
            method_reason=reason,
            device=device.name,
            device_model=device.model,
            device_reason=device.reason,
            precision=precision,
            model_digest=field.digest,
            threshold_reason=(
                "no cells are dropped" if on_grid is None else reason_of(threshold, retained)
            ),
            scale_threshold=int(scale_threshold),
            lower_threshold=int(lower_threshold),
            smoothed=int(smooth),
            process_noise=_noise_note(noise),
            **jumps,
            ended_early=solver.ended_early,
            **solver.work,
        )
        return _dataset(solver, found, attrs)

    return Job(compute, log.choice(scheme, reason, device))


def _lattices(
    asked: Estimation, width: Any, axes: Any, turned: np.ndarray | None, narrows: bool
) -> list[Lattice]:
    """The lattice of each density; those with one prior and equal widths share one.

    With `narrows`, measurements make default widths smaller.
    """
    made: dict[tuple[int, float], Lattice] = {}
    found = []
    places = asked.layout.beside
    for which, prior in enumerate(asked.priors):
        scale = measured_scale(asked, which, int(places[which])) if narrows else 1.0
        if (id(prior), scale) not in made:
            lattice = lay_lattice(prior, width, directions(axes, prior, turned), scale)
            made[id(prior), scale] = lattice
        found.append(made[id(prior), scale])
    return found


def _spacings(asked: Estimation, width: Any) -> list[float | None]:
    """Spacing of the points of each prior in its deviations, from widths; None: the default."""
    if width is None:
        return [None] * len(asked.priors)
    found: dict[int, float] = {}
    for prior in asked.priors:
        ratio = np.asarray(width, np.float64) / np.sqrt(np.diag(prior.covariance))
        found[id(prior)] = float(np.exp(np.log(ratio).mean()))
    return [found[id(prior)] for prior in asked.priors]


def _moved(lattices: Sequence[Lattice], asked: Estimation) -> list[Lattice]:
    """The lattices after each maneuver."""
    found: list[Lattice] = []
    last, places = lattices, asked.layout.beside
    for one in asked.maneuvers:
        last = [lattice.moved(by) for lattice, by in zip(last, one.changes(places), strict=True)]
        found += last
    return found


def _check_room(density_count: int, time_count: int, variable_count: int) -> None:
    """Refuse more moments than there is memory for."""
    launch.check_room(
        16 * density_count * time_count * ((variable_count + 2) ** 2 + 8),
        f"an array of moments of {density_count:,} densities at {time_count:,} times",
        "use fewer of them",
    )  # fmt: skip


def _dataset(
    solver: Solver | FlowSolver, found: Mapping[str, np.ndarray], attrs: Mapping[str, Any]
) -> xarray.Dataset:
    """The result: the values `found` for all densities, with the dims of densities in front."""
    asked, layout = solver.asked, solver.asked.layout
    names = list(asked.field.variables)
    coords = layout.coords | {
        "time": solver.records[0].times,
        "variable": names,
        "variable_": names,
        "measurement": [measurement.time for measurement in asked.measurements],
    }
    approach = getattr(solver, "approach", None)
    if approach is not None:
        coords["radius"] = approach[0].radii
    every = {**found, "threshold": solver.used, "unreliable_from": solver.unreliable_from}
    shaped = {
        name: value if name in ("coordinate", "mass")
        else value.reshape((*layout.shape, *value.shape[1:]))
        for name, value in every.items()
    }  # fmt: skip
    return results.dataset(
        "density", "moments", shaped, coords=coords, attrs=attrs, swept=layout.dims,
        has_warned=True,
    )  # fmt: skip


def _warn(
    found: Mapping[str, np.ndarray], names: Sequence[str], lattices: Sequence[Lattice], smaller: str
) -> None:
    said = []
    lost = np.fmax.reduce(found["mass_lost"], axis=1)
    if lost.max() > _LOST_MOST:
        said.append(
            f"{100 * lost.max():.2g} % of the probability was dropped - use a smaller "
            "threshold, or retained"
        )
    sharp = np.fmin.reduce(found["cells_in_deviation"], axis=1)
    least = np.fmin(sharp.min(axis=1), across(found["covariance"], lattices))
    if least.min() < SHARPEST:
        axis = int(sharp.min(axis=0).argmin())
        where = f"axis {axis} of the grid" if lattices[0].is_rotated else f"'{names[axis]}'"
        along = sharp.min() < SHARPEST
        said.append(
            f"{f'along {where}' if along else 'across its narrowest direction'} its features have "
            f"a standard deviation of {sharp.min() if along else least.min():.2g} cells, and "
            f"finer ones were smeared - use smaller widths{smaller}"
        )
    if said:
        count = ((lost > _LOST_MOST) | (least < SHARPEST)).sum()
        who = (
            "the density is not resolved" if lost.size == 1
            else f"{count} of {lost.size} densities are not resolved; at worst"
        )  # fmt: skip
        launch.warn(f"{who}: {'; '.join(said)}; or an ensemble (ergode.particles)", AccuracyWarning)


def _noise_note(noise: Noise | None) -> np.ndarray | str:
    if noise is None:
        return np.zeros(0)
    return "a function of the state" if noise.matrix is None else noise.matrix.ravel()
