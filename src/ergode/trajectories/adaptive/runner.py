"""Runner of adaptive methods: arrays of many trajectories, in chunks that fit on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint, launch, resident
from ergode.core.compiler.source import Precision, Target
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.models.fields.delay import Delay
from ergode.models.fields.inputs import Tables
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.arguments import Out, Run, Storage
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.kernel import integrate_cpu, integrate_cuda
from ergode.trajectories.adaptive.lanes import BLOCK_COUNT, LANE_COUNT
from ergode.trajectories.adaptive.outcome import Control, Outcome
from ergode.trajectories.adaptive.resume import RESUMES, Kept, in_launches, rows_of
from ergode.trajectories.delays import segments
from ergode.trajectories.delays.history import InitialHistory
from ergode.trajectories.delays.mesh import Mesh, plan_mesh
from ergode.trajectories.methods import Method
from ergode.trajectories.steppers.forcing import level_of
from ergode.trajectories.steppers.inside_step import EVENTS
from ergode.trajectories.steppers.noise import OWN_PATHS, Paths
from ergode.trajectories.steppers.observing import SEEN
from ergode.trajectories.tolerances import cell_of_noise

_THREADS = 128
# Trajectories in one work item of a CPU thread: enough to keep its lanes full.
_GRAIN = 16 * LANE_COUNT
# Capacity for breakpoints of a trajectory on its own mesh: with one delay, and with several, since
# every sum of delays makes a breakpoint.
_BREAKPOINTS, _MANY_BREAKPOINTS = 32, 64
# Largest factor by which this capacity is increased when a breakpoint was overwritten.
_MOST_FACTOR = 256
# Cells per longest delay: initial and largest number.  The mesh is refined at most 14 times.
_CELLS, _REFINEMENTS, _MOST_CELLS = 8, 14, 2**16


class Runner:
    """Integrates trajectories of a vector field with one method of `methods` on one device.

    `patience` is the most steps of a trajectory beyond those that the cells of its history take.
    """

    def __init__(
        self,
        field: VectorField,
        method: Method,
        control: Control,
        *,
        times: np.ndarray,
        device: Device,
        precision: Precision,
        history: InitialHistory | None = None,
        paths: Paths = OWN_PATHS,
        patience: int | None = None,
    ) -> None:
        self._patience = patience
        self.device, self.precision, self.control = device, precision, control
        self.field, self.method, self.history = field, method, history
        self.resumes = checkpoint.is_asked()
        self._paths = paths
        self._grid = times
        self._times = device.put(times.astype(precision))
        self._tables = Tables(field.parameters, device, precision)
        self._variable_count = len(field.variables)
        self.widest = 0.0  # widest cell [time]
        self.interrupted = False
        self._breakpoint_factor = 1
        self._threads = _THREADS_OF[device.target](self)
        if not field.delays:  # with delays, the mesh decides whether cells are shared
            self._specialize(False)

    def _specialize(self, shared: bool) -> None:
        """Choose the kernel for a shared mesh, or for a mesh per trajectory."""
        bindings = bindings_of(
            self.field, self.method, self.control, self.precision, self.history, shared,
            self._paths,
        )  # fmt: skip
        if self.resumes:
            bindings[RESUMES] = True
        self._kept_rows = rows_of(
            self._variable_count, bindings.get(EVENTS, 0), bindings.get(SEEN, 0)
        )
        self.kernel = kernels.kernel(
            integrate_cpu, integrate_cuda, precision=self.precision, bindings=bindings
        )

    def integrate(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        which: np.ndarray | None = None,
        show: bool = False,
    ) -> Outcome:
        """Integrate trajectories from the states `initial` [variable, trajectory].

        With delays, trajectories whose interpolation error is too large are integrated again on a
        finer mesh.  Trajectories that overwrote a breakpoint are integrated again with a larger
        capacity.  `which` are the numbers of the trajectories, which select history and noise.
        `show` prints progress to standard error.
        """
        which = np.arange(initial.shape[1]) if which is None else which
        outcome = self._refined(initial, parameters, which, show)
        while self.field.delays and not self.interrupted:
            lost = np.flatnonzero(
                (outcome.status == Status.INACCURATE) & np.isposinf(outcome.interpolation_errors)
            )
            if not lost.size or self._breakpoint_factor >= _MOST_FACTOR:
                break
            self._breakpoint_factor *= 4
            found = self._refined(initial[:, lost], parameters[:, lost], which[lost], show)
            ran = found.status != Status.NOT_RUN
            found.rejected += ran * (outcome.taken[lost] + outcome.rejected[lost])
            outcome.put(lost, found)
        self._breakpoint_factor = 1
        return outcome

    def _refined(
        self, initial: np.ndarray, parameters: np.ndarray, which: np.ndarray, show: bool
    ) -> Outcome:
        """Integrate trajectories; refine the mesh until the interpolation error is small enough."""
        count = initial.shape[1]
        fixed = self.control.step is not None
        if not self.field.delays or fixed:
            return self._run(initial, parameters, self.plan(parameters, 1.0), np.inf, which, show)
        outcome = None
        todo, rows = np.arange(count), (initial, parameters, which)
        # Initial guess: the error of a quintic is proportional to the sixth power of the width.
        # Beside knots of inputs there are cubics, whose errors are not estimated.
        points = 2 if level_of(self.field) else self.points
        wanted = max(_CELLS, 0.8 * self.control.rtol ** (-1 / (2 * points)))
        for attempt in range(_REFINEMENTS + 1):
            final = attempt == _REFINEMENTS or wanted >= _MOST_CELLS
            states, given, numbers = rows
            plan = self.plan(given, 1.0 / wanted)
            found = self._run(states, given, plan, np.inf if final else 1.0, numbers, show)
            if outcome is None:
                outcome = found
            else:
                ran = found.status != Status.NOT_RUN
                found.rejected += ran * (outcome.taken[todo] + outcome.rejected[todo])
                outcome.put(todo, found)
            again = (found.status == Status.INACCURATE) & np.isfinite(found.interpolation_errors)
            if self.interrupted:  # trajectories that need a finer mesh have no result
                wrong = np.zeros(count, bool)
                wrong[todo[again]] = True
                outcome.leave_out(wrong)
                break
            if final or not again.any():
                break
            todo = todo[again]
            rows = initial[:, todo], parameters[:, todo], which[todo]
            worst = float(np.median(found.interpolation_errors[again]))
            finer = min(8.0, max(1.5, 1.2 * worst ** (1 / (2 * self.points))))
            wanted = min(finer * wanted, _MOST_CELLS)
        assert outcome is not None
        return outcome

    @property
    def points(self) -> int:
        """Number of points that a polynomial of the history interpolates."""
        return 3 if self.method.order > 4 else 2

    @property
    def breakpoint_count(self) -> int:
        """Capacity for breakpoints of a trajectory on its own mesh."""
        most = _BREAKPOINTS if len(self.field.delays) < 2 else _MANY_BREAKPOINTS
        most *= self._breakpoint_factor
        return most + (0 if self.history is None else len(self.history.breakpoints))

    def plan(self, parameters: np.ndarray, fraction: float) -> Mesh:
        """Mesh with cells no wider than `fraction` of the longest delay of a trajectory."""
        control, count = self.control, parameters.shape[1]
        if not self.field.delays and not self.method.scheme:
            one = np.ones(1, np.int64)
            return Mesh(False, np.broadcast_to(0.0, count), one, np.zeros(1, np.uint8))
        span = float(self._grid[-1] - self._grid[0])
        noisy = self.method.scheme > 0
        delays, least, most = self.bounds(parameters)
        return plan_mesh(
            span, fraction, count, delays, least, most,
            step=cell_of_noise(self._grid) if noisy and control.step is None else control.step,
            free=self.field.state_dependent
            or self.field.is_neutral
            or control.acts
            or (not noisy and level_of(self.field) > 0)
            or (self.history is not None and self.history.breakpoints.size > 0),
            **({"least_lag": 2, "apart": 1} if noisy else {}),
        )  # fmt: skip

    def bounds(
        self, parameters: np.ndarray
    ) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
        """Names of the delays, and the least and largest value of each [trajectory]."""
        count = parameters.shape[1]

        def row(value: float | str) -> np.ndarray:
            if isinstance(value, str):
                return np.asarray(parameters[self.field.parameters.index(value)], np.float64)
            return np.full(count, float(value))

        names, least, most = [], [], []
        for variable, delay in self.field.delays:
            both = (delay.least, delay.most) if isinstance(delay, Delay) else (delay, delay)
            names.append(delay if isinstance(delay, str) else f"of {variable}")
            least.append(row(both[0]))
            most.append(row(both[1]))
        return names, least, most

    def most_steps(self, plan: Mesh) -> int:
        """Most steps of a trajectory on the mesh `plan`, whose cells every method must take."""
        if self._patience is None:
            return self.control.max_steps
        span, delays = float(self._grid[-1] - self._grid[0]), len(self.field.delays)
        # A step ends with a cell and, on a trajectory's own mesh, one delay after a cell.
        forced = span / float(plan.width.min()) * (1 + delays) if delays else 0.0
        return int(min(self.control.max_steps, self._patience + forced))

    def arguments(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        plan: Mesh,
        limit: float,
        which: np.ndarray,
    ) -> Run:
        """Kernel inputs of trajectories, on the device."""
        control, put = self.control, self.device.put
        real = np.dtype(self.precision).type
        count = initial.shape[1]
        sizes = None if control.step is None else np.full(count, control.step)
        has_cells = self.field.delays or self.method.scheme
        frame = np.asarray(plan.width, np.float64)[None] if has_cells else None
        period = int(plan.lags.max()) + self.points - 1
        if self.field.delays:
            assert frame is not None
            if control.step is not None and plan.shared:
                sizes = frame[0]
            _, least, most = self.bounds(parameters)
            frame = np.concatenate(
                [frame, *(np.stack(pair) for pair in zip(least, most, strict=True))]
            )
        given, breakpoints = np.zeros((1, 1, 1, 1)), np.zeros((1, 2))
        if self.history is not None:
            breakpoints = self.history.breakpoints if self.history.breakpoints.size else breakpoints
            if self.history.sampled:
                given = self.history.points(float(self._grid[0]), plan.width, period, which)

        def placed(array: np.ndarray | None, *rows: int) -> Any:
            if array is not None:
                return put(np.asarray(array, self.precision))
            nothing = self.device.zeros((*rows, count), self.precision)
            return nothing if self.device.is_cuda else put(nothing)

        own = np.ndim(control.atol) > 0
        atol = tuple(map(real, np.atleast_1d(control.atol))) if own else real(control.atol)
        return Run(
            self._times, placed(initial), placed(self._tables.placed(parameters)),
            placed(sizes), placed(frame, 1), put(plan.lags), put(plan.breaks), placed(given),
            placed(breakpoints), real(limit),
            real(control.rtol), atol, real(control.max_step),
            real(control.observe_from), np.int64(self.most_steps(plan)), self._paths.source,
            np.int64(self._paths.first + which[0]), real(self._grid[0]), real(self._grid[-1]),
            np.int64(period),
        )  # fmt: skip

    def _run(
        self, initial: np.ndarray, parameters: np.ndarray, plan: Mesh, limit: float,
        which: np.ndarray, show: bool,
    ) -> Outcome:  # fmt: skip
        """Integrate trajectories once, on the mesh `plan`."""
        if self.field.delays:
            self._specialize(plan.shared)
            self.widest = float(plan.width.max())
        count = initial.shape[1]
        outcome = self.empty(count)

        def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
            chunk = slice(start, stop)
            part = Mesh(plan.shared, plan.width[chunk], plan.lags, plan.breaks)
            run = self.arguments(initial[:, chunk], parameters[:, chunk], part, limit, which[chunk])
            try:
                with kernels.readable_errors(self.field.title):
                    self._threads.integrate(run, part, outcome, chunk, report)
            except KeyboardInterrupt:
                return False
            return not (outcome.status[chunk] == Status.NOT_RUN).any()

        label = "trajectories"
        size = self._threads.chunk_size(plan, outcome, initial.shape[0] + parameters.shape[0])
        least = 0 if self.resumes else launch.least_chunk(self.device)
        launch.run_chunks(label, count, size, work, unit=label, show=show, least=least)
        missing = outcome.status == Status.NOT_RUN
        outcome.leave_out(missing)
        self.interrupted = self.interrupted or bool(missing.any())
        return outcome

    def kind(self, plan: Mesh) -> tuple[bool, bool, bool]:
        """Whether there are a shared mesh, histories, and noise."""
        return plan.shared, bool(self.field.delays), bool(self.method.scheme)

    def storage_shapes(self, plan: Mesh, count: int) -> list[tuple[int, ...]]:
        """Shapes of the arrays of `Storage`."""
        delays = len(self.field.delays)
        if not delays:
            has_cuts = self.method.scheme and self.control.step is None and not plan.shared
            cuts = (1, 2, count if has_cuts else 1)
            return [(1, 1, 1, 1), cuts, (segments.WHOLES, count), (1, 1)]
        assert self.history is not None
        points = self.points
        kept = len(self.history.delayed)
        ring = (int(plan.lags.max()) + points + 2 * delays, kept, 2, count)
        if plan.shared:
            return [ring, (1, 2, 1), (segments.WHOLES, 1), (1, 1)]
        return [
            ring, (self.breakpoint_count, 2 + 5 * kept, count),
            (segments.WHOLES + 2 * delays, count), (delays * (2 + 2 * points), count),
        ]  # fmt: skip

    def storage(self, plan: Mesh, count: int) -> Storage:
        """Arrays on the device for the histories of trajectories, and for what is kept of them."""
        kinds = (self.precision, self.precision, np.int64, self.precision)
        shapes = self.storage_shapes(plan, count)
        empty = self.device.empty
        storage = Storage(*(empty(*one) for one in zip(shapes, kinds, strict=True)))
        if not self.resumes:
            return storage
        rows = empty((self._kept_rows, count), self.precision)
        (counts,) = self.device.zeros_together([((4, count), np.dtype(np.int64))])
        none = np.int64(0)
        return storage._replace(
            kept=Kept(none, none, np.int64(self.most_steps(plan)), rows, counts)
        )

    def empty(self, count: int) -> Outcome:
        """Outcome of trajectories before they run."""
        sizes = self._times.size, self._variable_count
        return Outcome.empty(*sizes, self.control, count, self.precision)


class CPUThreads:
    """CPU threads, each with LANES trajectories at once."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def chunk_size(self, plan: Mesh, outcome: Outcome, row_count: int) -> int:
        """Trajectories per chunk: all, since a thread stores only the histories of its lanes."""
        return outcome.status.size

    def integrate(
        self, run: Run, plan: Mesh, outcome: Outcome, chunk: slice,
        report: Callable[[int], None],
    ) -> None:  # fmt: skip
        """Integrate all trajectories."""
        runner, count = self._runner, outcome.status.size
        grain = _grain(count, runner.device.core_count, plan.shared)
        if runner.resumes:
            self._resume(run, plan, outcome, chunk, grain)
            return report(count)
        try:
            self._run(run, outcome, (), grain, lambda start, stop: report(stop - start))
        except Abandoned:
            outcome.detach()
            raise

    def _run(
        self, run: Run, outcome: Outcome, storage: Any, grain: int,
        finished: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        runner = self._runner
        arguments = run, outcome.arrays(), runner.breakpoint_count, storage
        runner.device.prepare(runner.kernel, *arguments)
        runner.device.run(
            runner.kernel, outcome.status.size, *arguments, grain=grain, piece=min(grain, _GRAIN),
            finished=finished,
        )  # fmt: skip

    def _resume(self, run: Run, plan: Mesh, outcome: Outcome, chunk: slice, grain: int) -> None:
        """Integrate all trajectories in several launches."""
        runner, count, out = self._runner, outcome.status.size, outcome.arrays()

        def launch(run: Run, storage: Storage) -> None:
            self._run(run, outcome, storage, grain, lambda start, stop: None)

        try:
            storage = runner.storage(plan, count)
            in_launches(runner.device, _named(chunk), *runner.kind(plan), run, out, storage, launch)
        except KeyboardInterrupt:
            outcome.status[:] = Status.NOT_RUN
            raise


class CUDAThreads:
    """CUDA threads, each with one trajectory."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def chunk_size(self, plan: Mesh, outcome: Outcome, row_count: int) -> int:
        """Trajectories per chunk: as many as fit in device memory."""
        device, word = self._runner.device, np.dtype(self._runner.precision).itemsize
        each = outcome.bytes_each + (row_count + 1) * 8
        each += sum(word * int(np.prod(shape)) for shape in self._runner.storage_shapes(plan, 1))
        return launch.count_that_fits(
            device, each, "one trajectory, with its history, times and events,", "use fewer times"
        )

    def integrate(
        self, run: Run, plan: Mesh, outcome: Outcome, chunk: slice,
        report: Callable[[int], None],
    ) -> None:  # fmt: skip
        """Integrate a chunk of trajectories."""
        runner, count = self._runner, chunk.stop - chunk.start
        device = runner.device
        storage = runner.storage(plan, count)
        filled = self._empty(outcome.arrays(), count)
        blocks = -(-count // _THREADS)

        def launch(run: Run, storage: Storage) -> None:
            device.launch(runner.kernel, blocks, _THREADS, run, filled, storage)

        if runner.resumes:
            in_launches(device, _named(chunk), *runner.kind(plan), run, filled, storage, launch)
        else:
            launch(run, storage)
        for mine, theirs in zip(outcome.arrays(), filled, strict=True):
            if mine.size:
                resident.store(device, theirs, mine, (..., chunk))
        report(count)

    def _empty(self, whole: Out, count: int) -> Out:
        """The outcome of `count` trajectories before they run, on the device."""
        device = self._runner.device

        def empty(name: str, array: Any) -> Any:
            if not array.size:
                return device.empty((1,) * array.ndim, array.dtype)
            shape = (*array.shape[:-1], count)
            if name == "status":
                return device.put(np.full(shape, Status.NOT_RUN, np.uint8))
            if name not in _MISSING:
                return device.zeros(shape, array.dtype)
            made = device.empty(shape, array.dtype)
            device.fill_missing(made)
            return made

        return Out(*map(empty, Out._fields, whole))


_MISSING = "states", "hits", "observed", "step_log"
"""Arrays of an outcome that are NaN where nothing was computed."""

_THREADS_OF: dict[Target, type[CPUThreads | CUDAThreads]] = {
    "cpu": CPUThreads, "cuda": CUDAThreads
}  # fmt: skip


def _named(chunk: slice) -> str:
    """Name of the trajectories of a chunk, whose state is kept."""
    return f"trajectories {chunk.start} to {chunk.stop - 1} with adaptive steps"


def _grain(count: int, threads: int, shared: bool) -> int:
    even = -(-count // (8 * threads))
    # Lanes on a shared mesh are not refilled; others are filled by blocks.
    together = LANE_COUNT if shared else BLOCK_COUNT
    even = -(-even // together) * together
    return max(1, min(count, max(even, _GRAIN if count > _GRAIN * threads else even)))
