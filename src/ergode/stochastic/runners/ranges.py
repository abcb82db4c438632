"""Realizations on a CPU: each thread takes ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.kernels import Kernel
from ergode.core.status import Status
from ergode.stochastic.kernel.realization import Out
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import SUMS, Report


def run_ranges(
    device: Device,
    kernel: Kernel,
    count: int,
    grain: int,
    arguments: tuple[Any, ...],
    wanted: Wanted,
    report: Report,
) -> Out:
    """Run a kernel over ranges of `grain` realizations; the last argument is an `Out`.

    Ctrl-C ends the run; the status then tells which realizations were simulated.
    """
    out: Out = arguments[-1]
    ended = np.zeros(-(-count // grain), bool)

    def finished(start: int, stop: int) -> None:
        ended[start // grain] = True
        report(stop - start)

    try:
        device.run(kernel, count, grain, *arguments, grain=grain, finished=finished)
    except KeyboardInterrupt as error:
        return settled(out, ended, grain, wanted, isinstance(error, Abandoned))
    return out


def settled(out: Out, ended: np.ndarray, grain: int, wanted: Wanted, abandoned: bool) -> Out:
    """Results of an interrupted run.

    If the run was `abandoned`, threads may still write to its arrays, so copies are returned. Sums
    of a range that did not end hold parts of realizations. With statistics, such a range counts as
    not run.
    """
    if abandoned:
        status = np.array(out.status)  # first: what is copied later is complete
        names = (name for name in out._fields if name != "status")
        out = out._replace(status=status, **{name: np.array(getattr(out, name)) for name in names})
    if wanted.statistics:
        for name in SUMS:
            getattr(out, name)[~ended] = 0
        out.status[~np.repeat(ended, grain)[: out.status.size]] = Status.NOT_RUN
    for array in (out.firings, out.rows):
        array[out.status == Status.NOT_RUN] = 0
    return out
