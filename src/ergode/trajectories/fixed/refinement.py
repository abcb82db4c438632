"""Fixed-step runs of many trajectories, with a given step or with step halving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ergode.core.calls import launch
from ergode.core.calls.resident import beside
from ergode.core.compiler.source import Precision
from ergode.core.devices.foreign import on_host
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import stacked
from ergode.trajectories.delays.mesh import Steps, plan_steps


class EqualSteps(Protocol):
    """An integrator of trajectories with fixed steps."""

    precision: Precision
    least_lag: int  # fewest steps in the shortest delay; zero without delays

    def integrate(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps, *, show: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """States [time, unknown, trajectory] and status of every trajectory."""


class Refinement:
    """Integrates all trajectories once, or repeatedly with smaller steps."""

    _HALVINGS = 12

    def __init__(
        self,
        field: VectorField,
        ensemble: EqualSteps,
        rows: Mapping[str, np.ndarray],
        count: int,
        grid: np.ndarray,
        show: bool,
    ) -> None:
        self._field, self._ensemble, self._rows = field, ensemble, rows
        self._count, self._grid, self._show = count, grid, show
        self.step = 0.0
        self.steps_taken = 0

    def with_step(self, step: float) -> tuple[np.ndarray, np.ndarray]:
        """States [time, variable, trajectory] and status of every trajectory."""
        return self._integrate(step, np.arange(self._count))

    def within(
        self, rtol: float, atol: float | np.ndarray, order: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """States and status, as `with_step`; halves each trajectory's step to meet the tolerance.

        The error estimate is that of Richardson extrapolation, for a method of this `order`.
        """
        span = float(self._grid[-1] - self._grid[0])
        step = span / 32 if span > 0 else 1.0
        for delay in self._delays:
            step = min(step, float(self._rows[delay].max()) / 8)
        out, status = self.with_step(step)
        if (status == Status.NOT_RUN).any():  # no trajectory has an error estimate yet
            raise KeyboardInterrupt
        todo = np.flatnonzero(status == Status.DONE)
        # An infinite state may result from too large a step: try smaller ones.
        todo = np.union1d(todo, np.flatnonzero(status == Status.NOT_FINITE))
        for _ in range(self._HALVINGS):
            if not todo.size:
                break
            step /= 2
            finer, outcome = self._integrate(step, todo)
            here = beside(out, todo)
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(finer - out[..., here]) / (2**order - 1)
                allowed = error <= beside(out, np.reshape(atol, (-1, 1))) + rtol * np.abs(finer)
            out[..., here] = finer
            status[todo] = outcome
            todo = todo[~on_host(allowed.all(axis=(0, 1)))]
            if (outcome == Status.NOT_RUN).any():  # trajectories above the tolerance: no result
                out[..., beside(out, todo)] = np.nan
                status[todo] = Status.NOT_RUN
                break
        unmet = todo[status[todo] == Status.DONE]
        status[unmet] = Status.INACCURATE
        return out, status

    @property
    def _delays(self) -> list[str]:
        """Parameters that are delays; fixed steps support constant delays only."""
        return [delay for _, delay in self._field.delays if isinstance(delay, str)]

    def _integrate(self, step: float, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        field, precision = self._field, self._ensemble.precision
        shape = (self._grid.size, field.size, which.size)
        launch.check_room(
            np.dtype(precision).itemsize * math.prod(shape),
            f"an array of states at {self._grid.size:,} times, for {which.size:,} trajectories,",
            "use fewer times or trajectories",
        )  # fmt: skip
        whole = which.size == self._count
        rows = {name: row if whole else row[..., which] for name, row in self._rows.items()}
        delays = self._delays
        span = float(self._grid[-1] - self._grid[0])
        steps: Steps = plan_steps(
            span, step, which.size, delays, [rows[d] for d in delays],
            max(2, self._ensemble.least_lag), 2 if self._ensemble.least_lag > 2 else 1,
        )  # fmt: skip
        self.step = float(steps.size.max())
        initial, parameters = (
            stacked(rows, names, which.size, precision)
            for names in (field.variables, field.parameters)
        )
        out, status = self._ensemble.integrate(initial, parameters, steps, show=self._show)
        self.steps_taken += int(steps.count.sum())
        return out, status
