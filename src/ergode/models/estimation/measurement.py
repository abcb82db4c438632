"""Measurements of a state at one time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, is_finite_number, sequence, within_rounding
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.devices.foreign import on_host
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.estimation.covariances import covariance_of
from ergode.models.estimation.instruments import (
    View,
    azimuth_elevation_of,
    direction_of,
    range_of,
    range_rate_of,
)
from ergode.models.estimation.station import LightTime
from ergode.models.fields.functions import check_function
from ergode.models.fields.vector_field import VectorField


@dataclass(frozen=True, eq=False)
class Measurement(HoldsFunctions):
    """A measurement of a function of the state, with Gaussian noise or any likelihood.

    Parameters
    ----------
    time : float
        When [time].
    h : function
        ``h(y, t, p)`` returns a tuple: the measurement without noise. It is plain arithmetic on
        single numbers, compiled like a vector field. ``y`` and ``p`` are indexed in the order of
        the field's variables and parameters.
    value : array_like, shape [component_count]
        Measured values; one number if `h` returns one. Shape [filter_count, component_count] gives
        each of several densities its own values; NaN there is what was not measured.
    covariance : array_like, shape [component_count, component_count] or [component_count]
        Covariance of the noise, or variances of independent components. Shape
        [filter_count, component_count, component_count] gives each density its own covariance.
    angles : sequence of int
        Components that are angles [rad]: differences are wrapped to -pi to pi.
    likelihood : function, optional
        Instead of `h`, `value` and `covariance`: ``likelihood(y, t, p)`` that returns a tuple with
        the logarithm of the likelihood of what was measured, up to a constant. Where it is not a
        number, or infinite, the likelihood counts as zero, and a warning says where.
    degrees_of_freedom : float, optional
        Of noise with Student's distribution, whose tails forgive outliers: few are robust, many are
        Gaussian. The noise is then ``sqrt(covariance)`` times a standard variable of this
        distribution; its own covariance is larger by ``n / (n - 2)``, for more than 2. Components
        of one measurement share their outliers: give those that fail alone as two measurements.
    gate : float, optional
        Largest distance of a value from what the density expects, in deviations (the root of the
        normalised innovation squared, by mean and covariance of `h` over the density, and the
        `covariance` of the noise). A value that is farther away is left out, as if it were missing:
        the log evidence is zero. The result has ``innovation_distance`` and ``left_out``. A share p
        of n Gaussian components is within ``sqrt(scipy.stats.chi2.ppf(p, n))``.

    Raises
    ------
    ModelError
        Something is missing, or shapes do not match.

    References
    ----------
    M. Roth, E. Ozkan, F. Gustafsson, "A Student's t filter for heavy tailed process and measurement
    noise", ICASSP (2013); Y. Bar-Shalom, T. E. Fortmann, "Tracking and Data Association" (1988),
    for gates.

    Examples
    --------
    >>> import ergode
    >>> def height(y, t, p):
    ...     return (y[2],)
    >>> ergode.Measurement(1.0, height, -8.0, 1.0).value
    array([-8.])
    """

    time: float
    h: Callable[..., tuple[Any, ...]] | None = None
    value: Any = None
    covariance: Any = None
    angles: Sequence[int] = ()
    likelihood: Callable[..., tuple[Any, ...]] | None = None
    degrees_of_freedom: float | None = None
    gate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            time = float(self.time)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"time of a measurement is {self.time!r}; expected a number") from None
        if not np.isfinite(time):
            raise ModelError(f"time of a measurement is {time}; expected a finite number")
        object.__setattr__(self, "time", time)
        if self.likelihood is not None:
            if any(one is not None for one in (self.h, self.value, self.covariance, *self._robust)):
                raise ModelError(
                    "a measurement has a likelihood and h, value, covariance, degrees_of_freedom "
                    "or gate; give the likelihood, or the others"
                )
            return
        if self.h is None or self.value is None or self.covariance is None:
            raise ModelError("a measurement needs h, value and covariance, or else a likelihood")
        if (value := as_numbers(self.value)) is None:
            raise ModelError(f"value of a measurement is {self.value!r}; expected real numbers")
        value = np.atleast_1d(value)
        known = np.isfinite(value) | (np.isnan(value) & (value.ndim == 2))
        if value.ndim > 2 or value.size == 0 or not known.all():
            raise ModelError(
                f"value of a measurement is {self.value!r}; expected a list of finite numbers, or "
                "a row of them for each of several densities (NaN there is not measured)"
            )
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "covariance", self._covariance())
        angles = tuple(self.angles)
        for index in angles:
            if not isinstance(index, int) or not 0 <= index < self.component_count:
                raise ModelError(
                    f"angles of a measurement has {index!r}; expected components, 0 to "
                    f"{self.component_count - 1}"
                )
        object.__setattr__(self, "angles", angles)
        for name, one in zip(("degrees_of_freedom", "gate"), self._robust, strict=True):
            no_limit = name == "gate" and one == np.inf
            if one is not None and not no_limit and not (is_finite_number(one) and one > 0):
                raise ModelError(f"{name} of a measurement is {one!r}; expected a positive number")

    @property
    def _robust(self) -> tuple[float | None, float | None]:
        return self.degrees_of_freedom, self.gate

    @property
    def is_gaussian(self) -> bool:
        """Whether the likelihood is Gaussian in what `h` returns."""
        return self.likelihood is None and self.degrees_of_freedom is None

    @classmethod
    def range(
        cls, time: float, value: Any, covariance: Any, *, position: Sequence[int],
        site: Any = None, spin: float = 0.0, light: LightTime | None = None,
        bias: Sequence[int] = (), degrees_of_freedom: float | None = None,
        gate: float | None = None,
    ) -> Measurement:  # fmt: skip
        """The distance between a site and a position.

        Parameters
        ----------
        time : float
            When [time].
        value, covariance, degrees_of_freedom, gate
            As of a `Measurement` with one component.
        position : sequence of int
            Indices of the two or three variables that are the position.
        site : array_like or Station, optional
            Coordinates of the site, or a station on a turning body; the default is the origin.
        spin : float
            Angular speed of the site about the third axis, such as the rotation of the Earth, from
            its coordinates at time 0 [rad/time]. A station has its own.
        light : LightTime, optional
            The time that light takes, one way or both. By default it is none.
        bias : sequence of int
            Indices of variables that are added to the components: an offset of the instrument, as a
            variable whose derivative is zero.

        Raises
        ------
        ModelError
            An argument is invalid.

        Examples
        --------
        >>> import ergode
        >>> seen = ergode.Measurement.range(0.5, 3.0, 0.01, position=(0, 1), site=(1.0, 0.0))
        >>> seen.h((1.0, 2.0), 0.5, ())
        (2.0,)
        """
        view = View(position, site, spin, light, bias)
        _check_count("range", value, ["distance"])
        return cls(
            time, range_of(view), value, covariance,
            degrees_of_freedom=degrees_of_freedom, gate=gate,
        )  # fmt: skip

    @classmethod
    def range_rate(
        cls, time: float, value: Any, covariance: Any, *, position: Sequence[int],
        velocity: Sequence[int],
        site: Any = None, spin: float = 0.0, light: LightTime | None = None,
        bias: Sequence[int] = (), degrees_of_freedom: float | None = None,
        gate: float | None = None,
    ) -> Measurement:  # fmt: skip
        """The derivative by time of the distance from a site, as a Doppler shift gives it.

        Parameters
        ----------
        time, value, covariance, position, site, spin, light, bias, degrees_of_freedom, gate
            As for `range`.
        velocity : sequence of int
            Indices of the variables that are the velocity.

        Raises
        ------
        ModelError
            An argument is invalid.

        Examples
        --------
        >>> import ergode
        >>> seen = ergode.Measurement.range_rate(
        ...     0.0, 1.0, 0.01, position=(0, 1), velocity=(2, 3), site=(0.0, -1.0)
        ... )
        >>> seen.h((0.0, 2.0, 5.0, 0.5), 0.0, ())
        (0.5,)
        """
        view = View(position, site, spin, light, bias)
        _check_count("range_rate", value, ["rate"])
        return cls(
            time, range_rate_of(view, velocity), value, covariance,
            degrees_of_freedom=degrees_of_freedom, gate=gate,
        )  # fmt: skip

    @classmethod
    def direction(
        cls, time: float, value: Any, covariance: Any, *, position: Sequence[int],
        site: Any = None, spin: float = 0.0, light: LightTime | None = None,
        bias: Sequence[int] = (), degrees_of_freedom: float | None = None,
        gate: float | None = None,
    ) -> Measurement:  # fmt: skip
        """Azimuth and elevation of a position, seen from a site; in a plane the bearing alone.

        With a site at the origin of an equatorial system these are right ascension and declination.

        Parameters
        ----------
        time, position, site, spin, light, bias, degrees_of_freedom, gate
            As for `range`; light of one way.
        value : array_like, shape [2] or [1]
            Azimuth from the first axis towards the second, and elevation towards the third [rad].
        covariance : array_like
            Of these [rad^2].

        Raises
        ------
        ModelError
            An argument is invalid.

        Examples
        --------
        >>> import ergode
        >>> seen = ergode.Measurement.direction(0.0, [1.5, 0.1], [1e-4, 1e-4], position=(0, 1, 2))
        >>> seen.angles
        (0,)
        """
        view = View(position, site, spin, light, bias)
        _check_count("direction", value, ["azimuth", "elevation"][: len(view.position) - 1])
        return cls(
            time, direction_of(view), value, covariance, angles=(0,),
            degrees_of_freedom=degrees_of_freedom, gate=gate,
        )  # fmt: skip

    @classmethod
    def azimuth_elevation(
        cls, time: float, value: Any, covariance: Any, *, position: Sequence[int],
        site: Any = None, spin: float = 0.0, light: LightTime | None = None,
        bias: Sequence[int] = (), degrees_of_freedom: float | None = None,
        gate: float | None = None,
    ) -> Measurement:  # fmt: skip
        """Azimuth and elevation of a position above the horizon of a site.

        Parameters
        ----------
        time, position, site, spin, light, bias, degrees_of_freedom, gate
            As for `range`; light of one way. The vertical of a `Station` is that of its ellipsoid,
            and that of coordinates is the line from the origin.
        value : array_like, shape [2]
            Azimuth from the north, along the third axis, towards the east, and elevation [rad].
        covariance : array_like
            Of these [rad^2].

        Raises
        ------
        ModelError
            An argument is invalid.

        Examples
        --------
        >>> import ergode, math
        >>> station = ergode.Station(math.radians(52.5), math.radians(13.4))
        >>> seen = ergode.Measurement.azimuth_elevation(
        ...     60.0, [1.2, 0.4], [1e-6, 1e-6], position=(0, 1, 2), site=station
        ... )
        """
        view = View(position, site, spin, light, bias)
        _check_count("azimuth_elevation", value, ["azimuth", "elevation"])
        return cls(
            time, azimuth_elevation_of(view), value, covariance, angles=(0,),
            degrees_of_freedom=degrees_of_freedom, gate=gate,
        )  # fmt: skip

    def _covariance(self) -> np.ndarray:
        what = "covariance of a measurement"
        size, given = self.component_count, on_host(self.covariance)
        if np.ndim(given) < 3:
            return covariance_of(given, size, what)
        if len(given) == 0:
            raise ModelError(f"{what} is empty; expected one or more")
        if self.value.ndim == 2 and len(given) != len(self.value):
            raise ModelError(
                f"a measurement has {counted(len(self.value), 'value')} and "
                f"{counted(len(given), 'covariance')}; "
                "expected one covariance, or one for each value"
            )
        return np.stack([covariance_of(one, size, what) for one in given])

    @property
    def component_count(self) -> int:
        """Number of measured components; one for a likelihood."""
        return 1 if self.likelihood is not None else int(self.value.shape[-1])

    @property
    def side_by_side(self) -> int | None:
        """Number of densities with their own value or covariance; None if all share one."""
        if self.likelihood is None:
            if self.value.ndim == 2:
                return len(self.value)
            if self.covariance.ndim == 3:
                return len(self.covariance)
        return None

    def of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, covariances, and which components are missing, of densities by their `places`.

        Shapes are [density, component], with another component for covariances. A missing value is
        zero, and its noise apart from that of others, with a density of one at zero.
        """
        shape = (len(places), self.component_count)
        value, noise = self.value, self.covariance
        value = value[places] if value.ndim == 2 else np.broadcast_to(value, shape)
        noise = noise[places] if noise.ndim == 3 else np.broadcast_to(noise, (*shape, shape[1]))
        missing = np.isnan(value)
        if missing.any():
            apart = missing[:, :, None] | missing[:, None, :]
            unit = np.eye(shape[1]) / (2.0 * np.pi)
            value, noise = np.where(missing, 0.0, value), np.where(apart, unit, noise)
        return value, noise, missing

    def without(self, left_out: np.ndarray, places: np.ndarray) -> tuple[Measurement, np.ndarray]:
        """The same for densities by their `places`, without values where `left_out`, and places."""
        if not left_out.any():
            return self, places
        value, _, missing = self.of(places)
        value = np.where(missing | left_out[:, None], np.nan, value)
        noise = self.covariance[places] if self.covariance.ndim == 3 else self.covariance
        return replace(self, value=value, covariance=noise), np.arange(len(places))

    def check(self, variable_count: int, parameter_count: int) -> None:
        """Refuse a function that cannot be compiled for a field of this size."""
        arguments = {"y": variable_count, "t": None, "p": parameter_count}
        if self.likelihood is not None:
            check_function(self.likelihood, arguments, ["likelihood"], "likelihood")
        else:
            components = [f"component {i}" for i in range(self.component_count)]
            check_function(self.h, arguments, components, "h")


def in_order(measurements: Any, field: VectorField, times: np.ndarray) -> list[Measurement]:
    """Measurements sorted by time, each valid for a field and within the times of a run.

    Raises a ModelError if one is not a measurement, or does not fit; the message says which.
    """
    found = within_times("measurements", measurements, Measurement, times)
    for one in found:
        one.check(len(field.variables), len(field.parameters))
    return sorted(found, key=lambda one: one.time)


def within_times(argument: str, given: Any, kind: type[Any], times: np.ndarray) -> list[Any]:
    """The measurements, or maneuvers, of an argument: one or several.

    Raises a ModelError if one has another type, or is not within the times of a run.
    """
    found = sequence(argument, [given] if isinstance(given, kind) else given, kind.__name__)
    for number, one in enumerate(found):
        if not isinstance(one, kind):
            raise ModelError(f"{argument}[{number}] is {one!r}; expected a {kind.__name__}")
        time = float(within_rounding(one.time, times[0], times[-1]))
        if time != one.time:
            found[number] = one = replace(one, time=time)
        if not times[0] <= time <= times[-1]:
            raise ModelError(
                f"{argument}[{number}] is at time {one.time:.12g}; expected one from "
                f"{times[0]:.12g} to {times[-1]:.12g}, the times of the run"
            )
    return found


def _check_count(instrument: str, value: Any, components: list[str]) -> None:
    """Refuse a value of an instrument with other components than these."""
    try:
        shape = np.shape(on_host(value))
    except ValueError:  # rows of other lengths, which are refused later
        return
    if (shape[-1] if shape else 1) != len(components):
        wanted = f"{counted(len(components), 'number')} ({' and '.join(components)})"
        raise ModelError(
            f"value of {instrument} has shape {shape}; expected {wanted}, or a row of them for "
            "each of several densities"
        )
