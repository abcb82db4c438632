"""What a user calls: outputs that agree with each other, and errors at the door."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

TIMES = np.arange(0, 61.0)


def test_counts_conserve_nodes_and_never_return(counts, contacts):
    count = counts["count"]
    assert (count.sum("compartment") == contacts.node_count).all()
    assert (count.sel(compartment="S").diff("time") <= 0).all()
    assert (count.sel(compartment="R").diff("time") >= 0).all()
    assert (count.isel(time=0).sel(compartment="I") == 5).all()
    assert (counts["status"] == 0).all()


def test_attributes_tell_where_a_result_comes_from(counts, model, contacts):
    attrs = counts.attrs
    assert attrs["method"] == "first-passage" and "exact" in attrs["method_reason"]
    assert attrs["model_digest"] == model.digest
    assert attrs["network_digest"] == contacts.digest
    assert attrs["seed"] == "1" and attrs["device"] == "cpu" and attrs["precision"] == "float32"
    assert attrs["expansions"] > 0 and attrs["passes"] > 0 and attrs["wall_seconds"] > 0


def test_statistics_are_those_of_the_counts(counts, model, contacts):
    statistics = simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cpu",
        output="statistics", quantiles=(0.1, 0.5, 1.0),
    )  # fmt: skip
    count = counts["count"]
    np.testing.assert_allclose(statistics["mean"], count.mean("replicate"), rtol=1e-12)
    np.testing.assert_allclose(
        statistics["variance"], count.var("replicate", ddof=1), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        statistics["quantile"], count.quantile([0.1, 0.5, 1.0], "replicate"), rtol=1e-12
    )


def test_counts_at_a_time_do_not_depend_on_the_grid(counts, model, contacts):
    # Uneven, so that the first guess at a grid index is often wrong.
    grid = np.array([0.0, 0.5, 1.0, 2.0, 30.0, 31.0, 60.0])
    other = simulate(
        model, contacts, initial={"I": 5}, times=grid, replicates=12, seed=1, device="cpu"
    )
    shared = [0.0, 1.0, 2.0, 30.0, 31.0, 60.0]
    np.testing.assert_array_equal(other["count"].sel(time=shared), counts["count"].sel(time=shared))


def test_time_is_counted_from_the_first_time(counts, model, contacts):
    later = simulate(
        model, contacts, initial={"I": 5}, times=np.arange(100, 161), replicates=2, seed=1,
        device="cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(later["count"], counts["count"].isel(replicate=[0, 1]))
    assert later["time"][0] == 100


def test_a_single_time_is_the_start(model, contacts):
    counts = simulate(model, contacts, initial={"I": 5}, times=[3.0], device="cpu")
    assert counts["count"].sel(compartment="I").item() == 5
    assert counts["count"].sel(compartment="S").item() == contacts.node_count - 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": {"X": 1}}, "unknown compartment 'X'"),
        ({"initial": {"I": 501}}, "501 nodes; expected 0 to 500"),
        ({"initial": {"I": [500]}}, "node 500, but node ids are 0 to 499"),
        ({"times": [0, 2, 1]}, "times must ascend"),
        ({"times": [0, np.nan]}, r"times\[1\] is nan"),
        ({"times": []}, "not empty"),
        ({"replicates": 0}, "replicates is 0"),
        ({"replicates": 2.5}, "replicates is 2.5; expected an integer"),
        ({"seed": -1}, "seed is -1"),
        ({"method": "leap"}, "method 'leap' is unknown"),
        ({"device": "tpu"}, "device 'tpu' is unknown"),
        ({"output": "all"}, "output 'all' is unknown"),
        ({"output": "statistics", "quantiles": [2.0]}, "between 0 and 1"),
        ({"precision": "half"}, "precision 'half' is unknown"),
    ],
)
def test_bad_input_is_an_error_that_names_it(model, contacts, change, message):
    good = {"initial": {"I": 5}, "times": TIMES, "device": "cpu"}
    with pytest.raises(ergode.ErgodeError, match=message):
        simulate(model, contacts, **(good | change))


def test_models_that_the_method_cannot_run_are_refused(contacts):
    recurrent = ergode.CompartmentModel.sis(
        transmission_rate=0.2, infectious=ergode.Exponential(mean=5)
    )
    with pytest.raises(ergode.PlanError, match="susceptible again"):
        simulate(
            recurrent, contacts, initial={"I": 5}, times=TIMES, device="cpu",
            method="first-passage",
        )  # fmt: skip
    with pytest.raises(ergode.ModelError, match="expected a ContactNetwork"):
        simulate(recurrent, "contacts", initial={"I": 5}, times=TIMES)
    with pytest.raises(ergode.ModelError, match="expected a CompartmentModel"):
        simulate("model", contacts, initial={"I": 5}, times=TIMES)


def test_a_missing_attribute_is_named(model, contacts):
    needy = ergode.CompartmentModel(
        model.compartments, model.infections, model.progressions, susceptibility="age"
    )
    with pytest.raises(ergode.ModelError, match="no node attribute 'age'"):
        simulate(needy, contacts, initial={"I": 5}, times=TIMES, device="cpu")


def test_counts_that_cannot_fit_are_refused_before_anything_is_run(model, contacts):
    with pytest.raises(ergode.PlanError, match="GB"):
        simulate(
            model, contacts, initial={"I": 5}, times=np.arange(1e5), replicates=10**8, device="cpu"
        )


def test_an_interruption_keeps_what_was_computed(model, contacts, monkeypatch):
    from ergode.epidemics.first_passage.runner import FirstPassageEnsemble

    run = FirstPassageEnsemble.run

    def interrupted(self, first, count):
        if first >= 4:
            raise KeyboardInterrupt
        return run(self, first, count)

    monkeypatch.setattr(FirstPassageEnsemble, "run", interrupted)
    monkeypatch.setattr(FirstPassageEnsemble, "chunk_size", lambda self, replicates: 2)
    with pytest.warns(RuntimeWarning, match="4 of 12 replicates"):
        partial = simulate(
            model, contacts, initial={"I": 5}, times=TIMES, replicates=12, seed=1, device="cpu"
        )
    assert partial.sizes["replicate"] == 4 and partial.attrs["interrupted"] == 1
    whole = simulate(
        model, contacts, initial={"I": 5}, times=TIMES, replicates=4, seed=1, device="cpu"
    )
    np.testing.assert_array_equal(partial["count"], whole["count"])


@pytest.mark.parametrize("output", ["counts", "line_list"])
@pytest.mark.parametrize("method", ["first-passage", "sellke", "renewal-leap"])
def test_what_is_done_of_a_chunk_is_kept(method, output, model, contacts, monkeypatch):
    """Replicates are done in no order: those before the first that is not are results."""
    if method == "renewal-leap" and output == "line_list":
        pytest.skip("it lists nobody")
    if method == "sellke":  # the kernels of tests of the queue of events and of windows
        model = ergode.CompartmentModel.sir(
            transmission_rate=0.1, infectious=ergode.Exponential(mean=5)
        )
    if (method, output) == ("sellke", "line_list"):
        source, target = contacts.edges()
        contacts = ergode.ContactNetwork.from_edges(
            source, target, contacts.node_count, weights=np.ones(source.size)
        )
    cpu = type(ergode.core.devices.resolve("cpu:1"))
    run = cpu.run

    def interrupted(self, kernel, count, *arguments, first=0, finished=None, **options):
        if count != 8:
            return run(self, kernel, count, *arguments, finished=finished, **options)
        for start, number in ((4, 1), (0, 2), (2, 1)):
            run(self, kernel, number, *arguments, first=start, finished=finished)
        raise KeyboardInterrupt

    options = {"initial": {"I": 5}, "times": TIMES, "seed": 1, "method": method, "output": output}
    whole = simulate(model, contacts, replicates=3, device="cpu:1", **options)
    monkeypatch.setattr(cpu, "run", interrupted)
    with pytest.warns(ergode.InterruptionWarning, match="3 of 8 replicates"):
        partial = simulate(model, contacts, replicates=8, device="cpu:1", **options)
    for name in whole.data_vars:
        np.testing.assert_array_equal(partial[name], whole[name])


@pytest.mark.cuda
def test_cuda_gives_the_same_dataset(counts, model, contacts):
    there = simulate(
        model, contacts, initial={"I": 5}, times=range(61), replicates=12, seed=1, device="cuda"
    )
    np.testing.assert_array_equal(there["count"], counts["count"])
    options = {"initial": {"I": 5}, "times": range(61), "replicates": 3, "output": "line_list"}
    cases = [simulate(model, contacts, device=device, **options) for device in ("cpu", "cuda")]
    for name in cases[0].data_vars:
        np.testing.assert_array_equal(cases[0][name], cases[1][name])


def test_a_way_out_of_susceptibility_other_than_infection_is_refused(contacts):
    vaccinated = ergode.CompartmentModel(
        ["S", "I", "V"],
        [ergode.Infection("S", "I", {"I": 1.0})],
        [ergode.Progression("S", "V", ergode.Exponential(mean=0.01))],
    )
    with pytest.raises(ergode.PlanError, match="leave 'S' without being infected"):
        simulate(
            vaccinated, contacts, initial={"I": 1}, times=TIMES, device="cpu",
            method="first-passage",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "rate", "mean", "message"),
    [
        ([0, 1e300], 0.2, 5.0, "from the first of times to the last"),
        ([0, 1], 1e39, 5.0, "transmission rate of 'I'"),
        ([0, 1], 0.2, 1e-40, "below the range of float32"),
        ([0, 1], 0.2, 1e40, "holding time of 'I'"),
    ],
)
def test_what_the_precision_cannot_hold_is_refused(contacts, times, rate, mean, message):
    extreme = ergode.CompartmentModel.sir(
        transmission_rate=rate, infectious=ergode.Deterministic(mean)
    )
    with pytest.raises(ergode.ModelError, match=message):
        simulate(extreme, contacts, initial={"I": 1}, times=times, device="cpu")


@pytest.mark.parametrize("rate", [1e20, 1e37])
def test_a_rate_beyond_the_resolution_of_time_infects_at_once(model, contacts, rate):
    fast = ergode.CompartmentModel.seir(
        transmission_rate=rate,
        latent=ergode.LogNormal(mean=5, median=4),
        infectious=ergode.LogNormal(mean=7.5, median=5),
    )
    counts = simulate(fast, contacts, initial={"I": 1}, times=[0, 1e-3, 500], device="cpu")
    neighbours = counts["count"].sel(compartment="E").values[0, 1]
    assert neighbours == contacts.degrees()[_seed_of(fast, contacts)]
    assert counts["count"].sel(compartment="R").values[0, 2] >= contacts.node_count - 5


def _seed_of(model, contacts):
    cases = simulate(
        model, contacts, initial={"I": 1}, times=[0, 1], device="cpu", output="line_list"
    )
    return int(cases["node"].values[cases["infector"].values < 0][0])


def test_a_fraction_that_rounds_to_no_node_is_pointed_out(model, contacts):
    with pytest.warns(RuntimeWarning, match="rounds to no node"):
        simulate(model, contacts, initial={"I": 1e-4}, times=TIMES, device="cpu")


def test_the_model_is_kept_with_the_result(counts, model):
    import json

    assert json.loads(counts.attrs["model"]) == model.to_dict()


def test_cases_carry_the_names_of_nodes(model):
    import networkx

    named = ergode.ContactNetwork.from_networkx(networkx.Graph([("ann", "bob"), ("bob", "eve")]))
    cases = simulate(
        model, named, initial={"I": named.nodes_named(["bob"])}, times=[0, 1e3], seed=3,
        device="cpu", output="line_list",
    )  # fmt: skip
    assert cases["node_name"].values[cases["infector"].values < 0].tolist() == ["bob"]
    assert "node_name" in ergode.epidemics.case_table(cases)


def test_results_of_another_kind_are_refused(counts):
    with pytest.raises(ergode.ModelError, match="line_list"):
        ergode.epidemics.reproduction_number(counts)
