"""Read a run file and check all of it, before anything is computed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ergode.core import files, log, results
from ergode.core.devices import Device
from ergode.core.devices.absent import Absent
from ergode.core.errors import PlanError, ReadError
from ergode.plots import check_figure_path
from ergode.readers.bounded import text_of
from ergode.runfile.settings import replace_values
from ergode.runfile.tables import Readers, Table

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

# The module for each engine's part of a run file. It has TABLES; NEEDED, those that a file must
# have; OPTIONS, the name of the table that the command line may override, and READERS, its keys;
# and ``read(top) -> Request``.
ENGINES = {
    engine: f"ergode.runfile.{engine}"
    for engine in ("density", "epidemics", "kinetics", "stochastic", "trajectories")
}

TOP = ("engine", "title", "output")
"""Keys of every run file."""

OUTPUT: Readers = {"dataset": Table.path, "overwrite": Table.boolean}
"""Keys of ``[output]``; ``figure`` is a path, or false."""


class Request(Protocol):
    """A checked request, from an engine's part of a run file."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Keyword arguments of the engine's call."""

    @property
    def has_figure(self) -> bool:
        """Whether the result can be drawn."""

    def describe(self) -> dict[str, str]:
        """Description of the run, for the terminal."""

    def call(self, progress: bool) -> partial[xarray.Dataset]:
        """The call of the engine."""

    def work(self, dataset: xarray.Dataset) -> str:
        """Short description of the run."""

    def draw(self, dataset: xarray.Dataset) -> Figure:
        """The figure of a result."""

    def summary(self, dataset: xarray.Dataset) -> dict[str, Any]:
        """Numbers that summarize the result."""


WHOLE = ("probabilities", "ignition-delays")
"""Outputs that are computed as a whole."""

CHECKPOINT = 60.0
"""Seconds between two checkpoints of a density that ``--resume`` keeps."""


@dataclass(frozen=True)
class RunFile:
    """A checked run file."""

    path: Path
    engine: str
    title: str | None  # title above the figure
    request: Request
    dataset: Path  # path of the result
    figure: Path | None  # path of the figure, if there is one
    overwrite: bool  # whether outputs of an earlier run are replaced
    options: Table  # the table of options of the engine's call
    output: Table  # the table of outputs

    @property
    def store(self) -> Path | None:
        """The store of its finished parts, if there is one."""
        found: Path | None = self.request.options.get("store")
        return found

    def divided(self, **options: Any) -> RunFile:
        """The same run in parts: with the options `executor` and `store` of the engine's call.

        A single density has one part, with checkpoints.

        Raises a PlanError if it computes no ensemble.
        """
        request: Any = self.request
        output = request.options.get("output")
        if output in WHOLE:
            raise PlanError(
                f"{self.path.name}: {output} are not computed in parts; --resume and --scheduler "
                "are for ensembles"
            )
        if self.engine == "density":
            options = {"checkpoint": CHECKPOINT, **request.options, **options}
        request = replace(request, options={**request.options, **options})
        return replace(self, request=request)

    def check_outputs(self) -> None:
        """Raise a PlanError if the outputs cannot be written."""
        _check_outputs(self.output, self.dataset, self.figure, self.overwrite)

    def execute(self, progress: bool) -> xarray.Dataset:
        """Run it; errors name the file and the table of options."""
        with self.options.explaining():
            return self.request.call(progress)()

    def first(self, size: int) -> tuple[xarray.Dataset, int]:
        """The result of the first members alone, and the number of all members."""
        with self.options.explaining():
            call: Any = self.request.call(progress=False)
            found: tuple[xarray.Dataset, int] = call.func.first(size, *call.args, **call.keywords)
            return found

    def plan(self) -> dict[str, str]:
        """What a run would do: everything is checked, and nothing computed or written."""
        device = self.request.options.get("device")
        with log.plan_only(elsewhere=isinstance(device, Absent)) as facts:
            self.execute(progress=False)
        return facts

    def on(self, device: Device | str, **options: Any) -> RunFile:
        """The same run on a device, with other options of the engine's call."""
        request: Any = self.request
        more = {**request.options, **options, "device": device}
        return replace(self, request=replace(request, options=more))


def read(
    path: str | os.PathLike[str],  # a TOML file as `ergode.runfile` describes
    *,
    # Keys of the engine's table of options, such as ``[simulate]``, that override the file.
    options: Mapping[str, Any] | None = None,
    # Path of the dataset, instead of the one in the file; the figure goes to the same folder.
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,  # replace the outputs of an earlier run, whatever the file says
    # Values that replace those of the file, each as ``key.path=value``; `options` go before them.
    settings: Sequence[str] = (),
    outputs_too: bool = True,  # check that outputs can be written; else `check_outputs` does
) -> RunFile:
    """Read and check a run file, including its network.

    Raises a ReadError if the file does not exist, is not TOML, or has an invalid key or value.
    Raises a ModelError if the model or the network is invalid. Raises a PlanError if the outputs
    cannot be written to the requested paths.
    """
    file = Path(path)
    try:
        values = tomllib.loads(text_of(file))
    except ReadError:
        raise
    except RecursionError:
        raise ReadError(f"{file}: it is nested too deeply") from None
    except ValueError as error:
        if file.suffix == ".py":
            raise ReadError(
                f"{file}: a Python script, and not a run file, which describes a run in TOML; "
                f"start it by python {file.name}, or see `ergode run --help`"
            ) from None
        raise ReadError(f"{file}: not TOML: {error}") from None
    replace_values(values, settings)
    top = Table(values, "", file)
    engine = top.choice("engine", ENGINES)
    reader = import_module(ENGINES[engine])
    if options and isinstance(top.values.get(reader.OPTIONS), dict):
        top.values[reader.OPTIONS] = top.values[reader.OPTIONS] | options
    top.only([*TOP, *reader.TABLES])
    title = top.text("title") if "title" in top else None
    table = top.table("output", {})
    table.only([*OUTPUT, "figure"])
    overwrite = overwrite or table.boolean("overwrite", False)
    # Check the outputs before reading the network, which may take a while.
    dataset, figure = _outputs(table, file, output)
    if outputs_too:
        _check_outputs(table, dataset, None, overwrite)
    request: Request = reader.read(top)
    if not request.has_figure:
        if figure and isinstance(table.values.get("figure"), str):
            raise table.error("[output] figure: there is no figure of this output; leave it out")
        figure = None
    options_of_call = top.table(reader.OPTIONS)
    asked = RunFile(
        file, engine, title, request, dataset, figure, overwrite, options_of_call, table
    )
    if outputs_too:
        asked.check_outputs()
    return asked


def _outputs(
    table: Table, file: Path, output: str | os.PathLike[str] | None
) -> tuple[Path, Path | None]:
    drawn = table.values.get("figure") is not False
    if output is not None:
        dataset = Path(output)
        figure = dataset.with_suffix(".png")
    else:
        dataset = table.path("dataset") if "dataset" in table else file.with_suffix(".nc")
        figure = dataset.with_suffix(".png")
        if drawn and "figure" in table:
            figure = table.path("figure")
    with table.explaining():
        results.check_dataset_path(dataset)
        if drawn:
            check_figure_path(figure)
    return dataset, figure if drawn else None


def _check_outputs(table: Table, dataset: Path, figure: Path | None, overwrite: bool) -> None:
    """Refuse outputs that cannot be written, before anything is computed."""
    with table.explaining():
        results.check_new_dataset(dataset, overwrite=overwrite, way=_WAY)
        if figure is not None:
            files.check_new(figure, overwrite=overwrite, written_here=files.is_own_text, way=_WAY)


_WAY = "pass --overwrite, or set overwrite = true in [output],"
