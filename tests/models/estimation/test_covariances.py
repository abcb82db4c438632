"""Covariances of variables whose units differ: checks and roots are those of correlations."""

import numpy as np
import pytest

import ergode
from ergode.models.estimation.covariances import are_definite, covariance_of, root_of

SCALES = np.array([1e7, 1.0, 1e-9, 1e-20])


def test_roots_have_digits_in_every_unit():
    """Of matrices of every rank, and of variables without a variance."""
    rng = np.random.default_rng(5)
    for rank in range(5):
        part = SCALES[:, None] * rng.normal(size=(4, rank)) * [[1], [1], [rank != 3], [1]]
        matrix = covariance_of(part @ part.T, 4, may_be_singular=True)
        root = root_of(matrix)
        np.testing.assert_allclose(
            root @ root.T / np.outer(SCALES, SCALES), matrix / np.outer(SCALES, SCALES), atol=1e-13
        )
        assert are_definite(matrix) == (rank == 4)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 2e-9], [2e-9, 1e-18]], "not positive semi-definite.* is -1, in units of the var"),
        ([[1.0, 0.0], [0.0, -1e-18]], "not positive semi-definite"),
        ([[1.0, 5e-10], [1e-10, 1e-18]], "not symmetric"),
        ([[1.0, 1e-5], [1e-5, 0.0]], "not positive semi-definite"),
        ([1.0, 2.0, 3.0], r"shape \(3,\); expected 2 variances, or a matrix of shape \(2, 2\)"),
    ],
)
def test_what_a_large_variance_would_hide(matrix, message):
    with pytest.raises(ergode.ModelError, match=message):
        covariance_of(matrix, 2, may_be_singular=True)
    if np.ndim(matrix) == 2:
        with pytest.raises(ergode.ModelError, match="covariance of a maneuver is not"):
            ergode.Maneuver(0.5, [0.0, 0.0], matrix)
