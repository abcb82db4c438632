"""Convert a reaction network to the flat arrays that kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ergode.core.compiler.programs import Operation, Step, depth_of, programs_arrays
from ergode.core.errors import ModelError
from ergode.models.expressions import Expression
from ergode.models.holding_times.base import HoldingTime, HoldingTimeCode
from ergode.models.reactions.events import Event
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Law
from ergode.models.reactions.species import Species
from ergode.stochastic.effects import Effects, Wholeness, rounding_of, whole_parameters
from ergode.stochastic.laws import Formula, MassAction, Naming, breaks_of, check_whole, law_of
from ergode.stochastic.tables import (
    AT_BEGIN,
    FROM_TRIGGER,
    INITIALLY_TRUE,
    ONE_LESS,
    PERSISTENT,
    ROUNDING,
    Flow,
    Interruptions,
    Net,
    Tables,
    constant,
    starts_of,
)

# Number of tables cached for later calls, and largest number of propensities (of all points).
_KEPT_MOST = 8
_KEPT_PROPENSITIES = 1 << 17
NO_PROGRAM = -1


def build(
    network: ReactionNetwork,
    # [point_count]: parameters and compartments that differ from the network's own.
    values: Mapping[str, np.ndarray],
    # [point_count]: initial amounts of species that differ from the network's own.
    initial: Mapping[str, np.ndarray],
    point_count: int,  # number of points of the sweep
    stop: Expression | None = None,  # condition that ends a realization
    whole: bool = True,  # whether amounts must be whole numbers
    # How an event rounds assigned values, unless the event specifies it.
    rounding: str | None = None,
    parted: bool = False,  # whether reactions are continuous while their species are many
) -> Tables:
    """Build the tables of a network.

    Raises a PlanError or ModelError if the network cannot be simulated; the message gives the
    reason.
    """
    if point_count * len(network.reactions) > _KEPT_PROPENSITIES:
        return _build(network, values, initial, point_count, stop, whole, rounding, parted)
    # A copy: these are mutable.
    numbers = *network.parameters.items(), *network.rules.items(), *network.rate_rules.items()
    given, start = (
        tuple((name, row.tobytes()) for name, row in rows.items()) for rows in (values, initial)
    )
    return _kept(network, numbers, given, start, point_count, stop, whole, rounding, parted)


@lru_cache(maxsize=_KEPT_MOST)
def _kept(
    network: ReactionNetwork,
    numbers: tuple[Any, ...],
    values: tuple[tuple[str, bytes], ...],
    initial: tuple[tuple[str, bytes], ...],
    *options: Any,
) -> Tables:
    """The tables of a network, cached for later calls with equal arguments."""
    rows, start = ({name: np.frombuffer(row) for name, row in one} for one in (values, initial))
    return _build(network, rows, start, *options)


def _build(
    network: ReactionNetwork,
    values: Mapping[str, np.ndarray],
    initial: Mapping[str, np.ndarray],
    point_count: int,
    stop: Expression | None,
    whole: bool,
    rounding: str | None,
    parted: bool,
) -> Tables:
    check_whole(network)
    naming = Naming(network, values, parted)
    programs = _Programs(naming)
    known = network.evaluate_parameters(values)
    laws = _gather_laws(network, naming, programs, known, point_count)
    events = _gather_events(network, naming, programs, known, rounding, whole)
    stop_program = [] if stop is None else [programs.add(naming.inline(stop), "stop")]
    flow = _gather_flow(network, naming, programs)
    time_dependent = programs.time_outside
    moving = any(map(naming.follows_state, programs.breaks))
    breaks = [programs.add(expression, None) for expression in programs.breaks]
    start = _initial(network, naming, known, initial, point_count, whole)
    species_count = len(network.species)
    rows = [np.broadcast_to(known[name], point_count) for name in naming.parameters]
    parameters = np.array(rows, np.float64).reshape(len(rows), point_count).T
    interruptions = Interruptions(
        breaks=np.array(breaks, np.int32),
        stop=np.array(stop_program, np.int32),
        real=np.array(
            [
                i >= species_count or name in naming.continuous
                for i, name in enumerate(naming.variables)
            ],
            np.int8,
        ),
        **{name: laws.pop(name) for name in Interruptions._fields if name in laws},
        **events,
    )
    net = Net(
        initial=np.hstack([start, np.ones((point_count, 1))]),
        parameters=np.ascontiguousarray(parameters) if rows else np.zeros((point_count, 1)),
        pairs=pairs_of(laws["reactant_starts"], laws["reactants"], laws["orders"], start.shape[1]),
        **laws,
        **programs_arrays(programs.steps),
    )
    for array in (*net, *interruptions, *flow):
        constant(array)
    return Tables(
        net=net,
        interruptions=interruptions,
        naming=naming,
        species_count=len(network.species),
        variable_count=len(naming.variables),
        reaction_count=len(network.reactions),
        depth=max([2, *map(depth_of, programs.steps)]),
        time_dependent=time_dependent,
        moving_breaks=moving,
        mass_action=bool((net.laws < 0).all()),
        most_values=int(np.diff(interruptions.assignment_starts).max(initial=1)),
        flow=flow,
        smooth=programs.smooth,
        reported_count=_reported_count(network, naming),
        parted=parted,
    )


def _gather_flow(network: ReactionNetwork, naming: Naming, programs: _Programs) -> Flow:
    """What changes between firings."""
    rates = []
    for name in naming.flowing:
        rate: Expression | None = network.rate_rules.get(name)
        size = naming.size_of(name)
        if rate is not None and size is not None:
            # The rule is of the concentration; the amount follows the size, too.
            text = f"({rate.text}) * {size}"
            if size in network.rate_rules:
                text += f" + {name} * ({network.rate_rules[size].text})"
            rate = Expression(text)
        rates.append(NO_PROGRAM if rate is None else programs.add(rate, "", rate=True))
    return Flow(
        variables=np.array([naming.index[name] for name in naming.flowing], np.int32),
        rates=np.array(rates, np.int32),
        conditions=np.array(programs.conditions, np.int32),
    )


def _reported_count(network: ReactionNetwork, naming: Naming) -> int:
    """All variables but draws, if a rule or a rate rule needs more of them than the species."""
    moving = set(naming.variables[len(network.species) :])
    names = {name for name in network.rate_rules if name not in network.index}
    for rule in network.rules.values():
        names |= naming.variables_of(naming.inline(rule))
    needed = not moving.isdisjoint(names)
    return len(naming.variables) - len(naming.draws) if needed else len(network.species)


def pairs_of(starts: np.ndarray, reactants: np.ndarray, orders: np.ndarray, one: int) -> np.ndarray:
    """Two variables for each law; the product of their counts is the falling factorial of the law.

    `one` is the variable with the value one; the second variable has the bit `ONE_LESS` if both are
    the same. There are no rows if a law has more than two molecules.
    """
    count = starts.size - 1
    rows = np.repeat(np.arange(count), np.diff(starts))
    if np.bincount(rows, orders, minlength=1).max() > 2:
        return np.zeros((0, 2), np.int32)
    pairs = np.full((count, 2), one, np.int32)
    some = np.flatnonzero(np.diff(starts))
    pairs[some, 0] = reactants[starts[some]]
    alike = some[orders[starts[some]] == 2]
    pairs[alike, 1] = pairs[alike, 0] + ONE_LESS
    two = np.flatnonzero(np.diff(starts) == 2)
    pairs[two, 1] = reactants[starts[two] + 1]
    return pairs


class _Programs:
    """Collects programs, and the times at which comparisons in them change."""

    def __init__(self, naming: Naming) -> None:
        self.naming = naming
        self.steps: list[list[Step]] = []
        self.breaks: list[Expression] = []
        self.time_outside = False
        self.smooth = ""
        self.conditions: list[int] = []
        self._numbers: dict[str, int] = {}

    def add(self, value: float | Expression | None, what: str | None, rate: bool = False) -> int:
        """Index of a formula's program; `what` is None if it may depend on time in any way."""
        if value is None:
            return NO_PROGRAM
        expression = self.naming.inline(value)
        moves = False
        if what is not None:
            found, all_of_it = breaks_of(expression)
            # A time that moves between firings is no break: the condition is located in a step.
            still = [new for new in found if not self.naming.flows(new)]
            self.breaks += [new for new in still if new not in self.breaks]
            if not all_of_it and not rate:
                self.smooth = (
                    f"{what}, '{expression.text}', depends on time otherwise than by comparing it "
                    "with something"
                )
            self.time_outside |= rate and (not all_of_it or len(still) < len(found))
            moves = not rate and (not all_of_it or self.naming.flows(expression))
        if expression.text not in self._numbers:
            self._numbers[expression.text] = len(self.steps)
            self.steps.append(self.naming.steps(expression))
        number = self._numbers[expression.text]
        if moves and number not in self.conditions:
            self.conditions.append(number)
        return number


def _gather_laws(
    network: ReactionNetwork,
    naming: Naming,
    programs: _Programs,
    known: Mapping[str, Any],
    point_count: int,
) -> dict[str, np.ndarray]:
    """Laws, changes and dependences of all reactions."""
    table = network.reactions
    count = len(table)
    # Numeric mass action is vectorised; formulas are processed one by one.
    looked_at = set(table.formulas) | set(np.flatnonzero(table.laws == Law.RATE).tolist())
    if network.compartments:
        looked_at |= set(np.flatnonzero(table.laws == Law.DETERMINISTIC).tolist())
    if network.is_continuous.any():  # n^2 in place of n (n - 1)
        looked_at |= set(range(count))
    coefficients = np.broadcast_to(table.values, (point_count, count)).copy()
    programs_of = np.full(count, NO_PROGRAM, np.int32)
    stochastic = np.flatnonzero(table.laws == Law.STOCHASTIC)
    if stochastic.size:
        factorials = np.array([np.prod(np.arange(1, k + 1)) for k in range(21)], np.float64)
        rows = np.repeat(np.arange(count), np.diff(table.reactant_starts))
        divisors = np.ones(count)
        np.multiply.at(divisors, rows, factorials[table.reactant_counts.astype(np.int64)])
        coefficients[:, stochastic] /= divisors[stochastic]
    reactants: dict[int, Mapping[int, int]] = {}
    for k in sorted(looked_at):
        law = law_of(network, naming, k)
        reactants[k] = law.orders
        if isinstance(law, Formula):
            programs_of[k] = programs.add(
                law.expression, f"rate of reaction '{table.name_of(k)}'", rate=True
            )
            coefficients[:, k] = 1.0
        else:
            coefficients[:, k] = _coefficient(
                law, known, table.name_of(k), point_count, network.flows[k]
            )
    starts, members, orders = _law_reactants(network, reactants)
    net = network.stoichiometry.tocsc()
    delayed: dict[int, Any] = {}
    delays = np.full(count, NO_PROGRAM, np.int32)
    drawn = {k: one.code() for k, one in table.delays.items() if isinstance(one, HoldingTime)}
    if table.delays:
        net = net.tolil()
        held = network.held
        for k, delay in table.delays.items():
            formula = 0.0 if isinstance(delay, HoldingTime) else delay
            _check_delay(formula, naming, known, f"reaction '{table.name_of(k)}'")
            delays[k] = programs.add(formula, None)
            taken, given = np.zeros(held.size), np.zeros(held.size)
            for side, row in (("reactant", taken), ("product", given)):
                part = slice(*getattr(table, f"{side}_starts")[k : k + 2])
                np.add.at(
                    row, getattr(table, f"{side}_species")[part],
                    getattr(table, f"{side}_counts")[part],
                )  # fmt: skip
            taken[held], given[held] = 0.0, 0.0
            net[:, k] = 0.0 if k in table.late else -taken.reshape(-1, 1)
            delayed[k] = given - taken if k in table.late else given
        net = net.tocsc()
    net.eliminate_zeros()
    net.sort_indices()
    return {
        "coefficients": coefficients,
        "laws": programs_of,
        "reactant_starts": starts,
        "reactants": members,
        "orders": orders,
        "change_starts": net.indptr.astype(np.int32),
        "changed": net.indices.astype(np.int32),
        "changes": net.data.astype(np.float64),
        "delays": delays,
        **_random_delays(count, drawn),
        **_dependences(naming, programs, programs_of, starts, members),
        **_delayed_arrays(count, delayed),
    }


def _random_delays(count: int, drawn: Mapping[int, HoldingTimeCode]) -> dict[str, np.ndarray]:
    """Holding times of reactions, by index."""
    laws, lengths = np.zeros((count, 3)), np.zeros(count, np.int64)
    laws[:, 0] = -1.0
    times, cdf = [np.zeros(0)], [np.zeros(0)]
    for k in sorted(drawn):
        code = drawn[k]
        laws[k] = code.kind, code.a, code.b
        if code.times is not None and code.cdf is not None:
            lengths[k] = code.times.size
            times.append(code.times)
            cdf.append(code.cdf)
    return {
        "random_delays": laws, "delay_starts": starts_of(lengths),
        "delay_times": np.concatenate(times), "delay_cdf": np.concatenate(cdf),
    }  # fmt: skip


def _delayed_arrays(count: int, delayed: Mapping[int, Any]) -> dict[str, np.ndarray]:
    lengths = np.zeros(count, np.int64)
    variables: list[int] = []
    changes: list[float] = []
    for k in sorted(delayed):
        where = np.flatnonzero(delayed[k])
        lengths[k] = where.size
        variables += where.tolist()
        changes += delayed[k][where].tolist()
    return {
        "delayed_starts": starts_of(lengths),
        "delayed_variables": np.array(variables, np.int32),
        "delayed_changes": np.array(changes, np.float64),
    }


def _coefficient(
    law: MassAction, known: Mapping[str, Any], name: str, count: int, flows: bool
) -> np.ndarray:
    value = law.coefficient
    number = value.evaluate(known) if isinstance(value, Expression) else value
    row = np.broadcast_to(np.asarray(number, np.float64), count)
    bad = np.flatnonzero(~(np.isfinite(row) & (flows | (row >= 0))))
    if bad.size:
        raise ModelError(
            f"the coefficient of reaction '{name}' is {row[bad[0]]:g}"
            f"{f' at point {bad[0]} of the sweep' if count > 1 else ''}; expected 0 or more"
        )
    return row


def _check_delay(
    delay: float | Expression, naming: Naming, known: Mapping[str, Any], what: str
) -> None:
    """Refuse a delay that parameters make negative; the models refuse negative numbers."""
    if not isinstance(delay, Expression) or not delay.names <= set(naming.parameters):
        return
    least = np.min(delay.evaluate(known))
    if not least >= 0:
        raise ModelError(f"the delay of {what} is {least:g}; expected 0 or more")


def _law_reactants(
    network: ReactionNetwork, given: Mapping[int, Mapping[int, int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Falling factorials of all laws in flat arrays: starts, variables, orders."""
    table = network.reactions
    lengths = np.diff(table.reactant_starts)
    for k, orders in given.items():
        lengths[k] = len(orders)
    starts = starts_of(lengths)
    members = np.empty(int(starts[-1]), np.int32)
    orders_of = np.empty(int(starts[-1]), np.int32)
    own = np.ones(len(table), bool)
    own[list(given)] = False
    rows = np.repeat(own, np.diff(table.reactant_starts))
    target = np.repeat(own, lengths)
    members[target] = table.reactant_species[rows]
    orders_of[target] = table.reactant_counts[rows].astype(np.int32)
    for k, orders in given.items():
        part = slice(starts[k], starts[k + 1])
        members[part] = list(orders)
        orders_of[part] = list(orders.values())
    return starts, members, orders_of


def _dependences(
    naming: Naming,
    programs: _Programs,
    programs_of: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
) -> dict[str, np.ndarray]:
    """Reactions whose propensity depends on each variable."""
    rows = [np.repeat(np.arange(len(programs_of), dtype=np.int32), np.diff(starts))]
    columns = [members]
    for k in np.flatnonzero(programs_of >= 0):
        used = sorted(
            {
                int(argument)
                for operation, argument in programs.steps[programs_of[k]]
                if operation == Operation.VARIABLE
            }
            - set(members[starts[k] : starts[k + 1]].tolist())
        )
        rows.append(np.full(len(used), k, np.int32))
        columns.append(np.array(used, np.int32))
    reaction, variable = np.concatenate(rows), np.concatenate(columns)
    order = np.argsort(variable, kind="stable")
    lengths = np.bincount(variable, minlength=len(naming.variables))
    return {"affected_starts": starts_of(lengths), "affected": reaction[order].astype(np.int32)}


def _gather_events(
    network: ReactionNetwork,
    naming: Naming,
    programs: _Programs,
    known: Mapping[str, Any],
    rounding: str | None,
    whole: bool,
) -> dict[str, np.ndarray]:
    triggers, delays, priorities, flags = [], [], [], []
    watched: list[int] = []
    lengths: list[int] = []
    assigned: list[int] = []
    assignments: list[int] = []
    sizes: list[int] = []
    effects = Effects(naming)
    each: list[tuple[Event, dict[str, Expression]]] = []
    draws: list[int] = []
    for event in network.events:
        before = len(effects.drawn)
        taken = {n: effects.without_draws(value) for n, value in event.assignments.items()}
        each.append((event, taken))
        draws.append(len(effects.drawn) - before)
    known = {**dict.fromkeys(naming.draws, 0.0), **known}
    parameters = whole_parameters(naming, each, known, effects.whole)
    test = Wholeness(naming, known, parameters | effects.whole)
    for k, (event, taken) in enumerate(each):
        what = f"trigger of event '{event.name or k}'"
        # What happens at the begin never happens again.
        trigger = Expression("1 > 0") if event.at_begin else event.trigger
        triggers.append(programs.add(trigger, what))
        if naming.follows_state(naming.inline(trigger)) or (triggers[-1] in programs.conditions):
            watched.append(k)
        _check_delay(event.delay, naming, known, f"event '{event.name or k}'")
        delays.append(programs.add(event.delay, None) if event.delay != 0.0 else NO_PROGRAM)
        priorities.append(programs.add(event.priority, None))
        flags.append(
            PERSISTENT * event.persistent
            + INITIALLY_TRUE * (event.initially_true or event.at_begin)
            + FROM_TRIGGER * (event.values_from_trigger and not event.at_begin)
            + AT_BEGIN * event.at_begin
            + ROUNDING * rounding_of(event, k, taken, test, rounding, whole)
        )
        lengths.append(len(event.assignments))
        for name, expression in taken.items():
            assigned.append(naming.index[name])
            size = naming.size_of(name)
            assignments.append(programs.add(expression, None))
            sizes.append(NO_PROGRAM if size is None else programs.add(Expression(size), None))
    return {
        "triggers": np.array(triggers, np.int32),
        "watched": np.array(watched, np.int32),
        "event_delays": np.array(delays, np.int32),
        "priorities": np.array(priorities, np.int32),
        "flags": np.array(flags, np.int32),
        "assignment_starts": starts_of(np.array(lengths, np.int64)),
        "assigned": np.array(assigned, np.int32),
        "assignments": np.array(assignments, np.int32),
        "sizes": np.array(sizes, np.int32),
        "draw_starts": starts_of(np.array(draws, np.int64)),
        "draws": np.array(
            [
                (kind, place, programs.add(n, None), programs.add(p, None))
                for kind, place, n, p in effects.drawn
            ],
            np.int32,
        ).reshape(-1, 4),
    }


def _initial(
    network: ReactionNetwork,
    naming: Naming,
    known: Mapping[str, Any],
    given: Mapping[str, np.ndarray],
    point_count: int,
    whole: bool,
) -> np.ndarray:
    """Initial amounts, shape [point, variable]."""
    start = np.empty((point_count, len(naming.variables)))
    for i, member in enumerate(network.species):
        start[:, i] = initial_amount(member, given.get(member.name, member.initial), known)
    if whole:
        counts = np.flatnonzero(~network.is_continuous)
        part = start[:, counts]
        check_amounts(part, [network.species[i].name for i in counts])
        start[:, counts] = part
    for i in range(len(network.species), len(naming.variables)):
        start[:, i] = known.get(naming.variables[i], 0.0)  # draws have no initial value
    return start


def initial_amount(member: Species, value: Any, known: Mapping[str, Any]) -> Any:
    """Amount of a species from its initial value, at known parameters and sizes."""
    if isinstance(value, Expression):
        value = value.evaluate(known)
    if member.quantity == "concentration" and member.compartment is not None:
        value = value * known[member.compartment]
    return value


def check_amounts(start: np.ndarray, names: Sequence[str], bits: int = 53) -> None:
    """Refuse initial amounts [point, species] that are not whole; make the others exactly whole.

    Raises a ModelError if an amount is negative, too large, or not whole; the message names the
    species.
    """
    near = np.rint(start)
    bad = ~(
        (start >= 0)
        & (start < 2**bits)
        & (np.abs(start - near) <= 1e-9 * np.minimum(near, 1e5) + 4e-16 * near)
    )
    if bad.any():
        point, i = (int(k[0]) for k in np.nonzero(bad))
        raise ModelError(
            f"the initial amount of '{names[i]}' is {start[point, i]:g} molecules; expected a whole"
            f" number from 0 to 2^{bits} - 1 (ergode.in_molecules converts a model in other units)"
        )
    start[:] = near
