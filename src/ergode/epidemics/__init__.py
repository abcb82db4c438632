"""Contagion on contact networks: exact by default, or by tau-leaping on request."""

from ergode.core.keywords import suggest_all
from ergode.epidemics.analysis import percolation
from ergode.epidemics.analysis.costs import cost
from ergode.epidemics.analysis.files import write_line_list, write_transmission_tree
from ergode.epidemics.analysis.line_list import (
    case_table,
    generation_interval,
    measure_table,
    next_generation,
    serial_interval,
    transmission_tree,
)
from ergode.epidemics.analysis.observation import observe
from ergode.epidemics.analysis.over_time import reproduction_number, reproduction_over_time
from ergode.epidemics.analysis.people import as_people
from ergode.epidemics.analysis.reproduction import Reproduction, reproduction, scaled_to
from ergode.epidemics.analysis.states import states
from ergode.epidemics.analysis.summary import fatality_ratio, flows, incidence, person_time, summary
from ergode.epidemics.simulate import simulate
from ergode.epidemics.synchronous import synchronous

__all__ = [
    "Reproduction", "as_people", "case_table", "cost", "fatality_ratio", "flows",
    "generation_interval", "incidence", "measure_table", "next_generation", "observe",
    "percolation", "person_time", "reproduction", "reproduction_number",
    "reproduction_over_time", "scaled_to", "serial_interval", "simulate", "states", "summary",
    "synchronous", "transmission_tree", "write_line_list", "write_transmission_tree",
]  # fmt: skip

suggest_all(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
