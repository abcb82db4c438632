"""Testing and isolation of who is positive: without a limit, or with a number of tests a day."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ergode.core.arguments import check_switch
from ergode.core.errors import ModelError
from ergode.models.epidemic.attributes import ByAttribute, priority_by
from ergode.models.epidemic.calendars import Calendar, calendar_of
from ergode.models.epidemic.dates import number_of
from ergode.models.epidemic.interventions import SHARE, SPAN, Intervention, check_tracing

_MOST = 2**31 - 1  # tests of a period


@dataclass(frozen=True)
class Testing(Intervention):
    """Test nodes, and isolate those whose test is positive.

    Without a `rate` nodes are tested once, when they enter a compartment, for example at the onset
    of symptoms.  With a `rate` each node is tested at random times, again and again.  A test is
    positive with a probability that depends on the node's compartment.  After a delay the node is
    isolated; it then transmits less and is less susceptible.  With `tracing`, its contacts are
    traced, and isolated too.

    Parameters
    ----------
    sensitivity : mapping of str to float
        Probability that a test is positive, by the compartment of the node; zero in all others.
        Tests of nodes that an infection may reach are always negative.
    fraction : float
        Without a `rate`: probability that a node is tested when it enters one of the compartments.
    rate : float, optional
        Rate of a Poisson process of tests of each node [1 / time].
    delay : float
        Time from the test to the isolation [time].
    isolation : float
        Duration of an isolation [time].  A positive test meanwhile prolongs it.
    reduction : float
        Fraction by which isolation reduces transmission from and to a node.  A contact of two
        isolated nodes is reduced once; those of several measures are multiplied.
    duration : float
        Duration of the measure after its start [time].
    among : str or ByAttribute, optional
        Name of a node attribute: only nodes with a nonzero value are tested. Or the probabilities
        that a node takes part, by an attribute; each is drawn once in a replicate.
    capacity : int or Calendar, optional
        Without a `rate`: tests in each `period`, negative ones included: a number, or whole numbers
        that change at times or dates.  A series of pandas is taken as a Calendar.  Nodes that
        wait are tested at the moment a period begins, and counts at that time include them: to see
        the tests of each period, take ``times`` between these moments.
    period : float
        With a `capacity`: its period [time].  Periods begin with the start of the measure; if that
        is a Trigger, with the first of ``times``.
    wait : bool
        With a `capacity`: whether nodes that find no test left wait for one; otherwise they are not
        tested.
    priority : str or ByAttribute, optional
        Among those who wait: name of a node attribute, nodes with the largest value come first,
        such as ``"age"``; or the numbers of a ByAttribute.  Nodes of equal priority, or all nodes
        without a priority, come in the order in which they asked.
    tracing : float or mapping of str to float
        Probability that a contact of a node is traced after its positive test; or that of each
        layer, such as ``{"home": 1.0, "work": 0.4}``, and zero in others.  Contacts are those of
        `ContactTracing`.
    tracing_delay : float
        Time from the isolation of the node to that of its contacts [time].
    quarantine : float
        Duration of the isolation of a contact [time].
    lookback : float
        With `TemporalContacts`: contacts older than this, at the time of the test, are not traced
        [time].
    contacts_among : str or ByAttribute, optional
        Which contacts can be traced, as `among`.
    release_after : float, optional
        Time from the begin of an isolation by this measure, of a case or a contact, to a further
        test [time].  If it is negative, the isolation ends.
    release_every : float, optional
        Time from a positive test of this kind to the next one [time]. By default there is no next
        one.
    test_contacts : bool
        With `tracing`, `release_after` and a `delay`: whether the test of an isolated contact may
        find a case.  If it is positive, the contact is isolated like others with a positive test,
        after the delay, and its own contacts are traced.
    test_traced : bool
        With `tracing` and a `delay`: whether a contact is tested at the moment at which it is
        traced, isolated (`quarantine`) or not.  If it is positive, it is isolated like others with
        a positive test, after the delay, and its own contacts are traced.
    start, stop : float, date or Trigger, optional
        Start of the measure, and its stop instead of a duration.  Tests happen in between.
    name : str, optional
        Name of the measure in results; see `Intervention`.

    Notes
    -----
    Tests for a release are those of `sensitivity`, without a limit of their number; they do not
    prolong an isolation, and no contacts are traced after them.  With `test_contacts` they do for
    nodes that are no known cases: without a positive test of this measure in the time before of
    `delay` plus `isolation`.  This ends with the measure.  The test is of the compartment in which
    the node is just before; there is none at the moment at which an isolation ends.  An isolation
    that is prolonged is one: its tests go on.

    Tests by `test_traced` are those of `sensitivity` too, without a limit of their number, and end
    with the measure.  There is none of a known case: with an earlier positive test of this measure
    in the time before of `delay` plus `isolation`.  A contact that several cases name at one moment
    is tested once.  The test is of the compartment in which the contact is just before.

    Whether a contact is traced is drawn once for a stay of the tested node in a compartment: if it
    is tested again in this stay, the same contacts are traced.

    With a `capacity`, a node asks for a test when it enters one of the compartments of
    `sensitivity`, with the probability `fraction`.  It is tested at once while tests of the period
    are left.  Otherwise it waits, if there is `wait`.  At the beginning of the next period, before
    all other events of that moment, the first in the line are tested.  A calendar is read at that
    moment.  What is left over is for those who ask during the period.  Unused tests are lost.

    A node waits at most once: it keeps its place if it asks again, also after a reinfection.  It
    keeps its place when its compartment changes.  The test is positive with the sensitivity of the
    compartment in which the node is at the time of the test, so it comes too late for a node that
    has recovered.  If the measure is not in force at the beginning of a period, all who wait leave
    the line.

    Seeds, and all others who ask at the first moment of the run, are in the line before the first
    period.  Just after that moment the first of them are tested, as at the beginning of a period;
    the others wait, or are not tested.  A measure that starts later tests none of the seeds.

    Later, nodes that ask at exactly one moment are all tested if a test was left before, and the
    next period has as many fewer.  This happens with holding times of a fixed length.  Of nodes
    that wait and asked at one moment, the lower node number comes first.

    Examples
    --------
    A test a week on average, which finds infectious nodes best:

    >>> import ergode
    >>> screening = ergode.Testing({"E": 0.3, "I": 0.9}, rate=1 / 7, delay=1, isolation=10)

    Half of those who fall ill are tested:

    >>> clinics = ergode.Testing({"I": 0.8}, fraction=0.5, delay=2, isolation=10)

    At most 200 tests a day; who finds none waits, and the oldest come first:

    >>> limited = ergode.Testing({"I": 0.8}, capacity=200, priority="age", isolation=10)

    Who is isolated leaves after a negative test, from the fifth day on:

    >>> released = ergode.Testing(
    ...     {"I": 0.8}, fraction=0.5, isolation=14, release_after=5, release_every=1
    ... )

    Contacts are tested on the third day; cases among them have their contacts traced in turn:

    >>> chains = ergode.Testing(
    ...     {"I": 0.8}, fraction=0.5, delay=1, isolation=10, tracing=0.7, quarantine=7,
    ...     release_after=3, test_contacts=True,
    ... )

    Contacts are tested at once, and isolated only if they are positive:

    >>> rapid = ergode.Testing(
    ...     {"I": 0.8}, fraction=0.5, delay=0.1, isolation=10, tracing=0.7, tracing_delay=1,
    ...     quarantine=0, test_traced=True,
    ... )

    The contacts of those who are positive stay at home, half of the young among them:

    >>> traced = ergode.Testing(
    ...     {"I": 0.8}, fraction=0.5, delay=2, isolation=10, tracing={"home": 1.0, "work": 0.4},
    ...     quarantine=7, contacts_among=ergode.ByAttribute("age", [0.5, 1.0], groups=[0, 30]),
    ... )
    """

    sensitivity: Mapping[str, float]
    fraction: float = 1.0
    rate: float | None = None
    delay: float = 0.0
    isolation: float = math.inf
    reduction: float = 1.0
    duration: float = math.inf
    among: str | ByAttribute | None = None
    capacity: int | Calendar | None = None
    period: float = 1.0
    wait: bool = True
    priority: str | ByAttribute | None = None
    tracing: float | Mapping[str, float] = 0.0
    tracing_delay: float = 0.0
    quarantine: float = math.inf
    lookback: float = math.inf
    contacts_among: str | ByAttribute | None = None
    release_after: float | None = None
    release_every: float | None = None
    test_contacts: bool = False
    test_traced: bool = False

    def _check_fields(self) -> None:
        self._check(
            fraction=SHARE, delay=SPAN, isolation=SPAN, reduction=SHARE, duration=SPAN,
            tracing_delay=SPAN, quarantine=SPAN, lookback=SPAN,
        )  # fmt: skip
        object.__setattr__(self, "tracing", check_tracing("Testing", self.tracing))
        given = (self.tracing_delay, self.quarantine, self.lookback, self.contacts_among)
        if not self.traces and given != (0.0, math.inf, math.inf, None):
            raise ModelError(
                "Testing: tracing_delay, quarantine, lookback and contacts_among are for contacts "
                "that are traced; expected a tracing above zero"
            )
        if not isinstance(self.sensitivity, Mapping) or not self.sensitivity:
            raise ModelError(
                f"Testing: sensitivity is {self.sensitivity!r}; expected compartments and the "
                "probabilities of a positive test, such as {'I': 0.9}"
            )
        checked = {
            name: number_of("Testing", f"sensitivity of '{name}'", value, *SHARE)
            for name, value in self.sensitivity.items()
        }
        object.__setattr__(self, "sensitivity", checked)
        if self.rate is not None:
            rate = number_of("Testing", "rate", self.rate)
            if not 0 < rate < math.inf:
                raise ModelError(f"Testing: rate is {rate!r}; expected a finite number above zero")
            if self.fraction != 1.0:
                raise ModelError("Testing: it has a fraction and a rate; expected one of them")
            object.__setattr__(self, "rate", rate)
        check_switch("Testing", "wait", self.wait)
        period = number_of("Testing", "period", self.period)
        if not 0 < period < math.inf:
            raise ModelError(f"Testing: period is {period!r}; expected a finite time above zero")
        object.__setattr__(self, "period", period)
        self._check_capacity()
        self._check_release()

    def _check_release(self) -> None:
        check_switch("Testing", "test_contacts", self.test_contacts)
        check_switch("Testing", "test_traced", self.test_traced)
        if self.test_traced and not (self.traces and self.delay > 0.0):
            raise ModelError(
                "Testing: test_traced is for contacts that are traced, and whose results take "
                "time; expected a tracing and a delay above zero"
            )
        if self.test_traced and self.test_contacts:
            raise ModelError(
                "Testing: contacts are tested when they are traced, or during their isolation; "
                "expected test_traced or test_contacts"
            )
        if self.test_contacts and not (
            self.release_after is not None and self.traces and self.delay > 0.0
        ):
            raise ModelError(
                "Testing: test_contacts is for contacts that are traced and tested, whose results "
                "take time; expected a tracing, a release_after and a delay above zero"
            )
        if self.release_after is None:
            if self.release_every is not None:
                raise ModelError("Testing: it has a release_every, but no release_after")
            return
        for name in ("release_after", "release_every"):
            if (given := getattr(self, name)) is not None:
                value = number_of("Testing", name, given)
                if not 0 < value < math.inf:
                    raise ModelError(
                        f"Testing: {name} is {value!r}; expected a finite time above zero"
                    )
                object.__setattr__(self, name, value)

    @property
    def traces(self) -> bool:
        """Whether contacts of positive nodes may be traced."""
        given = self.tracing
        return any(given.values()) if isinstance(given, Mapping) else given > 0.0

    def _check_capacity(self) -> None:
        given = calendar_of(self.capacity)
        if given is None:
            if (self.period, self.wait, self.priority) != (1.0, True, None):
                raise ModelError(
                    "Testing: period, wait and priority are for a limited number of tests; "
                    "expected a capacity"
                )
            return
        if self.rate is not None:
            raise ModelError(
                "Testing: it has a capacity and a rate; a rate is a limit already, as the number "
                "of nodes times the rate are tested in a unit of time"
            )
        numbers = given.factors if isinstance(given, Calendar) else (given,)
        for one in numbers:
            number = number_of("Testing", "capacity", one, 0.0, _MOST)
            if isinstance(one, bool) or number != int(number):
                raise ModelError(f"Testing: capacity is {one!r}; expected a whole number")
        if not isinstance(given, Calendar):
            given = int(given)
        object.__setattr__(self, "capacity", given)
        if self.priority is not None and not self.wait:
            raise ModelError("Testing: priority is for nodes that wait, but wait is False")
        object.__setattr__(self, "priority", priority_by("Testing", self.priority))
