"""Interpolated tables of a field: recorded forcing, measured laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import choice
from ergode.core.errors import ModelError
from ergode.core.words import counted

Kind = Literal["linear", "cubic"]
_LEAST = {"linear": 2, "cubic": 4}


@dataclass(frozen=True, eq=False)
class Interpolant:
    """A function of one number that interpolates given points; made by `interpolant`."""

    times: np.ndarray  # [point_count]: the knots
    values: np.ndarray  # [point_count]
    kind: Kind

    def __call__(self, t: ArrayLike) -> Any:
        """The value at a time, or at each of an array; the end pieces are extrapolated."""
        times, table = np.asarray(t, np.float64), self.table
        piece = np.clip(np.searchsorted(self.times, times, "right") - 1, 0, len(table) - 2)
        x = times - table[piece, 0]
        c = np.moveaxis(table[piece, 1:], -1, 0)
        found = ((c[3] * x + c[2]) * x + c[1]) * x + c[0]
        return float(found) if found.ndim == 0 else found

    @cached_property
    def table(self) -> np.ndarray:
        """Each knot and the coefficients of the cubic after it, shape [point_count, 5]."""
        table = np.zeros((self.times.size, 5))
        table[:, 0], table[:, 1] = self.times, self.values
        if self.kind == "linear":
            table[:-1, 2] = np.diff(self.values) / np.diff(self.times)
        else:
            from scipy.interpolate import CubicSpline

            table[:-1, 1:] = CubicSpline(self.times, self.values).c[::-1].T
        return table


def interpolant(times: ArrayLike, values: ArrayLike, kind: Kind = "linear") -> Interpolant:
    """A table of times and values as a function of time, for the `constants` of a `VectorField`.

    The equations call it by its name: ``c.drive(t)``. No adaptive step crosses a knot, because the
    solution is not smooth there. A field has constants if its variables are arrays, of one element
    each if need be; see the example.

    Parameters
    ----------
    times : array_like, shape [point_count]
        Knots in ascending order [time].
    values : array_like, shape [point_count]
        Values at the knots.
    kind : {"linear", "cubic"}
        ``"linear"`` joins the points by straight lines. ``"cubic"`` is the spline through them
        with two continuous derivatives (de Boor's not-a-knot condition at the ends).

    Returns
    -------
    Interpolant

    Raises
    ------
    ModelError
        The times do not ascend, a number is not finite, or there are too few points.

    Examples
    --------
    >>> import ergode
    >>> drive = ergode.interpolant([0.0, 1.0, 3.0], [0.0, 2.0, 0.0])
    >>> drive(2.0)
    1.0

    An infusion into the first of two compartments:

    >>> def rates(t, y, dy, p, c):
    ...     dy.depot[0] = c.infusion(t) - p[0] * y.depot[0]
    ...     dy.blood[0] = p[0] * y.depot[0] - p[1] * y.blood[0]
    >>> field = ergode.VectorField(
    ...     rhs=rates, variables={"depot": 1, "blood": 1}, parameters=["ka", "ke"],
    ...     constants={"infusion": drive},
    ... )
    >>> found = ergode.trajectories.integrate(
    ...     field, times=[0, 1, 3], initial={"depot": [0.0], "blood": [0.0]},
    ...     parameters={"ka": 1.0, "ke": 0.1}, device="cpu",
    ... )
    >>> found["blood"].values.ravel().round(3).tolist()
    [0.0, 0.257, 2.056]
    """
    try:
        choice("kind", kind, _LEAST)
    except Exception as error:
        raise ModelError(str(error)) from None
    arrays = []
    for name, given in (("times", times), ("values", values)):
        try:
            if np.asarray(given).dtype.kind in "mM":
                raise TypeError
            array = np.array(given, np.float64)
        except (TypeError, ValueError):
            raise ModelError(f"{name} of an interpolant is {given!r}; expected numbers") from None
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
    return Interpolant(arrays[0], arrays[1], kind)
