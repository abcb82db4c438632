"""An independent way to first passages, written to be read rather than to be fast."""

import heapq

import numpy as np

from ergode.core import devices, kernels
from ergode.core.devices.buffers import put_table
from ergode.core.group import KIND
from ergode.epidemics.first_passage.kernel import threshold
from ergode.epidemics.shared.options import HAS_STRATA, WEIGHTED
from ergode.epidemics.shared.progression import holding_time, next_compartment


def _draw_arcs(index, replicate, seed, weights, out):
    out[index] = threshold(seed, replicate, index, weights)


def _draw_stages(index, replicate, seed, stages, stay, following):
    node = index // stay.shape[1]
    compartment = index - node * stay.shape[1]
    stay[node, compartment] = holding_time(stages, compartment, seed, replicate, node)
    following[node, compartment] = -1
    if stages.kind[compartment] >= 0:
        following[node, compartment] = next_compartment(stages, compartment, seed, replicate, node)


def heap_first_passage(ensemble, start, replicate):
    """Infection times by Dijkstra's algorithm with a heap, from the same keyed draws.

    `start` maps seeds to the compartment they start in. Arithmetic is that of the kernels, one
    operation after another in the working precision.
    """
    real = ensemble.times.dtype.type
    device = devices.resolve("cpu:1")
    precision, search = ensemble.times.dtype.name, ensemble.search
    weighted = {WEIGHTED: ensemble.bindings[WEIGHTED]}
    left_out = KIND, WEIGHTED, HAS_STRATA
    kinds = {k: v for k, v in ensemble.bindings.items() if k not in left_out}
    x = np.empty(search.targets.size, real)
    device.run(
        kernels.for_each(_draw_arcs, precision=precision, bindings=weighted),
        x.size, replicate, ensemble.seed, device.put(ensemble.weights), x,
    )  # fmt: skip
    shape = (ensemble.node_count, ensemble.compartment_count)
    stay, following = np.empty(shape, real), np.empty(shape, np.int32)
    device.run(
        kernels.for_each(_draw_stages, precision=precision, bindings=kinds),
        stay.size, replicate, ensemble.seed, put_table(device, ensemble.stages),
        stay, following,
    )  # fmt: skip
    rates = ensemble.stages.transmission_rate
    reached = np.full(ensemble.node_count, np.inf, real)
    heap = []
    for node in start:
        reached[node] = 0
        heap.append((0.0, node))
    heapq.heapify(heap)
    settled = set()
    while heap:
        _, node = heapq.heappop(heap)
        if node in settled:
            continue
        settled.add(node)
        since, before = reached[node], real(0)
        compartment = start.get(node, search.seeding.entry)
        while compartment >= 0 and since <= ensemble.horizon:
            rate, duration = rates[compartment], stay[node, compartment]
            # A fused multiply-add: the product of two float32 is exact in float64, and that of
            # two float64 in the extended type.
            wide = np.longdouble
            after = real(wide(rate) * wide(duration) + wide(before)) if rate > 0 else before
            for arc in range(search.offsets[node], search.offsets[node + 1]):
                if rate > 0 and before <= x[arc] < after:
                    time = since + (x[arc] - before) / rate
                    other = search.targets[arc]
                    if time < reached[other] and time <= ensemble.horizon:
                        reached[other] = time
                        heapq.heappush(heap, (float(time), int(other)))
            since, before = since + duration, after
            compartment = following[node, compartment]
    return reached
