"""Reproduction numbers over time: against plain loops over cases and integrals."""

import numpy as np
import pytest
import xarray
from scipy.integrate import dblquad

import ergode
from ergode.epidemics import (
    generation_interval,
    reproduction_number,
    reproduction_over_time,
    simulate,
)

_EDGES = ergode.ContactNetwork.erdos_renyi(400, mean_degree=8, seed=1).edges()
# With weights where cases are listed, as in the test of windows: they share its kernel.
NETWORK = {
    "counts": ergode.ContactNetwork.from_edges(*_EDGES, 400),
    "line_list": ergode.ContactNetwork.from_edges(*_EDGES, 400, weights=np.ones(_EDGES[0].size)),
}
MODEL = ergode.CompartmentModel.sir(transmission_rate=0.06, infectious=ergode.Exponential(mean=5.0))
TIMES = np.arange(0.0, 61.0, 4.0)


def epidemic(output):
    return simulate(
        MODEL, NETWORK[output], initial={"I": 20}, times=TIMES, replicates=30, seed=2, device="cpu",
        output=output, method="sellke",
    )  # fmt: skip


@pytest.fixture(scope="module")
def cases():
    return epidemic("line_list")


def test_numbers_of_each_replicate_are_those_of_a_loop(cases):
    found = reproduction_number(cases, by_replicate=True, quantiles=[0.25, 0.75])
    secondary = found["secondary_cases"].values
    row, time = cases["replicate"].values, cases["infected_at"].values
    interval = generation_interval(cases).values
    interval = interval[~np.isnan(interval)]
    for r in (0, 7):
        for k in (0, 3, 9):
            low, high = TIMES[k], TIMES[k + 1]
            mine = (row == r) & (time > low) & (time <= high)
            number = float(found["case_reproduction_number"][r, k])
            expected = secondary[mine].mean() if mine.any() else np.nan
            np.testing.assert_allclose(number, expected)
            pressure = sum(
                ((interval > low - t) & (interval <= high - t)).mean() for t in time[row == r]
            )
            number = float(found["instantaneous_reproduction_number"][r, k])
            np.testing.assert_allclose(number, mine.sum() / pressure, rtol=1e-6)
    band = np.nanquantile(found["case_reproduction_number"], [0.25, 0.75], axis=0)
    np.testing.assert_allclose(found["case_reproduction_number_quantile"], band)


def test_pooled_numbers_are_weighted_means_of_replicates(cases):
    pooled = reproduction_number(cases)
    each = reproduction_number(cases, by_replicate=True)
    row, time = cases["replicate"].values, cases["infected_at"].values
    size = np.stack([np.histogram(time[row == r], TIMES)[0] for r in range(30)])
    size[:, 0] -= 20  # the seeds, which are infected before the first interval
    total = (each["case_reproduction_number"].fillna(0.0) * size).sum("replicate")
    np.testing.assert_allclose(pooled["case_reproduction_number"], total / size.sum(axis=0))


def test_wallinga_and_teunis_by_integrals():
    """Intervals of different lengths, a gamma generation interval, and seeds."""
    edges = np.array([0.0, 2.0, 3.0, 5.0, 9.0])
    cases = np.array([[4, 7, 9, 15, 18], [1, 1, 1, 1, 1]])
    counts = xarray.Dataset({"cases": (("replicate", "time"), cases)}, coords={"time": edges})
    law = ergode.Gamma(mean=3.0, sd=1.5)
    found = reproduction_over_time(counts, law)
    new, count = np.diff(cases, axis=1), edges.size - 1
    share = np.zeros((count, count))
    for i in range(count):
        for j in range(i, count):
            share[i, j] = dblquad(
                lambda t, s: float(law.pdf(t - s)) if t > s else 0.0,
                edges[i], edges[i + 1], edges[j], edges[j + 1],
            )[0] / (edges[i + 1] - edges[i])  # fmt: skip
    seeds = np.diff(1.0 - law.survival(edges))
    pressure = cases[0, 0] * seeds + new[0] @ share
    np.testing.assert_allclose(
        found["instantaneous_reproduction_number"][0], new[0] / pressure, rtol=2e-3
    )
    np.testing.assert_allclose(
        found["case_reproduction_number"][0], share @ (new[0] / pressure), rtol=2e-3
    )
    assert np.isnan(found["case_reproduction_number"][1]).all()
    np.testing.assert_array_equal(found["instantaneous_reproduction_number"][1], 0.0)


def test_counts_tell_nearly_what_the_tree_tells(cases):
    """Over all replicates, while many are infected; generation intervals change in an epidemic."""
    interval = generation_interval(cases)
    law = ergode.Gamma(mean=float(interval.mean()), sd=float(interval.std()))
    counts = epidemic("counts")
    found = reproduction_over_time(counts, law)
    truth = reproduction_number(cases)
    new = np.diff(counts["cases"].values, axis=1)[:, :5]
    for name in ("case_reproduction_number", "instantaneous_reproduction_number"):
        number = (found[name].fillna(0.0).values[:, :5] * new).sum(axis=0) / new.sum(axis=0)
        np.testing.assert_allclose(number, truth[name][:5], rtol=0.15)


def test_refusals(cases):
    counts = epidemic("counts")
    with pytest.raises(ergode.ModelError, match="expected a HoldingTime"):
        reproduction_over_time(counts, 5.0)
    with pytest.raises(ergode.ModelError, match="output='counts'"):
        reproduction_over_time(cases, ergode.Exponential(mean=1.0))
    with pytest.raises(ergode.ModelError, match="choose one point"):
        reproduction_over_time(counts.expand_dims(point=2), ergode.Exponential(mean=1.0))
    with pytest.raises(ergode.PlanError, match="between 0 and 1"):
        reproduction_over_time(counts, ergode.Exponential(mean=1.0), quantiles=[2.0])
