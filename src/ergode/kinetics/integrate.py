"""Networks in many zones: from a network and conditions to labelled abundances."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, results
from ergode.core.arguments import integer, time_grid
from ergode.core.errors import (
    Abandoned,
    AccuracyWarning,
    InterruptionWarning,
    ModelError,
    PlanError,
)
from ergode.core.progress import track
from ergode.core.results import Variable
from ergode.core.status import Status
from ergode.kinetics.conditions import Zones, molar_masses, zones_of
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import check_heating, choose
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.physics.energy import molecular_energy_error, nuclear_energy_error
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    bindings_of_state,
    matter_at,
    warn_of_pairs,
)
from ergode.kinetics.physics.equilibrium import near_equilibrium
from ergode.kinetics.tables import FIXED, PRESSURE, Outcome
from ergode.kinetics.tolerances import asked_tolerances, positive, relative_tolerance
from ergode.models.constants import GAS_CONSTANT
from ergode.models.expressions import TIME
from ergode.models.reactions.network import ReactionNetwork

if TYPE_CHECKING:
    import xarray

_COMMON = [
    Variable("temperature", ("zone", "time"), "float64", "K", "temperature; NaN if not given"),
    Variable(
        "density", ("zone", "time"), "float64", "g/cm3", "density of nuclei or molecules", True
    ),
    Variable(
        "pressure", ("zone", "time"), "float64", "dyn/cm2",
        "pressure; of nuclei by the equation of state", True,
    ),
    Variable("step_count", ("zone",), "int64", "1", "steps that were accepted"),
    Variable("repeated_count", ("zone",), "int64", "1", "steps that were repeated, smaller"),
    Variable(
        "conservation_error", ("zone",), "float64", "1",
        "how far conserved sums were off, relative: the largest that was put right (implicit), "
        "or what is left at the end (explicit)",
    ),
    Variable(
        "energy_error", ("zone",), "float64", "1",
        "largest difference between energy released and internal energy (enthalpy) gained at the "
        "times of the result, over the most that was released or a thousandth of the thermal "
        "energy; only where the zone heats itself", True,
    ),
    Variable(
        "steepest_time", ("zone",), "float64", "time",
        "when the temperature rose fastest; NaN where it is given",
    ),
    Variable("status", ("zone",), "uint8", "1", "how the zone ended (see Status)"),
]  # fmt: skip
_SPECIES = ("zone", "time", "species")
results.register(
    "kinetics",
    "nuclei",
    [
        Variable("mass_fraction", _SPECIES, "float64", "1", "mass fraction of a nucleus"),
        Variable(
            "energy_released", ("zone", "time"), "float64", "erg/g",
            "energy set free since the first time, neutrinos included",
        ),
        Variable(
            "near_equilibrium", ("zone",), "bool_", "1",
            "whether the last composition is that of nuclear statistical equilibrium, within 0.01 "
            "of mass, at 3e9 K or more: a table may take over",
        ),
        *_COMMON,
    ],
)  # fmt: skip
results.register(
    "kinetics",
    "concentrations",
    [
        Variable("concentration", _SPECIES, "float64", "amount/volume", "concentration"),
        Variable(
            "quantity",
            ("zone", "time", "rule"),
            "float64",
            "1",
            "what the rules of the network define",
            True,
        ),
        *_COMMON,
    ],
)

_LARGEST_LIMIT = 2**31 - 1


def integrate(
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any] | None = None,
    temperature: Any = None,
    density: Any = None,
    pressure: Any = None,
    heating: Literal["constant-volume", "constant-pressure"] | None = None,
    equation_of_state: Literal["ideal", "degenerate"] | EquationOfState = "ideal",
    screening: Literal["weak", "chugunov"] | None = None,
    method: Literal[
        "auto",
        "rodas4",
        "rosenbrock23",
        "asymptotic",
        "quasi-steady-state",
        "partial-equilibrium",
        "partial-equilibrium-quasi-steady-state",
    ] = "auto",
    rtol: float = 1e-4,
    atol: float | Mapping[str, float] | ArrayLike | None = None,
    reference_control: bool = False,
    conservation_tolerance: float = 1e-2,
    step_limit: int | None = None,
    device: str | devices.Device = "auto",
    progress: bool = False,
) -> xarray.Dataset:
    """Integrate a network of nuclear or chemical reactions in many zones at once.

    Parameters
    ----------
    network : ReactionNetwork
        Mass action: numbers, formulas of parameters, or `RateCoefficient`.
    times : array_like, shape [time_count]
        Ascending grid on which results are reported [s, or the unit of the coefficients]. The
        integration begins at ``times[0]``.
    initial : mapping of str to float or array_like, shape [zone_count], optional
        Amounts at ``times[0]``; those of the network if not given. Nuclei and molecules that are
        not named begin with nothing, other species with the network's amount. Of nuclei mass
        fractions (``"12C"``, ``"c12"`` and the network's own spelling are all known); of molecules
        with NASA polynomials mole fractions if `pressure`, mass fractions if `density` is given;
        otherwise concentrations [mol/cm3, or the unit of the coefficients].
    temperature : float, array_like of shape [zone_count], Trajectory, or function
        [K]; where the zone heats itself, at ``times[0]``. A function of time returns a number, or
        one for each zone; it is tabulated within a hundredth of `rtol`, and must not change and
        change back within 1/4096 of the run unless a time of `times` lies there. Steps are bounded
        by how temperature and density change, so that none passes over a pulse.
    density : float, array_like of shape [zone_count], Trajectory, or function
        [g/cm3].
    pressure : float or array_like of shape [zone_count]
        Of molecules [dyn/cm2] (1 atm is 1.01325e6), at ``times[0]``.
    heating : {None, "constant-volume", "constant-pressure"}
        Whether the energy that reactions release changes the temperature. Nuclei heat themselves
        at constant volume, as `equation_of_state` says; molecules as their NASA polynomials say.
    equation_of_state : {"ideal", "degenerate"} or EquationOfState
        Of nuclei: an ideal gas of nuclei and electrons with radiation; electrons that may be
        degenerate; or functions of one's own.
    screening : {None, "weak", "chugunov"}
        How electrons and other nuclei shield the charges of those that react: not at all, after
        Salpeter, or after Chugunov and DeWitt, which holds from weak to strong coupling.
    method : {"auto", "rodas4", "rosenbrock23", "asymptotic", "quasi-steady-state", \
            "partial-equilibrium", "partial-equilibrium-quasi-steady-state"}
        ``"rodas4"`` and ``"rosenbrock23"`` are implicit, of order 4 and 2, and follow `rtol`. The
        others are explicit and algebraically stabilised: far slower and far less accurate, and here
        because codes and papers use them. ``"quasi-steady-state"`` follows `rtol`;
        ``"partial-equilibrium"`` is ``"asymptotic"``, or in its longer name
        ``"quasi-steady-state"``, with reactions that are balanced by their reverse taken out.
        ``"auto"`` is ``"rodas4"``.
    rtol : float
        Allowed error of a step is ``atol + rtol * amount`` for every species. rtol is between 1e-13
        and 1; ``"asymptotic"`` steps do not use it.
    atol : float, mapping of str to float, or array_like of shape [species_count], optional
        For all species, for some by name (the others have the usual one), or for each. Of mass
        fractions 1e-8 if not given, of concentrations 1e-12 of the largest at first (1e-18 with
        NASA polynomials); where rtol is below 1e-4, less in proportion. The result's attribute
        ``atol`` has it.
    reference_control : bool
        Of ``"asymptotic"`` steps: when one is tried again, choose between the two formulas as the
        reference code does, rather than as the method is published.
    conservation_tolerance : float
        Zones whose conserved sums (total mass) are off by more, relative, at the end get the
        status ``INACCURATE``.
    step_limit : int, optional
        Steps after which a zone is given up: 100,000 for implicit methods if not given.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    progress : bool
        Show progress on standard error.

    Returns
    -------
    xarray.Dataset
        mass_fraction(zone, time, species) of nuclei or concentration(zone, time, species); with
        temperature, density and pressure(zone, time), step_count(zone), status(zone) and more;
        quantity(zone, time, rule) of a network with rules.
        Values that a zone did not reach are NaN.

    Raises
    ------
    ModelError
        A species is unknown, a value is missing, negative or not finite, or the network is not
        one of mass action.
    PlanError
        Method, tolerance or device is unknown, or memory is short.

    Warns
    -----
    AccuracyWarning
        Conserved sums, or the energy of zones that heat themselves, are off by more than
        `conservation_tolerance` somewhere; ``"asymptotic"`` steps have no conserved sum to be
        controlled by; ``"degenerate"`` matter would have pairs of electrons and positrons.
    FailureWarning
        Zones failed; `status` tells which, and how.
    InterruptionWarning
        The run was interrupted (Ctrl-C), and zones that were not reached have the status
        ``NOT_RUN``.

    References
    ----------
    E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7;
    M. Guidry et al., Comput. Sci. Disc. 6, 015001, 015002, 015003 (2013).

    Examples
    --------
    >>> import ergode
    >>> robertson = ergode.ReactionNetwork(
    ...     {"A": 1, "B": 0, "C": 0},
    ...     [
    ...         ergode.Reaction("A -> B", rate_constant=0.04),
    ...         ergode.Reaction("2 B -> B + C", rate_constant=3e7),
    ...         ergode.Reaction("B + C -> A + C", rate_constant=1e4),
    ...     ],
    ... )
    >>> result = ergode.kinetics.integrate(
    ...     robertson, times=[0, 40], initial={"A": 1.0}, rtol=1e-6, device="cpu"
    ... )
    >>> float(result["concentration"].sel(species="A")[0, -1].round(5))
    0.71583
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    grid = time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected the first and at least one more")
    chosen, reason = choose(method)
    rtol = relative_tolerance(rtol)
    conservation_tolerance = positive("conservation_tolerance", conservation_tolerance)
    mechanism = to_tables(network, screening)
    bindings_of_state(equation_of_state)
    zones = zones_of(
        network, mechanism, temperature=temperature, density=density, pressure=pressure,
        initial=initial, heating=heating, grid=grid, rtol=rtol,
    )  # fmt: skip
    tolerances = asked_tolerances(network, mechanism, zones, atol, rtol).tolist()
    check_heating(chosen, zones.heating)
    limit = chosen.step_limit
    if step_limit is not None:
        limit = integer("step_limit", step_limit, 1, _LARGEST_LIMIT)
    device = devices.resolve(device)
    _check_memory(8 * zones.count * grid.size * zones.amounts.shape[1])
    options = Options(
        chosen.runner, rtol, tuple(tolerances), reference_control, limit, equation_of_state
    )
    uncontrolled = chosen.why_uncontrolled(mechanism)
    if uncontrolled:
        warnings.warn(f"{chosen.name}: {uncontrolled}", AccuracyWarning, stacklevel=2)
    started = perf_counter()
    outcome = _run(mechanism, zones, grid, options, device, progress)
    bad = (outcome.status == Status.DONE) & ~(outcome.defect <= conservation_tolerance)
    outcome.status[bad] = Status.INACCURATE
    if bad.any():
        warnings.warn(
            f"{chosen.name}: in {bad.sum()} of {zones.count} zones conserved sums are off by up to "
            f"{np.nanmax(outcome.defect):.1e}, more than {conservation_tolerance:g}",
            AccuracyWarning,
            stacklevel=2,
        )
    attrs = results.provenance(
        engine="kinetics",
        method=chosen.name,
        method_reason=reason,
        rtol=rtol,
        atol=tolerances[0] if len(set(tolerances)) == 1 else tolerances,
        heating=heating or "none",
        equation_of_state=(
            equation_of_state if isinstance(equation_of_state, str) else "functions"
        ),
        screening=screening or "none",
        reference_control=int(reference_control),
        conservation_tolerance=conservation_tolerance,
        step_limit=limit,
        device=device.name,
        device_model=device.model,
        device_reason=device.reason,
        precision="float64",
        zones=zones.count,
        model_digest=mechanism.digest,
        steps_taken=int(outcome.taken.sum()),
        interrupted=int(bool((outcome.status == Status.NOT_RUN).any())),
        wall_seconds=perf_counter() - started,
    )
    result = _dataset(network, mechanism, zones, grid, equation_of_state, outcome, attrs)
    worst = float(result["energy_error"].max()) if "energy_error" in result else 0.0
    if worst > conservation_tolerance:
        warnings.warn(
            f"{chosen.name}: energy released and internal energy gained differ by up to "
            f"{worst:.1e}, relative, more than {conservation_tolerance:g}; use a smaller rtol",
            AccuracyWarning,
            stacklevel=2,
        )
    return result


def _run(
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    options: Options,
    device: devices.Device,
    show: bool,
) -> Outcome:
    """Integrate all zones, or those before an interruption."""
    outcome = empty_outcome(zones, grid)
    done = 0
    with track("zones", zones.count, unit="zones", show=show) as report:

        def finished(amount: int) -> None:
            nonlocal done
            done += amount
            report(amount)

        try:
            run_zones(mechanism, zones, grid, options, device, outcome, finished)
        except KeyboardInterrupt as error:
            if done == 0:
                raise
            if isinstance(error, Abandoned):
                outcome = outcome.copied()
            warnings.warn(
                f"interrupted: {done} of {zones.count} zones were integrated",
                InterruptionWarning,
                stacklevel=3,
            )
    return outcome


def _dataset(
    network: ReactionNetwork,
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    state: str | EquationOfState,
    outcome: Outcome,
    attrs: Mapping[str, Any],
) -> xarray.Dataset:
    count = len(network.species)
    amounts = outcome.amounts[:, :, :count]
    # What a zone did not reach is NaN there from the start.
    rows = np.isfinite(outcome.amounts[:, :, :count]).all(axis=2).cumprod(axis=1).sum(axis=1)
    rows[outcome.status == Status.NOT_RUN] = 0
    if zones.heating != FIXED:
        temperature = outcome.amounts[:, :, count].copy()
    elif not zones.has_temperature:
        temperature = np.full((zones.count, grid.size), np.nan)
    else:
        temperature = np.array(
            [np.interp(grid, zones.history.times, row) for row in zones.history.temperature]
        )
    values = {
        "temperature": temperature,
        "step_count": outcome.taken,
        "repeated_count": outcome.repeated,
        "conservation_error": outcome.defect,
        "steepest_time": outcome.fastest_heating,
        "status": outcome.status,
    }
    coords: dict[str, Any] = {
        "zone": np.arange(zones.count),
        "time": grid,
        "species": list(mechanism.names),
    }
    if mechanism.nuclear:
        coords["mass_number"] = ("species", mechanism.mass.astype(np.int64))
        coords["charge_number"] = ("species", mechanism.thermo.charge.astype(np.int64))
        change = amounts[:, :1] - amounts
        density = np.array(
            [np.interp(grid, zones.history.times, row) for row in zones.history.density]
        )
        values["density"] = density
        charge = mechanism.thermo.charge
        warn_of_pairs(state, temperature, density, amounts @ charge, stacklevel=3)
        values["pressure"], thermal = matter_at(state, temperature, density, amounts, charge)
        values["energy_released"] = change @ mechanism.thermo.mass_excess
        if zones.heating != FIXED:
            values["energy_error"] = nuclear_energy_error(thermal, values["energy_released"])
        fractions = amounts * mechanism.mass
        values["mass_fraction"] = fractions
        values["near_equilibrium"] = near_equilibrium(
            mechanism, temperature[:, -1], density[:, -1], fractions[:, -1]
        )
        return results.dataset(
            "kinetics", "nuclei", values, coords=coords, attrs=attrs, computed_rows=rows
        )
    if zones.heating != FIXED:
        values["energy_error"] = molecular_energy_error(
            network, amounts, temperature, zones.heating == PRESSURE
        )
    if zones.heating == PRESSURE:
        pressure = zones.history.density[:, :1]
        total = amounts.sum(axis=2)
        amounts = amounts * (pressure / (GAS_CONSTANT * temperature * total))[:, :, None]
    if mechanism.molecular:
        values["density"] = amounts @ molar_masses(network)
        values["pressure"] = GAS_CONSTANT * temperature * amounts.sum(axis=2)
    values["concentration"] = np.ascontiguousarray(amounts)
    if network.rules:
        coords["rule"] = list(network.rules)
        values["quantity"] = _quantities(network, grid, amounts)
    return results.dataset(
        "kinetics", "concentrations", values, coords=coords, attrs=attrs, computed_rows=rows
    )


def _quantities(network: ReactionNetwork, grid: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """What rules define, shape [zone, time, rule]; no rate constant can depend on it."""
    known: dict[str, Any] = network.evaluate_parameters()
    known[TIME] = grid
    for i, one in enumerate(network.species):
        size = known[one.compartment] if one.compartment and one.quantity == "amount" else 1.0
        known[one.name] = amounts[:, :, i] * size
    for name in network.rule_order:
        known[name] = network.rules[name].evaluate(known)
    return np.stack([np.broadcast_to(known[name], amounts.shape[:2]) for name in network.rules], 2)


def _check_memory(needed: int) -> None:
    free = devices.resolve("cpu").available_bytes()
    if needed > free:
        raise PlanError(
            f"the abundances need {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; use "
            "fewer times or zones"
        )
