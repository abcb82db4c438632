"""Stations on a turning ellipsoid, and the time that light takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ergode.core.arguments import is_finite_number
from ergode.core.errors import ModelError
from ergode.models.fields.vector_field import VectorField, check_field


@dataclass(frozen=True)
class Station:
    """A station on the turning Earth, or another body, as the `site` of an instrument.

    The axes of the state are inertial, and the third is that of the rotation.

    Parameters
    ----------
    latitude, longitude : float
        Geodetic latitude, and longitude towards the east [rad].
    height : float
        Above the ellipsoid, in the unit of `radius`.
    radius, flattening : float
        Equatorial radius and flattening of the ellipsoid; the default is WGS 84, in km.
    spin : float
        Angular speed of the body [rad/time]; the default is that of the Earth, per second.
    sidereal_angle : float
        Angle from the first axis to the meridian of longitude zero, at time 0 [rad]; for the Earth,
        Greenwich sidereal time.

    Raises
    ------
    ModelError
        Something is not a finite number, the latitude is beyond a pole, or there is no such body.

    Examples
    --------
    >>> import ergode, math
    >>> station = ergode.Station(math.radians(90), 0.0)
    >>> [round(x, 3) for x in station.site]
    [0.0, 0.0, 6356.752]
    """

    latitude: float
    longitude: float
    height: float = 0.0
    radius: float = 6378.137
    flattening: float = 1.0 / 298.257223563
    spin: float = 7.292115e-5
    sidereal_angle: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not is_finite_number(value):
                raise ModelError(f"{name} of a station is {value!r}; expected a finite number")
        if not (self.radius > 0 and 0 <= self.flattening < 1 and self.height > -self.radius):
            raise ModelError(
                f"radius, flattening and height of a station are {self.radius:g}, "
                f"{self.flattening:g} and {self.height:g}; expected a positive radius, flattening "
                "from 0 to below 1, and a height above the centre"
            )
        if abs(self.latitude) > math.pi / 2 * (1 + 1e-12):
            raise ModelError(
                f"latitude of a station is {self.latitude:g}; expected radians, -pi/2 to pi/2"
            )

    @property
    def up(self) -> tuple[float, float, float]:
        """The vertical at time 0."""
        turned, level = self.longitude + self.sidereal_angle, math.cos(self.latitude)
        return level * math.cos(turned), level * math.sin(turned), math.sin(self.latitude)

    @property
    def site(self) -> tuple[float, float, float]:
        """Coordinates at time 0."""
        x, y, z = self.up
        square = self.flattening * (2.0 - self.flattening)  # of the eccentricity
        across = self.radius / math.sqrt(1.0 - square * z * z)
        out = across + self.height
        return out * x, out * y, (across * (1.0 - square) + self.height) * z


@dataclass(frozen=True, eq=False)
class LightTime:
    """The time that light takes from a position to a site, or from the site there and back.

    A value measured at a time is that of light which arrives then. The state at which it left is
    found by a step of the classical Runge-Kutta method along the field, back by the time of light,
    in four rounds, which leave a relative error of the fifth power of the velocity over the speed.
    Maneuvers and noise on the way are left out. Stellar aberration, refraction and
    relativity are not part of it.

    Parameters
    ----------
    speed : float
        Of light, in the units of the state: 299792.458 for km and s.
    field : VectorField
        That of the density, without delays and noise.
    two_way : bool
        Whether a signal leaves the site, is reflected or repeated without delay, and comes back. A
        range is then half of the way, and a rate its derivative by the time of arrival.

    Raises
    ------
    ModelError
        The speed is not positive, or the field has delays or arrays.

    Examples
    --------
    >>> import ergode
    >>> def kepler(t, y, p):
    ...     r3 = (y[0] * y[0] + y[1] * y[1]) ** 1.5
    ...     return y[2], y[3], -398600.4418 * y[0] / r3, -398600.4418 * y[1] / r3
    >>> field = ergode.VectorField(kepler, ["x", "y", "vx", "vy"])
    >>> light = ergode.LightTime(299792.458, field, two_way=True)
    >>> seen = ergode.Measurement.range(0.0, 35790.0, 1e-4, position=(0, 1), light=light)
    """

    speed: float
    field: VectorField
    two_way: bool = False

    def __post_init__(self) -> None:
        if not (is_finite_number(self.speed) and self.speed > 0):
            raise ModelError(f"speed of light is {self.speed!r}; expected a positive number")
        check_field(self.field)
        self.field.refuse_arrays("a light time")
        self.field.refuse_inputs("a light time")
        if self.field.delays:
            raise ModelError("the field of a light time has delays; expected one without")
