"""Run files of the engine ``kinetics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import kinetics, plots
from ergode.core.words import totals
from ergode.models.reactions.network import ReactionNetwork
from ergode.plots.frame import figure_of
from ergode.runfile.described import Described, Each, Either
from ergode.runfile.reaction_networks import reaction_network
from ergode.runfile.spread import is_swept, spread, usable
from ergode.runfile.tables import Readers, Table, readers_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


def rows(table: Table, key: str) -> list[float] | list[list[float]]:
    """The list of numbers of a key, or its list of such rows."""
    given = table.items(key)
    if not (given and all(isinstance(row, list) for row in given)):
        return table.numbers(key)
    part = table.numbered(key)
    found = [part.numbers(row) for row in part.values]
    if len({len(row) for row in found}) > 1:
        raise table.error(f"{table.place} {key} has rows of different lengths")
    return found


def flows(table: Table, key: str) -> Any:
    """The flows between tanks of a key, as they are."""
    return table.values[key]


def criterion(table: Table, key: str) -> str | float:
    """When a mixture ignites: a word, a species or a rise of the temperature."""
    return table.text(key) if isinstance(table.values[key], str) else table.number(key)


trajectory = Described(kinetics.Trajectory, {"times": Table.times, "values": rows})
condition = Either(trajectory, Table.one_or_more)
wall = Described(
    kinetics.Wall,
    {
        "heat_transfer_coefficient": condition, "temperature": condition,
        "area": Table.one_or_more,
    },
)  # fmt: skip
_PISTON = ("area", "outer_pressure", "mobility", "mass_per_area", "velocity")
piston = Described(
    kinetics.Piston,
    {
        **dict.fromkeys(_PISTON, Table.one_or_more),
        "shape": partial(Table.choice, choices=("plane", "sphere")),
    },
)
volume = Either(piston, trajectory, "area")
tank = Described(
    kinetics.StirredTank,
    {
        "inflow": Each(condition), "residence_time": Table.one_or_more, "temperature": condition,
        "outflow_ratio": Table.one_or_more, "tank_count": Table.integer, "flow_ratio": trajectory,
        "flows": flows,
    },
)  # fmt: skip
tube = Described(kinetics.PlugFlow, {"velocity": Table.one_or_more})
reactor = Either(tube, tank, "velocity")
absolute = Either(Each(Table.number), Table.one_or_more)
axis = Either(Table.times, Table.one_or_more)
moles = Either(Each(Table.one_or_more), Table.text)

DELAYS = "ignition-delays"
"""The output that needs no times."""

TABLES = ("network", "initial", "integrate")
OPTIONS = "integrate"
NEEDED = ("network",)
_OWN: Readers = {"wall": wall, "volume": volume, "rate_factors": rows}
READERS = readers_of(
    kinetics.integrate,
    1,
    {
        **_OWN,
        "reactor": reactor,
        **dict.fromkeys(("parameters", "initial"), Table.swept),
        **dict.fromkeys(("temperature", "density", "pressure", "sunlight"), condition),
        "rtol": Table.one_or_more,
        "atol": absolute,
    },
    without=("reference_control",),
)
OF_DELAYS: Readers = {
    "output": partial(Table.choice, choices=(DELAYS,)),
    **readers_of(
        kinetics.ignition_delay,
        1,
        {
            **_OWN,
            **dict.fromkeys(("temperature", "pressure", "equivalence_ratio"), axis),
            **dict.fromkeys(("fuel", "oxidizer", "mixture"), moles),
            "pressure_ratio": trajectory,
            "criterion": criterion,
        },
    ),
}
"""Keys of ``[integrate]`` with this output."""


@dataclass(frozen=True)
class KineticRun:
    """A checked request for one network in one or more zones, or for ignition delays."""

    network: ReactionNetwork
    # Keyword arguments of `ergode.kinetics.integrate`; with the output ``"ignition-delays"`` those
    # of `ergode.kinetics.ignition_delay`.
    options: Mapping[str, Any]

    @property
    def of_delays(self) -> bool:
        """Whether ignition delays are computed."""
        return self.options.get("output") == DELAYS

    @property
    def has_figure(self) -> bool:
        """Whether the result can be drawn; a sweep and a list of mixtures cannot."""
        points = np.ndim(self.options.get("rate_factors", ()))
        if self.options.get("paired") or "mixture" in self.options:
            return False
        return not is_swept(self.options) and points < 2

    def describe(self) -> dict[str, str]:
        network = self.network
        return {"network": totals(species=len(network.species), reaction=len(network.reactions))}

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        if self.of_delays:
            options = {name: value for name, value in self.options.items() if name != "output"}
            return partial(kinetics.ignition_delay, self.network, progress=progress, **options)
        return partial(kinetics.integrate, self.network, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        return totals(zone=dataset["status"].size, step=int(dataset["step_count"].sum()))

    def draw(self, dataset: xarray.Dataset) -> Figure:
        """The figure of a result: of the first zone, or of the first pressure."""
        if self.of_delays:
            return figure_of(plots.ignition_map, dataset)
        return figure_of(plots.abundances, dataset, zone=0)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that summarize the result: the most abundant species at the end."""
        if self.of_delays:
            delays = dataset["ignition_delay"].values
            found = {"ignition delay [s]": spread(delays)}
            missing = int(np.isnan(delays).sum())
            return found | ({"mixtures that did not ignite": float(missing)} if missing else {})
        name = "mass_fraction" if "mass_fraction" in dataset else "concentration"
        last = usable(dataset)[name].isel(time=-1)
        if not last.size:
            return {}
        most = (
            last.max([dim for dim in last.dims if dim != "species"]).to_series().nlargest(8).index
        )
        return {f"final {species}": spread(last.sel(species=species)) for species in most}


def read(top: Table) -> KineticRun:
    """The request of a run file."""
    network = reaction_network(top.table("network"))
    table = top.table("integrate")
    if "output" in table:
        table.only(OF_DELAYS)
        for name in ("fuel", "oxidizer", "equivalence_ratio"):
            if "mixture" in table and name in table:
                raise table.error(
                    f"{table.place} has the keys 'mixture' and '{name}'; expected a mixture, or a "
                    "fuel with an oxidizer and an equivalence_ratio"
                )
        delays = {key: OF_DELAYS[key](table, key) for key in table.values}
        if "initial" in top:
            raise table.error("[initial] is given; ignition delays have a fuel or a mixture")
        return KineticRun(network, delays)
    options = table.options(READERS)
    if "initial" in top:
        if "initial" in options:
            raise table.error("[initial] and [integrate.initial] are given; expected one of them")
        initial = top.table("initial")
        options["initial"] = {name: initial.one_or_more(name) for name in initial.values}
    return KineticRun(network, options)
