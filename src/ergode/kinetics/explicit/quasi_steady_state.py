"""The explicit quasi-steady-state method: a species relaxes towards its steady state.

With gains F and k = losses / Y held for a step, dY/dt = F - k Y has the solution

    Y' = Y + dt (F - k Y) / (1 + alpha k dt),    alpha = 1 / (1 - exp(-k dt)) - 1 / (k dt),

A rational function with the same limits, 1/2 and 1, replaces alpha. A step predicts with F and k at
the start, and corrects with the mean of k and the alpha-weighted mean of F at both ends. Sigma is
the largest difference of both, in units of the tolerance. A step is accepted if sigma is at most
10; the next step is dt (1 / sqrt(sigma) + 0.005).

D. R. Mott, E. S. Oran, B. van Leer, J. Comput. Phys. 164, 407 (2000), eqs. (10), (16)-(21);
D. R. Mott, E. S. Oran, "CHEMEQ2", Naval Research Laboratory NRL/MR/6400-01-8553 (2001);
M. Guidry, J. A. Harris, Comput. Sci. Disc. 6, 015002 (2013).
"""

from __future__ import annotations

from ergode.core.compiler.language import no_unroll
from ergode.core.group import largest_of, share, total_of
from ergode.kinetics.explicit.flows import flows_at, set_explicit_conditions
from ergode.kinetics.explicit.partial_equilibrium import withdraw
from ergode.kinetics.kernel_options import DYNAMIC, PARTIAL

WORST, GROWTH = 10.0, 10.0
"""Largest accepted sigma, and largest growth of a step."""

# --- device functions -----------------------------------------------------------------------------


def relaxation(x):
    """alpha for x = k dt."""
    return (180.0 + x * (60.0 + x * (11.0 + x))) / (360.0 + x * (60.0 + x * (12.0 + x)))


def quasi_steady_state_step(system, control, workspace, history, below, since, ahead, dt, scale):
    """One step of dt, of at most `ahead`, at the time `since` after the knot `below`.

    Returns the step (zero if it is rejected), the next step and the sum of mass fractions.
    """
    group = workspace.group
    y, start, predicted = workspace.y, workspace.start, workspace.predicted
    flow, early, weight = workspace.flow, workspace.early, system.weight
    count = weight.size
    whole = dt
    dt = min(dt, ahead)
    for i in no_unroll(share(group, 0, count)):
        start[i] = y[i]
        early[i], early[count + i] = flow[i], flow[count + i]
        k = early[count + i] / start[i] if start[i] > 0.0 else 0.0
        change = dt * (early[i] - early[count + i]) / (1.0 + relaxation(k * dt) * k * dt)
        predicted[i] = max(start[i] + change, 0.0)
        y[i] = predicted[i]
    if DYNAMIC:
        set_explicit_conditions(system, workspace, history, below, since + dt, y)
    flows_at(system, workspace, y, flow)
    if PARTIAL:
        withdraw(system.groups, workspace, flow)
    worst, part = 0.0, 0.0
    for i in no_unroll(share(group, 0, count)):
        k = early[count + i] / start[i] if start[i] > 0.0 else 0.0
        later = flow[count + i] / predicted[i] if predicted[i] > 0.0 else k
        k = 0.5 * (k + later)
        alpha = relaxation(k * dt)
        gain = alpha * flow[i] + (1.0 - alpha) * early[i]
        amount = max(start[i] + dt * (gain - k * start[i]) / (1.0 + alpha * k * dt), 0.0)
        off = abs(amount - predicted[i]) / (system.absolute[i] + control.rtol * amount)
        # NaN counts as the largest error.
        worst = worst if worst >= off or worst != worst else off
        y[i] = amount
        part += weight[i] * amount
    sigma = largest_of(group, worst, 0)
    total = total_of(group, part, 1) * scale
    factor = min(1.0 / max(sigma, 1e-6) ** 0.5 + 0.005, GROWTH)
    if sigma > WORST:
        for i in no_unroll(share(group, 0, count)):
            y[i] = start[i]
        return 0.0, dt * factor, total
    # After a step that was cut short, the next may have the length before the cut.
    return dt, max(dt * factor, whole if factor >= 1.0 else 0.0), total
