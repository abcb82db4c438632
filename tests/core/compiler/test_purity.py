"""What is not a function of its arguments alone is refused, by name and before it is called."""

# ruff: noqa: NPY002
import datetime
import math
import random
import time
from random import gauss

import numpy as np
import pytest
from numpy.random import default_rng, normal

import ergode

GENERATOR = default_rng(1)
calls = 0
seen = [0]
say = print


def np_random(t, y, p):
    return (-y[0] + np.random.normal(),)


def np_random_generator(t, y, p):
    return (-y[0] + GENERATOR.normal(),)


def np_random_imported(t, y, p):
    return (-y[0] + normal(),)


def random_module(t, y, p):
    return (-y[0] + random.random(),)


def random_imported(t, y, p):
    return (-y[0] + gauss(0.0, 1.0),)


def printing(t, y, p):
    print(t)
    return (-y[0],)


def printing_by_another_name(t, y, p):
    say(t)
    return (-y[0],)


def reading(t, y, p):
    return (-y[0] + float(open("rate.txt").read()),)


def loading(t, y, p):
    return (-y[0] * np.loadtxt("rate.txt"),)


def asking(t, y, p):
    return (-y[0] * float(input()),)


def clock(t, y, p):
    return (-y[0] * time.time(),)


def calendar(t, y, p):
    return (-y[0] * datetime.datetime.now().hour,)


def counting(t, y, p):
    global calls
    calls += 1
    return (-y[0],)


def remembering(t, y, p):
    seen[0] = seen[0] + 1
    return (-y[0],)


def identity(t, y, p):
    return (-y[0] * id(y),)


def evaluating(t, y, p):
    return (eval("t"),)


def shaken(x):
    return x * np.random.random()


def helped(t, y, p):
    return (-shaken(y[0]),)


IMPURE = {
    np_random: "np.random", np_random_generator: "GENERATOR", np_random_imported: "normal",
    random_module: "random.random", random_imported: "gauss", printing: "print",
    printing_by_another_name: "say", reading: "open", loading: "np.loadtxt", asking: "input",
    clock: "time.time", calendar: "datetime", counting: "global", remembering: "seen",
    identity: "id", evaluating: "eval", helped: "np.random",
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "name"), IMPURE.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_an_impure_function_is_refused_by_name(function, name, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it was called"))
    with pytest.raises(ergode.ModelError, match=name.replace(".", r"\.")) as caught:
        ergode.VectorField(function, ["y"])
    assert "\n" not in str(caught.value)
    assert calls == 0
    assert seen == [0]


def pure(t, y, p):
    total = 0.0
    for i, one in enumerate((1.0, 2.0)):
        total += math.sin(one) * np.exp(-i) + max(y[0], min(p[0], 1)) * np.float64(0.5)
    return (-abs(total) * round(y[0]) + np.sign(t) * np.pi,)


def test_functions_of_numbers_are_taken():
    ergode.VectorField(pure, ["y"], ["a"])


def test_every_door_is_shut():
    def event(t, y, p):
        return y[0] - random.random()

    def decay(t, y, p):
        return (-y[0],)

    field = ergode.VectorField(decay, ["y"])
    with pytest.raises(ergode.ModelError, match=r"random\.random"):
        ergode.trajectories.integrate(
            field,
            times=[0, 1],
            initial={"y": 1.0},
            events=[ergode.trajectories.ZeroCrossing(event)],
        )

    def measured(y):
        return (y[0] + np.random.normal(),)

    with pytest.raises(ergode.ModelError, match=r"np\.random"):
        ergode.VectorField(decay, ["y"], diffusion=np_random)
    with pytest.raises(ergode.ModelError, match=r"np\.random"):
        ergode.Delay and ergode.VectorField(
            helped_delay, ["y"], delays=[("y", ergode.Delay(drawn, 0.5, 1.5))]
        )


def drawn(t, y, p):
    return 1.0 + 0.1 * np.random.random()


def helped_delay(t, y, yd, p):
    return (-yd[0],)
