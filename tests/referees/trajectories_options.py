"""Options of the methods and the errors that they allow, and a mistake that must be noticed."""

import pytest

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
# Options, and the error of states that they allow.
ORDINARY = {
    "tsit5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "dopri5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "dop853": ({"rtol": 1e-9, "atol": 1e-10}, 2e-5),
    "rodas5p": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
    "radau5": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
    "rosenbrock23": ({"rtol": 1e-6, "atol": 1e-7}, 2e-3),
    "rk4": ({"step": 0.01}, 2e-5),
    "euler": ({"step": 5e-4}, 2e-2),
    "tsit5 fixed": ({"step": 0.02}, 2e-5),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-3),
    "rk4 float32": ({"step": 0.02, "precision": "float32"}, 2e-3),
    "rk4 refined": ({"rtol": 1e-7, "atol": 1e-7}, 2e-5),
}
SEPARABLE = {
    "verlet": ({"step": 0.002}, 2e-3),
    "blanes-moan4": ({"step": 0.02}, 2e-4),
    "kahan-li6": ({"step": 0.02}, 2e-5),
    "suzuki-umeno8": ({"step": 0.04}, 2e-5),
    "kahan-li6 float32": ({"step": 0.04, "precision": "float32"}, 5e-3),
    "verlet refined": ({"rtol": 1e-5, "atol": 1e-5}, 2e-3),
}
WITH_DELAYS = {
    "tsit5": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "rodas5p": ({"rtol": 1e-7, "atol": 1e-8}, 2e-4),
    "rk4": ({"step": 0.02}, 2e-4),
    "tsit5 fixed": ({"step": 0.05}, 2e-4),
    "dop853": ({"rtol": 1e-8, "atol": 1e-9}, 2e-5),
    "tsit5 float32": ({"rtol": 1e-5, "atol": 1e-6, "precision": "float32"}, 2e-3),
}


def falls_and_touches(before, after, direction):
    """A tie broken the other way: a rise is a fall."""
    rises = before < 0.0 and after >= 0.0
    falls = before > 0.0 and after <= 0.0
    if direction > 0:
        return falls
    if direction < 0:
        return rises
    return rises or falls
