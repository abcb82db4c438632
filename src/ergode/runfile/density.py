"""Run files of the engine ``density``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode import density, plots
from ergode.core.words import counted
from ergode.models.estimation.approach import ClosestApproach
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Gaussian, Mixture, Prior, Samples
from ergode.models.fields.equations import function_of_state
from ergode.models.fields.vector_field import VectorField
from ergode.plots.frame import new_figure
from ergode.readers.gbees import read_gbees
from ergode.runfile.described import Described, Each
from ergode.runfile.fields import vector_field
from ergode.runfile.spread import is_swept, spread
from ergode.runfile.tables import Table, readers_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

TABLES = ("equations", "diffusion", "prior", "parameters", "measurements", "maneuvers", "propagate")
OPTIONS = "propagate"
NEEDED = ("equations", "prior")


@dataclass(frozen=True)
class DensityRun:
    """A checked request for one density."""

    field: VectorField
    prior: Prior
    options: Mapping[str, Any]  # keyword arguments of `ergode.density.propagate`

    @property
    def has_figure(self) -> bool:
        """Whether the result can be drawn; a batch cannot."""
        return not (
            is_swept(self.options)
            or self.prior.each is not None
            or any(
                one.side_by_side is not None
                for name in ("measurements", "maneuvers")
                for one in self.options[name]
            )
        )

    def describe(self) -> dict[str, str]:
        return {
            "variables": ", ".join(self.field.variables),
            "measurements": str(len(self.options["measurements"])),
        }

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        return partial(density.propagate, self.field, self.prior, progress=progress, **self.options)

    def work(self, dataset: xarray.Dataset) -> str:
        name = "cell_steps" if "cell_steps" in dataset.attrs else "points"
        return counted(dataset.attrs[name], name.rstrip("s").replace("_", "-"))

    def draw(self, dataset: xarray.Dataset) -> Figure:
        """The figure of a result: each variable over time."""
        names = self.field.variables
        figure = new_figure((8, 1 + 2 * len(names)))
        axes: Any = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for ax, name in zip(axes, names, strict=True):
            plots.density_strip(dataset, name, ax=ax)
            ax.label_outer()
        return figure

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        last = dataset.isel(time=-1)
        found: dict[str, Any] = {}
        for name in self.field.variables:
            mean = last["mean"].sel(variable=name).values
            variance = last["covariance"].sel(variable=name, variable_=name).values
            found[f"final mean of {name}"] = spread(mean)
            found[f"final standard deviation of {name}"] = spread(np.sqrt(variance))
        if "survival" in last:
            found["survival"] = spread(last["survival"].values)
        for radius in last.get("radius", []):
            near = last["approach_probability"].sel(radius=radius)
            found[f"probability of coming within {float(radius):g}"] = spread(near.values)
        return found | {
            "probability lost": spread(last["mass_lost"].values),
            "cells": spread(last["cell_count"].values),
        }


def read(top: Table) -> DensityRun:
    """The request of a run file."""
    field = vector_field(top)
    table = top.table("propagate")
    options: dict[str, Any] = {
        "parameters": top.table("parameters", {}).sweep(),
        "measurements": [_measurement(one, field) for one in _tables(top, "measurements")],
        "maneuvers": [_MANEUVER.read(one) for one in _tables(top, "maneuvers")],
    }
    of_state: dict[str, Any] = dict.fromkeys(_OF_STATE, partial(_function, field=field))
    of_state["closest_approach"] = partial(_approach, field=field)
    options |= table.options({**READERS, **of_state})
    return DensityRun(field, _prior(top.table("prior"), field), options)


def _function(table: Table, key: str, field: VectorField) -> Any:
    """A function of the state, from its formula."""
    with table.explaining():
        return function_of_state([table.text(key)], field, key)


def _approach(table: Table, key: str, field: Any = None) -> ClosestApproach:
    """A closest approach, whose distance is a list of formulas."""
    given = table.table(key)
    given.only(["distance", "radii", "begin", "end"])
    span = {name: given.number(name) for name in ("begin", "end") if name in given}
    with given.explaining():
        of = [str(one) for one in given.items("distance")]
        distance = function_of_state(of, field, "distance")
        return ClosestApproach(distance, given.numbers("radii"), **span)


def _axes(table: Table, key: str) -> Any:
    """A keyword, or a matrix."""
    return table.text(key) if isinstance(table.values[key], str) else _matrix(table, key)


def _tables(top: Table, key: str) -> list[Table]:
    return list(top.tables(key)) if key in top else []


def _prior(table: Table, field: VectorField) -> Prior:
    """A Gaussian, a mixture of Gaussians, or the cells of a GBEES file."""
    if "file" in table:
        table.only(["file"])
        cells = read_gbees(table.path("file"), field.variables)
        return Samples(cells["point"].values, cells["mass"].values)
    if "components" in table:
        table.only(["components"])
        parts = list(table.tables("components"))
        components = [_GAUSSIAN.read(part, "weight") for part in parts]
        with table.explaining():
            return Mixture([part.number("weight") for part in parts], components)
    return _GAUSSIAN.read(table)


def _measurement(table: Table, field: VectorField) -> Measurement:
    """A measurement of variables or expressions with Gaussian noise, or a general likelihood."""
    time = table.number("time")
    if "log_likelihood" in table:
        table.only(["time", "log_likelihood"])
        with table.explaining():
            told = function_of_state([table.text("log_likelihood")], field, "log_likelihood")
            return Measurement(time, likelihood=told)
    if "variable" in table:
        table.only(["time", "variable", "value", "variance", *_ROBUST])
        of = [table.choice("variable", field.variables)]
        value, noise = np.array([table.number("value")]), np.array([table.number("variance")])
        angles: list[int] = []
    else:
        table.only(["time", "of", "value", "covariance", "angles", *_ROBUST])
        of = [str(one) for one in table.items("of")]
        value, noise = _matrix(table, "value"), _matrix(table, "covariance")
        angles = [int(k) for k in table.numbers("angles")] if "angles" in table else []
    with table.explaining():
        seen = function_of_state(of, field, "of")
        robust: dict[str, Any] = {name: table.number(name) for name in _ROBUST if name in table}
        return Measurement(time, seen, value, noise, angles, **robust)


def _matrix(table: Table, key: str) -> np.ndarray:
    """A list of numbers, or a list of the rows of a matrix."""
    rows = table.items(key)
    if not any(isinstance(row, list) for row in rows):
        return np.array(table.numbers(key))
    numbers = [Table({key: row}, table.name, table.file).numbers(key) for row in rows]
    if len({len(row) for row in numbers}) != 1:
        raise table.error(f"{table.place} {key} has rows of different lengths")
    return np.array(numbers)


_GAUSSIAN = Described(Gaussian, {"mean": _matrix, "covariance": _matrix})
_MANEUVER = Described(Maneuver, {"time": Table.number, "change": _matrix, "covariance": _matrix})
_ROBUST = ("degrees_of_freedom", "gate")
_OF_STATE = ("conserved", "region", "killing_rate")
READERS = readers_of(
    density.propagate,
    2,
    {
        **dict.fromkeys(_OF_STATE, Table.text),
        "process_noise": _matrix,
        "width": Table.one_or_more,
        "axes": _axes,
        "periodic": Each(Table.number),
        "closest_approach": _approach,
    },
    without=("measurements", "maneuvers", "parameters"),
)
