"""Public function `autocorrelation`: of the amounts of realizations, by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.core import results
from ergode.core.arguments import names_in, number
from ergode.core.calls.launch import check_room
from ergode.core.errors import PlanError
from ergode.core.inputs import recorded
from ergode.core.results import SWEPT, Variable
from ergode.core.words import counted
from ergode.models.sweep import POINT

if TYPE_CHECKING:
    import xarray

_DIMS = (SWEPT, "species", "lag")
results.register(
    "stochastic",
    "autocorrelation",
    [
        Variable("autocovariance", _DIMS, "float64", "1", "covariance of amounts a lag apart"),
        Variable("autocorrelation", _DIMS, "float64", "1", "autocovariance over that of lag zero"),
        Variable("standard_error", _DIMS, "float64", "1", "of the autocorrelation, by chance"),
    ],
)


@recorded({"dataset": POINT})
def autocorrelation(
    dataset: xarray.Dataset,
    *,
    species: Sequence[str] | None = None,
    start: float | None = None,
    max_lag: float | None = None,
) -> xarray.Dataset:
    """Autocorrelation of amounts in a stationary ensemble.

    With x the amount of a species and m its mean over all realizations and times, the
    autocovariance C(lag) is the mean of (x(t) - m) (x(t + lag) - m) over all realizations and all
    pairs of times that far apart. The autocorrelation is C(lag) / C(0).

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate`, with the output ``"trajectories"`` at equally spaced
        times. Realizations that failed are left out.
    species : sequence of str, optional
        All if not given.
    start : float, optional
        Times before this one are not used [time], because the ensemble is not stationary yet.
    max_lag : float, optional
        Largest lag [time]; half of the time used if not given.

    Returns
    -------
    xarray.Dataset
        autocorrelation, its standard_error, and autocovariance (species, lag). The error is by
        chance, from the differences between realizations; it is NaN for a single one. The
        autocorrelation of an amount that never changes is NaN.

    Raises
    ------
    PlanError
        The dataset has no such species, no trajectories, fewer than two times from `start` on, or
        times that are not equally spaced.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 20},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant=20.0),
    ...         ergode.Reaction("X -> 0", rate_constant=1.0),
    ...     ],
    ... )
    >>> runs = ergode.stochastic.simulate(
    ...     network, times=np.linspace(0, 20, 41), replicates=200, seed=1, device="cpu"
    ... )
    >>> found = ergode.stochastic.autocorrelation(runs, start=5.0, max_lag=2.0)
    >>> bool(abs(found["autocorrelation"].sel(species="X", lag=1.0) - np.exp(-1.0)) < 0.05)
    True
    """
    if "amount" not in getattr(dataset, "data_vars", ()) or "time" not in dataset["amount"].dims:
        raise PlanError("the dataset has no trajectories; simulate with output='trajectories'")
    names = names_in("species", species or None, dataset["species"].values)
    times, spacing = _regular(dataset["time"].values, start)
    most = times.size // 2 if max_lag is None else _lags(max_lag, spacing, times.size)
    amounts = dataset["amount"].isel(time=slice(-times.size, None))
    swept = [str(dim) for dim in amounts.dims if dim not in ("replicate", "time", "species")]
    amounts = amounts.transpose(*swept, "species", "replicate", "time")
    check_room(
        64 * amounts.size // max(len(amounts["species"]), 1),
        "the Fourier transform of the trajectories", "use fewer times or replicates",
    )  # fmt: skip
    parts = [_correlate(amounts.sel(species=name).values, most + 1) for name in names]
    keys = ("autocovariance", "autocorrelation", "standard_error")
    values = {
        key: np.stack(rows, axis=-2)
        for key, rows in zip(keys, zip(*parts, strict=True), strict=True)
    }
    coords = {"species": names, "lag": spacing * np.arange(most + 1)}
    coords |= {dim: (dim, dataset[dim].values) for dim in swept if dim in dataset.coords}
    attrs = {key: dataset.attrs[key] for key in _KEPT if key in dataset.attrs}
    attrs |= {"start": float(times[0])}
    return results.dataset(
        "stochastic", "autocorrelation", values, coords=coords, attrs=attrs, swept=swept
    )


_KEPT = (
    "version",
    "engine",
    "method",
    "device",
    "device_model",
    "seed",
    "model_digest",
    "replicates",
)


def _regular(times: np.ndarray, start: float | None) -> tuple[np.ndarray, float]:
    """Times that are used, and the interval between them."""
    used = times if start is None else times[times >= number("start", start)]
    if used.size < 2:
        raise PlanError(
            f"the dataset has {counted(used.size, 'time')} to use, of {times.size}; expected two "
            "or more"
        )
    steps = np.diff(used)
    spacing = float((used[-1] - used[0]) / (used.size - 1))
    if (np.abs(steps - spacing) > 1e-6 * spacing).any():
        raise PlanError(
            f"the times are from {steps.min():g} to {steps.max():g} apart; an autocorrelation needs"
            " equally spaced times, such as np.linspace(0, 100, 1001)"
        )
    return used, spacing


def _lags(max_lag: float, spacing: float, count: int) -> int:
    lags = int(number("max_lag", max_lag, least=0.0) / spacing + 1e-6)
    if lags >= count:
        raise PlanError(
            f"max_lag is {max_lag:g}; the times that are used span {spacing * (count - 1):g}"
        )
    return lags


def _correlate(amounts: np.ndarray, lag_count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariance, correlation and its error [..., lag] of amounts [..., replicate, time]."""
    amounts = amounts.astype(np.float64)
    time_count = amounts.shape[-1]
    good = ~np.isnan(amounts).any(axis=-1, keepdims=True)
    used = good.sum(axis=-2, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(good, amounts, 0.0).sum(axis=(-2, -1), keepdims=True) / (used * time_count)
        moved = np.where(good, amounts - mean, 0.0)
        length = 1 << (time_count + lag_count - 1).bit_length()  # no wrapping around
        power = np.abs(np.fft.rfft(moved, length)) ** 2
        each = np.fft.irfft(power, length)[..., :lag_count]
        each /= time_count - np.arange(lag_count)  # pairs of times
        covariance = each.sum(axis=-2) / used[..., 0]
        correlation = np.where(covariance[..., :1] > 0, covariance / covariance[..., :1], np.nan)
        # A ratio of two means: its error is that of the mean of what remains of the realizations.
        rest = each - correlation[..., None, :] * each[..., :1]
        variance = (rest**2).sum(axis=-2) / np.where(used > 1, used - 1, np.nan)[..., 0]
        error = np.sqrt(variance / used[..., 0]) / covariance[..., :1]
    return covariance, correlation, error
