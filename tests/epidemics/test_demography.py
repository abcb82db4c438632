"""Populations that grow, shrink and age: against their equations, and on both devices."""

import numpy as np
import pytest
from scipy.linalg import expm

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

SIGMAS = 5.6  # a family-wise 1e-6
N, UNBORN = 300, 2000
NETWORK = ergode.ContactNetwork.erdos_renyi(N + UNBORN, mean_degree=8, seed=1)
SIR = ergode.CompartmentModel.sir(transmission_rate=0.1, infectious=ergode.Gamma(mean=5, sd=3))
AGEING, DEATH, BIRTH = 0.04, 0.05, 0.08  # of the young, of the old, of each person
MIXING = [[2.0, 0.5], [0.5, 1.0]]


def population(births, newborns=None, deaths=None):
    return SIR.with_population(
        births=births, unborn=UNBORN, newborns=newborns, groups=["young", "old"],
        moves={("young", "old"): AGEING}, deaths={"old": DEATH} if deaths is None else deaths,
        mixing=MIXING,
    )  # fmt: skip


def begun(young):
    """The rest begins young, as the base compartment."""
    return {"S old": np.arange(young, N), "unborn": np.arange(N, N + UNBORN)}


def alive(found):
    """People of both groups [..., group]."""
    groups = [[f"{c} {group}" for c in ("S", "I", "R")] for group in ("young", "old")]
    return np.stack([found["count"].sel(compartment=g).sum("compartment") for g in groups], -1)


def is_near(seen, expected):
    """Whether means over replicates [replicate, ...] are as expected."""
    error = seen.std(axis=0, ddof=1) / np.sqrt(len(seen))
    assert (abs(seen.mean(axis=0) - expected) <= SIGMAS * error + 1e-9).all()


def run(model, initial, **options):
    given = {"times": np.arange(0, 41.0, 10), "replicates": 200, "seed": 3, "device": "cpu"}
    return simulate(model, NETWORK, initial=initial, **given | options)


@pytest.mark.slow
def test_a_steady_state_stays():
    """Births enter the young, who become old at a rate, and then die: n = births / rate."""
    births = N / (1 / AGEING + 1 / DEATH)
    steady = np.array([births / AGEING, births / DEATH])
    found = run(population(births), begun(round(steady[0])))
    is_near(alive(found)[:, 1:], np.broadcast_to(steady, (4, 2)) + 0.0)
    assert (found["count"].sum("compartment") == N + UNBORN).all()
    born = UNBORN - found["count"].sel(compartment="unborn").values
    dead = found["count"].sel(compartment="dead").values
    np.testing.assert_array_equal(alive(found).sum(axis=-1), N + born - dead)
    # Of many unborn, births are as good as a Poisson process.
    is_near(born[:, 1:], births * np.arange(10, 41, 10))


@pytest.mark.slow
def test_a_population_grows_exponentially():
    """With births of each person at a rate, and deaths and moves, in both groups."""
    rate = BIRTH - 0.05
    steps = np.linspace(0, 40, 401)
    growth = N * BIRTH * np.exp(rate * (steps[:-1] + 0.05)) * np.sinh(rate * 0.05) / (rate * 0.05)
    model = population(ergode.Calendar(steps[:-1], growth), deaths=0.05)
    found = run(model, begun(200))
    flow = np.array([[-AGEING - 0.05 + BIRTH, BIRTH], [AGEING, -0.05]])
    expected = [expm(flow * t) @ [200, N - 200] for t in (10, 20, 30, 40)]
    np.testing.assert_allclose(np.sum(expected, axis=1), N * np.exp(rate * np.arange(10, 41, 10)))
    is_near(alive(found)[:, 1:], np.array(expected))


@pytest.mark.slow
def test_an_epidemic_among_newcomers_is_the_same_by_windows():
    """The plan of a GPU, on a CPU: bit for bit; some newcomers are infectious."""
    model = population(6.0, {"S young": 0.9, "I old": 0.1})
    plan = scenario_of(NETWORK, include="entries")
    found = [
        kind(
            model, plan, begun(150) | {"I young": np.arange(5)}, times=np.arange(41.0), seed=3,
            device=devices.resolve("cpu:1"), precision="float32",
        ).run(0, 8)[0][0]
        for kind in (EventEnsemble, WindowEnsemble)
    ]  # fmt: skip
    np.testing.assert_array_equal(*found)
    assert found[0].max(axis=(0, 1)).min() > 0


def test_measures_are_for_the_living():
    """Who is not born or dead gets no dose, is not traced, and is in no quarantine."""
    plan = [
        ergode.Vaccination(efficacy=0.5, start=10.0),
        ergode.ContactTracing("I young", quarantine=3.0, tracing_delay=1.0, reduction=0.0),
    ]  # fmt: skip
    initial = begun(150) | {"I young": np.arange(5)}
    found = run(
        population(6.0), initial, replicates=20, interventions=plan, include="measures",
        times=[0.0, 2.0, 10.0, 20.0, 40.0],
    )  # fmt: skip
    doses = found["measures"].sel(tally="interventions[0] dose 1").values
    living = alive(found).sum(axis=-1)
    np.testing.assert_array_equal(doses, np.where(np.arange(5) > 1, living[:, 2:3], 0))
    traced = found["measures"].sel(tally="interventions[1] traced").values
    # Of 40 contacts of the first cases five or so are born; then few are infected.
    assert (traced[:, 1] > 0).all() and (traced[:, 1] < 25).all()


def test_models():
    model = population(1.0)
    assert model.outside == ("unborn", "dead") and "unborn" not in model.infected
    young, old = model.infections
    assert young.transmission_rate == {"I young": 0.2, "I old": 0.05}
    assert old.transmission_rate == {"I young": 0.05, "I old": 0.1}
    stays = {p.compartment: p for p in model.progressions}
    assert stays["S young"].to == {"S old": 1.0}
    assert stays["I old"].exit_to == {"dead": 1.0} and stays["I old"].exit_rate == DEATH
    law = stays["unborn"].holding_time
    assert (law.times.tolist(), law.cdf.tolist()) == ([0.0, UNBORN], [0.0, 1.0])
    some = SIR.with_population(births=ergode.Calendar([-5, 10, 20], [2, 0, 4]), unborn=60)
    law = some.progressions[-1].holding_time
    assert (law.times.tolist(), law.cdf.tolist()) == ([0, 10, 20, 30], [0, 1 / 3, 1 / 3, 1])
    assert some.digest != SIR.digest
    with pytest.raises(ergode.PlanError, match="enter 'S', as newborns do"):
        run(some, {"unborn": 60}, method="first-passage")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"births": 1.0}, "unborn is 0"), ({"births": 0.0, "unborn": 5}, "above zero"),
        ({"groups": ["one"]}, "two or more"), ({"deaths": -1.0}, "zero or more"),
        ({"deaths": {"old": 1.0}}, "expected two of the groups .there are none"),
        ({"newborns": "S"}, "no births"),
        ({"births": 1.0, "unborn": 5, "newborns": "Q"}, "newborns enter Q; expected"),
        ({"groups": ["a", "b"], "moves": {("a", "c"): 1.0}}, "two of the groups a, b"),
        ({"groups": ["a", "b"], "mixing": [1.0]}, "2 rows of 2"),
    ],
)  # fmt: skip
def test_refusals(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        SIR.with_population(**given)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_has_the_same_population(precision):
    model = population(6.0, {"S young": 0.9, "I old": 0.1})
    initial = begun(150) | {"I young": np.arange(5)}
    one, other = (
        run(model, initial, replicates=20, precision=precision, device=device, include="entries")
        for device in ("cpu", "cuda")
    )
    for name in ("count", "entries"):
        np.testing.assert_array_equal(one[name], other[name])
