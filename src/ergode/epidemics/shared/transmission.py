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
from ergode.core.math.random import uniform
from ergode.core.math.search import first_above
from ergode.epidemics.shared.clock import later
from ergode.epidemics.shared.compliance import groups_of, takes_part
from ergode.epidemics.shared.lines import is_limited, lines_of, spent_from
from ergode.epidemics.shared.lives import born_at
from ergode.epidemics.shared.names import compartment_index, layer_index
from ergode.epidemics.shared.options import (
    HAS_CALENDARS,
    HAS_CAPACITIES,
    HAS_INTERVENTIONS,
    HAS_LINES,
    HAS_QUEUES,
    HAS_TRIGGERS,
    OWN_FACTORS,
)
from ergode.epidemics.shared.sweep import SWEPT, PointGroup, numbers_of, point_of, rates_of
from ergode.epidemics.shared.tallies import tallies_of
from ergode.epidemics.shared.triggers import triggers_of
from ergode.epidemics.shared.vaccines import (
    ALL_OR_NOTHING_KIND,
    LEAKY_KIND,
    draws,
    left_by_vaccine,
    reduced_infectivity,
    unaverted,
    vaccines_of,
)
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import (
    Capacity,
    ContactTracing,
    Intervention,
    Isolation,
    LayerClosure,
    Trigger,
)
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination

CLOSURE_KIND, ISOLATION_KIND, TRACING_KIND, CAPACITY_KIND = 0, 3, 4, 5  # 1, 2: vaccines
# Columns of `Interventions.traced`.
(
    TRACE, CONTACT_DELAY, OWN_DELAY, CONTACT_TIME, OWN_TIME, LOOKBACK, RETEST_AFTER, RETEST_EVERY,
    FINDS,
) = range(9)  # fmt: skip


class Infections(NamedTuple):
    """Infections, one row each; real arrays may have a leading axis of points."""

    susceptible: Any  # int32 [infection_count]
    infected: Any  # int32 [infection_count]
    rate: Any  # by the source's compartment, real [infection_count, compartment_count]
    at_risk: Any  # whether an infection leads out of a compartment, uint8 [compartment_count]
    safe: Any  # whether no infection is possible from a compartment on, uint8 [compartment_count]
    infectious: Any  # whether a compartment is infectious, uint8 [compartment_count]
    peak: Any  # the largest rate from one compartment into another, a real number
    profile: Any  # calendar of the time since entering a compartment, or -1 [compartment_count]
    # Factors of a target and of a source that differ by infection, real [infection_count, node].
    susceptibility: Any
    infectivity: Any


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
    # Starts, then stops, and then when no test is left: real [3 x intervention_count]; infinite
    # until it is known.
    start: Any
    duration: Any
    fraction: Any
    reduction: Any
    delay: Any
    rollout: Any
    layer: Any  # int32; -1 for all
    compartment: Any  # int32; -1 for none
    instead: Any  # compartment that nodes enter in place of that, int32
    groups: Any  # see `shared.compliance`
    positive: Any  # probability of a detection, real [intervention_count, compartment_count]
    rate: Any  # of tests of each node, real [intervention_count]; 0 for tests at entry
    # Largest probability of tracing, times from the detection to the quarantine of contacts and of
    # the node itself, durations of both, lookback, times from the begin of an isolation to a test
    # that may end it and between such tests, and whether these find cases (negative: contacts are
    # tested when they are traced), real [intervention_count, 9]: see `TRACE`.
    traced: Any
    # Of tests that may end an isolation, real [intervention_count, compartment_count]; negative
    # outside of the population.
    sensitivity: Any
    tracing: Any  # probability of tracing in a layer, real [intervention_count, layer_count]
    triggers: Any  # see `shared.triggers`
    lines: Any  # see `shared.lines`
    vaccines: Any  # see `shared.vaccines`
    tallies: Any  # see `shared.tallies`


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
        np.array([name not in model.may_be_infected for name in model.compartments], np.uint8),
        (rate[0] > 0).any(axis=0).astype(np.uint8),
        peak.astype(precision),
        profile,
        *np.ones((2, 1, 1), precision),
    )
    return found._replace(rate=rate[0], peak=found.peak[0]) if group is None else found


def infections_of_row(infections, rows, row):
    """The infections of the point of a row."""
    if SWEPT:
        point = point_of(rows, row)
        return Infections(
            infections.susceptible, infections.infected, infections.rate[point],
            infections.at_risk, infections.safe, infections.infectious, infections.peak[point],
            infections.profile, infections.susceptibility, infections.infectivity,
        )  # fmt: skip
    return infections


def calendars_of(
    model: CompartmentModel,
    contacts: Network,
    layer_factors: Mapping[str, Calendar],
    begin: float,
    precision: Precision,
) -> Calendars:
    """Calendars of profiles and layers, on a clock that is zero at `begin`.

    Raises a ModelError if a factor is not a `Calendar`, or its layer is not in the network.
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
    contacts: Network,
    begin: float,
    horizon: float,
    precision: Precision,
    tally_column: int = 0,
    avoided: bool = False,
    layers: Sequence[str] = (),
) -> Interventions:
    """The table of a plan, on a clock that is zero at `begin` and ends at `horizon`.

    Columns of counts are those of its tallies from `tally_column` on, with contacts `avoided`, and
    by `layers`.

    Raises a ModelError if an item is not an intervention, or a name is unknown to the model or the
    network.
    """
    count = max(1, len(interventions))
    columns: dict[str, np.ndarray] = {
        name: np.zeros(count, precision)
        for name in ("duration", "fraction", "reduction", "delay", "rollout")
    }
    columns["start"] = np.full(3 * count, np.inf, precision)
    kind = np.zeros(count, np.int32)
    layer, compartment, instead = (np.full(count, -1, np.int32) for _ in range(3))
    traced = np.zeros((count, 9), precision)
    traced[:, [RETEST_AFTER, RETEST_EVERY]] = np.inf
    sensitivity = np.zeros((count, len(model.compartments)), precision)
    tracing = np.zeros((count, max(1, len(contacts.layers))), precision)
    positive = np.zeros((count, len(model.compartments)), precision)
    rate = np.zeros(count, precision)
    for row, one in enumerate(interventions):
        where = one.place(row)
        for name in ("duration", "fraction", "reduction", "delay", "rollout"):
            columns[name][row] = getattr(one, name, 0.0)
        if not isinstance(one.start, Trigger):
            start = begin if one.start is None else float(one.start)
            columns["start"][row] = start - begin
            columns["duration"][row] = one.duration_from(start)
        elif one.stop is not None and not isinstance(one.stop, Trigger):
            columns["start"][count + row] = one.stop - begin
        if isinstance(one, LayerClosure):
            kind[row] = CLOSURE_KIND
            if one.layer is not None:
                layer[row] = layer_index(contacts, one.layer, where)
        elif isinstance(one, Vaccination):
            kind[row] = LEAKY_KIND if one.leaky else ALL_OR_NOTHING_KIND
        elif isinstance(one, Isolation | ContactTracing):
            compartment[row] = compartment_index(model, one.compartment, where)
            kind[row] = ISOLATION_KIND
            if isinstance(one, Isolation) and one.compartment not in model.infectious:
                raise ModelError(
                    f"{where} isolates nodes in '{one.compartment}', which is not infectious; "
                    "infectious compartments: " + (", ".join(model.infectious) or "none")
                )
        elif isinstance(one, Capacity):
            kind[row] = CAPACITY_KIND
            columns["duration"][row] = np.inf
            compartment[row], instead[row] = _diverted(model, one, where)
        if isinstance(one, ContactTracing):
            kind[row] = TRACING_KIND
            positive[row, compartment[row]] = one.detection
            columns["delay"][row] = one.detection_delay
            traced[row, [OWN_DELAY, OWN_TIME]] = 0.0, one.quarantine
        elif isinstance(one, Testing):
            kind[row] = TRACING_KIND
            columns["delay"][row] = 0.0
            traced[row, [OWN_DELAY, OWN_TIME]] = one.delay, one.isolation
            rate[row] = one.rate or 0.0
            for name in model.outside:
                sensitivity[row, model.index[name]] = -1.0
            share = 1.0 if is_limited(one) else one.fraction
            for name, value in one.sensitivity.items():
                at = _testable(model, name, where)
                positive[row, at], sensitivity[row, at] = share * value, value
            if one.release_after is not None:
                traced[row, RETEST_AFTER] = one.release_after
                traced[row, RETEST_EVERY] = one.release_every or np.inf
                traced[row, FINDS] = one.test_contacts
            if one.test_traced:
                traced[row, FINDS] = -1.0
        if isinstance(one, ContactTracing | Testing):
            tracing[row] = _tracing(one.tracing, contacts, where)
            traced[row, TRACE] = tracing[row].max()
            traced[row, CONTACT_DELAY] = one.tracing_delay + traced[row, OWN_DELAY]
            traced[row, CONTACT_TIME], traced[row, LOOKBACK] = one.quarantine, one.lookback
    _check_waiting(interventions, model)
    return Interventions(
        kind, **columns, layer=layer, compartment=compartment, instead=instead,
        groups=groups_of(interventions, contacts, precision), positive=positive, rate=rate,
        traced=traced, sensitivity=sensitivity, tracing=tracing,
        triggers=triggers_of(interventions, model, contacts, precision),
        lines=lines_of(interventions, model, contacts, begin, horizon, precision),
        vaccines=vaccines_of(interventions, model, contacts, begin, horizon, precision),
        tallies=tallies_of(interventions, model, tally_column, avoided, layers),
    )  # fmt: skip


def _tracing(given: float | Mapping[str, float], contacts: Network, where: str) -> Any:
    """The probability that a contact is traced: of all layers, or of each."""
    if not isinstance(given, Mapping):
        return given
    found = np.zeros(max(1, len(contacts.layers)))
    for name, share in given.items():
        found[layer_index(contacts, name, where)] = share
    return found


def _diverted(model: CompartmentModel, one: Capacity, where: str) -> tuple[int, int]:
    """Positions of a compartment with places, and of the one that nodes enter instead."""
    found = compartment_index(model, one.compartment, where)
    other = -1 if one.instead is None else compartment_index(model, one.instead, where)
    leading = [p for p in model.progressions if one.compartment in p.branches]
    if not leading:
        raise ModelError(
            f"{where} is a capacity of '{one.compartment}', but no progression leads there"
        )
    reached = {infection.susceptible for infection in model.infections}
    for progression in leading:
        if one.wait:
            if progression.compartment == model.unborn:
                raise ModelError(
                    f"{where} lets nodes wait for '{one.compartment}', which newborns enter; "
                    "expected a compartment that they enter instead"
                )
            if progression.compartment in reached:
                raise ModelError(
                    f"{where} lets nodes wait in '{progression.compartment}', from which an "
                    "infection leads; expected a compartment that they enter instead"
                )
        if one.instead is not None and one.instead not in progression.targets:
            raise ModelError(
                f"{where} sends nodes to '{one.instead}' instead of '{one.compartment}', but the "
                f"progression out of '{progression.compartment}' has no branch '{one.instead}'; "
                "expected one, of probability 0 if nobody goes there otherwise"
            )
    return found, other


def _check_waiting(interventions: Sequence[Intervention], model: CompartmentModel) -> None:
    """Refuse tests at a rate of nodes that wait for places: they end with the planned stay."""
    for row, one in enumerate(interventions):
        if isinstance(one, Testing) and one.rate is not None:
            for capacity in interventions:
                if isinstance(capacity, Capacity) and capacity.wait:
                    for p in model.progressions:
                        if capacity.compartment in p.branches and p.compartment in one.sensitivity:
                            raise ModelError(
                                f"{one.place(row)} tests nodes in '{p.compartment}' at a rate, "
                                f"where they may wait for '{capacity.compartment}'; expected tests "
                                "at entry, without a rate"
                            )


def _testable(model: CompartmentModel, name: str, where: str) -> int:
    """Position of a compartment in which tests may be positive."""
    index = compartment_index(model, name, where)
    if any(name == infection.susceptible for infection in model.infections):
        raise ModelError(
            f"{where} has a sensitivity of '{name}', from which an infection leads; tests find "
            "nodes in other compartments only"
        )
    return index


# ---- device functions


def calendar_factor(calendars, calendar, time):
    """Value of a calendar at a time since the beginning."""
    period = calendars.period[calendar]
    if period > 0.0:
        time = time + calendars.phase[calendar]
        time = fma(-real(np.int64(time / period)), period, time)
    low, high = calendars.first[calendar] + 1, calendars.first[calendar + 1]
    return calendars.factor[first_above(calendars.change, low, high, time) - 1]


def is_in_force(interventions, starts, row, time):
    """Whether a measure is in force at a time.

    `starts` [3 x intervention_count] are the starts of measures, their stops, and when no test is
    left, as known at that time; births and deaths of nodes may follow (`shared.lives`).
    """
    age = time - starts[row]
    given = age >= 0.0 and age < interventions.duration[row]
    if HAS_TRIGGERS:
        given = given and time < starts[row + interventions.kind.size]
    return given


def detects(interventions, starts, row, moment):
    """Whether a measure detects cases at a moment; if tests are limited, whether one is left."""
    found = looks_for_cases(interventions, starts, row, moment)
    if HAS_LINES:
        found = found and moment < starts[spent_from(interventions, row)]
    return found


def looks_for_cases(interventions, starts, row, moment):
    """Whether a measure that detects cases is in force at a moment."""
    return moment >= starts[row] and is_in_force(interventions, starts, row, later(moment))


def destination_of_stay(tables, starts, compartment, index, time, seed, replicate, node):
    """Next compartment of a node after a stay with this index, which ends at `time`.

    A vaccination may avert the branch that was drawn, or all its places may be taken.  A node that
    waits for a place has the destination -2 - line.
    """
    into = np.int64(unaverted(tables, starts, compartment, index, time, seed, replicate, node))
    if HAS_CAPACITIES:
        plan = tables.interventions
        for row in range(plan.kind.size):
            if (
                plan.kind[row] == CAPACITY_KIND
                and plan.compartment[row] == into
                and is_in_force(plan, starts, row, time)
            ):
                if HAS_QUEUES and plan.lines.of[row] >= 0:
                    return -2 - np.int64(plan.lines.of[row])
                into = np.int64(plan.instead[row])
    return into


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
        left = left_under(
            interventions, starts, row, left, time, layer, source, target, seed, replicate
        )
    return left


def left_under(interventions, starts, row, left, time, layer, source, target, seed, replicate):
    """What one measure, but no quarantine, leaves of the fraction `left`; see `remaining`."""
    if not time >= starts[row]:
        return left
    kind = interventions.kind[row]
    if kind == CLOSURE_KIND:
        if is_in_force(interventions, starts, row, time) and (
            interventions.layer[row] < 0 or interventions.layer[row] == layer
        ):
            left *= 1.0 - interventions.reduction[row]
    elif kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND:
        left *= left_by_vaccine(
            interventions, row, starts[row], born_at(interventions, starts, target), time, target,
            seed, replicate,
        )  # fmt: skip
        left *= reduced_infectivity(
            interventions, row, starts[row], born_at(interventions, starts, source.node), time,
            source.node, seed, replicate,
        )  # fmt: skip
    elif kind == ISOLATION_KIND and (
        is_in_force(interventions, starts, row, time)
        and source.compartment == interventions.compartment[row]
        and time >= source.since + interventions.delay[row]
        and takes_part(interventions, row, source.node, seed, replicate)
    ):
        w0, w1, w2, w3 = draws(row, source.node, source.stay, seed, replicate)
        if uniform(w0, w1) <= interventions.fraction[row]:
            left *= 1.0 - interventions.reduction[row]
    return left


def _own_factor(infections, k, source, target):
    """Factor of one infection along an arc."""
    return infections.infectivity[k, source] * infections.susceptibility[k, target]


def _largest_factor(infections, source, target):
    """The largest factor of any infection, which the weight of the arc includes."""
    largest = _own_factor(infections, 0, source, target)
    for k in range(1, infections.susceptible.size):
        largest = max(largest, _own_factor(infections, k, source, target))
    return largest


def outcome(
    tables, starts, mark, left, time, layer, source, target, target_compartment, seed, replicate
):
    """Compartment to which a contact with this mark moves the target, or -1.

    `source` is a `Source`.  `left` is the fraction of the rate that remains under other measures.
    """
    time = later(time)
    left = left_by_calendars(tables, left, time, layer, source)
    if HAS_INTERVENTIONS:
        left *= remaining(
            tables.interventions, starts, time, layer, source, target, seed, replicate
        )
    return infected_by(tables.infections, mark, left, source, target, target_compartment)


def left_by_calendars(tables, left, time, layer, source):
    """What calendars of layers and profiles leave of the fraction `left` of a rate."""
    infections, calendars = tables.infections, tables.calendars
    if HAS_CALENDARS:
        calendar = calendars.layer[layer]
        if calendar >= 0:
            left *= calendar_factor(calendars, calendar, time) / calendars.peak[layer]
        profile = infections.profile[source.compartment]
        if profile >= 0:
            left *= calendar_factor(calendars, profile, time - source.since)
    return left


def infected_by(infections, mark, left, source, target, target_compartment):
    """`outcome`, if the fraction `left` of the rate remains."""
    if OWN_FACTORS:
        left /= _largest_factor(infections, source.node, target)
    reached = real(0.0)
    for k in range(infections.susceptible.size):
        if infections.susceptible[k] == target_compartment:
            own = left
            if OWN_FACTORS:
                own *= _own_factor(infections, k, source.node, target)
            reached = fma(infections.rate[k, source.compartment], own, reached)
            if mark * infections.peak <= reached:
                return infections.infected[k]
    return np.int32(-1)
