"""The unscented Kalman filter against the linear one and particles; ready-made measurements."""

import math
import warnings

import numpy as np
import pytest
from scipy.linalg import expm

import ergode
from ergode.particles import compare, propagate, unscented_kalman
from ergode.particles.sigma_points import SigmaPoints

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def damped(t, y, p):
    return y[1], -p[0] * y[0] - 0.5 * y[1]


def noisy(t, y, p):
    return 0.3, 0.5 + 0.1 * t


def variances(t, y, p):
    return 0.09, (0.5 + 0.1 * t) ** 2


def first(y, t, p):
    return (y[0],)


def bearing(y, t, p):
    return (math.atan2(y[1], y[0]),)


def kepler(t, y, p):
    r3 = (y[0] * y[0] + y[1] * y[1]) ** 1.5
    return y[2], y[3], -y[0] / r3, -y[1] / r3


FIELD = ergode.VectorField(damped, ["x", "v"], ["stiffness"])
PRIOR = ergode.Gaussian([1.0, 0.0], [0.3, 0.2])
TIMES = [0.0, 0.5, 1.0, 2.0]
SEEN = [ergode.Measurement(0.75, first, 0.4, 0.1), ergode.Measurement(2.0, first, -0.2, 0.1)]
COMMON = {"times": TIMES, "measurements": SEEN, "parameters": {"stiffness": 1.0}, "device": "cpu"}


def plain_kalman(noise, steps=4000):
    """The linear filter by Heun steps of its own equations, from t = 0 to 2."""
    A = np.array([[0.0, 1.0], [-1.0, -0.5]])
    mean, covariance = PRIOR.mean.copy(), PRIOR.covariance.copy()
    h = 2.0 / steps
    for k in range(steps):
        Q = [np.diag(noise((k + j) * h)) for j in (0, 1)]
        slope = A @ covariance + covariance @ A.T + Q[0]
        guess = covariance + h * slope
        covariance = covariance + 0.5 * h * (slope + A @ guess + guess @ A.T + Q[1])
        mean = mean + h * (A @ mean + 0.5 * h * A @ A @ mean)
        for one in SEEN:
            if abs(one.time - (k + 1) * h) < 0.5 * h:
                gain = covariance[:, 0] / (covariance[0, 0] + 0.1)
                mean = mean + gain * (one.value[0] - mean[0])
                covariance = covariance - np.outer(gain, covariance[0])
    return mean, covariance


@pytest.mark.parametrize("way", ["none", "diffusion", "process_noise", "function"])
def test_linear_equations_are_followed_exactly(way):
    field, more = FIELD, {}
    if way == "diffusion":
        field = ergode.VectorField(damped, ["x", "v"], ["stiffness"], diffusion=noisy)
    elif way == "process_noise":
        more = {"process_noise": np.diag([0.09, 0.3])}
    elif way == "function":
        more = {"process_noise": variances}
    found = unscented_kalman(field, PRIOR, **COMMON, **more)
    noise = {
        "none": lambda t: [0.0, 0.0], "process_noise": lambda t: [0.09, 0.3],
    }.get(way, lambda t: variances(t, None, None))  # fmt: skip
    mean, covariance = plain_kalman(noise)
    np.testing.assert_allclose(found["mean"].values[-1], mean, atol=2e-5)
    np.testing.assert_allclose(found["covariance"].values[-1], covariance, atol=2e-5)


def test_alpha_beta_and_kappa_do_not_matter_where_it_is_exact():
    one = unscented_kalman(FIELD, PRIOR, **COMMON)
    other = unscented_kalman(FIELD, PRIOR, alpha=1.0, beta=0.0, kappa=1.0, **COMMON)
    for name in ("mean", "covariance", "log_evidence", "prior_covariance"):
        np.testing.assert_allclose(other[name], one[name], atol=1e-7)


def test_times_of_the_result_do_not_matter():
    few = unscented_kalman(FIELD, PRIOR, **COMMON | {"times": [0.0, 2.0]})
    many = unscented_kalman(FIELD, PRIOR, **COMMON | {"times": np.linspace(0, 2, 21)})
    np.testing.assert_allclose(many["mean"].values[-1], few["mean"].values[-1], atol=1e-9)


@pytest.mark.parametrize("noise", [None, [0.1, 0.1]])
def test_a_single_time_and_a_measurement_at_the_beginning(noise):
    seen = [ergode.Measurement(0.0, first, 1.3, 0.3)]
    found = unscented_kalman(
        FIELD, PRIOR, times=[0.0], measurements=seen, parameters={"stiffness": 1.0},
        process_noise=noise, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["mean"][0], [1.15, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["covariance"][0], np.diag([0.15, 0.2]), atol=1e-12)


def test_filters_side_by_side_are_those_alone():
    values, stiffness = [[0.4], [0.9], [-1.0]], [1.0, 2.0, 0.5]
    together = unscented_kalman(
        FIELD, PRIOR, times=TIMES, parameters={"stiffness": stiffness}, device="cpu",
        measurements=[ergode.Measurement(0.75, first, values, 0.1)],
    )  # fmt: skip
    assert together["mean"].dims == ("trajectory", "time", "variable")
    for k in range(3):
        alone = unscented_kalman(
            FIELD, PRIOR, times=TIMES, parameters={"stiffness": stiffness[k]}, device="cpu",
            measurements=[ergode.Measurement(0.75, first, values[k], 0.1)],
        )  # fmt: skip
        for name in ("mean", "covariance", "log_evidence", "normalised_innovation_squared"):
            np.testing.assert_allclose(together[name][k], alone[name], rtol=1e-6, atol=1e-8)


def test_moments_of_a_square_are_exact():
    transform = SigmaPoints(1, 1.0, 2.0, 0.0)
    points = transform.points(np.array([[0.5]]), np.array([[[2.0]]]))
    mean, covariance = transform.moments(points**2)
    # Of the square of a normal variable of mean m and variance v: m^2 + v, and 4 m^2 v + 2 v^2.
    np.testing.assert_allclose([mean[0, 0], covariance[0, 0, 0]], [2.25, 10.0])


@pytest.mark.parametrize("device", DEVICES)
def test_a_bearing_across_the_seam_and_particles(device):
    """A narrow density behind the observer: angles jump by 2 pi there, and must not matter."""
    field = ergode.VectorField(kepler, ["x", "y", "u", "v"])
    prior = ergode.Gaussian([-1.0, 0.0, 0.0, -1.0], [4e-4, 4e-4, 1e-4, 1e-4])
    seen = [ergode.Measurement(0.1, bearing, math.pi + 0.12, 1e-4, angles=[0])]
    common = {"times": [0.0, 0.1, 1.0], "measurements": seen, "device": device}
    found = unscented_kalman(field, prior, **common)
    exact = propagate(field, prior, count=100_000, **common)
    deviation = np.sqrt(np.diagonal(exact["covariance"].values, axis1=1, axis2=2))
    # Six standard errors of the particles that count.
    error = 6 * deviation / np.sqrt(exact["effective_count"].values[:, None])
    assert (np.abs(found["mean"] - exact["mean"].values) < error + 0.02 * deviation).all()
    spread = np.sqrt(np.diagonal(found["covariance"].values, axis1=1, axis2=2))
    assert (np.abs(spread / deviation - 1.0) < 0.05).all()
    assert abs(float(found["log_evidence"][0] - exact["log_evidence"][0])) < 0.05


def mixed(y, t, p):
    return y[0] + 2.0 * y[1] - y[2], y[0] - y[1], y[1] + 0.5 * y[2], y[0] + y[2]


@pytest.mark.parametrize("wide", [1.0, 1e6, 1e12, 1e18])
def test_a_prior_may_be_wider_than_the_noise_by_any_factor(wide):
    """Four instruments of one time, against the sum of informations."""
    slopes = np.array([[1.0, 2, -1], [1, -1, 0], [0, 1, 0.5], [1, 0, 1]])
    noise = 1e-4 * (np.eye(4) + 0.5)
    value = slopes @ [1.0, -2.0, 0.5] + [0.01, -0.02, 0.005, 0.01]
    found = unscented_kalman(
        ergode.fields.lorenz63(), ergode.Gaussian([0.0] * 3, [wide] * 3), times=[0.0],
        parameters={"sigma": 10, "rho": 28, "beta": 8 / 3}, device="cpu",
        measurements=[ergode.Measurement(0.0, mixed, value, noise)],
    )  # fmt: skip
    weight = slopes.T @ np.linalg.inv(noise)
    information = weight @ slopes + np.eye(3) / wide
    mean = np.linalg.solve(information, weight @ value)
    square = value @ np.linalg.solve(noise, value - slopes @ mean)
    volume = sum(np.linalg.slogdet(one)[1] for one in (information, noise, 2 * np.pi * np.eye(4)))
    assert found["status"].item() == ergode.Status.DONE
    np.testing.assert_allclose(found["mean"].values[-1], mean, rtol=1e-6)
    np.testing.assert_allclose(
        found["covariance"].values[-1], np.linalg.inv(information), rtol=1e-6
    )
    squares = found["normalised_innovation_squared"]
    np.testing.assert_allclose(squares, square, rtol=1e-6)
    evidence = -0.5 * (square + volume + 3 * np.log(wide))
    np.testing.assert_allclose(found["log_evidence"], evidence, rtol=1e-6)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_units_do_not_matter(unit):
    """A Kalman filter and particles, with variables in units 2^40 apart."""
    part = np.array([[0.5, 0.1], [0.2, -0.4]])
    seen = [ergode.Measurement(0.0, first, 0.4, 0.1), ergode.Measurement(0.0, first, 0.1, 0.2)]
    both = []
    for units in (np.ones(2), np.array([1.0, unit])):
        scaled = units[:, None] * part
        problem = FIELD, ergode.Gaussian([1.0, 0.5] * units, scaled @ scaled.T)
        common = {
            "times": [0.0], "measurements": seen, "device": "cpu", "parameters": {"stiffness": 1.0},
            "maneuvers": [ergode.Maneuver(0.0, [0.1, -0.2] * units, scaled @ scaled.T)],
        }  # fmt: skip
        filters = unscented_kalman(*problem, **common)
        cloud = propagate(*problem, count=500, regularise=True, resample_below=1.0, **common)
        both.append(
            [one["mean"] / units for one in (filters, cloud)]
            + [one["covariance"] / np.outer(units, units) for one in (filters, cloud)]
        )
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [2.0**-60, 2.0**60])
def test_the_size_of_a_state_does_not_matter(size):
    """The equations are linear: a state in other units has the same steps."""
    common = {"times": [0, 2], "parameters": {"stiffness": 1.0}, "device": "cpu"}
    for run in (unscented_kalman, lambda *given, **named: propagate(*given, count=50, **named)):
        plain, other = (
            run(FIELD, ergode.Gaussian(one * PRIOR.mean, one**2 * PRIOR.covariance), **common)
            for one in (1.0, size)
        )
        np.testing.assert_allclose(other["mean"] / size, plain["mean"], rtol=1e-12)
        np.testing.assert_allclose(other["covariance"] / size**2, plain["covariance"], rtol=1e-12)


def test_steps_are_as_fine_as_a_narrow_prior_asks():
    """Known to nine digits, as an orbit from ranging."""
    A, narrow, count = np.array([[0.0, 1.0], [-1.0, -0.5]]), 1e-9, 2000
    move = expm(20.0 * A)
    exact = move @ move.T
    deviation = narrow * np.sqrt(np.diag(exact))
    prior = ergode.Gaussian([1e3, 1e3], [1e6 * narrow**2] * 2)
    common = {"times": [0, 20], "parameters": {"stiffness": 1.0}, "device": "cpu"}
    for run, error in (
        (unscented_kalman(FIELD, prior, **common), 0.05),
        (propagate(FIELD, prior, count=count, **common), 6 / count**0.5),
    ):
        away = run["mean"].values[-1] / 1e3 - move @ [1.0, 1.0]
        assert (np.abs(away) < error * deviation).all()
        spread = np.sqrt(np.diag(run["covariance"].values[-1])) / 1e3
        np.testing.assert_allclose(spread, deviation, rtol=0.1)


def test_moments_of_particles_far_from_zero():
    found = propagate(
        FIELD, ergode.Gaussian([2.0**40, 0.0], [1e-4, 1e-4]), times=[0], count=100_000,
        parameters={"stiffness": 1.0}, device="cpu", keep="all",
    )  # fmt: skip
    x = found["particle"].values[0, :, 0] - 2.0**40
    assert found["mean"].values[0, 0] - 2.0**40 == pytest.approx(x.mean(), abs=3e-4)
    assert found["covariance"].values[0, 0, 0] == pytest.approx(x.var(), rel=0.01)


def test_what_blows_up_is_missing_and_the_others_go_on():
    field = ergode.VectorField(lambda t, y, p: (p[0] * y[0] * y[0],), ["y"], ["rate"])
    with pytest.warns(ergode.FailureWarning):
        found = unscented_kalman(
            field, ergode.Gaussian([1.0], [0.01]), times=[0, 0.5, 2], device="cpu",
            parameters={"rate": [0.0, 1.0]},
        )  # fmt: skip
    assert found["status"].values.tolist() == [ergode.Status.DONE, ergode.Status.NOT_FINITE]
    np.testing.assert_allclose(found["mean"].values[0], 1.0)
    assert np.isfinite(found["mean"].values[1, :2]).all()
    assert np.isnan(found["mean"].values[1, 2]).all()


def test_refusals():
    likely = ergode.Measurement(1.0, likelihood=lambda y, t, p: (-(y[0] ** 2),))
    with pytest.raises(ergode.ModelError, match="at time 1 has a likelihood; a Kalman"):
        unscented_kalman(FIELD, PRIOR, **COMMON | {"measurements": [likely]})
    for options, message in (
        ({"alpha": 0.0}, "alpha is 0.0; expected a positive"),
        ({"kappa": -2}, "kappa is -2"),
        ({"step": -1.0}, "step is -1.0"),
        ({"rtol": 0.0}, "rtol is 0.0"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            unscented_kalman(FIELD, PRIOR, **COMMON, **options)


def test_a_regularised_filter_does_not_degenerate():
    """Twenty measurements without noise: copies and weights alone leave few particles."""
    seen = [
        ergode.Measurement(float(t), first, math.exp(-0.25 * t) * math.cos(t), 1e-3)
        for t in np.linspace(0.25, 5, 20)
    ]
    common = COMMON | {"times": [0, 5], "measurements": seen}
    exact = unscented_kalman(FIELD, PRIOR, **common)
    found = propagate(FIELD, PRIOR, count=4000, regularise=True, seed=3, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.AccuracyWarning)
        plain = propagate(FIELD, PRIOR, count=4000, seed=3, **common)
    assert float(found["effective_count_at_measurement"][1:].min()) > 1000
    assert float(plain["effective_count_at_measurement"].min()) < 400
    deviation = np.sqrt(np.diag(exact["covariance"].values[-1]))
    assert (np.abs(found["mean"].values[-1] - exact["mean"].values[-1]) < 0.3 * deviation).all()
    ratio = np.sqrt(np.diag(found["covariance"].values[-1])) / deviation
    assert (np.abs(ratio - 1.0) < 0.15).all()
    assert abs(float(found["log_evidence"].sum() - exact["log_evidence"].sum())) < 0.5


def test_a_comparison_shows_all_three():
    found = compare(FIELD, PRIOR, width=0.1, count=20_000, **COMMON)
    assert found["tool"].values.tolist() == ["density", "particles", "kalman"]
    exact = found["mean"].sel(tool="kalman").values
    np.testing.assert_allclose(found["mean"].sel(tool="density").values, exact, atol=0.02)
    area = (found["marginal"].sum("bin") * found["position"].diff("bin").mean("bin")).values
    np.testing.assert_allclose(area, 1.0, atol=0.02)
    np.testing.assert_allclose(
        found["log_evidence"].sel(tool="kalman"), found["log_evidence"].sel(tool="density"),
        atol=0.03,
    )  # fmt: skip
    ergode.plots.comparison(found)


class TestInstruments:
    STATE = (1.0, -2.0, 0.5, 0.3, 0.2, -0.4)
    SITE, SPIN, TIME = np.array([0.4, 0.1, -0.2]), 0.7, 1.3

    def place(self, t):
        c, s = math.cos(self.SPIN * t), math.sin(self.SPIN * t)
        x, y, z = self.SITE
        return np.array([c * x - s * y, s * x + c * y, z])

    def options(self):
        return {"position": (0, 1, 2), "site": self.SITE, "spin": self.SPIN}

    def test_range_and_direction(self):
        away = np.array(self.STATE[:3]) - self.place(self.TIME)
        seen = ergode.Measurement.range(self.TIME, 1.0, 0.1, **self.options())
        np.testing.assert_allclose(seen.h(self.STATE, self.TIME, ()), [np.linalg.norm(away)])
        seen = ergode.Measurement.direction(self.TIME, [1.0, 0.0], [0.1, 0.1], **self.options())
        azimuth, elevation = seen.h(self.STATE, self.TIME, ())
        pointing = [
            math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth),
            math.sin(elevation),
        ]  # fmt: skip
        np.testing.assert_allclose(pointing, away / np.linalg.norm(away))
        plane = ergode.Measurement.direction(0.0, 0.5, 0.1, position=(1, 0))
        assert plane.h((3.0, 4.0), 0.0, ()) == (math.atan2(3.0, 4.0),)

    def test_range_rate_is_the_derivative_of_the_range(self):
        state, small = np.array(self.STATE), 1e-6
        seen = ergode.Measurement.range_rate(
            self.TIME, 0.0, 0.1, velocity=(3, 4, 5), **self.options()
        )
        distances = [
            np.linalg.norm(state[:3] + s * state[3:] - self.place(self.TIME + s))
            for s in (-small, small)
        ]
        rate = (distances[1] - distances[0]) / (2 * small)
        np.testing.assert_allclose(seen.h(self.STATE, self.TIME, ()), [rate], rtol=1e-6)

    def test_an_orbit_is_found(self):
        """Ranges, range rates and bearings of a circular orbit, through the public filter."""
        where = {"position": (0, 1), "site": (0.3, -0.2), "spin": 0.5}
        seen = []
        for t in np.linspace(0.2, 3.0, 15):
            state = (math.cos(t), math.sin(t), -math.sin(t), math.cos(t))
            for make, more in (
                (ergode.Measurement.range, {}),
                (ergode.Measurement.range_rate, {"velocity": (2, 3)}),
                (ergode.Measurement.direction, {}),
            ):
                value = make(t, 0.0, 1e-8, **where, **more).h(state, t, ())
                seen.append(make(t, value, 1e-8, **where, **more))
        field = ergode.VectorField(kepler, ["x", "y", "u", "v"])
        prior = ergode.Gaussian([1.01, -0.01, 0.01, 1.005], [1e-4] * 4)
        found = unscented_kalman(field, prior, times=[0, 3.0], measurements=seen, device="cpu")
        end = [math.cos(3.0), math.sin(3.0), -math.sin(3.0), math.cos(3.0)]
        np.testing.assert_allclose(found["mean"].values[-1], end, atol=2e-4)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"position": (0,)}, "position is .*; expected 2 or 3 different indices"),
            ({"position": (0, 0)}, "different indices"),
            ({"position": "xy"}, "position is 'xy'"),
            ({"position": (0, 1), "site": (1.0,)}, "site is .*; expected 2 finite numbers"),
            ({"position": (0, 1), "spin": math.nan}, "spin is nan"),
            ({"position": (0, 9)}, None),
        ],
    )
    def test_refusals(self, options, message):
        if message is not None:
            with pytest.raises(ergode.ModelError, match=message):
                ergode.Measurement.range(1.0, 1.0, 0.1, **options)
            return
        seen = ergode.Measurement.range(1.0, 1.0, 0.1, **options)
        with pytest.raises(ergode.ModelError, match=r"function 'h' uses y\[9\], but there are 2"):
            unscented_kalman(FIELD, PRIOR, **COMMON | {"measurements": [seen]})
