"""Rosenbrock methods for fields of arrays: a loop on the host around compiled derivatives.

The Jacobian is one of differences, with an evaluation for every colour of its columns (`sparsity`).
SciPy solves the linear systems: by LAPACK where matrices are small or have a narrow band, else by
SuperLU.  Reverse Cuthill-McKee ordering makes the band narrow (A. George, J. W. H. Liu, "Computer
Solution of Large Sparse Positive Definite Systems" (1981), chapter 4).  The method is that of
`steppers.rosenbrock`; steps are chosen as in `adaptive.control`.  Numbers are float64, whatever the
precision of the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve
from scipy.linalg.lapack import dgbtrf, dgbtrs
from scipy.sparse import csc_array, csr_array, identity
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from ergode.core import kernels, launch
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control, Outcome
from ergode.trajectories.arrays.equations import BLOCK, bindings_of_arrays
from ergode.trajectories.arrays.runner import run_of, shared_arguments
from ergode.trajectories.arrays.slopes import probe_cpu, slopes_cpu
from ergode.trajectories.arrays.sparsity import colours_of, pattern_of, refuse_full
from ergode.trajectories.methods import Method
from ergode.trajectories.steppers import rosenbrock, stepper

_SMALL = 50  # unknowns up to which matrices are full
_FULL = 0.1  # share of a larger matrix from which it is full
_NARROW = 16  # diagonals on a side, up to which a matrix is banded
_BRIEF = 8192  # derivatives that one thread computes at once
_EPSILON = float(np.finfo(float).eps)
_LEAST_MOVED = 1e-5  # state for which the difference of a derivative is taken, at least
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 5.0
_UNEXPLAINED = 0.01  # share of a derivative's change that its Jacobian may leave unexplained
_SMALLEST = 1e-4  # error of a step, below which all are alike

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
    if abs(pattern.indices - columns).max(initial=0) > _NARROW:
        whole = csr_array(pattern + pattern.T)
        order = reverse_cuthill_mckee(whole, symmetric_mode=True)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    row, column = place[pattern.indices], place[columns]
    below, above = int((row - column).max(initial=0)), int((column - row).max(initial=0))
    if max(below, above) > _NARROW:
        return None
    return _Band(order, below, above, below + above + row - column, column)


class ImplicitRunner:
    """Trajectories of a field of arrays with a Rosenbrock method, on a CPU, one after the other.

    Parameters
    ----------
    field, method, control, times, device, precision
        As for `integrate`, already checked.
    """

    def __init__(
        self, field: VectorField, method: Method, control: Control, *, times: np.ndarray,
        device: Device, precision: Precision,
    ) -> None:  # fmt: skip
        assert field.arrays is not None
        self.arrays, self.control, self.device, self.precision = (
            field.arrays, control, device, precision
        )  # fmt: skip
        self._grid = times
        self._method = dict(method.bindings)
        self._tableau: dict[Any, Any] = {
            name: [np.array(row) for row in self._method[name]]
            for name in (rosenbrock.A, rosenbrock.C)
        } | {name: np.array(self._method[name]) for name in (rosenbrock.M, rosenbrock.ERROR)}
        self._shared = shared_arguments(field.arrays, control, times, device, "float64")
        bindings = bindings_of_arrays(field.arrays, len(field.parameters))
        n = field.arrays.size
        self._pattern = csc_array((n, n))  # where the Jacobian may differ from zero
        self._colours = np.zeros(n, np.int64)  # of its columns
        self._band: _Band | None = None
        self._is_compiled = False
        self._wait, self._idle = 0, 1  # Jacobians until the pattern is tried again
        self._blocks = 1 if field.arrays.in_place else -(-n // BLOCK)
        self._slopes = kernels.cpu_kernel(slopes_cpu, precision="float64", bindings=bindings)
        if not field.arrays.in_place:
            self._probe = kernels.cpu_kernel(probe_cpu, precision="float64", bindings=bindings)

    def run(self, initial: np.ndarray, parameters: np.ndarray, show: bool = False) -> Outcome:
        """Integrate trajectories from `initial` [unknown, trajectory]."""
        count = initial.shape[1]
        self._run = run_of(
            self._shared, self.device, "float64", initial, parameters, np.zeros(count),
            np.full(count, self._blocks),
        )  # fmt: skip
        outcome = Outcome.empty(
            self._grid.size, self.arrays.size, self.control, count, self.precision
        )

        def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
            try:
                with kernels.readable_errors():
                    self._follow(start, outcome)
            except (KeyboardInterrupt, Abandoned):
                outcome.status[start] = Status.NOT_RUN
                return False
            report(1)
            return True

        launch.run_chunks("trajectories", count, 1, work, unit="trajectories", show=show)
        outcome.states[..., outcome.status == Status.NOT_RUN] = np.nan
        return outcome

    def slopes(self, me: int, times: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Derivatives [row, unknown] of `states` at `times`."""
        found = np.empty_like(states)
        count = len(states) * self._blocks
        # To start threads takes longer than a few thousand derivatives.
        is_brief = self._is_compiled and states.size <= _BRIEF
        grain = count if is_brief else -(-count // (4 * self.device.core_count))
        self.device.run(self._slopes, count, self._run, np.int64(me), times, states, found,
                        grain=grain, is_brief=is_brief)  # fmt: skip
        self._is_compiled = True
        return found

    def _widen(self, me: int, t: float, first: np.ndarray) -> bool:
        """Add dependences near a state to the Jacobian's pattern; return whether it grew."""
        n = self.arrays.size
        rng = np.random.default_rng(0)
        # A state near the first one, and two others: derivatives that do not read are the same.
        near, far = (first + (1e-3 + size * np.abs(first)) * rng.random(n) for size in (1e-3, 0.5))
        time = np.array([t])

        def probe(edges: np.ndarray, firsts: np.ndarray, rows: np.ndarray) -> np.ndarray:
            found = np.zeros(rows.size, np.int64)
            for other in (far, np.full(n, np.nan)):
                state = near.copy()
                before = self.slopes(me, time, near[None])[0]
                blocks = edges.size - 1
                self.device.run(self._probe, blocks, self._run, np.int64(me), t, edges, firsts,
                                rows, state, before, other, found, grain=blocks)  # fmt: skip
            return found > 0

        known = self._pattern
        if self.arrays.in_place or n <= _SMALL:
            refuse_full(n)
            self._pattern = csc_array(np.ones((n, n)))
        else:
            self._pattern = csc_array(known + pattern_of(n, probe))
        more = self._pattern.nnz > known.nnz
        if more:
            self._colours = colours_of(self._pattern)
            self._band = _band_of(self._pattern) if n > _SMALL else None
        return more

    def _jacobian(self, me: int, t: float, y: np.ndarray, f: np.ndarray) -> csc_array:
        """The Jacobian at a state; its pattern grows where a branch reads what none did before."""
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
        return jacobian

    def _differences(
        self, me: int, t: float, y: np.ndarray, f: np.ndarray
    ) -> tuple[csc_array, bool]:
        """The Jacobian, and whether it says what moving all unknowns together does."""
        pattern, colours = self._pattern, self._colours
        count = int(colours.max()) + 1
        moved = y + np.sqrt(_EPSILON * np.maximum(_LEAST_MOVED, np.abs(y)))
        states = np.where(colours == np.arange(count)[:, None], moved, y)
        states = np.concatenate([states, moved[None]])
        changes = self.slopes(me, np.full(count + 1, t), states) - f
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
            if n <= _SMALL or jacobian.nnz > _FULL * n * n:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", LinAlgWarning)
                    factors = lu_factor(diagonal * np.eye(n) - jacobian.toarray())
                return lambda b: lu_solve(factors, b)
            return splu((diagonal * identity(n, format="csc") - jacobian).tocsc()).solve
        except (LinAlgWarning, RuntimeError):
            return None

    def _stages(
        self, me: int, t: float, h: float, y: np.ndarray, f: np.ndarray, jacobian: csc_array,
        by_time: np.ndarray,
    ) -> np.ndarray | None:  # fmt: skip
        """The stages u of a step [stage, unknown]; None if there is no such step."""
        method, tableau = self._method, self._tableau
        alpha, gammas = method[rosenbrock.ALPHA], method[rosenbrock.GAMMAS]
        solve = self._solver(jacobian, 1.0 / (h * method[rosenbrock.GAMMA]))
        if solve is None:
            return None
        u = np.zeros((len(alpha), y.size))
        for s in range(len(alpha)):
            slope = f
            if s > 0:
                inner = y + tableau[rosenbrock.A][s] @ u[:s]
                slope = self.slopes(me, np.array([t + alpha[s] * h]), inner[None])[0]
            b = slope + gammas[s] * h * by_time + tableau[rosenbrock.C][s] @ u[:s] / h
            if not np.isfinite(b).all():
                return None
            u[s] = solve(b)
        return u

    def _follow(self, me: int, outcome: Outcome) -> None:
        """Integrate one trajectory."""
        control, method, times = self.control, self._method, self._grid
        power = method[stepper.ERROR_ORDER]
        t, last, y = float(times[0]), float(times[-1]), self._run.initial[:, me].copy()
        f = self.slopes(me, np.array([t]), y[None])[0]
        outcome.states[0, :, me] = y
        finite = np.isfinite(y).all() and np.isfinite(f).all()
        outcome.status[me] = Status.DONE if finite else Status.NOT_FINITE
        h, previous, rejected, cursor, fresh = 0.0, _SMALLEST, False, 1, True
        while t < last and outcome.status[me] == Status.DONE:
            knots = self.arrays.knots[self.arrays.knots > t]
            goal = min(last, knots[0]) if knots.size else last
            if h == 0.0:
                h = min(self._first_step(me, t, goal - t, y, f), control.max_step)
            whole = h * (1 + 64 * _EPSILON) < goal - t
            size = h if whole else goal - t
            t1 = t + size if whole else goal
            if fresh:
                jacobian = self._jacobian(me, t, y, f)
                later = t + max(np.sqrt(_EPSILON) * size, min(size, 64 * _EPSILON * abs(t)))
                by_time = (self.slopes(me, np.array([later]), y[None])[0] - f) / (later - t)
            u = self._stages(me, t, size, y, f, jacobian, by_time)
            error = np.inf
            if u is not None:
                y1 = y + self._tableau[rosenbrock.M] @ u
                scale = control.atol + control.rtol * np.maximum(np.abs(y), np.abs(y1))
                error = float(np.sqrt(np.mean((self._tableau[rosenbrock.ERROR] @ u / scale) ** 2)))
            kept = fresh = error <= 1.0
            if kept and u is not None:
                cursor = self._save(cursor, me, (t, t1, y, y1, u), outcome)
                t, y = t1, y1
                f = self.slopes(me, np.array([t]), y[None])[0]
                outcome.taken[me] += 1
            else:
                outcome.rejected[me] += 1
            h = self._next(h, size, error, previous, rejected, power)
            previous, rejected = max(error, _SMALLEST) if kept else previous, not kept
            if t < last and not h > 4 * _EPSILON * abs(t):
                outcome.status[me] = Status.STEP_TOO_SMALL
            elif t < last and outcome.taken[me] + outcome.rejected[me] >= control.max_steps:
                outcome.status[me] = Status.TOO_MANY_STEPS

    def _next(
        self, h: float, size: float, error: float, previous: float, rejected: bool, power: float
    ) -> float:
        """Size of the step after one of `size`, of the `h` that was wanted."""
        kept = error <= 1.0
        least = max(error, 1e-12) if np.isfinite(error) else 1e12
        factor = (
            least ** (-0.7 / power) * previous ** (0.4 / power) if kept else least ** (-1 / power)
        )
        following = size * min(max(_SAFETY * factor, _LEAST), 1.0 if rejected else _MOST)
        following = max(following, h) if kept and size < h else following
        return min(following, self.control.max_step)

    def _first_step(self, me: int, t: float, span: float, y: np.ndarray, f: np.ndarray) -> float:
        """A step to begin with: as far as the slope would carry the state by a tolerance."""
        scale = self.control.atol + self.control.rtol * np.abs(y)
        size = float(np.sqrt(np.mean((f / scale) ** 2)))
        step = 0.5 / size if size > 0 and np.isfinite(size) else 1e-6 * span
        return min(span, max(step, 64 * _EPSILON * abs(t)))  # a shorter one would not pass time

    def _save(self, cursor: int, me: int, inside: tuple[Any, ...], outcome: Outcome) -> int:
        """Save the times in a step; the next time to save."""
        t, t1, y, y1, u = inside
        weights = np.array(self._method[stepper.DENSE])
        while cursor < self._grid.size and self._grid[cursor] <= t1:
            x = (self._grid[cursor] - t) / (t1 - t)
            powers = x ** np.arange(1, weights.shape[1] + 1)
            state = y1 if self._grid[cursor] == t1 else y + (weights @ powers) @ u
            outcome.states[cursor, :, me] = state
            cursor += 1
        return cursor


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
