"""What a run file asks of the engine ``epidemics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import epidemics, plots
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.seeds import Seeds
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.temporal import TemporalContacts
from ergode.readers.meetings import read_meetings
from ergode.runfile import scenarios
from ergode.runfile.models import compartment_model
from ergode.runfile.networks import contact_network
from ergode.runfile.spread import spread, usable
from ergode.runfile.tables import Table

if TYPE_CHECKING:
    import xarray

TABLES = ("model", "contacts", "simulate", *scenarios.TABLES)
OPTIONS = "simulate"


@dataclass(frozen=True)
class EpidemicRun:
    """A checked request for one ensemble of epidemics.

    Attributes
    ----------
    model, contacts
        What to simulate.
    options : dict
        Keyword arguments of `ergode.epidemics.simulate`.
    """

    model: CompartmentModel
    contacts: ContactNetwork | TemporalContacts
    options: Mapping[str, Any]

    @property
    def has_figure(self) -> bool:
        """Whether there will be something to draw."""
        return self.options.get("output") != "line_list"

    def describe(self) -> dict[str, str]:
        """What is about to be run, for people."""
        return {
            "model": f"{', '.join(self.model.compartments)}; infectious: "
            + (", ".join(self.model.infectious) or "none"),
            "contacts": repr(self.contacts).partition("(")[2].removesuffix(")"),
        }

    def execute(self, progress: bool) -> xarray.Dataset:
        """Simulate."""
        return epidemics.simulate(self.model, self.contacts, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        """What was run, in a few words."""
        return f"{dataset.attrs['replicates']:,} epidemics"

    def draw(
        self, dataset: xarray.Dataset, path: Path, title: str | None, *, overwrite: bool
    ) -> None:
        """Write the figure of a result."""
        plots.save_epidemic_curves(dataset, path, title=title, overwrite=overwrite)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that say what came out, each with the middle 95 % of replicates if it varies."""
        if "count" in dataset:
            return _summary_of_counts(dataset)
        if "mean" in dataset:
            return self._summary_of_means(dataset["mean"])
        return {"cases": dataset.sizes["case"]}

    def _summary_of_means(self, mean: xarray.DataArray) -> dict[str, Any]:
        infectious = mean.sel(compartment=list(self.model.infectious)).sum("compartment").values
        found = {
            "peak of the mean infectious": float(infectious.max()),
            "time of that peak": float(mean["time"].values[infectious.argmax()]),
        }
        for name in self.model.compartments:
            found[f"mean final {name}"] = float(mean.sel(compartment=name).values[-1])
        return found


def read(top: Table) -> EpidemicRun:
    """The request of a run file."""
    model = compartment_model(top.table("model"))
    described = top.table("contacts")
    contacts: ContactNetwork | TemporalContacts
    if "meetings" in described:
        contacts = described.call(read_meetings, described.path("meetings"), also=["meetings"])
    else:
        contacts = contact_network(described)
    options = _options(top.table("simulate")) | scenarios.scenario_options(top)
    return EpidemicRun(model, contacts, options)


def _options(table: Table) -> dict[str, Any]:
    table.only(
        ["initial", "times", "replicates", "seed", "method", "device", "output", "quantiles",
         "precision", "strata", "step", "tolerance", "transition", "pressure"]
    )  # fmt: skip
    options: dict[str, Any] = {
        "initial": _initial(table.table("initial")),
        "times": table.times("times"),
    }
    for key in ("replicates", "seed"):
        if key in table:
            options[key] = table.integer(key)
    for key in ("step", "tolerance"):
        if key in table:
            options[key] = table.number(key)
    for key in ("method", "device", "precision", "strata", "transition", "pressure"):
        if key in table:
            options[key] = table.text(key)
    if "output" in table:
        options["output"] = table.choice("output", ["counts", "statistics", "line_list"])
    if "quantiles" in table:
        options["quantiles"] = table.numbers("quantiles")
    return options


def _initial(table: Table) -> dict[str, Any]:
    initial: dict[str, Any] = {}
    for name, value in table.values.items():
        if isinstance(value, dict):
            seeds = table.table(name)
            seeds.only(["nodes", "weight", "age"])
            weight = seeds.text("weight") if "weight" in seeds else None
            several = isinstance(seeds.values.get("age"), list)
            age = seeds.numbers("age") if several else seeds.number("age", 0.0)
            with seeds.explaining():
                initial[name] = Seeds(_nodes(seeds, "nodes"), weight=weight, age=age)
        else:
            initial[name] = _nodes(table, name)
    return initial


def _nodes(table: Table, name: str) -> Any:
    """A count of nodes, a fraction of them, or their ids."""
    value = table.values.get(name)
    if isinstance(value, list):
        if not all(isinstance(node, int) for node in value):
            raise table.error(f"{table.place} {name} is {value!r}; expected node ids")
        return np.array(value, np.int64)
    return table.integer(name) if isinstance(value, int) else table.number(name)


def _summary_of_counts(dataset: xarray.Dataset) -> dict[str, Any]:
    dataset = usable(dataset)
    if not dataset.sizes["replicate"]:
        return {}
    summary = epidemics.summary(dataset)
    found = {
        "attack rate": spread(summary["attack_rate"]),
        "peak infectious": spread(summary["peak_count"]),
        "time of the peak": spread(summary["peak_time"]),
    }
    for name in summary["compartment"].values:
        found[f"final {name}"] = spread(summary["final_count"].sel(compartment=name))
    return found
