r"""Cut cells: what the edge of a region that reflects leaves of a cell, and of its faces.

The edge is a plane within a cell, from the value of `limited_by` at the centre and its slopes n, by
differences over two cells. The open share of a cell is the probability F(g) that g + n x > 0 for a
point x of the cell; that of a face follows from the value at the face. For a plane these shares
balance exactly (they are those of a polyhedron), so that a density that does not vary across an
oblique edge has no flux through it. With the open share b of a face and the capacity a of a cell ::

    flux = b (velocity x density + noise),   density = mass / (a x volume)

Density belongs to the centre of a cell, which may be outside (Ng, Min, Gibou). A thin cell would
need small steps: so a cell below a third gets what it lacks from its neighbours inside, and a
cell below a few per cent is left out, and they get its share. Both move mass across the edge only,
by a cell, and keep the sum, so that errors fall with the square of the width.

Y. T. Ng, C. Min, F. Gibou, "An efficient fluid-solid coupling algorithm for single-phase flows",
J. Comput. Phys. 228 (2009).
"""

from __future__ import annotations

import math

import numpy as np

from ergode.core.compiler.language import noinline, real, unroll
from ergode.density.grid.lattice import (
    CUT,
    DIMENSION,
    centre_of,
    frame_of,
    is_allowed,
    limited_value,
    shifted,
)

_LEAST = np.float64(1e-3)  # open share of a cell that is not left out
_CAPACITY = np.float64(1 / 3)  # least capacity of a cell
_CAPACITY_AT_CORNER = np.float64(0.2)  # the same where edges meet


def is_admissible(key, frame):
    """Whether a cell may have mass."""
    z = centre_of(key, frame)
    if is_allowed(z, frame):
        return True
    if CUT:
        return _is_open(z, frame)
    return False


@noinline
def _is_open(z, frame):
    """Whether enough of a cell whose centre is outside is inside."""
    here = np.float64(limited_value(z, frame))
    return here > -math.inf and open_share(here, _slopes(z, here, frame), -1) > _LEAST


def _slope(below, here, above):
    """Slope of the region's function along an axis, a cell: one-sided where it is not defined."""
    if math.isfinite(above) and math.isfinite(below):
        return 0.5 * (above - below)
    if math.isfinite(above):
        return above - here
    return here - below if math.isfinite(below) else 0.0 * here


def _slopes(z, here, frame):
    """Slopes of the region's function along the axes."""
    return tuple(
        _slope(
            np.float64(limited_value(shifted(z, d, real(-1.0), frame), frame)),
            here,
            np.float64(limited_value(shifted(z, d, real(1.0), frame), frame)),
        )
        for d in range(DIMENSION)
    )


@noinline
def open_share(value, slopes, without):
    """Share of a cell where value + slopes x > 0; of its face across axis `without`, if >= 0.

    This is the distribution function of a sum of uniform numbers. Slopes that vanish beside others
    would cancel; they are made a little larger.
    """
    most = np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        if d != without:
            most = max(most, abs(slopes[d]))
    least = most * math.pow(10.0, -12.0 / DIMENSION)
    reach = np.float64(0.0)
    divisor = np.float64(1.0)
    size = 0
    for d in unroll(range(DIMENSION)):
        if d != without:
            length = max(abs(slopes[d]), least)
            reach += 0.5 * length
            size += 1
            divisor *= size * length
    if value >= reach:
        return np.float64(1.0)
    if not value > -reach:
        return np.float64(0.0)
    total = np.float64(0.0)
    for corner in range(1 << DIMENSION):
        if without < 0 or (corner >> max(without, 0)) & 1 == 0:
            x = np.float64(value)
            term = np.float64(1.0)
            for d in unroll(range(DIMENSION)):
                if d != without:
                    half = 0.5 * max(abs(slopes[d]), least)
                    if (corner >> d) & 1 == 0:
                        x += half
                    else:
                        x -= half
                        term = -term
            if x > 0.0:
                for _ in range(size):
                    term *= x
                total += term
    return min(max(total / divisor, np.float64(0.0)), np.float64(1.0))


def _lacks(share):
    """What a cell gets from its neighbours inside; what they get of it is negative."""
    return max(_CAPACITY - share, np.float64(0.0)) if share > _LEAST else -share


def capacity_of(here, slopes):
    """Capacity of a cell, as a share of its volume."""
    share = open_share(here, slopes, -1)
    square = np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        square += slopes[d] * slopes[d]
    result = share + max(_lacks(share), np.float64(0.0))
    for d in unroll(range(DIMENSION)):
        if slopes[d] != 0.0:
            outside = open_share(here - abs(slopes[d]), slopes, -1)
            result -= slopes[d] * slopes[d] / square * _lacks(outside)
    return max(result, _CAPACITY_AT_CORNER)


def cut(i, z, cells, frame):
    """Compute the open shares of the faces above a cell, and the inverse of its capacity.

    Out: rows of `walls`. Returns, for each axis, how much faster than a whole cell it loses mass,
    and the direction of the edge, zero far from it.
    """
    here = np.float64(limited_value(z, frame))
    slopes = _slopes(z, here, frame)
    inverse = 1.0 / capacity_of(here, slopes)
    length = np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        length += slopes[d] * slopes[d]
    near = 1.0 / math.sqrt(length) if inverse != 1.0 else 0.0 * length
    cells.walls[DIMENSION, i] = inverse
    above = tuple(open_share(here + 0.5 * slopes[d], slopes, d) for d in range(DIMENSION))
    below = tuple(open_share(here - 0.5 * slopes[d], slopes, d) for d in range(DIMENSION))
    for d in unroll(range(DIMENSION)):
        cells.walls[d, i] = above[d]
    faster = tuple(real(0.5 * (above[d] + below[d]) * inverse) for d in range(DIMENSION))
    return faster, tuple(real(near * slopes[d]) for d in range(DIMENSION))


def drawn_in(z, frame):
    """A point, moved to the edge of the region if it is outside: functions are defined there."""
    here = np.float64(limited_value(z, frame))
    if here >= 0.0:
        return z
    slopes = _slopes(z, here, frame)
    square = np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        square += slopes[d] * slopes[d]
    by = -here / square if square > 0.0 else square
    return tuple(z[d] + real(by * slopes[d]) * frame.width[d] for d in range(DIMENSION))


def density(i, p, cells):
    """Mass of a cell, divided by its capacity."""
    if CUT:
        return p[i] * cells.walls[DIMENSION, i]
    return p[i]


def at_most(flux, i, k, p):
    """The flux through a face, at most all mass of the cell that it leaves."""
    if CUT:
        return min(max(flux, min(-p[k], real(0.0))), max(p[i], real(0.0)))
    return flux


def share_to_edge(here, slopes):
    """Share of a prior's cell that ends at an edge that absorbs: with that of the cell outside."""
    most = np.float64(0.0)
    for d in unroll(range(DIMENSION)):
        most = max(most, abs(slopes[d]))
    share = open_share(here, slopes, -1)
    return share + open_share(here - most, slopes, -1) if here < most else share


def capacities(index, keys, frames, out):
    """Share of a prior's cell in one density, 0 if it may have no mass: a kernel body."""
    frame = frame_of(frames, 0)
    out[index] = 0.0
    if is_admissible(keys[index], frame):
        z = centre_of(keys[index], frame)
        here = np.float64(limited_value(z, frame))
        slopes = _slopes(z, here, frame)
        out[index] = capacity_of(here, slopes) if CUT else share_to_edge(here, slopes)
