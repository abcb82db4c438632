"""Networks in many zones: from a network and conditions to labelled abundances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, log, results
from ergode.core.arguments import check_switch, integer, number, refuse_idle, time_grid
from ergode.core.calls import resident
from ergode.core.calls.divide import Executor, StorePath, divisible
from ergode.core.calls.job import Job, Whole
from ergode.core.calls.launch import Interruptible, check_room, run_chunks, warn
from ergode.core.errors import Abandoned, AccuracyWarning, ModelError
from ergode.core.status import Status
from ergode.core.stopwatch import Stopwatch
from ergode.kinetics.conditions import Zones, zones_of
from ergode.kinetics.error_estimate import estimated_errors, warn_of_estimates
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import Method, MethodName, choose, suited
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.outputs import dataset_of
from ergode.kinetics.over_time import Trajectory
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    StateName,
    bindings_of_state,
    check_isobars,
    check_range,
)
from ergode.kinetics.rate_factors import scaled_zones, scaling_of
from ergode.kinetics.reactors import PlugFlow, StirredTank
from ergode.kinetics.sweep import ROWS, axis_of, layout_of, parted, swept_zones
from ergode.kinetics.tables import CLOSED, FIXED, PLUG, PRESSURE, STILL, STIRRED, Outcome
from ergode.kinetics.tolerances import BY_ZONE, scale_of, tolerances_of, with_tolerances
from ergode.kinetics.validity import warn_of_fits
from ergode.kinetics.walls import Wall
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.sweep import POINT, Layout

if TYPE_CHECKING:
    import xarray

_REACTORS = {CLOSED: "none", STIRRED: "stirred tank", PLUG: "plug flow"}
_COLDEST_STAR = 1e5  # [K]; a lower temperature of nuclei is taken for a mistaken unit
_LARGEST_LIMIT = 2**31 - 1


@divisible("kinetics", axis_of, rows=ROWS)
def integrate(
    whole: Whole,
    network: ReactionNetwork,
    *,
    times: ArrayLike,
    initial: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    temperature: Any = None,
    density: Any = None,
    pressure: Any = None,
    volume: Any = None,
    sunlight: Any = None,
    heating: Literal[
        "constant-volume",
        "constant-pressure",
        "isothermal-constant-pressure",
        "given-volume",
        "given-pressure",
    ]
    | None = None,
    equation_of_state: StateName | EquationOfState = "ideal",
    neutrino_losses: bool = False,
    reactor: StirredTank | PlugFlow | None = None,
    wall: Wall | None = None,
    rate_factors: ArrayLike | None = None,
    screening: Literal["weak", "chugunov"] | None = None,
    method: MethodName = "auto",
    rtol: float | ArrayLike = 1e-4,
    atol: float | Mapping[str, float] | ArrayLike | None = None,
    reference_control: bool = False,
    conservation_tolerance: float = 1e-2,
    max_steps: int | None = None,
    device: str | devices.Device = "auto",
    keep_on_device: bool = False,
    progress: bool = False,
    executor: Executor | None = None,
    store: StorePath | None = None,
    chunk: int | None = None,
) -> Job:
    """Integrate a network of nuclear or chemical reactions in many zones at once.

    Parameters
    ----------
    network : ReactionNetwork
        Mass action: numbers, formulas of parameters, or `RateCoefficient`, such as a
        `RateExpression` of time, temperature, concentrations and parameters.
    times : array_like, shape [time_count]
        Ascending times of the result [s, or the unit of the coefficients]. The integration begins
        at ``times[0]``.
    initial : mapping of str to float or array_like, shape [zone_count], optional
        Amounts at ``times[0]``; the default is the network's amounts. Nuclei and molecules that are
        not named begin with 0, other species with the network's amount. Nuclei have mass fractions
        (``"12C"``, ``"c12"`` and the network's own spelling are known). Molecules with NASA
        polynomials have mole fractions if `pressure` is given, and mass fractions if `density` is
        given. Other species have concentrations [mol/cm3, or the unit of the coefficients]. With
        `ergode.grid` each array becomes a dimension of the result.
    parameters : mapping of str to float, array_like, Trajectory, or function, optional
        Values that replace parameters of the network. Arrays of equal length are the points of a
        sweep along the dimension ``point``; with `ergode.grid` each array becomes a dimension.
        A `Trajectory` or a function of time, as for `temperature`, changes a parameter of rate
        coefficients in time; it may have any sign, and a row for each zone.
        Every point is integrated in all zones, and all points run in one launch. Each result is
        bitwise equal to that of a separate call if `atol` is given or if initial amounts are not
        swept.
    temperature : float, array_like of shape [zone_count], Trajectory, or function
        Temperature [K]; with `heating`, the temperature at ``times[0]``. A function of time
        returns one number, or one for each zone. It is tabulated to within `rtol` / 100. A
        pulse shorter than 1/4096 of the run is found only where a time of `times` lies within it.
        Steps are short enough to follow the changes of temperature and density.
    density : float, array_like of shape [zone_count], Trajectory, or function
        Mass density [g/cm3].
    pressure : float, array_like of shape [zone_count], Trajectory, or function
        Pressure of molecules at ``times[0]`` [dyn/cm2] (1 atm is 1.01325e6). With
        ``heating="given-pressure"``, the pressure over time: a `Trajectory`, such as a measured
        trace, or a function. Of nuclei only ratios matter: the pressure at ``times[0]`` follows
        from their density.
    volume : Trajectory, function or Piston, optional
        With ``heating="given-volume"``, the volume over time, as that of a rapid compression
        machine, or of ejecta. Only ratios matter, so any unit will do. The density of nuclei is
        inversely proportional to it. Or a `Piston`, which the pressure of the zone moves, by
        ``"rodas4"`` or ``"rosenbrock23"``: the result has ``volume_ratio`` and
        ``piston_velocity``.
    sunlight : float, array_like of shape [zone_count], Trajectory, or function
        For coefficients that depend on it (`Photolysis`, `RateExpression`): a number of 0 (night)
        or more, or as for `temperature`, such as `daylight`.
    heating : {None, "constant-volume", "constant-pressure", "isothermal-constant-pressure", \
            "given-volume", "given-pressure"}
        Whether the energy released by reactions changes the temperature. For nuclei the temperature
        follows from `equation_of_state`, for molecules from their NASA polynomials. At constant
        pressure, nuclei keep the pressure of ``times[0]``, and `density` is the density at
        ``times[0]``. Molecules may also keep their temperature and pressure; with None they keep
        their temperature and volume. A `volume` or a `pressure` may be given over time: the work of
        the compression heats matter, and the method is an implicit one. Of nuclei the result then
        has no ``steepest_time`` and no ``neutrino_energy``.
    equation_of_state : {"ideal", "degenerate", "helmholtz"} or EquationOfState
        For nuclei: an ideal gas of nuclei and electrons with radiation; the same gas with
        degenerate electrons, approximately; electrons and positrons of any degeneracy, with
        Coulomb corrections, from 1e4 to 1e11 K (see `equation_of_state`); or functions of the user.
    neutrino_losses : bool
        Whether neutrinos cool nuclei that heat themselves: pair, photo, plasma, bremsstrahlung and
        recombination neutrinos (see `neutrino_losses`). Those of weak reactions are not included.
    reactor : StirredTank or PlugFlow, optional
        What flows in and out (see `StirredTank`); the default is a closed zone. For molecules and
        other species, by the implicit methods. With `PlugFlow`, `times` are positions along a tube
        (see `plug_flow`).
    wall : Wall, optional
        A wall through which heat passes (see `Wall`), of molecules that heat themselves. The
        default is no wall: zones are adiabatic.
    rate_factors : array_like, shape [reaction_count] or [point_count, reaction_count], optional
        Factors of the coefficients of all reactions, in the order of the network. Coefficients by
        detailed balance follow their forward reactions, and their factor is 1. Each row is a point
        of a sweep along the dimension ``point``, and every point is integrated in all zones: for
        uncertainties of rates (see `sensitivities`).
    screening : {None, "weak", "chugunov"}
        How electrons and other nuclei shield the charges of reacting nuclei: not at all, by
        Salpeter's formula, or by that of Chugunov and DeWitt, for weak to strong coupling.
    method : str
        ``"auto"`` is ``"bdf"`` for molecules whose temperature is constant or follows from
        `heating`, and ``"rodas4"`` otherwise; ``"rodas4"`` also for up to 16 species at a given
        temperature on a GPU. ``"asymptotic"`` is algebraically
        stabilised. It is much slower and less accurate than the implicit methods, and does not use
        `rtol`. A second run, by ``"rodas4"`` at a tenth of the tolerance, estimates its error
        (``error_estimate``).

        - ``"rodas4"``: a Rosenbrock method of order 4, which follows `rtol`; for every network
        - ``"rosenbrock23"``: a Rosenbrock method of order 2, which follows `rtol`; for two or three
          digits
        - ``"bdf"``: backward differentiation formulas of order 1 to 5, which follow `rtol`; for
          chemistry, and accurate solutions
        - ``"asymptotic"``: explicit, with the asymptotic formula for stiff species; for comparison
          with published codes
    rtol : float or array_like of shape [zone_count]
        Relative tolerance, from 1e-13 to 1. The allowed error of a step is ``atol + rtol * amount``
        for every species. ``"asymptotic"`` steps do not use it, and an ``error_estimate`` above
        ``10 * rtol`` gives a warning.
    atol : float, mapping of str to float or array_like, or array_like, optional
        Absolute tolerance: one number, numbers by species name (the others have the default), or
        one per species, shape [species_count]. By zone: shape [zone_count] for a species by name,
        or shape [zone_count, 1] or [zone_count, species_count].
        The default for mass fractions is 1e-8. Otherwise the default is 1e-12 (1e-18 with NASA
        polynomials) times a power of ten: the one just below the largest initial amount of a
        reacting species, in the zone where this amount is smallest. For an rtol below 1e-4 the
        default decreases in proportion to rtol, except with NASA polynomials. The attribute
        ``atol`` of the result records it.
        With tolerances by zone, which the implicit methods have, the variables ``rtol`` and
        ``atol`` record them. Each zone is then bitwise equal to that of a separate call, if `atol`
        is given and no condition is a function of time.
    reference_control : bool
        For repeated ``"asymptotic"`` steps: choose between the two formulas as the reference code
        does, not as the publication says.
    conservation_tolerance : float
        Zones whose conserved sums (total mass) have a larger relative error at the end get the
        status ``INACCURATE``.
    max_steps : int, optional
        Largest number of steps of a zone; a zone that needs more fails. The default for implicit
        methods is 100,000.
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ... (see `ergode.Device`).
    keep_on_device : bool
        Whether the result stays on the device: the call returns a `DeviceResult` of NumPy arrays
        (CPU) or CuPy arrays (CUDA), which PyTorch and JAX read without a copy. Not with `executor`,
        `store` or several devices. Mass fractions and concentrations stay. The host derives
        energies, pressures, rules and concentrations at constant pressure from a copy of the
        amounts: for zones that heat themselves in the call, otherwise when one of them is read.
    progress : bool
        Show progress on standard error.
    executor : concurrent.futures.Executor, optional
        Computes parts of the zones on its workers: a process pool, Dask, MPI. The result
        is bitwise equal to that without it.
    store : path, optional
        A folder such as ``"run.zarr"`` to which finished parts are written. A repeated call
        computes only the missing parts.
    chunk : int, optional
        Number of zones in a part; the default is 1/64 of all.

    Returns
    -------
    xarray.Dataset
        mass_fraction(zone, time, species) of nuclei, or concentration(zone, time, species) of other
        species; temperature, density and pressure(zone, time); step_count(zone), status(zone) and
        more; and quantity(zone, time, rule) if the network has rules. The dimensions of a sweep
        come first. Values that a zone did not reach are NaN.

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
        In some zone conserved sums are off by more than `conservation_tolerance`;
        ``error_estimate`` is above ``10 * rtol``; ``"asymptotic"`` steps
        have no conserved sum for step-size control; ``"degenerate"`` matter would contain
        electron-positron pairs; fits of REACLIB grow without bound below 1e7 K or above 1e10 K;
        NASA polynomials are used outside of their temperatures; matter is too strongly coupled for
        ``"weak"`` screening; or amounts grow from traces far below `atol`.
    FailureWarning
        Zones failed; `status` tells which, and how.
    InterruptionWarning
        The run was interrupted (Ctrl-C), and zones that were not reached have the status
        ``NOT_RUN``.

    References
    ----------
    E. Hairer, G. Wanner, "Solving Ordinary Differential Equations II", 2nd ed. (1996), IV.7;
    G. D. Byrne, A. C. Hindmarsh, ACM Trans. Math. Softw. 1, 71 (1975), for ``"bdf"``;
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
    stopwatch = Stopwatch()
    grid = time_grid(times)
    if grid.size < 2:
        raise ModelError("times has one time; expected the first and at least one more")
    chosen, reason = choose(method)
    asked = tolerances_of(network, rtol, atol)
    smallest = whole.decided("smallest rtol", float(asked.relative.min()))
    conservation_tolerance = number("conservation_tolerance", conservation_tolerance, above=0.0)
    if not isinstance(reactor, StirredTank | PlugFlow | None):
        raise ModelError(f"reactor is {reactor!r}; expected a kinetics.StirredTank or PlugFlow")
    if not isinstance(wall, Wall | None):
        raise ModelError(f"wall is {wall!r}; expected a kinetics.Wall")
    constant, drives = parted(network, parameters)
    mechanism = to_tables(network, screening, tuple(drives))
    bindings_of_state(equation_of_state)
    conditions = {
        "temperature": temperature, "density": density, "pressure": pressure, "volume": volume,
        "heating": heating, "grid": grid, "rtol": smallest, "reactor": reactor, "wall": wall,
        "sunlight": sunlight, "tolerance_sizes": asked.sizes, "drives": drives,
    }  # fmt: skip
    output = "nuclei" if mechanism.nuclear else "concentrations"
    layout = layout_of(network, constant, initial, results.names("kinetics", output))
    values: dict[str, np.ndarray] = {}
    scaling = None if rate_factors is None else scaling_of(network, mechanism, rate_factors)
    if scaling is not None and np.asarray(rate_factors).ndim > 1:
        if layout is not None and layout.dims:
            raise ModelError(
                "rate_factors has several rows, and parameters or initial amounts are swept; "
                "expected one of them, or a Trajectory with a row for each zone"
            )
        numbers = {} if layout is None else layout.rows
        same = {name: np.repeat(row, len(scaling)) for name, row in numbers.items()}
        layout = Layout((POINT,), (len(scaling),), {}, same)
    if layout is None:
        zones = zones_of(network, mechanism, initial=initial, **conditions)
    else:
        zones, values = swept_zones(network, mechanism, layout, initial, conditions)
    if scaling is not None:
        zones, mechanism = scaled_zones(zones, mechanism, scaling)
    if mechanism.nuclear:
        nuclei, history = zones.amounts[:, : len(network.species)], zones.history
        electrons = nuclei @ mechanism.thermo.charge
        check_range(equation_of_state, history.temperature, history.density, electrons[:, None])
        if zones.heating == PRESSURE:
            check_isobars(
                equation_of_state, history.temperature[:, 0], history.density[:, 0],
                nuclei.sum(axis=1), electrons,
            )  # fmt: skip
        hottest = float(history.temperature.max())
        if hottest < _COLDEST_STAR:
            warn(
                f"temperature is at most {hottest:g} K, where no nuclei react; 1 GK is 1e9 K",
                AccuracyWarning,
            )
        else:
            warn_of_fits(
                network, history.temperature, "let temperatures end at 1e7 K; colder nuclei "
                "hardly react",
            )  # fmt: skip
    scale = whole.decided("scale of atol", scale_of(mechanism, zones))
    by_zone = whole.decided("tolerances by zone", asked.by_zone)
    device = devices.resolve(device)
    if method == "auto":
        suits, reason = suited(mechanism, zones, device)
        chosen, _ = choose(whole.decided("method", suits.name))
    chosen.refuse(
        chosen.why_unsupported(
            mechanism,
            zones.heating,
            zones.flow,
            by_zone=by_zone,
            connected=zones.tank_count > 1,
        )
    )
    tolerances = asked.filled(mechanism, scale)
    one_rtol, one_atol = float(asked.relative[0]), tuple(tolerances[0].tolist())
    if by_zone:
        rows = asked.rows(mechanism, scale, zones.amounts.shape[1], moves=zones.moving != STILL)
        zones = with_tolerances(zones, rows)
        one_rtol, one_atol = BY_ZONE, (BY_ZONE,) * len(one_atol)
    most = chosen.max_steps if max_steps is None else max_steps
    limit = integer("max_steps", most, 1, _LARGEST_LIMIT)
    check_switch("integrate", "reference_control", reference_control)
    refuse_idle(reference_control=(
        reference_control and chosen.implicit, f"method '{chosen.name}' is implicit"
    ))  # fmt: skip
    check_switch("integrate", "neutrino_losses", neutrino_losses)
    if neutrino_losses and (zones.heating == FIXED or not mechanism.nuclear):
        raise ModelError(
            "neutrino_losses is for nuclei that heat themselves; expected heating and nuclei"
        )
    if equation_of_state != "ideal" and not mechanism.nuclear:
        raise ModelError("equation_of_state is for nuclei, and the network has none")
    options = Options(
        chosen.runner, one_rtol, one_atol, reference_control, limit, equation_of_state,
        bool(neutrino_losses),
    )  # fmt: skip
    uncontrolled = chosen.why_uncontrolled(mechanism)
    if uncontrolled:
        warn(f"{chosen.name}: {uncontrolled}", AccuracyWarning)

    def compute() -> xarray.Dataset:
        check_room(
            # Twice: as the output of kernels, and as the result.
            8 * zones.count * grid.size * (2 * zones.amounts.shape[1] + len(network.rules) + 8),
            f"an array of amounts of {zones.count:,} zones at {grid.size:,} times",
            "use fewer times or zones",
        )
        with Interruptible("zones", "were integrated") as run:
            outcome = _run(mechanism, zones, grid, options, device, progress)
            errors = np.full(zones.count, np.nan)
            if not chosen.implicit:
                errors = estimated_errors(mechanism, zones, grid, options, device, outcome)
            run.ends_with(outcome.status)
            warn_of_estimates(chosen, errors, one_rtol)
            _warn_of_errors(chosen, outcome, conservation_tolerance)
            attrs = results.provenance(
                stopwatch,
                engine="kinetics",
                method=chosen.name,
                method_reason=reason,
                heating=heating or "none",
                reactor=_REACTORS[zones.flow],
                **_inflow_of(reactor),
                screening=screening or "none",
                conservation_tolerance=conservation_tolerance,
                zones=zones.count if layout is None else zones.count // layout.count,
                model_digest=mechanism.digest,
                **_provenance_of(options, device, outcome),
                **_points_of(layout, values),
            )
            return dataset_of(
                network, mechanism, zones, grid, options, outcome, errors, attrs, layout, values,
            )  # fmt: skip

    return Job(compute, log.choice(chosen.name, reason, device))


def _warn_of_errors(chosen: Method, outcome: Outcome, conservation_tolerance: float) -> None:
    """Mark zones that lost conserved sums, and warn of them."""
    bad = (outcome.status == Status.DONE) & ~(outcome.defect <= conservation_tolerance)
    outcome.status[bad] = Status.INACCURATE
    if bad.any():
        warn(
            f"{chosen.name}: in {bad.sum()} of {bad.size} zones conserved sums are off by up to "
            f"{np.nanmax(outcome.defect):.1e}, more than {conservation_tolerance:g}",
            AccuracyWarning,
        )


def _inflow_of(reactor: StirredTank | PlugFlow | None) -> dict[str, Any]:
    """Attributes of what flows in."""
    if not isinstance(reactor, StirredTank):
        return {}
    given = {
        **reactor.inflow, "temperature": reactor.temperature, "flow_ratio": reactor.flow_ratio
    }  # fmt: skip
    tanks = {"tank_count": reactor.tank_count} if reactor.tank_count > 1 else {}

    def shown_as(value: Any) -> str:
        if callable(value) or isinstance(value, Trajectory):
            return "over time"
        return "one for each zone" if np.size(value) > 1 else repr(float(np.ravel(value)[0]))

    shown = {name: shown_as(value) for name, value in given.items() if value is not None}
    return {"inflow": ", ".join(f"{name}={text}" for name, text in shown.items()), **tanks}


def _provenance_of(options: Options, device: devices.Device, outcome: Outcome) -> dict[str, Any]:
    """Attributes of how zones were integrated, and where."""
    state, atol = options.state, options.atol
    assert isinstance(atol, tuple)
    by_zone = "one for each zone" if options.rtol == BY_ZONE else None
    return {
        "rtol": by_zone or options.rtol,
        "atol": by_zone or (atol[0] if len(set(atol)) == 1 else list(atol)),
        "equation_of_state": state if isinstance(state, str) else "functions",
        "neutrino_losses": int(options.neutrinos),
        "reference_control": int(options.reference_control),
        "max_steps": options.max_steps,
        "device": device.name,
        "device_model": device.model,
        "device_reason": device.reason,
        "precision": "float64",
        "steps_taken": int(outcome.taken.sum()),
        "interrupted": int(bool((outcome.status == Status.NOT_RUN).any())),
    }


def _points_of(layout: Layout | None, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Attributes of a sweep; values that differ are coordinates."""
    if layout is None:
        return {}
    same = {name: row for name, row in values.items() if name not in layout.coords}
    given = ", ".join(f"{name}={float(row[0])!r}" for name, row in same.items())
    return {"points": layout.count, "parameters": given}


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

    def work(start: int, stop: int, report: Callable[[int], None]) -> bool:
        nonlocal outcome
        try:
            run_zones(mechanism, zones, grid, options, device, outcome, report)
        except Abandoned:
            outcome = outcome.copied()
        except KeyboardInterrupt:
            return False
        return True

    # One chunk: runners split the zones themselves.
    run_chunks("zones", zones.count, zones.count, work, unit="zones", show=show)
    missing = np.flatnonzero(outcome.status == Status.NOT_RUN)
    if missing.size:
        nothing = empty_outcome(zones, grid)
        for array, empty in zip(outcome, nothing, strict=True):
            here = resident.beside(array, missing)
            array[here] = empty[here]
    return outcome
