"""Walls through which heat passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.kinetics.compositions import by_zone, check_signs
from ergode.kinetics.over_time import OR_OVER_TIME, Trajectory, changes, cut

COEFFICIENT = "heat_transfer_coefficient"
_AROUND = "temperature of the wall"


@dataclass(frozen=True, eq=False)
class Wall:
    """A wall through which heat passes: dU/dt = h A (T_wall - T).

    Parameters
    ----------
    heat_transfer_coefficient : float, array_like of shape [zone_count], Trajectory, or function
        h [erg/(cm2 s K)]; 1 W/(m2 K) is 1e3. 0 is an insulated wall. As a `Trajectory` or a
        function of time it changes, as that of an engine.
    temperature : float, array_like of shape [zone_count], Trajectory, or function
        Of the wall [K]; it may change in time, too.
    area : float or array_like of shape [zone_count]
        Area of the wall over the volume of the gas at the first time [1/cm]: 6 over the diameter of
        a sphere. The area itself does not change with the volume.

    Examples
    --------
    >>> import ergode
    >>> wall = ergode.kinetics.Wall(5e4, temperature=300.0, area=6.0 / 5.0)
    >>> wall.area.tolist()
    [1.2]
    >>> heater = ergode.kinetics.Wall(5e4, lambda time: 300.0 + 20.0 * time, area=1.2)  # 20 K/s
    """

    heat_transfer_coefficient: Any
    temperature: Any
    area: np.ndarray

    def __init__(self, heat_transfer_coefficient: Any, temperature: Any, area: ArrayLike) -> None:
        coefficient = heat_transfer_coefficient
        if not changes(coefficient):
            coefficient = by_zone(COEFFICIENT, coefficient, OR_OVER_TIME)
            check_signs(COEFFICIENT, coefficient, may_vanish=True)
        if not changes(temperature):
            temperature = by_zone(_AROUND, temperature, OR_OVER_TIME)
            check_signs(_AROUND, temperature)
        object.__setattr__(self, COEFFICIENT, coefficient)
        object.__setattr__(self, "temperature", temperature)
        given = by_zone("area of the wall", area)
        check_signs("area of the wall", given)
        object.__setattr__(self, "area", given)

    @property
    def _named(self) -> dict[str, Any]:
        return {
            COEFFICIENT: self.heat_transfer_coefficient, _AROUND: self.temperature,
            "area of the wall": self.area,
        }  # fmt: skip

    @property
    def is_insulated(self) -> bool:
        """Whether no heat passes through any of the walls, so that they have no effect."""
        coefficient = self.heat_transfer_coefficient
        return not (changes(coefficient) or coefficient.any())

    @property
    def over_time(self) -> dict[str, Any]:
        """What changes in time, by name."""
        return {name: value for name, value in self._named.items() if changes(value)}

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by the name of what has them; of a function they are not known."""
        found = {}
        for name, value in self._named.items():
            if isinstance(value, Trajectory):
                found[name] = len(np.atleast_2d(value.values))
            elif not callable(value):
                found[name] = value.size
        return found

    def part(self, start: int, stop: int) -> Wall:
        """The walls of some of the zones."""
        return Wall(*(cut(value, start, stop) for value in self._named.values()))

    def rows(self, count: int, changing: Mapping[str, np.ndarray]) -> np.ndarray:
        """What kernels know of the wall (see `ConditionHistory.wall`).

        `changing` has what is `over_time`, shape [zone_count, knot_count].
        """
        both = [
            changing[name] if name in changing else np.broadcast_to(value, count)[:, None]
            for name, value in (
                (COEFFICIENT, self.heat_transfer_coefficient),
                (_AROUND, self.temperature),
            )
        ]
        both[0] = both[0] * np.broadcast_to(self.area, count)[:, None]
        if not changing:
            return np.hstack(both)
        width = max(one.shape[1] for one in both)
        tables = [np.broadcast_to(one, (count, width)) for one in both]
        return np.hstack([np.c_[one, one.max(axis=1)] for one in tables])
