"""Events: assignments at the moment when a condition becomes true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ergode.core.arguments import check_switch, check_text
from ergode.core.errors import ModelError
from ergode.models.expressions import Effect, Expression, number_or_expression

Rounding = Literal["stochastic", "nearest", "down"]


@dataclass(frozen=True)
class Event:
    """Assignments that are made when a condition turns from false to true.

    Parameters
    ----------
    trigger : str
        The condition, of species, parameters, compartments and ``time``, such as ``"P > 30"`` or
        ``"time >= 22.5"``. Such a time is met exactly, independent of the times of results.
    assignments : mapping of str to float or str
        New values by name of a species (in the sense of its `quantity`), a parameter or a
        compartment. Amounts do not follow the size of their compartment; concentrations do.
        All are computed before the first is assigned. An assigned concentration is multiplied by
        the size of the compartment when the event is executed, before its assignments. A formula
        may draw random numbers:
        ``binomial(n, p)`` of a whole n, ``poisson(mean)``, ``uniform(low, high)``,
        ``normal(mean, deviation)``, ``gamma(shape, scale)``, ``exponential(rate)``; every call is a
        new draw.
    delay : float or str
        Time from the trigger to the assignments.
    priority : float or str, optional
        Simultaneous events run in the order of descending priority. Events of equal priority run
        in random order. Events without a priority run last, in the order in which they are listed.
    persistent : bool
        Whether a delayed event is executed even if the condition becomes false during the delay.
    initially_true : bool
        Value of the condition before the beginning. If False, a condition that is true at the
        beginning triggers the event at once.
    values_from_trigger : bool
        Whether a delayed event evaluates its formulas at the trigger; otherwise after the delay.
    name : str, optional
    rounding : {"stochastic", "nearest", "down"}, optional
        How a stochastic simulation rounds assigned amounts to whole molecules: ``"stochastic"``
        rounds 2.3 up with probability 0.3, which keeps the mean. If not given, an assignment that
        may give a fraction is refused.
    at_begin : bool
        Whether the assignments are made at the begin of a run, and only there: before any trigger
        is looked at, in the order in which such events are listed. The trigger is not used. So
        initial values may be drawn.

    Examples
    --------
    >>> import ergode
    >>> sorted(ergode.Event("P2 > 30", {"P": 100, "P2": 0}).assignments)
    ['P', 'P2']
    """

    trigger: Expression
    assignments: Mapping[str, float | Expression]
    delay: float | Expression = 0.0
    priority: float | Expression | None = None
    persistent: bool = True
    initially_true: bool = True
    values_from_trigger: bool = True
    name: str | None = None
    rounding: Rounding | None = None
    at_begin: bool = False

    def __post_init__(self) -> None:
        what = f"event '{self.name or self.trigger}'"
        if self.name is not None:
            check_text("an event", "name", self.name)
        for switch in ("persistent", "initially_true", "values_from_trigger", "at_begin"):
            check_switch(what, switch, getattr(self, switch))
        trigger: Any = self.trigger
        if isinstance(trigger, str):
            trigger = Expression(trigger)
        if not isinstance(trigger, Expression):
            raise ModelError(f"trigger of {what} is {trigger!r}; expected a condition as text")
        object.__setattr__(self, "trigger", trigger)
        if not isinstance(self.assignments, Mapping):
            raise ModelError(
                f"assignments of {what} is {self.assignments!r}; expected new values by name"
            )
        assignments = {
            name: number_or_expression(value, f"assignment of '{name}' in {what}", Effect)
            for name, value in self.assignments.items()
        }
        object.__setattr__(self, "assignments", assignments)
        if self.rounding not in (None, *get_args(Rounding)):
            raise ModelError(
                f"rounding of {what} is {self.rounding!r}; expected 'stochastic', 'nearest' or "
                "'down'"
            )
        delay = number_or_expression(self.delay, f"delay of {what}")
        if not isinstance(delay, Expression) and delay < 0:
            raise ModelError(f"delay of {what} is {delay:g}; expected 0 or more")
        object.__setattr__(self, "delay", delay)
        if self.at_begin and delay != 0.0:
            raise ModelError(f"{what} is at the begin, and has a delay; leave one of them out")
        if self.priority is not None:
            priority = number_or_expression(self.priority, f"priority of {what}")
            object.__setattr__(self, "priority", priority)
