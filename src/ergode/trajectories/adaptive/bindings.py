"""Bindings of the kernels of `adaptive`: vector field, method, events and observables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.compiler.language import UserFunction, room_for
from ergode.core.compiler.source import Precision
from ergode.core.compiler.syntax import function_from_text
from ergode.models.fields.delay import Delay
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.adaptive.step import BY_PARTS, LATE, LOGS_INSIDE, LOGS_STEPS, PARTS
from ergode.trajectories.delays import history_ring, own_mesh, segments, state_delays
from ergode.trajectories.delays.history import InitialHistory
from ergode.trajectories.events import bindings_of_events, bindings_of_nodes
from ergode.trajectories.methods import Method
from ergode.trajectories.observables import bindings_of_observables
from ergode.trajectories.steppers import (
    bridges,
    equations,
    inside_step,
    noise,
    splitting,
    stepper,
)
from ergode.trajectories.steppers.dependences import dependences
from ergode.trajectories.steppers.derivatives import bindings_of_derivatives, separated
from ergode.trajectories.steppers.forcing import bindings_of_inputs, level_of


def bindings_of(
    field: VectorField,
    method: Method,
    control: Control,
    precision: Precision,
    history: InitialHistory | None = None,
    shared: bool = True,
    paths: noise.Paths = noise.OWN_PATHS,
) -> dict[Any, Any]:
    """Options and user functions that a kernel of `adaptive` is compiled with."""
    bindings = {
        **method.bindings,
        equations.rhs: UserFunction(field.function, (len(field.variables),), len(field.parameters)),
        equations.VARIABLES: len(field.variables),
        equations.PARAMETERS: room_for(len(field.parameters)),
        equations.EPSILON: float(np.finfo(precision).eps),
        stepper.ADAPTS: control.step is None,
        LOGS_STEPS: control.step_log > 0,
        LOGS_INSIDE: control.step_log > 0 and control.powers > 0,
        **bindings_of_events(control.events, field),
        **bindings_of_observables(control.observables, field),
        **bindings_of_inputs(field),
    }
    if field.mass is not None:
        bindings[equations.MASS] = field.mass
    if np.ndim(control.atol):
        bindings[stepper.TOLERANCES] = True
    if control.observables:
        # A cubic is of the order of dense output of order four, and not of a higher one.
        parts = 8 if len(method.bindings[stepper.DENSE][0]) > 4 else 1
        late = bool(np.isfinite(control.observe_from))
        bindings |= {LATE: late, PARTS: parts, BY_PARTS: late or parts > 1}
    if method.tableau is not None and method.tableau.kicks:
        tableau = method.tableau
        bindings |= splitting.bindings_of(tableau.drifts, tableau.kicks, separated(field))
    if method.stiff:
        bindings |= bindings_of_derivatives(field, method.needs_time_slopes)
        bindings |= {
            stepper.STIFF: True,
            stepper.SEARCHED: control.is_watched or control.powers > 0,
        }
    if field.delays or method.scheme:
        bindings[segments.CELLS] = True
    if field.delays:
        assert history is not None
        bindings |= _bindings_of_history(field, method, history, shared)
    if method.scheme:
        assert field.diffusion is not None
        bindings |= noise.bindings_of(field, method.scheme, paths)
        if control.acts:
            bindings[bridges.BRIDGES] = True
    if inside_step.EVENTS in bindings:
        # A stochastic step is a straight line: two intervals suffice.  Curved dense output needs
        # at least four.
        degree = len(method.bindings[stepper.DENSE][0])
        bindings |= bindings_of_nodes(2 if method.scheme else max(4, degree))
    return bindings


def _bindings_of_history(
    field: VectorField, method: Method, history: InitialHistory, shared: bool
) -> dict[Any, Any]:
    places = tuple(history.delayed.index(i) for i, _ in field.delayed)
    bindings: dict[Any, Any] = {
        history_ring.DELAYED: history.delayed,
        history_ring.JUMPS: history.jumps,
        equations.PLACES: places,
        # A cubic keeps order four; a quintic exceeds the order of every method here.
        equations.COEFFICIENTS: 6 if method.order > 4 else 4,
        segments.SAMPLED: history.sampled,
        segments.SHARED: shared,
    }
    if field.is_neutral:
        bindings[equations.SLOPED] = tuple(is_slope for _, is_slope in field.delayed)
    if history.function is not None:
        bindings[history_ring.HAS_HISTORY] = True
        bindings[history_ring.initial_history] = UserFunction(
            history.function, (len(field.variables),)
        )
    if history.breakpoints.size:
        bindings[segments.HISTORY_JUMPS] = len(history.breakpoints)
    if not shared and not method.scheme and level_of(field):
        bindings[own_mesh.LEVEL] = level_of(field)
    if field.state_dependent:
        bindings[state_delays.PROPAGATES] = _propagates(field, history.delayed)
        return bindings | _bindings_of_lags(field)
    if not shared:
        place = {name: i for i, name in enumerate(field.parameters)}
        bindings[own_mesh.TAUS] = tuple(place[delay] for _, delay in field.delays)  # type: ignore[index]
    return bindings


def _propagates(field: VectorField, delayed: tuple[int, ...]) -> bool:
    """Whether any delayed variable depends on delayed values, perhaps through other variables."""
    reached = dependences(field.function, len(field.variables))
    found, todo = set[int](), set(delayed)
    while todo:
        i = todo.pop()
        found.add(i)
        for kind, j in reached[i]:
            if kind == "yd":
                return True
            todo |= ({j} if j >= 0 else set(range(len(reached)))) - found
    return False


def _bindings_of_lags(field: VectorField) -> dict[Any, Any]:
    """Bindings of state-dependent delays."""
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
    return {
        equations.LOOKS_UP: True,
        equations.looked_up: state_delays.looked_up,
        inside_step.edges: state_delays.edges,
        state_delays.lags_of: UserFunction(
            function_from_text(text, names), (len(field.delays),), len(field.parameters)
        ),
    }
