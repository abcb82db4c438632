"""Leave Python's warning filters alone while a thread other than the main one compiles.

The filters belong to the whole process.  Numba exchanges them around each typing step and would
swallow the warnings that the main thread issues meanwhile.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import current_thread, main_thread
from typing import Any


def leave_to_main_thread(fixer: Any) -> None:
    """Let only the main thread exchange filters; `fixer` is numba's `WarningsFixer`."""
    usual = fixer.catch_warnings

    def catch_warnings(self: Any, *place: Any, **more: Any) -> AbstractContextManager[None]:
        if current_thread() is main_thread():
            return usual(self, *place, **more)
        return nullcontext()

    fixer.catch_warnings = catch_warnings
