"""Layout of tau-leaping that the CPU and CUDA runners share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.epidemics.leap.step import LeapTables


@dataclass(frozen=True)
class Layout:
    """Sizes, options and tables of a tau-leaping run."""

    # As for `simulate`.
    device: Device
    precision: Precision
    mode: int  # how forces of infection are kept: `GATHER`, `PUSH` or `AUTO` of `leap.step`
    # Nodes, times of the grid, columns of counts, layers with a factor of their own.
    node_count: int
    time_count: int
    column_count: int
    layer_count: int
    # Forces of infection that are kept for a node: one for each infection and layer.
    channel_count: int
    seed: np.uint64  # key of all randomness
    bindings: dict[Any, Any]  # compile-time options of the kernels
    tables: LeapTables  # on the device; the seeds are set for each chunk
