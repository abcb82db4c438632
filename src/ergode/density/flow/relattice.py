"""A new lattice of the prior where measurements have left few of its points.

All measurements so far are functions of the first state, and the density of the prior is known
everywhere: so the new lattice lies in the first states, in the frame of the posterior there, and
its points are carried through all measurements again. If hardly any point has weight, the
likelihood is first taken to a power below one (tempering), and the lattice follows it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ergode.core.math.tall import turned
from ergode.density.flow import points_kernels
from ergode.density.flow.cells import Cells, Table, added, least_of, parts_of, run, run_parts
from ergode.density.flow.placed import weigh_by_prior
from ergode.density.flow.points import Start, count_of, in_frame
from ergode.density.flow.posterior import Posterior
from ergode.models.estimation.covariances import root_of

FEWEST = 0.3
"""Effective number of points below which a lattice is replaced, relative to that of the prior."""

AGREED = 0.01
"""Difference of the moments of both halves of the points above which it is, in deviations."""

HIDDEN = 0.01
"""What likelihoods thinner than cells may hide above which it is, in deviations."""

UNEVEN = 0.02
"""Difference of points of even and odd numbers above which it is, in deviations."""

POINTS_OF_REFINED = 300_000
"""Points of a divided lattice above which cells are not divided."""

ROUNDS = 20
"""Largest number of lattices in a row."""

_BEYOND = 0.2
"""Fraction of the weight at the edge from which the posterior is beyond the lattice."""

_OUTSIDE = 1e-3  # share of the weight that a new frame may leave out
_POINTS_OF_FRAME = 100_000  # of a lattice in a new frame that is enlarged for tails
_COARSER = 2.0  # most that its spacing is enlarged
_LEAST = 1e-300  # mass of a Gaussian beyond a lattice: no number is less
_SHRUNK = 0.3  # volume, relative to the frame, below which a new frame is better than smaller cells
_ALIKE_FRAME = 0.8  # the same, above which a new frame is like the one before

_WIDER = 1.1  # than the posterior: tails that are too thin make weights that are too large
_CLOUD = 4.0  # deviations of points from which a posterior is beyond them
_NEARLY = 0.1  # change of a Gaussian, relative to it, that is too small for new points
_ENOUGH = 0.05  # effective number of points of a tempered density, relative to the ideal one


def next_start(
    start: Start, posterior: Posterior, cut: float, edge: float, is_resolved: bool, is_uneven: bool
) -> Start:
    """A lattice that follows the posterior; the same one if hardly any point has weight.

    If no more than its `edge_most` is at the `edge` of the lattice, and it fills its frame, cells
    are divided. If it `is_resolved`, they get neighbours; if it `is_uneven`, they are divided along
    all axes.
    """
    if not start.frames:
        return start
    if not start.spacing:
        return _laid_again(start, posterior, cut)
    # A few points along each axis tell where the posterior lies.
    size = posterior.size
    power = posterior.temper(max(_ENOUGH * start.ideal, min(3.0**size, 0.5 * start.ideal)))
    moments = posterior.moments_by(posterior.tempered)
    mean, covariance = moments.mean[0], moments.covariance[0]
    if not np.isfinite(covariance).all():
        return start
    root = root_of(covariance)
    is_beyond = edge > _BEYOND and len(start.frames) == 1
    if is_beyond:
        mean, root = _beyond(start, *posterior.some()) or (mean, root)
    volume = float(np.linalg.slogdet(root)[1])
    if not np.isfinite(volume):
        return start
    frame = start.frames[0][1] if len(start.frames) == 1 else root_of(start.prior.covariance)
    ratio = volume - float(np.linalg.slogdet(frame)[1])
    # A frame that hardly differs from the last one shows no more than that did: there are lobes.
    away = np.linalg.solve(frame, mean - start.frames[0][0])
    is_alike = ratio > math.log(_ALIKE_FRAME) and float(np.linalg.norm(away)) < 1.0
    is_shrunk = ratio < math.log(_SHRUNK)
    is_one = start.roots is None or len(start.roots) == 1  # cells of several sizes stay apart
    is_narrow = power < 0.5 and not is_alike
    is_new = is_one and (is_narrow or is_shrunk or edge > start.edge_most)
    spacing = start.first_spacing
    # A filament leaves a lattice in any frame few points, and a frame cuts what is far from a mode.
    if is_new and not is_beyond:
        more = start.first_spacing if edge > start.edge_most else 0.0
        most = max(_POINTS_OF_FRAME, count_of(size, spacing, cut))
        cut = _cut(posterior, mean, root, _wider(root, start), cut, more)
        spacing *= max(1.0, count_of(size, spacing, cut) / most) ** (1.0 / size)
        is_new = cut > _LEAST and spacing <= _COARSER * start.first_spacing
    if is_new:
        found = in_frame(start.prior, mean, root, spacing, cut, start.log_scale)
        return replace(found, roots=start.roots, first_spacing=start.first_spacing)
    return divided(start, posterior, 1 if is_resolved else 2, is_uneven)


def _laid_again(start: Start, posterior: Posterior, cut: float) -> Start:
    """Equidistributed points by a Gaussian as wide as the posterior, or a little wider.

    The same ones if they were laid by such a Gaussian, or if they have cells of several sizes. What
    is not like a Gaussian is in their weights (importance sampling). A posterior beyond the points
    is found by a parabola.
    """
    if start.roots is not None and len(start.roots) > 1:
        return start
    power = posterior.temper(_ENOUGH * len(start))
    moments = posterior.moments_by(posterior.tempered)
    mean, covariance = moments.mean[0], moments.covariance[0]
    if not np.isfinite(covariance).all():
        return start
    root = root_of(covariance)
    if start.shape is not None:
        before, by = start.frames[0]
        there = _beyond(start, *posterior.some()) if power < 1.0 else None
        if there and np.linalg.norm(np.linalg.solve(by, there[0] - before)) > _CLOUD:
            mean, root = there
        shift, ratio = np.linalg.solve(by, mean - before), _WIDER * np.linalg.solve(by, root)
        change = ratio @ ratio.T - np.eye(len(mean))
        if power == 1.0 and max(np.abs(shift).max(), np.abs(change).max()) < _NEARLY:
            return start
    found = in_frame(
        start.prior, mean, _WIDER * root, start.spacing, cut, start.log_scale, len(start)
    )
    return replace(found, roots=start.roots)


def _wider(root: np.ndarray, start: Start) -> np.ndarray:
    """Root of a covariance with that of a cell added, which smears a posterior."""
    edges = start.spacing * max((each for _, each in start.frames), key=np.linalg.norm)
    return root_of(root @ root.T + 0.25 * edges @ edges.T)


def _cut(
    posterior: Posterior, mean: np.ndarray, root: np.ndarray, wider: np.ndarray, cut: float,
    more: float,
) -> float:  # fmt: skip
    """What a lattice of this frame leaves out of a Gaussian, so that it leaves out little of this.

    It is `cut` if the lattice then leaves out little of tempered weights, of smeared ones by a
    `wider` root, and of those by what they add to the moments. Heavier tails need a larger lattice,
    by `more` deviations than the points reach.
    """
    from scipy.special import chdtrc, chdtri

    limit, found = float(chdtri(len(root), cut)), cut
    for most, (outside, shells) in zip(
        (_OUTSIDE, _OUTSIDE, _UNSEEN), posterior.beyond(mean, root, wider, limit), strict=True
    ):
        if more or outside > most:
            last = int(np.searchsorted(np.cumsum(shells), 1.0 - 0.1 * most))
            reach = math.ceil(last + 1 + 2.0 * more) / 2.0
            found = min(float(chdtrc(len(root), reach**2)), found)
    return found


def divided(start: Start, posterior: Posterior, parts: int, is_uneven: bool) -> Start:
    """A lattice of cells with weight and their neighbours, each divided into `parts` along an axis.

    For a posterior that is not alike a Gaussian, such as a filament. Along axes where the posterior
    changes little from cell to cell, cells stay whole, unless it `is_uneven` (see `folds`). The
    same lattice, if there would be far too many cells.
    """
    device, cells = posterior.device, posterior.cells
    assert isinstance(cells, Cells)
    # A filament that passes between the centres of cells shows in a tempered density.
    posterior.temper(FEWEST * start.ideal)
    log, counts = posterior.tempered, posterior.counts
    outer, faint, unseen = least_of(
        device, (posterior.top, log, [_OUTER, _FAINT]), (posterior.farthest_top, counts, [_UNSEEN])
    )
    central, chosen = (device.empty(len(cells), np.int8) for _ in range(2))
    run(
        device, points_kernels.mark, len(cells), log, counts, outer, faint, unseen, central, chosen
    )  # fmt: skip
    size = posterior.size
    along = np.full(size, parts)
    if parts > 1 and not is_uneven:
        along = _divisions(posterior, cells, central, parts)
    table = Table(cells, central, chosen)
    if len(table) * np.prod(along) > POINTS_OF_REFINED and np.prod(along) > 1:
        return start
    finer = float(np.prod(along)) ** (1.0 / size)  # edges keep their volume
    spacing = start.spacing / finer
    frames = []
    for origin, edges in start.frames:
        # The first part of a cell lies before its centre.
        edges = edges * (finer / along)
        frames.append((origin - 0.5 * spacing * edges @ (along - 1.0), edges))
    origins, edges = (np.stack(both) for both in zip(*frames, strict=True))
    made = table.divided(along, origins, spacing * edges)
    found = replace(
        start, laid=made, spacing=spacing, frames=tuple(frames), shape=None, is_apart=False
    )
    weigh_by_prior(found, made, spacing * edges)
    return found


def _divisions(posterior: Posterior, cells: Cells, central: Any, parts: int) -> np.ndarray:
    """Number of parts of a cell along each axis, `parts` or one.

    Cells are divided along the axis where the posterior changes most from one of the `central`
    points to its neighbours, and along axes where it changes at least about a third as much.
    """
    device, log = posterior.device, posterior.log_weights
    size = posterior.size
    out = device.zeros((2 * size, parts_of(device, len(cells))), np.float64)
    run_parts(
        device, points_kernels.changes, len(cells), posterior.own_top, log, cells.beside, central,
        out,
    )  # fmt: skip
    square, total = added(device, out).reshape(2, size)
    if not np.all(total > 0):
        return np.full(len(total), parts)
    square = square / total
    return np.where(square >= _ALIKE**2 * square.max(), parts, 1)


_ALIKE = 0.35  # of the largest change: along axes with at least as much, cells are divided


def _beyond(
    start: Start, points: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and root of a posterior beyond a lattice, by a parabola through its logarithm.

    None if the parabola has no maximum. For linear systems it is exact.
    """
    centre, edges = start.frames[0]
    z = turned(points - centre, np.linalg.inv(edges).T)
    size = z.shape[1]
    rows, columns = np.triu_indices(size)
    terms = np.concatenate([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)
    found = np.linalg.lstsq(terms, log_weights, rcond=None)[0]
    bend = np.zeros((size, size))
    bend[rows, columns] = -found[1 + size :]
    bend += bend.T
    values, vectors = np.linalg.eigh(bend)
    if values[0] <= _FLATTEST:
        return None
    step = np.linalg.solve(bend, found[1 : 1 + size])
    step *= min(1.0, _STEP_MOST / max(float(np.linalg.norm(step)), 1e-300))
    return centre + edges @ step, edges @ root_of((vectors / values) @ vectors.T)


_FLATTEST = 0.01  # least curvature of a parabola, in units of the frame
_STEP_MOST = 1e3  # of a lattice, in units of its frame

_FAINT = 3e-5  # of all weight: cells that hold less together are dropped; far ones widen a density
_UNSEEN = 1e-2  # the same of smeared weights, by what they add to the moments; of frames, too
_OUTER = 3e-4  # of all weight: what cells without neighbours hold together
