"""Reports of cases: means and variances against plain NumPy, and whose chance is whose."""

import numpy as np
import pandas
import pytest

import ergode
from ergode.epidemics import incidence, observe

SIGMAS = 5.5


@pytest.fixture(scope="module")
def dated(model, contacts):
    return ergode.epidemics.simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu",
        origin="2026-03-01",
    )  # fmt: skip


def test_a_fixed_delay_moves_reports(counts):
    new = incidence(counts)
    found = observe(counts, probability=0.5, delay=ergode.Deterministic(2.0))
    assert found.dims == new.dims and found.name == "reports"
    np.testing.assert_allclose(found[:, 2:], 0.5 * new[:, :-2], atol=1e-9)
    np.testing.assert_allclose(found[:, :2], 0.0, atol=1e-9)
    half = observe(counts, delay=ergode.Deterministic(0.5))
    np.testing.assert_allclose(half[:, 1:], 0.5 * (new[:, 1:] + new[:, :-1].values), atol=1e-9)
    np.testing.assert_array_equal(observe(counts), new)


def test_expected_reports_on_uneven_times(counts):
    """Against 400,000 infections, spread evenly in one interval, with delays of NumPy."""
    grid = np.array([0, 3, 4, 10, 11, 25, 60])
    uneven = counts.isel(time=grid)
    found = observe(uneven, delay=ergode.Gamma(shape=2.0, scale=3.0)).values
    rng = np.random.default_rng(1)
    total = np.zeros(6)
    new = incidence(uneven).values.sum(0)
    variance = np.zeros(6)
    for number in range(6):
        moments = rng.uniform(grid[number], grid[number + 1], 400_000)
        share = np.histogram(moments + rng.gamma(2.0, 3.0, 400_000), grid)[0] / 400_000
        total += new[number] * share
        variance += new[number] ** 2 * share * (1 - share) / 400_000
    assert (np.abs(found.sum(0) - total) < SIGMAS * np.sqrt(variance) + 1e-9).all()


def test_samples_have_the_expected_mean_and_variance(counts):
    """500 samples of one epidemic: totals, and the variance of a negative binomial."""
    one = counts.isel(replicate=[4] * 500).assign_coords(replicate=np.arange(500))
    options = {"probability": 0.3, "delay": ergode.Gamma(mean=4, sd=2)}
    mean = observe(one, **options).values[0]
    plain = observe(one, seed=1, **options).values
    assert plain.dtype.kind == "i"
    assert (plain.cumsum(1) <= incidence(one).values.cumsum(1)).all()
    # A sum of Bernoulli variables varies no more than one of Poisson.
    assert (np.abs(plain.mean(0) - mean) <= SIGMAS * np.sqrt(mean / 500) + 0.01).all()
    wide = observe(one, seed=2, dispersion=2.0, **options).values
    expected = mean + mean**2 / 2
    large = mean > 3
    error = SIGMAS * np.sqrt(expected / 500)
    assert (np.abs(wide.mean(0) - mean)[large] < error[large]).all()
    # The fourth moment of a gamma of shape 2 is 6 times its variance squared: sd sqrt(5 / 500).
    pooled = (wide.var(0) / expected)[large].mean()
    assert abs(pooled - 1) < SIGMAS * np.sqrt(5 / 500 / large.sum()) < 0.15


def test_replicates_have_chance_of_their_own(counts):
    options = {"probability": 0.4, "delay": ergode.Exponential(mean=2)}
    all_of_them = observe(counts, seed=3, **options)
    alone = observe(counts.isel(replicate=[7]), seed=3, **options)
    np.testing.assert_array_equal(alone[0], all_of_them[7])
    assert (observe(counts, seed=4, **options) != all_of_them).any()


def test_a_probability_that_changes(dated):
    new = incidence(dated)
    by_date = ergode.Calendar(["2026-03-01", "2026-03-11"], [0.1, 0.6])
    found = observe(dated, probability=by_date)
    np.testing.assert_allclose(found[:, :10], 0.1 * new[:, :10])
    np.testing.assert_allclose(found[:, 10:], 0.6 * new[:, 10:])
    np.testing.assert_array_equal(found["date"], new["date"])
    listed = np.where(np.arange(60) < 10, 0.1, 0.6)
    np.testing.assert_array_equal(observe(dated, probability=listed), found)


def test_strata_are_kept(counts):
    """Strata, here of equal counts, are reported apart."""
    apart = counts[["cases"]].expand_dims(stratum=["a", "b"], axis=-1).copy()
    mean = observe(apart, probability=0.5)
    np.testing.assert_allclose(mean, 0.5 * incidence(apart))
    found = observe(apart, probability=0.5, delay=ergode.Exponential(mean=3), seed=1)
    assert found.dims == incidence(apart).dims
    assert (found.cumsum("interval") <= incidence(apart).cumsum("interval")).all()
    assert (found.sel(stratum="a") != found.sel(stratum="b")).any()


def test_what_cannot_be_observed(counts):
    for options, message in (
        ({"probability": 1.2}, "probability is 1.2 in interval 0"),
        ({"probability": np.nan}, "probability is nan"),
        ({"probability": [0.1, 0.2]}, "one number for each of the 60 intervals"),
        ({"probability": "all"}, "probability is 'all'"),
        ({"probability": ergode.Calendar(["2026-03-01"], [1])}, "the counts have no dates"),
        ({"delay": 3}, "delay is 3; expected a distribution"),
        ({"dispersion": 0, "seed": 1}, "dispersion is 0; expected"),
        ({"dispersion": 1.0}, "give a seed"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            observe(counts, **options)
    with pytest.raises(ergode.ModelError, match="needs a Dataset"):
        observe(counts.drop_vars("cases"))
    with pytest.raises(ergode.ModelError, match="no dim 'replicate'"):
        observe(counts.isel(replicate=0))


def test_data_beside_reports(dated):
    reports = observe(dated, probability=0.5, seed=1)
    data = pandas.Series([3.0, np.nan, 8.0], pandas.date_range("2026-03-05", periods=3))
    ax = ergode.plots.epidemic_curves(reports, observed=data)
    assert ax.get_ylabel() == "reports in an interval of 1 day" and ax.get_xlabel() == "date"
    dots = ax.lines[-1]
    assert dots.get_label() == "observed" and dots.get_ydata().tolist() == [3.0, 8.0]
    later = pandas.Series([3.0], pandas.DatetimeIndex(["2026-06-01"]))
    ax = ergode.plots.epidemic_curves(reports, observed=later)
    assert ax.get_xlim()[1] == ax.lines[-1].get_xdata()[0].astype("datetime64[D]").astype(int)


def test_data_beside_compartments(counts):
    values = np.arange(61)
    ax = ergode.plots.epidemic_curves(counts, observed={"I": values, "R": values[::-1]})
    dots = {line.get_label(): line for line in ax.lines if line.get_marker() == "o"}
    assert set(dots) == {"I, observed", "R, observed"}
    colour = next(line for line in ax.lines if line.get_label() == "I").get_color()
    assert dots["I, observed"].get_color() == colour
    array = counts["count"][0, :, 2]
    ax = ergode.plots.epidemic_curves(counts, observed=array)
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), array)


def test_data_that_do_not_fit(counts, dated):
    dates = pandas.Series([3.0], pandas.DatetimeIndex(["2026-03-05"]))
    for result, observed, message in (
        (counts, [1, 2], r"shape \(2,\); expected one number for each of the 61"),
        (counts, "abc", "observed has the shape"),
        (counts, {"Q": [1]}, "observed names 'Q'"),
        (counts, dates, "the result has none"),
        (dated, pandas.Series([3.0], [5]), "the result has dates"),
        (counts, counts["count"][0], "has the dims time, compartment; expected one"),
    ):
        with pytest.raises(ergode.PlanError, match=message):
            ergode.plots.epidemic_curves(result, observed=observed)
    with pytest.raises(ergode.PlanError, match="the array has the dims"):
        ergode.plots.epidemic_curves(counts["count"])
