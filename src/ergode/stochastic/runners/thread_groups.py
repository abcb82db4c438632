"""Realizations on a GPU, one thread group for each (see `thread_group.kernel`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import group, kernels
from ergode.stochastic.algorithms.algorithm import Algorithm, Options, ThreadGroupAlgorithm
from ergode.stochastic.kernel import realization
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.kernel.realization import Work
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.runners.runner import Made, new_queue
from ergode.stochastic.runners.threads import ThreadRunner, waiting_rows
from ergode.stochastic.tables import Tables
from ergode.stochastic.thread_group import ops
from ergode.stochastic.thread_group.kernel import BINDINGS, realize_thread_groups

QUARTER, WARP, BLOCK = 8, 32, 256
_THREADS = 128
_REGISTERS = 64
_WARPS_A_MULTIPROCESSOR = 32
_SHARED_BYTES = 200 * 1024


@lru_cache(maxsize=64)
def thread_group_kernel(
    algorithm: ThreadGroupAlgorithm, size: int, interrupted: bool, options: Options
) -> kernels.Kernel:
    """The kernel of an algorithm for thread groups of `size` threads."""
    bindings: dict[Any, Any] = dict(algorithm.bindings(interrupted))
    bindings |= group.bindings_of_size(size)
    bindings |= {
        ops.STRIDE: size + 1,
        ops.SCRATCH: size >> 4 if size > WARP else 0,
        realization.INTERRUPTED: interrupted,
        **BINDINGS,
        **dict(options),
    }
    return kernels.cuda_kernel(realize_thread_groups, bindings=bindings, registers=_REGISTERS)


class ThreadGroupRunner(ThreadRunner):
    """Realizations on CUDA: each thread group takes the next one from a queue.

    A thread group has `size` threads, a power of two; above 32, it is a block.
    """

    def __init__(self, tables: Tables, *, size: int, **options: Any) -> None:
        super().__init__(tables, **options)
        form = self.algorithm.thread_group
        if form is None:
            raise TypeError("the algorithm has no form for thread groups")
        self.size, self.group = size, form

    def options(self, group_count: int) -> tuple[int, Options]:
        """Shared memory per thread group [float64] for `group_count` groups, and the bindings."""
        room = shared_doubles(group_count, self.size, self.device.core_count)
        doubles, options = self.group.options(self.tables, self.size, room)
        return doubles + 1 + (self.size >> 4 if self.size > WARP else 0), options

    def group_kernel(self, group_count: int) -> tuple[kernels.Kernel, int]:
        """The kernel for `group_count` thread groups, and the float64 of shared memory of each."""
        doubles, options = self.options(group_count)
        tables = self.tables
        kernel = thread_group_kernel(self.group, self.size, tables.is_interrupted, options)
        return kernel, doubles

    def made(self, count: int, workers: int, wanted: Wanted) -> Made:
        """The kernel and its arrays; the first is float64 of shared memory of a thread group."""
        kernel, size = self.group_kernel(count)
        empty, tables, group = self.device.empty, self.tables, self.group
        options = self.options(count)[1]
        rows = group.rows(tables, self.size, options)
        threads = workers * self.size if not tables.is_plain else 1
        none = empty((0, 0), np.float64)
        work = Work(
            x=empty((workers, rows.pop("x", (1, None))[0]), np.float64),
            stack=empty((threads, tables.depth), np.float64),
            begun=empty((0, 0), np.int8), waits=none, choices=none,
        )  # fmt: skip
        parts = {name: empty((workers, length), kind) for name, (length, kind) in rows.items()}
        parts |= self.constants(group.constants, self.size, options)
        waits = workers if tables.is_interrupted else 1
        waiting = Waiting(
            **{name: empty((waits, row[0]), row[1]) for name, row in waiting_rows(tables).items()}
        )
        return kernel, (np.int64(size), *self.network(), work, waiting, group.state(**parts))

    def launch(self, count: int, wanted: Wanted, *ends: Any) -> None:
        start = new_queue(self.device), np.int64(count)
        kernel, few = self.made(count, 1, wanted)
        threads = max(_THREADS, self.size)
        groups_a_block = threads // self.size
        shared = int(8 * few[0] * groups_a_block)
        resident = self.device.resident_blocks(
            kernel, threads, *start, *few, *ends, shared_bytes=shared
        )
        most = self._blocks_most(groups_a_block, count)
        blocks = max(1, min(resident, -(-count // groups_a_block), most))
        _, arrays = self.made(count, blocks * groups_a_block, wanted)
        self.device.launch(kernel, blocks, threads, *start, *arrays, *ends, shared_bytes=shared)

    def _blocks_most(self, group_count: int, asked: int) -> int:
        """Blocks whose rows fit into memory, with `group_count` thread groups each."""
        options = self.options(asked)[1]
        rows = self.group.rows(self.tables, self.size, options).values()
        group_bytes = sum(length * np.dtype(kind).itemsize for length, kind in rows)
        return max(1, int(0.8 * self.device.available_bytes()) // max(1, group_count * group_bytes))


def shared_doubles(group_count: int, size: int, multiprocessors: int) -> int:
    """float64 of shared memory for each thread group, with the most groups resident."""
    resident = min(-(-group_count // multiprocessors), _WARPS_A_MULTIPROCESSOR * WARP // size)
    return _SHARED_BYTES // 8 // max(_THREADS // size, resident, 1) - 1 - (size >> 4)


def why_unsupported(algorithm: Algorithm, tables: Tables, size: int) -> str | None:
    """Why thread groups of `size` threads cannot simulate a network; None if they can."""
    group = algorithm.thread_group
    if group is None:
        return "the algorithm has no form for thread groups"
    if tables.has_delays:
        return "products are delayed"
    if tables.reported_count > tables.species_count:
        return "values of parameters that change are reported"
    interrupted = tables.is_interrupted or tables.variable_count > tables.species_count
    if interrupted and group.refresh is None:
        return "the algorithm treats no events on thread groups"
    if int(np.diff(tables.net.change_starts).max(initial=0)) > min(size, WARP):
        return "a reaction changes more species than a thread group has lanes"
    doubles, _ = group.options(tables, size, 0)
    if 8 * max(1, _THREADS // size) * (doubles + 1 + (size >> 4)) > _SHARED_BYTES:
        return "shared memory is too small for the network"
    return None
