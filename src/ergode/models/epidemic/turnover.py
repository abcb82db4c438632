"""Births and deaths: each node stands for a place in the population, whose occupant changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ergode.core.arguments import did_you_mean, is_finite_number
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.transitions import Progression
from ergode.models.holding_times.families import Exponential

if TYPE_CHECKING:
    from ergode.models.epidemic.compartments import CompartmentModel


def with_turnover(
    model: CompartmentModel,
    rate: float | ByAttribute,
    newborns: str | Mapping[str, float] | None = None,
    *,
    except_from: Sequence[str] = (),
) -> CompartmentModel:
    """A model in a population of constant size with births and deaths.

    Each person dies at a rate, whatever the compartment and the time in it, and a newborn takes the
    place: its contacts and its attributes. Lifetimes are exponential, with the mean ``1 / rate``.

    Parameters
    ----------
    model : CompartmentModel
    rate : float or ByAttribute
        Rate of deaths of each person, which is that of births; or the rates by an attribute, such
        as a region [1 / time].
    newborns : str or mapping of str to float, optional
        Compartment of a newborn, or the probability of each, such as ``{"S": 0.1, "R": 0.9}`` where
        nine of ten are vaccinated at birth. The default is the first compartment of the first
        infection.
    except_from : sequence of str
        Compartments whose nodes are not replaced, such as those who died of the disease.

    Returns
    -------
    CompartmentModel
        Its progressions have exits (`Progression`); compartments without a progression have one.

    Raises
    ------
    ModelError
        A rate is not a finite number above zero, or a compartment is unknown.

    Notes
    -----
    A node that is replaced where it is, as a susceptible person by a susceptible newborn, makes no
    event, so entries into compartments do not count it. The number of deaths is ``rate`` times the
    time that people live. Vaccinations during the run are of places, not of persons: a newborn
    keeps the protection, and the isolation, of the one before. In `with_population` a newborn is a
    node of its own, without them.

    In a large, well-mixed population with transmission rate beta (of a person to all others) and
    recovery rate gamma, the endemic share of infectious people is
    ``rate / beta * (R0 - 1)`` with ``R0 = beta / (gamma + rate)``. Susceptible people are then
    infected at the rate ``rate * (R0 - 1)``, and those who are infected are ``1 / (rate * R0)`` old
    on average.

    References
    ----------
    R. M. Anderson, R. M. May, "Infectious Diseases of Humans" (1991), chapter 4.

    Examples
    --------
    >>> import ergode
    >>> sir = ergode.CompartmentModel.sir(
    ...     transmission_rate=0.1, infectious=ergode.Gamma(mean=10, sd=5)
    ... )
    >>> endemic = sir.with_turnover(1 / (70 * 365), newborns={"S": 0.6, "R": 0.4})
    >>> [(p.compartment, *p.branches) for p in endemic.progressions]
    [('I', 'R', 'S'), ('S', 'R'), ('R', 'S')]
    """
    each = rate.entries if isinstance(rate, ByAttribute) else (rate,)
    for one in each:
        if not (is_finite_number(one) and one > 0):
            raise ModelError(f"with_turnover: rate is {one!r}; expected a finite number above zero")
    exempt = [except_from] if isinstance(except_from, str) else list(except_from)
    given = model.infections[0].susceptible if newborns is None else newborns
    # Checked as those of any progression.
    born = Progression(model.compartments[0], given, Exponential(mean=1.0)).branches
    for name in (*exempt, *born):
        if name not in model.index:
            raise ModelError(
                f"with_turnover: unknown compartment '{name}'; the model has "
                + ", ".join(model.compartments)
                + did_you_mean(name, model.compartments)
            )
    progressions = []
    for one in model.progressions:
        if one.exits:
            raise ModelError(
                f"with_turnover: the progression out of '{one.compartment}' has an exit already"
            )
        if one.compartment in exempt:
            progressions.append(one)
        else:
            progressions.append(replace(one, exit_rate=rate, exit_to=born))
    leave = {one.compartment for one in model.progressions}
    for name in model.compartments:
        others = {to: share for to, share in born.items() if to != name}
        if name in leave or name in exempt or not others:
            continue
        total = sum(others.values())
        to = {other: share / total for other, share in others.items()}
        progressions.append(Progression(name, to, _until_death(rate, total)))
    return replace(model, progressions=progressions)


def _until_death(rate: float | ByAttribute, share: float) -> Any:
    """Time until a person dies and is not replaced in the compartment."""
    if isinstance(rate, ByAttribute):
        return rate.each(lambda one, _: Exponential(rate=one * share))
    return Exponential(rate=rate * share)
