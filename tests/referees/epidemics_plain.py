"""The epidemic of a `World`, by a plain queue of events: slow, and written to be read.

All replicates go through their own events side by side, a row of each array a replicate.  Contacts
are proposed at the largest rate there can be and taken with the ratio of the rate there is; all
chance is NumPy's.  It shares no code with the library.

Times are tidy: those that differ by less than 1e-9, as sums that round do, are one.  At one moment
first those move on who move by themselves; then cases come from outside, and contacts
count, of all as they were before any infection of that moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from epidemics_births import Births
from epidemics_doses import given_doses
from epidemics_laws import calendar_at, dose_count, of_dose, sample
from epidemics_lines import PlaceLines, TestLines
from epidemics_recent import RecentEntries, counted_of, members_of
from epidemics_tallies import Tallies
from epidemics_tracing import Holds
from epidemics_world import World, imports, tidy

_SLOTS = 6  # detections of a node that are remembered


def simulate(world: World, replicates: int, rng: np.random.Generator) -> Any:
    """Counts [replicate, time, compartment, group] and cases [replicate, time, group].

    And entries, like counts; and what measures did, [replicate, time, tally, group].
    """
    return _Run(world, replicates, rng).finish()


class _Run:
    def __init__(self, world: World, count: int, rng: np.random.Generator) -> None:
        self.world, self.rng = world, rng
        self.index = {name: k for k, name in enumerate(world.compartments)}
        c, n, m = len(world.compartments), world.nodes, len(world.measures)
        self.begin, self.horizon = float(world.times[0]), float(world.times[-1])
        self.inside = np.stack([world.is_in(g) for g in world.groups], axis=1).astype(int)
        self.counts = np.zeros((count, world.times.size, c, world.groups.size), int)
        self.case_counts = np.zeros((count, world.times.size, world.groups.size), int)
        self.recorded = np.zeros(count, int)
        self.at = np.zeros((count, n), int)
        self.since = np.full((count, n), -np.inf)
        self.infected_at = np.full((count, n), -np.inf)
        self.due = np.full((count, n), np.inf)
        self.exits_at = np.full((count, n), np.inf)  # when a stay ends by an exit
        self.cases = np.zeros((count, n), int)
        self.clock = np.full(count, self.begin)
        self.starts, self.stops = np.full((2, count, max(m, 1)), np.inf)
        self.full = np.zeros((count, max(m, 1)), bool)
        self.on = np.zeros((count, max(m, 1)), bool)  # and since when that is in effect:
        self.since_when = np.full((count, max(m, 1)), -np.inf)
        for k, one in enumerate(world.measures):
            if "trigger" not in one:
                self.starts[:, k] = tidy(one.get("start", self.begin))
                self.since_when[:, k] = self.starts[:, k]
                self.on[:, k] = True
            if "stop" in one and not isinstance(one["stop"], dict):
                self.stops[:, k] = tidy(one["stop"])
        self.chosen = rng.random((3, count, m, n))
        self.doses = {
            k: given_doses(world, one, count, rng)
            for k, one in enumerate(world.measures) if "dose_rate" in one
        }  # fmt: skip
        self.isolated = np.zeros((count, m, n), bool)
        self.was_at, self.was_since = self.at.copy(), self.since.copy()
        self.was_isolated = self.isolated.copy()
        self.detected = np.full((count, m, n, _SLOTS), np.inf)
        self._groups_of_stays = self._who()
        self._lay_out_contacts()
        self.holds = Holds(self, count)
        self._lay_out_importations(count)
        self.next_test = np.full((count, max(m, 1)), np.inf)
        for k in range(m):
            self._propose_test(np.arange(count), k, self.clock)
        self.lines = TestLines(self, count)
        self.places = PlaceLines(self, count)
        self.births = Births(self)
        self.born, self.died = np.full((count, n), -np.inf), np.full((count, n), np.inf)
        self.recent = RecentEntries(world, count, self.index)
        self.tallies = Tallies(self, count)
        self._place(count)

    def _lay_out_contacts(self) -> None:
        world = self.world
        self.source, self.target, weight, self.layer = (
            np.array([arc[k] for arc in world.arcs], float if k == 2 else int) for k in range(4)
        )
        into, out = world.factor("susceptibility"), world.factor("infectivity")
        factor = 1.0 if into is None else into[self.target]
        self.weight = weight * factor
        if out is not None:
            self.weight = self.weight * out[self.source]
        self.rates = np.zeros((len(world.infections), len(world.compartments)))
        for k, (_, _, rates) in enumerate(world.infections):
            for name, rate in rates.items():
                self.rates[k, self.index[name]] = rate
        self.own = np.ones((len(world.infections), self.target.size))  # of arcs, by infection
        self.own_into = np.ones((len(world.infections), world.nodes))
        for k in range(len(world.infections)):
            self.own_into[k] = world.own_factor("susceptibility", k)
            self.own[k] = self.own_into[k][self.target]
            self.own[k] *= world.own_factor("infectivity", k)[self.source]
        self.from_ = np.array([self.index[s] for s, _, _ in world.infections])
        self.into = np.array([self.index[x] for _, x, _ in world.infections])
        # The largest rate from one compartment into another, by all infections.
        self.fastest = np.zeros((len(world.compartments),) * 2)
        for k, place in enumerate(self.from_):
            self.fastest[:, place] += self.rates[k]
        peak = np.ones(self.layer.size)
        for k, name in enumerate(world.layers or [""]):
            if name in world.factors:
                peak[self.layer == k] = max(world.factors[name][1])
        highest = max([1.0, *(max(factors) for _, factors in world.profiles.values())])
        self.bound = self.weight * peak * highest * self.own.max(axis=0)
        meets = world.meetings or []
        self.moments = np.array(sorted({m[2] for m in meets if m[2] == m[3]}))
        self.spans: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
        for a, b, first, last, amount in meets:
            self.spans.setdefault((a, b), []).append((first, last, amount))
        if self.moments.size:
            self.bound = np.zeros(self.layer.size)

    def _lay_out_importations(self, count: int) -> None:
        plans = self.world.importations
        self.import_at = np.full((count, max(len(plans), 1)), np.inf)
        self.imported = np.zeros((count, max(len(plans), 1)), int)
        for k in range(len(plans)):
            self._next_importation(np.arange(count), k, np.full(count, self.begin))

    def _next_importation(self, rows: np.ndarray, k: int, after: np.ndarray) -> None:
        plan = self.world.importations[k]
        if "times" in plan:
            moments = np.append([t for t in tidy(sorted(plan["times"])) if t >= self.begin], np.inf)
            self.import_at[rows, k] = moments[np.minimum(self.imported[rows, k], moments.size - 1)]
        else:
            begin = np.maximum(after, plan["start"])
            time = begin + self.rng.exponential(1.0 / plan["rate"], rows.size)
            self.import_at[rows, k] = np.where(time < plan["stop"], time, np.inf)
        self.imported[rows, k] += 1

    def _place(self, count: int) -> None:
        """Everybody where he begins."""
        world, free = self.world, np.ones((count, self.world.nodes), bool)
        rows = np.arange(count)
        base = self.index[world.infections[0][0]]
        self.at[:] = base
        self.next_contact = np.full(count, np.inf)
        self.next_moment = np.full(count, np.searchsorted(self.moments, self.begin))
        begins: list[tuple[str, np.ndarray, float]] = []
        for name, value in world.initial.items():
            if not isinstance(value, int):
                ids, age = value if isinstance(value, tuple) else (value, 0.0)
                begins += [(name, np.full(count, i), age) for i in ids]
                free[:, ids] = False
        for name in world.compartments:
            for _ in range(world.initial[name] if isinstance(world.initial.get(name), int) else 0):
                weight = np.ones(world.nodes) if world.seed_weight is None else world.seed_weight
                order = np.where(free, self.rng.exponential(1.0, free.shape) / weight, np.inf)
                node = order.argmin(axis=1)
                free[rows, node] = False
                begins.append((name, node, 0.0))
        for name, node, age in begins:
            self._enter(rows, node, np.full(count, self.index[name]), self.clock, age=age)
            self.cases[rows, node] += name in world.ill
            if name in world.ill:
                self.recent.note("cases", rows, node, self.clock - age, self.clock)
        if world.infections[0][0] in world.progressions:
            for node in range(world.nodes):
                mine = rows[free[:, node]]
                self._enter(mine, np.full(mine.size, node), np.full(mine.size, base),
                            self.clock[mine])  # fmt: skip
                self.tallies.entered[mine, base] -= self.inside[node]  # nobody came

    def _bounds(self, rows: np.ndarray) -> np.ndarray:
        """The largest rate along each arc while nobody moves, [row, arc]."""
        at = self.at[rows]
        return self.fastest[at[:, self.source], at[:, self.target]] * self.bound

    def _propose(self, rows: np.ndarray) -> None:
        """The next contact of each; drawn anew after each event, as it has no memory."""
        total = self._bounds(rows).sum(axis=1)
        wait = self.rng.standard_exponential(rows.size)
        some = total > 0.0
        self.next_contact[rows] = np.inf
        self.next_contact[rows[some]] = self.clock[rows[some]] + wait[some] / total[some]

    # ---- what happens

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(self.clock.size)
        while rows.size:
            self._propose(rows)
            due = self.due[rows].min(axis=1)
            detect = self.detected[rows].reshape(rows.size, -1).min(axis=1, initial=np.inf)
            come = self.import_at[rows].min(axis=1)
            meet = np.append(self.moments, np.inf)[self.next_moment[rows]]
            test = self.next_test[rows].min(axis=1)
            line = self.lines.next(rows)
            enter = self.places.next(rows)
            contact, over = self.next_contact[rows], self.recent.next(rows)
            again, birth = self.holds.next(rows), self.births.next(rows)
            check = self.holds.next_check(rows)
            when = np.stack(
                [birth, again, check, line, enter, due, detect, test, come, meet, contact, over]
            )
            kind = when.argmin(axis=0)  # of equal ones the first
            time = when.min(axis=0)
            admitted = self.places.admit(rows, time)  # who enters before all this
            time[admitted], kind[admitted] = self.places.next(rows[admitted]), 4
            self._pull_triggers(rows, time)
            self._record(rows, time)
            going = tidy(time) <= self.horizon
            rows, kind, time = rows[going], kind[going], time[going]
            self.clock[rows] = time
            for k, work in enumerate(
                (
                    self.births.bear,
                    self.holds.retest,
                    self.holds.check,
                    self.lines.refill,
                    self.places.enter,
                    self._progress,
                    self._detect,
                    self._test,
                    self._import,
                    self._meet,
                    self._contact,
                    self.recent.forget,
                )
            ):
                mine = kind == k
                if mine.any():
                    work(rows[mine], time[mine])
        measures = self.tallies.finish()
        return self.counts, self.case_counts, self.tallies.entries, measures

    def _record(self, rows: np.ndarray, time: np.ndarray) -> None:
        times = self.world.times
        for g in range(times.size):
            # Just after the first time is later than it.
            over = (tidy(time) if g else time) > times[g]
            done = rows[(self.recorded[rows] == g) & over]
            if done.size:
                here = self.at[done][:, :, None] == np.arange(len(self.world.compartments))
                self.counts[done, g] = np.einsum("rnc,ng->rcg", here, self.inside)
                self.case_counts[done, g] = self.cases[done] @ self.inside
                self.tallies.record(done, g)
                self.recorded[done] += 1

    def _pull_triggers(self, rows: np.ndarray, time: np.ndarray) -> None:
        """After all moves of a moment, which is over when the next event is later.

        And again where a start or a stop takes effect before the next event.
        """
        over = rows[self.clock[rows] < time]
        for k, one in enumerate(self.world.measures):
            if one["kind"] == "capacity":
                inside = (self.at[over] == self.index[one["compartment"]]).sum(axis=1)
                self.full[over, k] = inside >= one["places"]
                if one.get("wait"):
                    self.full[over, k] |= self.places.waits(over, k)
            begins, ends = one.get("trigger"), one.get("stop")
            ends = ends if isinstance(ends, dict) else None
            for _ in range(3 if ends else 1):
                moment = np.maximum(self.clock[rows], self.since_when[rows, k])
                over, when = rows[moment < time], moment[moment < time]
                on, stopped = self.on[over, k], self._holds(over, ends)
                if begins:
                    here = ~on & self._holds(over, begins) & ~stopped
                    self._switch(over[here], k, when[here], self.starts, begins, True)
                    if ends:
                        self.stops[over[here], k] = np.inf
                    self.tallies.starts(over[here], k)
                here = on & stopped
                if here.any():
                    self._switch(over[here], k, when[here], self.stops, ends, False)
                    self.tallies.stops(over[here], k)

    def _switch(
        self, rows: np.ndarray, k: int, time: np.ndarray, when: np.ndarray, given: Any, on: bool
    ) -> None:  # fmt: skip
        when[rows, k] = np.maximum(
            tidy(time + given["delay"]), np.nextafter(time, np.inf)
        )  # fmt: skip
        self.on[rows, k], self.since_when[rows, k] = on, when[rows, k]

    def _holds(self, rows: np.ndarray, given: dict[str, Any] | None) -> np.ndarray:
        """Whether the condition of a trigger holds."""
        found = np.zeros(rows.size, int)
        if given is None:
            return found > 0
        who = members_of(self.world, given)
        if "window" in given:
            found = self.recent.counts(given, rows)[:, who].sum(axis=1)
        else:
            for name in counted_of(given):
                some = self.cases[rows] if name == "cases" else self.at[rows] == self.index[name]
                found += some[:, who].sum(axis=1)
        level = given["level"] if "level" in given else given["fraction"] * who.sum() - 1e-9
        return found < level if given.get("below") else found >= level

    def _in_force(self, rows: np.ndarray, k: int, time: np.ndarray) -> np.ndarray:
        age = tidy(time - self.starts[rows, k])
        lasts = self.world.measures[k].get("duration", np.inf)
        begun = (age >= 0) & (time >= self.starts[rows, k])
        return begun & (age < lasts) & (time < self.stops[rows, k])

    def _enter(
        self, rows: np.ndarray, node: np.ndarray, to: np.ndarray, time: np.ndarray,
        age: float = 0.0,
    ) -> None:  # fmt: skip
        world = self.world
        self.tallies.leave(rows, node, time)
        self.tallies.enter(rows, node, to)
        self.holds.stay(rows, node)
        for name in np.unique(to) if self.recent.given else ():
            new = (to == name) & (self.at[rows, node] != to)
            begin, now = time[new] - age, time[new]
            self.recent.note(world.compartments[name], rows[new], node[new], begin, now)
        self.births.live(rows, node, to, time)
        self.at[rows, node] = to
        self.since[rows, node] = time - age
        self.due[rows, node] = np.inf
        self.exits_at[rows, node] = np.inf
        for name, who in self._groups_of_stays:
            mine = (to == self.index[name]) & who[node]
            if mine.any():
                law = world.progression(name, int(who.argmax()))[1]
                stay = sample(self.rng, law, int(mine.sum()))
                while age and (stay <= age).any():
                    stay = np.where(stay > age, stay, sample(self.rng, law, stay.size))
                leave = tidy(time[mine] - age + stay)
                row, who = rows[mine], node[mine]
                if name in world.exits:
                    wait = self.rng.exponential(1.0 / world.exits[name][0], row.size)
                    self.exits_at[row, who] = time[mine] + wait
                    leave = np.minimum(leave, time[mine] + wait)
                self.due[row, who] = leave
        for k, one in enumerate(world.measures):
            if one["kind"] == "isolation":
                self.isolated[rows, k, node] = self.rng.random(rows.size) < one["fraction"]
            at_entry = one["kind"] == "testing" and not {"rate", "period"} & set(one)
            if one["kind"] == "tracing" or at_entry:
                if one["kind"] == "tracing":
                    share = np.where(to == self.index[one["compartment"]], one["detection"], 0.0)
                    share = share * self.holds.takes(rows, k, node)
                    late = tidy(time - age + one["detection_delay"])
                else:
                    share = self._sensitivity(one, to) * one["fraction"]
                    share = share * self.holds.takes(rows, k, node)
                    late = time - age  # at this very moment
                u = self.rng.random(rows.size)
                mine = u < share
                if at_entry and not age:
                    tested = np.isin(to, [self.index[c] for c in one["sensitivity"]]) & ~mine
                    tested &= (u < one["fraction"]) & self.holds.takes(rows, k, node)
                    tested &= self._in_force(rows, k, time)
                    self.tallies.note(rows[tested], k, "tests", node[tested])
                mine &= late >= self.begin
                late = late[mine]
                self._keep(self.detected, rows[mine], k, node[mine], late, empty=np.inf)
        if not age:
            self.lines.ask(rows, node, to, time)

    def _who(self) -> list[tuple[str, np.ndarray]]:
        """Each compartment that nodes leave by themselves, for each set of nodes that do alike."""
        found = []
        for name in self.world.progressions:
            alike: dict[str, list[int]] = {}
            for node in range(self.world.nodes):
                alike.setdefault(repr(self.world.progression(name, node)), []).append(node)
            found += [(name, np.isin(np.arange(self.world.nodes), one)) for one in alike.values()]
        return found

    def _keep(
        self, slots: np.ndarray, rows: np.ndarray, k: int, node: np.ndarray, time: np.ndarray,
        empty: float,
    ) -> np.ndarray:  # fmt: skip
        """Put times into free slots; returns which."""
        free = (slots[rows, k, node] == empty).argmax(axis=1)
        slots[rows, k, node, free] = time
        return free

    def _infect(self, rows: np.ndarray, node: np.ndarray, to: Any, time: np.ndarray) -> None:
        self.was_at[rows, node] = self.at[rows, node]
        self.was_since[rows, node] = self.since[rows, node]
        self.was_isolated[rows, :, node] = self.isolated[rows, :, node]
        self.infected_at[rows, node] = time
        self.cases[rows, node] += 1
        self.recent.note("cases", rows, node, time, time)
        self._enter(rows, node, to, time)

    def _progress(self, rows: np.ndarray, time: np.ndarray) -> None:
        node = self.due[rows].argmin(axis=1)
        here = self.at[rows, node]
        to = np.zeros(rows.size, int)
        u = self.rng.random(rows.size)
        for name, who in self._groups_of_stays:
            mine = (here == self.index[name]) & who[node]
            branches = self.world.progression(name, int(who.argmax()))[0]
            places = np.array([self.index[b] for b in branches])
            ends = np.cumsum(list(branches.values()))[:-1]
            to[mine] = places[np.searchsorted(ends, u[mine])]
            to = self._averted(rows, node, mine, to, branches, time)
            if name in self.world.exits:
                given = self.world.exits[name][1]
                gone = mine & (self.exits_at[rows, node] <= time)
                ends = np.cumsum(list(given.values()))[:-1]
                names = np.array([self.index[b] for b in given])
                pick = self.rng.random(int(gone.sum()))
                to[gone] = names[np.searchsorted(ends, pick)]
        left, to = self.places.leave(rows, node, time, to)
        self._enter(rows[left], node[left], to[left], time[left])
        rows, node, to, time = (each[~left] for each in (rows, node, to, time))
        for k, one in enumerate(self.world.measures):
            if one["kind"] == "capacity":
                turned = (to == self.index[one["compartment"]]) & self.full[rows, k]
                if not one.get("wait"):
                    self.tallies.note(rows[turned], k, "turned away", node[turned])
                    to = np.where(turned, self.index[one["instead"]], to)
                elif turned.any():
                    self.places.wait(rows[turned], k, node[turned], time[turned])
                    rows, node, to, time = (each[~turned] for each in (rows, node, to, time))
        self._enter(rows, node, to, time)

    def _averted(
        self, rows: np.ndarray, node: np.ndarray, mine: np.ndarray, to: np.ndarray,
        branches: dict[str, float], time: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Where nodes go after vaccinations, which act one after the other on who was not helped.

        The one that helps leaves the branches that it does not name, each with what the other
        vaccinations leave of its chance.
        """
        came, done = to, np.zeros(rows.size, bool)
        given = [(k, one["severity"]) for k, one in enumerate(self.world.measures)
                 if one.get("severity")]  # fmt: skip
        places = np.array([self.index[c] for c in branches])
        for k, named in given:
            for c, reduction in named.items():
                share = self._protected(rows, k, node, time, reduction)
                saved = mine & ~done & (came == self.index[c])
                saved &= self.rng.random(rows.size) < share
                if c not in branches or not saved.any():
                    continue
                chance = np.zeros((rows.size, len(branches)))
                for b, (other, weight) in enumerate(branches.items()):
                    if other not in named:
                        chance[:, b] = weight
                    for number, also in given:
                        if other in also and number != k:
                            safe = self._protected(rows, number, node, time, also[other])
                            chance[:, b] *= 1.0 - safe
                ends = np.cumsum(chance, axis=1)
                pick = self.rng.random(rows.size) * ends[:, -1]
                which = np.minimum((pick[:, None] >= ends).sum(axis=1), len(branches) - 1)
                to = np.where(saved, places[which], to)
                done = done | saved
        return to

    def _sensitivity(self, one: dict[str, Any], at: np.ndarray) -> np.ndarray:
        """The chance that a test of nodes in compartments is positive."""
        each = [one["sensitivity"].get(name, 0.0) for name in self.world.compartments]
        return np.array(each)[at]

    def _propose_test(self, rows: np.ndarray, k: int, time: np.ndarray) -> None:
        """The next test of anybody by a measure with a rate."""
        if "rate" in self.world.measures[k]:
            mean = 1.0 / (self.world.measures[k]["rate"] * self.world.nodes)
            self.next_test[rows, k] = time + self.rng.exponential(mean, rows.size)

    def _test(self, rows: np.ndarray, time: np.ndarray) -> None:
        which = self.next_test[rows].argmin(axis=1)
        for k in np.unique(which):
            one, mine, when = self.world.measures[k], rows[which == k], time[which == k]
            node = self.rng.integers(0, self.world.nodes, mine.size)
            share = self._sensitivity(one, self.at[mine, node])
            made = self._in_force(mine, k, when) & self.holds.takes(mine, int(k), node)
            made &= ~np.isin(self.at[mine, node], [self.index[c] for c in self.world.outside])
            self.tallies.note(mine[made], int(k), "tests", node[made])
            found = (self.rng.random(mine.size) < share) & made
            self.tallies.note(mine[found], int(k), "positive", node[found])
            self.holds.find(mine[found], int(k), node[found], when[found])
            self._propose_test(mine, int(k), when)

    def _detect(self, rows: np.ndarray, time: np.ndarray) -> None:
        flat = self.detected[rows].reshape(rows.size, -1).argmin(axis=1)
        k, node, slot = np.unravel_index(flat, self.detected.shape[1:])
        self.detected[rows, k, node, slot] = np.inf
        for number, one in enumerate(self.world.measures):
            mine = (k == number) & self._in_force(rows, number, time)
            for name in {"testing": ("tests", "positive"), "tracing": ("detected",)}.get(
                one["kind"], ()
            ):
                self.tallies.note(rows[mine], number, name, node[mine])
            if mine.any():
                self.holds.find(rows[mine], number, node[mine], time[mine])

    def _protected(
        self, rows: np.ndarray, k: int, node: Any, time: np.ndarray, effect: Any
    ) -> np.ndarray:
        """How large an effect of a vaccine is, given by dose: the last one before a time counts."""
        one, (u, v, w) = self.world.measures[k], self.chosen
        found = np.zeros(rows.size)
        after = 0.0
        for d in range(dose_count(one)):
            if k in self.doses:
                given = self.starts[rows, k] + self.doses[k][rows, node, d]
                chosen = np.isfinite(given)
                first = self.starts[rows, k] + self.doses[k][rows, node, 0]
                chosen &= first >= self.born[rows, node]
            else:
                after += of_dose(one["interval"], d - 1) if d else 0.0
                given = self.starts[rows, k] + one["rollout"] * v[rows, k, node] + after
                chosen = (u[rows, k, node] < one["fraction"]) & self.holds.takes(rows, k, node)
                chosen &= given - after >= self.born[rows, node]
            since = tidy(given + one["delay"])
            begun = chosen & (since <= time)
            inside = begun & (time < tidy(since + one["duration"]))
            if not one["leaky"]:
                inside &= w[rows, k, node] < of_dose(one["efficacy"], d)
            age = np.where(inside, time - np.where(inside, since, 0.0), 0.0)
            share = np.ones(rows.size)
            if isinstance(one.get("waning"), float):  # a mean
                share = np.exp(-age / one["waning"])
            elif "waning" in one:
                share = calendar_at(*one["waning"], age)
            found = np.where(begun, inside * share * of_dose(effect, d), found)
        return found

    def _guarded(self, rows: np.ndarray, target: Any, time: np.ndarray) -> np.ndarray:
        """What vaccination leaves of the rate into a node."""
        left = np.ones(rows.size)
        for k, one in enumerate(self.world.measures):
            if one["kind"] == "vaccination":
                effect = one["efficacy"] if one["leaky"] else 1.0
                left *= 1.0 - self._protected(rows, k, target, time, effect)
        return left

    def _left(
        self, rows: np.ndarray, source: Any, target: Any, layer: Any, time: np.ndarray
    ) -> np.ndarray:
        """What calendars and measures leave of a rate."""
        return np.prod(self._factors(rows, source, target, layer, time), axis=0)

    def _factors(
        self, rows: np.ndarray, source: Any, target: Any, layer: Any, time: np.ndarray
    ) -> list[np.ndarray]:
        """What calendars leave of a rate, and what each measure leaves."""
        world, left = self.world, np.ones(rows.size)
        now = self.infected_at[rows, source] == time
        here = np.where(now, self.was_at[rows, source], self.at[rows, source])
        since = np.where(now, self.was_since[rows, source], self.since[rows, source])
        for number, name in enumerate(world.layers or [""]):
            if name in world.factors:
                factor = calendar_at(*world.factors[name], time)
                left *= np.where(layer == number, factor, 1.0)
        for name, profile in world.profiles.items():
            factor = calendar_at(*profile, time - since)
            left *= np.where(here == self.index[name], factor, 1.0)
        found = [left]
        for k, one in enumerate(world.measures):
            left = np.ones(rows.size)
            found.append(left)
            force = self._in_force(rows, k, time)
            if one["kind"] == "closure":
                if one["layer"] is not None:
                    force &= layer == world.layers.index(one["layer"])
                left *= np.where(force, 1.0 - one["reduction"], 1.0)
            elif one["kind"] == "vaccination":
                effect = one["infectivity_reduction"]
                left *= 1.0 - self._protected(rows, k, source, time, effect)
                effect = one["efficacy"] if one["leaky"] else 1.0
                left *= 1.0 - self._protected(rows, k, target, time, effect)
            elif one["kind"] == "isolation":
                away = force & (here == self.index[one["compartment"]])
                away &= self.holds.takes(rows, k, source)
                away &= time >= tidy(since + one["delay"])
                coin = self.was_isolated[rows, k, source], self.isolated[rows, k, source]
                left *= np.where(away & np.where(now, *coin), 1.0 - one["reduction"], 1.0)
            elif one["kind"] in ("tracing", "testing"):
                held = self.holds.is_held(rows, k, source, time)
                held |= self.holds.is_held(rows, k, target, time)
                left *= np.where(held, 1.0 - one["reduction"], 1.0)
        return found

    def _import(self, rows: np.ndarray, time: np.ndarray) -> None:
        which = self.import_at[rows].argmin(axis=1)
        for k in np.unique(which):
            mine, when = rows[which == k], time[which == k]
            node = self.rng.integers(0, self.world.nodes, mine.size)
            chance, to = imports(self.world, self.world.importations[k]["compartment"])
            left = self._guarded(mine, node, when)
            for m, one in enumerate(self.world.measures):
                if one["kind"] in ("tracing", "testing"):
                    held = self.holds.is_held(mine, m, node, when)
                    left *= np.where(held, 1.0 - one["reduction"], 1.0)
            into_node = self.own_into
            if self.world.factor("susceptibility") is not None:
                into_node = into_node * self.world.factor("susceptibility")
            left *= self.infected_at[mine, node] < when
            u, reached = self.rng.random(mine.size), np.zeros(mine.size)
            into = np.full(mine.size, -1)
            for j in range(chance.size):
                fits = self.at[mine, node] == self.from_[j]
                reached += np.where(fits, chance[j] * left * into_node[j, node], 0.0)
                into = np.where((into < 0) & fits & (u < reached), to[j], into)
            hit = into >= 0
            self._infect(mine[hit], node[hit], into[hit], when[hit])
            self._next_importation(mine, int(k), when)

    def _contact(self, rows: np.ndarray, time: np.ndarray) -> None:
        bounds = self._bounds(rows)
        ends = np.cumsum(bounds, axis=1)
        arc = (self.rng.random(rows.size) * ends[:, -1] >= ends.T).sum(axis=0)
        source, target, layer = self.source[arc], self.target[arc], self.layer[arc]
        calendars, *measures = self._factors(rows, source, target, layer, time)
        left = self.weight[arc] * calendars
        left *= (self.infected_at[rows, source] < time) & (self.infected_at[rows, target] < time)
        if self.world.meetings is not None:
            meets = np.zeros(rows.size, bool)
            for number in range(self.source.size):
                pair = int(self.source[number]), int(self.target[number])
                for first, last, _ in self.spans[pair]:
                    meets |= (arc == number) & (first <= time) & (time < last)
            left *= meets
        u = self.rng.random(rows.size) * bounds[np.arange(rows.size), arc]

        def into(left: np.ndarray) -> np.ndarray:
            reached, found = np.zeros(rows.size), np.full(rows.size, -1)
            for j in range(self.from_.size):
                rate = np.where(self.at[rows, target] == self.from_[j], 1.0, 0.0)
                reached += rate * self.rates[j, self.at[rows, source]] * left * self.own[j, arc]
                found = np.where((found < 0) & (u < reached), self.into[j], found)
            return found

        to = into(left)
        for k, factor in enumerate(measures):  # the first that avoids a contact has avoided it
            left = left * factor
            still = into(left)
            avoided = (to >= 0) & (still < 0)
            self.tallies.avoid(rows[avoided], k, target[avoided], layer[avoided])
            to = still
        hit = to >= 0
        self._infect(rows[hit], target[hit], to[hit], time[hit])

    def _meet(self, rows: np.ndarray, time: np.ndarray) -> None:
        """Everybody who meets at a moment, as they were before it: hazards add up."""
        number = self.next_moment[rows]
        self.next_moment[rows] += 1
        hazard = np.zeros((rows.size, self.world.nodes, self.from_.size))
        for arc in range(self.source.size):
            source, target = int(self.source[arc]), int(self.target[arc])
            amount = np.zeros(rows.size)
            for first, _, stands_for in self.spans[source, target]:
                amount += np.where(self.moments[number] == first, stands_for, 0.0)
            left = amount * self.weight[arc] * self._left(rows, source, target, 0, time)
            left *= self.infected_at[rows, target] < time
            now = self.infected_at[rows, source] == time
            here = np.where(now, self.was_at[rows, source], self.at[rows, source])
            for j in range(self.from_.size):
                fits = self.at[rows, target] == self.from_[j]
                hazard[:, target, j] += fits * self.rates[j, here] * left * self.own[j, arc]
        total = hazard.sum(axis=2)
        hit = self.rng.random(total.shape) < -np.expm1(-total)
        for node in range(self.world.nodes):
            mine = hit[:, node]
            if mine.any():
                ends = np.cumsum(hazard[mine, node], axis=1)
                pick = self.rng.random(int(mine.sum())) * ends[:, -1]
                to = self.into[(pick[:, None] >= ends).sum(axis=1)]
                self._infect(rows[mine], np.full(to.size, node), to, time[mine])
