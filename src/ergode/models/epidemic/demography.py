"""Populations that grow or shrink: births, deaths, ageing and moves between groups of people.

All people who will ever live are nodes of the network, with the contacts that they will have. Those
who are not born yet, or have died, are in compartments that infect nobody and are not infected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import check_text, did_you_mean, integer, is_finite_number
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.transitions import Infection, Progression
from ergode.models.holding_times.empirical import Empirical
from ergode.models.holding_times.families import Exponential, HoldingTime

if TYPE_CHECKING:
    from ergode.models.epidemic.compartments import CompartmentModel

UNBORN, DEAD = "unborn", "dead"


def with_population(
    model: CompartmentModel,
    *,
    births: float | Calendar | None = None,
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
    unborn : int
        With `births`: number of nodes that begin in the compartment ``"unborn"``. Name as many in
        `initial`, as a number or by their ids.
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
        A rate is not a finite number of zero or more, a name is unknown, or a compartment has an
        exit already.

    Notes
    -----
    Each unborn node has a time of birth of its own, with the density ``births(t) / unborn``. So the
    expected number of births up to a time is the integral of `births` until all are born, and its
    variance is binomial: with many more unborn nodes than births it is that of a Poisson process.
    Births do not depend on the epidemic. Deaths, moves and the disease are exact for each person.

    The size of the population is the sum of the other compartments; an attack rate is a share of
    all nodes, and cases are infections of people in it. Its mean n obeys
    ``dn/dt = births - deaths * n``, so births of ``n0 * b * exp((b - d) * t)`` make it grow like
    ``exp((b - d) * t)``.

    Attributes and contacts of a node are the same before and after a birth and a move; `mixing`
    changes how much these contacts transmit. Interventions take nodes that are not alive for
    susceptible ones: they get doses, and are traced. Give `among` to leave out those who are not
    born. Tests at a rate leave them out.

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
    """
    names = _groups(groups)
    for name in (UNBORN, DEAD):
        if name in model.index:
            raise ModelError(f"with_population: the model has the compartment '{name}' already")
    leaving = _deaths(deaths, names)
    going = _moves(moves or {}, names)
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
        _progression(model, name, group, leaving[group], going[group])
        for group in names for name in model.compartments
    ]  # fmt: skip
    kept = [one for one in progressions if one is not None]
    outside = []
    if births is not None or unborn:
        outside.append(UNBORN)
        given = infections[0].susceptible if newborns is None else newborns
        kept.append(Progression(UNBORN, given, _births(births, unborn)))
        for name in kept[-1].targets:
            if name not in compartments:
                raise ModelError(
                    f"with_population: newborns enter '{name}'; expected one of "
                    + ", ".join(compartments)
                )
    elif newborns is not None:
        raise ModelError("with_population: it has newborns, but no births")
    if any(leaving.values()):
        outside.append(DEAD)
    return replace(
        model, compartments=[*compartments, *outside], infections=infections, progressions=kept,
        outside=outside,
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


def _rate(what: str, value: Any) -> float:
    if not (is_finite_number(value) and value >= 0):
        raise ModelError(
            f"with_population: {what} is {value!r}; expected a finite number, zero or more"
        )
    return float(value)


def _known(name: str, names: list[str], what: str) -> str:
    if name not in names:
        raise ModelError(
            f"with_population: {what} of the unknown group {name!r}; it has "
            + (", ".join(filter(None, names)) or "no groups")
            + did_you_mean(name, names)
        )
    return name


def _deaths(deaths: Any, names: list[str]) -> dict[str, float]:
    if not isinstance(deaths, Mapping):
        return dict.fromkeys(names, _rate("deaths", deaths))
    given = {_known(one, names, "deaths"): _rate("deaths", rate) for one, rate in deaths.items()}
    return dict.fromkeys(names, 0.0) | given


def _moves(moves: Mapping[Any, float], names: list[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for pair, rate in moves.items():
        if not (isinstance(pair, tuple) and len(pair) == 2 and pair[0] != pair[1]):
            raise ModelError(
                f"with_population: moves has {pair!r}; expected two groups, such as "
                "('young', 'old')"
            )
        first, second = (_known(one, names, "moves") for one in pair)
        found[first][second] = _rate("moves", rate)
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
    model: CompartmentModel, name: str, group: str, death: float, moves: Mapping[str, float]
) -> Progression | None:
    """What ends the stay of a person of a group in a compartment: the disease, death or a move."""
    own = next((p for p in model.progressions if p.compartment == name), None)
    rates = {_name(name, other): rate for other, rate in moves.items()} | {DEAD: death}
    rates = {to: rate for to, rate in rates.items() if rate > 0}
    total = sum(rates.values())
    here, shares = _name(name, group), {to: rate / total for to, rate in rates.items()}
    if own is None:
        return Progression(here, shares, Exponential(rate=total)) if rates else None
    if own.exits and rates:
        raise ModelError(f"with_population: the progression out of '{name}' has an exit already")

    def renamed(to: Mapping[str, float], _: str = "") -> dict[str, float]:
        return {_name(one, group): share for one, share in to.items()}

    to: Any = own.to.each(renamed) if isinstance(own.to, ByAttribute) else renamed(own.splits[0])
    if rates:
        return Progression(here, to, own.holding_time, exit_rate=total, exit_to=shares)
    return replace(own, compartment=here, to=to, exit_to=renamed(own.exits) or None)


def _births(births: Any, unborn: Any) -> HoldingTime:
    """Time from the beginning to the birth of an unborn node."""
    count = integer("unborn", unborn, 0, 2**63 - 1)
    if not count:
        raise ModelError(f"with_population: births is {births!r}, but unborn is 0; expected nodes")
    if not isinstance(births, Calendar):
        rate = _rate("births", births)
        changes, rates = np.zeros(1), np.array([rate])
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
