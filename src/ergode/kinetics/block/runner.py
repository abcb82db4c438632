"""Networks on a CUDA device: a block of threads for every zone, or a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device, spans
from ergode.core.errors import PlanError
from ergode.kinetics.block.elimination import tiles
from ergode.kinetics.block.schedule import INDEXABLE, SMALL
from ergode.kinetics.conditions import Zones
from ergode.kinetics.explicit import loop
from ergode.kinetics.explicit.asymptotic import Control
from ergode.kinetics.implicit import rosenbrock, unrolled

# Threads of a block, and registers of a thread at most, by the number of species. Where there is a
# zone at most for each multiprocessor, a block may have as many as help it; else as many blocks run
# together as shared memory has room for.
_SHAPES: dict[tuple[bool, bool], tuple[tuple[int, int, int], ...]] = {
    (False, False): ((SMALL, 32, 96), (48, 64, 168), (INDEXABLE, 128, 128)),
    (False, True): ((SMALL, 32, 255), (48, 64, 255), (INDEXABLE, 128, 255)),
    (True, False): ((48, 64, 128), (INDEXABLE, 128, 128)),
    (True, True): ((48, 64, 255), (INDEXABLE, 256, 255)),
}
"""By whether the method is explicit and zones are few."""
_ZONES_AT_ONCE = 1 << 20


def shape_for(variable_count: int, explicit: bool, few: bool) -> tuple[int, int]:
    """Threads of a block, and registers, that serve a network well."""
    sizes = _SHAPES[explicit, few]
    return next((threads, most) for count, threads, most in sizes if variable_count <= count)


def put_all(device: Device, value: Any) -> Any:
    """A named tuple, or an array, on a device; numbers stay what they are."""
    if isinstance(value, np.ndarray):
        return device.put(value)
    if isinstance(value, tuple):
        return type(value)(*(put_all(device, item) for item in value))
    return value


class Launch:
    """A kernel with everything of a network on the device, ready for zones: a block for each.

    Parameters
    ----------
    device : Device
    bindings : mapping
        As from `launch.bindings_of`.
    system : BlockSystem or ExplicitSystem
    method : Method or Control
        A Rosenbrock method, or how an explicit one chooses its steps.
    rtol : float
    step_limit : int
    few : bool
        Whether there is a zone at most for each multiprocessor.
    threads, registers : int, optional
        Of a block, and of a thread at most.
    """

    def __init__(
        self,
        device: Device,
        bindings: dict[str, Any],
        system: Any,
        method: Any,
        *,
        rtol: float = 0.0,
        step_limit: int,
        few: bool = False,
        threads: int | None = None,
        registers: int | None = None,
    ) -> None:
        self.device = device
        self.explicit = isinstance(method, Control)
        usual = shape_for(system.absolute.size, self.explicit, few)
        self.threads = threads or usual[0]
        self._options = (step_limit,) if self.explicit else (rtol, step_limit)
        rates = system.rates
        kinds = len(rates.efficiency)
        if self.explicit:
            body: Callable[..., Any] = loop.explicit_block
            numbers = loop.shared_count(system)
            self.scratch_count = loop.scratch_count(system)
            several = system.flows.sums.place_count
        else:
            if max(system.entry_count, system.flows.value_count) >= INDEXABLE:
                raise PlanError(
                    f"the factors of the Jacobian have {system.entry_count} entries; at most "
                    f"{INDEXABLE - 1} are possible on '{device.name}': use device='cpu'"
                )
            body = rosenbrock.integrate_block
            numbers = rosenbrock.shared_count(system, method.m.size, bindings["DYNAMIC"])
            self.scratch_count = rosenbrock.scratch_count(
                system, rates.slot_count, rates.order.size, kinds
            )
            several = rosenbrock.partial_count(system)
            bindings = bindings | tiles(system, self.threads)
        self.shared_bytes = 8 * numbers
        self._parts = put_all(device, system), several, put_all(device, method)
        self.kernel = kernels.cuda_kernel(
            body, bindings=bindings, registers=registers or usual[1]
        )  # fmt: skip

    def arguments(
        self, times: Any, temperature: Any, density: Any, grid: Any, scratch: Any, counter: Any,
        out: Any, outcome: Sequence[Any],
    ) -> tuple[Any, ...]:  # fmt: skip
        """What the kernel takes, in order."""
        head = (*self._parts, times, temperature, density, grid, *self._options)
        return (*head, scratch, counter, out, *outcome)

    def start(self, times: Any, temperature: Any, density: Any, grid: Any, out: Any) -> Any:
        """Start the kernel on zones whose arrays are on the device.

        Returns
        -------
        tuple
            status, taken, repeated, defect and peak of all zones, on the device.
        """
        from ergode.core import cuda

        count = out.shape[0]
        counter, *outcome = _results(self.device, count)
        compiled = self.kernel.compiled("cuda")
        few = self.device.empty((1, self.scratch_count), np.float64)
        probe = self.arguments(times, temperature, density, grid, few, counter, out, outcome)
        blocks = cuda.cooperative_block_count(compiled, self.threads, probe, self.shared_bytes)
        blocks = min(count, max(blocks, 1))
        scratch = self.device.empty((blocks, self.scratch_count), np.float64)
        arguments = self.arguments(
            times, temperature, density, grid, scratch, counter, out, outcome
        )
        cuda.launch(compiled, blocks, self.threads, arguments, self.shared_bytes)
        return tuple(outcome)


_ALONE_THREADS = 32
_ALONE_BLOCKS_PER_CORE = 16


class UnrolledLaunch:
    """As `Launch`, with a thread for every zone, of many, and a small network written out.

    Parameters
    ----------
    device, bindings, method, rtol, step_limit, registers
        As of `Launch`.
    system : System
    """

    def __init__(
        self,
        device: Device,
        bindings: dict[str, Any],
        system: Any,
        method: Any,
        *,
        rtol: float,
        step_limit: int,
        registers: int | None = None,
    ) -> None:
        self.device = device
        self.kernel = kernels.cuda_kernel(
            unrolled.integrate_unrolled,
            bindings=bindings | unrolled.unrolled_bindings(system, method),
            registers=registers,
        )
        self._parts = put_all(device, system), put_all(device, method)
        self._options = rtol, step_limit

    def start(self, times: Any, temperature: Any, density: Any, grid: Any, out: Any) -> Any:
        """Start the kernel on zones whose arrays are on the device; as `Launch.start`."""
        from ergode.core import cuda

        device, count = self.device, out.shape[0]
        blocks = min(-(-count // _ALONE_THREADS), _ALONE_BLOCKS_PER_CORE * device.core_count)
        counter, *outcome = _results(device, count)
        arguments = (
            *self._parts, times, temperature, density, grid, *self._options, counter, out, *outcome,
        )  # fmt: skip
        cuda.launch(self.kernel.compiled("cuda"), blocks, _ALONE_THREADS, arguments)
        return tuple(outcome)


def _results(device: Device, count: int) -> tuple[Any, ...]:
    """A counter at zero, and room for status, taken, repeated, defect and peak of zones."""
    from ergode.core import cuda

    counter, repeated = device.empty(1, np.int32), device.empty(count, np.int64)
    cuda.fill_zero(counter)
    cuda.fill_zero(repeated)
    peak = device.put(np.full(count, np.nan))
    return (
        counter, device.empty(count, np.uint8), device.empty(count, np.int64), repeated,
        device.empty(count, np.float64), peak,
    )  # fmt: skip


def zones_at_once(device: Device, numbers: int) -> int:
    """Zones of so many numbers each that fit a device beside everything else."""
    return max(1, min(_ZONES_AT_ONCE, device.available_bytes() // (16 * numbers)))


def run_on_device(
    launch: Launch | UnrolledLaunch,
    zones: Zones,
    grid: np.ndarray,
    outcome: Any,
    finished: Callable[[int, int], None],
) -> None:
    """Integrate all zones in chunks that fit the device, and fill `outcome`."""
    from ergode.core import cuda

    device = launch.device
    put = device.put
    each = grid.size * zones.amounts.shape[1] + 2 * zones.history.times.size + 5
    times, grid_there = put(zones.history.times), put(grid)
    begin = kernels.for_each(_begin)
    for first, last in spans(zones.count, zones_at_once(device, each)):
        part = slice(first, last)
        shape = (last - first, *outcome.amounts.shape[1:])
        out = device.empty(shape, np.float64)
        device.run(begin, last - first, put(zones.amounts[part]), out)
        found = launch.start(
            times, put(zones.history.temperature[part]), put(zones.history.density[part]),
            grid_there, out,
        )  # fmt: skip
        cuda.copy_from(out, outcome.amounts[part])
        names = ("status", "taken", "repeated", "defect", "peak")
        for name, array in zip(names, found, strict=True):
            getattr(outcome, name)[part] = device.get(array)
        finished(first, last)


# --- device functions -----------------------------------------------------------------------------


def _begin(zone, amounts, out):  # type: ignore[no-untyped-def]
    """A zone before it is integrated: its amounts, then nothing known."""
    for i in range(out.shape[2]):
        out[zone, 0, i] = amounts[zone, i]
        for point in range(1, out.shape[1]):
            out[zone, point, i] = NOT_A_NUMBER


NOT_A_NUMBER = float("nan")
