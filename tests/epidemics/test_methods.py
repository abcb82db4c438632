"""The table of methods is what `simulate` runs and refuses by."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate
from ergode.epidemics.methods import METHODS, plan_of
from ergode.epidemics.scenario import scenario_of

CONTACTS = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 3])
SIR = ergode.CompartmentModel.sir(
    transmission_rate=0.3, infectious=ergode.LogNormal(mean=5, median=4)
)
SIS = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=ergode.Exponential(mean=4))


def test_who_is_pointed_to_can_run_anything_or_is_followed_by_one_who_can():
    for method in METHODS.values():
        assert set(method.alternatives) <= set(METHODS)
        if method.name != "sellke":
            assert method.alternatives[-1] == "sellke"


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("model", [SIR, SIS])
@pytest.mark.parametrize("measures", [None, [ergode.Isolation("I", start=ergode.Trigger("I", 2))]])
def test_a_method_runs_what_its_record_allows_and_refuses_the_rest(name, model, measures):
    scenario = scenario_of(CONTACTS, measures)
    why = METHODS[name].why_unsupported(model, scenario, False)

    def run(method):
        if measures:  # each would be a kernel: what is run is told before
            return plan_of(method, model, scenario, "cpu").method.name
        found = simulate(
            model, CONTACTS, initial={"I": 1}, times=[0, 5], method=method, device="cpu:1"
        )
        return found.attrs["method"]

    if why is None:
        assert run(name) == name
        return
    with pytest.raises(ergode.PlanError, match=re.escape(why)) as refusal:
        run(name)
    instead = re.search(r"use method='(.*)'$", str(refusal.value)).group(1)
    assert run(instead) == instead


def test_auto_takes_the_first_exact_method_of_the_table():
    def chosen(model, measures=None):
        return plan_of("auto", model, scenario_of(CONTACTS, measures), "cpu")

    assert chosen(SIR).method.name == "first-passage"
    assert chosen(SIS).method.name == "sellke"
    assert "can become susceptible again" in chosen(SIS).reason
    # With an empty sequence the run is one to compare with, and shares the randomness.
    assert chosen(SIR, ()).method.name == "sellke"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_keeps_line_lists_as_its_record_says(name):
    sir = ergode.CompartmentModel.sir(transmission_rate=9.0, infectious=ergode.Exponential(mean=9))
    # With weights it shares its kernels.
    network = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 3], weights=np.ones(3))
    options = {"initial": {"I": np.array([0])}, "times": [0, 5], "output": "line_list"}
    if METHODS[name].line_lists:
        assert simulate(sir, network, method=name, device="cpu:1", **options).sizes["case"] > 0
    else:
        with pytest.raises(ergode.PlanError, match="keeps no line lists"):
            simulate(sir, network, method=name, device="cpu:1", **options)


@pytest.mark.parametrize("name", METHODS)
def test_options_of_steps_are_for_methods_that_take_steps(name):
    options = {"initial": {"I": 1}, "times": [0, 1], "step": 0.5, "device": "cpu:1"}
    sir = ergode.CompartmentModel.sir(transmission_rate=0.3, infectious=ergode.Exponential(mean=9))
    if METHODS[name].steps:
        assert simulate(sir, CONTACTS, method=name, **options).attrs["step"] == 0.5
    else:
        with pytest.raises(ergode.PlanError, match="is for methods with time steps"):
            simulate(sir, CONTACTS, method=name, **options)


def test_the_table_of_features_is_what_the_records_say():
    """Its rows are features; "sellke" takes all of them, and each other method lacks some."""
    docs = Path(__file__).parents[2] / "docs"
    lines = runpy.run_path(str(docs / "conf.py"))["myst_substitutions"]["epidemics_features"]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()
    ]
    assert head[1:] == [f'`"{name}"`' for name in METHODS]
    column = {name: [row[k] for row in rows] for k, name in enumerate(METHODS, 1)}
    assert set(column.pop("sellke")) == {"yes"}
    assert all(set(cells) == {"yes", "-"} for cells in column.values())
    taken = {row[0]: dict(zip(METHODS, row[1:], strict=True)) for row in rows}
    assert taken["nodes that become susceptible again"]["first-passage"] == "-"
    assert taken["calendars of layers"]["renewal-leap"] == "yes"
    assert taken["any holding time"]["markov-leap"] == "-"
    page = (docs / "guides" / "choosing_a_method.md").read_text()
    assert page.count("{{ epidemics_features }}") == 1
