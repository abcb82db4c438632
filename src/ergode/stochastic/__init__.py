"""Stochastic simulation of reaction networks: exact by default, or approximate on request."""

from ergode.stochastic.sensitivity import sensitivities
from ergode.stochastic.simulate import simulate

__all__ = ["sensitivities", "simulate"]
