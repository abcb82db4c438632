"""Implicit methods for fields of arrays: which of two runners follows trajectories.

Several trajectories go to a compiled kernel, a thread of the CPU, or a thread, block or grid of the
GPU each: up to a few hundred unknowns with matrices of its own (`rosenbrock`), more without a
matrix (`conjugate_residuals`), or with a band.  A single one of few unknowns, and those of many
whose matrix is no band, go one after the other to a loop on the host (`implicit`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core import devices
from ergode.core.compiler.source import Precision, Target
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import PlanError
from ergode.core.status import Status
from ergode.models.fields.inputs import knots_within
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control, Outcome
from ergode.trajectories.arrays.evaluator import Evaluator
from ergode.trajectories.arrays.runner import Runner
from ergode.trajectories.arrays.sparsity import DENSE as _DENSE
from ergode.trajectories.arrays.stencils import BANDED
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.methods import METHODS, MOST, Method
from ergode.trajectories.observables import Observable

_ROOM = 100_000  # most unknowns for which every CPU thread keeps directions of its own
_SPARSE = 20_000  # unknowns up to which factors of a matrix that is no band have room


def why_unwatched(field: VectorField, method: Method, control: Control) -> str | None:
    """Why an implicit method does not find the events and observables of a run, or None."""
    own = [one.name for one in control.observables if isinstance(one, Observable)]
    if own:
        return (
            f"has observables of your own for up to 16 variables, and here is '{own[0]}'; choose "
            "'tsit5', or Maximum, Minimum, Mean or TimeAbove"
        )
    if control.is_watched and field.size > MOST and not (method.matrix_free or method.multistep):
        known = "'bdf', " + ("" if field.arrays is None else "'rodas5p-krylov' or ")
        return f"has no events and observables of more than {MOST} unknowns; choose {known}'tsit5'"
    return None


def why_not_on(field: VectorField, method: Method, target: Target) -> str | None:
    """Why a method does not integrate arrays, or many variables, on a kind of device, or None."""
    if target == "cpu" or not method.stiff or method.matrix_free or field.size <= MOST:
        return None
    known = "'tsit5'" if field.arrays is None else "'rodas5p-krylov'"
    return f"of more than {MOST} unknowns, here {field.size:,}, is for a CPU; choose {known}"


def follow_stiff(
    field: VectorField, method: Method, control: Control, initial: np.ndarray,
    parameters: np.ndarray, *, times: np.ndarray, device: devices.Device, precision: Precision,
    show: bool = False,
) -> Outcome:  # fmt: skip
    """Integrate trajectories from `initial` [unknown, trajectory] by an implicit method.

    Raises
    ------
    PlanError
        The method does not do this on the device.
    """
    # SciPy takes a quarter of a second to import, which no other run needs.
    from ergode.trajectories.arrays.implicit import ImplicitRunner
    from ergode.trajectories.arrays.matrices import Matrices

    options: dict[str, Any] = {"times": times, "device": device, "precision": precision}
    on_cpu, n, count = device.target == "cpu", field.size, initial.shape[1]
    on_host = on_cpu and method.is_rosenbrock and not control.is_watched
    free = method.matrix_free

    def by_host() -> Outcome:
        return ImplicitRunner(field, method, control, **options).run(initial, parameters, show=show)

    if on_host and ((count == 1 and (free or n <= MOST)) or (free and n > _ROOM)):
        return by_host()
    steps = None
    if control.step is not None:
        steps = plan_steps(float(times[-1] - times[0]), control.step, count, [], [])
    if free:  # differences of float32 say too little
        runner = Runner(field, method, control, **options | {"precision": "float64"})
        return runner.run(initial, parameters, steps, show).rounded(precision)
    near = Evaluator(field, control, times, devices.resolve("cpu"))
    near.begin(initial[:, :1], parameters[:, :1])
    try:
        band = Matrices(near).band(0, float(times[0]), near.first(0))
    except PlanError:  # derivatives read too much, or are no numbers
        if not on_host:
            raise
        band = None
    if band is None and n > MOST:
        if on_host:
            return by_host()
        raise PlanError(
            f"method '{method.name}' has up to {MOST} unknowns here, and of more only those whose "
            f"derivatives read near ones alone; the field has {n:,}; choose 'rodas5p' or "
            "'rodas5p-krylov'"
        )
    if method.multistep or n > MOST:  # sums of many steps, or of many unknowns
        options["precision"] = "float64"
    runner = Runner(field, method, control, **options)
    if band is not None:
        runner.keep_to(band)
    outcome = runner.run(initial, parameters, steps, show)
    unlike = Status.TOO_MANY_STEPS, Status.STEP_TOO_SMALL, Status.NOT_FINITE
    slow = np.flatnonzero(np.isin(outcome.status, unlike))
    if band is not None and slow.size and n <= MOST:
        # A branch may read what none did near the first state.
        runner = Runner(field, method, control, **options)
        outcome.put(slow, runner.run(initial[:, slow], parameters[:, slow], show=show))
    return outcome.rounded(precision)


def suited(
    field: VectorField, control: Control, initial: np.ndarray, parameters: np.ndarray,
    times: np.ndarray, target: Target,
) -> tuple[Method, str]:  # fmt: skip
    """The method for trajectories that prove stiff, and why: one with a matrix that has room."""
    from ergode.trajectories.arrays.matrices import Matrices

    direct, free, band_method = (METHODS[name] for name in ("rodas5p", "rodas5p-krylov", "bdf"))
    if initial.shape[1] == 0:
        return direct, ""
    if why_not_on(field, direct, target) is not None:
        return free, f"more than {MOST} unknowns on a GPU have no matrix"
    may_band = target == "cpu" and control.powers in (0, band_method.powers)
    if field.size <= (BANDED if may_band else _DENSE):
        return direct, "few unknowns"
    near = Evaluator(field, control, times, devices.resolve("cpu"))
    near.begin(initial[:, :1], parameters[:, :1])
    try:
        band = Matrices(near).band(0, float(times[0]), near.first(0))
    except PlanError:
        return free, "derivatives read too much for a matrix"
    if band is not None and may_band:
        return band_method, "the matrix is a band, whose factors are kept over many steps"
    if band is None and field.size > _SPARSE:
        return free, f"the matrix of more than {_SPARSE:,} unknowns is not a band"
    return direct, "its matrix has room"


def with_arrays(field: VectorField, times: np.ndarray | None = None) -> VectorField:
    """The same equations with one array in place of named variables, which a matrix needs.

    A field with inputs is for a run from the first to the last of `times`.
    """
    n = len(field.variables)
    state = "".join(f"y[{i}], " for i in range(n))
    slopes = "".join(f"    dy[{i}] = f[{i}]\n" for i in range(n))
    text = f"def rhs(t, y, dy, p):\n    f = rate(t, ({state}), p)\n{slopes}"
    rhs = function_from_text(text, {"rate": field.function})
    made = VectorField(rhs=rhs, variables=("state", n), parameters=field.parameters)
    if field.inputs:
        assert made.arrays is not None and times is not None
        knots = tuple(knots_within(field.parameters, times).tolist())
        vars(made)["arrays"] = replace(made.arrays, further_knots=knots)
    return made


def watched_with_arrays(field: VectorField, control: Control) -> Control:
    """Events and observables of named variables, for the same equations with one array."""
    n = len(field.variables)
    state = "".join(f"y[{i}], " for i in range(n))

    def whole(function: Any, act: bool = False) -> Any:
        call = f"function(t, ({state}), p)"
        body = f"    return {call}\n"
        if act:
            slots = "".join(f"    y[{i}] = after[{i}]\n" for i in range(n))
            body = f"    after = {call}\n{slots}"
        return function_from_text(f"def whole(t, y, p):\n{body}", {"function": function})

    def of_variable(one: Any) -> Any:
        place = field.variables.index(one.variable)
        text = f"def value(t, y, p):\n    return y[{place}]\n"
        return replace(one, variable=function_from_text(text, {}))

    events = [
        replace(
            event, function=whole(event.function),
            effect=None if event.effect is None else whole(event.effect, act=True),
        )
        for event in control.events
        if isinstance(event, ZeroCrossing)
    ]  # fmt: skip
    return replace(control, events=events, observables=[*map(of_variable, control.observables)])
