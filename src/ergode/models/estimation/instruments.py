"""What instruments measure of a position and velocity: functions ``h(y, t, p)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError

Function = Callable[..., tuple[Any, ...]]


def range_of(position: Sequence[int], site: Any, spin: float) -> Function:
    """Distance from the site."""
    lines, away, _ = _from_site(position, None, site, spin)
    return _function(lines, f"({_length(away)},)")


def range_rate_of(
    position: Sequence[int], velocity: Sequence[int], site: Any, spin: float
) -> Function:
    """Derivative of the distance from the site by time."""
    lines, away, speed = _from_site(position, velocity, site, spin)
    along = " + ".join(f"{one} * {rate}" for one, rate in zip(away, speed, strict=True))
    return _function(lines, f"(({along}) / {_length(away)},)")


def angles_of(position: Sequence[int], site: Any, spin: float) -> Function:
    """Azimuth about the third axis and, in space, elevation above the plane of the first two."""
    lines, away, _ = _from_site(position, None, site, spin)
    azimuth = f"math.atan2({away[1]}, {away[0]})"
    if len(away) == 2:
        return _function(lines, f"({azimuth},)")
    return _function(lines, f"({azimuth}, math.atan2({away[2]}, {_length(away[:2])}))")


def _from_site(
    position: Sequence[int], velocity: Sequence[int] | None, site: Any, spin: float
) -> tuple[list[str], list[str], list[str]]:
    """Lines of text, and the names of the components of the vector from the site and its rate."""
    _check_indices("position", position, None)
    size = len(position)
    if velocity is not None:
        _check_indices("velocity", velocity, size)
    try:
        place = np.zeros(size) if site is None else np.asarray(site, np.float64)
    except (TypeError, ValueError):
        place = np.zeros(0)
    if place.shape != (size,) or not np.isfinite(place).all():
        raise ModelError(f"site is {site!r}; expected {size} finite numbers, as position has")
    if isinstance(spin, bool) or not isinstance(spin, int | float) or not math.isfinite(spin):
        raise ModelError(f"spin is {spin!r}; expected a finite number")
    x, y, *rest = (repr(float(one)) for one in place)
    at, moves = [x, y, *rest], ["0.0"] * size
    lines = []
    if spin:
        w = repr(float(spin))
        lines = [f"c, s = math.cos({w} * t), math.sin({w} * t)"]
        at[:2] = f"({x} * c - {y} * s)", f"({x} * s + {y} * c)"
        moves[:2] = f"(-{w} * {at[1]})", f"({w} * {at[0]})"
    away, speed = [f"d{k}" for k in range(size)], [f"v{k}" for k in range(size)]
    lines += [f"d{k} = y[{i}] - {at[k]}" for k, i in enumerate(position)]
    lines += [f"v{k} = y[{i}] - {moves[k]}" for k, i in enumerate(velocity or ())]
    return lines, away, speed


def _check_indices(name: str, value: Any, size: int | None) -> None:
    """Refuse what is not two or three different indices of variables, or not `size` of them."""
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


def _length(away: Sequence[str]) -> str:
    return f"math.sqrt({' + '.join(f'{one} * {one}' for one in away)})"


def _function(lines: Sequence[str], value: str) -> Function:
    body = "".join(f"    {line}\n" for line in lines)
    return function_from_text(f"def h(y, t, p):\n{body}    return {value}\n", {"math": math})
