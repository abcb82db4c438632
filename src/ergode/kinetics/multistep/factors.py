"""The matrix I / gamma - J of Newton's method: its factors, and solutions with them."""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, no_unroll, noinline
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elimination import factorize_shifted, solve
from ergode.kinetics.block.elimination import eliminate_levels, warp_substitute
from ergode.kinetics.kernel_options import FLOW, MOVING, SELF_HEATING
from ergode.kinetics.multistep.outside import put_border
from ergode.kinetics.tables import STIRRED

# --- device functions -----------------------------------------------------------------------------


@noinline
def renew_factors(chemistry, vectors, gamma, renewal):
    """Factorise the matrix; returns 0 if all pivots are sound, else another number or NaN.

    `renewal` is the flow out of a tank over its mass.
    """
    slopes, matrix, per, group = chemistry.slopes, vectors.matrix, 1.0 / gamma, vectors.group
    for entry in no_unroll(share(group, 0, matrix.size)):
        matrix[entry] = 0.0
    barrier(group)
    for entry in no_unroll(share(group, 0, vectors.slopes.size)):
        matrix[slopes.entry[1, entry]] = -vectors.slopes[entry]
    if SELF_HEATING:
        species, lines = chemistry.invariants.shape[1], slopes.heat.shape[0] // 2
        for i in no_unroll(share(group, 0, slopes.heat.shape[1])):
            if i < species:
                matrix[slopes.heat[0, i]] = (per + renewal) * vectors.row[i]
            matrix[slopes.heat[lines, i]] = -vectors.column[i]
    if MOVING:
        put_border(chemistry, vectors)
    barrier(group)
    return factorize(chemistry, vectors, per, renewal)


def _factorize_cpu(chemistry, vectors, per, renewal):
    plan, matrix = chemistry.plan, vectors.matrix
    if FLOW == STIRRED:
        for k in range(plan.order.size):
            if plan.order[k] < chemistry.invariants.shape[1]:
                matrix[plan.pivot[k]] += renewal
    return factorize_shifted(plan, matrix, per, vectors.scratch)


def _factorize_cuda(chemistry, vectors, per, renewal):
    schedule, matrix, group = chemistry.schedule, vectors.matrix, vectors.group
    for i in no_unroll(share(group, 0, schedule.pivot.size)):
        matrix[schedule.pivot[i]] += per
        if FLOW == STIRRED and i < chemistry.invariants.shape[1]:
            matrix[schedule.pivot[i]] += renewal
    # Missing variables refer to this one.
    if group.rank == 0:
        vectors.inverse[schedule.pivot.size] = 1.0
    barrier(group)
    sound = eliminate_levels(schedule.factorization, schedule.pivots, matrix, vectors.inverse)
    return total_of(group, 0.0 if sound else 1.0, 0)


factorize = ByTarget(cpu=_factorize_cpu, cuda=_factorize_cuda)


def _solve_cpu(chemistry, vectors):
    solve(chemistry.plan, vectors.matrix, vectors.trial, vectors.scratch)


@noinline
def _solve_cuda(chemistry, vectors):
    schedule, matrix, inverse = chemistry.schedule, vectors.matrix, vectors.inverse
    x, b, group = vectors.scratch, vectors.trial, vectors.group
    for i in no_unroll(share(group, 0, b.size)):
        x[i] = b[i]
    if group.rank == 0:
        x[b.size] = 0.0
    barrier(group)
    warp_substitute(schedule.forward, matrix, inverse, x)
    warp_substitute(schedule.backward, matrix, inverse, x)
    for i in no_unroll(share(group, 0, b.size)):
        b[i] = x[i] * inverse[i]
    barrier(group)


solve_trial = ByTarget(cpu=_solve_cpu, cuda=_solve_cuda)
"""``solve_trial(chemistry, vectors)`` replaces the right-hand side `vectors.trial` by the solution.

On CUDA it begins and ends in a barrier."""
