"""Jumps at random times, lists of times, and effects that depend on draws, against known laws."""

import math

import numpy as np
import pytest
import scipy.stats

import ergode
from ergode.core.status import Status
from ergode.trajectories import Jump, Scheduled, ZeroCrossing
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.methods import METHODS

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
LEAST = 1e-6 / 20  # of a test: family-wise error over all tests of this file


def return_to_zero(t, y, p):
    return (-p[0] * y[0],)


def constant_noise(t, y, p):
    return (p[1],)


def leap(t, y, p, draws):
    return (y[0] + p[3] + p[4] * draws[2],)


# Of a return: dx = -back x dt + noise dW, and jumps of mean `size` and deviation `spread`.
RETURN = ergode.VectorField(
    return_to_zero, ["x"], ["back", "noise", "rate", "size", "spread"], diffusion=constant_noise
)
LEAPS = [Jump("rate", leap, name="leap")]
CUTS = [
    ZeroCrossing(lambda t, y, p: y[0] - 1.0, 1, leap, name="wall"),
    Scheduled([1.0, 2.0], lambda t, y, p: (0.0,)),
]


def returns(count, **parameters):
    values = {"back": 0.0, "noise": 0.0, "rate": 0.0, "size": 0.0, "spread": 0.0, **parameters}
    values, options = {k: v for k, v in values.items() if k in RETURN.parameters}, {
        k: v for k, v in parameters.items() if k not in RETURN.parameters
    }  # fmt: skip
    return ergode.trajectories.integrate(
        RETURN, parameters=values,
        **{"times": [0.0, 1.0, 2.0], "initial": {"x": 0.0}, "step": 1 / 8, "seed": 3,
           "device": "cpu", "method": "sra1", "events": LEAPS, "replicates": count, "record": 20,
           **options},
    )  # fmt: skip


@DEVICES
def test_mertons_law(device):
    """Without return x(2) is a sum of normal laws with the weights of Poisson's, at any step."""
    found = returns(20_000, noise=0.7, rate=1.5, size=-0.4, spread=0.3, device=device)
    x = found["state"].values[:, -1, 0]

    def law(values):
        n = np.arange(40)[:, None]
        each = scipy.stats.norm.cdf(values, -0.4 * n, np.sqrt(0.98 + 0.09 * n))
        return (scipy.stats.poisson.pmf(n, 3.0) * each).sum(0)

    assert scipy.stats.kstest(x, law).pvalue > LEAST
    counts = np.bincount(found["event_count"].values[:, 0].astype(int), minlength=13)
    known = scipy.stats.poisson.pmf(np.arange(12), 3.0) * x.size
    observed = np.array([*counts[:11], counts[11:].sum()])
    expected = np.array([*known[:11], x.size - known[:11].sum()])
    assert scipy.stats.chisquare(observed, expected).pvalue > LEAST
    times = found["event_time"].values.ravel()
    assert np.nanmax(times) <= 2.0 and np.nanmin(times) > 0.0


def test_moments_of_a_return_with_jumps():
    """m' = rate size - back m, v' = noise^2 + rate (size^2 + spread^2) - 2 back v; own steps."""
    n, back = 40_000, 0.8
    options = {"noise": 0.5, "rate": 2.0, "size": 1.0, "spread": 0.5, "step": None, "rtol": 1e-2}
    x = returns(n, back=back, **options)["state"].values[:, :, 0]
    mean = 2.0 / back * (1 - math.exp(-back * 2))
    variance = (0.25 + 2.0 * 1.25) / (2 * back) * (1 - math.exp(-2 * back * 2))
    assert x[:, -1].mean() == pytest.approx(mean, abs=5.5 * math.sqrt(variance / n))
    spread = (x[:, -1] - mean) ** 2
    bound = 5.5 * spread.std() / math.sqrt(n)
    assert spread.mean() == pytest.approx(variance, abs=bound)


def test_no_rate_is_no_jump_and_parts_and_threads_change_no_bit():
    options = {"back": 1.0, "noise": 0.5, "size": 1.0, "spread": 1.0}
    quiet = returns(40, **options)
    np.testing.assert_array_equal(
        quiet["state"], returns(40, **options, events=[], record=0)["state"], strict=True
    )
    whole = returns(40, **options, rate=4.0, device="cpu:2")
    part = returns(range(17, 23), **options, rate=4.0, device="cpu:1")
    for name in ("state", "event_time", "event_state"):
        np.testing.assert_array_equal(whole[name][17:23], part[name])
    shared = returns(None, **{**options, "rate": [4.0, 4.0]}, common_random_numbers=True)
    np.testing.assert_array_equal(*shared["state"].values)
    # A unit of time that is 1024 times as long, and a rate as much larger.
    scaled = returns(
        40, back=1024.0, noise=16.0, size=1.0, spread=1.0, rate=4096.0, step=2.0**-13,
        times=np.arange(3) / 1024,
    )  # fmt: skip
    np.testing.assert_array_equal(1024 * scaled["event_time"].values, whole["event_time"].values)
    np.testing.assert_allclose(scaled["state"], whole["state"].values * 1.0, rtol=0, atol=1e-9)


def three(t, y, p):
    """Intensity of jumps that excite each other; the time since a reset; an amount of a drug."""
    return p[0] * (p[1] - y[0]), 1.0, -p[3] * y[2]


def above_one(t, y, p):
    return y[1] - 1.0


def set_back(t, y, p, draws):
    return y[0], 1.0 + math.log(draws[0]), y[2]


def give(t, y, p):
    return y[0], y[1], y[2] + 1.0


def excite(t, y, p):
    return y[0] + p[2], y[1], y[2]


def intensity(t, y, p):
    return y[0]


THREE = ergode.VectorField(
    three, ["intensity", "age", "drug"], ["back", "base", "rise", "clearance", "most"]
)
DOSES = [0.1, 0.75, 1.0, 1.3, 2.9]
EVENTS = [
    ZeroCrossing(above_one, 1, set_back, name="reset"),
    Scheduled(DOSES, give, name="dose"),
    Jump(intensity, excite, most="most", name="spike"),
]


def spikes(count, **options):
    most = options.pop("most", 100.0)
    return ergode.trajectories.integrate(
        THREE, initial={"intensity": 1.0, "age": 0.0, "drug": 0.0},
        parameters={"back": 2.0, "base": 1.0, "rise": 0.8, "clearance": 0.5, "most": most},
        **{"times": [0.0, 1.0, 3.0], "method": "tsit5", "device": "cpu", "seed": 1,
           "events": EVENTS, "replicates": count, "record": 40, **options},
    )  # fmt: skip


@DEVICES
def test_a_rate_that_depends_on_the_state_a_list_of_times_and_draws_of_a_crossing(device):
    n, t = 10_000, 3.0
    found = spikes(n, device=device)
    y, counts = found["state"].values[:, -1], found["event_count"].values
    # Hawkes' process with an exponential kernel: linear equations for the moments of its intensity.
    slope, source = 0.8 - 2.0, 2.0 * 1.0

    def moments(_, m):
        return [source + slope * m[0], 2 * slope * m[1] + 0.8**2 * m[0], m[0]]

    mean, variance, spiked = scipy.integrate.solve_ivp(
        moments, (0, t), [1.0, 0.0, 0.0], rtol=1e-9, atol=1e-9
    ).y[:, -1]
    assert y[:, 0].mean() == pytest.approx(mean, abs=5.5 * math.sqrt(variance / n))
    spread = (y[:, 0] - mean) ** 2
    assert spread.mean() == pytest.approx(variance, abs=5.5 * spread.std() / math.sqrt(n))
    assert counts[:, 2].mean() == pytest.approx(spiked, abs=5.5 * counts[:, 2].std() / math.sqrt(n))
    # After the first reset, at 1, the ages at a reset are exponential: their number is Poisson's.
    resets = np.bincount(counts[:, 0].astype(int) - 1, minlength=9)
    known = scipy.stats.poisson.pmf(np.arange(8), t - 1.0) * n
    observed = [*resets[:7], resets[7:].sum()]
    assert scipy.stats.chisquare(observed, [*known[:7], n - known[:7].sum()]).pvalue > LEAST
    # Doses are exactly met, and a state at one is that before it.
    np.testing.assert_array_equal(found["event_time"].values[:, 1, :5], np.tile(DOSES, (n, 1)))
    for k, time in ((1, 1.0), (2, 3.0)):
        known = sum(math.exp(-0.5 * (time - dose)) for dose in DOSES if dose < time)
        np.testing.assert_allclose(found["state"].values[:, k, 2], known, rtol=1e-5)


def test_spikes_depend_on_no_tolerance_and_a_bound_that_is_too_small_is_told():
    coarse, fine = spikes(50, rtol=1e-5), spikes(50, rtol=1e-9)
    # The same candidates; a draw falls between two rates with a probability of about 1e-5.
    np.testing.assert_array_equal(
        coarse["event_time"].values[:, 2], fine["event_time"].values[:, 2]
    )
    with pytest.warns(ergode.FailureWarning, match="above the bound that was given for it"):
        low = spikes(50, most=1.5)
    assert (low["status"] == Status.RATE_OUT_OF_RANGE).any()


def test_a_cuda_kernel_compiles(compiles_to_registers, cuda_arguments):
    run, *others = cuda_arguments("float32")
    one = np.int64(1)
    run = run._replace(source=(np.uint64(0), one, one))
    control = control_of({"events": [*CUTS, *LEAPS], "recorded": 1})
    method = METHODS["implicit-euler-maruyama"]
    bindings = bindings_of(RETURN, method, control, "float32", shared=False)
    compiles_to_registers(bindings, "float32", (run, *others))


@pytest.mark.parametrize(
    ("events", "options", "message"),
    [
        ([Scheduled([0.0, 1.0], give)], {}, "is at 0, and the run begins at 0"),
        ([Jump("spiking", excite)], {}, "is 'spiking', which is no parameter"),
        ([Jump("base", excite)], {}, "which is -1 in a trajectory"),
        (EVENTS, {"observe_from": 1.0}, "event 'reset' has draws by the number of its occurrence"),
        ([Scheduled([1.0], give)], {"times": [1.0, 0.0]}, "'scheduled' is no ZeroCrossing"),
    ],
)
def test_refusals_of_runs(events, options, message):
    given = {"back": 2.0, "base": -1.0, "rise": 0.8, "clearance": 0.5, "most": 1.0}
    with pytest.raises(ergode.ErgodeError, match=message):
        ergode.trajectories.integrate(
            THREE, parameters=given, device="cpu", events=events,
            initial={"intensity": 1.0, "age": 0.0, "drug": 0.0}, **{"times": [0.0, 2.0], **options},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scheduled([], give), "expected a list of 1 to 1,000 numbers"),
        (lambda: Scheduled([1.0, 1.0], give), "do not ascend"),
        (lambda: Scheduled([1.0, math.nan], give), "not finite"),
        (lambda: Scheduled([1.0]), "neither an effect nor an end"),
        (lambda: Scheduled([1.0], terminal=-1), "terminal is -1"),
        (lambda: Jump(intensity, excite), "has a bound, most="),
        (lambda: Jump(1.0, excite, most=2.0), "has a bound, most="),
        (lambda: Jump(-1.0, excite), "expected a number that is not negative"),
        (lambda: Jump(1.0, None), "has no effect"),
    ],
)
def test_refusals_of_events(make, message):
    with pytest.raises(ergode.ModelError, match=message):
        make()
