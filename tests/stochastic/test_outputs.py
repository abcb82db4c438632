"""Each kind of output is what realizations did."""

import numpy as np
import pytest
from small_networks import DIMERISATION, IMMIGRATION_DEATH

import ergode
from ergode import Reaction, ReactionNetwork
from ergode.stochastic import methods


def run(network, times=(0, 1, 2), **options):
    return ergode.stochastic.simulate(
        network, times=times, **{"seed": 3, "device": "cpu:1", **options}
    )


def test_first_passage_and_stop():
    birth = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=2.0)])
    result = run(birth, times=[0, 50], replicates=3000, output="first-passage", stop="X >= 4")
    times = result["passage_time"].values  # Erlang: four steps of rate two
    assert abs(times.mean() - 2.0) < 5 * 1.0 / np.sqrt(3000)
    assert abs(times.var() - 1.0) < 0.25
    stopped = run(birth, times=[0, 25, 50], replicates=10, stop="X >= 4")
    assert (stopped["amount"][:, 1:] == 4).all()
    never = run(birth, times=[0, 1], replicates=5, output="first-passage", stop="X > 1000")
    assert np.isnan(never["passage_time"]).all()


@pytest.mark.parametrize("method", methods.EXACT)
def test_the_list_of_firings_is_what_happened(method):
    """A kernel that keeps a list, and can do all there is, simulates what one without does."""
    listed = run(DIMERISATION, replicates=20, output="events", method=method)
    names = [one.name for one in DIMERISATION.reactions]
    assert listed["reaction_name"].values.tolist() == names
    counts = run(DIMERISATION, replicates=20, method=method)
    np.testing.assert_array_equal(listed["firing_count"], counts["firing_count"])
    up = np.bincount(listed["realization"][listed["reaction"] == 0], minlength=20)
    down = np.bincount(listed["realization"][listed["reaction"] == 1], minlength=20)
    np.testing.assert_array_equal(up - down, counts["amount"].sel(species="P2")[:, -1])
    for k in range(20):
        assert (np.diff(listed["firing_time"][listed["realization"] == k]) > 0).all()


def test_histogram_final_and_rules():
    network = ReactionNetwork(
        IMMIGRATION_DEATH.species, list(IMMIGRATION_DEATH.reactions),
        IMMIGRATION_DEATH.parameters, rules={"twice": "2 * X + time"},
    )  # fmt: skip
    rows = run(network, replicates=100)
    amounts = rows["amount"].values[:, -1, 0]
    np.testing.assert_array_equal(rows["value"][:, 2, 0], 2 * amounts + 2)
    np.testing.assert_array_equal(
        run(network, replicates=100, output="final")["amount"][:, 0], amounts
    )
    bins = run(network, replicates=100, output="histogram", bins=[0, 5, 10, 100])["histogram"]
    np.testing.assert_array_equal(bins[2, 0], np.histogram(amounts, [0, 5, 10, 100])[0])
    some = run(network, replicates=100, output="histogram", bins=[12, 13, 15]).isel(
        time=2, species=0
    )
    assert some["bin_end"].values.tolist() == [13, 15]
    assert 0 < some["below"] == (amounts < 12).sum()
    assert 0 < some["above"] == (amounts > 15).sum()
    assert some["histogram"].sum() + some["below"] + some["above"] == 100
    summary = run(network, replicates=100, output="statistics")
    assert summary["value_mean"].values[2, 0] == pytest.approx(2 * amounts.mean() + 2)


def test_a_stop_that_is_a_number_is_refused():
    network = ergode.ReactionNetwork({"A": 5}, [ergode.Reaction("A -> 0", rate_constant=1.0)])
    for function in (ergode.stochastic.simulate, ergode.stochastic.probabilities):
        with pytest.raises(ergode.ModelError, match="stop 'A' is a number; expected .* 'A > 0'"):
            function(network, times=[0, 1], stop="A")
