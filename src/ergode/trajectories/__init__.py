"""Ensembles of ordinary and delay differential equations, many trajectories at once."""

from ergode.trajectories.events import Event
from ergode.trajectories.integrate import integrate
from ergode.trajectories.observables import Maximum, Mean, Minimum, Observable, TimeAbove

__all__ = ["Event", "Maximum", "Mean", "Minimum", "Observable", "TimeAbove", "integrate"]
