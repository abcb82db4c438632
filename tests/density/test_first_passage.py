"""Absorbing walls and killing rates: survival, the law of first passage, and what is refused."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import jn_zeros, jv
from scipy.stats import norm
from test_specialize import arguments

import ergode
from ergode.density import specialize
from ergode.density.grid.lattice import Lattice
from ergode.density.methods import GRIDS
from ergode.density.noise import Noise

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
SCHEMES = pytest.mark.parametrize("scheme", ["split", "corner-transport"])
pytestmark = pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")  # cells are wide


def linear(t, y, p):
    return (p[0] - p[1] * y[0],)


def between(y, t, p):
    return (min(p[3] - y[0], y[0] - p[2]),)


# Killing rates are of one form, have walls, and lie on a large circle: one kernel for them.
def rate(y, t, p):
    return (p[4] + p[5] * y[0] + p[6] * y[0] * y[0] + p[7] * math.cos(4.0 * t),)


RATES = ("steady", "slope", "square", "wave")
FIELD = ergode.VectorField(linear, ["x"], ["drift", "pull", "low", "high", *RATES])
SPOT = ergode.Gaussian([0.0], [0.01])


def absorbed(
    times, width, *, drift=0.0, pull=0.0, low=-50.0, high=1.0, prior=SPOT, rates=(), **options
):
    settings = {
        "region": between, "boundary": "absorbing", "threshold": 1e-10, "device": "cpu:1",
        "keep": "none", "scheme": "split",
    } | options  # fmt: skip
    values = {"drift": drift, "pull": pull, "low": low, "high": high}
    values |= dict.fromkeys(RATES, 0.0) | dict(rates)
    return ergode.density.propagate(
        FIELD, prior, times=times, parameters=values, width=width, **settings
    )


def killed(times, width, rates, **options):
    """Also on a large circle, between walls that are far away."""
    given = {"killing_rate": rate, "high": 50.0, "process_noise": [1.0], "periodic": {"x": 400.0}}
    return absorbed(times, width, rates=rates, **given | options)


def balance(found):
    return sum(
        found[name].values
        for name in ("survival", "mass_absorbed", "mass_killed", "mass_pruned", "mass_out")
    )


def start(low, high, variance=0.01):
    """Points of the prior between two walls, and their weights."""
    x = np.linspace(max(low, -1.0), min(high, 1.0), 8001)
    weight = np.exp(-0.5 * x * x / variance)
    return x, weight / weight.sum()


def inverse_gaussian(t, drift, wall):
    """Survival of Brownian motion with drift below a wall."""
    x, weight = start(-np.inf, wall)
    away, root = wall - x, math.sqrt(t)
    left = norm.cdf((away - drift * t) / root)
    left -= np.exp(2 * drift * away) * norm.cdf((-away - drift * t) / root)
    return weight @ left


def interval(times, drift, pull, low, high, count=1500):
    """Survival of a linear process between two walls, by the backward equation on a fine grid."""
    x = np.linspace(low, high, count + 1)[1:-1]
    h = (high - low) / count
    v = drift - pull * x

    def backward(t, u):
        u = np.concatenate([[0.0], u, [0.0]])
        slope = (u[2:] - u[:-2]) / (2 * h)
        return v * slope + 0.5 * (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2

    found = solve_ivp(
        backward, (0, times[-1]), np.ones(x.size), "LSODA", t_eval=times, rtol=1e-7, atol=1e-9,
        lband=1, uband=1,
    ).y  # fmt: skip
    weight = np.exp(-0.5 * x * x / 0.01)
    return weight @ found / weight.sum()


@DEVICES
@SCHEMES
@pytest.mark.parametrize("drift", [0.7, -0.7])
def test_first_passage_of_one_wall_is_inverse_gaussian(scheme, drift, device):
    worst = []
    for width in (0.1, 0.05):
        errors = []
        for part in (0.02, 0.31, 0.73):
            wall = 1.0 + part * width
            found = absorbed(
                [0, 0.5, 1, 2], width, drift=drift, high=wall, process_noise=[1.0], scheme=scheme,
                device=device,
            )  # fmt: skip
            np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)
            for k, t in ((1, 0.5), (2, 1.0), (3, 2.0)):
                errors.append(found["survival"].values[k] - inverse_gaussian(t, drift, wall))
        worst.append(np.abs(errors).max())
    assert worst[0] < 0.003 and worst[1] < 0.0008


def test_the_slope_of_what_is_absorbed_is_the_density_of_first_passage():
    times = np.linspace(0, 1.6, 17)
    found = absorbed(times, 0.05, drift=0.7, process_noise=[1.0])
    slope = found["mass_absorbed"].differentiate("time").values
    x, weight = start(-np.inf, 1.0)
    for t, got in zip(times[4:-1], slope[4:-1], strict=True):
        law = weight @ ((1 - x) / t**1.5 * norm.pdf((1 - x - 0.7 * t) / math.sqrt(t)))
        assert got == pytest.approx(law, rel=0.01)


@SCHEMES
def test_drift_reaches_a_wall_when_it_should(scheme):
    # Without noise the time is exact: the prior, shifted.
    prior, times = ergode.Gaussian([0.0], [0.09]), np.array([0, 0.8, 1.1, 1.6])
    worst = []
    for width in (0.1, 0.05):
        errors = []
        for part in (0.02, 0.31, 0.73, 0.9):
            wall = 1.0 + part * width
            found = absorbed(times, width, drift=1.0, high=wall, prior=prior, scheme=scheme)
            away = (wall - times) / 0.3
            errors.append(found["survival"].values - norm.cdf(away))
            np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)
        worst.append(np.abs(errors).max())
    assert worst[0] < 0.0085 and worst[1] < 0.0015


def test_all_of_it_may_be_absorbed():
    prior = ergode.Gaussian([0.0], [0.01])
    found = absorbed([0, 0.5, 1, 3, 9], 0.05, drift=1.0, prior=prior, keep="all")
    assert found["survival"].values[-2:].tolist() == [0.0, 0.0]
    assert float(found["mass_absorbed"][-1]) == pytest.approx(1.0, abs=1e-8)
    assert int(found["cell_count"][-1]) < 50 and np.isnan(found["mean"].values[-1]).all()
    assert int(found["status"]) == ergode.Status.DONE


@DEVICES
def test_a_linear_process_leaves_an_interval(device):
    times = np.array([0, 0.3, 1.0, 2.0])
    exact = interval(times, 0.5, 1.0, -0.8, 1.13)
    worst = []
    for width in (0.1, 0.05):
        found = absorbed(
            times, width, drift=0.5, pull=1.0, low=-0.8, high=1.13, process_noise=[1.0],
            device=device,
        )  # fmt: skip
        worst.append(np.abs(found["survival"].values - exact).max())
    assert worst[0] < 0.004 and worst[1] < 0.001


def disc(y, t, p):
    return (1.0 - y[0] * y[0] - y[1] * y[1],)


def box(y, t, p):
    return (min(1.03 - abs(y[0]), 0.87 - abs(y[1])),)


def of_disc(t):
    zeros = jn_zeros(0, 40)
    r = np.linspace(0, 1, 4001)
    weight = r * np.exp(-r * r / 0.02)
    parts = np.array([weight @ jv(0, k * r) for k in zeros]) / weight.sum()
    return (2 * parts / (zeros * jv(1, zeros)) * np.exp(-(zeros**2) * t / 2)).sum()


def of_side(t, half):
    x, weight = start(-half, half)
    n = np.arange(1, 80, 2)
    k = n * math.pi / (2 * half)
    parts = np.cos(np.outer(k, x)) @ weight
    return (4 / (n * math.pi) * (-1.0) ** ((n - 1) // 2) * parts * np.exp(-(k**2) * t / 2)).sum()


@DEVICES
@pytest.mark.parametrize(
    ("region", "law"), [(disc, of_disc), (box, lambda t: of_side(t, 1.03) * of_side(t, 0.87))]
)
def test_brownian_motion_in_a_disc_and_in_a_box(region, law, device):
    still = ergode.VectorField(at_rest, ["x", "y"])
    worst = []
    for width in (0.1, 0.05):
        found = ergode.density.propagate(
            still, ergode.Gaussian([0, 0], [0.01, 0.01]), times=[0, 0.3, 0.8], region=region,
            boundary="absorbing", process_noise=[1.0, 1.0], width=[width, 1.1 * width],
            threshold=1e-9, device=device,
        )  # fmt: skip
        worst.append(np.abs(found["survival"].values[1:] - [law(0.3), law(0.8)]).max())
        np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)
        assert found.attrs["method"] == "split"
    assert worst[0] < 0.003 and worst[1] < 0.0012


def at_rest(t, y, p):
    return (0.0, 0.0)


@DEVICES
@pytest.mark.parametrize("noise", [1e-12, 1e-3])
@pytest.mark.parametrize("wall", [1.0, 1.01])
def test_faint_noise_does_not_close_a_wall(noise, wall, device):
    """The wall is at the centre of a cell, or near it; it was passed by nobody."""
    found = absorbed(
        [0, 1], 0.05, drift=0.9, high=wall, prior=ergode.Gaussian([0], [0.04]), device=device,
        process_noise=[noise],
    )  # fmt: skip
    assert float(found["survival"][-1]) == pytest.approx(norm.cdf((wall - 0.9) / 0.2), abs=0.012)


@DEVICES
def test_a_constant_killing_rate_is_exponential(device):
    times = np.array([0, 0.7, 2.0])
    found = killed(times, 0.1, {"steady": 0.7}, device=device)
    np.testing.assert_allclose(found["survival"], np.exp(-0.7 * times), rtol=1e-6)
    np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["mean"], 0.0, atol=1e-9)
    np.testing.assert_allclose(found["covariance"].values.ravel(), 0.01 + times, rtol=1e-3)


@DEVICES
def test_a_quadratic_killing_rate_follows_riccati(device):
    def moments(t, u):
        return [1 - 2 * u[0] ** 2, -u[0] * u[1]]

    exact = solve_ivp(moments, (0, 1), [1.0, 1.0], rtol=1e-10, atol=1e-12).y[:, -1]
    for width, most in ((0.2, 0.003), (0.1, 0.0008)):
        prior = ergode.Gaussian([0], [1])
        found = killed([0, 1], width, {"square": 1.0}, prior=prior, device=device)
        got = float(found["covariance"][-1, 0, 0]), float(found["survival"][-1])
        np.testing.assert_allclose(got, exact, rtol=0, atol=most)


AT_TIMES = {"steady": 1.0, "wave": 1.0}


def test_a_killing_rate_may_depend_on_time_and_on_walls():
    times = np.array([0, 0.4, 1.5])
    found = killed(times, 0.05, AT_TIMES, high=1.0)
    both = absorbed(times, 0.05, process_noise=[1.0])
    taken = np.exp(-times - 0.25 * np.sin(4 * times))
    np.testing.assert_allclose(found["survival"], taken * both["survival"], rtol=2e-3)
    np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)


def test_densities_side_by_side_have_their_own_survival():
    options = {"process_noise": [1.0], "pull": 1.0, "device": "cpu"}
    one = absorbed([0, 1], 0.1, high=1.0, **options)
    two = absorbed([0, 1], 0.1, high=[1.0, 1.5], **options)
    np.testing.assert_array_equal(two["survival"].isel(trajectory=0), one["survival"])
    assert float(two["survival"][1, -1]) > float(one["survival"][-1]) + 0.1


def seen(y, t, p):
    return (y[0],)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": None}, "no region; expected region="),
        ({"boundary": "open"}, "boundary 'open' is unknown"),
        ({"scheme": "flow"}, "without a region"),
        ({"smooth": True}, "smooth=True"),
        ({"conserved": seen}, "conserved and region"),
    ],
)
def test_what_cannot_be_combined_is_refused(options, message):
    with pytest.raises(ergode.PlanError, match=message):
        absorbed([0, 1], 0.1, **options)


def test_a_prior_may_reach_the_wall():
    prior, worst = ergode.Gaussian([0.0], [0.25]), []
    for width in (0.1, 0.05):
        errors = []
        for part in (0.03, 0.37, 0.81, 0.97):
            wall = 0.4 + part * width
            x = np.linspace(-4, wall, 20_001)
            weight = np.exp(-2 * x * x)
            away = (wall - x) / math.sqrt(0.1)
            exact = (weight * (norm.cdf(away) - norm.cdf(-away))).sum() / weight.sum()
            found = absorbed([0, 0.1], width, high=wall, prior=prior, process_noise=[1.0])
            errors.append(float(found["survival"][-1]) - exact)
        worst.append(np.abs(errors).max())
    assert worst[0] < 0.006 and worst[1] < 0.0015  # a prior of whole cells: 0.022, 0.012


@DEVICES
def test_what_is_measured_has_survived(device):
    high, h = 1.02, 0.01
    x = np.arange(-4.0, high - 0.5 * h, h)  # the wall is at the next point
    rates = 0.5 / h**2 * (np.eye(x.size, k=1) - 2 * np.eye(x.size) + np.eye(x.size, k=-1))
    half = expm(0.5 * rates)
    before = half @ norm.pdf(x, 0, 0.1)
    before /= before.sum()
    after = before * norm.pdf(x, 0.6, 0.3)
    left = half @ (after / after.sum())
    found = absorbed(
        [0, 0.5, 1], 0.05, high=high, process_noise=[1.0], device=device,
        measurements=[ergode.Measurement(0.5, seen, 0.6, 0.09)],
    )  # fmt: skip
    np.testing.assert_allclose(balance(found), 1.0, rtol=0, atol=1e-12)
    assert float(found["log_evidence"][0]) == pytest.approx(math.log(after.sum()), abs=0.002)
    np.testing.assert_allclose(found["survival"], [1.0, 1.0, left.sum()], rtol=0, atol=0.002)
    np.testing.assert_allclose(float(found["mean"][-1, 0]), x @ left / left.sum(), atol=0.004)


def test_a_negative_rate_is_refused():
    with pytest.raises(ergode.PlanError, match="not a finite number"):
        killed([0, 1], 0.1, {"slope": 1.0})


def test_a_run_with_checkpoints_has_the_same_bits(tmp_path):
    whole = killed([0, 0.5, 1], 0.05, AT_TIMES, high=1.0)
    stored = killed(
        [0, 0.5, 1], 0.05, AT_TIMES, high=1.0, store=tmp_path / "run.zarr", checkpoint=0.001
    )
    for name in ("survival", "mass_absorbed", "mass_killed", "mean"):
        np.testing.assert_array_equal(stored[name], whole[name])
    assert "absorbing" in str(ergode.inputs(whole))


@pytest.mark.parametrize("absorbs", [True, False])
def test_cuda_kernels_compile(absorbs):
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    # On a circle, too.
    lattice = Lattice(np.zeros(1), np.ones(1), np.eye(1), is_rotated=False).periodic(np.ones(1))
    bindings = specialize.bindings_of(
        FIELD, [lattice], GRIDS["split"], Noise(np.eye(1)), "grid",
        limits=specialize.Limits(between, 0.0, np.inf, absorbs), killing=rate,
    )  # fmt: skip
    kernel = specialize.advance_kernel(bindings, "float64", "grid")
    grid, masses, frame, control = arguments(FIELD, "float64")
    text = cuda.ptx(
        kernel.compiled("cuda"), (0, 0, 0, 0, 0, 0, grid, masses, frame, control), optimized=False
    )
    assert "advance" in text
