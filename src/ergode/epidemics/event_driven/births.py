"""Births at a rate of each living person in the event-driven kernel."""

from __future__ import annotations

import numpy as np

from ergode.epidemics.event_driven.queue import push, push_end
from ergode.epidemics.event_driven.state import BIRTH, BORN
from ergode.epidemics.shared.births import child_of, next_birth


def await_birth(queue, tables, nodes, mother, after, run):
    """Queue the next birth by a person in her present stay, later than `after`."""
    time = next_birth(
        tables.births, tables.stages, np.int64(nodes.compartment[mother]), mother, after,
        tables.end, run.seed, run.replicate,
    )  # fmt: skip
    if time < tables.end:
        push(
            queue, run.per_time, time, np.int64(BIRTH), mother, np.int64(-1), nodes.stay[mother],
            np.uint32(0), np.int64(0),
        )  # fmt: skip


def give_birth(queue, tables, nodes, mother, time, run):
    """The next unborn node ends its stay at this moment; queue the next birth by its mother."""
    child = child_of(
        tables.births, tables.seeding, nodes.work[BORN], nodes.compartment.size, run.seed,
        run.replicate,
    )  # fmt: skip
    if child >= 0:
        nodes.work[BORN] += 1
        nodes.until[child] = time
        push_end(queue, run, child, nodes.stay[child], time)
    await_birth(queue, tables, nodes, mother, time, run)
