"""The kernels that move a density, specialised to a field, a grid and a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ergode.core import kernels
from ergode.core.machine import Formula
from ergode.core.source import Precision, formula_text
from ergode.density import (
    advance,
    corner_transport,
    crew,
    growth,
    pruning,
    split,
    update,
)
from ergode.density.lattice import Lattice
from ergode.density.noise import Noise, depends_on_time
from ergode.models.vector_field import VectorField

_REGISTERS_OF_BLOCKS = 80  # three densities on a multiprocessor hide what each waits for

Crew = Literal["threads", "grid", "block"]  # who works on one density


@dataclass(frozen=True)
class Limits:
    """Where the density may be: a function of the state, and the range it must be in."""

    function: Callable[..., tuple[Any, ...]]
    least: float
    largest: float


def bindings_of(
    field: VectorField,
    lattice: Lattice,
    scheme: str,
    noise: Noise | None,
    crew_kind: Crew,
    limits: Limits | None = None,
    retained: bool = False,
) -> dict[str, Any]:
    """What kernels are specialised to."""
    corner = scheme == "corner-transport"
    on_cuda = crew_kind != "threads"
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
    return (
        given
        | {
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
            "MOVES": 2 * lattice.dimension**2,
            # Fluxes kept rather than found twice halve what is gathered from memory, which large
            # grids wait for, and add a meeting, which small ones of many threads wait for.
            "FLUXES_FIRST": not on_cuda or lattice.dimension > 3,
            "EAGER": not on_cuda,
            "make_needed": getattr(growth, f"make_needed_{target}"),
            "compact": getattr(pruning, f"compact_{target}"),
            "find_fluxes": getattr(corner_transport if corner else split, f"find_fluxes_{target}"),
        }
        | _words_of(crew_kind)
    )


def _words_of(crew_kind: Crew) -> dict[str, Any]:
    """What the words of `crew` mean to a kind of crew."""
    if crew_kind == "threads":
        return {"share": crew.share_cpu, "meet": crew.meet_cpu, "book": crew.book_cpu}
    words = {"share": crew.share_cuda, "book": crew.book_cuda}
    if crew_kind == "grid":
        return words | {"meet": crew.meet_grid, "place": crew.place_in_grid}
    return words | {"meet": crew.meet_block, "place": crew.place_in_block}


def _registers(bindings: dict[str, Any]) -> int | None:
    """Registers a thread of a CUDA kernel may use."""
    # Large grids wait for memory, and more threads hide more of it; in few dimensions grids are
    # small, wait for each other, and spilling would only add to that.
    if bindings["meet"] is crew.meet_block:
        return _REGISTERS_OF_BLOCKS
    return 64 if bindings["DIMENSION"] > 3 else None


_KERNELS: dict[tuple[Any, ...], list[kernels.Kernel]] = {}


def kernels_of(
    bindings: dict[str, Any], precision: Precision, crew_kind: Crew
) -> list[kernels.Kernel]:
    """The kernels `advance` and `prune` for these bindings."""
    texts = [
        (name, formula_text(value.function) if isinstance(value, Formula) else value)
        for name, value in sorted(bindings.items())
    ]
    key = (precision, *texts)
    if key not in _KERNELS:
        if crew_kind == "threads":
            _KERNELS[key] = kernels.cpu_kernels(
                advance.advance_cpu, pruning.prune_cpu, precision=precision, bindings=bindings
            )
        else:
            _KERNELS[key] = [
                kernels.cuda_kernel(
                    body, precision=precision, bindings=bindings, registers=_registers(bindings)
                )
                for body in (advance.advance_cuda, pruning.prune_cuda)
            ]
    return _KERNELS[key]


@cache
def reweigh_kernel(precision: Precision, crew_kind: Crew) -> kernels.Kernel:
    """The kernel `reweigh`, which knows nothing of field and grid."""
    bindings = _words_of(crew_kind)
    if crew_kind == "threads":
        return kernels.cpu_kernel(update.reweigh_cpu, precision=precision, bindings=bindings)
    return kernels.cuda_kernel(update.reweigh_cuda, precision=precision, bindings=bindings)
