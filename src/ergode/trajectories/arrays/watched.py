"""Events and observables of fields of arrays: their functions, checked and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergode.core.arguments import check_distinct
from ergode.core.errors import ModelError, PlanError
from ergode.models.fields.arrays import Reader
from ergode.models.fields.conditions import check_crosses
from ergode.models.fields.interpolants import Interpolant
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.arrays import group, inside_step
from ergode.trajectories.arrays.equations import (
    linked_function,
    names_in_functions,
    own_parameters,
)
from ergode.trajectories.events import Event, ZeroCrossing, bindings_of_nodes
from ergode.trajectories.methods import Method
from ergode.trajectories.observables import bindings_of_observables
from ergode.trajectories.steppers import inside_step as small
from ergode.trajectories.steppers import stepper


def check_watched(
    field: VectorField, events: Sequence[Event], observables: Sequence[Any]
) -> dict[str, Interpolant]:
    """Check that events and observables fit a field of arrays.

    Returns the interpolants that they evaluate at the time of the run.

    Raises
    ------
    ModelError
        One has a wrong type or a function of wrong form, or two have equal names.
    PlanError
        An event changes the state of a field with noise or delays.
    """
    assert field.arrays is not None
    for event in events:
        for what, there in (("noise", field.diffusion), ("delays", field.delays or None)):
            if getattr(event, "effect", None) is not None and there is not None:
                raise PlanError(
                    f"effect of event '{event.name}': effects are not made yet for variables that "
                    f"are arrays with {what}"
                )
    reader = field.arrays.reader(len(field.parameters))
    _functions(reader, events, observables)
    check_distinct("events", [event.name for event in events])
    check_distinct("observables", [one.name for one in observables])
    if events and "count" in field.variables:
        raise ModelError(
            "variable 'count' would be 'event_count' in the result, which is the name of the "
            "number of events; give the variable another name"
        )
    return reader.recorded


def _functions(
    reader: Reader, events: Sequence[Event], observables: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Compiled functions that are watched, those of the events first; and effects, or None."""
    watched, effects = [], []
    for event in events:
        if not isinstance(event, ZeroCrossing):
            raise ModelError(f"events has {event!r}; expected ergode.trajectories.ZeroCrossing")
        check_crosses(event.function)
        watched.append(reader.of_state(event.function, f"event '{event.name}'"))
        what = f"effect of event '{event.name}'"
        effects.append(None if event.effect is None else reader.change(event.effect, what))
    for one in observables:
        if not hasattr(one, "variable"):
            raise ModelError(
                f"observables has {one!r}; expected ergode.trajectories.Maximum, Minimum, Mean or "
                "TimeAbove of a function where variables are arrays"
            )
        if isinstance(one.variable, str):
            raise ModelError(
                f"observable '{one.name}' names '{one.variable}'; where variables are arrays, "
                "expected a function that returns a number, such as lambda t, y, p: y[0]"
            )
        watched.append(reader.of_state(one.variable, f"observable '{one.name}'"))
    return watched, effects


def bindings_of_watched(field: VectorField, method: Method, control: Control) -> dict[Any, Any]:
    """Bindings of a kernel with events or observables."""
    arrays, events = field.arrays, control.events
    assert arrays is not None
    reader = arrays.reader(len(field.parameters))
    watched, effects = _functions(reader, events, control.observables)
    y, c, minus = names_in_functions(arrays)
    p = own_parameters(len(field.parameters))
    named = {f"watched_{q}": one for q, one in enumerate(watched)}
    acting = {f"effect_{e}": one for e, one in enumerate(effects) if one}
    lines = [
        f"    if q == {q}:\n        return real(watched_{q}({minus}t, {y}, {p}{c}))\n"
        for q in range(len(watched))
    ]
    value = "def watched(q, t, y, p, c):\n" + "".join(lines) + "    return real(0.0)\n"
    acts = "".join(
        f"    if event == {e}:\n        effect_{e}({minus}t, {y}, {p}{c})\n"
        for e, one in enumerate(effects)
        if one
    )
    change = "def act(event, t, y, p, c):\n" + acts + "    return real(0.0)\n"
    bindings: dict[Any, Any] = {
        group.WATCHED: True,
        group.FUNCTIONS: len(watched),
        group.begin_watching: inside_step.begin_watching,
        group.look: inside_step.look,
        group.end_watching: inside_step.end_watching,
        inside_step.watched: linked_function(value, named),
    }
    if field.delays:
        bindings[group.look_again] = inside_step.look_again
    if control.observables:
        bindings |= bindings_of_observables(control.observables, field)
    if events:
        own = tuple(event.effect is not None or bool(event.terminal) for event in events)
        bindings |= {
            small.EVENTS: len(events),
            small.DIRECTIONS: tuple(int(event.direction) for event in events),
            small.ACTS: own,
            small.value_at: inside_step.value_at,
        }
        if any(own):
            bindings |= {
                small.ACTING: True,
                small.ENDS: tuple(int(event.terminal) for event in events),
                inside_step.act: linked_function(change, acting),
            }
    degree = len(method.bindings[stepper.DENSE][0])
    nodes = bindings_of_nodes(2 if method.scheme else max(4, degree))
    needed = (small.INTERVALS, small.SLOPES)
    needed += (small.BERNSTEIN,) if events else ()
    return bindings | {name: nodes[name] for name in needed}


def knots_of(field: VectorField, control: Control) -> np.ndarray:
    """Times that no step of tolerances crosses: of recorded data, and where observing begins."""
    arrays = field.arrays
    assert arrays is not None
    reader = arrays.reader(len(field.parameters))
    _functions(reader, control.events, control.observables)
    begin = [control.observe_from] if np.isfinite(control.observe_from) else []
    return np.union1d(arrays.also(reader.recorded).knots, begin)
