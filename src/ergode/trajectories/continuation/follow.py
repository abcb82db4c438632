"""Pseudo-arclength continuation of any curve of solutions, and location of its special points.

A curve is given by n - 1 equations in n unknowns. From a point u0 with the tangent t, a step of
length s solves the equations together with <t, u - u0> = s by Newton's method, in an inner product
that measures every unknown in its own size. A test function changes sign at each special point;
the point is then located by the secant method along the step.

H. B. Keller, in "Applications of Bifurcation Theory", Academic Press (1977); E. J. Doedel,
H. B. Keller, J.-P. Kernevez, Int. J. Bifurcation Chaos 1, 493 (1991).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.linalg.lapack
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

_TOLERANCE = 1e-9  # size of the last Newton update; the error is about its square
_ITERATIONS = 8
_SMALLEST_STEP = 1e-6
_LEAST_COSINE = 0.9  # between two successive tangents
_NEAR = 1e-4  # distance that a change of the mesh may move a point
_VERTICAL = 1e-7  # a tangent with less of the parameter tells a fold roughly
_ROUGHLY = 8  # attempts to locate such a fold, where the parameter hardly changes


@dataclass
class Point:
    """A point of a curve."""

    u: np.ndarray  # unknowns; the free parameters are the last ones
    tangent: np.ndarray  # of length 1 in the inner product of the curve
    mesh: Any = None  # of a cycle
    sign: float = 1.0  # sign of the determinant of the bordered matrix
    log_size: float = 0.0  # logarithm of its absolute value
    facts: dict[str, Any] = field(default_factory=dict)  # what the tests of the curve read
    label: str = ""  # kind of special point
    arclength: float = 0.0
    # Whether the branch begins here on another one, where its tangent is known, but not computable.
    switched: bool = False


@dataclass(frozen=True)
class Test:
    """A test for one kind of special point between two points."""

    kind: str
    side: Callable[[Point], Any]  # differs between both sides of a special point
    value: Callable[[Point], float]  # zero at the special point
    accepts: Callable[[Point], bool] = lambda point: True  # whether the located point is one
    ends: str = ""  # why the branch ends there; empty if it goes on
    polished: Callable[[Point], Point] = lambda point: point  # a more accurate point
    attempts: int = 50  # to locate it

    @classmethod
    def by_sign(cls, kind: str, value: Callable[[Point], float], *rest: Any, **others: Any) -> Test:
        """A test whose sides are told by the sign of its value."""
        return cls(kind, lambda point: value(point) > 0, value, *rest, **others)


class Curve(Protocol):
    """The equations of a curve."""

    parameter_count: int
    bounds: np.ndarray  # [parameter, 2]

    def system(self, u: np.ndarray) -> tuple[np.ndarray, Any]:
        """Residual [n - 1], and Jacobian [n - 1, n], a dense or a sparse matrix."""

    def sizes(self, u: np.ndarray) -> np.ndarray:
        """The size of each unknown that has length 1 in the inner product."""

    def adapt(self, point: Point) -> Point:
        """The point on a mesh for the next step; its tangent need not be exact."""

    def describe(self, point: Point, base: Point | None) -> None:
        """Add facts to a point, in the orientation of an earlier one."""

    def tests(self, base: Point) -> Sequence[Test]:
        """Tests of the steps from a point."""

    def is_crowded(self, base: Point, point: Point) -> bool:
        """Whether a step seems to pass several special points of one kind."""
        return False

    def ended(self, points: Sequence[Point]) -> str:
        """Why the branch ends at its last point, if it does."""
        return ""

    def resolves(self, point: Point) -> bool:
        """Whether the mesh is fine enough for a point."""
        return True

    def refine(self) -> bool:
        """Take a finer mesh from now on; whether there is one."""
        return False

    def resume(self, point: Point) -> None:
        """Begin again at the first point of the branch."""
        return

    def outline(self, u: np.ndarray) -> np.ndarray:
        """A few numbers that describe a point, whatever its mesh."""


class Factors:
    """LU factors of a Jacobian that a row completes to a square matrix."""

    def __init__(self, jacobian: Any, row: np.ndarray, sizes: np.ndarray) -> None:
        self._sizes = sizes
        if scipy.sparse.issparse(jacobian):
            # Rows of the matrix are columns of its transpose, which is factored.
            count = row.size
            indices = np.append(jacobian.indices, np.arange(count))
            starts = np.append(jacobian.indptr, jacobian.nnz + count)
            data = np.append(jacobian.data, row) * sizes[indices]
            self._rows = 1.0 / _positive(np.maximum.reduceat(np.abs(data), starts[:-1]))
            data *= np.repeat(self._rows, np.diff(starts))
            transposed = scipy.sparse.csc_matrix((data, indices, starts), shape=(count, count))
            self._lu = scipy.sparse.linalg.splu(transposed)
            diagonal = self._lu.U.diagonal()
            self.sign = float(np.prod(np.sign(diagonal)))
            self.sign *= _parity(self._lu.perm_r) * _parity(self._lu.perm_c)
        else:
            scaled = np.vstack([jacobian * sizes, row * sizes])
            self._rows = 1.0 / _positive(np.abs(scaled).max(axis=1))
            lu, pivots, _ = scipy.linalg.lapack.dgetrf(scaled * self._rows[:, None])
            self._dense, diagonal = (lu, pivots), np.diagonal(lu)
            swaps = np.count_nonzero(pivots != np.arange(pivots.size))
            self.sign = float(np.prod(np.sign(diagonal))) * (-1.0) ** swaps
            self._lu = None
        if not np.all(np.isfinite(diagonal)) or not np.all(diagonal):
            raise RuntimeError("singular")
        self.log_size = float(np.log(np.abs(diagonal)).sum() - np.log(self._rows).sum())

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Solution for one right-hand side."""
        scaled = right * self._rows
        if self._lu is None:
            found = scipy.linalg.lapack.dgetrs(*self._dense, scaled)[0]
        else:
            found = self._lu.solve(scaled, "T")
        return np.asarray(self._sizes * found)

    def solve_transposed(self, right: np.ndarray) -> np.ndarray:
        """Solution with the transposed matrix."""
        scaled = right * self._sizes
        if self._lu is None:
            found = scipy.linalg.lapack.dgetrs(*self._dense, scaled, trans=1)[0]
        else:
            found = self._lu.solve(scaled)
        return np.asarray(self._rows * found)

    def tangent(self) -> np.ndarray:
        """The null vector of the Jacobian, on the side of the row, of length 1."""
        found = self.solve(np.append(np.zeros(self._sizes.size - 1), 1.0))
        return np.asarray(found / np.linalg.norm(found / self._sizes))


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _parity(permutation: np.ndarray) -> float:
    count = permutation.size
    graph = scipy.sparse.csr_matrix((np.ones(count), (np.arange(count), permutation)))
    cycles = scipy.sparse.csgraph.connected_components(graph, directed=False)[0]
    return -1.0 if (count - cycles) % 2 else 1.0


def newton(
    curve: Curve, u: np.ndarray, row: np.ndarray, target: float, iterations: int = _ITERATIONS
) -> tuple[np.ndarray, int, Factors] | None:
    """The solution near `u` with <row, u> = target, the number of iterations, and last factors."""
    last = np.inf
    sizes = curve.sizes(u)
    for iteration in range(1, iterations + 1):
        residual, jacobian = curve.system(u)
        if not np.all(np.isfinite(residual)):
            return None
        try:
            factors = Factors(jacobian, row, sizes)
        except (RuntimeError, ValueError):
            return None
        change = factors.solve(np.append(-residual, target - row @ u))
        size = float(np.linalg.norm(change / sizes))
        if not np.isfinite(size) or (iteration > 2 and size > 2 * last and size > 1e-6):
            return None
        u, last = u + change, size
        if size < _TOLERANCE:
            return u, iteration, factors
    return None


def with_tangent(curve: Curve, point: Point, toward: np.ndarray) -> Point | None:
    """The point with its tangent, on the side of `toward`, and the determinant."""
    sizes = curve.sizes(point.u)
    _, jacobian = curve.system(point.u)
    try:
        return _completed(point, Factors(jacobian, toward / sizes**2, sizes))
    except (RuntimeError, ValueError):
        return None


def _completed(point: Point, factors: Factors) -> Point | None:
    tangent = factors.tangent()
    if not np.all(np.isfinite(tangent)):
        return None
    return replace(point, tangent=tangent, sign=factors.sign, log_size=factors.log_size)


def step_from(curve: Curve, base: Point, length: float) -> tuple[Point, int] | None:
    """The point of the curve at a length from `base`, and the number of iterations."""
    sizes = curve.sizes(base.u)
    row = base.tangent / sizes**2
    start = base.u + length * base.tangent
    solved = newton(curve, start, row, row @ base.u + length)
    if solved is None:
        return None
    u, iterations, factors = solved
    # Newton's method may lead to another part of the curve.
    distance = float(np.linalg.norm((u - base.u) / sizes))
    if distance > (3.0 if base.switched else 1.25) * abs(length) + _NEAR:
        return None
    arclength = base.arclength + abs(length)
    reached = replace(base, u=u, facts={}, label="", arclength=arclength, switched=False)
    # The factors are of the last iterate but one, which is as near as the last update is small.
    point = _completed(reached, factors)
    if point is None:
        return None
    try:
        curve.describe(point, base)
    except np.linalg.LinAlgError:  # derivatives are not finite there
        return None
    return point, iterations


@dataclass
class Limits:
    """When a branch ends, and how long its steps are."""

    max_points: int
    max_step: float


def follow(curve: Curve, start: Point, limits: Limits) -> tuple[list[Point], str]:
    """Points from `start` in the direction of its tangent, without it, and why they end."""
    points: list[Point] = []
    last, length = start, limits.max_step / 3
    if _leaves(curve, start):
        start.label = start.label or "bound"
        return [], _BOUND
    while len(points) < limits.max_points:
        adapted = curve.adapt(last)
        base = adapted
        if not adapted.facts:  # on another mesh
            if not adapted.switched:
                base = with_tangent(curve, adapted, adapted.tangent) or adapted
            curve.describe(base, last)
            turns = curve.parameter_count == 1 and base.tangent[-1] * last.tangent[-1] < 0
            if turns and points:  # a fold as near as the error of the mesh
                points.append(replace(base, label="fold"))
        sizes = curve.sizes(base.u)
        base.tangent = base.tangent / np.linalg.norm(base.tangent / sizes)
        length = min(length, limits.max_step)
        while True:
            found = step_from(curve, base, length)
            if found is not None and (
                length < 1e-3 * limits.max_step
                or (
                    _cosine(curve, base, found[0]) > _LEAST_COSINE
                    and not curve.is_crowded(base, found[0])
                )
            ):
                break
            length /= 2
            if length < _SMALLEST_STEP:
                return points, FAILED
        point, iterations = found
        if not curve.resolves(point):
            if curve.refine():
                continue
            return points, UNRESOLVED
        special, why = _special(curve, base, point, length)
        points += special
        if why:
            return points, why
        points.append(point)
        if why := curve.ended(points):
            return points, why
        if len(points) > 8 and _passes(curve, base, point, start):
            return points, CLOSED
        length *= 1.6 if iterations <= 3 else 1.0 if iterations <= 5 else 0.6
        last = point
    return points, MOST


CLOSED = "The branch is a closed curve."
SHRUNK = "The cycles shrank to an equilibrium, at a Hopf point."
MOST = "The largest number of points, max_points, was reached."
REJOINED = "The cycles met the cycle of half their period again, at its period doubling."
_BOUND = "A parameter reached its bound."
UNRESOLVED = "The cycles are too hard to resolve: on a finer mesh they are others."
FAILED = "Newton's method did not converge even for the smallest step."


def _cosine(curve: Curve, base: Point, point: Point) -> float:
    sizes = curve.sizes(base.u)
    a, b = base.tangent / sizes, point.tangent / sizes
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _leaves(curve: Curve, point: Point) -> bool:
    """Whether a point on a bound goes outside."""
    count = curve.parameter_count
    values, ways = point.u[-count:], point.tangent[-count:]
    low, high = curve.bounds.T
    slack = 1e-12 * (high - low)
    return bool(
        (((values <= low + slack) & (ways < 0)) | ((values >= high - slack) & (ways > 0))).any()
    )


def _passes(curve: Curve, base: Point, point: Point, first: Point) -> bool:
    """Whether the step goes through the first point of the branch."""
    a, b, start = (curve.outline(one.u) for one in (base, point, first))
    along = b - a
    square = float(along @ along)
    if square == 0:
        return False
    part = float((start - a) @ along) / square
    return 0 <= part <= 1 and float(np.linalg.norm(start - a - part * along)) < 0.1 * square**0.5


def _special(curve: Curve, base: Point, point: Point, length: float) -> tuple[list[Point], str]:
    """Special points of a step in their order, and why the branch ends there, if it does."""
    count = curve.parameter_count
    tests: list[Test] = []
    if not base.switched:
        tests += curve.tests(base)
        ways = [abs(p.tangent[-1] / curve.sizes(base.u)[-1]) for p in (base, point)]
        if count == 1:  # turns by rounding are dropped when the whole branch is known
            attempts = Test.attempts if max(ways) > _VERTICAL else _ROUGHLY
            tests.append(Test.by_sign("fold", lambda p: p.tangent[-1], attempts=attempts))
        tests.append(Test(
            "branch", lambda p: p.sign, lambda p: p.sign * np.exp(p.log_size - base.log_size),
        ))  # fmt: skip
    for k, (low, high) in enumerate(curve.bounds):
        for bound, way in ((low, -1.0), (high, 1.0)):
            beyond = partial(_beyond, k - count, bound, way)
            tests.append(Test.by_sign("bound", beyond, ends=_BOUND))
    located = []
    for test in tests:
        # The branch may begin at a special point: its sides are not told apart there.
        if test.kind != base.label and test.side(base) != test.side(point):
            found = _locate(curve, base, point, length, test)
            if found is None and test.ends:  # the equations are singular there
                found = 0.0, replace(base)
            if found is not None and test.accepts(found[1]):
                located.append((*found, test))
    located.sort(key=lambda one: one[0])
    vertical = [at for at, _, test in located if test.kind == "branch" or test.ends == SHRUNK]
    rejoined = [at for at, _, test in located if test.ends == REJOINED]
    points = []
    for at, special, test in located:
        # There the doubled cycle turns, and crosses the single one.
        if not test.ends and any(abs(at - other) < 1e-2 * length for other in rejoined):
            continue
        # The branch is vertical where another one crosses it, or where cycles begin.
        if test.kind == "fold" and any(abs(at - other) < 1e-2 * length for other in vertical):
            continue
        if test.kind == "branch":  # its own tangent is not defined there
            special.tangent = base.tangent if at < length / 2 else point.tangent
        special = test.polished(special)
        special.label = test.kind
        points.append(special)
        if test.ends:
            return points, test.ends
    return points, ""


def _beyond(k: int, bound: float, way: float, point: Point) -> float:
    """How far a parameter is beyond a bound."""
    return float(way * (point.u[k] - bound))


def _locate(
    curve: Curve, base: Point, point: Point, length: float, test: Test
) -> tuple[float, Point] | None:
    """Length and point where a test function vanishes within a step."""
    low, high = 0.0, length
    side = test.side(base)
    known = [(0.0, base), (length, point)]
    size = max(abs(test.value(base)), abs(test.value(point)))
    best: tuple[float, float, Point] | None = None
    for attempt in range(test.attempts):
        (a, first), (b, second) = known[-2:]
        va, vb = test.value(first), test.value(second)
        at = b - vb * (b - a) / (vb - va) if va != vb else np.nan
        slow = attempt % 4 == 3 and high - low > 1e-3 * length
        slack = 1e-6 * length if attempt else 0.0  # sides are told from rounding only
        if slow or not low - slack < at < high + slack:
            at = (low + high) / 2
        found = None
        for shift in (0.0, 1e-10 * length, 1e-2 * (high - low)):  # away from a singular matrix
            found = found or step_from(curve, base, at + shift)
        if found is None:
            break
        here = found[0]
        value = abs(test.value(here))
        if np.isfinite(value) and (best is None or value <= best[0]):
            best = value, at, here
        known.append((at, here))
        if test.side(here) == side:
            low = at
        else:
            high = at
        near = abs(at - b) < 1e-10 * length or high - low < 1e-12 * length
        if near or value < 1e-15 * size:
            break
    if best is None:
        return None
    return best[1], best[2]


def kernel_beside(curve: Curve, point: Point) -> tuple[np.ndarray, np.ndarray] | None:
    """At a branch point: the second null vector of the Jacobian, and its left null vector."""
    sizes = curve.sizes(point.u)
    _, jacobian = curve.system(point.u)
    along = point.tangent / sizes**2
    if isinstance(jacobian, np.ndarray):  # which may be zero, and then no factors exist
        rows = 1.0 / _positive(np.abs(jacobian * sizes).max(axis=1))
        if not np.all(np.isfinite(rows)):
            return None
        columns, _, plane = np.linalg.svd(jacobian * sizes * rows[:, None])
        first, second = plane[-2:] @ (point.tangent / sizes)
        right = (first * plane[-1] - second * plane[-2]) * sizes
        return right / np.linalg.norm(right / sizes), columns[:, -1] * rows
    rng = np.random.default_rng(0)
    # The null vectors of the bordered matrix, by inverse iteration.
    try:
        factors = Factors(jacobian, along, sizes)
        right = rng.standard_normal(point.u.size) * sizes
        left = rng.standard_normal(point.u.size)
        for _ in range(3):
            right = factors.solve(left)
            right /= np.linalg.norm(right / sizes)
            left = factors.solve_transposed(right / sizes**2)
            left /= np.linalg.norm(left)
    except (RuntimeError, ValueError):
        return None
    if not (np.all(np.isfinite(right)) and np.all(np.isfinite(left))):
        return None
    right -= point.tangent * (along @ right)
    return right / np.linalg.norm(right / sizes), left[:-1]


def other_direction(curve: Curve, point: Point) -> np.ndarray | None:
    """The tangent of the branch that crosses at a branch point.

    It solves the algebraic bifurcation equation (Keller 1977): with null vectors t and v and the
    left null vector w, the coefficients are w R''(t, v) and w R''(v, v), by differences.
    """
    found = kernel_beside(curve, point)
    if found is None:
        return None
    beside, left = found
    step = 1e-3

    def along(direction: np.ndarray) -> float:
        up, middle, down = (
            curve.system(point.u + k * step * direction)[0] for k in (1.0, 0.0, -1.0)
        )
        return float(left @ (up - 2 * middle + down)) / step**2

    square = along(beside)
    mixed = (along(point.tangent + beside) - along(point.tangent - beside)) / 4
    direction = 2 * mixed * beside - square * point.tangent
    if abs(mixed) < 1e-4 * abs(square) or not np.all(np.isfinite(direction)):
        direction = beside
    sizes = curve.sizes(point.u)
    length = np.linalg.norm(direction / sizes)
    return direction / length if length > 0 else beside
