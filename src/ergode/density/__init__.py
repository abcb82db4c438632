"""Probability densities that move with a vector field, on sparse grids."""

from ergode.density.propagate import propagate
from ergode.density.views import (
    cells_at,
    entropy,
    highest_density,
    marginal,
    region_probability,
    samples,
)

__all__ = [
    "cells_at", "entropy", "highest_density", "marginal", "propagate", "region_probability",
    "samples",
]  # fmt: skip
