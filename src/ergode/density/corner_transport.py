"""Corner transport: an unsplit second-order Godunov step, limited.

With c the part of a cell that crosses a face in a step (rate times step) and the upwind side of a
face marked by a prime, the mass that crosses it is ::

    c (p' - S' + T') + |c| (1 - |c|) / 2 limited(p' - p'', p_k - p_i)

where T_d is what transport along d alone would take away in half a step, S their sum over all
dimensions - so that a face sees what corners bring, without its own dimension's share - and the
last term makes the step second-order where the solution is smooth (monotonised central limiter).
The step is bounded by the sum over dimensions.  What flows into a missing neighbour above is lost,
and counted; nothing leaves through a face whose neighbour below is missing.

P. Colella, "Multidimensional upwind methods for hyperbolic conservation laws", J. Comput. Phys. 87
(1990); R. J. LeVeque, "Finite Volume Methods for Hyperbolic Problems" (2002), chapter 20.
"""

from __future__ import annotations

from ergode.core.machine import real, unroll
from ergode.density.lattice import DIMENSION

# Bound for each kernel.
ANY_NOISE = False


def _limited(far, near):
    """Slope by the monotonised central limiter, from the differences on both sides."""
    slope = min(2.0 * min(abs(far), abs(near)), 0.5 * abs(far + near))
    slope = slope if far * near > 0.0 else real(0.0)
    return slope if near > 0.0 else -slope


def transverse(i, step, cells, p):
    """S of a cell: what transport along all dimensions would take away in half a step."""
    total = real(0.0)
    for d in unroll(range(DIMENSION)):
        below = cells.below[d, i]
        above = cells.above[d, i]
        inward = max(cells.rate[d, below], real(0.0))
        outward = min(cells.rate[d, i], real(0.0)) if above != 0 else real(0.0)
        total += inward * (p[i] - p[below]) + outward * (p[above] - p[i])
    return 0.5 * step * total


def crossing(d, i, k, step, cells, p, s, frame):
    """Mass that crosses the face between cell `i` and its neighbour `k` above it."""
    rate = cells.rate[d, i]
    c = step * rate
    up = i if rate > 0.0 else k
    far = cells.below[d, i] if rate > 0.0 else cells.above[d, k]
    # The face between the two cells upwind: what comes through it is this dimension's share of S.
    behind = step * (cells.rate[d, far] if rate > 0.0 else cells.rate[d, k])
    inward = behind if behind * c > 0.0 and far != 0 else real(0.0)
    before = p[up] - p[far]
    ahead = p[k] - p[i]
    slope = _limited(before if rate > 0.0 else -before, ahead) if k != 0 else real(0.0)
    size = abs(c)
    own = 0.5 * abs(inward) * before
    moved = c * (p[up] - s[up] + own) + 0.5 * size * (1.0 - size) * slope
    if ANY_NOISE:
        moved += step * frame.spread[d] * (p[i] - p[k]) if k != 0 else real(0.0)
    return moved


def update(i, step, cells, p, s, frame):
    """Mass of a cell after a step, unclipped, and what it lost to missing neighbours."""
    mass = p[i]
    lost = real(0.0)
    for d in unroll(range(DIMENSION)):
        below = cells.below[d, i]
        above = cells.above[d, i]
        out = crossing(d, i, above, step, cells, p, s, frame)
        mass -= out
        if above == 0:
            lost += out
        if below != 0:
            mass += crossing(d, below, i, step, cells, p, s, frame)
    return mass, lost
