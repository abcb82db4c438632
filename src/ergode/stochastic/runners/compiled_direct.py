"""Realizations of a small network by code compiled for it (`algorithms.compiled_direct`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction
from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.algorithms import compiled_direct
from ergode.stochastic.algorithms.compiled_direct import Rates
from ergode.stochastic.laws import law_of
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Runner
from ergode.stochastic.tables import Tables

FIRINGS_MOST = 2**32 - 2
LANES = 64
_LANES_FROM = 8
_THREADS = 128
_SHARED_BYTES = 48 * 1024


class CompiledDirectRunner(Runner):
    """Realizations by the direct method, in straight-line code compiled for the network."""

    def __init__(self, network: ReactionNetwork, tables: Tables, **options: Any) -> None:
        super().__init__(tables, **options)
        naming = tables.naming
        laws = [law_of(network, naming, k) for k in range(len(network.reactions))]
        self._text, self._used = compiled_direct.code_of(
            network, naming, laws, tables.unlimited is None
        )
        self._rates: Rates | None = None

    def bindings(self, lanes: int = 1, shared: bool = False) -> dict[str, Any]:
        """What a kernel is made for."""
        return {
            "transition": UserFunction(compiled_direct.function_of(self._text)),
            "SPECIES": self.tables.species_count,
            "REACTIONS": self.tables.reaction_count,
            "PARAMETERS": len(self._used),
            "LANES": lanes,
            "SHARED": shared,
        }

    def made_kernel(self, lanes: int = 1, shared: bool = False) -> kernels.Kernel:
        """The kernel of this network."""
        bindings = self.bindings(lanes, shared)
        if self.device.is_cuda:
            return kernels.cuda_kernel(compiled_direct.registers_cuda, bindings=bindings)
        return kernels.cpu_kernel(compiled_direct.lanes_cpu, bindings=bindings)

    def rates(self) -> Rates:
        """The network's numbers on the device."""
        if self._rates is None:
            net, put = self.tables.net, self.device.put
            used = net.parameters[:, self._used] if self._used else np.zeros((1, 1))
            self._rates = Rates(put(net.initial), put(net.coefficients), put(used))
        return self._rates

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        """Simulate realizations `first` to ``first + count`` and return what is wanted of them."""
        plan = self._plan._replace(
            first=np.int64(first), firings_most=min(self._plan.firings_most, FIRINGS_MOST)
        )
        points = self.points(first, count)
        kernel = self.kernel_for(count, points, wanted)
        with kernels.readable_errors():
            if self.device.is_cuda:
                out = self.results(count, 1, points, wanted)
                shared = self.shared_bytes(points, wanted)
                arguments = (self.queue(), np.int64(count), self.rates(), plan, out)
                resident = self.resident_blocks(kernel, _THREADS, arguments, shared)
                blocks = min(resident, -(-count // _THREADS))
                self.launch(kernel, blocks, _THREADS, arguments, shared)
                report(count)
            else:
                slots, grain = self.ranges(count)
                out = self.results(count, slots, points, wanted)
                given = (self.rates(), plan, out)
                out = self.run_ranges(kernel, count, grain, given, wanted, report)
        return self.fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        """Compile what `run` needs, if it is not yet."""
        kernel = self.kernel_for(count, self.points(0, count), wanted)
        out = self.results(0, 1, 1, wanted)
        with kernels.readable_errors():
            if self.device.is_cuda:
                arguments = (self.queue(), np.int64(0), self.rates(), self._plan, out)
                self.specialize(kernel, arguments)
            else:
                kernel.compiled("cpu")(0, 0, 1, self.rates(), self._plan, out)

    def kernel_for(self, count: int, points: int, wanted: Wanted) -> kernels.Kernel:
        """The kernel for `count` realizations of `points` points."""
        if self.device.is_cuda:
            return self.made_kernel(shared=self.shared_bytes(points, wanted) > 0)
        return self.made_kernel(LANES if self.ranges(count)[1] >= _LANES_FROM else 1)

    def ranges(self, count: int) -> tuple[int, int]:
        """Ranges that threads take, and their size: a multiple of the lanes if that is possible."""
        grain = max(1, -(-count // (4 * self.device.core_count)))
        if grain > LANES:
            grain = -(-grain // LANES) * LANES
        return -(-count // grain), grain

    def shared_bytes(self, points: int, wanted: Wanted) -> int:
        """Shared memory in which a block gathers sums over its realizations; none if too little."""
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
