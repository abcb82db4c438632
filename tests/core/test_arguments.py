"""Time grids and integers, checked at the door."""

import numpy as np
import pytest

import ergode
from ergode.core.arguments import integer, time_grid


def test_what_becomes_a_grid():
    for times in ([0, 1, 2], range(3), np.arange(3.0), (t for t in (0, 1, 2)), {0: 1, 1: 2, 2: 3}):
        assert time_grid(times).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("times", [5, 2.5, np.float32(5), np.int64(5), np.array(5.0)])
def test_a_number_is_no_grid(times):
    with pytest.raises(ergode.ModelError, match=r"did you mean \[0, "):
        time_grid(times)


def test_dates_are_no_numbers():
    with pytest.raises(ergode.ModelError, match="dates"):
        time_grid(np.array(["2026-03-01", "2026-03-02"], "datetime64[D]"))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "non-empty"),
        (["a"], "expected a list of numbers"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([0, np.inf], r"times\[1\] is inf"),
        ([0, 1, 1], r"times\[2\] = 1 follows times\[1\] = 1"),
        (None, "finite"),
    ],
)
def test_what_does_not(times, message):
    with pytest.raises(ergode.ModelError, match=message):
        time_grid(times)


def test_integers_have_bounds():
    assert integer("count", np.int32(3), 1, 5) == 3
    for value, message in (
        (2.0, "expected an integer"),
        (True, "expected an integer"),
        (6, "1 to 5"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            integer("count", value, 1, 5)
