"""Contagion on contact networks: exact by default, or by tau-leaping on request."""

from ergode.epidemics.analysis import percolation
from ergode.epidemics.analysis.line_list import (
    case_table,
    generation_interval,
    next_generation,
    reproduction_number,
    serial_interval,
    transmission_tree,
)
from ergode.epidemics.analysis.summary import (
    fatality_ratio,
    incidence,
    person_time,
    summary,
)
from ergode.epidemics.simulate import simulate

__all__ = [
    "case_table", "fatality_ratio", "generation_interval", "incidence", "next_generation",
    "percolation", "person_time", "reproduction_number", "serial_interval", "simulate", "summary",
    "transmission_tree",
]  # fmt: skip
