"""Backward differentiation formulas for fields of arrays: against known solutions and SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from stiff_fields import heat_or_wide, modes

import ergode
from ergode.trajectories import ZeroCrossing, integrate

TIMES = [0.0, 0.03, 0.1]


def mixed(n):
    return ergode.VectorField(component=heat_or_wide, variables=("x", n), parameters=["a", "reach"])


def heat(n, rates, **how):
    """Heat conduction with every rate."""
    usual = {"times": TIMES, "initial": {"x": modes(n, 0.0)}, "method": "bdf", "device": "cpu"}
    return integrate(mixed(n), parameters={"a": rates, "reach": 0.0}, **(usual | how))


@pytest.mark.parametrize("n", [1, 2, 33, 120, 700])
def test_diffusion_with_a_known_solution(n):
    """In a band beyond 50 unknowns, also of more than other kernels have room for."""
    rates = np.array([0.5, 1.0, 2.0])
    exact = np.array([[modes(n, D * t) for t in TIMES] for D in rates])
    errors = []
    for tolerance in (1e-4, 1e-8):
        found = heat(n, rates, rtol=tolerance, atol=tolerance)
        assert (found["status"] == ergode.Status.DONE).all()
        errors.append(np.abs(found["x"].values - exact).max())
        assert errors[-1] < 50 * tolerance
        assert (found["step_count"] < 25 + 10 / tolerance**0.2).all()
    assert errors[1] < max(1e-3 * errors[0], 1e-14)


def test_units_and_a_start_at_rest():
    """In units of 1e-9 every step is the same; zeros stay zeros."""
    one, other = (
        heat(120, 1.0, initial={"x": unit * modes(120, 0.0)}, rtol=1e-6, atol=1e-8 * unit)
        for unit in (1.0, 2.0**-30)
    )
    np.testing.assert_allclose(2.0**30 * other["x"], one["x"], rtol=1e-6, atol=1e-9)
    assert one.attrs["steps_taken"] == other.attrs["steps_taken"]
    assert (heat(120, 1.0, initial={"x": 0.0})["x"] == 0.0).all()


@pytest.mark.parametrize("reach", [2, 16, 40])
def test_pivots_in_a_band_and_in_a_full_matrix(reach):
    n, strengths = 90, np.array([40.0, 10.0])
    first = np.random.default_rng(reach).normal(size=n)
    found = integrate(mixed(n), times=[0.0, 0.4, 1.0], initial={"x": first}, device="cpu",
                      rtol=1e-8, atol=1e-9, parameters={"a": strengths, "reach": float(reach)},
                      method="bdf")  # fmt: skip
    for a, states in zip(strengths, found["x"].values, strict=True):
        matrix = np.diag(np.full(n, -1e-9)) + np.diag(np.full(n - reach, 0.3), -reach)
        for i in range(n):
            matrix[i, i + 1 if i % 2 == 0 else i - 1] += a if i % 2 == 0 else -a
        exact = [expm(t * matrix) @ first for t in (0.0, 0.4, 1.0)]
        np.testing.assert_allclose(states, exact, atol=2e-5)


@pytest.mark.exhaustive
def test_named_variables_with_a_feed_that_jumps_and_an_event():
    """What is fed decays, and is taken away at 0.8; a fast variable follows it."""
    feed = ergode.interpolant([0.0, 3.0], [1.0, 0.2], "steps")
    field = ergode.field_from_equations(
        {"a": "feed(t) - a", "b": "fast * (a - b)"}, constants={"feed": feed}
    )
    taken = ZeroCrossing(lambda t, y, p: y[0] - 0.8, direction=1, name="taken",
                         effect=lambda t, y, p: (0.1, y[1]))  # fmt: skip
    times, fast = np.array([0.0, 0.5, 1.5, 2.0, 2.9, 3.5, 6.0]), np.array([1e2, 1e4])
    found = integrate(field, times=times, initial={"a": 0.0, "b": 0.0}, events=[taken], record=2,
                      parameters={"fast": fast}, method="bdf", rtol=1e-8, atol=1e-10,
                      device="cpu")  # fmt: skip
    when = np.log(5.0)
    before = 1 - 0.9 * np.exp(when - 3.0)
    pieces = [(0.0, 1.0, -1.0), (when, 1.0, -0.9), (3.0, 0.2, before - 0.2)]
    assert (found["event_count"] == 1).all()
    np.testing.assert_allclose(found["event_time"][:, 0, 0], when, atol=1e-6)
    for k, t in enumerate(times[1:], 1):
        begin, level, part = next(one for one in reversed(pieces) if one[0] <= t)
        falls = part * np.exp(begin - t)
        np.testing.assert_allclose(found["state"][:, k, 0], level + falls, atol=1e-6)
        follows = level + falls * fast / (fast - 1)
        np.testing.assert_allclose(found["state"][:, k, 1], follows, atol=1e-6)


def left(i, t, y, p):
    """Of two arrays on a ring."""
    n = len(y.u)
    spread = y.u[i - 1] - 2 * y.u[i] + y.u[(i + 1) % n]
    return 1 + y.u[i] * y.u[i] * y.v[i] - 4.0 * y.u[i] + p[0] * n * n * spread


def right(i, t, y, p):
    n = len(y.u)
    spread = y.v[i - 1] - 2 * y.v[i] + y.v[(i + 1) % n]
    return 3.0 * y.u[i] - y.u[i] * y.u[i] * y.v[i] + p[0] * n * n * spread


@pytest.mark.exhaustive
def test_two_arrays_on_a_ring_agree_with_scipy():
    n, rates = 40, np.array([0.002, 0.02])
    field = ergode.VectorField(component={"u": left, "v": right}, variables={"u": n, "v": n},
                               parameters=["D"])  # fmt: skip
    first = {"u": 1 + 0.5 * np.sin(2 * np.pi * np.arange(n) / n), "v": np.full(n, 3.0)}
    found = integrate(field, times=[0, 2, 5], initial=first, parameters={"D": rates}, device="cpu",
                      method="bdf", rtol=1e-7, atol=1e-9, dense_output=True)  # fmt: skip
    when = np.array([0.7, 2.0, 4.9])
    inside = found.ergode.solution(when)
    for place, D in enumerate(rates):

        def whole(t, y, D=D):
            u, v = y.reshape(2, n)
            spread = [D * n * n * (np.roll(x, 1) - 2 * x + np.roll(x, -1)) for x in (u, v)]
            return np.concatenate(
                [1 + u * u * v - 4 * u + spread[0], 3 * u - u * u * v + spread[1]]
            )

        exact = solve_ivp(whole, (0, 5), np.concatenate([*first.values()]), "Radau", when,
                          rtol=1e-9, atol=1e-11).y  # fmt: skip
        states = np.concatenate([inside[name].values[place].T for name in "uv"])
        np.testing.assert_allclose(states, exact, rtol=2e-5, atol=1e-6)
    assert (found["step_count"] < 400).all()


def falls(t, y, dy, p):
    for i in range(len(y)):
        dy[i] = -y[i]


def test_what_is_refused():
    with pytest.raises(ergode.PlanError, match="chooses its steps and their order; leave step out"):
        heat(33, 1.0, step=0.01)
    with pytest.raises(ergode.PlanError, match="of more only those whose derivatives"):
        full = ergode.VectorField(rhs=falls, variables=("x", 300))
        integrate(full, times=[0.0, 1.0], initial={"x": 1.0}, method="bdf", device="cpu")
