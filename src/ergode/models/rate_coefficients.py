"""Rate coefficients that depend on conditions: temperature, density, pressure."""

from __future__ import annotations

from abc import ABC


class RateCoefficient(ABC):  # noqa: B024 (what a coefficient computes is its own kind's to say)
    """A deterministic mass-action rate constant that is a function of conditions.

    What a `Reaction` accepts for `rate_constant` beside numbers and formulas.  Subclasses are
    frozen dataclasses of numbers, whose ``repr`` says all there is to know of them.
    """
