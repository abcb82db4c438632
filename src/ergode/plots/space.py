"""Amounts in space: a field at one time, and its animation."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.arguments import is_finite_number, names_in
from ergode.core.errors import PlanError
from ergode.plots.frame import (
    COLOURS,
    SIZE,
    new_axes,
    new_figure,
    quiet,
    refuse_sweep,
    time_index,
)
from ergode.plots.movies import check_movie, write_movie

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_AXES = ("x", "y", "z")
_VOXEL, _COLUMN = "molecules in a voxel", "molecules in a column along z"


def field(
    dataset: xarray.Dataset,
    *,
    species: str,
    time: float | None = None,
    replicate: int | None = None,
    limits: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the amounts of a species in space at one time.

    One axis is drawn as steps, two as a map. Of three axes the map shows the sum along z.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate_space`; of statistics the mean is drawn.
    species : str
    time : float, optional
        One of the dataset's times [time]; the last if not given.
    replicate : int, optional
        Number of the realization; the first if not given.
    limits : (float, float), optional
        Amounts with the first and the last colour; those of the data if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given, as high as its map.

    Raises
    ------
    PlanError
        The dataset is not in space or has several points of a sweep, or it has no such species,
        time or replicate.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"A": 5}, [ergode.Reaction("A -> 0", rate_constant=0.1)]
    ... )
    >>> space = ergode.ReactionDiffusion(network, (8, 6), diffusion={"A": 1.0})
    >>> result = ergode.stochastic.simulate_space(space, times=[0, 1], device="cpu")
    >>> ergode.plots.field(result, species="A", time=1).get_xlabel()
    'x [length]'
    """
    shown = _chosen(dataset, species, replicate)
    when = None
    if "time" in shown.dims:
        index = time_index(dataset, time)
        when = float(dataset["time"][index])
        shown = shown.isel(time=index)
    elif time is not None:
        raise PlanError("the dataset has only the last time")
    ax = ax or new_axes(_size_of(shown))
    unit = dataset.attrs.get("time_unit", "")
    _draw(shown, _limits(shown, limits), ax)
    ax.set_title(
        species if when is None else f"{species}, time {when:g} {unit}".rstrip(), loc="left"
    )
    return ax


def animate_field(
    dataset: xarray.Dataset,
    path: str | os.PathLike[str],
    *,
    species: str,
    replicate: int | None = None,
    frames_per_second: int = 10,
    limits: tuple[float, float] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write an animation of the amounts of a species in space, one frame for each time.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.stochastic.simulate_space` with the output ``"trajectories"`` or
        ``"statistics"``.
    path : path
        A name that ends in ``.gif`` or ``.mp4``. The file appears when it is complete.
    species : str
    replicate : int, optional
        Number of the realization; the first if not given.
    frames_per_second : int
        From 1 to 100.
    limits : (float, float), optional
        Amounts with the first and the last colour; those of all times if not given.
    overwrite : bool
        Replace an animation of an earlier run, but no other file.

    Raises
    ------
    PlanError
        As for `field`; or the dataset has no times, the name is taken or has another end,
        `frames_per_second` is no whole number from 1 to 100, or ffmpeg is not installed (``.mp4``).
    WriteError
        The file could not be written, for example because the disk is full.
    """
    path = check_movie(path, frames_per_second, overwrite)
    shown = _chosen(dataset, species, replicate)
    if "time" not in shown.dims:
        raise PlanError("the dataset has only the last time; simulate with output='trajectories'")
    figure = new_figure()
    ax = figure.subplots()
    redraw = _draw(shown.isel(time=0), _limits(shown, limits), ax)
    unit = dataset.attrs.get("time_unit", "")

    def show(k: int) -> None:
        ax.set_title(f"{species}, time {float(dataset['time'][k]):g} {unit}".rstrip(), loc="left")
        redraw(shown.isel(time=k))

    return write_movie(path, figure, show, shown.sizes["time"], frames_per_second, overwrite)


def _chosen(dataset: xarray.Dataset, species: str, replicate: int | None) -> xarray.DataArray:
    """Amounts of a species, of one realization or their mean; the dims are time and axes."""
    kind = "amount" if "amount" in dataset else "mean"
    if kind not in dataset or "x" not in dataset[kind].dims:
        raise PlanError(
            "the dataset has no amounts in space; it comes from ergode.stochastic.simulate_space"
        )
    shown = dataset[kind]
    refuse_sweep(shown, "replicate", "time", "species", *_AXES)
    names_in("species", [species], dataset["species"].values)
    shown = shown.sel(species=species)
    if "replicate" in shown.dims:
        numbers = dataset["replicate"].values.tolist()
        number = numbers[0] if replicate is None else replicate
        if number not in numbers:
            raise PlanError(
                f"the dataset has no replicate {number!r}; it has {numbers[0]} to {numbers[-1]}"
            )
        shown = shown.sel(replicate=number)
    elif replicate is not None:
        raise PlanError("the dataset has no single replicates")
    if "z" not in shown.dims:
        return shown
    return shown.sum("z", skipna=False).assign_attrs(long_name=_COLUMN)


def _limits(shown: xarray.DataArray, limits: tuple[float, float] | None) -> tuple[float, float]:
    if limits is None:
        values = shown.values[np.isfinite(shown.values)]
        return 0.0, float(values.max(initial=1.0))
    low, high = limits
    if not (is_finite_number(low) and is_finite_number(high) and low < high):
        raise PlanError(f"limits are {limits!r}; expected two numbers that ascend")
    return float(low), float(high)


def _draw(
    shown: xarray.DataArray, limits: tuple[float, float], ax: Axes
) -> Callable[[xarray.DataArray], None]:
    """Draw a field; returns what draws another one in its place."""
    x = shown["x"].values
    ax.set_xlabel("x [length]")
    if "y" not in shown.dims:
        (line,) = ax.plot(x, shown.values, color=COLOURS[0], drawstyle="steps-mid")
        ax.set_ylim(limits[0], limits[1] * 1.05)
        ax.set_ylabel(_VOXEL)
        quiet(ax)
        return lambda other: line.set_ydata(other.values)
    y = shown["y"].values
    image = ax.imshow(
        shown.transpose("y", "x").values, origin="lower", vmin=limits[0], vmax=limits[1],
        extent=(*_edges(x), *_edges(y)), interpolation="nearest", cmap="viridis",
    )  # fmt: skip
    ax.set_ylabel("y [length]")
    label = _COLUMN if shown.attrs.get("long_name") == _COLUMN else _VOXEL
    # Beside the map, and as high: the map keeps the proportions of the grid.
    ax.figure.colorbar(image, cax=ax.inset_axes((1.03, 0.0, 0.03, 1.0)), label=label)
    return lambda other: image.set_data(other.transpose("y", "x").values)


def _size_of(shown: xarray.DataArray) -> tuple[float, float]:
    """Size of a figure of a field [inches]: as high as its map, which keeps its proportions."""
    if "y" not in shown.dims:
        return SIZE
    wide, high = (_edges(shown[axis].values)[1] for axis in ("x", "y"))
    return SIZE[0], float(np.clip(0.8 * SIZE[0] * high / wide + 0.9, 2.0, SIZE[0]))


def _edges(centres: np.ndarray) -> tuple[float, float]:
    """First and last face of voxels, from their centres: the first face is at 0."""
    half = float(centres[0])
    return 0.0, float(centres[-1]) + half
