"""Modes of a posterior that lie between all points of the first lattice."""

import numpy as np
import pytest

import ergode
from ergode.core import kernels
from ergode.density.flow import sums
from ergode.density.grid import lattice

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def still(t, y, p):
    return (0.0 * y[0], 0.0 * y[1])


def folded(y, t, p):
    """Rises to a fold, and falls steeply through zero."""
    return (min(y[0], p[0] * (p[1] - y[0])),)


FIELD = ergode.VectorField(still, ["x", "y"], ["slope", "place"])


def exact(slope, place, variance):
    """Mean and deviation of the first variable, and the log evidence, by sums on a fine grid."""
    x = np.linspace(-7, 7, 2_000_001)
    h = np.minimum(x, slope * (place - x))
    weight = np.exp(-0.5 * x**2 - 0.5 * h**2 / variance) / (2 * np.pi * np.sqrt(variance))
    total = weight.sum() * (x[1] - x[0])
    mean = weight @ x / weight.sum()
    return mean, np.sqrt(weight @ (x - mean) ** 2 / weight.sum()), np.log(total)


@DEVICES
@pytest.mark.parametrize("given", ["h", "likelihood"])
@pytest.mark.parametrize("place", [1.7, 1.9, 2.4])
def test_a_thin_mode_is_seen(place, given, device):
    """Without it the deviation is 5 to 20 per cent off."""
    slope, variance = 8.0, 0.36

    def log_likelihood(y, t, p):
        return (-0.5 * min(y[0], p[0] * (p[1] - y[0])) ** 2 / 0.36 + 3.0,)

    seen = (
        ergode.Measurement(0.0, folded, 0.0, variance) if given == "h"
        else ergode.Measurement(0.0, likelihood=log_likelihood)
    )  # fmt: skip
    found = ergode.density.propagate(
        FIELD, ergode.Gaussian([0.0, 0.0], [1.0, 1.0]), times=[0.0, 1.0], measurements=[seen],
        parameters={"slope": slope, "place": place}, scheme="flow", keep="none", device=device,
    )  # fmt: skip
    mean, deviation, evidence = exact(slope, place, variance)
    evidence += 0.0 if given == "h" else 3.0 + 0.5 * np.log(2 * np.pi * variance)
    assert float(found["mean"][-1, 0]) == pytest.approx(mean, abs=0.02 * deviation)
    assert float(found["covariance"][-1, 0, 0]) ** 0.5 == pytest.approx(deviation, rel=0.02)
    assert float(found["log_evidence"][0]) == pytest.approx(evidence, abs=0.02)
    assert np.isnan(found["unreliable_from"])


@DEVICES
def test_a_smooth_posterior_gets_no_more_points(device):
    found = ergode.density.propagate(
        FIELD, ergode.Gaussian([0.0, 0.0], [1.0, 1.0]), times=[0.0, 1.0],
        measurements=[ergode.Measurement(0.0, folded, 0.0, 0.36)],
        parameters={"slope": 2.0, "place": 2.0}, scheme="flow", keep="none", device=device,
    )  # fmt: skip
    assert found.attrs["lattices"] == 1


def sheared(t, y, p):
    """Turns by an angle that grows with one variable."""
    return (-p[0] * y[2] * y[1], p[0] * y[2] * y[0], 0.0 * y[2])


@DEVICES
@pytest.mark.parametrize(
    ("speed", "is_told"),
    [(1.0, False), (3.0, False), pytest.param(60.0, True, marks=pytest.mark.exhaustive)],
)
def test_states_that_fold_along_one_axis_are_resolved_or_told(speed, is_told, device):
    """Both halves of a checkerboard have the same places along the axis of the third variable."""
    found = ergode.density.propagate(
        ergode.VectorField(sheared, ["x", "y", "rate"], ["speed"]),
        ergode.Gaussian([3.0, 0.0, 0.0], [1e-4, 1e-4, 1.0]), times=[0.0, 1.0],
        parameters={"speed": speed}, scheme="flow", keep="none", device=device,
        measurements=[ergode.Measurement(1.0, lambda y, t, p: (y[2],), 0.0, 4.0)],
    )  # fmt: skip
    assert np.isfinite(found["unreliable_from"]) == is_told
    if is_told:
        return
    # The rate has the variance 0.8; x is 3 cos(speed * rate), but for its own deviation.
    exact = 3.0 * np.exp(-0.5 * 0.8 * speed**2)
    square = 4.5 * (1.0 + np.exp(-2.0 * 0.8 * speed**2)) + 1e-4
    deviation = np.sqrt(square - exact**2)
    assert float(found["mean"][1, 0]) == pytest.approx(exact, abs=0.02 * deviation)
    assert np.sqrt(float(found["covariance"][1, 0, 0])) == pytest.approx(deviation, rel=0.02)


def test_its_cuda_kernels_compile():
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    count, groups = 8, 1
    summit = np.zeros((1, 3))
    log, beside = np.zeros((1, count)), np.zeros((2, 2, count), np.int32)
    for kernel, bindings, arguments in (
        (sums.gained, {}, (0, count, count, log, log, log)),
        (
            sums.smear,
            {lattice.DIMENSION: 2},
            (0, count, count, summit, beside, log, log, log, log),
        ),
        (
            sums.fold,
            {lattice.DIMENSION: 2},
            (
                0,
                1,
                count,
                groups,
                beside,
                summit,
                np.zeros((2, 1, count)),
                log,
                np.zeros((1, 3, groups)),
            ),
        ),
        (sums.part, {}, (0, count, count, summit, summit, log, log, log, log, log)),
        (sums.around, {}, (0, count, count, 0, beside, log, log, log, log)),
        (sums.mend, {}, (0, count, count, log, log, log, log, log, log)),
        (sums.thin, {}, (0, 1, count, groups, summit, log, log, np.zeros((1, 2, groups)))),
    ):
        found = kernels.for_each(kernel, bindings=bindings)
        assert "__local_depot" not in cuda.ptx(found.compiled("cuda"), arguments)
