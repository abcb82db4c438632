"""Births at a rate of each mother: in random worlds, and in the plain queue of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from epidemics_world import World

UNBORN, DEAD, _NEWCOMERS = "B", "D", 24  # enough: more are born with a probability below 1e-6


def add_births(rng: np.random.Generator, world: World) -> bool:
    """Nodes that are born in the order of their numbers, with contacts of their own.

    False if there is no compartment that newborns may enter.
    """
    old = world.nodes
    full = {one["compartment"] for one in world.measures if one["kind"] == "capacity"}
    full |= {name for one in world.measures for name in one.get("severity", {})}
    other = [name for name in world.compartments[1:] if name not in full | set(world.outside)]
    to = {"C0": 0.7, str(rng.choice(other)): 0.3} if other else {"C0": 1.0}
    if "C0" in full:
        if not other:
            return False
        to = {str(rng.choice(other)): 1.0}
    mothers = [name for name in world.compartments if name not in world.outside]
    rates = {name: float(rng.choice([0.0, 0.06, 0.12])) for name in mothers}
    world.births = (UNBORN, rates | {mothers[0]: 0.12})
    world.nodes += _NEWCOMERS
    for name in ("susceptibility", "infectivity", "group", "seed_weight", "age"):
        given = getattr(world, name)
        if given is not None:
            setattr(world, name, np.append(given, rng.choice(given, _NEWCOMERS)))
    if world.risk is not None:
        world.risk += [str(one) for one in rng.choice(world.risk, _NEWCOMERS)]
    for child in range(old, world.nodes):
        for one in rng.choice(child, 2, replace=False):
            layer = int(rng.integers(0, max(1, len(world.layers))))
            world.arcs += [(child, int(one), 0.8, layer), (int(one), child, 0.8, layer)]
    for name in mothers:  # all may die
        rate = float(rng.choice([0.05, 0.15]))
        if name in world.progressions:
            world.exits[name] = rate, {DEAD: 1.0}
        else:
            world.progressions[name] = {DEAD: 1.0}, ("exponential", 1.0 / rate)
    for name, value in world.initial.items():  # an age does not tell who has died since
        if isinstance(value, tuple):
            world.initial[name] = value[0]
    world.compartments += [UNBORN, DEAD]
    world.outside = [*world.outside, UNBORN, DEAD]
    world.progressions[UNBORN] = (to, ("never", np.inf))
    world.initial[UNBORN] = list(range(old, world.nodes))
    return True


class Births:
    """The next birth of each replicate."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.rates = np.zeros(len(run.world.compartments))
        if run.world.births is not None:
            for name, rate in run.world.births[1].items():
                self.rates[run.index[name]] = rate

    def live(self, rows: np.ndarray, node: Any, to: np.ndarray, time: np.ndarray) -> None:
        """Nodes move, and some of them are born, or die."""
        run = self.run
        outside = np.isin(run.world.compartments, run.world.outside)
        old = outside[run.at[rows, node]]
        if not outside.any():
            return
        late = outside[to] & ~old & (time == run.begin)  # who begins outside
        run.born[rows[late], node[late]] = np.inf
        born, dead = old & ~outside[to], outside[to] & ~old & ~late
        run.born[rows[born], node[born]] = time[born]
        run.died[rows[dead], node[dead]] = time[dead]
        run.lines.die(rows[dead], node[dead])
        for k in range(len(run.world.measures)):
            for row, who in zip(rows[born | dead], node[born | dead], strict=True):
                run.holds._plan_tests(row, k, who)

    def next(self, rows: np.ndarray) -> np.ndarray:
        """When somebody is born, if nothing happens before; drawn anew after each event."""
        run = self.run
        total = self.rates[run.at[rows]].sum(axis=1)
        wait = run.rng.standard_exponential(rows.size) if self.rates.any() else np.inf
        with np.errstate(divide="ignore"):
            return run.clock[rows] + wait / total

    def bear(self, rows: np.ndarray, time: np.ndarray) -> None:
        """The first of the unborn moves on."""
        unborn = self.run.at[rows] == self.run.index[UNBORN]
        child = unborn.argmax(axis=1)
        assert unborn[np.arange(rows.size), child].all()
        self.run.due[rows, child] = time
