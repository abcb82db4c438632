"""Rare events by splitting, against sums over states, closed forms and the master equation."""

import numpy as np
import pytest
from scipy.stats import poisson

import ergode
from ergode import Reaction, ReactionNetwork
from ergode.stochastic import probabilities, rare_event, simulate

ERRORS = 5.2  # standard errors: with 100 repetitions, one test in a million is further away


def births(inflow=10.0, decay=1.0, start=10, jump=1):
    return ReactionNetwork(
        {"X": start},
        [
            Reaction(f"0 -> {jump} X", rate_constant="inflow"),
            Reaction("X -> 0", rate_constant=decay),
        ],
        parameters={"inflow": inflow},
    )


def passage_law(inflow, decay, start, target, times):
    """Probability that a chain of births and deaths reaches the target: a sum without signs."""
    x = np.arange(target)
    birth, death = np.full(target, inflow), decay * x
    fastest = 1.01 * (birth + death).max()
    p = (x == start).astype(float)
    found = np.zeros(len(times))
    for k in range(1, int(1.5 * fastest * max(times)) + 500):
        found += p[-1] * birth[-1] / fastest * poisson.sf(k - 1, fastest * np.array(times))
        q = p * (1 - (birth + death) / fastest)
        q[1:] += p[:-1] * birth[:-1] / fastest
        q[:-1] += p[1:] * death[1:] / fastest
        p = q
    return found


def assert_is(found, exact):
    off = abs(found["probability"].item() - exact) / found["standard_error"].item()
    assert off < ERRORS, f"{found['probability'].item()} for {exact}"
    assert found["standard_error"] < 0.2 * exact


def test_many_molecules_within_a_time():
    """A probability of 1e-11, and of the thresholds on the way; and when paths arrive."""
    found = rare_event(
        births(), level="X", target=40, times=[3, 7], paths=100, repetitions=100, device="cpu"
    )
    assert_is(found, passage_law(10.0, 1.0, 10, 40, [4.0])[0])
    for threshold, value, error in zip(
        found["threshold"].values, found["reached_probability"].values,
        found["reached_error"].values, strict=True,
    ):  # fmt: skip
        exact = passage_law(10.0, 1.0, 10, int(np.ceil(threshold)), [4.0])[0]
        assert abs(value - exact) < ERRORS * error
    assert found["probability"] == found["reached_probability"][-1]
    assert (found["amount"].values[~np.isnan(found["passage_time"].values)] == 40).all()
    # Half of the time: paths weigh as much as the estimates of their repetitions.
    early = (found["passage_time"] < 5.0).mean("path")
    share = early / found["passage_time"].notnull().mean("path") * found["estimate"]
    error = share.std("repetition", ddof=1).item() / 10
    assert abs(share.mean().item() - passage_law(10.0, 1.0, 10, 40, [2.0])[0]) < ERRORS * error


@pytest.mark.parametrize("thresholds", [None, [14.5, 18, 21, 25.0]])
def test_before_another_state(thresholds):
    """The probability to reach 28 before 4: a ratio of sums of products."""
    found = rare_event(
        births(), level="2 * X - 7", target=49, avoid="X <= 4", paths=100, repetitions=100, seed=3,
        thresholds=None if thresholds is None else 2 * np.array(thresholds) - 7, device="cpu",
    )  # fmt: skip
    weights = np.cumprod([1.0, *(np.arange(5, 28) / 10.0)])  # death over birth, from 5 on
    assert_is(found, weights[:6].sum() / weights.sum())


NETWORKS = {
    "jumps over thresholds": (births(4.0, 1.0, 10, 3), "X", 45, None),
    "a level that falls": (births(15.0, 1.0, 15), "-X", -2, None),
    "two species": (
        ReactionNetwork(
            {"A": 10, "B": 5},
            [
                Reaction("0 -> A", rate_constant=10.0), Reaction("A -> B", rate_constant=1.0),
                Reaction("B -> 0", rate_constant=2.0), Reaction("2 B -> A", rate_constant=0.05),
            ],
        ),
        "B + 0.5 * A", 24, "A < 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_the_master_equation(name):
    network, level, target, avoid = NETWORKS[name]
    found = rare_event(
        network, level=level, target=target, avoid=avoid, times=[0, 3], paths=160,
        repetitions=100, seed=5, device="cpu",
    )  # fmt: skip
    stop = f"{level} >= {target}"
    common = dict(times=[0, 3], tolerance=1e-12)
    if avoid is not None:  # of what ends at once or the other, the target alone
        both = probabilities(network, stop=f"{stop} or {avoid}", **common)
        amounts = both["state_amount"].values @ np.array([0.5, 1.0])
        exact = both["joint_probability"].values[-1][amounts >= target].sum()
    else:
        exact = probabilities(network, stop=stop, **common)["stopped"].values[-1]
    assert 1e-9 < exact < 1e-2
    assert_is(found, exact)


def test_concentrations_and_parameters():
    """A species given by its concentration starts again with its amount."""
    network = ReactionNetwork(
        [ergode.Species("X", initial=5.0, compartment="cell", quantity="concentration")],
        [Reaction("0 -> X", rate_constant=5.0), Reaction("X -> 0", rate_constant="mu")],
        compartments={"cell": 2.0}, parameters={"mu": 3.0},
    )  # fmt: skip
    found = rare_event(
        network, level="X", target=14.0, times=[0, 6], paths=100, repetitions=100,
        parameters={"mu": 1.0}, initial={"X": 4.0}, device="cpu",
    )  # fmt: skip
    assert_is(found, passage_law(10.0, 1.0, 8, 28, [6.0])[0])


def test_errors_are_those_of_many_calls_and_no_estimate_is_biased():
    exact = passage_law(10.0, 1.0, 10, 28, [3.0])[0]
    calls = [
        rare_event(
            births(), level="X", target=28, thresholds=[15, 19, 24], times=[0, 3], paths=80,
            repetitions=50, seed=seed, device="cpu",
        )
        for seed in range(30)
    ]  # fmt: skip
    values = np.array([one["probability"].item() for one in calls])
    errors = np.array([one["standard_error"].item() for one in calls])
    assert abs(values.mean() - exact) < ERRORS * values.std(ddof=1) / np.sqrt(30)
    assert 0.5 < values.std(ddof=1) / np.sqrt((errors**2).mean()) < 1.6


def test_the_same_seed_is_the_same_result_and_another_is_not():
    def estimate(seed, **how):
        return rare_event(
            births(), level="X", target=24, times=[0, 2], paths=50, repetitions=4, seed=seed,
            device="cpu", **how,
        )["estimate"].values  # fmt: skip

    np.testing.assert_array_equal(estimate(1), estimate(1))
    assert (estimate(1) != estimate(2)).any()
    assert (estimate(1) != estimate(1, method="next-reaction")).any()


def test_what_is_not_reached_is_told():
    with pytest.warns(ergode.AccuracyWarning, match="3 of 3 repetitions reached nothing"):
        found = rare_event(
            births(),
            level="X",
            target=80,
            thresholds=[40],
            times=[0, 1],
            paths=10,
            repetitions=3,
            device="cpu",
        )
    assert found["probability"] == 0 and found["passage_time"].isnull().all()
    assert found["amount"].isnull().all()


def test_the_state_and_the_time_of_a_first_passage():
    """The final state of realizations that stop, with the times of `first-passage`."""
    common = dict(times=[0, 3], replicates=50, stop="X >= 15", device="cpu")
    final = simulate(births(), output="final", **common)
    times = simulate(births(), output="first-passage", **common)["passage_time"]
    np.testing.assert_array_equal(final["passage_time"], times)
    assert 0 < times.isnull().sum() < 50
    assert ((final["amount"].values[:, 0] == 15) == times.notnull().values).all()
    without = simulate(births(), times=[0, 3], output="final", device="cpu")
    assert "passage_time" not in without


REFUSED = {
    "neither times nor avoid": {"times": None},
    "level, 'X', is 10 in the initial state": {"target": 10},
    "avoid, 'X < 11', holds in the initial state": {"avoid": "X < 11"},
    "thresholds are [12.0, 11.0]": {"thresholds": [12, 11]},
    "times has 3 times": {"times": [0, 1, 2]},
    "tau-leap": {"method": "tau-leap"},
    "level, 'Z', uses 'Z'": {"level": "Z"},
    "level, 'X + time', depends on time": {"level": "X + time"},
    "parameters has inflow = [1, 2]": {"parameters": {"inflow": [1, 2]}},
    "repetitions is 1": {"repetitions": 1},
    "no path of": {"parameters": {"inflow": 0.0}, "paths": 20},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    given = {"level": "X", "target": 20, "times": [0, 1], "device": "cpu", **REFUSED[words]}
    with pytest.raises((ergode.ModelError, ergode.PlanError)) as caught:
        rare_event(births(), **given)
    assert words in str(caught.value)


def test_networks_that_amounts_do_not_describe_are_refused():
    late = ReactionNetwork({"X": 1}, [Reaction("X -> 2 X", rate_constant=1.0, delay=1.0)])
    timed = ReactionNetwork({"X": 1}, [Reaction("0 -> X", rate="1 if time < 2 else 3")])
    for network, words in ((late, "delay"), (timed, "depends on time")):
        with pytest.raises(ergode.PlanError, match=words):
            rare_event(network, level="X", target=9, times=[0, 1], device="cpu")


@pytest.mark.cuda
def test_a_device_has_the_estimates_of_a_cpu():
    one, other = (
        rare_event(births(), level="X", target=30, times=[0, 5], seed=2, device=device)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(one["estimate"], other["estimate"])
    np.testing.assert_array_equal(one["threshold"], other["threshold"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(40))
def test_random_networks_against_the_master_equation(seed):
    rng = np.random.default_rng(seed)
    network = ReactionNetwork(
        {"A": int(rng.integers(1, 12)), "B": int(rng.integers(0, 6))},
        [
            Reaction("0 -> A", rate_constant=rng.uniform(2, 8)),
            Reaction("A -> 0", rate_constant=rng.uniform(0.5, 2)),
            Reaction("A -> B", rate_constant=rng.uniform(0.1, 2)),
            Reaction("B -> 0", rate_constant=rng.uniform(0.5, 2)),
            Reaction("2 B -> 2 B + A", rate_constant=rng.uniform(0.0, 0.1)),
            Reaction("0 -> 2 B", rate=f"{rng.uniform(0, 1)} * A / (5 + A)"),
        ],
    )
    end, target = rng.uniform(0.5, 5), int(rng.integers(18, 32))
    exact = probabilities(
        network, times=[0, end], stop=f"A + B >= {target}", tolerance=1e-12, max_states=10**5
    )["stopped"].values[-1]
    found = rare_event(
        network,
        level="A + B",
        target=target,
        times=[0, end],
        paths=200,
        repetitions=100,
        seed=seed,
        device="cpu",
    )
    if exact > 1e-9:
        assert abs(found["probability"].item() - exact) < 5.5 * found["standard_error"].item()
