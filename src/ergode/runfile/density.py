"""What a run file asks of the engine ``density``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import density, plots
from ergode.models.equations import field_from_equations
from ergode.models.measurement import Measurement
from ergode.models.priors import Gaussian
from ergode.models.vector_field import VectorField
from ergode.runfile.tables import Table

if TYPE_CHECKING:
    import xarray

TABLES = ("equations", "prior", "parameters", "measurements", "propagate")
OPTIONS = "propagate"
_TEXTS = ("scheme", "device", "precision")


@dataclass(frozen=True)
class DensityRun:
    """A checked request for one density.

    Attributes
    ----------
    field, prior
        What to move.
    options : dict
        Keyword arguments of `ergode.density.propagate`.
    """

    field: VectorField
    prior: Gaussian
    options: Mapping[str, Any]

    @property
    def has_figure(self) -> bool:
        """Whether there will be something to draw."""
        return True

    def describe(self) -> dict[str, str]:
        """What is about to be run, for people."""
        return {
            "variables": ", ".join(self.field.variables),
            "measurements": str(len(self.options["measurements"])),
        }

    def execute(self, progress: bool) -> xarray.Dataset:
        """Propagate."""
        return density.propagate(self.field, self.prior, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        """What was run, in a few words."""
        return f"{dataset.attrs['cell_steps']:,} cell-steps"

    def draw(self, dataset: xarray.Dataset, path: Path, title: str | None) -> None:
        """Write the figure of a result: each variable over time."""
        from matplotlib.figure import Figure

        names = self.field.variables
        figure = Figure(figsize=(8, 1 + 2 * len(names)), dpi=160, layout="constrained")
        axes: Any = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for ax, name in zip(axes, names, strict=True):
            plots.density_strip(dataset, name, ax=ax)
            ax.label_outer()
        if title:
            figure.suptitle(title)
        figure.savefig(path)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that say what came out."""
        last = dataset.isel(time=-1)
        spread = np.sqrt(np.diag(last["covariance"].values))
        found: dict[str, Any] = {}
        for i, name in enumerate(self.field.variables):
            found[f"final mean of {name}"] = float(last["mean"][i])
            found[f"final standard deviation of {name}"] = float(spread[i])
        return found | {
            "probability lost": float(last["mass_lost"]),
            "cells": int(last["cell_count"]),
        }


def read(top: Table) -> DensityRun:
    """The request of a run file."""
    equations = top.table("equations")
    with equations.explaining():
        field = field_from_equations({name: equations.text(name) for name in equations.values})
    prior = top.table("prior")
    prior.only(["mean", "covariance"])
    with prior.explaining():
        belief = Gaussian(prior.numbers("mean"), _matrix(prior, "covariance"))
    parameters = top.table("parameters", {})
    seen = [_measurement(table, field) for table in _tables(top, "measurements")]
    table = top.table("propagate")
    table.only(["times", "process_noise", "width", "threshold", *_TEXTS])
    options: dict[str, Any] = {
        "times": table.times("times"),
        "parameters": {name: parameters.number(name) for name in parameters.values},
        "measurements": seen,
    }
    if "process_noise" in table:
        options["process_noise"] = _matrix(table, "process_noise")
    if "width" in table:
        several = isinstance(table.values["width"], list)
        options["width"] = table.numbers("width") if several else table.number("width")
    if "threshold" in table:
        options["threshold"] = table.number("threshold")
    options |= {key: table.text(key) for key in _TEXTS if key in table}
    return DensityRun(field, belief, options)


def _tables(top: Table, key: str) -> list[Table]:
    return list(top.tables(key)) if key in top else []


def _measurement(table: Table, field: VectorField) -> Measurement:
    """A measurement of one variable, with Gaussian noise."""
    table.only(["time", "variable", "value", "variance"])
    place = list(field.variables).index(table.choice("variable", field.variables))

    def seen(y: Any, t: Any, p: Any) -> Any:
        return (y[place],)

    with table.explaining():
        return Measurement(
            table.number("time"), seen, table.number("value"), table.number("variance")
        )


def _matrix(table: Table, key: str) -> np.ndarray:
    """A list of variances, or of the rows of a matrix."""
    rows = table.items(key)
    if not any(isinstance(row, list) for row in rows):
        return np.array(table.numbers(key))
    numbers = [Table({key: row}, table.name, table.file).numbers(key) for row in rows]
    if len({len(row) for row in numbers}) != 1:
        raise table.error(f"{table.place} {key} has rows of different lengths")
    return np.array(numbers)
