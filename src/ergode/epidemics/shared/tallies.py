"""Counts of what measures do: tests, doses, people who are isolated or wait, measures in force.

Each is a tally: a column of the counts on the time grid, after those of compartments.  An event
adds to the row of its time, and a running sum makes the counts, as for compartments.  Some tallies
are cumulative (tests), others say how many there are at a time (people in isolation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.shared.clock import ROUNDING, ROUNDING_32
from ergode.epidemics.shared.counts import (
    AVOIDED,
    BEGUN,
    DOSE,
    HELD,
    IN_FORCE,
    POSITIVE,
    RELEASED,
    TESTS,
    TRACED,
    TURNED_AWAY,
    WAITING,
    Happened,
    changes_of,
)
from ergode.epidemics.shared.lines import has_queue, is_limited
from ergode.epidemics.shared.names import compartment_index
from ergode.models.epidemic.compartments import CompartmentModel
from ergode.models.epidemic.interventions import (
    Capacity,
    ContactTracing,
    Intervention,
    Isolation,
)
from ergode.models.epidemic.testing import Testing
from ergode.models.epidemic.vaccination import Vaccination


class Tallies(NamedTuple):
    """Columns of the tallies of a plan."""

    # Of the quantities of a measure, doses from `DOSE` on; -1 where it has no such quantity:
    column: Any  # int32 [intervention_count, quantity]
    # Whether a node that enters a compartment may be tested once, without a limit of tests:
    tested: Any  # uint8 [intervention_count, compartment_count]
    by_layer: Any  # whether columns of contacts are followed by those of layers


_OF_LAYER = -1


class Tally(NamedTuple):
    """A quantity of a measure."""

    measure: int  # position in the plan
    quantity: int  # `_OF_LAYER` for the part in a layer of the one before
    name: str
    of: str | None  # the name of the measure, if it has one

    @property
    def label(self) -> str:
        """Label in a result; `split_label` takes it apart."""
        if self.of is None:
            return f"interventions[{self.measure}] {self.name}"
        return f"{self.of}: {self.name}"


def split_label(label: str) -> tuple[str | None, str]:
    """The name of the measure, None if it has none, and the quantity of the label of a tally."""
    name, is_named, quantity = label.partition(": ")
    if is_named and "]" not in name:  # no name has a bracket, and a layer may have a colon
        return name, quantity
    return None, label.partition("] ")[2]


def positions_of(labels: Sequence[str]) -> np.ndarray:
    """The position in the plan of the measure of each label; every measure has a tally."""
    names = [split_label(one)[0] or one.partition("] ")[0] for one in labels]
    order = {name: position for position, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], np.int64)


def listed(
    interventions: Sequence[Intervention], avoided: bool = False, layers: Sequence[str] = ()
) -> list[Tally]:
    """The tallies of a plan, in the order of their columns; also contacts `avoided`.

    Those of contacts are followed by their counts in each of the `layers`.
    """
    found = []
    for k, one in enumerate(interventions):
        for quantity, name in (*_quantities(one), (AVOIDED, "contacts avoided")):
            if quantity == AVOIDED and (not avoided or isinstance(one, Capacity)):
                continue
            found.append(Tally(k, quantity, name, one.name))
            if quantity in (TRACED, AVOIDED):
                found += [Tally(k, _OF_LAYER, f"{name} in {layer}", one.name) for layer in layers]
    return found


def _quantities(one: Intervention) -> list[tuple[int, str]]:
    if isinstance(one, Vaccination):
        return [(DOSE + d, f"dose {d + 1}") for d in range(one.dose_count)]
    found: list[tuple[int, str]] = []
    if isinstance(one, Testing):
        found = [(TESTS, "tests"), (POSITIVE, "positive")]
        traces = one.traces
        if traces:
            found.append((TRACED, "traced"))
        if one.isolation > 0.0 or (traces and one.quarantine > 0.0):
            found += [(BEGUN, "isolations"), (HELD, "isolated")]
            if one.release_after is not None:
                found.append((RELEASED, "released"))
    elif isinstance(one, ContactTracing):
        found = [(POSITIVE, "detected"), (TRACED, "traced")]
        if one.quarantine > 0.0:
            found += [(BEGUN, "quarantines"), (HELD, "quarantined")]
    elif isinstance(one, Isolation):
        found = [(BEGUN, "isolations"), (HELD, "isolated")]
    if has_queue(one) or is_limited(one):
        found.append((WAITING, "waiting"))
    if is_limited(one) or (isinstance(one, Capacity) and one.instead is not None):
        found.append((TURNED_AWAY, "turned away"))
    return [*found, (IN_FORCE, "in force")]


def tallies_of(
    interventions: Sequence[Intervention], model: CompartmentModel, first: int, avoided: bool,
    layers: Sequence[str] = (),
) -> Tallies:  # fmt: skip
    """The columns of the tallies of a plan, from the column `first` on.

    Raises a ModelError if a compartment is unknown to the model.
    """
    found = listed(interventions, avoided, layers)
    count = max(1, len(interventions))
    last = max((one.quantity for one in found), default=DOSE)
    column = np.full((count, max(last, DOSE) + 1), -1, np.int32)
    for number, one in enumerate(found):
        if one.quantity == _OF_LAYER:
            continue
        column[one.measure, one.quantity] = first + number
    tested = np.zeros((count, len(model.compartments)), np.uint8)
    for k, measure in enumerate(interventions):
        if isinstance(measure, Testing) and measure.rate is None and not is_limited(measure):
            for name in measure.sensitivity:
                tested[k, compartment_index(model, name, measure.place(k))] = 1
    return Tallies(column, tested, np.int64(bool(layers)))


def check_tallies(
    interventions: Sequence[Intervention], model: CompartmentModel, node_count: int, span: float
) -> None:
    """Refuse measures whose tallies may overflow, or that have no tally."""
    for k, one in enumerate(interventions):
        if isinstance(one, Isolation) and one.compartment == model.infections[0].susceptible:
            raise ModelError(
                f"{one.place(k)} isolates nodes in '{one.compartment}', in which all nodes "
                "begin; include='measures' counts isolation in other compartments"
            )
        if isinstance(one, Testing) and one.rate is not None:
            tests = one.rate * node_count * span
            if tests > 2**30:
                raise PlanError(
                    f"include='measures': {one.place(k)} makes {tests:.3g} tests; expected at "
                    f"most {2**30:,}: lower its rate, or use fewer nodes or times"
                )


def shown(values: Any, found: Sequence[Tally], interventions: Sequence[Intervention]) -> Any:
    """Counts [..., tally, stratum] as results have them.

    A kernel counts who an `Isolation` would isolate while it is in force.
    """
    column = {(one.measure, one.quantity): at for at, one in enumerate(found)}
    for k, one in enumerate(interventions):
        if isinstance(one, Isolation):
            values[..., column[k, HELD], :] *= values[..., column[k, IN_FORCE], :]
    return values


_LEVELS = HELD, WAITING, IN_FORCE  # quantities that rise and fall


def spells_of(
    happened: Happened, first: int, found: Sequence[Tally], interventions: Sequence[Intervention]
) -> dict[str, np.ndarray]:
    """What measures did to each node, ordered by row, node, tally and time, as flat arrays.

    `first` is the column of the first tally.  What lasts, such as an isolation, has an end, which
    is NaN if it goes on; all else has none, and the end NaN.
    """
    row, node, column, change, time = changes_of(happened)
    number = column - first
    lasts = np.isin(quantity_of(found)[number], _LEVELS)
    begun, over = _spells(*(each[lasts] for each in (row, node, number, change, time)))
    listed = [(row[~lasts], node[~lasts], number[~lasts], time[~lasts], time[~lasts] * np.nan)]
    listed.append((*(each[lasts][begun] for each in (row, node, number, time)), over))
    row, node, number, time, end = (np.concatenate(each) for each in zip(*listed, strict=True))
    near = ROUNDING_32 if happened.time.dtype == np.float32 else ROUNDING
    for k, one in enumerate(interventions):
        if isinstance(one, Isolation):
            column_of = {each.quantity: at for at, each in enumerate(found) if each.measure == k}
            row, node, number, time, end = _while_in_force(
                column_of[HELD], column_of[IN_FORCE], near, row, node, number, time, end
            )
    # The begin of an isolation is that of its spell, and a measure is in force for all nodes.
    kept = (node >= 0) & (quantity_of(found)[number] != BEGUN)
    order = np.lexsort((time, number, node, row))
    order = order[kept[order]]
    return {
        "event_replicate": row[order], "event_node": node[order], "event_tally": number[order],
        "event_time": time[order], "event_end": end[order],
    }  # fmt: skip


def quantity_of(found: Sequence[Tally]) -> np.ndarray:
    """The quantity of each tally."""
    return np.array([one.quantity for one in found], np.int64)


def _spells(
    row: np.ndarray, node: np.ndarray, number: np.ndarray, change: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions at which spells begin, and when each is over (NaN: not yet).

    Changes are in order; those of one moment are one.
    """
    if not row.size:
        return np.zeros(0, np.int64), np.zeros(0)
    same = (np.diff(row) == 0) & (np.diff(node) == 0) & (np.diff(number) == 0)
    is_first = np.append(True, ~(same & (np.diff(time) == 0)))
    total = np.add.reduceat(change, np.flatnonzero(is_first))
    at = np.flatnonzero(is_first)[total != 0]
    total = total[total != 0]
    begun = np.flatnonzero(total > 0)
    of = np.stack([row, node, number])[:, at]
    after = np.minimum(begun + 1, at.size - 1)
    ended = (total[after] < 0) & (of[:, after] == of[:, begun]).all(axis=0)
    return at[begun], np.where(ended, time[at[after]], np.nan)


def _while_in_force(
    held: int, force: int, near: float, row: np.ndarray, node: np.ndarray, number: np.ndarray,
    time: np.ndarray, end: np.ndarray,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Isolations by a measure, whose kernels list who would be isolated while it is in force.

    One that is over when it begins, but for rounding, is none, as in counts.
    """
    mine, spans = number == held, number == force
    parts = [tuple(each[~mine] for each in (row, node, number, time, end))]
    last, over = (np.where(np.isnan(end[which]), np.inf, end[which]) for which in (mine, spans))
    # Spans of a row, one after another: the k-th of each row at once.
    rank = np.arange(spans.sum()) - np.searchsorted(row[spans], row[spans])
    for k in range(int(rank.max(initial=-1)) + 1):
        here = rank == k
        starts = np.full(int(row.max(initial=0)) + 1, np.inf)
        stops = -starts
        starts[row[spans][here]], stops[row[spans][here]] = time[spans][here], over[here]
        begin = np.maximum(time[mine], starts[row[mine]])
        until = np.minimum(last, stops[row[mine]])
        some = begin * (1.0 + near) < until
        parts.append((
            row[mine][some], node[mine][some], number[mine][some], begin[some],
            np.where(np.isinf(until[some]), np.nan, until[some]),
        ))  # fmt: skip
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))
