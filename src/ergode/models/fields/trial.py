"""Trials of the functions of a field of arrays, in Python, before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from time import thread_time
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ergode.core.errors import ModelError
from ergode.models.fields.functions import failing_line
from ergode.models.fields.interpolants import Interpolant

# Time limit of trying a function [s], and largest number of unknowns of a complete trial.
_PATIENCE, _TRIED_WHOLE = 0.2, 20_000


class Trial:
    """Calls functions in Python with trial states, to check that they work."""

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], is_single: bool, parameter_count: int,
        constants: Mapping[str, Any], late: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.shapes, self.is_single, self.data = shapes, is_single, constants
        self.state = self._views(0.5, False)
        arrays = [self.state] if is_single else [*vars(self.state).values()]
        self.late = (tuple(arrays[v] for v in late),) if late else ()
        self.p = (0.5,) * parameter_count
        tables = (one for one in constants.values() if isinstance(one, Interpolant))
        self.t = next((float(one.times[0]) for one in tables), 0.5)
        self.c = (SimpleNamespace(**constants),) if constants else ()
        self.until = thread_time() + _PATIENCE

    def _views(self, value: float, writeable: bool) -> Any:
        views = {}
        for name, shape in self.shapes.items():
            views[name] = np.full(shape, value)
            views[name].flags.writeable = writeable
        return next(iter(views.values())) if self.is_single else SimpleNamespace(**views)

    def component(self, function: FunctionType, name: str, what: str) -> None:
        """Try a component at the ends and in the middle of every index."""
        for place in _places(self.shapes[name]):
            if thread_time() > self.until:
                return
            arguments = (*place, self.t, self.state, *self.late, self.p, *self.c)
            value = self._call(function, what, place, arguments)
            if value is not None and not isinstance(value, int | float | np.number):
                raise ModelError(f"{what} returns {value!r}; expected a number")

    def history(self, function: FunctionType, name: str, what: str, begin: float) -> None:
        """Try the history of an array where it ends: it must be finite."""
        self.until = thread_time() + _PATIENCE
        for place in _places(self.shapes[name]):
            if thread_time() > self.until:
                return
            value = self._call(function, what, place, (*place, begin, *self.c), math.nan)
            if not (isinstance(value, int | float | np.number) and np.isfinite(value)):
                raise ModelError(
                    f"{what} at {place[0] if len(place) == 1 else place} is {value!r} at the time "
                    f"{begin:g}; expected a finite number"
                )

    def whole(self, function: FunctionType) -> None:
        """Try a function that fills an array of derivatives."""
        if not self._is_small:
            return
        slopes = self._views(math.nan, True)
        arguments = (self.t, self.state, *self.late, slopes, self.p, *self.c)
        if self._call(function, "rhs", (), arguments, 0.0) is None:
            return
        views = {next(iter(self.shapes)): slopes} if self.is_single else vars(slopes)
        for name, found in views.items():
            left = np.argwhere(np.isnan(found))
            if left.size:
                where = ", ".join(map(str, left[0]))
                dot = "" if self.is_single else f".{name}"
                raise ModelError(f"rhs does not set dy{dot}[{where}], of variable '{name}'")

    def of_state(self, function: FunctionType, what: str) -> None:
        """Try a function of the whole state."""
        if self._is_small:
            arguments = (self.t, self.state, *self.late, self.p, *self.c)
            value = self._call(function, what, (), arguments)
            if value is not None and not isinstance(value, int | float | np.number):
                raise ModelError(f"{what} returns {value!r}; expected a number")

    def change(self, function: FunctionType, what: str) -> None:
        """Try a function that changes a state."""
        if self._is_small:
            state = self._views(0.5, True)
            self._call(function, what, (), (self.t, state, self.p, *self.c))

    @property
    def _is_small(self) -> bool:
        return sum(map(math.prod, self.shapes.values())) <= _TRIED_WHOLE

    def _call(
        self, function: FunctionType, what: str, place: tuple[int, ...],
        arguments: tuple[Any, ...], nothing: Any = None,
    ) -> Any:  # fmt: skip
        where = f" at {place[0] if len(place) == 1 else place}" if place else ""
        try:
            with np.errstate(all="ignore"):
                value = function(*arguments)
        except ArithmeticError:
            return None  # not defined for the trial numbers
        except ValueError as error:
            if "read-only" in str(error):
                raise ModelError(f"{what} changes its arguments; expected a function that "
                                 "only returns numbers") from None  # fmt: skip
            return None
        except Exception as error:
            kind = "" if isinstance(error, IndexError) else f"{type(error).__name__}: "
            said = f"{kind}{error}{failing_line(error)}"
            raise ModelError(f"{what}{where} failed: {said}") from None
        return nothing if value is None else value


def _places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All indices of a small array; those at the ends and in the middle of a large one."""
    few = math.prod(shape) <= 64
    return product(*(range(n) if few else sorted({0, 1, n // 2, n - 2, n - 1} & {*range(n)})
                     for n in shape))  # fmt: skip
