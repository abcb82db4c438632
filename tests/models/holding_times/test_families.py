"""Holding-time distributions: parameters, methods, messages, and the law of their draws."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from ergode.core.errors import ModelError, PlanError
from ergode.models.holding_times.families import (
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    HoldingTime,
    LogNormal,
    Weibull,
)

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))
WITH_SCIPY = [
    (Exponential(mean=4), scipy.stats.expon(scale=4)),
    (Exponential(rate=0.2), scipy.stats.expon(scale=5)),
    (LogNormal(mu=0.3, sigma=0.8), scipy.stats.lognorm(0.8, scale=math.exp(0.3))),
    (Weibull(shape=1.7, scale=3), scipy.stats.weibull_min(1.7, scale=3)),
    (Weibull(shape=0.6, scale=3), scipy.stats.weibull_min(0.6, scale=3)),
    (Gamma(shape=2.5, scale=2), scipy.stats.gamma(2.5, scale=2)),
    (Gamma(shape=0.3, rate=2), scipy.stats.gamma(0.3, scale=0.5)),
    (Erlang(stages=3, mean=6), scipy.stats.gamma(3, scale=2)),
    (Empirical([1, 4], [0, 1]), scipy.stats.uniform(1, 3)),
]
OTHERS = [
    Deterministic(3),
    LogNormal(mean=5, median=4),
    LogNormal(mean=7.5, median=5),
    Weibull(mean=6, sd=2),
    Gamma(mean=6, sd=4),
    Gamma(shape=30, scale=0.2),
    Empirical([1, 3, 3, 5, 7], [0, 0.25, 0.5, 0.5, 1]),
    Empirical.from_samples([3, 3, 1, 2, 5, 5, 5, 8, 13]),
]
ALL = [distribution for distribution, _ in WITH_SCIPY] + OTHERS


@pytest.mark.parametrize(("ours", "theirs"), WITH_SCIPY, ids=lambda v: str(v)[:40])
def test_methods_are_those_of_scipy(ours, theirs):
    t = np.concatenate([[-2.0, -1e-9], np.linspace(1e-3, 30.0, 400)])
    assert np.allclose(ours.pdf(t), theirs.pdf(t), rtol=1e-11, atol=1e-300)
    assert np.allclose(ours.survival(t), theirs.sf(t), rtol=1e-11, atol=1e-300)
    seen = theirs.sf(t) > 0
    assert np.allclose(ours.hazard(t)[seen], theirs.pdf(t)[seen] / theirs.sf(t)[seen], rtol=1e-11)
    p = np.linspace(0, 1, 101)
    assert np.allclose(ours.quantile(p), theirs.ppf(p), rtol=1e-11)
    assert ours.mean == pytest.approx(theirs.mean(), rel=1e-12)
    assert ours.variance == pytest.approx(theirs.var(), rel=1e-12)
    assert ours.median == pytest.approx(theirs.median(), rel=1e-12)


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_moments_are_those_of_the_quantiles(distribution):
    # The midpoint rule in p, with the ends refined: what is left out weighs less than 1e-5.
    edges = np.concatenate([np.geomspace(1e-12, 1e-3, 20_000), np.linspace(1e-3, 0.5, 100_000)[1:]])
    edges = np.concatenate([[0.0], edges, 1.0 - edges[-2::-1], [1.0]])
    middle, weight = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    t = distribution.quantile(middle)
    assert distribution.mean == pytest.approx(weight @ t, rel=1e-4)
    spread = weight @ (t - distribution.mean) ** 2
    assert distribution.variance == pytest.approx(spread, rel=2e-3, abs=1e-20)


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_quantile_and_survival_are_inverse(distribution):
    p = np.linspace(0.01, 0.99, 99)
    t = distribution.quantile(p)
    before = np.nextafter(t * (1 - 1e-9), 0)
    assert (1 - distribution.survival(t * (1 + 1e-9)) >= p - 1e-12).all()
    assert (1 - distribution.survival(before) <= p + 1e-12).all()


def test_natural_parameters():
    assert LogNormal(mean=5, median=4).mean == pytest.approx(5)
    assert LogNormal(mean=5, median=4).median == pytest.approx(4)
    assert LogNormal(mean=5, sd=2).variance == pytest.approx(4)
    assert LogNormal(mean=5, sd=2).mean == pytest.approx(5)
    assert Gamma(mean=6, sd=3).variance == pytest.approx(9)
    assert Erlang(stages=4, rate=2).mean == 2
    assert Erlang(stages=4, mean=2).rate == 2
    for ratio in (0.001, 0.01, 0.0407, 0.0408, 0.3, 1, 5, 100, 1000):
        weibull = Weibull(mean=2, sd=2 * ratio)
        assert weibull.mean == pytest.approx(2, rel=1e-10)
        assert weibull.variance == pytest.approx((2 * ratio) ** 2, rel=1e-9)


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_far_tail_hazards_are_finite_and_smooth(distribution):
    if isinstance(distribution, Deterministic | Empirical):
        assert distribution.hazard(1e6) == np.inf
        return
    t = distribution.median * np.geomspace(1, 1e6, 4001)
    hazard = distribution.hazard(t)
    assert np.isfinite(hazard).all()
    assert (hazard > 0).all()
    # Neighbours differ by less than a power law of the distribution's steepness allows.
    assert np.abs(np.diff(np.log(hazard))).max() < 0.01 * max(1, distribution.code().a)


def test_scalars_stay_scalars_and_nan_stays_nan():
    assert isinstance(Gamma(mean=6, sd=3).pdf(2.0), float)
    for distribution in ALL:
        assert distribution.pdf([[1.0, 2.0]]).shape == (1, 2)
        assert np.isnan(distribution.survival(np.nan))
        assert np.isnan(distribution.hazard([np.nan])).all()
        assert distribution.survival(-1.0) == 1.0
        assert distribution.pdf(-1.0) == distribution.hazard(-1.0) == 0.0
        assert distribution.survival(np.inf) == distribution.pdf(np.inf) == 0.0


def test_equality_hash_and_plain_data():
    assert Exponential(rate=0.25) == Exponential(mean=4)
    assert hash(Weibull(shape=2, scale=3)) == hash(Weibull(shape=2, scale=3))
    assert Gamma(shape=3, scale=2) != Erlang(stages=3, mean=6)  # said differently, kept apart
    assert Empirical([1, 2], [0, 1]) == Empirical((1.0, 2.0), (0, 1))
    assert Empirical([1, 2], [0, 1]) != Empirical([1, 3], [0, 1])
    assert Empirical([1, 2], [0, 1]) != "a string"
    assert len({repr(d) for d in ALL}) == len(set(ALL)) == len(ALL)
    assert LogNormal(mu=0, sigma=1).to_dict() == {
        "distribution": "log-normal",
        "mu": 0.0,
        "sigma": 1.0,
    }
    assert Empirical([1, 2], [0, 1]).to_dict()["times"] == [1.0, 2.0]
    assert Erlang(stages=3, mean=6).to_dict() == Gamma(shape=3, scale=2).to_dict()
    assert all(isinstance(d.code().kind, int) for d in ALL)


def test_they_are_frozen():
    for distribution, name in ((Exponential(mean=1), "rate"), (Empirical([1, 2], [0, 1]), "cdf")):
        with pytest.raises(AttributeError):
            setattr(distribution, name, 3)
    with pytest.raises(ValueError, match="read-only"):
        Empirical([1, 2], [0, 1]).times[0] = 5
    with pytest.raises(TypeError):
        HoldingTime()


def test_empirical_from_samples_has_their_quantiles():
    rng = np.random.default_rng(1)
    p = np.linspace(0, 1, 201)
    for samples in (rng.gamma(2, size=50), rng.integers(1, 9, 300), [4.0], [2, 2, 2]):
        table = Empirical.from_samples(samples)
        assert np.allclose(table.quantile(p), np.quantile(samples, p), rtol=1e-9)
    assert Empirical.from_samples(rng.integers(1, 9, 300)).times.size <= 16


# The Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant holds for every n and every
# distribution: P(sqrt(n) D > c) <= 2 exp(-2 c^2). With m tests and a family-wise error of 1e-6,
# 2 m exp(-2 c^2) = 1e-6.
DRAW_COUNT = 1_000_000
BOUND = math.sqrt(0.5 * math.log(2 * (4 * len(ALL)) / 1e-6) / DRAW_COUNT)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_draws_follow_the_distribution(distribution, precision, device):
    times = distribution.sample(DRAW_COUNT, seed=2026, device=device, precision=precision)
    assert times.dtype == precision
    t, counts = np.unique(times.astype(float), return_counts=True)
    reached = np.cumsum(counts) / DRAW_COUNT
    before = reached - counts / DRAW_COUNT
    assert np.abs(1 - distribution.survival(t) - reached).max() < BOUND
    assert np.abs(1 - distribution.survival(np.nextafter(t, -1)) - before).max() < BOUND


@pytest.mark.parametrize("device", DEVICES)
def test_float32_draws_reach_the_far_tail(device):
    """24 bits would stop an exponential at 16.6 means; 32 bits reach past 20."""
    count = 40_000_000
    times = Exponential(mean=1).sample(count, seed=5, device=device, precision="float32")
    # The number beyond 15 is Poisson with mean 12.2; 60 or more has probability 1e-20.
    beyond = int((times > 15).sum())
    assert 0 < beyond < 60
    assert np.unique(times[times > 13]).size > 0.9 * (times > 13).sum()


def test_samples_are_keyed():
    distribution = LogNormal(mean=5, median=4)
    long = distribution.sample(1000, seed=3)
    assert np.array_equal(long[:10], distribution.sample(10, seed=3))
    assert np.array_equal(long, distribution.sample(1000, seed=3, device="cpu:2"))
    assert not np.array_equal(long, distribution.sample(1000, seed=4))
    assert distribution.sample(0).size == 0
    assert np.allclose(long, distribution.sample(1000, seed=3, precision="float32"), rtol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_samples_are_the_same_on_both_devices(distribution, precision):
    on_cpu = distribution.sample(200_000, seed=1, precision=precision)
    on_cuda = distribution.sample(200_000, seed=1, precision=precision, device="cuda")
    assert np.array_equal(on_cpu, on_cuda)


MESSAGES = [
    (lambda: Exponential(), r"was given no parameters; expected Exponential\(rate=\) or Exp"),
    (lambda: Exponential(rate=1, mean=1), r"was given rate, mean; expected"),
    (lambda: Exponential(rate=0), r"rate is 0\.0; expected a finite number above zero"),
    (lambda: Exponential(mean=-1), r"mean is -1\.0; expected a finite number above zero"),
    (lambda: Exponential(mean=math.nan), r"mean is nan"),
    (lambda: Exponential(mean=math.inf), r"mean is inf"),
    (lambda: Exponential(mean=5e-324), r"derived rate is inf"),
    (lambda: Exponential(rate="fast"), r"rate is 'fast'; expected a number"),
    (lambda: LogNormal(mean=5), r"was given mean; expected LogNormal\(mean=, median=\) or"),
    (lambda: LogNormal(mean=5, median=4, sd=1), r"was given mean, median, sd; expected"),
    (lambda: LogNormal(mean=4, median=5), r"median 5 is not below mean 4.*exchange them"),
    (lambda: LogNormal(mean=4, median=4), r"median 4 is not below mean 4"),
    (lambda: LogNormal(mu=math.inf, sigma=1), r"mu is inf; expected a finite number"),
    (lambda: LogNormal(mu=0, sigma=0), r"sigma is 0\.0; expected a finite number above zero"),
    (lambda: LogNormal(mean=1, sd=1e-200), r"derived sigma is 0\.0; the given parameters"),
    (lambda: Weibull(shape=1, mean=1), r"expected Weibull\(shape=, scale=\) or Weibull\(mean="),
    (lambda: Weibull(shape=-2, scale=1), r"Weibull: shape is -2\.0"),
    (lambda: Weibull(mean=1, sd=1e-5), r"sd / mean is 1e-05; expected 0\.001 to 1000"),
    (lambda: Gamma(shape=1), r"expected Gamma\(shape=, scale=\) or Gamma\(shape=, rate=\) or"),
    (lambda: Gamma(mean=1, sd=0), r"Gamma: sd is 0\.0"),
    (lambda: Gamma(mean=1, sd=1e200), r"Gamma: the derived shape is 0\.0"),
    (lambda: Erlang(stages=2), r"expected Erlang\(stages=, mean=\) or Erlang\(stages=, rate=\)"),
    (lambda: Erlang(stages=2.5, mean=1), r"Erlang: stages is 2\.5; expected a whole number"),
    (lambda: Erlang(stages=0, mean=1), r"Erlang: stages is 0; expected at least 1"),
    (lambda: Deterministic(0), r"Deterministic: value is 0\.0"),
    (lambda: Deterministic(None), r"Deterministic: value is None; expected a number"),
    (lambda: Empirical([1, 2], [0, 0.5, 1]), r"times has 2 values and cdf 3; expected equal"),
    (lambda: Empirical([1], [1]), r"the table has 1 row; expected at least 2"),
    (lambda: Empirical([-1, 2], [0, 1]), r"times\[0\] is -1; a holding time is not negative"),
    (lambda: Empirical([1, 3, 2], [0, 0.5, 1]), r"times\[2\] is 2, below times\[1\] = 3"),
    (lambda: Empirical([1, 2, 3], [0, 0.5, 0.2]), r"cdf\[2\] is 0\.2, below cdf\[1\] = 0\.5"),
    (lambda: Empirical([1, 2], [0.1, 1]), r"cdf runs from 0\.1 to 1; expected 0 to 1"),
    (lambda: Empirical([1, 2], [0, 0.9]), r"cdf runs from 0 to 0\.9"),
    (lambda: Empirical([0, 0], [0, 1]), r"all times are zero"),
    (lambda: Empirical([1, math.nan], [0, 1]), r"times\[1\] is nan; expected a finite number"),
    (lambda: Empirical([[1, 2]], [0, 1]), r"times has shape \(1, 2\); expected a one-dim"),
    (lambda: Empirical(["a", "b"], [0, 1]), r"times is not an array of numbers"),
    (lambda: Empirical.from_samples([]), r"was given no samples; expected at least one"),
    (lambda: Empirical.from_samples([1, -2]), r"samples\[1\] is -2; a holding time is not neg"),
    (lambda: Exponential(mean=1).quantile([0.5, 1.5]), r"p is 1\.5 at position 1; expected a"),
    (lambda: Exponential(mean=1).quantile(math.nan), r"p is nan at position 0"),
    (lambda: Exponential(mean=1).sample(-1), r"size is -1; expected at least 0"),
    (lambda: Exponential(mean=1).sample(1, seed=-1), r"seed is -1; expected from 0 to"),
]


@pytest.mark.parametrize(("make", "message"), MESSAGES, ids=[text[:30] for _, text in MESSAGES])
def test_messages(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_unknown_precision():
    with pytest.raises(PlanError, match="precision 'float16' is unknown; expected 'float32'"):
        Exponential(mean=1).sample(1, precision="float16")


def test_parameters_are_by_keyword():
    for kind in (Exponential, LogNormal, Weibull, Gamma, Erlang):
        with pytest.raises(TypeError):
            kind(1.0)


def test_scipy_waits_until_it_is_asked():
    code = (
        "import sys; from ergode.models.holding_times.families import LogNormal; "
        "LogNormal(mean=5, sd=2); "
        "sys.exit(any(name.split('.')[0] in ('scipy', 'numba') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
