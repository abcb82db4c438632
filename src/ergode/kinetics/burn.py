"""Burning for a hydrodynamics code: each cell is a zone, integrated for one time step.

NumPy arrays are burnt on any device. Arrays on a GPU that have the CUDA array interface (CuPy,
PyTorch, JAX, Numba) are read in place, and the results stay on that GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, foreign, kernels
from ergode.core.arguments import check_switch, choice, integer
from ergode.core.errors import FailureWarning, ModelError, PlanError
from ergode.core.launch import warn
from ergode.core.status import Status, failures
from ergode.core.words import counted
from ergode.kinetics.block.launch import zones_at_once
from ergode.kinetics.compositions import molar_masses
from ergode.kinetics.conditions import HEATING, Zones
from ergode.kinetics.kernel_options import HEATING as HEATING_OPTION
from ergode.kinetics.kernel_options import NEUTRINOS
from ergode.kinetics.launch import Options, empty_outcome, problem_of, run_zones
from ergode.kinetics.methods import choose
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.physics.energy import enthalpy
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    StateName,
    bindings_of_state,
    densities_at_pressure,
    density_at,
    pressure_of,
    table_of,
    warn_of_pairs,
)
from ergode.kinetics.physics.neutrinos import losses_at, neutrino_losses_of
from ergode.kinetics.tables import FIXED, PRESSURE, UNSWEPT, ConditionHistory
from ergode.kinetics.tolerances import (
    BY_ZONE,
    Tolerances,
    number,
    scale_of,
    tolerances_of,
    with_tolerances,
)
from ergode.models.constants import GAS_CONSTANT
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import Molecule

_STANDARD_TEMPERATURE = 298.15


class Burned(NamedTuple):
    """The result of a step of burning, in arrays of the library that the input came from.

    Attributes
    ----------
    mass_fraction : array of float64, shape [..., species_count]
        A cell that failed keeps its input.
    energy : array of float64, shape [...]
        Energy released by reactions [erg/g], including that of neutrinos: rest energy of nuclei, or
        enthalpy of formation of molecules at 298.15 K. Zero in cells that failed.
    status : array of uint8, shape [...]
        How each cell ended (see `ergode.Status`). ``NOT_FINITE``: the input is not finite, or the
        cell heats itself beyond the table of ``"helmholtz"``. ``INVALID_INPUT``: a temperature or
        density is not positive, a mass fraction is below -1e-6, or the sum of the mass fractions
        differs from one by more than 0.01. Such a cell does not affect others. ``SKIPPED``: the
        cell is below `minimum_temperature` or `minimum_density`.
    neutrino_energy : array of float64, shape [...]
        Energy carried off by thermal neutrinos [erg/g]; zero without `neutrino_losses`. The heat of
        a cell is `energy` minus `neutrino_energy`. `neutrino_energy` is the mean of the losses
        before and after the step, times the duration. This is accurate to second order, and
        inaccurate if a cell ignites within the step.
    """

    mass_fraction: Any
    energy: Any
    status: Any
    neutrino_energy: Any


def burn(
    network: ReactionNetwork,
    temperature: Any,
    density: Any,
    mass_fraction: Any,
    duration: float,
    *,
    heating: Literal["constant-volume", "constant-pressure"] | None = None,
    equation_of_state: StateName | EquationOfState = "ideal",
    neutrino_losses: bool = False,
    screening: Literal["weak", "chugunov"] | None = None,
    minimum_temperature: float = 0.0,
    minimum_density: float = 0.0,
    method: Literal["rodas4", "rosenbrock23", "asymptotic"] = "rodas4",
    rtol: float | ArrayLike = 1e-4,
    atol: float | Mapping[str, float] | ArrayLike | None = None,
    max_steps: int = 100_000,
    device: str | devices.Device = "auto",
) -> Burned:
    """Burn every cell of a grid for one step of time, for operator splitting.

    Parameters
    ----------
    network : ReactionNetwork
        Of nuclei, or of molecules with NASA polynomials.
    temperature, density : array of float64, shape [...]
        [K], [g/cm3]; cells may have any number of axes.
    mass_fraction : array of float64, shape [..., species_count]
        In the order of the network's species. Values from -1e-6 to 0, as advection leaves them,
        are taken as 0, and the others scaled so that the sum stays.
    duration : float
        [s]; 0 s changes nothing.
    heating : {None, "constant-volume", "constant-pressure"}
        Whether the energy released by reactions changes the temperature of a cell within the step.
        A cell at constant pressure expands as it burns.
    neutrino_losses : bool
        Whether thermal neutrinos carry off energy from nuclei. They cool cells with `heating`.
        Without `heating` the temperature stays constant, and only the energy is returned.
    minimum_temperature, minimum_density : float
        Cells below one of these [K], [g/cm3] stay as they are, and have the status ``SKIPPED``.
    rtol, atol
        See `integrate`. By cell: `rtol` has the shape of `temperature`, and `atol` the shape
        [..., species_count] or [..., 1]. They may be on the host or on a device.
    equation_of_state, screening, method, max_steps
        See `integrate`.
    device : str or Device
        Where to burn host arrays (see `integrate`). Arrays on a CUDA device are burnt there.

    Returns
    -------
    Burned
        ``mass_fraction``, ``energy``, ``status`` and ``neutrino_energy``, in arrays of the library
        of the input. If the arrays are on a device, only one cell is copied to the host, and the
        call may return before the device has finished.

    Raises
    ------
    ModelError
        Shapes do not fit, the duration or a limit is negative, or molecules have neutrinos.
    PlanError
        An option is unknown, or device arrays are not contiguous or not float64.

    Warns
    -----
    FailureWarning
        For host arrays: cells failed; `status` tells which, and how.
    AccuracyWarning
        For host arrays: ``"degenerate"`` matter would contain electron-positron pairs.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> law = ergode.Reaclib([(60.9649, 0, -84.165, -1.56627, -0.0736084, -0.072797, -2 / 3)], 0.5)
    >>> network = ergode.ReactionNetwork(
    ...     [
    ...         ergode.Species("c12", mass_number=12, charge_number=6,
    ...                        thermochemistry=ergode.Nucleus(0.0)),
    ...         ergode.Species("mg24", mass_number=24, charge_number=12,
    ...                        thermochemistry=ergode.Nucleus(-13.933)),
    ...     ],
    ...     [ergode.Reaction("2 c12 -> mg24", rate_constant=law)],
    ... )
    >>> cells = ergode.kinetics.burn(
    ...     network, np.full(3, 3e9), np.full(3, 1e7), np.array([[1.0, 0.0]] * 3), 1e-6,
    ...     device="cpu",
    ... )
    >>> bool((cells.energy > 0).all()), cells.status.tolist()
    (True, [0, 0, 0])
    """
    if not isinstance(network, ReactionNetwork):
        raise ModelError(f"network is {type(network).__name__}; expected a ReactionNetwork")
    mechanism = to_tables(network, screening)
    bindings_of_state(equation_of_state)
    if not (mechanism.nuclear or mechanism.molecular):
        raise ModelError(
            "the species are neither nuclei nor molecules with NASA polynomials; burn() needs one "
            "of these, integrate() also takes concentrations"
        )
    if mechanism.has_sunlight:
        raise ModelError("a coefficient is a Photolysis; burn() has no sunlight, integrate() does")
    choice("heating", heating, HEATING, error=ModelError)
    chosen, _ = choose(method, auto=False)
    asked = tolerances_of(network, rtol, atol, _shape_of(temperature))
    chosen.refuse(chosen.why_unsupported(mechanism, HEATING[heating], by_zone=asked.by_zone))
    time = number(duration)
    if not 0 <= time < np.inf:
        raise ModelError(f"duration is {duration!r}; expected seconds, 0 or more")
    limit = integer("max_steps", max_steps, 1, 2**31 - 1)
    given_rtol = BY_ZONE if asked.by_zone else float(asked.relative[0])
    given_atol = None
    if atol is not None and not asked.by_zone:
        # Defaults of other species assume a concentration of 1 mol/cm3.
        given_atol = tuple(asked.filled(mechanism, 1.0)[0].tolist())
    check_switch("burn", "neutrino_losses", neutrino_losses)
    if neutrino_losses and not mechanism.nuclear:
        raise ModelError("neutrino_losses is for nuclei, and the network has molecules")
    options = Options(
        chosen.runner, given_rtol, given_atol, False, limit, equation_of_state,
        bool(neutrino_losses),
    )  # fmt: skip
    least = (
        _limit("minimum_temperature", minimum_temperature),
        _limit("minimum_density", minimum_density),
    )
    given = {"temperature": temperature, "density": density, "mass_fraction": mass_fraction}
    there = [name for name, a in given.items() if foreign.is_on_cuda(a)]
    if there and len(there) < len(given):
        here = next(name for name in given if name not in there)
        raise PlanError(f"{there[0]} is on a CUDA device and {here} is not; expected all on one")
    grid = np.array([0.0, time])
    mode = HEATING[heating]
    if there:
        return _on_device(network, mechanism, given, grid, mode, options, least, asked)
    chosen_device = devices.resolve(device)
    return _on_host(network, mechanism, given, grid, mode, options, least, asked, chosen_device)


def _shape_of(array: Any) -> tuple[int, ...]:
    """Shape of an array of any library, or of nested lists; that of a number for anything else."""
    try:
        return tuple(array.shape if hasattr(array, "shape") else np.shape(array))
    except ValueError:  # lists of several lengths are refused later
        return ()


def _limit(name: str, value: Any) -> float:
    """A limit below which cells are left alone."""
    found = number(value)
    if not 0.0 <= found < np.inf:
        raise ModelError(f"{name} is {value!r}; expected a finite number, 0 or more")
    return found


def _tolerances(mechanism: Mechanism, zones: Zones, asked: Tolerances) -> np.ndarray:
    """Rows of tolerances of these cells; the usual ones follow the amounts where none is given."""
    scale = scale_of(mechanism, zones) if np.isnan(asked.absolute).all() else 1.0
    return asked.rows(mechanism, scale, zones.amounts.shape[1])


def _check_shapes(network: ReactionNetwork, given: dict[str, Any]) -> tuple[int, ...]:
    """Shape of the grid of cells."""
    cells = tuple(given["temperature"].shape)
    wanted = {"density": cells, "mass_fraction": (*cells, len(network.species))}
    for name, shape in wanted.items():
        if tuple(given[name].shape) != shape:
            raise ModelError(
                f"{name} has shape {tuple(given[name].shape)}; expected {shape}, for temperature "
                f"has {cells} and the network {counted(len(network.species), 'species')}"
            )
    if not all(cells):
        raise ModelError("temperature has no cells")
    return cells


def _scales(network: ReactionNetwork, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Mass [g/mol] and energy available to burning [erg/mol] of each species."""
    if mechanism.nuclear:
        return mechanism.mass, mechanism.thermo.mass_excess
    return molar_masses(network), np.array([_formation(one) for one in network.species])


def _formation(species: Any) -> float:
    known = species.thermochemistry
    assert isinstance(known, Molecule)
    return float(enthalpy(known, np.array(_STANDARD_TEMPERATURE)))


# --- host -----------------------------------------------------------------------------------------


def _on_host(
    network: ReactionNetwork,
    mechanism: Mechanism,
    given: dict[str, Any],
    grid: np.ndarray,
    heating: int,
    options: Options,
    least: tuple[float, float],
    asked: Tolerances,
    device: devices.Device,
) -> Burned:
    arrays = {}
    for name, value in given.items():
        try:
            arrays[name] = np.asarray(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{name} is {value!r}; expected an array of numbers") from None
    cells = _check_shapes(network, arrays)
    weight, energy = _scales(network, mechanism)
    hot, dense = (arrays[name].reshape(-1) for name in ("temperature", "density"))
    count = weight.size
    given_fractions = arrays["mass_fraction"].reshape(hot.size, count)
    status = input_status(hot, dense, given_fractions)
    status[(status == Status.DONE) & ((hot < least[0]) | (dense < least[1]))] = Status.SKIPPED
    good = np.flatnonzero(status == Status.DONE)
    burnt, released, carried = given_fractions.copy(), np.zeros(hot.size), np.zeros(hot.size)
    if good.size and grid[1] > 0.0:
        hot, dense, fractions = hot[good], dense[good], clipped(given_fractions[good])
        if mechanism.nuclear and heating != FIXED:
            electrons = (fractions / weight) @ mechanism.thermo.charge
            warn_of_pairs(options.state, hot, dense, electrons)
        zones = _zones(mechanism, hot, dense, fractions / weight, heating)
        if asked.by_zone:
            zones = with_tolerances(zones, _tolerances(mechanism, zones, asked.part(good)))
        outcome = empty_outcome(zones, grid)
        run_zones(mechanism, zones, grid, options, device, outcome, lambda _: None)
        status[good] = outcome.status
        done = outcome.status == Status.DONE
        first, last = outcome.amounts[done, 0, :count], outcome.amounts[done, 1, :count]
        if mechanism.molecular:
            first, last = (one / dense[done, None] for one in (first, last))
        released[good[done]] = (first - last) @ energy
        burnt[good[done]] = last * weight
        if options.neutrinos:
            carried[good[done]] = _carried(
                mechanism, heating, options, outcome.amounts[done], hot[done], dense[done],
                grid[1],
            )  # fmt: skip
    failed = failures(status.reshape(cells), ("cell",) * len(cells))
    if failed:
        warn(" ".join(failed.values()), FailureWarning)
    return Burned(
        burnt.reshape(*cells, count), released.reshape(cells), status.reshape(cells),
        carried.reshape(cells),
    )  # fmt: skip


def _carried(
    mechanism: Mechanism,
    heating: int,
    options: Options,
    amounts: np.ndarray,
    hot: np.ndarray,
    dense: np.ndarray,
    duration: float,
) -> np.ndarray:
    """Energy that thermal neutrinos carried off [erg/g]; `amounts` [cell, time, variable]."""
    charge, state = mechanism.thermo.charge, options.state
    count = charge.size
    nuclei = np.ascontiguousarray(amounts[:, :, :count])
    both = np.stack([dense, dense], axis=1)
    temperature = np.stack([hot, hot], axis=1)
    if heating != FIXED:
        temperature = np.ascontiguousarray(amounts[:, :, count])
    if heating == PRESSURE:
        both = densities_at_pressure(state, temperature, dense, nuclei, charge)
    losses = losses_at(temperature, both, nuclei, charge)
    return np.asarray(duration * losses.mean(axis=1))


def input_status(hot: np.ndarray, dense: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Status of the input of every cell, shape [cell_count]."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(hot) & np.isfinite(dense) & np.isfinite(fractions).all(axis=1)
        sound = (hot > 0.0) & (dense > 0.0) & (fractions.min(axis=1) >= -NEGATIVE)
        sound &= np.abs(fractions.sum(axis=1) - 1.0) <= SUM
    found = np.where(sound, Status.DONE, Status.INVALID_INPUT)
    return np.where(finite, found, Status.NOT_FINITE).astype(np.uint8)


def clipped(fractions: np.ndarray) -> np.ndarray:
    """Mass fractions with negative values set to 0 and the sums kept."""
    positive = np.maximum(fractions, 0.0)
    scale = fractions.sum(axis=1, keepdims=True) / positive.sum(axis=1, keepdims=True)
    return np.where((fractions < 0.0).any(axis=1, keepdims=True), positive * scale, fractions)


def _zones(
    mechanism: Mechanism, hot: np.ndarray, dense: np.ndarray, specific: np.ndarray, heating: int
) -> Zones:
    """Cells as zones; `specific` is in mol/g."""
    amounts = specific * dense[:, None] if mechanism.molecular else specific
    if heating != FIXED:
        amounts = np.concatenate([amounts, hot[:, None]], axis=1)
    given_density = np.ones((hot.size, 1)) if mechanism.molecular else dense[:, None].copy()
    if mechanism.molecular and heating == PRESSURE:
        given_density = (GAS_CONSTANT * hot * (specific * dense[:, None]).sum(axis=1))[:, None]
    history = ConditionHistory(np.zeros(1), hot[:, None].copy(), given_density)
    return Zones(hot.size, history, np.ascontiguousarray(amounts), heating, True)


# --- CUDA -----------------------------------------------------------------------------------------


def _on_device(
    network: ReactionNetwork,
    mechanism: Mechanism,
    given: dict[str, Any],
    grid: np.ndarray,
    heating: int,
    options: Options,
    least: tuple[float, float],
    asked: Tolerances,
) -> Burned:
    cells = _check_shapes(network, given)
    device = foreign.holding(given["temperature"])
    arrays = {}
    for name, value in given.items():
        arrays[name] = device.view(value)
        if arrays[name].dtype != np.float64 or not arrays[name].is_c_contiguous():
            raise PlanError(
                f"{name} is an array of {arrays[name].dtype} on the device; expected float64, "
                "contiguous with the species last"
            )
    weight, energy = _scales(network, mechanism)
    total, count = int(np.prod(cells)), weight.size
    hot, dense = (arrays[name].reshape(total) for name in ("temperature", "density"))
    fractions = arrays["mass_fraction"].reshape(total, count)
    # One cell on the host determines the kernel and the tolerance of traces.
    here, there, first = (device.get(array[:1]) for array in (hot, dense, fractions))
    cell = _zones(mechanism, here, there, first / weight, heating)
    tolerances: Any = ()
    if asked.by_zone:
        tolerances = _tolerances(mechanism, cell, asked)
        cell = with_tolerances(cell, tolerances[:1])
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
    chunk = zones_at_once(device, 2 * width + 5 + asked.by_zone * (width + 1))
    for start, stop in devices.spans(total, chunk):
        part = slice(start, stop)
        out = device.empty((stop - start, 2, width), np.float64)
        inside = device.empty((stop - start, 1), np.float64)
        device.run(
            load, stop - start, fractions[part], hot[part], dense[part], tables[0],
            int(mechanism.molecular), int(heating == PRESSURE), *least, inside, out,
            checked[part],
        )  # fmt: skip
        own = device.put(tolerances[part]) if asked.by_zone else ()
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
DONE, NOT_FINITE, INVALID_INPUT, SKIPPED = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.INVALID_INPUT), int(Status.SKIPPED)
)  # fmt: skip


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
    if not finite:
        code = NOT_FINITE
    elif not sound:
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
