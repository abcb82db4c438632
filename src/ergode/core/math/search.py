"""Binary search in ascending values, within a range of positions."""

from __future__ import annotations


def first_from(values, low, high, x):
    """First position from `low` on whose value is at least `x`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def first_above(values, low, high, x):
    """First position from `low` on whose value is larger than `x`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low
