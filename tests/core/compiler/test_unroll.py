"""What the bundler writes: loops written out, and users' formulas with real numbers."""

import math

import numpy as np
import pytest

import ergode
from ergode.core import kernels
from ergode.core.compiler import bundle
from ergode.core.compiler.language import ByPrecision, UserFunction, polynomial, unroll

COUNT = 3
WEIGHTS = ((), (0.5,), (0.0, 0.25))
FACTOR = 2
CHOSEN = True


def unrolled(index, x, out):
    y = tuple(x[i] for i in range(COUNT))
    out[0] = sum(WEIGHTS[2][j] * y[j] for j in range(2) if WEIGHTS[2][j] != 0.0)
    out[1] = sum(y[i] for i in range(COUNT))
    out[2] = sum((y[i] for i in range(COUNT)), x[0])
    out[3] = sum(y[i] for i in range(0))
    for i in unroll(range(COUNT)):
        out[4 + i] = tuple(y[j] * y[i] for j in range(COUNT))[1]
    out[7] = len(WEIGHTS) if CHOSEN else no_such_name  # noqa: F821


def test_unrolled_code_computes_what_it_says():
    x, out = np.array([1.0, 2.0, 5.0]), np.zeros(8)
    ergode.Device("cpu:1").run(kernels.for_each(unrolled), 1, x, out)
    np.testing.assert_array_equal(out, [0.5, 8.0, 9.0, 0.0, 2.0, 4.0, 10.0, 3.0])


def test_sizes_can_be_bound():
    text = bundle.bundle([unrolled], target="cpu", bindings={"COUNT": 2}, loop=True).text
    assert "y = (x[0], x[1])" in text
    assert "out[4 + 1]" in text and "out[4 + 2]" not in text
    assert "0.25 * y[1]" in text
    assert "no_such_name" not in text


CUBIC = ByPrecision(float32=(0.5, -1.0, 2.0, 3.0), float64=(1.5, -1.0, 2.0, 3.0))
KIND = ByPrecision(float32=np.int32, float64=np.int64)


def of_precision(index, x, out):
    y = x[index]
    out[index] = polynomial(y, CUBIC) + KIND(CUBIC[3])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_polynomials_and_constants_of_a_precision(precision):
    x, out = np.array([0.25, -3.0], precision), np.zeros(2, precision)
    ergode.Device("cpu:1").run(kernels.for_each(of_precision, precision=precision), 2, x, out)
    own = getattr(CUBIC, precision)
    np.testing.assert_array_equal(out, polynomial(x, own) + 3)
    text = bundle.bundle([of_precision], target="cpu", precision=precision, loop=True).text
    assert text.count("fma(y, ") == 3 and f"int{precision[-2:]}(" in text


def over_unknown(index, x, out):
    out[0] = sum(x[i] for i in range(x.size))


def test_what_is_unrolled_must_be_known():
    with pytest.raises(ergode.ModelError, match=r"unrolls over 'range\(x.size\)', which is not"):
        bundle.bundle([over_unknown], target="cpu", loop=True)


def rhs(x):
    return x


def helper(x):
    return 3 * x


def formula(x):
    total = 0
    index = 1
    for i in range(2):
        total += FACTOR * x[i]
    y = x[index] ** 2 / 2 + x[0] ** FACTOR - 1
    return total + helper(y) + (1 if y > 4 else math.exp(-y) + np.log(x[1])) + math.sqrt(9 * x[0])


def apply(index, x, out):
    out[0] = rhs((x[0], x[1]))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("x", [(1.0, 2.0), (4.0, 6.0)])
def test_formula_computes_what_it_says(precision, x):
    out = np.zeros(1, precision)
    kernel = kernels.for_each(apply, precision=precision, bindings={"rhs": UserFunction(formula)})
    ergode.Device("cpu:1").run(kernel, 1, np.array(x, precision), out)
    assert out[0] == pytest.approx(formula(x), rel=1e-6 if precision == "float32" else 1e-15)


def test_numbers_of_a_formula_are_real():
    text = bundle.bundle(
        [apply],
        target="cpu",
        precision="float32",
        bindings={"rhs": UserFunction(formula)},
        loop=True,
    ).text
    assert "total = real(0.0)" in text
    assert "index = 1" in text
    assert "total += real(2.0) * x[i]" in text
    assert "x[index] ** 2 / real(2.0) + x[0] ** 2 - real(1.0)" in text
    assert "return real(3.0) * x" in text
    assert "real(1.0) if y > real(4.0)" in text
    assert "def exp(x):" in text and "def log(x):" in text
    assert "math.exp" not in text


def test_single_precision_formula_has_no_double():
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    kernel = kernels.for_each(apply, precision="float32", bindings={"rhs": UserFunction(formula)})
    x, out = np.zeros(2, np.float32), np.zeros(1, np.float32)
    text = cuda.ptx(kernel.compiled("cuda"), (0, 1, x, out))
    assert ".f64" not in text


def long_sums(index, x, out):
    y = tuple(x[i] for i in range(TERMS))
    out[0] = sum(y[i] * y[i] for i in range(TERMS))
    out[1] = sum(y[i] for i in range(TERMS))


TERMS = 400


def test_long_sums_of_products_are_not_nested_too_deeply():
    """Python's parser allows 200 parentheses: 200 variables ended in a SyntaxError."""
    x, out = np.linspace(0.0, 1.0, TERMS), np.zeros(2)
    ergode.Device("cpu:1").run(kernels.for_each(long_sums), 1, x, out)
    np.testing.assert_allclose(out, [(x * x).sum(), x.sum()], rtol=1e-13)
