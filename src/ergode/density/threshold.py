"""Which cells of a grid are dropped: by a threshold, or by the probability to be retained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergode.core.errors import PlanError
from ergode.density.grid.lattice import Lattice
from ergode.density.initial import TAIL
from ergode.density.solve import scale_of, scaled
from ergode.models.estimation.estimation import Estimation


def check_threshold(threshold: float | None, retained: float | None) -> None:
    """Raise a PlanError if a value is no probability, or both are given."""
    if threshold is not None and not (
        isinstance(threshold, int | float | np.number) and 0 <= threshold < 1
    ):
        raise PlanError(f"threshold is {threshold!r}; expected a probability, 0 to below 1")
    if retained is None:
        return
    if threshold is not None:
        raise PlanError("threshold and retained are both given; expected one of them")
    if not (isinstance(retained, int | float | np.number) and 0 < retained < 1):
        raise PlanError(f"retained is {retained!r}; expected a probability between 0 and 1")


def thresholds_of(
    asked: Estimation,
    lattices: Sequence[Lattice],
    threshold: float | None,
    retained: float | None,
    scale_threshold: bool,
) -> dict[str, Any]:
    """Threshold settings of `Solver`; keys are lattices by identity."""
    dimension = len(asked.field.variables)
    distinct = {id(one): (one, prior) for one, prior in zip(lattices, asked.priors, strict=True)}
    scales = {
        name: scale_of(lattice, prior.covariance) if scale_threshold else 1.0
        for name, (lattice, prior) in distinct.items()
    }
    return {
        "thresholds": {
            name: None if threshold is None else scaled(threshold, scale, dimension)
            for name, scale in scales.items()
        },
        "tail_level": {name: TAIL * scale ** (3.0 / dimension) for name, scale in scales.items()},
        "allowed": None if retained is None else _allowed(retained, asked),
    }


def reason_of(threshold: float | None, retained: float | None) -> str:
    """What a result says of its threshold."""
    if retained is not None:
        return f"initial value; later values keep {retained:g} of the probability"
    return "1e-4 of the prior's largest cell" if threshold is None else "asked for"


def _allowed(retained: float, asked: Estimation) -> tuple[float, float]:
    """Loss permitted at once (of the prior, and at each measurement), and per unit of time."""
    lost, duration = 0.5 * (1.0 - float(retained)), float(np.ptp(asked.times))
    return lost / (1 + len(asked.measurements)), lost / duration if duration > 0 else 0.0
