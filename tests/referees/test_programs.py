"""Formulas as programs against the same formulas compiled: equal to the last bit.

The generator writes what a user may write; what the tracer cannot follow is counted, and must be
the smaller part.
"""

import math
import random

import numpy as np
import pytest
from random_fields import random_field

import ergode
from ergode.core import devices, kernels
from ergode.core.compiler import tracer
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.programs import Operation
from ergode.core.compiler.syntax import function_from_text
from ergode.core.compiler.tracer import traced
from ergode.core.math.operations import run
from ergode.trajectories import Maximum, Mean, integrate

FIELDS, SIZE, POINTS = 12, 3, 64
TIMES = [0.0, 0.4, 1.0, 2.5]
ADAPTIVE = {"rtol": 1e-5, "atol": 1e-7}
RUNS = {
    "euler": {"method": "euler", "step": 0.01},
    "rk4": {"method": "rk4", "step": 0.02},
    "halved steps": {"method": "rk4", **ADAPTIVE},
    "fixed tsit5": {"method": "tsit5", "step": 0.05},
    "tsit5": {"method": "tsit5", **ADAPTIVE},
    "dopri5": {"method": "dopri5", **ADAPTIVE},
    "dop853": {"method": "dop853", **ADAPTIVE},
    "every step": {"method": "tsit5", "dense_output": True, "max_step": 0.25, **ADAPTIVE},
    "observables": {"method": "rk4", "step": 0.02, "observables": [Maximum("u"), Mean("v")]},
}


def equal_bits(one, other):
    """Where two arrays are equal to the last bit; any two NaNs are."""
    kind = f"u{one.itemsize}"
    return (one.view(kind) == other.view(kind)) | ((one != one) & (other != other))


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
        same = equal_bits(one, other)
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


@pytest.mark.parametrize(("seeds", "precision"), [((0, 1), "float64"), ((5,), "float32")])
def test_programs_compute_what_the_compiler_computes(seeds, precision):
    wrong, count = [], 0
    for seed in seeds:
        lines, traced_count = differences(seed, precision)
        wrong += lines
        count += traced_count
    assert not wrong, "\n".join(wrong)
    assert count > len(seeds) * FIELDS // 2


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
    assert any(differences(seed)[0] for seed in (5, 0, 1, 2))


def both_ways(seed, precision, **options):
    """A random field integrated as a program and compiled."""
    rng = random.Random(seed)
    function, text = random_field(rng, SIZE, tame=True)
    while reordered(function, precision) is None:
        function, text = random_field(rng, SIZE, tame=True)
    field = ergode.VectorField(function, variables=["u", "v", "w"], parameters=["k", "m"])
    values = np.random.default_rng(seed).normal(size=(5, 150))
    rows = dict(zip("uvwkm", values, strict=True))
    results = [
        integrate(
            field, times=TIMES, initial={name: rows[name] for name in "uvw"},
            parameters={name: rows[name] for name in "km"}, device="cpu", precision=precision,
            compile=when, **options,
        )
        for when in ("never", "now")
    ]  # fmt: skip
    assert [one.attrs["equations"] for one in results] == ["program", "compiled"]
    return *results, text


def check_both_ways(seed, precision, **options):
    program, compiled, text = both_ways(seed, precision, **options)
    for name, values in compiled.data_vars.items():
        same = equal_bits(values.values, program[name].values)
        assert same.all(), f"seed {seed}: {name} differs\n{text}"


@pytest.mark.parametrize(("run", "precision"), [("rk4", "float64"), ("tsit5", "float32")])
def test_trajectories_are_the_same_to_the_last_bit(run, precision):
    check_both_ways(3, precision, **RUNS[run])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "precision"),
    [
        ("euler", "float64"), ("halved steps", "float64"), ("every step", "float32"),
        ("observables", "float64"),
    ],
)  # fmt: skip
def test_trajectories_of_other_runs_are_the_same(run, precision):
    check_both_ways(int(precision == "float32"), precision, **RUNS[run])


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("run", RUNS)
def test_trajectories_of_every_method_and_precision_are_the_same(run, precision):
    for seed in range(4):
        check_both_ways(seed, precision, **RUNS[run])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"method": "rk4", "step": 0.02}, ADAPTIVE], ids=repr)
def test_delay_equations_are_the_same(options):
    def field(t, y, yd, p):
        drive = math.sin(t) if yd[1] > y[0] else p[0] * yd[0] ** 3
        return math.tanh(drive) - 0.5 * y[0], yd[0] * math.exp(-(y[1] ** 2)) - y[1]

    delayed = ergode.VectorField(field, ["u", "v"], ["k", "tau"], [("u", "tau"), ("v", "tau")])
    program, compiled = (
        integrate(
            delayed, times=TIMES, initial={"u": np.linspace(-1, 1, 100), "v": 0.5},
            parameters={"k": 2.0, "tau": 0.3}, device="cpu", compile=when, **options,
        )
        for when in ("never", "now")
    )  # fmt: skip
    assert program.attrs["equations"] == "program"
    assert equal_bits(compiled["state"].values, program["state"].values).all()
