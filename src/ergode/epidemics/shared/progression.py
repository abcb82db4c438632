"""Progression of a node after infection: its stages and holding times.

Every method shares this module.  It makes the tables of a model, and has the device functions that
read them: the holding time of a node in a compartment, and the next compartment.  Both are pure
functions of (seed, replicate, node, compartment).

If nodes progress by attributes (`ByAttribute`), nodes that agree in all of these form a class, and
the tables have a row for each class and compartment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import noinline_cpu, option, real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.random import (
    BRANCHING,
    EXIT,
    HOLDING_TIME,
    draw_words,
    exponential,
    uniform,
)
from ergode.epidemics.shared.kept import kept
from ergode.epidemics.shared.options import WIDE
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, numbers_of, point_of, rates_of
from ergode.models.epidemic.attributes import ByAttribute, Network, entry_of_nodes
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.holding_times import kernels
from ergode.models.holding_times.base import HoldingTimeCode

_FOR_EVER = float("inf")


HAS_EXITS = option(False)
"""Whether nodes leave a compartment at a rate, before its holding time is over."""
HAS_CLASSES = option(False)
"""Whether nodes progress by their attributes."""
MIXED_KINDS = option(False)
"""Whether classes of nodes differ in the kind of a holding time."""

CLASSES_MOST = 2**16


class Classes(NamedTuple):
    """Classes of nodes that progress alike."""

    class_count: int
    of_node: np.ndarray  # uint16 [node_count]; [1] if there is one class
    entry: dict[Any, np.ndarray]  # by `ByAttribute.division`: the entry of each class, [count]


ALL_ALIKE = Classes(1, np.zeros(1, np.uint16), {})


def classes_of(model: CompartmentModel, contacts: Network) -> Classes:
    """The classes of a network's nodes under a model.

    Raises a ModelError if the network has no such attribute, a node's value has no entry, or there
    are too many classes.
    """
    divisions = model.divisions
    if not divisions:
        return ALL_ALIKE
    names = [name for name, _, _ in divisions]
    return kept(contacts, "classes", divisions, names, lambda: _classes(divisions, contacts))


def _classes(divisions: tuple[Any, ...], contacts: Network) -> Classes:
    code, present = np.zeros(contacts.node_count, np.int64), np.zeros(1, np.int64)
    found: list[np.ndarray] = []
    for division in divisions:
        entry = entry_of_nodes(division, contacts)
        size = int(entry.max(initial=0)) + 1
        seen = np.flatnonzero(np.bincount(code * size + entry, minlength=present.size * size))
        place = np.zeros(present.size * size, np.int64)
        place[seen] = np.arange(seen.size)
        code = place[code * size + entry]
        found = [one[seen // size] for one in found] + [seen % size]
        present = seen
        if present.size > CLASSES_MOST:
            names = ", ".join(dict.fromkeys(name for name, _, _ in divisions))
            raise ModelError(
                f"the attributes {names} divide the nodes into {present.size:,} classes; group "
                f"their values into {CLASSES_MOST:,} or fewer"
            )
    of_node = code.astype(np.uint16)
    of_node.setflags(write=False)
    return Classes(max(present.size, 1), of_node, dict(zip(divisions, found, strict=True)))


class Stages(NamedTuple):
    """A model as flat arrays; real arrays may have an axis of points.

    A row is a compartment of a class (`row_of`).
    """

    kind: Any  # kind of holding time, int32 [row_count]; -1 without a progression
    a: Any  # its parameters, real [row_count]
    b: Any
    table_start: Any  # its rows of the two tables, int32 [row_count + 1]
    table_time: Any  # real [table_length]
    table_cdf: Any
    transmission_rate: Any  # out of a node in it, real [compartment_count]
    branch_start: Any  # its rows of the branches, int32 [row_count + 1]
    branch_to: Any  # int32 [branch_count]
    branch_cdf: Any  # real [branch_count]
    order: Any  # compartments, each before those it leads to, int32 [compartment_count]
    class_of: Any  # of each node, uint16 [node_count], or [1]
    exit_rate: Any  # real [row_count], or [1] without exits
    exit_start: Any  # a row's rows of the next two, int32 [row_count + 1]
    exit_to: Any  # int32 [exit_count]
    exit_cdf: Any  # real [exit_count]


def stages_of(
    model: CompartmentModel, precision: Precision, classes: Classes = ALL_ALIKE
) -> Stages:
    """The tables of a model on the host."""
    tables = stages_of_points([model], precision, classes)
    return tables._replace(**{name: getattr(tables, name)[0] for name in _BY_POINT})


_BY_POINT = ("a", "b", "table_time", "table_cdf", "transmission_rate", "branch_cdf", "exit_rate")


@np.errstate(over="ignore")  # `check_stages` reports what is too large
def stages_of_points(
    models: Sequence[CompartmentModel], precision: Precision, classes: Classes = ALL_ALIKE
) -> Stages:
    """The tables of several models that differ only in numbers (see `PointGroup`)."""
    first, points = models[0], len(models)
    index, count = first.index, len(first.compartments)
    kind = np.full(classes.class_count * count, -1, np.int32)
    parameters = np.zeros((2, points, classes.class_count * count), precision)
    rate = np.zeros((points, count), precision)
    numbers = {index[p.compartment]: number for number, p in enumerate(first.progressions)}
    stays = {at: _stays(models, number) for at, number in numbers.items()}
    splits = {at: _splits(models, number) for at, number in numbers.items()}
    table_start, branch_start = [0], [0]
    tables: list[np.ndarray] = []  # [time or cdf, point, row]
    branch_to: list[int] = []
    chances: list[np.ndarray] = []  # [point, branch]
    for row in range(classes.class_count * count):
        which, compartment = divmod(row, count)
        length = 0
        if compartment in numbers:
            progression = first.progressions[numbers[compartment]]
            stay = stays[compartment][_entry(progression.holding_time, which, classes)]
            kind[row], parameters[:, :, row] = stay.kind, stay.parameters.T
            if stay.table is not None:
                tables.append(stay.table)
                length = stay.table.shape[2]
            names, cumulative = splits[compartment][_entry(progression.to, which, classes)]
            branch_to += [index[name] for name in names]
            chances.append(cumulative)
        table_start.append(table_start[-1] + length)
        branch_start.append(len(branch_to))
    names = [name for infection in first.infections for name in infection.transmission_rate]
    rates = numbers_of(models, rates_of)
    for number, name in enumerate(names):
        rate[:, index[name]] = rates[:, number]
    times, cdf = np.zeros((points, 1), precision), np.ones((points, 1), precision)
    if tables:
        times, cdf = np.concatenate(tables, axis=2).astype(precision)
    cumulative = np.concatenate(chances or [np.ones((points, 1))], axis=1)
    return Stages(
        kind, parameters[0], parameters[1], np.array(table_start, np.int32), times, cdf, rate,
        np.array(branch_start, np.int32), np.array(branch_to or [0], np.int32),
        cumulative.astype(precision), _order(first), classes.of_node,
        *_exits(models, precision, classes),
    )  # fmt: skip


def _exits(
    models: Sequence[CompartmentModel], precision: Precision, classes: Classes
) -> tuple[np.ndarray, ...]:
    """Rates of exits [point, row], and where they lead."""
    first = models[0]
    count = classes.class_count * len(first.compartments) if first.has_exits else 1
    rate = np.zeros((len(models), count), precision)
    start, to, cumulative = np.zeros(count + 1, np.int32), [0], [1.0]
    if first.has_exits:
        to, cumulative = [], []
        numbers = {first.index[p.compartment]: k for k, p in enumerate(first.progressions)}
        for row in range(count):
            which, compartment = divmod(row, len(first.compartments))
            number = numbers.get(compartment, -1)
            if number >= 0 and first.progressions[number].exits:
                progression = first.progressions[number]
                entry = _entry(progression.exit_rate, which, classes)
                rate[:, row] = numbers_of(models, partial(_exit_rate, number, entry))[:, 0]
                to += [first.index[name] for name in progression.exits]
                cumulative += np.cumsum(list(progression.exits.values())).tolist()
            start[row + 1] = len(to)
    return rate, start, np.array(to, np.int32), np.array(cumulative, precision)


def _exit_rate(number: int, entry: int, model: CompartmentModel) -> list[float]:
    return [model.progressions[number].exit_rates[entry]]


def _entry(given: Any, which: int, classes: Classes) -> int:
    """The entry of a class in a part of a model."""
    return int(classes.entry[given.division][which]) if isinstance(given, ByAttribute) else 0


class _Stay(NamedTuple):
    """A holding time at all points."""

    kind: int
    parameters: np.ndarray  # [point, 2]
    table: np.ndarray | None  # [time or cdf, point, row]


def _stays(models: Sequence[CompartmentModel], number: int) -> list[_Stay]:
    """The holding times of a progression, by entry."""
    found = []
    for entry, one in enumerate(models[0].progressions[number].holding_times):
        code, table = one.code(), None
        if code.times is not None:
            codes = [_code(number, entry, model) for model in models]
            table = np.array([[one.times for one in codes], [one.cdf for one in codes]])
        parameters = numbers_of(models, partial(_parameters, number, entry))
        found.append(_Stay(code.kind, parameters, table))
    return found


def _code(number: int, entry: int, model: CompartmentModel) -> HoldingTimeCode:
    return model.progressions[number].holding_times[entry].code()


def _parameters(number: int, entry: int, model: CompartmentModel) -> tuple[float, float]:
    code = _code(number, entry, model)
    return code.a, code.b


def _splits(models: Sequence[CompartmentModel], number: int) -> list[tuple[list[str], np.ndarray]]:
    """Targets of a progression, and their cumulative probabilities [point, target], by entry."""
    index, found = models[0].index, []
    for entry, split in enumerate(models[0].progressions[number].splits):
        # In the order of compartments, so that equal models make equal draws.
        names = sorted((n for n, p in split.items() if p > 0), key=lambda name: index[name])
        chances = numbers_of(models, partial(_chances, number, entry, names))
        found.append((names, np.cumsum(chances, axis=1)))
    return found


def _chances(number: int, entry: int, names: list[str], model: CompartmentModel) -> list[float]:
    split = model.progressions[number].splits[entry]
    return [split[name] for name in names]


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
    model: CompartmentModel, group: PointGroup | None, precision: Precision, contacts: Network
) -> Stages:
    """The tables of a model, or of the models of a group, for the nodes of a network."""
    classes = classes_of(model, contacts)
    if group is None:
        return stages_of(model, precision, classes)
    return stages_of_points(group.models, precision, classes)


def stages_of_row(stages, rows, row):
    """The stages of the point of a row."""
    if SWEPT:
        point = point_of(rows, row)
        return Stages(
            stages.kind, stages.a[point], stages.b[point], stages.table_start,
            stages.table_time[point], stages.table_cdf[point], stages.transmission_rate[point],
            stages.branch_start, stages.branch_to, stages.branch_cdf[point], stages.order,
            stages.class_of, stages.exit_rate[point], stages.exit_start, stages.exit_to,
            stages.exit_cdf,
        )  # fmt: skip
    return stages


def bindings_of(model: CompartmentModel) -> dict[Any, bool]:
    """Which kinds of holding time a kernel for this model must contain."""
    return kernels.flags({one.code().kind for p in model.progressions for one in p.holding_times})


def class_bindings(model: CompartmentModel) -> dict[Any, bool]:
    """Options of a kernel for a model whose nodes progress by attributes, or by exits."""
    found = {HAS_EXITS: True} if model.has_exits else {}
    if not model.divisions:
        return found
    kinds = [{one.code().kind for one in p.holding_times} for p in model.progressions]
    return found | {HAS_CLASSES: True, MIXED_KINDS: any(len(some) > 1 for some in kinds)}


def row_of(stages, compartment, node):
    """Row of the tables for a node in a compartment."""
    if HAS_CLASSES:
        return np.int64(compartment) + np.int64(stages.class_of[node]) * stages.order.size
    return compartment


def kind_of(stages, compartment, row):
    """Kind of the holding time in a row of a compartment."""
    # Kinds that all classes share are read once for many nodes.
    return stages.kind[row] if MIXED_KINDS else stages.kind[compartment]


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
    stay = _planned(stages, compartment, index, seed, replicate, node)
    if HAS_EXITS:
        row = row_of(stages, compartment, node)
        stay = min(stay, time_to_exit(stages, row, index, seed, replicate, node))
    return stay


def time_to_exit(stages, row, index, seed, replicate, node):
    """Time until a node would leave a compartment by an exit."""
    rate = stages.exit_rate[row]
    if not rate > 0.0:
        return real(_FOR_EVER)
    w0, w1, w2, w3 = draw_words(seed, replicate, node, EXIT, index)
    return real(exponential(w0, w1) / rate)


def _planned(stages, compartment, index, seed, replicate, node):
    """Holding time of a node that does not leave by an exit."""
    row = row_of(stages, compartment, node)
    kind = kind_of(stages, compartment, row)
    if kind < 0:
        return _FOR_EVER
    return kernels.draw(
        kind, stages.a[row], stages.b[row], stages.table_time, stages.table_cdf,
        stages.table_start[row], stages.table_start[row + 1], seed, replicate, node, HOLDING_TIME,
        index,
    )  # fmt: skip


def remaining_time(stages, compartment, index, age, seed, replicate, node):
    """Remaining holding time of a node that has been in a compartment for `age`."""
    if not age > 0.0:
        return holding_time_of_stay(stages, compartment, index, seed, replicate, node)
    row = row_of(stages, compartment, node)
    kind = kind_of(stages, compartment, row)
    if kind < 0:
        return _FOR_EVER
    a, b = stages.a[row], stages.b[row]
    first, last = stages.table_start[row], stages.table_start[row + 1]
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
    row = row_of(stages, compartment, node)
    if HAS_EXITS and time_to_exit(stages, row, index, seed, replicate, node) < _planned(
        stages, compartment, index, seed, replicate, node
    ):
        return exit_of_stay(stages, row, index, seed, replicate, node)
    branch = stages.branch_start[row]
    last = stages.branch_start[row + 1] - 1
    if branch < last:
        w0, w1, w2, w3 = draw_words(seed, replicate, node, BRANCHING, index)
        u = uniform(w0, w1)
        while branch < last and u > stages.branch_cdf[branch]:
            branch += 1
    return stages.branch_to[branch]


def exit_of_stay(stages, row, index, seed, replicate, node):
    """Next compartment of a node that leaves by an exit."""
    at = stages.exit_start[row]
    last = stages.exit_start[row + 1] - 1
    if at < last:
        w0, w1, w2, w3 = draw_words(seed, replicate, node, EXIT, index)
        u = uniform(w2, w3)
        while at < last and u > stages.exit_cdf[at]:
            at += 1
    return stages.exit_to[at]


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


@noinline_cpu
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
