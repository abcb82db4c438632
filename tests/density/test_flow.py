"""Points that follow the flow against exact answers: linear systems, drift, and every prior."""

import warnings

import numpy as np
import pytest
from density_cases import LINEAR, ROTATION, first, lorenz
from scipy.linalg import expm

import ergode
from ergode.core import kernels
from ergode.core.errors import PlanError
from ergode.density import views
from ergode.density.flow import carrier, images_kernels, points_kernels, sums
from ergode.density.grid import lattice
from ergode.density.grid.lattice import Frame

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
A = np.array([[-0.3, -2.0], [1.5, 0.1]])
SHIFT = np.array([1.0, -2.0])
STILL = dict.fromkeys("abcdef", 0.0)


def flow(prior, times, A=A, shift=SHIFT, **options):
    settings = {"device": "cpu:2", "keep": "none", "scheme": "flow"} | options
    values = dict(zip("abcdef", (*np.ravel(A), *shift), strict=True))
    return ergode.density.propagate(LINEAR, prior, times=times, parameters=values, **settings)


def carried(mean, covariance, time):
    """Mean and covariance of a linear system at a time."""
    whole = expm(time * np.block([[A, SHIFT[:, None]], [np.zeros((1, 3))]]))
    transition, moved = whole[:2, :2], whole[:2, 2]
    return transition @ mean + moved, transition @ covariance @ transition.T


def test_ten_periods_of_an_oscillator_far_from_its_centre_leave_its_width():
    prior = ergode.Gaussian([10.0, 0.0], [0.01, 0.01])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ergode.AccuracyWarning)
        found = ergode.density.propagate(
            LINEAR, prior, times=[0.0, 10.0], parameters=ROTATION, scheme="flow", device="cpu:2"
        )
    assert np.allclose(found["mean"][-1], [10.0, 0.0], atol=2e-4)
    assert np.allclose(found["covariance"][-1], 0.01 * np.eye(2), atol=1e-5)
    assert np.isnan(float(found["unreliable_from"])) and found["status"] == 0


def test_a_width_that_leaves_one_point_is_refused():
    with pytest.raises(PlanError, match="width is 10 standard deviations .* leaves one point"):
        flow(ergode.Gaussian([1.0, 0.5], [1.0, 1.0]), [0.0, 1.0], width=10.0)


def test_a_gaussian_posterior_takes_two_new_lattices_at_most():
    """A lattice has weight at its edge: as much as a Gaussian has there is not too much."""
    seen = [ergode.Measurement(t, first, 0.5, 0.01) for t in (0.3, 0.6)]
    found = flow(ergode.Gaussian([1.0, 0.5], [1.0, 0.5]), [0.0, 1.0], measurements=seen)
    assert found.attrs["lattices"] <= 5


@DEVICES
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_measurements_of_a_linear_system_are_those_of_kalman(device, precision):
    """The third has a twentieth of the deviation; in any unit."""
    rtol = {"float64": 0.005, "float32": 0.01}[precision]
    for unit in (1.0, 2.0**20):
        mean, covariance = np.array([1.0, 0.5]), np.array([[1.0, 0.3], [0.3, 0.5]])
        seen = [(0.5, 0.4, 1.0), (1.0, -1.0, 0.25), (1.4, 0.3, 0.003)]
        found = flow(
            ergode.Gaussian(mean * unit, covariance * unit**2), [0.0, 1.0, 1.4, 2.0],
            shift=SHIFT * unit, device=device, precision=precision,
            measurements=[ergode.Measurement(t, first, v * unit, r * unit**2) for t, v, r in seen],
        )  # fmt: skip
        time, evidences, states = 0.0, [], {}
        for at in (0.5, 1.0, 1.4, 2.0):
            mean, covariance = carried(mean, covariance, at - time)
            time = at
            for t, v, r in seen:
                if t == at:
                    spread = covariance[0, 0] + r
                    evidences.append(
                        -0.5 * ((v - mean[0]) ** 2 / spread + np.log(2 * np.pi * spread * unit**2))
                    )
                    gain = covariance[:, 0] / spread
                    mean = mean + gain * (v - mean[0])
                    covariance = covariance - spread * np.outer(gain, gain)
            states[at] = mean, covariance
        assert np.allclose(found["log_evidence"], evidences, atol=0.01)
        for row, at in ((1, 1.0), (2, 1.4), (3, 2.0)):
            deviation = np.sqrt(np.diag(states[at][1])) * unit
            away = (found["mean"].values[row] - states[at][0] * unit) / deviation
            assert np.abs(away).max() < 2 * rtol
            wide = np.sqrt(np.diag(found["covariance"].values[row])) / deviation
            assert np.allclose(wide, 1.0, atol=3 * rtol)
        assert np.isnan(float(found["unreliable_from"]))


@pytest.mark.parametrize("value", [-8.0, 9.0])
def test_a_measurement_far_in_the_tail_is_that_of_kalman(value):
    """At half a period an oscillator of deviation 0.1 is at -10: up to 190 deviations away."""
    found = flow(
        ergode.Gaussian([10.0, 0.0], [0.01, 0.01]), [0.0, 1.0],
        2 * np.pi * np.array([[0, -1], [1, 0]]), [0.0, 0.0],
        measurements=[ergode.Measurement(0.5, first, value, 0.01)],
    )  # fmt: skip
    assert np.allclose(found["mean"][-1], [(10.0 - value) / 2, 0.0], atol=1e-3)
    assert np.allclose(found["covariance"][-1], np.diag([0.005, 0.01]), atol=3e-5)
    exact = -0.5 * (value + 10.0) ** 2 / 0.02 - 0.5 * np.log(2 * np.pi * 0.02)
    assert float(found["log_evidence"][0]) == pytest.approx(exact, abs=0.005)
    assert np.isnan(float(found["unreliable_from"]))


@DEVICES
def test_a_filament_is_followed_by_few_points(device):
    """Lorenz '63 with a measurement, against 3e5 points; the frame is that of the prior."""
    found = lorenz("flow", width=None, threshold=None, keep="none", device=device)
    deviation = np.array([6.0198, 0.9917, 0.9331])
    away = (found["mean"].values[-1] - [-1.9658, -0.3281, 1.8362]) / deviation
    assert np.abs(away).max() < 0.01
    assert np.allclose(np.sqrt(np.diag(found["covariance"][-1])), deviation, rtol=0.01)
    assert float(found["log_evidence"][0]) == pytest.approx(-4.2943, abs=0.01)
    assert found.attrs["points"] < 48_000


@DEVICES
def test_a_bank_has_the_results_of_each_alone(device):
    priors = [ergode.Gaussian([1.0, 0.5], [1.0, 0.5]), ergode.Gaussian([-1.0, 2.0], [0.2, 2.0])]
    values = np.array([[0.4], [3.0]])
    both = flow(
        priors, [0.0, 0.5, 1.0], measurements=[ergode.Measurement(0.5, first, values, 0.01)],
        device=device,
    )  # fmt: skip
    for which, prior in enumerate(priors):
        one = flow(
            prior, [0.0, 0.5, 1.0], device=device,
            measurements=[ergode.Measurement(0.5, first, values[which], 0.01)],
        )  # fmt: skip
        for name in ("mean", "covariance", "log_evidence"):
            assert np.array_equal(both[name].values[which], one[name].values)


def test_every_prior():
    """Moments of a mixture, samples and a box, moved without change."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(500, 2))
    heaps = ergode.Mixture(
        [1, 3], [ergode.Gaussian([-9.0, 0.0], [0.1, 0.1]), ergode.Gaussian([5.0, 1.0], [1.0, 2.0])]
    )
    box = ergode.Density(
        lambda x: np.where((np.abs(x) <= 1.0).all(axis=1), 0.0, -np.inf), [0.0, 0.0], [1 / 3, 1 / 3]
    )
    for prior, exact, most in (
        (heaps, heaps.covariance, 1e-4),
        (ergode.Samples(points), np.cov(points.T, bias=True), 1e-9),
        (box, np.eye(2) / 3, 0.05),
    ):  # fmt: skip
        found = flow(prior, [0.0, 1.0], A=np.zeros((2, 2)))
        assert np.allclose(found["mean"][-1], prior.mean + SHIFT, atol=0.02)
        assert np.allclose(found["covariance"][-1], exact, atol=most * np.abs(exact).max())


@DEVICES
def test_cells_are_images_of_cells_of_the_prior(device):
    """A stretched density has no holes: its marginals are those of a Gaussian."""
    mean, covariance = carried(np.array([1.0, 0.5]), np.diag([1.0, 0.5]), 1.0)
    prior = ergode.Gaussian([1.0, 0.5], [1.0, 0.5])
    found = flow(prior, [0.0, 1.0], keep="all", width=0.2, device=device)
    cells = views.cells_at(found, 1.0)
    assert float(cells["mass"].sum()) == pytest.approx(1.0)
    centre = cells["mass"].values @ cells["point"].values
    assert np.allclose(centre, mean, atol=0.02)
    for name, variance, middle in zip("xy", np.diag(covariance), mean, strict=True):
        one = views.marginal(cells, name)
        x = one[name].values
        exact = np.exp(-0.5 * (x - middle) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        step = float(x[1] - x[0])
        mass = one.values * (step if one.values.sum() * step < 2 else 1.0)
        assert 0.5 * np.abs(mass / mass.sum() - exact * step).sum() < 0.02


@pytest.mark.parametrize("value", [1.0, 4.0])
def test_a_square_that_is_measured_has_two_lobes(value):
    """Each is narrower than the points of the prior are apart; by quadrature."""

    def square(y, t, p):
        return (y[0] * y[0],)

    def still(t, y, p):
        return (0.0,)

    found = ergode.density.propagate(
        ergode.VectorField(still, ["x"]), ergode.Gaussian([0.0], [1.0]), times=[0.0, 1.0],
        measurements=[ergode.Measurement(1.0, square, [value], [0.05])], scheme="flow",
        device="cpu:2", keep="none",
    )  # fmt: skip
    x = np.linspace(-8.0, 8.0, 200_001)
    weight = np.exp(-0.5 * x**2 - 0.5 * (x**2 - value) ** 2 / 0.05) / np.sqrt(2 * np.pi)
    evidence = np.trapezoid(weight, x) / np.sqrt(2 * np.pi * 0.05)
    variance = np.trapezoid(weight * x**2, x) / np.trapezoid(weight, x)
    np.testing.assert_allclose(found["log_evidence"], [np.log(evidence)], atol=3e-3)
    np.testing.assert_allclose(found["covariance"][-1], variance, rtol=2e-3)
    assert abs(float(found["mean"][-1, 0])) < 1e-9 and np.isnan(found["unreliable_from"])


def test_a_double_well_is_resolved_by_default():
    """What begins between two wells ends in both of them: x(t) is known."""
    found = ergode.density.propagate(
        ergode.VectorField(lambda t, y, p: (y[0] - y[0] * y[0] * y[0],), ["x"]),
        ergode.Gaussian([0.0], [0.25]), times=[0.0, 3.0, 6.0], device="cpu:2", keep="none",
    )  # fmt: skip
    x = np.linspace(-4.0, 4.0, 200_001)
    weight = np.exp(-2.0 * x**2)
    grown = np.exp(2.0 * found["time"].values)[:, None]
    squares = x**2 * grown / (1.0 + x**2 * (grown - 1.0))
    exact = np.sqrt(squares @ weight / weight.sum())
    np.testing.assert_allclose(np.sqrt(found["covariance"][:, 0, 0]), exact, rtol=0.01)
    assert np.isnan(float(found["unreliable_from"]))


def test_a_measurement_that_nothing_allows_is_impossible():
    with pytest.warns(ergode.FailureWarning, match="impossible"):
        found = flow(
            ergode.Gaussian([0.0, 0.0], [1.0, 1.0]), [0.0, 0.5, 1.0],
            measurements=[ergode.Measurement(0.75, likelihood=lambda y, t, p: (-math_inf(y[0]),))],
        )  # fmt: skip
    assert found["status"] == ergode.Status.IMPOSSIBLE
    assert found.sizes["time"] == 2


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_its_cuda_kernels_compile(precision):
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    size, count, groups = 2, 8, 1
    one, log = np.zeros((1, size)), np.zeros((1, count))
    points = np.zeros((size, 1, count), precision)
    row = one.astype(precision)
    frame = Frame(
        row, row, np.eye(size, dtype=precision)[None], np.zeros((1, 6), precision), row, row
    )
    still = np.zeros((size, size)), np.zeros(3)
    logs = (log,) * 4
    follow = (0, count, count, 0.0, 1.0, np.zeros(1), one, *still, frame, points, *logs)
    kills = carrier.kernel_of(LINEAR, precision, "cuda", killing=lambda y, t, p: (y[0] * y[0],))
    assert "__local_depot" not in cuda.ptx(kills.compiled("cuda"), follow)
    summit = np.zeros((1, 1 + size))
    turning = {lattice.DIMENSION: size, sums.PERIODS: (0.0, 6.0)}
    turn = kernels.for_each(sums.turn, bindings=turning)
    out = np.zeros((1, size, 2, groups))
    cuda.ptx(turn.compiled("cuda"), (0, 1, count, groups, summit, points, log, out))
    add_up = kernels.for_each(sums.add_up)
    whole, signs = np.zeros(3, np.int64), np.ones(count, np.int8)
    out = np.zeros((1, 3, 2, groups))
    cuda.ptx(
        add_up.compiled("cuda"),
        (0, 3, count, groups, whole, whole, summit, signs, signs, points, log, out),
    )
    largest = kernels.for_each(sums.largest)
    found = np.zeros((1, 2, groups))
    cuda.ptx(largest.compiled("cuda"), (0, 1, count, groups, log, found))
    of_all = kernels.for_each(sums.summit, bindings={lattice.DIMENSION: size})
    cuda.ptx(of_all.compiled("cuda"), (0, 1, groups, found, points, summit))
    gather = kernels.for_each(sums.gather)
    cuda.ptx(gather.compiled("cuda"), (0, 1, 1, 1, log, log))
    numbers, flags = np.zeros(count, np.int64), np.zeros(count, np.int8)
    cells, beside = np.zeros((1 + size, count), np.int32), np.zeros((size, 2, count), np.int32)
    exact, edges = np.zeros((size, 1, count)), np.zeros((1, size, size))
    of_new_lattices = [
        (points_kernels.choose, count, numbers, points[:, 0], points[:, 0]),
        (points_kernels.by_prior, one, edges, np.zeros(1), np.zeros(1), 0.0, exact, log),
        (points_kernels.claim, numbers, cells, numbers, numbers),
        (points_kernels.divide, 4, numbers[:size], one, edges, cells, numbers, numbers, cells,
         beside, exact, flags, flags),
        (points_kernels.bin_weights, count, groups, 0.0, 0.0, log, log, np.zeros((2, 256, groups))),
        (sums.temper, count, groups, 0, log, log, np.zeros((3, 1, groups))),
        (sums.shell, count, groups, 9.0, one[0], one[0], edges, exact, *3 * [log],
         np.zeros((3, 81, groups))),
    ]  # fmt: skip
    for body, *arguments in of_new_lattices if precision == "float64" else []:
        cuda.ptx(kernels.for_each(body).compiled("cuda"), (0, 1, *arguments))
    shared = edges[0], points, log, beside
    of_images = [
        (images_kernels.count_parts, count, groups, 0, 0.0, one[0], one[0], *shared, log),
        (images_kernels.draw_parts, 1, 0, 0.0, 2.0, 8.0, 0.0, one[0], edges[0], numbers, 21, 9,
         *shared[1:], numbers, numbers, numbers),
    ]  # fmt: skip
    for body, *arguments in of_images if precision == "float64" else []:
        kernel = kernels.for_each(body, bindings={lattice.DIMENSION: size})
        cuda.ptx(kernel.compiled("cuda"), (0, 1, *arguments))


def math_inf(x):
    return 1e308 * 10.0 + 0.0 * x


def test_what_only_a_fixed_grid_can_do_is_refused():
    prior = ergode.Gaussian([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ergode.PlanError, match="without a region"):
        flow(prior, [0.0, 1.0], region=first_of)
    with pytest.raises(ergode.PlanError, match="threshold has no effect"):
        flow(prior, [0.0, 1.0], threshold=1e-5)


def first_of(y, t, p):
    return (y[0],)
