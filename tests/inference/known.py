"""Processes whose likelihood is known in closed form."""

import functools

import numpy as np
from scipy import stats

import ergode

DEATH = ergode.ReactionNetwork(
    {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
)
TIMES, SEEN, ERROR = [0.5, 1.0, 1.8], [26, 17, 5], 1.5


def normal_density(seen, states, parameters):
    return stats.norm.logpdf(seen, states["X"], ERROR)


def deaths(particles=100, seed=0, max_firings=10_000, **changes):
    """Deaths, each at rate k, counted with a normal error: simulated by the engine."""
    given = {"initial": {"X": 40}, "times": TIMES, "observed": SEEN, "start": 0.0,
             "log_density": normal_density}  # fmt: skip
    call = functools.partial(
        ergode.stochastic.simulate, DEATH, device="cpu:1", max_firings=max_firings
    )
    return ergode.particle_likelihood(
        call, ["k"], particles=particles, seed=seed, **given | changes
    )


def exact_log_likelihood(k):
    """The same by the forward algorithm: binomial survival from one time to the next."""
    amounts, now = np.arange(41), 0.0
    weights, total = (amounts == 40).astype(float), 0.0
    for time, seen in zip(TIMES, SEEN, strict=True):
        moves = stats.binom.pmf(amounts[None, :], amounts[:, None], np.exp(-k * (time - now)))
        weights = (weights @ moves) * stats.norm.pdf(seen, amounts, ERROR)
        total, weights, now = total + np.log(weights.sum()), weights / weights.sum(), time
    return total


def exact_posterior(low, high, points=2_001):
    """The distribution function of k for a uniform prior, on a grid."""
    k = np.linspace(low, high, points)
    logs = np.array([exact_log_likelihood(one) if one > 0 else -np.inf for one in k])
    weights = np.exp(logs - logs.max())
    return k, np.cumsum(weights) / weights.sum()
