"""Burning of cells in arrays of a CUDA device, which are read in place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import devices, kernels
from ergode.core.devices import foreign
from ergode.core.errors import PlanError
from ergode.core.status import Status
from ergode.kinetics.block.launch import zones_at_once
from ergode.kinetics.cells import Burned, check_shapes, scales_of, tolerance_rows, zones_of_cells
from ergode.kinetics.kernel_options import HEATING as HEATING_OPTION
from ergode.kinetics.kernel_options import NEUTRINOS
from ergode.kinetics.launch import Options, problem_of
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    bindings_of_state,
    density_at,
    pressure_of,
    table_of,
)
from ergode.kinetics.physics.neutrinos import neutrino_losses_of
from ergode.kinetics.tables import FIXED, PRESSURE, UNSWEPT, ConditionHistory
from ergode.kinetics.tolerances import (
    BY_ZONE,
    SMALLEST,
    TEMPERATURE,
    USUAL_RTOL,
    Tolerances,
    scale_of,
    usual_of,
    with_tolerances,
)
from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork


def burn_on_device(
    network: ReactionNetwork,
    mechanism: Mechanism,
    # Arrays of the device: temperature, density, mass_fraction, and perhaps rtol and atol.
    given: dict[str, Any],
    grid: np.ndarray,
    heating: int,
    options: Options,
    least: tuple[float, float],
    asked: Tolerances,  # those that are not `given`
) -> Burned:
    """Burn cells on a CUDA device; the result stays there."""
    cells = check_shapes(network, given)
    device = foreign.holding(given["temperature"])
    arrays = {}
    for name, value in given.items():
        arrays[name] = device.view(value)
        if arrays[name].dtype != np.float64 or not arrays[name].is_c_contiguous():
            raise PlanError(
                f"{name} is an array of {arrays[name].dtype} on the device; expected float64, "
                "contiguous with the species last"
            )
    weight, energy = scales_of(network, mechanism)
    total, count = int(np.prod(cells)), weight.size
    hot, dense = (arrays[name].reshape(total) for name in ("temperature", "density"))
    fractions = arrays["mass_fraction"].reshape(total, count)
    # One cell on the host determines the kernel and the tolerance of traces.
    here, there, first = (device.get(array[:1]) for array in (hot, dense, fractions))
    cell = zones_of_cells(mechanism, here, there, first / weight, heating)
    by_zone = options.rtol == BY_ZONE
    if by_zone:
        scale = 1.0
        if "atol" not in given and np.isnan(asked.absolute).all():
            scale = scale_of(mechanism, cell)
        mass, usual = device.put(mechanism.mass), float(usual_of(mechanism, USUAL_RTOL, scale))
        relative, absolute = device.put(asked.relative), device.put(asked.absolute)
        if "rtol" in given:
            relative = arrays["rtol"].reshape(total)
        if "atol" in given:
            absolute = arrays["atol"].reshape(total, given["atol"].shape[-1])
        own_tolerances = kernels.for_each(_own_tolerances)
        cell = with_tolerances(cell, tolerance_rows(mechanism, cell, asked.part(slice(1))))
    launch = options.runner.launch(problem_of(mechanism, cell, options), device, total)
    load = kernels.for_each(_load)
    store = _store_kernel(options.state, heating, options.neutrinos)
    matter = (
        _table_on(device, options.state if options.neutrinos else "ideal"),
        device.put(mechanism.thermo.charge),
    )
    tables = device.put(weight), device.put(energy)
    times, grid_there = device.put(np.zeros(1)), device.put(grid)
    unswept = device.put(UNSWEPT)
    burned = Burned(
        device.empty((total, count), np.float64), device.empty(total, np.float64),
        device.empty(total, np.uint8), device.empty(total, np.float64),
    )  # fmt: skip
    checked = device.empty(total, np.uint8)
    width = count + (heating != FIXED)
    chunk = zones_at_once(device, 2 * width + 5 + by_zone * (width + 1))
    for start, stop in devices.spans(total, chunk):
        part = slice(start, stop)
        out = device.empty((stop - start, 2, width), np.float64)
        inside = device.empty((stop - start, 1), np.float64)
        device.run(
            load, stop - start, fractions[part], hot[part], dense[part], tables[0],
            int(mechanism.molecular), int(heating == PRESSURE), *least, inside, out,
            checked[part],
        )  # fmt: skip
        own: Any = ()
        if by_zone:
            own = device.empty((stop - start, width + 1), np.float64)
            device.run(
                own_tolerances, stop - start, relative[part] if relative.size > 1 else relative,
                absolute[part] if absolute.shape[0] > 1 else absolute, mass, usual,
                int(mechanism.molecular), int("atol" in given), own, out, checked[part],
            )  # fmt: skip
        history = ConditionHistory(times, hot[part].reshape(-1, 1), inside, unswept, tolerances=own)
        status = launch.start(history, grid_there, out).status
        device.run(
            store, stop - start, out, dense[part], fractions[part], *tables,
            int(mechanism.molecular), checked[part], status, float(grid[1]), hot[part], *matter,
            Burned(*(array[part] for array in burned)),
        )  # fmt: skip
    shapes = (*cells, count), cells, cells, cells
    shaped = (array.reshape(shape) for array, shape in zip(burned, shapes, strict=True))
    return Burned(*(device.like(given["temperature"], array) for array in shaped))


@lru_cache(maxsize=16)
def _store_kernel(state: str | EquationOfState, heating: int, neutrinos: bool) -> kernels.Kernel:
    bound = {HEATING_OPTION: heating, NEUTRINOS: neutrinos}
    return kernels.for_each(_store, bindings=bound | bindings_of_state(state))


@lru_cache(maxsize=4)
def _table_on(device: devices.Device, state: str | EquationOfState) -> Any:
    return device.put(table_of(state))


# --- device functions -----------------------------------------------------------------------------


NEGATIVE, SUM = 1e-6, 0.01
"""Largest accepted magnitude of a negative mass fraction, and error of the sum of fractions."""
INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
DONE, INVALID_INPUT, SKIPPED = int(Status.DONE), int(Status.INVALID_INPUT), int(Status.SKIPPED)


def _load(  # type: ignore[no-untyped-def]
    zone,
    fractions,
    temperature,
    density,
    weight,
    molecular,
    at_pressure,
    coldest,
    thinnest,
    inside,
    out,
    checked,
):
    scale = density[zone] if molecular else 1.0
    inside[zone, 0] = 1.0 if molecular else density[zone]
    finite = abs(temperature[zone]) < INFINITY and abs(density[zone]) < INFINITY
    sound = temperature[zone] > 0.0 and density[zone] > 0.0
    total, positive = 0.0, 0.0
    for i in range(weight.size):
        x = fractions[zone, i]
        finite = finite and abs(x) < INFINITY
        sound = sound and x >= -NEGATIVE
        total += x
        positive += max(x, 0.0)
    sound = sound and abs(total - 1.0) <= SUM
    code = DONE
    if not (finite and sound):
        code = INVALID_INPUT
    elif temperature[zone] < coldest or density[zone] < thinnest:
        code = SKIPPED
    checked[zone] = code
    clip = total / positive if positive > total else 1.0
    for i in range(weight.size):
        x = max(fractions[zone, i], 0.0) * clip
        # A zone with NaN ends at once.
        out[zone, 0, i] = x / weight[i] * scale if code == DONE else NOT_A_NUMBER
    if out.shape[2] > weight.size:
        out[zone, 0, weight.size] = temperature[zone]
    if molecular and at_pressure:
        amount = 0.0
        for i in range(weight.size):
            amount += out[zone, 0, i]
        inside[zone, 0] = GAS_CONSTANT * temperature[zone] * amount


def _own_tolerances(  # type: ignore[no-untyped-def]
    zone, relative, absolute, mass, usual, molecular, complete, rows, out, checked
):
    """As `Tolerances.rows`, of one cell; not `complete`: NaN stands for the usual tolerance."""
    rtol = relative[zone if relative.size > 1 else 0]
    sound = rtol >= SMALLEST and rtol < 1.0
    shrink = min(1.0, rtol / USUAL_RTOL)
    row = zone if absolute.shape[0] > 1 else 0
    width = rows.shape[1] - 1
    for i in range(width):
        value = TEMPERATURE * shrink
        if i < mass.size:
            value = absolute[row, i if absolute.shape[1] > 1 else 0]
            if complete:
                sound = sound and value > 0.0 and value < INFINITY
            elif value != value:
                value = usual if molecular else usual * shrink
            value /= mass[i]
        rows[zone, i] = value
    rows[zone, width] = rtol
    if not sound and checked[zone] == DONE:
        checked[zone] = INVALID_INPUT
        out[zone, 0, 0] = NOT_A_NUMBER


def _store(  # type: ignore[no-untyped-def]
    zone,
    out,
    density,
    given,
    weight,
    energy,
    molecular,
    checked,
    ended,
    duration,
    temperature,
    table,
    charge,
    burned,
):
    scale = density[zone] if molecular else 1.0
    code = checked[zone]
    burns = duration > 0.0
    if code == DONE and burns:
        code = ended[zone]
    burned.status[zone] = code
    total = 0.0
    for i in range(weight.size):
        if code == DONE and burns:
            total += (out[zone, 0, i] - out[zone, 1, i]) / scale * energy[i]
            burned.mass_fraction[zone, i] = out[zone, 1, i] / scale * weight[i]
        else:
            burned.mass_fraction[zone, i] = given[zone, i]
    burned.energy[zone] = total
    carried = 0.0
    if NEUTRINOS and code == DONE and burns:
        carried = _carried_there(  # type: ignore[no-untyped-call]
            zone, out, density[zone], duration, temperature, table, charge
        )
    burned.neutrino_energy[zone] = carried


def _carried_there(zone, out, density, duration, temperature, table, charge):  # type: ignore[no-untyped-def]
    """As `_carried`, of one cell of nuclei."""
    n, e, last_n, last_e = 0.0, 0.0, 0.0, 0.0
    for i in range(charge.size):
        n += out[zone, 0, i]
        e += charge[i] * out[zone, 0, i]
        last_n += out[zone, 1, i]
        last_e += charge[i] * out[zone, 1, i]
    t, last_t, last_density = temperature[zone], temperature[zone], density
    if HEATING_OPTION != FIXED:
        last_t = out[zone, 1, charge.size]
    if HEATING_OPTION == PRESSURE:
        pressure = pressure_of(table, t, density, n, e)  # type: ignore[no-untyped-call]
        last_density = density_at(table, pressure, last_t, last_n, last_e, density)
    losses = neutrino_losses_of(t, density, n, e)
    return 0.5 * duration * (losses + neutrino_losses_of(last_t, last_density, last_n, last_e))
