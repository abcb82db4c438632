"""Linear systems of a Rosenbrock step by factors of a matrix.

The Jacobian is one of differences, with an evaluation for every colour of its columns (`sparsity`).
SciPy solves the linear systems: by LAPACK where matrices are small or have a narrow band, else by
SuperLU.  Reverse Cuthill-McKee ordering makes the band narrow (A. George, J. W. H. Liu, "Computer
Solution of Large Sparse Positive Definite Systems" (1981), chapter 4).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve
from scipy.linalg.lapack import dgbtrf, dgbtrs
from scipy.sparse import csc_array, csr_array, identity
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from ergode.trajectories.arrays.evaluator import Evaluator
from ergode.trajectories.arrays.sparsity import colours_of, pattern_of, refuse_full
from ergode.trajectories.arrays.stencils import BANDED, NARROW, band_of_neighbours

_FULL = 0.1  # share of a larger matrix from which it is full
_EPSILON = float(np.finfo(float).eps)
_LEAST_MOVED = 1e-5  # state for which the difference of a derivative is taken, at least
_UNEXPLAINED = 0.01  # share of a derivative's change that its Jacobian may leave unexplained

Solve = Callable[[np.ndarray], np.ndarray]


class _Band(NamedTuple):
    """A pattern whose unknowns are reordered so that it is a narrow band."""

    order: np.ndarray  # the unknown at every place
    below: int  # diagonals below the main one
    above: int
    rows: np.ndarray  # of every value of the pattern, its row and column in LAPACK's band storage
    columns: np.ndarray


def _band_of(pattern: csc_array) -> _Band | None:
    """The narrow band of a square pattern, or None if there is none."""
    n = pattern.shape[0]
    columns = np.repeat(np.arange(n), np.diff(pattern.indptr))
    order = np.arange(n)
    if abs(pattern.indices - columns).max(initial=0) > NARROW:
        whole = csr_array(pattern + pattern.T)
        order = reverse_cuthill_mckee(whole, symmetric_mode=True)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    row, column = place[pattern.indices], place[columns]
    below, above = int((row - column).max(initial=0)), int((column - row).max(initial=0))
    if max(below, above) > NARROW:
        return None
    return _Band(order, below, above, below + above + row - column, column)


def _states_near(first: np.ndarray) -> list[np.ndarray]:
    """A state near the first one, and two others: derivatives that do not read are the same."""
    rng = np.random.default_rng(0)
    near, far = (
        first + (1e-3 + size * np.abs(first)) * rng.random(first.size) for size in (1e-3, 0.5)
    )
    return [near, far, np.full(first.size, np.nan)]


class Matrices:
    """Linear systems with the Jacobian of a field, as `implicit.Linear`.

    Parameters
    ----------
    field : Evaluator
    """

    longest = np.inf

    def __init__(self, field: Evaluator) -> None:
        self._field, n = field, field.size
        self._pattern = csc_array((n, n))  # where the Jacobian may differ from zero
        self._colours = np.zeros(n, np.int64)  # of its columns
        self._band: _Band | None = None
        self._wait, self._idle = 0, 1  # Jacobians until the pattern is tried again

    def band(self, me: int, t: float, y: np.ndarray) -> np.ndarray | None:
        """The band of the Jacobian near a state (see `banded.full`); None if it is full."""
        if y.size <= BANDED:
            return None
        band = band_of_neighbours(self._field, me, t, np.array(_states_near(y)))
        if band is not None:
            return band
        self._widen(me, t, y)
        if self._band is None:
            return None
        place = np.argsort(self._band.order)
        return np.array([self._band.below, self._band.above, *place], np.int64)

    def linearise(self, me: int, t: float, y: np.ndarray, f: np.ndarray, scale: np.ndarray) -> None:
        """Take the Jacobian at a state.

        Its pattern grows where a branch reads what none did before.
        """
        if self._pattern.nnz == 0:
            self._widen(me, t, y)
        jacobian, complete = self._differences(me, t, y, f)
        self._wait -= 1
        if not complete and self._wait <= 0:
            if self._widen(me, t, y):
                jacobian, _ = self._differences(me, t, y, f)
            else:  # derivatives bend, or are noisy: to try again would find no more
                self._idle *= 2
                self._wait = self._idle
        self._jacobian = jacobian

    def shift(self, diagonal: float) -> bool:
        """Factorise ``diagonal - jacobian``; whether it is regular."""
        solve = self._solver(self._jacobian, diagonal)
        if solve is None:
            return False
        self._solve = solve
        return True

    def solve(self, b: np.ndarray, allowed: float) -> tuple[np.ndarray, float]:
        """The solution, and the size of its residual: none."""
        return self._solve(b), 0.0

    def state(self) -> dict[str, np.ndarray]:
        """The pattern, and how long it has not grown; nothing of one that cannot grow."""
        pattern, waits = self._pattern, np.array([self._wait, self._idle])
        if pattern.nnz in (0, self._field.size**2):
            return {}
        return {"rows": pattern.indices, "begins": pattern.indptr, "waits": waits}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        if "rows" in state:
            rows, shape = state["rows"], self._pattern.shape
            self._take(csc_array((np.ones(rows.size), rows, state["begins"]), shape=shape))
            self._wait, self._idle = map(int, state["waits"])

    def _widen(self, me: int, t: float, first: np.ndarray) -> bool:
        """Add dependences near a state to the Jacobian's pattern; return whether it grew."""
        field, n = self._field, self._field.size
        near, *others = _states_near(first)

        def probe(edges: np.ndarray, firsts: np.ndarray, rows: np.ndarray) -> np.ndarray:
            found = np.zeros(rows.size, bool)
            for other in map(np.copy, others):
                state = near.copy()
                before = field.slopes(me, np.array([t]), near[None])[0]
                found |= field.differs(me, t, edges, firsts, rows, state, before, other)
            return found

        known = self._pattern
        if field.arrays.in_place or n <= BANDED:
            refuse_full(n)
            pattern = csc_array(np.ones((n, n)))
        else:
            pattern = csc_array(known + pattern_of(n, probe))
        more = bool(pattern.nnz > known.nnz)
        if more:
            self._take(pattern)
        return more

    def _take(self, pattern: csc_array) -> None:
        """Colour the columns of a pattern, and look for a band."""
        n = self._field.size
        self._pattern, self._colours = pattern, colours_of(pattern)
        self._band = _band_of(pattern) if n > BANDED else None

    def _differences(
        self, me: int, t: float, y: np.ndarray, f: np.ndarray
    ) -> tuple[csc_array, bool]:
        """The Jacobian, and whether it says what moving all unknowns together does."""
        pattern, colours = self._pattern, self._colours
        count = int(colours.max()) + 1
        moved = y + np.sqrt(_EPSILON * np.maximum(_LEAST_MOVED, np.abs(y)))
        states = np.where(colours == np.arange(count)[:, None], moved, y)
        states = np.concatenate([states, moved[None]])
        changes = self._field.slopes(me, np.full(count + 1, t), states) - f
        columns = np.repeat(np.arange(y.size), np.diff(pattern.indptr))
        values = changes[colours[columns], pattern.indices] / (moved - y)[columns]
        jacobian = csc_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
        size = abs(jacobian)
        allowed = _UNEXPLAINED * (size @ (moved - y)) + 16 * _EPSILON * (size @ abs(y) + abs(f))
        missed = abs(changes[-1] - jacobian @ (moved - y))
        # What is not finite ends the step, and would say that everything is read.
        return jacobian, not np.isfinite(missed).all() or bool((missed <= allowed).all())

    def _solver(self, jacobian: csc_array, diagonal: float) -> Solve | None:
        """What solves ``(diagonal - jacobian) x = b``; None where that is singular."""
        if not np.isfinite(jacobian.data).all():
            return None
        n = jacobian.shape[0]
        if self._band is not None:
            return _band_solver(self._band, jacobian.data, diagonal)
        try:
            if n <= BANDED or jacobian.nnz > _FULL * n * n:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", LinAlgWarning)
                    factors = lu_factor(diagonal * np.eye(n) - jacobian.toarray())
                return lambda b: lu_solve(factors, b)
            return splu((diagonal * identity(n, format="csc") - jacobian).tocsc()).solve
        except (LinAlgWarning, RuntimeError):
            return None


def _band_solver(band: _Band, values: np.ndarray, diagonal: float) -> Solve | None:
    """What solves ``(diagonal - jacobian) x = b`` in a band; None where that is singular."""
    n, main = band.order.size, band.below + band.above
    matrix = np.zeros((main + band.below + 1, n), order="F")
    matrix[band.rows, band.columns] = -values
    matrix[main] += diagonal
    factors, pivots, info = dgbtrf(matrix, band.below, band.above, overwrite_ab=True)
    if info != 0:
        return None

    def solve(b: np.ndarray) -> np.ndarray:
        x = np.empty(n)
        x[band.order] = dgbtrs(factors, band.below, band.above, b[band.order], pivots)[0]
        return x

    return solve
