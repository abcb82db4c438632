"""Running statistics against exact arithmetic, whatever is kept and however it is cut up."""

from fractions import Fraction

import numpy as np
import pytest

from ergode.epidemics.shared.statistics import Statistics

LEVELS = (0.0, 0.025, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.975, 1.0)


def collect(counts, most, chunk=None, replicates=None):
    result = Statistics(replicates or len(counts), *counts.shape[1:], most)
    chunk = chunk or max(1, len(counts))
    for start in range(0, len(counts), chunk):
        result.add(counts[start : start + chunk])
    return result


def random_counts(replicates, most, seed=1, shape=(5, 3)):
    rng = np.random.default_rng(seed)
    return rng.integers(0, most, (replicates, *shape), np.int32, endpoint=True)


def exact_variance(column):
    values = [int(v) for v in column]
    n = len(values)
    return float(Fraction(n * sum(v * v for v in values) - sum(values) ** 2, n * (n - 1)))


# More replicates than values: a histogram is kept. Fewer: the counts themselves.
MODES = [(200, 30), (200, 198), (200, 199), (200, 10_000), (2, 50), (3, 1)]


@pytest.mark.parametrize(("replicates", "most"), MODES)
def test_statistics_agree_with_numpy(replicates, most):
    counts = random_counts(replicates, most)
    counts[:, 0, 0], counts[:, 0, 1] = 0, most  # cells in which nothing varies
    found = collect(counts, most, chunk=7)
    assert np.array_equal(found.mean(), counts.mean(axis=0))
    assert np.allclose(found.variance(), counts.var(axis=0, ddof=1), rtol=1e-12, atol=0)
    expected = np.quantile(counts, LEVELS, axis=0)
    assert np.allclose(found.quantile(LEVELS), expected, rtol=4e-16, atol=0)
    assert found.variance()[0, 0] == found.variance()[0, 1] == 0.0


@pytest.mark.parametrize(("replicates", "most"), MODES)
def test_chunks_make_no_difference_at_all(replicates, most):
    counts = random_counts(replicates, most, seed=2)
    whole = collect(counts, most)
    for chunk in (1, 3, replicates - 1):
        parts = collect(counts, most, chunk)
        assert np.array_equal(parts.mean(), whole.mean())
        assert np.array_equal(parts.variance(), whole.variance())
        assert np.array_equal(parts.quantile(LEVELS), whole.quantile(LEVELS))


def test_both_ways_to_keep_counts_agree():
    counts = random_counts(500, 40, seed=3)
    histogram, themselves = collect(counts, 40), collect(counts, 10**6)
    assert np.array_equal(histogram.mean(), themselves.mean())
    assert np.array_equal(histogram.variance(), themselves.variance())
    assert np.allclose(histogram.quantile(LEVELS), themselves.quantile(LEVELS), rtol=4e-16, atol=0)


def test_squares_of_large_counts_do_not_overflow():
    most = 2**31 - 1
    counts = np.full((1000, 1, 3), most, np.int32)
    counts[::2, 0, 1] -= 1
    counts[::2, 0, 2] = 0
    found = collect(counts, most, chunk=64)
    assert (1000 * most**2) > 2**63  # what a plain sum would have to hold
    expected = [exact_variance(column) for column in counts[:, 0].T]
    assert found.variance()[0].tolist() == expected
    assert expected[0] == 0.0
    assert expected[1] == pytest.approx(0.25 * 1000 / 999, rel=1e-15)
    assert found.mean()[0].tolist() == [most, most - 0.5, most / 2]


def test_variance_is_exact_where_subtraction_would_cancel():
    counts = (10**9 + np.arange(50)).astype(np.int32).reshape(-1, 1, 1)
    assert collect(counts, 2**31 - 1).variance()[0, 0] == 212.5  # of 0 ... 49


def test_fewer_replicates_than_planned():
    counts = random_counts(60, 20)
    for most in (20, 1000):
        found = collect(counts, most, replicates=100)
        assert found.count == 60
        assert np.array_equal(found.mean(), counts.mean(axis=0))
        assert np.allclose(
            found.quantile(LEVELS), np.quantile(counts, LEVELS, axis=0), rtol=4e-16, atol=0
        )


@pytest.mark.parametrize("most", [1, 1000])
def test_of_one_replicate_there_is_no_variance_and_of_none_nothing(most):
    counts = random_counts(1, most)
    one = collect(counts, most, replicates=10)
    assert np.array_equal(one.mean(), counts[0])
    assert np.isnan(one.variance()).all()
    assert (one.quantile(LEVELS) == counts[0]).all()
    none = Statistics(10, 5, 3, most)
    none.add(counts[:0])
    for values in (none.mean(), none.variance(), none.quantile([0.5])):
        assert np.isnan(values).all()


def test_memory_is_what_was_planned():
    for replicates, most in MODES:
        found = collect(random_counts(replicates, most), most)
        assert found._kept.nbytes == Statistics.bytes_needed(replicates, 5, 3, most)
