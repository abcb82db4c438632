"""Who is held in isolation or quarantine, and which contacts of a case are traced.

It shares no code with the library.  Whether a person takes part in a measure is drawn once, and
whether a contact of a case is traced once for each stay of the case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_world import tidy

_SLOTS = 8  # intervals of a person that are remembered at first


class Holds:
    """Intervals in which people are held, of all replicates side by side."""

    def __init__(self, run: Any, count: int) -> None:
        self.run, world = run, run.world
        shape = count, len(world.measures), world.nodes
        self.begin = np.full((*shape, _SLOTS), np.inf)
        self.end = np.full((*shape, _SLOTS), -np.inf)
        rng = run.rng.spawn(1)[0]
        self.comply = rng.random((2, *shape))
        self.rng = rng
        self.named = rng.random((count, len(world.measures), len(world.arcs)))
        self.again = np.full(shape, np.inf)  # the next test that may end an isolation
        self.tested = np.full(shape, -np.inf)
        self.known = np.full(shape, -np.inf)  # until when a node is a known case
        self.checks = np.full((*shape, _SLOTS), np.inf)  # tests of those who are traced
        self.detections: dict[tuple[int, int, int], list[float]] = {}

    def group(self, one: dict[str, Any], name: str = "among") -> np.ndarray:
        """With what probability nodes take part in a measure."""
        among, world = one.get(name), self.run.world
        if isinstance(among, dict):
            return np.array([among["group"][g] for g in world.group.tolist()])
        return np.ones(world.nodes) if among is None else (world.group != 0) * 1.0

    def takes(self, rows: np.ndarray, k: int, node: Any, contact: bool = False) -> np.ndarray:
        """Whether nodes take part in a measure: as cases, or as contacts."""
        name = "contacts_among" if contact else "among"
        chance = self.group(self.run.world.measures[k], name)
        return self.comply[int(contact), rows, k, node] < chance[node]

    def stay(self, rows: np.ndarray, node: np.ndarray) -> None:
        """Nodes begin stays, in which other contacts of theirs are traced."""
        for arc in range(self.run.source.size):
            mine = rows[node == self.run.source[arc]]
            self.named[mine, :, arc] = self.rng.random((mine.size, self.named.shape[1]))

    def find(self, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray) -> None:
        """Nodes are found: they are held, and so are those of their contacts that are traced."""
        run, one = self.run, self.run.world.measures[k]
        own = one.get("isolation", one["quarantine"] if one["kind"] == "tracing" else None)
        delay = one.get("delay", 0.0)
        self.hold(rows, k, node, time, own, delay)
        if one.get("test_contacts"):
            until = np.maximum(self.known[rows, k, node], tidy(time + delay + own))
            self.known[rows, k, node] = until
        if one.get("test_traced"):
            for row, who, when in zip(rows, node, time, strict=True):
                self.detections.setdefault((int(row), k, int(who)), []).append(float(when))
        share = one.get("tracing", 0.0)
        for arc in range(run.source.size):
            chance = share
            if isinstance(share, dict):
                chance = share.get(run.world.layers[run.layer[arc]], 0.0)
            here = (node == run.source[arc]) & (self.named[rows, k, arc] < chance)
            here &= self.takes(rows, k, run.target[arc], contact=True)
            if run.world.meetings is not None:
                recent = self._contact_time(arc, time)
                last = tidy(time - one.get("lookback", np.inf))
                here &= recent > self._contact_time(arc, last)
            mine, whom = rows[here], np.full(int(here.sum()), run.target[arc])
            late = delay + one.get("tracing_delay", 0.0)
            begin = np.maximum(tidy(time[here] + late), time[here])
            run.tallies.trace(mine, k, whom, begin, int(run.layer[arc]))
            if one.get("test_traced"):
                self._plan_checks(mine, k, whom, begin)
            self.hold(mine, k, whom, time[here], one.get("quarantine", np.inf), late)

    def _plan_checks(self, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray) -> None:
        """Nodes are to be tested at a moment, once whoever names them."""
        new = ~(self.checks[rows, k, node] == time[:, None]).any(axis=1)
        rows, node, time = rows[new], node[new], time[new]
        if not np.isinf(self.checks[rows, k, node]).any(axis=1).all():
            self.checks = np.concatenate([self.checks, np.full_like(self.checks, np.inf)], axis=3)
        self.checks[rows, k, node, self.checks[rows, k, node].argmax(axis=1)] = time

    def check(self, rows: np.ndarray, time: np.ndarray) -> None:
        """Nodes that are traced are tested, as they are just before."""
        run, shape = self.run, self.checks.shape[1:]
        flat = self.checks[rows].reshape(rows.size, -1).argmin(axis=1)
        for row, one, when in zip(rows, flat, time, strict=True):
            k, who, slot = (int(each) for each in np.unravel_index(one, shape))
            self.checks[row, k, who, slot] = np.inf
            single, place, measure = np.array([row]), np.array([who]), run.world.measures[k]
            lasts = measure["delay"] + measure["isolation"]
            known = any(
                first < when <= tidy(first + lasts)
                for first in self.detections.get((int(row), k, who), [])
            )
            alive = run.born[row, who] <= when and not np.isfinite(run.died[row, who])
            if known or not alive or not run._in_force(single, k, np.array([when]))[0]:
                continue
            run.tallies.note(single, k, "tests", place)
            if self.rng.random() < run._sensitivity(measure, run.at[single, place])[0]:
                run.tallies.note(single, k, "positive", place)
                self.find(single, k, place, np.array([when]))

    def _contact_time(self, arc: int, time: np.ndarray) -> np.ndarray:
        total = np.zeros(time.size)
        pair = int(self.run.source[arc]), int(self.run.target[arc])
        for first, last, amount in self.run.spans[pair]:
            if first == last:
                total += amount * (time >= first)
            else:
                total += np.clip(time - first, 0.0, last - first)
        return total

    def hold(
        self, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray, lasts: float,
        delay: float = 0.0,
    ) -> None:  # fmt: skip
        """Hold nodes from a time on, after a delay."""
        if lasts == 0.0:
            return
        time = np.maximum(tidy(time + delay), time)  # what is just after a moment stays so
        begin, end = self.begin[rows, k, node], self.end[rows, k, node]
        until = tidy(time + lasts)
        self.run.tallies.hold(rows, k, node, time, until)
        new = ~((begin <= time[:, None]) & (end >= until[:, None])).any(axis=1)
        if "release_after" in self.run.world.measures[k]:
            new[:] = True  # what covers it now may end by a test before it begins
        rows, node, time = rows[new], node[new], time[new]
        if rows.size:
            slot = (self.end[rows, k, node]).argmin(axis=1)  # the one that is over first
            # Those of releases are all kept: they say when a person is tested next.
            releases = "release_after" in self.run.world.measures[k]
            over = -np.inf if releases else self.run.clock[rows]
            if (self.end[rows, k, node, slot] > over).any():
                self.begin = np.concatenate([self.begin, np.full_like(self.begin, np.inf)], axis=3)
                self.end = np.concatenate([self.end, np.full_like(self.end, -np.inf)], axis=3)
                slot = (self.end[rows, k, node]).argmin(axis=1)
            self.begin[rows, k, node, slot] = time
            self.end[rows, k, node, slot] = tidy(time + lasts)
        for row, who in zip(rows, node, strict=True):
            self._plan_tests(row, k, who)

    def _plan_tests(self, row: int, k: int, node: int) -> None:
        """When a node is tested next for a release: by the intervals in which it is held."""
        one = self.run.world.measures[k]
        if "release_after" not in one:
            return
        self.again[row, k, node] = np.inf
        first, until = -np.inf, -np.inf
        begin, end = self.begin[row, k, node], self.end[row, k, node]
        spells: list[list[float]] = []
        for at in np.lexsort((end, begin)):
            if end[at] == -np.inf or begin[at] == np.inf:
                continue
            born, died = self.run.born[row, node], self.run.died[row, node]
            if not born <= begin[at] or np.isfinite(died):
                continue
            if begin[at] >= until:
                first, until = begin[at], end[at]
                spells.append([first, until])
            else:
                until = max(until, end[at])
                spells[-1][1] = until
        for first, until in spells:
            moment = tidy(first + one["release_after"])
            while moment < until and moment <= self.tested[row, k, node]:
                moment = tidy(moment + one.get("release_every", np.inf))
            if moment < until:
                self.again[row, k, node] = moment
                return

    def next(self, rows: np.ndarray) -> np.ndarray:
        """When the next node is tested for a release."""
        return self.again[rows].reshape(rows.size, -1).min(axis=1, initial=np.inf)

    def next_check(self, rows: np.ndarray) -> np.ndarray:
        """When the next node that is traced is tested."""
        return self.checks[rows].reshape(rows.size, -1).min(axis=1, initial=np.inf)

    def retest(self, rows: np.ndarray, time: np.ndarray) -> None:
        """Nodes are tested, as they are just before; a negative test ends what holds them."""
        run = self.run
        flat = self.again[rows].reshape(rows.size, -1).argmin(axis=1)
        k, node = np.divmod(flat, run.world.nodes)
        for row, one, who, when in zip(rows, k, node, time, strict=True):
            single, place = np.array([row]), np.array([who])
            run.tallies.note(single, int(one), "tests", place)
            self.tested[row, one, who] = when
            share = run._sensitivity(run.world.measures[one], run.at[single, place])
            if not self.rng.random() < share[0]:
                run.tallies.note(single, int(one), "released", place)
                run.tallies.releases.setdefault((int(row), int(one), int(who)), []).append(when)
                begin, end = self.begin[row, one, who], self.end[row, one, who]
                end[(begin < when) & (end > when)] = when
            elif run.world.measures[one].get("test_contacts") and (
                self.known[row, one, who] <= when
                and run._in_force(single, int(one), np.array([when]))[0]
            ):
                run.tallies.note(single, int(one), "positive", place)
                self.find(single, int(one), place, np.array([when]))
            self._plan_tests(row, one, who)

    def is_held(self, rows: np.ndarray, k: int, node: Any, time: np.ndarray) -> np.ndarray:
        """Whether nodes are held at a time; not yet at the moment at which that begins."""
        begin, end = self.begin[rows, k, node], self.end[rows, k, node]
        alive = begin >= self.run.born[rows, node][:, None]
        return ((begin < time[:, None]) & (end > time[:, None]) & alive).any(axis=1)
