"""When the doses of a vaccination programme are given, by the rank of a node in its queue.

The times do not depend on the epidemic, so they are the same in all replicates.  Only which node
has which rank is random: `Queue` says which ranks the nodes of equal priority share, and
`shared.vaccines` permutes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ergode.core.errors import ModelError
from ergode.epidemics.shared.clock import ROUNDING
from ergode.epidemics.shared.names import attribute, members_of
from ergode.models.epidemic.attributes import ByAttribute, Network, entry_of_nodes
from ergode.models.epidemic.calendars import Calendar
from ergode.models.epidemic.vaccination import Vaccination


class Queue(NamedTuple):
    """The eligible nodes of a programme; classes are nodes of equal priority, the first first."""

    place: np.ndarray  # of each node in the order of classes, int32 [node_count]; -1: not eligible
    size: np.ndarray  # nodes of each class, int64 [class_count]
    taken: np.ndarray  # of these, nodes that are vaccinated


def queue_of(one: Vaccination, contacts: Network, where: str) -> Queue:
    """The queue of a programme.

    Raises a ModelError if the network has no such attribute, or its values are no numbers.
    """
    eligible = np.arange(contacts.node_count)
    if isinstance(one.among, str):
        eligible = np.flatnonzero(members_of(contacts, one.among, where))
    urgency = urgency_of(one.priority, contacts, where)
    order = eligible[np.argsort(-urgency[eligible], kind="stable")]
    place = np.full(contacts.node_count, -1, np.int32)
    place[order] = np.arange(order.size)
    first = np.flatnonzero(np.append(True, np.diff(urgency[order]) != 0)[: order.size])
    size = np.diff(np.append(first, order.size))
    # Rounded sums: so the total is right, however small the classes are.
    taken = np.diff(np.rint(one.fraction * np.cumsum(size)), prepend=0.0).astype(np.int64)
    return Queue(place, size.astype(np.int64), taken)


def urgency_of(priority: str | ByAttribute | None, contacts: Network, where: str) -> np.ndarray:
    """A number for each node; those with the largest come first.

    Raises a ModelError if the network has no such attribute, or its values are no numbers.
    """
    if priority is None:
        return np.zeros(contacts.node_count)
    if isinstance(priority, ByAttribute):
        entry = entry_of_nodes(priority.division, contacts)
        return np.asarray(priority.entries, float)[entry]
    given = attribute(contacts, priority, where)
    if given.dtype.kind not in "biuf" or not np.isfinite(given).all():
        raise ModelError(
            f"{where}: priority '{priority}' has values that are no finite numbers; expected "
            "numbers, or an ergode.ByAttribute with a number for each value"
        )
    return np.asarray(given, float)


_DOSES_MOST = 2.0**53  # whose numbers are exact


class _Supply:
    """Doses given since the start of a programme, and the time of each, up to an end."""

    def __init__(self, one: Vaccination, start: float, end: float) -> None:
        rate = one.dose_rate
        change, level = np.zeros(1), np.full(1, rate if isinstance(rate, float) else 0.0)
        if isinstance(rate, Calendar):
            moments = np.asarray(rate.changes, float)
            if rate.period is not None:
                cycles = np.arange(start // rate.period, end // rate.period + 1)
                moments = (moments + cycles[:, None] * rate.period).ravel()
            inside = moments[(moments > start) & (moments < end)]
            middle = 0.5 * (np.append(start, inside) + np.append(inside, end))
            change, level = np.append(start, inside) - start, rate.at(middle)
        self.change, self.rate = change, level
        before = np.append(0.0, np.cumsum(np.diff(change) * level[:-1]))
        whole = np.rint(before)  # sums round
        self.before = np.where(np.abs(before - whole) < 1e-9 * (1.0 + whole), whole, before)
        most = float(self.until(np.array(end - start))) * (1.0 + ROUNDING)
        if most >= _DOSES_MOST:
            raise ModelError(
                f"Vaccination: dose_rate gives {most:.3g} doses until the last time; expected "
                "fewer than 2^53, or no dose_rate, which vaccinates all at once"
            )
        self.most = int(most)

    def until(self, time: np.ndarray) -> np.ndarray:
        """The integral of the rate up to a time."""
        at = np.maximum(np.searchsorted(self.change, time, side="right") - 1, 0)
        return np.asarray(self.before[at] + self.rate[at] * (time - self.change[at]))

    def first_from(self, time: np.ndarray) -> np.ndarray:
        """The number of the first dose that is not before a time."""
        near = time - ROUNDING * (1.0 + np.abs(time))
        number = np.maximum(np.ceil(self.until(near)).astype(np.int64), 1)
        # Where no doses are given for a while, the last one before has this number.
        return number + (self.time_of(np.minimum(number, self.most)) < near)

    def time_of(self, number: np.ndarray) -> np.ndarray:
        """The moment of dose 1, 2, ..., which is at most `most`."""
        at = np.searchsorted(self.before, number, side="left") - 1
        return np.asarray(self.change[at] + (number - self.before[at]) / self.rate[at])


def dose_times(one: Vaccination, node_count: int, start: float, end: float) -> np.ndarray:
    """Times of all doses since the start of a programme, shape [dose_count, node_count].

    A row has the nodes in the order of their ranks; doses that are not given by `end` have an
    infinite time.  A dose goes to the node that has been due the longest for a later dose, else to
    the next rank for its first dose, else to nobody.
    """
    given = np.full((one.dose_count, node_count), np.inf)
    if end <= start or not node_count:
        return given
    supply, interval = _Supply(one, start, end), np.array(one.intervals)
    done = np.zeros(one.dose_count, np.int64)  # nodes that have had each dose
    first = 1  # the number of the next dose
    while first <= supply.most and done[-1] < node_count:
        last = supply.most
        if interval.size:
            # Whoever is due in less than the shortest interval has had the dose before already.
            stop = supply.time_of(np.array(first)) + (1.0 - 1e-9) * interval.min()
            last = min(last, max(first, int(np.floor(supply.until(stop)))))
        due, dose = _due(given, done, interval, ROUNDING * (1.0 + end - start))
        soonest = np.maximum(supply.first_from(due), first)
        waiting = np.arange(due.size)
        number = np.maximum.accumulate(soonest - waiting) + waiting if due.size else soonest
        served = int(np.searchsorted(number, last, side="right"))
        number, dose = number[:served], dose[:served]
        for d in range(1, one.dose_count):
            mine = number[dose == d]
            given[d, done[d] : done[d] + mine.size] = supply.time_of(mine)
        free = last - first + 1 - served
        beginners = np.arange(min(free, node_count - done[0]))
        left = beginners + np.searchsorted(number - waiting[:served] - first, beginners, "right")
        given[0, done[0] : done[0] + beginners.size] = supply.time_of(first + left)
        done += np.bincount(dose, minlength=one.dose_count)
        done[0] += beginners.size
        first = last + 1
    return given


def _due(
    given: np.ndarray, done: np.ndarray, interval: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """When nodes are due for a later dose, ascending, and for which; of equals the last first."""
    due, dose = [np.zeros(0)], [np.zeros(0, np.int64)]
    for d in range(len(given) - 1, 0, -1):
        due.append(given[d - 1, done[d] : done[d - 1]] + interval[d - 1])
        dose.append(np.full(due[-1].size, d, np.int64))
    whole, doses = np.concatenate(due), np.concatenate(dose)
    order = np.argsort(np.rint(whole / rounding), kind="stable")
    return whole[order], doses[order]
