"""Indices that a function computes from time, state or parameters: they never leave their array."""

import math

import numpy as np
import pytest

import ergode
from ergode import Status
from ergode.trajectories import ZeroCrossing, integrate

FAILED = Status.NOT_FINITE, Status.STEP_TOO_SMALL
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def decay(i, t, y, p, c):
    row = int(p[1])
    last = 7
    if t > p[5]:
        last = 100_000
    total = y.u[int(p[0])] + y.u[c.follows[int(p[4])]] + y.u[last]
    return -(total + y.v[row, int(p[2])] + c.weights[int(p[3])])


def constant(i, j, t, y, p, c):
    return 0.0


DECAY = ergode.VectorField(
    component={"u": decay, "v": constant}, variables={"u": 8, "v": (3, 4)},
    parameters=["a", "b", "c", "d", "e", "f"],
    constants={"weights": np.zeros(5), "follows": np.arange(6)},
)  # fmt: skip
INSIDE = {"a": 7.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0, "f": 2.0}
LENGTHS = {"a": 8, "b": 3, "c": 4, "d": 5, "e": 6}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("precision", "method"), [("float64", "tsit5"), ("float32", "auto"), ("float64", "auto")]
)
def test_an_index_beyond_its_array_ends_the_trajectory(device, precision, method):
    """It read foreign memory, with the status DONE."""
    rows = [INSIDE, *({**INSIDE, name: -float(n)} for name, n in LENGTHS.items())]
    good = len(rows)
    for name, n in LENGTHS.items():
        rows += [{**INSIDE, name: float(k)} for k in (n, -n - 1, 40_000_000, -40_000_000)]
    rows.append({**INSIDE, "f": 0.5})
    with pytest.warns(ergode.FailureWarning):
        found = integrate(
            DECAY, times=[0.0, 1.0], initial={"u": 1.0, "v": 0.0}, device=device, method=method,
            precision=precision, parameters={name: [row[name] for row in rows] for name in INSIDE},
        )  # fmt: skip
    assert (found["status"][:good] == Status.DONE).all()
    np.testing.assert_allclose(found["u"][:good, -1], math.exp(-3.0), rtol=1e-4)
    assert np.isin(found["status"][good:], FAILED).all()
    assert np.isnan(found["u"][good:, -1]).all()


def moved(t, y, dy, p):
    for i in range(8):
        dy[i] = 0.0
    for i in range(8):
        dy[i + int(p[0])] -= y[i]


def late(t, y, p):
    return t - 0.5


def set_one(t, y, p):
    y[int(p[1])] = 2.0


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_written_beyond_an_array_is_no_number(device):
    field = ergode.VectorField(rhs=moved, variables=("x", 8), parameters=["shift", "place"])
    with pytest.warns(ergode.FailureWarning):
        found = integrate(
            field, times=[0.0, 1.0], initial={"x": 1.0}, device=device, method="tsit5",
            parameters={"shift": [0.0, -1.0, 1.0, 0.0], "place": [7.0, 0.0, 0.0, 8.0]},
            events=[ZeroCrossing(late, effect=set_one)],
        )  # fmt: skip
    assert (found["status"][:2] == Status.DONE).all()
    assert np.isin(found["status"][2:], FAILED).all()
    exact = np.full(8, math.exp(-1.0))
    exact[7] = 2.0 * math.exp(-0.5)
    np.testing.assert_allclose(found["x"][0, -1], exact, rtol=1e-5)


def test_other_indices_are_left_as_they_are():
    """They cost nothing: what is compiled is the function of the user."""

    def ring(i, t, y, p):
        n = y.size
        right = y[(i + 1) % n] if t < 1.0 else y[i - 1]
        for k in range(2):
            right += y[(i + k) % len(y)]
        return p[0] * right - y[i]

    field = ergode.VectorField(component=ring, variables=("x", 8), parameters=["a"])
    assert "_at_element" not in field.arrays.functions[0].__code__.co_names
