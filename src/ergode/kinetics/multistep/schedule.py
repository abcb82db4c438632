"""Tables of a network for a warp of threads that share a zone (see `block.schedule`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.kinetics.block.schedule import (
    SUM_WIDTH,
    WARP,
    Blocked,
    by_warp,
    packed,
    program_of,
    rounds_of,
    segments_of,
)
from ergode.kinetics.multistep.tables import Chemistry
from ergode.kinetics.tables import Program, Segments


class Schedule(NamedTuple):
    """Sums and eliminations, divided among the threads of a warp."""

    # Net changes of species; what each term is multiplied by, float64 [warp, term, lane].
    changes: Segments
    change: np.ndarray
    slopes: Segments  # entries of the Jacobian
    slope: np.ndarray
    pivot: np.ndarray  # int32 [variable_count]: place of each diagonal entry
    pivots: Program
    factorization: Program
    forward: np.ndarray  # int64: rounds of substitution
    backward: np.ndarray


def scheduled(chemistry: Chemistry) -> Chemistry:
    """The tables with a schedule. Places of the matrix are behind one that is zero."""
    reactions, slopes, size = chemistry.reactions, chemistry.slopes, chemistry.plan.order.size
    blocked, nothing = Blocked(chemistry.plan, 0), (size, 0, size, 0)
    forward, backward = blocked.substitution()
    places = blocked.places
    schedule = Schedule(
        *_balanced(reactions.start, reactions.reaction, reactions.change),
        *_balanced(slopes.start, slopes.derivative, slopes.change),
        np.array([places[i, i] for i in range(size)], np.int32), blocked.pivots(WARP),
        program_of(blocked.factorization(), (0, 0, 0, size), WARP),
        rounds_of(forward, nothing, WARP), rounds_of(backward, nothing, WARP),
    )  # fmt: skip
    behind = slopes.entry + np.array([[0], [1]], np.uint32)
    slopes = slopes._replace(entry=behind, heat=slopes.heat + np.uint32(1))
    return chemistry._replace(slopes=slopes, schedule=schedule)


def _balanced(
    start: np.ndarray, term: np.ndarray, factor: np.ndarray
) -> tuple[Segments, np.ndarray]:
    """Sums of factors times terms of each row, and the factors."""
    counts = start[1:].astype(np.int64) - start[:-1]
    rows = np.repeat(np.arange(start.size - 1), counts).tolist()
    sums, order = segments_of(rows, range(start.size - 1), SUM_WIDTH, term.tolist())
    terms = np.append(term[order], 0).astype(np.int64)[sums.item]
    factors = np.append(factor[order], 0.0)[sums.item]
    words = packed(*(terms[k::4] for k in range(4)))
    return sums._replace(item=by_warp(words)), by_warp(factors)
