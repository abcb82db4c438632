"""Splitting probabilities and dwell times: theory, paths and the master equation agree."""

import numpy as np
import pytest

import ergode
from ergode import Reaction, ReactionNetwork

QUEUE = ReactionNetwork(
    {"X": 5},
    [Reaction("0 -> X", rate_constant="birth"), Reaction("X -> 0", rate_constant=1.0)],
    parameters={"birth": 4.0},
)
ENDS = {"low": "X <= 1", "high": "X >= 9"}


def passages(network=QUEUE, ends=ENDS, **options):
    return ergode.stochastic.passages(network, ends=ends, **options)


def test_the_ruin_of_a_gambler():
    """P(win) = (1 - r^k) / (1 - r^n), r the odds (W. Feller, vol. 1, XIV.2); time by XIV.3."""
    game = ReactionNetwork(
        {"c": 3},
        [Reaction("0 -> c", rate="p"), Reaction("c -> 0", rate="1 - p")],
        parameters={"p": 0.4},
    )
    found = passages(game, {"ruin": "c == 0", "win": "c == 10"}, initial={"c": np.arange(11)})
    k, r = np.arange(11), 0.6 / 0.4
    win = (1 - r**k) / (1 - r**10)
    np.testing.assert_allclose(found["probability"].sel(end="win"), win, atol=1e-12)
    np.testing.assert_allclose(found["mean_time"], (k - 10 * win) / 0.2, atol=1e-11)
    assert found["truncation_error"].max() == 0 and found.attrs["states"] == 11


def test_paths_agree_with_the_master_equation():
    n = 4000
    sweep = {"initial": {"X": [3, 5]}, "parameters": {"birth": [4.0, 5.0]}}
    exact, paths = passages(**sweep), passages(**sweep, replicates=n, seed=2, device="cpu")
    p = exact["probability"].values
    assert (abs(paths["probability"].values - p) < 5.5 * np.sqrt(p * (1 - p) / n)).all()
    spread = np.sqrt(exact["time_variance"].values / n)
    assert (abs(paths["mean_time"].values - exact["mean_time"].values) < 5.5 * spread).all()
    ratio = paths["time_variance"].values / exact["time_variance"].values
    np.testing.assert_allclose(ratio, 1, atol=5.5 * np.sqrt(8 / n))
    for k, name in enumerate(ENDS):
        own = np.where(paths["end_reached"] == k, paths["passage_time"], np.nan)
        np.testing.assert_allclose(np.nanmean(own, axis=1), paths["mean_time_to"].sel(end=name))
        np.testing.assert_allclose(
            paths["mean_time_to"].sel(end=name), exact["mean_time_to"].sel(end=name), rtol=0.15
        )
    law = ergode.stochastic.probabilities(
        QUEUE, times=np.linspace(0, 60, 2001), stop="X <= 1 or X >= 9",
        initial={"X": 3}, parameters={"birth": 4.0},
    )  # fmt: skip
    times = law["time"].values
    mean = np.trapezoid(1 - law["stopped"].values, times)
    np.testing.assert_allclose(exact["mean_time"].values[0], mean, rtol=1e-3)


def test_states_without_a_limit_and_paths_that_never_arrive():
    found = passages(ends={"low": "X == 0"}, tolerance=1e-12)
    assert found["truncation_error"] <= 1e-12
    # E[T] from n to n - 1 is the sum of the stationary weights from n over n (Karlin, Taylor, 4.7).
    exact = sum(
        sum(4.0 ** (k - n) * np.prod(1.0 / np.arange(n, k + 1)) for k in range(n, 80))
        for n in range(1, 6)
    )
    np.testing.assert_allclose(found["mean_time"], exact, rtol=1e-9)
    decay = ReactionNetwork(
        {"A": 3, "B": 0, "C": 0},
        [Reaction("A -> B", rate_constant=1.0), Reaction("A -> C", rate_constant=3.0)],
    )
    found = passages(decay, {"two": "B == 2"})
    p = 1 - 0.75**3 - 3 * 0.25 * 0.75**2
    np.testing.assert_allclose(found["probability"], [p])
    assert np.isinf(found["mean_time"]) and 0 < found["mean_time_to"].item() < 1
    paths = passages(decay, {"two": "B == 2"}, replicates=2000, seed=1, device="cpu")
    assert abs(paths["probability"].item() - p) < 5.5 * np.sqrt(p * (1 - p) / 2000)
    assert np.isinf(paths["mean_time"])
    assert (paths["end_reached"].values == -1).sum() == np.isnan(paths["passage_time"]).sum() > 0
    at_once = passages(ends={"low": "X > 0"})
    assert at_once["probability"].item() == 1 and at_once["mean_time"].item() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ends": {}}, "ends is empty"),
        ({"ends": {"far": "Y > 3"}}, "uses 'Y'"),
        (
            {"ends": {"far": "X > 400"}, "max_states": 50, "parameters": {"birth": 900.0}},
            "a path leaves them",
        ),
        ({"ends": {"far": "X > 400"}}, "so rarely"),
        ({"tolerance": 0.9}, "tolerance is 0.9"),
        ({"max_states": 0}, "max_states"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises((ergode.ModelError, ergode.PlanError), match=message):
        passages(**options)
