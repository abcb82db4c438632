"""Random epidemics as plain data: what a user would describe, before any library sees it.

`draw` makes one from a random generator; `built` hands it to ergode; the referees read it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from epidemics_births import add_births
from epidemics_measures import add_measures, add_unborn, measure_of

import ergode
from ergode.models.holding_times.until_birth import UntilBirth

# Multiples of this round when they are added: 0.4 + 0.8 is a little more than 1.2.
UNIT = 0.4

# Structures that share compiled kernels: what is in a family is in all of its worlds.
FAMILIES = ("plain", "driven", "measures", "meetings", "laws", "traits", "births")
_BARE = ("plain", "laws", "traits")  # without layers, calendars and guests
_EXITING = ("meetings", "laws")  # in which nodes leave compartments at a rate
_BY_TRAITS = ("measures", "laws", "traits")  # in which nodes progress by what they are

# What a node is: an age, of which there are groups from these on, or a risk by name.
AGES_FROM = [0.0, 20.0, 60.0]
RISKS = ["low", "high"]


def tidy(times: Any) -> np.ndarray:
    """Times as people write them, whatever sums they come from."""
    return np.round(times, 9)


def fixed_stay(mean: float) -> float:
    """A stay of a fixed length, about as long as `mean`."""
    return float(tidy(UNIT * max(round(mean / UNIT), 1)))


@dataclass
class World:
    """An epidemic on a small graph."""

    compartments: list[str]
    infections: list[tuple[str, str, dict[str, float]]]  # susceptible, infected, rate by source
    progressions: dict[str, tuple[dict[str, float], tuple[Any, ...]]]  # where to, and the law
    arcs: list[tuple[int, int, float, int]]  # source, target, weight, layer; undirected ones twice
    nodes: int
    initial: dict[str, Any]  # a count, node ids, or (node ids, age)
    times: np.ndarray
    profiles: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    factors: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # changes, factors, period
    susceptibility: np.ndarray | None = None
    infectivity: np.ndarray | None = None
    group: np.ndarray | None = None  # of each node: counts are by it, and measures among some
    seed_weight: np.ndarray | None = None
    meetings: list[tuple[int, int, float, float, float]] | None = None  # who, whom, from, to, time
    measures: list[dict[str, Any]] = field(default_factory=list)
    importations: list[dict[str, Any]] = field(default_factory=list)
    # Of each node, and by "age" or "risk": where to, how long, and how susceptible or infectious.
    age: np.ndarray | None = None
    risk: list[str] | None = None
    splits: dict[str, tuple[str, list[dict[str, float]]]] = field(default_factory=dict)
    exits: dict[str, tuple[float, dict[str, float]]] = field(default_factory=dict)  # rate, where to
    outside: list[str] = field(default_factory=list)  # of those who are not born
    births: tuple[str, dict[str, float]] | None = None  # of whom, and rates of mothers
    stays: dict[str, tuple[str, list[tuple[Any, ...]]]] = field(default_factory=dict)
    factors_by: dict[str, tuple[str, list[float]]] = field(default_factory=dict)
    # Such factors of each infection, where they differ; none of an infection is None.
    own_factors: dict[str, list[tuple[str, list[float]] | None]] = field(default_factory=dict)

    @property
    def counts_avoided(self) -> bool:
        """Whether contacts that measures avoid are counted: not those of a single moment."""
        return all(first < last for _, _, first, last, _ in self.meetings or ())

    def kind_of_node(self, trait: str, node: int) -> int:
        """Which of the entries of a table by "age" or "risk" is a node's."""
        if trait == "risk":
            return RISKS.index(self.risk[node])
        return max(k for k, low in enumerate(AGES_FROM) if self.age[node] >= low)

    def progression(self, name: str, node: int) -> tuple[dict[str, float], tuple[Any, ...]]:
        """Where a node goes from a compartment, and the law of its stay."""
        to, law = self.progressions[name]
        if name in self.splits:
            trait, each = self.splits[name]
            to = each[self.kind_of_node(trait, node)]
        if name in self.stays:
            trait, each = self.stays[name]
            law = each[self.kind_of_node(trait, node)]
        return to, law

    def follows(self, name: str) -> set[str]:
        """Where nodes come to from a compartment by themselves."""
        to = self.progressions.get(name, ({}, ()))[0]
        return set(to) | set(self.exits.get(name, (0.0, {}))[1])

    def laws(self) -> set[str]:
        """The laws of all stays."""
        found = {law[0] for name, (_, law) in self.progressions.items() if name not in self.stays}
        return found | {law[0] for _, each in self.stays.values() for law in each}

    def factor(self, end: str) -> np.ndarray | None:
        """The "susceptibility" or "infectivity" of each node, from all that make it."""
        factor = getattr(self, end)
        if end in self.factors_by:
            trait, each = self.factors_by[end]
            own = np.array([each[self.kind_of_node(trait, i)] for i in range(self.nodes)])
            factor = own if factor is None else factor * own
        return factor

    def own_factor(self, end: str, infection: int) -> np.ndarray:
        """What an infection alone has of the susceptibility or the infectivity of each node."""
        given = self.own_factors.get(end, [None] * len(self.infections))[infection]
        if given is None:
            return np.ones(self.nodes)
        return np.array([given[1][self.kind_of_node(given[0], i)] for i in range(self.nodes)])

    @property
    def memoryless(self) -> bool:
        """Whether a master equation holds for it."""
        return (
            self.laws() <= {"exponential"}
            and not (self.profiles or self.meetings is not None or self.births)
            and all(m["kind"] == "closure" and "trigger" not in m for m in self.measures)
        )

    @property
    def groups(self) -> np.ndarray:
        """The values of `group`, one if there is none."""
        return np.zeros(1, int) if self.group is None else np.unique(self.group)

    def is_in(self, group: int) -> np.ndarray:
        """Which nodes are of a group."""
        return np.ones(self.nodes, bool) if self.group is None else self.group == group

    @property
    def infectious(self) -> set[str]:
        """Compartments that infect somebody."""
        return {c for _, _, rates in self.infections for c, rate in rates.items() if rate > 0}

    @property
    def ill(self) -> set[str]:
        """Compartments whose nodes are cases if they begin there.

        They infect, or were infected, or will infect without being infected again.
        """
        ill = self.infectious | {x for _, x, _ in self.infections}
        susceptible = {*(s for s, _, _ in self.infections), *self.outside}
        while True:
            more = {
                c for c in self.progressions
                if c not in susceptible and self.follows(c) & ill
            } | ill  # fmt: skip
            if more == ill:
                return ill
            ill = more

    def leads_to(self, begin: str, end: str) -> bool:
        """Whether a node comes from one compartment to another by itself."""
        susceptible = {s for s, _, _ in self.infections}
        seen, frontier = {begin}, [begin]
        while frontier:
            here = frontier.pop()
            if here == end:
                return True
            if here in susceptible and here not in self.ill:
                continue
            for name in self.follows(here):
                if name not in seen:
                    seen.add(name)
                    frontier.append(name)
        return False


# ---- drawing


def draw(rng: np.random.Generator, family: str) -> World:
    """A world of a family, drawn anew until ergode takes its model."""
    if family == "births":  # in a world with all measures
        while not add_births(rng, world := draw(rng, "measures")):
            pass
        return world
    while True:
        world = _draw(rng, family)
        if (np.diff(world.times) <= 0).any():  # two are equal once rounded
            continue
        try:
            model_of(world)
        except ergode.ModelError:
            continue
        if world.infectious & set(world.initial) and _alike(world, family):
            return world


def _alike(world: World, family: str) -> bool:
    """Whether it needs the kernels that others of its family need."""
    rates = {rate for _, _, rates in world.infections for rate in rates.values()}
    thinned = len(world.infections) > 1 or len(rates) > 1
    aged = any(isinstance(value, tuple) for value in world.initial.values())
    visited = bool(world.importations) or family in _BARE
    laws = world.laws()
    if family == "laws" and (len(laws) < len(_LAWS_OF_STAYS) or len(world.infections) > 1):
        return False
    if not _leaves_branches(world):
        return False
    if family == "measures" and not (_spared(world) and world.own_factors):
        return False
    patient = any("patience" in m for m in world.measures)
    if family == "measures" and (world.outside or not patient):
        return False
    kinds = {m["kind"] for m in world.measures}
    waits = any(m["kind"] == "capacity" and m.get("wait") for m in world.measures)
    full = any(m["kind"] == "capacity" and not m.get("wait") for m in world.measures)
    own = any(
        {"window", "among"} & set(m[end])
        for m in world.measures for end in ("trigger", "stop") if isinstance(m.get(end), dict)
    )  # fmt: skip
    if family in ("measures", "meetings") and not ("testing" in kinds and waits and full and own):
        return False
    if family in ("measures", "meetings") and not any("test_traced" in m for m in world.measures):
        return False
    if family in _EXITING and not world.exits:
        return False
    return bool(world.progressions) and thinned and visited and aged == (family == "measures")


def _spared(world: World) -> set[str]:
    """The branches that vaccines spare people."""
    return {name for one in world.measures for name in one.get("severity", {})}


def _leaves_branches(world: World) -> bool:
    """Whether vaccines, each time they spare people a branch, leave them another."""
    named = _spared(world)
    groups = [[_with_instead(world, to)] for to, _ in world.progressions.values()]
    groups += [[_with_instead(world, to) for to in each] for _, each in world.splits.values()]
    return all(
        sum(share for name, share in to.items() if name not in named) > 0
        for each in groups
        if any(len(to) > 1 for to in each)  # one target is no branching
        for to in each
        if any(to.get(name, 0.0) > 0 for name in named)
    )


def _draw(rng: np.random.Generator, family: str) -> World:
    count, nodes = int(rng.integers(2, 6)), int(rng.integers(3, 6 if family == "driven" else 7))
    names = [f"C{k}" for k in range(count)]
    general = family in ("measures", "meetings")
    susceptible = ["C0", *(n for n in names[1:] if rng.random() < 0.25)]
    infections = []
    wanted = int(rng.integers(1, 4))
    while len(infections) < wanted:
        s = str(rng.choice(susceptible)) if infections else "C0"
        x = str(rng.choice([n for n in names[1:] if n != s] or ["C1"]))
        sources = [n for n in names[1:] if n != s and rng.random() < 0.6]
        rates = {n: round(float(rng.uniform(0.2, 1.6)), 2) for n in sources}
        if s != x and rates:
            infections.append((s, x, rates))
    progressions = {}
    for name in names:
        if rng.random() < (0.1 if name == "C0" else 0.7):
            others = [n for n in names if n != name]
            to = [str(n) for n in rng.choice(others, min(len(others), int(rng.integers(1, 3))),
                                             replace=False)]  # fmt: skip
            split = [1.0] if len(to) == 1 else [0.3, 0.7]
            mean = round(float(rng.uniform(0.4, 2.5)), 2)
            if family == "laws":  # nobody is infected twice: for first passages
                to = [n for n in to if n > name] or names[-1:]
                split = [1.0] if len(to) == 1 else [0.3, 0.7]
                law = _LAWS_OF_STAYS[len(progressions) % len(_LAWS_OF_STAYS)]
            else:
                law = _LAW_OF[family]
            if to != [name] and (name != "C0" or family != "laws"):
                progressions[name] = (dict(zip(to, split, strict=True)), (law, mean))
    initial: dict[str, Any] = {}
    free = list(rng.permutation(nodes))
    for name in names[1:]:
        if free and rng.random() < 0.6:
            ids = sorted(int(free.pop()) for _ in range(min(len(free), int(rng.integers(1, 3)))))
            if rng.random() < 0.4 and not any(isinstance(v, int) for v in initial.values()):
                initial[name] = 1
            elif family == "measures":
                initial[name] = (ids, 0.25)
            else:
                initial[name] = ids
    world = World(
        names, infections, progressions, [], nodes, initial,
        np.round(np.append(0.0, np.sort(rng.uniform(0.3, 3.0, 3))), 3) + rng.choice([0.0, 10.0]),
    )  # fmt: skip
    if family == "meetings":  # at some of which people meet, or move on
        world.times = tidy(world.times[0] + np.array([0.0, 0.4, 1.2, 2.2]))
    _add_contacts(rng, world, family)
    if family == "driven" or general:
        _add_calendars(rng, world)
        _add_importations(rng, world)
        start = float(world.times[0])
        world.measures = [
            {"kind": "closure", "layer": "a", "reduction": 0.7, "duration": 1.0,
             "start": start + float(rng.uniform(0, 1.5))}
        ]  # fmt: skip
    if general:
        add_measures(rng, world)
        _add_profiles(rng, world)
    if family not in _BARE:
        _add_people(rng, world, general)
    if family in _BY_TRAITS:
        _add_traits(rng, world, family)
    if family in _EXITING:
        _add_exits(rng.spawn(1)[0], world)
    if general:
        add_unborn(rng.spawn(1)[0], world)
    return world


def _add_exits(rng: np.random.Generator, world: World) -> None:
    """Nodes leave some compartments at a rate, however long they have been there."""
    susceptible = {s for s, _, _ in world.infections}
    full = {one["compartment"] for one in world.measures if one["kind"] == "capacity"}
    spared = _spared(world)
    for number, name in enumerate(world.progressions):
        others = [
            n for n in world.compartments
            if n != name and n not in full | spared and (world.meetings is not None or n > name)
        ]  # fmt: skip
        if not others or name in susceptible or (number and rng.random() < 0.5):
            continue
        some = rng.choice(others, min(len(others), int(rng.integers(1, 3))), replace=False)
        shares = [1.0] if len(some) == 1 else [0.4, 0.6]
        to = {str(one): share for one, share in zip(some, shares, strict=True)}
        world.exits[name] = (round(float(rng.uniform(0.1, 0.8)), 2), to)


# One law a family, or all of these: a kernel holds the laws of its model.
_LAWS_OF_STAYS = ("gamma", "lognormal", "weibull")
_LAW_OF = {
    "plain": "exponential", "driven": "exponential", "measures": "gamma",
    "meetings": "deterministic", "traits": "exponential",
}  # fmt: skip


def _add_contacts(rng: np.random.Generator, world: World, family: str) -> None:
    world.layers = [] if family in _BARE else ["a", "b"]
    directed = bool(rng.random() < 0.5)
    for layer in range(max(1, len(world.layers))):
        for i in range(world.nodes):
            for j in range(world.nodes):
                if i != j and (directed or i < j) and rng.random() < 0.5:
                    weight = float(np.float32(rng.uniform(0.3, 1.5)))
                    world.arcs.append((i, j, weight, layer))
                    if not directed:
                        world.arcs.append((j, i, weight, layer))
    if family == "meetings":
        begin, end = world.times[0], world.times[-1]
        # Moments at which stays of a fixed length begin and end are among them.
        moments = tidy(begin + np.arange(0, end - begin, UNIT))
        instantaneous = bool(rng.random() < 0.5)
        earlier = rng.spawn(1)[0]
        world.arcs, world.meetings, world.layers = [], [], []
        for i in range(world.nodes):
            for j in range(i + 1, world.nodes):
                if rng.random() < 0.7:
                    for moment in rng.choice(moments, min(3, moments.size), replace=False):
                        last = moment if instantaneous else tidy(moment + 0.3)
                        amount = round(float(rng.uniform(0.3, 1.0)), 2) if instantaneous else 0.3
                        for a, b in ((i, j), (j, i)):
                            world.meetings.append((a, b, float(moment), float(last), amount))
                    if earlier.random() < 0.5:  # before the start, or in progress
                        first = tidy(begin - earlier.choice([0.1, 0.25, 0.9, 1.5]))
                        last = first if instantaneous else tidy(first + 0.3)
                        for a, b in ((i, j), (j, i)):
                            world.meetings.append((a, b, float(first), float(last), 0.3))
        for i, j in sorted({m[:2] for m in world.meetings}):
            world.arcs.append((i, j, 1.0, 0))
    if family not in _BARE:
        world.susceptibility = np.round(rng.uniform(0.0, 1.5, world.nodes), 2)
        world.susceptibility[rng.random(world.nodes) < 0.2] = 0.0


def _add_calendars(rng: np.random.Generator, world: World) -> None:
    start = float(world.times[0])
    changes = [start, start + round(float(rng.uniform(0.3, 1.5)), 2)]
    for name in world.layers:
        world.factors[name] = (changes, [float(rng.choice([0.0, 1.0])), 1.3])
    if world.layers:
        period = round(float(rng.uniform(0.6, 1.8)), 2)
        world.factors["b"] = ([0.0, round(0.4 * period, 3)], [1.2, 0.5], period)
    else:  # of all contacts, and it changes at a moment when people meet
        world.factors[""] = ([start, float(tidy(start + UNIT))], [0.7, 1.2])


def _add_importations(rng: np.random.Generator, world: World) -> None:
    start = float(world.times[0])
    ill = [c for c in sorted(world.ill) if imports(world, c)[0].any()]
    if not ill:
        return
    world.importations = [
        {"compartment": str(rng.choice(ill)), "rate": 1.0, "start": start + 0.2,
         "stop": start + 2.0},
        {"compartment": str(rng.choice(ill)), "times": [start, float(tidy(start + 2 * UNIT))]},
    ]  # fmt: skip


def _add_profiles(rng: np.random.Generator, world: World) -> None:
    """Infectivity by the time since a compartment was entered; of one of them at least."""
    infectious = sorted(world.infectious)
    for name in infectious:
        if name == infectious[0] or rng.random() < 0.5:
            # In "meetings" some change at an age at which people meet, or move on.
            change = float(rng.choice([UNIT, round(float(rng.uniform(0.2, 1.2)), 2)]))
            world.profiles[name] = ([0.0, change], [float(rng.choice([0.0, 0.4, 1.5])), 1.1])


def _add_people(rng: np.random.Generator, world: World, general: bool) -> None:
    """What nodes are, beside how susceptible; and who is drawn to begin with."""
    world.infectivity = np.round(rng.uniform(0.3, 1.6, world.nodes), 2)
    world.group = rng.integers(0, 3, world.nodes)
    world.group[:2] = 0, 1  # two of them at least
    world.seed_weight = np.round(rng.uniform(0.2, 3.0, world.nodes), 2)
    placed = sum(
        len(value[0] if isinstance(value, tuple) else value)
        for value in world.initial.values() if not isinstance(value, int)
    )  # fmt: skip
    for name, value in world.initial.items():
        if isinstance(value, int) and general and world.nodes - placed > 2:
            world.initial[name] = int(rng.integers(1, 3))


def _add_traits(rng: np.random.Generator, world: World, family: str) -> None:
    """Progressions and factors by age and by risk; of one progression at least."""
    world.age = rng.choice([0.0, 3.0, 19.5, 20.0, 45.0, 60.0, 88.0], world.nodes)
    world.risk = [str(one) for one in rng.choice(RISKS, world.nodes)]
    world.risk[:2] = RISKS
    if family == "traits":
        world.group = np.arange(world.nodes) % 2
    counts = {"age": len(AGES_FROM), "risk": len(RISKS)}
    for number, (name, (to, law)) in enumerate(world.progressions.items()):
        trait = str(rng.choice(list(counts)))
        if len(to) > 1 and rng.random() < 0.8:
            rest = [_split(rng, list(to)) for _ in range(counts[trait] - 1)]
            world.splits[name] = (trait, [to, *rest])  # the first names all, with a chance
        if number == 0 or rng.random() < 0.5:
            trait = "risk" if number == 0 else str(rng.choice(list(counts)))
            laws = [law[0]] * counts[trait]
            if family == "laws":
                laws = [_LAWS_OF_STAYS[(number + k) % 3] for k in range(counts[trait])]
            means = np.round(rng.uniform(0.4, 2.5, counts[trait]), 2).tolist()
            world.stays[name] = (trait, list(zip(laws, means, strict=True)))
    for end in ("susceptibility", "infectivity"):
        if rng.random() < 0.6:
            trait = str(rng.choice(list(counts)))
            values = np.round(rng.uniform(0.0, 1.6, counts[trait]), 2).tolist()
            world.factors_by[end] = (trait, values)
    if family == "measures" and len(world.infections) > 1:
        _add_own_factors(rng.spawn(1)[0], world)


def _add_own_factors(rng: np.random.Generator, world: World) -> None:
    """Factors that differ by infection, at one end or at both, in place of common ones."""
    for end in rng.permutation(["susceptibility", "infectivity"])[: int(rng.integers(1, 3))]:
        each: list[tuple[str, list[float]] | None] = []
        for _ in world.infections:
            trait = str(rng.choice(["age", "risk"]))
            count = len(AGES_FROM) if trait == "age" else len(RISKS)
            values = np.round(rng.uniform(0.0, 2.0, count), 2).tolist()
            each.append((trait, values) if rng.random() < 0.8 else None)
        if any(one != each[0] for one in each):
            world.own_factors[str(end)] = each
            world.factors_by.pop(str(end), None)


def _split(rng: np.random.Generator, to: list[str]) -> dict[str, float]:
    """Two branches, or all to the second: the first is then not named, or of chance zero."""
    share = round(float(rng.uniform(0.1, 0.9)), 2)
    if rng.random() < 0.3:
        return {to[1]: 1.0} if rng.random() < 0.5 else {to[0]: 0.0, to[1]: 1.0}
    return {to[0]: share, to[1]: round(1.0 - share, 2)}


# ---- cases from outside


def imports(world: World, compartment: str) -> tuple[np.ndarray, np.ndarray]:
    """For each infection: the chance that an outside case makes it happen, and where it begins.

    The guest begins in the compartment of the outside case where an infection of the model leads
    there; else, being in contact with it, where the infection by it leads.
    """
    index = {name: k for k, name in enumerate(world.compartments)}
    later = [c for c in world.compartments if world.leads_to(compartment, c)]
    sources = [compartment] if compartment in world.infectious else [
        c for c in later if c in world.infectious
    ]  # fmt: skip
    chance = np.zeros(len(world.infections))
    to = np.zeros(len(world.infections), int)
    direct = [world.leads_to(x, compartment) for _, x, _ in world.infections]
    for j, (s, x, rates) in enumerate(world.infections):
        own = any(direct[i] and world.infections[i][0] == s
                  and max(world.infections[i][2].get(c, 0.0) for c in sources or [""]) > 0
                  for i in range(len(direct)))  # fmt: skip
        if own and not direct[j]:
            continue
        if not own and compartment not in world.infectious:
            continue
        chance[j] = max((rates.get(c, 0.0) for c in sources), default=0.0)
        to[j] = index[compartment] if direct[j] else index[x]
    by_place: dict[str, float] = {}
    people = world.factor("susceptibility")
    people = np.ones(world.nodes) if people is None else people
    most, inhabited = 1.0, _inhabited(world)
    for j, (s, _, _) in enumerate(world.infections):
        if s in inhabited:
            by_place[s] = by_place.get(s, 0.0) + chance[j]
            if chance[j] > 0:
                most = max(most, float((people * world.own_factor("susceptibility", j)).max()))
    largest = max(by_place.values())
    return (chance / largest / most if largest > 0 else chance), to


def _inhabited(world: World) -> set[str]:
    """Where somebody can be: where nodes begin, and what follows."""
    begun = {name for name, given in world.initial.items() if given}
    here = begun | {world.infections[0][0]} | {one["compartment"] for one in world.importations}
    while True:
        more = here | {x for s, x, _ in world.infections if s in here}
        for name in here & set(world.progressions):
            to = [world.progressions[name][0], *world.splits.get(name, ("", []))[1]]
            more |= {other for each in to for other in _with_instead(world, each)}
            more |= world.follows(name)
        if more == here:
            return here
        here = more


# ---- handing it to ergode

_LAWS = {
    "exponential": lambda mean: ergode.Exponential(mean=mean),
    "gamma": lambda mean: ergode.Gamma(mean=mean, sd=0.5 * mean),
    "lognormal": lambda mean: ergode.LogNormal(mean=mean, median=mean * np.exp(-0.125)),
    "weibull": lambda scale: ergode.Weibull(shape=2.0, scale=scale),
    "deterministic": lambda mean: ergode.Deterministic(fixed_stay(mean)),  # ends with meetings
    "fixed": lambda mean: ergode.Deterministic(float(tidy(mean))),
}


def _holding_time(law: tuple[Any, ...]) -> ergode.HoldingTime:
    return _LAWS[law[0]](*law[1:])


def _with_instead(world: World, to: dict[str, float]) -> dict[str, float]:
    """Branches, and those that are taken only where a compartment is full."""
    full = [one for one in world.measures if "instead" in one and one["compartment"] in to]
    return to | {one["instead"]: 0.0 for one in full if one["instead"] not in to}


def _by(trait: str, entries: list[Any]) -> ergode.ByAttribute:
    if trait == "risk":
        return ergode.ByAttribute("risk", dict(zip(RISKS, entries, strict=True)))
    return ergode.ByAttribute("age", entries, groups=AGES_FROM)


def _exit_of(world: World, name: str) -> dict[str, Any]:
    if name not in world.exits:
        return {}
    rate, to = world.exits[name]
    return {"exit_rate": rate, "exit_to": to}


def model_of(world: World) -> ergode.CompartmentModel:
    """The model, as a user would write it."""
    return ergode.CompartmentModel(
        world.compartments,
        [
            ergode.Infection(
                s, x, rates,
                {c: ergode.Calendar(*world.profiles[c]) for c in rates if c in world.profiles},
                **{end: _by(*given) for end, given in world.factors_by.items()},
                **{end: _by(*each[k]) for end, each in world.own_factors.items() if each[k]},
            )
            for k, (s, x, rates) in enumerate(world.infections)
        ],
        [
            ergode.Progression(
                c,
                _by(world.splits[c][0], [_with_instead(world, one) for one in world.splits[c][1]])
                if c in world.splits else _with_instead(world, to),
                _by(world.stays[c][0], [_holding_time(one) for one in world.stays[c][1]])
                if c in world.stays
                else UntilBirth(max(world.births[1].values()), _mothers(world))
                if law[0] == "never" else _holding_time(law),
                **_exit_of(world, c),
            )
            for c, (to, law) in world.progressions.items()
        ],
        susceptibility="susceptibility" if world.susceptibility is not None else None,
        infectivity="infectivity" if world.infectivity is not None else None,
        outside=world.outside,
    )  # fmt: skip


def _mothers(world: World) -> dict[str, float]:
    """Rates of births, relative to the largest."""
    rates = world.births[1]
    return {name: rate / max(rates.values()) for name, rate in rates.items()}


def contacts_of(world: World) -> Any:
    """The network, or the meetings."""
    if world.meetings is not None:
        # Nobody may meet anybody.
        columns = np.array(world.meetings, float).reshape(-1, 5).T
        a, b, begin, end, amount = columns
        when = {"contact_time": amount} if (begin == end).all() else {"end": end}
        contacts = ergode.TemporalContacts.from_meetings(
            a, b, begin, node_count=world.nodes, directed=True, **when
        )
    else:
        parts = {}
        for k, name in enumerate(world.layers or ["all"]):
            mine = [arc for arc in world.arcs if arc[3] == k]
            source, target, weight = (np.array([arc[i] for arc in mine]) for i in range(3))
            parts[name] = ergode.ContactNetwork.from_edges(
                source.astype(int), target.astype(int), node_count=world.nodes, directed=True,
                weights=weight.astype(float),
            )  # fmt: skip
        contacts = ergode.ContactNetwork.from_layers(parts) if world.layers else parts["all"]
    names = ("susceptibility", "infectivity", "group", "seed_weight", "age", "risk")
    people = {name: getattr(world, name) for name in names if getattr(world, name) is not None}
    return contacts.with_attributes(**people) if people else contacts


def options_of(world: World) -> dict[str, Any]:
    """Everything else that `ergode.epidemics.simulate` is given."""
    initial = {
        name: value if isinstance(value, int) and world.seed_weight is None
        else ergode.Seeds(value, weight="seed_weight") if isinstance(value, int)
        else ergode.Seeds(np.array(value[0]), age=value[1]) if isinstance(value, tuple)
        else np.array(value, int)
        for name, value in world.initial.items()
    }  # fmt: skip
    options: dict[str, Any] = {"initial": initial, "times": world.times}
    if world.factors:
        factors = {name: ergode.Calendar(*given) for name, given in world.factors.items()}
        options["layer_factors"] = factors if world.layers else factors[""]
    if world.group is not None:
        options["strata"] = "group"
    if world.importations:
        options["importations"] = [ergode.Importation(**one) for one in world.importations]
    if world.measures:
        options["interventions"] = [measure_of(one) for one in world.measures]
    return options
