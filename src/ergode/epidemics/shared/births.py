"""Births at a rate of each living person.

A person who may have children has a clock of her own: births are points of a Poisson process at the
largest rate, each with a mark.  A point counts if she is then in a compartment of mothers, and the
mark is below the rate there, relative to the largest.  The points are functions of (seed,
replicate, mother), and can be computed from any moment on, like contacts (`shared.contacts`).

Each birth is that of the next unborn node: births are in the order of time, and at one moment in
the order of mothers; unborn nodes are in the order of `initial`.  So the number of people is a
linear birth process, with death as the model has it (D. G. Kendall, J. R. Stat. Soc. B 11, 1949).

A birth at the moment at which a stay of the mother ends belongs to this stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.random import BIRTH, draw_words, exponential, uniform
from ergode.epidemics.seeding import Initial, seed_node, seeding_of, seedings_of
from ergode.epidemics.shared.options import HAS_BIRTHS
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, point_of
from ergode.models.epidemic.compartments import CompartmentModel

_CELL_BITS = 26
_CELLS_MOST = 1 << _CELL_BITS  # on the clock of a mother
_NEVER = float("inf")
# A cell is looked for from a little earlier, because products of floats round.
_EARLIER = 1.0 - 2.0**-18


class Births(NamedTuple):
    """Who has children, and who is born; the largest rate is in the stages of the unborn."""

    unborn: Any  # their compartment; -1 without births
    # By point in a sweep: rates of people in each compartment, relative to the largest; and unborn
    # nodes that `initial` names, and how many.
    share: Any  # real [compartment]
    named: Any  # int64 [named]
    count: Any  # int64 [1]
    outside: Any  # whether nodes in a compartment are not born or dead, uint8 [compartment]


def births_of(
    model: CompartmentModel, initial: Initial, node_count: int, precision: Precision,
    group: PointGroup | None,
) -> Births:  # fmt: skip
    """The table of a model, or of a group."""
    models = [model] if group is None else group.models
    share = np.zeros((len(models), len(model.compartments)), precision)
    outside = np.isin(model.compartments, model.outside).astype(np.uint8)
    if model.unborn is None:
        none = np.zeros(1, np.int64)
        return Births(np.int64(-1), share[0], none, none, outside)
    for row, one in zip(share, models, strict=True):
        for name, value in one.births_by.items():
            row[model.index[name]] = value
    unborn = model.index[model.unborn]
    if group is None:
        seeds = [seeding_of(model, initial, node_count, precision)]
    else:
        seeds = seedings_of(group, node_count, precision)
    each = [
        one.named_node[: one.named_count][one.named_compartment[: one.named_count] == unborn]
        for one in seeds
    ]
    named = np.zeros((len(each), max(1, max(map(len, each)))), np.int64)
    for row, nodes in zip(named, each, strict=True):
        row[: len(nodes)] = nodes
    count = np.array([[len(nodes)] for nodes in each], np.int64)
    if group is None:
        share, named, count = share[0], named[0], count[0]
    return Births(np.int64(unborn), share, named, count, outside)


def births_of_row(births, rows, row):
    """The table of the point of a row."""
    if SWEPT and HAS_BIRTHS:
        point = point_of(rows, row)
        return Births(
            births.unborn, births.share[point], births.named[point], births.count[point],
            births.outside,
        )  # fmt: skip
    return births


def check_births(model: CompartmentModel, stages: Any, initial: Any, horizon: float) -> None:
    """Refuse births without unborn nodes, and rates that are too large for a run.

    `stages` are those of one or more points; `horizon` is the length of the run.
    """
    if model.unborn is None:
        return
    if not np.size(initial.get(model.unborn, ())) or np.all(initial[model.unborn] == 0):
        raise ModelError(
            f"initial names no nodes in '{model.unborn}', and people have children; expected as "
            "many unborn nodes as births, or more"
        )
    most = float(np.max(stages.a[..., model.index[model.unborn]])) * horizon
    if not most < _CELLS_MOST:
        raise ModelError(
            f"a person has up to {most:.3g} children from the first of times to the last; "
            f"expected fewer than {_CELLS_MOST:,}"
        )


# ---- device functions


def next_birth(births, stages, compartment, mother, after, before, seed, replicate):
    """Time of the first birth by a person in a compartment, within two times; else infinity."""
    share = births.share[compartment]
    rate = stages.a[births.unborn]
    if not (share > 0.0 and rate > 0.0):
        return real(_NEVER)
    cell = np.int64(rate * after * _EARLIER)
    while real(cell) / rate < before:
        place = real(0.0)
        number = 0
        while number < 64:
            index = np.uint32(cell) | np.uint32(np.uint32(number) << np.uint32(_CELL_BITS))
            w0, w1, w2, w3 = draw_words(seed, replicate, mother, BIRTH, index)
            place += exponential(w0, w1)
            if place >= 1.0:
                break
            time = real((real(cell) + place) / rate)
            if time >= before:
                return real(_NEVER)
            if time > after and uniform(w2, w3) <= share:
                return time
            number += 1
        cell += 1
    return real(_NEVER)


def child_of(births, seeding, number, node_count, seed, replicate):
    """The node that is born by birth `number` of a replicate, or -1 if no more are unborn."""
    if number < births.count[0]:
        return np.int64(births.named[number])
    number -= births.count[0]
    first = np.int64(0)
    if seeding.drawn_count > 0:
        for group in range(seeding.drawn_end.size):
            size = np.int64(seeding.drawn_end[group]) - first
            if np.int64(seeding.drawn_compartment[group]) == births.unborn:
                if number < size:
                    index = np.int64(seeding.named_count) + first + number
                    return np.int64(seed_node(seeding, index, node_count, seed, replicate))
                number -= size
            first += size
    return np.int64(-1)
