"""Cells of the prior drawn on a grid, where the flow has carried them.

A cell of the lattice in the prior is a parallelepiped after a while: its edges are half the
differences between the points beside it. It is divided along each edge until its parts are shorter
than the cells of the grid, and each part falls into one of them, at a random place within it: parts
at even distances would leave stripes, where these distances and those of the grid beat. Cells that
are too many to be divided so far are drawn as random places within each, so that a stretched
density has no holes, and its marginals have the noise of that many samples. Within a cell the
density varies as between the points beside it. A Gaussian cell is drawn as a lattice of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import resident
from ergode.core.devices import Device
from ergode.density.flow import images_kernels
from ergode.density.flow.cells import columns, least_of, parts_of, places_of
from ergode.density.flow.images_kernels import FLAT, STEEPEST
from ergode.density.flow.points import Start, pattern, spacing_of
from ergode.density.grid.lattice import DIMENSION, Lattice

if TYPE_CHECKING:
    from ergode.density.flow.carrier import Carrier

_PARTS_MOST = 1 << 22  # of all cells together
_FEW = 1 << 19  # parts of all cells together that take little time
_PLACES = 1 << 20  # of all cells together, where they cannot be divided
_FINENESS = (4.0, 3.0, 2.5, 2.0, 1.5)  # parts in a cell of the grid, along an edge
_LEAST = 1e-7  # of all mass: what the faintest points hold together is not drawn
_CUT = 1e-3  # mass of a Gaussian cell that is not drawn


def moved(lattice: Lattice, mean: np.ndarray) -> Lattice:
    """The lattice, moved by whole cells to the mean."""
    steps = np.rint(((mean - lattice.centre) @ lattice.axes) / lattice.width)
    return replace(lattice, centre=lattice.centre + lattice.axes @ (steps * lattice.width))


Cells = tuple[np.ndarray, np.ndarray]
"""Keys and masses."""


def cells_of(
    carrier: Carrier, which: int, start: Start, lattice: Lattice, log_mass: float, *, waits: bool
) -> Callable[[], Cells]:
    """What draws the cells of a density, which has this mass; it `waits` while points move on."""
    if not carrier.device.is_cuda or start.roots is not None or not start.has_cells:
        return partial(draw, *carrier.host(which), start, lattice)
    arrays = carrier.points, carrier.log_weights
    points, log_weights = map(carrier.copied, arrays) if waits else arrays
    return partial(
        draw_on, carrier.device, which, points, log_weights, carrier.beside, lattice, log_mass
    )


def draw_on(
    device: Device, which: int, points: Any, log_weights: Any, beside: Any, lattice: Lattice,
    log_mass: float,
) -> Cells:  # fmt: skip
    """The same as `draw` on a GPU; arguments are those of `images_kernels.draw_parts`."""
    size, count = len(lattice.width), points.shape[-1]
    log_mass = float(log_mass)
    (least,) = least_of(device, (log_mass, log_weights[which : which + 1], [_LEAST]))
    turns = np.zeros(size, np.int64) if lattice.turns is None else lattice.turns
    across = np.ascontiguousarray(lattice.axes.T / lattice.width[:, None])
    centre, across, turns = device.put_together([lattice.centre, across, turns])
    groups = parts_of(device, count)

    def total(fineness: np.ndarray, most: np.ndarray) -> np.ndarray:
        out = device.empty((len(most), groups), np.float64)
        device.run(
            _kernel_of(images_kernels.count_parts, size), out.size, count, groups, which, least,
            *device.put_together([fineness, most]), across, points, log_weights, beside, out,
        )  # fmt: skip
        return np.asarray(device.get(out)).sum(axis=1)

    fineness, most, again, parts = _ways(total)
    room = 1 << int(2 * parts).bit_length()
    keys, masses, farthest = device.zeros_together([((n,), np.int64) for n in (room, room, 1)])
    device.run(
        _kernel_of(images_kernels.draw_parts, size), count * again, again, which, least, fineness,
        most, log_mass, centre, across, turns, lattice.bits, lattice.reach, points, log_weights,
        beside, keys, masses, farthest,
    )  # fmt: skip
    lattice.check_reach(int(np.asarray(device.get(farthest))[0]))
    there, _ = places_of(device, keys)
    found, mass = (np.asarray(device.get(columns(device, one, there))) for one in (keys, masses))
    order = np.argsort(found)
    return resident.sent(found[order]), resident.sent(mass[order] / mass.sum())


@lru_cache(maxsize=64)
def _kernel_of(body: Callable[..., Any], size: int) -> kernels.Kernel:
    return kernels.for_each(body, bindings={DIMENSION: size})


def _ways(
    total: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[float, float, int, int]:
    """How cells are divided: `fineness`, parts along an edge at most, how many times, and parts.

    `total` counts the parts of all cells by some of the first two.
    """
    ways = np.array(_FINENESS), np.full(len(_FINENESS), np.inf)
    parts = total(*ways)
    chosen = int(np.argmax(parts < _FEW)) if (parts < _FEW).any() else len(parts) - 1
    if parts[chosen] <= _PARTS_MOST:
        return _FINENESS[chosen], np.inf, 1, int(parts[chosen])
    most = 2.0 ** np.arange(_PARTS_MOST.bit_length() - 1, -1, -1)
    parts = total(np.full(most.shape, _FINENESS[-1]), most)
    chosen = int(np.argmax(np.append(parts <= _PARTS_MOST, True)))
    chosen = min(chosen, len(most) - 1)
    again = max(1, int(_PLACES // parts[chosen]))
    return _FINENESS[-1], float(most[chosen]), again, again * int(parts[chosen])


def draw(points: np.ndarray, log_weights: np.ndarray, start: Start, lattice: Lattice) -> Cells:
    """Keys and masses of the cells of a density.

    States `points` [point, ...] and `log_weights` [point] are those of `start` at a later time.
    """
    weight = np.exp(log_weights - log_weights.max())
    weight /= weight.sum()
    order = np.argsort(weight)
    chosen = np.sort(order[np.searchsorted(np.cumsum(weight[order]), _LEAST) :])
    size = len(lattice.width)
    z = ((points[:, :size] - lattice.centre) @ lattice.axes) / lattice.width  # in cells
    if start.roots is not None:
        columns = points[chosen, size:].reshape(len(chosen), size, size)
        z, weight = _smeared(z[chosen], weight[chosen], (columns @ lattice.axes) / lattice.width)
    elif start.has_cells:
        edges, slopes = _edges(z, log_weights, start.neighbours, chosen)
        z, weight = _parts(z[chosen], weight[chosen], edges, slopes)
    else:
        z, weight = z[chosen], weight[chosen]
    keys, cell = np.unique(
        lattice.pack(lattice.wrapped(np.rint(z).astype(np.int64))), return_inverse=True
    )
    mass = np.bincount(cell.ravel(), weight, len(keys))
    return resident.sent(keys), resident.sent(mass / mass.sum())


def _smeared(
    z: np.ndarray, weight: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Parts of Gaussian cells, whose roots have `columns` [cell, column, axis]."""
    size = z.shape[1]
    widest = float(np.sqrt(np.square(columns).sum(axis=1)).max())
    spacing = spacing_of(size, None, _CUT, _PARTS_MOST // len(z), min(0.35, 0.5 / widest))
    shape = pattern(size, spacing, _CUT)
    if not shape.spacing:  # as many as there is room for
        few = max(1, _PARTS_MOST // len(z))
        shape = replace(shape, z=shape.z[:few], log_normal=shape.log_normal[:few])
    share = np.exp(shape.log_normal)
    parts = z[:, None] + np.einsum("pk,cka->cpa", shape.z, columns)
    return parts.reshape(-1, size), np.outer(weight, share / share.sum()).ravel()


def _edges(
    z: np.ndarray, log_weights: np.ndarray, neighbours: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges of cells [cell, edge, axis], and changes of the log-weight along them [cell, edge]."""
    finite = np.isfinite(log_weights)
    size = z.shape[1]
    edges = np.zeros((len(chosen), size, size))
    slopes = np.zeros((len(chosen), size))
    for d, there in enumerate(neighbours[..., chosen]):
        up, down = np.where((there >= 0) & finite[there], there, chosen)
        apart = np.maximum((up != chosen).astype(float) + (down != chosen), 1.0)
        edges[:, d] = (z[up] - z[down]) / apart[:, None]
        slopes[:, d] = (log_weights[up] - log_weights[down]) / apart
    return edges, np.clip(slopes, -STEEPEST, STEEPEST)


def _parts(
    z: np.ndarray, weight: np.ndarray, edges: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Parts of all cells: their places and weights."""
    size = z.shape[1]
    random = np.random.Generator(np.random.Philox(0))
    longest = np.abs(edges).max(axis=2)

    def wanted(fineness: float, most: float) -> np.ndarray:
        return np.minimum(np.maximum(np.ceil(fineness * longest), 1.0), most)

    fineness, most, again, _ = _ways(
        lambda *ways: np.array([wanted(*way).prod(axis=1).sum() for way in zip(*ways, strict=True)])
    )
    counts = wanted(fineness, most).astype(np.int64)
    cell = np.repeat(np.arange(len(z)), again)
    z, weight = z[cell], weight[cell] / again
    for d in range(size):
        count = counts[cell, d]
        row = np.repeat(np.arange(len(cell)), count)
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        cell, count = cell[row], count[row]
        slope = slopes[cell, d]
        part = (number + random.random(len(row))) / count
        place = np.where(count > 1, part - 0.5, _tilted(part, slope))
        share = np.exp(slope * place)
        total = np.bincount(row, share, len(z))
        z = z[row] + edges[cell, d] * place[:, None]
        weight = weight[row] * share / total[row]
    return z, weight


def _tilted(part: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Places from -1/2 to 1/2 below which is this `part` of a density exp(slope * place)."""
    steep = np.where(np.abs(slope) > FLAT, slope, 1.0)
    bent = np.log1p(part * np.expm1(steep)) / steep
    return np.where(np.abs(slope) > FLAT, bent, part) - 0.5
