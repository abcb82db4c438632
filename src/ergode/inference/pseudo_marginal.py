"""Metropolis-Hastings sampling by a log-likelihood that is estimated at random.

References
----------
C. Andrieu, G. O. Roberts, The pseudo-marginal approach for efficient Monte Carlo computations, Ann.
Stat. 37, 697 (2009): an unbiased estimate of the likelihood gives the exact posterior.

C. Andrieu, A. Doucet, R. Holenstein, Particle Markov chain Monte Carlo methods, J. R. Stat. Soc. B
72, 269 (2010).

G. H. Givens, A. E. Raftery, Local adaptive importance sampling for multivariate densities with
strong nonlinear relationships, J. Am. Stat. Assoc. 91, 132 (1996): kernels with local covariances.

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
_HEAT = 2.0  # divides log-likelihoods at first, so that chains reach far into the tails
_HOT = 0.8  # share of the warm-up in which log-likelihoods are divided
_FREEDOM = 5.0  # of Student's distributions
_PARTS = 100  # of them, unless one is fitted to all places
_NEAREST = (0.3, 0.1, 0.03)  # shares of all places, to which each may be fitted
_LEAST = 6  # different places for each parameter, to which each is fitted
_PLACES = 1_000  # of each half of the chains
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
    draw of a density that is fitted to all chains (Givens & Raftery 1996). All chains take a step
    in one call of the likelihood. While they warm up, the walk gets the covariance of all chains
    and a size at which one step in five is accepted; the density gets their places; and the kind of
    step that moves further gets the larger share. Then all of this stays. Log-likelihoods are
    halved in the first four fifths of the warm-up, so that the density covers the tails. A chain
    whose likelihood is below the highest by a factor of exp(30) and more, as at a lesser maximum,
    begins again where another one is. If the likelihood is estimated without bias, as by
    `ergode.particle_likelihood`, the posterior is exact whatever the number of particles (Andrieu &
    Roberts 2009). That of `ergode.synthetic_likelihood` is approximate.

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
        places say what the posterior looks like. Four are too few for a posterior that bends
        strongly; take 40.
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
    axes = 0.1 * math.sqrt(size) * np.eye(size)
    fitted = _Fitted(np.concatenate([axes, -axes]), 1.0, random)
    scale, share = 0.0, 0.0
    far = np.zeros((2, 2))  # mean square moved, and steps: of walks, and of draws
    here = np.empty((before + kept, count, size))
    values = np.empty((before + kept, count))
    accepted = np.zeros(count)
    for step in range(before + kept):
        if 20 <= step <= _HOT * before and step % 10 == 0:
            least = logs.max() - _HOPELESS[0] - _HOPELESS[1] * size
            others = np.where(logs < least, random.choice(np.flatnonzero(logs >= least), count),
                              np.arange(count))  # fmt: skip
            places, logs = places[others], logs[others]
            found = here[step // 2 : step].swapaxes(0, 1)
            found = found[np.transpose(values[step // 2 : step]) >= least]
            if len(found) > 10 * size:
                fitted = _Fitted.to(found, random)
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
        heat = _HEAT if step < _HOT * before else 1.0
        change += (new - logs) / heat + (places**2 - there**2).sum(axis=1) / 2
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
    """Student's distributions, each fitted to past places that are near (Givens & Raftery 1996).

    Their tails are heavier than those of a posterior. Many of them follow one that bends; where
    there are too few places for that, one distribution is fitted to all.

    Parameters
    ----------
    places : ndarray, shape [place, parameter]
    share : float
        Of all places, that each distribution is fitted to.
    random : Generator

    Attributes
    ----------
    root : ndarray, shape [parameter, parameter]
        Of the covariance of all places: lower triangle.
    """

    def __init__(self, places: np.ndarray, share: float, random: np.random.Generator) -> None:
        from scipy.spatial.distance import cdist

        tiny = 1e-10 * np.eye(places.shape[1])
        covariance = np.atleast_2d(np.cov(places.T)) + tiny
        self.root = np.linalg.cholesky(covariance)
        scaled = self.scaled(places)
        centres = scaled[random.integers(len(places), size=1 if share == 1 else _PARTS)]
        count = math.ceil(share * len(places))
        near = places[cdist(centres, scaled).argpartition(count - 1)[:, :count]]
        self._means = near.mean(axis=1)
        off = near - self._means[:, None]
        around = off.swapaxes(1, 2) @ off / count + tiny
        self._roots = np.linalg.cholesky(around)
        self._inverses = np.linalg.inv(self._roots).swapaxes(1, 2)

    @classmethod
    def to(cls, places: np.ndarray, random: np.random.Generator) -> _Fitted:
        """The one that fits places [place, parameter], which are in the order of chains.

        Its share is the one by which half of the chains tell best where the other half is.
        """
        first, last = (
            half[random.integers(len(half), size=_PLACES)] for half in np.array_split(places, 2)
        )
        least = _LEAST * places.shape[1] / min(len(np.unique(half[:, 0])) for half in (first, last))
        shares = [1.0, *(share for share in _NEAREST if share > least)]
        best = max(shares, key=lambda share: cls(first, share, random).log_density(last).mean())
        return cls(np.concatenate([first, last]), best, random)

    def scaled(self, steps: np.ndarray) -> np.ndarray:
        """Steps [step, parameter] in standard deviations."""
        return np.linalg.solve(self.root, steps.T).T

    def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Independent places, [place, parameter]."""
        which = random.integers(len(self._means), size=count)
        normal = random.standard_normal((count, self._means.shape[1], 1))
        steps = (self._roots[which] @ normal)[:, :, 0]
        steps /= np.sqrt(random.chisquare(_FREEDOM, (count, 1)) / _FREEDOM)
        return self._means[which] + steps

    def log_density(self, places: np.ndarray) -> np.ndarray:
        """Up to a constant, [place]."""
        far = np.square((places - self._means[:, None]) @ self._inverses).sum(axis=2)
        logs = np.log(np.diagonal(self._inverses, axis1=1, axis2=2)).sum(axis=1)[:, None]
        logs = logs - (_FREEDOM + places.shape[1]) / 2 * np.log1p(far / _FREEDOM)
        highest = logs.max(axis=0)
        return np.asarray(highest + np.log(np.exp(logs - highest).mean(axis=0)))


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
