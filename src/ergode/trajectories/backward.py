"""Integration backward in time.

With s = -t, the equation y' = f(t, y) becomes dy/ds = -f(-s, y).  The engines integrate it forward
in s.  Results are labelled by t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import PlanError
from ergode.models.fields.inputs import Input
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.events import Event, ZeroCrossing
from ergode.trajectories.observables import Observable
from ergode.trajectories.runs import Found


def reversed_field(field: VectorField) -> VectorField:
    """The field in s = -t.

    Raises a PlanError if the field has delays or noise.
    """
    for what, there in (("delays", field.delays), ("noise", field.diffusion is not None)):
        if there:
            raise PlanError(
                f"times descend, and the field has {what}; expected times that ascend, for only "
                f"equations without delays and noise can be integrated backwards"
            )
    if field.arrays is not None:
        made = object.__new__(VectorField)
        vars(made).update(vars(field) | {"arrays": replace(field.arrays, is_backward=True)})
        return made
    slopes = "".join(f"-slopes[{i}], " for i in range(len(field.variables)))
    text = f"def backward(t, y, p):\n    slopes = field(-t, y, p)\n    return ({slopes})\n"
    function = function_from_text(text, {"field": field.function})
    turned = [one.reversed() if isinstance(one, Input) else one for one in field.parameters]
    return VectorField(function, field.variables, turned, mass=field.mass)


def reversed_events(events: Sequence[Event]) -> tuple[ZeroCrossing, ...]:
    """Events as functions of s; their directions follow the order of the integration.

    Raises a PlanError if one is no crossing.
    """
    made = []
    for event in events:
        if not isinstance(event, ZeroCrossing):
            raise PlanError(f"times descend, and event '{event.name}' is no ZeroCrossing")
        effect = None if event.effect is None else _of_time(event.effect, "(t, y, p)")
        function = _of_time(event.function, "(t, y, p)")
        made.append(replace(event, function=function, effect=effect))
    return tuple(made)


def reversed_observables(observables: Sequence[Any], field: VectorField) -> tuple[Any, ...]:
    """Observables for an integration in s; user-defined ones still receive t and dy/dt."""
    before, after = (
        "".join(f"-{name}[{i}], " for i in range(len(field.variables))) for name in ("f", "f1")
    )
    update = (
        "def update(s, t, y, f, t1, y1, f1, p):\n"
        f"    return inner(s, -t, y, ({before}), -t1, y1, ({after}), p)\n"
    )
    return tuple(
        replace(
            one,
            begin=_of_time(one.begin, "(t, y, p)"),
            update=function_from_text(update, {"inner": one.update}),
            result=_of_time(one.result, "(s, t, y, p)"),
        )
        if isinstance(one, Observable)
        else one
        for one in observables
    )


def _of_time(function: Any, arguments: str) -> Any:
    """A function of t as a function of -t."""
    call = arguments.replace("t,", "-t,", 1)
    return function_from_text(
        f"def backward{arguments}:\n    return inner{call}\n", {"inner": function}
    )


def in_time(found: Found) -> Found:
    """Results with times t instead of s."""
    values = {
        name: -value if name in ("event_time", "step_time") else value
        for name, value in found.values.items()
    }
    return found._replace(values=values)


def descends(times: np.ndarray) -> bool:
    """Whether the times of a result go backwards."""
    return times.size > 1 and bool(times[1] < times[0])
