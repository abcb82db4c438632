"""Burning for a hydrodynamics code: each cell is a zone, integrated for one time step.

NumPy arrays are burnt on any device. Arrays on a GPU that have the CUDA array interface (CuPy,
PyTorch, JAX, Numba) are read in place, and the results stay on that GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices, kernels
from ergode.core.arguments import integer
from ergode.core.errors import FailureWarning, ModelError, PlanError
from ergode.core.launch import warn
from ergode.core.status import Status, failures
from ergode.kinetics.block.launch import zones_at_once
from ergode.kinetics.conditions import HEATING, Zones, molar_masses
from ergode.kinetics.launch import Options, empty_outcome, problem_of, run_zones
from ergode.kinetics.methods import choose
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.physics.energy import enthalpy
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    StateName,
    bindings_of_state,
    warn_of_pairs,
)
from ergode.kinetics.tables import FIXED, UNSWEPT, ConditionHistory
from ergode.kinetics.tolerances import (
    asked_tolerances,
    number,
    relative_tolerance,
)
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.thermochemistry import NasaPolynomials

_STANDARD_TEMPERATURE = 298.15


class Burned(NamedTuple):
    """The result of a step of burning, in arrays of the library that the input came from.

    Attributes
    ----------
    mass_fraction : array of float64, shape [..., species_count]
        A cell that failed keeps its input.
    energy : array of float64, shape [...]
        Set free by reactions [erg/g], neutrinos included: of nuclei rest energy, of molecules the
        enthalpy of formation at 298.15 K. Zero in cells that failed.
    status : array of uint8, shape [...]
        How each cell ended (see `ergode.Status`). A cell whose input is not finite is
        ``NOT_FINITE``, and so is one that heats itself beyond the table of ``"helmholtz"``.
        ``INVALID_INPUT`` is a temperature or density that is not positive, a mass fraction below
        -1e-6, or mass fractions whose sum differs from one by more than 0.01. Such a cell does not
        affect others.
    """

    mass_fraction: Any
    energy: Any
    status: Any


def burn(
    network: ReactionNetwork,
    temperature: Any,
    density: Any,
    mass_fraction: Any,
    duration: float,
    *,
    heating: Literal["constant-volume"] | None = None,
    equation_of_state: StateName | EquationOfState = "ideal",
    screening: Literal["weak", "chugunov"] | None = None,
    method: Literal["rodas4", "rosenbrock23", "asymptotic"] = "rodas4",
    rtol: float = 1e-4,
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
    heating : {None, "constant-volume"}
        Whether the energy released by reactions changes the temperature of a cell within the step.
    equation_of_state, screening, method, rtol, atol, max_steps
        See `integrate`.
    device : str or Device
        Where to burn host arrays (see `integrate`). Arrays on a CUDA device are burnt there.

    Returns
    -------
    Burned
        ``mass_fraction``, ``energy`` and ``status``, in arrays of the library of the input. Of
        arrays on a device a single cell is copied to the host. The call may return before the
        device is done.

    Raises
    ------
    ModelError
        Shapes do not fit, or the duration is negative.
    PlanError
        An option is unknown, or device arrays are not contiguous or not float64.

    Warns
    -----
    FailureWarning
        Of host arrays: cells failed; `status` tells which, and how.
    AccuracyWarning
        Of host arrays: ``"degenerate"`` matter would have pairs of electrons and positrons.

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
    >>> x, energy, status = ergode.kinetics.burn(
    ...     network, np.full(3, 3e9), np.full(3, 1e7), np.array([[1.0, 0.0]] * 3), 1e-6,
    ...     device="cpu",
    ... )
    >>> bool((energy > 0).all()), status.tolist()
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
    if heating not in (None, "constant-volume"):
        raise ModelError(f"heating is {heating!r}; expected None or 'constant-volume'")
    chosen, _ = choose(method, auto=False)
    chosen.refuse(chosen.why_unsupported(HEATING[heating]))
    rtol = relative_tolerance(rtol)
    time = number(duration)
    if not 0 <= time < np.inf:
        raise ModelError(f"duration is {duration!r}; expected seconds, 0 or more")
    limit = integer("max_steps", max_steps, 1, 2**31 - 1)
    tolerances = None if atol is None else _asked(network, mechanism, atol, rtol)
    options = Options(chosen.runner, rtol, tolerances, False, limit, equation_of_state)
    given = {"temperature": temperature, "density": density, "mass_fraction": mass_fraction}
    there = [name for name, a in given.items() if devices.is_on_cuda(a)]
    if there and len(there) < len(given):
        here = next(name for name in given if name not in there)
        raise PlanError(f"{there[0]} is on a CUDA device and {here} is not; expected all on one")
    grid = np.array([0.0, time])
    mode = HEATING[heating]
    if there:
        return _on_device(network, mechanism, given, grid, mode, options)
    return _on_host(network, mechanism, given, grid, mode, options, devices.resolve(device))


def _asked(
    network: ReactionNetwork, mechanism: Mechanism, atol: Any, rtol: float
) -> tuple[float, ...]:
    """Absolute tolerances of all species; the defaults assume a concentration of 1 mol/cm3."""
    count = len(network.species)
    history = ConditionHistory(np.zeros(1), np.ones((1, 1)), np.ones((1, 1)))
    one = Zones(1, history, np.ones((1, count)), FIXED, True)
    return tuple(asked_tolerances(network, mechanism, one, atol, rtol).tolist())


def _check_shapes(network: ReactionNetwork, given: dict[str, Any]) -> tuple[int, ...]:
    """Shape of the grid of cells."""
    cells = tuple(given["temperature"].shape)
    wanted = {"density": cells, "mass_fraction": (*cells, len(network.species))}
    for name, shape in wanted.items():
        if tuple(given[name].shape) != shape:
            raise ModelError(
                f"{name} has shape {tuple(given[name].shape)}; expected {shape}, for temperature "
                f"has {cells} and the network {len(network.species)} species"
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
    assert isinstance(known, NasaPolynomials)
    return float(enthalpy(known, np.array(_STANDARD_TEMPERATURE)))


# --- host -----------------------------------------------------------------------------------------


def _on_host(
    network: ReactionNetwork,
    mechanism: Mechanism,
    given: dict[str, Any],
    grid: np.ndarray,
    heating: int,
    options: Options,
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
    good = np.flatnonzero(status == Status.DONE)
    burnt, released = given_fractions.copy(), np.zeros(hot.size)
    if good.size and grid[1] > 0.0:
        hot, dense, fractions = hot[good], dense[good], clipped(given_fractions[good])
        if mechanism.nuclear and heating != FIXED:
            electrons = (fractions / weight) @ mechanism.thermo.charge
            warn_of_pairs(options.state, hot, dense, electrons)
        zones = _zones(mechanism, hot, dense, fractions / weight, heating)
        outcome = empty_outcome(zones, grid)
        run_zones(mechanism, zones, grid, options, device, outcome, lambda _: None)
        status[good] = outcome.status
        done = outcome.status == Status.DONE
        first, last = outcome.amounts[done, 0, :count], outcome.amounts[done, 1, :count]
        if mechanism.molecular:
            first, last = (one / dense[done, None] for one in (first, last))
        released[good[done]] = (first - last) @ energy
        burnt[good[done]] = last * weight
    failed = failures(status.reshape(cells), ("cell",))
    if failed:
        warn(" ".join(failed.values()), FailureWarning)
    return Burned(burnt.reshape(*cells, count), released.reshape(cells), status.reshape(cells))


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
) -> Burned:
    cells = _check_shapes(network, given)
    device = devices.holding(given["temperature"])
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
    launch = options.runner.launch(problem_of(mechanism, cell, options), device, total)
    load, store = (kernels.for_each(body) for body in (_load, _store))
    tables = device.put(weight), device.put(energy)
    times, grid_there = device.put(np.zeros(1)), device.put(grid)
    unswept = device.put(UNSWEPT)
    burned = Burned(
        device.empty((total, count), np.float64), device.empty(total, np.float64),
        device.empty(total, np.uint8),
    )  # fmt: skip
    checked = device.empty(total, np.uint8)
    width = count + (heating != FIXED)
    chunk = zones_at_once(device, 2 * width + 5)
    for start, stop in devices.spans(total, chunk):
        part = slice(start, stop)
        out = device.empty((stop - start, 2, width), np.float64)
        inside = device.empty((stop - start, 1), np.float64)
        device.run(
            load, stop - start, fractions[part], hot[part], dense[part], tables[0],
            int(mechanism.molecular), inside, out, checked[part],
        )  # fmt: skip
        history = ConditionHistory(times, hot[part].reshape(-1, 1), inside, unswept)
        status = launch.start(history, grid_there, out).status
        device.run(
            store, stop - start, out, dense[part], fractions[part], *tables,
            int(mechanism.molecular), checked[part], status, int(grid[1] > 0.0),
            Burned(*(array[part] for array in burned)),
        )  # fmt: skip
    shapes = (*cells, count), cells, cells
    shaped = (array.reshape(shape) for array, shape in zip(burned, shapes, strict=True))
    return Burned(*(device.like(given["temperature"], array) for array in shaped))


# --- device functions -----------------------------------------------------------------------------


NEGATIVE, SUM = 1e-6, 0.01
"""Largest accepted magnitude of a negative mass fraction, and error of the sum of fractions."""
INFINITY, NOT_A_NUMBER = float("inf"), float("nan")
DONE, NOT_FINITE, INVALID_INPUT = (
    int(Status.DONE), int(Status.NOT_FINITE), int(Status.INVALID_INPUT)
)  # fmt: skip


def _load(  # type: ignore[no-untyped-def]
    zone, fractions, temperature, density, weight, molecular, inside, out, checked
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
    checked[zone] = code
    clip = total / positive if positive > total else 1.0
    for i in range(weight.size):
        x = max(fractions[zone, i], 0.0) * clip
        # A zone with NaN ends at once.
        out[zone, 0, i] = x / weight[i] * scale if code == DONE else NOT_A_NUMBER
    if out.shape[2] > weight.size:
        out[zone, 0, weight.size] = temperature[zone]


def _store(  # type: ignore[no-untyped-def]
    zone, out, density, given, weight, energy, molecular, checked, ended, burns, burned
):
    scale = density[zone] if molecular else 1.0
    code = checked[zone]
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
