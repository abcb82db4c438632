"""Populations that grow or shrink: births, deaths, ageing and moves between groups of people.

All people who will ever live are nodes of the network, with the contacts that they will have. Those
who are not born yet, or have died, are in compartments that infect nobody and are not infected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import check_text, integer, is_finite_number
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.transitions import Infection, Progression
from ergode.models.holding_times.empirical import Empirical
from ergode.models.holding_times.families import Exponential, HoldingTime
from ergode.models.holding_times.until_birth import UntilBirth

if TYPE_CHECKING:
    from ergode.models.epidemic.compartments import CompartmentModel

UNBORN, DEAD = "unborn", "dead"


def with_population(
    model: CompartmentModel,
    *,
    births: float | Calendar | None = None,
    birth_rate: float | Mapping[str, float] | None = None,
    unborn: int = 0,
    newborns: str | Mapping[str, float] | None = None,
    deaths: float | Mapping[str, float] = 0.0,
    groups: Sequence[str] = (),
    moves: Mapping[tuple[str, str], float] | None = None,
    mixing: Any = None,
) -> CompartmentModel:
    """A model in a population whose size changes, and whose people change between groups.

    Parameters
    ----------
    model : CompartmentModel
    births : float or Calendar, optional
        Births and immigrants of the whole population; a calendar has times since the first of
        ``times`` [1 / time].
    birth_rate : float or mapping of str to float, optional
        In place of `births`: rate at which each person has children, or that of each group, or of
        people in each compartment of the model that is returned [1 / time].
    unborn : int
        With `births`: number of nodes that begin in the compartment ``"unborn"``. Name as many in
        `initial`, as a number or by their ids. With `birth_rate` it is what `initial` names.
    newborns : str or mapping of str to float, optional
        Compartment of a newborn, or the probability of each. The default is the first compartment
        of the first infection.
    deaths : float or mapping of str to float
        Rate at which each person dies or emigrates, or the rate of each group. These people enter
        the compartment ``"dead"`` [1 / time].
    groups : sequence of str
        Groups such as ages or regions, between which people move. Each has compartments of its own:
        ``"S young"``, ``"S old"`` and so on.
    moves : mapping of (str, str) to float
        Rate of moves from one group to another: ageing, or migration [1 / time].
    mixing : array_like, shape [group_count, group_count], optional
        Factor on the transmission rate to a person of the first group from one of the second; 1 by
        default.

    Returns
    -------
    CompartmentModel
        It has the compartments ``"unborn"`` (with births) and ``"dead"`` (with deaths).

    Raises
    ------
    ModelError
        There are `births` and a `birth_rate`, a rate is not a finite number of zero or more, a name
        is unknown, or a compartment has an exit already.

    Notes
    -----
    Each unborn node has a time of birth of its own, with the density ``births(t) / unborn``. So the
    expected number of births up to a time is the integral of `births` until all are born, and its
    variance is binomial: with many more unborn nodes than births it is that of a Poisson process.
    These births do not depend on the epidemic. Deaths, moves and the disease are exact for each
    person.

    With a `birth_rate`, people have children as long as they live: the number of people in a
    replicate is a linear birth-and-death process [1]_. With the rates b and d it has the mean
    ``n0 * exp((b - d) * t)`` and the variance
    ``n0 * (b + d) / (b - d) * exp((b - d) * t) * (exp((b - d) * t) - 1)``, and dies out with the
    probability ``(d / b)**n0`` if b > d. Each birth is that of the next unborn node, in the order
    of `initial`. A replicate whose unborn nodes are all born ends there, with the status
    ``ALL_BORN``, because further births would be lost: later values are missing, and it is left out
    of statistics. Choose more unborn nodes than births of any replicate.

    The size of the population is the sum of the other compartments; an attack rate is a share of
    all nodes, and cases are infections of people in it. Its mean n obeys
    ``dn/dt = births - deaths * n``, so births of ``n0 * b * exp((b - d) * t)`` make it grow like
    ``exp((b - d) * t)``.

    Attributes and contacts of a node are the same before and after a birth and a move; `mixing`
    changes how much these contacts transmit. Who is not born or dead gets no dose, is not traced,
    and waits for no test; a person who is born after the turn for a first dose gets none. The line
    list of such a run has the time of birth of each case (``born_at``).

    References
    ----------
    .. [1] D. G. Kendall, "Stochastic Processes and Population Growth", J. R. Stat. Soc. B 11
       (1949), 230-264.

    Examples
    --------
    A growing population of children and adults:

    >>> import ergode
    >>> sir = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.1, infectious=ergode.Gamma(mean=10, sd=5)
    ... )
    >>> growing = sir.with_population(
    ...     births=0.1, unborn=2000, groups=["young", "old"], moves={("young", "old"): 1 / 6000},
    ...     deaths={"old": 1 / 20000}, mixing=[[2.0, 0.5], [0.5, 1.0]],
    ... )
    >>> growing.compartments[:4]
    ('S young', 'I young', 'R young', 'S old')
    >>> growing.outside
    ('unborn', 'dead')

    Children of adults, fewer of those who are ill:

    >>> model = sir.with_population(
    ...     groups=["child", "adult"], moves={("child", "adult"): 1 / 6000}, newborns="S child",
    ...     birth_rate={"S adult": 1e-4, "I adult": 2e-5, "R adult": 1e-4}, deaths=1 / 25000,
    ... )
    >>> model.births_by
    {'S adult': 1.0, 'I adult': 0.2, 'R adult': 1.0}
    """
    names = _groups(groups)
    for name in (UNBORN, DEAD):
        if name in model.index:
            raise ModelError(f"with_population: the model has the compartment '{name}' already")
    each = deaths if isinstance(deaths, Mapping) else dict.fromkeys(names, deaths)
    leaving = _rates({**(moves or {}), **{(one, DEAD): rate for one, rate in each.items()}}, names)
    factor = np.ones((len(names), len(names))) if mixing is None else np.asarray(mixing, float)
    if factor.shape != (len(names),) * 2 or not (np.isfinite(factor) & (factor >= 0)).all():
        raise ModelError(
            f"with_population: mixing is {mixing!r:.60}; expected {len(names)} rows of "
            f"{len(names)} numbers, zero or more"
        )
    compartments = [_name(one, group) for group in names for one in model.compartments]
    infections = [
        _infection(one, group, factor[k], names)
        for one in model.infections for k, group in enumerate(names)
    ]  # fmt: skip
    progressions = [
        one
        for group in names for name in model.compartments
        if (one := _progression(model, name, group, leaving[group])) is not None
    ]  # fmt: skip
    outside = [DEAD] if any(DEAD in rates for rates in leaving.values()) else []
    if births is not None and birth_rate is not None:
        raise ModelError("with_population: there are births and a birth_rate; expected one of them")
    if births is not None or birth_rate is not None or unborn:
        outside.insert(0, UNBORN)
        given = infections[0].susceptible if newborns is None else newborns
        if birth_rate is None:
            time = _births(births, unborn)
        else:
            time = _until_birth(birth_rate, names, model.compartments)
        born = Progression(UNBORN, given, time)
        if not set(born.targets) <= set(compartments):
            raise ModelError(
                f"with_population: newborns enter {', '.join(born.targets)}; expected some of "
                + ", ".join(compartments)
            )
        progressions.append(born)
    elif newborns is not None:
        raise ModelError("with_population: it has newborns, but no births")
    return replace(
        model, compartments=[*compartments, *outside], infections=infections,
        progressions=progressions, outside=outside,
    )  # fmt: skip


def _name(compartment: str, group: str) -> str:
    return f"{compartment} {group}" if group else compartment


def _groups(groups: Sequence[str]) -> list[str]:
    if isinstance(groups, str) or len(set(groups)) != len(groups) or len(groups) == 1:
        raise ModelError(
            f"with_population: groups is {groups!r}; expected two or more different names"
        )
    for name in groups:
        check_text("with_population", "groups", name)
    return list(groups) or [""]


def _rates(given: Mapping[Any, Any], names: list[str]) -> dict[str, dict[str, float]]:
    """Rates above zero at which people leave each group, by where to."""
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for pair, rate in given.items():
        if not (
            isinstance(pair, tuple) and len(pair) == 2 and pair[0] in names
            and pair[1] in [*names, DEAD] and pair[0] != pair[1]
        ):  # fmt: skip
            raise ModelError(
                f"with_population: there is a rate for {pair!r}; expected two of the groups "
                + (", ".join(filter(None, names)) or "(there are none)")
            )
        if not (is_finite_number(rate) and rate >= 0):
            raise ModelError(
                f"with_population: the rate for {pair!r} is {rate!r}; expected a finite number, "
                "zero or more"
            )
        if rate > 0:
            found[pair[0]][pair[1]] = float(rate)
    return found


def _infection(one: Infection, group: str, factor: np.ndarray, names: list[str]) -> Infection:
    """An infection of a person of a group, by those of all groups."""
    rates = {
        _name(source, other): rate * float(share)
        for source, rate in one.transmission_rate.items()
        for other, share in zip(names, factor, strict=True)
    }
    profile = {
        _name(source, other): given for source, given in one.profile.items() for other in names
    }
    return replace(
        one, susceptible=_name(one.susceptible, group), infected=_name(one.infected, group),
        transmission_rate=rates, profile=profile,
    )  # fmt: skip


def _progression(
    model: CompartmentModel, name: str, group: str, leaving: Mapping[str, float]
) -> Progression | None:
    """What ends the stay of a person of a group in a compartment: the disease, death or a move."""
    own = next((p for p in model.progressions if p.compartment == name), None)
    total, here = sum(leaving.values()), _name(name, group)
    to = {DEAD if one == DEAD else _name(name, one): r / total for one, r in leaving.items()}
    if own is None:
        return Progression(here, to, Exponential(rate=total)) if to else None
    if own.exits and to:
        raise ModelError(f"with_population: the progression out of '{name}' has an exit already")

    def renamed(split: Mapping[str, float], _: str = "") -> dict[str, float]:
        return {_name(one, group): share for one, share in split.items()}

    after: Any = own.to.each(renamed) if isinstance(own.to, ByAttribute) else renamed(own.splits[0])
    if to:
        return replace(own, compartment=here, to=after, exit_rate=total, exit_to=to)
    return replace(own, compartment=here, to=after, exit_to=renamed(own.exits) or None)


def _until_birth(given: Any, groups: list[str], compartments: Sequence[str]) -> HoldingTime:
    """Time from the beginning to the birth of a node, with mothers at rates."""
    each = given if isinstance(given, Mapping) else dict.fromkeys(groups, given)
    rates: dict[str, float] = {}
    for name, rate in each.items():
        of_group = {_name(one, name): rate for one in compartments} if name in groups else {}
        rates |= of_group or {name: rate}
    known = {_name(one, group) for group in groups for one in compartments}
    for name, rate in rates.items():
        if name not in known:
            raise ModelError(
                f"with_population: there is a birth_rate of {name!r}; expected a group or a "
                "compartment: " + ", ".join(filter(None, (*groups, *sorted(known))))
            )
        if not (is_finite_number(rate) and rate >= 0):
            raise ModelError(
                f"with_population: the birth_rate of {name!r} is {rate!r}; expected a finite "
                "number, zero or more"
            )
    if not rates:
        raise ModelError("with_population: birth_rate is empty; expected rates by name")
    most = max(rates.values())
    return UntilBirth(most, {name: rate / (most or 1.0) for name, rate in rates.items()})


def _births(births: Any, unborn: Any) -> HoldingTime:
    """Time from the beginning to the birth of an unborn node."""
    count = integer("unborn", unborn, 0, 2**63 - 1)
    if not count:
        raise ModelError(f"with_population: births is {births!r}, but unborn is 0; expected nodes")
    if not isinstance(births, Calendar):
        if not (is_finite_number(births) and births > 0):
            raise ModelError(f"with_population: births is {births!r}; expected a rate above zero")
        changes, rates = np.zeros(1), np.array([float(births)])
    else:
        if births.period is not None or births.has_dates:
            raise ModelError(
                "with_population: births has a period or dates; expected a Calendar of times since "
                "the beginning that does not repeat"
            )
        changes, rates = np.array(births.changes, float), np.array(births.factors, float)
    if not rates[-1] > 0:
        raise ModelError("with_population: births end at a rate of 0; expected one above zero")
    # The rate before the first change is that after it.
    begin = np.append(0.0, changes[changes > 0])
    rates = rates[np.maximum(np.searchsorted(changes, begin, side="right") - 1, 0)]
    born = np.append(0.0, np.cumsum(np.diff(begin) * rates[:-1]))
    some = (born < count) & (np.append(born[1:], np.inf) > born)  # not while nobody is born
    last = np.flatnonzero(some)[-1]
    end = begin[last] + (count - born[last]) / rates[last]
    begin, born = np.append(begin[: last + 1], end), np.append(born[: last + 1], float(count))
    return Empirical(begin, born / count)
