"""Interpolated tables of a field: recorded forcing, measured laws."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import as_numbers, choice
from ergode.core.errors import ModelError
from ergode.core.words import counted

Kind = Literal["linear", "cubic", "steps"]
_LEAST = {"linear": 2, "cubic": 4, "steps": 1}


@dataclass(frozen=True, eq=False)
class Interpolant:
    """A function of one number that interpolates given points; made by `interpolant`."""

    times: np.ndarray  # [point_count]: the knots
    values: np.ndarray  # [point_count]
    kind: Kind
    period: float | None = None

    def __call__(self, t: ArrayLike) -> Any:
        """The value at a time, or at each of an array; the end pieces are extrapolated."""
        times, table = np.asarray(t, np.float64), self.table
        if self.period is not None:
            times = self.times[0] + (times - self.times[0]) % self.period
        piece = np.clip(np.searchsorted(table[:, 0], times, "right") - 1, 0, len(table) - 2)
        x = times - table[piece, 0]
        c = np.moveaxis(table[piece, 1:], -1, 0)
        found = ((c[3] * x + c[2]) * x + c[1]) * x + c[0]
        return float(found) if found.ndim == 0 else found

    @cached_property
    def table(self) -> np.ndarray:
        """Each knot and the coefficients of the cubic after it, shape [piece_count + 1, 5].

        Of the last row only the time has a meaning: there the last piece ends.
        """
        times, values = self.times, self.values
        if self.period is not None:
            times = np.append(times, times[0] + self.period)
            values = np.append(values, values[0])
        elif self.kind == "steps":
            times, values = np.append(times, times[-1] + 1.0), np.append(values, values[-1])
        table = np.zeros((times.size, 5))
        table[:, 0], table[:, 1] = times, values
        if self.kind == "linear":
            table[:-1, 2] = np.diff(values) / np.diff(times)
        elif self.kind == "cubic":
            from scipy.interpolate import CubicSpline

            ends = "not-a-knot" if self.period is None else "periodic"
            table[:-1, 1:] = CubicSpline(times, values, bc_type=ends).c[::-1].T
        return table

    def refuse_for_arrays(self, name: str) -> None:
        """Refuse what variables that are arrays do not know.

        Raises a ModelError that names the constant, if there are steps or a period.
        """
        if self.kind == "steps" or self.period is not None:
            raise ModelError(
                f"constant '{name}' has steps or a period; these are for named variables"
            )

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the function."""
        return hashlib.sha256(self.table.tobytes() + repr(self.period).encode()).hexdigest()[:16]

    @property
    def reach(self) -> tuple[float, float]:
        """First and last time at which the table has a value."""
        if self.period is not None:
            return -np.inf, np.inf
        return self.times[0], np.inf if self.kind == "steps" else self.times[-1]


def interpolant(
    times: ArrayLike, values: ArrayLike, kind: Kind = "linear", period: float | None = None
) -> Interpolant:
    """A table of times and values as a function of time, for the `constants` of a `VectorField`.

    The equations call it by its name: ``c.drive(t)``, or in text ``drive(t)``. No adaptive step
    crosses a knot, because the solution is not smooth there.

    Parameters
    ----------
    times : array_like, shape [point_count]
        Knots in ascending order [time].
    values : array_like, shape [point_count]
        Values at the knots.
    kind : {"linear", "cubic", "steps"}
        ``"linear"`` joins the points by straight lines. ``"cubic"`` is the spline through them
        with two continuous derivatives (de Boor's not-a-knot condition at the ends). ``"steps"``
        keeps each value until the next time, and the last one for ever.
    period : float, optional
        The table repeats with this period [time]. The times lie within one period: after the last
        one follows the first value again.

    Returns
    -------
    Interpolant

    Raises
    ------
    ModelError
        The times do not ascend, a number is not finite, there are too few points, or a period is
        too short.

    Examples
    --------
    >>> import ergode
    >>> drive = ergode.interpolant([0.0, 1.0, 3.0], [0.0, 2.0, 0.0])
    >>> drive(2.0)
    1.0

    An infusion into the first of two compartments:

    >>> field = ergode.field_from_equations(
    ...     {"depot": "infusion(t) - ka * depot", "blood": "ka * depot - ke * blood"},
    ...     constants={"infusion": drive},
    ... )
    >>> found = ergode.trajectories.integrate(
    ...     field, times=[0, 1, 3], initial={"depot": 0, "blood": 0},
    ...     parameters={"ka": 1.0, "ke": 0.1}, device="cpu",
    ... )
    >>> found["state"].sel(variable="blood").values.round(3).tolist()
    [0.0, 0.257, 2.056]
    """
    try:
        choice("kind", kind, _LEAST)
    except Exception as error:
        raise ModelError(str(error)) from None
    arrays = []
    for name, given in (("times", times), ("values", values)):
        if (array := as_numbers(given)) is None:
            raise ModelError(f"{name} of an interpolant is {given!r}; expected numbers")
        if array.ndim != 1 or array.size < _LEAST[kind]:
            raise ModelError(
                f"{name} of a {kind} interpolant has shape {array.shape}; expected a list of at "
                f"least {_LEAST[kind]} numbers"
            )
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            raise ModelError(
                f"{name}[{bad[0]}] of an interpolant is {array[bad[0]]}; expected finite numbers"
            )
        array.flags.writeable = False
        arrays.append(array)
    if arrays[0].size != arrays[1].size:
        raise ModelError(
            f"an interpolant has {counted(arrays[0].size, 'time')} and "
            f"{counted(arrays[1].size, 'value')}; expected "
            "equal lengths"
        )
    falls = np.flatnonzero(np.diff(arrays[0]) <= 0)
    if falls.size:
        k = int(falls[0])
        raise ModelError(
            f"times of an interpolant must ascend, but times[{k + 1}] = {arrays[0][k + 1]:g} "
            f"follows times[{k}] = {arrays[0][k]:g}"
        )
    if period is not None:
        span = float(arrays[0][-1] - arrays[0][0])
        if not (isinstance(period, int | float | np.number) and span < period < np.inf):
            raise ModelError(
                f"period of an interpolant is {period!r}; expected a number above {span:g}, the "
                "span of its times"
            )
        period = float(period)
    return Interpolant(arrays[0], arrays[1], kind, period)
