"""Rosenbrock methods on CUDA for many zones of a small network: a thread for every zone.

The tables of the network are compile-time constants, and every loop over them is unrolled. Indices
become addresses, so a zone stays in registers and local memory. The method is
`rosenbrock.integrate_zone` with four functions replaced. Each network needs its own kernel, which
compiles in seconds for a small network and would take minutes for a large one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.compiler.language import cuda, option, real, unroll
from ergode.core.group import ALONE, KIND, ONE
from ergode.core.math.rosenbrock import Coefficients
from ergode.kinetics.block.schedule import SMALL
from ergode.kinetics.implicit.by_block import integrate_from_queue
from ergode.kinetics.implicit.rosenbrock import StepVectors, factorize, solve_trial
from ergode.kinetics.implicit.system import add_outflow, change_at, fill_slopes, outflow_alone
from ergode.kinetics.tables import System, Workspace

_MOST_ENTRIES = 200


def can_be_unrolled(system: System) -> bool:
    """Whether a network is small enough for a kernel of its own; not with powers or formulas."""
    if system.powers or system.rates.formulas:
        return False
    return system.absolute.size <= SMALL and system.flows.complex.size <= _MOST_ENTRIES


def unrolled_bindings(system: System, coefficients: Coefficients) -> dict[Any, Any]:
    """Bindings that make a kernel one of this network."""
    plan, terms, complexes = system.plan, system.terms, system.complexes
    places = np.zeros((plan.size, plan.size), int)
    for k in range(plan.size):
        row = slice(plan.start[k], plan.start[k + 1])
        places[k, plan.column[row]] = np.arange(plan.start[k], plan.start[k + 1])
    tables = {
        FIRST: complexes.first, SECOND: complexes.second, THIRD: complexes.third,
        ROW: system.flows.start, COMPLEX: system.flows.complex,
        ORDER: plan.order, START: plan.start, COLUMN: plan.column, PIVOT: plan.pivot,
        TERM: terms.start, VALUE: terms.value, SLOPE_OF: terms.slope,
    }  # fmt: skip
    bindings: dict[Any, Any] = {key: tuple(table.tolist()) for key, table in tables.items()}
    return bindings | {
        PLACE: tuple(map(tuple, places.tolist())), SIZE: plan.size,
        ENTRIES: plan.column.size, COMPLEXES: complexes.first.size,
        VALUES: system.flows.complex.size,
        COEFFICIENTS: system.rates.slot_start.size - 1, VECTOR: plan.size + 1,
        STAGES: coefficients.m.size * plan.size, SLOPES: 3 * complexes.first.size,
        GRAM: (len(system.invariants) + 3) * len(system.invariants) or 1,
        change_at: change_unrolled, fill_slopes: slopes_unrolled,
        factorize: factorize_unrolled, solve_trial: solve_unrolled,
        add_outflow: outflow_alone, KIND: ALONE,
    }  # fmt: skip


# --- device functions -----------------------------------------------------------------------------

SIZE, VECTOR, ENTRIES = option(1), option(2), option(1)
COMPLEXES, VALUES, COEFFICIENTS = option(1), option(1), option(1)
STAGES, SLOPES, GRAM = option(1), option(3), option(1)
"""Sizes of the network, and of the workspace of a zone."""
FIRST, SECOND, THIRD = option((0,)), option((0,)), option((0,))
COMPLEX, ORDER, COLUMN = option((0,)), option((0,)), option((0,))
PIVOT, VALUE, SLOPE_OF = option((0,)), option((0,)), option((0,))
ROW, START, TERM = option((0, 1)), option((0, 1)), option((0, 1))
PLACE = option(((0,),))
"""Tables of the network, as in `tables.System`."""


def change_unrolled(system, workspace, y, found):
    """dy/dt, as `system.change_at`."""
    for s in unroll(range(COMPLEXES)):
        workspace.products[s] = y[FIRST[s]] * y[SECOND[s]] * y[THIRD[s]]
    for i in unroll(range(SIZE)):
        total = 0.0
        for entry in unroll(range(ROW[i], ROW[i + 1])):
            total += workspace.values[entry] * workspace.products[COMPLEX[entry]]
        found[i] = total


def slopes_unrolled(system, workspace, vectors, y):
    """The Jacobian's negative, as `system.fill_slopes`."""
    for s in unroll(range(COMPLEXES)):
        workspace.derivatives[3 * s] = y[SECOND[s]] * y[THIRD[s]]
        workspace.derivatives[3 * s + 1] = y[FIRST[s]] * y[THIRD[s]]
        workspace.derivatives[3 * s + 2] = y[FIRST[s]] * y[SECOND[s]]
    for index in unroll(range(ENTRIES)):
        total = 0.0
        for term in unroll(range(TERM[index], TERM[index + 1])):
            total -= workspace.values[VALUE[term]] * workspace.derivatives[SLOPE_OF[term]]
        vectors.matrix[index] = total


def factorize_unrolled(system, vectors, diagonal):
    """Factors, as `elimination.factorize_shifted`."""
    matrix = vectors.matrix
    sound = True
    for k in unroll(range(SIZE)):
        matrix[PIVOT[k]] += diagonal
        for left in unroll(range(START[k], PIVOT[k])):
            matrix[left] *= matrix[PIVOT[COLUMN[left]]]
            for right in unroll(range(PIVOT[COLUMN[left]] + 1, START[COLUMN[left] + 1])):
                matrix[PLACE[k][COLUMN[right]]] -= matrix[left] * matrix[right]
        value = matrix[PIVOT[k]]
        sound = sound and abs(value) > 0.0 and abs(value) < np.inf
        matrix[PIVOT[k]] = 1.0 / value
    return sound


def solve_unrolled(system, workspace, vectors):
    """Solve for `vectors.trial`, as `elimination.solve`."""
    factors, x, row = vectors.matrix, vectors.trial, vectors.row
    for k in unroll(range(SIZE)):
        total = x[ORDER[k]]
        for left in unroll(range(START[k], PIVOT[k])):
            total -= factors[left] * row[COLUMN[left]]
        row[k] = total
    for k in unroll(range(SIZE - 1, -1, -1)):
        total = row[k]
        for entry in unroll(range(PIVOT[k] + 1, START[k + 1])):
            total -= factors[entry] * row[COLUMN[entry]]
        row[k] = total * factors[PIVOT[k]]
        x[ORDER[k]] = row[k]


def integrate_unrolled(system, method, history, grid, rtol, max_steps, counter, outcome):
    """Zones from a queue, each by one thread."""
    workspace = Workspace(
        cuda.local.array(COEFFICIENTS, real),
        cuda.local.array(1, real),
        cuda.local.array(1, real),
        cuda.local.array(1, real),
        cuda.local.array(SIZE, real),
        cuda.local.array(1, real),
        cuda.local.array(VALUES, real),
        cuda.local.array(COMPLEXES, real),
        cuda.local.array(SLOPES, real),
        cuda.local.array(1, real),
        ONE,
        cuda.local.array(1, real),
    )
    vectors = StepVectors(
        cuda.local.array(VECTOR, real),
        cuda.local.array(VECTOR, real),
        cuda.local.array(SIZE, real),
        cuda.local.array(SIZE, real),
        cuda.local.array(1, real),
        cuda.local.array(1, real),
        cuda.local.array(STAGES, real),
        cuda.local.array(ENTRIES, real),
        cuda.local.array(SIZE, real),
        cuda.local.array(GRAM, real),
        cuda.local.array(1, real),
        cuda.local.array(1, real),
    )
    integrate_from_queue(
        system, method, workspace, vectors, history, grid, rtol, max_steps, counter, outcome
    )
