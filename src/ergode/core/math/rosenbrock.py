"""Coefficients of Rosenbrock methods, in the form of `ergode.kinetics.implicit.rosenbrock`.

``rodas4`` is the stiffly accurate pair of order 4(3) of E. Hairer, G. Wanner, "Solving Ordinary
Differential Equations II", 2nd ed. (1996), sections IV.7 and VI.4. ``rosenbrock23`` is the pair of
order 2(3) of L. F. Shampine, M. W. Reichelt, SIAM J. Sci. Comput. 18, 1 (1997), transformed to
this form by U_1 = h d k_1, U_2 = h d (k_2 - k_1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Row = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    """One Rosenbrock method."""

    order: int
    gamma: float
    a: tuple[Row, ...]
    c: tuple[Row, ...]
    m: Row
    e: Row
    alpha: Row
    gammas: Row
    p: Row
    q: Row


class Coefficients(NamedTuple):
    """A tableau as arrays, so that one kernel serves all methods."""

    a: np.ndarray
    c: np.ndarray
    m: np.ndarray
    e: np.ndarray
    alpha: np.ndarray
    gammas: np.ndarray
    p: np.ndarray
    q: np.ndarray
    gamma: float
    exponent: float


def coefficients_of(tableau: Tableau) -> Coefficients:
    """Arrays of a tableau."""
    stages = len(tableau.m)

    def square(rows: tuple[Row, ...]) -> np.ndarray:
        full = np.zeros((stages, stages))
        for i, row in enumerate(rows):
            full[i, : len(row)] = row
        return full

    rows = (np.array(getattr(tableau, name)) for name in ("m", "e", "alpha", "gammas", "p", "q"))
    m, e, alpha, gammas, p, q = rows
    return Coefficients(
        square(tableau.a), square(tableau.c), m, e, alpha, gammas, p, q,
        tableau.gamma, 1.0 / tableau.order,
    )  # fmt: skip


_A5 = (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950)

RODAS4 = Tableau(
    order=4,
    gamma=0.25,
    a=(
        (),
        (1.544,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        _A5,
        (*_A5, 1.0),
    ),
    c=(
        (),
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
        (
            8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136,
            -6.058818238834054,
        ),
    ),
    m=(*_A5, 1.0, 1.0),
    e=(0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    alpha=(0.0, 0.386, 0.21, 0.63, 1.0, 1.0),
    gammas=(0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0),
    p=(
        10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823,
        1.025137723295662, 0.0,
    ),
    q=(
        -0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386,
        -6.594389125716872, 0.0,
    ),
)  # fmt: skip

_D = 1.0 / (2.0 + math.sqrt(2.0))
_E = 6.0 + math.sqrt(2.0)

ROSENBROCK23 = Tableau(
    order=2,
    gamma=_D,
    a=((), (0.5 / _D,), (1.0 / _D, 1.0 / _D)),
    c=((), (-1.0 / _D,), (-2.0 / _D, -_E / _D)),
    m=(1.0 / _D, 1.0 / _D, 0.0),
    e=(1.0 / (6.0 * _D), (_E - 2.0) / (6.0 * _D), 1.0 / (6.0 * _D)),
    alpha=(0.0, 0.5, 1.0),
    gammas=(_D, 0.0, -_D),
    p=(0.0, -1.0 / (_D * (1.0 - 2.0 * _D)), 0.0),
    q=(0.0, 0.0, 0.0),
)
