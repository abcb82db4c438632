"""What the compilers make of the CUDA kernels, and that both devices compute the same."""

import math

import numpy as np
import pytest
from density_cases import LINEAR, LORENZ, lorenz

import ergode
from ergode.core import kernels
from ergode.density import specialize
from ergode.density.grid import cells
from ergode.density.grid.lattice import Frame, Lattice
from ergode.density.methods import GRIDS
from ergode.density.noise import Noise
from ergode.density.transport import advance as transport


def driven(t, y, p):
    return y[1], p[0] * math.cos(t) - y[0]


def louder(t, y, p):
    return 0.0, p[0] + 0.1 * y[1] * y[1]


def nothing(group, used, cells, p, frame):
    """In place of the sums of a summary."""


DRIVEN = ergode.VectorField(driven, ["x", "v"], ["drive"])
RING = ergode.fields.lorenz96(6)


def arguments(field, precision):
    """Arrays such as the kernels take, however small."""
    n = len(field.variables)

    def real(*shape):
        return np.zeros((1, *shape), precision)

    def words(*shape):
        return np.zeros((1, *shape), np.int64)

    neighbours = np.zeros((1, n, 4), np.uint32)
    grid = cells.Cells(
        words(4), real(n, 4), real(n, 4), real(2 * n + 1, 4), real(4), neighbours, neighbours,
        neighbours[0], words(8), real(2), words(cells.COUNTERS), words(8), words(8),
    )  # fmt: skip
    masses = cells.Masses(
        real(4), real(4), real(4), real(n, 4), words(4), np.zeros((1, 4), np.uint8)
    )
    frame = Frame(real(n), real(n), real(n, n), real(len(field.parameters)), real(n), real(2))
    return grid, masses, frame, np.zeros((1, cells.CONTROLS))


@pytest.mark.parametrize(
    ("field", "scheme", "noise", "precision", "thread_group"),
    [
        (LORENZ, "corner-transport", None, "float64", "cluster"),
        (RING, "split", None, "float32", "grid"),
        (LINEAR, "split", Noise(np.eye(2)), "float32", "cluster"),
        (DRIVEN, "corner-transport", Noise(function=louder), "float64", "grid"),
    ],
    ids=["lorenz63", "lorenz96", "noise, a batch", "local noise that grows, losses allowed"],
)
def test_cuda_kernels_compile_to_registers(
    monkeypatch, field, scheme, noise, precision, thread_group
):
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    n = len(field.variables)
    lattice = Lattice(np.zeros(n), np.ones(n), np.eye(n), is_rotated=False)
    bindings = specialize.bindings_of(
        field,
        [lattice],
        GRIDS[scheme],
        noise,
        thread_group,
        retained=field is DRIVEN,
        blocks=16 if field is LORENZ else 1,
    )
    is_plain = precision == "float32" and noise is None
    if is_plain:  # sums and the clock alone are in double precision
        monkeypatch.setattr(transport, "summarize", nothing)
    advance = specialize.advance_kernel(bindings, precision, thread_group)
    grid, masses, frame, control = arguments(field, precision)
    text = cuda.ptx(
        advance.compiled("cuda"), (0, 0, 0, 1 << 62, 20, 1 << 19, grid, masses, frame, control)
    )
    assert "__local_depot" not in text
    if is_plain:
        assert "fma.rn.f64" not in text and "div.rn.f32" in text
    reweigh = specialize.reweigh_kernel(precision, thread_group)
    tail = (control, control, np.zeros((1, 5), np.int64), control)
    assert "__local_depot" not in cuda.ptx(reweigh.compiled("cuda"), (0, 0, 0, grid, masses, *tail))


def claim_all(start, stop, grids, places):
    grid = cells.cells_of(grids, 0)
    for key in range(start, stop):
        places[key] = cells.claim(grid, np.int64(key))


def test_a_table_that_is_full_says_so():
    grid, *_ = arguments(LORENZ, "float64")
    grid.table[...] = cells.EMPTY
    places = np.zeros(6, np.int64)
    kernels.cpu_kernel(claim_all).compiled("cpu")(0, 4, grid, places)
    assert sorted(places[:4]) == [0, 2, 4, 6]
    assert grid.counters[0, cells.STATE] == cells.REACHED
    kernels.cpu_kernel(claim_all).compiled("cpu")(0, 6, grid, places)  # four of them are there
    assert (places == cells.EMPTY).all()
    assert grid.counters[0, cells.STATE] == cells.FULL


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


@pytest.mark.cuda
def test_batches_on_both_devices():
    """A block each on CUDA, a thread each on the CPU: the same as alone."""
    many = ergode.grid(sigma=4, b=1, r=np.linspace(44, 52, 20))
    one, two = (
        lorenz("split", parameters=many, device=device, keep="none") for device in ("cpu", "cuda")
    )
    assert one.attrs["cell_steps"] == two.attrs["cell_steps"]
    assert np.allclose(one["mean"], two["mean"], atol=1e-8)
    assert np.allclose(one["log_evidence"], two["log_evidence"], atol=1e-8)
    alone = lorenz("split", parameters={"sigma": 4, "b": 1, "r": 44.0}, device="cuda")
    assert np.array_equal(alone["mean"], two["mean"][0])
