"""Run files of the engine ``epidemics``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ergode import epidemics, plots
from ergode.core.words import counted
from ergode.epidemics.outputs import Output
from ergode.epidemics.points import ModelFunction
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.seeds import Seeds
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.temporal import TemporalContacts
from ergode.plots.frame import figure_of
from ergode.readers.meetings import read_meetings
from ergode.runfile import scenarios
from ergode.runfile.described import Described
from ergode.runfile.models import compartment_model
from ergode.runfile.networks import contact_network
from ergode.runfile.spread import is_swept, spread, usable
from ergode.runfile.tables import Table, of_parameters, readers_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

Contacts = ContactNetwork | ComputedNetwork | TemporalContacts
TABLES = ("parameters", "model", "contacts", "simulate", *scenarios.TABLES)
OPTIONS = "simulate"
NEEDED = ("model", "contacts")
READERS = readers_of(
    epidemics.simulate,
    2,
    {
        "initial": lambda table, key: _initial(table.table(key)),
        "times": Table.times_or_dates,
        "origin": Table.moment,
        "quantiles": Table.numbers,
        "output": partial(Table.choice, choices=get_args(Output)),
    },
    without=("parameters", *scenarios.TABLES),
)


@dataclass(frozen=True)
class EpidemicRun:
    """A checked request for one ensemble of epidemics."""

    model: CompartmentModel  # the model with the largest values of swept rates
    # The model, or a function of parameters that returns it.
    model_at_points: CompartmentModel | ModelFunction
    contacts: Contacts  # likewise
    contacts_at_points: Contacts | Callable[..., Contacts]
    options: Mapping[str, Any]  # keyword arguments of `ergode.epidemics.simulate`

    @property
    def has_figure(self) -> bool:
        """Whether the result can be drawn; a line list or a sweep cannot."""
        return self.options.get("output") != "line_list" and not is_swept(self.options)

    def describe(self) -> dict[str, str]:
        return {
            "model": f"{', '.join(self.model.compartments)}; infectious: "
            + (", ".join(self.model.infectious) or "none"),
            "contacts": repr(self.contacts).partition("(")[2].removesuffix(")"),
        }

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        return partial(
            epidemics.simulate,
            self.model_at_points,
            self.contacts_at_points,
            progress=progress,
            **self.options,
        )

    def work(self, dataset: xarray.Dataset) -> str:
        points = math.prod(np.size(one) for one in self.options.get("parameters", {}).values())
        return counted(points * dataset.attrs["replicates"], "epidemic")

    def draw(self, dataset: xarray.Dataset) -> Figure:
        return figure_of(plots.epidemic_curves, dataset)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that summarize the result, with the middle 95 % of replicates if they vary."""
        if "count" in dataset:
            return _summary_of_counts(dataset)
        if "mean" in dataset:
            return self._summary_of_means(dataset["mean"])
        return {"cases": dataset.sizes["case"]}

    def _summary_of_means(self, mean: xarray.DataArray) -> dict[str, Any]:
        infectious = mean.sel(compartment=list(self.model.infectious)).sum("compartment")
        found = {
            "peak of the mean infectious": spread(infectious.max("time")),
            "time of that peak": spread(infectious.idxmax("time")),
        }
        for name in self.model.compartments:
            found[f"mean final {name}"] = spread(mean.sel(compartment=name).isel(time=-1))
        return found


def read(top: Table) -> EpidemicRun:
    """The request of a run file."""
    parameters = top.table("parameters", {})
    swept = parameters.sweep()
    model, model_at_points, named = of_parameters(compartment_model, top.table("model"), swept)
    contacts, contacts_at_points, also_named = of_parameters(
        _contacts, top.table("contacts"), swept
    )
    named |= also_named
    table = top.table("simulate")
    _, initial, also_named = of_parameters(_initial, table.table("initial"), swept)
    named |= also_named
    options = table.options({**READERS, "initial": lambda *_: initial})
    for key, reader in scenarios.TABLES.items():
        if key in top:
            _, options[key], also_named = of_parameters(reader, top, swept)
            named |= also_named
    unused = sorted(set(swept) - named)
    if unused:
        raise parameters.error(f"[parameters] has '{unused[0]}', which no other table names")
    if swept:
        options["parameters"] = swept
    return EpidemicRun(model, model_at_points, contacts, contacts_at_points, options)


def _contacts(table: Table) -> Contacts:
    if "meetings" in table:
        read = table.call(read_meetings, table.path("meetings"), also=["meetings"])
        assert isinstance(read, TemporalContacts)
        return read
    return contact_network(table)


def _initial(table: Table) -> dict[str, Any]:
    initial: dict[str, Any] = {}
    for name, value in table.values.items():
        if isinstance(value, dict):
            initial[name] = _SEEDS(table, name)
        else:
            initial[name] = _nodes(table, name)
    return initial


def _nodes(table: Table, name: str) -> Any:
    """A number of nodes, a fraction of them, or their ids or names."""
    value = table.value(name)
    if isinstance(value, list):
        if value and all(isinstance(node, str) for node in value):
            return np.array(value)
        if not all(isinstance(node, int) for node in value):
            raise table.error(f"{table.place} {name} is {value!r}; expected node ids or names")
        return np.array(value, np.int64)
    return table.integer(name) if isinstance(value, int) else table.number(name)


_SEEDS = Described(
    Seeds, {"nodes": _nodes, "weight": Table.text, "age": Table.one_or_more, "by": Table.text}
)


def _summary_of_counts(dataset: xarray.Dataset) -> dict[str, Any]:
    dataset = usable(dataset)
    if not dataset.sizes["replicate"]:
        return {}
    summary = epidemics.summary(dataset)
    attack, name = summary["attack_rate"], "attack rate"
    if attack.isnull().all():  # nodes are infected again
        last, first = dataset["cases"].isel(time=-1), dataset["count"].isel(time=0)
        within = [dim for dim in ("stratum",) if dim in last.dims]
        attack, name = last.sum(within) / first.sum(["compartment", *within]), "cases per node"
    found = {
        name: spread(attack),
        "peak infectious": spread(summary["peak_count"]),
        "time of the peak": spread(summary["peak_time"]),
    }
    for name in summary["compartment"].values:
        found[f"final {name}"] = spread(summary["final_count"].sel(compartment=name))
    return found
