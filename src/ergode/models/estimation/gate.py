"""Gates: values that are too far from what a density expects are left out."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import UserFunction, option, real, unroll
from ergode.core.devices import Device
from ergode.models.estimation.likelihood import COMPONENTS, H
from ergode.models.estimation.linear_update import short_way
from ergode.models.estimation.measurement import Measurement

VARIABLES = option()
"""Number of variables."""

PARAMETERS = option()
"""Number of parameters."""


class Expects(Protocol):
    """Densities that know how far a value is from what they expect."""

    def innovation(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """The distance of each density, in deviations."""


def gated(
    densities: Expects, measurement: Measurement, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances [density] from what densities expect, NaN without a gate, and which are left out.

    `places` [density] are indices of densities among those that run side by side.
    """
    if measurement.gate is None:
        return np.full(len(places), np.nan), np.zeros(len(places), bool)
    distance = densities.innovation(measurement, places)
    return distance, distance > measurement.gate


def distance_of(
    away: np.ndarray, noise: Any, weights: np.ndarray, measurement: Measurement,
    missing: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Distances of values from what densities expect [density], in deviations.

    `away` [density, point, component] are values less what is expected at points, whose `weights`
    are [density, point]; `noise` is their further covariance, a mean over the points. A density
    without values is at the distance zero.
    """
    share = weights / weights.sum(axis=1, keepdims=True)
    away, angles = np.where(missing[:, None], 0.0, away), list(measurement.angles)
    if angles:
        turns = np.einsum("kp,kpa->ka", share, np.exp(1j * away[..., angles]))
        middle = np.angle(turns)[:, None]
        away[..., angles] = middle + short_way(away[..., angles] - middle)
    middle = np.einsum("kp,kpa->ka", share, away)
    apart = away - middle[:, None]
    covariance = np.einsum("kp,kpa,kpb->kab", share, apart, apart, optimize=True) + noise
    found = np.linalg.solve(covariance, middle[..., None])[..., 0]
    return np.asarray(np.sqrt(np.einsum("ka,ka->k", middle, found)))


def innovation_of(
    device: Device, measurement: Measurement, places: np.ndarray, points: np.ndarray,
    parameters: np.ndarray, weights: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The same, from `points` [density, point, variable] and `parameters` [density, parameter]."""
    value, noise, missing = measurement.of(places)
    known = weights > 0.0
    expected = expected_at_points(device, measurement, points, parameters)
    away = np.where(known[..., None], value[:, None] - expected, 0.0)
    return distance_of(away, noise, weights, measurement, missing)


def expected_at_points(
    device: Device, measurement: Measurement, points: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """What a measurement would give without noise [density, point, component]."""
    count, each, size = points.shape
    components = measurement.component_count
    assert measurement.h is not None
    bindings = {
        H: UserFunction(measurement.h, (components,)), COMPONENTS: components, VARIABLES: size,
        PARAMETERS: parameters.shape[1],
    }  # fmt: skip
    out = device.empty((count * each, components), np.float64)
    rows = np.repeat(parameters, each, axis=0)
    with kernels.readable_errors():
        device.run(
            kernels.for_each(expected_at, bindings=bindings), len(out),
            device.put(np.ascontiguousarray(points.reshape(-1, size), np.float64)),
            measurement.time, device.put(rows), out,
        )  # fmt: skip
    return np.array(device.get(out)).reshape(count, each, components)


def expected_at(index, points, t, parameters, out):  # type: ignore[no-untyped-def]
    """What a measurement would give without noise at a state, for one point.

    Model: `points` [point, variable], `parameters` [point, parameter]. Out: `out`
    [point, component].
    """
    y = tuple(points[index, j] for j in range(VARIABLES))
    p = tuple(parameters[index, j] for j in range(PARAMETERS))
    found = H(y, t, p)
    for a in unroll(range(COMPONENTS)):
        out[index, a] = real(found[a])
