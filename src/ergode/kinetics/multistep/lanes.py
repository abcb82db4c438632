"""Arrays of one zone, or of eight zones in vector lanes.

The functions of this folder do arithmetic on elements, which are numbers or vectors of eight. What
decides takes the lanes one by one. On a GPU the elements are numbers, and the threads of a group
share those of a zone.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import ByTarget, as_lanes, flat_numbers, noinline_cuda, option
from ergode.core.group import share
from ergode.core.math.elementary import exp, log

LANES = 8
"""Zones in a vector."""
WIDTH = option(1)
"""Zones that are integrated at once: 1 or `LANES`."""

# --- device functions -----------------------------------------------------------------------------


def row_of(size):
    """Zeros, shape [size]."""
    return as_lanes(np.zeros((size + 1) * WIDTH), (size,)) if WIDTH > 1 else np.zeros(size)


def rows_of(count, size):
    """Zeros, shape [count, size]."""
    if WIDTH == 1:
        return np.zeros((count, size))
    return as_lanes(np.zeros((count * size + 1) * WIDTH), (count, size))


@noinline_cuda
def _exp(x):
    return exp(x)


@noinline_cuda
def _log(x):
    return log(x)


# A GPU fetches code that does not fit its cache more slowly than it runs it.
called_exp, called_log = ByTarget(cpu=exp, cuda=_exp), ByTarget(cpu=log, cuda=_log)


def put_exp(row, group):
    """Replace numbers by their exponentials."""
    numbers = flat_numbers(row)
    for i in share(group, 0, numbers.size):
        numbers[i] = called_exp(numbers[i])


def put_log(row, group):
    """Replace numbers by their logarithms."""
    numbers = flat_numbers(row)
    for i in share(group, 0, numbers.size):
        numbers[i] = called_log(numbers[i])
