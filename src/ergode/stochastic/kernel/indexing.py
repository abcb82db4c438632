"""Indices that are never negative.

An index with a sign may count from the end, and is tested at every access; that test costs more
than what a firing does with the number, and keeps neighbours from being read together.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget


def _at_64(i):
    return np.uint64(i)


def _at_32(i):
    return np.uint32(i)


at = ByTarget(cpu=_at_64, cuda=_at_32)
"""An index that is never negative; only to read or write with, not to calculate with."""
