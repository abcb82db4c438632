"""The matrix I / gamma - J of Newton's method: its factors, and solutions with them."""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, no_unroll, noinline
from ergode.core.group import barrier, share, total_of
from ergode.kinetics.block.elimination import eliminate_levels, warp_substitute
from ergode.kinetics.implicit.elimination import factorize_shifted, solve
from ergode.kinetics.kernel_options import SELF_HEATING

# --- device functions -----------------------------------------------------------------------------


@noinline
def renew_factors(chemistry, vectors, gamma):
    """Factorise the matrix; returns 0 if all pivots are sound, else another number or NaN."""
    slopes, matrix, per, group = chemistry.slopes, vectors.matrix, 1.0 / gamma, vectors.group
    for entry in no_unroll(share(group, 0, matrix.size)):
        matrix[entry] = 0.0
    barrier(group)
    for entry in no_unroll(share(group, 0, vectors.slopes.size)):
        matrix[slopes.entry[1, entry]] = -vectors.slopes[entry]
    if SELF_HEATING:
        for i in no_unroll(share(group, 0, slopes.heat.shape[1])):
            matrix[slopes.heat[0, i]] = per * vectors.row[i]
            matrix[slopes.heat[1, i]] = -vectors.column[i]
    barrier(group)
    return factorize(chemistry, vectors, per)


def _factorize_cpu(chemistry, vectors, per):
    return factorize_shifted(chemistry.plan, vectors.matrix, per, vectors.scratch)


def _factorize_cuda(chemistry, vectors, per):
    schedule, matrix, group = chemistry.schedule, vectors.matrix, vectors.group
    for i in no_unroll(share(group, 0, schedule.pivot.size)):
        matrix[schedule.pivot[i]] += per
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
