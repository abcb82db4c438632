"""No garbage collection while a kernel is compiled.

Compiling makes millions of small objects that live on, and Python's collector goes through them
again and again for nothing: a sixth of the time that compiling takes.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Any

_LOCK = Lock()
_under_way = 0
_was_on = False


def pause_while_compiling(events: Any, kind: str) -> None:
    """Hold the collector during events of a kind, in any thread: those of a compiler's lock.

    `events` is ``numba.core.event``, or what another compiler has in its place.
    """

    class Pause(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            global _under_way, _was_on
            with _LOCK:
                if _under_way == 0:
                    _was_on = gc.isenabled()
                    gc.disable()
                _under_way += 1

        def on_end(self, event: Any) -> None:
            global _under_way
            with _LOCK:
                _under_way -= 1
                if _under_way == 0 and _was_on:
                    gc.enable()

    events.register(kind, Pause())
