"""Events: zero crossings of a function of the state, and their effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.arguments import check_distinct, check_text, is_finite_number
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.models.fields.conditions import check_crosses
from ergode.models.fields.inputs import ready
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers import inside_step


@dataclass(frozen=True)
class ZeroCrossing(HoldsFunctions):
    """An event of a vector field: an event function of time and state crosses zero.

    Parameters
    ----------
    function : function
        Event function ``g(t, y, p)``, or for a field with delays ``g(t, y, yd, p)``. Where
        variables are arrays, `y` is as for `component`, and constants are a last argument. It
        returns a number and is compiled like the field. If it returns NaN, the trajectory ends with
        the status ``NOT_FINITE``, and likewise if it is infinite throughout.
    direction : {0, 1, -1}
        Count all crossings, only rising ones, or only falling ones. If the event function is zero
        at the first time, leaving zero in this direction is a crossing at the first time.
    effect : function, optional
        ``effect(t, y, p)``, or with delays ``effect(t, y, yd, p)``. It returns the state after the
        event, a tuple like the field's. Where variables are arrays it changes elements of `y` in
        place and returns nothing. Simultaneous events act in the order in which they are
        given. If an effect carries the state across the surface of another event, this is a
        crossing: the other event occurs next, once. A result at the moment of an event is the state
        before it.
    terminal : bool or int
        Whether the event ends the trajectory, or how many occurrences end it: 3 is the third one.
        Its status is then ``STOPPED``, and later values are NaN. With a number, occurrences are
        those that ``event_count`` counts.
    name : str, optional
        Name in results. The default is the name of `function`, or "event" if it has none.

    Notes
    -----
    After an effect, the slope of the event function decides the side of the surface on which the
    state goes on. A rebound occurs again later. An effect that lets the state pass acts once. If an
    effect leaves the state at rest on the surface and the equations push it across, as for a ball
    that lands without rebound, the event would occur for ever at one time. The trajectory then ends
    with the status ``STEP_TOO_SMALL``. An effect that ends the push, such as a variable that
    switches gravity off, lets the state rest. With noise, the path decides the side.

    Raises
    ------
    ModelError
        The direction is not 0, 1 or -1, `terminal` is negative, or it or `name` has a wrong type.

    Examples
    --------
    >>> import ergode
    >>> def fall(t, y, p):
    ...     return y[1], -9.81
    >>> def height(t, y, p):
    ...     return y[0]
    >>> def bounce(t, y, p):
    ...     return 0.0, -p[0] * y[1]
    >>> ball = ergode.VectorField(fall, ["height", "speed"], ["restitution"])
    >>> impact = ergode.trajectories.ZeroCrossing(height, -1, effect=bounce, name="impact")
    >>> result = ergode.trajectories.integrate(
    ...     ball, times=[0, 1], initial={"height": 1, "speed": 0}, device="cpu",
    ...     parameters={"restitution": [0.5, 0.9]}, events=[impact],
    ... )
    >>> result["event_count"].sel(event="impact").values.tolist()
    [2, 1]
    """

    function: Callable[..., Any]
    direction: int = 0
    effect: Callable[..., tuple[Any, ...]] | None = None
    terminal: bool | int = False
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise ModelError(
                f"event '{self.name or 'event'}' is {self.function!r}; expected a function that is "
                "zero at the event, such as lambda t, y, p: y[0] - 10"
            )
        if not is_finite_number(self.direction) or self.direction not in (-1, 0, 1):
            raise ModelError(f"direction is {self.direction!r}; expected -1, 0 or 1")
        if not (isinstance(self.terminal, bool | int | np.integer) and self.terminal >= 0):
            raise ModelError(
                f"terminal is {self.terminal!r}; expected True, False, or how many occurrences end "
                "a trajectory"
            )
        check_text("ZeroCrossing", "name", self.name)
        if not self.name:
            name = getattr(self.function, "__name__", "event")
            object.__setattr__(self, "name", name if name.isidentifier() else "event")


def check_events(events: Sequence[ZeroCrossing], field: VectorField) -> tuple[ZeroCrossing, ...]:
    """The events, checked, with functions in the form that is compiled.

    Raises a ModelError if an event is not a `ZeroCrossing` or has a function of wrong form, or two
    have equal names.
    """
    arguments: dict[str, int | None] = {"t": None, "y": len(field.variables)}
    if field.delays:
        arguments["yd"] = len(field.delays)
    arguments["p"] = len(field.parameters)
    found = []
    for event in events:
        if not isinstance(event, ZeroCrossing):
            raise ModelError(f"events has {event!r}; expected ergode.trajectories.ZeroCrossing")
        check_crosses(event.function)
        what, known = f"event '{event.name}'", field.parameters
        function, effect = ready(event.function, arguments, None, what, known), event.effect
        if effect is not None:
            effect = ready(effect, arguments, field.variables, f"effect of {what}", known)
        found.append(replace(event, function=function, effect=effect))
    check_distinct("events", [event.name for event in events])
    return tuple(found)


def bindings_of_events(
    events: Sequence[ZeroCrossing], field: VectorField, recorded: int
) -> dict[Any, Any]:
    """Bindings of a kernel with these events.

    Internal events follow those of the user: one for every state-dependent delay, which occurs
    where the delay passes a breaking point.
    """
    edges = len(field.delays) if field.state_dependent else 0
    arguments = "t, y, yd, p" if field.delays else "t, y, p"
    names = {f"gap_{e}": event.function for e, event in enumerate(events)}
    calls = "".join(f"gap_{e}({arguments}), " for e in range(len(events)))
    acts = {f"effect_{e}": event.effect for e, event in enumerate(events) if event.effect}
    chain = "".join(
        f"    if which == {e}:\n        return effect_{e}({arguments})\n"
        for e, event in enumerate(events)
        if event.effect
    )
    same = "".join(f"y[{i}], " for i in range(len(field.variables)))
    gaps = function_from_text(f"def gaps(t, y, yd, p):\n    return ({calls})\n", names)
    form = ((len(events),), len(field.parameters)) if events else (None, None)
    bindings: dict[Any, Any] = {inside_step.gaps: UserFunction(gaps, *form)}
    if not events and not edges:
        return bindings
    act = function_from_text(f"def act(which, t, y, yd, p):\n{chain}    return ({same})\n", acts)
    own = tuple(event.effect is not None or bool(event.terminal) for event in events)
    bindings |= {
        inside_step.EVENTS: len(events) + edges,
        inside_step.DIRECTIONS: tuple(int(event.direction) for event in events) + (-1,) * edges,
        inside_step.ACTS: own + (True,) * edges,
        inside_step.RECORDED: recorded if events else 0,
        inside_step.act: UserFunction(act, (len(field.variables),), len(field.parameters)),
    }
    if events:
        bindings[inside_step.ENDS] = tuple(int(event.terminal) for event in events)
    if edges:
        bindings[inside_step.EDGES] = edges
    return bindings


@lru_cache
def bindings_of_nodes(intervals: int) -> dict[Any, Any]:
    """Bindings of `inside_step` for a search of events with this number of intervals per step."""
    nodes = np.linspace(0.0, 1.0, intervals + 1)
    degrees = np.arange(intervals + 1)
    binomial = np.array([math.comb(intervals, int(j)) for j in degrees])
    basis = binomial * nodes[:, None] ** degrees * (1.0 - nodes[:, None]) ** degrees[::-1]
    powers = nodes[:, None] ** degrees
    rises = np.zeros_like(powers)
    rises[:, 1:] = degrees[1:] * powers[:, :-1]
    return {
        inside_step.INTERVALS: intervals,
        inside_step.NODES: tuple(nodes.tolist()),
        inside_step.BERNSTEIN: _table(np.linalg.inv(basis)),
        inside_step.SLOPES: _table(rises @ np.linalg.inv(powers)),
    }


def _table(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.where(np.abs(matrix) < 1e-10, 0.0, matrix).tolist()))
