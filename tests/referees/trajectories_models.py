"""Random vector fields: equations for the engine, Python expressions for the referee."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import ergode
from ergode.core.compiler.syntax import function_from_text

END = 6.0
EXTRA = ("level", "radius", "kick")
_NAMES = {"sin": np.sin, "cos": np.cos, "tanh": np.tanh, "exp": np.exp}


@dataclass
class Model:
    """One random structure; its parameters are drawn for many trajectories.

    Attributes
    ----------
    equations : list of str
        With ``D(j, k)`` for variable j, delay k ago.
    noises : list of str
    ranges : dict
        Least and largest value of each parameter.
    taus : int
        Number of delays.
    """

    equations: list[str]
    noises: list[str]
    ranges: dict[str, tuple[float, float]]
    taus: int

    @property
    def size(self):
        return len(self.equations)

    @property
    def variables(self):
        return [f"x{i}" for i in range(self.size)]

    def field(self):
        """What the engine is given."""
        texts = []
        for text in self.equations:
            for j in range(self.size):
                for k in range(self.taus):
                    text = text.replace(f"D({j}, {k})", f"x{j}(t - tau{k})")
            texts.append(text)
        noise = dict(zip(self.variables, self.noises, strict=True)) if self.noises else None
        return ergode.field_from_equations(
            dict(zip(self.variables, texts, strict=True)), [*self.ranges, *EXTRA], noise
        )

    def draw(self, rng, count):
        """Parameters and initial values of so many trajectories."""
        rows = {name: rng.uniform(*ends, count) for name, ends in self.ranges.items()}
        rows["level"] = rng.uniform(-0.6, 0.6, count)
        rows["radius"] = rng.uniform(0.3, 1.2, count)
        rows["kick"] = rng.uniform(0.3, 1.0, count)
        start = {name: rng.uniform(-1.5, 1.5, count) for name in self.variables}
        return rows, start

    def slopes(self, texts):
        """The referee's own function ``f(t, y, p, D)`` of these expressions."""
        codes = [compile(text, "<referee>", "eval") for text in texts]

        def function(t, y, p, past=None):
            names = {**_NAMES, **p, "t": t, "D": past}
            names.update(zip(self.variables, y, strict=True))
            return [eval(code, {"__builtins__": {}}, names) for code in codes]

        return function


def draw_model(rng, size, taus=0, noisy=None):
    """A random structure; `noisy` is None, "own" or "additive"."""
    ranges: dict[str, tuple[float, float]] = {f"tau{k}": (0.35, 1.4) for k in range(taus)}
    used = [0]

    def new(kind, least, most):
        used[0] += 1
        name = f"{kind}{used[0]}"
        ranges[name] = (least, most)
        return name

    def term(i):
        j, m = (int(v) for v in rng.integers(0, size, 2)) if size < 9 else ((i + 1) % size, i)
        b = new("b", -2.0, 2.0)
        kinds = [
            f"{b} * sin(2 * x{j})",
            f"{b} * tanh(x{j} * x{m})",
            f"{b} * cos({new('w', 0.5, 3.0)} * t)",
            f"{b} * x{j} / (1 + x{m} ** 2)",
            f"{b} * exp(-x{j} ** 2)",
        ]
        if taus:
            d = int(rng.integers(0, taus))
            kinds += [f"{b} * tanh(D({j}, {d}))"] * 4 + [f"{b} * D({j}, {d}) / (1 + x{m} ** 2)"]
        return str(rng.choice(kinds))

    equations = []
    for i in range(size):
        terms = [f"-{new('a', 0.2, 1.5)} * x{i}", f"-{new('c', 0.05, 0.3)} * x{i} ** 3"]
        terms += [term(i) for _ in range(2 if size < 9 else 1)]
        equations.append(" + ".join(terms))
    for k in range(taus):  # every delay is read
        equations[k % size] += f" + {new('b', -2.0, 2.0)} * D({(k + 1) % size}, {k})"
    noises = []
    for i in range(size if noisy else 0):
        s, r = new("s", 0.2, 0.6), new("r", 0.1, 0.5)
        noises.append(f"{s} + {r} * sin(x{i})" if noisy == "own" else f"{s} + {r} * cos(3 * t)")
    needed = {name for name in ranges if any(name in text for text in equations + noises)}
    ranges = {name: ends for name, ends in ranges.items() if name in needed or name[:3] == "tau"}
    return Model(equations, noises, ranges, taus)


def draw_separable(rng, size):
    """A random structure of positions and momenta, in any order; `size` is even."""
    ranges: dict[str, tuple[float, float]] = {}
    order = [int(i) for i in rng.permutation(size)]
    positions, momenta = order[: size // 2], order[size // 2 :]

    def new(kind, least, most):
        name = f"{kind}{len(ranges) + 1}"
        ranges[name] = (least, most)
        return name

    equations = [""] * size
    for i, others, timed in [(i, momenta, False) for i in positions] + [
        (i, positions, True) for i in momenta
    ]:
        j, m = (int(v) for v in rng.choice(others, 2))
        kinds = [
            f"{new('b', -1.5, 1.5)} * sin(2 * x{j})",
            f"{new('b', -1.5, 1.5)} * x{j} / (1 + x{m} ** 2)",
            f"{new('b', -1.5, 1.5)} * tanh(x{j} * x{m})",
        ]  # fmt: skip
        if timed:
            kinds.append(f"{new('b', -1.5, 1.5)} * cos({new('w', 0.5, 3.0)} * t)")
        sign = "-" if timed else ""
        terms = [f"{sign}{new('a', 0.3, 1.5)} * sin(x{j})", *rng.choice(kinds, 2, replace=False)]
        equations[i] = " + ".join(str(one) for one in terms)
    needed = {name for name in ranges if any(name in text for text in equations)}
    ranges = {name: ends for name, ends in ranges.items() if name in needed}
    return Model(equations, [], ranges, 0)


def history_of(model):
    """The past as the engine's function and as the referee's."""
    values = [f"{0.4 + 0.1 * i} * math.cos({1 + 0.3 * i} * t + {i})" for i in range(model.size)]
    text = f"def past(t):\n    return ({', '.join(values)},)\n"

    def own(t):
        return [(0.4 + 0.1 * i) * math.cos((1 + 0.3 * i) * t + i) for i in range(model.size)]

    return function_from_text(text, {"math": math}), own


def event_functions(model, field):
    """A threshold, a circle and a kick for the engine."""
    arguments = "t, y, yd, p" if model.taus else "t, y, p"
    level, radius, kick = (field.parameters.index(name) for name in EXTRA)
    other = 1 if model.size > 1 else 0
    kept = "".join(f"y[{i}], " for i in range(1, model.size))
    texts = (
        f"def level({arguments}):\n    return y[0] - p[{level}]\n",
        f"def circle({arguments}):\n    return y[0] ** 2 + y[{other}] ** 2 - p[{radius}] ** 2\n",
        f"def kicked({arguments}):\n    return (y[0] - p[{kick}], {kept})\n",
    )
    return [function_from_text(text, {}) for text in texts]
