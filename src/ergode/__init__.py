"""Simulate many copies of a dynamical system at once, or one very large one.

Heavy packages (numba, xarray, SciPy) are imported only when they are used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ergode import density, epidemics, inference, kinetics, plots, stochastic, trajectories
    from ergode.core.calls.parts import concat
    from ergode.core.calls.resident import DeviceResult
    from ergode.core.devices import resolve as Device
    from ergode.core.devices.buffers import release
    from ergode.core.errors import (
        AccuracyWarning,
        ErgodeError,
        ErgodeWarning,
        FailureWarning,
        InterruptionWarning,
        ModelError,
        PerformanceWarning,
        PlanError,
        ReadError,
        WriteError,
    )
    from ergode.core.inputs import inputs
    from ergode.core.results import open_dataset, save
    from ergode.core.results.comparison import compare
    from ergode.core.status import Status
    from ergode.inference.abc import abc_smc
    from ergode.inference.ensemble_kalman import ensemble_kalman
    from ergode.inference.field_likelihood import field_likelihood
    from ergode.inference.history_matching import history_matching
    from ergode.inference.iterated_filtering import iterated_filtering
    from ergode.inference.particle_likelihood import particle_likelihood
    from ergode.inference.petab_files import read_petab
    from ergode.inference.petab_writer import write_petab
    from ergode.inference.pseudo_marginal import pseudo_marginal
    from ergode.inference.sedml import read_sedml
    from ergode.inference.simulator import simulator
    from ergode.inference.synthetic_likelihood import synthetic_likelihood
    from ergode.models.epidemic.attributes import ByAttribute
    from ergode.models.epidemic.calendars import Calendar
    from ergode.models.epidemic.compartments import CompartmentModel
    from ergode.models.epidemic.importations import Importation
    from ergode.models.epidemic.interventions import (
        Capacity,
        ContactTracing,
        Intervention,
        Isolation,
        LayerClosure,
        Trigger,
    )
    from ergode.models.epidemic.seeds import Seeds
    from ergode.models.epidemic.testing import Testing
    from ergode.models.epidemic.transitions import Infection, Progression
    from ergode.models.epidemic.vaccination import Vaccination
    from ergode.models.estimation.approach import ClosestApproach
    from ergode.models.estimation.maneuver import Maneuver
    from ergode.models.estimation.measurement import Measurement
    from ergode.models.estimation.priors import Density, Gaussian, Mixture, Samples
    from ergode.models.estimation.station import LightTime, Station
    from ergode.models.fields import library as fields
    from ergode.models.fields.delay import Delay
    from ergode.models.fields.equations import field_from_equations
    from ergode.models.fields.interpolants import interpolant
    from ergode.models.fields.networks import field_from_network
    from ergode.models.fields.vector_field import VectorField
    from ergode.models.holding_times.families import (
        Deterministic,
        Empirical,
        Erlang,
        Exponential,
        Gamma,
        HoldingTime,
        LogNormal,
        Weibull,
    )
    from ergode.models.networks.computed import ComputedNetwork
    from ergode.models.networks.contact_network import ContactNetwork
    from ergode.models.networks.survey import contact_survey
    from ergode.models.networks.temporal import TemporalContacts
    from ergode.models.reactions.composed_rates import Branching, Tabulated, TemperatureTable
    from ergode.models.reactions.detailed_balance import balanced
    from ergode.models.reactions.events import Event
    from ergode.models.reactions.molecules import in_molecules
    from ergode.models.reactions.network import ReactionNetwork
    from ergode.models.reactions.rate_expression import RateExpression
    from ergode.models.reactions.rates import (
        Arrhenius,
        BlowersMasel,
        Chebyshev,
        DetailedBalance,
        Falloff,
        LinearBurke,
        Photolysis,
        PowerLaw,
        PressureLog,
        Reaclib,
        TemperatureFit,
        ThreeBody,
        WeakTable,
    )
    from ergode.models.reactions.reaction import Reaction, ReactionTable
    from ergode.models.reactions.reaction_diffusion import ReactionDiffusion
    from ergode.models.reactions.species import Compartment, Species
    from ergode.models.reactions.thermochemistry import (
        Nasa9Polynomials,
        NasaPolynomials,
        Nucleus,
        SurfacePolynomials,
    )
    from ergode.models.rules.model import RuleModel
    from ergode.models.sweep import grid
    from ergode.readers.antimony import read_antimony
    from ergode.readers.bionetgen import read_bionetgen, read_rules
    from ergode.readers.cantera import read_cantera
    from ergode.readers.contact_matrix import read_contact_matrix
    from ergode.readers.edges import read_contacts
    from ergode.readers.fern import read_fern
    from ergode.readers.gillespy2 import from_gillespy2
    from ergode.readers.kpp import read_kpp
    from ergode.readers.meetings import read_meetings
    from ergode.readers.pynucastro import from_pynucastro
    from ergode.readers.reaclib import read_reaclib
    from ergode.readers.sbml import read_sbml
    from ergode.readers.sbml_writer import write_sbml
    from ergode.readers.weak_rates import read_weak_rates

try:
    __version__ = version("ergode")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

_HOMES = {
    "ergode.core.errors": (
        "AccuracyWarning", "ErgodeError", "ErgodeWarning", "FailureWarning", "InterruptionWarning",
        "ModelError", "PerformanceWarning", "PlanError", "ReadError", "WriteError",
    ),
    "ergode.core.devices.buffers": ("release",),
    "ergode.inference.abc": ("abc_smc",),
    "ergode.inference.petab_files": ("read_petab",),
    "ergode.inference.sedml": ("read_sedml",),
    "ergode.inference.petab_writer": ("write_petab",),
    "ergode.inference.ensemble_kalman": ("ensemble_kalman",),
    "ergode.inference.field_likelihood": ("field_likelihood",),
    "ergode.inference.history_matching": ("history_matching",),
    "ergode.inference.iterated_filtering": ("iterated_filtering",),
    "ergode.inference.particle_likelihood": ("particle_likelihood",),
    "ergode.inference.pseudo_marginal": ("pseudo_marginal",),
    "ergode.inference.simulator": ("simulator",),
    "ergode.inference.synthetic_likelihood": ("synthetic_likelihood",),
    "ergode.core.results.comparison": ("compare",),
    "ergode.core.inputs": ("inputs",),
    "ergode.core.calls.parts": ("concat",),
    "ergode.core.calls.resident": ("DeviceResult",),
    "ergode.core.results": ("open_dataset", "save"),
    "ergode.core.status": ("Status",),
    "ergode.models.epidemic.compartments": ("CompartmentModel",),
    "ergode.models.epidemic.attributes": ("ByAttribute",),
    "ergode.models.epidemic.transitions": ("Infection", "Progression"),
    "ergode.models.networks.computed": ("ComputedNetwork",),
    "ergode.models.networks.contact_network": ("ContactNetwork",),
    "ergode.models.fields.delay": ("Delay",),
    "ergode.models.reactions.detailed_balance": ("balanced",),
    "ergode.models.holding_times.families": (
        "Deterministic", "Empirical", "Erlang", "Exponential", "Gamma", "HoldingTime",
        "LogNormal", "Weibull",
    ),
    "ergode.models.estimation.approach": ("ClosestApproach",),
    "ergode.models.estimation.maneuver": ("Maneuver",),
    "ergode.models.estimation.station": ("LightTime", "Station"),
    "ergode.models.estimation.measurement": ("Measurement",),
    "ergode.models.estimation.priors": ("Density", "Gaussian", "Mixture", "Samples"),
    "ergode.models.reactions.composed_rates": ("Branching", "Tabulated", "TemperatureTable"),
    "ergode.models.reactions.events": ("Event",),
    "ergode.models.reactions.molecules": ("in_molecules",),
    "ergode.models.reactions.rate_expression": ("RateExpression",),
    "ergode.models.reactions.rates": (
        "Arrhenius", "BlowersMasel", "Chebyshev", "DetailedBalance", "Falloff", "LinearBurke",
        "Photolysis", "PowerLaw", "PressureLog", "Reaclib", "TemperatureFit",
        "ThreeBody", "WeakTable",
    ),
    "ergode.models.reactions.reaction_diffusion": ("ReactionDiffusion",),
    "ergode.models.rules.model": ("RuleModel",),
    "ergode.models.reactions.network": ("ReactionNetwork",),
    "ergode.models.reactions.reaction": ("Reaction", "ReactionTable"),
    "ergode.models.reactions.species": ("Compartment", "Species"),
    "ergode.models.epidemic.calendars": ("Calendar",),
    "ergode.models.epidemic.importations": ("Importation",),
    "ergode.models.epidemic.interventions": (
        "Capacity", "ContactTracing", "Intervention", "Isolation", "LayerClosure", "Trigger",
    ),
    "ergode.models.epidemic.testing": ("Testing",),
    "ergode.models.epidemic.vaccination": ("Vaccination",),
    "ergode.models.fields.equations": ("field_from_equations",),
    "ergode.models.fields.interpolants": ("interpolant",),
    "ergode.models.fields.networks": ("field_from_network",),
    "ergode.models.epidemic.seeds": ("Seeds",),
    "ergode.models.sweep": ("grid",),
    "ergode.models.networks.survey": ("contact_survey",),
    "ergode.models.networks.temporal": ("TemporalContacts",),
    "ergode.models.reactions.thermochemistry": (
        "Nasa9Polynomials", "NasaPolynomials", "Nucleus", "SurfacePolynomials",
    ),
    "ergode.models.fields.vector_field": ("VectorField",),
    "ergode.readers.antimony": ("read_antimony",),
    "ergode.readers.bionetgen": ("read_bionetgen", "read_rules"),
    "ergode.readers.cantera": ("read_cantera",),
    "ergode.readers.contact_matrix": ("read_contact_matrix",),
    "ergode.readers.edges": ("read_contacts",),
    "ergode.readers.kpp": ("read_kpp",),
    "ergode.readers.meetings": ("read_meetings",),
    "ergode.readers.fern": ("read_fern",),
    "ergode.readers.gbees": ("read_gbees", "read_gbees_estimate"),
    "ergode.readers.gbees_writer": ("write_gbees",),
    "ergode.readers.gillespy2": ("from_gillespy2",),
    "ergode.readers.pynucastro": ("from_pynucastro",),
    "ergode.readers.reaclib": ("read_reaclib",),
    "ergode.readers.sbml": ("read_sbml",),
    "ergode.readers.sbml_writer": ("write_sbml",),
    "ergode.readers.weak_rates": ("read_weak_rates",),
}  # fmt: skip
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names}
_PLACES["Device"] = ("ergode.core.devices", "resolve")
_MODULES = (
    "density",
    "epidemics",
    "inference",
    "kinetics",
    "particles",
    "plots",
    "stochastic",
    "trajectories",
)

__all__ = [
    "AccuracyWarning", "Arrhenius", "BlowersMasel", "Branching", "ByAttribute", "Calendar",
    "Capacity", "Chebyshev", "ClosestApproach", "Compartment", "CompartmentModel",
    "ComputedNetwork", "ContactNetwork",
    "ContactTracing", "Delay", "Density", "DetailedBalance", "Deterministic", "Device",
    "DeviceResult", "Empirical", "ErgodeError",
    "ErgodeWarning", "Erlang", "Event", "Exponential", "FailureWarning", "Falloff", "Gamma",
    "Gaussian", "HoldingTime", "Importation", "Infection", "InterruptionWarning", "Intervention",
    "Isolation", "LayerClosure", "LightTime", "LinearBurke", "LogNormal",
    "Maneuver", "Measurement", "Mixture", "ModelError", "Nasa9Polynomials", "NasaPolynomials",
    "Nucleus", "PerformanceWarning", "Photolysis", "PlanError", "PowerLaw", "PressureLog",
    "Progression", "RateExpression", "Reaclib", "Reaction", "ReactionDiffusion",
    "ReactionNetwork", "ReactionTable", "ReadError", "RuleModel", "Samples", "Seeds", "Species",
    "Station", "Status", "SurfacePolynomials", "Tabulated", "TemperatureFit", "TemperatureTable",
    "TemporalContacts",
    "Testing", "ThreeBody", "Trigger", "Vaccination", "VectorField",
    "WeakTable", "Weibull", "WriteError",
    "__version__",
    "abc_smc", "balanced", "compare", "concat", "contact_survey", "density",
    "ensemble_kalman", "epidemics", "field_from_equations", "field_from_network",
    "field_likelihood", "fields",
    "from_gillespy2", "from_pynucastro", "grid", "history_matching", "in_molecules", "inference",
    "inputs",
    "interpolant", "iterated_filtering", "kinetics", "open_dataset", "particle_likelihood",
    "particles", "plots", "pseudo_marginal",
    "read_antimony", "read_bionetgen", "read_cantera", "read_contact_matrix", "read_contacts",
    "read_fern", "read_gbees", "read_gbees_estimate", "read_kpp", "read_meetings", "read_petab",
    "read_reaclib", "read_rules", "read_sbml", "read_sedml", "read_weak_rates", "release", "save",
    "simulator", "stochastic",
    "synthetic_likelihood", "trajectories", "write_gbees", "write_petab",
    "write_sbml",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        home, attribute = _PLACES[name]
        value = getattr(import_module(home), attribute)
        value = import_module("ergode.core.keywords").suggest(value, name)
    elif name in _MODULES:
        value = import_module(f"ergode.{name}")
    elif name == "fields":
        value = import_module("ergode.models.fields.library")
    else:
        raise AttributeError(f"module 'ergode' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
