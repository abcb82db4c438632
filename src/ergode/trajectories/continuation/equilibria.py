"""Curves of equilibria in one parameter: 0 = f(x, x, p).

Folds and branch points are found by the driver (`follow`). A Hopf point is where a pair of complex
eigenvalues, or characteristic roots, crosses the imaginary axis.

Y. A. Kuznetsov, "Elements of Applied Bifurcation Theory" (2004), chapters 3 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.trajectories.continuation.equations import Equations
from ergode.trajectories.continuation.follow import Curve, Point, Test
from ergode.trajectories.continuation.roots import Linear


class Scales:
    """The sizes of variables, which grow along a branch, so that units do not matter."""

    def __init__(self, values: np.ndarray) -> None:
        values = np.abs(values)
        most = values.max(initial=0.0) or 1.0
        self.values = np.where(values > 1e-8 * most, values, most)

    def grow(self, values: np.ndarray) -> None:
        """Let the sizes cover further values."""
        self.values = np.maximum(self.values, np.abs(values))


class Equilibria(Curve):
    """Unknowns are the variables and one parameter."""

    parameter_count = 1

    def __init__(
        self, equations: Equations, parameters: np.ndarray, free: int, bounds: np.ndarray,
        scales: Scales,
    ) -> None:  # fmt: skip
        self.equations, self.parameters, self.free = equations, parameters, free
        self.bounds, self.scales = bounds, scales
        self._width = float(bounds[0, 1] - bounds[0, 0])

    def split(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variables with delayed values, and all parameters."""
        equations = self.equations
        p = self.parameters.copy()
        p[self.free] = u[-1]
        x = u[: equations.size]
        return equations.at_rest(x), p

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        w, p = self.split(u)
        linear = self.linear(u)
        column = self.equations.by_parameter(w[:, None], p, self.free)
        residual = self.equations.slopes(w[:, None], p)[:, 0]
        return residual, np.column_stack([linear.total, column])

    def linear(self, u: np.ndarray) -> Linear:
        """The equations linearised at a point."""
        return linear_at(self.equations, *self.split(u))

    def sizes(self, u: np.ndarray) -> np.ndarray:
        count = self.equations.size
        return np.append(self.scales.values * count**0.5, self._width)

    def outline(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(u / self.sizes(u))

    def adapt(self, point: Point) -> Point:
        self.scales.grow(point.u[: self.equations.size])
        return replace(point)

    def describe(self, point: Point, base: Point | None) -> None:
        roots, point.facts["counted"] = self.linear(point.u).spectrum()
        point.facts["spectrum"] = roots
        point.facts["unstable"] = unstable_count(roots)

    def is_crowded(self, base: Point, point: Point) -> bool:
        return abs(point.facts["unstable"] - base.facts["unstable"]) > 2

    def tests(self, base: Point) -> Sequence[Test]:
        before, parity = base.facts["unstable"], _parity_of_sums(base.facts["spectrum"])
        has_all = not self.equations.delay_count  # whether all roots are known

        def side(point: Point) -> bool:
            differs = has_all and _parity_of_sums(point.facts["spectrum"]) != parity
            return differs or abs(point.facts["unstable"] - before) >= 2

        return [
            Test(
                "hopf", side,
                lambda p: nearest_pair(p.facts["spectrum"]).real,
                lambda p: is_hopf(p.facts["spectrum"]),
            )
        ]  # fmt: skip


def linear_at(equations: Equations, w: np.ndarray, p: np.ndarray) -> Linear:
    """The equations linearised at one state."""
    jacobian = equations.jacobian(w[:, None], p)[:, :, 0]
    return Linear(jacobian, equations.delayed, p[equations.delays])


def unstable_count(roots: np.ndarray) -> int:
    """Number of roots with positive real part, beyond rounding."""
    scale = float(np.abs(roots).max(initial=0.0))
    return int(np.count_nonzero(roots.real > 1e-12 * scale))


def _parity_of_sums(roots: np.ndarray) -> int:
    """Parity of the number of negative sums of two roots; a Hopf point changes it, a fold not."""
    real = roots[roots.imag == 0].real
    pairs = int(np.count_nonzero(roots[roots.imag > 0].real < 0))
    return (pairs + int(np.count_nonzero(np.triu(real[:, None] + real < 0, 1)))) % 2


def nearest_pair(roots: np.ndarray) -> complex:
    """Of complex roots with positive imaginary part, the one nearest to the imaginary axis."""
    pairs = roots[roots.imag > 0]
    return complex(pairs[np.abs(pairs.real).argmin()]) if pairs.size else complex(np.nan)


def is_hopf(roots: np.ndarray) -> bool:
    """Whether a complex pair is on the imaginary axis."""
    pair = nearest_pair(roots)
    return bool(abs(pair.real) < 1e-6 * abs(pair))


def hopf_near(
    equations: Equations, p: np.ndarray, free: int, state: np.ndarray, frequency: float,
    width: float,
) -> tuple[np.ndarray, float, float] | None:  # fmt: skip
    """State, frequency and parameter of the Hopf point near a guess, by the secant method."""

    def at(value: float) -> tuple[complex, np.ndarray]:
        q = p.copy()
        q[free] = value
        x = state.copy()
        for _ in range(10):
            w = equations.at_rest(x)
            linear = linear_at(equations, w, q)
            x = x - np.linalg.solve(linear.total, equations.slopes(w[:, None], q)[:, 0])
        w = equations.at_rest(x)
        roots = linear_at(equations, w, q).roots()
        return complex(roots[np.abs(roots - 1j * frequency).argmin()]), x

    first, second = float(p[free]), float(p[free]) + 1e-5 * width
    try:
        a, b = at(first)[0].real, at(second)[0].real
        for _ in range(20):
            if a == b:
                break
            first, second = second, second - b * (second - first) / (b - a)
            a, (root, x) = b, at(second)
            b = root.real
            if abs(second - first) < 1e-14 * width:
                break
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not abs(second - p[free]) < 1e-2 * width or abs(root.imag - frequency) > 0.05 * frequency:
        return None
    return x, float(root.imag), second


def null_vectors(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right and left singular vectors of the least singular value, of length 1."""
    left, _, right = np.linalg.svd(matrix)
    return right[-1].conj(), left[:, -1].conj()


def hopf_vectors(linear: Linear, frequency: float) -> tuple[np.ndarray, np.ndarray]:
    """Null vectors q and p of the characteristic matrix, with |q| = 1 and p D'(i w) q = 1."""
    q, p = null_vectors(linear.characteristic(1j * frequency))
    with np.errstate(all="ignore"):
        return q, p / (p @ linear.slope(1j * frequency) @ q)


def lyapunov_coefficient(
    equations: Equations, w: np.ndarray, p: np.ndarray, frequency: float
) -> float:
    """The first Lyapunov coefficient of a Hopf point; negative if it is supercritical.

    Kuznetsov (2004), equation (5.34), with |q| = 1; with delays by characteristic matrices
    (S. A. van Gils, S. G. Janssens, Y. A. Kuznetsov, S. Visser, J. Math. Neurosci. 3, 6 (2013)).
    """
    linear = linear_at(equations, w, p)
    q, adjoint = hopf_vectors(linear, frequency)
    root = 1j * frequency
    own = linear.extended(q, root)
    other = own.conj()
    try:
        still = np.linalg.solve(linear.characteristic(0j), equations.second(w, p, own, other))
        twice = np.linalg.solve(linear.characteristic(2 * root), equations.second(w, p, own, own))
    except np.linalg.LinAlgError:
        return float("nan")
    cubic = equations.third(w, p, own, own, other)
    cubic = cubic + 2 * equations.second(w, p, own, linear.extended(still, 0j))
    cubic = cubic + equations.second(w, p, other, linear.extended(twice, 2 * root))
    return float((adjoint @ cubic).real / (2 * frequency))


def fold_coefficient(
    equations: Equations, w: np.ndarray, p: np.ndarray, right: np.ndarray, left: np.ndarray
) -> float:
    """Half the second derivative along a null vector; zero at a cusp."""
    along = equations.at_rest(right)
    return float(left @ equations.second(w, p, along, along)) / 2
