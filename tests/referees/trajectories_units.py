"""A ball in other units and from other origins of time, and the ball in the first ones.

Units are powers of two, so that nothing but the engine's own constants can tell them apart.
"""

from __future__ import annotations

import math

import numpy as np

import ergode
from ergode.core.status import Status
from ergode.trajectories import ZeroCrossing, integrate

GRID = np.array([0.0, 0.11, 0.3, 0.4])
HEIGHTS = np.array([0.0, 0.0, 0.3, 1.0, 0.5, 0.0])
SPEEDS = np.array([-1.0, 1.0, 0.0, -2.0, 0.0, 3.0])


def pushed(t, y, p):
    s = (t - p[2]) / p[1]
    drag = 0.3 * y[1] * p[1]
    return y[1], (p[0] * (math.cos(3.0 * s) - 9.81) - drag) / (p[1] * p[1])


def pushed_one(i, t, y, p):
    s = (t - p[2]) / p[1]
    drag = 0.3 * y[1] * p[1]
    return y[1] if i == 0 else (p[0] * (math.cos(3.0 * s) - 9.81) - drag) / (p[1] * p[1])


def ground(t, y, p):
    return y[0]


def half(t, y, p):
    return y[0] - 0.5 * p[0]


def rebound(t, y, p):
    return 0.0, -0.7 * y[1]


def rebound_in_place(t, y, p):
    y[0] = 0.0
    y[1] = -0.7 * y[1]


NAMES = ["length", "duration", "origin"]
NAMED = ergode.VectorField(pushed, ["x", "v"], NAMES)
ARRAY = ergode.VectorField(component=pushed_one, variables=("y", 2), parameters=NAMES)
UNITS = [(0, 0, 0), (40, 0, 0), (-40, 0, 0), (0, 30, 0), (-20, -30, 0), (60, 50, 0), (0, 0, 1000),
         (10, -10, -3000)]  # fmt: skip


def fly(form, unit, device, options):
    """States in the first units [trajectory, time, variable], and the result."""
    length, duration = 2.0 ** unit[0], 2.0 ** unit[1]
    origin = unit[2] * duration
    start = np.array([length * HEIGHTS, length / duration * SPEEDS]).T
    if form == "array":
        field, initial = ARRAY, {"y": start}
        atol = {"y": np.array([1e-9 * length, 1e-9 * length / duration])}
    else:
        field, initial = NAMED, {"x": start[:, 0], "v": start[:, 1]}
        atol = {"x": 1e-9 * length, "v": 1e-9 * length / duration}
    if "step" in options:
        options = {**options, "step": options["step"] * duration}
    else:
        options = {**options, "atol": atol}
    found = integrate(
        field, times=origin + duration * GRID, initial=initial, device=device, record=30,
        parameters={"length": length, "duration": duration, "origin": origin},
        events=[
            ZeroCrossing(ground, -1, rebound_in_place if form == "array" else rebound),
            ZeroCrossing(half, 0),
        ],
        **options,
    )  # fmt: skip
    states = found["y" if form == "array" else "state"].values
    return states / [length, length / duration], found


def compare(form, device, options):
    """What is wrong in other units, in words."""
    first, known = fly(form, UNITS[0], device, options)
    wrong = []
    for unit in UNITS:
        here = f"{form}, {options}, units 2^{unit[0]}, 2^{unit[1]}, from {unit[2]}"
        states, found = fly(form, unit, device, options)
        if (found["status"] != Status.DONE).any():
            wrong.append(f"{here}: status {found['status'].values}")
            continue
        if (found["event_count"] != known["event_count"]).any():
            wrong.append(f"{here}: {found['event_count'].values.tolist()} events")
        error = np.abs(states - first).max()
        if error > 1e-6:
            wrong.append(f"{here}: states are {error:.1e} off")
    # A start on the ground that moves down has rebounded at once.
    if known["event_count"].values[0, 0] < 2 or known["event_time"].values[0, 0, 0] > 1e-12:
        wrong.append(f"{form}, {options}: the ground was missed at the first time")
    if known["event_count"].values[4].tolist() != [1, 1]:
        wrong.append(f"{form}, {options}: {known['event_count'].values[4]} from rest at a level")
    if first[..., 0].min() < -1e-6:
        wrong.append(f"{form}, {options}: a ball is below the ground")
    return wrong
