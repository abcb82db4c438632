"""Infections from outside: when they come, and upon whom.

The n-th importation of a plan is a function of (seed, replicate, plan, n): its guest, a node of the
network at random, and its moment, which follows on that of the one before.  It infects its guest
if that is at risk at the moment.  Methods that go through time ask for one after the other; those
that go through it in windows are given all of them, listed by node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.machine import real
from ergode.core.random import IMPORTATION, draw_words, exponential, integer_below
from ergode.core.source import Precision
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.transmission import compartment_index
from ergode.models.compartments import CompartmentModel

_NEVER = float("inf")


class Importations(NamedTuple):
    """Plans; one row each."""

    compartment: Any  # int32 [plan_count]
    rate: Any  # real; zero where times are given
    start: Any
    stop: Any
    first: Any  # its times are first[i] : first[i + 1], int32 [plan_count + 1]
    time: Any  # real


class Guests(NamedTuple):
    """All importations into some replicates, ordered by row, node and time."""

    first: Any  # of a row: first[row] : first[row + 1], int64 [row_count + 1]
    node: Any  # int32 [importation_count] (one unused entry where there are none)
    time: Any  # real
    compartment: Any  # uint8


def importations_of(
    scenario: Scenario, model: CompartmentModel, begin: float, precision: Precision
) -> Importations:
    """The plans of a scenario, on a clock that is zero at `begin`.

    Raises
    ------
    ModelError
        An importation is into an unknown compartment.
    """
    plans = scenario.importations
    first, moments = [0], [0.0]
    for plan in plans:
        times = [t - begin for t in plan.moments if t >= begin]
        moments += times
        first.append(first[-1] + len(times))
    return Importations(
        np.array([compartment_index(model, p.compartment, "an importation") for p in plans],
                 np.int32),
        np.array([p.rate or 0.0 for p in plans], precision),
        np.array([p.start - begin for p in plans], precision),
        np.array([p.stop - begin for p in plans], precision),
        np.array(first, np.int32),
        np.array(moments[1:] or [0.0], precision),
    )  # fmt: skip


def guests_of(
    imports: Importations,
    node_count: int,
    end: Any,
    seed: np.uint64,
    first_replicate: int,
    count: int,
    host: Device,
    precision: Precision,
) -> Guests:
    """All importations before `end` into `count` replicates, on the host."""
    kernel = kernels.cpu_kernel(list_guests, precision=precision)
    sizes = np.zeros(count + 1, np.int64)
    nothing = (np.zeros(1, np.int32), np.zeros(1, precision), np.zeros(1, np.uint8))
    arguments = (imports, node_count, end, seed, first_replicate)
    host.run(kernel, count, *arguments, sizes[1:], sizes, *nothing, False)
    first = np.cumsum(sizes)
    if not first[-1]:
        return Guests(first, *nothing)
    total = int(first[-1])
    node, time = np.empty(total, np.int32), np.empty(total, precision)
    into = np.empty(total, np.uint8)
    host.run(kernel, count, *arguments, sizes[1:], first, node, time, into, True)
    order = np.lexsort((time, node, np.repeat(np.arange(count), sizes[1:])))
    return Guests(first, node[order], time[order], into[order])


# ---- what kernels ask


def importation_time(imports, plan, number, after, seed, replicate):
    """When the `number`-th importation of a plan is, the one before being at `after`."""
    if imports.rate[plan] > 0.0:
        w0, w1, w2, w3 = draw_words(seed, replicate, 2 * plan, IMPORTATION, np.uint32(number))
        time = max(after, imports.start[plan]) + exponential(w0, w1) / imports.rate[plan]
        return time if time < imports.stop[plan] else real(_NEVER)
    if imports.first[plan] + number < imports.first[plan + 1]:
        return imports.time[imports.first[plan] + number]
    return real(_NEVER)


def guest_of(plan, number, node_count, seed, replicate):
    """The node that the `number`-th importation of a plan falls on."""
    return integer_below(node_count, seed, replicate, 2 * plan + 1, IMPORTATION, number & 0xFFFFFF)


def list_guests(
    start, stop, imports, node_count, end, seed, first_replicate, size, first, node, time, into,
    fill,
):  # fmt: skip
    """Count the importations of rows `start` to `stop` into `size`, or write them down."""
    for row in range(start, stop):
        replicate = first_replicate + row
        at = first[row]
        found = 0
        for plan in range(imports.rate.size):
            number = np.int64(0)
            moment = real(importation_time(imports, plan, number, real(0.0), seed, replicate))
            while moment < end:
                if fill:
                    node[at + found] = guest_of(plan, number, node_count, seed, replicate)
                    time[at + found] = moment
                    into[at + found] = imports.compartment[plan]
                found += 1
                number += 1
                moment = real(importation_time(imports, plan, number, moment, seed, replicate))
        size[row] = found


def first_guest(guests, row, node):
    """Position of the first importation into a node, or of what would follow it."""
    low, high = np.int64(guests.first[row]), np.int64(guests.first[row + 1])
    while low < high:
        middle = (low + high) >> 1
        if guests.node[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low
