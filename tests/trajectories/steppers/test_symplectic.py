"""Symplectic methods: orders, what they conserve, and for which equations they are."""

import math

import numpy as np
import pytest

import ergode
from ergode.trajectories import Maximum, integrate
from ergode.trajectories.adaptive.bindings import bindings_of
from ergode.trajectories.adaptive.outcome import control_of
from ergode.trajectories.methods import METHODS
from ergode.trajectories.steppers.derivatives import separated

NAMES = [name for name, one in METHODS.items() if one.is_symplectic]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def kepler(t, y, p):
    r3 = (y[0] * y[0] + y[2] * y[2]) ** 1.5
    return y[1], -y[0] / r3, y[3], -y[2] / r3


def driven(t, y, p):
    return -math.sin(y[1]) + p[0] * math.cos(2.0 * t), 0.5 * y[0] + 0.1 * y[0] ** 3


ORBIT = ergode.VectorField(kepler, ["x", "u", "y", "v"])
DRIVEN = ergode.VectorField(driven, ["momentum", "angle"], ["push"])
PERIOD, ECCENTRIC = 2 * math.pi, 0.3
START = {
    "x": 1 - ECCENTRIC, "y": 0.0, "u": 0.0, "v": math.sqrt((1 + ECCENTRIC) / (1 - ECCENTRIC)),
}  # fmt: skip


def orbit(method, steps, periods=1.0, **options):
    end = periods * PERIOD
    common = {"times": [0.0, end], "initial": START, "device": "cpu"}
    size = abs(end) / steps * (1 + 1e-12)
    return integrate(ORBIT, method=method, step=size, **{**common, **options})


def energy(state):
    x, u, y, v = np.moveaxis(np.asarray(state), -1, 0)
    return 0.5 * (u * u + v * v) - 1.0 / np.hypot(x, y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("watched", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("method", NAMES)
def test_order(method, watched, device):
    """An orbit closes; both engines for steps of one size."""
    order = METHODS[method].order
    steps = {2: (150, 300), 4: (80, 160), 6: (60, 120), 8: (24, 48)}[order]
    options = {"observables": [Maximum("x")]} if watched else {}
    errors = [
        np.abs(np.diff(orbit(method, n, device=device, **options)["state"].values, axis=0)).max()
        for n in steps
    ]
    assert abs(math.log2(errors[0] / errors[1]) - order) < 0.15


@pytest.mark.parametrize("method", NAMES)
def test_order_with_a_force_that_depends_on_time(method):
    """The first variable is the momentum: its slope depends on time."""
    order = METHODS[method].order
    common = {
        "times": [0.5, 4.5], "initial": {"momentum": 1.0, "angle": 0.3},
        "parameters": {"push": 0.7}, "device": "cpu",
    }  # fmt: skip
    exact = integrate(DRIVEN, method="dop853", rtol=1e-13, atol=1e-14, **common)["state"][-1]
    counts = {2: (80, 160), 4: (40, 80), 6: (32, 64), 8: (16, 32)}[order]
    errors = [
        float(np.abs(integrate(DRIVEN, method=method, step=4.0 / n, **common)["state"][-1] - exact)
              .max())
        for n in counts
    ]  # fmt: skip
    assert abs(math.log2(errors[0] / errors[1]) - order) < 0.25


@pytest.mark.parametrize(("method", "bound"), [("verlet", 3e-3), ("kahan-li6", 1e-7)])
def test_the_energy_error_does_not_grow(method, bound):
    times = np.linspace(0.0, 2000 * PERIOD, 2001)
    found = orbit(method, 2000 * 100, 2000, times=times)
    error = np.abs(energy(found["state"]) / energy(found["state"][0]) - 1.0)
    assert error[:1000].max() < bound
    assert error[1000:].max() < 1.5 * error[:1000].max() + 1e-12
    drifting = np.abs(energy(orbit("rk4", 2000 * 100, 2000)["state"]) / -0.5 - 1.0)
    assert drifting[-1] > 3 * error.max() or method == "verlet"


def test_the_symplectic_form_is_conserved():
    """M^T J M = J for the derivative M of a step, by differences of order 4."""
    small = 1e-3
    offsets = np.array([k * small for k in (-2, -1, 1, 2)])
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / (12 * small)
    names = ["x", "u", "y", "v"]
    columns = []
    for name in names:
        start = {**START, name: START[name] + offsets}
        found = integrate(
            ORBIT, times=[0.0, 2.0], initial=start, method="kahan-li6", step=0.2, device="cpu"
        )
        columns.append(weights @ found["state"].values[:, -1])
    derivative = np.array(columns).T
    form = np.array([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]])
    # The differences have an error of 1e-9; RK4 with this step misses the form by 1e-3.
    np.testing.assert_allclose(derivative.T @ form @ derivative, form, atol=1e-6)


def test_the_way_back_is_the_way():
    forth = orbit("kahan-li6", 40)["state"].values
    end = dict(zip(["x", "u", "y", "v"], forth[-1], strict=True))
    back = orbit("kahan-li6", 40, times=[PERIOD, 0.0], initial=end)["state"].values
    np.testing.assert_allclose(back[-1], forth[0], atol=1e-12)


def _damped(t, y, p):
    return y[1], -y[0] - 0.1 * y[1]


def _three(t, y, p):
    return y[1], y[2], y[0]


def _both_timed(t, y, p):
    return y[1] * math.cos(t), -y[0] + math.sin(t)


def _branching(t, y, p):
    if y[1] > 0.0:
        return y[1], -y[0]
    return 2.0 * y[1], -y[0]


def test_positions_are_told_from_momenta():
    assert separated(ORBIT) == (True, False, True, False)
    assert separated(DRIVEN) == (False, True)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (ergode.VectorField(_damped, ["x", "v"]), "the derivative of 'v' depends on 'v' itself"),
        (ergode.VectorField(_three, ["a", "b", "c"]), "depend on each other and on a third"),
        (ergode.VectorField(_both_timed, ["x", "v"]), "both positions and momenta depend on time"),
        (ergode.VectorField(_branching, ["x", "v"]), "depend"),
        (
            ergode.VectorField(
                lambda t, y, yd, p: (y[1], -yd[0]), ["x", "v"], ["tau"], delays=[("x", "tau")]
            ),
            "does not support delays",
        ),
        (
            ergode.VectorField(
                lambda t, y, p: (y[1], -y[0]), ["x", "v"], diffusion=lambda t, y, p: (0.0, 0.1)
            ),
            "for equations without noise",
        ),
        (ergode.VectorField(component=lambda i, t, y, p: -y[i], variables=("x", 4)), "arrays"),
    ],
)
def test_refusals(field, message):
    start = dict.fromkeys(field.variables, 1.0)
    parameters = dict.fromkeys(field.parameters, 1.0)
    with pytest.raises(ergode.PlanError, match=message):
        integrate(
            field, times=[0, 1], initial=start, parameters=parameters, method="verlet", step=0.1,
            device="cpu",
        )  # fmt: skip


def test_cuda_kernels_compile(compiles_to_registers):
    control = control_of({"observables": [Maximum("x")], "step": 0.1})
    compiles_to_registers(bindings_of(ORBIT, METHODS["verlet"], control, "float32"), "float32")
