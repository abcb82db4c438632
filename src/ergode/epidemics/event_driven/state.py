"""What the event-driven kernel keeps of one replicate, and its events."""

from __future__ import annotations

from typing import Any, NamedTuple

# Kinds of events, in the order in which those of one moment come.
SEED, FIRST_STAY, PROGRESS, DETECTION, QUARANTINE, IMPORT, CONTACT = range(7)
NEVER = float("inf")
NOT_YET = float("nan")


class Contacts(NamedTuple):
    """Whom a node may infect."""

    offsets: Any  # a node's outgoing arcs are offsets[i] : offsets[i + 1]
    targets: Any
    weights: Any
    layer: Any


class Nodes(NamedTuple):
    """Where the nodes of one replicate are."""

    compartment: Any  # uint8 [node]
    since: Any  # real [node]
    opened: Any  # contacts of its stay are later than this, real [node]
    ended: Any  # the stay that its last infection ended, int32 [node]
    was: Any  # the compartment of that stay, uint8 [node]
    was_since: Any  # real [node]
    until: Any  # when it moves on unless it is infected before, real [node]
    stay: Any  # compartments it was in before, int32 [node]
    quarantine: Any  # see `put_in_quarantine`, real [intervention, node, 3]
    population: Any  # nodes in each compartment and, at the end, cases: int64 [compartments + 1]
    starts: Any  # of interventions, real [intervention]
    moved_at: Any  # last moment of a move, if triggers are still to be looked at: real [1]
    moves: Any  # by grid time: int32 [time_count + 1, (compartment + cases) x stratum]
    case: Any  # number of the case that each node is, int64 [node]
    work: Any  # events, infections: int64 [2]


class Run(NamedTuple):
    """Which replicate is run."""

    row: Any  # of the results
    replicate: Any
    seed: Any
    per_time: Any  # buckets of the queue a unit of time


class Event(NamedTuple):
    """An event that is taken from the queue."""

    time: Any
    kind: Any
    node: Any
    arc: Any  # or the seed, the plan of importations, the intervention
    stay: Any  # of the node
    key: Any  # of the contact, or the number of the importation
    is_over: Any  # whether an infection of the same moment ended the stay


class Move(NamedTuple):
    """The one node that an event may move."""

    node: Any  # -1 if nobody moves
    compartment: Any  # where to
    infector: Any  # -1 for nobody
    is_case: Any


class Cases(NamedTuple):
    """The line list of some replicates: a row of each array a replicate."""

    count: Any  # int64 [row]; may exceed the room there is
    node: Any  # int64 [row, room]
    infector: Any
    time: Any  # float64 [row, room]
    entered: Any  # float64 [row, room, compartment]; NaN before
