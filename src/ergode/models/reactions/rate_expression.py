"""A rate coefficient that is a formula of time, conditions, concentrations and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ergode.core.errors import ModelError
from ergode.models.expressions import Expression, is_condition
from ergode.models.reactions.rates import RateCoefficient

CONDITIONS = frozenset({"temperature", "density", "pressure", "sunlight"})
"""Names of the conditions of a zone in a `RateExpression`."""


@dataclass(frozen=True)
class RateExpression(RateCoefficient):
    """A rate coefficient that is a formula.

    Parameters
    ----------
    formula : str or Expression
        Its names are ``time``, ``temperature`` [K], ``density`` [g/cm3, of nuclei and of molecules
        with NASA polynomials], ``pressure`` [dyn/cm2, of molecules], ``sunlight``, and the species,
        rules and parameters of the network. A species is its concentration. `Expression` has the
        functions.

    Notes
    -----
    Amounts enter the Jacobian exactly. A sum of species, such as ``A + B + 2 * C``, costs as much
    as one species.

    Examples
    --------
    A peroxy radical meets the sum of all peroxy radicals, and the emission follows the time of day:

    >>> import ergode
    >>> meets = ergode.RateExpression("2.2e-13 * exp(620 / temperature) * (CH3O2 + C2H5O2)")
    >>> emitted = ergode.RateExpression("1e6 * max(0, sin(2 * pi * time / 86400))")
    >>> network = ergode.ReactionNetwork(
    ...     {"CH3O2": 1e8, "C2H5O2": 1e8, "CH4": 0.0},
    ...     [
    ...         ergode.Reaction("CH3O2 -> 0", rate_constant=meets),
    ...         ergode.Reaction("0 -> CH4", rate_constant=emitted),
    ...     ],
    ... )
    >>> found = ergode.kinetics.reaction_rates(network, temperature=310.0, time=21600.0)
    >>> [float(f"{rate:.4g}") for rate in found["rate"].values[0]]
    [32510.0, 1000000.0]
    """

    formula: Expression

    def __post_init__(self) -> None:
        formula: Any = self.formula
        if isinstance(formula, int | float) and not isinstance(formula, bool):
            formula = repr(float(formula))
        if isinstance(formula, str):
            formula = Expression(formula)
        if not isinstance(formula, Expression):
            raise ModelError(f"formula of a RateExpression is {formula!r}; expected a string")
        if is_condition(formula) and formula.names:
            raise ModelError(
                f"formula of a RateExpression, '{formula.text}', is a condition; expected a number"
            )
        object.__setattr__(self, "formula", formula)
