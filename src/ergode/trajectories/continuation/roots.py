"""Characteristic roots of linear delay equations, and eigenvalues of ordinary ones.

The roots of x'(t) = A x(t) + sum_d a_d x_v(d)(t - tau_d) are eigenvalues of the generator of its
semigroup. The generator on polynomials at Chebyshev points of [-tau, 0] gives their approximations
(D. Breda, S. Maset, R. Vermiglio, SIAM J. Sci. Comput. 27, 482 (2005)). Newton's method on the
characteristic matrix corrects them (A. Ruhe, SIAM J. Numer. Anal. 10, 674 (1973)). The argument
principle counts the roots on the right of a vertical line; while the count is another one, there
are more points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_MOST = 12  # roots that are listed at least; if more are unstable, all those and _FURTHER
_FURTHER = 4
_LARGEST = 640  # order of the matrix of the generator
_WAVES = 12_000  # points of the contour that counts roots, at first


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
        return self.spectrum()[0]

    def spectrum(self) -> tuple[np.ndarray, bool]:
        """The roots, and whether no unstable root is missing, by the argument principle."""
        if not np.all(np.isfinite(self.jacobian)):
            raise np.linalg.LinAlgError("the derivatives are not finite")
        longest = float(self.taus.max(initial=0.0))
        if longest <= 0:
            return _ordered(np.linalg.eigvals(self.total)), True
        unit = 1.0 / longest
        # A wave of a radian needs half a point.
        degree = 24 + 0.6 * self._height(0.0) * longest
        largest = max(24, _LARGEST // self.size - 1)
        if degree > 1.5 * largest:  # the unstable roots are too many
            degree = largest = min(largest, 150)
        while True:
            degree = min(int(degree), largest)
            roots = _ordered(self._corrected(self._approximate(degree, longest), unit))
            unstable = int(np.count_nonzero(roots.real > 0))
            wanted = max(_MOST, self.size, unstable + _FURTHER)
            if self._is_complete(roots, wanted, unit):
                return roots[:wanted], True
            if degree == largest:  # perhaps only stable roots are missing
                return roots[:wanted], self._is_complete(roots, 0, unit)
            degree *= 1.6

    def _approximate(self, degree: int, longest: float) -> np.ndarray:
        nodes, differences = _chebyshev(degree)
        size, count = self.size, degree + 1
        matrix = np.zeros((count * size, count * size))
        matrix[size:] = np.kron(differences[1:] * (2 / longest), np.eye(size))
        matrix[:size, :size] = self.jacobian[:, :size]
        weights = _lagrange(nodes, 1 - 2 * self.taus / longest)
        for d, variable in enumerate(self.delayed):
            matrix[:size, variable::size] += np.outer(self.jacobian[:, size + d], weights[d])
        found = np.linalg.eigvals(matrix)
        most = 2 * max(2 * _MOST, size) + 2 * int(np.count_nonzero(found.real > 0))
        return found[np.argsort(-found.real)][:most]

    def _matrices(self, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Characteristic matrices of roots, and their derivatives, [root, row, column]."""
        size = self.size
        own = np.broadcast_to(self.jacobian[:, :size], (roots.size, size, size))
        matrices = roots[:, None, None] * np.eye(size) - own
        slopes = np.zeros(matrices.shape, complex) + np.eye(size)
        factors = np.exp(-roots[:, None] * self.taus)
        for d, variable in enumerate(self.delayed):
            term = self.jacobian[:, size + d] * factors[:, d, None]
            matrices[:, :, variable] -= term
            slopes[:, :, variable] += self.taus[d] * term
        return matrices, slopes

    def _changes(self, roots: np.ndarray) -> np.ndarray:
        """Newton's changes of roots [root, variable], the smallest first: root - theta is a root.

        They are the eigenvalues theta of D v = theta D' v. At a root that is m-fold, with m null
        vectors, m of them vanish.
        """
        matrices, slopes = self._matrices(roots)
        found = np.full((roots.size, self.size), np.nan, complex)
        usable = np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(slopes).all(axis=(1, 2))
        try:
            found[usable] = 1 / np.linalg.eigvals(np.linalg.solve(matrices[usable], slopes[usable]))
        except np.linalg.LinAlgError:  # at a root itself a matrix is singular
            for k in np.flatnonzero(usable):
                for top, bottom, power in ((matrices, slopes, -1), (slopes, matrices, 1)):
                    try:
                        found[k] = np.linalg.eigvals(np.linalg.solve(top[k], bottom[k])) ** power
                        break
                    except np.linalg.LinAlgError:
                        continue
        return np.take_along_axis(found, np.argsort(np.abs(found), axis=1), axis=1)

    def _corrected(self, roots: np.ndarray, unit: float) -> np.ndarray:
        """Roots after Newton's method, each as often as it is one; others are left out.

        `unit` is a root of usual size.
        """
        roots = np.array(roots, complex)
        with np.errstate(all="ignore"):
            going = np.ones(roots.size, bool)
            last = np.full(roots.size, np.inf)
            for _ in range(20):
                change = self._changes(roots[going])[:, 0]
                roots[going] -= change
                last[going] = np.abs(change) / (unit + np.abs(roots[going]))
                going = (last > 1e-14) & np.isfinite(roots)
                if not going.any():
                    break
        kept: list[complex] = []
        sharp = roots[np.isfinite(roots) & (last < 1e-12)]
        with np.errstate(all="ignore"):
            multiple = self._changes(sharp)
        for root, changes in zip(sharp, multiple, strict=True):
            tolerance = 1e-9 * (unit + abs(root))
            if abs(root.imag) < 1e-12 * (unit + abs(root)):
                root = complex(root.real)
            if root.imag >= 0 and not any(abs(root - other) < tolerance for other in kept):
                count = max(1, int(np.count_nonzero(np.abs(changes) < tolerance)))
                kept += ([root] if root.imag == 0 else [root, root.conjugate()]) * count
        # At a double root with one null vector Newton's method slows down.
        slow = roots[np.isfinite(roots) & (last >= 1e-12) & (last < 1e-7)]
        apart = [all(abs(one - other) > 1e-6 * (unit + abs(one)) for other in kept) for one in slow]
        slow = slow[np.array(apart, bool)]
        kept += [one for one in slow if abs(one.imag) < 1e-6 * (unit + abs(one))]
        for one in slow[slow.imag >= 1e-6 * (unit + np.abs(slow))]:
            kept += [one, one.conjugate()]
        return np.array(kept, complex)

    def _height(self, line: float) -> float:
        """A bound of |Im| of all roots whose real part is `line` or more.

        A null vector v obeys |root - A_ii| |v_i| <= sum_j M_ij |v_j| with the absolute values M
        of the other coefficients, so that the spectral radius of M / |root - A_ii| is 1 or more.
        """
        size = self.size
        own = np.diag(self.jacobian[:, :size])
        others = np.abs(self.jacobian[:, :size] - np.diag(own))
        with np.errstate(all="ignore"):
            for d, variable in enumerate(self.delayed):
                factor = np.exp(-line * self.taus[d])
                others[:, variable] += np.abs(self.jacobian[:, size + d]) * factor
        if not np.all(np.isfinite(others)):
            return np.inf
        away = np.maximum(line - own, 0.0)

        def radius(height: float) -> float:
            matrix = others / np.hypot(away, height)[:, None]
            return float(np.abs(np.linalg.eigvals(matrix)).max())

        high = float(np.abs(np.linalg.eigvals(others)).max())
        low = 1e-6 * high
        if high == 0 or radius(low) < 1:
            return low
        for _ in range(20):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if radius(middle) >= 1 else (low, middle)
        return high

    def _is_complete(self, roots: np.ndarray, wanted: int, unit: float) -> bool:
        """Whether as many roots are known on the right of a vertical line as there are."""
        real = roots.real
        for count in (wanted, 0):  # all that are wanted, or the unstable ones
            if count:
                gaps = real[count - 1 : count + 6][:-1] - real[count - 1 : count + 6][1:]
                if not gaps.size or gaps.max() < 1e-3 * unit:
                    continue
                k = count - 1 + int(gaps.argmax())
                line = float(real[k] + real[k + 1]) / 2
            else:
                lines = -unit * np.linspace(0.0, 0.5, 11)
                apart = np.abs(lines[:, None] - real).min(axis=1, initial=np.inf)
                line = float(lines[apart.argmax()])
            height = self._height(line)
            if height < 0.25 * _WAVES * unit:
                return self._count(line, height, unit) == int(np.count_nonzero(real > line))
        return False

    def _count(self, line: float, height: float, unit: float) -> int | None:
        """Number of roots with a real part beyond `line`, by the argument principle."""
        height *= 1.001
        places = np.linspace(0.0, height, 8 + int(4 * height / unit))
        phases = self._phases(line, places)
        for _ in range(40):
            turns = np.angle(np.exp(1j * np.diff(phases)))
            rough = np.flatnonzero(np.abs(turns) > 0.7)
            if not rough.size:
                break
            middle = (places[rough] + places[rough + 1]) / 2
            places = np.insert(places, rough + 1, middle)
            phases = np.insert(phases, rough + 1, self._phases(line, middle))
        else:
            return None
        # Beyond the height the phases of factors root - mu go to pi / 2 without a whole turn.
        end = np.array([line + 1j * places[-1]])
        factors = np.linalg.eigvals(self._matrices(end)[0][0])
        rest = np.pi / 2 * self.size - (np.angle(factors * -1j) + np.pi / 2).sum()
        return round(self.size / 2 - (turns.sum() + rest) / np.pi)

    def _phases(self, line: float, places: np.ndarray) -> np.ndarray:
        return np.angle(np.linalg.slogdet(self._matrices(line + 1j * places)[0])[0])


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
