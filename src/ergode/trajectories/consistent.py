"""Consistent initial values of differential-algebraic equations of index 1, M y' = f(t, y, p).

With the left null vectors U of M, the conditions are U^T f = 0.  Newton's method meets them by
moving the state along the null vectors V of M: what M y holds stays.  U^T (df/dy) V is regular if
the index is 1.

E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), chapter VI.1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.fields.vector_field import VectorField

_ITERATIONS = 50
_SINGULAR = 1e-10  # of singular values, relative to the largest


def consistent_rows(
    field: VectorField, rows: Mapping[str, np.ndarray], t: float
) -> dict[str, np.ndarray]:
    """Values by name of every trajectory, with consistent initial values.

    Raises a ModelError if Newton's method finds none, or the index is not 1.
    """
    left, size, right = np.linalg.svd(np.array(field.mass))
    rank = int((size > _SINGULAR * size[0]).sum()) if size[0] > 0.0 else 0
    u, v = left[:, rank:], right[rank:].T
    states = np.array([rows[name] for name in field.variables], np.float64)
    given = np.array([rows[name] for name in field.parameters], np.float64)
    given = given.reshape(-1, states.shape[1])
    if u.size:
        for i in range(states.shape[1]):
            states[:, i] = _consistent(field, t, states[:, i], tuple(given[:, i].tolist()), u, v, i)
    return {**rows, **dict(zip(field.variables, states, strict=True))}


def _consistent(
    field: VectorField, t: float, y: np.ndarray, p: tuple[float, ...], u: np.ndarray,
    v: np.ndarray, which: int,
) -> np.ndarray:  # fmt: skip
    def slopes(state: np.ndarray) -> np.ndarray:
        return np.array(field.function(t, tuple(state.tolist()), p), np.float64)

    for _ in range(_ITERATIONS):
        f = slopes(y)
        moves = 1e-7 * (1.0 + np.abs(y).max())
        columns = [(slopes(y + moves * one) - slopes(y - moves * one)) / (2 * moves) for one in v.T]
        matrix = u.T @ np.array(columns).T
        values = np.linalg.svd(matrix, compute_uv=False)
        if not values[-1] > _SINGULAR * values[0]:
            raise ModelError(
                f"the conditions of trajectory {which} do not determine its algebraic variables: "
                "the index of the equations is above 1, or another state is needed to begin with"
            )
        step = np.linalg.solve(matrix, -(u.T @ f))
        y = y + v @ step
        if np.abs(step).max() <= 1e-13 * (1.0 + np.abs(y).max()):
            return y
    raise ModelError(
        f"no consistent initial values of trajectory {which} were found: begin nearer to them"
    )
