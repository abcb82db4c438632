"""What measures did, in the plain queue of events: written from what a user is told.

It shares no code with the library.  What happens at once is noted when it happens; who is held, and
which measures are in force, follows from intervals that are listed, and doses from their times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_laws import dose_count, of_dose
from epidemics_world import World, tidy


def names_of(one: dict[str, Any], avoided: bool, layers: list[str]) -> list[str]:
    """What is counted of a measure, as results name it; contacts `avoided` too, and by layer."""
    found = []
    for name in _names_of(one, avoided):
        found.append(name)
        if name in ("traced", "contacts avoided"):
            found += [f"{name} in {layer}" for layer in layers]
    return found


def _names_of(one: dict[str, Any], avoided: bool) -> list[str]:
    last = ["contacts avoided"] if avoided and one["kind"] != "capacity" else []
    if one["kind"] == "vaccination":
        return [f"dose {d + 1}" for d in range(dose_count(one))] + last
    limited = one["kind"] == "testing" and "period" in one
    found = {
        "testing": [
            "tests",
            "positive",
            *(["traced"] if traces(one) else []),
            "isolations",
            "isolated",
            *(["released"] if "release_after" in one else []),
        ],
        "tracing": ["detected", "traced", "quarantines", "quarantined"],
        "isolation": ["isolations", "isolated"],
    }.get(one["kind"], [])
    if limited or one.get("wait") is True:
        found = [*found, "waiting"]
    if limited or "instead" in one:
        found = [*found, "turned away"]
    return [*found, "in force", *last]


def traces(one: dict[str, Any]) -> bool:
    """Whether contacts of those who are positive may be traced."""
    share = one.get("tracing", 0.0)
    return max(share.values()) > 0 if isinstance(share, dict) else share > 0


def _all(run: Any) -> np.ndarray:
    return np.arange(run.world.nodes)


def _over(time: Any, grid: np.ndarray) -> np.ndarray:
    """Whether a time is over at times of the grid; just after the first is later than it."""
    return np.where(np.arange(grid.size) > 0, tidy(time), time) <= grid


class Tallies:
    """Counts of what measures did, [replicate, time, tally, group]; and entries."""

    def __init__(self, run: Any, count: int) -> None:
        self.run, world = run, run.world
        self.names = [(k, name) for k, one in enumerate(world.measures)
                      for name in names_of(one, world.counts_avoided, world.layers)]  # fmt: skip
        self.column = {key: at for at, key in enumerate(self.names)}
        shape = count, len(self.names), world.groups.size
        self.now = np.zeros(shape, int)
        self.found = np.zeros((count, world.times.size, *shape[1:]), int)
        self.entered = np.zeros((count, len(world.compartments), world.groups.size), int)
        self.entries = np.zeros((count, world.times.size, *self.entered.shape[1:]), int)
        self.holds: list[tuple[np.ndarray, ...]] = []
        self.changes: list[tuple[np.ndarray, ...]] = []
        self.releases: dict[tuple[int, int, int], list[float]] = {}
        self.traced: list[tuple[np.ndarray, ...]] = []
        self.stays: list[tuple[np.ndarray, ...]] = []
        for k in range(len(world.measures)):
            self.starts(np.arange(count), k)

    def enter(self, rows: np.ndarray, node: np.ndarray, to: np.ndarray) -> None:
        """Nodes enter compartments."""
        np.add.at(self.entered, (rows, to), self.run.inside[node])

    def note(self, rows: np.ndarray, k: int, name: str, node: np.ndarray) -> None:
        """Something happens to nodes."""
        at = self.column[k, name]
        np.add.at(self.now, (rows, np.full(rows.size, at)), self.run.inside[node])

    def avoid(self, rows: np.ndarray, k: int, node: np.ndarray, layer: np.ndarray) -> None:
        """A measure avoids contacts of an infectious node with nodes."""
        if rows.size and self.run.world.counts_avoided:
            self.note(rows, k, "contacts avoided", node)
            for number, name in enumerate(self.run.world.layers):
                here = layer == number
                self.note(rows[here], k, f"contacts avoided in {name}", node[here])

    def hold(self, rows: np.ndarray, k: int, node: np.ndarray, time: Any, until: Any) -> None:
        """Nodes are isolated or in quarantine in an interval."""
        self.holds.append((rows, np.full(rows.size, k), node, time, until))

    def trace(self, rows: np.ndarray, k: int, node: np.ndarray, time: Any, layer: int) -> None:
        """Contacts of cases in a layer are traced, and held from a time on."""
        names = ["traced", *(f"traced in {name}" for name in self.run.world.layers[layer:][:1])]
        for name in names:
            if (k, name) in self.column:
                column = np.full(rows.size, self.column[k, name])
                self.traced.append((rows, column, node, time))

    def leave(self, rows: np.ndarray, node: Any, time: Any) -> None:
        """Nodes leave compartments, in which they may have been isolated."""
        run = self.run
        for k, one in enumerate(run.world.measures):
            if one["kind"] == "isolation":
                mine = run.at[rows, node] == run.index[one["compartment"]]
                mine &= run.isolated[rows, k, node] & run.holds.takes(rows, k, node)
                begin = tidy(run.since[rows, node] + one["delay"])[mine]
                each = np.broadcast_to(node, rows.shape)[mine]
                until = np.broadcast_to(time, rows.shape)[mine]
                self.stays.append((rows[mine], np.full(each.size, k), each, begin, until))

    def starts(self, rows: np.ndarray, k: int) -> None:
        """A measure is known to start."""
        begin, one = self.run.starts[rows, k], self.run.world.measures[k]
        over = np.minimum(tidy(begin + one.get("duration", np.inf)), self.run.stops[rows, k])
        some = begin < over
        self._change(rows[some], k, begin[some], 1)
        self._change(rows[some], k, over[some], -1)

    def stops(self, rows: np.ndarray, k: int) -> None:
        """A measure is known to stop."""
        self._change(rows, k, self.run.stops[rows, k], -1)

    def _change(self, rows: np.ndarray, k: int, time: np.ndarray, by: int) -> None:
        each = np.full(rows.size, k), np.full(rows.size, by)
        self.changes.append((rows, each[0], time.copy(), each[1]))

    def record(self, rows: np.ndarray, g: int) -> None:
        """A time of the grid is over."""
        run = self.run
        self.entries[rows, g] = self.entered[rows]
        self.found[rows, g] = self.now[rows]
        for k, one in enumerate(run.world.measures):
            if one["kind"] == "isolation":
                here = run.at[rows] == run.index[one["compartment"]]
                here &= run.world.times[g] >= tidy(run.since[rows] + one["delay"])
                here &= run.isolated[rows, k] & run.holds.takes(rows[:, None], k, _all(run))
                self.found[rows, g, self.column[k, "isolated"]] = here @ run.inside
            if one["kind"] == "capacity" and g:  # it is in force just after it is full
                full = run.full[rows, k].astype(int)
                self.found[rows, g, self.column[k, "in force"]] = full[:, None]
            if (k, "waiting") in self.column:
                lines = run.lines.asked if one["kind"] == "testing" else run.places.since
                waits = np.isfinite(lines[rows, k])
                if k in run.places.waited:
                    waits |= np.isfinite(run.places.enters[rows, run.places.waited.index(k)])
                self.found[rows, g, self.column[k, "waiting"]] = waits @ run.inside

    def finish(self) -> np.ndarray:
        """All counts."""
        world, times = self.run.world, self.run.world.times
        rows, k, time, by = _joined(self.changes, 4)
        for g in range(times.size):
            for number in range(len(world.measures)):
                kind = world.measures[number]["kind"]
                if kind in ("vaccination", "capacity"):
                    continue
                here = (k == number) & _over(time[:, None], times)[:, g]
                force = np.zeros(len(self.now), int)
                np.add.at(force, rows[here], by[here])
                self.found[:, g, self.column[number, "in force"]] = force[:, None]
                if kind == "isolation":
                    self.found[:, g, self.column[number, "isolated"]] *= force[:, None]
        self._finish_holds()
        self._finish_isolations()
        for row, column, node, begin in zip(*_joined(self.traced, 4), strict=True):
            on = _over(begin, times) & self._alive(row, node, begin)
            self.found[row, :, column] += on[:, None] * self.run.inside[node]
        for number in range(len(world.measures)):
            if world.measures[number]["kind"] == "vaccination":
                self._finish_doses(number)
        self._assert_conservation()
        return self.found

    def _alive(self, rows: Any, node: Any, time: Any) -> Any:
        """Whether nodes are in the population at a time."""
        return (self.run.born[rows, node] <= time) & (time < self.run.died[rows, node])

    def _finish_holds(self) -> None:
        """Intervals of one person that overlap are one."""
        rows, k, node, begin, until = _joined(self.holds, 5)
        until = np.minimum(until, self.run.died[rows, node])
        some = (until > self.run.begin) & self._alive(rows, node, begin)
        rows, k, node, begin, until = (each[some] for each in (rows, k, node, begin, until))
        for at, who in enumerate(zip(rows.tolist(), k.tolist(), node.tolist(), strict=True)):
            for moment in self.releases.get(who, ()):
                if begin[at] < moment < until[at]:
                    until[at] = moment
        order = np.lexsort((begin, node, k, rows))
        last: tuple[int, int, int] | None = None
        end = -np.inf
        for at in order:
            who = int(rows[at]), int(k[at]), int(node[at])
            if who != last:
                last, end = who, -np.inf
            if begin[at] > end:
                self._count_hold(who, begin[at], "quarantines", "isolations", 1)
                self._count_hold(who, begin[at], "quarantined", "isolated", 1)
                self._count_hold(who, until[at], "quarantined", "isolated", -1)
                end = until[at]
            elif until[at] > end:
                self._count_hold(who, end, "quarantined", "isolated", 1)
                self._count_hold(who, until[at], "quarantined", "isolated", -1)
                end = until[at]

    def _finish_isolations(self) -> None:
        """Each stay that a measure isolates, as often as the measure begins in it or before."""
        everybody = np.arange(len(self.now))
        for node in range(self.run.world.nodes):
            self.leave(everybody, node, np.inf)
        stays, changes = _joined(self.stays, 5), _joined(self.changes, 4)
        for number, one in enumerate(self.run.world.measures):
            if one["kind"] != "isolation":
                continue
            rows, _, node, begin, until = (each[stays[1] == number] for each in stays)
            of_row, _, time, by = (each[changes[1] == number] for each in changes)
            for row in np.unique(rows):
                mine = of_row == row
                on, off = np.sort(time[mine & (by > 0)]), np.sort(time[mine & (by < 0)])
                for start, stop in zip(on, off, strict=False):
                    here = rows == row
                    first = np.maximum(begin[here], start)
                    some = tidy(first) < tidy(np.minimum(until[here], stop))
                    for who, when in zip(node[here][some], first[some], strict=True):
                        self._count_hold((row, number, who), when, "", "isolations", 1)

    def _count_hold(
        self, who: tuple[int, int, int], time: float, traced: str, tested: str, by: int
    ) -> None:
        row, k, node = who
        name = traced if self.run.world.measures[k]["kind"] == "tracing" else tested
        on = _over(time, self.run.world.times)
        self.found[row, :, self.column[k, name]] += by * on[:, None] * self.run.inside[node]

    def _finish_doses(self, k: int) -> None:
        run, one, (u, v, _) = self.run, self.run.world.measures[k], self.run.chosen
        after, first = 0.0, np.zeros(0)
        for d in range(dose_count(one)):
            if k in run.doses:
                given = run.starts[:, k, None] + run.doses[k][:, :, d]
            else:
                after += of_dose(one["interval"], d - 1) if d else 0.0
                given = run.starts[:, k, None] + one["rollout"] * v[:, k] + after
                everywhere = np.arange(len(u))[:, None]
                chosen = (u[:, k] < one["fraction"]) & run.holds.takes(everywhere, k, _all(run))
                given = np.where(chosen, given, np.inf)
            first = given if d == 0 else first
            given = np.where((run.born <= first) & (given < run.died), given, np.inf)
            for g in range(run.world.times.size):
                got = _over(given[..., None], run.world.times)[..., g]
                self.found[:, g, self.column[k, f"dose {d + 1}"]] = got @ run.inside

    def _assert_conservation(self) -> None:
        """What has to hold in every run."""
        world: World = self.run.world
        for k, one in enumerate(world.measures):
            found = {name: self.found[:, :, at] for (m, name), at in self.column.items() if m == k}
            assert_conserved(found, (self.run.holds.group(one) > 0) @ self.run.inside)


def assert_conserved(found: dict[str, np.ndarray], eligible: np.ndarray) -> None:
    """Counts of one measure [..., time, group] by name, of `eligible` people in each group."""
    for name, count in found.items():
        assert (count >= 0).all(), name
        if name not in ("isolated", "quarantined", "waiting", "in force"):
            assert (np.diff(count, axis=-2) >= 0).all(), name
    if "in force" in found:
        assert (found["in force"] <= 1).all()
    if "tests" in found:
        assert (found["positive"] <= found["tests"]).all()
    doses = [count for name, count in found.items() if name.startswith("dose")]
    for first, second in zip([eligible, *doses], doses, strict=False):
        assert (second <= first).all()
    begun = found.get("isolations", found.get("quarantines"))
    now = found.get("isolated", found.get("quarantined"))
    if begun is not None:
        assert (begun >= now).all()
        ended = begun - now
        assert (np.diff(ended, axis=-2) >= 0).all()
    found_by_tests = found.get("positive", found.get("detected"))
    if begun is not None and found_by_tests is not None:
        held = found_by_tests + found.get("traced", 0)
        assert (begun <= held).all()
        # An isolation that begins when another ends is one with it, and may end by a test again.
        assert (found.get("released", 0) <= held).all()


def _joined(parts: list[tuple[np.ndarray, ...]], count: int) -> list[np.ndarray]:
    if not parts:
        return [np.zeros(0, int) for _ in range(count)]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]
