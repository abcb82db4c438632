"""Contacts that are tested when they are traced: against what is known, and on both devices."""

import numpy as np
import pytest
from windows_ptx import ptx_of

import ergode
from ergode.core import devices
from ergode.epidemics import measure_table, simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

MODEL = ergode.CompartmentModel.seir(
    transmission_rate=0.15, latent=ergode.Gamma(mean=3, sd=2), infectious=ergode.Gamma(mean=6, sd=3)
)
PEOPLE = ergode.ContactNetwork.erdos_renyi(300, mean_degree=8, seed=1)
AT_ONCE = {"delay": 0.5, "isolation": 8, "tracing": 0.6, "tracing_delay": 0.7, "test_traced": True}
MEASURES = [
    ergode.Testing({"E": 0.3, "I": 0.8}, fraction=0.6, quarantine=0, name="free", **AT_ONCE),
    ergode.Testing({"I": 0.9}, rate=0.05, quarantine=3, release_after=1, release_every=1,
                   start=10, name="held", **AT_ONCE),
    ergode.Testing({"I": 0.9}, capacity=3, quarantine=3, name="few", **AT_ONCE),
]  # fmt: skip


def run(measures, **options):
    given = {"times": np.arange(41.0), "replicates": 20, "seed": 3, "device": "cpu"}
    given |= {"initial": {"I": np.arange(10)}, "include": ("entries", "avoided")}
    return simulate(MODEL, PEOPLE, interventions=measures, **given | options)


def chain(length):
    """A line of people, of whom each meets the next alone."""
    return ergode.ContactNetwork.from_edges(range(length), range(1, length + 1), directed=True)


def line(sensitivity, start=None, **options):
    """All are ill for long, nobody infects, and the first is tested on day 1."""
    model = ergode.CompartmentModel.sir(
        transmission_rate=1e-9, infectious=ergode.Deterministic(100.0)
    )
    given = {"delay": 0.25, "tracing": 1.0, "tracing_delay": 1.0, "quarantine": 0}
    given |= {"isolation": 2.0, "test_traced": True} | options
    measure = ergode.Testing(sensitivity, start=start, name="line", **given)
    return simulate(
        model, chain(9), initial={"I": range(10)}, times=np.arange(0.0, 12.5, 0.25), device="cpu",
        interventions=[measure], include="measures", precision="float64", seed=1,
    )["measures"].isel(replicate=0)  # fmt: skip


def test_a_chain_of_contacts_is_tested_link_by_link():
    """Each is tested 1.25 after the one before, unless a test of its own has found it."""
    found = line({"I": 1.0})
    tests = found.sel(tally="line: tests").values
    # All are tested at first, and are known cases until 2.25, when contacts have been traced.
    assert (tests == 10).all()
    found = line({"I": 1.0}, isolation=0.5)
    when = found["time"].values
    tests, traced = (found.sel(tally=f"line: {one}").values for one in ("tests", "traced"))
    # A case is known for 0.75; nine contacts are traced and tested at 1.25, eight at 2.5, ...
    known = [10 + sum(9 - k for k in range(9) if 1.25 * (k + 1) <= t) for t in when]
    assert tests.tolist() == known
    assert (traced == tests - 10).all()
    assert (found.sel(tally="line: positive").values == tests).all()


def test_a_contact_without_quarantine_is_not_isolated():
    found = line({"I": 1.0, "R": 0.0}, isolation=0.5)
    held = found.sel(tally="line: isolated").values
    begun = found.sel(tally="line: isolations").values
    positive = found.sel(tally="line: positive").values
    assert (begun[1:] == positive[:-1]).all()  # each after its delay, and nobody else
    assert held.max() == 10 and held[4] == 0


def test_tests_end_with_the_measure():
    found = line({"I": 1.0}, isolation=0.5, duration=3.0)
    assert found.sel(tally="line: tests").values[-1] == 10 + 9 + 8
    assert found.sel(tally="line: traced").values[-1] == 10 + 9 + 8 - 10 + 7


def test_fewer_are_infected_than_without_and_lists_add_up():
    plain = [ergode.Testing(
        {"E": 0.3, "I": 0.8}, fraction=0.6, delay=0.5, isolation=8, tracing=0.6, tracing_delay=0.7,
        quarantine=0,
    )]  # fmt: skip
    counts, without = run(MEASURES[:1]), run(plain)
    cases = [one["cases"].isel(time=-1).mean() for one in (counts, without)]
    assert cases[0] < 0.9 * cases[1]
    # Who is traced and no known case is tested: some of those traced.
    traced, tests = (
        counts["measures"].sel(tally=f"free: {one}").isel(time=-1) for one in ("traced", "tests")
    )
    assert (traced > 0).all() and (tests > 0.5 * traced).all()
    listed = run(MEASURES[:1], output="line_list", include="measures", precision="float64")
    again = run(MEASURES[:1], precision="float64")["measures"].isel(time=-1)
    table = measure_table(listed)
    for what in ("tests", "positive", "traced"):
        by = table[table["what"] == what].groupby("replicate").size()
        np.testing.assert_array_equal(by, again.sel(tally=f"free: {what}"))


def ensembles(**options):
    scenario = scenario_of(PEOPLE, MEASURES, include=("entries", "avoided"))
    given = {"times": np.arange(41.0), "seed": 3, "device": devices.resolve("cpu:1")}
    given |= {"precision": "float64", "listing": True} | options
    return [kind(MODEL, scenario, {"I": np.arange(10)}, **given)
            for kind in (EventEnsemble, WindowEnsemble)]  # fmt: skip


@pytest.mark.slow
def test_windows_test_the_same():
    """The plan of a GPU, on a CPU: bit for bit, and whatever the width of a window."""
    queue, windows = ensembles()
    counts = queue.run(0, 20)[0][0]
    np.testing.assert_array_equal(counts, windows.run(0, 20)[0][0])
    windows.width = windows.width * 0.3
    np.testing.assert_array_equal(counts, windows.run(0, 20)[0][0])


@pytest.mark.slow
def test_the_kernel_compiles_to_ptx():
    pytest.importorskip("numba.cuda")
    assert ".entry" in ptx_of(ensembles()[1], "float64")


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_tests_the_same(precision):
    host, other = (run(MEASURES, precision=precision, device=one) for one in ("cpu", "cuda"))
    for name in ("count", "cases", "entries", "measures"):
        np.testing.assert_array_equal(host[name], other[name])
