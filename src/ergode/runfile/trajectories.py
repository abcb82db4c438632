"""What a run file asks of the engine ``trajectories``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergode import plots, trajectories
from ergode.models.fields.equations import AMBIGUOUS, field_from_equations
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import grid
from ergode.plots.frame import new_figure, save_figure
from ergode.runfile.spread import spread, usable
from ergode.runfile.tables import Table

if TYPE_CHECKING:
    import xarray

TABLES = ("equations", "diffusion", "initial", "parameters", "integrate")
OPTIONS = "integrate"
_TEXTS = ("method", "device", "precision")
_NUMBERS = ("step", "rtol", "atol", "max_step")
_INTEGERS = ("replicates", "seed", "max_steps")


@dataclass(frozen=True)
class TrajectoryRun:
    """A checked request for one ensemble of trajectories.

    Attributes
    ----------
    field
        What to integrate.
    options : dict
        Keyword arguments of `ergode.trajectories.integrate`.
    """

    field: VectorField
    options: Mapping[str, Any]

    @property
    def has_figure(self) -> bool:
        """Whether there will be something to draw."""
        return True

    def describe(self) -> dict[str, str]:
        """What is about to be run, for people."""
        return {
            "variables": ", ".join(self.field.variables),
            "parameters": ", ".join(self.field.parameters) or "none",
        }

    def execute(self, progress: bool) -> xarray.Dataset:
        """Integrate."""
        return trajectories.integrate(self.field, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        """What was run, in a few words."""
        return f"{dataset.attrs['trajectories']:,} trajectories"

    def draw(
        self, dataset: xarray.Dataset, path: Path, title: str | None, *, overwrite: bool
    ) -> None:
        """Write the figure of a result."""
        figure = new_figure()
        plots.trajectories(dataset, ax=figure.subplots())
        save_figure(figure, path, title, overwrite=overwrite)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that say what came out."""
        last = usable(dataset)["state"].isel(time=-1)
        return {f"final {name}": spread(last.sel(variable=name)) for name in self.field.variables}


def read(top: Table) -> TrajectoryRun:
    """The request of a run file."""
    equations = top.table("equations")
    noise = top.table("diffusion", {})
    listed = list(top.table("parameters", {}).values)
    with equations.explaining():
        field = field_from_equations(
            {name: equations.text(name) for name in equations.values},
            listed if AMBIGUOUS.keys() & set(listed) else None,
            diffusion={name: noise.text(name) for name in noise.values},
        )
    table = top.table("integrate")
    table.only(["times", *_TEXTS, *_NUMBERS, *_INTEGERS])
    options: dict[str, Any] = {
        "times": table.times("times"),
        "initial": grid(**_values(top.table("initial"))),
        "parameters": grid(**_values(top.table("parameters", {}))),
    }
    options |= {key: table.text(key) for key in _TEXTS if key in table}
    options |= {key: table.number(key) for key in _NUMBERS if key in table}
    options |= {key: table.integer(key) for key in _INTEGERS if key in table}
    return TrajectoryRun(field, options)


def _values(table: Table) -> dict[str, Any]:
    """Numbers, lists of them, or tables of start, stop and count."""
    for name, value in table.values.items():
        if not isinstance(value, int | float | list | dict):
            raise table.error(
                f"{table.place} {name} is {value!r}; expected a number, a list of numbers, or a "
                "table of start, stop, and step or count"
            )
    return {
        name: table.number(name) if isinstance(value, int | float) else table.times(name)
        for name, value in table.values.items()
    }
