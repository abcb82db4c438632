"""When Ctrl-C is heard: while kernels run and compile, not while their results are taken in.

Python raises `KeyboardInterrupt` between any two lines. Raised while results are added up, it
leaves sums that hold half of a chunk; raised while the result is put together, it loses all that
was computed. Inside `deferred`, Ctrl-C is therefore noted, and raised where the main thread next
listens: where it waits for a kernel or a compiler.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any


@dataclass
class Interruption:
    """What is known of Ctrl-C within a block.

    Attributes
    ----------
    is_noted : bool
        It came, and has not been raised.
    was_heard : bool
        It came, and has been raised.
    is_late : bool
        All is computed; what still runs puts the result together.
    depth : int
        Blocks within blocks.
    """

    is_noted: bool = False
    was_heard: bool = False
    is_late: bool = False
    depth: int = 0
    _listening: int = 0

    @property
    def came(self) -> bool:
        """Whether Ctrl-C came at all."""
        return self.is_noted or self.was_heard

    def _hear(self, number: int, frame: Any) -> None:
        # Who presses it again before the first was heard will not wait.
        if self._listening or self.is_noted:
            self._raise()
        self.is_noted = True

    def _raise(self) -> None:
        self.is_noted, self.was_heard = False, True
        raise KeyboardInterrupt


_current: Interruption | None = None


@contextmanager
def deferred() -> Iterator[Interruption]:
    """Raise Ctrl-C only where something listens.

    A second Ctrl-C is raised at once. In another thread than the main one, and where the user
    handles the signal in a way of their own, nothing changes.
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
    """Raise Ctrl-C within, one that was noted before too."""
    found = _current
    if found is None or found.is_late or current_thread() is not main_thread():
        yield
        return
    found._listening += 1
    try:
        if found.is_noted:
            found._raise()
        yield
    finally:
        found._listening -= 1
