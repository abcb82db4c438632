"""Binary search in ascending values, within a range of positions."""

from __future__ import annotations


def first_from(values, low, high, x):
    """Position of the first value that is at least `x`, from `low` on; `high` if no value is."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def first_above(values, low, high, x):
    """Position of the first value that is larger than `x`, from `low` on; `high` if no value is."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low
