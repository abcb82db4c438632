"""Accuracy of the elementary device functions, at every precision and on every device."""

import re

import mpmath
import numpy as np
import pytest

from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.math.elementary import (
    cos,
    exp,
    expm1,
    log,
    log1p,
    normal_quantile,
    power,
    rough_log2,
    sin,
    tan,
    tanh,
)

NAMES = ("log", "log1p", "exp", "expm1", "normal_quantile")
PRECISIONS = ("float32", "float64")
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


def each_function(index, x, out):
    value = x[index]
    out[0, index] = log(value)
    out[1, index] = log1p(value)
    out[2, index] = exp(value)
    out[3, index] = expm1(value)
    out[4, index] = normal_quantile(value)


KERNELS = {p: kernels.for_each(each_function, precision=p) for p in PRECISIONS}


def evaluate(precision, x, device="cpu"):
    """The arguments as rounded to the precision, and each function of them by name."""
    where = resolve(device)
    x = np.asarray(x, precision)
    out = where.empty((len(NAMES), x.size), precision)
    where.run(KERNELS[precision], x.size, where.put(x), out)
    return x, dict(zip(NAMES, where.get(out), strict=True))


def spread(precision, count):
    """Arguments of every magnitude, subnormal ones too, and dense about one."""
    info = np.finfo(precision)
    rng = np.random.default_rng(1)
    low, high = np.log(float(info.smallest_subnormal)), np.log(float(info.max))
    return np.concatenate(
        [
            np.exp(rng.uniform(low, high, count)),
            rng.uniform(0.5, 2.0, count),
            1.0 + 1e-3 * rng.normal(size=count),
        ]
    )


def exponents(precision, count):
    info = np.finfo(precision)
    rng = np.random.default_rng(2)
    low, high = np.log(float(info.smallest_subnormal)), np.log(float(info.max))
    normal = rng.normal(size=count)
    return np.concatenate([rng.uniform(low, high, count), normal, 1e-3 * normal])


ARGUMENTS = {
    "log": spread,
    "log1p": lambda p, n: np.concatenate(
        [spread(p, n), -(np.random.default_rng(3).random(n) ** 3)]
    ),
    "exp": exponents,
    "expm1": exponents,
}
# Largest error in units in the last place: (float32, float64).
BOUNDS = {
    "log": (1.0, 1.0),
    "log1p": (2.0, 2.0),
    "exp": (1.0, 1.0),
    "expm1": (2.0, 2.0),
}


IN_DOUBLE = {
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
}
IN_FORTY_DIGITS = {
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BOUNDS)
def test_float32_is_within_the_bound_of_double(name, device):
    x, found = evaluate("float32", ARGUMENTS[name]("float32", 300_000), device)
    with np.errstate(all="ignore"):
        expected = IN_DOUBLE[name](x.astype(float))
        unit = np.spacing(np.abs(expected).astype(np.float32)).astype(float)
    finite = np.isfinite(unit)
    error = np.abs(found[name].astype(float) - expected)[finite] / unit[finite]
    assert error.max() <= BOUNDS[name][0], x[finite][np.argmax(error)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BOUNDS)
def test_float64_is_within_the_bound_of_forty_digits(name, device):
    x, found = evaluate("float64", ARGUMENTS[name]("float64", 1200), device)
    with mpmath.workdps(40):
        for value, got in zip(x, found[name], strict=True):
            expected = IN_FORTY_DIGITS[name](mpmath.mpf(float(value)))
            unit = np.spacing(abs(float(expected)))
            if np.isfinite(unit):
                error = float(abs(mpmath.mpf(float(got)) - expected) / unit)
                assert error <= BOUNDS[name][1], value


def probabilities(precision):
    """Probabilities about one half, in the bulk, at both ends, and at the formulas' seams."""
    rng = np.random.default_rng(6)
    low = np.log(float(np.finfo(precision).smallest_subnormal))
    seams = np.concatenate([0.005 + 1e-9 * np.arange(-3, 4), 0.02 + 1e-9 * np.arange(-3, 4)])
    p = np.concatenate(
        [
            rng.random(800),
            np.exp(rng.uniform(low, 0.0, 600)),
            1.0 - np.exp(rng.uniform(-30.0, 0.0, 300)),
            0.5 + 1e-4 * rng.normal(size=100),
            seams,
            1.0 - seams,
            2.0 ** -np.array([1.5, 2, 25, 33, 53, 54, 56, 57, 58]),
        ]
    ).astype(precision)
    return p[(p > 0) & (p < 1) & (p != 0.5)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 4e-7), ("float64", 1e-14)])
def test_normal_quantile(precision, bound, device):
    x, found = evaluate(precision, probabilities(precision), device)
    with mpmath.workdps(40):
        for p, z in zip(x, found["normal_quantile"], strict=True):
            p, z = mpmath.mpf(float(p)), mpmath.mpf(float(z))
            # How far z is off, by a step of Newton's method for the logarithm of its tail.
            q, side = (p, -1) if p < 0.5 else (1 - p, 1)
            tail = mpmath.erfc(side * z / mpmath.sqrt(2)) / 2
            density = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
            off = mpmath.log(tail / q) * tail / density
            assert abs(off) <= bound * abs(z), float(p)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_normal_quantile_is_odd_and_monotone(precision, device):
    step = 2.0**-20
    _, found = evaluate(precision, np.arange(step, 1.0, step), device)
    z = found["normal_quantile"]
    assert np.array_equal(z, -z[::-1])
    assert (np.diff(z) > 0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_edges(precision, device):
    info = np.finfo(precision)
    inf, nan = np.inf, np.nan
    big, least = float(info.max), float(info.smallest_subnormal)
    x, found = evaluate(
        precision, [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, big, -big, least, -least], device
    )
    top = np.log(big)
    expected = {
        "log": [-inf, -inf, 0, nan, inf, nan, nan, top, nan, np.log(least), nan],
        "log1p": [0, 0, np.log(2), -inf, inf, nan, nan, top, nan, least, -least],
        "exp": [1, 1, np.e, 1 / np.e, inf, 0, nan, inf, 0, 1, 1],
        "expm1": [0, 0, np.e - 1, 1 / np.e - 1, inf, -1, nan, inf, -1, least, -least],
        "normal_quantile": [-inf, -inf, inf, nan, nan, nan, nan, nan, nan, None, nan],
    }
    for name, values in expected.items():
        for argument, got, wanted in zip(x, found[name], values, strict=True):
            if wanted is not None:
                wanted = np.array(wanted, precision)
                assert np.isclose(got, wanted, rtol=1e-6, atol=0, equal_nan=True), (name, argument)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_exp_at_the_ends_of_its_range(precision, device):
    info = np.finfo(precision)
    x = [np.log(float(info.max)) * (1 - info.eps), np.log(float(info.smallest_subnormal)) + 0.1]
    x, found = evaluate(precision, x, device)
    assert 0.99 * info.max < found["exp"][0] <= info.max
    assert found["exp"][1] == info.smallest_subnormal


@pytest.mark.cuda
@pytest.mark.parametrize("precision", PRECISIONS)
def test_both_devices_give_the_same_bits(precision):
    x = np.concatenate(
        [spread(precision, 200_000), exponents(precision, 200_000), probabilities(precision)]
    )
    _, on_cpu = evaluate(precision, x, "cpu")
    _, on_cuda = evaluate(precision, x, "cuda")
    for name in NAMES:
        assert np.array_equal(on_cpu[name], on_cuda[name], equal_nan=True), name


def test_float32_ptx_has_no_double():
    pytest.importorskip("numba.cuda")
    from ergode.core.devices import cuda

    x, out = np.zeros(1, np.float32), np.zeros((1, 1), np.float32)
    text = cuda.ptx(KERNELS["float32"].compiled("cuda"), (0, 1, x, out))
    assert not re.search(r"\.f64", text)
    assert "fma.rn.f32" in text


def each_of_radians(index, x, out):
    out[0, index] = sin(x[index])
    out[1, index] = cos(x[index])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 7.0), ("float64", 2.0)])
def test_sine_and_cosine_of_radians(precision, bound, device):
    where = resolve(device)
    rng = np.random.default_rng(6)
    parts = [rng.uniform(-top, top, 500) for top in (2.0, 100.0, 1e5)]
    x = np.concatenate([*parts, np.arange(-9, 10) * np.pi / 2]).astype(precision)
    out = where.empty((2, x.size), precision)
    kernel = kernels.for_each(each_of_radians, precision=precision)
    where.run(kernel, x.size, where.put(x), out)
    with mpmath.workdps(60):
        for row, function in zip(where.get(out), (mpmath.sin, mpmath.cos), strict=True):
            exact = np.array([float(function(mpmath.mpf(float(value)))) for value in x])
            error = np.abs(row - exact) / np.spacing(np.abs(exact).astype(precision))
            assert error.max() <= bound, x[np.argmax(error)]
    # Beyond the reduction there is no number, rather than a wrong one.
    most = 2.0 ** (22 if precision == "float32" else 51)
    x = np.array([np.nextafter(x.dtype.type(most), x.dtype.type(0)), most, -most, 1e20, np.inf])
    out = where.empty((2, x.size), precision)
    where.run(kernel, x.size, where.put(x.astype(precision)), out)
    for row, function in zip(where.get(out), (np.sin, np.cos), strict=True):
        assert abs(row[0] - function(x[0])) < 1e-6
        assert np.isnan(row[1:]).all()


def each_of_two(index, x, y, out):
    out[0, index] = power(x[index], y[index])
    out[1, index] = tanh(x[index])
    out[2, index] = tan(x[index])
    out[3, index] = rough_log2(x[index])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_powers_and_tangents(precision, device):
    where = resolve(device)
    rng = np.random.default_rng(7)
    top = 7.0 if precision == "float32" else 60.0  # of the logarithm of a power
    x = np.exp(rng.uniform(-8, 8, 3000)).astype(precision)
    y = (rng.uniform(-top, top, 3000) / np.log(x)).astype(precision)
    # C99, annex F.
    special = [
        (0, 0, 1), (0, 2, 0), (0, -1, np.inf), (1, np.inf, 1), (-2, 3, -8), (-2, 2, 4),
        (-2, 0.5, np.nan), (np.inf, 2, np.inf), (np.inf, -2, 0), (np.nan, 1, np.nan),
        (np.nan, 0, 1), (2, np.nan, np.nan), (-0.5, -3, -8), (2, np.inf, np.inf), (10, 400, np.inf),
        (10, -400, 0),
    ]  # fmt: skip
    x = np.append(x, [row[0] for row in special]).astype(precision)
    y = np.append(y, [row[1] for row in special]).astype(precision)
    out = where.empty((4, x.size), precision)
    kernel = kernels.for_each(each_of_two, precision=precision)
    where.run(kernel, x.size, where.put(x), where.put(y), out)
    powers, hyperbolic, tangents, rough = where.get(out)
    np.testing.assert_array_equal(powers[3000:], [row[2] for row in special])
    np.testing.assert_allclose(hyperbolic[3000:], np.tanh(x[3000:]), rtol=1e-6)
    assert np.abs(rough[:3000] - np.log2(x[:3000])).max() < 0.09
    allowed = 3 + np.abs(y[:3000] * np.log(x[:3000])) / 8
    with mpmath.workdps(40):
        numbers = [mpmath.mpf(float(value)) for value in x[:3000]]
        for found, exact, bound in (
            (
                powers,
                [a ** mpmath.mpf(float(b)) for a, b in zip(numbers, y, strict=False)],
                allowed,
            ),
            (hyperbolic, [mpmath.tanh(a) for a in numbers], 3),
            (tangents, [mpmath.tan(a) for a in numbers], 3 if precision == "float64" else 14),
        ):
            values = np.array([float(value) for value in exact])
            error = np.abs(found[:3000] - values) / np.spacing(np.abs(values).astype(precision))
            assert (error <= bound).all()
