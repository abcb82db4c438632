"""Pause garbage collection while a kernel is compiled.

Compiling makes millions of small long-lived objects.  Python's collector would scan them again and
again in vain, which takes a sixth of the compile time.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Any

_LOCK = Lock()
_under_way = 0
_was_on = False


def pause_while_compiling(events: Any, kind: str) -> None:
    """Pause the collector during events of this kind, in any thread: those of the compiler's lock.

    `events` is ``numba.core.event``, or its counterpart in another compiler.
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
