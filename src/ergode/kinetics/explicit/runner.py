"""The runner of the explicit method: tables, kernels and launches on both devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.group import BLOCK, KIND
from ergode.kinetics.block.launch import BlockLaunch, Launch, are_few, shape_for
from ergode.kinetics.conditions import Zones
from ergode.kinetics.explicit import loop
from ergode.kinetics.explicit.asymptotic import FLUX_FRACTION, MASS_TOLERANCE, Control
from ergode.kinetics.explicit.flows import ExplicitSystem, explicit_system_of
from ergode.kinetics.launch import Problem, common_bindings, cpu_kernel, with_common_rows
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import Outcome


@dataclass(frozen=True)
class ExplicitRunner:
    """Runs the algebraically stabilised explicit method."""

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
        bound = dict(problem.bound) | common_bindings(problem.mechanism)
        device.run(
            cpu_kernel(loop.explicit_cpu, tuple(bound.items())), zones.count,
            _tables(problem.mechanism, False), _control(problem),
            with_common_rows(zones.history, problem), grid, problem.options.max_steps, outcome,
            finished=finished, piece=1,
        )  # fmt: skip

    def launch(self, problem: Problem, device: Device, zone_count: int) -> Launch:
        """A prepared launch of the kernel on a CUDA device for this number of zones; cached."""
        return _launch(problem, device, are_few(zone_count, device))


@lru_cache(maxsize=32)
def _tables(mechanism: Mechanism, blocks: bool) -> ExplicitSystem:
    return explicit_system_of(mechanism, blocks=blocks)


def _control(problem: Problem) -> Control:
    options = problem.options
    return Control(
        FLUX_FRACTION, MASS_TOLERANCE, options.reference_control, problem.mechanism.nuclear
    )


@lru_cache(maxsize=16)
def _launch(problem: Problem, device: Device, few: bool) -> Launch:
    return block_launch(
        device, dict(problem.bound), _tables(problem.mechanism, True), _control(problem),
        problem.options.max_steps, few=few,
    )  # fmt: skip


def block_launch(
    device: Device,
    bindings: dict[Any, Any],  # options from `launch.bindings_of`
    system: ExplicitSystem,
    control: Control,
    max_steps: int,
    *,
    few: bool = False,  # whether each multiprocessor has at most one zone
    # Threads of a block; the default depends on the size of the network.
    threads: int | None = None,
) -> BlockLaunch:
    """A kernel with a block for every zone."""
    usual, registers = shape_for(system.weight.size, True, few)
    kernel = kernels.cuda_kernel(
        loop.explicit_block, bindings={**bindings, KIND: BLOCK}, registers=registers
    )
    tables = put_table(device, system), system.flows.sums.place_count, put_table(device, control)
    return BlockLaunch(
        device, kernel, tables, (max_steps,), threads=threads or usual,
        shared_count=loop.shared_count(system), scratch_count=loop.scratch_count(system),
    )  # fmt: skip
