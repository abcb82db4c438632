"""Differences of scenarios from a baseline, with bands over replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.core.results.comparison import SCENARIO
from ergode.plots.frame import COLOURS, DPI, SIZE, label_time, quiet, time_label

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

SCENARIOS_MOST = 12
_ACROSS = ("time", "interval")


def scenario_differences(
    comparison: xarray.Dataset,
    variable: str,
    *,
    figure: Figure | None = None,
    time_unit: str | None = None,
    **labels: Any,
) -> Figure:
    """Draw by how much scenarios differ from a baseline.

    Over time, each scenario has a panel; all panels have the same axes.  Without a time, each
    scenario has a row.  The line or dot is the median over replicates; bands contain the middle
    50 % and 95 % of the replicates, or those between the quantiles that `ergode.compare` was given.

    Parameters
    ----------
    comparison : xarray.Dataset
        From `ergode.compare`, of at most twelve scenarios.
    variable : str
        Variable to draw, such as ``"cases"``.
    figure : matplotlib.figure.Figure, optional
        Figure to draw on; a new one if not given.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    **labels
        Which of several compartments, tallies or strata to draw, such as ``compartment="I"``; or
        a time, for one row for each scenario.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    PlanError
        The comparison has no such variable, other dims than scenarios and times, more than twelve
        scenarios, or no pair of quantiles.

    Examples
    --------
    >>> import ergode, numpy, xarray
    >>> counts = xarray.Dataset(
    ...     {"cases": (("replicate", "time"), numpy.arange(12).reshape(4, 3))},
    ...     coords={"time": [0.0, 1.0, 2.0]},
    ... )
    >>> comparison = ergode.compare(counts, {"half": counts / 2, "none": counts * 0})
    >>> len(ergode.plots.scenario_differences(comparison, "cases").axes)
    2
    """
    if variable not in comparison or f"{variable}_quantile" not in comparison:
        known = [str(name) for name in comparison if f"{name}_quantile" in comparison]
        raise PlanError(
            f"the comparison has no variable '{variable}'; it has {', '.join(known) or 'none'}"
        )
    mean, bands = comparison[variable], comparison[f"{variable}_quantile"]
    if labels:
        try:
            mean, bands = mean.sel(labels), bands.sel(labels)
        except (KeyError, ValueError) as error:
            raise PlanError(f"{variable} has no {labels}: it has the dims {mean.dims}") from error
    across = next((dim for dim in _ACROSS if dim in mean.dims), None)
    rows = [str(dim) for dim in mean.dims if dim != across]
    if SCENARIO in rows and len(rows) > 1:
        others = ", ".join(dim for dim in rows if dim != SCENARIO)
        raise PlanError(
            f"{variable} has several values of {others}; choose one, as by {others}=..."
        )
    if len(rows) > 1:  # points of a sweep
        mean, bands = (each.stack({SCENARIO: rows}) for each in (mean, bands))
    elif rows and rows[0] != SCENARIO:
        mean, bands = (each.rename({rows[0]: SCENARIO}) for each in (mean, bands))
    elif not rows:
        mean, bands = (each.expand_dims({SCENARIO: [variable]}) for each in (mean, bands))
    if mean.sizes[SCENARIO] > SCENARIOS_MOST:
        raise PlanError(
            f"the comparison has {mean.sizes[SCENARIO]} scenarios; choose at most "
            f"{SCENARIOS_MOST}, such as .isel(scenario=slice(12))"
        )
    bands = bands.sortby("level")
    levels = bands["level"].values
    if levels.size < 2:
        raise PlanError("the comparison has no pair of quantiles; expected two levels or more")
    names = [_name(rows, label) for label in mean[SCENARIO].values]
    middle = bands.sel(level=0.5) if 0.5 in levels else mean
    arrays = (
        middle.transpose(SCENARIO, ...).values, bands.transpose(SCENARIO, "level", ...).values
    )  # fmt: skip
    meaning = str(mean.attrs.get("long_name", variable))
    if labels:
        meaning += ", " + ", ".join(f"{dim} {label}" for dim, label in labels.items())
    caption = _caption(levels, int(comparison.attrs.get("replicates", 0)))
    if across is None:
        return _draw_rows(figure, names, *arrays, meaning, caption)
    time = mean[across]
    label = time_label(comparison, time_unit)
    return _draw_panels(figure, names, time.values, *arrays, (label, meaning), caption)


def _name(rows: list[str], label: Any) -> str:
    """Name of a scenario, or of a point of a sweep."""
    if rows == [SCENARIO] or not rows:
        return str(label)
    values = label if isinstance(label, tuple) else (label,)
    return ", ".join(f"{dim} {value:g}" if isinstance(value, float) else f"{dim} {value}"
                     for dim, value in zip(rows, values, strict=True))  # fmt: skip


def _caption(levels: np.ndarray, replicates: int) -> str:
    count = levels.size // 2
    spans = " and ".join(f"{100 * (levels[-1 - k] - levels[k]):.3g} %" for k in range(count)[::-1])
    middle = "median" if 0.5 in levels else "mean"
    return f"{middle}, {spans} of {replicates:,} pairs of replicates"


def _new_figure(size: tuple[float, float]) -> Figure:
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, dpi=DPI, layout="constrained")


def _title(figure: Figure, text: str) -> None:
    figure.suptitle(text, x=0.012, ha="left", fontsize=9, alpha=0.7)


def _draw_panels(
    figure: Figure | None, names: list[str], time: np.ndarray, middle: np.ndarray,
    bands: np.ndarray, labels: tuple[str, str], title: str,
) -> Figure:  # fmt: skip
    columns = min(len(names), 3 if len(names) not in (4, 7, 8) else 4 if len(names) > 4 else 2)
    rows = -(-len(names) // columns)
    figure = figure or _new_figure((SIZE[0], max(SIZE[1] * 0.6, 1.75 * rows + 0.7)))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for number, name in enumerate(names):
        ax = quiet(axes[number])
        ax.axhline(0.0, color="black", linewidth=0.8, alpha=0.5)
        for k in range(bands.shape[1] // 2):
            ax.fill_between(
                time, bands[number, k], bands[number, -1 - k], color=COLOURS[0], alpha=0.2,
                linewidth=0,
            )  # fmt: skip
        ax.plot(time, middle[number], color=COLOURS[0], linewidth=1.6)
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_xlim(time[0], time[-1])
        ax.grid(axis="y", alpha=0.25, linewidth=0.6)
        ax.tick_params(labelsize=8)
        if number + columns >= len(names):  # nothing is below it
            label_time(ax, labels[0])
            ax.xaxis.label.set_fontsize(9)
            ax.tick_params(labelbottom=True)
    for ax in axes[len(names) :]:
        ax.remove()
    figure.supylabel(labels[1], fontsize=9)
    _thousands(axes[0].yaxis)
    _title(figure, title)
    return figure


def _draw_rows(
    figure: Figure | None, names: list[str], middle: np.ndarray, bands: np.ndarray, label: str,
    title: str,
) -> Figure:  # fmt: skip
    figure = figure or _new_figure((SIZE[0], 0.3 * len(names) + 1.3))
    ax = quiet(figure.subplots())
    place = np.arange(len(names))
    ax.axvline(0.0, color="black", linewidth=0.8, alpha=0.5)
    count = bands.shape[1] // 2
    for k in range(count):
        ax.hlines(
            place, bands[:, k], bands[:, -1 - k], color=COLOURS[0], linewidth=2 + 4 * k,
            alpha=0.35 if count > 1 else 0.6,
        )  # fmt: skip
    ax.plot(middle, place, "o", color=COLOURS[0], markersize=5, markeredgecolor="white")
    ax.set_yticks(place, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel(label, fontsize=9)
    _thousands(ax.xaxis)
    _title(figure, title)
    return figure


def _thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "−")))
