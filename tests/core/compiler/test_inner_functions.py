"""Inner functions of kernels: literals are no types, and machine code is made of kernels alone."""

import random

import numba
import numpy as np
import pytest
from llvmlite import binding

import ergode
from ergode.core import kernels
from ergode.core.compiler import inner_functions


def scaled(x, power, twice):
    out = np.empty(3)
    for k in range(3):
        out[k] = x * 2.0**power
    return out[power % 3] * (2.0 if twice else 1.0)


def literals(index, x, out):
    out[index] = scaled(x[index], 0, False) + scaled(x[index], 1, x[index] < 0.0)
    out[index] += 0.5 * scaled(x[index], 2, True)


def test_a_literal_makes_no_other_form_of_a_function():
    compiled = kernels.for_each(literals).compiled("cpu")
    out = np.zeros(4)
    compiled(0, 4, np.arange(4.0), out)
    assert out.tolist() == [0.0, 7.0, 14.0, 21.0]
    inner = compiled.py_func.__globals__["scaled"]
    assert len(inner.signatures) <= 1  # none if the kernel came from the disk


def test_what_a_kernel_calls_has_room_on_the_stack():
    """Frames of calls are not in pieces whose ends are met again and again."""
    assert inner_functions._with_room.__code__.co_stacksize * 8 > 1 << 19
    assert inner_functions._with_room(abs, -2) == 2


def needs_text(index, x, out):
    out[:] = x[1:3]  # numba says of which shapes the two are


def test_the_kernels_of_all_tests_are_without_numbas_text():
    with pytest.raises(AssertionError, match="text"):
        compiled = kernels.for_each(needs_text).compiled("cpu")
        compiled(0, 1, np.arange(4.0), np.zeros(2))


def test_what_others_compile_afterwards_is_whole():
    """A function of numba's that a kernel compiled first has all that it calls elsewhere, too."""

    @numba.njit
    def others(count):
        total = 0.0
        for value in np.empty(count):
            total += 0.0 * value
        return total + np.full(count, 2.0).sum()

    assert others(3) == 6.0
    assert isinstance(inner_functions.KernelCompiler, type)
    assert issubclass(inner_functions.KernelCompiler, numba.core.compiler.CompilerBase)


def test_an_error_while_compiling_leaves_numba_as_it_was():
    def wrong(index, x, out):
        out[index] = x[index] + "text"

    usual = numba.core.codegen.JITCPUCodegen._library_class
    with pytest.raises(Exception, match="No implementation"):
        kernels.for_each(wrong).compiled("cpu")(0, 1, np.zeros(1), np.zeros(1))
    assert numba.core.registry.cpu_target.target_context.codegen()._library_class is usual
    assert numba.njit(lambda x: x + 1)(1) == 2


def test_no_module_outlives_its_context(monkeypatch):
    """A collection of garbage in any order would crash: each link closes what it has made."""
    made, parse = [], binding.parse_bitcode

    def kept(*given, **named):
        module = parse(*given, **named)
        if named:  # the context of all others lasts as long as the process
            made.append(module)
        return module

    monkeypatch.setattr(binding, "parse_bitcode", kept)
    field = ergode.field_from_equations({"x": f"-{random.random()} * x"})  # nobody compiled it
    ergode.trajectories.integrate(field, times=[0, 1], initial={"x": 1.0}, device="cpu")
    assert made and all(module._closed for module in made)
