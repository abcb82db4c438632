"""Points that follow the flow: orbits against Kepler's equation, and drift in one to eight dims."""

import numpy as np
import pytest
from scipy.linalg import expm

import ergode

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])


def two_body(t, y, p):
    cube = (y[0] * y[0] + y[1] * y[1]) ** 1.5
    return y[2], y[3], -y[0] / cube, -y[1] / cube


ORBIT = ergode.VectorField(two_body, ["x", "y", "u", "v"])


def kepler(state, time):
    """States of planar elliptic orbits after a time, by Kepler's equation [orbit, 4]."""
    x, y, u, v = state.T
    radius, squared = np.hypot(x, y), u * u + v * v
    axis = 1.0 / (2.0 / radius - squared)
    motion = axis**-1.5
    momentum = x * v - y * u
    # The vector of eccentricity points to the periapsis.
    ex, ey = v * momentum - x / radius, -u * momentum - y / radius
    e, angle = np.hypot(ex, ey), np.arctan2(ey, ex)
    anomaly = np.arctan2((x * u + y * v) / np.sqrt(axis), 1.0 - radius / axis)
    mean = anomaly - e * np.sin(anomaly) + motion * time
    anomaly = mean + e * np.sin(mean)
    for _ in range(8):
        anomaly -= (anomaly - e * np.sin(anomaly) - mean) / (1.0 - e * np.cos(anomaly))
    flat = np.sqrt(1.0 - e * e)
    a, b = axis * (np.cos(anomaly) - e), axis * flat * np.sin(anomaly)
    rate = motion * axis / (1.0 - e * np.cos(anomaly))
    c, d = -rate * np.sin(anomaly), rate * flat * np.cos(anomaly)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([a * cos - b * sin, a * sin + b * cos, c * cos - d * sin, c * sin + d * cos], 1)


@DEVICES
@pytest.mark.slow
def test_orbits_are_those_of_keplers_equation(device):
    """Three periods of an orbit of eccentricity 0.2, known to a thousandth."""
    mean, deviation = np.array([1.0, 0.0, 0.0, np.sqrt(1.2)]), 1e-3
    times = [0.0, 8.0, 26.0]
    found = ergode.density.propagate(
        ORBIT, ergode.Gaussian(mean, [deviation**2] * 4), times=times, scheme="flow", keep="none",
        device=device,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    half = rng.normal(size=(200_000, 4))
    states = mean + deviation * np.concatenate([half, -half])
    for row, time in ((1, 8.0), (2, 26.0)):
        exact = kepler(states, time)
        wide = exact.std(axis=0)
        away = (found["mean"].values[row] - exact.mean(axis=0)) / wide
        assert np.abs(away).max() < 0.01
        covariance = found["covariance"].values[row] / np.outer(wide, wide)
        assert np.abs(covariance - np.corrcoef(exact.T)).max() < 0.02
    assert np.isnan(float(found["unreliable_from"]))


@DEVICES
@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 6, 8])
def test_drift_is_exact(size, device):
    fields = {
        1: lambda t, y, p: (1.0 + 0.0 * y[0],),
        3: lambda t, y, p: (1.0, 2.0, -1.0),
        6: lambda t, y, p: (1.0, 2.0, -1.0, 0.5, 3.0, -2.0),
        8: lambda t, y, p: (1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 0.1, 4.0),
    }
    speed = np.array([1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 0.1, 4.0])[:size]
    field = ergode.VectorField(fields[size], list("abcdefgh"[:size]))
    found = ergode.density.propagate(
        field, ergode.Gaussian([0.0] * size, [1e-4] * size), times=[0.0, 10.0], scheme="flow",
        keep="none", device=device,
    )  # fmt: skip
    # From seven variables on, points are those of a Sobol sequence.
    most = 1e-9 if size <= 6 else 0.005
    assert np.abs(found["mean"].values[-1] - 10.0 * speed).max() < most * 0.01
    assert np.allclose(found["covariance"].values[-1], 1e-4 * np.eye(size), atol=3 * most * 1e-4)


def chain(t, y, p):
    return (
        y[1] - 0.5 * y[0], y[2] - 0.5 * y[1], y[3] - 0.5 * y[2], y[4] - 0.5 * y[3],
        y[5] - 0.5 * y[4], y[6] - 0.5 * y[5], y[0] - 0.5 * y[6],
    )  # fmt: skip


def three_of_seven(y, t, p):
    return y[0], y[3], y[6]


@DEVICES
@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [[[0.3, -1.0, 0.5], [0.1, 0.4, -0.2]], [[15.0, -9.0, 2.0], [-80.0, 50.0, 100.0]]],
    ids=["near", "far"],
)
def test_points_of_seven_variables_are_laid_again_where_measurements_leave_few(device, values):
    """Kalman's posterior, where few of 131,072 points of the prior would have weight, or none."""
    matrix = np.roll(np.eye(7), 1, axis=1) - 0.5 * np.eye(7)
    h = np.eye(7)[[0, 3, 6]]
    noise = 1e-3 * np.eye(3)
    mean, covariance, log_evidence, before = np.zeros(7), np.eye(7), [], 0.0
    for time, value in zip((0.5, 1.0), values, strict=True):
        step = expm((time - before) * matrix)
        mean, covariance, before = step @ mean, step @ covariance @ step.T, time
        inner = h @ covariance @ h.T + noise
        off = value - h @ mean
        log_evidence.append(
            -0.5 * (off @ np.linalg.solve(inner, off) + np.linalg.slogdet(2 * np.pi * inner)[1])
        )
        gain = covariance @ h.T @ np.linalg.inv(inner)
        mean, covariance = mean + gain @ off, covariance - gain @ h @ covariance
    found = ergode.density.propagate(
        ergode.VectorField(chain, list("abcdefg")), ergode.Gaussian(np.zeros(7), np.ones(7)),
        times=[0.0, 1.0], device=device, keep="none",
        measurements=[
            ergode.Measurement(t, three_of_seven, v, [1e-3] * 3)
            for t, v in zip((0.5, 1.0), values, strict=True)
        ],
    )  # fmt: skip
    wide = np.sqrt(np.diag(covariance))
    assert (np.abs(found["mean"].values[-1] - mean) < 0.01 * wide).all()
    off = (found["covariance"].values[-1] - covariance) / np.outer(wide, wide)
    assert np.abs(off).max() < 0.02
    assert np.allclose(found["log_evidence"], log_evidence, atol=0.01, rtol=1e-6)
    assert found.attrs["method"] == "flow" and np.isnan(float(found["unreliable_from"]))
