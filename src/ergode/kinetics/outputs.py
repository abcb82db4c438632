"""The results of zones: amounts, and what follows from them, with labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import devices, results
from ergode.core.calls import resident
from ergode.core.devices.foreign import on_host
from ergode.core.devices.slices import in_slices
from ergode.core.results import SWEPT, Variable
from ergode.core.status import Status
from ergode.kinetics import validity
from ergode.kinetics.compositions import molar_masses, on_surface
from ergode.kinetics.conditions import Zones
from ergode.kinetics.launch import Options
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.over_time import linear_at
from ergode.kinetics.physics.energy import molecular_energy_error, nuclear_energy_error
from ergode.kinetics.physics.equation_of_state import (
    densities_at_pressure,
    matter_at,
    warn_of_pairs,
)
from ergode.kinetics.physics.equilibrium import near_equilibrium
from ergode.kinetics.physics.neutrinos import losses_at
from ergode.kinetics.pistons import motion_of
from ergode.kinetics.tables import CLOSED, FIXED, PLUG, PRESSURE, STIRRED, Outcome
from ergode.models.constants import GAS_CONSTANT
from ergode.models.expressions import TIME
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import Layout

if TYPE_CHECKING:
    import xarray

_BLOCK = 4096
_ZONE, _TIMES = (SWEPT, "zone"), (SWEPT, "zone", "time")
_COMMON = [
    Variable("temperature", _TIMES, "float64", "K", "temperature; NaN if not given"),
    Variable(
        "density", _TIMES, "float64", "g/cm3", "density of nuclei or molecules", True
    ),
    Variable(
        "pressure", _TIMES, "float64", "dyn/cm2",
        "pressure; of nuclei by the equation of state", True,
    ),
    Variable("step_count", _ZONE, "int64", "1", "steps that were accepted"),
    Variable("repeated_count", _ZONE, "int64", "1", "steps that were repeated, smaller"),
    Variable(
        "conservation_error", _ZONE, "float64", "1",
        "largest relative error of conserved sums: before correction (implicit), or at the end "
        "(explicit)",
    ),
    Variable(
        "error_estimate", _ZONE, "float64", "1",
        "largest difference between amounts by an explicit method and by rodas4, over the largest "
        "amount; infinite where rodas4 failed; NaN for implicit methods",
    ),
    Variable(
        "energy_error", _ZONE, "float64", "1",
        "largest difference between energy released and internal energy (enthalpy) gained at the "
        "times of the result, over the most that was released or a thousandth of the thermal "
        "energy; only where the zone heats itself, without neutrino_losses, a reactor, a wall, or "
        "a volume or pressure that is given over time", True,
    ),
    Variable(
        "steepest_time", _ZONE, "float64", "time",
        "when the temperature rose fastest; by reactions alone where volume or pressure are given "
        "over time; NaN where the temperature is given",
    ),
    Variable("status", _ZONE, "uint8", "1", "how the zone ended (see Status)"),
    Variable("rtol", _ZONE, "float64", "1", "relative tolerance; only by zone", True),
    Variable(
        "atol", (SWEPT, "zone", "species"), "float64", "1",
        "absolute tolerance of the mass fraction or concentration; only by zone", True,
    ),
]  # fmt: skip
_MOVED = [
    Variable(
        "volume_ratio", _TIMES, "float64", "1",
        "volume over that at the first time; only with a Piston", True,
    ),
    Variable(
        "piston_velocity", _TIMES, "float64", "cm/s",
        "speed of the piston, outward; only with a Piston", True,
    ),
]  # fmt: skip
_SPECIES = (SWEPT, "zone", "time", "species")
results.register(
    "kinetics",
    "nuclei",
    [
        Variable("mass_fraction", _SPECIES, "float64", "1", "mass fraction of a nucleus"),
        Variable(
            "energy_released", _TIMES, "float64", "erg/g",
            "energy set free since the first time, neutrinos included",
        ),
        Variable(
            "neutrino_loss", _TIMES, "float64", "erg/(g s)",
            "thermal neutrino losses; only with neutrino_losses", True,
        ),
        Variable(
            "neutrino_energy", _TIMES, "float64", "erg/g",
            "energy that thermal neutrinos carried off since the first time: energy released less "
            "internal energy (enthalpy) gained; only with neutrino_losses", True,
        ),
        Variable(
            "near_equilibrium", _ZONE, "bool_", "1",
            "whether the last composition is that of nuclear statistical equilibrium, within 0.01 "
            "of mass, at 3e9 K or more: a table may take over",
        ),
        *_MOVED,
        *_COMMON,
    ],
    coords=("mass_number", "charge_number"),
)  # fmt: skip
results.register(
    "kinetics",
    "concentrations",
    [
        Variable("concentration", _SPECIES, "float64", "amount/volume", "concentration"),
        Variable(
            "coverage",
            _SPECIES,
            "float64",
            "1",
            "part of the surface that a species covers; NaN of the gas; only with a surface",
            True,
        ),
        Variable(
            "quantity",
            (SWEPT, "zone", "time", "rule"),
            "float64",
            "1",
            "quantities defined by the rules of the network",
            True,
        ),
        Variable(
            "residence_time",
            _ZONE,
            "float64",
            "time",
            "mass in a stirred tank at first over mass flow in; only with a StirredTank",
            True,
        ),
        Variable(
            "mass_ratio",
            _TIMES,
            "float64",
            "1",
            "mass in a stirred tank over that at the first time; only with unequal flows",
            True,
        ),
        *_MOVED,
        Variable("age", _TIMES, "float64", "s", "time since the inlet; only with PlugFlow", True),
        *_COMMON,
    ],
)


def dataset_of(
    network: ReactionNetwork,
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    options: Options,
    outcome: Outcome,
    errors: np.ndarray,
    attrs: Mapping[str, Any],
    layout: Layout | None,
    parameters: Mapping[str, np.ndarray],
) -> xarray.Dataset:
    """The result: amounts and what follows from them, with labels."""
    swept = () if layout is None else layout.dims
    shape = (zones.count,) if layout is None else (*layout.shape, zones.count // layout.count)
    count = len(network.species)
    rows = np.full(zones.count, grid.size)
    if not (outcome.status == Status.DONE).all():
        # Values that a zone did not reach keep their initial NaN.
        finite = np.isfinite(outcome.amounts[:, :, :count]).all(axis=2)
        rows = on_host(finite).cumprod(axis=1).sum(axis=1)
        rows[outcome.status == Status.NOT_RUN] = 0
    temperature = _temperatures(zones, grid, outcome, count)
    values: dict[str, Any] = {
        "temperature": temperature,
        "step_count": outcome.taken,
        "repeated_count": outcome.repeated,
        "conservation_error": outcome.defect,
        "error_estimate": errors,
        "steepest_time": outcome.fastest_heating,
        "status": outcome.status,
    }
    coords: dict[str, Any] = {
        **({} if layout is None else layout.coords),
        "zone": np.arange(zones.count if layout is None else shape[-1]),
        "time": grid,
        "species": list(mechanism.names),
    }
    amounts = outcome.amounts[:, :, :count]
    if isinstance(amounts, np.ndarray):
        validity.warn_of_traces(mechanism, amounts, _absolute(mechanism, zones, options))
        validity.warn_of_temperatures(network, temperature)

    def derive() -> dict[str, np.ndarray]:
        there = outcome.on_host().amounts
        here = there[:, :, :count], on_host(temperature), _volumes(zones, there)
        if mechanism.nuclear:
            if np.fmax.reduce(here[1], None) > max(
                validity.HOTTEST, zones.history.temperature.max()
            ):
                validity.warn_of_fits(network, here[1], "")  # of zones that heated themselves
            found = _of_nuclei(mechanism, zones, grid, options, *here)
        else:
            found = _of_others(network, mechanism, zones, grid, parameters, *here)
        if zones.piston is not None:
            moved = there[:, :, count + 1 :]
            found |= motion_of(zones.history.motion, moved, found["pressure"])
        return _shaped(found, shape)

    derived = resident.Deferred(derive)
    if mechanism.nuclear:
        output = "nuclei"
        coords["mass_number"] = ("species", mechanism.mass.astype(np.int64))
        coords["charge_number"] = ("species", mechanism.thermo.charge.astype(np.int64))
        values["mass_fraction"] = amounts * resident.beside(amounts, mechanism.mass)
        names = ["density", "pressure", "energy_released", "near_equilibrium"]
        if options.neutrinos:
            names += ["neutrino_loss", *([] if zones.is_compressed else ["neutrino_energy"])]
    else:
        output = "concentrations"
        names = ["density", "pressure"] if mechanism.molecular else []
        if network.rules:
            coords["rule"] = list(network.rules)
            names.append("quantity")
        if zones.heating == PRESSURE or zones.is_diluted:
            names.append("concentration")
        else:
            contiguous = amounts.flags.c_contiguous
            values["concentration"] = amounts if contiguous else amounts.copy()
    if zones.heating != FIXED and not options.neutrinos and _keeps_energy(zones):
        names.append("energy_error")
    if not isinstance(zones.history.tolerances, tuple):
        values["rtol"] = zones.history.tolerances[:, -1].copy()
        values["atol"] = zones.history.tolerances[:, :count] * mechanism.mass
    if zones.flow == STIRRED:
        values["residence_time"] = 1.0 / zones.history.inflow[:, count + 1]
        growth = zones.history.inflow[:, count + 2 + len(mechanism.invariants)]
        if growth.any():
            values["mass_ratio"] = _masses(zones, grid, growth, count)
    elif zones.flow == PLUG:
        values["age"] = outcome.amounts[:, :, count + 1].copy()
    if zones.piston is not None:
        names += ["volume_ratio", "piston_velocity"]
    if on_surface(network).any():
        names.append("coverage")
    if options.state != "ideal":
        derived.now()
    values = _shaped(values, shape) | {name: derived[name] for name in names}
    return results.dataset(
        "kinetics", output, values, coords=coords, attrs=attrs, swept=swept,
        computed_rows=rows.reshape(shape),
    )  # fmt: skip


def _absolute(mechanism: Mechanism, zones: Zones, options: Options) -> np.ndarray:
    """Absolute tolerances of specific amounts, shape [zone_count or 1, species_count]."""
    count = mechanism.structure.species_count
    if not isinstance(zones.history.tolerances, tuple):
        return np.asarray(zones.history.tolerances[:, :count])
    return np.reshape(np.asarray(options.atol) / mechanism.mass, (1, count))


def _keeps_energy(zones: Zones) -> bool:
    """Whether a zone that heats itself exchanges no heat."""
    return zones.flow == CLOSED and not (zones.isothermal or zones.is_compressed or zones.is_walled)


def _of_nuclei(
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    options: Options,
    amounts: np.ndarray,
    temperature: np.ndarray,
    volume: np.ndarray | float,
) -> dict[str, np.ndarray]:
    """Variables of nuclei that follow from the amounts [zone, time, species]."""
    density = linear_at(grid, zones.history.times, zones.history.density) / volume
    charge, state = mechanism.thermo.charge, options.state
    nuclei, electrons, released = (np.empty(temperature.shape) for _ in range(3))

    def add_up(part: slice) -> None:
        some = amounts[part]
        nuclei[part], electrons[part] = some.sum(axis=2), some @ charge
        released[part] = (some[:, :1] - some) @ mechanism.thermo.mass_excess

    threads = devices.resolve("cpu").core_count
    in_slices(add_up, zones.count, _BLOCK, threads)
    if zones.heating == PRESSURE:
        # Where the pressure is given over time, the history is proportional to it.
        density = densities_at_pressure(
            state, temperature, density[:, 0], nuclei, electrons, density / density[:, :1]
        )
    warn_of_pairs(state, temperature, density, electrons)
    validity.warn_of_coupling(mechanism, temperature, density, amounts)
    pressure, thermal = matter_at(state, temperature, density, nuclei, electrons)
    if zones.heating == PRESSURE:
        thermal += pressure / density  # the enthalpy
    values = {"density": density, "pressure": pressure, "energy_released": released}
    if options.neutrinos:
        values["neutrino_loss"] = losses_at(temperature, density, nuclei, electrons)
        values["neutrino_energy"] = released - (thermal - thermal[:, :1])
    elif zones.heating != FIXED:
        values["energy_error"] = nuclear_energy_error(thermal, released)
    near = values["near_equilibrium"] = np.empty(zones.count, bool)

    def look(part: slice) -> None:
        near[part] = near_equilibrium(
            mechanism, temperature[part, -1], density[part, -1], amounts[part, -1] * mechanism.mass
        )

    in_slices(look, zones.count, _BLOCK, threads)
    return values


def _of_others(
    network: ReactionNetwork,
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    parameters: Mapping[str, np.ndarray],
    amounts: np.ndarray,
    temperature: np.ndarray,
    volume: np.ndarray | float,
) -> dict[str, np.ndarray]:
    """Variables of molecules and others that follow from the amounts [zone, time, species]."""
    values = {}
    if mechanism.molecular:
        validity.warn_of_polynomials(network, temperature, amounts)
    if zones.heating != FIXED and _keeps_energy(zones):
        values["energy_error"] = molecular_energy_error(
            mechanism.thermo.polynomials, amounts, temperature, zones.heating == PRESSURE
        )
    if zones.heating == PRESSURE or zones.is_diluted:
        factor = linear_at(grid, zones.history.times, zones.history.density) / volume
        if zones.heating == PRESSURE:
            factor = factor / (GAS_CONSTANT * temperature * amounts.sum(axis=2))
        amounts = amounts * factor[:, :, None]
        values["concentration"] = np.ascontiguousarray(amounts)
    if mechanism.molecular:
        values["density"] = amounts @ molar_masses(network)
        there = on_surface(network)
        gas = amounts[:, :, ~there] if there.any() else amounts
        values["pressure"] = GAS_CONSTANT * temperature * gas.sum(axis=2)
        if there.any():
            known: list[Any] = [one.thermochemistry for one in network.species]
            full = [
                one.full_coverage if on else np.nan for one, on in zip(known, there, strict=True)
            ]
            values["coverage"] = amounts / np.array(full)
    if network.rules:
        rows = {name: row[:, None] for name, row in parameters.items()}
        driven = _driven(mechanism, zones, grid)
        values["quantity"] = _quantities(network, grid, amounts, rows | driven)
    return values


def _masses(zones: Zones, grid: np.ndarray, growth: np.ndarray, count: int) -> np.ndarray:
    """The mass in tanks over that at first, shape [zone, time]."""
    if not zones.is_fed:
        return np.asarray(1.0 + growth[:, None] * (grid - grid[0]))
    times = zones.history.times
    first = (count + 2) * (times.size + 1)
    return 1.0 / linear_at(grid, times, zones.history.feed[:, first : first + times.size])


def _volumes(zones: Zones, amounts: np.ndarray) -> np.ndarray | float:
    """The volume over that at first [zone, time], where a piston moves; otherwise one."""
    if zones.piston is None:
        return 1.0
    return amounts[:, :, amounts.shape[2] - zones.moving]


def _temperatures(zones: Zones, grid: np.ndarray, outcome: Outcome, count: int) -> Any:
    """Temperatures of all zones at all times; NaN where none was given."""
    if zones.heating != FIXED:
        return outcome.amounts[:, :, count].copy()
    if not zones.has_temperature:
        return np.full((zones.count, grid.size), np.nan)
    return linear_at(grid, zones.history.times, zones.history.temperature)


def _shaped(values: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Values with the dimensions of a sweep in front of the zones."""
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in values.items()}


def _driven(mechanism: Mechanism, zones: Zones, grid: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters that change in time, shape [zone, time]."""
    times, width = zones.history.times, zones.history.times.size + 1
    return {
        name: linear_at(grid, times, zones.history.drives[:, j * width : (j + 1) * width - 1])
        for j, name in enumerate(mechanism.rates.formulas.driven)
    }


def _quantities(
    network: ReactionNetwork,
    grid: np.ndarray,
    amounts: np.ndarray,
    parameters: Mapping[str, np.ndarray],  # [zone, 1] or [zone, time]
) -> np.ndarray:
    """Quantities of the rules, shape [zone, time, rule]."""
    known: dict[str, Any] = network.evaluate_parameters(parameters)
    known[TIME] = grid
    for i, one in enumerate(network.species):
        size = known[one.compartment] if one.compartment and one.quantity == "amount" else 1.0
        known[one.name] = amounts[:, :, i] * size
    for name in network.rule_order:
        known[name] = network.rules[name].evaluate(known)
    return np.stack([np.broadcast_to(known[name], amounts.shape[:2]) for name in network.rules], 2)
