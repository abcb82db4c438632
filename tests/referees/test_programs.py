"""Formulas as programs against the same formulas compiled: equal to the last bit.

The generator writes what a user may write; what the tracer cannot follow is counted, and must be
the smaller part.
"""

import random

import numpy as np
import pytest
from random_fields import random_field

from ergode.core import devices, kernels
from ergode.core.compiler import tracer
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.programs import Operation
from ergode.core.compiler.syntax import function_from_text
from ergode.core.compiler.tracer import traced
from ergode.core.math.operations import run

FIELDS, SIZE, POINTS = 12, 3, 64


def body_of(count):
    """A loop's body that computes formulas, and runs a program of each that has one."""
    lines = ["def body(index, x, found, ran, programs):",
             "    t, p = x[index, 0], (x[index, 1], x[index, 2])",
             "    y = (x[index, 3], x[index, 4], x[index, 5])"]  # fmt: skip
    for k in range(count):
        lines += [f"    row = field_{k}(t, y, p)"]
        lines += [f"    found[index, {k}, {i}] = row[{i}]" for i in range(SIZE)]
        lines += [f"    fill(x, index, ran[index, {k}], programs[{k}])"]
    text = "\n".join(lines) + "\n"
    return function_from_text(text, {**{f"field_{k}": None for k in range(count)}, "fill": fill})


def fill(x, index, out, program):
    steps, registers, outputs = program
    for i in range(6):
        registers[i] = x[index, i]
    run(steps, registers)
    for i in range(outputs.size):
        out[i] = registers[outputs[i]]


def differences(seed, precision="float64"):
    """Values of random formulas that a program and the compiler differ in; how many were traced."""
    rng = random.Random(seed)
    drawn = [random_field(rng, SIZE) for _ in range(FIELDS)]
    points = np.random.default_rng(seed).normal(scale=3.0, size=(POINTS, 6)).astype(precision)
    points[:8] = np.round(points[:8])
    points[8] = 0.0
    programs = [reordered(function, precision) for function, _ in drawn]
    body = body_of(FIELDS)
    bindings = {f"field_{k}": UserFunction(function) for k, (function, _) in enumerate(drawn)}
    found, ran = np.zeros((2, POINTS, FIELDS, SIZE), precision)
    empty = np.zeros((0, 4), np.uint32), np.zeros(6, precision), np.zeros(0, np.uint32)
    given = tuple(
        empty if one is None else (one.steps, one.registers.copy(), one.outputs) for one in programs
    )
    kernel = kernels.for_each(body, precision=precision, bindings=bindings)
    device = devices.resolve("cpu:1")
    with kernels.readable_errors():
        device.run(kernel, POINTS, points, found, ran, given)
    wrong = []
    for k, (_, text) in enumerate(drawn):
        if programs[k] is None:
            continue
        one, other = found[:, k], ran[:, k]
        same = (one.view(f"u{one.itemsize}") == other.view(f"u{one.itemsize}")) | (
            np.isnan(one) & np.isnan(other)
        )
        if not same.all():
            point, i = np.argwhere(~same)[0]
            wrong.append(
                f"seed {seed}: component {i} at {points[point]}: {other[point, i]} for "
                f"{one[point, i]}\n{text}"
            )
    return wrong, sum(one is not None for one in programs)


def reordered(function, precision):
    """The program of a field whose arguments are t, p, y in this order."""
    text = "def turned(t, p, y):\n    return field(t, y, p)\n"
    return traced(function_from_text(text, {"field": function}), (None, 2, SIZE), precision)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_programs_compute_what_the_compiler_computes(precision):
    wrong, count = [], 0
    for seed in range(3):
        lines, traced_count = differences(seed, precision)
        wrong += lines
        count += traced_count
    assert not wrong, "\n".join(wrong)
    assert count > FIELDS


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["no fma", "powers by squaring", "the other branch"])
def test_what_is_traced_wrongly_is_noticed(mutant, monkeypatch):
    monkeypatch.setattr(tracer, "_KNOWN", {})
    if mutant == "no fma":
        usual = tracer._Trace._function

        def function(trace, operation):
            if operation == Operation.FMA:
                return lambda a, b, c: a * b + c
            return usual(trace, operation)

        monkeypatch.setattr(tracer._Trace, "_function", function)
    elif mutant == "powers by squaring":
        monkeypatch.setattr(tracer._Number, "__pow__", lambda x, n: x**-n if n < 0 else x * x)
    else:
        monkeypatch.setattr(tracer._Trace, "holds", lambda trace, number: True)
    assert any(differences(seed)[0] for seed in range(3))
