"""Who was infected, when, by whom, and what became of them.

A replicate's infection times determine everything else: each case's stages are drawn again from
its keys, and its infector is the neighbour whose transmission would have arrived first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import fma, real
from ergode.core.devices import Device
from ergode.epidemics import seeding
from ergode.epidemics.first_passage.kernel import arrival, starting_compartment, threshold, time_of
from ergode.epidemics.seeding import Seeding
from ergode.epidemics.shared import progression
from ergode.epidemics.shared.progression import Stages, holding_time, next_compartment


def _list_cases(
    start, stop,
    offsets, targets, weights, stages, seeds, seed, first_replicate, horizon, words, first_case,
    case_replicate, case_node, case_infector, case_time, entered,
):  # fmt: skip
    """List replicates `start` to `stop`; the cases of a row begin at ``first_case[row]``.

    Out: `case_replicate`, `case_node`, `case_infector`, `case_time` [case] and `entered`
    [case, compartment], which holds NaN before.
    """
    node_count = words.shape[1]
    soonest = np.empty(node_count, real)
    infector = np.empty(node_count, np.int64)
    for row in range(start, stop):
        replicate = first_replicate + row
        soonest[:] = _NEVER
        infector[:] = -1
        case = first_case[row]
        for node in range(node_count):
            since = time_of(words[row, node])
            if since > horizon:
                continue
            case_replicate[case] = replicate
            case_node[case] = node
            case_time[case] = since
            compartment = starting_compartment(seeds, since, node, node_count, seed, replicate)
            begins_as_case = since > 0.0 or seeds.is_case[compartment] != 0
            before = real(0.0)
            while since <= horizon:
                entered[case, compartment] = since
                rate = stages.transmission_rate[compartment]
                duration = holding_time(stages, compartment, seed, replicate, node)
                if rate > 0.0:
                    for arc in range(offsets[node], offsets[node + 1]):
                        target = targets[arc]
                        x = threshold(seed, replicate, arc, weights)
                        time = arrival(x, since, before, rate, duration)
                        if time < soonest[target]:
                            soonest[target] = time
                            infector[target] = node
                if stages.kind[compartment] < 0:
                    break
                before = fma(rate, duration, before)
                since = since + duration
                compartment = next_compartment(stages, compartment, seed, replicate, node)
            case_infector[case] = -1 if begins_as_case else _NO_CASE
            case += 1
        for case in range(first_case[row], first_case[row + 1]):
            # A seed has no infector, whoever would have infected it later.
            node = case_node[case]
            if case_infector[case] != _NO_CASE and soonest[node] <= case_time[case]:
                case_infector[case] = infector[node]


_NEVER = float("inf")
_NO_CASE = -2  # in place of an infector: begins where nobody is a case, such as in R


def cases_of(
    host: Device,
    network: tuple[np.ndarray, np.ndarray, np.ndarray],
    stages: Stages,
    seeds: Seeding,
    seed: np.uint64,
    first_replicate: int,
    horizon: Any,
    words: np.ndarray,
    bindings: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """The line list of some replicates from their words, as flat arrays.

    `network` is offsets, targets and weights, all on the host; so are `words` [replicate, node].
    """
    precision = horizon.dtype
    reached = (words >> words.dtype.type(1)).view(precision) <= horizon
    first_case = np.concatenate([[0], np.cumsum(reached.sum(axis=1, dtype=np.int64))])
    count = int(first_case[-1])
    cases = {
        "replicate": np.empty(count, np.int64),
        "node": np.empty(count, np.int64),
        "infector": np.empty(count, np.int64),
        "infected_at": np.empty(count, np.float64),
        "entered": np.full((count, stages.kind.size), np.nan),
    }
    kernel = kernels.cpu_kernel(_list_cases, precision=precision.name, bindings=bindings)
    host.run(
        kernel, len(words), *map(host.put, network), progression.put(stages, host),
        seeding.put(seeds, host), seed, first_replicate, horizon, host.put(words), first_case,
        *cases.values(),
    )  # fmt: skip
    kept = cases["infector"] != _NO_CASE
    return cases if kept.all() else {name: values[kept] for name, values in cases.items()}
