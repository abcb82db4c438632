"""Contagion on contact networks, exactly."""

from ergode.epidemics.line_list import (
    case_table,
    generation_interval,
    reproduction_number,
    serial_interval,
    transmission_tree,
)
from ergode.epidemics.simulate import simulate
from ergode.epidemics.summary import incidence, summary

__all__ = [
    "case_table", "generation_interval", "incidence", "reproduction_number", "serial_interval",
    "simulate", "summary", "transmission_tree",
]  # fmt: skip
