"""Moments of second order of any network, closed by a normal distribution.

The means m and the covariances C of the amounts n obey, exactly,

    m' = S E[a],   C' = S E[a (n - m)^T] + E[(n - m) a^T] S^T + S diag(E[a]) S^T

with the stoichiometry S and the propensities a. The closure takes these expectations over the
normal distribution with the same m and C, so that third central moments are zero. They are sums
over the points of a rule that is exact for polynomials of degree 5; mass action of three molecules
times n - m has degree 4.

J. McNamee, F. Stenger, "Construction of fully symmetric numerical integration formulas",
Numerische Mathematik 10 (1967): the points are those of its formula of degree 5.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ergode.core.errors import ModelError
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
        if values.size and values[0] < -_ROUNDING * max(values[-1], 1.0):
            raise ModelError(_failure("a variance", time))
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
    if (mean < np.where(equations.network.is_continuous, -np.inf, -_LEAST)).any():
        raise ModelError(_failure("an amount", time))
    law = Normal(mean, covariance, time)
    rates = equations.propensities(law.points, time)
    # Other formulas may have no value below zero, where there are no amounts.
    bent = ~equations.is_polynomial
    if bent.any():
        there = np.where(equations.network.is_continuous, law.points, np.maximum(law.points, 0.0))
        rates[:, bent] = equations.propensities(there, time)[:, bent]
    expected = equations.finite(law.mean(rates), mean, time)
    flow = law.with_amounts(rates) @ equations.changes.T
    return equations.changes @ expected, flow + flow.T + equations.diffusion(expected)


def _failure(what: str, time: float) -> str:
    return (
        f"the normal closure fails at time {time:g}: {what} becomes negative. Amounts that are "
        "small or have two likely values are not normally distributed: use "
        "ergode.stochastic.probabilities or simulate"
    )
