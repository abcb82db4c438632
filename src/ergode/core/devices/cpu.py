"""CPU backend: compile a kernel, and run it over a range of indices on every core.

Kernels release the interpreter lock, so ordinary threads run them in parallel; there is no
second thread pool to configure.  A range of indices is the unit of work, of progress and of
interruption.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from time import monotonic, perf_counter
from typing import Any

from numba import njit, types
from numba.core import cgutils, event
from numba.core.errors import WarningsFixer  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numba.np import arrayobj

from ergode.core import stopwatch
from ergode.core.compiler import intrinsics
from ergode.core.compiler.atomics import (
    atomic_add,
    atomic_load,
    atomic_max,
    atomic_swap_if,
    yield_thread,
)
from ergode.core.compiler.gc_pause import pause_while_compiling
from ergode.core.compiler.inner_functions import KernelCompiler, without_literal_types
from ergode.core.compiler.lanes import as_lanes, flat_numbers, lane_of, where
from ergode.core.compiler.linking import external, linked
from ergode.core.compiler.references import by_reference, hold
from ergode.core.compiler.warning_filters import leave_to_main_thread
from ergode.core.errors import Abandoned
from ergode.core.interruption import LONGEST_DEAF, listening, wait_for_next

__all__ = [
    "as_lanes",
    "atomic_add",
    "atomic_load",
    "atomic_max",
    "atomic_swap_if",
    "by_reference",
    "cuda",
    "device_function",
    "external",
    "flat_numbers",
    "fma",
    "from_bits",
    "hold",
    "kernel",
    "lane_of",
    "linked",
    "no_refcount_function",
    "noinline_cpu_function",
    "number_at",
    "run",
    "run_together",
    "to_bits",
    "where",
    "window",
    "yield_thread",
]  # fmt: skip

fma, to_bits, from_bits = intrinsics.define(intrinsic, types)
window = intrinsics.define_window(intrinsic, types, arrayobj, cgutils)
number_at = intrinsics.define_number_at(intrinsic, types)
# Used only in branches that are removed before a kernel for the CPU is compiled.
cuda = None

# Python calls only kernels; wrappers that unpack arguments for their inner functions would take a
# third of the compile time.
_inner = partial(
    njit, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)


def _device(**options: Any) -> Callable[..., Any]:
    compile_inner = _inner(**options)
    return lambda function: without_literal_types(compile_inner(function))


device_function = _device(forceinline=True)
# Without reference counts: the function neither makes nor returns arrays.
no_refcount_function = _device(forceinline=True, _nrt=False)
# Without reference counts, and called instead of inlined.
noinline_cpu_function = _device(_nrt=False, forceinline=False)
kernel = njit(
    nogil=True,
    error_model="numpy",
    cache=True,
    no_cfunc_wrapper=True,
    pipeline_class=KernelCompiler,
)
leave_to_main_thread(WarningsFixer)
pause_while_compiling(event, "numba:compiler_lock")
stopwatch.count_compiling(event, "numba:compiler_lock")


_GRACE = 1.0
"""Seconds that an interruption waits for running ranges."""

_BETWEEN = 0.02
"""Seconds between two times at which the main thread looks at what is done."""

_PIECE = 0.2
"""Target run time of a piece of a range [s]; an interruption waits about this long."""


@stopwatch.running()
def run(
    compiled: Callable[..., None],
    ranges: Iterable[tuple[int, int]],
    arguments: tuple[Any, ...],
    threads: int,
    finished: Callable[[int, int], None] | None = None,
    *,
    is_brief: bool = False,
    piece: int = 0,
) -> None:
    """Call ``compiled(start, stop, *arguments)`` for every range, on `threads` threads.

    If `piece` is given, a long range is cut into pieces of a multiple of `piece` indices.
    `finished(start, stop)` is called in this thread as each range or piece ends.  After an
    interruption (Ctrl-C) or an error, running ranges end and are reported; the others are dropped.
    Single-threaded work that `is_brief` runs in this thread: an interruption waits for it.

    Raises
    ------
    Abandoned
        The run was interrupted, and running ranges did not end within a second.
    """
    todo = deque(ranges)
    if (threads < 2 or len(todo) < 2) and (is_brief or current_thread() is not main_thread()):
        for start, stop in todo:
            compiled(start, stop, *arguments)
            if finished:
                finished(start, stop)
        return
    done: deque[tuple[int, int] | BaseException] = deque()
    # Tells the main thread to look, and whether a worker has ended. Ctrl-C may lose what the main
    # thread waits for, so this is no news in itself. A look takes the worker from its core.
    wake: SimpleQueue[bool] = SimpleQueue()
    under_way: dict[int, tuple[int, int]] = {}
    told = [perf_counter()]

    def call(rank: int, start: int, stop: int) -> None:
        under_way[rank] = start, stop
        compiled(start, stop, *arguments)
        done.append((start, stop))
        if perf_counter() - told[0] > _BETWEEN:
            told[0] = perf_counter()
            wake.put(False)
        del under_way[rank]

    def work(rank: int) -> None:
        size = piece
        while True:
            try:
                start, last = todo.popleft()
            except IndexError:
                return wake.put(True)
            try:
                while start < last and not is_over:
                    stop = min(start + size, last) if piece else last
                    began = perf_counter()
                    call(rank, start, stop)
                    size = _next_size(stop - start, perf_counter() - began, piece)
                    start = stop
            except BaseException as error:
                done.append(error)
                wake.put(False)
                todo.clear()

    def report(item: tuple[int, int] | BaseException) -> None:
        if isinstance(item, BaseException):
            raise item
        if finished:
            finished(*item)

    # Only the main thread receives Ctrl-C, so it computes nothing itself.
    is_over: list[bool] = []
    workers = _Workers(work, alive := min(max(threads, 1), len(todo)))
    try:
        while alive:
            has_ended = wait_for_next(wake)
            alive -= has_ended
            while done:
                report(done.popleft())
    except BaseException as error:
        is_over.append(True)
        todo.clear()
        have_ended = workers.wait(_GRACE if isinstance(error, KeyboardInterrupt) else None)
        spans = list(under_way.copy().values())
        while done:
            item = done.popleft()
            if isinstance(item, tuple):  # the first error is the one that is raised
                report(item)
        if not have_ended:
            raise Abandoned(spans) from error
        raise
    workers.wait()


def _next_size(size: int, seconds: float, piece: int) -> int:
    """Indices of the next piece, after a piece of `size` indices took `seconds`."""
    if not piece:
        return 0
    wanted = int(size * min(_PIECE / max(seconds, 1e-9), 8.0))
    return max(1, wanted // piece) * piece


_Task = tuple[Callable[[int], None], int, "SimpleQueue[int]"]
_idle: list[SimpleQueue[_Task]] = []
"""Queues of threads that wait for work: to begin one takes a third of a small call."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has no threads


def _serve(tasks: SimpleQueue[_Task]) -> None:
    while True:
        work, rank, ended = tasks.get()
        try:
            work(rank)
        except BaseException:
            ended.put(rank)
            raise
        _idle.append(tasks)
        ended.put(rank)
        del work, ended  # what they hold is freed while the thread waits


class _Workers:
    """Threads that call ``work(rank)`` and signal when they end it."""

    def __init__(self, work: Callable[[int], None], count: int) -> None:
        self._ended: SimpleQueue[int] = SimpleQueue()
        self._alive = 0
        for rank in range(count):
            try:
                tasks = _idle.pop()
            except IndexError:
                tasks = SimpleQueue()
                Thread(target=_serve, args=(tasks,), daemon=True).start()
            tasks.put((work, rank, self._ended))
            self._alive += 1

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all have ended, or for `seconds`; return whether all have ended."""
        until = None if seconds is None else monotonic() + seconds
        while self._alive:
            try:
                self._ended.get(timeout=None if until is None else max(0.0, until - monotonic()))
            except Empty:
                return False
            self._alive -= 1
        return True


@stopwatch.running()
def run_together(
    compiled: Callable[..., None], count: int, arguments: tuple[Any, ...], *, is_brief: bool = False
) -> None:
    """Call ``compiled(rank, count, *arguments)`` for every rank, all at the same time.

    The calls may wait for each other: none begins before every thread exists.  An interruption
    is raised when all have ended.  A single call that `is_brief` runs in this thread: an
    interruption waits for it.

    Raises `Abandoned` if the run was interrupted, and the calls did not end within a second.
    """
    if count < 2 and (is_brief or current_thread() is not main_thread()):
        compiled(0, 1, *arguments)
        return
    count = max(count, 1)
    all_there = Event()
    called_off: list[bool] = []
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        all_there.wait()
        if called_off:
            return
        try:
            compiled(rank, count, *arguments)
        except BaseException as error:
            errors.append(error)

    try:
        workers = _Workers(work, count)
    except BaseException:
        called_off.append(True)
        all_there.set()
        raise
    all_there.set()
    try:
        with listening():
            while not workers.wait(LONGEST_DEAF):
                pass
    except KeyboardInterrupt as error:
        if not workers.wait(_GRACE):
            raise Abandoned from error
        raise
    if errors:
        raise errors[0]
