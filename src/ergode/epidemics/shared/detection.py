"""When nodes are detected: after they enter a compartment, or by tests at a rate; and traced."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.math.random import RELEASE, TESTING, TRACING, draw_words, exponential, uniform
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.compliance import may_be_traced, takes_part
from ergode.epidemics.shared.contacts import exposure
from ergode.epidemics.shared.options import HAS_LINES, HAS_SCREENING
from ergode.epidemics.shared.transmission import LOOKBACK, OWN_DELAY, OWN_TIME

_NEVER = float("inf")
_CONTACTS = np.uint32(0x80000000)  # of draws: for a contact, not for the case
_NUMBER_BITS = np.int64(40)  # of a node in a key; above them is the number of the test


def next_detection(tables, k, compartment, last, number, leaves, node, stay, seed, replicate):
    """Time at which a measure next detects a node that stays in a compartment.

    It is infinite if the measure does not detect the node in this stay. `number` detections of the
    stay are known, the last at the time `last`; if there are none, that is the time of entry. The
    stay ends when the node `leaves`, which only tests at a rate read.
    """
    plan = tables.interventions
    positive = plan.positive[k, compartment]
    if positive <= 0.0 or not takes_part(plan, k, node, seed, replicate):
        return real(_NEVER)
    index = np.uint32(k) | np.uint32(np.uint32(stay) << 8)
    if HAS_SCREENING and plan.rate[k] > 0.0:
        # Positive tests are a Poisson process, too.
        entity = np.int64(node) | (np.int64(number) << _NUMBER_BITS)
        w0, w1, w2, w3 = draw_words(seed, replicate, entity, TESTING, index)
        moment = last + exponential(w0, w1) / (plan.rate[k] * positive)
        moment = real(at_moment(tables.moments, moment))
        return moment if moment < leaves else real(_NEVER)
    if number > 0:
        return real(_NEVER)
    w0, w1, w2, w3 = draw_words(seed, replicate, node, TRACING, index)
    # Those who do not ask for a test; `detects` leaves out those who wait for one.
    if HAS_LINES and plan.lines.of[k] >= 0 and (uniform(w2, w3) > plan.fraction[k] or last < 0.0):
        return real(_NEVER)
    if uniform(w0, w1) <= positive:
        return real(at_moment(tables.moments, last + plan.delay[k]))
    return real(_NEVER)


def stays_isolated(plan, k, compartment, number, node, seed, replicate):
    """Whether the `number`-th test for the release of a node is positive."""
    entity = np.int64(node) | (np.int64(number) << _NUMBER_BITS)
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, RELEASE, np.uint32(k))
    return uniform(w0, w1) <= plan.sensitivity[k, compartment]


def is_found(plan, k, compartment, number, node, seed, replicate):
    """Whether the `number`-th test of a node that is traced is positive."""
    entity = np.int64(node) | (np.int64(number) << _NUMBER_BITS)
    w0, w1, w2, w3 = draw_words(seed, replicate, entity, RELEASE, np.uint32(k) | _CONTACTS)
    return uniform(w0, w1) <= plan.sensitivity[k, compartment]


def known_until(tables, k, moment):
    """Until when a node that is detected at a moment is a known case."""
    plan = tables.interventions
    return real(
        at_moment(tables.moments, moment + (plan.traced[k, OWN_DELAY] + plan.traced[k, OWN_TIME]))
    )


def is_traced(plan, meetings, k, layer, arc, entity, target, stay, moment, seed, replicate):
    """Whether the contact with key `entity` of a case detected at `moment` is traced.

    It is drawn once for a stay of the case, however often the case is detected in it.
    """
    share = plan.tracing[k, layer]
    if share <= 0.0 or not may_be_traced(plan, k, target, seed, replicate):
        return False
    w0, w1, w2, w3 = draw_words(
        seed, replicate, entity, TRACING,
        np.uint32(k) | np.uint32(np.uint32(stay) << 8) | _CONTACTS,
    )  # fmt: skip
    met = exposure(meetings, arc, moment) > exposure(
        meetings, arc, moment - plan.traced[k, LOOKBACK]
    )
    return met and uniform(w0, w1) <= share
