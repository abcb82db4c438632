"""Networks of reactions, for `ergode.stochastic` and `ergode.kinetics`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import by_name, check_once, check_unit, did_you_mean, sequence
from ergode.core.errors import ModelError
from ergode.core.notebook import Table, card
from ergode.core.words import counted
from ergode.models.expressions import (
    RESERVED,
    TIME,
    Expression,
    check_condition,
    number_or_expression,
)
from ergode.models.reactions.conservation import conservation_laws
from ergode.models.reactions.events import Event
from ergode.models.reactions.propensities import Propensities
from ergode.models.reactions.rate_expression import CONDITIONS, RateExpression
from ergode.models.reactions.rates import Photolysis, PowerLaw
from ergode.models.reactions.reaction import Law, Reaction, ReactionTable
from ergode.models.reactions.species import (
    Compartment,
    Species,
    check_name,
    compartments_of,
    species_of,
)

if TYPE_CHECKING:
    import scipy.sparse


class ReactionNetwork:
    """Species and the reactions between them.

    Parameters
    ----------
    species : sequence of Species, or mapping of str to float
        A mapping gives the initial amount of each name.
    reactions : sequence of Reaction, or ReactionTable
        For a large network a table is faster.
    parameters : mapping of str to float or str
        Numbers that formulas may use, or formulas of other parameters. Such a formula is evaluated
        again when an event changes a parameter that it uses.
    compartments : sequence of Compartment, or mapping of str to float
        A mapping gives the size of each name.
    rules : mapping of str to str
        Quantities defined by a formula at every time, by name. Other formulas may use them, and
        results contain them.
    events : sequence of Event
    name : str, optional
    rate_rules : mapping of str to str
        Time derivatives, by name of a parameter, a compartment or a species (in the sense of its
        `quantity`): ``{"V": "growth * V"}``. The variable begins at its own value. Reactions may
        change such a species, too. Only `ergode.stochastic` with ``method="hybrid"`` follows them.
    continuous : sequence of str
        Species whose amounts are real numbers. A reaction that changes only such species is
        deterministic: it changes them at its rate, and the rate of two equal molecules is
        that of n^2, not of n (n - 1). All other reactions fire one by one, and a firing changes
        continuous species, too. Species with a rate rule are continuous.
    time_unit : str, optional
        Such as ``"min"``: what times and rates are in. It labels results and figures, and changes
        no number.

    Raises
    ------
    ModelError
        A name is unknown, repeated, or defined by itself; the message gives the place.

    Examples
    --------
    >>> import ergode
    >>> network = ergode.ReactionNetwork(
    ...     {"X": 0},
    ...     [
    ...         ergode.Reaction("0 -> X", rate_constant="alpha"),
    ...         ergode.Reaction("X -> 0", rate_constant="mu"),
    ...     ],
    ...     parameters={"alpha": 10.0, "mu": 0.1},
    ... )
    >>> print(network.propensities())
    R1  0 -> X  alpha
    R2  X -> 0  mu * X
    """

    species: tuple[Species, ...]
    reactions: ReactionTable
    parameters: Mapping[str, float | Expression]
    compartments: tuple[Compartment, ...]
    rules: Mapping[str, Expression]
    events: tuple[Event, ...]
    name: str | None
    rate_rules: Mapping[str, Expression]
    continuous: tuple[str, ...]
    time_unit: str | None
    _known: frozenset[str]

    def __init__(
        self,
        species: Iterable[Species] | Mapping[str, float],
        reactions: Iterable[Reaction] | ReactionTable,
        parameters: Mapping[str, float | str | Expression] | None = None,
        compartments: Iterable[Compartment] | Mapping[str, float] = (),
        rules: Mapping[str, str | Expression] | None = None,
        events: Iterable[Event] = (),
        name: str | None = None,
        rate_rules: Mapping[str, str | Expression] | None = None,
        continuous: Iterable[str] = (),
        time_unit: str | None = None,
    ) -> None:
        check_unit("time_unit", time_unit)
        members = species_of(species)
        if not (members or parameters or compartments or rules):
            raise ModelError("the network is empty; expected species, parameters or rules")
        names = tuple(member.name for member in members)
        table = (
            reactions
            if isinstance(reactions, ReactionTable)
            else ReactionTable.gather(sequence("reactions", reactions, "Reaction"), names)
        )
        if table.species is not names and table.species != names:
            raise ModelError("the species of the reaction table are not those of the network")
        formulas = {}
        for key, value in by_name("parameters", parameters, "values").items():
            check_name(key, "parameter")
            formulas[key] = number_or_expression(value, f"parameter '{key}'")
        defined = _rules_of(rules, "rules", "rule")
        for key in defined:
            check_name(key, "rule")
        self._set(
            species=members,
            reactions=table,
            parameters=formulas,
            compartments=compartments_of(compartments),
            rules=defined,
            events=tuple(sequence("events", events, "Event")),
            name=name,
            rate_rules=_rules_of(rate_rules, "rate_rules", "rate rule"),
            continuous=tuple(sequence("continuous", continuous, "names of species")),
            time_unit=time_unit,
        )
        self._check_names()
        self._check_formulas()
        self._check_continuous()

    def _set(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a ReactionNetwork is frozen; make a new one to change {name}")

    def __repr__(self) -> str:
        name = f" '{self.name}'" if self.name else ""
        return (
            f"<ReactionNetwork{name}: {counted(len(self.species), 'species')}, "
            f"{counted(len(self.reactions), 'reaction')}>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "species": len(self.species),
            "reactions": len(self.reactions),
            "parameters": tuple(self.parameters) or None,
            "compartments": tuple(one.name for one in self.compartments) or None,
            "rules": len(self.rules) or None,
            "rate rules": len(self.rate_rules) or None,
            "continuous species": self.continuous or None,
            "events": len(self.events) or None,
            "time unit": self.time_unit,
        }
        rows = (
            (self.reactions.name_of(k), one, one.law.argument, one.value)
            for k, one in enumerate(self.reactions)
        )
        table = Table(("reaction", "equation", "law", "value"), rows, len(self.reactions))
        return card(f"ReactionNetwork {self.name or ''}".strip(), facts, table)

    # ---- checks

    def _check_names(self) -> None:
        kinds = dict.fromkeys(RESERVED, "a reserved word of formulas")
        kinds[TIME] = "the time"
        for kind, names in (
            ("species", (member.name for member in self.species)),
            ("parameter", self.parameters),
            ("compartment", (compartment.name for compartment in self.compartments)),
            ("rule", self.rules),
        ):
            for name in names:
                if name in kinds:
                    raise ModelError(f"'{name}' is the name of a {kind} and of {kinds[name]}")
                kinds[name] = f"a {kind}"
        self._set(_known=frozenset(kinds) - RESERVED)
        sizes = {compartment.name for compartment in self.compartments}
        for member in self.species:
            if member.compartment is not None and member.compartment not in sizes:
                raise ModelError(
                    f"species '{member.name}' is in the compartment '{member.compartment}', which "
                    f"the network does not have{did_you_mean(member.compartment, sizes)}"
                )

    def _check_formulas(self) -> None:
        fixed = frozenset(self.parameters) | {c.name for c in self.compartments}
        for name, value in self.parameters.items():
            self._check_uses(value, fixed, f"parameter '{name}'")
        for compartment in self.compartments:
            self._check_uses(compartment.size, fixed, f"size of '{compartment.name}'")
        for member in self.species:
            if isinstance(member.initial, Expression):
                self._check_uses(member.initial, fixed, f"initial of '{member.name}'")
        for name, value in self.rules.items():
            self._check_uses(value, self._known, f"rule '{name}'")
        for name, value in self.rate_rules.items():
            self._check_uses(value, self._known, f"rate rule of '{name}'")
        table = self.reactions
        for k, formula in table.formulas.items():
            usable = self._known if table.laws[k] == Law.RATE else fixed
            law: Any = formula.rate if isinstance(formula, PowerLaw | Photolysis) else formula
            if isinstance(law, RateExpression):
                law, usable = law.formula, self._known | CONDITIONS
            self._check_uses(law, usable, f"rate of reaction '{table.name_of(k)}'")
        for k, delay in table.delays.items():
            self._check_uses(delay, self._known, f"delay of reaction '{table.name_of(k)}'")
        for k, event in enumerate(self.events):
            self._check_event(event, k)
        _ = self.parameter_order, self.rule_order
        for event in self.events:
            check_condition(event.trigger, "trigger of an event", self.rules)

    def _check_continuous(self) -> None:
        sizes = {compartment.name for compartment in self.compartments}
        for name in self.rate_rules:
            place = self.index.get(name)
            if place is None and name not in self.parameters and name not in sizes:
                raise ModelError(
                    f"rate_rules has '{name}', which is neither a species nor a parameter nor a "
                    "compartment of the network"
                    f"{did_you_mean(name, [*self.index, *self.parameters, *sizes])}"
                )
            if place is not None and self.species[place].constant:
                raise ModelError(f"rate_rules has '{name}', a species that is constant")
        for name in self.continuous:
            if not isinstance(name, str) or name not in self.index:
                hint = did_you_mean(name, self.index)
                raise ModelError(
                    f"continuous has {name!r}, which is not a species of the network{hint}"
                )
        check_once("continuous", self.continuous)
        for k in self.reactions.delays:
            if self.flows[k]:
                raise ModelError(
                    f"reaction '{self.reactions.name_of(k)}' changes only continuous species, so "
                    "it is deterministic; it cannot have a delay"
                )

    def _check_uses(self, value: Any, usable: frozenset[str], what: str) -> None:
        if not isinstance(value, Expression) or value.names <= usable:
            return
        name = min(value.names - usable)
        if name in self._known:
            raise ModelError(
                f"{what}, '{value.text}', uses '{name}', which changes in time; expected only "
                "parameters and compartments"
            )
        hint = did_you_mean(name, usable)
        raise ModelError(
            f"{what}, '{value.text}', uses '{name}', which the network does not have{hint}"
        )

    def check_formula(self, formula: Expression, what: str) -> None:
        """Refuse a formula that uses a name the network does not have.

        Raises
        ------
        ModelError
            It does; the message begins with `what`.
        """
        self._check_uses(formula, self._known, what)

    def _check_event(self, event: Any, k: int) -> None:
        if not isinstance(event, Event):
            raise ModelError(f"events[{k}] is {event!r}; expected an Event")
        what = f"event '{event.name or event.trigger.text}'"
        for value in (event.trigger, event.delay, event.priority, *event.assignments.values()):
            self._check_uses(value, self._known, what)
        sizes = {compartment.name for compartment in self.compartments}
        for name in event.assignments:
            place = self.index.get(name)
            if name not in self.parameters and place is None and name not in sizes:
                raise ModelError(
                    f"{what} assigns to '{name}', which is neither a species nor a parameter nor a "
                    f"compartment{did_you_mean(name, [*self.index, *self.parameters, *sizes])}"
                )
            if place is not None and self.species[place].constant:
                raise ModelError(f"{what} assigns to '{name}', which is constant")

    # ---- views

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of every species by its name."""
        return {member.name: i for i, member in enumerate(self.species)}

    @cached_property
    def parameter_order(self) -> tuple[str, ...]:
        """Parameters and compartments in order of evaluation."""
        values = dict(self.parameters) | {c.name: c.size for c in self.compartments}
        return _order(values, "parameter")

    @cached_property
    def rule_order(self) -> tuple[str, ...]:
        """Rules in order of evaluation."""
        return _order(self.rules, "rule")

    @cached_property
    def is_continuous(self) -> np.ndarray:
        """Whether the amount of a species is a real number, shape [species]."""
        names = {*self.continuous, *self.rate_rules}
        return np.array([member.name in names for member in self.species], bool)

    @cached_property
    def flows(self) -> np.ndarray:
        """Whether a reaction is deterministic, [reaction].

        It changes only continuous species, or consists of them.
        """
        if not self.is_continuous.any():
            return np.zeros(len(self.reactions), bool)
        table = self.reactions
        real = np.ones(len(table), bool)
        for side in ("reactant", "product"):
            rows = np.repeat(np.arange(len(table)), np.diff(getattr(table, f"{side}_starts")))
            real[rows[~self.is_continuous[getattr(table, f"{side}_species")]]] = False
        real &= np.diff(table.reactant_starts) + np.diff(table.product_starts) > 0
        changed = self.stoichiometry != 0
        of_all = np.asarray(changed.sum(axis=0)).ravel()
        of_real = np.asarray(changed[np.flatnonzero(self.is_continuous)].sum(axis=0)).ravel()
        return real | ((of_all > 0) & (of_real == of_all))

    @cached_property
    def following(self) -> tuple[str, ...]:
        """Parameters that depend, directly or through others, on what changes in time."""
        moving = {name for event in self.events for name in event.assignments}
        moving |= set(self.rate_rules)
        found = []
        for name in self.parameter_order:
            value = self.parameters.get(name)
            if isinstance(value, Expression) and name not in moving and value.names & moving:
                moving.add(name)
                found.append(name)
        return tuple(found)

    @cached_property
    def held(self) -> np.ndarray:
        """Whether reactions do not change a species (boundary or constant), shape [species]."""
        return np.array([member.boundary or member.constant for member in self.species], bool)

    @cached_property
    def stoichiometry(self) -> scipy.sparse.csr_matrix:
        """Net change of every species by every reaction, shape [species, reaction].

        Rows of boundary and constant species are zero.
        """
        change = self._matrix("product") - self._matrix("reactant")
        if self.held.any():
            import scipy.sparse

            change = scipy.sparse.diags(np.where(self.held, 0.0, 1.0)) @ change
        change = change.tocsr()
        change.eliminate_zeros()
        return change

    @cached_property
    def reactant_orders(self) -> scipy.sparse.csr_matrix:
        """Stoichiometry of reactants, shape [species, reaction]."""
        return self._matrix("reactant")

    def _matrix(self, side: str) -> Any:
        import scipy.sparse

        table = self.reactions
        starts = getattr(table, f"{side}_starts")
        shape = (len(table), len(self.species))
        entries = (
            getattr(table, f"{side}_counts"),
            getattr(table, f"{side}_species").copy(),
            starts.copy(),
        )
        return scipy.sparse.csr_matrix(entries, shape=shape).T.tocsr()

    def evaluate_parameters(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Values of all parameters and compartments, with some replaced by `values`.

        Parameters
        ----------
        values : mapping of str to float or ndarray
            By name of a parameter or a compartment.

        Raises
        ------
        ModelError
            A name is neither.
        """
        given = dict(values or {})
        formulas = dict(self.parameters) | {c.name: c.size for c in self.compartments}
        for name in given:
            if name not in formulas:
                hint = did_you_mean(name, formulas)
                if name in self.index:
                    hint = ", but a species; give its amounts as initial"
                raise ModelError(
                    f"'{name}' is neither a parameter nor a compartment of the network{hint}"
                )
        known: dict[str, Any] = {}
        for name in self.parameter_order:
            value = given.get(name, formulas[name])
            known[name] = value.evaluate(known) if isinstance(value, Expression) else value
        return known

    def conserved_quantities(self) -> list[dict[str, int]]:
        """Conserved sums of species: independent, with small integer weights.

        Raises
        ------
        ModelError
            A stoichiometry is not a whole number.

        Examples
        --------
        >>> import ergode
        >>> binding = ergode.Reaction("E + S -> C", rate_constant=1.0)
        >>> ergode.ReactionNetwork({"E": 1, "S": 9, "C": 0}, [binding]).conserved_quantities()
        [{'S': 1, 'C': 1}, {'E': 1, 'C': 1}]
        """
        free = np.flatnonzero(~self.held)
        laws = conservation_laws(self.stoichiometry[free])
        return [{self.species[free[i]].name: k for i, k in law.items()} for law in laws]

    def propensities(self) -> Propensities:
        """The propensity of every reaction as simulated; it prints as a table."""
        return Propensities(self)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the model, in the attributes of every result."""
        # Parameters and rules are mappings that a user may change between two calls.
        changing = repr([self.parameters, self.rules, self.rate_rules])
        if changing not in self._digests:
            self._digests.clear()
            self._digests[changing] = self._digest()
        return self._digests[changing]

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {}

    def _digest(self) -> str:
        table = self.reactions
        parts: Sequence[Any] = (
            self.species, self.compartments, sorted(self.parameters.items()),
            sorted(self.rules.items()), self.events, sorted(table.formulas.items()),
            sorted(table.delays.items()),
        )  # fmt: skip
        if table.late:
            parts = (*parts, sorted(table.late))
        if self.is_continuous.any() or self.rate_rules:
            parts = (*parts, sorted(self.rate_rules.items()), sorted(self.continuous))
        digest = hashlib.sha256(repr(parts).encode())
        for array in (
            table.reactant_starts, table.reactant_species, table.reactant_counts,
            table.product_starts, table.product_species, table.product_counts,
            table.laws, table.values,
        ):  # fmt: skip
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def _rules_of(given: Any, argument: str, kind: str) -> dict[str, Expression]:
    """Formulas by name; numbers become formulas."""
    found = {}
    for key, text in by_name(argument, given, "formulas").items():
        rule = number_or_expression(text, f"{kind} '{key}'")
        found[key] = rule if isinstance(rule, Expression) else Expression(repr(rule))
    return found


def _order(values: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    uses = {
        name: (value.names & set(values) if isinstance(value, Expression) else ())
        for name, value in values.items()
    }
    try:
        return tuple(TopologicalSorter(uses).static_order())
    except CycleError as error:
        raise ModelError(f"{kind}s define each other: {' -> '.join(error.args[1])}") from None
