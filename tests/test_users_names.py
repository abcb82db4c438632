"""A user's functions mean what the user wrote, whatever the engines call their own things.

A method is made for a model by replacing names in the engine's functions. A constant or a helper of
the user that is called like one of those names stays the user's.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import ergode
from ergode.core.compiler.syntax import function_from_text

SOURCE = Path(ergode.__file__).parent

# Whatever may be bound: names in capitals at the beginning of a line, and functions that are handed
# over by name.
CONSTANTS = sorted(
    {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r"^([A-Z][A-Z_0-9]*)\b.* = ", file.read_text(), re.MULTILINE)
    }
    | {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r'"([A-Z_][A-Z_0-9]*)":', file.read_text())
    }
)
HELPERS = [
    "rhs", "diffusion", "noise", "limited_by", "h", "history", "gaps", "act", "observe",
    "transition", "advance", "slope", "exact_jacobian", "exact_time_slope", "barrier", "share",
    "integrate_cpu", "linked", "external",
]  # fmt: skip


ONES = dict.fromkeys(CONSTANTS, 1.0)


def of_constants(head, result):
    """A function in which every constant is used, as a factor of one."""
    lines = "".join(f"    one = one * {name}\n" for name in CONSTANTS)
    return function_from_text(f"def {head}:\n    one = 1.0\n{lines}    return {result}\n", ONES)


def own_field():
    """x' = -k x, written with every constant that an engine has, each of them 1."""
    assert len(CONSTANTS) > 200
    return ergode.VectorField(of_constants("rhs(t, y, p)", "(-p[0] * y[0] * one,)"), ["x"], ["k"])


def with_helpers():
    """The same with helpers that are called like functions of the engines."""
    names = {
        name: function_from_text(f"def {name}(x):\n    return x + 1.0\n", {}) for name in HELPERS
    }
    total = "y[0]"
    for name in HELPERS:
        total = f"{name}({total})"
    body = f"def field(t, y, p):\n    return (-p[0] * ({total} - {len(HELPERS)}.0),)\n"
    return ergode.VectorField(function_from_text(body, names), ["x"], ["k"])


@pytest.mark.parametrize(
    ("method", "field"), [("rk4", own_field), ("rodas5p", own_field), ("tsit5", with_helpers)]
)
def test_in_fields(field, method):
    step = {"step": 0.01} if method == "rk4" else {}
    found = ergode.trajectories.integrate(
        field(), times=[0.0, 1.0], initial={"x": 2.0}, parameters={"k": 0.5}, method=method,
        device="cpu:1", **step,
    )  # fmt: skip
    assert found["state"].values.ravel()[-1] == pytest.approx(2 * np.exp(-0.5), rel=1e-5)


def test_in_densities():
    found = ergode.density.propagate(
        own_field(), ergode.Gaussian([2.0], [0.04]), times=[0.0, 1.0], parameters={"k": 0.5},
        width=0.02, device="cpu:1",
    )  # fmt: skip
    assert float(found["mean"].values.ravel()[-1]) == pytest.approx(2 * np.exp(-0.5), rel=1e-3)


def test_in_measurements_and_events():
    watch = of_constants("watch(y, t, p)", "(y[0] * one,)")
    level = of_constants("level(t, y, p)", "y[0] - 1.5 * one")
    measured = ergode.density.propagate(
        ergode.field_from_equations({"x": "-k * x"}), ergode.Gaussian([2.0], [0.04]),
        times=[0.0, 0.1], parameters={"k": 0.0}, width=0.02, device="cpu:1",
        measurements=[ergode.Measurement(0.1, watch, [2.2], [[0.04]])],
    )  # fmt: skip
    assert float(measured["mean"].values.ravel()[-1]) == pytest.approx(2.1, rel=1e-3)
    hits = ergode.trajectories.integrate(
        own_field(), times=[0.0, 1.0], initial={"x": 2.0}, parameters={"k": 0.5}, device="cpu:1",
        events=[ergode.trajectories.ZeroCrossing(level, name="low")], record=1,
    )  # fmt: skip
    assert float(hits["event_time"].values.ravel()[0]) == pytest.approx(
        2 * np.log(2 / 1.5), rel=1e-6
    )
