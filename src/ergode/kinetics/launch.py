"""Shared by the runners of all methods: options, outcome, and the bindings of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ergode.core import kernels
from ergode.core.calls import resident
from ergode.core.devices import Device
from ergode.core.status import Status
from ergode.kinetics import kernel_options
from ergode.kinetics.block.launch import Launch, run_on_device
from ergode.kinetics.conditions import Zones
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.equation_of_state import (
    EquationOfState,
    bindings_of_energy,
    bindings_of_state,
)
from ergode.kinetics.tables import FIXED, PRESSURE, UNSWEPT, ConditionHistory, Outcome
from ergode.kinetics.tolerances import absolute_tolerances


class Runner(Protocol):
    """How a method integrates zones on a device."""

    def run_on_cpu(
        self,
        problem: Problem,
        zones: Zones,
        grid: np.ndarray,
        device: Device,
        outcome: Outcome,
        finished: Callable[[int, int], None],
    ) -> None:
        """Integrate all zones and fill `outcome`."""

    def launch(self, problem: Problem, device: Device, zone_count: int) -> Launch:
        """A kernel on a CUDA device with the tables of a network, for this number of zones."""


@dataclass(frozen=True)
class Options:
    """How to integrate."""

    runner: Runner  # of the method
    rtol: float
    # Of every amount, or of each species. Zones with tolerances of their own have neither.
    atol: float | tuple[float, ...] | None
    reference_control: bool
    max_steps: int
    state: str | EquationOfState = "ideal"  # equation of state of nuclei that heat themselves
    neutrinos: bool = False  # whether neutrinos cool them


@dataclass(frozen=True)
class Problem:
    """All that determines a kernel and its tables, except the zones."""

    mechanism: Mechanism
    heating: int  # `FIXED`, `VOLUME` or `PRESSURE`
    flow: int  # `CLOSED`, `STIRRED` or `PLUG`
    moving: int  # `STILL`, `MOBILE` or `INERT`
    tank_count: int  # of a network
    # Bindings of all kernels, and of those that may heat a zone.
    bound: tuple[tuple[Any, Any], ...]
    matter: tuple[tuple[Any, Any], ...]
    absolute: tuple[float, ...]  # absolute tolerance of each variable
    options: Options

    @property
    def case(self) -> tuple[Mechanism, int, int, int]:
        """What determines the variables and the Jacobian."""
        return self.mechanism, self.heating, self.flow, self.moving

    @property
    def tolerances(self) -> np.ndarray:
        """Absolute tolerances, shape [variable_count]."""
        return np.array(self.absolute)


def problem_of(mechanism: Mechanism, zones: Zones, options: Options) -> Problem:
    """The problem that these zones pose."""
    bound = tuple(bindings_of(mechanism, zones).items())
    matter = tuple(matter_bindings(mechanism, zones, options.state, options.neutrinos).items())
    absolute = absolute_tolerances(mechanism, zones, options.atol, options.rtol)
    return Problem(
        mechanism, zones.heating, zones.flow, zones.moving, zones.tank_count, bound, matter,
        tuple(absolute.tolist()), options,
    )  # fmt: skip


def empty_outcome(zones: Zones, grid: np.ndarray) -> Outcome:
    """An outcome before the run: NaN after the first time, and the status `NOT_RUN`."""
    shape = zones.count, grid.size, zones.amounts.shape[1]
    amounts = resident.full(shape, np.nan, np.float64)
    amounts[:, 0] = resident.beside(amounts, zones.amounts)
    return Outcome(
        amounts,
        np.full(zones.count, Status.NOT_RUN, np.uint8),
        np.zeros(zones.count, np.int64),
        np.zeros(zones.count, np.int64),
        np.zeros(zones.count),
        np.full(zones.count, np.nan),
    )


def rate_bindings(mechanism: Mechanism, heating: int) -> dict[Any, Any]:
    """Bindings of kernels that compute coefficients: kinds of network, never its size."""
    reversible, dependent = mechanism.rates.reverse.size > 0, mechanism.has_third_bodies
    return {
        kernel_options.THIRD_BODIES: dependent,
        kernel_options.MIXTURES: mechanism.has_mixtures,
        kernel_options.PLASMA: mechanism.has_plasma,
        kernel_options.POWERS: mechanism.has_powers,
        kernel_options.FORMULAS: mechanism.has_formulas,
        kernel_options.COMPOSED: mechanism.has_composed,
        kernel_options.SUNLIT: mechanism.has_sunlight,
        kernel_options.REVERSIBLE: reversible,
        kernel_options.MOLECULES: mechanism.molecular
        and (reversible or dependent or heating != FIXED),
    }


def bindings_of(mechanism: Mechanism, zones: Zones) -> dict[Any, Any]:
    """Bindings of all kernels that integrate."""
    timed = zones.history.times.size > 1
    varies = mechanism.has_third_bodies or mechanism.has_plasma or timed
    return rate_bindings(mechanism, zones.heating) | {
        kernel_options.DYNAMIC: zones.heating != FIXED or varies,
        kernel_options.TIMED: timed,
        kernel_options.SWEPT: zones.history.factors is not UNSWEPT,
        kernel_options.FLOW: zones.flow,
        kernel_options.FED: zones.is_fed,
        kernel_options.OWN_TOLERANCES: not isinstance(zones.history.tolerances, tuple),
    }


def matter_bindings(
    mechanism: Mechanism,
    zones: Zones,
    state: str | EquationOfState = "ideal",
    neutrinos: bool = False,
) -> dict[Any, Any]:
    """Additional bindings of kernels that may heat a zone."""
    heats = zones.heating != FIXED and mechanism.nuclear
    state = state if heats else "ideal"
    bound = {
        kernel_options.HEATING: zones.heating, kernel_options.NEUTRINOS: neutrinos and heats,
        kernel_options.SELF_HEATING: zones.heating != FIXED and not zones.isothermal,
        kernel_options.COMPRESSED: zones.is_compressed,
        kernel_options.MOVING: zones.moving,
        kernel_options.WALLED: zones.walled,
    }  # fmt: skip
    # An option that no kernel names is an error.
    needs_pressure = (zones.heating == PRESSURE or zones.is_compressed) and mechanism.nuclear
    return bound | (bindings_of_state(state) if needs_pressure else bindings_of_energy(state))


def common_bindings(mechanism: Mechanism) -> dict[Any, Any]:
    """Bindings of kernels that run on conditions `with_common_rows`."""
    return {kernel_options.SWEPT: True, kernel_options.OWN_TOLERANCES: True} | lit(mechanism)


def with_common_rows(history: ConditionHistory, problem: Problem) -> ConditionHistory:
    """Conditions in which factors, tolerances and, for formulas, sunlight are always there.

    Where zones have no factors or tolerances of their own, one row is for all. One kernel then
    serves single runs and sweeps.
    """
    if history.factors is UNSWEPT:
        history = history._replace(factors=np.array([problem.mechanism.rates.prefactor]))
    if isinstance(history.tolerances, tuple):
        row = [*problem.absolute, problem.options.rtol]
        history = history._replace(tolerances=np.array([row]))
    return with_light(history, problem.mechanism)


def lit(mechanism: Mechanism) -> dict[Any, Any]:
    """Bindings of kernels that run on conditions `with_light`."""
    return {kernel_options.SUNLIT: True} if mechanism.has_formulas else {}


def with_light(history: ConditionHistory, mechanism: Mechanism) -> ConditionHistory:
    """Conditions in which there is always a sunlight where coefficients are formulas."""
    if mechanism.has_formulas and isinstance(history.sunlight, tuple):
        zones, knots = history.density.shape
        history = history._replace(sunlight=np.ones((zones, knots + 1)))
    return history


@lru_cache(maxsize=64)
def cpu_kernel(body: Callable[..., Any], bound: tuple[tuple[Any, Any], ...]) -> kernels.Kernel:
    """A cached kernel: gathering the source of a user's functions takes time."""
    return kernels.cpu_kernel(body, bindings=dict(bound))


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
    problem, runner = problem_of(mechanism, zones, options), options.runner

    def finished(start: int, stop: int) -> None:
        report(stop - start)

    if device.is_cuda:
        launch = runner.launch(problem, device, zones.count)
        run_on_device(launch, zones, grid, outcome, finished)
    else:
        runner.run_on_cpu(problem, zones, grid, device, outcome, finished)
