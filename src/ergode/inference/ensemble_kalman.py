"""Ensemble Kalman inversion: an approximate posterior from few simulations.

References
----------
M. A. Iglesias, K. J. H. Law, A. M. Stuart, Ensemble Kalman methods for inverse problems, Inverse
Probl. 29, 045001 (2013).

M. Iglesias, Y. Yang, Adaptive regularisation for ensemble Kalman inversion, Inverse Probl. 37,
025008 (2021): the sizes of the steps, equation 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, integer
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.inference.priors import Prior
from ergode.inference.simulator import Simulator, simulated, target_of

if TYPE_CHECKING:
    import xarray

_MOST_NOISE = 0.05


@recorded({})
def ensemble_kalman(
    simulate: Simulator,
    prior: Mapping[str, Any],
    observed: ArrayLike,
    covariance: ArrayLike,
    *,
    members: int = 200,
    max_iterations: int = 100,
    seed: int = 0,
) -> xarray.Dataset:
    """Sample parameters approximately, from few simulations, by a Kalman update of an ensemble.

    An ensemble begins as draws of the prior, and moves to the posterior in several steps. Each
    simulates all members once, and regresses normal quantiles of the parameters on the summaries.
    For summaries that depend linearly on these quantiles the ensemble is a sample of the posterior,
    as its size grows; for others it is near it where the posterior is narrow and has one maximum.
    Gradients are not needed, and many parameters do no harm. Summaries must be determined by the
    parameters: by differential equations, or as means over many replicates.

    Parameters
    ----------
    simulate : Simulator
        See `ergode.simulator`.
    prior : mapping of str to distribution
        A frozen continuous distribution of `scipy.stats` for each parameter, or ``(low, high)``
        for a uniform one.
    observed : array_like, shape [k]
        The observed summaries.
    covariance : array_like, shape [k] or [k, k]
        Variances, or the covariance, of their errors of measurement.
    members : int
        Size of the ensemble.
    max_iterations : int
        Steps after which it is given up.
    seed : int
        Of the ensemble and of all simulations.

    Returns
    -------
    xarray.Dataset
        Each parameter ``[chain, draw]``, equally weighted, as ArviZ takes it. Attributes:
        `iterations`, `simulations`, and `misfit`, the mean of squared residuals over their
        variances at the end, which is near one if the model can make the observations.

    Raises
    ------
    ModelError, PlanError
        A parameter has no prior, a shape is wrong, the covariance is not positive definite, all
        simulations of a step failed, or `max_iterations` did not suffice.

    Warns
    -----
    AccuracyWarning
        Simulations with equal parameters differ: the noise of each step narrows the ensemble.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> line = ergode.simulator(
    ...     lambda parameters: parameters["a"][:, None] * np.arange(3.0), ["a"], lambda found: found
    ... )
    >>> found = ergode.ensemble_kalman(line, {"a": (0, 4)}, [0.0, 1.1, 1.9], [0.01, 0.01, 0.01])
    >>> bool(abs(found["a"].mean() - 1) < 0.1)
    True
    """
    target = target_of(simulate, observed)
    law = Prior(prior, simulate.parameters)
    root = _root(covariance, target.size)
    count = integer("members", members, 3, 10**8)
    most = integer("max_iterations", max_iterations, 1, 10**6)
    random = np.random.default_rng([integer("seed", seed, 0, 2**64 - 1), 0xE41])
    places, done = law.draw(count, random), 0.0

    def residuals() -> np.ndarray:
        """Without units, and without correlation; members that fail are replaced by others."""
        seeds = int(random.integers(2**32))
        found = simulated(simulate, law.parameters(places), target, seeds)
        good = np.flatnonzero(np.isfinite(found).all(axis=1))
        if good.size < 3:
            raise PlanError(f"{good.size} of {count} simulations succeeded; expected three or more")
        if good.size < count:
            bad = np.setdiff1d(np.arange(count), good)
            chosen = random.choice(good, bad.size)
            places[bad], found[bad] = places[chosen], found[chosen]
        return np.asarray(np.linalg.solve(root, (target - found).T).T)

    first, left = residuals(), residuals()
    _check_noise(first, left)
    for step in range(most + 1):
        if step:
            left = residuals()
        misfits = np.square(left).sum(axis=1) / 2
        if done >= 1:
            return _result(law, places, step, float(2 * misfits.mean() / target.size), count)
        if step == most:
            break
        size, spread = target.size / 2, max(misfits.var(), 1e-300)
        share = min(max(size / misfits.mean(), np.sqrt(size / spread)), 1 - done)
        noise = random.standard_normal(left.shape) / np.sqrt(share)
        off, away = places - places.mean(axis=0), left.mean(axis=0) - left
        inside = away.T @ away / (count - 1) + np.eye(target.size) / share
        cross = off.T @ away / (count - 1)
        places = places + (left + noise) @ np.linalg.solve(inside, cross.T)
        done = 1.0 if share >= 1 - done else done + share
    raise PlanError(
        f"after max_iterations = {most} steps the ensemble has {done:.2g} of the data's weight: "
        "the observations are far from all that the prior makes, or the covariance is too small"
    )


def _check_noise(one: np.ndarray, other: np.ndarray) -> None:
    """Simulations of the same members twice, in deviations of the errors of measurement."""
    noise = float(np.median(np.square(one - other), axis=0).max() / 2)
    if noise > _MOST_NOISE:
        warn(
            f"simulations with equal parameters differ, by {noise:.2g} times the given variance: "
            "the ensemble becomes too narrow; take means over more replicates, or "
            "ergode.synthetic_likelihood",
            AccuracyWarning,
        )


def _root(covariance: ArrayLike, size: int) -> np.ndarray:
    """The lower triangular root of a covariance, [summary, summary]."""
    given = as_numbers(covariance)
    if given is not None and given.shape == (size,):
        given = np.diag(given)
    if given is None or given.shape != (size, size):
        raise ModelError(
            f"covariance is {covariance!r}; expected {size} variances, or a matrix of {size} x "
            f"{size}"
        )
    try:
        root = np.linalg.cholesky(given.astype(np.float64))
    except np.linalg.LinAlgError:
        root = np.full((size, size), np.nan)
    if not np.isfinite(root).all() or not np.allclose(given, given.T):
        raise ModelError("covariance is not symmetric and positive definite")
    return root


def _result(
    law: Prior, places: np.ndarray, steps: int, misfit: float, count: int
) -> xarray.Dataset:
    import xarray

    values = law.parameters(places)
    return xarray.Dataset(
        {name: (("chain", "draw"), values[None, :, k]) for k, name in enumerate(law.names)},
        {"chain": [0], "draw": np.arange(count)},
        {"engine": "ensemble_kalman", "iterations": steps, "simulations": count * (steps + 2),
         "misfit": misfit},
    )  # fmt: skip
