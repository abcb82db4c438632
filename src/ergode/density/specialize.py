"""The kernels that move a density, specialised to a field, a grid and a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ergode.core import kernels
from ergode.core.compiler.bundle import Precision
from ergode.core.compiler.language import UserFunction
from ergode.density import bayes
from ergode.density.grid import cells, group, growth, pruning
from ergode.density.grid.lattice import Lattice
from ergode.density.methods import Method
from ergode.density.noise import Noise, depends_on_time
from ergode.density.transport import advance
from ergode.models.fields.vector_field import VectorField

THREADS = {"grid": 256, "cluster": 512}  # of a block

ThreadGroup = Literal["threads", "grid", "cluster"]  # what works on one density


@dataclass(frozen=True)
class Limits:
    """Where the density may be: a function of the state, and the range it must be in."""

    function: Callable[..., tuple[Any, ...]]
    least: float
    largest: float


def keeps_fluxes(dimension: int, on_cuda: bool) -> bool:
    """Whether fluxes are kept rather than found twice.

    Keeping them halves the reads from memory, which limit large grids, and adds a barrier, which
    limits small grids of many threads.
    """
    # In one dimension a step needs a barrier between its first reads and its last writes.
    return not on_cuda or dimension > 3 or dimension == 1


def bindings_of(
    field: VectorField,
    lattices: Sequence[Lattice],
    method: Method,
    noise: Noise | None,
    thread_group: ThreadGroup,
    *,
    limits: Limits | None = None,
    retained: bool = False,
    blocks: int = 1,
) -> dict[str, Any]:
    """What kernels are specialised to; `blocks` are those of a cluster."""
    lattice = lattices[0]
    on_cuda = thread_group != "threads"
    target = "cuda" if on_cuda else "cpu"
    given: dict[str, Any] = {}
    if limits is not None:
        given["limited_by"] = UserFunction(limits.function)
    noisy = (False,) * lattice.dimension
    varying = depends_on_time(field.function)
    if noise is not None:
        noisy = tuple((noise.spread(lattice) != 0).tolist())
        if noise.function is not None:
            given |= {"noise": UserFunction(noise.function), "AMPLITUDES": noise.amplitudes}
            varying |= depends_on_time(noise.function)
    return (
        given
        | {
            "LIMITED": limits is not None,
            "LOCAL_NOISE": noise is not None and noise.function is not None,
            "RETAINED": retained,
            "rhs": UserFunction(field.function),
            "DIMENSION": lattice.dimension,
            "BITS": lattice.bits,
            "PARAMETERS": len(field.parameters),
            "ROTATED": any(one.is_rotated for one in lattices),
            "NOISY": noisy,
            "ANY_NOISE": any(noisy),
            "VARYING": varying,
            "MOVES": 2 * lattice.dimension**2,
            "FLUXES_FIRST": keeps_fluxes(lattice.dimension, on_cuda),
            "EAGER": not on_cuda,
            "note_due": getattr(growth, f"note_due_{target}"),
            "create": getattr(cells, f"create_{target}"),
            "make_needed": getattr(growth, f"make_needed_{target}"),
            "compact": getattr(pruning, f"compact_{target}"),
        }
        | method.bindings(target)
        | _thread_group_bindings(thread_group, blocks)
    )


def _thread_group_bindings(thread_group: ThreadGroup, blocks: int) -> dict[str, Any]:
    """The device functions of a kind of thread group."""
    if thread_group == "threads":
        return {
            "locate_thread": group.locate_cpu_thread, "share": group.share_cpu,
            "barrier": group.barrier_cpu, "atomic_accumulate": group.atomic_accumulate_cpu,
        }  # fmt: skip
    words: dict[str, Any] = {
        "share": group.share_cuda,
        "atomic_accumulate": group.atomic_accumulate_cuda,
    }
    if thread_group == "grid":
        return words | {"barrier": group.barrier_grid, "locate_thread": group.locate_in_grid}
    barrier = group.barrier_cluster if blocks > 1 else group.barrier_block
    return words | {"barrier": barrier, "locate_thread": group.locate_in_cluster, "BLOCKS": blocks}


def _registers(bindings: dict[str, Any], thread_group: ThreadGroup) -> int | None:
    """Registers a thread of a CUDA kernel may use."""
    if thread_group == "cluster":
        return 128  # as many as there are for its threads
    # Large grids wait for memory, and more threads hide more of it.
    return 64 if bindings["DIMENSION"] > 3 else None


def advance_kernel(
    bindings: dict[str, Any], precision: Precision, thread_group: ThreadGroup
) -> kernels.Kernel:
    """The kernel `advance` for these bindings."""
    return _kernel(
        advance.advance, precision, bindings, thread_group, _registers(bindings, thread_group)
    )


@cache
def reweigh_kernel(
    precision: Precision, thread_group: ThreadGroup, blocks: int = 1
) -> kernels.Kernel:
    """The kernel `reweigh`, which knows nothing of field and grid."""
    bindings = _thread_group_bindings(thread_group, blocks)
    return _kernel(bayes.reweigh, precision, bindings, thread_group)


def _kernel(
    body: Callable[..., Any],
    precision: Precision,
    bindings: dict[str, Any],
    thread_group: ThreadGroup,
    registers: int | None = None,
) -> kernels.Kernel:
    if thread_group == "threads":
        return kernels.cpu_kernel(body, precision=precision, bindings=bindings)
    return kernels.cuda_kernel(body, precision=precision, bindings=bindings, registers=registers)
