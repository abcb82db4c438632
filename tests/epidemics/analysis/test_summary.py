"""Attack rates and peaks of counts, also where a node may be infected several times."""

import numpy as np
import pytest
import xarray

import ergode
from ergode import ModelError
from ergode.epidemics import simulate, summary

NODES = 400
PAIRS = ergode.ContactNetwork.from_edges(np.arange(0, NODES, 2), np.arange(1, NODES, 2))
SIS = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=ergode.Exponential(mean=4))


def run(model, times=(0.0, 1.0, 5.0), **options):
    return simulate(model, PAIRS, times=times, replicates=50, seed=2, device="cpu", **options)


def test_summary_and_incidence(counts, contacts):
    found = summary(counts)
    infectious = counts["count"].sel(compartment="I").values
    np.testing.assert_array_equal(found["peak_count"], infectious.max(axis=1))
    np.testing.assert_array_equal(
        found["peak_time"], counts["time"].values[infectious.argmax(axis=1)]
    )
    incidence = ergode.epidemics.incidence(counts)
    total = incidence.sum("interval") + 5
    np.testing.assert_allclose(total / contacts.node_count, found["attack_rate"])


def test_costs_are_counts_times_prices():
    """Of made-up counts: what lasts costs by the trapezoidal rule."""
    labels = [f"interventions[{k}] {what}" for k in range(2) for what in ("tests", "isolated")]
    values = np.array([[0, 0, 1, 2], [3, 4, 2, 2], [5, 0, 2, 6]])
    made = xarray.Dataset(
        {"measures": (("replicate", "time", "tally"), values[None])},
        {"time": [0.0, 1.0, 3.0], "tally": labels},
    )
    prices = {"tests": 10.0, "interventions[1] isolated": 0.5, "isolated": 1.0}
    found = ergode.epidemics.cost(made, prices)
    assert found.sel(item="tests").values.tolist() == [[10.0, 50.0, 70.0]]
    assert found.sel(item="interventions[1] isolated").values.tolist() == [[0.0, 1.0, 5.0]]
    assert found.sel(item="isolated").values.tolist() == [[0.0, 4.0, 16.0]]
    for wrong, said in [({"test": 1.0}, "price of 'test', but"), ({}, "empty"),
                        ({"tests": np.nan}, "is nan")]:  # fmt: skip
        with pytest.raises(ModelError, match=said):
            ergode.epidemics.cost(made, wrong)
    with pytest.raises(ModelError, match="no measures"):
        ergode.epidemics.cost(made.drop_vars("measures"), prices)


def test_nodes_that_stand_for_people(counts):
    people = ergode.epidemics.as_people(counts, 20)
    np.testing.assert_array_equal(people["count"], 20 * counts["count"])
    np.testing.assert_allclose(summary(people)["peak_count"], 20 * summary(counts)["peak_count"])
    for wrong in (0, -1.0, np.inf, "many"):
        with pytest.raises(ModelError, match="per_node is"):
            ergode.epidemics.as_people(counts, wrong)


def test_of_counts_that_are_in_a_store(counts):
    pytest.importorskip("dask")
    for analysis in (summary, ergode.epidemics.incidence):
        xarray.testing.assert_identical(analysis(counts.chunk()).compute(), analysis(counts))


def test_line_lists_have_no_incidence(contacts, model):
    cases = simulate(
        model, contacts, initial={"I": 5}, times=[0, 5.0], output="line_list", device="cpu"
    )
    with pytest.raises(ModelError, match="expected a Dataset from simulate"):
        ergode.epidemics.incidence(cases)


def test_peaks_of_any_compartment_and_of_all_strata_together(counts):
    found = summary(counts, ["I", "R"])
    inside = counts["count"].sel(compartment=["I", "R"]).sum("compartment").values
    np.testing.assert_array_equal(found["peak_count"], inside.max(axis=1))
    grouped = PAIRS.with_attributes(half=np.arange(NODES) % 2)
    options = {
        "initial": {"I": 20}, "times": [0.0, 1.0, 5.0], "replicates": 5, "seed": 1,
        "method": "gillespie", "device": "cpu",
    }  # fmt: skip
    split = simulate(SIS, grouped, strata="half", **options)
    whole = simulate(SIS, grouped, **options)
    total = summary(split.sum("stratum", keep_attrs=True), "S")
    np.testing.assert_array_equal(total["peak_count"], summary(whole, "S")["peak_count"])
    xarray.testing.assert_equal(
        summary(counts.isel(replicate=0)), summary(counts).isel(replicate=0)
    )
    for said, given in (
        ("unknown compartment 'H'", lambda: summary(counts, "H")),
        ("keep_attrs", lambda: summary(counts.drop_attrs())),
    ):
        with pytest.raises(ModelError, match=said):
            given()


def two_classes(rate):
    return ergode.CompartmentModel(
        ["S1", "S2", "I", "R"],
        [ergode.Infection("S1", "I", {"I": rate}), ergode.Infection("S2", "I", {"I": rate})],
        [ergode.Progression("I", "R", ergode.Exponential(mean=3.0))],
    )


def test_attack_rates_count_every_susceptible_compartment():
    counts = run(two_classes(0.4), initial={"S2": 200, "I": 4}, method="gillespie")
    found = summary(counts)
    assert counts.attrs["susceptible"] == "S1,S2"
    np.testing.assert_allclose(found["attack_rate"] * NODES, counts["cases"].isel(time=-1))
    quiet = run(two_classes(0.0), initial={"S2": 200}, method="gillespie")
    assert (summary(quiet)["attack_rate"] == 0.0).all()
    assert (summary(quiet)["peak_count"] == 0).all()


def test_recurrent_models_have_no_attack_rate():
    found = summary(run(SIS, initial={"I": 20}, method="gillespie"))
    assert found["attack_rate"].isnull().all()
    assert (found["cases"] >= 20).all()


def test_several_strains_have_one():
    strains = ergode.CompartmentModel.two_strains(
        transmission_rate=[0.5, 0.5], infectious=[ergode.Exponential(mean=3.0)] * 2,
        cross_susceptibility=[[0.0, 1.0], [1.0, 0.0]],
    )  # fmt: skip
    counts = run(strains, initial={"I1": 40, "I2": 40}, method="gillespie", times=[0, 30.0])
    never = counts["count"].isel(time=-1).sel(compartment="S")
    np.testing.assert_allclose(summary(counts)["attack_rate"], 1 - never / NODES)
    assert (counts["cases"].isel(time=-1) > NODES - never).any()


@pytest.mark.parametrize(
    "analysis", [summary, ergode.epidemics.fatality_ratio, ergode.epidemics.person_time]
)
def test_a_compartment_is_counted_once(counts, analysis):
    assert analysis(counts, ["R"]).equals(analysis(counts, "R"))
    with pytest.raises(ModelError, match="compartment has 'R' twice; expected it once"):
        analysis(counts, ["R", "R"])
