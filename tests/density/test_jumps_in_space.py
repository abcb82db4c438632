"""The edge of a region and the jump of a likelihood: errors in proportion to the width, as said."""

import pytest
from scipy.stats import norm

import ergode

STILL = ergode.VectorField(lambda t, y, p: (0.0 * y[0],), ["x"])
EDGE = 0.3


def above(y, t, p):
    return (y[0] - 0.3,)


def seen_above(y, t, p):
    return (0.0 if y[0] > 0.3 else -1e300,)


EXACT = norm.pdf(EDGE) / norm.sf(EDGE)  # mean of a normal variable that is above the edge


def means(width, **options):
    found = ergode.density.propagate(
        STILL, ergode.Gaussian([0.0], [1.0]), times=[0.0, 0.1], width=width, device="cpu:1",
        threshold=1e-12, keep="none", **options,
    )  # fmt: skip
    return float(found["mean"][-1, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"region": above},
        {"measurements": [ergode.Measurement(0.1, likelihood=seen_above)]},
    ],
    ids=["region", "likelihood"],
)
def test_the_error_is_at_most_half_a_cell_at_the_edge(options):
    for width in (0.23, 0.11, 0.053):
        # Of a truncated normal variable the mean moves by this for a shift of its edge.
        slope = EXACT * (EXACT - EDGE)
        assert abs(means(width, **options) - EXACT) < 0.55 * slope * width + 0.1 * width**2
