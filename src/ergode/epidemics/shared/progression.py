"""Progression of a node after infection: its stages and holding times.

Every method shares this module.  It makes the tables of a model, and has the device functions that
read them: the holding time of a node in a compartment, and the next compartment.  Both are pure
functions of (seed, replicate, node, compartment).
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.compiler.source import Precision
from ergode.core.math.random import BRANCHING, HOLDING_TIME, draw_words, uniform
from ergode.epidemics.shared.options import WIDE
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, point_of
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.holding_times import kernels

_FOR_EVER = float("inf")


class Stages(NamedTuple):
    """A model as flat arrays, one row per compartment; real arrays may have an axis of points."""

    kind: Any  # kind of holding time, int32 [compartment_count]; -1 without a progression
    a: Any  # its parameters, real [compartment_count]
    b: Any
    table_start: Any  # its rows of the two tables, int32 [compartment_count + 1]
    table_time: Any  # real [table_length]
    table_cdf: Any
    transmission_rate: Any  # out of a node in it, real [compartment_count]
    branch_start: Any  # its rows of the branches, int32 [compartment_count + 1]
    branch_to: Any  # int32 [branch_count]
    branch_cdf: Any  # real [branch_count]
    order: Any  # compartments, each before those it leads to, int32 [compartment_count]


def stages_of(model: CompartmentModel, precision: Precision) -> Stages:
    """The tables of a model on the host."""
    tables = stages_of_points([model], precision)
    return tables._replace(**{name: getattr(tables, name)[0] for name in _BY_POINT})


_BY_POINT = ("a", "b", "table_time", "table_cdf", "transmission_rate", "branch_cdf")


@np.errstate(over="ignore")  # `check_stages` reports what is too large
def stages_of_points(models: Sequence[CompartmentModel], precision: Precision) -> Stages:
    """The tables of several models that differ only in numbers (see `PointGroup`)."""
    first, points = models[0], len(models)
    index, count = first.index, len(first.compartments)
    kind = np.full(count, -1, np.int32)
    parameters = np.zeros((2, points, count), precision)
    rate = np.zeros((points, count), precision)
    numbers = {index[p.compartment]: number for number, p in enumerate(first.progressions)}
    table_start, branch_start = [0], [0]
    tables: list[np.ndarray] = []  # [time or cdf, point, row]
    branch_to: list[int] = []
    chances: list[np.ndarray] = []  # [point, branch]
    for compartment in range(count):
        length = 0
        if compartment in numbers:
            each = [model.progressions[numbers[compartment]] for model in models]
            codes = [one.holding_time.code() for one in each]
            kind[compartment] = codes[0].kind
            parameters[0, :, compartment] = [code.a for code in codes]
            parameters[1, :, compartment] = [code.b for code in codes]
            if codes[0].times is not None:
                tables.append(np.array([[c.times for c in codes], [c.cdf for c in codes]]))
                length = tables[-1].shape[2]
            # In the order of compartments, so that equal models make equal draws.
            names = sorted(each[0].branches, key=lambda name: index[name])
            branch_to += [index[name] for name in names]
            chances.append(np.cumsum([[one.to[name] for name in names] for one in each], axis=1))  # type: ignore[index]
        table_start.append(table_start[-1] + length)
        branch_start.append(len(branch_to))
    for number, infection in enumerate(first.infections):
        for name in infection.transmission_rate:
            rate[:, index[name]] = [m.infections[number].transmission_rate[name] for m in models]
    times, cdf = np.zeros((points, 1), precision), np.ones((points, 1), precision)
    if tables:
        times, cdf = np.concatenate(tables, axis=2).astype(precision)
    cumulative = np.concatenate(chances or [np.ones((points, 1))], axis=1)
    return Stages(
        kind, parameters[0], parameters[1], np.array(table_start, np.int32), times, cdf, rate,
        np.array(branch_start, np.int32), np.array(branch_to or [0], np.int32),
        cumulative.astype(precision), _order(first),
    )  # fmt: skip


def _order(model: CompartmentModel) -> np.ndarray:
    """Compartments in the order of visits; in the listed order if a node may visit one twice."""
    before: dict[str, set[str]] = {name: set() for name in model.compartments}
    for progression in model.progressions:
        for name in progression.branches:
            before[name].add(progression.compartment)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        order = list(model.compartments)
    return np.array([model.index[name] for name in order], np.int32)


def stages_of_group(
    model: CompartmentModel, group: PointGroup | None, precision: Precision
) -> Stages:
    """The tables of a model, or of the models of a group."""
    return (
        stages_of(model, precision) if group is None else stages_of_points(group.models, precision)
    )


def stages_of_row(stages, rows, row):
    """The stages of the point of a row."""
    if SWEPT:
        point = point_of(rows, row)
        return Stages(
            stages.kind, stages.a[point], stages.b[point], stages.table_start,
            stages.table_time[point], stages.table_cdf[point], stages.transmission_rate[point],
            stages.branch_start, stages.branch_to, stages.branch_cdf[point], stages.order,
        )  # fmt: skip
    return stages


EVERY_KIND = kernels.flags(kernels.KINDS)
"""The bindings of a kernel for every model."""


def bindings_of(model: CompartmentModel) -> dict[Any, bool]:
    """Which kinds of holding time a kernel for this model must contain."""
    return kernels.flags({p.holding_time.code().kind for p in model.progressions})


def stay_index(compartment, stay):
    """Index of the draws of a node's stay; for the first stay it is the compartment.

    `stay` is the number of earlier stays of the node; the index repeats after 65,536 stays.
    """
    return np.int32(compartment) | np.int32(np.int32(stay & 0xFFFF) << np.int32(8))


def holding_time(stages, compartment, seed, replicate, node):
    """Holding time of a node in a compartment; infinite without a progression."""
    return holding_time_of_stay(stages, compartment, compartment, seed, replicate, node)


def holding_time_of_stay(stages, compartment, index, seed, replicate, node):
    """Holding time of a node in a compartment, for a stay with this index (see `stay_index`)."""
    kind = stages.kind[compartment]
    if kind < 0:
        return _FOR_EVER
    return kernels.draw(
        kind,
        stages.a[compartment],
        stages.b[compartment],
        stages.table_time,
        stages.table_cdf,
        stages.table_start[compartment],
        stages.table_start[compartment + 1],
        seed,
        replicate,
        node,
        HOLDING_TIME,
        index,
    )


def remaining_time(stages, compartment, index, age, seed, replicate, node):
    """Remaining holding time of a node that has been in a compartment for `age`."""
    if not age > 0.0:
        return holding_time_of_stay(stages, compartment, index, seed, replicate, node)
    kind = stages.kind[compartment]
    if kind < 0:
        return _FOR_EVER
    a, b = stages.a[compartment], stages.b[compartment]
    first, last = stages.table_start[compartment], stages.table_start[compartment + 1]
    w0, w1, w2, w3 = draw_words(seed, replicate, node, HOLDING_TIME, index)
    left = uniform(w0, w1) * kernels.survival(
        kind, a, b, stages.table_time, stages.table_cdf, first, last, age
    )
    total = kernels.survival_quantile(
        kind, a, b, stages.table_time, stages.table_cdf, first, last, left
    )
    return max(total - age, real(0.0))


def next_compartment(stages, compartment, seed, replicate, node):
    """Next compartment of a node in a compartment with a progression."""
    return next_compartment_of_stay(stages, compartment, compartment, seed, replicate, node)


def next_compartment_of_stay(stages, compartment, index, seed, replicate, node):
    """Next compartment of a node after a stay with this index (see `stay_index`)."""
    branch = stages.branch_start[compartment]
    last = stages.branch_start[compartment + 1] - 1
    if branch < last:
        w0, w1, w2, w3 = draw_words(seed, replicate, node, BRANCHING, index)
        u = uniform(w0, w1)
        while branch < last and u > stages.branch_cdf[branch]:
            branch += 1
    return stages.branch_to[branch]


# ---- CPU: many nodes of one replicate at once, in lanes that fill vector registers

# Enough lanes to fill the registers many times, few enough to stay in the first-level cache.
LANES = 256


class Lanes(NamedTuple):
    """Nodes on their way through the compartments: a structure of arrays [lane]."""

    node: Any
    compartment: Any
    since: Any  # when the node entered its compartment
    group: Any  # lanes whose node is in one compartment, their nodes and holding times
    group_node: Any
    group_duration: Any


def new_lanes():
    """Lanes for one thread."""
    return Lanes(
        np.empty(LANES, np.uint64 if WIDE else np.uint32),
        np.empty(LANES, np.int32),
        np.empty(LANES, real),
        np.empty(LANES, np.int32),
        np.empty(LANES, np.uint64 if WIDE else np.uint32),
        np.empty(LANES, real),
    )


def hold(lanes, count, stages, compartment, horizon, seed, replicate):
    """Group the lanes whose node is in a compartment by `horizon`; draw their holding times.

    One pass over `stages.order` visits every stage of every node, and all draws of a loop are from
    one distribution.  Returns the size of the group.
    """
    size = 0
    for lane in range(count):
        lanes.group[size] = lane
        lanes.group_node[size] = lanes.node[lane]
        size += np.int64(lanes.compartment[lane] == compartment and lanes.since[lane] <= horizon)
    for k in range(size):
        lanes.group_duration[k] = holding_time(
            stages, compartment, seed, replicate, lanes.group_node[k]
        )
    return size


def advance(lanes, size, stages, compartment, seed, replicate):
    """Move the group to its next compartments."""
    for k in range(size):
        lane = lanes.group[k]
        lanes.since[lane] += lanes.group_duration[k]
        lanes.compartment[lane] = next_compartment(
            stages, compartment, seed, replicate, lanes.group_node[k]
        )
