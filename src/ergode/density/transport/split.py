"""Split transport: one dimension after the other, third-order in space and time, limited.

Let c be the fraction of a cell that crosses a face in a step. A sweep along one dimension moves ::

    c (p' + psi (p'' - p')),   psi = max(0, min(1, (2 - c)(1 - c) / 6 + (1 - c^2) theta / 6,
                                                (1 - c) theta / c))

across it. p' is the upwind cell, p'' the downwind cell, and theta the ratio of the differences
before and at the face. This is the direct space-time scheme of third order, with a limiter that
keeps it monotone. c is the distance between the face and the origin of a particle that reaches it
at the end of the step: c = |u| dt (1 - u' dt / 2). Without the bracket, the scheme would be
first-order for a field that varies along itself.

Sweeps go up the dimensions in one step and down in the next, which is second-order (Strang). Each
face is stable on its own, so the largest rate bounds the step, not the sum of rates. Mass waits
until the neighbour that it flows to exists, or until a wall absorbs it (see `grid.walls`).

W. Hundsdorfer, R. A. Trompert, "Method of lines and direct discretization", Appl. Numer. Math. 13
(1994); G. Strang, SIAM J. Numer. Anal. 5 (1968).
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import no_unroll, real, unroll
from ergode.core.group import accumulate, barrier, edge, share
from ergode.density.grid.cells import ABSORBED, units
from ergode.density.grid.cut import at_most, density
from ergode.density.grid.growth import note_due
from ergode.density.grid.lattice import ABSORBING, CUT, DIMENSION
from ergode.density.grid.walls import at_cut, escaping
from ergode.density.transport.fluxes import EAGER, FLUXES_FIRST, find_fluxes


def gather(d, i, k, cells, p):
    """Gather what `moved` needs for the face between cell `i` and its neighbour `k` above.

    Returns the rate on the face, the rate on the next face upwind, and the masses below the face,
    above it and second upwind.
    """
    rate = cells.rate[d, i] if k != 0 else real(0.0)
    upward = rate > 0.0
    under = cells.below[d, i]
    far = under
    if EAGER:
        over = cells.above[d, k]
        far = under if upward else over
    elif not upward:
        far = cells.above[d, k]
    beyond = cells.rate[d, under if upward else k]
    # Without a neighbour below, the field is taken as constant.
    beyond = rate if upward and under == 0 else beyond
    here = density(i, p, cells)
    there = density(k, p, cells) if k != 0 else here
    behind = density(far, p, cells)
    if ABSORBING:
        here, there = at_cut(d, i, k, upward, here, there, cells)
    if CUT:
        share_open = cells.walls[d, i]
        here, there, behind = share_open * here, share_open * there, share_open * behind
    return rate, beyond, here, there, behind


def moved(step, rate, beyond, here, there, far):
    """Mass that crosses a face upward, from what `gather` found."""
    upward = rate > 0.0
    # The field varies upwind: c is the distance to the origin of a particle that reaches the face.
    stretch = rate - beyond if upward else beyond - rate
    c = abs(rate) * step
    c = min(max(c - 0.5 * c * step * stretch, real(0.0)), real(1.0))
    up = here if upward else there
    ahead = there - here
    before = up - far
    before = before if upward else -before
    a = abs(ahead)
    b = abs(before)
    third = c * (((2.0 - c) * a + (1.0 + c) * b) * ((1.0 - c) * real(1.0 / 6.0)))
    size = min(c * a, min(third, (1.0 - c) * b))
    size = size if ahead * before > 0.0 else real(0.0)
    # If mass rises along the flow, more crosses than c times the upwind mass.
    size = size if (ahead > 0.0) == upward else -size
    result = c * up + size
    result = result if upward else -result
    return result


def sweep(d, i, step, cells, p):
    """Mass of a cell after transport along one dimension."""
    below = cells.below[d, i]
    above = cells.above[d, i]
    mass = p[i]
    if above != 0:
        mass -= at_most(moved(step, *gather(d, i, above, cells, p)), i, above, p)
    if below != 0:
        mass += at_most(moved(step, *gather(d, below, i, cells, p)), below, i, p)
    return mass


def move(group, used, axis, step, floor, listing, cells, masses, p, q):
    """A sweep of all cells along one axis, from `p` to `q`.

    With `listing`, on CUDA, cells that need neighbours are listed.
    """
    flux = masses.flux[0]
    absorbed = np.int64(0)
    for d in unroll(range(DIMENSION)):
        if d == axis:
            if FLUXES_FIRST:
                find_fluxes(group, used, d, step, cells, flux, p)
                barrier(group)
            below = cells.below[d]
            for n in no_unroll(share(group, 1, used)):
                i = np.uint32(n)
                if FLUXES_FIRST:
                    mass = p[i] - flux[i] + flux[below[i]]
                else:
                    mass = sweep(d, i, step, cells, p)
                if ABSORBING:
                    out = escaping(d, i, step, mass, cells, p)
                    absorbed += units(out)
                    mass -= out
                q[i] = mass
                if listing:
                    note_due(i, mass, floor, cells, masses.key)
    if ABSORBING:
        accumulate(group, cells.counters, ABSORBED, absorbed)
    barrier(group)


_LANES = 256


def find_fluxes_cpu(group, used, d, step, cells, flux, p):
    """Compute the fluxes through the faces above cells along one dimension.

    Operands are gathered first, a block at a time, so that the arithmetic is vectorised.
    """
    start, stop = (
        edge(group.rank, group.size, 1, used),
        edge(group.rank + 1, group.size, 1, used),
    )
    rate, beyond, here, there = np.empty((4, _LANES), real)
    far = np.empty(_LANES, real)
    above = cells.above[d]
    for first in range(start, stop, _LANES):
        count = min(_LANES, stop - first)
        for n in range(count):
            i = np.uint32(first + n)
            rate[n], beyond[n], here[n], there[n], far[n] = gather(d, i, above[i], cells, p)
        block = flux[first : first + count]
        for n in range(count):
            block[n] = moved(step, rate[n], beyond[n], here[n], there[n], far[n])
        if CUT:
            for n in range(count):
                block[n] = at_most(block[n], first + n, above[first + n], p)


def find_fluxes_cuda(group, used, d, step, cells, flux, p):
    """Compute the fluxes through the faces above cells along one dimension."""
    for n in no_unroll(share(group, 1, used)):
        i = np.uint32(n)
        above = cells.above[d, i]
        flux[i] = at_most(moved(step, *gather(d, i, above, cells, p)), i, above, p)
