"""Transitions between compartments: infection by a neighbour, and spontaneous progression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.arguments import is_finite_number
from ergode.core.columns import as_float
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute, factors_by
from ergode.models.epidemic.calendars import Calendar
from ergode.models.holding_times.families import Exponential, HoldingTime

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
    susceptibility, infectivity : ByAttribute or str, optional
        Factors on the rate along arcs into and out of a node, by an attribute of the node; or the
        name of a node attribute that is the factor. The infections of a model may have different
        ones.
    """

    susceptible: str
    infected: str
    transmission_rate: Mapping[str, float]
    profile: Mapping[str, Calendar] = field(default_factory=dict)
    susceptibility: ByAttribute | str | None = None
    infectivity: ByAttribute | str | None = None

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
            self, "transmission_rate", {k: as_float(v) for k, v in self.transmission_rate.items()}
        )
        object.__setattr__(self, "profile", dict(self.profile))
        if self.susceptibility is None and self.infectivity is None:
            return
        owner = f"infection {self.susceptible} -> {self.infected}"
        for name in ("susceptibility", "infectivity"):
            object.__setattr__(self, name, factors_by(owner, name, getattr(self, name)))

    def _entry(self) -> dict[str, Any]:
        """Plain data, for files and digests; what is not given is left out."""
        profile = {
            name: {"changes": list(one.changes), "factors": list(one.factors)}
            for name, one in self.profile.items()
        }
        return {
            "susceptible": self.susceptible,
            "infected": self.infected,
            "transmission_rate": dict(self.transmission_rate),
            **({"profile": profile} if profile else {}),
            **{
                name: one if isinstance(one, str) else one.to_dict()
                for name in ("susceptibility", "infectivity")
                if (one := getattr(self, name)) is not None
            },
        }

    def _rows(self) -> list[tuple[str, str, str]]:
        """Rows of a table: from where, to where, and how."""
        by = ", ".join(f"{rate:g} by {who}" for who, rate in self.transmission_rate.items())
        return [(self.susceptible, self.infected, f"infection at rate {by}")]


@dataclass(frozen=True)
class Progression:
    """A spontaneous transition: a node leaves `compartment` after a holding time.

    Parameters
    ----------
    compartment : str
        Compartment before.
    to : str, mapping of str to float, or ByAttribute
        Compartment after, or the probability of each; or these by a node attribute.
    holding_time : HoldingTime or ByAttribute
        Time spent in `compartment`, or this by a node attribute [time].
    exit_rate : float or ByAttribute
        Rate at which nodes leave before that, for the compartment `exit_to`, however long they have
        been in `compartment`: death by other causes, emigration, the start of a treatment
        [1 / time].
    exit_to : str or mapping of str to float, optional
        Compartment that these enter, or the probability of each.

    Notes
    -----
    The holding time and the time to an exit are independent; the earlier of the two ends the stay.
    An exponential holding time and an exit are one exponential holding time, so `holding_time`,
    `to` and `exit_rate` then have other values than those given.

    Examples
    --------
    Infectious people recover after a week, or are found and isolated at a rate of 0.1 a day:

    >>> import ergode
    >>> week = ergode.Gamma(mean=7, sd=2)
    >>> ergode.Progression("I", "R", week, exit_rate=0.1, exit_to="Q").exits
    {'Q': 1.0}
    """

    compartment: str
    to: str | Mapping[str, float] | ByAttribute
    holding_time: HoldingTime | ByAttribute
    exit_rate: float | ByAttribute = field(default=0.0, kw_only=True)
    exit_to: str | Mapping[str, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.to, ByAttribute):
            table = self.to.each(self._branches_of)
            # Every entry has every target.
            names = dict.fromkeys(name for one in table.entries for name in one)
            to: Any = table.each(lambda one, _: {name: one.get(name, 0.0) for name in names})
        else:
            to = self._branches_of(self.to, "")
        if isinstance(self.holding_time, ByAttribute):
            self.holding_time.each(self._check_holding_time)
        else:
            self._check_holding_time(self.holding_time, "")
        object.__setattr__(self, "to", to)
        if self.exit_to is not None or isinstance(self.exit_rate, ByAttribute) or self.exit_rate:
            self._check_exit()

    def _check_exit(self) -> None:
        owner = f"the progression out of '{self.compartment}'"
        if self.exit_to is None:
            raise ModelError(f"{owner} has an exit_rate, but no exit_to; expected a compartment")
        rates = self.exit_rate
        each = rates.entries if isinstance(rates, ByAttribute) else (rates,)
        for rate in each:
            if not (is_finite_number(rate) and rate >= 0):
                raise ModelError(
                    f"the exit_rate of {owner} is {rate!r}; expected a finite number, zero or more"
                )
        to = {name: p for name, p in self._branches_of(self.exit_to, "").items() if p > 0}
        if isinstance(rates, ByAttribute):
            rates = rates.each(lambda rate, _: as_float(rate))
        else:
            rates = as_float(rates)
        branches = self.to
        if (
            isinstance(branches, Mapping)
            and isinstance(self.holding_time, Exponential)
            and not isinstance(rates, ByAttribute)
        ):
            # Leaving for the compartment itself changes nothing here.
            rates = rates * (1.0 - to.pop(self.compartment, 0.0))
            total = self.holding_time.rate + rates
            share, left = rates / total, self.holding_time.rate / total
            sum_of_exits = sum(to.values())
            merged = {name: p * left for name, p in branches.items()}
            for name, p in to.items():
                merged[name] = merged.get(name, 0.0) + p / sum_of_exits * share
            object.__setattr__(self, "holding_time", Exponential(rate=total))
            object.__setattr__(self, "to", merged)
            rates, to = 0.0, {}
        object.__setattr__(self, "exit_rate", rates)
        object.__setattr__(self, "exit_to", to or None)

    def _branches_of(self, given: Any, label: str) -> dict[str, float]:
        """Checked probabilities; `label` names the nodes they are for."""
        if isinstance(given, str):
            return {given: 1.0}
        whose = f" for {label}" if label else ""
        if not isinstance(given, Mapping):
            raise ModelError(
                f"the progression out of '{self.compartment}' leads to {given!r}{whose}; expected "
                "a compartment, or the probability of each, such as {'R': 0.9, 'D': 0.1}"
            )
        to = dict(given)
        for target, probability in to.items():
            if not (_is_number(probability) and 0 <= probability <= 1):
                raise ModelError(
                    f"branching probability {self.compartment} -> {target} is {probability!r}"
                    f"{whose}; expected a number between 0 and 1"
                )
        total = sum(to.values())
        if abs(total - 1.0) > _TOLERANCE:
            raise ModelError(
                f"branching probabilities out of '{self.compartment}' sum to {total:.10g}, not 1"
                f"{whose}: " + ", ".join(f"{name} {value:g}" for name, value in to.items())
            )
        return {name: as_float(value) for name, value in to.items()}

    def _check_holding_time(self, given: Any, label: str) -> Any:
        if not isinstance(given, HoldingTime):
            whose = f" for {label}" if label else ""
            raise ModelError(
                f"holding time of '{self.compartment}' is {given!r}{whose}; expected a "
                "distribution such as ergode.Exponential(mean=5)"
            )
        return given

    @property
    def splits(self) -> tuple[dict[str, float], ...]:
        """Probabilities of the targets: one mapping, or one for each entry of `to`."""
        return self.to.entries if isinstance(self.to, ByAttribute) else (self.to,)

    @property
    def targets(self) -> tuple[str, ...]:
        """Every compartment that `to` names."""
        return tuple(self.splits[0])

    @property
    def branches(self) -> dict[str, float]:
        """Compartments that nodes enter, and their probability.

        If it differs between nodes, this is the largest; it is zero for those of exits alone.
        """
        largest = {name: max(one[name] for one in self.splits) for name in self.targets}
        found = {name: probability for name, probability in largest.items() if probability > 0}
        return found | {name: 0.0 for name in self.exits if name not in found}

    @property
    def exits(self) -> dict[str, float]:
        """Compartments that nodes enter by an exit, and their probability."""
        given = self.exit_to
        return {given: 1.0} if isinstance(given, str) else dict(given or {})

    @property
    def exit_rates(self) -> tuple[float, ...]:
        """The rate of exits, or each of those by an attribute [1 / time]."""
        return (
            self.exit_rate.entries if isinstance(self.exit_rate, ByAttribute) else (self.exit_rate,)
        )

    @property
    def holding_times(self) -> tuple[HoldingTime, ...]:
        """The holding time, or each of those by an attribute."""
        if isinstance(self.holding_time, ByAttribute):
            return self.holding_time.entries
        return (self.holding_time,)

    @property
    def shortest_mean(self) -> float:
        """Mean holding time, the shortest one if it differs between nodes [time]."""
        return min(one.mean for one in self.holding_times)

    def _entry(self) -> dict[str, Any]:
        """Plain data, for files and digests; what is not given is left out."""
        stay, rate = self.holding_time, self.exit_rate
        found = {
            "compartment": self.compartment,
            "to": self.branches,
            "holding_time": stay.to_dict(lambda one: one.to_dict())
            if isinstance(stay, ByAttribute)
            else stay.to_dict(),
        }
        if self.exits:
            given = rate.to_dict() if isinstance(rate, ByAttribute) else rate
            found["exit"] = {"rate": given, "to": self.exits}
        return found | ({"by": self.to.to_dict()} if isinstance(self.to, ByAttribute) else {})

    def _rows(self) -> list[tuple[str, str, str]]:
        """Rows of a table: from where, to where, and how."""
        rows = []
        for target, share in self.exits.items():
            rates = ", ".join(f"{rate * share:g}" for rate in self.exit_rates)
            rows.append((self.compartment, target, f"at rate {rates}{_by(self.exit_rate)}"))
        stays = ", ".join(map(repr, self.holding_times))
        for target in self.targets:
            chances = [one[target] for one in self.splits]
            often = "" if set(chances) == {1.0} else ", with probability " + ", ".join(
                f"{chance:g}" for chance in chances
            ) + _by(self.to)  # fmt: skip
            rows.append((self.compartment, target, f"after {stays}{_by(self.holding_time)}{often}"))
        return rows


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _by(given: Any) -> str:
    return f" by {given.attribute}" if isinstance(given, ByAttribute) else ""
