"""The history before the first time of a run: a function or samples, with its jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core.compiler.portable import HoldsFunctions
from ergode.core.compiler.syntax import as_function
from ergode.core.errors import ModelError
from ergode.core.words import counted
from ergode.models.fields.functions import check_function
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.delays.history_ring import hermite_slope_weights, hermite_weights

_JUMP = 1e-9
# Weights of one-sided finite differences: values at sixths of a distance give the slope.
_ONE_SIDED = np.array([-147.0, 360.0, -450.0, 400.0, -225.0, 72.0, -10.0]) / 10.0


class History(HoldsFunctions):
    """The history of a delay equation: a function or samples, and the times of its jumps.

    Parameters
    ----------
    past : function or array_like, shape [sample_count]
        A function ``history(t) -> tuple`` of all variables, or ascending times of samples [time].
    values : array_like, shape [sample_count, variable_count] or with trajectories last, optional
        The samples.  A cubic spline interpolates them; its error is O(spacing^4).
    jumps : sequence of float
        Times at which the history or its slope jumps, before the first time of the run [time].  At
        a jump, a function returns its value after the jump, and a sample is the value after it.

    Raises
    ------
    ModelError
        Times do not ascend, samples are too few, or shapes do not agree.

    Examples
    --------
    >>> import numpy as np
    >>> import ergode
    >>> times = np.linspace(-2, 0, 41)
    >>> sampled = ergode.trajectories.History(times, np.cos(times)[:, None])
    >>> def switched(t):
    ...     return (1.0 if t < -0.5 else 0.0,)
    >>> stepped = ergode.trajectories.History(switched, jumps=[-0.5])
    """

    def __init__(
        self, past: Any, values: ArrayLike | None = None, *, jumps: Sequence[float] = ()
    ) -> None:
        self.function: Callable[[float], tuple[float, ...]] | None = None
        self.times = np.empty(0)
        self.values = np.empty((0, 0, 1))
        self.jumps = np.sort(np.asarray(jumps, float).ravel())
        if not np.isfinite(self.jumps).all():
            raise ModelError(f"jumps of a history are {list(jumps)}; expected finite times")
        if callable(past):
            if values is not None:
                raise ModelError("a history is a function or samples, not both")
            self.function = as_function(past)
            return
        if values is None:
            raise ModelError("a history of samples has times and values; there are no values")
        self.times = np.asarray(past, float)
        array = np.asarray(values, float)
        self.values = array if array.ndim == 3 else array[..., None]
        if self.times.ndim != 1 or self.values.ndim != 3 or len(self.values) != self.times.size:
            raise ModelError(
                f"samples of a history have shape {array.shape} at times of shape "
                f"{self.times.shape}; expected [{self.times.size}, variable_count]"
            )
        if not (np.diff(self.times) > 0).all():
            raise ModelError("times of a history's samples must ascend")
        if not np.isfinite(self.values).all():
            raise ModelError("samples of a history must be finite numbers")
        for first, last in self._segments:
            if last - first < 2:
                raise ModelError(
                    f"a history has fewer than two samples between its jumps, at time "
                    f"{self.times[first]:g}"
                )

    @cached_property
    def _segments(self) -> list[tuple[int, int]]:
        """Half-open range of the samples of every piece between jumps."""
        cuts = np.searchsorted(self.times, self.jumps - 1e-12 * (1 + np.abs(self.jumps)))
        ends = [0, *(int(c) for c in cuts if 0 < c < self.times.size), self.times.size]
        return list(zip(ends[:-1], ends[1:], strict=True))

    @cached_property
    def _splines(self) -> list[Any]:
        from scipy.interpolate import CubicSpline, make_interp_spline

        splines = []
        for first, last in self._segments:
            times, values = self.times[first:last], self.values[first:last]
            few = last - first < 4
            splines.append(
                make_interp_spline(times, values, k=last - first - 1)
                if few
                else CubicSpline(times, values)
            )
        return splines

    def at(self, t: np.ndarray, before: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Values and slopes [..., variable, trajectory] of the spline, on one side of a jump."""
        tiny = 1e-12 * (1 + np.abs(t))
        part = np.searchsorted(self.jumps, t - tiny if before else t + tiny)
        inside = np.searchsorted(self.jumps, self.times[0] + 1e-12)  # jumps before the samples
        part = np.clip(part - inside, 0, len(self._splines) - 1)
        values = np.empty((*t.shape, *self.values.shape[1:]))
        slopes = np.empty_like(values)
        for number, spline in enumerate(self._splines):
            here = part == number
            values[here], slopes[here] = spline(t[here]), spline(t[here], 1)
        return values, slopes

    def beside(self, t: float, way: float) -> tuple[np.ndarray, np.ndarray]:
        """One-sided value and slope of every variable at `t`, from times between `t`, `t + way`."""
        if self.function is None:
            values, slopes = self.at(np.array([t]), before=way < 0)
            return values[0], slopes[0]
        tiny = np.sign(way) * 4e-16 * max(abs(t), abs(way))
        found = np.array([self.function(t + (way * k / 6 if k else tiny)) for k in range(7)], float)
        return found[0][:, None], (_ONE_SIDED @ found / way)[:, None]


@dataclass(frozen=True)
class InitialHistory:
    """The checked history of a run."""

    history: History | None  # None for a constant history, equal to the initial state
    jumps: bool  # whether the end of the history differs from the initial state
    delayed: tuple[int, ...]  # the variables that the history stores
    # [jump_count, row_count]: jumps of the history, as rows of
    # `segments.StoredHistory.breakpoints`.
    breakpoints: np.ndarray
    # Of variables that are arrays, a function for each (see `arrays.delayed`); () if constant.
    functions: tuple[FunctionType, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether the history is samples."""
        return self.history is not None and self.history.function is None

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Samples, by what messages call them."""
        return {"history": self.history.values} if self.history is not None else {}

    @property
    def function(self) -> Callable[[float], tuple[float, ...]] | None:
        """The history, if it is a function."""
        return None if self.history is None else self.history.function

    def points(self, begin: float, width: np.ndarray, period: int, which: np.ndarray) -> np.ndarray:
        """Initial values and slopes (times `width`) of a ring [slot, variable, 2, column].

        There is one column if all trajectories have the same history and width, else one column
        for every trajectory.
        """
        assert self.history is not None
        if np.ptp(width) == 0:
            width = width[:1]
        offsets = np.arange(1 - period, 1)
        times = begin + offsets[:, None] * width
        values, slopes = self.history.at(times)
        own = values.shape[-1] > 1
        if own:  # every trajectory has its own samples
            cells = np.arange(which.size) if width.size > 1 else np.zeros(which.size, int)
            values, slopes = (
                np.moveaxis(array[:, cells, :, which], 0, -1) for array in (values, slopes)
            )
            width = width[cells]
        else:
            values, slopes = (np.moveaxis(array[..., 0], 1, -1) for array in (values, slopes))
        columns = width.size
        points = np.empty((period + 1, len(self.delayed), 2, columns))
        points[0] = 0.0
        points[1:, :, 0] = values[:, list(self.delayed)]
        points[1:, :, 1] = slopes[:, list(self.delayed)] * width
        end, rise = self.history.at(np.array([begin]), before=True)
        points[period, :, 0] = end[0, list(self.delayed)]
        points[period, :, 1] = rise[0, list(self.delayed)] * width
        # Before the first sample the history is the quintic through the three points after it.
        ahead = hermite_weights(-1.0, (0.0, 1.0, 2.0)), hermite_slope_weights(-1.0, (0.0, 1.0, 2.0))
        first = self.history.times[0]
        for slot in range(period - 3, 0, -1):
            known = points[slot + 1 : slot + 4].reshape(3, -1, 2, columns)
            early = (begin + (slot - period) * width) < first - 1e-9 * abs(width)
            for kind in (0, 1):
                went = sum(
                    ahead[kind][2 * j + q] * known[j, :, q] for j in range(3) for q in range(2)
                )
                points[slot, :, kind] = np.where(early, went, points[slot, :, kind])
        return points


def initial_history(
    field: VectorField, history: Any, begin: float, rows: Mapping[str, np.ndarray], count: int
) -> InitialHistory:
    """Check the history of a run, and find its jumps.

    Raises a ModelError if the field has no delays, the function fails or has a wrong form, or the
    samples do not agree with the field or do not reach back by its longest delay.
    """
    delayed = tuple(dict.fromkeys(i for i, _ in field.delayed))
    if history is None:
        return InitialHistory(None, False, delayed, np.zeros((0, 2 + 5 * len(delayed))))
    if not field.delays:
        raise ModelError("history is given, but the vector field has no delays")
    history = _as_history(history, field)
    late = history.jumps[history.jumps >= begin]
    if late.size:
        raise ModelError(f"a history jumps at {late[0]:g}; expected times before {begin:g}")
    if history.function is not None:
        end = _end_of_function(field, history.function, begin)[:, None]
    else:
        _check_samples(field, history, begin, rows, count)
        end = history.at(np.array([begin]), before=True)[0][0]
    jumps = any(
        bool((np.abs(rows[name] - end[i]) > _JUMP * np.maximum(1.0, np.abs(rows[name]))).any())
        for i, name in enumerate(field.variables)
    )
    breakpoints = np.zeros((history.jumps.size, 2 + 5 * len(delayed)))
    ends = np.concatenate([history.jumps, [begin]])
    for j, time in enumerate(history.jumps):
        back = time - ends[j - 1] if j else begin - time
        breakpoints[j, 0] = time
        for side, way in ((0, -0.1 * back), (1, 0.1 * (ends[j + 1] - time))):
            values, slopes = history.beside(float(time), float(way))
            if values.shape[1] > 1:
                raise ModelError(
                    "samples that differ between trajectories cannot jump; give one history"
                )
            for v, i in enumerate(delayed):
                breakpoints[j, 2 + 4 * v + 2 * side] = values[i, 0]
                breakpoints[j, 3 + 4 * v + 2 * side] = slopes[i, 0]
    return InitialHistory(history, jumps, delayed, breakpoints)


def _as_history(history: Any, field: VectorField) -> History:
    if isinstance(history, History):
        return history
    if {"time", "variable"} == set(getattr(history, "dims", ())):
        try:
            values = history.sel(variable=list(field.variables)).transpose("time", "variable")
        except KeyError:
            raise ModelError(
                f"history has the variables {list(history['variable'].values)}; expected "
                f"{', '.join(field.variables)}"
            ) from None
        return History(history["time"].values, values.values)
    if callable(history):
        return History(history)
    raise ModelError(
        f"history is {type(history).__name__}; expected a function of t, an "
        "ergode.trajectories.History, or states with the dims time and variable"
    )


def _end_of_function(
    field: VectorField, history: Callable[[float], tuple[float, ...]], begin: float
) -> np.ndarray:
    check_function(history, {"t": None}, field.variables, "history")
    try:
        values = tuple(float(value) for value in history(begin))
    except Exception as error:
        raise ModelError(f"history({begin:g}) failed: {type(error).__name__}: {error}") from None
    if len(values) != len(field.variables):
        raise ModelError(
            f"history({begin:g}) has {counted(len(values), 'value')} for "
            f"{counted(len(field.variables), 'variable')}"
        )
    return np.array(values)


def _check_samples(
    field: VectorField, history: History, begin: float, rows: Mapping[str, np.ndarray], count: int
) -> None:
    shape = history.values.shape
    if shape[1] != len(field.variables):
        raise ModelError(
            f"samples of a history have {shape[1]} variables; the field has {len(field.variables)}"
        )
    if shape[2] not in (1, count):
        raise ModelError(f"samples of a history are for {shape[2]} trajectories; there are {count}")
    longest = max(
        float(np.max(rows[bound] if isinstance(bound, str) else bound))
        for _, delay in field.delays
        for bound in ([delay] if isinstance(delay, str) else [delay.most])
    )
    tiny = 1e-9 * (abs(begin) + longest)
    if history.times[0] > begin - longest + tiny or history.times[-1] < begin - tiny:
        raise ModelError(
            f"samples of a history are from {history.times[0]:g} to {history.times[-1]:g}; "
            f"expected them from {begin - longest:g}, the longest delay before the first time, to "
            f"{begin:g}"
        )
