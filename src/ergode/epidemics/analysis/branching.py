"""Early generations of an epidemic as a branching process on the contacts of a network.

Nearly all are susceptible.  A node v that u infected infects its contact w with the probability
T(v, w), independent of what u did, but never u itself.  The expected number of infections along
each arc of a generation follows from those of the last by the operator

    (B x)(u, v) = sum over arcs (v, w) with w != u of T(v, w) x(v, w),

the weighted non-backtracking operator.  Its spectral radius is the reproduction number.  With
Laplace transforms of the moment of transmission in place of T, the radius is one at the growth
rate r: Lotka's and Euler's equation.  On a random network of given degrees it is T times the mean
excess degree, E[k (k - 1)] / E[k]; on one of several layers a and b the matrix
T_b (E[k_a k_b] / E[k_a] - [a = b]) has the same radius.

For one path of contacts the probabilities are exact.  A node that two paths reach is counted twice.
So the operator is exact where the network looks like a tree, and bounds expected infections from
above elsewhere.

References
----------
B. Karrer, M. E. J. Newman and L. Zdeborova, "Percolation on sparse networks", Phys. Rev. Lett. 113,
208702 (2014).
K. Hashimoto, "Zeta functions of finite graphs and representations of p-adic groups", Adv. Stud.
Pure Math. 15, 211 (1989).
O. Diekmann, J. A. P. Heesterbeek and M. G. Roberts, "The construction of next-generation matrices
for compartmental epidemic models", J. R. Soc. Interface 7, 873 (2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning

Transform: TypeAlias = Callable[[complex, np.ndarray], np.ndarray]
"""``transform(r, weights)``, see `ergode.epidemics.analysis.contact.transform`."""

_TOLERANCE = 1e-9
_TOLERABLE = 1e-6  # if it takes too many rounds
_ROUNDS_MOST = 20
_ARNOLDI_ARCS_MOST = 4_000_000
_KNOTS = 257  # of the transform as a function of the weight
_PATHS_MOST = 4_000_000
_GOLDEN = 0.6180339887498949


class Arcs:
    """The arcs of a network; repeated arcs between two nodes are merged.

    Rates along parallel arcs add up, because one stay of the source drives all of them.

    Parameters
    ----------
    offsets, targets : ndarray
        Rows of the network; targets ascend in a row.
    weights : ndarray of float, shape [arc_count]
    mirrored : bool
        Whether each arc has one back.
    """

    def __init__(
        self, offsets: np.ndarray, targets: np.ndarray, weights: np.ndarray, mirrored: bool
    ) -> None:
        from scipy.sparse import csr_array

        self.node_count = len(offsets) - 1
        shape = (self.node_count, self.node_count)
        matrix = csr_array((weights.astype(float), targets.copy(), offsets.copy()), shape=shape)
        matrix.sum_duplicates()
        self.offsets, self.targets = np.asarray(matrix.indptr), np.asarray(matrix.indices)
        self.weights = np.asarray(matrix.data)
        self.degrees = np.diff(self.offsets)
        self.sources = np.repeat(np.arange(self.node_count), self.degrees)
        self._filled = np.flatnonzero(self.degrees)
        if mirrored:
            numbers = csr_array((np.arange(self.count), self.targets, self.offsets), shape=shape)
            self._back = np.asarray(numbers.tocsc().data)
            self._returns: np.ndarray | None = None
        else:
            keys = self.sources * np.int64(self.node_count) + self.targets
            wanted = self.targets * np.int64(self.node_count) + self.sources
            self._back = np.minimum(np.searchsorted(keys, wanted), max(self.count - 1, 0))
            self._returns = keys[self._back] == wanted

    @property
    def count(self) -> int:
        """Number of arcs."""
        return len(self.targets)

    def onward(self, factors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The operator with `factors` of the arcs, applied to `x`, shape [arc_count]."""
        values = factors * x
        total = np.zeros(self.node_count)
        total[self._filled] = np.add.reduceat(values, self.offsets[self._filled])
        return self._without_return(total[self.targets], values)

    def backward(self, factors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The transposed operator, applied to `x`."""
        total = np.bincount(self.targets, x, self.node_count)
        return factors * self._without_return(total[self.sources], x)

    def _without_return(self, sums: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Sums at the end of each arc, less the value of the arc back."""
        back = values[self._back]
        sums -= back if self._returns is None else np.where(self._returns, back, 0.0)
        return sums

    def overlap(self, factors: np.ndarray) -> float:
        """Fraction of second-generation infections that fall on a node that is infected anyway.

        Of one first case: by the case itself, or by two of those that it infects.  From a part of
        the nodes if the network is large.
        """
        paths = np.bincount(self.sources, self.degrees[self.targets], self.node_count)
        share = min(1.0, _PATHS_MOST / max(paths.sum(), 1.0))
        chosen = np.arange(self.node_count)
        if share < 1:
            count = max(1, int(share * self.node_count))
            chosen = np.unique((np.arange(count) * _GOLDEN % 1.0 * self.node_count).astype(int))
        first = _rows(self.offsets, chosen)
        second = _rows(self.offsets, self.targets[first])
        origin = np.repeat(self.sources[first], self.degrees[self.targets[first]])
        chance = np.repeat(factors[first], self.degrees[self.targets[first]]) * factors[second]
        kept = self.targets[second] != origin
        key = origin[kept] * np.int64(self.node_count) + self.targets[second][kept]
        total = float(chance[kept].sum())
        if total == 0:
            return 0.0
        ends, place = np.unique(key, return_inverse=True)
        with np.errstate(divide="ignore"):
            missed = np.bincount(place, np.log1p(-chance[kept]), ends.size)
            known = self.sources[first] * np.int64(self.node_count) + self.targets[first]
            at = np.minimum(np.searchsorted(known, ends), known.size - 1)
            direct = np.where(known[at] == ends, factors[first][at], 0.0)
            reached = float(((1.0 - direct) * -np.expm1(missed)).sum())
        return max(0.0, 1.0 - reached / total)


def _rows(offsets: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Numbers of the arcs out of some nodes, node after node."""
    degrees = offsets[nodes + 1] - offsets[nodes]
    before = np.cumsum(degrees) - degrees
    return np.arange(int(degrees.sum())) + np.repeat(offsets[nodes] - before, degrees)


class ByWeight:
    """A function of the weight for many arcs, which computes it once for each weight.

    Parameters
    ----------
    transform : function
        ``transform(r, weights)``, see `ergode.epidemics.analysis.contact.transform`.
    weights : ndarray of float, shape [arc_count]
    """

    def __init__(self, transform: Transform, weights: np.ndarray) -> None:
        self.transform = transform
        self.kinds, self._kind = np.unique(weights, return_inverse=True)

    def __call__(self, r: complex, scale: float = 1.0) -> np.ndarray:
        """Transform of each arc at the rate `r`, with weights times `scale`."""
        weights = self.kinds * scale
        if weights.size <= _KNOTS:
            return self.transform(r, weights)[self._kind]
        from scipy.interpolate import CubicSpline

        positive = weights > 0
        logs = np.log(weights[positive])
        knots = np.linspace(logs[0], logs[-1], _KNOTS)
        values = self.transform(r, np.exp(knots))
        by_kind = np.zeros(weights.size, values.dtype)
        finite = np.isfinite(values).all()
        by_kind[positive] = CubicSpline(knots, values)(logs) if finite else np.inf
        return by_kind[self._kind]


class ByClass:
    """A function of the weight and of the class of the source, for many arcs.

    Parameters
    ----------
    transforms : sequence of function
        ``transform(r, weights)`` for each class.
    weights : ndarray of float, shape [arc_count]
    of_arcs : ndarray of int, shape [arc_count] or [1]
        Class of the source of each arc.
    """

    def __init__(
        self, transforms: Sequence[Transform], weights: np.ndarray, of_arcs: np.ndarray
    ) -> None:
        self.count = len(weights)
        self.parts: list[tuple[np.ndarray | slice, ByWeight]] = []
        if len(transforms) == 1:
            self.parts.append((slice(None), ByWeight(transforms[0], weights)))
            return
        for number, one in enumerate(transforms):
            mine = np.flatnonzero(of_arcs == number)
            if mine.size:
                self.parts.append((mine, ByWeight(one, weights[mine])))

    def __call__(self, r: complex, scale: float = 1.0) -> np.ndarray:
        """Transform of each arc at the rate `r`, with weights times `scale`."""
        found = np.zeros(self.count, complex if isinstance(r, complex) else float)
        for mine, part in self.parts:
            found[mine] = part(r, scale)
        return found


class Branching:
    """The operator of an epidemic, at any rate r and with any factor on all weights.

    Parameters
    ----------
    arcs : Arcs
    transforms : sequence of function
        As for `ByClass`.
    of_node : ndarray of int, shape [node_count] or [1]
        Class of each node.
    """

    def __init__(self, arcs: Arcs, transforms: Sequence[Transform], of_node: np.ndarray) -> None:
        self.arcs = arcs
        of_arcs = of_node if len(transforms) == 1 else of_node[arcs.sources]
        self.factors = ByClass(transforms, arcs.weights, of_arcs)
        self._carries = arcs.weights > 0
        # If all arcs that carry anything are alike, one number takes the place of all factors.
        self._only: np.ndarray | None = None
        if len(self.factors.parts) == 1:
            ((_, alike),) = self.factors.parts
            self._transform = alike.transform
            self._only = alike.kinds[-1:] if (alike.kinds > 0).sum() == 1 else None
        self._x = np.full(arcs.count, 1.0 / max(arcs.count, 1))

    def radius(self, r: float = 0.0, scale: float = 1.0) -> float:
        """Spectral radius of the operator at the rate `r` and with weights times `scale`."""
        if not self._carries.any():
            return 0.0
        if self._only is not None:
            return float(self._transform(r, self._only * scale)[0]) * self.reach
        factors = self.factors(r, scale)
        return self._largest(factors) if np.isfinite(factors).all() else math.inf

    @cached_property
    def reach(self) -> float:
        """The radius if every contact with a weight above zero transmitted."""
        return self._largest(self._carries.astype(float))

    def generation_time(self) -> float:
        """Mean time from infection to onward infection, at the stationary mix of arcs."""
        step = 1e-20
        if not self._carries.any():
            return math.nan
        # The derivative by r, along the imaginary axis, without cancellation.
        if self._only is not None:
            value = self._transform(step * 1j, self._only)[0]
            return float(-value.imag / step / value.real) if value.real > 0 else math.nan
        change = self.factors(step * 1j)
        factors = change.real.copy()
        if self._largest(factors) == 0:
            return math.nan
        right = self._x
        _, left = _power(lambda y: self.arcs.backward(factors, y), np.full(right.size, 1.0))
        mix = np.where(factors > 0, left * right, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            delay = np.where(factors > 0, -change.imag / step / factors, 0.0)
        total = float(mix.sum())
        return float(mix @ delay) / total if total > 0 else math.nan

    def _largest(self, factors: np.ndarray) -> float:
        """Largest eigenvalue; the vector is kept as the beginning of the next search."""
        arcs = self.arcs

        def step(x: np.ndarray) -> np.ndarray:
            return arcs.onward(factors, x)

        found, self._x = _power(step, self._x)
        return found


def _power(step: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> tuple[float, np.ndarray]:
    """Largest eigenvalue of a non-negative operator and its vector, of sum one.

    Two steps at a time, because on a bipartite network minus the eigenvalue is one too.
    """
    # Entries that an earlier search left at zero take part again.
    x = x / max(float(x.sum()), 1e-300) + 1e-3 / x.size
    x = x / x.sum()
    before, change, error = math.nan, math.nan, math.inf
    for _ in range(_ROUNDS_MOST):
        y = step(x)
        one = float(y.sum())
        z = step(y / one) if one > 0 else y
        two = float(z.sum())
        if one * two <= 0:
            return 0.0, np.full(x.size, 1.0 / x.size)
        found = math.sqrt(one * two)
        # The mean cancels what changes sign from step to step, as on a bipartite network.
        x = 0.5 * (z / two + y / one)
        last, change = change, found - before
        # Changes that shrink by a factor leave the sum of a geometric series.
        ratio = abs(change / last) if last else 0.0
        error = abs(change) / (1.0 - ratio) if ratio < 1 else math.inf
        if max(error, abs(change)) <= _TOLERANCE * found:
            return found, x
        before = found
    if error > _TOLERABLE * found:
        if x.size <= _ARNOLDI_ARCS_MOST:
            return _arnoldi(step, x)
        warn(
            f"the largest eigenvalue of {x.size:,} contacts has a relative error of "
            f"{error / found:.1g} after {2 * _ROUNDS_MOST} steps",
            AccuracyWarning,
        )
    return found, x


def _arnoldi(step: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> tuple[float, np.ndarray]:
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

    def apply(vector: np.ndarray) -> np.ndarray:
        return step(np.ravel(vector))

    operator = LinearOperator((x.size, x.size), matvec=apply, dtype=float)
    try:
        values, vectors = eigs(operator, k=1, which="LR", v0=x, tol=_TOLERABLE, maxiter=40)
    except ArpackNoConvergence:
        warn("the largest eigenvalue of the contacts did not converge", AccuracyWarning)
        return float(step(x).sum()), x
    vector = np.abs(vectors[:, 0].real)
    return float(values[0].real), vector / vector.sum()
