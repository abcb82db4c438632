"""Steps of approximate methods: their control, and their attributes in a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.arguments import is_finite_number, number
from ergode.core.calls import launch
from ergode.core.errors import AccuracyWarning, PerformanceWarning, PlanError
from ergode.stochastic import methods
from ergode.stochastic.algorithms import hybrid_tables, leap
from ergode.stochastic.tables import Tables

# Cost of a step, and of a single firing between two steps, in firings of the direct method.
_STEP_COST, _SINGLE_COST = 30.0, 5.0
# The Langevin equation is not valid if more than this fraction of its steps leads below zero, or if
# reactants are few during more than this fraction of the time.
_FEW_MOST = 0.01
# Below this tolerance, steps vanish compared with the relaxation time.
_SMALLEST_TOLERANCE = 1e-10


def step_control(
    asked: methods.Method | None,  # None means ``"auto"``
    tables: Tables,
    tolerance: float | None,
    step: float | None,
    max_step: float | None,
    continuous_above: float | None,
    grid: np.ndarray,  # times of the result
    max_firings: int,
) -> dict[str, np.ndarray]:
    """Constants that control the steps of a method; empty if it has its own.

    Raises a PlanError if a value is invalid, or belongs to another method.
    """
    method = methods.choose(tables)[0] if asked is None else asked
    flows = method.algorithm.flows
    name = repr(method.name) if asked else f"{method.name!r}, which 'auto' takes here,"
    given = {
        "tolerance": tolerance, "step": step, "max_step": max_step,
        "continuous_above": continuous_above,
    }  # fmt: skip
    only_flows = "max_step", "continuous_above"
    for argument, value in given.items():
        able = [
            repr(one.name)
            for one in methods.METHODS.values()
            if (one.algorithm.leaps and argument not in only_flows)
            or (one.algorithm.flows and argument != "step")
        ]
        if value is not None and repr(method.name) not in able:
            lacks = "takes no steps" + " of a given length" * flows
            if argument in only_flows:
                lacks = "solves no differential equations"
            raise PlanError(
                f"{argument} is given, but method {name} {lacks}; it is for {' and '.join(able)}"
            )
    if tolerance is not None and step is not None:
        raise PlanError("tolerance and step are given; expected one of them")
    is_number = tolerance is None or is_finite_number(tolerance)
    if tolerance is not None and not (is_number and _SMALLEST_TOLERANCE <= tolerance < 1):
        raise PlanError(
            f"tolerance is {tolerance!r}; expected a number between 0 and 1, at least "
            f"{_SMALLEST_TOLERANCE:g}"
        )
    if flows:
        longest = np.inf if max_step is None else number("max_step", max_step, above=0)
        usual = hybrid_tables.PARTED_TOLERANCE if tables.parted else hybrid_tables.TOLERANCE
        return hybrid_tables.control(
            usual if tolerance is None else tolerance, longest, continuous_above or np.inf
        )
    if not method.algorithm.leaps:
        return {}
    if step is not None and not (is_finite_number(step) and step > 0):
        raise PlanError(f"step is {step!r}; expected a time above 0")
    begin, end = float(grid[0]), float(grid[-1])
    if step is not None and end - begin > step * max_firings:
        raise PlanError(
            f"step is {step!r}: from {begin:g} to {end:g} there are more than max_firings = "
            f"{max_firings} such steps; use a longer step, or tolerance= instead of it"
        )
    return leap.control(
        not method.whole, leap.TOLERANCE if tolerance is None else tolerance, step or 0.0, end
    )


def describe_partition(
    told: np.ndarray, firings: np.ndarray, control: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Attributes of a result with reactions that are continuous at times."""
    steps, continuous, switches = told[:, 1:4].sum(axis=0)
    threshold = float(control["threshold"][0])
    return {
        "continuous_above": threshold, "tolerance": float(control["tolerance"][0]),
        "step_error": float(told[:, 0].max(initial=0.0)),
        "partition_error": 2.0 / threshold if continuous else 0.0,
        "steps": int(steps), "partition_changes": int(switches),
        "continuous_share": float(continuous / max(continuous + firings.sum(), 1.0)),
    }  # fmt: skip


def describe_steps(
    leaps: np.ndarray, firings: np.ndarray, control: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Attributes of a result about its steps; warn if steps are too long or too short."""
    error = float(leaps[:, 0].max(initial=0.0))
    taken, single, below, few, time = leaps[:, 1:].sum(axis=0)
    few /= time or 1.0
    tolerance, step, _ = control["control"]
    if error > 0.1:
        launch.warn(
            "the steps are long compared with relaxation: the relative error of a variance, or the "
            f"bias of a mean in standard deviations, is about {error:.2g}; use a "
            "shorter step, or tolerance= instead of it",
            AccuracyWarning,
        )
    below_share = below / max(taken, 1.0)
    gaussian = bool(control["gaussian"][0])
    if gaussian and max(few, below_share) > _FEW_MOST:
        launch.warn(
            "the Langevin equation is not valid here: there were fewer than "
            f"{leap.FEW:g} molecules of a reactant in {100 * few:.3g} % of the time, and "
            f"{100 * below_share:.3g} % of its steps led below zero; use 'tau-leap' or an exact "
            "method",
            AccuracyWarning,
        )
    if _STEP_COST * taken + _SINGLE_COST * single > firings.sum() > 0:
        name = "the Langevin equation" if gaussian else "tau-leaping"
        launch.warn(
            f"{name} does not pay here: {firings.sum():,.0f} firings in {taken:,.0f} steps "
            f"and {single:,.0f} single firings; an exact method (method='auto') is likely faster",
            PerformanceWarning,
        )
    size = {"step": float(step)} if step else {"tolerance": float(tolerance)}
    return {
        **size, "step_error": error, "steps": int(taken), "single_firings": int(single),
        "steps_below_zero": int(below), **({"few_molecules": float(few)} if gaussian else {}),
    }  # fmt: skip
