"""Epidemic curves with bands of quantiles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import as_numbers, names_in
from ergode.core.errors import PlanError
from ergode.core.status import has_failed
from ergode.models.epidemic.dates import dates_of
from ergode.plots import frame

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

# The palette of Okabe and Ito, safe for every type of colour vision. Standard compartments have the
# same colour in all figures.
_USUAL = {
    "S": "#0072B2",
    "E": "#E69F00",
    "I": "#D55E00",
    "A": "#CC79A7",
    "R": "#009E73",
    "D": "#6B6B6B",
}
_SPARE = ("#56B4E9", "#F0E442", "#CC79A7", "#6B6B6B", "#009E73", "#E69F00", "#0072B2", "#D55E00")
_LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


def epidemic_curves(
    dataset: xarray.Dataset | xarray.DataArray,
    *,
    compartments: Sequence[str] | None = None,
    observed: Any = None,
    time_unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of nodes in each compartment, or new infections or reports, over time.

    The line is the median over replicates; the bands contain the middle 50 % and the middle 95 %.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataArray
        From `ergode.epidemics.simulate`, with output ``"counts"`` or ``"statistics"``. For
        statistics, pairs of quantiles give the bands; the line is the median, or the mean if the
        median is not available. Or from `ergode.epidemics.incidence` or `ergode.epidemics.observe`.
    compartments : sequence of str, optional
        Compartments to draw; all if not given.
    observed : series or array_like, or mapping of str to these, optional
        Data to show as dots: a series of pandas or an array of xarray whose index is dates or
        times, or one number for each time of the result. Missing values (NaN) are left out. A
        mapping names the compartments that data are of, and gives them their colour.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``, as in ``ax.figure.savefig("curves.png")``.

    Raises
    ------
    PlanError
        The dataset has no curves (a line list), is of a sweep, has no finished replicate, or lacks
        a compartment; or the data have another length, or dates where the result has none.

    Examples
    --------
    >>> import ergode, numpy, xarray
    >>> dataset = xarray.Dataset(
    ...     {"count": (("replicate", "time", "compartment"), numpy.ones((5, 3, 2), "int32"))},
    ...     coords={"time": [0.0, 1.0, 2.0], "compartment": ["S", "I"]},
    ... )
    >>> ergode.plots.epidemic_curves(dataset).get_ylabel()
    'nodes'
    """
    import xarray

    axis, label = "nodes", frame.time_label(dataset, time_unit)
    if isinstance(dataset, xarray.DataArray):
        axis = _label_of(dataset, label)
        dataset = _as_curves(dataset)
    if not {"count", "mean"} & set(dataset.data_vars):
        found = ", ".join(map(str, dataset.data_vars)) or "nothing"
        raise PlanError(
            f"the dataset has no curves: expected the variable 'count' or 'mean', found {found}; "
            "simulate with output='counts' or 'statistics'"
        )
    dataset = frame.with_dims(dataset, "replicate", "time", "compartment")
    swept = set(dataset["count" if "count" in dataset else "mean"].dims)
    swept -= {"replicate", "time", "compartment", "stratum"}
    if swept:
        dim = min(map(str, swept))
        raise PlanError(f"the dataset is of a sweep; choose one point, such as .isel({dim}=0)")
    if "stratum" in dataset.dims:
        if "count" not in dataset:
            raise PlanError("the statistics are by stratum; choose one with .sel(stratum=...)")
        dataset = dataset.sum("stratum", keep_attrs=True)
    known = [str(name) for name in dataset["compartment"].values]
    chosen = names_in("compartment", compartments, known)
    curves, levels, caption = _curves(dataset)
    middle = levels.index(0.5) if 0.5 in levels else None
    # Dates, where there are any, say more than days.
    time = dataset["date" if "date" in dataset.coords else "time"].values
    styles = styles_of(known)

    ax = ax or frame.new_axes()
    pairs = [(low, -1 - low) for low in range(len(levels) // 2)]
    for name in chosen:
        rows = curves[known.index(name)]
        for low, high in pairs:
            ax.fill_between(
                time, rows[low], rows[high], color=styles[name]["color"], alpha=0.2, linewidth=0
            )
        line = rows[middle] if middle is not None else dataset["mean"].sel(compartment=name)
        ax.plot(time, line, linewidth=1.9, label=name, **styles[name])
    shown = _draw_observed(ax, observed, time, styles)
    _dress(ax, np.append(time, shown), label, caption, axis)
    return ax


def _as_curves(array: xarray.DataArray) -> xarray.Dataset:
    """Incidence or reports in the form of counts of one compartment."""
    if "interval" not in array.dims or "replicate" not in array.dims:
        raise PlanError(
            f"the array has the dims {', '.join(map(str, array.dims)) or 'none'}; expected those "
            "of epidemics.incidence or epidemics.observe"
        )
    name = str(array.name or "incidence")
    units = array["interval"].attrs
    curves = array.rename(interval="time").expand_dims(compartment=[name])
    curves["time"].attrs.update(units)
    return curves.rename("count").to_dataset()


def _label_of(array: xarray.DataArray, time: str) -> str:
    """What an array counts, and in how long an interval if all are equally long.

    `time` is the label of the axis of time, which may have the unit.
    """
    label = str(array.attrs.get("long_name", array.name))
    middles = array["interval"].values if "interval" in array.coords else np.zeros(0)
    widths = np.diff(middles)
    if not widths.size or not np.allclose(widths, widths[0]):
        return label
    unit = "days" if "date" in array.coords else time.partition(" [")[2].rstrip("]")
    if widths[0] == 1 and unit.endswith("s") and len(unit) > 2:
        unit = unit.removesuffix("s")
    return f"{label} of {widths[0]:g} {unit}".rstrip()


def _draw_observed(
    ax: Axes, observed: Any, time: np.ndarray, styles: Mapping[str, Mapping[str, Any]]
) -> np.ndarray:
    """Draw data as dots; the times of those shown."""
    if observed is None:
        return time[:0]
    several = isinstance(observed, Mapping)
    parts = dict(observed) if several else {"observed": observed}
    moments = []
    for name, given in parts.items():
        if several and name not in styles:
            raise PlanError(
                f"observed names '{name}'; the result has {', '.join(map(str, styles))}"
            )
        at, values = _points_of(given, time)
        colour = styles[name]["color"] if several else "black"
        label = f"{name}, observed" if several else "observed"
        ax.plot(at, values, "o", color=colour, markersize=3.5, markeredgecolor="white",
                markeredgewidth=0.4, label=label, zorder=3)  # fmt: skip
        moments.append(at)
    return np.concatenate(moments) if moments else time[:0]


def _points_of(given: Any, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times or dates, and values, of data."""
    if hasattr(given, "to_series") and hasattr(given, "dims"):
        if given.ndim != 1:
            raise PlanError(
                f"observed has the dims {', '.join(map(str, given.dims)) or 'none'}; expected one, "
                "of dates or times: select from the others, or sum over them"
            )
        given = given.to_series()
    if hasattr(given, "index") and hasattr(given, "to_numpy"):
        index = given.index.to_numpy()
        if index.dtype.kind == "O":
            dates = dates_of("observed", index)
            index = index if dates is None else dates
        numbers = as_numbers(given.to_numpy())
    else:
        index, numbers = time, as_numbers(given)
        if numbers is None or numbers.shape != time.shape:
            shape = np.shape(given) if numbers is None else numbers.shape
            raise PlanError(
                f"observed has the shape {shape}; expected one number for each of the {time.size} "
                "times, or a series with dates or times"
            )
    if numbers is None or index.dtype.kind not in "iufM":
        raise PlanError("observed must be numbers at dates or times")
    if (index.dtype.kind == "M") != (time.dtype.kind == "M"):
        has = "has dates, but the result has none: simulate with origin='2026-03-01'"
        raise PlanError(
            f"observed {has if index.dtype.kind == 'M' else 'has times, but the result has dates'}"
        )
    known = np.isfinite(numbers)
    return index[known], numbers[known]


def save_epidemic_curves(
    dataset: xarray.Dataset | xarray.DataArray,
    path: str | os.PathLike[str],
    *,
    compartments: Sequence[str] | None = None,
    observed: Any = None,
    time_unit: str | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write `epidemic_curves` to a file without opening a window; no partial file remains.

    Parameters
    ----------
    dataset, compartments, observed, time_unit
        As for `epidemic_curves`.
    path : path
        ``.png``, ``.svg`` or ``.pdf``.
    title : str, optional
        Title above the figure.
    overwrite : bool
        Replace a figure of an earlier run.

    Returns
    -------
    Path
        Path of the written file.

    Raises
    ------
    PlanError
        As for `epidemic_curves`; or the suffix is unknown, the folder does not exist, or the name
        is taken.
    WriteError
        The file could not be written, for example because the disk is full.
    """
    path = frame.check_figure_path(path)
    figure = frame.figure_of(
        epidemic_curves, dataset, compartments=compartments, observed=observed, time_unit=time_unit
    )
    return frame.save_figure(figure, path, title, overwrite=overwrite)


def _curves(dataset: xarray.Dataset) -> tuple[np.ndarray, list[float], str]:
    """Quantiles over replicates [compartment, level, time], their levels, and their label."""
    if "count" in dataset:
        count = dataset["count"].transpose("replicate", "compartment", "time").values
        if "status" in dataset:
            count = count[~has_failed(dataset["status"].values)]
        if not len(count):
            raise PlanError("the dataset has no finished replicate: there is nothing to draw")
        if len(count) == 1:
            return count[0][:, None], [0.5], "one replicate"
        quantiles = np.moveaxis(np.quantile(count, _LEVELS, axis=0), 0, 1)
        return quantiles, list(_LEVELS), _caption(_LEVELS, "median", len(count))
    replicates = int(dataset.sizes.get("replicate", 0)) or int(dataset.attrs.get("replicates", 0))
    if "quantile" not in dataset:
        empty = np.empty((dataset.sizes["compartment"], 0, dataset.sizes["time"]))
        return empty, [], _caption((), "mean", replicates)
    variable = dataset["quantile"]
    (dim,) = set(variable.dims) - {"time", "compartment"}
    variable = variable.sortby(dim)
    levels = [float(level) for level in variable[dim].values]
    line = "median" if 0.5 in levels else "mean"
    quantiles = variable.transpose("compartment", dim, "time").values
    return quantiles, levels, _caption(levels, line, replicates)


def _caption(levels: Sequence[float], line: str, replicates: int) -> str:
    spans = [levels[-1 - low] - levels[low] for low in range(len(levels) // 2)]
    bands = " and ".join(f"{100 * span:.3g} %" for span in reversed(spans))
    what = f"{line}, {bands}" if bands else line
    return f"{what} of {replicates:,} replicates" if replicates else what


def styles_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and line style of each compartment; no two are equal while 32 suffice."""
    usual = [name for name in names if name in _USUAL]
    colours = [_USUAL[name] for name in usual]
    colours += [colour for colour in _SPARE if colour not in colours]
    others = [name for name in names if name not in _USUAL]
    return {name: frame.curve_style(i, colours) for i, name in enumerate([*usual, *others])}


def _dress(ax: Axes, time: np.ndarray, label: str, caption: str, axis: str) -> None:
    from matplotlib.dates import ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if time.dtype.kind == "M":
        locator = ax.xaxis.get_major_locator()
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        ax.set_xlabel("date")
    else:
        frame.label_time(ax, label)
    ax.set_ylabel(axis)
    ax.set_xlim(time.min(), time.max() if time.max() > time.min() else None)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    frame.quiet(ax)
    # The legend and the caption are above the axes, where they hide no curve.
    handles, _ = ax.get_legend_handles_labels()
    columns = min(len(handles), 8)
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False,
        handlelength=1.3, columnspacing=1.4, borderaxespad=0.3, title=caption, title_fontsize=9,
        alignment="left",
    )  # fmt: skip
    legend.get_title().set_alpha(0.7)
