"""Initial compartments of nodes, and the ages of nodes in them.

For each compartment but the base one, `initial` names node ids (the same in every replicate) or a
number of random nodes (drawn anew in every replicate).  Random nodes are the first ranks of a keyed
shuffle of all nodes that are not named.  A kernel computes the node of a rank, and the rank of a
node, without storing either.

If some nodes are drawn by weight, the ranks are listed beforehand for each replicate.  A node of
weight w draws an exponential time of rate w, and the shortest times are taken.  This equals drawing
one node after another with probability proportional to w (Efraimidis, Spirakis, Inf. Process. Lett.
97, 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.arguments import did_you_mean
from ergode.core.calls import launch
from ergode.core.compiler.language import option
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device, resolve, spans
from ergode.core.devices.buffers import put_table
from ergode.core.devices.foreign import on_host
from ergode.core.errors import AccuracyWarning, ModelError
from ergode.core.math.random import (
    SEED_CHOICE,
    SEEDING,
    draw_words,
    exponential,
    shuffle_rank,
    shuffled,
)
from ergode.core.math.search import first_above
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, point_of, replicate_of, rows_from
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.seeds import Seeds
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.node_names import positions_of

Initial = Mapping[str, Any]

SWEPT_SEEDS = option(False)
"""Whether points of a launch differ in their seeds."""


class Seeding(NamedTuple):
    """Initial conditions as flat arrays."""

    named_node: Any  # ascending, int64 [named_count] (one unused entry where there are none)
    named_compartment: Any  # int32 [named_count]
    named_count: int
    drawn_end: Any  # rank at which each drawn compartment ends, ascending, int64 [group_count]
    drawn_compartment: Any  # int32 [group_count]
    drawn_count: int
    entry: int  # compartment that an infection leads to
    # Ages in the compartment, real [named_count], [group_count]:
    named_age: Any
    drawn_age: Any
    # If drawn nodes are listed, else empty: for each replicate from `first_listed` on, the nodes by
    # rank, and their ranks in the order of nodes; int64 [row, drawn_count].
    listed: Any
    listed_order: Any
    first_listed: int
    is_case: Any  # whether a seed in a compartment is a case, uint8 [compartment_count]
    # If points differ in their seeds, nodes and compartments of named seeds, ends, ages and
    # `drawn_count` have a leading axis of points.


def seeding_of(
    model: CompartmentModel, initial: Initial, node_count: int, precision: Precision = "float64"
) -> Seeding:
    """Check `initial` against a model and a network, and convert it to arrays.

    Raises a ModelError if an unknown compartment, a node id out of range or named twice, a count or
    fraction out of range, more seeds than nodes, or an age that no holding time reaches.
    """
    _check_names(model, initial)
    nodes: list[np.ndarray] = []
    places: list[np.ndarray] = []
    ages: list[np.ndarray] = []
    drawn_age: list[float] = []
    ends: list[int] = []
    drawn: list[int] = []
    total = fractions = 0
    fraction = 0.0
    # In the order of compartments, so that equal mappings draw equal nodes.
    for name in sorted(initial, key=lambda name: model.index[name]):
        value, age = initial[name], np.zeros(())
        if isinstance(value, Seeds):
            value, age = value.nodes, np.asarray(value.age)
            _check_age(model, name, float(age.max(initial=0.0)))
        if np.ndim(value):
            ids = _node_ids(name, on_host(value), node_count)
            nodes.append(ids)
            ages.append(np.broadcast_to(age, ids.shape))
            places.append(np.full(ids.size, model.index[name], np.int32))
        else:
            number = _number(name, value, node_count)
            if isinstance(number, float):
                # Cumulative sums are rounded, so that fractions never exceed the network.
                fraction += number
                number = round(fraction * node_count) - fractions
                if number == 0 and value > 0.0:
                    launch.warn(
                        f"initial['{name}'] is {value!r} of {node_count} nodes, which rounds to no "
                        "node",
                        AccuracyWarning,
                    )
                fractions += number
            total += number
            ends.append(total)
            drawn.append(model.index[name])
            drawn_age.append(float(age))
    infected = model.infected
    node = np.concatenate(nodes) if nodes else np.zeros(0, np.int64)
    place = np.concatenate(places) if places else np.zeros(0, np.int32)
    order = np.argsort(node, kind="stable")
    named_age = (np.concatenate(ages) if ages else np.zeros(0))[order]
    node, place = node[order], place[order]
    repeated = np.flatnonzero(node[1:] == node[:-1])
    if repeated.size:
        raise ModelError(f"initial names node {node[repeated[0]]} twice")
    if total + node.size > node_count:
        raise ModelError(
            f"initial places {total + node.size} nodes, but the network has {node_count}"
        )
    return Seeding(
        node if node.size else np.zeros(1, np.int64),
        place if node.size else np.zeros(1, np.int32),
        node.size,
        np.array(ends or [0], np.int64),
        np.array(drawn or [0], np.int32),
        total,
        model.index[model.infections[0].infected],
        (named_age if node.size else np.zeros(1)).astype(precision),
        np.array(drawn_age or [0.0], precision),
        np.zeros((0, 0), np.int64),
        np.zeros((0, 0), np.int64),
        0,
        np.array([name in infected for name in model.compartments], np.uint8),
    )


def located(initial: Initial, names: np.ndarray | None) -> Initial:
    """`initial` with positions of nodes in place of their names."""
    if not isinstance(initial, Mapping) or not (
        names is not None or any(isinstance(v, Seeds) and v.by for v in initial.values())
    ):
        return initial
    found: dict[str, Any] = {}
    for name, value in initial.items():
        nodes, by = (value.nodes, value.by) if isinstance(value, Seeds) else (value, None)
        if np.ndim(nodes) and (names is not None or by is not None):
            nodes = positions_of(nodes, names, f"initial['{name}']", by)
            value = replace(value, nodes=nodes, by=None) if isinstance(value, Seeds) else nodes
        found[name] = value
    return found


def seeds_without_case(
    model: CompartmentModel, initial: Initial, node_count: int
) -> dict[str, int]:
    """How many nodes begin in each compartment where a seed is no case."""
    if not set(initial) - set(model.infected):
        return {}
    seeding = seeding_of(model, initial, node_count)
    number = np.bincount(
        np.append(seeding.named_compartment[: seeding.named_count], seeding.drawn_compartment),
        np.append(np.ones(seeding.named_count), np.diff(seeding.drawn_end, prepend=0)),
        len(model.compartments),
    )
    return {
        name: int(number[k])
        for k, name in enumerate(model.compartments)
        if number[k] and not seeding.is_case[k]
    }


def _check_names(model: CompartmentModel, initial: Initial) -> None:
    """Check that `initial` maps compartments of a model, and not the base one."""
    if not isinstance(initial, Mapping):
        raise ModelError(
            f"initial must map compartments to numbers or node ids, such as {{'I': 10}}; found "
            f"{initial!r}"
        )
    for name in initial:
        if name not in model.index:
            raise ModelError(
                f"initial names the unknown compartment '{name}'; the model has "
                + ", ".join(model.compartments)
                + did_you_mean(name, model.compartments)
            )
        if name == model.infections[0].susceptible:
            raise ModelError(
                f"initial['{name}'] is not needed: every node that is not named starts in '{name}'"
            )


def has_ages(initial: Initial) -> bool:
    """Whether some seeds have ages above zero in their compartment."""
    return any(isinstance(v, Seeds) and bool(np.any(v.age)) for v in initial.values())


def least_survival(model: CompartmentModel, initial: Initial) -> float:
    """Smallest probability that a holding time exceeds the age of a seed."""
    least = 1.0
    for name, value in initial.items():
        oldest = float(np.max(value.age, initial=0.0)) if isinstance(value, Seeds) else 0.0
        for progression in model.progressions:
            if oldest > 0.0 and progression.compartment == name:
                least = min(least, *(float(h.survival(oldest)) for h in progression.holding_times))
    return least


def _check_age(model: CompartmentModel, name: str, age: float) -> None:
    for progression in model.progressions:
        if progression.compartment == name and not all(
            one.survival(age) > 0.0 for one in progression.holding_times
        ):
            raise ModelError(
                f"initial['{name}'] has the age {age:g}, which no holding time of '{name}' exceeds "
                "with a probability above zero"
            )


class Seeder:
    """The seeds of any replicates, on a device.

    Parameters
    ----------
    model, contacts, initial, seed, device, precision, group
        As for an ensemble.

    Attributes
    ----------
    most : int
        Largest number of seeds of a replicate, over all points.
    bindings : dict
        Options of kernels that read `Seeding`.
    """

    def __init__(
        self,
        model: CompartmentModel,
        contacts: ContactNetwork | ComputedNetwork,
        initial: Initial,
        seed: np.uint64,
        device: Device,
        precision: Precision,
        group: PointGroup | None = None,
    ) -> None:
        self.host = seeding_of(model, initial, contacts.node_count, precision)
        self.most = self.host.named_count + self.host.drawn_count
        self.bindings: dict[Any, Any] = {}
        self._group = group
        if group and group.has_own_seeds:
            tables = seedings_of(group, contacts.node_count, precision)
            stacked: dict[str, Any] = {
                name: np.stack([getattr(table, name) for table in tables]) for name in _BY_POINT
            }
            self.host = self.host._replace(**stacked)
            self.most = self.host.named_count + int(stacked["drawn_count"].max())
            self.bindings[SWEPT_SEEDS] = True
        self.has_ages = has_ages(initial)
        self._node_count = contacts.node_count
        self._device, self._seed = device, seed
        self._weights = _weights_of(model, initial, contacts, self.host)
        self._same = put_table(device, self.host)

    def of(self, first_replicate: int, count: int) -> Seeding:
        """The seeds of `count` replicates, on the device."""
        if self._weights is None:
            return self._same
        return put_table(self._device, self.on_host(first_replicate, count))

    def on_host(self, first_replicate: int, count: int) -> Seeding:
        """The seeds of `count` replicates, on the host."""
        if self._weights is None:
            return self.host
        host = self.host
        if self._group:  # a launch may begin within a point, and end within another
            first_replicate, count = int(self._group.begins[0]), self._group.replicates
        listed = np.empty((count, host.drawn_count), np.int64)
        for start, stop in spans(count, max(1, _TIMES_AT_ONCE // self._weights[0].size)):
            self._draw(first_replicate + start, listed[start:stop])
        return host._replace(
            listed=listed, listed_order=np.argsort(listed, axis=1), first_listed=first_replicate
        )

    def never_cases(
        self, first_replicate: int, count: int, stratum: np.ndarray, stratum_count: int
    ) -> np.ndarray:
        """Number of seeds that are not cases, such as those in R: int64 [count, stratum_count]."""
        host, spared = self.host, np.zeros((count, stratum_count), np.int64)
        drawn = self.most > host.named_count
        groups = host.drawn_compartment if drawn else host.drawn_compartment[:0]
        named = host.named_compartment[..., : host.named_count]
        places = np.append(named.ravel(), groups)
        if not host.is_case[places].all():
            cpu = resolve("cpu")
            kernel = _NEVER_CASES if self._group is None else _NEVER_CASES_OF_POINTS
            if self.bindings:
                kernel = _NEVER_CASES_OF_OWN_SEEDS
            cpu.run(
                kernel, count, put_table(cpu, self.on_host(first_replicate, count)),
                self._node_count, self._seed,
                put_table(cpu, rows_from(first_replicate, self._group)), cpu.put(stratum), spared,
            )  # fmt: skip
        return spared

    def _draw(self, first_replicate: int, listed: np.ndarray) -> None:
        """Draw the seeds of some replicates, a row each, group after group."""
        assert self._weights is not None
        count, nodes = listed.shape[0], self._weights[0].size
        time = np.empty((count, nodes))
        free = np.ones((count, nodes), bool)
        free[:, self.host.named_node[: self.host.named_count]] = False
        begin = 0
        for group, end in enumerate(self.host.drawn_end):
            size = int(end) - begin
            if size == 0:
                continue
            resolve("cpu").run(_TIMES, count, nodes, group, self._seed, first_replicate, time)
            with np.errstate(divide="ignore"):
                when = np.where(free, time / self._weights[group], np.inf)
            chosen = np.argpartition(when, size - 1, axis=1)[:, :size]
            soonest = np.take_along_axis(when, chosen, axis=1)
            if not np.isfinite(soonest).all():
                raise ModelError(
                    "initial draws more nodes by weight than remain after earlier draws"
                )
            listed[:, begin:end] = np.take_along_axis(chosen, np.argsort(soonest, axis=1), axis=1)
            np.put_along_axis(free, chosen, False, axis=1)
            begin = int(end)


def _weights_of(
    model: CompartmentModel,
    initial: Initial,
    contacts: ContactNetwork | ComputedNetwork,
    seeding: Seeding,
) -> list[np.ndarray] | None:
    """Weights of all nodes for each drawn group; None if all nodes are equally likely."""
    if not any(isinstance(v, Seeds) and v.weight is not None for v in initial.values()):
        return None
    weights: list[np.ndarray] = []
    left = np.ones(contacts.node_count, bool)
    left[seeding.named_node[: seeding.named_count]] = False
    sizes = iter(np.diff(seeding.drawn_end, prepend=0).tolist())
    for name in sorted(initial, key=lambda name: model.index[name]):
        value = initial[name]
        attribute = value.weight if isinstance(value, Seeds) else None
        if np.ndim(value.nodes if isinstance(value, Seeds) else value):
            continue
        weight = np.ones(contacts.node_count)
        if attribute is not None:
            if attribute not in contacts.attributes:
                known = ", ".join(contacts.attributes) or "none"
                raise ModelError(
                    f"initial['{name}'] is drawn by '{attribute}', but the network's attributes "
                    f"are {known}"
                )
            weight = np.asarray(contacts.attributes[attribute], float)
            bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
            if bad.size:
                raise ModelError(
                    f"initial['{name}'] is drawn by '{attribute}', which is {weight[bad[0]]} at "
                    f"node {bad[0]}; expected finite numbers, zero or more"
                )
        weights.append(weight)
        wanted, free = next(sizes), np.count_nonzero(left & (weight > 0))
        if wanted > free:
            raise ModelError(
                f"initial['{name}'] draws {wanted} nodes by '{attribute}', but only {free} "
                "unnamed nodes have a weight above zero"
            )
    return weights


def _waiting_time(row, nodes, group, seed, first_replicate, time):
    """Exponential waiting time of each node for a weight of one; see the module docstring."""
    for node in range(nodes):
        w0, w1, w2, w3 = draw_words(seed, first_replicate + row, node, SEED_CHOICE, group)
        time[row, node] = exponential(w0, w1)


_TIMES = kernels.for_each(_waiting_time)
_TIMES_AT_ONCE = 2**22


def _node_ids(name: str, ids: np.ndarray, node_count: int) -> np.ndarray:
    if ids.size and ids.dtype.kind not in "iu":
        raise ModelError(
            f"initial['{name}'] is an array of {ids.dtype}; expected integer node ids, or names of "
            "nodes where the network has node_names"
        )
    ids = ids.ravel()
    outside = np.flatnonzero((ids < 0) | (ids >= node_count))
    if outside.size:
        raise ModelError(
            f"initial['{name}'][{outside[0]}] is node {ids[outside[0]]}, but node ids are 0 to "
            f'{node_count - 1} (for names: Seeds(..., by="name") or ContactNetwork.nodes_named)'
        )
    return ids.astype(np.int64)


def _number(name: str, value: Any, node_count: int) -> int | float:
    """A count of nodes, or a fraction of them."""
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        raise ModelError(f"initial['{name}'] is {value!r}; expected a number or node ids")
    if isinstance(value, int | np.integer):
        if not 0 <= value <= node_count:
            raise ModelError(
                f"initial['{name}'] is {value} nodes; expected 0 to {node_count}, the network's "
                "node count"
            )
        return int(value)
    if not 0.0 <= value < 1.0:
        raise ModelError(
            f"initial['{name}'] is {value!r}; a fraction is at least 0 and below 1, and a count "
            "of nodes is an integer"
        )
    return float(value)


def seedings_of(group: PointGroup, node_count: int, precision: Precision) -> list[Seeding]:
    """The seeds of every point of a group; equal initial conditions are laid out once."""
    known: dict[Any, Seeding] = {}
    found = []
    for point, initial in enumerate(group.initials):
        key = seed_key(initial)
        if key not in known:
            known[key] = seeding_of(group.models[point], initial, node_count, precision)
        found.append(known[key])
    return found


def seed_key(initial: Initial) -> Any:
    """A key that is equal only for equal initial conditions."""
    plain = all(type(value) in (int, float) for value in initial.values())
    return tuple(initial.items()) if plain else id(initial)


_BY_POINT = (
    "named_node", "named_compartment", "drawn_end", "drawn_count", "named_age", "drawn_age"
)  # fmt: skip


def seeding_of_row(seeding, rows, row):
    """The seeds of the point of a row."""
    if SWEPT_SEEDS:
        point = point_of(rows, row)
        return Seeding(
            seeding.named_node[point], seeding.named_compartment[point], seeding.named_count,
            seeding.drawn_end[point], seeding.drawn_compartment, seeding.drawn_count[point],
            seeding.entry, seeding.named_age[point], seeding.drawn_age[point], seeding.listed,
            seeding.listed_order, seeding.first_listed, seeding.is_case,
        )  # fmt: skip
    return seeding


def seed_node(seeding, index, node_count, seed, replicate):
    """Node of seed number `index` of a replicate: first the named nodes, then the drawn ones."""
    if index < seeding.named_count:
        return seeding.named_node[index]
    if seeding.listed.size > 0:
        row = replicate - seeding.first_listed
        return seeding.listed[row, index - seeding.named_count]
    node = shuffled(
        index - seeding.named_count, node_count - seeding.named_count, seed, replicate, SEEDING
    )
    # The shuffle covers only unnamed nodes: skip named ids until no further one is passed.
    skipped = 0
    while True:
        below = first_above(seeding.named_node, 0, seeding.named_count, node + skipped)
        if below == skipped:
            return node + skipped
        skipped = below


def _listed_rank(seeding, node, row):
    """Rank of a listed node; the number of listed nodes if it is not listed."""
    low, high = np.int64(0), np.int64(seeding.drawn_count)
    while low < high:
        middle = (low + high) >> 1
        if seeding.listed[row, seeding.listed_order[row, middle]] < node:
            low = middle + 1
        else:
            high = middle
    if low < seeding.drawn_count:
        rank = np.int64(seeding.listed_order[row, low])
        if seeding.listed[row, rank] == node:
            return rank
    return np.int64(seeding.drawn_count)


def _count_never_cases(row, seedings, node_count, seed, rows, stratum, spared):
    """Count the seeds of a replicate that are not cases, by stratum."""
    seeding = seeding_of_row(seedings, rows, row)
    for index in range(seeding.named_count + seeding.drawn_count):
        if seeding.is_case[seed_compartment(seeding, index)] == 0:
            group = np.int64(0)
            if spared.shape[1] > 1:
                node = seed_node(seeding, index, node_count, seed, replicate_of(rows, row))
                group = np.int64(stratum[node])
            spared[row, group] += 1


_NEVER_CASES = kernels.for_each(_count_never_cases)
_NEVER_CASES_OF_POINTS = kernels.for_each(_count_never_cases, bindings={SWEPT: True})
_NEVER_CASES_OF_OWN_SEEDS = kernels.for_each(
    _count_never_cases, bindings={SWEPT: True, SWEPT_SEEDS: True}
)


def _drawn_group(seeding, rank):
    """Group of the drawn seed with this rank."""
    group = 0
    while rank >= seeding.drawn_end[group]:
        group += 1
    return group


def seed_age(seeding, index):
    """Age of seed number `index` in its initial compartment."""
    if index < seeding.named_count:
        return seeding.named_age[index]
    return seeding.drawn_age[_drawn_group(seeding, index - seeding.named_count)]


def seed_compartment(seeding, index):
    """The compartment that seed number `index` starts in."""
    if index < seeding.named_count:
        return seeding.named_compartment[index]
    return seeding.drawn_compartment[_drawn_group(seeding, index - seeding.named_count)]


def initial_compartment(seeding, node, node_count, seed, replicate):
    """The compartment a node starts in, or -1 if it is not a seed."""
    below = first_above(seeding.named_node, 0, seeding.named_count, node)
    if below > 0 and seeding.named_node[below - 1] == node:
        return seeding.named_compartment[below - 1]
    if seeding.drawn_count > 0:
        if seeding.listed.size > 0:
            rank = _listed_rank(seeding, node, replicate - seeding.first_listed)
        else:
            rank = shuffle_rank(
                node - below, node_count - seeding.named_count, seed, replicate, SEEDING
            )
        if rank < seeding.drawn_count:
            return seeding.drawn_compartment[_drawn_group(seeding, rank)]
    return np.int32(-1)
