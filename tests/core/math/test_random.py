"""Random draws: the published words, exact ranges, distributions, independence, both devices.

Every statistical test has a fixed seed and a probability of 5e-9 of failing by chance; there are
fewer than two hundred, so that all of them pass together with probability 1 - 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import stats

from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.core.math.random import (
    binomial,
    draw_words,
    exponential,
    gamma,
    integer_below,
    normal,
    philox,
    poisson,
    shuffle_rank,
    shuffled,
    uniform,
    uniform_24,
    uniform_53,
)

LEVEL = 5e-9
Z = stats.norm.isf(LEVEL / 2)
PRECISIONS = ("float32", "float64")
SEED = np.uint64(0x0123456789ABCDEF)
COUNT = 1_000_000


# ---- kernels


def _philox(index, counters, out):
    w0, w1, w2, w3 = philox(
        counters[index, 0], counters[index, 1], counters[index, 2], counters[index, 3],
        counters[index, 4], counters[index, 5],
    )  # fmt: skip
    out[index, 0] = w0
    out[index, 1] = w1
    out[index, 2] = w2
    out[index, 3] = w3


def _words(index, seed, replicate, entity, purpose, number, out):
    words = draw_words(seed[index], replicate[index], entity[index], purpose[index], number[index])
    out[index, 0] = words[0]
    out[index, 1] = words[1]
    out[index, 2] = words[2]
    out[index, 3] = words[3]


def _fold(index, seed, blocks, out):
    """Digest of the words of many blocks, in which their order counts."""
    digest = np.uint64(1)
    for k in range(blocks):
        w0, w1, w2, w3 = draw_words(seed, index & 7, index * blocks + k, np.uint32(3), k & 3)
        high = (np.uint64(w0) << np.uint64(32)) | np.uint64(w1)
        low = (np.uint64(w2) << np.uint64(32)) | np.uint64(w3)
        digest = (digest * np.uint64(0x9E3779B97F4A7C15) + high) ^ low
    out[index] = digest


def _of_words(index, words, out):
    w0, w1 = words[index, 0], words[index, 1]
    out[0, index] = uniform(w0, w1)
    out[1, index] = exponential(w0, w1)
    out[2, index] = normal(w0, w1)


def _uniforms(index, words, single, double):
    single[index] = uniform_24(words[index, 0], words[index, 1])
    double[index] = uniform_53(words[index, 0], words[index, 1])


def _gammas(index, seed, shapes, out):
    for k in range(shapes.size):
        out[k, index] = gamma(seed, 2, index, np.uint32(7), k, shapes[k])


def _integers(index, seed, below, out):
    for k in range(below.size):
        out[k, index] = integer_below(below[k], seed, 3, index, np.uint32(8), k)


def _poissons(index, seed, means, out):
    for k in range(means.size):
        out[k, index] = poisson(seed, 4, index, np.uint32(9), k, means[k])


def _binomials(index, seed, trials, probabilities, out):
    for k in range(trials.size):
        out[k, index] = binomial(seed, 5, index, np.uint32(10), k, trials[k], probabilities[k])


def _orders(index, seed, count, inverse, replicate, given, out):
    if inverse:
        out[index] = shuffle_rank(given[index], count, seed, replicate[index], np.uint32(11))
    else:
        out[index] = shuffled(given[index], count, seed, replicate[index], np.uint32(11))


def all_ones(seed, replicate, entity, purpose, index):
    one = np.uint32(0xFFFFFFFF)
    return one, one, one, one


PHILOX, WORDS, FOLD, UNIFORMS = map(kernels.for_each, (_philox, _words, _fold, _uniforms))
OF_WORDS = {p: kernels.for_each(_of_words, precision=p) for p in PRECISIONS}
GAMMAS = {p: kernels.for_each(_gammas, precision=p) for p in PRECISIONS}
# Counts are computed in float64 whatever the working precision.
INTEGERS, POISSONS, BINOMIALS = (
    kernels.for_each(body, precision="float32") for body in (_integers, _poissons, _binomials)
)
ORDERS = kernels.for_each(_orders)


def run(kernel, count, *arguments, out, device="cpu"):
    """Run a kernel; `out` is (shape, type) of its last argument, which is returned."""
    where = resolve(device)
    result = where.empty(*out)
    given = [where.put(a) if isinstance(a, np.ndarray) else a for a in arguments]
    where.run(kernel, count, *given, result)
    return where.get(result)


def order_of(given, count, *, inverse=False, replicate=0, device="cpu"):
    """The elements of given ranks, or inversely."""
    replicate = np.broadcast_to(np.asarray(replicate, np.int64), given.size)
    arguments = (SEED, count, inverse, replicate, given)
    return run(ORDERS, given.size, *arguments, out=(given.size, np.int64), device=device)


def words_of(count, *, seed=SEED, replicate=1, entity=None, purpose=6, number=0, device="cpu"):
    entity = np.arange(count, dtype=np.uint64) if entity is None else entity
    columns = [
        np.broadcast_to(np.asarray(value, kind), count)
        for value, kind in (
            (seed, np.uint64), (replicate, np.uint32), (entity, np.uint64), (purpose, np.uint32),
            (number, np.uint32),
        )
    ]  # fmt: skip
    return run(WORDS, count, *columns, out=((count, 4), np.uint32), device=device)


# ---- tests of distribution


def assert_kolmogorov(sample, cdf):
    """The largest distance between empirical and true distribution (n large: Kolmogorov's law)."""
    n = sample.size
    rank = np.arange(0, n, 16)  # the distance at these is a little less than the largest
    at = cdf(np.sort(sample)[rank].astype(float))
    distance = max((at - rank / n).max(), ((rank + 1) / n - at).max())
    assert distance < stats.kstwobign.isf(LEVEL) / math.sqrt(n)


def assert_mean(sample, mean, variance):
    assert abs(sample.mean(dtype=float) - mean) <= Z * math.sqrt(variance / sample.size)


def assert_frequencies(observed, probability):
    """Pearson's chi-square; cells that expect fewer than 50 are merged."""
    expected = probability * observed.sum()
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    few = np.searchsorted(np.cumsum(expected), 50.0) + 1
    observed = np.concatenate([[observed[:few].sum()], observed[few:]])
    expected = np.concatenate([[expected[:few].sum()], expected[few:]])
    if observed.size < 2:
        return
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < stats.chi2.isf(LEVEL, observed.size - 1)


def assert_discrete(sample, law, cells=60):
    """Chi-square in at most `cells` intervals of about equal probability."""
    levels = np.linspace(0.0, 1.0, cells + 1)[1:-1]
    edges = np.unique(law.ppf(levels))
    cumulative = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    observed = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1)
    assert_frequencies(observed, np.diff(cumulative))


# ---- words

KNOWN = [
    ([0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))


@pytest.mark.parametrize("device", DEVICES)
def test_philox_gives_the_published_words(device):
    counters = np.array([counter for counter, _ in KNOWN], np.uint32)
    found = run(PHILOX, len(KNOWN), counters, out=((len(KNOWN), 4), np.uint32), device=device)
    assert found.tolist() == [words for _, words in KNOWN]


def test_a_key_is_laid_out_without_overlap():
    # Each coordinate at its largest moves its own bits of the counter and the key, and no others.
    zero = dict(seed=0, replicate=0, entity=0, purpose=0, number=0)
    expected = {
        "seed": (2**64 - 1, [0, 0, 0, 0, 2**32 - 1, 2**32 - 1]),
        "replicate": (2**32 - 1, [0, 2**32 - 1, 0, 0, 0, 0]),
        "entity": (2**56 - 1, [2**32 - 1, 0, 0, 2**24 - 1, 0, 0]),
        "purpose": (2**8 - 1, [0, 0, 0, (2**8 - 1) << 24, 0, 0]),
        "number": (2**32 - 1, [0, 0, 2**32 - 1, 0, 0, 0]),
    }
    for name, (value, counter) in expected.items():
        found = words_of(1, **{**zero, name: value})
        counter = np.array([counter], np.uint32)
        assert np.array_equal(found, run(PHILOX, 1, counter, out=((1, 4), np.uint32))), name


@pytest.mark.cuda
def test_a_hundred_million_words_are_equal_on_both_devices():
    blocks, count = 100, 250_000
    found = [
        run(FOLD, count, SEED, blocks, out=(count, np.uint64), device=device)
        for device in ("cpu", "cuda")
    ]
    assert np.array_equal(*found)
    assert np.unique(found[0]).size == count


def test_draws_are_independent_of_every_coordinate_of_their_key():
    reference = words_of(COUNT).astype(float)
    entity = np.arange(COUNT, dtype=np.uint64)
    others = {
        "seed": {"seed": SEED + np.uint64(1)},
        "high seed": {"seed": SEED ^ np.uint64(1 << 63)},
        "replicate": {"replicate": 2},
        "far replicate": {"replicate": 1 + 2**31},
        "entity": {"entity": entity + np.uint64(1)},
        "far entity": {"entity": entity + np.uint64(1 << 55)},
        "purpose": {"purpose": 7},
        "far purpose": {"purpose": 6 + 128},
        "number": {"number": 1},
        "far number": {"number": 2**31},
    }
    reference -= reference.mean(axis=0)
    spread = reference.std(axis=0)
    for name, change in others.items():
        other = words_of(COUNT, **change).astype(float)
        other -= other.mean(axis=0)
        correlation = reference.T @ other / COUNT / np.outer(spread, other.std(axis=0))
        if name == "entity":  # the same blocks, one further on
            correlation = correlation[~np.eye(4, dtype=bool)]
        assert np.abs(correlation).max() < stats.norm.isf(LEVEL / 2 / 16) / math.sqrt(COUNT), name
    # The words of a block among each other.
    within = np.corrcoef(reference.T)[np.triu_indices(4, 1)]
    assert np.abs(within).max() < stats.norm.isf(LEVEL / 2 / 6) / math.sqrt(COUNT)


def test_every_bit_of_every_word_is_fair():
    words = words_of(COUNT)
    for bit in range(32):
        share = ((words >> np.uint32(bit)) & 1).mean(axis=0)
        limit = stats.norm.isf(LEVEL / 2 / 128) * 0.5 / math.sqrt(COUNT)
        assert np.abs(share - 0.5).max() < limit, bit


# ---- ranges

EXTREME = np.array(
    [
        (0, 0), (0, 1), (0, 0x7FF), (0, 0x800), (0, 0xFFFFFFFF), (1, 0), (0x7FFFFFFF, 0xFFFFFFFF),
        (0x80000000, 0), (0xFFFFFF7F, 0), (0xFFFFFF80, 0), (0xFFFFFFFF, 0),
        (0xFFFFFFFF, 0xFFFFF7FF), (0xFFFFFFFF, 0xFFFFF800), (0xFFFFFFFF, 0xFFFFFFFF),
    ],
    np.uint32,
)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_uniforms_at_extreme_words(device):
    where = resolve(device)
    n = len(EXTREME)
    single, double = where.empty(n, np.float32), where.empty(n, np.float64)
    where.run(UNIFORMS, n, where.put(EXTREME), single, double)
    single, double = where.get(single), where.get(double)
    assert single[0] == np.float32(2.0**-33)
    assert single.min() > 0
    assert single[-1] == 1.0
    w0, w1 = EXTREME.astype(object).T
    exact = [max((a << 21) | (b >> 11), 1) for a, b in zip(w0, w1, strict=True)]
    assert [int(value * 2.0**53) for value in double] == exact
    assert double.min() == 2.0**-53
    assert double.max() == 1.0 - 2.0**-53


@pytest.mark.parametrize("precision", PRECISIONS)
def test_draws_at_extreme_words_are_finite(precision):
    n = len(EXTREME)
    u, exponentials, normals = run(OF_WORDS[precision], n, EXTREME, out=((3, n), precision))
    assert np.isfinite(exponentials).all()
    assert (exponentials >= 0).all()
    assert exponentials.max() == pytest.approx((33 if precision == "float32" else 53) * math.log(2))
    assert np.isfinite(normals).all()
    # The sign is the last bit of the second word, whatever the rest.
    odd = EXTREME[:, 1] % 2 == 1
    assert (normals[odd] >= 0).all()
    assert (normals[~odd] <= 0).all()


# ---- continuous draws


@pytest.mark.parametrize("precision", PRECISIONS)
def test_uniform_exponential_and_normal(precision):
    found = run(OF_WORDS[precision], COUNT, words_of(COUNT), out=((3, COUNT), precision))
    laws = (stats.uniform, stats.expon, stats.norm)
    for sample, law in zip(found, laws, strict=True):
        assert_kolmogorov(sample, law.cdf)
        assert_mean(sample, law.mean(), law.var())
        kurtosis = law.stats(moments="k") + 2
        assert_mean((sample - law.mean()) ** 2, law.var(), kurtosis * law.var() ** 2)
    # Far tails, both of them.
    for tail, chance in (
        (found[1] > 10.0, math.exp(-10.0)),
        (found[2] > 4.0, stats.norm.sf(4.0)),
        (found[2] < -4.0, stats.norm.sf(4.0)),
    ):
        assert_mean(tail, chance, chance)


SHAPES = (0.3, 1.0, 2.5, 40.0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_gamma(precision):
    shapes = np.array(SHAPES, precision)
    found = run(GAMMAS[precision], COUNT, SEED, shapes, out=((len(SHAPES), COUNT), precision))
    for sample, shape in zip(found, shapes.astype(float), strict=True):
        law = stats.gamma(shape)
        assert sample.min() > 0
        assert_kolmogorov(sample, law.cdf)
        assert_mean(sample, shape, shape)
        assert_mean((sample.astype(float) - shape) ** 2, shape, (2 + 6 / shape) * shape**2)
    correlation = np.corrcoef(found)[np.triu_indices(len(SHAPES), 1)]
    assert np.abs(correlation).max() < 2 * Z / math.sqrt(COUNT)


def test_gamma_of_no_shape_ends_all_the_same():
    shapes = np.array([np.nan, np.inf, -1.0, -0.5, 0.0, 1e-300, 1e300])
    found = run(GAMMAS["float64"], 10, SEED, shapes, out=((shapes.size, 10), float))
    assert np.isnan(found[:4]).all()
    assert (found[4:6] == 0).all()
    assert np.allclose(found[6], 1e300, rtol=1e-12)


# ---- counts

BELOW = np.array([1, 2, 3, 6, 7, 10, 1000, 2**16, 10**9 + 7, 3 * 2**30, 2**32 - 1], np.int64)


def test_integer_below():
    found = run(INTEGERS, COUNT, SEED, BELOW, out=((BELOW.size, COUNT), np.int64))
    for sample, below in zip(found, BELOW.tolist(), strict=True):
        assert sample.min() >= 0
        assert sample.max() < below
        cells = min(below, 100)
        edges = [-(-k * below // cells) for k in range(cells + 1)]
        share = np.diff(edges) / below
        observed, _ = np.histogram(sample, edges)
        assert observed.sum() == COUNT
        assert_frequencies(observed, share)
    # Without rejection every third value would be twice as likely.
    assert_frequencies(np.bincount(found[9] % 3, minlength=3), np.full(3, 1 / 3))


MEANS = np.array([0.0, 0.5, 3.0, 9.99, 10.01, 30.0, 1e3, 1e6, 4e15])


def test_poisson():
    found = run(POISSONS, COUNT, SEED, MEANS, out=((MEANS.size, COUNT), np.int64))
    assert (found[0] == 0).all()
    for sample, mean in zip(found[1:], MEANS[1:], strict=True):
        assert sample.min() >= 0
        normal_law = stats.norm(mean - 0.5, math.sqrt(mean))
        assert_discrete(sample, stats.poisson(mean) if mean < 1e9 else normal_law)
        assert_mean(sample, mean, mean)
        assert_mean((sample - mean) ** 2, mean, mean * (1 + 2 * mean))


TRIALS = np.array([0, 5, 5, 1, 10, 100, 100, 40, 100, 1000, 10**6, 10**9, 2**51])
CHANCES = np.array([0.5, 0.0, 1.0, 0.5, 0.3, 0.0999, 0.1001, 0.8, 0.7, 0.5, 0.25, 3e-9, 0.9])


def test_binomial():
    found = run(BINOMIALS, COUNT, SEED, TRIALS, CHANCES, out=((TRIALS.size, COUNT), np.int64))
    for sample, n, p in zip(found, TRIALS.tolist(), CHANCES.tolist(), strict=True):
        assert sample.min() >= 0
        assert sample.max() <= n
        variance = n * p * (1 - p)
        if variance == 0:
            assert (sample == n * p).all()
            continue
        normal_law = stats.norm(n * p - 0.5, math.sqrt(variance))
        assert_discrete(sample, stats.binom(n, p) if n < 10**10 else normal_law)
        assert_mean(sample, n * p, variance)
        fourth = variance * (1 + 3 * (n - 2) * p * (1 - p))
        assert_mean((sample - n * p) ** 2, variance, max(fourth - variance**2, 0.0))


def test_counts_of_impossible_laws_are_minus_one():
    means = np.array([np.nan, -1.0, np.inf, 2.0**52])
    assert (run(POISSONS, 4, SEED, means, out=((4, 4), np.int64)) == -1).all()
    trials = np.array([-1, 2**52, 5, 5, 5])
    chances = np.array([0.5, 0.5, np.nan, -0.1, 1.1])
    assert (run(BINOMIALS, 4, SEED, trials, chances, out=((5, 4), np.int64)) == -1).all()


def test_counts_by_inversion_end_even_where_rounding_loses_the_tail():
    ones = {"draw_words": all_ones}
    worst_poisson = kernels.for_each(_poissons, bindings=ones)
    found = run(worst_poisson, 1, SEED, np.array([0.0, 1e-9, 1.0, 9.999]), out=((4, 1), np.int64))
    assert found.ravel().tolist()[0] == 0
    assert (found < 201).all()
    worst_binomial = kernels.for_each(_binomials, bindings=ones)
    trials = np.array([0, 19, 10**6, 2**51])
    chances = np.array([0.5, 0.5, 9.99e-6, 9.99 / 2**51])
    found = run(worst_binomial, 1, SEED, trials, chances, out=((4, 1), np.int64)).ravel()
    assert found.tolist()[:2] == [0, 19]
    assert (found[2:] < 201).all()


# ---- shuffles


def test_ranks_and_elements_are_inverse_permutations():
    for count in range(1, 41):
        whole = np.arange(count)
        elements = order_of(whole, count)
        assert np.array_equal(np.sort(elements), whole)
        assert np.array_equal(order_of(elements, count, inverse=True), whole)
    for count in (100_003, 2**31, 2**32 - 1):
        ranks = np.unique(np.linspace(0, count - 1, 1001).astype(np.int64))
        elements = order_of(ranks, count)
        assert elements.min() >= 0
        assert elements.max() < count
        assert np.unique(elements).size == ranks.size
        assert np.array_equal(order_of(elements, count, inverse=True), ranks)


@pytest.mark.parametrize(("count", "ranks"), [(4, 3), (5, 2), (1000, 1)])
def test_every_order_is_equally_likely(count, ranks):
    replicate = np.arange(COUNT)
    code = np.zeros(COUNT, np.int64)
    for rank in range(ranks):
        code = code * count + order_of(np.full(COUNT, rank), count, replicate=replicate)
    _, observed = np.unique(code, return_counts=True)
    # Every ordered choice occurs, and none that repeats an element.
    assert observed.size == math.perm(count, ranks)
    assert_frequencies(observed, np.full(observed.size, 1 / observed.size))


def test_orders_of_more_elements_than_words_are_uniform():
    count = 8_000_000_000
    elements = order_of(np.full(COUNT, 5), count, replicate=np.arange(COUNT))
    for group in (elements // (count // 1000), elements % 1000):
        assert_frequencies(np.bincount(group, minlength=1000), np.full(1000, 1e-3))
    ranks = np.arange(0, count, count // 1000)
    elements = order_of(ranks, count)
    assert np.unique(elements).size == ranks.size
    assert elements.max() < count
    assert np.array_equal(order_of(elements, count, inverse=True), ranks)


# ---- both devices


@pytest.mark.cuda
@pytest.mark.parametrize("precision", PRECISIONS)
def test_real_draws_have_the_same_bits_on_both_devices(precision):
    words = words_of(COUNT)
    shapes = np.array(SHAPES, precision)
    for kernel, arguments, rows in (
        (OF_WORDS[precision], (words,), 3),
        (GAMMAS[precision], (SEED, shapes), len(SHAPES)),
    ):
        out = ((rows, COUNT), precision)
        on_cpu, on_cuda = (
            run(kernel, COUNT, *arguments, out=out, device=device) for device in ("cpu", "cuda")
        )
        assert np.array_equal(on_cpu, on_cuda)


@pytest.mark.cuda
def test_counts_and_orders_are_equal_on_both_devices():
    # The counting draws use the libraries' own logarithms, which may differ in the last bit.
    cases = [
        (INTEGERS, (SEED, BELOW), BELOW.size, 0),
        (POISSONS, (SEED, MEANS), MEANS.size, 1e-6),
        (BINOMIALS, (SEED, TRIALS, CHANCES), TRIALS.size, 1e-6),
    ]
    for kernel, arguments, rows, share in cases:
        out = ((rows, COUNT), np.int64)
        on_cpu, on_cuda = (
            run(kernel, COUNT, *arguments, out=out, device=device) for device in ("cpu", "cuda")
        )
        assert (on_cpu != on_cuda).mean() <= share
    on_cpu, on_cuda = (
        order_of(np.arange(COUNT), 3 * COUNT, replicate=np.arange(COUNT) % 7, device=device)
        for device in ("cpu", "cuda")
    )
    assert np.array_equal(on_cpu, on_cuda)
