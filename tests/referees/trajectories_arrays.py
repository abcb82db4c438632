"""Random fields of arrays: loops for the engine, the same text over whole arrays for SciPy."""

from __future__ import annotations

import bisect
import math
from types import SimpleNamespace

import numpy as np
import trajectories_plain as plain
from scipy.integrate import solve_ivp

import ergode
from ergode.core.compiler.syntax import function_from_text
from ergode.core.status import Status
from ergode.trajectories import Maximum, Mean, Minimum, TimeAbove, ZeroCrossing, integrate
from ergode.trajectories.methods import METHODS

END, LARGEST = 2.0, 200
GRID = np.sort([*np.linspace(0.0, END, 5), 0.0371, 1.234567, 1.9999])
INDICES, PARAMETERS = "ijk", ["a", "b", "w"]
_WHOLE = SimpleNamespace(**{name: getattr(np, name) for name in ("sin", "cos", "tanh", "exp")})


class Model:
    """A random structure: arrays, the terms of each, whether one function sets all of them.

    Sizes, parameters, data and initial values are drawn for it again and again.  With `is_late` it
    has one to three delays, of any of its arrays, and perhaps a history that is a function.
    """

    def __init__(self, seed, is_late=False):
        rng = np.random.default_rng(seed)
        self.names = ["x", "u", "v"][: int(rng.integers(1, 4))]
        self.dims = [int(rng.integers(1, 4)) for _ in self.names]
        self.in_place, self.is_single = bool(rng.random() < 0.3), len(self.names) == 1
        self.has_data = bool(rng.random() < 0.7)
        self.kind = str(rng.choice(["linear", "cubic"]))
        self.texts = [self._draw(rng, v) for v in range(len(self.names))]
        self.late = [int(v) for v in rng.integers(0, len(self.names), 3)] if is_late else []
        self.late = self.late[: int(rng.integers(1, 4))]
        for k, other in enumerate(self.late):
            v = int(rng.integers(0, len(self.names)))
            places = [self._place(rng, v, other, axis) for axis in range(self.dims[other])]
            there = f"yd[{k}][{', '.join(places)}]"
            self.texts[v] += f" + 0.3 * {there} + p[1] * math.sin(2 * {there})"
        self.pasts = [] if not is_late or rng.random() < 0.3 else [
            f"{round(float(rng.uniform(0.2, 0.8)), 2)} * math.cos({1 + 0.3 * v} * t + 0.7 * i)"
            for v in range(len(self.names))
        ]  # fmt: skip

    def _array(self, v):
        return "y" if self.is_single else f"y.{self.names[v]}"

    def _draw(self, rng, v):
        own = self._array(v)
        here = f"{own}[{', '.join(INDICES[: self.dims[v]])}]"
        damping = rng.choice([0.5, 60.0], p=[0.7, 0.3])
        terms = [f"-({damping} + p[0]) * {here}", f"-0.1 * {here} ** 3"]
        for _ in range(3):
            other = int(rng.integers(0, len(self.names)))
            places = [self._place(rng, v, other, axis) for axis in range(self.dims[other])]
            there = f"{self._array(other)}[{', '.join(places)}]"
            terms.append(str(rng.choice([
                f"p[1] * math.tanh({there})", f"p[1] * math.sin(2 * {there})",
                f"{there} / (1 + {here} ** 2)", f"math.exp(-{there} ** 2) * math.cos(p[2] * t)",
                f"p[1] * (math.tanh({there}) if {there} > 0 else 0.5 * math.tanh({there}))",
                # Read by some unknowns at some times only.
                f"p[1] * (({here} - 0.5) * math.tanh({there}) if {here} > 0.5 else 0.0)",
            ])))  # fmt: skip
        if self.has_data:
            terms += ["c.weights[c.order[i % len(c.order)]]", "c.weights[i % 3] * c.drive(t)"]
            if self.dims[v] == 1:
                terms.append(f"p[1] * (c.rows[i % 3] @ c.weights) / (1 + {here} ** 2)")
        return " + ".join(terms)

    def _place(self, rng, v, other, axis):
        """A place along an axis of one array, from the indices of another."""
        index = INDICES[int(rng.integers(0, self.dims[v]))]
        length = f"{self._array(other)}.shape[{axis}]"
        shift = int(rng.integers(-2, 3))
        return str(rng.choice([
            f"({index} + {shift}) % {length}", f"min({index}, {length} - 1)",
            f"max(0, {length} - 1 - {index})",
        ]))  # fmt: skip

    def shapes(self, rng):
        """One to `LARGEST` unknowns in all."""
        found = []
        for number in self.dims:
            room = LARGEST // len(self.names)
            shape = []
            for left in range(number, 0, -1):
                most = room if left == 1 else round(room ** rng.uniform(0.2, 0.6))
                shape.append(int(rng.integers(1, max(1, most) + 1)))
                room //= shape[-1]
            found.append(tuple(shape))
        return found

    def data(self, rng):
        """Constants, with a table whose knots are no ends of anything."""
        if not self.has_data:
            return None
        knots = np.sort([-0.1, END + 0.1, *rng.uniform(0.0, END, 4)])
        return {
            "weights": rng.normal(size=3), "order": rng.permutation(3),
            "rows": rng.normal(size=(3, 3)),
            "drive": ergode.interpolant(knots, rng.normal(size=6), self.kind),
        }  # fmt: skip

    def field(self, shapes, data):
        """What the engine is given."""
        c = ", c" if self.has_data else ""
        yd = ", yd" if self.late else ""
        functions = {}
        if self.in_place:
            lines = [f"def rhs(t, y{yd}, dy, p{c}):"]
            for v, (number, text) in enumerate(zip(self.dims, self.texts, strict=True)):
                slopes = self._array(v).replace("y", "dy", 1)
                for axis, index in enumerate(INDICES[:number]):
                    lines.append(f"{' ' * 4 * (axis + 1)}for {index} in range("
                                 f"{slopes}.shape[{axis}]):")  # fmt: skip
                places = ", ".join(INDICES[:number])
                lines.append(f"{' ' * 4 * (number + 1)}{slopes}[{places}] = {text}")
            given = {"rhs": function_from_text("\n".join(lines) + "\n", {"math": math})}
        else:
            for name, number, text in zip(self.names, self.dims, self.texts, strict=True):
                indices = ", ".join(INDICES[:number])
                text = f"def rate_{name}({indices}, t, y{yd}, p{c}):\n    return {text}\n"
                functions[name] = function_from_text(text, {"math": math})
            given = {"component": functions[self.names[0]] if self.is_single else functions}
        variables = dict(zip(self.names, shapes, strict=True))
        return ergode.VectorField(
            **given, variables=(self.names[0], shapes[0]) if self.is_single else variables,
            parameters=[*PARAMETERS, *(f"tau{k}" for k in range(len(self.late)))], constants=data,
            delays=[(self.names[v], f"tau{k}") for k, v in enumerate(self.late)],
        )  # fmt: skip

    def history(self):
        """What the engine is given; None for a constant history."""
        found = {}
        for name, number, text in zip(self.names, self.dims, self.pasts, strict=False):
            arguments = ", ".join([*INDICES[:number], "t", *(["c"] if self.has_data else [])])
            text = f"def past_{name}({arguments}):\n    return {text}\n"
            found[name] = function_from_text(text, {"math": math})
        return (found[self.names[0]] if self.is_single else found) if found else None

    def solution(self, shapes, data, p, start):
        """States [time, unknown] by SciPy, at the times of the grid."""
        return self.path(shapes, data, p, start)[0](GRID)

    def path(self, shapes, data, p, start, kick=None):
        """The solution by SciPy, between the knots of the table: states [time, unknown] of times.

        With `kick`, a rise of the first unknown through ``kick[0]`` lowers it by ``kick[1]``; the
        times of this are returned as well.  The path is None where there are too many of them.
        """
        codes = [compile(_as_whole(text), "<referee>", "eval") for text in self.texts]
        places = [dict(zip(INDICES, np.indices(shape), strict=False)) for shape in shapes]
        taus, middle = list(p[len(PARAMETERS) :]), 0.0
        pasts = [compile(text, "<referee>", "eval") for text in self.pasts]

        def before(t):
            if not pasts:
                return np.asarray(start, float)
            names = {"t": t, "math": _WHOLE}
            return np.concatenate([
                np.broadcast_to(eval(code, {**names, **place}), shape).ravel()
                for code, place, shape in zip(pasts, places, shapes, strict=True)
            ])  # fmt: skip

        def delayed(t, middle):
            """The delayed arrays, in an interval around `middle`."""
            flats = [before(min(t - tau, 0.0)) if middle < tau else at(max(t - tau, 0.0))
                     for tau in taus]  # fmt: skip
            return [self._views(flat, shapes)[self.names[v]]
                    for flat, v in zip(flats, self.late, strict=True)]  # fmt: skip

        def slope(t, flat):
            names = self.names_at(t, flat, shapes, data, p, delayed(t, middle))
            slopes = [
                np.broadcast_to(eval(code, {**names, **place}), shape).ravel()
                for code, place, shape in zip(codes, places, shapes, strict=True)
            ]
            return np.concatenate(slopes)

        stops, kicks = None, []
        if kick is not None:

            def stops(t, flat):
                return flat[0] - kick[0]

            stops.terminal, stops.direction = True, 1.0
        knots = [s for s in data["drive"].times if 0.0 < s < END] if data else []
        knots = sorted({*knots, *(plain.goals(taus, END, 2) if taus else [])} - {END})
        y, t, pieces, begins = np.asarray(start, float), 0.0, [], []

        def states(times):
            times = np.asarray(times)
            found = np.zeros((times.size, len(start)))
            for begin, end, dense in reversed(pieces):  # at the moment of a kick: the state before
                here = (begin <= times) & (end >= times)
                if here.any():
                    found[here] = dense(times[here]).T
            return found

        def at(t):
            """The state at one time."""
            return pieces[max(bisect.bisect_left(begins, t) - 1, 0)][2](t)

        small = 1e-12 if taus else 1e-10  # a system with delays that grows was 4e-5 off
        for goal in [*knots, END]:
            middle = 0.5 * (t + goal)
            while t < goal:
                found = solve_ivp(
                    slope, (t, goal), y, "DOP853", dense_output=True, rtol=small,
                    atol=0.01 * small, events=stops, max_step=np.inf if kick is None else 0.02,
                )  # fmt: skip
                pieces.append((t, found.t[-1], found.sol))
                begins.append(t)
                t, y = found.t[-1], found.y[:, -1].copy()
                if found.status == 1:
                    kicks.append(t)
                    y[0] -= kick[1]
                if len(kicks) > 8:
                    return None, kicks
        self.delayed = delayed
        return states, kicks

    def _views(self, flat, shapes):
        ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
        return {
            name: flat[begin:end].reshape(shape)
            for name, shape, begin, end in zip(self.names, shapes, ends[:-1], ends[1:], strict=True)
        }

    def names_at(self, t, flat, shapes, data, p, yd=()):
        """Names in the text of a function, for whole arrays."""
        views = self._views(flat, shapes)
        own = views[self.names[0]] if self.is_single else SimpleNamespace(**views)
        return {
            "t": t, "y": own, "yd": yd, "p": p, "c": SimpleNamespace(**data) if data else None,
            "math": _WHOLE, "np": np, "len": len, "mean": np.mean, "corner": lambda x: x.flat[0],
        }  # fmt: skip

    def watched(self, rng):
        """Text of a function of the whole state: over arrays; and lines of loops."""
        v = int(rng.integers(0, len(self.names)))
        own, indices = self._array(v), INDICES[: self.dims[v]]
        first = f"{own}[{', '.join('0' * self.dims[v])}]"
        inner = str(rng.choice(["math.cos(0.5 + X)", "X", "p[1] * math.tanh(X)", "X ** 2"]))
        outer = str(rng.choice(["0.0", "0.3 * math.sin(3 * t)", "0.5 * FIRST", "p[1] * FIRST"]))
        level = round(float(rng.uniform(-0.2, 0.6)), 3)
        data = " + 0.1 * c.weights[1]" if self.has_data else ""
        if self.late:
            data += f" + 0.2 * yd[0][{', '.join('0' * self.dims[self.late[0]])}]"
        lines, at = ["total = 0.0"], f"{own}[{', '.join(indices)}]"
        for axis, index in enumerate(indices):
            lines.append(f"{' ' * 4 * axis}for {index} in range({own}.shape[{axis}]):")
        lines.append(f"{' ' * 4 * len(indices)}total += {inner.replace('X', at)}")
        loops = f"total / {own}.size + {outer.replace('FIRST', first)} - {level}{data}"
        whole = f"mean({inner.replace('X', own)}) + {outer.replace('FIRST', f'corner({own})')}"
        return f"{whole} - {level}{data}", [*lines, f"return {loops}"]

    def function(self, name, lines):
        """A function of the whole state, as the engine takes it."""
        yd = ", yd" if self.late else ""
        text = f"def {name}(t, y{yd}, p{', c' if self.has_data else ''}):\n"
        body = "".join(f"    {line}\n" for line in lines)
        return function_from_text(text + body, {"math": math})


def _as_whole(text):
    """Scalar words as those for arrays: choices, extrema and products of rows."""
    text = text.replace("min(", "np.minimum(").replace("max(", "np.maximum(")
    text = text.replace("c.rows[i % 3] @ c.weights", "(c.rows @ c.weights)[i % 3]")
    while " if " in text:
        head, _, tail = text.partition(" if ")
        begin = head.rindex("p[1] * (") + len("p[1] * (")
        condition, _, rest = tail.partition(" else ")
        depth, stop = 0, 0
        for stop, letter in enumerate(rest):  # noqa: B007
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if depth < 0:
                break
        chosen = f"np.where({condition}, {head[begin:]}, {rest[:stop]})"
        text = head[:begin] + chosen + rest[stop:]
    return text


def _delays(model, rng, count):
    """Delays of trajectories: the last one may be longer than the run."""
    found = {f"tau{k}": rng.uniform(0.25, 1.2, count) for k in range(len(model.late))}
    if len(found) > 1 and rng.random() < 0.3:
        found[f"tau{len(found) - 1}"][:] = 2.5
    elif len(found) > 1 and rng.random() < 0.3:
        found["tau1"] = 2.0 * found["tau0"]
    return found


def _flat(found, names, count):
    """States [trajectory, time, unknown] of a result."""
    times = found.sizes["time"]
    return np.concatenate(
        [found[name].values.reshape(count, times, -1) for name in names], axis=2
    )  # fmt: skip


def compare(structure, seed, options, device, is_late=False):
    """What is wrong with one random field, in words; methods that do not take it are left out."""
    model, rng = Model(structure, is_late), np.random.default_rng(seed)
    shapes, data = model.shapes(rng), model.data(rng)
    field = model.field(shapes, data)
    count = int(rng.choice([1, 3, 9]))
    rows = {"a": rng.uniform(0.0, 1.0, count), "b": rng.uniform(-1.5, 1.5, count),
            "w": rng.uniform(0.5, 3.0, count), **_delays(model, rng, count)}  # fmt: skip
    start = [rng.uniform(-1.5, 1.5, (count, *shape)) for shape in shapes]
    flat = np.concatenate([one.reshape(count, -1) for one in start], axis=1)
    truth = np.array([
        model.solution(shapes, data, [row[i] for row in rows.values()], flat[i])
        for i in range(count)
    ])  # fmt: skip
    initial = dict(zip(model.names, start, strict=True))
    wrong = []
    for label, (given, allowed) in options.items():
        method = label.partition(" ")[0]
        if METHODS[method].why_unsupported(field, given.get("step"), False) is not None:
            continue
        here = f"structure {structure}, seed {seed}, {shapes}, {count} trajectories, {label}"
        found = integrate(
            field, times=GRID, initial=initial, parameters=rows, method=method, device=device,
            history=model.history(), **given,
        )  # fmt: skip
        states = _flat(found, model.names, count)
        error = np.abs(states - truth).max()
        if (found["status"] != Status.DONE).any() or not error < allowed:
            wrong.append(f"{here}: status {found['status'].values}, states are {error:.1e} off")
    return wrong


# ---- stiff equations


def relaxation(i, t, y, p, c):
    """Couplings to three other unknowns, a fast or slow way to a target that moves, and a cubic."""
    pull = 0.0
    for k in range(c.others.shape[1]):
        pull += c.strengths[i, k] * (math.tanh(y[c.others[i, k]]) - y[i])
    return pull - c.rates[i] * (y[i] - math.cos(p[0] * t + i)) - p[1] * y[i] ** 3


def _as_equations(data):
    """The same with a name for every unknown, and numbers in the equations."""
    equations = {}
    for i, (others, strengths, rate) in enumerate(zip(*data.values(), strict=True)):
        pulls = [f"{s} * (tanh(x{k}) - x{i})" for k, s in zip(others, strengths, strict=True)]
        equations[f"x{i}"] = f"{' + '.join(pulls)} - {rate} * (x{i} - cos(w * t + {i})) - b*x{i}**3"
    return ergode.field_from_equations(equations)


def compare_stiff(seed, options, device, count=None, named=False):
    """What is wrong with one random stiff system, in words.

    It has 1 to 200 unknowns in an array, or 17 to 40 with names.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, *rng.integers(3, LARGEST + 1, 4)]))
    n = int(rng.integers(17, 41)) if named else n
    count = count or int(rng.choice([1, 4]))
    near = bool(rng.random() < 0.5)  # a band in an unknown order, or anything
    order = rng.permutation(n)
    others = rng.integers(-2, 3, (n, 3)) + np.arange(n)[:, None] if near else (
        rng.integers(0, n, (n, 3)))  # fmt: skip
    others = order[np.clip(others, 0, n - 1)][np.argsort(order)]
    data = {
        "others": others, "strengths": 10.0 ** rng.uniform(-1, 4, (n, 3)),
        "rates": 10.0 ** rng.uniform(-1, 5, n),
    }  # fmt: skip
    field = _as_equations(data) if named else ergode.VectorField(
        component=relaxation, variables=("x", n), parameters=["w", "b"], constants=data
    )  # fmt: skip
    rows = {"w": rng.uniform(0.5, 3.0, count), "b": rng.uniform(0.0, 1.0, count)}
    start = rng.uniform(-1.5, 1.5, (count, n))
    truth = np.array([
        _stiff_solution(data, [row[k] for row in rows.values()], start[k]) for k in range(count)
    ])  # fmt: skip
    wrong = []
    for method, (given, allowed) in options.items():
        initial = {f"x{i}": start[:, i] for i in range(n)} if named else {"x": start}
        found = integrate(field, times=GRID, initial=initial, parameters=rows, method=method,
                          device=device, **given)  # fmt: skip
        error = np.abs(found["state" if named else "x"].values - truth).max()
        if (found["status"] != Status.DONE).any() or not error < allowed:
            kind = "names" if named else "unknowns"
            here = f"stiff, seed {seed}, {n} {kind}, {count} trajectories, {method}"
            wrong.append(f"{here}: status {found['status'].values}, states are {error:.1e} off")
    return wrong


def _stiff_solution(data, p, start):
    """States [time, unknown] by SciPy's Radau, with the exact Jacobian."""
    n, rates, strengths = start.size, data["rates"], data["strengths"]
    rows = np.repeat(np.arange(n), 3)

    def slope(t, y):
        pull = (strengths * (np.tanh(y[data["others"]]) - y[:, None])).sum(axis=1)
        return pull - rates * (y - np.cos(p[0] * t + np.arange(n))) - p[1] * y**3

    def jacobian(t, y):
        found = np.diag(-strengths.sum(axis=1) - rates - 3 * p[1] * y**2)
        steep = strengths / np.cosh(y[data["others"]]) ** 2
        np.add.at(found, (rows, data["others"].ravel()), steep.ravel())
        return found

    path = solve_ivp(slope, (0.0, END), start, "Radau", GRID, jac=jacobian, rtol=1e-8, atol=1e-9)
    return path.y.T


# ---- events and observables


def compare_watched(structure, seed, options, device, is_late=False):
    """What is wrong with events and observables of one random field, in words."""
    model, rng = Model(structure, is_late), np.random.default_rng(seed)
    # Of the structure: kernels are compiled once for all of its seeds.
    drawn = np.random.default_rng(structure + 10**6)
    (gap, gap_lines), (other, other_lines) = (model.watched(drawn) for _ in range(2))
    acts = bool(drawn.random() < 0.5) and not is_late
    shapes, data = model.shapes(rng), model.data(rng)
    field = model.field(shapes, data)
    count = int(rng.choice([1, 3, 9]))
    rows = {"a": rng.uniform(0.0, 1.0, count), "b": rng.uniform(-1.5, 1.5, count),
            "w": rng.uniform(0.2, 0.8, count), **_delays(model, rng, count)}  # fmt: skip
    start = [rng.uniform(-1.5, 1.5, (count, *shape)) for shape in shapes]
    flat = np.concatenate([one.reshape(count, -1) for one in start], axis=1)
    g, q = model.function("gap", gap_lines), model.function("other", other_lines)
    events = [ZeroCrossing(g, 0, name="both"), ZeroCrossing(g, 1, name="up"),
              ZeroCrossing(g, -1, name="down")]  # fmt: skip
    if acts:
        first = f"{model._array(0)}[{', '.join('0' * model.dims[0])}]"
        level = model.function("level", [f"return {first} - p[2]"])
        effect = model.function("effect", [f"{first} -= 0.7"])
        events.append(ZeroCrossing(level, 1, effect=effect, name="kick"))
    fine, wrong, truths = np.linspace(0.0, END, plain.SAMPLES), [], []
    codes = [compile(text, "<referee>", "eval") for text in (gap, other)]
    for i in range(count):
        p = [row[i] for row in rows.values()]
        states, kicks = model.path(shapes, data, p, flat[i], (p[2], 0.7) if acts else None)
        if states is None:
            truths.append(None)
            continue

        def seen(t, which, state=None, p=p, states=states, delayed=model.delayed):
            state = states([t])[0] if state is None else state
            names = model.names_at(t, state, shapes, data, p, delayed(t, t))
            return float(eval(codes[which], names))

        path = states(fine)
        values = [np.array([seen(t, which, one) for t, one in zip(fine, path, strict=True)])
                  for which in (0, 1)]  # fmt: skip
        hits, near = plain.crossings(lambda t, f=seen: f(t, 0), END, values[0])
        # A kick that is nearly missed, or nearly happens, is left out.
        off = np.abs(path[:, 0] - p[2])
        turns = (off[1:-1] <= off[:-2]) & (off[1:-1] <= off[2:]) & (off[1:-1] < 0.01)
        far = np.array([all(abs(t - k) > 2e-3 for k in kicks) for t in fine[1:-1]])
        # Delayed values jump where the history ends: extremes are often beside it.
        jumps = [tau for tau in p[len(PARAMETERS) :] if tau < END]
        beside = [seen(tau + side * 1e-9, 1) for tau in jumps for side in (-1, 1)]
        ends = max([values[1].max(), *beside]), min([values[1].min(), *beside])
        passed_by = acts and (turns & far).any()
        truths.append((states, kicks, hits, near, values[1], ends, seen, passed_by))
    for label, (given, allowed) in options.items():
        method = label.partition(" ")[0]
        if METHODS[method].why_unsupported(field, given.get("step"), True) is not None:
            continue
        here = f"structure {structure}, seed {seed}, {shapes}, {count} trajectories, {label}"
        bound = {} if "step" in given else {"max_step": 0.1}
        found = integrate(
            field, times=GRID, initial=dict(zip(model.names, start, strict=True)), record=200,
            parameters=rows, method=method, device=device, events=events,
            history=model.history(), dense_output=True, **bound,
            observables=[Maximum(q, name="top"), Minimum(q, name="low"), Mean(q, name="mean"),
                         TimeAbove(q, 0.05, name="above")], **given,
        )  # fmt: skip
        if (found["status"] != Status.DONE).any():
            wrong.append(f"{here}: status {found['status'].values}")
            continue
        states = _flat(found, model.names, count)
        between = np.sort(rng.uniform(0.0, END, 20))
        inside = _flat(found.ergode.solution(between), model.names, count)
        for i, truth in enumerate(truths):
            if truth is None or truth[-1]:
                continue
            known, kicks, hits, near, values, ends, seen, _ = truth
            one = found.isel(trajectory=i) if "trajectory" in found.dims else found
            for what, times, path, factor in (
                ("watched states", GRID, states[i], 1), ("states within steps", between, inside[i],
                                                         5),
            ):  # fmt: skip
                far = [all(abs(t - k) > 1e-2 for k in kicks) for t in times]
                off = np.abs(path - known(times))[far]
                # A kick at a slightly wrong time leaves a wrong state behind.
                if off.size and not off.max() < factor * allowed * (1 + 30 * len(kicks)):
                    wrong.append(f"{here}: {what} of {i} are {off.max():.1e} off")
            wrong += [f"{here}, {i}: {text}" for text in _wrong_events(
                one, {"kick": kicks} if acts else {}, hits, near, seen, allowed
            )]  # fmt: skip
            exact = [*ends, np.trapezoid(values, fine) / END, END * np.mean(values > 0.05)]
            size = 1e-3 + np.abs(values).max() + np.ptp(values)
            seen_off = np.abs(one["observed"].values - exact) / [size, size, size, END]
            slow = np.count_nonzero(np.abs(values - 0.05) < 3 * allowed) / fine.size
            limits = allowed * (1 + 30 * len(kicks)) + np.array([2e-3, 2e-3, 5e-4, 3e-3 + slow])
            if not (seen_off < limits).all():
                wrong.append(f"{here}, {i}: observed {one['observed'].values} for {exact}")
    return wrong


def _wrong_events(found, kicks, hits, near, seen, allowed):
    """What is wrong with counts and times of events, in words."""
    known = {name: (times, lambda t: 1.0) for name, times in kicks.items()}
    later = 1 + 30 * sum(map(len, kicks.values()))
    if near > 20 * allowed * later:
        for name, sign in {"both": 0, "up": 1, "down": -1}.items():
            times = [t for t, way in hits if sign in (0, way)]
            # Where a kick moves the function across zero, there is no crossing.
            jumps = [t for t in times for k in kicks.get("kick", []) if abs(t - k) < 1e-3]
            if not jumps:
                known[name] = times, lambda t: abs(seen(t + 1e-5, 0) - seen(t - 1e-5, 0)) / 2e-5
    for name, (times, speed) in known.items():
        number = float(found["event_count"].sel(event=name))
        last = found["event_time"].sel(event=name).values
        last = last[np.isfinite(last)]
        if number != len(times) or last.size != len(times):
            yield f"{number:.0f} of {len(times)} '{name}', at {times}"
            continue
        off = [abs(a - b) * speed(b) for a, b in zip(last, times, strict=True)]
        if off and not max(off) < 20 * allowed * later:
            yield f"'{name}' is {max(off):.1e} off"
