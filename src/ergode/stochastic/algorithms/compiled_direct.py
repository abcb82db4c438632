"""The direct method of a small network as straight-line code, generated for that network.

All propensities, their running sums and the choice are straight-line code, without branches or
tables.  The reaction that fires is the last whose preceding running sum does not exceed the target.
On a GPU a thread keeps a realization in registers.  On a CPU the innermost loop is over
realizations (lanes) and is vectorised.  A thread or lane that finishes a realization takes the next
from a queue.

D. T. Gillespie, "Exact stochastic simulation of coupled chemical reactions", J. Phys. Chem. 81
(1977).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, cuda, no_refcount, noinline_cpu, option, unroll
from ergode.core.compiler.syntax import function_from_text
from ergode.core.group import ONE, next_member
from ergode.core.math.random import FIRING, draw_words, exponential, uniform
from ergode.core.parsing import parse
from ergode.stochastic.kernel import outcomes
from ergode.stochastic.kernel.numbering import replicate_of
from ergode.stochastic.kernel.results import (
    LOW_HALF,
    accumulate_count,
    add_amount,
    finish,
    write,
    write_last,
)
from ergode.stochastic.laws import Formula, Naming, law_of
from ergode.stochastic.tables import Tables

SPECIES = option()
"""Number of species."""

REACTIONS = option()
"""Number of reactions."""

PARAMETERS = option()
"""Number of parameters that rates use."""

LANES = option()
"""Number of realizations that a CPU thread simulates at once."""

SHARED = option()
"""Whether a block of a GPU sums over realizations in shared memory."""

transition = option()
"""``transition(u, x, c, p)``, generated for each network: the total propensity, the smallest of the
values that must not be negative, and each amount after a firing.  `u` chooses the reaction; `x` is
the state, `c` the coefficients, `p` the parameters.
"""


class Rates(NamedTuple):
    """Arrays of a network for kernels."""

    initial: Any  # [point, species]
    coefficients: Any  # [point, reaction]
    parameters: Any  # [point, used parameter]


# ---- the code of a network


def code_of(tables: Tables) -> tuple[str, list[int]]:
    """Source of `transition` for a network, and the parameters that it reads.

    If counts cannot become negative, counts and mass-action propensities need no check.
    """
    network, naming, counts_stay = tables.network, tables.naming, tables.unlimited is None
    laws = [law_of(network, naming, k) for k in range(tables.reaction_count)]
    used: list[int] = []
    lines = ["def transition(u, x, c, p):"]
    least: list[str] = []
    for j, law in enumerate(laws):
        factors = [f"c[{j}]"]
        for variable, order in law.orders.items():
            factors += [
                f"x[{variable}]" if k == 0 else f"(x[{variable}] - {float(k)!r})"
                for k in range(order)
            ]
        if isinstance(law, Formula):
            tree = _Places(naming, used).visit(
                parse(ast.unparse(law.expression.tree), mode="eval").body
            )
            factors.append(f"({ast.unparse(ast.fix_missing_locations(tree))})")
        if isinstance(law, Formula) or not counts_stay:
            least.append(f"a{j}")
        lines.append(f"    a{j} = {' * '.join(factors)}")
        lines.append(f"    s{j} = s{j - 1} + a{j}" if j else "    s0 = a0")
    if all(isinstance(law, Formula) or max(law.orders.values(), default=0) > 1 for law in laws):
        # Without reactants every propensity may be -0.0: for 2 A with A = 0, 0 * (0 - 1). Make it
        # 0.0.
        lines.append(f"    s{len(laws) - 1} = 0.0 + s{len(laws) - 1}")
    last = len(laws) - 1
    stoichiometry = network.stoichiometry.toarray()
    if not counts_stay:
        least += [f"x[{i}]" for i in np.flatnonzero((stoichiometry < 0).any(axis=1))]
    smallest = "0.0"
    for name in least:
        smallest = f"min({smallest}, {name})"
    lines.append(f"    least = {smallest}")
    lines.append(f"    target = u * s{last}")
    for k in range(1, len(laws)):
        lines.append(f"    k{k} = target >= s{k - 1}")
    ends = []
    for i in range(len(network.species)):
        row = stoichiometry[i]
        lines.append(f"    d{i} = {float(row[0])!r}")
        lines += [
            f"    d{i} = {float(row[k])!r} if k{k} else d{i}"
            for k in range(1, len(laws))
            if row[k] != row[k - 1]
        ]
        ends.append(f"x[{i}] + d{i}" if row.any() else f"x[{i}]")
    lines.append(f"    return s{last}, least, {', '.join(ends)}")
    return "\n".join(lines) + "\n", used


class _Places(ast.NodeTransformer):
    """Replaces names in a formula by elements of the state and of the parameters."""

    def __init__(self, naming: Naming, used: list[int]) -> None:
        self.naming, self.used = naming, used

    def _parameter(self, number: int) -> ast.expr:
        if number not in self.used:
            self.used.append(number)
        return parse(f"p[{self.used.index(number)}]", mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.AST:
        naming = self.naming
        if node.id not in naming.index:
            return self._parameter(naming.parameters.index(node.id))
        place = parse(f"x[{naming.index[node.id]}]", mode="eval").body
        size = naming.size_of(node.id)
        if size is None:
            return place
        return ast.BinOp(place, ast.Div(), self._parameter(naming.parameters.index(size)))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        left, right = self.visit(node.left), self.visit(node.right)
        if (
            isinstance(node.op, ast.Pow)
            and isinstance(right, ast.Constant)
            and isinstance(right.value, float)
            and right.value.is_integer()
            and 0 < right.value < 16
        ):
            right = ast.Constant(int(right.value))  # numba expands it to multiplications
        return ast.BinOp(left, node.op, right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        assert isinstance(node.func, ast.Name)
        arguments = [self.visit(argument) for argument in node.args]
        plain = node.func.id in ("abs", "min", "max")
        name = node.func.id if plain else f"math.{node.func.id}"
        return ast.Call(parse(name, mode="eval").body, arguments, [])


@lru_cache(maxsize=256)
def function_of(text: str) -> Callable[..., Any]:
    """The function that a source text defines."""
    return function_from_text(text, {"math": math})


# ---- shared by both targets


def next_firing(seed, replicate, draw, t, x, c, p):
    """Time of the next firing, the state after it, and the first two values of `transition`."""
    w0, w1, w2, w3 = draw_words(seed, replicate, 0, FIRING, draw)
    found = transition(uniform(w2, w3), x, c, p)
    total, least, y = found[0], found[1], tuple(found[2 + i] for i in range(SPECIES))
    return t + exponential(w0, w1) / total, y, total, least


def outcome_of(total, least):
    """Outcome of a realization whose total is 0 or invalid, or that has a negative value."""
    if least < 0.0 or total < 0.0:
        return outcomes.NEGATIVE
    return outcomes.EXTINCT if total == 0.0 else outcomes.NOT_FINITE


def _reach(time, total, least, draws, most, cursor, row, cell, slot, x, memory, out):
    """Write the times of the grid before the next firing.

    Returns the next time, the outcome, and whether the realization goes on.
    """
    if least < 0.0 or not (total >= 0.0 and total < outcomes.INFINITY):
        return cursor, outcome_of(total, least), False
    while cursor < out.grid.size and not (time < out.grid[cursor]):
        if not _write(cursor, row, cell, slot, x, memory, out):
            return cursor, outcomes.OVERFLOW, False
        cursor += 1
    if cursor < out.grid.size:
        return cursor, outcomes.DONE if draws <= most else outcomes.TOO_MANY, draws <= most
    return cursor, outcomes.EXTINCT if total == 0.0 else outcomes.DONE, False


def _write_lane(k, row, cell, slot, lane, rows, out):
    return write(k, lane, row, cell, slot, rows, rows, out)


def _write_registers(k, row, cell, slot, x, shared, out):
    times = out.grid.size
    most = outcomes.COUNT_LIMIT if SHARED or out.counts.shape[2] > 0 else outcomes.WHOLE_LIMIT
    fits = True
    for i in unroll(range(SPECIES)):
        fits = fits and abs(x[i]) < most
    if not fits:
        return False
    if out.amounts.shape[0] > 0:
        for i in unroll(range(SPECIES)):
            out.amounts[row, k, i] = np.int64(x[i])
    if SHARED:
        cuda.atomic.add(shared, k, 1)
        for i in unroll(range(SPECIES)):
            n = np.int64(x[i])
            place = times + 2 * (k * SPECIES + i)
            cuda.atomic.add(shared, place, n)
            cuda.atomic.add(shared, place + 1, (n * n) & LOW_HALF)
            if (n * n) >> 32 != 0:
                cuda.atomic.add(out.squares_high, (0, 0, k, i), (n * n) >> 32)
    elif out.counts.shape[2] > 0:
        accumulate_count(out.counts, slot, cell, k)
        for i in unroll(range(SPECIES)):
            add_amount(slot, cell, k, i, np.int64(x[i]), out)
    return True


_write = ByTarget(cpu=_write_lane, cuda=_write_registers)
"""``_write(k, row, cell, slot, x, memory, out)`` writes a state at time `k` of the grid; false if a
count is too large. `x` is the lane, whose rows are in `memory`, or the state."""


# ---- CPU: realizations in lanes


# Rows of LANES numbers in one array: constant offsets show the compiler that rows do not overlap.
def before(i):
    """Row of a species, before the firing."""
    return i * LANES


def after(i):
    """Row of a species, after it."""
    return (SPECIES + i) * LANES


def lane_scalar(k):
    """Rows with one number per lane: time, time of the firing, sum, least, limit."""
    return (2 * SPECIES + k) * LANES


def coefficient(j):
    return (2 * SPECIES + 5 + j) * LANES


def parameter(k):
    return (2 * SPECIES + 5 + REACTIONS + k) * LANES


def amount_of_lane(i, lane, rows, state):
    """Amount of a species."""
    return rows[before(i) + lane]


@noinline_cpu
def _begin(lane, row, rates, plan, rows, words):
    """Load the initial state of realization `row` into a lane, like the result of a firing."""
    number = plan.first + row
    point = number // plan.replicates
    words[lane] = np.uint32(0)
    words[LANES + lane] = np.uint32(replicate_of(number, point, plan))
    for i in range(SPECIES):
        rows[after(i) + lane] = rates.initial[point, i]
    for j in range(REACTIONS):
        rows[coefficient(j) + lane] = rates.coefficients[point, j]
    for k in range(PARAMETERS):
        rows[parameter(k) + lane] = rates.parameters[point, k]
    rows[lane_scalar(1) + lane] = plan.begin


@no_refcount
def _fire(seed, most, rows, words):
    """Compute the next firing of every lane; return how many lanes have to report before it."""
    reached = 0
    for lane in range(LANES):
        time, y, total, least = next_firing(
            seed,
            words[LANES + lane],
            words[lane],
            rows[lane_scalar(0) + lane],
            tuple(rows[before(i) + lane] for i in range(SPECIES)),
            tuple(rows[coefficient(j) + lane] for j in range(REACTIONS)),
            tuple(rows[parameter(k) + lane] for k in range(PARAMETERS)),
        )
        for i in unroll(range(SPECIES)):
            rows[after(i) + lane] = y[i]
        rows[lane_scalar(1) + lane] = time
        rows[lane_scalar(2) + lane] = total
        rows[lane_scalar(3) + lane] = least
        words[lane] = np.uint32(words[lane] + np.uint32(1))
        fine = least >= 0.0 and total < outcomes.INFINITY
        goes_on = time < rows[lane_scalar(4) + lane] and fine and words[lane] <= most
        reached += 0 if goes_on else 1
    return reached


def _commit(rows):
    """Accept the state after a firing."""
    for lane in range(LANES):
        for i in unroll(range(SPECIES)):
            rows[before(i) + lane] = rows[after(i) + lane]
        rows[lane_scalar(0) + lane] = rows[lane_scalar(1) + lane]


@noinline_cpu
def _report(lane, row, slot, max_firings, plan, rows, words, places, out):
    """Report the times that a lane has reached; false if its realization has ended."""
    cell = (plan.first + row) // plan.replicates - plan.first // plan.replicates
    cursor, outcome, goes_on = _reach(
        rows[lane_scalar(1) + lane], rows[lane_scalar(2) + lane], rows[lane_scalar(3) + lane],
        words[lane], max_firings, places[LANES + lane], row, cell, slot, lane, rows, out,
    )  # fmt: skip
    if goes_on:
        places[LANES + lane] = cursor
        rows[lane_scalar(4) + lane] = out.grid[cursor]
    else:
        t = rows[lane_scalar(0) + lane]
        finish(row, outcome, np.int64(words[lane]) - 1, cursor, t, False, out)
        write_last(row, lane, rows, rows, out)
    return goes_on


def lanes_cpu(start, stop, grain, rates, plan, out):
    """Realizations `start` to `stop`, on one thread, LANES at a time."""
    slot = start // grain
    rows = np.empty((2 * SPECIES + 5 + REACTIONS + PARAMETERS) * LANES)
    words = np.empty(2 * LANES, np.uint32)  # number of draws, replicate
    places = np.empty(2 * LANES, np.int64)  # realization, index of the next grid time
    most = np.uint32(plan.max_firings)
    following = start
    active = 0
    for lane in range(LANES):
        # A lane without a realization repeats the last realization and does not report it.
        _begin(lane, min(following, stop - 1), rates, plan, rows, words)
        mine = following < stop
        places[lane] = following if mine else -1
        places[LANES + lane] = 0
        rows[lane_scalar(4) + lane] = out.grid[0] if mine else outcomes.INFINITY
        active += 1 if mine else 0
        following += 1
    _commit(rows)
    while active > 0:
        reached = _fire(plan.seed, most, rows, words)
        if reached > 0:
            for lane in range(LANES):
                goes_on = (
                    rows[lane_scalar(1) + lane] < rows[lane_scalar(4) + lane]
                    and rows[lane_scalar(2) + lane] < outcomes.INFINITY
                    and rows[lane_scalar(3) + lane] >= 0.0
                    and words[lane] <= most
                )
                row = places[lane]
                if row < 0 or goes_on:
                    continue
                if not _report(lane, row, slot, most, plan, rows, words, places, out):
                    if following < stop:
                        _begin(lane, following, rates, plan, rows, words)
                        places[lane] = following
                        places[LANES + lane] = 0
                        rows[lane_scalar(4) + lane] = out.grid[0]
                        following += 1
                    else:
                        places[lane] = -1
                        rows[lane_scalar(4) + lane] = outcomes.INFINITY
                        active -= 1
        _commit(rows)


# ---- CUDA: one thread per realization


# (Separate functions: numba builds a long tuple only if a function does nothing else.)
def initial_of(rates, point):
    """Initial state."""
    return tuple(rates.initial[point, i] for i in range(SPECIES))


def coefficients_of(rates, point):
    return tuple(rates.coefficients[point, j] for j in range(REACTIONS))


def parameters_of(rates, point):
    return tuple(rates.parameters[point, k] for k in range(PARAMETERS))


def registers_cuda(queue, count, rates, plan, out):
    """All realizations: a thread that has finished one takes the next from a queue.

    Sums over realizations are collected in the block's shared memory if they fit.
    """
    grid = out.grid
    times = grid.size
    cells = times * SPECIES
    shared = cuda.shared.array(0, np.int64)
    if SHARED:
        for k in range(cuda.threadIdx.x, times + 2 * cells, cuda.blockDim.x):
            shared[k] = 0
        cuda.syncthreads()
    first_point = plan.first // plan.replicates
    most = np.uint32(plan.max_firings)
    row = next_member(ONE, queue)
    fresh = True
    point = np.int64(0)
    replicate = np.uint32(0)
    x, c, p = initial_of(rates, 0), coefficients_of(rates, 0), parameters_of(rates, 0)
    t = plan.begin
    draw = np.uint32(0)
    cursor = 0
    limit = grid[0]
    while row < count:
        if fresh:
            point = (plan.first + row) // plan.replicates
            replicate = np.uint32(replicate_of(plan.first + row, point, plan))
            x = initial_of(rates, point)
            c = coefficients_of(rates, point)
            p = parameters_of(rates, point)
            t = plan.begin
            draw = np.uint32(0)
            cursor = 0
            limit = grid[0]
            fresh = False
        time, y, total, least = next_firing(plan.seed, replicate, draw, t, x, c, p)
        draw = np.uint32(draw + np.uint32(1))
        if not (time < limit and least >= 0.0 and total < outcomes.INFINITY and draw <= most):
            cursor, outcome, goes_on = _reach(
                time, total, least, draw, most, cursor, row, point - first_point, 0, x, shared, out
            )
            if goes_on:
                limit = grid[cursor]
            else:
                finish(row, outcome, np.int64(draw) - 1, cursor, t, False, out)
                row = next_member(ONE, queue)
                fresh = True
        x = y
        t = time
    if SHARED:
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, times, cuda.blockDim.x):
            cuda.atomic.add(out.counts, (0, 0, k), shared[k])
        for k in range(cuda.threadIdx.x, cells, cuda.blockDim.x):
            where = (0, 0, k // SPECIES, k % SPECIES)
            cuda.atomic.add(out.sums, where, shared[times + 2 * k])
            cuda.atomic.add(out.squares_low, where, shared[times + 2 * k + 1])
