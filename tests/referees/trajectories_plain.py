"""Plain solutions: SciPy's DOP853, the method of steps, dense sampling, noise in NumPy."""

from __future__ import annotations

import bisect
import itertools

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

SAMPLES = 6001


class Path:
    """A solution in pieces, each with a dense output; `history` before it begins."""

    def __init__(self, history=None):
        self.begins, self.ends, self.pieces, self.history = [], [], [], history

    def add(self, begin, end, dense):
        self.begins.append(begin)
        self.ends.append(end)
        self.pieces.append(dense)

    def __call__(self, t):
        if t < 0.0 and self.history is not None:
            return np.array(self.history(t))
        place = min(max(bisect.bisect_right(self.begins, t) - 1, 0), len(self.pieces) - 1)
        return self.pieces[place](min(max(t, self.begins[place]), self.ends[place]))


def solve(function, parameters, start, end, delays=(), history=None, kick=None, tolerance=1e-10):
    """The solution from `start` at 0: by the method of steps where there are delays.

    With `kick`, a rise of variable 0 through `kick[0]` lowers it by `kick[1]`.
    Returns the path and the times of the kicks.
    """
    path = Path(history)
    places = goals(delays, end)
    t, y, kicks = 0.0, np.array(start, float), []
    now = [0.0]

    def past(j, k):
        return path(now[0] - delays[k])[j]

    def slope(s, state):
        now[0] = s
        return function(s, state, parameters, past)

    stops = None
    if kick is not None:

        def stops(s, state):
            return state[0] - kick[0]

        stops.terminal, stops.direction = True, 1.0
    breaks = [0.0]  # what is read a delay later is not smooth there
    while t < end * (1 - 1e-12):
        goal = min(g for g in places if g > t * (1 + 1e-12) + 1e-12)
        if kick is not None and delays:
            later = [b + tau for b in breaks for tau in delays if b + tau > t + 1e-12]
            goal = min([goal, *later])
        found = solve_ivp(
            slope, (t, goal), y, method="DOP853", rtol=tolerance, atol=1e-3 * tolerance,
            dense_output=True, events=stops, max_step=0.05 if kick is not None else np.inf,
        )  # fmt: skip
        path.add(t, found.t[-1], found.sol)
        y, t = found.y[:, -1].copy(), found.t[-1]
        if kick is not None and found.status == 1:
            kicks.append(t)
            breaks.append(t)
            y[0] -= kick[1]
    return path, kicks


def goals(delays, end, most=6):
    """Where the solution is not smooth, and at least as often as the shortest delay.

    `most` is the largest number of delays in a sum.
    """
    found = {end}
    for orders in itertools.product(range(most + 1), repeat=len(delays)):
        total = sum(n * tau for n, tau in zip(orders, delays, strict=True))
        if sum(orders) <= most and 0.0 < total < end:
            found.add(total)
    if delays:
        found |= set(np.arange(1, int(end / min(delays)) + 1) * min(delays) * (1 - 1e-9))
    return sorted(g for g in found if g <= end)


def crossings(gap, end, values=None):
    """Times and directions of zeros of `gap(t)`, and how near to zero it turns round elsewhere.

    `values` are those at `SAMPLES` times, if they are known.
    """
    times = np.linspace(0.0, end, SAMPLES)
    values = np.array([gap(t) for t in times]) if values is None else values
    near = [abs(values[0]), abs(values[-1])]
    found = []
    inner = np.abs(values[1:-1])
    turns = np.flatnonzero((inner <= np.abs(values[:-2])) & (inner <= np.abs(values[2:]))) + 1
    for i in turns:
        same = np.sign(values[i - 1]) == np.sign(values[i]) == np.sign(values[i + 1])
        if same:
            near.append(abs(values[i]))
    tops = np.flatnonzero(np.diff(values[:-1]) * np.diff(values[1:]) <= 0) + 1
    near += list(np.abs(values[tops]))
    for i in np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0):
        root = brentq(gap, times[i], times[i + 1], xtol=1e-13)
        found.append((root, 1 if values[i] < 0 else -1))
    return found, min(near)


def noisy_path(drift, diffusion, parameters, start, steps, h, scheme):
    """Euler-Maruyama or Milstein over given increments [step, variable, trajectory]."""
    y = np.array(start, float)
    path = [y.copy()]
    for n, w in enumerate(steps):
        t = n * h
        f = np.array(np.broadcast_arrays(*drift(t, y, parameters), y[0])[:-1])
        g = np.array(np.broadcast_arrays(*diffusion(t, y, parameters), y[0])[:-1])
        following = y + h * f + g * w
        if scheme == "milstein":
            small = 1e-5
            for i in range(len(y)):  # noise of its own variable alone
                up = y.copy()
                up[i] += small
                rise = (np.broadcast_to(diffusion(t, up, parameters)[i], y[0].shape) - g[i]) / small
                following[i] += 0.5 * g[i] * rise * (w[i] ** 2 - h)
        y = following
        path.append(y.copy())
    return np.array(path)
