"""Densities: regions of two variables, one variable over time, and a comparison with particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.plots.corner import draw_curve, draw_regions
from ergode.plots.frame import COLOURS, new_axes, new_figure, quiet, time_label
from ergode.plots.layers import (
    PROBABILITIES,
    check_probabilities,
    check_units,
    chosen_of,
    layers_of,
    legend_of,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED = COLOURS[:2]


def density(
    dataset: xarray.Dataset | Mapping[str, Any],
    time: float | Sequence[float] | None = None,
    *,
    variables: str | Sequence[str] | None = None,
    probabilities: Sequence[float] = PROBABILITIES,
    color: str | Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of two variables as highest-density regions, at one time or several.

    The probability of each cell is spread by a cubic spline, so that outlines are smooth. A region
    that is thinner than a cell is drawn about as thick as one.

    Parameters
    ----------
    dataset : xarray.Dataset or mapping of str to xarray.Dataset
        From `ergode.density.propagate` or `ergode.particles.propagate`; or several by their labels,
        as for `density_marginals`.
    time : float or sequence of float, optional
        One of its times, or several, which get a legend; the last if not given.
    variables : str or (str, str), optional
        Horizontal and vertical variable; the first two if not given. The density of one variable is
        drawn as a curve.
    probabilities : sequence of float
        Probabilities of the regions, between 0 and 1.
    color : str or sequence of str, optional
        Colour of each time or dataset.
    units : mapping of str to str, optional
        Units of variables and of ``"time"``, for labels.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Raises
    ------
    PlanError
        The dataset has no cells at this time, or a variable is unknown.
    """
    layers = layers_of(dataset, time, color)
    names = chosen_of(layers, variables, 2)
    check_units(units, layers[0].names)
    if len(names) > 2:
        raise PlanError(f"variables is {variables!r}; expected one name or two")
    ax = quiet(new_axes() if ax is None else ax)
    if len(names) == 1:
        for layer in layers:
            draw_curve(ax, layer, names[0])
        ax.set_xlabel(_with_unit(names[0], units))
        ax.set_ylabel("density")
    else:
        for layer in layers:
            draw_regions(ax, layer, names, check_probabilities(probabilities))
        ax.set_xlabel(_with_unit(names[0], units))
        ax.set_ylabel(_with_unit(names[1], units))
    if legend := legend_of(layers, units):
        ax.legend(**legend, loc=_free_corner(ax))
    return ax


def _free_corner(ax: Axes) -> Any:
    """The corner of the axes with the fewest points of outlines in it."""
    outlines = [path.vertices for one in ax.collections for path in one.get_paths()]
    places = ax.transLimits.transform(np.concatenate(outlines))  # 0 to 1
    counts = {}
    for above in ("upper", "lower"):
        for side in ("right", "left"):
            x = places[:, 0] if side == "left" else 1 - places[:, 0]
            y = places[:, 1] if above == "lower" else 1 - places[:, 1]
            counts[f"{above} {side}"] = int(((x < 0.3) & (y < 0.45)).sum())
    return min(counts, key=lambda corner: counts[corner])


def _with_unit(name: str, units: Mapping[str, str] | None) -> str:
    unit = (units or {}).get(name)
    return f"{name} [{unit}]" if unit else name


def density_strip(
    dataset: xarray.Dataset,
    variable: str | None = None,
    *,
    time_unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one variable over time: the mean, and bands of one and two standard deviations.

    Times of measurements are marked. `time_unit` is that of the axis of time; by default, that of
    the model.
    """
    from ergode.density import views

    if "covariance" not in dataset:
        raise PlanError("the dataset has no covariance; expected one from ergode.density.propagate")
    views.check_single(dataset)
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
    return _over_time(ax, dataset, name, time_unit)


def _over_time(ax: Axes, dataset: xarray.Dataset, name: str, time_unit: str | None) -> Axes:
    """Label axes of a variable over time, and mark the measurements."""
    for at in dataset["measurement"].values:
        ax.axvline(at, color=_RED, linewidth=0.8)
    ax.set_xlabel(time_label(dataset, time_unit))
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


def density_over_time(
    dataset: xarray.Dataset,
    variable: str | None = None,
    *,
    probability: float = 0.95,
    time_unit: str | None = None,
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
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
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
    return _over_time(ax, dataset, name, time_unit)


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
                ax.set_title(f"time {float(here['time']):.3g}", fontsize="medium", loc="left")
    figure.legend(
        handles=[Patch(color=_BLUE, alpha=0.35, label="density"),
                 Line2D([], [], color=_RED, label="particles"),
                 Line2D([], [], color="black", linestyle="--", label="Kalman filter")],
        loc="outside lower center", ncols=3, frameon=False,
    )  # fmt: skip
    return figure
