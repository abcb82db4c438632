"""Kernels on a CUDA device with the tables of a network, and the loop over chunks of zones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ergode.core import kernels
from ergode.core.calls.launch import count_that_fits, run_chunks
from ergode.core.calls.resident import store
from ergode.core.devices import Device
from ergode.kinetics.block.schedule import INDEXABLE, SMALL
from ergode.kinetics.conditions import Zones
from ergode.kinetics.tables import UNSWEPT, ConditionHistory, Outcome

_MANY_ZONES_PER_CORE = 64
"""With this many zones or more, each thread of a CUDA device integrates a small network alone."""

# Threads of a block, and largest number of registers of a thread, by the number of species. With at
# most one zone for each multiprocessor, more threads make a block faster. Otherwise shared memory
# limits the number of blocks that run together.
_SHAPES: dict[tuple[bool, bool], tuple[tuple[int, int, int], ...]] = {
    (False, False): ((SMALL, 32, 96), (48, 64, 168), (INDEXABLE, 128, 128)),
    (False, True): ((SMALL, 32, 255), (48, 64, 255), (INDEXABLE, 128, 255)),
    (True, False): ((48, 64, 128), (INDEXABLE, 128, 128)),
    (True, True): ((48, 64, 255), (INDEXABLE, 256, 255)),
}
"""Key: whether the method is explicit, and whether zones are few."""
_ZONES_AT_ONCE = 1 << 20


def shape_for(variable_count: int, explicit: bool, few: bool) -> tuple[int, int]:
    """Threads of a block, and registers of a thread, for a network."""
    sizes = _SHAPES[explicit, few]
    return next((threads, most) for count, threads, most in sizes if variable_count <= count)


def are_few(zone_count: int, device: Device) -> bool:
    """Whether each multiprocessor has at most one zone."""
    return zone_count <= device.core_count


def are_many(zone_count: int, device: Device) -> bool:
    """Whether a thread for every zone keeps a device busy."""
    return zone_count >= _MANY_ZONES_PER_CORE * device.core_count


class Launch(Protocol):
    """A kernel with the tables of a network on a device."""

    @property
    def device(self) -> Device:
        """Where it runs."""

    def start(self, history: ConditionHistory, grid: Any, amounts: Any) -> Outcome:
        """Start the kernel on zones whose arrays are on the device; returns at once.

        The amounts of the outcome are `amounts`.
        """

    @property
    def zones_that_fill(self) -> int:
        """Zones that keep the device busy."""

    @property
    def together(self) -> int:
        """Zones that are integrated together, such as the tanks of a chain."""


_ROUNDS = 4  # of zones, so that few wait for the last
_BLOCKS_A_MULTIPROCESSOR = 32


@dataclass(eq=False)
class BlockLaunch:
    """Launches a kernel in which a block of threads integrates a zone.

    Parameters
    ----------
    device : Device
    kernel : Kernel
    tables : tuple
        Tables on the device, in the order of the kernel's first arguments.
    options : tuple of float or int
        Kernel arguments between the times of the result and the scratch memory.
    threads : int
        Of a block.
    shared_count, scratch_count : int
        Numbers of a block in shared memory, and in device memory.
    together : int
        Zones that a block integrates together.
    """

    device: Device
    kernel: kernels.Kernel
    tables: tuple[Any, ...]
    options: tuple[float, ...]
    threads: int
    shared_count: int
    scratch_count: int
    together: int = 1

    @property
    def zones_that_fill(self) -> int:
        """Zones that keep the device busy."""
        return _ROUNDS * _BLOCKS_A_MULTIPROCESSOR * self.device.core_count

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 8 * self.shared_count

    def arguments(
        self, history: ConditionHistory, grid: Any, scratch: Any, counter: Any, outcome: Outcome
    ) -> tuple[Any, ...]:
        """What the kernel takes, in order."""
        return (*self.tables, history, grid, *self.options, scratch, counter, outcome)

    def start(self, history: ConditionHistory, grid: Any, amounts: Any) -> Outcome:
        """Start the kernel, as `Launch.start`."""
        device, counted = self.device, {"shared_bytes": self.shared_bytes}
        counter, outcome = _results(device, amounts)
        probe = device.empty((1, self.scratch_count), np.float64)
        arguments = self.arguments(history, grid, probe, counter, outcome)
        blocks = device.resident_blocks(self.kernel, self.threads, *arguments, **counted)
        blocks = min(amounts.shape[0] // self.together, max(blocks, 1))
        scratch = device.empty((blocks, self.scratch_count), np.float64)
        arguments = self.arguments(history, grid, scratch, counter, outcome)
        device.launch(self.kernel, blocks, self.threads, *arguments, **counted)
        return outcome


_ALONE_THREADS = 32
_ALONE_BLOCKS_PER_CORE = 16


@dataclass(eq=False)
class ThreadLaunch:
    """Launches a kernel in which a single thread integrates a zone.

    Parameters
    ----------
    device, kernel, tables, options, together
        See `BlockLaunch`.
    """

    device: Device
    kernel: kernels.Kernel
    tables: tuple[Any, ...]
    options: tuple[float, ...]
    together: int = 1

    @property
    def zones_that_fill(self) -> int:
        """Zones that keep the device busy."""
        return _ROUNDS * _ALONE_BLOCKS_PER_CORE * _ALONE_THREADS * self.device.core_count

    def arguments(
        self, history: ConditionHistory, grid: Any, counter: Any, outcome: Outcome
    ) -> tuple[Any, ...]:
        """What the kernel takes, in order."""
        return (*self.tables, history, grid, *self.options, counter, outcome)

    def start(self, history: ConditionHistory, grid: Any, amounts: Any) -> Outcome:
        """Start the kernel, as `Launch.start`."""
        counter, outcome = _results(self.device, amounts)
        most = _ALONE_BLOCKS_PER_CORE * self.device.core_count
        blocks = min(-(-amounts.shape[0] // _ALONE_THREADS), most)
        arguments = self.arguments(history, grid, counter, outcome)
        self.device.launch(self.kernel, blocks, _ALONE_THREADS, *arguments)
        return outcome


def _results(device: Device, amounts: Any) -> tuple[Any, Outcome]:
    """A counter at zero, and arrays on the device for the outcome of all zones."""
    count = amounts.shape[0]
    counter, repeated = device.empty(1, np.int32), device.empty(count, np.int64)
    device.fill_zero(counter)
    device.fill_zero(repeated)
    return counter, Outcome(
        amounts,
        device.empty(count, np.uint8),
        device.empty(count, np.int64),
        repeated,
        device.empty(count, np.float64),
        device.put(np.full(count, np.nan)),
    )


def zones_at_once(device: Device, numbers: int) -> int:
    """Number of zones that fit into the memory of a device, if each takes `numbers` numbers.

    Raises a PlanError if not even one does.
    """
    fits = count_that_fits(device, 16 * numbers, "one zone", "use fewer times")
    return min(_ZONES_AT_ONCE, fits)


def run_on_device(
    launch: Launch,
    zones: Zones,
    grid: np.ndarray,
    outcome: Outcome,
    finished: Callable[[int, int], None],
) -> None:
    """Integrate all zones in chunks that fit the device, and fill `outcome`."""
    device, history, together = launch.device, zones.history, launch.together
    rows = history.rows()
    each = grid.size * zones.amounts.shape[1] + 5 + sum(one.shape[1] for one in rows.values())
    common = {"times": device.put(history.times), "factors": device.put(UNSWEPT)}
    grid_there = device.put(grid)
    begin = kernels.for_each(_begin)

    def integrate(first: int, last: int, report: Callable[[int], None]) -> None:
        first, last = first * together, last * together
        part = slice(first, last)
        amounts = device.empty((last - first, *outcome.amounts.shape[1:]), np.float64)
        device.run(begin, last - first, device.put(zones.amounts[part]), amounts)
        own = {name: device.put(array[part]) for name, array in rows.items()}
        there = ConditionHistory(**(common | own))
        found = launch.start(there, grid_there, amounts)
        store(device, amounts, outcome.amounts, part)
        for whole, array in zip(outcome[1:], found[1:], strict=True):
            whole[part] = device.get(array)
        finished(first, last)

    run_chunks(
        "zones", zones.count // together, zones_at_once(device, each * together), integrate,
        unit="zones", least=launch.zones_that_fill,
    )  # fmt: skip


# --- device functions -----------------------------------------------------------------------------


def _begin(zone, amounts, out):  # type: ignore[no-untyped-def]
    """Initialise the outcome of a zone: its amounts at the first time, then NaN."""
    for i in range(out.shape[2]):
        out[zone, 0, i] = amounts[zone, i]
        for point in range(1, out.shape[1]):
            out[zone, point, i] = NOT_A_NUMBER


NOT_A_NUMBER = float("nan")
