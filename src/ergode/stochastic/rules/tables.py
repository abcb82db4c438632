"""A model of rules as the flat arrays that the kernel reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergode.core.errors import ModelError, PlanError
from ergode.models.expressions import Expression
from ergode.models.reactions.network import ReactionNetwork
from ergode.models.reactions.reaction import Reaction
from ergode.models.reactions.species import Species
from ergode.models.rules.generation import Local, symmetry
from ergode.models.rules.model import RuleModel, Types
from ergode.models.rules.patterns import Graph
from ergode.stochastic.kernel.tree import levels_of
from ergode.stochastic.rules.programs import Part, Program, Vocabulary, parts_of
from ergode.stochastic.rules.rule_arrays import (
    TWO,
    Condition,
    RuleArrays,
    concrete_sites,
    states_of,
    two_bonds,
)
from ergode.stochastic.tables import Tables, constant, starts_of
from ergode.stochastic.to_tables import build

COMPARISONS = {"==": 0, "<=": 1, ">=": 2, "<": 3, ">": 4}
_MOLECULES_MOST = 2**30
_CELLS_MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class RuleTables:
    """A model, prepared for simulation."""

    model: RuleModel
    network: Tables  # of a network whose reactions have the rates of the rules, without reactants
    shared: dict[str, Any]  # see `kernel.State`
    lengths: dict[str, int]  # of rows of a worker
    names: tuple[str, ...]  # of reported values


def build_rules(
    model: RuleModel, network: ReactionNetwork, values: Mapping[str, np.ndarray], points: int,
    room: int,
) -> RuleTables:  # fmt: skip
    """Build the tables of a model, for this number of points of a sweep.

    `network` is `network_of` the model; `values` [point] are parameters that differ from the
    model's own; `room` is the number of molecules of a type that rules may add to those at the
    begin.

    Raises a PlanError or ModelError if the model cannot be simulated; the message gives the reason.
    """
    return _Builder(model, network, values, points, room).tables()


def network_of(model: RuleModel) -> ReactionNetwork:
    """A network whose reactions have the rates of the rules, and whose species are observables."""
    if not model.observables:
        raise PlanError("the model has no observables, and simulation without a network reports "
                        "nothing else; add 'begin observables'")  # fmt: skip
    slots = _slots(model)
    changing = {*(one.name for one in model.observables), *model.functions, "time", *slots}
    first = model.observables[0].name
    reactions = []
    for k, rule in enumerate(model.rules, 1):
        text = rule.rate
        for one in rule.locals:
            text = re.sub(rf"\b{one.name}\b", _slot(one), text)
        rate = Expression(f"({text}) / {symmetry(rule)}")
        given: dict[str, Any] = {"rate" if rate.names & changing else "rate_constant": rate.text}
        reactions.append(Reaction([], [first], name=f"R{k}", **given))
    return ReactionNetwork(
        [Species(name, 0, boundary=True)
         for name in (*(one.name for one in model.observables), *slots)], reactions,
        dict(model.parameters), (), dict(model.functions), (), model.name,
    )  # fmt: skip


def _slot(local: Local) -> str:
    """The name of a number in rates that depend on what a rule takes."""
    return f"_{local.observable.name}_of_{'species' if local.molecule < 0 else 'molecule'}"


def _slots(model: RuleModel) -> list[str]:
    """Names of all numbers in rates that depend on what rules take."""
    return list(dict.fromkeys(_slot(one) for rule in model.rules for one in rule.locals))


class _Builder:
    def __init__(
        self, model: RuleModel, network: ReactionNetwork, values: Mapping[str, np.ndarray],
        points: int, room: int,
    ) -> None:  # fmt: skip
        self.model, self.points, self.room = model, points, room
        self.network = build(network, values, {}, points)
        if self.network.time_dependent:
            raise PlanError(
                "a rate depends on the time; simulation without a network needs rates that change "
                "only by comparisons with the time, such as (2 if time > 5 else 1)"
            )
        self.known = network.evaluate_parameters(values)
        self.words = _vocabulary(model)
        self.programs: dict[Program, int] = {}
        self.tracked: dict[Program, None] = {}  # those whose places are kept, in the order of use

    def tables(self) -> RuleTables:
        words, model = self.words, self.model
        rules = [RuleArrays(rule, f"rule {rule.name or k}", words)
                 for k, rule in enumerate(model.rules, 1)]  # fmt: skip
        counted = self._counted_at_once()
        reactants = [reactant for one in rules for reactant in one.reactants]
        self.tracked |= {part.program: None for one in reactants for part in one.anchors}
        observed = [
            [parts_of(pattern, None, words, f"observable {one.name}") for pattern, _ in
             one.patterns] for one in model.observables
        ]  # fmt: skip
        for observable, found in zip(model.observables, observed, strict=True):
            if observable.name in counted:
                for parts in found:
                    if len(parts) > 1:
                        raise PlanError(_not_local(observable.name))
                    self.tracked.setdefault(parts[0].program)
        for program in self.tracked:
            self.number(program)
        shared = self._rules(rules) | self._observables(observed, counted)
        seeds, counts = self._seeds()
        shared |= seeds | self._types(counts, rules)
        shared |= self._programs(shared["bases"], shared["rooms"])
        shared |= self._weights(rules, shared)
        shared["two_parts"] = np.bool_((shared["ways"] == TWO).any())
        lengths = self._lengths(rules, shared)
        shared = {name: constant(np.ascontiguousarray(value)) if isinstance(value, np.ndarray)
                  else value for name, value in shared.items()}  # fmt: skip
        names = (*(one.name for one in model.observables), *self.network.values)
        return RuleTables(model, self.network, shared, lengths, names)

    def number(self, program: Program) -> int:
        """The number of a program."""
        return self.programs.setdefault(program, len(self.programs))

    def _counted_at_once(self) -> set[str]:
        """Observables on which rates depend."""
        naming = self.network.naming
        used: set[str] = set()
        for rule in self.model.rules:
            used |= naming.inline(Expression(rule.rate)).names
        found = set()
        for one in self.model.observables:
            if one.name in used:
                if one.of_species or any(condition for _, condition in one.patterns):
                    raise PlanError(_not_local(one.name))
                found.add(one.name)
        return found

    # ---- rules

    def _rules(self, rules: Sequence[RuleArrays]) -> dict[str, Any]:
        reactants = [reactant for one in rules for reactant in one.reactants]
        conditions = [condition for one in reactants for condition in one.conditions]
        made = [condition for one in rules for condition in one.made_conditions]
        operations = [operation for one in rules for operation in one.operations]
        groups = [group for one in rules for group in one.groups]
        return {
            "reactant_starts": starts_of(np.array([len(one.reactants) for one in rules], int)),
            "ways": np.array([one.way for one in reactants], np.int32),
            # A list of places; another one, or the program of another part; first of its places.
            "first_parts": np.array([self.number(one.parts[0].program) for one in reactants]
                                    or [0], np.int32),
            "second_parts": np.array([self.number(one.parts[1].program) if len(one.parts) > 1
                                      else -1 for one in reactants] or [0], np.int32),
            "first_places": np.array([one.first for one in reactants] or [0], np.int32),
            "condition_starts": starts_of(np.array([len(one.conditions) for one in reactants],
                                                   int)),
            "conditions": self._conditions(conditions),
            "made_starts": starts_of(np.array([len(one.made_conditions) for one in rules], int)),
            "made_conditions": self._conditions([one for one, _, _ in made]),
            # Of the product: the reactant that has its first molecule, and which one.
            "made_heads": np.array([head for _, *head in made], np.int32).reshape(-1, 2),
            "operation_starts": starts_of(np.array([len(one.operations) for one in rules], int)),
            "operations": np.array(operations, np.int32).reshape(-1, 4),
            "created_starts": starts_of(np.array([len(one.created_types) for one in rules], int)),
            "created_states": np.array(
                [row for one in rules for row in one.created_states], np.int16
            ).reshape(-1, self.words.width),
            # Molecules that stay joined: a place of one, its reactant, and a class.
            "group_starts": starts_of(np.array([len(one.groups) for one in rules], int)),
            "groups": np.array(groups, np.int32).reshape(-1, 3),
            "class_counts": np.array([one.class_count for one in rules], np.int32),
            "product_counts": np.array([one.product_count for one in rules], np.int32),
        }  # fmt: skip

    def _conditions(self, conditions: Sequence[Condition]) -> np.ndarray:
        """Rows: whether it includes, and the programs of the pattern."""
        rows = [
            [int(includes), *[*(self.number(part.program) for part in parts), -1][:2]]
            for includes, parts in conditions
        ]
        return np.array(rows, np.int32).reshape(-1, 3)

    def _weights(self, rules: Sequence[RuleArrays], shared: Mapping[str, Any]) -> dict[str, Any]:
        """Rules whose rates depend on what they take, and trees of the weights of its places."""
        names = [one.name for one in self.model.observables]
        slots = {name: i for i, name in enumerate((*names, *_slots(self.model)))}
        changing = {*names, "time"}
        weighted, follows = np.full(len(rules), -1, np.int32), np.zeros(len(rules), np.int8)
        rows: list[list[tuple[int, int, int]]] = [[] for _ in rules]
        by_type: list[list[int]] = [[] for _ in self.words.types]
        trees, leaves = np.full(len(rules), -1, np.int32), 1
        for j, one in enumerate(rules):
            if one.rule.locals:
                i = one.weighted_reactant()
                weighted[j] = shared["reactant_starts"][j] + i
                program = one.reactants[i].parts[0].program
                by_type[program.root].append(j)
                rows[j] = [(slots[_slot(local)], names.index(local.observable.name),
                            one.key_of(local)) for local in one.rule.locals]  # fmt: skip
                rate = self.network.naming.inline(Expression(one.rule.rate))
                follows[j] = bool(rate.names & changing)
                trees[j] = np.count_nonzero(trees >= 0)
                room = int(shared["rooms"][program.root]) * len(program.variants)
                leaves = max(leaves, room)
        return {
            "weighted": weighted, "follows": follows, "any_follows": np.bool_(follows.any()),
            "weighted_starts": starts_of(np.array([len(one) for one in by_type], int)),
            "weighted_rules": np.array([j for some in by_type for j in some], np.int32),
            "local_starts": starts_of(np.array([len(one) for one in rows], int)),
            "locals": np.array([row for some in rows for row in some], np.int32).reshape(-1, 3),
            "tree_count": np.int64(np.count_nonzero(trees >= 0)), "trees": trees,
            "levels": levels_of(leaves),
        }  # fmt: skip

    # ---- observables

    def _observables(
        self, observed: Sequence[Sequence[Sequence[Part]]], counted: set[str]
    ) -> dict[str, Any]:
        rows, whole = [], []
        for one, found in zip(self.model.observables, observed, strict=True):
            for (_, condition), parts in zip(one.patterns, found, strict=True):
                comparison, bound = -1, 0
                if condition:
                    sign, number = condition.split()
                    comparison, bound = COMPARISONS[sign], int(number)
                first, *others = [self.number(part.program) for part in parts]
                rows.append([first, *(others or [-1]),
                             int(np.prod([part.multiplicity for part in parts])), comparison,
                             bound])  # fmt: skip
            is_local = not one.of_species and all(
                len(parts) == 1 and not condition
                for parts, (_, condition) in zip(found, one.patterns, strict=True)
            )
            whole.append([int(one.name in counted), int(not is_local), int(one.of_species)])
        return {
            "counted_starts": starts_of(np.array([len(one) for one in observed], int)),
            "counted": np.array(rows, np.int32).reshape(-1, 5),
            # Whether it is known at all times, whether it is of complexes, and of species.
            "observables": np.array(whole, np.int32),
        }  # fmt: skip

    # ---- molecules

    def _seeds(self) -> tuple[dict[str, Any], np.ndarray]:
        """Seed species, and their numbers of molecules [point, type]."""
        words, width = self.words, self.words.width
        types, states, bonds, lengths = [], [], [], []
        amounts = np.zeros((self.points, len(self.model.seeds)), np.int64)
        counts = np.zeros((self.points, len(words.types)), np.int64)
        for k, seed in enumerate(self.model.seeds):
            amounts[:, k] = self._amounts(seed.amount)
            lengths.append(len(seed.graph.molecules))
            site = concrete_sites(seed.graph, words)
            for m, one in enumerate(seed.graph.molecules):
                kind = words.type_of(one.name)
                types.append(kind)
                counts[:, kind] += amounts[:, k]
                states.append(states_of(one, words))
                ends = np.full(width, -1, np.int64)
                for s in range(len(one.sites)):
                    there = seed.graph.partners.get((m, s), ())
                    if len(there) > 1:
                        raise PlanError(two_bonds(f"{one.name}({one.sites[s].name})"))
                    for n, t in there:
                        ends[site[m, s]] = n * width + site[n, t]
                bonds.append(ends)
        return {
            "seed_starts": starts_of(np.array(lengths, int)),
            "seed_types": np.array(types, np.int32),
            "seed_states": np.array(states, np.int16).reshape(-1, width),
            "seed_bonds": np.array(bonds, np.int64).reshape(-1, width),
            "amounts": amounts,
        }, counts  # fmt: skip

    def _amounts(self, amount: float | Expression) -> np.ndarray:
        text = amount.text if isinstance(amount, Expression) else repr(amount)
        value = amount.evaluate(self.known) if isinstance(amount, Expression) else amount
        found = np.broadcast_to(np.asarray(value, np.float64), self.points)
        if not (np.isfinite(found) & (found >= 0) & (found == np.rint(found))).all():
            bad = next(x for x in found if not (np.isfinite(x) and x >= 0 and x == np.rint(x)))
            raise ModelError(
                f"a species begins with '{text}' = {bad:g} molecules; expected a whole number"
            )
        if (found > _MOLECULES_MOST).any():
            raise PlanError(f"a species begins with {found.max():g} molecules; they do not fit")
        return found.astype(np.int64)

    def _types(self, counts: np.ndarray, rules: Sequence[RuleArrays]) -> dict[str, Any]:
        """Ranges of the numbers of molecules: of each type one."""
        rooms = counts.max(axis=0)
        for one in rules:
            for kind in one.created_types:
                rooms[kind] = counts[:, kind].max() + self.room
        bases = np.concatenate([[0], np.cumsum(rooms)])
        if bases[-1] * self.words.width > _CELLS_MOST:
            raise PlanError(
                f"{bases[-1]:,} molecules do not fit; use fewer, or a smaller max_molecules"
            )
        kinds = np.repeat(np.arange(len(rooms)), rooms)
        return {"bases": bases, "rooms": rooms, "kinds": kinds.astype(np.int16),
                "width": np.int64(self.words.width)}  # fmt: skip

    # ---- programs

    def _programs(self, bases: np.ndarray, rooms: np.ndarray) -> dict[str, Any]:
        programs = list(self.programs)
        variants = [one for program in programs for one in program.variants]
        operations = [one for found, _ in variants for one in found]
        longest = max([1, *(len(key) for _, key in variants)])
        keys = np.zeros((max(1, len(variants)), longest, 2), np.int32)
        for k, (_, key) in enumerate(variants):
            keys[k, : len(key)] = np.array(key, np.int32).reshape(-1, 2)
        sizes = np.array([rooms[one.root] * len(one.variants) for one in self.tracked], np.int64)
        entry_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if entry_starts[-1] > _CELLS_MOST:
            raise PlanError(
                f"{entry_starts[-1]:,} places of patterns do not fit; use fewer molecules"
            )
        return {
            "roots": np.array([one.root for one in programs], np.int32),
            "sizes": np.array([one.size for one in programs], np.int32),
            "ambiguous": np.array([one.is_ambiguous for one in programs], np.int8),
            "key_counts": np.array([len(one.variants[0][1]) if one.variants else 0
                                    for one in programs], np.int32),
            "variant_starts": starts_of(np.array([len(one.variants) for one in programs], int)),
            "test_starts": starts_of(np.array([len(found) for found, _ in variants], int)),
            "tests": np.array(operations, np.int32).reshape(-1, 5),
            "keys": keys,
            "entry_starts": entry_starts,
            **self._dependences(),
        }  # fmt: skip

    def _dependences(self) -> dict[str, Any]:
        """Lists that depend on a site, and bonds that lead to their roots."""
        width, kinds = self.words.width, len(self.words.types)
        rows: list[set[tuple[int, int]]] = [set() for _ in range(2 * width * kinds)]
        paths: dict[tuple, int] = {}
        for program in self.tracked:
            for kind, site, what, path in program.dependences:
                number = paths.setdefault(path, len(paths))
                rows[2 * (kind * width + site) + what].add((self.number(program), number))
        steps = [step for path in paths for step in path]
        by_type: list[list[int]] = [[] for _ in range(kinds)]
        for program in self.tracked:
            by_type[program.root].append(self.number(program))
        return {
            "dependent_starts": starts_of(np.array([len(row) for row in rows], int)),
            "dependent": np.array([one for row in rows for one in sorted(row)], np.int32)
            .reshape(-1, 2),
            "path_starts": starts_of(np.array([len(path) for path in paths], int)),
            "path_steps": np.array(steps, np.int32).reshape(-1, 3),
            "rooted_starts": starts_of(np.array([len(one) for one in by_type], int)),
            "rooted": np.array([one for some in by_type for one in some], np.int32),
        }  # fmt: skip

    def _lengths(self, rules: Sequence[RuleArrays], shared: Mapping[str, Any]) -> dict[str, int]:
        molecules = int(shared["bases"][-1])
        largest = max([1, *(one.size for one in self.programs)])
        touched = max([1, *(2 * len(one.operations) * (1 + self.words.width) for one in rules)])
        return {
            "molecules": molecules, "sites": molecules * self.words.width,
            "entries": int(shared["entry_starts"][-1]), "lists": len(self.tracked),
            "types": len(self.words.types), "rules": max(1, len(rules)), "found": 2 * largest,
            "trees": int(shared["tree_count"]), "nodes": int(shared["levels"][-1]),
            "labels": max([1, *(len(one.groups) + len(one.operations) for one in rules)]),
            "places": max([1, *(one.place_count for one in rules)]), "touched": touched,
            "chosen": max([1, *(4 * len(one.reactants) + len(one.made_conditions)
                                for one in rules)]),
        }  # fmt: skip


def _not_local(name: str) -> str:
    return (
        f"a rate depends on the observable '{name}', which is of species, or of molecules that no "
        "bond of its pattern joins; simulation without a network needs 'Molecules' of a pattern "
        "whose bonds join all molecules"
    )


def _vocabulary(model: RuleModel) -> Vocabulary:
    """All types of molecules and states, also those that only patterns name."""
    graphs = [one.graph for one in model.seeds]
    graphs += [pattern for one in model.observables for pattern, _ in one.patterns]
    for rule in model.rules:
        graphs += [*rule.reactants, Graph(rule.created)]
        graphs += [pattern for one in rule.conditions for pattern in one.patterns]
    types: Types = dict(model.types) | {
        one.name: () for graph in graphs for one in graph.molecules if one.name not in model.types
    }
    states = {site.state for graph in graphs for one in graph.molecules for site in one.sites}
    states |= {state for rule in model.rules for _, state in rule.states}
    return Vocabulary(types, (one for one in states if one is not None))
