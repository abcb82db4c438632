"""Rate coefficients and rates of all reactions at given conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ergode.core import devices, kernels, results
from ergode.core.errors import ModelError
from ergode.core.group import ONE, Group
from ergode.core.inputs import recorded
from ergode.core.results import Variable
from ergode.core.stopwatch import Stopwatch
from ergode.kinetics import validity
from ergode.kinetics.conditions import Zones, zones_of
from ergode.kinetics.implicit.system import coefficients
from ergode.kinetics.kernel_options import MOLECULES, SWEPT
from ergode.kinetics.launch import rate_bindings
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.sweep import factors_of, parted
from ergode.kinetics.tables import FIRST_OF_PARAMETERS, SUNLIGHT, TIME
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import xarray

results.register(
    "kinetics",
    "rates",
    [
        Variable(
            "coefficient", ("zone", "reaction"), "float64", "1",
            "rate over the product of the concentrations of reactants [mol/cm3], with collision "
            "partners and screening",
        ),
        Variable(
            "rate", ("zone", "reaction"), "float64", "1",
            "rate of the reaction: nuclei [mol/(g s)], others [mol/(cm3 s)]",
        ),
    ],
)  # fmt: skip


@recorded(
    dict.fromkeys(
        ("initial", "temperature", "density", "pressure", "sunlight", "parameters"), "zone"
    )
)
def reaction_rates(
    network: ReactionNetwork,
    *,
    initial: Mapping[str, Any] | None = None,
    temperature: Any = None,
    density: Any = None,
    pressure: Any = None,
    sunlight: Any = None,
    screening: Literal["weak", "chugunov"] | None = None,
    parameters: Mapping[str, Any] | None = None,
    time: float | None = None,
) -> xarray.Dataset:
    """Coefficients and rates of all reactions, as `integrate` uses them.

    Parameters
    ----------
    network, initial, temperature, density, pressure, sunlight, screening
        See `integrate`.
    parameters : mapping of str to float, Trajectory, or function, optional
        Values that replace parameters of the network.
    time : float, optional
        Of coefficients and conditions that change in time. The default is the first time of a
        `Trajectory`, and 0 in a `RateExpression`.

    Returns
    -------
    xarray.Dataset
        coefficient(zone, reaction) and rate(zone, reaction).

    Raises
    ------
    ModelError
        See `integrate`.

    Warns
    -----
    AccuracyWarning
        Fits, polynomials or ``"weak"`` screening do not hold there (see `integrate`).

    Examples
    --------
    >>> import ergode
    >>> decay = ergode.ReactionNetwork({"A": 2}, [ergode.Reaction("2 A -> 0", rate_constant=3.0)])
    >>> found = ergode.kinetics.reaction_rates(decay)
    >>> found["coefficient"].item(), found["rate"].item()
    (3.0, 12.0)
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    stopwatch = Stopwatch()
    constant, drives = parted(network, parameters)
    rows = {name: np.array([float(value)]) for name, value in (constant or {}).items()}
    grid = None if time is None else np.array([float(time)] * 2)
    mechanism = to_tables(network, screening, tuple(drives))
    zones = zones_of(
        network, mechanism, temperature=temperature, density=density, pressure=pressure,
        initial=initial, heating=None, sunlight=sunlight, parameters=rows, drives=drives, grid=grid,
    )  # fmt: skip
    rates, thermo, count = mechanism.rates, mechanism.thermo, zones.count
    bindings = rate_bindings(mechanism, zones.heating)
    bindings |= {MOLECULES: mechanism.molecular, SWEPT: bool(rows)}
    slots = np.zeros((count, rates.slot_count))
    factors = factors_of(network, mechanism, rows, 1)[0]
    hot, dense = (
        column[:, 0].copy() for column in (zones.history.temperature, zones.history.density)
    )
    if temperature is not None:
        validity.warn_of_temperatures(network, hot)
    if mechanism.nuclear:
        validity.warn_of_fits(network, hot, "colder nuclei hardly react")
        validity.warn_of_coupling(mechanism, hot, dense, zones.amounts)
    elif mechanism.molecular:
        validity.warn_of_polynomials(network, hot, zones.amounts)
    devices.resolve("cpu").run(
        kernels.for_each(_coefficients, bindings=bindings), count,
        rates._replace(formulas=rates.formulas.for_kernels if mechanism.has_formulas else ()),
        thermo, factors, hot, dense,
        zones.amounts, slots, np.zeros((count, rates.slope_count)),
        np.zeros((count, len(rates.efficiency))), np.zeros((count, thermo.charge.size)),
        zones.history.sunlight[:, 0].copy() if mechanism.has_sunlight else np.ones(count),
        _memory(mechanism, zones, 0.0 if time is None else float(time)),
    )  # fmt: skip
    found = slots[:, : rates.order.size]
    products = np.array(
        [_product(zones.amounts, one) for one in mechanism.structure.orders], np.float64
    ).T.reshape(count, -1)
    power = dense[:, None] ** np.maximum(rates.order.astype(float) - 1.0, 0.0)
    names = [network.reactions.name_of(k) for k in range(len(network.reactions))]
    return results.dataset(
        "kinetics",
        "rates",
        {"coefficient": found / power, "rate": found * products},
        coords={"zone": np.arange(count), "reaction": names},
        attrs=results.provenance(
            stopwatch,
            engine="kinetics",
            screening=screening or "none",
            model_digest=mechanism.digest,
        ),
    )


def _memory(mechanism: Mechanism, zones: Zones, time: float) -> np.ndarray:
    """Inputs of formulas, at the first knot, and their stacks."""
    found = np.zeros((zones.count, mechanism.rates.memory_count))
    if mechanism.has_formulas:
        history, formulas = zones.history, mechanism.rates.formulas
        found[:, TIME] = time
        if mechanism.has_sunlight:
            found[:, SUNLIGHT] = history.sunlight[:, 0]
        width = history.times.size + 1
        first = history.drives[:, ::width] if formulas.driven_count else history.drives
        values = np.hstack([first, history.parameters])
        found[:, FIRST_OF_PARAMETERS : formulas.input_count] = values
    return found


def _product(amounts: np.ndarray, orders: Mapping[int, float]) -> np.ndarray:
    """Product of powers of amounts, shape [zone]; 0 where a species with an order is missing."""
    found = np.ones(len(amounts))
    for i, order in orders.items():
        if order:
            there = amounts[:, i] > 0.0
            found *= np.where(there, np.where(there, amounts[:, i], 1.0) ** order, 0.0)
    return found


class _Workspace(NamedTuple):
    slots: np.ndarray
    slopes: np.ndarray
    partners: np.ndarray
    volumes: np.ndarray
    group: Group
    memory: np.ndarray


def _coefficients(  # type: ignore[no-untyped-def]
    zone, rates, thermo, factors, temperature, density, amounts, slots, slopes, partners, volumes,
    sunlight, memory,
):  # fmt: skip
    workspace = _Workspace(
        slots[zone], slopes[zone], partners[zone], volumes[zone], ONE, memory[zone]
    )
    coefficients(  # type: ignore[no-untyped-call]
        rates,
        thermo,
        workspace,
        factors,
        temperature[zone],
        density[zone],
        amounts[zone],
        1.0,
        1.0,
        sunlight[zone],
    )
