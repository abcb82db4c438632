"""Memory of sparse grids: the shapes and types of their arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.group import APART
from ergode.density.grid import pruning
from ergode.density.grid.cells import Cells, Masses

_BARRIER_WORDS_MOST = 8  # threads per CPU core (one), or blocks per multiprocessor


class Memory(NamedTuple):
    """What the arrays of a density depend on, beside their capacity."""

    dimension: int
    precision: Precision
    flux_rows: int  # of `Masses.flux`
    spread_rows: int  # of `Cells.spread`, if it is kept
    wall_rows: int  # of `Cells.walls`
    kills: bool

    @property
    def bytes_per_cell(self) -> int:
        """Memory that a cell takes [bytes]."""
        word = np.dtype(self.precision).itemsize
        # The table has two to four slots per cell, of 16 bytes each.
        values = self.dimension + self.spread_rows + 3 + self.flux_rows + self.kills
        values += self.wall_rows
        return 8 + 4 + 8 + 1 + values * word + 8 * self.dimension + 4 * 16

    def arrays(
        self, device: Device, count: int, capacity: int, counters: Any
    ) -> tuple[Cells, Masses]:
        """Zeros for `count` densities, each with room for `capacity` cells."""
        real, along = self.precision, (self.dimension, capacity)
        spread = (self.spread_rows, capacity) if self.spread_rows else (1, 1)
        walls = (self.wall_rows, capacity) if self.wall_rows else (1, 1)
        decay = (capacity,) if self.kills else (1,)
        table = 1 << int(np.ceil(np.log2(2 * capacity)))
        barrier_words = APART * (1 + _BARRIER_WORDS_MOST * device.core_count)
        grid: list[Any] = [
            ((capacity,), np.int64), (along, real), (spread, real), (walls, real), (decay, real),
            (along, np.uint32), (along, np.uint32), ((capacity,), np.uint32),
            ((2 * table,), np.int64), ((2,), real), ((pruning.RUNGS,), np.int64),
            ((barrier_words,), np.int64),
        ]  # fmt: skip
        masses: list[Any] = [
            ((capacity,), real), ((capacity,), real), ((capacity,), real),
            ((self.flux_rows, capacity), real), ((capacity,), np.int64), ((capacity,), np.uint8),
        ]  # fmt: skip
        made = device.zeros_together([((count, *shape), kind) for shape, kind in (*grid, *masses)])
        first = Cells._fields.index("counters")
        own = [*made[:first], counters, *made[first : len(grid)]]
        return Cells(*own), Masses(*made[len(grid) :])
