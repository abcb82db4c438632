"""The explicit asymptotic method: Euler steps, algebraically stabilised for stiff species.

With dY/dt = F - k Y, a species that loses more than its amount in a step (k dt > 1) takes

    Y' = (Y + F dt) / (1 + k dt),

the others take Y' = Y + (F - k Y) dt. The step is bounded by the fastest net change, by a tenth of
the elapsed time and by the previous step. The asymptotic formula does not conserve the sum of mass
fractions. A trial step measures the change of that sum; the step is then shortened or lengthened,
and repeated once.

These bounds do not control the error of Euler's steps. They limit the change of an amount to
0.01 mol/g, which for silicon is 28 % of the mass. `kinetics.error_estimate` estimates the error.

M. Guidry, R. Budiardja, E. Feger, J. Billings, W. Hix, O. Messer, K. Roche, E. McMahon, M. He,
Comput. Sci. Disc. 6, 015001 (2013), eqs. (12)-(14) and section 8; A. Haidar, B. Brock, S. Tomov,
M. Guidry, J. Billings, D. Shyles, J. Dongarra, "Performance analysis and acceleration of explicit
integration for large kinetic networks using batched GPU computations" (2016).
"""

from __future__ import annotations

from typing import NamedTuple

from ergode.core.compiler.language import no_unroll, unroll
from ergode.core.group import largest_of, share, total_of

FLUX_FRACTION = 0.01
MASS_TOLERANCE = 1e-7


class Control(NamedTuple):
    """Step-size control."""

    flux_fraction: float  # largest change of the amount of a species in a step
    mass_tolerance: float  # largest change of the sum of mass fractions in a step
    # Whether the repeated step chooses the formula by the amount after the trial step, as the
    # reference code does, instead of the amount at the start.
    reference: bool
    fractions: bool  # whether amounts are mass fractions; other amounts are divided by their sum


# --- device functions -----------------------------------------------------------------------------


def updated(amount, judged, gain, loss, dt):
    """Amount of a species after a step; the formula is chosen by the amount `judged`."""
    if judged > 0.0 and loss * dt > judged:
        # k is loss / amount; one division instead of two.
        return amount * ((amount + gain * dt) / (amount + loss * dt))
    return amount + (gain - loss) * dt


def adjusted(dt, total, before, tolerance):
    """The step to repeat, if the trial moved the sum of mass fractions from `before` to `total`."""
    moved = abs(total - before)
    if abs(total - 1.0) > abs(before - 1.0) and moved > tolerance:
        return dt * max(tolerance / moved, 0.1)
    if moved < 0.25 * tolerance:
        return dt * tolerance / max(moved, 0.9 * tolerance)
    return dt


def asymptotic_step(system, control, workspace, t, ahead, dt, before, scale):
    """One step from time t, of at most `ahead`, after a step of dt.

    Returns the step, the step without the bound `ahead`, and the sum of mass fractions.
    """
    group = workspace.group
    y, start, flow, weight = workspace.y, workspace.start, workspace.flow, system.weight
    count = weight.size
    fastest = 0.0
    for i in no_unroll(share(group, 0, count)):
        fastest = max(fastest, abs(flow[i] - flow[count + i]))
        start[i] = y[i]
    fastest = largest_of(group, fastest, 0)
    slowest = control.flux_fraction / (fastest * scale)
    if not control.fractions:
        # Relative to the amount that reacts; if there is none yet, to the elapsed time.
        part = 0.0
        for i in no_unroll(share(group, 0, count)):
            if flow[i] + flow[count + i] > 0.0:
                part += y[i]
        amount = total_of(group, part, 1)
        slowest = control.flux_fraction * (amount / fastest if amount > 0.0 else t)
    dt = min(min(slowest, 0.1 * t), dt)
    # One trial, and one repetition with the step that it suggests.
    whole, total = dt, before
    for trial in unroll(range(2)):
        if trial == 1:
            whole = adjusted(dt, total, before, control.mass_tolerance)
            dt = min(whole, ahead)
        part = 0.0
        for i in no_unroll(share(group, 0, count)):
            judged = y[i] if control.reference else start[i]
            amount = updated(start[i], judged, flow[i], flow[count + i], dt)
            y[i] = amount
            part += weight[i] * amount
        # Slots alternate: the fastest change used 0, the reacting amount 1.
        slot = 1 - trial if control.fractions else trial
        total = total_of(group, part, slot) * scale
    return dt, whole, total
