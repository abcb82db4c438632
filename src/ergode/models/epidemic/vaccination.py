"""Vaccination: a campaign at random times, or a programme of doses a day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.arguments import check_switch
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.epidemic.attributes import ByAttribute, priority_by
from ergode.models.epidemic.calendars import Calendar, calendar_of
from ergode.models.epidemic.dates import number_of
from ergode.models.epidemic.interventions import SHARE, SPAN, Intervention, Trigger
from ergode.models.holding_times.families import Exponential


@dataclass(frozen=True)
class Vaccination(Intervention):
    """Protection of a fraction of nodes, by one dose or several.

    Without a `dose_rate` nodes are chosen at random, and each has a random time. With a `dose_rate`
    doses are given one after another, to nodes in the order of their `priority`. In both cases
    nodes are vaccinated in whatever compartment they are.

    Parameters
    ----------
    fraction : float
        Fraction of the eligible nodes that are vaccinated, 0 to 1; with a `dose_rate`, of those of
        each priority.
    efficacy : float or sequence of float
        A leaky vaccine multiplies the infection rate of each vaccinated node by 1 - efficacy; an
        all-or-nothing vaccine protects this fraction of them fully and the others not at all.
        A sequence has the efficacy after each dose; each node gets as many doses.
    leaky : bool
        Whether the vaccine is leaky; otherwise it is all-or-nothing.
    infectivity_reduction : float or sequence of float
        Fraction by which protected nodes are less infectious if they become infected; after each
        dose, or after every dose.
    severity : mapping of str to float or sequence of float
        For compartments of a branching: the fraction of the nodes that would enter it, and do not
        if they are protected at that moment, such as ``{"H": 0.8}``; after each dose, or after
        every dose. They enter one of the branches that this vaccination does not reduce, in
        proportion to the probabilities that their other vaccinations leave. If several
        vaccinations reduce one branch, they act in the order in which they are listed.
    rollout : float
        Period of vaccination; each vaccinated node has a uniformly random time in it [time].
    delay : float
        Time from a dose to its protection [time].
    duration : float
        Duration of the protection by a dose [time].
    waning : Exponential or Calendar, optional
        Factor on all three effects of a leaky vaccine by the time since the protection by the last
        dose began: exponential decay with a mean, or a table of values between 0 and 1. So a
        booster restores what has waned.
    among : str or ByAttribute, optional
        Name of a node attribute: nodes with a nonzero value are eligible. Without a `dose_rate`
        also the probabilities that a node takes part, by an attribute; each is drawn once in a
        replicate.
    dose_rate : float or Calendar, optional
        Doses per unit of time, in place of a rollout: a number, or numbers that change at times or
        dates [1 / time]; with 0 none are given. A series of pandas is taken as a Calendar.
    interval : float or sequence of float, optional
        Time from each dose of a node to its next dose [time]. With a `dose_rate` this is the least
        time.
    priority : str or ByAttribute, optional
        With a `dose_rate`: name of a node attribute, nodes with the largest value come first, such
        as ``"age"``; or the numbers of a ByAttribute. Nodes of equal priority, or all nodes without
        a priority, come in random order.
    start : float, date or Trigger, optional
        Start of the rollout or of the doses.
    name : str, optional
        Name of the measure in results; see `Intervention`.

    Notes
    -----
    Doses are spread evenly over time: dose number n = 1, 2, ... is given at the moment at which the
    integral of `dose_rate` from the start on reaches n. With 10 doses a day, the first is given
    after a tenth of a day. A dose goes to the node that has been due the longest for a second or
    later dose; if there is none, to the next node for its first dose; if there is none, to nobody.
    The programme ends when all who take part have had all doses.

    Examples
    --------
    A vaccine that is better against the hospital than against infection, and wanes:

    >>> import ergode
    >>> vaccination = ergode.Vaccination(
    ...     fraction=0.7, efficacy=0.5, infectivity_reduction=0.3, severity={"H": 0.8},
    ...     rollout=30, waning=ergode.Exponential(mean=180),
    ... )

    Two doses and a booster, 500 doses a day, the oldest first:

    >>> programme = ergode.Vaccination(
    ...     fraction=0.8, efficacy=[0.4, 0.8, 0.9], interval=[21, 180], dose_rate=500,
    ...     priority="age", delay=14, waning=ergode.Exponential(mean=180),
    ... )
    >>> programme.dose_count
    3
    """

    fraction: float = 1.0
    efficacy: float | Sequence[float] = 1.0
    leaky: bool = True
    infectivity_reduction: float | Sequence[float] = 0.0
    rollout: float = 0.0
    delay: float = 0.0
    duration: float = math.inf
    among: str | ByAttribute | None = None
    severity: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    waning: Exponential | Calendar | None = None
    dose_rate: float | Calendar | None = None
    interval: float | Sequence[float] | None = None
    priority: str | ByAttribute | None = None

    def _check_fields(self) -> None:
        self._check(fraction=SHARE, rollout=SPAN, delay=SPAN, duration=SPAN)
        check_switch("Vaccination", "leaky", self.leaky)
        if self.stop is not None:
            raise ModelError("Vaccination: expected no stop, but a rollout and a duration")
        if not isinstance(self.severity, Mapping):
            raise ModelError(
                f"Vaccination: severity is {self.severity!r}; expected compartments and their "
                "reductions, such as {'H': 0.8}"
            )
        for name in ("efficacy", "infectivity_reduction"):
            object.__setattr__(self, name, self._effect(name, getattr(self, name)))
        reduced = {
            name: self._effect(f"severity of '{name}'", value)
            for name, value in self.severity.items()
        }
        object.__setattr__(self, "severity", reduced)
        self._check_interval()
        self._check_waning()
        self._check_programme()

    def _effect(self, name: str, given: Any) -> float | tuple[float, ...]:
        """A checked effect of all doses, or of each."""
        if isinstance(given, str | Mapping) or not np.iterable(given):
            return number_of("Vaccination", name, given, *SHARE)
        each = tuple(number_of("Vaccination", name, one, *SHARE) for one in given)
        if name == "efficacy" and not each:
            raise ModelError("Vaccination: efficacy is empty; expected one for each dose")
        if name != "efficacy" and len(each) != self.dose_count:
            raise ModelError(
                f"Vaccination: {name} has {len(each)} numbers for "
                f"{counted(self.dose_count, 'dose')}; "
                "expected one number, or as many as efficacy has"
            )
        return each

    @property
    def dose_count(self) -> int:
        """Doses of each vaccinated node."""
        return len(self.efficacy) if isinstance(self.efficacy, tuple) else 1

    def by_dose(self, effect: Any) -> tuple[float, ...]:
        """An effect after each dose."""
        return effect if isinstance(effect, tuple) else (effect,) * self.dose_count

    @property
    def intervals(self) -> tuple[float, ...]:
        """Times between the doses."""
        given = self.interval
        if given is None:
            return ()
        return given if isinstance(given, tuple) else (float(given),) * (self.dose_count - 1)  # type: ignore[arg-type]

    def _check_interval(self) -> None:
        count, given = self.dose_count, self.interval
        if given is None:
            if count > 1:
                raise ModelError(
                    f"Vaccination: efficacy is of {counted(count, 'dose')}, but there is no "
                    "interval "
                    "between them"
                )
            return
        listed = np.iterable(given) and not isinstance(given, str)
        each = tuple(
            number_of("Vaccination", "interval", one)
            for one in (given if listed else (given,))  # type: ignore[union-attr]
        )
        for one in each:
            if not 0 < one < math.inf:
                raise ModelError(
                    f"Vaccination: interval is {one:g}; expected a finite time above zero"
                )
        if count == 1 or (listed and len(each) != count - 1):
            doses = f"{counted(len(each) + 1, 'dose')}" if listed else "several doses"
            raise ModelError(
                f"Vaccination: interval is for {doses}, but efficacy is of "
                f"{counted(count, 'dose')}; "
                "expected an efficacy for each dose"
            )
        object.__setattr__(self, "interval", each if listed else each[0])

    def _check_waning(self) -> None:
        waning = self.waning
        if waning is None or isinstance(waning, Exponential):
            is_table = False
        elif isinstance(waning, Calendar) and waning.period is None and not waning.has_dates:
            is_table = True
        else:
            raise ModelError(
                f"Vaccination: waning is {waning!r}; expected an Exponential, or a Calendar of "
                "times since protection that does not repeat"
            )
        if is_table and max(waning.factors) > 1.0:  # type: ignore[union-attr]
            raise ModelError("Vaccination: a factor of waning is above 1; expected 0 to 1")
        if waning is not None and not self.leaky:
            raise ModelError(
                "Vaccination: waning goes with a leaky vaccine; an all-or-nothing vaccine has a "
                "duration"
            )

    def _check_programme(self) -> None:
        given = calendar_of(self.dose_rate)
        if given is None:
            if self.priority is not None:
                raise ModelError(
                    "Vaccination: priority is for doses one after another; expected a dose_rate"
                )
            return
        if isinstance(self.among, ByAttribute):
            raise ModelError(
                "Vaccination: among is a ByAttribute, but with a dose_rate the order of nodes is "
                "fixed; expected the name of a node attribute"
            )
        if self.rollout:
            raise ModelError("Vaccination: it has a rollout and a dose_rate; expected one of them")
        if isinstance(given, Calendar):
            if isinstance(self.start, Trigger):
                raise ModelError(
                    "Vaccination: dose_rate is a Calendar of times, but a Trigger starts it; "
                    "expected a number"
                )
        else:
            given = number_of("Vaccination", "dose_rate", given)
            if not 0 <= given < math.inf:
                raise ModelError(
                    f"Vaccination: dose_rate is {given!r}; expected a finite number, 0 or more, or "
                    "a Calendar"
                )
        object.__setattr__(self, "dose_rate", given)
        object.__setattr__(self, "priority", priority_by("Vaccination", self.priority))
