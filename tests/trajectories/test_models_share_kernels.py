"""One kernel serves models with other functions and another number of parameters."""

import math

import numpy as np
import pytest

import ergode
from ergode.core import kernels

NAMES = ("a", "b", "c")
TIMES = np.array([0.0, 0.5, 1.0])


def nothing(t, y, p):
    return (-y[0], 0.5 * y[0])


def one(t, y, p):
    (a,) = p
    return (-a * y[0], 0.5 * y[0])


def three(t, y, rates):
    a, b, c = rates
    return (-a * y[0] + c, b * y[0])


def crossing(t, y, p):
    a, b, c = p
    return y[0] - (1.0 + a + 0.4 * c)


def lifted(t, y, p):
    a, b, c = p
    return (y[0] + a, y[1] + b - c)


def noise(t, y, p):
    a, b, c = p
    return (a - 0.5, b)


def decay(i, t, y, p):
    return -y[i]


def coupled(i, t, y, p):
    a, b = p
    return -a * y[i] + b * (y[i - 1] - y[i])


def in_place(t, y, dy, p):
    (a,) = p
    for i in range(y.size):
        dy[i] = -a * y[i]


def in_place_with_more(t, y, dy, p):
    a, b = p
    for i in range(y.size):
        dy[i] = -a * y[i] + b


def first_is(t, y, p):
    a, b = p
    return y[0] - math.exp(-a) - 0.0 * b


def modules():
    """Digests of the kernels of this process, without the functions of models."""
    return {source.digest for source in kernels._SOURCES.values()}


def run(function, names, **options):
    field = ergode.VectorField(function, variables=["x", "y"], parameters=names)
    return ergode.trajectories.integrate(
        field, times=TIMES, initial={"x": 2.0, "y": [0.0, 1.0]},
        parameters=dict.fromkeys(names, 0.5), device="cpu:1", **options,
    )  # fmt: skip


def exact(rate, source, product):
    """x' = source - rate x, y' = product x, from (2, 0)."""
    x = source / rate + (2.0 - source / rate) * np.exp(-rate * TIMES)
    area = source / rate * TIMES + (2.0 - source / rate) * (1.0 - np.exp(-rate * TIMES)) / rate
    return x, product * area


def summed(t, y, p):
    total = 0.0
    for k in range(len(p)):
        total = total + p[k]
    return (-total * y[0], 0.5 * y[0])


@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
@pytest.mark.parametrize("counts", [(1, 2, 3), pytest.param((40,), marks=pytest.mark.exhaustive)])
def test_one_function_of_any_number_of_parameters(counts):
    """Its text is the same for all numbers, also beyond the room of a kernel."""
    for count in counts:
        names = tuple(f"k{j}" for j in range(count))
        field, parameters = ergode.VectorField(summed, ["x", "y"], names), dict.fromkeys(names, 0.1)
        density = ergode.density.propagate(
            field, ergode.Gaussian((2.0, 0.0), (0.01, 0.01)), times=TIMES, scheme="flow",
            parameters=parameters, device="cpu:1", keep="none",
        )["mean"].isel(time=-1)[0]  # fmt: skip
        found = [
            ergode.trajectories.integrate(
                field, times=TIMES, initial={"x": 2.0, "y": [0.0, 1.0]}, parameters=parameters,
                device="cpu:1", **how,
            ).state.isel(time=-1, trajectory=0).sel(variable="x")
            for how in ({"method": "tsit5"}, {"method": "rk4", "step": 0.01})
        ]  # fmt: skip
        for one in (density, *found):
            assert float(one) == pytest.approx(2.0 * math.exp(-0.1 * count), rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"method": "tsit5"}, {"method": "rodas5p"}, {"method": "rk4", "step": 0.01}],
    ids=lambda options: options["method"],
)
def test_fields_with_fewer_parameters_share_a_kernel(options):
    run(nothing, (), **options)
    before = modules()
    for function, names, known in (
        (one, NAMES[:1], exact(0.5, 0.0, 0.5)), (three, NAMES, exact(0.5, 0.5, 0.5)),
    ):  # fmt: skip
        states = run(function, names, **options).state
        for name, values in zip(("x", "y"), known, strict=True):
            there = states.sel(variable=name).isel(trajectory=0)
            np.testing.assert_allclose(there, values, rtol=3e-3, atol=1e-6)
    assert modules() <= before


def test_events_effects_and_noise_receive_the_parameters_of_the_model():
    event = ergode.trajectories.ZeroCrossing(crossing, effect=lifted)
    found = run(three, NAMES, method="tsit5", events=[event], rtol=1e-10).isel(trajectory=0)
    time = -2.0 * math.log(0.7)  # x = 1 + exp(-t / 2) falls to 1.7, and begins again at 2.2
    assert float(found.event_time.min()) == pytest.approx(time, abs=1e-7)
    x = float(found.state.sel(variable="x").isel(time=-1))
    assert x == pytest.approx(1.0 + 1.2 * math.exp(-0.5 * (1.0 - time)), abs=1e-7)
    field = ergode.VectorField(three, ["x", "y"], NAMES, diffusion=noise)
    noisy = ergode.trajectories.integrate(
        field, times=TIMES, initial={"x": 2.0, "y": 0.0}, parameters=dict.fromkeys(NAMES, 0.5),
        method="euler-maruyama", step=1e-3, device="cpu:1",
    )  # fmt: skip
    x = noisy.state.sel(variable="x").values.ravel()  # its noise is a - 0.5 = 0
    np.testing.assert_allclose(x, exact(0.5, 0.5, 0.5)[0], rtol=1e-3)


def test_fields_of_arrays_share_a_kernel():
    def states(names, **function):
        field = ergode.VectorField(variables=("y", 12), parameters=names, **function)
        return ergode.trajectories.integrate(
            field, times=TIMES, initial={"y": np.ones(12)}, parameters=dict.fromkeys(names, 0.5),
            method="tsit5", rtol=1e-9, atol=1e-9, device="cpu:1",
        ).y.isel(time=-1)  # fmt: skip

    np.testing.assert_allclose(states((), component=decay), math.exp(-1.0), rtol=1e-7)
    before = modules()
    found = states(NAMES[:2], component=coupled)
    np.testing.assert_allclose(found, math.exp(-0.5), rtol=1e-7)  # equal neighbours
    assert modules() <= before
    np.testing.assert_allclose(states(NAMES[:1], rhs=in_place), math.exp(-0.5), rtol=1e-7)
    before = modules()
    np.testing.assert_allclose(states(NAMES[:2], rhs=in_place_with_more), 1.0, rtol=1e-7)
    assert modules() <= before


def far(t, y, p):
    return y[0] + 9.0


def lowered(t, y, p):
    y[0] = y[0] - 1.0


def test_what_is_watched_of_arrays_shares_a_kernel():
    """Also with `test_events_on_surfaces`, whose events are of the same kinds."""
    crossing = ergode.trajectories.ZeroCrossing
    others = [
        crossing(far, -1, name="first"), crossing(far, -1, lowered, name="second"),
        crossing(far, -1, lowered, name="third"), crossing(far, 1, name="fourth"),
    ]  # fmt: skip

    def crossing_time(names, function):
        field = ergode.VectorField(component=decay, variables=("y", 12), parameters=names)
        found = ergode.trajectories.integrate(
            field, times=TIMES, initial={"y": np.ones(12)}, parameters=dict.fromkeys(names, 0.5),
            events=[*others, crossing(function, -1)], method="tsit5", rtol=1e-9, atol=1e-9,
            device="cpu:1",
        )  # fmt: skip
        return float(found.event_time.min())

    def half(t, y, p):
        return y[3] - 0.5

    assert crossing_time((), half) == pytest.approx(math.log(2.0), abs=1e-6)
    before = modules()
    assert crossing_time(NAMES[:2], first_is) == pytest.approx(0.5, abs=1e-6)
    assert modules() <= before


@pytest.mark.filterwarnings("ignore::ergode.AccuracyWarning")
@pytest.mark.parametrize("scheme", ["flow", "split"])
def test_densities_of_fields_with_fewer_parameters_share_a_kernel(scheme):
    def mean(function, names):
        field = ergode.VectorField(function, variables=["x", "y"], parameters=names)
        grid = {} if scheme == "flow" else {"width": 0.05}
        return ergode.density.propagate(
            field, ergode.Gaussian((2.0, 0.0), (0.01, 0.01)), times=[0.0, 0.5], scheme=scheme,
            parameters=dict.fromkeys(names, 0.5), device="cpu:1", **grid,
        )["mean"].isel(time=-1)  # fmt: skip

    mean(nothing, ())
    before = modules()
    found = mean(three, NAMES)
    expected = [values[1] for values in exact(0.5, 0.5, 0.5)]
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert modules() <= before
