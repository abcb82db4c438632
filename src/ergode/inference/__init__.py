"""From data to parameters."""

from ergode.inference.abc import abc_smc
from ergode.inference.petab import Parameter, PetabProblem, read_petab
from ergode.inference.simulator import Simulator, simulator

__all__ = ["Parameter", "PetabProblem", "Simulator", "abc_smc", "read_petab", "simulator"]
