"""The master equation of a memoryless `World`: every state of all nodes, and what leads where.

Built from the description, for the whole graph at once, and solved by the action of the matrix
exponential between the moments at which a rate changes.
"""

from __future__ import annotations

import numpy as np
from epidemics_plain import calendar_at
from epidemics_world import World, imports
from scipy.sparse import bmat, coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import expm_multiply


def solve(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Chances of each count, [time, compartment, nodes + 1], and expected cases [time]."""
    system = _System(world)
    probability, cases = system.begin()
    times = world.times
    laws, expected = [], []
    stops = sorted(set(times) | set(system.changes))
    now = float(times[0])
    for stop in stops:
        if stop > now:
            # One more state: the expected number of cases so far.
            generator, flow = system.generator(0.5 * (now + stop))
            whole = _squared(generator, flow)
            after = expm_multiply(whole * (stop - now), np.append(probability, cases))
            probability, cases, now = after[:-1], float(after[-1]), float(stop)
        for plan in world.importations:
            for _ in range(list(plan.get("times", ())).count(stop)):
                jump, gain = system.importation(plan["compartment"], 1.0)
                cases += float(gain @ probability)
                probability = probability + jump.T @ probability
        if stop in times:
            laws.append(system.law(probability))
            expected.append(cases)
    return np.array(laws), np.array(expected)


def _squared(generator: csr_matrix, flow: np.ndarray) -> csr_matrix:
    size = flow.size
    below = coo_matrix((flow, (np.zeros(size, int), np.arange(size))), (1, size))
    return csr_matrix(bmat([[generator.T, None], [below, coo_matrix((1, 1))]], format="csr"))


class _System:
    def __init__(self, world: World) -> None:
        self.world = world
        count, nodes = len(world.compartments), world.nodes
        self.index = {name: k for k, name in enumerate(world.compartments)}
        self.place = count ** np.arange(nodes)
        self.size = count**nodes
        # Where each node is, in each state: [state, node].
        self.at = (np.arange(self.size)[:, None] // self.place) % count
        begin, end = world.times[0], world.times[-1]
        changes = {t for name in world.factors for t in world.factors[name][0]}
        for one in world.measures:
            changes |= {one["start"], one["start"] + one["duration"]}
        for plan in world.importations:
            changes |= set(plan.get("times", ())) | {plan.get("start"), plan.get("stop")}
        self.changes = {float(t) for t in changes - {None} if begin <= t <= end}

    def begin(self) -> tuple[np.ndarray, float]:
        """Where everybody is at first; drawn nodes are any of those not named."""
        world = self.world
        base = self.index[world.infections[0][0]]
        start = np.full(world.nodes, base)
        cases = 0.0
        drawn = []
        for name, value in world.initial.items():
            cases += (name in world.ill) * (value if isinstance(value, int) else len(value))
            if isinstance(value, int):
                drawn += [self.index[name]] * value
            else:
                start[value] = self.index[name]
        probability = np.zeros(self.size)
        named = {i for v in world.initial.values() if not isinstance(v, int) for i in v}
        free = [i for i in range(world.nodes) if i not in named]
        if drawn:  # one at most
            for node in free:
                other = start.copy()
                other[node] = drawn[0]
                probability[other @ self.place] += 1.0 / len(free)
        else:
            probability[start @ self.place] = 1.0
        return probability, cases

    def generator(self, time: float) -> tuple[csr_matrix, np.ndarray]:
        """Rates from state to state, and the rate of new cases out of each state."""
        world, moment = self.world, np.array([time])
        parts = []
        flow = np.zeros(self.size)
        for node in range(world.nodes):
            for name, (branches, law) in world.progressions.items():
                for to, share in branches.items():
                    here = self.at[:, node] == self.index[name]
                    parts.append(self._moves(node, here * share / law[1], self.index[to]))
        for source, target, weight, layer in world.arcs:
            rate = weight
            if world.susceptibility is not None:
                rate *= world.susceptibility[target]
            if world.layers and world.layers[layer] in world.factors:
                rate *= float(calendar_at(*world.factors[world.layers[layer]], moment)[0])
            for one in world.measures:
                here = one["layer"] is None or world.layers[layer] == one["layer"]
                if here and one["start"] <= time < one["start"] + one["duration"]:
                    rate *= 1.0 - one["reduction"]
            for s, x, rates in world.infections:
                each = np.zeros(len(world.compartments))
                for name, value in rates.items():
                    each[self.index[name]] = value
                wanted = rate * each[self.at[:, source]] * (self.at[:, target] == self.index[s])
                parts.append(self._moves(target, wanted, self.index[x]))
                flow += wanted
        for plan in world.importations:
            if "rate" in plan and plan["start"] <= time < plan["stop"]:
                jump, gain = self.importation(plan["compartment"], plan["rate"])
                parts.append(jump)
                flow += gain
        return csr_matrix(sum(parts)), flow

    def importation(self, compartment: str, rate: float) -> tuple[csr_matrix, np.ndarray]:
        """What one importation, on any node, does at a rate (or once)."""
        world = self.world
        chance, to = imports(world, compartment)
        flow = np.zeros(self.size)
        total = csr_matrix((self.size, self.size))
        for node in range(world.nodes):
            left = rate / world.nodes
            if world.susceptibility is not None:
                left *= world.susceptibility[node] / max(1.0, world.susceptibility.max())
            for j, (s, _, _) in enumerate(world.infections):
                wanted = left * chance[j] * (self.at[:, node] == self.index[s])
                total = total + self._moves(node, wanted, int(to[j]))
                flow += wanted
        return total, flow

    def _moves(self, node: int, rate: np.ndarray, to: int) -> csr_matrix:
        state = np.flatnonzero(rate)
        other = state + (to - self.at[state, node]) * self.place[node]
        off = csr_matrix((rate[state], (state, other)), (self.size, self.size))
        return csr_matrix(off - diags(np.asarray(rate, float)))

    def law(self, probability: np.ndarray) -> np.ndarray:
        """Chance of each number of nodes in each compartment."""
        return np.array([
            np.bincount((self.at == c).sum(axis=1), probability, self.world.nodes + 1)
            for c in range(len(self.world.compartments))
        ])  # fmt: skip
