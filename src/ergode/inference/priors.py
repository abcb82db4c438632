"""A prior of independent parameters, as standard normal coordinates.

A coordinate z of a parameter is the normal quantile of its distribution function. Steps in z never
leave the prior, need no unit, and have the standard normal density as their prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers
from ergode.core.errors import ModelError

_MOST = 37.0  # |z| beyond which the normal distribution function is zero in float64


class Prior:
    """Distributions of parameters.

    Parameters
    ----------
    prior : mapping of str to distribution
        A frozen distribution of `scipy.stats` for each parameter, or ``(low, high)``.
    names : sequence of str
        The parameters, in the order of the columns.

    Raises a ModelError for a parameter without a distribution and for one that is not known.
    """

    def __init__(self, prior: Mapping[str, Any], names: Sequence[str]) -> None:
        if not isinstance(prior, Mapping):
            raise ModelError(f"prior is {prior!r}; expected a distribution for each parameter")
        self.names = tuple(names)
        self._laws = [_law(prior, name) for name in names]
        for name in prior:
            if name not in self.names:
                raise ModelError(f"prior has '{name}', which is no parameter")

    def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Coordinates of draws, [draw, parameter]."""
        return random.standard_normal((count, len(self.names)))

    def parameters(self, places: np.ndarray) -> np.ndarray:
        """Values of the parameters, [..., parameter]."""
        from scipy.special import ndtr

        z = np.clip(places, -_MOST, _MOST)
        found = np.empty_like(z)
        for k, law in enumerate(self._laws):
            one = z[..., k]
            found[..., k] = np.where(one <= 0, law.ppf(ndtr(one)), law.isf(ndtr(-one)))
        return found


def _law(prior: Mapping[str, Any], name: str) -> Any:
    from scipy.stats import uniform

    if name not in prior:
        raise ModelError(f"prior has no distribution of '{name}'")
    law = prior[name]
    ends = as_numbers(law)
    if ends is not None and ends.shape == (2,):
        low, high = ends.tolist()
        if not low < high or not np.isfinite(high - low):
            raise ModelError(f"prior of '{name}' is {law}; expected finite numbers, low < high")
        return uniform(low, high - low)
    try:
        is_law = all(np.shape(f(np.full(3, 0.5))) == (3,) for f in (law.ppf, law.isf, law.logpdf))
    except Exception:  # any object may be given, and raise anything
        is_law = False
    if not is_law:
        raise ModelError(
            f"prior of '{name}' is {law!r}; expected (low, high), or a frozen continuous "
            "distribution of scipy.stats"
        )
    return law
