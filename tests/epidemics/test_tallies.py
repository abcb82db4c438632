"""Counts of entries and of what measures do: against what is known, and on both devices."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gamma
from windows_ptx import ptx_of

import ergode
from ergode.core import devices
from ergode.epidemics import flows, simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

SIGMAS = 5.6  # a family-wise 1e-6
N = 300
WEEK = ergode.Gamma(mean=7, sd=3)
# Some tests begin with people in U, who are not born; all tests share their kernel.
HOSPITAL = ergode.CompartmentModel(
    ["S", "E", "I", "H", "N", "R", "D", "U"],
    [ergode.Infection("S", "E", {"I": 0.3})],
    [
        ergode.Progression("E", "I", ergode.Gamma(mean=3, sd=2)),
        ergode.Progression("I", {"H": 0.3, "N": 0.0, "R": 0.7}, ergode.Gamma(mean=6, sd=3)),
        ergode.Progression("H", {"R": 0.9, "D": 0.1}, WEEK),
        ergode.Progression("N", "R", ergode.Deterministic(7.0)),
        ergode.Progression("U", "S", ergode.Gamma(mean=1e6, sd=1e5)),
        ergode.Progression("R", "S", ergode.Gamma(mean=30, sd=5)),
    ],
    outside=["U"],
)
IMMUNE = replace(HOSPITAL, progressions=HOSPITAL.progressions[:-1])
NETWORK = ergode.ContactNetwork.erdos_renyi(N, mean_degree=8, seed=1).with_attributes(
    third=np.arange(N) % 3
)
MEMORYLESS = ergode.CompartmentModel.seir(
    transmission_rate=0.25, latent=ergode.Exponential(mean=3),
    infectious=ergode.Exponential(mean=6),
)  # fmt: skip


HALF = ergode.ByAttribute("third", {0: 0.0, 1: 1.0, 2: 0.5})  # who takes part


def everything(day=1.0):
    """All measures, begun and stopped at times and by counts, where a day is `day` long."""
    return [
        ergode.Testing({"E": 0.3, "I": 0.9}, rate=1 / 7 / day, delay=day, isolation=10 * day,
                       tracing=0.3, tracing_delay=0.5 * day, quarantine=6 * day,
                       contacts_among=HALF),
        ergode.Testing({"I": 0.8}, fraction=0.5, delay=day, isolation=8 * day, among=HALF,
                       release_after=3 * day, release_every=day, tracing=0.4,
                       quarantine=9 * day, test_contacts=True),
        ergode.Testing({"I": 0.8, "E": 0.2}, capacity=3, period=day, isolation=10 * day,
                       tracing=0.5, quarantine=4 * day, start=ergode.Trigger("I", 20),
                       stop=ergode.Trigger("I", 10, below=True)),
        ergode.Testing({"I": 0.8}, capacity=2, period=day, wait=False, isolation=10 * day),
        ergode.ContactTracing("I", detection=0.5, detection_delay=day, tracing=0.4,
                              tracing_delay=0.5 * day, quarantine=10 * day, reduction=0.5),
        ergode.Isolation("I", fraction=0.5, delay=day, start=ergode.Trigger("I", 15),
                         stop=ergode.Trigger("I", 5, below=True)),
        ergode.Vaccination(fraction=0.5, efficacy=[0.3, 0.6], interval=20 * day,
                           rollout=10 * day, start=5 * day),
        ergode.Vaccination(fraction=0.5, efficacy=[0.3, 0.6], interval=20 * day,
                           dose_rate=5 / day, start=ergode.Trigger("I", 30)),
        ergode.LayerClosure(reduction=0.1, start=ergode.Trigger("I", 30),
                            stop=ergode.Trigger("I", 20, below=True)),
        ergode.LayerClosure(reduction=0.1, start=20 * day, duration=10 * day),
        ergode.Capacity("H", 4, instead="N"),
        ergode.Testing({"I": 0.7}, rate=0.2 / day, isolation=3 * day,
                       start=ergode.Trigger("I", 25), stop=ergode.Trigger("I", 15, below=True)),
    ]  # fmt: skip


def run(interventions=None, model=HOSPITAL, include="measures", network=NETWORK, **options):
    given = {
        "initial": {"I": 20}, "times": np.arange(61.0), "replicates": 20, "seed": 3,
        "device": "cpu", "interventions": interventions, **options,
    }  # fmt: skip
    return simulate(model, network, include=include, **given)


def alone(measure, **options):
    """A run with one measure that acts; what is counted of all strata together."""
    found = by_third(measure, **options)
    whole = found.sum("stratum")
    force = [label.endswith("in force") for label in found["tally"].values]
    whole["measures"][..., force] = found["measures"].isel(stratum=0)[..., force]
    return whole


def by_third(measure, include=("entries", "avoided"), **options):
    """A run with one measure that acts: those beside it never begin.

    So that one kernel, that of `everything`, is compiled for all.
    """
    never = ergode.Trigger("D", N)
    idle = [
        ergode.Testing({"I": 0.9}, rate=1 / 7, delay=1, isolation=10, start=never),
        ergode.Testing(
            {"I": 0.8},
            capacity=3,
            delay=1,
            tracing=0.1,
            release_after=1,
            test_contacts=True,
            start=never,
        ),
        ergode.ContactTracing("I", detection=0.5, quarantine=10, among=HALF, start=never),
        ergode.Vaccination(efficacy=0.3, dose_rate=5, start=never),
        ergode.Capacity("D", N, instead="R"),
    ]
    given = {"initial": {"I": ergode.Seeds(20, age=2.0)}, "precision": "float64"}
    return run([*measure, *idle], include=include, strata="third", **given | options)


def fell_ill(found):
    """Entries into I but those of the seeds, who entered it before the first time."""
    entered = found["entries"].sel(compartment="I").values
    return entered - entered[:, :1]


def of(found, label):
    return found["measures"].sel(tally=f"interventions[{label}").values


def test_doses_of_a_programme_are_given_at_its_rate():
    """3 doses a day: floor(3 t) by day t, until all have two."""
    programme = ergode.Vaccination(dose_rate=3, efficacy=[0.0, 0.0], interval=1000)
    found = alone([programme], replicates=3)
    np.testing.assert_array_equal(of(found, "0] dose 1"), np.tile(np.arange(61) * 3, (3, 1)))
    assert not of(found, "0] dose 2").any()


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("sds", [(2, 5, 1, 0, 5, 0), (0, 0, 0, 0, 5, 0)])
def test_the_unit_of_time_has_no_effect_where_moments_coincide(device, sds):
    """Tenths of days are rounded, and days are not: 3.1 + 0.2 + 0.1 is no 3.1 + 0.3.

    Isolations end and begin at once, and where stays have one length also at the end of stays.
    """

    def in_units_of(day):
        means = {"E": 3, "I": 9, "H": 7, "N": 7, "R": 30, "U": 1e6}
        stays = {
            name: ergode.Gamma(mean=mean * day, sd=sd * day)
            if sd
            else ergode.Deterministic(mean * day)
            for (name, mean), sd in zip(means.items(), sds, strict=True)
        }
        model = replace(
            HOSPITAL, infections=[ergode.Infection("S", "E", {"I": 0.1 / day})],
            progressions=[
                replace(one, holding_time=stays[one.compartment]) for one in HOSPITAL.progressions
            ],
        )  # fmt: skip
        tests = ergode.Testing(
            {"I": 0.9}, capacity=20, period=day, wait=False, delay=day, isolation=6 * day,
            release_after=2 * day, release_every=day, tracing=0.5, quarantine=9 * day,
            test_contacts=True,
        )  # fmt: skip
        return run(
            [tests, *everything(day)], model=model, times=np.arange(61.0) * day, device=device,
            include=("entries", "avoided"), strata="third", precision="float64",
            initial={"I": ergode.Seeds(20, age=2 * day)},
        )  # fmt: skip

    days, tenths = in_units_of(1.0), in_units_of(0.1)
    assert of(days, "0] released")[..., -1].sum() > 10_000
    for name in ("count", "entries", "measures"):
        np.testing.assert_array_equal(days[name].values, tenths[name].values, name)


@pytest.mark.slow
def test_isolations_begun_are_those_who_fall_ill():
    found = alone([ergode.Isolation("I", fraction=1.0)])
    np.testing.assert_array_equal(of(found, "0] isolations"), found["entries"].sel(compartment="I"))


@pytest.mark.slow
def test_lists_of_measures_add_up_to_counts():
    """From the begin, from a time on, and while a trigger holds."""
    measures = [
        ergode.Isolation("I", fraction=0.5, delay=1.0),
        ergode.Isolation("I", fraction=0.5, start=5.0, duration=20.0),
        ergode.Isolation("I", fraction=0.5, start=ergode.Trigger("I", 25),
                         stop=ergode.Trigger("I", 15, below=True)),
        ergode.Testing({"I": 0.9}, rate=1 / 7, delay=1.0, isolation=10.0),
        ergode.Vaccination(fraction=0.5, efficacy=[0.3, 0.6], interval=20.0, start=5.0),
        ergode.Isolation("I", fraction=1.0, start=0.3,  # which is over at once
                         stop=ergode.Trigger("R", 1000, below=True)),
    ]  # fmt: skip
    counts = alone(measures)
    cases = run(measures, output="line_list", initial={"I": ergode.Seeds(20, age=2.0)},
                precision="float64")  # fmt: skip
    listed = ergode.epidemics.measure_table(cases)
    for (k, what), mine in listed.groupby(["measure", "what"]):
        expected = of(counts, f"{k}] {what}")
        made = np.zeros(expected.shape, int)
        for t, time in enumerate(counts["time"].values):
            for moment, change in ((mine["time"], 1), (mine["end"], -1)):
                np.add.at(made[:, t], mine["replicate"][moment <= time], change)
        np.testing.assert_array_equal(made, expected, f"{k} {what}")
    seen = {*zip(listed["measure"], listed["what"], strict=True)}
    assert seen >= {(0, "isolated"), (1, "isolated"), (2, "isolated"), (3, "tests"),
                    (3, "positive"), (3, "isolated"), (4, "dose 1"), (4, "dose 2")}  # fmt: skip
    assert (5, "isolated") not in seen
    held = listed[listed["measure"] == 1]
    assert held["time"].min() == 5.0 and held["end"].max() == 25.0


@pytest.mark.slow
def test_tests_at_a_rate_are_a_poisson_process_of_all_nodes():
    """Whatever the compartments: N r t tests by time t, whose variance is their mean."""
    found = alone([ergode.Testing({"I": 0.9, "E": 0.4}, rate=0.2, reduction=0.0)], replicates=400)
    tests = of(found, "0] tests")
    for t in (10, 60):
        mean = N * 0.2 * t
        assert abs(tests[:, t].mean() - mean) < SIGMAS * np.sqrt(mean / 400)
        assert abs(tests[:, t].var(ddof=1) / mean - 1) < SIGMAS * np.sqrt(2 / 399)
    assert (of(found, "0] positive") <= tests).all()


@pytest.mark.slow
def test_tests_at_a_rate_leave_out_who_is_not_born():
    screening = ergode.Testing({"I": 0.9}, rate=0.2, reduction=0.0)
    initial = {"U": ergode.Seeds(100), "I": ergode.Seeds(20, age=2.0)}
    found = alone([screening], initial=initial, replicates=100)
    mean = (N - 100) * 0.2 * 60
    assert abs(of(found, "0] tests")[:, 60].mean() - mean) < SIGMAS * np.sqrt(mean / 100)


@pytest.mark.slow
def test_contacts_of_who_is_positive_are_traced():
    """All who fall ill are positive, and each has eight contacts, of which all are traced.

    A contact is held for two days, later quarantines prolong that, and the ill themselves are not.
    """
    regular = ergode.ContactNetwork.random_regular(N, 8, seed=1).with_attributes(
        third=np.arange(N) % 3
    )
    traced = {"tracing": 1.0, "tracing_delay": 1.0, "quarantine": 2.0, "reduction": 0.0}
    tests = [
        ergode.Testing({"I": 1.0}, isolation=0, **traced),
        ergode.ContactTracing("I", tracing=1.0, tracing_delay=1.0, quarantine=2.0, reduction=0.0),
        ergode.Testing({"I": 1.0}, isolation=0, capacity=10**6, **traced),
    ]
    found = alone(tests, network=regular, times=np.arange(61.0))
    late = np.concatenate([np.zeros((20, 1)), fell_ill(found)[:, :-1]], axis=1)
    for label in ("0] traced", "1] traced", "2] traced"):
        np.testing.assert_array_equal(of(found, label), 8 * late)
    # Tests and tracing find the same contacts; the latter also holds the ill.
    np.testing.assert_array_equal(of(found, "0] isolated"), of(found, "2] isolated"))
    assert (of(found, "0] isolated") <= of(found, "1] quarantined")).all()
    assert of(found, "0] isolations").max() > 100


@pytest.mark.slow
def test_closures_avoid_the_contacts_of_seeds():
    """Nobody is infected: seeds would have had this many contacts, 0.4 avoided by the first."""
    closures = [ergode.LayerClosure(reduction=0.4), ergode.LayerClosure(reduction=1.0)]
    found = alone(closures, replicates=400)
    assert (fell_ill(found) == 0).all()
    both = [of(found, f"{k}] contacts avoided")[:, -1] for k in range(2)]
    law = gamma(4, scale=1.5)  # the infectious stay; seeds have spent two days of it
    rest = law.expect(lambda stay: stay - 2, lb=2, conditional=True)
    contacts = 0.3 * rest * 20 * NETWORK.degrees().mean() * (N - 20) / (N - 1)
    for seen, share in zip(both, (0.4, 0.6), strict=True):
        error = seen.std(ddof=1) / np.sqrt(seen.size)
        assert abs(seen.mean() - share * contacts) < SIGMAS * error < 0.1 * contacts


@pytest.mark.slow
def test_a_negative_test_ends_an_isolation():
    """All who fall ill are isolated; after two days, and then every half, who is no longer ill."""
    stay = ergode.Gamma(mean=4, sd=2)
    quiet = with_stay(stay, [ergode.Infection("S", "E", {"I": 1e-9})])
    tests = ergode.Testing({"I": 1.0}, isolation=40, release_after=2, release_every=0.5)
    found = alone([tests], model=quiet, initial={"E": ergode.Seeds(N, age=0.5)})
    ill, isolated = fell_ill(found), of(found, "0] isolations")
    np.testing.assert_array_equal(isolated, ill)
    released = of(found, "0] released")
    np.testing.assert_array_equal(isolated - released, of(found, "0] isolated"))
    assert (released[:, -1] == N).all()
    # A first test, and another after each that finds the person still ill.
    again = of(found, "0] tests")[:, -1] - N
    still = stay.survival(2 + 0.5 * np.arange(200)).sum()
    error = stay.variance**0.5 / 0.5 / np.sqrt(N * 20)
    assert abs(again.mean() / N - 1 - still) < SIGMAS * error


@pytest.mark.slow
def test_no_test_at_the_end_of_an_isolation():
    """After 5, 6, 7, 8 and 9 days of ten, whatever a sum of days is rounded to."""
    quiet = with_stay(ergode.Gamma(mean=1e4, sd=1e3), [ergode.Infection("S", "E", {"I": 1e-9})])
    tests = ergode.Testing({"I": 1.0}, isolation=10, release_after=5, release_every=1)
    found = alone([tests], model=quiet, initial={"E": ergode.Seeds(N, age=0.5)})
    assert (of(found, "0] tests")[:, -1] == 6 * N).all()


@pytest.mark.slow
def test_tests_of_contacts_find_a_chain_of_cases():
    """All are ill and only the first asks for a test: the next is found three days after each.

    Contacts are isolated a day after a test, and tested two days later.
    """
    row = ergode.ContactNetwork.from_edges(np.arange(N - 1), np.arange(1, N), N)
    row = row.with_attributes(first=np.arange(N) == 0, third=np.arange(N) % 3)
    plan = {"isolation": 50, "delay": 1, "tracing": 1.0, "quarantine": 20, "among": "first"}
    ill = with_stay(ergode.Gamma(mean=1e4, sd=10.0), [ergode.Infection("S", "E", {"I": 1e-9})])
    begun = {"I": ergode.Seeds(np.arange(N - 1)), "R": ergode.Seeds([N - 1], age=1.0)}
    given = {"model": ill, "network": row, "initial": begun}
    for found_too in (True, False):
        tests = ergode.Testing({"I": 1.0}, **plan, release_after=2, test_contacts=found_too)
        found, days = alone([tests], replicates=2, **given), np.arange(61)
        cases = 1 + days // 3 if found_too else np.ones(61)
        np.testing.assert_array_equal(of(found, "0] positive"), np.tile(cases, (2, 1)))
        # Of each case but the first both neighbours are traced, a day after its test.
        later = np.maximum(days - 1, -1) // 3
        traced = np.where(days < 1, 0, 1 + 2 * later) if found_too else (days >= 1) * 1.0
        np.testing.assert_array_equal(of(found, "0] traced"), np.tile(traced, (2, 1)))
        np.testing.assert_array_equal(of(found, "0] released"), 0)


@pytest.mark.slow
def test_who_takes_part_is_drawn_once_for_each():
    """Of the first third nobody is tested, of the second all, and half of the last."""
    tests = ergode.Testing({"I": 1.0}, reduction=0.0, among=HALF)
    found = by_third([tests], model=IMMUNE, replicates=400)
    later = found.isel(time=-1) - found.isel(time=0)  # seeds are in I before
    ill = later["entries"].sel(compartment="I").values
    tested = later["measures"].sel(tally="interventions[0] tests").values
    assert not tested[:, 0].any()
    np.testing.assert_array_equal(tested[:, 1], ill[:, 1])
    share, error = tested[:, 2].sum() / ill[:, 2].sum(), 0.5 / np.sqrt(ill[:, 2].sum())
    assert abs(share - 0.5) < SIGMAS * error


@pytest.mark.slow
def test_isolations_of_a_fixed_length():
    """All who fall ill are tested, and isolated for four days: who fell ill in the last four."""
    clinics = ergode.Testing({"I": 1.0}, isolation=4, reduction=0.0)
    found = alone([clinics])
    ill = fell_ill(found)
    np.testing.assert_array_equal(of(found, "0] tests"), ill)
    np.testing.assert_array_equal(of(found, "0] positive"), ill)
    np.testing.assert_array_equal(of(found, "0] isolations"), ill)
    before = np.concatenate([np.zeros((20, 4)), ill[:, :-4]], axis=1)
    np.testing.assert_array_equal(of(found, "0] isolated"), ill - before)
    # Who has entered E and is not in I yet is there, and nobody leaves D.
    entries, count = found["entries"], found["count"]
    np.testing.assert_array_equal(entries.sel(compartment="E") - ill, count.sel(compartment="E"))
    np.testing.assert_array_equal(entries.sel(compartment="D"), count.sel(compartment="D"))


def test_a_closure_between_times_is_in_force_between_them():
    closures = [ergode.LayerClosure(start=10, duration=5), ergode.LayerClosure(start=-3, stop=4)]
    found = alone(closures)
    time = found["time"].values
    assert (of(found, "0] in force") == ((time >= 10) & (time < 15))).all()
    assert (of(found, "1] in force") == (time < 4)).all()


@pytest.mark.slow
def test_who_finds_no_bed_is_turned_away():
    """Everybody who would enter H enters it or N, and is counted once."""
    found = alone([ergode.Capacity("H", 4, instead="N")])
    np.testing.assert_array_equal(
        of(found, "0] turned away"), found["entries"].sel(compartment="N")
    )
    full = found["count"].sel(compartment="H").values >= 4
    assert (of(found, "0] in force") == full)[:, 1:].all()


@pytest.mark.slow
def test_who_waits_is_tested_or_still_waits():
    """Requests are those who fall ill; each is tested, or waits, or is away."""
    for wait in (True, False):
        limited = ergode.Testing({"I": 0.0}, capacity=2, wait=wait, reduction=0.0)
        found = alone([limited], model=IMMUNE)  # nobody waits twice
        ill = fell_ill(found)
        together = of(found, "0] tests") + of(found, "0] waiting") + of(found, "0] turned away")
        np.testing.assert_array_equal(together, ill)
        assert of(found, "0] waiting" if wait else "0] turned away").max() > 5


def with_stay(stay, infections=HOSPITAL.infections):
    """The model, with this time in I."""
    latent, ill, *others = HOSPITAL.progressions
    own = ergode.Progression("I", ill.to, stay)
    return replace(HOSPITAL, infections=infections, progressions=[latent, own, *others])


@pytest.mark.parametrize(
    "stay", [ergode.Exponential(mean=2.0), ergode.Gamma(mean=5.0, sd=3.0)], ids=repr
)
def test_ages_far_in_the_tail(stay):
    """Beyond age 180 the tail is below the smallest float32."""
    quiet = with_stay(stay, [ergode.Infection("S", "E", {"I": 1e-9})])
    options = {"model": quiet, "initial": {"I": ergode.Seeds(N, age=200.0)}, "times": [0, 1.0]}
    counts = alone([], precision="auto", replicates=70, **options)
    assert counts.attrs["precision"] == "float64"
    expected = stay.survival(201.0) / stay.survival(200.0)
    found = counts["count"].sel(compartment="I").values[:, 1].sum() / (70 * N)
    assert abs(found - expected) < 5.5 * np.sqrt(expected * (1 - expected) / (70 * N))
    with pytest.raises(ergode.PlanError, match="too small for float32; use precision='float64'"):
        alone([], precision="float32", **options)


@pytest.mark.slow
def test_isolation_holds_whom_it_isolates():
    """All in I, from one day after entry on; with a fixed stay of three days."""
    model = with_stay(ergode.Deterministic(3.0))
    measure = ergode.Isolation("I", delay=1, reduction=0.0, start=5, duration=20)
    found = alone([measure], model=model, times=np.arange(61) * 0.5)
    entries = found["entries"].sel(compartment="I").values
    lag = [np.concatenate([np.zeros((20, k)), entries[:, :-k]], axis=1) for k in (2, 6)]
    time = found["time"].values
    expected = (lag[0] - lag[1]) * ((time >= 5) & (time < 25))
    np.testing.assert_array_equal(of(found, "0] isolated"), expected)


def few():
    """Measures that share a small kernel."""
    return [
        ergode.Vaccination(fraction=0.5, efficacy=0.3, rollout=10, start=5),
        ergode.Isolation("I", fraction=0.5, delay=1, start=ergode.Trigger("I", 30),
                         stop=ergode.Trigger("I", 15, below=True)),
    ]  # fmt: skip


@pytest.mark.slow
def test_strata_add_up_and_nothing_else_changes():
    both = "entries", "measures"
    plain, found = (run(few(), include=include) for include in ((), both))
    apart = run(few(), include=both, strata="third")
    np.testing.assert_array_equal(plain["count"], found["count"])
    np.testing.assert_array_equal(plain["cases"], found["cases"])
    assert "measures" not in plain and "entries" not in plain
    np.testing.assert_array_equal(apart["entries"].sum("stratum"), found["entries"])
    whole = apart["measures"].sum("stratum").values
    force = [label.endswith("in force") for label in found["tally"].values]
    whole[:, :, force] //= 3  # a measure is in force in every stratum
    np.testing.assert_array_equal(whole, found["measures"])
    statistics = run(few(), include=both, output="statistics")
    for name in both:
        np.testing.assert_allclose(statistics[f"{name}_mean"], found[name].mean("replicate"))
        np.testing.assert_allclose(
            statistics[f"{name}_quantile"].sel(level=0.5), found[name].median("replicate")
        )


@pytest.mark.slow
def test_parts_have_the_same_counts():
    for output, name in (("counts", "measures"), ("statistics", "measures_variance")):
        given = {"strata": "third", "include": ("entries", "avoided"), "output": output,
                 "initial": {"I": ergode.Seeds(20, age=2.0)}, "precision": "float64"}  # fmt: skip
        whole = run(everything(), **given)
        with ThreadPoolExecutor(1) as pool:
            parts = run(everything(), executor=pool, chunk=7, **given)
        np.testing.assert_array_equal(whole[name], parts[name])


@pytest.mark.parametrize("method", ["first-passage", "sellke", "gillespie", "renewal-leap"])
def test_entries_of_a_chain_follow_from_counts(method):
    """In S -> E -> I -> R, all who are in a compartment or beyond it have entered it."""
    found = run(model=MEMORYLESS, include="entries", method=method)
    entered = found["entries"].transpose("compartment", ...).values
    count = found["count"].transpose("compartment", ...).values
    beyond = count[::-1].cumsum(axis=0)[::-1]
    beyond[1] -= 20  # seeds began in I
    np.testing.assert_array_equal(entered[1:], beyond[1:])
    assert not entered[0].any()


@pytest.mark.slow
def test_flows_are_admissions_and_discharges():
    found = run(include="entries")
    made = flows(found)
    stock = made["entries"] - made["exits"]
    np.testing.assert_array_equal(stock, found["count"].diff("time"))
    assert (made >= 0).all().to_array().all()
    cases = simulate(
        HOSPITAL, NETWORK, initial={"I": 20}, times=np.arange(61.0), replicates=20, seed=3,
        device="cpu", output="line_list", method="sellke",
    )  # fmt: skip
    entered = cases["entered"].sel(compartment="H").values
    last = made["entries"].sel(compartment="H").sum("interval")
    np.testing.assert_array_equal(
        last, np.bincount(cases["replicate"].values[~np.isnan(entered)], minlength=20)
    )


def test_refusals(counts):
    with pytest.raises(ergode.PlanError, match="there are none"):
        run(None)
    with pytest.raises(ergode.PlanError, match="does not count what measures do"):
        run([ergode.LayerClosure(duration=3)], method="renewal-leap")
    with pytest.raises(ergode.PlanError, match="includ"):
        run(few(), include="measure")
    with pytest.raises(ergode.ModelError, match="include='entries'"):
        flows(counts)


LAYERED = ergode.ContactNetwork.from_layers(
    {"home": NETWORK, "work": ergode.ContactNetwork.erdos_renyi(N, mean_degree=4, seed=2)}
).with_attributes(third=np.arange(N) % 3)


def test_contacts_are_counted_by_layer():
    closed = ergode.LayerClosure("work", reduction=0.8, start=5)
    traced = ergode.ContactTracing("I", detection=0.5, tracing={"work": 0.4}, quarantine=10)
    both = ergode.Testing({"I": 0.8}, tracing={"home": 0.9, "work": 0.4}, quarantine=10)
    include = ("avoided", "layers")
    found = run([closed, traced, both], network=LAYERED, strata="third", include=include)
    plain = run([closed, traced, both], network=LAYERED, strata="third", include="avoided")
    shared = [name for name in found["tally"].values if " in home" not in name]
    shared = [name for name in shared if " in work" not in name]
    assert shared == plain["tally"].values.tolist()
    np.testing.assert_array_equal(found["measures"].sel(tally=shared), plain["measures"])
    for label in ("0] contacts avoided", "1] traced", "1] contacts avoided", "2] traced"):
        home, work = (of(found, f"{label} in {layer}") for layer in ("home", "work"))
        np.testing.assert_array_equal(home + work, of(found, label))
        assert work[:, -1].sum() > 0
    assert not of(found, "0] contacts avoided in home").any()
    assert not of(found, "1] traced in home").any()
    assert of(found, "2] traced in home").sum() > of(found, "2] traced in work").sum()


def test_layers_are_named():
    plan = scenario_of(LAYERED, [ergode.ContactTracing("I")], include=("avoided", "layers"))
    assert plan.include == ("measures", "avoided", "layers")
    names = [one.label.removeprefix("interventions[0] ") for one in plan.tallies]
    assert names == [
        "detected", "traced", "traced in home", "traced in work", "quarantines", "quarantined",
        "in force", "contacts avoided", "contacts avoided in home", "contacts avoided in work",
    ]  # fmt: skip
    with pytest.raises(ergode.PlanError, match="the network has no layers"):
        run(few(), include="layers")


def ensembles(include, measures, **options):
    scenario = scenario_of(NETWORK, measures, include=include, strata="third")
    common = {
        "times": np.arange(61.0), "seed": 3, "device": devices.resolve("cpu:1"),
        "precision": "float64", **options,
    }  # fmt: skip
    initial = {"I": ergode.Seeds(20, age=2.0)}
    return [kind(HOSPITAL, scenario, initial, **common) for kind in (EventEnsemble, WindowEnsemble)]


@pytest.mark.slow
def test_windows_count_the_same():
    """The plan of a GPU, on a CPU: bit for bit, and whatever the width of a window."""
    queue, windows = ensembles(("entries", "avoided"), everything())
    counts = queue.run(0, 20)[0][0]
    np.testing.assert_array_equal(counts, windows.run(0, 20)[0][0])
    windows.width = windows.width * 0.3
    np.testing.assert_array_equal(counts, windows.run(0, 20)[0][0])
    assert (counts.reshape(20 * 61, -1).max(axis=0) > 0).mean() > 0.8  # nearly all happens


@pytest.mark.slow
def test_the_kernel_compiles_to_ptx():
    pytest.importorskip("numba.cuda")
    ensemble = ensembles(("entries", "avoided"), everything())[1]
    assert ".entry" in ptx_of(ensemble, "float64")


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_counts_the_same(precision):
    given = {"precision": precision, "include": ("entries", "avoided"), "strata": "third"}
    host = run(everything(), **given)
    other = run(everything(), device="cuda", **given)
    for name in ("count", "cases", "entries", "measures"):
        np.testing.assert_array_equal(host[name], other[name])


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["first-passage", "renewal-leap", "markov-leap"])
@pytest.mark.parametrize("strata", [None, "third"])
def test_cuda_counts_the_same_entries(method, strata):
    given = {"model": MEMORYLESS, "include": "entries", "method": method, "strata": strata}
    np.testing.assert_array_equal(run(**given)["entries"], run(device="cuda", **given)["entries"])
