"""Curves of folds, period doublings and torus bifurcations of cycles in two parameters.

A cycle is one of these where a matrix M is singular: at a fold that of the cycle's own equations by
its values and its period; else that of v' = T A(t) v with v(1) = mu v(0), where mu is -1 at a
period doubling and exp(i a) at a torus bifurcation, whose angle a is a further unknown. M is
bordered by its null vectors at the last point,

    M f + w g = 0,  <v, f> = 1,

and g = 0 completes the equations of the cycle. The gradient of g is -psi M' f with the null vector
psi of the transposed matrix; M' f is the derivative of the cycle's Jacobian along f, a difference
of two Jacobians.

W. Govaerts, Y. A. Kuznetsov, A. Dhooge, SIAM J. Sci. Comput. 27, 231 (2005);
Y. A. Kuznetsov, "Elements of Applied Bifurcation Theory" (2004), chapter 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from ergode.trajectories.continuation.cycles import Cycles, is_accurate
from ergode.trajectories.continuation.equilibria import hopf_near, lyapunov_coefficient
from ergode.trajectories.continuation.follow import Point, Test

_STEP = 1e-4  # of a difference along a null vector, relative to the sizes of the unknowns
_ITERATIONS = 3  # of the null vectors that border a matrix
_OUTSIDE = 1.0 + 1e-6
_REAL = 1e-9  # a multiplier with less of an imaginary part is real
SHRUNK = "The cycles shrank to an equilibrium, at a Bautin point."
RESONANCE = "The angle of the multipliers reached a strong resonance, 1:1 or 1:2."


class _Bifurcations(Cycles):
    """What the three curves share; a kind says which matrix is singular."""

    parameter_count = 2

    def _matrix(self, u: np.ndarray) -> tuple[Any, np.ndarray]:
        """The matrix that is singular, in sparse columns, and the sizes of its unknowns."""
        raise NotImplementedError

    def _along(self, u: np.ndarray, f: np.ndarray) -> Any:
        """The derivative of the Jacobian of the cycle along a null vector, by all unknowns."""
        raise NotImplementedError

    def begin(self, point: Point, reference: np.ndarray) -> None:
        super().begin(point, reference)
        matrix, sizes = self._matrix(point.u)
        scaled = matrix @ scipy.sparse.diags(sizes)
        most = np.abs(scaled).max(axis=1).toarray().ravel()
        self._row_sizes = 1.0 / np.where(most > 0, most, 1.0)
        rng = np.random.default_rng(0)
        self._left, self._right = rng.standard_normal((2, sizes.size)).astype(matrix.dtype)
        for _ in range(_ITERATIONS):
            right, left, _ = self._bordered(matrix, sizes)
            self._right = right / np.linalg.norm(right)
            self._left = left / np.linalg.norm(left)

    def _null_vectors(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """The scaled vectors f and psi, and g."""
        return self._bordered(*self._matrix(u))

    def _bordered(self, matrix: Any, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        scaled = scipy.sparse.diags(self._row_sizes) @ matrix @ scipy.sparse.diags(sizes)
        column = scipy.sparse.csc_matrix(self._left[:, None])
        row = scipy.sparse.csc_matrix(self._right.conj()[None, :])
        factors = scipy.sparse.linalg.splu(
            scipy.sparse.bmat([[scaled, column], [row, None]], format="csc")
        )
        unit = np.zeros(sizes.size + 1, matrix.dtype)
        unit[-1] = 1.0
        right, left = factors.solve(unit), factors.solve(unit, "H")
        return right[:-1], left[:-1], right[-1]

    def _completed(self, u: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """g, its gradient, and the null vectors f and psi in the unknowns' own sizes."""
        right, left, g = self._null_vectors(u)
        f = right * self._matrix_sizes(u)
        psi = left * self._row_sizes
        return g, -(self._along(u, f).T @ psi.conj()), f, psi

    def _largest(self, f: np.ndarray) -> float:
        """The largest value at a node, relative to the sizes of the variables."""
        return float(np.abs(f.reshape(-1, self.equations.size) / self.scales.values).max())

    def _matrix_sizes(self, u: np.ndarray) -> np.ndarray:
        return self.sizes(u)[: -self._tail]

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        residual, matrix = self._cycle_system(u, rough=True)
        g, gradient, _, _ = self._completed(u)
        return np.append(residual, g), scipy.sparse.vstack([matrix, gradient], format="csr")

    def adapt(self, point: Point) -> Point:
        """The borders are new at every step, so what belongs to the old ones is dropped."""
        return replace(super().adapt(point), facts={})

    def _away(self, multipliers: np.ndarray, point: Point) -> np.ndarray:
        """The multipliers without those that make the bifurcation."""
        raise NotImplementedError

    def describe(self, point: Point, base: Point | None) -> None:
        multipliers = self.multipliers(point.u)
        others = self._away(_without(multipliers, 1.0), point)
        point.facts.update(
            spectrum=multipliers, others=others,
            unstable=int(np.count_nonzero(np.abs(others) > _OUTSIDE)),
        )  # fmt: skip

    def ended(self, points: Sequence[Point]) -> str:
        return ""

    def tests(self, base: Point) -> Sequence[Test]:
        return [
            Test(
                "fold-flip" if isinstance(self, Folds) else "1:2-resonance",
                lambda p: _beyond(p, -1.0) % 2, lambda p: _nearest(p, -1.0) + 1.0, is_accurate,
            ),
            Test(
                "1:1-resonance" if isinstance(self, Folds) else "fold-flip",
                lambda p: _beyond(p, 1.0) % 2, lambda p: _nearest(p, 1.0) - 1.0, is_accurate,
            ),
            Test(
                f"{self.name}-torus",
                lambda p: abs(p.facts["unstable"] - base.facts["unstable"]) >= 2,
                lambda p: abs(_pair(p)) - 1.0,
                lambda p: is_accurate(p) and abs(abs(_pair(p)) - 1.0) < 1e-5,
            ),
            self._too_long(),
        ]  # fmt: skip

    name = ""


class Folds(_Bifurcations):
    """The curve of folds of cycles."""

    name = "fold"

    def _matrix(self, u: np.ndarray) -> tuple[Any, np.ndarray]:
        return self._cycle_system(u)[1][:, :-2], self.sizes(u)[:-2]

    def _largest(self, f: np.ndarray) -> float:
        """The largest value at a node, relative to the sizes of the variables."""
        return float(np.abs(f.reshape(-1, self.equations.size) / self.scales.values).max())

    def _matrix_sizes(self, u: np.ndarray) -> np.ndarray:
        return self.sizes(u)[:-2]

    def _along(self, u: np.ndarray, f: np.ndarray) -> Any:
        way = np.append(f, [0.0, 0.0])
        step = _STEP / max(self._largest(f[:-1]), abs(f[-1]) / self._period)
        above, below = (self._cycle_system(u + k * step * way)[1] for k in (1.0, -1.0))
        return (above - below) / (2 * step)

    def _away(self, multipliers: np.ndarray, point: Point) -> np.ndarray:
        return _without(multipliers, 1.0)

    def tests(self, base: Point) -> Sequence[Test]:
        weights = 1.0 / self._widths**2
        ways = base.tangent[-2:] * weights
        return [
            Test.by_sign(  # where the curve turns back in the plane of the parameters
                "cusp", lambda p: float(ways @ p.tangent[-2:]),
                lambda p: float(np.sum(p.tangent[-2:] ** 2 * weights)) < 1e-8,
            ),
            Test.by_sign(
                "bautin", self._likeness(base), ends=SHRUNK, polished=self._at_bautin
            ),
            *super().tests(base),
        ]  # fmt: skip

    def _at_bautin(self, point: Point) -> Point:
        """The Bautin point at which cycles have shrunk: a Hopf point whose coefficient is zero."""
        state = self._mesh.node_weights @ self.profile(point.u)
        frequency, p = 2 * np.pi / self.period(point.u), self.all_parameters(point.u)
        first, other = self.free
        width = self._widths[1]

        def at(value: float) -> tuple[float, Any]:
            q = p.copy()
            q[other] = value
            found = hopf_near(self.equations, q, first, state, frequency, float(self._widths[0]))
            if found is None:
                return np.nan, None
            q[first] = found[2]
            w = self.equations.at_rest(found[0])
            return lyapunov_coefficient(self.equations, w, q, found[1]), found

        last, here = float(p[other]), float(p[other] + 1e-4 * width)
        before = at(last)[0]
        for _ in range(30):
            coefficient, found = at(here)
            if not np.isfinite(coefficient + before) or abs(here - p[other]) > 0.05 * width:
                return point
            if abs(here - last) <= 1e-12 * width or coefficient == before:
                flat = np.tile(found[0], self._mesh.nodes.size)
                return replace(
                    point, u=np.concatenate([flat, [2 * np.pi / found[1], found[2], here]])
                )
            last, before, here = (
                here, coefficient, here - coefficient * (here - last) / (coefficient - before),
            )  # fmt: skip
        return point


class _Twisted(_Bifurcations):
    """Curves where a solution v of the linearised equations has v(1) = mu v(0)."""

    def _factor(self, u: np.ndarray) -> complex | float:
        raise NotImplementedError

    def _matrix(self, u: np.ndarray, beside: Any = None) -> tuple[Any, np.ndarray]:
        _, blocks, delayed, by_period, _ = self._linearised(u, beside=beside)
        n, inner, factor = self.equations.size, by_period.size, self._factor(u)
        rows = [self._rows.ravel(), *(one[0] for one in delayed)]
        columns = [self._columns.ravel(), *(one[1] % inner for one in delayed)]
        entries = [blocks.ravel(), *(one[2] * factor ** (one[1] // inner) for one in delayed)]
        # The last node, which is the first one a period later, has columns of its own.
        ends = np.arange(n)
        rows += [inner + ends, inner + ends]
        columns += [ends, inner + ends]
        entries += [np.full(n, factor), np.full(n, -1.0)]
        size = inner + n
        matrix = scipy.sparse.csc_matrix(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
            shape=(size, size),
        )
        return matrix, self.sizes(u)[:size]

    def _along(self, u: np.ndarray, f: np.ndarray) -> Any:
        values, factor = f.reshape(-1, self.equations.size), self._factor(u)
        step = _STEP / self._largest(f)
        found: Any = 0.0
        for part in (1.0, 1j) if np.iscomplexobj(f) else (1.0,):
            # The real part of f, and that of -i f, which is the imaginary part.
            sides = [
                self._cycle_system(u, beside=(k * step * values / part, factor))[1]
                for k in (1.0, -1.0)
            ]
            found = found + (sides[0] - sides[1]) * (part / (2 * step))
        # The phase, and the ends that are joined, are no part of the matrix.
        return found[:-1]


class Doublings(_Twisted):
    """The curve of period doublings."""

    name = "flip"

    def _factor(self, u: np.ndarray) -> float:
        return -1.0

    def _away(self, multipliers: np.ndarray, point: Point) -> np.ndarray:
        return _without(multipliers, -1.0)

    def describe(self, point: Point, base: Point | None) -> None:
        super().describe(point, base)
        point.facts["cubic"] = self._cubic(point.u)

    def _cubic(self, u: np.ndarray) -> float:
        """The cubic coefficient of the normal form: 0 at a generalised period doubling."""
        _, gradient, f, psi = self._completed(u)
        n = self.equations.size
        values, step = f.reshape(-1, n), 3 * _STEP / self._largest(f)
        above, here, below = (
            self._matrix(u, (k * step * values, -1.0))[0] @ f for k in (1.0, 0.0, -1.0)
        )
        square = (above - below)[:-n] / (2 * step)
        cube = (above - 2 * here + below)[:-n] / step**2
        matrix = self._cycle_system(u)[1][:, :-2].tocsc()
        bend = np.append(-square / 2, np.zeros(n + 1))  # the cycle bends along the doubled ones
        h = scipy.sparse.linalg.splu(matrix).solve(bend)
        change = float(-gradient[:-2] @ h + psi[: cube.size] @ cube / 6)
        return change / float(psi[-n:] @ values[0])

    def tests(self, base: Point) -> Sequence[Test]:
        size = abs(base.facts["cubic"])
        return [
            Test.by_sign(
                "generalised-doubling", lambda p: p.facts["cubic"],
                lambda p: bool(abs(p.facts["cubic"]) < 1e-3 * size), attempts=8,
            ),  # a difference, which has rounding
            *super().tests(base),
        ]  # fmt: skip


class Tori(_Twisted):
    """The curve of torus bifurcations; the angle of the multipliers is an unknown."""

    name = "double"
    others = 1

    def angle(self, u: np.ndarray) -> float:
        """The angle of the multipliers [rad]."""
        return float(u[-4])

    def _factor(self, u: np.ndarray) -> complex:
        return complex(np.exp(1j * u[-4]))

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        residual, matrix = self._cycle_system(u, rough=True)
        g, gradient, f, psi = self._completed(u)
        step = 1e-5
        sides = []
        for k in (1.0, -1.0):
            moved = u.copy()
            moved[-4] += k * step
            sides.append(self._matrix(moved)[0] @ f)
        gradient[-4] = -(psi.conj() @ (sides[0] - sides[1])) / (2 * step)
        return (
            np.concatenate([residual, [g.real, g.imag]]),
            scipy.sparse.vstack([matrix, gradient.real, gradient.imag], format="csr"),
        )

    def _away(self, multipliers: np.ndarray, point: Point) -> np.ndarray:
        factor = self._factor(point.u)
        return _without(_without(multipliers, factor), factor.conjugate())

    def tests(self, base: Point) -> Sequence[Test]:
        def at(angle: float) -> Any:
            return lambda p: self.angle(p.u) - angle

        return [
            Test.by_sign("1:1-resonance", at(0.0), ends=RESONANCE),
            Test.by_sign("1:2-resonance", at(np.pi), ends=RESONANCE),
            Test.by_sign("1:3-resonance", at(2 * np.pi / 3)),
            Test.by_sign("1:4-resonance", at(np.pi / 2)),
            *(
                replace(one, kind={"1:2-resonance": "flip-torus", "fold-flip": "fold-torus"}.get(
                    one.kind, one.kind
                ))
                for one in super().tests(base)
            ),
        ]  # fmt: skip


KINDS: dict[str, type[_Bifurcations]] = {"folds": Folds, "doublings": Doublings, "tori": Tori}


def _without(multipliers: np.ndarray, value: complex) -> np.ndarray:
    """The multipliers without the one nearest to a value."""
    if not multipliers.size:
        return multipliers
    return np.delete(multipliers, np.abs(multipliers - value).argmin())


def _real(point: Point) -> np.ndarray:
    others = point.facts["others"]
    return np.asarray(others[np.abs(others.imag) <= _REAL * np.abs(others)].real)


def _beyond(point: Point, value: float) -> int:
    """Number of real multipliers beyond 1 or -1."""
    return int(np.count_nonzero(_real(point) * value > 1.0))


def _nearest(point: Point, value: float) -> float:
    real = _real(point)
    return float(real[np.abs(real - value).argmin()]) if real.size else float("nan")


def _pair(point: Point) -> complex:
    others = point.facts["others"]
    pairs = others[others.imag > _REAL * np.abs(others)]
    return complex(pairs[np.abs(np.abs(pairs) - 1).argmin()]) if pairs.size else complex("nan")
