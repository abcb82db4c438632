"""Abundances over time, chart of nuclides, fluxes between species, ignition delays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ergode.core.arguments import choice, names_in
from ergode.core.errors import PlanError
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Molecule
from ergode.plots.frame import (
    SIZE,
    curve_style,
    new_axes,
    quiet,
    refuse_sweep,
    time_index,
    time_label,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

_LABELLED = 12
_NUCLEUS = re.compile(r"(\d+)([A-Za-z]+)|([A-Za-z]+)(\d+)")
_DECADES = 10
_SMALLEST_FONT = 4.5  # [points]; smaller letters cannot be read
_LARGEST_SCALE = 2.0
_STRONGEST = 24  # arrows between molecules
_SECONDS = {"min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "days": 86400.0}
_COARSE = (("days", 4 * 86400.0), ("h", 2 * 3600.0))  # units, and the times from which they serve
_LONG, _BESIDE = 3.0, 2.0  # of an arrow that is curved, and rows beside the arrows [nuclei]


def abundances(
    dataset: xarray.Dataset,
    *,
    zone: int = 0,
    species: Sequence[str] | None = None,
    time_unit: str | None = None,
    xscale: Literal["linear", "log"] | None = None,
    yscale: Literal["linear", "log"] = "log",
    ax: Axes | None = None,
) -> Axes:
    """Draw amounts of species over time.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.integrate`.
    zone : int
        Index of the zone.
    species : sequence of str, optional
        Species to draw; all if not given, with labels on the most abundant.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given, or seconds where rates have units.
        Seconds are converted to ``"min"``, ``"h"`` or ``"days"``.
    xscale : {"linear", "log"}, optional
        Scale of the axis of time. The default is linear where `times` are evenly spaced, with
        seconds as hours or days if there are many; otherwise logarithmic, from the first time on.
    yscale : {"linear", "log"}
        Scale of the amounts.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

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
    if values.ndim < 2:
        raise PlanError("abundances are drawn over time, and the dataset has one time")
    times = np.asarray(dataset["time"], float)
    choice("xscale", xscale, (None, "linear", "log"))
    choice("yscale", yscale, ("linear", "log"))
    nuclear = "mass_number" in dataset.coords
    steps = np.diff(times)
    even = steps.size > 2 and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)
    level = xscale == "linear" or (xscale is None and bool(even))
    ax = ax or new_axes()
    second, label = _time_axis(dataset, nuclear, time_unit, level)
    time = (times if level else times - times[0]) / second
    shown = time >= time[0] if level else time > 0
    peaks = {one: np.nanmax(values[:, names.index(one)]) for one in chosen}
    ranked = sorted(chosen, key=lambda one: -peaks[one])
    named = {one: k for k, one in enumerate(ranked[:_LABELLED])}
    for one in reversed(ranked):
        curve = values[shown, names.index(one)]
        if one in named:
            ax.plot(
                time[shown], curve, linewidth=1.7, label=_label(one, nuclear), zorder=2,
                **curve_style(named[one]),
            )  # fmt: skip
        else:
            ax.plot(time[shown], curve, linewidth=0.6, color="#9aa3ad", alpha=0.6, zorder=1)
    top = max(peaks.values(), default=1.0) or 1.0
    limits = (0.0, 1.05 * top) if yscale == "linear" else (top * 10.0**-_DECADES, 2 * top)
    ax.set(xscale="linear" if level else "log", yscale=yscale, ylim=limits)
    if shown.any():
        ax.set_xlim(time[shown][0], time[shown][-1])
    ax.set_xlabel(label)
    ax.set_ylabel(_amount_label(dataset, name))
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

    Every row has the symbol of its element. Nuclei of more than 1 % of the mass are labelled where
    the squares have room for it. Without `ax` the figure grows with the chart.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.integrate`, for a network of nuclei.
    zone : int
        Index of the zone.
    time : float, optional
        One of the dataset's times [time]; the last if not given.
    ax : matplotlib.axes.Axes, optional

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

    z = np.asarray(dataset["charge_number"], int)
    n = np.asarray(dataset["mass_number"], int) - z
    places = {one: (float(n[i]), float(z[i])) for i, one in enumerate(names)}
    ax = ax or new_axes(_size_for(places))
    fraction = values[time_index(dataset, time)] if values.ndim > 1 else values
    norm = LogNorm(1e-12, 1.0, clip=True)
    from matplotlib import colormaps

    colours = colormaps["viridis"]
    for i, x in enumerate(fraction.tolist()):
        face = colours(norm(max(x, 1e-12)))
        ax.add_patch(
            Rectangle((n[i] - 0.5, z[i] - 0.5), 1, 1, facecolor=face, edgecolor="white", lw=0.4)
        )
    cell = _frame_nuclei(ax, places)
    if 0.36 * cell >= _SMALLEST_FONT:
        for i, one in enumerate(names):
            if fraction[i] > 0.01:
                ax.annotate(
                    _label(one, True), places[one], ha="center", va="center",
                    fontsize=min(8.0, 0.36 * cell),
                )  # fmt: skip
    from matplotlib.cm import ScalarMappable

    figure: Any = ax.figure
    figure.colorbar(ScalarMappable(norm, colours), ax=ax, label="mass fraction")
    return quiet(ax)


def _size_for(places: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Size of a figure in which the squares of nuclei can be told apart [inches]."""
    columns, rows = np.ptp(np.array([*places.values(), (0.0, 0.0)]), axis=0)
    scale = min(max(columns / 32.0, rows / 28.0, 1.0), _LARGEST_SCALE)
    return SIZE[0] * scale, SIZE[1] * scale


def _frame_nuclei(ax: Axes, places: Mapping[str, tuple[float, float]]) -> float:
    """Limits, labels and symbols of elements of a chart; returns the width of a square [points]."""
    n, z = np.array(list(places.values())).T
    ax.set(
        xlim=(n.min() - 2.5, n.max() + 1), ylim=(z.min() - 1, z.max() + 1),
        xlabel="neutron number", ylabel="proton number", aspect="equal",
    )  # fmt: skip
    ax.locator_params(integer=True)
    box, figure = ax.get_window_extent(), ax.figure
    to_points = 72.0 / figure.dpi
    # A colour bar takes about a fifth of the width.
    cell = to_points * min(
        0.8 * box.width / (np.ptp(n) + 3.5), box.height / (np.ptp(z) + 2.0)
    )  # fmt: skip
    size = min(max(0.75 * cell, _SMALLEST_FONT), 8.0)
    step = int(np.ceil(size / cell))  # where rows are lower than letters, not every row is named
    for row in np.unique(z)[::step]:
        first = n[z == row].min()
        name = next(one for one, place in places.items() if place == (first, row))
        symbol = _symbol(name) if row > 0 else "n"
        ax.annotate(
            symbol, (first - 0.7, row), ha="right", va="center", fontsize=size, color="#16202b",
            zorder=5, annotation_clip=True,
        )  # fmt: skip
    return float(cell)


def flux_graph(
    network: ReactionNetwork,
    rates: xarray.Dataset,
    *,
    zone: int = 0,
    element: str | None = None,
    smallest: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw net fluxes between species (forward minus reverse) as arrows.

    Nuclei are placed on the chart of nuclides. Only the part with fluxes is shown. An arrow
    connects the heaviest nuclei of the two sides of a reaction. Arrows are thinner where squares
    are small, and those across several nuclei are curved. Other species are placed by a spring
    layout; arrows connect every reactant with every product, or follow the atoms of an `element`.

    Parameters
    ----------
    network : ReactionNetwork
    rates : xarray.Dataset
        From `ergode.kinetics.reaction_rates`, for the same network.
    zone : int
        Index of the zone.
    element : str, optional
        Of molecules with NASA polynomials: the arrows are flows of atoms of this element, such as
        ``"C"``. Each product of a reaction takes the atoms of each reactant in proportion to its
        own.
    smallest : float, optional
        Fluxes below this fraction of the largest are omitted. The default is 1e-3; and between
        molecules at most the 24 strongest are drawn.
    ax : matplotlib.axes.Axes, optional

    Raises
    ------
    PlanError
        The dataset does not have the rates of this network; no species has the element; or
        networkx, which the spring layout needs, is not installed.

    References
    ----------
    J. Revel et al., J. Phys. Chem. 98, 5692 (1994), for flows of atoms.

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
    from matplotlib.cm import ScalarMappable
    from matplotlib.patches import Rectangle

    if "rate" not in rates or rates.sizes.get("reaction") != len(network.reactions):
        raise PlanError("the dataset has no rate of every reaction of the network")
    values = np.asarray(_one(rates["rate"], "zone", zone))
    flows = _flows(network, values) if element is None else _atom_flows(network, values, element)
    nuclear = all(one.mass_number is not None for one in network.species)
    top = max(flows.values(), default=0.0)
    least = 1e-3 if smallest is None else smallest
    flows = {pair: flow for pair, flow in flows.items() if flow > least * top}
    if smallest is None and not nuclear and flows:
        ranked = sorted(flows.items(), key=lambda item: -item[1])
        flows = dict(ranked[:_STRONGEST])
        least = min(min(flows.values()) / top, 0.1)
    places = _chart_places(network, flows) if nuclear else _spring_places(flows)
    ax = ax or new_axes(_size_for(places) if nuclear else SIZE)
    cell = _frame_nuclei(ax, places) if nuclear else 16.0
    unit = "mol/(g s)" if nuclear else "concentration / time"
    if any(isinstance(one.thermochemistry, Molecule) for one in network.species):
        unit = "mol/(cm³ s)"
    _put_arrows(ax, flows, places, cell, least, nuclear)
    figure: Any = ax.figure
    colours = _colours_of(flows, least)
    what = "net flux" if element is None else f"net flux of {element}"
    figure.colorbar(ScalarMappable(*colours), ax=ax, label=f"{what} [{unit}]")
    if nuclear:
        for x, y in places.values():
            corner = (x - 0.5, y - 0.5)
            ax.add_patch(Rectangle(corner, 1, 1, facecolor="#e9edf1", edgecolor="white", zorder=0))
        return quiet(ax)
    for name, place in places.items():  # a molecule is drawn as its label
        ax.annotate(name, place, ha="center", va="center", fontsize=7, color="#16202b", zorder=5)
    across, along = zip(*places.values(), strict=True) if places else ((0.0,), (0.0,))
    ax.set_xlim(min(across) - 0.12, max(across) + 0.12)
    ax.set_ylim(min(along) - 0.12, max(along) + 0.12)
    ax.set_axis_off()
    return ax


def _put_arrows(
    ax: Axes,
    flows: Mapping[tuple[str, str], float],
    places: Mapping[str, tuple[float, float]],
    cell: float,
    smallest: float,
    nuclear: bool,
) -> None:
    """Draw arrows, the strongest on top; `cell` is their scale [points]."""
    norm, colours = _colours_of(flows, smallest)
    top = max(flows.values(), default=1.0)
    shrink = 0.1 * cell if nuclear else 8.0
    for (start, stop), flow in sorted(flows.items(), key=lambda item: item[1]):
        strength = 1.0 - np.log(flow / top) / np.log(smallest)
        # A long arrow is curved, so that it does not lie on the short ones between its ends.
        far = nuclear and np.hypot(*np.subtract(places[stop], places[start])) > _LONG
        ax.annotate(
            "", places[stop], places[start],
            arrowprops={
                "arrowstyle": "-|>", "color": colours(norm(flow)),
                "lw": min(0.3 + cell * (0.02 + 0.11 * strength), 2.5),
                "shrinkA": shrink, "shrinkB": shrink, "mutation_scale": min(0.7 * cell, 8.0),
                "connectionstyle": f"arc3,rad={0.25 if far else 0.0}",
            },
        )  # fmt: skip


def _colours_of(flows: Mapping[tuple[str, str], float], smallest: float) -> tuple[Any, Any]:
    """Scale and map of the colours of arrows."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    top = max(flows.values(), default=1.0)
    return LogNorm(smallest * top, top), colormaps["viridis_r"]


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


def _atom_flows(
    network: ReactionNetwork, rates: np.ndarray, element: str
) -> dict[tuple[str, str], float]:
    """Positive net flow of an element's atoms of every pair of species."""
    atoms = np.array([float(_elements(one).get(element, 0.0)) for one in network.species])
    if not atoms.any():
        known = sorted({one for species in network.species for one in _elements(species)})
        raise PlanError(
            f"no species has the element '{element}'; the network has {', '.join(known) or 'none'}"
        )
    names = [one.name for one in network.species]
    moved = network.stoichiometry.multiply(atoms[:, None]).tocsc()
    both = np.zeros((len(names), len(names)))
    for k, rate in enumerate(rates):
        part = slice(moved.indptr[k], moved.indptr[k + 1])
        rows, counts = moved.indices[part], moved.data[part]
        lost, made = np.maximum(-counts, 0.0), np.maximum(counts, 0.0)
        if lost.sum() > 0.0 and made.sum() > 0.0:
            share = made / max(lost.sum(), made.sum())
            both[np.ix_(rows, rows)] += rate * np.outer(lost, share)
    net = both - both.T
    return {(names[i], names[j]): float(net[i, j]) for i, j in np.argwhere(net > 0.0).tolist()}


def _elements(species: Any) -> Mapping[str, float]:
    """Atoms of a molecule, by element; none of other species."""
    found: Mapping[str, float] = getattr(species.thermochemistry, "composition", {})
    return found


def _chart_places(
    network: ReactionNetwork, flows: Mapping[tuple[str, str], float]
) -> dict[str, tuple[float, float]]:
    """Neutrons and protons of the nuclei, not far from those that have a flux."""
    every = {
        one.name: (float((one.mass_number or 0) - (one.charge_number or 0)),
                   float(one.charge_number or 0))
        for one in network.species
    }  # fmt: skip
    if not flows:
        return every
    busy = np.array([every[name] for pair in flows for name in pair])
    low, high = busy.min(axis=0) - _BESIDE, busy.max(axis=0) + _BESIDE
    return {name: at for name, at in every.items() if (low <= at).all() and (at <= high).all()}


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


def ignition_map(dataset: xarray.Dataset, *, pressure: int = 0, ax: Axes | None = None) -> Axes:
    """Draw ignition delays against reciprocal temperature, one line per equivalence ratio.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.kinetics.ignition_delay`.
    pressure : int
        Index of the pressure.
    ax : matplotlib.axes.Axes, optional

    Raises
    ------
    PlanError
        The dataset has no ignition delays, or no such pressure.
    """
    if "ignition_delay" not in dataset:
        raise PlanError("the dataset has no ignition_delay")
    delays = _one(dataset["ignition_delay"], "pressure", pressure)
    for dim in ("temperature", "equivalence_ratio"):  # a single one may have been selected before
        if dim not in delays.dims:
            delays = delays.expand_dims(dim)
    delays = delays.transpose("temperature", "equivalence_ratio")
    ax = ax or new_axes()
    inverse = 1000.0 / np.asarray(delays["temperature"], float)
    named = "equivalence_ratio" in delays.coords
    for k, ratio in enumerate(np.asarray(delays["equivalence_ratio"], float)):
        ax.plot(
            inverse, np.asarray(delays[:, k]), marker="o", markersize=3,
            label=f"{ratio:g}", **curve_style(k),
        )  # fmt: skip
    ax.set(yscale="log", xlabel="1000 K / temperature", ylabel="ignition delay [s]")
    if named:
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
    if "species" not in dataset[name].dims:
        raise PlanError(f"{name} has no species; select no single one before")
    found = _one(dataset[name], "zone", zone)
    refuse_sweep(found, "time", "species")
    return name, np.asarray(found), [str(s) for s in dataset["species"].values]


def _one(array: xarray.DataArray, dim: str, index: int) -> xarray.DataArray:
    """The values of one zone (or pressure), which may have been selected before.

    Raises a PlanError if there is no such one.
    """
    count = array.sizes.get(dim, 1)
    if not 0 <= index < count:
        raise PlanError(f"the dataset has no {dim} {index}; it has {count}")
    return array.isel({dim: index}) if dim in array.dims else array


def _time_axis(
    dataset: xarray.Dataset, nuclear: bool, time_unit: str | None, level: bool
) -> tuple[float, str]:
    """What the times of a result are divided by, and the label of the axis, with its unit."""
    if dataset.attrs.get("reactor") == "plug flow":
        return 1.0, "distance from the inlet [cm]"
    own = "s" if nuclear or "pressure" in dataset else dataset.attrs.get("time_unit")
    if own == "s" and level and time_unit is None:
        span = float(np.ptp(dataset["time"].values))
        time_unit = next((unit for unit, least in _COARSE if span >= least), None)
    second = _SECONDS.get(time_unit or "", 1.0) if own == "s" else 1.0
    return second, time_label(
        dataset, time_unit or own, "time" if level else "time since the start"
    )


def _amount_label(dataset: xarray.Dataset, name: str) -> str:
    """Label of the axis of amounts; the concentrations of molecules have a unit of their own."""
    known = name == "concentration" and "pressure" in dataset
    return name.replace("_", " ") + (" [mol/cm³]" if known else "")


def _symbol(name: str) -> str:
    """The element of a nucleus."""
    match = _NUCLEUS.fullmatch(name)
    return name if match is None else (match[2] or match[3]).capitalize()


def _label(name: str, nuclear: bool) -> str:
    """A nucleus with its mass number as a superscript; otherwise the name."""
    match = _NUCLEUS.fullmatch(name) if nuclear else None
    if match is None:
        return name
    symbol, mass = match[2] or match[3], match[1] or match[4]
    return f"$^{{{mass}}}${symbol.capitalize()}"
