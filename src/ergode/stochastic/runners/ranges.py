"""Realizations on a CPU: each thread takes ranges."""

from __future__ import annotations

from collections.abc import Sequence
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
    piece: int = 1,
) -> Out:
    """Run a kernel over ranges of `grain` realizations; the last argument is an `Out`.

    Ranges that take long are cut into pieces of at least `piece` realizations.  Ctrl-C ends the
    run.  The status then says which realizations were simulated.
    """
    out: Out = arguments[-1]
    device.prepare(kernel, grain, *arguments)
    try:
        device.run(
            kernel, count, grain, *arguments, grain=grain, piece=min(piece, grain),
            finished=lambda start, stop: report(stop - start),
        )  # fmt: skip
    except Abandoned as error:  # threads still write to these arrays
        status = np.array(out.status)  # first: all that follows is then complete
        names = (name for name in out._fields if name != "status")
        out = out._replace(status=status, **{name: np.array(getattr(out, name)) for name in names})
        leave_out(out, [start // grain for start, _ in error.spans], grain, wanted)
    except KeyboardInterrupt:
        pass
    return out


def leave_out(out: Out, slots: Sequence[int], grain: int, wanted: Wanted) -> None:
    """Omit from results the realizations that did not finish.

    Those in `slots` include unfinished ones. For statistics, all realizations of these slots are
    omitted, because sums contain parts of realizations.
    """
    if wanted.statistics:
        for slot in slots:
            for name in SUMS:
                getattr(out, name)[slot] = 0
            out.status[slot * grain : (slot + 1) * grain] = Status.NOT_RUN
    missing = out.status == Status.NOT_RUN
    for array in (out.amounts, out.firings, out.rows, out.leaps):
        if len(array):
            array[missing] = 0
    out.ended[missing] = np.inf
