"""``ergode warm``: compile the engines' standing kernels in advance."""

from __future__ import annotations

import json
import time as clock
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from ergode.core import devices, stopwatch
from ergode.core.calls import progress
from ergode.core.compiler import kernel_cache
from ergode.core.errors import ErgodeError, ErgodeWarning, PlanError
from ergode.core.notebook import bytes_text


def show(engines: Sequence[str], *, device: str, as_json: bool) -> None:
    """Compile standing kernels, with one process per core, and print a summary.

    Raises a PlanError if an engine is unknown, the device is not present, the cache is unusable, or
    a case failed.
    """
    from ergode.cli.warm_cases import ENGINES

    if unknown := [name for name in engines if name not in ENGINES]:
        raise PlanError(f"engine '{unknown[0]}' is unknown; expected {', '.join(ENGINES)}")
    place = devices.resolve(device)
    folder = kernel_cache.folders()
    if folder.own != folder.wanted:
        raise PlanError(
            f"cannot keep kernels in '{folder.wanted}': it is not writable, or is full; "
            "set ERGODE_CACHE_DIR"
        )
    started, before = clock.perf_counter(), len(kernel_cache.contents())
    chosen = engines or tuple(ENGINES)
    cases = [
        (engine, case.name)
        for engine in chosen
        for case in ENGINES[engine]()
        if place.target in case.targets
    ]
    failed = _run_all(cases, place.name, show=not as_json)
    kept = kernel_cache.contents()
    size = sum(one.bytes for one in kept)
    found = {
        "device": place.name, "cases": len(cases), "failed": failed,
        "seconds": clock.perf_counter() - started, "directory": str(folder.own),
        "new_kernels": len(kept) - before, "bytes": size,
    }  # fmt: skip
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        print(
            f"{found['new_kernels']} new kernels for {place.name} in {found['seconds']:.0f} s; "
            f"{folder.own} has {len(kept)} now, {bytes_text(size)}"
        )
    if failed:
        raise PlanError(f"{len(failed)} of {len(cases)} failed: {'; '.join(failed)}")


def _run_all(cases: Sequence[tuple[str, str]], device: str, *, show: bool) -> list[str]:
    """Run all cases in processes; return a line for each failed case."""
    workers = min(devices.resolve("cpu").core_count, len(cases))
    failed = []
    with (
        progress.track("compiling", len(cases), unit="cases", show=show) as report,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        waiting = {pool.submit(_run, *case, device): case for case in cases}
        try:
            for done in as_completed(waiting):
                name = ": ".join(waiting[done])
                try:
                    done.result()
                except (ErgodeError, BrokenProcessPool) as error:
                    failed.append(f"{name}: {error}")
                report(1)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _run(engine: str, name: str, device: str) -> None:
    """Run a case in its own process."""
    from ergode.cli.warm_cases import ENGINES

    (case,) = (case for case in ENGINES[engine]() if case.name == name)
    with warnings.catch_warnings(), stopwatch.quiet(True):
        warnings.simplefilter("ignore", ErgodeWarning)  # a few steps give inaccurate results
        case.run(device)
