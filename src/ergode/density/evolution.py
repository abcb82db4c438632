"""A density on one device: its arrays, its kernels, and how it is moved forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.core.machine import Formula
from ergode.core.source import Precision, formula_text
from ergode.density import advance, cells, corner_transport, crew, growth, pruning, split
from ergode.density.cells import Cells, Masses
from ergode.density.lattice import Frame, Lattice
from ergode.density.noise import Noise, depends_on_time
from ergode.models.vector_field import VectorField

PRUNE_EVERY = 20
_THREADS = 256
_BLOCKS_LEAST = 64  # of a small grid: more threads than cells hide what little can be hidden
_BUDGET_CPU = 20_000_000  # cell-steps between two looks at the keyboard
_CELLS_A_THREAD = 2000  # of a CPU, at least: fewer and it waits more than it works
_RESORT_ABOVE_CPU = 1 << 15
_RESORT_ABOVE_CUDA = 1 << 19


@dataclass(frozen=True)
class Limits:
    """Where the density may be: a function of the state, and the range it must be in."""

    function: Callable[..., tuple[Any, ...]]
    least: float
    largest: float


class OutOfMemoryError(PlanError):
    """The grid does not fit any more; the density as it was before the step is still there."""


def bindings_of(
    field: VectorField,
    lattice: Lattice,
    scheme: str,
    noise: Noise | None,
    on_cuda: bool,
    limits: Limits | None = None,
    retained: bool = False,
) -> dict[str, Any]:
    """What kernels are specialised to."""
    corner = scheme == "corner-transport"
    target = "cuda" if on_cuda else "cpu"
    given: dict[str, Any] = {}
    if limits is not None:
        given["limited_by"] = Formula(limits.function)
    noisy = (False,) * lattice.dimension
    varying = depends_on_time(field.function)
    if noise is not None:
        noisy = tuple((noise.spread(lattice) != 0).tolist())
        if noise.function is not None:
            given |= {"noise": Formula(noise.function), "AMPLITUDES": noise.amplitudes}
            varying |= depends_on_time(noise.function)
    return given | {
        "LIMITED": limits is not None,
        "LOCAL_NOISE": noise is not None and noise.function is not None,
        "RETAINED": retained,
        "rhs": Formula(field.function),
        "DIMENSION": lattice.dimension,
        "BITS": lattice.bits,
        "PARAMETERS": len(field.parameters),
        "ROTATED": lattice.is_rotated,
        "OWN_FACES": corner,
        "SUM_OF_RATES": corner,
        "CORNER": corner,
        "NOISY": noisy,
        "ANY_NOISE": any(noisy),
        "VARYING": varying,
        "MOVES": 4 * lattice.dimension**2,
        # Fluxes kept rather than found twice halve what is gathered from memory, which large grids
        # wait for, and add a meeting, which small ones of many threads wait for.
        "FLUXES_FIRST": not on_cuda or lattice.dimension > 3,
        "EAGER": not on_cuda,
        "share": getattr(crew, f"share_{target}"),
        "meet": crew.meet_grid if on_cuda else crew.meet_cpu,
        "book": getattr(crew, f"book_{target}"),
        "make_needed": getattr(growth, f"make_needed_{target}"),
        "compact": getattr(pruning, f"compact_{target}"),
        "find_fluxes": getattr(corner_transport if corner else split, f"find_fluxes_{target}"),
    }


def _registers(bindings: dict[str, Any]) -> int | None:
    """Registers a thread of a CUDA kernel may use."""
    # Large grids wait for memory, and more threads hide more of it; in few dimensions grids are
    # small, wait for each other, and spilling would only add to that.
    return 64 if bindings["DIMENSION"] > 3 else None


_KERNELS: dict[tuple[Any, ...], list[kernels.Kernel]] = {}


def kernels_of(
    bindings: dict[str, Any], precision: Precision, on_cuda: bool
) -> list[kernels.Kernel]:
    """The kernels `advance` and `prune` for these bindings."""
    texts = [
        (name, formula_text(value.function) if isinstance(value, Formula) else value)
        for name, value in sorted(bindings.items())
    ]
    key = (on_cuda, precision, *texts)
    if key not in _KERNELS:
        if on_cuda:
            _KERNELS[key] = [
                kernels.cuda_kernel(
                    body, precision=precision, bindings=bindings, registers=_registers(bindings)
                )
                for body in (advance.advance_cuda, pruning.prune_cuda)
            ]
        else:
            _KERNELS[key] = kernels.cpu_kernels(
                advance.advance_cpu, pruning.prune_cpu, precision=precision, bindings=bindings
            )
    return _KERNELS[key]


_BLOCKS_MOST: dict[kernels.Kernel, int] = {}


class Evolution:
    """A density that moves.

    Parameters
    ----------
    field : VectorField
    lattice : Lattice
    parameters : ndarray, shape [parameter_count]
    scheme : {"split", "corner-transport"}
    threshold : float
        Probability of a cell, as a fraction of all, below which it may be dropped.
    device : Device
    precision : {"float32", "float64"}
        Type of masses and rates.
    noise : Noise, optional
        Process noise.
    limits : Limits, optional
        Cells outside are never made.
    cells_most : int, optional
        More cells than this are treated as if memory were full.
    loss_rate : float, optional
        The threshold follows from what may be lost, a unit of time.
    """

    def __init__(
        self,
        field: VectorField,
        lattice: Lattice,
        parameters: np.ndarray,
        *,
        scheme: str,
        threshold: float,
        device: Device,
        precision: Precision = "float64",
        noise: Noise | None = None,
        limits: Limits | None = None,
        cells_most: int | None = None,
        loss_rate: float | None = None,
    ) -> None:
        self.lattice = lattice
        self.device = device
        self.precision = precision
        self._cells_most = cells_most
        spread = np.zeros(lattice.dimension) if noise is None else noise.spread(lattice)
        bindings = bindings_of(
            field, lattice, scheme, noise, device.is_cuda, limits, loss_rate is not None
        )
        self._local_noise = bool(bindings["LOCAL_NOISE"])
        keeps_all = bindings["CORNER"] and bindings["FLUXES_FIRST"]
        self._flux_rows = lattice.dimension if keeps_all else 1
        self._advance, self._prune = kernels_of(bindings, precision, device.is_cuda)
        real = np.dtype(precision)
        self._frame = Frame(
            *(
                device.put(np.ascontiguousarray(part, real))
                for part in (
                    lattice.centre,
                    lattice.width,
                    lattice.axes,
                    parameters,
                    spread,
                    np.zeros(2) if limits is None else np.array([limits.least, limits.largest]),
                )
            )
        )
        self._clock = np.zeros(cells.CLOCKS)
        self._clock[cells.THRESHOLD] = threshold
        self._clock[cells.COURANT] = 1.0
        self._clock[cells.LOSS_RATE] = loss_rate or 0.0
        self._tally = np.zeros(cells.TALLIES, np.int64)
        self._cells: Cells | None = None
        self._masses: Masses | None = None
        self._capacity = 0
        self.on_pause: Callable[[], None] = lambda: None

    # ---- what it is

    @property
    def time(self) -> float:
        """Time of the density [time]."""
        return float(self._clock[cells.TIME])

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return int(self._tally[cells.USED]) - 1

    @property
    def work(self) -> dict[str, int]:
        """Steps, cell-steps and the largest number of cells so far."""
        tally = self._tally
        return {
            "steps": int(tally[cells.STEPS]),
            "cell_steps": int(tally[cells.CELL_STEPS]),
            "cell_count_most": int(tally[cells.PEAK]),
        }

    @property
    def budget(self) -> dict[str, float]:
        """Masses since the density was loaded: loaded, pruned, lost at faces, clipped."""
        tally = self._tally
        names = ("loaded", "pruned", "lost", "clipped")
        places = (cells.LOADED, cells.PRUNED, cells.LOST, cells.CLIPPED)
        return {
            name: float(tally[at]) / float(cells.MASS_UNIT)
            for name, at in zip(names, places, strict=True)
        }

    # ---- what it does

    def load(self, time: float, keys: np.ndarray, mass: np.ndarray, may_lose: float = 0.0) -> None:
        """Begin anew with these cells, which must be in ascending order of their keys.

        `may_lose` is what may be pruned at once, where the threshold follows from that.
        """
        self._clock[[cells.TIME, cells.NOISE_TIME, cells.LOADED_AT]] = time
        self._clock[cells.ALLOWED] = may_lose
        self._allocate(len(keys))
        self._place(keys, mass)
        tally = self._tally
        tally[[cells.SINCE, cells.PRUNED, cells.LOST, cells.CLIPPED]] = 0
        units = (np.asarray(mass, self.precision).astype(np.float64) * cells.MASS_UNIT).astype(
            np.int64
        )
        tally[cells.LOADED] = units.astype(np.int64).sum()

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys in ascending order, and the mass of each cell."""
        count = self.cell_count
        assert self._cells is not None and self._masses is not None
        keys = self.device.get(self._cells.key[1 : count + 1]) & cells.KEY
        mass = self.device.get(self._masses.now[1 : count + 1])
        order = np.argsort(keys)
        return keys[order], mass[order].astype(np.float64)

    def advance(self, target: float) -> None:
        """Move forward to a time.

        Raises
        ------
        PlanError
            The density reached the end of the lattice, or does not fit into memory.
        """
        self._clock[cells.TARGET] = target
        while True:
            self._run(self._advance, True)
            state = int(self._tally[cells.STATE])
            if state == cells.REACHED:
                return
            if state == cells.EDGE:
                raise PlanError(
                    f"at time {self.time:g} the density reaches the end of the lattice, "
                    f"{self.lattice.reach} cells from its centre; use larger widths"
                )
            if state == cells.FULL:
                self._enlarge()
            elif self._tally[cells.READY] == 0:
                self._sort()
            self.on_pause()

    def prune(self) -> None:
        """Drop what is below the threshold."""
        self._run(self._prune, False)

    # ---- how

    def _run(self, kernel: kernels.Kernel, advancing: bool) -> None:
        assert self._cells is not None and self._masses is not None
        if self.device.is_cuda:
            self._run_cuda(kernel, advancing)
            return
        from ergode.core import cpu

        threads = min(self.device.core_count, max(1, self.cell_count // _CELLS_A_THREAD))
        # Soon enough to see whether a grid has grown and more threads are worth their while.
        budget = min(_BUDGET_CPU, 500 * max(self.cell_count, _CELLS_A_THREAD))
        head = (budget, PRUNE_EVERY, _RESORT_ABOVE_CPU) if advancing else ()
        self._cells.tally[:] = self._tally
        self._cells.meeting[:] = 0  # the next crew may be another number of threads
        arguments = (*head, self._cells, self._masses, self._frame, self._clock)
        with kernels.readable_errors():
            cpu.run_together(kernel.compiled("cpu"), threads, arguments)
        self._tally[:] = self._cells.tally

    def _run_cuda(self, kernel: kernels.Kernel, advancing: bool) -> None:
        from ergode.core import cuda

        assert self._cells is not None
        head = (1 << 62, PRUNE_EVERY, _RESORT_ABOVE_CUDA) if advancing else ()
        cuda.copy_to(self._cells.tally, self._tally)
        clock = self.device.put(self._clock)
        with kernels.readable_errors():
            compiled = kernel.compiled("cuda")
            arguments = (*head, self._cells, self._masses, self._frame, clock)
            if kernel not in _BLOCKS_MOST:
                _BLOCKS_MOST[kernel] = cuda.cooperative_block_count(compiled, _THREADS, arguments)
            most = _BLOCKS_MOST[kernel]
            blocks = min(most, max(_BLOCKS_LEAST, -(-2 * self.cell_count // _THREADS)))
            cuda.launch(compiled, blocks, _THREADS, arguments)
        self._tally[:] = self.device.get(self._cells.tally)
        self._clock[:] = self.device.get(clock)

    def _sort(self) -> None:
        """Put cells near each other that are neighbours: in Morton order."""
        assert self._cells is not None and self._masses is not None
        count = self.cell_count
        bound = {"DIMENSION": self.lattice.dimension, "BITS": self.lattice.bits}
        code = self.device.empty(count, np.int64)
        self.device.run(
            kernels.for_each(cells.interleave, bindings=bound), count, 1, self._cells.key, code
        )
        key, mass = self._cells.key[1 : count + 1], self._masses.now[1 : count + 1]
        if self.device.is_cuda:
            from ergode.core import cuda

            cuda.sort_together(code, key, mass)
            return
        order = np.argsort(code)
        key[...] = key[order]
        mass[...] = mass[order]

    def _place(self, keys: np.ndarray, mass: np.ndarray) -> None:
        """Put cells, sorted, into the arrays."""
        assert self._cells is not None and self._masses is not None
        count = len(keys)
        mass = np.asarray(mass, self.precision)
        if self.device.is_cuda:
            from ergode.core import cuda

            cuda.copy_to(self._cells.key[1 : count + 1], np.ascontiguousarray(keys))
            cuda.copy_to(self._masses.now[1 : count + 1], mass)
        else:
            self._cells.key[1 : count + 1] = keys
            self._masses.now[1 : count + 1] = mass
        self._tally[cells.USED] = count + 1
        self._tally[cells.READY] = 0

    def _bytes_per_cell(self) -> int:
        word = np.dtype(self.precision).itemsize
        dimension = self.lattice.dimension
        # Table places are two to four a cell, each of 16 bytes.
        rates = 2 if self._local_noise else 1
        values = rates * dimension + 3 + self._flux_rows
        return 8 + 4 + 8 + 1 + values * word + 8 * dimension + 4 * 16

    def _allocate(self, count: int) -> None:
        """Room for at least `count` cells, and for some growth."""
        if self._capacity > count + count // 2:
            return
        wanted = max(1 << 14, 2 * count) if not self.device.is_cuda else max(1 << 16, 3 * count)
        if self._cells_most is not None:
            wanted = min(wanted, self._cells_most + 1)
        room = self.device.available_bytes() // self._bytes_per_cell()
        if min(wanted, room) <= count:
            raise PlanError(
                f"the density needs more than {count} cells of {self._bytes_per_cell()} bytes, "
                f"{count * self._bytes_per_cell() / 1e9:.2f} GB, and there is room for "
                f"{min(room, wanted)} on {self.device.name}; use larger widths or a larger "
                "threshold"
            )
        self._make_arrays(min(wanted, room))

    def _make_arrays(self, capacity: int) -> None:
        dimension = self.lattice.dimension
        table = 1 << int(np.ceil(np.log2(2 * capacity)))
        real = self.precision
        self._cells = Cells(
            self._zeros(capacity, np.int64),
            self._zeros((dimension, capacity), real),
            self._zeros((dimension, capacity if self._local_noise else 1), real),
            self._zeros((dimension, capacity), np.uint32),
            self._zeros((dimension, capacity), np.uint32),
            self._zeros(capacity, np.uint32),
            self._zeros(2 * table, np.int64),
            self._zeros(2, real),
            self._zeros(cells.TALLIES, np.int64),
            self._zeros(pruning.RUNGS, np.int64),
            self._zeros(cells.APART * (1 + self.device.core_count), np.int64),
        )
        self._masses = Masses(
            self._zeros(capacity, real),
            self._zeros(capacity, real),
            self._zeros(capacity, real),
            self._zeros((self._flux_rows, capacity), real),
            self._zeros(capacity, np.int64),
            self._zeros(capacity, np.uint8),
        )
        self._capacity = capacity

    def _zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        if not self.device.is_cuda:
            return np.zeros(shape, dtype)
        from ergode.core import cuda

        array = self.device.empty(shape, dtype)
        cuda.fill_zero(array)
        return array

    def _enlarge(self) -> None:
        """More room for the same cells."""
        assert self._cells is not None and self._masses is not None
        count = self.cell_count
        key, mass = self._cells.key[1 : count + 1], self._masses.now[1 : count + 1]
        before = self._cells, self._masses, self._capacity
        self._cells = self._masses = None
        try:
            self._allocate(max(count, self._capacity))
        except PlanError as error:
            self._cells, self._masses, self._capacity = before
            raise OutOfMemoryError(str(error)) from None
        assert self._cells is not None and self._masses is not None
        for target, values in ((self._cells.key, key), (self._masses.now, mass)):
            if self.device.is_cuda:
                target[1 : count + 1].copy_to_device(values)
            else:
                target[1 : count + 1] = values
        self._tally[cells.READY] = 0
