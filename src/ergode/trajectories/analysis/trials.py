"""States of trajectories, and their derivatives by estimated quantities, at points of a search.

The derivatives are those of the variational equations.  Where these are not known, as for a delay,
they are central differences: two more trajectories for each quantity, in the same ensemble.  The
difference of a result with the relative error e over a step of e^(1/3) has an error of e^(2/3).

W. H. Press et al., "Numerical Recipes", 3rd ed. (2007), chapter 5.7, for the step.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.errors import FailureWarning, PlanError
from ergode.core.status import Status
from ergode.models.fields.vector_field import VectorField
from ergode.models.sweep import Grid, Layout
from ergode.trajectories.analysis.sensitivities import Variational
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.integrate import integrate

if TYPE_CHECKING:
    import xarray

# Differences of a quantity near zero are taken over this part of its unit.
_NEAR_ZERO = 0.01


class Trial:
    """Runs at values of the estimated quantities."""

    def __init__(
        self, field: VectorField, names: Sequence[str], events: Sequence[ZeroCrossing],
        layout: Layout, given: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any],
        units: np.ndarray,  # [quantity]: size of each quantity
        limits: tuple[np.ndarray, np.ndarray],  # least and largest value of each
    ) -> None:  # fmt: skip
        self._names, self._layout, self._given, self._options = names, layout, given, options
        self._field, self._events, self._units, self._limits = field, events, units, limits
        self.count = 0
        self.derivatives = "variational equations"
        self._variational: Variational | None = None
        try:
            self._variational = Variational(field, names, events)
        except PlanError as reason:
            self.derivatives = f"differences: {reason}"

    @property
    def width(self) -> int:
        """How many states a point of the search takes, for each state of the field."""
        return 1 + len(self._names) * (1 if self._variational else 2)

    def at(self, point: np.ndarray) -> xarray.Dataset:
        """States at one point, with the dims that the user gave."""
        now = dict(zip(self._names, point.tolist(), strict=True))

        def changed(values: Mapping[str, Any]) -> Mapping[str, Any]:
            new = {name: now.get(name, value) for name, value in values.items()}
            return Grid(new) if isinstance(values, Grid) else new

        return self._integrate({what: changed(values) for what, values in self._given.items()})

    def together(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States [point, <swept dims>, time, variable], sensitivities, and which points fail."""
        self.count += len(points)
        if self._variational is not None:
            return self._run(points)
        count, size = points.shape
        precision = np.finfo(self._options["precision"]).eps
        error = max(self._options["rtol"] or 0.0, 100.0 * float(precision))
        width = np.cbrt(error) * np.maximum(np.abs(points), _NEAR_ZERO * self._units)
        ends = points[:, None, None] + np.eye(size)[:, None] * (
            width[:, None, None] * np.array([-1.0, 1.0])[:, None]
        )
        ends = np.clip(ends, *self._limits)  # [point, quantity, side, quantity]
        every = np.concatenate([points[:, None], ends.reshape(count, 2 * size, size)], axis=1)
        states, _, fails = self._run(every.reshape(-1, size))
        states = states.reshape(count, 1 + 2 * size, *states.shape[1:])
        sides = states[:, 1:].reshape(count, size, 2, *states.shape[2:])
        ways = np.einsum("pksk->pks", ends)
        ways = (ways[..., 1] - ways[..., 0]).reshape(count, size, *[1] * (sides.ndim - 3))
        slopes = np.moveaxis((sides[:, :, 1] - sides[:, :, 0]) / ways, 1, -1)
        fails = np.any(fails.reshape(count, -1), axis=1)
        return states[:, 0], slopes, fails

    def _run(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count, each = len(points), self._layout.count
        now = dict(zip(self._names, np.repeat(points.T, each, axis=1), strict=True))

        def column(name: str) -> np.ndarray:
            return now[name] if name in now else np.tile(self._layout.rows[name], count)

        field = self._field
        names = {"initial": field.variables, "parameters": field.parameters}
        columns = {what: {name: column(name) for name in some} for what, some in names.items()}
        found = self._integrate(columns)
        states, slopes, status = (
            found[name].values.reshape(count, *self._layout.shape, *found[name].shape[1:])
            for name in ("state", "sensitivity" if self._variational else "state", "status")
        )
        return states, slopes, (status != Status.DONE).reshape(count, -1).any(axis=1)

    def _integrate(self, given: Mapping[str, Mapping[str, Any]]) -> xarray.Dataset:
        every: dict[str, Any] = {**given, **self._options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FailureWarning)
            if self._variational is not None:
                return self._variational.integrate(**every)
            return integrate(self._field, events=self._events, record=0, **every)
