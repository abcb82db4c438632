"""Which scheme a density gets by ``"auto"``, and why; what points that follow the flow refuse."""

from __future__ import annotations

from typing import Any, NamedTuple

from ergode.core.arguments import refuse_idle
from ergode.core.errors import PlanError
from ergode.density.flow.bend import Bend, bend_of
from ergode.density.flow.points import DIMENSIONS_OF_LATTICE
from ergode.density.flow.reliable import BEND_MOST
from ergode.density.methods import SchemeName
from ergode.density.noise import Noise
from ergode.density.specialize import Limits
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.priors import Gaussian, Mixture

KILLING = "a killing rate"

WALLS = "a grid has the law of first passage by region= and boundary='absorbing'"
"""What takes the place of a closest approach."""

COMPARED_MOST = 0.1
"""Largest difference of a sum from drawn points, in deviations: above it, a grid is as good."""

MEASURED_MOST = 100
"""Number of measured values of all densities above which a fixed grid takes less time."""


class Choice(NamedTuple):
    """What ``"auto"`` is."""

    scheme: SchemeName
    reason: str
    bend: Bend | None = None  # of Gaussian cells; None if it was not looked for


def choose(
    asked: Estimation, noise: Noise | None, limits: Limits | None, also: str,
    of_carrier: dict[str, Any], *, smooth: bool, approach: bool = False, **given: bool,
) -> Choice:  # fmt: skip
    """The scheme that ``"auto"`` is, and why; `given` tells which options of a grid are given.

    `of_carrier` are keyword arguments of `Carrier`. `also` is what else a grid is usual for, or
    empty.
    """
    if smooth:
        return Choice(
            "flow", "smoothing: points that follow the flow keep what later measurements say"
        )
    if approach:
        return Choice(
            "flow", "a closest approach: points that follow the flow know how near they come"
        )
    wanted = [name for name, is_given in given.items() if is_given]
    if limits is not None:
        return Choice("split", "a fixed grid: a region or a conserved quantity")
    if also == KILLING and asked.measurements:
        return Choice(
            "flow", "measurements and a killing rate: both weigh points that follow the flow"
        )
    if also:
        return Choice("split", f"a fixed grid: {also}")
    if wanted:
        return Choice("split", f"a fixed grid: {', '.join(wanted)} given")
    size, count = len(asked.field.variables), asked.layout.count
    if size <= DIMENSIONS_OF_LATTICE and not all(
        isinstance(one, Gaussian | Mixture) for one in asked.priors
    ):
        return Choice("split", "a fixed grid: a prior is neither a Gaussian nor a mixture")
    measured = len(asked.measurements) * count
    if measured > MEASURED_MOST:
        return Choice(
            "split",
            f"a fixed grid: {measured:,} measured values, more than {MEASURED_MOST}, would take "
            "longer with points that follow the flow",
        )
    if not is_wide(asked, noise):
        return Choice(
            "flow", "no noise, no walls: points that follow the flow have no numerical diffusion"
        )
    bend = bend_of(asked, of_carrier)
    most = COMPARED_MOST if bend.is_compared else BEND_MOST
    if bend.size > most:
        return Choice("split", f"a fixed grid: {bend.told}, more than {most}")
    return Choice("flow", f"weak noise: {bend.told}, at most {most}", bend)


def is_wide(asked: Estimation, noise: Noise | None) -> bool:
    """Whether points do not keep their mass, so that cells have to be Gaussians."""
    return noise is not None or any(one.covariance is not None for one in asked.maneuvers)


def check_flow(
    asked: Estimation, noise: Noise | None, limits: Limits | None, also: str,
    *, smooth: bool, approach: bool = False, **given: bool,
) -> None:  # fmt: skip
    """Refuse what only a fixed grid can do, by a PlanError, and options without effect."""
    if smooth and (limits is not None or also == KILLING):
        what = KILLING if also == KILLING else "walls"
        raise PlanError(
            f"smooth=True is for densities without {what}: only there points keep their weights"
        )
    if approach and (limits is not None or is_wide(asked, noise) or also == KILLING):
        what = "process noise, or maneuvers with a covariance" if limits is None else "walls"
        what = KILLING if also == KILLING else what
        raise PlanError(f"closest_approach is for densities without {what}: {WALLS}")
    if limits is not None:
        raise PlanError(
            "scheme 'flow' is for densities without a region or a conserved quantity; use "
            "scheme='split'"
        )
    why = "scheme is 'flow', which drops no cells; use retained"
    refuse_idle(
        threshold=(given["threshold"], why), lower_threshold=(given["lower_threshold"], why),
        max_cells=(given["max_cells"], "scheme is 'flow', whose points are no more later"),
    )  # fmt: skip
