"""Ensembles of ordinary, delay and stochastic differential equations."""

from ergode.core.keywords import suggest_all
from ergode.trajectories.analysis.bifurcation import basins, bifurcation_diagram, poincare_section
from ergode.trajectories.analysis.fit import fit
from ergode.trajectories.analysis.lyapunov import lyapunov_spectrum
from ergode.trajectories.analysis.sensitivities import sensitivities
from ergode.trajectories.analysis.series import recurrence, winding_number, zero_one_test
from ergode.trajectories.continuation.branch import branch
from ergode.trajectories.delays.history import History
from ergode.trajectories.events import ZeroCrossing
from ergode.trajectories.integrate import integrate
from ergode.trajectories.observables import Maximum, Mean, Minimum, Observable, TimeAbove

__all__ = [
    "History", "Maximum", "Mean", "Minimum", "Observable", "TimeAbove", "ZeroCrossing", "basins",
    "bifurcation_diagram", "branch", "fit", "integrate", "lyapunov_spectrum", "poincare_section",
    "recurrence", "sensitivities", "winding_number", "zero_one_test",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
