"""Bayes' theorem on the grid: the mass of each cell times the likelihood at its centre."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.devices import Device, resolve
from ergode.core.machine import Formula, real, unroll
from ergode.core.source import formula_text
from ergode.density.lattice import PARAMETERS, Frame, Lattice, centre_of, point
from ergode.models.measurement import Measurement

# Bound for each kernel.
COMPONENTS = 1
ANGLES = (False,)
ANY_LIKELIHOOD = False

_TWO_PI = 2.0 * math.pi


def h(y, t, p):
    """The user's function: bound for each kernel."""
    return y


def log_likelihood(index, keys, t, frame, value, precision, out):
    """Logarithm of the likelihood at the centre of one cell, up to a constant.

    Model: `value` [component], `precision` [component, component]. Out: `out` [cell].
    """
    y = point(centre_of(keys[index], frame), frame)
    found = h(y, t, tuple(frame.parameters[j] for j in range(PARAMETERS)))
    if ANY_LIKELIHOOD:
        out[index] = found[0]
    else:
        away = tuple(value[a] - real(found[a]) for a in range(COMPONENTS))
        away = tuple(
            away[a] - real(_TWO_PI) * math.floor(away[a] / real(_TWO_PI) + 0.5)
            if ANGLES[a]
            else away[a]
            for a in range(COMPONENTS)
        )
        square = real(0.0)
        for a in unroll(range(COMPONENTS)):
            for b in unroll(range(COMPONENTS)):
                square += precision[a, b] * away[a] * away[b]
        out[index] = -0.5 * square


_KERNELS: dict[tuple[Any, ...], kernels.Kernel] = {}


def _kernel(measurement: Measurement, lattice: Lattice, parameter_count: int) -> kernels.Kernel:
    function = measurement.likelihood or measurement.h
    assert function is not None
    is_any = measurement.likelihood is not None
    components = 1 if is_any else measurement.value.size
    angles = tuple(a in measurement.angles for a in range(components))
    key = (
        formula_text(function), components, angles, is_any, lattice.dimension,
        lattice.is_rotated, parameter_count,
    )  # fmt: skip
    if key not in _KERNELS:
        bindings = {
            "h": Formula(function),
            "COMPONENTS": components,
            "ANGLES": angles,
            "ANY_LIKELIHOOD": is_any,
            "DIMENSION": lattice.dimension,
            "BITS": lattice.bits,
            "PARAMETERS": parameter_count,
            "ROTATED": lattice.is_rotated,
        }
        _KERNELS[key] = kernels.for_each(log_likelihood, bindings=bindings)
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
    if measurement.likelihood is None:
        value = measurement.value
        precision = np.linalg.inv(measurement.covariance)
        constant = -0.5 * (
            value.size * math.log(2 * math.pi) + np.linalg.slogdet(measurement.covariance)[1]
        )
    else:
        value, precision, constant = np.zeros(1), np.zeros((1, 1)), 0.0
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
