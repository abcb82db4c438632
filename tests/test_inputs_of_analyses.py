"""Every public call that returns a Dataset or DataArray says what it was computed from."""

import functools
import inspect
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray
from small_calls import CONTACTS, NETWORK, same_bits, sir

import ergode
from ergode import density, epidemics, kinetics, particles, stochastic, trajectories

OTHERS = {
    "ergode.concat": "it has the inputs of the whole",
    "ergode.open_dataset": "a file has the inputs of its result",
    "ergode.read_gbees": "it reads the file of another program",
    "ergode.read_contact_matrix": "it reads the file of another program",
    "ergode.contact_survey": "nothing is simulated",
}


def rossler(t, y, p):
    return -y[1] - y[2], y[0] + 0.2 * y[1], 0.2 + y[2] * (y[0] - p[0])


def decay(t, y, p):
    return (-p[0] * y[0],)


ROSSLER = ergode.VectorField(rossler, ["x", "y", "z"], ["c"])
DECAY = ergode.VectorField(decay, ["x"], ["rate"])
SPRING = ergode.field_from_equations({"x": "v", "v": "-k * x"})
OF_ROSSLER = {"field": ROSSLER, "initial": {"x": 1, "y": 1, "z": 0}, "device": "cpu"}
OF_DECAY = {
    "field": DECAY, "initial": {"x": 1}, "parameters": {"rate": 0.5}, "device": "cpu",
}  # fmt: skip
OF_SPRING = {
    "field": SPRING, "prior": ergode.Gaussian([1, 0.0], [0.3, 0.3]), "times": [0, 0.1],
    "parameters": {"k": 1.0}, "device": "cpu",
}  # fmt: skip


@cache
def epidemic(output="counts", method="sellke", **options):
    return epidemics.simulate(
        sir(0.4), CONTACTS, initial={"I": 3}, times=[0, 1, 2, 8], seed=4, replicates=3,
        method=method, device="cpu", output=output, **options,
    )  # fmt: skip


@cache
def densities():
    return density.propagate(**OF_SPRING, width=0.25, keep="all")


@cache
def cells():
    return density.cells_at(densities())


@cache
def reactions(k=0.5, count=3):
    return stochastic.simulate(
        NETWORK, times=[0, 1, 2, 3], seed=4, replicates=count, parameters={"k": k}, device="cpu"
    )


@cache
def hydrogen():
    cantera = pytest.importorskip("cantera")
    pytest.importorskip("ruamel.yaml")
    return ergode.read_cantera(Path(cantera.__file__).parent / "data" / "h2o2.yaml")


NUCLEI = [
    ergode.Species("n", mass_number=1, charge_number=0, thermochemistry=ergode.Nucleus(8.1, 0.5)),
    ergode.Species("p", mass_number=1, charge_number=1, thermochemistry=ergode.Nucleus(7.3, 0.5)),
    ergode.Species("he4", mass_number=4, charge_number=2, thermochemistry=ergode.Nucleus(2.4)),
]
SPACE = ergode.ReactionDiffusion(NETWORK, (3,), diffusion={"A": 0.1}, spacing=1.0)


@cache
def rules():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.bngl")
        path.write_text(
            "begin seed species\nA(x) 3\nend seed species\n"
            "begin observables\nMolecules A A()\nend observables\n"
            "begin reaction rules\nA() -> 0 1\nend reaction rules\n"
        )
        return ergode.read_rules(path)


def of_cases(**more):
    return lambda: {"cases": epidemic("line_list"), **more}


def of_counts(**more):
    return lambda: {"counts": epidemic(method="first-passage", include="entries"), **more}


CASES = {
    density.cells_at: lambda: {"dataset": densities()},
    density.credible_region: lambda: {"cells": cells(), "probability": 0.9},
    density.marginal: lambda: {"cells": cells(), "variables": "x"},
    density.propagate: lambda: OF_SPRING | {"width": 0.25},
    density.quantiles: lambda: {"dataset": densities(), "probability": 0.9},
    epidemics.as_people: of_counts(per_node=10.0),
    epidemics.cost: lambda: {  # the kernel is that of the example of `cost`
        "counts": epidemic.__wrapped__(
            include="measures", interventions=[ergode.Testing({"I": 0.9}, rate=0.1, isolation=1)]
        ),
        "prices": {"tests": 2.0, "in force": 2.0},
    },
    epidemics.fatality_ratio: of_counts(compartment="R"),
    epidemics.flows: of_counts(),
    epidemics.generation_interval: of_cases(),
    epidemics.incidence: of_counts(),
    epidemics.next_generation: of_cases(groups=np.arange(60) % 2),
    epidemics.observe: of_counts(probability=0.5, seed=1),
    epidemics.person_time: of_counts(compartment="I"),
    epidemics.reproduction_number: of_cases(),
    epidemics.reproduction_over_time: lambda: {
        "counts": epidemic().isel(time=slice(3)), "generation": ergode.Deterministic(1.0),
    },
    epidemics.serial_interval: of_cases(),
    epidemics.simulate: lambda: {
        "model": sir(0.4), "contacts": CONTACTS, "initial": {"I": 3}, "times": [0, 1, 2],
        "device": "cpu",
    },
    epidemics.states: of_cases(times=[0, 1]),
    epidemics.summary: of_counts(),
    epidemics.synchronous: lambda: {
        "contacts": CONTACTS, "initial": 3, "steps": 4, "probability": 0.2, "device": "cpu",
    },
    kinetics.equilibrium: lambda: {
        "network": hydrogen(), "initial": {"H2": 2.0, "O2": 1.0}, "temperature": [2000.0, 3000.0],
        "pressure": 1e6,
    },
    kinetics.ignition_delay: lambda: {
        "network": hydrogen(), "temperature": [1100.0], "pressure": [1e6], "fuel": "H2",
        "oxidizer": {"O2": 1.0, "AR": 4.0}, "duration": 1e-3, "device": "cpu",
    },
    kinetics.important_reactions: lambda: {
        "network": NETWORK, "result": kinetics.integrate(NETWORK, times=[0, 1], device="cpu"),
    },
    kinetics.integrate: lambda: {
        "network": ergode.ReactionNetwork(
            {"A": 2.0}, [ergode.Reaction("2 A -> 0", rate_constant=3.0)]
        ),
        "times": [0, 1], "device": "cpu",
    },
    kinetics.nuclear_equilibrium: lambda: {
        "network": ergode.ReactionNetwork(NUCLEI, []), "temperature": [8e9, 7e9], "density": 1e7,
    },
    kinetics.plug_flow: lambda: {
        "network": hydrogen(), "positions": [0, 1.0], "velocity": 20.0, "temperature": 1100.0,
        "pressure": 1e6, "initial": {"H2": 2.0, "O2": 1.0, "AR": 4.0}, "device": "cpu",
    },
    kinetics.reaction_rates: lambda: {"network": NETWORK, "parameters": {"k": 0.4}},
    kinetics.sensitivities: lambda: {
        "call": kinetics.integrate, "network": NETWORK, "times": [0, 1], "device": "cpu",
    },
    particles.compare: lambda: OF_SPRING | {"width": 0.25, "count": 1000, "bins": 8, "step": 0.05},
    particles.propagate: lambda: OF_SPRING | {"count": 100, "step": 0.05},
    particles.unscented_kalman: lambda: OF_SPRING,
    stochastic.autocorrelation: lambda: {"dataset": reactions()},
    stochastic.linear_noise: lambda: {"network": NETWORK, "times": [0, 1]},
    stochastic.probabilities: lambda: {
        "network": ergode.ReactionNetwork(
            {"X": 2}, [ergode.Reaction("X -> 0", rate_constant=1.0)]
        ),
        "times": [0, 1],
    },
    stochastic.passages: lambda: {
        "network": NETWORK, "ends": {"more": "C > 3", "fewer": "B < 8 or A > 60"},
    },
    stochastic.rare_event: lambda: {
        "network": NETWORK, "level": "C", "target": 6, "thresholds": [3], "times": [0, 1],
        "paths": 50, "repetitions": 2, "device": "cpu",
    },
    stochastic.sensitivities: lambda: {
        "network": NETWORK, "times": [0, 1], "replicates": 4, "device": "cpu",
    },
    stochastic.simulate: lambda: {"network": NETWORK, "times": [0, 1], "device": "cpu"},
    stochastic.simulate_rules: lambda: {
        "model": rules(), "times": [0, 1], "replicates": 2, "device": "cpu",
    },
    stochastic.simulate_space: lambda: {
        "space": SPACE, "times": [0, 1], "replicates": 2, "device": "cpu",
    },
    trajectories.basins: lambda: OF_DECAY | {"duration": 1.0},
    trajectories.bifurcation_diagram: lambda: OF_ROSSLER | {
        "parameter": "c", "values": [2.5], "section": "x", "duration": 20, "record": 8,
        "rtol": 1e-5,
    },
    trajectories.branch: lambda: {
        "field": ergode.field_from_equations({"x": "mu + x**2"}), "start": {"x": -1.0},
        "parameters": {"mu": -1.0}, "vary": {"mu": (-2, 1)},
    },
    trajectories.fit: lambda: OF_DECAY | {
        "times": [0, 1, 2], "estimate": ["rate"], "data": {"x": [1.0, 0.5, 0.25]},
    },
    trajectories.integrate: lambda: OF_DECAY | {"times": [0, 1]},
    trajectories.lyapunov_spectrum: lambda: OF_DECAY | {"duration": 1.0, "rtol": 1e-5},
    trajectories.winding_number: lambda: {
        "result": trajectories.integrate(
            OF_ROSSLER["field"], times=np.linspace(0, 5, 50), rtol=1e-4, device="cpu",
            initial={"x": 1.0, "y": 1.0, "z": 0.0}, parameters={"c": 5.7},
        ),
        "variables": ["x", "y"],
    },
    trajectories.poincare_section: lambda: OF_ROSSLER | {
        "parameters": {"c": 2.5}, "section": "x", "duration": 20, "record": 8, "rtol": 1e-5,
    },
    trajectories.sensitivities: lambda: OF_DECAY | {"times": [0, 1], "with_respect_to": ["rate"]},
    ergode.abc_smc: lambda: {
        "simulate": ergode.simulator(
            functools.partial(stochastic.simulate, NETWORK, times=[0, 1], device="cpu"), ["k"],
            "amount",
        ),
        "prior": {"k": (0.1, 2.0)}, "observed": [9, 1, 1, 5, 1, 1], "particles": 20,
        "max_simulations": 60,
    },
    ergode.pseudo_marginal: lambda: {
        "likelihood": near_a_line(), "prior": {"a": (0.0, 2.0)}, "draws": 20, "warmup": 0,
        "chains": 8,
    },
    ergode.iterated_filtering: lambda: {
        "likelihood": near_a_line(), "prior": {"a": (0.0, 2.0)}, "iterations": 2, "starts": 2,
    },
    ergode.ensemble_kalman: lambda: {
        "simulate": line(), "prior": {"a": (0.0, 2.0)}, "observed": [1.0], "covariance": [0.01],
        "members": 10,
    },
    ergode.history_matching: lambda: {
        "simulate": line(), "prior": {"a": (0.0, 2.0)}, "observed": [1.0], "variance": [0.01],
        "draws": 100, "runs": 20,
    },
    ergode.compare: lambda: {"baseline": reactions(0.5), "scenarios": {"more": reactions(0.6)}},
}  # fmt: skip


def line():
    return ergode.simulator(
        lambda parameters: parameters["a"][:, None] * 1.0, ["a"], lambda found: found
    )


def ahead(parameters, initial, times):
    return {"x": initial["x"] + parameters["a"] * (times[1] - times[0])}


def near_a_line():
    return ergode.particle_likelihood(
        ahead, ["a"], {"x": 0.0}, [0.0, 1.0], [0.0, 1.0], near, particles=10
    )


def near(seen, states, parameters):
    return -((seen - states["x"]) ** 2)


def public_calls():
    for home in (density, epidemics, kinetics, particles, stochastic, trajectories, ergode):
        for name in home.__all__:
            call = getattr(home, name)
            if inspect.isfunction(call):
                given = str(inspect.signature(call).return_annotation)
                if given in ("xarray.Dataset", "xarray.DataArray"):
                    yield f"{home.__name__}.{name}", call


CALLS = {name: call for name, call in public_calls() if name not in OTHERS}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_says_what_it_was_computed_from_and_computes_it_again(name):
    call = CALLS[name]
    arguments = CASES[call]()
    result = call(**arguments)
    inputs = ergode.inputs(result)
    home = name.rpartition(".")[0]
    if home == "ergode":  # it is in a part, and has a short name
        home = "ergode.core" if call is ergode.compare else "ergode.inference"
    assert inputs.call == f"{home}.{name.rpartition('.')[2]}"
    assert set(arguments) <= {*inputs, "device"}
    if "rtol" in arguments:  # an option that the call hands to another
        assert inputs["rtol"] == arguments["rtol"]
        other = inputs.again(device="cpu", rtol=1e-7)
        assert ergode.inputs(other).digest != inputs.digest
    repeated = inputs.again(device="cpu") if "device" in arguments else inputs.again()
    assert ergode.inputs(repeated).digest == inputs.digest
    if isinstance(result, xarray.Dataset):
        same_bits(repeated, result, but=("seconds",))
    else:
        xarray.testing.assert_equal(repeated, result)
    assert inputs.digest[:12] in repr(inputs)


def test_an_analysis_shows_the_inputs_of_its_run(tmp_path):
    run = epidemic(method="first-passage", include="entries")
    summary = epidemics.summary(run)
    inputs = ergode.inputs(ergode.open_dataset(ergode.save(summary, tmp_path / "a.nc")))
    assert inputs["counts"] is run
    assert inputs.of("counts").digest == ergode.inputs(run).digest
    assert "counts: Dataset of ergode.epidemics.simulate" in repr(inputs)
    with pytest.raises(ergode.PlanError, match="compartment is None; expected a Dataset"):
        inputs.of("compartment")
    opened = ergode.open_dataset(ergode.save(run, tmp_path / "run.nc"))
    assert ergode.inputs(epidemics.summary(opened)).digest == inputs.digest
    changed = run.assign(count=run["count"] + 1)
    assert ergode.inputs(epidemics.summary(changed)).digest != inputs.digest
    assert ergode.inputs(epidemics.summary(run.isel(replicate=[0]))).digest != inputs.digest


def test_an_analysis_of_a_run_that_is_gone_asks_for_it():
    run = stochastic.simulate(NETWORK, times=[0, 1, 2], replicates=2, seed=91, device="cpu")
    found = stochastic.autocorrelation(run)
    other, again = (
        stochastic.simulate(NETWORK, times=[0, 1, 2], replicates=2, seed=seed, device="cpu")
        for seed in (92, 91)
    )
    del run
    with pytest.raises(ergode.PlanError, match=r"pass it, as in ergode.inputs\(dataset, dataset="):
        ergode.inputs(found)["dataset"]
    with pytest.raises(ergode.PlanError, match="dataset is not that of the result"):
        ergode.inputs(found, dataset=other)
    same_bits(ergode.inputs(found, dataset=again).again(), found)


def test_analyses_of_points_are_joined():
    one, two = (
        stochastic.autocorrelation(
            stochastic.simulate(
                NETWORK, times=[0, 1, 2, 3], replicates=3, seed=4, parameters={"k": rates},
                device="cpu",
            )
        )
        for rates in ([0.5, 0.6], [0.7, 0.8])
    )  # fmt: skip
    joined = ergode.concat([one, two], "point")
    assert joined.sizes["point"] == 4 and ergode.inputs(joined)["max_lag"] is None
