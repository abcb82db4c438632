"""Device functions that count what measures do (`shared.tallies`), for both exact kernels.

Tests at a rate that are negative change nothing in an epidemic, so the kernels do not have them as
events.  Here each node has proposed tests: a Poisson process with the rate of the measure, keyed by
the node.  A proposed test is made, and is negative, with the probability that a test in the node's
compartment is negative.  With the positive tests, which are a Poisson process too, all tests have
the rate of the measure.  Proposed tests are read when the node moves or the measure changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline_cpu, real
from ergode.core.math.random import TESTING, TRACING, draw_words, exponential, uniform
from ergode.epidemics.shared.clock import at_moment, later, precedes
from ergode.epidemics.shared.compliance import takes_part
from ergode.epidemics.shared.counts import (
    AVOIDED,
    BEGUN,
    DOSE,
    HELD,
    IN_FORCE,
    POSITIVE,
    RELEASED,
    TESTS,
    TRACED,
    TURNED_AWAY,
    WAITING,
    tally,
    tally_contact,
    tally_in_all,
)
from ergode.epidemics.shared.lives import is_alive
from ergode.epidemics.shared.options import (
    COUNTING,
    HAS_DOSES,
    HAS_LINES,
    HAS_LIVES,
    HAS_QUEUES,
)
from ergode.epidemics.shared.transmission import (
    CAPACITY_KIND,
    ISOLATION_KIND,
    TRACING_KIND,
    detects,
    infected_by,
    is_in_force,
    left_by_calendars,
    left_under,
    looks_for_cases,
)
from ergode.epidemics.shared.triggers import decide
from ergode.epidemics.shared.vaccines import (
    ALL_OR_NOTHING_KIND,
    LEAKY_KIND,
    draws,
    rank_in_queue,
    unaverted,
)

_NEVER = float("inf")
_NUMBER_BITS = np.int64(40)  # of a node in a key; above them is the number of the test


class ProposedTests(NamedTuple):
    """The next proposed test of each node by each measure, [intervention, position]."""

    time: Any  # real
    number: Any  # int32


# ---- measures in force


def tally_starts(counted, tables, starts):
    """The measures that start at a known time."""
    for k in range(tables.interventions.kind.size):
        _tally_start(counted, tables, starts, k)


def _tally_start(counted, tables, starts, k):
    plan = tables.interventions
    begin, stop = starts[k], starts[k + plan.kind.size]
    over = real(min(real(begin + plan.duration[k]), stop))
    if begin < over:
        tally_in_all(counted, tables, k, IN_FORCE, begin, 1)
        tally_in_all(counted, tables, k, IN_FORCE, over, -1)


def decide_and_tally(counted, tables, starts, k, population, moment):
    """`decide`, and count the measures in force."""
    stops = np.int64(k) + tables.interventions.kind.size
    start, stop = starts[k], starts[stops]
    following = decide(tables.interventions, starts, k, population, moment)
    if COUNTING:
        if starts[k] != start:
            _tally_start(counted, tables, starts, k)
        elif starts[stops] != stop:
            tally_in_all(counted, tables, k, IN_FORCE, starts[stops], -1)
    return following


# ---- contacts


def tally_avoided(
    counted, tables, starts, held, mark, moment, layer, source, target, compartment, seed, replicate
):  # fmt: skip
    """Count a contact that did not infect, if it had infected without measures.

    It counts for the first measure that avoids it: with this measure and those before it alone,
    the contact does not infect.  `held` has a bit for each measure whose quarantine applies.
    """
    plan, time = tables.interventions, later(moment)
    left = left_by_calendars(tables, real(1.0), time, layer, source)
    if infected_by(tables.infections, mark, left, source, target, compartment) >= 0:
        for k in range(plan.kind.size):
            if plan.kind[k] == TRACING_KIND:
                if (held >> np.uint64(k)) & np.uint64(1):
                    left *= 1.0 - plan.reduction[k]
            else:
                left = left_under(
                    plan, starts, k, left, time, layer, source, target, seed, replicate
                )
            if infected_by(tables.infections, mark, left, source, target, compartment) < 0:
                tally_contact(counted, tables, k, AVOIDED, layer, target, moment)
                break


# ---- stays of nodes


def tally_entry(counted, tables, starts, node, stay, compartment, entered, time, seed, replicate):
    """A node enters a compartment: negative tests at entry, and isolation during this stay."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if plan.tallies.tested[k, compartment] != 0:
            index = np.uint32(k) | np.uint32(np.uint32(stay) << 8)
            w0, w1, w2, w3 = draw_words(seed, replicate, node, TRACING, index)
            # The draw that also says whether the test is positive (`next_detection`).
            u = uniform(w0, w1)
            moment = real(at_moment(tables.moments, real(entered)))
            if (
                u <= plan.fraction[k] and u > plan.positive[k, compartment]
                and takes_part(plan, k, node, seed, replicate)
                and detects(plan, starts, k, moment)
            ):  # fmt: skip
                tally(counted, tables, k, TESTS, node, moment, 1)
    _tally_isolation(counted, tables, node, stay, compartment, entered, time, 1, seed, replicate)


def tally_exit(counted, tables, starts, node, stay, compartment, entered, time, seed, replicate):
    """A node leaves a compartment."""
    _tally_isolation(counted, tables, node, stay, compartment, entered, time, -1, seed, replicate)
    tally_isolations(
        counted, tables, starts, node, stay, compartment, entered, time, seed, replicate
    )


def tally_isolations(
    counted, tables, starts, node, stay, compartment, entered, until, seed, replicate
):  # fmt: skip
    """Count the isolations of a node that began in a stay, which lasts until a time."""
    for k in range(tables.interventions.kind.size):
        tally_isolations_of(
            counted, tables, starts, np.int64(k), node, stay, compartment, entered, until, seed,
            replicate,
        )  # fmt: skip


@noinline_cpu
def tally_isolations_of(
    counted, tables, starts, k, node, stay, compartment, entered, until, seed, replicate
):  # fmt: skip
    """`tally_isolations` by one measure, while it was last in force as `starts` say."""
    plan = tables.interventions
    if plan.kind[k] == ISOLATION_KIND and plan.compartment[k] == compartment:
        begin = real(max(real(entered + plan.delay[k]), starts[k]))
        over = real(min(real(starts[k] + plan.duration[k]), starts[k + plan.kind.size]))
        if precedes(begin, min(real(until), over)) and _is_isolated(
            plan, k, node, stay, seed, replicate
        ):
            tally(counted, tables, k, BEGUN, node, begin, 1)


def _is_isolated(plan, k, node, stay, seed, replicate):
    """Whether a measure isolates a node in a stay in its compartment."""
    w0, w1, w2, w3 = draws(k, node, stay, seed, replicate)
    return uniform(w0, w1) <= plan.fraction[k] and takes_part(plan, k, node, seed, replicate)


def _tally_isolation(
    counted, tables, node, stay, compartment, entered, time, amount, seed, replicate
):  # fmt: skip
    """A node enters or leaves a stay; it may be isolated from some time after its entry on."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        if (
            plan.kind[k] == ISOLATION_KIND
            and plan.compartment[k] == compartment
            and _is_isolated(plan, k, node, stay, seed, replicate)
        ):
            at = real(max(real(time), real(entered + plan.delay[k])))
            tally(counted, tables, k, HELD, node, at, amount)


def tally_death(counted, tables, state, position, node, time):
    """A node dies: it waits for no test any more."""
    plan = tables.interventions
    for line in range(plan.lines.measure.size):
        if plan.lines.places[line] == 0 and state.since[line, position] >= 0.0:
            tally_wait(counted, tables, line, node, time, -1)


def tally_leaver(counted, tables, line, node, time, in_vain):
    """A node leaves a line for places; it waited `in_vain` if it found none until then."""
    tally_wait(counted, tables, line, node, time, -1)
    if in_vain:
        k = tables.interventions.lines.measure[line]
        tally(counted, tables, k, TURNED_AWAY, node, time, 1)


def tally_hold_over(counted, tables, k, node, time, until):
    """A node that would be held until a time is held no more from an earlier time on."""
    tally(counted, tables, k, HELD, node, time, -1)
    tally(counted, tables, k, HELD, node, until, 1)


def tally_wait(counted, tables, line, node, time, amount):
    """A node begins to wait in a line, or its wait ends."""
    k = tables.interventions.lines.measure[line]
    tally(counted, tables, k, WAITING, node, time, amount)


def tally_positive(counted, tables, k, node, time):
    """A measure detects a node: by a test, which is counted already if tests are limited."""
    plan = tables.interventions
    tally(counted, tables, k, POSITIVE, node, time, 1)
    if not HAS_LINES or plan.lines.of[k] < 0:
        tally(counted, tables, k, TESTS, node, time, 1)


def tally_traced(counted, tables, k, layer, node, time):
    """A contact in a layer is traced, and its quarantine begins."""
    tally_contact(counted, tables, k, TRACED, layer, node, time)


def tally_release(counted, tables, k, node, time, over, until):
    """A negative test ends an isolation, which is `over` now and would have lasted until later."""
    tally(counted, tables, k, RELEASED, node, time, 1)
    tally_hold_over(counted, tables, k, node, over, until)


def tally_diversions(counted, tables, starts, compartment, index, time, seed, replicate, node):
    """A node leaves a compartment by itself: the places that it does not find."""
    plan = tables.interventions
    into = np.int64(unaverted(tables, starts, compartment, index, time, seed, replicate, node))
    for k in range(plan.kind.size):
        if (
            plan.kind[k] == CAPACITY_KIND
            and plan.compartment[k] == into
            and is_in_force(plan, starts, k, time)
        ):
            if HAS_QUEUES and plan.lines.of[k] >= 0:
                return
            tally(counted, tables, k, TURNED_AWAY, node, time, 1)
            into = np.int64(plan.instead[k])


# ---- negative tests at a rate


def _proposed(k, node, number, seed, replicate):
    """Words for the time from one proposed test to the next, and for the one before."""
    entity = np.int64(node) | (np.int64(number) << _NUMBER_BITS)
    return draw_words(seed, replicate, entity, TESTING, np.uint32(k))


def begin_tests(proposed, tables, position, node, seed, replicate):
    """The first proposed test of a node by each measure."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        proposed.time[k, position] = _NEVER
        proposed.number[k, position] = np.int32(0)
        if plan.rate[k] > 0.0 and takes_part(plan, k, node, seed, replicate):
            w0, w1, w2, w3 = _proposed(k, node, 0, seed, replicate)
            proposed.time[k, position] = exponential(w0, w1) / plan.rate[k]


def tally_tests(
    counted, proposed, tables, starts, position, node, compartment, before, seed, replicate
):  # fmt: skip
    """Count a node's negative tests before a time, until when it is in a compartment."""
    for k in range(tables.interventions.kind.size):
        if tables.interventions.rate[k] > 0.0:
            tally_tests_of(
                counted, proposed, tables, starts, np.int64(k), position, node, compartment, before,
                seed, replicate,
            )  # fmt: skip


def tally_tests_of(
    counted, proposed, tables, starts, k, position, node, compartment, before, seed, replicate
):  # fmt: skip
    """`tally_tests` for one measure."""
    plan = tables.interventions
    while proposed.time[k, position] < before:
        moment = real(proposed.time[k, position])
        number = np.int32(proposed.number[k, position] + np.int32(1))
        w0, w1, w2, w3 = _proposed(k, node, number, seed, replicate)
        negative = uniform(w2, w3) > plan.positive[k, compartment]
        there = plan.sensitivity[k, compartment] >= 0.0  # in the population
        if negative and there and looks_for_cases(plan, starts, k, moment):
            tally(counted, tables, k, TESTS, node, moment, 1)
        proposed.time[k, position] = moment + exponential(w0, w1) / plan.rate[k]
        proposed.number[k, position] = number


# ---- doses


def tally_doses(counted, tables, starts, node, seed, replicate):
    """Count the doses of a node, which has a turn whatever the epidemic does, if it lives then."""
    plan = tables.interventions
    for k in range(plan.kind.size):
        start = starts[k]
        if (plan.kind[k] == LEAKY_KIND or plan.kind[k] == ALL_OR_NOTHING_KIND) and (
            start < _NEVER and takes_part(plan, k, node, seed, replicate)
        ):
            _tally_doses_of(counted, tables, starts, start, k, node, seed, replicate)


def _tally_doses_of(counted, tables, starts, start, k, node, seed, replicate):
    plan = tables.interventions
    vaccines = plan.vaccines
    w0, w1, w2, w3 = draws(k, node, 0, seed, replicate)
    chosen = uniform(w0, w1) <= plan.fraction[k]
    first = real(fma(plan.rollout[k], uniform(w2, w3), start))
    programme = np.int64(-1)
    rank = np.int64(0)
    if HAS_DOSES:
        programme = np.int64(vaccines.programme[k])
        if programme >= 0:
            rank = np.int64(rank_in_queue(vaccines.programmes, programme, k, node, seed, replicate))
            chosen = rank >= 0
    if HAS_LIVES and programme >= 0 and chosen:
        programmes = vaccines.programmes
        first = real(start + programmes.time[programmes.begin[programme] + rank])
    if chosen and is_alive(plan, starts, node, first):
        for d in range(np.int64(vaccines.count[k])):
            time = real(first + vaccines.after[k, d])
            if HAS_DOSES and programme >= 0:
                programmes = vaccines.programmes
                at = programmes.begin[programme] + d * programmes.ranks[programme] + rank
                time = real(start + programmes.time[at])
            if is_alive(plan, starts, node, time):
                tally(counted, tables, k, DOSE + d, node, time, 1)
