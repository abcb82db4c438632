"""Abundances over time, the chart of nuclides, and the flow between nuclei."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.plots.frame import new_axes, quiet

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_LABELLED = 12
_DECADES = 10


def abundances(
    dataset: xarray.Dataset,
    *,
    zone: int = 0,
    species: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw amounts of species over time, both on logarithmic axes.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.integrate`.
    zone : int
        Which zone.
    species : sequence of str, optional
        Which to draw; if not given all, of which the most abundant are named.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset has no amounts, no such species, or no such zone.

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork(
    ...     {"A": 1, "B": 0}, [ergode.Reaction("A -> B", rate_constant=1.0)]
    ... )
    >>> result = ergode.kinetics.integrate(
    ...     decay, times=[0, 0.1, 1, 2], initial={"A": 1}, device="cpu"
    ... )
    >>> ergode.plots.abundances(result).get_ylabel()
    'concentration'
    """
    name, values, names = _amounts(dataset, zone)
    chosen = names if species is None else list(species)
    for one in chosen:
        if one not in names:
            raise PlanError(f"the dataset has no species '{one}'")
    ax = ax or new_axes()
    time = np.asarray(dataset["time"], float) - float(dataset["time"][0])
    shown = time > 0
    peaks = {one: np.nanmax(values[:, names.index(one)]) for one in chosen}
    ranked = sorted(chosen, key=lambda one: -peaks[one])
    named = set(ranked[:_LABELLED])
    for one in reversed(ranked):
        curve = values[shown, names.index(one)]
        if one in named:
            ax.plot(time[shown], curve, linewidth=1.7, label=_label(one), zorder=2)
        else:
            ax.plot(time[shown], curve, linewidth=0.6, color="#9aa3ad", alpha=0.6, zorder=1)
    top = max(peaks.values(), default=1.0) or 1.0
    ax.set(xscale="log", yscale="log", ylim=(top * 10.0**-_DECADES, 2 * top))
    if shown.any():
        ax.set_xlim(time[shown][0], time[shown][-1])
    ax.set_xlabel("time since the start")
    ax.set_ylabel(name.replace("_", " "))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="center left",
        bbox_to_anchor=(1.0, 0.5),
    )  # fmt: skip
    return quiet(ax)


def nuclide_chart(
    dataset: xarray.Dataset, *, zone: int = 0, time: int = -1, ax: Axes | None = None
) -> Axes:
    """Draw mass fractions at one time on the chart of nuclides, protons against neutrons.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.integrate`, of nuclei.
    zone, time : int
        Which zone, and index of which time.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset is not one of nuclei.
    """
    name, values, names = _amounts(dataset, zone)
    if "charge_number" not in dataset.coords:
        raise PlanError("the dataset has no charge_number: the chart is one of nuclei")
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    ax = ax or new_axes()
    z = np.asarray(dataset["charge_number"], int)
    n = np.asarray(dataset["mass_number"], int) - z
    fraction = values[time]
    norm = LogNorm(1e-12, 1.0, clip=True)
    from matplotlib import colormaps

    colours = colormaps["viridis"]
    for i, one in enumerate(names):
        x = float(fraction[i])
        face = colours(norm(max(x, 1e-12)))
        ax.add_patch(
            Rectangle((n[i] - 0.5, z[i] - 0.5), 1, 1, facecolor=face, edgecolor="white", lw=0.4)
        )
        if x > 0.01:
            ax.annotate(_label(one), (n[i], z[i]), ha="center", va="center", fontsize=5)
    from matplotlib.cm import ScalarMappable

    figure: Any = ax.figure
    figure.colorbar(ScalarMappable(norm, colours), ax=ax, label="mass fraction")
    ax.set(
        xlim=(n.min() - 1, n.max() + 1), ylim=(z.min() - 1, z.max() + 1),
        xlabel="neutrons", ylabel="protons", aspect="equal",
    )  # fmt: skip
    return quiet(ax)


def _amounts(dataset: xarray.Dataset, zone: int) -> tuple[str, np.ndarray, list[str]]:
    for name in ("mass_fraction", "concentration"):
        if name in dataset:
            break
    else:
        raise PlanError("the dataset has no mass_fraction and no concentration to draw")
    if not 0 <= zone < dataset.sizes["zone"]:
        raise PlanError(f"the dataset has no zone {zone}; it has {dataset.sizes['zone']}")
    return name, np.asarray(dataset[name][zone]), [str(s) for s in dataset["species"].values]


def _label(name: str) -> str:
    digits = name[: len(name) - len(name.lstrip("0123456789"))]
    rest = name[len(digits) :]
    return f"$^{{{digits}}}${rest}" if digits and rest.isalpha() else name
