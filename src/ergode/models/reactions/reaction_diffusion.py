"""Reaction-diffusion: a network in every voxel of a grid, and jumps between neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ergode.core.arguments import check_switch
from ergode.core.errors import ModelError
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Law, ReactionTable
from ergode.models.reactions.species import Species


def on_grid(
    network: ReactionNetwork,
    shape: Sequence[int],
    *,
    diffusion: Mapping[str, float],
    spacing: float = 1.0,
    periodic: bool = False,
) -> ReactionNetwork:
    """The network of a reaction-diffusion master equation.

    Every voxel has all species and reactions; a molecule jumps to each neighbour at the rate
    D / spacing^2. Deterministic rate constants are scaled by the volume of a voxel.

    Parameters
    ----------
    network : ReactionNetwork
        Mass action with numbers as constants, without compartments, rules and events.
    shape : sequence of int
        Voxels along each axis.
    diffusion : mapping of str to float
        Diffusion coefficient D by name of the species [length^2 / time]; others do not diffuse.
    spacing : float
        Edge of a voxel [length].
    periodic : bool
        Whether the last voxel of an axis is a neighbour of its first.

    Returns
    -------
    ReactionNetwork
        With species such as ``"A[3,4]"``, voxel after voxel. Every voxel has the initial amounts of
        the network.

    Raises
    ------
    ModelError
        The network is not supported, or a name or a number is invalid.

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork({"A": 9}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    >>> len(ergode.on_grid(decay, (10, 10), diffusion={"A": 0.5}).reactions)
    460
    """
    check_switch("on_grid", "periodic", periodic)
    table, counts = network.reactions, tuple(int(n) for n in shape)
    if not counts or min(counts) < 1 or not spacing > 0:
        raise ModelError(f"shape is {shape!r} and spacing {spacing!r}; expected positive numbers")
    if network.compartments or network.rules or network.events or table.delays:
        raise ModelError("a network in space cannot have compartments, rules, events or delays")
    if network.rate_rules or network.continuous:
        raise ModelError("a network in space cannot have rate rules or continuous species")
    if table.formulas or (table.laws == Law.RATE).any():
        raise ModelError("a network in space needs mass action with numbers as constants")
    for name, value in diffusion.items():
        if name not in network.index:
            raise ModelError(f"diffusion has '{name}', which is not a species of the network")
        if not 0 <= value < np.inf:
            raise ModelError(f"diffusion of '{name}' is {value!r}; expected 0 or more")
    voxels, kinds = prod(counts), len(network.species)
    places = list(np.ndindex(*counts))
    species = tuple(
        Species(
            f"{kind.name}[{','.join(map(str, place))}]", kind.initial,
            boundary=kind.boundary, constant=kind.constant,
        )
        for place in places
        for kind in network.species
    )  # fmt: skip
    source, target = _neighbours(counts, periodic)
    moving = [(network.index[name], value) for name, value in diffusion.items() if value > 0]
    sides = {}
    for side, ends in (("reactant", source), ("product", target)):
        lengths = np.tile(np.diff(getattr(table, f"{side}_starts")), voxels)
        members = getattr(table, f"{side}_species")
        offsets = np.repeat(np.arange(voxels) * kinds, members.size)
        jumps = [ends * kinds + kind for kind, _ in moving]
        jump_count = len(moving) * source.size
        sides[f"{side}_starts"] = np.concatenate(
            [[0], np.cumsum(np.concatenate([lengths, np.ones(jump_count, np.int64)]))]
        )
        sides[f"{side}_species"] = np.concatenate([np.tile(members, voxels) + offsets, *jumps])
        sides[f"{side}_counts"] = np.concatenate(
            [np.tile(getattr(table, f"{side}_counts"), voxels), np.ones(jump_count)]
        )
    rates = [np.full(source.size, value / spacing**2) for _, value in moving]
    values = np.concatenate(
        [np.tile(_stochastic_constants(table, spacing ** len(counts)), voxels), *rates]
    )
    names = tuple(member.name for member in species)
    laws = np.full(values.size, Law.STOCHASTIC)
    takes, makes = (
        tuple(sides[f"{side}_{part}"] for part in ("starts", "species", "counts"))
        for side in ("reactant", "product")
    )
    reactions = ReactionTable(
        names, takes[0], takes[1], takes[2], makes[0], makes[1], makes[2], laws, values
    )
    return ReactionNetwork(species, reactions, name=network.name)


def _stochastic_constants(table: ReactionTable, volume: float) -> np.ndarray:
    """Gillespie's constants of reactions of mass action in a volume."""
    orders = table.reactant_counts
    if (orders != np.rint(orders)).any():
        raise ModelError("a stoichiometry is not a whole number")
    rows = np.repeat(np.arange(len(table)), np.diff(table.reactant_starts))
    total = np.bincount(rows, weights=orders, minlength=len(table))
    ways = np.ones(len(table))
    factorials = np.array([prod(range(1, k + 1)) for k in range(21)], float)
    np.multiply.at(ways, rows, factorials[orders.astype(int)])
    deterministic = table.values * ways * volume ** (1.0 - total)
    return np.where(table.laws == Law.DETERMINISTIC, deterministic, table.values)


def _neighbours(shape: tuple[int, ...], periodic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of voxels that touch, each in both directions."""
    number = np.arange(prod(shape)).reshape(shape)
    sources, targets = [], []
    for axis, length in enumerate(shape):
        here = np.moveaxis(number, axis, 0)
        pairs = [(here[:-1], here[1:])]
        if periodic and length > 2:
            pairs.append((here[-1:], here[:1]))
        for a, b in pairs:
            sources += [a.ravel(), b.ravel()]
            targets += [b.ravel(), a.ravel()]
    return np.concatenate(sources), np.concatenate(targets)
