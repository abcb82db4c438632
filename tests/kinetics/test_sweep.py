"""Sweeps of parameters and amounts: dimensions, zones at each point, refusals."""

import numpy as np
import pytest

import ergode
from ergode.core.errors import ModelError
from ergode.kinetics import integrate


def decay(**parameters):
    """A decays by a formula of parameters, and begins with one of them."""
    return ergode.ReactionNetwork(
        {"A": "begin", "B": 0.0},
        [ergode.Reaction("A -> B", rate_constant="k * scale")],
        parameters={"k": 1.0, "scale": 1.0, "begin": 1.0} | parameters,
    )


OPTIONS = {"times": [0.0, 0.5, 1.0], "rtol": 1e-8, "atol": 1e-12, "device": "cpu"}


def test_arrays_of_one_length_are_points():
    k, scale = np.array([0.5, 1.0, 2.0]), np.array([1.0, 3.0, 0.5])
    found = integrate(decay(), parameters={"k": k, "scale": scale}, **OPTIONS)
    assert found["concentration"].dims == ("point", "zone", "time", "species")
    np.testing.assert_array_equal(found["k"], k)
    assert found["k"].dims == ("point",)
    expected = np.exp(-(k * scale)[:, None] * found["time"].values)
    np.testing.assert_allclose(found["concentration"].sel(species="A")[:, 0], expected, rtol=1e-6)


def test_grids_of_parameters_and_amounts_are_crossed():
    found = integrate(
        decay(), parameters=ergode.grid(k=[0.5, 2.0], scale=2.0),
        initial=ergode.grid(A=[1.0, 2.0, 3.0]), **OPTIONS,
    )  # fmt: skip
    assert found["status"].dims == ("k", "A", "zone")
    assert "scale=2.0" in found.attrs["parameters"] and found.attrs["points"] == 6
    expected = found["A"] * np.exp(-2.0 * found["k"] * found["time"])
    amounts = found["concentration"].sel(species="A").isel(zone=0).transpose(*expected.dims)
    np.testing.assert_allclose(amounts, expected, rtol=1e-6)


def test_every_point_has_the_zones_of_the_conditions():
    law = [ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1.0, 0.0, 300.0)),
           ergode.Reaction("B -> A", rate_constant="k")]  # fmt: skip
    network = ergode.ReactionNetwork({"A": 1.0, "B": 0.0}, law, parameters={"k": 1.0})
    hot = [300.0, 600.0, 900.0]
    found = integrate(network, parameters={"k": [0.1, 10.0]}, temperature=hot, **OPTIONS)
    assert found["concentration"].dims[:2] == ("point", "zone")
    for i, k in enumerate((0.1, 10.0)):
        own = integrate(network, parameters={"k": k}, temperature=hot, **OPTIONS)
        np.testing.assert_array_equal(own["concentration"], found["concentration"][i])
        np.testing.assert_array_equal(found["temperature"][i, :, 0], hot)


def test_amounts_may_depend_on_parameters():
    found = integrate(decay(), parameters={"begin": [1.0, 4.0], "k": 1.0}, **OPTIONS)
    np.testing.assert_array_equal(found["concentration"].values[:, 0, 0, 0], [1.0, 4.0])


@pytest.mark.parametrize(
    ("parameters", "initial", "words"),
    [
        ({"kk": 1.0}, None, "did you mean 'k'"),
        ({"k": [1.0, 2.0], "scale": [1.0, 2.0, 3.0]}, None, "equal length"),
        ({"k": [1.0, np.nan]}, None, "finite"),
        ([1.0], None, "expected a mapping"),
        ({"k": 1.0}, ergode.grid(Z=[1.0, 2.0]), "'Z'"),
    ],
)
def test_what_is_no_sweep_is_refused(parameters, initial, words):
    with pytest.raises(ModelError, match=words):
        integrate(decay(), parameters=parameters, initial=initial, **OPTIONS)


def test_swept_amounts_and_several_zones_are_refused():
    with pytest.raises(ModelError, match="each point has 2 zones"):
        integrate(decay(), parameters={"begin": [1.0, 2.0]}, temperature=[300.0, 400.0], **OPTIONS)


def test_rates_without_named_parameters_are_refused():
    law = ergode.Reaction("A -> B", rate_constant=ergode.Arrhenius(1.0, 0.0, 300.0))
    network = ergode.ReactionNetwork({"A": 1.0, "B": 0.0}, [law])
    with pytest.raises(
        ModelError, match="parameters has 'k', which the network does not have; it has"
    ):
        integrate(network, parameters={"k": [1.0, 2.0]}, temperature=300.0, **OPTIONS)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["rodas4", "asymptotic"])
def test_cuda_sweeps_as_the_cpu_does(method):
    one, other = (
        integrate(
            decay(), parameters=ergode.grid(k=np.linspace(0.5, 2.0, 40), scale=[1.0, 2.0]),
            method=method, **OPTIONS | {"device": device},
        )
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_array_equal(one["step_count"], other["step_count"])
    np.testing.assert_allclose(one["concentration"], other["concentration"], rtol=1e-9, atol=1e-15)


FADING = ergode.ReactionNetwork(
    {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="k")], parameters={"k": 1.0}
)


@pytest.mark.parametrize("value", [-1e-3, [1.0, -2.0], np.nan])
def test_a_rate_constant_below_zero_is_an_error(value):
    with pytest.raises(ergode.ModelError, match="rate constant|finite"):
        ergode.kinetics.integrate(FADING, times=[0, 1], parameters={"k": value}, device="cpu")
    own = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="-k")], {"k": 1.0}
    )
    with pytest.raises(ergode.ModelError, match="is -1.0; expected a finite number, 0 or more"):
        ergode.kinetics.integrate(own, times=[0, 1], device="cpu")


def test_a_parameter_that_was_changed_is_seen():
    network = ergode.ReactionNetwork(
        {"A": 1.0, "B": 0.0}, [ergode.Reaction("A -> B", rate_constant="k")], {"k": 1.0}
    )
    last = {}
    for k in (1.0, 2.0):
        network.parameters["k"] = k
        result = ergode.kinetics.integrate(network, times=[0, 1], device="cpu", rtol=1e-6)
        assert result["concentration"].values.ravel()[-2] == pytest.approx(np.exp(-k), rel=1e-4)
        last[result.attrs["model_digest"]] = k
    assert len(last) == 2
