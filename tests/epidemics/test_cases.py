"""Who is a case: those infected, at first or from outside, and nobody else.

Where an assertion is statistical its error is below 1e-7, and that of all of them below 1e-6.
"""

import dataclasses

import numpy as np
import pytest

import ergode
from ergode.epidemics import next_generation, simulate, transmission_tree
from ergode.epidemics.methods import METHODS

SIGMAS = 5.4
NODES = 400
LASTING = ergode.Exponential(mean=1e3)
PAIRS = ergode.ContactNetwork.from_edges(
    np.arange(0, NODES, 2), np.arange(1, NODES, 2)
).with_attributes(group=np.zeros(NODES, int))
SIR = ergode.CompartmentModel.sir(transmission_rate=0.3, infectious=ergode.Exponential(mean=4))
SIS = ergode.CompartmentModel.sis(transmission_rate=0.3, infectious=ergode.Exponential(mean=4))


def run(model, contacts=PAIRS, times=(0.0, 1.0, 5.0), **options):
    options = {"replicates": 50, "seed": 2, "device": "cpu"} | options
    return simulate(model, contacts, times=times, **options)


# ---- those who begin in R


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_who_begins_immune_is_no_case(method):
    counts = run(SIR, initial={"I": 5, "R": 150}, method=method)
    assert (counts["cases"].isel(time=0) == 5).all()
    infected = NODES - 150 - counts["count"].sel(compartment="S")
    np.testing.assert_array_equal(counts["cases"], infected)


def test_who_begins_immune_is_no_case_of_any_stratum():
    contacts = PAIRS.with_attributes(group=np.arange(NODES) % 3)
    counts = run(SIR, contacts, initial={"I": 5, "R": 100}, strata="group")
    count, cases = counts["count"], counts["cases"]
    immune = count.isel(time=0).sel(compartment="R")
    infected = count.isel(time=0).sum("compartment") - immune - count.sel(compartment="S")
    np.testing.assert_array_equal(cases, infected.transpose(*cases.dims))
    assert (cases.isel(time=0).sum("stratum") == 5).all()


@pytest.mark.parametrize("method", ["first-passage", "sellke"])
def test_line_lists_leave_out_who_begins_immune(method):
    immune = np.arange(100, 300)
    cases = run(
        SIR, initial={"I": 5, "R": immune}, method=method, output="line_list", times=[0.0, 30.0]
    )
    assert not np.isin(cases["node"], immune).any()
    assert (cases["infector"] == -1).sum() == 5 * 50
    found = float(next_generation(cases, np.zeros(NODES))["reproduction_number"])
    secondary = (cases["infector"] >= 0).sum() / cases.sizes["case"]
    assert found == pytest.approx(float(secondary))


def test_triggers_count_no_immune():
    closure = ergode.LayerClosure(start=ergode.Trigger("cases", 100))
    options = {"initial": {"I": 20, "R": 150}, "method": "sellke"}
    closed = run(SIR, interventions=[closure], **options)
    left = run(SIR, interventions=[], **options)
    assert (left["cases"].isel(time=-1) < 100).all()
    np.testing.assert_array_equal(closed["count"], left["count"])


# ---- cases from outside


def by_factors(model):
    """The same, with a factor of one for some infections: so that tests share a kernel."""
    first, *others = model.infections
    one = ergode.ByAttribute("group", [1.0, 1.0], groups=[0, 1])
    return ergode.CompartmentModel(
        model.compartments, [dataclasses.replace(first, susceptibility=one), *others],
        model.progressions,
    )  # fmt: skip


def strains(cross):
    return by_factors(
        ergode.CompartmentModel.two_strains(
            transmission_rate=[1e-6, 1e-6], infectious=[LASTING] * 2, cross_susceptibility=cross
        )
    )


CLASSES = by_factors(ergode.CompartmentModel(
    ["S1", "S2", "I1", "I2"],
    [
        ergode.Infection("S1", "I1", {"I1": 1e-6, "I2": 1e-6}),
        ergode.Infection("S2", "I2", {"I1": 5e-7}),
    ],
    [ergode.Progression("I1", "S1", LASTING), ergode.Progression("I2", "S2", LASTING)],
))  # fmt: skip


def visits(count, into):
    """Contacts with cases from outside, one after another."""
    return [ergode.Importation(into, times=np.linspace(0.1, 0.9, count))]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_importations_do_what_an_infection_of_the_model_does(device):
    options = {"method": "sellke", "replicates": 400, "device": device}
    # Who is immune to the other strain wholly, or by 60 %, and becomes what such a case becomes.
    everybody = {"R1": np.arange(NODES)}
    immune = run(
        strains([[0, 0], [0, 0]]), initial=everybody, importations=visits(40, "I2"), **options
    )
    assert (immune["cases"] == 0).all()
    partly = run(
        strains([[0, 0.4], [0.4, 0]]), initial=everybody, importations=visits(40, "I2"), **options
    )
    final = partly["count"].isel(time=-1)
    assert (final.sel(compartment="I2") == 0).all()
    found = float(final.sel(compartment=["I21", "R12"]).sum("compartment").mean())
    # Those met twice are infected once: fewer than 1.0 of 40.
    expected = NODES * -np.expm1(40 * np.log1p(-0.4 / NODES))
    assert abs(found - expected) < SIGMAS * np.sqrt(expected / 400)
    # Of another class: infected half as often, and each stays in its own.
    met = run(CLASSES, initial={"S2": 200}, importations=visits(60, "I1"), **options)
    final = met["count"].isel(time=-1)
    for name, chance in (("I1", 1.0), ("I2", 0.5)):
        expected = 200 * -np.expm1(60 * np.log1p(-chance / NODES))
        found = float(final.sel(compartment=name).mean())
        assert abs(found - expected) < SIGMAS * np.sqrt(expected / 400) + 0.05
    kept = final.sel(compartment=["S2", "I2"]).sum("compartment")
    assert (kept == 200).all()


def test_importations_meet_the_susceptibility_of_their_guests():
    model = ergode.CompartmentModel(
        ["S", "I"], [ergode.Infection("S", "I", {"I": 1e-6})],
        [ergode.Progression("I", "S", LASTING)], susceptibility="susceptibility",
    )  # fmt: skip
    value = np.repeat([0.0, 0.5, 2.0], [100, 100, 200])
    contacts = PAIRS.with_attributes(susceptibility=value)
    cases = run(
        model, contacts, initial={}, importations=visits(60, "I"), output="line_list",
        replicates=400,
    )  # fmt: skip
    found = value[cases["node"].values]
    assert (found > 0).all()
    for each, size, chance in ((0.5, 100, 0.25), (2.0, 200, 1.0)):
        expected = 400 * size * -np.expm1(60 * np.log1p(-chance / NODES))
        assert abs((found == each).sum() - expected) < SIGMAS * np.sqrt(expected) + 20


def test_importations_do_not_depend_on_compartments_that_nobody_is_in():
    """Nobody is in V, which is infected faster, and four times as susceptible."""
    one = ergode.Infection("S", "I", {"I": 1e-6})
    four = ergode.ByAttribute("group", [4.0, 4.0], groups=[0, 1])
    model = ergode.CompartmentModel(
        ["S", "V", "I"],
        [one, ergode.Infection("V", "I", {"I": 3e-6}, susceptibility=four)],
        [ergode.Progression("V", "S", LASTING)],
    )  # fmt: skip
    alone = ergode.CompartmentModel.si(transmission_rate=1e-6)
    expected = run(alone, initial={}, importations=visits(60, "I"))["cases"].values
    for initial in ({}, {"V": 0}, {"V": []}):
        found = run(model, initial=initial, importations=visits(60, "I"))
        np.testing.assert_array_equal(found["cases"], expected)
    # Where somebody is in V, all is relative to the largest there.
    some = run(model, initial={"V": [0]}, importations=visits(60, "I"))
    assert abs(some["cases"].values[:, -1].mean() - 60 / 12) < 1.5


@pytest.mark.parametrize("leaky", [True, False])
def test_importations_do_not_infect_who_is_protected(leaky):
    shot = ergode.Vaccination(fraction=1.0, efficacy=1.0, leaky=leaky)
    counts = run(SIS, initial={}, interventions=[shot], importations=visits(40, "I"))
    assert (counts["cases"] == 0).all()


def test_an_importation_into_a_later_stage_begins_there():
    model = ergode.CompartmentModel.seir(transmission_rate=1e-6, latent=LASTING, infectious=LASTING)
    counts = run(model, initial={}, importations=visits(10, "I"), method="sellke")
    final = counts["count"].isel(time=-1)
    assert (final.sel(compartment="E") == 0).all() and (final.sel(compartment="I") >= 8).all()
    with pytest.raises(ergode.ModelError, match="into 'R', but no infection"):
        run(model, initial={}, importations=visits(1, "R"))


# ---- trees of those infected again


def test_a_tree_has_a_node_for_every_case():
    import networkx

    contacts = ergode.ContactNetwork.from_edges([0, 1, 2], [1, 2, 0])
    model = ergode.CompartmentModel.sis(
        transmission_rate=1.0, infectious=ergode.Exponential(mean=1.5)
    )
    cases = run(model, contacts, initial={"I": [0]}, times=[0, 30.0], output="line_list")
    of_replicate = np.bincount(cases["replicate"], minlength=50)
    for replicate in range(50):
        tree = transmission_tree(cases, replicate)
        assert len(tree) == of_replicate[replicate]
        assert networkx.is_forest(tree) and all(d <= 1 for _, d in tree.in_degree())
        for one, other in tree.edges:
            assert tree.nodes[one]["node"] == int(cases["infector"][other])
            assert tree.nodes[one]["infected_at"] < tree.nodes[other]["infected_at"]
    assert of_replicate.max() > 10
