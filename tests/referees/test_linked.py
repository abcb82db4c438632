"""Models linked into a kernel, against kernels into which they are written: equal to the last bit.

The generator writes what a user may write in a function.
"""

import math
import random

import numpy as np
import pytest
from random_fields import random_field

import ergode
from ergode.core import kernels
from ergode.trajectories import Maximum, Mean, ZeroCrossing, integrate

SIZE = 3
TIMES = [0.0, 0.4, 1.0, 2.5]
ADAPTIVE = {"rtol": 1e-5, "atol": 1e-7}


def height(t, y, p):
    return y[0] - 0.3


def turn(t, y, p):
    return 0.5 * y[0], -y[1], y[2] + p[0]


RUNS = {
    "rk4": {"method": "rk4", "step": 0.02},
    "tsit5": {"method": "tsit5", **ADAPTIVE},
    "dop853": {"method": "dop853", **ADAPTIVE},
    "halved steps": {"method": "rk4", **ADAPTIVE},
    "every step": {"method": "tsit5", "dense_output": True, "max_step": 0.25, **ADAPTIVE},
    "rodas5p": {"method": "rodas5p", **ADAPTIVE},
    "radau5": {"method": "radau5", **ADAPTIVE},
    "observables": {"method": "rk4", "step": 0.02, "observables": [Maximum("u"), Mean("v")]},
    "events": {"method": "tsit5", "events": [ZeroCrossing(height, effect=turn)], **ADAPTIVE},
}


def equal_bits(one, other):
    """Where two arrays are equal to the last bit; any two NaNs are."""
    kind = f"u{one.itemsize}"
    return (one.view(kind) == other.view(kind)) | ((one != one) & (other != other))


@pytest.fixture
def compare(monkeypatch):
    """Makes a call with linked kernels and with kernels of one piece, and compares the results."""

    def both(call, text=""):
        linked = call()
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "_links", lambda target: False)
            patched.setattr(kernels, "_COMPILED", {})
            whole = call()
        for name, values in whole.data_vars.items():
            other = linked[name].values
            same = (
                equal_bits(values.values, other)
                if values.dtype.kind == "f"
                else (values.values == other)
            )
            assert np.all(same), f"{name} differs\n{text}"

    return both


def check_field(compare, seed, precision, **options):
    """A random field."""
    function, text = random_field(random.Random(seed), SIZE, tame=True)
    field = ergode.VectorField(function, variables=["u", "v", "w"], parameters=["k", "m"])
    values = np.random.default_rng(seed).normal(size=(5, 150))
    rows = dict(zip("uvwkm", values, strict=True))
    compare(
        lambda: integrate(
            field, times=TIMES, initial={name: rows[name] for name in "uvw"},
            parameters={name: rows[name] for name in "km"}, device="cpu", precision=precision,
            **options,
        ),
        f"seed {seed}\n{text}",
    )  # fmt: skip


@pytest.mark.parametrize(("run", "precision"), [("rk4", "float64"), ("tsit5", "float32")])
def test_trajectories_are_the_same(compare, run, precision):
    check_field(compare, 3, precision, **RUNS[run])


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("run", RUNS)
def test_trajectories_of_every_method_and_precision_are_the_same(compare, run, precision):
    for seed in range(4):
        check_field(compare, seed, precision, **RUNS[run])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"method": "rk4", "step": 0.02}, ADAPTIVE], ids=repr)
def test_delay_equations_are_the_same(compare, options):
    def field(t, y, yd, p):
        drive = math.sin(t) if yd[1] > y[0] else p[0] * yd[0] ** 3
        return math.tanh(drive) - 0.5 * y[0], yd[0] * math.exp(-(y[1] ** 2)) - y[1]

    delayed = ergode.VectorField(field, ["u", "v"], ["k", "tau"], [("u", "tau"), ("v", "tau")])
    compare(
        lambda: integrate(
            delayed, times=TIMES, initial={"u": np.linspace(-1, 1, 100), "v": 0.5},
            parameters={"k": 2.0, "tau": 0.3}, device="cpu", **options,
        )
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["flow", "split"])
def test_densities_are_the_same(compare, scheme):
    def swing(t, y, p):
        return y[1], -math.sin(y[0]) - p[0] * y[1]

    field = ergode.VectorField(swing, ["x", "v"], ["drag"])
    width = {"width": 0.1} if scheme == "split" else {}
    compare(
        lambda: ergode.density.propagate(
            field, ergode.Gaussian([1.0, 0.0], [0.2, 0.2]), times=[0.0, 0.5], scheme=scheme,
            parameters={"drag": 0.1}, device="cpu", **width,
        )
    )  # fmt: skip


STAYS = [
    (ergode.Gamma(mean=5, sd=3), ergode.Weibull(mean=7, sd=2)),
    (ergode.LogNormal(mean=5, median=4), ergode.Empirical([3, 5, 9], [0, 0.5, 1])),
    (ergode.Deterministic(3), ergode.Exponential(mean=4)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "output", "stays"),
    [
        ("first-passage", "counts", STAYS[0]), ("first-passage", "line_list", STAYS[1]),
        ("sellke", "line_list", STAYS[2]),
    ],
)  # fmt: skip
def test_epidemics_are_the_same(compare, method, output, stays):
    contacts = ergode.ContactNetwork.erdos_renyi(500, mean_degree=8, seed=1)
    model = ergode.CompartmentModel.seir(
        transmission_rate=0.2, latent=stays[0], infectious=stays[1]
    )  # fmt: skip
    compare(
        lambda: ergode.epidemics.simulate(
            model, contacts, initial={"I": 5}, times=range(61), replicates=4, seed=3,
            method=method, output=output, device="cpu",
        )
    )  # fmt: skip


@pytest.mark.slow
def test_small_networks_are_the_same(compare):
    network = ergode.ReactionNetwork(
        {"A": 40, "B": 0},
        [
            ergode.Reaction("A -> B", rate="2 * A / (10 + A + B^2)"),
            ergode.Reaction("B -> A", rate_constant=0.3),
        ],
    )
    compare(
        lambda: ergode.stochastic.simulate(
            network, times=np.linspace(0, 5, 6), replicates=300, method="direct", device="cpu"
        )
    )  # fmt: skip
