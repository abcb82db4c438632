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
from ergode.density.noise import Noise, depends_on_time
from ergode.density.transport import advance, split
from ergode.density.transport import corner as corner_transport
from ergode.models.fields.vector_field import VectorField

THREADS = {"grid": 256, "cluster": 512}  # of a block

Crew = Literal["threads", "grid", "cluster"]  # who works on one density


@dataclass(frozen=True)
class Limits:
    """Where the density may be: a function of the state, and the range it must be in."""

    function: Callable[..., tuple[Any, ...]]
    least: float
    largest: float


def keeps_fluxes(dimension: int, on_cuda: bool) -> bool:
    """Whether fluxes are kept rather than found twice.

    That halves what is gathered from memory, which large grids wait for, and adds a meeting, which
    small ones of many threads wait for.
    """
    # In one dimension a step must have a meeting between its first look and its last word.
    return not on_cuda or dimension > 3 or dimension == 1


def bindings_of(
    field: VectorField,
    lattices: Sequence[Lattice],
    scheme: str,
    noise: Noise | None,
    crew_kind: Crew,
    *,
    limits: Limits | None = None,
    retained: bool = False,
    blocks: int = 1,
) -> dict[str, Any]:
    """What kernels are specialised to; `blocks` are those of a cluster."""
    lattice = lattices[0]
    corner = scheme == "corner-transport"
    on_cuda = crew_kind != "threads"
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
            "OWN_FACES": corner,
            "SUM_OF_RATES": corner,
            "CORNER": corner,
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
            "find_fluxes": getattr(corner_transport if corner else split, f"find_fluxes_{target}"),
        }
        | _words_of(crew_kind, blocks)
    )


def _words_of(crew_kind: Crew, blocks: int) -> dict[str, Any]:
    """What the words of `crew` mean to a kind of crew."""
    if crew_kind == "threads":
        return {
            "place": group.place_of_thread, "share": group.share_cpu, "meet": group.meet_cpu,
            "book": group.book_cpu,
        }  # fmt: skip
    words: dict[str, Any] = {"share": group.share_cuda, "book": group.book_cuda}
    if crew_kind == "grid":
        return words | {"meet": group.meet_grid, "place": group.place_in_grid}
    meet = group.meet_cluster if blocks > 1 else group.meet_block
    return words | {"meet": meet, "place": group.place_in_cluster, "BLOCKS": blocks}


def _registers(bindings: dict[str, Any], crew_kind: Crew) -> int | None:
    """Registers a thread of a CUDA kernel may use."""
    if crew_kind == "cluster":
        return 128  # as many as there are for its threads
    # Large grids wait for memory, and more threads hide more of it.
    return 64 if bindings["DIMENSION"] > 3 else None


def advance_kernel(
    bindings: dict[str, Any], precision: Precision, crew_kind: Crew
) -> kernels.Kernel:
    """The kernel `advance` for these bindings."""
    return _kernel(advance.advance, precision, bindings, crew_kind, _registers(bindings, crew_kind))


@cache
def reweigh_kernel(precision: Precision, crew_kind: Crew, blocks: int = 1) -> kernels.Kernel:
    """The kernel `reweigh`, which knows nothing of field and grid."""
    bindings = _words_of(crew_kind, blocks)
    return _kernel(bayes.reweigh, precision, bindings, crew_kind)


def _kernel(
    body: Callable[..., Any],
    precision: Precision,
    bindings: dict[str, Any],
    crew_kind: Crew,
    registers: int | None = None,
) -> kernels.Kernel:
    if crew_kind == "threads":
        return kernels.cpu_kernel(body, precision=precision, bindings=bindings)
    return kernels.cuda_kernel(body, precision=precision, bindings=bindings, registers=registers)
