"""Abundances over time, chart of nuclides, fluxes between species, ignition delays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.models.reactions.network import ReactionNetwork
from ergode.plots.frame import COLOURS, new_axes, quiet, time_index

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_LABELLED = 12
_NAMED_IN_GRAPH = 16
_NUCLEUS = re.compile(r"(\d+)([A-Za-z]+)|([A-Za-z]+)(\d+)")
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
        Index of the zone.
    species : sequence of str, optional
        Species to draw; all if not given, with labels on the most abundant.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

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
    chosen = names_in("species", species, names)
    ax = ax or new_axes()
    time = np.asarray(dataset["time"], float) - float(dataset["time"][0])
    shown = time > 0
    peaks = {one: np.nanmax(values[:, names.index(one)]) for one in chosen}
    ranked = sorted(chosen, key=lambda one: -peaks[one])
    named = {one: k for k, one in enumerate(ranked[:_LABELLED])}
    nuclear = "mass_number" in dataset.coords
    for one in reversed(ranked):
        curve = values[shown, names.index(one)]
        if one in named:
            again, colour = divmod(named[one], len(COLOURS))
            ax.plot(
                time[shown], curve, linewidth=1.7, color=COLOURS[colour],
                linestyle=("-", "--")[again], label=_label(one, nuclear), zorder=2,
            )  # fmt: skip
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
    dataset: xarray.Dataset, *, zone: int = 0, time: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw mass fractions at one time on the chart of nuclides, protons against neutrons.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.integrate`, for a network of nuclei.
    zone : int
        Index of the zone.
    time : float, optional
        One of the dataset's times [time]; the last if not given.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset is not of nuclei, or has no such time.
    """
    name, values, names = _amounts(dataset, zone)
    if "charge_number" not in dataset.coords:
        raise PlanError("the dataset has no charge_number: the chart is one of nuclei")
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    ax = ax or new_axes()
    z = np.asarray(dataset["charge_number"], int)
    n = np.asarray(dataset["mass_number"], int) - z
    fraction = values[time_index(dataset, time)]
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
            size = min(5.0, 150.0 / (n.max() - n.min() + 20))
            ax.annotate(_label(one, True), (n[i], z[i]), ha="center", va="center", fontsize=size)
    from matplotlib.cm import ScalarMappable

    figure: Any = ax.figure
    figure.colorbar(ScalarMappable(norm, colours), ax=ax, label="mass fraction")
    ax.set(
        xlim=(n.min() - 1, n.max() + 1), ylim=(z.min() - 1, z.max() + 1),
        xlabel="neutrons", ylabel="protons", aspect="equal",
    )  # fmt: skip
    return quiet(ax)


def flux_graph(
    network: ReactionNetwork,
    rates: xarray.Dataset,
    *,
    zone: int = 0,
    smallest: float = 1e-3,
    ax: Axes | None = None,
) -> Axes:
    """Draw net fluxes between species (forward minus reverse) as arrows.

    Nuclei are placed on the chart of nuclides; an arrow connects the heaviest nuclei of the two
    sides of a reaction. Other species are placed by a spring layout; arrows connect every reactant
    with every product.

    Parameters
    ----------
    network : ReactionNetwork
    rates : xarray.Dataset
        From `ergode.kinetics.reaction_rates`, for the same network.
    zone : int
        Index of the zone.
    smallest : float
        Fluxes below this fraction of the largest are omitted.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset does not have the rates of this network; or networkx, which the spring layout
        needs, is not installed.

    Examples
    --------
    >>> import ergode
    >>> chain = ergode.ReactionNetwork({"A": 1, "B": 0, "C": 0}, [
    ...     ergode.Reaction("A -> B", rate_constant=2.0),
    ...     ergode.Reaction("B -> C", rate_constant=1.0),
    ... ])
    >>> rates = ergode.kinetics.reaction_rates(chain, initial={"A": 1, "B": 1})
    >>> len(ergode.plots.flux_graph(chain, rates).texts) > 0
    True
    """
    if "rate" not in rates or rates.sizes.get("reaction") != len(network.reactions):
        raise PlanError("the dataset has no rate of every reaction of the network")
    if not 0 <= zone < rates.sizes["zone"]:
        raise PlanError(f"the dataset has no zone {zone}; it has {rates.sizes['zone']}")
    flows = _flows(network, np.asarray(rates["rate"][zone]))
    top = max(flows.values(), default=0.0)
    flows = {pair: flow for pair, flow in flows.items() if flow > smallest * top}
    nuclear = all(one.mass_number is not None for one in network.species)
    places = _chart_places(network) if nuclear else _spring_places(flows)
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    ax = ax or new_axes()
    norm, colours = LogNorm(smallest * (top or 1.0), top or 1.0), colormaps["viridis_r"]
    for (start, stop), flow in sorted(flows.items(), key=lambda item: item[1]):
        strength = 1.0 - np.log(flow / top) / np.log(smallest)
        ax.annotate(
            "", places[stop], places[start],
            arrowprops={
                "arrowstyle": "-|>", "color": colours(norm(flow)), "lw": 0.5 + 2.0 * strength,
                "shrinkA": 0 if nuclear else 8, "shrinkB": 0 if nuclear else 8, "mutation_scale": 7,
            },
        )  # fmt: skip
    if nuclear:
        from matplotlib.patches import Rectangle

        for x, y in places.values():
            corner = (x - 0.5, y - 0.5)
            ax.add_patch(Rectangle(corner, 1, 1, facecolor="#e9edf1", edgecolor="white", zorder=0))
    rows: set[float] = set()
    for name in _busiest(flows):
        x, y = places[name]
        if nuclear and y in rows:
            continue  # one label per element
        rows.add(y)
        # Beside the square of a nucleus, where arrows are rare; a molecule is drawn as its label.
        ax.annotate(
            _label(name, nuclear), (x, y), xytext=(-0.6, 0.6) if nuclear else (0, 0),
            textcoords="offset fontsize", ha="right" if nuclear else "center",
            va="bottom" if nuclear else "center", fontsize=7, color="#16202b", zorder=5,
        )  # fmt: skip
    figure: Any = ax.figure
    figure.colorbar(ScalarMappable(norm, colours), ax=ax, label="net flow")
    across, along = zip(*places.values(), strict=True) if places else ((0.0,), (0.0,))
    margin = 1.0 if nuclear else 0.12
    ax.set_xlim(min(across) - margin, max(across) + margin)
    ax.set_ylim(min(along) - margin, max(along) + margin)
    if nuclear:
        ax.set(xlabel="neutrons", ylabel="protons")
        return quiet(ax)
    ax.set_axis_off()
    return ax


def _flows(network: ReactionNetwork, rates: np.ndarray) -> dict[tuple[str, str], float]:
    """Positive net flux of every pair of species with a nonzero flux."""
    mass = {one.name: one.mass_number for one in network.species}
    both: dict[tuple[str, str], float] = {}
    for reaction, rate in zip(network.reactions, rates, strict=True):
        left = [name for name in reaction.reactants if name not in reaction.products]
        right = [name for name in reaction.products if name not in reaction.reactants]
        if left and right and all(mass[name] for name in (*left, *right)):
            left, right = ([max(side, key=lambda one: mass[one] or 0)] for side in (left, right))
        for start in left:
            for stop in right:
                both[start, stop] = both.get((start, stop), 0.0) + float(rate)
    net = {pair: flow - both.get((pair[1], pair[0]), 0.0) for pair, flow in both.items()}
    return {pair: flow for pair, flow in net.items() if flow > 0}


def _busiest(flows: dict[tuple[str, str], float]) -> list[str]:
    """The species with the largest flux through them."""
    through: dict[str, float] = {}
    for pair, flow in flows.items():
        for name in pair:
            through[name] = through.get(name, 0.0) + flow
    return sorted(through, key=lambda one: -through[one])[:_NAMED_IN_GRAPH]


def _chart_places(network: ReactionNetwork) -> dict[str, tuple[float, float]]:
    return {
        one.name: (float((one.mass_number or 0) - (one.charge_number or 0)),
                   float(one.charge_number or 0))
        for one in network.species
    }  # fmt: skip


def _spring_places(flows: dict[tuple[str, str], float]) -> dict[str, tuple[float, float]]:
    try:
        import networkx
    except ImportError:
        raise PlanError(
            "the spring layout needs networkx: pip install 'ergode[networks]'"
        ) from None
    graph = networkx.Graph(list(flows))
    found = networkx.kamada_kawai_layout(graph)
    return {name: (float(x), float(y)) for name, (x, y) in found.items()}


def ignition_map(
    dataset: xarray.Dataset,
    *,
    pressure: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw ignition delays against reciprocal temperature, one line per equivalence ratio.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.ignition_delay`.
    pressure : int
        Index of the pressure.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    PlanError
        The dataset has no ignition delays, or no such pressure.
    """
    if "ignition_delay" not in dataset:
        raise PlanError("the dataset has no ignition_delay")
    if not 0 <= pressure < dataset.sizes["pressure"]:
        raise PlanError(f"the dataset has no pressure {pressure}; it has "
                        f"{dataset.sizes['pressure']}")  # fmt: skip
    delays = dataset["ignition_delay"].isel(pressure=pressure)
    ax = ax or new_axes()
    inverse = 1000.0 / np.asarray(dataset["temperature"], float)
    for k, ratio in enumerate(np.asarray(dataset["equivalence_ratio"], float)):
        ax.plot(
            inverse, np.asarray(delays[:, k]), marker="o", markersize=3,
            color=COLOURS[k % len(COLOURS)], label=f"{ratio:g}",
        )  # fmt: skip
    ax.set(yscale="log", xlabel="1000 K / temperature", ylabel="ignition delay [s]")
    ax.legend(
        title="equivalence ratio", frameon=False, fontsize=8, title_fontsize=8,
        loc="center left", bbox_to_anchor=(1.0, 0.5),
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


def _label(name: str, nuclear: bool) -> str:
    """A nucleus with its mass number as a superscript; otherwise the name."""
    match = _NUCLEUS.fullmatch(name) if nuclear else None
    if match is None:
        return name
    symbol, mass = match[2] or match[3], match[1] or match[4]
    return f"$^{{{mass}}}${symbol.capitalize()}"
