"""Approximate Bayesian computation by a population whose tolerance falls.

References
----------
P. Del Moral, A. Doucet, A. Jasra, An adaptive sequential Monte Carlo method for approximate
Bayesian computation, Stat. Comput. 22, 1009 (2012): algorithm of section 3.

D. Prangle, Adapting the ABC distance function, Bayesian Anal. 12, 289 (2017): scales of summaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import integer, number
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, PlanError
from ergode.core.inputs import recorded
from ergode.inference.priors import Prior
from ergode.inference.simulator import Simulator, simulated, target_of

if TYPE_CHECKING:
    import xarray

# Share of accepted moves below which the population stops.
_LEAST_ACCEPTED = 0.015
# Scale of the random walk: optimal for a Gaussian target (Roberts, Gelman & Gilks 1997).
_WALK = 2.38


@recorded({})
def abc_smc(
    simulate: Simulator,
    prior: Mapping[str, Any],
    observed: Any,
    *,
    particles: int = 1_000,
    keep: float = 0.9,
    tolerance: float = 0.0,
    max_simulations: int = 200_000,
    seed: int = 0,
) -> xarray.Dataset:
    """Sample parameters whose simulated summaries are close to observed ones.

    A population begins as draws of the prior. In each generation the tolerance falls until a share
    `keep` of the particles that were alive stays so; when fewer than half are, the population is
    resampled. Then every living particle moves once by a random walk in normal quantiles of the
    prior, with the covariance of the population. Its new place is accepted by the ratio of the
    priors if its simulation is within the tolerance. All moves of a generation are one call. The
    distance is Euclidean, of summaries over their median absolute deviation in the first
    generation.

    Parameters
    ----------
    simulate : Simulator
        With independent random numbers; see `ergode.simulator`.
    prior : mapping of str to distribution
        A frozen distribution of `scipy.stats` for each parameter, or ``(low, high)`` for a uniform
        one.
    observed : array_like, shape [k]
        The observed summaries.
    particles : int
        Size of the population, and number of draws.
    keep : float
        Between 0 and 1; nearer to 1 takes more generations, and follows the posterior better.
    tolerance : float
        Distance at which to stop. 0 with summaries that are counts gives the exact posterior.
    max_simulations : int
        No generation begins that could take more. None begins either when fewer than 1.5 % of the
        last moves were accepted, because the next ones would take long. `stopped` says why it
        ended.
    seed : int
        Of the population and of all simulations.

    Returns
    -------
    xarray.Dataset
        Each parameter ``[chain, draw]``, equally weighted, as ArviZ takes it:
        ``arviz.InferenceData(posterior=found)``; `distance` of each draw. Attributes:
        `tolerances` and `accepted` of all generations, `simulations`, `distinct`, the number of
        different draws, and `stopped`, why it ended: ``"tolerance"``, ``"acceptance"`` or
        ``"max_simulations"``.

    Raises
    ------
    ModelError, PlanError
        A parameter has no prior; the summaries have another length than `observed`; random
        numbers are common; or all simulations of the first generation failed.

    Warns
    -----
    AccuracyWarning
        The population stopped above `tolerance` (if that is not 0), did not move at all, has few
        different draws, or an observed summary is outside of all that were simulated.

    Examples
    --------
    >>> import functools
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    ... )
    >>> call = functools.partial(
    ...     ergode.stochastic.simulate, network, times=[0, 1], device="cpu"
    ... )
    >>> simulate = ergode.simulator(call, ["k"], lambda found: found["amount"].isel(time=1))
    >>> found = ergode.abc_smc(simulate, {"k": (0, 3)}, [15], particles=200, seed=1)
    >>> bool(0.5 < found["k"].mean() < 1.6)
    True
    """
    target = target_of(simulate, observed)
    names = simulate.parameters
    law = Prior(prior, names)
    if simulate.is_common:
        raise PlanError("the simulator has common random numbers; expected independent ones")
    seed = integer("seed", seed, 0, 2**64 - 1)
    count = integer("particles", particles, 10, 10**8)
    keep = number("keep", keep, above=0.0)
    if not keep < 1:
        raise PlanError(f"keep is {keep:g}; expected a number between 0 and 1")
    aim = number("tolerance", tolerance, least=0.0)
    most = integer("max_simulations", max_simulations, count, 10**12)
    random = np.random.default_rng(np.random.SeedSequence([seed, 0xABC]))

    def summaries(places: np.ndarray) -> np.ndarray:
        return simulated(simulate, law.parameters(places), target, int(random.integers(2**32)))

    places = law.draw(count, random)
    first = summaries(places)
    scale = _scales(first)
    distances = _distances(first, target, scale)
    if not np.isfinite(distances).any():
        raise PlanError("all simulations of draws from the prior failed")
    epsilon, done = math.inf, count
    alive = np.isfinite(distances)
    tolerances: list[float] = []
    accepted: list[float] = []
    stopped = "max_simulations"
    while done + count <= most and epsilon > aim:
        epsilon = max(aim, _next(distances, alive, epsilon, keep))
        alive = distances <= epsilon
        if alive.sum() < count / 2:
            chosen = random.choice(np.flatnonzero(alive), count)
            places, distances, alive = places[chosen], distances[chosen], alive[chosen]
        share, moved = _move(summaries, target, scale, places, distances, alive, epsilon, random)
        done += moved
        tolerances.append(epsilon)
        accepted.append(share)
        if share < _LEAST_ACCEPTED:
            stopped = "acceptance"
            break
    if epsilon <= aim:
        stopped = "tolerance"
    low, high = np.nanmin(first, axis=0), np.nanmax(first, axis=0)
    if epsilon > aim and ((target < low) | (target > high)).any():
        k = int(np.flatnonzero((target < low) | (target > high))[0])
        warn(
            f"observed[{k}] is {target[k]:g}, outside of all that the prior makes ({low[k]:g} to "
            f"{high[k]:g}); the distance that is left is {epsilon:.3g}",
            AccuracyWarning,
        )
    chosen = np.flatnonzero(alive)
    if chosen.size < count:
        chosen = random.choice(chosen, count)
    if not tolerances:
        warn(
            f"max_simulations is {most}, which leaves {count} particles where the prior put them; "
            "simulate more",
            AccuracyWarning,
        )
    drawn = law.parameters(places[chosen])
    found = _result(names, drawn, distances[chosen], tolerances, accepted, done, aim)
    found.attrs["stopped"] = stopped
    return found


def _scales(found: np.ndarray) -> np.ndarray:
    """Median absolute deviation of each summary; one where most are equal."""
    with np.errstate(invalid="ignore"):
        off = np.abs(found - np.nanmedian(found, axis=0))
    scale = np.nanmedian(off, axis=0)
    spread = np.nanmax(off, axis=0)
    return np.where(scale > 0, scale, np.where(spread > 0, spread, 1.0))


def _distances(found: np.ndarray, target: np.ndarray, scale: np.ndarray) -> np.ndarray:
    distances = np.sqrt((((found - target) / scale) ** 2).sum(axis=1))
    return np.where(np.isnan(distances), np.inf, distances)


def _next(distances: np.ndarray, alive: np.ndarray, epsilon: float, keep: float) -> float:
    """The tolerance that keeps a share of the living; a smaller one than the last."""
    living = np.sort(distances[alive])
    wanted = living[max(math.ceil(keep * living.size) - 1, 0)]
    if wanted < epsilon:
        return float(wanted)
    below = living[living < epsilon]  # ties, as of counts
    return float(below[-1]) if below.size else float(living[0])


def _move(
    summaries: Callable[[np.ndarray], np.ndarray], target: np.ndarray, scale: np.ndarray,
    places: np.ndarray, distances: np.ndarray, alive: np.ndarray, epsilon: float,
    random: np.random.Generator,
) -> tuple[float, int]:  # fmt: skip
    """Move every living particle once, in place; the share of accepted moves, and simulations."""
    living = np.flatnonzero(alive)
    covariance = np.atleast_2d(np.cov(places[living].T)) * _WALK**2 / places.shape[1]
    covariance += 1e-12 * np.eye(len(covariance))  # or a population in one place would stand still
    steps = random.multivariate_normal(np.zeros(places.shape[1]), covariance, living.size)
    there = places[living] + steps
    densities = (places[living] ** 2 - there**2).sum(axis=1) / 2
    possible = np.log(random.random(living.size)) < densities
    moved = int(possible.sum())
    if not moved:
        return 0.0, 0
    new = _distances(summaries(there[possible]), target, scale)
    good = new <= epsilon
    which = living[possible][good]
    places[which], distances[which] = there[possible][good], new[good]
    return float(good.sum() / living.size), moved


def _result(
    names: tuple[str, ...], places: np.ndarray, distances: np.ndarray, tolerances: list[float],
    accepted: list[float], done: int, aim: float,
) -> xarray.Dataset:  # fmt: skip
    import xarray

    different = len(np.unique(places, axis=0))
    last = tolerances[-1] if tolerances else math.inf
    if aim > 0 and last > aim:
        warn(f"the tolerance is {last:.3g}, above {aim:.3g}: simulate more", AccuracyWarning)
    if different < len(places) / 10:
        warn(
            f"only {different} of {len(places)} draws differ: take a larger tolerance, more "
            "particles, or fewer summaries",
            AccuracyWarning,
        )
    return xarray.Dataset(
        {name: (("chain", "draw"), places[None, :, k]) for k, name in enumerate(names)}
        | {"distance": (("chain", "draw"), distances[None])},
        {"chain": [0], "draw": np.arange(len(places))},
        {
            "engine": "abc_smc", "simulations": done, "tolerances": np.array(tolerances),
            "accepted": np.array(accepted), "distinct": different,
        },
    )  # fmt: skip
