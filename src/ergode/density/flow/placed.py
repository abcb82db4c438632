"""Points of a pattern laid in the frames of densities, on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device
from ergode.density.flow import points_kernels
from ergode.density.flow.points import Start
from ergode.density.grid import lattice
from ergode.models.estimation.priors import Gaussian, Mixture


def lay(device: Device, starts: list[Start], precision: Any, log_weights: Any) -> Any:
    """Points [variable, density, point] of one pattern, laid for each of some densities.

    Out: `log_weights` [density, point], on the device.
    """
    shape, first = starts[0].shape, starts[0]
    assert shape is not None
    means, edges = (np.stack(both) for both in zip(*(one.frames[0] for one in starts), strict=True))
    edges = shape.spacing * edges if shape.spacing else edges / shape.scale
    there, frames = shape.on(device), device.put_together([means, edges])
    kernel = kernels.for_each(
        points_kernels.put_point, bindings={lattice.DIMENSION: means.shape[1]}
    )
    count, each = len(starts), len(shape)

    def placed(kind: Any) -> Any:
        points = device.empty((means.shape[1], count, each), kind)
        device.run(
            kernel, count * each, each, *frames, there.places, there.log_share, points, log_weights
        )
        return points

    points = placed(precision)
    if not first.is_apart:
        return points
    for which, start in enumerate(starts):
        own = log_weights[which : which + 1]
        if isinstance(start.prior, Gaussian | Mixture) and count == 1:
            exact = points if precision == "float64" else placed(np.float64)
            device.run(
                kernels.for_each(points_kernels.by_prior), each,
                *device.put_together(_terms(start.prior)), there.log_volume, start.log_volume,
                exact, own,
            )  # fmt: skip
        else:
            device.copy(start.log_weights[None], own)
    return points


def _terms(prior: Gaussian | Mixture) -> list[np.ndarray]:
    """Means, precisions and logarithms of factors of the terms of a density."""
    parts = prior.components if isinstance(prior, Mixture) else [prior]
    weights = prior.weights if isinstance(prior, Mixture) else np.ones(1)
    spreads = np.stack([one.covariance for one in parts])
    constants = np.log(weights) - 0.5 * (
        len(spreads[0]) * math.log(2 * math.pi) + np.linalg.slogdet(spreads)[1]
    )
    return [np.stack([one.mean for one in parts]), np.linalg.inv(spreads), constants]
