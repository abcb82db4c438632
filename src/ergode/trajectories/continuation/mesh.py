"""Piecewise polynomials on a mesh of the period, for orthogonal collocation.

On every interval of the mesh a solution is a polynomial of degree 4, given by its values at 5
equidistant nodes. Neighbouring intervals share a node, so it has 4 N + 1 nodes.

C. de Boor, B. Swartz, SIAM J. Numer. Anal. 10, 582 (1973).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

DEGREE = 4
_FEWEST, _MOST = 20, 300  # intervals of a mesh
_TOLERANCE = 1e-8  # error of a solution within an interval, relative to its range
_STILL = 1e-12  # a variable with less of a range, relative to the largest value, stands still
# Error of the polynomials: this constant times the derivative of order 5 and the interval^5.
_CONSTANT = 1.0 / (math.factorial(DEGREE + 1) * 2.0 ** (2 * DEGREE))


def _basis(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lagrange polynomials of the nodes and their derivatives, [place, node], at places."""
    nodes = np.arange(DEGREE + 1) / DEGREE
    values = np.ones((*np.shape(places), DEGREE + 1))
    slopes = np.zeros_like(values)
    for i in range(DEGREE + 1):
        for k in range(DEGREE + 1):
            if k != i:
                factor = (places - nodes[k]) / (nodes[i] - nodes[k])
                slopes[..., i] = slopes[..., i] * factor + values[..., i] / (nodes[i] - nodes[k])
                values[..., i] *= factor
    return values, slopes


_points, _weights = np.polynomial.legendre.leggauss(DEGREE)
GAUSS, WEIGHTS = (_points + 1) / 2, _weights / 2  # Gauss points in [0, 1], and their weights
VALUES, SLOPES = _basis(GAUSS)  # [Gauss point, node]
_AT_NODES = np.array([7.0, 32.0, 12.0, 32.0, 7.0]) / 90  # weights of an integral by the nodes


class Mesh:
    """A mesh of the unit interval."""

    def __init__(self, ends: np.ndarray) -> None:
        self.ends = ends
        self.steps = np.diff(ends)
        self.count = self.steps.size

    @classmethod
    def uniform(cls, count: int = 2 * _FEWEST) -> Mesh:
        """A mesh of equal intervals."""
        return cls(np.linspace(0.0, 1.0, count + 1))

    @cached_property
    def nodes(self) -> np.ndarray:
        """Places of the nodes, shape [4 N + 1]."""
        inner = self.ends[:-1, None] + self.steps[:, None] * np.arange(DEGREE) / DEGREE
        return np.append(inner.ravel(), 1.0)

    @cached_property
    def of_interval(self) -> np.ndarray:
        """Nodes of each interval, shape [interval, 5]."""
        return np.arange(self.count)[:, None] * DEGREE + np.arange(DEGREE + 1)

    @cached_property
    def node_weights(self) -> np.ndarray:
        """Weights of the nodes in an integral over the unit interval."""
        found = np.zeros(self.nodes.size)
        np.add.at(found, self.of_interval, self.steps[:, None] * _AT_NODES)
        return found

    @cached_property
    def gauss(self) -> np.ndarray:
        """Gauss points of all intervals, shape [interval, 4]."""
        return np.asarray(self.ends[:-1, None] + self.steps[:, None] * GAUSS)

    def slopes_at_gauss(self, values: np.ndarray) -> np.ndarray:
        """Derivatives at the Gauss points of a function, [interval, 4, variable]."""
        local = values[self.of_interval]
        return np.asarray(np.einsum("gi,jin->jgn", SLOPES, local) / self.steps[:, None, None])

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes, their weights for values, and for slopes, [..., 5], at places in [0, 1]."""
        j = np.clip(np.searchsorted(self.ends, places, "right") - 1, 0, self.count - 1)
        values, slopes = _basis((places - self.ends[j]) / self.steps[j])
        return self.of_interval[j], values, slopes / self.steps[j][..., None]

    def interpolated(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Values of a function at places in [0, 1], shape [place, variable]."""
        nodes, weights, _ = self.at(places)
        return np.asarray(np.einsum("pi,pin->pn", weights, values[nodes]))

    def extremes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest values of a function, between nodes too, shape [variable]."""
        fine = np.linspace(0.0, 1.0, 10 * DEGREE + 1)
        local = np.einsum("pi,jin->jpn", _basis(fine)[0], values[self.of_interval])
        dense = np.concatenate([local[:, :-1].reshape(-1, values.shape[1]), values[-1:]])
        found = []
        for sign in (-1.0, 1.0):
            rows = sign * dense
            k = rows.argmax(axis=0)
            columns = np.arange(values.shape[1])
            # The vertex of the parabola through the largest value and its neighbours.
            before, here, after = (
                rows[:-1][(k + shift) % (len(rows) - 1), columns] for shift in (-1, 0, 1)
            )
            bend = before - 2 * here + after
            with np.errstate(divide="ignore", invalid="ignore"):
                rise = np.where(bend < 0, -((after - before) ** 2) / (8 * bend), 0.0)
            found.append(sign * (here + rise))
        return found[0], found[1]

    def halved(self) -> Mesh:
        """The mesh with the middle of every interval."""
        middles = (self.ends[:-1] + self.ends[1:]) / 2
        return Mesh(np.insert(self.ends, np.arange(1, self.count + 1), middles))

    def adapted(self, values: np.ndarray, fineness: int = 1) -> Mesh:
        """A mesh on which the error is equal in all intervals, or this one if it is near.

        `fineness` is how many times as many intervals it has as for the usual error.

        The derivative of order 5 is estimated by differences of that of order 4 (R. D. Russell,
        J. Christiansen, SIAM J. Numer. Anal. 15, 59 (1978)).
        """
        signs = [(-1.0) ** (DEGREE - i) * math.comb(DEGREE, i) for i in range(DEGREE + 1)]
        local = values[self.of_interval]
        highest = np.einsum("i,jin->jn", np.array(signs), local) * DEGREE**DEGREE
        highest /= self.steps[:, None] ** DEGREE
        ranges = np.ptp(values, axis=0)
        ranges[ranges <= _STILL * np.abs(values).max(initial=0.0)] = np.inf
        after = np.roll(highest, -1, axis=0) - highest
        after /= (self.steps + np.roll(self.steps, -1))[:, None] / 2
        each = (np.abs(after) + np.abs(np.roll(after, 1, axis=0))) / 2 / ranges
        density = each.max(axis=1) ** (1 / (DEGREE + 1))
        mean = float(density @ self.steps)
        if not np.isfinite(mean) or mean == 0.0:
            return self
        density = density + 0.2 * mean
        total = float(density @ self.steps)
        wanted = total * (_CONSTANT / _TOLERANCE) ** (1 / (DEGREE + 1))
        count = fineness * int(np.clip(math.ceil(wanted), _FEWEST, _MOST))
        shares = density * self.steps * self.count / total
        if 0.7 * self.count <= count <= 1.15 * self.count:
            if shares.max() < 1.6 and shares.min() > 0.4:
                return self
            count = max(count, self.count)
        parts = np.append(0.0, np.cumsum(density * self.steps) / total)
        ends = np.interp(np.linspace(0.0, 1.0, count + 1), parts, self.ends)
        ends[0], ends[-1] = 0.0, 1.0
        return Mesh(ends)
