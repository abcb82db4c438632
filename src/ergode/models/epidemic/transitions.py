"""Transitions between compartments: infection by a neighbour, and spontaneous progression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.arguments import is_finite_number
from ergode.core.errors import ModelError
from ergode.models.epidemic.interventions import Calendar
from ergode.models.holding_times.families import HoldingTime

_TOLERANCE = 1e-9  # of the sum of branching probabilities


@dataclass(frozen=True)
class Infection:
    """Contagion along edges: a node in `susceptible` moves to `infected`.

    Parameters
    ----------
    susceptible, infected : str
        Compartments before and after.
    transmission_rate : mapping of str to float
        For each infectious compartment, the rate at which one such neighbour infects across an
        edge of weight one [1 / time].
    profile : mapping of str to Calendar, optional
        For an infectious compartment, a factor on that rate by the time since the neighbour
        entered it: infectivity by age of infection.
    """

    susceptible: str
    infected: str
    transmission_rate: Mapping[str, float]
    profile: Mapping[str, Calendar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.transmission_rate, Mapping):
            raise ModelError(
                f"transmission_rate of the infection {self.susceptible} -> {self.infected} must "
                "name the infectious compartments, such as {'I': 0.25}; found "
                + (
                    "a bare number"
                    if _is_number(self.transmission_rate)
                    else repr(self.transmission_rate)
                )
            )
        if self.susceptible == self.infected:
            raise ModelError(f"the infection of '{self.susceptible}' leads to itself")
        if self.transmission_rate.get(self.susceptible):
            raise ModelError(
                f"'{self.susceptible}' infects itself: it is both the susceptible and an "
                "infectious compartment of one infection"
            )
        if not self.transmission_rate:
            raise ModelError(
                f"infection {self.susceptible} -> {self.infected} names no infectious compartment"
            )
        for compartment, rate in self.transmission_rate.items():
            if not (is_finite_number(rate) and rate >= 0):
                raise ModelError(
                    f"transmission rate of '{compartment}' in the infection {self.susceptible} -> "
                    f"{self.infected} is {rate!r}; expected a finite number, zero or more"
                )
        for compartment, calendar in self.profile.items():
            if compartment not in self.transmission_rate:
                raise ModelError(
                    f"the infection {self.susceptible} -> {self.infected} has a profile of "
                    f"'{compartment}', which does not infect"
                )
            is_plain = isinstance(calendar, Calendar) and calendar.period is None
            if not is_plain or calendar.has_dates:
                raise ModelError(
                    f"the profile of '{compartment}' is {calendar!r}; expected a Calendar of ages "
                    "that does not repeat"
                )
        object.__setattr__(
            self, "transmission_rate", {k: float(v) for k, v in self.transmission_rate.items()}
        )
        object.__setattr__(self, "profile", dict(self.profile))


@dataclass(frozen=True)
class Progression:
    """A spontaneous transition: a node leaves `compartment` after a holding time.

    Parameters
    ----------
    compartment : str
        Compartment before.
    to : str or mapping of str to float
        Compartment after, or the probability of each.
    holding_time : HoldingTime
        Time spent in `compartment` [time].
    """

    compartment: str
    to: str | Mapping[str, float]
    holding_time: HoldingTime

    def __post_init__(self) -> None:
        if not isinstance(self.to, str | Mapping):
            raise ModelError(
                f"the progression out of '{self.compartment}' leads to {self.to!r}; expected a "
                "compartment, or the probability of each, such as {'R': 0.9, 'D': 0.1}"
            )
        to = {self.to: 1.0} if isinstance(self.to, str) else dict(self.to)
        for target, probability in to.items():
            if not (_is_number(probability) and 0 <= probability <= 1):
                raise ModelError(
                    f"branching probability {self.compartment} -> {target} is {probability!r}; "
                    "expected a number between 0 and 1"
                )
        total = sum(to.values())
        if abs(total - 1.0) > _TOLERANCE:
            raise ModelError(
                f"branching probabilities out of '{self.compartment}' sum to {total:.10g}, not 1: "
                + ", ".join(f"{name} {value:g}" for name, value in to.items())
            )
        if not isinstance(self.holding_time, HoldingTime):
            raise ModelError(
                f"holding time of '{self.compartment}' is {self.holding_time!r}; expected a "
                "distribution such as ergode.Exponential(mean=5)"
            )
        object.__setattr__(self, "to", {k: float(v) for k, v in to.items()})

    @property
    def branches(self) -> dict[str, float]:
        """Compartments that nodes enter: entries of `to` with nonzero probability."""
        assert not isinstance(self.to, str)  # made a mapping above
        return {name: probability for name, probability in self.to.items() if probability > 0}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)
