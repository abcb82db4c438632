"""``ergode run``: a run file to a dataset and a figure."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ergode.core import results
from ergode.runfile.read import RunFile, read

if TYPE_CHECKING:
    import xarray


def run(
    file: Path,
    options: Mapping[str, Any],
    output: str | os.PathLike[str] | None,
    *,
    as_json: bool,
) -> bool:
    """Run a file, write what it asks for, and say what came out.

    Returns
    -------
    bool
        Whether it was interrupted; what was computed by then has been written.
    """
    asked = read(file, options=options, output=output)
    console = Console(highlight=False)
    if not as_json:
        _print_request(console, asked)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = asked.request.execute(progress=not as_json)
    for warning in caught:
        Console(stderr=True, highlight=False).print(
            f"warning: {warning.message}", markup=False, soft_wrap=True
        )
    results.save(dataset, asked.dataset)
    if asked.figure:
        asked.request.draw(dataset, asked.figure, asked.title)
    summary = asked.request.summary(dataset)
    if as_json:
        print(json.dumps(_as_data(asked, dataset, summary), indent=2, default=_plain))
    else:
        _print_result(console, asked, dataset, summary)
    return bool(dataset.attrs.get("interrupted", 0))


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
    table = Table.grid(padding=(0, 2))
    for name, value in asked.request.describe().items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    console.print(asked.title or asked.path.name, style="bold", markup=False)
    console.print(table)


def _print_result(
    console: Console, asked: RunFile, dataset: xarray.Dataset, summary: dict[str, Any]
) -> None:
    attrs = dataset.attrs
    table = Table.grid(padding=(0, 2))
    table.add_row("[dim]method[/]", f"{attrs['method']}: {attrs['method_reason']}")
    table.add_row("[dim]device[/]", f"{attrs['device']} ({attrs['device_model']})")
    work = f"{asked.request.work(dataset)} in {attrs['wall_seconds']:.3g} s"
    if attrs.get("prepare_seconds", 0.0) > 1.0:
        work += f", made ready in {attrs['prepare_seconds']:.0f} s"
    table.add_row("[dim]work[/]", work)
    console.print(table)
    console.print(_results(summary))
    console.print(f"wrote {asked.dataset}", markup=False, soft_wrap=True)
    if asked.figure:
        console.print(f"wrote {asked.figure}", markup=False, soft_wrap=True)


def _results(summary: dict[str, Any]) -> Table:
    spread = any(isinstance(value, dict) for value in summary.values())
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("")
    table.add_column("median" if spread else "value", justify="right")
    if spread:
        table.add_column("middle 95 %", justify="right")
    for name, value in summary.items():
        if isinstance(value, dict):
            table.add_row(
                name, _short(value["median"]), f"{_short(value['low'])} - {_short(value['high'])}"
            )
        else:
            table.add_row(name, _short(value))
    return table


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _plain(value: Any) -> Any:
    """An array, or a number of one, as JSON has them."""
    return value.tolist()
