"""A field as a program, run by a kernel that is made for no field, against the compiled field."""

import math

import numpy as np
import pytest
from density_cases import LORENZ, LORENZ_PARAMETERS, LORENZ_PRIOR

import ergode
from ergode.core import formulation
from ergode.density import evolution, specialize
from ergode.density.noise import Noise


def driven(t, y, p):
    push = p[0] if y[0] > 0.5 else 0.0
    return y[1], push * math.cos(3 * t) - math.sin(y[0]) - 0.1 * y[1] ** 3


def slowly(t, y, p):
    x = y[0]
    while x > 4.0:
        x = 0.5 * x
    return (-x,)


DRIVEN = ergode.VectorField(driven, ["x", "v"], ["push"])
PLANE = {
    "field": DRIVEN, "prior": ergode.Gaussian([0.4, 0.0], [0.04, 0.04]), "times": [0, 0.5, 1.0],
    "parameters": {"push": np.array([0.5, 1.5])}, "width": 0.1, "process_noise": [0.0, 0.05],
}  # fmt: skip
SPACE = {
    "field": LORENZ, "prior": LORENZ_PRIOR, "times": [0, 0.1], "parameters": LORENZ_PARAMETERS,
    "width": 0.5, "scheme": "corner-transport", "precision": "float32",
}  # fmt: skip


def run(options, when):
    return ergode.density.propagate(threshold=1e-6, device="cpu", compile=when, **options)


def assert_equal(found, expected):
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].values, values.values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ergode.core.errors.AccuracyWarning")
@pytest.mark.parametrize("options", [PLANE, SPACE], ids=["two that are driven", "float32"])
def test_results_are_the_same_to_the_last_bit(monkeypatch, options):
    monkeypatch.setattr(evolution, "stands_in", stands_in := Some())
    compiled = run(options, "now")
    assert compiled.attrs["equations"] == "compiled" and not stands_in.asked
    program = run(options, "never")
    assert program.attrs["equations"] == "program" and not stands_in.asked
    assert_equal(program, compiled)
    run(options, "auto")
    stands_in.most, stands_in.asked = stands_in.asked // 2, 0
    both = run(options, "auto")
    assert both.attrs["equations"] == "program, compiled"
    assert_equal(both, compiled)


class Some:
    """In place of `stands_in`: the first runs are those of the program."""

    most, asked = 10**9, 0

    def __call__(self, own, standing, seconds):
        self.asked += 1
        return self.asked <= self.most


@pytest.mark.slow
def test_a_run_counts_the_seconds_of_its_program(monkeypatch):
    monkeypatch.setattr(formulation, "_SPENT", {})
    monkeypatch.setattr(formulation, "_is_worth_it", lambda *_: True)
    monkeypatch.setattr(specialize.kernels.Kernel, "is_kept", lambda *_: False)
    run(PLANE, "auto")
    assert 0.0 < max(formulation._SPENT.values()) < formulation.COMPILING


def test_what_has_to_be_compiled_has_no_program():
    field = ergode.VectorField(slowly, ["x"])
    assert specialize.program_of(field, None, None, "float64") == ()
    assert specialize.program_of(DRIVEN, Noise(function=driven), None, "float64") == ()
    limits = specialize.Limits(driven, 0.0, 1.0)
    assert specialize.program_of(DRIVEN, None, limits, "float64") == ()
    assert len(specialize.program_of(DRIVEN, Noise(np.eye(2)), None, "float32")) == 3
