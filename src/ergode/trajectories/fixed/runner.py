"""Runner of fixed-step methods: one field, one method, one device, chunks that fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint, launch, resident
from ergode.core.compiler.language import UserFunction, room_for
from ergode.core.compiler.source import Precision, Target
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.math.tableaus import Tableau, hermite_dense
from ergode.core.status import Status
from ergode.models.fields.inputs import Tables
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.delays import history_ring
from ergode.trajectories.delays.history_ring import hermite_slope_weights, hermite_weights
from ergode.trajectories.delays.mesh import Steps
from ergode.trajectories.fixed.cpu import LANE_COUNT, integrate_cpu
from ergode.trajectories.fixed.cuda import AHEAD, SHORT, integrate_cuda
from ergode.trajectories.fixed.kernel import RESUMES, Kept, Out, Run
from ergode.trajectories.fixed.pieces import in_pieces
from ergode.trajectories.fixed.tangents import TANGENTS
from ergode.trajectories.steppers import equations, explicit, noise, splitting, stepper
from ergode.trajectories.steppers.derivatives import separated
from ergode.trajectories.steppers.forcing import bindings_of_inputs

_THREADS = 128
# A history of at most this many bytes per trajectory is stored in shared memory.  With this limit,
# shared memory does not reduce the occupancy below the limit that registers set.
_SHORT_THREADS, _SHORT_BYTES = 64, 448


def bindings_of(
    field: VectorField,
    tableau: Tableau,
    history: Callable[..., Any] | None,
    precision: Precision,
    jumps: bool = False,
    scheme: int = 0,
    paths: noise.Paths = noise.OWN_PATHS,
    tangents: int = 0,
) -> dict[Any, Any]:
    """Bindings of the kernel for either target."""
    points = _points_of(tableau)
    bindings = {
        equations.rhs: UserFunction(field.function, (len(field.variables),), len(field.parameters)),
        equations.VARIABLES: len(field.variables),
        equations.PARAMETERS: room_for(len(field.parameters)),
        equations.EPSILON: float(np.finfo(precision).eps),
        explicit.B: tableau.b,
        explicit.C: tableau.c,
        history_ring.POINTS: len(points),
        history_ring.STAGE_WEIGHTS: tuple(hermite_weights(c, points) for c in tableau.c),
        history_ring.JUMPS: jumps,
        TANGENTS: tangents,
        noise.SCHEME: scheme,
        **bindings_of_inputs(field),
    }
    if tableau.kicks:
        bindings |= splitting.bindings_of(tableau.drifts, tableau.kicks, separated(field))
    if len(tableau.a) > 1:
        bindings[explicit.A] = tableau.a
    if field.delays:
        index = {name: i for i, name in enumerate(field.variables)}
        delayed = list(dict.fromkeys(variable for variable, _ in field.delays))
        bindings[history_ring.DELAYED] = tuple(index[variable] for variable in delayed)
        bindings[equations.PLACES] = tuple(delayed.index(variable) for variable, _ in field.delays)
        if len(points) == 3:
            bindings[history_ring.BACK_VALUE] = hermite_weights(-1.0, (0.0, 1.0, 2.0))
            bindings[history_ring.BACK_SLOPE] = hermite_slope_weights(-1.0, (0.0, 1.0, 2.0))
    if history is not None:
        bindings[history_ring.HAS_HISTORY] = True
        bindings[history_ring.initial_history] = UserFunction(history, (len(field.variables),))
    if scheme:
        assert field.diffusion is not None
        bindings |= noise.bindings_of(field, scheme, paths)
    else:
        dense = hermite_dense(tableau.b) if tableau.extra_c else tableau.dense
        bindings[stepper.DENSE] = dense
    return bindings


def _points_of(tableau: Tableau) -> tuple[float, ...]:
    """Positions of the interpolation points of the history, in steps."""
    # A cubic keeps order four; a quintic exceeds the order of every method here.
    return (-1.0, 0.0, 1.0) if tableau.order > 4 else (0.0, 1.0)


@dataclass(frozen=True)
class Growth:
    """Growth of tangent vectors (see `tangents.renew`)."""

    # The first step before which tangent vectors are orthonormalized, the number of steps between
    # two renewals, and the time relative to the origin from which growth is accumulated.
    renewal: tuple[int, int, float]
    # [tangent_count + 1, trajectory_count]: output: sums of the logarithms of the norms, then the
    # accumulated time.
    sums: np.ndarray


class Ensemble:
    """Trajectories of a vector field."""

    def __init__(
        self,
        field: VectorField,
        tableau: Tableau,  # the method
        history: Callable[..., Any] | None,
        *,
        # [time_count]: ascending grid [time]; trajectories start at ``times[0]``.
        times: np.ndarray,
        device: Device,  # device that runs the kernel
        precision: Precision = "float64",  # type of the state
        jumps: bool = False,  # whether the end of a history differs from the initial state
        scheme: int = 0,  # scheme of the noise (see `noise.SCHEME`)
        paths: noise.Paths = noise.OWN_PATHS,  # of the noise
        # Number of tangent vectors among the variables of the field (see `tangents`).
        tangents: int = 0,
    ) -> None:
        self._paths = paths
        self.device = device
        self.precision = precision
        self.tangents = tangents
        self.bindings = bindings_of(
            field, tableau, history, precision, jumps, scheme, paths, tangents
        )
        self.resumes = checkpoint.is_asked()
        if self.resumes:
            self.bindings[RESUMES] = True
        self.field = field
        self.points = len(_points_of(tableau))
        self.least_lag = 2 * self.points - 3 if field.delays else 0  # see `history_ring`
        self.variable_count = len(field.variables)
        self.parameter_count = len(field.parameters)
        self.delay_count = len(field.delays)
        self.delayed_count = len({variable for variable, _ in field.delays})
        self._origin = np.dtype(precision).type(times[0])
        self._tables = Tables(field.parameters, device, precision)
        self._times = device.put((times - times[0]).astype(precision))
        self._threads = _THREADS_OF[device.target](self)

    @property
    def time_count(self) -> int:
        """Number of times of the grid."""
        return int(self._times.size)

    def kernel(self, more: dict[Any, Any] | None = None) -> kernels.Kernel:
        """Kernel for both targets; `more` holds additional bindings of one target."""
        return kernels.kernel(
            integrate_cpu, integrate_cuda, precision=self.precision,
            bindings={**self.bindings, **(more or {})},
        )  # fmt: skip

    def integrate(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        steps: Steps,
        growth: Growth | None = None,
        show: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Integrate every trajectory.

        Parameters
        ----------
        initial : ndarray, shape [variable_count, trajectory_count]
        parameters : ndarray, shape [parameter_count, trajectory_count]
        steps : Steps
        growth : Growth, optional
            Growth of tangent vectors.
        show : bool
            Show progress on standard error.

        Returns
        -------
        states : ndarray, shape [time_count, variable_count, trajectory_count]
            NaN for trajectories that an interruption (Ctrl-C) prevented. On the device where
            results stay.
        status : ndarray of uint8, shape [trajectory_count]
            How each trajectory ended.
        """
        count = initial.shape[1]
        out = Out(
            resident.full((self.time_count, self.variable_count, count), np.nan, self.precision),
            np.full(count, Status.NOT_RUN, np.uint8),
            self.no_sums(count) if growth is None else growth.sums,
        )

        def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
            nonlocal out
            chunk = slice(start, stop)
            run = self.arguments(initial, parameters, steps, chunk, growth)
            try:
                with kernels.readable_errors(self.field.title):
                    self._threads.integrate(run, out, chunk, report)
            except Abandoned as error:  # threads that still run write to the old arrays
                out = Out(out.states.copy(), out.status.copy(), out.exponents)
                for first, last in error.spans:
                    out.status[first * LANE_COUNT : last * LANE_COUNT] = Status.NOT_RUN
            except KeyboardInterrupt:
                if self.resumes:  # all of them are under way
                    out.status[chunk] = Status.NOT_RUN
                return False
            return not (out.status[chunk] == Status.NOT_RUN).any()

        label = "trajectories"
        longest = int(steps.lags.max())
        size, least = self._threads.chunk_size(count, longest), launch.least_chunk(self.device)
        if self.resumes:
            least = 0  # chunks do not depend on how long they take
        launch.run_chunks(label, count, size, work, unit=label, show=show, least=least)
        missing = np.flatnonzero(out.status == Status.NOT_RUN)
        if missing.size:
            out.states[..., resident.beside(out.states, missing)] = np.nan
        return out.states, out.status

    def arguments(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps, chunk: slice,
        growth: Growth | None = None,
    ) -> Run:  # fmt: skip
        """Kernel inputs of a chunk of trajectories, on the device."""
        put = self.device.put
        rows = (initial[:, chunk], self._tables.placed(parameters[:, chunk]), steps.size[chunk])
        initial, parameters, sizes = (put(np.asarray(row, self.precision)) for row in rows)
        begin, every, since = (0, 1, 0.0) if growth is None else growth.renewal
        renewal = np.int64(begin), np.int64(every), np.dtype(self.precision).type(since)
        return Run(
            self._origin, self._times, put(steps.lags), put(steps.breaks), initial, parameters,
            sizes, put(steps.count[chunk]), self._paths.source,
            np.int64(self._paths.first + chunk.start), renewal,
        )  # fmt: skip

    def slot_count(self, longest: int) -> int:
        """Slots of a ring for a longest delay of `longest` steps (see `history_ring`)."""
        return longest + self.points + 2 * self.delay_count

    def empty_kept(self, longest: int, count: int) -> Kept:
        """Arrays for the state of trajectories between two launches."""
        empty, slots = self.device.empty, self.slot_count(longest) if self.delay_count else 1
        return Kept(
            np.int64(0), np.int64(0),
            empty((slots, max(1, self.delayed_count), 2, count), self.precision),
            empty((self.variable_count, count), self.precision), empty(count, np.int64),
        )  # fmt: skip

    def state_arrays(self, out: Out, kept: Kept) -> dict[str, Any]:
        """Arrays that are the state of trajectories between two launches, by name."""
        found = {
            "states": out.states, "status": out.status, "position": kept.state,
            "cursor": kept.cursor,
        }  # fmt: skip
        if self.delay_count:
            found["ring"] = kept.ring
        if self.tangents:
            found["exponents"] = out.exponents
        return found

    def no_sums(self, count: int) -> np.ndarray:
        """Zeros for `Growth.sums`."""
        return np.zeros((self.tangents + 1, count if self.tangents else 1), self.precision)


class CPUThreads:
    """CPU threads, each with LANES trajectories at once."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._device, self._ensemble = ensemble.device, ensemble
        self._kernel = ensemble.kernel()

    def chunk_size(self, count: int, longest: int) -> int:
        """Trajectories per chunk: all, since a thread stores only the rings of its lanes."""
        return count

    def integrate(self, run: Run, out: Out, chunk: slice, report: Callable[[int], None]) -> None:
        """Integrate all trajectories."""
        count = run.counts.size

        def finished(start: int, stop: int) -> None:
            report(min(stop * LANE_COUNT, count) - start * LANE_COUNT)

        ensemble = self._ensemble
        blocks = -(-count // LANE_COUNT)
        if ensemble.resumes:
            last = int(run.counts.max())
            kept = ensemble.empty_kept(int(run.lags.max()), blocks * LANE_COUNT)
            in_pieces(
                self._device, named(chunk), last, kept, ensemble.state_arrays(out, kept),
                lambda kept: self._launch(run, out, kept, lambda start, stop: None),
            )  # fmt: skip
            report(count)
            return
        self._launch(run, out, (), finished)

    def _launch(self, run: Run, out: Out, kept: Any, finished: Callable[[int, int], None]) -> None:
        blocks = -(-run.counts.size // LANE_COUNT)
        self._device.prepare(self._kernel, run, out, kept)
        grain = -(-blocks // (8 * self._device.core_count))
        self._device.run(self._kernel, blocks, run, out, kept, grain=grain, finished=finished)


class CUDAThreads:
    """CUDA threads, each with one trajectory."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        # Measured: larger values do not run faster, and many variables make compiling slow.
        self._ahead = 8 if ensemble.variable_count == 1 else 4

    def chunk_size(self, count: int, longest: int) -> int:
        """Trajectories per chunk: as many as fit in device memory."""
        ensemble = self._ensemble
        word = np.dtype(ensemble.precision).itemsize
        slots = math.prod(self._ring_shape(longest, 1))
        rows = (ensemble.time_count + 1) * ensemble.variable_count
        each = word * (slots + rows + ensemble.parameter_count + 1) + 9
        return launch.count_that_fits(
            ensemble.device, each, "one trajectory, with its history and times,",
            "use larger steps or fewer times",
        )  # fmt: skip

    def integrate(self, run: Run, out: Out, chunk: slice, report: Callable[[int], None]) -> None:
        """Integrate a chunk of trajectories."""
        ensemble, device = self._ensemble, self._ensemble.device
        longest, count = int(device.get(run.lags).max()), run.counts.size
        kernel, threads = self.kernel_with(longest)
        shape = (ensemble.time_count, ensemble.variable_count, count)
        filled = Out(
            device.empty(shape, ensemble.precision), device.empty(count, np.uint8),
            device.put(ensemble.no_sums(count)),
        )  # fmt: skip

        def launch(kept: Kept) -> None:
            device.launch(kernel, -(-count // threads), threads, run, filled, kept)

        if ensemble.resumes:
            last = int(device.get(run.counts).max())
            kept = ensemble.empty_kept(longest, count)
            arrays = ensemble.state_arrays(filled, kept)
            in_pieces(device, named(chunk), last, kept, arrays, launch)
        else:
            ring = device.empty(self._ring_shape(longest, count), ensemble.precision)
            none = device.empty((1, 1), ensemble.precision), device.empty(1, np.int64)
            launch(Kept(np.int64(0), np.int64(0), ring, *none))
        resident.store(device, filled.states, out.states, (..., chunk))
        out.status[chunk] = device.get(filled.status)
        if ensemble.tangents:
            out.exponents[:, chunk] = device.get(filled.exponents)
        report(count)

    def kernel_with(self, longest: int) -> tuple[kernels.Kernel, int]:
        """Kernel and threads per block for a longest delay of `longest` steps."""
        short = self._short_ring(longest)
        more = {AHEAD: self._ahead, **({SHORT: short} if short else {})}
        return self._ensemble.kernel(more), _SHORT_THREADS if short else _THREADS

    def _short_ring(self, longest: int) -> tuple[int, ...]:
        """Slots, delayed variables and threads of a ring in shared memory, if it fits; else ()."""
        ensemble = self._ensemble
        delayed = ensemble.delayed_count
        if delayed == 0 or ensemble.tangents or ensemble.resumes:
            return ()  # tangents and the next launch need the ring in global memory
        most = _SHORT_BYTES // (2 * delayed * np.dtype(ensemble.precision).itemsize)
        return (most, delayed, _SHORT_THREADS) if self._slot_count(longest) <= most else ()

    def _ring_shape(self, longest: int, count: int) -> tuple[int, ...]:
        if self._short_ring(longest):
            return 1, 1, 2, 1
        return self._slot_count(longest), max(1, self._ensemble.delayed_count), 2, count

    def _slot_count(self, longest: int) -> int:
        return self._ensemble.slot_count(longest)


def named(chunk: slice) -> str:
    """Name of the trajectories of a chunk, whose state is kept."""
    return f"trajectories {chunk.start} to {chunk.stop - 1} with fixed steps"


_THREADS_OF: dict[Target, type[CPUThreads | CUDAThreads]] = {"cpu": CPUThreads, "cuda": CUDAThreads}
