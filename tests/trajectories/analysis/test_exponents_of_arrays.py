"""Lyapunov exponents of fields of arrays: a theorem, exact rates, and NumPy with a QR."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from well_known import lorenz_96, lorenz_96_in_place

import ergode
from ergode.core.compiler.syntax import function_from_text
from ergode.trajectories import lyapunov_spectrum
from ergode.trajectories.analysis.tangent_arrays import first_vectors

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


RINGS = {
    "component": {"component": lorenz_96}, "rhs": {"rhs": lorenz_96_in_place},
}  # fmt: skip


def ring(n, form="component"):
    return ergode.VectorField(**RINGS[form], variables=("x", n), parameters=["F"])


def slopes(x, force):
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + force


def jacobian(x):
    n = x.size
    found = -np.eye(n)
    for i in range(n):
        found[i, (i + 1) % n] += x[i - 1]
        found[i, i - 2] -= x[i - 1]
        found[i, i - 1] += x[(i + 1) % n] - x[i - 2]
    return found


def plain(x, force, count, interval, transient, duration):
    """Growth of tangent vectors that are orthonormalized after every interval."""
    n, q = x.size, first_vectors(count, x.size).T
    sums = np.zeros(count)

    def both(t, z):
        x, v = z[:n], z[n:].reshape(n, count)
        return np.concatenate([slopes(x, force), (jacobian(x) @ v).ravel()])

    for k in range(round((transient + duration) / interval)):
        z = np.concatenate([x, q.ravel()])
        z = solve_ivp(both, (0, interval), z, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
        x = z[:n]
        q, r = np.linalg.qr(z[n:].reshape(n, count))
        if k >= round(transient / interval):
            sums += np.log(np.abs(np.diag(r)))
    return sums / duration


def test_many_named_variables_are_one_array():
    """Code for each of their tangents takes minutes to compile; loops do not."""
    n = 24
    terms = (
        f"(y[{(i + 1) % n}] - y[{(i - 2) % n}]) * y[{(i - 1) % n}] - y[{i}] + p[0]"
        for i in range(n)
    )
    field = ergode.VectorField(
        function_from_text(f"def named(t, y, p):\n    return ({', '.join(terms)})\n", {}),
        [f"x{i}" for i in range(n)], ["F"],
    )  # fmt: skip
    start = 8.0 + np.random.default_rng(0).normal(size=n)
    found = lyapunov_spectrum(
        field, initial={f"x{i}": start[i] for i in range(n)}, parameters={"F": [6.0, 8.0]},
        count=2, interval=0.3, transient=0.6, duration=1.5, device="cpu",
    )  # fmt: skip
    assert found["exponent"].dims == ("trajectory", "exponent_number")
    assert found.attrs["model_digest"] == field.digest
    growth = plain(start, 8.0, 2, 0.3, 0.6, 1.5)
    np.testing.assert_allclose(found["exponent"].values[1], np.sort(growth)[::-1], atol=1e-5)


@pytest.mark.exhaustive
@DEVICES
@pytest.mark.parametrize("form", RINGS)
def test_a_short_run_is_that_of_numpy(form, device):
    """Whatever the interval, the growth is that of the first vectors."""
    start = 8.0 + np.random.default_rng(0).normal(size=(2, 6))
    forces = np.array([6.0, 8.0])
    found = lyapunov_spectrum(
        ring(6, form), initial={"x": start}, parameters={"F": forces}, count=4, interval=0.3,
        transient=0.6, duration=1.5, device=device,
    )  # fmt: skip
    assert found["exponent"].dims == ("trajectory", "exponent_number")
    for x, force, exponents in zip(start, forces, found["exponent"].values, strict=True):
        growth = plain(x, force, 4, 0.3, 0.6, 1.5)
        np.testing.assert_allclose(exponents, np.sort(growth)[::-1], atol=1e-5)


@pytest.mark.exhaustive
@DEVICES
def test_the_spectrum_of_lorenz_96(device):
    """The sum is the trace of the Jacobian, -40; the largest exponent for F = 8 is about 1.68."""
    start = 8.0 + np.random.default_rng(0).normal(size=40)
    found = lyapunov_spectrum(
        ring(40), initial={"x": start}, parameters={"F": 8.0}, duration=150.0, transient=10.0,
        rtol=1e-7, atol=1e-9, device=device,
    )["exponent"].values  # fmt: skip
    assert found.sum() == pytest.approx(-40.0, abs=1e-4)
    assert found[0] == pytest.approx(1.68, abs=0.12)
    assert np.sum(found > 0.03) in (12, 13, 14)


def coupled(i, j, t, y, p):
    return p[0] * y.u[i, j] + y.v[j]


def decaying(i, t, y, p):
    return -(1.0 + i) * y.v[i]


@pytest.mark.exhaustive
def test_two_arrays_with_known_rates():
    """u has the rate p[0] in two directions, which it leaves to themselves; v decays."""
    field = ergode.VectorField(
        component={"u": coupled, "v": decaying}, variables={"u": (1, 2), "v": 2}, parameters=["a"]
    )
    found = lyapunov_spectrum(
        field, initial={"u": 0.1, "v": 0.1}, parameters=ergode.grid(a=[0.5, -3.0]), duration=40.0,
        transient=20.0, device="cpu",
    )["exponent"]  # fmt: skip
    assert found.dims == ("a", "exponent_number")
    np.testing.assert_allclose(found.sel(a=0.5), [0.5, 0.5, -1.0, -2.0], atol=1e-4)
    np.testing.assert_allclose(found.sel(a=-3.0), [-1.0, -2.0, -3.0, -3.0], atol=1e-4)


def unknown(i, t, y, p):
    return math.gamma(2.0 + y[i] * y[i])


def late(i, t, y, yd, p):
    return -yd[0][i]


def triangular(i, j, k, t, y, p):
    """Rates -1 to -8, in a triangular matrix."""
    other = y[i, j, 0] if k > 0 else 0.0
    return p[0] * other - (1.0 + i + 2.0 * j + 4.0 * k) * y[i, j, k]


@pytest.mark.exhaustive
def test_an_array_of_three_dimensions_with_known_rates():
    field = ergode.VectorField(component=triangular, variables=("x", (2, 2, 2)), parameters=["a"])
    found = lyapunov_spectrum(field, initial={"x": 0.1}, parameters={"a": 0.7}, duration=40.0,
                              transient=20.0, device="cpu")["exponent"]  # fmt: skip
    np.testing.assert_allclose(found, -np.arange(1.0, 9.0), atol=1e-4)


def of_four(i, j, k, l, t, y, p):  # noqa: E741
    return -y[i, j, k, l]


def test_refusals():
    usual = {"duration": 1.0, "device": "cpu"}
    with pytest.raises(ergode.PlanError, match="the derivative of 'math.gamma"):
        lyapunov_spectrum(
            ergode.VectorField(component=unknown, variables=("x", 3)), initial={"x": 0.1}, **usual
        )
    field = ergode.VectorField(
        component=late, variables=("x", 3), parameters=["tau"], delays=[("x", "tau")]
    )
    with pytest.raises(ergode.PlanError, match="of arrays is for fields without delays"):
        lyapunov_spectrum(field, initial={"x": 0.1}, parameters={"tau": 1.0}, **usual)
    with pytest.raises(ergode.PlanError, match="one to three dimensions, and 'x' has 4"):
        lyapunov_spectrum(
            ergode.VectorField(component=of_four, variables=("x", (2, 2, 2, 1))),
            initial={"x": 0.1}, **usual,
        )  # fmt: skip
    with pytest.raises(ergode.ErgodeError, match="count is 9"):
        lyapunov_spectrum(ring(8), initial={"x": 0.1}, parameters={"F": 8.0}, count=9, **usual)
