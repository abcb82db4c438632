"""Default widths that measurements make smaller, and what is said of widths that do not suit."""

import math
import re
import warnings

import numpy as np
import pytest
from density_cases import first, on_plane

import ergode
from ergode.core import devices
from ergode.core.errors import AccuracyWarning, PerformanceWarning, PlanError
from ergode.density import resolution

STILL = np.zeros((2, 2))
PRIOR = ergode.Gaussian([1.0, 0.5], [0.25, 1.0])


def oblique(y, t, p):
    return (0.6 * y[0] + 0.8 * y[1],)


def bearing(y, t, p):
    return (math.atan2(y[1], y[0]),)


def width_by_default(*measurements, prior=PRIOR, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return on_plane(STILL, (0, 0), prior, [0, 1], measurements=measurements, **options)["width"]


@pytest.mark.parametrize(
    ("h", "slope", "variance"),
    [
        (first, [1, 0], 0.01), (oblique, [0.6, 0.8], 0.04), (bearing, [-0.4, 0.8], 0.02),
        (first, [1, 0], 10.0),
    ],
)  # fmt: skip
def test_a_default_width_resolves_the_posterior(h, slope, variance):
    """Half of the narrowest posterior's deviation, if half of the prior's does not."""
    measurement = ergode.Measurement(1.0, h, [0.4], variance)
    spread = np.array(slope) @ PRIOR.covariance @ slope
    narrower = np.sqrt(variance / (variance + spread))
    exact = 0.5 * np.sqrt([0.25, 1.0]) * (narrower if 2 * narrower < 1.75 else 1.0)
    assert np.allclose(width_by_default(measurement), exact, rtol=1e-4)


def test_an_angle_is_linearised_across_its_jump():
    """At a mean that lies where the angle jumps from pi to -pi."""
    seen = ergode.Measurement(1.0, bearing, 3.1, 0.01, angles=[0])
    found = width_by_default(seen, prior=ergode.Gaussian([-2.0, 0.0], [0.25, 0.25]))
    assert np.allclose(found, 0.25 * np.sqrt(0.01 / (0.01 + 0.25 / 4)), rtol=1e-4)


def test_a_default_width_is_of_the_prior_where_nothing_else_is_known():
    of_prior = 0.5 * np.sqrt([0.25, 1.0])
    assert np.array_equal(width_by_default(), of_prior)
    sharp = ergode.Measurement(1.0, first, 1.0, 0.01)
    assert np.array_equal(width_by_default(sharp, scheme="corner-transport"), of_prior)


def test_a_default_width_does_not_ask_for_many_cells(monkeypatch):
    """Four times as many as without the measurement: half the width along each of two axes."""
    count = np.pi * 2 * np.log(1e4) / 0.25  # of the ellipse of 1e-4, in cells of half a deviation
    monkeypatch.setattr(resolution, "_CELLS_BY_DEFAULT", 4 * count)
    found = width_by_default(ergode.Measurement(1.0, first, 1.0, 1e-6), threshold=None)
    assert np.allclose(found, 0.25 * np.sqrt([0.25, 1.0]), rtol=1e-6)


def test_each_of_a_bank_has_the_width_that_it_has_alone():
    values, variances = [[1.0], [1.2], [0.9]], [[[0.01]], [[10.0]], [[0.01]]]
    bank = ergode.Measurement(1.0, first, values, variances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        many = on_plane(STILL, (0, 0), PRIOR, [0, 1], measurements=[bank])
        for which, (value, variance) in enumerate(zip(values, variances, strict=True)):
            seen = ergode.Measurement(1.0, first, value, variance)
            alone = on_plane(STILL, (0, 0), PRIOR, [0, 1], measurements=[seen])
            for name in ("width", "threshold", "mean", "covariance", "log_evidence"):
                kept = many[name].isel(trajectory=which)
                assert np.array_equal(kept, alone[name])
    assert many["width"][0, 0] < many["width"][1, 0]


def test_the_width_that_a_warning_suggests_is_enough():
    spiral = np.array([[-0.3, -1.0], [1.0, -0.3]])
    seen = [ergode.Measurement(t, first, 0.3, 0.04) for t in (0.5, 1.0)]

    def said(width):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            on_plane(
                spiral, (0, 0), ergode.Gaussian([0.5, 0.0], [0.25, 0.25]), [0, 0.5, 1],
                measurements=seen, width=width,
            )  # fmt: skip
        return [str(one.message) for one in caught]

    first_said = said(0.25)
    assert first_said
    (width,) = {re.search(r"such as width=([0-9.]*\d)", one)[1] for one in first_said}
    assert not said(float(width))


def test_more_cells_than_memory_holds_are_refused_at_the_door(monkeypatch):
    monkeypatch.setattr(type(devices.resolve("cpu:1")), "available_bytes", lambda self: 100_000_000)
    with pytest.raises(
        PlanError,
        match=r"covers about [\d,]+ cells, which need [\d.]+ GB, but .* - width=[\d.]+ has about",
    ):
        on_plane(STILL, (0, 0), ergode.Gaussian([0, 0], [1.0, 1.0]), [0, 1], width=0.001)


def test_far_more_cells_than_are_needed_are_told(monkeypatch):
    monkeypatch.setattr(resolution, "_MANY", 10_000)
    with pytest.warns(PerformanceWarning, match=r"about [\d,]+ cells, far more .* width=0\.0\d+ "):
        on_plane(STILL, (0, 0), ergode.Gaussian([0, 0], [1.0, 1.0]), [0], width=0.04)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceWarning)
        on_plane(STILL, (0, 0), ergode.Gaussian([0, 0], [1.0, 1.0]), [0], width=0.06)
