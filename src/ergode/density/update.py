"""Bayes' theorem on the grid: the mass of each cell times the likelihood at its centre."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device, resolve
from ergode.density.lattice import PARAMETERS, Frame, Lattice, centre_of, point
from ergode.models import likelihood
from ergode.models.measurement import Measurement


def at_cell(index, keys, t, frame, value, precision, out):
    """Logarithm of the likelihood at the centre of one cell, up to a constant.

    Model: `value` [component], `precision` [component, component]. Out: `out` [cell].
    """
    y = point(centre_of(keys[index], frame), frame)
    p = tuple(frame.parameters[j] for j in range(PARAMETERS))
    out[index] = likelihood.log_likelihood(y, t, p, value, precision)


_KERNELS: dict[tuple[Any, ...], kernels.Kernel] = {}


def _kernel(measurement: Measurement, lattice: Lattice, parameter_count: int) -> kernels.Kernel:
    bindings = likelihood.bindings_of(measurement) | {
        "DIMENSION": lattice.dimension,
        "BITS": lattice.bits,
        "PARAMETERS": parameter_count,
        "ROTATED": lattice.is_rotated,
    }
    key = likelihood.identity(bindings)
    if key not in _KERNELS:
        _KERNELS[key] = kernels.for_each(at_cell, bindings=bindings)
    return _KERNELS[key]


def evaluate(
    function: Callable[..., tuple[Any, ...]],
    lattice: Lattice,
    parameters: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    """Value of a user's function of the state at the centres of cells, on the CPU."""
    one = Measurement(0.0, likelihood=function)
    return _log_likelihoods(one, lattice, parameters, resolve("cpu"), keys)


def correct(
    measurement: Measurement,
    lattice: Lattice,
    parameters: np.ndarray,
    device: Device,
    keys: np.ndarray,
    mass: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Masses after a measurement, their sum one, and the logarithm of its evidence.

    The evidence is the probability density of what was measured, given all before; for a
    likelihood known up to a constant, so is it.
    """
    log = _log_likelihoods(measurement, lattice, parameters, device, keys)
    log = np.where(np.isnan(log), -np.inf, log)
    top = float(log[mass > 0].max(initial=-np.inf))
    if not np.isfinite(top):
        return mass, -math.inf
    after = mass * np.exp(log - top)
    total = float(after.sum())
    evidence = top + math.log(total / float(mass.sum()))
    return after / total, evidence


def _log_likelihoods(
    measurement: Measurement,
    lattice: Lattice,
    parameters: np.ndarray,
    device: Device,
    keys: np.ndarray,
) -> np.ndarray:
    """Logarithm of the likelihood at the centres of cells."""
    kernel = _kernel(measurement, lattice, parameters.size)
    value, precision, constant = likelihood.numbers_of(measurement)
    nothing = np.zeros(lattice.dimension)
    parts = (lattice.centre, lattice.width, lattice.axes, parameters, nothing, np.zeros(2))
    frame = Frame(*map(device.put, parts))
    out = device.empty(len(keys), np.float64)
    with kernels.readable_errors():
        device.run(
            kernel, len(keys), device.put(keys), measurement.time, frame, device.put(value),
            device.put(precision), out,
        )  # fmt: skip
    return device.get(out) + constant
