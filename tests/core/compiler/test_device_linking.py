"""CUDA kernels that are linked with functions of a model, against those that contain them."""

import re
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("numba.cuda")
from ergode.core import kernels
from ergode.core.compiler import device_linking, kernel_cache
from ergode.core.compiler.language import UserFunction, linked, option, real
from ergode.core.devices import cuda

FUNCTION = option()
RATE = option(0.5, of_linked=True)


@linked
def drawn(x, n):
    return real(RATE * math_of(x) ** n)


def math_of(x):
    return x % real(3.0)


def body(index, x, out):
    total = real(0.0)
    for k in range(3):
        first, second = FUNCTION((x[index], real(k)), real(k))
        total += first * second + drawn(first, k)
    out[index] = total


def product(u, k):
    return u[0] * u[1] + k, u[0] // 2


def quotient(u, k):
    return 2, _helper(u[0]) / (1 + u[1] ** 2)


def _helper(x):
    return x % 7.0


def made(function, precision):
    bindings = {FUNCTION: UserFunction(function, (2,)), RATE: 0.25}
    return kernels.for_each(body, precision=precision, bindings=bindings)


def ptx(kernel, precision):
    x = np.ones(4, precision)
    return cuda.ptx(kernel.compiled("cuda"), (0, 4, x, x), optimized=True)


def arithmetic(text):
    """Numbers of floating-point instructions by kind: loops over the grid may be laid otherwise."""
    return Counter(
        re.findall(r"^\s+(?:@%?\w+ )?([a-z][\w.]*\.f(?:32|64)[\w.]*)", text, re.MULTILINE)
    )


@pytest.mark.parametrize("function", [product, quotient])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_linked_kernel_computes_what_a_whole_one_does(function, precision):
    kernel = made(function, precision)
    found = ptx(kernel, precision)
    x = np.ones(4, precision)
    whole = cuda.ptx(kernels.load(kernel.source("cuda")), (0, 4, x, x), optimized=True)
    assert arithmetic(found) == arithmetic(whole)
    assert not re.search(r"\bcall\b.*(?:_ZN|external)", found)


def open_files():
    return set((kernel_cache.folders().own / "__pycache__").glob("*.open"))


def test_another_model_needs_no_other_kernel():
    ptx(made(lambda u, k: (u[0], u[1]), "float64"), "float64")
    before = open_files()
    assert before
    ptx(made(lambda u, k: (u[1], u[0] - k), "float64"), "float64")
    assert open_files() == before


def test_a_damaged_file_is_made_again(monkeypatch):
    kernel = made(lambda u, k: (u[0] + 2.0, u[1]), "float32")
    first = ptx(kernel, "float32")
    monkeypatch.setattr(device_linking, "_OPEN", {})  # as in another process
    digest = kernel.source("cuda", links=True).digest
    (file,) = (one for one in open_files() if digest in one.name)
    file.write_bytes(file.read_bytes()[:100])
    again = ptx(made(lambda u, k: (2.0 + u[0], u[1]), "float32"), "float32")
    assert arithmetic(again) == arithmetic(first)
