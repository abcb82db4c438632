"""Nodes in a window of time: their state at its beginning, and their moves within it.

A node of a replicate has a place in each array; the replicates of a chunk lie one after another,
a row each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import bits, from_bits, real, to_bits
from ergode.epidemics.shared.arcs import layer_of, node_count_of, number_back
from ergode.epidemics.shared.clock import at_moment
from ergode.epidemics.shared.contacts import contact_entity, just_before
from ergode.epidemics.shared.options import (
    HAS_AGES,
    HAS_IMPORTATIONS,
    MULTIGRAPH,
    TEMPORAL,
)
from ergode.epidemics.shared.progression import holding_time_of_stay, remaining_time, stay_index
from ergode.epidemics.shared.row_tables import tables_of_row
from ergode.epidemics.shared.sweep import SWEPT

# Flag in a state, next to the compartment: the node was infected at the first moment of its stay.
_OPEN = 128
# Moves that a path has room for within a window.
ROOM = 4
# Flag in a path, next to the compartment after a move: the move is an infection.
INFECTED = 128
COMPARTMENTS_MOST = INFECTED
_NEVER = float("inf")


class Contacts(NamedTuple):
    """Incoming and outgoing arcs of each node; see `shared.arcs`."""

    incoming: Any
    outgoing: Any
    # Of each incoming arc among outgoing ones, for its meetings, or [1] if kernels do not read it.
    number: Any


class Paths(NamedTuple):
    """State of nodes at the beginning of a window, and their moves within it."""

    # Data that neighbours read is contiguous: begin and planned end of the stay, as bits;
    # compartment and number of moves in the window; number of earlier stays.
    state: Any  # bits [place, 4]
    time: Any  # of moves, real [ROOM, place]
    to: Any  # and whether they are infections, uint8 [ROOM, place]
    infector: Any  # int32 [ROOM, place], or [1, 1] without a line list
    queued: Any  # int32 [place]
    exposing: Any  # arcs into a node from nodes that are infectious at first, int32 [place]


class Recent(NamedTuple):
    """Entries that triggers count in a window of time."""

    over: Any  # when an entry is no longer counted, real [room, place]
    mark: Any  # the counter, and above it what the entry has added, int32 [room, place]
    count: Any  # int32 [place]


class Epidemic(NamedTuple):
    """The replicates of a chunk: tables and state."""

    contacts: Any  # Contacts
    tables: Any  # see `shared.tables.EpidemicTables`
    imported_cases: Any  # see `shared.importation`
    paths: Any  # Paths
    triggers: Any  # see `windows.triggers`
    tracing: Any  # see `windows.tracing`
    lines: Any  # see `shared.lines`
    recent: Any  # Recent
    seed: Any


def epidemic_of_row(epidemic, rows, row):
    """The epidemic with the tables of the point of a row."""
    if SWEPT:
        return Epidemic(
            epidemic.contacts, tables_of_row(epidemic.tables, rows, row), epidemic.imported_cases,
            epidemic.paths, epidemic.triggers, epidemic.tracing, epidemic.lines, epidemic.recent,
            epidemic.seed,
        )  # fmt: skip
    return epidemic


def contact_into(epidemic, node, arc, source):
    """Number, among the arcs out of `source`, and key of an incoming arc of a node."""
    contacts = epidemic.contacts
    incoming = contacts.incoming
    number = np.int64(0)
    if MULTIGRAPH:
        number = number_back(incoming, contacts.number, node, arc, source)
    elif TEMPORAL:
        number = np.int64(contacts.number[arc])
    entity = contact_entity(
        number, source, node, layer_of(incoming, arc), node_count_of(incoming),
        epidemic.tables.calendars.peak.size,
    )  # fmt: skip
    return number, entity


class Place(NamedTuple):
    """Indices of one node in one replicate."""

    row: Any  # of results and of imported cases
    slot: Any  # of the state of triggers
    position: Any  # of the node in paths
    node: Any
    replicate: Any


def since_of(paths, position):
    """Begin of a node's stay."""
    return from_bits(bits(paths.state[position, 0]))


def until_of(paths, position):
    """End of a node's stay without an infection."""
    return from_bits(bits(paths.state[position, 1]))


def compartment_of(paths, position):
    """Compartment of a node at the beginning of a window."""
    return np.int64(paths.state[position, 2] & bits(_OPEN - 1))


def is_open_at_first(paths, position):
    """Whether an infection began the stay, so that contacts at its first moment do not count."""
    return (paths.state[position, 2] & bits(_OPEN)) != bits(0)


def opened_at(paths, position):
    """A time that contacts of a node's stay are later than."""
    since = since_of(paths, position)
    return since if is_open_at_first(paths, position) else just_before(since)


def moves_of(paths, position):
    """Number of moves of a node's path."""
    return np.int64(paths.state[position, 2] >> bits(8))


def stay_of(paths, position):
    """Number of a node's stay; the first is 1."""
    return np.int32(paths.state[position, 3])


def set_moves(paths, position, count):
    """Store the number of moves of a path."""
    first = bits(paths.state[position, 2] & bits(0xFF))
    paths.state[position, 2] = first | bits(bits(count) << bits(8))


def set_stay(tables, paths, position, node, compartment, time, age, is_open, stay, seed, replicate):
    """Set a node's stay at the beginning of a window, after `stay` earlier stays.

    At `time` the node has the age `age` in the compartment.  If `is_open`, contacts at the first
    moment of the stay do not count.
    """
    index = stay_index(compartment, stay)
    if HAS_AGES:
        until = time + remaining_time(tables.stages, compartment, index, age, seed, replicate, node)
    else:
        until = time + holding_time_of_stay(
            tables.stages, compartment, index, seed, replicate, node
        )
    paths.state[position, 0] = to_bits(real(time - age))
    paths.state[position, 1] = to_bits(real(at_moment(tables.moments, until)))
    paths.state[position, 2] = bits(compartment) | (bits(_OPEN) if is_open else bits(0))
    paths.state[position, 3] = bits(stay + np.int32(1))


def begin_at_base(tables, paths, position, node, in_degree, seed, replicate):
    """Initialise a node that is not a seed, at time zero."""
    base = np.int64(tables.base)
    paths.queued[position] = 0
    paths.exposing[position] = np.int32(in_degree if tables.infections.infectious[base] != 0 else 0)
    for k in range(ROOM):
        paths.time[k, position] = 0.0
        paths.to[k, position] = 0
    if tables.stages.kind[base] >= 0:
        set_stay(
            tables, paths, position, node, base, real(0.0), real(0.0), False, np.int32(0), seed,
            replicate,
        )  # fmt: skip
    else:
        paths.state[position, 0] = to_bits(real(-1.0))
        paths.state[position, 1] = to_bits(real(_NEVER))
        paths.state[position, 2] = bits(base)
        paths.state[position, 3] = bits(0)


def is_at_risk(tables, paths, position):
    """Whether a node may be infected in the compartment of the beginning of a window."""
    return tables.infections.at_risk[compartment_of(paths, position)] != 0


def idle(tables, paths, position, stop):
    """Whether a node cannot move before `stop`."""
    return until_of(paths, position) >= stop and not is_at_risk(tables, paths, position)


def unexposed(tables, paths, position, stop):
    """Whether a node cannot move before `stop` unless another becomes infectious."""
    exposed = HAS_IMPORTATIONS or paths.exposing[position] > 0
    return until_of(paths, position) >= stop and not (
        exposed and is_at_risk(tables, paths, position)
    )


def destination(paths, k, position):
    """Compartment after the k-th move of a path."""
    return np.int64(paths.to[k, position] & np.uint8(INFECTED - 1))


def is_wait(paths, k, position, here):
    """Whether the k-th move of a path is the beginning of a wait, in the compartment `here`."""
    return np.int64(paths.to[k, position]) == here


def is_infection(paths, k, position):
    """Whether the k-th move of a path is an infection, by a node or an importation."""
    return paths.to[k, position] >= INFECTED
