"""Stochastic trajectories of reaction networks: exact, or approximate where that is asked for."""

from ergode.stochastic.sensitivity import sensitivities
from ergode.stochastic.simulate import simulate

__all__ = ["sensitivities", "simulate"]
