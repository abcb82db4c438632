"""Derivatives of a field of arrays for a host that integrates, on the threads of a CPU."""

from __future__ import annotations

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.group import TEAM
from ergode.models.fields.inputs import Tables
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.arrays.equations import BLOCK, bindings_of_arrays
from ergode.trajectories.arrays.runner import run_of, shared_arguments
from ergode.trajectories.arrays.slopes import probe_cpu, slopes_cpu, windows_cpu

_BRIEF = 2**15  # derivatives that one thread computes at once


class Evaluator:
    """Derivatives of one trajectory after the other, in float64.

    Parameters
    ----------
    field, control, times, device
        As for `integrate`, already checked.
    """

    def __init__(
        self, field: VectorField, control: Control, times: np.ndarray, device: Device
    ) -> None:
        assert field.arrays is not None
        self.arrays, self.size, self._device = field.arrays, field.arrays.size, device
        self._shared = shared_arguments(field.arrays, control, times, device, "float64")
        bindings = bindings_of_arrays(field.arrays, len(field.parameters))
        self._tables = Tables(field.parameters, device, "float64")
        self._blocks = 1 if field.arrays.in_place else -(-self.size // BLOCK)
        self._is_compiled = False
        self._slopes = kernels.cpu_kernel(
            slopes_cpu, precision="float64", bindings={**bindings, TEAM: True}
        )
        if not field.arrays.in_place:
            self._probe, self._windows = (
                kernels.cpu_kernel(body, precision="float64", bindings=bindings)
                for body in (probe_cpu, windows_cpu)
            )

    def begin(self, initial: np.ndarray, parameters: np.ndarray) -> None:
        """Take the trajectories that begin at `initial` [unknown, trajectory]."""
        count = initial.shape[1]
        self._run = run_of(
            self._shared, self._device, "float64", initial, self._tables.placed(parameters),
            np.zeros(count), np.full(count, self._blocks),
        )  # fmt: skip

    def first(self, me: int) -> np.ndarray:
        """The state at which trajectory `me` begins."""
        return np.array(self._run.initial[:, me])

    def slopes(self, me: int, times: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Derivatives [row, unknown] of `states` at `times`."""
        found = np.empty_like(states)
        count = len(states) * self._blocks
        # To start threads takes longer than a few thousand derivatives.
        is_brief = self._is_compiled and states.size <= _BRIEF
        grain = count if is_brief else -(-count // (4 * self._device.core_count))
        self._device.run(self._slopes, count, self._run, np.int64(me), times, states, found,
                         grain=grain, is_brief=is_brief)  # fmt: skip
        self._is_compiled = True
        return found

    def differs(
        self, me: int, t: float, edges: np.ndarray, firsts: np.ndarray, rows: np.ndarray,
        state: np.ndarray, before: np.ndarray, other: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Which derivatives differ as blocks of unknowns do (see `slopes.probe_cpu`)."""
        found = np.zeros(rows.size, np.int64)
        blocks = edges.size - 1
        self._device.run(self._probe, blocks, self._run, np.int64(me), t, edges, firsts, rows,
                         state, before, other, found, grain=blocks)  # fmt: skip
        return found > 0

    def windows(
        self, me: int, t: float, states: np.ndarray, reach: int, inside: bool
    ) -> np.ndarray:
        """What derivatives read of unknowns in reach (see `slopes.windows_cpu`)."""
        near, *others = states
        found = np.zeros((self.size, len(self.arrays.shapes) + 1, 2 * reach + 1), np.uint8)
        cells, state = self.arrays.shapes[0][0], np.empty(self.size)
        for other in others:
            self._device.run(
                self._windows, cells, self._run, np.int64(me), t, near, other, state,
                np.int64(reach), np.int64(inside), found, grain=cells, is_brief=True,
            )  # fmt: skip
        return found
