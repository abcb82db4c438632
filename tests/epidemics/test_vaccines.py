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
NOBODY = ergode.Vaccination(fraction=0.0, severity={"H": 0.5}, waning=DAY)


def run(*vaccinations, model=MODEL, **options):
    settings = {
        "initial": {"I": 10}, "times": np.arange(0, 41.0), "replicates": 10, "seed": 2,
        "device": "cpu", "method": "sellke", "precision": "float32",
    }  # fmt: skip
    return simulate(
        model, PEOPLE, interventions=[*vaccinations, NOBODY], **(settings | options)
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
