"""Fields and noise that change in time, between two times of a result, against their moments."""

import math

import numpy as np
import pytest

import ergode
from ergode.density import specialize
from ergode.density.grid.cells import PARTS
from ergode.density.grid.lattice import Frame, Lattice
from ergode.density.noise import Noise
from ergode.density.transport import forcing

NAMES = ["decay", "push", "at", "lasts", "swing", "frequency", "noise", "bang", "bang_lasts"]
TIME = 10.0


def driven(t, y, p):
    bell = p[1] * math.exp(-(((t - p[2]) / p[3]) ** 2))
    return (-p[0] * y[0] + bell + p[4] * math.sin(p[5] * t),)


def loud(t, y, p):
    return (p[6] + p[7] * math.exp(-(((t - p[2]) / p[8]) ** 2)),)


FIELD = ergode.VectorField(driven, ["x"], NAMES)
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def random_cases(seed, count):
    """Parameters by name: pulses from 0.01 to 1 of time, and forcing of up to 1,600 periods."""
    rng = np.random.default_rng(seed)
    lasts, bang_lasts = 10 ** rng.uniform(-2, 0, (2, count))
    frequency = 10 ** rng.uniform(-1, 3, count)
    which = rng.integers(3, size=count)  # a pulse, a forcing, or both
    return {
        "decay": rng.choice([0.0, 0.05], count),
        "push": np.where(which != 1, rng.uniform(-5, 5, count) / lasts, 0.0),
        "at": rng.uniform(1, 9, count), "lasts": lasts,
        "swing": np.where(which != 0, rng.uniform(0.2, 1.5, count), 0.0),
        "frequency": frequency, "noise": rng.choice([0.0, 0.02], count),
        "bang": rng.uniform(0, 0.5, count) / bang_lasts, "bang_lasts": bang_lasts,
    }  # fmt: skip


def moments(one, mean, variance, time):
    """Of a linear equation, by a sum over a million intervals."""
    s = (np.arange(1_000_000) + 0.5) * (time / 1e6)
    left = np.exp(-one["decay"] * (time - s)) * (time / 1e6)
    push = one["push"] * np.exp(-(((s - one["at"]) / one["lasts"]) ** 2))
    push += one["swing"] * np.sin(one["frequency"] * s)
    noise = one["noise"] + one["bang"] * np.exp(-(((s - one["at"]) / one["bang_lasts"]) ** 2))
    gone = math.exp(-one["decay"] * time)
    left_twice = np.exp(-2 * one["decay"] * (time - s)) * (time / 1e6)
    return gone * mean + (push * left).sum(), gone**2 * variance + (noise * left_twice).sum()


@DEVICES
@pytest.mark.parametrize(("count", "times", "shift"), [(24, 2, 0.0), (3, 21, 0.0), (1, 2, 1e4)])
def test_pulses_and_fast_forcing_are_not_stepped_over(count, times, shift, device):
    """Between two times only, at many times, and a single density late on the clock."""
    cases = random_cases(7 + count, count)
    if shift:
        cases |= {"at": cases["at"] + shift, "push": [400.0], "lasts": [0.01], "swing": [0.0]}
    width = 0.1
    found = ergode.density.propagate(
        FIELD, ergode.Gaussian([1.0], [[0.25]]), times=shift + np.linspace(0, TIME, times),
        parameters={k: v if count > 1 else float(v[0]) for k, v in cases.items()}, width=width,
        process_noise=loud, threshold=1e-9, device=device,
    )  # fmt: skip
    assert (found["status"] == ergode.Status.DONE).all()
    mean = np.atleast_2d(found["mean"].isel(time=-1).values)[..., 0].ravel()
    variance = found["covariance"].isel(time=-1).values.ravel()
    for which in range(count):
        one = {k: float(v[which]) for k, v in cases.items()} | {
            "at": float(cases["at"][which]) - shift
        }
        exact_mean, exact_variance = moments(one, 1.0, 0.25, TIME)
        assert mean[which] == pytest.approx(exact_mean, abs=0.2 * width), one
        assert variance[which] == pytest.approx(exact_variance, abs=0.6 * width**2, rel=0.01), one


def test_a_field_that_does_not_change_bounds_no_step():
    steps = forcing.longest_steps(np.zeros((1, PARTS)), 0.1, 4, 1.0)
    assert np.isinf(steps).all()


def test_steps_before_a_short_part_end_in_it():
    bends = np.zeros((2, PARTS))
    bends[0, 40] = 1.0
    steps = forcing.longest_steps(bends, 0.01, 10, 1.0)
    short = steps[0, 40]
    assert np.isinf(steps[1]).all() and np.isinf(steps[0, 41:]).all()
    assert steps[0, 39] == short
    np.testing.assert_allclose(steps[0, :39], 0.1 * np.arange(39, 0, -1) + short)
    # By the sum of errors: a tenth of a cell in all.
    assert 0.1 / short * short**3 * (1.0 / 0.01**2) / 24 == pytest.approx(0.1)


def test_its_cuda_kernel_compiles():
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    lattice = Lattice(np.zeros(1), np.ones(1), np.eye(1), is_rotated=False)
    kernel = specialize.forcing_kernel(FIELD, [lattice], Noise(function=loud), None)
    one, row = np.zeros((1, 1)), np.zeros((1, len(NAMES)))
    frame = Frame(one, one, one[None], row, one, np.zeros((1, 2)))
    arguments = (0, PARTS, 0.0, 0.1, 64, one, one, frame, np.zeros((1, PARTS)))
    assert "__local_depot" not in cuda.ptx(kernel.compiled("cuda"), arguments)
