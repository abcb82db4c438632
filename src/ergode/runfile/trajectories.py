"""Run files of the engine ``trajectories``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ergode import plots, trajectories
from ergode.core.words import counted
from ergode.models.fields.vector_field import VectorField
from ergode.plots.frame import figure_of
from ergode.runfile.fields import vector_field
from ergode.runfile.spread import spread, usable
from ergode.runfile.tables import Table, readers_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

TABLES = ("equations", "diffusion", "initial", "parameters", "integrate")
OPTIONS = "integrate"
NEEDED = ("equations", "initial")
READERS = readers_of(
    trajectories.integrate,
    1,
    {"atol": Table.number},
    without=(
        "initial", "parameters", "history", "events", "record", "observables", "observe_from",
        "every_step", "dense_output", "noise_per_step",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class TrajectoryRun:
    """A checked request for one ensemble of trajectories."""

    field: VectorField
    options: Mapping[str, Any]  # keyword arguments of `ergode.trajectories.integrate`

    @property
    def has_figure(self) -> bool:
        return True

    def describe(self) -> dict[str, str]:
        return {
            "variables": ", ".join(self.field.variables),
            "parameters": ", ".join(self.field.parameters) or "none",
        }

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        return partial(trajectories.integrate, self.field, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        return counted(dataset.attrs["trajectories"], "trajectory")

    def draw(self, dataset: xarray.Dataset) -> Figure:
        return figure_of(plots.trajectories, dataset)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        last = usable(dataset)["state"].isel(time=-1)
        return {f"final {name}": spread(last.sel(variable=name)) for name in self.field.variables}


def read(top: Table) -> TrajectoryRun:
    """The request of a run file."""
    table = top.table("integrate")
    options: dict[str, Any] = {
        "initial": top.table("initial").sweep(),
        "parameters": top.table("parameters", {}).sweep(),
    }
    return TrajectoryRun(vector_field(top), options | table.options(READERS))
