"""Maneuvers: jumps of a state, known up to a covariance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, did_you_mean
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.estimation.covariances import covariance_of
from ergode.models.estimation.measurement import within_times
from ergode.models.fields.vector_field import VectorField


@dataclass(frozen=True, eq=False)
class Maneuver:
    """A jump of the state: at a time the state y becomes ``y + change + w``.

    w is Gaussian noise with mean zero, independent of all else. A maneuver acts before measurements
    of equal time, and before what is reported at this time. Times are equal if they are the same
    floating-point number. Several maneuvers at one time act as one: their changes and covariances
    are added.

    Parameters
    ----------
    time : float
        When [time].
    change : array_like, shape [variable_count], or mapping of str to float
        What is added to the state [variable]: in the order of the field's variables, or by their
        names; variables without a name do not change. Shape [filter_count, variable_count] gives
        each of several densities its own change.
    covariance : array_like or mapping of str to float, optional
        Covariance of w [variable^2]: a matrix, shape [variable_count, variable_count], or variances
        of independent components, shape [variable_count], or by name. It may be singular. The
        default is an exact jump.

    Raises
    ------
    ModelError
        Something is not a number, shapes do not match, or the covariance is not symmetric and
        positive semi-definite.

    Examples
    --------
    >>> import ergode
    >>> burn = ergode.Maneuver(2.0, {"vy": 0.1}, {"vx": 1e-6, "vy": 4e-6})
    >>> burn.by_name(["x", "y", "vx", "vy"]).change
    array([0. , 0. , 0. , 0.1])
    """

    time: float
    change: Any
    covariance: Any = None

    def __post_init__(self) -> None:
        try:
            time = float(self.time)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"time of a maneuver is {self.time!r}; expected a number") from None
        if not np.isfinite(time):
            raise ModelError(f"time of a maneuver is {time}; expected a finite number")
        change, covariance = self.change, self.covariance
        if isinstance(change, Mapping):
            change = _by_name("change", change)
        else:
            change = _numbers("change", change)
            if change.ndim not in (1, 2) or change.size == 0:
                raise ModelError(
                    f"change of a maneuver has shape {change.shape}; expected a number for each "
                    "variable, or a row of them for each of several densities"
                )
        if isinstance(covariance, Mapping):
            covariance = _by_name("covariance", covariance)
            negative = [name for name, one in covariance.items() if one < 0]
            if negative:
                raise ModelError(
                    f"covariance of a maneuver has {covariance[negative[0]]:g} for "
                    f"'{negative[0]}'; expected a variance, not negative"
                )
        elif covariance is not None:
            size = len(_numbers("covariance", covariance))
            if not size:
                raise ModelError("covariance of a maneuver is empty; expected one or more")
            covariance = covariance_of(
                covariance, size, "covariance of a maneuver", may_be_singular=True
            )
            if not isinstance(change, dict) and change.shape[-1] != size:
                raise ModelError(
                    f"covariance of a maneuver is of {counted(size, 'variable')} and its change of "
                    f"{change.shape[-1]}; expected equal numbers"
                )
        for name, value in (("time", time), ("change", change), ("covariance", covariance)):
            object.__setattr__(self, name, value)

    @property
    def side_by_side(self) -> int | None:
        """Number of densities with their own change; None if all share one."""
        is_many = not isinstance(self.change, dict) and self.change.ndim == 2
        return len(self.change) if is_many else None

    def by_name(self, variables: Sequence[str]) -> Maneuver:
        """The same maneuver, as arrays in the order of `variables`.

        Raises
        ------
        ModelError
            A name is unknown, or there are not as many numbers as variables.
        """
        change, covariance, size = self.change, self.covariance, len(variables)
        for name in (*_names(change), *_names(covariance)):
            if name not in variables:
                raise ModelError(
                    f"the maneuver at time {self.time:g} changes '{name}', which the field does "
                    f"not have; expected some of {', '.join(variables)}"
                    f"{did_you_mean(name, variables)}"
                )
        if isinstance(change, dict):
            change = np.array([change.get(name, 0.0) for name in variables])
        if isinstance(covariance, dict):
            covariance = np.diag([covariance.get(name, 0.0) for name in variables])
        given = change.shape[-1] if covariance is None else len(covariance)
        if change.shape[-1] != size or given != size:
            raise ModelError(
                f"the maneuver at time {self.time:g} is of {given} variables and the field has "
                f"{size}: {', '.join(variables)}"
            )
        if covariance is not None and not covariance.any():
            covariance = None
        return Maneuver(self.time, change, covariance)

    def changes(self, places: np.ndarray) -> np.ndarray:
        """Change of each density [density, variable]; `places` are indices into several changes."""
        if self.change.ndim == 2:
            return np.asarray(self.change[places])
        return np.broadcast_to(self.change, (len(places), self.change.size))


def in_order_of_time(maneuvers: Any, field: VectorField, times: np.ndarray) -> list[Maneuver]:
    """One maneuver for each time, as arrays, sorted by time, within the times of a run.

    Raises a ModelError if one is not a maneuver, or does not fit; the message says which.
    """
    found = within_times("maneuvers", maneuvers, Maneuver, times)
    ordered = sorted((one.by_name(field.variables) for one in found), key=lambda one: one.time)
    sums = [_sum(list(some)) for _, some in groupby(ordered, key=lambda one: one.time)]
    # One that does nothing is left out: not even a step ends at its time. One of several densities
    # may do nothing to some of them, and a part of a bank may have only these.
    return [
        one for one in sums
        if one.change.any() or one.covariance is not None or one.side_by_side is not None
    ]  # fmt: skip


def _sum(maneuvers: list[Maneuver]) -> Maneuver:
    """Maneuvers of one time as one."""
    many = {one.side_by_side for one in maneuvers if one.side_by_side is not None}
    if len(many) > 1:
        raise ModelError(
            f"maneuvers at time {maneuvers[0].time:g} have {' and '.join(map(str, sorted(many)))} "
            "changes, one for each density; expected equal numbers"
        )
    noise = [one.covariance for one in maneuvers if one.covariance is not None]
    change = maneuvers[0].change
    for one in maneuvers[1:]:
        change = change + one.change
    return Maneuver(maneuvers[0].time, change, sum(noise[1:], noise[0]) if noise else None)


def noted(maneuvers: Sequence[Maneuver]) -> dict[str, np.ndarray]:
    """Attributes of a result: times, changes and covariances, end to end."""
    size = maneuvers[0].change.shape[-1] if maneuvers else 0
    none = np.zeros((size, size))
    return {
        "maneuver_times": np.array([one.time for one in maneuvers]),
        "maneuver_changes": np.concatenate(
            [np.zeros(0), *(one.change.ravel() for one in maneuvers)]
        ),
        "maneuver_covariances": np.concatenate(
            [
                np.zeros(0),
                *((none if one.covariance is None else one.covariance).ravel()
                  for one in maneuvers),
            ]
        ),
    }  # fmt: skip


def _names(value: Any) -> Iterator[str]:
    yield from value if isinstance(value, dict) else ()


def _by_name(what: str, given: Mapping[Any, Any]) -> dict[str, float]:
    """Numbers by names of variables."""
    found = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise ModelError(
                f"{what} of a maneuver has {name!r} for a name; expected a variable's name"
            )
        one = _numbers(f"{what} of '{name}'", value, least_dims=0)
        if one.ndim:
            raise ModelError(
                f"{what} of '{name}' of a maneuver has shape {one.shape}; expected a number"
            )
        found[name] = float(one)
    return found


def _numbers(what: str, value: Any, least_dims: int = 1) -> np.ndarray:
    """An array of finite numbers."""
    if (found := as_numbers(value)) is None:
        raise ModelError(f"{what} of a maneuver is {value!r}; expected real numbers")
    if not np.isfinite(found).all():
        raise ModelError(f"{what} of a maneuver is {value!r}; expected finite numbers")
    return np.atleast_1d(found) if least_dims else found
