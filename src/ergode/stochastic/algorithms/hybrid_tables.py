"""Tables of a hybrid model: what its method needs to know of a network.

Reactions that fire are of two kinds: some have propensities that move between firings. The Jacobian
of the differential equations has a fixed pattern, and a plan of its elimination.
"""

from __future__ import annotations

import numpy as np

from ergode.core.compiler.programs import Operation
from ergode.core.math.elimination import eliminate
from ergode.core.math.rosenbrock import RODAS4, coefficients_of
from ergode.stochastic.algorithms import hybrid_window
from ergode.stochastic.algorithms.hybrid_step import STAGES
from ergode.stochastic.tables import Tables, starts_of

TOLERANCE = 1e-6
"""Default relative tolerance of a step."""


def arrays(tables: Tables) -> dict[str, tuple[int, type]]:
    """Length and type of each row of a worker."""
    width = tables.flow.variables.size
    moving = tables.once(_split)[0]
    entries = tables.once(_jacobian)["column"].size
    slots = dict.fromkeys(
        (
            "y", "end", "finish", "largest", "reach", "slope", "before", "trial", "in_time", "row",
            "first", "second", "third",
        ),
        (width, np.float64),
    )  # fmt: skip
    return {
        **slots,
        "a": (tables.reaction_count, np.float64),
        "clock": (23 if tables.parted else 15, np.float64),
        "stages": (STAGES * width, np.float64),
        "terms": (int(tables.flows.sum()) + width, np.float64),
        **dict.fromkeys(("jacobian", "matrix"), (entries, np.float64)),
        "nodes": (hybrid_window.NODES * moving.size, np.float64),
        "parts": (hybrid_window.NODES * moving.size, np.float64),
        "series": (hybrid_window.NODES, np.float64),
        "low": (tables.variable_count, np.float64),
        "high": (tables.variable_count, np.float64),
        "stack": (tables.depth, np.float64),
        **dict.fromkeys(
            ("role", "disturbing_row"), (tables.parted * tables.reaction_count, np.int8)
        ),
        **dict.fromkeys(
            ("part", "root", "noise"), (tables.parted * tables.reaction_count, np.float64)
        ),
        "push": (tables.parted * width, np.float64),
    }


PARTED_TOLERANCE = 1e-4
"""The default where reactions are continuous at times: their noise is larger."""


def control(
    tolerance: float = TOLERANCE, longest: float = np.inf, threshold: float = np.inf
) -> dict[str, np.ndarray]:
    """Constants that control the steps of a run."""
    return {
        "tolerance": np.array([tolerance]),
        "longest": np.array([longest]),
        "threshold": np.array([threshold]),
    }


def _split(tables: Tables) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reactions that fire: those that move between firings, those of them in time, the others."""
    net, flows = tables.net, tables.network.flows
    moves, timed = np.zeros((2, tables.reaction_count), bool)
    for variable in tables.flow.variables:
        moves[_affected(tables, variable)] = True
    if tables.time_dependent:
        for j in np.flatnonzero(net.laws >= 0):
            timed[j] = (_steps(tables, net.laws[j])[0] == Operation.TIME).any()
    moves |= timed
    moving, timed, still = (
        np.flatnonzero(some & ~flows).astype(np.int32) for some in (moves, timed, ~moves)
    )
    return moving, timed, still


def _affected(tables: Tables, variable: int) -> np.ndarray:
    """Reactions whose propensity depends on a variable."""
    return tables.net.affected[slice(*tables.net.affected_starts[variable : variable + 2])]


def _steps(tables: Tables, program: int) -> tuple[np.ndarray, np.ndarray]:
    """Operations of a program and their arguments."""
    part = slice(*tables.net.program_starts[program : program + 2])
    return tables.net.operations[part], tables.net.arguments[part]


def _variables(tables: Tables, program: int) -> np.ndarray:
    """Variables that a program reads."""
    operations, arguments = _steps(tables, program)
    return arguments[operations == Operation.VARIABLE]


def _jacobian(tables: Tables) -> dict[str, np.ndarray]:
    """How the Jacobian is made, and its elimination; what deterministic reactions take."""
    net, flow = tables.net, tables.flow
    slots, flows = _slots(tables), np.flatnonzero(tables.flows)
    # [term] slots that it changes
    changed = [slots[net.changed[slice(*net.change_starts[j : j + 2])]] for j in flows]
    changed += [np.array([k]) for k in range(flow.variables.size)]
    uses: list[list[int]] = []
    for variable in flow.variables:
        uses.append(np.flatnonzero(np.isin(flows, _affected(tables, variable))).tolist())
        uses[-1] += [
            flows.size + k
            for k, program in enumerate(flow.rates)
            if program >= 0 and variable in _variables(tables, program)
        ]
    entries = [(i, k) for k, terms in enumerate(uses) for term in terms for i in changed[term]]
    pattern = np.zeros((flow.variables.size,) * 2, bool)
    pattern[tuple(np.array(entries, np.int64).reshape(-1, 2).T)] = True
    plan = eliminate(pattern)
    table = tables.network.reactions
    sources = [
        table.reactant_species[slice(*table.reactant_starts[j : j + 2])].tolist() for j in flows
    ]
    places = plan.positions()
    return {
        "use_starts": starts_of(np.array([len(terms) for terms in uses], np.int64)),
        "uses": np.array([term for terms in uses for term in terms], np.int32),
        "source_starts": starts_of(np.array([len(some) for some in sources], np.int64)),
        "sources": np.array([i for some in sources for i in some], np.int32),
        "targets": np.array([places[entry] for entry in entries], np.int32),
        **plan._asdict(),
    }


def _slots(tables: Tables) -> np.ndarray:
    """The slot of each variable; -1 if it has none."""
    slots = np.full(tables.variable_count, -1, np.int32)
    slots[tables.flow.variables] = np.arange(tables.flow.variables.size)
    return slots


def constants(tables: Tables) -> dict[str, np.ndarray]:
    """Constants that all workers share."""
    net, flow = tables.net, tables.flow
    slots = _slots(tables)
    flows = tables.flows
    moving, timed, still = tables.once(_split)
    places = np.full(tables.reaction_count, -1, np.int32)
    places[moving] = np.arange(moving.size)
    ruled = np.zeros(tables.variable_count, bool)
    for program in flow.rates[flow.rates >= 0]:
        ruled[_variables(tables, program)] = True
    # Variables that the differential equations contain.
    known = ruled | (slots >= 0)
    for variable in range(tables.variable_count):
        known[variable] |= flows[_affected(tables, variable)].any()
    disturbs = np.zeros(tables.reaction_count, np.int8)
    rows = np.repeat(np.arange(tables.reaction_count), np.diff(net.change_starts))
    disturbs[rows[known[net.changed[: rows.size]]]] = 1
    disturbs[tables.network.flows] = 0
    fired = np.zeros(tables.variable_count, bool)
    fired[net.changed[: rows.size][~tables.network.flows[rows]]] = True
    scales = [
        net.laws[j] >= 0
        and not fired[_variables(tables, net.laws[j])].any()
        and (slots[net.reactants[slice(*net.reactant_starts[j : j + 2])]] < 0).all()
        for j in moving
    ]
    counted = [fired[_variables(tables, condition)].any() for condition in flow.conditions]
    made = coefficients_of(RODAS4)
    tableau = np.zeros((6, STAGES, STAGES))
    tableau[0], tableau[1] = made.a, made.c
    for k, row in enumerate((made.m, made.e, made.alpha, made.gammas)):
        tableau[2 + k, 0] = row
    return {
        "variables": flow.variables,
        "rates": flow.rates,
        "slots": slots,
        "flows": np.flatnonzero(flows).astype(np.int32),
        "moving": moving,
        "places": places,
        "scales": np.array(scales, np.int8),
        "timed": timed,
        "still": still,
        "fires": (~tables.network.flows).astype(np.int8),
        "disturbs": disturbs,
        "disturbing": np.flatnonzero(disturbs).astype(np.int32),
        "conditions": flow.conditions,
        "counted": np.array(counted, np.int8),
        "follows_time": np.array([tables.time_dependent], np.int8),
        "able": flows.astype(np.int8) + tables.network.flows.astype(np.int8),
        "counts": np.isin(flow.variables, np.flatnonzero(~tables.network.is_continuous)).astype(
            np.int8
        ),
        "ruled": ruled.astype(np.int8),
        "calm": np.array([not (tables.naming.continuous or tables.smooth)], np.int8)
        * (not tables.time_dependent),
        "tableau": tableau,
        "more": np.array([made.p, made.q]),
        **tables.once(_jacobian),
        **control(),
    }
