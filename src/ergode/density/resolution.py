"""Widths of cells: what measurements ask of a default width, and what would resolve a density.

A posterior is narrower than its prior.  With the noise covariance R and the linearisation H of a
measurement at the mean of a prior with the covariance L L^T, the deviation along the direction that
the measurement determines best is smaller by the factor 1 / sqrt(1 + s^2), where s is the largest
singular value of R^(-1/2) H L.  The flow may turn this direction to any axis, so that the factor
applies to the widths along all axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ergode.core.devices import Device
from ergode.core.errors import PlanError
from ergode.density import tail
from ergode.density.grid.lattice import Lattice
from ergode.density.initial import count_estimate, lay_lattice
from ergode.density.methods import GRIDS
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.likelihood import numbers_of
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior

SHARPEST = 1.75
"""Least deviation of a resolved density, in cells."""

_CELLS_WANTED = 2.5  # in a deviation, by a width that is suggested: a coarse grid shows it too wide
_CELLS_BY_DEFAULT = 1 << 17  # a default width is not refined to more cells of the prior than this
_FINE = 20.0  # cells in a deviation of the prior
_MANY = 1_000_000  # cells
_FEW = 100_000  # cells
_LEAST_BYTES = 100  # of a cell, besides 16 for each dimension


def measured_scale(asked: Estimation, which: int, place: int) -> float:
    """Factor on the default widths of a density, so that it is resolved after a measurement.

    One, if cells of half a deviation of the prior resolve every posterior.  `place` is the index of
    the density in paired arrays.
    """
    if not asked.measurements:
        return 1.0
    prior, scale = asked.priors[which], 1.0
    parameters = tuple(float(asked.layout.rows[name][which]) for name in asked.field.parameters)
    for measurement in asked.measurements:
        sharpest = _sharpest(measurement, prior, place, parameters)
        scale = min(scale, 1.0 / np.sqrt(1.0 + sharpest**2))
    if 2.0 * scale >= SHARPEST:
        return 1.0
    count = count_estimate(prior, lay_lattice(prior, None, None), None)
    least = min(1.0, (count / _CELLS_BY_DEFAULT) ** (1.0 / prior.mean.size))
    return float(max(scale, least))


_STEP = 1e-3  # standard deviations of the prior


def _sharpest(
    measurement: Measurement, prior: Prior, place: int, parameters: tuple[float, ...]
) -> float:
    """Largest singular value of a measurement: zero if it cannot be linearised at the mean."""
    if measurement.h is None:
        return 0.0
    (precision,) = numbers_of(measurement, np.array([place]))[1]
    try:
        steps = _STEP * np.linalg.cholesky(prior.covariance).T
        points = [[tuple((prior.mean + by).tolist()) for by in (step, -step)] for step in steps]
        seen = [
            [measurement.h(point, measurement.time, parameters) for point in two] for two in points
        ]
    except (ArithmeticError, ValueError, IndexError):
        return 0.0
    ends = np.array(seen, np.float64)
    change = ends[:, 0] - ends[:, 1]
    for angle in measurement.angles:
        change[:, angle] = (change[:, angle] + np.pi) % (2.0 * np.pi) - np.pi
    slopes = change / (2.0 * _STEP)
    if not np.isfinite(slopes).all():
        return 0.0
    largest = np.linalg.eigvalsh(slopes @ precision @ slopes.T)[-1]
    return float(np.sqrt(max(largest, 0.0)))


def coarser(lattice: Lattice, count: float) -> str:
    """A width with few cells of a prior that has `count` cells on a lattice, for a message."""
    scale = (count / _FEW) ** (1.0 / lattice.dimension)
    return f"width={_written(lattice.width * scale)} has about {_FEW:,} cells"


def check_count(count: float, lattice: Lattice, device: Device) -> None:
    """Refuse more cells of a prior than fit in memory, by a PlanError that gives a width."""
    needed = count * (_LEAST_BYTES + 16 * lattice.dimension)
    if needed < 1 << 24:  # querying the free memory takes longer than allocating these
        return
    room = device.available_bytes()
    if needed > room:
        raise PlanError(
            f"the prior covers about {count:,.0f} cells, which need {needed / 1e9:.2g} GB, but "
            f"{device.name} has {room / 1e9:.2g} GB free; use larger widths - "
            f"{coarser(lattice, count)} - or a larger threshold"
        )


def is_too_fine(count: float, lattice: Lattice, prior: Prior) -> bool:
    """Whether a grid has far more cells than it needs to resolve a prior."""
    narrow = np.sqrt(np.diag(lattice.axes.T @ prior.covariance @ lattice.axes)) / lattice.width
    return bool(count > _MANY and narrow.min() > _FINE)


def across(covariance: np.ndarray, lattices: Sequence[Lattice]) -> np.ndarray:
    """Least deviation of each density in any direction at any time, in cells.

    A narrow density that lies askew is wider along every axis of the grid.
    """
    into = np.array([one.axes / one.width for one in lattices])[:, None]
    scaled = np.swapaxes(into, -1, -2) @ covariance @ into
    known = np.isfinite(scaled).all(axis=(-1, -2))
    scaled[~known] = np.eye(scaled.shape[-1])
    deviation = np.sqrt(np.maximum(np.linalg.eigvalsh(scaled)[..., 0], 0.0))
    return np.asarray(np.where(known, deviation, np.inf).min(axis=1))


def resolving_width(
    found: Mapping[str, np.ndarray], lattices: Sequence[Lattice], scheme: str
) -> str:
    """A width that would resolve all densities, for a warning: ``", such as width=0.08"``.

    It is found from the narrowest features, and from how the shift of a posterior falls with the
    width: with the third power for split transport, with the second for corner transport. Empty
    where a smaller width is no cure, because the posterior lies outside of the grid. `found` are
    the variables of all densities, as in the result.
    """
    narrow = np.fmin.reduce(found["cells_in_deviation"].reshape(-1, lattices[0].dimension), axis=0)
    least = min(float(narrow.min()), float(across(found["covariance"], lattices).min()))
    thin = found["posterior_cells_in_deviation"]
    if thin.size:
        least = np.fmin(least, np.fmin.reduce(thin, axis=None))
    scale = min(1.0, least / _CELLS_WANTED) if least < SHARPEST else 1.0
    cut, shift, evidence = (
        np.nan_to_num(found[name])
        for name in ("posterior_cut", "posterior_shift", "evidence_shift")
    )
    if (cut > tail.CUT_MOST).any() or scale <= 0:
        return ""
    worst = max(
        shift.max(initial=0.0) / tail.SHIFT_MOST, evidence.max(initial=0.0) / tail.EVIDENCE_MOST
    )
    if worst > 1.0:
        scale = min(scale, 0.9 * worst ** (-1.0 / GRIDS[scheme].shift_order))
    width = np.min([one.width for one in lattices], axis=0) * scale
    return f", such as width={_written(width)}" if scale < 1 else ""


def _written(width: np.ndarray) -> str:
    numbers = [f"{one:.2g}" for one in width]
    return numbers[0] if len(set(numbers)) == 1 else f"[{', '.join(numbers)}]"
