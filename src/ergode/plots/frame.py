"""Common style of all figures: size, axes without frame, and colour-blind-safe colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import files
from ergode.core.arguments import check_unit
from ergode.core.errors import PlanError
from ergode.core.status import has_failed

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, DPI = (7.2, 4.2), 160
_SUFFIXES = (".png", ".svg", ".pdf")
# M. Okabe, K. Ito, "Color universal design" (2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B")


def new_figure(size: tuple[float, float] = SIZE) -> Figure:
    """A figure for a file; it is not shown in a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, dpi=DPI, layout="constrained")


def figure_of(draw: Callable[..., Any], dataset: Any, **options: Any) -> Figure:
    """The figure that a plot function draws of a dataset, for a file."""
    figure = new_figure()
    draw(dataset, ax=figure.subplots(), **options)
    return figure


def new_axes(size: tuple[float, float] = SIZE) -> Axes:
    """Axes of a new figure, which a notebook shows."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=size, dpi=DPI, layout="constrained")
    return ax


def quiet(ax: Axes) -> Axes:
    """Hide the top and right sides of the frame; return the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)
    return ax


def time_index(dataset: xarray.Dataset, time: float | None) -> int:
    """Index of one of a dataset's times; of the last if `time` is None.

    Raises a PlanError if the dataset has no such time.
    """
    times = np.asarray(dataset["time"], float)
    if time is None:
        return times.size - 1
    nearest = int(np.abs(times - time).argmin())
    if not np.isclose(times[nearest], time, rtol=1e-9, atol=0.0):
        raise PlanError(
            f"the dataset has no time {time:g}; the nearest is {times[nearest]:g}, and there are "
            f"{times.size} from {times[0]:g} to {times[-1]:g}"
        )
    return nearest


def with_dims(dataset: xarray.Dataset, *dims: str) -> xarray.Dataset:
    """A dataset with the dims that a selection of one replicate, species, ... has dropped.

    Raises a PlanError if a selection has left a single time.
    """
    dropped = [dim for dim in dims if dim in dataset.coords and dim not in dataset.dims]
    if "time" in dropped:
        raise PlanError("the dataset has a single time; expected all times, to draw them")
    for dim in dropped:
        having = [
            name for name, one in dataset.data_vars.items()
            if "time" in one.dims or (name, dim) == ("status", "replicate")
        ]  # fmt: skip
        expanded = {name: dataset[name].expand_dims(dim) for name in having}
        dataset = dataset.drop_vars(dim).assign(expanded)
    return dataset


def refuse_sweep(array: xarray.DataArray, *known: str) -> None:
    """Refuse variables that have dims of a sweep besides the `known` ones.

    Raises a PlanError if there are several points.
    """
    if swept := sorted({*map(str, array.dims)} - {*known}):
        raise PlanError(f"the dataset is swept over {', '.join(swept)}; select one point")


def without_failures(dataset: xarray.Dataset) -> xarray.Dataset:
    """The replicates that did not fail."""
    return dataset.isel(replicate=~has_failed(dataset["status"].values))


def curve_style(number: int, colours: Sequence[str] = COLOURS) -> dict[str, Any]:
    """Colour and line style of a curve; after the last colour, the next line style begins."""
    again, which = divmod(number, len(colours))
    return {"color": colours[which], "linestyle": _LINES[again % len(_LINES)]}


_LINES = ("-", "--", "-.", ":")


def draw_band(
    ax: Axes, x: Any, middle: Any, ends: tuple[Any, Any], number: int, label: str
) -> None:
    """Draw a curve with a band around it, in the colour of this number."""
    style = curve_style(number)
    ax.fill_between(x, *ends, color=style["color"], alpha=0.2, lw=0)
    ax.plot(x, middle, label=label, **style)


def time_label(dataset: Any, time_unit: str | None = None, what: str = "time") -> str:
    """Label for an axis of time: with the unit given, or that of the model or of the times."""
    check_unit("time_unit", time_unit)
    unit = time_unit or dataset.attrs.get("time_unit")
    for dim in ("time", "interval"):
        if not unit and dim in dataset.coords:
            unit = dataset[dim].attrs.get("units")
    unit = None if unit in ("", "1", "time") else unit
    return f"{what} [{unit}]" if unit else what


def label_time(ax: Axes, label: str) -> None:
    """Label an axis of time; years are whole numbers."""
    ax.set_xlabel(label)
    if label.endswith(("[year]", "[years]")) and np.ptp(ax.get_xlim()) >= 2:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def save_figure(
    figure: Figure,
    path: str | os.PathLike[str],
    title: str | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a figure with a title above it; on failure no partial file remains.

    `overwrite` replaces a figure of an earlier run, but no other file.

    Raises
    ------
    PlanError
        See `check_figure_path`; or the name is taken.
    WriteError
        The file could not be written, for example because the disk is full.
    """
    path = check_figure_path(path)
    if title:
        figure.suptitle(title, x=0.012, ha="left", fontweight="bold")
    key = _AUTHOR[path.suffix]
    with files.new_file(path, overwrite=overwrite, written_here=files.is_own_text) as partial:
        figure.savefig(partial, metadata={key: files.GENERATOR})
    return path


# Metadata key of each format for the program that created a figure.
_AUTHOR = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a figure can be written there; else a PlanError."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise PlanError(
            f"cannot write the figure '{path.name}': expected a name that ends in "
            f"{', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"
        )
    if not path.parent.is_dir():
        raise PlanError(f"cannot write '{path}': the folder '{path.parent}' does not exist")
    return path
