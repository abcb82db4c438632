"""How random epidemics are held against independent solutions: comparisons, and their errors.

Memoryless ones are held against the master equation, others against a plain queue of events.  A
comparison errs with a probability of 1e-11: with fewer than 1e5 of them in a run, all together err
with less than 1e-6.

The queue is slow, so a world is first held against a tenth of its replicates.  If no comparison has
a probability below `DOUBT`, that is all; else all replicates are run, with other draws, and they
alone decide.  `Pool` adds up over worlds by how much cases are too many, so that a small error that
all worlds have is noticed too (`docs` of the power: see `Pool`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import epidemics_master
import epidemics_plain
import numpy as np
from epidemics_tallies import assert_conserved
from epidemics_world import World, contacts_of, draw, model_of, options_of
from scipy.stats import chi2, norm

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.methods import METHODS
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.windows.runner import WindowEnsemble

ALPHA = 1e-11
SIGMAS = float(norm.isf(ALPHA / 2))
DOUBT, FIRST = 1e-3, 0.1  # of a first look: the chance that asks for another, and its replicates
EXACT = [method.name for method in METHODS.values() if method.exact]
LEAPS = [method.name for method in METHODS.values() if method.steps]
REPLICATES = 60_000


class Truth:
    """What should come out: chances of counts, or a sample of them."""

    def __init__(self, world: World, seed: list[int], replicates: int) -> None:
        self.nodes = world.nodes
        if world.memoryless:
            self.law, self.cases = epidemics_master.solve(world)
            self.counts = None
        else:
            rng = np.random.default_rng([*seed, 1])
            found = epidemics_plain.simulate(world, replicates, rng)
            self.counts, self.sampled, self.entries, self.measures = found
            self.cases = self.sampled.mean(axis=0)
        number = np.arange(self.nodes + 1)
        if self.counts is None:
            self.mean = self.law @ number
        else:
            self.mean = self.counts.mean(axis=0)

    def compare(self, found: np.ndarray, cases: np.ndarray) -> list[tuple[float, str]]:
        """How probable counts [replicate, time, compartment, group] and cases are by this law."""
        each = []
        found, cases = found.reshape(*found.shape[:3], -1), cases.reshape(*cases.shape[:2], -1)
        for t in range(found.shape[1]):
            for c in np.ndindex(found.shape[2:]):
                seen = np.bincount(found[:, t, *c], minlength=self.nodes + 1)
                if self.counts is None:
                    chance = _one_sample(seen, self.law[t, *c])
                else:
                    other = np.bincount(self.counts[:, t, *c], minlength=self.nodes + 1)
                    chance = _two_samples(seen, other)
                means = found[:, t, *c].mean(), self.mean[t, *c]
                each.append((chance, f"count {c} at {t}: mean {means[0]:.4f} for {means[1]:.4f}"))
            sigmas = self._sigmas(cases, t, np.eye(cases.shape[2]))
            chance = 2 * float(norm.sf(abs(sigmas).max()))
            each.append((chance, f"cases at {t}: {cases[:, t].mean(axis=0)} for {self.cases[t]}"))
        return each

    def compare_more(self, found: Any) -> list[tuple[float, str]]:
        """How probable entries and what measures did are, where a result has them."""
        each = []
        for name, truth in (("entries", self.entries), ("measures", self.measures)):
            if name not in found:
                continue
            seen = found[name].values.reshape(*found[name].shape[:3], -1)
            labels = found["tally" if name == "measures" else "compartment"].values
            for t, c, g in np.ndindex(seen.shape[1:]):
                one, other = seen[:, t, c, g], truth[:, t, c, g]
                size = int(max(one.max(), other.max())) + 1
                chance = _two_samples(np.bincount(one, minlength=size),
                                      np.bincount(other, minlength=size))  # fmt: skip
                means = f"mean {one.mean():.4f} for {other.mean():.4f}"
                each.append((chance, f"{name} {labels[c]} of group {g} at {t}: {means}"))
        return each

    def excess(self, cases: np.ndarray) -> float:
        """By how many standard errors cases of all groups are too many at the end."""
        cases = cases.reshape(*cases.shape[:2], -1)
        return float(self._sigmas(cases, -1, np.ones((1, cases.shape[2])))[0])

    def _sigmas(self, cases: np.ndarray, t: int, sums: np.ndarray) -> np.ndarray:
        """By how many standard errors sums of groups [sum, group] are too large at a time."""
        here = cases[:, t] @ sums.T
        error = _squared_error(here)
        if self.counts is not None:
            error = error + _squared_error(self.sampled[:, t] @ sums.T)
        return (here.mean(axis=0) - self.cases[t] @ sums.T) / np.sqrt(error)

    def is_near(self, mean: np.ndarray, error: np.ndarray, bias: float) -> list[str]:
        """Where means [time, compartment, group] are further away than their errors and a bias."""
        mean, error = mean.reshape(self.mean.shape), error.reshape(self.mean.shape)
        if self.counts is not None:
            error = np.sqrt(error**2 + self.counts.var(axis=0) / len(self.counts))
        far = np.abs(mean - self.mean) > SIGMAS * error + bias
        return [
            f"mean {mean[at]:.4f} for {self.mean[at]:.4f} at {at}"
            for at in zip(*far.nonzero(), strict=True)
        ]


def _squared_error(sample: np.ndarray) -> np.ndarray:
    """Squared standard error of the mean of some integers.

    Rare ones may be missing: where 25 are expected, none comes with a probability of ALPHA.
    """
    return sample.var(axis=0) / len(sample) + (25 / SIGMAS / len(sample)) ** 2


def _one_sample(seen: np.ndarray, law: np.ndarray) -> float:
    expected = law * seen.sum()
    if (seen[law < 1e-12] > 0).any():
        return 0.0
    rare = expected < 20
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 20:  # too few to be tested but for being far too many
        if norm.sf((seen[-1] - expected[-1] - 40) / 10) < ALPHA:
            return 0.0
        seen, expected = seen[:-1], expected[:-1]
    if seen.size < 2:
        return 1.0
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))


def _two_samples(seen: np.ndarray, other: np.ndarray) -> float:
    a, b = seen.sum(), other.sum()
    rare = seen + other < 40
    pairs = np.array([np.append(x[~rare], x[rare].sum()) for x in (seen, other)], float)
    if pairs[:, -1].sum() < 40:
        if abs(pairs[0, -1] - pairs[1, -1]) >= 39:
            return 0.0
        pairs = pairs[:, :-1]
    if pairs.shape[1] < 2:
        return 1.0
    together = pairs.sum(axis=0)
    expected = np.outer([a, b], together / (a + b))
    return float(chi2.sf(((pairs - expected) ** 2 / expected).sum(), pairs.shape[1] - 1))


class Pool:
    """The excess of cases, in standard errors, of each method and precision over many worlds.

    Where all infections are 2 % too fast, a world of the master equation has an excess of 2.4 to
    3.8 on average, and a world of the queue 0.3.  So after three worlds of each family the pool
    notices it with a probability of one half, and after six of each with 98 %.  An error of this
    size in worlds of the queue alone takes about 500 of them.
    """

    def __init__(self) -> None:
        self.excess: dict[str, list[float]] = {}

    def differs(self) -> list[str]:
        """Methods of which the mean excess is not zero."""
        return [
            f"{name}: cases are {np.mean(each):.3f} standard errors too many in {len(each)} worlds"
            for name, each in self.excess.items()
            if abs(np.sum(each)) > SIGMAS * np.sqrt(len(each))
        ]


def examine(
    family: str, seed: list[int], replicates: int = REPLICATES, methods: list[str] = EXACT,
    precisions: tuple[str, ...] = ("float32", "float64"), device: str = "cpu",
    pool: Pool | None = None,
) -> tuple[list[str], int]:  # fmt: skip
    """What is wrong with a world's results, and how many methods took it."""
    world = draw(np.random.default_rng(seed), family)
    return examine_world(world, family, seed, replicates, methods, precisions, device, pool)


def examine_world(
    world: World, family: str, seed: list[int], replicates: int, methods: list[str],
    precisions: tuple[str, ...], device: str = "cpu", pool: Pool | None = None,
) -> tuple[list[str], int]:  # fmt: skip
    """`examine` for a world at hand."""
    asked = world, family, methods, precisions, device
    first = replicates if world.memoryless else int(FIRST * replicates)
    each, excess = _look(*asked, seed, first)
    if pool is not None:
        for name, value in excess.items():
            pool.excess.setdefault(name, []).append(value)
    if first < replicates and any(chance < DOUBT for chance, _ in each):
        each, _ = _look(*asked, [seed[0] + 2**31, *seed[1:]], replicates)
    return [text for chance, text in each if chance < ALPHA], len(excess)


def _look(
    world: World, family: str, methods: list[str], precisions: tuple[str, ...], device: str,
    seed: list[int], replicates: int,
) -> tuple[list[tuple[float, str]], dict[str, float]]:  # fmt: skip
    """Comparisons, and the excess of cases by each method and precision."""
    truth = Truth(world, seed, replicates)
    model, contacts, options = model_of(world), contacts_of(world), options_of(world)
    options |= {"replicates": replicates, "seed": int(seed[0]), "device": device}
    options |= included(world)
    compared: list[tuple[float, str]] = []
    excess = {}
    for method in methods:
        for precision in precisions:
            try:
                found = simulate(model, contacts, method=method, precision=precision, **options)
            except ergode.PlanError:
                continue
            name = f"{method} {precision}"
            here = truth.compare(found["count"].values, found["cases"].values)
            if truth.counts is not None:
                here += truth.compare_more(found)
            conserve(world, found)
            compared += [(chance, f"{family} {seed} {name}: {text}") for chance, text in here]
            excess[name] = truth.excess(found["cases"].values)
    return compared, excess


def examine_leaps(
    seed: list[int], family: str, replicates: int = 20_000, device: str = "cpu"
) -> list[str]:
    """What is wrong with methods that go in steps, whose error is of first order in the step.

    Two steps tell that error; what is left without it is of second order.
    """
    world = replace(draw(np.random.default_rng(seed), family), importations=[])
    truth = Truth(world, seed, replicates)
    model, contacts, options = model_of(world), contacts_of(world), options_of(world)
    options |= {"replicates": replicates, "device": device}
    wrong = []
    for method in LEAPS:
        means = []
        for k, step in enumerate((_STEP, 2 * _STEP)):
            try:
                found = simulate(model, contacts, method=method, step=step, seed=k, **options)
            except ergode.PlanError:  # not memoryless
                break
            counts = found["count"]
            means.append(counts.mean("replicate").values)
        if not means:
            continue
        error = np.sqrt(5 * counts.var("replicate").values / replicates)
        left = _LEFT * world.nodes
        far = truth.is_near(2 * means[0] - means[1], error, left)
        wrong += [f"{family} {seed} {method}: {text}" for text in far]
    return wrong


def included(world: World) -> dict[str, Any]:
    """What is counted besides."""
    measures = ("avoided",) if world.counts_avoided else ("measures",)
    measures += ("layers",) if world.layers else ()
    return {"include": ("entries", *(measures if world.measures else ()))}


def conserve(world: World, found: Any) -> None:
    """Nodes, doses, tests and places are conserved in every run."""
    if "measures" in found:
        inside = np.stack([world.is_in(g) for g in world.groups], axis=1).astype(int)
        counts = found["measures"].values
        counts = counts.reshape(*counts.shape[:3], -1)
        labels = found["tally"].values.tolist()
        for k, one in enumerate(world.measures):
            of = f"{one['name']}: " if "name" in one else f"interventions[{k}] "
            named = {n.removeprefix(of): at for at, n in enumerate(labels) if n.startswith(of)}
            among = world.group != 0 if one.get("among") == "group" else np.ones(world.nodes, int)
            assert_conserved({name: counts[:, :, at] for name, at in named.items()}, among @ inside)
    if "entries" in found:
        left = found["entries"] - found["count"]
        everybody = found["count"].isel(time=0).sum("compartment")
        base = world.infections[0][0]
        left = left + everybody * (left["compartment"] == base)
        assert (left >= 0).all() and (left.diff("time") >= 0).all()


_STEP, _LEFT = 0.02, 2e-3
STEPPED = ("plain", "driven", "laws", "traits")


def examine_windows(family: str, seed: list[int], replicates: int = 200) -> list[str]:
    """Where windows of time find another history than the queue of events, bit for bit."""
    world = draw(np.random.default_rng(seed), family)
    options = options_of(world) | included(world)
    initial, times = options.pop("initial"), options.pop("times")
    scenario = scenario_of(contacts_of(world), **options)
    common = {
        "times": times, "seed": seed[0], "device": devices.resolve("cpu:1"),
        "precision": "float64", "listing": True,
    }  # fmt: skip
    found = []
    for kind in (EventEnsemble, WindowEnsemble):
        ensemble = kind(model_of(world), scenario, initial, **common)
        held, _ = ensemble.run(0, replicates)
        listed = ensemble.cases(held, 0)
        if world.measures:
            listed |= ensemble.happened(held, 0)
        found.append((held[0], listed))
    (counts, cases), (others, listed) = found
    wrong = [] if np.array_equal(counts, others) else [f"{family} {seed}: counts of windows"]
    measures = ensemble.measures((counts.copy(),), 0) if world.measures else None
    for name, values in cases.items():
        if not np.array_equal(values, listed[name], equal_nan=values.dtype.kind == "f"):
            wrong.append(f"{family} {seed}: {name} of windows")
    if world.measures:
        labels = [one.label for one in ensemble.tallies]
        wrong += [
            f"{family} {seed}: events listed of {label}"
            for label in listed_otherwise(cases, measures, ensemble.times, labels)
        ]
    return wrong


def listed_otherwise(
    listed: dict[str, np.ndarray], counts: np.ndarray, times: np.ndarray, labels: list[str]
) -> list[str]:
    """Tallies whose counts [replicate, time, tally, ...] the list of events does not add up to."""
    wrong = []
    counts = counts.reshape(*counts.shape[:3], -1).sum(axis=3)
    for number, label in enumerate(labels):
        if label.endswith(("in force", "isolations", "quarantines")):
            continue  # of measures; and the number of spells, which are listed as "isolated"
        mine = listed["event_tally"] == number
        row, time, end = (listed[f"event_{n}"][mine] for n in ("replicate", "time", "end"))
        made = np.zeros(counts.shape[:2], int)
        for t, moment in enumerate(times):
            made[:, t] = np.bincount(row[time <= moment], minlength=len(made))
            made[:, t] -= np.bincount(row[end <= moment], minlength=len(made))
        if not np.array_equal(made, counts[:, :, number]):
            wrong.append(label)
    spells = [
        (labels.index(label), labels.index(label.replace(begun, now)))
        for begun, now in (("isolations", "isolated"), ("quarantines", "quarantined"))
        for label in labels if label.endswith(begun)
    ]  # fmt: skip
    for begun, now in spells:
        of_row = listed["event_replicate"][listed["event_tally"] == now]
        if not np.array_equal(np.bincount(of_row, minlength=len(counts)), counts[:, -1, begun]):
            wrong.append(labels[begun])
    return wrong


def examine_line_list(
    family: str, seed: list[int], replicates: int = 300, device: str = "cpu"
) -> list[str]:
    """Where a line list does not tell of the epidemic that the counts tell of."""
    world = draw(np.random.default_rng(seed), family)
    model, contacts, options = model_of(world), contacts_of(world), options_of(world)
    options |= {"replicates": replicates, "seed": int(seed[0]), "device": device}
    counts = simulate(model, contacts, precision="float64", **options)
    cases = simulate(model, contacts, precision="float64", output="line_list", **options)
    row, node, time = (cases[n].values for n in ("replicate", "node", "infected_at"))
    by = np.stack([np.bincount(row[time <= t], minlength=replicates) for t in world.times], axis=1)
    cases_of_all = counts["cases"].values.reshape(*by.shape, -1).sum(axis=2)
    wrong = [] if np.array_equal(by, cases_of_all) else [f"{family} {seed}: cases listed"]
    infector = cases["infector"].values
    arcs = {(a, b) for a, b, _, _ in world.arcs}
    for k in np.flatnonzero(infector >= 0):
        if (int(infector[k]), int(node[k])) not in arcs:
            wrong.append(f"{family} {seed}: {infector[k]} infected {node[k]} without contact")
    tree = ergode.epidemics.transmission_tree(cases)
    if max((d for _, d in tree.in_degree()), default=0) > 1 or len(tree) != (row == 0).sum():
        wrong.append(f"{family} {seed}: the transmission tree is none")
    return wrong
