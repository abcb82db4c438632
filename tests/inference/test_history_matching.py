"""history_matching where the region that is left is known."""

import functools

import numpy as np
import pytest

import ergode
from ergode import ModelError, PlanError

SLOPES, TARGET = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0.4, 1.1, 2.3])
WIDE = {"a": (-4, 4), "b": (-4, 4)}


def of(function, names="ab"):
    return ergode.simulator(
        lambda parameters, seed: function(
            np.stack([parameters[name] for name in names], axis=1), np.random.default_rng(seed)
        ), list(names), lambda found: found,
    )  # fmt: skip


def line(theta, random, noise=0.0):
    return theta @ SLOPES.T + noise * random.standard_normal((len(theta), 3))


def test_of_a_linear_model_the_region_is_that_of_three_deviations():
    """Its emulator is exact: points and shares are those of a grid."""
    found = ergode.history_matching(of(line), WIDE, TARGET, [0.04] * 3, draws=4_000, seed=1)
    draws = np.stack([found[name].values[0] for name in "ab"], axis=1)
    assert np.abs(draws @ SLOPES.T - TARGET).max() <= 3 * 0.2 * (1 + 1e-9)
    axis = (np.arange(800) + 0.5) / 100 - 4
    every = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    left = every[np.abs(every @ SLOPES.T - TARGET).max(axis=1) <= 0.6]
    # A share from levels of ten per cent of 4,000 points: 5 sigma is a fourth.
    assert found["space"].values[-1] == pytest.approx(len(left) / len(every), rel=0.25)
    np.testing.assert_allclose(draws.mean(axis=0), left.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), np.cov(left.T), rtol=0.15, atol=0.003)


def test_regions_that_are_apart_are_both_found():
    square = of(lambda theta, random: theta**2, "a")
    found = ergode.history_matching(square, {"a": (-3, 4)}, [1.0], [0.01], draws=4_000)
    a = found["a"].values[0]
    assert (np.abs(a) >= np.sqrt(0.7) - 1e-6).all() and (np.abs(a) <= np.sqrt(1.3) + 1e-6).all()
    assert (a > 0).mean() == pytest.approx(0.5, abs=0.06)
    known = 2 * (np.sqrt(1.3) - np.sqrt(0.7)) / 7
    assert found["space"].values[-1] == pytest.approx(known, rel=0.2)


def test_the_truth_stays_and_waves_shrink_what_is_left():
    """Of a curved model, with random simulations: ten truths, of which one may be lost."""

    def curved(theta, random):
        a, b = theta.T
        return line(np.stack([np.exp(a / 2), a * b / 3 + b], axis=1), random, 0.1)

    kept, shares = 0, []
    truths = np.random.default_rng(5).uniform(-2, 2, (10, 2))
    data = of(curved)(truths, seed=9) + 0.1 * np.random.default_rng(6).standard_normal((10, 3))
    for seed, (truth, seen) in enumerate(zip(truths, data, strict=True)):
        found = ergode.history_matching(
            of(curved), {"a": (-2, 2), "b": (-2, 2)}, seen, [0.01] * 3, draws=300, seed=seed
        )
        ends = [np.quantile(found[name], [0, 1]) for name in "ab"]
        kept += all(
            low - 0.05 <= one <= high + 0.05 for one, (low, high) in zip(truth, ends, strict=True)
        )
        shares.append(found["space"].values[-1])
        assert (np.diff(found["space"]) <= 0).all() and found["implausibility"].max() <= 3
    assert kept >= 9 and np.median(shares) < 0.15


def test_counts_of_a_reaction_network():
    """Deaths: the known mean and variance, to first order, give the region."""
    network = ergode.ReactionNetwork(
        {"X": 400}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    )
    found = {}
    for device in ("cpu:1", "cpu:2"):
        call = functools.partial(ergode.stochastic.simulate, network, times=[0, 1], device=device)
        simulate = ergode.simulator(call, ["k"], lambda one: one["amount"].isel(time=1))
        found[device] = ergode.history_matching(
            simulate, {"k": (0.1, 3)}, [150], [0.0], runs=300, seed=2
        )
    k = found["cpu:1"]["k"].values
    p = np.linspace(0, 1, 100_001)[1:]
    inside = -np.log(p[np.abs(400 * p - 150) <= 3 * np.sqrt(400 * p * (1 - p))])
    assert k.min() == pytest.approx(inside.min(), abs=0.06)
    assert k.max() == pytest.approx(inside.max(), abs=0.06)


def test_an_emulator_of_scikit_learn():
    """A wave of sines, of which a quadratic sees nothing: three parts of the prior are left."""
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    from sklearn.gaussian_process import GaussianProcessRegressor

    sine = of(lambda theta, random: np.sin(3 * theta), "a")
    with pytest.warns(ergode.AccuracyWarning, match="the first wave left"):
        ergode.history_matching(sine, {"a": (-2, 2)}, [0.5], [1e-3])
    kernel = kernels.ConstantKernel() * kernels.RBF(0.2)
    found = ergode.history_matching(
        sine, {"a": (-2, 2)}, [0.5], [1e-3], draws=500,
        emulator=GaussianProcessRegressor(kernel, normalize_y=True),
    )  # fmt: skip
    a = found["a"].values
    assert (np.abs(np.sin(3 * a) - 0.5) < 3.1 * np.sqrt(1e-3)).all()
    known = (np.abs(np.sin(3 * np.linspace(-2, 2, 100_001)) - 0.5) < 3 * np.sqrt(1e-3)).mean()
    assert found["space"].values[-1] == pytest.approx(known, rel=0.3)
    assert len(np.unique(np.round(np.arcsin(0.5) / 3 - a, 0))) >= 3


@pytest.mark.cuda
def test_on_a_gpu():
    network = ergode.ReactionNetwork(
        {"X": 400}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
    )
    found = []
    for device in ("cpu", "cuda"):
        call = functools.partial(
            ergode.stochastic.simulate, network, times=[0, 1], device=device,
            keep_on_device=device == "cuda",
        )  # fmt: skip
        simulate = ergode.simulator(call, ["k"], "amount")
        found.append(
            ergode.history_matching(simulate, {"k": (0.1, 3)}, [400, 150], [0.0, 0.0], runs=300)
        )
    np.testing.assert_array_equal(found[0]["k"], found[1]["k"])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"variance": [1.0]}, ModelError, "expected 3 numbers"),
        ({"variance": [1.0, 1.0, -1.0]}, ModelError, "none negative"),
        ({"observed": [1.0, 2.0], "variance": [1, 1]}, PlanError, "makes 3 summaries"),
        ({"runs": 5}, PlanError, "runs is 5"),
        ({"prior": {"a": (0, 1)}}, ModelError, "no distribution of 'b'"),
        ({"observed": [0.0, 5.0, 0.0]}, PlanError, "no parameters are left after wave 1"),
    ],
)
def test_what_is_refused(change, error, message):
    given = {"prior": WIDE, "observed": TARGET, "variance": [0.01] * 3} | change
    with pytest.raises(error, match=message):
        ergode.history_matching(of(line), **given)


def test_what_the_model_cannot_make_is_refused_at_once():
    """All points that are left are alike: no level lies below theirs."""
    simulate = ergode.simulator(
        lambda parameters: parameters["a"][:, None] ** 2, ["a"], lambda r: r
    )
    with pytest.raises(PlanError, match="the least implausibility is 90"):
        ergode.history_matching(simulate, {"a": (-4, 4)}, [-9.0], [0.01])
