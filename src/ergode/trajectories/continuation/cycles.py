"""Curves of cycles: x' = T f(x, p) on the unit interval, x(0) = x(1).

The solution is a piecewise polynomial that obeys the equation at the Gauss points of every interval
of an adaptive mesh. An integral condition fixes the phase: the solution is, of all its shifts, the
nearest to the previous one (E. J. Doedel, H. B. Keller, J.-P. Kernevez, Int. J. Bifurcation Chaos
1, 745 (1991)). Delayed values are those of the same polynomials, periodically continued
(K. Engelborghs, T. Luzyanina, K. J. in 't Hout, D. Roose, SIAM J. Sci. Comput. 22, 1593 (2001)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from ergode.trajectories.continuation.equations import Equations
from ergode.trajectories.continuation.equilibria import Scales, hopf_near
from ergode.trajectories.continuation.follow import REJOINED, SHRUNK, Curve, Point, Test, newton
from ergode.trajectories.continuation.mesh import DEGREE, SLOPES, VALUES, WEIGHTS, Mesh
from ergode.trajectories.continuation.multipliers import of_blocks, of_history

_OUTSIDE = 1.0 + 1e-7  # modulus of an unstable multiplier
_STILL = 1e-8  # change of a parameter, relative to its range, beside a homoclinic orbit
_STILL_SHAPE = 1e-3  # and of minima and maxima, relative to the sizes of variables
HOMOCLINIC = "The period grows without bound at this parameter, as near a homoclinic orbit."
LONG = "The period exceeded longest_period."
_RESOLVED = 1e-6  # change on a finer mesh, relative to the sizes of variables and the period
_RESOLVED_PARAMETER = 1e-8  # and of the parameter, relative to its range
_DOUBLED = 1e-6  # least difference of the halves of a cycle, relative to its sizes
_FINEST = 2  # how many times as many intervals hard cycles may have


class Cycles(Curve):
    """Unknowns are the values at the nodes, the period, and one parameter.

    Curves in two parameters inherit from it; they may have further unknowns before the period.
    """

    parameter_count = 1
    others = 0  # further unknowns

    def __init__(
        self, equations: Equations, parameters: np.ndarray, free: Sequence[int],
        bounds: np.ndarray, scales: Scales, longest: float,
    ) -> None:  # fmt: skip
        self.equations, self.parameters, self.free = equations, parameters, list(free)
        self.bounds, self.scales, self._longest = bounds, scales, longest
        self._widths = bounds[:, 1] - bounds[:, 0]
        self._fineness = 1  # how many times as many intervals as usual
        self._period_at = -1 - self.parameter_count
        self._tail = self.parameter_count + 1 + self.others  # unknowns after the nodes

    def begin(self, point: Point, reference: np.ndarray) -> None:
        """Take the mesh of a point, its period as unit, and a reference for the phase."""
        self._mesh: Mesh = point.mesh
        size = self.equations.size
        self._period = self.period(point.u)
        n, nodes = size, self._mesh.of_interval
        across = (nodes[:, None, None, :, None] * n + np.arange(n)) + np.zeros(
            (1, DEGREE, n, 1, 1), np.int64
        )
        row = np.arange(self._mesh.count * DEGREE * n).reshape(-1, DEGREE, n, 1, 1)
        self._columns = across
        self._rows = np.broadcast_to(row, across.shape)
        slopes = self._mesh.slopes_at_gauss(reference) / self.scales.values**2
        weighted = slopes * (self._mesh.steps[:, None, None] * WEIGHTS[:, None])
        local = np.einsum("jgn,gi->jin", weighted, VALUES)
        self._phase = np.zeros_like(reference)
        np.add.at(self._phase, nodes, local)
        length = np.abs(self._phase * self.scales.values).sum()
        self._phase /= length if length > 0 else 1.0

    def resume(self, point: Point) -> None:
        """Begin again at the first point of the branch."""
        if point.switched:
            self.begin(point, self.profile(point.tangent if self._is_flat(point) else point.u))
        else:
            self.begin(point, self.profile(point.u))

    def _is_flat(self, point: Point) -> bool:
        values = self.profile(point.u)
        return bool(np.ptp(values, axis=0).max() <= 1e-9 * self.scales.values.max())

    def profile(self, u: np.ndarray) -> np.ndarray:
        """Values at the nodes, shape [node, variable]."""
        return u[: -self._tail].reshape(-1, self.equations.size)

    def period(self, u: np.ndarray) -> float:
        """The period at a point."""
        return float(u[self._period_at])

    def all_parameters(self, u: np.ndarray) -> np.ndarray:
        """All parameters at a point."""
        p = self.parameters.copy()
        p[self.free] = u[-self.parameter_count :]
        return p

    def sizes(self, u: np.ndarray) -> np.ndarray:
        weights = self._mesh.node_weights[:, None]
        count = self.equations.size
        nodes = self.scales.values * (count / weights) ** 0.5
        return np.concatenate([nodes.ravel(), np.ones(self.others), [self._period], self._widths])

    def outline(self, u: np.ndarray) -> np.ndarray:
        values = self.profile(u)
        ends = np.concatenate([values.min(axis=0), values.max(axis=0)])
        tail = u[-self.parameter_count :] / self._widths
        return np.concatenate(
            [ends / np.tile(self.scales.values, 2), [np.log(abs(self.period(u)))], tail]
        )

    def adapt(self, point: Point) -> Point:
        values = self.profile(point.u)
        self.scales.grow(np.abs(values).max(axis=0))
        # A cycle that begins at a Hopf point has no shape of its own yet.
        is_flat = point.switched and self._is_flat(point)
        shape = self.profile(point.tangent) if is_flat else values
        mesh = point.mesh.adapted(shape, self._fineness)
        if mesh is not point.mesh:
            old = point.mesh
            moved = [self._interpolated(one, old, mesh) for one in (point.u, point.tangent)]
            point = replace(point, u=moved[0], tangent=moved[1], mesh=mesh, facts={})
            shape = self.profile(point.tangent if is_flat else point.u)
        else:
            point = replace(point)
        self.begin(point, shape)
        return point

    def _interpolated(self, u: np.ndarray, old: Mesh, new: Mesh) -> np.ndarray:
        """Unknowns on another mesh."""
        nodes = old.interpolated(self.profile(u), new.nodes)
        return np.append(nodes.ravel(), u[-self._tail :])

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        return self._cycle_system(u, rough=True)

    def _cycle_system(
        self, u: np.ndarray, *, rough: bool = False, beside: Any = None
    ) -> tuple[np.ndarray, Any]:
        """Residual and Jacobian of the cycle, by all unknowns; see `_linearised`."""
        residual, blocks, delayed, by_period, by_free = self._linearised(
            u, rough=rough, beside=beside
        )
        n, count = self.equations.size, u.size
        inner = residual.size  # the unknowns at all nodes but the last are as many
        rows = [self._rows.ravel(), *(one[0] for one in delayed)]
        columns = [self._columns.ravel(), *(one[1] % inner for one in delayed)]
        entries = [blocks.ravel(), *(one[2] for one in delayed)]
        equations = np.arange(inner)
        for column, place in zip(
            (by_period, *by_free), range(count + self._period_at, count), strict=True
        ):
            rows.append(equations)
            columns.append(np.full(inner, place))
            entries.append(column)
        ends, nodes = np.arange(n), inner + n
        rows += [inner + ends, inner + ends, np.full(nodes, nodes)]
        columns += [ends, inner + ends, np.arange(nodes)]
        entries += [np.ones(n), -np.ones(n), self._phase.ravel()]
        values = self.profile(u)
        residual = np.concatenate(
            [residual, values[0] - values[-1], [float((self._phase * values).sum())]]
        )
        matrix = scipy.sparse.csr_matrix(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
            shape=(nodes + 1, count),
        )
        return residual, matrix

    def _linearised(
        self, u: np.ndarray, *, rough: bool = False, beside: Any = None
    ) -> tuple[np.ndarray, np.ndarray, list[Any], Any, list[Any]]:
        """Residual at Gauss points, and its derivatives by nodes, period and each parameter.

        `beside`, values at the nodes and a factor, is a function that is added to the cycle; with
        delays it is multiplied by the factor from period to period, and may be complex.
        Derivatives by nodes are blocks of the interval itself, [interval, 4, n, 5, n], and lists
        (rows, columns, entries) of delayed values, whose columns are below zero where they are of
        earlier periods.
        """
        equations, mesh = self.equations, self._mesh
        n, values, period = equations.size, self.profile(u), self.period(u)
        p = self.all_parameters(u)
        added, factor = (np.zeros(1), 1.0) if beside is None else beside
        local = (values + added.real)[mesh.of_interval]
        here = np.einsum("gi,jin->jgn", VALUES, local).reshape(-1, n)
        late, late_slopes, places = [], [], []
        for d, variable in enumerate(equations.delayed):
            tau = p[equations.delays[d]]
            theta = mesh.gauss.ravel() - tau / period
            whole = np.floor(theta)
            nodes, weights, slopes = mesh.at(theta - whole)
            there = values[nodes, variable]
            if beside is not None:
                there = there + (factor ** whole[:, None] * added[nodes, variable]).real
            late.append((there * weights).sum(axis=1))
            late_slopes.append((there * slopes).sum(axis=1))
            shifted = nodes + whole.astype(np.int64)[:, None] * (values.shape[0] - 1)
            places.append((shifted * n + variable, weights))
        w = np.vstack([here.T, *late])
        f = equations.slopes(w, p)
        jacobian = equations.jacobian(w, p, rough=rough)
        by_free = [-period * equations.by_parameter(w, p, one) for one in self.free]
        by_period = -f
        delayed = []
        row = np.arange(f.shape[1] * n).reshape(-1, n)
        for d in range(equations.delay_count):
            coupling = jacobian[:, n + d]
            tau = p[equations.delays[d]]
            by_period = by_period - coupling * late_slopes[d] * (tau / period)
            if equations.delays[d] in self.free:
                by_free[self.free.index(equations.delays[d])] += coupling * late_slopes[d]
            columns, weights = places[d]
            entries = -period * coupling.T[:, :, None] * weights[:, None, :]
            shape = entries.shape
            kept = entries.ravel() != 0
            delayed.append((
                np.broadcast_to(row[:, :, None], shape).ravel()[kept],
                np.broadcast_to(columns[:, None, :], shape).ravel()[kept],
                entries.ravel()[kept],
            ))  # fmt: skip
        slopes = np.einsum("gi,jin->jgn", SLOPES, local) / mesh.steps[:, None, None]
        residual = slopes.ravel() - period * f.T.ravel()
        own = jacobian[:, :n].transpose(2, 0, 1).reshape(mesh.count, DEGREE, n, n)
        blocks = -period * VALUES[:, None, :, None] * own[:, :, :, None, :]
        diagonal = SLOPES[:, :, None] / mesh.steps[:, None, None, None]
        index = np.arange(n)
        blocks[:, :, index, :, index] += diagonal[None, :, :, :, 0]
        return residual, blocks, delayed, by_period.T.ravel(), [one.T.ravel() for one in by_free]

    def multipliers(self, u: np.ndarray) -> np.ndarray:
        """Floquet multipliers, the largest first; one of them is 1."""
        n = self.equations.size
        _, blocks, delayed, _, _ = self._linearised(u)
        if not self.equations.delay_count:
            return of_blocks(blocks.reshape(self._mesh.count, DEGREE * n, -1), n)
        rows = [self._rows.ravel(), *(one[0] for one in delayed)]
        columns = [self._columns.ravel(), *(one[1] for one in delayed)]
        entries = [blocks.ravel(), *(one[2] for one in delayed)]
        return of_history(
            np.concatenate(rows), np.concatenate(columns), np.concatenate(entries),
            self.profile(u).shape[0], n,
        )  # fmt: skip

    def describe(self, point: Point, base: Point | None) -> None:
        multipliers = self.multipliers(point.u)
        others = np.delete(multipliers, np.abs(multipliers - 1).argmin())
        point.facts["spectrum"] = multipliers
        point.facts["others"] = others
        point.facts["unstable"] = int(np.count_nonzero(np.abs(others) > _OUTSIDE))
        error = max(10 * float(np.abs(multipliers - 1).min()), 1e-6)
        point.facts["unsure"] = int(np.count_nonzero(np.abs(np.abs(others) - 1) < error))
        if base is not None and not is_accurate(point):
            point.facts["unstable"] = base.facts["unstable"]

    def _at_hopf(self, point: Point) -> Point:
        """The Hopf point at which cycles have shrunk, by the eigenvalues of its equilibrium."""
        mean = self._mesh.node_weights @ self.profile(point.u)
        frequency = 2 * np.pi / self.period(point.u)
        found = hopf_near(
            self.equations, self.all_parameters(point.u), self.free[0], mean, frequency,
            float(self._widths[0]),
        )  # fmt: skip
        if found is None:
            return point
        state, frequency, free = found
        flat = np.tile(state, self._mesh.nodes.size)
        return replace(point, u=np.concatenate([flat, [2 * np.pi / frequency, free]]))

    def refine(self) -> bool:
        self._fineness *= 2
        return self._fineness <= _FINEST

    def resolves(self, point: Point) -> bool:
        """Whether a cycle is the same on a mesh of twice as many intervals.

        Only cycles whose multipliers are not accurate are solved twice.
        """
        if is_accurate(point):
            return True
        old, new = point.mesh, point.mesh.halved()
        u, tangent = (self._interpolated(one, old, new) for one in (point.u, point.tangent))
        finer = copy(self)
        finer.begin(replace(point, u=u, mesh=new), self.profile(u))
        row = tangent / finer.sizes(u) ** 2
        found = newton(finer, u, row, float(row @ u))
        if found is None:
            return False
        change = np.abs(self.outline(found[0]) - self.outline(u))
        point.facts["error"] = float(abs(found[0][-1] - u[-1]))
        return bool(change[:-1].max() < _RESOLVED and change[-1] < _RESOLVED_PARAMETER)

    def ended(self, points: Sequence[Point]) -> str:
        last = points[-1].u
        size = 2 * self.equations.size
        for k, one in enumerate(reversed(points)):
            if abs(one.u[-1] - last[-1]) > _STILL * self._widths[0]:
                return ""
            if k > 2 and one.u[-2] < last[-2] / 1.25:
                # In a canard explosion the parameter hardly changes either, but the cycles grow.
                change = np.abs(self.outline(one.u) - self.outline(last))[:size].max()
                if change < _STILL_SHAPE:
                    points[-1].label = "long-period"
                    return HOMOCLINIC
                return ""
        return ""

    def _halves(self, point: Point) -> np.ndarray:
        """The difference of a cycle from itself half a period later, at the nodes."""
        values = self.profile(point.u)
        later = point.mesh.interpolated(values, (point.mesh.nodes + 0.5) % 1.0)
        return np.asarray((values - later) / self.scales.values)

    def _likeness(self, base: Point) -> Callable[[Point], float]:
        """How large a cycle is, in units of an earlier one; it changes its sign at size 0."""
        shape = self.profile(base.u)
        weights = self._mesh.node_weights[:, None] / self.scales.values**2
        shape = shape - (self._mesh.node_weights @ shape)
        square = float((weights * shape * shape).sum())
        return lambda point: float((weights * shape * self.profile(point.u)).sum()) / square

    def tests(self, base: Point) -> Sequence[Test]:
        before = base.facts["unstable"]
        likeness = self._likeness(base)
        halves = self._halves(base)
        tests: list[Test] = []
        if np.abs(halves).max() > _DOUBLED:  # else a cycle that is passed twice

            def unlikeness(point: Point) -> float:
                return float((self._mesh.node_weights @ (halves * self._halves(point))).sum())

            tests.append(Test(
                "branch", lambda p: unlikeness(p) > 0 or likeness(p) < 0,
                unlikeness, ends=REJOINED,
            ))  # fmt: skip
        return [
            *tests,
            Test("doubling", _doubled, lambda p: _nearest_to_minus_one(p) + 1.0, is_accurate),
            Test(
                "torus", lambda p: abs(p.facts["unstable"] - before) >= 2,
                lambda p: abs(_nearest_to_circle(p)) - 1.0,
                lambda p: is_accurate(p) and abs(abs(_nearest_to_circle(p)) - 1.0) < 1e-5,
            ),
            Test.by_sign("hopf", likeness, ends=SHRUNK, polished=self._at_hopf),
            self._too_long(),
        ]  # fmt: skip

    def _too_long(self) -> Test:
        return Test.by_sign(
            "long-period", lambda p: self.period(p.u) / self._longest - 1.0, ends=LONG
        )


def is_accurate(point: Point) -> bool:
    """Whether the multiplier that is 1 is near 1; a multiplier of 1e10 hides the others."""
    return bool(np.abs(point.facts["spectrum"] - 1).min() < 1e-3)


def _doubled(point: Point) -> int:
    return _real(point)[_real(point) < -1].size % 2


def _real(point: Point) -> np.ndarray:
    others = point.facts["others"]
    return np.asarray(others[np.abs(others.imag) <= 1e-12 * np.abs(others)].real)


def _nearest_to_minus_one(point: Point) -> float:
    real = _real(point)
    return float(real[np.abs(real + 1).argmin()]) if real.size else float("nan")


def _nearest_to_circle(point: Point) -> complex:
    others = point.facts["others"]
    pairs = others[others.imag > 1e-12 * np.abs(others)]
    return complex(pairs[np.abs(np.abs(pairs) - 1).argmin()]) if pairs.size else complex("nan")
