"""Realizations of a small network by code compiled for it (`algorithms.compiled_direct`).

A short run of a new network on a CPU does not wait for the compiler: it uses tables, with the same
results (`algorithms.interpreted_direct`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.source import Target
from ergode.core.group import ALONE, KIND
from ergode.stochastic.algorithms import compiled_direct
from ergode.stochastic.algorithms.compiled_direct import Rates
from ergode.stochastic.kernel.realization import Plan
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.ranges import run_ranges
from ergode.stochastic.runners.runner import Report, Runner, new_queue
from ergode.stochastic.tables import Tables

FIRINGS_MOST = 2**32 - 2
LANES = 64
_LANES_FROM = 8
# Least realizations per lane in a piece of a range: the last ones leave lanes idle.
_FULL = 16
_THREADS = 128
_SHARED_BYTES = 48 * 1024


class CompiledDirectRunner(Runner):
    """Realizations by the direct method, in straight-line code compiled for the network.

    The base of `CPUCompiledDirectRunner` and `CUDACompiledDirectRunner`.
    """

    def __init__(self, tables: Tables, **options: Any) -> None:
        super().__init__(tables, **options)
        self._text, self._used = tables.once(compiled_direct.code_of)
        self._rates: Rates | None = None

    def kernel(self, bindings: dict[Any, Any]) -> kernels.Kernel:
        """The kernel of this network; `bindings` are for one target."""
        common: dict[Any, Any] = {
            compiled_direct.transition: UserFunction(
                compiled_direct.function_of(self._text), (2 + self.tables.species_count,)
            ),
            compiled_direct.SPECIES: self.tables.species_count,
            compiled_direct.REACTIONS: self.tables.reaction_count,
            compiled_direct.PARAMETERS: len(self._used),
        }
        return kernels.kernel(
            compiled_direct.lanes_cpu,
            compiled_direct.registers_cuda,
            bindings={**common, **bindings, KIND: ALONE},
        )

    def rates(self) -> Rates:
        """The network's arrays on the device."""
        if self._rates is None:
            net, put = self.tables.net, self.device.put
            used = net.parameters[:, self._used] if self._used else np.zeros((1, 1))
            self._rates = Rates(put(net.initial), put(net.coefficients), put(used))
        return self._rates

    def _plan_from(self, first: int) -> Plan:
        return self._plan._replace(
            first=np.int64(first), max_firings=min(self._plan.max_firings, FIRINGS_MOST)
        )


class CPUCompiledDirectRunner(CompiledDirectRunner):
    """Realizations on a CPU: each thread takes ranges, and simulates `LANES` at once."""

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        slots, grain = self._ranges(count)
        out = self.results(count, slots, self.points(first, count), wanted)
        arguments = (self.rates(), self._plan_from(first), out)
        with kernels.readable_errors():
            found = run_ranges(
                self.device, self._kernel_for(count), count, grain, arguments, wanted, report,
                piece=_FULL * self._lanes(count),
            )  # fmt: skip
        return self.fetch(found, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        out = self.results(0, 1, 1, wanted)
        with kernels.readable_errors():
            self.device.prepare(self._kernel_for(count), 1, self.rates(), self._plan, out)

    def _lanes(self, count: int) -> int:
        return LANES if self._ranges(count)[1] >= _LANES_FROM else 1

    def _kernel_for(self, count: int) -> kernels.Kernel:
        return self.kernel({compiled_direct.LANES: self._lanes(count)})

    def _ranges(self, count: int) -> tuple[int, int]:
        """Number of ranges, and realizations per range: a multiple of the lanes if possible."""
        grain = max(1, -(-count // (4 * self.device.core_count)))
        if grain > LANES:
            grain = -(-grain // LANES) * LANES
        return -(-count // grain), grain


class CUDACompiledDirectRunner(CompiledDirectRunner):
    """Realizations on CUDA: each thread takes the next one from a queue."""

    def run(self, first: int, count: int, wanted: Wanted, report: Report) -> dict[str, np.ndarray]:
        points = self.points(first, count)
        shared = self._shared_bytes(points, wanted)
        kernel = self.kernel_for(shared > 0)
        out = self.results(count, 1, points, wanted)
        queue = new_queue(self.device)
        arguments = (queue, np.int64(count), self.rates(), self._plan_from(first), out)
        with kernels.readable_errors():
            resident = self.device.resident_blocks(
                kernel, _THREADS, *arguments, shared_bytes=shared
            )
            blocks = min(resident, -(-count // _THREADS))
            self.device.launch(kernel, blocks, _THREADS, *arguments, shared_bytes=shared)
        found = self.fetch(out, wanted)
        report(count)
        return found

    def prepare(self, count: int, wanted: Wanted) -> None:
        kernel = self.kernel_for(self._shared_bytes(self.points(0, count), wanted) > 0)
        arguments = (self.rates(), self._plan, self.results(0, 1, 1, wanted))
        with kernels.readable_errors():
            self.device.prepare(kernel, new_queue(self.device), np.int64(0), *arguments)

    def kernel_for(self, shared: bool) -> kernels.Kernel:
        """The kernel; if `shared`, blocks sum over realizations in shared memory."""
        return self.kernel({compiled_direct.SHARED: shared})

    def _shared_bytes(self, points: int, wanted: Wanted) -> int:
        """Shared memory for a block's sums over realizations; 0 if they do not fit."""
        needed = 8 * self.grid.size * (1 + 2 * self.tables.species_count)
        return needed if wanted.statistics and points == 1 and needed <= _SHARED_BYTES else 0


COMPILED_RUNNERS: dict[Target, Callable[..., Any]] = {
    "cpu": CPUCompiledDirectRunner, "cuda": CUDACompiledDirectRunner,
}  # fmt: skip
"""Runner class by the target of a device."""


def fits(tables: Tables, reactions_most: int = 64) -> bool:
    """Whether a network can be simulated by straight-line code."""
    return (
        1 <= tables.reaction_count <= reactions_most
        and not tables.is_interrupted
        and not tables.time_dependent
        and tables.variable_count == tables.species_count
    )
