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
        ``delay(t, y, p)`` returns a number [time]; it is compiled like the field.
    least, most : float or str
        Bounds of the delay; numbers or names of parameters [time]. The history is kept over `most`,
        at points at most a third of `least` apart. Choose `least` close to the smallest delay: this
        saves work. A trajectory whose delay leaves this range ends with the status
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
