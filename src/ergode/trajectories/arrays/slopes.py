"""Derivatives of fields of arrays for a host that integrates: of whole states, and one by one."""

from __future__ import annotations

from ergode.core.compiler.language import no_refcount, real, unroll
from ergode.core.group import Group
from ergode.trajectories.arrays.equations import (
    ARRAYS,
    arranged,
    evaluate,
    parameters_of,
    rate_of,
)


def slopes_cpu(start, stop, run, me, times, states, slopes):
    """Derivatives of `states` [row, unknown] at `times` [row], by rows and blocks of unknowns."""
    p = parameters_of(run.parameters, me)
    blocks = run.counts[0]
    for place in range(start, stop):
        row, block = place // blocks, place % blocks
        evaluate(Group(block, blocks, (), (), ()), times[row], states[row], p, run, slopes[row])


def probe_cpu(start, stop, run, me, t, edges, firsts, rows, state, before, other, found):
    """Set ``found[q]`` where derivative ``rows[q]`` differs as a block of unknowns does.

    Block b is of the unknowns from ``edges[b]``, and has q from ``firsts[b]``.  `before` are the
    derivatives at `state` and time `t`; `other` is the other state.  Both are restored in the end.
    """
    p = parameters_of(run.parameters, me)
    for b in range(start, stop):
        for j in range(edges[b], edges[b + 1]):
            state[j], other[j] = other[j], state[j]
        for q in range(firsts[b], firsts[b + 1]):
            i = rows[q]
            if _rate(i, t, state, p, run) != before[i]:
                found[q] = 1
        for j in range(edges[b], edges[b + 1]):
            state[j], other[j] = other[j], state[j]


def _rate(i, t, state, p, run):
    y = arranged(state, run.begins, run.shapes)
    value = real(0.0)
    for v in unroll(range(ARRAYS)):
        if run.begins[v] <= i and i < run.begins[v + 1]:
            row = (i - run.begins[v]) // run.widths[v]
            j = (i - run.begins[v]) - row * run.widths[v]
            value = rate_of(v, row, j, t, y, p, run.constants, run.shapes)
    return value


def windows_cpu(start, stop, run, me, t, near, other, state, reach, inside, found):
    """Set ``found[i, array, d]`` where derivative i reads the unknown ``d - reach`` cells ahead.

    Arrays have one dimension and equal lengths; unknowns of all at one place are a cell, and the
    last cell is next to the first.  ``found[i, -1, 0]`` is set where i reads others, too: away from
    its window `state` is as `other`, and there as `near`.  Without `inside`, all in the window
    counts as read away from the ends.
    """
    _windows(start, stop, run, me, t, near, other, state, reach, inside, found)


@no_refcount
def _windows(start, stop, run, me, t, near, other, state, reach, inside, found):
    p = parameters_of(run.parameters, me)
    cells, count = run.begins[1], found.shape[1] - 1
    for i in range(state.size):
        state[i] = other[i]
    for j in range(-reach, reach):
        for v in range(count):
            at = run.begins[v] + j % cells
            state[at] = near[at]
    for j in range(start, stop):
        for v in range(count):
            at = run.begins[v] + (j + reach) % cells
            state[at] = near[at]
        for v in range(count):
            i = run.begins[v] + j
            value = _rate(i, t, near, p, run)
            if _rate(i, t, state, p, run) != value:
                found[i, count, 0] = 1
            looks = inside > 0 or j < reach or j + reach >= cells
            for u in range(count):
                for d in range(2 * reach + 1):
                    if not looks:
                        found[i, u, d] = 1
                        continue
                    at = run.begins[u] + (j + d - reach) % cells
                    state[at] = other[at]
                    if _rate(i, t, state, p, run) != value:
                        found[i, u, d] = 1
                    state[at] = near[at]
        for v in range(count):
            at = run.begins[v] + (j - reach) % cells
            state[at] = other[at]
