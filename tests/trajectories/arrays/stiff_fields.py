"""Stiff fields of arrays, and what is known of them."""

import math

import numpy as np

import ergode


def heat(i, t, y, p):
    n = len(y)
    left = y[i - 1] if i > 0 else 0.0
    right = y[i + 1] if i < n - 1 else 0.0
    return p[0] * (n + 1) ** 2 * (left - 2 * y[i] + right)


def robertson(t, y, dy, p):
    made = 1e4 * y[1] * y[2]
    pair = 3e7 * y[1] * y[1]
    dy[0] = -0.04 * y[0] + made
    dy[1] = 0.04 * y[0] - made - pair
    dy[2] = pair


def wide(i, t, y, p):
    """Couplings on one side, `reach` places away, and a tiny diagonal: pivots are needed."""
    reach = p[1]
    far = y[i - int(reach)] if i >= reach else 0.0
    pair = y[i + 1] if i % 2 == 0 else -y[i - 1]
    return p[0] * pair + 0.3 * far - 1e-9 * y[i]


def root(i, t, y, p):
    return math.sqrt(y[i]) - y[i - 1]


def heat_or_wide(i, t, y, p):
    """One text for two fields: a kernel of both is compiled once."""
    n, first = len(y), p[0]
    if p[1] > 0.0:
        reach = int(p[1])
        far = y[i - reach] if i >= reach else 0.0
        pair = y[(i + 1) % n] if i % 2 == 0 else -y[i - 1]
        return first * pair + 0.3 * far - 1e-9 * y[i]
    left = y[i - 1] if i > 0 else 0.0
    right = y[i + 1] if i < n - 1 else 0.0
    return first * (n + 1) ** 2 * (left - 2 * y[i] + right)


def bar(n):
    return ergode.VectorField(component=heat, variables=("x", n), parameters=["D"])


def modes(n, t, wanted=(1, 3)):
    """The exact solution on the grid: a sum of sines that decay."""
    x, found = np.arange(1, n + 1) / (n + 1), 0.0
    for k in wanted:
        rate = -4 * (n + 1) ** 2 * np.sin(k * np.pi / 2 / (n + 1)) ** 2
        found = found + np.exp(rate * t) * np.sin(k * np.pi * x)
    return found
