"""Explicit Runge-Kutta methods as tables of numbers: a new method is one more table.

    k_s = f(t + c_s h, y + h (a_s1 k_1 + ... + a_s,s-1 k_s-1)),    y' = y + h (b_1 k_1 + ...)

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapter II.1, eq. (1.8); Ch. Tsitouras, Comput. Math. Appl. 62, 770 (2011), table 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tableau:
    """One explicit Runge-Kutta method.

    Attributes
    ----------
    order : int
        The error after a fixed time falls as step to this power.
    a : tuple of tuple of float
        Row s has the s weights of the stages before stage s.
    b : tuple of float
        Weights of the step.
    c : tuple of float
        Where in the step each stage is, 0 to 1.
    """

    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]


EULER = Tableau(1, ((),), (1.0,), (0.0,))

RK4 = Tableau(
    4,
    ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    (1 / 6, 1 / 3, 1 / 3, 1 / 6),
    (0.0, 0.5, 0.5, 1.0),
)

TSIT5 = Tableau(
    5,
    (
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (
            5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
            -0.028269050394068383,
        ),
    ),
    (
        0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
        2.324710524099774,
    ),
    (0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0),
)  # fmt: skip

TABLEAUS = {"euler": EULER, "rk4": RK4, "tsit5": TSIT5}
