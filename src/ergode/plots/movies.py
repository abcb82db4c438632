"""Animations: a density that travels, and an epidemic that spreads over its contacts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import files
from ergode.core.arguments import as_numbers, integer
from ergode.core.errors import PlanError
from ergode.plots.density import density
from ergode.plots.epidemics import styles_of
from ergode.plots.frame import new_figure, quiet, time_label
from ergode.plots.layers import PROBABILITIES

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from ergode.models.networks.contact_network import ContactNetwork

_EDGES_MOST = 20_000  # drawn
_ROOM = 0.05  # around all that is drawn


def animate_density(
    dataset: xarray.Dataset,
    path: str | os.PathLike[str],
    *,
    variables: Sequence[str] | None = None,
    probabilities: Sequence[float] = PROBABILITIES,
    units: Mapping[str, str] | None = None,
    frames_per_second: int = 5,
    overwrite: bool = False,
) -> Path:
    """Write an animation of a density of two variables, one frame for each time.

    The path of the mean up to the time is drawn, too. All frames have the same axes.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate` with ``keep="all"``.
    path : path
        A name that ends in ``.gif`` or ``.mp4``. The file appears when it is complete.
    variables, probabilities, units
        As for `ergode.plots.density`.
    frames_per_second : int
        From 1 to 100.
    overwrite : bool
        Replace an animation of an earlier run, but no other file.

    Returns
    -------
    Path
        Path of the written file.

    Raises
    ------
    PlanError
        As for `ergode.plots.density`; or the name is taken or has another end, `frames_per_second`
        is no whole number from 1 to 100, or ffmpeg is not installed (``.mp4``).
    WriteError
        The file could not be written, for example because the disk is full.
    """
    path = check_movie(path, frames_per_second, overwrite)
    if "mean" not in dataset or "time" not in dataset.dims or "variable" not in dataset.dims:
        raise PlanError("the dataset has no density over time; see ergode.density.propagate")
    names = [str(name) for name in dataset["variable"].values]
    chosen = list(names[:2] if variables is None else variables)
    if len(chosen) != 2 or not set(chosen) <= set(names):
        raise PlanError(f"variables is {variables!r}; expected two of {', '.join(names)}")
    times = dataset["time"].values
    mean = dataset["mean"].transpose("time", "variable").values[:, [names.index(n) for n in chosen]]
    unit = (units or {}).get("time") or dataset.attrs.get("time_unit") or ""
    figure = new_figure()
    ax = figure.subplots()
    boxes = []
    for time in times:  # the regions of all times, for common axes
        ax.clear()
        density(dataset, float(time), variables=chosen, probabilities=probabilities, ax=ax)
        boxes.append([*ax.get_xlim(), *ax.get_ylim()])
    ends = np.array(boxes)
    box = np.stack([ends[:, [0, 2]].min(axis=0), ends[:, [1, 3]].max(axis=0)])

    def show(k: int) -> None:
        ax.clear()
        density(
            dataset, float(times[k]), variables=chosen, probabilities=probabilities, units=units,
            ax=ax,
        )  # fmt: skip
        ax.plot(*mean[: k + 1].T, "o-", color="black", markersize=2, linewidth=0.6, alpha=0.6)
        ax.set(xlim=box[:, 0], ylim=box[:, 1])
        ax.set_title(f"time {times[k]:.4g} {unit}".rstrip(), loc="left")

    return write_movie(path, figure, show, times.size, frames_per_second, overwrite)


def animate_epidemic(
    states: xarray.DataArray,
    path: str | os.PathLike[str],
    *,
    positions: Any,
    contacts: ContactNetwork | None = None,
    replicate: int | None = None,
    time_unit: str | None = None,
    frames_per_second: int = 5,
    overwrite: bool = False,
) -> Path:
    """Write an animation of the compartment of every node, one frame for each time.

    Parameters
    ----------
    states : xarray.DataArray
        From `ergode.epidemics.states`.
    path : path
        A name that ends in ``.gif`` or ``.mp4``. The file appears when it is complete.
    positions : array_like, shape [node, 2]
        Where the nodes are drawn: coordinates, or a layout of networkx or igraph.
    contacts : ContactNetwork, optional
        Edges to draw between nodes; of more than 20,000 an even choice.
    replicate : int, optional
        Number of the replicate; the first if not given.
    time_unit : str, optional
        Unit of times in the titles; that of the model if not given.
    frames_per_second : int
        From 1 to 100.
    overwrite : bool
        Replace an animation of an earlier run, but no other file.

    Returns
    -------
    Path
        Path of the written file.

    Raises
    ------
    PlanError
        The array is not of states, the positions have another shape, or there is no such
        replicate; or the name is taken or has another end, `frames_per_second` is no whole number
        from 1 to 100, or ffmpeg is not installed (``.mp4``).
    WriteError
        The file could not be written, for example because the disk is full.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    path = check_movie(path, frames_per_second, overwrite)
    if not {"replicate", "time", "node"} <= set(getattr(states, "dims", ())):
        raise PlanError("states has no dims replicate, time and node; see ergode.epidemics.states")
    numbers = states["replicate"].values.tolist()
    number = numbers[0] if replicate is None else replicate
    if number not in numbers:
        raise PlanError(f"states has no replicate {number!r}; it has {numbers[0]} to {numbers[-1]}")
    shown = states.sel(replicate=number).transpose("time", "node").values
    places = as_numbers(positions)
    if places is None or places.shape != (shown.shape[1], 2) or not np.isfinite(places).all():
        raise PlanError(f"positions must be finite numbers, shape [{shown.shape[1]}, 2]")
    if contacts is not None and contacts.node_count != shown.shape[1]:
        raise PlanError(
            f"contacts has {contacts.node_count} nodes; states has {shown.shape[1]:,} nodes"
        )
    names = [str(name) for name in states.attrs["compartments"]]
    styles = styles_of(names)
    colours = np.array([to_rgba(styles[name]["color"]) for name in names])
    when = states["date"].values if "date" in states.coords else states["time"].values
    unit = time_label(states, time_unit, "")[2:-1]
    figure = new_figure((5.6, 5.2))
    ax = quiet(figure.subplots())
    if contacts is not None:
        edges = np.stack(contacts.edges(), axis=1)
        edges = edges[:: max(1, -(-len(edges) // _EDGES_MOST))]
        lines = LineCollection(places[edges], colors="0.8", linewidths=0.3, zorder=0)
        ax.add_collection(lines)
    size = float(np.clip(6_000 / max(shown.shape[1], 1), 2.0, 40.0))
    dots = ax.scatter(
        places[:, 0], places[:, 1], s=size, c=colours[shown[0]], linewidths=0, zorder=1
    )
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.margins(_ROOM)
    ax.spines[:].set_visible(False)
    marks = [Line2D([], [], marker="o", linestyle="", color=colours[k]) for k in range(len(names))]
    ax.legend(marks, names, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    def show(k: int) -> None:
        dots.set_facecolor(colours[shown[k]])
        said = np.datetime_as_string(when[k], "D") if when.dtype.kind == "M" else (
            f"time {when[k]:.4g} {unit}".rstrip()
        )  # fmt: skip
        ax.set_title(said, loc="left")

    return write_movie(path, figure, show, len(shown), frames_per_second, overwrite)


def write_movie(
    path: Path, figure: Figure, show: Callable[[int], Any], count: int, frames_per_second: int,
    overwrite: bool,
) -> Path:  # fmt: skip
    """Write `count` frames, each drawn by `show` on the figure, to a path of `check_movie`."""
    from matplotlib.animation import FuncAnimation

    def drawn(k: int) -> list[Any]:
        show(k)
        return []

    movie = FuncAnimation(figure, drawn, init_func=list, frames=count, blit=False)
    with files.new_file(path, overwrite=overwrite, written_here=files.is_own_text) as partial:
        movie.save(partial, writer=_writer(path, frames_per_second))
        if path.suffix == ".gif":
            _mark(partial)
    return path


def check_movie(path: str | os.PathLike[str], frames_per_second: int, overwrite: bool) -> Path:
    """The path, if such an animation can be written there; else a PlanError."""
    path = Path(path)
    _writer(path, integer("frames_per_second", frames_per_second, 1, 100))
    files.check_new(path, overwrite=overwrite, written_here=files.is_own_text)
    return path


def _writer(path: Path, frames_per_second: int) -> Any:
    """What turns frames into a file of this kind."""
    from matplotlib import rcParams
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if path.suffix == ".gif":
        return PillowWriter(fps=frames_per_second)
    if path.suffix != ".mp4":
        raise PlanError(f"cannot write the animation '{path.name}': expected .gif or .mp4")
    if not FFMpegWriter.isAvailable():
        try:
            import imageio_ffmpeg
        except ImportError:
            raise PlanError(
                f"cannot write '{path.name}': it needs ffmpeg (pip install imageio-ffmpeg)"
            ) from None
        rcParams["animation.ffmpeg_path"] = imageio_ffmpeg.get_ffmpeg_exe()
    return FFMpegWriter(fps=frames_per_second, metadata={"comment": files.GENERATOR})


def _mark(path: Path) -> None:
    """Append a comment to a GIF, by which a later call knows it: before its last byte."""
    text = files.GENERATOR.encode()
    content = path.read_bytes()
    assert content[-1:] == b";"
    path.write_bytes(content[:-1] + b"\x21\xfe" + bytes([len(text)]) + text + b"\x00;")
