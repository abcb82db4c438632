"""Analyses record their inputs, as every result does."""

import inspect

import numpy as np
import pytest

import ergode
from ergode import trajectories


def decay(t, y, p):
    return (-p[0] * y[0],)


def decay_of_three(t, y, p):
    return -1.0 * y[0], -2.0 * y[1], -3.0 * y[2]


def turn(t, y, p):
    return p[0] * y[1], -p[0] * y[0]


DECAY = ergode.VectorField(decay, ["x"], ["rate"])
THREE = ergode.VectorField(decay_of_three, ["x", "y", "z"])
TURN = ergode.VectorField(turn, ["x", "v"], ["rate"])
START = {"initial": {"x": 1.0}, "parameters": {"rate": 0.5}, "device": "cpu"}
TURNS = {"initial": {"x": 1.0, "v": 0.0}, "duration": 20.0, "device": "cpu", "rtol": 1e-5}
CALLS = {
    "fit": (DECAY, {"times": [0, 1, 2], "data": {"x": np.array([1, 0.6, 0.4])},
                    "estimate": ["rate"], **START}),
    "sensitivities": (DECAY, {"times": [0, 1], "with_respect_to": ["rate"], **START}),
    "lyapunov_spectrum": (
        THREE, {"duration": 2.0, "count": 1, "initial": dict.fromkeys("xyz", 1.0), "device": "cpu"},
    ),
    "basins": (DECAY, {"duration": 40.0, "rtol": 1e-5, **START}),
    "poincare_section": (TURN, {"section": "x", "parameters": {"rate": [1.0, 2.0]}, **TURNS}),
    "bifurcation_diagram": (
        TURN, {"parameter": "rate", "values": [1.0, 2.0], "section": "x", "record": 2,
               "continuation": "up", **TURNS},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_analysis_records_its_call_and_makes_it_again(name):
    field, given = CALLS[name]
    found = getattr(trajectories, name)(field, **given)
    inputs = ergode.inputs(found)
    assert inputs.call == f"ergode.trajectories.{name}"
    assert inputs["field"].digest == field.digest
    for one in set(given) - {"device"}:  # also options that the call hands to `integrate`
        np.testing.assert_equal(inputs[one], given[one], one)
    again = inputs.again(device="cpu")
    assert set(again) == set(found)
    for variable in found:
        np.testing.assert_array_equal(again[variable], found[variable])
    if "rtol" in given:
        other = inputs.again(device="cpu", rtol=1e-7)
        assert ergode.inputs(other).digest != inputs.digest


def test_every_analysis_is_tested():
    functions = {name: getattr(trajectories, name) for name in trajectories.__all__}
    returns = {
        name for name, one in functions.items()
        if inspect.isfunction(one) and "Dataset" in str(inspect.signature(one).return_annotation)
    }  # fmt: skip
    assert returns - {"integrate"} == set(CALLS)
