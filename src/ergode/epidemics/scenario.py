"""The scenario of an epidemic: contacts, calendars, interventions, importations and strata."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from ergode.core.arguments import by_name, choice, sequence
from ergode.core.calls.launch import warn
from ergode.core.compiler.source import Precision
from ergode.core.errors import AccuracyWarning, ModelError, PlanError
from ergode.epidemics.shared.contacts import Meetings
from ergode.epidemics.shared.tallies import Tally, listed
from ergode.models.epidemic.calendars import Calendar, calendar_of
from ergode.models.epidemic.dates import on_clock
from ergode.models.epidemic.importations import Importation
from ergode.models.epidemic.interventions import ALL_CONTACTS, ContactTracing, Intervention
from ergode.models.epidemic.testing import Testing
from ergode.models.networks.computed import ComputedNetwork
from ergode.models.networks.contact_network import ContactNetwork
from ergode.models.networks.population import Population
from ergode.models.networks.temporal import TemporalContacts

Contacts = ContactNetwork | ComputedNetwork | TemporalContacts
Include = Literal["entries", "measures", "avoided", "layers"]
ENTRIES, MEASURES, AVOIDED, LAYERS = get_args(Include)


_AVOIDING_MOST = 64  # measures: bits of a word (`shared.tallying.tally_avoided`)


@dataclass(frozen=True)
class Scenario:
    """Contacts, calendars, interventions, importations and strata, as `simulate` takes them."""

    contacts: ContactNetwork | ComputedNetwork
    meetings: TemporalContacts | None = None
    planned: Sequence[Intervention] | None = None  # None: no run to compare with
    importations: Sequence[Importation] = ()
    layer_factors: Mapping[str, Calendar] = field(default_factory=dict)
    strata: tuple[Any, ...] = ("all",)  # the values of the attribute that divides the nodes
    stratum: np.ndarray | None = None  # of each node, int32 [node_count]
    include: tuple[str, ...] = ()  # what is counted besides nodes and cases (`shared.tallies`)

    @property
    def interventions(self) -> Sequence[Intervention]:
        """The planned interventions; may be empty."""
        return self.planned or ()

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of measures."""
        if MEASURES not in self.include:
            return []
        return listed(self.interventions, AVOIDED in self.include, self.counted_layers)

    @property
    def counted_layers(self) -> tuple[str, ...]:
        """Layers by which contacts are counted that measures trace or avoid."""
        return tuple(self.contacts.layers) if LAYERS in self.include else ()

    @property
    def plain(self) -> bool:
        """Whether rates depend only on the stages of nodes."""
        return not (self.meetings or self.interventions or self.importations or self.layer_factors)

    def describe(self) -> str:
        """Features that make the scenario not plain, for messages."""
        parts = [
            ("temporal contacts", self.meetings), ("interventions", self.interventions),
            ("importations", self.importations), ("layer factors", self.layer_factors),
        ]  # fmt: skip
        return ", ".join(name for name, value in parts if value)

    @property
    def longest_exposure(self) -> float:
        """The longest contact time of a pair."""
        held = self.meetings
        if held is None or not held.amount.size:
            return 0.0
        return float(np.add.reduceat(held.amount, held.first[:-1]).max())

    @property
    def moments(self) -> np.ndarray:
        """Fixed times of importations, instantaneous meetings and starts of tracing and testing."""
        found: list[Any] = [one.moments for one in self.importations]
        found += [
            [one.start] for one in self.interventions
            if isinstance(one, ContactTracing | Testing) and isinstance(one.start, float | int)
        ]  # fmt: skip
        held = self.meetings
        if held is not None:
            found.append(held.begin[held.begin == held.end])
        return np.unique(np.concatenate([np.zeros(0), *found]))

    def warn_of_idle(self, begin: float, end: float) -> None:
        """Warn of measures and importations that lie outside of the run, as by a wrong year."""
        measures: Sequence[Intervention | Importation] = self.interventions or ()
        for one in (*measures, *self.importations):
            times = one.moments if isinstance(one, Importation) else ()
            first, last = (times[0], times[-1]) if times else (one.start, one.stop)
            late = isinstance(first, float | int) and first > end
            early = isinstance(last, float | int) and last < begin
            if late or early:
                name = "Importation" if isinstance(one, Importation) else one.title
                what = f"from {first:g}" if late else f"until {last:g}"
                warn(
                    f"{name} {what} does nothing: the run is from {begin:g} to {end:g}",
                    AccuracyWarning,
                )

    def under(
        self,
        interventions: Any = None,
        importations: Any = (),
        layer_factors: Any = None,
        origin: np.datetime64 | None = None,
        include: str | Sequence[str] = (),
    ) -> Scenario:
        """The same contacts and strata under the user's measures.

        Raises a ModelError if an argument has the wrong type, or an attribute does not exist.
        """
        if isinstance(interventions, Intervention):
            interventions = (interventions,)
        if isinstance(importations, Importation):
            importations = (importations,)
        if interventions is not None:
            interventions = sequence("interventions", interventions, "interventions")
        importations = sequence("importations", importations, "Importation")
        for k, measure in enumerate(interventions or ()):
            if not isinstance(measure, Intervention) or type(measure) is Intervention:
                raise ModelError(
                    f"interventions[{k}] is {measure!r}; expected a LayerClosure, Vaccination, "
                    "Isolation, ContactTracing, Testing or Capacity"
                )
            if self.meetings is None and getattr(measure, "lookback", np.inf) < np.inf:
                raise ModelError(
                    f"{measure.place(k)}: lookback is for TemporalContacts; contacts of a network "
                    "last"
                )
        _check_names_differ(interventions or ())
        for k, one in enumerate(importations):
            if not isinstance(one, Importation):
                raise ModelError(f"importations[{k}] is {one!r}; expected an Importation")
        factors = _factors(layer_factors, self.contacts, origin)
        planned = interventions
        if planned is not None:
            planned = tuple(on_clock(one, origin, owner=one.title) for one in planned)
        return replace(
            self,
            planned=planned,
            importations=tuple(on_clock(one, origin) for one in importations),
            layer_factors=factors,
            include=_included(include, interventions, self.contacts.layers),
        )

    def meetings_table(self, begin: float, precision: Precision) -> Meetings:
        """Meetings on a clock that is zero at `begin`; one unused row where contacts are static."""
        held = self.meetings
        if held is None:
            nothing = np.zeros(1, precision)
            return Meetings(np.zeros(1, np.int64), nothing, nothing, nothing, nothing)
        total = np.cumsum(held.amount) - held.amount
        per_arc = np.diff(held.first)
        before = total - np.repeat(total[held.first[:-1]] if per_arc.size else total, per_arc)
        reals = (held.begin - begin, held.end - begin, held.amount, before)
        return Meetings(held.first, *(array.astype(precision) for array in reals))


def scenario_of(
    contacts: Contacts,
    interventions: Sequence[Intervention] | None = None,
    importations: Sequence[Importation] = (),
    layer_factors: Any = None,
    strata: str | None = None,
    origin: np.datetime64 | None = None,
    include: str | Sequence[str] = (),
) -> Scenario:
    """Check the user's arguments and combine them; dates become days since `origin`.

    Raises a ModelError if an argument has the wrong type, or an attribute does not exist.
    """
    bare = _bare(contacts, strata)
    return bare.under(interventions, importations, layer_factors, origin, include)


def scenarios_of(
    settings: Mapping[str, Sequence[Any]],
    strata: str | None,
    origin: np.datetime64 | None,
    include: str | Sequence[str],
    named: Callable[[int], AbstractContextManager[None]],
) -> list[Scenario]:
    """The scenario of each point, from its contacts, interventions, importations and layer factors.

    Points that have equal ones share one scenario; `settings` begins with the contacts.
    ``named(point)`` adds the name of a point to an error.

    Raises
    ------
    ModelError
        See `scenario_of`; or measures are counted, and points have other kinds of measures; or
        networks of points differ in their nodes or strata.
    """
    found: list[Scenario] = []
    bare: dict[int, Scenario] = {}
    known: dict[Any, Scenario] = {}
    for number, (contacts, *given) in enumerate(zip(*settings.values(), strict=True)):
        at = id(contacts)
        key: Any = (at, *map(id, given))
        if key not in known:
            with named(number):
                if at not in bare:
                    bare[at] = _bare(contacts, strata)
                    _check_nodes_alike(next(iter(bare.values())), bare[at])
                own = dict(zip([*settings][1:], given, strict=True))
                one = bare[at].under(**own, origin=origin, include=include)
                content = pickle.dumps((one.planned, one.importations, one.layer_factors))
                known[key] = known.setdefault((at, content), one)
                if MEASURES in one.include and found:
                    _check_tallies_alike(found[0], one)
        found.append(known[key])
    return found


def _check_nodes_alike(first: Scenario, other: Scenario) -> None:
    one, another = first.contacts, other.contacts
    same = one.node_count == another.node_count and first.strata == other.strata
    names, others = (() if it.node_names is None else it.node_names for it in (one, another))
    if not same or not np.array_equal(names, others):
        raise ModelError(
            f"contacts has {another.node_count:,} nodes and the strata {other.strata}; expected "
            f"as many nodes, of the same names and strata, at all points: {one.node_count:,} nodes "
            f"and the strata {first.strata} at the first point"
        )


def _check_tallies_alike(first: Scenario, other: Scenario) -> None:
    labels = [[one.label for one in each.tallies] for each in (first, other)]
    if labels[0] != labels[1]:
        raise ModelError(
            "include='measures' counts the same at all points, but interventions differ in kind "
            f"from those of the first point: {', '.join(labels[1])} for {', '.join(labels[0])}"
        )


def _bare(contacts: Contacts, strata: str | None) -> Scenario:
    """Contacts and strata alone."""
    meetings = contacts if isinstance(contacts, TemporalContacts) else None
    network = contacts.network if isinstance(contacts, TemporalContacts) else contacts
    if not isinstance(network, ContactNetwork | ComputedNetwork):
        if isinstance(network, Population):
            raise ModelError("contacts is a Population; expected its network, population.network")
        raise ModelError(
            f"contacts is {type(contacts).__name__}; expected a ContactNetwork, such as "
            "ergode.ContactNetwork.from_networkx(graph) or .from_edges(source, target), a "
            "ComputedNetwork or TemporalContacts"
        )
    values: tuple[Any, ...] = ("all",)
    stratum = None
    if strata is not None:
        if not isinstance(strata, str) or strata not in network.attributes:
            known = ", ".join(network.attributes) or "none"
            raise ModelError(f"strata is '{strata}', but the network's attributes are {known}")
        try:
            found, position = np.unique(network.attributes[strata], return_inverse=True)
        except TypeError:
            raise ModelError(
                f"strata '{strata}' has values of several types, such as text and None"
            ) from None
        if found.size > 1000:
            raise ModelError(
                f"strata '{strata}' has {found.size:,} different values; group them into 1,000 or "
                "fewer"
            )
        values, stratum = tuple(found.tolist()), position.astype(np.int32)
    return Scenario(network, meetings, strata=values, stratum=stratum)


def _check_names_differ(interventions: Sequence[Intervention]) -> None:
    at: dict[str, int] = {}
    for k, one in enumerate(interventions):
        if one.name is not None and at.setdefault(one.name, k) != k:
            raise ModelError(
                f"interventions[{at[one.name]}] and interventions[{k}] have one name, "
                f"'{one.name}'; expected another for each, or none"
            )


def _included(
    include: Any, interventions: Sequence[Intervention] | None, layers: Sequence[str]
) -> tuple[str, ...]:
    """What else is counted, in a fixed order."""
    given = [include] if isinstance(include, str) else sequence("include", include, "names")
    for one in given:
        choice("include", one, get_args(Include))
    if LAYERS in given:
        given = [*given, MEASURES]
        if not layers:
            raise PlanError("include='layers' counts by layer, but the network has no layers")
    if AVOIDED in given:
        given = [*given, MEASURES]
        if len(interventions or ()) > _AVOIDING_MOST:
            raise PlanError(
                f"include='avoided' is for {_AVOIDING_MOST} interventions or fewer; there are "
                f"{len(interventions or ())}"
            )
    if MEASURES in given and not interventions:
        raise PlanError(
            "include='measures' counts what interventions do, but there are none; leave it out of "
            "the baseline: ergode.compare takes what results have in common"
        )
    return tuple(one for one in get_args(Include) if one in given)


def _factors(
    given: Any, network: ContactNetwork | ComputedNetwork, origin: np.datetime64 | None
) -> dict[str, Calendar]:
    """The calendar of every layer, from calendars or from series and tables of pandas or xarray."""
    if hasattr(given, "columns"):
        given = {str(name): given[name] for name in given.columns}
    elif isinstance(calendar_of(given), Calendar):
        given = dict.fromkeys(network.layers or (ALL_CONTACTS,), given)
    calendars = {
        name: calendar_of(one) for name, one in by_name("layer_factors", given, "Calendar").items()
    }
    return {
        name: on_clock(one, origin, may_precede=True) if isinstance(one, Calendar) else one
        for name, one in calendars.items()
    }
