"""Exact stochastic trajectories of reaction networks."""

from ergode.stochastic.simulate import simulate

__all__ = ["simulate"]
