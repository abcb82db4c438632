"""The referee of events, delays and breaks in space.

Random networks on a few voxels against an interpreter; one voxel against the well-mixed engine, bit
for bit; voxels without diffusion against independent realizations; and exact sums. Each comparison
of random numbers has the level 1e-9.
"""

import os
import time
from dataclasses import replace

import numpy as np
import pytest
import space_events as plain
import stochastic_cases as cases
import stochastic_compare as referee

import ergode
from ergode import Event, Reaction, ReactionDiffusion, ReactionNetwork
from ergode.stochastic.space import interruptions, kernel, runner, tables
from ergode.stochastic.space.interruptions import put_off
from ergode.stochastic.tables import PERSISTENT

RANDOM = [3, 8]


def simulate(space, times, **options):
    return ergode.stochastic.simulate_space(
        space, times=times, **{"device": "cpu", "seed": 1} | options
    )


def by_voxel(found):
    """Amounts [replicate, time, voxel, species]."""
    amounts = found["amount"].values
    return np.moveaxis(amounts.reshape(*amounts.shape[:3], -1), 2, 3)


def differences(case, found, sample):
    """What differs between the library's amounts and a sample of the interpreter's."""
    wrong = []
    names = list(case.local.initial)
    for k, at in enumerate(case.local.times):
        here, there = found[:, k], sample[:, k]
        # Of each voxel, and in all of them together.
        parts = [(v, here[:, v], there[:, v]) for v in range(here.shape[1])]
        for v, one, other in [*parts, ("all", here.sum(axis=1), there.sum(axis=1))]:
            for i, name in enumerate(names):
                counts = [np.bincount(x[:, i].astype(int)) for x in (one, other)]
                level = referee.g_test(*counts, True)
                if level < referee.LEVEL:
                    wrong.append(f"{name} in voxel {v} at {at}: p = {level:.1e}")
    return wrong


def examine(seed, replicates, realizations):
    """What is wrong with a random case."""
    rng = np.random.default_rng(seed)
    case = plain.random_case(rng)
    found = by_voxel(
        simulate(plain.model_of(case), case.local.times, replicates=replicates, seed=seed)
    )
    return case, differences(case, found, plain.interpret(case, realizations, rng))


@pytest.mark.parametrize("seed", RANDOM)
def test_random_networks_against_the_interpreter(seed):
    case, wrong = examine(seed, 10_000, 120)
    assert wrong == [], f"{case.text}\n" + "\n".join(wrong)


@pytest.mark.exhaustive
def test_random_networks_from_a_fresh_seed():
    """As many as there is time for: ERGODE_REFEREE_SECONDS, ten minutes if it is not set."""
    first = int(os.environ.get("ERGODE_REFEREE_SEED", np.random.SeedSequence().entropy % 2**40))
    ends = time.monotonic() + float(os.environ.get("ERGODE_REFEREE_SECONDS", 600))
    print(f"\nseeds from {first}")
    wrong, k = [], 0
    while time.monotonic() < ends:
        case, found = examine(first + k, 20_000, 1000)
        if found:
            wrong.append(f"{first + k}: {case.text}\n" + "\n".join(found[:12]))
            print(wrong[-1], flush=True)
        k += 1
    print(f"{k} cases")
    assert not wrong, "\n\n".join(wrong)


# ---- one voxel is the well-mixed engine

DRAWS = ReactionNetwork(
    {"A": 3, "B": 1},
    [
        Reaction("0 -> A", rate_constant="birth"),
        Reaction("A -> B", rate_constant=1.0, delay=0.3),
        Reaction("B -> 0", rate="B * 2 if time < 3 else B"),
    ],
    parameters={"birth": 5.0, "next": 0.5},
    events=[
        Event("time >= next", {"next": "next + 0.7", "A": "A + poisson(2)"}),
        Event("A > 8", {"A": "binomial(A, 0.5)", "birth": "0.9 * birth"}, delay=0.2,
              persistent=False),
        Event("B > 4", {"B": "B / 2"}, rounding="stochastic", initially_true=False, priority=2.0),
        Event("B > 4", {"A": "A + 2"}, delay="0.1 * B", values_from_trigger=False),
    ],
)  # fmt: skip


def networks():
    yield DRAWS, np.linspace(0, 6, 13)
    for seed in range(12):
        case = cases.history(np.random.default_rng(seed))
        if case.volume is None:
            yield cases.network_of(case, tables=False), case.times


def test_one_voxel_has_the_bits_of_the_well_mixed_engine():
    for network, times in networks():
        options = {"times": times, "replicates": 200, "seed": 5, "device": "cpu"}
        whole = ergode.stochastic.simulate(network, method="direct", **options)
        space = ReactionDiffusion(network, (1,), diffusion={network.species[0].name: 1.0})
        found = ergode.stochastic.simulate_space(space, **options)
        np.testing.assert_array_equal(found["amount"][..., 0], whole["amount"])
        np.testing.assert_array_equal(found["firing_count"], whole["firing_count"])
        np.testing.assert_array_equal(found["status"], whole["status"])


def test_voxels_without_diffusion_are_independent_realizations():
    times = [0, 1.3, 3.0]
    whole = ergode.stochastic.simulate(
        DRAWS, times=times, replicates=20_000, seed=6, method="direct", device="cpu"
    )["amount"].values
    found = by_voxel(simulate(ReactionDiffusion(DRAWS, (20,), diffusion={}), times, replicates=500))
    for k, i in np.ndindex(len(times), 2):
        counts = [np.bincount(one.ravel()) for one in (found[:, k, :, i], whole[:, k, i])]
        assert referee.g_test(*counts, True) > referee.LEVEL
    last = found[:, -1, :, 0]
    pairs = np.corrcoef(last[:, :-1].ravel(), last[:, 1:].ravel())[0, 1]
    assert abs(pairs) < referee.SIGMAS / np.sqrt(last[:, 1:].size)


# ---- what is known exactly


def test_a_time_sets_every_voxel_and_sums_are_conserved():
    """Molecules walk; at times they are counted, labelled and set, in every voxel."""
    walk = ReactionNetwork(
        {"A": 7, "B": 0, "C": 0}, [Reaction("A -> B", rate="k * A")], parameters={"k": 0.0},
        events=[
            Event("time >= 1", {"C": "A"}),  # at this time, and so in the result at this time
            Event("time > 2", {"A": "A + 10"}, priority=1.0),
            Event("time > 2", {"C": "A"}, values_from_trigger=False, priority=0.0),
            Event("time >= 2.5", {"k": "1"}, delay=0.5),
            Event("time >= 3.4", {"k": "0", "A": "3"}),
        ],
    )  # fmt: skip
    space = ReactionDiffusion(walk, (9, 10), diffusion={"A": 2.0}, periodic=(True, False))
    found = simulate(space, [0, 1, 2, 2.25, 2.9, 3.4, 5], replicates=4)["amount"]
    a, b, c = (found.sel(species=name) for name in "ABC")
    assert (a.isel(time=slice(0, 3)).sum(["x", "y"]) == 7 * 90).all()
    assert (c.sel(time=1) == a.sel(time=1)).all() and (c.sel(time=2) == a.sel(time=1)).all()
    assert (a.sel(time=1) != 7).any()
    assert (a.sel(time=[2.25, 2.9]).sum(["x", "y"]) == 17 * 90).all()
    assert (c.sel(time=2.25).sum(["x", "y"]) == 17 * 90).all()
    assert (b.sel(time=2.9) == 0).all() and (b.sel(time=3.4).sum(["x", "y"]) > 300).all()
    assert (a.sel(time=3.4) == 3).all()
    assert (a.sel(time=5).sum(["x", "y"]) == 270).all()
    assert (b.sel(time=5) == b.sel(time=3.4)).all()


def test_a_condition_is_of_one_voxel():
    """One molecule walks: every arrival makes the condition true where it arrives."""
    walk = ReactionNetwork(
        {"A": 0, "C": 0}, [Reaction("A -> A", rate_constant=0.0)],
        events=[Event("A >= 1", {"C": "C + 1"})],
    )  # fmt: skip
    start = np.zeros((30, 4), int)
    start[3, 2] = 1
    space = ReactionDiffusion(walk, (30, 4), diffusion={"A": 1.0}, initial={"A": start})
    found = simulate(space, [0, 50], replicates=20)
    arrivals = found["amount"].sel(species="C", time=50).sum(["x", "y"])
    assert (arrivals == found["firing_count"]).all()
    assert found["firing_count"].min() > 50


def test_delayed_products_are_made_in_their_voxel():
    """Molecules that cannot move are away for a while."""
    network = ReactionNetwork(
        {"A": 0, "B": 0}, [Reaction("A -> B", rate_constant=50.0, delay=2.0)],
        events=[Event("B >= 5", {"B": "B + 100"}, delay=1.0, values_from_trigger=False)],
    )  # fmt: skip
    start = np.arange(24).reshape(4, 6)
    space = ReactionDiffusion(network, (4, 6), diffusion={}, initial={"A": start})
    found = simulate(space, [0, 1.9, 2.9, 4])["amount"][0].values
    assert (found[1] == 0).all()
    assert (found[2, 1] == start).all()
    assert (found[3, 1] == start + 100 * (start >= 5)).all()


# ---- the referee sees a broken engine


CASE = plain.SpaceCase(
    cases.Case(
        "history", {"A": 3, "B": 2},
        [
            cases.ReactionCase({}, {"A": 1}, "stochastic", 6.0),
            cases.ReactionCase({"A": 1}, {"B": 1}, "deterministic", 0.8, 0.3),
            cases.ReactionCase({"B": 1}, {}, "stochastic", 0.8),
        ],
        [0.0, 0.7, 2.0],
        events=[
            cases.EventCase("A >= 6", {"A": "A - 4"}, delay=0.2, priority=1.0, persistent=False),
            cases.EventCase("time >= 0.5", {"B": "B + 3"}, priority=2.0),
        ],
    ),
    (3,), (1.0,), (True,), {"A": (1.0,)}, [{"A": 3, "B": 2}, {"A": 0, "B": 1}, {"A": 5, "B": 0}],
)  # fmt: skip


def mutated(change):
    def build(*arguments, plain=tables.build, **options):
        made = plain(*arguments, **options)
        return replace(made, interruptions=change(made.interruptions))

    return build


def examine_mutant(replicates=10_000, realizations=1000):
    found = by_voxel(simulate(plain.model_of(CASE), CASE.local.times, replicates=replicates))
    sample = plain.interpret(CASE, realizations, np.random.default_rng(2))
    return differences(CASE, found, sample)


def test_a_forgotten_persistence_is_noticed(monkeypatch):
    change = mutated(lambda one: one._replace(flags=one.flags | PERSISTENT))
    monkeypatch.setattr(tables, "build", change)
    assert examine_mutant(realizations=200)


@pytest.mark.exhaustive
def test_the_case_of_the_mutants_is_right():
    assert examine_mutant(50_000, 5000) == []


def _tests_no_conditions(w, t, point, net, interruptions, work, waiting):
    """Firings trigger no events."""
    return False


def _puts_off_elsewhere(j, v, w, t, point, net, interruptions, work, waiting):
    """All delayed products are made in the first voxel."""
    return put_off(j, 0, w, t, point, net, interruptions, work, waiting)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mutant", ["no conditions", "another voxel"])
def test_a_broken_kernel_is_noticed(mutant, monkeypatch, nothing_compiled):
    if mutant == "no conditions":
        monkeypatch.setattr(interruptions, "turned", _tests_no_conditions)
    else:
        monkeypatch.setattr(kernel, "put_off", _puts_off_elsewhere)
    runner.kernel_of.cache_clear()
    assert examine_mutant()
    runner.kernel_of.cache_clear()
