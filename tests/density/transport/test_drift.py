"""Constant drift in three to six dimensions: the mean moves by exactly velocity times time."""

import numpy as np
import pytest

import ergode

DEVICES = pytest.mark.parametrize("device", ["cpu:2", pytest.param("cuda", marks=pytest.mark.cuda)])
NAMES = "abcdef"
DEVIATION = 0.01
FIELDS = {
    3: lambda t, y, p: (p[0], p[1], p[2]),
    4: lambda t, y, p: (p[0], p[1], p[2], p[3]),
    5: lambda t, y, p: (p[0], p[1], p[2], p[3], p[4]),
    6: lambda t, y, p: (p[0], p[1], p[2], p[3], p[4], p[5]),
}


def errors(velocity, distance, device, **options):
    """Errors of mean [deviations] and deviation (relative) after a path of `distance` deviations.

    The path is that of the fastest axis.
    """
    names = list(NAMES[: len(velocity)])
    speeds = {f"v_{name}": speed for name, speed in zip(names, velocity, strict=True)}
    field = ergode.VectorField(FIELDS[len(names)], variables=names, parameters=list(speeds))
    end = distance * DEVIATION / np.abs(velocity).max()
    found = ergode.density.propagate(
        field, ergode.Gaussian([0.0] * len(names), [DEVIATION**2] * len(names)), times=[0, end],
        parameters=speeds, device=device, keep="none", **options,
    )  # fmt: skip
    deviation = np.sqrt(np.diag(found["covariance"].values[-1]))
    moved = (found["mean"].values[-1] - np.array(velocity) * end) / DEVIATION
    return np.abs(moved).max(), np.abs(deviation / DEVIATION - 1).max()


@DEVICES
@pytest.mark.parametrize(
    "velocity", [(1, 1, 1), (1, 0.6, 0.91), (-1, 0.8, -0.7), (0.9, -1, -0.6, 0.8)]
)
def test_no_mass_stays_behind(velocity, device):
    """In a step, mass crosses most of a cell along every axis: to the corner of the cell."""
    mean, deviation = errors(velocity, 8, device)
    assert mean < 0.003
    assert deviation < 0.03


@DEVICES
@pytest.mark.slow
@pytest.mark.parametrize("velocity", [(1, 0.8, -1, 0.7, 0.9), (1, -0.9, 0.8, 1, -0.7, 0.9)])
def test_no_mass_stays_behind_in_five_and_six_dimensions(velocity, device):
    mean, deviation = errors(velocity, 3, device, threshold=1e-8)
    assert mean < 0.01
    assert deviation < 0.1


@DEVICES
@pytest.mark.slow
def test_no_mass_stays_behind_with_noise_and_retained_mass(device):
    mean, _ = errors((1, 0.6, 0.91), 8, device, retained=0.999, process_noise=[1e-9] * 3)
    assert mean < 0.01
