"""Factors on rates that change in time, for tau-leaping: closures, calendars, vaccines.

A calendar or a closure is a piecewise constant factor of a layer of contacts.  A step uses the mean
of the factor over the step, so that a change may fall within a step.  Forces of infection are
stored by infection and layer (a channel each); factors are applied when they are read.
A vaccine is a factor of a node, on all forces of infection on the node.  A step uses its value in
the middle of the step.

Isolation, quarantine and infectivity by age change whom a node infects while the node stays in a
compartment.  They are not here: tau-leaping keeps one sum for all neighbours of a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, real
from ergode.core.compiler.source import Precision
from ergode.epidemics.leap.options import HAS_VACCINES, LAYERS, MODULATED
from ergode.epidemics.leap.step import Schedule
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.shared import transmission
from ergode.epidemics.shared.compliance import compliance_bindings
from ergode.epidemics.shared.lives import born_at
from ergode.epidemics.shared.vaccines import (
    ALL_OR_NOTHING_KIND,
    LEAKY_KIND,
    left_by_vaccine,
    vaccine_bindings,
)
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import LayerClosure
from ergode.models.epidemic.vaccination import Vaccination

PARTS = 1024
"""Parts of a tick: the resolution of the times at which factors change."""


class Factors(NamedTuple):
    """Factors on transmission, by layer and by node."""

    change: Any  # times of changes, in parts of a tick; the last is never: int64 [m + 1]
    factor: Any  # from each change on, real [m, layer]
    vaccines: Any  # see `transmission.Interventions`


def factors_of(
    scenario: Scenario,
    model: CompartmentModel,
    begin: float,
    horizon: float,
    schedule: Schedule,
    precision: Precision,
) -> tuple[Factors, dict[Any, Any]]:
    """The factors of a scenario on a clock that is zero at `begin`; and the options of kernels."""
    contacts = scenario.contacts
    closures = [one for one in scenario.interventions if isinstance(one, LayerClosure)]
    vaccines = any(isinstance(one, Vaccination) for one in scenario.interventions)
    plan = transmission.interventions_of(
        scenario.interventions, model, contacts, begin, horizon, precision
    )
    # Refuses a calendar of an unknown layer.
    transmission.calendars_of(model, contacts, scenario.layer_factors, begin, precision)
    by_layer = bool(scenario.layer_factors) or any(one.layer is not None for one in closures)
    # One column for all layers if their factors are equal.
    layers: list[str | None]
    layers = list(contacts.layers) if by_layer and contacts.layers else [None]
    changes = {0.0}
    spans: list[tuple[str | None, float, float, float]] = []
    for one in closures:
        start = 0.0 if one.start is None else float(one.start) - begin  # type: ignore[arg-type]
        stop = start + one.duration_from(begin + start)
        spans.append((one.layer, start, stop, 1.0 - one.reduction))
        changes |= {start, stop}
    for calendar in scenario.layer_factors.values():
        moments = np.asarray(calendar.changes)
        if calendar.period is not None:
            first = np.floor(begin / calendar.period)
            cycles = np.arange(first, np.floor((begin + horizon) / calendar.period) + 1)
            moments = (moments + cycles[:, None] * calendar.period).ravel()
        changes |= set((moments - begin).tolist())
    times = np.array(sorted(t for t in changes if 0.0 <= t < horizon or t == 0.0))
    factor = np.ones((times.size, len(layers)))
    for column, layer in enumerate(layers):
        for name, calendar in scenario.layer_factors.items():
            if layer is None or name == layer:
                # A little later, so that rounding does not read the value before a change.
                later = begin + times + 1e-9 * horizon + 1e-15 * abs(begin)
                factor[:, column] *= calendar.at(later)
        for closed, start, stop, left in spans:
            if closed is None or closed == layer:
                factor[(times >= start) & (times < stop), column] *= left
    parts = np.rint(times / float(schedule.tick) * PARTS).astype(np.int64)
    changing = bool(scenario.layer_factors or closures)
    return (
        Factors(np.append(parts, np.iinfo(np.int64).max), factor.astype(precision), plan),
        {
            MODULATED: changing or vaccines,
            LAYERS: len(layers),
            HAS_VACCINES: vaccines,
            **vaccine_bindings(scenario.interventions),
            **compliance_bindings(scenario.interventions),
        },
    )


# ---- device functions


def next_cursor(factors, cursor, start):
    """Position of the last change not later than a tick, no earlier than `cursor`."""
    while factors.change[cursor + 1] <= start * PARTS:
        cursor += 1
    return cursor


def mean_factor(factors, cursor, layer, start, ticks):
    """Mean of a layer's factor over a step; `cursor` is of its first tick."""
    begin = np.int64(start) * PARTS
    end = begin + np.int64(ticks) * PARTS
    if factors.change[cursor + 1] >= end:
        return factors.factor[cursor, layer]
    total = real(0.0)
    while begin < end:
        stop = min(np.int64(factors.change[cursor + 1]), end)
        total = fma(real(stop - begin), factors.factor[cursor, layer], total)
        begin = stop
        cursor += 1
    return total / real(np.int64(ticks) * PARTS)


def susceptibility(vaccines, node, time, seed, replicate):
    """The factor of vaccines on the force of infection on a node."""
    left = real(1.0)
    if HAS_VACCINES:
        for row in range(vaccines.kind.size):
            kind = vaccines.kind[row]
            if (kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND) and time >= vaccines.start[row]:
                left *= left_by_vaccine(
                    vaccines, row, vaccines.start[row], born_at(vaccines, vaccines.start, node),
                    time, node, seed, replicate,
                )  # fmt: skip
    return left
