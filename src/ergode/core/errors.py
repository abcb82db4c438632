"""Exceptions - for a model, a plan, a file - and warnings."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 1200


class ErgodeError(Exception):
    """Base of every error this library raises on purpose.

    Its message is one line of at most 1,200 characters.
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if not text.isprintable() or len(text) > _LONGEST:
            text = "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]} [...] {text[-_LONGEST // 2 :]}"
        super().__init__(text)


class ModelError(ErgodeError, ValueError):
    """The user's model is invalid: an unknown name, a negative rate, a NaN weight."""


class PlanError(ErgodeError, RuntimeError):
    """The model is valid but cannot be run as requested: memory, device, method or option."""


class ReadError(ErgodeError, ValueError):
    """A file could not be understood; the message names the file and the line or element."""


class WriteError(PlanError, OSError):
    """A file could not be written (a full disk); an earlier file of this name is unchanged."""


class Abandoned(KeyboardInterrupt):
    """An interruption that did not wait for a long kernel.

    The kernel continues in the background.  The arrays that it writes to may change at any time:
    return copies of them, and copy `status` first.

    Attributes
    ----------
    spans : sequence of (int, int)
        Ranges of indices that are still running; all others have ended or never start.
    """

    def __init__(self, spans: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__()
        self.spans = spans


class ErgodeWarning(RuntimeWarning):
    """Base class of every warning of this library; filter it or a subclass."""


class FailureWarning(ErgodeWarning):
    """Some replicates, zones or trajectories failed; `status` tells which, and how."""


class AccuracyWarning(ErgodeWarning):
    """A result is less accurate than it looks; the message says by how much, or why."""


class InterruptionWarning(ErgodeWarning):
    """A run was interrupted; what was computed by then is returned."""


class PerformanceWarning(ErgodeWarning):
    """Another method or option would give an equivalent result faster."""
