"""Run files of the engine ``stochastic``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ergode import plots, stochastic
from ergode.core.errors import PlanError
from ergode.core.words import totals
from ergode.models.reactions.network import ReactionNetwork
from ergode.plots.frame import figure_of
from ergode.runfile import space
from ergode.runfile.reaction_networks import reaction_network
from ergode.runfile.space import SpaceRun
from ergode.runfile.spread import average, is_swept, replicates_text, usable
from ergode.runfile.tables import Readers, Table, readers_of
from ergode.stochastic.simulate import Output

PROBABILITIES = "probabilities"
"""The output that needs no realizations."""

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

TABLES = ("network", "space", "simulate")
OPTIONS = "simulate"
NEEDED = ("network",)
_OWN: Readers = {
    "bins": Table.times,
    "output": partial(Table.choice, choices=(*get_args(Output), PROBABILITIES)),
    **dict.fromkeys(("parameters", "initial"), Table.swept),
}
_OF_PROBABILITIES = readers_of(stochastic.probabilities, 1, _OWN)
READERS = {**_OF_PROBABILITIES, **readers_of(stochastic.simulate, 1, _OWN)}


@dataclass(frozen=True)
class StochasticRun:
    """A checked request for realizations of one network, or for probabilities."""

    network: ReactionNetwork
    # Keyword arguments of `ergode.stochastic.simulate`; with the output ``"probabilities"`` those
    # of `ergode.stochastic.probabilities`.
    options: Mapping[str, Any]

    @property
    def has_figure(self) -> bool:
        return not is_swept(self.options) and self.options.get("output", "trajectories") in (
            "trajectories", "statistics", "histogram", PROBABILITIES,
        )  # fmt: skip

    @property
    def _of_realizations(self) -> bool:
        return self.options.get("output") != PROBABILITIES

    def describe(self) -> dict[str, str]:
        network = self.network
        found = {"network": totals(species=len(network.species), reaction=len(network.reactions))}
        if self._of_realizations:
            found["replicates"] = replicates_text(self.options)
        return found

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        options = dict(self.options)
        if self._of_realizations:
            return partial(stochastic.simulate, self.network, progress=progress, **options)
        del options["output"]
        options.pop("device", None)
        return partial(stochastic.probabilities, self.network, progress=progress, **options)

    def work(self, dataset: xarray.Dataset) -> str:
        if not self._of_realizations:
            return f"{dataset.attrs['states']:,} states"
        return f"{dataset.attrs['firings']:,} firings"

    def draw(self, dataset: xarray.Dataset) -> Figure:
        if "histogram" in dataset or not self._of_realizations:
            return figure_of(plots.amounts, dataset, species=str(dataset["species"].values[0]))
        return figure_of(plots.realizations, dataset)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._of_realizations:
            found["firings"] = float(np.nansum(dataset["firing_count"].values))
            dataset = usable(dataset)
        else:
            found["probability left out"] = float(dataset["truncation_error"].isel(time=-1).max())
        for k, name in enumerate(dataset["species"].values if "species" in dataset else ()):
            if "mean" in dataset and dataset["mean"].ndim == 2:
                found[f"mean final {name}"] = float(dataset["mean"].values[-1, k])
            elif "amount" in dataset.data_vars:
                last = dataset["amount"].values[..., k]
                last = last[..., -1] if "time" in dataset["amount"].dims else last
                found[f"mean final {name}"] = average(last)
        return found


def read(top: Table) -> StochasticRun | SpaceRun:
    """The request of a run file."""
    network = reaction_network(top.table("network"))
    table = top.table("simulate")
    if "space" in top:
        return space.read(network, top.table("space"), table)
    options = table.options(READERS)
    if options.get("output") == "first-passage" and "stop" not in options:
        raise PlanError(f"{table.file.name}: {table.place} output 'first-passage' needs 'stop'")
    if options.get("output") == PROBABILITIES:
        table.only([*_OF_PROBABILITIES, "output", "device"])
        if options.get("device", "auto").partition(":")[0] not in ("auto", "cpu"):
            raise table.error(f"{table.place} device: probabilities are computed on the CPU alone")
    elif "max_states" in options:
        raise table.error(f"{table.place} max_states: only the output 'probabilities' has states")
    return StochasticRun(network, options)
