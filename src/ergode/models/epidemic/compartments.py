"""Compartment models: compartments, infections and progressions with holding times.

A model is a transition graph. An `Infection` moves a susceptible node by contact with an
infectious neighbour; a `Progression` moves a node after a holding time to one of several
compartments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ergode.core.arguments import check_unit
from ergode.core.errors import ModelError
from ergode.core.notebook import Table, card
from ergode.models.epidemic import graph
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.transitions import Infection, Progression
from ergode.models.holding_times.families import HoldingTime
from ergode.models.holding_times.until_birth import UntilBirth


@dataclass(frozen=True)
class CompartmentModel:
    """A transition graph of compartments.

    Parameters
    ----------
    compartments : sequence of str
        Names, in the order of results. Nodes stay in a compartment without a progression.
    infections : sequence of Infection
        Transitions along edges.
    progressions : sequence of Progression
        Spontaneous transitions, at most one for each compartment.
    susceptibility, infectivity : str, optional
        Names of node attributes of the network that multiply the rate along arcs into and out of
        a node.
    outside : sequence of str
        Compartments of nodes that are not in the population: not born yet, dead, emigrated. No
        other compartment has to lead to them. See `with_population`.
    time_unit : str, optional
        Such as ``"days"``: what times and rates are in. It labels results and figures, and changes
        no number.

    Raises
    ------
    ModelError
        An unknown, repeated or unreachable compartment, a second progression out of one
        compartment, an infectious or transient compartment without a holding time, branching
        that does not sum to one, a negative rate.

    Examples
    --------
    >>> import ergode
    >>> model = ergode.CompartmentModel(
    ...     compartments=["S", "E", "I", "R", "D"],
    ...     infections=[ergode.Infection("S", "E", {"I": 0.25})],
    ...     progressions=[
    ...         ergode.Progression("E", "I", ergode.LogNormal(mean=5, median=4)),
    ...         ergode.Progression("I", {"R": 0.99, "D": 0.01}, ergode.Gamma(mean=7, sd=3)),
    ...     ],
    ... )
    >>> model.infectious
    ('I',)
    """

    compartments: Sequence[str]
    infections: Sequence[Infection]
    progressions: Sequence[Progression] = ()
    susceptibility: str | None = None
    infectivity: str | None = None
    outside: Sequence[str] = ()
    time_unit: str | None = field(default=None, compare=False)
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compartments", tuple(self.compartments))
        object.__setattr__(self, "infections", tuple(self.infections))
        object.__setattr__(self, "progressions", tuple(self.progressions))
        object.__setattr__(self, "outside", tuple(self.outside))
        check_unit("time_unit", self.time_unit)
        object.__setattr__(self, "index", {name: i for i, name in enumerate(self.compartments)})
        graph.check(self)

    @property
    def infectious(self) -> tuple[str, ...]:
        """Compartments that infect others, in the order of `compartments`."""
        names = {name for i in self.infections for name, r in i.transmission_rate.items() if r > 0}
        return tuple(name for name in self.compartments if name in names)

    @cached_property
    def may_be_infected(self) -> frozenset[str]:
        """Compartments from which an infection leads, now or after other moves."""

        def before(found: set[str]) -> set[str]:
            more = {p.compartment for p in self.progressions if found & {*p.targets, *p.exits}}
            return more | {i.susceptible for i in self.infections if i.infected in found}

        return frozenset(graph.closure({i.susceptible for i in self.infections}, before))

    @property
    def infected(self) -> tuple[str, ...]:
        """Compartments whose nodes are cases, in the order of `compartments`.

        These are: infectious compartments, targets of infections, and compartments from which
        progressions lead into one of these.  A node that begins in one of them is a case.  A node
        that begins elsewhere, such as in R, becomes a case when it is infected.
        """
        susceptible = {*(i.susceptible for i in self.infections), *self.outside}
        ill = {*self.infectious, *(i.infected for i in self.infections)}
        return self._leading_to(ill, set(self.compartments) - susceptible)

    def leads_to(self, compartment: str) -> tuple[str, ...]:
        """`compartment`, and infected compartments whose progressions lead into it."""
        return self._leading_to({compartment}, set(self.infected))

    def _leading_to(self, some: set[str], among: set[str]) -> tuple[str, ...]:
        """Some compartments, and those `among` others whose progressions lead into them."""

        def before(found: set[str]) -> set[str]:
            into = {p.compartment for p in self.progressions if found & set(p.branches)}
            return into & among

        found = graph.closure(some, before)
        return tuple(name for name in self.compartments if name in found)

    def factors(self, name: str) -> tuple[ByAttribute | str, ...]:
        """What multiplies the rate of all infections along arcs.

        By "susceptibility" or "infectivity" of a node.
        """
        given = getattr(self, name), None if self.own_factors(name) else self._given(name)[0]
        return tuple(one for one in given if one is not None)

    def own_factors(self, name: str) -> tuple[ByAttribute | str | None, ...]:
        """The "susceptibility" or "infectivity" of each infection; none if these are equal."""
        given = self._given(name)
        return given if any(one != given[0] for one in given) else ()

    def _given(self, name: str) -> tuple[ByAttribute | str | None, ...]:
        return tuple(getattr(infection, name) for infection in self.infections)

    @property
    def has_own_factors(self) -> bool:
        """Whether infections differ in how susceptible or infectious a node is."""
        return bool(self.own_factors("susceptibility") or self.own_factors("infectivity"))

    @property
    def divisions(self) -> tuple[tuple[Any, ...], ...]:
        """What divides the nodes by how they progress (`ByAttribute.division`)."""
        given = [one for p in self.progressions for one in (p.to, p.holding_time, p.exit_rate)]
        return tuple(dict.fromkeys(g.division for g in given if isinstance(g, ByAttribute)))

    @property
    def has_exits(self) -> bool:
        """Whether nodes leave a compartment at a rate, before its holding time is over."""
        return any(progression.exits for progression in self.progressions)

    @property
    def profiles(self) -> dict[str, Calendar]:
        """Factor on the infectivity of a compartment, by the time since entry."""
        return {name: one for i in self.infections for name, one in i.profile.items()}

    @cached_property
    def unborn(self) -> str | None:
        """The compartment of nodes that are born at a rate of each mother; None if there is none.

        See `with_population`.
        """
        return next((p.compartment for p in self.progressions if _awaits_birth(p)), None)

    @property
    def births_by(self) -> dict[str, float]:
        """Compartments of people who have children, and their rate relative to the largest."""
        found = next((p.holding_times[0] for p in self.progressions if _awaits_birth(p)), None)
        return found.mothers if isinstance(found, UntilBirth) else {}

    def _repr_html_(self) -> str:
        rows = [row for infection in self.infections for row in infection._rows()]
        rows += [row for progression in self.progressions for row in progression._rows()]
        facts: dict[str, Any] = {
            "compartments": tuple(self.compartments), "time unit": self.time_unit,
        }  # fmt: skip
        for name in ("susceptibility", "infectivity"):
            given = [one for one in (*self.factors(name), *self.own_factors(name)) if one]
            names = [one if isinstance(one, str) else one.attribute for one in given]
            facts[name] = ", ".join(dict.fromkeys(names)) or None
        return card("CompartmentModel", facts, Table(("from", "to", "how"), rows, len(rows)))

    @property
    def recurrent(self) -> bool:
        """Whether a node may enter a compartment more than once."""
        after: dict[str, set[str]] = {p.compartment: set(p.branches) for p in self.progressions}
        for infection in self.infections:
            after.setdefault(infection.susceptible, set()).add(infection.infected)
        remaining = set(self.compartments)
        while True:
            leaves = {name for name in remaining if not after.get(name, set()) & remaining}
            if not leaves:
                return bool(remaining)
            remaining -= leaves

    def to_dict(self) -> dict[str, Any]:
        """Plain data that determines the model, for files and digests."""
        return {
            "compartments": list(self.compartments),
            "infections": [one._entry() for one in self.infections],
            "progressions": [one._entry() for one in self.progressions],
            "susceptibility": self.susceptibility,
            "infectivity": self.infectivity,
            **({"outside": list(self.outside)} if self.outside else {}),
        }

    def with_turnover(
        self,
        rate: float | ByAttribute,
        newborns: str | Mapping[str, float] | None = None,
        *,
        except_from: Sequence[str] = (),
    ) -> CompartmentModel:
        """The same model in a population with births and deaths.

        See `ergode.models.epidemic.turnover.with_turnover`.
        """
        from ergode.models.epidemic.turnover import with_turnover

        return with_turnover(self, rate, newborns, except_from=except_from)

    def with_population(self, **options: Any) -> CompartmentModel:
        """The same model in a population whose size changes, or whose people change groups.

        The reference page of compartment models has the options: births, deaths, groups, moves.
        """
        from ergode.models.epidemic.demography import with_population

        return with_population(self, **options)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of the model, kept in the attributes of every result."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def si(cls, *, transmission_rate: float, time_unit: str | None = None) -> CompartmentModel:
        """Susceptible -> infectious, permanently."""
        return cls(["S", "I"], [Infection("S", "I", {"I": transmission_rate})], time_unit=time_unit)

    @classmethod
    def sis(
        cls, *, transmission_rate: float, infectious: HoldingTime, time_unit: str | None = None
    ) -> CompartmentModel:
        """Susceptible -> infectious -> susceptible again."""
        return _chain(transmission_rate, {"S": None, "I": infectious}, "S", time_unit=time_unit)

    @classmethod
    def sir(
        cls, *, transmission_rate: float, infectious: HoldingTime, time_unit: str | None = None
    ) -> CompartmentModel:
        """Susceptible -> infectious -> removed.

        Parameters
        ----------
        transmission_rate : float
            Rate across an edge of weight one [1 / time].
        infectious : HoldingTime
            Time spent infectious.
        time_unit : str, optional
            Such as ``"days"``, for labels.

        Examples
        --------
        >>> import ergode
        >>> ergode.CompartmentModel.sir(
        ...     transmission_rate=0.25, infectious=ergode.Exponential(mean=5)
        ... ).compartments
        ('S', 'I', 'R')
        """
        return _chain(
            transmission_rate, {"S": None, "I": infectious, "R": None}, time_unit=time_unit
        )

    @classmethod
    def sirs(
        cls,
        *,
        transmission_rate: float,
        infectious: HoldingTime,
        immune: HoldingTime,
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """Susceptible -> infectious -> immune for a while -> susceptible."""
        return _chain(
            transmission_rate, {"S": None, "I": infectious, "R": immune}, "S", time_unit=time_unit
        )

    @classmethod
    def seir(
        cls,
        *,
        transmission_rate: float,
        latent: HoldingTime,
        infectious: HoldingTime,
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """Susceptible -> exposed -> infectious -> removed.

        Parameters
        ----------
        transmission_rate : float
            Rate across an edge of weight one [1 / time].
        latent, infectious : HoldingTime
            Time from infection to being infectious, and time spent infectious.
        time_unit : str, optional
            Such as ``"days"``, for labels.

        Examples
        --------
        >>> import ergode
        >>> model = ergode.CompartmentModel.seir(
        ...     transmission_rate=0.25,
        ...     latent=ergode.LogNormal(mean=5, median=4),
        ...     infectious=ergode.LogNormal(mean=7.5, median=5),
        ... )
        >>> model.compartments
        ('S', 'E', 'I', 'R')
        """
        return _chain(
            transmission_rate,
            {"S": None, "E": latent, "I": infectious, "R": None},
            time_unit=time_unit,
        )

    @classmethod
    def seirs(
        cls,
        *,
        transmission_rate: float,
        latent: HoldingTime,
        infectious: HoldingTime,
        immune: HoldingTime,
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """SEIR whose immunity wanes."""
        return _chain(
            transmission_rate,
            {"S": None, "E": latent, "I": infectious, "R": immune},
            "S",
            time_unit=time_unit,
        )

    @classmethod
    def seird(
        cls,
        *,
        transmission_rate: float,
        latent: HoldingTime,
        infectious: HoldingTime,
        fatality: float,
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """SEIR in which a fraction `fatality` of the infectious die (compartment D)."""
        return cls(
            ["S", "E", "I", "R", "D"],
            [Infection("S", "E", {"I": transmission_rate})],
            [
                Progression("E", "I", latent),
                Progression("I", {"R": 1.0 - fatality, "D": fatality}, infectious),
            ],
            time_unit=time_unit,
        )

    @classmethod
    def two_strains(
        cls,
        *,
        transmission_rate: Sequence[float],
        infectious: Sequence[HoldingTime],
        cross_susceptibility: Sequence[Sequence[float]],
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """Two strains and the immunity that each leaves against itself and the other.

        Compartments are S, I1, I2, R1, R2 (recovered from one), I21 (infected with strain 2 after
        strain 1), I12 (the reverse), and R12 (recovered from both).  Reinfection with the same
        strain leads from R1 back to I1, and from R2 to I2.

        Parameters
        ----------
        transmission_rate : sequence of two floats
            Rate of each strain across an edge of weight one [1 / time].
        infectious : sequence of two holding times
            Time spent infectious with each strain.
        cross_susceptibility : array_like, shape [2, 2]
            Row a, column b: susceptibility to strain b of a node recovered from strain a, relative
            to a node that was never infected. 0 is full immunity, 1 none.

        Examples
        --------
        >>> import ergode
        >>> model = ergode.CompartmentModel.two_strains(
        ...     transmission_rate=[0.2, 0.3],
        ...     infectious=[ergode.Exponential(mean=5), ergode.Exponential(mean=4)],
        ...     cross_susceptibility=[[0.0, 0.4], [0.4, 0.0]],
        ... )
        >>> model.infectious
        ('I1', 'I2', 'I21', 'I12')
        """
        relative = np.asarray(cross_susceptibility, float)
        if relative.shape != (2, 2) or not (np.isfinite(relative) & (relative >= 0)).all():
            raise ModelError(
                f"cross_susceptibility is {cross_susceptibility!r}; expected two rows of two "
                "numbers, zero or more"
            )
        carriers = (("I1", "I12"), ("I2", "I21"))  # of strain 1, of strain 2

        def infection(susceptible: str, infected: str, strain: int, share: float) -> Infection:
            rate = transmission_rate[strain] * share
            return Infection(susceptible, infected, dict.fromkeys(carriers[strain], rate))

        infections = [
            infection("S", "I1", 0, 1.0), infection("S", "I2", 1, 1.0),
            infection("R1", "I21", 1, relative[0, 1]), infection("R2", "I12", 0, relative[1, 0]),
        ]  # fmt: skip
        if relative[0, 0] > 0:
            infections.append(infection("R1", "I1", 0, relative[0, 0]))
        if relative[1, 1] > 0:
            infections.append(infection("R2", "I2", 1, relative[1, 1]))
        return cls(
            ["S", "I1", "I2", "R1", "R2", "I21", "I12", "R12"],
            infections,
            [
                Progression("I1", "R1", infectious[0]), Progression("I2", "R2", infectious[1]),
                Progression("I21", "R12", infectious[1]), Progression("I12", "R12", infectious[0]),
            ],
            time_unit=time_unit,
        )  # fmt: skip

    @classmethod
    def seair(
        cls,
        *,
        transmission_rate: float,
        latent: HoldingTime,
        infectious: HoldingTime,
        asymptomatic: HoldingTime,
        asymptomatic_probability: float,
        asymptomatic_infectivity: float = 1.0,
        time_unit: str | None = None,
    ) -> CompartmentModel:
        """SEIR with a branch A of asymptomatic carriers.

        `asymptomatic_infectivity` is their transmission rate relative to that of I.
        """
        return cls(
            ["S", "E", "A", "I", "R"],
            [
                Infection(
                    "S",
                    "E",
                    {"A": transmission_rate * asymptomatic_infectivity, "I": transmission_rate},
                )
            ],
            [
                Progression(
                    "E",
                    {"A": asymptomatic_probability, "I": 1.0 - asymptomatic_probability},
                    latent,
                ),
                Progression("A", "R", asymptomatic),
                Progression("I", "R", infectious),
            ],
            time_unit=time_unit,
        )


def _awaits_birth(progression: Progression) -> bool:
    return isinstance(progression.holding_time, UntilBirth)


def _chain(
    rate: float,
    stages: Mapping[str, HoldingTime | None],
    back_to: str | None = None,
    *,
    time_unit: str | None,
) -> CompartmentModel:
    """A model in which nodes pass through `stages` in order; with `back_to` they then return."""
    names = list(stages)
    following = dict(zip(names, [*names[1:], back_to], strict=True))
    progressions = []
    for name, holding_time in stages.items():
        to = following[name]
        if holding_time is not None and to is not None:
            progressions.append(Progression(name, to, holding_time))
    return CompartmentModel(
        names, [Infection("S", names[1], {"I": rate})], progressions, time_unit=time_unit
    )
