"""Densities of three variables as surfaces, at several times, over paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.plots.frame import DPI
from ergode.plots.layers import (
    PROBABILITIES,
    Layer,
    check_probabilities,
    chosen_of,
    layers_of,
    legend_of,
    write_axis,
)

if TYPE_CHECKING:
    import xarray
    from numpy.typing import ArrayLike

_SIZE = (4.8, 3.9)
_PLACES = 1 << 21  # of one density
_OUTER, _INNER, _SINGLE = 0.08, 0.45, 0.3  # opacity of the outermost and of the innermost surface
_ROOM = 0.03  # of an axis, beyond each end
_SEEN = 20_000  # points of surfaces that tell where to look from
_VIEWS = [(elevation, azimuth) for elevation in (18, 28) for azimuth in range(-75, -10, 10)]


def density_surface(
    dataset: xarray.Dataset | Mapping[str, Any],
    time: float | Sequence[float] | None = None,
    *,
    variables: Sequence[str] | None = None,
    probabilities: Sequence[float] = PROBABILITIES,
    color: str | Sequence[str] | None = None,
    path: ArrayLike | None = None,
    units: Mapping[str, str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the density of three variables as nested translucent surfaces, at one time or several.

    Each surface bounds a highest-density region of the marginal of the three variables. Several
    times have a legend. The path of the mean is drawn with them, dotted across a measurement.

    Parameters
    ----------
    dataset : xarray.Dataset or mapping of str to xarray.Dataset
        From `ergode.density.propagate` or `ergode.particles.propagate`; or several by their labels,
        at one time.
    time : float or sequence of float, optional
        One of its times, or several; the last if not given.
    variables : sequence of three str, optional
        Variables to draw; the first three if not given.
    probabilities : sequence of float
        Probabilities of the regions, between 0 and 1. The default is that of one, two and three
        standard deviations of a Gaussian in one variable.
    color : str or sequence of str, optional
        Colour of each time or dataset.
    path : array_like, shape [time_count, variable_count], optional
        States of a path to draw instead of the mean, with all variables of the dataset; several
        paths have an axis in front. ``path=[]`` draws none. The mean is known at the reported times
        only: give the states of a trajectory for a smooth path.
    units : mapping of str to str, optional
        Units of variables and of ``"time"``, for labels.
    ax : mpl_toolkits.mplot3d.axes3d.Axes3D, optional
        Axes to draw on. A new figure if not given, seen from where surfaces overlap least.

    Returns
    -------
    mpl_toolkits.mplot3d.axes3d.Axes3D

    Raises
    ------
    PlanError
        A time was not kept, there are not three variables, one is unknown, the path has another
        shape, or scikit-image is not installed.

    Examples
    --------
    >>> import ergode
    >>> found = ergode.density.propagate(
    ...     ergode.fields.lorenz63(), ergode.Gaussian([1, 1, 20], [1, 1, 1]), times=[0, 0.1, 0.2],
    ...     parameters={"sigma": 10, "rho": 28, "beta": 8 / 3}, device="cpu",
    ... )
    >>> ax = ergode.plots.density_surface(found, [0, 0.2])  # doctest: +SKIP
    """
    from ergode.plots.translucent import BOX, Shells

    layers = layers_of(dataset, time, color)
    names = chosen_of(layers, variables, 3)
    if len(names) != 3:
        raise PlanError(
            f"surfaces have three variables, and {len(names)} are given: {', '.join(names)}; "
            "expected variables= with three names"
        )
    wanted = check_probabilities(probabilities)
    paths, jumps = _paths(dataset, layers[0], names, path)
    surfaces = [_surfaces(layer, names, wanted) for layer in layers]
    every = [vertices for found in surfaces for vertices, _ in found]
    around = np.concatenate([*every, *(one[np.isfinite(one).all(axis=1)] for one in paths)])
    is_new = ax is None
    if ax is None:
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=_SIZE, dpi=DPI)
        ax = figure.add_axes((0.0, 0.0, 0.98, 1.0), projection="3d")
        ax.set_box_aspect(BOX, zoom=1.05)
    limits = _frame(ax, around, names, units)
    if is_new:
        _look(ax, np.concatenate(every), limits)
    for one in paths:
        ax.plot(*one.T, color="black", linewidth=0.8, zorder=1)
    for one in jumps:
        ax.plot(*one.T, color="black", linewidth=0.8, linestyle=":", zorder=1)
    ax.add_artist(Shells(_shells(layers, surfaces), zorder=2))
    if legend := legend_of(layers, units):
        ax.legend(
            **legend, loc="upper left", fontsize=7, title_fontsize=7, borderaxespad=0.2,
            handlelength=1.2, labelspacing=0.3, alignment="left",
        )  # fmt: skip
    return ax


def _surfaces(
    layer: Layer, names: list[str], probabilities: list[float]
) -> list[tuple[np.ndarray, np.ndarray]]:
    from ergode.density.regions import surfaces_of

    return surfaces_of(layer.marginal(names, places_most=_PLACES), probabilities)


def _paths(
    dataset: Any, layer: Layer, names: list[str], path: ArrayLike | None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Paths [point, 3] to draw, and lines across measurements."""
    columns = [layer.names.index(name) for name in names]
    if path is not None:
        states = np.asarray(path, float)
        if states.size == 0:
            return [], []
        if states.ndim not in (2, 3) or states.shape[-1] != len(layer.names):
            raise PlanError(
                f"path has shape {states.shape}; expected [time_count, {len(layer.names)}], or "
                "several of these"
            )
        return list(states[..., columns].reshape(-1, *states.shape[-2:-1], 3)), []
    if isinstance(dataset, Mapping) and not hasattr(dataset, "data_vars"):
        return [], []
    time, mean = dataset["time"].values, dataset["mean"].values[:, columns]
    seen = dataset["measurement"].values
    before = dataset["prior_mean"].values[:, columns]
    inside = (seen > time[0]) & (seen <= time[-1])
    order = np.argsort(np.concatenate([seen[inside], time]), kind="stable")
    points = np.concatenate([before[inside], mean])[order]
    after = np.flatnonzero(order < inside.sum())  # places of what was expected
    lines = [one for one in np.split(points, after + 1) if len(one) > 1]
    return lines, [points[k : k + 2] for k in after if k + 1 < len(points)]


def _frame(ax: Any, around: np.ndarray, names: list[str], units: Any) -> np.ndarray:
    """Limits [3, 2] of the axes, which hold all points and what was drawn before."""
    limits = np.array([around.min(axis=0), around.max(axis=0)]).T
    room = _ROOM * np.maximum(np.ptp(limits, axis=1), 1e-300)
    limits += np.stack([-room, room], axis=1)
    for k, (key, name) in enumerate(zip("xyz", names, strict=True)):
        axis = getattr(ax, f"{key}axis")
        if ax.artists:
            old = getattr(ax, f"get_{key}lim")()
            limits[k] = min(limits[k, 0], *old), max(limits[k, 1], *old)
        getattr(ax, f"set_{key}lim")(*limits[k])
        write_axis(axis, limits[k], name, units, 5)
        axis.set_pane_color((1, 1, 1, 0))
        axis._axinfo["grid"].update(color="0.85", linewidth=0.5)
        axis.set_tick_params(labelsize=7, pad=1 if key == "z" else -2)
        axis.label.set_fontsize(8)
        axis.labelpad = -5
    return limits


def _look(ax: Any, points: np.ndarray, limits: np.ndarray) -> None:
    """Turn the axes to where the surfaces cover most of the picture."""
    shown = points[:: 1 + len(points) // _SEEN]
    places = (shown - limits.mean(axis=1)) / np.ptp(limits, axis=1) * (4, 4, 3)
    covered = []
    for elevation, azimuth in _VIEWS:
        up, round_ = np.radians([elevation, azimuth])
        right = np.array([-np.sin(round_), np.cos(round_), 0.0])
        above = np.array([-np.sin(up) * np.cos(round_), -np.sin(up) * np.sin(round_), np.cos(up)])
        spots = np.floor((places @ right) * 12) * 1000 + np.floor((places @ above) * 12)
        covered.append(len(np.unique(spots)))
    elevation, azimuth = _VIEWS[int(np.argmax(covered))]
    ax.view_init(elev=elevation, azim=azimuth)


def _shells(layers: list[Layer], surfaces: list[list[tuple[np.ndarray, np.ndarray]]]) -> list[Any]:
    from matplotlib.colors import to_rgb

    from ergode.plots.translucent import Shell

    shells = []
    for layer, found in zip(layers, surfaces, strict=True):
        opacity = np.geomspace(_OUTER, _INNER, len(found)) if len(found) > 1 else [_SINGLE]
        for (vertices, faces), one in zip(found, opacity, strict=True):
            shells.append(Shell(vertices, faces, to_rgb(layer.color), float(one)))
    return shells
