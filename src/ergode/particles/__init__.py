"""A density as a weighted ensemble of trajectories, and its distance from a density on a grid."""

from ergode.core.keywords import suggest_all
from ergode.particles.compare import compare
from ergode.particles.propagate import propagate
from ergode.particles.unscented import unscented_kalman

__all__ = ["compare", "propagate", "unscented_kalman"]

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
