"""The volume of a zone, which follows from its pressure (see `pistons`).

Behind the temperature a zone has the variable x = V / V_0 and, if what moves has a mass, its speed
w, in units in which p_0 V_0 w^2 / 2 is its kinetic energy:

    x' = c g(x) (p - p_out) / p_0                        without a mass,
    x' = c g(x) w,    w' = c g(x) (p - p_out) / p_0      with one,

where c is a rate, and g is the area over that at first: 1, or x^(2/3) for a sphere. The zone does
the work p V' (see `compression`, whose slope d ln(density)/dt is -x' / x).
"""

from __future__ import annotations

from ergode.core.compiler.language import no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.kinetics.implicit.energy import matter
from ergode.kinetics.kernel_options import MOLECULES, MOVING
from ergode.kinetics.physics.equation_of_state import expansion, pressure_of
from ergode.kinetics.tables import INERT, MOBILE
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

# Columns of `ConditionHistory.motion`.
_RATE, _OUTSIDE, _SCALE, _POWER = range(4)


def own_density(history, given, y, species_count):
    """The density of a zone whose volume is a variable; otherwise the one that is `given`."""
    if MOVING:
        return history.density[0] / y[species_count + 1]
    return given


def _push(system, temperature, density, y, group):
    """The pressure [dyn/cm2]; contains a barrier."""
    species_count = system.invariants.shape[1]
    if MOLECULES:
        amount = 0.0
        for i in no_unroll(share(group, 0, species_count)):
            amount += y[i]
        return total_of(group, amount, 0) * GAS_CONSTANT * temperature / y[species_count + 1]
    nuclei, electrons = matter(system.thermo, y, group)
    return pressure_of(system.thermo.electrons, temperature, density, nuclei, electrons)


def _pace(history, x):
    """The rate times the area over that at first."""
    rate, power = history.motion[_RATE], history.motion[_POWER]
    if power > 0.0:
        rate *= exp(power * log(x))
    return rate


def put_motion(system, history, temperature, density, y, reactions_alone, found, group):
    """Put the changes of the volume and the speed; returns d ln(density)/dt. Ends in a barrier."""
    place = system.invariants.shape[1] + 1
    barrier(group)
    push = _push(system, temperature, density, y, group)
    pace, x = _pace(history, y[place]), y[place]
    drive = pace * (push / history.motion[_SCALE] - history.motion[_OUTSIDE])
    widens = drive
    if MOVING == INERT:
        widens = pace * y[place + 1]
    barrier(group)
    if group.rank == 0:
        found[place] = 0.0 if reactions_alone else widens
        if MOVING == INERT:
            found[place + 1] = 0.0 if reactions_alone else drive
    barrier(group)
    return -widens / x


def put_motion_rows(system, vectors, history, density, heat, group):
    """Fill the rows of the volume and the speed, and what they add to that of the energy.

    Not the columns of temperature and volume, which are finite differences. Ends in a barrier.
    """
    thermo, place, matrix, y = system.thermo, system.place, vectors.matrix, vectors.y
    count, t = system.invariants.shape[1], heat.temperature
    x, by_nuclei, by_electrons = y[count + 1], 0.0, 0.0
    barrier(group)
    push = _push(system, t, density, y, group)
    barrier(group)
    if MOLECULES:
        by_nuclei = GAS_CONSTANT * t / x
    else:
        nuclei, electrons = matter(thermo, y, group)
        found = expansion(thermo.electrons, t, density, nuclei, electrons)
        by_nuclei, by_electrons = found[8], found[9]
    pace = _pace(history, x)
    work = push / (density * x) / heat.capacity
    row = count + 2 if MOVING == INERT else count + 1
    for j in no_unroll(share(group, 0, count)):
        one = by_nuclei
        if not MOLECULES:
            one += thermo.charge[j] * by_electrons
        one *= pace / history.motion[_SCALE]
        matrix[place[row, j]] = -one
        if MOVING == MOBILE:
            matrix[place[count, j]] += work * one
    if MOVING == INERT and group.rank == 0:
        matrix[place[count + 1, count + 2]] = -pace
        matrix[place[count, count + 2]] = work * pace
    barrier(group)


def put_volume_column(system, vectors, column, heat, diagonal, group):
    """Fill the volume's column of the Jacobian; ends in a barrier.

    The energy of nuclei depends on the density: the diagonal of the matrix, which will get
    `diagonal`, has an entry of its row here, too.
    """
    count = system.invariants.shape[1]
    for i in no_unroll(share(group, 0, system.absolute.size)):
        entry = -column[i]
        if i == count:
            entry += diagonal * heat.by_volume / heat.capacity
        vectors.matrix[system.place[i, count + 1]] = entry
    barrier(group)
