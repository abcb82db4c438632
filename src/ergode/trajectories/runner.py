"""Runs of `adaptive` for many trajectories: their arrays, in chunks that fit a device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device, spans
from ergode.core.errors import PlanError
from ergode.core.machine import Formula
from ergode.core.source import Precision
from ergode.core.status import Status
from ergode.models.vector_field import VectorField
from ergode.trajectories import adaptive
from ergode.trajectories.derivatives import bindings_of_derivatives
from ergode.trajectories.ensemble import kernel_of
from ergode.trajectories.events import Event, bindings_of_events
from ergode.trajectories.methods import Method
from ergode.trajectories.observables import bindings_of_observables

_THREADS = 128
# Trajectories that a CPU thread takes at a time: enough to keep its lanes full.
_GRAIN = 16 * adaptive.LANES


@dataclass(frozen=True)
class Control:
    """How steps are chosen, and what is watched on the way.

    Attributes
    ----------
    rtol, atol : float
        Tolerances of a step.
    step : float or None
        Size of all steps; chosen by the tolerances if None.
    largest_step : float
        Largest step [time].
    most_steps : int
        Steps, those tried in vain too, after which a trajectory is given up.
    observe_from : float
        Time from which events and observables count.
    events, observables : sequence
    recorded : int
        Hits of an event that are kept, the last ones.
    """

    rtol: float
    atol: float
    step: float | None
    largest_step: float
    most_steps: int
    observe_from: float
    events: Sequence[Event]
    observables: Sequence[Any]
    recorded: int


@dataclass
class Outcome:
    """What became of trajectories.

    Attributes
    ----------
    states : ndarray, shape [time_count, variable_count, trajectory_count]
    hit_counts : ndarray of int64, shape [event_count, trajectory_count]
    hits : ndarray, shape [event_count, recorded, 1 + variable_count, trajectory_count]
        Time and state; the place of a hit is its number modulo `recorded`.
    observed : ndarray, shape [observable_count, trajectory_count]
    status : ndarray of uint8, shape [trajectory_count]
    taken, rejected : ndarray of int64, shape [trajectory_count]
        Steps that were kept, and those that were not.
    """

    states: np.ndarray
    hit_counts: np.ndarray
    hits: np.ndarray
    observed: np.ndarray
    status: np.ndarray
    taken: np.ndarray
    rejected: np.ndarray

    @classmethod
    def empty(
        cls, times: int, variables: int, control: Control, count: int, precision: Precision
    ) -> Outcome:
        """Outcome of trajectories that have not been run."""
        events, kept = len(control.events), control.recorded if control.events else 0
        return cls(
            np.full((times, variables, count), np.nan, precision),
            np.zeros((events, count), np.int64),
            np.full((events, kept, 1 + variables, count), np.nan, precision),
            np.full((len(control.observables), count), np.nan, precision),
            np.full(count, Status.NOT_RUN, np.uint8),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of them, in the order a kernel takes them."""
        return (
            self.states, self.hit_counts, self.hits, self.observed, self.status, self.taken,
            self.rejected,
        )  # fmt: skip

    @property
    def bytes_each(self) -> int:
        """Bytes of one trajectory."""
        return sum(array.nbytes for array in self.arrays()) // max(1, self.status.size)

    def put(self, where: Any, other: Outcome) -> None:
        """Put other trajectories' outcomes in the places `where`."""
        for mine, theirs in zip(self.arrays(), other.arrays(), strict=True):
            mine[..., where] = theirs


def bindings_of(
    field: VectorField, method: Method, control: Control, precision: Precision
) -> dict[str, Any]:
    """What a kernel of `adaptive` is specialised to."""
    exact = bindings_of_derivatives(field) if method.stiff else {}
    return {
        **method.bindings,
        **exact,
        # Newton's method has converged where what is left is far below any tolerance.
        "NEWTON": 1e-11 if precision == "float64" else 1e-5,
        "rhs": Formula(field.function),
        "VARIABLES": len(field.variables),
        "PARAMETERS": len(field.parameters),
        "PLACES": (),
        "EPSILON": float(np.finfo(precision).eps),
        "ADAPTS": control.step is None,
        **bindings_of_events(control.events, field, control.recorded),
        **bindings_of_observables(control.observables, field),
    }


class Runner:
    """Trajectories of a vector field with a method of `methods`, on one device."""

    def __init__(
        self,
        field: VectorField,
        method: Method,
        control: Control,
        *,
        times: np.ndarray,
        device: Device,
        precision: Precision,
    ) -> None:
        self.device, self.precision, self.control = device, precision, control
        self._times = device.put(times.astype(precision))
        self._variable_count = len(field.variables)
        body = adaptive.integrate_cuda if device.is_cuda else adaptive.integrate_cpu
        bindings = bindings_of(field, method, control, precision)
        self.kernel = kernel_of(body, device.is_cuda, precision, bindings)

    def at(self, times: np.ndarray) -> Runner:
        """The same for other times."""
        other = copy.copy(self)
        other._times = self.device.put(times.astype(self.precision))
        return other

    def arguments(self, initial: np.ndarray, parameters: np.ndarray) -> tuple[Any, ...]:
        """What a kernel is told of trajectories, on the device."""
        control, put = self.control, self.device.put
        kind = np.dtype(self.precision).type
        count = initial.shape[1]
        size = 0.0 if control.step is None else control.step
        return (
            self._times,
            put(initial.astype(self.precision, copy=False)),
            put(parameters.astype(self.precision, copy=False)),
            put(np.full(count, size, self.precision)),
            kind(control.rtol),
            kind(control.atol),
            kind(control.largest_step),
            kind(control.observe_from),
            np.int64(control.most_steps),
        )

    def integrate(
        self, initial: np.ndarray, parameters: np.ndarray, report: Callable[[int], None]
    ) -> Outcome:
        """Integrate trajectories from their `initial` [variable, trajectory]."""
        count = initial.shape[1]
        sizes = self._times.size, self._variable_count
        outcome = Outcome.empty(*sizes, self.control, count, self.precision)
        if not self.device.is_cuda:

            def finished(start: int, stop: int) -> None:
                report(stop - start)

            with kernels.readable_errors():
                self.device.run(
                    self.kernel, count, *self.arguments(initial, parameters), *outcome.arrays(),
                    grain=_grain(count, self.device.core_count), finished=finished,
                )  # fmt: skip
            return outcome
        each = outcome.bytes_each + (initial.shape[0] + parameters.shape[0] + 1) * 8
        room = self.device.available_bytes()
        if room < each:
            raise PlanError(
                f"one trajectory needs {each / 1e9:.2f} GB for its times and events, but "
                f"{self.device.name} has {room / 1e9:.2f} GB free; use fewer times"
            )
        for start, stop in spans(count, min(count, room // each)):
            chunk = slice(start, stop)
            launch, arrays = self.launcher(initial[:, chunk], parameters[:, chunk])
            launch()
            for mine, theirs in zip(outcome.arrays(), arrays, strict=True):
                if mine.size:
                    mine[..., chunk] = self.device.get(theirs)
            report(stop - start)
        return outcome

    def launcher(
        self, initial: np.ndarray, parameters: np.ndarray
    ) -> tuple[Callable[[], None], list[Any]]:
        """A function that starts the CUDA kernel, and the arrays it fills."""
        from ergode.core import cuda

        count = initial.shape[1]
        arguments = self.arguments(initial, parameters)
        sizes = self._times.size, self._variable_count
        empty = Outcome.empty(*sizes, self.control, count, self.precision)
        arrays = [
            self.device.put(array)
            if array.size
            else self.device.empty((1,) * array.ndim, array.dtype)
            for array in empty.arrays()
        ]

        def launch() -> None:
            with kernels.readable_errors():
                cuda.launch(
                    self.kernel.compiled("cuda"), -(-count // _THREADS), _THREADS,
                    (*arguments, *arrays),
                )  # fmt: skip

        return launch, arrays


def _grain(count: int, threads: int) -> int:
    even = -(-count // (8 * threads))
    return max(1, min(count, max(even, _GRAIN if count > _GRAIN * threads else even)))


def chronological(counts: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """Hits in the order they happened, the missing ones last; kept ones go round in `hits`."""
    kept = hits.shape[1]
    if kept == 0:
        return hits
    begin = np.where(counts > kept, counts % kept, 0)  # [event, trajectory]
    order = (np.arange(kept)[None, :, None] + begin[:, None, :]) % kept
    return np.take_along_axis(hits, order[:, :, None, :], axis=1)


def control_of(options: Mapping[str, Any]) -> Control:
    """A `Control` of what differs from the usual."""
    usual: dict[str, Any] = {
        "rtol": 1e-6, "atol": 1e-9, "step": None, "largest_step": np.inf, "most_steps": 1_000_000,
        "observe_from": -np.inf, "events": (), "observables": (), "recorded": 0,
    }  # fmt: skip
    return Control(**{**usual, **options})
