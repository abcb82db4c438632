"""Fields of one array with several dimensions, through every form of the kernels."""

import numpy as np
import pytest

import ergode
from ergode.trajectories import integrate


def in_a_plane(i, j, t, y, p):
    return p[0] * y[i, j] + 0.0 * y[i - 1, j]


def in_space(i, j, k, t, y, p):
    return p[0] * y[i, j, k] + 0.0 * y[i, j - 1, k]


def in_four(i, j, k, l, t, y, p):  # noqa: E741
    return p[0] * y[i, j, k, l]


def a_plane_in_place(t, y, dy, p):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            dy[i, j] = p[0] * y[i, j]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize(
    ("given", "shape", "method"),
    [
        ({"component": in_a_plane}, (6, 7), "tsit5"),
        ({"component": in_space}, (2, 3, 4), "rk4"),
        ({"rhs": a_plane_in_place}, (6, 7), "tsit5"),
        pytest.param({"component": in_four}, (2, 3, 1, 2), "rk4", marks=pytest.mark.exhaustive),
        ({"component": in_a_plane}, (8, 9), "rkc2"),
        ({"component": in_a_plane}, (8, 9), "rosenbrock23"),
    ],
)
def test_a_lone_array_of_more_dimensions(given, shape, method, device):
    """Of one trajectory and of several in lanes."""
    field = ergode.VectorField(**given, variables=("x", shape), parameters=["rate"])
    start = np.random.default_rng(1).normal(size=shape)
    for rates in ([-0.7], np.linspace(-1, 0.5, 9)):
        found = integrate(field, times=[0.0, 1.0], initial={"x": start}, method=method,
                          parameters={"rate": rates}, device=device,
                          **({"step": 0.02} if method == "rk4" else {}))  # fmt: skip
        exact = start * np.exp(np.reshape(rates, (-1, *(1 for _ in shape))))
        np.testing.assert_allclose(found["x"].values[:, -1], exact, atol=1e-4)
