"""The graph of a compartment model: its checks, and what leads to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ergode.core.arguments import did_you_mean
from ergode.core.errors import ModelError
from ergode.models.epidemic.interventions import CASES

if TYPE_CHECKING:
    from ergode.models.epidemic.calendars import Calendar
    from ergode.models.epidemic.compartments import CompartmentModel

_SOUND: set[Any] = set()  # graphs of compartments that passed the check
_SOUND_MOST = 1000


def closure(found: set[str], more: Callable[[set[str]], set[str]]) -> set[str]:
    """Compartments, and those that `more` finds from them, again and again."""
    while not (added := more(found)) <= found:
        found = found | added
    return found


def check(model: CompartmentModel) -> None:
    """Raise a ModelError for a graph that is not sound."""
    # A sweep makes many models that differ only in numbers.
    graph = (
        model.compartments,
        model.outside,
        tuple((i.susceptible, i.infected, *i.transmission_rate) for i in model.infections),
        tuple((p.compartment, p.targets, tuple(p.exits)) for p in model.progressions),
        tuple(model.births_by),
    )
    if graph in _SOUND and not any(i.profile for i in model.infections):
        return
    _check_names(model)
    _check_paths(model)
    if len(_SOUND) >= _SOUND_MOST:
        _SOUND.clear()
    _SOUND.add(graph)


def _check_names(model: CompartmentModel) -> None:
    if len(model.index) != len(model.compartments):
        repeated = next(n for n in model.compartments if model.compartments.count(n) > 1)
        raise ModelError(f"compartment '{repeated}' is listed more than once")
    for name in model.compartments:
        if not isinstance(name, str) or not name or "," in name or name == CASES:
            raise ModelError(
                f"{name!r} cannot name a compartment; expected text without commas, other "
                f"than '{CASES}', which counts infections"
            )
    if not 1 <= len(model.compartments) <= 255:
        raise ModelError(f"expected 1 to 255 compartments, found {len(model.compartments)}")
    if not model.infections:
        raise ModelError("the model has no infection; expected at least one")
    uses = (
        [
            (name, f"infection {i.susceptible} -> {i.infected}")
            for i in model.infections
            for name in (i.susceptible, i.infected, *i.transmission_rate)
        ]
        + [
            (name, f"progression out of {p.compartment}")
            for p in model.progressions
            for name in (p.compartment, *p.targets, *p.exits)
        ]
        + [(name, "compartments that are outside") for name in model.outside]
        + [(name, "births") for name in model.births_by]
    )
    for name, where in uses:
        if name not in model.index:
            raise ModelError(
                f"unknown compartment '{name}' in the {where}; the model has "
                + ", ".join(model.compartments)
                + did_you_mean(name, model.compartments)
            )
    for name in model.outside:
        if any(name in (i.susceptible, i.infected, *i.transmission_rate) for i in model.infections):
            raise ModelError(f"'{name}' is outside of the population, but in an infection")
    known: dict[str, Calendar] = {}
    for infection in model.infections:
        for name, calendar in infection.profile.items():
            if known.setdefault(name, calendar) != calendar:
                raise ModelError(f"two infections give '{name}' different profiles")
    seen: set[str] = set()
    for progression in model.progressions:
        if progression.compartment in seen:
            raise ModelError(
                f"compartment '{progression.compartment}' has two progressions; give one with "
                "branching probabilities"
            )
        seen.add(progression.compartment)
        if progression.compartment in progression.targets:
            raise ModelError(f"compartment '{progression.compartment}' progresses to itself")


def _check_paths(model: CompartmentModel) -> None:
    susceptible = {infection.susceptible for infection in model.infections}
    outgoing = {p.compartment: {*p.targets, *p.exits} for p in model.progressions}
    reached = closure(
        {i.infected for i in model.infections} | susceptible | set(model.outside),
        lambda found: set().union(*(outgoing.get(name, set()) for name in found)),
    )
    lost = [name for name in model.compartments if name not in reached]
    if lost:
        final = [n for n in model.compartments if n in reached - susceptible - set(outgoing)]
        hint = f"; '{final[0]}' has no holding time (Progression) out of it" if final else ""
        raise ModelError(
            f"compartment '{lost[0]}' cannot be reached: no infection or progression leads "
            f"there{hint}"
        )
