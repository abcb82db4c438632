"""Births at a rate of each living person: the law of Kendall, on all methods and devices."""

import numpy as np
import pytest

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

SIGMAS = 5.0
N, UNBORN, BIRTH, DEATH = 5, 295, 0.09, 0.06
NETWORK = ergode.ContactNetwork.erdos_renyi(N + UNBORN, mean_degree=4, seed=1)
SIR = ergode.CompartmentModel.sir(transmission_rate=0.1, infectious=ergode.Exponential(mean=5))
MODEL = SIR.with_population(birth_rate=BIRTH, deaths=DEATH)
INITIAL = {"unborn": UNBORN, "I": 2}
TIMES = np.array([0.0, 8.0, 16.0, 24.0])


def run(model=MODEL, initial=INITIAL, network=NETWORK, **options):
    given = {"times": TIMES, "replicates": 10_000, "seed": 3, "device": "cpu"}
    return simulate(model, network, initial=initial, **given | options)


def alive(found):
    return found["count"].sel(compartment=["S", "I", "R"]).sum("compartment").values


def is_kendall(seen):
    """Whether numbers of people [replicate, time] are those of a birth-and-death process."""
    count = len(seen)
    growth = np.exp((BIRTH - DEATH) * TIMES[1:])
    mean = N * growth
    variance = mean * (BIRTH + DEATH) / (BIRTH - DEATH) * (growth - 1)
    none = (DEATH * (growth - 1) / (BIRTH * growth - DEATH)) ** N
    seen = seen[:, 1:]
    assert (abs(seen.mean(axis=0) - mean) < SIGMAS * np.sqrt(variance / count)).all()
    squares = (seen - mean) ** 2
    assert (abs(squares.mean(axis=0) - variance) < SIGMAS * squares.std(axis=0) / count**0.5).all()
    error = np.sqrt(none * (1 - none) / count)
    assert (abs((seen == 0).mean(axis=0) - none) < SIGMAS * error).all()


@pytest.mark.parametrize("method", ["gillespie", "sellke"])
def test_the_number_of_people_is_a_linear_birth_and_death_process(method):
    # A replicate takes a time for each node, more so for one that is drawn.
    few = ergode.ContactNetwork.erdos_renyi(105, mean_degree=4, seed=1)
    named = {"unborn": np.arange(N, 105), "I": [0, 1]}
    is_kendall(alive(run(method=method, initial=named, network=few, include="entries")))


@pytest.mark.parametrize("method", ["gillespie", "sellke"])
def test_people_who_are_ill_have_fewer_children(method):
    """Against the expected number of children, which follows from the compartments."""
    model = SIR.with_population(birth_rate={"S": BIRTH, "R": BIRTH / 3}, deaths=DEATH)
    grid = np.linspace(0, 24, 49)
    found = run(model, method=method, times=grid, replicates=1_000, include="entries")
    count = found["count"].sel(compartment=["S", "R"]).values @ [BIRTH, BIRTH / 3]
    expected = np.trapezoid(count, grid, axis=1)
    difference = found["entries"].sel(compartment="S").values[:, -1] - expected
    assert expected.mean() > 2
    assert abs(difference.mean()) < SIGMAS * difference.std() / len(difference) ** 0.5 + 2e-3


def test_points_of_a_sweep_are_single_runs():
    """Also where nobody has children, those who are ill have none, or others are unborn."""

    def model(rate, ill):
        return SIR.with_population(
            birth_rate={"S": rate, "I": rate * ill, "R": 1.5 * rate}, deaths=DEATH
        )

    def initial(first):
        return {"unborn": np.arange(first, first + 270), "I": [first + 275]}

    given = {"replicates": 50, "method": "gillespie", "include": "entries"}
    points = {
        "rate": [0.0, 0.03, 0.06, 0.06], "ill": [0.2, 0.2, 0.0, 0.0], "first": [3, 3, 3, 20],
    }  # fmt: skip
    swept = run(model, initial, parameters=points, **given)["count"]
    for k, (rate, ill, first) in enumerate(zip(*points.values(), strict=True)):
        alone = run(model(rate, ill), initial(first), **given)["count"]
        np.testing.assert_array_equal(swept[k], alone)
    assert (swept.sel(compartment="unborn").values[0] == 270).all()
    assert not np.array_equal(swept[1], swept[2]) and not np.array_equal(swept[2], swept[3])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_windows_have_the_same_births(precision):
    """The plan of a GPU, on a CPU: bit for bit, with triggers, named and drawn unborn nodes."""
    model = SIR.with_population(
        birth_rate={"young": 0.6, "old": 0.1}, deaths=0.1, groups=["young", "old"],
        moves={("young", "old"): 0.1}, newborns={"S young": 0.9, "I old": 0.1},
    )  # fmt: skip
    closure = ergode.LayerClosure(reduction=0.5, start=ergode.Trigger(level=12, count="S young"))
    plan = scenario_of(NETWORK, include="entries", interventions=[closure])
    drawn = {"unborn": UNBORN, "I young": 2}
    named = {"unborn": np.arange(N, N + UNBORN), "I young": [0, 2]}
    for initial in (drawn, named):
        found = [
            kind(
                model, plan, initial, times=np.linspace(0, 6, 25), seed=3, precision=precision,
                device=devices.resolve("cpu:1"), listing=True,
            ).run(0, 20)[0][0]
            for kind in (EventEnsemble, WindowEnsemble)
        ]  # fmt: skip
        np.testing.assert_array_equal(*found)
        assert found[0][:, -1, model.index["unborn"]].max() < UNBORN - 5


def test_a_replicate_without_unborn_nodes_ends():
    """Its values before that are kept, and those of other replicates; statistics leave it out."""
    given = {"replicates": 20, "method": "gillespie", "times": np.linspace(0, 100, 21)}
    given["include"] = "entries"
    with pytest.warns(ergode.FailureWarning, match="of 20 replicates, .*later births would be"):
        found = run(**given)
    short = found["status"].values == ergode.Status.ALL_BORN
    assert 0 < short.sum() < 20
    left = found["count"].sel(compartment="unborn").values
    assert (np.isnan(left).any(axis=1) == short).all()
    assert (left[~np.isnan(left)] > 0).all()
    kept = np.nan_to_num(found["count"].sum("compartment").values)
    assert set(np.unique(kept)) == {0.0, float(N + UNBORN)}
    with pytest.warns(ergode.FailureWarning):
        mean = run(output="statistics", **given)
    np.testing.assert_allclose(mean["mean"], found["count"].values[~short].mean(axis=0))
    with pytest.warns(ergode.FailureWarning):
        parts = [run(**given | {"replicates": r}) for r in (range(8), range(8, 20))]
    np.testing.assert_array_equal(ergode.concat(parts)["count"], found["count"])


def test_too_few_unborn_nodes_are_an_error():
    with pytest.raises(ergode.ModelError, match="initial names no nodes in 'unborn'"):
        run(initial={"I": 2})
    with pytest.raises(ergode.ModelError, match="a person has up to 9e.08 children"):
        run(times=[0.0, 1e10])


@pytest.mark.parametrize("method", ["first-passage", "renewal-leap", "markov-leap"])
def test_other_methods_refuse(method):
    with pytest.raises(ergode.PlanError, match="people have children at a rate"):
        run(method=method)


def test_models():
    assert (MODEL.unborn, MODEL.births_by) == ("unborn", {"S": 1.0, "I": 1.0, "R": 1.0})
    assert SIR.unborn is None and SIR.births_by == {}
    assert MODEL.outside == ("unborn", "dead")
    again = SIR.with_population(birth_rate={"S": BIRTH, "I": BIRTH, "R": BIRTH}, deaths=DEATH)
    other = SIR.with_population(birth_rate={"S": BIRTH, "I": 0.0, "R": BIRTH}, deaths=DEATH)
    assert again == MODEL and again.digest == MODEL.digest
    assert other != MODEL and other.digest != MODEL.digest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"birth_rate": 0.1, "births": 1.0}, "births and a birth_rate"),
        ({"birth_rate": {}}, "birth_rate is empty"),
        ({"birth_rate": {"S": -1.0}}, "birth_rate of 'S' is -1.0; expected a finite"),
        ({"birth_rate": {"Q": 1.0}}, "birth_rate of 'Q'; expected a group or a compartment: I, R"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(ergode.ModelError, match=message):
        SIR.with_population(**given)


def test_nobody_waits_to_be_born():
    full = ergode.Capacity("S", places=3, wait=True)
    with pytest.raises(ergode.ModelError, match="wait for 'S', which newborns enter"):
        run(interventions=[full])


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_has_the_same_births(precision):
    one, other = (
        run(replicates=300, precision=precision, device=device) for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(one["count"], other["count"])
