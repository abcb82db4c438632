"""Births at a rate of each mother: in random worlds, and in the plain queue of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from epidemics_world import World

UNBORN, _NEWCOMERS = "B", 24  # enough: more are born with a probability below 1e-6


def add_births(rng: np.random.Generator, world: World) -> None:
    """Nodes that are born in the order of their numbers, with contacts of their own."""
    old = world.nodes
    full = {one["compartment"] for one in world.measures if one["kind"] == "capacity"}
    full |= {name for one in world.measures for name in one.get("severity", {})}
    other = [name for name in world.compartments[1:] if name not in full | set(world.outside)]
    to = {"C0": 0.7, str(rng.choice(other)): 0.3} if other else {"C0": 1.0}
    if "C0" in full:
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
    world.compartments.append(UNBORN)
    world.outside = [*world.outside, UNBORN]
    world.progressions[UNBORN] = (to, ("never", np.inf))
    world.initial[UNBORN] = list(range(old, world.nodes))


class Births:
    """The next birth of each replicate."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.rates = np.zeros(len(run.world.compartments))
        if run.world.births is not None:
            for name, rate in run.world.births[1].items():
                self.rates[run.index[name]] = rate

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
