"""Runner for fields of arrays: bindings, arguments of kernels, and chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import checkpoint, launch, resident
from ergode.core.compiler.language import room_for
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.errors import Abandoned
from ergode.core.math.tableaus import hermite_dense
from ergode.core.status import Status
from ergode.models.fields.arrays import ArrayField
from ergode.models.fields.inputs import Tables
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control, Outcome
from ergode.trajectories.adaptive.step import LOGS_INSIDE, LOGS_STEPS
from ergode.trajectories.arrays import (
    banded,
    conjugate_residuals,
    group,
    multistep,
    noisy,
    rosenbrock,
    stabilised,
)
from ergode.trajectories.arrays.arguments import Run
from ergode.trajectories.arrays.conjugate_residuals import kept_of
from ergode.trajectories.arrays.delayed import Delayed
from ergode.trajectories.arrays.equations import bindings_of_arrays
from ergode.trajectories.arrays.followers import FOLLOWERS
from ergode.trajectories.arrays.past import Delays
from ergode.trajectories.arrays.watched import bindings_of_watched, knots_of
from ergode.trajectories.delays.mesh import Steps
from ergode.trajectories.methods import Method
from ergode.trajectories.steppers import chebyshev, equations, explicit, noise, stepper
from ergode.trajectories.steppers.inside_step import INTERVALS
from ergode.trajectories.steppers.observing import SEEN


def bindings_of(
    field: VectorField, method: Method, control: Control, precision: Precision,
    paths: noise.Paths = noise.OWN_PATHS,
) -> dict[Any, Any]:  # fmt: skip
    """Bindings of the kernel."""
    tableau, arrays = method.tableau, field.arrays
    assert arrays is not None
    adapts, dense = control.step is None, method.bindings[stepper.DENSE]
    bindings: dict[Any, Any] = {
        **bindings_of_arrays(arrays, len(field.parameters)),
        equations.EPSILON: float(np.finfo(precision).eps),
        stepper.ADAPTS: adapts,
    }
    if control.step_log:
        bindings |= {LOGS_STEPS: True, LOGS_INSIDE: control.powers > 0}
    if adapts and np.ndim(control.atol):
        bindings[stepper.TOLERANCES] = True
    if control.is_watched:
        bindings |= bindings_of_watched(field, method, control)
    if method.stiff:
        implicit = implicit_of(method)
        return bindings | implicit.bindings_of(method.bindings) | {
            group.IMPLICIT: True, group.implicit_stages: implicit.take_stages,
            stepper.SEARCHED: control.is_watched or control.powers > 0,
        }  # fmt: skip
    if tableau is None:
        return bindings | dict(method.bindings) | {
            group.STABILISED: True, group.spectral_radius: stabilised.spectral_radius,
            group.chebyshev_stages: stabilised.take_stages,
        }  # fmt: skip
    # Between steps of one size the cubic through both ends will do, unless all of it is kept.
    is_whole = adapts or not tableau.extra_c or bool(field.delays) or control.powers > 0
    bindings |= {
        explicit.B: tableau.b,
        explicit.C: tableau.c,
        stepper.DENSE: dense if is_whole else hermite_dense(tableau.b),
    }
    if is_whole and tableau.extra_c:
        bindings |= {explicit.EXTRA_A: tableau.extra_a, explicit.EXTRA_C: tableau.extra_c}
    if len(tableau.a) > 1:
        bindings[explicit.A] = tableau.a
    if method.scheme:
        bindings |= {
            noise.SCHEME: method.scheme, group.step_with_noise: noisy.take_step, **paths.bindings,
        }  # fmt: skip
        if field.interpretation == "stratonovich":
            bindings[noise.STRATONOVICH] = True
    if adapts:
        bindings |= {
            explicit.ERROR: tableau.error, stepper.ERROR_ORDER: float(tableau.order),
            explicit.CORRECTION: tableau.correction,
        }  # fmt: skip
    return bindings


def implicit_of(method: Method) -> ModuleType:
    """The module with the steps of an implicit method."""
    if method.matrix_free:
        return conjugate_residuals
    if method.multistep:
        return multistep
    return rosenbrock


class Runner:
    """Integrates trajectories of a field of arrays by an explicit method on one device.

    Parameters
    ----------
    field, method, control, times, device, precision
        As for `integrate`, already checked.  Steps are fixed if `control` has a step.
    paths : Paths
        Of the noise.
    history : tuple of function
        See `delayed.history_functions`.
    """

    least_lag = 0  # a delay may be as short as one step

    def __init__(
        self, field: VectorField, method: Method, control: Control, *, times: np.ndarray,
        device: Device, precision: Precision, paths: noise.Paths = noise.OWN_PATHS,
        history: tuple[FunctionType, ...] = (),
    ) -> None:  # fmt: skip
        assert field.arrays is not None
        self.field, self.arrays, self.control = field, field.arrays, control
        self.device, self.precision = device, precision
        self.bindings = bindings_of(field, method, control, precision, paths)
        self._tables = Tables(field.parameters, device, precision)
        self.resumes = checkpoint.is_asked()
        if self.resumes:
            self.bindings[group.RESUMES] = True
        powers = len(self.bindings.get(stepper.DENSE, stepper.DENSE.default)[0])
        self.delayed = Delayed(
            self.arrays, history, int(method.order), powers, control, times, device, precision
        )  # fmt: skip
        self.bindings |= self.delayed.bindings
        self.is_stabilised, self.is_noisy = method.stabilised, method.scheme > 0
        self.is_implicit, self.is_matrix_free = method.stiff, method.matrix_free
        self.slope_rows = implicit_of(method).rows_of(method.bindings) if method.stiff else (
            len(self.bindings[explicit.C]) + 1 + len(self.bindings.get(explicit.EXTRA_C, ()))
            + self.is_stabilised
            + noisy.rows_of(method.scheme, is_stratonovich=noise.STRATONOVICH in self.bindings)
        )  # fmt: skip
        self.kept = kept_of(field.size) if method.matrix_free else 0
        self.matrices = 2 if method.multistep else 1  # that with the factors, or with -J beside
        self.own = int(self.bindings.get(group.OWN, group.OWN.default))
        # Matrices follow, or directions and their images.
        self.slopes = self.slope_rows + 2 * self.kept
        self._grid, self._first = times, paths.first
        self._shared = shared_arguments(
            self.arrays, control, times, device, precision, self.is_stabilised
        ) | {"source": paths.source}
        if field.delays:
            self._shared["begins"] = device.put(self.delayed.begins)
            if control.step is not None and not control.has_own_steps:
                self._shared["most"] = np.int64(np.iinfo(np.int64).max)
        if control.is_watched:
            self.delayed.knots = knots_of(field, control)
            knots = np.append(self.delayed.knots, np.inf)
            self._shared["knots"] = device.put(knots.astype(precision))
        if method.stiff:
            table = implicit_of(method).table_of(method.bindings, precision)
            self._shared["stages"] = device.put(table)
        if method.stiff and not method.matrix_free:
            self.keep_to(banded.full(field.size))

    def keep_to(self, band: np.ndarray) -> None:
        """Keep the matrix of an implicit method to a band (see `banded.full`)."""
        self.slopes = self.slope_rows + self.matrices * banded.rows_of(self.field.size, band)
        self._shared["stage_begins"] = self.device.put(band)

    @property
    def kinds(self) -> tuple[bool, bool, bool]:
        """What `in_launches` asks: is it watched, are step sizes chosen, is it stabilised."""
        control, watched = self.control, self.control.is_watched
        chooses = control.step is None or watched or bool(control.step_log or self.field.delays)
        return watched, chooses, self.is_stabilised

    @property
    def rows(self) -> int:
        """Rows of unknowns in the workspace of one trajectory: states, and rows of slopes."""
        return 4 + self.slopes

    @property
    def own_rows(self) -> dict[Any, Any]:
        """Bindings of a kernel that allocates its workspace, or divides shared memory."""
        return (
            {group.ROWS: self.slope_rows}
            | ({group.MATRIX_FREE: True} if self.is_matrix_free else {})
            | ({group.MATRICES: self.matrices} if self.matrices > 1 else {})
        )

    @property
    def watched_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of `arguments.Workspace.g` and `s` of one trajectory."""
        own = self.bindings
        nodes = own.get(INTERVALS, INTERVALS.default) + 1
        return (own.get(group.FUNCTIONS, group.FUNCTIONS.default), 3, nodes), (
            own.get(SEEN, 0) + 1,
        )

    def integrate(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps, show: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """States [time, unknown, trajectory] and status of every trajectory, with fixed steps."""
        outcome = self.run(initial, parameters, steps, show)
        return outcome.states, outcome.status

    def run(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps | None = None,
        show: bool = False,
    ) -> Outcome:  # fmt: skip
        """Integrate trajectories from `initial` [unknown, trajectory]; `steps`: fixed steps."""
        outcome = self._once(initial, parameters, steps, show)
        while self.field.delays:
            lost = np.flatnonzero(outcome.status == Status.NO_ROOM)
            if not lost.size:
                break
            self.delayed.grow()
            found = self._once(initial[:, lost], parameters[:, lost], steps, show)
            outcome.put(lost, found)
        return outcome

    def _once(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps | None, show: bool
    ) -> Outcome:
        """Integrate all trajectories once; those whose history has no room have that status."""
        count = initial.shape[1]
        outcome = Outcome.empty(
            self._grid.size, self.arrays.size, self.control, count, self.precision
        )
        # A trajectory whose state is kept is alone.
        followers = FOLLOWERS[self.device.target](self, 1 if self.resumes else count)
        self.delayed.reserve(parameters, np.zeros(count) if steps is None else steps.size)

        def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
            chunk = slice(start, stop)
            run = self.arguments(initial[:, chunk], parameters[:, chunk], steps, chunk)
            try:
                with kernels.readable_errors(self.field.title):
                    followers.integrate(run, outcome, chunk, report)
            except Abandoned as error:  # threads that still run write to the old arrays
                outcome.detach()
                for first, last in error.spans or [(start, stop)]:
                    outcome.status[first:last] = Status.NOT_RUN
            except KeyboardInterrupt:
                if self.resumes:
                    outcome.status[chunk] = Status.NOT_RUN
                return False
            return not (outcome.status[chunk] == Status.NOT_RUN).any()

        label = "trajectories"
        size = 1 if self.resumes else followers.chunk_size()
        launch.run_chunks(label, count, size, work, unit=label, show=show)
        missing = np.flatnonzero(outcome.status == Status.NOT_RUN)
        if missing.size:
            outcome.states[..., resident.beside(outcome.states, missing)] = np.nan
        return outcome

    def arguments(
        self, initial: np.ndarray, parameters: np.ndarray, steps: Steps | None, chunk: slice
    ) -> Run:
        """Kernel arguments for a chunk of trajectories, on the device."""
        count = initial.shape[1]
        sizes = np.zeros(count) if steps is None else steps.size[chunk]
        counts = np.zeros(count, np.int64) if steps is None else steps.count[chunk]
        own: dict[str, Any] = {"offset": np.int64(self._first + chunk.start)}
        if self.field.delays:
            own["delays"] = self.delayed.arguments(parameters, sizes)
        return run_of(
            {**self._shared, **own}, self.device, self.precision, initial,
            self._tables.placed(parameters), sizes, counts,
        )  # fmt: skip


def shared_arguments(
    arrays: ArrayField, control: Control, times: np.ndarray, device: Device, precision: Precision,
    stabilised: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Kernel arguments shared by all chunks of a run, on the device."""
    put, real = device.put, np.dtype(precision).type
    shapes = np.ones((len(arrays.shapes), 4), np.int64)
    for row, shape in zip(shapes, arrays.shapes, strict=True):
        row[: len(shape)] = shape
    widths = np.array([shape[-1] for shape in arrays.shapes], np.int64)
    absolute = control.step is None or control.has_own_steps or bool(arrays.delays)
    since = times if absolute else times - times[0]
    kind = {"f": precision, "i": np.int64}
    # An array of nothing is not for every device.
    constants = arrays.constants or (np.zeros(1),)
    knots = arrays.knots if arrays.knots.size else np.array([np.inf])
    rtol = control.rtol if control.step is None else 1.0
    stages, begins, limits = (
        chebyshev.stage_table(rtol, float(np.finfo(precision).eps))
        if stabilised
        else (np.zeros((1, 5)), np.zeros(1, np.int64), np.zeros(1))
    )
    return {
        "times": put(since.astype(precision)), "begins": put(arrays.begins), "widths": put(widths),
        "shapes": put(shapes),
        "constants": tuple(put(one.astype(kind[one.dtype.kind])) for one in constants),
        "knots": put(knots.astype(precision)), "source": noise.OWN_PATHS.source,
        "offset": np.int64(0),
        "stages": put(stages.astype(precision)), "stage_begins": put(begins),
        "limits": put(limits.astype(precision)), "rtol": real(control.rtol),
        "atol": put(np.asarray(control.atol, precision)) if np.ndim(control.atol)
        else real(control.atol), "largest": real(control.max_step),
        "most": np.int64(control.max_steps), "origin": real(times[0]),
        "last": real(times[-1]), "since": real(control.observe_from),
        "delays": Delays(put(np.zeros((1, 1), precision)), put(np.zeros(1, np.int64)),
                         np.int64(1), np.int64(1), np.int64(0)),
    }  # fmt: skip


def run_of(
    shared: Mapping[str, Any], device: Device, precision: Precision, initial: np.ndarray,
    parameters: np.ndarray, sizes: np.ndarray, counts: np.ndarray,
) -> Run:  # fmt: skip
    """Kernel arguments that describe trajectories, on the device."""
    count = len(parameters)
    parameters = np.pad(parameters, ((0, room_for(count) - count), (0, 0)))  # see `parameters_of`
    rows = (device.put(np.asarray(one, precision)) for one in (initial, parameters, sizes))
    return Run(
        **dict(zip(("initial", "parameters", "sizes"), rows, strict=True)),
        counts=device.put(counts), **shared,
    )  # fmt: skip
