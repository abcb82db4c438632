"""The time until an unborn node is born, where living people have children at a rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.holding_times.base import HoldingTime, HoldingTimeCode, finite_number

UNTIL_BIRTH = -1  # kind in tables: kernels draw no time for a kind below zero


class UntilBirth(HoldingTime):
    """The time until a birth: that depends on the number of mothers, so it has no distribution.

    Parameters
    ----------
    rate : float
        Largest rate at which a person has children [1 / time].
    mothers : mapping of str to float
        Compartments whose people have children, and their rate relative to `rate`, up to one.

    Raises
    ------
    ModelError
        The rate is not a finite number, zero or more.
    """

    def __init__(self, rate: float, mothers: Mapping[str, float]) -> None:
        self.rate = finite_number("UntilBirth", "rate", rate, signed=True)
        if self.rate < 0:
            raise ModelError(f"UntilBirth: rate is {rate!r}; expected zero or more")
        self.mothers = {name: float(share) for name, share in mothers.items() if share > 0}

    def __repr__(self) -> str:
        return f"UntilBirth({self.rate:.12g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntilBirth) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.rate, *self.mothers.items()))

    @property
    def mean(self) -> float:
        """Infinity: nobody is born without mothers."""
        return np.inf

    @property
    def variance(self) -> float:
        """Not a number."""
        return np.nan

    def code(self) -> HoldingTimeCode:
        """The largest rate, under a kind for which no time is drawn."""
        return HoldingTimeCode(UNTIL_BIRTH, self.rate)

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters as plain values."""
        return {"distribution": "until_birth", "rate": self.rate, "mothers": self.mothers}

    def _pdf(self, t: np.ndarray) -> Any:
        return np.zeros_like(t)

    def _survival(self, t: np.ndarray) -> Any:
        return np.ones_like(t)

    def _hazard(self, t: np.ndarray) -> Any:
        return np.zeros_like(t)

    def _quantile(self, p: np.ndarray) -> Any:
        return np.full_like(p, np.inf)
