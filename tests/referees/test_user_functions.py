"""A user's functions, compiled, against what Python makes of them: random formulas, random numbers.

Python is the referee: it evaluates the same text. A formula may hold whatever a function of numbers
may: whole numbers, constants from outside, division with and without remainder, powers, choices,
comparisons in chains, elementary functions, conversions to whole numbers, tables, bits. Whole
numbers are real, for Python too: large ones are as good as a rounding.
"""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from fresh import fresh_seeds

from ergode.core import devices, kernels
from ergode.core.compiler import user_functions
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ErgodeError

FORMULAS, POINTS = 20, 64
TABLE = (7, 10**10, 2)
ROUNDING = ["int", "round", "math.floor", "math.ceil", "math.trunc"]
FUNCTIONS = [
    "abs", "int", "float", "round", "math.floor", "math.ceil", "math.trunc", "math.sin",
    "math.cos", "math.atan", "math.tanh", "np.sin", "np.cos", "np.tanh",
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
    if kind < 0.705:  # beyond what an integer of 64 bits holds
        return f"{rng.choice(ROUNDING)}({part()} * 1e7) {rng.choice(['** 3', '* 10 ** 12'])}"
    if kind < 0.71:
        return f"(int({part()}) {rng.choice(['& 7', '| K', '>> 1', '^ 5'])})"
    if kind < 0.715:
        return f"T[{rng.choice(['int', 'round', 'math.floor'])}(abs({part()})) % 3] ** 2"
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


class Whole(float):
    """A whole number: real, but for its bits."""

    def _bits(self):
        if abs(self) >= 2.0**62:
            raise OverflowError
        return int(self)

    def __pow__(self, exponent):  # as a kernel does: rounded by each product
        return math.prod([float(self)] * exponent) if exponent == 3 else float(self) ** exponent

    def __and__(self, other):
        return Whole(self._bits() & other)

    def __or__(self, other):
        return Whole(self._bits() | other)

    def __xor__(self, other):
        return Whole(self._bits() ^ other)

    def __rshift__(self, other):
        return Whole(self._bits() >> other)


class Table(tuple):
    def __getitem__(self, place):
        return float(super().__getitem__(int(place)))


def rounding(function):
    return lambda value: Whole(function(value))


def turning(function):
    """A sine of what is beyond 2^51 is not a number: see `core.math.elementary`."""
    return lambda x: function(x) if abs(x) < 2.0**51 else math.nan


TURNING = {name: turning(getattr(math, name)) for name in ("sin", "cos")}
# What the referee calls instead of Python's own.
REAL_NAMES = {
    "int": rounding(int), "round": rounding(round),
    "math": SimpleNamespace(**{
        **vars(math), **TURNING,
        **{name: rounding(getattr(math, name)) for name in ("floor", "ceil", "trunc")},
    }),
    "np": SimpleNamespace(**TURNING, tanh=math.tanh),
}  # fmt: skip


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
    names = {
        "math": math, "np": np, "K": rng.choice([2, 3, -1, 0]), "J": rng.choice([0.5, 2.25]),
        "T": TABLE,
    }  # fmt: skip
    own = {**names, **REAL_NAMES, "T": Table(names["T"])}
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
                    eval(formula, {**own, **dict(zip("abc", point.tolist(), strict=True))})
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
    wrong = []
    for seed in fresh_seeds():
        try:
            wrong += differences(seed)
        except ErgodeError as error:
            wrong.append(f"seed {seed} is refused: {error}")
    assert not wrong, "\n".join(wrong)


def whole_numbers(x, n, table=(3, 10**10, 5), power=3):
    """Whole numbers as numbers, as indices and as bits."""
    k = int(x * 1e7)
    i, j = math.floor(x), int(x) % 2
    n += i & 1
    bits = n
    for m in range(2, 4):
        bits += m**40 * table[m - 1 - j] * len(table)
    return k**power + k * k * k + TABLE[1] * TABLE[i % 3] ** 2 + bits + round(x, 1)


def test_whole_numbers_do_not_overflow():
    """They are real, as Python's are right; indices, ranges and bits have integers."""
    text = "def body(index, x, out):\n    out[index] = formula(x[index], 3.0)\n"
    for precision, tolerance in (("float64", 1e-14), ("float32", 1e-5)):
        kernel = kernels.for_each(
            function_from_text(text, {"formula": None}), precision=precision,
            bindings={"formula": UserFunction(whole_numbers)},
        )  # fmt: skip
        points = np.array([0.5, 1.25, 2.0, 7.75, 123456.0], precision)
        found = np.zeros(points.size, precision)
        devices.resolve("cpu:1").run(kernel, points.size, points, found)
        exact = [float(whole_numbers(x, 3)) for x in points.tolist()]
        np.testing.assert_allclose(found, exact, rtol=tolerance)


ROWS_OF_TWO = ((1.5, 2.5), (3.5, 4.5), (5.5, 6.5))


def elements(x):
    return TABLE[int(x)] + ROWS_OF_TWO[int(x)][int(x) - 1]


def elements_of_large_numbers(x):
    k = math.floor(x) % 3
    return (
        TABLE[int(x) % 3]
        + 10 * TABLE[min(int(x), 2)]
        + 100 * TABLE[abs(round(x)) // 10**19 % 3]
        + k
    )


def test_large_numbers_are_brought_into_a_table_as_by_python():
    points = [0.0, 2.5, 7.0, 1e10, 4e18, 1e19, 1e20, 3e33]
    exact = [float(elements_of_large_numbers(x)) for x in points]
    np.testing.assert_allclose(compiled(elements_of_large_numbers, points), exact, rtol=1e-14)


def elements_of_an_argument(x):
    return pick((x, 2.0 * x), int(x))


def pick(values, k):
    return values[k]


def compiled(function, points):
    text = "def body(index, x, out):\n    out[index] = formula(x[index])\n"
    kernel = kernels.for_each(
        function_from_text(text, {"formula": None}), bindings={"formula": UserFunction(function)}
    )
    found = np.zeros(len(points))
    with kernels.readable_errors():
        devices.resolve("cpu:1").run(kernel, len(points), np.array(points), found)
    return found


def test_beyond_the_end_of_a_table_there_is_no_number():
    """An error ended all trajectories of an ensemble, without a name."""
    found = compiled(elements, [1.0, 2.0, -3.0, 3.0, -4.0, 1e300, np.nan])
    np.testing.assert_array_equal(found, [10**10 + 3.5, 8.5, *[np.nan] * 5])
    np.testing.assert_array_equal(compiled(elements_of_an_argument, [1.0, 0.5]), [2.0, 0.5])
    with pytest.raises(ErgodeError, match="reads beyond the end of a tuple"):
        compiled(elements_of_an_argument, [2.0])


@pytest.mark.parametrize("name", ["factorial", "fmod", "isclose"])
def test_what_cannot_be_compiled_is_named(name):
    text = f"def formula(x):\n    return math.{name}(x, x)\n"
    with pytest.raises(ErgodeError, match=f"uses math.{name}, which cannot be compiled; write"):
        compiled(function_from_text(text, {"math": math}), [1.0])


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["numbers stay whole", "a root is dropped", "another tangent"])
def test_what_is_compiled_wrongly_is_noticed(mutant, monkeypatch):
    if mutant == "numbers stay whole":
        monkeypatch.setattr(user_functions, "make_real", lambda tree, lookup, indices: tree)
    elif mutant == "a root is dropped":
        monkeypatch.setitem(user_functions.WORDS, user_functions.ROOT, abs)
    else:
        own = user_functions._ELEMENTARY
        for tangent in (math.tanh, np.tanh):
            monkeypatch.setitem(own, tangent, own[math.sin])
    for seed in range(6):
        try:
            if differences(seed):
                return
        except ErgodeError:
            return
    pytest.fail("nothing was noticed")
