"""From data to parameters."""

from ergode.inference.petab import Parameter, PetabProblem, read_petab

__all__ = ["Parameter", "PetabProblem", "read_petab"]
