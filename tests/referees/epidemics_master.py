"""The master equation of a memoryless `World`: every state of all nodes, and what leads where.

Built from the description, for the whole graph at once, and solved by the action of the matrix
exponential between the moments at which a rate changes.
"""

from __future__ import annotations

import numpy as np
from epidemics_laws import calendar_at
from epidemics_world import World, imports
from scipy.sparse import bmat, coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import expm_multiply


def solve(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Chances of each count, [time, compartment, group, nodes + 1], and cases [time, group]."""
    system = _System(world)
    probability, cases = system.begin()
    times = world.times
    laws, expected = [], []
    stops = sorted(set(times) | set(system.changes))
    groups = world.groups.size
    now = float(times[0])
    for stop in stops:
        if stop > now:
            # One more state for each group: its expected number of cases so far.
            generator, flow = system.generator(0.5 * (now + stop))
            whole = _squared(generator, flow)
            after = expm_multiply(whole * (stop - now), np.append(probability, cases))
            probability, cases, now = after[:-groups], after[-groups:], float(stop)
        for plan in world.importations:
            for _ in range(list(plan.get("times", ())).count(stop)):
                jump, gain = system.importation(plan["compartment"], 1.0)
                cases = cases + gain @ probability
                probability = probability + jump.T @ probability
        if stop in times:
            laws.append(system.law(probability))
            expected.append(cases)
    return np.array(laws), np.array(expected)


def _squared(generator: csr_matrix, flow: np.ndarray) -> csr_matrix:
    groups = len(flow)
    below = coo_matrix(flow)
    return csr_matrix(
        bmat([[generator.T, None], [below, coo_matrix((groups, groups))]], format="csr")
    )


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
        changes = set()
        for given in world.factors.values():
            cycles = np.arange(begin // given[2], end // given[2] + 1) if len(given) > 2 else [0]
            period = given[2] if len(given) > 2 else 0.0
            changes |= {t + period * cycle for t in given[0] for cycle in cycles}
        for one in world.measures:
            changes |= {one["start"], one["start"] + one["duration"]}
        for plan in world.importations:
            changes |= set(plan.get("times", ())) | {plan.get("start"), plan.get("stop")}
        self.changes = {float(t) for t in changes - {None} if begin <= t <= end}

    def begin(self) -> tuple[np.ndarray, np.ndarray]:
        """Where everybody is at first; drawn nodes are any of those not named."""
        world = self.world
        base = self.index[world.infections[0][0]]
        start = np.full(world.nodes, base)
        cases = np.zeros(world.groups.size)
        drawn = []
        for name, value in world.initial.items():
            if isinstance(value, int):
                drawn += [name] * value
            else:
                start[value] = self.index[name]
                cases += [(name in world.ill) * world.is_in(g)[value].sum() for g in world.groups]
        probability = np.zeros(self.size)
        named = {i for v in world.initial.values() if not isinstance(v, int) for i in v}
        free = [i for i in range(world.nodes) if i not in named]
        if drawn:  # one at most
            weight = np.ones(world.nodes) if world.seed_weight is None else world.seed_weight
            for node in free:
                other = start.copy()
                other[node] = self.index[drawn[0]]
                chance = weight[node] / weight[free].sum()
                probability[other @ self.place] += chance
                inside = np.array([world.is_in(g)[node] for g in world.groups])
                cases += chance * (drawn[0] in world.ill) * inside
        else:
            probability[start @ self.place] = 1.0
        return probability, cases

    def generator(self, time: float) -> tuple[csr_matrix, np.ndarray]:
        """Rates from state to state, and of new cases of a group out of each [group, state]."""
        world, moment = self.world, np.array([time])
        parts = []
        flow = np.zeros((world.groups.size, self.size))
        for node in range(world.nodes):
            for name in world.progressions:
                branches, law = world.progression(name, node)
                for to, share in branches.items():
                    here = self.at[:, node] == self.index[name]
                    parts.append(self._moves(node, here * share / law[1], self.index[to]))
        into, out = world.factor("susceptibility"), world.factor("infectivity")
        for source, target, weight, layer in world.arcs:
            rate = weight
            if into is not None:
                rate *= into[target]
            if out is not None:
                rate *= out[source]
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
                flow += self._of_group(target, wanted)
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
        flow = np.zeros((world.groups.size, self.size))
        total = csr_matrix((self.size, self.size))
        for node in range(world.nodes):
            left = rate / world.nodes
            into = world.factor("susceptibility")
            if into is not None:
                left *= into[node]
            for j, (s, _, _) in enumerate(world.infections):
                wanted = left * chance[j] * (self.at[:, node] == self.index[s])
                total = total + self._moves(node, wanted, int(to[j]))
                flow += self._of_group(node, wanted)
        return total, flow

    def _of_group(self, node: int, rate: np.ndarray) -> np.ndarray:
        """A rate of cases of one node, in the row of its group."""
        return np.array([rate * self.world.is_in(group)[node] for group in self.world.groups])

    def _moves(self, node: int, rate: np.ndarray, to: int) -> csr_matrix:
        state = np.flatnonzero(rate)
        other = state + (to - self.at[state, node]) * self.place[node]
        off = csr_matrix((rate[state], (state, other)), (self.size, self.size))
        return csr_matrix(off - diags(np.asarray(rate, float)))

    def law(self, probability: np.ndarray) -> np.ndarray:
        """Chance of each number of nodes in each compartment, of each group."""
        world = self.world
        return np.array([
            [
                np.bincount((self.at == c)[:, world.is_in(group)].sum(axis=1), probability,
                            world.nodes + 1)
                for group in world.groups
            ]
            for c in range(len(world.compartments))
        ])  # fmt: skip
