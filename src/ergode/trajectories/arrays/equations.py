"""The equations of a field of arrays: the derivative of every unknown from the whole state.

The state of a trajectory is one row of unknowns, a concatenation of all arrays.  With delays, the
delayed values follow in the same row (see `past`).  `rate_of`, `noise_of` and `arranged` are
generated for a field (see `bindings_of_arrays`).  A kernel reads the shapes at run time, so that
one kernel serves all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ergode.core.compiler.bundle import formula_text
from ergode.core.compiler.language import (
    ByTarget,
    UserFunction,
    linked,
    noinline_cpu,
    option,
    real,
    room_for,
    unroll,
    window,
)
from ergode.core.compiler.syntax import function_from_text
from ergode.core.group import TEAM, edge
from ergode.models.fields.arrays import ArrayField

ARRAYS = option(1)  # number of arrays
IN_PLACE = option(False)  # whether one function sets all derivatives
BACKWARD = option(False)  # whether time runs the other way

LATE = option(0)  # number of delays
# arranged(y, begins, shapes): the arrays as views of a row of unknowns; with delays a pair, of them
# and of the delayed arrays
arranged = option()
arranged_slopes = option()  # arranged_slopes(dy, begins, shapes): views of a row of derivatives
rate_of = option()  # rate_of(v, row, j, t, y, p, c, shapes): derivative of an unknown of array v
NOISY = option(False)  # whether every unknown has a Wiener process
noise_of = option()  # as `rate_of`: amplitude of the noise of an unknown
fill = option()  # fill(t, y, dy, p, c): sets all derivatives
PARAMETERS = option(8)  # numbers that the functions receive: at least one for each parameter

# Unknowns of a block.  A block belongs to one thread, which sums its squares.
BLOCK = 1024


def blocks_in(n):
    """Number of blocks of `n` unknowns."""
    return (n + BLOCK - 1) // BLOCK


def _bound(group, n, k):
    """First unknown of the thread `k` ranks ahead, where a team shares whole blocks."""
    return min(n, BLOCK * edge(group.rank + k, group.size, 0, blocks_in(n)))


def extent(group, n):
    """First and last of the unknowns of a CPU thread."""
    if TEAM:
        return _bound(group, n, 0), _bound(group, n, 1)
    else:
        return 0, n


def _unknowns_cpu(group, n):
    if TEAM:
        return range(_bound(group, n, 0), _bound(group, n, 1))
    else:
        return range(n)


def _unknowns_cuda(group, n):
    return range(group.rank, n, group.size)


unknowns = ByTarget(cpu=_unknowns_cpu, cuda=_unknowns_cuda)
"""``unknowns(group, n)`` are those of a thread; no other thread writes them."""


def _fill(t, y, p, run, slopes):
    fill(t, y, arranged_slopes(slopes, run.begins, run.shapes), p, run.constants)
    if BACKWARD:
        for i in range(slopes.shape[0]):
            slopes[i] = -slopes[i]


@noinline_cpu
def _values_cpu(of_noise, group, t, state, p, run, values):
    y = arranged(state, run.begins, run.shapes)
    if IN_PLACE and not of_noise:
        _fill(t, y, p, run, values)
    elif not IN_PLACE or NOISY:
        n = run.begins[ARRAYS]
        first, last = extent(group, n)
        for v in unroll(range(ARRAYS)):
            begin, width = run.begins[v], run.widths[v]
            at = max(first, begin) - begin
            stop = min(last, run.begins[v + 1]) - begin
            while at < stop:  # one row or the rest of it
                row = at // width
                left = row * width
                here = values[begin + left : begin + left + width]
                inner = range(at - left, min(width, stop - left))
                if NOISY and of_noise:
                    for j in inner:
                        here[j] = noise_of(v, row, j, t, y, p, run.constants, run.shapes)
                elif not IN_PLACE:
                    for j in inner:
                        here[j] = rate_of(v, row, j, t, y, p, run.constants, run.shapes)
                at = left + width


def _values_cuda(of_noise, group, t, state, p, run, values):
    y = arranged(state, run.begins, run.shapes)
    if IN_PLACE and not of_noise:
        _fill(t, y, p, run, values)
    elif not IN_PLACE or NOISY:
        for v in unroll(range(ARRAYS)):
            begin, width = run.begins[v], np.int32(run.widths[v])
            # Offset of the thread's first unknown in this array.
            skipped = (group.rank - begin) % group.size
            for at in range(begin + skipped, run.begins[v + 1], group.size):
                local = np.int32(at - begin)  # 64-bit division is slow on a GPU
                row = np.int32(local // width)
                j = np.int32(local - row * width)
                if NOISY and of_noise:
                    values[at] = noise_of(
                        v, np.int64(row), np.int64(j), t, y, p, run.constants, run.shapes
                    )
                elif not IN_PLACE:
                    values[at] = rate_of(
                        v, np.int64(row), np.int64(j), t, y, p, run.constants, run.shapes
                    )


_values = ByTarget(cpu=_values_cpu, cuda=_values_cuda)


def evaluate(group, t, state, p, run, slopes):
    """Set the derivatives of a thread's unknowns."""
    _values(False, group, t, state, p, run, slopes)


def amplitudes(group, t, state, p, run, noise):
    """Set the amplitudes of the noise of a thread's unknowns."""
    _values(True, group, t, state, p, run, noise)


def evaluate_lanes(t, state, parameters, run, slopes):
    """Derivatives of all unknowns [unknown, lane]; every lane has its own time."""
    _values_of_lanes(False, t, state, parameters, run, slopes)


def amplitudes_of_lanes(t, state, parameters, run, noise):
    """Amplitudes of the noise of all unknowns [unknown, lane]."""
    _values_of_lanes(True, t, state, parameters, run, noise)


@noinline_cpu
def _values_of_lanes(of_noise, t, state, parameters, run, values):
    for v in unroll(range(ARRAYS)):
        begin, width = run.begins[v], run.widths[v]
        for at in range(begin, run.begins[v + 1]):
            row = (at - begin) // width
            j = at - begin - row * width
            here = values[at]
            if NOISY and of_noise:
                for lane in range(state.shape[1]):
                    y = arranged(state[:, lane], run.begins, run.shapes)
                    p = parameters_of(parameters, lane)
                    here[lane] = noise_of(v, row, j, t[lane], y, p, run.constants, run.shapes)
            else:
                for lane in range(state.shape[1]):
                    y = arranged(state[:, lane], run.begins, run.shapes)
                    p = parameters_of(parameters, lane)
                    here[lane] = rate_of(v, row, j, t[lane], y, p, run.constants, run.shapes)


def parameters_of(rows, column):
    """Parameters of a trajectory; zeros follow (see `arguments`)."""
    return tuple(rows[k, column] for k in range(PARAMETERS))


# ---- functions generated for a field


def bindings_of_arrays(field: ArrayField, parameter_count: int) -> dict[Any, Any]:
    """Bindings of a kernel for a field of arrays."""
    functions = (*field.functions, *field.noise)
    texts = tuple(formula_text(one) for one in functions)
    numbers = tuple(len(shape) for shape in field.shapes)
    shapes = ("in place",) if field.in_place else numbers
    late = tuple(v for v, _ in field.delays)
    kind = field.is_single, bool(field.constants), field.is_backward, late
    key = texts, shapes, numbers, *kind, parameter_count
    return _written(key, _Functions(functions, texts))


class _Functions:
    """Functions that compare equal if their source texts are equal; a key of `lru_cache`."""

    def __init__(self, functions: tuple[Callable[..., Any], ...], texts: tuple[str, ...]) -> None:
        self.functions, self._texts = functions, texts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Functions) and self._texts == other._texts

    def __hash__(self) -> int:
        return hash(self._texts)


@lru_cache(maxsize=128)
def _written(key: tuple[Any, ...], given: _Functions) -> dict[Any, Any]:
    _, shapes, numbers, is_single, has_constants, is_backward, late, parameter_count = key
    count = 1 if "in place" in shapes else len(numbers)
    noise = given.functions[count:]
    named = {f"rate_{v}": one for v, one in enumerate(given.functions[:count])}
    named |= {f"noise_{v}": one for v, one in enumerate(noise)}

    def views(places: Sequence[int], arrays: Sequence[int]) -> str:
        # In a tuple: an array itself may be returned only where it is an argument (numba).
        parts = [
            f"window(y, begins[{place}], "
            f"({''.join(f'shapes[{v}, {d}], ' for d in range(numbers[v]))})), "
            for place, v in zip(places, arrays, strict=True)
        ]
        return f"({''.join(parts)})"

    every = range(len(numbers))
    own, dy = views(every, every), "dy[0]" if is_single else "dy"
    if is_single and numbers[0] == 1:
        own, dy = "y", "dy"
    whole, (y, yd) = own, _state_in_functions(numbers, is_single, late)
    if late:
        after = range(len(numbers) + 1, len(numbers) + 1 + len(late))
        whole = f"({views(every, every)}, {views(after, late)})"
    bindings: dict[Any, Any] = {
        ARRAYS: len(numbers), PARAMETERS: room_for(parameter_count),
        arranged: _arrangement(f"def arranged(y, begins, shapes):\n    return {whole}\n"),
    }  # fmt: skip
    p = own_parameters(parameter_count)
    c = ", c" if has_constants else ""
    minus = "-" if is_backward else ""

    def by_unknown(name: str) -> Any:
        """``<name>_of(v, row, j, ...)``, the function of an unknown of array v."""
        calls = by_array(
            numbers, lambda v, index: f"{minus}real({name}_{v}({index}, {minus}t, {y}{yd}, {p}{c}))"
        )
        return linked_function(f"def {name}_of(v, row, j, t, y, p, c, shapes):\n{calls}", named)

    if late:
        bindings[LATE] = len(late)
    if noise:
        bindings |= {NOISY: True, noise_of: by_unknown("noise")}
    if "in place" in shapes:
        text = (
            f"def fill(t, y, dy, p, c):\n    rate_0({minus}t, {y}{yd}, {dy}, {p}{c})\n"
            "    return real(0.0)\n"
        )
        backward = {BACKWARD: True} if is_backward else {}
        slopes = f"def arranged_slopes(y, begins, shapes):\n    return {own}\n"
        return bindings | {
            IN_PLACE: True, fill: linked_function(text, named),
            arranged_slopes: _arrangement(slopes), **backward,
        }  # fmt: skip
    return bindings | {rate_of: by_unknown("rate")}


def by_array(numbers: Sequence[int], call: Callable[[int, str], str]) -> str:
    """Lines that return ``call(v, index)`` of array v, from ``row, j`` as one to four indices."""
    text = ""
    for v, number in enumerate(numbers):
        s, r = f"shapes[{v}, 1]", f"shapes[{v}, 2]"
        index = (
            "j", "row, j", f"row // {s}, row % {s}, j",
            f"row // ({s} * {r}), row // {r} % {s}, row % {r}, j",
        )[number - 1]  # fmt: skip
        line = f"return {call(v, index)}\n"
        text += f"    {line}" if v == len(numbers) - 1 else f"    if v == {v}:\n        {line}"
    return text


def names_in_functions(field: ArrayField) -> tuple[str, str, str]:
    """What a generated call writes for the state and delays, for constants, and before a time."""
    numbers = tuple(len(shape) for shape in field.shapes)
    y = "".join(_state_in_functions(numbers, field.is_single, field.delays))
    return y, ", c" if field.constants else "", "-" if field.is_backward else ""


def _state_in_functions(
    numbers: Sequence[int], is_single: bool, late: Sequence[Any]
) -> tuple[str, str]:
    """The state, and with delays the delayed arrays, as arguments of a generated call."""
    if late:
        return "y[0][0]" if is_single else "y[0]", ", y[1]"
    return "y[0]" if is_single and numbers[0] > 1 else "y", ""


def linked_function(text: str, named: Mapping[str, Callable[..., Any]]) -> Any:
    """A function that returns a number, and is linked into the kernels that call it.

    It is one and the same for equal texts, also of the user's functions that it calls by name.
    """
    texts = tuple(map(formula_text, named.values()))
    return _linked_function(text, tuple(named), _Functions(tuple(named.values()), texts))


@lru_cache(maxsize=128)
def _linked_function(text: str, names: tuple[str, ...], given: _Functions) -> Any:
    functions = dict(zip(names, map(UserFunction, given.functions), strict=True))
    return linked(function_from_text(text, {"real": real, **functions}))


def own_parameters(count: int) -> str:
    """What a generated call writes for a model's parameters: kernels have more (`room_for`)."""
    return f"({''.join(f'p[{k}], ' for k in range(count))})"


@cache
def _arrangement(text: str) -> Any:
    """A function that models with arrays of the same dimensions share."""
    return function_from_text(text, {"window": window})
