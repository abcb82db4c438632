"""Ensembles of ordinary and delay differential equations."""

from ergode.trajectories.integrate import integrate

__all__ = ["integrate"]
