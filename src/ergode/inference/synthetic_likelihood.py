"""The likelihood of summaries, by a normal distribution that is fitted to simulated ones.

References
----------
S. N. Wood, Statistical inference for noisy nonlinear ecological dynamic systems, Nature 466, 1102
(2010).

L. F. Price, C. C. Drovandi, A. Lee, D. J. Nott, Bayesian synthetic likelihood, J. Comput. Graph.
Stat. 27, 1 (2018): the estimate without bias (Ghurye & Olkin 1969).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import integer
from ergode.core.errors import PlanError
from ergode.core.inputs import remembered
from ergode.inference.simulator import Simulator, simulated, target_of, theta_of


@remembered
def synthetic_likelihood(
    simulate: Simulator, observed: ArrayLike, *, simulations: int = 200
) -> SyntheticLikelihood:
    """The log-likelihood of parameters, as if summaries were normally distributed.

    For each row of theta the mean and the covariance of `simulations` simulated summaries are
    computed. The density of a normal distribution is estimated from them without bias (Price et al.
    2018, equation 6), so that `ergode.pseudo_marginal` does not depend on their number. What
    remains is that the summaries are not normally distributed: take sums, means and other summaries
    of many.

    Parameters
    ----------
    simulate : Simulator
        With independent random numbers; see `ergode.simulator`.
    observed : array_like, shape [k]
        The observed summaries.
    simulations : int
        For each row of theta; at least k + 4.

    Returns
    -------
    SyntheticLikelihood
        A function ``theta[n, d] -> log-likelihood[n]``.

    Raises
    ------
    ModelError, PlanError
        The observed summaries are no numbers, random numbers are common, or simulations are few.

    Examples
    --------
    >>> import functools
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 400}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> call = functools.partial(ergode.stochastic.simulate, network, times=[0, 1], device="cpu")
    >>> simulate = ergode.simulator(call, ["k"], lambda found: found["amount"].isel(time=1))
    >>> likelihood = ergode.synthetic_likelihood(simulate, [150])
    >>> one, other = likelihood([[1.0], [2.0]], seed=1)
    >>> bool(one > other)
    True
    """
    target = target_of(simulate, observed)
    if simulate.is_common:
        raise PlanError("the simulator has common random numbers; expected independent ones")
    least = target.size + 4
    return SyntheticLikelihood(simulate, target, integer("simulations", simulations, least, 10**8))


class SyntheticLikelihood:
    """A batched function from parameters to a log-likelihood; made by `synthetic_likelihood`.

    Attributes
    ----------
    parameters : tuple of str
        Names of the columns of theta.
    """

    def __init__(self, simulate: Simulator, target: np.ndarray, simulations: int) -> None:
        self.parameters = simulate.parameters
        self._simulate, self._target, self._simulations = simulate, target, simulations

    def __repr__(self) -> str:
        return f"<SyntheticLikelihood of {', '.join(self.parameters)}>"

    def __call__(self, theta: ArrayLike, seed: int | None = None) -> np.ndarray:
        """Estimate.

        Parameters
        ----------
        theta : array_like, shape [n, d] or [d]
        seed : int, optional
            Of this call; by default the next one.

        Returns
        -------
        ndarray, shape [n], or a number
            The log-likelihood. Simulations that failed are left out; minus infinity where fewer
            than k + 4 are left, and where the observed summaries are too far for an estimate.
        """
        rows, is_one = theta_of(theta, self.parameters)
        repeated = np.repeat(rows, self._simulations, axis=0)
        every = simulated(self._simulate, repeated, self._target, seed)
        groups = every.reshape(len(rows), self._simulations, -1)
        found = np.array([_log_density(one, self._target) for one in groups])
        return found[0] if is_one else found


def _log_density(found: np.ndarray, target: np.ndarray) -> float:
    """The logarithm of the estimate of the normal density of `target`, [simulation, summary]."""
    from scipy.special import multigammaln

    good = found[np.isfinite(found).all(axis=1)]
    n, k = len(good), target.size
    if n < k + 4:
        return -np.inf
    off = good - good.mean(axis=0)
    spread = np.sqrt(np.square(off).sum(axis=0))  # so that units do not matter
    away = target - good.mean(axis=0)
    if (spread == 0).any():  # summaries that all simulations have in common
        if (away[spread == 0] != 0).any():
            return -np.inf
        some = spread > 0
        return _log_density(good[:, some], target[some]) if some.any() else 0.0
    off, away = off / spread, away / spread
    scatter = off.T @ off
    sign, size = np.linalg.slogdet(scatter)
    left_sign, left = np.linalg.slogdet(scatter - np.outer(away, away) / (1 - 1 / n))
    if (
        sign <= 0
        or left_sign <= 0
        or np.linalg.eigvalsh(scatter - np.outer(away, away) / (1 - 1 / n))[0] <= 0
    ):
        return -np.inf
    constant = multigammaln((n - 1) / 2, k) - multigammaln((n - 2) / 2, k)
    return float(
        constant - k / 2 * np.log(np.pi * (1 - 1 / n)) - np.log(spread).sum()
        - (n - k - 2) / 2 * size + (n - k - 3) / 2 * left
    )  # fmt: skip
