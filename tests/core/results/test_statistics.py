"""Running statistics against exact arithmetic, whatever is kept and however it is cut up."""

from fractions import Fraction

import numpy as np
import pytest

from ergode.core.results.statistics import GROUP, CountStatistics, ExactSums, Moments, SumsByPoint

LEVELS = (0.0, 0.025, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.975, 1.0)


def collect(counts, most, chunk=None, replicates=None):
    result = CountStatistics(replicates or len(counts), *counts.shape[1:], most)
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


def test_variance_is_rounded_once_whether_sums_are_small_or_large():
    rng = np.random.default_rng(3)
    for most in (20, 10_000, 10**8):
        values = rng.integers(0, most, (37, 50))
        sums = ExactSums((50,))
        sums.add_values(values)
        for column, found in enumerate(sums.variance(37)):
            each = [int(value) for value in values[:, column]]
            exact = Fraction(37 * sum(v * v for v in each) - sum(each) ** 2, 37 * 36)
            assert found == float(exact)


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
    none = CountStatistics(10, 5, 3, most)
    none.add(counts[:0])
    for values in (none.mean(), none.variance(), none.quantile([0.5])):
        assert np.isnan(values).all()


def test_memory_is_what_was_planned():
    for replicates, most in MODES:
        found = collect(random_counts(replicates, most), most)
        assert found._kept.nbytes == CountStatistics.bytes_needed(replicates, 5, 3, most)


def kernel_sums(amounts, reached):
    """What a kernel sums for each point [point, replicate, time, species] of amounts."""
    there = np.arange(amounts.shape[2]) < reached[:, :, None]
    wide = np.where(there[..., None], amounts.astype(np.int64), 0)
    square = wide * wide
    return {
        "counts": there.sum(axis=1),
        "sums": wide.sum(axis=1),
        "squares_low": (square & (2**32 - 1)).sum(axis=1),
        "squares_high": (square >> 32).sum(axis=1),
    }


def test_sums_by_point_are_exact_and_leave_out_what_was_not_reached():
    rng = np.random.default_rng(5)
    amounts = 2**31 - 1 - rng.integers(0, 9, (3, 40, 4, 2))
    reached = rng.integers(1, 5, (3, 40))
    found = SumsByPoint(3, 4, 2)
    found.add(kernel_sums(amounts[:2], reached[:2]), 0)
    found.add(kernel_sums(amounts[2:, :7], reached[2:, :7]), 2)
    found.add(kernel_sums(amounts[2:, 7:], reached[2:, 7:]), 2)
    for point in range(3):
        for time in range(4):
            kept = amounts[point, reached[point] > time, time]
            assert found.count[point, time] == len(kept)
            assert np.array_equal(found.mean()[point, time], kept.mean(axis=0))
            expected = [exact_variance(column) for column in kept.T]
            assert found.variance()[point, time].tolist() == expected


def test_sums_by_point_of_nothing_are_nan():
    found = SumsByPoint(1, 2, 1)
    assert np.isnan(found.mean()).all() and np.isnan(found.variance()).all()
    assert SumsByPoint(0, 2, 1).variance().shape == (0, 2, 1)


def test_moments_are_the_same_in_chunks_of_whole_groups():
    rng = np.random.default_rng(6)
    values = 1e6 + rng.normal(size=(3 * GROUP + 5, 3, 2))
    reached = rng.integers(1, 4, len(values))
    whole, parts = Moments(1, 3, 2), Moments(1, 3, 2)
    whole.add(0, values, reached)
    for start, stop in ((0, GROUP), (GROUP, 3 * GROUP), (3 * GROUP, len(values))):
        parts.add(0, values[start:stop], reached[start:stop])
    assert np.array_equal(whole.mean(), parts.mean())
    assert np.array_equal(whole.variance(), parts.variance())
    for time in range(3):
        kept = values[reached > time, time]
        assert np.allclose(whole.mean()[0, time], kept.mean(axis=0), rtol=1e-14)
        assert np.allclose(whole.variance()[0, time], kept.var(axis=0, ddof=1), rtol=1e-8)
