"""Densities: marginals, highest-density regions, and their evolution in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.plots.frame import COLOURS, DPI, new_axes, new_figure, quiet

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED = COLOURS[:2]
_PROBABILITIES = (0.997, 0.95, 0.683)


def density(
    dataset: xarray.Dataset,
    time: float | None = None,
    *,
    variables: tuple[str, str] | None = None,
    probabilities: Sequence[float] = _PROBABILITIES,
    color: str = _BLUE,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of two variables at one time, as highest-density regions.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate`.
    time : float, optional
        One of its times; the last if not given.
    variables : (str, str), optional
        Horizontal and vertical variable; the first two if not given. For a dataset with one
        variable the density is drawn as a curve.
    probabilities : sequence of float
        Probabilities of the regions.
    color : str
        Colour of the regions.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has no cells at this time, or a variable is unknown.
    """
    from ergode.density import views

    cells = views.cells_at(dataset, time)
    ax = quiet(new_axes() if ax is None else ax)
    names = [str(name) for name in dataset["variable"].values]
    if len(names) == 1:
        _draw_marginal(ax, cells, names[0], color)
        ax.set_xlabel(names[0])
        ax.set_ylabel("density")
        return ax
    pair = list(variables or names[:2])
    if len(pair) != 2:
        raise PlanError(f"variables is {variables!r}; expected two names")
    plane = views.marginal(cells, pair)
    mass = plane.to_dataset(name="mass").stack(cell=pair)
    levels = np.unique(views.highest_density(mass, sorted(probabilities, reverse=True)))
    # A margin of zeros, so that regions close at the edge of the grid.
    padded = np.pad(plane.values, 1)
    x, y = (_widened(plane[name].values) for name in pair)
    top = 1.01 * max(padded.max(), levels[-1])
    for level in levels:  # stacked, so that inner regions are darker
        ax.contourf(x, y, padded.T, [level, top], colors=color, alpha=0.25)
    ax.contour(x, y, padded.T, levels, colors=color, linewidths=0.8)
    ax.set_xlabel(pair[0])
    ax.set_ylabel(pair[1])
    return ax


def _draw_marginal(ax: Axes, cells: xarray.Dataset, name: str, color: str) -> None:
    """Draw the density of one variable as a filled curve."""
    from ergode.density import views

    curve = views.marginal(cells, name)
    ax.fill_between(curve[name], curve, color=color, alpha=0.3, linewidth=0)
    ax.plot(curve[name], curve, color=color)


def density_strip(
    dataset: xarray.Dataset, variable: str | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw one variable over time: the mean, and bands of one and two standard deviations.

    Times of measurements are marked.
    """
    if "covariance" not in dataset:
        raise PlanError("the dataset has no covariance; expected one from ergode.density.propagate")
    several = dataset["covariance"].dims[:-3]
    if several:
        raise PlanError(
            f"the dataset has several densities; choose one, as by isel({several[0]}=0)"
        )
    names = [str(name) for name in dataset["variable"].values]
    name = names_in("variable", variable, names)[0]
    ax = quiet(new_axes() if ax is None else ax)
    k = names.index(name)
    time, mean, deviation, _ = _both_sides(dataset, k)
    for factor, alpha in ((2, 0.15), (1, 0.3)):
        ax.fill_between(
            time, mean - factor * deviation, mean + factor * deviation, color=_BLUE, alpha=alpha,
            linewidth=0,
        )  # fmt: skip
    ax.plot(time, mean, color=_BLUE)
    return _over_time(ax, dataset, name)


def _over_time(ax: Axes, dataset: xarray.Dataset, name: str) -> Axes:
    """Label axes of a variable over time, and mark the measurements."""
    for at in dataset["measurement"].values:
        ax.axvline(at, color=_RED, linewidth=0.8)
    ax.set_xlabel("time")
    ax.set_ylabel(name)
    return ax


def _both_sides(
    dataset: xarray.Dataset, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, means and deviations of variable `k`, with both sides of the jump at a measurement.

    The last array is the index of the reported time for each; for the side before a measurement it
    is that of the latest reported density before the jump.
    """
    grid, seen = dataset["time"].values, dataset["measurement"].values
    before = np.maximum(np.searchsorted(grid, seen) - 1, 0)
    time = np.concatenate([seen, grid])
    mean = np.concatenate([dataset["prior_mean"].values[:, k], dataset["mean"].values[:, k]])
    variance = [dataset[name].values[:, k, k] for name in ("prior_covariance", "covariance")]
    deviation = np.sqrt(np.concatenate(variance))
    source = np.concatenate([before, np.arange(grid.size)])
    order = np.argsort(time, kind="stable")  # the prediction first, then the posterior
    order = order[np.isfinite(mean[order])]  # a run that ended early did not reach the others
    return time[order], mean[order], deviation[order], source[order]


def density_marginals(
    dataset: xarray.Dataset, time: float | None = None, *, color: str = _BLUE
) -> Figure:
    """Draw all marginals of a density at one time: curves on the diagonal, pairs below it."""
    from ergode.density import views

    cells = views.cells_at(dataset, time)
    names = [str(name) for name in dataset["variable"].values]
    size = len(names)
    figure = new_figure((2.2 * size + 1, 2.2 * size + 0.6))
    grid: Any = figure.subplots(size, size, squeeze=False)
    for row, below in enumerate(names):
        for column, across in enumerate(names):
            ax = grid[row, column]
            if column > row:
                ax.set_axis_off()
            elif column == row:
                _draw_marginal(ax, cells, below, color)
                ax.set_yticks([])
            else:
                density(dataset, time, variables=(across, below), color=color, ax=ax)
            ax.set_xlabel(across if row == size - 1 else "")
            ax.set_ylabel(below if column == 0 and row > 0 else "")
    return figure


def density_over_time(
    dataset: xarray.Dataset,
    variable: str | None = None,
    *,
    probability: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw the marginal of one variable as a strip over time, with the mean and an interval.

    A measurement changes the density at once; mean and interval jump there. The density just before
    a measurement is not part of the result, only its mean and covariance: there the interval is
    that of the latest reported density, moved and scaled to this mean and deviation.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate` with ``keep="all"``.
    variable : str, optional
        Variable to draw; the first if not given.
    probability : float
        Probability of the credible interval.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        Cells were not kept, the dataset has fewer than two times, or the variable is unknown.
    """
    from matplotlib.colors import LinearSegmentedColormap

    from ergode.density import regions, views

    names = [str(name) for name in dataset["variable"].values]
    name = names_in("variable", variable, names)[0]
    time = dataset["time"].values
    if time.size < 2:
        raise PlanError("a strip over time needs two times or more")
    curves = [views.marginal(views.cells_at(dataset, index=k), name) for k in range(time.size)]
    step = min((float(np.diff(c[name]).min()) for c in curves if c.size > 1), default=1.0)
    low = min(float(curve[name][0]) for curve in curves)
    high = max(float(curve[name][-1]) for curve in curves)
    at = np.linspace(low, high, min(2_000, 1 + int(np.rint((high - low) / step))))
    strip = np.array([np.interp(at, c[name], c, left=0.0, right=0.0) for c in curves])
    # Each time is scaled by its peak; otherwise a spreading density would fade.
    strip /= strip.max(axis=1, keepdims=True)
    ax = quiet(new_axes() if ax is None else ax)
    shades = LinearSegmentedColormap.from_list("density", ["white", _BLUE])
    half = 0.5 * (at[1] - at[0]) if at.size > 1 else 0.5 * step
    rows = np.append(at - half, at[-1] + half)
    ax.pcolormesh(_column_edges(dataset), rows, strip.T, cmap=shades, rasterized=True)
    ends = regions.quantiles(dataset, [0.5 - 0.5 * probability, 0.5 + 0.5 * probability])
    k = names.index(name)
    every, mean, deviation, source = _both_sides(dataset, k)
    reported = dataset["mean"].values[source, k]
    scale = deviation / np.sqrt(dataset["covariance"].values[source, k, k])
    for end in ends.values[:, k].T:
        ax.plot(every, mean + (end[source] - reported) * scale, color="black", linewidth=0.7)
    ax.plot(every, mean, color="black", linewidth=1.2)
    return _over_time(ax, dataset, name)


def _column_edges(dataset: xarray.Dataset) -> np.ndarray:
    """Ends of the columns of the reported times: halfway, or at a measurement between the two."""
    time, seen = dataset["time"].values, np.sort(dataset["measurement"].values)
    edges = 0.5 * (time[1:] + time[:-1])
    latest = np.searchsorted(seen, time[1:], side="right") - 1
    if seen.size:
        at = seen[np.maximum(latest, 0)]
        edges = np.where((latest >= 0) & (at > time[:-1]), at, edges)
    first, last = 0.5 * (time[1] - time[0]), 0.5 * (time[-1] - time[-2])
    return np.concatenate([[time[0] - first], edges, [time[-1] + last]])


def density_surface(
    dataset: xarray.Dataset,
    time: float | None = None,
    *,
    variables: Sequence[str] | None = None,
    probabilities: Sequence[float] = _PROBABILITIES,
    color: str = _BLUE,
    ax: Any = None,
) -> Any:
    """Draw the density of three variables as nested surfaces of highest-density regions.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.density.propagate`.
    time : float, optional
        One of its times; the last if not given.
    variables : sequence of three str, optional
        Variables to draw; the first three if not given.
    probabilities : sequence of float
        Probabilities of the regions.
    color : str
        Colour of the surfaces.
    ax : mpl_toolkits.mplot3d.axes3d.Axes3D, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        See `ergode.density.surface`.
    """
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    from ergode.density import regions, views

    cells = views.cells_at(dataset, time)
    names = [str(name) for name in dataset["variable"].values]
    chosen = list(variables or names[:3])
    if ax is None:
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=(6, 5), dpi=DPI, layout="constrained")
        ax = figure.add_subplot(projection="3d")
    corners = []
    for probability in sorted(probabilities, reverse=True):
        vertices, faces = regions.surface(cells, chosen, probability)
        ax.add_collection3d(
            Poly3DCollection(vertices[faces], facecolor=color, alpha=0.18, edgecolor="none")
        )
        corners.append(vertices)
    around = np.concatenate(corners)
    for axis, values in zip("xyz", around.T, strict=True):
        getattr(ax, f"set_{axis}lim")(values.min(), values.max())
    ax.set_xlabel(chosen[0])
    ax.set_ylabel(chosen[1])
    ax.set_zlabel(chosen[2])
    return ax


def comparison(
    dataset: xarray.Dataset, times: Sequence[float] | None = None, *, title: bool = True
) -> Figure:
    """Draw the marginals of a density, particles and a Kalman filter for each variable.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.particles.compare`.
    times : sequence of float, optional
        Times, one column each; by default up to four times of the dataset, evenly spaced.
    title : bool
        Write the time above each column.

    Returns
    -------
    matplotlib.figure.Figure
        Marginals of the density (filled), the particles (steps) and the Kalman filter (dashed),
        with the total variation between density and particles, and the total variation expected
        from sampling alone.

    Raises
    ------
    PlanError
        The dataset is not a comparison, or lacks one of the times.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if "total_variation" not in dataset:
        raise PlanError(
            "the dataset is not a comparison; expected one from ergode.particles.compare"
        )
    if times is None:
        last = dataset.sizes["time"] - 1
        chosen = np.unique(np.linspace(0, last, 4).round().astype(int))
    else:
        apart = np.abs(dataset["time"].values[:, None] - np.asarray(times, float))
        chosen = apart.argmin(axis=0)
        if (apart.min(axis=0) > 1e-9 * np.ptp(dataset["time"].values)).any():
            raise PlanError(f"times is {times!r}; the dataset has {dataset['time'].values}")
    names = [str(name) for name in dataset["variable"].values]
    figure = new_figure((2.6 * len(chosen) + 0.6, 1.7 * len(names) + 0.5))
    axes: Any = figure.subplots(len(names), len(chosen), squeeze=False)
    for row, name in enumerate(names):
        for column, index in enumerate(chosen):
            ax = quiet(axes[row, column])
            here = dataset.isel(time=int(index)).sel(variable=name)
            grid, cloud = (here["marginal"].sel(tool=tool) for tool in ("density", "particles"))
            at = here["position"].values
            ax.fill_between(at, grid, step="mid", color=_BLUE, alpha=0.35, linewidth=0)
            ax.step(at, cloud, where="mid", color=_RED, linewidth=1)
            ax.plot(at, here["marginal"].sel(tool="kalman"), "--", color="black", linewidth=0.8)
            ax.set_yticks([])
            ax.locator_params(axis="x", nbins=3)
            ax.set_ylim(0, 1.3 * float(np.nanmax([grid, cloud])))
            far, chance = (
                float(here[key]) for key in ("total_variation", "total_variation_by_chance")
            )
            ax.text(
                0.98, 0.97, f"{far:.2g} (chance {chance:.1g})", transform=ax.transAxes, ha="right",
                va="top", fontsize="small",
            )  # fmt: skip
            ax.set_ylabel(name if column == 0 else "")
            if row == 0 and title:
                ax.set_title(f"time {float(here['time']):.3g}", fontsize="medium")
    figure.legend(
        handles=[Patch(color=_BLUE, alpha=0.35, label="density"),
                 Line2D([], [], color=_RED, label="particles"),
                 Line2D([], [], color="black", linestyle="--", label="Kalman filter")],
        loc="outside lower center", ncols=3, frameon=False,
    )  # fmt: skip
    return figure


def _widened(values: np.ndarray) -> np.ndarray:
    step = values[1] - values[0] if values.size > 1 else 1.0
    return np.concatenate([[values[0] - step], values, [values[-1] + step]])
