"""Rates of change and Jacobian of a zone, from activities (see `tables`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.core.compiler.language import ByTarget, no_unroll, noinline, where
from ergode.core.group import ONE, Group, barrier, share, total_of
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.block.segments import block_sums
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    EXCHANGES,
    FLOW,
    FORMULAS,
    MOVING,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    THIRD_BODIES,
    WALLED,
)
from ergode.kinetics.multistep.coefficients import (
    put_all_powers,
    put_formulas,
    put_heat,
    put_partners,
)
from ergode.kinetics.multistep.lanes import row_of, rows_of
from ergode.kinetics.multistep.outside import (
    add_flow,
    flow_of_energy,
    put_motion,
    sum_of_amounts,
    widening,
    work_of,
)
from ergode.kinetics.physics.formulas import memory_count
from ergode.kinetics.physics.third_bodies import slope_count
from ergode.kinetics.tables import PLUG
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

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
        row_of(slope_count(laws.rates) if THIRD_BODIES else 0), row_of(laws.usual.size),
        rows_of(3, laws.falloff.shape[1]),
        rows_of(12, species), row_of(2), rows_of(5, 1), rows_of(3, species), activity,
        rows_of(2, whole),
        row_of(3 * (whole + pairs) + further_slopes(chemistry.slopes)), row_of(0),
        row_of(memory_count(laws.rates)), chemistry.work, ONE,
    )  # fmt: skip


def further_slopes(slopes):
    """Number of derivatives besides those of three reactants and products."""
    return slopes.power.shape[1] + (slopes.sum.shape[1] if FORMULAS else 0)


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
        put_all_powers(chemistry, zone, 2)
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
        put_formulas(chemistry.laws, zone, temperature)
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
