"""Temporal contacts: pairs of nodes with the times of their meetings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.errors import ModelError
from ergode.core.notebook import card
from ergode.core.words import counted
from ergode.models.epidemic.dates import dates_of, dates_since, days_since, origin_of, text_of
from ergode.models.networks import checks
from ergode.models.networks.contact_network import ContactNetwork


@dataclass(frozen=True, eq=False, repr=False)
class TemporalContacts:
    """Temporal contacts: pairs of nodes and the times of their meetings.

    Build one with `from_meetings`, `from_layers` or `ergode.read_meetings`. The arrays are
    read-only.

    Parameters
    ----------
    network : ContactNetwork
        All pairs that ever met.
    first : array_like of int, shape [arc_count + 1]
        Meetings of arc e are ``first[e]:first[e + 1]``. Stored as int64.
    begin, end : array_like of float, shape [first[-1]]
        Begin and end of meetings [time], ascending and without overlap within an arc; equal for an
        instantaneous meeting. Stored as float64.
    amount : array_like of float, shape [first[-1]]
        Contact time of a meeting [time]: its length times its intensity, or the equivalent of an
        instantaneous meeting. Stored as float64.
    origin : date, optional
        Calendar date of time 0, if times are in days.

    Raises
    ------
    ModelError
        An argument has the wrong type or shape, meetings of an arc are not in order, or the two
        arcs of a pair in an undirected network have different meetings.

    Examples
    --------
    >>> import ergode
    >>> pair = ergode.ContactNetwork.from_edges([0], [1], directed=True)
    >>> ergode.TemporalContacts(pair, [0, 2], [1, 5], [2, 7], [1, 2])
    TemporalContacts(2 nodes, 1 pair, 2 meetings, times 1 to 7)
    """

    network: ContactNetwork
    first: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    amount: np.ndarray
    origin: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "origin", origin_of(self.origin, ()))
        if not isinstance(self.network, ContactNetwork):
            raise ModelError(
                f"network is {type(self.network).__name__}; expected a ContactNetwork. To list "
                "meetings use TemporalContacts.from_meetings"
            )
        arcs = self.network.arc_count
        first = checks.node_ids(self.first, "first").astype(np.int64)
        if first.size != arcs + 1:
            raise ModelError(
                f"first has {first.size} elements; expected one more than arcs, {arcs + 1}"
            )
        if first[0] != 0:
            raise ModelError(f"first begins with {first[0]}; expected 0")
        alone = np.diff(first) < 1
        checks.reject(alone, first[1:], "first", "each arc needs one meeting or more", 1)
        names = ("begin", "end", "amount")
        times = [_times(getattr(self, name), name, first[-1], "first ends at") for name in names]
        begin, end, amount = times
        checks.reject(end < begin, end, "end", "a meeting must not end before it begins")
        checks.reject(amount <= 0, amount, "amount", "expected a time above zero")
        late = np.ones(begin.size, bool)
        late[1:] = (begin[1:] > begin[:-1]) & (begin[1:] >= end[:-1])
        late[first[:-1]] = True
        checks.reject(~late, begin, "begin", "meetings of an arc must be in order, without overlap")
        for name, values in zip(("first", *names), (first, *times), strict=True):
            object.__setattr__(self, name, _read_only(values))
        self._check_mirrored()

    def _check_mirrored(self) -> None:
        """Raise unless both arcs of an undirected contact have the same meetings."""
        if self.network.directed:
            return
        back = self.network._transposition()
        counts = np.diff(self.first)
        same = counts == counts[back]
        if same.all():
            # Meetings of the reverse arcs, in the order of the arcs.
            shift = self.first[:-1][back] - self.first[:-1]
            other = np.arange(self.begin.size) + np.repeat(shift, counts)
            equal = np.ones(other.size, bool)
            for values in (self.begin, self.end, self.amount):
                equal &= values == values[other]
            same[np.repeat(np.arange(counts.size), counts)[~equal]] = False
        if not same.all():
            arc = int(np.argmin(same))
            one, two = int(self.network._sources()[arc]), int(self.network.targets[arc])
            raise ModelError(
                f"the network is undirected, but {one} -> {two} and {two} -> {one} differ in their "
                "meetings; use a directed network, or TemporalContacts.from_meetings"
            )

    @classmethod
    def from_meetings(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        begin: ArrayLike,
        end: ArrayLike | None = None,
        *,
        contact_time: ArrayLike | None = None,
        node_count: int | None = None,
        directed: bool = False,
        origin: Any = None,
    ) -> TemporalContacts:
        """Contacts from a list of meetings.

        Meetings of one pair that touch or overlap are joined; time that they share counts once.

        Parameters
        ----------
        source, target : array_like of int, shape [meeting_count]
            Ids of the two nodes of each meeting.
        begin : array_like of float or dates, shape [meeting_count]
            Begin of each meeting [time]; or dates with times of day, as text or of datetime, NumPy
            or pandas. The unit of time is then a day.
        end : array_like of float or dates, optional
            End of each meeting [time]. If not given, meetings are instantaneous.
        contact_time : array_like of float, optional
            For instantaneous meetings: the contact time of each meeting [time], or one number for
            all. A meeting of contact time c transmits with probability 1 - exp(-rate x c), from a
            node that is infectious at that moment to a node that is susceptible then. At the moment
            of a progression a node is already in its new compartment, and at the first of ``times``
            in its initial one. A node infected at some moment is infected only after that moment.
        node_count : int, optional
            Number of nodes; one more than the largest id if not given.
        directed : bool
            Whether only the source can infect the target.
        origin : str or date, optional
            Calendar date of time 0; the default is the day of the first meeting if meetings have
            dates. A simulation that has no other origin, nor dates as `times`, takes it.

        Raises
        ------
        ModelError
            Lengths differ, an id or a time is invalid, or a meeting ends before it begins.

        Examples
        --------
        >>> import ergode
        >>> school = ergode.TemporalContacts.from_meetings(
        ...     [0, 1, 0], [1, 2, 1], begin=[0, 5, 2], end=[2, 6, 3]
        ... )
        >>> school.meeting_count, school.begin.tolist(), school.end.tolist()
        (2, [0.0, 0.0, 5.0, 5.0], [3.0, 3.0, 6.0, 6.0])

        With dates, times are in days:

        >>> visit = ergode.TemporalContacts.from_meetings(
        ...     [0], [1], begin=["2026-03-02 09:00"], end=["2026-03-02 15:00"]
        ... )
        >>> visit.begin.tolist(), visit.end.tolist(), str(visit.origin.astype("M8[D]"))
        ([0.375, 0.375], [0.625, 0.625], '2026-03-02')
        """
        begin, end, origin = _in_days(begin, end, origin)
        one, other = checks.node_ids(source, "source"), checks.node_ids(target, "target")
        if other.size != one.size:
            raise ModelError(
                f"source has {one.size} elements and target {other.size}; they must be equal"
            )
        start = _times(begin, "begin", one.size)
        if (end is None) == (contact_time is None):
            raise ModelError(
                "give either `end`, or for instantaneous meetings the `contact_time` of each"
            )
        if end is not None:
            stop = _times(end, "end", one.size)
            checks.reject(stop <= start, stop, "end", "a meeting must end after it begins")
            amount = stop - start
        else:
            stop = start
            given: Any = contact_time
            each = given if np.ndim(given) else np.full(one.size, given)
            amount = _times(each, "contact_time", one.size)
            checks.reject(amount <= 0, amount, "contact_time", "expected a time above zero")
        kept = one != other
        one, other, start, stop, amount = (x[kept] for x in (one, other, start, stop, amount))
        if not directed:
            one, other = np.concatenate([one, other]), np.concatenate([other, one])
            start, stop, amount = (np.tile(x, 2) for x in (start, stop, amount))
        network = ContactNetwork.from_edges(one, other, node_count, directed=True)
        if not directed:
            network = network._with(directed=False)
        order = np.lexsort((start, other, one))
        one, other, start, stop, amount = (x[order] for x in (one, other, start, stop, amount))
        same = _same_pair(one, other)
        if end is not None:
            one, other, start, stop = _joined(one, other, start, stop, same)
            amount = stop - start
            same = _same_pair(one, other)
        elif start.size:  # at one moment, contact times add up
            leader = np.flatnonzero(~(same & np.append(False, start[1:] == start[:-1])))
            amount = np.add.reduceat(amount, leader)
            start, same = start[leader], same[leader]
            stop = start
        first = np.append(np.flatnonzero(~same), start.size).astype(np.int64)
        first, start, stop, amount = map(_read_only, (first, start, stop, amount))
        return cls(network, first, start, stop, amount, origin)

    @classmethod
    def from_layers(cls, contacts: Mapping[str, TemporalContacts]) -> TemporalContacts:
        """Temporal contacts with named layers, such as lessons and breaks.

        A `LayerClosure` or a `Calendar` of a layer acts on its meetings. Two nodes may meet in
        several layers, even at one time; each such meeting transmits independently.

        Parameters
        ----------
        contacts : mapping of str to TemporalContacts
            The layers, in order: the same nodes, all directed or all undirected.

        Raises
        ------
        ModelError
            A layer is not TemporalContacts, or the layers do not match (see
            `ContactNetwork.from_layers`).

        Examples
        --------
        >>> import ergode
        >>> lessons = ergode.TemporalContacts.from_meetings([0], [1], [8], [12], node_count=3)
        >>> breaks = ergode.TemporalContacts.from_meetings([0, 1], [1, 2], [9, 10], [9.5, 10.5])
        >>> school = ergode.TemporalContacts.from_layers({"lessons": lessons, "breaks": breaks})
        >>> school.network.layers, school.meeting_count
        (('lessons', 'breaks'), 3)
        """
        checks.check_layers(contacts)
        for name, part in contacts.items():
            if not isinstance(part, TemporalContacts):
                raise ModelError(
                    f"layer '{name}' is {type(part).__name__}; expected TemporalContacts"
                )
        origins = [part.origin for part in contacts.values() if part.origin is not None]
        if origins and len(origins) < len(contacts):
            raise ModelError("some layers have dates and others do not; expected all or none")
        origin = min(origins, default=None)
        contacts = {name: part.since(origin) for name, part in contacts.items()}
        network = ContactNetwork.from_layers({name: p.network for name, p in contacts.items()})
        of_arc = np.asarray(network.layer)
        counts = np.zeros(network.arc_count, np.int64)
        for k, part in enumerate(contacts.values()):
            counts[of_arc == k] = np.diff(part.first)
        first = np.append(0, np.cumsum(counts))
        times = np.empty((3, first[-1]))
        layer = np.repeat(of_arc, counts)
        for k, part in enumerate(contacts.values()):
            # Arcs of a layer keep their order among all arcs.
            times[:, layer == k] = part.begin, part.end, part.amount
        first, begin, end, amount = map(_read_only, (first, *times))
        return cls(network, first, begin, end, amount, origin)

    def since(self, origin: Any) -> TemporalContacts:
        """The same meetings, with times in days since another date; without dates as they are.

        Raises
        ------
        ModelError
            `origin` is not a date.
        """
        zero = origin_of(origin, ())
        if zero is None or self.origin is None or zero == self.origin:
            return self
        shift = float(days_since(zero, "origin", self.origin, may_precede=True))
        begin, end = (_read_only(times + shift) for times in (self.begin, self.end))
        return TemporalContacts(self.network, self.first, begin, end, self.amount, zero)

    @property
    def meeting_count(self) -> int:
        """Number of meetings; touching meetings of a pair count as one."""
        return int(self.begin.size) // (1 if self.network.directed else 2)

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return self.network.node_count

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all contents, in hexadecimal."""
        identity = hashlib.sha256(self.network.digest.encode())
        for array in (self.first, self.begin, self.end, self.amount):
            identity.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        if self.origin is not None:
            identity.update(text_of(self.origin).encode())
        return identity.hexdigest()

    def with_attributes(self, **arrays: ArrayLike) -> TemporalContacts:
        """The same meetings, with node attributes added or replaced."""
        network = self.network.with_attributes(**arrays)
        times = self.first, self.begin, self.end, self.amount
        return TemporalContacts(network, *times, self.origin)

    def _repr_html_(self) -> str:
        facts = {
            "nodes": self.node_count,
            "pairs": self.network.edge_count,
            "meetings": self.meeting_count,
            "from": float(self.begin.min()) if self.begin.size else None,
            "to": float(self.end.max()) if self.end.size else None,
        }
        return card("TemporalContacts", facts)

    def __repr__(self) -> str:
        span = "none"
        if self.begin.size:
            ends: Any = [self.begin.min(), self.end.max()]
            if self.origin is not None:
                ends = dates_since(self.origin, np.array(ends)).astype("datetime64[s]")
            span = "times " + " to ".join(map(text_of, ends))
        return (
            f"TemporalContacts({counted(self.node_count, 'node')}, "
            f"{counted(self.network.edge_count, 'pair')}, "
            f"{counted(self.meeting_count, 'meeting')}, {span})"
        )


def _in_days(begin: Any, end: Any, origin: Any) -> tuple[Any, Any, Any]:
    """Dates of meetings as days since the origin; numbers as they are."""
    dates = dates_of("begin", begin)
    last = None if end is None else dates_of("end", end)
    if dates is None or not dates.size:
        if last is not None and last.size:
            raise ModelError("end has dates and begin has numbers; expected both to have dates")
        return begin, end, origin_of(origin, ())
    if end is not None and last is None:
        raise ModelError("begin has dates and end has numbers; expected both to have dates")
    zero = origin_of(dates.min().astype("M8[D]") if origin is None else origin, ())
    days = days_since(zero, "begin", dates, may_precede=True)
    return days, None if last is None else days_since(zero, "end", last, may_precede=True), zero


def _times(values: Any, name: str, count: int, like: str = "source has") -> np.ndarray:
    array = checks.one_dimensional(values, name)
    if array.size != count:
        raise ModelError(f"{name} has {array.size} elements and {like} {count}; expected equal")
    if array.size and array.dtype.kind not in "iuf":
        raise ModelError(f"{name} holds {array.dtype}; expected numbers")
    array = array.astype(np.float64)
    checks.reject(~np.isfinite(array), array, name, "expected finite times")
    return array


def _same_pair(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Whether each meeting has the pair of the previous meeting."""
    same = np.zeros(source.size, bool)
    same[1:] = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    return same


def _joined(
    source: np.ndarray, target: np.ndarray, start: np.ndarray, stop: np.ndarray, same: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Sorted meetings; touching or overlapping ones are merged."""
    if not source.size:
        return source, target, start, stop
    # The latest end so far within the pair: a running maximum that restarts with each pair. It uses
    # integers, so that both arcs of a pair get equal results.
    ends, number = np.unique(stop, return_inverse=True)
    base = np.cumsum(~same) * ends.size
    latest = ends[np.maximum.accumulate(number + base) - base]
    begins = np.ones(source.size, bool)
    # Times that differ only by rounding touch, in any unit and from any origin.
    low, high = float(start.min()), float(stop.max())
    near = 1e-9 * (high - low) + 1e-15 * max(abs(low), abs(high))
    begins[1:] = ~(same[1:] & (start[1:] <= latest[:-1] + near))
    heads = np.flatnonzero(begins)
    return source[heads], target[heads], start[heads], np.maximum.reduceat(stop, heads)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
