"""What comes from outside: flow through tanks and tubes, and pistons.

In a tank amounts change by r (Y_in - Y) beside the reactions, and the energy does by enthalpies,
where r is the flow in over the mass (see `reactors`). Conserved sums S obey the first equation
alone. They are columns of the history behind the variables, which the method integrates exactly as
it does their terms, and amounts are projected onto them.

Along a tube all rates are those in time over the velocity, and the age is a column of the history.

Where a piston moves, the volume and its speed are variables behind the temperature (see
`implicit.motion`). The derivative of a pressure is that of all amounts alike, so their rows of the
Jacobian are numbers.
"""

from __future__ import annotations

from ergode.core.compiler.language import ByTarget, no_unroll
from ergode.core.group import barrier, share, total_of
from ergode.core.math.elementary import exp, log
from ergode.kinetics.condition_history import fed_at
from ergode.kinetics.kernel_options import (
    EXCHANGES,
    FED,
    FLOW,
    HEATING,
    MOVING,
    TIMED,
)
from ergode.kinetics.tables import INERT, MOBILE, PLUG, PRESSURE, STIRRED
from ergode.models.constants import GAS_CONSTANT

# --- device functions -----------------------------------------------------------------------------

# Columns of `ConditionHistory.motion`.
_RATE, _OUTSIDE, _SCALE, _POWER = range(4)
# Numbers of `Vectors.border` behind the column of the volume: what the amounts add to the rows of
# temperature, volume and speed; what the speed adds to the rows of temperature and volume.
BY_AMOUNT, BY_SPEED, NUMBERS = 0, 3, 5


def _work_cpu(zone):
    return zone.work


def _work_cuda(zone):
    return 0.0 if HEATING == PRESSURE else 1.0


work_of = ByTarget(cpu=_work_cpu, cuda=_work_cuda)
"""``work_of(zone)`` is 0 at constant pressure, where energies are enthalpies, and otherwise 1.

Only kernels of GPUs are made for one of them: they save registers.
"""


def sum_of_amounts(zone, y):
    """Sum of the amounts of all species."""
    total = 0.0
    for i in no_unroll(share(zone.group, 0, zone.matter.shape[1])):
        total += y[i]
    return total_of(zone.group, total, 0)


def add_flow(zone, setting, y, change):
    """Add what flows into a tank, less what flows out, to the changes of species."""
    if FLOW == STIRRED:
        for i in no_unroll(share(zone.group, 0, zone.matter.shape[1])):
            change[i] += setting.renewal * (setting.inflow[i] - y[i])


def flow_of_energy(zone, setting, temperature, y):
    """What flows into a tank brings, less what flows out takes, and the slope by temperature.

    Enthalpies are those of the workspace, which may be at another temperature nearby.
    """
    if FLOW != STIRRED:
        return 0.0, 0.0
    species, total, capacity = zone.matter.shape[1], 0.0, 0.0
    gas = GAS_CONSTANT * work_of(zone)
    for i in no_unroll(share(zone.group, 0, species)):
        total += y[i] * (zone.matter[1, i] + gas * zone.hot[0, 0])
        capacity += y[i] * (zone.matter[2, i] + gas)
    total = total_of(zone.group, total, 0)
    capacity = total_of(zone.group, capacity, 1)
    total += capacity * (temperature - zone.hot[0, 0])
    return setting.renewal * (setting.inflow[species] - total), -setting.renewal * capacity


def flow_at(conditions, zone, sums, below, last, since):
    """The flow in over the mass, and one over the mass, at a time; puts what flows in then.

    Of a tube, one over the velocity at the inlet. Ends in a barrier where it puts something.
    """
    if FLOW == PLUG:
        return conditions.inflow[0], 1.0
    if FLOW != STIRRED:
        return 0.0, 1.0
    inflow, species, group = conditions.inflow, zone.matter.shape[1], zone.group
    if FED:
        barrier(group)
        for i in no_unroll(share(group, 0, species + 1)):
            inflow[i] = fed_at(conditions, i, below, last, since)
        for k in no_unroll(share(group, 0, sums)):
            inflow[species + 2 + k] = fed_at(conditions, species + 3 + k, below, last, since)
        barrier(group)
        return (
            fed_at(conditions, species + 1, below, last, since),
            fed_at(conditions, species + 2, below, last, since),
        )  # fmt: skip
    renewal, inverse = inflow[species + 1], 1.0
    if TIMED:
        growth, times = inflow[species + 2 + sums], conditions.times
        inverse = 1.0 / (1.0 + growth * (times[below] - times[0] + since))
    return renewal * inverse, inverse


def kept_count(sums):
    """Columns of the history behind the variables: the energy, conserved sums of a tank, an age."""
    count = 1 if EXCHANGES else 0
    if FLOW == STIRRED:
        count += sums
    if FLOW == PLUG:
        count += 1
    return count


def pace_of(zone, setting, density):
    """One over the velocity in a tube; otherwise one."""
    return density * setting.renewal if FLOW == PLUG else 1.0


def put_first(vectors, sums):
    """Put the sums of a tank, or the age in a tube, at first."""
    history, first = vectors.history, vectors.y.size + (1 if EXCHANGES else 0)
    for k in no_unroll(share(vectors.group, 0, history.shape[1] - first)):
        history[0, first + k] = vectors.gram[sums * (sums + 2) + k] if FLOW == STIRRED else 0.0


def begin_kept(chemistry, vectors, setting, density, h):
    """Begin with sums and age, at the start of a history."""
    history, group = vectors.history, vectors.group
    first = vectors.y.size + (1 if EXCHANGES else 0)
    if FLOW == STIRRED:
        species = chemistry.invariants.shape[1]
        for k in no_unroll(share(group, 0, chemistry.invariants.shape[0])):
            into = setting.inflow[species + 2 + k]
            history[1, first + k] = h * setting.renewal * (into - history[0, first + k])
    if FLOW == PLUG and group.rank == 0:
        history[1, first] = h * density * setting.renewal


def correct_kept(chemistry, vectors, setting, density, gamma):
    """Put the corrections of sums and age."""
    history, correction, group = vectors.history, vectors.correction, vectors.group
    first = vectors.y.size + (1 if EXCHANGES else 0)
    if FLOW == STIRRED:
        # Without a sum of a product that is used twice: vector lanes would round it otherwise.
        species, per = chemistry.invariants.shape[1], 1.0 / gamma
        for k in no_unroll(share(group, 0, chemistry.invariants.shape[0])):
            j, into = first + k, setting.inflow[species + 2 + k]
            steady = history[1, j] / vectors.gain[1] * per
            gained = setting.renewal * (into - history[0, j]) - steady
            correction[j] = gained / (per + setting.renewal)
    if FLOW == PLUG and group.rank == 0:
        gained = gamma * density * setting.renewal
        correction[first] = gained - history[1, first] / vectors.gain[1]


def widening(zone, setting, temperature, y):
    """How fast the volume grows; how fast its speed does; the pressure; the pace of both."""
    motion, x = setting.motion, y[zone.matter.shape[1] + 1]
    push = sum_of_amounts(zone, y) * GAS_CONSTANT * temperature / x
    pace = motion[_RATE]
    if motion[_POWER] > 0.0:
        pace *= exp(motion[_POWER] * log(x))
    drive = pace * (push / motion[_SCALE] - motion[_OUTSIDE])
    widens = drive
    if MOVING == INERT:
        widens = pace * y[zone.matter.shape[1] + 2]
    return widens, drive, push, pace


def put_motion(zone, setting, temperature, y, change):
    """Put the changes of volume and speed; ends in a barrier."""
    place = zone.matter.shape[1] + 1
    widens, drive, _, _ = widening(zone, setting, temperature, y)
    if zone.group.rank == 0:
        change[place] = widens
        if MOVING == INERT:
            change[place + 1] = drive
    barrier(zone.group)


def put_motion_slopes(zone, setting, temperature, y, capacity, column, border):
    """Put derivatives of work, volume and speed, but for the rates of species; ends in a barrier.

    `column` is that of the temperature.
    """
    species, count = zone.matter.shape[1], y.size
    widens, drive, push, pace = widening(zone, setting, temperature, y)
    x, scale, power = y[species + 1], setting.motion[_SCALE], setting.motion[_POWER]
    by_amount = pace * GAS_CONSTANT * temperature / (x * scale)
    by_heat, by_volume = pace * push / (temperature * scale), power * drive / x
    by_volume -= pace * push / (x * scale)
    barrier(zone.group)
    if zone.group.rank == 0:
        # The work is -push widens: on the zone, over the heat capacity.
        work = -push / capacity
        border[count + BY_AMOUNT] = work * widens * GAS_CONSTANT * temperature / (x * push)
        if MOVING == MOBILE:
            border[count + BY_AMOUNT] += work * by_amount
            border[count + BY_AMOUNT + 1] = by_amount
            column[species] += work * by_heat
            column[species + 1] = by_heat
            border[species] = work * (by_volume - widens / x)
            border[species + 1] = by_volume
        if MOVING == INERT:
            border[count + BY_AMOUNT + 1] = 0.0
            border[count + BY_AMOUNT + 2] = by_amount
            column[species + 1], column[species + 2] = 0.0, by_heat
            border[species] = work * (power - 1.0) * widens / x
            border[species + 1], border[species + 2] = power * widens / x, by_volume
            border[count + BY_SPEED], border[count + BY_SPEED + 1] = work * pace, pace
    barrier(zone.group)


def put_border(chemistry, vectors):
    """Put rows and columns of volume and speed into the matrix, for I / gamma - J."""
    heat, matrix, border = chemistry.slopes.heat, vectors.matrix, vectors.border
    size, species = vectors.y.size, chemistry.invariants.shape[1]
    lines = heat.shape[0] // 2
    for i in no_unroll(share(vectors.group, 0, size)):
        matrix[heat[lines + 1, i]] = -border[i]
        if i < species:
            matrix[heat[0, i]] -= border[size + BY_AMOUNT]
            matrix[heat[1, i]] = -border[size + BY_AMOUNT + 1]
        if MOVING == INERT:
            by_speed = 0.0
            if i == species:
                by_speed = border[size + BY_SPEED]
            if i == species + 1:
                by_speed = border[size + BY_SPEED + 1]
            matrix[heat[lines + 2, i]] = -by_speed
            if i < species:
                matrix[heat[2, i]] = -border[size + BY_AMOUNT + 2]
