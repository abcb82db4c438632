"""Random epidemics on small graphs: every method against independent solutions."""

from __future__ import annotations

import numpy as np
import pytest
from epidemics_examine import (
    REPLICATES,
    STEPPED,
    Pool,
    examine,
    examine_leaps,
    examine_line_list,
    examine_windows,
    examine_world,
)
from epidemics_world import FAMILIES, World, draw
from fresh import fresh_seeds

from ergode.epidemics.event_driven.runner import EventEnsemble
from ergode.epidemics.shared import counts, progression, tables, transmission, vaccines


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
    "meetings": (2, "float64"), "laws": (2, "float32"), "traits": (1, "float32"),
    "births": (1, "float64"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", STEPPED)
def test_methods_in_steps_have_the_error_of_their_steps(family):
    wrong = examine_leaps([FAMILIES.index(family), 2026], family)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["measures", "meetings", "births"])
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


def _endless_patience(monkeypatch):
    """Who waits for a place waits until there is one."""
    _lines(
        monkeypatch, longest=lambda table: np.inf * (1 + table.longest), rate=lambda t: 0 * t.rate
    )


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


def _tallies(monkeypatch, change):
    """Columns of what measures do that are changed."""
    right = transmission.tallies_of
    monkeypatch.setattr(transmission, "tallies_of", lambda *given: change(right(*given)))


def _negative_tests_forgotten(monkeypatch):
    _tallies(monkeypatch, lambda table: table._replace(tested=0 * table.tested))


def _second_doses_forgotten(monkeypatch):
    def change(table):
        column = table.column.copy()
        column[:, counts.DOSE + 1 :] = -1
        return table._replace(column=column)

    _tallies(monkeypatch, change)


def _avoided_by_the_next(monkeypatch):
    def change(table):
        column = table.column.copy()
        column[:, counts.AVOIDED] = np.roll(column[:, counts.AVOIDED], 1)
        return table._replace(column=column)

    _tallies(monkeypatch, change)


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
        (_negative_tests_forgotten, "measures"), (_second_doses_forgotten, "measures"),
        (_avoided_by_the_next, "measures"), (_endless_patience, "measures"),
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
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_random_worlds_from_a_fresh_seed(device):
    wrong: list[str] = []
    pool = Pool()
    for fresh in fresh_seeds():  # a world each, so that a short run ends some
        turn, number = divmod(fresh, len(FAMILIES))
        family, seed = FAMILIES[number], [number, fresh]
        wrong += examine(family, seed, device=device, pool=pool)[0]
        wrong += examine_line_list(family, seed, device=device)
        if device == "cpu":
            wrong += examine_windows(family, seed)
        if family in STEPPED and turn % 4 == 0:
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
