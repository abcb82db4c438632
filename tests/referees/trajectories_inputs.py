"""Random tables as inputs of named variables, against SciPy from knot to knot.

    x' = a u(t) - b x + c sin(x z),    z' = v(t) x - d z^3 + w(x)

u and v are inputs of a random kind, with a period or without, one table for each trajectory; w is
a smooth measured law.  With a delay, a x(t - tau) is added to z'.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

import ergode
from ergode.core.status import Status
from ergode.trajectories import ZeroCrossing, integrate

END, COUNT = 5.0, 5
TIMES = np.sort(np.concatenate([np.linspace(0.0, END, 11), [0.0371, 1.234567, 4.9999]]))
OPTIONS = {
    "tsit5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-6),
    "dopri5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-6),
    "dop853": ({"rtol": 1e-9, "atol": 1e-10}, 2e-6),
    "rodas5p": ({"rtol": 1e-7, "atol": 1e-8}, 2e-5),
    "radau5": ({"rtol": 1e-7, "atol": 1e-8}, 2e-5),
    "rosenbrock23": ({"rtol": 1e-6, "atol": 1e-7}, 2e-3),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-3),
}
WITH_DELAYS = ("tsit5", "rodas5p", "dop853")
LAW = ergode.interpolant(np.linspace(-9, 9, 181), np.tanh(np.linspace(-9, 9, 181)), "cubic")
EQUATIONS = {"x": "a * u(t) - b * x + c * sin(x * z)", "z": "v(t) * x - d * z**3 + w(x)"}


def draw_table(rng, kind, period):
    """A table that covers the run, with a few knots at times to save and very close together."""
    knots = rng.uniform(0.0, END, int(rng.integers(3, 12)))
    knots = np.append(knots, rng.choice(TIMES[1:-1], 2))
    if rng.random() < 0.3:
        knots = np.append(knots, knots[0] * (1 + 1e-13))
    knots = np.unique(np.concatenate([[0.0, END], knots]))
    if kind == "cubic":  # a spline through knots that are close together is steep
        knots = np.linspace(0.0, END, knots.size)
    if period:
        knots = knots[:-1] * rng.uniform(0.2, 0.9)
        period = knots[-1] + rng.uniform(0.1, 0.5)
    return ergode.interpolant(knots, rng.uniform(-1.0, 1.0, knots.size), kind, period or None)


def knots_of(table):
    turns = range(int(END / table.period) + 1) if table.period else (0,)
    return {float(knot + turn * (table.period or 0.0)) for knot in table.times for turn in turns}


def solved(u, v, p, start, tau):
    """States at `TIMES`, in pieces between all knots and their sums with the delay."""
    places = {0.0, END, *knots_of(u), *knots_of(v)}
    if tau:
        places = {one + k * tau for one in places for k in range(int(END / tau) + 2)}
    places = sorted(one for one in places if one <= END)
    ends = [places[0]]
    for one in places:
        if one > ends[-1] + 1e-10:
            ends.append(one)
    found, state = [], np.array(start)

    def at(t):
        return next((one.sol(t) for one in found if t <= one.t[-1] + 1e-11), found[-1].sol(t))

    for a, b in zip(ends[:-1], ends[1:], strict=True):
        inner = 1e-11 * (1 + abs(a)), 1e-11 * (1 + abs(b))

        def slopes(t, y, a=a, b=b, inner=inner):
            x, z = y
            s = min(max(t, a + inner[0]), b - inner[1])
            fed = 0.0 if not tau else p["a"] * (start[0] if t <= tau else at(t - tau)[0])
            return [p["a"] * u(s) - p["b"] * x + p["c"] * np.sin(x * z),
                    v(s) * x - p["d"] * z**3 + LAW(x) + fed]  # fmt: skip

        found.append(
            solve_ivp(slopes, (a, b), state, "DOP853", rtol=1e-10, atol=1e-11, dense_output=True)
        )
        state = found[-1].y[:, -1]
    return np.array([at(t) for t in TIMES])


def above(t, y, p, c):
    return c.u(t) - y[0]


def above_late(t, y, yd, p, c):
    return c.u(t) - y[0]


def compare(seed, device, methods=None):
    """What is wrong, in words."""
    rng = np.random.default_rng(seed)
    kinds = [str(one) for one in rng.choice(["steps", "linear", "cubic"], 2)]
    periods = rng.random(2) < 0.4
    u, v = (
        [draw_table(rng, kind, is_turning) for _ in range(COUNT)]
        for kind, is_turning in zip(kinds, periods, strict=True)
    )
    p = {name: rng.uniform(0.2, 1.5, COUNT) for name in "abcd"}
    start = rng.uniform(-1.0, 1.0, (2, COUNT))
    tau = float(rng.uniform(0.3, 1.2)) if rng.random() < 0.3 else 0.0
    late = {**EQUATIONS, "z": EQUATIONS["z"] + " + a * x(t - tau)"}
    field = ergode.field_from_equations(
        late if tau else EQUATIONS, constants={"u": u, "v": v, "w": LAW}
    )
    exact = np.array([
        solved(u[i], v[i], {name: row[i] for name, row in p.items()}, start[:, i], tau)
        for i in range(COUNT)
    ])  # fmt: skip
    if not np.abs(exact).max() < 8.0:
        return []
    wrong = []
    gap = ZeroCrossing(above_late if tau else above, name="above")
    for name in methods or (str(one) for one in rng.choice(list(OPTIONS), 3, replace=False)):
        if tau and name not in WITH_DELAYS:
            continue
        options, allowed = OPTIONS[name]
        found = integrate(
            field, times=TIMES, initial={"x": start[0], "z": start[1]}, device=device,
            parameters={**p, "tau": tau} if tau else p, method=name.split()[0],
            events=[gap] if rng.random() < 0.5 else [], **options,
        )  # fmt: skip
        off = np.abs(found["state"].values - exact).max()
        if not off < allowed * (30 if tau else 1) or (found["status"] != Status.DONE).any():
            wrong.append(
                f"seed {seed}, {name}, {kinds}, periods {periods}, tau {tau}: {off:.1e} off, "
                f"status {found['status'].values}"
            )
    return wrong
