"""Vector fields of the literature, ready to use.

A function of the module makes each field, such as ``ergode.fields.lorenz63()``. Parameters are
given where the field is used: ``parameters={"sigma": 4, "b": 1, "r": 48}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ergode.core.errors import ModelError
from ergode.core.inputs import remembered
from ergode.models.fields.vector_field import VectorField


def _lorenz63(t: Any, y: Any, p: Any) -> Any:
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]


def _lorenz63_centred(t: Any, y: Any, p: Any) -> Any:
    return (
        p[0] * (y[1] - y[0]),
        -y[1] - y[0] * y[2],
        -p[1] * (y[2] + p[2]) + y[0] * y[1],
    )


def _two_body(t: Any, y: Any, p: Any) -> Any:
    r2 = y[0] * y[0] + y[1] * y[1] + y[2] * y[2]
    pull = -p[0] / (r2 * r2**0.5)
    return y[3], y[4], y[5], pull * y[0], pull * y[1], pull * y[2]


def _planar_three_body(t: Any, y: Any, p: Any) -> Any:
    from_first = y[0] + p[0]
    from_second = from_first - 1
    r1 = from_first * from_first + y[1] * y[1]
    r2 = from_second * from_second + y[1] * y[1]
    first = (1 - p[0]) / (r1 * r1**0.5)
    second = p[0] / (r2 * r2**0.5)
    return (
        y[2],
        y[3],
        2 * y[3] + y[0] - first * from_first - second * from_second,
        -2 * y[2] + y[1] - (first + second) * y[1],
    )


def _three_body(t: Any, y: Any, p: Any) -> Any:
    from_first = y[0] + p[0]
    from_second = from_first - 1
    rest = y[1] * y[1] + y[2] * y[2]
    r1 = from_first * from_first + rest
    r2 = from_second * from_second + rest
    first = (1 - p[0]) / (r1 * r1**0.5)
    second = p[0] / (r2 * r2**0.5)
    return (
        y[3],
        y[4],
        y[5],
        2 * y[4] + y[0] - first * from_first - second * from_second,
        -2 * y[3] + y[1] - (first + second) * y[1],
        -(first + second) * y[2],
    )


def _duffing(t: Any, y: Any, p: Any) -> Any:
    return y[1], -p[0] * y[1] - p[1] * y[0] - p[2] * y[0] ** 3


def _van_der_pol(t: Any, y: Any, p: Any) -> Any:
    return y[1], p[0] * (1 - y[0] * y[0]) * y[1] - y[0]


def _pendulum(t: Any, y: Any, p: Any) -> Any:
    return y[1], -p[0] * math.sin(y[0]) - p[1] * y[1]


def _rotation(t: Any, y: Any, p: Any) -> Any:
    return -p[0] * y[1], p[0] * y[0]


def _ornstein_uhlenbeck(t: Any, y: Any, p: Any) -> Any:
    return (-p[0] * (y[0] - p[1]),)


@remembered
def lorenz63(*, centred: bool = False) -> VectorField:
    """Lorenz's model of convection, chaotic at sigma = 10, rho = 28, beta = 8/3.

    With `centred` the third variable is shifted (z = z' + r + sigma), as in the literature on
    sparse grids. The parameters are then sigma, b and r; it is chaotic at 4, 1 and 48.

    References
    ----------
    E. N. Lorenz, "Deterministic nonperiodic flow", J. Atmos. Sci. 20 (1963).

    Examples
    --------
    >>> import ergode
    >>> ergode.fields.lorenz63().parameters
    ('sigma', 'rho', 'beta')
    """
    if centred:
        return VectorField(_lorenz63_centred, ["x", "y", "z"], ["sigma", "b", "r"])
    return VectorField(_lorenz63, ["x", "y", "z"], ["sigma", "rho", "beta"])


@lru_cache(maxsize=64)
@remembered
def lorenz96(variable_count: int) -> VectorField:
    """The Lorenz-96 ring of variables with constant forcing, chaotic at a force of about 8.

    x_j' = (x_{j+1} - x_{j-2}) x_{j-1} - x_j + force

    Parameters
    ----------
    variable_count : int
        Number of variables on the ring, 4 or more.

    References
    ----------
    E. N. Lorenz, "Predictability: a problem partly solved", ECMWF (1996).
    """
    if isinstance(variable_count, bool) or not isinstance(variable_count, int):
        raise ModelError(f"variable_count is {variable_count!r}; expected a whole number")
    if variable_count < 4:
        raise ModelError(f"variable_count is {variable_count}; the ring has 4 variables or more")
    n = variable_count

    def ring(t: Any, y: Any, p: Any) -> Any:
        return tuple(
            (y[(j + 1) % n] - y[(j + n - 2) % n]) * y[(j + n - 1) % n] - y[j] + p[0]
            for j in range(n)
        )

    return VectorField(ring, [f"x{j + 1}" for j in range(n)], ["force"])


@remembered
def planar_three_body() -> VectorField:
    """The planar circular restricted three-body problem, in the rotating frame.

    The unit of length is the distance of the two bodies, the unit of time their period over 2 pi.
    `mu` is the smaller mass as a fraction of the total mass; this body is at (1 - mu, 0).

    References
    ----------
    V. Szebehely, "Theory of Orbits" (1967), chapter 1.
    """
    return VectorField(_planar_three_body, ["x", "y", "vx", "vy"], ["mu"])


@remembered
def three_body() -> VectorField:
    """The circular restricted three-body problem in space; see `planar_three_body`."""
    return VectorField(_three_body, ["x", "y", "z", "vx", "vy", "vz"], ["mu"])


@remembered
def two_body() -> VectorField:
    """The Kepler problem: a body around a centre with the gravitational parameter `mu`."""
    return VectorField(_two_body, ["x", "y", "z", "vx", "vy", "vz"], ["mu"])


def planar_jacobi_constant(y: Any, t: Any, p: Any) -> Any:
    """Jacobi's constant of the planar problem, as `conserved` takes it."""
    from_first = y[0] + p[0]
    from_second = from_first - 1
    r1 = (from_first * from_first + y[1] * y[1]) ** 0.5
    r2 = (from_second * from_second + y[1] * y[1]) ** 0.5
    speed = y[2] * y[2] + y[3] * y[3]
    return (y[0] * y[0] + y[1] * y[1] + 2 * (1 - p[0]) / r1 + 2 * p[0] / r2 - speed,)


def planar_ranging(y: Any, t: Any, p: Any) -> Any:
    """Range, bearing and range rate from the smaller body, as `Measurement` takes them.

    The bearing, component 1, is an angle: give ``angles=[1]``.
    """
    x = y[0] - 1 + p[0]
    distance = (x * x + y[1] * y[1]) ** 0.5
    return distance, math.atan2(y[1], x), (x * y[2] + y[1] * y[3]) / distance


def jacobi_constant(y: Any, t: Any, p: Any) -> Any:
    """Jacobi's constant of the problem in space, as `conserved` takes it."""
    from_first = y[0] + p[0]
    from_second = from_first - 1
    rest = y[1] * y[1] + y[2] * y[2]
    r1 = (from_first * from_first + rest) ** 0.5
    r2 = (from_second * from_second + rest) ** 0.5
    speed = y[3] * y[3] + y[4] * y[4] + y[5] * y[5]
    return (y[0] * y[0] + y[1] * y[1] + 2 * (1 - p[0]) / r1 + 2 * p[0] / r2 - speed,)


@remembered
def duffing() -> VectorField:
    """Duffing's oscillator: x'' = -damping x' - stiffness x - hardening x^3."""
    return VectorField(_duffing, ["x", "v"], ["damping", "stiffness", "hardening"])


@remembered
def van_der_pol() -> VectorField:
    """Van der Pol's oscillator: x'' = damping (1 - x^2) x' - x."""
    return VectorField(_van_der_pol, ["x", "v"], ["damping"])


@remembered
def pendulum() -> VectorField:
    """A pendulum: angle'' = -stiffness sin(angle) - damping angle' [rad]."""
    return VectorField(_pendulum, ["angle", "rate"], ["stiffness", "damping"])


@remembered
def rotation() -> VectorField:
    """Rigid rotation of the plane, at the angular rate `rate` [rad / time]."""
    return VectorField(_rotation, ["x", "y"], ["rate"])


@remembered
def ornstein_uhlenbeck() -> VectorField:
    """Relaxation to a mean: y' = -rate (y - mean); with noise, the Ornstein-Uhlenbeck process."""
    return VectorField(_ornstein_uhlenbeck, ["y"], ["rate", "mean"])


ALL: tuple[Callable[..., VectorField], ...] = (
    lorenz63, lorenz96, planar_three_body, three_body, two_body, duffing, van_der_pol,
    pendulum, rotation, ornstein_uhlenbeck,
)  # fmt: skip
