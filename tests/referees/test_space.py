"""The referee of `ergode.stochastic.simulate_space`: random models against the master equation.

Each comparison has the level 1e-9.
"""

from functools import reduce

import numpy as np
import pytest
import space_plain as plain
from fresh import fresh_seeds
from scipy import stats
from scipy.linalg import expm

import ergode
from ergode.models.reactions.reaction_diffusion import ReactionDiffusion
from ergode.stochastic.kernel.tree import CHILDREN, sum_above
from ergode.stochastic.space import kernel, tables

LEVEL = 1e-9
FEW = 25  # expected in a class of the chi-square test


def surprise(counts, expected):
    """Probability of a larger chi-square; classes with few expected realizations are joined."""
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    joined = int(np.searchsorted(np.cumsum(expected), FEW)) + 1
    counts = np.append(counts[:joined].sum(), counts[joined:])
    expected = np.append(expected[:joined].sum(), expected[joined:])
    while expected.size > 1 and expected[1] < FEW:
        counts = np.append(counts[0] + counts[1], counts[2:])
        expected = np.append(expected[0] + expected[1], expected[2:])
    if expected.size < 2:
        return 1.0
    chi = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(chi, expected.size - 1))


def examine(seed, replicates, **options):
    """What is wrong with a random case; None if it has too many states."""
    case = plain.random_case(seed)
    solved = plain.master_equation(case)
    if solved is None:
        return None
    number, exact = solved
    found = ergode.stochastic.simulate_space(
        plain.model_of(case), times=case.times, replicates=replicates, seed=seed, device="cpu",
        **options,
    )  # fmt: skip
    wrong = []
    amounts = found["amount"].values
    amounts = np.moveaxis(amounts.reshape(*amounts.shape[:3], -1), 2, 3)  # ..., voxel, species
    for k in range(len(case.times)):
        states, index = np.unique(
            amounts[:, k].reshape(replicates, -1), axis=0, return_inverse=True
        )
        counts = np.zeros(len(number))
        for state, count in zip(states, np.bincount(index.ravel()), strict=True):
            key = tuple(map(tuple, state.reshape(-1, len(plain.SPECIES)).tolist()))
            if key not in number:
                wrong.append(f"state {key} cannot be reached")
                continue
            counts[number[key]] = count
        p = surprise(counts, exact[k] * replicates)
        if p < LEVEL:
            wrong.append(f"time {case.times[k]}: p = {p:.1e}")
    return wrong


@pytest.mark.parametrize("seed", [1, 6])
def test_random_models_against_the_master_equation(seed):
    wrong = examine(seed, 20_000)
    assert wrong == [], f"{plain.random_case(seed)}\n" + "\n".join(wrong)


@pytest.mark.exhaustive
def test_random_models_from_a_fresh_seed():
    done, wrong = 0, []
    for seed in fresh_seeds():
        found = examine(seed, 50_000)
        done += found is not None
        if found:
            wrong.append(f"{seed}: {plain.random_case(seed)}\n" + "\n".join(found))
    print(f"{done} cases")
    assert not wrong, "\n\n".join(wrong)


# ---- pure diffusion: positions of molecules follow the discrete heat kernel


WALK = ergode.ReactionNetwork({"A": 0}, [ergode.Reaction("A -> A", rate_constant=0.0)])


def drop_of(shape, places, count):
    drop = np.zeros(shape)
    for place in places:
        drop[place] = count
    return drop


def surprise_of_spread(amounts, expected):
    """Probability that multinomial amounts [replicate, voxel] scatter so much, or so little.

    Pearson's sum for n molecules in k voxels has the mean k - 1 and, exactly, the variance
    2 (k - 1) + (sum of 1 / p - k^2 - 2 k + 2) / n.
    """
    n, k = amounts.sum(axis=1)[0], amounts.shape[1]
    p = expected.ravel() / expected.sum()
    pearson = ((amounts - n * p) ** 2 / (n * p)).sum(axis=1)
    variance = 2 * (k - 1) + ((1 / p).sum() - k**2 - 2 * k + 2) / n
    z = (pearson.mean() - (k - 1)) / np.sqrt(variance / len(amounts))
    return 2 * stats.norm.sf(abs(z))


def spread_wrong(
    shape, periodic, spacing, diffusion, places, *, replicates=40, count=2000, times=(0, 0.3, 2)
):
    """Smallest probability of a chi-square of the positions of all molecules, over times."""
    space = ergode.ReactionDiffusion(
        WALK, shape, diffusion={"A": diffusion}, spacing=spacing, periodic=periodic,
        initial={"A": drop_of(shape, places, count)},
    )  # fmt: skip
    found = ergode.stochastic.simulate_space(
        space, times=times, replicates=replicates, seed=3, device="cpu"
    )["amount"].values[:, :, 0]
    total = count * len(places)
    assert (found.reshape(replicates, len(times), -1).sum(axis=2) == total).all()
    worst = 1.0
    for k in range(1, len(times)):
        kernels = [
            plain.heat_kernel(length, d / h**2, around, times[k])
            for length, d, h, around in zip(shape, diffusion, spacing, periodic, strict=True)
        ]
        expected = np.zeros(shape)
        for place in places:
            parts = [kernel[i] for kernel, i in zip(kernels, place, strict=True)]
            expected += reduce(np.multiply.outer, parts)
        counts = found[:, k].sum(axis=0)
        expected *= count * replicates
        worst = min(worst, surprise(counts.ravel().astype(float), expected.ravel()))
        if len(places) == 1:
            worst = min(worst, surprise_of_spread(found[:, k].reshape(replicates, -1), expected))
    return worst


SPREADS = {
    "ring": ((9,), (True,), (0.8,), (1.0,), [(2,)]),
    "box": ((4, 3), (False, True), (1.0, 0.5), (0.6, 0.2), [(0, 1)]),
    "block": ((3, 2, 4), (True, True, False), (1.0, 1.2, 0.7), (0.5, 0.9, 0.3), [(0, 0, 0)]),
    "two drops": ((70, 3), (False, False), (1.0, 1.0), (1.0, 0.7), [(0, 0), (40, 2)]),
}


@pytest.mark.parametrize("name", SPREADS)
def test_molecules_follow_the_heat_kernel(name):
    assert spread_wrong(*SPREADS[name]) > LEVEL


# ---- reactions of first order: molecules are independent, so amounts are Poisson


def test_amounts_of_independent_molecules_are_poisson():
    """Sources somewhere, death everywhere: dm/dt = (jumps - death) m + source, variance = mean."""
    shape, spacing, death, time_ = (3, 4), (0.9, 0.7), 0.5, 1.7
    rng = np.random.default_rng(5)
    source = np.where(rng.random(shape) < 0.4, 40.0, 0.0)
    reactions = [
        ergode.Reaction("0 -> A", rate_constant="source"),
        ergode.Reaction("A -> B", rate_constant="death"),
        ergode.Reaction("B -> 0", rate_constant=1.0),
    ]
    network = ergode.ReactionNetwork(
        {"A": 0, "B": 0}, reactions, parameters={"source": 0.0, "death": 1.0, "D": 9.0}
    )
    space = ReactionDiffusion(
        network, shape, diffusion={"A": (0.3, "D"), "B": 0.1}, spacing=spacing,
        periodic=(True, False), parameters={"source": source},
    )  # fmt: skip
    replicates = 4000
    found = ergode.stochastic.simulate_space(
        space, times=[0, time_], replicates=replicates, seed=4, device="cpu", output="statistics",
        parameters={"death": death, "D": 0.2},
    ).isel(time=-1)  # fmt: skip
    matrices = []
    for each in ((0.3, 0.2), (0.1, 0.1)):
        parts = [
            plain.jump_matrix(length, d / h**2, around)
            for length, d, h, around in zip(shape, each, spacing, (True, False), strict=True)
        ]
        eyes = [np.eye(length) for length in shape]
        matrices.append(np.kron(parts[0], eyes[1]) + np.kron(eyes[0], parts[1]))
    voxels = source.size
    whole = np.zeros((2 * voxels + 1,) * 2)
    whole[:voxels, :voxels] = matrices[0] - death * np.eye(voxels)
    whole[voxels : 2 * voxels, voxels : 2 * voxels] = matrices[1] - np.eye(voxels)
    whole[voxels : 2 * voxels, :voxels] = death * np.eye(voxels)
    whole[:voxels, -1] = source.ravel() * np.prod(spacing)
    mean = expm(whole * time_)[:-1, -1].reshape(2, *shape)
    z = (found["mean"].values - mean) / np.sqrt(mean / replicates)
    assert np.abs(z).max() < 6.5
    # The variance of a sample variance of Poisson numbers is (m + 2 m^2) / n.
    z = (found["variance"].values - mean) / np.sqrt((mean + 2 * mean**2) / replicates)
    assert np.abs(z).max() < 7


def test_fast_diffusion_is_well_mixed():
    """Dimerisation with jumps a thousand times faster: the master equation of one volume."""
    reactions = [
        ergode.Reaction("2 A -> B", rate_constant=0.2),
        ergode.Reaction("B -> 2 A", rate_constant=0.1),
    ]
    shape, spacing, replicates = (2, 3), (1.0, 0.5), 1500
    whole = ergode.ReactionNetwork(
        [ergode.Species("A", 24, "volume"), ergode.Species("B", 0, "volume")], reactions,
        compartments={"volume": 3.0},
    )  # fmt: skip
    exact = ergode.stochastic.probabilities(whole, times=[0, 1.0])["probability"][-1].sel(
        species="B"
    )
    space = ReactionDiffusion(
        ergode.ReactionNetwork({"A": 4, "B": 0}, reactions), shape, spacing=spacing,
        diffusion={"A": 20.0, "B": 20.0},
    )  # fmt: skip
    found = ergode.stochastic.simulate_space(
        space, times=[0, 1.0], replicates=replicates, seed=2, device="cpu", output="final"
    )["amount"].sel(species="B").sum(["x", "y"]).values  # fmt: skip
    counts = np.bincount(found, minlength=exact.size).astype(float)
    assert surprise(counts, exact.values * replicates) > LEVEL


# ---- the referee sees a broken engine


def _forgets_the_second(u, v, w, levels, tree):
    """The nodes above the voxel that a molecule enters are not summed anew."""
    for level in range(1, levels.size - 1):
        v //= CHILDREN
        sum_above(v, level, w, levels, tree)


def _rates_off(self, coefficients, known, plain=ReactionDiffusion.jump_rates):
    return [1.02 * rate for rate in plain(self, coefficients, known)]


def _open_end(model, plain=tables._faces):
    """The first voxel of a ring does not know its neighbour around."""
    faces, around, steps = plain(model)
    return faces & ~(around & 1), around, steps


@pytest.mark.parametrize("mutant", ["a rate 2 % off", "a boundary"])
def test_a_broken_space_is_noticed(mutant, monkeypatch):
    if mutant == "a rate 2 % off":
        monkeypatch.setattr(ReactionDiffusion, "jump_rates", _rates_off)
    else:
        monkeypatch.setattr(tables, "_faces", _open_end)
    assert spread_wrong(*SPREADS["ring"], count=25_000, times=(0, 0.3)) < LEVEL


@pytest.mark.exhaustive
def test_a_dropped_update_of_the_tree_is_noticed(monkeypatch, nothing_compiled):
    monkeypatch.setattr(kernel, "replant", _forgets_the_second)
    assert spread_wrong(*SPREADS["two drops"]) < LEVEL
