"""The kernels that advance a density, specialised to a field, a grid and a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from ergode.core import devices, group, kernels
from ergode.core.compiler.language import UserFunction, room_for
from ergode.core.compiler.source import Precision, Target
from ergode.density import bayes
from ergode.density.grid import cut, growth, lattice, pruning
from ergode.density.grid.lattice import Lattice
from ergode.density.methods import Method
from ergode.density.noise import Noise, depends_on_time
from ergode.density.transport import advance, fluxes, forcing
from ergode.models.fields.vector_field import VectorField

THREADS = {"grid": 256, "cluster": 512}  # per block

ThreadGroup = Literal["threads", "grid", "cluster"]  # kinds of groups

Killing = Callable[..., tuple[Any, ...]]
"""``killing(y, t, p)`` returns a tuple with the rate at which probability vanishes."""


@dataclass(frozen=True)
class Limits:
    """Admissible region of a density: a function of the state, and its range."""

    function: Callable[..., tuple[Any, ...]]
    least: float
    largest: float
    absorbs: bool = False  # whether mass that reaches the edge leaves

    @property
    def cuts(self) -> bool:
        """Whether this is a region with an edge that reflects, and cuts cells."""
        return not self.absorbs and self.largest == np.inf

    def wall_rows(self, dimension: int) -> int:
        """Number of rows of `Cells.walls`."""
        return 2 * dimension + 1 if self.absorbs else self.cuts * (dimension + 1)


def keeps_fluxes(dimension: int, target: Target) -> bool:
    """Whether fluxes are stored instead of being computed twice.

    Storing them halves the memory reads, which limit large grids, and adds a barrier, which limits
    small grids with many threads.
    """
    # In one dimension a step needs a barrier between its first reads and its last writes.
    return target == "cpu" or dimension > 3 or dimension == 1


def bindings_of(
    field: VectorField,
    lattices: Sequence[Lattice],
    method: Method,
    noise: Noise | None,
    thread_group: ThreadGroup,
    *,
    limits: Limits | None = None,
    killing: Killing | None = None,
    retained: bool = False,
    blocks: int = 1,
) -> dict[Any, Any]:
    """Options of the kernels; `blocks` is the number of blocks of a cluster."""
    first = lattices[0]
    target: Target = "cpu" if thread_group == "threads" else "cuda"
    return (
        _bindings_of_model(field, lattices, noise, limits, killing)
        | {
            pruning.RETAINED: retained,
            fluxes.EAGER: target == "cpu",
            growth.MOVES: 2 * first.dimension**2 + int(first.dimension > 2),
        }
        | method.bindings(target, keeps_fluxes(first.dimension, target))
        | _thread_group_bindings(thread_group, blocks)
    )


def _bindings_of_model(
    field: VectorField,
    lattices: Sequence[Lattice],
    noise: Noise | None,
    limits: Limits | None,
    killing: Killing | None,
) -> dict[Any, Any]:
    """Options of the kernels for the field, its noise and the lattice."""
    first = lattices[0]
    noisy = (False,) * first.dimension
    if noise is not None:
        noisy = tuple((noise.spread(first) != 0).tolist())
    absorbs = limits is not None and limits.absorbs
    cuts = limits is not None and limits.cuts
    return _bindings_of_field(field, lattices, noise, limits, killing) | {
        lattice.BITS: first.bits,
        lattice.PERIODIC: first.turns is not None,
        lattice.VARYING: varies(field, noise, killing),
        lattice.NOISY: noisy,
        lattice.ABSORBING: absorbs,
        lattice.CUT: cuts,
        lattice.LOSSY: absorbs or killing is not None,
        lattice.SPREAD_KEPT: keeps_spread(noise, limits),
        advance.ANY_NOISE: any(noisy),
    }


def keeps_spread(noise: Noise | None, limits: Limits | None) -> bool:
    """Whether the spread of noise is kept for each cell."""
    return noise is not None and (
        noise.function is not None or (limits is not None and (limits.absorbs or limits.cuts))
    )


def spread_rows(dimension: int, noise: Noise | None, limits: Limits | None) -> int:
    """Number of rows of `Cells.spread`."""
    if noise is None or not keeps_spread(noise, limits):
        return 0
    return dimension * (dimension + 1) // 2 if noise.is_crossed else dimension


def _bindings_of_field(
    field: VectorField,
    lattices: Sequence[Lattice],
    noise: Noise | None,
    limits: Limits | None,
    killing: Killing | None,
) -> dict[Any, Any]:
    """Data that a kernel needs to evaluate the field, its noise and killing at a point."""
    found: dict[Any, Any] = {}
    parameters = len(field.parameters)
    if killing is not None:
        found[lattice.killing] = UserFunction(killing, (1,), parameters)
    if limits is not None:
        found[lattice.limited_by] = UserFunction(limits.function, (1,), parameters)
    if noise is not None:
        found |= noise.bindings(lattices[0].dimension, parameters)
    return found | {
        lattice.rhs: UserFunction(field.function, (len(field.variables),), parameters),
        lattice.DIMENSION: lattices[0].dimension,
        lattice.PARAMETERS: room_for(parameters),
        lattice.ROTATED: any(one.is_rotated for one in lattices),
        lattice.LIMITED: limits is not None,
        lattice.LOCAL_NOISE: noise is not None and noise.function is not None,
        lattice.KILLED: killing is not None,
    }


def varies(field: VectorField, noise: Noise | None, killing: Killing | None = None) -> bool:
    """Whether the field, its noise or the killing rate depends on time."""
    return (
        depends_on_time(field.function)
        or (noise is not None and noise.function is not None and depends_on_time(noise.function))
        or (killing is not None and depends_on_time(killing, 1))
    )


def _thread_group_bindings(thread_group: ThreadGroup, blocks: int) -> dict[Any, Any]:
    """Which threads advance a density (see `core.group`)."""
    if thread_group == "cluster":
        return {group.KIND: group.CLUSTER, group.BLOCKS: blocks}
    return {group.TEAM: True} if thread_group == "threads" else {group.KIND: group.GRID}


def _registers(bindings: dict[Any, Any], thread_group: ThreadGroup) -> int | None:
    """Limit on registers per thread of a CUDA kernel."""
    if thread_group == "cluster":
        return 128  # the register file divided by the threads of a block
    # Large grids are memory-bound: more threads hide more latency.
    return 64 if bindings[lattice.DIMENSION] > 3 else None


def advance_kernel(
    bindings: dict[Any, Any], precision: Precision, thread_group: ThreadGroup
) -> kernels.Kernel:
    """The kernel `advance` for these bindings."""
    return kernels.kernel(
        advance.advance, advance.advance, precision=precision, bindings=bindings,
        registers=_registers(bindings, thread_group),
    )  # fmt: skip


def forcing_kernel(
    field: VectorField,
    lattices: Sequence[Lattice],
    noise: Noise | None,
    limits: Limits | None,
    killing: Killing | None = None,
) -> kernels.Kernel:
    """The kernel that computes how fast the field changes in time."""
    bindings = _bindings_of_field(field, lattices, noise, limits, killing)
    return kernels.for_each(forcing.largest_bend, bindings=bindings)


@cache
def reweigh_kernel(
    precision: Precision, thread_group: ThreadGroup, blocks: int = 1, lossy: bool = False
) -> kernels.Kernel:
    """The kernel `reweigh`, which does not depend on field and grid; `lossy`: see `LOSSY`."""
    bindings = _thread_group_bindings(thread_group, blocks) | {lattice.LOSSY: lossy}
    return kernels.kernel(bayes.reweigh, bayes.reweigh, precision=precision, bindings=bindings)


def capacities(
    limits: Limits, first: lattice.Lattice, parameters: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Shares of a prior's cells that the edge of a region may cut, on the CPU; 0: outside."""
    bindings = {
        lattice.limited_by: UserFunction(limits.function, (1,)),
        lattice.DIMENSION: first.dimension,
        lattice.BITS: first.bits,
        lattice.PARAMETERS: len(parameters),
        lattice.ROTATED: first.is_rotated,
        lattice.LIMITED: True,
        lattice.CUT: limits.cuts,
    }
    kernel = kernels.for_each(cut.capacities, bindings=bindings)
    device = devices.resolve("cpu")
    rows = lattice.frame_rows([first], parameters[None], None, [(limits.least, limits.largest)])
    out = np.zeros(len(keys))
    with kernels.readable_errors():
        device.run(kernel, len(keys), keys, lattice.Frame(*device.put_together(rows)), out)
    return out
