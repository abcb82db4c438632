"""What every benchmark shares: public calls timed in turn with peers, and rows of JSON.

A row is ``{"engine", "case", "device", "metric", "value", "unit", "peer", "peer_value",
"ratio"}``; `ratio` above one means that ergode is ahead.  Every value is a median.  A peer is
compared by the rules of PEERS.md.

A case is made with public functions alone and has two rows in milliseconds: the whole call, warm,
as its caller waits for it, and the kernels within it, by ``run_seconds`` of its result.  What is
worked out of seconds - firings or steps a second, and what peers are compared with - takes
processor time of the whole call on a CPU, so that other work beside does not count, and on a GPU
the clock's time of the whole call, or where a script says so of the kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ergode

Work = Callable[[], Any]


class Seconds(float):
    """What a peer's work returns if it has measured itself: processor seconds."""


def arguments(
    engine: str, cases: Sequence[str], quick: Sequence[str] = (), **paths: str
) -> argparse.Namespace:
    """The options that every benchmark takes, and `paths` of its own with their help.

    With ``--quick`` the cases are those of `quick`, if not asked for by name.
    `place` of what is returned is the device that calls get: one core, or a GPU.
    """
    parser = argparse.ArgumentParser(description=f"Benchmark ergode.{engine}.")
    parser.add_argument("--quick", action="store_true", help="end within a minute on two cores")
    parser.add_argument("--case", choices=cases, action="append", help="only this case")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-peers", action="store_true", help="do not run other packages")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    for name, meaning in paths.items():
        parser.add_argument(f"--{name}", type=Path, help=meaning)
    chosen = parser.parse_args()
    chosen.case = chosen.case or list(quick if chosen.quick and quick else cases)
    chosen.place = "cuda" if chosen.device == "cuda" else "cpu:1"
    warnings.simplefilter("ignore", ergode.ErgodeWarning)
    return chosen


@cache
def copy_bandwidth(device: str) -> float:
    """Bytes read and written a second by a large copy on one core, or on the GPU: a ceiling."""
    if device == "cuda":
        return _bandwidth_of_a_gpu()
    source = np.zeros(2**27, np.uint8)
    target = np.ones_like(source)
    (found,) = timed([lambda: np.copyto(target, source)])
    return 2 * source.nbytes / found.processor


def _bandwidth_of_a_gpu() -> float:
    from numba import cuda

    source = cuda.device_array(2**32, np.uint8)
    target = cuda.device_array_like(source)
    seconds = []
    for _ in range(7):
        begin, end = cuda.event(), cuda.event()
        begin.record()
        target.copy_to_device(source)
        end.record()
        end.synchronize()
        seconds.append(cuda.event_elapsed_time(begin, end) / 1e3)
    return 2 * source.nbytes / statistics.median(seconds)


def processor_seconds() -> float:
    """Processor time of this process and of those that it has run to their end."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


class Times(NamedTuple):
    """Median seconds of a work."""

    clock: float
    processor: float
    kernels: float
    result: Any


def timed(works: Sequence[Work], repeats: int = 5, warm: bool = True) -> list[Times]:
    """Times of each work without compiling, run in turn `repeats` times.

    Before, each is run once unmeasured, unless it is long and not to be `warm`.
    """
    if warm:
        for work in works:
            work()
    found: list[list[Times]] = [[] for _ in works]
    for _ in range(repeats):
        for times, work in zip(found, works, strict=True):
            clock, processor = time.perf_counter(), processor_seconds()
            result = work()
            processor, clock = processor_seconds() - processor, time.perf_counter() - clock
            said = getattr(result, "attrs", {})
            compiling = said.get("compile_seconds", 0.0)
            processor = result if isinstance(result, Seconds) else processor - compiling
            kernels = said.get("run_seconds", math.nan)
            times.append(Times(clock - compiling, processor, kernels, result))
    return [
        Times(*(statistics.median(column) for column in list(zip(*times, strict=True))[:3]),
              times[-1].result)
        for times in found
    ]  # fmt: skip


def installed(
    options: argparse.Namespace, makers: Mapping[str, Callable[[], Work | None]]
) -> dict[str, Work]:
    """Works of the peers that are wanted and installed, by name."""
    found: dict[str, Work] = {}
    for name, make in makers.items() if not options.no_peers else ():
        try:
            work = make()
        except (ImportError, RuntimeError) as error:  # MPI is missing, for one
            print(f"{name} is not compared: {error}")
        else:
            found |= {} if work is None else {name: work}
    return found


class Measured(NamedTuple):
    """What was found of a case: the last result of its call, the seconds that throughputs are
    worked out of - the call's and the peers' - and the call's by the clock and of its kernels.
    """

    result: Any
    seconds: float
    peers: dict[str, float]
    clock: float
    kernels: float


class Rows:
    """Rows of one benchmark, printed as they come and kept as JSON in a file.

    Attributes
    ----------
    rows : list of dict
        What has been noted.
    """

    def __init__(
        self, engine: str, device: str, path: Path | None = None, gpu_seconds: str = "clock"
    ) -> None:
        self.engine, self.device, self.path = engine, device, path
        self.seconds = gpu_seconds if device == "cuda" else "processor"
        self.rows: list[dict[str, Any]] = []

    def measure(
        self,
        case: str,
        call: Work,
        peers: Mapping[str, Work] | None = None,
        *,
        repeats: int = 5,
        warm: bool = True,
    ) -> Measured:
        """Time a public call, in turn with peers, and note the call and the kernels within it."""
        peers = peers or {}
        ours, *others = timed([call, *peers.values()], repeats, warm)
        self.add(case, "whole call", ours.clock * 1e3, "ms")
        if math.isfinite(ours.kernels):  # `burn` returns arrays, which say nothing
            self.add(case, "kernels within", ours.kernels * 1e3, "ms")
        seconds = getattr(ours, self.seconds)
        theirs = {name: one.processor for name, one in zip(peers, others, strict=True)}
        return Measured(ours.result, seconds, theirs, ours.clock, ours.kernels)

    def add(
        self,
        case: str,
        metric: str,
        value: float,
        unit: str,
        *,
        peers: Mapping[str, float] | None = None,
        smaller_is_better: bool = True,
    ) -> None:
        """Add one row for each peer, with its figure, or a single row if there is no peer."""
        for peer, theirs in (peers or {None: None}).items():
            ratio = None
            if theirs is not None:
                ratio = theirs / value if smaller_is_better else value / theirs
            self.rows.append(
                {
                    "engine": self.engine,
                    "case": case,
                    "device": self.device,
                    "metric": metric,
                    "value": value,
                    "unit": unit,
                    "peer": peer,
                    "peer_value": theirs,
                    "ratio": ratio,
                }
            )
            against = f"   {peer} {theirs:.4g} {unit}, {ratio:.2f}x" if ratio else ""
            against += "   BEHIND" if ratio and ratio < 1 else ""
            print(f"{case:32s} {metric:24s} {value:10.4g} {unit}{against}", flush=True)
        self._write()

    def rate(
        self, case: str, metric: str, found: Measured, amount: float, theirs: float = 1.0
    ) -> None:
        """Note how much a second: of ours `amount` in a call, of a peer's work `theirs`."""
        self.add(
            case, metric, amount / found.seconds, "1/s", smaller_is_better=False,
            peers={name: theirs / seconds for name, seconds in found.peers.items()},
        )  # fmt: skip

    def _write(self) -> None:
        """Write all rows to the file, all or nothing."""
        if self.path is None:
            return
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.resolve().parent, delete=False, encoding="utf-8"
        ) as file:
            json.dump(self.rows, file, indent=1)
        os.replace(file.name, self.path)
