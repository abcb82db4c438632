"""``ergode tour``: run every engine and write the page."""

from __future__ import annotations

import json
import platform
import time as clock
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

import ergode
from ergode import report
from ergode.core import devices, files, results
from ergode.core.errors import PlanError
from ergode.core.words import counted
from ergode.tour import STOPS

_PAGE = "tour.html"
_WAY = "pass --overwrite"


def show(folder: Path, *, as_json: bool, overwrite: bool = False) -> None:
    """Run the tour and write its page and data to a folder."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise PlanError(f"cannot make the folder '{folder}': {error.strerror}") from None
    for name in STOPS:
        path = folder / report.dataset_name(name.rpartition(".")[2])
        results.check_new_dataset(path, overwrite=overwrite, way=_WAY)
    page = folder / _PAGE
    files.check_new(page, overwrite=overwrite, written_here=files.is_own_text, way=_WAY)
    started = clock.perf_counter()
    console = Console(highlight=False, quiet=as_json)
    stops = []
    for name in STOPS:
        with console.status(f"{name.rpartition('.')[2]}: compiling and running"):
            stop: report.Stop = import_module(name).visit()
        results.save(stop.dataset, folder / stop.dataset_name, overwrite=overwrite)
        console.print(
            f"{stop.engine}: {stop.work} in {stop.run_seconds:.2f} s "
            f"(compiled or loaded in {stop.ready_seconds:.1f} s)"
        )
        for row in stop.comparisons:
            computed, expected, _ = row.texts()
            console.print(
                f"  {stop.heading.lower()}, {row.name}: {computed}, {stop.columns[1]} {expected}",
                style="dim",
            )
        stops.append(stop)
    place = devices.resolve("cpu")
    facts = {
        "ergode": ergode.__version__,
        "device": f"{place.model}, {counted(place.core_count, 'thread')}",
        "python": platform.python_version(),
    }
    with files.new_file(page, overwrite=overwrite, written_here=files.is_own_text) as partial:
        partial.write_text(report.page(stops, facts), encoding="utf-8")
    seconds = clock.perf_counter() - started
    if as_json:
        print(json.dumps(_as_data(folder, stops, seconds), indent=2))
        return
    for name in (*(stop.dataset_name for stop in stops), _PAGE):
        console.print(f"wrote {folder / name}", markup=False, soft_wrap=True)
    console.print(f"the tour took {seconds:.1f} s")


def _as_data(folder: Path, stops: list[report.Stop], seconds: float) -> dict[str, Any]:
    return {
        "page": str(folder / _PAGE),
        "seconds": seconds,
        "stops": [
            {
                "engine": stop.engine,
                "dataset": str(folder / stop.dataset_name),
                "ready_seconds": stop.ready_seconds,
                "run_seconds": stop.run_seconds,
                "comparisons": [vars(row) for row in stop.comparisons],
            }
            for stop in stops
        ],
    }
