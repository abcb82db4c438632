"""Every CUDA kernel of the library compiles to PTX, which needs no GPU."""

import re

import numpy as np
import pytest

import ergode
from ergode.core import kernels
from ergode.core.compiler import kernel_cache
from ergode.core.devices import resolve
from ergode.core.devices.buffers import put_table
from ergode.core.math.random import draw_words, exponential, gamma, integer_below, normal, shuffled
from ergode.epidemics.first_passage.counts import count_on_grid_cuda
from ergode.epidemics.first_passage.cuda import THREADS, search_cuda
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.shared.counts import RUNNING_SUMS
from ergode.epidemics.shared.sweep import PointGroup

pytest.importorskip("numba.cuda")
from ergode.core.devices import cuda

PRECISIONS = ("float32", "float64")
TIMES = np.arange(10.0)


@pytest.fixture(scope="module", params=PRECISIONS)
def ensemble(request):
    """Every kind of holding time that draws differently, weights, named and drawn seeds."""
    model = ergode.CompartmentModel(
        ["S", "E", "I", "J", "R", "D"],
        [ergode.Infection("S", "E", {"I": 0.25, "J": 0.1})],
        [
            ergode.Progression("E", {"I": 0.5, "J": 0.5}, ergode.LogNormal(mean=5, median=4)),
            ergode.Progression("I", {"R": 0.9, "D": 0.1}, ergode.Gamma(mean=5, sd=2)),
            ergode.Progression("J", "R", ergode.Weibull(shape=2, scale=3)),
        ],
    )
    source, target = np.arange(99), np.arange(1, 100)
    contacts = ergode.ContactNetwork.from_edges(source, target, weights=np.full(99, 0.5))
    return FirstPassageEnsemble(
        model, scenario_of(contacts), {"I": 3, "J": [5]}, times=TIMES, seed=1,
        device=resolve("cpu"), precision=request.param,
    )  # fmt: skip


def arguments_of(ensemble, replicates=1):
    """What `FirstPassageEnsemble` passes to its two CUDA kernels."""
    word = ensemble.word_type
    nodes = ensemble.node_count
    search = (
        ensemble._on_host, ensemble.width, 128, np.zeros(replicates * nodes, word),
        np.zeros((1, 2), np.uint32), np.zeros(3, word), np.zeros(3, np.int32),
        np.zeros(2, np.int64),
    )  # fmt: skip
    count = (
        np.zeros((replicates, nodes), word), ensemble._on_host, ensemble.grid,
        np.zeros((replicates, TIMES.size, ensemble.compartment_count), np.int32),
    )  # fmt: skip
    return search, count


def assert_lean(text, precision):
    """Nothing in local memory; no double precision in a kernel of single precision."""
    assert ".entry" in text
    assert ".target sm_90" in text
    assert not re.search(r"__local_depot|\.local\b", text)
    assert bool(re.search(r"\.f64\b", text)) == (precision == "float64")


def test_the_epidemic_kernels_compile_to_lean_ptx(ensemble):
    precision = f"float{8 * ensemble.times.itemsize}"
    made = kernels.cuda_kernels(
        search_cuda, count_on_grid_cuda, precision=precision,
        bindings=ensemble.bindings, registers=64,
    )  # fmt: skip
    for kernel, arguments in zip(made, arguments_of(ensemble), strict=True):
        text = cuda.ptx(kernel.compiled("cuda"), arguments)
        assert_lean(text, precision)
        assert "fma.rn" in text


def test_the_epidemic_kernels_of_many_points_compile_to_lean_ptx():
    """In the precision in which more can be wrong."""
    precision = "float32"
    source, target = np.arange(99), np.arange(1, 100)
    contacts = ergode.ContactNetwork.from_edges(source, target)
    models = [
        ergode.CompartmentModel.seir(
            transmission_rate=rate, latent=ergode.Gamma(mean=5, sd=2),
            infectious=ergode.Empirical([0, 5], [0, 1]),
        )
        for rate in (0.1, 0.2)
    ]  # fmt: skip
    for initials in ([{"I": 3}] * 2, [{"I": 3}, {"I": 4}]):
        many = FirstPassageEnsemble(
            models[0], scenario_of(contacts), initials[0], times=TIMES, seed=1,
            device=resolve("cpu"), precision=precision,
            group=PointGroup(models, initials, np.zeros(2, np.int64), 5),
        )  # fmt: skip
        made = kernels.cuda_kernels(
            search_cuda, count_on_grid_cuda, precision=precision, bindings=many.bindings,
            registers=64,
        )  # fmt: skip
        for kernel, arguments in zip(made, arguments_of(many), strict=True):
            assert_lean(cuda.ptx(kernel.compiled("cuda"), arguments), precision)


def test_running_sums_compile_to_integer_ptx():
    moves = np.zeros((1, 10, 4), np.int32)
    text = cuda.ptx(RUNNING_SUMS.compiled("cuda"), (0, 4, moves, np.zeros(4, np.int32)))
    assert_lean(text, "float32")
    assert not re.search(r"\.f32\b", text)


def _draws(index, seed, shape, out, whole):
    w0, w1, w2, w3 = draw_words(seed, 1, index, np.uint32(6), 0)
    out[index] = exponential(w0, w1) + normal(w2, w3)
    out[index] += gamma(seed, 1, index, np.uint32(6), 1, shape)
    whole[index] = integer_below(10, seed, 1, index, np.uint32(6), 2) + shuffled(
        index, 100, seed, 1, np.uint32(6)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_draws_compile_to_lean_ptx(precision):
    kernel = kernels.for_each(_draws, precision=precision)
    real = np.dtype(precision).type
    arguments = (0, 8, np.uint64(1), real(2.0), np.zeros(8, precision), np.zeros(8, np.int64))
    assert_lean(cuda.ptx(kernel.compiled("cuda"), arguments), precision)


def _wrong_type(index, out):
    out[index] = index.no_such_attribute


def test_a_kernel_that_does_not_type_is_an_error_without_a_gpu():
    kernel = kernels.for_each(_wrong_type).compiled("cuda")
    with pytest.raises(Exception, match="no_such_attribute"):
        cuda.ptx(kernel, (0, 1, np.zeros(1)))


def _wide(index, x, out):
    out[index] = np.float64(x[index]) * np.float64(0.1)


def test_double_precision_would_be_seen():
    kernel = kernels.for_each(_wide, precision="float32").compiled("cuda")
    x = np.zeros(1, np.float32)
    with pytest.raises(AssertionError):
        assert_lean(cuda.ptx(kernel, (0, 1, x, x)), "float32")


def _sum_of_two(index, x, out):
    out[index] = x[index] + x[index + 1]


def test_the_text_of_a_kernel_is_kept_for_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_cache.folders.cache_clear()
    kernel = kernels.for_each(_sum_of_two, precision="float32").compiled("cuda")
    single, double = np.zeros(2, np.float32), np.zeros(2)
    asked = [((0, 1, single, single), True), ((0, 1, double, single), True)]
    asked += [((0, 1, single, single), False)]
    first = [cuda.ptx(kernel, arguments, optimized=good) for arguments, good in asked]
    assert len(set(first)) == 3
    monkeypatch.setattr(cuda.cuda, "compile_ptx", None)  # whoever compiles again, fails
    assert [cuda.ptx(kernel, arguments, optimized=good) for arguments, good in asked] == first
    assert len(list(tmp_path.glob("cache/__pycache__/*.ptx"))) == 3
    kernel_cache.clear()
    assert not list(tmp_path.glob("cache/__pycache__/*.ptx"))
    kernel_cache.folders.cache_clear()


@pytest.mark.cuda
def test_a_device_says_what_it_is():
    name, memory, multiprocessors = cuda.describe(0)
    assert name
    assert memory > 2**30
    assert multiprocessors > 0
    assert 0 < cuda.free_memory(0) <= memory


@pytest.mark.cuda
def test_arrays_are_zeroed():
    array = cuda.put(np.ones((100, 7), np.int32))
    cuda.fill_zero(array)
    assert not cuda.get(array).any()


@pytest.mark.cuda
def test_a_cooperative_grid_fits_the_device(ensemble):
    precision = f"float{8 * ensemble.times.itemsize}"
    search, _ = kernels.cuda_kernels(
        search_cuda, count_on_grid_cuda, precision=precision,
        bindings=ensemble.bindings, registers=64,
    )  # fmt: skip
    (tables, *rest), _ = arguments_of(ensemble)
    put = resolve("cuda").put
    arguments = put_table(resolve("cuda"), tables), *(
        put(one) if isinstance(one, np.ndarray) else one for one in rest
    )  # fmt: skip
    blocks = cuda.cooperative_block_count(search.compiled("cuda"), THREADS, arguments)
    assert blocks >= cuda.describe(0)[2]
    assert cuda.resources(search.compiled("cuda"))["registers"] <= 64
