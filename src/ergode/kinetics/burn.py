"""Burning for a hydrodynamics code: each cell is a zone, integrated for one time step.

NumPy arrays are burnt on any device. Arrays on a GPU that have the CUDA array interface (CuPy,
PyTorch, JAX, Numba) are read in place, and the results stay on that GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import devices
from ergode.core.arguments import check_switch, choice, integer
from ergode.core.calls.launch import warn
from ergode.core.devices import foreign
from ergode.core.errors import FailureWarning, ModelError, PlanError
from ergode.core.status import Status, failures
from ergode.kinetics.burn_on_device import NEGATIVE, SUM, burn_on_device
from ergode.kinetics.cells import Burned, check_shapes, scales_of, tolerance_rows, zones_of_cells
from ergode.kinetics.conditions import HEATING
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import choose
from ergode.kinetics.network.to_tables import Mechanism, to_tables
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    StateName,
    bindings_of_state,
    densities_at_pressure,
    warn_of_pairs,
)
from ergode.kinetics.physics.neutrinos import losses_at
from ergode.kinetics.tables import FIXED, PRESSURE
from ergode.kinetics.tolerances import (
    BY_ZONE,
    USUAL_RTOL,
    Tolerances,
    number,
    tolerances_of,
    with_tolerances,
)
from ergode.kinetics.validity import warn_of_coupling, warn_of_fits, warn_of_polynomials
from ergode.models.reactions.network import ReactionNetwork


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
    method: Literal["rodas4", "rosenbrock23", "bdf", "asymptotic"] = "rodas4",
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
        [..., species_count] or [..., 1]. Those of cells on a device may be on the host, or there.
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
        Shapes do not fit, values are masked, the duration or a limit is negative, or molecules have
        neutrinos.
    PlanError
        An option is unknown, or device arrays are not contiguous or not float64.

    Warns
    -----
    FailureWarning
        For host arrays: cells failed; `status` tells which, and how.
    AccuracyWarning
        For host arrays: ``"degenerate"`` matter would contain electron-positron pairs; fits of
        REACLIB grow without bound in cells below 1e7 K or above 1e10 K; NASA polynomials are used
        outside of their temperatures; or cells are too strongly coupled for ``"weak"`` screening.

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
    if mechanism.has_formulas:
        raise ModelError("a coefficient is a RateExpression; burn() has none, integrate() does")
    if mechanism.has_sunlight:
        raise ModelError("a coefficient is a Photolysis; burn() has no sunlight, integrate() does")
    choice("heating", heating, HEATING, error=ModelError)
    chosen, _ = choose(method, auto=False)
    given = {"temperature": temperature, "density": density, "mass_fraction": mass_fraction}
    for name, value in given.items():
        if np.ma.is_masked(value):
            raise ModelError(f"{name} has masked values; expected the cells to burn, without masks")
    there = [name for name, a in given.items() if foreign.is_on_cuda(a)]
    cells = _shape_of(temperature)
    # Tolerances of cells on a device stay there.
    kept = {
        name: value
        for name, value, shape in (("rtol", rtol, cells), ("atol", atol, (*cells, 1)))
        if there and foreign.is_on_cuda(value) and len(_shape_of(value)) == len(shape) > 0
    }
    asked = tolerances_of(
        network, USUAL_RTOL if "rtol" in kept else rtol, None if "atol" in kept else atol, cells
    )
    by_zone = asked.by_zone or bool(kept)
    chosen.refuse(chosen.why_unsupported(mechanism, HEATING[heating], by_zone=by_zone))
    time = number(duration)
    if not 0 <= time < np.inf:
        raise ModelError(f"duration is {duration!r}; expected seconds, 0 or more")
    limit = integer("max_steps", max_steps, 1, 2**31 - 1)
    given_rtol = BY_ZONE if by_zone else float(asked.relative[0])
    given_atol = None
    if atol is not None and not by_zone:
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
    if there and len(there) < len(given):
        here = next(name for name in given if name not in there)
        raise PlanError(f"{there[0]} is on a CUDA device and {here} is not; expected all on one")
    grid = np.array([0.0, time])
    mode = HEATING[heating]
    if there:
        return burn_on_device(network, mechanism, given | kept, grid, mode, options, least, asked)
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
    cells = check_shapes(network, arrays)
    weight, energy = scales_of(network, mechanism)
    hot, dense = (arrays[name].reshape(-1) for name in ("temperature", "density"))
    count = weight.size
    given_fractions = arrays["mass_fraction"].reshape(hot.size, count)
    status = input_status(hot, dense, given_fractions)
    status[(status == Status.DONE) & ((hot < least[0]) | (dense < least[1]))] = Status.SKIPPED
    good = np.flatnonzero(status == Status.DONE)
    burnt, released, carried = given_fractions.copy(), np.zeros(hot.size), np.zeros(hot.size)
    if good.size and grid[1] > 0.0:
        hot, dense, fractions = hot[good], dense[good], clipped(given_fractions[good])
        if mechanism.nuclear:
            warn_of_fits(network, hot, "pass minimum_temperature=1e7")
        if mechanism.nuclear and heating != FIXED:
            electrons = (fractions / weight) @ mechanism.thermo.charge
            warn_of_pairs(options.state, hot, dense, electrons)
        zones = zones_of_cells(mechanism, hot, dense, fractions / weight, heating)
        if asked.by_zone:
            zones = with_tolerances(zones, tolerance_rows(mechanism, zones, asked.part(good)))
        outcome = empty_outcome(zones, grid)
        run_zones(mechanism, zones, grid, options, device, outcome, lambda _: None)
        if mechanism.nuclear:
            warn_of_coupling(mechanism, hot, dense, fractions / weight)
        else:
            hottest = hot[:, None] if heating == FIXED else outcome.amounts[:, :, count]
            warn_of_polynomials(network, hottest, outcome.amounts[:, :, :count])
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
    nuclei, electrons = amounts[:, :, :count].sum(axis=2), amounts[:, :, :count] @ charge
    both = np.stack([dense, dense], axis=1)
    temperature = np.stack([hot, hot], axis=1)
    if heating != FIXED:
        temperature = np.ascontiguousarray(amounts[:, :, count])
    if heating == PRESSURE:
        both = densities_at_pressure(state, temperature, dense, nuclei, electrons)
    losses = losses_at(temperature, both, nuclei, electrons)
    return np.asarray(duration * losses.mean(axis=1))


def input_status(hot: np.ndarray, dense: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Status of the input of every cell, shape [cell_count]."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(hot) & np.isfinite(dense) & np.isfinite(fractions).all(axis=1)
        sound = (hot > 0.0) & (dense > 0.0) & (fractions.min(axis=1) >= -NEGATIVE)
        sound &= np.abs(fractions.sum(axis=1) - 1.0) <= SUM
    return np.where(finite & sound, Status.DONE, Status.INVALID_INPUT).astype(np.uint8)


def clipped(fractions: np.ndarray) -> np.ndarray:
    """Mass fractions with negative values set to 0 and the sums kept."""
    positive = np.maximum(fractions, 0.0)
    scale = fractions.sum(axis=1, keepdims=True) / positive.sum(axis=1, keepdims=True)
    return np.where((fractions < 0.0).any(axis=1, keepdims=True), positive * scale, fractions)
