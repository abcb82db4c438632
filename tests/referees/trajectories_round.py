"""Trajectories whose zeros, doses, delays and times are round numbers, with their exact solutions.

What is random never falls on the end of a step, on a time of the grid, or on where it begins; what
a user writes often does.
"""

from __future__ import annotations

import numpy as np

import ergode
from ergode.core.status import Status
from ergode.trajectories import ZeroCrossing, integrate

END, COUNT = 6.0, 64
GRID = np.unique([*np.arange(0.0, END + 0.25, 0.5), 0.3, 0.8, 3.3])
NAMES = ["slope", "level", "moment", "dose", "tau"]


def ramp(t, y, p):
    return p[0] + 0.0 * y[0], y[0], p[0] * t


def ramp_and_echo(t, y, yd, p):
    return p[0] + 0.0 * y[0], y[0], yd[0]


def level(t, y, p):
    return y[0] - p[1]


def due(t, y, p):
    return t - p[2]


def dosed(t, y, p):
    return y[0] + p[3], y[1], y[2]


def level_with_past(t, y, yd, p):
    return y[0] - p[1]


def due_with_past(t, y, yd, p):
    return t - p[2]


def dosed_with_past(t, y, yd, p):
    return y[0] + p[3], y[1], y[2]


PLAIN = ergode.VectorField(ramp, ["x", "area", "third"], NAMES)
DELAYED = ergode.VectorField(ramp_and_echo, ["x", "area", "third"], NAMES, [("x", "tau")])


def draw(rng):
    """Round parameters and initial values."""
    rows = {
        "slope": rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], COUNT),
        # Three are times of the grid, but for rounding.
        "moment": rng.choice(
            [-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, END, 0.1 + 0.2, 0.7 + 0.1, 1.1 + 2.2], COUNT
        ),
        "dose": rng.choice([-2.0, -0.5, 0.5, 1.0, 3.0], COUNT),
        "tau": np.full(COUNT, rng.choice([0.25, 0.3, 0.5, 1.0, 2.0])),
    }
    start = rng.choice([-3.0, -1.0, 0.0, 0.5, 2.0], COUNT)
    offset = rng.choice([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0], COUNT)
    rows["level"] = start + offset
    return rows, start


def exact(t, start, row, delayed):
    """The state at a time, of which a dose at this very time is no part yet."""
    slope, moment, dose, tau = (row[name] for name in ("slope", "moment", "dose", "tau"))

    def area(s):
        late = max(s - moment, 0.0) if moment >= 0.0 else 0.0
        return start * s + 0.5 * slope * max(s, 0.0) ** 2 + dose * late

    x = start + slope * t + (dose if 0.0 <= moment < t - 1e-12 else 0.0)
    third = start * tau + area(t - tau) if delayed else 0.5 * slope * t**2
    return [x, area(t), third]


def crossings(start, row):
    """How often the level is crossed, and about how many more or less rounding decides."""
    moment = row["moment"]
    x, t, count, unsure = start, 0.0, 0, 0
    if start == row["level"]:  # a start on the level is a crossing
        count, unsure = 1, int(moment == 0.0)
    doses = [moment] if 0.0 <= moment <= END else []
    for number, end in enumerate([*doses, END]):
        last = x + row["slope"] * (end - t)
        before, after = x - row["level"], last - row["level"]
        count += before * after < 0.0
        # A level is not left where it is met exactly, and a dose that leaps over it crosses it.
        unsure += abs(after) < 1e-12 and before != 0.0
        unsure += t > 0.0 and abs(before) < 1e-12
        if number < len(doses):
            leap = after * (after + row["dose"])
            count += leap < 0.0
            unsure += abs(leap) < 1e-12
        x, t = last + row["dose"], end
    return count, unsure


def compare(seed, device, delayed, options, allowed=1e-6):
    """What is wrong with round trajectories, in words."""
    rows, start = draw(np.random.default_rng(seed))
    functions = (
        (level_with_past, due_with_past, dosed_with_past) if delayed else (level, due, dosed)
    )
    events = [
        ZeroCrossing(functions[0], name="level"),
        ZeroCrossing(functions[1], effect=functions[2], name="dose"),
    ]
    found = integrate(
        DELAYED if delayed else PLAIN, times=GRID, parameters=rows, events=events, device=device,
        initial={"x": start, "area": 0.0, "third": 0.0}, **options,
    )  # fmt: skip
    wrong = []
    for i in range(COUNT):
        row = {name: float(values[i]) for name, values in rows.items()}
        here = f"seed {seed}, {options}, delayed {delayed}, from {start[i]}, {row}"
        if found["status"].values[i] != Status.DONE:
            wrong.append(f"{here}: status {found['status'].values[i]}")
            continue
        hits, doses = found["event_count"].values[i]
        number, unsure = crossings(float(start[i]), row)
        if abs(hits - number) > unsure:
            wrong.append(f"{here}: {hits:.0f} of {number} crossings")
        if doses != (0.0 <= row["moment"] <= END):
            wrong.append(f"{here}: {doses:.0f} doses")
            continue
        states = np.array([exact(t, float(start[i]), row, delayed) for t in GRID])
        error = np.abs(found["state"].values[i] - states)
        if error.max() > allowed:
            wrong.append(f"{here}: states are {error.max():.1e} off")
    return wrong
