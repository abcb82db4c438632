"""Tables and options of tau-leaping, from a model, a network and a grid of times."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ergode.core import devices, kernels
from ergode.core.compiler.source import Precision
from ergode.core.devices.buffers import put_table
from ergode.core.errors import PlanError
from ergode.core.kernels import Kernel
from ergode.epidemics.leap import options
from ergode.epidemics.leap.step import (
    TICKS_MOST,
    Rules,
    Schedule,
    TransitionProbabilities,
    leaving_row,
)
from ergode.epidemics.shared import progression
from ergode.epidemics.shared.options import WEIGHTED
from ergode.epidemics.shared.progression import Stages
from ergode.epidemics.shared.tables import largest_sum
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.holding_times import kernels as holding_times
from ergode.models.holding_times.families import Exponential

TRANSITIONS = ("conditional", "left-end", "sampled")
STEP = 0.02
"""Default step in shortest time scales of the model; its error is well under a percent."""
GATHER_STEP = 0.1
"""In shortest time scales: shorter steps change too few nodes for gathering to pay."""
_TABLE_MOST = 2**22  # ages
_PRESSURE_MOST = 2.0**30


def is_memoryless(model: CompartmentModel) -> bool:
    """Whether every holding time is exponential."""
    return all(isinstance(o, Exponential) for p in model.progressions for o in p.holding_times)


def time_scale(model: CompartmentModel) -> float:
    """The shortest mean holding time or time between transmissions along an arc."""
    scales = [p.shortest_mean for p in model.progressions]
    scales += [
        1.0 / rate for i in model.infections for rate in i.transmission_rate.values() if rate
    ]
    return min(scales, default=1.0)


def schedule_of(
    times: np.ndarray, step: float, tolerance: float | None, precision: Precision
) -> tuple[Schedule, bool]:
    """Steps of at most `step` that end at every grid time; also whether all are equal."""
    real = np.dtype(precision).type
    gaps = np.diff(times)
    if not gaps.size:
        return Schedule(real(1), real(1), np.zeros(1, np.int64), 1, real(0), 0), True
    counts = np.maximum(1, np.ceil(gaps / step * (1 - 1e-9)))
    lengths = gaps / counts
    if counts.sum() >= TICKS_MOST:
        raise PlanError(
            f"steps of {step:g} from {times[0]:g} to {times[-1]:g} are more than 2^30; use longer "
            "steps"
        )
    if tolerance is None and np.ptp(lengths) <= 1e-9 * lengths[0]:
        tick = float(lengths[0])
        grid = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
        return Schedule(real(tick), real(1 / tick), grid, 1, real(0), 0), True
    tick = float(times[-1] - times[0]) / TICKS_MOST
    grid = np.rint((times - times[0]) / tick).astype(np.int64)
    close = np.flatnonzero(np.diff(grid) < 1)
    if close.size:
        raise PlanError(
            f"times[{close[0]}] and times[{close[0] + 1}] are closer than 2^-30 of the whole grid, "
            "too close for adaptive steps"
        )
    ticks = max(1, int(step / tick))
    return Schedule(real(tick), real(1 / tick), grid, ticks, real(tolerance or 0.0), 0), False


def rules_of(
    model: CompartmentModel,
    contacts: Network,
    weights: np.ndarray | None,
    precision: Precision,
    stratum: np.ndarray | None = None,
    stratum_count: int = 1,
) -> tuple[Rules, float]:
    """Rates as integer multiples of a unit of the force of infection, and their rounding error.

    If all arcs have equal rates, the unit is this rate, and nothing is rounded.  Otherwise the
    largest possible force of infection is about 2^30 units.
    """
    real = np.dtype(precision).type
    index = model.index
    sources: dict[tuple[int, float], int] = {}
    per_arc = np.zeros(len(model.compartments))
    for number, infection in enumerate(model.infections):
        for name, rate in infection.transmission_rate.items():
            if rate > 0.0:
                key = (number, rate)
                sources[key] = sources.get(key, 0) | 1 << index[name]
                per_arc[index[name]] += rate
    rates = np.array([rate for _, rate in sources])
    if weights is None and np.unique(rates).size <= 1:
        unit, smallest, exact = float(rates[0]) if rates.size else 1.0, 1.0, True
    else:
        largest = largest_sum(contacts, weights) * float(per_arc.max())
        unit = (largest or 1.0) / _PRESSURE_MOST  # `largest` is zero without transmission
        present = weights[weights > 0] if weights is not None else np.ones(1)
        least = float(present.min()) if present.size else 1.0
        smallest, exact = (float(rates.min()) * least / unit if rates.size else 1.0), False
    units = rates / unit if weights is not None else np.rint(rates / unit)

    def mask(names: set[str]) -> int:
        return sum(1 << index[name] for name in names)

    susceptible = {infection.susceptible for infection in model.infections}
    keeping = set(susceptible)
    while True:  # compartments from which a susceptible one is reached
        more = {p.compartment for p in model.progressions if keeping & set(p.branches)}
        more |= {i.susceptible for i in model.infections if i.infected in keeping}
        if more <= keeping:
            break
        keeping |= more
    ending_rate = np.zeros(len(model.compartments))
    for progression_ in model.progressions:
        ending_rate[index[progression_.compartment]] = 1.0 / progression_.shortest_mean
    rules = Rules(
        np.array(list(sources.values()) or [0], np.int64),
        np.array([number for number, _ in sources] or [0], np.int64),
        np.array(units if rates.size else [0.0], precision),
        np.array([index[i.susceptible] for i in model.infections], np.int64),
        np.array([index[i.infected] for i in model.infections], np.int64),
        ending_rate.astype(precision),
        real(unit),
        np.zeros(1, np.int32) if stratum is None else stratum,
        stratum_count,
        len(model.compartments),
        mask(susceptible),
        mask({p.compartment for p in model.progressions}),
        mask(keeping),
    )
    return rules, 0.0 if exact else 0.5 / smallest


def transition_probabilities(
    model: CompartmentModel,
    stages: Stages,
    rules: Rules,
    rounding: float,
    transition: str,
    schedule: Schedule,
    ages: int,
    most: int,
    classes: progression.Classes = progression.ALL_ALIKE,
) -> TransitionProbabilities:
    """Tables for equal steps of one tick: of leaving by age, of infection by count of neighbours.

    `most` is the largest number of arcs into a node. A table that no kernel reads is empty.
    """
    precision = stages.a.dtype.name
    leaving = np.zeros((stages.kind.size, max(ages, 1)), np.float64)
    if ages and transition != "sampled":
        fine = progression.stages_of(model, "float64", classes)
        host = devices.resolve("cpu:1")
        kinds = frozenset(o.code().kind for p in model.progressions for o in p.holding_times)
        for row in np.flatnonzero(stages.kind >= 0):
            host.run(
                _table_kernel(kinds, transition == "left-end"),
                ages, put_table(host, fine), int(row), float(schedule.tick), leaving,
                is_brief=True,
            )  # fmt: skip
    infected = np.zeros(1)
    if ages and rounding == 0.0:
        infected = -np.expm1(-np.arange(most + 1) * float(rules.unit) * float(schedule.tick))
    return TransitionProbabilities(leaving.astype(precision).ravel(), infected.astype(precision))


@cache
def _table_kernel(kinds: frozenset[int], left_end: bool) -> Kernel:
    bindings = holding_times.flags(kinds) | {options.LEFT_END: left_end}
    return kernels.for_each(leaving_row, bindings=bindings)


def check_left_end(model: CompartmentModel) -> None:
    """Refuse holding times with an infinite hazard at age zero: they would end in one step."""
    for each in model.progressions:
        if not all(math.isfinite(float(one.hazard(0.0))) for one in each.holding_times):
            raise PlanError(
                f"the hazard of '{each.compartment}' is infinite at age zero, so that "
                "transition='left-end' would end every stay in its first step; use 'conditional'"
            )


def table_length(
    model: CompartmentModel, transition: str, schedule: Schedule, oldest: int = 0, classes: int = 1
) -> int:
    """Ages in the table of probabilities, or 0 if there are too many for a table.

    `oldest` is the largest age at the beginning [ticks].
    """
    if is_memoryless(model) or transition == "sampled":
        return 1
    ages = int(schedule.grid_tick[-1]) + oldest + 1
    return ages if ages * classes <= _TABLE_MOST else 0


def bindings_of(
    model: CompartmentModel,
    transition: str,
    rules: Rules,
    *,
    weighted: bool,
    tabulated: bool,
    adaptive: bool,
    counted: bool,
    modulated: bool = False,
) -> dict[Any, Any]:
    """Options of a kernel for this plan; a kernel contains no code that the plan does not need."""
    sampled = transition == "sampled"
    counted = counted and tabulated and not modulated
    asks = sampled or not tabulated  # the table already includes the holding times
    return {
        **(progression.bindings_of(model) if asks else holding_times.flags([])),
        **progression.class_bindings(model),
        WEIGHTED: weighted,
        options.TABULATED: tabulated,
        options.COUNTED: counted,
        options.THRESHOLDS: takes_thresholds(rules, sampled and counted),
        options.SAMPLED: sampled,
        options.LEFT_END: transition == "left-end" and not tabulated,
        options.ADAPTIVE: adaptive,
        options.AGED: sampled or not is_memoryless(model),
    }


def structure_of(rules: Rules, layer_count: int) -> dict[Any, Any]:
    """The structure of the rules, as options that specialise a kernel to one model."""
    channels = [
        (int(compartment), layer)
        for compartment in rules.susceptible
        for layer in range(layer_count)
    ]
    return {
        options.CHANNELS: len(channels),
        options.CHANNEL_SUSCEPTIBLE: tuple(compartment for compartment, _ in channels),
        options.CHANNEL_LAYER: tuple(layer for _, layer in channels),
        options.SOURCE_MASK: tuple(int(mask) for mask in rules.mask),
        options.SOURCE_INFECTION: tuple(int(infection) for infection in rules.infection),
        options.SUSCEPTIBLE: tuple(int(compartment) for compartment in rules.susceptible),
        options.INFECTED: tuple(int(compartment) for compartment in rules.infected),
        options.SUSCEPTIBLE_MASK: rules.susceptible_mask,
        options.LEAVING_MASK: rules.leaving_mask,
        options.KEEPING_MASK: rules.keeping_mask,
    }


def takes_thresholds(rules: Rules, sampled: bool) -> bool:
    """Whether thresholds for infection are drawn at entry, as holding times are."""
    # A node keeps one tick: of leaving, or of the last update of its threshold.
    alone = not rules.susceptible_mask & rules.leaving_mask
    return sampled and rules.susceptible.size == 1 and alone
