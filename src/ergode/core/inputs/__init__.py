"""What a result was computed from: the arguments of its call, in one attribute.

The attribute ``inputs`` is a text (JSON): the call, the version, and an entry for each argument. An
entry has numbers, names and small arrays by value, large arrays by digest, and an object of this
library as the call that makes it. So it is kept by files, selections and other processes. Nothing
in it is executed when it is read: an entry names classes of models alone, and a function is only
shown.

In the process that made the call, functions, models and arrays that are still in use are found by
their digests.
"""

from ergode.core.inputs.comparing import Difference, IsRow, difference, digests, length_of
from ergode.core.inputs.joining import joined, rows_of
from ergode.core.inputs.record import (
    ATTRIBUTE,
    WITHOUT_EFFECT,
    Record,
    recorded,
    recording,
    remembered,
    unrecorded,
)
from ergode.core.inputs.result import Inputs, inputs

__all__ = [
    "ATTRIBUTE",
    "WITHOUT_EFFECT",
    "Difference",
    "Inputs",
    "IsRow",
    "Record",
    "difference",
    "digests",
    "inputs",
    "joined",
    "length_of",
    "recorded",
    "recording",
    "remembered",
    "rows_of",
    "unrecorded",
]
