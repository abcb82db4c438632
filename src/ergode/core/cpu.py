"""The CPU door: compile for it, and run a kernel over a range of indices on every core.

Kernels release the interpreter lock, so ordinary threads run them in parallel; there is no
second thread pool to configure, and a range of indices is the unit of work, of progress and of
interruption alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from typing import Any

from numba import njit, types
from numba.core import event
from numba.extending import intrinsic

from ergode.core import stopwatch
from ergode.core.atomics import atomic_add, atomic_load, atomic_max, atomic_swap_if, yield_thread
from ergode.core.compiler import intrinsics
from ergode.core.compiler.gc_pause import pause_while_compiling
from ergode.core.compiler.inner_functions import KernelCompiler, without_literal_types
from ergode.core.errors import Abandoned

__all__ = [
    "atomic_add",
    "atomic_load",
    "atomic_max",
    "atomic_swap_if",
    "cuda",
    "device_function",
    "fma",
    "from_bits",
    "kernel",
    "no_refcount_function",
    "noinline_cpu_function",
    "run",
    "run_together",
    "to_bits",
    "yield_thread",
]  # fmt: skip

fma, to_bits, from_bits = intrinsics.define(intrinsic, types)
# Only in branches that are decided, and gone, before a kernel for the CPU is compiled.
cuda = None

# Only kernels are called from Python; what unpacks the arguments of the functions that they call
# would be a third of all compiling.
_inner = partial(
    njit, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)


def _device(**options: Any) -> Callable[..., Any]:
    compile_inner = _inner(**options)
    return lambda function: without_literal_types(compile_inner(function))


device_function = _device(forceinline=True)
# No references are counted in it: it neither makes arrays nor returns them.
no_refcount_function = _device(forceinline=True, _nrt=False)
# The same for one that is called, not written out wherever it is used.
noinline_cpu_function = _device(_nrt=False)
kernel = njit(
    nogil=True,
    error_model="numpy",
    cache=True,
    no_cfunc_wrapper=True,
    pipeline_class=KernelCompiler,
)
pause_while_compiling(event, "numba:compiler_lock")
stopwatch.count_compiling(event, "numba:compiler_lock")


_GRACE = 1.0
"""Seconds that an interruption waits for what was begun."""


@stopwatch.running()
def run(
    compiled: Callable[..., None],
    ranges: Iterable[tuple[int, int]],
    arguments: tuple[Any, ...],
    threads: int,
    finished: Callable[[int, int], None] | None = None,
    *,
    is_brief: bool = False,
) -> None:
    """Call ``compiled(start, stop, *arguments)`` for every range, on `threads` threads.

    `finished(start, stop)` is called in this thread as each range ends.  An interruption
    (Ctrl-C) or an error lets the ranges already begun end and be reported, and drops the rest.
    Work of one thread that `is_brief` is done in this thread: an interruption waits for it.

    Raises
    ------
    Abandoned
        It was interrupted, and ranges already begun did not end within a second.
    """
    todo = deque(ranges)
    count = len(todo)
    if (threads < 2 or count < 2) and (is_brief or current_thread() is not main_thread()):
        for start, stop in todo:
            compiled(start, stop, *arguments)
            if finished:
                finished(start, stop)
        return
    ended: SimpleQueue[tuple[int, int] | BaseException] = SimpleQueue()

    def work(_: int) -> None:
        while True:
            try:
                start, stop = todo.popleft()
            except IndexError:
                return
            try:
                compiled(start, stop, *arguments)
                ended.put((start, stop))
            except BaseException as error:
                ended.put(error)
                todo.clear()

    def report(item: tuple[int, int] | BaseException) -> None:
        if isinstance(item, BaseException):
            raise item
        if finished:
            finished(*item)

    # The main thread, which alone hears of Ctrl-C, computes nothing itself.
    workers = _Workers(work, min(max(threads, 1), count))
    try:
        for _ in range(count):
            report(ended.get())
    except BaseException as error:
        todo.clear()
        have_ended = workers.wait(_GRACE if isinstance(error, KeyboardInterrupt) else None)
        while not ended.empty():
            item = ended.get()
            if not isinstance(item, BaseException):  # the first error is the one that is raised
                report(item)
        if not have_ended:
            raise Abandoned from error
        raise
    workers.wait()


class _Workers:
    """Threads that call ``work(rank)``, and say when they end.

    `Thread.join` is no way to wait for them: it takes a thread for ended once Ctrl-C came.
    """

    def __init__(self, work: Callable[[int], None], count: int) -> None:
        self._ended: SimpleQueue[int] = SimpleQueue()
        self._alive = 0
        for rank in range(count):
            Thread(target=self._run, args=(work, rank), daemon=True).start()
            self._alive += 1

    def _run(self, work: Callable[[int], None], rank: int) -> None:
        try:
            work(rank)
        finally:
            self._ended.put(rank)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for all of them, or for a while; whether all have ended."""
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

    They may wait for each other: none begins before there is a thread for each.  An interruption
    is raised when all have ended.  One alone that `is_brief` runs in this thread: an interruption
    waits for it.

    Raises
    ------
    Abandoned
        It was interrupted, and they did not end within a second.
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
        workers.wait()
    except KeyboardInterrupt as error:
        if not workers.wait(_GRACE):
            raise Abandoned from error
        raise
    if errors:
        raise errors[0]
