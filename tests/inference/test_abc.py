"""abc_smc: against posteriors that are known."""

import functools

import numpy as np
import pytest
from scipy import stats

import ergode
from ergode import ModelError, PlanError

DEATH = ergode.ReactionNetwork(
    {"X": 40}, [ergode.Reaction("X -> 0", rate_constant="k")], {"k": 1.0}
)


def deaths(seed=0):
    call = functools.partial(ergode.stochastic.simulate, DEATH, times=[0, 1, 2], device="cpu:1")
    return ergode.simulator(call, ["k"], lambda found: found["amount"].isel(time=[1, 2]), seed=seed)


def exact(observed, prior, low, high):
    """The distribution function of the posterior, on a grid."""
    k = np.linspace(low, high, 20_001)
    p = np.exp(-k)
    log = stats.binom.logpmf(observed[0], 40, p) + stats.binom.logpmf(observed[1], observed[0], p)
    weights = np.exp(log - np.nanmax(log)) * prior.pdf(k)
    return k, np.cumsum(weights) / weights.sum()


@pytest.mark.parametrize("prior", [stats.uniform(0, 4), stats.gamma(2, scale=0.5)])
def test_counts_that_are_met_exactly_give_the_posterior(prior):
    """Draws against the closed form: Kolmogorov-Smirnov at 1e-6, for a tenth of independent draws.

    A rate that is 10 % off, as by a wrong prior, is noticed.
    """
    observed = [14, 6]
    given = (0, 4) if prior.dist.name == "uniform" else prior
    found = ergode.abc_smc(
        deaths(seed=5), {"k": given}, observed, particles=2_000, max_simulations=150_000, seed=2
    )
    assert found.attrs["tolerances"][-1] == 0 and (found["distance"] == 0).all()
    assert (np.diff(found.attrs["tolerances"]) <= 0).all()
    grid, known = exact(observed, prior, 1e-9, 4)
    draws = np.sort(found["k"].values[0])
    off = np.abs(np.interp(draws, grid, known) - (np.arange(draws.size) + 0.5) / draws.size).max()
    limit = stats.kstwo.isf(1e-6, draws.size // 10)
    assert off < limit
    wrong = np.abs(np.interp(1.3 * draws, grid, known) - np.arange(draws.size) / draws.size).max()
    assert wrong > limit


def test_two_parameters_and_failures():
    """A line a + b t: the means are those of least squares. Members that fail are never kept."""

    def call(parameters, seed):
        random = np.random.default_rng(seed)
        a, b = parameters["a"], parameters["b"]
        y = a[:, None] + b[:, None] * np.arange(6) + 0.3 * random.standard_normal((len(a), 6))
        y[random.random(len(a)) < 0.2] = np.nan
        return y

    simulate = ergode.simulator(call, ["a", "b"], lambda found: [
        [np.mean(row), np.polyfit(range(6), row, 1)[0] if np.isfinite(row).all() else np.nan]
        for row in found
    ])  # fmt: skip
    found = ergode.abc_smc(
        simulate, {"a": (-5, 5), "b": (-3, 3)}, [3.5, 1.0], particles=1_000, tolerance=0.02,
        max_simulations=100_000, seed=1,
    )  # fmt: skip
    assert abs(float(found["a"].mean()) - 1.0) < 0.1 and abs(float(found["b"].mean()) - 1) < 0.03
    assert np.isfinite(found["distance"]).all()


def test_it_is_what_arviz_takes():
    arviz = pytest.importorskip("arviz")
    found = ergode.abc_smc(deaths(), {"k": (0, 4)}, [14, 6], particles=50, max_simulations=500)
    assert "k" in arviz.summary(arviz.convert_to_inference_data(found)).index


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"prior": {}}, ModelError, "prior has no distribution of 'k'"),
        ({"prior": {"k": (1, 0)}}, ModelError, "expected finite numbers, low < high"),
        ({"prior": {"k": (0, np.inf)}}, ModelError, "expected finite numbers, low < high"),
        ({"prior": {"k": stats.uniform(np.array([0, 1]), 1)}}, ModelError, "expected .low, high."),
        ({"observed": [14, np.nan]}, ModelError, "expected finite numbers, one for each summary"),
        ({"observed": [[14, 6]]}, ModelError, "expected finite numbers, one for each summary"),
        ({"observed": "x"}, ModelError, "observed is 'x'; expected finite numbers"),
        ({"seed": -1}, PlanError, "seed is -1"),
        ({"prior": {"k": 3}}, ModelError, "prior of 'k' is 3; expected"),
        ({"prior": {"k": (0, 1), "q": (0, 1)}}, ModelError, "prior has 'q'"),
        ({"observed": [1, 2, 3]}, PlanError, "makes 2 summaries; observed has 3"),
        ({"keep": 1.0}, PlanError, "keep is 1; expected"),
        ({"particles": 3}, PlanError, "particles is 3"),
        ({"max_simulations": 5}, PlanError, "max_simulations is 5"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, error, message):
    given = {"prior": {"k": (0, 4)}, "observed": [14, 6], "particles": 20} | changes
    with pytest.raises(error, match=message):
        ergode.abc_smc(deaths(), given.pop("prior"), given.pop("observed"), **given)


def test_what_the_model_cannot_make_is_told():
    with pytest.warns(ergode.AccuracyWarning, match=r"observed\[0\] is 400, outside of all"):
        ergode.abc_smc(deaths(), {"k": (0, 3)}, [400, 2], particles=50, max_simulations=500)
    with pytest.raises(ModelError, match="expected what ergode.simulator returns"):
        ergode.abc_smc(lambda theta: theta, {"k": (0, 3)}, [4])


def test_a_call_is_repeated_by_its_seed():
    simulate = deaths()
    one, other = (
        ergode.abc_smc(simulate, {"k": (0, 3)}, [14, 6], particles=40, max_simulations=400, seed=7)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one["k"], other["k"])


def test_units_do_not_matter_and_the_end_has_a_reason():
    """Time in other units: the walk has the size of the population."""
    draws = []
    for unit in (1.0, 2.0**-40):
        call = functools.partial(
            ergode.stochastic.simulate, DEATH, times=[0, 1 / unit, 2 / unit], device="cpu:1"
        )
        simulate = ergode.simulator(
            call, ["k"], lambda found: found["amount"].isel(time=[1, 2]), seed=5
        )
        found = ergode.abc_smc(
            simulate, {"k": (0, 4 * unit)}, [14, 6], particles=100, max_simulations=20_000, seed=3
        )
        assert found.attrs["stopped"] == "tolerance"
        draws.append(found["k"].values / unit)
    np.testing.assert_allclose(*draws, rtol=1e-9)
    given = {"particles": 20, "seed": 2}
    with pytest.warns(ergode.AccuracyWarning, match="leaves 20 particles where the prior put"):
        found = ergode.abc_smc(simulate, {"k": (0, 1)}, [14, 6], max_simulations=20, **given)
    assert found.attrs["stopped"] == "max_simulations"


def test_common_random_numbers_are_refused():
    call = functools.partial(ergode.stochastic.simulate, DEATH, times=[0, 1], device="cpu:1")
    common = ergode.simulator(call, ["k"], "amount", common_random_numbers=True)
    with pytest.raises(PlanError, match="common random numbers"):
        ergode.abc_smc(common, {"k": (0, 1)}, [1, 2])
