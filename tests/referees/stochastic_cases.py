"""Random reaction networks for the referee of `ergode.stochastic`, as plain data.

A case is what a user would write down: names, numbers and formulas as text.  `network_of` hands it
to the library; the truth (`stochastic_truth`) reads the same data and nothing of the library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ergode

NAMES = "ABCD"


@dataclass
class ReactionCase:
    """One reaction: both sides, the kind of its law, its number or formula, its mean delay."""

    left: dict[str, int]
    right: dict[str, int]
    law: str  # "deterministic", "stochastic" or "rate"
    value: float | str
    delay: float = 0.0
    spread: float = 0.0  # standard deviation of the delay, by its mean; it has a gamma law


@dataclass
class EventCase:
    """One event: condition, assignments, and what the class `Event` says besides."""

    trigger: str
    assignments: dict[str, str]
    delay: float | str = 0.0
    priority: float | None = None
    persistent: bool = True
    initially_true: bool = True
    values_from_trigger: bool = True


@dataclass
class Case:
    """A network, when to look at it, and what kind of case it is."""

    kind: str
    initial: dict[str, int]
    reactions: list[ReactionCase]
    times: list[float]
    parameters: dict[str, float | str] = field(default_factory=dict)
    volume: float | None = None
    events: list[EventCase] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it, for a message."""
        lines = [f"{self.kind}: initial {self.initial}, volume {self.volume}, times {self.times}"]
        lines += [f"  parameter {name} = {value}" for name, value in self.parameters.items()]
        lines += [f"  {reaction}" for reaction in self.reactions]
        lines += [f"  {event}" for event in self.events]
        return "\n".join(lines)


def network_of(case: Case, tables: bool) -> ergode.ReactionNetwork:
    """The case as the library has it.

    With `tables` it has an event that never happens, so that one kernel does for all cases.
    """
    place = None if case.volume is None else "cell"
    species = [ergode.Species(name, n, compartment=place) for name, n in case.initial.items()]
    words = {"deterministic": "rate_constant", "stochastic": "stochastic_rate_constant"}
    reactions = []
    for reaction in case.reactions:
        options: dict[str, Any] = {words.get(reaction.law, "rate"): reaction.value}
        if reaction.delay:
            options["delay"] = reaction.delay
        if reaction.spread:
            sd = reaction.spread * reaction.delay
            options["delay"] = ergode.Gamma(mean=reaction.delay, sd=sd)
        reactions.append(ergode.Reaction(reaction.left, reaction.right, **options))
    events = [
        ergode.Event(
            event.trigger, event.assignments, delay=event.delay, priority=event.priority,
            persistent=event.persistent, initially_true=event.initially_true,
            values_from_trigger=event.values_from_trigger,
        )
        for event in case.events
    ]  # fmt: skip
    if tables and not events:
        events.append(ergode.Event("time < -1e9", {next(iter(case.initial)): 0}))
    return ergode.ReactionNetwork(
        species, reactions, case.parameters, {} if case.volume is None else {"cell": case.volume},
        events=events,
    )  # fmt: skip


# ---- small networks: few molecules, any law


def _rate(rng, low, high):
    return float(np.round(np.exp(rng.uniform(np.log(low), np.log(high))), 4))


def _small_reactions(rng, names, time_laws):
    """Every species is made and lost, so that few states matter; and what couples them."""
    found = []
    for name in names:
        kind = rng.integers(3)
        if kind == 0:
            other = rng.choice(names)
            text = f"{_rate(rng, 3, 20)} / (1 + ({other} / {_rate(rng, 2, 9)})^2)"
            found.append(ReactionCase({}, {name: 1}, "rate", text))
        elif kind == 1:
            found.append(ReactionCase({}, {name: 1}, "stochastic", _rate(rng, 1, 12)))
        else:
            found.append(
                ReactionCase({}, {name: int(rng.integers(2, 4))}, "rate", _rate(rng, 1, 4))
            )
        if rng.random() < 0.5:
            found.append(ReactionCase({name: 1}, {}, "stochastic", _rate(rng, 0.4, 2)))
        else:
            text = f"v * {name} / ({_rate(rng, 1, 6)} + {name}) + {_rate(rng, 0.3, 1)} * {name}"
            found.append(ReactionCase({name: 1}, {}, "rate", text))
    more = int(rng.integers(0, 3))
    for _ in range(min(more, 8 - len(found))):
        a, b = rng.choice(names), rng.choice(names)
        kind = rng.integers(5)
        if kind == 0 and a != b:
            found.append(ReactionCase({a: 1, b: 1}, {a: 1}, "deterministic", _rate(rng, 0.05, 0.3)))
        elif kind == 1:
            found.append(ReactionCase({a: 2}, {b: 1}, "deterministic", _rate(rng, 0.02, 0.2)))
        elif kind == 2:
            found.append(ReactionCase({a: 3}, {a: 2}, "stochastic", _rate(rng, 0.002, 0.02)))
        elif kind == 3:
            found.append(ReactionCase({a: 1}, {b: 1}, "deterministic", "k2"))
        else:
            found.append(ReactionCase({a: 1}, {b: 1}, "rate", f"k * {a} if {b} > 5 else 2 * {a}"))
    if time_laws == "steps":
        a = rng.choice(names)
        word = rng.choice([">", ">=", "<", "<="])
        at = _instant(rng)
        text = f"{_rate(rng, 4, 20)} if time {word} {at} else {_rate(rng, 0.5, 2)}"
        found[0] = ReactionCase({}, {a: 1}, "rate", text)
    elif time_laws == "smooth":
        text = f"{_rate(rng, 2, 10)} * (1 + sin({_rate(rng, 1, 9)} * time))"
        if rng.random() < 0.5:
            text = f"{_rate(rng, 5, 60)} * exp(-((time - 1.1) / {_rate(rng, 0.01, 0.2)})^2)"
        found[0] = ReactionCase({}, {names[0]: 1}, "rate", text)
    return found


def _instant(rng):
    """A time that is often one of the grid, and sums of which are not always exact."""
    return float(np.round(rng.integers(1, 19) * 0.1, 1))


def _set_priorities(rng, events):
    """All different: without them the order of events at one time is nobody's to say."""
    for event, priority in zip(events, rng.permutation(len(events)), strict=True):
        event.priority = float(priority)


def small(rng: np.random.Generator, time_laws: str = "") -> Case:
    """Memoryless, or with events at given times: what the master equation can be solved for."""
    count = 1 + int(rng.choice(4, p=[0.4, 0.4, 0.15, 0.05]))
    names = [str(name) for name in rng.permutation(list(NAMES))[:count]]
    reactions = _small_reactions(rng, names, time_laws)[:8]
    if len(names) > 2:  # so that there are not too many states
        for reaction in reactions:
            if not reaction.left:
                reaction.right = dict.fromkeys(reaction.right, 1)
                if isinstance(reaction.value, float):
                    reaction.value = 1.0
    events = []
    for _ in range(int(rng.integers(0, 3)) if not time_laws else 0):
        a = rng.choice(names)
        word = rng.choice([">", ">="])
        assigned = str(rng.choice([f"{a} + 3", "2", f"floor({a} / 2)", "k + 1", str(a)]))
        target = "k" if assigned == "k + 1" else str(a)
        events.append(EventCase(f"time {word} {_instant(rng)}", {target: assigned}))
    _set_priorities(rng, events)
    volume = float(rng.choice([0.5, 2.0])) if rng.random() < 0.3 else None
    from_zero = rng.random() < 0.2
    initial = {name: 0 if from_zero else int(rng.integers(0, 9)) for name in names}
    times = sorted({0.0, _instant(rng), _instant(rng), 2.0})
    parameters = {"v": _rate(rng, 0.5, 3), "k": float(rng.integers(1, 3)), "k2": "0.5 * k"}
    return Case("small", initial, reactions, times, parameters, volume, events)


def mass_action(rng: np.random.Generator) -> Case:
    """At most two molecules a reaction, so that every exact method takes it."""
    case = small(rng)
    names = list(case.initial)
    reactions = []
    for name in names:
        reactions.append(ReactionCase({}, {name: 1}, "stochastic", _rate(rng, 1, 8)))
        reactions.append(ReactionCase({name: 1}, {}, "deterministic", _rate(rng, 0.4, 2)))
    a, b = (str(name) for name in rng.choice(names, 2))
    reactions.append(ReactionCase({a: 2}, {b: 1}, "deterministic", _rate(rng, 0.02, 0.2)))
    reactions.append(ReactionCase({b: 1}, {a: 1}, "stochastic", _rate(rng, 0.2, 1)))
    if a != b:
        reactions.append(ReactionCase({a: 1, b: 1}, {b: 1}, "deterministic", _rate(rng, 0.02, 0.2)))
    case.reactions = reactions[:8]
    case.events = [event for event in case.events if "k" not in event.assignments]
    return case


# ---- history: delays, chains of events, conditions on amounts


def history(rng: np.random.Generator) -> Case:
    """What only an interpreter can follow."""
    case = small(rng, str(rng.choice(["", "steps"])))
    case.kind = "history"
    names = list(case.initial)
    if rng.random() < 0.6:
        a, b = rng.choice(names), rng.choice(names)
        delay = _instant(rng) / 2
        spread = float(rng.choice([0.0, 0.3, 1.0]))
        case.reactions[-1] = ReactionCase({a: 1}, {b: 1}, "stochastic", 0.7, delay, spread)
    case.initial["Z"] = 0  # changed by events alone: its rows must agree one by one
    case.initial["Y"] = 3
    first, gap = _instant(rng), float(rng.choice([0.1, 0.2, 0.3, 0.5]))
    word = rng.choice([">", ">="])
    case.events = [
        EventCase(f"time {word} {first}", {"Z": "Z + 1"}, delay=float(rng.choice([0.0, gap]))),
        EventCase("Z > 0", {"Y": "Y + 10"}, delay=gap),
        EventCase(
            "Y > 10", {"Y": "1", "Z": "Z + 100"}, delay=float(rng.choice([0.0, gap])),
            values_from_trigger=bool(rng.integers(2)),
        ),
    ]  # fmt: skip
    a = rng.choice(names)
    if rng.random() < 0.7:
        case.events.append(
            EventCase(
                f"{a} >= {int(rng.integers(6, 12))}", {str(a): f"{a} - 4"},
                delay=float(rng.choice([0.0, 0.25])), persistent=bool(rng.integers(2)),
                initially_true=bool(rng.integers(2)),
            )
        )  # fmt: skip
    if rng.random() < 0.5:
        case.events.append(EventCase(f"time >= {first}", {"Y": "2 * Y"}))
    _set_priorities(rng, case.events)
    marks = {0.0, first, round(first + gap, 1), round(first + 2 * gap, 1), 2.0}
    case.times = sorted(t for t in marks if t <= 2.0)
    return case


# ---- failing: some realizations end early


def failing(rng: np.random.Generator) -> Case:
    """A reaction takes molecules at a rate that does not ask how many there are."""
    case = small(rng)
    case.kind = "failing"
    name = next(iter(case.initial))
    case.initial[name] = int(rng.integers(2, 8))
    case.reactions[-1] = ReactionCase({name: 1}, {}, "rate", _rate(rng, 1, 4))
    case.events = []
    return case


# ---- many molecules: for the approximate methods


def linear(rng: np.random.Generator) -> Case:
    """Births, deaths and conversions of many molecules: moments are known exactly."""
    names = list(NAMES[: int(rng.integers(1, 5))])
    scale = 10 ** rng.uniform(3, 5)
    stiff = 10 ** rng.uniform(0, 1.5)
    reactions = []
    for name in names[:2]:
        reactions.append(ReactionCase({}, {name: 1}, "stochastic", _rate(rng, 0.3, 1) * scale))
    for name in names:
        reactions.append(ReactionCase({name: 1}, {}, "deterministic", _rate(rng, 0.3, 2)))
    for a, b in zip(names, names[1:], strict=False):
        if len(reactions) < 8:
            reactions.append(ReactionCase({a: 1}, {b: 1}, "stochastic", _rate(rng, 0.3, 2) * stiff))
        if len(reactions) < 8 and rng.random() < 0.5:
            reactions.append(ReactionCase({b: 1}, {a: 1}, "stochastic", _rate(rng, 0.3, 2) * stiff))
    initial = {name: int(scale * rng.uniform(0.2, 2)) for name in names}
    times = [0.0, *sorted(np.round(rng.uniform(0.2, 9, int(rng.integers(1, 4))), 2)), 10.0]
    return Case("linear", initial, reactions, [float(t) for t in times])


def nonlinear(rng: np.random.Generator) -> Case:
    """Some hundred molecules of three species, with pairs and saturation."""
    scale = float(rng.integers(300, 900))
    reactions = [
        ReactionCase({}, {"A": 1}, "stochastic", scale * _rate(rng, 0.5, 1)),
        ReactionCase({"A": 2}, {"B": 1}, "deterministic", _rate(rng, 0.5, 2) / scale),
        ReactionCase({"B": 1}, {"A": 2}, "stochastic", _rate(rng, 0.2, 1)),
        ReactionCase({"A": 1}, {}, "rate", f"{scale} * A / ({scale} + A)"),
        ReactionCase({"B": 1}, {}, "deterministic", _rate(rng, 0.2, 1)),
        ReactionCase({"A": 1, "B": 1}, {"A": 1, "C": 1}, "stochastic", _rate(rng, 0.5, 2) / scale),
        ReactionCase({"C": 1}, {}, "stochastic", _rate(rng, 0.2, 1)),
    ]
    initial = {"A": int(scale), "B": int(scale / 3), "C": 0}
    return Case("nonlinear", initial, reactions, [0.0, float(rng.integers(5, 20)) / 10, 3.0])


def large(rng: np.random.Generator) -> Case:
    """As `nonlinear`, with ten to 1e14 molecules, in a transient."""
    scale = float(np.rint(10 ** rng.uniform(1, 14)))
    case = nonlinear(rng)
    for reaction in case.reactions:
        if reaction.law == "rate":
            reaction.value = f"{scale} * A / ({scale} + A)"
            continue
        order = sum(reaction.left.values())
        reaction.value = _rate(rng, 0.3, 2) * scale ** (1 - order)
    names = [str(name) for name in rng.permutation(list(case.initial))]
    some = [0.0, *rng.choice([0.0, 0.1, 1.0, 3.0], 2)]
    case.initial = {name: int(x * scale) for name, x in zip(names, some, strict=True)}
    case.kind, case.times = "large", [0.0, 0.3, 1.0, 4.0]
    return case
