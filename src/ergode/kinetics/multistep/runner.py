"""The runner of backward differentiation formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.devices.buffers import put_table
from ergode.core.errors import PlanError
from ergode.core.group import bindings_of_size, rank_anew, rank_in
from ergode.kinetics.block.elimination import THREADS
from ergode.kinetics.block.launch import BlockLaunch, Launch
from ergode.kinetics.block.schedule import INDEXABLE, WARP
from ergode.kinetics.conditions import Zones
from ergode.kinetics.kernel_options import (
    COMPOSED,
    COMPRESSED,
    EXCHANGES,
    FED,
    FLOW,
    FORMULAS,
    HEATING,
    MIXTURES,
    MOLECULES,
    MOVING,
    OWN_TOLERANCES,
    POWERS,
    REVERSIBLE,
    SELF_HEATING,
    SUNLIT,
    SWEPT,
    THIRD_BODIES,
    TIMED,
    WALLED,
)
from ergode.kinetics.launch import (
    Problem,
    common_bindings,
    cpu_kernel,
    lit,
    with_common_rows,
    with_light,
)
from ergode.kinetics.multistep import by_group, room
from ergode.kinetics.multistep.formulas import integrate_cpu
from ergode.kinetics.multistep.lane_formulas import integrate_lanes_cpu
from ergode.kinetics.multistep.lanes import LANES, WIDTH
from ergode.kinetics.multistep.schedule import scheduled
from ergode.kinetics.multistep.tables import Chemistry, chemistry_of
from ergode.kinetics.multistep.tank_in_hand import tank_size
from ergode.kinetics.multistep.tanks import integrate_networks_cpu
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import (
    CHANGING,
    CLOSED,
    NO_WALL,
    PLUG,
    PRESSURE,
    STEADY,
    STIRRED,
    Outcome,
)

_USED = (
    COMPOSED, COMPRESSED, FED, FLOW, FORMULAS, HEATING, MIXTURES, MOLECULES, MOVING,
    OWN_TOLERANCES, POWERS, REVERSIBLE, SELF_HEATING, SUNLIT, SWEPT, THIRD_BODIES, TIMED, WALLED,
)  # fmt: skip

_REGISTERS = 128
_WARPS = 8
"""Most warps of a block; they take each step at the same time."""
_SHARED = 800
"""Numbers of a zone in shared memory, at most."""

_ALONE = FED, MOVING, OWN_TOLERANCES
"""With these, zones are integrated one at a time."""
_FEWEST_UNKNOWNS = 8  # with three, lanes take a quarter longer; with eleven, half the time


@dataclass(frozen=True)
class MultistepRunner:
    """Runs backward differentiation formulas: a thread or a lane for each zone, on CUDA a warp."""

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
        options, bound = problem.options, dict(problem.bound + problem.matter)
        tables, history, used = _tables(problem, bound), zones.history, _used(bound)
        del used[HEATING]  # `Chemistry.work` tells it
        if used[EXCHANGES] and bound[FLOW] == STIRRED and bound[WALLED] == NO_WALL:
            # A wall through which no heat passes.
            used[WALLED], history = STEADY, history._replace(wall=np.array([[0.0, 1.0]]))
        alone = used | common_bindings(problem.mechanism) | {POWERS: True}
        tanks = zones.tank_count
        if tanks > 1:
            kept = _kept(tables, bound)
            places, _ = room.places_of(room.shapes_of(tables, bound[SELF_HEATING], kept), 0)
            device.run(
                cpu_kernel(integrate_networks_cpu, tuple(alone.items())), zones.count // tanks,
                tables, places, with_common_rows(history, problem), grid, options.rtol,
                options.max_steps, tanks, outcome, piece=1,
                finished=lambda start, stop: finished(start * tanks, stop * tanks),
            )  # fmt: skip
            return
        by_zone = (
            zones.count < LANES * device.core_count
            or tables.absolute.size < _FEWEST_UNKNOWNS
            or any(bound[one] for one in _ALONE)
        )
        by_zone = by_zone or bound[FLOW] == PLUG or bound[WALLED] == CHANGING
        by_zone = by_zone or (bound[TIMED] and bound[FLOW] != CLOSED)
        if by_zone:
            kernel, piece, grain, used = integrate_cpu, 1, None, alone
            history = with_common_rows(history, problem)
        else:
            kernel, piece, used[WIDTH] = integrate_lanes_cpu, LANES, LANES
            used, history = used | lit(problem.mechanism), with_light(history, problem.mechanism)
            # A lane that is free takes the next zone of a range: long ranges keep lanes busy.
            ranges = 4 * device.core_count if device.core_count > 1 else 1
            grain = LANES * -(-zones.count // (LANES * ranges))
        device.run(
            cpu_kernel(kernel, tuple(used.items())), zones.count, tables, history, grid,
            options.rtol, options.max_steps, outcome, finished=finished, piece=piece, grain=grain,
        )  # fmt: skip

    def launch(self, problem: Problem, device: Device, zone_count: int) -> Launch:
        """A prepared launch of the kernel on a CUDA device; cached."""
        warps, zone_count = 1, zone_count // problem.tank_count
        while warps < _WARPS and 2 * warps * device.core_count <= zone_count:
            warps *= 2
        return group_launch(problem, device, warps)


@lru_cache(maxsize=16)
def group_launch(problem: Problem, device: Device, warps: int = 1) -> BlockLaunch:
    """The kernel with a warp for every zone or network of tanks, by the warps in a block."""
    bound = dict(problem.bound + problem.matter)
    tables, used = _tables(problem, bound), _used(bound)
    if not bound[POWERS]:
        tables = tables._replace(powers=())
    entries = tables.plan.column.size + 1
    derivatives = 3 * (tables.reactions.left.shape[1] + tables.reactions.right.shape[1])
    derivatives += tables.slopes.power.shape[1]
    derivatives += tables.slopes.sum.shape[1] if bound[FORMULAS] else 0
    if max(entries, derivatives) >= INDEXABLE:
        raise PlanError(
            f"the factors of the Jacobian have {entries} entries, and the rates {derivatives} "
            f"derivatives; at most {INDEXABLE - 1} are possible on '{device.name}': use "
            "device='cpu'"
        )
    tables = scheduled(tables)
    tanks, options = problem.tank_count, problem.options
    body = by_group.integrate_group if tanks == 1 else by_group.integrate_networks
    kernel = kernels.cuda_kernel(
        body, registers=_REGISTERS,
        bindings={**used, **bindings_of_size(WARP), THREADS: WARP, rank_in: rank_anew},
    )  # fmt: skip
    shapes = room.shapes_of(tables, bound[SELF_HEATING], _kept(tables, bound))
    places, within = room.places_of(shapes, _SHARED)
    if tanks > 1:
        return BlockLaunch(
            device, kernel, (put_table(device, tables), device.put(np.array(places))),
            (options.rtol, options.max_steps, tanks), threads=WARP * warps, shared_count=0,
            scratch_count=warps * tanks * tank_size(tables, places[-1]), together=tanks,
        )  # fmt: skip
    return BlockLaunch(
        device, kernel, (put_table(device, tables), places, within),
        (options.rtol, options.max_steps), threads=WARP * warps,
        shared_count=warps * within, scratch_count=warps * (places[-1] - within),
    )  # fmt: skip


def _used(bound: dict[Any, Any]) -> dict[Any, Any]:
    """Bindings of kernels."""
    outside = bound[COMPRESSED] or bound[WALLED] or bound[FLOW] == STIRRED
    used = {one: bound[one] for one in _USED}
    return used | {EXCHANGES: bool(outside and bound[SELF_HEATING])}


def _kept(tables: Chemistry, bound: dict[Any, Any]) -> int:
    """Columns of a history behind the variables: an energy, conserved sums of a tank, an age."""
    return 1 + (tables.invariants.shape[0] if bound[FLOW] == STIRRED else 1)


def _tables(problem: Problem, bound: dict[Any, Any]) -> Chemistry:
    tables = _chemistry(problem.mechanism, bound[SELF_HEATING], bound[MOVING])
    absolute = problem.tolerances[: tables.absolute.size]
    return tables._replace(absolute=absolute, work=0.0 if bound[HEATING] == PRESSURE else 1.0)


@lru_cache(maxsize=32)
def _chemistry(mechanism: Mechanism, heats: bool, moving: int) -> Chemistry:
    return chemistry_of(mechanism, heats=heats, moving=moving)
