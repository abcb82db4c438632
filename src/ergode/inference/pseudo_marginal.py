"""Metropolis-Hastings sampling by a log-likelihood that is estimated at random.

References
----------
C. Andrieu, G. O. Roberts, The pseudo-marginal approach for efficient Monte Carlo computations, Ann.
Stat. 37, 697 (2009): an unbiased estimate of the likelihood gives the exact posterior.

C. Andrieu, A. Doucet, R. Holenstein, Particle Markov chain Monte Carlo methods, J. R. Stat. Soc. B
72, 269 (2010).

M. West, Approximating posterior distributions by mixtures, J. R. Stat. Soc. B 55, 409 (1993): a
shrunk kernel density as a proposal.

A. Doucet, M. K. Pitt, G. Deligiannidis, R. Kohn, Efficient implementation of Markov chain Monte
Carlo when using an unbiased likelihood estimator, Biometrika 102, 295 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import integer
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.inference.priors import Prior

if TYPE_CHECKING:
    import xarray

_WALK = 2.38  # of a random walk over one dimension (Roberts, Gelman & Gilks 1997)
_ACCEPTED = 0.2  # aimed at while the walk is adapted
_TRIED = 20  # draws of the prior for each chain, among which it begins
_FREEDOM = 5.0  # of Student's distribution that is fitted: its tails are heavier than a posterior's
_CENTRES = 500  # of kernels
_SHARES = (0.1, 0.9)  # least and largest share of steps that are draws of it
_REPEATS = 30  # estimates at one place, for their deviation
_HOPELESS = (30.0, 2.0)  # log-likelihood below the highest, and more of it for each parameter


@recorded({})
def pseudo_marginal(
    likelihood: Callable[..., Any],
    prior: Mapping[str, Any],
    *,
    draws: int = 1_000,
    warmup: int = 500,
    chains: int = 4,
    seed: int = 0,
) -> xarray.Dataset:
    """Sample parameters from the posterior of a likelihood that is estimated at random.

    A step of a chain is one of a random walk in normal quantiles of the prior, or an independent
    draw of a density that is fitted to all chains (West 1993). All chains take a step in one call
    of the likelihood. While they warm up, the walk gets the covariance of all chains and a size at
    which one step in five is accepted; the density gets their places; and the kind of step that
    moves further gets the larger share. Then all of this stays. A chain whose likelihood is below
    the highest by a factor of exp(30) and more, as at a lesser maximum, begins again where another
    one is. If the likelihood is estimated without bias, as by `ergode.particle_likelihood`, the
    posterior is exact whatever the number of particles (Andrieu & Roberts 2009). That of
    `ergode.synthetic_likelihood` is approximate.

    Parameters
    ----------
    likelihood : callable
        ``(theta, seed) -> log-likelihood``, of shapes [n, d] and [n]: what
        `ergode.particle_likelihood` or `ergode.synthetic_likelihood` returns, or a function of
        yours, whose columns are in the order of `prior`.
    prior : mapping of str to distribution
        A frozen continuous distribution of `scipy.stats` for each parameter, or ``(low, high)``
        for a uniform one.
    draws, warmup : int
        Steps of each chain that are kept, and that are taken before them.
    chains : int
        Each begins at the best of 20 draws of the prior. Many chains warm up in fewer steps: their
        places say what the posterior looks like.
    seed : int
        Of the chains and of all estimates.

    Returns
    -------
    xarray.Dataset
        Each parameter, and `log_likelihood`, ``[chain, draw]``, as ArviZ takes it:
        ``arviz.convert_to_inference_data(found)``. Attributes: `accepted`, the share of accepted
        steps of each chain; `deviation`, the standard deviation of the log-likelihood's estimate
        at the median of the draws, infinite if an estimate is; and `r_hat`, the largest of all
        parameters (Gelman et al., split chains).

    Raises
    ------
    ModelError, PlanError
        A parameter has no prior, or no draw of the prior can make the observations.

    Warns
    -----
    AccuracyWarning
        `r_hat` is above 1.03, or `deviation` is above 2.5: chains stay where an estimate was high.

    Examples
    --------
    >>> from scipy import stats
    >>> import ergode
    >>> found = ergode.pseudo_marginal(
    ...     lambda theta, seed: stats.norm.logpdf(theta[:, 0], 2.0, 0.1), {"x": (0, 10)}, draws=500
    ... )
    >>> bool(abs(found["x"].mean() - 2) < 0.05)
    True
    """
    if not callable(likelihood):
        raise ModelError(f"likelihood is {likelihood!r}; expected a function")
    law = Prior(prior, getattr(likelihood, "parameters", tuple(prior)))
    kept, before = integer("draws", draws, 4, 10**9), integer("warmup", warmup, 0, 10**9)
    count, size = integer("chains", chains, 1, 10**6), len(law.names)
    seed = integer("seed", seed, 0, 2**64 - 1)
    random = np.random.default_rng([seed, 0x9A1])

    def estimate(places: np.ndarray) -> np.ndarray:
        found = likelihood(law.parameters(places), int(random.integers(2**63)))
        values = np.asarray(found, np.float64)
        if values.shape != (len(places),):
            raise PlanError(
                f"likelihood returns the shape {values.shape} for {len(places)} rows of theta"
            )
        return np.where(np.isnan(values), -np.inf, values)

    places, logs = _beginnings(estimate, law, count, random)
    fitted = _Fitted(np.zeros((1, size)), np.diag(np.full(size, 0.1**2)))
    scale, share = 0.0, 0.0
    far = np.zeros((2, 2))  # mean square moved, and steps: of walks, and of draws
    here = np.empty((before + kept, count, size))
    values = np.empty((before + kept, count))
    accepted = np.zeros(count)
    for step in range(before + kept):
        if 20 <= step < before and step % 10 == 0:
            least = logs.max() - _HOPELESS[0] - _HOPELESS[1] * size
            others = np.where(logs < least, random.choice(np.flatnonzero(logs >= least), count),
                              np.arange(count))  # fmt: skip
            places, logs = places[others], logs[others]
            past = here[step // 2 : step][values[step // 2 : step] >= least]
            if len(past) > size:
                fitted = _Fitted.to(past, random)
                share = _share_of_draws(far)
                far *= 0.5
        is_drawn = random.random() < share
        if is_drawn:
            there = fitted.draw(count, random)
            change = fitted.log_density(places) - fitted.log_density(there)
        else:
            reach = math.exp(scale) * _WALK / math.sqrt(size)
            there = places + reach * random.standard_normal((count, size)) @ fitted.root.T
            change = np.zeros(count)
        new = estimate(there)
        change += new - logs + (places**2 - there**2).sum(axis=1) / 2
        moves = np.log(random.random(count)) < change
        far[int(is_drawn)] += (moves @ np.square(fitted.scaled(there - places))).sum() / count, 1.0
        places, logs = np.where(moves[:, None], there, places), np.where(moves, new, logs)
        here[step], values[step] = places, logs
        if step < before:
            if not is_drawn:
                scale += (moves.mean() - _ACCEPTED) / math.sqrt(step + 1)
        else:
            accepted += moves
    drawn = law.parameters(here[before:])
    again = estimate(np.repeat(np.median(here[before:], axis=(0, 1))[None], _REPEATS, axis=0))
    finite = again[np.isfinite(again)]
    deviation = float(finite.std(ddof=1)) if finite.size == again.size else math.inf
    r_hat = _r_hat(here[before:])
    return _result(law, drawn, values[before:], accepted / kept, r_hat, deviation)


def _share_of_draws(far: np.ndarray) -> float:
    """Share of steps that are draws, by the mean squares that both kinds moved [kind, (sum, n)]."""
    if not far[:, 1].all():
        return 0.5  # both are to be tried
    walked, drawn = far[:, 0] / far[:, 1]
    return float(np.clip(drawn / max(walked + drawn, 1e-300), *_SHARES))


class _Fitted:
    """A kernel density of past places with their mean and covariance (West 1993).

    Kernels are Student's, whose tails are heavier than those of a posterior.

    Attributes
    ----------
    root : ndarray, shape [parameter, parameter]
        Of the covariance: lower triangle.
    """

    def __init__(self, centres: np.ndarray, covariance: np.ndarray) -> None:
        self.root = np.linalg.cholesky(covariance)
        # In deviations of all places. Centres resolve the shape in a few dimensions; in more of
        # them one wide kernel is nearer to it.
        self._width = min(0.3 + 0.1 * len(covariance), 1.0)
        middle = centres.mean(axis=0)
        self._centres = middle + math.sqrt(1 - self._width**2) * (centres - middle)

    @classmethod
    def to(cls, places: np.ndarray, random: np.random.Generator) -> _Fitted:
        """The one that fits places [place, parameter]."""
        covariance = np.atleast_2d(np.cov(places.T)) + 1e-10 * np.eye(places.shape[1])
        return cls(places[random.integers(len(places), size=_CENTRES)], covariance)

    def scaled(self, steps: np.ndarray) -> np.ndarray:
        """Steps [step, parameter] in standard deviations."""
        from scipy.linalg import solve_triangular

        return np.ascontiguousarray(solve_triangular(self.root, steps.T, lower=True).T)

    def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Independent places, [place, parameter]."""
        centres = self._centres[random.integers(len(self._centres), size=count)]
        normal = self._width * random.standard_normal(centres.shape) @ self.root.T
        return centres + normal / np.sqrt(random.chisquare(_FREEDOM, (count, 1)) / _FREEDOM)

    def log_density(self, places: np.ndarray) -> np.ndarray:
        """Up to a constant, [place]."""
        from scipy.spatial.distance import cdist
        from scipy.special import logsumexp

        far = cdist(self.scaled(places), self.scaled(self._centres), "sqeuclidean")
        far /= self._width**2
        power = (_FREEDOM + places.shape[1]) / 2
        return np.asarray(logsumexp(-power * np.log1p(far / _FREEDOM), axis=1))


def _beginnings(
    estimate: Callable[[np.ndarray], np.ndarray], law: Prior, count: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Where the chains begin, [chain, parameter], and the log-likelihoods there."""
    drawn = law.draw(_TRIED * count, random)
    logs = estimate(drawn).reshape(count, _TRIED)
    best = logs.argmax(axis=1) + _TRIED * np.arange(count)
    finite = np.isfinite(logs.ravel()[best])
    if not finite.any():
        raise PlanError(
            f"none of {_TRIED * count} draws of the prior can make the observations: take more "
            "particles, a wider density of the observations, or another prior"
        )
    best = np.where(finite, best, best[finite][np.arange(count) % finite.sum()])
    return drawn[best], logs.ravel()[best]


def _r_hat(here: np.ndarray) -> float:
    """The potential scale reduction of halves of the chains; here [draw, chain, parameter]."""
    half = len(here) // 2
    parts = np.concatenate([here[:half], here[-half:]], axis=1)
    within = parts.var(axis=0, ddof=1).mean(axis=0)
    between = half * parts.mean(axis=0).var(axis=0, ddof=1)
    if not (within > 0).all():
        return math.inf
    return float(np.sqrt(((half - 1) / half * within + between / half) / within).max())


def _result(
    law: Prior, drawn: np.ndarray, values: np.ndarray, accepted: np.ndarray, r_hat: float,
    deviation: float,
) -> xarray.Dataset:  # fmt: skip
    import xarray

    if deviation > 2.5:
        warn(
            f"the log-likelihood has a standard deviation of {deviation:.2g} at one place: chains "
            "stay where it was high; take more particles",
            AccuracyWarning,
        )
    if r_hat > 1.03:
        warn(
            f"r_hat is {r_hat:.4g}: the chains do not agree, and spreads may be some percent too "
            "narrow; take more draws and warmup",
            AccuracyWarning,
        )
    return xarray.Dataset(
        {name: (("chain", "draw"), drawn[..., k].T) for k, name in enumerate(law.names)}
        | {"log_likelihood": (("chain", "draw"), values.T)},
        {"chain": np.arange(values.shape[1]), "draw": np.arange(len(values))},
        {"engine": "pseudo_marginal", "accepted": accepted, "r_hat": r_hat,
         "deviation": deviation},
    )  # fmt: skip
