"""Observables: quantities accumulated during the integration, without storing states.

A built-in observable is source text for its variable; a user-defined one is three functions.  All
observables of a run are combined into one triple of functions in the kernel.  Within a step, or an
eighth of a step of order eight, the solution is the cubic Hermite interpolant of both ends.
`max_step` of `integrate` limits the interpolation error of long steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ergode.core.arguments import check_distinct, check_text, did_you_mean, integer
from ergode.core.compiler.language import UserFunction
from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.compiler.syntax import function_from_text
from ergode.core.errors import ModelError
from ergode.models.fields.inputs import ready
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.steppers import observing


@dataclass(frozen=True)
class Observable(HoldsFunctions):
    """A user-defined observable: accumulators, their update in every step, and a final result.

    Parameters
    ----------
    begin : function
        ``begin(t, y, p) -> tuple`` of the initial accumulators, when observing begins.
    update : function
        ``update(s, t, y, f, t1, y1, f1, p) -> tuple``: the accumulators after a step. `s` are the
        accumulators before it; `t`, `y`, `f` are time, state and slope at its beginning, `t1`,
        `y1`, `f1` at its end.
    result : function
        ``result(s, t, y, p) -> tuple`` of one number, at the end of the trajectory.
    name : str
        Name in results.
    size : int
        Number of accumulators.

    Examples
    --------
    >>> import ergode
    >>> def begin(t, y, p):
    ...     return (0.0,)
    >>> def update(s, t, y, f, t1, y1, f1, p):
    ...     return (s[0] + 0.5 * (t1 - t) * (y[0] ** 2 + y1[0] ** 2),)
    >>> def result(s, t, y, p):
    ...     return (s[0],)
    >>> energy = ergode.trajectories.Observable(begin, update, result, name="energy")
    """

    begin: Callable[..., tuple[Any, ...]]
    update: Callable[..., tuple[Any, ...]]
    result: Callable[..., tuple[Any, ...]]
    name: str
    size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("Observable", "name", self.name)
        object.__setattr__(self, "size", integer("size of an Observable", self.size, 0, 1_000_000))


@dataclass(frozen=True)
class _OfVariable(HoldsFunctions):
    """An observable of one variable, or where variables are arrays of a function.

    The function is ``q(t, y, p)`` and returns a number; constants are a last argument. The default
    name says what is observed.
    """

    variable: str | Callable[..., Any]
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(type(self).__name__, "name", self.name)
        if not self.name:
            of = self.variable
            if not isinstance(of, str):
                of = getattr(of, "__name__", "function")
                of = of if of.isidentifier() else "function"
            object.__setattr__(self, "name", self._usual_name(of))

    def texts(self, i: int, at: int) -> tuple[list[str], list[str], str]:
        """Expressions: initial accumulators s[at], ...; their values after a step; the result."""
        raise NotImplementedError

    def _usual_name(self, of: str) -> str:
        return f"{type(self).__name__.lower()} of {of}"


class Maximum(_OfVariable):
    """Largest value of a variable, including values within steps.

    Parameters
    ----------
    variable : str or function
        Name of the variable. Where variables are arrays, a function ``q(t, y, p)`` of the state
        that returns a number; `y` is as for `component`, and constants are a last argument.
    name : str, optional
        Name in results. The default says what is observed.

    Examples
    --------
    >>> import ergode
    >>> ergode.trajectories.Maximum("x").name
    'maximum of x'
    """

    def texts(self, i: int, at: int) -> tuple[list[str], list[str], str]:
        top = f"highest(t1 - t, y[{i}], f[{i}], y1[{i}], f1[{i}])"
        return [f"y[{i}]"], [f"max(s[{at}], {top})"], f"s[{at}]"


class Minimum(_OfVariable):
    """Smallest value of a variable, including values within steps.

    Parameters
    ----------
    variable : str or function
        As for `Maximum`.
    name : str, optional
        As for `Maximum`.
    """

    def texts(self, i: int, at: int) -> tuple[list[str], list[str], str]:
        bottom = f"-highest(t1 - t, -y[{i}], -f[{i}], -y1[{i}], -f1[{i}])"
        return [f"y[{i}]"], [f"min(s[{at}], {bottom})"], f"s[{at}]"


class Mean(_OfVariable):
    """Time average of a variable.

    Parameters
    ----------
    variable : str or function
        As for `Maximum`.
    name : str, optional
        As for `Maximum`.
    """

    def texts(self, i: int, at: int) -> tuple[list[str], list[str], str]:
        area = f"area(t1 - t, y[{i}], f[{i}], y1[{i}], f1[{i}])"
        return (
            ["0.0", "0.0"],
            [f"s[{at}] + {area}", f"s[{at + 1}] + (t1 - t)"],
            f"s[{at}] / s[{at + 1}]",
        )


@dataclass(frozen=True)
class TimeAbove(_OfVariable):
    """Total time for which a variable is above a level [time].

    Parameters
    ----------
    variable : str or function
        As for `Maximum`.
    level : float
        The level, in units of the variable.
    name : str, optional
        As for `Maximum`.
    """

    level: float = 0.0

    def __post_init__(self) -> None:
        level: Any = self.level
        number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
        if not (number and math.isfinite(level)):
            raise ModelError(f"TimeAbove: level is {level!r}; expected a finite number")
        object.__setattr__(self, "level", float(level))
        super().__post_init__()

    def texts(self, i: int, at: int) -> tuple[list[str], list[str], str]:
        part = (
            f"part_above(t1 - t, y[{i}] - {self.level!r}, f[{i}], y1[{i}] - {self.level!r}, "
            f"f1[{i}])"
        )
        return ["0.0"], [f"s[{at}] + (t1 - t) * {part}"], f"s[{at}]"

    def _usual_name(self, of: str) -> str:
        return f"time of {of} above {self.level:g}"


def check_observables(observables: Sequence[Any], model: VectorField) -> tuple[Any, ...]:
    """The observables, checked, with functions in the form that is compiled.

    Raises a ModelError if an element is not an observable, names an unknown variable or has a
    function of wrong form, or two have equal names.
    """
    n, m, known = len(model.variables), len(model.parameters), model.parameters
    found = []
    for one in observables:
        if isinstance(one, _OfVariable):
            if not isinstance(one.variable, str):
                raise ModelError(
                    f"observable '{one.name}' is of a function; where variables are single "
                    "numbers, expected the name of one, or an ergode.trajectories.Observable"
                )
            if one.variable not in model.variables:
                raise ModelError(
                    f"{one!r} names a variable that the field does not have; it has "
                    f"{', '.join(model.variables)}{did_you_mean(one.variable, model.variables)}"
                )
        elif isinstance(one, Observable):
            kept = [f"number {j}" for j in range(one.size)]
            what = f"of observable '{one.name}'"
            moment: dict[str, int | None] = {"t": None, "y": n}
            begin = ready(one.begin, {**moment, "p": m}, kept, f"begin {what}", known)
            step: dict[str, int | None] = {"s": one.size, **moment, "f": n, "t1": None}
            step.update({"y1": n, "f1": n, "p": m})
            update = ready(one.update, step, kept, f"update {what}", known)
            end = {"s": one.size, **moment, "p": m}
            result = ready(one.result, end, [one.name], f"result {what}", known)
            one = replace(one, begin=begin, update=update, result=result)
        else:
            raise ModelError(
                f"observables has {one!r}; expected ergode.trajectories.Maximum, Minimum, Mean, "
                "TimeAbove or Observable"
            )
        found.append(one)
    check_distinct("observables", [one.name for one in observables])
    return tuple(found)


def bindings_of_observables(observables: Sequence[Any], model: VectorField) -> dict[Any, Any]:
    """Bindings of a kernel with these observables."""
    names: dict[str, Any] = {
        "highest": observing.highest,
        "area": observing.area,
        "part_above": observing.part_above,
    }
    begins: list[str] = []
    updates: list[str] = []
    results: list[str] = []
    before = {"begin": "", "update": "", "result": ""}
    for number, one in enumerate(observables):
        at = len(begins)
        if isinstance(one, _OfVariable):
            # Where variables are arrays, each has a function in place of a variable.
            place = number if model.arrays else model.variables.index(one.variable)
            begin, update, result = one.texts(place, at)
            begins += begin
            updates += update
            results.append(result)
            continue
        own = f"({''.join(f's[{at + j}], ' for j in range(one.size))})"
        for what, call in (
            ("begin", "(t, y, p)"),
            ("update", f"({own}, t, y, f, t1, y1, f1, p)"),
            ("result", f"({own}, t, y, p)"),
        ):
            names[f"{what}_{number}"] = getattr(one, what)
            before[what] += f"    {what}_value_{number} = {what}_{number}{call}\n"
        begins += [f"begin_value_{number}[{j}]" for j in range(one.size)]
        updates += [f"update_value_{number}[{j}]" for j in range(one.size)]
        results.append(f"result_value_{number}[0]")

    def made(name: str, arguments: str, what: str, values: list[str]) -> UserFunction:
        inside = "".join(f"{value}, " for value in values)
        text = f"def {name}({arguments}):\n{before[what]}    return ({inside})\n"
        form = ((len(values),), parameters) if values else (None, None)
        return UserFunction(function_from_text(text, names), *form)

    parameters = None if model.arrays else len(model.parameters)
    bindings: dict[Any, Any] = {
        observing.begin_observing: made("begin_observing", "t, y, p", "begin", begins)
    }
    if begins:
        updated = made("keep_observing", "s, t, y, f, t1, y1, f1, p", "update", updates)
        bindings |= {observing.SEEN: len(begins), observing.keep_observing: updated}
    if results:
        seen = made("observed", "s, t, y, p", "result", results)
        bindings |= {observing.OBSERVED: len(results), observing.observed: seen}
    return bindings
