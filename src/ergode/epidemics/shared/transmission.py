"""Whether an effective contact transmits.

This module makes the tables of a model, its calendars and its interventions, and has the device
functions that read them.  They return ratios of the current to the largest rate, with which the
mark of a contact is compared (`shared.contacts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.elementary import exp
from ergode.core.math.random import BRANCHING, INTERVENTION, draw_words, uniform
from ergode.epidemics.shared.clock import later
from ergode.epidemics.shared.names import attribute, compartment_index, layer_index
from ergode.epidemics.shared.options import (
    HAS_CALENDARS,
    HAS_INTERVENTIONS,
    HAS_SEVERITY,
    HAS_TRIGGERS,
    HAS_WANING,
)
from ergode.epidemics.shared.progression import next_compartment_of_stay, row_of
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, numbers_of, point_of, rates_of
from ergode.epidemics.shared.triggers import triggers_of
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import (
    ContactTracing,
    Intervention,
    Isolation,
    LayerClosure,
    Testing,
    Trigger,
    Vaccination,
)
from ergode.models.networks.contact_network import ContactNetwork

CLOSURE_KIND, LEAKY_KIND, ALL_OR_NOTHING_KIND, _ISOLATION, TRACING_KIND = range(5)


class Infections(NamedTuple):
    """Infections, one row each; real arrays may have a leading axis of points."""

    susceptible: Any  # int32 [infection_count]
    infected: Any  # int32 [infection_count]
    rate: Any  # by the source's compartment, real [infection_count, compartment_count]
    at_risk: Any  # whether an infection leads out of a compartment, uint8 [compartment_count]
    infectious: Any  # whether a compartment is infectious, uint8 [compartment_count]
    peak: Any  # the largest rate from one compartment into another, a real number
    profile: Any  # calendar of the time since entering a compartment, or -1 [compartment_count]


class Calendars(NamedTuple):
    """Piecewise constant factors."""

    first: Any  # a calendar's changes are first[i] : first[i + 1], int32 [calendar_count + 1]
    change: Any  # real [change_count]
    factor: Any
    period: Any  # real [calendar_count]; 0 where it does not repeat
    phase: Any  # position in the period at the beginning of the simulation
    layer: Any  # calendar of each layer, or -1: int32 [layer_count]
    peak: Any  # the largest factor of each layer, real [layer_count]


class Interventions(NamedTuple):
    """Interventions, one row each."""

    kind: Any  # int32 [intervention_count]
    start: Any  # starts and then stops, real [2 x intervention_count]; infinite until one is known
    duration: Any
    fraction: Any
    reduction: Any
    source_reduction: Any
    delay: Any
    rollout: Any
    layer: Any  # int32; -1 for all
    compartment: Any  # int32; -1 for none
    group: Any  # row of `members`, int32; -1 for all nodes
    members: Any  # uint8 [group_count, node_count]
    positive: Any  # probability of a detection, real [intervention_count, compartment_count]
    rate: Any  # of tests of each node, real [intervention_count]; 0 for tests at entry
    # Probability of tracing, time to the quarantine of contacts, its duration, lookback, and time
    # to the quarantine of the node itself, real [intervention_count, 5].
    traced: Any
    triggers: Any  # see `shared.triggers`
    severity: Any  # reductions of branches, real [intervention_count, compartment_count]
    waning_rate: Any  # of exponential decay, real [intervention_count]; 0 for none
    # A row of a table of waning is waning_first[i] : waning_first[i + 1], int32.
    waning_first: Any
    waning_change: Any  # times since protection, real [change_count]
    waning_factor: Any


@np.errstate(over="ignore")  # `check_stages` reports what is too large
def infections_of(
    model: CompartmentModel, precision: Precision, group: PointGroup | None = None
) -> Infections:
    """The infections of a model, or of all models of a group; profiles are the first calendars."""
    models, count = [model] if group is None else group.models, len(model.compartments)
    rate = np.zeros((len(models), len(model.infections), count), precision)
    profile = np.full(count, -1, np.int32)
    given = iter(numbers_of(models, rates_of).T)
    for k, infection in enumerate(model.infections):
        for name in infection.transmission_rate:
            rate[:, k, model.index[name]] = next(given)
    for number, name in enumerate(model.profiles):
        profile[model.index[name]] = number
    susceptible = np.array([model.index[i.susceptible] for i in model.infections], np.int32)
    into: dict[int, np.ndarray] = {}
    for k, compartment in enumerate(susceptible.tolist()):
        into[compartment] = into.get(compartment, 0) + rate[:, k].astype(float)
    highest = max([1.0, *(max(calendar.factors) for calendar in model.profiles.values())])
    peak = np.max([total.max(axis=1) for total in into.values()], axis=0) * highest
    found = Infections(
        susceptible,
        np.array([model.index[i.infected] for i in model.infections], np.int32),
        rate,
        np.bincount(susceptible, minlength=count).astype(bool).astype(np.uint8),
        (rate[0] > 0).any(axis=0).astype(np.uint8),
        peak.astype(precision),
        profile,
    )
    return found._replace(rate=rate[0], peak=found.peak[0]) if group is None else found


def infections_of_row(infections, rows, row):
    """The infections of the point of a row."""
    if SWEPT:
        point = point_of(rows, row)
        return Infections(
            infections.susceptible, infections.infected, infections.rate[point],
            infections.at_risk, infections.infectious, infections.peak[point], infections.profile,
        )  # fmt: skip
    return infections


def calendars_of(
    model: CompartmentModel,
    contacts: ContactNetwork,
    layer_factors: Mapping[str, Calendar],
    begin: float,
    precision: Precision,
) -> Calendars:
    """Calendars of profiles and layers, on a clock that is zero at `begin`.

    Raises
    ------
    ModelError
        A factor is not a `Calendar`, or its layer is not in the network.
    """
    layer_count = max(1, len(contacts.layers))
    layer = np.full(layer_count, -1, np.int32)
    peak = np.ones(layer_count)
    calendars = [(calendar, 0.0) for calendar in model.profiles.values()]
    for name, calendar in layer_factors.items():
        if not isinstance(calendar, Calendar):
            raise ModelError(f"the factor of layer '{name}' is {calendar!r}; expected a Calendar")
        index = layer_index(contacts, name, "layer_factors")
        layer[index] = len(calendars)
        peak[index] = max(calendar.factors)
        calendars.append((calendar, begin))
    first, change, factor, period, phase = [0], [0.0], [1.0], [0.0], [0.0]
    if calendars:
        change, factor, period, phase = [], [], [], []
    for calendar, origin in calendars:
        repeats = calendar.period is not None
        change += [c - (0.0 if repeats else origin) for c in calendar.changes]
        factor += calendar.factors
        period.append(calendar.period or 0.0)
        phase.append(origin % calendar.period if calendar.period else 0.0)
        first.append(len(change))
    return Calendars(
        np.array(first, np.int32), np.array(change, precision), np.array(factor, precision),
        np.array(period, precision), np.array(phase, precision), layer, peak.astype(precision),
    )  # fmt: skip


def interventions_of(
    interventions: Sequence[Intervention],
    model: CompartmentModel,
    contacts: ContactNetwork,
    begin: float,
    precision: Precision,
) -> Interventions:
    """The table of a plan, on a clock that is zero at `begin`.

    Raises
    ------
    ModelError
        An item is not an intervention, or a name is unknown to the model or the network.
    """
    count = max(1, len(interventions))
    columns: dict[str, np.ndarray] = {
        name: np.zeros(count, precision)
        for name in ("start", "duration", "fraction", "reduction", "source_reduction", "delay",
                     "rollout")
    }  # fmt: skip
    columns["start"] = np.full(2 * count, np.inf, precision)
    kind = np.zeros(count, np.int32)
    layer, compartment, group = (np.full(count, -1, np.int32) for _ in range(3))
    traced = np.zeros((count, 5), precision)
    positive = np.zeros((count, len(model.compartments)), precision)
    rate = np.zeros(count, precision)
    severity = np.zeros((count, len(model.compartments)), precision)
    waning_rate, waning_first = np.zeros(count, precision), np.zeros(count + 1, np.int32)
    change: list[float] = []
    factor: list[float] = []
    reduced = {
        name
        for one in interventions
        if isinstance(one, Vaccination)
        for name, value in one.severity.items()
        if value > 0
    }
    members: list[np.ndarray] = []
    for row, one in enumerate(interventions):
        where = f"interventions[{row}]"
        for name in ("duration", "fraction", "reduction", "delay", "rollout"):
            columns[name][row] = getattr(one, name, 0.0)
        if not isinstance(one.start, Trigger):
            start = begin if one.start is None else float(one.start)
            columns["start"][row] = start - begin
            columns["duration"][row] = one.duration_from(start)
        elif one.stop is not None and not isinstance(one.stop, Trigger):
            columns["start"][count + row] = one.stop - begin
        among = getattr(one, "among", None)
        if among is not None:
            group[row] = len(members)
            members.append((attribute(contacts, among, where) != 0).astype(np.uint8))
        if isinstance(one, LayerClosure):
            kind[row] = CLOSURE_KIND
            if one.layer is not None:
                layer[row] = layer_index(contacts, one.layer, where)
        elif isinstance(one, Vaccination):
            for name, value in one.severity.items():
                _check_severity(model, name, reduced, where)
                severity[row, model.index[name]] = value
            if isinstance(one.waning, Calendar):
                change += one.waning.changes
                factor += one.waning.factors
            elif one.waning is not None:
                waning_rate[row] = 1.0 / one.waning.mean
            kind[row] = LEAKY_KIND if one.leaky else ALL_OR_NOTHING_KIND
            columns["reduction"][row] = one.efficacy
            columns["source_reduction"][row] = one.infectivity_reduction
        elif isinstance(one, Isolation | ContactTracing):
            compartment[row] = compartment_index(model, one.compartment, where)
            kind[row] = _ISOLATION
            if isinstance(one, Isolation) and one.compartment not in model.infectious:
                raise ModelError(
                    f"{where} isolates nodes in '{one.compartment}', which is not infectious; "
                    "infectious compartments: " + (", ".join(model.infectious) or "none")
                )
        if isinstance(one, ContactTracing):
            kind[row] = TRACING_KIND
            positive[row, compartment[row]] = one.detection
            columns["delay"][row] = one.detection_delay
            traced[row] = one.tracing, one.tracing_delay, one.quarantine, one.lookback, 0.0
        elif isinstance(one, Testing):
            kind[row] = TRACING_KIND
            columns["delay"][row] = 0.0
            traced[row] = 0.0, 0.0, one.isolation, 0.0, one.delay
            rate[row] = one.rate or 0.0
            for name, value in one.sensitivity.items():
                positive[row, _testable(model, name, where)] = one.fraction * value
        waning_first[row + 1 :] = len(change)
    return Interventions(
        kind, **columns, layer=layer, compartment=compartment, group=group,
        members=np.array(members or [np.zeros(1)], np.uint8), positive=positive,
        rate=rate, traced=traced,
        triggers=triggers_of(interventions, model, precision), severity=severity,
        waning_rate=waning_rate, waning_first=waning_first,
        waning_change=np.array(change or [0.0], precision),
        waning_factor=np.array(factor or [1.0], precision),
    )  # fmt: skip


def vaccine_bindings(interventions: Sequence[Intervention]) -> dict[Any, bool]:
    """Options of kernels for what vaccinations do beside preventing infections."""
    given = [one for one in interventions if isinstance(one, Vaccination)]
    found = {}
    if any(any(one.severity.values()) for one in given):
        found[HAS_SEVERITY] = True
    if any(one.waning is not None for one in given):
        found[HAS_WANING] = True
    return found


def _testable(model: CompartmentModel, name: str, where: str) -> int:
    """Position of a compartment in which tests may be positive."""
    index = compartment_index(model, name, where)
    if any(name == infection.susceptible for infection in model.infections):
        raise ModelError(
            f"{where} has a sensitivity of '{name}', from which an infection leads; tests find "
            "nodes in other compartments only"
        )
    return index


def _check_severity(model: CompartmentModel, name: str, reduced: set[str], where: str) -> None:
    """Refuse a reduction of what is no branch, or of branches without others beside them."""
    compartment_index(model, name, where)
    found = False
    for progression in model.progressions:
        for split in progression.splits:
            if split.get(name, 0.0) == 0.0 or len(split) == 1:  # one target is no branching
                continue
            found = True
            if not any(share > 0 for other, share in split.items() if other not in reduced):
                raise ModelError(
                    f"{where} reduces the branch {progression.compartment} -> {name}, which has no "
                    "other branch beside it"
                )
    if not found:
        raise ModelError(f"{where} reduces the severity '{name}', which is no branch of the model")


# ---- device functions


def calendar_factor(calendars, calendar, time):
    """Value of a calendar at a time since the beginning."""
    period = calendars.period[calendar]
    if period > 0.0:
        time = time + calendars.phase[calendar]
        time = fma(-real(np.int64(time / period)), period, time)
    low = calendars.first[calendar] + 1
    high = calendars.first[calendar + 1]
    while low < high:
        middle = (low + high) >> 1
        if calendars.change[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return calendars.factor[low - 1]


def is_in_force(interventions, starts, row, time):
    """Whether a measure is in force at a time.

    `starts` [2 x intervention_count] are the starts of measures, and then their stops, as known at
    that time.
    """
    age = time - starts[row]
    given = age >= 0.0 and age < interventions.duration[row]
    if HAS_TRIGGERS:
        given = given and time < starts[row + interventions.kind.size]
    return given


def detects(interventions, starts, row, moment):
    """Whether a measure detects cases at a moment."""
    return moment >= starts[row] and is_in_force(interventions, starts, row, later(moment))


def _draws(row, node, stay, seed, replicate):
    return draw_words(
        seed, replicate, node, INTERVENTION, np.uint32(row) | np.uint32(np.uint32(stay) << 8)
    )


def protected_since(interventions, row, start, node, seed, replicate):
    """Time from which a vaccination protects a node; infinite if it does not."""
    group = interventions.group[row]
    if group >= 0 and interventions.members[group, node] == 0:
        return real(_NEVER)
    w0, w1, w2, w3 = _draws(row, node, 0, seed, replicate)
    chosen = uniform(w0, w1) <= interventions.fraction[row]
    if interventions.kind[row] == ALL_OR_NOTHING_KIND:
        v0, v1, v2, v3 = _draws(row, node, 1, seed, replicate)
        chosen = chosen and uniform(v0, v1) <= interventions.reduction[row]
    if not chosen:
        return real(_NEVER)
    return fma(interventions.rollout[row], uniform(w2, w3), start) + interventions.delay[row]


def protection(interventions, row, start, time, node, seed, replicate):
    """How well a vaccination protects a node: 1 at first, less when it has waned, 0 if not."""
    since = protected_since(interventions, row, start, node, seed, replicate)
    if since <= time and time < since + interventions.duration[row]:
        if HAS_WANING:
            return _unwaned(interventions, row, time - since)
        return real(1.0)
    return real(0.0)


def _unwaned(interventions, row, age):
    """Fraction of the effects that is left of a vaccination at a time since protection began."""
    if interventions.waning_rate[row] > 0.0:
        return exp(-interventions.waning_rate[row] * age)
    first = interventions.waning_first[row]
    high = interventions.waning_first[row + 1]
    if first == high:
        return real(1.0)
    low = first + 1
    while low < high:
        middle = (low + high) >> 1
        if interventions.waning_change[middle] <= age:
            low = middle + 1
        else:
            high = middle
    return interventions.waning_factor[low - 1]


def left_by_vaccine(interventions, row, start, time, node, seed, replicate):
    """Fraction of the infection rate of a node that remains after a vaccination."""
    safe = protection(interventions, row, start, time, node, seed, replicate)
    if interventions.kind[row] == LEAKY_KIND:
        return fma(-interventions.reduction[row], safe, real(1.0))
    return 1.0 - safe


def destination_of_stay(tables, starts, compartment, index, time, seed, replicate, node):
    """Next compartment of a node after a stay with this index, which ends at `time`.

    A vaccination may avert the branch that was drawn.
    """
    stages = tables.stages
    into = np.int64(next_compartment_of_stay(stages, compartment, index, seed, replicate, node))
    if HAS_SEVERITY:
        plan = tables.interventions
        left = real(1.0)
        for row in range(plan.kind.size):
            if plan.severity[row, into] > 0.0:
                safe = protection(plan, row, starts[row], later(time), node, seed, replicate)
                left *= fma(-plan.severity[row, into], safe, real(1.0))
        if left < 1.0:
            w0, w1, w2, w3 = draw_words(seed, replicate, node, BRANCHING, index)
            u = uniform(w2, w3)
            if u > left:
                into = _other_branch(
                    stages, plan, row_of(stages, compartment, node), (u - left) / (1.0 - left), into
                )
    return into


def _other_branch(stages, plan, row, part, into):
    """A branch whose severity no vaccination reduces; `part` is uniform on (0, 1]."""
    total = real(0.0)
    before = real(0.0)
    for branch in range(stages.branch_start[row], stages.branch_start[row + 1]):
        if not _is_reduced(plan, stages.branch_to[branch]):
            total += stages.branch_cdf[branch] - before
        before = stages.branch_cdf[branch]
    reached = real(0.0)
    before = real(0.0)
    found = False
    for branch in range(stages.branch_start[row], stages.branch_start[row + 1]):
        if not _is_reduced(plan, stages.branch_to[branch]):
            # The last one of them is taken if rounding leaves the sum below the part.
            if not found:
                into = np.int64(stages.branch_to[branch])
            reached += stages.branch_cdf[branch] - before
            found = found or fma(part, total, real(0.0)) <= reached
        before = stages.branch_cdf[branch]
    return into


def _is_reduced(plan, compartment):
    """Whether a vaccination reduces the severity of a compartment."""
    reduced = False
    for row in range(plan.kind.size):
        reduced = reduced or plan.severity[row, compartment] > 0.0
    return reduced


def guarded(interventions, starts, time, node, seed, replicate):
    """Fraction of the infection rate from outside that remains after vaccinations."""
    left = real(1.0)
    time = later(time)
    for row in range(interventions.kind.size):
        kind = interventions.kind[row]
        if (kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND) and time >= starts[row]:
            left *= left_by_vaccine(interventions, row, starts[row], time, node, seed, replicate)
    return left


class Source(NamedTuple):
    """The source of a possible infection."""

    node: Any
    compartment: Any
    since: Any  # when it entered the compartment
    stay: Any  # number of that stay


def remaining(interventions, starts, time, layer, source, target, seed, replicate):
    """Fraction of the rate along an arc that remains under interventions, except quarantine.

    For `starts` see `is_in_force`.
    """
    left = real(1.0)
    for row in range(interventions.kind.size):
        if not time >= starts[row]:
            continue
        kind = interventions.kind[row]
        if kind == CLOSURE_KIND:
            if is_in_force(interventions, starts, row, time) and (
                interventions.layer[row] < 0 or interventions.layer[row] == layer
            ):
                left *= 1.0 - interventions.reduction[row]
        elif kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND:
            left *= left_by_vaccine(interventions, row, starts[row], time, target, seed, replicate)
            if interventions.source_reduction[row] > 0.0:
                safe = protection(
                    interventions, row, starts[row], time, source.node, seed, replicate
                )
                left *= fma(-interventions.source_reduction[row], safe, real(1.0))
        elif kind == _ISOLATION:
            group = interventions.group[row]
            if (
                is_in_force(interventions, starts, row, time)
                and source.compartment == interventions.compartment[row]
                and time >= source.since + interventions.delay[row]
                and (group < 0 or interventions.members[group, source.node] != 0)
            ):
                w0, w1, w2, w3 = _draws(row, source.node, source.stay, seed, replicate)
                if uniform(w0, w1) <= interventions.fraction[row]:
                    left *= 1.0 - interventions.reduction[row]
    return left


_NEVER = float("inf")


def outcome(
    tables, starts, mark, left, time, layer, source, target, target_compartment, seed, replicate
):
    """Compartment to which a contact with this mark moves the target, or -1.

    `source` is a `Source`.  `left` is the fraction of the rate that remains under other measures.
    """
    infections, calendars = tables.infections, tables.calendars
    time = later(time)
    if HAS_CALENDARS:
        calendar = calendars.layer[layer]
        if calendar >= 0:
            left *= calendar_factor(calendars, calendar, time) / calendars.peak[layer]
        profile = infections.profile[source.compartment]
        if profile >= 0:
            left *= calendar_factor(calendars, profile, time - source.since)
    if HAS_INTERVENTIONS:
        left *= remaining(
            tables.interventions, starts, time, layer, source, target, seed, replicate
        )
    reached = real(0.0)
    for k in range(infections.susceptible.size):
        if infections.susceptible[k] == target_compartment:
            reached = fma(infections.rate[k, source.compartment], left, reached)
            if mark * infections.peak <= reached:
                return infections.infected[k]
    return np.int32(-1)
