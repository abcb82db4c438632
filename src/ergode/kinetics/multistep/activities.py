"""Rates of change and Jacobian of a zone, from activities (see `tables`).

Polynomials of molecules are packed for the range of temperatures that the zone is in. Within a step
the energy of a molecule has no jump where ranges meet, as in `implicit.energy`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, lane_of, no_unroll, noinline, where
from ergode.core.group import ONE, Group, barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.block.segments import block_sums
from ergode.kinetics.kernel_options import (
    COMPOSED,
    COMPRESSED,
    EXCHANGES,
    FLOW,
    FORMULAS,
    MIXTURES,
    MOLECULES,
    MOVING,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    SUNLIT,
    SWEPT,
    THIRD_BODIES,
    WALLED,
)
from ergode.kinetics.multistep.lanes import WIDTH, put_exp, put_log, row_of, rows_of
from ergode.kinetics.multistep.outside import (
    add_flow,
    flow_of_energy,
    put_motion,
    sum_of_amounts,
    widening,
    work_of,
)
from ergode.kinetics.network.mechanism import put_powers
from ergode.kinetics.physics.composed import composed_coefficients
from ergode.kinetics.physics.formulas import formula_coefficients, memory_count
from ergode.kinetics.physics.rates import add_sunlight, jump_of, range_at
from ergode.kinetics.physics.third_bodies import slope_count, third_bodies
from ergode.kinetics.tables import PLUG
from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE

# --- device functions -----------------------------------------------------------------------------

_TINY, _TEN = 1e-300, 2.302585092994046
_WARMER = 1e-7
"""Relative increment of the temperature in finite differences."""


class Setting(NamedTuple):
    """What a zone has during a step."""

    factors: np.ndarray  # prefactors in a sweep
    given: float  # density, or pressure
    sunlight: float
    start: float  # temperature at the start of the step
    energy: float  # energy that the zone keeps; or has at the end of the step
    # Where work or heat changes the energy: logarithmic slope of what is given over time; heat
    # transfer coefficient times area of the wall over the volume, and its temperature.
    squeeze: float
    passage: float
    around: float
    # Of a tank the flow in over the mass, and what flows in (see `ConditionHistory.inflow`); of a
    # tube one over the velocity at the inlet; otherwise 0.
    renewal: float
    inflow: np.ndarray
    motion: np.ndarray  # of a piston (see `ConditionHistory.motion`)


class Zone(NamedTuple):
    """Workspace of a zone's rates."""

    exponential: np.ndarray  # [row_count]: the distinct exponentials
    # [2, slot_count]: coefficients; and those that do not depend on partners.
    slots: np.ndarray
    # d ln k / d ln M, which is not used; behind, derivatives of formulas by sums.
    slopes: np.ndarray
    partners: np.ndarray  # [set_count]: concentrations of partners
    # [3, falloff_count]: logarithm of the centre; reduced pressure; factor.
    falloff: np.ndarray
    packed: np.ndarray  # [12, species_count]: see `pack`
    between: np.ndarray  # [2]: temperatures between which `packed` holds
    # [5, 1]: temperature, its logarithm, that of a concentration, temperature at the start of the
    # step, workspace.
    hot: np.ndarray
    # [3, species_count]: ln q; internal energy or enthalpy [erg/mol]; its derivative [erg/(mol K)].
    matter: np.ndarray
    # [3, species_count + 1 + power_size]: q, 1 / q and z of species; one; and powers.
    activity: np.ndarray
    # [2, reaction_count]: net rate; product of q over the reactants, at a given temperature.
    rate: np.ndarray
    derivative: np.ndarray  # of rates with respect to activities
    partial: np.ndarray  # workspace of sums by many threads
    memory: np.ndarray  # of formulas (see `Rates.memory_count`)
    work: float  # of the tables; see `work_of`
    group: Group  # the threads that share the zone


def zone_of(chemistry):
    """Workspace for these tables."""
    laws, reactions = chemistry.laws, chemistry.reactions
    species = reactions.start.size - 1
    width = species + 1
    if POWERS:
        width += chemistry.powers.start.size - 1 + chemistry.powers.species.size
    whole, pairs = reactions.left.shape[1], reactions.right.shape[1]
    activity = rows_of(3, width)
    for i in range(width):
        for k in range(3):
            activity[k, i] = 1.0
    return Zone(
        row_of(laws.exponent.shape[1]), rows_of(2, laws.slot_count),
        np.empty(slope_count(laws.rates) if THIRD_BODIES else 0), row_of(laws.usual.size),
        rows_of(3, laws.falloff.shape[1]),
        rows_of(12, species), row_of(2), rows_of(5, 1), rows_of(3, species), activity,
        rows_of(2, whole),
        row_of(3 * (whole + pairs) + further_slopes(chemistry.slopes)), row_of(0),
        row_of(memory_count(laws.rates)), chemistry.work, ONE,
    )  # fmt: skip


def further_slopes(slopes):
    """Number of derivatives besides those of three reactants and products."""
    return slopes.power.shape[1] + (slopes.sum.shape[1] if FORMULAS else 0)


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
        composed_coefficients(laws.rates, temperature, 1.0, zone.slots[0], group)
        barrier(group)
    if SUNLIT and not THIRD_BODIES:
        add_sunlight(laws.rates, setting.sunlight, zone.slots[0], group)
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
            put_powers(chemistry.powers, q[0], species, group)
            barrier(group)
        if not SELF_HEATING:
            for r in no_unroll(share(group, 0, left.shape[1])):
                zone.rate[1, r] = q[0, left[0, r]] * q[0, left[1, r]] * q[0, left[2, r]]
    if THIRD_BODIES:
        put_centres(laws, zone, temperature)
    if THIRD_BODIES and not SELF_HEATING:
        for slot in no_unroll(share(group, 0, zone.slots.shape[1])):
            zone.slots[1, slot] = zone.slots[0, slot]


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
        for slot in no_unroll(share(group, 0, zone.slots.shape[1])):
            zone.slots[0, slot] = zone.slots[1, slot]
        barrier(group)
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
                lane_of(zone.partners, lane), lane_of(zone.slots, lane)[0], zone.slopes, ONE,
            )  # fmt: skip
    barrier(group)
    if SUNLIT:
        add_sunlight(laws.rates, sunlight, zone.slots[0], group)
        barrier(group)


def constant_of(reactions, zone, r):
    """K of a reaction: its coefficient times q of the reactants."""
    return times_volumes(reactions, zone, r, zone.slots[0, reactions.coefficient[r]])


def times_volumes(reactions, zone, r, value):
    """A number times q of the reactants of a reaction."""
    if REVERSIBLE and SELF_HEATING:
        q, left = zone.activity, reactions.left
        value *= q[0, left[0, r]] * q[0, left[1, r]] * q[0, left[2, r]]
    elif REVERSIBLE:
        value *= zone.rate[1, r]
    return value


def put_change(chemistry, zone, density, per, y, change):
    """Compute dy/dt of all species, for the coefficients of the zone; `per` is 1 / density.

    Along a tube, dy/dz: `per` has one over the velocity, too.
    """
    reactions, z, rate, group = chemistry.reactions, zone.activity, zone.rate, zone.group
    species = zone.matter.shape[1]
    for i in no_unroll(share(group, 0, species)):
        z[2, i] = y[i] * density * z[1, i]
    barrier(group)
    if POWERS:
        put_powers(chemistry.powers, z[2], species, group)
        barrier(group)
    left, right = reactions.left, reactions.right
    pairs = right.shape[1]
    for r in no_unroll(share(group, 0, pairs)):
        forward = z[2, left[0, r]] * z[2, left[1, r]] * z[2, left[2, r]]
        back = z[2, right[0, r]] * z[2, right[1, r]] * z[2, right[2, r]]
        rate[0, r] = constant_of(reactions, zone, r) * (forward - back)
    for r in no_unroll(share(group, pairs, left.shape[1])):
        forward = z[2, left[0, r]] * z[2, left[1, r]] * z[2, left[2, r]]
        rate[0, r] = constant_of(reactions, zone, r) * forward
    sum_rates(chemistry, zone, per, change)


def _sum_rates_cpu(chemistry, zone, per, change):
    reactions, rate = chemistry.reactions, zone.rate
    for i in range(zone.matter.shape[1]):
        even, odd = 0.0, 0.0
        begin, end = reactions.start[i], reactions.start[i + 1]
        for count in range(begin, end - 1, 2):
            k = count & NONNEGATIVE
            even += reactions.change[k] * rate[0, reactions.reaction[k]]
            odd += reactions.change[k + 1] * rate[0, reactions.reaction[k + 1]]
        if (end - begin) % 2 == 1:
            k = (end - 1) & NONNEGATIVE
            even += reactions.change[k] * rate[0, reactions.reaction[k]]
        change[i] = (even + odd) * per


def _sum_rates_cuda(chemistry, zone, per, change):
    sums = chemistry.schedule
    barrier(zone.group)
    block_sums(sums.changes, sums.change, zone.rate[0], zone.partial, change)
    for i in no_unroll(share(zone.group, 0, zone.matter.shape[1])):
        change[i] *= per
    barrier(zone.group)


sum_rates = ByTarget(cpu=_sum_rates_cpu, cuda=_sum_rates_cuda)
"""``sum_rates(chemistry, zone, per, change)`` puts net changes of species, times `per`."""


def density_at(zone, given, temperature, y):
    """Density of a zone; at constant pressure `given` is the pressure."""
    if MOVING:
        return given / y[zone.matter.shape[1] + 1]
    if work_of(zone) != 0.0:
        return given
    return given / (GAS_CONSTANT * temperature * sum_of_amounts(zone, y))


@noinline
def change_of(chemistry, zone, setting, temperature, y, change):
    """Compute dy/dt of all variables but the temperature; returns dT/dt without work and heat.

    The temperature is that of the zone; it matters only where the zone heats itself.
    """
    density = density_at(zone, setting.given, temperature, y)
    if SELF_HEATING:
        put_heat(chemistry, zone, setting, temperature)
    if THIRD_BODIES:
        put_partners(chemistry, zone, temperature, density, y, setting.sunlight)
    if FORMULAS:
        formula_coefficients(
            chemistry.laws.rates, temperature, 1.0, zone.partners, zone.memory, zone.slots[0],
            zone.slopes, zone.group,
        )  # fmt: skip
        barrier(zone.group)
    per = setting.renewal if FLOW == PLUG else 1.0 / density
    put_change(chemistry, zone, density, per, y, change)
    add_flow(zone, setting, y, change)
    if MOVING:
        put_motion(zone, setting, temperature, y, change)
    rise = 0.0
    if SELF_HEATING:
        released, capacity = 0.0, 0.0
        for i in no_unroll(share(zone.group, 0, zone.matter.shape[1])):
            released -= zone.matter[1, i] * change[i]
            capacity += zone.matter[2, i] * y[i]
        rise = total_of(zone.group, released, 0) / total_of(zone.group, capacity, 1)
    return rise


def energy_of_zone(zone, y):
    """The energy of a zone, and its heat capacity, at the temperature of its workspace."""
    energy, capacity = 0.0, 0.0
    for i in no_unroll(share(zone.group, 0, zone.matter.shape[1])):
        energy += zone.matter[1, i] * y[i]
        capacity += zone.matter[2, i] * y[i]
    return total_of(zone.group, energy, 0), total_of(zone.group, capacity, 1)


def outside_rate(zone, setting, temperature, y):
    """Work on a zone and heat from its wall, and their derivative by the temperature."""
    rate, slope = flow_of_energy(zone, setting, temperature, y)
    if COMPRESSED:
        squeeze = setting.squeeze
        if MOVING:
            squeeze = -widening(zone, setting, temperature, y)[0] / y[zone.matter.shape[1] + 1]
        work = sum_of_amounts(zone, y) * GAS_CONSTANT * squeeze
        slope += work
        rate += work * temperature
    if WALLED:
        rate += setting.passage * (setting.around - temperature)
        slope -= setting.passage
    return rate, slope


@noinline
def put_jacobian(chemistry, zone, pace, renews, values):
    """Compute `pace` d(dy/dt)/dy for fixed coefficients, at the amounts of the last `change_of`.

    Values are kept where `renews` is 0.
    """
    reactions, slopes, found = chemistry.reactions, chemistry.slopes, zone.derivative
    z, left, right = zone.activity, reactions.left, reactions.right
    for r in no_unroll(share(zone.group, 0, left.shape[1])):
        K = constant_of(reactions, zone, r)
        a, b, c = z[2, left[0, r]], z[2, left[1, r]], z[2, left[2, r]]
        found[3 * r] = K * b * c
        found[3 * r + 1] = K * a * c
        found[3 * r + 2] = K * a * b
    behind = 3 * left.shape[1]
    if REVERSIBLE:
        for r in no_unroll(share(zone.group, 0, right.shape[1])):
            K = -constant_of(reactions, zone, r)
            a, b, c = z[2, right[0, r]], z[2, right[1, r]], z[2, right[2, r]]
            found[behind + 3 * r] = K * b * c
            found[behind + 3 * r + 1] = K * a * c
            found[behind + 3 * r + 2] = K * a * b
    barrier(zone.group)
    behind = 3 * (left.shape[1] + right.shape[1])
    if POWERS:
        size = zone.matter.shape[1] + chemistry.powers.start.size
        for count in no_unroll(share(zone.group, 0, slopes.power.shape[1])):
            own = z[2, size + slopes.power[1, count]]
            found[behind + count] = found[slopes.power[0, count]] * own
        barrier(zone.group)
    if FORMULAS:
        behind += slopes.power.shape[1]
        first = zone.slopes.size - chemistry.laws.rates.formulas.sum.size
        for count in no_unroll(share(zone.group, 0, slopes.sum.shape[1])):
            r, j = slopes.sum[0, count], slopes.sum[2, count]
            K = times_volumes(reactions, zone, r, zone.slopes[first + slopes.sum[1, count]])
            reactants = z[2, left[0, r]] * z[2, left[1, r]] * z[2, left[2, r]]
            found[behind + count] = K * reactants * z[0, j]
        barrier(zone.group)
    sum_slopes(chemistry, zone, pace, renews, values)


def _sum_slopes_cpu(chemistry, zone, pace, renews, values):
    slopes, found, z = chemistry.slopes, zone.derivative, zone.activity
    for entry in range(values.size):
        total = 0.0
        for count in range(slopes.start[entry], slopes.start[entry + 1]):
            k = count & NONNEGATIVE
            total += slopes.change[k] * found[slopes.derivative[k]]
        if FLOW == PLUG:
            total *= pace
        values[entry] = where(renews, total * z[1, slopes.entry[0, entry]], values[entry])


def _sum_slopes_cuda(chemistry, zone, pace, renews, values):
    sums, slopes = chemistry.schedule, chemistry.slopes
    block_sums(sums.slopes, sums.slope, zone.derivative, zone.partial, values)
    for entry in no_unroll(share(zone.group, 0, values.size)):
        values[entry] *= zone.activity[1, slopes.entry[0, entry]]
        if FLOW == PLUG:
            values[entry] *= pace
    barrier(zone.group)


sum_slopes = ByTarget(cpu=_sum_slopes_cpu, cuda=_sum_slopes_cuda)
"""``sum_slopes(chemistry, zone, pace, renews, values)`` puts the entries of the Jacobian.

Values are kept where `renews` is 0; on CUDA it is never 0."""


def put_temperature_slopes(
    chemistry, zone, setting, temperature, renews, y, change, row, column, warmer, before
):
    """Compute the energies over the heat capacity, and d(dy/dt)/dT; returns the heat capacity.

    `change` is dy/dt at the temperature. The workspace is left at another temperature. Values are
    kept where `renews` is 0, and the heat capacity is then `before`.
    """
    _, capacity = energy_of_zone(zone, y)
    species = zone.matter.shape[1]
    for i in no_unroll(share(zone.group, 0, species)):
        row[i] = where(renews, zone.matter[1, i] / capacity, row[i])
    if EXCHANGES:
        _, slope = outside_rate(zone, setting, temperature, y)
        column[species] = where(renews, slope / capacity, column[species])
    more = _WARMER * temperature
    change_of(chemistry, zone, setting, temperature + more, y, warmer)
    for i in no_unroll(share(zone.group, 0, species)):
        column[i] = where(renews, (warmer[i] - change[i]) / more, column[i])
    barrier(zone.group)
    return where(renews, capacity, before)
