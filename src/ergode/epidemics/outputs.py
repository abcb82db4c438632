"""The outputs: data collected from each chunk of replicates, and the resulting Dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ergode.core import results
from ergode.core.arguments import refuse_idle
from ergode.core.calls import resident
from ergode.core.calls.launch import check_room, warn
from ergode.core.calls.resident import beside
from ergode.core.errors import FailureWarning, PlanError
from ergode.core.results import STRATA, SWEPT, Variable
from ergode.core.results.statistics import CountStatistics
from ergode.core.status import Status, failures
from ergode.epidemics.scenario import ENTRIES, MEASURES, Scenario
from ergode.epidemics.shared.clock import on_grid
from ergode.epidemics.shared.ensemble import Ensemble
from ergode.models.epidemic.compartments import CompartmentModel

if TYPE_CHECKING:
    import xarray

Output = Literal["counts", "statistics", "line_list"]

_LEVELS = 0.025, 0.25, 0.5, 0.75, 0.975  # of quantiles
_STATUS = Variable(
    "status", (SWEPT, "replicate"), "uint8", "1", "how the replicate ended (see Status)"
)
_GRID = ("time", "compartment", STRATA)
_TALLIES = ("time", "tally", STRATA)
results.register(
    "epidemics",
    "counts",
    [
        Variable(
            "count", (SWEPT, "replicate", *_GRID), "integer", "1",
            "nodes in a compartment at a time",
        ),
        Variable(
            "cases", (SWEPT, "replicate", "time", STRATA), "integer", "1",
            "cumulative infections, including seeds and importations",
        ),
        Variable(
            ENTRIES, (SWEPT, "replicate", *_GRID), "integer", "1",
            "cumulative entries into a compartment, including seeds", True,
        ),
        Variable(
            MEASURES, (SWEPT, "replicate", *_TALLIES), "integer", "1",
            "what interventions have done by a time, or do at it", True,
        ),
        _STATUS,
    ],
    derived=(  # of `analysis.summary` and `analysis.observation`
        "attack_rate", "peak_count", "peak_time", "peak_date", "final_count", "incidence",
        "interval", "fatality_ratio", "person_time", "reports", "exits",
    ),
    coords=("date",),
)  # fmt: skip
results.register(
    "epidemics",
    "statistics",
    [
        Variable("mean", (SWEPT, *_GRID), "float64", "1", "mean count over replicates"),
        Variable("variance", (SWEPT, *_GRID), "float64", "1", "unbiased variance of the count"),
        Variable("quantile", (SWEPT, "level", *_GRID), "float64", "1", "quantile of the count"),
        *(
            Variable(f"{name}_{what}", (SWEPT, *first, *dims), "float64", "1", meaning, True)
            for name, dims in ((ENTRIES, _GRID), (MEASURES, _TALLIES))
            for what, first, meaning in (
                ("mean", (), f"mean of {name} over replicates"),
                ("variance", (), f"unbiased variance of {name}"),
                ("quantile", ("level",), f"quantile of {name}"),
            )
        ),
        _STATUS,
    ],
    coords=("date",),
)
results.register(
    "epidemics",
    "line_list",
    [
        Variable(
            "point", ("case",), "int64", "1", "point of the sweep, the last dim fastest", True
        ),
        Variable("replicate", ("case",), "int64", "1", "replicate of the case"),
        Variable("node", ("case",), "int64", "1", "node that left the susceptible compartment"),
        Variable("infector", ("case",), "int64", "1", "node that infected it; -1 for a seed"),
        Variable("infected_at", ("case",), "float64", "time", "when it was infected or seeded"),
        Variable("born_at", ("case",), "float64", "time",
                 "when the node was born; NaN if it was there from the beginning", True),
        Variable("entered", ("case", "compartment"), "float64", "time",
                 "when it entered each compartment; NaN if not by the last time"),
        Variable("event_point", ("event",), "int64", "1", "point of the sweep", True),
        Variable("event_replicate", ("event",), "int64", "1", "replicate of the event", True),
        Variable("event_node", ("event",), "int64", "1", "node to which a measure did it", True),
        Variable("event_tally", ("event",), "int64", "1", "position in `tally`", True),
        Variable("event_time", ("event",), "float64", "time", "when it happened or began", True),
        Variable("event_end", ("event",), "float64", "time",
                 "when it ended; NaN if it does not last, or goes on", True),
    ],
    coords=("node_name", "event_node_name", "tally"),
)  # fmt: skip


_BYTES_OF_STATUS = 16  # per replicate: done flag, index in the result, status


class Shape:
    """Points and replicates of a call, and their numbering by rows.

    Attributes
    ----------
    swept : tuple of str
        Dims of points; none without a sweep.
    points : tuple of int
        Lengths of these dims.
    numbers : range
        Numbers of the replicates of each point.
    """

    def __init__(self, swept: tuple[str, ...], points: tuple[int, ...], numbers: range) -> None:
        self.swept, self.points, self.numbers = swept, points, numbers

    @property
    def replicates(self) -> int:
        """Replicates of each point."""
        return len(self.numbers)

    @property
    def point_count(self) -> int:
        """Number of points."""
        return math.prod(self.points)

    @property
    def total(self) -> int:
        """Number of replicates of all points."""
        return self.point_count * self.replicates

    def computed(self, done: np.ndarray) -> Shape:
        """The computed part: without a sweep, only the first replicates."""
        return self if self.swept else Shape((), (), self.numbers[: int(done.sum())])


class Collector(Protocol):
    """Collects the data of an output from each chunk of replicates."""

    def add(self, ensemble: Ensemble, found: Any, first: int, rows: np.ndarray) -> None:
        """Add results of an ensemble from its row `first` on; `rows` are their rows in the call."""

    def dataset(
        self, done: np.ndarray, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        """The result; `done` marks the finished rows of the call."""


class _Ends:
    """How the rows of a call end: how many of their times are valid."""

    def __init__(self, shape: Shape, time_count: int) -> None:
        self._shape, self._time_count = shape, time_count
        self._short: dict[int, int] = {}  # by row

    def valid(self, ensemble: Ensemble, found: Any, rows: np.ndarray) -> np.ndarray:
        """How many times of some rows are valid."""
        times = ensemble.valid_times(found, np.full(rows.size, self._time_count))
        short = times < self._time_count
        self._short |= dict(zip(rows[short].tolist(), times[short].tolist(), strict=True))
        return times

    def status(self, done: np.ndarray, shape: Shape) -> np.ndarray:
        """The status of each replicate of each point."""
        found = status_of(done)
        found[list(self._short)] = Status.ALL_BORN
        return found[: shape.total].reshape(*shape.points, shape.replicates)

    def computed(self, done: np.ndarray, shape: Shape) -> np.ndarray:
        """Number of valid times, like `status`."""
        found = np.where(done, self._time_count, 0)
        found[list(self._short)] = list(self._short.values())
        return found[: shape.total].reshape(*shape.points, shape.replicates)

    def warn(self, done: np.ndarray) -> None:
        """Warn of failures, if a result has no status."""
        failed = failures(self.status(done, self._shape.computed(done)))
        failed.pop(Status.NOT_RUN, None)
        if failed:
            warn(" ".join(failed.values()), FailureWarning)


class _Counts:
    def __init__(self, shape: Shape, include: Sequence[str], ends: _Ends) -> None:
        self._shape, self._ends = shape, ends
        self._rows: list[np.ndarray] = []
        # Arrays of the host, or of the device where results stay.
        self._chunks: dict[str, list[Any]] = {name: [] for name in ("count", "cases", *include)}

    def add(self, ensemble: Ensemble, found: Any, first: int, rows: np.ndarray) -> None:
        counts = ensemble.count(found, first)
        made = {"count": counts, "cases": ensemble.case_count(found, counts, first)}
        self._rows.append(rows)
        self._ends.valid(ensemble, found, rows)
        for name, chunks in self._chunks.items():
            chunks.append(made[name] if name in made else getattr(ensemble, name)(found, first))

    def dataset(
        self, done: np.ndarray, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        shape = self._shape.computed(done)
        values = {name: self._all(chunks, shape) for name, chunks in self._chunks.items()}
        values["status"] = self._ends.status(done, shape)
        rows = self._ends.computed(done, shape)
        return results.dataset(
            "epidemics", "counts", values, coords=_with_replicates(coords, shape), attrs=attrs,
            swept=shape.swept, strata=_strata(coords), computed_rows=rows,
        )  # fmt: skip

    def _all(self, chunks: list[Any], shape: Shape) -> Any:
        """Chunks of replicates as one array; a single one is not copied."""
        values = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        rows = np.concatenate(self._rows)
        if rows.size < shape.total or (np.diff(rows) < 0).any():
            ordered = np.zeros_like(values, order="C", shape=(shape.total, *values.shape[1:]))
            ordered[beside(values, rows)] = values
            values = ordered
        return values.reshape(*shape.points, shape.replicates, *values.shape[1:])


def status_of(done: np.ndarray) -> np.ndarray:
    """Status of replicates: done, or not run."""
    return np.where(done, Status.DONE, Status.NOT_RUN).astype(np.uint8)


def _with_replicates(coords: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    return {**coords, "replicate": np.array(shape.numbers)}


def _strata(coords: Mapping[str, Any]) -> tuple[str, ...]:
    return ("stratum",) if "stratum" in coords else ()


class _Statistics:
    def __init__(
        self, shape: Shape, of_point: dict[str, list[CountStatistics]], quantiles: Sequence[float],
        ends: _Ends,
    ) -> None:  # fmt: skip
        self._shape, self._ends = shape, ends
        self._of_point = of_point  # by variable
        self._quantiles = quantiles

    def add(self, ensemble: Ensemble, found: Any, first: int, rows: np.ndarray) -> None:
        valid = self._ends.valid(ensemble, found, rows)
        points = rows // self._shape.replicates
        starts = np.flatnonzero(np.diff(points, prepend=-1))
        for name, of_point in self._of_point.items():
            counts = getattr(ensemble, name)(found, first)
            counts = counts.reshape(*counts.shape[:2], -1)
            for start, stop in zip(starts, [*starts[1:], rows.size], strict=True):
                whole = valid[start:stop] == counts.shape[1]
                own = counts[start:stop]
                of_point[points[start]].add(own if whole.all() else own[whole])

    def dataset(
        self, done: np.ndarray, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        shape = self._shape.computed(done)
        levels = list(self._quantiles)
        values = {"status": self._ends.status(done, shape)}
        for name, of_point in self._of_point.items():
            column = "tally" if name == MEASURES else "compartment"
            grid = (coords["time"].size, *(len(coords[d]) for d in (column, *_strata(coords))))
            values |= values_of(of_point, levels, shape.points, grid, name)
        coords = {**coords, "level": levels}
        return results.dataset(
            "epidemics", "statistics", values, coords=coords, attrs=attrs, swept=shape.swept,
            strata=_strata(coords),
        )  # fmt: skip


def values_of(
    each: Sequence[CountStatistics], levels: list[float], points: tuple[int, ...],
    grid: tuple[int, ...], name: str = "count",
) -> dict[str, Any]:  # fmt: skip
    """Means, variances and quantiles of all points, in the shape of a result."""
    prefix = "" if name == "count" else f"{name}_"
    found = {
        "mean": np.array([one.mean() for one in each]).reshape(*points, *grid),
        "variance": np.array([one.variance() for one in each]).reshape(*points, *grid),
        "quantile": np.array([one.quantile(levels) for one in each]).reshape(
            *points, len(levels), *grid
        ),
    }
    return {prefix + key: value for key, value in found.items()}


class _LineList:
    def __init__(
        self, shape: Shape, node_names: np.ndarray | None, has_births: bool, has_events: bool,
        ends: _Ends,
    ) -> None:  # fmt: skip
        self._shape, self._ends = shape, ends
        self._chunks: list[dict[str, Any]] = []
        self._node_names, self._has_births, self._has_events = node_names, has_births, has_events

    def add(self, ensemble: Ensemble, found: Any, first: int, rows: np.ndarray) -> None:
        listed = ensemble.cases(found, first)
        if not self._has_births:
            listed.pop("born_at", None)
        prefixes = [""]
        if self._has_events:
            listed |= ensemble.happened(found, first)
            prefixes.append("event_")
        valid = self._ends.valid(ensemble, found, rows)
        last = ensemble.times[valid - 1].astype(np.float64)  # no more is known after it
        for prefix in prefixes:
            names = [name for name in listed if name.startswith("event_") == bool(prefix)]
            over = last[listed[f"{prefix}replicate"] - first]
            known = listed["event_time" if prefix else "infected_at"] <= over
            if not known.all():
                listed |= {name: listed[name][known] for name in names}
                over = over[known]
            for name in ("event_end",) if prefix else ("entered",):
                beyond = over < listed[name].T
                listed[name] = np.where(beyond, np.nan, listed[name].T).T
            own = rows[listed[f"{prefix}replicate"] - first]
            listed[f"{prefix}point"], number = np.divmod(own, self._shape.replicates)
            listed[f"{prefix}replicate"] = self._shape.numbers.start + number
        self._chunks.append(listed)

    def dataset(
        self, done: np.ndarray, coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        self._ends.warn(done)
        values = {
            name: np.concatenate([chunk[name] for chunk in self._chunks])
            for name in self._chunks[0]
        }
        for of_events in (False, True)[: 1 + self._has_events]:
            number = values["event_point" if of_events else "point"]
            if (np.diff(number) < 0).any():
                order = np.argsort(number, kind="stable")
                mine = [name for name in values if name.startswith("event_") == of_events]
                values |= {name: values[name][order] for name in mine}
        point = values["point"]
        grid = coords["time"]
        for name in ("infected_at", "born_at", "entered", "event_time", "event_end"):
            if name in values:
                values[name] = on_grid(values[name], grid, attrs["precision"])
        names: dict[str, Any] = {"compartment": coords["compartment"]}
        if self._has_events:
            names["tally"] = coords["tally"]
        if self._node_names is not None:
            names["node_name"] = ("case", self._node_names[values["node"]])
            if self._has_events:
                of_event = self._node_names[values["event_node"]]
                names["event_node_name"] = ("event", of_event)
        if not self._shape.swept:
            values = {name: one for name, one in values.items() if not name.endswith("point")}
        places = np.unravel_index(point, self._shape.points) if self._shape.swept else ()
        for name, value in coords.items():
            if isinstance(value, tuple) and value[0] in self._shape.swept:
                names[name] = ("case", value[1][places[self._shape.swept.index(value[0])]])
            elif np.ndim(value) == 0:
                names[name] = value
        # The grid is not a dimension of the list, but reproduction numbers use it.
        return results.dataset(
            "epidemics",
            "line_list",
            values,
            coords=names,
            attrs={**attrs, "times": grid},
            swept=("case",),
        )


def levels_of(quantiles: Sequence[float] | None) -> list[float]:
    """The levels asked for, or the usual ones.

    Raises a PlanError if one is no fraction.
    """
    levels = [float(one) for one in np.atleast_1d(_LEVELS if quantiles is None else quantiles)]
    if not all(0.0 <= level <= 1.0 for level in levels):
        raise PlanError(f"quantiles are {levels}; expected levels between 0 and 1")
    return levels


def collector(
    output: str,
    model: CompartmentModel,
    scenario: Scenario,
    grid: np.ndarray,
    shape: Shape,
    quantiles: Sequence[float] | None,
) -> Collector:
    """The collector of an output.

    Raises a PlanError if the output or a level is unknown, or levels are for another output, or
    memory is short, or the host makes the output and it should stay on the device.
    """
    is_idle = quantiles is not None and output != "statistics"
    refuse_idle(quantiles=(is_idle, f"output={output!r} has none, output='statistics' has them"))
    contacts, ends = scenario.contacts, _Ends(shape, grid.size)
    sizes = {"count": len(model.compartments), ENTRIES: len(model.compartments)}
    if MEASURES in scenario.include:
        sizes[MEASURES] = len(scenario.tallies)
    names = [name for name in scenario.include if name in sizes]
    sizes = {name: sizes[name] * len(scenario.strata) for name in ("count", *names)}
    columns = sum(sizes.values())
    if output == "counts":
        columns += len(scenario.strata)  # cases
        bytes_each = 4 if contacts.node_count < 2**31 else 8
        check_room(
            # Twice, because chunks are copied into one array.
            shape.total * (2 * bytes_each * grid.size * columns + _BYTES_OF_STATUS),
            f"an array of counts of {shape.total:,} epidemics at {grid.size:,} times",
            "use fewer replicates or times, or output='statistics'",
        )  # fmt: skip
        return _Counts(shape, names, ends)
    if resident.device() is not None:
        raise PlanError(
            f"keep_on_device is for output='counts'; output={output!r} is made on the host"
        )
    check_room(
        shape.total * _BYTES_OF_STATUS,
        f"an array for {shape.total:,} epidemics (replicates of all points)",
        "use fewer replicates",
    )
    if output == "statistics":
        if contacts.node_count >= 2**31:
            raise PlanError(
                f"output='statistics' is for fewer than 2^31 nodes, because it sums squares of "
                f"counts; the network has {contacts.node_count:,}. Use output='counts'"
            )
        levels = levels_of(quantiles)
        each = {
            # Only nodes in a compartment are known to be at most all nodes.
            name: (shape.replicates, grid.size, size,
                   contacts.node_count if name == "count" else shape.replicates)
            for name, size in sizes.items()
        }  # fmt: skip
        needed = sum(CountStatistics.bytes_needed(*sizes_of) for sizes_of in each.values())
        needed *= shape.point_count
        check_room(
            needed,
            f"an array of statistics at {grid.size:,} times of {shape.point_count:,} points",
            "use fewer replicates, times or points",
        )
        of_point = {
            name: [CountStatistics(*sizes_of) for _ in range(shape.point_count)]
            for name, sizes_of in each.items()
        }
        return _Statistics(shape, of_point, levels, ends)
    return _LineList(
        shape, contacts.node_names, bool(model.outside),
        MEASURES in scenario.include, ends,
    )  # fmt: skip
