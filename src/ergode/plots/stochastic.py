"""Amounts over time, and their distribution over realizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.errors import PlanError
from ergode.core.status import Status
from ergode.plots.frame import COLOURS, new_axes, quiet, time_index

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_MOST_CURVES = 40


def realizations(
    dataset: xarray.Dataset, *, species: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw amounts over time: realizations as steps, or the mean with a band.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate`, with the output ``"trajectories"`` (at most 40 are
        drawn) or ``"statistics"`` (with a band of one standard deviation).
    species : sequence of str, optional
        Species to draw; all if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset has neither trajectories nor statistics, has several points of a sweep, or
        lacks a species.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 20}, [ergode.Reaction("X -> 0", rate_constant=1.0)]
    ... )
    >>> result = ergode.stochastic.simulate(network, times=[0, 1, 2], replicates=3, device="cpu")
    >>> len(ergode.plots.realizations(result).lines)
    3
    """
    names = _species(dataset, species)
    kind = "amount" if "amount" in dataset else "mean"
    if kind not in dataset or "time" not in dataset[kind].dims:
        raise PlanError("the dataset has neither trajectories nor statistics over time to draw")
    swept = set(dataset[kind].dims) - {"replicate", "time", "species"}
    if swept:
        raise PlanError(f"the dataset is swept over {', '.join(map(str, swept))}; select one point")
    ax = ax or new_axes()
    times = dataset["time"].values
    for number, name in enumerate(names):
        color = COLOURS[number % len(COLOURS)]
        if kind == "mean":
            mean = dataset["mean"].sel(species=name).values
            width = np.sqrt(dataset["variance"].sel(species=name).values)
            ax.fill_between(times, mean - width, mean + width, color=color, alpha=0.2, lw=0)
            ax.plot(times, mean, color=color, label=name)
            continue
        good = ~np.isin(dataset["status"], [one.value for one in Status if one.is_error])
        rows = dataset["amount"].sel(species=name).values[good]
        shown = rows[:: max(1, -(-len(rows) // _MOST_CURVES))]
        for k, row in enumerate(shown):
            ax.plot(
                times, row, color=color, lw=0.8, alpha=max(0.25, 1 / np.sqrt(len(shown))),
                drawstyle="steps-post", label=name if k == 0 else None,
            )  # fmt: skip
    _say_what_is_missing(dataset, ax)
    ax.set_xlabel("time")
    ax.set_ylabel("molecules")
    if len(names) <= 12:
        ax.legend(frameon=False)
    return quiet(ax)


def amounts(
    dataset: xarray.Dataset, *, species: str, time: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the distribution of a species' amount over realizations.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate`, with the output ``"histogram"``.
    species : str
    time : float, optional
        One of the dataset's times [time]; the last if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset has no histogram, no such species, or no such time.
    """
    if "histogram" not in dataset:
        raise PlanError("the dataset has no histogram; simulate with output='histogram'")
    _species(dataset, [species])
    counts = dataset["histogram"].sel(species=species)
    counts = counts.isel(time=time_index(dataset, time))
    if counts.ndim != 1:
        raise PlanError("the dataset is of a sweep; select one point")
    ax = ax or new_axes()
    low = counts["bin"].values
    width = np.diff(low, append=low[-1] + (low[-1] - low[-2] if low.size > 1 else 1))
    total = max(int(counts.sum()), 1)
    ax.bar(
        low, counts.values / total / width, width=width, align="edge", lw=0, alpha=0.7,
        color=COLOURS[0],
    )  # fmt: skip
    _say_what_is_missing(dataset, ax)
    ax.set_xlabel(f"molecules of {species}")
    ax.set_ylabel("probability")
    return quiet(ax)


def _say_what_is_missing(dataset: xarray.Dataset, ax: Axes) -> None:
    """Write above the axes how many realizations are omitted."""
    status = dataset["status"].values if "status" in dataset else np.zeros(0)
    missing = int((status >= Status.NOT_RUN).sum())
    if missing:
        ax.set_title(
            f"{missing:,} of {status.size:,} realizations failed or were not run, and are left out",
            fontsize="small",
        )


def _species(dataset: xarray.Dataset, wanted: Sequence[str] | None) -> list[str]:
    if "species" not in dataset.coords:
        raise PlanError("the dataset has no amounts of species to draw")
    known = [str(name) for name in dataset["species"].values]
    for name in wanted or ():
        if name not in known:
            raise PlanError(f"the dataset has no species '{name}'; it has {', '.join(known)}")
    return list(wanted) if wanted else known
