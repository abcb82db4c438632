"""Rates of change and Jacobian of a zone: the differential equation that every method solves.

The variables are the specific amounts of all species and, where a zone heats itself, its
temperature. At constant volume c_v dT/dt = -sum of u_i dY_i/dt; at constant pressure the density
follows from the ideal gas and c_p dT/dt = -sum of h_i dY_i/dt.

Amounts enter the Jacobian exactly. What depends on temperature, time or density as a whole is
differenced once, along one direction each: a column, whatever the number of reactions. How
screening and weak rates change with the composition is left out of the Jacobian, for it would
couple every nucleus with every other; the error of a step, which is estimated, contains it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.kinetics.bodies import third_bodies
from ergode.kinetics.elimination import Elimination, eliminate
from ergode.kinetics.equation_of_state import response
from ergode.kinetics.lower import Mechanism
from ergode.kinetics.mechanism import (
    NATURAL,
    SLOTS,
    Complexes,
    Flows,
    entry_values,
    products,
    row_sums,
)
from ergode.kinetics.plasma import plasma_coefficients
from ergode.kinetics.rates import (
    GAS_CONSTANT,
    Rates,
    Thermodynamics,
    base_coefficients,
    detailed_balance,
    energies,
    heat_capacity,
    log_volumes,
)

FIXED, VOLUME, PRESSURE = 0, 1, 2
"""Temperature is given; the zone heats itself at constant volume, or at constant pressure."""


class Terms(NamedTuple):
    """How the Jacobian is put together.

    Attributes
    ----------
    start : ndarray of uint32, shape [entry_count + 1]
        Where the terms of each entry of the factors begin.
    value : ndarray of uint32, shape [term_count]
        Entry of the flows.
    slope : ndarray of uint32, shape [term_count]
        Derivative of a product: complex times `SLOTS`, plus the slot.
    place : ndarray of uint32, shape [variable_count, variable_count]
        Index of the entry of a row and column, or the number of entries where there is none; of
        shape [1, 1] where nothing asks for it.
    """

    start: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    place: np.ndarray


class System(NamedTuple):
    """Everything about the network that a zone needs."""

    complexes: Complexes
    flows: Flows
    rates: Rates
    thermo: Thermodynamics
    plan: Elimination
    terms: Terms
    invariants: np.ndarray
    absolute: np.ndarray


class Course(NamedTuple):
    """Temperatures and densities of all zones over time, straight between points.

    Attributes
    ----------
    times : ndarray of float64, shape [point_count]
    temperature, density : ndarray of float64, shape [zone_count, point_count]
        [K], [g/cm3]; in zones at constant pressure `density` is the pressure [dyn/cm2].
    """

    times: np.ndarray
    temperature: np.ndarray
    density: np.ndarray


class Room(NamedTuple):
    """Where a zone's coefficients are worked out."""

    slots: np.ndarray
    slopes: np.ndarray
    scratch: np.ndarray
    volumes: np.ndarray
    energies: np.ndarray
    values: np.ndarray
    products: np.ndarray
    derivatives: np.ndarray


def system_of(
    mechanism: Mechanism, absolute: np.ndarray, *, heating: int, depth_weight: float = 0.0
) -> System:
    """Tables for an implicit method.

    Parameters
    ----------
    mechanism : Mechanism
    absolute : ndarray of float64, shape [variable_count]
        Absolute tolerance of each variable.
    heating : int
        `FIXED`, `VOLUME` or `PRESSURE`.
    depth_weight : float
        As for `eliminate`.
    """
    structure = mechanism.structure
    count = structure.species_count + (heating != FIXED)
    pattern, terms = pattern_of(structure.complexes, structure.net_flows, count)
    # Third bodies and a density that follows from amounts couple every species with every other;
    # a temperature alone is one row and one column more.
    full = heating != FIXED or mechanism.has_bodies
    if heating == PRESSURE or mechanism.has_bodies:
        pattern[:] = True
    elif heating == VOLUME:
        pattern[-1], pattern[:, -1] = True, True
    plan = eliminate(pattern, depth_weight)
    places = plan.positions()
    ordered: list[list[tuple[int, int]]] = [[] for _ in range(plan.column.size)]
    for pair, items in terms.items():
        ordered[places[pair]] = items
    flat = [item for items in ordered for item in items]
    # What is not an entry is beyond them all, and zero.
    place = np.full((count, count) if full else (1, 1), plan.column.size, np.uint32)
    if full:
        for (i, j), index in places.items():
            place[i, j] = index
    return System(
        _moved(structure.complexes, structure.species_count, count),
        structure.net_flows,
        mechanism.rates,
        mechanism.thermo,
        plan,
        Terms(
            np.concatenate([[0], np.cumsum([len(items) for items in ordered])]).astype(np.uint32),
            np.array([item[0] for item in flat], np.uint32),
            np.array([item[1] for item in flat], np.uint32),
            place,
        ),
        mechanism.invariants,
        absolute,
    )


def _moved(complexes: Complexes, old: int, new: int) -> Complexes:
    """Complexes whose empty slots are the variable `new`."""
    return Complexes(*(np.where(slot == old, new, slot).astype(np.uint32) for slot in complexes))


def pattern_of(
    complexes: Complexes, flows: Flows, count: int
) -> tuple[np.ndarray, dict[tuple[int, int], list[tuple[int, int]]]]:
    """Where the Jacobian may not be zero, and of which (entry, slope) each place is the sum."""
    pattern = np.zeros((count, count), bool)
    terms: dict[tuple[int, int], list[tuple[int, int]]] = {}
    species_count = flows.start.size - 1
    for i in range(species_count):
        for entry in range(flows.start[i], flows.start[i + 1]):
            s = int(flows.complex[entry])
            for slot in range(SLOTS):
                j = int(complexes[slot][s])
                if j < species_count:
                    pattern[i, j] = True
                    terms.setdefault((i, j), []).append((entry, SLOTS * s + slot))
    return pattern, terms


# --- device functions -----------------------------------------------------------------------------

DYNAMIC = False
HEATING = FIXED
BODIES = False
PLASMA = False
MOLECULES = True
REVERSIBLE = False


def interpolated(times, values, t):
    """A course at time t."""
    if times.size == 1:
        return values[0]
    below = 0
    while below < times.size - 2 and times[below + 1] < t:
        below += 1
    share = (t - times[below]) / (times[below + 1] - times[below])
    share = min(max(share, 0.0), 1.0)
    return (1.0 - share) * values[below] + share * values[below + 1]


def coefficients(rates, thermo, temperature, density, y, slots, slopes, volumes):
    """Coefficients of all reactions at these conditions."""
    base_coefficients(rates, temperature, density, slots, 0, 1)
    if BODIES:
        third_bodies(rates, temperature, density, y, slots, slopes, 0, 1)
    if PLASMA:
        plasma_coefficients(rates.plasma, thermo.charge, temperature, density, y, slots, 0, 1)
    if REVERSIBLE:
        log_volumes(thermo, temperature, volumes, 0, 1)
        detailed_balance(rates, density, volumes, slots, 0, 1)


def set_conditions(system, room, temperature, density, y):
    """Coefficients, and the values of the flows, at these conditions."""
    coefficients(
        system.rates, system.thermo, temperature, density, y, room.slots, room.slopes, room.volumes
    )
    entry_values(system.flows, room.slots, room.values, 0, 1)


def temperature_of(times, temperatures, t, y, species_count):
    """Temperature [K]: a variable, or given."""
    if HEATING == FIXED:
        return interpolated(times, temperatures, t)
    return y[species_count]


def density_of(times, densities, t, y, species_count):
    """Density [g/cm3]: given, or from the pressure."""
    given = interpolated(times, densities, t)
    if HEATING == PRESSURE:
        amount = 0.0
        for i in range(species_count):
            amount += y[i]
        return given / (GAS_CONSTANT * y[species_count] * amount)
    return given


def rate_of_change(system, room, times, temperatures, densities, t, y, found):
    """dy/dt at time t."""
    count = system.flows.start.size - 1
    if DYNAMIC:
        temperature = temperature_of(times, temperatures, t, y, count)
        density = density_of(times, densities, t, y, count)
        set_conditions(system, room, temperature, density, y)
    products(system.complexes, y, room.products)
    row_sums(system.flows, room.values, room.products, found)
    if HEATING != FIXED:
        found[count] = heating_rate(system, room, temperature, density, y, found, 0.0, 0.0)


def caloric(thermo, temperature, density, nuclei, electrons, y, found):
    """Fill in the internal energy of every species [erg/mol]; returns the heat capacity.

    That at constant volume [erg/(g K)], of so many moles of nuclei and electrons.
    """
    if MOLECULES:
        energies(thermo, temperature, found)
        capacity = 0.0
        for i in range(found.size):
            capacity += y[i] * heat_capacity(thermo, temperature, i)
    else:
        capacity, per_nucleus, per_electron = response(temperature, density, nuclei, electrons)
        for i in range(found.size):
            found[i] = thermo.mass_excess[i] + per_nucleus + thermo.charge[i] * per_electron
    return capacity


def heating_rate(system, room, temperature, density, y, change, step_nuclei, step_electrons):
    """dT/dt [K/s] that comes of these changes of species.

    The matter they happen in has these shares more of nuclei and of electrons than `y`.
    """
    nuclei, electrons = 0.0, 0.0
    for i in range(room.energies.size):
        nuclei += y[i]
        electrons += system.thermo.charge[i] * y[i]
    capacity = caloric(
        system.thermo, temperature, density, nuclei * (1.0 + step_nuclei),
        electrons * (1.0 + step_electrons), y, room.energies,
    )  # fmt: skip
    released = 0.0
    for i in range(room.energies.size):
        released -= room.energies[i] * change[i]
        if HEATING == PRESSURE:
            released -= GAS_CONSTANT * temperature * change[i]
    if HEATING == PRESSURE:
        capacity += GAS_CONSTANT * nuclei
    return released / capacity


def product_slopes(complexes, y, found):
    """Derivatives of the product of every complex by each of its slots."""
    for s in range(complexes.first.size):
        a, b, c = y[complexes.first[s]], y[complexes.second[s]], y[complexes.third[s]]
        found[3 * s] = b * c
        found[3 * s + 1] = a * c
        found[3 * s + 2] = a * b


def jacobian(system, room, times, temperatures, densities, t, y, change, trial, matrix):
    """Fill `matrix` with dy'/dy.

    `change` is dy/dt at (t, y), for which `room` holds coefficients; `trial` is room for another.
    """
    terms = system.terms
    product_slopes(system.complexes, y, room.derivatives)
    for index in range(terms.start.size - 1):
        total = 0.0
        for count in range(terms.start[index], terms.start[index + 1]):
            term = count & NATURAL
            total += room.values[terms.value[term]] * room.derivatives[terms.slope[term]]
        matrix[index] = total
    matrix[terms.start.size - 1] = 0.0
    if BODIES:
        _body_terms(system, room, times, temperatures, densities, t, y, trial, matrix)
    if HEATING != FIXED:
        _heat_terms(system, room, times, temperatures, densities, t, y, change, trial, matrix)


def _body_terms(system, room, times, temperatures, densities, t, y, trial, matrix):
    """What collision partners add: for each kind of them, a column times a row."""
    rates, flows, count = system.rates, system.flows, system.flows.start.size - 1
    for kind in range(rates.efficiency.shape[0]):
        partners = 0.0
        for j in range(count):
            partners += rates.efficiency[kind, j] * y[j]
        # d/d ln(partners) of every coefficient whose partners are of this kind, else zero.
        for r in range(room.slopes.size):
            room.scratch[r] = 0.0
        for b in range(rates.body_reaction.size):
            if rates.body_set[b] == kind:
                r = rates.body_reaction[b]
                room.scratch[r] = room.slots[r] * room.slopes[r]
        for q in range(rates.reverse.size):
            forward = rates.forward[q]
            if room.scratch[forward] != 0.0:
                r = rates.reverse[q]
                room.scratch[r] = room.slots[r] * room.slopes[forward]
        for i in range(count):
            total = 0.0
            for entry in range(flows.start[i], flows.start[i + 1]):
                e = entry & NATURAL
                value = 0.0
                for term in range(flows.source_start[e], flows.source_start[e + 1]):
                    k = term & NATURAL
                    value += flows.weight[k] * room.scratch[flows.source[k]]
                total += value * room.products[flows.complex[e]]
            if total != 0.0 and partners > 0.0:
                total /= partners
                for j in range(count):
                    matrix[system.terms.place[i, j]] += total * rates.efficiency[kind, j]


def _heat_terms(system, room, times, temperatures, densities, t, y, change, trial, matrix):
    """Column and row of the temperature and, at constant pressure, the pull of the density."""
    thermo, count, place = system.thermo, system.flows.start.size - 1, system.terms.place
    temperature = y[count]
    density = density_of(times, densities, t, y, count)
    # The row of the temperature, from columns of species, before `room` changes.
    nuclei, electrons, by_nuclei, by_electrons = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        nuclei += y[i]
        electrons += thermo.charge[i] * y[i]
    if not MOLECULES:
        # The matter as a whole, of which nuclei and electrons are more or fewer.
        share = 1e-3
        more = heating_rate(system, room, temperature, density, y, change, share, 0.0)
        by_nuclei = (more - change[count]) / (share * nuclei)
        if electrons > 0.0:
            more = heating_rate(system, room, temperature, density, y, change, 0.0, share)
            by_electrons = (more - change[count]) / (share * electrons)
    capacity = caloric(thermo, temperature, density, nuclei, electrons, y, room.energies)
    if HEATING == PRESSURE:
        capacity += GAS_CONSTANT * nuclei
        for i in range(count):
            room.energies[i] += GAS_CONSTANT * temperature
        # Density falls with the amount of gas: difference along density.
        step = 1e-6
        set_conditions(system, room, temperature, density * (1.0 + step), y)
        products(system.complexes, y, room.products)
        row_sums(system.flows, room.values, room.products, trial)
        for i in range(count):
            pull = (change[i] - trial[i]) / (step * nuclei)
            for j in range(count):
                matrix[place[i, j]] += pull
    for j in range(count):
        total = 0.0
        for i in range(count):
            total -= room.energies[i] * matrix[place[i, j]]
        if MOLECULES:
            gained = heat_capacity(thermo, temperature, j)
            if HEATING == PRESSURE:
                gained += GAS_CONSTANT
            matrix[place[count, j]] = (total - change[count] * gained) / capacity
        else:
            matter = by_nuclei + thermo.charge[j] * by_electrons
            matrix[place[count, j]] = total / capacity + matter
    shift = 1e-7 * temperature
    y[count] = temperature + shift
    rate_of_change(system, room, times, temperatures, densities, t, y, trial)
    y[count] = temperature
    for i in range(count + 1):
        matrix[place[i, count]] = (trial[i] - change[i]) / shift
