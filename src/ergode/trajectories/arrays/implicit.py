"""Rosenbrock methods for fields of arrays: a loop on the host around compiled derivatives.

The method is that of `steppers.rosenbrock`; steps are chosen as in `adaptive.control`.  Linear
systems are solved by factors of a matrix (`matrices`), or without one (`krylov`); what they leave
belongs to the error of a step.  Numbers are float64, whatever the precision of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint, launch
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control, Outcome, with_room
from ergode.trajectories.arrays.conjugate_residuals import (
    ROUGH,
    allowed_residuals,
    shares_of_stages,
)
from ergode.trajectories.arrays.evaluator import Evaluator
from ergode.trajectories.arrays.group import LINEAR
from ergode.trajectories.arrays.krylov import Krylov, root_mean_square
from ergode.trajectories.arrays.launches import name_of
from ergode.trajectories.arrays.matrices import Matrices
from ergode.trajectories.arrays.rosenbrock import EXACT
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.methods import Method
from ergode.trajectories.steppers import rosenbrock, stepper

_EPSILON = float(np.finfo(float).eps)
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 5.0
_SMALLEST = 1e-4  # error of a step, below which all are alike
_COUNTS = "status", "taken", "rejected"


class Linear(Protocol):
    """Linear systems of a step, ``(diagonal - jacobian) x = b``."""

    longest: float  # step that the systems allow

    def linearise(self, me: int, t: float, y: np.ndarray, f: np.ndarray, scale: np.ndarray) -> None:
        """Take the Jacobian at a state, where the derivatives are `f`."""

    def shift(self, diagonal: float) -> bool:
        """Take another diagonal; whether the systems can be solved."""

    def solve(self, b: np.ndarray, allowed: float) -> tuple[np.ndarray, float] | None:
        """The solution and the size of its residual, `allowed` at most [tolerances]; or None."""

    def state(self) -> dict[str, np.ndarray]:
        """What it has before a Jacobian is taken."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""


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
        self._field = Evaluator(field, control, times, device)
        self.control, self.precision = control, precision
        self._grid, self._device = times, device
        self._method = dict(method.bindings)
        self._tableau: dict[Any, Any] = {
            name: [np.array(row) for row in self._method[name]]
            for name in (rosenbrock.A, rosenbrock.C)
        } | {name: np.array(self._method[name]) for name in (rosenbrock.M, rosenbrock.ERROR)}
        self._shares = shares_of_stages(self._method)
        self._linear: Linear = (
            Krylov(self._field, self._method[rosenbrock.GAMMA])
            if method.matrix_free
            else Matrices(self._field)
        )

    def run(self, initial: np.ndarray, parameters: np.ndarray, show: bool = False) -> Outcome:
        """Integrate trajectories from `initial` [unknown, trajectory]."""
        count = initial.shape[1]
        self._field.begin(initial, parameters)
        outcome = Outcome.empty(
            self._grid.size, self._field.size, self.control, count, self.precision
        )

        def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
            try:
                with (
                    kernels.readable_errors(),
                    checkpoint.single_run(name_of(start), self._device) as single,
                ):
                    self._follow(start, outcome, single)
            except (KeyboardInterrupt, Abandoned):
                outcome.status[start] = Status.NOT_RUN
                return False
            report(1)
            return True

        launch.run_chunks("trajectories", count, 1, work, unit="trajectories", show=show)
        outcome.states[..., outcome.status == Status.NOT_RUN] = np.nan
        return outcome

    def _stages(
        self, me: int, t: float, h: float, y: np.ndarray, f: np.ndarray, by_time: np.ndarray
    ) -> tuple[np.ndarray | None, float]:
        """The stages u of a step [stage, unknown], and the error at its end by linear systems.

        The stages are None if there is no such step.
        """
        method, tableau = self._method, self._tableau
        alpha, gammas, gamma = (
            method[name] for name in (rosenbrock.ALPHA, rosenbrock.GAMMAS, rosenbrock.GAMMA)
        )
        if not self._linear.shift(1.0 / (h * gamma)):
            return None, np.inf
        allowed = allowed_residuals(self._method, h, self._shares)
        u, error = np.zeros((len(alpha), y.size)), 0.0
        for s in range(len(alpha)):
            slope = f
            if s > 0:
                inner = y + tableau[rosenbrock.A][s] @ u[:s]
                slope = self._field.slopes(me, np.array([t + alpha[s] * h]), inner[None])[0]
            b = slope + gammas[s] * h * by_time + tableau[rosenbrock.C][s] @ u[:s] / h
            if not np.isfinite(b).all():
                return None, np.inf
            solution = self._linear.solve(b, allowed[s])
            if solution is None:
                return None, np.inf
            u[s] = solution[0]
            error += h * gamma * self._shares[s] * solution[1]
        return u, error

    def _follow(self, me: int, outcome: Outcome, single: checkpoint.SingleRun) -> None:
        """Integrate one trajectory; where a step was accepted, its state can be kept."""
        control, method, times = self.control, self._method, self._grid
        power = method[stepper.ERROR_ORDER]
        probes = method[stepper.PROBES] if control.step is None else ()
        t, last, y = float(times[0]), float(times[-1]), self._field.first(me)
        f = self._slope(me, t, y)
        outcome.states[0, :, me] = y
        log = [np.full(control.log_rows(y.size), np.nan)]
        log[0][: 1 + y.size] = t, *y
        finite = np.isfinite(y).all() and np.isfinite(f).all()
        outcome.status[me] = Status.DONE if finite else Status.NOT_FINITE
        h, previous, rejected, cursor, fresh = 0.0, _SMALLEST, False, 1, True
        # The number of steps of one size.
        count = 0
        if control.step is not None:
            count = int(plan_steps(last - t, control.step, 1, [], []).count[0])
        knots = self._field.arrays.knots if count == 0 else np.array([])
        mine = {"states": outcome.states, **{name: getattr(outcome, name) for name in _COUNTS}}

        def state() -> dict[str, Any]:
            own = {name: array[..., me] for name, array in mine.items()}
            logged = {"log": np.array(log)} if control.step_log else {}
            reals = {"reals": np.array([t, h, previous]), "cursor": cursor, "y": y, "f": f}
            return own | logged | reals | self._linear.state()

        if (found := single.state) is not None:
            for name, array in mine.items():
                array[..., me] = found[name]
            log = list(found["log"]) if control.step_log else log
            t, h, previous = map(float, found["reals"])
            cursor, y, f = int(found["cursor"]), found["y"], found["f"]
            self._linear.restore(found)
        while t < last and outcome.status[me] == Status.DONE:
            if fresh:
                single.boundary(state, (t - times[0]) / (last - times[0]))
            ahead = knots[knots > t]
            goal = min(last, ahead[0]) if ahead.size else last
            if count:
                step = int(outcome.taken[me]) + 1
                goal = last if step == count else times[0] + step * ((last - times[0]) / count)
                h = goal - t
            elif h == 0.0:
                h = min(self._first_step(me, t, goal - t, y, f), control.max_step)
            soonest = times[cursor]
            if rejected and probes and not control.powers:
                goal = min(goal, soonest)
            whole = h * (1 + 64 * _EPSILON) < goal - t
            size = h if whole else goal - t
            t1 = t + size if whole else goal
            if fresh:
                self._linear.linearise(me, t, y, f, self._scale(y))
                later = t + max(np.sqrt(_EPSILON) * size, min(size, 64 * _EPSILON * abs(t)))
                by_time = (self._slope(me, later, y) - f) / (later - t)
            u, error = self._stages(me, t, size, y, f, by_time)
            astray = False  # between the ends of the step
            if u is not None:
                y1 = y + self._tableau[rosenbrock.M] @ u
                scale = self._scale(np.maximum(np.abs(y), np.abs(y1)))
                estimate = root_mean_square(self._tableau[rosenbrock.ERROR] @ u / scale)
                # An error of the linear systems within its limit does not make a step shorter.
                error = estimate + error if error > 2 * LINEAR else estimate / (1 - error)
                if error <= 1.0 and (control.powers or soonest < t1):
                    missed = [self._missed_inside(x, me, t, size, y, u, scale) for x in probes]
                    error = max([error, *missed])
                    astray = error > 1.0
            kept = fresh = error <= 1.0 or (count > 0 and u is not None)
            if kept and u is not None:
                cursor = self._save(cursor, me, (t, t1, y, y1, u), outcome)
                if control.step_log:
                    inside = (np.array(method[stepper.DENSE]).T @ u).ravel()
                    log.append(np.array([t1, *y1, *([size, *inside] if control.powers else [])]))
                t, y = t1, y1
                f = self._slope(me, t, y)
                outcome.taken[me] += 1
            else:
                outcome.rejected[me] += 1
            if count:
                if not kept or not np.isfinite(y).all():
                    bad = u is None and np.isfinite(f).all()
                    outcome.status[me] = Status.INACCURATE if bad else Status.NOT_FINITE
                continue
            h = self._next(h, size, error, previous, rejected, power)
            if astray and not control.powers:
                h = max(h, soonest - t)  # where the step ends next
            previous, rejected = max(error, _SMALLEST) if kept else previous, not kept
            if t < last and not h > 4 * _EPSILON * abs(t):
                outcome.status[me] = (
                    Status.STEP_TOO_SMALL if np.isfinite(error) else Status.NOT_FINITE
                )
            elif t < last and outcome.taken[me] + outcome.rejected[me] >= control.max_steps:
                outcome.status[me] = Status.TOO_MANY_STEPS
        single.boundary(state, 1.0)
        if control.step_log:
            _keep(log, me, outcome)

    def _missed_inside(
        self, x: float, me: int, t: float, h: float, y: np.ndarray, u: np.ndarray,
        scale: np.ndarray,
    ) -> float:  # fmt: skip
        """Error of the dense output of a step at its fraction `x` (see `stepper`) [tolerances]."""
        method = self._method
        weights = np.array(method[stepper.DENSE])
        powers = np.arange(1, weights.shape[1] + 1)
        state = y + (weights @ x**powers) @ u
        slope = (weights @ (powers * x ** (powers - 1))) @ u / h
        defect = slope - self._slope(me, t + x * h, state)
        if not np.isfinite(defect).all():
            return np.inf
        solution = self._linear.solve(defect, ROUGH / (h * method[rosenbrock.GAMMA]))
        return np.inf if solution is None else root_mean_square(solution[0] / scale)

    def _slope(self, me: int, t: float, y: np.ndarray) -> np.ndarray:
        return self._field.slopes(me, np.array([t]), y[None])[0]

    def _scale(self, y: np.ndarray) -> np.ndarray:
        """Tolerances of the unknowns at a state."""
        if self.control.step is None:
            return np.asarray(self.control.atol + self.control.rtol * np.abs(y))
        return EXACT * (np.abs(y) + root_mean_square(y)) + np.finfo(float).tiny

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
        return min(following, self.control.max_step, self._linear.longest)

    def _first_step(self, me: int, t: float, span: float, y: np.ndarray, f: np.ndarray) -> float:
        """A step to begin with (see `adaptive.control.first_step`)."""
        scale = self._scale(y)
        d0, d1 = root_mean_square(y / scale), root_mean_square(f / scale)
        h = min(1e-6 * span if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, span)
        h = max(h, 64 * _EPSILON * abs(t))  # a shorter one would not pass time
        change = root_mean_square((self._slope(me, t + h, y + h * f) - f) / scale)
        steepest = max(d1, change / h)
        if not np.isfinite(steepest):
            step = 0.5 / d1 if d1 > 0.0 else 1e-6 * span
        else:
            tried = (0.01 / max(steepest, 1e-15)) ** (1 / self._method[stepper.ERROR_ORDER])
            step = min(100 * h, tried)
        return min(span, max(step, 64 * _EPSILON * abs(t)))

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


def _keep(log: list[np.ndarray], me: int, outcome: Outcome) -> None:
    """Keep the steps of a trajectory, in as many rows as they need."""
    outcome.step_log = with_room(outcome.step_log, max(len(log), len(outcome.step_log)))
    outcome.step_log[: len(log), :, me] = log
