"""Random stiff systems whose fast variables follow given functions of time and other variables.

The solution is known: slow variables return to sums of sines, fast ones to sums of sines and a
product of two slow variables, each with the derivative of what it follows as a further term.  All
begin on what they follow.  Steps are long where tolerances allow; states between their ends, events
and observables are compared with the solution.
"""

from __future__ import annotations

import math
import re

import numpy as np
import trajectories_plain as plain

import ergode
from ergode.core.compiler.syntax import function_from_text
from ergode.core.status import Status
from ergode.trajectories import Maximum, Mean, Minimum, TimeAbove, ZeroCrossing, integrate

END = 8.0
_NAMES = {"sin": np.sin, "cos": np.cos, "tanh": np.tanh}


class Slaved:
    """One random system; its fast variables are the last ones."""

    def __init__(self, seed, slow=2, fast=2):
        rng = np.random.default_rng(seed)
        self.seed, self.size, self.known, self.equations = seed, slow + fast, [], []
        slopes = []
        for i in range(self.size):
            known, slope, read = [], [], []
            for _ in range(int(rng.integers(1, 4))):
                a, w, at = (
                    round(rng.uniform(*ends), 3) for ends in ((0.2, 0.8), (0.4, 2.5), (0.0, 6.3))
                )
                known.append(f"{a} * sin({w} * t + {at})")
                slope.append(f"{a} * {w} * cos({w} * t + {at})")
            if i >= slow > 0:
                j, m = (int(v) for v in rng.integers(0, slow, 2))
                c = f"{rng.uniform(-0.6, 0.6):.3f}"
                read.append(f"{c} * x{j} * x{m}")
                slope.append(f"{c} * (({slopes[j]}) * ({self.known[m]}))")
                slope.append(f"{c} * (({self.known[j]}) * ({slopes[m]}))")
            followed = " + ".join(known + read)
            known += [
                re.sub(r"x(\d+)", lambda found: f"({self.known[int(found[1])]})", one)
                for one in read
            ]  # fmt: skip
            self.known.append(" + ".join(known))
            slopes.append(" + ".join(slope))
            rate = f"{rng.uniform(0.3, 2.0):.3f}" if i < slow else f"rate{i}"
            away = f"(x{i} - ({followed}))"
            bent = f" + {away} ** 3" if rng.random() < 0.5 else ""
            self.equations.append(f"-{rate} * ({away}{bent}) + {slopes[i]}")
        self.rates = [f"rate{i}" for i in range(slow, self.size)]
        self.watched = self.size - 1
        self.level = round(rng.uniform(-0.3, 0.3), 3)

    def truth(self, times):
        """States [time, variable]."""
        names = {"__builtins__": {}, **_NAMES, "t": np.asarray(times)}
        return np.stack([eval(text, names) for text in self.known], axis=-1)

    def draw(self, count):
        """Rates of so many trajectories."""
        rng = np.random.default_rng(self.seed + 10**6)
        return {name: 10 ** rng.uniform(3, 9, count) for name in self.rates}

    def named(self):
        """The field, initial values, and functions of the events and observables."""
        names = [f"x{i}" for i in range(self.size)]
        field = ergode.field_from_equations(dict(zip(names, self.equations, strict=True)))
        start = dict(zip(names, map(float, self.truth(0.0)), strict=True))
        return field, start, self._level("t, y, p"), names[self.watched]

    def array(self):
        """The same of one array."""
        places = {name: f"p[{i}]" for i, name in enumerate(self.rates)}
        lines = []
        for i, text in enumerate(self.equations):
            text = re.sub(r"x(\d+)", r"y[\1]", text)
            text = re.sub(r"rate\d+", lambda found: places[found[0]], text)
            text = re.sub(r"\b(sin|cos)\b", r"math.\1", text)
            lines.append(f"    dy[{i}] = {text}\n")
        rhs = function_from_text(f"def rhs(t, y, dy, p):\n{''.join(lines)}", {"math": math})
        field = ergode.VectorField(rhs=rhs, variables=("x", self.size), parameters=self.rates)
        value = function_from_text(f"def value(t, y, p):\n    return y[{self.watched}]\n", {})
        return field, {"x": self.truth(0.0)}, self._level("t, y, p"), value

    def _level(self, arguments):
        text = f"def level({arguments}):\n    return y[{self.watched}] - {self.level}\n"
        return function_from_text(text, {})


def compare(seed, methods, device, *, arrays, count, watched, slow=2, fast=2):
    """What is wrong, in words; `methods` are names with options and allowed errors."""
    system = Slaved(seed, slow, fast)
    field, start, level, value = system.array() if arrays else system.named()
    rates = system.draw(count)
    times = np.unique([0.0, END, *np.random.default_rng(seed).uniform(0.0, END, 60)])
    exact = system.truth(times)
    more = {}
    if watched:
        kinds = (Maximum, Minimum, Mean)
        names = ({"name": kind.__name__} if arrays else {} for kind in kinds)
        more = {
            "events": [ZeroCrossing(level, 0, name="level")], "record": 40,
            "observables": [
                *(kind(value, **name) for kind, name in zip(kinds, names, strict=True)),
                TimeAbove(value, system.level, **({"name": "above"} if arrays else {})),
            ],
        }  # fmt: skip
    fine = np.linspace(0.0, END, 40001)
    path = system.truth(fine)[:, system.watched]
    above = END * np.mean(path > system.level)
    seen = np.array([path.max(), path.min(), np.trapezoid(path, fine) / END, above])
    hits, near = plain.crossings(
        lambda t: float(system.truth(t)[system.watched]) - system.level, END
    )
    hits = [t for t, _ in hits]
    wrong = []
    for method, (options, allowed) in methods.items():
        what = f"seed {seed}, {method}, {count} trajectories, arrays {arrays}"
        found = integrate(
            field, times=times, initial=start, parameters=rates, method=method, device=device,
            **options, **more,
        )  # fmt: skip
        if (found["status"] != Status.DONE).any():
            wrong.append(f"{what}: status {found['status'].values}")
            continue
        state = found["x" if arrays else "state"].values.reshape(count, times.size, system.size)
        off = np.abs(state - exact).max(axis=(1, 2))
        if not off.max() < allowed:
            wrong.append(f"{what}: states are {off} off")
        if not watched:
            continue
        observed = found["observed"].values.reshape(count, 4)
        off = np.abs(observed - seen).max(axis=0)
        if not (off[:3].max() < 3 * allowed and (off[3] < 0.02 or near < 20 * allowed)):
            wrong.append(f"{what}: observed {observed} for {seen}")
        if near < 20 * allowed:
            continue
        numbers = found["event_count"].values.reshape(count)
        if (numbers != len(hits)).any():
            wrong.append(f"{what}: {numbers} of {len(hits)} events")
            continue
        places = found["event_time"].values.reshape(count, -1)[:, : len(hits)]
        off = np.abs(system.truth(places)[..., system.watched] - system.level)
        if hits and not off.max() < 3 * allowed:
            wrong.append(f"{what}: events are {off.max():.1e} off")
    return wrong
