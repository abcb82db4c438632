"""Fields that jump across a surface, and slide along it (Filippov)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.models.fields.functions import check_function
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.steppers.derivatives import Symbols, function_of

MODE = "mode"
_ROUNDING = 1e-14


def sliding_field(
    above: Callable[..., tuple[Any, ...]],
    below: Callable[..., tuple[Any, ...]],
    surface: Callable[..., Any],
    variables: Sequence[str],
    parameters: Sequence[str] = (),
) -> tuple[VectorField, list[ZeroCrossing]]:
    """A field with other equations on each side of a surface, such as dry friction or a relay.

    Where both sides push the state onto the surface it slides along it: its slope is the convex
    combination of both slopes that stays on the surface. It leaves to the side whose slope first
    points away.

    Parameters
    ----------
    above, below : function
        ``above(t, y, p)`` and ``below(t, y, p)`` return the slopes of all variables where `surface`
        is positive and negative, like the function of a `VectorField`.
    surface : function
        ``surface(t, y, p)``, a number that is zero on the surface. SymPy derives it.
    variables : sequence of str
        Names of the variables.
    parameters : sequence of str
        Names of the parameters.

    Returns
    -------
    VectorField, list of ZeroCrossing
        The field, with one more variable ``mode``: 1 above, -1 below and 0 while sliding; and the
        events "reach", "rise" and "sink" that change it, for `integrate`. The initial ``mode`` must
        be the sign of `surface`, or on the surface the mode in which the state goes on.

    Raises
    ------
    ModelError
        A function has a wrong form, or SymPy cannot derive `surface`.

    References
    ----------
    A. F. Filippov, "Differential Equations with Discontinuous Righthand Sides" (1988), section 4.

    Examples
    --------
    A block with dry friction, which a force of sin(t) moves once it exceeds 0.5:

    >>> import math
    >>> import numpy as np
    >>> import ergode
    >>> block, changes = ergode.trajectories.sliding_field(
    ...     lambda t, y, p: (math.sin(t) - p[0], y[0]),
    ...     lambda t, y, p: (math.sin(t) + p[0], y[0]),
    ...     lambda t, y, p: y[0], ["speed", "place"], ["friction"],
    ... )
    >>> result = ergode.trajectories.integrate(
    ...     block, times=[0, 0.5, 1.0], initial={"speed": 0.0, "place": 0.0, "mode": 0},
    ...     events=changes, parameters={"friction": 0.5}, device="cpu", record=1,
    ... )
    >>> result["state"].sel(variable="speed").values.round(4).tolist()
    [0.0, 0.0, 0.0875]
    >>> round(result["event_time"].sel(event="rise").item() / math.pi, 6)
    0.166667
    """
    names = tuple(variables)
    if MODE in (*names, *parameters):
        raise ModelError(f"'{MODE}' is the name of a variable that sliding_field adds")
    lengths: dict[str, int | None] = {"t": None, "y": len(names), "p": len(parameters)}
    check_function(above, lengths, names)
    check_function(below, lengths, names)
    check_function(surface, lengths, None, "surface")
    known = {"above": above, "below": below, "surface": surface}
    known["gradient"] = _gradient(surface, names, parameters)
    n = len(names)
    sides = (
        f"    s = ({''.join(f'y[{i}], ' for i in range(n))})\n"
        "    a, b, g = above(t, s, p), below(t, s, p), gradient(t, s, p)\n"
        f"    up = g[{n}]{''.join(f' + g[{i}] * a[{i}]' for i in range(n))}\n"
        f"    down = g[{n}]{''.join(f' + g[{i}] * b[{i}]' for i in range(n))}\n"
    )

    def made(name: str, body: str) -> Any:
        return function_from_text(f"def {name}(t, y, p):\n{sides}{body}", known)

    square = " + ".join(f"g[{i}] * g[{i}]" for i in range(n))
    rounding = " + ".join(f"abs(g[{i}] * s[{i}])" for i in range(n))

    def with_mode(mode: str) -> str:
        """The state moved to the surface, or by roundings to the side of its mode."""
        return (
            f"    m = {mode}\n    e = surface(t, s, p) - {_ROUNDING} * m * ({rounding})\n"
            f"    e = e / ({square})\n"
            f"    return ({''.join(f's[{i}] - e * g[{i}], ' for i in range(n))}m)\n"
        )

    slopes = "".join(f"w * a[{i}] + (1.0 - w) * b[{i}], " for i in range(n))
    field = made(
        "sliding",
        f"    w = 1.0 if y[{n}] > 0.5 else 0.0\n"
        f"    if abs(y[{n}]) < 0.5:\n"
        "        w = down / (down - up)\n"
        f"    return ({slopes}0.0)\n",
    )
    side = f"(1.0 if up + down > 0.0 else -1.0) if up * down > 0.0 else y[{n}]"
    reach = made("reach", f"    return surface(t, s, p) * y[{n}] if abs(y[{n}]) > 0.5 else 1.0\n")
    rise = made("rise", f"    return up if abs(y[{n}]) < 0.5 else -1.0\n")
    sink = made("sink", f"    return -down if abs(y[{n}]) < 0.5 else -1.0\n")
    entered = made("entered", with_mode(f"0.0 if up < 0.0 and down > 0.0 else {side}"))
    return VectorField(field, (*names, MODE), parameters), [
        ZeroCrossing(reach, -1, entered, name="reach"),
        ZeroCrossing(rise, 1, made("risen", with_mode("1.0")), name="rise"),
        ZeroCrossing(sink, 1, made("sunk", with_mode("-1.0")), name="sink"),
    ]


def _gradient(surface: Any, variables: Sequence[str], parameters: Sequence[str]) -> Any:
    """A function ``(t, y, p)`` of the derivatives by every variable and the time."""
    rest = ", 0.0" * (len(variables) - 1)
    text = f"def first(t, y, p):\n    return (surface(t, y, p){rest},)\n"
    field = VectorField(function_from_text(text, {"surface": surface}), variables, parameters)
    try:
        symbols = Symbols(field)
        value = symbols.slopes[0]
        derivatives = [value.diff(one) for one in (*symbols.y, symbols.t)]
        return function_of("gradient", "t, y, p", derivatives)
    except Exception as error:
        raise ModelError(f"SymPy cannot derive the surface: {error}") from error
