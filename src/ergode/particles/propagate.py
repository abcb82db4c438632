"""A density over time by particles: from a vector field, a prior and measurements to results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import check_switch, choice, integer, is_finite_number, refuse_idle
from ergode.core.calls import checkpoint as checkpoints
from ergode.core.calls import launch, resident
from ergode.core.calls import progress as progress_bar
from ergode.core.calls.divide import StorePath, alone, divisible
from ergode.core.calls.job import Job, Whole
from ergode.core.errors import AccuracyWarning, PlanError
from ergode.core.results import Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.estimation.estimation import Estimation, estimation, of_measurements
from ergode.models.estimation.likelihood import undefined_warning
from ergode.models.estimation.maneuver import Maneuver, noted
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField
from ergode.particles.cloud import Cloud
from ergode.particles.noise import pushed
from ergode.particles.tolerances import atol_of, rtol_of

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
            "effective sample size before resampling: the smallest since the previous reported "
            "time",
        ),
        *of_measurements(),
        Variable(
            "effective_count_at_measurement", ("measurement",), "floating", "1",
            "effective sample size after a measurement, before resampling",
        ),
        Variable(
            "unreliable_from", (), "floating", "time",
            "time of the first measurement after which the effective sample size is below 100; "
            "missing if there is none",
        ),
        Variable(
            "particle", ("kept", "number", "variable"), "floating", "1", "state of a particle"
        ),
        Variable("weight", ("kept", "number"), "floating", "1", "weight of a particle"),
    ],
)  # fmt: skip

_FEWEST = 100.0
_STEPS = 1000
_RTOL = 1e-6


@divisible("particles", alone)
def propagate(
    _: Whole,
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    measurements: Sequence[Measurement] = (),
    maneuvers: Sequence[Maneuver] = (),
    parameters: Mapping[str, float] | None = None,
    process_noise: ArrayLike | Callable[..., tuple[Any, ...]] | None = None,
    count: int = 100_000,
    seed: int = 0,
    step: float | None = None,
    rtol: float | None = None,
    resample_below: float | None = None,
    regularise: bool = False,
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    keep: Literal["all", "last", "none"] = "last",
    progress: bool = False,
    store: StorePath | None = None,
    checkpoint: float | None = None,
) -> Job:
    """Propagate a density by a particle filter: trajectories weighted by measurements.

    The problem is described by the same arguments as in `ergode.density.propagate`. The sampling
    error is inversely proportional to the square root of the number of particles, in any number of
    dimensions and however thin the density becomes.

    Parameters
    ----------
    field : VectorField
        The equations, without delays.
    prior : Gaussian, Mixture, Samples or Density
        The density at ``times[0]``. A `Density` is sampled with importance weights.
    times, measurements, maneuvers, parameters, process_noise, device, progress, store
        As for `ergode.density.propagate`.
    count : int
        Number of particles.
    seed : int
        Seed of the particles and their noise.
    step : float, optional
        Fixed step [time]. The default is adaptive steps by `rtol` without noise, and a thousandth
        of the whole time with noise. Steps can miss a pulse of the field shorter than a step.
    rtol : float, optional
        Relative tolerance of adaptive steps. The default is 1e-6, or less if the prior is narrow:
        a thousandth of the least deviation relative to its mean. The absolute tolerance of a
        variable is a thousandth of `rtol` times the prior's deviation.
    resample_below : float, optional
        After a measurement, particles are resampled if the effective sample size is below this
        fraction of `count`. The default is 0.5 with noise, which separates copies of a particle,
        and with `regularise`. Otherwise the default is 0: particles are never resampled.
    regularise : bool
        Whether resampling draws from a smooth density: particles are moved by a Gaussian kernel,
        whose width falls as ``count**(-1 / (variable_count + 4))``. This regularised particle
        filter does not degenerate without noise, but it smooths a density that is not Gaussian.
    keep_on_device : bool
        Whether the particles that are kept and their weights are on the device: the call returns a
        `DeviceResult` of NumPy arrays (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read
        without a copy. Not with `store`.
    keep : {"all", "last", "none"}
        Times at which the particles themselves are part of the result.
    checkpoint : float, optional
        Seconds between two checkpoints of the particles in `store`, at measurements, maneuvers and
        times. The same call again goes on from the latest; the result has the same bits.

    Returns
    -------
    xarray.Dataset
        mean(time, variable), ``covariance(time, variable, variable_)``,
        effective_count(time), the effective sample size; for each measurement the evidence, the
        moments before it, and the effective sample size after it but before resampling;
        ``unreliable_from``, the time of the first measurement after which the filter is degenerate;
        particle(kept, number, variable) and weight(kept, number). Particles whose integration
        failed get weight zero; ``attrs["particles_lost"]`` is their number.

    Raises
    ------
    ModelError
        Prior, measurements, parameters or noise do not suit the field.
    PlanError
        The run is not possible as requested, or a measurement excludes every particle.

    Warns
    -----
    AccuracyWarning
        The effective sample size is below 100 after a measurement: the filter is degenerate.
    FailureWarning
        The integration of particles failed: a value became infinite, or a step too small.
    InterruptionWarning
        The run was interrupted (Ctrl-C): values after the last time reached are missing.

    References
    ----------
    N. J. Gordon, D. J. Salmond, A. F. M. Smith, "Novel approach to nonlinear/non-Gaussian Bayesian
    state estimation", IEE Proc. F 140 (1993); C. Musso, N. Oudjane, F. Le Gland, "Improving
    regularised particle filters" (2001), for `regularise`; A. Kong, J. S. Liu, W. H. Wong, J. Am.
    Stat. Assoc. 89 (1994), for the effective sample size.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return -p[0] * y[0], p[0] * y[0]
    >>> result = ergode.particles.propagate(
    ...     ergode.VectorField(decay, ["parent", "child"], ["rate"]),
    ...     ergode.Gaussian([4.0, 0.0], [1.0, 0.1]), times=[0, 1], parameters={"rate": 0.5},
    ...     count=10_000, device="cpu",
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
        maneuvers,
        reserved=results.names("particles", "moments"),
    )
    grid, found = asked.times, asked.measurements
    cloud = gather(
        asked, process_noise, count=count, seed=seed, step=step, rtol=rtol,
        resample_below=resample_below, regularise=regularise, device=place,
    )  # fmt: skip
    size = len(field.variables)
    moved = Moved.of(grid.size, count, size, keep)

    def compute() -> xarray.Dataset:
        with launch.Interruptible("times") as run:
            with progress_bar.track("particles", grid.size, unit="times", show=progress) as report:
                visited = moved.visit(cloud, asked, report)
            rest = np.arange(grid.size) >= visited
            run.ends_with(np.where(rest, Status.NOT_RUN, Status.DONE))
            seen = found[: len(cloud.effective)]
            warn_of_few(cloud, seen)
            values = moved.values() | {
                "effective_count_at_measurement": _filled(cloud.effective, (len(found),)),
                "unreliable_from": np.array(unreliable_from(cloud, seen)),
                "log_evidence": _filled(cloud.log_evidence, (len(found),)),
                "prior_mean": _filled([m for m, _ in cloud.before], (len(found), size)),
                "prior_covariance": _filled([c for _, c in cloud.before], (len(found), size, size)),
            }
            if asked.has_gates:
                gates = _filled(cloud.gates, (len(found), 2))
                values |= {"innovation_distance": gates[:, 0], "left_out": gates[:, 1]}
            attrs = results.provenance(
                stopwatch, engine="particles", method=cloud.pushed.method, device=place.name,
                device_model=place.model, device_reason=place.reason, model_digest=field.digest,
                particles=count, particles_lost=0 if cloud.lost is None else int(cloud.lost.sum()),
                seed=seed, times_resampled=cloud.resampled_count, interrupted=int(rest.any()),
                **cloud.options, **noted(asked.maneuvers),
            )  # fmt: skip
            names = list(field.variables)
            coords = {
                "time": grid, "variable": names, "variable_": names,
                "measurement": [one.time for one in found],
                "kept": moved.times,
            }  # fmt: skip
            return results.dataset("particles", "moments", values, coords=coords, attrs=attrs)

    return Job(compute)


class Moved(NamedTuple):
    """Results of an ensemble at each time; NaN after an interruption (Ctrl-C)."""

    mean: np.ndarray  # [time, variable]
    covariance: np.ndarray  # [time, variable, variable]
    effective: np.ndarray  # [time]
    particle: Any  # [kept, particle, variable], on the device if results stay there
    weight: Any  # [kept, particle]
    times: list[float]  # of the particles that are kept
    latest: list[Any]  # points and log-weights of the last of these, not yet brought here

    @classmethod
    def of(cls, time_count: int, count: int, size: int, keep: str) -> Moved:
        """No results yet, of `count` particles in `size` dimensions."""
        kept = {"all": time_count, "last": 1, "none": 0}[keep]
        launch.check_room(
            8 * kept * count * (size + 1), f"an array of {count:,} particles at {kept:,} times",
            "use keep='last', or fewer particles",
        )  # fmt: skip
        return cls(
            np.full((time_count, size), np.nan),
            np.full((time_count, size, size), np.nan),
            np.full(time_count, np.nan),
            resident.full((kept, count, size), np.nan, np.float64),
            resident.full((kept, count), np.nan, np.float64),
            [],
            [],
        )

    def visit(self, cloud: Cloud, asked: Estimation, report: Callable[[int], None]) -> int:
        """Propagate the ensemble from time to time; return how many times were reached."""
        number, at = 0, 0
        with checkpoints.single_run("particles", cloud.device) as single:
            if single.state is not None:
                number, at = self._restore(single.state)
                cloud.restore(single.state)
                report(number)

            def paused(at: int, share: float) -> None:
                single.boundary(lambda: cloud.state() | self._state(number, at, cloud), share)

            try:
                events = asked.times, asked.measurements, asked.maneuvers
                for time in cloud.visit(*events, at, paused):
                    found = cloud.moments()
                    self.mean[number], self.covariance[number] = found.mean[0], found.covariance[0]
                    self.effective[number] = cloud.least_effective_count()
                    self._keep(time, cloud)
                    number += 1
                    report(1)
            except KeyboardInterrupt:
                if number == 0:
                    raise
            self._bring(cloud)
        return number

    def _keep(self, time: float, cloud: Cloud) -> None:
        """Keep particles, in the place of earlier ones if there is no other."""
        if not len(self.particle):
            return
        if len(self.times) < len(self.particle):
            self._bring(cloud)
        else:
            self.times.pop()
        self.times.append(time)
        self.latest[:] = cloud.points, cloud.log_weights

    def _bring(self, cloud: Cloud) -> None:
        """Bring the latest particles here, if they are not."""
        if self.latest:
            points, log_weights = self.latest
            row = len(self.times) - 1
            self.particle[row] = resident.beside(self.particle, cloud.states(points))
            self.weight[row] = resident.beside(self.weight, cloud.weights(log_weights))
            self.latest.clear()

    def _state(self, number: int, at: int, cloud: Cloud) -> dict[str, Any]:
        """What `_restore` takes."""
        self._bring(cloud)
        return {
            "number": number, "at": at, "mean": self.mean, "covariance": self.covariance,
            "effective_count": self.effective, "kept_times": np.array(self.times),
            "kept_points": self.particle[: len(self.times)],
            "kept_weights": self.weight[: len(self.times)],
        }  # fmt: skip

    def _restore(self, state: Mapping[str, np.ndarray]) -> tuple[int, int]:
        """Go on from a state; return the numbers of times and of events so far."""
        self.mean[:], self.covariance[:] = state["mean"], state["covariance"]
        self.effective[:] = state["effective_count"]
        self.times.extend(state["kept_times"].tolist())
        self.particle[: len(self.times)] = state["kept_points"]
        self.weight[: len(self.times)] = state["kept_weights"]
        return int(state["number"]), int(state["at"])

    def values(self) -> dict[str, Any]:
        """Variables of the result."""
        kept = len(self.times)
        return {
            "mean": self.mean,
            "covariance": self.covariance,
            "effective_count": self.effective,
            "particle": self.particle[:kept],
            "weight": self.weight[:kept],
        }


def _filled(rows: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Rows, padded with NaN."""
    found = np.full(shape, np.nan)
    for number, row in enumerate(rows):
        found[number] = row
    return found


def _fewest(cloud: Cloud) -> float:
    return min(_FEWEST, 0.5 * cloud.point_count)


def unreliable_from(cloud: Cloud, measurements: Sequence[Measurement]) -> float:
    """Time of the first measurement after which the filter is degenerate; NaN if never."""
    fewest = _fewest(cloud)
    few = [
        one.time for one, left in zip(measurements, cloud.effective, strict=True) if left < fewest
    ]
    return few[0] if few else math.nan


def warn_of_few(cloud: Cloud, measurements: Sequence[Measurement]) -> None:
    """Warn if a measurement, or a prior sampled with weights, leaves a degenerate ensemble.

    Also where the likelihood of a measurement is not a number.
    """
    if said := undefined_warning(cloud.undefined_at, cloud.pushed.field.variables):
        launch.warn(said, AccuracyWarning)
    least = min([cloud.effective_count, *cloud.effective])
    if least < _fewest(cloud):
        time = unreliable_from(cloud, measurements)
        when = "" if math.isnan(time) else f" from time {time:g} on"
        launch.warn(
            f"the effective sample size is only {least:.3g} of {cloud.point_count} particles: the "
            f"measurements lie far from them; results{when} are degenerate, the evidence too - use "
            "more particles, or ergode.density",
            AccuracyWarning,
        )


def gather(
    asked: Estimation, process_noise: Any, *, count: int, seed: int, step: float | None,
    rtol: float | None, resample_below: float | None, regularise: bool, device: devices.Device,
) -> Cloud:  # fmt: skip
    """Sample the prior, and check the options."""
    asked.one_at_a_time("particles take")
    field, grid = asked.field, asked.times
    noisy = pushed(field, process_noise)
    check_switch("particles.propagate", "regularise", regularise)
    if step is not None and not (isinstance(step, int | float | np.number) and step > 0):
        raise PlanError(f"step is {step!r}; expected a positive length of time")
    if rtol is not None and (step is not None or noisy.is_noisy):
        why = "a step is given" if step is not None else "there is noise"
        raise PlanError(f"rtol is for adaptive steps, but {why}; expected step or rtol")
    at_rest = not asked.measurements
    if resample_below is not None and not (
        is_finite_number(resample_below) and 0 <= resample_below <= 1
    ):
        raise PlanError(f"resample_below is {resample_below!r}; expected a fraction, 0 to 1")
    refuse_idle(
        regularise=(regularise and at_rest, "there are no measurements"),
        resample_below=(bool(resample_below) and at_rest, "there are no measurements"),
    )
    if step is None and noisy.is_noisy and grid.size > 1:
        step = float(np.ptp(grid)) / _STEPS
    given = asked.priors[0].mean, asked.priors[0].covariance
    fine = rtol_of(rtol, *given, _RTOL)
    if resample_below is None:
        resample_below = 0.5 if noisy.is_noisy or regularise else 0.0
    return Cloud(
        asked.priors[0], integer("count", count, 2, 2**31 - 1), integer("seed", seed, 0, 2**63 - 1),
        pushed=noisy, parameters=dict(zip(field.parameters, asked.values[0].tolist(), strict=True)),
        device=device, step=step, resample_below=float(resample_below),
        regularise=regularise,
        options={} if step else {"rtol": fine, "atol": atol_of(fine, *given)},
    )  # fmt: skip
