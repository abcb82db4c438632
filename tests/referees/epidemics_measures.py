"""Random measures of a `World` as plain data, and handed to ergode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import ergode

if TYPE_CHECKING:
    from epidemics_world import World


def add_measures(rng: np.random.Generator, world: World) -> None:
    """Measures of all kinds, which start at times or by counts."""
    start, infectious = float(world.times[0]), sorted(world.infectious)
    world.measures[0]["layer"] = "a" if world.layers else None
    entered = sorted({x for _, x, _ in world.infections})

    def trigger() -> dict[str, Any]:
        counted: Any = rng.choice(["cases", *infectious])
        if rng.random() < 0.3:
            counted = (*infectious, "cases")[: int(rng.integers(1, 3))]
        return {
            "count": counted if isinstance(counted, tuple) else str(counted),
            "level": int(rng.integers(2, 5)), "delay": float(rng.choice([0.0, 0.2])),
        }  # fmt: skip

    def some(*values: float) -> float:
        return float(rng.choice(values))

    world.measures += [
        {"kind": "vaccination", "fraction": some(0.6, 1.0), "efficacy": some(0.7, 1.0),
         "leaky": True, "infectivity_reduction": 0.4, "rollout": some(0.0, 1.0),
         "delay": some(0.0, 0.1), "duration": some(2.0, np.inf), "start": start + 0.2},
        {"kind": "vaccination", "fraction": 0.5, "efficacy": 0.6, "leaky": False,
         "infectivity_reduction": some(0.0, 0.5), "rollout": 0.5, "delay": 0.0, "duration": 1.5},
        {"kind": "isolation", "compartment": str(rng.choice(infectious)),
         "fraction": some(0.6, 1.0), "delay": some(0.0, 0.2), "reduction": some(0.8, 1.0),
         "duration": some(2.0, np.inf), "start": start + 0.3},
        {"kind": "tracing", "compartment": str(rng.choice(entered)), "detection": some(0.7, 1.0),
         "detection_delay": 0.2, "tracing": some(0.6, 1.0), "tracing_delay": 0.2,
         "quarantine": some(0.8, np.inf), "reduction": some(0.9, 1.0),
         "lookback": some(1.2, np.inf), "duration": some(2.5, np.inf)},
        {"kind": "closure", "layer": None, "reduction": 0.6, "duration": 0.9,
         "trigger": trigger()},
    ]  # fmt: skip
    if world.meetings is None:  # contacts last
        world.measures[-2]["lookback"] = np.inf
    _add_effects(rng, world)
    for one in world.measures[1:-1]:
        if one["kind"] != "tracing" and rng.random() < 0.5:
            one["among"] = "group"
        if rng.random() < 0.35:
            one.pop("start", None)
            one["trigger"] = trigger()
    if world.layers:
        _add_programmes(rng.spawn(1)[0], world, trigger())
    _add_capacity(rng.spawn(1)[0], world)
    _add_tests(rng.spawn(1)[0], world)
    _add_lines(rng.spawn(1)[0], world)
    _add_stops(rng.spawn(1)[0], world)  # of its own, so that worlds are what they were without
    _add_counters(rng.spawn(1)[0], world)
    _add_tracing(rng.spawn(1)[0], world)
    for k in range(1, len(world.measures), 2):
        world.measures[k]["name"] = f"{world.measures[k]['kind']} {k}"


def _add_programmes(rng: np.random.Generator, world: World, trigger: dict[str, Any]) -> None:
    """Doses one after another, of several to each node; and boosters of a campaign."""
    count = int(rng.integers(1, 4))
    rate = round(float(rng.uniform(1.0, 8.0)), 2)
    one: dict[str, Any] = {
        "kind": "vaccination", "fraction": float(rng.choice([0.5, 0.8, 1.0])),
        "efficacy": [1.0, 0.3, 0.8][:count] if count > 1 else 0.9,
        "leaky": bool(rng.random() < 0.7), "infectivity_reduction": 0.0, "rollout": 0.0,
        "delay": float(rng.choice([0.0, 0.1])), "duration": float(rng.choice([0.7, np.inf])),
        "dose_rate": rate if rng.random() < 0.5 else
        ([0.0, 0.3, 0.8], [0.0, round(2 * rate, 2), rate], 1.0),
        "start": float(world.times[0]) + float(rng.choice([0.0, 0.2])),
    }  # fmt: skip
    if count > 1:
        one["interval"] = [0.3, 0.5][: count - 1] if rng.random() < 0.5 else 0.4
        one["infectivity_reduction"] = [0.1, 0.9, 0.4][:count]
    one["priority"] = _priority(rng)
    if not isinstance(one["dose_rate"], tuple) and rng.random() < 0.5:
        one.pop("start")
        one["trigger"] = trigger
    booster = {
        "kind": "vaccination", "fraction": 0.7, "efficacy": [0.2, 1.0], "leaky": True,
        "infectivity_reduction": 0.3, "rollout": 0.4, "delay": 0.1, "duration": 1.5,
        "interval": [0.5], "waning": 0.4,
    }  # fmt: skip
    for made in (one, booster):
        if "severity" in world.measures[1]:
            name = next(iter(world.measures[1]["severity"]))
            count = len(np.atleast_1d(made["efficacy"]))
            made["severity"] = {name: [0.2, 0.9, 0.6][:count] if count > 1 else 0.5}
        if rng.random() < 0.3:
            made["among"] = "group"
    world.measures[-1:-1] = [one, booster]


def _priority(rng: np.random.Generator) -> Any:
    by_risk = {"high": 2.0, "low": 1.0} if rng.random() < 0.5 else {"high": 0.0, "low": 3.0}
    return "age" if rng.random() < 0.5 else {"risk": by_risk}


def _add_capacity(rng: np.random.Generator, world: World) -> None:
    """A place or two in a compartment that nodes come to by themselves."""
    choices = []
    for name in world.compartments:
        leading = {c for c, (to, _) in world.progressions.items() if name in to}
        choices += [
            (name, other) for other in world.compartments
            if leading and other != name and other not in leading
        ]  # fmt: skip
    if choices:
        name, other = choices[int(rng.integers(len(choices)))]
        places = int(rng.integers(1, 3))
        one = {"kind": "capacity", "compartment": name, "places": places, "instead": other}
        world.measures.insert(-1, one)
    susceptible = {s for s, _, _ in world.infections}
    free = [
        name for name in world.compartments
        if ((choices and name != one["compartment"]) or not choices)
        and (leading := {c for c, (to, _) in world.progressions.items() if name in to})
        and not leading & susceptible
    ]  # fmt: skip
    if free:
        name = str(rng.choice(free))
        two = {"kind": "capacity", "compartment": name, "places": 1, "wait": True}
        if world.layers and rng.random() < 0.7:
            two["priority"] = _priority(rng)
        leading = {c for c, (to, _) in world.progressions.items() if name in to}
        elsewhere = [c for c in world.compartments if c != name and c not in leading]
        if elsewhere:  # a mean where it is text
            patient = rng.spawn(1)[0]
            two["instead"] = str(patient.choice(elsewhere))
            two["patience"] = [0.4137, "0.3", 50.0][int(patient.integers(3))]
        world.measures.insert(-1, two)
    if choices or free:
        # Stays that end together would differ by rounding: 1.2, and 0.4 + 0.8.
        full = {one["compartment"] for one in world.measures if one["kind"] == "capacity"}
        changed = enumerate(list(world.progressions.items()))
        for k, (source, (to, (law, mean))) in changed:
            if law == "deterministic" and full & {source, *to}:
                law = "fixed"
            world.progressions[source] = (to, (law, mean + 0.00113 * 1.37**k))


def _add_tests(rng: np.random.Generator, world: World) -> None:
    """Tests at a rate, and of those who enter a compartment."""
    begin = float(world.times[0])
    reached = {s for s, _, _ in world.infections}
    waits = {one["compartment"] for one in world.measures if one.get("wait") is True}
    at_rate = [
        name for name in world.compartments
        if name not in reached and not waits & set(world.progressions.get(name, ({}, ()))[0])
    ]  # fmt: skip
    tested = [name for name in world.compartments if name not in reached]
    if not tested or not at_rate:
        return
    for rate in (round(float(rng.uniform(0.3, 1.5)), 2), None):
        among = tested if rate is None else at_rate
        some = rng.choice(among, int(rng.integers(1, len(among) + 1)), replace=False)
        one: dict[str, Any] = {
            "kind": "testing",
            "sensitivity": {str(name): float(rng.choice([0.4, 0.9, 1.0])) for name in some},
            "delay": float(rng.choice([0.0, 0.2, 0.4])),
            "isolation": float(rng.choice([0.4, 0.8, np.inf])),
            "reduction": float(rng.choice([0.8, 1.0])),
            "duration": float(rng.choice([1.5, np.inf])),
            "start": begin + float(rng.choice([0.0, 0.4])),
        }
        one |= {"fraction": float(rng.choice([0.6, 1.0]))} if rate is None else {"rate": rate}
        if world.group is not None and rng.random() < 0.4:
            one["among"] = "group"
        world.measures.insert(-1, one)


def _add_lines(rng: np.random.Generator, world: World) -> None:
    """Tests of those who enter a compartment, a few in each period."""
    begin, span = float(world.times[0]), float(world.times[-1] - world.times[0])
    reached = {s for s, _, _ in world.infections}
    tested = [name for name in world.compartments if name not in reached]
    if not tested:
        return
    some = rng.choice(tested, int(rng.integers(1, len(tested) + 1)), replace=False)
    one: dict[str, Any] = {
        "kind": "testing",
        "sensitivity": {str(name): float(rng.choice([0.0, 0.9, 1.0])) for name in some},
        "fraction": float(rng.choice([0.7, 1.0])), "delay": float(rng.choice([0.0, 0.1])),
        "isolation": float(rng.choice([0.6, np.inf])), "reduction": float(rng.choice([0.8, 1.0])),
        "period": float(rng.choice([0.2, 0.5, 1.0])), "wait": bool(rng.random() < 0.8),
        "capacity": int(rng.integers(0, 3)) if rng.random() < 0.6 else
        ([begin, begin + round(0.3 * span, 2)], [int(n) for n in rng.integers(0, 3, 2)]),
        "start": begin + float(rng.choice([-0.3, 0.0, 0.4])),
    }  # fmt: skip
    one["sensitivity"][str(some[0])] = 1.0
    if one["wait"] and world.layers and rng.random() < 0.7:
        one["priority"] = _priority(rng)
    world.measures.insert(-1, one)


def _add_stops(rng: np.random.Generator, world: World) -> None:
    """Measures that stop at a time or by a count, and start again by another."""
    begin, span = float(world.times[0]), float(world.times[-1] - world.times[0])
    counted = ["cases", *world.compartments]

    def trigger(below: bool) -> dict[str, Any]:
        return {
            "count": str(rng.choice(counted)), "level": int(rng.integers(1, world.nodes + 2)),
            "delay": float(rng.choice([0.0, 0.0, 0.2, 0.5])), "below": below,
        }  # fmt: skip

    for number, one in enumerate(world.measures):
        last = number == len(world.measures) - 1
        if one["kind"] in ("vaccination", "capacity") or (rng.random() < 0.4 and not last):
            continue
        one.pop("duration", None)
        if rng.random() < 0.25:
            one["stop"] = round(
                float(max(one.get("start", begin), begin) + rng.uniform(0, span)), 3
            )
            continue
        if last or rng.random() < 0.5:
            one.pop("start", None)
            one["trigger"] = trigger(bool(rng.random() < 0.2))
        while True:
            one["stop"] = trigger(bool(rng.random() < 0.8))
            if "trigger" in one and rng.random() < 0.7:  # of one count, and often of one level
                one["stop"]["count"] = one["trigger"]["count"]
                if rng.random() < 0.4:
                    one["stop"]["level"] = one["trigger"]["level"]
            try:
                measure_of(one)
                break
            except ergode.ModelError:  # it would never start, or be started and stopped at once
                continue


def _add_counters(rng: np.random.Generator, world: World) -> None:
    """Triggers that count in a window of time, or some of the nodes, or up to a fraction."""
    for number, one in enumerate(world.measures):
        last = number == len(world.measures) - 1
        for end in ("trigger", "stop"):
            if not isinstance(one.get(end), dict) or (rng.random() < 0.6 and not last):
                continue
            given, before = one[end], dict(one[end])
            if rng.random() < 0.6 or last:
                given["window"] = float(rng.choice([0.3, 0.8]))
                if rng.random() < 0.6:
                    given["count"] = "cases"
                    given["level"] = int(rng.integers(1, 4))
            if rng.random() < 0.5:
                given["among"] = "group" if rng.random() < 0.5 else {"group": [0, 1]}
            if rng.random() < 0.4:
                del given["level"]
                given["fraction"] = float(rng.choice([0.2, 0.25, 0.5]))
            try:
                measure_of(one)
            except ergode.ModelError:
                one[end] = before


def _add_tracing(rng: np.random.Generator, world: World) -> None:
    """Tests after which contacts are traced; and people who take part with a probability."""

    def shares() -> dict[str, list[float]]:
        return {"group": [float(one) for one in rng.choice([0.0, 0.5, 0.8, 1.0], 3)]}

    for one in world.measures:
        tests = one["kind"] == "testing"
        if tests and rng.random() < 0.6:
            one["tracing"] = float(rng.choice([0.6, 1.0]))
            one["tracing_delay"] = float(rng.choice([0.0, 0.2]))
            one["quarantine"] = float(rng.choice([0.5, 0.9, np.inf]))
            if world.meetings is not None and rng.random() < 0.5:
                one["lookback"] = 1.2
        if one.get("tracing") and world.layers and rng.random() < 0.5:
            layer = str(rng.choice(world.layers))
            one["tracing"] = {layer: float(rng.choice([0.7, 1.0]))}
        if one.get("tracing") and (one["kind"] == "tracing" or rng.random() < 0.4):
            one["contacts_among"] = "group" if rng.random() < 0.2 else shares()
        if (
            one["kind"] == "tracing"
            or tests
            or (one["kind"] in ("isolation", "vaccination") and "dose_rate" not in one)
        ) and rng.random() < 0.4:
            one["among"] = shares()
    for number, one in enumerate(m for m in world.measures if m["kind"] == "testing"):
        if number == 0 or rng.random() < 0.4:
            one["release_after"] = float(rng.choice([0.2, 0.3]))
            if rng.random() < 0.7:
                one["release_every"] = float(rng.choice([0.2, 0.3]))
    for number, one in enumerate(m for m in world.measures if "release_after" in m):
        if number == 0 or rng.random() < 0.5:  # a kernel knows whether there are such tests
            one |= {"tracing": one.get("tracing") or 0.8, "test_contacts": True}
            one["delay"] = one["delay"] or 0.2
            one["quarantine"] = max(one.get("quarantine", 0.9), 0.5)
    others = [m for m in world.measures if m["kind"] == "testing" and "test_contacts" not in m]
    for number, one in enumerate(others):
        if number == 0 or rng.random() < 0.5:  # likewise
            one |= {"tracing": one.get("tracing") or 0.8, "test_traced": True}
            one["delay"] = one["delay"] or 0.2
            one["quarantine"] = float(rng.choice([0.0, 0.5, 0.9]))
    for one in world.measures:  # a kernel knows whether there are such people
        if one["kind"] == "isolation":
            one["among"] = {"group": [0.5, 0.9, 1.0]}


def add_unborn(rng: np.random.Generator, world: World) -> None:
    """A node that is not born at first."""
    named = [i for v in world.initial.values() if not isinstance(v, int)
             for i in (v[0] if isinstance(v, tuple) else v)]  # fmt: skip
    free = sorted(set(range(world.nodes)) - set(named))
    if (
        world.progressions
        and rng.random() < 0.6
        and len(free) > 1 + sum(value for value in world.initial.values() if isinstance(value, int))
    ):
        world.compartments.append("U")
        world.outside = ["U"]
        law = next(iter(world.progressions.values()))[1][0]
        world.progressions["U"] = ({"C0": 1.0}, (law, round(float(rng.uniform(0.4, 1.2)), 2)))
        world.initial["U"] = [int(rng.choice(free))]


def _add_effects(rng: np.random.Generator, world: World) -> None:
    """The first vaccine wanes, and spares people a branch; the second may spare them one too."""
    first, second = world.measures[1:3]
    table = ([0.0, round(float(rng.uniform(0.2, 0.8)), 2)], [1.0, 0.3])
    first["waning"] = table if rng.random() < 0.5 else round(float(rng.uniform(0.4, 2.0)), 2)
    branching = [to for to, _ in world.progressions.values() if len(to) > 1]
    if branching:
        spared = next(iter(branching[0]))
        for one in (first, second):
            one["severity"] = {spared: float(rng.choice([0.6, 1.0]))}
        other = rng.spawn(1)[0]
        shared = [c for to in branching for c in to if c != spared]
        if shared and other.random() < 0.5:
            # Another branch is named by one that few or none receive, or that wanes.
            idle = {
                "kind": "vaccination", "fraction": float(other.choice([0.0, 0.5, 1.0])),
                "efficacy": 0.0, "leaky": True, "infectivity_reduction": 0.0, "rollout": 0.0,
                "delay": float(other.choice([0.0, 50.0])), "duration": np.inf,
                "severity": {str(other.choice(shared)): float(other.choice([0.5, 1.0]))},
                "waning": 0.2,
            }  # fmt: skip
            world.measures.insert(-1, idle)


_MEASURES = {
    "closure": ergode.LayerClosure, "vaccination": ergode.Vaccination,
    "isolation": ergode.Isolation, "tracing": ergode.ContactTracing,
    "testing": ergode.Testing, "capacity": ergode.Capacity,
}  # fmt: skip


def measure_of(one: dict[str, Any]) -> Any:
    """The measure, as a user would write it."""
    given = {k: v for k, v in one.items() if k not in ("kind", "trigger")}
    if isinstance(one.get("waning"), float):
        given["waning"] = ergode.Exponential(mean=one["waning"])
    elif "waning" in one:
        given["waning"] = ergode.Calendar(*one["waning"])
    for name in ("among", "contacts_among"):
        if isinstance(one.get(name), dict):
            each = dict(enumerate(one[name]["group"]))
            given[name] = ergode.ByAttribute("group", each)
    if isinstance(one.get("priority"), dict):
        given["priority"] = ergode.ByAttribute(*next(iter(one["priority"].items())))
    if isinstance(one.get("patience"), str):
        given["patience"] = ergode.Exponential(mean=float(one["patience"]))
    for name in ("dose_rate", "capacity"):
        if isinstance(one.get(name), tuple):
            given[name] = ergode.Calendar(*one[name])
    if "trigger" in one:
        given["start"] = ergode.Trigger(**one["trigger"])
    if isinstance(one.get("stop"), dict):
        given["stop"] = ergode.Trigger(**one["stop"])
    return _MEASURES[one["kind"]](**given)
