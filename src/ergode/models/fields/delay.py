"""Delays that depend on the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ergode.core.compiler.portable import HoldsFunctions


@dataclass(frozen=True)
class Delay(HoldsFunctions):
    """A delay that depends on time and state, in place of a parameter's name.

    Parameters
    ----------
    function : function
        ``delay(t, y, p)`` that returns a number [time]; compiled like the field.
    least, most : float or str
        What it stays between; numbers or names of parameters [time]. The past is kept as far back
        as `most`, on points at most a third of `least` apart: the nearer `least` is to the delays
        that happen, the less work. A trajectory whose delay leaves this range ends with the status
        ``DELAY_OUT_OF_RANGE``.

    Examples
    --------
    >>> import ergode
    >>> def echo(t, y, yd, p):
    ...     return (yd[0],)
    >>> def back_to_own_value(t, y, p):
    ...     return t - y[0]
    >>> field = ergode.VectorField(
    ...     echo, ["y"], delays=[("y", ergode.Delay(back_to_own_value, least=0.5, most=2.5))]
    ... )
    """

    function: Callable[..., float]
    least: float | str
    most: float | str
