"""Conserved sums (baryons, atoms of an element), restored after every step."""

from __future__ import annotations

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.condition_history import fed_at
from ergode.kinetics.kernel_options import FLOW, TIMED
from ergode.kinetics.tables import STIRRED

# --- device functions -----------------------------------------------------------------------------

ROUNDING = 2e-15
"""Of a sum, relative to its terms."""


def conserved(invariants, y, gram, group):
    """Compute the sums to restore, which are also the first scale of a defect."""
    count = invariants.shape[0]
    for k in no_unroll(range(count)):
        part = 0.0
        for i in no_unroll(share(group, 0, invariants.shape[1])):
            part += invariants[k, i] * y[i]
        part = total_of(group, part, k & 1)
        if group.rank == 0:
            gram[count * (count + 2) + k] = part
            gram[k * (count + 2) + count + 1] = abs(part)
    barrier(group)


def renew_sums(invariants, inflow, elapsed, h, gram, group):
    """Change the sums to restore by a step of length h in a stirred tank: E' = (E_in - E) / tau.

    The step ends `elapsed` after the first time. If flows differ, tau grows in proportion to time.

    The scale of a defect is then the largest sum that came in or was there: what washes out is
    soon smaller than the error of a step.
    """
    count, species_count = invariants.shape
    if group.rank == 0:
        span, growth = h, inflow[species_count + 2 + count]
        if TIMED:
            span = h / (1.0 + growth * (elapsed - h))
            x = growth * span
            if abs(x) > 1e-4:
                span = log(1.0 + x) / growth
            else:
                span *= 1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x))
        kept = exp(-span * inflow[species_count + 1])
        for k in no_unroll(range(count)):
            into = inflow[species_count + 2 + k]
            place = count * (count + 2) + k
            scale = k * (count + 2) + count + 1
            gram[scale] = max(gram[scale], abs(into))
            gram[place] = into + (gram[place] - into) * kept


STAGES = 8
"""Numbers behind `gram` for the stages of a sum, at least as many as a method has."""


def renew_fed_sums(system, method, history, step, later, gram, group):
    """Change the sums to restore by a step in a stirred tank whose inflow changes.

    By the method itself, applied to E' = r(t) (E_in(t) - E): to rounding, that is what it does to
    the sums of amounts. `later` is the increment of the finite differences in time.
    """
    count, species_count = system.invariants.shape
    h, flow, stages = step.h, species_count + 1, count * (count + 3)
    if group.rank == 0:
        renewal = fed_at(history, flow, step.below, step.below, step.since)
        soon = fed_at(history, flow, step.below, step.below, step.since + later)
        for k in no_unroll(range(count)):
            column = species_count + 3 + k
            begin = gram[count * (count + 2) + k]
            into = fed_at(history, column, step.below, step.below, step.since)
            slope = fed_at(history, column, step.below, step.below, step.since + later)
            slope = (soon * (slope - begin) - renewal * (into - begin)) / later
            total, largest = begin, abs(into)
            for stage in no_unroll(range(method.m.size)):
                own, gain = begin, 0.0
                for j in no_unroll(range(stage)):
                    own += method.a[stage, j] * gram[stages + j]
                    gain += method.c[stage, j] * gram[stages + j]
                pace, source = renewal, into
                if stage > 0:
                    at = step.since + method.alpha[stage] * h
                    pace = fed_at(history, flow, step.below, step.last, at)
                    source = fed_at(history, column, step.below, step.last, at)
                gain = gain / h + pace * (source - own) + method.gammas[stage] * h * slope
                gain /= 1.0 / (h * method.gamma) + renewal
                gram[stages + stage] = gain
                total += method.m[stage] * gain
                largest = max(largest, abs(source))
            gram[count * (count + 2) + k] = total
            scale = k * (count + 2) + count + 1
            gram[scale] = max(gram[scale], largest)
    barrier(group)


def project(invariants, y, gram, group):
    """Clip negative amounts and restore conserved sums; returns the largest defect.

    Each amount is multiplied by one plus a linear combination of the invariants' weights, so zeros
    stay zero. What remains of a defect beside the other sums is not restored if it, or the weight
    of the amounts that could restore it, is rounding: traces alone would have to take it, and be
    erased. `gram` has a row for each invariant (Gram matrix, defect, scale), then the sums to
    restore. Ends in a barrier.
    """
    count, species_count = invariants.shape
    for i in no_unroll(share(group, 0, species_count)):
        y[i] = max(y[i], 0.0)
    _fill(invariants, y, y, gram, group, True)
    worst = _solve(count, gram, group)
    for i in no_unroll(share(group, 0, species_count)):
        y[i] *= max(1.0 + _combination(invariants, gram, i), 0.0)
    barrier(group)
    return worst


def keep_sums(invariants, y, change, gram, group):
    """Take from a change of amounts near `y` what it does to conserved sums.

    Returns the largest such change, relative to the terms of the sum. Ends in a barrier.

    Where huge rates cancel, the sums are all but free in the linear system of a step. The
    correction goes along `y` times the weights, as in `project`. In an equilibrium these are the
    directions that the reactions leave free.
    """
    barrier(group)
    _fill(invariants, y, change, gram, group, False)
    worst = _solve(invariants.shape[0], gram, group)
    for i in no_unroll(share(group, 0, invariants.shape[1])):
        change[i] += y[i] * _combination(invariants, gram, i)
    barrier(group)
    return worst


def _fill(invariants, y, change, gram, group, restores):
    """Fill the rows of `gram`: weights and scales by `y`, sums of `change`; ends in a barrier."""
    count, species_count = invariants.shape
    width = count + 2
    # The error of the step has just been summed through slot 0, which other warps may still read.
    turn = 1
    for k in no_unroll(range(count)):
        for other in no_unroll(range(width)):
            part = 0.0
            for i in no_unroll(share(group, 0, species_count)):
                if other < count:
                    term = invariants[k, i] * y[i] * invariants[other, i]
                elif other == count:
                    term = invariants[k, i] * change[i]
                else:
                    term = abs(invariants[k, i] * y[i])
                part += term
            part = total_of(group, part, turn & 1)
            turn += 1
            if group.rank == 0:
                if other == count:
                    part = (gram[count * width + k] if restores else 0.0) - part
                elif FLOW == STIRRED and other > count:
                    part = max(part, gram[k * width + other])
                gram[k * width + other] = part
    barrier(group)


def _solve(count, gram, group):
    """Replace the defects in `gram` by the multipliers of the weights; ends in a barrier.

    Returns the largest defect, relative to its scale.
    """
    width, worst = count + 2, 0.0
    for k in no_unroll(range(count)):
        scale = gram[k * width + count + 1]
        if scale > 0.0:
            worst = max(worst, abs(gram[k * width + count]) / scale)
    barrier(group)
    if group.rank == 0:
        for k in no_unroll(range(count)):
            pivot = gram[k * width + k]
            if abs(gram[k * width + count]) <= ROUNDING * gram[k * width + count + 1]:
                gram[k * width + count] = 0.0
            for other in no_unroll(range(k + 1, count)):
                factor = gram[other * width + k] / pivot if pivot > 0.0 else 0.0
                own = gram[other * width + other]
                for m in no_unroll(range(k, count + 1)):
                    gram[other * width + m] -= factor * gram[k * width + m]
                if gram[other * width + other] <= ROUNDING * own:
                    gram[other * width + other] = 0.0
        for back in no_unroll(range(count)):
            k = (count - 1 - back) & NONNEGATIVE
            total = gram[k * width + count]
            for m in no_unroll(range(k + 1, count)):
                total -= gram[k * width + m] * gram[m * width + count]
            own = gram[k * width + k]
            gram[k * width + count] = total / own if own > 1e-280 else 0.0
    barrier(group)
    return worst


def _combination(invariants, gram, i):
    """What the weights of species `i` add to one."""
    count = invariants.shape[0]
    total = 0.0
    for k in no_unroll(range(count)):
        total += gram[k * (count + 2) + count] * invariants[k, i]
    return total
