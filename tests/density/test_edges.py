"""Edges between the centres of cells: a wall, and the jump of a likelihood, are half a cell off."""

import numpy as np
import pytest
from scipy.stats import norm

import ergode


def at_rest(t, y, p):
    return (0.0 * y[0],)


def above(y, t, p):
    return (y[0] - p[0],)


def seen_above(y, t, p):
    return (1.0 if y[0] > p[0] else 0.0,)


FIELD = ergode.VectorField(at_rest, ["x"], ["edge"])
FRACTIONS = np.linspace(0, 0.95, 6)


def mean(edge, width, prior, times, **options):
    found = ergode.density.propagate(
        FIELD, prior, times=times, parameters={"edge": edge}, width=width, threshold=1e-9,
        device="cpu", **options,
    )  # fmt: skip
    return float(found["mean"][-1, 0])


def reflected(edge):
    """Mean of Brownian motion that begins in (0.6, 0.01) and is reflected, by the image."""
    x, deviation = np.linspace(edge, edge + 8, 200_001), np.sqrt(0.01 + 0.5 * 0.5)
    weight = norm.pdf(x, 0.6, deviation) + norm.pdf(2 * edge - x, 0.6, deviation)
    return (x * weight).sum() / weight.sum()


def cut(edge):
    """Mean of a standard Gaussian above an edge."""
    return norm.pdf(edge) / norm.sf(edge)


@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
@pytest.mark.parametrize("width", [0.1, 0.05])
def test_a_wall_is_at_most_half_a_cell_off(width):
    prior = ergode.Gaussian([0.6], [0.01])
    errors = []
    for edge in width * FRACTIONS:
        found = mean(edge, width, prior, [0, 0.5], process_noise=[0.5], region=above)
        low, high = (reflected(edge + sign * width / 2) for sign in (-1, 1))
        assert low - 0.2 * width**2 < found < high + 0.2 * width**2
        errors.append(abs(found - reflected(edge)))
    assert 0.1 * width < max(errors) < 0.17 * width  # as the documentation says


@pytest.mark.parametrize("width", [0.1, 0.05])
def test_the_jump_of_a_likelihood_is_at_most_half_a_cell_off(width):
    prior = ergode.Gaussian([0.0], [1.0])
    measured = [ergode.Measurement(0.0, seen_above, 1.0, 0.01)]
    errors = []
    for edge in width * FRACTIONS:
        found = mean(edge, width, prior, [0.0], measurements=measured)
        low, high = (cut(edge + sign * width / 2) for sign in (-1, 1))
        assert low - 0.2 * width**2 < found < high + 0.2 * width**2
        errors.append(abs(found - cut(edge)))
    assert 0.25 * width < max(errors) < 0.34 * width
