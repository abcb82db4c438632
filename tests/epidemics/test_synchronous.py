"""Contagion in synchronous steps: against recursions, and against plain loops."""

import numpy as np
import pytest
from scipy.stats import binom, chi2

import ergode
from ergode.epidemics import synchronous

ALPHA = 1e-6


def complete(count):
    return ergode.ContactNetwork.stochastic_block_model([count], probabilities=[[1.0]], seed=1)


def law_of(count, begun, p, steps, recurrent=False):
    """Probability of (S, I) after each step, by the binomial recursion."""
    law = np.zeros((steps + 1, count + 1, count + 1))
    law[0, count - begun, begun] = 1.0
    for t in range(steps):
        for s, i in zip(*np.nonzero(law[t]), strict=True):
            new = binom.pmf(np.arange(s + 1), s, 1 - (1 - p) ** i)
            for k, chance in enumerate(new):
                left = s - k + (i if recurrent else 0)
                law[t + 1, left, k] += law[t, s, i] * chance
    return law


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_chain_of_reed_and_frost(recurrent):
    count, begun, p, steps, runs = 7, 2, 0.2, 4, 20_000
    found = synchronous(
        complete(count), initial=begun, steps=steps, probability=p, recurrent=recurrent,
        replicates=runs, seed=5, device="cpu",
    )["count"]  # fmt: skip
    assert (found.sum("state") == count).all()
    law = law_of(count, begun, p, steps, recurrent)
    for t in range(steps + 1):
        here = found.isel(step=t)
        seen = np.zeros_like(law[t])
        np.add.at(seen, (here.sel(state="S").values, here.sel(state="I").values), 1)
        expected = law[t] * runs
        assert not seen[expected == 0].any()
        often = expected >= 10
        cells = (
            np.append(seen[often], seen[~often].sum()),
            np.append(expected[often], expected[~often].sum()),
        )
        kept = cells[1] > 0
        statistic = ((cells[0] - cells[1])[kept] ** 2 / cells[1][kept]).sum()
        assert kept.sum() == 1 or chi2.sf(statistic, kept.sum() - 1) > ALPHA


def test_weights_and_directions():
    """0 -> 1 with certainty, 1 -> 2 never, 2 -> 0 not against the arrow; infectious for 2 steps."""
    network = ergode.ContactNetwork.from_edges(
        [0, 1, 2], [1, 2, 0], weights=[2.0, 0.0, 2.0], directed=True
    )
    found = synchronous(
        network, initial=[0], steps=4, probability=0.5, infectious_steps=2, device="cpu"
    )["count"].values[0]
    assert found.tolist() == [[2, 1, 0], [1, 2, 0], [1, 1, 1], [1, 0, 2], [1, 0, 2]]
    for ever in (1, 3):
        final = synchronous(
            complete(30), initial=1, steps=60, probability=0.02, infectious_steps=None,
            replicates=ever, device="cpu",
        )["count"]  # fmt: skip
        assert (final.isel(step=-1).sel(state="I") == 30).all()


def plain(network, begun, level, steps):
    """Thresholds by a loop."""
    active = np.zeros(network.node_count, bool)
    active[begun] = True
    found = [int(active.sum())]
    for _ in range(steps):
        now = active.copy()
        for node in range(network.node_count):
            row = network.targets[network.offsets[node] : network.offsets[node + 1]]
            share = active[row].mean() if row.size else 0.0
            now[node] |= share > 0 and share >= level[node]
        active = now
        found.append(int(active.sum()))
    return found


def test_thresholds():
    rng = np.random.default_rng(2)
    level = rng.choice([0.0, 0.2, 0.25, 0.5, 1.0], 200)
    network = ergode.ContactNetwork.erdos_renyi(200, mean_degree=6, seed=3)
    network = network.with_attributes(level=level)
    begun = rng.choice(200, 5, replace=False)
    for given, each in (("level", level), (0.25, np.full(200, 0.25))):
        found = synchronous(network, initial=begun, steps=12, threshold=given, device="cpu")
        active = found["count"].sel(state="I").values[0].tolist()
        assert active == plain(network, begun, each, 12)
        assert active[-1] > 5


def test_linear_thresholds():
    """A leaf of a star has one neighbour and is always activated; the centre with the share."""
    count, begun, runs = 11, 4, 20_000
    star = ergode.ContactNetwork.from_edges(np.zeros(10, int), np.arange(1, count))
    found = synchronous(
        star, initial=np.arange(1, begun + 1), steps=2, threshold="uniform", replicates=runs,
        seed=3, device="cpu",
    )["count"].sel(state="I")  # fmt: skip
    centre = float((found.isel(step=1) == begun + 1).mean())
    assert abs(centre - 0.4) < 5 * np.sqrt(0.24 / runs)
    assert set(np.unique(found.isel(step=2)).tolist()) == {begun, count}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a threshold and an opinion"),
        (
            {"probability": 0.1, "threshold": 0.1},
            "a threshold and an opinion",
        ),
        ({"probability": 1.1}, "between 0 and 1"),
        ({"threshold": -1}, "between 0 and 1"),
        ({"threshold": "levels"}, "no node attribute"),
        ({"threshold": 0.1, "recurrent": True}, "stay active"),
        ({"probability": 0.1, "recurrent": True, "infectious_steps": None}, "for some steps"),
        ({"probability": 0.1, "initial": [99]}, "number of nodes, or their positions"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        synchronous(complete(5), **{"initial": 1, "steps": 3} | given)
    heavy = ergode.ContactNetwork.from_edges([0], [1], weights=[3.0])
    with pytest.raises(ergode.ModelError, match="expected at most 1"):
        synchronous(heavy, initial=1, steps=1, probability=0.5)


@pytest.mark.cuda
def test_cuda_has_the_same_steps():
    network = ergode.ContactNetwork.barabasi_albert(5_000, m=4, seed=1)
    for given in (
        {"probability": 0.1, "infectious_steps": 3},
        {"probability": 0.1, "recurrent": True},
        {"threshold": "uniform"},
    ):
        one, other = (
            synchronous(network, initial=10, steps=20, replicates=7, device=device, **given)
            for device in ("cpu", "cuda")
        )
        np.testing.assert_array_equal(one["count"], other["count"])


def test_a_share_that_is_the_threshold_is_enough():
    """Seven of a hundred are 0.07, although 0.07 times a hundred is more than seven."""
    star = ergode.ContactNetwork.from_edges(np.zeros(100, int), np.arange(1, 101))
    found = synchronous(star, initial=np.arange(1, 8), steps=1, threshold=0.07, device="cpu")
    assert found["count"].sel(state="I").values.tolist() == [[7, 8]]
    assert found.attrs["version"] == ergode.__version__ and found.attrs["network_digest"]


def opinions_of(count, begun, asked, noise, steps):
    """Probability of the number of nodes of one opinion after each step, in a complete network."""
    law = np.zeros((steps + 1, count + 1))
    law[0, begun] = 1.0
    numbers = np.arange(count + 1)
    for t in range(steps):
        for i in np.flatnonzero(law[t]):
            share = np.array([i, i - 1]).clip(0, count - 1) / (count - 1)
            mixed = 1 - share**asked - (1 - share) ** asked
            stays = (1 - noise) * (share**asked + mixed * [0, 1]) + noise / 2
            ones, zeros = binom.pmf(numbers, i, stays[1]), binom.pmf(numbers, count - i, stays[0])
            law[t + 1] += law[t, i] * np.convolve(ones, zeros)[: count + 1]
    return law


@pytest.mark.parametrize(("asked", "noise"), [(1, 0.0), (3, 0.2)])
def test_voters_against_their_law(asked, noise):
    count, begun, steps, runs = 7, 3, 4, 20_000
    found = synchronous(
        complete(count), initial=begun, steps=steps, opinion="voter", asked=asked, noise=noise,
        replicates=runs, seed=5, device="cpu",
    )["count"].sel(state="I")  # fmt: skip
    law = opinions_of(count, begun, asked, noise, steps)
    for t in range(1, steps + 1):
        seen = np.bincount(found.isel(step=t), minlength=count + 1)
        assert law[t].sum() == pytest.approx(1)
        kept = law[t] > 1e-4
        statistic = ((seen - runs * law[t])[kept] ** 2 / (runs * law[t])[kept]).sum()
        assert chi2.sf(statistic, kept.sum() - 1) > ALPHA


def test_majorities_by_a_loop():
    """Weighted neighbours; ties, and nodes without neighbours, keep their opinion."""
    rng = np.random.default_rng(4)
    network = ergode.ContactNetwork.erdos_renyi(60, mean_degree=3, seed=2)
    begun = np.flatnonzero(rng.random(60) < 0.5)
    active, shares = np.isin(np.arange(60), begun), [begun.size]
    for _ in range(6):
        now = active.copy()
        for node in range(60):
            row = network.targets[network.offsets[node] : network.offsets[node + 1]]
            if 2 * active[row].sum() != row.size:
                now[node] = 2 * active[row].sum() > row.size
        active = now
        shares.append(int(active.sum()))
    found = synchronous(network, initial=begun, steps=6, opinion="majority", device="cpu")
    assert found["count"].sel(state="I").values[0].tolist() == shares


@pytest.mark.parametrize(
    "given",
    [{"opinion": "vote"}, {"opinion": "majority", "asked": 2}, {"opinion": "voter", "noise": 2.0},
     {"probability": 0.1, "noise": 0.1}, {"opinion": "voter", "recurrent": True}],
)  # fmt: skip
def test_opinions_that_cannot_be(given):
    with pytest.raises(ergode.ModelError):
        synchronous(complete(3), initial=1, steps=1, **given)
