"""What is true of a case, by plain NumPy, SciPy and Python: nothing here is of the library.

The master equation where it can be solved; an interpreter, one realization at a time, for what has
a history; equations of moments for linear networks; many realizations side by side for the rest.
"""

from __future__ import annotations

import bisect
import math
import re
from itertools import pairwise

import numpy as np
import scipy.integrate
import scipy.sparse
from scipy.sparse.linalg import expm_multiply

_COMPARED = re.compile(r"time\s*(>=|<=|>|<)\s*([0-9.e+-]+)")
_WORDS = {name: getattr(math, name) for name in ("exp", "sin", "floor", "sqrt")}
_ARRAYS = {name: getattr(np, name) for name in ("exp", "sin", "floor", "sqrt")}


class Rates:
    """Propensities of a case, from what its user wrote, for numbers or for arrays."""

    def __init__(self, case, arrays=False):
        self.case = case
        self.words = _ARRAYS if arrays else _WORDS
        self.codes = []
        for reaction in case.reactions:
            value = str(reaction.value)
            if reaction.law == "rate":
                text = f"({value})"
                if arrays:
                    text = re.sub(r"\((.*) if (.*) else (.*)\)", r"where(\2, \1, \3)", text)
            else:
                order = sum(reaction.left.values())
                text = f"({value})"
                if reaction.law == "deterministic" and case.volume is not None:
                    text += f" * {case.volume!r} ** {1 - order}"
                for name, count in reaction.left.items():
                    text += "".join(f" * ({name} - {k})" for k in range(count))
                    if reaction.law == "stochastic":
                        text += f" / {math.factorial(count)}"
            self.codes.append(compile(text.replace("^", "**"), "<rate>", "eval"))
        self.formulas = {
            name: compile(value, "<parameter>", "eval")
            for name, value in case.parameters.items()
            if isinstance(value, str)
        }
        self.numbers = {
            name: value for name, value in case.parameters.items() if not isinstance(value, str)
        }

    def known(self, amounts, time, moved):
        """All names: what has one value, and what a formula of it makes."""
        known = {**self.words, "where": np.where, "time": time, **self.numbers, **moved, **amounts}
        for name, code in self.formulas.items():
            if name not in moved:
                known[name] = eval(code, {"__builtins__": {}}, known)
        return known

    def __call__(self, amounts, time, moved):
        known = self.known(amounts, time, moved)
        return [eval(code, {"__builtins__": {}}, known) for code in self.codes]


def turns(case):
    """Times at which a comparison with time turns."""
    texts = [str(reaction.value) for reaction in case.reactions]
    texts += [event.trigger for event in case.events]
    return sorted({float(m[2]) for text in texts for m in _COMPARED.finditer(text)})


def is_smooth(case):
    """Whether rates change with time between the times at which a comparison turns."""
    return any("time" in _COMPARED.sub("", str(reaction.value)) for reaction in case.reactions)


# ---- the master equation


def master_equation(case, most_states=30_000):
    """Probability of every number of every species at every time; None if there are too many.

    Returns a list, by time, of lists, by species, of arrays.
    """
    names = list(case.initial)
    caps = np.array([20 + 2 * case.initial[name] for name in names])
    while True:
        if np.prod(caps + 1) > most_states:
            return None
        found = _solve(case, names, caps)
        if found is not None:
            return found
        caps = (caps * 1.5).astype(int)


def _solve(case, names, caps):
    sizes = tuple(caps + 1)
    states = np.indices(sizes).reshape(len(sizes), -1)
    amounts = dict(zip(names, states, strict=True))
    rates = Rates(case, arrays=True)
    moved = {}
    p = np.zeros(states.shape[1])
    p[np.ravel_multi_index([case.initial[name] for name in names], sizes)] = 1.0
    stops = sorted(set(turns(case)) | set(case.times))
    stops = [t for t in stops if t <= case.times[-1]]
    found = []
    t = case.times[0]
    for stop in stops:
        pieces = 400 if is_smooth(case) else 1
        for a, b in pairwise(np.linspace(t, stop, pieces + 1)) if stop > t else ():
            matrix = _generator(case, names, states, sizes, rates(amounts, 0.5 * (a + b), moved))
            p = expm_multiply(matrix * (b - a), p)
        t = stop
        p, moved = _at_time(case, names, states, sizes, p, moved, stop, ">=")
        if p is None:  # an event leads out of the box
            return None
        if stop in case.times:
            found.append([_marginal(p.reshape(sizes), i) for i in range(len(names))])
        p, moved = _at_time(case, names, states, sizes, p, moved, stop, ">")
        if p is None or 1.0 - p.sum() > 1e-8:
            return None
    return found


def _marginal(p, axis):
    return p.sum(axis=tuple(k for k in range(p.ndim) if k != axis))


def _generator(case, names, states, sizes, rates):
    count = states.shape[1]
    rows, columns, values = [], [], []
    for reaction, rate in zip(case.reactions, rates, strict=True):
        change = np.array([reaction.right.get(n, 0) - reaction.left.get(n, 0) for n in names])
        rate = np.broadcast_to(np.asarray(rate, float), count)
        after = states + change[:, None]
        fits = (after >= 0).all(axis=0) & (after < np.array(sizes)[:, None]).all(axis=0)
        source = np.flatnonzero(rate > 0)
        rows.append(source)
        columns.append(source)
        values.append(-rate[source])
        source = np.flatnonzero(fits & (rate > 0))  # what leaves the box is lost, and seen
        rows.append(np.ravel_multi_index(after[:, source], sizes))
        columns.append(source)
        values.append(rate[source])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csr_matrix(entries, (count, count))


def _at_time(case, names, states, sizes, p, moved, time, word):
    """What events at a time do: all assign what they compute from the state before."""
    here = [
        event for event in case.events
        if (match := _COMPARED.fullmatch(event.trigger))
        and match[1] == word and float(match[2]) == time
    ]  # fmt: skip
    if p is None or not here:
        return p, moved
    known = Rates(case, arrays=True).known(dict(zip(names, states, strict=True)), time, moved)
    known["__builtins__"] = {}
    values = [{n: eval(text, known) for n, text in e.assignments.items()} for e in here]
    after, moved = states.copy(), dict(moved)
    for k in sorted(range(len(here)), key=lambda k: -here[k].priority):
        for name, value in values[k].items():
            if name in names:
                after[names.index(name)] = value
            else:
                moved[name] = value
    if (p[(after >= np.array(sizes)[:, None]).any(axis=0)] > 0).any():
        return None, moved
    after = np.minimum(after, np.array(sizes)[:, None] - 1)
    return np.bincount(np.ravel_multi_index(after, sizes), p, p.size), moved


# ---- an interpreter: one realization, from one thing that happens to the next


def is_past(time, fires, at, after):
    """Whether nothing more happens at a time of the grid: neither a firing, nor what is due."""
    return time < min(fires, at) or (fires >= at and after and time <= at)


class Interpreter:
    """Realizations of a case, by the words of the documentation."""

    def __init__(self, case):
        self.case = case
        self.rates = Rates(case)
        self.turns = turns(case)
        self.edges = []  # of the windows in which smooth rates are those of the middle
        if is_smooth(case):
            every = np.linspace(case.times[0], case.times[-1], 401)
            self.edges = sorted({*every.tolist(), *self.turns})
        self.triggers = [compile(e.trigger, "<trigger>", "eval") for e in case.events]
        self.effects = [
            {name: compile(text, "<effect>", "eval") for name, text in e.assignments.items()}
            for e in case.events
        ]

    def run(self, rng):
        """Amounts at every time [time, species]; NaN from where it failed."""
        self.rng = rng
        case = self.case
        self.begin()
        t, side = case.times[0], 0
        rows = np.full((len(case.times), len(self.x)), np.nan)
        k = 0
        while True:
            at, after = self._next(t, side)
            rates = self.propensities(t, side) if at > t else [0.0]
            total = sum(rates)
            fires = t + rng.exponential() / total if total > 0 else math.inf
            fires_first = fires < at
            while k < len(case.times) and is_past(case.times[k], fires, at, after):
                rows[k] = list(self.x.values())
                k += 1
            if k == len(case.times):
                return rows
            if fires_first:
                t, side = fires, 0
                j = bisect.bisect_right(np.cumsum(rates), rng.random() * total)
                if not self.fire(min(j, len(rates) - 1), t):
                    return rows
            else:
                t, side = at, after
                self.arrive(t, side)

    def begin(self):
        """The state at the first time."""
        self.x, self.moved = dict(self.case.initial), {}
        self.pending, self.late = [], []  # of events: [time, side, event, values]
        self.armed = [event.initially_true for event in self.case.events]
        self._happen(self.case.times[0], 0)

    def propensities(self, t, side):
        """Of all reactions, between this position and the next."""
        seen = self._middle(t) if self.edges else t + 1e-12 * side
        return self.rates(self.x, seen, self.moved)

    def fire(self, j, t):
        """A reaction fires, and events that it triggers; false if there are too few molecules."""
        reaction = self.case.reactions[j]
        for name, count in reaction.left.items():
            self.x[name] -= count
        if min(self.x.values()) < 0:
            net = {n: self.x[n] + reaction.right.get(n, 0) for n in self.x}
            if reaction.delay or min(net.values()) < 0:
                return False
        if reaction.delay:
            delay = reaction.delay
            if reaction.spread:
                delay *= self.rng.gamma(reaction.spread**-2) * reaction.spread**2
            self.late.append((t + delay, reaction.right))
        else:
            self._add(reaction.right)
        self._happen(t, 0)
        return True

    def arrive(self, t, side):
        """What is due at a position."""
        for item in [item for item in self.late if item[0] <= t]:
            self.late.remove(item)
            self._add(item[1])
        self._happen(t, side)

    def _add(self, products):
        for name, count in products.items():
            self.x[name] += count

    def _middle(self, t):
        """The middle of the window that begins at or before t."""
        k = min(bisect.bisect_right(self.edges, t), len(self.edges) - 1)
        return 0.5 * (self.edges[k - 1] + self.edges[k])

    def _next(self, t, side):
        """The next position after (t, side) at which anything turns or is due."""
        positions = [(b, s) for b in self.turns for s in (0, 1)]
        k = bisect.bisect_right(self.edges, t)
        positions += [(edge, 0) for edge in self.edges[k : k + 1]]
        positions += [(item[0], item[1]) for item in self.pending]
        positions += [(item[0], 0) for item in self.late]
        return min((p for p in positions if p > (t, side)), default=(math.inf, 0))

    def _happen(self, t, side):
        while True:
            known = self.rates.known(self.x, t + 1e-12 * side, self.moved)
            known["__builtins__"] = {}
            for e, event in enumerate(self.case.events):
                now = bool(eval(self.triggers[e], known))
                if now and not self.armed[e]:
                    values = self._values(e, known) if event.values_from_trigger else None
                    due = round(t + float(event.delay), 9) if event.delay else t
                    self.pending.append([due, side, e, values])
                elif self.armed[e] and not now and not event.persistent:
                    self.pending = [item for item in self.pending if item[2] != e]
                self.armed[e] = now
            due = [item for item in self.pending if (item[0], item[1]) <= (t, side)]
            if not due:
                return
            item = max(due, key=lambda item: self.case.events[item[2]].priority)
            self.pending.remove(item)
            values = self._values(item[2], known) if item[3] is None else item[3]
            for name, value in values.items():
                (self.x if name in self.x else self.moved)[name] = value

    def _values(self, e, known):
        return {name: eval(code, known) for name, code in self.effects[e].items()}


def interpret(case, realizations, rng):
    """Amounts [realization, time, species] by the interpreter."""
    interpreter = Interpreter(case)
    return np.array([interpreter.run(rng) for _ in range(realizations)])


# ---- many molecules


def linear_moments(case):
    """Means [time, species] and variances of a network of births, deaths and conversions."""
    names = list(case.initial)
    d = len(names)
    rates = Rates(case)
    change = np.array(
        [[r.right.get(n, 0) - r.left.get(n, 0) for n in names] for r in case.reactions], float
    )
    zero = np.array(rates(dict.fromkeys(names, 0.0), 0.0, {}), float)
    slopes = np.array(
        [
            np.array(rates({**dict.fromkeys(names, 0.0), n: 1.0}, 0.0, {}), float) - zero
            for n in names
        ]
    ).T
    a, b = change.T @ slopes, change.T @ zero

    def moments(_, y):
        m, c = y[:d], y[d:].reshape(d, d)
        noise = change.T @ ((zero + slopes @ m)[:, None] * change)
        return np.concatenate([a @ m + b, (a @ c + c @ a.T + noise).ravel()])

    begin = np.concatenate([[case.initial[n] for n in names], np.zeros(d * d)])
    found = scipy.integrate.solve_ivp(
        moments, (case.times[0], case.times[-1]), begin, t_eval=case.times, method="LSODA",
        rtol=1e-9, atol=1e-9,
    ).y.T  # fmt: skip
    return found[:, :d], found[:, d :: d + 1]


def side_by_side(case, realizations, rng):
    """Amounts [realization, time, species] by the direct method on arrays."""
    names = list(case.initial)
    rates = Rates(case, arrays=True)
    change = np.array(
        [[r.right.get(n, 0) - r.left.get(n, 0) for n in names] for r in case.reactions], float
    )
    x = np.tile([float(case.initial[n]) for n in names], (realizations, 1))
    t = np.full(realizations, case.times[0])
    rows = np.empty((realizations, len(case.times), len(names)))
    cursor = np.zeros(realizations, int)
    grid = np.append(case.times, np.inf)
    while (cursor < len(case.times)).any():
        each = rates(dict(zip(names, x.T, strict=True)), 0.0, {})
        sums = np.cumsum([np.broadcast_to(a, realizations) for a in each], axis=0)
        with np.errstate(divide="ignore"):
            fires = t + rng.exponential(size=realizations) / sums[-1]
        while (over := grid[cursor] < fires).any():
            where = np.flatnonzero(over & (cursor < len(case.times)))
            rows[where, cursor[where]] = x[where]
            cursor[where] += 1
            if not where.size:
                break
        j = (rng.random(realizations) * sums[-1] >= sums).sum(axis=0)
        going = cursor < len(case.times)
        x[going] += change[np.minimum(j, len(change) - 1)][going]
        t = fires
    return rows
