"""Interventions.

An intervention starts and stops at given times, or when a `Trigger` says so.  It lowers the rate of
some transmissions.  It never uses future events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergode.core.arguments import check_once, check_switch, check_text
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute, priority_by
from ergode.models.epidemic.dates import Moment, moment_of, number_of, text_of
from ergode.models.holding_times.families import Exponential

SHARE = (0.0, 1.0)
SPAN = (0.0, math.inf)
CASES = "cases"
ALL_CONTACTS = ""  # the one layer of a network without named layers


@dataclass(frozen=True)
class Trigger:
    """A count of nodes that reaches a threshold, or falls below it.

    A measure with a trigger for its `start` and another for its `stop` starts and stops again and
    again.  It does not start while the condition of its `stop` holds.  Counts are compared after
    all events of a moment, and from the moment on at which the last start or stop took effect.

    Parameters
    ----------
    count : str or sequence of str
        A compartment; or ``"cases"``: cumulative infections, with seeds and importations; or
        several of these, whose counts are added.  Compartments do not overlap, but a case is also
        in some compartment: ``["I", "cases"]`` counts an infectious case twice.
    level : int, optional
        Threshold of the count.
    delay : float
        Delay from reaching the threshold to the start or stop of the intervention [time].
    below : bool
        Whether the count must be below the threshold; otherwise at the threshold or above.
    window : float, optional
        Count only what is new: cases, or entries into the compartments, within this time [time].
        An entry counts until just before its age is the window.
    fraction : float, optional
        In place of `level`: the threshold as a fraction of all nodes, or of those of `among`.
    among : str or mapping, optional
        Count some nodes alone: those with a nonzero value of a node attribute; or those with a
        value of an attribute, or one of several, such as ``{"age_group": "65+"}``.

    Examples
    --------
    >>> import ergode
    >>> ergode.Trigger("cases", 5).counted
    ('cases',)

    Schools close at 50 infectious nodes, and open when there are fewer than 10, again and again:

    >>> closure = ergode.LayerClosure(
    ...     "school", start=ergode.Trigger("I", 50), stop=ergode.Trigger("I", 10, below=True)
    ... )

    One in a thousand or more has become a case within seven days; a tenth of the elderly is ill:

    >>> incidence = ergode.Trigger("cases", fraction=0.001, window=7)
    >>> elderly = ergode.Trigger("I", fraction=0.1, among={"age_group": "65+"})
    """

    count: str | Sequence[str]
    level: int | None = None
    delay: float = 0.0
    below: bool = False
    window: float | None = field(default=None, kw_only=True)
    fraction: float | None = field(default=None, kw_only=True)
    among: str | Mapping[str, Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.level is None) == (self.fraction is None):
            raise ModelError("Trigger: expected either a level or a fraction")
        if self.fraction is not None:
            share = number_of("Trigger", "fraction", self.fraction, *SHARE)
            if not share > 0:
                raise ModelError("Trigger: fraction is 0; expected a number above zero, up to 1")
            object.__setattr__(self, "fraction", share)
        elif isinstance(self.level, bool) or not isinstance(self.level, int | np.integer):
            raise ModelError(f"Trigger: level is {self.level!r}; expected a whole number")
        if not self.counted or not all(isinstance(name, str) for name in self.counted):
            raise ModelError(
                f"Trigger: count is {self.count!r}; expected a compartment, several, or 'cases'"
            )
        check_once("Trigger: count", self.counted)
        if self.level is not None and self.level < 1:
            raise ModelError(f"Trigger: level is {self.level}; expected 1 or more")
        check_switch("Trigger", "below", self.below)
        object.__setattr__(self, "delay", number_of("Trigger", "delay", self.delay))
        if self.window is not None:
            window = number_of("Trigger", "window", self.window)
            if not 0 < window < math.inf:
                raise ModelError(f"Trigger: window is {window!r}; expected a finite time above 0")
            object.__setattr__(self, "window", window)
        self._check_among()

    def _check_among(self) -> None:
        among = self.among
        if among is None:
            return
        if isinstance(among, Mapping) and len(among) == 1:
            name, values = next(iter(among.items()))
            listed = isinstance(values, Iterable) and not isinstance(values, str)
            check_text("Trigger", "among", name)
            given = tuple(values) if listed else (values,)
            if not given:
                raise ModelError(f"Trigger: among has no value of '{name}'; expected one or more")
            object.__setattr__(self, "among", {name: given})
        elif isinstance(among, str):
            check_text("Trigger", "among", among)
        else:
            raise ModelError(
                f"Trigger: among is {among!r}; expected the name of a node attribute, or one "
                "attribute and its values, such as {'age_group': '65+'}"
            )

    @property
    def condition(self) -> str:
        """The condition in words."""
        level = self.level if self.fraction is None else f"{100 * self.fraction:g} %"
        new = "" if self.window is None else "new "
        return f"{new}{' + '.join(self.counted)} {'<' if self.below else '>='} {level}"

    @property
    def threshold(self) -> float:
        """The level or the fraction."""
        return float(self.level if self.fraction is None else self.fraction)  # type: ignore[arg-type]

    def counts_like(self, other: Trigger) -> bool:
        """Whether another trigger counts the same, and has a threshold of the same kind."""
        return (
            set(self.counted) == set(other.counted)
            and (self.window, self.among) == (other.window, other.among)
            and (self.fraction is None) == (other.fraction is None)
        )

    def overlaps(self, other: Trigger) -> bool:
        """Whether one count has to be above a level and below a higher one."""
        if not self.counts_like(other) or self.below == other.below:
            return False
        above, below = (other, self) if self.below else (self, other)
        return above.threshold < below.threshold

    def implies(self, other: Trigger) -> bool:
        """Whether the condition of `other` holds wherever this one holds."""
        if not self.counts_like(other) or self.below != other.below:
            return False
        if self.below:
            return self.threshold <= other.threshold
        return self.threshold >= other.threshold

    @property
    def counted(self) -> tuple[str, ...]:
        """The counted compartments (or ``"cases"``) as a tuple."""
        return (self.count,) if isinstance(self.count, str) else tuple(self.count)


def _is_cumulative(trigger: Trigger) -> bool:
    return trigger.counted == (CASES,) and trigger.window is None


def _check_names(one: Intervention) -> None:
    """Refuse compartments and attributes that are not one name each."""
    owner = type(one).__name__
    for name in ("compartment", "instead", "among", "contacts_among"):
        value = getattr(one, name, None)
        if isinstance(value, ByAttribute) and name.endswith("among"):
            for share, label in zip(value.entries, value.labels, strict=True):
                number_of(owner, f"{name} for {label}", share, *SHARE)
        elif value is not None or (name == "compartment" and hasattr(one, name)):
            check_text(owner, name, value)


def check_tracing(owner: str, given: Any) -> float | dict[str, float]:
    """A checked probability of tracing, or those of layers."""
    if not isinstance(given, Mapping):
        return number_of(owner, "tracing", given, *SHARE)
    if not given:
        raise ModelError(f"{owner}: tracing is empty; expected a probability for each layer")
    for name in given:
        check_text(owner, "tracing of a layer", name)
    return {
        name: number_of(owner, f"tracing of '{name}'", share, *SHARE)
        for name, share in given.items()
    }


@dataclass(frozen=True)
class Intervention:
    """Base class of all interventions.

    Attributes
    ----------
    start : float, date or Trigger, optional
        Start [time, on the axis of ``times``]; the default is the beginning of the simulation.
        A date, such as ``"2026-03-16"``, goes with the `origin` of the simulation.
    stop : float, date or Trigger, optional
        Stop, instead of a duration.  If `start` and `stop` are triggers, the measure starts and
        stops again and again; otherwise it does so once.  A vaccination has no stop.
    name : str, optional
        Name of the measure in counts, costs, tables and messages, such as ``"clinics"``; by
        default ``interventions[0]``, by its position.  The measures of a run have different names.
    """

    start: Moment | Trigger | None = field(default=None, kw_only=True)
    stop: Moment | Trigger | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the name, and then all else with messages that name the measure."""
        kind, name = type(self).__name__, self.name
        if name is None:
            self._check_fields()
            return
        check_text(kind, "name", name)
        if not name or name != name.strip() or not name.isprintable() or set(name) & set(":[]"):
            raise ModelError(
                f"{kind}: name is {name!r}; expected text without ':', '[' and ']', and without "
                "spaces at its ends, such as 'clinics'"
            )
        try:
            self._check_fields()
        except ModelError as error:
            what = str(error).removeprefix(f"{kind}: ")
            raise ModelError(f"{self.title}: {what}") from None

    def _check_fields(self) -> None:
        """Check the start, the stop and all that a kind of measure has of its own."""
        self._check()

    @property
    def title(self) -> str:
        """The kind of the measure, and its name if it has one, for messages."""
        kind = type(self).__name__
        return kind if self.name is None else f"{kind} '{self.name}'"

    def place(self, position: int) -> str:
        """Where the measure stands in a plan, and its name if it has one, for messages."""
        place = f"interventions[{position}]"
        return place if self.name is None else f"{place} '{self.name}'"

    def _check(self, **bounds: tuple[float, float]) -> None:
        owner = type(self).__name__
        _check_names(self)
        for name in ("start", "stop"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Trigger):
                moment = moment_of(owner, name, value)
                if isinstance(moment, float) and not math.isfinite(moment):
                    raise ModelError(
                        f"{owner}: {name} is {moment}; expected a finite time or a Trigger"
                    )
                object.__setattr__(self, name, moment)
        for name, (least, most) in bounds.items():
            value = number_of(owner, name, getattr(self, name), least, most)
            object.__setattr__(self, name, value)
        if self.stop is not None:
            self._check_stop(owner)

    def _check_stop(self, owner: str) -> None:
        start, stop = self.start, self.stop
        if math.isfinite(getattr(self, "duration", math.inf)):
            raise ModelError(f"{owner}: it has a stop and a duration; expected one of them")
        if isinstance(stop, Trigger) and stop.below and _is_cumulative(stop):
            raise ModelError(
                f"{owner}: it never stops by {stop.condition}, because cases are cumulative and "
                "never fall; count a compartment, such as Trigger('I', 10, below=True), or give a "
                "window"
            )
        if isinstance(start, Trigger) and isinstance(stop, Trigger):
            if start.implies(stop):
                raise ModelError(
                    f"{owner}: it never starts: while {start.condition}, {stop.condition} stops it"
                )
            if start.overlaps(stop):
                raise ModelError(
                    f"{owner}: {start.condition} starts it and {stop.condition} stops it, and both "
                    "may hold together; expected thresholds that exclude this"
                )
        # Of a date and a number, the later one is known with the origin alone.
        elif type(start) is type(stop) and stop < start:  # type: ignore[operator]
            raise ModelError(
                f"{owner}: it stops at {text_of(stop)}, before it starts at {text_of(start)}"
            )

    def duration_from(self, start: float) -> float:
        """Duration of the measure if it starts at a time, unless a trigger stops it."""
        if self.stop is None or isinstance(self.stop, Trigger):
            return float(getattr(self, "duration", math.inf))
        return float(self.stop) - start


@dataclass(frozen=True)
class LayerClosure(Intervention):
    """Temporary reduction of the contacts in a layer: a closed school, work from home.

    Parameters
    ----------
    layer : str, optional
        Name of the layer; the default is all contacts.
    reduction : float
        Fraction by which transmission in the layer is reduced, 0 to 1.
    duration : float
        Duration of the closure [time].
    start, stop : float, date or Trigger, optional
        Start of the closure, and its stop instead of a duration.
    name : str, optional
        Name of the measure in results; see `Intervention`.

    Examples
    --------
    >>> import ergode
    >>> closure = ergode.LayerClosure("school", duration=14, start=ergode.Trigger("I", 20))
    >>> closure.reduction
    1.0
    """

    layer: str | None = None
    reduction: float = 1.0
    duration: float = math.inf

    def _check_fields(self) -> None:
        if not isinstance(self.layer, str | None):
            raise ModelError(
                f"LayerClosure: layer is {self.layer!r}; expected the name of one layer, and a "
                "closure for each"
            )
        self._check(reduction=SHARE, duration=SPAN)


@dataclass(frozen=True)
class Isolation(Intervention):
    """Isolation of a fraction of the nodes in a compartment, until they leave it.

    Parameters
    ----------
    compartment : str
        Compartment whose nodes are isolated.
    fraction : float
        Fraction of the nodes that enter the compartment, 0 to 1.
    delay : float
        Time from entry to isolation [time].
    reduction : float
        Fraction by which isolated nodes transmit less, 0 to 1.
    duration : float
        Duration of the measure after its start [time].
    among : str or ByAttribute, optional
        Name of a node attribute: only nodes with a nonzero value are isolated. Or the
        probabilities that a node takes part, by an attribute; each is drawn once in a replicate.
    start, stop : float, date or Trigger, optional
        Start of the measure, and its stop instead of a duration.
    name : str, optional
        Name of the measure in results; see `Intervention`.
    """

    compartment: str
    fraction: float = 1.0
    delay: float = 0.0
    reduction: float = 1.0
    duration: float = math.inf
    among: str | ByAttribute | None = None

    def _check_fields(self) -> None:
        self._check(fraction=SHARE, delay=SPAN, reduction=SHARE, duration=SPAN)


@dataclass(frozen=True)
class ContactTracing(Intervention):
    """Detect cases, trace their contacts, and quarantine both.

    A node that enters `compartment` is detected with a probability, after a delay, and then
    quarantined.  Each of its contacts is traced with a probability, and quarantined after another
    delay.  Contacts are the arcs of the network; with temporal contacts, those active within
    `lookback`.  A node in quarantine transmits less and is less susceptible; a
    contact of two nodes in quarantine is reduced once.  Tracing that begins with a positive test is
    an option of `Testing`.

    Parameters
    ----------
    compartment : str
        Entry into this compartment is detected; for example, the onset of symptoms.
    detection : float
        Probability that a case is detected.
    detection_delay : float
        Time from entry into the compartment to detection [time].
    tracing : float or mapping of str to float
        Probability that a contact of a detected case is traced; or that of each layer, such as
        ``{"home": 1.0, "work": 0.4}``, and zero in others.
    tracing_delay : float
        Time from detection of the case to quarantine of the contact [time].
    quarantine : float
        Duration of a quarantine [time].
    reduction : float
        Fraction by which quarantine reduces transmission from and to a node.
    lookback : float
        With `TemporalContacts`: contacts older than this are not traced [time].
    duration : float
        Duration of the measure after its start [time].
    among, contacts_among : str or ByAttribute, optional
        Name of a node attribute: only nodes with a nonzero value are detected, or traced as
        contacts. Or the probabilities that a node takes part, by an attribute; each is drawn once
        in a replicate.
    start, stop : float, date or Trigger, optional
        Start of the measure, and its stop instead of a duration.
    name : str, optional
        Name of the measure in results; see `Intervention`.

    Examples
    --------
    All at home are traced, and some at work; the young are quarantined less often:

    >>> import ergode
    >>> tracing = ergode.ContactTracing(
    ...     "I", detection=0.6, tracing={"home": 1.0, "work": 0.4}, quarantine=10,
    ...     contacts_among=ergode.ByAttribute("age", [0.5, 0.9], groups=[0, 30]),
    ... )
    """

    compartment: str
    detection: float = 1.0
    detection_delay: float = 0.0
    tracing: float | Mapping[str, float] = 1.0
    tracing_delay: float = 0.0
    quarantine: float = math.inf
    reduction: float = 1.0
    lookback: float = math.inf
    duration: float = math.inf
    among: str | ByAttribute | None = None
    contacts_among: str | ByAttribute | None = None

    def _check_fields(self) -> None:
        self._check(
            detection=SHARE, detection_delay=SPAN, tracing_delay=SPAN, quarantine=SPAN,
            reduction=SHARE, lookback=SPAN, duration=SPAN,
        )  # fmt: skip
        object.__setattr__(self, "tracing", check_tracing("ContactTracing", self.tracing))


@dataclass(frozen=True)
class Capacity(Intervention):
    """Places in a compartment, such as beds: who finds none goes elsewhere, or waits.

    Parameters
    ----------
    compartment : str
        Compartment that has a number of places. Progressions into it are diverted.
    places : int
        Number of places.
    instead : str, optional
        Compartment that nodes enter while all places are taken. It has to be a branch beside
        `compartment`, of probability 0 if nobody goes there otherwise; so it has a holding time and
        outcomes of its own.
    wait : bool
        Whether nodes wait until a place is free; without a `patience` in place of `instead`.
    patience : float or Exponential, optional
        With `wait`: longest time that a node waits, after which it enters `instead`. An exponential
        time is the death of those who wait at a rate [time].
    priority : str or ByAttribute, optional
        Among those who wait: name of a node attribute, nodes with the largest value come first,
        such as ``"age"``; or the numbers of a ByAttribute. Nodes of equal priority, or all nodes
        without a priority, come in the order in which they began to wait.

    Notes
    -----
    Whether a place is free is decided after all events of a moment. Nodes that arrive at one moment
    therefore all enter if there was a free place before, and a place that becomes free at a moment
    can be taken from then on. Arrivals at exactly one moment happen only with holding times of a
    fixed length; sums of these may differ by rounding, as 0.4 + 0.8 is a little later than 1.2.
    Seeds are placed whatever the capacity. Several capacities act in their order: an
    intensive care unit that is full can send to a ward, which can send home.

    A node that waits stays in the compartment from which it comes: it infects others as before, the
    time since it entered that compartment goes on, and an isolation there lasts. A place ends its
    wait, or its patience, or an exit from its compartment (`Progression`) beside a holding time
    that is not exponential. Each place that becomes free is for the node of the highest
    priority, and of these the one that has waited the longest, which enters just after that moment;
    of nodes that began to wait at one moment, the lower node number comes first. While nodes wait,
    nobody else enters. Nodes cannot wait in a compartment from which an infection leads, or in
    which tests at a rate may be positive.

    Examples
    --------
    Fifty beds; without one, more die:

    >>> import ergode
    >>> week = ergode.Gamma(mean=7, sd=3)
    >>> model = ergode.CompartmentModel(
    ...     ["S", "I", "H", "N", "R", "D"],
    ...     [ergode.Infection("S", "I", {"I": 0.3})],
    ...     [
    ...         ergode.Progression("I", {"H": 0.1, "N": 0.0, "R": 0.9}, week),
    ...         ergode.Progression("H", {"D": 0.1, "R": 0.9}, week),
    ...         ergode.Progression("N", {"D": 0.5, "R": 0.5}, week),
    ...     ],
    ... )
    >>> beds = ergode.Capacity("H", 50, instead="N")

    Without one, nodes wait in I until there is one; the youngest get the next one:

    >>> beds = ergode.Capacity("H", 50, wait=True)
    >>> youngest = ergode.ByAttribute("age", [2, 1, 0], groups=[0, 20, 60])
    >>> beds = ergode.Capacity("H", 50, wait=True, priority=youngest)

    Who has waited for two weeks goes to N:

    >>> beds = ergode.Capacity("H", 50, instead="N", wait=True, patience=14)
    """

    compartment: str
    places: int
    instead: str | None = None
    wait: bool = False
    priority: str | ByAttribute | None = None
    patience: float | Exponential | None = None

    def _check_fields(self) -> None:
        _check_names(self)
        places = self.places
        if isinstance(places, bool) or not isinstance(places, int | np.integer) or places < 1:
            raise ModelError(f"Capacity: places is {places!r}; expected a whole number, 1 or more")
        check_switch("Capacity", "wait", self.wait)
        if self.patience is not None:
            self._check_patience()
        elif self.wait == (self.instead is not None):
            raise ModelError(
                "Capacity: expected either a compartment that nodes enter instead, or wait=True; "
                "or both and a patience"
            )
        if self.priority is not None and not self.wait:
            raise ModelError("Capacity: priority is for nodes that wait, but wait is False")
        object.__setattr__(self, "priority", priority_by("Capacity", self.priority))
        if self.compartment == self.instead:
            raise ModelError(
                f"Capacity: '{self.compartment}' cannot be its own replacement; expected another "
                "compartment"
            )
        full = Trigger(self.compartment, int(places))
        free = Trigger(self.compartment, int(places), below=True)
        given = [one for one in (self.start, self.stop) if one is not None]
        if given and (not all(isinstance(one, Trigger) for one in given) or given != [full, free]):
            raise ModelError(
                "Capacity: expected no start and no stop; it acts while all places are taken"
            )
        object.__setattr__(self, "start", full)
        object.__setattr__(self, "stop", free)

    def _check_patience(self) -> None:
        if not self.wait or self.instead is None:
            raise ModelError(
                "Capacity: patience is for nodes that wait and then go elsewhere; expected "
                "wait=True and a compartment that they enter instead"
            )
        if not isinstance(self.patience, Exponential):
            time = number_of("Capacity", "patience", self.patience)
            if not 0 < time < math.inf:
                raise ModelError(
                    f"Capacity: patience is {self.patience!r}; expected a finite time above zero, "
                    "or an Exponential"
                )
            object.__setattr__(self, "patience", time)
