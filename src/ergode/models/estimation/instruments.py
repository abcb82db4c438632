"""What instruments measure of a position and velocity: functions ``h(y, t, p)``.

With light time, the state z at which light left is found in rounds from the distance q / c that it
took. Of the derivative of a range by the time of arrival, for a velocity v at z, unit vectors u and
w from the site at arrival and at departure, and velocities V and W of the site there,

    rate down = u (v - V) / (1 + u v / c),
    rate up = w (v - W) (1 - rate down / c) / (1 - w W / c).

T. D. Moyer, "Formulation for observed and computed values of Deep Space Network data types for
navigation" (2003), chapter 8, without relativity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.models.estimation.station import LightTime, Station

Function = Callable[..., tuple[Any, ...]]

_ROUNDS = 4  # of light time


@dataclass(frozen=True)
class View:
    """How an instrument sees a position."""

    position: Sequence[int]  # indices of variables
    site: Any  # coordinates at time 0, a Station, or None: the origin
    spin: float  # of the site, about the third axis
    light: LightTime | None
    bias: Any  # indices of variables that are added to the components; empty: none
    place: Any = field(init=False)  # coordinates of the site at time 0

    def __post_init__(self) -> None:
        _check_indices("position", self.position, None)
        if isinstance(self.site, Station) and self.spin:
            raise ModelError("spin is given beside a Station, which has its own")
        if self.light is not None and not isinstance(self.light, LightTime):
            raise ModelError(f"light is {self.light!r}; expected an ergode.LightTime")
        size = len(self.position)
        station = isinstance(self.site, Station)
        object.__setattr__(self, "spin", self.site.spin if station else self.spin)
        try:
            given = self.site.site if station else self.site
            place = np.zeros(size) if given is None else np.asarray(given, np.float64)
        except (TypeError, ValueError):
            place = np.zeros(0)
        if place.shape != (size,) or not np.isfinite(place).all():
            raise ModelError(
                f"site is {self.site!r}; expected {size} finite numbers, as position has"
            )
        spin: Any = self.spin
        if isinstance(spin, bool) or not isinstance(spin, int | float) or not math.isfinite(spin):
            raise ModelError(f"spin is {self.spin!r}; expected a finite number")
        object.__setattr__(self, "place", tuple(place.tolist()))
        if self.light is not None and max(self.position) >= len(self.light.field.variables):
            raise ModelError(
                f"position is {self.position!r}, but the field of the light time has "
                f"{len(self.light.field.variables)} variables"
            )

    @property
    def size(self) -> int:
        """Number of dimensions."""
        return len(self.position)

    @property
    def is_two_way(self) -> bool:
        """Whether light goes there and back."""
        return self.light is not None and self.light.two_way

    @property
    def state(self) -> str:
        """Name of the state at which light left."""
        return "y" if self.light is None else "z"

    def site_at(self, time: str, mark: str = "") -> tuple[list[str], list[str], list[str]]:
        """Lines of text, and the coordinates of the site and their derivatives at a time."""
        x, y, *rest = (repr(float(one)) for one in self.place)
        at, moves = [x, y, *rest], ["0.0"] * self.size
        if not self.spin:
            return [], at, moves
        w, c, s = repr(float(self.spin)), f"c{mark}", f"s{mark}"
        at[:2] = f"({x} * {c} - {y} * {s})", f"({x} * {s} + {y} * {c})"
        moves[:2] = f"(-{w} * {at[1]})", f"({w} * {at[0]})"
        return [f"{c}, {s} = math.cos({w} * {time}), math.sin({w} * {time})"], at, moves

    def away(self, name: str, state: str, at: Sequence[str]) -> list[str]:
        """Lines that set the vector from the site to the position of a state."""
        return [f"{name}{k} = {state}[{i}] - {at[k]}" for k, i in enumerate(self.position)]

    def lines(self) -> list[str]:
        """Lines that set the vector d from the site to the position where light left."""
        lines, at, _ = self.site_at("t")
        lines = lines + self.away("d", "y", at)
        if self.light is None:
            return lines
        for _ in range(_ROUNDS):
            lines.append(f"q = {self.length('d')} / {self.light.speed!r}")
            lines += ["z = earlier(y, t, p, q)", *self.away("d", "z", at)]
        if not self.light.two_way:
            return lines
        lines += [f"q = {self.length('d')} / {self.light.speed!r}", "r = q"]
        for _ in range(_ROUNDS):
            turned, then, _ = self.site_at("(t - q - r)", "1")
            lines += [*turned, *self.away("u", "z", then)]
            lines.append(f"r = {self.length('u')} / {self.light.speed!r}")
        return lines

    def length(self, name: str, count: int | None = None) -> str:
        """The length of a vector, or of its first components."""
        each = [f"{name}{k}" for k in range(count or self.size)]
        return f"math.sqrt({' + '.join(f'{one} * {one}' for one in each)})"

    def function(self, lines: Sequence[str], values: Sequence[str]) -> Function:
        """The function ``h(y, t, p)`` with these lines and values."""
        bias = self.bias
        if not isinstance(bias, tuple | list) or bias:
            _check_indices("bias", bias, len(values))
            values = [f"{value} + y[{k}]" for value, k in zip(values, bias, strict=True)]
        body = "".join(f"    {line}\n" for line in (*self.lines(), *lines))
        names: dict[str, Any] = {"math": math}
        if self.light is not None:
            names["earlier"] = _earlier(self.light)
        text = f"def h(y, t, p):\n{body}    return ({', '.join(values)},)\n"
        return function_from_text(text, names)


def range_of(view: View) -> Function:
    """Distance from the site; with light both ways, half of the way."""
    if view.is_two_way:
        return view.function([], [f"0.5 * ({view.length('d')} + {view.length('u')})"])
    return view.function([], [view.length("d")])


def range_rate_of(view: View, velocity: Sequence[int]) -> Function:
    """Derivative of the distance from the site by time."""
    _check_indices("velocity", velocity, view.size)
    turned, _, moves = view.site_at("t")
    lines = [f"v{k} = {view.state}[{i}] - {moves[k]}" for k, i in enumerate(velocity)]
    rate = f"({_product(view, 'd', 'v')}) / {view.length('d')}"
    if view.light is None:
        return view.function(lines, [rate])
    c = repr(float(view.light.speed))
    speed = [f"z[{i}]" for i in velocity]
    along = " + ".join(f"d{k} * {one}" for k, one in enumerate(speed))
    lines.append(f"down = {rate} / (1.0 + ({along}) / ({view.length('d')} * {c}))")
    if not view.light.two_way:
        return view.function(lines, ["down"])
    _, _, then = view.site_at("(t - q - r)", "1")
    lines += [f"w{k} = {one} - {then[k]}" for k, one in enumerate(speed)]
    moved = " + ".join(f"u{k} * {one}" for k, one in enumerate(then))
    far = view.length("u")
    lines.append(
        f"up = ({_product(view, 'u', 'w')}) / {far} * (1.0 - down / {c}) "
        f"/ (1.0 - ({moved}) / ({far} * {c}))"
    )
    return view.function(lines, ["0.5 * (down + up)"])


def direction_of(view: View) -> Function:
    """Azimuth about the third axis and, in space, elevation above the plane of the first two."""
    _one_way(view)
    azimuth = "math.atan2(d1, d0)"
    if view.size == 2:
        return view.function([], [azimuth])
    return view.function([], [azimuth, f"math.atan2(d2, {view.length('d', 2)})"])


def azimuth_elevation_of(view: View) -> Function:
    """Azimuth from the north towards the east, and elevation above the horizon."""
    _one_way(view)
    if view.size != 3:
        raise ModelError(f"position is {view.position!r}; expected three indices, of a place")
    up = np.array(view.site.up if isinstance(view.site, Station) else view.place)
    if not up[:2].any():
        raise ModelError(f"site is {view.site!r}; expected one away from the axis of the rotation")
    x, y, z = (repr(float(one)) for one in up / np.linalg.norm(up))
    level = repr(float(np.hypot(up[0], up[1]) / np.linalg.norm(up)))
    lines = [f"a, b = {x}, {y}"]
    if view.spin:
        lines = [f"a, b = {x} * c - {y} * s, {x} * s + {y} * c"]
    lines += [
        f"out = (d0 * a + d1 * b) / {level}",
        f"east = (d1 * a - d0 * b) / {level}",
        f"north = {level} * d2 - {z} * out",
        f"above = {level} * out + {z} * d2",
    ]
    flat = "math.sqrt(east * east + north * north)"
    return view.function(lines, ["math.atan2(east, north)", f"math.atan2(above, {flat})"])


def _one_way(view: View) -> None:
    if view.is_two_way:
        raise ModelError("light is two-way; expected light of one way for directions")


def _product(view: View, one: str, other: str) -> str:
    return " + ".join(f"{one}{k} * {other}{k}" for k in range(view.size))


def _earlier(light: LightTime) -> Function:
    """The state a time q before, by a step of the classical Runge-Kutta method."""
    each = range(len(light.field.variables))

    def after(slope: str, by: str) -> str:
        return f"({', '.join(f'y[{i}] - {by} * {slope}[{i}]' for i in each)},)"

    whole = ", ".join(f"y[{i}] - q / 6.0 * (a[{i}] + 2.0 * b[{i}] + 2.0 * c[{i}] + d[{i}])"
                      for i in each)  # fmt: skip
    text = (
        "def earlier(y, t, p, q):\n"
        "    a = f(t, y, p)\n"
        f"    b = f(t - 0.5 * q, {after('a', '0.5 * q')}, p)\n"
        f"    c = f(t - 0.5 * q, {after('b', '0.5 * q')}, p)\n"
        f"    d = f(t - q, {after('c', 'q')}, p)\n"
        f"    return ({whole},)\n"
    )
    return function_from_text(text, {"f": light.field.function})


def _check_indices(name: str, value: Any, size: int | None) -> None:
    """Refuse what is not `size` different indices of variables; None: two or three."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    whole = is_list and all(
        isinstance(one, int | np.integer) and not isinstance(one, bool) and one >= 0
        for one in value
    )
    sizes = (2, 3) if size is None else (size,)
    if not whole or len(set(value)) != len(value) or len(value) not in sizes:
        raise ModelError(
            f"{name} is {value!r}; expected {' or '.join(map(str, sizes))} different indices of "
            f"variables, such as {tuple(range(sizes[0]))}"
        )
