"""Interpreted equations: the bytecode program of a field, and the kernels that can run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ergode.core.compiler.tracer import traced
from ergode.core.formulation import Compile, Formulation
from ergode.core.kernels import Kernel
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.delays import history_ring, segments
from ergode.trajectories.steppers import equations, explicit, inside_step, noise, stepper

# Options that need compiled user functions or special code; a kernel with one is always compiled.
_FORMULAS = {
    history_ring.initial_history, segments.TAUS, segments.SAMPLED, equations.looked_up,
    inside_step.EVENTS, noise.diffusion,
}  # fmt: skip


def formulation_of(
    field: VectorField,
    kernel: Kernel,  # compiled for the field
    when: Compile,  # when to compile
    may_stand: bool = True,  # whether the kernel contains no other user function
    more: Mapping[Any, Any] | None = None,  # additional bindings of the standing kernel
) -> Formulation:
    """The compiled kernel of a field, and the standing kernel that interprets its program."""
    bound = kernel.bindings
    is_explicit = bound.get(stepper.step, explicit.step) is explicit.step
    if when == "now" or not may_stand or not is_explicit or any(map(bound.get, _FORMULAS)):
        return Formulation(kernel, when=when)
    delays = [len(field.delays)] if field.delays else []
    lengths = [None, len(field.variables), *delays, len(field.parameters)]
    program = traced(field.function, lengths, kernel.precision)
    if program is None:
        return Formulation(kernel, when=when)
    own = (equations.rhs, equations.PARAMETERS)
    bindings = {key: value for key, value in bound.items() if key not in own}
    standing = replace(kernel, bindings={**bindings, **(more or {}), equations.PROGRAM: True})
    return Formulation(kernel, standing, (program.steps, program.registers, program.outputs), when)
