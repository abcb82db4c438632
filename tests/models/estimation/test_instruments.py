"""Instruments: stations on a turning ellipsoid, light time, and biases that are states."""

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import brentq

import ergode
from ergode.core.compiler.language import UserFunction
from ergode.core.errors import ModelError

LIGHT = 100.0  # times the speed of a circular orbit: far slower than that of the Earth
PLACE = dict(position=(0, 1, 2), velocity=(3, 4, 5))
TURNING = dict(site=(0.2, -0.1, 0.3), spin=0.7)


def kepler(t, y, p):
    r3 = (y[0] * y[0] + y[1] * y[1] + y[2] * y[2]) ** 1.5
    return y[3], y[4], y[5], -y[0] / r3, -y[1] / r3, -y[2] / r3


ORBIT = ergode.VectorField(kepler, ["x", "y", "z", "vx", "vy", "vz"])


def state(t):
    """A circular orbit about the axis (0, -0.6, 0.8)."""
    c, s = np.cos(t), np.sin(t)
    return np.array([c, 0.8 * s, 0.6 * s, -s, 0.8 * c, 0.6 * c])


def site(t):
    (x, y, z), w = TURNING["site"], TURNING["spin"]
    c, s = np.cos(w * t), np.sin(w * t)
    return np.array([x * c - y * s, x * s + y * c, z])


def legs(t):
    """Lengths of the way down and of the way up of a signal that arrives at time t."""

    def apart(a, b):
        return np.linalg.norm(state(a)[:3] - site(b))

    down = brentq(lambda q: q - apart(t - q / LIGHT, t), 0, 10, xtol=1e-15, rtol=1e-15)
    left = t - down / LIGHT
    up = brentq(lambda q: q - apart(left, left - q / LIGHT), 0, 10, xtol=1e-15, rtol=1e-15)
    return down, up


def seen(make, t, light=None, **more):
    call = getattr(ergode.Measurement, make)
    given = PLACE if make == "range_rate" else {"position": PLACE["position"]}
    size = 1 if make.startswith("range") else 2
    found = call(t, [0.0] * size, [1.0] * size, light=light, **given, **TURNING, **more)
    return np.array(found.h(tuple(state(t)), t, ()))


@pytest.mark.parametrize("two_way", [False, True])
def test_light_time_is_that_of_the_equation(two_way):
    """Ranges, and rates as their derivatives, of an orbit in closed form."""
    light = ergode.LightTime(LIGHT, ORBIT, two_way=two_way)

    def length(t):
        down, up = legs(t)
        return 0.5 * (down + up) if two_way else down

    for t in (0.0, 0.9, 2.3, 5.0):
        assert seen("range", t, light)[0] == pytest.approx(length(t), abs=1e-9)
        h = 1e-4
        slope = (8 * (length(t + h) - length(t - h)) - length(t + 2 * h) + length(t - 2 * h)) / (
            12 * h
        )
        assert seen("range_rate", t, light)[0] == pytest.approx(slope, abs=1e-9)
        assert abs(seen("range", t)[0] - length(t)) > 1e-4


def test_the_direction_is_that_of_the_place_where_light_left():
    light = ergode.LightTime(LIGHT, ORBIT)
    for t in (0.0, 2.3):
        away = state(t - legs(t)[0] / LIGHT)[:3] - site(t)
        exact = [np.arctan2(away[1], away[0]), np.arctan2(away[2], np.hypot(away[0], away[1]))]
        assert seen("direction", t, light) == pytest.approx(exact, abs=1e-9)


def test_azimuth_and_elevation_are_those_of_the_horizon():
    """Places at known angles from a station at known coordinates, turned with the Earth."""
    latitude, longitude, spin, angle = math.radians(48), math.radians(-17), 7.3e-5, 0.4
    station = ergode.Station(latitude, longitude, 0.6, spin=spin, sidereal_angle=angle)
    for t in (0.0, 4000.0):
        turn = longitude + angle + spin * t
        up = np.array(
            [np.cos(latitude) * np.cos(turn), np.cos(latitude) * np.sin(turn), np.sin(latitude)]
        )
        east = np.array([-np.sin(turn), np.cos(turn), 0.0])
        north = np.cross(up, east)
        # The station of geodesy: radius of curvature in the prime vertical.
        e2 = (2 - 1 / 298.257223563) / 298.257223563
        N = 6378.137 / np.sqrt(1 - e2 * np.sin(latitude) ** 2)
        foot = (N + 0.6) * up - np.array([0, 0, N * e2 * np.sin(latitude)])
        for azimuth, elevation in ((0.3, 0.2), (-2.0, 1.2), (3.0, -0.1)):
            flat = np.cos(azimuth) * north + np.sin(azimuth) * east
            place = foot + 900 * (np.cos(elevation) * flat + np.sin(elevation) * up)
            one = dict(position=(0, 1, 2), site=station)
            look = ergode.Measurement.azimuth_elevation(t, [0, 0], [1, 1], **one)
            away = ergode.Measurement.range(t, 0.0, 1.0, **one)
            found = look.h((*place, 0, 0, 0), t, ())
            assert found == pytest.approx((azimuth, elevation), abs=1e-11)
            assert away.h((*place, 0, 0, 0), t, ()) == pytest.approx((900.0,), abs=1e-9)
    assert look.angles == (0,)


def test_a_site_without_an_ellipsoid_has_a_vertical_through_the_centre():
    look = ergode.Measurement.azimuth_elevation(
        0.0, [0, 0], [1, 1], position=(0, 1, 2), site=(0.0, 2.0, 2.0)
    )
    azimuth, elevation = look.h((0.0, 3.0, 3.0), 0.0, ())
    assert elevation == pytest.approx(math.pi / 2)
    azimuth, elevation = look.h((-1.0, 2.0, 2.0), 0.0, ())
    assert (azimuth, elevation) == pytest.approx((math.pi / 2, 0.0))


def drift(t, y, p):
    return 1.0 + 0.0 * y[0], -0.5 + 0.0 * y[0], 0.0 * y[0]


@pytest.mark.slow
def test_a_bias_is_a_constant_variable_that_measurements_find():
    """Of two sites one has a biased clock: flow and a Kalman filter agree."""
    field = ergode.VectorField(drift, ["x", "y", "bias"])
    prior = ergode.Gaussian([5.0, 5.0, 0.0], [0.01, 0.01, 0.25])
    rng = np.random.default_rng(1)
    measurements = []
    for t in (0.5, 1.0, 1.5, 2.0):
        x, y = 5.05 + t, 4.95 - 0.5 * t
        for (sx, sy), bias in (((0.0, 0.0), 0.4), ((9.0, 0.0), 0.0)):
            value = np.hypot(x - sx, y - sy) + bias + 0.02 * rng.standard_normal()
            options = {"bias": (2,)} if bias else {}
            measurements.append(
                ergode.Measurement.range(
                    t, value, 0.0004, position=(0, 1), site=(sx, sy), **options
                )
            )
    common = {"times": [0.0, 2.0], "measurements": measurements, "device": "cpu"}
    flow = ergode.density.propagate(field, prior, keep="none", scheme="flow", **common)
    filtered = ergode.particles.unscented_kalman(field, prior, **common)
    deviation = np.sqrt(np.diag(filtered["covariance"][-1]))
    assert deviation[2] < 0.15 and abs(flow["mean"][-1, 2] - 0.4) < 3 * deviation[2]
    assert (np.abs(flow["mean"][-1] - filtered["mean"][-1]) < 0.05 * deviation).all()
    ratio = np.sqrt(np.diag(flow["covariance"][-1])) / deviation
    assert (np.abs(ratio - 1) < 0.05).all()


@pytest.mark.slow
def test_instruments_with_light_are_followed_sent_and_compiled():
    """A filter with light time, by an instrument and by one that was pickled."""
    light = ergode.LightTime(LIGHT, ORBIT, two_way=True)
    make = ergode.Measurement.range
    value, time = 0.5 * sum(legs(0.8)) + 0.01, 0.8
    one = make(time, value, 1e-4, position=(0, 1, 2), light=light, **TURNING)
    sent = pickle.loads(pickle.dumps(one))
    assert sent.h(tuple(state(time)), time, ()) == one.h(tuple(state(time)), time, ())
    prior = ergode.Gaussian(state(0.0), [1e-3] * 6)
    common = {"times": [0.0, 1.0], "device": "cpu"}
    for measurement in (one, sent):
        found = ergode.particles.unscented_kalman(
            ORBIT, prior, measurements=[measurement], **common
        )
        assert float(found["normalised_innovation_squared"][0]) < 0.5
    pytest.importorskip("numba_cuda")
    from ergode.core import kernels
    from ergode.core.devices import cuda
    from ergode.models.estimation import gate
    from ergode.models.estimation.likelihood import COMPONENTS, H

    bindings = {H: UserFunction(one.h, (1,)), COMPONENTS: 1, gate.VARIABLES: 6, gate.PARAMETERS: 0}
    kernel = kernels.for_each(gate.expected_at, bindings=bindings).compiled("cuda")
    arguments = (0, 4, np.zeros((4, 6)), 0.0, np.zeros((4, 0)), np.zeros((4, 1)))
    cuda.ptx(kernel, arguments, optimized=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": (0, 1)}, "bias"), ({"bias": "x"}, "bias"), ({"light": 3e5}, "light"),
        ({"site": ergode.Station(0.1, 0.2), "spin": 1.0}, "spin"),
        ({"site": (1.0, 2.0)}, "site"), ({"position": (0, 1, 7)}, "variables"),
    ],
)  # fmt: skip
def test_what_is_no_instrument(options, message):
    given = {"position": (0, 1, 2), "light": ergode.LightTime(LIGHT, ORBIT)} | options
    with pytest.raises(ModelError, match=message):
        ergode.Measurement.range(0.0, 1.0, 1.0, **given)


def test_what_is_no_light_and_no_station():
    with pytest.raises(ModelError, match="speed"):
        ergode.LightTime(-1.0, ORBIT)
    with pytest.raises(ModelError, match="field"):
        ergode.LightTime(1.0, kepler)
    for wrong in ({"radius": 0.0}, {"flattening": 1.0}, {"flattening": -0.1}, {"height": -7000.0}):
        with pytest.raises(ModelError, match="radius, flattening and height of a station"):
            ergode.Station(0.1, 0.2, **wrong)
    with pytest.raises(ModelError, match="latitude"):
        ergode.Station(48.0, 17.0)
    with pytest.raises(ModelError, match="three"):
        ergode.Measurement.azimuth_elevation(0.0, [0, 0], [1, 1], position=(0, 1), site=(1.0, 0.0))
    with pytest.raises(ModelError, match="one way"):
        ergode.Measurement.direction(
            0.0, [0, 0], [1, 1], position=(0, 1, 2),
            light=ergode.LightTime(LIGHT, ORBIT, two_way=True),
        )  # fmt: skip
    with pytest.raises(ModelError, match=r"value of direction has shape \(3,\); expected 2 num"):
        ergode.Measurement.direction(0.0, [0, 0, 1], [1, 1, 1], position=(0, 1, 2))
    with pytest.raises(ModelError, match="value of azimuth_elevation has shape"):
        ergode.Measurement.azimuth_elevation(0.0, 0.5, 1.0, position=(0, 1, 2))
