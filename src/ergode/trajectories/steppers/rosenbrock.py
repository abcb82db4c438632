"""Rosenbrock methods for stiff equations: every stage solves a linear system with one matrix.

    (1 / (h gamma) - J) u_s = f(t + alpha_s h, y + sum_j a_sj u_j) + sum_j (c_sj / h) u_j
                              + gamma_s h df/dt

with J the Jacobian at the beginning of the step, and df/dt the time derivative, including the
change of the delayed values.  The state at the end is y + m . u, the error estimate e . u.  With a
mass matrix B, of B y' = f, the terms with 1 / h have it as a factor.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), chapter IV.7
(eqs. 7.20-7.25); L. F. Shampine, M. W. Reichelt, SIAM J. Sci. Comput. 18, 1 (1997), section 3;
G. Steinebach, BIT Numer. Math. 63, 27 (2023), tables 1-3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ergode.core.compiler.language import fma, option, real, unroll
from ergode.trajectories.steppers.equations import MASS, VARIABLES, delayed, massed, slope
from ergode.trajectories.steppers.inside_step import missed_inside
from ergode.trajectories.steppers.jacobian import jacobian, time_slope
from ergode.trajectories.steppers.linear import factorised, solved
from ergode.trajectories.steppers.stepper import PROBES

# Tableau of the method (see `RosenbrockTableau`).
GAMMA = option(1.0)
ALPHA, GAMMAS = option((0.0,)), option((1.0,))
A, C = option(((),)), option(((),))
M, ERROR = option((1.0,)), option((1.0,))


def step(t, h, y, f, history, p, rtol, atol):
    """One step; returns state and slope at its end, stages, and error estimates (see `stepper`)."""
    matrix = jacobian(t, y, f, history, p)
    by_time = time_slope(t, h, y, f, history, p)
    diagonal = 1.0 / (h * GAMMA)
    factors = factorised(
        tuple(
            tuple(
                diagonal * MASS[i][j] - matrix[i][j]
                if len(MASS) > 0
                else (diagonal - matrix[i][j] if i == j else -matrix[i][j])
                for j in range(VARIABLES)
            )
            for i in range(VARIABLES)
        )
    )
    per_step = 1.0 / h
    u = (solved(factors, tuple(fma(GAMMAS[0] * h, by_time[i], f[i]) for i in range(VARIABLES))),)
    for s in unroll(range(1, len(ALPHA))):
        time = fma(real(ALPHA[s]), h, t)
        inner = tuple(
            sum((A[s][j] * u[j][i] for j in range(s) if A[s][j] != 0.0), y[i])
            for i in range(VARIABLES)
        )
        g = slope(time, inner, delayed(time, inner, history, p), p)
        if len(MASS) > 0:
            earlier = massed(
                tuple(
                    sum(((C[s][j] * per_step) * u[j][i] for j in range(s)), real(0.0))
                    for i in range(VARIABLES)
                )
            )
            g = tuple(g[i] + earlier[i] for i in range(VARIABLES))
        u = u + (  # noqa: RUF005
            solved(
                factors,
                tuple(
                    sum(
                        (
                            (C[s][j] * per_step) * u[j][i]
                            for j in range(s if len(MASS) == 0 else 0)
                            if C[s][j] != 0.0
                        ),
                        fma(GAMMAS[s] * h, by_time[i], g[i]),
                    )
                    for i in range(VARIABLES)
                ),
            ),
        )
    y1 = tuple(
        sum((M[j] * u[j][i] for j in range(len(M)) if M[j] != 0.0), y[i]) for i in range(VARIABLES)
    )
    error = tuple(
        sum(ERROR[j] * u[j][i] for j in range(len(ERROR)) if ERROR[j] != 0.0)
        for i in range(VARIABLES)
    )
    missed = _missed(t, h, y, u, history, p, factors)
    return y1, slope(t + h, y1, delayed(t + h, y1, history, p), p), u, error, missed


def _missed(t, h, y, u, history, p, factors):
    if len(PROBES) > 0:
        return missed_inside(t, h, y, u, history, p, factors, real(1.0))
    else:  # PROBES is an option: only one branch is compiled
        return ()


@dataclass(frozen=True)
class RosenbrockTableau:
    """One Rosenbrock method; the symbols are those of the equation in the module's docstring."""

    # The global error is O(step^order), the error estimate of a step O(step^error_order).
    order: int
    error_order: int
    gamma: float
    # One number per stage.
    alpha: tuple[float, ...]
    gammas: tuple[float, ...]
    # Row s couples stage s to the stages before it.
    a: tuple[tuple[float, ...], ...]
    c: tuple[tuple[float, ...], ...]
    # Weights of the stages; `error` is e.
    m: tuple[float, ...]
    error: tuple[float, ...]
    # Dense output: coefficients of x, x^2, ... of every stage's weight.
    dense: tuple[tuple[float, ...], ...]
    # Fractions of a step at which the dense output is checked (see `stepper`).
    probes: tuple[float, ...] = ()


def _from_slopes(
    alpha: list[list[float]], gamma: list[list[float]], b: list[float], error: list[float],
    dense: list[list[float]],
) -> RosenbrockTableau:  # fmt: skip
    """Transform a tableau of order 2 for the slopes k, whose stages contain sums of h J k.

    The result is for the stages u.
    """
    weights, couplings = np.array(alpha), np.array(gamma)
    inverse = np.linalg.inv(couplings)
    count = len(b)
    a = weights @ inverse
    c = np.diag(1.0 / np.diag(couplings)) - inverse

    def lower(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(map(float, matrix[s, :s])) for s in range(count))

    def row(values: np.ndarray) -> tuple[float, ...]:
        return tuple(map(float, values))

    return RosenbrockTableau(
        2, 3, float(couplings[0, 0]), row(weights.sum(axis=1)),
        row(couplings.sum(axis=1)), lower(a), lower(c), row(np.array(b) @ inverse),
        row(np.array(error) @ inverse), tuple(map(row, inverse.T @ np.array(dense))),
    )  # fmt: skip


_D = 1.0 / (2.0 + 2.0**0.5)
_E = 6.0 + 2.0**0.5
ROSENBROCK23 = _from_slopes(
    alpha=[[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 1.0, 0.0]],
    gamma=[[_D, 0.0, 0.0], [-_D, _D, 0.0], [(_E - 2.0) * _D, -_E * _D, _D]],
    b=[0.0, 1.0, 0.0],
    error=[1 / 6, -1 / 3, 1 / 6],
    dense=[
        [1.0 / (1.0 - 2.0 * _D), -1.0 / (1.0 - 2.0 * _D)],
        [-2.0 * _D / (1.0 - 2.0 * _D), 1.0 / (1.0 - 2.0 * _D)],
        [0.0, 0.0],
    ],
)

_M = (
    -7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
    0.030198172008377946, 1.0, 1.0, 1.0,
)  # fmt: skip
_BETWEEN = (
    (
        25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204,
        0.524948541321073, 1.1241088310450404, 0.4272876194431874, -0.17202221070155493,
    ),
    (
        -9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796,
        20.176138334709044, 15.98066361424651, -6.789040303419874, -6.710236069923372,
    ),
    (
        11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643,
        -52.072871366152654, -59.78993625266729, -0.15582684282751913, 4.883087185713722,
    ),
)  # fmt: skip
RODAS5P = RosenbrockTableau(
    order=5,
    error_order=5,
    gamma=0.21193756319429014,
    alpha=(
        0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0,
        1.0, 1.0,
    ),
    gammas=(
        0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
        2.325825639765069, 0.0, 0.0, 0.0,
    ),
    a=(
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        *(_M[:s] for s in (5, 6, 7)),
    ),
    c=(
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (
            24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
            -0.6610691825249471,
        ),
        (
            30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
            -19.097331116725623, -28.087943162872662,
        ),
        (
            37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
            -40.06618937091002, -54.66780262877968, -9.48861652309627,
        ),
    ),
    m=_M,
    error=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    dense=tuple(
        (m + h1, -h1 + h2, -h2 + h3, -h3) for m, h1, h2, h3 in zip(_M, *_BETWEEN, strict=True)
    ),
    # In a variable that follows t^4 or t^5 the error is almost largest here, of either sign.
    probes=(0.45, 0.85),
)  # fmt: skip
