"""How a replicate ended. A status is data: one failed replicate does not affect the others."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ergode.core.words import counted


class Status(IntEnum):
    """Codes in the variable `status`, each with the sentence a user reads."""

    sentence: str

    def __new__(cls, code: int, sentence: str = "") -> Status:
        member = int.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    DONE = 0, "The run reached its last time."
    EXTINCT = 1, "Nothing could happen any more before the last time."
    NOT_RUN = 2, "The run was interrupted before this replicate began."
    NOT_FINITE = 3, "A value became infinite or not a number."
    TOO_MANY_STEPS = 4, "The limit on the number of steps, max_steps or max_firings, was reached."
    OVERFLOW = 5, "A count exceeded what its type can hold, or max_molecules."
    INACCURATE = 6, "The error estimate exceeded its tolerance."
    STEP_TOO_SMALL = 7, "A step was so small that it did not change the time."
    STOPPED = 8, "An event ended the run before the last time."
    DELAY_OUT_OF_RANGE = 9, "A delay left the range that was given for it."
    INVALID_INPUT = 10, "What was given is not finite, negative, zero, or does not add up to one."
    NO_ROOM = 11, "More cells were needed than memory or max_cells has room for."
    OUT_OF_LATTICE = 12, "The density reached the end of its lattice."
    IMPOSSIBLE = 13, "A measurement was impossible: its likelihood was zero everywhere."
    INTERRUPTED = 14, "The run was interrupted before its last time."
    SKIPPED = 15, "A value was below the limits of the caller, and nothing was done."
    NEGATIVE_RATE = 16, "A rate, or a count of molecules, became negative."
    NO_SOLUTION = 17, "The equations have no solution that goes on to the last time."
    ALL_BORN = (
        18,
        "All unborn nodes were born before the last time, and later births would be lost; use more "
        "unborn nodes, in a network with as many more, or an earlier end.",
    )
    RATE_OUT_OF_RANGE = (
        19,
        "The rate of a jump was negative, or above the bound that was given for it.",
    )

    @property
    def is_error(self) -> bool:
        """Whether the replicate's values should not be used."""
        return self.value >= 2 and self not in (Status.STOPPED, Status.SKIPPED)


def has_failed(codes: np.ndarray) -> np.ndarray:
    """Whether the values of each replicate should not be used, from its status."""
    return np.isin(codes, _ERRORS)


_ERRORS = np.array([member.value for member in Status if member.is_error], np.uint8)


def flags() -> dict[str, object]:
    """Meanings of the codes, as variable attributes of the CF conventions."""
    return {"flag_values": _CODES.copy(), "flag_meanings": _NAMES}


_CODES = np.array([member.value for member in Status], np.uint8)
_NAMES = " ".join(member.name.lower() for member in Status)


def failures(
    codes: np.ndarray, dims: Sequence[str] = (), first_replicate: int = 0,
    last: np.ndarray | None = None,
) -> dict[Status, str]:  # fmt: skip
    """A sentence for each kind of failure: how many failed, which one first, and why.

    Parameters
    ----------
    codes : ndarray of int
        Status codes.
    dims : sequence of str
        Names of the dimensions of `codes`; a single name is used for the items in the sentence.
    first_replicate : int
        Number of the first item along the dim ``replicate``.
    last : ndarray of float, optional
        Time of the last valid state of each, NaN if it has none; a sentence says it of the first.
    """
    if not np.any(codes):  # all are done
        return {}
    counts = np.bincount(np.ravel(codes))
    what = dims[0] if len(set(dims)) == 1 else "run"
    sentences = {}
    for code in np.flatnonzero(counts).tolist():
        if Status(code).is_error:
            starts = [first_replicate * (dim == "replicate") for dim in dims] or [0] * np.ndim(
                codes
            )
            at = np.argwhere(codes == code)[0]
            where = tuple(int(k) + start for k, start in zip(at, starts, strict=True))
            first = f", first {what} {where[0] if len(where) == 1 else where}" if where else ""
            sentences[Status(code)] = (
                f"{counts[code]} of {counted(np.size(codes), what)}{first}: {Status(code).sentence}"
            )
            if last is not None and np.isfinite(last[tuple(at)]):
                whose = "Its" if counts[code] == 1 else "The first one's"
                sentences[Status(code)] += f" {whose} last valid state is at {last[tuple(at)]:.7g}."
    return sentences
