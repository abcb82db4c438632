"""Jacobians of mechanisms at a given temperature, from the tables of `bdf`."""

import numpy as np

from ergode.core import kernels
from ergode.core.devices import resolve
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.kernel_options import (
    MIXTURES,
    MOLECULES,
    POWERS,
    REVERSIBLE,
    SUNLIT,
    THIRD_BODIES,
)
from ergode.kinetics.launch import rate_bindings
from ergode.kinetics.multistep import activities, coefficients
from ergode.kinetics.multistep.tables import chemistry_of
from ergode.kinetics.network.to_tables import to_tables

USED = {MIXTURES, MOLECULES, POWERS, REVERSIBLE, SUNLIT, THIRD_BODIES}


def _jacobians(start, stop, chemistry, factors, hot, density, amounts, found):
    zone, nothing = activities.zone_of(chemistry), np.zeros(0)
    change = np.zeros(amounts.shape[1])
    for k in range(start, stop):
        setting = activities.Setting(
            factors, density[k], 1.0, hot[k], 0.0, 0.0, 0.0, 0.0, 0.0, nothing, nothing
        )
        zone.between[0], zone.between[1] = np.inf, -np.inf
        coefficients.put_heat(chemistry, zone, setting, hot[k])
        activities.change_of(chemistry, zone, setting, hot[k], amounts[k], change)
        activities.put_jacobian(chemistry, zone, 1.0, 1.0, found[k])


def jacobians(network, hot, pressure, fractions):
    """d(rate of species i)/d(concentration j) for fixed coefficients, shape [zone, i, j]."""
    mechanism = to_tables(network)
    zones = zones_of(
        network, mechanism, temperature=hot, density=None, pressure=pressure, initial=fractions,
        heating=None,
    )  # fmt: skip
    chemistry, history = chemistry_of(mechanism, heats=False), zones.history
    bound = rate_bindings(mechanism, zones.heating)
    kernel = kernels.cpu_kernel(
        _jacobians, bindings={one: value for one, value in bound.items() if one in USED}
    )
    values = np.zeros((zones.count, chemistry.slopes.entry.shape[1]))
    resolve("cpu:1").run(
        kernel, zones.count, chemistry, history.factors[0], history.temperature[:, 0].copy(),
        history.density[:, 0].copy(), zones.amounts, values,
    )  # fmt: skip
    rows = {place: i for (i, _), place in chemistry.plan.positions().items()}
    whole = np.zeros((zones.count, *[zones.amounts.shape[1]] * 2))
    column, places = chemistry.slopes.entry
    whole[:, [rows[place] for place in places.tolist()], column] = values
    return whole
