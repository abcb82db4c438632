"""Derivatives of functions along a tangent vector, against central differences, in Python."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import ergode
from ergode.trajectories.analysis.forward_mode import SEEDS, Rewriter, tangent_name


def ring(i, t, y, p):
    n = len(y)
    return (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + p[0]


def operations(i, t, y, p):
    a, b = y[i], y[i - 1]
    a = a * b / (2.0 + b * b) - -b
    a += 3.0 / a
    a -= b % 0.7
    a *= y[(i + 1) % len(y)]
    return a**3 + b**2.5 + p[0] ** a + (2 + b) ** a + 5 // 2 * b + 1 / b


def functions(i, t, y, p):
    x, z = y[i], y[i - 1]
    first = math.exp(x) + math.log(x) + math.log1p(x) + math.expm1(x) + math.sqrt(x) + math.sin(t)
    second = math.sin(x) * math.cos(z) + math.tan(x) + np.sinh(x) - np.cosh(z) + math.tanh(x * z)
    third = math.asin(x / 3) + math.acos(z / 3) + np.arctan(x) + abs(-x) + math.fabs(z)
    fourth = math.atan2(x, z) + math.hypot(x, z) + math.pow(x, z) + math.log10(x) + math.log2(z)
    least = min(x, z) + np.minimum(x, p[1])
    return first + second * third - fourth + least + max(x, z, 0.8) + int(x)


def loops(k, time, state, q):
    """Names of one's own; a loop, a branch, a conditional expression, a tuple."""
    total, most = 0.0, 0.0
    for j in range(len(state)):
        if j == k:
            continue
        gap = state[j] - state[k]
        if gap > 0.1:
            total += q[0] * math.sin(gap)
        else:
            total = total - gap * most
        most, total = total, most + gap
    while most > 2.0:
        most *= 0.5
    return total * most if total > 0 else -total


def coupling(a, b, strength):
    """Of numbers."""
    d = b - a
    return strength * math.tanh(d) * a


def whole(y, i):
    s = 0.0
    for j in range(len(y)):
        s += y[j] * y[i]
    return s


def helpers(i, t, y, p):
    return coupling(y[i], y[i - 1], p[1]) + coupling(1.0, 2.0, p[0]) + whole(y, i) + len(y)


def data(i, t, y, p, c):
    return c.table[i] * y[c.order[i]] ** 2 + c.rows[i] @ y + c.drive(t)


SINGLE = [ring, operations, functions, loops, helpers, data]
DATA = {
    "table": np.array([0.5, -1.0, 2.0, 0.3]), "order": np.array([3, 1, 0, 2]),
    "rows": np.random.default_rng(0).normal(size=(4, 4)),
    "drive": ergode.interpolant([0.0, 1.0, 2.0], [0.0, 1.0, 0.5]),
}  # fmt: skip


def difference(function, move):
    return (function(move) - function(-move)) / (2 * move)


@pytest.mark.parametrize("function", SINGLE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("seeded", [False, True])
def test_of_one_array(function, seeded):
    rng = np.random.default_rng(1)
    roles = ["i", "t", "y", "p", *(["c"] if function is data else [])]
    if seeded and function is helpers:
        pytest.skip("parameters that a function gets are numbers here")
    made = Rewriter(function, roles, "component of 'x'", "x", seeded)
    state, tangent = made.state(), made.tangent()
    y, p, v = rng.uniform(0.5, 1.5, 4), rng.uniform(0.5, 1.5, 2), rng.normal(size=(2, 4))
    seeds = rng.normal(size=(2, 2)) if seeded else np.zeros((2, 2))
    c = (SimpleNamespace(**DATA),) if function is data else ()
    arrays = SimpleNamespace(x=y, **{tangent_name("x"): v})
    more = SimpleNamespace(**DATA, **{SEEDS: seeds})
    for i in range(4):
        assert state(i, 0.7, arrays, p, more) == function(i, 0.7, y, p, *c)
        for m in range(2):
            expected = difference(
                lambda h, i=i, m=m: function(i, 0.7, y + h * v[m], p + h * seeds[m], *c), 1e-6
            )
            found = tangent(m, i, 0.7, arrays, p, more)
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def spread(i, j, t, y, p):
    row = y.u[i]
    return row[j] * y.v[j] + y.u[i - 1, j] * p[0] - y.u[i, j - 1] ** 2


def test_of_several_arrays():
    made = Rewriter(spread, ["i", "j", "t", "y", "p"], "component of 'u'", None, True)
    rng = np.random.default_rng(2)
    u, v, p = rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=1)
    du, dv, seeds = rng.normal(size=(1, 2, 3)), rng.normal(size=(1, 3)), rng.normal(size=(1, 1))
    arrays = SimpleNamespace(u=u, v=v, **{tangent_name("u"): du, tangent_name("v"): dv})
    found = made.tangent()(0, 1, 2, 0.0, arrays, p, SimpleNamespace(**{SEEDS: seeds}))

    def moved(h):
        there = SimpleNamespace(u=u + h * du[0], v=v + h * dv[0])
        return spread(1, 2, 0.0, there, p + h * seeds[0])

    assert found == pytest.approx(difference(moved, 1e-6), rel=1e-7)


def all_at_once(t, y, dy, p):
    n = len(y)
    for i in range(n):
        dy[i] = -y[i] * y[i]
    for i in range(n):
        flux = math.tanh(y[i] - y[i - 1])
        dy[i] -= p[0] * flux
        dy[i - 1] += p[0] * flux
    dy[0] = dy[0] * y[1]


def test_in_place():
    made = Rewriter(all_at_once, ["t", "y", "dy", "p"], "rhs", "x", True)
    rng = np.random.default_rng(3)
    y, v, p, seeds = rng.normal(size=5), rng.normal(size=(2, 5)), [0.7], rng.normal(size=(2, 1))
    arrays = SimpleNamespace(x=y, **{tangent_name("x"): v})
    slopes = SimpleNamespace(x=np.zeros(5), **{tangent_name("x"): np.zeros((2, 5))}, g=1.0)
    made.in_place(2, "{dy}.g = 0.0\n")(0.0, arrays, slopes, p, SimpleNamespace(**{SEEDS: seeds}))

    def of(y, p):
        found = np.zeros(5)
        all_at_once(0.0, y, found, p)
        return found

    np.testing.assert_array_equal(slopes.x, of(y, p))
    assert slopes.g == 0.0
    for m in range(2):
        expected = difference(lambda h, m=m: of(y + h * v[m], p + h * seeds[m]), 1e-6)
        np.testing.assert_allclose(getattr(slopes, tangent_name("x"))[m], expected, atol=1e-8)


def listed(i, t, y, p):
    return sum(y[j] for j in range(len(y)))


def at_a_state(i, t, y, p, c):
    return c.drive(y[i])


def gamma(i, t, y, p):
    return math.gamma(y[i])


@pytest.mark.parametrize("function", [listed, at_a_state, gamma])
def test_what_has_no_known_derivative_is_named(function):
    roles = ["i", "t", "y", "p", *(["c"] if function is at_a_state else [])]
    with pytest.raises(ergode.PlanError, match="component of 'x': the derivative of '.*y"):
        Rewriter(function, roles, "component of 'x'", "x", False).tangent()
