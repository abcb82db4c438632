"""Holding times inside kernels: against SciPy's, in the far tail, and as keyed draws."""

import re

import mpmath
import numpy as np
import pytest

from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.math.random import draw_words, uniform
from ergode.models.holding_times import kernels as holding_times
from ergode.models.holding_times.families import (
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    LogNormal,
    Weibull,
)

PRECISIONS = ("float32", "float64")
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))
DISTRIBUTIONS = [
    Exponential(mean=4),
    LogNormal(mean=5, median=4),
    Weibull(shape=0.7, scale=3),
    Weibull(mean=6, sd=2),
    Gamma(mean=6, sd=4),
    Gamma(shape=0.4, scale=2),
    Erlang(stages=4, mean=8),
    Deterministic(3),
    Empirical([1, 3, 3, 5, 7], [0, 0.25, 0.5, 0.5, 1]),
]
CONTINUOUS = [d for d in DISTRIBUTIONS if not isinstance(d, Deterministic | Empirical)]
# A gamma draw rejects, and a normal draw spends a bit on its sign; the others invert a uniform.
INVERTED = [d for d in DISTRIBUTIONS if not isinstance(d, Gamma | LogNormal)]
NAMES = ("survival", "hazard", "survival_quantile", "ending_probability")


def each_function(index, kind, a, b, times, cdf, row_count, t, step, p, out):
    time = t[index]
    share = p[index]
    out[0, index] = holding_times.survival(kind, a, b, times, cdf, 0, row_count, time)
    out[1, index] = holding_times.hazard(kind, a, b, times, cdf, 0, row_count, time)
    out[2, index] = holding_times.survival_quantile(kind, a, b, times, cdf, 0, row_count, share)
    out[3, index] = holding_times.ending_probability(
        kind, a, b, times, cdf, 0, row_count, time, step
    )


def each_draw(index, kind, a, b, times, cdf, row_count, seed, replicate, entity, purpose, out):
    node = entity[index]
    out[0, index] = holding_times.draw(
        kind, a, b, times, cdf, 0, row_count, seed, replicate, node, purpose, 5
    )
    w0, w1, _, _ = draw_words(seed, replicate, node, purpose, 5)
    out[1, index] = holding_times.survival_quantile(
        kind, a, b, times, cdf, 0, row_count, uniform(w0, w1)
    )


KERNELS = {p: kernels.for_each(each_function, precision=p) for p in PRECISIONS}
DRAWS = {p: kernels.for_each(each_draw, precision=p) for p in PRECISIONS}


def code_arguments(distribution, precision, where):
    code = distribution.code()
    real = np.dtype(precision).type
    times, cdf = (np.zeros(1) if v is None else v for v in (code.times, code.cdf))
    return (
        np.int64(code.kind),
        real(code.a),
        real(code.b),
        where.put(times.astype(precision)),
        where.put(cdf.astype(precision)),
        np.int64(times.size),
    )


def evaluate(distribution, precision, t, step=0.5, p=0.5, device="cpu"):
    where = resolve(device)
    t, p = (np.array(v) for v in np.broadcast_arrays(np.asarray(t, precision), p))
    out = where.empty((len(NAMES), t.size), precision)
    where.run(
        KERNELS[precision],
        t.size,
        *code_arguments(distribution, precision, where),
        where.put(t),
        np.dtype(precision).type(step),
        where.put(p.astype(precision)),
        out,
    )
    return dict(zip(NAMES, where.get(out), strict=True))


def draws(distribution, precision, entity, seed=1, replicate=0, purpose=2, device="cpu", **how):
    where = resolve(device)
    kernel = how.get("kernel", DRAWS[precision])
    entity = np.asarray(entity, np.int64)
    out = where.empty((2, entity.size), precision)
    where.run(
        kernel,
        entity.size,
        *code_arguments(distribution, precision, where),
        np.uint64(seed),
        np.int64(replicate),
        where.put(entity),
        np.int64(purpose),
        out,
    )
    return where.get(out)


def ids(distribution):
    return repr(distribution)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 2e-4), ("float64", 2e-12)])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=ids)
def test_device_functions_are_the_methods(distribution, precision, bound, device):
    t = np.concatenate([[-1.0, 0.0], np.linspace(0.01, 40.0, 500), np.arange(1.0, 8.0)])
    t = t.astype(precision)
    p = np.linspace(0.001, 0.999, t.size).astype(precision)
    found = evaluate(distribution, precision, t, p=p, device=device)
    exact_t, exact_p = t.astype(float), p.astype(float)
    # Where the density of the float32 time itself overflows or vanishes there is nothing to say.
    floor = float(np.finfo(precision).tiny)
    for name in ("survival", "hazard"):
        expected = getattr(distribution, name)(exact_t)
        same = found[name] == expected  # infinities
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(found[name] - expected))
        close = error <= bound * np.where(same, 1.0, np.abs(expected)) + floor
        # 1 - cdf has the rounding of one, not of itself
        close |= (error < 4 * np.finfo(precision).eps) & (expected < 2)
        assert close.all(), (name, t[~close], found[name][~close], expected[~close])
    assert np.allclose(found["survival_quantile"], distribution.quantile(1 - exact_p), rtol=bound)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-5), ("float64", 1e-13)])
def test_log_normal_hazard_at_a_million_medians(precision, bound, device):
    distribution = LogNormal(mean=5, median=4)
    t = 4.0 * np.array([1e-3, 1e-1, 1.0, 1e3, 1e6])
    found = evaluate(distribution, precision, t, device=device)["hazard"]
    assert distribution.survival(4e6) < 1e-90
    _, mu, sigma, *_ = distribution.code()
    with mpmath.workdps(120):
        for time, hazard in zip(t.astype(precision), found, strict=True):
            z = (mpmath.log(mpmath.mpf(float(time))) - mu) / sigma
            density = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
            expected = density / (mpmath.erfc(z / mpmath.sqrt(2)) / 2) / (sigma * float(time))
            # z is a difference of logarithms: its rounding counts z-fold in the lower tail.
            allowed = bound * max(1.0, float(z * z))
            assert abs(float(hazard / expected) - 1) < allowed, time
            by_method = float(distribution.hazard(float(time)))
            assert abs(by_method / float(expected) - 1) < 1e-12 * max(1.0, float(z * z))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 2e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("distribution", CONTINUOUS, ids=ids)
def test_ending_probability(distribution, precision, bound, device):
    """1 - S(t + step) / S(t), where SciPy can say it, and by the hazard beyond."""
    t = np.array([0.0, 0.05, 1.0, 3.0, 8.0, 20.0]).astype(precision)
    for step in (0.5, 10.0):
        found = evaluate(distribution, precision, t, step=step, device=device)
        exact = t.astype(float)
        before, after = distribution.survival(exact), distribution.survival(exact + step)
        expected = (before - after) / before
        assert np.allclose(found["ending_probability"], expected, rtol=bound, atol=0)
    step = 2.0**-14
    late = np.array([30.0, 500.0, 1e4]).astype(precision)
    found = evaluate(distribution, precision, late, step=step, device=device)
    middle = distribution.hazard(late.astype(float) + 0.5 * step)
    expected = -np.expm1(-step * middle)
    absolute = 40 * np.finfo(precision).eps
    assert np.allclose(found["ending_probability"], expected, rtol=1e-3, atol=absolute)


def test_ending_probability_with_jumps():
    table = Empirical([1, 3, 3, 5, 7], [0, 0.25, 0.5, 0.5, 1])
    found = evaluate(table, "float64", [0.0, 2.5, 3.0, 6.5, 9.0], step=1.0)
    expected = [0.0, 0.3125 / 0.8125, 0.0, 1.0, 1.0]
    assert np.allclose(found["ending_probability"], expected)
    certain = evaluate(Deterministic(3), "float64", [1.0, 2.0, 5.0], step=1.0)
    assert certain["ending_probability"].tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=ids)
def test_a_draw_depends_on_its_key_alone(distribution, precision):
    entity = np.arange(1000)
    together, _ = draws(distribution, precision, entity)
    some, _ = draws(distribution, precision, entity[::-7])
    assert np.array_equal(some, together[::-7])
    assert (together > 0).all()
    if not isinstance(distribution, Deterministic):
        for other in ({"seed": 2}, {"replicate": 1}, {"purpose": 3}):
            different, _ = draws(distribution, precision, entity, **other)
            assert np.mean(different == together) < 0.3  # an atom repeats itself


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("distribution", INVERTED, ids=ids)
def test_a_draw_inverts_the_survival_function(distribution, precision):
    drawn, inverted = draws(distribution, precision, np.arange(1000))
    assert np.array_equal(drawn, inverted)


def test_flags_keep_the_kinds_asked_for():
    kept = holding_times.flags([holding_times.GAMMA, holding_times.EMPIRICAL])
    found = [option for option, flag in kept.items() if flag]
    assert found == [holding_times.HAS_GAMMA, holding_times.HAS_EMPIRICAL]
    assert len(kept) == 5


@pytest.mark.parametrize("distribution", [Exponential(mean=4), LogNormal(mean=5, median=4)])
def test_leaving_out_kinds_changes_no_draw(distribution):
    entity = np.arange(1000)
    bindings = holding_times.flags([distribution.code().kind])
    lean = kernels.for_each(each_draw, precision="float32", bindings=bindings)
    assert np.array_equal(
        draws(distribution, "float32", entity, kernel=lean), draws(distribution, "float32", entity)
    )


@pytest.mark.cuda
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=ids)
def test_both_devices_give_the_same_bits(distribution, precision):
    entity = np.arange(300_000)
    on_cpu, _ = draws(distribution, precision, entity)
    on_cuda, _ = draws(distribution, precision, entity, device="cuda")
    assert np.array_equal(on_cpu, on_cuda)
    t, p = np.linspace(0.0, 50.0, 20_000), np.linspace(0.0, 1.0, 20_000)
    on_cpu = evaluate(distribution, precision, t, p=p)
    on_cuda = evaluate(distribution, precision, t, p=p, device="cuda")
    for name in NAMES:
        assert np.array_equal(on_cpu[name], on_cuda[name], equal_nan=True), name


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (KERNELS["float32"], (np.zeros(1, "f4"), np.float32(1), np.zeros(1, "f4"))),
        (DRAWS["float32"], (np.uint64(1), 0, np.zeros(1, "i8"), 0)),
    ],
)
def test_float32_ptx_has_no_double(kernel, arguments):
    pytest.importorskip("numba.cuda")
    from ergode.core.devices import cuda

    one, row = np.float32(1), np.zeros(1, "f4")
    code, out = (0, one, one, row, row, 1), np.zeros((1, 1), "f4")
    text = cuda.ptx(kernel.compiled("cuda"), (0, 1, *code, *arguments, out))
    assert not re.search(r"\.f64", text)
