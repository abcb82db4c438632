"""The length of implicit steps, their errors, and interpolation within them."""

from __future__ import annotations

import math

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.condition_history import NEARLY, horizon, settled
from ergode.kinetics.implicit.energy import gain_of, given_at, temperature_at
from ergode.kinetics.implicit.motion import own_density
from ergode.kinetics.kernel_options import MOLECULES, MOVING, POWERS, SELF_HEATING, TIMED
from ergode.kinetics.physics.rates import jump_of

# --- device functions -----------------------------------------------------------------------------

SAFETY, LEAST, MOST = 0.9, 0.2, 8.0
SOON = 1e-3  # of a step
# Shortest first step, as a fraction of the whole time; if it is too long, it is rejected.
LEAST_FIRST = 1e-16
# Largest relative change of a given temperature or density in a step.
CHANGE = 0.05
# How far an amount may be below zero: by rounding, as a fraction of its terms, and of `absolute`.
ROUNDING, BELOW = 1e-12, 1e-8


def first_step(absolute, rtol, y, change, rise, species_count, span, group):
    """First step: the solution changes little in it."""
    amount, speed = 0.0, 0.0
    for i in no_unroll(share(group, 0, absolute.size)):
        allowed = absolute[i] + rtol * abs(y[i])
        rate = rise if SELF_HEATING and i == species_count else change[i]
        amount += (y[i] / allowed) ** 2
        speed += (rate / allowed) ** 2
    amount = total_of(group, amount, 0)
    speed = total_of(group, speed, 1)
    if speed == 0.0:
        return span
    step = 0.01 * max((amount / speed) ** 0.5, 1e-3 / speed**0.5)
    return min(span, max(step, LEAST_FIRST * span))


def fastest_heating(rise, before, after, duration, begin, since, steepest, peak):
    """Update the steepest slope of the temperature, and its time, after a step.

    The temperature follows the cubic through both ends of the step, whose slopes are `before` and
    `after`. The step has ended `since` after the time `begin`.
    """
    for eighth in no_unroll(range(1, 9)):
        theta = 0.125 * eighth
        slope = 6.0 * theta * (1.0 - theta) * rise
        slope /= duration
        slope += (3.0 * theta - 1.0) * (theta - 1.0) * before
        slope += theta * (3.0 * theta - 2.0) * after
        if slope > steepest:
            steepest = slope
            peak = begin + (since - (1.0 - theta) * duration)
    return steepest, peak


def finish_step(method, absolute, rtol, thermo, workspace, vectors, species_count, heat):
    """Compute the end of a step, into `vectors.new`; returns this thread's squared errors.

    The temperature of a zone that heats itself, and its error, are here the linear parts of those
    that follow from energy and amounts. Where polynomials of molecules meet within the step, the
    heat of reactions jumps. The stages do not see this jump, so it is counted as an error.

    The error of an amount below zero is at least its size: both formulas may agree to go on along
    the slope of a species that is used up within the step. Such errors add up, for what is below
    zero is clipped; so `absolute` counts less in them.
    """
    group = workspace.group
    y, new, U = vectors.y, vectors.new, vectors.stages
    count, part, taken, missed = absolute.size, 0.0, 0.0, 0.0
    for i in no_unroll(share(group, 0, count)):
        total, error, size = y[i], 0.0, abs(y[i])
        for j in no_unroll(range(method.m.size)):
            one, amount = j & NONNEGATIVE, U[(j * count + i) & NONNEGATIVE]
            term = method.m[one] * amount
            total += term
            size += abs(term)
            error += method.e[one] * amount
        new[i] = total
        if SELF_HEATING:
            if i == species_count:
                continue
            if i < species_count:
                taken += workspace.energies[i] * (total - y[i])
                missed += workspace.energies[i] * error
            if MOVING and i == species_count + 1:
                taken += heat.by_volume * (total - y[i])
                missed += heat.by_volume * error
        relative = rtol * max(abs(y[i]), abs(total))
        ratio = abs(error) / (absolute[i] + relative)
        if MOVING and i > species_count + 1:  # a speed may be negative
            part += ratio * ratio
            continue
        # A species of an order below one ends in a finite time: no steps lead there from above.
        least = absolute[i] * (1.0 if POWERS else BELOW)
        below = (-total - ROUNDING * size) / (least + relative)
        if below > ratio:
            ratio = below
        # W U = f of the first stage.
        early = y[i] + U[i]
        if vectors.change[i] > 0.0 and early < -ROUNDING * size:
            below = early / (rtol * (early - y[i]))
            if below > ratio:
                ratio = below
        part += ratio * ratio
    if SELF_HEATING:
        barrier(group)
        taken = total_of(group, taken, 0)
        missed = total_of(group, missed, 1)
        barrier(group)
        total, jump = new[species_count] - taken / heat.capacity, 0.0
        if MOLECULES:
            for i in no_unroll(share(group, 0, species_count)):
                jump += jump_of(thermo, heat.temperature, total, i) * (new[i] - y[i])
            jump = total_of(group, jump, 0)
            barrier(group)
        if group.rank == 0:
            i = species_count
            error = gain_of(method.e, U, count, i) - missed / heat.capacity
            error = abs(error) + abs(jump) / heat.capacity
            ratio = error / (absolute[i] + rtol * max(abs(y[i]), abs(total)))
            part += ratio * ratio if total > 0.0 else math.inf
    return part


def end_temperature(system, method, workspace, vectors, heat, isobar, density):
    """Put the temperature of the amounts in `vectors.new`; begins and ends in a barrier."""
    group = workspace.group
    i = system.invariants.shape[1]
    gained = gain_of(method.m, vectors.stages, system.absolute.size, i)
    hot = temperature_at(system, workspace, heat, isobar, density, vectors.y, vectors.new, gained)
    barrier(group)
    if group.rank == 0:
        vectors.new[i] = hot
    barrier(group)


def fill_output(
    system,
    method,
    workspace,
    vectors,
    heat,
    isobar,
    history,
    segments,
    grid,
    place,
    base,
    since,
    h,
    stop,
    ends,
    out,
):
    """Write amounts at the times of the result within a step; returns the next place in `grid`.

    The step begins `since` after the time `base`. If it `ends` at a knot, that is `stop`. It
    touches the `segments` of the conditions from the first to the second.
    """
    group = workspace.group
    y, new, U = vectors.y, vectors.new, vectors.stages
    count = out.shape[1]
    while place < grid.size:
        theta = ((grid[place] - base) - since) / h
        if not (grid[place] <= stop if ends else theta <= 1.0):
            break
        theta = min(theta, 1.0)
        for i in no_unroll(share(group, 0, count)):
            curve, bend = 0.0, 0.0
            for j in no_unroll(range(method.m.size)):
                curve += method.p[j] * U[j * count + i]
                bend += method.q[j] * U[j * count + i]
            inner = new[i] + (1.0 - theta) * (curve + theta * bend)
            value = (1.0 - theta) * y[i] + theta * inner
            if not (MOVING and i > system.invariants.shape[1] + 1):  # a speed may be negative
                value = max(value, 0.0)
            out[place, i] = value
        if SELF_HEATING:
            i = system.invariants.shape[1]
            inner = gain_of(method.m, U, count, i)
            inner += (1.0 - theta) * gain_of(method.p, U, count, i)
            inner += (1.0 - theta) * theta * gain_of(method.q, U, count, i)
            barrier(group)
            own, level = given_at(history, isobar, segments[0], segments[1], since + theta * h)
            own = own_density(history, own, out[place], i)
            hot = temperature_at(system, workspace, heat, level, own, y, out[place], theta * inner)
            barrier(group)
            if group.rank == 0:
                out[place, i] = hot
        place += 1
    return place


def step_factor(method, error):
    """Ratio of the next step to this one."""
    return min(max(SAFETY * max(error, 1e-10) ** -method.exponent, LEAST), MOST)


def rejected_factor(method, error, finite):
    """Ratio of the repeated step to the rejected one."""
    return min(step_factor(method, error), 0.9) if finite else 0.1


def step_ahead(history, step, whole, rtol, due):
    """The step within its bounds; its last segment; whether it ends at the end of that segment.

    Where conditions change, a step also ends at the time `due` of the result. What follows the
    conditions within less than a step, such as radicals in sunlight, is interpolated far less
    accurately than it is known at the end of a step. Just after the beginning, that is no matter.
    """
    if TIMED:
        left = (due - history.times[step.below]) - step.since
        h = min(step.h, left) if left > SOON * step.h else step.h
        return horizon(history, step.below, step.since, h, CHANGE, 0.1 * rtol)
    ends = step.h * NEARLY >= whole - step.since
    return whole - step.since if ends else step.h, 0, ends


def time_after(history, below, since, last, h, ends):
    """The knot before the end of a step, and the time since that knot."""
    if TIMED and ends:
        below, since = last + 1, 0.0
    else:
        since += h
        if TIMED:
            below, since = settled(history.times, below, since)
    return below, since
