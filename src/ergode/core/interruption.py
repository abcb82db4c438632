"""Ctrl-C is raised only while kernels run or compile, not while their results are collected.

Python raises `KeyboardInterrupt` between any two lines. While results are added up, it would
leave sums with half of a chunk; while the Dataset is built, it would lose all results. Inside
`deferred`, Ctrl-C is therefore recorded, and raised where the main thread next listens: where it
waits for a kernel or a compiler.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_DEAF = 0.1
"""Seconds of one wait of the main thread: a Ctrl-C that comes as it begins is heard at its end."""


@dataclass
class Interruption:
    """State of Ctrl-C within a `deferred` block."""

    is_noted: bool = False  # Ctrl-C came and has not been raised
    was_heard: bool = False  # Ctrl-C came and has been raised
    is_late: bool = False  # all kernels have ended; only the result is still being built
    depth: int = 0  # nesting depth of `deferred` blocks
    _listening: int = 0
    _held_back: int = 0

    @property
    def came(self) -> bool:
        """Whether Ctrl-C came at all."""
        return self.is_noted or self.was_heard

    def _hear(self, number: int, frame: Any) -> None:
        # A second Ctrl-C before the first was raised means that the user will not wait.
        if self._listening or self.is_noted:
            self._raise()
        self.is_noted = True

    def _raise(self) -> None:
        self.is_noted, self.was_heard = False, True
        raise KeyboardInterrupt


_current: Interruption | None = None


@contextmanager
def deferred() -> Iterator[Interruption]:
    """Defer Ctrl-C to the next `listening` block.

    A second Ctrl-C is raised at once. Outside the main thread, and if the user has installed a
    signal handler, this does nothing.
    """
    global _current
    if _current is not None and current_thread() is main_thread():
        _current.depth += 1
        try:
            yield _current
        finally:
            _current.depth -= 1
        return
    found = Interruption()
    if (
        current_thread() is not main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield found
        return
    _current = found
    signal.signal(signal.SIGINT, found._hear)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _current = None


@contextmanager
def listening() -> Iterator[None]:
    """Raise Ctrl-C inside this block, and a recorded one at its start."""
    found = _current
    if found is None or found.is_late or found._held_back or current_thread() is not main_thread():
        yield
        return
    found._listening += 1
    try:
        if found.is_noted:
            found._raise()
        yield
    finally:
        found._listening -= 1


@contextmanager
def held_back() -> Iterator[None]:
    """Within this block only `hear` raises Ctrl-C, and a second one is raised at once."""
    with deferred() as found:
        found._held_back += 1
        try:
            yield
        finally:
            found._held_back -= 1


def hear() -> None:
    """Raise a recorded Ctrl-C, even in a block that is held back."""
    found = _current
    if found is not None and found.is_noted and current_thread() is main_thread():
        found._raise()


def wait_for_next(queue: SimpleQueue[T]) -> T:
    """Return the next item of a queue; Ctrl-C is raised meanwhile."""
    with listening():
        while True:
            try:
                return queue.get(timeout=LONGEST_DEAF)
            except Empty:
                pass


def apart(work: Callable[[], object]) -> None:
    """Do work that Ctrl-C must not cut in two: it goes on in a thread when Ctrl-C is raised here.

    A compiler that is left in the middle of a line may crash, or take half a kernel for a whole
    one. The work is not lost: the next call that needs it waits for it.
    """
    if current_thread() is not main_thread():
        work()
        return
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as caught:
            error = caught
        ended.put(error)

    # The interpreter waits for it before it ends: LLVM's memory is in use until then.
    Thread(target=run).start()
    error = wait_for_next(ended)
    if error is not None:
        raise error
