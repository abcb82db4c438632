"""Flat tables of a model and a scenario, for the exact methods for any model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError, PlanError
from ergode.epidemics import seeding
from ergode.epidemics.scenario import AVOIDED, ENTRIES, MEASURES, Scenario
from ergode.epidemics.seeding import Initial
from ergode.epidemics.shared import contacts as contact_process
from ergode.epidemics.shared import progression, transmission, vaccines
from ergode.epidemics.shared.arcs import arc_bindings
from ergode.epidemics.shared.births import Births, births_of, check_births
from ergode.epidemics.shared.clock import Moments, moments_of
from ergode.epidemics.shared.compliance import compliance_bindings
from ergode.epidemics.shared.importation import factor_of, importations_of, own_factor_of
from ergode.epidemics.shared.kept import kept
from ergode.epidemics.shared.lines import (
    has_queue,
    is_limited,
    leaving_bindings,
    period_starts,
)
from ergode.epidemics.shared.lives import lives_bindings
from ergode.epidemics.shared.options import (
    AVOIDING,
    COUNTING,
    COUNTING_ENTRIES,
    HAS_AGES,
    HAS_BIRTHS,
    HAS_CALENDARS,
    HAS_CAPACITIES,
    HAS_COUNTERS,
    HAS_FINDS,
    HAS_IMPORTATIONS,
    HAS_INTERVENTIONS,
    HAS_LINES,
    HAS_MOMENTS,
    HAS_QUEUES,
    HAS_RELEASE,
    HAS_SCREENING,
    HAS_STRATA,
    HAS_TRACING,
    HAS_TRIGGERS,
    LAYERED,
    OWN_FACTORS,
    TEMPORAL,
    TESTS_TRACED,
    THINNED,
    WEIGHTED,
)
from ergode.epidemics.shared.resolution import check_stages
from ergode.epidemics.shared.sweep import PointGroup, bindings_of
from ergode.epidemics.shared.tallies import check_tallies
from ergode.epidemics.shared.triggers import has_counter
from ergode.models.epidemic.attributes import ByAttribute
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import Capacity, ContactTracing, Trigger
from ergode.models.epidemic.testing import Testing
from ergode.models.holding_times.empirical import Empirical
from ergode.models.holding_times.families import Deterministic
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork


class EpidemicTables(NamedTuple):
    """Read-only tables of a run, besides the arcs of the network."""

    meetings: Any  # see `shared.contacts`
    stages: Any  # see `shared.progression`
    infections: Any  # see `shared.transmission`
    calendars: Any
    interventions: Any
    seeding: Any
    importations: Any
    stratum: Any  # of each node, int32 [node_count]
    stratum_count: int
    base: int  # compartment of nodes that are not seeds
    times: Any  # latest times that count at each grid time (`shared.clock`)
    per_step: Any  # grid points per unit of time
    end: Any  # the next number after the last of `times`
    moments: Any  # see `shared.clock`
    births: Any  # see `shared.births`


@dataclass(frozen=True)
class Tables:
    """Host arrays; see `transmission`, `progression`, `contacts` and `importation`."""

    stages: Any
    infections: Any
    calendars: Any
    interventions: Any
    meetings: Any
    importations: Any
    weights: np.ndarray | None  # see `arc_weights`; in the working precision
    stratum: np.ndarray | None
    moments: Moments
    births: Births
    bindings: dict[Any, bool]  # of all options of the exact methods but `LISTING`


def tables_of(
    model: CompartmentModel,
    scenario: Scenario,
    initial: Initial,
    begin: float,
    horizon: float,
    precision: Precision,
    group: PointGroup | None = None,
) -> Tables:
    """The tables of a model, or of a group, under a scenario, on a clock that is zero at `begin`.

    Raises a ModelError or PlanError if a name is unknown, or a limit of the methods is exceeded.
    """
    contacts = scenario.contacts
    if model.has_exits and seeding.has_ages(initial):
        raise ModelError(
            "seeds have ages, and progressions of the model have exits; expected seeds without ages"
        )
    stages = progression.stages_of_group(model, group, precision, contacts)
    check_stages(model, stages, precision, group)
    check_births(model, stages, initial, horizon)
    weights = arc_weights(model, contacts)
    infections = transmission.infections_of(model, precision, group)
    if model.has_own_factors:
        own = (own_factor_of(model, contacts, side) for side in ("susceptibility", "infectivity"))
        into, out = (each.astype(precision) for each in own)
        infections = infections._replace(susceptibility=into, infectivity=out)
    calendars = transmission.calendars_of(model, contacts, scenario.layer_factors, begin, precision)
    plan = transmission.interventions_of(
        scenario.interventions,
        model,
        contacts,
        begin,
        horizon,
        precision,
        len(model.compartments) * (2 if ENTRIES in scenario.include else 1) + 1,
        AVOIDED in scenario.include,
        scenario.counted_layers,
    )
    if MEASURES in scenario.include:
        check_tallies(scenario.interventions, model, contacts.node_count, horizon)
    heaviest = 1.0 if weights is None or not weights.size else float(weights.max())
    fastest = float(infections.peak.max()) * float(calendars.peak.max()) * heaviest
    span = scenario.longest_exposure if scenario.meetings is not None else horizon
    if not fastest * span < contact_process.CELLS_MOST:
        raise ModelError(
            f"the fastest contact would transmit {fastest * span:.3g} times from the first of "
            f"times to the last; expected fewer than {contact_process.CELLS_MOST:,}"
        )
    pairs = 0 if contacts.multigraph else contacts.node_count**2 * len(calendars.peak)
    if pairs >= contact_process.ENTITIES_MOST:
        raise PlanError(
            f"{contacts.node_count:,} nodes in {len(calendars.peak)} layers exceed the 2^56 pairs "
            "that the method 'sellke' can tell apart"
        )
    thinned = (infections.rate > 0) & (infections.rate != infections.peak[..., None, None])
    moments = _moments(model, scenario, begin, begin + horizon)
    limited = any(map(is_limited, scenario.interventions))
    queues = any(map(has_queue, scenario.interventions))
    pulled = [
        moment
        for one in scenario.interventions
        for moment in (one.start, one.stop)
        if isinstance(moment, Trigger)
    ]
    changing = bool(model.profiles or scenario.layer_factors)
    bindings: dict[Any, Any] = {
        **progression.bindings_of(model),
        **progression.class_bindings(model),
        **bindings_of(group),
        WEIGHTED: weights is not None,
        LAYERED: bool(contacts.layers),
        **arc_bindings(contacts),
        TEMPORAL: scenario.meetings is not None,
        HAS_CALENDARS: changing,
        **({OWN_FACTORS: True} if model.has_own_factors else {}),
        HAS_INTERVENTIONS: bool(scenario.interventions),
        HAS_TRACING: any(isinstance(i, ContactTracing | Testing) for i in scenario.interventions),
        **({HAS_RELEASE: True} if any(map(_releases, scenario.interventions)) else {}),
        **({HAS_FINDS: True} if any(map(_finds, scenario.interventions)) else {}),
        **({TESTS_TRACED: True} if any(map(_tests_traced, scenario.interventions)) else {}),
        HAS_SCREENING: any(
            isinstance(i, Testing) and i.rate is not None for i in scenario.interventions
        ),
        **vaccines.vaccine_bindings(scenario.interventions),
        **compliance_bindings(scenario.interventions),
        **lives_bindings(model, scenario.interventions),
        **(
            {HAS_CAPACITIES: True}
            if any(isinstance(i, Capacity) for i in scenario.interventions)
            else {}
        ),
        **({HAS_BIRTHS: True} if model.unborn else {}),
        **({COUNTING: True} if MEASURES in scenario.include else {}),
        **({AVOIDING: True} if AVOIDED in scenario.include else {}),
        **({COUNTING_ENTRIES: True} if ENTRIES in scenario.include else {}),
        **({HAS_LINES: True} if limited or queues else {}),
        **({HAS_QUEUES: True} if queues else {}),
        **leaving_bindings(scenario.interventions, model),
        HAS_TRIGGERS: limited or bool(pulled),
        **({HAS_COUNTERS: True} if any(map(has_counter, pulled)) else {}),
        HAS_IMPORTATIONS: bool(scenario.importations),
        HAS_MOMENTS: moments.size > 0,
        HAS_STRATA: scenario.stratum is not None,
        HAS_AGES: seeding.has_ages(initial),
        THINNED: bool(
            len(model.infections) > 1 or thinned.any() or changing or scenario.interventions
        ),
    }
    return Tables(
        stages,
        infections,
        calendars,
        plan,
        scenario.meetings_table(begin, precision),
        importations_of(scenario, model, initial, begin, precision, group),
        None if weights is None else weights.astype(precision, copy=False),
        scenario.stratum,
        moments_of(moments - begin if moments.size else np.zeros(1), begin, precision),
        births_of(model, initial, contacts.node_count, precision, group),
        bindings,
    )


def _releases(one: Any) -> bool:
    """Whether a negative test ends an isolation by a measure."""
    return getattr(one, "release_after", None) is not None


def _finds(one: Any) -> bool:
    """Whether a test of a contact by a measure finds a case."""
    return getattr(one, "test_contacts", False) or _tests_traced(one)


def _tests_traced(one: Any) -> bool:
    """Whether contacts are tested when they are traced by a measure."""
    return getattr(one, "test_traced", False)


def _moments(model: CompartmentModel, scenario: Scenario, begin: float, end: float) -> np.ndarray:
    """Ascending times at which the end of a stay or a quarantine may coincide with another event.

    There are none if the lengths of both have continuous distributions.
    """
    tracing = any(isinstance(one, ContactTracing | Testing) for one in scenario.interventions)
    atoms = any(
        isinstance(one, Deterministic | Empirical)
        for p in model.progressions
        for one in p.holding_times
    )
    if not tracing and not atoms:
        return np.zeros(0)
    periods = [
        period_starts(one, begin, end)
        for one in scenario.interventions
        if isinstance(one, Testing) and is_limited(one)
    ]
    return np.unique(np.concatenate([scenario.moments, *periods]))


def or_nothing(array: np.ndarray | None, dtype: Any) -> np.ndarray:
    """An array, or one unused element instead of None."""
    return np.zeros(1, dtype) if array is None else array


def has_node_factors(model: CompartmentModel) -> bool:
    """Whether weights of arcs include factors of their nodes."""
    sides = "infectivity", "susceptibility"
    return model.has_own_factors or any(model.factors(side) for side in sides)


def arc_weights(
    model: CompartmentModel, contacts: ContactNetwork | ComputedNetwork
) -> np.ndarray | None:
    """Factor on the transmission rate along each arc; None if all are one.

    Where factors differ between infections, it includes the largest of them.  A computed network
    has one for each slot of a node.
    """
    sides = ("infectivity", "susceptibility")
    given = [
        one
        for side in sides
        for one in (*model.factors(side), *model.own_factors(side))
        if one is not None
    ]
    if not given:
        return (
            contacts.slot_factors() if isinstance(contacts, ComputedNetwork) else contacts.weights
        )
    key = tuple(
        tuple(map(_key, each)) for side in sides
        for each in (model.factors(side), model.own_factors(side))
    )  # fmt: skip
    names = [one if isinstance(one, str) else one.attribute for one in given]
    return kept(contacts, "weights", key, names, lambda: _weights(model, contacts))


def _key(factor: ByAttribute | str | None) -> Any:
    return factor if not isinstance(factor, ByAttribute) else (factor.division, factor.entries)


def _weights(
    model: CompartmentModel, contacts: ContactNetwork | ComputedNetwork
) -> np.ndarray | None:
    """Weights of arcs times the factors of their nodes."""
    factors = {name: factor_of(model, contacts, name) for name in ("infectivity", "susceptibility")}
    if isinstance(contacts, ComputedNetwork):  # it has no attributes
        return contacts.slot_factors()
    weights = contacts.weights
    for name, factor in factors.items():
        if factor is None:
            continue
        by_source = name == "infectivity"
        per_arc = np.repeat(factor, contacts.degrees()) if by_source else factor[contacts.targets]
        weights = per_arc if weights is None else weights * per_arc
    if model.has_own_factors:
        own = {name: own_factor_of(model, contacts, name) for name in factors}
        source = np.repeat(np.arange(contacts.node_count), contacts.degrees())
        target = contacts.targets
        largest = np.zeros(target.size, np.float32)
        for out, into in zip(own["infectivity"], own["susceptibility"], strict=True):
            np.maximum(largest, out[source] * into[target], out=largest)
        weights = largest if weights is None else weights * largest
    if weights is not None:
        weights.setflags(write=False)
    return weights


def largest_sum(contacts: ContactNetwork | ComputedNetwork, weights: np.ndarray | None) -> float:
    """Largest sum of the weights of arcs into a node."""
    if weights is None:
        return float(contacts.largest_in_degree)
    if isinstance(contacts, ComputedNetwork) or (
        weights is contacts.weights and contacts.multigraph
    ):
        # Every node has the same slots, and in every layer as many arcs lead to it.
        return float(weights[: contacts.largest_in_degree].sum(dtype=np.float64))
    into = np.bincount(contacts.targets, weights, minlength=contacts.node_count)
    return float(into.max(initial=0.0))
