"""Rates of change and Jacobian of a zone.

The variables are the specific amounts of all species and, if the zone heats itself, its energy (see
`energy`). At constant pressure the density follows: of molecules by the ideal gas, of nuclei by the
equation of state.

The density couples all nuclei, by its derivatives with respect to their sum and the sum of their
charges. As a column times a row it is beside the sparse part of the Jacobian (see `rosenbrock`).

Derivatives with respect to amounts are exact, also those of coefficients with collision partners.
Derivatives with respect to temperature, time, density and sums of charges are finite differences:
one evaluation of dy/dt for each, independent of the number of reactions.

Functions are written once, for a thread and for a block of threads (see `thread_group`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ergode.core.compiler.language import ByTarget, no_unroll, option
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elimination import NONNEGATIVE, eliminate
from ergode.kinetics.block.elimination import block_slopes
from ergode.kinetics.block.segments import block_products, block_sums
from ergode.kinetics.condition_history import fed_at, history_at
from ergode.kinetics.implicit.energy import matter
from ergode.kinetics.kernel_options import (
    COMPOSED,
    FED,
    FLOW,
    FORMULAS,
    HEATING,
    MIXTURES,
    MOLECULES,
    MOVING,
    PLASMA,
    POWERS,
    REVERSIBLE,
    SUNLIT,
    THIRD_BODIES,
    TIMED,
)
from ergode.kinetics.network.mechanism import pattern_of, products, put_powers, row_sums
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.composed import composed_coefficients
from ergode.kinetics.physics.equation_of_state import (
    density_at,
)
from ergode.kinetics.physics.formulas import formula_coefficients
from ergode.kinetics.physics.rates import (
    add_sunlight,
    base_coefficients,
    detailed_balance,
    log_volumes,
)
from ergode.kinetics.physics.screening import charges, plasma_coefficients
from ergode.kinetics.physics.third_bodies import collision_partners, third_bodies
from ergode.kinetics.tables import (
    CLOSED,
    FIXED,
    PLUG,
    PRESSURE,
    STILL,
    STIRRED,
    Complexes,
    System,
    Terms,
)
from ergode.models.constants import GAS_CONSTANT


def coupled(
    mechanism: Mechanism, heating: int, flow: int = CLOSED, moving: int = STILL
) -> tuple[np.ndarray, dict[tuple[int, int], Any]]:
    """Where the Jacobian may not be zero, and the terms of its entries (see `pattern_of`)."""
    structure = mechanism.structure
    count = structure.species_count + (heating != FIXED) + (flow == PLUG) + moving
    pattern, terms = pattern_of(structure.complexes, structure.powers, structure.net_flows, count)
    # A density computed from amounts couples every species with every other. A temperature alone
    # adds one row and one column. Collision partners couple those that a reaction changes with the
    # partners.
    if heating == PRESSURE and mechanism.molecular:
        pattern[:] = True
    elif heating != FIXED:
        others = range(structure.species_count, count)
        pattern[others], pattern[:, others] = True, True
    for changed, partners in mechanism.couplings if mechanism.has_third_bodies else ():
        pattern[np.ix_(changed, partners)] = True
    return pattern, terms


def system_of(
    mechanism: Mechanism, absolute: np.ndarray, *, heating: int, flow: int = CLOSED,
    moving: int = STILL,
) -> System:  # fmt: skip
    """Tables for an implicit method.

    Parameters
    ----------
    mechanism : Mechanism
    absolute : ndarray of float64, shape [variable_count]
        Absolute tolerance of each variable.
    heating : int
        `FIXED`, `VOLUME` or `PRESSURE`.
    flow : int
        `CLOSED`, `STIRRED` or `PLUG`.
    moving : int
        `STILL`, `MOBILE` or `INERT`: the number of variables after the temperature.
    """
    structure = mechanism.structure
    pattern, terms = coupled(mechanism, heating, flow, moving)
    count = len(pattern)
    plan = eliminate(pattern)
    places = plan.positions()
    ordered: list[list[tuple[int, int]]] = [[] for _ in range(plan.column.size)]
    for pair, items in terms.items():
        ordered[places[pair]] = items
    flat = [item for items in ordered for item in items]
    # Missing entries refer to an extra last entry, which is zero.
    full = heating != FIXED or mechanism.has_third_bodies
    place = np.full((count, count) if full else (1, 1), plan.column.size, np.uint32)
    if full:
        for (i, j), index in places.items():
            place[i, j] = index
    return System(
        _moved(structure.complexes, structure.species_count, count),
        structure.net_flows,
        *mechanism.used(heating != FIXED),
        mechanism.invariants,
        absolute,
        place,
        plan,
        Terms(
            np.concatenate([[0], np.cumsum([len(items) for items in ordered])]).astype(np.uint32),
            np.array([item[0] for item in flat], np.uint32),
            np.array([item[1] for item in flat], np.uint32),
        ),
        structure.powers if mechanism.has_powers else (),
    )


def _moved(complexes: Complexes, old: int, new: int) -> Complexes:
    """Complexes whose empty slots are the variable `new`, followed by the powers."""
    return Complexes(
        *(np.where(slot >= old, slot + (new - old), slot).astype(np.uint32) for slot in complexes)
    )


# --- device functions -----------------------------------------------------------------------------


def coefficients(
    rates,
    thermo,
    workspace,
    factors,
    temperature,
    density,
    y,
    more_electrons,
    more_squares,
    sunlight,
):
    """Coefficients of all reactions at these conditions; ends in a barrier.

    `factors` are the zone's prefactors in a sweep of parameters; `workspace.memory` has the inputs
    of formulas. `more_electrons` and
    `more_squares` multiply the sums of charges and of squared charges of `y`.
    """
    group = workspace.group
    slots = workspace.slots
    base_coefficients(rates, factors, temperature, density, slots, group)
    if COMPOSED:
        barrier(group)
        composed_coefficients(rates, temperature, density, slots, group)
        barrier(group)
    if THIRD_BODIES:
        if MIXTURES:  # efficiencies are among the slots
            barrier(group)
        collision_partners(rates, density, y, slots, workspace.partners, group)
        barrier(group)
        third_bodies(
            rates, thermo.polynomials, temperature, density, workspace.partners, slots,
            workspace.slopes, group,
        )  # fmt: skip
    if FORMULAS:
        barrier(group)
        formula_coefficients(
            rates, temperature, density, workspace.partners, workspace.memory, slots,
            workspace.slopes, group,
        )  # fmt: skip
    if PLASMA:
        electrons, squares = charges(thermo.charge, y, group)
        plasma_coefficients(
            rates.plasma, temperature, density, electrons * more_electrons,
            squares * more_squares, slots, group,
        )  # fmt: skip
    if SUNLIT:
        barrier(group)
        add_sunlight(rates, sunlight, slots, group)
    if REVERSIBLE:
        log_volumes(thermo, temperature, workspace.volumes, group)
        barrier(group)
        detailed_balance(rates, density, workspace.volumes, slots, group)
    barrier(group)


def temperature_of(times, temperatures, below, last, since, y, species_count):
    """Temperature [K]: a variable, or given."""
    if HEATING == FIXED:
        return history_at(times, temperatures, below, last, since)
    return y[species_count]


def density_of(
    thermo, times, densities, below, last, since, y, species_count, temperature, isobar, group
):
    """Density [g/cm3]: given, or from the pressure."""
    if HEATING == PRESSURE and not MOLECULES:
        nuclei, electrons = matter(thermo, y, group)
        barrier(group)
        return density_at(
            thermo.electrons, isobar.pressure, temperature, nuclei, electrons, isobar.density
        )
    given = history_at(times, densities, below, last, since)
    if MOVING:
        return given / y[species_count + 1]
    if HEATING == PRESSURE:
        amount = 0.0
        for i in no_unroll(share(group, 0, species_count)):
            amount += y[i]
        amount = total_of(group, amount, 0)
        return given / (GAS_CONSTANT * temperature * amount)
    return given


def _row_by_row(system, workspace, y, found):
    products(system.complexes, y, workspace.products)
    row_sums(system.flows, workspace.values, workspace.products, found)


def _segment_by_segment(system, workspace, y, found):
    block_products(system.flows.triple, y, workspace.products)
    block_sums(system.flows.sums, workspace.values, workspace.products, workspace.partial, found)


change_at = option(ByTarget(cpu=_row_by_row, cuda=_segment_by_segment))


def add_inflow(inflow, renewal, y, change, species_count, group):
    """Add what flows in, less what flows out, to the changes of species."""
    if FLOW == STIRRED:
        for i in no_unroll(share(group, 0, species_count)):
            change[i] += renewal * (inflow[i] - y[i])


def renewal_of(system, history, below, until, at, group):
    """The flow in over the mass, `at` after the knot `below`; it changes if flows differ.

    If the inflow changes, puts what flows in then, up to the segment `until`; ends in a barrier.
    """
    inflow, count = history.inflow, system.invariants.shape[1]
    if FED:
        barrier(group)
        for i in no_unroll(share(group, 0, count + 1)):
            inflow[i] = fed_at(history, i, below, until, at)
        if group.rank == 0:
            inflow[inflow.size - 2] = fed_at(history, count + 1, below, until, at)
            inflow[inflow.size - 1] = fed_at(history, count + 2, below, until, at)
        barrier(group)
        return inflow[inflow.size - 2]
    renewal = inflow[count + 1]
    if TIMED:
        growth = inflow[count + 2 + system.invariants.shape[0]]
        renewal /= 1.0 + growth * (history.times[below] - history.times[0] + at)
    return renewal


def set_age_rate(inflow, density, reactions_alone, change, species_count, group):
    """Set the change of the time since the inlet with the position; ends in a barrier."""
    if group.rank == 0:
        change[species_count + 1] = 0.0 if reactions_alone else density * inflow[0]
    barrier(group)


def _slopes_by_entry(system, workspace, vectors, y):
    terms, matrix = system.terms, vectors.matrix
    product_slopes(system.complexes, y, workspace.derivatives)
    if POWERS:
        size = 3 * system.complexes.first.size
        behind = system.absolute.size + system.powers.start.size
        for factor in range(system.powers.species.size):
            workspace.derivatives[size + factor] = y[behind + factor]
    for index in range(terms.start.size - 1):
        total = 0.0
        for count in range(terms.start[index], terms.start[index + 1]):
            term = count & NONNEGATIVE
            total -= workspace.values[terms.value[term]] * workspace.derivatives[terms.slope[term]]
        matrix[index] = total
    matrix[terms.start.size - 1] = 0.0


def product_slopes(complexes, y, found):
    """Derivatives of the product of every complex with respect to each slot."""
    for s in range(complexes.first.size):
        a, b, c = y[complexes.first[s]], y[complexes.second[s]], y[complexes.third[s]]
        found[3 * s] = b * c
        found[3 * s + 1] = a * c
        found[3 * s + 2] = a * b


def put_own_powers(system, y, group):
    """Put the powers of these amounts behind them (see `Powers`); ends in a barrier."""
    if POWERS:
        put_powers(system.powers, y, system.absolute.size, group)
        barrier(group)


def _slopes_by_segment(system, workspace, vectors, y):
    block_slopes(system, workspace.values, y, vectors.matrix, workspace.partial)


fill_slopes = option(ByTarget(cpu=_slopes_by_entry, cuda=_slopes_by_segment))
"""Fill `vectors.matrix` with the negative Jacobian for fixed coefficients; ends in a barrier."""


def keep_coefficients(workspace):
    """Keep the coefficients at the start of the step."""
    group = workspace.group
    for r in no_unroll(share(group, 0, workspace.saved.size)):
        workspace.saved[r] = workspace.slots[r]


def is_sum(rates, kind):
    """Whether a kind of partners is a sum of species in formulas."""
    return FORMULAS and kind >= rates.formulas.first_sum


def put_slopes(rates, workspace, kind):
    """Replace coefficients by d k / d ln M for one kind of partners; ends in a barrier.

    Of formulas by d k / d M.
    """
    group = workspace.group
    for r in no_unroll(share(group, 0, workspace.saved.size)):
        workspace.slots[r] = 0.0
    barrier(group)
    begin, end = rates.dependent_start[kind], rates.dependent_start[kind + 1]
    for count in no_unroll(share(group, begin, end)):
        r, slope = rates.dependent[count], rates.dependent_slope[count]
        base = 1.0 if is_sum(rates, kind) else workspace.saved[r]
        workspace.slots[r] = base * workspace.slopes[slope]
    barrier(group)


def subtract_partners(system, workspace, vectors, kind, density, column):
    """Subtract the effect of one kind of partners, a column times a row, from `vectors.matrix`."""
    group = workspace.group
    rates, place = system.rates, system.place
    count = rates.efficiency.shape[1]
    amount = workspace.partners[rates.mixture_whole[kind] if MIXTURES else kind]
    by = density / amount if amount > 0.0 else 0.0
    if is_sum(rates, kind):
        by = density
    for i in no_unroll(range(system.absolute.size)):
        for j in no_unroll(share(group, 0, count)):
            vectors.matrix[place[i, j]] -= column[i] * rates.efficiency[kind, j] * by
    barrier(group)
    if MIXTURES:
        begin, end = rates.collider_start[kind], rates.collider_start[kind + 1]
        for i in no_unroll(range(system.absolute.size)):
            for collider in no_unroll(share(group, begin, end)):
                j = rates.collider_species[collider]
                efficiency = workspace.slots[rates.collider_slot[collider]]
                vectors.matrix[place[i, j]] -= column[i] * efficiency * by
        barrier(group)


def outflow_alone(system, vectors, renewal, group):
    plan, species_count = system.plan, system.invariants.shape[1]
    for k in range(plan.order.size):
        if plan.order[k] < species_count:
            vectors.matrix[plan.pivot[k]] += renewal


def _outflow_together(system, vectors, renewal, group):
    for i in no_unroll(share(group, 0, system.invariants.shape[1])):
        vectors.matrix[system.pivot[i]] += renewal
    barrier(group)


add_outflow = option(ByTarget(cpu=outflow_alone, cuda=_outflow_together))
"""Add the outflow to the diagonal of the negative Jacobian; ends in a barrier."""


def put_temperature_column(system, vectors, column, group):
    """Fill the temperature's column of the Jacobian; ends in a barrier."""
    species_count = system.invariants.shape[1]
    for i in no_unroll(share(group, 0, system.absolute.size)):
        vectors.matrix[system.place[i, species_count]] = -column[i]
    barrier(group)


def subtract_dilution(system, vectors, group, y, column):
    """Subtract the dilution of the gas at constant pressure; ends in a barrier.

    `column` is the derivative of dy/dt with respect to the logarithm of the density.
    """
    count = system.invariants.shape[1]
    amount = 0.0
    for i in no_unroll(share(group, 0, count)):
        amount += y[i]
    amount = total_of(group, amount, 0)
    for i in no_unroll(range(system.absolute.size)):
        for j in no_unroll(share(group, 0, count)):
            vectors.matrix[system.place[i, j]] += column[i] / amount
    barrier(group)
