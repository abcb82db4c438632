"""Runs of `adaptive` for many trajectories: their arrays, in chunks that fit a device."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.bundle import Precision
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.syntax import function_from_text
from ergode.core.devices import Device, spans
from ergode.core.errors import Abandoned, InterruptionWarning, PlanError
from ergode.core.status import Status
from ergode.models.fields.delay import Delay
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.kernel import integrate_cpu, integrate_cuda
from ergode.trajectories.adaptive.lanes import LANES
from ergode.trajectories.delays import segments
from ergode.trajectories.delays.mesh import Cells, plan_cells
from ergode.trajectories.delays.past import Past
from ergode.trajectories.events import Event, bindings_of_events, bindings_of_nodes
from ergode.trajectories.methods import Method
from ergode.trajectories.observables import bindings_of_observables
from ergode.trajectories.steppers import noise
from ergode.trajectories.steppers.derivatives import bindings_of_derivatives

_THREADS = 128
# Trajectories that a CPU thread takes at a time: enough to keep its lanes full.
_GRAIN = 16 * LANES
# Breaks that a free trajectory remembers: of single delays, and of several, whose sums are many.
_MARKS, _MANY_MARKS = 32, 64
# Cells of the longest delay to begin with, and how often they may be made smaller.
_CELLS, _REFINEMENTS, _MOST_CELLS = 8, 14, 2**16


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
    step_log : int
        Ends of steps that are kept, the first ones.
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
    step_log: int = 0

    @property
    def acts(self) -> bool:
        """Whether any event changes a state or ends a run."""
        return any(event.effect is not None or event.terminal for event in self.events)


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
    interpolation_errors : ndarray, shape [trajectory_count]
        What polynomials miss of the past at most, in units of the tolerance.
    step_log : ndarray, shape [step_count, 1 + variable_count, trajectory_count]
        Time and state at the end of every step.
    """

    states: np.ndarray
    hit_counts: np.ndarray
    hits: np.ndarray
    observed: np.ndarray
    status: np.ndarray
    taken: np.ndarray
    rejected: np.ndarray
    interpolation_errors: np.ndarray
    step_log: np.ndarray

    def copy(self) -> Outcome:
        """The same, out of reach of kernels that still write to it; `status` is copied first."""
        status = {"status": self.status.copy()}
        names = (one.name for one in fields(self) if one.name != "status")
        return Outcome(**status, **{name: getattr(self, name).copy() for name in names})

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
            np.zeros(count, precision),
            np.full((control.step_log, 1 + variables, count), np.nan, precision),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of them, in the order a kernel takes them."""
        return (
            self.states, self.hit_counts, self.hits, self.observed, self.status, self.taken,
            self.rejected, self.interpolation_errors, self.step_log,
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
    field: VectorField,
    method: Method,
    control: Control,
    precision: Precision,
    past: Past | None = None,
    shared: bool = True,
    noise_substeps: int = 1,
) -> dict[str, Any]:
    """What a kernel of `adaptive` is specialised to."""
    exact = bindings_of_derivatives(field) if method.stiff else {}
    bindings = {
        **method.bindings,
        **exact,
        # Newton's method has converged where what is left is far below any tolerance.
        "NEWTON": 1e-11 if precision == "float64" else 1e-5,
        "rhs": UserFunction(field.function),
        "VARIABLES": len(field.variables),
        "PARAMETERS": len(field.parameters),
        "PLACES": (),
        "DELAYED": (),
        "EPSILON": float(np.finfo(precision).eps),
        "ADAPTS": control.step is None,
        "LOGS_STEPS": control.step_log > 0,
        **bindings_of_events(control.events, field, control.recorded),
        **bindings_of_observables(control.observables, field),
    }
    if field.delays or method.scheme:
        bindings["CELLS"] = True
    if field.delays:
        assert past is not None
        bindings.update(_bindings_of_past(field, method, past, shared))
        if field.state_dependent:
            count = len(field.delays)
            bindings.update(
                EDGES=count, EVENTS=bindings["EVENTS"] + count, ACTING=True,
                DIRECTIONS=bindings["DIRECTIONS"] + (-1,) * count,
                ACTS=bindings["ACTS"] + (True,) * count,
            )  # fmt: skip
    if method.scheme:
        assert field.diffusion is not None
        bindings.update(
            SCHEME=method.scheme, SUMMED=noise_substeps > 1,
            diffusion=UserFunction(field.diffusion), DENSE=((1.0,),), STAGES=1,
            completed=noise.whole,
        )  # fmt: skip
    if bindings["EVENTS"]:
        # A noisy step is a straight line; what bends within a step shows at four intervals.
        degree = len(bindings["DENSE"][0])
        bindings.update(bindings_of_nodes(2 if method.scheme else max(4, degree)))
    return bindings


def _bindings_of_past(
    field: VectorField, method: Method, past: Past, shared: bool
) -> dict[str, Any]:
    index = {name: i for i, name in enumerate(field.variables)}
    # A cubic is as good as a method of order four, a quintic better than any here.
    points = 3 if method.order > 4 else 2
    bindings: dict[str, Any] = {
        "DELAYED": past.delayed,
        "PLACES": tuple(past.delayed.index(index[variable]) for variable, _ in field.delays),
        "POINTS": points,
        "COEFFICIENTS": 2 * points,
        "JUMPS": past.jumps,
        "HAS_HISTORY": past.function is not None,
        "SAMPLED": past.sampled,
        "PAST_JUMPS": len(past.breakpoints),
        "MARK_ROWS": past.breakpoints.shape[1],
        "SHARED": shared,
    }
    if past.function is not None:
        bindings["history"] = UserFunction(past.function)
    if not field.state_dependent:
        place = {name: i for i, name in enumerate(field.parameters)}
        bindings["TAUS"] = tuple(place[delay] for _, delay in field.delays)  # type: ignore[index]
        return bindings
    names = {
        f"delay_{d}": delay.function
        for d, (_, delay) in enumerate(field.delays)
        if isinstance(delay, Delay)
    }
    values = "".join(
        f"delay_{d}(t, y, p), "
        if isinstance(delay, Delay)
        else f"p[{field.parameters.index(delay)}], "
        for d, (_, delay) in enumerate(field.delays)
    )
    text = f"def lags_of(t, y, p):\n    return ({values})\n"
    bindings.update(
        LOOKS_UP=True, looked_up=segments.looked_up, edges=segments.edges,
        lags_of=UserFunction(function_from_text(text, names)),
    )  # fmt: skip
    return bindings


class Runner:
    """Trajectories of a vector field with a method of `methods`, on one device.

    Parameters
    ----------
    field, method, control, times, device, precision
        As for `integrate`, already checked.
    past : Past, optional
        For a field with delays.
    noise_substeps : int
        Increments of noise in a step.
    seed : int
        Of the noise.
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
        past: Past | None = None,
        noise_substeps: int = 1,
        seed: int = 0,
    ) -> None:
        self.device, self.precision, self.control = device, precision, control
        self.field, self.method, self.past = field, method, past
        self.noise_substeps = noise_substeps
        self._source = np.uint64(seed), np.int64(noise_substeps)
        self._grid = times
        self._times = device.put(times.astype(precision))
        self._variable_count = len(field.variables)
        self.widest = 0.0  # cell [time]
        self.interrupted = False
        self.has_results = False  # of other trajectories, or of an earlier attempt
        if not field.delays:  # else it depends on the delays
            self._kernel(False)

    def _kernel(self, shared: bool) -> kernels.Kernel:
        bindings = bindings_of(
            self.field,
            self.method,
            self.control,
            self.precision,
            self.past,
            shared,
            self.noise_substeps,
        )
        make = kernels.cuda_kernel if self.device.is_cuda else kernels.cpu_kernel
        body: Callable[..., None] = integrate_cuda if self.device.is_cuda else integrate_cpu
        self.kernel = make(body, precision=self.precision, bindings=bindings)
        return self.kernel

    def at(self, times: np.ndarray) -> Runner:
        """The same for other times."""
        other = copy.copy(self)
        other._grid = times
        other._times = self.device.put(times.astype(self.precision))
        return other

    def integrate(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        report: Callable[[int], None],
        which: np.ndarray | None = None,
    ) -> Outcome:
        """Integrate trajectories from their `initial` [variable, trajectory].

        With delays, those whose past is not told well enough by the points that are kept of it go
        again with more of them.  `which` of all they are tells them their histories and noise.
        """
        count = initial.shape[1]
        which = np.arange(count) if which is None else which
        fixed = self.control.step is not None
        if not self.field.delays or fixed:
            return self._run(initial, parameters, self.plan(parameters, 1.0), np.inf, report, which)
        outcome = None
        todo = np.arange(count)
        # The error of a quintic falls as the sixth power of the width: a guess to begin with.
        wanted = max(_CELLS, 0.8 * self.control.rtol ** (-1 / self._past_order))
        for attempt in range(_REFINEMENTS + 1):
            final = attempt == _REFINEMENTS or wanted >= _MOST_CELLS
            plan = self.plan(parameters[:, todo], 1.0 / wanted)
            found = self._run(
                initial[:, todo],
                parameters[:, todo],
                plan,
                np.inf if final else 1.0,
                report,
                which[todo],
            )
            self.has_results = True
            if outcome is None:
                outcome = found
            else:
                found.rejected += outcome.taken[todo] + outcome.rejected[todo]
                outcome.put(todo, found)
            again = (found.status == Status.INACCURATE) & np.isfinite(found.interpolation_errors)
            if final or not again.any() or self.interrupted:
                break
            todo = todo[again]
            worst = float(np.median(found.interpolation_errors[again]))
            finer = min(8.0, max(1.5, 1.2 * worst ** (1 / self._past_order)))
            wanted = min(finer * wanted, _MOST_CELLS)
            report(-todo.size)
        assert outcome is not None
        return outcome

    @property
    def _past_order(self) -> int:
        return 6 if self.method.order > 4 else 4

    def plan(self, parameters: np.ndarray, fraction: float) -> Cells:
        """Cells of trajectories, at most this `fraction` of their longest delay wide."""
        control, count = self.control, parameters.shape[1]
        if not self.field.delays and not self.method.scheme:
            one = np.ones(1, np.int64)
            return Cells(False, np.broadcast_to(0.0, count), one, np.zeros(1, np.uint8))
        span = float(self._grid[-1] - self._grid[0])
        noisy = self.method.scheme > 0
        delays, least, most = self.bounds(parameters)
        return plan_cells(
            span, fraction, count, delays, least, most,
            step=control.step,
            free=self.field.state_dependent
            or control.acts
            or (self.past is not None and self.past.breakpoints.size > 0),
            **({"least_lag": 2, "apart": 1} if noisy else {}),
        )  # fmt: skip

    def bounds(
        self, parameters: np.ndarray
    ) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
        """Names of the delays, and the least and largest value of each, by trajectory."""
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

    def arguments(
        self,
        initial: np.ndarray,
        parameters: np.ndarray,
        plan: Cells,
        limit: float,
        which: np.ndarray,
    ) -> tuple[Any, ...]:
        """What a kernel is told of trajectories, on the device."""
        control, put = self.control, self.device.put
        real = np.dtype(self.precision).type
        count = initial.shape[1]
        size = 0.0 if control.step is None else control.step
        sizes = np.full(count, size)
        frame = np.asarray(plan.width, np.float64)[None]
        if self.field.delays:
            if control.step is not None and plan.shared:
                sizes = frame[0]
            _, least, most = self.bounds(parameters)
            frame = np.concatenate(
                [frame, *(np.stack(pair) for pair in zip(least, most, strict=True))]
            )
        given, breakpoints = np.zeros((1, 1, 1, 1)), np.zeros((1, 2))
        if self.past is not None:
            breakpoints = self.past.breakpoints if self.past.breakpoints.size else breakpoints
            if self.past.sampled:
                points = 3 if self.method.order > 4 else 2
                period = int(plan.lags.max()) + points - 1
                given = self.past.points(float(self._grid[0]), plan.width, period, which)
        return (
            self._times,
            *(put(np.asarray(array, self.precision)) for array in (initial, parameters)),
            *(put(np.asarray(array, self.precision)) for array in (sizes, frame)),
            put(plan.lags), put(plan.breaks),
            *(put(np.asarray(array, self.precision)) for array in (given, breakpoints)),
            real(limit), real(control.rtol), real(control.atol), real(control.largest_step),
            real(control.observe_from), np.int64(control.most_steps), self._source,
            np.int64(which[0]),
        )  # fmt: skip

    @property
    def _mark_count(self) -> int:
        most = _MARKS if len(self.field.delays) < 2 else _MANY_MARKS
        return most + (0 if self.past is None else len(self.past.breakpoints))

    def _run(
        self, initial: np.ndarray, parameters: np.ndarray, plan: Cells, limit: float,
        report: Callable[[int], None], which: np.ndarray,
    ) -> Outcome:  # fmt: skip
        """Integrate trajectories once."""
        if self.field.delays:
            self._kernel(plan.shared)
            self.widest = float(plan.width.max())
        count = initial.shape[1]
        sizes = self._times.size, self._variable_count
        outcome = Outcome.empty(*sizes, self.control, count, self.precision)
        if not self.device.is_cuda:
            done = 0

            def finished(start: int, stop: int) -> None:
                nonlocal done
                done += stop - start
                report(stop - start)

            try:
                with kernels.readable_errors():
                    self.device.run(
                        self.kernel, count,
                        *self.arguments(initial, parameters, plan, limit, which),
                        self._mark_count, *outcome.arrays(),
                        grain=_grain(count, self.device.core_count, plan.shared),
                        finished=finished,
                    )  # fmt: skip
            except KeyboardInterrupt as error:
                if done == 0 and not self.has_results:
                    raise
                if isinstance(error, Abandoned):
                    outcome = outcome.copy()
                self.interrupted = True
                warnings.warn(
                    f"interrupted: {done} of {count} trajectories were integrated",
                    InterruptionWarning,
                    stacklevel=6,
                )
            return outcome
        each = outcome.bytes_each + (initial.shape[0] + parameters.shape[0] + 1) * 8
        word = np.dtype(self.precision).itemsize
        each += sum(word * int(np.prod(shape)) for shape in self.scratch(plan, 1))
        room = self.device.available_bytes()
        if room < each:
            raise PlanError(
                f"one trajectory needs {each / 1e9:.2f} GB for its past, times and events, but "
                f"{self.device.name} has {room / 1e9:.2f} GB free; use fewer times"
            )
        for start, stop in spans(count, min(count, room // each)):
            chunk = slice(start, stop)
            part = Cells(plan.shared, plan.width[chunk], plan.lags, plan.breaks)
            launch, arrays = self.launcher(
                initial[:, chunk], parameters[:, chunk], part, limit, which[chunk]
            )
            launch()
            for mine, theirs in zip(outcome.arrays(), arrays, strict=True):
                if mine.size:
                    mine[..., chunk] = self.device.get(theirs)
            report(stop - start)
        return outcome

    def scratch(self, plan: Cells, count: int) -> list[tuple[int, ...]]:
        """Shapes of the ring, breakpoints, whole numbers and pieces of a CUDA kernel."""
        delays = len(self.field.delays)
        if not delays:
            return [(1, 1, 1, 1), (1, 2, 1), (segments.WHOLES, count), (1, 1)]
        assert self.past is not None
        points = 3 if self.method.order > 4 else 2
        kept = len(self.past.delayed)
        ring = (int(plan.lags.max()) + points + 2 * delays, kept, 2, count)
        if plan.shared:
            return [ring, (1, 2, 1), (segments.WHOLES, 1), (1, 1)]
        return [
            ring, (self._mark_count, 2 + 4 * kept, count), (segments.WHOLES + 2 * delays, count),
            (delays * (2 + 2 * points), count),
        ]  # fmt: skip

    def launcher(
        self, initial: np.ndarray, parameters: np.ndarray, plan: Cells | None = None,
        limit: float = np.inf, which: np.ndarray | None = None,
    ) -> tuple[Callable[[], None], list[Any]]:  # fmt: skip
        """A function that starts the CUDA kernel, and the arrays it fills."""
        from ergode.core import cuda

        count = initial.shape[1]
        if plan is None:
            plan = self.plan(parameters, 1.0 / _CELLS)
            self._kernel(plan.shared)
        which = np.arange(count) if which is None else which
        arguments = self.arguments(initial, parameters, plan, limit, which)
        empty = self.device.empty
        ring, breakpoints, whole, pieces = self.scratch(plan, count)
        scratch = (
            empty(ring, self.precision), empty(breakpoints, self.precision), empty(whole, np.int64),
            empty(pieces, self.precision),
        )  # fmt: skip
        sizes = self._times.size, self._variable_count
        outcome = Outcome.empty(*sizes, self.control, count, self.precision)
        arrays = [
            self.device.put(array)
            if array.size
            else self.device.empty((1,) * array.ndim, array.dtype)
            for array in outcome.arrays()
        ]

        def launch() -> None:
            with kernels.readable_errors():
                cuda.launch(
                    self.kernel.compiled("cuda"), -(-count // _THREADS), _THREADS,
                    (*arguments, *scratch, *arrays),
                )  # fmt: skip

        return launch, arrays


def _grain(count: int, threads: int, shared: bool) -> int:
    even = -(-count // (8 * threads))
    if shared:  # lanes that end together are not filled again
        even = -(-even // LANES) * LANES
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
        "observe_from": -np.inf, "events": (), "observables": (), "recorded": 0, "step_log": 0,
    }  # fmt: skip
    return Control(**{**usual, **options})
