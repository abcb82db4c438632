"""Times at which events happen, what they assign, and what follows of it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from both_devices import on_both
from scipy import stats
from small_networks import chi_square

import ergode
from ergode import Event, ModelError, PlanError, Reaction, ReactionNetwork
from ergode.stochastic import methods

EXACT = [m for m in methods.EXACT if m != "partial-propensity"]
# Of all tests of chance in this file together.
LEVEL = 1e-6 / 50


def run(species, events, times, method="direct", reactions=(), parameters=None, **options):
    reactions = list(reactions) or [Reaction(f"{next(iter(species))} -> 0", rate_constant=0.0)]
    network = ReactionNetwork(species, reactions, parameters or {}, events=events)
    return ergode.stochastic.simulate(
        network, times=times, method=method, **{"seed": 3, "device": "cpu:1", **options}
    )


# ---- times


@pytest.mark.parametrize("method", EXACT)
def test_a_chain_of_delayed_events_is_on_time(method):
    """Sums of times that rounding moves, too: 1.1 + 2.2 is above 3.3, 0.1 + 0.7 below 0.8."""
    events = [
        Event("time >= 1.1", {"A": 1}, delay=2.2),
        Event("A > 0", {"B": 1}, delay=0.5),
        Event("B > 0", {"C": 1}, delay=0.25),
        Event("time >= 0.1", {"D": 1}, delay=0.7),
    ]
    times = [0, 0.8, 3.2, 3.3, 3.8, 4.05]
    result = run(dict.fromkeys("ABCD", 0), events, times, method)["amount"]
    assert result.sel(species="A").values[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert result.sel(species="B").values[0].tolist() == [0, 0, 0, 0, 1, 1]
    assert result.sel(species="C").values[0].tolist() == [0, 0, 0, 0, 0, 1]
    assert result.sel(species="D").values[0].tolist() == [0, 1, 1, 1, 1, 1]


def test_first_passage_by_an_event_is_at_its_time():
    events = [Event("time >= 1", {"A": 1}, delay=0.5)]
    result = run({"A": 0}, events, [0, 9], output="first-passage", stop="A > 0")
    assert result["passage_time"].values.tolist() == [1.5]


def test_later_than_two_is_not_two():
    """``time > 2`` is false at two and true just after, and so is what hangs on it."""
    events = [
        Event("time > 2", {"A": 1}),
        Event("time >= 2", {"B": 1}),
        Event("time > 2", {"C": 1}, delay=1),
        Event("time > 0", {"D": 1}),
    ]
    result = run(dict.fromkeys("ABCD", 0), events, [0, 2, 2.001, 3, 3.001])["amount"]
    assert result.sel(species="A").values[0].tolist() == [0, 0, 1, 1, 1]
    assert result.sel(species="B").values[0].tolist() == [0, 1, 1, 1, 1]
    assert result.sel(species="C").values[0].tolist() == [0, 0, 0, 0, 1]
    assert result.sel(species="D").values[0].tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("method", EXACT)
def test_a_chain_that_begins_just_after_a_time_stays_just_after(method):
    """0.7 + 0.1 is below 0.8: just after it is not a row early."""
    events = [
        Event("time > 0.7", {"A": 1}, delay=0.1),
        Event("A > 0", {"B": 1}, delay=0.1),
        Event("time >= 0.7", {"C": 1}, delay=0.1),
        Event("C > 0", {"D": 1}, delay=0.1),
    ]
    result = run(dict.fromkeys("ABCD", 0), events, [0, 0.7, 0.8, 0.9, 1], method)["amount"]
    assert result.sel(species="A").values[0].tolist() == [0, 0, 0, 1, 1]
    assert result.sel(species="B").values[0].tolist() == [0, 0, 0, 0, 1]
    assert result.sel(species="C").values[0].tolist() == [0, 0, 1, 1, 1]
    assert result.sel(species="D").values[0].tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("interval", [0.1, 0.7])
def test_a_long_series_of_equal_intervals_is_on_time(interval):
    """Rounding adds up in 3,000 sums: no dose comes a row late for it."""
    events = [
        # A due time that moves, and an event that sets off itself.
        Event("time >= due", {"A": "A + 1", "due": f"due + {interval}"}),
        Event("B == D", {"B": "B + 1"}, delay=interval, initially_true=False),
        Event("B > D", {"D": "B"}),
    ]
    species, count = dict.fromkeys("ABD", 0), np.arange(3001)
    amounts = run(species, events, count * interval, parameters={"due": interval})["amount"]
    for name in species:
        assert (amounts.sel(species=name).values[0] == count).all()


def test_events_that_are_due_together_but_for_rounding_keep_their_priorities():
    events = [
        Event("time >= 1.1", {"A": "10 * A"}, delay=2.2, priority=2, values_from_trigger=False),
        Event("time >= 3.3", {"A": "A + 1"}, priority=1, values_from_trigger=False),
    ]
    assert run({"A": 2}, events, [0, 3.3])["amount"].values[0, :, 0].tolist() == [2, 21]


# ---- what is assigned


def test_halves_are_refused_unless_the_modeller_says_how_to_round():
    def halved(**options):
        return run(
            {"A": 5}, [Event("time >= 1", {"A": "A / 2"}, **options)], [0, 1], replicates=4000
        )["amount"].values[:, 1, 0]

    with pytest.raises(PlanError, match=r"'A / 2' to 'A'.*rounding="):
        halved()
    assert set(halved(rounding="nearest")) == {3}
    assert set(halved(rounding="down")) == {2}
    up = (halved(rounding="stochastic") == 3).sum()
    assert up + (halved(rounding="stochastic") == 2).sum() == 4000
    assert stats.binomtest(int(up), 4000, 0.5).pvalue > LEVEL
    with pytest.raises(ModelError, match="rounding"):
        Event("time >= 1", {"A": 1}, rounding="up")
    event = [Event("time >= 1", {"A": "A / 2"})]
    assert run({"A": 5}, event, [0, 1], rounding="down")["amount"].values[0, 1, 0] == 2
    assert run({"A": 5}, event, [0, 1], "langevin")["amount"].values[0, 1, 0] == 2.5


@pytest.mark.parametrize("method", ["direct", "rejection-bounds"])
def test_partition_at_division_is_binomial(method):
    """Each of sixty molecules is kept with probability a half, and again at the next division."""
    events = [
        Event("time >= 1", {"A": "binomial(A, 0.5)", "B": "binomial(A, 0.5)"}),
        Event("time >= 2", {"A": "binomial(A, 0.5)"}),
    ]
    found = run({"A": 60, "B": 0}, events, [0, 1, 2], method, replicates=20_000)["amount"].values
    k = np.arange(61)
    for values, p in ((found[:, 1, 0], 0.5), (found[:, 1, 1], 0.5), (found[:, 2, 0], 0.25)):
        level = chi_square(np.bincount(values, minlength=61), stats.binom.pmf(k, 60, p))
        assert level > LEVEL
    # Two calls are two draws.
    r = np.corrcoef(found[:, 1, 0], found[:, 1, 1])[0, 1]
    assert abs(r) < 6 / np.sqrt(20_000)
    few = run({"A": 60, "B": 0}, events, [0, 1, 2], method, replicates=50)["amount"].values
    np.testing.assert_array_equal(few, found[:50])


def test_one_draw_for_two_by_way_of_a_parameter():
    events = [
        Event("time >= 1", {"d": "binomial(A, 0.5)"}, priority=2),
        Event("time >= 1", {"A": "d", "B": "A - d"}, priority=1, values_from_trigger=False),
        Event("time >= 2", {"B": "poisson(7)", "A": "floor(uniform(0, 10))"}),
    ]
    found = run({"A": 40, "B": 0}, events, [0, 1, 2], parameters={"d": 0}, replicates=20_000)[
        "amount"
    ].values
    assert (found[:, 1].sum(axis=1) == 40).all() and found[:, 1, 0].std() > 2
    level = chi_square(np.bincount(found[:, 2, 1]), stats.poisson.pmf(np.arange(40), 7))
    assert level > LEVEL
    assert chi_square(np.bincount(found[:, 2, 0]), np.full(10, 0.1)) > LEVEL


def test_draws_are_for_events_alone():
    for make in (
        lambda: Reaction("A -> 0", rate="binomial(A, 0.5)"),
        lambda: Event("poisson(3) > 2", {"A": 1}),
        lambda: ReactionNetwork({"A": 1}, [], rules={"r": "uniform(0, 1)"}),
    ):
        with pytest.raises(ModelError, match="only assignments of events"):
            make()
    with pytest.raises(ModelError, match="binomial takes 2"):
        Event("time >= 1", {"A": "binomial(3)"})


# ---- what follows


@pytest.mark.parametrize("method", EXACT)
def test_a_formula_of_a_parameter_follows_an_event(method):
    """k2 and k3 are from 1 on four times as large; a value given for one stays."""
    network = ReactionNetwork(
        {"X": 0, "Y": 0},
        [Reaction("0 -> X", rate_constant="k2"), Reaction("0 -> Y", rate="k3 * (1 + 0 * X)")],
        {"k": 5.0, "k2": "2 * k", "k3": "k2 + k"},
        events=[Event("time >= 1", {"k": "4 * k"})],
    )
    result = ergode.stochastic.simulate(
        network, times=[0, 1, 2], replicates=2000, seed=1, method=method, device="cpu:1"
    )["amount"].values
    for i, (before, after) in enumerate([(10, 40), (15, 60)]):
        for values, mean in ((result[:, 1, i], before), (result[:, 2, i], before + after)):
            assert abs(values.mean() - mean) < 5.5 * np.sqrt(mean / 2000)
    fixed = ergode.stochastic.simulate(
        network, times=[0, 2], replicates=2000, seed=1, method=method, device="cpu:1",
        parameters={"k2": 10.0},
    )["amount"].values[:, 1]  # fmt: skip
    assert abs(fixed[:, 0].mean() - 20) < 5.5 * np.sqrt(20 / 2000)
    assert abs(fixed[:, 1].mean() - 45) < 5.5 * np.sqrt(45 / 2000)


def test_a_compartment_does_not_follow_an_event():
    network = ReactionNetwork(
        [ergode.Species("X", 1, compartment="cell")],
        [Reaction("X -> 0", rate_constant=1.0)],
        {"k": 1.0},
        {"cell": "2 * k"},
        events=[Event("time >= 1", {"k": 2})],
    )
    with pytest.raises(PlanError, match="'cell' follows 'k'"):
        ergode.stochastic.simulate(network, times=[0, 2])


def test_initial_assignments_of_sbml_do_not_follow_an_event(tmp_path):
    network = ReactionNetwork(
        {"X": 0}, [Reaction("0 -> X", rate_constant="k2")], {"k": 5.0, "k2": "2 * k"},
        events=[Event("time >= 1", {"k": 50})],
    )  # fmt: skip
    path = tmp_path / "follows.xml"
    ergode.write_sbml(network, path)
    again = ergode.read_sbml(path)
    assert again.following == ("k2",)
    text = path.read_text().replace('formula="true"', "")
    start, end = text.index("<assignmentRule"), text.index("</assignmentRule>")
    rule = text[start:end].replace("assignmentRule", "initialAssignment")
    rule = rule.replace('variable="k2"', 'symbol="k2"')
    whole = f"<listOfInitialAssignments>{rule}</initialAssignment></listOfInitialAssignments>"
    rules_start = text.index("<listOfRules")
    rules_end = text.index("</listOfRules>") + len("</listOfRules>")
    once = ergode.read_sbml(text[:rules_start] + whole + text[rules_end:])
    assert once.parameters["k2"] == 10.0


@pytest.mark.parametrize("width", [1e-3, 1e-7])
def test_a_pulse_far_narrower_than_the_run(width):
    """A hundred firings on the average, within so little of ten thousand time units."""
    height = 100 / (width * float(np.sqrt(np.pi)))
    network = ReactionNetwork(
        {"X": 0}, [Reaction("0 -> X", rate=f"{height!r} * exp(-((time - 4321) / {width})^2)")]
    )
    result = ergode.stochastic.simulate(
        network, times=[0, 4000, 5000, 1e4], replicates=400, seed=1, device="cpu:1"
    )
    found = result["amount"].values[:, :, 0]
    assert (found[:, 1] == 0).all() and (found[:, 2] == found[:, 3]).all()
    assert abs(found[:, 2].mean() - 100) < 5.5 * np.sqrt(100 / 400)
    assert abs(found[:, 2].var() / 100 - 1) < 5.5 * np.sqrt(2 / 400)


@pytest.mark.parametrize("method", ["direct", "rejection-bounds", "hybrid", "tau-leap"])
def test_events_of_equal_priority_run_in_random_order(method):
    """SBML asks for it (case 01627 of its test suite); X tells the order of a, b and c."""
    events = [
        Event("time >= 1", {"X": f"4 * X + {k}"}, priority="n / n", values_from_trigger=False)
        for k in (1, 2, 3)
    ]
    network = ReactionNetwork(
        {"X": 0}, [Reaction("X -> 0", rate_constant=0.0)], {"n": 7.0},
        events=[Event("time >= 1", {"X": 0}, priority=2.0), *events],
    )  # fmt: skip
    options = {"times": [0, 2], "replicates": 6000, "seed": 5, "output": "final", "method": method}
    found = ergode.stochastic.simulate(network, device="cpu:2", **options)
    orders, counts = np.unique(found["amount"].values[:, 0], return_counts=True)
    expected = [16 * a + 4 * b + c for a, b, c in itertools.permutations((1, 2, 3))]
    assert orders.tolist() == sorted(expected)
    assert stats.chisquare(counts).pvalue > 1e-7
    alone = ergode.stochastic.simulate(network, device="cpu:1", **options)
    np.testing.assert_array_equal(alone["amount"], found["amount"])
    # Without a priority they run as they are listed.
    listed = ReactionNetwork(
        network.species, list(network.reactions), network.parameters,
        events=[replace(one, priority=None) for one in events],
    )  # fmt: skip
    found = ergode.stochastic.simulate(listed, device="cpu:2", **options)
    assert (found["amount"] == 27).all()


def test_of_events_without_a_priority_the_one_listed_first_runs_first():
    """The third becomes due with the first, before the second has run; its value is of then."""
    network = ReactionNetwork(
        {"X": 1, "Y": 0}, [Reaction("X -> X", rate_constant=1e-9)],
        events=[
            Event("time >= 1", {"Y": 1}), Event("time >= 1", {"X": "X + 10"}),
            Event("Y > 0", {"X": "X + 100"}),
        ],
    )  # fmt: skip
    found = ergode.stochastic.simulate(network, times=[0, 2], replicates=2, method="direct")
    assert (found["amount"].sel(species="X", time=2) == 101).all()


@pytest.mark.parametrize("law", ["0.08 * A", "0.08 * A * c"])
def test_an_event_after_a_firing_sets_continuous_variables(law):
    """Whether or not the firing changes a propensity that follows them."""
    network = ReactionNetwork(
        {"A": 1, "B": 0, "Z": 0},
        [
            Reaction("-> A", rate_constant=15.0), Reaction("A ->", rate_constant=3.5),
            Reaction("A -> B", rate=law),
        ],
        {"c": 0.8}, rate_rules={"c": "0.35"},
        events=[Event("A > 2", {"c": "c + 1", "Z": "Z + 1"})],
    )  # fmt: skip
    found = ergode.stochastic.simulate(
        network, times=[0, 0.3, 0.6], replicates=400, method="hybrid"
    )
    times = found["amount"].sel(species="Z")
    assert times.max() > 2
    jumped = found["value"].sel(rule="c") - 0.8 - 0.35 * found["time"]
    np.testing.assert_allclose(jumped, times, atol=1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["direct", "warp-direct"])
def test_a_device_runs_events_of_equal_priority_in_the_same_order(method):
    events = [
        Event("time >= 1", {"X": f"4 * X + {k}"}, priority=1.0, values_from_trigger=False)
        for k in (1, 2, 3)
    ]
    network = ReactionNetwork({"X": 0}, [Reaction("X -> 0", rate_constant=0.0)], events=events)
    options = {"times": [0, 2], "replicates": 600, "seed": 5, "output": "final", "method": method}
    cpu, gpu = on_both(ergode.stochastic.simulate, network, **options)
    np.testing.assert_array_equal(cpu["amount"], gpu["amount"])
