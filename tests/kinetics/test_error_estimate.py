"""What is said of the error of explicit methods."""

import warnings

import numpy as np
import pytest

import ergode
from ergode.kinetics.error_estimate import warn_of_estimates
from ergode.kinetics.methods import METHODS


def said(errors):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_estimates(METHODS["asymptotic"], np.array(errors), 1e-3)
    assert all(issubclass(one.category, ergode.AccuracyWarning) for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("errors", [[], [1e-4], [np.nan, 1e-2]])
def test_errors_within_the_tolerance_are_not_spoken_of(errors):
    assert said(errors) == []


def test_an_error_that_is_not_known_is_no_number():
    unknown, off = said([np.inf, 0.02, 0.03, np.nan])
    assert "in 1 of 4 zones 'rodas4' failed, so the error is not known" in unknown
    assert "in 2 of 4 zones the estimated error is up to 3.0e-02" in off
    assert len(said([np.inf])) == 1
