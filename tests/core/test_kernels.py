"""Kernels on threads, and what is kept of them on disk."""

import importlib.util
import threading
import time

import numpy as np
import pytest

from ergode.core import devices, kernels
from ergode.core.compiler import kernel_cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache directory for this process."""
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    kernel_cache.folders.cache_clear()
    yield tmp_path / "cache"
    kernel_cache.folders.cache_clear()


def square(index, x, out):
    out[index] = x[index] * x[index] + 1.0


def add(start, stop, x, out):
    for k in range(start, stop):
        out[k] += helper(x[k])


def subtract(start, stop, x, out):
    for k in range(start, stop):
        out[k] -= helper(x[k])


def helper(x):
    return 2.0 * x


def fill(array):
    array[0] = 1.0


SQUARE = kernels.for_each(square)
ADD, SUBTRACT = kernels.cpu_kernels(add, subtract)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_for_each_reaches_every_index_once_on_any_number_of_threads(count):
    x = np.random.default_rng(1).normal(size=1000)
    for device, grain in [("cpu:1", None), ("cpu:2", None), ("cpu:7", None), ("cpu:3", 1)]:
        where = devices.resolve(device)
        out = np.full(1000, -1.0)
        where.run(SQUARE, count, where.put(x), out, grain=grain)
        assert np.array_equal(out[:count], x[:count] * x[:count] + 1.0)
        assert (out[count:] == -1.0).all()


@pytest.mark.parametrize("device", ["cpu:1", "cpu:3", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_what_is_finished_is_reported(device):
    where = devices.resolve(device)
    x, spans = where.put(np.arange(100.0)), []
    where.run(SQUARE, 100, x, where.empty(100, float), finished=lambda *span: spans.append(span))
    spans.sort()
    assert spans[0][0] == 0
    assert spans[-1][1] == 100
    assert all(one[1] == other[0] for one, other in zip(spans, spans[1:], strict=False))


@pytest.mark.cuda
def test_for_each_reaches_every_index_once_on_cuda():
    where = devices.resolve("cuda")
    x = np.random.default_rng(1).normal(size=3_000_000)
    for count in (0, 1, 1000, x.size):
        out = where.put(np.full(x.size, -1.0))
        where.run(SQUARE, count, where.put(x), out)
        found = where.get(out)
        # A GPU may fuse the multiplication with the addition.
        assert np.allclose(found[:count], x[:count] ** 2 + 1.0, rtol=3e-16, atol=0)
        assert (found[count:] == -1.0).all()


def test_kernels_made_together_share_a_module():
    x, out = np.arange(4.0), np.ones(4)
    for kernel in (ADD, ADD, SUBTRACT):
        kernel.compiled("cpu")(0, 3, x, out)
    assert out.tolist() == [1.0, 3.0, 5.0, 1.0]
    assert ADD.compiled("cpu").__module__ == SUBTRACT.compiled("cpu").__module__
    assert ADD.source("cpu").text == SUBTRACT.source("cpu").text
    assert ADD.compiled("cpu") is ADD.compiled("cpu")


def test_equal_kernels_are_compiled_once():
    again = kernels.for_each(square)
    assert again is not SQUARE
    assert again.compiled("cpu") is SQUARE.compiled("cpu")


def test_a_kernel_has_no_form_for_other_targets():
    with pytest.raises(TypeError, match="kernel 'add' has no cuda form"):
        ADD.compiled("cuda")
    with pytest.raises(TypeError, match="kernel 'fill' has no cpu form"):
        kernels.cuda_kernel(fill).compiled("cpu")


def first_use(index, out):
    out[index] = index * 3.0


def test_the_first_use_may_be_by_several_threads_at_once(cache, monkeypatch):
    kernel = kernels.for_each(first_use)
    made, make = [], importlib.util.module_from_spec

    def slowly(specification):
        made.append(specification.name)
        time.sleep(0.05)
        return make(specification)

    monkeypatch.setattr(kernels.importlib.util, "module_from_spec", slowly)
    barrier = threading.Barrier(8, timeout=60)
    found, compiled = [], []

    def use():
        barrier.wait()
        function = kernel.compiled("cpu")
        out = np.zeros(10)
        function(0, 10, out)
        compiled.append(function)
        found.append(out)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(np.array_equal(out, 3.0 * np.arange(10)) for out in found)
    assert len(set(compiled)) == 1
    assert len(made) == 1
    assert sum(compiled[0].stats.cache_misses.values()) == 1
    assert len(list(cache.glob("*.py"))) == 1


def test_the_source_is_generated_once(monkeypatch, cache):
    """A source takes up to a second."""
    made = []
    bundled = kernels.bundle.bundle

    def counted(*given, **named):
        made.append(given)
        return bundled(*given, **named)

    monkeypatch.setattr(kernels.bundle, "bundle", counted)
    for name in ("_COMPILED", "_SOURCES"):
        monkeypatch.setattr(kernels, name, {})
    kernel = kernels.for_each(square)
    assert kernel.compiled("cpu") is kernel.compiled("cpu")
    assert len(made) == 1
