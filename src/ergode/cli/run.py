"""``ergode run``: run a file, write a dataset and a figure."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ergode.core import results
from ergode.core.errors import ErgodeError, PlanError, WriteError
from ergode.plots.frame import save_figure
from ergode.runfile.read import RunFile, read
from ergode.runfile.spread import shortfall

if TYPE_CHECKING:
    import xarray


Show = Literal["text", "json", "nothing"]
"""What a command prints on standard output; warnings and errors are printed in any case."""


def ask(
    file: Path,
    options: Mapping[str, Any],
    output: str | os.PathLike[str] | None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    settings: Sequence[str] = (),
    outputs_too: bool = True,
) -> RunFile:
    """Read a file, with what the command line replaces, and check its outputs if `outputs_too`.

    With `resume`, finished parts are kept in a store, and those of an earlier run are not computed
    again; without it an existing store is refused. `settings` are texts ``key.path=value``.
    """
    asked = read(
        file, options=options, output=output, overwrite=overwrite, settings=settings,
        outputs_too=outputs_too,
    )  # fmt: skip
    if resume and asked.store is None:
        asked = asked.divided(store=asked.dataset.with_suffix(".parts.zarr"))
    if outputs_too:
        _check_store(asked, resume)
    return asked


def _check_store(asked: RunFile, resume: bool) -> None:
    if asked.store is None:
        return
    if asked.store.resolve() == asked.dataset.resolve():
        raise PlanError(
            f"'{asked.store}' is named as the store and as the dataset; expected two names"
        )
    if asked.store.exists() and not resume:
        raise PlanError(
            f"store '{asked.store}' exists; pass --resume to compute what is missing in it, or "
            "remove it"
        )


def check(asked: RunFile, show: Show, *, resume: bool = False) -> None:
    """Check a run, and print its plan; nothing is computed or written.

    An output that is in the way hides no other error: all are in the message.
    """
    facts: dict[str, str] = {}
    errors: list[ErgodeError] = []
    steps: tuple[Callable[[], None], ...] = (
        lambda: facts.update(asked.plan()),
        asked.check_outputs,
        lambda: _check_store(asked, resume),
    )
    with warnings_told():
        for step in steps:
            try:
                step()
            except ErgodeError as error:
                errors.append(error)
        if errors:
            raise type(errors[0])("; and ".join(map(str, errors)))
        show_plan(asked, facts, show)


def show_plan(asked: RunFile, facts: Mapping[str, str], show: Show) -> None:
    """Print the plan of a run."""
    outputs = {"dataset": asked.dataset, "figure": asked.figure, "store": asked.store}
    if show == "json":
        written = {name: str(path) if path else None for name, path in outputs.items()}
        found = {"engine": asked.engine, "title": asked.title, **written, "plan": facts}
        print(json.dumps(found, indent=2))
    elif show == "text":
        console = Console(highlight=False)
        _print_request(console, asked)
        console.print(_grid(facts))
        for name, path in outputs.items():
            if path is not None:
                how = "would write" if not path.exists() else _AGAIN.get(name, "would replace")
                console.print(f"{how} {path}", markup=False, soft_wrap=True)
        console.print("checked: nothing was computed or written")


_AGAIN = {"store": "would go on with"}


def run(asked: RunFile, show: Show, scheduler: str | None = None) -> bool:
    """Run a file, write its outputs, and print a summary; whether the run was interrupted.

    `scheduler` is the address of a Dask scheduler whose workers compute the parts. Of a run that
    was interrupted, the results computed so far are written.

    Raises a WriteError if an output could not be written; the message says where the dataset was
    written instead.
    """
    console = Console(highlight=False)
    if show == "text":
        _print_request(console, asked)
    with warnings_told(), _executor(scheduler) as executor:
        if executor is not None:
            asked = asked.divided(executor=executor)
        dataset = asked.execute(progress=show == "text")
    with _finishing():
        _save(dataset, asked)
    if asked.figure:
        _draw(dataset, asked, asked.figure)
    summary = shortfall(dataset) | asked.request.summary(dataset)
    if show == "json":
        said = _finite(_as_data(asked, dataset, summary))
        print(json.dumps(said, indent=2, default=_plain, allow_nan=False))
    elif show == "text":
        _print_result(console, asked, dataset, summary)
    return bool(dataset.attrs.get("interrupted", 0))


@contextmanager
def warnings_told() -> Iterator[None]:
    """Print the warnings of this block, a line each, at its end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        Console(stderr=True, highlight=False).print(
            f"warning: {warning.message}", markup=False, soft_wrap=True
        )


@contextmanager
def _executor(scheduler: str | None) -> Iterator[Executor | None]:
    """The workers of a Dask scheduler, if there is an address.

    Raises a PlanError if Dask is not installed, or no scheduler is there.
    """
    if scheduler is None:
        yield None
        return
    if find_spec("distributed") is None:
        raise PlanError("--scheduler needs dask and distributed (pip install 'ergode[cluster]')")
    distributed: Any = import_module("distributed")
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"no Dask scheduler at '{scheduler}': {error}") from None
    with client:
        yield client.get_executor()


_PATIENCE = 30
"""Seconds to wait for the answer of a scheduler."""


@contextmanager
def _finishing() -> Iterator[None]:
    """Delay the first Ctrl-C until the result is written."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    asked = []

    def later(number: int, frame: Any) -> None:
        asked.append(number)
        print("writing the result; press Ctrl-C again to abandon it", file=sys.stderr)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt("interrupted; the dataset is written, the figure is not")


def _save(dataset: xarray.Dataset, asked: RunFile) -> None:
    """Write the dataset; if that fails, try other folders."""
    try:
        results.save(dataset, asked.dataset, overwrite=asked.overwrite)
        return
    except PlanError as failed:
        error = failed
    for folder in _refuges():
        try:
            kept = results.save(dataset, folder / asked.dataset.name)
        except PlanError:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        raise WriteError(f"{error}; the result is in '{kept}' instead") from None
    raise WriteError(f"{error}; the result could not be written elsewhere either") from None


def _refuges() -> Iterator[Path]:
    """New temporary folders, if possible on several disks."""
    for place in (Path.cwd(), Path.home(), Path(tempfile.gettempdir()), Path("/var/tmp")):
        try:
            yield Path(tempfile.mkdtemp(prefix="ergode-result-", dir=place))
        except OSError:
            continue


def _draw(dataset: xarray.Dataset, asked: RunFile, figure: Path) -> None:
    try:
        drawn = asked.request.draw(dataset)
        save_figure(drawn, figure, asked.title, overwrite=asked.overwrite)
    except ErgodeError as error:
        raise type(error)(f"{error}; the dataset is in '{asked.dataset}'") from None


def _as_data(asked: RunFile, dataset: xarray.Dataset, summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "engine": asked.engine,
        "title": asked.title,
        "dataset": str(asked.dataset),
        "figure": str(asked.figure) if asked.figure else None,
        "interrupted": bool(dataset.attrs.get("interrupted", 0)),
        "summary": summary,
        "attrs": dict(dataset.attrs),
    }


def _print_request(console: Console, asked: RunFile) -> None:
    console.print(asked.title or asked.path.name, style="bold", markup=False)
    console.print(_grid(asked.request.describe()))


def _print_result(
    console: Console, asked: RunFile, dataset: xarray.Dataset, summary: dict[str, Any]
) -> None:
    attrs = dataset.attrs
    compiling = attrs["compile_seconds"]
    work = f"{asked.request.work(dataset)} in {attrs['wall_seconds'] - compiling:.3g} s"
    if compiling > 1.0:
        work += f", compiled in {compiling:.0f} s"
    rows = {
        "method": f"{attrs['method']}: {attrs['method_reason']}",
        "device": f"{attrs['device']} ({attrs['device_model']})",
        "work": work,
    }
    console.print(_grid(rows))
    console.print(_results(summary))
    console.print(f"wrote {asked.dataset}", markup=False, soft_wrap=True)
    if asked.figure:
        console.print(f"wrote {asked.figure}", markup=False, soft_wrap=True)


def _grid(rows: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    return table


def _results(summary: dict[str, Any]) -> Table:
    spread = any(isinstance(value, dict) for value in summary.values())
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("")
    table.add_column("median" if spread else "value", justify="right")
    if spread:
        table.add_column("middle 95 %", justify="right")
    for name, value in summary.items():
        if isinstance(value, dict) and not math.isnan(value["median"]):
            table.add_row(
                name, _short(value["median"]), f"{_short(value['low'])} - {_short(value['high'])}"
            )
        else:
            table.add_row(name, _short(math.nan if isinstance(value, dict) else value))
    return table


def _short(value: float) -> str:
    if math.isnan(value):
        return "missing"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _plain(value: Any) -> Any:
    """An array, or an array with a single number, as a JSON value."""
    return _finite(value.tolist())


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by null, because JSON has neither."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
