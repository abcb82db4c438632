"""Names of measures: in counts, costs, tables and messages, and nowhere in the epidemic."""

from dataclasses import replace

import numpy as np
import pytest

import ergode
from ergode.epidemics import cost, measure_table, simulate

MODEL = ergode.CompartmentModel.sir(transmission_rate=0.1, infectious=ergode.Gamma(mean=7, sd=3))
PEOPLE = ergode.ContactNetwork.erdos_renyi(300, mean_degree=8, seed=1)
CLINICS = ergode.Testing({"I": 0.9}, rate=0.1, delay=1, isolation=10, tracing=0.5)
MASKS = ergode.LayerClosure(reduction=0.2, start=10)
CENTRES = ergode.Testing({"I": 0.9}, rate=0.05, delay=1, isolation=10)
NAMED = replace(CLINICS, name="clinics"), MASKS, replace(CENTRES, name="test centres")


def run(measures, **options):
    given = {"times": range(31), "replicates": 6, "seed": 2, "device": "cpu"}
    given |= {"method": "sellke", "include": "measures", "initial": {"I": 10}}
    return simulate(MODEL, PEOPLE, interventions=measures, **given | options)


def test_a_name_is_a_label_and_changes_nothing_else():
    plain, named = run([CLINICS, MASKS, CENTRES]), run(NAMED)
    of = {"interventions[0] ": "clinics: ", "interventions[2] ": "test centres: "}
    labels = plain["tally"].values.tolist()
    assert "interventions[1] in force" in labels
    for old, new in of.items():
        labels = [one.replace(old, new) for one in labels]
    assert named["tally"].values.tolist() == labels
    for name in plain.data_vars:
        np.testing.assert_array_equal(plain[name].values, named[name].values, name)
    mean = run(NAMED, output="statistics")["measures_mean"].sel(tally="clinics: tests", time=30)
    assert float(mean) == float(named["measures"].sel(tally="clinics: tests", time=30).mean())


def test_costs_of_a_named_measure():
    found = run(NAMED)
    prices = {"tests": 2.0, "clinics: tests": 3.0, "test centres: isolated": 0.5}
    spent = cost(found, prices)
    tests = [found["measures"].sel(tally=f"{one}: tests") for one in ("clinics", "test centres")]
    np.testing.assert_array_equal(spent.sel(item="tests"), 2.0 * (tests[0] + tests[1]))
    np.testing.assert_array_equal(spent.sel(item="clinics: tests"), 3.0 * tests[0])
    with pytest.raises(ergode.ModelError, match="did you mean 'clinics: tests'"):
        cost(found, {"clinic: tests": 1.0})


def test_a_table_of_events_has_the_names():
    cases = run(NAMED, output="line_list")
    table = measure_table(cases)
    assert set(zip(table["measure"], table["measure_name"], strict=True)) == {
        (0, "clinics"), (2, "test centres")
    }  # fmt: skip
    # A measure without a name has none, and without any there is no such column.
    plain = measure_table(
        run([replace(CLINICS, name="clinics"), MASKS, CENTRES], output="line_list")
    )
    assert plain["measure_name"].isna().equals(plain["measure"] == 2)
    bare = measure_table(run([CLINICS, MASKS, CENTRES], output="line_list"))
    assert bare.equals(table.drop(columns="measure_name"))


def test_scenarios_are_compared_by_names():
    """Wherever a measure stands."""
    first, second = run(NAMED), run(NAMED[::-1])
    found = ergode.compare(first, {"the other way": second})
    named = [one.name for one in NAMED if one.name]
    assert {str(one).partition(":")[0] for one in found["tally"].values} >= {*named}
    one, other = (each["measures"].sel(tally="clinics: tests") for each in (first, second))
    np.testing.assert_allclose(
        found["measures"].sel(tally="clinics: tests", scenario="the other way"),
        (other - one).mean("replicate"),
    )


def test_layers_with_a_colon():
    layers = ergode.ContactNetwork.from_layers({"at: home": PEOPLE})
    given = {"times": [0, 20], "replicates": 2, "seed": 2, "device": "cpu", "initial": {"I": 10}}
    found = simulate(MODEL, layers, interventions=NAMED, include="layers", **given)
    spent = cost(found, {"traced in at: home": 1.0, "clinics: traced": 1.0})
    assert (spent.isel(item=0) == spent.isel(item=1)).all() and spent[-1, -1].sum() > 0


@pytest.mark.parametrize("name", ["", " clinics", "a: b", "interventions[0]", "two\nlines", 3])
def test_refused_names(name):
    with pytest.raises(ergode.ModelError, match="Testing: name is .*; expected text"):
        ergode.Testing({"I": 0.9}, name=name)


def test_two_equal_names_are_refused():
    message = r"interventions\[0\] and interventions\[2\] have one name, 'clinics'; expected"
    same = [NAMED[0], MASKS, replace(CENTRES, name="clinics")]
    with pytest.raises(ergode.ModelError, match=message):
        run(same)
    with pytest.raises(ergode.ModelError, match=f"point.*{message}"):
        run(lambda rate: same, parameters={"rate": [1.0, 2.0]})


def test_points_have_one_set_of_names():
    def measures(rate):
        return replace(CLINICS, name=f"clinics {rate:g}")

    with pytest.raises(ergode.ModelError, match="clinics 2: tests.* for clinics 1: tests"):
        run(measures, parameters={"rate": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (ergode.Testing, {"sensitivity": {"I": 0.9}, "delay": -1}, "Testing 'a b': delay is -1"),
        (ergode.Testing, {"sensitivity": {}}, "Testing 'a b': sensitivity is {}"),
        (ergode.Vaccination, {"efficacy": 2.0}, "Vaccination 'a b': efficacy is 2.0"),
        (ergode.LayerClosure, {"start": 5, "stop": 4}, "LayerClosure 'a b': it stops at 4"),
        (ergode.Isolation, {"compartment": 3}, "Isolation 'a b': compartment is 3"),
        (ergode.ContactTracing, {"compartment": "I", "tracing": 2}, "ContactTracing 'a b': tra"),
        (ergode.Capacity, {"compartment": "I", "places": 0}, "Capacity 'a b': places is 0"),
    ],
)  # fmt: skip
def test_messages_of_a_measure_name_it(make, given, message):
    with pytest.raises(ergode.ModelError, match=f"^{message}"):
        make(**given, name="a b")


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (ergode.Testing({"X": 0.9}), "names the unknown compartment 'X'"),
        (ergode.Testing({"X": 0.9}, capacity=3), "names the unknown compartment 'X'"),
        (ergode.Isolation("I", among="staff"), "needs the node attribute 'staff'"),
        (ergode.Vaccination(severity={"H": 0.5}), ".*'H'"),
        (ergode.Vaccination(dose_rate=3, priority="age"), "needs the node attribute 'age'"),
        (ergode.ContactTracing("I", lookback=3), ": lookback is for TemporalContacts"),
        (ergode.Testing({"I": 0.9}, rate=1e9), "makes .* tests"),
    ],
)
def test_messages_of_a_run_name_the_measure(measure, message):
    with pytest.raises(ergode.ErgodeError, match=rf"interventions\[1\] 'wards' ?{message}"):
        run([MASKS, replace(measure, name="wards")])


def test_warnings_and_methods_name_the_measure():
    late = ergode.LayerClosure(start=100, name="winter")
    with pytest.warns(ergode.AccuracyWarning, match="LayerClosure 'winter' from 100 does nothing"):
        run([late])
    with pytest.raises(ergode.PlanError, match="Testing 'clinics' changes whom a node infects"):
        run(NAMED, method="renewal-leap", include=())
    with pytest.raises(ergode.ModelError, match="Testing 'clinics': start is a date"):
        run(replace(NAMED[0], start="2026-03-01"))
