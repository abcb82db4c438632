"""Stochastic simulation of reaction networks: exact by default, or approximate on request."""

from ergode.core.keywords import suggest_all
from ergode.stochastic.correlation import autocorrelation
from ergode.stochastic.distribution import probabilities
from ergode.stochastic.linear_noise import linear_noise
from ergode.stochastic.rare_events import rare_event
from ergode.stochastic.sensitivity import sensitivities
from ergode.stochastic.simulate import simulate
from ergode.stochastic.simulate_rules import simulate_rules
from ergode.stochastic.simulate_space import simulate_space
from ergode.stochastic.splitting import passages

__all__ = [
    "autocorrelation",
    "linear_noise",
    "passages",
    "probabilities",
    "rare_event",
    "sensitivities",
    "simulate",
    "simulate_rules",
    "simulate_space",
]

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
