"""What the compilers make of the CUDA kernels, and that both devices compute the same."""

import math

import numpy as np
import pytest
from density_cases import LINEAR, LORENZ, lorenz

import ergode
from ergode.density import cells, evolution
from ergode.density.lattice import Frame, Lattice
from ergode.density.noise import Noise


def driven(t, y, p):
    return y[1], p[0] * math.cos(t) - y[0]


def louder(t, y, p):
    return 0.0, p[0] + 0.1 * y[1] * y[1]


DRIVEN = ergode.VectorField(driven, ["x", "v"], ["drive"])
RING = ergode.fields.lorenz96(6)


def arguments(field, precision):
    """Arrays such as the kernels take, however small."""
    n = len(field.variables)

    def real(*shape):
        return np.zeros(shape, precision)

    words = np.zeros((n, 4), np.uint32)
    grid = cells.Cells(
        np.zeros(4, np.int64), real(n, 4), real(n, 4), words, words, words[0],
        np.zeros(8, np.int64), real(2), np.zeros(cells.TALLIES, np.int64), np.zeros(8, np.int64),
        np.zeros(8, np.int64),
    )  # fmt: skip
    masses = cells.Masses(
        real(4), real(4), real(4), real(n, 4), np.zeros(4, np.int64), np.zeros(4, np.uint8)
    )
    frame = Frame(real(n), real(n), real(n, n), real(len(field.parameters)), real(n), real(2))
    return grid, masses, frame, np.zeros(cells.CLOCKS)


@pytest.mark.parametrize(
    ("field", "scheme", "noise", "precision"),
    [
        (LORENZ, "corner-transport", None, "float64"),
        (RING, "split", None, "float32"),
        (LINEAR, "split", Noise(np.eye(2)), "float32"),
        (DRIVEN, "corner-transport", Noise(function=louder), "float64"),
    ],
    ids=["lorenz63", "lorenz96", "noise", "local noise that grows, losses allowed"],
)
def test_cuda_kernels_compile_to_registers(field, scheme, noise, precision):
    pytest.importorskip("numba_cuda")
    from ergode.core import cuda

    n = len(field.variables)
    lattice = Lattice(np.zeros(n), np.ones(n), np.eye(n))
    bindings = evolution.bindings_of(field, lattice, scheme, noise, True, retained=field is DRIVEN)
    advance, prune = evolution.kernels_of(bindings, precision, True)
    tail = arguments(field, precision)
    text = cuda.ptx(advance.compiled("cuda"), (1 << 62, 20, 1 << 19, *tail))
    assert "__local_depot" not in text
    if precision == "float32" and noise is None:  # sums and the clock alone are in double precision
        assert "fma.rn.f64" not in text and "div.rn.f32" in text
    assert "__local_depot" not in cuda.ptx(prune.compiled("cuda"), tail)


@pytest.mark.cuda
@pytest.mark.parametrize("scheme", ["split", "corner-transport"])
def test_both_devices_agree(scheme):
    one, two, again = (lorenz(scheme, device=device) for device in ("cpu:1", "cuda", "cuda"))
    assert one.attrs["cell_steps"] == two.attrs["cell_steps"]
    assert np.array_equal(one["coordinate"], two["coordinate"])
    assert np.abs(one["mass"].values - two["mass"].values).sum() < 1e-11
    for name in two.data_vars:
        assert np.array_equal(two[name], again[name], equal_nan=True), name


@pytest.mark.cuda
@pytest.mark.parametrize("field", [LINEAR, DRIVEN], ids=["constant", "of state and time"])
def test_both_devices_agree_on_noise(field):
    """With losses allowed, so that the threshold is found on the device as well."""
    values = dict(zip(field.parameters, (-0.7, -2.0, 1.5, -0.4, 0.0, 0.0), strict=False))
    noise = [0.5, 0.1] if field is LINEAR else louder
    one, two, again = (
        ergode.density.propagate(
            field, ergode.Gaussian([1.0, 0.0], [0.04, 0.04]), times=[0, 0.5, 1],
            parameters={name: abs(value) for name, value in values.items()}
            if field is DRIVEN else values,
            process_noise=noise, width=0.05, retained=0.999, device=device,
        )
        for device in ("cpu:1", "cuda", "cuda")
    )  # fmt: skip
    assert one.attrs["steps"] == two.attrs["steps"]
    assert np.array_equal(one["coordinate"], two["coordinate"])
    assert np.abs(one["mass"].values - two["mass"].values).sum() < 1e-11
    for name in two.data_vars:
        assert np.array_equal(two[name], again[name], equal_nan=True), name
