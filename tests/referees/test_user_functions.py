"""A user's functions, compiled, against what Python makes of them: random formulas, random numbers.

Python is the referee: it evaluates the same text. A formula may hold whatever a function of numbers
may: whole numbers, constants from outside, division with and without remainder, powers, choices,
comparisons in chains, elementary functions, conversions to whole numbers.
"""

import math
import os
import random
import time

import numpy as np
import pytest

from ergode.core import devices, kernels
from ergode.core.compiler import user_functions
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ErgodeError

FORMULAS, POINTS = 20, 64
FUNCTIONS = [
    "abs", "int", "float", "round", "math.floor", "math.ceil", "math.sin", "math.cos", "math.atan",
    "math.tanh", "np.sin", "np.cos", "np.tanh",
]  # fmt: skip

ROWS = "".join(f"    out[index, {k}] = row[{k}]\n" for k in range(FORMULAS))
BODY = function_from_text(
    "def body(index, x, out):\n    row = formulas(x[index, 0], x[index, 1], x[index, 2])\n" + ROWS,
    {"formulas": None},
)


def draw(rng, depth):
    """A formula of `a`, `b`, `c` and of the constants `K`, a whole number, and `J`."""
    if depth == 0 or rng.random() < 0.15:
        kind = rng.random()
        if kind < 0.45:
            return rng.choice("abcKJ")
        if kind < 0.75:
            return str(rng.choice([0, 1, 2, 3, 7, -2, 10]))
        return rng.choice(["0.5", "1.5", "-0.25", "2.0", "1e-3", "3.7"])

    def part():
        return draw(rng, depth - 1)

    kind = rng.random()
    if kind < 0.35:
        return f"({part()} {rng.choice('+-*')} {part()})"
    if kind < 0.45:
        return f"({part()} / (abs({part()}) + 1))"
    if kind < 0.53:
        divisor = rng.choice(["2", "3", "-2", "0.7", "-1.3", "(abs(b) + 1)"])
        return f"({part()} {rng.choice(['//', '%'])} {divisor})"
    if kind < 0.61:
        return f"(abs({part()}) + 1) ** {rng.choice(['2', '3', '0', '-1', '0.5', '1', '-2'])}"
    if kind < 0.70:
        return f"{rng.choice(FUNCTIONS)}({part()})"
    if kind < 0.73:
        return f"math.exp(-abs({part()}))"
    if kind < 0.80:
        return f"{rng.choice(['min', 'max'])}({part()}, {part()})"
    if kind < 0.90:
        relation = rng.choice(["<", ">", "<=", ">=", "==", "!="])
        return f"({part()} if {part()} {relation} {part()} else {part()})"
    if kind < 0.95:
        return f"({part()} if {part()} < {part()} <= {part()} else {part()})"
    return f"(-{part()})"


def draw_whole(rng):
    """A formula; powers of any exponent, good to a rounding, where nothing jumps after them."""
    formula = draw(rng, rng.randint(1, 4))
    if rng.random() < 0.2:
        exponent = rng.choice(["1.5", "-0.3", "b", "math.floor(b)"])
        return f"(abs({formula}) + 1) ** {exponent}"
    return formula


def differences(seed):
    """What a kernel makes of random formulas and Python does not."""
    rng = random.Random(seed)
    formulas = [draw_whole(rng) for _ in range(FORMULAS)]
    names = {"math": math, "np": np, "K": rng.choice([2, 3, -1, 0]), "J": rng.choice([0.5, 2.25])}
    function = function_from_text(
        f"def formulas(a, b, c):\n    return ({', '.join(formulas)},)\n", names
    )
    points = np.random.default_rng(seed).normal(scale=3.0, size=(POINTS, 3))
    points[:8] = np.round(points[:8])
    points[8] = 0.0
    found = np.full((POINTS, FORMULAS), np.nan)
    kernel = kernels.for_each(BODY, bindings={"formulas": UserFunction(function)})
    device = devices.resolve("cpu:1")
    with kernels.readable_errors():
        device.run(kernel, POINTS, device.put(points), found)
    wrong = []
    for k, formula in enumerate(formulas):
        for point, value in zip(points, found[:, k], strict=True):
            try:
                exact = float(
                    eval(formula, {**names, **dict(zip("abc", point.tolist(), strict=True))})
                )
            except (ArithmeticError, ValueError):  # Python refuses what a kernel cannot
                continue
            same = abs(exact - value) <= 1e-9 * max(1.0, abs(exact)) or exact == value
            if not (same or (math.isnan(exact) and math.isnan(value))):
                wrong.append(f"seed {seed}: {formula} at {point}: {value} for {exact}, {names}")
                break
    return wrong


@pytest.mark.slow
def test_formulas_mean_what_python_says():
    assert not [line for seed in range(4) for line in differences(seed)]


@pytest.mark.exhaustive
def test_many_formulas_mean_what_python_says():
    seed = int(os.environ.get("ERGODE_REFEREE_SEED", int(time.time()) % 10**7))
    print(f"ERGODE_REFEREE_SEED={seed}")
    until = time.monotonic() + float(os.environ.get("ERGODE_REFEREE_SECONDS", "600"))
    wrong = []
    while time.monotonic() < until:
        try:
            wrong += differences(seed)
        except ErgodeError as error:
            wrong.append(f"seed {seed} is refused: {error}")
        seed += 1
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["numbers stay whole", "a root is dropped", "another tangent"])
def test_what_is_compiled_wrongly_is_noticed(mutant, monkeypatch):
    if mutant == "numbers stay whole":
        monkeypatch.setattr(user_functions, "make_real", lambda tree, lookup: tree)
    elif mutant == "a root is dropped":
        monkeypatch.setitem(user_functions.WORDS, user_functions.ROOT, abs)
    else:
        own = user_functions._ELEMENTARY
        monkeypatch.setitem(own, math.tanh, own[math.sin])
    for seed in range(6):
        try:
            if differences(seed):
                return
        except ErgodeError:
            return
    pytest.fail("nothing was noticed")
