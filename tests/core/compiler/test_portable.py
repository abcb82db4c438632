"""Functions of every shape are compiled, and reach other processes with their models."""

import functools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import ergode
from ergode.core.compiler.portable import HoldsFunctions

RATE = 0.5


def decay(t, y, p):
    return (-RATE * y[0],)


def scaled(t, y, p, factor):
    return (-factor * y[0],)


def saturated(y, half):
    return y / (half + y)


def closed_over(rate):
    def inner(t, y, p):
        return (-rate * saturated(y[0], half=2) + math.sin(t),)

    return inner


def last(field):
    result = ergode.trajectories.integrate(
        field, initial={"y": 1.0}, times=[0, 1], method="rk4", step=0.1, device="cpu"
    )
    return result["state"].sel(variable="y").values.ravel()[-1].item()


SHAPES = {
    "a function of a module": decay,
    "a lambda": lambda t, y, p: (-RATE * y[0],),
    "a partial function": functools.partial(scaled, factor=RATE),
    "a partial lambda": functools.partial(lambda k, t, y, p: (-k * y[0],), RATE),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_function_is_compiled(shape):
    expected = last(ergode.VectorField(decay, ["y"]))
    assert last(ergode.VectorField(SHAPES[shape], ["y"])) == expected
    assert expected == pytest.approx(np.exp(-RATE), rel=1e-6)


def test_helpers_may_be_lambdas_and_partial_functions():
    half = functools.partial(saturated, half=2.0)
    by_helper = ergode.VectorField(lambda t, y, p: (-half(y[0]),), ["y"])
    plain = ergode.VectorField(lambda t, y, p: (-(y[0] / (2.0 + y[0])),), ["y"])
    assert last(by_helper) == last(plain)


def test_events_and_histories_take_lambdas():
    fall = ergode.VectorField(lambda t, y, p: (y[1], -9.81), ["height", "speed"])
    impact = ergode.trajectories.ZeroCrossing(
        lambda t, y, p: y[0], -1, effect=lambda t, y, p: (0.0, -0.5 * y[1])
    )
    result = ergode.trajectories.integrate(
        fall, times=[0, 1], initial={"height": 1, "speed": 0}, events=[impact], device="cpu"
    )
    assert impact.name == "event" and result["event_count"].item() > 1
    echo = ergode.VectorField(lambda t, y, yd, p: (-yd[0],), ["y"], ["tau"], [("y", "tau")])
    result = ergode.trajectories.integrate(
        echo, initial={"y": 1.0}, times=[0, 1], history=lambda t: (1.0,), step=0.1,
        parameters={"tau": 2.0}, device="cpu",
    )  # fmt: skip
    assert result["state"].values.ravel()[-1] == pytest.approx(0.0, abs=1e-9)


def models():
    fields = [ergode.VectorField(function, ["y"]) for function in SHAPES.values()]
    fields.append(ergode.VectorField(closed_over(0.75), ["y"]))
    event = ergode.trajectories.ZeroCrossing(lambda t, y, p: y[0] - RATE, name="half")
    measured = ergode.Measurement(1.0, lambda y, t, p: (RATE * y[0],), 0.3, 0.01)
    return fields, event, measured


def test_models_reach_another_process():
    fields, event, measured = models()
    script = (
        "import pickle, sys\n"
        "fields, event, measured = pickle.loads(sys.stdin.buffer.read())\n"
        "print([field.digest for field in fields], event.function(0.0, (2.0,), ()), "
        "measured.h((2.0,), 0.0, ()))"
    )
    sent = pickle.dumps((fields, event, measured))
    done = subprocess.run([sys.executable, "-c", script], input=sent, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    expected = [field.digest for field in fields], 1.5, (1.0,)
    assert done.stdout.decode().strip() == " ".join(map(str, expected))


def test_a_pickled_field_is_computed_as_before():
    for field in models()[0]:
        again = pickle.loads(pickle.dumps(field))
        assert again.digest == field.digest and again.variables == field.variables
        assert last(again) == last(field)


def max(value, least):  # noqa: A001 - a user's own, not Python's
    return value + least


def test_names_that_python_has_too_are_the_users():
    field = ergode.VectorField(lambda t, y, p: (-max(y[0], 1.0),), ["y"])
    again = pickle.loads(pickle.dumps(field))
    assert again.function(0.0, (2.0,), ()) == field.function(0.0, (2.0,), ()) == (-3.0,)


def test_every_public_model_with_functions_travels():
    for one in (
        ergode.VectorField, ergode.Delay, ergode.Measurement, ergode.trajectories.ZeroCrossing,
        ergode.trajectories.Observable, ergode.trajectories.History,
    ):  # fmt: skip
        assert issubclass(one, HoldsFunctions)
