"""Whether times in a working precision are fine enough for a model.

Methods that go from event to event keep the time since the beginning.  Late in a run, two moments
differ only if the spacing of floats resolves them.  A fraction of the transmissions of a stay is
lost: a quarter of the spacing divided by the length of the stay.  Rates do not matter: a
transmission sooner than the spacing happens at the next representable time.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ergode.core.arguments import choice
from ergode.core.compiler.source import PRECISIONS, Precision
from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.shared.progression import Stages
from ergode.epidemics.shared.sweep import PointGroup
from ergode.models.epidemic.compartments import CompartmentModel

# Numbers below one are at most this far apart.
_SPACING: dict[Precision, float] = {"float32": 2.0**-24, "float64": 2.0**-53}
# Below this probability of a tail, its quantiles are not resolved.
_RAREST: dict[Precision, float] = {"float32": 1e-28, "float64": 1e-290}
_SPACING_MOST = 2.0**-9  # of the shortest stay: less than 5e-4 of its transmissions are lost


def precision_of(
    precision: Precision | Literal["auto"],
    steps: bool,
    model: CompartmentModel,
    grid: np.ndarray,
    rarest: float,
) -> Precision:
    """The requested precision; for "auto" float64 if only that is fine enough, else float32.

    `steps` says whether the method is tau-leaping, which counts steps and stores no times. The
    remaining stay of a seed with an age is drawn from a tail of the probability `rarest`.

    Raises a PlanError if the precision is unknown.
    """
    choice("precision", precision, ("auto", *PRECISIONS))
    if precision != "auto":
        return precision
    fine = _spacing("float64", model, grid) <= _SPACING_MOST < _spacing("float32", model, grid)
    return "float64" if (fine and not steps) or rarest < _RAREST["float32"] else "float32"


def check_resolution(
    precision: Precision, steps: bool, model: CompartmentModel, grid: np.ndarray, rarest: float
) -> None:
    """Refuse a precision that is too coarse for the shortest stay, or for the tail of a stay.

    Methods that take `steps` count steps and store no times, so they are not checked.

    Raises a PlanError if the precision is too coarse.
    """
    if rarest < _RAREST[precision]:
        instead = "precision='float64' or younger seeds"
        raise PlanError(
            f"the probability that a seed stays beyond its age is {rarest:.1g}, too small for "
            f"{precision}; use {instead if precision == 'float32' else 'younger seeds'}"
        )
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
    stays = [one.mean for p in model.progressions for one in p.holding_times]
    return min((stay for stay in stays if stay > 0), default=np.inf)


def _spacing(precision: Precision, model: CompartmentModel, grid: np.ndarray) -> float:
    """Spacing of times at the end of a run, relative to the shortest stay."""
    return float(grid[-1] - grid[0]) * _SPACING[precision] / shortest_stay(model)


def check_range(what: str, value: Any, precision: Precision) -> None:
    """Refuse values near the largest number of the working precision: their sums may overflow."""
    if not abs(value) < 0.1 * np.finfo(precision).max:
        raise ModelError(
            f"{what} is out of the range of {precision}; use another unit of time"
            + (" or precision='float64'" if precision == "float32" else "")
        )


def check_stages(
    model: CompartmentModel, stages: Stages, precision: Precision, group: PointGroup | None = None
) -> None:
    """Refuse rates and holding times that the working precision cannot hold.

    `stages` are the stages of the model, or of all models of a group.
    """
    models = [model] if group is None else group.models
    limits = np.finfo(precision)
    rate, a, b = np.atleast_2d(stages.transmission_rate, stages.a, stages.b)
    # Of all classes of nodes: [point, class, compartment].
    a, b = (each.reshape(len(models), -1, len(model.compartments)) for each in (a, b))
    lost = np.asarray(((a > 0) & (a < limits.tiny)).any(axis=1))
    a, b = abs(a).max(axis=1), abs(b).max(axis=1)
    fits = np.maximum(np.maximum(abs(rate), a), b) < 0.1 * limits.max
    for point in np.flatnonzero((lost | ~fits).any(axis=1)).tolist():
        for name, index in model.index.items():
            check_range(f"the transmission rate of '{name}'", rate[point, index], precision)
            where = f"a parameter of the holding time of '{name}'"
            check_range(where, max(a[point, index], b[point, index]), precision)
        for progression in models[point].progressions:
            name = progression.compartment
            if lost[point, model.index[name]] and progression.shortest_mean > 0:
                raise ModelError(
                    f"the holding time of '{name}' is below the range of {precision}; use "
                    "another unit of time"
                )
