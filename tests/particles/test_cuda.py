"""What is learnt from a measurement, and particles, on a GPU as on a CPU."""

import numpy as np
import pytest

import ergode

pytestmark = pytest.mark.cuda

FIELD = ergode.fields.planar_three_body()
MU = 2.52801752854e-5
PRIOR = ergode.Gaussian(
    [1.0169962521469986, 0, 0, 0.012575912545456968], [2.2375e-8] * 2 + [5.2767e-7] * 2
)


def range_and_bearing(y, t, p):
    x = y[0] - 1 + p[0]
    return (x * x + y[1] * y[1]) ** 0.5, y[1] / x


def any_likelihood(y, t, p):
    return (-0.5 * (y[2] / 1e-3) ** 2,)


MEASUREMENTS = [
    ergode.Measurement(0.05, range_and_bearing, [0.017, 2 * np.pi], [1e-8, 1e-3], angles=[1]),
    ergode.Measurement(0.05, likelihood=any_likelihood),
]


def test_corrections_of_the_grid():
    one, two = (
        ergode.density.propagate(
            FIELD, PRIOR, times=[0, 0.1], measurements=MEASUREMENTS, parameters={"mu": MU},
            conserved=ergode.fields.planar_jacobi_constant, retained=0.99, device=device,
        )
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert np.allclose(one["log_evidence"], two["log_evidence"], atol=1e-9)
    scale = np.sqrt(np.diag(one["covariance"][-1]))
    assert (np.abs(one["mean"] - two["mean"]) < 1e-6 * scale).all()


def test_particles():
    one, two = (
        ergode.particles.propagate(
            FIELD, PRIOR, times=[0, 0.1], measurements=MEASUREMENTS, parameters={"mu": MU},
            count=20_000, device=device,
        )
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert np.allclose(one["log_evidence"], two["log_evidence"], atol=1e-4)
    assert np.allclose(one["particle"], two["particle"], atol=1e-8)
