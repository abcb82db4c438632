"""The runner of implicit methods: tables, kernels and launches on both devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.errors import PlanError
from ergode.core.group import BLOCK, KIND
from ergode.core.math.rosenbrock import Tableau, coefficients_of
from ergode.kinetics.block.elimination import tiles
from ergode.kinetics.block.launch import (
    BlockLaunch,
    Launch,
    ThreadLaunch,
    are_few,
    are_many,
    shape_for,
)
from ergode.kinetics.block.schedule import INDEXABLE, block_system_of
from ergode.kinetics.conditions import Zones
from ergode.kinetics.implicit import by_block
from ergode.kinetics.implicit.rosenbrock import integrate_cpu
from ergode.kinetics.implicit.system import coupled, system_of
from ergode.kinetics.implicit.unrolled import (
    can_be_unrolled,
    integrate_unrolled,
    unrolled_bindings,
)
from ergode.kinetics.kernel_options import DYNAMIC, FED
from ergode.kinetics.launch import Problem, common_bindings, cpu_kernel, with_common_rows
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.physics.electron_table import electron_table
from ergode.kinetics.tables import FIXED, BlockSystem, Outcome, System

_Tables = TypeVar("_Tables", System, BlockSystem)


@dataclass(frozen=True)
class ImplicitRunner:
    """Runs a Rosenbrock method.

    Parameters
    ----------
    tableau : Tableau
    """

    tableau: Tableau

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
        options = problem.options
        system = _with_state(_tables(*problem.case), problem)
        bound = dict(problem.bound + problem.matter) | common_bindings(problem.mechanism)
        device.run(
            cpu_kernel(integrate_cpu, tuple(bound.items())), zones.count,
            system._replace(absolute=problem.tolerances), coefficients_of(self.tableau),
            with_common_rows(zones.history, problem), grid, options.rtol, options.max_steps,
            outcome,
            finished=finished, piece=1,
        )  # fmt: skip

    def launch(self, problem: Problem, device: Device, zone_count: int) -> Launch:
        """A prepared launch of the kernel on a CUDA device for this number of zones; cached."""
        few, many = are_few(zone_count, device), are_many(zone_count, device)
        return _launch(self.tableau, problem, device, few, many)


def _with_state(system: _Tables, problem: Problem) -> _Tables:
    """The tables, with that of the equation of state where the zones heat themselves."""
    state = problem.options.state
    if problem.heating == FIXED or not problem.mechanism.nuclear or state != "helmholtz":
        return system
    electrons = electron_table()
    return system._replace(thermo=system.thermo._replace(electrons=electrons))


@lru_cache(maxsize=32)
def _tables(mechanism: Mechanism, heating: int, flow: int, moving: int) -> System:
    nothing = np.zeros(len(coupled(mechanism, heating, flow, moving)[0]))
    return system_of(mechanism, nothing, heating=heating, flow=flow, moving=moving)


@lru_cache(maxsize=16)
def _block_tables(
    mechanism: Mechanism, heating: int, flow: int, moving: int, few: bool
) -> BlockSystem:
    case = mechanism, heating, flow, moving
    system = _tables(*case)
    threads, _ = shape_for(system.absolute.size, False, few)
    return block_system_of(system, coupled(*case)[0], threads)


@lru_cache(maxsize=16)
def _launch(tableau: Tableau, problem: Problem, device: Device, few: bool, many: bool) -> Launch:
    bindings = dict(problem.bound + problem.matter)
    options = (problem.options.rtol, problem.options.max_steps)
    case = problem.case
    system = _with_state(_tables(*case), problem)
    if many and not bindings[DYNAMIC] and can_be_unrolled(system):
        system = system._replace(absolute=problem.tolerances)
        return thread_launch(device, bindings, system, tableau, options)
    blocks = _with_state(_block_tables(*case, few), problem)
    blocks = blocks._replace(absolute=problem.tolerances)
    return block_launch(device, bindings, blocks, tableau, options, few=few)


def block_launch(
    device: Device,
    bindings: dict[Any, Any],  # as from `launch.bindings_of` and `launch.matter_bindings`
    system: BlockSystem,
    tableau: Tableau,
    options: tuple[float, int],  # rtol and max_steps
    *,
    few: bool = False,  # whether each multiprocessor has at most one zone
    # Threads of a block; the default depends on the size of the network.
    threads: int | None = None,
) -> BlockLaunch:
    """A kernel with a block for every zone."""
    if max(system.entry_count, system.flows.value_count) >= INDEXABLE:
        raise PlanError(
            f"the factors of the Jacobian have {system.entry_count} entries; at most "
            f"{INDEXABLE - 1} are possible on '{device.name}': use device='cpu'"
        )
    usual, registers = shape_for(system.absolute.size, False, few)
    threads = threads or usual
    stages = len(tableau.m)
    kernel = kernels.cuda_kernel(
        by_block.integrate_block, registers=registers,
        bindings={**bindings, **tiles(system, threads), KIND: BLOCK},
    )  # fmt: skip
    tables = (
        put_table(device, system), by_block.partial_count(system),
        put_table(device, coefficients_of(tableau)),
    )  # fmt: skip
    return BlockLaunch(
        device, kernel, tables, options, threads=threads,
        shared_count=by_block.shared_count(system, stages, bindings[DYNAMIC], bindings[FED]),
        scratch_count=by_block.scratch_count(system),
    )  # fmt: skip


def thread_launch(
    device: Device,
    bindings: dict[Any, Any],
    system: System,
    tableau: Tableau,
    options: tuple[float, int],
) -> ThreadLaunch:
    """A kernel with a thread for every zone, in which a small network is unrolled."""
    coefficients = coefficients_of(tableau)
    kernel = kernels.cuda_kernel(
        integrate_unrolled, bindings=bindings | unrolled_bindings(system, coefficients)
    )
    tables = put_table(device, system), put_table(device, coefficients)
    return ThreadLaunch(device, kernel, tables, options)
