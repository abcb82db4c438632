"""Whether times in a working precision are fine enough for a model.

Methods that go from event to event keep the time since the beginning, so that late in a run two
moments are told apart only if they differ by the spacing of numbers there.  Of the transmissions
within a stay a share is lost that is a quarter of the spacing over the length of the stay.  (Rates
do not matter: who transmits sooner than can be told transmits at the next moment there is.)
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ergode.core.arguments import choice
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.shared.progression import Stages, stages_of
from ergode.epidemics.shared.sweep import PointGroup
from ergode.models.epidemic.compartments import CompartmentModel

# Numbers below one are at most this far apart.
_SPACING: dict[Precision, float] = {"float32": 2.0**-24, "float64": 2.0**-53}
_SPACING_MOST = 2.0**-9  # of the shortest stay: less than 5e-4 of its transmissions are lost


def precision_of(
    precision: Precision | Literal["auto"], steps: bool, model: CompartmentModel, grid: np.ndarray
) -> Precision:
    """The precision to work in: what was asked for, or the first that is fine enough.

    `steps` says whether the method takes time steps: it then keeps no times.

    Raises
    ------
    PlanError
        It is unknown.
    """
    choice("precision", precision, ("auto", *PRECISIONS))
    if precision != "auto":
        return precision
    fine = _spacing("float64", model, grid) <= _SPACING_MOST < _spacing("float32", model, grid)
    return "float64" if fine and not steps else "float32"


def check_resolution(
    precision: Precision, steps: bool, model: CompartmentModel, grid: np.ndarray
) -> None:
    """Refuse a precision that is too coarse for the shortest stay in so long a run.

    Methods that take `steps` count those, and keep no times.

    Raises
    ------
    PlanError
        It is too coarse.
    """
    spacing = _spacing(precision, model, grid)
    if spacing > _SPACING_MOST and not steps:
        finer = precision == "float32" and _spacing("float64", model, grid) <= _SPACING_MOST
        instead = "precision='float64' or a shorter run" if finer else "a shorter run"
        raise PlanError(
            f"the run lasts {grid[-1] - grid[0]:g} and the shortest mean holding time of the model "
            f"is {shortest_stay(model):.3g}: times in {precision} are {spacing:.2g} of that "
            f"apart, and transmissions are lost; use {instead}"
        )


def shortest_stay(model: CompartmentModel) -> float:
    """The shortest mean holding time that is not zero [time]."""
    stays = [p.holding_time.mean for p in model.progressions]
    return min((stay for stay in stays if stay > 0), default=np.inf)


def _spacing(precision: Precision, model: CompartmentModel, grid: np.ndarray) -> float:
    """How far apart times are at the end of a run, in shortest stays."""
    return float(grid[-1] - grid[0]) * _SPACING[precision] / shortest_stay(model)


def check_range(what: str, value: Any, precision: Precision) -> None:
    """Refuse what the working precision cannot hold with room for a sum or two."""
    if not abs(value) < 0.1 * np.finfo(precision).max:
        raise ModelError(
            f"{what} is beyond what {precision} can hold; use another unit of time"
            + (" or precision='float64'" if precision == "float32" else "")
        )


def check_stages_of_group(
    model: CompartmentModel, group: PointGroup | None, stages: Stages, precision: Precision
) -> None:
    """As `check_stages`, of a model or of all models of a group."""
    if group is None:
        check_stages(model, stages, precision)
        return
    limits = np.finfo(precision)
    fine = (abs(stages.transmission_rate) < 0.1 * limits.max).all(axis=1)
    fine &= ((abs(stages.a) < 0.1 * limits.max) & (abs(stages.b) < 0.1 * limits.max)).all(axis=1)
    fine &= ~((stages.a > 0) & (stages.a < limits.tiny)).any(axis=1)
    for point in np.flatnonzero(~fine).tolist():
        one = group.models[point]
        check_stages(one, stages_of(one, precision), precision)


def check_stages(model: CompartmentModel, stages: Stages, precision: Precision) -> None:
    """Refuse rates and holding times that the working precision cannot hold."""
    for name, index in model.index.items():
        where = f"the transmission rate of '{name}'"
        check_range(where, stages.transmission_rate[index], precision)
        where = f"a parameter of the holding time of '{name}'"
        check_range(where, max(abs(stages.a[index]), abs(stages.b[index])), precision)
    lost = [
        p.compartment
        for p in model.progressions
        if p.holding_time.mean > 0
        and 0 < stages.a[model.index[p.compartment]] < np.finfo(precision).tiny
    ]
    if lost:
        raise ModelError(
            f"the holding time of '{lost[0]}' is shorter than {precision} can hold; use another "
            "unit of time"
        )
