"""CUDA devices that are not here, for plans: their memory and sizes, from a table of records.

An engine that plans puts tables on its device and asks for the free memory, but runs no kernel. An
absent device counts the bytes that are put on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ergode.core.arguments import did_you_mean
from ergode.core.devices import CUDA
from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel

_MIB = 2**20
_CONTEXT_BYTES = 600 * _MIB  # that the driver and the kernels take


class Record(NamedTuple):
    """What is known of a kind of device."""

    model: str  # name of the hardware
    memory_bytes: int  # as the driver tells it
    multiprocessors: int
    shared_bytes: int  # largest shared memory of a block
    cluster: int  # largest cluster size [blocks]
    # work by engine, in that of a core of a CPU; empty if it was not measured
    cores: Mapping[str, float] = MappingProxyType({})


# Ratios of equal cases in benchmarks/RESULTS.md, one GPU to one core: epidemics of 1,000 (70),
# 10,000 (400) and a million nodes (700), their geometric mean; birth-death and Vilar's clock;
# Lorenz and delayed Lorenz; 150 nuclei by rodas4.
_OF_H200 = {"epidemics": 270.0, "stochastic": 800.0, "trajectories": 370.0, "kinetics": 150.0}

RECORDS = {
    "H200": Record("NVIDIA H200", 143_771 * _MIB, 132, 232_448, 16, _OF_H200),
    "H100": Record("NVIDIA H100 80GB HBM3", 81_559 * _MIB, 132, 232_448, 16),
    "A100": Record("NVIDIA A100-SXM4-80GB", 81_920 * _MIB, 108, 166_912, 1),
    "A100-40GB": Record("NVIDIA A100-SXM4-40GB", 40_960 * _MIB, 108, 166_912, 1),
    "L40S": Record("NVIDIA L40S", 46_068 * _MIB, 142, 101_376, 1),
    "RTX-4090": Record("NVIDIA GeForce RTX 4090", 24_564 * _MIB, 128, 101_376, 1),
}
"""Devices by name."""


def record_of(name: str) -> Record:
    """The record of a device.

    Raises a PlanError if it has none.
    """
    known = {one.lower(): one for one in RECORDS}
    if name.lower() not in known:
        hint = did_you_mean(name, RECORDS)
        raise PlanError(
            f"device '{name}' is neither here nor in the table of devices, which has "
            f"{', '.join(RECORDS)}{hint}"
        )
    return RECORDS[known[name.lower()]]


@dataclass(frozen=True)
class Absent(CUDA):
    """A CUDA device that runs nothing; its arrays are those of the host."""

    record: Record = field(default=RECORDS["H200"], compare=False)
    held: list[int] = field(default_factory=list, compare=False)  # bytes of what was put on it

    @classmethod
    def of(cls, name: str, record: Record) -> Absent:
        """The device of a record."""
        return cls(
            name, record.model, record.multiprocessors, record.memory_bytes, "planned for",
            record=record,
        )  # fmt: skip

    @property
    def _here(self) -> NoReturn:
        self._refuse()

    def available_bytes(self) -> int:
        return int(0.9 * max(0, self.memory_bytes - _CONTEXT_BYTES - sum(self.held)))

    def put(self, array: np.ndarray) -> Any:
        self.held.append(array.nbytes)
        return array

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        array = np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        self.held.append(array.nbytes)
        return array

    def fill_zero(self, array: Any) -> None:
        """Nothing: they are."""

    def fill_missing(self, array: Any) -> None:
        """Nothing: no array has values."""

    def put_together(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        return [self.put(array) for array in arrays]

    def zeros_together(self, layouts: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        return [self.empty(shape, dtype) for shape, dtype in layouts]

    def get(self, array: Any, into: np.ndarray | None = None) -> np.ndarray:
        return np.asarray(array)

    def view(self, array: Any) -> Any:
        return array

    def copy(self, source: Any, target: Any) -> None:
        """Nothing: no kernel reads it."""

    def prepare(self, kernel: Kernel, *arguments: Any) -> None:
        """Nothing: compiling needs the device."""

    @property
    def shared_bytes_most(self) -> int:
        return self.record.shared_bytes

    @property
    def cluster_most(self) -> int:
        return self.record.cluster

    def _refuse(self) -> NoReturn:
        raise PlanError(
            f"device '{self.name}' is not on this machine; it can be planned for, but not run on"
        )
