"""What a run file asks of the engine ``density``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import density, plots
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Gaussian, Mixture, Prior, Samples
from ergode.models.fields.equations import AMBIGUOUS, field_from_equations, function_of_state
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import grid
from ergode.plots.frame import new_figure, save_figure
from ergode.readers.gbees import read_gbees
from ergode.runfile.spread import spread
from ergode.runfile.tables import Table

if TYPE_CHECKING:
    import xarray

TABLES = ("equations", "diffusion", "prior", "parameters", "measurements", "propagate")
OPTIONS = "propagate"
_TEXTS = ("scheme", "device", "precision", "keep")
_NUMBERS = ("threshold", "retained")
_BOOLEANS = ("scale_threshold", "lower_threshold")
_FUNCTIONS = ("conserved", "region")
_MATRICES = ("process_noise",)


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
    prior: Prior
    options: Mapping[str, Any]

    @property
    def has_figure(self) -> bool:
        """Whether there will be something to draw: of a batch there is not."""
        return not (
            any(isinstance(value, list) for value in self.options["parameters"].values())
            or self.prior.each is not None
            or any(one.side_by_side is not None for one in self.options["measurements"])
        )

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

    def draw(
        self, dataset: xarray.Dataset, path: Path, title: str | None, *, overwrite: bool
    ) -> None:
        """Write the figure of a result: each variable over time."""
        names = self.field.variables
        figure = new_figure((8, 1 + 2 * len(names)))
        axes: Any = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for ax, name in zip(axes, names, strict=True):
            plots.density_strip(dataset, name, ax=ax)
            ax.label_outer()
        save_figure(figure, path, title, overwrite=overwrite)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that say what came out."""
        last = dataset.isel(time=-1)
        found: dict[str, Any] = {}
        for name in self.field.variables:
            mean = last["mean"].sel(variable=name).values
            variance = last["covariance"].sel(variable=name, variable_=name).values
            found[f"final mean of {name}"] = spread(mean)
            found[f"final standard deviation of {name}"] = spread(np.sqrt(variance))
        return found | {
            "probability lost": spread(last["mass_lost"].values),
            "cells": spread(last["cell_count"].values),
        }


def read(top: Table) -> DensityRun:
    """The request of a run file."""
    equations, noise = top.table("equations"), top.table("diffusion", {})
    listed = list(top.table("parameters", {}).values)
    with equations.explaining():
        field = field_from_equations(
            {name: equations.text(name) for name in equations.values},
            listed if AMBIGUOUS.keys() & set(listed) else None,
            diffusion={name: noise.text(name) for name in noise.values},
        )
    belief = _prior(top.table("prior"), field)
    parameters = top.table("parameters", {})
    seen = [_measurement(table, field) for table in _tables(top, "measurements")]
    table = top.table("propagate")
    several = ["times", "width", "axes", "max_cells"]
    table.only([*several, *_MATRICES, *_TEXTS, *_NUMBERS, *_BOOLEANS, *_FUNCTIONS])
    options: dict[str, Any] = {
        "times": table.times("times"),
        "parameters": grid(**{name: _value(parameters, name) for name in parameters.values}),
        "measurements": seen,
    }
    options |= {key: _matrix(table, key) for key in _MATRICES if key in table}
    if "width" in table:
        options["width"] = _value(table, "width")
    if "axes" in table:
        is_text = isinstance(table.values["axes"], str)
        options["axes"] = table.text("axes") if is_text else _matrix(table, "axes")
    if "max_cells" in table:
        options["max_cells"] = table.integer("max_cells")
    options |= {key: table.number(key) for key in _NUMBERS if key in table}
    options |= {key: table.boolean(key) for key in _BOOLEANS if key in table}
    options |= {key: table.text(key) for key in _TEXTS if key in table}
    for key in _FUNCTIONS:
        if key in table:
            with table.explaining():
                options[key] = function_of_state([table.text(key)], field, key)
    return DensityRun(field, belief, options)


def _tables(top: Table, key: str) -> list[Table]:
    return list(top.tables(key)) if key in top else []


def _value(table: Table, key: str) -> Any:
    """A number, or a list of them."""
    several = isinstance(table.values[key], list)
    return table.numbers(key) if several else table.number(key)


def _prior(table: Table, field: VectorField) -> Prior:
    """A Gaussian, a mixture of some, or the cells of a file of GBEES."""
    if "file" in table:
        table.only(["file"])
        cells = read_gbees(table.path("file"), field.variables)
        return Samples(cells["point"].values, cells["mass"].values)
    if "components" in table:
        table.only(["components"])
        parts = list(table.tables("components"))
        for part in parts:
            part.only(["weight", "mean", "covariance"])
        components = [_gaussian(part) for part in parts]
        with table.explaining():
            return Mixture([part.number("weight") for part in parts], components)
    table.only(["mean", "covariance"])
    return _gaussian(table)


def _gaussian(table: Table) -> Gaussian:
    with table.explaining():
        return Gaussian(_matrix(table, "mean"), _matrix(table, "covariance"))


def _measurement(table: Table, field: VectorField) -> Measurement:
    """A measurement of variables or expressions with Gaussian noise, or any likelihood."""
    time = table.number("time")
    if "log_likelihood" in table:
        table.only(["time", "log_likelihood"])
        with table.explaining():
            told = function_of_state([table.text("log_likelihood")], field, "log_likelihood")
            return Measurement(time, likelihood=told)
    if "variable" in table:
        table.only(["time", "variable", "value", "variance"])
        of = [table.choice("variable", field.variables)]
        value, noise = np.array([table.number("value")]), np.array([table.number("variance")])
        angles: list[int] = []
    else:
        table.only(["time", "of", "value", "covariance", "angles"])
        of = [str(one) for one in table.items("of")]
        value, noise = _matrix(table, "value"), _matrix(table, "covariance")
        angles = [int(k) for k in table.numbers("angles")] if "angles" in table else []
    with table.explaining():
        seen = function_of_state(of, field, "of")
        return Measurement(time, seen, value, noise, angles)


def _matrix(table: Table, key: str) -> np.ndarray:
    """A list of numbers, or of the rows of a matrix."""
    rows = table.items(key)
    if not any(isinstance(row, list) for row in rows):
        return np.array(table.numbers(key))
    numbers = [Table({key: row}, table.name, table.file).numbers(key) for row in rows]
    if len({len(row) for row in numbers}) != 1:
        raise table.error(f"{table.place} {key} has rows of different lengths")
    return np.array(numbers)
