"""Coefficients and thermochemistry of a zone, for the rates of `activities`.

Polynomials of molecules are packed for the range of temperatures that the zone is in. Within a step
the energy of a molecule has no jump where ranges meet, as in `implicit.energy`.
"""

from __future__ import annotations

import math

from ergode.core.compiler.language import lane_of, no_unroll, noinline
from ergode.core.group import ONE, barrier, share
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.kernel_options import (
    COMPOSED,
    MIXTURES,
    MOLECULES,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    SUNLIT,
    SWEPT,
    THIRD_BODIES,
    TIMED,
)
from ergode.kinetics.multistep.lanes import WIDTH, put_exp, put_log
from ergode.kinetics.multistep.outside import (
    sum_of_amounts,
    work_of,
)
from ergode.kinetics.network.mechanism import put_powers
from ergode.kinetics.physics.composed import composed_coefficients
from ergode.kinetics.physics.formulas import formula_coefficients
from ergode.kinetics.physics.rates import add_sunlight, jump_of, range_at
from ergode.kinetics.physics.third_bodies import third_bodies
from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE

# --- device functions -----------------------------------------------------------------------------

_TINY, _TEN = 1e-300, 2.302585092994046


@noinline
def pack(chemistry, packed, between, start, temperature, group):
    """Pack the nine coefficients of each molecule at a temperature.

    Rows 7 and 8 are for ln q, whose shift they contain. Row 9 is for the energy, which has no jump
    between the temperatures `start` and this one. Rows 10 and 11 are thirds of rows 4 and 5.
    """
    a = chemistry.polynomials
    low, high = 0.0, math.inf
    for i in range(packed.shape[1]):
        o = range_at(a, i, temperature)
        high = min(high, a[o - 1, i])
        if o > 1:
            low = max(low, a[o - 11, i])
    for i in no_unroll(share(group, 0, packed.shape[1])):
        o = range_at(a, i, temperature)
        for k in range(9):
            packed[k, i] = a[o + k, i]
        packed[9, i] = packed[7, i] - jump_of(chemistry, start, temperature, i) / GAS_CONSTANT
        packed[7, i] -= chemistry.shift[1, i]
        packed[8, i] += chemistry.shift[0, i]
        packed[10, i], packed[11, i] = packed[4, i] / 3.0, packed[5, i] / 3.0
    between[0] = low
    between[1] = high


@noinline
def put_matter(chemistry, zone, start, temperature):
    """Put ln q, energies and heat capacities of molecules at a temperature."""
    own, group = zone.hot, zone.group
    own[0, 0], own[1, 0], own[3, 0] = temperature, temperature, start
    own[2, 0] = STANDARD_ATMOSPHERE / (GAS_CONSTANT * temperature)
    for lane in range(WIDTH):
        between, hot = lane_of(zone.between, lane), lane_of(own, lane)
        if not (hot[0, 0] > between[0] and hot[0, 0] <= between[1]):
            pack(chemistry, lane_of(zone.packed, lane), between, hot[3, 0], hot[0, 0], group)
    put_log(own[1], ONE)
    put_log(own[2], ONE)
    t, inverse, logarithm, unit = temperature, 1.0 / temperature, own[1, 0], own[2, 0]
    a = zone.packed
    work = work_of(zone)
    gas = GAS_CONSTANT * t
    for i in no_unroll(share(group, 0, a.shape[1])):
        rest = (a[1, i] * logarithm - a[0, i] * inverse) * inverse
        rest += a[2, i] + t * (
            a[3, i] * 0.5 + t * (a[10, i] + t * (a[5, i] * 0.25 + t * a[6, i] / 5.0))
        )
        if SELF_HEATING:
            one = (a[0, i] * inverse + a[1, i]) * inverse + a[2, i] - work
            one += t * (a[3, i] + t * (a[4, i] + t * (a[5, i] + t * a[6, i])))
            zone.matter[2, i] = GAS_CONSTANT * one
            zone.matter[1, i] = gas * (rest + a[9, i] * inverse - work)
        if REVERSIBLE:
            entropy = a[2, i] * logarithm + a[8, i] - (a[1, i] + 0.5 * a[0, i] * inverse) * inverse
            entropy += t * (a[3, i] + t * (a[4, i] * 0.5 + t * (a[11, i] + t * a[6, i] * 0.25)))
            zone.matter[0, i] = unit + entropy - rest - a[7, i] * inverse
    barrier(group)


def term_at(k, t9):
    """What a parameter of an exponent is multiplied by (see `physics.rates`)."""
    if k == 0:
        return 1.0
    if k == 1:
        return 1.0 / t9
    if k == 4:
        return t9
    logarithm = log(t9)
    if k == 6:
        return logarithm
    third = exp(logarithm / 3.0)
    if k == 2:
        return 1.0 / third
    return third if k == 3 else t9 * third * third


def put_heat(chemistry, zone, setting, temperature):
    """Put all that depends on the temperature and the sunlight alone."""
    if SELF_HEATING or not TIMED:
        put_warmth(chemistry, zone, setting, temperature)
    elif is_other(zone, temperature):
        put_warmth(chemistry, zone, setting, temperature)
        keep_slots(zone)
    if SUNLIT and not THIRD_BODIES:
        if TIMED and not SELF_HEATING:
            restore_slots(zone)
        put_sunlight(chemistry.laws, zone, setting.sunlight)
        barrier(zone.group)


def is_other(zone, temperature):
    """Whether the temperature is not the one of the workspace."""
    zone.hot[4, 0] = temperature
    found = False
    for lane in range(WIDTH):
        own = lane_of(zone.hot, lane)
        found = found or own[4, 0] != own[0, 0]
    return found


def forget_heat(zone):
    """Let the next `put_heat` of a workspace, for another zone, compute everything."""
    zone.hot[0, 0] = math.nan


def keep_slots(zone):
    """Keep coefficients that depend neither on partners nor on the sunlight."""
    for slot in no_unroll(share(zone.group, 0, zone.slots.shape[1])):
        zone.slots[1, slot] = zone.slots[0, slot]


def restore_slots(zone):
    """Put the coefficients of `keep_slots`; ends in a barrier."""
    for slot in no_unroll(share(zone.group, 0, zone.slots.shape[1])):
        zone.slots[0, slot] = zone.slots[1, slot]
    barrier(zone.group)


def put_warmth(chemistry, zone, setting, temperature):
    """Put all that depends on the temperature alone."""
    laws, reactions, group = chemistry.laws, chemistry.reactions, zone.group
    found = zone.exponential
    zone.hot[0, 0] = temperature
    for row in no_unroll(share(group, 0, found.size)):
        found[row] = 0.0
    for k in range(laws.term.size):
        for lane in range(WIDTH):
            own = lane_of(zone.hot, lane)
            own[4, 0] = term_at(laws.term[k], own[0, 0] * 1e-9)
        value = zone.hot[4, 0]
        for row in no_unroll(share(group, 0, found.size)):
            found[row] += laws.exponent[k, row] * value
    put_exp(found, group)
    barrier(group)
    for count in no_unroll(share(group, 0, laws.slot.size)):
        total = 0.0
        for s in range(laws.start[count], laws.start[count + 1]):
            k = s & NONNEGATIVE
            factor = setting.factors[k] if SWEPT else laws.prefactor[k]
            total += factor * found[laws.row[k]]
        zone.slots[0, laws.slot[count]] = total
    barrier(group)
    if COMPOSED:
        put_composed(laws, zone, temperature)
        barrier(group)
    if MOLECULES:
        put_matter(chemistry, zone, setting.start, temperature)
    if REVERSIBLE:
        species = zone.matter.shape[1]
        q, left = zone.activity, reactions.left
        for i in no_unroll(share(group, 0, species)):
            q[0, i] = zone.matter[0, i]
        put_exp(q[0, :species], group)
        for i in no_unroll(share(group, 0, species)):
            q[1, i] = 1.0 / q[0, i]
        barrier(group)
        if POWERS:
            put_all_powers(chemistry, zone, 0)
            barrier(group)
        if not SELF_HEATING:
            for r in no_unroll(share(group, 0, left.shape[1])):
                zone.rate[1, r] = q[0, left[0, r]] * q[0, left[1, r]] * q[0, left[2, r]]
    if THIRD_BODIES:
        put_centres(laws, zone, temperature)
    if THIRD_BODIES and not SELF_HEATING:
        keep_slots(zone)


def put_composed(laws, zone, temperature):
    """Multiply coefficients by tables of temperature, and add sequences of reactions."""
    if WIDTH == 1:
        composed_coefficients(laws.rates, temperature, 1.0, zone.slots[0], zone.group)
    else:
        for lane in range(WIDTH):
            hot = lane_of(zone.hot, lane)[0, 0]
            composed_coefficients(laws.rates, hot, 1.0, lane_of(zone.slots, lane)[0], ONE)


def put_all_powers(chemistry, zone, k):
    """Put the powers of a row of activities."""
    species = zone.matter.shape[1]
    if WIDTH == 1:
        put_powers(chemistry.powers, zone.activity[k], species, zone.group)
    else:
        for lane in range(WIDTH):
            put_powers(chemistry.powers, lane_of(zone.activity, lane)[k], species, ONE)


def put_sunlight(laws, zone, sunlight):
    """Multiply coefficients by powers of the sunlight."""
    if WIDTH == 1:
        add_sunlight(laws.rates, sunlight, zone.slots[0], zone.group)
    else:
        zone.hot[4, 0] = sunlight
        for lane in range(WIDTH):
            light = lane_of(zone.hot, lane)[4, 0]
            add_sunlight(laws.rates, light, lane_of(zone.slots, lane)[0], ONE)


def put_formulas(laws, zone, temperature):
    """Put coefficients that are formulas, and their derivatives."""
    if WIDTH == 1:
        formula_coefficients(
            laws.rates, temperature, 1.0, zone.partners, zone.memory, zone.slots[0], zone.slopes,
            zone.group,
        )  # fmt: skip
    else:
        for lane in range(WIDTH):
            formula_coefficients(
                laws.rates, lane_of(zone.hot, lane)[0, 0], 1.0, lane_of(zone.partners, lane),
                lane_of(zone.memory, lane), lane_of(zone.slots, lane)[0],
                lane_of(zone.slopes, lane), ONE,
            )  # fmt: skip


def put_centres(laws, zone, temperature):
    """Put the decadic logarithms of the centres of falloff."""
    found, troe, inverse = zone.falloff, laws.troe, 1.0 / temperature
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        found[0, f] = temperature * troe[1, f]
        found[1, f] = temperature * troe[2, f]
        found[2, f] = troe[3, f] * inverse
    for k in range(3):
        put_exp(found[k], zone.group)
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        a = troe[0, f]
        centre = (1.0 - a) * found[0, f] + a * found[1, f]
        found[0, f] = max(centre + found[2, f], _TINY)
    put_log(found[0], zone.group)
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        found[0, f] /= _TEN


def put_falloff(laws, zone):
    """Multiply high-pressure limits by P / (1 + P) F of Lindemann or Troe."""
    found, falloff, slots = zone.falloff, laws.falloff, zone.slots
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        low = slots[0, falloff[1, f]] * zone.partners[falloff[2, f]]
        reduced = low / max(slots[0, falloff[0, f]], _TINY)
        found[1, f] = reduced
        found[2, f] = max(reduced, _TINY)
    put_log(found[2], zone.group)
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        centre = found[0, f]
        x = found[2, f] / _TEN - 0.4 - 0.67 * centre
        ratio = x / (0.75 - 1.27 * centre - 0.14 * x)
        found[2, f] = _TEN * centre / (1.0 + ratio * ratio)
    put_exp(found[2], zone.group)
    for f in no_unroll(share(zone.group, 0, found.shape[1])):
        reduced = found[1, f]
        slots[0, falloff[0, f]] *= reduced / (1.0 + reduced) * found[2, f]
    barrier(zone.group)


def put_partners(chemistry, zone, temperature, density, y, sunlight):
    """Multiply coefficients by what depends on collision partners, and by the sunlight."""
    laws, group = chemistry.laws, zone.group
    if not SELF_HEATING:
        restore_slots(zone)
    total = sum_of_amounts(zone, y)
    for kind in no_unroll(share(group, 0, zone.partners.size)):
        amount = laws.usual[kind] * total
        for count in range(laws.other_start[kind], laws.other_start[kind + 1]):
            k = count & NONNEGATIVE
            amount += laws.other_more[k] * y[laws.other_species[k]]
        if MIXTURES:
            rates = laws.rates
            for collider in range(rates.collider_start[kind], rates.collider_start[kind + 1]):
                efficiency = zone.slots[0, rates.collider_slot[collider]]
                amount += efficiency * y[rates.collider_species[collider]]
        zone.partners[kind] = density * amount
    barrier(group)
    put_falloff(laws, zone)
    for count in no_unroll(share(group, 0, laws.plain.shape[1])):
        zone.slots[0, laws.plain[0, count]] *= zone.partners[laws.plain[1, count]]
    if WIDTH == 1:
        third_bodies(
            laws.rates, chemistry.polynomials, temperature, 1.0, zone.partners, zone.slots[0],
            zone.slopes, group,
        )  # fmt: skip
    elif laws.rates.third_body_kind.size > 0:
        for lane in range(WIDTH):
            third_bodies(
                laws.rates, chemistry.polynomials, lane_of(zone.hot, lane)[0, 0], 1.0,
                lane_of(zone.partners, lane), lane_of(zone.slots, lane)[0],
                lane_of(zone.slopes, lane), ONE,
            )  # fmt: skip
    barrier(group)
    if SUNLIT:
        put_sunlight(laws, zone, sunlight)
        barrier(group)
