"""Accuracy of the special device functions against mpmath and SciPy."""

import math
import re

import mpmath
import numpy as np
import pytest
import scipy.special

from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.math.special import (
    erfcx,
    gamma_density,
    gamma_hazard,
    gamma_p,
    gamma_q,
    gamma_survival_quantile,
    log_gamma,
    normal_hazard,
    normal_survival,
    x_minus_log1p,
)

NAMES = (
    "erfcx", "normal_survival", "normal_hazard", "x_minus_log1p", "log_gamma",
    "gamma_density", "gamma_p", "gamma_q", "gamma_hazard",
    "gamma_survival_quantile",
)  # fmt: skip
PRECISIONS = ("float32", "float64")
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


def each_function(index, x, shape, p, out):
    value = x[index]
    form = shape[index]
    out[0, index] = erfcx(value)
    out[1, index] = normal_survival(value)
    out[2, index] = normal_hazard(value)
    out[3, index] = x_minus_log1p(math.fabs(value))
    out[4, index] = log_gamma(form)
    value = math.fabs(value)
    out[5, index] = gamma_density(value, form)
    out[6, index] = gamma_p(value, form)
    out[7, index] = gamma_q(value, form)
    out[8, index] = gamma_hazard(value, form)
    out[9, index] = gamma_survival_quantile(p[index], form)


KERNELS = {p: kernels.for_each(each_function, precision=p) for p in PRECISIONS}


def evaluate(precision, x, shape, p, device="cpu"):
    where = resolve(device)
    x, shape, p = (np.asarray(values, precision) for values in (x, shape, p))
    out = where.empty((len(NAMES), x.size), precision)
    where.run(KERNELS[precision], x.size, where.put(x), where.put(shape), where.put(p), out)
    return dict(zip(NAMES, where.get(out), strict=True))


def cases(precision, count):
    """Arguments half about the mean of the gamma distribution and half of every size."""
    rng = np.random.default_rng(2)
    shape = np.exp(rng.uniform(np.log(0.05), np.log(1000.0), count)).astype(precision)
    wide = np.where(
        rng.random(count) < 0.5,
        3.0 * rng.normal(size=count),
        np.exp(rng.uniform(-8.0, 6.0, count)),
    )
    near = shape * np.exp(1.5 * rng.normal(size=count) / np.sqrt(shape))
    x = np.where(rng.random(count) < 0.5, near, wide).astype(precision)
    depth = 20.0 if precision == "float32" else 35.0
    p = np.exp(-rng.uniform(0.0, depth, count) * (rng.random(count) < 0.5))
    p = np.where(p < 1.0, p, rng.random(count)).astype(precision)
    return x, shape, p


def scaled_erfc(x):
    if x < 50:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    terms = [(-1) ** k * mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8)]
    return mpmath.fsum(terms) / (x * mpmath.sqrt(mpmath.pi))


def references(x, shape):
    """Exact values by name at 30 digits."""
    x, shape = [mpmath.mpf(float(v)) for v in x], [mpmath.mpf(float(v)) for v in shape]
    root = mpmath.sqrt(2)
    y = [abs(v) for v in x]
    pairs = list(zip(y, shape, strict=True))
    density = [mpmath.exp((a - 1) * mpmath.log(v) - v - mpmath.loggamma(a)) for v, a in pairs]
    survival = [mpmath.gammainc(a, v, mpmath.inf, regularized=True) for v, a in pairs]
    return {
        "erfcx": [scaled_erfc(v) for v in x],
        "normal_survival": [mpmath.erfc(v / root) / 2 for v in x],
        "normal_hazard": [mpmath.sqrt(2 / mpmath.pi) / scaled_erfc(v / root) for v in x],
        "x_minus_log1p": [v - mpmath.log1p(v) for v in y],
        "log_gamma": [mpmath.loggamma(a) for a in shape],
        "gamma_density": density,
        "gamma_p": [mpmath.gammainc(a, 0, v, regularized=True) for v, a in pairs],
        "gamma_q": survival,
        "gamma_hazard": [d / s for d, s in zip(density, survival, strict=True)],
    }


# Largest relative error: (float32, float64).
BOUNDS = {
    "erfcx": (1e-6, 2e-15),
    "normal_survival": (1e-6, 2e-15),
    "normal_hazard": (1e-6, 2e-15),
    "x_minus_log1p": (2e-6, 4e-15),
    "log_gamma": (5e-6, 1e-14),
    "gamma_density": (1e-4, 5e-13),
    "gamma_p": (1e-4, 5e-13),
    "gamma_q": (1e-4, 5e-13),
    "gamma_hazard": (1e-4, 5e-13),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_against_thirty_digits(precision, device):
    x, shape, p = cases(precision, 500)
    found = evaluate(precision, x, shape, p, device)
    info = np.finfo(precision)
    with mpmath.workdps(30):
        expected = references(x, shape)
        for name, bounds in BOUNDS.items():
            bound = bounds[PRECISIONS.index(precision)]
            for index, (got, wanted) in enumerate(zip(found[name], expected[name], strict=True)):
                if info.tiny < abs(wanted) < 0.9 * float(info.max):
                    scale = max(abs(wanted), 1) if name == "log_gamma" else abs(wanted)
                    error = float(abs(mpmath.mpf(float(got)) - wanted) / scale)
                    assert error <= bound, (name, x[index], shape[index])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-4), ("float64", 5e-13)])
def test_gamma_quantiles_against_scipy(precision, bound, device):
    x, shape, p = cases(precision, 3000)
    found = evaluate(precision, x, shape, p, device)
    tiny = np.finfo(precision).tiny
    expected = scipy.special.gammainccinv(shape.astype(float), p.astype(float))
    kept = (expected > tiny) & (p < 1)
    error = np.abs(found["gamma_survival_quantile"] / expected - 1.0)[kept]
    assert error.max() <= bound, (shape[kept][np.argmax(error)], p[kept][np.argmax(error)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_edges(precision, device):
    inf, nan = np.inf, np.nan
    x = [0.0, inf, -inf, 0.0, 0.0, 1e4, -1e4]
    shape = [0.5, 0.5, 3.0, 1.0, 2.0, 2.0, 0.7]
    p = [0.0, 1.0, nan, -1.0, 2.0, 0.0, 1.0]
    found = evaluate(precision, x, shape, p, device)
    expected = {
        "erfcx": [1, 0, inf, 1, 1, 5.6418958e-05, inf],
        "normal_survival": [0.5, 0, 1, 0.5, 0.5, 0, 1],
        "normal_hazard": [0.79788456, inf, 0, 0.79788456, 0.79788456, 1e4, 0],
        "gamma_density": [inf, 0, 0, 1, 0, 0, 0],
        "gamma_p": [0, 1, 1, 0, 0, 1, 1],
        "gamma_q": [1, 0, 0, 1, 1, 0, 0],
        "gamma_hazard": [inf, 1, 1, 1, 0, 0.9999, 1.00003],
        "gamma_survival_quantile": [inf, 0, nan, nan, nan, inf, 0],
    }
    for name, values in expected.items():
        assert np.allclose(found[name], values, rtol=1e-6, atol=0, equal_nan=True), name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_hazards_where_density_and_survival_are_zero(precision, device):
    z = np.array([40.0, 1e3, 1e6, 1e15])
    found = evaluate(precision, z, np.full(4, 5.5), np.full(4, 0.5), device)
    # The tails' own expansions: z + 1 / z - 2 / z^3, and 1 - (shape - 1) / x to first order.
    assert np.allclose(found["normal_hazard"], z + 1 / z - 2 / z**3, rtol=1e-6, atol=0)
    assert (found["gamma_density"] == 0).sum() >= 2
    assert np.allclose(found["gamma_hazard"][1:], 1 - 4.5 / z[1:], rtol=2e-5, atol=0)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", PRECISIONS)
def test_both_devices_give_the_same_bits(precision):
    arguments = cases(precision, 20_000)
    on_cpu, on_cuda = (evaluate(precision, *arguments, device) for device in ("cpu", "cuda"))
    for name in NAMES:
        assert np.array_equal(on_cpu[name], on_cuda[name], equal_nan=True), name


def test_float32_ptx_has_no_double():
    pytest.importorskip("numba.cuda")
    from ergode.core.devices import cuda

    column, table = np.zeros(1, np.float32), np.zeros((1, 1), np.float32)
    text = cuda.ptx(KERNELS["float32"].compiled("cuda"), (0, 1, column, column, column, table))
    assert not re.search(r"\.f64", text)
