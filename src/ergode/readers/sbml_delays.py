"""Delays in formulas of SBML: what a quantity was a while ago.

``delay(x, d)`` is x at ``time - d``.  Before the begin, x has its initial value, or what a formula
of time says, and no rate of change.  Where a quantity does not depend on its own delayed value, a
copy that runs behind has the delayed value exactly: a parameter with the rate of change that x had
then, times ``1 - d'``, if d changes.  What is copied is continuous.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import TIME, Expression
from ergode.readers.algebraic import slope

Rate = Expression | float
BEGUN = "begun__"
"""A name in settled formulas: zero before the begin, when nothing changes, and one after it."""


class Delays:
    """Copies that run behind, of all quantities that have a delay."""

    def __init__(
        self,
        settled: Callable[[Expression], Expression],  # in terms of time and what has a value
        rate: Callable[[str], Rate],
        copied: Callable[[str], None],  # told of each quantity that has a copy
        start: Mapping[str, Expression],  # initial assignments
        assigned: Collection[str],  # by events
        unused: Callable[[str], str],  # a new name that begins so
    ) -> None:
        self._settled, self._rate, self._copied = settled, rate, copied
        self._start, self._assigned, self._unused = start, assigned, unused
        self._copies: dict[tuple[str, str], str] = {}
        self._open: set[str] = set()
        self.begin = ""  # the parameter that is the time of the begin; none if it is not needed
        self.of: dict[str, str] = {}  # what each copy is at the begin
        self._first: dict[str, str] = {}  # the same, with a check of the delay
        self.rates: dict[str, Expression] = {}

    def delayed(self, formula: Expression, delay: Expression) -> Expression:
        """A formula at the time that was.

        Raises a ModelError if an event changes what it depends on, or the delayed value does.
        """
        formula = self._once(formula.text, lambda: self._settled(formula))
        delay = self._settled(delay)
        if not delay.names and delay.evaluate({}) < 0:
            raise ModelError(f"its formula has the delay {delay.text}; expected 0 or more")
        then = f"{TIME} - ({delay.text})"
        return formula.substitute(
            {name: Expression(self._then(name, delay, then)) for name in formula.names}
        )

    def _then(self, name: str, delay: Expression, then: str) -> str:
        if name == TIME:
            return then
        if name == BEGUN:
            return f"(1 if {self._is_later(then)} else 0)"
        if name in self._assigned:
            raise ModelError(f"its formula has a delay of '{name}', which an event changes")
        now = name if self._rate_of(name) == 0 else self._copy(name, delay, then)
        first = self._start.get(name)
        if first is None or TIME not in first.names:
            return now
        early = self._settled(first).substitute({TIME: Expression(then)})
        return f"({now} if {self._is_later(then)} else {early.text})"

    def _copy(self, name: str, delay: Expression, then: str) -> str:
        """The parameter that has the delayed value."""
        key = name, delay.text
        if key in self._copies:
            return self._copies[key]
        self._copies[key] = copy = self._unused(f"{name}_delayed")
        self.of[copy] = first = self.of.get(name, name)
        # A parameter may make a delay negative: then there is no value.
        self._first[copy] = f"{first} if {delay.text} >= 0 else 0 / 0" if delay.names else first
        if name not in self.of:
            self._copied(name)
        rate = self._rate_of(name)
        now = rate if isinstance(rate, Expression) else Expression(repr(rate))
        flow, change = self.delayed(now, delay).text, self._change_of(delay)
        flow = f"({flow}) * (1{change})" if change else f"({flow})"
        self.rates[copy] = Expression(f"{flow} if {self._is_later(then)} else 0")
        return copy

    @property
    def assignments(self) -> dict[str, float | Expression]:
        """Of parameters, at the begin."""
        given = {self.begin: TIME, **self._first} if self.begin else {}
        return {name: Expression(text) for name, text in given.items()}

    def _is_later(self, then: str) -> str:
        self.begin = self.begin or self._unused("begin")
        return f"{then} >= {self.begin}"

    def _rate_of(self, name: str) -> Rate:
        if name not in self.of:
            return self._once(name, lambda: self._rate(name))
        if name not in self.rates:  # the copy is not finished, and needs itself at an earlier time
            raise _depends(self.of[name])
        return self.rates[name]

    def _once(self, what: str, find: Callable[[], Any]) -> Any:
        """What is found of something, if finding it does not ask for it again."""
        if what in self._open:
            raise _depends(what)
        self._open.add(what)
        found = find()
        self._open.remove(what)
        return found

    def _change_of(self, delay: Expression) -> str:
        """Minus the rate of change of a delay."""
        terms = ""
        for name in sorted(delay.names):
            if name in self._assigned:
                raise ModelError(
                    f"its formula has the delay {delay.text}, and an event changes '{name}'"
                )
            rate = 1.0 if name == TIME else self._rate_of(name)
            if rate == 0:
                continue
            part = slope(delay, name)
            if part is None:
                raise ModelError(
                    f"its formula has the delay {delay.text}, which is not linear in '{name}'"
                )
            terms += f" - ({part}) * ({rate.text if isinstance(rate, Expression) else rate})"
        return terms


def _depends(name: str) -> ModelError:
    return ModelError(f"its formula has a delay of '{name}', which depends on its delayed value")
