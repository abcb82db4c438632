"""The networks that `stochastic.py` measures: three families of Komarov and D'Souza (2012)."""

from __future__ import annotations

import numpy as np

from ergode import Event, Reaction, ReactionNetwork, ReactionTable, Species


def table(species, reactants, products, reaction_count):
    """Mass action with unit constants; `reactants` and `products` are (reaction, species)."""
    sides = []
    for rows, members in (reactants, products):
        rows, members = np.asarray(rows), np.asarray(members)
        key, counts = np.unique(rows * len(species) + members, return_counts=True)
        lengths = np.bincount(key // len(species), minlength=reaction_count)
        sides += [np.concatenate([[0], np.cumsum(lengths)]), key % len(species), counts]
    law = Reaction("0 -> A", stochastic_rate_constant=1.0).law
    laws = np.full(reaction_count, law)
    return ReactionTable(tuple(species), *sides, laws, np.ones(reaction_count))


def colloidal_aggregation(size):
    """S_n + S_m -> S_(n+m) and back: half the square of `size` reactions, strongly coupled."""
    joins = [(n, m) for n in range(1, size // 2 + 1) for m in range(n, size - n + 1)]
    splits = [(p, q) for p in range(2, size + 1) for q in range(1, p // 2 + 1)]
    species = [f"S{n}" for n in range(1, size + 1)]
    k, j = len(joins), len(splits)
    joins, splits = np.array(joins) - 1, np.array(splits) - 1
    first, last = np.arange(k), np.arange(k, k + j)
    reactants = (
        np.concatenate([first, first, last]),
        np.concatenate([joins[:, 0], joins[:, 1], splits[:, 0]]),
    )
    products = (
        np.concatenate([first, last, last]),
        np.concatenate([joins.sum(axis=1) + 1, splits[:, 1], splits[:, 0] - splits[:, 1] - 1]),
    )
    return ReactionNetwork(
        dict.fromkeys(species, 1.0), table(species, reactants, products, k + j), name="colloidal"
    )


def cyclic_chain(size):
    """S_i -> S_(i+1): weakly coupled."""
    species = [f"S{i}" for i in range(size)]
    each = np.arange(size)
    reactions = table(species, (each, each), (each, (each + 1) % size), size)
    return ReactionNetwork(dict.fromkeys(species, 1.0), reactions, name="cyclic")


def random_network(size, seed=1):
    """A -> B for every species A, and as many A + B -> C + D at random: 8 to 16 affected."""
    rng = np.random.default_rng(seed)
    species = [f"S{i}" for i in range(size)]
    half = np.arange(size)
    pairs = np.concatenate([half, half]) + size
    a = np.arange(size)  # none is without a way on, so that there is always something to fire
    b = (a + rng.integers(1, size, size=size)) % size
    pair, made = (
        np.array([rng.choice(size, 2, replace=False) for _ in range(size)]) for _ in range(2)
    )
    reactants = (np.concatenate([half, pairs]), np.concatenate([a, *pair.T]))
    products = (np.concatenate([half, pairs]), np.concatenate([b, *made.T]))
    return ReactionNetwork(
        dict.fromkeys(species, 1.0), table(species, reactants, products, 2 * size), name="random"
    )


def growing_cell():
    """Dimers in a cell that grows, and divides at twice its size."""
    names = ("A", "D", "B")
    halves = {name: f"binomial({name}, 0.5)" for name in names}
    return ReactionNetwork(
        [Species(name, 0, compartment="cell") for name in names],
        [
            Reaction("0 -> A", rate_constant=100.0),
            Reaction("2 A -> D", rate_constant=0.005),
            Reaction("D -> 2 A", rate_constant=0.5),
            Reaction("D -> D + B", rate_constant=1.0),
            Reaction("B -> 0", rate_constant=1.0),
        ],
        compartments={"cell": 1.0},
        rate_rules={"cell": "0.3 * cell"},
        events=[Event("cell >= 2", {"cell": "cell / 2", **halves})],
        name="growing cell",
    )


def birth_death():
    """Immigration and death: a thousand molecules on the average."""
    return ReactionNetwork(
        {"X": 0},
        [
            Reaction("0 -> X", stochastic_rate_constant="alpha"),
            Reaction("X -> 0", stochastic_rate_constant="mu"),
        ],
        parameters={"alpha": 1000.0, "mu": 1.0},
        name="birth-death",
    )


def vilar():
    """The circadian oscillator of Vilar, Kueh, Barkai, Leibler, PNAS 99 (2002)."""
    reactions = {
        "A + DA -> DA2": 1.0, "DA2 -> DA + A": 50.0, "A + DR -> DR2": 1.0, "DR2 -> DR + A": 100.0,
        "DA -> DA + MA": 50.0, "DA2 -> DA2 + MA": 500.0, "DR -> DR + MR": 0.01,
        "DR2 -> DR2 + MR": 50.0, "MA -> 0": 10.0, "MR -> 0": 0.5, "MA -> MA + A": 50.0,
        "MR -> MR + R": 5.0, "A + R -> C": 2.0, "C -> R": 1.0, "A -> 0": 1.0, "R -> 0": 0.2,
    }  # fmt: skip
    species = dict.fromkeys(["DA", "DR", "DA2", "DR2", "MA", "MR", "A", "R", "C"], 0)
    return ReactionNetwork(
        {**species, "DA": 1, "DR": 1},
        [Reaction(text, stochastic_rate_constant=c) for text, c in reactions.items()],
        name="Vilar",
    )
