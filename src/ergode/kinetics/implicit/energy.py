"""The energy of a zone that heats itself.

Not the temperature but the internal energy of the zone is the variable, or the enthalpy at constant
pressure. No reaction changes it: dE/dt is what flows in less what flows out and what neutrinos
carry off, plus the work on a zone whose volume or pressure is given over time (see `compression`),
and the heat through a wall.
A Rosenbrock method keeps such a sum to rounding, also near equilibrium, where huge rates
cancel and a temperature would drift. The temperature follows from energy and amounts by Newton's
method.

The linear system has amounts and the temperature as unknowns all the same, for it stays sparse so:
with dE = sum of e_i dY_i + c dT, and all of it over c, the row of the energy is

    (1 / (h gamma)) (sum of e_i U_i / c + U_T) - (1 / c) sum of d(dE/dt)/dy_j U_j

A stage keeps the change of the energy over c [K] where its solution has U_T. The energies e_i of
species and the heat capacity c are those at the start of the step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.core.math.elimination import NONNEGATIVE
from ergode.kinetics.condition_history import history_at
from ergode.kinetics.kernel_options import (
    COMPRESSED,
    FED,
    FLOW,
    HEATING,
    MOLECULES,
    MOVING,
    NEUTRINOS,
    TIMED,
    WALLED,
)
from ergode.kinetics.physics.equation_of_state import (
    expansion,
    isobaric,
    pressure_of,
    response,
    response_at_pressure,
)
from ergode.kinetics.physics.neutrinos import neutrino_losses_of
from ergode.kinetics.physics.rates import energy_of, heat_capacity, jump_of
from ergode.kinetics.tables import PRESSURE, STIRRED
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

_SHARE = 1e-3
"""Relative increment of amounts in finite differences of the neutrino losses."""
_LITTLE = 1e-6
"""The same for the pressure."""
_MOST_ITERATIONS, _ROUNDING = 100, 1e-15


class Isobar(NamedTuple):
    """Of nuclei at constant pressure; zeros for all others."""

    pressure: float  # the pressure that the zone keeps [dyn/cm2]
    # Density at the start of the step, from which the search for another begins [g/cm3].
    density: float


class Heat(NamedTuple):
    """Of a zone that heats itself, at the start of a step."""

    temperature: float
    energy: float  # as of `energy_at`
    capacity: float  # heat capacity [erg/(g K)]
    outside: float  # dE/dt over the heat capacity [K/s]
    rise: float  # dT/dt [K/s]
    # Derivative of the energy by V / V_0, where the volume is a variable (see `motion`).
    by_volume: float


def matter(thermo, y, group):
    """Specific amounts of nuclei and of electrons [mol/g]; contains a barrier."""
    nuclei, electrons = 0.0, 0.0
    for i in no_unroll(share(group, 0, thermo.charge.size)):
        nuclei += y[i]
        electrons += thermo.charge[i] * y[i]
    return total_of(group, nuclei, 0), total_of(group, electrons, 1)


def isobar_of(thermo, density, y, group):
    """The isobar of a zone with this density."""
    if HEATING != PRESSURE or MOLECULES:
        return Isobar(0.0, 0.0)
    barrier(group)
    nuclei, electrons = matter(thermo, y, group)
    hot = y[thermo.charge.size]
    return Isobar(pressure_of(thermo.electrons, hot, density, nuclei, electrons), density)


def given_at(history, isobar, below, last, since):
    """Density, or that of an isobar at the start, and the isobar, at a time within a step.

    Of nuclei whose volume or pressure is given over time: the history of the density follows the
    one over time, or is proportional to the other.
    """
    density = history.density[0]
    if COMPRESSED and not MOLECULES:
        density = history_at(history.times, history.density, below, last, since)
        if HEATING == PRESSURE:
            share = density / history.density[0]
            return density, Isobar(isobar.pressure * share, isobar.density)
    return density, isobar


def energy_at(system, workspace, start, temperature, density, nuclei, electrons, y):
    """The energy that the temperature sets, and the heat capacity.

    Of nuclei it is the internal energy without mass excesses [erg/g], at constant density. Of
    molecules it is the internal energy, or the enthalpy at constant pressure, and includes that of
    formation. Between the temperature `start` of the step and this one it has no jump where
    polynomials meet: a zone crosses a jump without heat, whether its steps are long or short.
    """
    group = workspace.group
    thermo, t = system.thermo, temperature
    if not MOLECULES:
        capacity, _, _, energy = response(thermo.electrons, t, density, nuclei, electrons)
        return energy, capacity
    inverse, logarithm = 1.0 / t, log(t)
    work = GAS_CONSTANT if HEATING == PRESSURE else 0.0
    energy, capacity = 0.0, 0.0
    for i in no_unroll(share(group, 0, workspace.energies.size)):
        one = energy_of(thermo, t, inverse, logarithm, i) - jump_of(thermo, start, t, i)
        energy += y[i] * (one + work * t)
        capacity += y[i] * (heat_capacity(thermo, t, i) + work)
    barrier(group)
    return total_of(group, energy, 0), total_of(group, capacity, 1)


def temperature_at(system, workspace, heat, isobar, density, y, new, gained):
    """The temperature [K] of the amounts `new`, by Newton's method; NaN if there is none.

    The step began with the amounts `y` and with `heat`. `gained` is the change of the energy since
    then, divided by the heat capacity at the start [K].
    """
    group = workspace.group
    thermo = system.thermo
    target = heat.energy + heat.capacity * gained
    nuclei, electrons = 0.0, 0.0
    if not MOLECULES:
        barrier(group)
        nuclei, electrons = matter(thermo, new, group)
        part = 0.0
        for i in no_unroll(share(group, 0, workspace.energies.size)):
            part += thermo.mass_excess[i] * (new[i] - y[i])
        barrier(group)
        target -= total_of(group, part, 0)
        if HEATING == PRESSURE:
            t, _ = isobaric(
                thermo.electrons, isobar.pressure, target, nuclei, electrons, heat.temperature,
                isobar.density,
            )  # fmt: skip
            return t
    t, low, high = heat.temperature, 0.0, math.inf
    for _ in no_unroll(range(_MOST_ITERATIONS)):
        energy, capacity = energy_at(
            system, workspace, heat.temperature, t, density, nuclei, electrons, new
        )
        step = (target - energy) / (capacity * t)
        if not (capacity > 0.0 and abs(step) < math.inf):
            return math.nan
        if step > 0.0:
            low = t
        else:
            high = t
        # An equation of state of the user may have a jump, within which no temperature is.
        if high - low <= _ROUNDING * t:
            return t
        t *= exp(min(max(step, -1.0), 1.0))
        # The error of the next iterate is about the square of this step.
        if abs(step) < 1e-8:
            return t
        if not (t > low and t < high):
            t = 0.5 * (low + high)
    return math.nan


def outside_rate(
    system, workspace, temperature, density, y, history, renewal, squeeze, isobar, wall
):
    """dE/dt: what flows in less what flows out, work, heat, less neutrino losses [erg/(g s)].

    In a stirred tank `renewal` is one over the residence time. `squeeze` is the logarithmic slope
    of a density or pressure that is given over time; a pressure is that of `isobar`. `wall` is of
    `wall_at`. Begins in a barrier.
    """
    group = workspace.group
    thermo, t, rate = system.thermo, temperature, 0.0
    barrier(group)
    if FLOW == STIRRED:
        inverse, logarithm = 1.0 / t, log(t)
        part = 0.0
        for i in no_unroll(share(group, 0, workspace.energies.size)):
            part += y[i] * (energy_of(thermo, t, inverse, logarithm, i) + GAS_CONSTANT * t)
        enters = history.inflow[workspace.energies.size]
        rate = renewal * (enters - total_of(group, part, 0))
    if COMPRESSED and MOLECULES:
        part = 0.0
        for i in no_unroll(share(group, 0, workspace.energies.size)):
            part += y[i]
        rate += total_of(group, part, 1) * GAS_CONSTANT * t * squeeze
    if WALLED:
        heat = wall[0] * (wall[1] - t)
        if FED:  # of a mass that may change
            heat *= history.inflow[history.inflow.size - 1]
        elif FLOW == STIRRED and TIMED:
            heat *= renewal / history.inflow[workspace.energies.size + 1]
        rate += heat
    if NEUTRINOS or (COMPRESSED and not MOLECULES):
        nuclei, electrons = matter(thermo, y, group)
        if COMPRESSED:
            push = isobar.pressure
            if HEATING != PRESSURE:
                push = pressure_of(thermo.electrons, t, density, nuclei, electrons)
            rate += push / density * squeeze
        if NEUTRINOS:
            rate -= neutrino_losses_of(t, density, nuclei, electrons)
    return rate


def heat_of(system, workspace, temperature, density, y, change, outside):
    """The heat at the start of a step, where amounts change by `change`.

    Fills `workspace.energies` with the internal energies of species, or their enthalpies at
    constant pressure [erg/mol]; ends in a barrier.
    """
    group = workspace.group
    thermo, t = system.thermo, temperature
    energy, capacity, per_nucleus, per_electron, by_volume = 0.0, 0.0, 0.0, 0.0, 0.0
    if MOLECULES:
        energy, capacity = energy_at(system, workspace, t, t, density, 0.0, 0.0, y)
    else:
        barrier(group)
        nuclei, electrons = matter(thermo, y, group)
        capacity, per_nucleus, per_electron, energy = response_of_zone(
            thermo.electrons, t, density, nuclei, electrons
        )
        if MOVING:
            by_density = expansion(thermo.electrons, t, density, nuclei, electrons)[3]
            by_volume = -by_density * density / y[workspace.energies.size + 1]
    inverse, logarithm = 1.0 / t, log(t)
    work = GAS_CONSTANT * t if HEATING == PRESSURE else 0.0
    released = 0.0
    for i in no_unroll(share(group, 0, workspace.energies.size)):
        if MOLECULES:
            one = energy_of(thermo, t, inverse, logarithm, i) + work
        else:
            one = thermo.mass_excess[i] + per_nucleus + thermo.charge[i] * per_electron
        workspace.energies[i] = one
        released -= one * change[i]
    barrier(group)
    released = total_of(group, released, 0)
    barrier(group)
    if MOVING:
        released -= by_volume * change[workspace.energies.size + 1]
    rise = (outside + released) / capacity
    return Heat(t, energy, capacity, outside / capacity, rise, by_volume)


def put_energy_row(system, workspace, vectors, density, y, heat, renewal, squeeze, diagonal):
    """Fill the row of the energy, in place of the temperature's; ends in a barrier.

    The diagonal of the matrix will get `diagonal`, which this row has for the species too.
    """
    group = workspace.group
    thermo, place, matrix = system.thermo, system.place, vectors.matrix
    count, t, by_nuclei, by_electrons = workspace.energies.size, heat.temperature, 0.0, 0.0
    if NEUTRINOS:
        nuclei, electrons = matter(thermo, y, group)
        loss = neutrino_losses_of(t, density, nuclei, electrons)
        more = neutrino_losses_of(t, density, nuclei * (1.0 + _SHARE), electrons)
        by_nuclei = (more - loss) / (_SHARE * nuclei)
        if electrons > 0.0:
            more = neutrino_losses_of(t, density, nuclei, electrons * (1.0 + _SHARE))
            by_electrons = (more - loss) / (_SHARE * electrons)
    if COMPRESSED and HEATING != PRESSURE and not MOLECULES:
        if NEUTRINOS:
            barrier(group)
        nuclei, electrons = matter(thermo, y, group)
        push = pressure_of(thermo.electrons, t, density, nuclei, electrons)
        more = pressure_of(thermo.electrons, t, density, nuclei * (1.0 + _LITTLE), electrons)
        by_nuclei -= squeeze / density * (more - push) / (_LITTLE * nuclei)
        if electrons > 0.0:
            more = pressure_of(thermo.electrons, t, density, nuclei, electrons * (1.0 + _LITTLE))
            by_electrons -= squeeze / density * (more - push) / (_LITTLE * electrons)
    work = GAS_CONSTANT * t if FLOW == STIRRED and HEATING != PRESSURE else 0.0
    for j in no_unroll(share(group, 0, count)):
        total = diagonal * workspace.energies[j]
        if FLOW == STIRRED:
            total += renewal * (workspace.energies[j] + work)
        if COMPRESSED and MOLECULES:
            total -= GAS_CONSTANT * t * squeeze
        if NEUTRINOS or (COMPRESSED and HEATING != PRESSURE and not MOLECULES):
            total += by_nuclei + thermo.charge[j] * by_electrons
        matrix[place[count, j]] = total / heat.capacity
    barrier(group)


def put_gain(workspace, x, heat):
    """Replace the temperature in the solution `x` of a stage by the change of the energy.

    The change is divided by the heat capacity [K]. Ends in a barrier.
    """
    group = workspace.group
    gained, count = 0.0, workspace.energies.size
    # Without any exchange the energy is kept; all else is rounding.
    if FLOW == STIRRED or NEUTRINOS or COMPRESSED or WALLED:
        part = 0.0
        barrier(group)
        for i in no_unroll(share(group, 0, count)):
            part += workspace.energies[i] * x[i]
        part = total_of(group, part, 0)
        if MOVING:
            part += heat.by_volume * x[count + 1]
        gained = x[count] + part / heat.capacity
    barrier(group)
    if group.rank == 0:
        x[count] = gained
    barrier(group)


def gain_of(weights, stages, count, place):
    """Weighted sum of the stages of one of `count` variables, that at `place`."""
    total = 0.0
    for j in no_unroll(range(weights.size)):
        total += weights[j] * stages[((j & NONNEGATIVE) * count + place) & NONNEGATIVE]
    return total


def response_of_zone(table, temperature, density, nuclei, electrons):
    """`response`, or `response_at_pressure` where the pressure is kept."""
    if HEATING == PRESSURE:
        found = response_at_pressure(table, temperature, density, nuclei, electrons)
        return found[0], found[1], found[2], found[3]
    return response(table, temperature, density, nuclei, electrons)
