"""Realizations of a small network by code compiled for it (`algorithms.compiled_direct`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction
from ergode.core.group import ALONE, KIND
from ergode.stochastic.algorithms import compiled_direct
from ergode.stochastic.algorithms.compiled_direct import Rates
from ergode.stochastic.kernel import results
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Made, Runner, new_queue
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

    A thread of a CPU simulates `LANES` at once, one of CUDA the next one from a queue.
    """

    def __init__(self, tables: Tables, **options: Any) -> None:
        super().__init__(tables, **options)
        self._plan = self._plan._replace(max_firings=min(self._plan.max_firings, FIRINGS_MOST))
        self._text, self._used = tables.once(compiled_direct.code_of)

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

    @cached_property
    def rates(self) -> Rates:
        """The network's arrays on the device."""
        net, put = self.tables.net, self.device.put
        used = net.parameters[:, self._used] if self._used else np.zeros((1, 1))
        return Rates(put(net.initial), put(net.coefficients), put(used))

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        own: dict[Any, Any] = {
            compiled_direct.LANES: self._lanes(count),
            results.amount: compiled_direct.amount_of_lane,
        }
        if self.device.is_cuda:
            own = {compiled_direct.SHARED: self._shared_bytes(self.points(0, count), wanted) > 0}
        return self.kernel(own), (self.rates,)

    def launch(self, count: int, wanted: Wanted, *ends: Any) -> None:
        shared = self._shared_bytes(ends[-1].counts.shape[1], wanted)
        kernel = self.kernel({compiled_direct.SHARED: shared > 0})
        arguments = (new_queue(self.device), np.int64(count), self.rates, *ends)
        resident = self.device.resident_blocks(kernel, _THREADS, *arguments, shared_bytes=shared)
        blocks = min(resident, -(-count // _THREADS))
        self.device.launch(kernel, blocks, _THREADS, *arguments, shared_bytes=shared)

    def ranges(self, count: int) -> tuple[int, int]:
        grain = max(1, -(-count // (4 * self.device.core_count)))
        if grain > LANES:
            grain = -(-grain // LANES) * LANES
        return -(-count // grain), grain

    def piece(self, count: int) -> int:
        return _FULL * self._lanes(count)

    def _lanes(self, count: int) -> int:
        return LANES if self.ranges(count)[1] >= _LANES_FROM else 1

    def _shared_bytes(self, points: int, wanted: Wanted) -> int:
        """Shared memory for a block's sums over realizations; 0 if they do not fit."""
        needed = 8 * self.grid.size * (1 + 2 * self.tables.species_count)
        return needed if wanted.statistics and points == 1 and needed <= _SHARED_BYTES else 0


def fits(tables: Tables, reactions_most: int = 64) -> bool:
    """Whether a network can be simulated by straight-line code."""
    return (
        1 <= tables.reaction_count <= reactions_most
        and not tables.is_interrupted
        and not tables.time_dependent
        and tables.variable_count == tables.species_count
    )
