"""Densities on one device: their arrays, their kernels, and how they are moved forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import CPU, Device
from ergode.core.errors import PlanError
from ergode.core.source import Precision
from ergode.density import cells, pruning, update
from ergode.density.cells import Cells, Masses
from ergode.density.crew import APART
from ergode.density.lattice import Frame, Lattice
from ergode.density.noise import Noise
from ergode.density.specialize import Crew, Limits, bindings_of, kernels_of, reweigh_kernel
from ergode.density.summary import Summary, summary_of, word_count
from ergode.models.measurement import Measurement
from ergode.models.vector_field import VectorField

PRUNE_EVERY = 20
_BUDGET_CPU = 20_000_000  # cell-steps between two looks at the keyboard
_CELLS_A_THREAD = 2000  # of a CPU, at least: fewer and it waits more than it works
_RESORT_ABOVE_CPU = 1 << 15
_RESORT_ABOVE_CUDA = 1 << 19
_CELLS_LEAST = 1 << 14  # of a density for which room is made
_THREADS = 256
_BLOCKS_LEAST = 64  # of a small grid: more threads than cells hide what little can be hidden
_BLOCKS_SIDE_BY_SIDE = 16  # densities, at least, that are given a block each


class OutOfMemoryError(PlanError):
    """The grid does not fit any more; the density as it was before the step is still there."""


_BLOCKS_MOST: dict[kernels.Kernel, int] = {}


class Evolution:
    """Densities that move, side by side.

    Parameters
    ----------
    field : VectorField
    lattice : Lattice
    parameters : ndarray, shape [density_count, parameter_count]
    scheme : {"split", "corner-transport"}
    threshold : float
        Probability of a cell, as a fraction of all, below which it may be dropped.
    device : Device
    precision : {"float32", "float64"}
        Type of masses and rates.
    noise : Noise, optional
        Process noise.
    limits : sequence of Limits, optional
        For each density; cells outside are never made.
    cells_most : int, optional
        More cells of a density than this are treated as if memory were full.
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
        limits: Sequence[Limits] = (),
        cells_most: int | None = None,
        loss_rate: float | None = None,
    ) -> None:
        self.lattice = lattice
        self.device = device
        self.precision = precision
        self.parameters = np.atleast_2d(parameters)
        self._cells_most = cells_most
        count = len(self.parameters)
        self._crew: Crew = "threads"
        if device.is_cuda:
            self._crew = "block" if count >= _BLOCKS_SIDE_BY_SIDE else "grid"
        spread = np.zeros(lattice.dimension) if noise is None else noise.spread(lattice)
        bindings = bindings_of(
            field, lattice, scheme, noise, self._crew, limits[0] if limits else None,
            loss_rate is not None,
        )  # fmt: skip
        self._local_noise = bool(bindings["LOCAL_NOISE"])
        keeps_all = bindings["CORNER"] and bindings["FLUXES_FIRST"]
        self._flux_rows = lattice.dimension if keeps_all else 1
        self._advance, self._prune = kernels_of(bindings, precision, self._crew)
        self._reweigh = reweigh_kernel(precision, self._crew)
        ranges = [(one.least, one.largest) for one in limits] or [(0.0, 0.0)] * count
        parts = (lattice.centre, lattice.width, lattice.axes, self.parameters, spread, ranges)
        self._frame = Frame(
            *(device.put(np.ascontiguousarray(part, np.dtype(precision))) for part in parts)
        )
        self._clock = np.zeros((count, cells.CLOCKS))
        self._clock[:, cells.THRESHOLD] = threshold
        self._clock[:, cells.COURANT] = 1.0
        self._clock[:, cells.LOSS_RATE] = loss_rate or 0.0
        self._tally = np.zeros((count, word_count(lattice.dimension)), np.int64)
        self._clock_there = self._put(self._clock)
        self._cells: Cells | None = None
        self._masses: Masses | None = None
        self._capacity = 0
        self.on_pause: Callable[[], None] = lambda: None

    @staticmethod
    def count_that_fits(dimension: int, cell_count: int, device: Device) -> int:
        """Number of densities that may run side by side, if their grids grow as grids do."""
        each = 4 * max(_CELLS_LEAST, 2 * cell_count) * (150 + 16 * dimension)
        return max(1, device.available_bytes() // each)

    # ---- what they are

    @property
    def count(self) -> int:
        """Number of densities."""
        return len(self.parameters)

    @property
    def time(self) -> float:
        """Time of the density that is least far [time]."""
        return float(self._clock[:, cells.TIME].min())

    @property
    def cell_count(self) -> int:
        """Number of cells of the largest density."""
        return int(self._tally[:, cells.USED].max()) - 1

    @property
    def work(self) -> dict[str, int]:
        """Steps and cell-steps of all, and the largest number of cells so far."""
        tally = self._tally
        return {
            "steps": int(tally[:, cells.STEPS].sum()),
            "cell_steps": int(tally[:, cells.CELL_STEPS].sum()),
            "cell_count_most": int(tally[:, cells.PEAK].max()),
        }

    @property
    def budget(self) -> dict[str, np.ndarray]:
        """Masses of each since it was loaded: loaded, pruned, lost at faces, clipped."""
        names = ("loaded", "pruned", "lost", "clipped")
        places = (cells.LOADED, cells.PRUNED, cells.LOST, cells.CLIPPED)
        return {
            name: self._tally[:, at] / float(cells.MASS_UNIT)
            for name, at in zip(names, places, strict=True)
        }

    # ---- what they do

    def load(
        self,
        time: float,
        priors: Sequence[tuple[np.ndarray, np.ndarray]],
        may_lose: float | np.ndarray = 0.0,
    ) -> None:
        """Begin with these cells: for each density keys, and masses.

        `may_lose` is what may be pruned at once, where the threshold follows from that.
        """
        self._clock[:, [cells.TIME, cells.NOISE_TIME, cells.LOADED_AT]] = time
        self._clock[:, cells.ALLOWED] = may_lose
        self._allocate(max(len(keys) for keys, _ in priors))
        tally = self._tally
        tally[:, [cells.SINCE, cells.PRUNED, cells.LOST, cells.CLIPPED]] = 0
        for which, (keys, mass) in enumerate(priors):
            mass = np.asarray(mass, self.precision)
            self._place(which, keys, mass)
            units = (mass.astype(np.float64) * cells.MASS_UNIT).astype(np.int64)
            tally[which, cells.LOADED] = units.sum()
        self.settle()

    def read(self, which: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Keys of a density in ascending order, and the mass of each cell."""
        key, mass = (self.device.get(array) for array in self._filled(which))
        key = key & cells.KEY
        order = np.argsort(key)
        return key[order], mass[order].astype(np.float64)

    def advance(self, target: float) -> None:
        """Move forward to a time.

        Raises
        ------
        PlanError
            A density reached the end of the lattice, or does not fit into memory.
        """
        self._clock[:, cells.TARGET] = target
        while True:
            self._run(self._advance, self._steps())
            state = self._tally[:, cells.STATE]
            if (state == cells.EDGE).any():
                raise PlanError(
                    f"at time {self.time:g} the density reaches the end of the lattice, "
                    f"{self.lattice.reach} cells from its centre; use larger widths"
                )
            if (state == cells.FULL).any():
                self._enlarge()
            elif (state == cells.REACHED).all():
                return
            else:
                for which in np.flatnonzero(self._tally[:, cells.READY] == 0):
                    self._sort(int(which))
            self.on_pause()

    def settle(self) -> None:
        """See to it that grids are built and densities summarized, without a step."""
        times = self._clock[:, cells.TIME]
        self._clock[:, cells.TARGET] = times
        self._run(self._advance, (1 << 62, PRUNE_EVERY, 1 << 62))

    def summaries(self) -> list[Summary]:
        """Each density in a few numbers, as it was reached or settled."""
        return [summary_of(self.lattice, tally) for tally in self._tally]

    def correct(self, measurement: Measurement) -> np.ndarray:
        """Multiply by the likelihood of a measurement; the logarithm of its evidence, for each.

        Where that is not finite the measurement is impossible, and the density as it was.
        """
        assert self._cells is not None
        stride = self.cell_count + 1
        log = self.device.empty((self.count, stride), np.float64)
        constant = update.find_likelihoods(
            measurement, self.lattice, self.parameters, self.device, stride, self._cells.key,
            self._cells.tally, log,
        )  # fmt: skip
        sums = self._put(np.zeros((self.count, 3), np.int64))
        outcome = self._put(np.full((self.count, 2), -np.inf))
        self._run(self._reweigh, (), (log, sums, outcome))
        self.settle()
        evidence = self.device.get(outcome)[:, 1] + constant
        self._clock[:, [cells.NOISE_TIME, cells.LOADED_AT]] = self._clock[:, [cells.TIME]]
        return evidence

    def prune(self, may_lose: float | np.ndarray = 0.0) -> None:
        """Drop what is below the threshold, or what may be lost at once."""
        self._clock[:, cells.ALLOWED] = may_lose
        self._run(self._prune, (), clocked=True)
        self.settle()

    # ---- how

    def _steps(self) -> tuple[int, int, int]:
        """How long a kernel may run, how often it prunes, and when it is to be sorted."""
        if self.device.is_cuda:
            return 1 << 62, PRUNE_EVERY, _RESORT_ABOVE_CUDA
        # Soon enough to see whether a grid has grown and more threads are worth their while.
        budget = min(_BUDGET_CPU, 500 * max(self.cell_count, _CELLS_A_THREAD))
        return budget, PRUNE_EVERY, _RESORT_ABOVE_CPU

    def _run(
        self,
        kernel: kernels.Kernel,
        head: tuple[int, ...],
        tail: tuple[Any, ...] = (),
        clocked: bool = False,
    ) -> None:
        """Run a kernel for all densities.

        Its arguments are `head`, cells and masses, then frame and clock where it has a head, clock
        alone where it is `clocked`, and `tail`.
        """
        assert self._cells is not None and self._masses is not None
        run = self._run_cuda if self.device.is_cuda else self._run_cpu
        clock = self._clock_there
        self._copy_to(clock, self._clock)
        clocks = (self._frame, clock) if head else (clock,) if clocked else ()
        self._copy_to(self._cells.tally, self._tally)
        if not self.device.is_cuda:
            self._cells.meeting[...] = 0
        with kernels.readable_errors():
            run(kernel, (*head, self._cells, self._masses, *clocks, *tail))
        self._tally[...] = self.device.get(self._cells.tally)
        if clocks:
            self._clock[...] = self.device.get(clock)

    def _run_cpu(self, kernel: kernels.Kernel, arguments: tuple[Any, ...]) -> None:
        from ergode.core import cpu

        assert isinstance(self.device, CPU)
        compiled = kernel.compiled("cpu")
        cores = self.device.core_count
        if self.count == 1:
            threads = min(cores, max(1, self.cell_count // _CELLS_A_THREAD))
            cpu.run_together(compiled, threads, (0, *arguments))
            return

        def alone(start: int, stop: int) -> None:
            compiled(0, 1, start, *arguments)

        cpu.run(alone, ((which, which + 1) for which in range(self.count)), (), cores)

    def _run_cuda(self, kernel: kernels.Kernel, arguments: tuple[Any, ...]) -> None:
        from ergode.core import cuda

        compiled = kernel.compiled("cuda")
        if self._crew == "block":
            cuda.launch(compiled, self.count, _THREADS, (0, *arguments))
            return
        if kernel not in _BLOCKS_MOST:
            _BLOCKS_MOST[kernel] = cuda.cooperative_block_count(compiled, _THREADS, (0, *arguments))
        for which, used in enumerate(self._tally[:, cells.USED].tolist()):
            blocks = min(_BLOCKS_MOST[kernel], max(_BLOCKS_LEAST, -(-2 * used // _THREADS)))
            cuda.launch(compiled, blocks, _THREADS, (which, *arguments))

    def _put(self, array: np.ndarray) -> Any:
        """An array on the device that a kernel may write to."""
        return self.device.put(array) if self.device.is_cuda else array

    def _copy_to(self, target: Any, array: np.ndarray) -> None:
        if self.device.is_cuda:
            from ergode.core import cuda

            cuda.copy_to(target, np.ascontiguousarray(array))
        elif target is not array:
            target[...] = array

    def _filled(self, which: int) -> tuple[Any, Any]:
        """Keys and masses of the cells of a density, on the device."""
        assert self._cells is not None and self._masses is not None
        used = int(self._tally[which, cells.USED])
        return self._cells.key[which, 1:used], self._masses.now[which, 1:used]

    def _sort(self, which: int) -> None:
        """Put cells near each other that are neighbours: in Morton order."""
        key, mass = self._filled(which)
        bound = {"DIMENSION": self.lattice.dimension, "BITS": self.lattice.bits}
        code = self.device.empty(len(key), np.int64)
        self.device.run(kernels.for_each(cells.interleave, bindings=bound), len(key), 0, key, code)
        if self.device.is_cuda:
            from ergode.core import cuda

            cuda.sort_together(code, key, mass)
            return
        order = np.argsort(code)
        key[...] = key[order]
        mass[...] = mass[order]

    def _place(self, which: int, keys: np.ndarray, mass: np.ndarray) -> None:
        """Put cells into the arrays."""
        self._tally[which, cells.USED] = len(keys) + 1
        self._tally[which, cells.READY] = 0
        for target, array in zip(self._filled(which), (keys, mass), strict=True):
            self._copy_to(target, array)

    def _bytes_per_cell(self) -> int:
        word = np.dtype(self.precision).itemsize
        dimension = self.lattice.dimension
        # Table places are two to four a cell, each of 16 bytes.
        rates = 2 if self._local_noise else 1
        values = rates * dimension + 3 + self._flux_rows
        return 8 + 4 + 8 + 1 + values * word + 8 * dimension + 4 * 16

    def _allocate(self, count: int) -> None:
        """Room for at least `count` cells of each density, and for some growth."""
        if self._capacity > count + count // 2:
            return
        least = 4 * _CELLS_LEAST if self._crew == "grid" else _CELLS_LEAST
        wanted = max(least, (3 if self._crew == "grid" else 2) * count)
        if self._cells_most is not None:
            wanted = min(wanted, self._cells_most + 1)
        each = self._bytes_per_cell()
        room = self.device.available_bytes() // (each * self.count)
        if min(wanted, room) <= count:
            which = "the density needs" if self.count == 1 else f"{self.count} densities need"
            fewer = "" if self.count == 1 else ", or fewer densities at a time"
            raise PlanError(
                f"{which} more than {count} cells{' each' if fewer else ''} of {each} bytes, "
                f"{self.count * count * each / 1e9:.2g} GB, and there is room for "
                f"{min(room, wanted)} on {self.device.name}; use larger widths or a larger "
                f"threshold{fewer}"
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
            self._zeros(word_count(dimension), np.int64),
            self._zeros(pruning.RUNGS, np.int64),
            self._zeros(APART * (1 + self.device.core_count), np.int64),
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
        """An array of zeros for each density."""
        shape = (self.count, *(shape if isinstance(shape, tuple) else (shape,)))
        if not self.device.is_cuda:
            return np.zeros(shape, dtype)
        array = self.device.empty(shape, dtype)
        self._fill_zero(array)
        return array

    def _fill_zero(self, array: Any) -> None:
        if self.device.is_cuda:
            from ergode.core import cuda

            cuda.fill_zero(array)
        else:
            array[...] = 0

    def _enlarge(self) -> None:
        """More room for the same cells."""
        before = self._capacity
        # All but these is given back first, so that as much as possible can be had.
        held = [
            [np.array(self.device.get(array)) for array in self._filled(which)]
            for which in range(self.count)
        ]
        self._cells = self._masses = None
        self._capacity = 0
        failed: PlanError | None = None
        try:
            self._allocate(max(self.cell_count, before))
        except PlanError as error:
            failed = error
            self._make_arrays(before)
        for which, (keys, mass) in enumerate(held):
            self._place(which, keys, mass)
        if failed:
            self.settle()
            raise OutOfMemoryError(str(failed)) from None
