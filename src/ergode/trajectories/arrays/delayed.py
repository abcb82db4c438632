"""Delays of fields of arrays: the history that a user gives, breaking points, and memory."""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

import numpy as np

from ergode.core.calls import launch
from ergode.core.devices import Device
from ergode.core.errors import ModelError, PlanError
from ergode.models.fields.arrays import ArrayField, by_variable
from ergode.models.fields.vector_field import VectorField
from ergode.trajectories.adaptive.outcome import Control
from ergode.trajectories.arrays import past
from ergode.trajectories.arrays.equations import by_array, linked_function
from ergode.trajectories.arrays.past import Delays, Past
from ergode.trajectories.delays.history import History

# Slots of the ring of a run with tolerances: at first, and memory up to which there may be more.
_SLOTS, _SLOTS_MOST, _SLOTS_BYTES = 64, 2048, 2**22
# Breaking points of a trajectory that tolerances leave to themselves, and those of fixed steps.
_KNOTS, _KNOTS_FIXED = 2_000, 100_000
_ROUNDING = 1e-13


def history_functions(field: VectorField, history: Any, begin: float) -> tuple[FunctionType, ...]:
    """The compiled form of a history of arrays, a function for each; () if it is constant.

    Raises
    ------
    ModelError
        The field has no delays, or the history is invalid.
    """
    if history is None:
        return ()
    arrays = field.arrays
    assert arrays is not None
    if not field.delays:
        raise ModelError("history is given, but the vector field has no delays")
    if isinstance(history, History) or hasattr(history, "dims"):
        raise ModelError(
            "a history of variables that are arrays is a function, such as history(i, t); samples "
            "and jumps are for single variables"
        )
    given = by_variable("history", history, arrays.by_name, arrays.is_single)
    reader = arrays.reader(len(field.parameters))
    return tuple(reader.history(one, name, begin) for name, one in given.items())


class Delayed:
    """The delays of a run of a field of arrays.

    Parameters
    ----------
    arrays : ArrayField
    history : tuple of function
        See `history_functions`.
    order : int
        Order of the method: up to this sum of delays the breaking points are found.
    powers : int
        Degree of its dense output.
    control, times, device, precision
        As for `integrate`, already checked.

    Attributes
    ----------
    knots : ndarray
        Further times that no step crosses: of recorded data, and where observing begins.
    """

    def __init__(
        self, arrays: ArrayField, history: tuple[FunctionType, ...], order: int, powers: int,
        control: Control, times: np.ndarray, device: Device, precision: str,
    ) -> None:  # fmt: skip
        self.arrays, self._history, self._order, self._control = arrays, history, order, control
        self._device, self._precision, self._rows = device, precision, powers + 1
        self._begin, self._end = float(times[0]), float(times[-1])
        sizes = np.diff(arrays.begins)
        self.values = int(sum(sizes[v] for v, _ in arrays.delays))
        self._kept = tuple(dict.fromkeys(v for v, _ in arrays.delays))
        self._columns = int(sum(sizes[v] for v in self._kept))
        self.knots = arrays.knots
        self._growth = 1
        self.slots = 1

    @property
    def bindings(self) -> dict[Any, Any]:
        """Bindings of the kernel."""
        if not self.arrays.delays:
            return {}
        found: dict[Any, Any] = {
            past.TAUS: tuple(tau for _, tau in self.arrays.delays),
            past.OF: tuple(v for v, _ in self.arrays.delays),
            past.KEPT: self._kept,
        }
        if self._history:
            named = {f"history_{v}": one for v, one in enumerate(self._history)}
            numbers = tuple(len(shape) for shape in self.arrays.shapes)
            c = ", c" if self.arrays.constants else ""
            calls = by_array(numbers, lambda v, index: f"real(history_{v}({index}, t{c}))")
            text = f"def history_of(v, row, j, t, c, shapes):\n{calls}"
            found |= {past.HAS_HISTORY: True, past.history_of: linked_function(text, named)}
        return found

    @property
    def begins(self) -> np.ndarray:
        """`Run.begins`: the first unknown of each array, and then of the delayed values."""
        sizes = np.diff(self.arrays.begins)
        late = np.cumsum([0, *(sizes[v] for v, _ in self.arrays.delays)])
        return np.append(self.arrays.begins, self.arrays.size + late[:-1]).astype(np.int64)

    @property
    def numbers(self) -> int:
        """Numbers of one trajectory's ring, with the delayed values of its stages."""
        if not self.arrays.delays:
            return 0
        return self.slots * (self._rows * self._columns + 2) + 4 * self.values

    def reserve(self, parameters: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Choose the slots of trajectories with these parameters, steps of one size up to `sizes`.

        Returns their breaking points [knot, trajectory or 1].

        Raises
        ------
        PlanError
            There are too many breaking points, or the history does not fit in memory.
        """
        if not self.arrays.delays:
            return np.zeros((0, 1))
        taus = np.array([parameters[tau] for _, tau in self.arrays.delays], np.float64)
        knots = self._knots(taus)
        self._set_slots(taus, knots, sizes)
        return knots

    def arguments(self, parameters: np.ndarray, sizes: np.ndarray) -> Delays:
        """Kernel arguments for these trajectories (see `reserve`)."""
        put, places = self._device.put, np.full(len(self.arrays.shapes), -1, np.int64)
        columns = 0
        for v in self._kept:
            places[v] = columns
            columns += math.prod(self.arrays.shapes[v])
        knots = self.reserve(parameters, sizes)
        if not len(knots):  # an array of nothing is not for every device
            knots = np.full((1, 1), np.inf)
        return Delays(
            put(knots.astype(self._precision)), put(places), np.int64(self.slots),
            np.int64(max(1, columns)), np.int64(self.values),
        )  # fmt: skip

    def grow(self) -> None:
        """Give the history more room: trajectories took more steps in a delay than expected."""
        self._growth *= 4

    def storage(self, lead: tuple[int, ...], last: tuple[int, ...]) -> Past:
        """The rings of groups, with these axes before or after their own."""
        empty, precision = self._device.empty, self._precision
        rows, columns, slots = self._rows, max(1, self._columns), self.slots
        counts = past.READ + len(self.arrays.delays)
        return Past(
            empty((*lead, slots, rows, columns, *last), precision),
            empty((*lead, slots, *last), precision), empty((*lead, slots, *last), precision),
            self._device.zeros((*lead, counts, *last), np.int64),
        )  # fmt: skip

    def _set_slots(self, taus: np.ndarray, knots: np.ndarray, sizes: np.ndarray) -> None:
        """Steps within the longest delay, and some: exactly for fixed steps, else a guess."""
        # Beyond the end of the run nothing is read.
        span = self._end - self._begin
        longest, shortest = np.minimum(taus.max(axis=0), span), taus.min(axis=0)
        size = np.minimum(shortest, sizes) if self._control.step is not None else shortest
        finite = int(np.isfinite(knots).sum(axis=0).max(initial=0))
        with np.errstate(over="ignore", divide="ignore"):
            steps = float(np.max(longest / size, initial=0.0)) + finite + 8
        word = np.dtype(self._precision).itemsize
        each = self._rows * self._columns * word
        if self._control.step is None:
            most = min(max(_SLOTS_BYTES // each, _SLOTS), _SLOTS_MOST)
            steps = min(2 * steps + _SLOTS, most) * self._growth
        remedy = "choose a larger tolerance or step, or a method whose dense output has fewer terms"
        room = launch.count_that_fits(self._device, each, "one step of the history", remedy)
        if self._device.target == "cpu":  # every thread follows a trajectory
            room //= max(1, min(self._device.core_count, taus.shape[1]))
        if steps > room:
            raise PlanError(
                f"the history of one trajectory has {steps:,.0f} steps of {each / 1e6:.2g} MB in "
                f"its longest delay, and there is room for {room:,}; {remedy}"
            )
        self.slots = math.ceil(steps)

    def _knots(self, taus: np.ndarray) -> np.ndarray:
        """Breaking points [knot, trajectory or 1] and further knots, ascending."""
        fixed = self._control.step is not None
        if np.ptp(taus, axis=1).max(initial=0.0) == 0.0:
            taus = taus[:, :1]
        most = _KNOTS_FIXED if fixed else _KNOTS
        span = self._end - self._begin
        near = _ROUNDING * (abs(self._begin) + span)
        level = found = np.zeros((1, taus.shape[1]))
        for _ in range(self._order):
            level = _distinct((level[:, None] + taus[None]).reshape(-1, taus.shape[1]), span, near)
            both = _distinct(np.concatenate([found, level]), span, near)
            if len(both) > most:
                if fixed:
                    raise PlanError(
                        f"sums of delays are more than {most:,} breaking points, the ends of steps "
                        "of one size; leave out the step"
                    )
                break  # the error estimate finds the others
            found = both
        recorded = self.knots - self._begin
        times = np.broadcast_to(recorded[:, None], (recorded.size, taus.shape[1]))
        return self._begin + _distinct(np.concatenate([found[1:], times]), span, near)


def _distinct(sums: np.ndarray, span: float, near: float) -> np.ndarray:
    """Distinct times up to `span` in every column, ascending, then infinity."""
    sums = np.sort(np.where(sums < span, sums, np.inf), axis=0)
    with np.errstate(invalid="ignore"):
        again = np.diff(sums, axis=0) <= near
    sums[1:][again] = np.inf
    sums = np.sort(sums, axis=0)
    return sums[np.isfinite(sums).any(axis=1)]
