"""A number at all points of a sweep at once, so that a user's function is called once for all.

A `Column` is calculated with like a float, and gives at every point the bits of that float.  What
cannot be done for all points together - a comparison that differs between points, a conversion
into one number - raises `PointsDifferError`.  Then the function is called for one point after
another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class PointsDifferError(Exception):
    """Points cannot be computed together."""


def _refuse(*_: Any, **__: Any) -> Any:
    raise PointsDifferError


class Column:
    """Numbers of all points.

    Parameters
    ----------
    values : ndarray of float64, shape [point_count]
    """

    __slots__ = ("values",)
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What asks whether a number is a float takes the branch of a float."""
        return float

    # A float has a text, a hash and a value; a column has none.
    __float__ = __int__ = __index__ = __complex__ = __hash__ = _refuse
    __array__ = __str__ = __repr__ = __format__ = __reduce_ex__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = __copy__ = __deepcopy__ = _refuse

    def __bool__(self) -> bool:
        return _same(self.values != 0.0)

    def __neg__(self) -> Column:
        return Column(-self.values)

    def __pos__(self) -> Column:
        return self

    def __abs__(self) -> Column:
        return Column(abs(self.values))

    def __add__(self, other: Any) -> Any:
        return _combined(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _combined(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _combined(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combined(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _combined(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _combined(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)

    def __lt__(self, other: Any) -> Any:
        return _compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(operator.ge, self, other)

    def __eq__(self, other: object) -> Any:
        return _compared(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return _compared(operator.ne, self, other)


def is_column(value: Any) -> bool:
    """Whether a number is a column; `isinstance` says float."""
    return type(value) is Column


def as_float(value: Any) -> Any:
    """A number as a float; a column stays as it is."""
    return value if is_column(value) else float(value)


def values_of(number: Any, count: int) -> np.ndarray:
    """A number at all points, shape [count]."""
    if is_column(number):
        return np.asarray(number.values)
    return np.full(count, number, np.float64)


def each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """The function of a float, for columns too: it is called for every point."""

    def applied(number: Any) -> Any:
        if is_column(number):
            return Column(np.array([function(one) for one in number.values.tolist()], np.float64))
        return function(number)

    return applied


# NumPy's own functions round otherwise.
exp, expm1, lgamma, log, log1p, sqrt = map(
    each, (math.exp, math.expm1, math.lgamma, math.log, math.log1p, math.sqrt)
)


def is_finite(number: Any) -> bool:
    """Whether a number is finite; of a column, at all points."""
    return _same(np.isfinite(number.values)) if is_column(number) else math.isfinite(number)


def _same(truth: np.ndarray) -> bool:
    """What holds at all points."""
    first = bool(truth[0])
    if (truth != first).any():
        raise PointsDifferError
    return first


def _operand(value: Any) -> Any:
    """A column's values; or a float or an integer that NumPy takes as one."""
    if is_column(value):
        return value.values
    if type(value) is float or (type(value) is int and abs(value) <= 2**53):
        return value
    if isinstance(value, np.float64):
        return float(value)
    raise PointsDifferError


def _combined(operation: Callable[[Any, Any], Any], one: Any, other: Any) -> Column:
    with np.errstate(all="ignore"):
        return Column(operation(_operand(one), _operand(other)))


def _quotient(one: Any, other: Any) -> Column:
    if np.any(np.equal(_operand(other), 0.0)):
        raise PointsDifferError  # ZeroDivisionError at this point
    return _combined(operator.truediv, one, other)


def _power(one: Any, other: Any) -> Column:
    base, exponent = np.broadcast_arrays(_operand(one), _operand(other))
    found = [x**y for x, y in zip(base.tolist(), exponent.tolist(), strict=True)]
    if any(isinstance(value, complex) for value in found):
        raise PointsDifferError
    return Column(np.array(found, np.float64))


def _compared(operation: Callable[[Any, Any], Any], one: Column, other: Any) -> bool:
    return _same(operation(one.values, _operand(other)))
