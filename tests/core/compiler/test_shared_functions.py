"""Kernels of one process share the inner functions that are the same."""

import math
import subprocess
import sys

import numpy as np
import pytest

from ergode.core import kernels
from ergode.core.compiler.language import no_refcount, noinline_cpu

POWER = 2


def powered(x):
    return x**POWER


def outer(x):
    return math.sqrt(powered(x) + 1.0)


def one(index, x, out):
    out[index] = outer(x[index])


def other(index, x, out):
    out[index] = -outer(x[index])


def inner(body, name, target="cpu", **options):
    compiled = kernels.for_each(body, **options).compiled(target)
    return compiled.py_func.__globals__[name]


def test_what_another_kernel_has_compiled_is_not_compiled_again():
    x, found, expected = np.linspace(-1.0, 1.0, 7), np.zeros(7), np.zeros(7)
    kernels.for_each(one).compiled("cpu")(0, 7, x, expected)
    kernels.for_each(other).compiled("cpu")(0, 7, x, found)
    assert np.array_equal(found, -expected)
    assert inner(one, "outer") is inner(other, "outer")
    assert inner(one, "powered") is inner(other, "powered")
    assert inner(one, "one") is not inner(other, "other")
    assert len(inner(one, "outer").signatures) <= 1  # none if the kernels came from the disk


def test_devices_share_nothing():
    pytest.importorskip("numba_cuda")
    assert inner(one, "outer", "cuda") is inner(other, "outer", "cuda")
    assert inner(one, "outer", "cuda") is not inner(one, "outer", "cpu")


@pytest.mark.parametrize("power", [3, 2.0, True, np.int8(2), np.float32(2.0)])
def test_a_constant_of_another_value_or_type_makes_another_function(power):
    bound = {"POWER": power}
    assert inner(one, "powered", bindings=bound) is not inner(one, "powered")
    # What calls it is another function too.
    assert inner(one, "outer", bindings=bound) is not inner(one, "outer")
    assert inner(one, "outer", bindings=bound) is inner(other, "outer", bindings=bound)


def five_times(x):
    return 5.0 * x


def test_a_function_in_its_place_makes_another_function():
    bound = {"powered": five_times}
    x, out = np.array([3.0]), np.zeros(1)
    kernels.for_each(one, bindings=bound).compiled("cpu")(0, 1, x, out)
    assert out[0] == 4.0
    kernels.for_each(one).compiled("cpu")(0, 1, x, out)
    assert out[0] == math.sqrt(10.0)


def test_another_precision_makes_another_function():
    single = inner(one, "outer", precision="float32")
    assert single is not inner(one, "outer")
    x, out = np.ones(1, np.float32), np.zeros(1)
    kernels.for_each(one, precision="float32").compiled("cpu")(0, 1, x, out)
    assert out[0] == np.float32(math.sqrt(2.0))


@pytest.mark.parametrize("mark", [no_refcount, noinline_cpu])
def test_how_a_function_is_compiled_is_part_of_it(mark):
    def outer(x):
        return math.sqrt(powered(x) + 1.0)

    assert inner(one, "outer", bindings={"outer": outer}) is inner(one, "outer")
    mark(outer)
    assert inner(other, "outer", bindings={"outer": outer}) is not inner(one, "outer")


AFTERWARDS = """
import numpy as np
from ergode.core import kernels

def helper(x, out, k):
    if out.size < 3:
        raise ValueError("too small")
    return np.cumsum(x)[k] ** 2

def first(index, x, out):
    out[index] = helper(x, out, index)

def second(index, x, out):
    out[index] = -helper(x, out, index)

def third(index, x, out):
    out[index] = 3.0 * helper(x, out, index) - 2.0 * helper(x, out, index)

x, out = np.arange(4.0), np.zeros(4)
for body in ({bodies}):
    kernel = kernels.for_each(body).compiled("cpu")
    kernel(0, 4, x, out)
    assert list(np.abs(out)) == [0.0, 1.0, 9.0, 36.0], out
assert sum(kernel.stats.cache_hits.values()) == {hits}
helper = kernel.py_func.__globals__["helper"]
assert sum(helper.stats.cache_hits.values()) == {kept}
if {kept}:
    try:
        kernel(0, 1, x, out[:2])
    except ValueError as error:
        assert "too small" in str(error)
    else:
        raise AssertionError("no error")
"""


def test_a_kernel_from_the_disk_needs_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("ERGODE_CACHE_DIR", str(tmp_path / "cache"))
    cases = [("first, second", 0, 0), ("second,", 1, 0), ("first, second", 1, 0), ("third,", 0, 1)]
    for bodies, hits, kept in cases:
        script = tmp_path / "script.py"
        script.write_text(AFTERWARDS.format(bodies=bodies, hits=hits, kept=kept))
        subprocess.run([sys.executable, script], check=True)


def itself(x):
    return x


@noinline_cpu
def first_of(x):
    return itself(x)[0]


def uncounted(index, x, out):
    out[index] = first_of(x)


def counted(index, x, out):
    held = itself(x)
    out[index] = held[index]


def test_a_function_that_counts_no_references_is_shared_with_none_that_does():
    """What it returned was one reference short, and memory was freed while in use."""
    x, out = np.arange(7.0), np.zeros(7)
    kernels.for_each(uncounted).compiled("cpu")(0, 7, x, out)
    before = sys.getrefcount(x)
    kernels.for_each(counted).compiled("cpu")(0, 7, x, out)
    assert np.array_equal(out, x)
    assert sys.getrefcount(x) == before
    assert inner(uncounted, "itself") is not inner(counted, "itself")
