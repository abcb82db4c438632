"""What threads of a block do together for one zone.

Every function here is called by all threads of a block; those that say so end in a barrier.
"""

from __future__ import annotations

from ergode.core.machine import cuda, real, unroll
from ergode.kinetics.block_tables import SUM_WIDTH
from ergode.kinetics.mechanism import NATURAL
from ergode.kinetics.rates import (
    base_coefficients,
    detailed_balance,
    log_volumes,
)
from ergode.kinetics.system import interpolated

REVERSIBLE = False
ALL = -1  # every lane of a warp


def block_sum(value, room, slot):
    """Sum over all threads, for all threads, with one barrier.

    Two reductions that follow one another without a barrier between need different slots, 0 or 1.
    """
    for shift in unroll(range(5)):
        value += cuda.shfl_down_sync(ALL, value, 16 >> shift)
    if cuda.threadIdx.x & 31 == 0:
        room[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    total = 0.0
    for warp in unroll(range(8)):
        total += room[8 * slot + warp]
    return total


def block_max(value, room, slot):
    """Largest value of all threads, as `block_sum`; not-a-number counts as largest."""
    for shift in unroll(range(5)):
        other = cuda.shfl_down_sync(ALL, value, 16 >> shift)
        value = value if value >= other or value != value else other
    if cuda.threadIdx.x & 31 == 0:
        room[8 * slot + (cuda.threadIdx.x >> 5)] = value
    cuda.syncthreads()
    largest = 0.0
    for warp in unroll(range(8)):
        other = room[8 * slot + warp]
        largest = largest if largest >= other or largest != largest else other
    return largest


def next_zone(counter, room):
    """The zone that this block is to integrate next, from a queue.

    Begins and ends in a barrier; the room of reductions is made ready.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        room[cuda.threadIdx.x] = 0.0
    if cuda.threadIdx.x == 0:
        room[16] = real(cuda.atomic.add(counter, 0, 1))
    cuda.syncthreads()
    zone = int(room[16])
    cuda.syncthreads()
    return zone


def block_products(complexes, y, found):
    """Product of the amounts of every complex; ends in a barrier."""
    for s in range(cuda.threadIdx.x, complexes.first.size, cuda.blockDim.x):
        found[s] = y[complexes.first[s]] * y[complexes.second[s]] * y[complexes.third[s]]
    cuda.syncthreads()


def block_sums(sums, complex_, values, found, partial, result):
    """Sum of values times products for every row; ends in a barrier."""
    layer, nothing = sums.layer, complex_.size - 1
    for count in range(cuda.threadIdx.x, sums.target.size, cuda.blockDim.x):
        segment = count & NATURAL
        total = 0.0
        # Without a branch, so that all terms are on their way at once.
        for k in unroll(range(SUM_WIDTH)):
            place = layer[k] + segment
            place = (place if place < layer[k + 1] else nothing) & NATURAL
            total += values[place] * found[complex_[place] & NATURAL]
        target = sums.target[segment]
        if target >= 0:
            result[target] = total
        else:
            partial[-1 - target] = total
    cuda.syncthreads()
    for row in range(cuda.threadIdx.x, sums.row.size, cuda.blockDim.x):
        total = 0.0
        for place in range(sums.start[row], sums.start[row + 1]):
            total += partial[place]
        result[sums.row[row]] = total
    cuda.syncthreads()


def block_values(tables, slots, values):
    """Values of entries from coefficients; ends in a barrier."""
    for entry in range(cuda.threadIdx.x, values.size, cuda.blockDim.x):
        total = 0.0
        for count in range(tables.source_start[entry], tables.source_start[entry + 1]):
            term = count & NATURAL
            total += tables.weight[term] * slots[tables.source[term]]
        values[entry] = total
    cuda.syncthreads()


def block_conditions(tables, rates, thermo, times, temperatures, densities, t, slots, values,
                     volumes):  # fmt: skip
    """Coefficients at time t, and values of entries; ends in a barrier."""
    first, stride = cuda.threadIdx.x, cuda.blockDim.x
    temperature = interpolated(times, temperatures, t)
    density = interpolated(times, densities, t)
    base_coefficients(rates, temperature, density, slots, first, stride)
    if REVERSIBLE:
        log_volumes(thermo, temperature, volumes, first, stride)
        cuda.syncthreads()
        detailed_balance(rates, density, volumes, slots, first, stride)
    cuda.syncthreads()
    block_values(tables, slots, values)
