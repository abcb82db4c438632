"""What a run file asks of the engine ``density``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

TABLES = ("equations", "parameters", "prior", "measurements", "propagate")
OPTIONS = "propagate"
_TEXTS = ("scheme", "device", "precision", "keep")


@dataclass(frozen=True)
class DensityRun:
    """A checked request for one density.

    Attributes
    ----------
    field
        What moves it.
    prior : Gaussian
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
        """Write the figure of a result: variables over time."""
        from matplotlib.figure import Figure

        names = self.field.variables
        figure = Figure(figsize=(7.2, 2.2 * len(names)), dpi=160, layout="constrained")
        axes: Any = figure.subplots(len(names), 1, sharex=True, squeeze=False)
        for ax, name in zip(axes.flat, names, strict=True):
            plots.density_strip(dataset, name, ax=ax)
            ax.set_xlabel("time" if name == names[-1] else "")
        if title:
            figure.suptitle(title)
        figure.savefig(path)

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that say what came out."""
        mean = dataset["mean"].values[-1]
        deviation = np.sqrt(np.diag(dataset["covariance"].values[-1]))
        found: dict[str, Any] = {
            f"final {name}": {
                "median": float(m), "low": float(m - 2 * s), "high": float(m + 2 * s),
            }
            for name, m, s in zip(self.field.variables, mean, deviation, strict=True)
        }  # fmt: skip
        return found


def read(top: Table) -> DensityRun:
    """The request of a run file."""
    equations = top.table("equations")
    with equations.explaining():
        field = field_from_equations({name: equations.text(name) for name in equations.values})
    table = top.table("prior")
    table.only(["mean", "variance"])
    mean, variance = table.table("mean"), table.table("variance")
    with table.explaining():
        prior = Gaussian(
            {name: mean.number(name) for name in mean.values},
            {name: variance.number(name) for name in variance.values},
        ).by_name(field.variables)
    options_table = top.table("propagate")
    options_table.only(["times", "width", "threshold", "process_noise", *_TEXTS])
    parameters = top.table("parameters", {})
    options: dict[str, Any] = {
        "times": options_table.times("times"),
        "parameters": {name: parameters.number(name) for name in parameters.values},
        "measurements": [],
    }
    if "measurements" in top:
        options["measurements"] = [_measurement(one, field) for one in top.tables("measurements")]
    options |= {key: options_table.text(key) for key in _TEXTS if key in options_table}
    if "threshold" in options_table:
        options["threshold"] = options_table.number("threshold")
    for key in ("width", "process_noise"):
        if key in options_table:
            given = options_table.table(key)
            given.only(field.variables)
            options[key] = [given.number(name) for name in field.variables]
    return DensityRun(field, prior, options)


def _measurement(table: Table, field: VectorField) -> Measurement:
    """A measurement of one variable."""
    table.only(["time", "variable", "value", "variance"])
    index = field.variables.index(table.choice("variable", field.variables))
    with table.explaining():
        return Measurement(
            table.number("time"), _observing(index), table.number("value"),
            table.number("variance"),
        )  # fmt: skip


def _observing(index: int) -> Callable[..., tuple[Any, ...]]:
    """A function that returns one variable."""

    def observed(y: Any, t: Any, p: Any) -> Any:
        return (y[index],)

    return observed
