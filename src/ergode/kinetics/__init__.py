"""Stiff thermonuclear and chemical kinetics in many zones."""

from ergode.core.keywords import suggest_all
from ergode.kinetics.burn import burn
from ergode.kinetics.cells import Burned
from ergode.kinetics.equilibrium import equilibrium
from ergode.kinetics.ignition import ignition_delay
from ergode.kinetics.important_reactions import important_reactions
from ergode.kinetics.integrate import integrate
from ergode.kinetics.matter import Matter, NeutrinoLosses, equation_of_state, neutrino_losses
from ergode.kinetics.over_time import Trajectory, daylight
from ergode.kinetics.physics.equation_of_state import EquationOfState
from ergode.kinetics.physics.equilibrium import equilibrium_distance, nuclear_equilibrium
from ergode.kinetics.pistons import Piston
from ergode.kinetics.plug_flow import plug_flow
from ergode.kinetics.reaction_rates import reaction_rates
from ergode.kinetics.reactors import PlugFlow, StirredTank
from ergode.kinetics.sensitivity import sensitivities
from ergode.kinetics.walls import Wall

__all__ = [
    "Burned", "EquationOfState", "Matter", "NeutrinoLosses", "Piston", "PlugFlow", "StirredTank",
    "Trajectory", "Wall", "burn", "daylight",
    "equation_of_state", "equilibrium", "equilibrium_distance", "ignition_delay",
    "important_reactions", "integrate",
    "neutrino_losses", "nuclear_equilibrium", "plug_flow", "reaction_rates", "sensitivities",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
