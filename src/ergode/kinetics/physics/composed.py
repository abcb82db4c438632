"""Coefficients with factors on tables of temperature, and through intermediate nuclei.

See `models.reactions.composed_rates`. Parts of a sequence have slots of their own, beyond those of
the reactions, without powers of the density. The first reaction of a sequence has the reactants of
the whole, and its branches begin with equal nuclei: so screening, which follows, multiplies the
whole coefficient.
"""

from __future__ import annotations

from ergode.core.group import barrier, share
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.physics.rates import density_power

# --- device functions -----------------------------------------------------------------------------


def composed_coefficients(rates, temperature, density, slots, group):
    """Multiply slots by their tables, then add the sequences to coefficients; needs barriers."""
    composed = rates.composed
    logarithm = log(temperature)
    for w in share(group, 0, composed.tabulated.size):
        exponent = 0.0
        for table in range(composed.table_start[w], composed.table_start[w + 1]):
            x = logarithm if composed.table_kind[table] == 1 else temperature
            exponent += _on_table(composed, table, x)
        slots[composed.tabulated[w]] *= exp(exponent)
    barrier(group)
    for w in share(group, 0, composed.branched.size):
        begin, end = composed.branch_start[w], composed.branch_start[w + 1]
        total = 0.0
        for branch in range(begin, end):
            total += slots[composed.branch[branch]]
        if total > 0.0:
            r = composed.branched[w]
            part = slots[composed.branch[begin]] / total
            slots[r] += density_power(rates, r, density) * slots[composed.first[w]] * part


def _on_table(composed, table, x):
    """Value of a table: cubics with these slopes, and a line beyond either end."""
    knots, logarithms, slopes = composed.knots, composed.logarithms, composed.slopes
    low = int(composed.knot_start[table])
    high = int(composed.knot_start[table + 1]) - 1
    straight = 1.0 if composed.table_kind[table] == 1 else 0.0
    if x <= knots[low & NONNEGATIVE]:
        k = low & NONNEGATIVE
        return logarithms[k] + straight * slopes[k] * (x - knots[k])
    if x >= knots[high & NONNEGATIVE]:
        k = high & NONNEGATIVE
        return logarithms[k] + straight * slopes[k] * (x - knots[k])
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle & NONNEGATIVE] <= x:
            low = middle
        else:
            high = middle
    k = low & NONNEGATIVE
    width = knots[k + 1] - knots[k]
    t = (x - knots[k]) / width
    u = 1.0 - t
    value = u * u * ((1.0 + 2.0 * t) * logarithms[k] + t * width * slopes[k])
    return value + t * t * ((1.0 + 2.0 * u) * logarithms[k + 1] - u * width * slopes[k + 1])
