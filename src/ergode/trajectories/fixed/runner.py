"""Trajectories of one field with one method on one device, in chunks that fit its memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.bundle import Precision
from ergode.core.compiler.language import UserFunction
from ergode.core.devices import Device, spans
from ergode.core.errors import PlanError
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.delays.history_ring import hermite_slope_weights, hermite_weights
from ergode.trajectories.delays.mesh import Steps
from ergode.trajectories.fixed.kernel import LANES, integrate_cpu, integrate_cuda
from ergode.trajectories.steppers.tableaus import Tableau, hermite_dense

_THREADS = 128
# Where a past is short enough, it is in shared memory: so many bytes of a trajectory leave a
# multiprocessor as many threads as its registers do.
_SHORT_THREADS, _SHORT_BYTES = 64, 448


def bindings_of(
    field: VectorField,
    tableau: Tableau,
    history: Callable[..., Any] | None,
    precision: Precision,
    jumps: bool = False,
    scheme: int = 0,
    noise_substeps: int = 1,
    tangents: int = 0,
) -> dict[str, Any]:
    """What a kernel is specialised to."""
    index = {name: i for i, name in enumerate(field.variables)}
    ringed = list(dict.fromkeys(variable for variable, _ in field.delays))
    # A cubic is as good as a method of order four, a quintic better than any here.
    points = (-1.0, 0.0, 1.0) if tableau.order > 4 else (0.0, 1.0)
    bindings = {
        "rhs": UserFunction(field.function),
        "VARIABLES": len(field.variables),
        "PARAMETERS": len(field.parameters),
        "DELAYED": tuple(index[variable] for variable in ringed),
        "PLACES": tuple(ringed.index(variable) for variable, _ in field.delays),
        "A": tableau.a,
        "B": tableau.b,
        "C": tableau.c,
        "DENSE": hermite_dense(tableau.b) if tableau.extra_c else tableau.dense,
        "POINTS": len(points),
        "STAGE_WEIGHTS": tuple(hermite_weights(c, points) for c in tableau.c),
        "BACK_VALUE": hermite_weights(-1.0, (0.0, 1.0, 2.0)),
        "BACK_SLOPE": hermite_slope_weights(-1.0, (0.0, 1.0, 2.0)),
        "JUMPS": jumps,
        "EPSILON": float(np.finfo(precision).eps),
        "HAS_HISTORY": history is not None,
        # Measured: more than this gains nothing, and a field of many variables compiles slowly.
        "AHEAD": 8 if len(field.variables) == 1 else 4,
        "TANGENTS": tangents,
    }
    if history is not None:
        bindings["history"] = UserFunction(history)
    bindings["SCHEME"] = scheme
    if scheme:
        assert field.diffusion is not None
        bindings.update(diffusion=UserFunction(field.diffusion), SUMMED=noise_substeps > 1)
    return bindings


def kernel_of(
    body: Callable[..., None], on_cuda: bool, precision: Precision, bindings: Mapping[str, Any]
) -> kernels.Kernel:
    """The kernel for these bindings."""
    make = kernels.cuda_kernel if on_cuda else kernels.cpu_kernel
    return make(body, precision=precision, bindings=bindings)


@dataclass(frozen=True)
class Growth:
    """How tangents grow (see `tangents`).

    Attributes
    ----------
    renewal : tuple of int, int and float
        The first step before which they are made orthonormal, after how many steps again, and the
        time since the origin from which growth counts.
    sums : ndarray, shape [tangent_count + 1, trajectory_count]
        Filled with the sums of the logarithms of their lengths, and the time that these are of.
    """

    renewal: tuple[int, int, float]
    sums: np.ndarray


class Ensemble:
    """Trajectories of a vector field.

    Parameters
    ----------
    field, history
        As for `integrate`, already checked.
    tableau : Tableau
        The method.
    times : ndarray, shape [time_count]
        Ascending grid [time]; trajectories start at ``times[0]``.
    device : Device
        Where to run.
    precision : {"float32", "float64"}
        Type of the state.
    jumps : bool
        Whether a history does not end where its trajectory begins.
    scheme : int
        Of `noise`.
    noise_substeps : int
        Increments of noise in a step.
    seed : int
        Of the noise.
    tangents : int
        Tangent vectors among the variables of the field (see `tangents`).
    """

    def __init__(
        self,
        field: VectorField,
        tableau: Tableau,
        history: Callable[..., Any] | None,
        *,
        times: np.ndarray,
        device: Device,
        precision: Precision = "float64",
        jumps: bool = False,
        scheme: int = 0,
        noise_substeps: int = 1,
        seed: int = 0,
        tangents: int = 0,
    ) -> None:
        self._source = np.uint64(seed), np.int64(noise_substeps)
        self.device = device
        self.precision = precision
        self.bindings = bindings_of(
            field, tableau, history, precision, jumps, scheme, noise_substeps, tangents
        )
        body = integrate_cuda if device.is_cuda else integrate_cpu
        self.least_lag = 2 * self.bindings["POINTS"] - 3 if field.delays else 0  # see `history`
        self.kernel = kernel_of(body, device.is_cuda, precision, self.bindings)
        self._origin = np.dtype(precision).type(times[0])
        self._times = device.put((times - times[0]).astype(precision))
        self._variable_count = len(field.variables)
        self._ring_width = 2 * len(self.bindings["DELAYED"])

    def integrate(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        steps: Steps,
        out: np.ndarray,
        status: np.ndarray,
        report: Callable[[int], None],
        growth: Growth | None = None,
    ) -> None:
        """Integrate every trajectory.

        Parameters
        ----------
        initial : ndarray, shape [variable_count, trajectory_count]
        parameters : ndarray, shape [parameter_count, trajectory_count]
        steps : Steps
        out : ndarray, shape [time_count, variable_count, trajectory_count]
            Filled with the state at every time.
        status : ndarray of uint8, shape [trajectory_count]
            Filled with how each trajectory ended.
        report : function
            Called with the number of trajectories done since the last call.
        growth : Growth, optional
            Of tangents.
        """
        count = out.shape[2]
        for start, stop in spans(count, self._chunk_size(count, int(steps.lags.max()))):
            chunk = slice(start, stop)
            arguments = self.arguments(initial, parameters, steps, chunk, growth)
            if self.device.is_cuda:
                launch, states, outcomes, sums = self.launcher(arguments)
                launch()
                out[..., chunk] = self.device.get(states)
                status[chunk] = self.device.get(outcomes)
                if growth is not None:
                    growth.sums[:, chunk] = self.device.get(sums)
                report(stop - start)
            else:
                sums = self._no_sums(1) if growth is None else growth.sums
                self._work((*arguments, out, status, sums), report)

    def arguments(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps, chunk: slice,
        growth: Growth | None = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """What a kernel is told of a chunk of trajectories, on the device."""
        put = self.device.put
        rows = (initial[:, chunk], parameters[:, chunk], steps.size[chunk])
        initial, parameters, sizes = (put(np.asarray(row, self.precision)) for row in rows)
        counts = put(steps.count[chunk])
        lags, breaks = put(steps.lags), put(steps.breaks)
        begin, every, since = (0, 1, 0.0) if growth is None else growth.renewal
        renewal = np.int64(begin), np.int64(every), np.dtype(self.precision).type(since)
        return (
            self._origin, self._times, lags, breaks, initial, parameters, sizes, counts,
            self._source, np.int64(chunk.start), renewal,
        )  # fmt: skip

    def _work(self, arguments: tuple[Any, ...], report: Callable[[int], None]) -> None:
        count, lanes = arguments[7].size, LANES

        def finished(start: int, stop: int) -> None:
            report(min(stop * lanes, count) - start * lanes)

        with kernels.readable_errors():
            blocks = -(-count // lanes)
            self.device.run(self.kernel, blocks, *arguments, finished=finished)

    def launcher(self, arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any, Any, Any]:
        """A function that starts the CUDA kernel, and what it fills: states, status and growth."""
        from ergode.core import cuda

        *model, counts, source, offset, renewal = arguments
        longest, count = int(self.device.get(model[2]).max()), counts.size
        kernel, threads = self.kernel_with(longest)
        ring = self.device.empty(self._ring_shape(longest, count), self.precision)
        shape = (self._times.size, self._variable_count, count)
        states = self.device.empty(shape, self.precision)
        outcomes = self.device.empty(count, np.uint8)
        sums = self.device.put(self._no_sums(count))

        def launch() -> None:
            with kernels.readable_errors():
                cuda.launch(
                    kernel.compiled("cuda"), -(-count // threads), threads,
                    (*model, counts, ring, source, offset, renewal, states, outcomes, sums),
                )  # fmt: skip

        return launch, states, outcomes, sums

    def _no_sums(self, count: int) -> np.ndarray:
        tangents = self.bindings["TANGENTS"]
        return np.zeros((tangents + 1, count if tangents else 1), self.precision)

    def kernel_with(self, longest: int) -> tuple[kernels.Kernel, int]:
        """The CUDA kernel for a longest delay of so many steps, and how many threads a block."""
        short = self._short_ring(longest)
        if not short:
            return self.kernel, _THREADS
        bindings = {**self.bindings, "SHORT": short}
        body = integrate_cuda
        return kernel_of(body, True, self.precision, bindings), _SHORT_THREADS

    def _short_ring(self, longest: int) -> tuple[int, ...]:
        """Slots, delayed variables and threads of a ring in shared memory, if so many fit."""
        delayed = self._ring_width // 2
        if delayed == 0 or self.bindings["TANGENTS"]:  # these are not made orthonormal there
            return ()
        most = _SHORT_BYTES // (2 * delayed * np.dtype(self.precision).itemsize)
        return (most, delayed, _SHORT_THREADS) if self._slot_count(longest) <= most else ()

    def _ring_shape(self, longest: int, count: int) -> tuple[int, ...]:
        if self._short_ring(longest):
            return 1, 1, 2, 1
        return self._slot_count(longest), max(1, self._ring_width // 2), 2, count

    def _slot_count(self, longest: int) -> int:
        return longest + self.bindings["POINTS"] + 2 * len(self.bindings["PLACES"])

    def _chunk_size(self, count: int, longest: int) -> int:
        """Trajectories to run together: all on a CPU, whose threads keep few rings at a time."""
        if not self.device.is_cuda:
            return count
        word = np.dtype(self.precision).itemsize
        slots = math.prod(self._ring_shape(longest, 1))
        rows = self._times.size * self._variable_count + self._variable_count
        each = word * (slots + rows + self.bindings["PARAMETERS"] + 1) + 9
        room = self.device.available_bytes()
        if room < each:
            raise PlanError(
                f"one trajectory needs {each / 1e9:.2f} GB for its history and times, but "
                f"{self.device.name} has {room / 1e9:.2f} GB free; use larger steps or fewer times"
            )
        return min(count, room // each)
