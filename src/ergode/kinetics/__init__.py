"""Stiff thermonuclear and chemical kinetics in many zones."""

from ergode.kinetics.burn import Burned, burn
from ergode.kinetics.conditions import Trajectory
from ergode.kinetics.ignition import ignition_delay
from ergode.kinetics.integrate import integrate

__all__ = ["Burned", "Trajectory", "burn", "ignition_delay", "integrate"]
