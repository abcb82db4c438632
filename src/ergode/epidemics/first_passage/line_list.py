"""Line lists: infection time, infector and stages of each case.

Infection times determine the rest.  The stages of a case are drawn again from its keys.  Its
infector is the neighbour whose transmission arrives first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.calls.launch import check_room
from ergode.core.compiler.language import fma, real
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.epidemics.first_passage.kernel import (
    Search,
    arrival,
    starting_compartment,
    threshold,
    time_of,
)
from ergode.epidemics.seeding import seeding_of_row
from ergode.epidemics.shared.arcs import end_arc, first_arc, target_of
from ergode.epidemics.shared.progression import holding_time, next_compartment, stages_of_row
from ergode.epidemics.shared.sweep import replicate_of


class Cases(NamedTuple):
    """A line list as flat arrays, in the order of rows and nodes."""

    row: Any  # int64 [case]
    node: Any  # int64 [case]
    infector: Any  # int64 [case]
    infected_at: Any  # float64 [case]
    entered: Any  # float64 [case, compartment]; NaN if never entered


def _list_cases(start, stop, search, words, first_case, cases):
    """List replicates `start` to `stop`; the cases of a row begin at ``first_case[row]``.

    Out: `cases`. The caller fills `cases.entered` with NaN.
    """
    weights = search.weights
    rows, seed, horizon = search.rows, search.seed, search.horizon
    node_count = words.shape[1]
    soonest = np.empty(node_count, real)
    infector = np.empty(node_count, np.int64)
    for row in range(start, stop):
        replicate = replicate_of(rows, row)
        stages = stages_of_row(search.stages, rows, row)
        seeds = seeding_of_row(search.seeding, rows, row)
        soonest[:] = _NEVER
        infector[:] = -1
        case = first_case[row]
        for node in range(node_count):
            since = time_of(words[row, node])
            if since > horizon:
                continue
            cases.row[case] = row
            cases.node[case] = node
            cases.infected_at[case] = since
            compartment = starting_compartment(seeds, since, node, node_count, seed, replicate)
            begins_as_case = since > 0.0 or seeds.is_case[compartment] != 0
            before = real(0.0)
            while since <= horizon:
                cases.entered[case, compartment] = since
                rate = stages.transmission_rate[compartment]
                duration = holding_time(stages, compartment, seed, replicate, node)
                if rate > 0.0:
                    for arc in range(first_arc(search, node), end_arc(search, node)):
                        target = target_of(search, node, arc)
                        x = threshold(seed, replicate, arc, weights)
                        time = arrival(x, since, before, rate, duration)
                        if time < soonest[target] and target != node:
                            soonest[target] = time
                            infector[target] = node
                if stages.kind[compartment] < 0:
                    break
                before = fma(rate, duration, before)
                since = since + duration
                compartment = next_compartment(stages, compartment, seed, replicate, node)
            cases.infector[case] = -1 if begins_as_case else _NO_CASE
            case += 1
        for case in range(first_case[row], first_case[row + 1]):
            # A seed has no infector, even if a neighbour would have infected it later.
            node = cases.node[case]
            if cases.infector[case] != _NO_CASE and soonest[node] <= cases.infected_at[case]:
                cases.infector[case] = infector[node]


_NEVER = float("inf")
_NO_CASE = -2  # instead of an infector: a seed that is not a case, such as one in R


def cases_of(
    host: Device, search: Search, first: int, words: np.ndarray, bindings: Mapping[Any, Any]
) -> dict[str, np.ndarray]:
    """The line list of some replicates from their words, as flat arrays.

    `search` and `words` [replicate, node] are on the host.  ``"replicate"`` is numbered from
    `first` on, over all points of a launch.
    """
    precision = search.horizon.dtype
    reached = (words >> words.dtype.type(1)).view(precision) <= search.horizon
    first_case = np.concatenate([[0], np.cumsum(reached.sum(axis=1, dtype=np.int64))])
    count = int(first_case[-1])
    compartment_count = search.stages.order.size
    check_room(
        8 * count * (4 + compartment_count) + 12 * words.shape[1],
        f"the line list of {count:,} cases",
        "use fewer nodes or output='counts'",
    )
    cases = Cases(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
        np.empty(count, np.float64), np.full((count, compartment_count), np.nan),
    )  # fmt: skip
    kernel = kernels.cpu_kernel(_list_cases, precision=precision.name, bindings=bindings)
    host.run(kernel, len(words), put_table(host, search), host.put(words), first_case, cases)
    kept = cases.infector != _NO_CASE
    found = {"replicate": first + cases.row, **cases._asdict()}
    del found["row"]
    return found if kept.all() else {name: values[kept] for name, values in found.items()}
