"""Sweeps: dims, names, messages, and what an interruption leaves."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import reproduction_number, simulate, summary
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.first_passage.runner import FirstPassageEnsemble
from ergode.epidemics.gillespie import JumpEnsemble

COMMON = {"times": range(0, 61, 5), "replicates": 3, "seed": 1, "device": "cpu"}


def sir(rate, stay=7.5):
    return ergode.CompartmentModel.sir(
        transmission_rate=rate, infectious=ergode.Exponential(mean=stay)
    )


def some(seeds):
    return {"I": seeds}


def test_arrays_run_side_by_side(contacts):
    found = simulate(
        sir, contacts, parameters={"rate": [0.1, 0.3], "seeds": [3, 9]}, initial=some, **COMMON
    )
    assert found["count"].dims == ("point", "replicate", "time", "compartment")
    assert found["cases"].dims == ("point", "replicate", "time")
    assert found["rate"].dims == ("point",) and found["seeds"].values.tolist() == [3, 9]
    assert (found["cases"].isel(time=0).values == [[3], [9]]).all()
    assert found.attrs["replicates"] == 3
    own = simulate(sir(0.3), contacts, initial={"I": 9}, **COMMON)
    np.testing.assert_array_equal(found["count"][1], own["count"])


def test_a_grid_has_a_dim_for_each_array(contacts):
    parameters = ergode.grid(stay=[6.0, 7.5, 9.0], rate=[0.1, 0.3], seeds=4)
    found = simulate(
        sir, contacts, parameters=parameters, initial=some, output="statistics", **COMMON
    )
    assert found["mean"].dims == ("stay", "rate", "time", "compartment")
    assert found["quantile"].dims == ("stay", "rate", "level", "time", "compartment")
    assert found["status"].dims == ("stay", "rate", "replicate")
    assert float(found["seeds"]) == 4
    own = simulate(sir(0.1, 9.0), contacts, initial={"I": 4}, output="statistics", **COMMON)
    np.testing.assert_array_equal(found["mean"].sel(stay=9.0, rate=0.1), own["mean"])


def random_network(network, count=1000):
    edges = ergode.ContactNetwork.erdos_renyi(count, mean_degree=8, seed=network).edges()
    return ergode.ContactNetwork.from_edges(*edges[:2], node_count=count)


def test_networks_are_swept(contacts):
    """Each point equals a call for its network; a network is made once."""
    made = []

    def network(network):
        made.append(network)
        return random_network(network, contacts.node_count)

    parameters = ergode.grid(network=[3, 4], rate=[0.1, 0.3])
    found = simulate(sir, network, parameters=parameters, initial={"I": 5}, **COMMON)
    assert found["count"].dims == ("network", "rate", "replicate", "time", "compartment")
    assert made == [3, 4] and len(found.attrs["network_digest"].split(",")) == 2
    for seed in (3, 4):
        alone = network(seed)
        own = simulate(sir(0.3), alone, initial={"I": 5}, **COMMON)
        assert own.attrs["network_digest"] == alone.digest
        for name in ("count", "cases"):
            np.testing.assert_array_equal(found[name].sel(network=seed, rate=0.3), own[name])
    pairs = {"network": [3, 4, 3], "rate": 0.3}
    again = simulate(sir, network, parameters=pairs, initial={"I": 5}, output="statistics",
                     **COMMON)  # fmt: skip
    mean = found["count"].sel(rate=0.3).mean("replicate")
    np.testing.assert_allclose(again["mean"][[2, 1]], mean)


def test_networks_of_points_have_the_same_nodes():
    def network(nodes):
        return random_network(1, nodes)

    with pytest.raises(ergode.ModelError, match="nodes=200: contacts has 200 nodes.*100 nodes"):
        simulate(sir(0.3), network, parameters={"nodes": [100, 200]}, initial={"I": 5}, **COMMON)
    with pytest.raises(ergode.ModelError, match="contacts is int"):
        simulate(
            sir(0.3), lambda nodes: nodes, parameters={"nodes": [1, 2]}, initial={"I": 5}, **COMMON
        )


def test_numbers_alone_are_no_sweep(contacts):
    found = simulate(sir, contacts, parameters={"rate": 0.3}, initial={"I": 5}, **COMMON)
    own = simulate(sir(0.3), contacts, initial={"I": 5}, **COMMON)
    assert found["count"].dims == own["count"].dims and float(found["rate"]) == 0.3
    assert found.attrs["model_digest"] == own.attrs["model_digest"]
    np.testing.assert_array_equal(found["count"], own["count"])


def test_a_line_list_names_the_point(contacts):
    parameters = ergode.grid(rate=[0.1, 0.3], stay=[6.0, 9.0])
    cases = simulate(
        sir, contacts, parameters=parameters, initial={"I": 5}, output="line_list", **COMMON
    )
    third = cases.isel(case=cases["point"].values == 2)
    assert set(third["rate"].values) == {0.3} and set(third["stay"].values) == {6.0}
    own = simulate(sir(0.3, 6.0), contacts, initial={"I": 5}, output="line_list", **COMMON)
    for name in own.data_vars:
        np.testing.assert_array_equal(third[name], own[name])
    assert "point" not in own
    np.testing.assert_array_equal(
        reproduction_number(third)["secondary_cases"], reproduction_number(own)["secondary_cases"]
    )
    with pytest.raises(ergode.ModelError, match="choose one point"):
        reproduction_number(cases)


def test_a_sweep_has_one_method_and_one_precision(contacts):
    """Each is what the most demanding point needs."""

    def model(back, stay):
        return ergode.CompartmentModel(
            ["S", "I", "R"],
            [ergode.Infection("S", "I", {"I": 0.2})],
            [ergode.Progression("I", {"S": back, "R": 1 - back}, ergode.Exponential(mean=stay))],
        )

    found = simulate(
        model, contacts, parameters={"back": [0.0, 0.5], "stay": [5.0, 1e-4]}, initial={"I": 5},
        **COMMON,
    )  # fmt: skip
    assert found.attrs["method"] == "sellke" and found.attrs["precision"] == "float64"
    for point, (back, stay) in enumerate([(0.0, 5.0), (0.5, 1e-4)]):
        own = simulate(
            model(back, stay), contacts, initial={"I": 5}, method="sellke", precision="float64",
            **COMMON,
        )  # fmt: skip
        np.testing.assert_array_equal(found["count"][point], own["count"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"rat": 0.3}}, "has 'rat', which the function does not.*did you mean"),
        ({"parameters": {"stay": 5.0}}, "no value for 'rate'"),
        ({"parameters": None}, "no value for 'rate'"),
        ({"parameters": {"rate": [0.1, 0.2], "stay": [6.0, 7.0, 8.0]}}, "3 values"),
        ({"parameters": {"rate": [0.1, -1.0]}}, "at the point rate=-1: transmission rate"),
        ({"parameters": [0.1]}, "parameters is list"),
        ({"parameters": {"rate": [0.1, np.nan]}}, "expected finite numbers"),
        ({"model": lambda rate: rate}, "returns float; expected a CompartmentModel"),
        ({"model": lambda rate: 1 / (rate - 0.1)}, "at the point rate=0.1: ZeroDivisionError"),
        ({"model": lambda *rates: 1}, "takes '\\*rates'"),
        ({"model": sir(0.1)}, "no argument is a function"),
        (
            {"model": lambda time: sir(time), "parameters": {"time": 0.1}},
            "'time' cannot label the result",
        ),
        ({"initial": lambda rate: 7}, "returns int; expected a mapping"),
        (
            {"initial": lambda n: {"I": n}, "parameters": {"rate": 0.1, "n": [1, 10**6]}},
            "at the point rate=0.1, n=1e\\+06: initial",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(contacts, changes, message):
    given = {"model": sir, "parameters": {"rate": [0.1, 0.2]}, "initial": {"I": 5}} | changes
    with pytest.raises(ergode.ModelError, match=message) as caught:
        simulate(given.pop("model"), contacts, **given, **COMMON)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("first-passage", FirstPassageEnsemble), ("sellke", EventEnsemble),
        ("gillespie", JumpEnsemble),
    ],
)  # fmt: skip
def test_points_of_an_exact_method_are_one_launch(contacts, monkeypatch, method, kind):
    def model(rate):
        return ergode.CompartmentModel.sir(
            transmission_rate=rate, infectious=ergode.Exponential(mean=5)
        )

    run, launched = kind.run, []

    def counted(self, first, count):
        launched.append(count)
        return run(self, first, count)

    monkeypatch.setattr(kind, "run", counted)
    parameters = {"rate": [0.1, 0.2, 0.3], "seeds": [3, 5, 3]}
    found = simulate(model, contacts, parameters=parameters, initial=some, method=method, **COMMON)
    assert launched == [9]
    own = simulate(model(0.2), contacts, initial={"I": 5}, method=method, **COMMON)
    np.testing.assert_array_equal(found["count"][1], own["count"])


@pytest.mark.parametrize("method", ["first-passage", "sellke"])
def test_a_point_that_cannot_be_is_told_before_any_runs(contacts, monkeypatch, method):
    def never(self, first, count):
        raise AssertionError("it runs")

    for kind in (FirstPassageEnsemble, EventEnsemble):
        monkeypatch.setattr(kind, "run", never)
    for parameters in ({"rate": [0.1, 1e39], "n": 5}, {"rate": 0.1, "n": [5, 10**6]}):
        with pytest.raises(
            ergode.ModelError, match=r"at the point rate=(1e\+39|0.1), n=(5|1e\+06):"
        ):
            simulate(
                sir, contacts, parameters=parameters, initial=lambda n: {"I": n}, method=method,
                precision="float32", **COMMON,
            )  # fmt: skip


def test_points_differ_in_numbers_alone(contacts):
    def model(kind):
        law = ergode.Exponential(mean=5) if kind else ergode.Deterministic(5)
        return ergode.CompartmentModel.sir(transmission_rate=0.1, infectious=law)

    with pytest.raises(ergode.ModelError, match="at the point kind=0: families of holding times"):
        simulate(model, contacts, parameters={"kind": [1, 0]}, initial={"I": 5}, **COMMON)


def test_an_interrupted_sweep_keeps_what_was_finished(contacts, monkeypatch):
    parameters = {"rate": [0.1, 0.2, 0.3]}
    whole = simulate(sir, contacts, parameters=parameters, initial={"I": 5}, **COMMON)
    run, chunks = FirstPassageEnsemble.run, []

    def interrupted(self, first, count):
        if len(chunks) == 4:
            raise KeyboardInterrupt
        chunks.append(count)
        return run(self, first, count)

    monkeypatch.setattr(FirstPassageEnsemble, "run", interrupted)
    monkeypatch.setattr(FirstPassageEnsemble, "chunk_size", lambda self, rows: 1)
    with pytest.warns(ergode.InterruptionWarning, match="4 of 9 replicates"):
        partial = simulate(sir, contacts, parameters=parameters, initial={"I": 5}, **COMMON)
    assert partial["status"].values.tolist() == [[0, 0, 0], [0, 2, 2], [2, 2, 2]]
    np.testing.assert_array_equal(partial["count"][0], whole["count"][0])
    np.testing.assert_array_equal(partial["count"][1, 0], whole["count"][1, 0])
    assert np.isnan(partial["count"][1, 1:]).all() and np.isnan(partial["cases"][2]).all()
    told = summary(partial)
    assert np.isnan(told["attack_rate"][2]).all() and np.isnan(told["peak_time"][2]).all()
    np.testing.assert_array_equal(told["peak_count"][0], summary(whole)["peak_count"][0])
    chunks.clear()
    with pytest.warns(ergode.InterruptionWarning):
        mean = simulate(
            sir, contacts, parameters=parameters, initial={"I": 5}, output="statistics", **COMMON
        )["mean"]
    np.testing.assert_array_equal(mean[0], whole["count"][0].mean("replicate"))
    np.testing.assert_array_equal(mean[1], whole["count"][1, 0])
    assert np.isnan(mean[2]).all()


def test_curves_are_of_one_point(contacts):
    found = simulate(sir, contacts, parameters={"rate": [0.1, 0.3]}, initial={"I": 5}, **COMMON)
    with pytest.raises(ergode.PlanError, match="choose one point"):
        ergode.plots.epidemic_curves(found)
    assert ergode.plots.epidemic_curves(found.isel(point=0)).lines
