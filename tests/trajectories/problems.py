"""Delay equations whose solutions are known to many digits."""

import math
from dataclasses import dataclass, field

import ergode


def _linear(t, y, yd, p):
    return (-yd[0],)


def _mackey_glass(t, y, yd, p):
    return (p[0] * yd[0] / (1 + yd[0] ** 10) - p[1] * y[0],)


def _hutchinson(t, y, yd, p):
    return (p[0] * y[0] * (1 - yd[0]),)


def _ikeda(t, y, yd, p):
    return (-y[0] + 3 * math.sin(yd[0]),)


def _el_nino(t, y, yd, p):
    return (y[0] - y[0] ** 3 - 0.75 * yd[0],)


def _logistic(t, y, yd, p):
    return (y[0] * (p[0] - yd[0]),)


def _logistic_past(t):
    return (1.5 - math.cos(t),)


def _wille_baker(t, y, yd, p):
    return yd[0], yd[0] + yd[1], y[1]


def _delayed_lorenz(t, y, yd, p):
    return 10 * (yd[0] - y[0]), y[0] * (p[0] - y[2]) - y[1], y[0] * y[1] - 8 * y[2] / 3


def _delayed_lorenz_past(t):
    return -8, -8 + math.sin(2 * math.pi * t), -8


@dataclass(frozen=True)
class Problem:
    name: str
    field: ergode.VectorField
    initial: dict
    parameters: dict
    references: dict  # time: state
    step: float
    tolerance: float  # relative
    history: object = None
    extra: dict = field(default_factory=dict)

    def solve(self, times=None, **options):
        options = {"step": self.step, "device": "cpu", "history": self.history, **options}
        options = {"parameters": self.parameters, "initial": self.initial, **options}
        return ergode.trajectories.integrate(
            self.field, times=[0.0, *self.references] if times is None else times, **options
        )


def _scalar(function, names=("tau",)):
    return ergode.VectorField(function, ["y"], names, [("y", "tau")])


LINEAR = Problem(
    "linear", _scalar(_linear), {"y": 1.0}, {"tau": 1.0}, {10.0: [10493 / 518400]}, 1 / 64, 1e-8
)
MACKEY_GLASS = Problem(
    "Mackey-Glass",
    _scalar(_mackey_glass, ("beta", "gamma", "tau")),
    {"y": 1.2},
    {"beta": 0.2, "gamma": 0.1, "tau": 17.0},
    {170.0: [0.655640466774150646], 510.0: [0.632959894424109832]},
    17 / 128,
    1e-8,
)
LOGISTIC = Problem(
    "logistic1",
    _scalar(_logistic, ("p", "tau")),
    {"y": 0.5},
    {"p": 1.5, "tau": 1.0},
    {10.0: [1.91557812304376571]},
    1 / 64,
    1e-8,
    _logistic_past,
)
PROBLEMS = [
    LINEAR,
    MACKEY_GLASS,
    Problem(
        "DDETST A1",
        MACKEY_GLASS.field,
        {"y": 0.5},
        {"beta": 0.2, "gamma": 0.1, "tau": 14.0},
        {500.0: [1.01044311170014235]},
        14 / 128,
        1e-8,
    ),
    Problem(
        "Hutchinson",
        _scalar(_hutchinson, ("r", "tau")),
        {"y": 0.5},
        {"r": 1.8, "tau": 1.0},
        {20.0: [0.205300615456662867]},
        1 / 128,
        1e-8,
    ),
    Problem(
        "Ikeda",
        _scalar(_ikeda),
        {"y": 0.5},
        {"tau": 2.0},
        {20.0: [2.23282406080506373]},
        1 / 64,
        1e-8,
    ),
    Problem(
        "El Nino",
        _scalar(_el_nino),
        {"y": 0.1},
        {"tau": 6.0},
        {60.0: [0.500799860523986940]},
        1 / 32,
        1e-8,
    ),
    LOGISTIC,
    Problem(
        "logistic1, p = 3",
        LOGISTIC.field,
        {"y": 0.5},
        {"p": 3.0, "tau": 1.0},
        {10.0: [1.465395615895e-5]},
        1 / 256,
        1e-7,
        _logistic_past,
    ),
    Problem(
        "Wille-Baker",
        ergode.VectorField(_wille_baker, list("abc"), ["tau", "sigma"], [("a", "tau"), ("b", "sigma")]),
        {"a": 1.0, "b": 1.0, "c": 1.0},
        {"tau": 1.0, "sigma": 0.2},
        {5.0: [19.175, 176.422578447380318, 190.344201936070417]},
        1 / 100,
        1e-8,
    ),
    Problem(
        "delayed Lorenz",
        ergode.VectorField(_delayed_lorenz, list("xyz"), ["rho", "tau"], [("y", "tau")]),
        {"x": -8.0, "y": -8.0, "z": -8.0},
        {"rho": 28.0, "tau": 13 / 28},
        {20 * 13 / 28: [-17.0805142951485495, -3.43714619645015, 19.4319544500567]},
        13 / 28 / 512,
        1e-6,
        _delayed_lorenz_past,
    ),
]
