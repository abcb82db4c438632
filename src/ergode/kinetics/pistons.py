"""Pistons: walls that the pressure of a zone moves.

With the area A_0 and the volume V_0 at the first time, and a = A_0 / V_0, a piston moves outward
with the speed v:

    V' / V_0 = a g v,    v = K (p - p_out)                    by its mobility K,
    V' / V_0 = a g v,    s v' = g (p - p_out)                 by its mass over its area, s,

where g is the area over that at first: 1 for a plane, and (V / V_0)^(2/3) for a sphere. A zone does
the work p V', so that

    U + p_out V + (s A_0 / 2) v^2

is constant in a zone without heat or mobility. Kernels integrate V / V_0 and v over the speed
sqrt(p_0 / (s a)), where p_0 is the pressure at first (see `implicit.motion`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import choice
from ergode.core.errors import ModelError
from ergode.kinetics.compositions import by_zone, check_signs
from ergode.kinetics.tables import INERT, MOBILE

_POWERS = {"plane": 0.0, "sphere": 2.0 / 3.0}
_FIELDS = ("area", "outer_pressure", "mobility", "mass_per_area", "velocity")


@dataclass(frozen=True, eq=False)
class Piston:
    """A piston or a shell, which the pressure of the zone moves against an outer pressure.

    It is the `volume` of zones with ``heating="given-volume"``. It has a mobility or a mass.

    Parameters
    ----------
    area : float or array_like of shape [zone_count]
        Area of the piston over the volume of the zone, at the first time [1/cm]: 3 over the radius
        of a sphere.
    outer_pressure : float or array_like of shape [zone_count]
        Constant pressure on the other side [dyn/cm2]; 0 is a vacuum.
    mobility : float or array_like of shape [zone_count], optional
        Speed over the difference of pressures [cm3/(dyn s)]. 1 m/(s Pa), as of Cantera's
        ``Wall.expansion_rate_coeff``, is 10. With 0 the piston stands still.
    mass_per_area : float or array_like of shape [zone_count], optional
        Mass over the area at the first time [g/cm2]. Of a homogeneous sphere of the density rho and
        the radius R, whose own mass moves, it is rho R / 5.
    velocity : float or array_like of shape [zone_count]
        Outward, at the first time [cm/s]; for a piston with a mass.
    shape : {"plane", "sphere"}
        Whether the area stays, or is that of a sphere of the changing volume.

    Examples
    --------
    A piston of 1 kg on 10 cm2 and 1 litre of argon.

    >>> import ergode
    >>> row = (2.5, 0, 0, 0, 0, -745.0, 4.37)
    >>> argon = ergode.NasaPolynomials(row, row, 1000.0, {"Ar": 1})
    >>> gas = ergode.ReactionNetwork([ergode.Species("AR", thermochemistry=argon)], [])
    >>> piston = ergode.kinetics.Piston(0.01, outer_pressure=1e6, mass_per_area=100.0)
    >>> found = ergode.kinetics.integrate(
    ...     gas, times=[0, 0.01], initial={"AR": 1.0}, temperature=300.0, pressure=2e6,
    ...     heating="given-volume", volume=piston, device="cpu",
    ... )
    >>> x, hot = found["volume_ratio"][0, -1].item(), found["temperature"][0, -1].item()
    >>> bool(abs(hot * x ** (2 / 3) / 300 - 1) < 1e-3)  # adiabatic
    True
    """

    area: np.ndarray
    outer_pressure: np.ndarray
    mobility: np.ndarray | None
    mass_per_area: np.ndarray | None
    velocity: np.ndarray
    shape: Literal["plane", "sphere"]

    def __init__(
        self,
        area: ArrayLike,
        outer_pressure: ArrayLike,
        *,
        mobility: ArrayLike | None = None,
        mass_per_area: ArrayLike | None = None,
        velocity: ArrayLike = 0.0,
        shape: Literal["plane", "sphere"] = "plane",
    ) -> None:
        if (mobility is None) == (mass_per_area is None):
            given = "neither is given" if mobility is None else "both are given"
            raise ModelError(
                f"a piston has a mobility or a mass_per_area, and {given}; expected one of them"
            )
        choice("shape", shape, _POWERS, error=ModelError)
        object.__setattr__(self, "shape", shape)
        for name, value, may_vanish in (
            ("area", area, False),
            ("outer_pressure", outer_pressure, True),
            ("mobility", mobility, True),
            ("mass_per_area", mass_per_area, False),
        ):
            rows = None
            if value is not None:
                rows = by_zone(f"{name} of the piston", value)
                check_signs(f"{name} of the piston", rows, may_vanish=may_vanish)
            object.__setattr__(self, name, rows)
        speed = by_zone("velocity of the piston", velocity)
        if not np.isfinite(speed).all():
            raise ModelError(f"velocity of the piston is {velocity!r}; expected finite numbers")
        if mobility is not None and speed.any():
            raise ModelError(
                "velocity is given, and the piston has a mobility: its speed follows from the "
                "pressure; leave it out, or give a mass_per_area"
            )
        object.__setattr__(self, "velocity", speed)

    @property
    def moving(self) -> int:
        """`MOBILE` or `INERT`."""
        return MOBILE if self.mass_per_area is None else INERT

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by the name of what has them."""
        every = {name: getattr(self, name) for name in _FIELDS}
        return {f"{name} of the piston": a.size for name, a in every.items() if a is not None}

    def part(self, start: int, stop: int) -> Piston:
        """The pistons of some of the zones."""

        def cut(value: Any) -> Any:
            return value[start:stop] if value is not None and value.size > 1 else value

        return Piston(
            cut(self.area), cut(self.outer_pressure), mobility=cut(self.mobility),
            mass_per_area=cut(self.mass_per_area), velocity=cut(self.velocity), shape=self.shape,
        )  # fmt: skip

    def rows(self, pressure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What kernels know of the pistons (see `ConditionHistory.motion`), and their variables.

        Parameters
        ----------
        pressure : ndarray, shape [zone_count]
            At first [dyn/cm2].

        Returns
        -------
        tuple of ndarray
            Shapes [zone_count, 5] and [zone_count, 1 or 2].
        """
        count, variables = len(pressure), [np.ones(len(pressure))]
        if self.mass_per_area is None:
            unit = self.mobility * pressure
        else:
            unit = np.sqrt(pressure / (self.mass_per_area * self.area))
            variables.append(np.broadcast_to(self.velocity / unit, count))
        power = np.array(_POWERS[self.shape])
        table = self.area * unit, self.outer_pressure / pressure, pressure, power, unit
        rows = np.stack([np.broadcast_to(one, count) for one in table], axis=1)
        return rows, np.stack(variables, axis=1)


def motion_of(
    motion: np.ndarray, variables: np.ndarray, pressure: np.ndarray
) -> dict[str, np.ndarray]:
    """Variables of the result, shape [zone, time].

    Parameters
    ----------
    motion : ndarray, shape [zone_count, 5]
    variables : ndarray, shape [zone_count, time_count, 1 or 2]
        Of `Piston.rows`, over time.
    pressure : ndarray, shape [zone_count, time_count]
    """
    _, outside, first, _, unit = motion.T[:, :, None]
    speed = pressure / first - outside if variables.shape[2] == 1 else variables[:, :, 1]
    return {"volume_ratio": variables[:, :, 0].copy(), "piston_velocity": unit * speed}
