"""Random hybrid networks for the referee of `ergode.stochastic`, and what is true of them.

The truth shares no code with the library: many realizations side by side, each with its own time,
by classical Runge-Kutta steps of a fixed length in NumPy.  Where the integrated propensity reaches
its threshold, or a condition turns, is found on the cubic Hermite interpolant of a step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import stochastic_compare as referee

import ergode

WORDS = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "minimum": np.minimum}


@dataclass
class HybridCase:
    """A network: names, numbers, and formulas as text. Its compartment is ``cell``."""

    counts: dict[str, int]
    real: dict[str, float]  # continuous species
    reactions: list[tuple[dict, dict, str, float | str]]  # both sides, kind of law, value
    rate_rules: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    cell: float = 1.0
    events: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    times: tuple[float, ...] = (0.0, 0.7, 1.3, 2.0)
    step: float = 0.02  # of the truth, whose method is explicit

    @property
    def names(self):
        """Everything that may change: counts, continuous species, parameters, the size."""
        return [*self.counts, *self.real, *self.parameters, "cell"]

    @property
    def followed(self):
        """Names to compare."""
        own = [n for n in (*self.parameters, "cell") if n in self.rate_rules]
        return [*self.counts, *self.real, *own]


def network_of(case):
    """The case as the library has it."""
    species = [
        ergode.Species(name, n, compartment="cell")
        for name, n in {**case.counts, **case.real}.items()
    ]
    reactions = [
        ergode.Reaction(left, right, **{kind: value}) for left, right, kind, value in case.reactions
    ]
    return ergode.ReactionNetwork(
        species, reactions, case.parameters, {"cell": case.cell},
        events=[ergode.Event(trigger, values) for trigger, values in case.events],
        rate_rules=case.rate_rules, continuous=list(case.real),
    )  # fmt: skip


# ---- the truth


class SideBySide:
    """Realizations of a case."""

    def __init__(self, case, realizations, rng):
        self.case, self.rng, self.size = case, rng, realizations
        self.rates = [self._law(*reaction) for reaction in case.reactions]
        self.net = [
            {n: right.get(n, 0) - left.get(n, 0) for n in {**left, **right}}
            for left, right, _, _ in case.reactions
        ]
        self.net = [{n: k for n, k in change.items() if k} for change in self.net]
        self.smooth = [bool(change) and all(n in case.real for n in change) for change in self.net]
        self.rules = {n: _code(text) for n, text in case.rate_rules.items()}
        self.triggers = [_code(trigger) for trigger, _ in case.events]
        self.effects = [{n: _code(v) for n, v in values.items()} for _, values in case.events]

    def _law(self, left, right, kind, value):
        """A propensity, or the rate of a deterministic reaction."""
        text = f"({value})"
        order = sum(left.values())
        if kind == "rate_constant":
            text += f" * cell ** {1 - order}"
        for name, count in left.items() if kind == "rate_constant" else ():
            for k in range(count):
                text += f" * {name}" if name in self.case.real else f" * ({name} - {k})"
        return _code(text)

    def _eval(self, code, x, t):
        known = {**WORDS, "time": t, **x, "binomial": self._binomial, "__builtins__": {}}
        return np.broadcast_to(np.asarray(eval(code, known), float), t.shape)

    def _binomial(self, n, p):
        return self.rng.binomial(np.rint(n).astype(int), p).astype(float)

    def _slopes(self, x, t):
        slopes = {n: np.zeros_like(t) for n in x}
        for name, code in self.rules.items():
            slopes[name] = slopes[name] + self._eval(code, x, t)
        total = np.zeros_like(t)
        for code, change, smooth in zip(self.rates, self.net, self.smooth, strict=True):
            rate = self._eval(code, x, t)
            if not smooth:
                total = total + rate
                continue
            for name, k in change.items():
                slopes[name] = slopes[name] + k * rate
        slopes["passed"] = total
        return slopes

    def _step(self, x, t, h):
        """One step of the classical method: the state at its end, slopes at its begin and end."""

        def moved(slopes, part):
            return {n: x[n] + part * h * slopes[n] for n in x}

        one = self._slopes(x, t)
        two = self._slopes(moved(one, 0.5), t + 0.5 * h)
        three = self._slopes(moved(two, 0.5), t + 0.5 * h)
        four = self._slopes(moved(three, 1.0), t + h)
        then = {n: x[n] + h / 6 * (one[n] + 2 * two[n] + 2 * three[n] + four[n]) for n in x}
        return then, one, self._slopes(then, t + h)

    def _held(self, x, t):
        return np.array([self._eval(code, x, t) != 0 for code in self.triggers]).reshape(-1, t.size)

    def _over(self, x, t, goal, held):
        """Whether a firing or a condition has been reached."""
        return (x["passed"] >= goal) | (self._held(x, t) != held).any(axis=0)

    def run(self):
        """Values by name, [realization, time]."""
        case, rng, size = self.case, self.rng, self.size
        start = {**case.counts, **case.real, **case.parameters, "cell": case.cell}
        x = {n: np.full(size, float(v)) for n, v in start.items()}
        x["passed"] = np.zeros(size)
        t = np.full(size, case.times[0])
        goal = rng.exponential(size=size)
        self.armed = np.ones((len(case.events), size), bool)
        self._happen(x, t, np.ones(size, bool))
        rows = {n: np.full((size, len(case.times)), np.nan) for n in case.names}
        cursor = np.zeros(size, int)
        grid = np.append(case.times, np.inf)
        while True:
            here = (cursor < len(case.times)) & (t >= grid[cursor] - 1e-12)
            for n in case.names:
                rows[n][here, cursor[here]] = x[n][here]
            cursor += here
            going = np.flatnonzero(cursor < len(case.times))
            if not going.size:
                return rows
            now, u, last = {n: v[going] for n, v in x.items()}, t[going], goal[going]
            h = np.minimum(case.step, grid[cursor[going]] - u)
            held = self.armed[:, going]
            then, begins, closes = self._step(now, u, h)
            ends = self._over(then, u + h, last, held)
            if ends.any():
                y, z, f, g = (
                    {n: v[ends] for n, v in one.items()} for one in (now, then, begins, closes)
                )
                low, high = np.zeros(int(ends.sum())), np.ones(int(ends.sum()))
                for _ in range(30):
                    p = 0.5 * (low + high)
                    q = {n: _hermite(p, h[ends], y[n], z[n], f[n], g[n]) for n in y}
                    reached = self._over(q, u[ends] + p * h[ends], last[ends], held[:, ends])
                    low, high = np.where(reached, low, p), np.where(reached, p, high)
                for n in then:
                    then[n][ends] = _hermite(high, h[ends], y[n], z[n], f[n], g[n])
                h[ends] = high * h[ends]
            for n in x:
                x[n][going] = then[n]
            t[going] = u + h
            fires = np.zeros(size, bool)
            fires[going] = then["passed"] >= last
            self._fire(x, t, fires)
            x["passed"][fires] = 0.0
            goal[fires] = rng.exponential(size=int(fires.sum()))
            changed = fires.copy()
            changed[going] |= ends
            self._happen(x, t, changed)

    def _fire(self, x, t, fires):
        if not fires.any():
            return
        each = [
            np.zeros_like(t) if smooth else self._eval(code, x, t)
            for code, smooth in zip(self.rates, self.smooth, strict=True)
        ]
        sums = np.cumsum(each, axis=0)
        j = (self.rng.random(t.size) * sums[-1] >= sums).sum(axis=0)
        for k, change in enumerate(self.net):
            for name, count in change.items():
                x[name][fires & (j == k)] += count

    def _happen(self, x, t, which):
        """Events of the realizations `which`, one after the other, until none is due.

        The one that the case lists first is executed, with the values from the moment at which it
        became due; what it changes may make others due.
        """
        waits = np.zeros_like(self.armed)
        values = [{n: np.zeros_like(t) for n in effects} for effects in self.effects]
        for _ in range(40):
            held = self._held(x, t)
            due = held & ~self.armed & which
            self.armed = np.where(which, held, self.armed)
            for now, effects, kept in zip(due, self.effects, values, strict=True):
                for n, code in effects.items():
                    kept[n] = np.where(now, self._eval(code, x, t), kept[n])
            waits |= due
            if not waits.any():
                return
            first = waits.argmax(axis=0)
            for k, kept in enumerate(values):
                now = waits[k] & (first == k)
                waits[k] &= ~now
                for n, value in kept.items():
                    x[n][now] = value[now]


def _hermite(p, h, y, z, f, g):
    """The cubic through two values and slopes, at the fraction `p` of a step."""
    bent = (1 - 2 * p) * (z - y) + (p - 1) * h * f + p * h * g
    return (1 - p) * y + p * z + p * (p - 1) * bent


def _code(text):
    text = text.replace("^", "**")
    text = " & ".join(f"({part})" for part in text.split(" and "))
    return compile(text, "<formula>", "eval")


# ---- cases


def hybrid(rng):
    """A case of random parts, all of them coupled."""

    def number(low, high):
        return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 4)

    growth, fast = number(0.2, 1.2), number(50, 300)
    case = HybridCase(
        {"A": int(rng.integers(0, 9)), "B": int(rng.integers(0, 9))},
        {"X": number(1, 8)} if rng.random() < 0.8 else {},
        [
            ({}, {"A": 1}, "rate_constant", number(3, 9)),
            ({"A": 1}, {}, "rate_constant", number(0.4, 2)),
            ({"A": 1}, {"B": 1}, "rate", f"{number(0.3, 1)} * A * c"),
            ({"B": 1}, {}, "rate", f"{number(0.5, 2)} * B * (1 + 0.5 * sin(3 * time))"),
            ({"A": 1, "B": 1}, {"A": 1}, "rate_constant", number(0.05, 0.3)),
        ],
        {
            "cell": str(
                rng.choice([f"{growth} * cell", f"{growth}", f"{growth} * cell * (3 - cell)"])
            ),
            "c": str(
                rng.choice(
                    [f"-{number(0.3, 3)} * c", f"{number(0.3, 1)} * (1 - c)",
                     f"{number(0.1, 0.4)} * B - {fast} * (c - 1)",
                     f"{number(0.5, 1)} * sin({number(1, 9)} * time)"]
                )
            ),
        },
        {"c": number(0.5, 2), "d": 0.0},
    )  # fmt: skip
    if case.real:
        case.reactions += [
            ({"X": 1}, {}, "rate_constant", number(0.3, 3)),
            ({"B": 1}, {"B": 1, "X": 1}, "rate_constant", number(0.3, 2)),
            ({}, {"A": 1, "X": 3}, "rate", f"{number(0.3, 2)} * X / (2 + X)"),
        ]
        if rng.random() < 0.5:
            case.reactions.append(({"X": 2}, {"X": 1}, "rate_constant", number(0.02, 0.2)))
    if f"{fast} *" in case.rate_rules["c"]:
        case.step = 0.6 / fast
    halves = {"cell": "cell / 2", "A": "binomial(A, 0.5)", "B": "binomial(B, 0.5)"}
    if case.real:
        halves["X"] = "X / 2"
    others = [
        (f"cell >= {number(1.3, 1.9)}", halves),
        (f"A >= {int(rng.integers(6, 12))}", {"A": "A - 4", "d": "d + 1"}),
        (f"sin({number(2, 5)} * time) > 0.6", {"B": "B + 3"}),
        (f"c < {number(0.3, 0.9)} and A > 2", {"c": "c + 1"}),
        (f"time >= {round(float(rng.uniform(0.2, 1.8)), 1)}", {"c": "c / 2", "A": "A + 2"}),
        (f"c * A > {number(1, 9)}", {"d": "d"}),  # these two have no effect
        (f"time >= {round(float(rng.uniform(0.2, 1.8)), 1)}", {"A": "A"}),
    ]
    chosen = rng.permutation(len(others))[: int(rng.integers(1, 6))]
    case.events = [others[k] for k in sorted(chosen)]
    if rng.random() < 0.3:  # many firings in a step
        for k in (0, 1):
            left, right, kind, value = case.reactions[k]
            case.reactions[k] = left, right, kind, round(5 * value, 4)
        case.reactions[2] = (*case.reactions[2][:3], f"0.2 * ({case.reactions[2][3]})")
        case.step *= 0.5
    if rng.random() < 0.3:  # everything from zero
        case.counts, case.real = dict.fromkeys(case.counts, 0), dict.fromkeys(case.real, 0.0)
    return case


# ---- the comparison


def examine(case, seed, found, replicates=4000, realizations=2000, **options):
    """The library against the truth: every name at every time."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ergode.ErgodeWarning)
        result = ergode.stochastic.simulate(
            network_of(case), times=case.times, replicates=replicates, seed=seed,
            **{"method": "hybrid", "device": referee.DEVICE, **options},
        )  # fmt: skip
    found.check((result["status"].values <= 1).all(), "a realization failed")
    truth = SideBySide(case, realizations, rng).run()
    for name in case.followed:
        if name in result["species"].values:
            here = result["amount"].sel(species=name).values
        else:
            here = result["value"].sel(rule=name).values
        for k, time in enumerate(case.times):
            _compare(here[:, k], truth[name][:, k], f"{name} at {time}", found)


def _compare(here, there, where, found):
    """Distribution functions, up to chance and to a small shift of values."""
    shift = 2e-4 * max(abs(there).max(), 1e-3)
    n, m = here.size, there.size
    allowed = np.sqrt(-np.log(referee.LEVEL / 2) / 2 * (n + m) / (n * m))
    for a, b in ((here, there), (there, here)):
        at = np.unique(np.concatenate([a, b]))
        below = np.searchsorted(np.sort(a), at, side="right") / a.size
        above = np.searchsorted(np.sort(b), at + shift, side="right") / b.size
        far = (below - above).max()
        found.check(far <= allowed, f"{where}: distributions are {far:.3f} apart, of {allowed:.3f}")
    error = referee.SIGMAS * np.sqrt(here.var() / n + there.var() / m) + shift
    off = abs(here.mean() - there.mean())
    found.check(
        off <= error, f"{where}: means {here.mean():.4f} and {there.mean():.4f}, +- {error:.4f}"
    )
