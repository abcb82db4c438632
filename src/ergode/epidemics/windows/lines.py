"""Lines of nodes that wait for a test, by windows of time.

A window begins with each period, and after the moment at which the last test of a period is taken.
So within a window all who ask for a test are tested, or nobody is.  Between windows, one thread of
a replicate tests who waits.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.shared.lines import (
    asks_for_test,
    begin_period,
    empty_line,
    is_positive,
    next_period,
    next_tested,
    spent_from,
    take_in,
)
from ergode.epidemics.shared.transmission import looks_for_cases
from ergode.epidemics.windows.atomics import add
from ergode.epidemics.windows.state import compartment_of
from ergode.epidemics.windows.tracing import keep_detection

_NEVER = float("inf")


def ask_for_test(epidemic, place, stay, compartment, time):
    """A node that entered a compartment asks for a test: it is tested, or waits."""
    plan, state = epidemic.tables.interventions, epidemic.lines
    starts, slot, position = epidemic.triggers.starts[place.slot], place.slot, place.position
    for line in range(plan.lines.measure.size):
        k = np.int64(plan.lines.measure[line])
        asks = time >= 0.0 and looks_for_cases(plan, starts, k, time)
        if asks and asks_for_test(
            plan, line, compartment, place.node, stay, epidemic.seed, place.replicate
        ):
            if time < starts[spent_from(plan, k)]:
                add(state.left, (np.int64(slot), np.int64(line)), np.int32(-1))
            elif plan.lines.waits[line] != 0 and state.since[line, position] < 0.0:
                state.since[line, position] = time
                at = np.int64(add(state.arrived, (np.int64(slot), np.int64(line)), np.int32(1)))
                state.inbox[line, position - place.node + at] = np.int32(place.node)


def test_lines(epidemic, row, shift, begin, replicate):
    """Before a window: note who waits, and test the first of them if a period begins."""
    tables, state = epidemic.tables, epidemic.lines
    plan, starts = tables.interventions, epidemic.triggers.starts[row]
    for line in range(plan.lines.measure.size):
        k = np.int64(plan.lines.measure[line])
        take_in(plan, state, row, line, shift)
        if state.left[row, line] <= 0 and starts[spent_from(plan, k)] == _NEVER:
            starts[spent_from(plan, k)] = real(begin)
        if next_period(plan, state, row, line) <= begin:
            begin_period(plan, state, row, line, starts)
            if not looks_for_cases(plan, starts, k, begin):
                empty_line(state, row, line, shift)
            node = next_tested(plan, state, row, line, shift, starts)
            while node >= 0:
                position = shift + node
                if is_positive(
                    plan, line, state.period[row, line], compartment_of(epidemic.paths, position),
                    node, epidemic.seed, replicate,
                ):  # fmt: skip
                    keep_detection(epidemic.tracing, position, k, begin)
                node = next_tested(plan, state, row, line, shift, starts)
