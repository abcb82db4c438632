"""Who waits for a test of a period, or for a place: written from what a user is told.

It shares no code with the library.  `TestLines` keeps, of all replicates side by side, the tests
that are left and when each node asked for one; `PlaceLines` since when each node waits for a place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_world import World, tidy


def periods_of(one: dict[str, Any], begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """When the periods of a measure begin, the first perhaps before the run, and their tests."""
    first = one.get("start", begin)
    moments = tidy(first + one["period"] * np.arange(int((end - first) / one["period"]) + 2))
    moments = moments[np.append(moments[1:], np.inf) > begin]
    given = one["capacity"]
    if not isinstance(given, tuple):
        return moments, np.full(moments.size, given)
    changes, numbers, *period = given
    times = np.mod(tidy(np.mod(moments, period[0])), period[0]) if period else moments
    at = np.searchsorted(tidy(changes), times, side="right") - 1
    return moments, np.asarray(numbers)[np.maximum(at, 0)]


class TestLines:
    """The tests that are left, and the lines of those who wait, by replicate and measure."""

    __test__ = False

    def __init__(self, run: Any, count: int) -> None:
        self.run, world = run, run.world
        self.limited = [k for k, one in enumerate(world.measures) if "period" in one]
        shape = count, len(world.measures)
        self.left, self.number = np.zeros((2, *shape), int)
        self.spent_at = np.full(shape, np.inf)
        self.asked = np.full((*shape, world.nodes), np.inf)
        self.periods = {}
        for k in self.limited:
            moments, tests = periods_of(world.measures[k], run.begin, run.horizon)
            # All who ask at the first moment of the run are in the line before.
            moments = np.maximum(moments, np.nextafter(run.begin, np.inf))
            self.periods[k] = np.append(moments, np.inf), np.append(tests, 0)
        self.urgency = {k: _urgency(world, world.measures[k]) for k in self.limited}

    def next(self, rows: np.ndarray) -> np.ndarray:
        """When the next period of any measure begins."""
        found = np.full(rows.size, np.inf)
        for k in self.limited:
            found = np.minimum(found, self.periods[k][0][self.number[rows, k]])
        return found

    def ask(self, rows: np.ndarray, node: np.ndarray, to: np.ndarray, time: np.ndarray) -> None:
        """Nodes that enter compartments ask for a test, and are tested, wait or go away."""
        run = self.run
        for k in self.limited:
            one = run.world.measures[k]
            wanted = np.isin(to, [run.index[name] for name in one["sensitivity"]])
            wanted &= run.rng.random(rows.size) < one["fraction"]
            wanted &= run.holds.takes(rows, k, node)
            mine = np.flatnonzero(wanted & run._in_force(rows, k, time))
            row, who, when = rows[mine], node[mine], time[mine]
            taken = (self.left[row, k] > 0) | (self.spent_at[row, k] == when)
            self._test(row[taken], k, who[taken], when[taken])
            spent = row[taken & (self.left[row, k] == 0)]
            self.spent_at[spent, k] = when[taken & (self.left[row, k] == 0)]
            joins = ~taken & (one["wait"] | (when == run.begin))
            away = ~taken & ~joins & ~np.isfinite(self.asked[row, k, who])
            run.tallies.note(row[away], k, "turned away", who[away])
            row, who, when = row[joins], who[joins], when[joins]
            self.asked[row, k, who] = np.minimum(self.asked[row, k, who], when)

    def _test(self, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray) -> None:
        run, one = self.run, self.run.world.measures[k]
        self.left[rows, k] -= 1
        share = run._sensitivity(one, run.at[rows, node])
        found = run.rng.random(rows.size) < share
        run.tallies.note(rows, k, "tests", node)
        run.tallies.note(rows[found], k, "positive", node[found])
        run.holds.find(rows[found], k, node[found], time[found])

    def refill(self, rows: np.ndarray, time: np.ndarray) -> None:
        """A period begins: those who wait the longest are tested."""
        for k in self.limited:
            moments, tests = self.periods[k]
            mine = moments[self.number[rows, k]] == time
            row, when = rows[mine], time[mine]
            self.left[row, k] = tests[self.number[row, k]] + np.minimum(self.left[row, k], 0)
            self.number[row, k] += 1
            self.spent_at[row, k] = np.inf
            force = self.run._in_force(row, k, when)
            self._leave(row[~force], k)
            row, when = row[force], when[force]
            rest = row
            while row.size:
                asked = self.asked[row, k]
                some = (self.left[row, k] > 0) & np.isfinite(asked).any(axis=1)
                row, when, asked = row[some], when[some], asked[some]
                node = _first(self.urgency[k], asked)
                self.asked[row, k, node] = np.inf
                self._test(row, k, node, when)
            if not self.run.world.measures[k]["wait"]:
                self._leave(rest, k)

    def die(self, rows: np.ndarray, node: np.ndarray) -> None:
        """Nodes wait no more."""
        self.asked[rows, :, node] = np.inf

    def _leave(self, rows: np.ndarray, k: int) -> None:
        """All who wait leave without a test."""
        here, node = np.nonzero(np.isfinite(self.asked[rows, k]))
        self.run.tallies.note(rows[here], k, "turned away", node)
        self.asked[rows, k] = np.inf


class PlaceLines:
    """Who waits for places, and enters one at the next moment, by replicate and measure."""

    def __init__(self, run: Any, count: int) -> None:
        self.run, world = run, run.world
        self.waited = [k for k, m in enumerate(world.measures) if m["kind"] == "capacity"
                       and m.get("wait")]  # fmt: skip
        self.since = np.full((count, len(world.measures), world.nodes), np.inf)
        self.urgency = {k: _urgency(world, world.measures[k]) for k in self.waited}
        self.enters = np.full((count, len(self.waited), world.nodes), np.inf)
        self.gives_up = np.full((count, world.nodes), np.inf)

    def wait(self, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray) -> None:
        """Nodes wait in their compartments, for a place or until they lose patience or exit."""
        run, patience = self.run, self.run.world.measures[k].get("patience", np.inf)
        self.since[rows, k, node] = time
        if isinstance(patience, str):
            self.gives_up[rows, node] = time + run.rng.exponential(float(patience), rows.size)
        else:
            self.gives_up[rows, node] = tidy(time + patience)
        run.due[rows, node] = np.minimum(self.gives_up[rows, node], run.exits_at[rows, node])

    def leave(self, rows: np.ndarray, node: np.ndarray, time: np.ndarray, to: np.ndarray) -> Any:
        """Which nodes wait no more, and where they go: elsewhere, or by an exit as it was drawn."""
        run = self.run
        leaves = np.zeros(rows.size, bool)
        for k in self.waited:
            mine = np.isfinite(self.since[rows, k, node])
            vain = mine & (self.gives_up[rows, node] < run.exits_at[rows, node])
            if vain.any():
                run.tallies.note(rows[vain], k, "turned away", node[vain])
                to = np.where(vain, run.index[run.world.measures[k]["instead"]], to)
            self.since[rows[mine], k, node[mine]] = np.inf
            leaves |= mine
        return leaves, to

    def waits(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Whether anybody waits."""
        return np.isfinite(self.since[rows, k]).any(axis=1)

    def next(self, rows: np.ndarray) -> np.ndarray:
        """When the next node enters a place."""
        return self.enters[rows].min(axis=(1, 2), initial=np.inf)

    def admit(self, rows: np.ndarray, time: np.ndarray) -> np.ndarray:
        """After a moment: the first in the line get the places that are free."""
        run, found = self.run, np.zeros(rows.size, bool)
        over = run.clock[rows] < time
        for place, k in enumerate(self.waited):
            one = run.world.measures[k]
            inside = (run.at[rows] == run.index[one["compartment"]]).sum(axis=1)
            free = one["places"] - inside - np.isfinite(self.enters[rows, place]).sum(axis=1)
            while True:
                here = np.flatnonzero(over & (free > 0) & self.waits(rows, k))
                if not here.size:
                    break
                row = rows[here]
                node = _first(self.urgency[k], self.since[row, k])
                self.since[row, k, node] = np.inf
                self.enters[row, place, node] = np.nextafter(run.clock[row], np.inf)
                free[here] -= 1
                found[here] = True
        return found

    def enter(self, rows: np.ndarray, time: np.ndarray) -> None:
        """Nodes enter the places that they have got."""
        flat = self.enters[rows].reshape(rows.size, -1).argmin(axis=1)
        place, node = np.divmod(flat, self.run.world.nodes)
        self.enters[rows, place, node] = np.inf
        for number, k in enumerate(self.waited):
            mine = place == number
            to = self.run.index[self.run.world.measures[k]["compartment"]]
            self.run._enter(rows[mine], node[mine], np.full(int(mine.sum()), to), time[mine])


def _first(urgency: np.ndarray, since: np.ndarray) -> np.ndarray:
    """Of those who wait, [row, node], who is the most urgent, and has waited the longest."""
    level = np.where(np.isfinite(since), urgency, -np.inf)
    first = level == level.max(axis=1, keepdims=True)
    return np.where(first, since, np.inf).argmin(axis=1)  # of equal ones the first


def _urgency(world: World, one: dict[str, Any]) -> np.ndarray:
    given = one.get("priority")
    if isinstance(given, dict):
        return np.array([given["risk"][risk] for risk in world.risk])
    return np.zeros(world.nodes) if given is None else np.asarray(world.age)
