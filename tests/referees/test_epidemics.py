"""Random epidemics on small graphs: every method against independent solutions.

Memoryless ones are held against the master equation, others against a plain queue of events.  A
comparison errs with a probability of 1e-11: with fewer than 1e5 of them in a run, all together err
with less than 1e-6.

The queue is slow, so a world is first held against a tenth of its replicates.  If no comparison has
a probability below `DOUBT`, that is all; else all replicates are run, with other draws, and they
alone decide.  `Pool` adds up over worlds by how much cases are too many, so that a small error that
all worlds have is noticed too (`docs` of the power: see `Pool`).
"""

from __future__ import annotations

import os
from dataclasses import replace

import epidemics_master
import epidemics_plain
import numpy as np
import pytest
from epidemics_world import FAMILIES, World, contacts_of, draw, model_of, options_of
from fresh import fresh_seeds
from scipy.stats import chi2, norm

import ergode
from ergode.core import devices
from ergode.epidemics import simulate
from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.methods import METHODS
from ergode.epidemics.scenario import scenario_of
from ergode.epidemics.shared import progression, tables, transmission, vaccines
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
            self.counts, self.sampled = epidemics_plain.simulate(world, replicates, rng)
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


_STEP, _LEFT = 0.02, 2e-3
_STEPPED = ("plain", "driven", "laws", "traits")


def examine_windows(family: str, seed: list[int], replicates: int = 200) -> list[str]:
    """Where windows of time find another history than the queue of events, bit for bit."""
    world = draw(np.random.default_rng(seed), family)
    options = options_of(world)
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
        found.append((held[0], ensemble.cases(held, 0)))
    (counts, cases), (others, listed) = found
    wrong = [] if np.array_equal(counts, others) else [f"{family} {seed}: counts of windows"]
    for name, values in cases.items():
        if not np.array_equal(values, listed[name], equal_nan=values.dtype.kind == "f"):
            wrong.append(f"{family} {seed}: {name} of windows")
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


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_methods_are_exact(family):
    worlds, precision = _ORDINARY[family]
    wrong, taken = [], 0
    for number in range(worlds):
        found, count = examine(family, [number, 2026], precisions=(precision,))
        wrong += found
        taken += count
    assert not wrong, "\n".join(wrong)
    # `sellke` refuses none of them; nor do first passages where nobody is infected twice.
    assert taken >= (2 if family == "laws" else 1) * worlds


# A precision has kernels of its own. That of windows and line lists is float64.
_ORDINARY = {
    "plain": (3, "float32"), "driven": (3, "float64"), "measures": (1, "float32"),
    "meetings": (2, "float64"), "laws": (2, "float32"), "traits": (2, "float32"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", _STEPPED)
def test_methods_in_steps_have_the_error_of_their_steps(family):
    wrong = examine_leaps([FAMILIES.index(family), 2026], family)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["measures", "meetings"])
def test_windows_and_line_lists_tell_the_same_history(family):
    """In the families that have all that the other two have."""
    wrong = []
    for number in range(2):
        wrong += examine_windows(family, [number, 2026])
        wrong += examine_line_list(family, [number, 2026])
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_a_world_where_nobody_meets_anybody():
    seeds = ([number, 2026] for number in range(2_000))
    seed = next(s for s in seeds if draw(np.random.default_rng(s), "meetings").meetings == [])
    wrong, taken = examine("meetings", seed, 5_000, precisions=("float64",))
    wrong += examine_windows("meetings", seed) + examine_line_list("meetings", seed)
    assert not wrong, "\n".join(wrong)
    assert taken == 1


# ---- what a referee must notice


def _faster(monkeypatch):
    """Every transmission rate 2 % too large."""
    right = transmission.infections_of

    def wrong(*arguments):
        table = right(*arguments)
        more = table.rate.dtype.type(1.02)
        return table._replace(rate=table.rate * more, peak=table.peak * more)

    monkeypatch.setattr(transmission, "infections_of", wrong)


def _ties_the_other_way(monkeypatch):
    """What happens at a time of the grid is counted from the next time on."""
    right = EventEnsemble.__init__

    def wrong(self, *arguments, times, **options):
        earlier = np.append(times[0], times[1:] - 1e-4)
        right(self, *arguments, times=earlier, **options)

    monkeypatch.setattr(EventEnsemble, "__init__", wrong)


def _branches(monkeypatch, change):
    """Tables of which `change` alters the branching: cumulative probabilities, classes of nodes."""
    right = progression.stages_of_group

    def wrong(model, *arguments):
        table = right(model, *arguments)
        cdf, of_nodes = change(table.branch_cdf, table.class_of)
        return table._replace(branch_cdf=cdf, class_of=of_nodes)

    monkeypatch.setattr(progression, "stages_of_group", wrong)


def _a_branch_of_a_class_off(monkeypatch):
    """In one class of nodes a branch is 2 % too likely."""

    def change(cdf, of_nodes):
        cdf = cdf.copy()
        at = np.argmax(np.where(cdf < 0.98, cdf, 0.0))
        if cdf[at] < 0.98:
            cdf[at] *= 1.02
        return cdf, of_nodes

    _branches(monkeypatch, change)


def _two_classes_swapped(monkeypatch):
    """Nodes of the first class progress like those of the last, and the reverse."""

    def change(cdf, of_nodes):
        last = of_nodes.max()
        swapped = np.where(of_nodes == 0, last, np.where(of_nodes == last, 0, of_nodes))
        return cdf, swapped.astype(of_nodes.dtype)

    _branches(monkeypatch, change)


def _vaccines(monkeypatch, *names):
    """Vaccines of which some effect is left out."""
    right = transmission.interventions_of

    def wrong(*arguments):
        table = right(*arguments)
        vaccines = table.vaccines
        none = {name: 0 * getattr(vaccines, name) for name in names}
        return table._replace(vaccines=vaccines._replace(**none))

    monkeypatch.setattr(transmission, "interventions_of", wrong)


def _without_severity(monkeypatch):
    _vaccines(monkeypatch, "severity")


def _without_waning(monkeypatch):
    _vaccines(monkeypatch, "waning_rate", "waning_first")


def _without_boosters(monkeypatch):
    """Vaccines of which only the first dose is given."""
    right = transmission.interventions_of

    def wrong(*arguments):
        table = right(*arguments)
        one = np.minimum(table.vaccines.count, 1)
        return table._replace(vaccines=table.vaccines._replace(count=one))

    monkeypatch.setattr(transmission, "interventions_of", wrong)


def _last_first(monkeypatch):
    """Programmes that begin with those who should come last."""
    right = vaccines.queue_of

    def wrong(*arguments):
        queue = right(*arguments)
        last = queue.place.max()
        place = np.where(queue.place >= 0, last - queue.place, -1).astype(np.int32)
        return queue._replace(place=place, size=queue.size[::-1], taken=queue.taken[::-1])

    monkeypatch.setattr(vaccines, "queue_of", wrong)


def _late_doses(monkeypatch):
    """Doses of a programme a fifth later."""
    right = vaccines.dose_times
    monkeypatch.setattr(vaccines, "dose_times", lambda *arguments: 1.2 * right(*arguments))


def _factors_of_another(monkeypatch):
    """Infections whose susceptibility is that of the next one."""
    right = tables.own_factor_of

    def wrong(model, contacts, name):
        found = right(model, contacts, name)
        return np.roll(found, 1, axis=0) if name == "susceptibility" else found

    monkeypatch.setattr(tables, "own_factor_of", wrong)


def _places_for_all(monkeypatch):
    """Compartments that are never full."""
    right = transmission.interventions_of

    def wrong(*arguments):
        table = right(*arguments)
        return table._replace(instead=np.where(table.instead < 0, -1, table.compartment))

    monkeypatch.setattr(transmission, "interventions_of", wrong)


def _without_tests(monkeypatch):
    """Tests that are never positive."""
    right = transmission.interventions_of

    def wrong(*arguments):
        table = right(*arguments)
        kept = (table.traced[:, :1] > 0).astype(table.positive.dtype)  # contact tracing
        return table._replace(positive=table.positive * kept)

    monkeypatch.setattr(transmission, "interventions_of", wrong)


def _lines(monkeypatch, **changes):
    """Lines of which some columns of the table are changed."""
    right = transmission.lines_of

    def wrong(*arguments):
        table = right(*arguments)
        return table._replace(**{name: change(table) for name, change in changes.items()})

    monkeypatch.setattr(transmission, "lines_of", wrong)


def _tests_for_all(monkeypatch):
    """Tests of which there are always enough."""
    _lines(monkeypatch, tests=lambda table: table.tests + 99)


def _nobody_waits_for_a_test(monkeypatch):
    _lines(monkeypatch, waits=lambda table: table.places)


def _late_periods(monkeypatch):
    """Tests that come a fifth later."""
    _lines(monkeypatch, moment=lambda table: 1.2 * table.moment)


def _nobody_waits_for_a_place(monkeypatch):
    """Who would wait enters although all places are taken."""
    right = transmission.interventions_of

    def wrong(*arguments):
        table = right(*arguments)
        queued = np.isin(np.arange(table.kind.size), table.lines.measure[table.lines.places != 0])
        return table._replace(compartment=np.where(queued, -1, table.compartment))

    monkeypatch.setattr(transmission, "interventions_of", wrong)


def _counters(monkeypatch, **changes):
    """Counters of triggers of which some columns of the table are changed."""
    right = transmission.triggers_of

    def wrong(*arguments):
        table = right(*arguments)
        made = {name: change(table.counters) for name, change in changes.items()}
        return table._replace(counters=table.counters._replace(**made))

    monkeypatch.setattr(transmission, "triggers_of", wrong)


def _long_windows(monkeypatch):
    """Triggers that count what is new for a fifth longer."""
    _counters(monkeypatch, window=lambda counters: 1.2 * counters.window)


def _counts_of_everybody(monkeypatch):
    _counters(monkeypatch, group=lambda counters: np.full_like(counters.group, -1))


def _never_stopped(monkeypatch):
    """Measures that no count stops."""
    right = transmission.triggers_of

    def wrong(*arguments):
        table = right(*arguments)
        return table._replace(stop=np.full_like(table.stop, -1))

    monkeypatch.setattr(transmission, "triggers_of", wrong)


def _without_susceptibility(monkeypatch):
    """The susceptibility of nodes left out of the rates along arcs."""
    monkeypatch.setattr(tables, "arc_weights", lambda model, contacts: contacts.weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "family"),
    [
        (_ties_the_other_way, "meetings"), (_without_susceptibility, "driven"),
        (_two_classes_swapped, "traits"), (_without_severity, "measures"),
        (_without_waning, "measures"), (_never_stopped, "measures"),
        (_without_tests, "measures"), (_without_boosters, "measures"), (_last_first, "measures"),
        (_late_doses, "measures"), (_places_for_all, "measures"),
        (_factors_of_another, "measures"),
        (_nobody_waits_for_a_place, "measures"), (_long_windows, "measures"),
    ],
)  # fmt: skip
def test_a_broken_engine_is_noticed(broken, family, monkeypatch):
    broken(monkeypatch)
    for number in range(8):
        precision = _ORDINARY[family][1]
        wrong, _ = examine(family, [number, 2026], REPLICATES, ["sellke"], (precision,))
        if wrong:
            return
    pytest.fail("nothing was noticed")


@pytest.mark.slow
def test_a_small_error_of_all_worlds_is_noticed(monkeypatch):
    _faster(monkeypatch)
    pool = Pool()
    for number in range(8):
        examine("plain", [number, 2026], methods=["sellke"], precisions=("float32",), pool=pool)
    assert pool.differs()


@pytest.mark.slow
def test_a_branch_of_one_class_that_is_off_is_noticed(monkeypatch):
    """Where most nodes begin before the branching, and counts are by class."""
    each = [{"C2": share, "C3": round(1 - share, 1)} for share in (0.3, 0.5, 0.8)]
    world = World(
        ["C0", "C1", "C2", "C3"],
        [("C0", "C1", {"C1": 0.5, "C2": 0.2})],
        {"C1": (each[0], ("exponential", 0.5))},
        [(1, 0, 1.0, 0), (0, 1, 0.5, 0)], 4, {"C1": [1, 2, 3]}, np.array([0.0, 1.0, 3.0]),
        age=np.array([3.0, 20.0, 60.0, 88.0]), splits={"C1": ("age", each)},
        group=np.array([0, 1, 2, 2]),
    )  # fmt: skip
    asked = world, "traits", [7], REPLICATES, ["sellke", "gillespie"], ("float32",)
    assert examine_world(*asked) == ([], 2)
    _a_branch_of_a_class_off(monkeypatch)
    wrong, _ = examine_world(*asked)
    assert {text.split()[2] for text in wrong} == {"sellke", "gillespie"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [_tests_for_all, _nobody_waits_for_a_test, _late_periods, _counts_of_everybody]
)
def test_tests_and_triggers_that_are_off_are_noticed(broken, monkeypatch):
    """Where three fall ill one after another, and few of them are tested in time."""
    world = World(
        ["C0", "C1", "C2", "C3"],
        [("C0", "C1", {"C2": 1.2})],
        {"C1": ({"C2": 1.0}, ("gamma", 0.5)), "C2": ({"C3": 1.0}, ("gamma", 2.0))},
        [(i, j, 1.0, 0) for i in range(3) for j in range(3, 6)], 6, {"C1": [0, 1, 2]},
        np.array([0.0, 0.6, 1.2, 2.5]),
        age=np.array([3.0, 20.0, 60.0, 88.0, 20.0, 60.0]), group=np.array([0, 1, 1, 1, 1, 1]),
        measures=[
            {"kind": "testing", "sensitivity": {"C2": 1.0}, "fraction": 1.0, "delay": 0.0,
             "isolation": np.inf, "reduction": 1.0, "period": 0.7, "capacity": 1, "wait": True,
             "priority": "age"},
            {"kind": "closure", "layer": None, "reduction": 0.5,
             "trigger": {"count": "C2", "level": 1, "delay": 0.0, "among": {"group": [0]}}},
        ],
    )  # fmt: skip
    asked = world, "lines", [7], REPLICATES, ["sellke"], ("float32",)
    assert examine_world(*asked) == ([], 1)
    broken(monkeypatch)
    assert examine_world(*asked)[0]


@pytest.mark.exhaustive
def test_random_worlds_from_a_fresh_seed():
    device = os.environ.get("ERGODE_REFEREE_DEVICE", "cpu")
    wrong: list[str] = []
    pool = Pool()
    for fresh in fresh_seeds():
        for number, family in enumerate(FAMILIES):
            seed = [number, fresh]
            wrong += examine(family, seed, device=device, pool=pool)[0]
            wrong += examine_line_list(family, seed, device=device)
            if device == "cpu":
                wrong += examine_windows(family, seed)
            if family in _STEPPED and (number + fresh) % 4 == 0:
                wrong += examine_leaps(seed, family, device=device)
        wrong += pool.differs()
        assert not wrong, f"ERGODE_REFEREE_SEED={fresh}\n" + "\n".join(wrong)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_methods_are_exact_on_a_device(family):
    wrong = []
    for number in range(3):
        wrong += examine(family, [number, 2026], device="cuda")[0]
    assert not wrong, "\n".join(wrong)
