"""Corner transport: an unsplit second-order Godunov step, limited.

Let c be the fraction of a cell that crosses a face in a step (rate times step), and let a prime
mark the upwind side of the face. The mass that crosses it is ::

    c (p' - S' + T') + |c| (1 - |c|) / 2 limited(p' - p'', p_k - p_i)

T_d is the loss by transport along d alone in half a step, and S is its sum over all dimensions.
S - T is the transport across corners. The last term makes the step second-order where the solution
is smooth (monotonised central limiter). The sum of c over dimensions bounds the step. Mass that
flows into a missing neighbour above is lost, and counted. No mass leaves through a face with a
missing neighbour below. Walls may absorb mass (see `grid.walls`).

P. Colella, "Multidimensional upwind methods for hyperbolic conservation laws", J. Comput. Phys. 87
(1990); R. J. LeVeque, "Finite Volume Methods for Hyperbolic Problems" (2002), chapter 20.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.language import no_unroll, real, unroll
from ergode.core.group import accumulate, barrier, edge, share
from ergode.density.grid.cells import ABSORBED, CLIPPED, LOST, units
from ergode.density.grid.cut import at_most, density
from ergode.density.grid.growth import note_due
from ergode.density.grid.lattice import ABSORBING, CUT, DIMENSION
from ergode.density.grid.walls import at_cut, escaping
from ergode.density.transport.fluxes import EAGER, FLUXES_FIRST, find_fluxes


def _limited(far, near):
    """Slope by the monotonised central limiter, from the differences on both sides."""
    slope = min(2.0 * min(abs(far), abs(near)), 0.5 * abs(far + near))
    slope = slope if far * near > 0.0 else real(0.0)
    return slope if near > 0.0 else -slope


def transverse(i, step, cells, p):
    """S of a cell: the loss by transport along all dimensions in half a step."""
    total = real(0.0)
    for d in unroll(range(DIMENSION)):
        below = cells.below[d, i]
        above = cells.above[d, i]
        inward = max(cells.rate[d, below], real(0.0))
        outward = min(cells.rate[d, i], real(0.0)) if above != 0 else real(0.0)
        here = density(i, p, cells)
        total += inward * (here - density(below, p, cells))
        total += outward * (density(above, p, cells) - here)
    return 0.5 * step * total


def gather(d, i, k, cells, p, s):
    """Gather what `moved` needs for the face between cell `i` and its neighbour `k` above.

    Returns the rate on the face, the rate on the next face upwind, the masses below the face, above
    it and second upwind, S of the upwind cell, and whether (1 or 0) there is a neighbour: `k` is 0
    if there is none.
    """
    rate = cells.rate[d, i]
    upward = rate > 0.0
    under = cells.below[d, i]
    far = under
    if EAGER:
        over = cells.above[d, k]
        far = under if upward else over
    elif not upward:
        far = cells.above[d, k]
    # Without a second upwind cell, S has no share of this dimension.
    beyond = cells.rate[d, under if upward else k]
    beyond = beyond if far != 0 else real(0.0)
    up = i if upward else k
    here, there, behind = density(i, p, cells), density(k, p, cells), density(far, p, cells)
    corners = s[up]
    if ABSORBING:
        here, there = at_cut(d, i, k, upward, here, there, cells)
        rate = rate if cells.walls[2 * d, i] == 0.0 else real(0.0)
    if CUT:
        share_open = cells.walls[d, i]
        here, there, behind = share_open * here, share_open * there, share_open * behind
        corners *= share_open
    return rate, beyond, here, there, behind, corners, real(1.0) if k != 0 else real(0.0)


def moved(step, rate, beyond, here, there, far, corners, joined):
    """Mass that crosses a face upward, from what `gather` found."""
    upward = rate > 0.0
    c = step * rate
    size = abs(c)
    up = here if upward else there
    before = up - far
    slope = _limited(before if upward else -before, there - here) * joined
    # Flux through the face between the two upwind cells: the share of this dimension in S.
    behind = step * beyond
    share = 0.5 * abs(behind) * before if behind * c > 0.0 else real(0.0)
    result = c * (up - corners + share) + 0.5 * size * (1.0 - size) * slope
    return result


def update(i, step, cells, p, s):
    """Mass of a cell after a step, unclipped, and its loss to missing neighbours."""
    mass = p[i]
    lost = real(0.0)
    for d in unroll(range(DIMENSION)):
        below = cells.below[d, i]
        above = cells.above[d, i]
        out = at_most(moved(step, *gather(d, i, above, cells, p, s)), i, above, p)
        mass -= out
        if above == 0:
            lost += out
        if below != 0:
            mass += at_most(moved(step, *gather(d, below, i, cells, p, s)), below, i, p)
    return mass, lost


def move(group, used, step, floor, listing, cells, masses, p, q):
    """A step of all cells, from `p` to `q`; counts the mass lost and clipped.

    With `listing`, on CUDA, cells that need neighbours are listed.
    """
    counters, s = cells.counters, masses.half
    for n in no_unroll(share(group, 1, used)):
        i = np.uint32(n)
        s[i] = transverse(i, step, cells, p)
    barrier(group)
    lost = np.int64(0)
    clipped = np.int64(0)
    absorbed = np.int64(0)
    if FLUXES_FIRST:
        lost = find_fluxes(group, used, step, cells, masses, p)
        barrier(group)
    for n in no_unroll(share(group, 1, used)):
        i = np.uint32(n)
        if FLUXES_FIRST:
            mass = p[i]
            for d in unroll(range(DIMENSION)):
                mass = mass - masses.flux[d, i] + masses.flux[d, cells.below[d, i]]
        else:
            mass, out = update(i, step, cells, p, s)
            lost += units(out)
        if ABSORBING:
            for d in unroll(range(DIMENSION)):
                left = escaping(d, i, step, mass, cells, p)
                absorbed += units(left)
                mass -= left
        if mass < 0.0:
            clipped -= units(mass)
            mass = real(0.0)
        q[i] = mass
        if listing:
            note_due(i, mass, floor, cells, masses.key)
    accumulate(group, counters, LOST, lost)
    accumulate(group, counters, CLIPPED, clipped)
    if ABSORBING:
        accumulate(group, counters, ABSORBED, absorbed)
    barrier(group)


_LANES = 256


def find_fluxes_cpu(group, used, step, cells, masses, p):
    """Compute the fluxes through the faces above cells; returns the mass lost.

    Operands are gathered first, a block at a time, so that the arithmetic is vectorised.
    """
    start, stop = (
        edge(group.rank, group.size, 1, used),
        edge(group.rank + 1, group.size, 1, used),
    )
    rate, beyond, here, there = np.empty((4, _LANES), real)
    far, corners, joined = np.empty((3, _LANES), real)
    lost = np.int64(0)
    for d in unroll(range(DIMENSION)):
        above = cells.above[d]
        flux = masses.flux[d]
        for first in range(start, stop, _LANES):
            count = min(_LANES, stop - first)
            for n in range(count):
                i = np.uint32(first + n)
                (rate[n], beyond[n], here[n], there[n], far[n], corners[n], joined[n]) = gather(
                    d, i, above[i], cells, p, masses.half
                )
            block = flux[first : first + count]
            for n in range(count):
                block[n] = moved(
                    step, rate[n], beyond[n], here[n], there[n], far[n], corners[n], joined[n]
                )
            if CUT:
                for n in range(count):
                    block[n] = at_most(block[n], first + n, above[first + n], p)
            for n in range(count):
                if joined[n] == 0.0:
                    lost += units(block[n])
    return lost


def find_fluxes_cuda(group, used, step, cells, masses, p):
    """Compute the fluxes through the faces above cells; returns the mass lost."""
    lost = np.int64(0)
    for n in no_unroll(share(group, 1, used)):
        i = np.uint32(n)
        for d in unroll(range(DIMENSION)):
            above = cells.above[d, i]
            flux = at_most(moved(step, *gather(d, i, above, cells, p, masses.half)), i, above, p)
            masses.flux[d, i] = flux
            if above == 0:
                lost += units(flux)
    return lost
