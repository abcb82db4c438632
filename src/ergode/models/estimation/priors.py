"""Priors: the initial probability density of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers
from ergode.core.errors import ModelError
from ergode.core.math.tall import quadratic
from ergode.core.words import counted
from ergode.models.estimation.covariances import covariance_of


class Prior:
    """A probability density over the variables of a vector field.

    `mean` and `covariance` determine the grid; all priors but `Samples` have a `log_density`.
    """

    mean: Any
    covariance: Any

    def by_name(self, variables: Sequence[str]) -> Prior:
        """The same prior, its components in the order of `variables`."""
        if self.mean.size != len(variables):
            raise ModelError(
                f"the prior has {counted(self.mean.size, 'component')} and the field "
                f"{counted(len(variables), 'variable')}: {', '.join(variables)}"
            )
        return self

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Logarithm of the density, up to a constant, at points [point_count, variable_count]."""
        raise NotImplementedError

    @property
    def each(self) -> Sequence[Prior] | None:
        """The single priors, if it is several; otherwise None."""
        return None


@dataclass(frozen=True, eq=False)
class Gaussian(Prior):
    """A Gaussian prior, or several priors.

    Parameters
    ----------
    mean : array_like, shape [variable_count], or mapping of str to float
        In the order of the field's variables, or by their names. Several priors have the shape
        [prior_count, variable_count], or, by name, lists of equal length.
    covariance : array_like, shape [variable_count, variable_count] or [variable_count], or mapping
        A matrix, or variances of independent components (by name, if `mean` is). Several priors
        have the shape [prior_count, variable_count, variable_count], or lists by name.

    Raises
    ------
    ModelError
        Shapes do not match, or the covariance is not symmetric and positive definite.

    Examples
    --------
    >>> import ergode
    >>> ergode.Gaussian([0.0, 1.0], [0.5, 0.5]).covariance
    array([[0.5, 0. ],
           [0. , 0.5]])
    >>> len(ergode.Gaussian([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]], [0.5, 0.5]).each)
    3
    """

    mean: Any
    covariance: Any

    def __post_init__(self) -> None:
        names = None
        mean, covariance = self.mean, self.covariance
        if isinstance(mean, Mapping):
            names = tuple(mean)
            mean = [mean[name] for name in names]
            if isinstance(covariance, Mapping):
                odd = set(covariance) ^ set(names)
                if odd:
                    raise ModelError(
                        f"mean and covariance of a Gaussian name different variables: "
                        f"only one of them has {', '.join(sorted(map(str, odd)))}"
                    )
                covariance = _columns("covariance", [covariance[name] for name in names])
                if covariance.ndim == 2:
                    covariance = covariance[..., None] * np.eye(len(names))
            mean = _columns("mean", mean)
        object.__setattr__(self, "names", names)
        several = _one_each(mean, covariance)
        if several is None:
            object.__setattr__(self, "mean", _vector("mean", mean))
            object.__setattr__(self, "covariance", covariance_of(covariance, self.mean.size))
            return
        for one in several:
            object.__setattr__(one, "names", names)
        object.__setattr__(self, "_each", several)
        object.__setattr__(self, "mean", np.stack([one.mean for one in several]))
        object.__setattr__(self, "covariance", np.stack([one.covariance for one in several]))

    names: Any = field(init=False, default=None)
    _each: Any = field(init=False, default=None)

    @property
    def each(self) -> Sequence[Gaussian] | None:
        """The single priors, if it is several; otherwise None."""
        return self._each

    def by_name(self, variables: Sequence[str]) -> Gaussian:
        if self.names is None:
            super().by_name(variables)
            return self
        if set(self.names) != set(variables):
            odd = ", ".join(sorted(set(self.names) ^ set(variables)))
            raise ModelError(
                f"prior and field have different variables: only one of them has {odd}"
            )
        order = [self.names.index(name) for name in variables]
        return Gaussian(self.mean[order], self.covariance[np.ix_(order, order)])

    @cached_property
    def _precision(self) -> np.ndarray:
        return np.linalg.inv(self.covariance)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Logarithm of the density at points [point_count, variable_count]."""
        square = quadratic(x - self.mean, self._precision)
        constant = self.mean.size * np.log(2 * np.pi) + np.linalg.slogdet(self.covariance)[1]
        return -0.5 * (square + constant)


@dataclass(frozen=True, eq=False)
class Mixture(Prior):
    """A weighted sum of Gaussians.

    Parameters
    ----------
    weights : array_like, shape [component_count]
        Positive; normalised to sum one.
    components : sequence of Gaussian

    Raises
    ------
    ModelError
        Weights and components do not match.

    Examples
    --------
    >>> import ergode
    >>> two = ergode.Mixture([1, 3], [ergode.Gaussian([0.0], [1.0]), ergode.Gaussian([4.0], [1.0])])
    >>> float(two.mean[0])
    3.0
    """

    weights: Any
    components: Sequence[Gaussian]

    def __post_init__(self) -> None:
        weights = _vector("weights", self.weights)
        components = tuple(self.components)
        if weights.size != len(components) or (weights <= 0).any():
            raise ModelError(
                f"weights are {weights} for {len(components)} components; expected a positive "
                "number for each"
            )
        for number, one in enumerate(components):
            if not isinstance(one, Gaussian) or one.mean.size != components[0].mean.size:
                raise ModelError(
                    f"components[{number}] of a mixture is {one!r}; expected Gaussians of one size"
                )
        object.__setattr__(self, "weights", weights / weights.sum())
        object.__setattr__(self, "components", components)

    def by_name(self, variables: Sequence[str]) -> Mixture:
        return Mixture(self.weights, [one.by_name(variables) for one in self.components])

    @property
    def mean(self) -> np.ndarray:
        """Mean of the mixture, shape [variable_count]."""
        return sum(w * g.mean for w, g in zip(self.weights, self.components, strict=True))

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the mixture, shape [variable_count, variable_count]."""
        away = [g.mean - self.mean for g in self.components]
        return sum(
            w * (g.covariance + np.outer(a, a))
            for w, g, a in zip(self.weights, self.components, away, strict=True)
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        terms = [
            np.log(w) + g.log_density(x) for w, g in zip(self.weights, self.components, strict=True)
        ]
        return np.logaddexp.reduce(terms)


@dataclass(frozen=True, eq=False)
class Samples(Prior):
    """A prior given by samples, such as a posterior ensemble; on a grid it is a histogram.

    Parameters
    ----------
    points : array_like, shape [point_count, variable_count]
        At least two.
    weights : array_like, shape [point_count], optional
        Not negative; equal weights if not given.

    Raises
    ------
    ModelError
        Points are too few or not finite, or weights do not match.
    """

    points: Any
    weights: Any = None

    def __post_init__(self) -> None:
        if (points := as_numbers(self.points)) is None:
            raise ModelError("points of a prior are not real numbers")
        if points.ndim != 2 or len(points) < 2 or not np.isfinite(points).all():
            raise ModelError(
                f"points of a prior have shape {points.shape}; expected finite numbers, "
                "[point_count, variable_count], and at least two points"
            )
        weights = np.ones(len(points)) if self.weights is None else _vector("weights", self.weights)
        if weights.size != len(points) or (weights < 0).any() or weights.sum() == 0:
            raise ModelError(
                f"weights of a prior have {counted(weights.size, 'element')} for "
                f"{counted(len(points), 'point')}, or "
                "are not positive; expected one for each"
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights / weights.sum())

    @property
    def mean(self) -> np.ndarray:
        """Mean of the samples, shape [variable_count]."""
        return self.weights @ self.points

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the samples, shape [variable_count, variable_count]."""
        away = self.points - self.mean
        return (away * self.weights[:, None]).T @ away


@dataclass(frozen=True, eq=False)
class Density(Prior):
    """A prior given by the logarithm of its density, up to a constant.

    Parameters
    ----------
    function : function
        Maps points [point_count, variable_count] to [point_count]; ``-inf`` is allowed.
    mean, covariance : as for `Gaussian`
        Location and extent of the grid: centred at `mean`, several standard deviations wide.
    """

    function: Callable[[np.ndarray], ArrayLike]
    mean: Any
    covariance: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _vector("mean", self.mean))
        object.__setattr__(self, "covariance", covariance_of(self.covariance, self.mean.size))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        log = np.asarray(self.function(x), np.float64)
        if log.shape != (len(x),):
            raise ModelError(
                f"the function of a density returned shape {log.shape} for "
                f"{counted(len(x), 'point')}; expected one number for each"
            )
        if np.isnan(log).any() or not np.isfinite(log.max()):
            found = "NaN" if np.isnan(log).any() else "no finite number"
            raise ModelError(
                f"the function of a density returned {found} for {counted(len(x), 'point')}; "
                "expected logarithms: finite, or -inf where the density is zero"
            )
        return log


def side_by_side(prior: Any) -> tuple[list[Prior], bool]:
    """A list of priors, and whether the user gave several.

    Raises a ModelError if it is not a prior or a list of priors, or an element of the list is
    several priors.
    """
    if isinstance(prior, Prior):
        several = prior.each
        return ([prior] if several is None else list(several)), several is not None
    if not isinstance(prior, Sequence) or isinstance(prior, str) or not prior:
        raise ModelError(
            f"prior is {type(prior).__name__}; expected Gaussian, Mixture, Samples or Density, or "
            "a list of them"
        )
    for number, one in enumerate(prior):
        if not isinstance(one, Prior) or one.each is not None:
            what = "several priors" if isinstance(one, Prior) else type(one).__name__
            raise ModelError(f"prior[{number}] is {what}; expected one Gaussian, Mixture, ...")
    return list(prior), True


def _one_each(mean: Any, covariance: Any) -> list[Gaussian] | None:
    """A Gaussian for each row of mean or covariance; None for a single prior."""
    means, spreads = as_numbers(mean), as_numbers(covariance)
    if means is None or spreads is None:
        return None  # the check of a single Gaussian has the message
    if means.ndim < 2 and spreads.ndim < 3:
        return None
    count = len(means) if means.ndim == 2 else len(spreads)
    if means.ndim > 2 or spreads.ndim > 3 or (spreads.ndim == 3 and len(spreads) != count):
        raise ModelError(
            f"mean and covariance have shapes {means.shape} and {spreads.shape}; several "
            "priors need a first axis of equal length"
        )
    if count == 0:
        raise ModelError("mean or covariance of a Gaussian is empty; expected one row or more")
    size = means.shape[-1] if means.ndim else 1
    if spreads.ndim < 3:
        spreads = np.broadcast_to(covariance_of(spreads, size), (count, size, size))
    rows = np.broadcast_to(means, (count, size))
    return [Gaussian(row, spread) for row, spread in zip(rows, spreads, strict=True)]


def _columns(what: str, values: Sequence[Any]) -> np.ndarray:
    """Values by name as one array [variable_count], or [prior_count, variable_count]."""
    if not values:
        raise ModelError(f"{what} is empty; expected a value for every variable")
    columns = [one for one in map(as_numbers, values) if one is not None]
    if len(columns) == len(values):
        with suppress(ValueError):
            return np.stack(np.broadcast_arrays(*columns), -1)
    raise ModelError(f"{what} is {list(values)!r}; expected real numbers, or lists of one length")


def _vector(what: str, value: Any) -> np.ndarray:
    if (vector := as_numbers(value)) is None:
        raise ModelError(f"{what} is {value!r}; expected real numbers")
    vector = np.atleast_1d(vector)
    bad = np.flatnonzero(~np.isfinite(vector))
    if vector.ndim != 1 or vector.size == 0 or bad.size:
        where = f"; {what}[{bad[0]}] is {vector.flat[bad[0]]}" if bad.size else ""
        raise ModelError(f"{what} has shape {vector.shape}{where}; expected finite numbers")
    return vector
