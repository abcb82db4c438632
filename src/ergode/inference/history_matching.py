"""History matching: parameters that cannot have made the observations are ruled out in waves.

References
----------
P. S. Craig, M. Goldstein, A. H. Seheult, J. A. Smith, Pressure matching for hydrocarbon reservoirs,
in Case Studies in Bayesian Statistics III (Springer, 1997).

I. Vernon, M. Goldstein, R. G. Bower, Galaxy formation: a Bayesian uncertainty analysis, Bayesian
Anal. 5, 619 (2010): implausibility, equation 20, and waves.

I. Andrianakis et al., Bayesian history matching of complex infectious disease models using
emulation, PLoS Comput. Biol. 11, e1003968 (2015): stochastic simulations.

S.-K. Au, J. L. Beck, Estimation of small failure probabilities in high dimensions by subset
simulation, Probab. Eng. Mech. 16, 263 (2001): how the region that is left is sampled.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, integer, number
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.core.inputs import recorded
from ergode.inference.priors import Prior
from ergode.inference.simulator import Simulator, simulated, target_of

if TYPE_CHECKING:
    import xarray

_LEAST_LEFT = 0.1  # of the points of a level; else a level between is taken
_MOVES = 20  # of each point, at each level
_ROUNDING = 1e-12  # variance of an emulator of its own summary


@recorded({})
def history_matching(
    simulate: Simulator,
    prior: Mapping[str, Any],
    observed: ArrayLike,
    variance: ArrayLike,
    *,
    waves: int = 4,
    runs: int | None = None,
    cutoff: float = 3.0,
    draws: int = 2_000,
    emulator: Any = None,
    seed: int = 0,
) -> xarray.Dataset:
    """Rule out parameters whose simulations cannot be near the observations.

    Each wave simulates `runs` points of the region that is left, at first of the whole prior. An
    emulator is fitted to each summary: a quadratic of the parameters, in quantiles of the prior,
    whose residual variance has what it misses and the simulation's own noise; or another one. The
    implausibility of a point is the largest distance of a summary's prediction from its
    observation, in standard deviations of both. Points above `cutoff` in any wave are ruled out
    (Vernon et al. 2010).

    What is left is no posterior: it is where one may be. Whatever the distribution of an error with
    one maximum, at most one in twenty is beyond three deviations (Pukelsheim 1994). The region
    tells whether the model can make the observations at all, and is a prior from which
    `ergode.abc_smc` and other methods need fewer simulations. Its points are drawn with the density
    of the prior.

    Parameters
    ----------
    simulate : Simulator
        See `ergode.simulator`.
    prior : mapping of str to distribution
        A frozen continuous distribution of `scipy.stats` for each parameter, or ``(low, high)``
        for a uniform one.
    observed : array_like, shape [k]
        The observed summaries.
    variance : array_like, shape [k]
        Of the error of each: of measurement, and of what the model leaves out.
    waves : int
        Largest number; fewer are made if one rules out less than a twentieth of what was left.
    runs : int, optional
        Simulations of a wave; by default ten for each coefficient of a quadratic.
    cutoff : float
        Standard deviations beyond which a point is ruled out.
    draws : int
        Points of the region that is left.
    emulator : object, optional
        In place of the quadratic, where summaries have several maxima: a regression with the
        methods of scikit-learn, ``fit(x, y)`` and ``predict(x, return_std=True)``, such as
        ``sklearn.gaussian_process.GaussianProcessRegressor``; it is copied for each summary and
        wave. The deviation is that of a simulation: a random one needs a kernel with white noise.
    seed : int
        Of the points and of all simulations.

    Returns
    -------
    xarray.Dataset
        Each parameter, and `implausibility` of the last wave, ``[chain, draw]``, equally weighted,
        as ArviZ takes it; and ``space[wave]``, the share of the prior's probability that is left.
        Attribute: `simulations`.

    Raises
    ------
    ModelError, PlanError
        A parameter has no prior, a shape is wrong, runs are too few or failed, or no parameters are
        left: the model cannot make the observations.

    Warns
    -----
    AccuracyWarning
        The first wave ruled out nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> square = ergode.simulator(
    ...     lambda parameters: parameters["a"][:, None] ** 2, ["a"], lambda found: found
    ... )
    >>> found = ergode.history_matching(square, {"a": (-4, 4)}, [4.0], [0.01])
    >>> bool((abs(abs(found["a"]) - 2) < 0.1).all())
    True
    """
    target = target_of(simulate, observed)
    law = Prior(prior, simulate.parameters)
    size = len(law.names)
    errors = as_numbers(variance)
    if errors is None or errors.shape != target.shape or not (errors >= 0).all():
        raise ModelError(f"variance is {variance!r}; expected {target.size} numbers, none negative")
    most, beyond = integer("waves", waves, 1, 1_000), number("cutoff", cutoff, above=0.0)
    count = integer("draws", draws, 100, 10**7)
    terms = (size + 1) * (size + 2) // 2
    each = integer("runs", 10 * terms if runs is None else runs, terms + 10, 10**8)
    random = np.random.default_rng([integer("seed", seed, 0, 2**64 - 1), 0x415])
    region = _Region(target, errors.astype(np.float64), beyond)
    places, done = _first(size, max(each, count), random), 0
    space: list[float] = []
    while len(space) < most:
        runs_of = places[random.choice(len(places), each, replace=False)]
        found = simulated(
            simulate, law.parameters(_quantiles(runs_of)), target, int(random.integers(2**32))
        )
        done += each
        good = np.isfinite(found).all(axis=1)
        if good.sum() < terms + 10:
            raise PlanError(
                f"{good.sum()} of {each} simulations succeeded; {terms + 10} are needed"
            )
        made = (
            _Quadratic(runs_of[good], found[good])
            if emulator is None
            else _Given(emulator, runs_of[good], found[good])
        )
        region.emulators.append(made)
        places, share = region.entered(places, random)
        space.append(share * (space[-1] if space else 1.0))
        if share > 0.95:
            break
    if space[0] > 0.95:
        warn(
            f"the first wave left {space[0]:.0%} of the prior: its emulators tell little; take "
            "more runs, or emulator=GaussianProcessRegressor(...) of scikit-learn",
            AccuracyWarning,
        )
    return _result(law, places[:count], region.of(places[:count], len(space) - 1), space, done)


class _Emulator(Protocol):
    """What predicts all summaries of a wave."""

    def predicted(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means, and variances of a simulation around them, [point, summary]."""


class _Quadratic:
    """Least squares in coordinates of the wave's points without correlation."""

    def __init__(self, places: np.ndarray, found: np.ndarray) -> None:
        self._centre = places.mean(axis=0)
        spread = np.atleast_2d(np.cov(places.T)) + 1e-24 * np.eye(places.shape[1])
        self._root = np.linalg.inv(np.linalg.cholesky(spread)).T
        terms = self._terms(places)
        self._inverse = np.linalg.pinv(terms.T @ terms)
        self._coefficients = np.linalg.lstsq(terms, found, rcond=None)[0]
        left = np.square(found - terms @ self._coefficients).sum(axis=0)
        self._variance = left / (len(terms) - terms.shape[1])
        self._variance += _ROUNDING * np.square(found).mean(axis=0)

    def predicted(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        terms = self._terms(places)
        uncertain = 1 + np.einsum("ij,jk,ik->i", terms, self._inverse, terms)
        return terms @ self._coefficients, uncertain[:, None] * self._variance

    def _terms(self, places: np.ndarray) -> np.ndarray:
        """One, the coordinates, and their products, [point, term]."""
        x = (places - self._centre) @ self._root
        first, second = np.triu_indices(x.shape[1])
        return np.concatenate([np.ones((len(x), 1)), x, x[:, first] * x[:, second]], axis=1)


class _Given:
    """Copies of a regression with the methods of scikit-learn, one for each summary."""

    def __init__(self, emulator: Any, places: np.ndarray, found: np.ndarray) -> None:
        self._each = [copy.deepcopy(emulator).fit(places, one) for one in found.T]

    def predicted(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        each = np.array([one.predict(places, return_std=True) for one in self._each])
        return each[:, 0].T, np.square(each[:, 1]).T


class _Region:
    """Points of the unit cube that no wave has ruled out."""

    def __init__(self, target: np.ndarray, errors: np.ndarray, cutoff: float) -> None:
        self.target, self.errors, self.cutoff = target, errors, cutoff
        self.emulators: list[_Emulator] = []

    def of(self, places: np.ndarray, wave: int) -> np.ndarray:
        """Implausibility of each point."""
        means, variances = self.emulators[wave].predicted(places)
        return np.max(np.abs(means - self.target) / np.sqrt(variances + self.errors), axis=1)

    def holds(self, places: np.ndarray, last: float) -> np.ndarray:
        """Which points are left, with another cutoff of the last wave."""
        inside = np.asarray(((places > 0) & (places < 1)).all(axis=1))
        waves = len(self.emulators)
        for wave in range(waves - 1, -1, -1):
            if inside.any():
                limit = last if wave == waves - 1 else self.cutoff
                inside[inside] = self.of(places[inside], wave) <= limit
        return inside

    def entered(self, places: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, float]:
        """Points of the region of all waves from those of all but the last; the share that is left.

        Levels of the last wave's implausibility fall to the cutoff. At each, points that are left
        are doubled, and walk.
        """
        share, level = 1.0, math.inf
        while level > self.cutoff:
            found, before = self.of(places, len(self.emulators) - 1), level
            level = max(self.cutoff, float(np.quantile(found, _LEAST_LEFT)))
            if level > max(self.cutoff, 0.999 * before):  # most points are alike: what lies below?
                level = max(self.cutoff, found[found < 0.999 * before].max(initial=0.0))
            left = places[found <= level]
            share *= len(left) / len(places)
            if share < 1e-12 or len(np.unique(left, axis=0)) < 3:
                nearest = found.min()
                raise PlanError(
                    f"no parameters are left after wave {len(self.emulators)}: the least "
                    f"implausibility is {nearest:.3g}, and the cutoff is {self.cutoff:g}; the "
                    "model cannot make the observations, or their variance is too small"
                )
            places = left[random.integers(len(left), size=len(places))]
            for _ in range(_MOVES):
                # Differences of points: steps along the region, and between its parts.
                pairs = left[random.integers(len(left), size=(2, len(places)))]
                reach = random.choice([0.05, 0.3, 1.0], size=(len(places), 1))
                steps = reach * (pairs[0] - pairs[1])
                steps += 1e-4 * left.std(axis=0) * random.standard_normal(places.shape)
                there = places + steps
                moves = self.holds(there, level)
                places[moves] = there[moves]
        return places, share


def _first(size: int, count: int, random: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc

    return qmc.LatinHypercube(size, seed=random).random(count)


def _quantiles(places: np.ndarray) -> np.ndarray:
    """Normal quantiles, in which priors are given."""
    from scipy.special import ndtri

    return np.asarray(ndtri(places))


def _result(
    law: Prior, places: np.ndarray, implausible: np.ndarray, space: Sequence[float], done: int
) -> xarray.Dataset:
    import xarray

    values = law.parameters(_quantiles(places))
    return xarray.Dataset(
        {name: (("chain", "draw"), values[None, :, k]) for k, name in enumerate(law.names)}
        | {"implausibility": (("chain", "draw"), implausible[None]), "space": ("wave", [*space])},
        {"chain": [0], "draw": np.arange(len(values)), "wave": np.arange(1, len(space) + 1)},
        {"engine": "history_matching", "simulations": done},
    )  # fmt: skip
