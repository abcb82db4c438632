"""The leap itself as a Markov chain: the exact distribution of a small network after some steps."""

from collections import defaultdict
from itertools import product

import numpy as np

from ergode.models.holding_times.families import Exponential


def leaving_probability(holding_time, age, length, transition):
    if transition == "left-end":
        return -np.expm1(-holding_time.hazard(age) * length)
    return 1 - holding_time.survival(age + length) / holding_time.survival(age)


def outcomes(model, compartment, age, pressures, length, transition):
    """Where a node in a compartment may be after a step, with what probability."""
    progression = {p.compartment: p for p in model.progressions}.get(compartment)
    leaving = (
        leaving_probability(progression.holding_time, age, length, transition) if progression else 0
    )
    pressing = sum(pressures.values()) * length
    moves = 1 - np.exp(-pressing) * (1 - leaving)
    found = defaultdict(float)
    found[compartment, False] = 1 - moves
    if moves > 0:
        share = pressing / (pressing - np.log1p(-leaving)) if pressing else 0.0
        for target, pressure in pressures.items():
            found[target, True] += moves * share * pressure * length / pressing if pressing else 0
        for target, probability in progression.branches.items() if progression else ():
            found[target, True] += moves * (1 - share) * probability
    return {key: value for key, value in found.items() if value > 0}


def distribution(model, contacts, start, lengths, transition):
    """Probability of every count of nodes by compartment after steps of the given lengths."""
    aged = {
        p.compartment for p in model.progressions if not isinstance(p.holding_time, Exponential)
    }
    weights = np.ones(contacts.arc_count) if contacts.weights is None else contacts.weights
    arcs = [
        (int(i), int(j), float(w))
        for i in range(contacts.node_count)
        for j, w in zip(
            contacts.targets[contacts.offsets[i] : contacts.offsets[i + 1]],
            weights[contacts.offsets[i] : contacts.offsets[i + 1]],
            strict=True,
        )
    ]
    states = {tuple((compartment, 0.0) for compartment in start): 1.0}
    for length in lengths:
        after = defaultdict(float)
        for state, probability in states.items():
            options = []
            for node, (compartment, age) in enumerate(state):
                pressures = defaultdict(float)
                for infection in model.infections:
                    if infection.susceptible == compartment:
                        for i, j, weight in arcs:
                            rate = infection.transmission_rate.get(state[i][0], 0.0)
                            if j == node and rate > 0:
                                pressures[infection.infected] += rate * weight
                found = outcomes(model, compartment, age, pressures, length, transition)
                options.append(
                    [
                        ((to, 0.0 if moved or to not in aged else round(age + length, 9)), value)
                        for (to, moved), value in found.items()
                    ]
                )
            for each in product(*options):
                chance = probability
                for _, value in each:
                    chance *= value
                after[tuple(state for state, _ in each)] += chance
        states = after
    joint = defaultdict(float)
    for state, probability in states.items():
        counts = tuple(
            sum(compartment == name for compartment, _ in state) for name in model.compartments
        )
        joint[counts] += probability
    return joint
