"""The time from which a density by the flow may be wrong, and the warning about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.density.record import Record, values_of
from ergode.density.tail import CUT_MOST, EVIDENCE_MOST

if TYPE_CHECKING:
    from ergode.density.flow.solve import FlowSolver

MEAN_MOST = 0.05
"""Largest error of a reliable mean, in deviations."""

DEVIATION_MOST = 0.05
"""Largest relative error of a reliable deviation."""

BEND_MOST = 0.05
"""Largest difference of moments of a reliable sum of Gaussian cells, in deviations."""


def unreliable_from(
    values: dict[str, np.ndarray], grid: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """First time at which each density may be wrong; `times` are those of measurements."""
    rows = (values["mean_error"] > MEAN_MOST) | (values["deviation_error"] > DEVIATION_MOST)
    measured = (
        (values["posterior_shift"] > MEAN_MOST) | (values["evidence_shift"] > EVIDENCE_MOST)
        | (values["posterior_cut"] > CUT_MOST)
    )  # fmt: skip
    bad = np.concatenate([rows, measured], axis=1)
    found = np.where(bad, np.concatenate([grid, times]), np.inf).min(axis=1, initial=np.inf)
    return np.where(bad.any(axis=1), found, np.nan)


def flow_warning(solver: FlowSolver) -> str:
    """Warning text for densities that may be wrong; empty if there are none."""
    lost = float(np.nanmax(solver.records[0].whole["mass_lost"], initial=0.0))
    unreliable = solver.unreliable_from
    bad = np.isfinite(unreliable)
    said = []
    if lost > max(_LOST_MOST, 2.0 * solver.cut):
        said.append(
            f"{100 * lost:.2g} % of the probability is at points whose solutions become infinite "
            "or need too many steps: it was dropped"
        )
    bend = solver.bend
    if bend is not None and np.isfinite(bend.time):
        said.append(
            "noise makes cells so wide that the field bends within them, or a function of noise or "
            f"a likelihood makes them far from Gaussians, from time {bend.time:g} on: {bend.sizes} "
            "- use scheme='split', or ergode.particles"
        )
    elif bad.any():
        who = "the density" if bad.size == 1 else f"{bad.sum()} of {bad.size} densities"
        said.append(
            f"{who} may be wrong from time {unreliable[bad].min():g} on, by the difference of both "
            f"halves of the points: {_sizes(solver.records)} - use a smaller width, or "
            "ergode.particles"
        )
    return "; ".join(said)


def _sizes(records: Sequence[Record]) -> str:
    """How large errors that are too large may be."""
    worst = {
        name: float(np.fmax.reduce(one, axis=None, initial=0.0))
        for name, one in values_of(records).items() if name in _ERRORS
    }  # fmt: skip
    mean = max(worst["mean_error"], worst["posterior_shift"])
    found = [
        (mean, MEAN_MOST, f"a mean by up to {mean:.2g} deviations"),
        (
            (size := worst["deviation_error"]), DEVIATION_MOST,
            f"a deviation by up to {100 * size:.2g} %",
        ),
        (
            (size := worst["evidence_shift"]), EVIDENCE_MOST,
            f"a log evidence by up to {size:.2g}",
        ),
        (
            (size := worst["posterior_cut"]), CUT_MOST,
            f"{100 * size:.2g} % of a posterior lies at the edge of the points",
        ),
    ]  # fmt: skip
    if any(np.isinf(size) for size, *_ in found):
        return "the points are too few to say by how much"
    return ", ".join(text for size, most, text in found if size > most)


_ERRORS = "mean_error", "posterior_shift", "deviation_error", "evidence_shift", "posterior_cut"


_LOST_MOST = 0.01
