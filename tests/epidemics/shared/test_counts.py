"""Where a moment falls on a grid of times."""

import numpy as np
import pytest

from ergode.core import devices, kernels
from ergode.epidemics.shared.counts import RUNNING_SUMS, grid_index


def _indices(index, times, per_step, moments, found):
    found[index] = grid_index(times, per_step, moments[index])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_index_is_of_the_first_time_not_before_a_moment(precision, factor):
    """Whatever the guess of where to look first: it only affects speed."""
    rng = np.random.default_rng(3)
    times = np.sort(np.append(rng.uniform(0, 9, 40), [0.0, 9.0])).astype(precision)
    moments = np.concatenate([times, rng.uniform(-1, 11, 500)]).astype(precision)
    found = np.empty(moments.size, np.int64)
    per_step = np.dtype(precision).type(factor * (times.size - 1) / 9.0)
    kernel = kernels.for_each(_indices, precision=precision)
    devices.resolve("cpu:1").run(kernel, moments.size, times, per_step, moments, found)
    assert found.tolist() == np.searchsorted(times, moments, side="left").tolist()


def test_moves_become_counts():
    rng = np.random.default_rng(4)
    moves = rng.integers(-5, 6, (3, 7, 4)).astype(np.int32)
    at_first = rng.integers(0, 9, 4).astype(np.int32)
    counts = moves.copy()
    devices.resolve("cpu:1").run(RUNNING_SUMS, 12, counts, at_first)
    assert np.array_equal(counts, at_first + moves.cumsum(axis=1))
