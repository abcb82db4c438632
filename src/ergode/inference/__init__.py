"""From data to parameters."""

from ergode.inference.petab import Parameter, PetabProblem, read_petab
from ergode.inference.simulator import Simulator, simulator

__all__ = ["Parameter", "PetabProblem", "Simulator", "read_petab", "simulator"]
