"""Moments of second order of any network, closed by a normal distribution; or of third order.

The means m and the covariances C of the amounts n obey, exactly,

    m' = S E[a],   C' = S E[a (n - m)^T] + E[(n - m) a^T] S^T + S diag(E[a]) S^T

with the stoichiometry S and the propensities a. The closure takes these expectations over the
normal distribution with the same m and C, so that third central moments are zero. They are sums
over the points of a rule that is exact for polynomials of degree 5; mass action of three molecules
times n - m has degree 4.

The closure of third order keeps the third central moments T, too. With d = n - m and the changes s
of the reactions, T' is the sum over reactions of

    s_i E[a d_j d_k] + s_i s_j E[a d_k] + s_i s_j s_k E[a],  of all orders of i, j, k,

less that of m'_i C_jk. Cumulants of order 4 and 5 are zero, which gives moments of these orders.
Propensities are polynomials of degree 3 at most, so their Taylor series ends there.

J. McNamee, F. Stenger, "Construction of fully symmetric numerical integration formulas",
Numerische Mathematik 10 (1967): the points are those of its formula of degree 5.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.stochastic.macroscopic import Macroscopic

# A covariance may have negative eigenvalues of this size, relative to the largest one.
_ROUNDING = 1e-6
# A mean below zero by this many molecules is more than an error of the solver.
_LEAST = 0.5


class Normal:
    """The normal distribution with given means [species] and covariances [species, species].

    Raises a ModelError if no distribution has these covariances.
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray, time: float) -> None:
        values, vectors = np.linalg.eigh(covariance) if mean.size else (mean, covariance)
        _check_spread(values, time)
        unit, self.weights = _rule(mean.size)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        self.distances = unit @ root.T  # [point, species]
        self.points = mean + self.distances

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Expectation of values [point, ...]."""
        return np.tensordot(self.weights, values, axes=1)

    def with_amounts(self, values: np.ndarray) -> np.ndarray:
        """Covariance [species, value] of the amounts and of values [point, value]."""
        return (self.distances * self.weights[:, None]).T @ values


@cache
def _rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [point, variable] and weights of independent standard normal variables."""
    far = np.sqrt(3.0) * np.eye(count)
    pairs = [
        one * far[i] + other * far[j]
        for i in range(count) for j in range(i) for one in (1, -1) for other in (1, -1)
    ]  # fmt: skip
    points = np.array([np.zeros(count), *far, *-far, *pairs]).reshape(-1, count)
    weights = np.full(len(points), 1.0 / 36.0)
    weights[: 1 + 2 * count] = (4.0 - count) / 18.0
    weights[0] = 1.0 + (count * count - 7.0 * count) / 18.0
    return points, weights


def slopes_of_moments(
    equations: Macroscopic, mean: np.ndarray, covariance: np.ndarray, time: float
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives by time of the means [species] and covariances [species, species]."""
    _check_mean(equations, mean, time)
    law = Normal(mean, covariance, time)
    rates = equations.propensities(law.points, time)
    # Other formulas may have no value below zero, where there are no amounts.
    bent = equations.degrees < 0
    if bent.any():
        there = np.where(equations.network.is_continuous, law.points, np.maximum(law.points, 0.0))
        rates[:, bent] = equations.propensities(there, time)[:, bent]
    expected = equations.finite(law.mean(rates), mean, time)
    flow = law.with_amounts(rates) @ equations.changes.T
    return equations.changes @ expected, flow + flow.T + equations.diffusion(expected)


class ThirdOrder:
    """The moment equations of third order of a network.

    A state is the means, the upper triangle of the covariances, and the third central moments
    of ``i <= j <= k``.

    Raises a PlanError if a propensity is no polynomial of degree 3 at most.
    """

    def __init__(self, equations: Macroscopic) -> None:
        bad = np.flatnonzero(~((equations.degrees >= 0) & (equations.degrees <= 3)))
        if bad.size:
            name = equations.network.reactions.name_of(int(bad[0]))
            raise PlanError(
                f"the rate of reaction '{name}' is no polynomial of the amounts of degree 3 or "
                "less, which closure='third-order' needs; use closure='normal'"
            )
        self.equations = equations
        count = len(equations.network.species)
        self.pairs = np.triu_indices(count)
        triples = list(combinations_with_replacement(range(count), 3))
        self.triples = np.array(triples, int).reshape(-1, 3).T
        self._offsets, self._weights = _differences(count)

    def taken_apart(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, covariances and third central moments, symmetric in all indices."""
        count, pairs = len(self.equations.network.species), self.pairs[0].size
        covariance = np.zeros((count, count))
        covariance[self.pairs] = covariance[self.pairs[::-1]] = state[count : count + pairs]
        third = np.zeros((count, count, count))
        for order in _ORDERS:
            third[tuple(self.triples[list(order)])] = state[count + pairs :]
        return state[:count], covariance, third

    def slope(self, state: np.ndarray, time: float) -> np.ndarray:
        """Derivative of a state by time."""
        m, c, t = self.taken_apart(state)
        equations = self.equations
        _check_mean(equations, m, time)
        _check_spread(np.linalg.eigvalsh(c) if m.size else m, time)
        a, j, h, k = self._derivatives(m, time)
        expected = equations.finite(
            a + 0.5 * np.einsum("rij,ij->r", h, c) + np.einsum("rijk,ijk->r", k, t) / 6.0, m, time
        )
        spread = np.einsum("rlmn,lm->rn", k, c)
        first = j @ c + 0.5 * (np.einsum("rlm,lmk->rk", h, t) + spread @ c)
        # E[a d d^T]
        second = np.einsum("r,jk->rjk", expected, c) + np.einsum("rl,ljk->rjk", j, t)
        second += np.einsum("rlm,lj,mk->rjk", h, c, c)
        second += 0.5 * np.einsum("rn,njk->rjk", spread, t)
        turned = 0.5 * np.einsum("rlmn,lj,mnk->rjk", k, c, t)
        second += turned + turned.swapaxes(1, 2)
        s, noisy = equations.changes, equations.noisy
        drift = s @ expected
        flow = first.T @ s.T
        change = flow + flow.T + (noisy * expected) @ noisy.T
        moved = np.einsum("ir,rjk->ijk", s, second) - np.einsum("i,jk->ijk", drift, c)
        moved += np.einsum("ir,jr,rk->kij", noisy, noisy, first)
        third = moved + moved.transpose(1, 0, 2) + moved.transpose(1, 2, 0)
        third += np.einsum("ir,jr,kr,r->ijk", noisy, noisy, noisy, expected)
        return np.concatenate([drift, change[self.pairs], third[tuple(self.triples)]])

    def _derivatives(
        self, mean: np.ndarray, time: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Values of all propensities and their first three derivatives [reaction, species ...].

        Differences of polynomials of degree 3 have no error but rounding, whatever the step.
        """
        count = mean.size
        step = np.maximum(np.abs(mean), 1.0)
        values = self.equations.propensities(mean + self._offsets * step, time).T
        found = []
        for order, weights in enumerate(self._weights):
            shape = (count,) * order
            scale = np.ones(shape)
            for axis in range(order):
                scale = scale * step.reshape([-1 if i == axis else 1 for i in range(order)])
            found.append((weights @ values.T).T.reshape(-1, *shape) / scale)
        return found[0], found[1], found[2], found[3]


_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
# Weights of differences in one variable, at -2 to 2 steps, for its powers 1 to 3.
_OF_ONE = {
    0: {0: 1.0}, 1: {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}, 2: {-1: 1.0, 0: -2.0, 1: 1.0},
    3: {-2: -0.5, -1: 1.0, 1: -1.0, 2: 0.5},
}  # fmt: skip
_HALF = {-1: -0.5, 1: 0.5}


@cache
def _differences(count: int) -> tuple[np.ndarray, list[Any]]:
    """Offsets [point, species], and weights [derivative, point] of derivatives of order 0 to 3."""
    from scipy.sparse import csr_array  # `simulate` should not wait for SciPy

    number: dict[tuple[int, ...], int] = {}
    rows: list[list[dict[int, float]]] = []
    for order in range(4):
        rows.append([])
        for indices in product(range(count), repeat=order):
            powers = {i: indices.count(i) for i in indices}
            # In several variables, the first differences at one step are enough.
            parts = [_HALF if p == 1 and len(powers) > 1 else _OF_ONE[p] for p in powers.values()]
            row = {}
            for chosen in product(*(part.items() for part in parts)):
                place = [0] * count
                for i, (offset, _) in zip(powers, chosen, strict=True):
                    place[i] = offset
                point = number.setdefault(tuple(place), len(number))
                row[point] = float(np.prod([weight for _, weight in chosen]))
            rows[-1].append(row)
    weights = []
    for some in rows:
        starts = np.cumsum([0, *map(len, some)])
        values = [weight for row in some for weight in row.values()]
        points = [point for row in some for point in row]
        weights.append(csr_array((values, points, starts), (len(some), len(number))))
    return np.array(list(number), float).reshape(-1, count), weights


def _check_mean(equations: Macroscopic, mean: np.ndarray, time: float) -> None:
    if (mean < np.where(equations.network.is_continuous, -np.inf, -_LEAST)).any():
        raise ModelError(_failure("an amount", time))


def _check_spread(values: np.ndarray, time: float) -> None:
    """Check the eigenvalues of covariances, which ascend."""
    if values.size and values[0] < -_ROUNDING * max(values[-1], 1.0):
        raise ModelError(_failure("a variance", time))


def _failure(what: str, time: float) -> str:
    return (
        f"the closure fails at time {time:g}: {what} becomes negative. Amounts that are "
        "small or have two likely values are not normally distributed: use "
        "ergode.stochastic.probabilities or simulate"
    )
