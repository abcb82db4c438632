"""The CPU door: compile for it, and run a kernel over a range of indices on every core.

Kernels release the interpreter lock, so ordinary threads run them in parallel; there is no
second thread pool to configure, and a range of indices is the unit of work, of progress and of
interruption alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from numba import njit, types
from numba.core import event
from numba.extending import intrinsic

from ergode.core import intrinsics
from ergode.core.atomics import atomic_add, atomic_load, atomic_max, atomic_swap_if, give_way
from ergode.core.collection import pause_while_compiling

__all__ = [
    "atomic_add", "atomic_load", "atomic_max", "atomic_swap_if", "borrowing_function", "cuda",
    "device_function", "fma", "from_bits", "give_way", "kernel", "outlined_function", "run",
    "run_together", "to_bits",
]  # fmt: skip

fma, to_bits, from_bits = intrinsics.define(intrinsic, types)
# Only in branches that are decided, and gone, before a kernel for the CPU is compiled.
cuda = None

# Only kernels are called from Python; what unpacks the arguments of the functions that they call
# would be a third of all compiling.
_inner = partial(
    njit, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)
device_function = _inner(forceinline=True)
# No references are counted in it: it neither makes arrays nor returns them.
borrowing_function = _inner(forceinline=True, _nrt=False)
# The same for one that is called, not written out wherever it is used.
outlined_function = _inner(_nrt=False)
kernel = njit(nogil=True, error_model="numpy", cache=True, no_cfunc_wrapper=True)
pause_while_compiling(event, "numba:compiler_lock")


def run(
    compiled: Callable[..., None],
    ranges: Iterable[tuple[int, int]],
    arguments: tuple[Any, ...],
    threads: int,
    finished: Callable[[int, int], None] | None = None,
) -> None:
    """Call ``compiled(start, stop, *arguments)`` for every range, on `threads` threads.

    `finished(start, stop)` is called in this thread as each range ends.  An interruption
    (Ctrl-C) or an error lets the ranges already begun end and be reported, and drops the rest.
    """
    todo = deque(ranges)
    count = len(todo)
    if threads < 2 or count < 2:
        for start, stop in todo:
            compiled(start, stop, *arguments)
            if finished:
                finished(start, stop)
        return
    ended: SimpleQueue[tuple[int, int] | BaseException] = SimpleQueue()

    def work() -> None:
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

    workers = [Thread(target=work, daemon=True) for _ in range(min(threads, count))]
    for worker in workers:
        worker.start()
    try:
        for _ in range(count):
            report(ended.get())
    except BaseException:
        todo.clear()
        for worker in workers:
            worker.join()
        while not ended.empty():
            item = ended.get()
            if not isinstance(item, BaseException):  # the first error is the one that is raised
                report(item)
        raise
    for worker in workers:
        worker.join()


def run_together(compiled: Callable[..., None], count: int, arguments: tuple[Any, ...]) -> None:
    """Call ``compiled(rank, count, *arguments)`` for every rank, all at the same time.

    They may wait for each other: none begins before there is a thread for each.  An interruption
    is raised when all have ended.
    """
    if count < 2:
        compiled(0, 1, *arguments)
        return
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

    workers = [Thread(target=work, args=(rank,), daemon=True) for rank in range(count)]
    try:
        for worker in workers:
            worker.start()
    except BaseException:
        called_off.append(True)
        all_there.set()
        raise
    all_there.set()
    interruption: BaseException | None = None
    for worker in workers:
        while worker.is_alive():
            try:
                worker.join()
            except KeyboardInterrupt as error:
                interruption = error
    if interruption or errors:
        raise interruption or errors[0]
