"""Every engine's every method, output and precision, on both devices, as a user calls it.

What a method refuses by name is refused on both devices alike. Epidemics have a file of their own
(`tests/epidemics/test_devices.py`), for they have most options.
"""

from importlib import import_module
from typing import get_args

import numpy as np
import pytest

import ergode

# The packages show the functions, so the modules are asked for by name.
density = import_module("ergode.density.methods")
kinetics = import_module("ergode.kinetics.methods")
stochastic = import_module("ergode.stochastic.simulate")
stochastic_methods = import_module("ergode.stochastic.methods")
trajectories = import_module("ergode.trajectories.integrate")
trajectory_methods = import_module("ergode.trajectories.methods")

pytestmark = pytest.mark.cuda


def on_both(call, **options):
    """What both devices return, or None where both refuse in the same words."""
    found = []
    for device in ("cpu", "cuda"):
        try:
            found.append(call(**options, device=device))
        except (ergode.PlanError, ergode.ModelError) as error:
            found.append(type(error))
    one, other = found
    assert isinstance(one, type) == isinstance(other, type), found
    if isinstance(one, type):
        return None
    assert other.attrs["device"].startswith("cuda")
    assert set(one.variables) == set(other.variables)
    return one, other


def agree(found, rtol, atol=0.0, most_different=0.0):
    """Every number of both results is the same, but for rounding."""
    one, other = found
    for name in one.data_vars:
        if name in ("step_count", "rejected_count"):  # rounding may turn a decision
            continue
        a, b = one[name].values, other[name].values
        assert a.shape == b.shape, name
        if not np.issubdtype(a.dtype, np.number):
            continue
        different = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        assert different.mean() <= most_different, name


# ---- reaction networks

NETWORK = ergode.ReactionNetwork(
    {"A": 40, "B": 10, "C": 0},
    [
        ergode.Reaction("A + B -> C", rate_constant=0.01),
        ergode.Reaction("C -> A + B", rate_constant=0.5),
        ergode.Reaction("A -> B", rate_constant=0.2),
        ergode.Reaction("0 -> A", rate_constant=3.0),
        ergode.Reaction("B -> 0", rate_constant=0.1),
    ],
)
OUTPUTS = {
    "first-passage": {"stop": "C > 5"},
    "histogram": {"bins": np.arange(0, 100, 5)},
}


@pytest.mark.parametrize("output", get_args(stochastic.Output))
@pytest.mark.parametrize("method", ["auto", *stochastic_methods.METHODS])
def test_reaction_networks(method, output):
    found = on_both(
        lambda **options: ergode.stochastic.simulate(NETWORK, **options),
        times=np.linspace(0, 5, 6), replicates=64, seed=1, method=method, output=output,
        **OUTPUTS.get(output, {}),
    )  # fmt: skip
    if found is None:
        return
    # Realizations are the same draw by draw; a last bit of a logarithm may turn one of them.
    if "time" in found[0].dims and output in ("trajectories", "final"):
        agree(found, 1e-9, 1e-9, most_different=0.02)
    for one in found:
        assert (one["status"].values < ergode.Status.NOT_RUN).all()
    if output == "statistics":
        means = [one["mean"].values for one in found]
        assert np.abs(means[0] - means[1]).max() < 0.5


# ---- vector fields


def lorenz(t, y, p):
    return p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]


def shaken(t, y, p):
    return 0.3, 0.2, 0.1


def section(t, y, p):
    return y[2] - 20.0


PLAIN = ergode.VectorField(lorenz, variables=["x", "y", "z"], parameters=["s", "r", "b"])
NOISY = ergode.VectorField(
    lorenz, variables=["x", "y", "z"], parameters=["s", "r", "b"], diffusion=shaken
)
VALUES = {"s": 10.0, "r": np.linspace(20, 30, 70), "b": 8 / 3}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("steps", ["step", "rtol"])
@pytest.mark.parametrize("method", ["auto", *trajectory_methods.METHODS])
def test_vector_fields(method, steps, precision):
    one = trajectory_methods.METHODS.get(method)
    if one is not None and (one.stabilised or one.matrix_free):
        pytest.skip("for variables that are arrays: test_arrays")
    noise = one is not None and one.scheme > 0
    options = {"step": 1 / 256} if steps == "step" else {"rtol": 1e-5}
    found = on_both(
        lambda **given: ergode.trajectories.integrate(NOISY if noise else PLAIN, **given),
        times=[0, 0.25, 0.5], initial={"x": 1.0, "y": 1.5, "z": 14.0}, parameters=VALUES,
        method=method, precision=precision, **options,
    )  # fmt: skip
    if found is not None:
        agree(found, 2e-2 if precision == "float32" else 1e-6, 1e-6)


@pytest.mark.parametrize("steps", [{"step": 1 / 64}, {"rtol": 1e-7}])
@pytest.mark.parametrize("method", ["rk4", "tsit5", "dop853", "rosenbrock23", "rodas5p"])
def test_delays_and_events(method, steps):
    field = ergode.field_from_equations({"x": "-x + 3 * sin(x(t - tau))"})
    found = on_both(
        lambda **given: ergode.trajectories.integrate(field, **given),
        times=[0, 1, 2, 4], initial={"x": 0.5}, parameters={"tau": np.linspace(0.5, 1, 40)},
        method=method, **steps,
    )  # fmt: skip
    if found is not None:
        # Where rounding turns a decision to reject a step, results differ by a tolerance.
        agree(found, 1e-6 if "step" in steps else 1e-4, 1e-8)
    found = on_both(
        lambda **given: ergode.trajectories.integrate(PLAIN, **given),
        times=[0, 1], initial={"x": 1.0, "y": 1.5, "z": 14.0}, parameters=VALUES, method=method,
        events=[trajectories.ZeroCrossing(section)], record=8, **steps,
    )  # fmt: skip
    if found is not None:
        agree(found, 1e-4, 1e-6)


# ---- kinetics


@pytest.mark.parametrize("method", ["auto", *kinetics.METHODS])
def test_kinetics(method):
    network = ergode.ReactionNetwork(
        {"A": 1, "B": 0, "C": 0},
        [
            ergode.Reaction("A -> B", rate_constant=0.04),
            ergode.Reaction("2 B -> B + C", rate_constant=3e3),
            ergode.Reaction("B + C -> A + C", rate_constant=1e2),
        ],
    )
    found = on_both(
        lambda **given: ergode.kinetics.integrate(network, **given),
        times=[0, 1e-3, 0.1, 10], initial={"A": np.linspace(0.5, 1, 40)}, method=method,
    )  # fmt: skip
    if found is not None:
        agree(found, 1e-3, 1e-6)


# ---- densities and particles


def spring(t, y, p):
    return y[1], -p[0] * y[0]


def position(y, t, p):
    return (y[0],)


FIELD = ergode.VectorField(spring, variables=["x", "v"], parameters=["k"])
FILTER = {
    "times": [0, 0.5, 1.0],
    "parameters": {"k": 2.0},
    "process_noise": [0.0, 0.2],
    "measurements": [ergode.Measurement(0.7, position, 0.9, 0.1)],
}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scheme", density.METHODS)
def test_densities(scheme, precision):
    given = FILTER if scheme in density.GRIDS else FILTER | {"process_noise": None}
    found = on_both(
        lambda **given: ergode.density.propagate(
            FIELD, ergode.Gaussian([1, 0], [0.1, 0.1]), **given
        ),
        width=0.1, scheme=scheme, precision=precision, **given,
    )  # fmt: skip
    one, other = found
    for name in ("mean", "covariance"):
        np.testing.assert_allclose(
            other[name].values, one[name].values, rtol=1e-3, atol=1e-4, err_msg=name
        )


def test_particles():
    one, other = on_both(
        lambda **given: ergode.particles.propagate(
            FIELD, ergode.Gaussian([1, 0], [0.1, 0.1]), **given
        ),
        count=2_000, seed=1, **FILTER,
    )  # fmt: skip
    np.testing.assert_allclose(other["mean"].values, one["mean"].values, rtol=1e-6, atol=1e-8)
