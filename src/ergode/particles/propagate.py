"""A density over time by particles: from a vector field, a prior and measurements to results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, launch, results
from ergode.core import progress as progress_bar
from ergode.core.arguments import choice, integer
from ergode.core.errors import AccuracyWarning, PlanError
from ergode.core.results import Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.estimation.estimation import Estimation, estimation, of_measurements
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField
from ergode.particles.cloud import Cloud, moments
from ergode.particles.noise import pushed

if TYPE_CHECKING:
    import xarray

results.register(
    "particles",
    "moments",
    [
        Variable("mean", ("time", "variable"), "floating", "1", "weighted mean"),
        Variable(
            "covariance", ("time", "variable", "variable_"), "floating", "1", "weighted covariance"
        ),
        Variable(
            "effective_count", ("time",), "floating", "1",
            "number of particles of equal weight that would say as much: the least since the time "
            "before, before particles were drawn anew",
        ),
        *of_measurements(),
        Variable(
            "effective_count_at_measurement", ("measurement",), "floating", "1",
            "of the weights that a measurement leaves, before particles are drawn anew",
        ),
        Variable(
            "unreliable_from", (), "floating", "time",
            "time of the first measurement after which fewer than 100 particles counted; missing "
            "if there is none",
        ),
        Variable(
            "particle", ("kept", "number", "variable"), "floating", "1", "state of a particle"
        ),
        Variable("weight", ("kept", "number"), "floating", "1", "weight of a particle"),
    ],
)  # fmt: skip

_FEWEST = 100.0
_STEPS = 1000


def propagate(
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    measurements: Sequence[Measurement] = (),
    parameters: Mapping[str, float] | None = None,
    process_noise: ArrayLike | Callable[..., tuple[Any, ...]] | None = None,
    count: int = 100_000,
    seed: int = 0,
    step: float | None = None,
    rtol: float | None = None,
    resample_below: float | None = None,
    device: str | devices.Device = "auto",
    keep: Literal["all", "last", "none"] = "last",
    progress: bool = False,
) -> xarray.Dataset:
    """Move a density as an ensemble of trajectories, weighted by measurements: a particle filter.

    The arguments are those of `ergode.density.propagate`, so that one can stand in for the other.
    The error is that of chance: it falls with the root of the number of particles, in any number
    of dimensions and however thin the density becomes.

    Parameters
    ----------
    field : VectorField
        The equations, without delays.
    prior : Gaussian, Mixture, Samples or Density
        The density at ``times[0]``. One known by its function is drawn from with weights.
    times : array_like, shape [time_count]
        Ascending times at which results are reported [time]. At the time of a measurement they
        are those after it.
    measurements : sequence of Measurement
        In any order; several may have one time.
    parameters : mapping of str to float
        Parameters of the field by name.
    process_noise : array_like or function, optional
        Q, as of `ergode.density.propagate`; or the field has a `diffusion` of its own.
    count : int
        Number of particles.
    seed : int
        Of the particles and their noise.
    step : float, optional
        Length of steps [time]. Without noise steps are chosen by `rtol` if not given; with noise
        they are a thousandth of the whole time. A pulse of the field that is shorter than a step
        may be stepped over.
    rtol : float, optional
        Relative error of a step, where steps are chosen; 1e-6 if not given.
    resample_below : float, optional
        After a measurement particles are drawn anew, as many as their weights say, if fewer than
        this part of them counts. A half if there is noise, which sets equal particles apart again;
        else never: then weights carry all that was learnt.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    keep : {"all", "last", "none"}
        Of which times the particles themselves are part of the result.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        mean(time, variable), ``covariance(time, variable, variable_)``,
        effective_count(time); for each measurement the evidence, the moments before it and the
        effective count that it leaves, before particles are drawn anew; ``unreliable_from``, the
        time of the first measurement that left too few; particle(kept, number, variable) and
        weight(kept, number). Particles that could not be moved count no more; how many these are
        is in ``attrs["particles_lost"]``.

    Raises
    ------
    ModelError
        Prior, measurements, parameters or noise do not suit the field.
    PlanError
        The run is not possible as asked, or a measurement excludes every particle.

    Warns
    -----
    AccuracyWarning
        Fewer than 100 particles count after a measurement: what follows is chance.
    FailureWarning
        Particles could not be moved: a value became infinite, or a step too small.
    InterruptionWarning
        The run was interrupted (Ctrl-C): what follows the last time that was reached is missing.

    References
    ----------
    N. J. Gordon, D. J. Salmond, A. F. M. Smith, "Novel approach to nonlinear/non-Gaussian Bayesian
    state estimation", IEE Proc. F 140 (1993); A. Kong, J. S. Liu, W. H. Wong, J. Am. Stat. Assoc.
    89 (1994), for the effective count.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> result = ergode.particles.propagate(
    ...     ergode.VectorField(decay, ["y"], ["rate"]), ergode.Gaussian([4.0], [1.0]),
    ...     times=[0, 1], parameters={"rate": 0.5}, count=10_000, device="cpu",
    ... )
    >>> round(float(result["mean"][-1, 0]), 1)
    2.4
    """
    choice("keep", keep, ("all", "last", "none"))
    stopwatch = Stopwatch()
    place = devices.resolve(device)
    asked = estimation(
        field,
        prior,
        times,
        measurements,
        parameters,
        reserved=results.names("particles", "moments"),
    )
    grid, found = asked.times, asked.measurements
    cloud = gather(
        asked, process_noise, count=count, seed=seed, step=step, rtol=rtol,
        resample_below=resample_below, device=place,
    )  # fmt: skip
    size = len(field.variables)
    moved = Moved(
        np.full((grid.size, size), np.nan), np.full((grid.size, size, size), np.nan),
        np.full(grid.size, np.nan), [],
    )  # fmt: skip
    with launch.Interruptible("times") as run:
        with progress_bar.track("particles", grid.size, unit="times", show=progress) as report:
            visited = moved.visit(cloud, grid, found, keep, report)
        rest = np.arange(grid.size) >= visited
        run.ends_with(np.where(rest, Status.NOT_RUN, Status.DONE))
        seen = found[: len(cloud.effective)]
        warn_of_few(cloud, seen)
        values = moved.values(count) | {
            "effective_count_at_measurement": _filled(cloud.effective, (len(found),)),
            "unreliable_from": np.array(unreliable_from(cloud, seen)),
            "log_evidence": _filled(cloud.log_evidence, (len(found),)),
            "prior_mean": _filled([m for m, _ in cloud.before], (len(found), size)),
            "prior_covariance": _filled([c for _, c in cloud.before], (len(found), size, size)),
        }
        attrs = results.provenance(
            stopwatch, engine="particles", method=cloud.pushed.method, device=place.name,
            device_model=place.model, device_reason=place.reason, model_digest=field.digest,
            particles=count, particles_lost=0 if cloud.lost is None else int(cloud.lost.sum()),
            seed=seed, times_resampled=cloud.resampled_count, interrupted=int(rest.any()),
        )  # fmt: skip
        names = list(field.variables)
        coords = {
            "time": grid, "variable": names, "variable_": names,
            "measurement": [one.time for one in found],
            "kept": [time for time, _, _ in moved.kept],
        }  # fmt: skip
        return results.dataset("particles", "moments", values, coords=coords, attrs=attrs)


class Moved(NamedTuple):
    """What is known of a cloud at each time; NaN where an interruption (Ctrl-C) came first."""

    mean: np.ndarray  # [time, variable]
    covariance: np.ndarray  # [time, variable, variable]
    effective: np.ndarray  # [time]
    kept: list[tuple[float, np.ndarray, np.ndarray]]  # time, particles and weights

    def visit(
        self, cloud: Cloud, grid: np.ndarray, measurements: Sequence[Measurement], keep: str,
        report: Callable[[int], None],
    ) -> int:  # fmt: skip
        """Move the cloud from time to time; how many were reached."""
        number = 0
        try:
            for time in cloud.visit(grid, measurements):
                weights = cloud.weights
                self.mean[number], self.covariance[number] = moments(cloud.points, weights)
                self.effective[number] = cloud.least_effective_count()
                if keep == "last":
                    self.kept.clear()
                if keep != "none":
                    self.kept.append((time, cloud.points, weights))
                number += 1
                report(1)
        except KeyboardInterrupt:
            if number == 0:
                raise
        return number

    def values(self, count: int) -> dict[str, np.ndarray]:
        """Variables of the result; `count` particles."""
        kept, size = len(self.kept), self.mean.shape[1]
        return {
            "mean": self.mean,
            "covariance": self.covariance,
            "effective_count": self.effective,
            "particle": np.array([one for _, one, _ in self.kept]).reshape(kept, count, size),
            "weight": np.array([one for _, _, one in self.kept]).reshape(kept, count),
        }


def _filled(rows: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Rows, and NaN after them."""
    found = np.full(shape, np.nan)
    for number, row in enumerate(rows):
        found[number] = row
    return found


def _fewest(cloud: Cloud) -> float:
    return min(_FEWEST, 0.5 * len(cloud.points))


def unreliable_from(cloud: Cloud, measurements: Sequence[Measurement]) -> float:
    """Time of the first measurement that left too few particles that count; NaN if none did."""
    fewest = _fewest(cloud)
    few = [
        one.time for one, left in zip(measurements, cloud.effective, strict=True) if left < fewest
    ]
    return few[0] if few else math.nan


def warn_of_few(cloud: Cloud, measurements: Sequence[Measurement]) -> None:
    """Warn where a measurement, or a prior that was drawn with weights, left too few particles."""
    least = min([cloud.effective_count, *cloud.effective])
    if least < _fewest(cloud):
        time = unreliable_from(cloud, measurements)
        when = "" if math.isnan(time) else f" from time {time:g} on"
        launch.warn(
            f"only {least:.3g} of {len(cloud.points)} particles count after the measurements: they "
            f"lie far from the particles; what follows{when} is chance, the evidence too - use "
            "more of them, or a density",
            AccuracyWarning,
        )


def gather(
    asked: Estimation, process_noise: Any, *, count: int, seed: int, step: float | None,
    rtol: float | None, resample_below: float | None, device: devices.Device,
) -> Cloud:  # fmt: skip
    """Particles of a prior, ready to move."""
    asked.one_at_a_time("particles take")
    field, grid = asked.field, asked.times
    noisy = pushed(field, process_noise)
    if step is not None and not (isinstance(step, int | float | np.number) and step > 0):
        raise PlanError(f"step is {step!r}; expected a positive length of time")
    if rtol is not None and (step is not None or noisy.is_noisy):
        why = "a step is given" if step is not None else "there is noise"
        raise PlanError(f"rtol is for steps that are chosen, and {why}; expected step or rtol")
    if step is None and noisy.is_noisy and grid.size > 1:
        step = float(np.ptp(grid)) / _STEPS
    if resample_below is None:
        resample_below = 0.5 if noisy.is_noisy else 0.0
    if not (isinstance(resample_below, int | float | np.number) and 0 <= resample_below <= 1):
        raise PlanError(f"resample_below is {resample_below!r}; expected a part, 0 to 1")
    return Cloud.of(
        asked.priors[0], integer("count", count, 2, 2**31 - 1), integer("seed", seed, 0, 2**63 - 1),
        pushed=noisy, parameters=dict(zip(field.parameters, asked.values[0].tolist(), strict=True)),
        device=device, step=step, resample_below=float(resample_below),
        options={} if step else {"rtol": 1e-6 if rtol is None else rtol},
    )  # fmt: skip
