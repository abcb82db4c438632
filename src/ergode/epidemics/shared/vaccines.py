"""Vaccinations: which nodes have which doses when, and what these do.

This module makes the table of the vaccinations of a plan, and has the device functions that read
it.  All times follow from the keys of draws and from tables; nothing about a node is kept.

In a programme of doses the nodes of equal priority are in random order: a keyed permutation of
their places (`models.networks.permutations`), repeated with further keys because few rounds are not
uniform on a handful of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.compiler.language import fma, noinline, noinline_cpu, real
from ergode.core.compiler.source import Precision
from ergode.core.errors import ModelError
from ergode.core.math.elementary import exp
from ergode.core.math.random import BRANCHING, DOSES, INTERVENTION, draw_words, uniform
from ergode.core.math.search import first_above
from ergode.epidemics.shared.clock import later, precedes
from ergode.epidemics.shared.compliance import takes_part
from ergode.epidemics.shared.doses import dose_times, queue_of
from ergode.epidemics.shared.lives import born_at
from ergode.epidemics.shared.names import compartment_index
from ergode.epidemics.shared.options import HAS_DOSES, HAS_LIVES, HAS_SEVERITY, HAS_WANING
from ergode.epidemics.shared.progression import next_compartment_of_stay, row_of
from ergode.models.epidemic.attributes import Network
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import Intervention, Trigger
from ergode.models.epidemic.vaccination import Vaccination
from ergode.models.networks.permutations import Domain, domain_of, permuted

LEAKY_KIND, ALL_OR_NOTHING_KIND = 1, 2
_NEVER = float("inf")


class Vaccines(NamedTuple):
    """The vaccinations of a plan, by intervention, and by dose where it says so."""

    count: Any  # doses of a node, int32 [intervention_count]
    efficacy: Any  # real [intervention_count, dose_count]
    source_reduction: Any  # of infectivity
    severity: Any  # reductions of branches, real [intervention_count, dose_count, compartments]
    after: Any  # time since the first dose, where there is no programme
    waning_rate: Any  # of exponential decay, real [intervention_count]; 0 for none
    # A row of a table of waning is waning_first[i] : waning_first[i + 1], int32.
    waning_first: Any
    waning_change: Any  # times since protection, real [change_count]
    waning_factor: Any
    programme: Any  # number of the programme, int32 [intervention_count]; -1 for none
    programmes: Any  # see below


class Programmes(NamedTuple):
    """Programmes of doses; a class is the nodes of equal priority in a programme."""

    place: Any  # of a node in the order of classes, int32 [programme, node]; -1: not eligible
    classes: Any  # a programme has classes[p] : classes[p + 1], int32
    first: Any  # place of the first node of each class, int64 [class_count]
    taken: Any  # nodes of the class that are vaccinated
    rank: Any  # the first rank of the class
    domain: Any  # of the places in a class, arrays by class (`permutations.Domain`)
    begin: Any  # a programme's times begin here, int64 [programme_count]
    ranks: Any  # nodes that a programme vaccinates, int64 [programme_count]
    time: Any  # since the start, by dose and then by rank, real


def vaccines_of(
    interventions: Sequence[Intervention],
    model: CompartmentModel,
    contacts: Network,
    begin: float,
    horizon: float,
    precision: Precision,
) -> Vaccines:
    """The vaccinations of a plan, on a clock that is zero at `begin` and ends at `horizon`.

    Raises a ModelError if a name is unknown to the model or the network.
    """
    given = {k: one for k, one in enumerate(interventions) if isinstance(one, Vaccination)}
    count = max(1, len(interventions))
    doses = max((one.dose_count for one in given.values()), default=1)
    efficacy, source, after = np.zeros((3, count, doses))
    severity = np.zeros((count, doses, len(model.compartments)))
    counts = np.zeros(count, np.int32)
    waning_rate, waning_first = np.zeros(count), np.zeros(count + 1, np.int32)
    change: list[float] = []
    factor: list[float] = []
    reduced = {
        name for one in given.values() for name, value in one.severity.items() if np.any(value)
    }
    for row, one in given.items():
        counts[row] = size = one.dose_count
        efficacy[row, :size] = one.by_dose(one.efficacy)
        source[row, :size] = one.by_dose(one.infectivity_reduction)
        after[row, 1:size] = np.cumsum(one.intervals)
        for name, value in one.severity.items():
            _check_severity(model, name, reduced, one.place(row))
            severity[row, :size, model.index[name]] = one.by_dose(value)
        if isinstance(one.waning, Calendar):
            change += one.waning.changes
            factor += one.waning.factors
        elif one.waning is not None:
            waning_rate[row] = 1.0 / one.waning.mean
        waning_first[row + 1 :] = len(change)
    programme = np.full(count, -1, np.int32)
    planned = {row: one for row, one in given.items() if one.dose_rate is not None}
    programme[list(planned)] = np.arange(len(planned))
    return Vaccines(
        counts, efficacy.astype(precision), source.astype(precision), severity.astype(precision),
        after.astype(precision), waning_rate.astype(precision), waning_first,
        np.array(change or [0.0], precision),
        np.array(factor or [1.0], precision), programme,
        _programmes_of(planned, contacts, begin, horizon, precision),
    )  # fmt: skip


def _programmes_of(
    planned: dict[int, Vaccination], contacts: Network, begin: float, horizon: float,
    precision: Precision,
) -> Programmes:  # fmt: skip
    places: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    taken: list[np.ndarray] = []
    firsts: list[np.ndarray] = []
    ranks: list[np.ndarray] = []
    times: list[np.ndarray] = []
    classes, begins, rank_count = [0], [0], [0]
    for row, one in planned.items():
        queue = queue_of(one, contacts, one.place(row))
        from_begin = one.start is None or isinstance(one.start, Trigger)
        start = begin if from_begin else float(one.start)  # type: ignore[arg-type]
        table = dose_times(one, int(queue.taken.sum()), start, begin + horizon)
        places.append(queue.place)
        sizes.append(queue.size)
        taken.append(queue.taken)
        firsts.append(np.cumsum(queue.size) - queue.size)
        ranks.append(np.cumsum(queue.taken) - queue.taken)
        classes.append(classes[-1] + queue.size.size)
        times.append(table.ravel())
        begins.append(begins[-1] + table.size)
        rank_count.append(table.shape[1])
    domains = [domain_of(int(size)) for size in np.concatenate([*sizes, [1]])]

    def joined(arrays: list[np.ndarray], dtype: Any) -> np.ndarray:
        return np.concatenate([*arrays, np.zeros(1)]).astype(dtype)

    return Programmes(
        np.array(places or np.full((1, 1), -1), np.int32), np.array(classes, np.int32),
        joined(firsts, np.int64), joined(taken, np.int64), joined(ranks, np.int64),
        Domain(*(np.array(column, np.uint64) for column in zip(*domains, strict=True))),
        np.array(begins, np.int64), np.array(rank_count[1:] or [0], np.int64),
        joined(times, precision),
    )  # fmt: skip


def vaccine_bindings(interventions: Sequence[Intervention]) -> dict[Any, bool]:
    """Options of kernels for what vaccinations do beside preventing infections."""
    given = [one for one in interventions if isinstance(one, Vaccination)]
    found = {}
    if any(np.any(value) for one in given for value in one.severity.values()):
        found[HAS_SEVERITY] = True
    if any(one.waning is not None for one in given):
        found[HAS_WANING] = True
    if any(one.dose_count > 1 or one.dose_rate is not None for one in given):
        found[HAS_DOSES] = True
    return found


def _check_severity(model: CompartmentModel, name: str, reduced: set[str], where: str) -> None:
    """Refuse a reduction of what is no branch, or of branches without others beside them."""
    compartment_index(model, name, where)
    found = False
    for progression in model.progressions:
        if name in progression.exits:
            raise ModelError(
                f"{where} reduces the severity '{name}', to which nodes exit from "
                f"'{progression.compartment}' at a rate; severity is of branches"
            )
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


def draws(row, node, stay, seed, replicate):
    """Four words for a measure, a node and one of its stays."""
    return draw_words(
        seed, replicate, node, INTERVENTION, np.uint32(row) | np.uint32(np.uint32(stay) << 8)
    )


@noinline
def _permuted_twice(number, key_0, step_0, key_1, step_1, count, low_bits, high_count):
    """Where two keyed permutations of some numbers below `count` take one of them."""
    domain = Domain(count, low_bits, high_count)
    number = permuted(np.uint64(number), key_0, step_0, False, domain)
    return permuted(number, key_1, step_1, False, domain)


@noinline_cpu
def rank_in_queue(programmes, programme, row, node, seed, replicate):
    """Rank of a node in the queue of a programme; -1 if it is not vaccinated."""
    place = np.int64(programmes.place[programme, node])
    if place < 0:
        return np.int64(-1)
    low = np.int64(programmes.classes[programme])
    high = np.int64(programmes.classes[programme + 1])
    while high - low > 1:
        middle = (low + high) >> 1
        if programmes.first[middle] <= place:
            low = middle
        else:
            high = middle
    domains = programmes.domain
    at = np.uint64(place - programmes.first[low])
    for part in range(2):
        w0, w1, w2, w3 = draw_words(
            seed, replicate, low, DOSES, np.uint32(row) | np.uint32(np.uint32(part) << 8)
        )
        at = np.uint64(
            _permuted_twice(
                at, w0, w1, w2, w3, domains.count[low], domains.low_bits[low],
                domains.high_count[low],
            )
        )  # fmt: skip
    if np.int64(at) >= programmes.taken[low]:
        return np.int64(-1)
    return np.int64(programmes.rank[low]) + np.int64(at)


@noinline_cpu
def last_dose(interventions, row, start, born, time, node, seed, replicate):
    """When the last dose began to protect a node by a time, infinite if none does; and its number.

    For an all-or-nothing vaccine, only a dose that protects this node counts.  Who is `born` after
    the first dose gets none.
    """
    vaccines = interventions.vaccines
    never = real(_NEVER)
    first = np.int64(0)
    if not takes_part(interventions, row, node, seed, replicate):
        return never, first
    w0, w1, w2, w3 = draws(row, node, 0, seed, replicate)
    chosen = uniform(w0, w1) <= interventions.fraction[row]
    given = fma(interventions.rollout[row], uniform(w2, w3), start)
    since = given + interventions.delay[row]
    dose = first
    if HAS_DOSES:
        programmes = vaccines.programmes
        programme = np.int64(vaccines.programme[row])
        own = since
        rank = np.int64(-1)
        if programme >= 0:
            rank = rank_in_queue(programmes, programme, row, node, seed, replicate)
            chosen = rank >= 0
            if HAS_LIVES and chosen:
                given = start + programmes.time[programmes.begin[programme] + rank]
        since = never
        if chosen:
            for d in range(np.int64(vaccines.count[row])):
                if programme >= 0:
                    at = programmes.begin[programme] + d * programmes.ranks[programme] + rank
                    begin = real(start + programmes.time[at] + interventions.delay[row])
                else:
                    begin = real(own + vaccines.after[row, d])
                if begin <= time:
                    since = begin
                    dose = np.int64(d)
    if HAS_LIVES:
        chosen = chosen and not precedes(given, born)
    if interventions.kind[row] == ALL_OR_NOTHING_KIND:
        v0, v1, v2, v3 = draws(row, node, 1, seed, replicate)
        chosen = chosen and uniform(v0, v1) <= vaccines.efficacy[row, dose]
    if not chosen:
        return never, first
    return since, dose


def protection(interventions, row, start, born, time, node, seed, replicate):
    """How well a vaccination protects a node: 1 at first, less when it has waned, 0 if not.

    And the number of the dose that does, from 0 on.
    """
    since, dose = last_dose(interventions, row, start, born, time, node, seed, replicate)
    if since <= time and time < since + interventions.duration[row]:
        if HAS_WANING:
            return _unwaned(interventions.vaccines, row, time - since), dose
        return real(1.0), dose
    return real(0.0), dose


def _unwaned(vaccines, row, age):
    """Fraction of the effects that is left of a vaccination at a time since protection began."""
    if vaccines.waning_rate[row] > 0.0:
        return exp(-vaccines.waning_rate[row] * age)
    first = vaccines.waning_first[row]
    high = vaccines.waning_first[row + 1]
    if first == high:
        return real(1.0)
    return vaccines.waning_factor[first_above(vaccines.waning_change, first + 1, high, age) - 1]


def left_by_vaccine(interventions, row, start, born, time, node, seed, replicate):
    """Fraction of the infection rate of a node that remains after a vaccination."""
    safe, dose = protection(interventions, row, start, born, time, node, seed, replicate)
    if interventions.kind[row] == LEAKY_KIND:
        return fma(-interventions.vaccines.efficacy[row, dose], safe, real(1.0))
    return 1.0 - safe


def unaverted(tables, starts, compartment, index, time, seed, replicate, node):
    """The branch that a node takes after a stay with this index, which ends at `time`.

    A vaccination may avert the branch that was drawn.
    """
    stages = tables.stages
    into = np.int64(next_compartment_of_stay(stages, compartment, index, seed, replicate, node))
    if HAS_SEVERITY:
        plan = tables.interventions
        left = real(1.0)
        for row in range(plan.kind.size):
            left *= _left_of(plan, starts, row, into, later(time), seed, replicate, node)
        if left < 1.0:
            w0, w1, w2, w3 = draw_words(seed, replicate, node, BRANCHING, index)
            u = uniform(w2, w3)
            if u > left:
                into = _other_branch(
                    stages, plan, starts, row_of(stages, compartment, node), u, into, later(time),
                    seed, replicate, node,
                )  # fmt: skip
    return into


def _other_branch(stages, plan, starts, row, u, into, time, seed, replicate, node):
    """A branch in place of `into`, which vaccinations avert as `u` is above what they leave.

    The first vaccination that averts it excludes all branches that it reduces.  The others are
    taken in proportion to the probabilities that the other vaccinations of the node leave.
    """
    left = real(1.0)
    before = real(1.0)
    averting = np.int64(0)
    while averting < plan.kind.size:
        before = left
        left *= _left_of(plan, starts, averting, into, time, seed, replicate, node)
        if u > left:
            break
        averting += 1
    part = (u - left) / (before - left)
    total = real(0.0)
    for branch in range(stages.branch_start[row], stages.branch_start[row + 1]):
        total += _share_left(
            stages, plan, starts, averting, row, branch, time, seed, replicate, node
        )
    reached = real(0.0)
    found = False
    for branch in range(stages.branch_start[row], stages.branch_start[row + 1]):
        share = _share_left(
            stages, plan, starts, averting, row, branch, time, seed, replicate, node
        )
        # The last one of them is taken if rounding leaves the sum below the part.
        if share > 0.0 and not found:
            into = np.int64(stages.branch_to[branch])
        reached += share
        found = found or fma(part, total, real(0.0)) <= reached
    return into


def _share_left(stages, plan, starts, averting, row, branch, time, seed, replicate, node):
    """Probability of a branch after all vaccinations; 0 if the averting one reduces it."""
    into = np.int64(stages.branch_to[branch])
    if _reduces(plan.vaccines, averting, into):
        return real(0.0)
    share = stages.branch_cdf[branch]
    if branch > stages.branch_start[row]:
        share -= stages.branch_cdf[branch - 1]
    for other in range(plan.kind.size):
        share *= _left_of(plan, starts, other, into, time, seed, replicate, node)
    return share


def _left_of(plan, starts, row, into, time, seed, replicate, node):
    """Fraction of the nodes that would enter a compartment and do after a vaccination."""
    if _reduces(plan.vaccines, row, into):
        born = born_at(plan, starts, node)
        safe, dose = protection(plan, row, starts[row], born, time, node, seed, replicate)
        return fma(-plan.vaccines.severity[row, dose, into], safe, real(1.0))
    return real(1.0)


def _reduces(vaccines, row, compartment):
    """Whether a dose of a vaccination reduces the severity of a compartment."""
    reduces = False
    for dose in range(vaccines.severity.shape[1]):
        reduces = reduces or vaccines.severity[row, dose, compartment] > 0.0
    return reduces


def reduced_infectivity(interventions, row, start, born, time, node, seed, replicate):
    """Fraction of the rate from a node that remains after a vaccination."""
    vaccines = interventions.vaccines
    reduces = vaccines.source_reduction[row, 0] > 0.0
    if HAS_DOSES:
        for dose in range(1, vaccines.source_reduction.shape[1]):
            reduces = reduces or vaccines.source_reduction[row, dose] > 0.0
    if reduces:
        safe, dose = protection(interventions, row, start, born, time, node, seed, replicate)
        return fma(-vaccines.source_reduction[row, dose], safe, real(1.0))
    return real(1.0)


def guarded(interventions, starts, time, node, seed, replicate):
    """Fraction of the infection rate from outside that remains after vaccinations."""
    left = real(1.0)
    time = later(time)
    for row in range(interventions.kind.size):
        kind = interventions.kind[row]
        if (kind == LEAKY_KIND or kind == ALL_OR_NOTHING_KIND) and time >= starts[row]:
            left *= left_by_vaccine(
                interventions, row, starts[row], born_at(interventions, starts, node), time, node,
                seed, replicate,
            )  # fmt: skip
    return left
