"""Options of tests and tracing: what is refused, in one line, and what run files say."""

from pathlib import Path

import pytest

import ergode
from ergode.runfile.scenarios import interventions_of
from ergode.runfile.tables import Table

HALF = ergode.ByAttribute("age", [0.5, 1.0], groups=[0, 18])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tracing": 1.2}, "tracing is 1.2; expected a number, between 0 and 1"),
        ({"tracing": {}}, "tracing is empty"),
        ({"tracing": {"home": -1}}, "tracing of 'home' is -1"),
        ({"quarantine": 7}, "expected a tracing above zero"),
        ({"tracing": {"home": 0.0}, "tracing_delay": 1}, "expected a tracing above zero"),
        ({"release_every": 1}, "no release_after"),
        ({"release_after": 0}, "release_after is 0.0; expected a finite time above zero"),
        ({"test_contacts": True, "delay": 1, "tracing": 1.0}, "a release_after and a delay"),
        ({"test_contacts": True, "release_after": 1, "tracing": 1.0}, "a delay above zero"),
        ({"test_traced": True, "delay": 1}, "expected a tracing and a delay above zero"),
        ({"test_traced": True, "tracing": 1.0}, "expected a tracing and a delay above zero"),
        (
            {
                "test_traced": True,
                "test_contacts": True,
                "tracing": 1.0,
                "delay": 1,
                "release_after": 1,
            },
            "expected test_traced or test_contacts",
        ),
        ({"test_traced": 1}, "test_traced is 1"),
        ({"among": ergode.ByAttribute("age", {1: 1.5})}, "among for age 1 is 1.5"),
        ({"tracing": 1.0, "contacts_among": 3}, "contacts_among"),
    ],
)
def test_refused_tests(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        ergode.Testing({"I": 0.9}, **given)


def test_refused_measures():
    with pytest.raises(ergode.ModelError, match="tracing is 'all'; expected a number"):
        ergode.ContactTracing("I", tracing="all")
    with pytest.raises(ergode.ModelError, match="order of nodes is fixed"):
        ergode.Vaccination(dose_rate=5, among=HALF)
    assert ergode.Vaccination(among=HALF).among is HALF


def test_names_that_the_network_does_not_have():
    model = ergode.CompartmentModel.sir(
        transmission_rate=0.2, infectious=ergode.Exponential(mean=5)
    )
    contacts = ergode.ContactNetwork.erdos_renyi(50, mean_degree=4, seed=1)
    options = {"initial": {"I": 2}, "times": [0, 1], "device": "cpu"}
    for measure, message in (
        (ergode.Testing({"I": 1.0}, tracing={"home": 1.0}), "names the layer 'home'"),
        (ergode.ContactTracing("I", contacts_among="staff"), "needs the node attribute 'staff'"),
        (ergode.Isolation("I", among=HALF), "has no node attribute 'age'"),
    ):
        with pytest.raises(ergode.ModelError, match=message):
            ergode.epidemics.simulate(model, contacts, interventions=measure, **options)


def test_run_files_have_them():
    table = {
        "kind": "testing", "sensitivity": {"I": 0.9}, "tracing": {"home": 1.0, "work": 0.4},
        "quarantine": 7, "release_after": 5, "release_every": 1, "delay": 1, "test_contacts": True,
        "among": {"attribute": "age", "groups": [0, 18], "values": [0.5, 1.0]},
    }  # fmt: skip
    plain = {"kind": "contact-tracing", "compartment": "I", "tracing": 0.5}
    found = interventions_of(Table({"interventions": [table, plain]}, "", Path("run.toml")))
    assert found == [
        ergode.Testing(
            {"I": 0.9}, tracing={"home": 1.0, "work": 0.4}, quarantine=7, release_after=5,
            release_every=1, delay=1, test_contacts=True, among=HALF,
        ),
        ergode.ContactTracing("I", tracing=0.5),
    ]  # fmt: skip
