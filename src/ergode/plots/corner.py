"""Corner plots: all marginals of one and of two variables of a density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.plots.frame import new_figure, quiet
from ergode.plots.layers import (
    PROBABILITIES,
    Layer,
    check_probabilities,
    check_units,
    chosen_of,
    extent,
    layers_of,
    legend_of,
    write_axis,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 8  # variables in a figure
_PAGE = 7.2  # inches: the width of a page
_PANEL = 1.9  # inches, at most
_PLACES = 1 << 16  # of a pair of variables
_TEXT: Any = {"font.size": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7}


def density_marginals(
    dataset: xarray.Dataset | Mapping[str, Any],
    time: float | Sequence[float] | None = None,
    *,
    variables: Sequence[str] | None = None,
    probabilities: Sequence[float] = PROBABILITIES,
    color: str | Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
) -> Figure:
    """Draw all marginals of a density: curves on the diagonal, regions of pairs below it.

    Several times, or several results at one time, are drawn over each other, with a legend. The
    curves of several times are scaled to the same height, those of several results are not.

    Parameters
    ----------
    dataset : xarray.Dataset or mapping of str to xarray.Dataset or array_like
        From `ergode.density.propagate` or `ergode.particles.propagate`. To compare several results,
        a mapping from their labels; a value may be an array of samples, shape [point_count,
        variable_count], with the variables of the first dataset. Particles are drawn in cells about
        as wide as the kernels of Scott's rule.
    time : float or sequence of float, optional
        One of its times, or several; the last if not given.
    variables : sequence of str, optional
        Two to eight variables; the first eight at most if not given.
    probabilities : sequence of float
        Probabilities of the highest-density regions of pairs, between 0 and 1.
    color : str or sequence of str, optional
        Colour of each time or dataset.
    units : mapping of str to str, optional
        Units of variables and of ``"time"``, for labels.

    Returns
    -------
    matplotlib.figure.Figure
        As wide as a page (7.2 inches) from four variables on.

    Raises
    ------
    PlanError
        A time was not kept, a variable is unknown, there are more than eight, several times and
        several results are given, or one dataset has several densities.

    References
    ----------
    D. W. Scott, "Multivariate Density Estimation" (1992), section 6.3.

    Examples
    --------
    >>> import ergode
    >>> found = ergode.density.propagate(
    ...     ergode.fields.van_der_pol(), ergode.Gaussian([1.5, 0.5], [0.04, 0.04]), times=[0, 1, 2],
    ...     parameters={"damping": 0.5}, device="cpu",
    ... )
    >>> figure = ergode.plots.density_marginals(found, [0, 1, 2])
    """
    from matplotlib import rc_context

    layers = layers_of(dataset, time, color)
    names = chosen_of(layers, variables, _MOST)
    check_units(units, layers[0].names)
    count = len(names)
    if count > _MOST:
        raise PlanError(f"{count} variables are too many for one figure; choose up to {_MOST}")
    regions = check_probabilities(probabilities)
    is_scaled = len(layers) > 1 and hasattr(dataset, "data_vars")
    limits = {name: extent(layers, name) for name in names}
    side = min(_PAGE, _PANEL * count + 0.8)
    ticks = 4 if count < 5 else 3
    with rc_context(_TEXT):
        figure = new_figure((side, side))
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.03, h_pad=0.03, wspace=0.03, hspace=0.03)
        axes: Any = figure.subplots(count, count, squeeze=False)
        for row, below in enumerate(names):
            for column, across in enumerate(names):
                ax = axes[row, column]
                if column > row:
                    ax.set_axis_off()
                    continue
                quiet(ax)
                for layer in layers:
                    if column == row:
                        draw_curve(ax, layer, below, is_scaled=is_scaled)
                    else:
                        draw_regions(ax, layer, [across, below], regions, places_most=_PLACES)
                _finish(ax, row, column, count, names, limits, units, ticks)
        figure.align_labels()
        if legend := legend_of(layers, units):
            columns = 1 if len(layers) < 9 else 2
            corner = (0.985, 0.985) if count > 1 else (1.0, 1.0)
            shown = figure.legend(
                **legend, loc="upper right", bbox_to_anchor=corner, ncols=columns, fontsize=8
            )
            shown.set_in_layout(False)
    return figure


def _finish(
    ax: Axes, row: int, column: int, count: int, names: list[str], limits: dict[str, Any],
    units: Mapping[str, str] | None, ticks: int,
) -> None:  # fmt: skip
    """Limits, ticks and labels of one panel."""
    ax.set_xlim(limits[names[column]])
    write_axis(ax.xaxis, limits[names[column]], names[column], units, ticks)
    if column == row:
        ax.set_yticks([])
        ax.set_ylim(0, None)
        ax.spines["left"].set_visible(False)
    else:
        ax.set_ylim(limits[names[row]])
        write_axis(ax.yaxis, limits[names[row]], names[row], units, ticks)
    if row < count - 1:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    if column > 0 or row == 0:
        ax.set_ylabel("")
        ax.tick_params(labelleft=False)


def draw_curve(ax: Axes, layer: Layer, name: str, *, is_scaled: bool = False) -> None:
    """Draw the density of one variable as a filled curve; scaled, its peak is 1."""
    curve = layer.marginal([name])
    height = curve.density / (curve.density.max() if is_scaled else 1.0)
    ax.fill_between(curve.axes[0], height, color=layer.color, alpha=0.25, linewidth=0)
    ax.plot(curve.axes[0], height, color=layer.color, linewidth=1.0)


def draw_regions(
    ax: Axes, layer: Layer, names: Sequence[str], probabilities: Sequence[float], **options: Any
) -> None:
    """Draw the highest-density regions of two variables, the inner ones darker."""
    plane = layer.marginal(list(names), **options)
    levels = np.unique(plane.levels(probabilities))
    inside = plane.density >= levels[0]
    where = tuple(_around(inside.any(axis=1 - d)) for d in (0, 1))
    x, y = (axis[one] for axis, one in zip(plane.axes, where, strict=True))
    shown = plane.density[where].T
    ax.use_sticky_edges = False  # so that outlines do not touch the frame
    top = 1.01 * float(max(shown.max(), levels[-1]))
    for level in levels:
        ax.contourf(x, y, shown, [level, top], colors=[layer.color], alpha=0.25)
    ax.contour(x, y, shown, levels, colors=[layer.color], linewidths=0.7)


def _around(inside: np.ndarray) -> slice:
    """Where it is true, and one place more at each end."""
    at = np.flatnonzero(inside)
    return slice(max(int(at[0]) - 1, 0), int(at[-1]) + 2)
