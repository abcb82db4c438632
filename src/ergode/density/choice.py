"""Which scheme a density gets by ``"auto"``, and why; what points that follow the flow refuse."""

from __future__ import annotations

from ergode.core import checkpoint, resident
from ergode.core.arguments import refuse_idle
from ergode.core.errors import PlanError
from ergode.density.flow.points import DIMENSIONS_OF_LATTICE
from ergode.density.noise import Noise
from ergode.density.specialize import Limits
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.priors import Gaussian, Mixture

MEASURED_MOST = 100
"""Number of measured values of all densities above which a fixed grid takes less time."""


def choose(
    asked: Estimation, noise: Noise | None, limits: Limits | None, **given: bool
) -> tuple[str, str]:
    """The scheme that ``"auto"`` is, and why; `given` tells which options of a grid are given."""
    wanted = [name for name, is_given in given.items() if is_given]
    why = why_not_flow(asked, noise, limits)
    if why:
        return "split", f"a fixed grid: {why}"
    if wanted:
        return "split", f"a fixed grid: {', '.join(wanted)} given"
    if checkpoint.is_asked():
        return "split", "a fixed grid: checkpoints are asked for"
    if resident.device() is not None:
        return "split", "a fixed grid: keep_on_device is asked for"
    size, count = len(asked.field.variables), asked.layout.count
    if size <= DIMENSIONS_OF_LATTICE and not all(
        isinstance(one, Gaussian | Mixture) for one in asked.priors
    ):
        return "split", "a fixed grid: a prior is neither a Gaussian nor a mixture"
    measured = len(asked.measurements) * count
    if measured > MEASURED_MOST:
        return "split", (
            f"a fixed grid: {measured:,} measured values, more than {MEASURED_MOST}, would take "
            "longer with points that follow the flow"
        )
    return "flow", "no noise and no walls: points that follow the flow have no numerical diffusion"


def why_not_flow(asked: Estimation, noise: Noise | None, limits: Limits | None) -> str:
    """What only a fixed grid can do for a density; empty if there is nothing."""
    spread = any(one.covariance is not None for one in asked.maneuvers)
    for is_given, what in (
        (noise is not None, "process noise"),
        (limits is not None, "a region or a conserved quantity"),
        (spread, "maneuvers with a covariance"),
    ):
        if is_given:
            return what
    return ""


def check_flow(
    asked: Estimation, noise: Noise | None, limits: Limits | None, **given: bool
) -> None:
    """Refuse what only a fixed grid can do, by a PlanError, and options without effect."""
    if why := why_not_flow(asked, noise, limits):
        raise PlanError(f"scheme 'flow' is for densities without {why}; use scheme='split'")
    checkpoint.refuse_checkpoints("scheme 'flow' runs in one piece; use scheme='split'")
    if resident.device() is not None:
        raise PlanError("scheme 'flow' has no keep_on_device; use scheme='split', or leave it out")
    why = "scheme is 'flow', which drops no cells; use retained"
    refuse_idle(
        threshold=(given["threshold"], why), lower_threshold=(given["lower_threshold"], why),
        max_cells=(given["max_cells"], "scheme is 'flow', whose points are no more later"),
    )  # fmt: skip
