"""Vaccination: severity and waning, and what is refused."""

import numpy as np
import pytest

import ergode
from ergode.epidemics import simulate

NODES = 400
PEOPLE = ergode.ContactNetwork.erdos_renyi(NODES, mean_degree=8, seed=1)
DAY = ergode.Exponential(mean=2.0)
SHARE = {"H": 0.4, "D": 0.1, "R": 0.5}
MODEL = ergode.CompartmentModel(
    ["S", "I", "H", "D", "R"],
    [ergode.Infection("S", "I", {"I": 0.3})],
    [ergode.Progression("I", SHARE, DAY)],
)
# Vaccinates nobody: so that all tests share a kernel.
NOBODY = ergode.Vaccination(
    fraction=0.0, efficacy=[0.5, 0.5], interval=1, severity={"H": 0.5}, waning=DAY
)


def run(*vaccinations, model=MODEL, people=PEOPLE, **options):
    settings = {
        "initial": {"I": 10}, "times": np.arange(0, 41.0), "replicates": 10, "seed": 2,
        "device": "cpu", "method": "sellke", "precision": "float32",
    }  # fmt: skip
    return simulate(
        model, people, interventions=[*vaccinations, NOBODY], **(settings | options)
    )  # fmt: skip


def final(counts, *names):
    return counts["count"].isel(time=-1).sel(compartment=list(names)).sum("replicate").values


def test_severity_averts_a_branch_and_no_infection():
    nothing = run()
    all_spared = run(ergode.Vaccination(efficacy=0.0, severity={"H": 1.0}))
    np.testing.assert_array_equal(all_spared["cases"], nothing["cases"])  # H infects nobody
    hospital, died, well = final(all_spared, "H", "D", "R")
    assert hospital == 0
    # The others in proportion: one in six dies. Here and below six standard deviations.
    cases = died + well
    assert cases > 3_000
    assert abs(died / cases - 1 / 6) < 6 * np.sqrt(5 / 36 / cases)
    some = run(ergode.Vaccination(efficacy=0.0, severity={"H": 0.7, "D": 0.5}))
    hospital, died, well = final(some, "H", "D", "R")
    cases = hospital + died + well
    for found, expected in ((hospital, 0.4 * 0.3), (died, 0.1 * 0.5)):
        assert abs(found / cases - expected) < 6 * np.sqrt(expected * (1 - expected) / cases)
    # Nobody is protected when the first days end.
    late = run(ergode.Vaccination(efficacy=0.0, severity={"H": 1.0}, start=100.0))
    np.testing.assert_array_equal(late["count"], nothing["count"])


def test_two_vaccines_act_one_after_the_other():
    both = [ergode.Vaccination(efficacy=0.0, severity={"H": 0.5}) for _ in range(2)]
    hospital, died, well = final(run(*both), "H", "D", "R")
    cases = hospital + died + well
    assert abs(hospital / cases - 0.1) < 6 * np.sqrt(0.09 / cases)


def test_a_vaccination_without_effect_changes_no_other():
    """Of nobody, waned, not begun, or over: who is spared H still dies with 1 in 6."""
    spared = ergode.Vaccination(efficacy=0.0, severity={"H": 1.0})
    alone = run(spared)
    without_effect = [
        ergode.Vaccination(fraction=0.0, severity={"D": 0.5}),
        ergode.Vaccination(efficacy=0.0, severity={"D": 0.9}, duration=0.0),
        ergode.Vaccination(efficacy=0.0, severity={"D": 0.9}, delay=1e6),
        ergode.Vaccination(
            efficacy=0.0, severity={"D": 0.9}, waning=ergode.Calendar([0, 1e-6], [1.0, 0.0])
        ),
    ]
    for idle in without_effect:
        np.testing.assert_array_equal(run(spared, idle)["count"], alone["count"])


def test_averted_cases_meet_the_other_vaccinations_of_a_node():
    """Who is spared H goes to D or R as the other vaccine leaves them."""
    both = [
        ergode.Vaccination(efficacy=0.0, severity={"H": 0.5}),
        ergode.Vaccination(efficacy=0.0, severity={"D": 0.5}),
    ]
    # D keeps 0.1 x 0.5; of 0.4 x 0.5 averted from H, 0.05 of 0.05 + 0.5 die. Those averted from
    # D enter H, of which 0.2 is left, or R.
    spared = 0.2 * 0.05 / 0.55
    expected = {"H": 0.2 + 0.05 * 0.2 / 0.7, "D": 0.05 + spared}
    counts = {name: final(run(*both), name)[0] for name in ("H", "D", "R")}
    cases = sum(counts.values())
    for name, chance in expected.items():
        error = np.sqrt(chance * (1 - chance) / cases)
        assert abs(counts[name] / cases - chance) < 6 * error


def test_a_table_of_waning_that_ends_is_a_duration():
    common = {"fraction": 0.8, "efficacy": 0.9, "infectivity_reduction": 0.5, "rollout": 5.0}
    ends = run(ergode.Vaccination(**common, severity={"D": 0.9}, duration=3.0))
    table = ergode.Calendar([0, 3], [1.0, 0.0])
    wanes = run(ergode.Vaccination(**common, severity={"D": 0.9}, waning=table))
    np.testing.assert_array_equal(wanes["count"], ends["count"])
    never = run(ergode.Vaccination(**common, waning=ergode.Exponential(mean=1e12)))
    lasts = run(ergode.Vaccination(**common))
    np.testing.assert_array_equal(never["count"], lasts["count"])
    soon = run(ergode.Vaccination(**common, waning=ergode.Exponential(mean=2.0)))
    assert final(lasts, "S") > 1.5 * final(soon, "S") > 0


AGED = PEOPLE.with_attributes(
    age=np.arange(NODES) % 50, old=np.arange(NODES) % 50 >= 25,
    risk=np.where(np.arange(NODES) < 100, "high", "low"),
)  # fmt: skip
LONELY = ergode.CompartmentModel(
    MODEL.compartments, [ergode.Infection("S", "I", {"I": 1e-9})], MODEL.progressions
)


def protected(time, *vaccinations, replicates=4, **options):
    """Nodes that are fully protected at a time: at which a case from outside meets everybody."""
    visits = ergode.Importation("I", times=np.full(20 * NODES, time))
    counts = run(
        *vaccinations, model=LONELY, people=AGED, initial={}, importations=[visits],
        times=[0, time + 1], replicates=replicates, **options,
    )  # fmt: skip
    return counts["count"].isel(time=-1).sel(compartment="S").values.tolist()


def test_doses_are_given_one_after_another():
    daily = ergode.Vaccination(dose_rate=10.0, start=2)
    assert protected(1.9, daily) == [0] * 4
    assert protected(4.05, daily) == protected(4.09, daily) == [20] * 4
    assert protected(4.1, daily) == [21] * 4
    late = ergode.Vaccination(dose_rate=10.0, start=2, delay=1)
    assert protected(4.1, late) == [11] * 4
    by_day = ergode.Vaccination(dose_rate=ergode.Calendar([0, 3, 5], [10, 0, 40]))
    assert [protected(t, by_day)[0] for t in (2.5, 4.9, 6.0)] == [25, 30, 70]
    weekdays = ergode.Vaccination(dose_rate=ergode.Calendar([0, 5], [10, 0], period=7), start=3)
    assert [protected(t, weekdays)[0] for t in (6.5, 8.05)] == [20, 30]
    some = ergode.Vaccination(fraction=0.25, dose_rate=100.0)
    assert protected(30, some) == [100] * 4


def test_a_later_dose_comes_before_a_first_one():
    """The second dose protects."""
    two = ergode.Vaccination(efficacy=[0, 1], interval=2, dose_rate=10.0)
    # Second doses of the first 20 come on days 2 to 4, then first doses, then their second ones.
    assert [protected(t, two)[0] for t in (2.05, 4.05, 6.05, 8.05)] == [0, 20, 20, 40]
    scarce = ergode.Vaccination(efficacy=[0, 1], interval=[0.55], dose_rate=10.0)
    assert [protected(t, scarce)[0] for t in (0.65, 0.75, 1.15, 1.25)] == [0, 1, 5, 6]
    boosters = ergode.Vaccination(efficacy=[0, 0, 1], interval=[1, 5], rollout=0)
    assert [protected(t, boosters)[0] for t in (5.9, 6.1)] == [0, NODES]


def test_priority():
    old = ergode.Vaccination(among="old")
    by_age = {"dose_rate": 40.0, "priority": "age"}
    assert protected(4.99, old, ergode.Vaccination(**by_age)) == [200] * 4
    assert protected(7.01, old, ergode.Vaccination(**by_age)) == [280] * 4
    youngest = ergode.ByAttribute("age", [2.0, 1.0], groups=[0, 25])
    young = ergode.Vaccination(dose_rate=40.0, priority=youngest)
    assert protected(4.99, old, young) == [399] * 4
    # Half of each age: 4 of the 8 nodes.
    half = ergode.Vaccination(fraction=0.5, **by_age)
    assert protected(2.51, old, half) == [200] * 4
    assert protected(2.61, old, half) == [204] * 4
    risk = ergode.ByAttribute("risk", {"low": 0.0, "high": 1.0})
    first = ergode.Vaccination(dose_rate=40.0, priority=risk)
    assert protected(2.5, first) == [100] * 4


def test_a_booster_restores_what_has_waned():
    fades = {"waning": ergode.Calendar([0, 3], [1.0, 0.0]), "among": "old"}
    once = ergode.Vaccination(**fades)
    again = ergode.Vaccination(efficacy=[1, 1], interval=4, **fades)
    assert [protected(t, once)[0] for t in (2.9, 3.1, 4.1)] == [200, 0, 0]
    assert [protected(t, again)[0] for t in (2.9, 3.1, 4.1, 7.1)] == [200, 0, 200, 0]


def test_parts_of_an_ensemble_vaccinate_the_same_nodes():
    programme = ergode.Vaccination(
        fraction=0.6, efficacy=[0.5, 0.9], interval=3, dose_rate=30.0, priority="age"
    )
    whole = run(programme, people=AGED)
    part = run(programme, people=AGED, replicates=range(6, 10))
    np.testing.assert_array_equal(part["count"], whole["count"][6:])


def test_what_time_steps_do_not_take():
    spared = ergode.Vaccination(severity={"H": 0.5})
    with pytest.raises(ergode.PlanError, match="with a severity acts at the exact time of a move"):
        simulate(
            MODEL, PEOPLE, initial={"I": 1}, times=[0, 1], interventions=[spared],
            method="renewal-leap",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ergode.Vaccination(severity=0.5), "severity is 0.5; expected compartments"),
        (lambda: ergode.Vaccination(severity={"H": -1}), "severity of 'H' is -1"),
        (lambda: ergode.Vaccination(waning=3.0), "waning is 3.0; expected an Exponential"),
        (
            lambda: ergode.Vaccination(waning=ergode.Calendar([0, 1], [1, 0], period=7)),
            "expected an Exponential, or a Calendar of times since protection that does not",
        ),
        (
            lambda: ergode.Vaccination(waning=ergode.Calendar([0, 1], [1, 2])),
            "a factor of waning is above 1",
        ),
        (lambda: ergode.Vaccination(leaky=False, waning=DAY), "waning goes with a leaky vaccine"),
        (lambda: ergode.Vaccination(dose_rate=-5), "dose_rate is -5; expected a number, 0 or more"),
        (lambda: ergode.Vaccination(dose_rate=float("inf")), "inf; expected a finite number, 0 or"),
        (lambda: ergode.Vaccination(dose_rate=float("nan")), "dose_rate is nan; expected"),
        (lambda: ergode.Vaccination(dose_rate=5, rollout=3), "a rollout and a dose_rate; expected"),
        (lambda: ergode.Vaccination(priority="age"), "priority is for doses one after another"),
        (
            lambda: ergode.Vaccination(
                dose_rate=ergode.Calendar([0], [1]), start=ergode.Trigger("I", 2)
            ),
            "dose_rate is a Calendar of times, but a Trigger starts it",
        ),
        (
            lambda: run(
                ergode.Vaccination(dose_rate=ergode.Calendar(["2026-02-01"], [5])),
                origin="2026-03-01",
            ),
            "dose_rate: changes is 2026-02-01, before the origin 2026-03-01",
        ),
        (lambda: ergode.Vaccination(efficacy=[0.5, 0.8]), "of 2 doses, but there is no interval"),
        (lambda: ergode.Vaccination(interval=3), "for several doses, but efficacy is of 1 dose;"),
        (
            lambda: ergode.Vaccination(efficacy=[0.5, 0.8], interval=[20, 30]),
            "interval is for 3 doses, but efficacy is of 2 doses; expected an efficacy for each",
        ),
        (lambda: ergode.Vaccination(efficacy=[0, 1], interval=0), "interval is 0; expected a fini"),
        (lambda: ergode.Vaccination(efficacy=[]), "efficacy is empty; expected one for each dose"),
        (
            lambda: ergode.Vaccination(efficacy=[0, 1], interval=1, severity={"H": [1]}),
            "severity of 'H' has 1 numbers for 2 doses",
        ),
        (
            lambda: run(ergode.Vaccination(dose_rate=1e300)),
            r"dose_rate gives \S+ doses until the last time",
        ),
        (
            lambda: run(ergode.Vaccination(dose_rate=5, priority="sex")),
            r"interventions\[0\] needs the node attribute 'sex'",
        ),
        (
            lambda: run(ergode.Vaccination(dose_rate=5, priority="risk"), people=AGED),
            "priority 'risk' has values that are no finite numbers",
        ),
        (lambda: run(ergode.Vaccination(severity={"Q": 0.5})), "unknown compartment 'Q'"),
        (
            lambda: run(ergode.Vaccination(severity={"I": 0.5})),
            r"interventions\[0\] reduces the severity 'I', which is no branch of the model",
        ),
        (
            lambda: run(ergode.Vaccination(severity={"D": 0.5, "R": 1})),
            "reduces the branch I -> D, which has no other branch beside it",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(wrong, said):
    with pytest.raises(ergode.ModelError, match=said) as error:
        wrong()
    assert "\n" not in str(error.value)
