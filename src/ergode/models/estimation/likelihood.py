"""The likelihood of a measurement at a given state: shared by grids and particles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import UserFunction, option, real, unroll
from ergode.models.estimation.measurement import Measurement

H = option()
"""The user's function ``h(y, t, p)``, or the logarithm of a likelihood."""
COMPONENTS = option(1)
"""Number of measured components."""
ANGLES = option((False,))
"""Components that are angles."""
ANY_LIKELIHOOD = option(False)
"""Whether `H` is a likelihood."""
STUDENT = option(False)
"""Whether the noise has Student's distribution, whose degrees of freedom come after the values."""

_TWO_PI = 2.0 * math.pi


def log_likelihood(y, t, p, value, precision):  # type: ignore[no-untyped-def]
    """Logarithm of the likelihood at a state, up to a constant: a device function.

    `value` [component] was measured, with the inverse covariance `precision`
    [component, component].
    """
    found = H(y, t, p)
    if ANY_LIKELIHOOD:
        return real(found[0])
    away = tuple(value[a] - real(found[a]) for a in range(COMPONENTS))
    away = tuple(
        away[a] - real(_TWO_PI) * math.floor(away[a] / real(_TWO_PI) + 0.5)
        if ANGLES[a]
        else away[a]
        for a in range(COMPONENTS)
    )
    square = real(0.0)
    for a in unroll(range(COMPONENTS)):
        for b in unroll(range(COMPONENTS)):
            square += precision[a, b] * away[a] * away[b]
    if STUDENT:
        freedom = value[COMPONENTS]
        power = real(freedom)
        for a in unroll(range(COMPONENTS)):
            if precision[a, a] > 0.0:  # it was measured
                power += real(1.0)
        return -0.5 * power * math.log1p(square / freedom)
    return -0.5 * square


def bindings_of(measurement: Measurement) -> dict[Any, Any]:
    """Options of a kernel that uses `log_likelihood`."""
    function = measurement.likelihood or measurement.h
    assert function is not None
    components = measurement.component_count
    return {
        H: UserFunction(function, (1,) if measurement.likelihood else (components,)),
        COMPONENTS: components,
        ANGLES: tuple(a in measurement.angles for a in range(components)),
        ANY_LIKELIHOOD: measurement.likelihood is not None,
    } | ({} if measurement.degrees_of_freedom is None else {STUDENT: True})


class Undefined(NamedTuple):
    """Where the likelihood of a measurement is not a number, or infinite: it counts as zero."""

    share: float
    state: np.ndarray  # one of the states there
    of: str = "points"  # that the share is one of

    def told(self, names: Sequence[str]) -> str:
        """What the likelihood is; `names` are those of the variables."""
        state = ", ".join(f"{name} = {x:.6g}" for name, x in zip(names, self.state, strict=True))
        where = (
            "everywhere" if self.share == 1.0 else f"at {100 * self.share:.2g} % of the {self.of}"
        )
        return f"is not a number (NaN), or infinite, {where}, such as at {state}"


def impossible(time: float, undefined: Undefined | None, names: Sequence[str]) -> str:
    """Why the measurement at a time leaves nothing of a density."""
    why = "zero" if undefined is None else undefined.told(names).removeprefix("is ")
    if undefined is None:
        why += " wherever the density is not"
    elif undefined.share < 1.0:
        why += ", and zero elsewhere"
    return f"the measurement at time {time:g} is impossible: its likelihood is {why}"


def undefined_warning(
    found: Sequence[tuple[float, Undefined]], names: Sequence[str]
) -> str:  # fmt: skip
    """Warning text for likelihoods that are not numbers, of measurements at times; or empty."""
    if not found:
        return ""
    time, worst = max(found, key=lambda one: one[1].share)
    return (
        f"the likelihood of the measurement at time {time:g} {worst.told(names)}: it counts as "
        "zero there"
    )


def _student_constant(size: float, freedom: float) -> float:
    """Logarithm of the constant of Student's density over that of a Gaussian's."""
    if freedom > 1e6:  # the difference would be rounding
        return 0.25 * size * (size - 2.0) / freedom
    ratio = math.lgamma(0.5 * (freedom + size)) - math.lgamma(0.5 * freedom)
    return ratio - 0.5 * size * math.log(0.5 * freedom)


def numbers_of(
    measurement: Measurement, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A measurement as arrays for several densities, with the constant of the log-likelihood.

    Parameters
    ----------
    measurement : Measurement
    places : ndarray of int, shape [density_count]
        Index of each density in the paired arrays.

    Returns
    -------
    value : ndarray, shape [density_count, component_count]
        With Student's noise, degrees of freedom are one more component.
    precision : ndarray, shape [density_count, component_count, component_count]
    constant : ndarray, shape [density_count]
    """
    count, size = len(places), measurement.component_count
    if measurement.likelihood is not None:
        return np.zeros((count, 1)), np.zeros((count, 1, 1)), np.zeros(count)
    value, covariance, missing = measurement.of(places)
    shared = measurement.covariance.ndim == 2 and not missing.any()
    some = measurement.covariance[None] if shared else covariance
    precision = np.linalg.inv(some)
    precision[missing[: len(some), :, None] | missing[: len(some), None, :]] = 0.0
    constant = -0.5 * (size * math.log(2 * math.pi) + np.linalg.slogdet(some)[1])
    if (freedom := measurement.degrees_of_freedom) is not None:
        # The density of a missing component is one at zero, for both.
        seen = size - missing.sum(axis=1)
        value = np.append(value, np.full((count, 1), freedom), axis=1)
        constant = constant + [_student_constant(float(k), freedom) for k in seen]
    return (
        value, np.broadcast_to(precision, (count, size, size)), np.broadcast_to(constant, count)
    )  # fmt: skip
