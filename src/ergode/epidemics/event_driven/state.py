"""State of one replicate in the event-driven kernel, and its events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.epidemics.shared.counts import Counted

# Kinds of events, in the order of simultaneous events.
(
    BIRTH, RETEST, PERIOD, SEED, FIRST_STAY, PROGRESS, DETECTION, QUARANTINE, FORGET, IMPORT,
    CONTACT,
) = range(11)  # fmt: skip
NOBODY = np.int64(-1)
BORN = 2  # place in `Nodes.work`
NEVER = float("inf")
NOT_YET = float("nan")


class Nodes(NamedTuple):
    """The nodes of one replicate."""

    compartment: Any  # uint8 [node]
    since: Any  # real [node]
    opened: Any  # only later contacts belong to its stay, real [node]
    ended: Any  # the stay that its last infection ended, int32 [node]
    was: Any  # the compartment of that stay, uint8 [node]
    was_since: Any  # real [node]
    until: Any  # when its stay ends, unless it is infected before, real [node]
    stay: Any  # number of earlier stays, int32 [node]
    quarantine: Any  # see `put_in_quarantine`, real [intervention, node, 6]
    # See `test_traced`: the last two detections, the last test and the number of tests, real
    # [intervention, node, 4]; and the compartment of the stay before, uint8 [node].
    traced: Any
    before: Any
    population: Any  # nodes in each compartment, then cases, and then counters: int64
    starts: Any  # of interventions, see `shared.transmission.is_in_force`
    lines: Any  # see `shared.lines`
    decided: Any  # the next moment after whose moves a measure may start or stop, real [1]
    moves: Any  # by grid time: int32 [time_count + 1, column]; see `shared.ensemble`
    proposed: Any  # see `shared.tallying`
    case: Any  # case number of each node, int64 [node]
    work: Any  # events, infections, births: int64 [3]
    born: Any  # when it was born during the run, else NaN: real [node]
    happened: Any  # see `shared.counts`


class Run(NamedTuple):
    """Identity of the running replicate."""

    row: Any  # of the results
    replicate: Any
    seed: Any
    per_time: Any  # buckets of the queue per unit of time


def counted_in(nodes, run):
    """Where what measures do in a replicate is counted."""
    return Counted(nodes.moves, nodes.happened, np.int64(run.row))


class Event(NamedTuple):
    """An event that is taken from the queue."""

    time: Any
    kind: Any
    rank: Any  # among events of its time and kind
    node: Any
    arc: Any  # or the seed, the plan of importations, the intervention, the line, the counter
    stay: Any  # of the node
    key: Any  # of the contact, or the number of the importation
    is_over: Any  # whether an infection of the same moment ended the stay


class Move(NamedTuple):
    """The one node that an event may move."""

    node: Any  # -1 if no node moves
    compartment: Any  # after the move
    infector: Any  # -1 if none
    is_case: Any


def nobody_moves():
    """The empty move of an event that moves no node."""
    return Move(NOBODY, np.int64(0), NOBODY, False)


class Cases(NamedTuple):
    """The line list of some replicates: one row of each array per replicate."""

    count: Any  # int64 [row]; may exceed `room`
    node: Any  # int64 [row, room]
    infector: Any
    time: Any  # float64 [row, room]
    born: Any  # when the node was born during the run; NaN if it was not
    entered: Any  # float64 [row, room, compartment]; NaN before
    happened: Any  # see `shared.counts`
