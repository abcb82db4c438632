"""When a formula is compiled, and when a program does its work; the results are the same."""

import math

import numpy as np
import pytest

import ergode
from ergode.core import formulation, kernels
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import PlanError


def run(when="auto", count=10, slope="-p[0] * y[0]", **options):
    text = f"def f(t, y, p):\n    return ({slope},)\n"
    function = function_from_text(text, {"math": math})
    field = ergode.VectorField(function, variables=["u"], parameters=["k"])
    return ergode.trajectories.integrate(
        field, times=[0, 1], initial={"u": np.linspace(1, 2, count)}, parameters={"k": 0.5},
        compile=when, device="cpu:2", **({"step": 0.125, "method": "euler"} | options),
    )  # fmt: skip


@pytest.fixture
def nothing_kept(monkeypatch, tmp_path):
    """A process that has an empty cache and has run nothing."""
    from ergode.core.kernel_cache import Folders

    monkeypatch.setattr(kernels.kernel_cache, "folders", lambda: Folders(tmp_path, tmp_path))
    for name in ("_COMPILED", "_NAMES", "_SOURCES"):
        monkeypatch.setattr(kernels, name, {})
    monkeypatch.setattr(formulation, "_SPENT", {})


def test_the_second_formula_compiles_the_standing_kernel(nothing_kept):
    assert run(slope="-p[0] * y[0]").attrs["equations"] == "compiled"
    assert run(slope="-p[0] * y[0] + 1").attrs["equations"] == "program"
    third = run(slope="-p[0] * y[0] + 2")
    assert third.attrs["equations"] == "program"
    assert run(slope="-p[0] * y[0]").attrs["equations"] == "compiled"
    exact = run("now", slope="-p[0] * y[0] + 2")
    assert exact.attrs["equations"] == "compiled"
    assert (exact["state"].values == third["state"].values).all()


def test_a_long_run_is_compiled_at_once():
    run("never", slope="0.25 - p[0] * y[0]")
    result = run(slope="0.25 - p[0] * y[0]", step=1e-7, count=1)
    assert result.attrs["equations"] == "compiled"


def test_the_compiled_kernel_takes_over(monkeypatch):
    slope = "0.5 - p[0] * y[0]"
    program = run("never", 1000, slope)
    monkeypatch.setattr(formulation, "_SPENT", {})
    monkeypatch.setattr(kernels.Kernel, "is_kept", lambda *_: False)
    monkeypatch.setattr(formulation.Formulation, "seconds", lambda *_: 0.0)
    monkeypatch.setattr(formulation, "COMPILING", 1e-9)
    result = run("auto", 1000, slope)
    assert result.attrs["equations"] == "program, compiled"
    assert (result["state"].values == program["state"].values).all()
    monkeypatch.undo()
    assert run("auto", 10, slope).attrs["equations"] == "compiled"


def test_a_program_that_takes_many_steps_is_left_for_the_compiled_kernel(monkeypatch):
    slope, options = "p[0] * y[0] - math.sin(t)", {"method": "tsit5", "step": None, "rtol": 1e-10}
    program = run("never", 10, slope, **options)
    assert program["step_count"].min() > 8
    monkeypatch.setattr(formulation, "_SPENT", {})
    monkeypatch.setattr(kernels.Kernel, "is_kept", lambda *_: False)
    monkeypatch.setattr(formulation, "_EACH", 3.0 / (8 * 64))  # a budget of 7 steps
    result = run("auto", 10, slope, **options)
    assert result.attrs["equations"] == "program, compiled"
    assert (result["status"] == 0).all()
    for name in ("state", "step_count"):
        assert (result[name].values == program[name].values).all()


def test_what_a_tracer_cannot_follow_is_compiled():
    slope = "(y[0], p[0])[int(t) % 2] * -0.5"
    assert run("never", slope=slope).attrs["equations"] == "compiled"


def test_another_word_is_refused():
    with pytest.raises(
        PlanError, match="compile 'later' is unknown; expected 'auto', 'now' or 'never'"
    ):
        run("later")
