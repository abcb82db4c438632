"""The methods: one record each, with its requirements and its runner.

A new method is one record in `METHODS` and one module in `algorithms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from ergode.core import methods
from ergode.core.arguments import choice
from ergode.core.compiler.source import Target
from ergode.core.devices import Device
from ergode.core.words import counted
from ergode.stochastic.algorithms import (
    composition_rejection,
    direct,
    hybrid,
    leap,
    next_reaction,
    partial_propensity,
    rejection_bounds,
    three_level,
)
from ergode.stochastic.algorithms.algorithm import Algorithm
from ergode.stochastic.runners import compiled_direct, thread_groups
from ergode.stochastic.runners.compiled_direct import CompiledDirectRunner
from ergode.stochastic.runners.threads import ThreadRunner
from ergode.stochastic.tables import Tables

MethodName = Literal[
    "auto", "direct", "warp-direct", "partial-propensity", "composition-rejection",
    "rejection-bounds", "next-reaction", "hybrid", "tau-leap", "langevin",
]  # fmt: skip
RunnersByTarget = dict[Target, Callable[..., Any]]

# Up to this number of reactions, one search over all of them is fastest.
_DIRECT_MOST = 64
# If a firing changes more propensities than this, partial propensities are faster.
_COUPLED_FROM = 32
# A block per realization pays if there are at most this many realizations per multiprocessor, and a
# firing changes at least this many propensities.
_BLOCKS_A_MULTIPROCESSOR = 2
_BLOCK_FROM = 256
# A quarter of a warp per realization is faster than a warp from this number of realizations per
# multiprocessor, and up to this number of reactions.
_QUARTERS_A_MULTIPROCESSOR = 64
_QUARTER_MOST = 2048


@dataclass(frozen=True)
class Request:
    """The run for which a method is chosen."""

    device: Device
    realizations: int  # total number over all points
    max_firings: int  # limit on the firings of a realization
    logged: bool  # whether every firing is listed
    # Constants that control steps (see `leap.control`); empty for a method without steps.
    control: Mapping[str, np.ndarray]


class MakeRunner(Protocol):
    """Chooses how a method runs, and describes the choice."""

    def __call__(
        self, method: Method, tables: Tables, request: Request
    ) -> tuple[RunnersByTarget, str]:
        """Functions that make the runner, by target; and text for ``method_reason``."""


def _run_by_threads(
    method: Method, tables: Tables, request: Request
) -> tuple[RunnersByTarget, str]:
    """Run on the tables of a network: a thread or a thread group per realization."""
    device = request.device
    algorithm, size, said = method.algorithm, 1, ""
    if device.is_cuda:
        shared = method.group_algorithm or method.algorithm
        if tables.reaction_count and not request.logged:
            size = thread_group_size(shared, tables, request.realizations, device.core_count)
        names = {1: "thread", thread_groups.QUARTER: "quarter of a warp"}
        names[thread_groups.WARP] = "warp"
        said = f"; a {names.get(size, f'block of {size} threads')} for a realization"
        algorithm = shared if size > 1 else method.algorithm
    runners = _on_both(ThreadRunner, algorithm=algorithm)
    if size > 1:
        make = partial(thread_groups.ThreadGroupRunner, algorithm=algorithm, size=size)
        runners["cuda"] = make
    return runners, said


def _run_direct(method: Method, tables: Tables, request: Request) -> tuple[RunnersByTarget, str]:
    """Run code compiled for the network if it is small, else run on its tables."""
    small = compiled_direct.fits(tables) and request.max_firings <= compiled_direct.FIRINGS_MOST
    if request.logged or not small:
        return _run_by_threads(method, tables, request)
    said = "; a thread for a realization" if request.device.is_cuda else ""
    return _on_both(CompiledDirectRunner), said


def _run_steps(method: Method, tables: Tables, request: Request) -> tuple[RunnersByTarget, str]:
    """Run in steps."""
    algorithm = hybrid.PARTED_ALGORITHM if tables.parted else method.algorithm
    return _on_both(
        ThreadRunner, algorithm=algorithm, control=request.control, whole=method.whole
    ), ""


def _on_both(make: Callable[..., Any], **options: Any) -> RunnersByTarget:
    return dict.fromkeys(("cpu", "cuda"), partial(make, **options))


def _treats_all(tables: Tables, logged: bool) -> str | None:
    return None


def _suits_none(tables: Tables) -> str | None:
    return None


@dataclass(frozen=True)
class Method(methods.Method):
    """A simulation method."""

    algorithm: Algorithm
    exact: bool = True  # whether realizations have the distribution of the master equation
    whole: bool = True  # whether amounts are whole numbers
    follows_time: bool = False  # whether rates may depend on time between firings
    # Reason why the method cannot simulate a network; None if it can.
    refuses: Callable[[Tables, bool], str | None] = _treats_all
    # Reason for which ``"auto"`` chooses it, or None. At most one method suits a network.
    suits: Callable[[Tables], str | None] = _suits_none
    make_runner: MakeRunner = _run_by_threads
    # The algorithm on thread groups, if it is a different one.
    group_algorithm: Algorithm | None = None

    def why_unsupported(self, tables: Tables, logged: bool = False) -> str | None:
        """Reason why it cannot simulate a network, or list its firings; None if it can."""
        if not self.algorithm.flows:
            for name in tables.naming.continuous:
                what = "a rate rule" if name in tables.network.rate_rules else "real amounts"
                return (
                    f"assumes that nothing changes between firings, but '{name}' has {what}; use "
                    "'hybrid'"
                )
            if tables.smooth:
                return f"cannot meet a condition exactly: {tables.smooth}; use 'hybrid'"
        if tables.time_dependent and not self.follows_time:
            able = " or ".join(repr(one.name) for one in METHODS.values() if one.follows_time)
            return f"assumes constant rates between firings, but a rate depends on time; use {able}"
        return self.refuses(tables, logged)


# ---- reasons why a method cannot simulate a network


def _needs_pairs(tables: Tables, logged: bool) -> str | None:
    """Partial propensities: mass action of at most two molecules; counts never negative."""
    if not tables.mass_action or tables.order_most > 2:
        return "is for mass action of at most two molecules; use 'direct' or another"
    if tables.unlimited is not None:
        reaction, variable = tables.unlimited
        return (
            f"needs counts that never become negative, but reaction {reaction + 1} may take more "
            f"'{tables.naming.variables[variable]}' than there is; use 'direct' or another"
        )
    return None


def _needs_no_moments(tables: Tables, logged: bool) -> str | None:
    """Steps over many firings: nothing may depend on the time of a single firing."""
    if logged:
        return "does not simulate single firings, so it cannot list them; use an exact method"
    if tables.has_delays:
        return "does not support delays; use an exact method"
    if tables.interruptions.stop.size:
        return "cannot find the time at which 'stop' is met; use an exact method"
    if tables.interruptions.watched.size or tables.moving_breaks:
        return (
            "cannot find the time at which a condition on amounts changes, and the network has "
            "such events or rates; use an exact method"
        )
    return None


# ---- choice of "auto": it depends only on the network, so results do not depend on the device


def coupling(tables: Tables) -> float:
    """Number of propensities that a firing changes, averaged over reactions."""
    net = tables.net
    affected = np.diff(net.affected_starts)
    return float(affected[net.changed].sum() / max(1, tables.reaction_count))


def _suits_steps(tables: Tables) -> str | None:
    if names := tables.naming.continuous:
        return f"'{names[0]}' changes between firings"
    if tables.is_hybrid:
        return "continuous_above is given"
    return "a condition depends on the time" if tables.smooth else None


def _suits_small(tables: Tables) -> str | None:
    if _suits_steps(tables):
        return None
    count = tables.reaction_count
    small = not tables.time_dependent and count <= _DIRECT_MOST
    return f"{counted(count, 'reaction')}: one search over all" if small else None


def _suits_large(tables: Tables, coupled: bool, pairs: bool | None = None) -> str | None:
    """Larger networks, coupled strongly or weakly; with or without partial propensities."""
    many = tables.reaction_count > _DIRECT_MOST
    if tables.time_dependent or not many or _suits_steps(tables):
        return None
    followed = coupling(tables)
    if (followed > _COUPLED_FROM) != coupled:
        return None
    if pairs is not None and (_needs_pairs(tables, False) is None) != pairs:
        return None
    kind = " of mass action" if pairs else ""
    return (
        f"{counted(tables.reaction_count, 'reaction')}{kind}, and a firing changes "
        f"the rates of {followed:,.0f}"
    )


def _suits_time(tables: Tables) -> str | None:
    if _suits_steps(tables):
        return None
    return "rates depend on time" if tables.time_dependent else None


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "direct",
            "one search over all reactions (Gillespie 1977)",
            f"networks of up to {_DIRECT_MOST} reactions",
            direct.ALGORITHM,
            suits=_suits_small,
            make_runner=_run_direct,
            group_algorithm=three_level.ALGORITHM,
        ),
        Method(
            "warp-direct",
            "a search in three levels (Komarov & D'Souza 2012)",
            "larger networks that are strongly coupled, with any rates",
            three_level.ALGORITHM,
            suits=partial(_suits_large, coupled=True, pairs=False),
        ),
        Method(
            "partial-propensity",
            "sums of partial propensities (Ramaswamy et al. 2009)",
            "larger networks that are strongly coupled, with mass action of at most two molecules",
            partial_propensity.ALGORITHM,
            refuses=_needs_pairs,
            suits=partial(_suits_large, coupled=True, pairs=True),
        ),
        Method(
            "composition-rejection",
            "constant time a firing (Slepoy et al. 2008)",
            "larger networks that are weakly coupled",
            composition_rejection.ALGORITHM,
            suits=partial(_suits_large, coupled=False),
        ),
        Method(
            "rejection-bounds",
            "bounds of propensities (Thanh et al. 2014)",
            "rates that depend on time, and rates that are expensive",
            rejection_bounds.ALGORITHM,
            follows_time=True,
            suits=_suits_time,
        ),
        Method(
            "next-reaction",
            "a clock for each reaction (Gibson & Bruck 2000)",
            "sensitivities",
            next_reaction.ALGORITHM,
        ),
        Method(
            "hybrid",
            "differential equations between firings (Haseltine & Rawlings 2002)",
            "rate rules and continuous species, exact up to `tolerance`",
            hybrid.ALGORITHM,
            follows_time=True,
            suits=_suits_steps,
            make_runner=_run_steps,
        ),
        Method(
            "tau-leap",
            "an approximation by many firings in one step (Anderson & Koyama 2012)",
            "many molecules",
            leap.ALGORITHM,
            exact=False,
            refuses=_needs_no_moments,
            make_runner=_run_steps,
        ),
        Method(
            "langevin",
            "an approximation by the chemical Langevin equation (Gillespie 2000), in real amounts",
            "many molecules",
            leap.ALGORITHM,
            exact=False,
            whole=False,
            refuses=_needs_no_moments,
            make_runner=_run_steps,
        ),
    )
}
EXACT = tuple(name for name, method in METHODS.items() if method.exact)
APPROXIMATE = tuple(name for name, method in METHODS.items() if not method.exact)


@dataclass(frozen=True)
class Plan:
    """A method and how it runs."""

    method: Method
    reason: str  # why the method was chosen, and how it runs
    runners: RunnersByTarget  # functions that make the runner, by target

    def runner(self, tables: Tables, *, device: Device, **options: Any) -> Any:
        """The runner of chunks on a device."""
        return self.runners[device.target](tables=tables, device=device, **options)


def named(name: str) -> Method | None:
    """The method with this name; None for ``"auto"``.

    Raises a PlanError if the name is unknown.
    """
    choice("method", name, ("auto", *METHODS))
    return METHODS.get(name)


def plan(method: Method | None, tables: Tables, request: Request) -> Plan:
    """Plan a simulation with the given method, or with the method that suits the network.

    Raises a PlanError if the method cannot simulate this network.
    """
    chosen, reason = choose(tables) if method is None else (method, "asked for")
    chosen.refuse(chosen.why_unsupported(tables, request.logged))
    runners, how = chosen.make_runner(chosen, tables, request)
    return Plan(chosen, reason + how, runners)


def choose(tables: Tables) -> tuple[Method, str]:
    """The method that suits a network, and the reason."""
    for method in METHODS.values():
        reason = method.suits(tables)
        if reason is not None:
            return method, reason
    raise AssertionError("no method suits the network")


def thread_group_size(
    algorithm: Algorithm, tables: Tables, realizations: int, multiprocessors: int
) -> int:
    """Number of GPU threads that share a realization."""
    if algorithm.thread_group is None:
        return 1
    few = realizations <= _BLOCKS_A_MULTIPROCESSOR * multiprocessors
    many = realizations >= _QUARTERS_A_MULTIPROCESSOR * multiprocessors
    sizes = [thread_groups.WARP, thread_groups.BLOCK]
    if few and algorithm.thread_group.pays_by_block and coupling(tables) >= _BLOCK_FROM:
        sizes.reverse()
    elif many and tables.reaction_count <= _QUARTER_MOST:
        sizes.insert(0, thread_groups.QUARTER)
    able = (s for s in sizes if thread_groups.why_unsupported(algorithm, tables, s) is None)
    return next(able, 1)
