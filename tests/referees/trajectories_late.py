"""Delays that vary quickly, and a history that jumps, against sums on a fine grid.

y' = -k y(t - lag) + v(t - lag), lag = 1 + size sin(rate t + phase), where the history of y and v
jumps twice.  Without feedback, k = 0, the slope is known at every time.
"""

from __future__ import annotations

import math

import numpy as np

import ergode
from ergode.core.status import Status
from ergode.trajectories import History, integrate

COUNT = 50_000


def late(t, y, yd, p):
    return yd[1] - p[3] * yd[0], 0.0


def quick(t, y, p):
    return 1.0 + p[1] * math.sin(p[0] * t + p[2])


def steps(t):
    return 0.5 if t < -1.0 else 1.0, -1.0 if t < -1.0 else (2.0 if t < -0.4 else 0.3)


LAG = ergode.Delay(quick, 0.05, 2.0)
FIELD = ergode.VectorField(
    late, ["y", "v"], ["rate", "size", "phase", "feedback"], [("y", LAG), ("v", LAG)]
)
METHODS = [{}, {"method": "rk4", "step": 0.01}, {"method": "dop853"},
           {"method": "tsit5", "step": 0.003}]  # fmt: skip


def exact(p):
    """y(1) by the midpoint rule; the history between two points is a line."""
    h, which = 1.0 / COUNT, np.arange(p["rate"].size)
    t = h * (np.arange(COUNT) + 0.5)[:, None]
    late = t - 1.0 - p["size"] * np.sin(p["rate"] * t + p["phase"])
    v = np.where(late < -1.0, -1.0, np.where(late < -0.4, 2.0, 0.3))
    past = np.where(late < -1.0, 0.5, 1.0)
    y = np.ones((COUNT + 1, which.size))
    cells = np.maximum(np.floor(late / h).astype(int), 0)
    for n in range(COUNT):
        j = cells[n]
        value = y[j, which] + (late[n] / h - j) * (y[j + 1, which] - y[j, which])
        own = np.where(late[n] < 0.0, past[n], value)
        y[n + 1] = y[n] + h * (v[n] - p["feedback"] * own)
    return y[-1]


def compare(seed, device, options):
    """What is wrong, in words."""
    rng = np.random.default_rng(seed)
    p = {
        "rate": rng.uniform(0.5, 25.0, 8), "size": rng.uniform(0.0, 0.9, 8),
        "phase": rng.uniform(0.0, 6.0, 8) * (rng.random(8) < 0.7),  # or begins on the jump
        "feedback": rng.uniform(0.0, 2.0, 8) * (rng.random(8) < 0.7),
    }  # fmt: skip
    found = integrate(
        FIELD, times=[0.0, 1.0], initial={"y": 1.0, "v": 0.3}, parameters=p, device=device,
        history=History(steps, jumps=[-1.0, -0.4]), **options,
    )  # fmt: skip
    off = np.abs(found["state"].values[:, -1, 0] - exact(p))
    return [
        f"seed {seed}, {options}, rate {p['rate'][i]}, size {p['size'][i]}, phase {p['phase'][i]}, "
        f"feedback {p['feedback'][i]}: {off[i]:.1e} off, status {int(found['status'][i])}"
        for i in range(8)
        if found["status"][i] != Status.DONE or not off[i] < 1e-3
    ]  # fmt: skip
