"""Which threads follow a trajectory of arrays together, and their workspace.

On a CPU, a thread follows several trajectories in lanes, or one; or all threads follow one.  On a
GPU, a thread, a block or the whole grid follows a trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import launch, resident
from ergode.core.compiler.language import room_for
from ergode.core.compiler.source import Target
from ergode.core.devices import CPU
from ergode.core.group import APART, KIND, TEAM
from ergode.core.status import Status
from ergode.trajectories.adaptive.outcome import Outcome
from ergode.trajectories.arrays import noisy
from ergode.trajectories.arrays.arguments import Out, Run, Workspace
from ergode.trajectories.arrays.equations import BLOCK
from ergode.trajectories.arrays.group import IN_SHARED, look, step_with_noise
from ergode.trajectories.arrays.kernels import (
    GROUPS,
    alone_cpu,
    alone_cuda,
    block_cuda,
    grid_cuda,
    together_cpu,
)
from ergode.trajectories.arrays.lanes import lanes_cpu
from ergode.trajectories.arrays.launches import empty_kept, in_launches

if TYPE_CHECKING:
    from ergode.trajectories.arrays.runner import Runner

# Lanes pay off while their states and slopes fit in the cache of a core.
_CACHE_BYTES, _LEAST_LANES, _MOST_LANES = 2**20, 8, 64
# From this number of unknowns, all CPU threads, or the whole GPU grid, integrate one trajectory.
_MANY_CPU, _MANY_CUDA = 8 * 1024, 16 * 1024
_MANY_PRODUCTS = 2 * 1024  # the same of a grid without a matrix
# Up to this number of unknowns, one GPU thread integrates one trajectory.
_FEW_CUDA = 8
_THREADS = 128
_BLOCK_THREADS = 256
# Shared memory of a block [bytes]: limit for the whole workspace, so that several blocks fit on a
# multiprocessor; and limit for the stage states alone.
_SHARED_BYTES, _SHARED_MOST = 48 * 1024, 192 * 1024


def out_of(outcome: Outcome) -> Out:
    """The arrays of an outcome as a kernel argument."""
    return Out(*(getattr(outcome, name) for name in Out._fields))


class CPUFollowers:
    """CPU threads: lanes of trajectories per thread, one per thread, or one on all threads."""

    def __init__(self, runner: Runner, count: int) -> None:
        self._runner, self._count = runner, count
        threads, n = runner.device.core_count, runner.arrays.size
        bytes_each = runner.rows * n * np.dtype(runner.precision).itemsize
        room = _CACHE_BYTES // bytes_each
        self._width = 0
        self._threads = 1
        may_lane = not (
            runner.arrays.in_place or runner.is_stabilised or runner.is_implicit
            or runner.field.delays or runner.resumes or runner.control.step_log
        )  # fmt: skip
        if room >= _LEAST_LANES and count >= _LEAST_LANES and may_lane:
            pieces = -(-count // min(room, _MOST_LANES))
            pieces = -(-pieces // threads) * threads  # an equal number for every thread
            self._width = max(-(-count // pieces), _LEAST_LANES)
            body: Callable[..., Any] = lanes_cpu
        elif (
            count < threads
            and n >= _MANY_CPU
            and not (runner.arrays.in_place or runner.is_implicit)
        ):
            self._threads = min(threads, -(-n // BLOCK))
            body = together_cpu
        elif runner.resumes:
            body = together_cpu
        else:
            body = alone_cpu
        # Without a shared workspace, the kernel allocates ROWS rows of slopes.
        own: dict[Any, Any] = {TEAM: True} if body is together_cpu else runner.own_rows
        if body is lanes_cpu and runner.is_noisy:
            own[step_with_noise] = noisy.step_lanes
        bindings = {**runner.bindings, **own}
        if body is lanes_cpu:
            bindings.pop(look, None)  # lanes look into their steps together
        self.kernel = kernels.cpu_kernel(body, precision=runner.precision, bindings=bindings)

    def chunk_size(self) -> int:
        """Trajectories per chunk: all, since a thread needs workspace for few at a time."""
        return self._count

    def integrate(
        self, run: Run, outcome: Outcome, chunk: slice, report: Callable[[int], None]
    ) -> None:
        """Integrate all trajectories."""
        device, out = self._runner.device, out_of(outcome)

        def finished(start: int, stop: int) -> None:
            report(stop - start)

        if self._runner.resumes:
            self._resume(run, outcome, chunk)
            report(1)
        elif self._threads > 1:
            assert isinstance(device, CPU)
            device.run_together(self.kernel, self._threads, run, out, self._workspace())
            report(self._count)
        elif self._width:
            device.run(
                self.kernel, self._count, run, out, np.int64(self._width), grain=self._width,
                finished=finished,
            )  # fmt: skip
        else:
            grain = -(-self._count // (8 * device.core_count))
            device.run(self.kernel, self._count, run, out, grain=grain, finished=finished)

    def _resume(self, run: Run, outcome: Outcome, chunk: slice) -> None:
        """Integrate one trajectory in several launches."""
        device = self._runner.device
        assert isinstance(device, CPU)
        mine = Out(*(np.ascontiguousarray(array[..., chunk]) for array in out_of(outcome)))
        w = self._workspace()._replace(
            kept=empty_kept(device, self._runner.precision, self._runner.own)
        )
        in_launches(
            device, chunk.start, *self._runner.kinds, run, mine, w,
            lambda w: device.run_together(self.kernel, self._threads, run, mine, w),
        )  # fmt: skip
        for whole, part in zip(out_of(outcome), mine, strict=True):
            whole[..., chunk] = part

    def _workspace(self) -> Workspace:
        runner = self._runner
        n, empty = runner.arrays.size, self._runner.device.empty
        width = n + runner.delayed.values
        g, s = (empty(shape, runner.precision) for shape in runner.watched_shapes)
        return Workspace(
            empty(width, runner.precision), empty((3, width), runner.precision),
            empty((runner.slopes, n), runner.precision),
            empty((2, -(-n // BLOCK)), runner.precision), np.zeros(APART, np.int64),
            g, s, runner.delayed.storage((), ()), empty(runner.own, runner.precision), (),
        )  # fmt: skip


class CUDAFollowers:
    """CUDA threads: one thread, one block or the whole grid integrates a trajectory."""

    def __init__(self, runner: Runner, count: int) -> None:
        self._runner, self._count = runner, count
        n, device = runner.arrays.size, runner.device
        word = np.dtype(runner.precision).itemsize
        self.group, self.threads, self.shared_bytes = "block", _BLOCK_THREADS, 0
        more: dict[Any, Any] = {}
        many, few = _MANY_CUDA, device.core_count
        if runner.is_matrix_free:  # all threads sum up dozens of products at once
            many, few = _MANY_PRODUCTS, min(few, 1 + n // (4 * _BLOCK_THREADS))
        if runner.arrays.in_place or n <= _FEW_CUDA:
            self.group, self.threads = "thread", _THREADS
        elif (
            n >= many
            and count < few
            and not runner.field.delays
            and (runner.is_matrix_free or not runner.is_implicit)
        ):
            self.group = "grid"
        else:
            self.threads = min(_BLOCK_THREADS, 32 * -(-n // 64))
            for level, rows, most in ((2, runner.rows, _SHARED_BYTES), (1, 3, _SHARED_MOST)):
                if rows * n * word <= most and not (runner.field.delays or runner.resumes):
                    more, self.shared_bytes = {IN_SHARED: level}, rows * n * word
                    break
            more |= runner.own_rows
        self.kernel = kernels.cuda_kernel(
            _BODIES[self.group], precision=runner.precision,
            bindings={**runner.bindings, KIND: GROUPS[self.group], **more},
        )  # fmt: skip

    def chunk_size(self) -> int:
        """Trajectories per chunk: as many as fit in device memory."""
        runner = self._runner
        word = np.dtype(runner.precision).itemsize
        n, device = runner.arrays.size, runner.device
        control = runner.control
        hits = control.recorded * len(control.events)
        results = runner._grid.size + 1 + hits + control.step_log * (2 + control.powers)
        late = runner.delayed.numbers
        own = runner.rows * n + late if self.group == "thread" else 0
        if self.group != "thread":  # the workspace belongs to groups, not to trajectories
            launch.count_that_fits(
                device, word * (n * runner.rows + late), "the workspace of one trajectory",
                "choose a method of fewer stages",
            )  # fmt: skip
        watched = sum(map(math.prod, runner.watched_shapes)) + hits + len(control.observables)
        watched = watched * word + 8 * len(control.events)
        each = (
            word * (n * results + own + room_for(len(runner.field.parameters)) + 1) + 25 + watched
        )
        return launch.count_that_fits(
            device, each, f"one trajectory of {n} unknowns, with its times,", "use fewer times"
        )

    def integrate(
        self, run: Run, outcome: Outcome, chunk: slice, report: Callable[[int], None]
    ) -> None:
        """Integrate a chunk of trajectories."""
        runner, device = self._runner, self._runner.device
        count = chunk.stop - chunk.start
        shape = (outcome.states.shape[0], runner.arrays.size, count)
        out = Out(
            device.empty(shape, runner.precision),
            device.put(np.full(count, Status.NOT_RUN, np.uint8)),
            device.zeros(count, np.int64), device.zeros(count, np.int64),
            *(device.put(_some(one[..., chunk]))
              for one in (outcome.hit_counts, outcome.hits, outcome.observed, outcome.step_log)),
        )  # fmt: skip
        blocks = self._blocks(run, out, count)
        w = self.workspace(blocks, count)

        def launched(w: Workspace) -> None:
            device.launch(
                self.kernel, blocks, self.threads, run, out, w, shared_bytes=self.shared_bytes
            )

        if runner.resumes:
            in_launches(device, chunk.start, *runner.kinds, run, out, w, launched)
        else:
            launched(w)
        for whole, part in zip(out_of(outcome), out, strict=True):
            if whole.size:
                resident.store(device, part, whole, (..., chunk))
        report(count)

    def _blocks(self, run: Run, out: Out, count: int) -> int:
        """Number of blocks of the grid."""
        device, n = self._runner.device, self._runner.arrays.size
        if self.group == "thread":
            return -(-count // self.threads)
        if self.group == "grid":
            most = device.resident_blocks(self.kernel, self.threads, run, out, self.workspace(1, 1))
            return min(most, -(-n // self.threads))
        # A few times the number of resident blocks, with workspace in an eighth of the memory.
        word = np.dtype(self._runner.precision).itemsize
        each = n * self._runner.rows + self._runner.delayed.numbers
        room = device.memory_bytes // (8 * word * each)
        return max(1, min(count, 32 * device.core_count, room))

    def workspace(self, blocks: int, count: int) -> Workspace:
        """Allocate the workspace of the groups (see `group`)."""
        runner = self._runner
        n, rows, empty = runner.arrays.size, runner.slopes, runner.device.empty
        width = n + runner.delayed.values
        lead: tuple[int, ...] = (blocks,) if self.group == "block" else ()
        past = runner.delayed.storage(lead, (count,) if self.group == "thread" else ())
        if self.group == "thread":
            shapes: tuple[tuple[int, ...], ...] = (
                (width, count), (3, width, count), (rows, n, count)
            )  # fmt: skip
            more = tuple((*shape, count) for shape in runner.watched_shapes)
        elif self.group == "block":
            in_shared = int(self.kernel.bindings.get(IN_SHARED, 0))
            state = 1 if in_shared == 2 else width
            stage = 1 if in_shared else width
            slopes = 1 if in_shared == 2 else n
            shapes = (blocks, state), (blocks, 3, stage), (blocks, rows, slopes)
            more = tuple((blocks, *shape) for shape in runner.watched_shapes)
        else:
            shapes, more = ((width,), (3, width), (rows, n)), runner.watched_shapes
        y, stage_rows, k = (empty(shape, runner.precision) for shape in shapes)
        parts = empty((max(2, runner.kept), blocks), runner.precision)
        words = runner.device.zeros(APART * (1 + blocks), np.int64)
        g, s = (empty(shape, runner.precision) for shape in more)
        kept = empty_kept(runner.device, runner.precision, runner.own) if runner.resumes else ()
        return Workspace(
            y, stage_rows, k, parts, words, g, s, past, empty(1, runner.precision), kept
        )


def _some(array: np.ndarray) -> np.ndarray:
    """A contiguous copy of an array, or an array of one element: none is not for every device."""
    return np.ascontiguousarray(array) if array.size else np.zeros((1,) * array.ndim, array.dtype)


FOLLOWERS: dict[Target, type[CPUFollowers | CUDAFollowers]] = {
    "cpu": CPUFollowers, "cuda": CUDAFollowers
}  # fmt: skip
_BODIES: dict[str, Callable[..., Any]] = {
    "thread": alone_cuda, "block": block_cuda, "grid": grid_cuda
}  # fmt: skip
