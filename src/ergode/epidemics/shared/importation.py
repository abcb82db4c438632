"""Importations: contacts with cases outside the network.

The n-th importation of a plan is a function of (seed, replicate, plan, n).  It consists of a random
node, a moment after that of the previous importation, and a mark.  It acts as a contact with an
outside case.  It infects if the mark is below the rate of infection from the node's compartment,
relative to the largest rate from a compartment that a node can be in, times the node's
susceptibility.  The event-driven method draws one
importation after the other.  The method by windows takes a list of all importations, ordered by
node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.compiler.language import fma, real
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.errors import ModelError
from ergode.core.math.random import IMPORTATION, draw_words, exponential, integer_below, uniform
from ergode.core.math.search import first_from
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.shared.names import compartment_index
from ergode.epidemics.shared.sweep import (
    SWEPT,
    PointGroup,
    Rows,
    bindings_of,
    point_of,
    replicate_of,
)
from ergode.models.epidemic.attributes import Network, factor_of_nodes
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.importations import Importation

_NEVER = float("inf")


class Importations(NamedTuple):
    """Plans; one row each."""

    rate: Any  # real [plan_count]; zero where times are given
    start: Any
    stop: Any
    first: Any  # its times are first[i] : first[i + 1], int32 [plan_count + 1]
    time: Any  # real
    # Probability that a contact makes an infection happen to a node of susceptibility one, real
    # [plan_count, infection_count]; for several points with a leading axis of points.
    probability: Any
    into: Any  # where the node then begins, int32 [plan_count, infection_count]
    susceptibility: Any  # real [infection_count or 1 for all, node_count or 1 for all]


class ImportedCases(NamedTuple):
    """All importations into some replicates, ordered by row, node and time."""

    first: Any  # of a row: first[row] : first[row + 1], int64 [row_count + 1]
    node: Any  # int32 [importation_count] (one unused entry where there are none)
    time: Any  # real
    plan: Any  # int32
    mark: Any  # real


def importations_of(
    scenario: Scenario,
    model: CompartmentModel,
    initial: Mapping[str, Any],
    begin: float,
    precision: Precision,
    group: PointGroup | None = None,
) -> Importations:
    """The plans of a scenario, on a clock that is zero at `begin`, for a model or all of a group.

    Raises a ModelError if an importation is into an unknown compartment, or one that no infection
    leads to.
    """
    plans = scenario.importations
    models = [model] if group is None else group.models
    initials = [initial] if group is None else group.initials
    susceptibility = _susceptibility(scenario, model)
    largest = susceptibility.max(axis=1, initial=0.0)
    probability = np.zeros((len(models), max(1, len(plans)), len(model.infections)))
    into = np.zeros(probability.shape[1:], np.int32)
    for row, plan in enumerate(plans):
        for point, (one, seeds) in enumerate(zip(models, initials, strict=True)):
            rates, into[row] = _outcomes(one, plan.compartment)
            inhabited = _inhabited(one, seeds, plans)
            probability[point, row] = _relative(one, rates, largest, inhabited)
    first, moments = [0], [0.0]
    for plan in plans:
        times = [t - begin for t in plan.moments if t >= begin]
        moments += times
        first.append(first[-1] + len(times))
    return Importations(
        np.array([p.rate or 0.0 for p in plans], precision),
        np.array([p.start - begin for p in plans], precision),
        np.array([p.stop - begin for p in plans], precision),
        np.array(first, np.int32),
        np.array(moments[1:] or [0.0], precision),
        (probability[0] if group is None else probability).astype(precision),
        into,
        susceptibility.astype(precision),
    )  # fmt: skip


def _outcomes(model: CompartmentModel, name: str) -> tuple[np.ndarray, np.ndarray]:
    """For each infection: its rate by contact with an outside case, and where nodes then begin.

    The outside case is in the compartment `name`, or about to enter it.  A node whose infection
    leads to `name`, at once or later, begins there; others begin where their infection leads.
    """
    index = compartment_index(model, name, "an importation")
    direct = set(model.leads_to(name))
    if name in model.infectious:
        sources = [name]
    else:
        sources = [other for other in model.infectious if name in model.leads_to(other)]
    rates = np.array(
        [max([i.transmission_rate.get(s, 0.0) for s in sources] or [0.0]) for i in model.infections]
    )
    leads = np.array([i.infected in direct for i in model.infections])
    if name not in model.infected or not (rates[leads | (name in model.infectious)] > 0).any():
        raise ModelError(
            f"an importation is into '{name}', but no infection of the model is by contact with "
            f"such a case; infected compartments are " + ", ".join(model.infected)
        )
    begins_as_such = {i.susceptible for i, r, d in zip(model.infections, rates, leads, strict=True)
                      if d and r > 0}  # fmt: skip
    into = np.empty(rates.size, np.int32)
    for k, infection in enumerate(model.infections):
        into[k] = index if leads[k] else model.index[infection.infected]
        own = infection.susceptible in begins_as_such
        if not leads[k] and (own or name not in model.infectious):
            rates[k] = 0.0
    return rates, into


def _inhabited(
    model: CompartmentModel, initial: Mapping[str, Any], plans: Sequence[Importation]
) -> set[str]:
    """The compartments that a node can be in at some time of the run."""
    nodes = {name: getattr(value, "nodes", value) for name, value in initial.items()}
    ahead = [name for name, some in nodes.items() if (np.size(some) if np.ndim(some) else some)]
    ahead += [model.infections[0].susceptible, *(plan.compartment for plan in plans)]
    leads: dict[str, set[str]] = {name: set() for name in model.compartments}
    for progression in model.progressions:
        leads[progression.compartment] |= set(progression.branches)
    for infection in model.infections:
        leads[infection.susceptible].add(infection.infected)
    found: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += leads.get(name, ())
    return found


def _relative(
    model: CompartmentModel, rates: np.ndarray, largest: np.ndarray, inhabited: set[str]
) -> np.ndarray:
    """Rates relative to the largest total rate from an inhabited compartment.

    And to the largest susceptibility there to one of these infections, if that is above one.
    """
    total: dict[str, float] = {}
    most = 1.0
    for k, infection in enumerate(model.infections):
        if infection.susceptible in inhabited:
            total[infection.susceptible] = total.get(infection.susceptible, 0.0) + rates[k]
            if rates[k] > 0.0:
                most = max(most, float(largest[k if largest.size > 1 else 0]))
    peak = max(total.values())
    if peak == 0.0:  # nobody can be infected so
        return np.zeros(rates.size)
    here = np.array([infection.susceptible in inhabited for infection in model.infections])
    return np.where(here, rates / (peak * most), 0.0)


def factor_of(model: CompartmentModel, contacts: Network, name: str) -> np.ndarray | None:
    """The "susceptibility" or "infectivity" of each node; None if all are one."""
    factors = [factor_of_nodes(one, contacts) for one in model.factors(name)]
    return reduce(np.multiply, factors) if factors else None


def own_factor_of(model: CompartmentModel, contacts: Network, name: str) -> np.ndarray:
    """Factors of each infection that the others do not have, float32 [infection, node]."""
    made = np.ones((len(model.infections), contacts.node_count), np.float32)
    for k, one in enumerate(model.own_factors(name)):
        if one is not None:
            made[k] = factor_of_nodes(one, contacts)
    return made


def _susceptibility(scenario: Scenario, model: CompartmentModel) -> np.ndarray:
    """Susceptibility of each node, shape [infection_count or 1, node_count or 1]."""
    values = np.ones((1, 1))
    if scenario.importations:
        given = factor_of(model, scenario.contacts, "susceptibility")
        if given is not None:
            values = np.asarray(given, float)[None, :]
        if model.own_factors("susceptibility"):
            values = values * own_factor_of(model, scenario.contacts, "susceptibility")
    return values


def imported_cases_of(
    imports: Importations,
    node_count: int,
    end: Any,
    seed: np.uint64,
    rows: Rows,
    group: PointGroup | None,
    count: int,
    host: Device,
    precision: Precision,
) -> ImportedCases:
    """All importations before `end` into `count` rows, on the host."""
    kernel = kernels.cpu_kernel(
        list_imported_cases, precision=precision, bindings=bindings_of(group)
    )
    sizes = np.zeros(count + 1, np.int64)
    nothing = (
        np.zeros(1, np.int32), np.zeros(1, precision), np.zeros(1, np.int32),
        np.zeros(1, precision),
    )  # fmt: skip
    arguments = (imports, node_count, end, seed, rows)
    host.run(kernel, count, *arguments, sizes[1:], ImportedCases(sizes, *nothing), False)
    first = np.cumsum(sizes)
    if not first[-1]:
        return ImportedCases(first, *nothing)
    total = int(first[-1])
    cases = ImportedCases(
        first, np.empty(total, np.int32), np.empty(total, precision), np.empty(total, np.int32),
        np.empty(total, precision),
    )  # fmt: skip
    host.run(kernel, count, *arguments, sizes[1:], cases, True)
    row = np.repeat(np.arange(count), sizes[1:])
    order = np.lexsort((cases.plan, cases.time, cases.node, row))
    return ImportedCases(first, *(column[order] for column in cases[1:]))


# ---- device functions


def importations_of_row(imports, rows, row):
    """The importations of the point of a row."""
    if SWEPT:
        probability = imports.probability[point_of(rows, row)]
        return Importations(
            imports.rate, imports.start, imports.stop, imports.first, imports.time, probability,
            imports.into, imports.susceptibility,
        )  # fmt: skip
    return imports


def importation_time(imports, plan, number, after, seed, replicate):
    """Time of the `number`-th importation of a plan; the previous one was at `after`."""
    if imports.rate[plan] > 0.0:
        w0, w1, w2, w3 = draw_words(seed, replicate, 2 * plan, IMPORTATION, np.uint32(number))
        time = max(after, imports.start[plan]) + exponential(w0, w1) / imports.rate[plan]
        return time if time < imports.stop[plan] else real(_NEVER)
    if imports.first[plan] + number < imports.first[plan + 1]:
        return imports.time[imports.first[plan] + number]
    return real(_NEVER)


def imported_node(plan, number, node_count, seed, replicate):
    """The node that the `number`-th importation of a plan falls on."""
    return integer_below(node_count, seed, replicate, 2 * plan + 1, IMPORTATION, number & 0xFFFFFF)


def importation_mark(plan, number, seed, replicate):
    """The mark of the `number`-th importation of a plan, uniform on (0, 1]."""
    w0, w1, w2, w3 = draw_words(seed, replicate, 2 * plan, IMPORTATION, np.uint32(number))
    return uniform(w2, w3)


def imported(imports, infections, plan, mark, left, node, compartment):
    """Compartment in which a node begins as a case, or -1 if the contact does not infect it.

    `left` is the fraction of its susceptibility that remains under interventions.
    """
    susceptibility = imports.susceptibility
    at = np.int64(node if susceptibility.shape[1] > 1 else 0)
    reached = real(0.0)
    for k in range(infections.susceptible.size):
        if infections.susceptible[k] == compartment:
            own = left * susceptibility[k if susceptibility.shape[0] > 1 else 0, at]
            reached = fma(imports.probability[plan, k], own, reached)
            if mark <= reached:
                return np.int64(imports.into[plan, k])
    return np.int64(-1)


def list_imported_cases(
    start, stop, imports, node_count, end, seed, rows, size, cases, fill
):  # fmt: skip
    """Count the importations of rows `start` to `stop` into `size`, or write them into `cases`."""
    for row in range(start, stop):
        replicate = replicate_of(rows, row)
        at = cases.first[row]
        found = 0
        for plan in range(imports.rate.size):
            number = np.int64(0)
            moment = real(importation_time(imports, plan, number, real(0.0), seed, replicate))
            while moment < end:
                if fill:
                    cases.node[at + found] = imported_node(
                        plan, number, node_count, seed, replicate
                    )
                    cases.time[at + found] = moment
                    cases.plan[at + found] = plan
                    cases.mark[at + found] = importation_mark(plan, number, seed, replicate)
                found += 1
                number += 1
                moment = real(importation_time(imports, plan, number, moment, seed, replicate))
        size[row] = found


def first_imported_case(imported_cases, row, node):
    """Position of the first importation into a node, or the position where it would be inserted."""
    low, high = np.int64(imported_cases.first[row]), np.int64(imported_cases.first[row + 1])
    return first_from(imported_cases.node, low, high, node)
