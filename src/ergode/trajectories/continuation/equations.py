"""The equations of a field and their derivatives, at many states in one call.

A state is a column of values w = (y, yd): the variables, and with delays the delayed values. SymPy
derives the functions, and NumPy evaluates them for all states together. A field that SymPy cannot
derive is called once for each state, and differences of high order replace its derivatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from ergode.core.compiler.bundle import formula_text
from ergode.core.errors import PlanError
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers.derivatives import Symbols

_MOST_TERMS = 20_000  # second and third derivatives that are derived; beyond, differences
# Central differences of sixth order: offsets in steps, and weights.
_OFFSETS = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
_WEIGHTS = np.array([-1.0, 9.0, -45.0, 45.0, -9.0, 1.0]) / 60.0
_STEP = 2e-3  # of a difference, relative to the value; its error is about 1e-13


class Equations:
    """Slopes of a field and their derivatives; `w` has shape [variable and delay, state]."""

    def __init__(self, field: VectorField) -> None:
        self.field = field
        self.size = len(field.variables)
        self.delay_count = len(field.delays)
        # For each delayed value, its variable and the parameter that is its delay.
        self.delayed = np.array([field.variables.index(v) for v, _ in field.delays], np.int64)
        self.delays = np.array([field.parameters.index(str(d)) for _, d in field.delays], np.int64)
        self.symbolic = _symbolic(formula_text(field.function), field)
        if self._depends_on_time():
            raise PlanError(
                "the field depends on the time t; continuation is for equations without it: write "
                "a periodic forcing as two further variables, an oscillator such as "
                "u' = u - w v - u (u^2 + v^2), v' = v + w u - v (u^2 + v^2)"
            )

    def _depends_on_time(self) -> bool:
        if self.symbolic is not None:
            return self.symbolic.depends_on_time
        rng = np.random.default_rng(0)
        w = rng.uniform(0.1, 1.0, self.size + self.delay_count)
        p = rng.uniform(0.1, 1.0, len(self.field.parameters))
        first, last = self._call(w, p, 0.0), self._call(w, p, 0.7310585)
        return not np.array_equal(first, last, equal_nan=True)

    @property
    def kind(self) -> str:
        """How derivatives are computed, for the attributes of a result."""
        return "differences" if self.symbolic is None else "symbolic"

    def at_rest(self, x: np.ndarray) -> np.ndarray:
        """Variables, and delayed values that equal them."""
        return np.concatenate([x, x[self.delayed]])

    def slopes(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Derivatives by time, shape [variable, state]; `p` has shape [parameter(, state)]."""
        if self.symbolic is not None:
            return self.symbolic.slopes(w, p)
        each = p.T if p.ndim == 2 else [p] * w.shape[1]
        return np.stack([self._call(x, q) for x, q in zip(w.T, each, strict=True)], axis=1)

    def jacobian(self, w: np.ndarray, p: np.ndarray, *, rough: bool = False) -> np.ndarray:
        """Derivatives of slopes by variables and delayed values, [variable, column, state].

        If they are differences, `rough` ones, good enough for Newton's method, are of second order.
        """
        if self.symbolic is None:
            return self._differences(w, p, rough)
        found = self.symbolic.jacobian(w, p)
        bad = ~np.isfinite(found).all(axis=(0, 1))
        if bad.any():  # a power of zero with a symbol as its exponent, for example
            found[:, :, bad] = self._differences(w[:, bad], p[:, bad] if p.ndim == 2 else p, rough)
        return found

    def _differences(self, w: np.ndarray, p: np.ndarray, rough: bool) -> np.ndarray:
        step, difference = (1e-4, _rough_difference) if rough else (_STEP, _difference)
        found = np.empty((self.size, w.shape[0], w.shape[1]))
        for column in range(w.shape[0]):
            scale = np.maximum(np.abs(w[column]), 1e-2 * _largest(w))

            def moved(offset: float, column: int = column, scale: Any = scale) -> np.ndarray:
                other = w.copy()
                other[column] += offset * step * scale
                return self.slopes(other, p)

            found[:, column] = difference(moved) / (step * scale)
        return found

    def by_parameter(self, w: np.ndarray, p: np.ndarray, index: int) -> np.ndarray:
        """Derivatives of slopes by one parameter, shape [variable, state]."""
        if self.symbolic is not None:
            found = self.symbolic.by_parameter(w, p, index)
            if np.isfinite(found).all():
                return found
        scale = np.maximum(np.abs(p[index]), 1e-3)

        def moved(offset: float) -> np.ndarray:
            other = p.copy()
            other[index] += offset * _STEP * scale
            return self.slopes(w, other)

        return _difference(moved) / (_STEP * scale)

    def second(self, w: np.ndarray, p: np.ndarray, *along: np.ndarray) -> np.ndarray:
        """The second derivative along two directions, which may be complex, shape [variable]."""
        tensors = None if self.symbolic is None else self.symbolic.tensors
        if tensors is not None:
            return tensors.contracted(w, p, along)
        return _along_parts(lambda *parts: self._second(w, p, *parts), along)

    def third(self, w: np.ndarray, p: np.ndarray, *along: np.ndarray) -> np.ndarray:
        """The third derivative along three directions, which may be complex, shape [variable]."""
        tensors = None if self.symbolic is None else self.symbolic.tensors
        if tensors is not None:
            return tensors.contracted(w, p, along)

        def form(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
            step = _far(w, third)
            moved = _difference(lambda o: self._second(w + o * step * third, p, first, second))
            return moved / step

        return _along_parts(form, along)

    def _second(
        self, w: np.ndarray, p: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:
        step = _far(w, second)

        def moved(offset: float) -> np.ndarray:
            here = w + offset * step * second
            return np.asarray(self.jacobian(here[:, None], p, rough=True)[:, :, 0] @ first)

        return _difference(moved) / step

    def _call(self, w: np.ndarray, p: np.ndarray, time: float = 0.0) -> np.ndarray:
        values = tuple(map(float, w))
        here, there = values[: self.size], values[self.size :]
        history = (there,) if self.delay_count else ()
        try:
            return np.array(self.field.function(time, here, *history, tuple(map(float, p))), float)
        except (ArithmeticError, ValueError, TypeError):
            return np.full(self.size, np.nan)


def _difference(moved: Callable[[float], np.ndarray]) -> np.ndarray:
    """The first derivative of a function of an offset, at zero."""
    return np.asarray(sum(weight * moved(o) for o, weight in zip(_OFFSETS, _WEIGHTS, strict=True)))


def _rough_difference(moved: Callable[[float], np.ndarray]) -> np.ndarray:
    return (moved(1.0) - moved(-1.0)) / 2


def _far(w: np.ndarray, along: np.ndarray) -> float:
    """Step along a direction for differences of the Jacobian."""
    return 3e-2 * float(_largest(w)) / max(float(np.abs(along).max()), 1e-300)


def _largest(w: np.ndarray) -> np.ndarray:
    """The largest value of each state; 1 if all are zero."""
    found = np.abs(w).max(axis=0)
    return np.where(found > 0, found, 1.0)


def _along_parts(form: Callable[..., np.ndarray], directions: Sequence[np.ndarray]) -> np.ndarray:
    """A multilinear form of real directions, for complex ones."""
    if not any(np.iscomplexobj(one) for one in directions):
        return form(*directions)
    total: Any = 0.0
    for place in np.ndindex((2,) * len(directions)):
        parts = [one.imag if k else one.real for one, k in zip(directions, place, strict=True)]
        if all(part.any() for part in parts):
            total = total + 1j ** sum(place) * form(*parts)
    return np.asarray(total + np.zeros(1, complex))


class _Symbolic:
    """Functions that SymPy derives and NumPy evaluates."""

    def __init__(self, field: VectorField) -> None:
        self._symbols = symbols = Symbols(field)
        self._inputs = [*symbols.y, *symbols.yd]
        self._arguments = [*self._inputs, *symbols.p]
        self.depends_on_time = any(symbols.t in one.free_symbols for one in symbols.slopes)
        self._size = len(symbols.y)
        entries = [slope.diff(one) for slope in symbols.slopes for one in self._inputs]
        self._entries = [(k, one) for k, one in enumerate(entries) if one != 0]
        if self.depends_on_time:
            return
        self._slopes = self._function(symbols.slopes)
        self._jacobian = self._function([one for _, one in self._entries])
        self._by_parameter: dict[int, Any] = {}
        # A derivative that NumPy has no function for fails when it is evaluated.
        trial = np.full((len(self._inputs), 1), 0.5), np.full(len(symbols.p), 0.5)
        self.slopes(*trial)
        self.jacobian(*trial)
        for index in range(len(symbols.p)):
            self.by_parameter(*trial, index)

    def _function(self, expressions: Sequence[Any]) -> Callable[..., np.ndarray]:
        import sympy

        raw = sympy.lambdify(self._arguments, list(expressions), modules="numpy", cse=True)

        def values(w: np.ndarray, p: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                rows = raw(*w, *np.asarray(p, float))
            found = np.empty((len(rows), w.shape[1]))
            for row, value in zip(found, rows, strict=True):
                row[:] = value if np.isrealobj(value) else np.nan
            return found

        return values

    def slopes(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self._slopes(w, p)

    def jacobian(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        found = np.zeros((self._size * w.shape[0], w.shape[1]))
        if self._entries:
            found[[k for k, _ in self._entries]] = self._jacobian(w, p)
        return found.reshape(self._size, w.shape[0], w.shape[1])

    def by_parameter(self, w: np.ndarray, p: np.ndarray, index: int) -> np.ndarray:
        if index not in self._by_parameter:
            symbol = self._symbols.p[index]
            self._by_parameter[index] = self._function(
                [slope.diff(symbol) for slope in self._symbols.slopes]
            )
        found: np.ndarray = self._by_parameter[index](w, p)
        return found

    @cached_property
    def tensors(self) -> _Tensors | None:
        """Second and third derivatives; None if they are too many."""
        levels: list[list[tuple[tuple[int, ...], Any]]] = []
        width = len(self._inputs)
        last: list[tuple[tuple[int, ...], Any]]
        last = [((k // width, k % width), one) for k, one in self._entries]
        for _ in range(2):
            following = [
                ((*place, k), one.diff(self._inputs[k]))
                for place, one in last
                for k in range(place[-1], width)
                if self._inputs[k] in one.free_symbols
            ]
            last = [(place, one) for place, one in following if one != 0]
            if len(last) > _MOST_TERMS:
                return None
            levels.append(last)
        places = [[place for place, _ in level] for level in levels]
        functions = [self._function([one for _, one in level]) for level in levels]
        try:
            for function in functions:
                function(np.full((width, 1), 0.5), np.full(len(self._symbols.p), 0.5))
        except Exception:  # NumPy has no function for a derivative
            return None
        return _Tensors(self._size, places, functions)


class _Tensors:
    """Nonzero second and third derivatives, one for every set of equal derivatives."""

    def __init__(
        self, size: int, places: list[list[tuple[int, ...]]], functions: list[Any]
    ) -> None:
        self._size, self._places, self._functions = size, places, functions

    def contracted(self, w: np.ndarray, p: np.ndarray, along: Sequence[np.ndarray]) -> np.ndarray:
        """The derivative along two or three directions."""
        level = len(along) - 2
        kind = complex if any(np.iscomplexobj(one) for one in along) else float
        found = np.zeros(self._size, kind)
        if not self._places[level]:
            return found
        values = self._functions[level](w[:, None], p)[:, 0]
        for (row, *columns), value in zip(self._places[level], values, strict=True):
            for order in set(permutations(columns)):
                term = value
                for direction, column in zip(along, order, strict=True):
                    term = term * direction[column]
                found[row] += term
        return found


@lru_cache(maxsize=32)
def _symbolic(text: str, field: VectorField) -> _Symbolic | None:
    try:
        return _Symbolic(field)
    except Exception:  # SymPy is not installed, or the function cannot be called with symbols
        return None
