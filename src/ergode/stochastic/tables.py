"""A network as the flat arrays that kernels read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ergode.models.reactions.network import ReactionNetwork
from ergode.stochastic.laws import Naming

Made = TypeVar("Made")


class Net(NamedTuple):
    """Arrays of a network's reactions for kernels.

    A variable is a species, or a parameter that events assign to.  Rows of a reaction or a variable
    lie between consecutive elements of its ``starts`` array.  A program of -1 means no program.
    """

    initial: Any  # [point, variable + 1] amounts, and a one
    coefficients: Any  # [point, reaction]
    parameters: Any  # [point, parameter]
    laws: Any  # [reaction] program that multiplies the falling factorials
    pairs: Any  # [reaction, 2] variables whose product they are, if no law needs more (`pairs_of`)
    reactant_starts: Any  # [reaction + 1]
    reactants: Any  # [entry] variable
    orders: Any  # [entry]
    change_starts: Any  # [reaction + 1]
    changed: Any  # [entry] variable
    changes: Any  # [entry]
    affected_starts: Any  # [variable + 1]
    affected: Any  # [entry] reaction whose propensity depends on the variable
    program_starts: Any  # [program + 1]
    operations: Any  # [step]
    arguments: Any  # [step]
    constants: Any  # [constant]


class Interruptions(NamedTuple):
    """Arrays of events, breaks, delays and stopping conditions for kernels; rows as in `Net`."""

    delays: Any  # [reaction] program
    random_delays: Any  # [reaction, 3] of a holding time: kind, two parameters; its kind, or -1
    delay_starts: Any  # [reaction + 1] of rows of the tables of holding times
    delay_times: Any  # [row]
    delay_cdf: Any  # [row]
    delayed_starts: Any  # [reaction + 1]
    delayed_variables: Any  # [entry] variable that changes after the delay
    delayed_changes: Any  # [entry]
    triggers: Any  # [event] program
    watched: Any  # [0 ...] events whose trigger a firing can change
    event_delays: Any  # [event] program
    priorities: Any  # [event] program
    flags: Any  # [event] bits: persistent, initially true, values from trigger; then rounding
    assignment_starts: Any  # [event + 1]
    assigned: Any  # [entry] variable
    assignments: Any  # [entry] program
    sizes: Any  # [entry] program of the size by which a concentration is multiplied
    draw_starts: Any  # [event + 1]
    draws: Any  # [entry, 4] kind, variable that stores it, programs of its arguments
    breaks: Any  # [break] program
    stop: Any  # [0 or 1] program
    real: Any  # [variable] whether it is a real number, and not a count


class Flow(NamedTuple):
    """Arrays of what changes between firings, for `algorithms.hybrid`."""

    variables: Any  # [slot] continuous variables
    rates: Any  # [slot] program of the rate rule
    conditions: Any  # [0 ...] programs of conditions that change between firings, not at breaks


# This bit in a variable of a pair means: its count minus one.
ONE_LESS = 1 << 30
PERSISTENT, INITIALLY_TRUE, FROM_TRIGGER, ROUNDING, AT_BEGIN = 1, 2, 4, 8, 64


@dataclass(frozen=True, eq=False)
class Tables:
    """A network, prepared for simulation."""

    net: Net
    interruptions: Interruptions  # arrays on the host
    naming: Naming  # meaning of the network's names
    species_count: int
    variable_count: int
    reaction_count: int
    depth: int  # stack size that programs need
    time_dependent: bool  # whether a rate depends on time other than by comparisons
    moving_breaks: bool  # whether time is compared with an expression that changes
    mass_action: bool  # whether every law is mass action
    most_values: int  # largest number of assignments of one event
    flow: Flow
    # A condition that depends on time otherwise than by comparing it, for a message; or empty.
    smooth: str
    # Variables whose values are reported, the first of all: the species, or more.
    reported_count: int
    parted: bool = False  # whether reactions are continuous while their species are many
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, make: Callable[..., Made], *options: Any) -> Made:
        """``make(tables, *options)``, computed once and cached."""
        key = make, *options
        if key not in self._made:
            self._made[key] = make(self, *options)
        return self._made[key]

    @property
    def network(self) -> ReactionNetwork:
        """The network."""
        return self.naming.network

    @cached_property
    def flows(self) -> np.ndarray:
        """Whether a reaction is deterministic, or continuous at times, [reaction]."""
        late = np.zeros(self.reaction_count, bool)
        late[list(self.network.reactions.delays)] = True
        able = (np.diff(self.net.change_starts) > 0) & ~late
        return self.network.flows | (able & self.parted)

    @property
    def is_real(self) -> np.ndarray:
        """Whether the amount of a species is a real number, if only at times, [species]."""
        return self.network.is_continuous | self.parted

    @property
    def is_hybrid(self) -> bool:
        """Whether a variable changes between firings."""
        return self.flow.variables.size > 0

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Names whose values results contain beside amounts: rules, and what has a rate rule."""
        network = self.network
        rated = (name for name in network.rate_rules if name not in network.index)
        return (*network.rules, *rated)

    @cached_property
    def order_most(self) -> int:
        """Highest order of a mass-action law."""
        totals = np.zeros(self.reaction_count, np.int64)
        rows = np.repeat(np.arange(self.reaction_count), np.diff(self.net.reactant_starts))
        np.add.at(totals, rows, self.net.orders[: rows.size])
        return int(totals.max(initial=0))

    @property
    def has_delays(self) -> bool:
        """Whether products of a reaction are delayed."""
        return bool((self.interruptions.delays >= 0).any())

    @property
    def is_interrupted(self) -> bool:
        """Whether there are events, breaks, delays or a stopping condition."""
        interruptions = self.interruptions
        return (
            self.event_count > 0
            or interruptions.breaks.size > 0
            or interruptions.stop.size > 0
            or self.has_delays
        )

    @property
    def delay_kinds(self) -> frozenset[int]:
        """Kinds of holding times that are delays of reactions."""
        kinds = self.interruptions.random_delays[:, 0]
        return frozenset(int(kind) for kind in kinds[kinds >= 0])

    @cached_property
    def is_plain(self) -> bool:
        """Whether the network has only mass action of at most two molecules."""
        return self.mass_action and self.order_most <= 2 and not self.is_interrupted

    @cached_property
    def unlimited(self) -> tuple[int, int] | None:
        """A reaction that takes more of a variable than its rate law requires, and that variable.

        Such a reaction may make a count negative.  None if there is no such reaction.
        """
        net, width = self.net, self.variable_count
        taken = net.changes < 0
        reactions = np.repeat(np.arange(self.reaction_count), np.diff(net.change_starts))[taken]
        amounts = dict(
            zip((reactions * width + net.changed[taken]).tolist(), -net.changes[taken], strict=True)
        )
        limited = np.repeat(np.arange(self.reaction_count), np.diff(net.reactant_starts))
        keys = limited * width + net.reactants[: limited.size]
        orders = dict(zip(keys.tolist(), net.orders[: limited.size].tolist(), strict=True))
        for key, amount in amounts.items():
            if orders.get(key, 0) < amount:
                return divmod(key, width)
        return None

    @property
    def event_count(self) -> int:
        """Number of events."""
        return len(self.interruptions.triggers)


def constant(array: np.ndarray) -> np.ndarray:
    """The array, made read-only: calls share it, and a GPU keeps its copy."""
    array.flags.writeable = False
    return array


def starts_of(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def offsets(values: np.ndarray, count: int) -> np.ndarray:
    """First index of each number below `count` among sorted values; last, the end."""
    return starts_of(np.bincount(values, minlength=count))
