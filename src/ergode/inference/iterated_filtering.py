"""Maximum likelihood of a process that is observed in time, by iterated filtering.

References
----------
E. L. Ionides, D. Nguyen, Y. Atchade, S. Stoev, A. A. King, Inference for dynamic and latent
variable models via iterated, perturbed Bayes maps, PNAS 112, 719 (2015): algorithm IF2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import integer, number
from ergode.core.errors import ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.inference.particle_likelihood import ParticleLikelihood
from ergode.inference.priors import Prior

if TYPE_CHECKING:
    import xarray

_REPEATS = 10  # estimates of the likelihood at each end


@recorded({})
def iterated_filtering(
    likelihood: ParticleLikelihood,
    prior: Mapping[str, Any],
    *,
    iterations: int = 50,
    starts: int = 10,
    perturbation: float = 0.1,
    seed: int = 0,
) -> xarray.Dataset:
    """Find the parameters of maximum likelihood of a process that is observed in time.

    Each particle has parameters of its own. They are perturbed before every observation, and
    resampled with the states, so those that explain the observations remain. The next iteration
    begins with the parameters that are left, and perturbs them less: the variance of a step falls
    by a hundred over all iterations (Ionides et al. 2015).

    Parameters
    ----------
    likelihood : ParticleLikelihood
        See `ergode.particle_likelihood`; it has the number of particles.
    prior : mapping of str to distribution
        Where to search: ``(low, high)``, or a frozen continuous distribution of `scipy.stats`.
        Searches begin at draws of it, and steps are in its normal quantiles. It does not weight
        the result.
    iterations : int
        Passes over all observations.
    starts : int
        Searches from different draws, side by side.
    perturbation : float
        Standard deviation of the first steps, in normal quantiles of `prior`.
    seed : int
        Of all random numbers.

    Returns
    -------
    xarray.Dataset
        Each parameter ``[start]``, the best first; `log_likelihood` there, from ten filters, and
        its standard error `log_likelihood_error`.

    Raises
    ------
    ModelError, PlanError
        A parameter has no distribution, or no search found parameters that can make the
        observations.

    Examples
    --------
    >>> import functools
    >>> from scipy import stats
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> likelihood = ergode.particle_likelihood(
    ...     functools.partial(ergode.stochastic.simulate, network, device="cpu"), ["k"], {"X": 40},
    ...     times=[1, 2], start=0, observed=[16, 5],
    ...     log_density=lambda seen, states, parameters: stats.norm.logpdf(seen, states["X"], 2),
    ... )
    >>> found = ergode.iterated_filtering(likelihood, {"k": (0, 5)}, iterations=20, starts=2)
    >>> bool(abs(found["k"][0] - 1) < 0.4)
    True
    """
    if not isinstance(likelihood, ParticleLikelihood):
        raise ModelError(
            f"likelihood is {likelihood!r}; expected what ergode.particle_likelihood returns"
        )
    law = Prior(prior, likelihood.parameters)
    passes, count = integer("iterations", iterations, 1, 10**6), integer("starts", starts, 1, 10**6)
    first = number("perturbation", perturbation, above=0.0)
    random = np.random.default_rng([integer("seed", seed, 0, 2**64 - 1), 0x1F2])
    begun = np.repeat(law.draw(count, random)[:, None], likelihood.particles, axis=1)
    swarm = _Swarm(law, begun, random)
    for step in range(passes):
        swarm.size = first * 0.1 ** (step / max(passes - 1, 1))
        for _ in likelihood.filtered(law.parameters(swarm.places.mean(1)), random, swarm):
            pass
    ends = law.parameters(swarm.places.mean(axis=1))
    logs = likelihood(np.repeat(ends, _REPEATS, axis=0), int(random.integers(2**63)))
    return _result(law, ends, logs.reshape(count, _REPEATS))


class _Swarm:
    """The parameters of all particles, as normal quantiles, [start, particle, parameter]."""

    def __init__(self, law: Prior, places: np.ndarray, random: np.random.Generator) -> None:
        self._law, self.places, self._random, self.size = law, places, random, 0.0

    def __call__(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """Move all, and return their parameters; or keep the chosen ones."""
        if chosen is not None:
            self.places = np.take_along_axis(self.places, chosen[..., None], axis=1)
            return self.places
        self.places = self.places + self.size * self._random.standard_normal(self.places.shape)
        return self._law.parameters(self.places)


def _result(law: Prior, ends: np.ndarray, logs: np.ndarray) -> xarray.Dataset:
    import xarray

    top = logs.max(axis=1)
    if not np.isfinite(top).any():
        raise PlanError(
            "no search found parameters that can make the observations: take more particles, or a "
            "wider density of the observations"
        )
    shares = np.exp(logs - np.where(np.isfinite(top), top, 0.0)[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        means = top + np.log(shares.mean(axis=1))
        errors = shares.std(axis=1, ddof=1) / shares.mean(axis=1) / np.sqrt(logs.shape[1])
    order = np.argsort(-means)
    return xarray.Dataset(
        {name: ("start", ends[order, k]) for k, name in enumerate(law.names)}
        | {"log_likelihood": ("start", means[order]),
           "log_likelihood_error": ("start", errors[order])},
        attrs={"engine": "iterated_filtering"},
    )  # fmt: skip
