"""The unscented Kalman filter: a Gaussian followed by its sigma points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.calls import launch
from ergode.core.calls import progress as progress_bar
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.models.estimation.estimation import estimation, of_measurements
from ergode.models.estimation.maneuver import Maneuver, noted
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior
from ergode.models.fields.vector_field import VectorField
from ergode.particles.kalman import bank_of

if TYPE_CHECKING:
    import xarray

_EACH = (SWEPT, "time")
results.register(
    "particles",
    "gaussians",
    [
        Variable("mean", (*_EACH, "variable"), "floating", "1", "mean"),
        Variable(
            "covariance", (*_EACH, "variable", "variable_"), "floating", "1", "covariance"
        ),
        *of_measurements(SWEPT),
        Variable(
            "normalised_innovation_squared", (SWEPT, "measurement"), "floating", "1",
            "square of a measured value less the expected one, in units of their covariance: on "
            "average the number of components if the filter is consistent",
        ),
        Variable("status", (SWEPT,), "uint8", "1", "how the filter ended (see Status)"),
    ],
)  # fmt: skip


@recorded({})
def unscented_kalman(
    field: VectorField,
    prior: Prior,
    *,
    times: ArrayLike,
    measurements: Sequence[Measurement] = (),
    maneuvers: Sequence[Maneuver] = (),
    parameters: Mapping[str, Any] | None = None,
    process_noise: ArrayLike | Callable[..., tuple[Any, ...]] | None = None,
    alpha: float = 0.1,
    beta: float = 2.0,
    kappa: float = 0.0,
    step: float | None = None,
    rtol: float | None = None,
    device: str | devices.Device = "auto",
    progress: bool = False,
) -> xarray.Dataset:
    """Propagate a Gaussian by an unscented Kalman filter.

    The arguments are those of `ergode.density.propagate`. The filter is exact for linear equations
    and measurements. It approximates the density by a Gaussian: for curved or several-peaked
    densities compare it with `ergode.density` and `ergode.particles`.

    Parameters
    ----------
    field : VectorField
        The equations, without delays.
    prior : Prior, or sequence of Prior
        The density at ``times[0]``, of which mean and covariance are used. Several run side by
        side, as do measurements and parameters with several values.
    times, maneuvers, parameters, process_noise, device, progress
        As for `ergode.density.propagate`.
    measurements : sequence of Measurement
        As for `ergode.density.propagate`. Each needs `h`, `value` and `covariance`.
    alpha, beta, kappa : float
        Parameters of the scaled unscented transform. The sigma points lie
        ``alpha * sqrt(variable_count + kappa)`` deviations from the mean.
    step : float, optional
        With noise: time between two sets of sigma points. The error is O(step^2). The default is a
        200th of the whole time.
    rtol : float, optional
        Relative tolerance of the trajectories of the sigma points. The default is 1e-9, or less
        where a density is narrow: a thousandth of the least deviation relative to its mean.

    Returns
    -------
    xarray.Dataset
        ``mean(<swept dims>, time, variable)`` and
        ``covariance(<swept dims>, time, variable, variable_)``; for each measurement
        ``log_evidence``, the moments before it, and ``normalised_innovation_squared``;
        ``status(<swept dims>)``.

    Raises
    ------
    ModelError
        Prior, measurements, parameters or noise do not suit the field, or a measurement has a
        likelihood instead of a value.
    PlanError
        An option is invalid.

    Warns
    -----
    FailureWarning
        A trajectory of a sigma point or a covariance became infinite or indefinite: later values
        are missing.
    InterruptionWarning
        The run was interrupted (Ctrl-C): values after the last time reached are missing.

    References
    ----------
    S. J. Julier, J. K. Uhlmann, "Unscented filtering and nonlinear estimation", Proc. IEEE 92
    (2004); E. A. Wan, R. van der Merwe, "The unscented Kalman filter for nonlinear estimation",
    AS-SPCC (2000).

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> result = ergode.particles.unscented_kalman(
    ...     ergode.VectorField(decay, ["y"], ["rate"]), ergode.Gaussian([4.0], [1.0]),
    ...     times=[0, 1], parameters={"rate": 0.5}, device="cpu",
    ... )
    >>> round(float(result["mean"][-1, 0]), 3)
    2.426
    """
    stopwatch = Stopwatch()
    place = devices.resolve(device)
    asked = estimation(
        field, prior, times, measurements, parameters, maneuvers,
        reserved=results.names("particles", "gaussians"),
    )  # fmt: skip
    bank = bank_of(
        asked, process_noise, alpha=alpha, beta=beta, kappa=kappa, step=step, rtol=rtol,
        device=place,
    )  # fmt: skip
    layout, grid, names = asked.layout, asked.times, list(field.variables)
    size = len(names)
    means = np.full((layout.count, grid.size, size), np.nan)
    covariances = np.full((layout.count, grid.size, size, size), np.nan)
    with launch.Interruptible("times") as run:
        visited = 0
        with progress_bar.track("filter", grid.size, unit="times", show=progress) as report:
            try:
                for _ in bank.visit(grid, asked.measurements, asked.maneuvers):
                    means[:, visited], covariances[:, visited] = bank.mean, bank.covariance
                    visited += 1
                    report(1)
            except KeyboardInterrupt:
                if visited == 0:
                    raise
        rest = np.arange(grid.size) >= visited
        run.ends_with(np.where(rest, Status.NOT_RUN, Status.DONE))
        seen = bank.seen_values(len(asked.measurements))
        values = {"mean": means, "covariance": covariances, **seen, "status": bank.status}
        attrs = results.provenance(
            stopwatch, engine="particles", method="unscented-kalman", device=place.name,
            device_model=place.model, device_reason=place.reason, model_digest=field.digest,
            alpha=alpha, beta=beta, kappa=kappa, interrupted=int(rest.any()),
            **noted(asked.maneuvers),
        )  # fmt: skip
        coords = layout.coords | {
            "time": grid, "variable": names, "variable_": names,
            "measurement": [one.time for one in asked.measurements],
        }  # fmt: skip
        return results.dataset(
            "particles", "gaussians",
            {name: one.reshape((*layout.shape, *one.shape[1:])) for name, one in values.items()},
            coords=coords, attrs=attrs, swept=layout.dims,
        )  # fmt: skip
