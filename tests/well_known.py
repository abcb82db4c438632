"""Problems of the literature that several files solve: Lorenz-96, and Robertson's reactions."""

import numpy as np

import ergode


def lorenz_96(i, t, y, p):
    n = len(y)
    return (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + p[0]


def lorenz_96_in_place(t, y, dy, p):
    n = len(y)
    for i in range(n):
        dy[i] = (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + p[0]


def lorenz_96_small(t, y, p):
    return (
        (y[1] - y[3]) * y[4] - y[0] + p[0],
        (y[2] - y[4]) * y[0] - y[1] + p[0],
        (y[3] - y[0]) * y[1] - y[2] + p[0],
        (y[4] - y[1]) * y[2] - y[3] + p[0],
        (y[0] - y[2]) * y[3] - y[4] + p[0],
    )


def lorenz_96_numpy(t, y, forcing=8.0):
    return (np.roll(y, -1) - np.roll(y, 2)) * np.roll(y, 1) - y + forcing


ROBERTSON = ergode.ReactionNetwork(
    {"A": 1, "B": 0, "C": 0},
    [
        ergode.Reaction("A -> B", rate_constant="a"),
        ergode.Reaction("2 B -> B + C", rate_constant=3e7),
        ergode.Reaction("B + C -> A + C", rate_constant=1e4),
    ],
    parameters={"a": 0.04},
)
