"""Random reaction-diffusion models, and their master equation written from the description.

Nothing here uses the library but `model_of`, which makes its model. States are listed by following
every transition from the initial state; the generator acts on all of them.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import expm_multiply

import ergode

SPECIES = ("A", "B")
MOST_STATES = 2500


@dataclass
class Rule:
    """A reaction: what it takes and makes in a voxel, and its law."""

    takes: dict
    makes: dict
    law: str  # "deterministic", "stochastic" or "hill"
    constant: object  # a number, or the name of a parameter

    def rate(self, n, volume, parameters):
        k = parameters.get(self.constant, self.constant)
        if self.law == "hill":
            return k * volume * n["A"] ** 2 / (4.0 + n["A"] ** 2 + n["B"])
        ways = 1.0
        for name, count in self.takes.items():
            for below in range(count):
                ways *= max(n[name] - below, 0)
            if self.law == "stochastic":
                ways /= math.factorial(count)
        order = sum(self.takes.values())
        return k * ways * (volume ** (1 - order) if self.law == "deterministic" else 1.0)


@dataclass
class Case:
    shape: tuple
    spacing: tuple
    periodic: tuple
    diffusion: dict  # species to a coefficient for each axis
    rules: list
    field: np.ndarray  # values of the parameter "k" in every voxel
    initial: dict  # species to amounts in every voxel
    times: list

    @property
    def volume(self):
        return math.prod(self.spacing)


def random_case(seed):
    """Molecules that turn into each other, bind and vanish: finitely many states."""
    rng = np.random.default_rng(seed)
    shapes = [(2,), (3,), (5,), (2, 2), (1, 3), (2, 3), (2, 1, 2), (1, 2, 3), (4, 1)]
    shape = shapes[rng.integers(len(shapes))]
    axes = len(shape)
    known = [
        Rule({"A": 1}, {"B": 1}, "deterministic", "k"),
        Rule({"B": 1}, {"A": 1}, "stochastic", 0.7),
        Rule({"A": 2}, {"B": 1}, "deterministic", float(rng.uniform(0.2, 1))),
        Rule({"A": 1, "B": 1}, {"B": 2}, "deterministic", "k"),
        Rule({"A": 2, "B": 1}, {"B": 1}, "stochastic", 0.9),
        Rule({"B": 1}, {}, "stochastic", 0.3),
        Rule({"A": 1}, {"B": 1}, "hill", float(rng.uniform(0.5, 2))),
    ]
    rules = [known[k] for k in rng.choice(len(known), size=rng.integers(2, 5), replace=False)]
    initial = {}
    for name in SPECIES:
        amounts = np.zeros(shape, int)
        for _ in range(rng.integers(1, 4)):
            amounts.flat[rng.integers(amounts.size)] += 1
        initial[name] = amounts
    return Case(
        shape, tuple(rng.uniform(0.6, 1.5, axes)), tuple(rng.integers(2, size=axes) > 0),
        {name: tuple(rng.uniform(0, 1, axes)) for name in SPECIES if rng.random() < 0.8},
        rules, rng.uniform(0.2, 1.5, shape), initial, [0.0, 0.4, 1.1],
    )  # fmt: skip


def model_of(case):
    """The case in the library's words."""
    reactions = []
    for rule in case.rules:
        word = {
            "deterministic": "rate_constant", "stochastic": "stochastic_rate_constant",
            "hill": "rate",
        }[rule.law]  # fmt: skip
        value = rule.constant
        if rule.law == "hill":
            value = f"{value} * cell * A^2 / (4 + A^2 + B)"
        reactions.append(ergode.Reaction(rule.takes, rule.makes, **{word: value}))
    network = ergode.ReactionNetwork(
        [ergode.Species(name, 0, "cell") for name in SPECIES], reactions,
        parameters={"k": 1.0}, compartments={"cell": 7.0},
    )  # fmt: skip
    return ergode.ReactionDiffusion(
        network, case.shape, diffusion=case.diffusion, spacing=case.spacing,
        periodic=case.periodic, initial=case.initial, parameters={"k": case.field},
    )  # fmt: skip


def neighbours(case, place):
    """Pairs of a neighbour, and the axis behind which it is."""
    for axis, length in enumerate(case.shape):
        for step in (-1, 1):
            other = list(place)
            other[axis] += step
            if not 0 <= other[axis] < length:
                if not case.periodic[axis] or length == 1:
                    continue
                other[axis] %= length
            yield tuple(other), axis


def transitions(case, state):
    """Pairs of a state that follows and its rate; a state is the amounts, voxel by voxel."""
    places = list(np.ndindex(*case.shape))
    number = {place: v for v, place in enumerate(places)}
    for v, place in enumerate(places):
        n = dict(zip(SPECIES, state[v], strict=True))
        for rule in case.rules:
            rate = rule.rate(n, case.volume, {"k": case.field[place]})
            if rate > 0:
                after = {s: n[s] - rule.takes.get(s, 0) + rule.makes.get(s, 0) for s in SPECIES}
                yield (*state[:v], tuple(after[s] for s in SPECIES), *state[v + 1 :]), rate
        for name, each in case.diffusion.items():
            if n[name] == 0:
                continue
            for other, axis in neighbours(case, place):
                moved = [dict(zip(SPECIES, one, strict=True)) for one in state]
                moved[v][name] -= 1
                moved[number[other]][name] += 1
                rate = each[axis] / case.spacing[axis] ** 2 * n[name]
                yield tuple(tuple(one[s] for s in SPECIES) for one in moved), rate


def start_of(case):
    return tuple(
        tuple(int(case.initial[s][place]) for s in SPECIES) for place in np.ndindex(*case.shape)
    )


def master_equation(case):
    """States, and their probabilities at every time; None if there are too many states."""
    start = start_of(case)
    number, order, entries = {start: 0}, [start], []
    for state in order:
        for after, rate in transitions(case, state):
            if after not in number:
                number[after] = len(order)
                order.append(after)
                if len(order) > MOST_STATES:
                    return None
            entries.append((number[after], number[state], rate))
    rows, columns, rates = np.array(entries).reshape(-1, 3).T  # none, where nothing can happen
    shape = (len(order), len(order))
    generator = scipy.sparse.coo_array((rates, (rows, columns)), shape=shape).tocsc()
    generator = generator - scipy.sparse.diags_array(np.asarray(generator.sum(axis=0)).ravel())
    first = np.zeros(len(order))
    first[0] = 1.0
    return number, np.array([expm_multiply(generator * t, first) for t in case.times])


def jump_matrix(length, rate, periodic):
    """Rates [from, to] of a molecule that jumps at `rate` through each face."""
    matrix = np.zeros((length, length))
    for i in range(length):
        for j in (i - 1, i + 1):
            if periodic and length > 1:
                j %= length
            if 0 <= j < length:
                matrix[i, j] += rate
                matrix[i, i] -= rate
    return matrix


def heat_kernel(length, rate, periodic, time):
    """Probability [from, to] that the molecule is there after some time."""
    values, vectors = np.linalg.eigh(jump_matrix(length, rate, periodic))
    return vectors @ np.diag(np.exp(values * time)) @ vectors.T
