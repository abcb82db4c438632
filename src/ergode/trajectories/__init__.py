"""Ensembles of ordinary, delay and stochastic differential equations."""

from ergode.core.keywords import suggest_all
from ergode.trajectories.analysis.bifurcation import basins, bifurcation_diagram, poincare_section
from ergode.trajectories.analysis.fit import fit
from ergode.trajectories.analysis.lyapunov import lyapunov_spectrum
from ergode.trajectories.analysis.sensitivities import sensitivities
from ergode.trajectories.analysis.series import recurrence, winding_number, zero_one_test
from ergode.trajectories.continuation.branch import branch
from ergode.trajectories.delays.history import History
from ergode.trajectories.events import Jump, Scheduled, ZeroCrossing
from ergode.trajectories.integrate import integrate
from ergode.trajectories.observables import Maximum, Mean, Minimum, Observable, TimeAbove
from ergode.trajectories.sliding import sliding_field

__all__ = [
    "History", "Jump", "Maximum", "Mean", "Minimum", "Observable", "Scheduled", "TimeAbove",
    "ZeroCrossing", "basins", "bifurcation_diagram", "branch", "fit", "integrate",
    "lyapunov_spectrum", "poincare_section", "recurrence", "sensitivities", "sliding_field",
    "winding_number", "zero_one_test",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
