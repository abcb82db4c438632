"""Births and deaths, and exits at a rate: against what is known."""

import numpy as np
import pytest
from scipy.integrate import quad

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

SIGMAS = 5.6  # a family-wise 1e-6
N = 300
NETWORK = ergode.ContactNetwork.erdos_renyi(N, mean_degree=8, seed=1).with_attributes(
    half=np.arange(N) % 2
)
STAY = ergode.Gamma(mean=5.0, sd=3.0)


def treated(rate, stay=STAY, to="Q", transmission=0.2):
    return ergode.CompartmentModel(
        ["S", "I", "R", "Q", "D"],
        [ergode.Infection("S", "I", {"I": transmission})],
        [
            ergode.Progression("I", "R", stay, exit_rate=rate, exit_to=to),
            ergode.Progression("R", "S", ergode.Exponential(mean=20)),
            ergode.Progression("Q", {"R": 0.9, "D": 0.1}, ergode.Deterministic(4.0)),
        ],
    )


def renewed(transmission, stay, rate, *to):
    """SIR with turnover, and with the kernel of `treated`: nobody is in Q."""
    model = ergode.CompartmentModel(
        ["S", "I", "R", "Q"],
        [ergode.Infection("S", "I", {"I": transmission})],
        [
            ergode.Progression("I", {"R": 1.0, "Q": 0.0}, stay),
            ergode.Progression("Q", "R", ergode.Deterministic(4.0)),
        ],
    )
    return model.with_turnover(ergode.ByAttribute("half", {0: rate, 1: rate}), *to)


@pytest.mark.slow
def test_the_earlier_of_two_ends_a_stay():
    """All begin in I: P(I) = S(t) exp(-r t), and an exit by t has the integral of r P(I)."""
    rates = {0: 0.1, 1: 0.4}
    model = treated(ergode.ByAttribute("half", rates), to={"Q": 0.75, "D": 0.25},
                    transmission=1e-9)  # fmt: skip
    found = simulate(
        model, NETWORK, initial={"I": np.arange(N)}, times=[0, 2.0, 3.9], replicates=400, seed=1,
        strata="half", device="cpu", include="entries",
    )  # fmt: skip
    people = 400 * N / 2
    for half, rate in rates.items():

        def stays(t, rate=rate):
            return STAY.survival(t) * np.exp(-rate * t)

        for t in (2.0, 3.9):
            here = found.sel(stratum=half, time=t)
            left = quad(lambda u, rate=rate: rate * stays(u), 0, t)[0]
            for name, p in (("Q", 0.75 * left), ("D", 0.25 * left)):
                seen = float(here["entries"].sel(compartment=name).sum()) / people
                assert abs(seen - p) < SIGMAS * np.sqrt(p * (1 - p) / people)
            seen, p = float(here["count"].sel(compartment="I").sum()) / people, stays(t)
            assert abs(seen - p) < SIGMAS * np.sqrt(p * (1 - p) / people)


@pytest.mark.slow
def test_windows_have_the_same_exits():
    """The plan of a GPU, on a CPU: bit for bit."""
    model = treated(ergode.ByAttribute("half", {0: 0.1, 1: 0.3}), to={"Q": 0.75, "D": 0.25})
    found = []
    for kind in (EventEnsemble, WindowEnsemble):
        ensemble = kind(
            model, scenario_of(NETWORK, strata="half", include="entries"), {"I": 10},
            times=np.arange(61.0), seed=3, device=devices.resolve("cpu:1"), precision="float32",
        )  # fmt: skip
        found.append(ensemble.run(0, 20)[0][0])
    np.testing.assert_array_equal(*found)
    assert found[0].max(axis=(0, 1)).min() > 0


def test_an_exponential_stay_and_an_exit_are_one():
    one = treated(0.25, ergode.Exponential(mean=4.0))
    assert one.progressions[0].holding_time == ergode.Exponential(mean=2.0)
    assert one.progressions[0].branches == {"R": 0.5, "Q": 0.5}
    assert not one.has_exits and treated(0.25).has_exits
    options = {"initial": {"I": 10}, "times": [0, 5.0], "device": "cpu"}
    memoryless = ergode.CompartmentModel.sir(
        transmission_rate=0.2, infectious=ergode.Exponential(mean=4.0)
    ).with_turnover(0.1, {"S": 0.5, "R": 0.5})
    found = simulate(memoryless, NETWORK, method="gillespie", **options)["count"]
    assert found.sum() == 2 * N and found.sel(time=5.0, compartment="R") > 0


@pytest.mark.slow
@pytest.mark.parametrize("stay", [ergode.Exponential(mean=1.0), ergode.Gamma(mean=1.0, sd=0.5)])
def test_endemic_state(stay):
    """Well mixed: S* = N / R0, new infections rate (N - S*), each for the mean of min(T, death).

    A plain chain of 600 people has 1.6 % more susceptible people than N / R0, and 0.8 % fewer
    infectious ones. The rest is chance: five standard errors of the means.
    """
    rate, beta, count = 0.5, 6.0, 600
    infectious = quad(lambda t: stay.survival(t) * np.exp(-rate * t), 0, 60)[0]  # mean time
    r0 = beta * infectious
    if isinstance(stay, ergode.Exponential):
        np.testing.assert_allclose(r0, beta / (1.0 + rate), rtol=1e-6)
    model = renewed(beta / count, stay, rate)
    everybody = ergode.ContactNetwork.stochastic_block_model([count], probabilities=[[1.0]], seed=1)
    found = simulate(
        model, everybody.with_attributes(half=np.arange(count) % 2), include="entries",
        initial={"I": 150, "R": 300}, times=np.arange(31.0), replicates=6, seed=2, device="cpu",
        method="sellke", strata="half",
    )  # fmt: skip
    later = found.sel(time=slice(10, None)).sum("stratum")
    mean = later["count"].mean(["time", "replicate"])
    susceptible = count / r0
    new = rate * (count - susceptible)
    np.testing.assert_allclose(mean.sel(compartment="S"), susceptible, rtol=0.08)
    np.testing.assert_allclose(mean.sel(compartment="I"), new * infectious, rtol=0.06)
    cases = later["cases"].isel(time=-1) - later["cases"].isel(time=0)
    np.testing.assert_allclose(cases.mean() / 20, new, rtol=0.04)


def test_newborns_are_vaccinated():
    """Without infections, compartments become those of newborns."""
    found = simulate(
        renewed(1e-9, STAY, 1.0, {"S": 0.3, "R": 0.7}), NETWORK, initial={"I": 5},
        times=[0, 20.0], replicates=100, seed=1, device="cpu", strata="half", include="entries",
    )  # fmt: skip
    share = float(found["count"].sel(compartment="R", time=20).sum("stratum").mean()) / N
    assert abs(share - 0.7) < SIGMAS * np.sqrt(0.21 / (100 * N))


def test_turnover_of_some():
    seird = ergode.CompartmentModel.seird(
        transmission_rate=0.2, latent=STAY, infectious=STAY, fatality=0.1
    )
    model = seird.with_turnover(0.1, except_from=["D"])
    assert {p.compartment for p in model.progressions} == {"E", "I", "R"}
    assert {p.compartment for p in seird.with_turnover(0.1).progressions} == {"E", "I", "R", "D"}
    assert model.recurrent and not seird.recurrent
    by = seird.with_turnover(ergode.ByAttribute("half", {0: 0.1, 1: 0.2}))
    assert by.progressions[-1].holding_time.entries[1] == ergode.Exponential(rate=0.2)
    assert "at rate 0.1, 0.2 by half" in by._repr_html_()


def test_refusals():
    sir = ergode.CompartmentModel.sir(transmission_rate=0.2, infectious=STAY)
    with pytest.raises(ergode.ModelError, match="has an exit already"):
        treated(0.2).with_turnover(0.1)
    for rate in (0.0, -1.0, np.inf, "often"):
        with pytest.raises(ergode.ModelError, match="expected a finite number above zero"):
            sir.with_turnover(rate)
    with pytest.raises(ergode.ModelError, match="unknown compartment 'V'"):
        sir.with_turnover(0.1, "V")
    with pytest.raises(ergode.ModelError, match="has an exit_rate, but no exit_to"):
        ergode.Progression("I", "R", STAY, exit_rate=0.1)
    with pytest.raises(ergode.ModelError, match="expected a finite number, zero or more"):
        ergode.Progression("I", "R", STAY, exit_rate=-0.1, exit_to="S")
    with pytest.raises(ergode.ModelError, match="sum to 0.5"):
        ergode.Progression("I", "R", STAY, exit_rate=0.1, exit_to={"S": 0.5})
    endemic = sir.with_turnover(0.1)
    options = {"times": [0, 1.0], "device": "cpu"}
    with pytest.raises(ergode.ModelError, match="expected seeds without ages"):
        simulate(endemic, NETWORK, initial={"I": ergode.Seeds(3, age=1.0)}, **options)
    with pytest.raises(ergode.PlanError, match="at a rate before a holding time is over"):
        simulate(endemic, NETWORK, initial={"I": 3}, method="renewal-leap", **options)
    with pytest.raises(ergode.ModelError, match="a reproduction number needs models without"):
        ergode.epidemics.reproduction(endemic, NETWORK)
    spared = ergode.Vaccination(severity={"Q": 0.5})
    with pytest.raises(ergode.ModelError, match="to which nodes exit"):
        simulate(treated(0.1), NETWORK, initial={"I": 3}, interventions=spared, **options)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cuda_has_the_same_exits(precision):
    for model in (treated(0.2), treated(ergode.ByAttribute("half", {0: 0.1, 1: 0.3}))):
        one, other = (
            simulate(
                model, NETWORK, initial={"I": 10}, times=np.arange(61.0), replicates=20, seed=3,
                device=device, precision=precision, include="entries",
            )
            for device in ("cpu", "cuda")
        )  # fmt: skip
        np.testing.assert_array_equal(one["entries"], other["entries"])
        np.testing.assert_array_equal(one["count"], other["count"])
