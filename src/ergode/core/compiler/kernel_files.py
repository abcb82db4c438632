"""Make numba's cache files fast to load and safe for concurrent writers.

This uses internal names of numba.  If one is missing, numba's own caching is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def guard(kernel: Any) -> None:
    """Change how the compiled forms of a kernel are loaded from and saved to disk."""
    files: Any = getattr(kernel, "_cache", None)
    if hasattr(files, "_cache_path") and hasattr(files, "_load_overload"):
        kind: Any = type(files)
        files.__class__ = _guarded(kind)


@cache
def _guarded(kind: Any) -> Any:
    on_cpu = kind.__module__ == "numba.core.caching"

    class Guarded(kind):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            # Numba would load its whole typing context (0.25 s, and 0.5 s for CUDA); a compiled
            # kernel needs only reference counting.
            if on_cpu:
                from numba.core.runtime import rtsys

                rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                try:
                    return self._load_overload(sig, target_context)
                except Exception:
                    # The file is damaged; or it names a module of inner functions that the process
                    # which compiled it had loaded, and this one has not. Compile it again.
                    return None

        def save_overload(self, sig: Any, data: Any) -> None:
            # Two processes that add forms to one index would use the same number twice.
            with _alone_in(Path(self._cache_path)):
                super().save_overload(sig, data)

    return Guarded


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, if its file system supports locks."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context((folder / "lock").open("a"))
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
