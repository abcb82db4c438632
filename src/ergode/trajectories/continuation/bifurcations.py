"""Curves of folds and of Hopf points in two parameters.

A fold obeys f = 0, J v = 0. A Hopf point obeys f = 0 and D(i w) (v + i w u) = 0 with the
characteristic matrix D. Written in v, u and k = w^2, the equations have no singularity where
w = 0, at a Bogdanov-Takens point, which ends the curve of Hopf points.

W. Govaerts, "Numerical Methods for Bifurcations of Dynamical Equilibria", SIAM (2000), chapter 4;
Y. A. Kuznetsov, "Elements of Applied Bifurcation Theory" (2004), chapters 8 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.trajectories.continuation import equilibria
from ergode.trajectories.continuation.equations import Equations
from ergode.trajectories.continuation.follow import Curve, Point, Test
from ergode.trajectories.continuation.roots import Linear

_STEP = 1e-6  # of differences, in sizes of the unknowns
TAKENS = "The Hopf points end at a Bogdanov-Takens point."


class _Bifurcations(Curve):
    """What both curves share: unknowns are the state, null vectors and two parameters."""

    parameter_count = 2

    def __init__(
        self, equations: Equations, parameters: np.ndarray, free: Sequence[int],
        bounds: np.ndarray, scales: equilibria.Scales,
    ) -> None:  # fmt: skip
        self.equations, self.parameters, self.free = equations, parameters, list(free)
        self.bounds, self.scales = bounds, scales

    def split(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variables with delayed values, and all parameters; of one point or of several."""
        p = np.array(np.broadcast_to(
            self.parameters.reshape(-1, *[1] * (u.ndim - 1)), (self.parameters.size, *u.shape[1:])
        ))  # fmt: skip
        p[self.free] = u[-2:]
        x = u[: self.equations.size]
        return self.equations.at_rest(x), p

    def linear(self, u: np.ndarray) -> Linear:
        """The equations linearised at a point."""
        return equilibria.linear_at(self.equations, *self.split(u))

    def residual(self, u: np.ndarray) -> np.ndarray:
        """Residuals [equation, point] of several points [unknown, point]."""
        raise NotImplementedError

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        steps = _STEP * self.sizes(u)
        moved = np.column_stack([u, u[:, None] + np.diag(steps), u[:, None] - np.diag(steps)])
        found = self.residual(moved)
        count = u.size
        jacobian = (found[:, 1 : 1 + count] - found[:, 1 + count :]) / (2 * steps)
        return found[:, 0], jacobian

    def outline(self, u: np.ndarray) -> np.ndarray:
        n = self.equations.size
        sizes = self.sizes(u)
        return np.concatenate([u[:n] / sizes[:n], u[-2:] / sizes[-2:]])

    def _renewed(self, u: np.ndarray) -> np.ndarray:
        """The unknowns with a vector of length 1, which is the reference of the next ones."""
        raise NotImplementedError

    def adapt(self, point: Point) -> Point:
        self.scales.grow(point.u[: self.equations.size])
        return replace(point, u=self._renewed(point.u), facts={})

    def _applied(self, u: np.ndarray) -> tuple[np.ndarray, Any, Any]:
        """Slopes, and functions that multiply the Jacobians by vectors [variable, point]."""
        w, p = self.split(u)
        n = self.equations.size
        jacobian = self.equations.jacobian(w, p)

        def own(v: np.ndarray) -> np.ndarray:
            return np.asarray(np.einsum("abk,bk->ak", jacobian[:, :n], v))

        def late(v: np.ndarray) -> np.ndarray:
            """`v` has delayed values [delay, point]."""
            return np.asarray(np.einsum("adk,dk->ak", jacobian[:, n:], v))

        return self.equations.slopes(w, p), own, late


def _second_pair(kind: str, base: Point) -> Test:
    """A test for another pair of roots that crosses the imaginary axis."""
    before = base.facts["unstable"]
    return Test(
        kind, lambda p: abs(p.facts["unstable"] - before) >= 2,
        lambda p: equilibria.nearest_pair(p.facts["others"]).real,
        lambda p: equilibria.is_hopf(p.facts["others"]),
    )  # fmt: skip


class Folds(_Bifurcations):
    """The curve of folds."""

    def start(self, x: np.ndarray) -> np.ndarray:
        """Unknowns at a fold, and the reference of the null vector."""
        u = np.concatenate([x, x, self.parameters[self.free]])
        v = equilibria.null_vectors(self.linear(u).total)[0]
        u[x.size : -2] = v
        return self._renewed(u)

    def _renewed(self, u: np.ndarray) -> np.ndarray:
        n = self.equations.size
        v = u[n:-2] / np.linalg.norm(u[n:-2] / self.scales.values)
        self._reference = v / self.scales.values**2
        return np.concatenate([u[:n], v, u[-2:]])

    def residual(self, u: np.ndarray) -> np.ndarray:
        n = self.equations.size
        slopes, own, late = self._applied(u)
        v = u[n : 2 * n]
        return np.vstack(
            [slopes, own(v) + late(v[self.equations.delayed]), self._reference @ v - 1.0]
        )

    def sizes(self, u: np.ndarray) -> np.ndarray:
        n = self.equations.size
        own = self.scales.values * n**0.5
        return np.concatenate([own, own, self.bounds[:, 1] - self.bounds[:, 0]])

    def describe(self, point: Point, base: Point | None) -> None:
        w, p = self.split(point.u)
        linear = equilibria.linear_at(self.equations, w, p)
        n = self.equations.size
        right = point.u[n:-2] / np.linalg.norm(point.u[n:-2] / self.scales.values)
        left = equilibria.null_vectors(linear.total)[1]
        if base is not None and base.facts and left @ base.facts["left"] < 0:
            left = -left
        roots, point.facts["counted"] = linear.spectrum()
        others = np.delete(roots, np.abs(roots).argmin())
        point.facts.update(
            spectrum=roots, unstable=equilibria.unstable_count(others), others=others, left=left,
            cusp=equilibria.fold_coefficient(self.equations, w, p, right, left),
            takens=float((left @ linear.slope(0.0) @ right).real),
        )  # fmt: skip

    def tests(self, base: Point) -> Sequence[Test]:
        return [
            Test.by_sign("cusp", lambda p: p.facts["cusp"]),
            Test.by_sign("bogdanov-takens", lambda p: p.facts["takens"]),
            _second_pair("zero-hopf", base),
        ]  # fmt: skip


class Hopfs(_Bifurcations):
    """The curve of Hopf points; unknowns are x, v, u, k = frequency^2 and two parameters."""

    def start(self, x: np.ndarray, frequency: float) -> np.ndarray:
        """Unknowns at a Hopf point, or at a Bogdanov-Takens point, where the frequency is 0."""
        n = x.size
        u = np.concatenate([x, x, x, [frequency**2], self.parameters[self.free]])
        linear = self.linear(u)
        if frequency > 0:
            q = equilibria.hopf_vectors(linear, frequency)[0]
            v, w = q.real, q.imag / frequency
        else:  # the generalised eigenvector
            v = equilibria.null_vectors(linear.total)[0]
            w = np.linalg.lstsq(linear.total, (linear.slope(0.0) @ v).real, rcond=1e-8)[0]
        u[n : 2 * n], u[2 * n : 3 * n] = v, w
        scale = self.scales.values
        self._square = frequency**2 or float(np.sum((v / scale) ** 2) / np.sum((w / scale) ** 2))
        return self._renewed(u)

    def _renewed(self, u: np.ndarray) -> np.ndarray:
        n = self.equations.size
        self._square = max(self._square, abs(u[-3]))
        v, w = u[n : 2 * n], u[2 * n : 3 * n]
        scale = self.scales.values
        length = np.sqrt(np.sum((v / scale) ** 2) + self._square * np.sum((w / scale) ** 2))
        v, w = v / length, w / length
        self._length = np.concatenate([v, self._square * w]) / np.tile(scale, 2) ** 2
        self._phase = np.concatenate([-u[-3] / self._square * w, v]) / np.tile(scale, 2) ** 2
        self._angle = float(self._phase @ np.concatenate([v, w]))
        return np.concatenate([u[:n], v, w, u[-3:]])

    def residual(self, u: np.ndarray) -> np.ndarray:
        n, delayed = self.equations.size, self.equations.delayed
        slopes, own, late = self._applied(u)
        both, square = u[n : 3 * n], u[-3]
        v, w = both[:n], both[n:]
        taus = self.split(u)[1][self.equations.delays]
        # exp(-i w tau) (v + i w u) with cosines and sines that are functions of w^2.
        root = np.sqrt(square.astype(complex))
        cosine = np.cos(root * taus).real
        sine = (taus * np.sinc(root * taus / np.pi)).real
        first = own(v) + late(cosine * v[delayed] + square * sine * w[delayed]) + square * w
        second = own(w) + late(cosine * w[delayed] - sine * v[delayed]) - v
        return np.vstack(
            [slopes, first, second, self._length @ both - 1.0, self._phase @ both - self._angle]
        )

    def sizes(self, u: np.ndarray) -> np.ndarray:
        own = self.scales.values * self.equations.size**0.5
        return np.concatenate([
            own, own, own / self._square**0.5, [self._square],
            self.bounds[:, 1] - self.bounds[:, 0],
        ])  # fmt: skip

    def describe(self, point: Point, base: Point | None) -> None:
        w, p = self.split(point.u)
        linear = equilibria.linear_at(self.equations, w, p)
        square = float(point.u[-3])
        roots, point.facts["counted"] = linear.spectrum()
        root = np.sqrt(complex(-square))
        others = np.delete(roots, np.abs(roots - root).argmin())
        others = np.delete(others, np.abs(others + root).argmin())
        coefficient = float("nan")
        if square > 1e-12 * self._square:
            coefficient = equilibria.lyapunov_coefficient(self.equations, w, p, square**0.5)
        point.facts.update(
            spectrum=roots, unstable=equilibria.unstable_count(others), others=others,
            square=square, coefficient=coefficient,
            rest=float(np.linalg.det(linear.total)) / square,
        )  # fmt: skip

    def tests(self, base: Point) -> Sequence[Test]:
        if base.label:  # the curve begins at a Bogdanov-Takens point
            return []
        size = abs(base.facts["coefficient"])
        rest = abs(base.facts["rest"])
        return [
            Test.by_sign("bogdanov-takens", lambda p: p.facts["square"], ends=TAKENS),
            Test.by_sign(
                "bautin", lambda p: p.facts["coefficient"],
                lambda p: bool(abs(p.facts["coefficient"]) < 1e-3 * size),
            ),
            Test.by_sign(
                "zero-hopf", lambda p: p.facts["rest"],
                lambda p: bool(abs(p.facts["rest"]) < 1e-3 * rest),
            ),
            _second_pair("double-hopf", base),
        ]  # fmt: skip
