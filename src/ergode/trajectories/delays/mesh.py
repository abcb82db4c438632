"""Number and size of steps and cells, chosen from the delays and the largest step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ergode.core.errors import ModelError, PlanError

_ROUNDING = 1e-12
_LARGEST_DENOMINATOR = 10_000
_MOST_STEPS = 2**31 - 1
# A jump of the derivative of this order or higher affects no method.
_SMOOTH = 6


@dataclass(frozen=True)
class Steps:
    """Steps of every trajectory."""

    # [trajectory_count]: step size of each trajectory [time]; a broadcast view if all are equal.
    size: np.ndarray
    count: np.ndarray  # int64 [trajectory_count]: number of steps of each trajectory
    lags: np.ndarray  # int64 [delay_count]: each delay in steps; equal for all trajectories
    # uint8 [step_count]: whether a step begins at a breaking point; ends after the last one that
    # matters.
    breaks: np.ndarray


def plan_steps(
    span: float,  # duration of the integration [time]
    step: float,  # largest step [time]
    count: int,  # number of trajectories
    delays: Sequence[str],  # names of the parameters that are delays
    taus: Sequence[np.ndarray],  # [trajectory_count]: values of the delays [time]
    least_lag: int = 2,  # fewest steps in the shortest delay
    apart: int = 1,  # fewest steps between two breaking points
) -> Steps:
    """Choose a step size of at most `step` that divides every delay, or the span without delays.

    Raises a ModelError if a delay is not positive. Raises a PlanError if delays have no common
    step, or there are too many steps.
    """
    if not delays:
        whole = _whole_steps(span, step)
        each = span / whole if span > 0 else step
        no_lags = np.ones(1, np.int64)  # not read, but kernels need an array of this type
        no_breaks = np.zeros(1, np.uint8)
        return Steps(
            np.broadcast_to(each, count), np.broadcast_to(whole, count), no_lags, no_breaks
        )
    _check_delays(delays, taus)
    longest = int(np.argmax([tau[0] for tau in taus]))
    ratios = [
        _ratio(name, tau, delays[longest], taus[longest])
        for name, tau in zip(delays, taus, strict=True)
    ]
    unit = math.lcm(*(ratio.denominator for ratio in ratios))
    largest = float(taus[longest].max())
    multiple = -(-_whole_steps(largest, step) // unit)
    multiple = max(multiple, math.ceil(least_lag / (unit * min(ratios))))
    multiple = max(multiple, apart)
    lags = [int(unit * multiple * ratio) for ratio in ratios]
    size = taus[longest] / (unit * multiple)
    _whole_steps(span, float(size.min()))
    steps = np.maximum(np.ceil(span / size * (1.0 - _ROUNDING)), 1).astype(np.int64)
    return Steps(size, steps, np.array(lags, np.int64), breaks_of(lags, int(steps.max())))


@dataclass(frozen=True)
class Mesh:
    """The cells of every trajectory, for `trajectories.delays.segments`."""

    # Whether all trajectories share one mesh: equal lags, and breaking points at ends of cells.
    shared: bool
    width: np.ndarray  # [trajectory_count]: width of a trajectory's cells [time]
    # int64 [delay_count]: each delay in cells; on meshes that are not shared, the cells of history
    # to store.
    lags: np.ndarray
    breaks: np.ndarray  # uint8 [cell_count]: whether a shared cell begins at a breaking point


# Fewest cells in the shortest delay and between two breaking points; the error estimate needs them.
_LEAST_LAG, _APART = 3, 4
# A shared mesh does not pay if it has more than this many cells per longest delay, and more than
# this many times the cells that the requested width needs.
_FINE, _FINER = 64, 4


def plan_mesh(
    span: float,
    fraction: float,  # widest cell, relative to the longest delay
    count: int,
    delays: Sequence[str],
    # [trajectory_count]: least and largest value of every delay [time]; equal for constant delays.
    least: Sequence[np.ndarray],
    most: Sequence[np.ndarray],
    *,
    step: float | None = None,  # widest cell [time], for fixed steps of this size
    free: bool = False,  # whether every trajectory needs its own mesh
    least_lag: int = _LEAST_LAG,  # fewest cells in the shortest delay
    apart: int = _APART,  # fewest cells between two breaking points of a shared mesh
) -> Mesh:
    """Choose cells no wider than `fraction` of a trajectory's longest delay, or than `step`.

    Raises a ModelError if a delay is not positive. Raises a PlanError if there are too many cells.
    """
    if not delays:
        steps = plan_steps(span, step or span, count, delays, least)
        return Mesh(False, steps.size, steps.lags, steps.breaks)
    _check_delays(delays, least)
    longest = np.max(most, axis=0)
    widest = fraction * float(longest.max()) if step is None else step
    if not free:
        try:
            steps = plan_steps(span, widest, count, delays, most, least_lag, apart)
        except PlanError:
            pass  # without a common step, every trajectory has its own mesh
        else:
            wanted = _whole_steps(float(longest.max()), widest)
            if steps.lags.max() <= max(_FINE, _FINER * wanted):
                return Mesh(True, steps.size, steps.lags, steps.breaks)
    shortest = np.min(least, axis=0)
    cells = max(
        _whole_steps(float(longest.max()), widest),
        math.ceil(least_lag * float((longest / shortest).max()) * (1.0 - _ROUNDING)),
    )
    lags = np.full(len(delays), cells + 4, np.int64)
    return Mesh(False, longest / cells, lags, np.zeros(1, np.uint8))


def have_common_step(delays: Sequence[str], taus: Sequence[np.ndarray]) -> bool:
    """Whether delays are whole multiples of one step, with equal ratios in all trajectories."""
    _check_delays(delays, taus)
    try:
        for name, tau in zip(delays, taus, strict=True):
            _ratio(name, tau, delays[0], taus[0])
    except PlanError:
        return False
    return True


def breaks_of(lags: Sequence[int], last: int) -> np.ndarray:
    """`Steps.breaks`: sums of lags; with each lag added, a derivative one order higher jumps."""
    sums = {0}
    for _ in range(_SMOOTH):
        sums |= {one + lag for one in sums for lag in lags if one + lag <= last}
    breaks = np.zeros(max(sums) + 1, np.uint8)
    breaks[list(sums)] = 1
    return breaks


def _whole_steps(span: float, step: float) -> int:
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        steps = float(np.float64(span) / step * (1.0 - _ROUNDING))
    if not steps <= _MOST_STEPS:
        many = f"{math.ceil(steps):,}" if steps < 1e15 else f"{steps:.3g}"
        raise PlanError(f"a step of {step:g} takes {many} steps; at most 2^31 - 1 are possible")
    return max(1, math.ceil(steps))


def _ratio(name: str, tau: np.ndarray, other: str, reference: np.ndarray) -> Fraction:
    """`tau` / `reference`, one rational number for all trajectories."""
    quotient = tau / reference
    if np.ptp(quotient) > _ROUNDING * quotient[0]:
        raise PlanError(
            f"the ratio of the delays '{name}' and '{other}' is {quotient.min():g} to "
            f"{quotient.max():g}; trajectories that run together need one ratio - integrate them "
            "in groups"
        )
    ratio = Fraction(float(quotient[0])).limit_denominator(_LARGEST_DENOMINATOR)
    if abs(float(ratio) - quotient[0]) > _ROUNDING * quotient[0]:
        raise PlanError(
            f"the delays '{name}' and '{other}' have no common step: their ratio "
            f"{quotient[0]:.12g} is not a fraction of whole numbers up to {_LARGEST_DENOMINATOR:,}"
        )
    return ratio


def _check_delays(delays: Sequence[str], taus: Sequence[np.ndarray]) -> None:
    for name, tau in zip(delays, taus, strict=True):
        bad = np.flatnonzero(~(tau > 0))
        if bad.size:
            raise ModelError(
                f"delay '{name}' is {tau[bad[0]]:g} in trajectory {bad[0]}; expected a positive "
                "number"
            )
