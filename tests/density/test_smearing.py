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


@pytest.mark.parametrize("push", [0.0, 0.005])
@pytest.mark.parametrize("noise", [0.0, 0.002])
def test_noise_and_jumps_are_compared_with_drawn_points(noise, push):
    """Turned, noise along all axes widens a round density evenly: by closed form."""
    jumps = [ergode.Maneuver(0.25, [0.0, 0.0], [push, push])] if push else []
    with pytest.warns(ergode.AccuracyWarning, match="distance travelled"):
        found = turned(
            [0.0, 0.5, 1.0], ergode.Mixture([1, 1], [FAR, FAR]), process_noise=[noise, noise],
            maneuvers=jumps,
        )  # fmt: skip
    variances = np.diagonal(found["covariance"].values, axis1=1, axis2=2)[1:]
    exact = 0.01 + push + noise * np.array([0.5, 1.0])
    wide = np.abs(np.sqrt(variances / exact[:, None]) - 1).max(axis=1)
    assert np.allclose(found["deviation_error"][1:], wide, atol=0.03)
    assert wide.max() > 0.15 and np.isfinite(float(found["unreliable_from"]))


def test_walls_leave_the_errors_missing():
    # With noise, and so with the kernel of edges.
    found = turned(
        [0.0, 1.0], region=lambda y, t, p: (400.0 - y[0] * y[0],), process_noise=[1e-6, 1e-6]
    )
    assert np.isnan(found["mean_error"].values).all()
