"""Rosenbrock methods for fields of arrays: against SciPy, orders, patterns and refusals."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.sparse import csc_array
from stiff_fields import bar, modes, robertson, root, wide

import ergode
from ergode.trajectories import integrate
from ergode.trajectories.arrays.sparsity import colours_of, pattern_of


def around(x, i, j):
    rows, columns = x.shape
    return x[i - 1, j] + x[(i + 1) % rows, j] + x[i, max(j - 1, 0)] + x[i, min(j + 1, columns - 1)]


def fast(i, j, t, y, p):
    return 20 * (around(y.u, i, j) - 4 * y.u[i, j]) + 1e3 * (y.v[i, j] - y.u[i, j] ** 3)


def slow(i, j, t, y, p):
    return 0.1 * (around(y.v, i, j) - 4 * y.v[i, j]) - y.u[i, j] + math.cos(t)


def front(i, t, y, p):
    n, far = len(y), 0.0
    if y[i] > 0.2:  # nothing is, at the first time
        far = 300.0 * (y[(i + 7) % n] - y[i])
    return p[0] * (y[(i + 1) % n] - y[i]) + far + 1.0 - 0.3 * y[i]


def driven(i, t, y, p):
    return 1e5 * (math.cos(t - p[0]) - y[i]) + y[i - 1] - y[i]


@pytest.mark.parametrize("n", [1, 2, 33, 200, 1_000])
@pytest.mark.parametrize("method", ["rosenbrock23", "rodas5p"])
def test_diffusion_with_a_known_solution(n, method):
    if n < 3:
        start, rates = np.ones(n), {1: -8.0, 2: -9.0}
        exact = [start * np.exp(rates[n] * t) for t in (0.0, 0.03, 0.1)]
    else:
        exact = [modes(n, t) for t in (0.0, 0.03, 0.1)]
    found = integrate(bar(n), times=[0.0, 0.03, 0.1], initial={"x": exact[0]}, method=method,
                      parameters={"D": 1.0}, rtol=1e-6, atol=1e-6, device="cpu")  # fmt: skip
    np.testing.assert_allclose(found["x"].values, exact, atol=5e-5)
    assert found.attrs["steps_taken"] < (400 if method == "rosenbrock23" else 60)


def shuffled_heat(i, t, y, p, c):
    """A chain whose neighbours are far apart in the array: its band has to be found."""
    k, n = c.place[i], len(y)
    left = y[c.order[k - 1]] if k > 0 else 0.0
    right = y[c.order[k + 1]] if k < n - 1 else 0.0
    return (n + 1) ** 2 * (left - 2 * y[i] + right)


def test_a_chain_in_any_order():
    rng, n, times = np.random.default_rng(4), 300, [0.0, 0.03, 0.1]
    order = rng.permutation(n)
    field = ergode.VectorField(component=shuffled_heat, variables=("x", n),
                               constants={"order": order, "place": np.argsort(order)})  # fmt: skip
    exact = np.array([modes(n, t)[np.argsort(order)] for t in times])
    found = integrate(field, times=times, initial={"x": exact[0]}, method="rodas5p",
                      rtol=1e-6, atol=1e-6, device="cpu")  # fmt: skip
    np.testing.assert_allclose(found["x"].values, exact, atol=5e-5)


@pytest.mark.parametrize("reach", [2, 16, 17, 40])
def test_bands_of_every_width(reach):
    """Around the width from which a matrix is not banded; the solution is a matrix exponential."""
    n = 90
    matrix = np.diag(np.full(n, -1e-9)) + np.diag(np.full(n - reach, 0.3), -reach)
    for i in range(n):
        matrix[i, i + 1 if i % 2 == 0 else i - 1] += 40.0 if i % 2 == 0 else -40.0
    first = np.random.default_rng(reach).normal(size=n)
    field = ergode.VectorField(component=wide, variables=("x", n), parameters=["a", "reach"])
    found = integrate(field, times=[0.0, 0.4, 1.0], initial={"x": first}, device="cpu",
                      rtol=1e-7, atol=1e-8, parameters={"a": 40.0, "reach": reach},
                      method="rodas5p")  # fmt: skip
    exact = [expm(t * matrix) @ first for t in (0.0, 0.4, 1.0)]
    np.testing.assert_allclose(found["x"].values, exact, atol=5e-6)


def test_robertson_agrees_with_scipy():
    def whole(t, y):
        dy = np.empty(3)
        robertson(t, y, dy, ())
        return dy

    field, times = ergode.VectorField(rhs=robertson, variables=("y", 3)), [0.0, 40.0, 1e5]
    exact = solve_ivp(whole, (0.0, 1e5), [1.0, 0.0, 0.0], "Radau", times, rtol=1e-10,
                      atol=1e-13).y.T  # fmt: skip
    found = integrate(field, times=times, initial={"y": [1.0, 0.0, 0.0]}, method="rodas5p",
                      device="cpu", rtol=1e-6, atol=1e-10)  # fmt: skip
    np.testing.assert_allclose(found["y"].values, exact, rtol=2e-4, atol=1e-9)
    assert found.attrs["steps_taken"] < 2_000


@pytest.mark.parametrize("shape", [(5, 7), (1, 1)])
def test_two_arrays_of_two_dimensions_agree_with_scipy(shape):
    def spread(x):
        wide = np.pad(x, ((0, 0), (1, 1)), mode="edge")
        return np.roll(x, 1, 0) + np.roll(x, -1, 0) + wide[:, :-2] + wide[:, 2:] - 4 * x

    def whole(t, y):
        u, v = y.reshape(2, *shape)
        du = 20 * spread(u) + 1e3 * (v - u**3)
        return np.concatenate([du.ravel(), (0.1 * spread(v) - u + np.cos(t)).ravel()])

    field = ergode.VectorField(component={"u": fast, "v": slow},
                               variables={"u": shape, "v": shape})  # fmt: skip
    first = np.random.default_rng(3).normal(size=(2, *shape))
    exact = solve_ivp(whole, (0.0, 1.0), first.ravel(), "LSODA", [0.3, 1.0], rtol=1e-8,
                      atol=1e-9).y.T  # fmt: skip
    found = integrate(field, times=[0.0, 0.3, 1.0], initial=dict(zip("uv", first, strict=True)),
                      device="cpu", method="rodas5p", rtol=1e-6, atol=1e-8)  # fmt: skip
    states = np.stack([found[name].values[1:].reshape(2, -1) for name in "uv"], axis=1)
    np.testing.assert_allclose(states.reshape(2, -1), exact, atol=2e-5)


def test_a_branch_that_reads_more_later():
    """The pattern of the first state lacks a stiff coupling; without it there are 930 steps."""

    def whole(t, y):
        far = np.where(y > 0.2, 300 * (np.roll(y, -7) - y), 0.0)
        return 5 * (np.roll(y, -1) - y) + far + 1 - 0.3 * y

    field = ergode.VectorField(component=front, variables=("x", 120), parameters=["D"])
    first = 0.01 * np.sin(np.arange(120)) ** 2
    exact = solve_ivp(whole, (0.0, 3.0), first, "LSODA", [1.0, 3.0], rtol=1e-8, atol=1e-10,
                      max_step=0.01).y.T  # fmt: skip
    found = integrate(field, times=[0.0, 1.0, 3.0], initial={"x": first}, method="rosenbrock23",
                      parameters={"D": 5.0}, rtol=1e-4, atol=1e-4, device="cpu")  # fmt: skip
    np.testing.assert_allclose(found["x"].values[1:], exact, atol=1e-3)
    assert found.attrs["steps_taken"] < 100


def test_a_clock_that_begins_late():
    """The derivative by time of a step is a difference, and times are coarse far from zero."""
    field = ergode.VectorField(component=driven, variables=("x", 60), parameters=["begin"])
    found = [
        integrate(field, times=[begin, begin + 2], initial={"x": 0.0}, method="rodas5p",
                  parameters={"begin": begin}, rtol=1e-5, atol=1e-5, device="cpu")
        for begin in (0.0, 1e6)
    ]  # fmt: skip
    for one in found:
        np.testing.assert_allclose(one["x"].values[-1], math.cos(2), atol=5e-5)
    steps = [one.attrs["steps_taken"] for one in found]
    assert steps[1] <= 1.2 * steps[0] + 5


def test_a_derivative_that_is_no_number_ends_its_trajectory():
    field = ergode.VectorField(component=root, variables=("x", 3_000))
    for first in (-1.0, np.linspace(0.1, 0.2, 3_000)):  # at once, and on the way
        with pytest.warns(ergode.FailureWarning):
            found = integrate(field, times=[0.0, 9.0], initial={"x": first}, method="rodas5p",
                              device="cpu")  # fmt: skip
        assert found["status"].item() in (ergode.Status.NOT_FINITE, ergode.Status.STEP_TOO_SMALL)


def test_the_error_follows_the_tolerance():
    errors = []
    for tolerance in (1e-4, 1e-7):
        found = integrate(bar(40), times=[0.0, 0.1], initial={"x": modes(40, 0.0)}, device="cpu",
                          parameters={"D": 1.0}, rtol=tolerance, atol=tolerance,
                          method="rodas5p")  # fmt: skip
        errors.append(np.abs(found["x"].values[-1] - modes(40, 0.1)).max() / tolerance)
    assert max(errors) < 10


def test_patterns_and_colours():
    """Every block of a known pattern is found, and no row has two columns of a colour."""
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 17, 300):
        known = (rng.random((n, n)) < 2 / n) | np.eye(n, dtype=bool)

        def probe(edges, firsts, rows, known=known, n=n):
            blocks = np.searchsorted(firsts, np.arange(rows.size), side="right") - 1
            return np.array([known[i, edges[b] : edges[b + 1]].any()
                             for i, b in zip(rows, blocks, strict=True)])  # fmt: skip

        pattern = pattern_of(n, probe)
        np.testing.assert_array_equal(pattern.toarray() > 0, known)
        colours = colours_of(csc_array(pattern))
        for row in known:
            assert np.unique(colours[row]).size == row.sum()


def following(i, t, y, p):
    return -p[0] * (y[i] - math.cos(t + i)) - math.sin(t + i)


@pytest.mark.parametrize("method", ["rodas5p", "rodas5p-krylov"])
def test_what_follows_is_right_within_steps(method):
    field = ergode.VectorField(component=following, variables=("x", 3), parameters=["rate"])
    times = np.linspace(0.0, 10.0, 31)
    found = integrate(
        field, times=times, initial={"x": np.cos(np.arange(3.0))}, parameters={"rate": 1e6},
        method=method, rtol=1e-6, atol=1e-8, device="cpu",
    )  # fmt: skip
    np.testing.assert_allclose(found["x"], np.cos(times[:, None] + np.arange(3)), atol=1e-5)
    assert found.attrs["steps_taken"] < 130
