"""Probability densities transported by a vector field, on sparse grids."""

from ergode.core.keywords import suggest_all
from ergode.density.files import write_cells
from ergode.density.propagate import propagate
from ergode.density.regions import credible_region, quantiles, surface
from ergode.density.views import (
    cells_at,
    entropy,
    highest_density,
    marginal,
    region_probability,
    samples,
)

__all__ = [
    "cells_at", "credible_region", "entropy", "highest_density", "marginal", "propagate",
    "quantiles", "region_probability", "samples", "surface", "write_cells",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
