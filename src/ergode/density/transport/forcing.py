"""Steps for a field that depends on time: short where it changes fast.

A step moves mass by the field at the middle of the step. If the velocity of a cell is v, in cells
per unit of time, a step h has the error ``h^3 |v''| / 24`` in the displacement: that of the
midpoint rule. Steps proportional to ``|v''|^(-1/3)`` keep the sum of these errors below a bound
with the fewest steps.

The field is sampled before each stretch between two times of a run, at the mean of the density and
at two deviations to either side of it. The second differences of the samples approximate v''.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ergode.core.compiler.language import unroll
from ergode.density.grid.cells import PARTS
from ergode.density.grid.lattice import (
    DIMENSION,
    KILLED,
    LOCAL_NOISE,
    Lattice,
    drift,
    frame_of,
    is_allowed,
    killing_rate,
    spreads,
)
from ergode.density.moments import Summary

_SAMPLES = 64  # per part, if the stretch is the whole run
_SAMPLES_LEAST = 4
_DISPLACED_MOST = 0.1  # cells, by all steps of a run together
_OF_KILLING = np.float64(100.0)  # an error of a tenth of a per cent counts as a tenth of a cell
_DEVIATIONS = np.float64(2.0)


def largest_bend(index, begin, spacing, samples, means, deviations, every_frame, out):
    """Largest second difference of the field's samples in one part of a stretch: a kernel body.

    Model: `means` and `deviations` [density, dimension], along the axes of the lattice. Out: `out`
    [density, PARTS], of velocities in cells per unit of time.
    """
    which = index // PARTS
    part = index - which * PARTS
    frame = frame_of(every_frame, which)
    first = begin + spacing * np.float64(part * samples)
    most = np.float64(0.0)
    for state in range(2 * DIMENSION + 1):
        z = tuple(
            means[which, d] + _offset(state, d) * deviations[which, d] for d in range(DIMENSION)
        )
        if is_allowed(z, frame):
            before = _velocity(first, z, frame)
            here = _velocity(first + spacing, z, frame)
            for k in range(2, samples + 1):
                after = _velocity(first + spacing * np.float64(k), z, frame)
                for d in unroll(range(DIMENSION)):
                    most = _larger(most, before[0][d] - 2.0 * here[0][d] + after[0][d])
                    if LOCAL_NOISE:
                        most = _larger(most, before[1][d] - 2.0 * here[1][d] + after[1][d])
                if KILLED:
                    most = _larger(most, before[2] - 2.0 * here[2] + after[2])
                before = here
                here = after
    out[which, part] = most


def _offset(state, d):
    """Offset of a state from the mean along a dimension; state 0 is the mean, then two per axis."""
    if state == 2 * d + 1:
        return _DEVIATIONS
    return -_DEVIATIONS if state == 2 * d + 2 else np.float64(0.0)


def _velocity(t, z, frame):
    """Velocity [cells per time], spread by noise [cells squared per time], and rate of killing."""
    f = drift(t, z, frame)
    rates = tuple(f[d] / frame.width[d] for d in range(DIMENSION))
    killed = _OF_KILLING * killing_rate(t, z, frame) if KILLED else rates[0]
    return rates, spreads(t, z, frame) if LOCAL_NOISE else rates, killed


def _larger(most, bend):
    """The larger of `most` and the absolute value of `bend`, if `bend` is finite; else `most`."""
    size = abs(bend)
    return size if size > most and size < np.inf else most


def moments_along(lattices: Sequence[Lattice], summaries: Sequence[Summary]) -> list[np.ndarray]:
    """Means and standard deviations along the axes of lattices, each [density, dimension]."""
    along = [
        (one.axes.T @ (found.mean - one.centre), np.diag(one.axes.T @ found.covariance @ one.axes))
        for one, found in zip(lattices, summaries, strict=True)
    ]
    means, variances = (np.stack(each) for each in zip(*along, strict=True))
    return [means, np.sqrt(np.maximum(variances, 0.0))]


def samples_of(share: float) -> int:
    """Samples per part of a stretch that is this fraction of a run."""
    return max(_SAMPLES_LEAST, math.ceil(_SAMPLES * share))


def longest_steps(bends: np.ndarray, spacing: float, samples: int, share: float) -> np.ndarray:
    """Longest step in each part of a stretch [density, PARTS].

    `bends` [density, PARTS] are the largest second differences, from `largest_bend`, with this
    `spacing` and number of `samples` in a part; the stretch is this `share` of the run.
    """
    part = spacing * samples
    root = np.cbrt(bends / spacing**2)
    total = root.sum(axis=1, keepdims=True) * part
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.sqrt(24.0 * _DISPLACED_MOST * share / total) / root
    own[bends == 0.0] = np.inf
    # A step that begins before a part with short steps must not reach far into that part.
    steps = own.copy()
    reach = np.full(len(own), np.inf)
    for k in range(PARTS - 2, -1, -1):
        reach = np.minimum(own[:, k + 1], part + reach)
        steps[:, k] = np.minimum(own[:, k], reach)
    return steps
