"""What every benchmark shares: alternate timing of ergode and its peers, and rows of JSON.

A row is ``{"engine", "case", "device", "metric", "value", "unit", "peer", "peer_value",
"ratio"}``; `ratio` above one means that ergode is ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def arguments(engine: str, cases: Sequence[str], *, figures: bool = False) -> argparse.Namespace:
    """The options that every benchmark takes, and where one has `figures` a folder for them."""
    parser = argparse.ArgumentParser(description=f"Benchmark ergode.{engine}.")
    parser.add_argument("--quick", action="store_true", help="end within a minute on two cores")
    parser.add_argument("--case", choices=cases, action="append", help="only this case")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-peers", action="store_true", help="do not run other packages")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    if figures:
        parser.add_argument("--figures", type=Path, help="draw figures into this folder")
    chosen = parser.parse_args()
    chosen.case = chosen.case or list(cases)
    return chosen


def medians(works: Sequence[Callable[[], Any]], repeats: int = 5, cpu: bool = False) -> list[float]:
    """Median seconds of each work, run in turn `repeats` times after one run unmeasured.

    `cpu` counts processor time instead of the clock's.
    """
    clock = time.process_time if cpu else time.perf_counter
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for taken, work in zip(seconds, works, strict=True):
            start = clock()
            work()
            taken.append(clock() - start)
    return [statistics.median(taken) for taken in seconds]


class Rows:
    """Rows of one benchmark, printed as they come and written as JSON at the end.

    Attributes
    ----------
    rows : list of dict
        What has been noted.
    """

    def __init__(self, engine: str, device: str) -> None:
        self.engine, self.device = engine, device
        self.rows: list[dict[str, Any]] = []

    def add(
        self,
        case: str,
        metric: str,
        value: float,
        unit: str,
        *,
        peer: str | None = None,
        peer_value: float | None = None,
        smaller_is_better: bool = True,
    ) -> None:
        """Note a figure and, where there is one, the peer's."""
        ratio = None
        if peer_value is not None:
            ratio = peer_value / value if smaller_is_better else value / peer_value
        self.rows.append(
            {
                "engine": self.engine,
                "case": case,
                "device": self.device,
                "metric": metric,
                "value": value,
                "unit": unit,
                "peer": peer,
                "peer_value": peer_value,
                "ratio": ratio,
            }
        )
        against = f"   {peer} {peer_value:.4g} {unit}, {ratio:.1f}x" if ratio else ""
        print(f"{case:32s} {metric:24s} {value:10.4g} {unit}{against}", flush=True)

    def write(self, path: Path | None) -> None:
        """Write all rows to a file, all or nothing."""
        if path is None:
            return
        with tempfile.NamedTemporaryFile(
            "w", dir=path.resolve().parent, delete=False, encoding="utf-8"
        ) as file:
            json.dump(self.rows, file, indent=1)
        os.replace(file.name, path)
