"""Importations: contacts with cases from outside."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.arguments import check_text
from ergode.core.errors import ModelError
from ergode.models.epidemic.dates import Moment, as_tuple, moment_of, moments_of, number_of, text_of


@dataclass(frozen=True)
class Importation:
    """Contacts with cases from outside, of random nodes.

    Parameters
    ----------
    compartment : str
        Compartment of the outside case.
    rate : float, optional
        Rate of a Poisson process of contacts [1 / time].
    times : array_like, optional
        Instead of a rate: times of the contacts [time], or dates. Those outside of the run do not
        happen.
    start, stop : float or date
        With a rate: interval in which contacts happen [time].

    Notes
    -----
    Each contact falls on one random node of the network, and infects it only by an infection of
    the model.  If that infection leads to `compartment` - at once, as from S in SIR, or later, as
    for I in SEIR - the node begins in `compartment`.  If an infection by such a case leads
    elsewhere - for another age class, or a node immune to another strain - the node begins where
    that infection leads.  No other nodes are infected.

    The probability of infection is the infection's rate relative to the largest total rate from
    any compartment that a node can be in during the run, times the node's susceptibility (relative
    to the largest for such infections if that exceeds one), times the fractions that remain under
    vaccination and the node's quarantine.  Closures and calendars do not act on it.
    """

    compartment: str
    rate: float | None = None
    times: ArrayLike | None = None
    start: Moment = -math.inf
    stop: Moment = math.inf

    def __post_init__(self) -> None:
        check_text("Importation", "compartment", self.compartment)
        if (self.rate is None) == (self.times is None):
            raise ModelError("Importation: expected either a rate or times")
        if self.rate is not None:
            rate = number_of("Importation", "rate", self.rate)
            if not math.isfinite(rate):
                raise ModelError(f"Importation: rate is {rate!r}; expected a finite number")
            object.__setattr__(self, "rate", rate)
            for name in ("start", "stop"):
                value = moment_of("Importation", name, getattr(self, name))
                object.__setattr__(self, name, value)
            # Of a date and a number, the later one is known with the origin alone.
            if type(self.start) is type(self.stop) and self.stop < self.start:
                raise ModelError(
                    f"Importation: it stops at {text_of(self.stop)}, before it starts at "
                    f"{text_of(self.start)}"
                )
        elif (self.start, self.stop) != (-math.inf, math.inf):
            raise ModelError("Importation: start and stop go with a rate, not with times")
        if self.times is not None:
            moments = np.sort(moments_of("Importation", "times", self.times))
            if moments.ndim != 1 or not np.isfinite(moments).all():
                raise ModelError("Importation: times must be a list of finite numbers")
            object.__setattr__(self, "times", as_tuple(moments))

    @property
    def moments(self) -> tuple[float, ...]:
        """Times of the contacts, if they were given."""
        return () if self.times is None else tuple(np.asarray(self.times).tolist())
