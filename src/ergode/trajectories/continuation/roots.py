"""Characteristic roots of linear delay equations, and eigenvalues of ordinary ones.

The roots of x'(t) = A x(t) + sum_d a_d x_v(d)(t - tau_d) are eigenvalues of the generator of its
semigroup. The generator on polynomials at Chebyshev points of [-tau, 0] gives their approximations
(D. Breda, S. Maset, R. Vermiglio, SIAM J. Sci. Comput. 27, 482 (2005)). Newton's method on the
characteristic matrix corrects them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_MOST = 12  # roots of a delay equation, the rightmost ones, or the number of variables


@dataclass(frozen=True)
class Linear:
    """A linear equation: derivatives by variables and by delayed values."""

    jacobian: np.ndarray  # [variable, variable and delay]
    delayed: np.ndarray  # [delay]: variable of each delayed value
    taus: np.ndarray  # [delay]

    @property
    def size(self) -> int:
        """Number of variables."""
        return int(self.jacobian.shape[0])

    @property
    def total(self) -> np.ndarray:
        """The matrix of equilibria, where delayed values equal the variables."""
        return self._with(np.ones(self.taus.size))

    def _with(self, factors: np.ndarray) -> np.ndarray:
        found = self.jacobian[:, : self.size].astype(np.result_type(factors, float))
        for d, variable in enumerate(self.delayed):
            found[:, variable] += self.jacobian[:, self.size + d] * factors[d]
        return found

    def characteristic(self, root: complex) -> np.ndarray:
        """The characteristic matrix, root - A - sum_d A_d exp(-root tau_d)."""
        return np.asarray(root * np.eye(self.size) - self._with(np.exp(-root * self.taus)))

    def slope(self, root: complex) -> np.ndarray:
        """The derivative of the characteristic matrix by the root."""
        found = np.eye(self.size, dtype=complex)
        for d, variable in enumerate(self.delayed):
            factor = self.taus[d] * np.exp(-root * self.taus[d])
            found[:, variable] += self.jacobian[:, self.size + d] * factor
        return found

    def extended(self, vector: np.ndarray, root: complex) -> np.ndarray:
        """The vector times exp(root t) at time 0, and its delayed values."""
        return np.concatenate([vector, vector[self.delayed] * np.exp(-root * self.taus)])

    def roots(self) -> np.ndarray:
        """Eigenvalues, or the rightmost characteristic roots, in descending real part."""
        longest = float(self.taus.max(initial=0.0))
        if longest <= 0:
            return _ordered(np.linalg.eigvals(self.total))
        count = max(_MOST, self.size)
        return _ordered(self._corrected(self._approximate(longest), 1.0 / longest))[:count]

    def _approximate(self, longest: float) -> np.ndarray:
        # Roots are at most the norm in size; a wave of a radian needs half a point.
        growth = longest * float(np.abs(self.jacobian).sum(axis=1).max())
        degree = int(np.clip(14 + 0.75 * growth, 14, max(24, 400 // self.size)))
        nodes, differences = _chebyshev(degree)
        size, count = self.size, degree + 1
        matrix = np.zeros((count * size, count * size))
        matrix[size:] = np.kron(differences[1:] * (2 / longest), np.eye(size))
        matrix[:size, :size] = self.jacobian[:, :size]
        weights = _lagrange(nodes, 1 - 2 * self.taus / longest)
        for d, variable in enumerate(self.delayed):
            matrix[:size, variable::size] += np.outer(self.jacobian[:, size + d], weights[d])
        found = np.linalg.eigvals(matrix)
        most = 4 * max(_MOST, size)
        return found[np.argsort(-found.real)][:most]

    def _corrected(self, roots: np.ndarray, unit: float) -> np.ndarray:
        """Roots after Newton's method; those that it moves far, or merges, are left out.

        `unit` is a root of usual size.
        """
        kept: list[complex] = []
        scale = unit + float(np.abs(self.jacobian).sum(axis=1).max())
        for start in roots[roots.imag >= 0]:
            root = complex(start)
            for _ in range(20):
                matrix = self.characteristic(root)
                try:
                    change = 1.0 / np.trace(np.linalg.solve(matrix, self.slope(root)))
                except np.linalg.LinAlgError:
                    change = 0.0
                if not np.isfinite(change) or abs(change) > 10 * scale:
                    root = complex(np.nan)
                    break
                root -= change
                if abs(change) < 1e-13 * (unit + abs(root)):
                    break
            if np.isfinite(root) and abs(root - start) < 0.3 * (unit + abs(start)):
                if abs(root.imag) < 1e-12 * (unit + abs(root)):
                    root = complex(root.real)
                if root.imag >= 0:
                    kept.append(root)
        distinct: list[complex] = []
        for root in kept:
            if not any(abs(root - other) < 1e-9 * (unit + abs(root)) for other in distinct):
                distinct += [root] if root.imag == 0 else [root, root.conjugate()]
        return np.array(distinct, complex) if distinct else roots


def _ordered(roots: np.ndarray) -> np.ndarray:
    """Roots in descending real part; of a pair, the one with positive imaginary part first."""
    roots = np.asarray(roots, complex)
    most = float(np.abs(roots).max(initial=0.0)) or 1.0
    return roots[np.lexsort((-roots.imag, -np.round(roots.real / most, 12)))]


@lru_cache(maxsize=32)
def _chebyshev(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev points from 1 to -1, and the matrix of derivatives (Trefethen 2000, p. 54)."""
    nodes = np.cos(np.pi * np.arange(degree + 1) / degree)
    c = np.ones(degree + 1)
    c[0] = c[-1] = 2.0
    c *= (-1.0) ** np.arange(degree + 1)
    gaps = nodes[:, None] - nodes + np.eye(degree + 1)
    matrix = np.outer(c, 1 / c) / gaps
    matrix -= np.diag(matrix.sum(axis=1))
    return nodes, matrix


def _lagrange(nodes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Weights of the values at Chebyshev points for values at places, [place, node]."""
    weights = (-1.0) ** np.arange(nodes.size)
    weights[[0, -1]] /= 2
    gaps = places[:, None] - nodes
    exact = np.abs(gaps) < 1e-14
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = weights / gaps
        found = parts / parts.sum(axis=1, keepdims=True)
    found[exact.any(axis=1)] = exact[exact.any(axis=1)].astype(float)
    return np.asarray(found)
