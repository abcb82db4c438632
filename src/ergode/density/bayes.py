"""Bayes' theorem on the grid: the mass of each cell times the likelihood at its centre.

Where the likelihood jumps within a cell, or is far narrower than the cell, its mean over points of
the cell counts. A cell is such a cell if the second difference of the logarithm, from the centre to
two opposite faces, is above one. The points are an additive recurrence (Roberts' numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import atomic_max, no_unroll, noinline_cpu, option, real, unroll
from ergode.core.devices import Device, resolve
from ergode.core.group import accumulate, barrier, group_of, share
from ergode.density.grid.cells import (
    ABSORBED,
    CLIPPED,
    COUNTERS,
    KEY,
    KILLED_MASS,
    LOADED,
    LOST,
    PRUNED,
    SINCE,
    THRESHOLD,
    USED,
    cells_of,
    masses_of,
    total_mass,
    units,
)
from ergode.density.grid.lattice import (
    BITS,
    DIMENSION,
    PARAMETERS,
    ROTATED,
    Frame,
    Lattice,
    centre_of,
    frame_of,
    frame_rows,
    parameters_of,
    point,
    shifted,
)
from ergode.models.estimation import likelihood
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.measurement import Measurement

SAMPLED = option(True)
"""Whether cells in which the likelihood jumps take its mean."""

_BENT = np.float64(1.0)
_POINTS = 128


@noinline_cpu
def _at(z, t, frame, value, precision):
    """Log-likelihood at a point, up to a constant."""
    p = parameters_of(frame)
    return np.float64(likelihood.log_likelihood(point(z, frame), t, p, value, precision))


def _most_bent(z, here, t, frame, value, precision):
    """Largest second difference of the log-likelihood within a cell."""
    most = np.float64(0.0)
    for d in range(DIMENSION):
        above = _at(shifted(z, d, real(0.5), frame), t, frame, value, precision)
        below = _at(shifted(z, d, real(-0.5), frame), t, frame, value, precision)
        if max(above, below, here) > -math.inf:
            bend = abs(above + below - 2.0 * here)
            most = max(most, bend if bend < math.inf else np.float64(math.inf))
    return most


def _mean(z, here, t, frame, value, precision):
    """Logarithm of the mean likelihood over the points of a cell."""
    root = np.float64(1.5)  # of x^(DIMENSION + 1) = x + 1
    for _ in range(40):
        root = math.pow(1.0 + root, 1.0 / (DIMENSION + 1.0))
    top = here
    total = np.float64(0.0)
    for n in range(_POINTS):
        fraction = np.float64(n) + 0.5
        place = z
        for d in unroll(range(DIMENSION)):
            x = 0.5 + fraction * math.pow(root, -(d + 1.0)) if DIMENSION > 1 else fraction / _POINTS
            place = shifted(place, d, real(x - math.floor(x) - 0.5), frame)
        found = _at(place, t, frame, value, precision)
        if found > top:
            total *= math.exp(top - found) if top > -math.inf else 0.0
            top = found
        if found > -math.inf:
            total += math.exp(found - top)
    return top + math.log(total / _POINTS) if total > 0.0 else here


def at_cell(index, stride, keys, counters, t, frames, values, precisions, out):
    """Log-likelihood in one cell of one density, up to a constant; NaN if it is infinite.

    Model: `values` [density, component], `precisions` [density, component, component]. Out: `out`
    [density, stride].
    """
    which = index // stride
    number = index - which * stride
    if number > 0 and number < counters[which, USED]:
        frame = frame_of(frames, which)
        z = centre_of(keys[which, number] & KEY, frame)
        value, precision = values[which], precisions[which]
        found = _at(z, t, frame, value, precision)
        if SAMPLED and _most_bent(z, found, t, frame, value, precision) > _BENT:
            found = _mean(z, found, t, frame, value, precision)
        out[which, number] = found if found < math.inf else np.float64(math.nan)


# A weight from 0 to 1 is stored in two words of 31 bits, so that sums are exact.
_HALF_WORD = np.float64(2.0**31)


def reweigh(
    thread_rank, thread_count, first, every_cells, every_masses, logs, controls, room, outcomes
):
    """Multiply masses by likelihoods, normalise them and reset the mass balance: a kernel.

    Model: `logs` [density, cell], the log-likelihoods; `controls` [density, word]. Out: `outcomes`
    [density, 2]; the second is the logarithm of the evidence. If it is not finite, masses are
    unchanged. Otherwise the fourth word of `room` [density, 5] is the mass, in units, of cells that
    were below the threshold before. The last one is the mass of cells before whose likelihood is
    not a number, and counts as zero. Initially `room` is zero, the first of `outcomes` minus
    infinity.
    """
    which, group = group_of(thread_rank, thread_count, first, every_cells.barrier_words)
    cells = cells_of(every_cells, which)
    masses = masses_of(every_masses, which)
    log, sums, outcome = logs[which], room[which], outcomes[which]
    counters = cells.counters
    used = counters[USED]
    before = total_mass(counters)
    floor = real(controls[which, THRESHOLD] * before)
    p, weight = masses.now, masses.next
    best = np.float64(-math.inf)
    undefined = np.int64(0)
    for i in no_unroll(share(group, 1, used)):
        if p[i] > 0.0:
            value = log[i] + math.log(np.float64(p[i]))
            if value > best:
                best = value
            elif math.isnan(value):
                undefined += units(p[i])
    accumulate(group, sums, 4, undefined)
    atomic_max(outcome, 0, best)
    barrier(group)
    top = outcome[0]
    if top > -math.inf:
        high = np.int64(0)
        low = np.int64(0)
        for i in no_unroll(share(group, 1, used)):
            part = np.float64(0.0)
            if p[i] > 0.0:
                value = log[i] + math.log(np.float64(p[i])) - top
                part = math.exp(value) if value <= 0.0 else part  # false for NaN
            weight[i] = real(part)
            scaled = np.float64(weight[i]) * _HALF_WORD
            whole = np.int64(scaled)
            high += whole
            low += np.int64((scaled - np.float64(whole)) * _HALF_WORD)
        accumulate(group, sums, 0, high)
        accumulate(group, sums, 1, low)
        barrier(group)
        total = (np.float64(sums[0]) + np.float64(sums[1]) / _HALF_WORD) / _HALF_WORD
        loaded = np.int64(0)
        faint = np.int64(0)
        for i in no_unroll(share(group, 1, used)):
            was_faint = p[i] < floor
            p[i] = real(np.float64(weight[i]) / total)
            part = units(p[i])
            loaded += part
            faint += part if was_faint else np.int64(0)
        accumulate(group, sums, 2, loaded)
        accumulate(group, sums, 3, faint)
        barrier(group)
        if group.rank == 0:
            outcome[1] = top + math.log(total) - math.log(before)
            counters[LOADED] = sums[2]
            counters[PRUNED] = 0
            counters[LOST] = 0
            counters[CLIPPED] = 0
            counters[ABSORBED] = 0
            counters[KILLED_MASS] = 0
            counters[SINCE] = 0


def _kernel(
    measurement: Measurement, lattices: Sequence[Lattice], parameter_count: int, is_sampled: bool
) -> kernels.Kernel:
    bindings = likelihood.bindings_of(measurement) | {
        DIMENSION: lattices[0].dimension,
        BITS: lattices[0].bits,
        PARAMETERS: parameter_count,
        ROTATED: any(lattice.is_rotated for lattice in lattices),
        SAMPLED: is_sampled,
    }
    return kernels.for_each(at_cell, bindings=bindings)


def evaluate(
    function: Callable[..., tuple[Any, ...]],
    lattice: Lattice,
    parameters: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    """Value of a user's function of the state at the centres of cells, on the CPU."""
    one = Measurement(0.0, likelihood=function)
    counters = np.zeros((1, COUNTERS), np.int64)
    counters[0, USED] = len(keys) + 1
    out = np.zeros((1, len(keys) + 1))
    numbered = np.concatenate([[0], keys])[None]
    device = resolve("cpu")
    frame = Frame(*device.put_together(frame_rows([lattice], parameters[None])))
    places = np.zeros(1, np.int64)
    find_likelihoods(
        one, places, [lattice], device, frame, numbered, counters, out, is_sampled=False
    )
    return out[0, 1:]


def undefined_of(
    lattice: Lattice, keys: np.ndarray, log: np.ndarray, mean: np.ndarray, share: float
) -> Undefined:
    """Where a likelihood is not a number: the cell nearest to a mean, of a share of the density.

    `keys` [cell]; `log` [stride] are log-likelihoods by `at_cell`.
    """
    bad = np.isnan(log[1 : 1 + len(keys)])
    states = lattice.points(lattice.unpack((keys & KEY)[bad]))
    away = (states - mean) @ lattice.axes / lattice.width
    return Undefined(float(share), states[np.square(away).sum(axis=1).argmin()], of="probability")


def find_likelihoods(
    measurement: Measurement,
    places: np.ndarray,
    lattices: Sequence[Lattice],
    device: Device,
    frame: Frame,
    keys: Any,
    counters: Any,
    out: Any,
    is_sampled: bool = True,
) -> np.ndarray:
    """Store log-likelihoods of cells in `out`; return constants to be added.

    `places` [density] are indices of densities among those that run side by side. On the device
    are the frame in double precision, keys [density, cell], counters [density, word] and `out`
    [density, stride].
    """
    kernel = _kernel(measurement, lattices, frame.parameters.shape[1], is_sampled)
    values, precisions, constants = likelihood.numbers_of(measurement, places)
    values_there, precisions_there = device.put_together([values, precisions])
    count, stride = out.shape
    with kernels.readable_errors():
        device.run(
            kernel, count * stride, stride, keys, counters, measurement.time, frame, values_there,
            precisions_there, out,
        )  # fmt: skip
    return constants
