"""What did not happen is missing, and enters no mean, no histogram and no summary."""

import warnings

import numpy as np
import pytest

import ergode
from ergode import Event, Reaction, ReactionNetwork
from ergode.core.status import Status
from ergode.runfile.read import read
from ergode.runfile.spread import shortfall
from ergode.stochastic import methods

# Grows beyond what a count can be in some realizations, or takes what is not there.
GROWING = ReactionNetwork(
    {"X": 2**53 - 62, "Y": 300},
    [Reaction("0 -> X", rate_constant=20.0), Reaction("0 -> Y", rate_constant=1.0)],
)
TAKING = ReactionNetwork(
    {"X": 4, "Y": 300}, [Reaction("X -> 0", rate="1.5"), Reaction("0 -> Y", rate_constant=1.0)]
)
TIMES = [0.0, 0.5, 1.0, 2.0, 3.0]


def by_tables(network):
    return ReactionNetwork(
        network.species, list(network.reactions), events=[Event("time < -1", {"X": 0})]
    )


def run(network, method, **options):
    options = {"seed": 3, "device": "cpu:1", "replicates": 300, **options}
    with pytest.warns(ergode.FailureWarning):
        return ergode.stochastic.simulate(network, times=TIMES, method=method, **options)


CASES = [("direct", False), *((m, True) for m in methods.EXACT if m != "partial-propensity")]


@pytest.mark.parametrize("network", [GROWING, TAKING])
@pytest.mark.parametrize(("method", "tables"), CASES)
def test_rows_of_failed_realizations_are_missing_in_every_output(network, method, tables):
    network = by_tables(network) if tables else network
    result = run(network, method)
    failed = result["status"].values > Status.EXTINCT
    amounts = result["amount"].values
    missing = np.isnan(amounts).any(axis=2)
    assert 20 < failed.sum() < 280
    assert (missing.any(axis=1) == failed).all()
    assert (np.diff(missing.astype(int), axis=1) >= 0).all() and not missing[:, 0].any()
    assert np.nanmin(amounts[..., 1]) >= 300
    summary = run(network, method, output="statistics")
    np.testing.assert_array_equal(summary["count"], (~missing).sum(axis=0))
    np.testing.assert_allclose(summary["mean"], np.nanmean(amounts, axis=0), rtol=1e-12)
    variance = np.nanvar(amounts - amounts[0, 0], axis=0, ddof=1)
    np.testing.assert_allclose(summary["variance"], variance, rtol=1e-6, atol=1e-3)
    final = run(network, method, output="final")["amount"].values
    np.testing.assert_array_equal(final, amounts[:, -1])
    edges = [0, 250, 400, 2**31]
    bins = run(network, method, output="histogram", bins=edges)["histogram"].values
    np.testing.assert_array_equal(bins[:, 1, 1], (~missing).sum(axis=0))
    assert not bins[:, 1, 0].any()


def test_a_rule_of_what_is_missing_is_missing():
    network = ReactionNetwork(TAKING.species, list(TAKING.reactions), rules={"both": "X + Y"})
    result = run(network, "direct")
    rows = result["amount"].values.sum(axis=2)
    np.testing.assert_array_equal(result["value"].values[..., 0], rows)
    summary = run(network, "direct", output="statistics")
    np.testing.assert_allclose(summary["value_mean"][:, 0], np.nanmean(rows, axis=0), rtol=1e-12)


def test_amounts_stay_whole_numbers_where_nothing_is_missing():
    fine = ReactionNetwork({"X": 4}, [Reaction("X -> 0", rate_constant=1.0)])
    result = ergode.stochastic.simulate(fine, times=[0, 1], replicates=10, device="cpu:1")
    assert result["amount"].dtype == np.int64


def test_a_message_names_the_reaction_the_state_and_the_time():
    network = ReactionNetwork(
        {"X": 10, "Y": 0},
        [
            Reaction("0 -> X", rate_constant=5.0),
            Reaction("0 -> Y", rate="k / (13 - X)", name="blow up"),
        ],
        {"k": 1.0},
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = ergode.stochastic.simulate(
            network, times=[0, 9], replicates=2, seed=1, device="cpu:1"
        )
    said = result.attrs["first_failure"]
    assert "reaction 'blow up' was inf" in said and "X = 13" in said and "replicate 0" in said
    assert any(said in str(w.message) for w in caught)
    taken = run(TAKING, "direct").attrs["first_failure"]
    assert "there were -1 of 'X'" in taken and "at time" in taken


def test_the_summary_of_a_run_file_leaves_them_out_and_says_how_many(tmp_path):
    (tmp_path / "net.toml").write_text(
        """
engine = "stochastic"
[network]
species = { X = 4, Y = 300 }
reactions = [
  { reaction = "X -> 0", rate = "1.5" },
  { reaction = "0 -> Y", rate_constant = 1.0 },
]
[simulate]
times = [0.0, 1.0, 3.0]
replicates = 300
seed = 3
"""
    )
    request = read(tmp_path / "net.toml").request
    with pytest.warns(ergode.FailureWarning):
        result = request.call(progress=False)()
    summary = shortfall(result) | request.summary(result)
    assert summary["mean final Y"] == pytest.approx(303, abs=1)
    assert summary["failed, left out"] == (result["status"] > Status.EXTINCT).sum()
    ax = ergode.plots.realizations(result)
    assert f"{int(summary['failed, left out'])} of 300" in ax.get_title()
