"""Tangent vectors as further arrays: kernels for a GPU on a host, against NumPy."""

import numpy as np
import pytest
from cuda_on_host import outcome_on_host
from scipy.integrate import solve_ivp

import ergode
from ergode.trajectories import ZeroCrossing
from ergode.trajectories.analysis.tangent_arrays import renewal, with_tangent_arrays

FORCE, WEIGHTS = 8.0, np.array([1.0, 0.5, 2.0, 1.5])


def across(y, i):
    """A function of an array, which has a tangent too."""
    return y[(i + 1) % len(y)] - y[i - 2]


def ring(i, t, y, p, c):
    return across(y, i) * y[i - 1] - c.weights[i] * y[i] + p[0]


def ring_in_place(t, y, dy, p, c):
    n = len(y)
    for i in range(n):
        dy[i] = -c.weights[i] * y[i] + p[0]
        dy[i] += across(y, i) * y[i - 1]


FORMS = {"component": ring, "rhs": ring_in_place}


def field_of(form):
    return ergode.VectorField(
        **{form: FORMS[form]}, variables=("x", 4), parameters=["F"], constants={"weights": WEIGHTS}
    )


def slopes(x):
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - WEIGHTS * x + FORCE


def jacobian(x):
    found = -np.diag(WEIGHTS)
    for i in range(4):
        found[i, (i + 1) % 4] += x[i - 1]
        found[i, i - 2] -= x[i - 1]
        found[i, i - 1] += x[(i + 1) % 4] - x[i - 2]
    return found


def flow(x, vectors, span, seeds):
    """State and tangent vectors [vector, unknown] after a span; `seeds` are those of the force."""

    def both(t, z):
        x, v = z[:4], z[4:].reshape(-1, 4)
        return np.concatenate([slopes(x), (v @ jacobian(x).T + seeds[:, None]).ravel()])

    z = np.concatenate([x, vectors.ravel()])
    z = solve_ivp(both, (0, span), z, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    return z[:4], z[4:].reshape(-1, 4)


@pytest.mark.parametrize("form", FORMS)
def test_vectors_and_their_renewal(form, monkeypatch):
    """Two vectors; with two renewals, growth and directions are those of a QR."""
    field, x = field_of(form), 3.0 + np.random.default_rng(0).normal(size=4)
    extended = with_tangent_arrays(field, 2, np.array([[0.0], [1.0]]), grows=True)
    due, orthonormal = renewal(field, 2)
    first = np.concatenate([x, np.eye(4)[:2].ravel(), [0.0, 0.0, 0.2]])
    given = {"rtol": 1e-6, "atol": 1e-7, "events": [ZeroCrossing(due, 1, orthonormal)]}
    out = outcome_on_host(
        "thread", monkeypatch, extended, "tsit5", np.array([0.0, 0.1, 0.5]), first[None],
        np.array([[FORCE], [0.2]]), given,
    )  # fmt: skip
    assert out.status[0] == 0 and out.hit_counts[0, 0] == 2
    seeds = np.array([0.0, 1.0])
    there, vectors = flow(x, np.eye(4)[:2], 0.1, seeds)
    np.testing.assert_allclose(out.states[1, :12, 0], [*there, *vectors.ravel()], atol=1e-4)
    vectors, growth = np.eye(4)[:2], np.zeros(2)
    for span in (0.2, 0.2, 0.1):
        if span == 0.2:
            x, vectors = flow(x, vectors, span, seeds)
            q, r = np.linalg.qr(vectors.T)
            vectors, growth = (q * np.sign(np.diag(r))).T, growth + np.log(np.abs(np.diag(r)))
        else:
            x, vectors = flow(x, vectors, span, seeds)
    last = out.states[2, :, 0]
    np.testing.assert_allclose(last[:4], x, atol=1e-3)
    np.testing.assert_allclose(last[4:12], vectors.ravel(), atol=1e-3)
    np.testing.assert_allclose(last[12:14], growth, atol=1e-4)
    assert last[14] == pytest.approx(0.6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", FORMS)
def test_ptx(form):
    from cuda_on_host import check_ptx

    field = field_of(form)
    due, orthonormal = renewal(field, 4)
    extended = with_tangent_arrays(field, 4, grows=True)
    check_ptx("thread" if form == "rhs" else "block", extended, "tsit5", 500, "float64",
              events=[ZeroCrossing(due, 1, orthonormal)])  # fmt: skip
