"""Likelihoods that are not numbers, by every method: where is told, and they count as zero."""

import math

import numpy as np
import pytest
from density_cases import LINEAR

import ergode

PRIOR = ergode.Gaussian([0.0, 0.0], [1.0, 1.0])


def log_of_first(y, t, p):
    return (math.log(y[0] - p[4]),)


def seen(beyond, call=ergode.density.propagate, **options):
    """Weighed by how far the first variable is beyond a number."""
    return call(
        LINEAR, PRIOR, times=[0.0], parameters=dict.fromkeys("abcdf", 0.0) | {"e": beyond},
        measurements=[ergode.Measurement(0.0, likelihood=log_of_first)], keep="none",
        **{"device": "cpu:1", **options},
    )  # fmt: skip


DEVICES = pytest.mark.parametrize("device", ["cpu:1", pytest.param("cuda", marks=pytest.mark.cuda)])
METHODS = pytest.mark.parametrize(
    "options",
    [
        {"scheme": "flow"},
        {"scheme": "flow", "process_noise": [0.1, 0.1]},
        {"scheme": "split", "width": 0.125},
        {"call": ergode.particles.propagate, "count": 100_000},
    ],
    ids=["flow", "flow with noise", "split", "particles"],
)


@METHODS
@DEVICES
def test_half_of_a_density_has_no_likelihood(options, device):
    """What is left has the density x exp(-x^2 / 2) of Rayleigh."""
    with pytest.warns(ergode.AccuracyWarning) as said:
        found = seen(0.0, device=device, **options)
    (text,) = (str(one.message) for one in said if "not a number" in str(one.message))
    share = float(text.split(" at ")[2].split(" %")[0])
    state = float(text.split("such as at x = ")[1].split(",")[0])
    assert abs(share - 50) < 12 and state <= 0.0 and "time 0 is" in text
    assert abs(float(found["mean"][-1, 0]) - math.sqrt(math.pi / 2)) < 0.03
    assert abs(float(found["log_evidence"][0]) + 0.5 * math.log(2 * math.pi)) < 0.03


@METHODS
@DEVICES
def test_nothing_of_a_density_has_a_likelihood(options, device):
    with pytest.raises(ergode.PlanError, match=r"impossible: its likelihood is not a number \(NaN"):
        seen(1e3, device=device, **options)


def test_one_of_a_bank_has_no_likelihood():
    with pytest.warns(ergode.FailureWarning, match=r"1 of 3 .* infinite, everywhere, such as at x"):
        found = seen(np.array([-9.0, 1e3, -8.0]), scheme="split")
    assert found["status"].values.tolist() == [0, ergode.Status.IMPOSSIBLE, 0]
