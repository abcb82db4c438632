"""What holds whatever the method: reproducibility, status, events, breaks, delays, outputs."""

import importlib

import numpy as np
import pytest
from small_networks import BURSTS, DIMERISATION, IMMIGRATION_DEATH

import ergode
from ergode import Event, ModelError, PlanError, Reaction, ReactionNetwork
from ergode.core.status import Status
from ergode.stochastic import methods

simulate = ergode.stochastic.simulate


def run(network, times=(0, 1, 2), **options):
    return simulate(network, times=times, **{"seed": 3, "device": "cpu:1", **options})


def tables_of(network):
    """The same network, simulated by tables: it has an event that never happens."""
    return ReactionNetwork(
        network.species, list(network.reactions), network.parameters, network.compartments,
        events=[Event("time < 0", {network.species[0].name: 0})],
    )  # fmt: skip


# ---- the same seed, the same answer


@pytest.mark.parametrize("method", methods.EXACT)
def test_a_realization_does_not_depend_on_the_others(method):
    many = run(DIMERISATION, method=method, replicates=300)
    threads = run(DIMERISATION, method=method, replicates=300, device="cpu:3")
    alone = run(DIMERISATION, method=method, replicates=1)
    few = run(DIMERISATION, method=method, replicates=37)
    np.testing.assert_array_equal(many["amount"], threads["amount"])
    np.testing.assert_array_equal(many["firing_count"], threads["firing_count"])
    np.testing.assert_array_equal(many["amount"][:1], alone["amount"])
    np.testing.assert_array_equal(many["amount"][:37], few["amount"])
    other = run(DIMERISATION, method=method, replicates=37, seed=4)
    assert (other["amount"] != few["amount"]).any()


@pytest.mark.parametrize("output", ["trajectories", "statistics"])
@pytest.mark.parametrize("method", ["direct", "composition-rejection"])
def test_chunks_do_not_change_anything(monkeypatch, method, output):
    """Seventeen realizations at a time: chunks begin and end within points of the sweep."""
    options = {
        "method": method, "output": output, "replicates": 60,
        "parameters": ergode.grid(alpha=[5.0, 10.0]), "device": "cpu:2",
    }  # fmt: skip
    whole = run(IMMIGRATION_DEATH, **options)
    module = importlib.import_module("ergode.stochastic.runners.chunks")
    monkeypatch.setattr(module, "chunk_size", lambda *_: 17)
    parts = run(IMMIGRATION_DEATH, **options)
    for name in whole.data_vars:
        np.testing.assert_array_equal(whole[name], parts[name])


def test_straight_line_code_is_the_direct_method_on_tables():
    plain = run(DIMERISATION, replicates=200)
    np.testing.assert_array_equal(
        plain["amount"], run(tables_of(DIMERISATION), method="direct", replicates=200)["amount"]
    )


def test_the_grid_does_not_change_a_realization():
    fine = run(DIMERISATION, times=np.linspace(0, 2, 41), replicates=50)
    coarse = run(DIMERISATION, times=[0, 1, 2], replicates=50)
    np.testing.assert_array_equal(fine["amount"][:, [0, 20, 40]], coarse["amount"])


def test_statistics_are_those_of_the_trajectories():
    rows = run(DIMERISATION, replicates=500)["amount"].values.astype(float)
    found = run(DIMERISATION, replicates=500, output="statistics")
    np.testing.assert_allclose(found["mean"], rows.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found["variance"], rows.var(axis=0, ddof=1), rtol=1e-12)
    threads = run(DIMERISATION, replicates=500, output="statistics", device="cpu:2")
    np.testing.assert_array_equal(found["variance"], threads["variance"])


def test_sweep_is_what_each_point_is_alone():
    swept = run(
        IMMIGRATION_DEATH, replicates=60, initial={"X": 7},
        parameters=ergode.grid(alpha=[5.0, 10.0], mu=[0.1, 0.5, 1.0]),
    )  # fmt: skip
    assert dict(swept.sizes) == {"alpha": 2, "mu": 3, "replicate": 60, "time": 3, "species": 1}
    one = run(
        IMMIGRATION_DEATH, replicates=60, parameters={"alpha": 10.0, "mu": 0.1}, initial={"X": 7}
    )
    np.testing.assert_array_equal(swept["amount"].sel(alpha=10.0, mu=0.1), one["amount"])
    means = run(
        IMMIGRATION_DEATH, replicates=60, output="statistics", initial={"X": 7},
        parameters=ergode.grid(alpha=[5.0, 10.0], mu=[0.1, 0.5, 1.0]),
    )  # fmt: skip
    np.testing.assert_allclose(means["mean"], swept["amount"].mean("replicate"), rtol=1e-14)


# ---- what goes wrong goes wrong alone


@pytest.mark.parametrize("method", methods.EXACT)
@pytest.mark.parametrize(
    ("rate", "status"),
    [
        ("0 if X < 12 else 1 / (X - 12 * bad)", Status.NOT_FINITE),
        ("0 if X < 12 else sqrt(1 - 2 * bad) - 1", Status.NOT_FINITE),
        ("0.5 * max(11 - X, -9 * bad)", Status.NEGATIVE_RATE),
    ],
)
def test_a_bad_rate_is_a_status_of_one_realization(rate, status, method):
    """The chain goes up and down; where the rate is bad depends on how far it got.

    Where it never got so far, all is as if there were nothing bad, to the last bit.
    """
    network = ReactionNetwork(
        {"X": 10, "Y": 0},
        [
            Reaction("0 -> X", rate_constant=1.0),
            Reaction("X -> 0", rate_constant=0.1),
            Reaction("0 -> Y", rate=rate),
        ],
        parameters={"bad": 1.0},
    )
    options = {"method": method, "replicates": 400, "parameters": ergode.grid(bad=[1.0, 0.0])}
    if method == "partial-propensity":
        with pytest.raises(PlanError, match="mass action"):
            run(network, **options)
        return
    with pytest.warns(RuntimeWarning, match="of 800 runs"):
        result = run(network, **options)
    assert set(np.unique(result["status"].sel(bad=1)).tolist()) == {Status.DONE, status}
    assert (result["status"].sel(bad=0) == Status.DONE).all()
    good = result["status"].values[0] == Status.DONE
    assert 100 < good.sum() < 350
    if method != "rejection-bounds":  # whose bounds are of states beyond, too
        for name in ("amount", "firing_count"):
            bad, harmless = result[name].values
            np.testing.assert_array_equal(bad[good], harmless[good])
    with pytest.raises(ergode.ErgodeError):
        result.ergode.raise_for_status()


@pytest.mark.parametrize("method", [m for m in methods.EXACT if m != "partial-propensity"])
def test_a_propensity_below_zero_by_a_count_below_zero(method):
    """X is taken at a rate that does not ask how much there is."""
    network = ReactionNetwork(
        {"X": 2, "Y": 1, "Z": 1},
        [Reaction("X -> 0", rate="Y"), Reaction("X + Z -> Z", rate_constant=1e-9)],
    )
    with pytest.raises(PlanError, match="may take more 'X'"):
        run(network, method="partial-propensity", replicates=50)
    with pytest.warns(RuntimeWarning, match="negative"):
        result = run(network, times=[0, 1, 3], method=method, replicates=50)
    below = result["status"] == Status.NEGATIVE_RATE
    assert 0 < below.sum() < 50
    assert not (result["amount"] < 0).any()
    assert (result["amount"].isnull().any(["time", "species"]) == below).all()


@pytest.mark.parametrize("method", [m for m in (*methods.EXACT, "tau-leap") if m[:2] != "pa"])
def test_a_count_below_zero_is_a_status_though_no_rate_is(method):
    network = ReactionNetwork(
        {"X": 4}, [Reaction("X -> 0", rate_constant=0.0), Reaction("X -> 0", rate="1.5")]
    )
    with pytest.warns(RuntimeWarning, match="negative"):
        result = run(network, times=[0, 1, 3], method=method, replicates=200)
    below = result["status"] == Status.NEGATIVE_RATE
    assert 60 < below.sum() < 120  # five of a Poisson process of mean 4.5 at least: 0.468 of them
    assert not (result["amount"] < 0).any()
    assert (result["amount"].isnull().any(["time", "species"]) == below).all()
    if method != "tau-leap":
        assert (result["firing_count"][below] == 5).all()


@pytest.mark.parametrize("method", ["direct", "warp-direct"])
def test_runaway_and_overflow_are_statuses_of_one_realization(method):
    """Of those that stay within bounds all is as if there were none, to the last bit."""

    def harmed(bounded, free, status):
        codes = set(np.unique(bounded["status"]).tolist())
        assert codes == {Status.DONE, status}
        good = bounded["status"].values == Status.DONE
        np.testing.assert_array_equal(bounded["firing_count"][good], free["firing_count"][good])
        return good

    doubling = ReactionNetwork({"X": 1}, [Reaction("X -> 2 X", rate_constant=1.0)])
    options = {"times": [0, 8], "replicates": 200, "method": method}
    free = run(doubling, **options)
    bounded = run(doubling, **options, max_firings=2000)
    good = harmed(bounded, free, Status.TOO_MANY_STEPS)
    np.testing.assert_array_equal(bounded["amount"][good], free["amount"][good])
    assert bounded["firing_count"].max() <= 2001
    growing = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=1.0)])
    options = {"times": [0, 2], "replicates": 200, "method": method}
    free = run(growing, **options)
    bounded = run(growing, **options, initial={"X": 2**53 - 2})
    good = harmed(bounded, free, Status.OVERFLOW)
    np.testing.assert_array_equal(bounded["amount"][good] - (2**53 - 2), free["amount"][good])
    summary = run(growing, **options, initial={"X": 2**31 - 2}, output="statistics")
    assert (summary["count"] == 200).all()
    grown = free["amount"].values[:, 1, 0]
    assert summary["mean"].values[1, 0] == pytest.approx(2**31 - 2 + grown.mean(), rel=1e-15)
    assert summary["variance"].values[1, 0] == pytest.approx(grown.var(ddof=1), rel=1e-9)


def test_statistics_go_on_where_amounts_grow_beyond_what_squares_hold(monkeypatch):
    """In the second of several chunks: the first has exact sums, the others have amounts."""
    monkeypatch.setattr("ergode.stochastic.runners.chunks._CHUNK_BYTES", 40_000)
    event = [Event("time >= 1", {"X": "big"})]
    network = ReactionNetwork(
        {"X": 5, "Y": 0}, [Reaction("0 -> Y", rate_constant=3.0)], {"big": 10}, events=event
    )
    options = {"times": [0, 2], "replicates": 700, "parameters": {"big": [10.0, 3e9, 1e12]}}
    found = run(network, **options, output="statistics")
    amount = run(network, **options)["amount"].values
    assert (found["count"] == 700).all() and (found["status"] == 0).all()
    np.testing.assert_allclose(found["mean"], amount.mean(axis=1), rtol=1e-12)
    variance = (amount - amount[:, :1]).var(axis=1, ddof=1)
    np.testing.assert_allclose(found["variance"], variance, rtol=1e-9)
    source = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate_constant=1e12)])
    found = run(source, times=[0, 1], replicates=400, method="tau-leap", output="statistics")
    assert abs(found["mean"].values[1, 0] - 1e12) < 5 * 1e6 / 20
    assert abs(found["variance"].values[1, 0] / 1e12 - 1) < 5 * np.sqrt(2 / 400)


@pytest.mark.parametrize("amount", [1.5, 1e6 + 0.01, 1e9 + 0.5, 1e12 + 0.5])
def test_an_amount_that_is_not_whole_is_refused(amount):
    network = ReactionNetwork({"X": 0}, [Reaction("X -> 0", rate_constant=1.0)])
    with pytest.raises(ModelError, match="expected a whole number"):
        run(network, times=[0, 1], initial={"X": amount})


@pytest.mark.parametrize("method", [*methods.EXACT, "tau-leap"])
def test_amounts_may_be_as_large_as_whole_numbers_are_exact(method):
    """Each of 1e15 molecules is rarely lost: exact methods count the last of them."""
    network = ReactionNetwork(
        {"X": 10**15, "Y": 0},
        [Reaction("X -> Y", rate_constant=1e-13), Reaction("Y -> 0", rate_constant=0.5)],
    )
    options = {"times": [0, 1], "method": method, "replicates": 400}
    lost = 10**15 - run(network, **options)["amount"].values[:, 1, 0]
    assert lost.dtype.kind == "i"
    assert abs(lost.mean() - 100) < 5 * np.sqrt(100 / 400)
    assert abs(lost.var(ddof=1) / 100 - 1) < 5 * np.sqrt(2 / 400)
    found = run(network, **options, output="statistics")
    assert abs(found["mean"].values[1, 0] - (1e15 - lost.mean())) <= 0.25
    assert abs(found["variance"].values[1, 0] / lost.var(ddof=1) - 1) < 1e-9


def test_a_rate_that_follows_time_and_falls_below_zero_is_a_status():
    network = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate="20 * sin(6 * time)")])
    with pytest.warns(RuntimeWarning, match="negative"):
        result = run(network, times=[0, 0.5, 1.0], replicates=50)
    assert (result["status"] == Status.NEGATIVE_RATE).all()
    mean, expected = float(result["amount"][:, 1].mean()), 20 / 6 * (1 - np.cos(3.0))
    assert abs(mean - expected) < 5 * np.sqrt(expected / 50)


def test_extinction_is_a_status():
    result = run(ReactionNetwork({"X": 3}, [Reaction("X -> 0", rate_constant=9.0)]), replicates=50)
    assert (result["status"] == Status.EXTINCT).mean() > 0.9
    assert (result["amount"][:, -1] == 0).mean() > 0.9


@pytest.mark.parametrize("method", ["direct", "warp-direct"])
def test_pairs_that_are_used_up_are_extinct(method):
    """The propensity of 2 A is minus zero where there is no A: c * 0 * (0 - 1)."""
    pairs = ReactionNetwork({"A": 4, "B": 0}, [Reaction("2 A -> B", rate_constant=9.0)])
    result = run(pairs, times=[0, 50], replicates=5, method=method)
    assert (result["status"] == Status.EXTINCT).all()
    assert (result["amount"][:, -1] == [0, 2]).all()


# ---- events, breaks, delays, time


@pytest.mark.parametrize("method", methods.EXACT)
def test_a_time_between_those_of_the_grid_is_met(method):
    result = run(BURSTS, times=[0, 1.25, 1.2500001], replicates=40, method=method)
    assert (result["amount"][:, 1] == 12).all()
    assert (result["amount"][:, 2] >= 11).all()


def test_an_event_happens_though_nothing_fires():
    still = ReactionNetwork(
        {"X": 0, "Y": 5},
        [Reaction("X -> 0", rate_constant=1.0)],
        parameters={"k": 0.0},
        events=[
            Event("time > 1.3", {"X": "Y + 2", "Y": "X + 1", "k": "k + 3"}, name="exchange"),
            Event("k > 2", {"Y": "10 * k"}, delay=0.5),
        ],
    )
    result = run(still, times=[0, 1.29, 1.31, 1.79, 1.81])
    assert result["amount"].sel(species="Y").values.tolist() == [[5, 5, 1, 1, 30]]
    assert result["amount"].sel(species="X").values[0, 2] == 7


def test_priorities_and_persistence():
    network = ReactionNetwork(
        {"X": 0, "Y": 0},
        [Reaction("0 -> X", rate_constant=1e-12)],
        events=[
            Event("time >= 1", {"X": "2 * X + 1"}, priority=1, values_from_trigger=False),
            Event("time >= 1", {"X": "X + 5"}, priority=2),
            Event("time >= 1 and time < 1.5", {"Y": 1}, delay=1, persistent=False),
            Event("time >= 1 and time < 1.5", {"Y": "Y + 2"}, delay=1),
        ],
    )
    result = run(network, times=[0, 1, 2.5])
    assert result["amount"].values[0, 2].tolist() == [11, 2]


def test_an_event_that_cannot_be_is_a_status():
    """By a parameter of a sweep: a count below zero, none at all, two events without end."""
    network = ReactionNetwork(
        {"X": 3}, [Reaction("X -> 0", rate_constant=0.0)], parameters={"case": 0.0},
        events=[
            Event(
                "time >= 1", {"X": "X - 5 if case == 1 else X / (2 - case) if case < 3 else 9"},
                rounding="nearest",
            ),
            Event("X > 8", {"X": "7"}),
            Event("X == 7", {"X": "9"}),
        ],
    )  # fmt: skip
    with pytest.warns(RuntimeWarning, match="of 4 runs"):
        result = run(network, parameters=ergode.grid(case=[0.0, 1.0, 2.0, 3.0]))
    assert result["status"].values[:, 0].tolist() == [
        Status.EXTINCT, Status.NEGATIVE_RATE, Status.NOT_FINITE, Status.TOO_MANY_STEPS,
    ]  # fmt: skip


def test_a_rate_that_turns_at_a_time():
    network = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate="100 if time < 0.75 else 0")])
    result = run(network, times=[0, 0.75, 2], replicates=400, output="statistics")
    assert abs(result["mean"].values[2, 0] - 75) < 5 * np.sqrt(75 / 400)
    np.testing.assert_array_equal(result["mean"][1], result["mean"][2])


def test_a_rate_that_follows_time_is_met_exactly():
    network = ReactionNetwork({"X": 0}, [Reaction("0 -> X", rate="50 * (1 + sin(6 * time))")])
    times = np.linspace(0, 2, 9)
    result = run(network, times=times, replicates=4000, output="statistics")
    assert result.attrs["method"] == "rejection-bounds"
    expected = 50 * (times + (1 - np.cos(6 * times)) / 6)
    z = (result["mean"].values[1:, 0] - expected[1:]) / np.sqrt(expected[1:] / 4000)
    assert np.abs(z).max() < 5.5
    assert np.abs(result["variance"].values[1:, 0] / expected[1:] - 1).max() < 5.5 * np.sqrt(
        2 / 4000
    )
    with pytest.raises(PlanError, match="depends on time"):
        run(network, method="direct")


@pytest.mark.parametrize("method", ["direct", "next-reaction"])
def test_late_products(method):
    """What fires as a Poisson process appears as one, later."""
    network = ReactionNetwork(
        {"S": 100, "X": 0}, [Reaction("S -> X", rate="20", delay="tau")], parameters={"tau": 0.5}
    )
    result = run(network, times=[0, 0.5, 1.5], replicates=2000, method=method)
    assert (result["amount"].sel(species="X")[:, 1] == 0).all()
    x = result["amount"].sel(species="X").values[:, 2]
    assert abs(x.mean() - 20) < 5 * np.sqrt(20 / 2000)
    waiting = 100 - result["amount"].sum("species").values[:, 2]
    assert abs(waiting.mean() - 10) < 5 * np.sqrt(10 / 2000)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"times": [0]}, ModelError, "one time"),
        ({"method": "gillespie"}, PlanError, "unknown"),
        ({"output": "counts"}, PlanError, "unknown"),
        ({"output": "first-passage"}, PlanError, "stop"),
        ({"parameters": {"alfa": 1.0}}, ModelError, "did you mean 'alpha'"),
        ({"initial": {"Y": 1}}, ModelError, "'Y'"),
        ({"initial": {"X": 1.5}}, ModelError, "whole"),
        ({"parameters": {"mu": [0.1, -1.0]}}, ModelError, "point 1"),
        ({"stop": "Y > 1"}, ModelError, "'Y'"),
        ({"bins": [0, 1]}, PlanError, "bins"),
        ({"replicates": 0}, PlanError, "replicates"),
    ],
)
def test_bad_requests_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        run(IMMIGRATION_DEATH, **options)


def test_half_a_molecule_is_refused():
    network = ReactionNetwork({"A": 1, "B": 0}, [Reaction("A -> 0.5 B", rate_constant=1.0)])
    with pytest.raises(PlanError, match="whole numbers"):
        run(network)
