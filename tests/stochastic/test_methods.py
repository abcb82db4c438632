"""Every method on every model: the distribution is that of the master equation."""

import numpy as np
import pytest
from small_networks import NETWORKS, PROPENSITIES, chi_square, master_equation

import ergode
from ergode.stochastic import methods

REPLICATES = 20_000
# Every method and model at two times: 1e-6 altogether.
LEVEL = 1e-6 / 60


@pytest.fixture(scope="module")
def exact():
    found = {}
    for name, (network, end, most) in NETWORKS.items():
        for time in (0.25 * end, end):
            table = master_equation(network, PROPENSITIES[name], most, time)
            assert table.sum() > 1 - 1e-9  # no probability is beyond the states
            others = tuple(range(1, table.ndim))
            found[name, time] = table.sum(axis=others)
    return found


def run(network, end, method, **options):
    options = {"replicates": REPLICATES, "seed": 5, "device": "cpu", **options}
    return ergode.stochastic.simulate(network, times=[0, 0.25 * end, end], method=method, **options)


@pytest.mark.parametrize("method", methods.EXACT)
@pytest.mark.parametrize("name", NETWORKS)
def test_distribution(exact, name, method):
    network, end, _ = NETWORKS[name]
    if method == "partial-propensity" and name in ("schloegl", "saturated"):
        with pytest.raises(ergode.PlanError, match="at most two molecules"):
            run(network, end, method)
        return
    result = run(network, end, method, output="histogram")
    assert (result["status"] <= 1).all()
    for k, time in ((1, 0.25 * end), (2, end)):
        counts = result["histogram"].values[k, 0]
        assert chi_square(counts, exact[name, time]) > LEVEL


@pytest.mark.parametrize("name", NETWORKS)
def test_auto_is_exact_and_says_why(name):
    network, end, _ = NETWORKS[name]
    result = run(network, end, "auto", replicates=10)
    assert result.attrs["exact"] == 1
    assert "reactions" in result.attrs["method_reason"]


def test_chi_square_notices_one_percent():
    """A rate that is one percent off does not pass as the right one at this level."""
    name = "immigration-death"
    network, end, most = NETWORKS[name]
    wrong = master_equation(network, lambda x: (10.1, 0.5 * x), most, end)
    result = run(network, end, "direct", output="histogram", replicates=400_000)
    assert chi_square(result["histogram"].values[2, 0], wrong) < LEVEL


@pytest.mark.parametrize("method", methods.APPROXIMATE)
def test_leaping_is_close(method):
    """Means and variances at large counts, where both approximations hold."""
    network = ergode.ReactionNetwork(
        {"A": 4000, "B": 0},
        [
            ergode.Reaction("A -> B", rate_constant=1.0),
            ergode.Reaction("B -> 0", rate_constant=0.5),
        ],
    )
    result = run(network, 1.0, method, output="statistics")
    # Each molecule is by itself: a binomial number of them is A.
    p = np.exp(-1.0)
    mean, variance = 4000 * p, 4000 * p * (1 - p)
    assert result.attrs["exact"] == 0
    assert abs(result["mean"].values[2, 0] / mean - 1) < 0.03  # epsilon
    assert abs(result["variance"].values[2, 0] / variance - 1) < 0.06
    exact = run(network, 1.0, "direct", output="statistics", replicates=200)
    firings, expected = (float(one["firing_count"].mean()) for one in (result, exact))
    assert firings == pytest.approx(expected, rel=0.02)


def test_leaping_near_extinction_never_goes_below_zero():
    network = ergode.ReactionNetwork(
        {"A": 500, "B": 40},
        [
            ergode.Reaction("A + B -> 0", rate_constant=0.05),
            ergode.Reaction("A -> 0", rate_constant=0.5),
        ],
    )
    leap, direct = (
        run(network, 4.0, method, replicates=20_000) for method in ("tau-leap", "direct")
    )
    assert leap["amount"].min() >= 0
    for species in ("A", "B"):
        a, b = (r["amount"].sel(species=species).isel(time=1) for r in (leap, direct))
        error = 5 * float(b.std()) / np.sqrt(10_000)
        assert abs(float(a.mean() - b.mean())) <= 0.03 * float(b.mean()) + error
