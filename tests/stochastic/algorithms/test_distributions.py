"""Every method on every model: the distribution is that of the master equation."""

import tracemalloc

import numpy as np
import pytest
from reaction_networks import colloidal_aggregation, cyclic_chain
from small_networks import NETWORKS, chi_square

import ergode
from ergode.stochastic import methods

REPLICATES = 20_000
# Every method and model at two times: 1e-6 altogether.
LEVEL = 1e-6 / 80


def probabilities(network, times, **options):
    """Probability of 0, 1, ... molecules of the first species at each time."""
    found = ergode.stochastic.probabilities(network, times=times, tolerance=1e-9, **options)
    first = found["probability"][:, 0]
    return first.reindex(amount=range(int(first["amount"].max()) + 1), fill_value=0.0).values


@pytest.fixture(scope="module")
def exact():
    return {
        name: probabilities(network, [0, 0.25 * end, end])
        for name, (network, end) in NETWORKS.items()
    }


def run(network, end, method, **options):
    options = {"replicates": REPLICATES, "seed": 5, "device": "cpu", **options}
    return ergode.stochastic.simulate(network, times=[0, 0.25 * end, end], method=method, **options)


@pytest.mark.parametrize("method", methods.EXACT)
@pytest.mark.parametrize("name", NETWORKS)
def test_distribution(exact, name, method):
    network, end = NETWORKS[name]
    if method == "partial-propensity" and name in ("schloegl", "saturated"):
        with pytest.raises(ergode.PlanError, match="at most two molecules"):
            run(network, end, method)
        return
    result = run(network, end, method, output="histogram")
    assert (result["status"] <= 1).all()
    for k in (1, 2):
        counts = result["histogram"].values[k, 0]
        assert chi_square(counts, exact[name][k]) > LEVEL


@pytest.mark.parametrize("name", NETWORKS)
def test_auto_is_exact_and_says_why(name):
    network, end = NETWORKS[name]
    result = run(network, end, "auto")  # with the kernels of the test above
    assert result.attrs["exact"] == 1
    assert "reactions" in result.attrs["method_reason"]


def test_chi_square_notices_one_percent():
    """A rate that is one percent off does not pass as the right one at this level."""
    name = "immigration-death"
    network, end = NETWORKS[name]
    wrong = probabilities(network, [0, end], parameters={"alpha": 10.1})[1]
    result = run(network, end, "direct", output="histogram", replicates=400_000)
    assert chi_square(result["histogram"].values[2, 0], wrong) < LEVEL


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


@pytest.mark.parametrize("network", [colloidal_aggregation(48), cyclic_chain(2100)])
def test_three_levels_find_what_two_levels_find(network):
    """Sums of whole numbers are exact; lists are of species in one, of reactions in the other."""
    end = 200.0 / len(network.reactions)
    two, three = (run(network, end, m, replicates=3) for m in ("direct", "warp-direct"))
    assert two.attrs["firings"] > 200
    np.testing.assert_array_equal(two["amount"], three["amount"])


def test_a_channel_that_large_ones_hid_still_fires():
    """Sums that lost a small propensity beside a large one find it again when that is gone."""
    species = {f"S{i}": 0 for i in range(70)}
    network = ergode.ReactionNetwork(
        {**species, "A": 1, "B": 1, "Z": 0},
        [
            ergode.Reaction("A -> 0", stochastic_rate_constant=1e18),
            ergode.Reaction("B -> Z", stochastic_rate_constant=1.0),
            *[ergode.Reaction(f"{s} -> 0", stochastic_rate_constant=1.0) for s in species],
        ],
    )
    for method in ("warp-direct", "partial-propensity", "direct"):
        result = run(network, 60.0, method, replicates=20)
        assert (result["amount"].sel(species="Z")[:, -1] == 1).all(), method


def test_memory_of_a_large_network():
    """31,752 reactions need less than 50 MB beside the states, whatever the method."""
    network = colloidal_aggregation(252)
    assert len(network.reactions) == 31_752
    for method in ("partial-propensity", "warp-direct", "composition-rejection"):
        options = {"end": 1e-6, "method": method, "replicates": 1, "device": "cpu:1"}
        run(network, **options)
        tracemalloc.start()
        run(network, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50e6, method
