"""The memory of tanks that are connected, and the tank in hand.

All arrays of a tank are in one piece of memory. On CUDA a thread works on one tank at a time and
has some numbers of that tank for itself. They go back to the memory when it takes another in hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, by_reference, noinline_cuda, window
from ergode.core.group import Group, barrier
from ergode.kinetics.multistep.activities import Zone
from ergode.kinetics.multistep.corrector import Vectors
from ergode.kinetics.multistep.room import ARRAYS, room_of

# --- device functions -----------------------------------------------------------------------------

# Numbers of a tank: temperature at the start of the step, and energy; enthalpy and heat capacity of
# what flows out; heat capacity at the Jacobian; defect; steepest slope of temperature, and when.
START, ENERGY, ENTHALPY, CARRIED, CAPACITY, DEFECT, STEEPEST, PEAK, NUMBERS = range(9)


class Tank(NamedTuple):
    """A tank of a network."""

    zone: Zone
    vectors: Vectors
    entering: np.ndarray  # [species_count + 2 + invariant_count]: as `ConditionHistory.inflow`
    own: np.ndarray  # [NUMBERS]
    right: np.ndarray  # [variable_count]: right-hand side, and solution
    step: np.ndarray


class Net(NamedTuple):
    """What all tanks of a network share."""

    chemistry: tuple
    at: Any  # where arrays of a tank begin: integers; on CUDA an array
    memory: np.ndarray
    # What each thread has for itself: on CUDA those of the tank in hand (see `Zone`), and its
    # number, which is negative before the first.
    between: Any
    hot: Any
    held: Any
    gain: np.ndarray
    lengths: np.ndarray
    conditions: tuple
    first: int  # zone of the first tank
    tanks: int
    group: Group


def tank_size(chemistry, last):
    """Numbers of a tank, whose first arrays take `last`."""
    count, (sums, species) = chemistry.absolute.size, chemistry.invariants.shape
    return last + 7 + species + 2 + sums + NUMBERS + 2 * count


def memory_of(net, k):
    """The memory of a tank, in a tuple."""
    size = tank_size(net.chemistry, net.at[ARRAYS])
    return (window(net.memory, k * size, (size,)),)


def apart(net, k):
    """The numbers of a tank that each thread has for itself while the tank is in hand."""
    (mine,) = memory_of(net, k)
    return (window(mine, net.at[ARRAYS], (7,)),)


def _temperatures_cpu(net, k):
    (mine,) = memory_of(net, k)
    a = net.at[ARRAYS]
    return window(mine, a, (2,)), window(mine, a + 2, (5, 1))


def _temperatures_cuda(net, k):
    return net.between, net.hot


temperatures_of = ByTarget(cpu=_temperatures_cpu, cuda=_temperatures_cuda)
"""``temperatures_of(net, k)`` are `between` and `hot` of a tank; on CUDA it has to be in hand."""


def tank_at(net, k):
    """A tank; of one that is not in hand, temperatures are not to be used."""
    chemistry, a = net.chemistry, net.at[ARRAYS]
    count, (sums, species) = chemistry.absolute.size, chemistry.invariants.shape
    (mine,) = memory_of(net, k)
    between, hot = temperatures_of(net, k)
    zone, vectors = room_of(
        chemistry, mine, mine, net.at, 0, between, hot, net.gain, net.lengths, net.group
    )
    b = a + 7 + species + 2 + sums
    c = b + NUMBERS
    return Tank(
        zone, vectors, window(mine, a + 7, (species + 2 + sums,)), window(mine, b, (NUMBERS,)),
        window(mine, c, (count,)), window(mine, c + count, (count,)),
    )  # fmt: skip


@noinline_cuda
def _in_hand_cuda(net, k):
    between, hot, last = net.between, net.hot, int(net.held[0])
    barrier(net.group)
    if last != k:
        if last >= 0 and net.group.rank == 0:
            (kept,) = apart(net, last)
            kept[0], kept[1] = between[0], between[1]
            for i in range(5):
                kept[2 + i] = hot[i, 0]
        (found,) = apart(net, k)
        between[0], between[1] = found[0], found[1]
        for i in range(5):
            hot[i, 0] = found[2 + i]
        net.held[0] = k
    tank = by_reference(tank_at(net, k))
    barrier(net.group)
    return tank


in_hand = ByTarget(cpu=tank_at, cuda=_in_hand_cuda)
"""``in_hand(net, k)`` is a tank, on CUDA until another is taken in hand.

There it is a reference: a warp has memory for one. It begins and ends in a barrier."""
