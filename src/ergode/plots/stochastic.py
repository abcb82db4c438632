"""Amounts over time, and their distribution over realizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.arguments import as_numbers, names_in
from ergode.core.errors import PlanError
from ergode.core.status import Status
from ergode.plots.frame import (
    COLOURS,
    curve_style,
    draw_band,
    new_axes,
    quiet,
    refuse_sweep,
    time_index,
    time_label,
    with_dims,
    without_failures,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_MOST_CURVES = 40
_FAINT, _BAND = 3, (0.05, 0.95)  # curves behind a band, and its quantiles


def realizations(
    dataset: xarray.Dataset,
    *,
    species: Sequence[str] | None = None,
    quantiles: tuple[float, float] | None = None,
    time_unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw amounts over time: realizations as steps, or the mean with a band.

    Of more than 40 realizations, a few are drawn faintly, with the mean and a band from 5 % to
    95 %.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate`, with the output ``"trajectories"`` or
        ``"statistics"`` (with a band of one standard deviation); or from
        `ergode.stochastic.probabilities` (the same band).
    species : sequence of str, optional
        Species to draw; all if not given.
    quantiles : (float, float), optional
        Instead of single trajectories, draw their mean with a band between these two quantiles,
        such as ``(0.05, 0.95)``.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has neither trajectories nor statistics, has several points of a sweep, or
        lacks a species; or quantiles are given without trajectories, or do not ascend within 0
        and 1.

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
    dataset = with_dims(dataset, "replicate", "time", "species")
    names = _species(dataset, species)
    kind = "amount" if "amount" in dataset.data_vars else "mean"
    if kind not in dataset or "time" not in dataset[kind].dims:
        raise PlanError("the dataset has neither trajectories nor statistics over time to draw")
    refuse_sweep(dataset[kind], "replicate", "time", "species")
    if quantiles is not None:
        _check_quantiles(quantiles, kind)
    ax = ax or new_axes()
    times = dataset["time"].values
    for number, name in enumerate(names):
        if kind == "mean":
            mean = dataset["mean"].sel(species=name).values
            width = np.sqrt(dataset["variance"].sel(species=name).values)
            draw_band(ax, times, mean, (mean - width, mean + width), number, name)
            continue
        rows = without_failures(dataset)["amount"].sel(species=name).values
        many = len(rows) > _MOST_CURVES
        if quantiles is not None or many:
            low, high = np.quantile(rows, quantiles or _BAND, axis=0)
            draw_band(ax, times, rows.mean(axis=0), (low, high), number, name)
        if quantiles is not None:
            continue
        shown, fade = (rows[:_FAINT], 0.35) if many else _few_of(rows)
        for k, row in enumerate(shown):
            ax.plot(
                times, row, lw=0.5 if many else 0.8, alpha=fade, drawstyle="steps-post",
                label=name if k == 0 and not many else None, **curve_style(number),
            )  # fmt: skip
    _say_what_is_missing(dataset, ax)
    ax.set_xlabel(time_label(dataset, time_unit))
    ax.set_ylabel("amount [molecules]")
    _name_curves(ax, names)
    return quiet(ax)


def amounts(
    dataset: xarray.Dataset, *, species: str, time: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the distribution of a species' amount: of realizations as bars, or exactly as a line.

    The two can be drawn on the same axes, to compare them. A bar for the amount n reaches from
    n - 1/2 to n + 1/2.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate` with the output ``"histogram"``, or from
        `ergode.stochastic.probabilities`.
    species : str
    time : float, optional
        One of the dataset's times [time]; the last if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has neither a histogram nor probabilities, no such species, or no such time.
    """
    kind = "histogram" if "histogram" in dataset else "probability"
    if kind not in dataset:
        raise PlanError(
            "the dataset has no histogram; simulate with output='histogram', or use "
            "ergode.stochastic.probabilities"
        )
    _species(dataset, [species])
    shown = dataset[kind].sel(species=species).isel(time=time_index(dataset, time))
    refuse_sweep(shown, "bin", "amount")
    ax = ax or new_axes()
    if kind == "probability":
        _draw_probabilities(ax, shown)
    else:
        _draw_histogram(ax, shown)
        _say_what_is_missing(dataset, ax)
    ax.set_xlabel(f"{species} [molecules]")
    ax.set_ylabel("probability [1 / molecule]")
    return quiet(ax)


def _draw_histogram(ax: Axes, counts: xarray.DataArray) -> None:
    low = counts["bin"].values.astype(float)
    if "bin_end" in counts.coords:
        width = counts["bin_end"].values - low
    else:
        width = np.diff(low, append=low[-1] + (low[-1] - low[-2] if low.size > 1 else 1))
    total = max(int(counts.sum()), 1)
    if (low == np.rint(low)).all():
        low -= 0.5  # a whole amount is in the middle of its bar
    ax.bar(
        low, counts.values / total / width, width=width, align="edge", lw=0, alpha=0.7,
        color=COLOURS[0], label="realizations",
    )  # fmt: skip


def _draw_probabilities(ax: Axes, probability: xarray.DataArray) -> None:
    least = 1e-3 * float(probability.max())
    seen = np.flatnonzero(probability.values > least)
    part = probability[max(seen[0] - 1, 0) : seen[-1] + 2]
    amount = part["amount"].values
    # Amounts that no state has are gaps.
    where = np.arange(amount[0], amount[-1] + 1) if np.ptp(amount) < 100_000 else amount
    part = part.reindex(amount=where, fill_value=0.0)
    ax.plot(
        where, part.values, color=COLOURS[1], drawstyle="steps-mid", lw=1.5,
        label="master equation",
    )  # fmt: skip


def phase_plane(
    dataset: xarray.Dataset, *, x: str, y: str, time: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the amount of one species against that of another.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate`, with the output ``"trajectories"``: at most 40
        realizations are drawn as lines. From `ergode.stochastic.probabilities`: the joint
        probability at one time is drawn in shades.
    x, y : str
        Species on each axis.
    time : float, optional
        For probabilities: one of the dataset's times [time]; the last if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has neither trajectories nor probabilities, has several points of a sweep, or
        lacks a species; or a time is given for trajectories.
    """
    if x == y:
        raise PlanError(f"x and y are both '{x}'; expected two species")
    _species(dataset, [x, y])
    if "joint_probability" in dataset:
        ax = ax or new_axes()
        _draw_joint(dataset.isel(time=time_index(dataset, time)), x, y, ax)
    else:
        if "amount" not in dataset.data_vars or "time" not in dataset["amount"].dims:
            raise PlanError("the dataset has neither trajectories nor probabilities to draw")
        refuse_sweep(dataset["amount"], "replicate", "time", "species")
        if time is not None:
            raise PlanError("time is given, but trajectories are drawn over all times")
        ax = ax or new_axes()
        amount = without_failures(dataset)["amount"].transpose("replicate", "time", "species")
        shown, fade = _few_of(amount.sel(species=[x, y]).values)
        for k, row in enumerate(shown):
            color = COLOURS[k if len(shown) <= len(COLOURS) else 0]
            ax.plot(*row.T, color=color, lw=0.8, alpha=fade)
        _say_what_is_missing(dataset, ax)
    ax.set_xlabel(f"{x} [molecules]")
    ax.set_ylabel(f"{y} [molecules]")
    return quiet(ax)


def _draw_joint(dataset: xarray.Dataset, x: str, y: str, ax: Axes) -> None:
    states, p = dataset["state_amount"].sel(species=[x, y]).values, dataset["joint_probability"]
    seen = p.values > 1e-4 * float(p.max())
    low, high = states[seen].min(axis=0), states[seen].max(axis=0)
    # Of many amounts, several share a square of the picture.
    steps = np.maximum(1, -(-(high - low + 1) // 400))
    edges = [
        np.arange(a, b + step + 1, step) - 0.5 for a, b, step in zip(low, high, steps, strict=True)
    ]
    shades, _, _ = np.histogram2d(states[:, 0], states[:, 1], bins=edges, weights=p.values)
    shades /= steps.prod()
    drawn = ax.pcolormesh(*edges, shades.T, cmap="Blues", vmin=0.0, rasterized=True)
    ax.figure.colorbar(drawn, ax=ax, label="probability [1 / molecule$^2$]")


def autocorrelation(
    dataset: xarray.Dataset,
    *,
    species: Sequence[str] | None = None,
    time_unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw autocorrelations over the lag, with a band of one standard error.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.autocorrelation`.
    species : sequence of str, optional
        Species to draw; all if not given.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has no autocorrelation, has several points of a sweep, or lacks a species.
    """
    if "autocorrelation" not in dataset:
        raise PlanError("the dataset has no autocorrelation; use ergode.stochastic.autocorrelation")
    names = _species(dataset, species)
    refuse_sweep(dataset["autocorrelation"], "species", "lag")
    ax = ax or new_axes()
    ax.axhline(0.0, color=COLOURS[-1], lw=0.6)
    for number, name in enumerate(names):
        found = dataset["autocorrelation"].sel(species=name).values
        error = dataset["standard_error"].sel(species=name).values
        draw_band(ax, dataset["lag"].values, found, (found - error, found + error), number, name)
    ax.set_xlabel(time_label(dataset, time_unit, "lag"))
    ax.set_ylabel("autocorrelation")
    _name_curves(ax, names)
    return quiet(ax)


def _few_of(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """At most 40 of the realizations, evenly spaced, and the opacity of their curves."""
    shown = rows[:: max(1, -(-len(rows) // _MOST_CURVES))]
    return shown, max(0.25, 1 / np.sqrt(max(len(shown), 1)))


def _name_curves(ax: Axes, names: Sequence[str]) -> None:
    if len(names) <= 12 and ax.get_legend_handles_labels()[0]:  # none, if all failed
        for handle in ax.legend(frameon=False).get_lines():
            handle.set_alpha(1.0)


def _check_quantiles(quantiles: Sequence[float], kind: str) -> None:
    if kind != "amount":
        raise PlanError("quantiles are given, but the dataset has no trajectories to find them of")
    pair = as_numbers(quantiles)
    if pair is None or pair.shape != (2,) or not 0 <= pair[0] < pair[1] <= 1:
        raise PlanError(
            f"quantiles is {quantiles!r}; expected two of 0 to 1, the smaller one first"
        )


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
    return names_in("species", wanted or None, dataset["species"].values)
