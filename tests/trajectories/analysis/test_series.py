"""What a series says, against maps and motions that are known."""

import numpy as np
import pytest
import xarray

import ergode
from ergode.trajectories import recurrence, winding_number, zero_one_test


def logistic(rate, count):
    x = np.empty((rate.size, count))
    x[:, 0] = 0.31
    for _ in range(200):
        x[:, 0] = rate * x[:, 0] * (1 - x[:, 0])
    for n in range(count - 1):
        x[:, n + 1] = rate * x[:, n] * (1 - x[:, n])
    return x


def test_the_test_for_chaos_is_the_sign_of_the_exponent():
    """Of logistic maps: windows of periods 2, 4 and 3, and chaos; in any unit."""
    rate = np.array([3.2, 3.5, 3.835, 3.7, 3.9, 4.0])
    x = logistic(rate, 1000)
    exponent = np.log(np.abs(rate[:, None] * (1 - 2 * x))).mean(axis=1)
    found = zero_one_test(xarray.DataArray(1e9 * x + 5e8, dims=("rate", "time")), angles=25)
    assert found.dims == ("rate",)
    np.testing.assert_array_equal(found > 0.5, exponent > 0)
    assert (np.minimum(np.abs(found), np.abs(found - 1)) < 0.1).all()
    x[0, 7] = np.nan
    assert np.isnan(zero_one_test(x[:1]))[0]
    assert zero_one_test(np.full(200, 3.0)) == 0.0
    with pytest.raises(ergode.PlanError, match="has 99 values"):
        zero_one_test(np.ones(99))
    with pytest.raises(ergode.ModelError, match="expected one of time or hit"):
        zero_one_test(xarray.DataArray(x, dims=("rate", "n")))


def turning(rates, times, centre):
    angle = np.asarray(rates)[:, None] * times
    state = np.stack([np.cos(angle) + centre[0], np.sin(angle) + centre[1]], -1)
    return xarray.Dataset(
        {"state": (("rate", "time", "variable"), state)},
        {"time": times, "variable": ["a", "b"], "rate": rates},
    )


def test_winding_numbers_of_turns():
    rates = [-1.5, 0.25, 2.0]
    run = turning(rates, np.linspace(3, 90, 400), (2.0, -1.0))
    found = winding_number(run, ["a", "b"], centre=(2, -1), period=4 * np.pi)
    np.testing.assert_allclose(found, 2 * np.array(rates), rtol=1e-12)
    other = winding_number(run, ["b", "a"], centre=(-1, 2), period=4 * np.pi)
    np.testing.assert_allclose(other, -2 * np.array(rates), rtol=1e-12)
    assert np.abs(winding_number(run, ["a", "b"], centre=(9, 9))).max() < 0.01
    with pytest.warns(ergode.AccuracyWarning, match="nearly half a turn"):
        winding_number(turning([3.0], np.arange(20.0), (0, 0)), ["a", "b"])
    with pytest.raises(ergode.ModelError, match="expected two"):
        winding_number(run, ["a"])


def test_recurrence_against_the_whole_matrix():
    x = logistic(np.array([3.9]), 300)[0]
    states = np.column_stack([x[:-1], x[1:]])
    found = recurrence(states, threshold=0.1, shortest=3)
    close = np.linalg.norm(states[:, None] - states, axis=2) <= 0.1
    lengths = []
    for lag in range(1, len(states)):
        text = "".join("1" if one else "0" for one in np.diagonal(close, lag))
        lengths += [len(run) for run in text.split("0") if run]
    lengths = np.array(lengths)
    pairs = len(states) * (len(states) - 1) / 2
    assert found["rate"] == pytest.approx(lengths.sum() / pairs)
    assert found["determinism"] == pytest.approx(lengths[lengths >= 3].sum() / lengths.sum())
    assert found["mean_diagonal"] == pytest.approx(lengths[lengths >= 3].mean())
    assert found["longest_diagonal"] == lengths.max()
    assert np.isnan(recurrence(np.arange(9.0), threshold=0.5)["determinism"])
    with pytest.raises(ergode.PlanError, match="expected 2 to 20,000 finite states"):
        recurrence([[np.nan], [1.0]], threshold=1)
