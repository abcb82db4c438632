"""Run files of the engine ``stochastic`` with the table ``[space]``: reactions and diffusion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ergode import plots, stochastic
from ergode.core.words import totals
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction_diffusion import ReactionDiffusion
from ergode.plots.frame import figure_of
from ergode.runfile.spread import is_swept, replicates_text, usable
from ergode.runfile.tables import Table, readers_of
from ergode.stochastic.space.outputs import Output

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

KEYS = ("shape", "diffusion", "spacing", "periodic")
READERS = readers_of(
    stochastic.simulate_space,
    1,
    {"output": partial(Table.choice, choices=get_args(Output)), "parameters": Table.swept},
)


@dataclass(frozen=True)
class SpaceRun:
    """A checked request for realizations of a network on a grid."""

    space: ReactionDiffusion
    options: Mapping[str, Any]  # keyword arguments of `ergode.stochastic.simulate_space`

    @property
    def has_figure(self) -> bool:
        return not is_swept(self.options)

    def describe(self) -> dict[str, str]:
        network = self.space.network
        return {
            "network": totals(species=len(network.species), reaction=len(network.reactions)),
            "space": f"{' x '.join(map(str, self.space.shape))} voxels",
            "replicates": replicates_text(self.options),
        }

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        return partial(stochastic.simulate_space, self.space, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        return totals(firing=dataset.attrs["firings"])

    def draw(self, dataset: xarray.Dataset) -> Figure:
        """The figure of a result: the first species at the last time."""
        return figure_of(plots.field, dataset, species=str(dataset["species"].values[0]))

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that summarize the result: molecules in all voxels at the last time."""
        found: dict[str, Any] = {"firings": float(np.nansum(dataset["firing_count"].values))}
        values = dataset["mean"] if "mean" in dataset else usable(dataset)["amount"]
        last = values.isel(time=-1) if "time" in values.dims else values
        total = last.sum(self.space.axes).mean([dim for dim in last.dims if dim == "replicate"])
        for name in dataset["species"].values if total.ndim == 1 else ():
            found[f"mean final {name}"] = float(total.sel(species=name))
        return found


def read(network: ReactionNetwork, table: Table, simulate: Table) -> SpaceRun:
    """The request of a run file: its tables ``[space]`` and ``[simulate]``."""
    table.only(KEYS)
    options = simulate.options(READERS)
    if "shape" not in table or "diffusion" not in table:
        raise table.error(f"{table.place} needs the keys 'shape' and 'diffusion'")
    with table.explaining():
        return SpaceRun(ReactionDiffusion(network, **table.values), options)
