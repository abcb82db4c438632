"""Killing rates and periodic variables of densities that follow the flow."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import ergode
from ergode.density import views

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
PRECISIONS = pytest.mark.parametrize("precision", ["float64", "float32"])
TURN = 2 * math.pi
X = np.linspace(-4.0, 5.0, 400_001)  # of a prior around 0.5
PRIOR = ergode.Gaussian([0.5], [0.09])


def steady(t, y, p):
    return (p[0] + 0.0 * y[0],)


def square(y, t, p):
    return (y[0] * y[0],)


def pulsed(y, t, p):
    return (1.0 + math.cos(4.0 * t),)


def place(y, t, p):
    return (y[0],)


LINE = ergode.VectorField(steady, ["x"], ["speed"])


def lost(t):
    """The integral of the rate along the path from X, at speed one."""
    return ((X + t) ** 3 - X**3) / 3


def moments(weight, t):
    weight = weight / weight.sum()
    mean = weight @ (X + t)
    return mean, math.sqrt(weight @ (X + t - mean) ** 2)


def line(**options):
    return ergode.density.propagate(
        LINE, PRIOR, parameters={"speed": 1.0}, scheme=options.pop("scheme", "flow"), keep="none",
        **{"device": "cpu", "killing_rate": square, "times": [0.0, 0.5, 1.0]} | options,
    )  # fmt: skip


@DEVICES
@PRECISIONS
def test_a_rate_along_paths_has_its_closed_form(device, precision):
    found = line(device=device, precision=precision)
    prior = np.exp(-0.5 * (X - 0.5) ** 2 / 0.09)
    for row, t in enumerate([0.0, 0.5, 1.0]):
        weight = prior * np.exp(-lost(t))
        mean, deviation = moments(weight, t)
        survival = weight.sum() / prior.sum()
        assert float(found["survival"][row]) == pytest.approx(survival, abs=1e-4)
        assert float(found["mass_killed"][row]) == pytest.approx(1 - survival, abs=1e-4)
        assert float(found["mean"][row, 0]) == pytest.approx(mean, abs=1e-3 * deviation)
        assert math.sqrt(found["covariance"][row, 0, 0]) == pytest.approx(deviation, rel=2e-3)
    assert float(found["mass_lost"].max()) < 2e-4  # what the prior leaves out


@DEVICES
def test_measurements_of_what_has_survived(device):
    """Two measurements: evidence and survival are those given survival up to the latest."""
    seen = [ergode.Measurement(t, place, t + 0.3, 0.02) for t in (0.25, 0.75)]
    found = line(measurements=seen, times=[0.0, 0.5, 0.75, 1.0], device=device)
    weight = np.exp(-0.5 * (X - 0.5) ** 2 / 0.09)
    evidence = []
    for t in (0.25, 0.75):
        likelihood = np.exp(-0.5 * (X - 0.3) ** 2 / 0.02) / math.sqrt(TURN * 0.02)
        alive = weight * np.exp(-lost(t))
        evidence.append(math.log((alive * likelihood).sum() / alive.sum()))
        weight = weight * likelihood
    np.testing.assert_allclose(found["log_evidence"], evidence, atol=1e-3)
    after = weight * np.exp(-lost(0.75))
    last = weight * np.exp(-lost(1.0))
    assert float(found["survival"][2]) == 1.0
    assert float(found["survival"][3]) == pytest.approx(last.sum() / after.sum(), abs=1e-4)
    mean, deviation = moments(last, 1.0)
    assert float(found["mean"][3, 0]) == pytest.approx(mean, abs=1e-3 * deviation)


def test_measurements_and_a_rate_choose_the_flow():
    seen = [ergode.Measurement(0.5, place, 1.0, 0.1)]
    assert line(scheme="auto", measurements=seen).attrs["method"] == "flow"


def test_a_rate_that_depends_on_time():
    found = line(killing_rate=pulsed)
    t = np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(found["survival"], np.exp(-t - np.sin(4 * t) / 4), atol=2e-6)


def test_each_of_a_bank_has_the_survival_that_it_has_alone():
    priors = [PRIOR, ergode.Gaussian([1.0], [0.04])]
    both = ergode.density.propagate(
        LINE, priors, parameters={"speed": 1.0}, killing_rate=square, times=[0.0, 1.0],
        scheme="flow", device="cpu",
    )  # fmt: skip
    for which, prior in enumerate(priors):
        one = ergode.density.propagate(
            LINE, prior, parameters={"speed": 1.0}, killing_rate=square, times=[0.0, 1.0],
            scheme="flow", device="cpu", keep="none",
        )  # fmt: skip
        assert np.array_equal(both["survival"][which], one["survival"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"smooth": True, "measurements": [ergode.Measurement(0.5, place, 1.0, 0.1)]},
            "without a killing rate",
        ),
        ({"killing_rate": lambda y, t, p: (0.0 * y[0] - 1.0,)}, "a killing rate is negative"),
    ],
)
def test_what_cannot_be_combined_is_refused(options, said):
    with (
        pytest.raises(ergode.PlanError, match=said)
        if "negative" not in said
        else pytest.warns(ergode.FailureWarning, match=said)
    ):
        line(**options)


LINEAR = np.array([[-0.5, 0.3], [-0.2, -0.4]])
NOISE = np.array([[0.3, 0.1], [0.1, 0.2]])
RATE = np.array([[0.2, 0.1], [0.1, 0.15]])
START = np.array([1.0, -0.5]), np.diag([0.4, 0.3])


def falling(t, y, p):
    return (-0.5 * y[0] + 0.3 * y[1], -0.2 * y[0] - 0.4 * y[1])


def bowl(y, t, p):
    return (0.1 + 0.2 * y[0] * y[0] + 0.2 * y[0] * y[1] + 0.15 * y[1] * y[1],)


FALLING = ergode.VectorField(falling, ["x", "y"])


def tilted(mean, covariance, span):
    """A Gaussian that a linear system moves, noise widens, and a square rate thins: exact."""

    def slope(t, v):
        m, P = v[:2], v[2:6].reshape(2, 2)
        rate = 0.1 + m @ RATE @ m + np.trace(RATE @ P)
        grown = LINEAR @ P + P @ LINEAR.T + NOISE - 2 * P @ RATE @ P
        return np.concatenate([LINEAR @ m - 2 * P @ RATE @ m, grown.ravel(), [-rate]])

    begin = np.concatenate([mean, covariance.ravel(), [0.0]])
    end = solve_ivp(slope, (0, span), begin, rtol=1e-10, atol=1e-12).y[:, -1]
    return end[:2], end[2:6].reshape(2, 2), end[6]


@DEVICES
def test_noise_and_a_rate_keep_a_gaussian(device):
    """With a value measured on the way; what was measured has survived."""
    found = ergode.density.propagate(
        FALLING, ergode.Gaussian(*START), times=[0.0, 1.0, 2.0], process_noise=NOISE, keep="none",
        measurements=[ergode.Measurement(1.0, place, 0.8, 0.1)], killing_rate=bowl, device=device,
    )  # fmt: skip
    assert found.attrs["method"] == "flow" and np.isnan(found["unreliable_from"])
    mean, covariance, _ = tilted(*START, 1.0)
    square = covariance[0, 0] + 0.1
    evidence = -0.5 * ((0.8 - mean[0]) ** 2 / square + math.log(TURN * square))
    assert float(found["log_evidence"][0]) == pytest.approx(evidence, abs=2e-4)
    gain = covariance[:, 0] / square
    mean, covariance = mean + gain * (0.8 - mean[0]), covariance - np.outer(gain, covariance[0])
    mean, covariance, log_survival = tilted(mean, covariance, 1.0)
    assert np.allclose(found["mean"][-1], mean, atol=3e-4)
    assert np.allclose(found["covariance"][-1], covariance, atol=3e-4)
    assert float(found["survival"][-1]) == pytest.approx(math.exp(log_survival), abs=3e-4)


def test_noise_and_a_rate_agree_with_the_grid():
    """A rate that is no square, where a bend of cells counts."""
    options = {
        "times": [0.0, 1.0], "process_noise": [0.05], "device": "cpu", "keep": "none",
        "parameters": {"speed": 1.0},
    }  # fmt: skip
    prior = ergode.Gaussian([-0.5], [0.25])
    flow = ergode.density.propagate(
        LINE, prior, scheme="flow", **options,
        killing_rate=lambda y, t, p: (2.0 / (1.0 + math.exp(-3.0 * y[0])),),
    )  # fmt: skip
    grid = ergode.density.propagate(  # with far walls and the time: a kernel of first passages
        LINE, prior, width=0.02, threshold=1e-9, **options, boundary="absorbing",
        killing_rate=lambda y, t, p: (2.0 / (1.0 + math.exp(-3.0 * y[0])) + 0.0 * t,),
        region=lambda y, t, p: (50.0 - abs(y[0]),), periodic={"x": 400.0},
    )  # fmt: skip
    for name in ("survival", "mean", "covariance"):
        assert np.allclose(flow[name][1], grid[name][1], atol=2e-3)


# ---- periodic variables


def rotor(t, y, p):
    return (y[1], 0.0 * y[1])


def swinging(t, y, p):
    return (y[1], -math.sin(y[0]))


def cosine(y, t, p):
    return (math.cos(y[0]), math.sin(y[0]))


ROTOR = ergode.VectorField(rotor, ["theta", "omega"])
PENDULUM = ergode.VectorField(swinging, ["theta", "omega"])


def short_way_moments(mean, variance):
    """Deviation of a wrapped normal angle by the short ways from its mean direction."""
    away = np.linspace(-math.pi, math.pi, 200_001)
    weight = sum(np.exp(-0.5 * (away - TURN * k) ** 2 / variance) for k in range(-9, 10))
    return (mean + math.pi) % TURN - math.pi, math.sqrt(weight @ away**2 / weight.sum())


@DEVICES
@PRECISIONS
def test_a_rotor_has_a_wrapped_normal_density(device, precision):
    times = np.array([0.0, 1.0, 4.0, 8.0])
    found = ergode.density.propagate(
        ROTOR, ergode.Gaussian([0.3, 2.0], [0.04, 0.09]), times=times, periodic={"theta": TURN},
        scheme="flow", keep="all", device=device, precision=precision,
    )  # fmt: skip
    for row, t in enumerate(times):
        mean, deviation = short_way_moments(0.3 + 2.0 * t, 0.04 + 0.09 * t * t)
        if t < 5:
            away = float(found["mean"][row, 0]) - mean
            assert abs((away + math.pi) % TURN - math.pi) < 1e-3
        assert abs(float(found["mean"][row, 0]) - 0.3) <= math.pi
        assert math.sqrt(found["covariance"][row, 0, 0]) == pytest.approx(
            deviation, rel=2e-3 if t < 5 else 0.02
        )
        assert float(found["mean"][row, 1]) == pytest.approx(2.0, abs=1e-3)
    cells = views.cells_at(found, 8.0)
    theta = cells["point"].values[:, 0]
    assert np.ptp(theta) < TURN
    assert views.marginal(cells, "theta").values.std() < 0.1 / TURN  # nearly uniform


def slowed(t, y, p):
    return (y[1], -0.5 * y[1])


@DEVICES
@pytest.mark.parametrize("strength", [0.02, 1.0, 8.0])
def test_a_rotor_with_noise_has_a_wrapped_normal_density(device, strength):
    """Narrow, about as wide as a turn, and nearly uniform; the rate is exact."""
    noise = np.diag([0.1, 1.0]) * strength
    field = ergode.VectorField(slowed, ["theta", "omega"])
    found = ergode.density.propagate(
        field, ergode.Gaussian([0.3, 1.5], [0.04, 0.01]), times=[0.0, 2.0], process_noise=noise,
        periodic={"theta": TURN}, scheme="flow", device=device,
    )  # fmt: skip
    slopes = np.array([[0.0, 1.0], [0.0, -0.5]])
    both = expm(2.0 * np.block([[-slopes, noise], [np.zeros((2, 2)), slopes.T]]))
    moved = both[2:, 2:].T
    mean = moved @ [0.3, 1.5]
    exact = moved @ np.diag([0.04, 0.01]) @ moved.T + moved @ both[:2, 2:]
    middle, deviation = short_way_moments(mean[0], exact[0, 0])
    around = (float(found["mean"][1, 0]) - middle + math.pi) % TURN - math.pi
    resultant = math.exp(-0.5 * exact[0, 0])
    assert abs(around) < 1e-4 / resultant
    assert float(found["covariance"][1, 0, 0]) == pytest.approx(deviation**2, rel=5e-4)
    assert float(found["mean"][1, 1]) == pytest.approx(mean[1], abs=1e-4)
    assert float(found["covariance"][1, 1, 1]) == pytest.approx(exact[1, 1], rel=5e-4)
    # The short way of a Gaussian angle grows with the angle, but for where it is cut.
    turns = np.arange(1, 60)
    growth = -2.0 * ((-1.0) ** turns * np.exp(-0.5 * turns**2 * exact[0, 0])).sum()
    assert float(found["covariance"][1, 0, 1]) == pytest.approx(exact[0, 1] * growth, abs=2e-3)
    cells = views.cells_at(found, 2.0)
    wave = cells["mass"].values @ np.exp(1j * cells["point"].values[:, 0])
    assert abs(abs(wave) - resultant) < 0.02


def test_points_a_turn_apart_are_told():
    """After 42 units of time neighbours are a turn apart, and all points at one place."""
    with pytest.warns(ergode.AccuracyWarning, match="from time 42 on"):
        found = ergode.density.propagate(
            ROTOR, ergode.Gaussian([0.3, 2.0], [0.0004, 0.09]), times=[0.0, 4.0, 42.0],
            periodic={"theta": TURN}, scheme="flow", keep="none", device="cpu",
        )  # fmt: skip
    assert float(found["unreliable_from"]) == 42.0


@DEVICES
def test_a_measured_pendulum_that_swings_over_is_that_of_an_unwrapped_angle(device):
    prior = ergode.Gaussian([3.0, 0.8], [0.04, 0.04])
    seen = [ergode.Measurement(2.0, cosine, [-0.6, -0.8], [0.05, 0.05])]
    options = {
        "times": [0.0, 2.0, 4.0], "measurements": seen, "scheme": "flow", "keep": "all",
        "device": device,
    }  # fmt: skip
    turned = ergode.density.propagate(PENDULUM, prior, periodic={"theta": TURN}, **options)
    plain = ergode.density.propagate(PENDULUM, prior, **options)
    assert np.allclose(turned["log_evidence"], plain["log_evidence"], atol=1e-9)
    assert np.allclose(turned["mean"][:, 1], plain["mean"][:, 1], atol=1e-9)
    for row, t in enumerate([2.0, 4.0], 1):
        found, exact = (
            one["mass"].values @ np.exp(1j * one["point"].values[:, 0])
            for one in (views.cells_at(turned, t), views.cells_at(plain, t))
        )
        assert abs(found - exact) < 0.02
        middle = float(turned["mean"][row, 0])
        cells = views.cells_at(plain, t)
        away = (cells["point"].values[:, 0] - middle + math.pi) % TURN - math.pi
        assert abs(cells["mass"].values @ away) < 0.03


# Of no effect: with it the grid has the kernel of the test of correlated noise on a circle.
FAINT = np.array([[2e-9, 1e-9], [1e-9, 2e-9]])


def test_the_grid_agrees():
    """A pendulum with a rate that kills at the top, against a fixed grid of small cells.

    Without measurements a rate chooses the grid.
    """
    options = {
        "times": [0.0, 1.0], "periodic": {"theta": TURN}, "keep": "none", "device": "cpu:1",
        "killing_rate": lambda y, t, p: (1.0 - math.cos(y[0]),),
    }  # fmt: skip
    prior = ergode.Gaussian([2.0, 1.0], [0.09, 0.09])
    flow = ergode.density.propagate(PENDULUM, prior, scheme="flow", **options)
    grid = ergode.density.propagate(
        PENDULUM, prior, width=0.06, threshold=1e-9, process_noise=FAINT, **options
    )
    assert grid.attrs["method"] == "split"
    assert float(flow["survival"][1]) == pytest.approx(float(grid["survival"][1]), abs=1e-3)
    assert np.allclose(flow["mean"][1], grid["mean"][1], atol=5e-3)
    assert np.allclose(flow["covariance"][1], grid["covariance"][1], atol=5e-3)
