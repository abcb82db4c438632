"""How a replicate ended. A status is data: one bad replicate never disturbs the others."""

from __future__ import annotations

from enum import IntEnum


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
    TOO_MANY_STEPS = 4, "The limit on the number of steps was reached."
    OVERFLOW = 5, "A count exceeded what its type can hold."
    INACCURATE = 6, "The error estimate exceeded its tolerance."
    STEP_TOO_SMALL = 7, "The step that the tolerance asks for vanishes beside the time."
    STOPPED = 8, "An event ended the run before the last time."
    NEGATIVE_RATE = 16, "A rate became negative."

    @property
    def is_error(self) -> bool:
        """Whether the replicate's values should not be used."""
        return self.value >= 2 and self is not Status.STOPPED
