"""Where the seconds of a call go: compiling, running kernels, and all of it.

The doors `core.cpu` and `core.cuda` say when a compiler and when a kernel begins and ends; a
`Stopwatch` reads what passed between its making and now.  Nothing here waits for a device: on CUDA
a kernel counts from its launch until the host waits for it anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from time import perf_counter
from typing import Any


class _Compiling:
    """Seconds in which any thread compiled: kernels wait for each other's compiler."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way = 0
        self._since = 0.0
        self._total = 0.0

    def begin(self) -> None:
        with self._lock:
            if self._under_way == 0:
                self._since = perf_counter()
            self._under_way += 1

    def end(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self._total += perf_counter() - self._since

    def seconds(self) -> float:
        with self._lock:
            now = perf_counter() - self._since if self._under_way else 0.0
            return self._total + now


class _Running(local):
    """Seconds in which kernels that this thread started ran, without those of their compiling."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._compiled_before = 0.0
        self._total = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._since is not None

    def begin(self) -> None:
        if self._since is None:
            self._compiled_before = _compiling.seconds()
            self._since = perf_counter()

    def end(self) -> None:
        if self._since is not None:
            compiling = _compiling.seconds() - self._compiled_before
            self._total += max(perf_counter() - self._since - compiling, 0.0)
            self._since = None

    def seconds(self) -> float:
        self.end()
        return self._total


_compiling = _Compiling()
_running = _Running()


def kernel_begins() -> None:
    """Say that the calling thread is about to launch a kernel."""
    _running.begin()


def kernels_ended() -> None:
    """Say that the calling thread has waited for all kernels that it launched."""
    _running.end()


def kernels_under_way() -> bool:
    """Whether the calling thread has launched kernels since it last waited for them."""
    return _running.is_under_way


@contextmanager
def running() -> Iterator[None]:
    """Count what is done within as a kernel's time."""
    on_device = _running.is_under_way  # and not waited for yet
    _running.begin()
    try:
        yield
    finally:
        if not on_device:
            _running.end()


@contextmanager
def compiling() -> Iterator[None]:
    """Count what is done within as a compiler's time."""
    _compiling.begin()
    try:
        yield
    finally:
        _compiling.end()


def count_compiling(events: Any, kind: str) -> None:
    """Count events of a kind, in any thread, as compiling: those of a compiler's lock.

    `events` is ``numba.core.event``, or what another compiler has in its place.
    """

    class Count(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            _compiling.begin()

        def on_end(self, event: Any) -> None:
            _compiling.end()

    events.register(kind, Count())


class Stopwatch:
    """Seconds of one call since this was made, in the thread that made it."""

    def __init__(self) -> None:
        self._ran = _running.seconds()
        self._compiled = _compiling.seconds()
        self._begun = perf_counter()

    def seconds(self) -> dict[str, float]:
        """The three attributes of a result.

        ``wall_seconds`` is all of the call.  ``compile_seconds`` of it went into making, or reading
        from disk, kernels that this process had not had before; ``run_seconds`` into kernels: on
        CUDA from their launch until they had ended, copies between them included.
        """
        return {
            "wall_seconds": perf_counter() - self._begun,
            "compile_seconds": _compiling.seconds() - self._compiled,
            "run_seconds": _running.seconds() - self._ran,
        }
