"""Volumes and surfaces in which molecules are, one inside another.

Every molecule of a species has a site `PLACE`, whose state is its compartment. A species is in a
volume, or it is at a surface and reaches into the volumes on both sides.

References
----------
L. A. Harris, J. S. Hogg, J. R. Faeder, Compartmental rule-based modeling of biochemical systems,
Proc. Winter Simulation Conference, 908 (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from ergode.core.arguments import did_you_mean
from ergode.models.rules.patterns import PLACE, Graph, RuleError, Site


class Compartment(NamedTuple):
    """A volume or a surface; what it is in, if anything."""

    is_surface: bool
    size: str  # formula
    outside: str | None


@dataclass(frozen=True)
class Compartments:
    """All compartments of a model by their names."""

    named: dict[str, Compartment]

    @property
    def surfaces(self) -> frozenset[str]:
        """Names of all surfaces."""
        return frozenset(name for name, one in self.named.items() if one.is_surface)

    def known(self, pattern: Graph) -> Graph:
        """A pattern that knows what the surfaces are.

        Raises a RuleError if a compartment of it does not exist.
        """
        named = [pattern.within[0]] if pattern.within else []
        for one in (*named, *(place for place in places_of(pattern) if place is not None)):
            if one not in self.named:
                raise RuleError(f"'{one}' is no compartment{did_you_mean(one, self.named)}")
        return replace(pattern, within=(named[0], self.surfaces)) if named else pattern

    def filled(self, species: Graph) -> Graph:
        """A species whose molecules are all in a compartment, that of the species if not said."""
        species = self.known(species)
        if species.within is None:
            return species
        place = species.within[0]
        molecules = tuple(
            replace(one, sites=(*one.sites, Site(PLACE, place))) if there is None else one
            for one, there in zip(species.molecules, places_of(species), strict=True)
        )
        return Graph(molecules, species.partners)

    def of(self, species: Graph) -> str | None:
        """The compartment of a species; None if its molecules cannot be bound to each other."""
        places = places_of(species)
        if not all(self.touch(places[m], places[n]) for (m, _), (n, _) in species.pairs()):
            return None
        there = set(places)
        surfaces = there & self.surfaces
        if len(surfaces) > 1 or (not surfaces and len(there) > 1):
            return None
        place = next(iter(surfaces or there))
        return place if all(self.touch(place, one) for one in there) else None

    def touch(self, one: str | None, other: str | None) -> bool:
        """Whether two compartments are one, or one is around the other."""
        if one is None or other is None:
            return False
        return one == other or one == self.named[other].outside or other == self.named[one].outside

    def factor(self, taken: Sequence[Graph], made: Sequence[Graph]) -> str | None:
        """The factor of a reaction's rate, as ``*(...)`` or ``/(...)``; None if it has none.

        Rates are of concentrations. Two species in a volume meet in it, as do one at a surface and
        one in a volume; two at a surface meet on the surface. What is made of nothing is made
        everywhere in its compartment.
        """
        before, after = ([self.of(one) for one in some] for some in (taken, made))
        places = [one for one in before if one is not None]
        meet = all(self.touch(one, other) for one, other in combinations(places, 2))
        if None in (*before, *after) or not meet:
            return None
        if not taken:
            return f"*({self.named[str(after[0])].size})" if after else ""
        first, *others = sorted(places, key=lambda one: not self.named[one].is_surface)
        return "".join(f"/({self.named[one].size})" for one in others)

    def moved(self, old: str, new: str) -> dict[str, str]:
        """Where the molecules of a species are after it moves, by where they were.

        A surface that moves across a volume keeps this volume at its side, and takes the other
        side along.

        Raises a RuleError if it cannot move so.
        """
        if self.named[old].is_surface != self.named[new].is_surface:
            raise RuleError(f"a species cannot move from '{old}' to '{new}': one is a surface")
        if not self.named[old].is_surface:
            return {old: new}
        sides = [
            {name for name in self.named if name != one and self.touch(name, one)}
            for one in (old, new)
        ]
        shared = sides[0] & sides[1]
        if len(shared) != 1:
            raise RuleError(f"no volume joins the surfaces '{old}' and '{new}'")
        others = [sorted(side - shared) for side in sides]
        pairs = zip(*others, strict=False)
        return {old: new, **{one: one for one in shared}, **dict(pairs)}


def places_of(species: Graph) -> list[str | None]:
    """The compartment of each molecule."""
    return [
        next((site.state for site in one.sites if site.name == PLACE), None)
        for one in species.molecules
    ]
