"""What changes rates in time, for tau-leaping: closures, calendars, vaccines.

What holds for a layer of contacts - a calendar, a closure - is one factor a layer, constant from
one change to the next; a step takes its mean over the step, so that changes need not fall between
steps.  Pressures are kept by infection and layer, a channel each, and weighed when they are read.
What holds for a node - a vaccine - weighs all that presses on it, as it is in the middle of the
step.

What would change whom a node infects while it stays in a compartment - isolation, quarantine,
infectivity by age - is not here: a leap keeps one sum for all neighbours of a node, and would have
to take those out of it who changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.bundle import Precision
from ergode.core.compiler.language import fma, real
from ergode.epidemics.leap.step import Schedule
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.shared import transmission
from ergode.epidemics.shared.transmission import ALL_OR_NOTHING_KIND, LEAKY_KIND, protected_since
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import LayerClosure, Vaccination

PARTS = 1024
"""Of a tick: how finely it is known when a factor changes."""

LAYERS = 1  # of contacts with a factor of their own; rebound
HAS_VACCINES = True


class Factors(NamedTuple):
    """Factors on transmission, by layer and by node."""

    change: Any  # when factors change, in parts of a tick, and last when never: int64 [m + 1]
    factor: Any  # from then on, real [m, layer]
    vaccines: Any  # see `transmission.Interventions`


def factors_of(
    scenario: Scenario,
    model: CompartmentModel,
    begin: float,
    horizon: float,
    schedule: Schedule,
    precision: Precision,
) -> tuple[Factors, dict[str, Any]]:
    """The factors of a scenario on a clock that is zero at `begin`; and what kernels are for."""
    contacts = scenario.contacts
    closures = [one for one in scenario.interventions if isinstance(one, LayerClosure)]
    vaccines = any(isinstance(one, Vaccination) for one in scenario.interventions)
    plan = transmission.interventions_of(scenario.interventions, model, contacts, begin, precision)
    # Refuses what names a layer that is not there.
    transmission.calendars_of(model, contacts, scenario.layer_factors, begin, precision)
    by_layer = bool(scenario.layer_factors) or any(one.layer is not None for one in closures)
    # One column for all of them where nothing tells them apart.
    layers: list[str | None]
    layers = list(contacts.layers) if by_layer and contacts.layers else [None]
    changes = {0.0}
    spans: list[tuple[str | None, float, float, float]] = []
    for one in closures:
        start = 0.0 if one.start is None else float(one.start) - begin  # type: ignore[arg-type]
        spans.append((one.layer, start, start + one.duration, 1.0 - one.reduction))
        changes |= {start, start + one.duration}
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
            if name == layer:
                # A little later, so that rounding does not look at what was before a change.
                factor[:, column] *= calendar.at(begin + times + 1e-9 * (1.0 + horizon))
        for closed, start, stop, left in spans:
            if closed is None or closed == layer:
                factor[(times >= start) & (times < stop), column] *= left
    parts = np.rint(times / float(schedule.tick) * PARTS).astype(np.int64)
    changing = bool(scenario.layer_factors or closures)
    return (
        Factors(np.append(parts, np.iinfo(np.int64).max), factor.astype(precision), plan),
        {"MODULATED": changing or vaccines, "LAYERS": len(layers), "HAS_VACCINES": vaccines},
    )


# ---- what kernels ask


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
    """What vaccines leave of the pressure on a node."""
    left = real(1.0)
    if HAS_VACCINES:
        for row in range(vaccines.kind.size):
            kind = vaccines.kind[row]
            if (kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND) and time >= vaccines.start[row]:
                since = protected_since(vaccines, row, vaccines.start[row], node, seed, replicate)
                if since <= time and time < since + vaccines.duration[row]:
                    left *= 1.0 - vaccines.reduction[row] if kind == LEAKY_KIND else real(0.0)
    return left
