"""Autocorrelations of series that are written down, and of a network with a known one."""

import numpy as np
import pytest
import xarray
from small_networks import IMMIGRATION_DEATH

import ergode
from ergode.stochastic import autocorrelation


def dataset(amount, times=None):
    amount = np.asarray(amount)
    times = np.arange(amount.shape[1]) if times is None else times
    return xarray.Dataset(
        {"amount": (("replicate", "time", "species"), amount[..., None])},
        coords={"time": np.asarray(times, float), "species": ["X"]},
    )


def plainly(rows, lags):
    """By the definition, pair by pair."""
    moved = rows - rows.mean()
    count = rows.shape[1]
    c = [
        np.mean(
            [moved[r, t] * moved[r, t + lag] for r in range(len(rows)) for t in range(count - lag)]
        )
        for lag in range(lags)
    ]
    return np.array(c)


def test_it_is_what_the_definition_says():
    rows = np.random.default_rng(1).integers(0, 50, (7, 23))
    found = autocorrelation(dataset(rows), max_lag=22)
    c = plainly(rows, 23)
    np.testing.assert_allclose(found["autocovariance"][0], c, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["autocorrelation"][0], c / c[0], rtol=1e-9, atol=1e-9)
    later = autocorrelation(dataset(rows), start=5.0)
    np.testing.assert_allclose(
        later["autocovariance"][0], plainly(rows[:, 5:], 10), rtol=1e-9, atol=1e-9
    )
    assert later["lag"].values.tolist() == list(range(10))


def test_what_failed_is_left_out_and_what_is_constant_has_none():
    rows = np.random.default_rng(2).normal(size=(5, 12))
    failed = np.vstack([rows, np.full((1, 12), np.nan)])
    xarray.testing.assert_allclose(autocorrelation(dataset(failed)), autocorrelation(dataset(rows)))
    constant = autocorrelation(dataset(np.full((3, 8), 4)))
    assert (constant["autocovariance"] == 0).all()
    assert constant["autocorrelation"].isnull().all()
    assert autocorrelation(dataset(rows[:1]))["standard_error"].isnull().all()


def test_a_birth_and_death_forgets_exponentially():
    """exp(-mu lag), with an error that is neither too small nor too large, at points of a sweep."""
    runs = ergode.stochastic.simulate(
        IMMIGRATION_DEATH, times=np.linspace(0, 60, 241), replicates=2000, seed=4, device="cpu",
        parameters=ergode.grid(mu=[0.5, 1.0]),
    )  # fmt: skip
    found = autocorrelation(runs, start=20.0, max_lag=6.0)
    assert found["autocorrelation"].dims == ("mu", "species", "lag")
    for mu in (0.5, 1.0):
        here = found.sel(mu=mu, species="X")
        theory = np.exp(-mu * here["lag"])
        sigmas = (here["autocorrelation"] - theory)[1:] / here["standard_error"][1:]
        assert np.abs(sigmas).max() < 6  # of 24 times 2
        assert np.sqrt((sigmas**2).mean()) > 0.1
        assert here["standard_error"].max() < 0.02
        assert float(here["autocovariance"][0]) == pytest.approx(10 / mu, rel=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"species": ["Y"]}, "no species 'Y'; it has X"),
        ({"species": ["X", "X"]}, "names of species has 'X' twice; expected it once"),
        ({"start": 3.0}, "has 1 time to use, of 4"),
        ({"max_lag": 7.0}, "max_lag is 7; the times that are used span 3"),
        ({"max_lag": -1}, "max_lag is -1"),
        ({"start": "late"}, "start is 'late'"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ergode.ErgodeError, match=message):
        autocorrelation(dataset(np.eye(4)), **options)


def test_times_are_regular():
    with pytest.raises(ergode.PlanError, match="from 1 to 2 apart"):
        autocorrelation(dataset(np.eye(3), [0, 1, 3]))
    with pytest.raises(ergode.PlanError, match="no trajectories"):
        autocorrelation(dataset(np.eye(3)).drop_vars("amount"))
