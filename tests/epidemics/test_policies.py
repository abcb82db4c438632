"""Sweeps of measures, importations and layer factors: each point equals a call for it alone."""

import numpy as np
import pytest
from one_kernel import IDLE, with_layers

import ergode
from ergode.epidemics import simulate

N = 200
NETWORK = ergode.ContactNetwork.erdos_renyi(N, mean_degree=8, seed=1)
MODEL = ergode.CompartmentModel.seir(
    transmission_rate=0.25, latent=ergode.Exponential(mean=3),
    infectious=ergode.Exponential(mean=6),
)  # fmt: skip
GRID = ergode.grid(coverage=[0.0, 0.4, 0.8], start=[2.0, 10.0], rate=[0.1, 0.5])
GIVEN = {
    "initial": {"I": 5}, "times": np.arange(31.0), "replicates": 6, "seed": 3, "device": "cpu",
}  # fmt: skip


def policy(coverage, start, rate):
    return [
        ergode.Vaccination(fraction=coverage, efficacy=0.8, start=start),
        ergode.Testing({"I": 0.8}, rate=rate, isolation=10),
    ]


@pytest.mark.slow
def test_a_grid_of_policies_is_one_call():
    found = simulate(
        MODEL, NETWORK, parameters=GRID, interventions=policy, include="measures", **GIVEN
    )
    assert found["measures"].dims == ("coverage", "start", "rate", "replicate", "time", "tally")
    for point in ({"coverage": 0.4, "start": 10.0, "rate": 0.5},
                  {"coverage": 0.0, "start": 2.0, "rate": 0.1}):  # fmt: skip
        alone = simulate(MODEL, NETWORK, interventions=policy(**point), include="measures", **GIVEN)
        for name in ("count", "cases", "measures"):
            np.testing.assert_array_equal(found[name].sel(point), alone[name])
    doses = found["measures"].sel(tally="interventions[0] dose 1", time=30, coverage=0.8)
    assert (doses.mean("replicate") / N > 0.7).all()
    averted = ergode.compare(found.sel(coverage=0.0, drop=True), found)
    assert float(averted["cases"].sel(coverage=0.8, time=30).max()) < 0
    np.testing.assert_array_equal(averted["cases"].sel(coverage=0.0), 0.0)


@pytest.mark.slow
def test_models_and_measures_are_swept_together():
    """Points of equal measures share a launch; the others do not."""
    layers = with_layers(*NETWORK.edges(), N, half=np.arange(N) % 2)

    def model(mean):  # calls for one point have the kernel of the test of scenarios
        return ergode.CompartmentModel.seir(
            transmission_rate=0.25, latent=ergode.Exponential(mean=3),
            infectious=ergode.Exponential(mean=mean),
        )  # fmt: skip

    def closure(reduction):
        return [ergode.LayerClosure(reduction=reduction, start=5, duration=10), *IDLE]

    def importations(rate):
        return [ergode.Importation("E", rate=rate)]

    def factors(level):
        return ergode.Calendar([0.0, 10.0], [1.0, level])

    plain = {"mean": [4.0] * 3, "reduction": [0.5] * 3, "rate": [0.2] * 3, "level": [0.2] * 3}
    given = {"strata": "half", **GIVEN}
    for changed in ({"mean": [4.0, 6.0, 4.0], "reduction": [0.5, 0.5, 1.0]},
                    {"rate": [0.2, 2.0, 0.2], "level": [1.0, 0.2, 0.2]}):  # fmt: skip
        values = plain | changed
        found = simulate(
            model, layers, parameters=values, interventions=closure, importations=importations,
            layer_factors=factors, **given,
        )  # fmt: skip
        for k in range(3):
            mean, reduction, rate, level = (one[k] for one in values.values())
            alone = simulate(
                model(mean), layers, interventions=closure(reduction),
                importations=importations(rate), layer_factors=factors(level), **given,
            )  # fmt: skip
            np.testing.assert_array_equal(found["count"].isel(point=k), alone["count"])
            np.testing.assert_array_equal(found["cases"].isel(point=k), alone["cases"])


def test_errors_name_the_point():
    def beyond(coverage):
        return [ergode.Vaccination(fraction=coverage)]

    with pytest.raises(ergode.ModelError, match=r"at the point coverage=1.5: .*fraction"):
        simulate(MODEL, NETWORK, parameters={"coverage": [0.5, 1.5]}, interventions=beyond, **GIVEN)

    def unknown(which):
        return [ergode.Isolation("I" if which < 1 else "H")]

    with pytest.raises(ergode.ModelError, match=r"at the point which=1: .*'H'"):
        simulate(MODEL, NETWORK, parameters={"which": [0, 1]}, interventions=unknown, **GIVEN)

    def other(which):
        return [ergode.LayerClosure() if which < 1 else ergode.Isolation("I")]

    with pytest.raises(ergode.ModelError, match="differ in kind"):
        simulate(
            MODEL, NETWORK, parameters={"which": [0, 1]}, interventions=other, include="measures",
            **GIVEN,
        )  # fmt: skip
    with pytest.raises(ergode.ModelError, match="no argument is a function"):
        simulate(MODEL, NETWORK, parameters={"which": [0, 1]}, **GIVEN)


@pytest.mark.cuda
def test_cuda_runs_the_same_policies():
    given = {"parameters": GRID, "interventions": policy, "include": "measures"}
    host = simulate(MODEL, NETWORK, **given, **GIVEN)
    other = simulate(MODEL, NETWORK, **given, **GIVEN | {"device": "cuda"})
    for name in ("count", "measures"):
        np.testing.assert_array_equal(host[name], other[name])
