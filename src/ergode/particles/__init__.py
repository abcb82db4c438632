"""A density as a weighted ensemble of trajectories, and how far a grid's density is from it."""

from ergode.particles.compare import compare
from ergode.particles.propagate import propagate

__all__ = ["compare", "propagate"]
