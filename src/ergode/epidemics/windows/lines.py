"""Lines of nodes that wait for a test or a place, by windows of time.

A window begins with each period, and after the moment at which the last test of a period is taken.
So within a window all who ask for a test are tested, or nobody is.  Between windows, one thread of
a replicate tests who waits.

A window is cut short after the moment at which a place becomes free, or a node leaves a line
without one.  Whoever gets a place enters it at the beginning of the next window.  The beginning of
a wait is a move in a path, into the compartment in which the node is.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real, to_bits
from ergode.epidemics.shared.atomics import add
from ergode.epidemics.shared.counts import POSITIVE, TESTS, TURNED_AWAY, tally
from ergode.epidemics.shared.lines import (
    admitted_to,
    asks_for_test,
    begin_period,
    empty_line,
    enter_place,
    forget_leavers,
    is_positive,
    leaves_at,
    leaves_to,
    line_of,
    may_join,
    next_period,
    next_tested,
    spent_from,
    take_in,
)
from ergode.epidemics.shared.options import COUNTING, HAS_LEAVERS
from ergode.epidemics.shared.progression import stay_index
from ergode.epidemics.shared.tallying import tally_leaver, tally_wait
from ergode.epidemics.shared.transmission import destination_of_stay, looks_for_cases
from ergode.epidemics.windows.state import compartment_of, since_of, stay_of
from ergode.epidemics.windows.tracing import keep_detection

_NEVER = float("inf")


def ask_for_test(epidemic, counted, place, stay, compartment, time):
    """A node that entered a compartment asks for a test: it is tested, or waits."""
    tables, state = epidemic.tables, epidemic.lines
    plan = tables.interventions
    starts, slot, position = epidemic.triggers.starts[place.slot], place.slot, place.position
    for line in range(plan.lines.measure.size):
        k = np.int64(plan.lines.measure[line])
        asks = plan.lines.asks[line, compartment] != 0 and time >= 0.0
        asks = asks and looks_for_cases(plan, starts, k, time)
        if asks and asks_for_test(
            plan, line, compartment, place.node, stay, epidemic.seed, place.replicate
        ):
            if time < starts[spent_from(plan, k)]:
                add(state.left, (np.int64(slot), np.int64(line)), np.int32(-1))
                if COUNTING:
                    tally(counted, tables, k, TESTS, place.node, time, 1)
            elif may_join(plan, state, line, position, time):
                _arrive(state, place, line, time)
                if COUNTING:
                    tally_wait(counted, tables, line, place.node, time, 1)
            elif COUNTING and state.since[line, position] < 0.0:
                tally(counted, tables, k, TURNED_AWAY, place.node, time, 1)


def _arrive(state, place, line, time):
    """A node comes to a line; it joins it between windows."""
    state.since[line, place.position] = time
    at = np.int64(add(state.arrived, (np.int64(place.slot), np.int64(line)), np.int32(1)))
    state.inbox[line, place.position - place.node + at] = np.int32(place.node)


def wait_for_place(epidemic, counted, place, time):
    """A node waits for a place, in its compartment."""
    tables, paths, position = epidemic.tables, epidemic.paths, place.position
    compartment = compartment_of(paths, position)
    into = destination_of_stay(
        tables, epidemic.triggers.starts[place.slot], compartment,
        stay_index(compartment, stay_of(paths, position) - np.int32(1)), time, epidemic.seed,
        place.replicate, place.node,
    )  # fmt: skip
    leaves = leaves_at(
        tables, -2 - into, compartment,
        stay_index(compartment, stay_of(paths, position) - np.int32(1)), since_of(paths, position),
        time, place.node, epidemic.seed, place.replicate,
    )  # fmt: skip
    paths.state[position, 1] = to_bits(real(leaves))
    _arrive(epidemic.lines, place, -2 - into, time)
    if COUNTING:
        tally_wait(counted, tables, -2 - into, place.node, time, 1)


def leave_line(epidemic, counted, place, time):
    """A node that waits for a place leaves the line without one."""
    tables, paths, position, state = (
        epidemic.tables, epidemic.paths, place.position, epidemic.lines
    )  # fmt: skip
    line = line_of(tables.interventions, state, position)
    if line >= 0:
        here = compartment_of(paths, position)
        _, in_vain = leaves_to(
            tables, line, here, stay_index(here, stay_of(paths, position) - np.int32(1)),
            since_of(paths, position), state.since[line, position], place.node, epidemic.seed,
            place.replicate,
        )  # fmt: skip
        enter_place(state, line, position)
        add(state.left, (np.int64(place.slot), np.int64(line)), np.int32(1))
        if COUNTING:
            tally_leaver(counted, tables, line, place.node, time, in_vain)


def enter_places(epidemic, counted, place, time):
    """A node that has got a place enters it."""
    line = admitted_to(epidemic.tables.interventions, epidemic.lines, place.position)
    if line >= 0:
        enter_place(epidemic.lines, line, place.position)
        if COUNTING:
            tally_wait(counted, epidemic.tables, line, place.node, time, -1)


def form_lines(epidemic, row, shift):
    """Before a window: those who left the lines are forgotten, those who came join them."""
    plan, state = epidemic.tables.interventions, epidemic.lines
    for line in range(plan.lines.measure.size):
        if HAS_LEAVERS and plan.lines.places[line] != 0 and state.left[row, line] > 0:
            forget_leavers(plan, state, row, line, shift)
            state.left[row, line] = np.int32(0)
        take_in(plan, state, row, line, shift)


def forget_admitted(state, row):
    """Empty the inboxes, which named the nodes that have got places (`pull_triggers`)."""
    for line in range(state.arrived.shape[1]):
        state.arrived[row, line] = np.int32(0)


def test_lines(epidemic, counted, row, shift, begin, replicate):
    """Before a window: test the first in the lines if a period begins."""
    tables, state = epidemic.tables, epidemic.lines
    plan, starts = tables.interventions, epidemic.triggers.starts[row]
    for line in range(plan.lines.measure.size):
        k = np.int64(plan.lines.measure[line])
        if state.left[row, line] <= 0 and starts[spent_from(plan, k)] == _NEVER:
            starts[spent_from(plan, k)] = real(begin)
        if next_period(plan, state, row, line) <= begin:
            begin_period(plan, state, row, line, starts)
            if not looks_for_cases(plan, starts, k, begin):
                empty_line(counted, tables, state, row, line, shift, starts, begin)
            node = next_tested(counted, tables, state, row, line, shift, starts, begin)
            while node >= 0:
                position = shift + node
                if is_positive(
                    plan, line, state.period[row, line], compartment_of(epidemic.paths, position),
                    node, epidemic.seed, replicate,
                ):  # fmt: skip
                    stay = stay_of(epidemic.paths, position)
                    keep_detection(epidemic.tracing, position, k, stay, begin)
                    if COUNTING:
                        tally(counted, tables, k, POSITIVE, node, begin, 1)
                node = next_tested(counted, tables, state, row, line, shift, starts, begin)
