"""Indices that are never negative.

A signed index may count from the end, so every access tests it. The test costs more than the
arithmetic of a firing, and it prevents vector loads.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget


def _at_64(i):
    return np.uint64(i)


def _at_32(i):
    return np.uint32(i)


at = ByTarget(cpu=_at_64, cuda=_at_32)
"""An index that is never negative; for reading and writing, not for arithmetic."""
