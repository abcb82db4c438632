"""Figures of results, one file per engine. Matplotlib is imported when a figure is drawn."""

from ergode.core.keywords import suggest_all
from ergode.plots.branches import branches
from ergode.plots.corner import density_marginals
from ergode.plots.density import (
    comparison,
    density,
    density_over_time,
    density_strip,
)
from ergode.plots.epidemics import epidemic_curves, save_epidemic_curves
from ergode.plots.frame import check_figure_path
from ergode.plots.kinetics import abundances, flux_graph, ignition_map, nuclide_chart
from ergode.plots.movies import animate_density, animate_epidemic
from ergode.plots.scenarios import scenario_differences
from ergode.plots.space import animate_field, field
from ergode.plots.stochastic import amounts, autocorrelation, phase_plane, realizations
from ergode.plots.surfaces import density_surface
from ergode.plots.trajectories import fitted, trajectories

__all__ = [
    "abundances", "amounts", "animate_density", "animate_epidemic", "animate_field",
    "autocorrelation", "branches", "check_figure_path", "comparison", "density",
    "density_marginals", "density_over_time", "density_strip", "density_surface", "epidemic_curves",
    "field", "fitted", "flux_graph", "ignition_map", "nuclide_chart", "phase_plane", "realizations",
    "save_epidemic_curves", "scenario_differences", "trajectories",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
