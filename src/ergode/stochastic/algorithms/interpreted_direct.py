"""The direct method of a small network on its tables, with the same results as `compiled_direct`.

One kernel serves every network, so a new network starts without compilation.  It performs the same
operations in the same order as the code that `compiled_direct` generates: results are bitwise
equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import real
from ergode.core.compiler.programs import Operation
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.stochastic.algorithms.compiled_direct import outcome_of
from ergode.stochastic.kernel.bytecode import evaluate
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.outcomes import DONE, EXTINCT, INFINITY, OVERFLOW, TOO_MANY
from ergode.stochastic.kernel.realization import change, write
from ergode.stochastic.tables import Tables

_EQUAL = (
    Operation.CONSTANT, Operation.VARIABLE, Operation.PARAMETER, Operation.NEGATE, Operation.ABS,
    Operation.SQRT, Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE,
    Operation.POWER,
)  # fmt: skip
_EQUAL_POWERS = (1.0, 2.0, 3.0)


class Work(NamedTuple):
    """Rows of one worker each."""

    x: Any  # [worker, variable + 1] the state
    stack: Any  # [worker, depth] for programs
    sums: Any  # [worker, reaction] running sums of propensities


def rounds_alike(tables: Tables) -> bool:
    """Whether programs round like compiled formulas: functions and higher powers may differ."""
    net = tables.net
    exponents = np.flatnonzero(net.operations == Operation.POWER) - 1
    return bool(
        np.isin(net.operations, _EQUAL).all()
        and (net.operations[exponents] == Operation.CONSTANT).all()
        and np.isin(net.constants[net.arguments[exponents]], _EQUAL_POWERS).all()
    )


def _add_up(w, point, net, work):
    """Compute running sums of propensities; return the last, and whether any is negative."""
    total, negative = real(0.0), False
    for j in range(net.coefficients.shape[1]):
        a = net.coefficients[point, j]
        for entry in range(net.reactant_starts[j], net.reactant_starts[j + 1]):
            x = work.x[w, net.reactants[entry]]
            a *= x
            for k in range(1, net.orders[entry]):
                a *= x - real(k)
        if net.laws[j] >= 0:
            a *= evaluate(net.laws[j], w, real(0.0), point, net, work)
        total += a
        negative = negative or a < 0.0
        work.sums[w, j] = total
    return total, negative


def _realize(row, w, net, work, plan, out):
    """Simulate one realization; `row` is its row in the results."""
    number = plan.first + row
    point = number // plan.replicates
    replicate = np.uint32(replicate_of(number, point, plan))
    cell = point - plan.first // plan.replicates
    for i in range(net.initial.shape[1]):
        work.x[w, i] = net.initial[point, i]
    most = np.uint32(plan.max_firings)
    t, draw, cursor = plan.begin, np.uint32(0), 0
    outcome, fine = DONE, True
    while True:
        total, negative = _add_up(w, point, net, work)
        negative = negative or not fine
        w0, w1, w2, w3 = draw_words(plan.seed, replicate, 0, FIRING, draw)
        time = t + exponential(w0, w1) / total
        draw = np.uint32(draw + np.uint32(1))
        if negative or not (total >= 0.0 and total < INFINITY):
            outcome = outcome_of(total, real(-1.0) if negative else real(0.0))
            break
        while cursor < out.grid.size and not (time < out.grid[cursor]):
            if not write(cursor, w, row, cell, w, work, out):
                outcome = OVERFLOW
                break
            cursor += 1
        if outcome == DONE and cursor < out.grid.size and draw > most:
            outcome = TOO_MANY
        elif outcome == DONE and cursor == out.grid.size and total == 0.0:
            outcome = EXTINCT
        if outcome != DONE or cursor == out.grid.size:
            break
        target = uniform(w2, w3) * total
        j = 0
        while j + 1 < net.coefficients.shape[1] and target >= work.sums[w, j]:
            j += 1
        fine = change(j, w, net, work)
        t = time
    out.status[row] = outcome
    out.firings[row] = np.int64(draw) - 1
    out.rows[row] = cursor
    out.ended[row] = t if outcome > EXTINCT else real(INFINITY)
    for i in range(out.states.shape[1] if out.states.shape[0] > 0 else 0):
        out.states[row, i] = work.x[w, i]


def interpret_cpu(start, stop, grain, net, work, plan, out):
    """Realizations `start` to `stop`, on one thread; every range has its own worker."""
    for row in range(start, stop):
        _realize(row, start // grain, net, work, plan, out)
