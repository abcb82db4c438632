"""Conditions of a step that are given over time, and where a history has to begin anew.

A step needs the conditions at its end. Its length and where it ends follow from
`condition_history.horizon`. Conditions jump within segments as short as rounding, which no step
takes: the next one begins after them.
"""

from __future__ import annotations

from ergode.core.group import barrier
from ergode.kinetics.condition_history import history_at, wall_at
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    FED,
    FORMULAS,
    MOVING,
    SELF_HEATING,
    SUNLIT,
    WALLED,
)
from ergode.kinetics.multistep import activities, coefficients
from ergode.kinetics.multistep.outside import flow_at
from ergode.kinetics.physics.formulas import put_inputs
from ergode.kinetics.tables import CHANGING

# --- device functions -----------------------------------------------------------------------------

SMOOTH = 1.0
"""Jump of a slope that steps cross, over `rtol`."""
LARGE = 30.0
"""What a jump of the work warms in a step, over the allowed error, from which histories begin anew.
"""
_SHORT, _SHORTEST = 1e-15, 1e-280  # of a segment over its time, and in all


def setting_over_time(conditions, zone, sums, setting, below, last, since):
    """The setting `since` after the knot `below`; the segment is at most `last`.

    `sums` is the number of conserved sums.
    """
    times, light, hot, squeeze = conditions.times, setting.sunlight, setting.start, 0.0
    passage, around = wall_at(conditions, below, last, since)
    renewal, inverse = flow_at(conditions, zone, sums, below, last, since)
    given = history_at(times, conditions.density, below, last, since)
    if SUNLIT:
        light = history_at(times, conditions.sunlight, below, last, since)
    if COMPRESSED and not MOVING:
        squeeze = history_at(times, conditions.compression, below, last, since)
    if not SELF_HEATING:
        hot = history_at(times, conditions.temperature, below, last, since)
    return activities.Setting(
        setting.factors, given, light, hot, setting.energy, squeeze, passage * inverse, around,
        renewal, setting.inflow, setting.motion,
    )  # fmt: skip


def put_formula_inputs(chemistry, zone, conditions, setting, below, last, since):
    """Put what formulas read besides amounts and temperature; ends in a barrier."""
    if FORMULAS:
        barrier(zone.group)
        put_inputs(
            chemistry.laws.rates, conditions, setting.sunlight, below, last, since, zone.memory,
            zone.group,
        )  # fmt: skip
        barrier(zone.group)


def after_jump(times, below):
    """The knot after those that lie side by side with the knot `below`."""
    while below + 2 < times.size and times[below + 1] - times[below] <= max(
        _SHORT * abs(times[below + 1]), _SHORTEST
    ):
        below += 1
    return below


def begins_anew(chemistry, zone, before, after, history, y, h, weight):
    """Whether a zone has to begin anew at a knot; otherwise the history gets the slopes behind it.

    `before` and `after` are settings on both sides of the knot, and h is the length of the step
    before. Where only the work on the zone jumps, the slopes of its energy and of its temperature
    follow, and amounts have a bend in their slopes at most.
    """
    anew = True
    if (COMPRESSED or WALLED == CHANGING) and not (SUNLIT or FED or FORMULAS):
        species = zone.matter.shape[1]
        hot = history[0, species]
        coefficients.put_matter(chemistry, zone, after.start, hot)
        _, capacity = activities.energy_of_zone(zone, y)
        left, _ = activities.outside_rate(zone, before, hot, y)
        right, _ = activities.outside_rate(zone, after, hot, y)
        warmer = h * (right - left) / capacity
        anew = abs(warmer) * weight[species] > LARGE
        if not anew:
            if zone.group.rank == 0:
                history[1, species] += warmer
                history[1, y.size] += warmer * capacity
            barrier(zone.group)
    return anew
