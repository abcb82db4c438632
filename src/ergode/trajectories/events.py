"""Events: crossings of a function of the state, lists of times, jumps; and their effects."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.arguments import as_numbers, check_distinct, check_text, is_finite_number
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.models.fields.conditions import check_crosses
from ergode.models.fields.inputs import ready
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers import inside_step, timed


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
        event, a tuple like the field's. A further last argument, `draws`, gets random numbers, see
        `Jump`. Where variables are arrays it changes elements of `y` in place and returns nothing.
        Simultaneous events act in the order in which they are given. If an effect carries the state
        across the surface of another event, this is a crossing: the other event occurs next, once.
        A result at the moment of an event is the state before it.
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
        _check_end(self.terminal)
        check_text("ZeroCrossing", "name", self.name)
        if not self.name:
            name = getattr(self.function, "__name__", "event")
            object.__setattr__(self, "name", name if name.isidentifier() else "event")


@dataclass(frozen=True)
class Scheduled(HoldsFunctions):
    """An event at each of a list of times, such as doses; steps end there.

    Parameters
    ----------
    times : array_like, shape [time_count]
        Times of the event, one later than the other [time]. Those after the last time of a run do
        not occur. One at the first time of a run or before is an error: the initial state is that
        after it. A state that is saved at one of them is that before the event.
    effect : function, optional
        As that of `ZeroCrossing`: ``effect(t, y, p)``, or ``effect(t, y, p, draws)`` with the draws
        of `Jump`.
    terminal : bool or int
        As that of `ZeroCrossing`.
    name : str
        Name in results.

    Raises
    ------
    ModelError
        The times do not ascend, are not finite or more than 1,000, or there is neither an effect
        nor an end.

    Examples
    --------
    >>> import ergode
    >>> drug = ergode.VectorField(lambda t, y, p: (-p[0] * y[0],), ["amount"], ["clearance"])
    >>> doses = ergode.trajectories.Scheduled([6, 12, 18], lambda t, y, p: (y[0] + 1.0,))
    >>> result = ergode.trajectories.integrate(
    ...     drug, times=[0, 24], initial={"amount": 1}, parameters={"clearance": 0.1},
    ...     events=[doses], device="cpu",
    ... )
    >>> round(result["state"].values[-1, 0].item(), 6)
    1.106023
    """

    times: Any
    effect: Callable[..., tuple[Any, ...]] | None = None
    terminal: bool | int = False
    name: str = "scheduled"
    direction = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        times = as_numbers(self.times)
        if times is None or times.ndim != 1 or not 0 < times.size <= _MOST_TIMES:
            raise ModelError(
                f"times of event '{self.name}': expected a list of 1 to {_MOST_TIMES:,} numbers"
            )
        if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
            raise ModelError(f"times of event '{self.name}' are not finite, or do not ascend")
        object.__setattr__(self, "times", tuple(map(float, times)))
        _check_end(self.terminal)
        check_text("Scheduled", "name", self.name)
        if self.effect is None and not self.terminal:
            raise ModelError(f"event '{self.name}' has neither an effect nor an end")


@dataclass(frozen=True)
class Jump(HoldsFunctions):
    """Jumps at random times: a Poisson process whose rate may depend on time and state.

    Parameters
    ----------
    rate : float, str or function
        Expected number of jumps in a unit of time [1 / time]: a number, a parameter, or a function
        ``rate(t, y, p)``, with delays ``rate(t, y, yd, p)``, of the state before a jump.
    effect : function
        ``effect(t, y, p)`` or ``effect(t, y, p, draws)``, with delays ``(t, y, yd, p)`` or
        ``(t, y, yd, p, draws)``. It returns the state after the jump. `draws` are four independent
        numbers: ``draws[0]`` and ``draws[1]`` are uniform between 0 and 1, ``draws[2]`` and
        ``draws[3]`` standard normal.
    most : float or str, optional
        For a rate that is a function: a number or a parameter that it does not exceed. A trajectory
        whose rate is above it fails: its status is ``RATE_OUT_OF_RANGE``, and its later states are
        NaN. Steps end at the times of a Poisson process of this rate, so a bound that is far too
        large is slow.
    name : str
        Name in results.

    Notes
    -----
    The times are exact for any steps (thinning). Candidates and draws are functions of the seed,
    the trajectory, and the place of the event in the list of events: the same for all tolerances,
    devices and divisions into parts. With noise, a step that ends at a candidate splits the
    increment of its path.

    Raises
    ------
    ModelError
        A rate is negative or not finite; `most` is missing, or is given for a constant rate.

    References
    ----------
    P. A. W. Lewis, G. S. Shedler, Naval Research Logistics Quarterly 26, 403 (1979).

    Examples
    --------
    The logarithm of a share price with Merton's jumps:

    >>> import ergode
    >>> def drop(t, y, p, draws):
    ...     return (y[0] - 0.1 + 0.2 * draws[2],)
    >>> share = ergode.VectorField(
    ...     lambda t, y, p: (0.05,), ["price"], diffusion=lambda t, y, p: (0.2,)
    ... )
    >>> result = ergode.trajectories.integrate(
    ...     share, times=[0, 1], initial={"price": 0}, step=1 / 64, replicates=2000, device="cpu",
    ...     events=[ergode.trajectories.Jump(0.5, drop, name="crash")],
    ... )
    >>> 0.4 < result["event_count"].mean().item() < 0.6
    True
    """

    rate: Any
    effect: Callable[..., tuple[Any, ...]]
    most: float | str | None = None
    name: str = "jump"
    direction, terminal = 0, False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("Jump", "name", self.name)
        if callable(self.rate) == (self.most is None):
            raise ModelError(
                f"event '{self.name}': a rate that is a function has a bound, most=; "
                "a number or a parameter has none"
            )
        if not callable(self.effect):
            raise ModelError(f"event '{self.name}' has no effect; expected a function")
        if not isinstance(self.bound, str) and not (
            is_finite_number(self.bound) and self.bound >= 0
        ):
            raise ModelError(
                f"the rate of event '{self.name}' is {self.bound!r}; expected a number that is not "
                "negative, the name of a parameter, or a function"
            )

    @property
    def bound(self) -> Any:
        """A number or a parameter: the rate of candidates."""
        return self.rate if self.most is None else self.most


Event = ZeroCrossing | Scheduled | Jump
_MOST_TIMES = 1_000


def _check_end(terminal: Any) -> None:
    """Check how many occurrences of an event end a trajectory."""
    if not (isinstance(terminal, bool | int | np.integer) and terminal >= 0):
        raise ModelError(
            f"terminal is {terminal!r}; expected True, False, or how many occurrences end "
            "a trajectory"
        )


def is_random(event: Event) -> bool:
    """Whether an event depends on draws."""
    return isinstance(event, Jump) or _takes_draws(event.effect)


def check_jumps(events: Sequence[Event], rows: Mapping[str, np.ndarray], begin: float) -> None:
    """Check rates that are parameters, and that a run begins before the times of its events.

    Raises a ModelError if a rate is negative, or a time not after `begin`.
    """
    for event in events:
        is_named = isinstance(event, Jump) and isinstance(event.bound, str)
        least = float(np.min(rows[event.bound])) if is_named else 0.0  # type: ignore[union-attr]
        if least < 0.0:
            raise ModelError(
                f"the rate of event '{event.name}' is a parameter, which is {least:g} in a "
                "trajectory; expected no negative one"
            )
        if isinstance(event, Scheduled) and event.times[0] <= begin:
            raise ModelError(
                f"event '{event.name}' is at {event.times[0]:g}, and the run begins at {begin:g}; "
                "give the state after it as the initial one"
            )


def check_events(
    events: Sequence[Event], field: VectorField, *, only_crossings: bool = True
) -> tuple[Any, ...]:
    """The events, checked, with functions in the form that is compiled.

    Raises a ModelError if an event is of another class or has a function of wrong form, or two
    have equal names.
    """
    arguments: dict[str, int | None] = {"t": None, "y": len(field.variables)}
    if field.delays:
        arguments["yd"] = len(field.delays)
    arguments["p"] = len(field.parameters)
    found = []
    for event in events:
        if not isinstance(event, ZeroCrossing if only_crossings else Event):
            expected = "ZeroCrossing" if only_crossings else "ZeroCrossing, Scheduled or Jump"
            raise ModelError(f"events has {event!r}; expected ergode.trajectories.{expected}")
        what, known = f"event '{event.name}'", field.parameters
        changed: dict[str, Any] = {}
        if isinstance(event, ZeroCrossing):
            check_crosses(event.function)
            changed["function"] = ready(event.function, arguments, None, what, known)
        if isinstance(event, Jump):
            if callable(event.rate):
                changed["rate"] = ready(event.rate, arguments, None, f"rate of {what}", known)
            if isinstance(event.bound, str) and event.bound not in known:
                raise ModelError(
                    f"the rate of {what} is {event.bound!r}, which is no parameter; the field has "
                    f"{', '.join(map(str, known)) or 'none'}"
                )
        if event.effect is not None:
            whole = dict(arguments)
            if not only_crossings and _takes_draws(event.effect):
                whole["draws"] = 4
            changed["effect"] = ready(
                event.effect, whole, field.variables, f"effect of {what}", known
            )
        found.append(replace(event, **changed))
    check_distinct("events", [event.name for event in events])
    return tuple(found)


def _takes_draws(effect: Any) -> bool:
    """Whether an effect has an argument of this name."""
    return isinstance(effect, FunctionType) and "draws" in inspect.signature(effect).parameters


def bindings_of_events(events: Sequence[Event], field: VectorField) -> dict[Any, Any]:
    """Bindings of a kernel with these events.

    Internal events follow those of the user: one for every state-dependent delay, which occurs
    where the delay passes a breaking point.
    """
    edges = len(field.delays) if field.state_dependent else 0
    arguments = "t, y, yd, p" if field.delays else "t, y, p"
    crossings = {e: event for e, event in enumerate(events) if isinstance(event, ZeroCrossing)}
    names = {f"gap_{e}": event.function for e, event in crossings.items()}
    calls = "".join(
        f"gap_{e}({arguments}), " if e in crossings else "1.0, " for e in range(len(events))
    )
    acts = {f"effect_{e}": event.effect for e, event in enumerate(events) if event.effect}
    chain = "".join(
        f"    if which == {e}:\n        return effect_{e}({arguments}"
        f"{', draws' if _takes_draws(event.effect) else ''})\n"
        for e, event in enumerate(events)
        if event.effect
    )
    same = "".join(f"y[{i}], " for i in range(len(field.variables)))
    gaps = function_from_text(f"def gaps(t, y, yd, p):\n    return ({calls})\n", names)
    form = ((len(events),), len(field.parameters)) if events else (None, None)
    bindings: dict[Any, Any] = {inside_step.gaps: UserFunction(gaps, *form)}
    if not events and not edges:
        return bindings
    act = function_from_text(
        f"def act(which, draws, t, y, yd, p):\n{chain}    return ({same})\n", acts
    )
    own = tuple(event.effect is not None or bool(event.terminal) for event in events)
    bindings |= {
        inside_step.EVENTS: len(events) + edges,
        inside_step.DIRECTIONS: tuple(int(event.direction) for event in events) + (-1,) * edges,
        inside_step.ACTS: own + (True,) * edges,
        inside_step.act: UserFunction(act, (len(field.variables),), len(field.parameters)),
    }
    if events:
        bindings[inside_step.ENDS] = tuple(int(event.terminal) for event in events)
    if edges:
        bindings[inside_step.EDGES] = edges
    if any(_takes_draws(event.effect) for event in events):
        bindings[timed.DRAWS] = True
    if len(crossings) < len(events):
        bindings |= _bindings_of_times(events, field, arguments, edges)
    return bindings


def _bindings_of_times(
    events: Sequence[Event], field: VectorField, arguments: str, edges: int
) -> dict[Any, Any]:
    """Bindings of events that are not crossings."""
    kinds, ahead, rates, names = [], "", "", {}
    for e, event in enumerate(events):
        kind, following, rate = 0, "0.0", "0.0"
        if isinstance(event, Scheduled):
            kind, following = timed.LISTED, _next_of(event.times)
        elif isinstance(event, Jump):
            is_named = isinstance(event.bound, str)
            bound = field.parameters.index(event.bound) if is_named else float(event.bound)
            kind, following = timed.JUMPS, f"p[{bound}]" if is_named else repr(bound)
            rate = following
            if callable(event.rate):
                rate, names[f"rate_{e}"] = f"rate_{e}({arguments})", event.rate
        kinds.append(kind)
        ahead, rates = f"{ahead}{following}, ", f"{rates}{rate}, "
    form = ((len(events),), len(field.parameters))
    known = function_from_text(f"def ahead(t, p):\n    return ({ahead})\n", {"never": math.inf})
    found = function_from_text(f"def rates(t, y, yd, p):\n    return ({rates})\n", names)
    return {
        timed.TIMED: (*kinds, *(0,) * edges),
        timed.ahead: UserFunction(known, *form),
        timed.rates: UserFunction(found, *form),
    }


def _next_of(times: Sequence[float]) -> str:
    """The first of these times after t, by bisection."""
    if len(times) == 1:
        return f"({times[0]!r} if t < {times[0]!r} else never)"
    middle = len(times) // 2
    last = times[middle - 1]
    return f"({_next_of(times[:middle])} if t < {last!r} else {_next_of(times[middle:])})"


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
