"""Points of a lattice laid in the frames of densities, on a device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ergode.core.devices import Device
from ergode.density.flow import on_cpu, points_kernels
from ergode.density.flow.cells import Cells, kernel_of, run
from ergode.density.flow.points import Start
from ergode.models.estimation.priors import Gaussian, Mixture


class Points(NamedTuple):
    """Points that are no lattice, on a device."""

    points: Any  # [variable, 1, point]: at the first time
    log: Any  # [1, point]: logarithms of weights there


def cells_of(start: Start, device: Device) -> Cells | Points:
    """The points of a density at the first time."""
    if isinstance(start.laid, Cells):
        return start.laid
    if start.laid is None and start.shape is not None:
        log = device.empty((1, len(start)), np.float64)
        points, there = lay(device, [start], "float64", log), start.shape.on(device)
        index, sign, rim = there.index, there.signs, there.is_edge
    else:
        points, log, sign, index, rim = device.put_together([
            start.points.T[:, None], start.log_weights[None], start.signs, start.index.T,
            start.is_edge,
        ])  # fmt: skip
    if not start.spacing:
        return Points(points, log)
    return Cells(device, index, start.neighbours_on(device), points, log, sign, rim)


def lay(device: Device, starts: list[Start], precision: Any, log_weights: Any) -> Any:
    """Points [variable, density, point] of one pattern, laid for each of some densities.

    Out: `log_weights` [density, point], on the device.
    """
    shape = starts[0].shape
    assert shape is not None
    means, edges = (np.stack(both) for both in zip(*(one.frames[0] for one in starts), strict=True))
    edges = shape.spacing * edges if shape.spacing else edges / shape.scale
    there, frames = shape.on(device), device.put_together([means, edges])
    count, each, size = len(starts), len(shape), means.shape[1]
    kernel = kernel_of(points_kernels.put_point, size)

    def placed(kind: Any) -> Any:
        points = device.empty((size, count, each), kind)
        whole = *frames, there.places, there.log_share, points, log_weights
        if device.is_cuda:
            device.run(kernel, count * each, each, *whole)
        else:
            on_cpu.put_point(*whole)
        return points

    points = placed(precision)
    for which, start in enumerate(starts):
        if start.is_apart:
            exact = points if precision == "float64" else placed(np.float64)
            own = log_weights[which : which + 1] if count > 1 else log_weights
            _weigh(device, start, exact, there.log_volume, start.log_volume, own)
    return points


def weigh_by_prior(start: Start, cells: Cells, edges: np.ndarray) -> None:
    """Set logarithms of weights of cells with `edges` [component, axis, axis] by the prior."""
    device = cells.device
    volumes = np.linalg.slogdet(edges)[1]
    if len(edges) == 1:
        there = device.put(volumes)
        _weigh(device, start, cells.points, there, start.log_scale, cells.log)
        return
    assert isinstance(start.prior, Mixture)  # it has a lattice for each component
    if not device.is_cuda:
        for k, (weight, one) in enumerate(
            zip(start.prior.weights, start.prior.components, strict=True)
        ):
            own = cells.index[0] == k
            density = one.log_density(cells.points[:, 0, own].T)
            cells.log[0, own] = density + math.log(weight) + volumes[k]
        return
    numbers = device.put_together([*_terms(start.prior), volumes])
    run(
        device, points_kernels.by_components, len(cells), *numbers, cells.index, cells.points,
        cells.log,
    )  # fmt: skip


def _weigh(
    device: Device, start: Start, points: Any, log_volume: Any, constant: float, out: Any
) -> None:
    prior = start.prior
    if device.is_cuda and isinstance(prior, Gaussian | Mixture):
        terms = device.put_together(_terms(prior))
        run(
            device, points_kernels.by_prior, out.size, *terms, log_volume, constant, points, out
        )  # fmt: skip
        return
    volume = np.asarray(device.get(log_volume))
    there = np.asarray(device.get(points))[:, 0].T
    device.copy((prior.log_density(there) + volume + constant)[None], out)


def _terms(prior: Gaussian | Mixture) -> list[np.ndarray]:
    """Means, precisions and logarithms of factors of the terms of a density."""
    parts = prior.components if isinstance(prior, Mixture) else [prior]
    weights = prior.weights if isinstance(prior, Mixture) else np.ones(1)
    spreads = np.stack([one.covariance for one in parts])
    constants = np.log(weights) - 0.5 * (
        len(spreads[0]) * math.log(2 * math.pi) + np.linalg.slogdet(spreads)[1]
    )
    return [np.stack([one.mean for one in parts]), np.linalg.inv(spreads), constants]
