"""What measures do is counted in the event-driven kernel, besides what their events count."""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import real
from ergode.epidemics.event_driven.state import NEVER, counted_in
from ergode.epidemics.shared.options import COUNTING, HAS_SCREENING
from ergode.epidemics.shared.tallying import (
    ProposedTests,
    begin_tests,
    tally_doses,
    tally_exit,
    tally_isolations,
    tally_starts,
    tally_tests,
)


def new_proposed(plan_size, node_count):
    """Room for the proposed tests of a replicate, if they are counted."""
    counts = COUNTING and HAS_SCREENING
    shape = plan_size if counts else 1, node_count if counts else 1
    return ProposedTests(np.empty(shape, real), np.empty(shape, np.int32))


def begin_tallies(tables, nodes, run):
    """A replicate at time zero."""
    tally_starts(counted_in(nodes, run), tables, nodes.starts)
    if HAS_SCREENING:
        for node in range(nodes.compartment.size):
            begin_tests(nodes.proposed, tables, node, node, run.seed, run.replicate)


def tally_leaving(tables, nodes, node, time, run):
    """A node is about to leave its compartment."""
    compartment = np.int64(nodes.compartment[node])
    if HAS_SCREENING:
        tally_tests(
            counted_in(nodes, run), nodes.proposed, tables, nodes.starts, node, node, compartment,
            time, run.seed, run.replicate,
        )  # fmt: skip
    tally_exit(
        counted_in(nodes, run), tables, nodes.starts, node, nodes.stay[node], compartment,
        nodes.since[node], time, run.seed, run.replicate,
    )  # fmt: skip


def tally_rest(tables, nodes, run):
    """At the end of a replicate."""
    for node in range(nodes.compartment.size):
        if HAS_SCREENING:
            tally_tests(
                counted_in(nodes, run), nodes.proposed, tables, nodes.starts, node, node,
                np.int64(nodes.compartment[node]), tables.end, run.seed, run.replicate,
            )  # fmt: skip
        tally_isolations(
            counted_in(nodes, run), tables, nodes.starts, node, nodes.stay[node],
            np.int64(nodes.compartment[node]), nodes.since[node], real(NEVER), run.seed,
            run.replicate,
        )  # fmt: skip
        tally_doses(counted_in(nodes, run), tables, nodes.starts, node, run.seed, run.replicate)
