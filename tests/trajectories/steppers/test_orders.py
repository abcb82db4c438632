"""One table of all methods: the order that each claims is observed, with delays and breaks.

The equation is w' = rate + first exp(w(t - long) - w) + second exp(w(t - short) - w): w is the
logarithm of a solution u of a linear equation, which is known exactly.  The history ends elsewhere
than where the trajectory begins, so the solution breaks at every sum of the delays.  Beside it is
x' = 4 cos(4 t) x^2, x = 1 / (2 - sin 4 t); w feels its error, so that the error of a method is
larger than that of the past.
"""

import math

import numpy as np
import pytest

import ergode
from ergode.trajectories.methods import METHODS

RATE, FIRST, SECOND, LONG, SHORT = -2.0, 1.5, 1.0, 1.0, 0.6


def logarithm(t, y, yd, p):
    growth = p[0] + p[1] * math.exp(yd[0] - y[0]) + p[2] * math.exp(yd[1] - y[0])
    return growth + y[1] - 1 / (2 - math.sin(4 * t)), 4 * math.cos(4 * t) * y[1] ** 2


def past(t):
    return math.log(1.0 + 0.5 * math.sin(3 * t)), 0.5


FIELD = ergode.VectorField(
    logarithm, ["w", "x"], ["rate", "first", "second", "long", "short"],
    [("w", "long"), ("w", "short")],
)  # fmt: skip
OPTIONS = {
    "initial": {"w": math.log(1.4), "x": 0.5}, "history": past, "device": "cpu",
    "parameters": {
        "rate": RATE, "first": FIRST, "second": SECOND, "long": LONG, "short": SHORT,
    },
}  # fmt: skip
END = 2.3
# By the order of a method: coarse steps of the short delay.
STEPS = {1: 192, 4: 96, 6: 12}


@pytest.fixture(scope="session")
def exact(linear):
    u = linear(RATE, FIRST, SECOND, LONG, SHORT)

    def at(t):
        return math.log(u.solution(t, 1.4, lambda s: 1.0 + 0.5 * np.sin(3 * s)))

    return at


@pytest.mark.parametrize("method", [
    name
    for name, one in METHODS.items()
    if not (one.scheme or one.stabilised or one.matrix_free or one.multistep or one.is_symplectic)
])  # fmt: skip
def test_observed_order(method, exact):
    order = min(METHODS[method].order, 6)  # the quintic's, of the past
    coarse, errors = STEPS.get(order, 48), []
    for count in (coarse, 2 * coarse):
        found = ergode.trajectories.integrate(
            FIELD, times=[0.0, END], method=method, step=SHORT / count, **OPTIONS
        )
        assert found.attrs["order"] == order
        errors.append(abs(float(found["state"][-1, 0]) - exact(END)))
    assert errors[1] > 1e-14  # not rounding
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
