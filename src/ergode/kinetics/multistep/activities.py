"""Rates of change and Jacobian of a zone, from activities (see `tables`).

Polynomials of molecules are packed for the range of temperatures that the zone is in. Within a step
the energy of a molecule has no jump where ranges meet, as in `implicit.energy`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ergode.core.math.elementary import exp, log
from ergode.kinetics.kernel_options import (
    HEATING,
    MIXTURES,
    MOLECULES,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    SUNLIT,
    SWEPT,
    THIRD_BODIES,
)
from ergode.kinetics.network.mechanism import put_powers
from ergode.kinetics.physics.rates import add_sunlight, jump_of, range_at
from ergode.kinetics.physics.third_bodies import slope_count, third_bodies
from ergode.kinetics.tables import NONNEGATIVE, PRESSURE
from ergode.models.constants import GAS_CONSTANT, STANDARD_ATMOSPHERE

# --- device functions -----------------------------------------------------------------------------

_WARMER = 1e-7
"""Relative increment of the temperature in finite differences."""


class Zone(NamedTuple):
    """Workspace of a zone's rates."""

    powers_of_heat: np.ndarray  # [row_count]: the distinct exponentials
    slots: np.ndarray  # coefficients
    constant: np.ndarray  # coefficients that do not depend on partners
    slopes: np.ndarray  # d ln k / d ln M, which is not used
    partners: np.ndarray  # concentrations of the partners of each set
    packed: np.ndarray  # [10, species_count]: see `pack`
    between: np.ndarray  # [2]: temperatures between which `packed` holds
    logarithm: np.ndarray  # [species_count]: ln q
    energies: np.ndarray  # [species_count]: internal energy or enthalpy [erg/mol]
    capacities: np.ndarray  # [species_count]: its derivative [erg/(mol K)]
    # [species_count + 1 + power_size]: q; one; and powers. Then 1 / q, and activities.
    volume: np.ndarray
    inverse: np.ndarray
    activity: np.ndarray
    scale: np.ndarray  # [reaction_count]: product of q over the reactants
    factor: np.ndarray  # [reaction_count]: K
    rate: np.ndarray  # [reaction_count]
    derivative: np.ndarray  # of rates with respect to activities


def zone_of(chemistry):
    """Workspace for these tables."""
    laws, reactions = chemistry.laws, chemistry.reactions
    species = reactions.start.size - 1
    width = species + 1
    if POWERS:
        width += chemistry.powers.start.size - 1 + chemistry.powers.species.size
    whole = reactions.first.size
    pairs = reactions.back_first.size
    slot_count = laws.rates.slot_start.size - 1
    return Zone(
        np.empty(laws.exponent.shape[1]), np.empty(slot_count), np.empty(slot_count),
        np.empty(slope_count(laws.rates) if THIRD_BODIES else 0), np.empty(laws.usual.size),
        np.empty((10, species)), np.empty(2), np.zeros(species), np.zeros(species),
        np.zeros(species), np.ones(width), np.ones(width), np.ones(width), np.ones(whole),
        np.empty(whole), np.empty(whole),
        np.empty(3 * (whole + pairs) + chemistry.slopes.power.size),
    )  # fmt: skip


def pack(chemistry, zone, start, temperature):
    """Pack the nine coefficients of each molecule at a temperature.

    Rows 7 and 8 are for ln q, whose shift they contain. Row 9 is for the energy, which has no jump
    between the temperatures `start` and this one.
    """
    thermo, packed = chemistry.thermo, zone.packed
    a = thermo.polynomials
    low, high = 0.0, math.inf
    for i in range(packed.shape[1]):
        o = range_at(a, i, temperature)
        high = min(high, a[o - 1, i])
        if o > 1:
            low = max(low, a[o - 11, i])
        for k in range(9):
            packed[k, i] = a[o + k, i]
        packed[9, i] = packed[7, i] - jump_of(thermo, start, temperature, i) / GAS_CONSTANT
        packed[7, i] -= chemistry.shift[1, i]
        packed[8, i] += chemistry.shift[0, i]
    zone.between[0] = low
    zone.between[1] = high


def put_matter(chemistry, zone, start, temperature):
    """Put ln q, energies and heat capacities of molecules at a temperature."""
    if not (temperature > zone.between[0] and temperature <= zone.between[1]):
        pack(chemistry, zone, start, temperature)
    t, inverse, logarithm = temperature, 1.0 / temperature, log(temperature)
    a = zone.packed
    unit = log(STANDARD_ATMOSPHERE / (GAS_CONSTANT * t))
    work = 0.0 if HEATING == PRESSURE else 1.0
    gas = GAS_CONSTANT * t
    for i in range(a.shape[1]):
        rest = (a[1, i] * logarithm - a[0, i] * inverse) * inverse
        rest += a[2, i] + t * (
            a[3, i] / 2.0 + t * (a[4, i] / 3.0 + t * (a[5, i] / 4.0 + t * a[6, i] / 5.0))
        )
        if SELF_HEATING:
            one = (a[0, i] * inverse + a[1, i]) * inverse + a[2, i] - work
            one += t * (a[3, i] + t * (a[4, i] + t * (a[5, i] + t * a[6, i])))
            zone.capacities[i] = GAS_CONSTANT * one
            zone.energies[i] = gas * (rest + a[9, i] * inverse - work)
        if REVERSIBLE:
            entropy = a[2, i] * logarithm + a[8, i] - (a[1, i] + 0.5 * a[0, i] * inverse) * inverse
            entropy += t * (
                a[3, i] + t * (a[4, i] / 2.0 + t * (a[5, i] / 3.0 + t * a[6, i] / 4.0))
            )
            zone.logarithm[i] = unit + entropy - rest - a[7, i] * inverse


def put_heat(chemistry, zone, factors, start, temperature, sunlight):
    """Put all that depends on the temperature alone; `factors` are prefactors in a sweep."""
    laws, reactions = chemistry.laws, chemistry.reactions
    t9 = temperature * 1e-9
    logarithm = log(t9)
    third = exp(logarithm / 3.0)
    inverse, cube, fifth = 1.0 / t9, 1.0 / third, t9 * third * third
    a, found = laws.exponent, zone.powers_of_heat
    for row in range(found.size):
        x = a[0, row] + a[1, row] * inverse + a[2, row] * cube + a[3, row] * third
        found[row] = exp(x + a[4, row] * t9 + a[5, row] * fifth + a[6, row] * logarithm)
    for slot in range(zone.slots.size):
        zone.slots[slot] = 0.0
    for s in range(laws.slot.size):
        factor = factors[s] if SWEPT else laws.prefactor[s]
        zone.slots[laws.slot[s]] += factor * found[laws.row[s]]
    if SUNLIT:
        add_sunlight(laws.rates, sunlight, zone.slots, 0, 1)
    if MOLECULES:
        put_matter(chemistry, zone, start, temperature)
    if REVERSIBLE:
        species = zone.logarithm.size
        q = zone.volume
        for i in range(species):
            q[i] = exp(zone.logarithm[i])
        for i in range(species):
            zone.inverse[i] = exp(-zone.logarithm[i])
        if POWERS:
            put_powers(chemistry.powers, q, species, 0, 1)
        for r in range(zone.scale.size):
            zone.scale[r] = q[reactions.first[r]] * q[reactions.second[r]] * q[reactions.third[r]]
    if THIRD_BODIES and not SELF_HEATING:
        for slot in range(zone.slots.size):
            zone.constant[slot] = zone.slots[slot]


def put_partners(chemistry, zone, temperature, density, y):
    """Multiply coefficients by what depends on collision partners."""
    laws = chemistry.laws
    if not SELF_HEATING:
        for slot in range(zone.slots.size):
            zone.slots[slot] = zone.constant[slot]
    total = 0.0
    for i in range(zone.logarithm.size):
        total += y[i]
    for kind in range(zone.partners.size):
        amount = laws.usual[kind] * total
        for count in range(laws.other_start[kind], laws.other_start[kind + 1]):
            k = count & NONNEGATIVE
            amount += laws.other_more[k] * y[laws.other_species[k]]
        if MIXTURES:
            rates = laws.rates
            for collider in range(rates.collider_start[kind], rates.collider_start[kind + 1]):
                efficiency = zone.slots[rates.collider_slot[collider]]
                amount += efficiency * y[rates.collider_species[collider]]
        zone.partners[kind] = density * amount
    for count in range(laws.plain.size):
        zone.slots[laws.plain[count]] *= zone.partners[laws.plain_set[count]]
    third_bodies(
        laws.rates, chemistry.thermo.polynomials, temperature, 1.0, zone.partners, zone.slots,
        zone.slopes, 0, 1,
    )  # fmt: skip


def put_change(chemistry, zone, density, y, change):
    """Compute dy/dt of all species, for the coefficients of the zone."""
    reactions = chemistry.reactions
    z, K, rate = zone.activity, zone.factor, zone.rate
    species = zone.logarithm.size
    for i in range(species):
        z[i] = y[i] * density * zone.inverse[i]
    if POWERS:
        put_powers(chemistry.powers, z, species, 0, 1)
    first, second, third = reactions.first, reactions.second, reactions.third
    for r in range(rate.size):
        K[r] = zone.slots[reactions.coefficient[r]] * zone.scale[r]
        rate[r] = K[r] * (z[first[r]] * z[second[r]] * z[third[r]])
    if REVERSIBLE:
        first, second, third = reactions.back_first, reactions.back_second, reactions.back_third
        for r in range(first.size):
            rate[r] -= K[r] * (z[first[r]] * z[second[r]] * z[third[r]])
    per = 1.0 / density
    for i in range(species):
        even, odd = 0.0, 0.0
        begin, end = reactions.start[i], reactions.start[i + 1]
        for count in range(begin, end - 1, 2):
            k = count & NONNEGATIVE
            even += reactions.change[k] * rate[reactions.reaction[k]]
            odd += reactions.change[k + 1] * rate[reactions.reaction[k + 1]]
        if (end - begin) % 2 == 1:
            k = (end - 1) & NONNEGATIVE
            even += reactions.change[k] * rate[reactions.reaction[k]]
        change[i] = (even + odd) * per


def density_at(zone, given, temperature, y):
    """Density of a zone; at constant pressure `given` is the pressure."""
    if HEATING != PRESSURE:
        return given
    total = 0.0
    for i in range(zone.logarithm.size):
        total += y[i]
    return given / (GAS_CONSTANT * temperature * total)


def change_of(chemistry, zone, factors, given, start, temperature, y, change):
    """Compute dy/dt of all species; returns dT/dt.

    `given` is the density or the pressure. A zone that heats itself is evaluated at the
    temperature, its step having begun at the temperature `start`.
    """
    density = density_at(zone, given, temperature, y)
    if SELF_HEATING:
        put_heat(chemistry, zone, factors, start, temperature, 1.0)
    if THIRD_BODIES:
        put_partners(chemistry, zone, temperature, density, y)
    put_change(chemistry, zone, density, y, change)
    rise = 0.0
    if SELF_HEATING:
        released, capacity = 0.0, 0.0
        for i in range(zone.energies.size):
            released -= zone.energies[i] * change[i]
            capacity += zone.capacities[i] * y[i]
        rise = released / capacity
    return rise


def energy_of_zone(zone, y):
    """The energy of a zone, and its heat capacity, at the temperature of its workspace."""
    energy, capacity = 0.0, 0.0
    for i in range(zone.energies.size):
        energy += zone.energies[i] * y[i]
        capacity += zone.capacities[i] * y[i]
    return energy, capacity


def put_jacobian(chemistry, zone, values):
    """Compute d(dy/dt)/dy for fixed coefficients, at the amounts of the last `change_of`."""
    reactions, slopes, found = chemistry.reactions, chemistry.slopes, zone.derivative
    z, K = zone.activity, zone.factor
    first, second, third = reactions.first, reactions.second, reactions.third
    for r in range(K.size):
        a, b, c = z[first[r]], z[second[r]], z[third[r]]
        found[3 * r] = K[r] * b * c
        found[3 * r + 1] = K[r] * a * c
        found[3 * r + 2] = K[r] * a * b
    if REVERSIBLE:
        first, second, third = reactions.back_first, reactions.back_second, reactions.back_third
        behind = 3 * K.size
        for r in range(first.size):
            a, b, c = z[first[r]], z[second[r]], z[third[r]]
            found[behind + 3 * r] = -K[r] * b * c
            found[behind + 3 * r + 1] = -K[r] * a * c
            found[behind + 3 * r + 2] = -K[r] * a * b
    if POWERS:
        behind = 3 * (K.size + reactions.back_first.size)
        size = zone.logarithm.size + chemistry.powers.start.size
        for count in range(slopes.power.size):
            own = z[size + slopes.factor[count]]
            found[behind + count] = found[slopes.power[count]] * own
    for entry in range(values.size):
        total = 0.0
        for count in range(slopes.start[entry], slopes.start[entry + 1]):
            k = count & NONNEGATIVE
            total += slopes.change[k] * found[slopes.derivative[k]]
        values[entry] = total * zone.inverse[slopes.column[entry]]


def put_temperature_slopes(
    chemistry, zone, factors, given, start, temperature, y, change, row, column
):
    """Compute the energies over the heat capacity, and d(dy/dt)/dT.

    `change` is dy/dt at the temperature. The workspace is left at another temperature.
    """
    _, capacity = energy_of_zone(zone, y)
    species = zone.energies.size
    for i in range(species):
        row[i] = zone.energies[i] / capacity
    more = _WARMER * temperature
    change_of(chemistry, zone, factors, given, start, temperature + more, y, column)
    for i in range(species):
        column[i] = (column[i] - change[i]) / more
    return capacity
