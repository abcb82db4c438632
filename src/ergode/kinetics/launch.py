"""Zones on a device: tables put there, kernels chosen and started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.status import Status
from ergode.kinetics.block.runner import Launch, UnrolledLaunch, run_on_device, shape_for
from ergode.kinetics.block.schedule import block_system_of
from ergode.kinetics.conditions import Zones
from ergode.kinetics.explicit import loop
from ergode.kinetics.explicit.asymptotic import FLUX_FRACTION, MASS_TOLERANCE, Control
from ergode.kinetics.explicit.flows import ExplicitSystem, explicit_system_of
from ergode.kinetics.implicit import rosenbrock
from ergode.kinetics.implicit.system import coupled, system_of
from ergode.kinetics.implicit.tableaus import TABLEAUS, method_of
from ergode.kinetics.implicit.unrolled import can_be_unrolled
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.equation_of_state import EquationOfState, bindings_of_state
from ergode.kinetics.tables import FIXED, BlockSystem, System
from ergode.kinetics.tolerances import absolute_tolerances

IMPLICIT = tuple(TABLEAUS)
EXPLICIT = {
    "asymptotic": {"QUASI_STEADY": False, "PARTIAL": False},
    "quasi-steady-state": {"QUASI_STEADY": True, "PARTIAL": False},
    "partial-equilibrium": {"QUASI_STEADY": False, "PARTIAL": True},
    "partial-equilibrium-quasi-steady-state": {"QUASI_STEADY": True, "PARTIAL": True},
}
"""Explicit methods, and what kernels are specialised to for each."""
METHODS = (*IMPLICIT, *EXPLICIT)

_MANY_ZONES_PER_CORE = 64
"""From so many zones on a small network is written out for threads of a CUDA device."""


@dataclass(frozen=True)
class Options:
    """How to integrate.

    Attributes
    ----------
    method : str
    rtol : float
    atol : float, tuple of float or None
        Of every amount, or of each species.
    reference_control : bool
    step_limit : int
    state : str or EquationOfState
        Of nuclei that heat themselves.
    """

    method: str
    rtol: float
    atol: float | tuple[float, ...] | None
    reference_control: bool
    step_limit: int
    state: str | EquationOfState = "ideal"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What kernels fill.

    Attributes
    ----------
    amounts : ndarray of float64, shape [zone_count, time_count, variable_count]
    status : ndarray of uint8, shape [zone_count]
    taken, repeated : ndarray of int64, shape [zone_count]
    defect, peak : ndarray of float64, shape [zone_count]
    """

    amounts: np.ndarray
    status: np.ndarray
    taken: np.ndarray
    repeated: np.ndarray
    defect: np.ndarray
    peak: np.ndarray

    @classmethod
    def empty(cls, zones: Zones, grid: np.ndarray) -> Outcome:
        """NaN everywhere but at the first time."""
        amounts = np.full((zones.count, grid.size, zones.amounts.shape[1]), np.nan)
        amounts[:, 0] = zones.amounts
        return cls(
            amounts,
            np.full(zones.count, Status.NOT_RUN, np.uint8),
            np.zeros(zones.count, np.int64),
            np.zeros(zones.count, np.int64),
            np.zeros(zones.count),
            np.full(zones.count, np.nan),
        )

    def let_go(self) -> None:
        """Copy what kernels that still compute write to; zones that they leave are `NOT_RUN`."""
        for name in ("status", *(one.name for one in fields(self) if one.name != "status")):
            object.__setattr__(self, name, np.array(getattr(self, name)))


def bindings_of(
    mechanism: Mechanism, zones: Zones, state: str | EquationOfState = "ideal"
) -> dict[str, Any]:
    """What kernels are specialised to: kinds of network and of matter, never a size."""
    reversible = mechanism.rates.reverse.size > 0
    timed = zones.history.times.size > 1
    varies = mechanism.has_third_bodies or mechanism.has_plasma or timed
    bindings = {
        "DYNAMIC": zones.heating != FIXED or varies,
        "TIMED": timed,
        "HEATING": zones.heating,
        "THIRD_BODIES": mechanism.has_third_bodies,
        "PLASMA": mechanism.has_plasma,
        "REVERSIBLE": reversible,
        "MOLECULES": mechanism.molecular and (reversible or zones.heating != FIXED),
    }
    heats = zones.heating != FIXED and mechanism.nuclear
    return bindings | bindings_of_state(state if heats else "ideal")


@lru_cache(maxsize=32)
def _tables(mechanism: Mechanism, heating: int) -> System:
    nothing = np.zeros(mechanism.structure.species_count + (heating != FIXED))
    return system_of(mechanism, nothing, heating=heating)


@lru_cache(maxsize=16)
def _block_tables(mechanism: Mechanism, heating: int, few: bool) -> BlockSystem:
    system = _tables(mechanism, heating)
    threads, _ = shape_for(system.absolute.size, False, few)
    return block_system_of(system, coupled(mechanism, heating)[0], threads)


@lru_cache(maxsize=32)
def _explicit_tables(mechanism: Mechanism, partial: bool, blocks: bool) -> ExplicitSystem:
    nothing = np.zeros(mechanism.structure.species_count)
    return explicit_system_of(mechanism, nothing, partial=partial, blocks=blocks)


def launch_of(
    mechanism: Mechanism,
    heating: int,
    bindings: dict[str, Any],
    absolute: np.ndarray,
    options: Options,
    device: Device,
    zone_count: int | None = None,
) -> Launch | UnrolledLaunch:
    """A kernel on a CUDA device with everything of a network, ready for zones; many, or so many."""
    few = zone_count is not None and zone_count <= device.core_count
    many = zone_count is None or zone_count >= _MANY_ZONES_PER_CORE * device.core_count
    return _launch(
        mechanism, heating, tuple(bindings.items()), tuple(absolute.tolist()), options, device, few,
        many,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _launch(
    mechanism: Mechanism,
    heating: int,
    bound: tuple[tuple[str, Any], ...],
    tolerances: tuple[float, ...],
    options: Options,
    device: Device,
    few: bool,
    many: bool,
) -> Launch | UnrolledLaunch:
    bindings, absolute = dict(bound), np.array(tolerances)
    options_of: dict[str, Any] = {"rtol": options.rtol, "step_limit": options.step_limit}
    if options.method in EXPLICIT:
        bindings |= EXPLICIT[options.method]
        flows = _explicit_tables(mechanism, bindings["PARTIAL"], True)
        return Launch(
            device, bindings, flows._replace(absolute=absolute), _control(mechanism, options),
            few=few, **options_of,
        )  # fmt: skip
    method = method_of(TABLEAUS[options.method])
    system = _tables(mechanism, heating)._replace(absolute=absolute)
    if many and not bindings["DYNAMIC"] and can_be_unrolled(system):
        return UnrolledLaunch(device, bindings, system, method, **options_of)
    blocks = _block_tables(mechanism, heating, few)._replace(absolute=absolute)
    return Launch(device, bindings, blocks, method, few=few, **options_of)


@lru_cache(maxsize=64)
def _cpu_kernel(body: Callable[..., Any], bound: tuple[tuple[str, Any], ...]) -> kernels.Kernel:
    """Kept, for what a user's own functions are made of is gathered only once."""
    return kernels.cpu_kernel(body, bindings=dict(bound))


def _control(mechanism: Mechanism, options: Options) -> Control:
    return Control(
        FLUX_FRACTION, MASS_TOLERANCE, options.rtol, options.reference_control, mechanism.nuclear
    )


def run_zones(
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    options: Options,
    device: Device,
    outcome: Outcome,
    report: Callable[[int], None],
) -> None:
    """Integrate all zones and fill `outcome`."""
    bindings = bindings_of(mechanism, zones, options.state)
    absolute = absolute_tolerances(mechanism, zones, options.atol, options.rtol)

    def finished(start: int, stop: int) -> None:
        report(stop - start)

    if device.is_cuda:
        launch = launch_of(
            mechanism, zones.heating, bindings, absolute, options, device, zones.count
        )
        run_on_device(launch, zones, grid, outcome, finished)
    elif options.method in IMPLICIT:
        method = method_of(TABLEAUS[options.method])
        system = _tables(mechanism, zones.heating)._replace(absolute=absolute)
        kernel = _cpu_kernel(rosenbrock.integrate_cpu, tuple(bindings.items()))
        device.run(
            kernel, zones.count, system, method, zones.history, grid, options.rtol,
            options.step_limit, outcome.amounts, outcome.status, outcome.taken, outcome.repeated,
            outcome.defect, outcome.peak, finished=finished,
        )  # fmt: skip
    else:
        bindings |= EXPLICIT[options.method]
        flows = _explicit_tables(mechanism, bindings["PARTIAL"], False)._replace(absolute=absolute)
        kernel = _cpu_kernel(loop.explicit_cpu, tuple(bindings.items()))
        device.run(
            kernel, zones.count, flows, _control(mechanism, options), zones.history, grid,
            options.step_limit, outcome.amounts, outcome.status, outcome.taken, outcome.repeated,
            outcome.defect, finished=finished,
        )  # fmt: skip
