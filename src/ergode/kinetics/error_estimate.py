"""The error of the explicit method: a second run by rodas4, with a tighter tolerance.

Local errors do not give the global error of the explicit method. A network damps some errors and
amplifies others. Amounts set by algebra lag behind by a step, which the differences within a step
do not show. Where a pulse burns all fuel in a few steps, doubling the step leaves the error
unchanged, so step doubling does not show it either. On a network of 150 nuclei the second run takes
a twelfth of the time of an asymptotic one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ergode.core import devices
from ergode.core.calls import resident
from ergode.core.calls.launch import warn
from ergode.core.errors import AccuracyWarning, InterruptionWarning
from ergode.core.status import Status
from ergode.kinetics.conditions import Zones
from ergode.kinetics.launch import Options, empty_outcome, run_zones
from ergode.kinetics.methods import AUTO, METHODS, Method
from ergode.kinetics.network.to_tables import Mechanism
from ergode.kinetics.tables import Outcome

# Tolerances of the second run: a fraction of the given ones, with rtol between two limits.
_PART, _SMALLEST, _LARGEST = 0.1, 1e-10, 1e-5
ACCEPTED = 10.0
"""Largest estimate without a warning, in units of `rtol`: the errors of many steps add up."""

_ZONES_AT_ONCE = 4096


def estimated_errors(
    mechanism: Mechanism,
    zones: Zones,
    grid: np.ndarray,
    options: Options,
    device: devices.Device,
    outcome: Outcome,
) -> np.ndarray:
    """Largest difference to rodas4 over the largest amount, shape [zone_count].

    NaN for zones that failed, and after an interruption; infinite where rodas4 failed.
    """
    if (outcome.status == Status.NOT_RUN).any():
        return np.full(zones.count, np.nan)
    rtol = min(max(_PART * options.rtol, _SMALLEST), _LARGEST)
    method, given = METHODS[AUTO], options.atol
    assert isinstance(given, tuple)
    options = replace(
        options, runner=method.runner, rtol=rtol, max_steps=method.max_steps,
        atol=tuple(_PART * one for one in given),
    )  # fmt: skip
    try:
        with resident.outside():
            exact = empty_outcome(zones, grid)
            run_zones(mechanism, zones, grid, options, device, exact, lambda _: None)
    except KeyboardInterrupt:
        warn("interrupted: the error was not estimated", InterruptionWarning)
        return np.full(zones.count, np.nan)
    return _errors_of(mechanism, outcome.on_host(), exact)


def _errors_of(mechanism: Mechanism, found: Outcome, exact: Outcome) -> np.ndarray:
    unit = mechanism.mass if mechanism.nuclear else np.ones(1)
    off, largest = np.empty((2, len(found.status)))
    # In chunks, to bound the memory of the differences.
    for start, stop in devices.spans(off.size, _ZONES_AT_ONCE):
        part = slice(start, stop)
        expected = unit * exact.amounts[part]
        off[part] = np.abs(unit * found.amounts[part] - expected).max(axis=(1, 2))
        largest[part] = expected.max(axis=(1, 2))
    errors = off / np.where(largest > 0.0, largest, 1.0)
    errors[exact.status != Status.DONE] = np.inf
    errors[found.status != Status.DONE] = np.nan
    return errors


def warn_of_estimates(chosen: Method, errors: np.ndarray, rtol: float) -> None:
    """Warn of zones whose estimated error exceeds the tolerance."""
    limit = ACCEPTED * rtol
    unknown = np.isposinf(errors)
    if unknown.any():
        warn(
            f"{chosen.name}: in {unknown.sum()} of {unknown.size} zones 'rodas4' failed, so the "
            "error is not known",
            AccuracyWarning,
        )
    off = (errors > limit) & ~unknown
    if off.any():
        warn(
            f"{chosen.name}: in {off.sum()} of {off.size} zones the estimated error is up to "
            f"{errors[off].max():.1e} of the largest amount, more than {limit:g}; "
            "rtol does not control it: use 'rodas4'",
            AccuracyWarning,
        )
