r"""A jump with a covariance: the masses of cells are convolved with a Gaussian.

In units of cells along the axes of the lattice the covariance is a sum over its eigenvectors,
``sum of r r^T``. Mass is spread along one r after the other.

Let a be the largest component of r, in absolute value. Mass moves by n steps of the vector r / |a|,
with the weight of a Gaussian of variance a^2 at the integer n. A part of the weight of n = 0 then
moves to n = -1 and n = 1, so that the variance is exactly a^2: a sampled Gaussian has slightly
less, and all of it for a far below a cell. The weights are positive, their sum is one.

Along the axis of a, a step is one cell. Along other axes it ends between cells, at the
distance f from the nearest, -1/2 to 1/2. Its mass is divided between cells such that the sum, the
mean and the second moments are those of the point (Lagrange's interpolation of second order) ::

    p(x + f) = p + sum_d  f_d (p_{+d} - p_{-d}) / 2 + f_d^2 (p_{+d} - 2 p + p_{-d}) / 2
                 + sum_{d<e}  f_d f_e (p_{+d+e} - p_{+d-e} - p_{-d+e} + p_{-d-e}) / 4

So mass, mean and covariance are exact for any covariance, however small, large or oblique. No
positive weights on a lattice can do that: whatever has no variance along an oblique direction
would stay at one point. Negative masses, which only arise in steep tails, are set to zero,
and the others are scaled to the same sum.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ergode.density.grid.lattice import Lattice

_REACH = 6.0  # deviations along a direction
_FAINT = 1e-3  # cells below this fraction of the threshold are dropped at once
_LEAST = 1e-16  # weights below this are left out
_BLOCK = 1 << 24  # cells listed at a time


class Spread(NamedTuple):
    """Cells after a jump: keys in ascending order, masses, and the probability dropped."""

    keys: np.ndarray
    mass: np.ndarray
    dropped: float


def spread(
    lattice: Lattice, keys: np.ndarray, mass: np.ndarray, covariance: np.ndarray, threshold: float
) -> Spread | None:
    """Masses of cells, convolved with a Gaussian; None if they reach the end of the lattice.

    Cells of less mass than `threshold` may be dropped; far smaller ones are.
    """
    mass = np.maximum(mass.astype(np.float64), 0.0)
    keys, mass = keys[mass > 0.0], mass[mass > 0.0]
    order = np.argsort(keys)
    keys, mass = keys[order], mass[order]
    before, dropped = float(mass.sum()), 0.0
    for direction in directions(lattice, covariance):
        offsets, weights = stencil(direction)
        coordinates = lattice.unpack(keys)
        least = coordinates.min(axis=0) + offsets.min(axis=0)
        most = coordinates.max(axis=0) + offsets.max(axis=0)
        if max(-least.min(), most.max()) > lattice.reach:
            return None
        keys, mass = _convolved(keys, mass, lattice.pack(offsets) - _origin(lattice), weights)
        if lattice.turns is not None:
            around = lattice.pack(lattice.wrapped(lattice.unpack(keys).astype(np.int64)))
            keys, cell = np.unique(around, return_inverse=True)
            mass = np.bincount(cell.ravel(), mass, len(keys))
        stays = np.abs(mass) > _FAINT * threshold
        dropped += float(mass[~stays].sum())
        keys, mass = keys[stays], mass[stays]
    mass = np.maximum(mass, 0.0)
    return Spread(keys, mass * ((before - dropped) / mass.sum()), dropped)


def directions(lattice: Lattice, covariance: np.ndarray) -> list[np.ndarray]:
    """Vectors r in cells, of which the products ``r r^T`` add up to the covariance."""
    inside = lattice.axes.T @ covariance @ lattice.axes / np.outer(lattice.width, lattice.width)
    size = np.sqrt(np.maximum(np.diag(inside), 0.0))
    # Rounding makes no direction oblique.
    inside = np.where(np.abs(inside) > 1e-12 * np.outer(size, size), inside, 0.0)
    values, vectors = np.linalg.eigh(inside)
    vectors = np.where(np.abs(vectors) > 1e-12, vectors, 0.0)
    return [
        np.sqrt(value) * vector
        for value, vector in zip(values, vectors.T, strict=True)
        if value > 1e-14 * values[-1]
    ]


def stencil(direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of cells [offset, dimension], and the weight of each, for one direction in cells."""
    longest = float(np.abs(direction).max())
    step, numbers = direction / longest, _numbers(longest)
    found: dict[tuple[int, ...], float] = {}
    for number, weight in zip(numbers, _weights(longest, numbers), strict=True):
        nearest = np.rint(number * step)
        for offset, part in _divided(number * step - nearest).items():
            at = tuple(int(k) for k in nearest + np.array(offset))
            found[at] = found.get(at, 0.0) + weight * part
    kept = {at: weight for at, weight in found.items() if abs(weight) > _LEAST}
    return np.array(list(kept), np.int64), np.array(list(kept.values()))


def _numbers(deviation: float) -> np.ndarray:
    most = max(1, int(np.ceil(_REACH * deviation)))
    return np.arange(-most, most + 1)


def _weights(deviation: float, numbers: np.ndarray) -> np.ndarray:
    """Weights of steps, whose sum is one and whose variance is exact."""
    weights = np.exp(-0.5 * (numbers / deviation) ** 2)
    weights /= weights.sum()
    missing = deviation**2 - float(weights @ numbers.astype(float) ** 2)
    weights[np.abs(numbers) == 1] += 0.5 * missing
    weights[numbers == 0] -= missing
    return np.asarray(weights)


def _divided(f: np.ndarray) -> dict[tuple[int, ...], float]:
    """Weights by offset of cells, with the sum one and the moments of the point f."""
    size = len(f)
    found = {(0,) * size: 1.0 - float(f @ f)}
    some = np.flatnonzero(f).tolist()
    unit = np.eye(size, dtype=int)
    for d in some:
        for side in (-1, 1):
            found[tuple((side * unit[d]).tolist())] = 0.5 * float(f[d] * (f[d] + side))
    for d, e in itertools.combinations(some, 2):
        for side, turn in itertools.product((-1, 1), (-1, 1)):
            at = side * unit[d] + turn * unit[e]
            found[tuple(at.tolist())] = 0.25 * side * turn * float(f[d] * f[e])
    return found


def _origin(lattice: Lattice) -> np.int64:
    """Key of the cell with all coordinates zero."""
    return np.int64(lattice.pack(np.zeros((1, lattice.dimension), np.int64))[0])


def _convolved(
    keys: np.ndarray, mass: np.ndarray, offsets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cells and masses after each cell's mass went to the cells at all offsets of keys."""
    many = max(1, _BLOCK // len(keys))
    reached = np.empty(0, np.int64)
    for first in range(0, len(offsets), many):
        some = offsets[first : first + many, None] + keys
        reached = np.unique(np.concatenate([reached, some.ravel()]))
    total = np.zeros(len(reached))
    for offset, weight in zip(offsets, weights, strict=True):
        total[np.searchsorted(reached, keys + offset)] += weight * mass
    return reached, total
