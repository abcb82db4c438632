"""Numerical diffusion of a fixed grid grows with the distance travelled: results say so."""

import warnings

import numpy as np
import pytest
from density_cases import LINEAR, ROTATION, on_plane

import ergode

DEVICES = pytest.mark.parametrize("device", ["cpu:1", pytest.param("cuda", marks=pytest.mark.cuda)])
FAR = ergode.Gaussian([10.0, 0.0], [0.01, 0.01])


def turned(times, prior=FAR, **options):
    """An oscillator of period one."""
    settings = {"device": "cpu:1", "keep": "none", "scheme": "split"} | options
    return ergode.density.propagate(LINEAR, prior, times=times, parameters=ROTATION, **settings)


@DEVICES
def test_an_oscillator_is_unreliable_after_a_period(device):
    with pytest.warns(ergode.AccuracyWarning, match="smeared the density .*distance travelled"):
        found = turned([0.0, 0.05, 1.0], device=device)
    wide = np.sqrt(np.diag(found["covariance"].values[-1])).max() / 0.1
    assert wide > 1.3
    assert float(found["deviation_error"][-1]) == pytest.approx(wide - 1, abs=0.02)
    assert float(found["deviation_error"][0]) < 0.05
    assert float(found["unreliable_from"]) == 1.0


def test_a_measurement_of_a_smeared_density_is_unreliable():
    seen = ergode.Measurement(1.0, lambda y, t, p: (y[0],), 10.1, 0.01)
    with pytest.warns(ergode.AccuracyWarning, match="distance travelled"):
        found = turned([0.0, 2.0], measurements=[seen])
    assert float(found["unreliable_from"]) == 1.0


def test_a_density_that_stays_near_is_reliable():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ergode.AccuracyWarning)
        near = turned([0.0, 0.25], ergode.Gaussian([0.5, 0.0], [1.0, 1.0]))
        longer = turned([0.0, 2.0], ergode.Gaussian([0.5, 0.0], [1.0, 1.0]))
    for found in (near, longer):
        assert np.isnan(float(found["unreliable_from"]))
        assert np.sqrt(np.diag(found["covariance"].values[-1])) == pytest.approx([1, 1], abs=0.1)
    assert float(longer["deviation_error"][-1]) < 0.1


@pytest.mark.parametrize("scheme", ["split", "corner-transport"])
@pytest.mark.parametrize("width", [0.4, 0.5, 0.7])
def test_a_density_that_is_smeared_is_compared(scheme, width):
    """Drift keeps the deviation at one."""
    for time in (1, 2, 4, 8, 16, 32):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ergode.AccuracyWarning)
            found = on_plane(
                np.zeros((2, 2)), [1.0, 0.6], ergode.Gaussian([0, 0], [1, 1]), [0, time],
                width=width, scheme=scheme,
            )  # fmt: skip
        error = np.abs(np.sqrt(np.diag(found["covariance"].values[-1])) - 1).max()
        told = float(found["deviation_error"][-1])
        assert error < 0.13 if np.isnan(told) else told == pytest.approx(error, abs=0.03)


def test_of_a_bank_those_that_travelled_are_told():
    priors = [ergode.Gaussian([0.5, 0.0], [1.0, 1.0]), FAR]
    with pytest.warns(ergode.AccuracyWarning, match="smeared 1 of 2 densities"):
        found = turned([0.0, 1.0], priors)
    assert np.isfinite(found["unreliable_from"].values).tolist() == [False, True]


def test_noise_and_walls_leave_the_errors_missing():
    found = on_plane(
        np.zeros((2, 2)), [0.0, 0.0], ergode.Gaussian([0, 0], [1, 1]), [0, 1],
        process_noise=[0.1, 0.1],
    )  # fmt: skip
    assert np.isnan(found["mean_error"].values).all()
