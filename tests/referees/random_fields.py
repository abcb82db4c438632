"""Random vector fields, as text: what a user may write in a function of numbers."""

import math

import numpy as np
from test_user_functions import TABLE, draw

from ergode.core.compiler.syntax import function_from_text

RATE, COUNT, WEIGHTS = 0.75, 2, (0.5, -1.25, 2.0)


def _helper(a, b):
    c = a * b
    return c + RATE if a > b else c - RATE


_NAMES = {
    "math": math, "np": np, "K": COUNT, "J": RATE, "WEIGHTS": WEIGHTS, "helper": _helper,
    "COUNT": COUNT, "T": TABLE,
}  # fmt: skip
_MORE = [
    "helper({0}, {1})", "sum(WEIGHTS[i] * {x}[i] for i in range(2))", "math.asin(0.1 * {0})",
    "math.sinh(0.1 * ({0}))", "math.log10(abs({0}) + 1)", "math.atan2({0}, {1})",
    "math.hypot({0}, {1})", "abs({0}) ** ({1})", "math.log1p(abs({0}))", "math.expm1(-abs({0}))",
    "math.log(abs({0}) + J)", "math.tan({0})", "({0}) ** COUNT", "math.copysign({0}, {1})",
    "math.erf({0})", "np.sqrt(abs({0}))", "min({0}, {1}, {0} * {1})", "max({0}, J, {1})",
    "({0} if {0} > {1} and t < 1 or {1} < 0 else -({1}))", "(not {0} < {1}) * ({0})",
    "np.exp(-abs({0}))", "math.cosh(0.1 * {0})", "math.acos(0.1 * {0})", "math.fabs({0})",
]  # fmt: skip


def random_expression(rng, x="y"):
    """A formula of ``a``, ``b``, ``c``, of the constants and of the tuple `x`."""
    one, other = (draw(rng, rng.randint(1, 3)) for _ in range(2))
    if rng.random() < 0.4:
        return one
    return "(" + rng.choice(_MORE).format(f"({one})", f"({other})", x=x) + ")"


def random_field(rng, size, tame=False):
    """Function of (t, y, p) for `size` variables and two parameters, and its text.

    If `tame`, its solutions stay within what numbers can hold.
    """
    lines = ["def field(t, y, p):", "    a = y[0]", f"    b = y[{rng.randrange(size)}] * p[1]"]
    lines += [f"    c = {rng.choice(['p[0]', 'p[1] - t', 'math.sin(t)'])}"]
    if rng.random() < 0.5:
        lines += [f"    if {random_expression(rng)} > {rng.choice(['0', 'b', 'p[0]'])}:",
                  f"        c = {random_expression(rng)}"]  # fmt: skip
        lines += ["    else:", "        b = b + c"] if rng.random() < 0.5 else []
    if rng.random() < 0.3:
        lines += [
            f"    for i in range({size}):",
            f"        c = c * 0.5 + y[i] * {rng.choice('ab')}",
        ]
    values = [random_expression(rng) for _ in range(size)]
    if tame:
        values = [f"math.tanh({value}) - 0.5 * y[{i}]" for i, value in enumerate(values)]
    lines += [f"    return ({', '.join(values)},)"]
    text = "\n".join(lines) + "\n"
    return function_from_text(text, _NAMES), text
