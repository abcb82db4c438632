"""The kinds of output: what is kept of each chunk of realizations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ergode.core import results
from ergode.core.arguments import choice
from ergode.core.calls import resident
from ergode.core.calls.launch import check_room
from ergode.core.calls.resident import beside
from ergode.core.devices.foreign import on_host
from ergode.core.errors import PlanError
from ergode.core.results import SWEPT, Variable
from ergode.core.results.statistics import Moments, SumsByPoint
from ergode.core.status import Status
from ergode.models.expressions import TIME, Expression
from ergode.models.sweep import Layout
from ergode.stochastic.kernel.outcomes import COUNT_LIMIT
from ergode.stochastic.runners.chunks import Wanted
from ergode.stochastic.tables import Tables

if TYPE_CHECKING:
    import xarray

_REPLICATE = (SWEPT, "replicate")
_STATUS = [
    Variable("status", _REPLICATE, "uint8", "1", "how the realization ended (see Status)"),
    Variable("firing_count", _REPLICATE, "int64", "1", "reactions that fired"),
]
_GRID = (SWEPT, "replicate", "time")

_MOMENT, _RULE = (SWEPT, "time", "species"), (SWEPT, "time", "rule")
_FIRING = ("firing",)
_PASSAGE = (
    _REPLICATE, "float64", "time", "first time at which the condition held; NaN if it never held",
)  # fmt: skip
_VARIABLES = {
    "trajectories": [
        Variable("amount", (*_GRID, "species"), "number", "1", "molecules at a time"),
        Variable("value", (*_GRID, "rule"), "float64", "1", "value of a rule at a time", True),
    ],
    "statistics": [
        Variable("mean", _MOMENT, "float64", "1", "mean of the amount"),
        Variable("variance", _MOMENT, "float64", "1", "unbiased variance of the amount"),
        Variable("count", (SWEPT, "time"), "int64", "1", "realizations that reached this time"),
        Variable("value_mean", _RULE, "float64", "1", "mean of a rule's value", True),
        Variable("value_variance", _RULE, "float64", "1", "variance of a rule's value", True),
    ],
    "sums": [
        Variable("sum", _MOMENT, "int64", "1", "sum of the amount over realizations"),
        Variable("squares_low", _MOMENT, "int64", "1", "sum of the low halves of its square"),
        Variable("squares_high", _MOMENT, "int64", "1", "sum of the high halves of its square"),
        Variable("count", (SWEPT, "time"), "int64", "1", "realizations that reached this time"),
    ],
    "histogram": [
        Variable(
            "histogram", (*_MOMENT, "bin"), "int64", "1", "realizations with an amount in a bin"
        ),
        Variable("below", _MOMENT, "int64", "1", "realizations with less than the first edge"),
        Variable("above", _MOMENT, "int64", "1", "realizations with more than the last edge"),
    ],
    "final": [
        Variable("amount", (*_REPLICATE, "species"), "number", "1", "molecules at the last time"),
        Variable("passage_time", *_PASSAGE, True),
    ],
    "first-passage": [Variable("passage_time", *_PASSAGE)],
    "events": [
        Variable("firing_time", _FIRING, "float64", "time", "time of the firing"),
        Variable("reaction", _FIRING, "int32", "1", "index of the reaction in `reaction_name`"),
        Variable(
            "realization", _FIRING, "int64", "1",
            "index of the realization, over all points of a sweep",
        ),
    ],
}  # fmt: skip
for _output, _variables in _VARIABLES.items():
    _coords = {"histogram": ("bin_end",), "events": ("reaction_name",)}.get(_output, ())
    results.register("stochastic", _output, [*_variables, *_STATUS], _coords)

_VALUES_MOST = 1 << 28


class Collector:
    """Collects the results of chunks and returns them as a Dataset."""

    wanted: Wanted
    takes_long = False
    """Whether collecting a chunk takes about as long as simulating it."""
    stays = True
    """Whether the output can stay on a device."""

    def __init__(
        self,
        tables: Tables,
        grid: np.ndarray,
        layout: Layout,
        replicates: int,
        *,
        bins: ArrayLike | None = None,
        whole: bool = True,
    ) -> None:
        self.network, self.tables, self.grid = tables.network, tables, grid
        self.whole = whole
        self.names = list(tables.values)
        """Names of reported values: of rules, and of what has a rate rule."""
        self.layout, self.replicates = layout, replicates
        self.total = layout.count * replicates

    def widens(self, status: np.ndarray) -> bool:
        """Whether realizations of these statuses are needed again, with what is `wanted` now."""
        return False

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        """Add the results of a chunk; `first` is its first realization."""
        raise NotImplementedError

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """Name of the output, its variables, and its own coordinates.

        `reached` is the number of times that each realization reported.
        """
        raise NotImplementedError

    def dataset(
        self, found: Mapping[str, np.ndarray], coords: Mapping[str, Any], attrs: Mapping[str, Any]
    ) -> xarray.Dataset:
        """The result, from the data `found` and the times reached of every realization."""
        found = dict(found)
        reached = found.pop("rows")
        name, values, own = self.values(reached.ravel())
        dims = set(own.pop("drop", ()))
        kept = {key: value for key, value in coords.items() if key not in dims}
        return results.dataset(
            "stochastic", name, {**values, **found},
            coords={**kept, **own}, attrs=attrs, swept=self.layout.dims, computed_rows=reached,
        )  # fmt: skip

    def points_of(self, first: int, count: int) -> np.ndarray:
        """Index of the point for each realization of a chunk."""
        return np.arange(first, first + count) // self.replicates

    def amounts_of(self, chunk: Mapping[str, Any]) -> Any:
        """Amounts [realization, time, species] of a chunk."""
        found = chunk["amounts"][..., : self.tables.species_count]
        return found.astype(np.int64, copy=False) if self.whole else found

    def rule_values(self, amounts: np.ndarray, first: int) -> np.ndarray:
        """Values [realization, time, rule] from variables [realization, time, variable]."""
        network = self.network
        points = self.points_of(first, len(amounts))
        known: dict[str, Any] = {TIME: self.grid[None, :]}
        net, naming = self.tables.net, self.tables.naming
        for i, name in enumerate(naming.parameters):
            known[name] = net.parameters[points, i][:, None]
        reported = amounts.astype(np.float64)
        names = naming.variables[: reported.shape[2]]
        known |= {name: reported[:, :, i] for i, name in enumerate(names)}
        for member in network.species:
            size = naming.size_of(member.name)
            if size in known:
                known[member.name] = known[member.name] / known[size]
        result = np.empty((*amounts.shape[:2], len(self.names)))
        for k, name in enumerate(self.names):
            rule = network.rules.get(name, Expression(name))
            result[:, :, k] = naming.inline(rule).evaluate(known)
        return result


class Trajectories(Collector):
    """Amounts of every realization at every time."""

    wanted = Wanted(amounts=True)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        shape = (self.total, self.grid.size, self.tables.species_count)
        rules = len(self.names)
        check_room(
            8 * shape[0] * shape[1] * (shape[2] + rules),
            f"an array of amounts of {shape[0]:,} realizations at {shape[1]:,} times",
            "use fewer replicates or times, or output='statistics'",
        )  # fmt: skip
        self._amounts: Any = None  # on the host, or on the device where results stay
        self._shape = shape
        self._values = np.full((*shape[:2], rules), np.nan) if rules else None
        self.takes_long = bool(rules)

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        part = self.amounts_of(chunk)
        rows = slice(first, first + len(part))
        if self._amounts is None:
            whole = len(part) == self.total
            self._amounts = part if whole else np.zeros_like(part, order="C", shape=self._shape)
        if len(part) < self.total:
            self._amounts[rows] = part
        if self._values is not None:
            self._values[rows] = self.rule_values(on_host(chunk["amounts"]), first)

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        assert self._amounts is not None
        shape = (*self.layout.shape, self.replicates, *self._shape[1:])
        found = {"amount": self._amounts.reshape(shape)}
        if self._values is None:
            return "trajectories", found, {}
        found["value"] = self._values.reshape(*shape[:-1], self._values.shape[-1])
        return "trajectories", found, {"rule": self.names}


class Statistics(Collector):
    """Means and variances over realizations."""

    wanted = Wanted(statistics=True)
    stays = False

    def __init__(self, *arguments: Any, whole: bool = True, **options: Any) -> None:
        super().__init__(*arguments, whole=whole)
        most = self.tables.net.initial[:, : self.tables.species_count].max(initial=0.0)
        whole = bool(whole and most < COUNT_LIMIT)  # squares of larger ones are no integers
        shape = (self.layout.count, self.grid.size)
        check_room(
            64 * shape[0] * shape[1] * (self.tables.species_count + len(self.names)),
            f"an array of statistics of {shape[0]:,} points at {shape[1]:,} times",
            "use fewer points or fewer times",
        )  # fmt: skip
        self._sums = SumsByPoint(*shape, self.tables.species_count)
        rules = len(self.names)
        # Values of rules are not integers and are computed from amounts.
        self.wanted = Wanted(statistics=whole, amounts=bool(rules) or not whole)
        self._moments = Moments(*shape, rules) if rules else None
        self.takes_long = self.wanted.amounts
        self._broken = None if whole else Moments(*shape, self.tables.species_count)

    def widens(self, status: np.ndarray) -> bool:
        """Whether squares were too large to be added as integers: amounts are, from now on."""
        if self._broken is not None or not (status == Status.OVERFLOW).any():
            return False
        self.wanted, self.takes_long = Wanted(amounts=True), True
        self._broken = Moments.beginning_with(self._sums)
        return True

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        if self._broken is None:
            self._sums.add(chunk, first // self.replicates)
        else:
            self._add(self._broken, self.amounts_of(chunk), chunk, first)
        if self._moments is not None:
            self._add(self._moments, self.rule_values(chunk["amounts"], first), chunk, first)

    def _add(
        self, moments: Moments, values: np.ndarray, chunk: Mapping[str, np.ndarray], first: int
    ) -> None:
        points = self.points_of(first, len(values))
        for point in np.unique(points):
            here = points == point
            moments.add(int(point), values[here], chunk["rows"][here])

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        shape = (*self.layout.shape, self.grid.size)
        sums = self._sums if self._broken is None else self._broken
        found = {
            "mean": sums.mean().reshape(*shape, -1),
            "variance": sums.variance().reshape(*shape, -1),
            "count": sums.count.reshape(shape),
        }
        if self._moments is None:
            return "statistics", found, {}
        found["value_mean"] = self._moments.mean().reshape(*shape, -1)
        found["value_variance"] = self._moments.variance().reshape(*shape, -1)
        return "statistics", found, {"rule": self.names}


class Sums(Statistics):
    """Exact sums over realizations. `merge` makes the statistics of a divided call from them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self._broken is not None:
            raise PlanError(
                "output='statistics' of amounts from 2^31 on cannot be divided; executor, store, "
                "chunk and several devices need output='trajectories'"
            )

    def widens(self, status: np.ndarray) -> bool:
        return False

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        shape = (*self.layout.shape, self.grid.size)
        found = {name: one.reshape(*shape, -1) for name, one in self._sums.exact().items()}
        return "sums", found | {"count": self._sums.count.reshape(shape)}, {}


class Histogram(Collector):
    """Number of realizations with an amount in each bin."""

    wanted = Wanted(amounts=True)
    takes_long = True

    def __init__(self, *arguments: Any, bins: ArrayLike | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edges = None if bins is None else _edges(bins)
        width = 1 if self._edges is None else self._edges.size - 1
        self._counts = self._empty(width)
        shape = self._counts.shape[:3]
        self._below, self._above = (
            np.zeros_like(self._counts, order="C", shape=shape) for _ in range(2)
        )

    def _empty(self, width: int) -> Any:
        shape = (self.layout.count, self.grid.size, self.tables.species_count, width)
        if np.prod(shape, dtype=object) > _VALUES_MOST:
            raise PlanError(
                f"a histogram of {width:,} bins for each of {shape[0]} points, {shape[1]} times and"
                f" {shape[2]} species is too large; give fewer bins"
            )
        return resident.full(shape, 0, np.int64)

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        amounts = self.amounts_of(chunk)
        points = self.points_of(first, len(amounts))
        # Times that were not reached are zero in this array; they belong to no bin.
        reached = beside(amounts, np.arange(amounts.shape[1]) < chunk["rows"][:, None])
        if self._edges is None:
            most = 1 + max(0, int(amounts.max())) if amounts.size else 1
            if most > self._counts.shape[3]:
                larger = self._empty(most)
                larger[..., : self._counts.shape[3]] = self._counts
                self._counts = larger
        width = self._counts.shape[3]
        for point in range(points[0], points[-1] + 1):
            here = slice(*np.searchsorted(points, [point, point + 1]))
            part, there = amounts[here], reached[here][:, :, None]
            if self._edges is None:
                where = np.floor(part).astype(np.int64)
            else:
                edges = beside(amounts, self._edges)
                real = part.astype(np.float64, copy=False)
                where = np.searchsorted(edges, real, side="right") - 1
                where[part == self._edges[-1]] = width - 1
            cells = part.shape[1] * part.shape[2]
            self._below[point] += ((where < 0) & there).sum(axis=0)
            self._above[point] += ((where >= width) & there).sum(axis=0)
            inside = ((where >= 0) & (where < width) & there).reshape(len(part), cells)
            offsets = beside(amounts, np.arange(cells) * width)
            index = (where.reshape(len(part), cells) + offsets)[inside]
            if index.size:
                counts = np.bincount(index.astype(np.int64), minlength=cells * width)
                self._counts[point] += counts.reshape(self._counts.shape[1:])

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        counts = self._counts
        found = {
            name: counts.reshape(*self.layout.shape, *counts.shape[1:])
            for name, counts in (
                ("histogram", self._counts), ("below", self._below), ("above", self._above),
            )
        }  # fmt: skip
        edges = np.arange(counts.shape[3] + 1) if self._edges is None else self._edges
        return "histogram", found, {"bin": edges[:-1], "bin_end": ("bin", edges[1:])}


class _PassageTimes:
    """Times [realization] at which the stopping condition held."""

    def __init__(self, total: int) -> None:
        self.values = np.full(total, np.nan)

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        ended = chunk["ended"]
        met = np.isfinite(ended) & (chunk["status"] < Status.NOT_RUN)
        self.values[first : first + len(ended)] = np.where(met, ended, np.nan)


class Final(Collector):
    """Amounts at the last time, and when the stopping condition held, if there is one."""

    wanted = Wanted(amounts=True)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._parts: list[Any] = []
        stops = self.tables.interruptions.stop.size > 0
        self._times = _PassageTimes(self.total) if stops else None
        check_room(
            16 * self.total * self.tables.species_count,  # for the chunks and for the whole result
            f"an array of amounts of {self.total:,} realizations", "use fewer replicates",
        )  # fmt: skip

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        self._parts.append(self.amounts_of(chunk)[:, 0])
        if self._times is not None:
            self._times.add(chunk, first)

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        amounts = np.concatenate(self._parts)
        if len(amounts) < self.total:
            shape = (self.total - len(amounts), amounts.shape[1])
            amounts = np.concatenate([amounts, np.zeros_like(amounts, order="C", shape=shape)])
        if (reached == 0).any():
            amounts = resident.with_missing(amounts, reached == 0)
        each = (*self.layout.shape, self.replicates)
        found = {"amount": amounts.reshape(*each, amounts.shape[1])}
        if self._times is not None:
            found["passage_time"] = self._times.values.reshape(each)
        return "final", found, {"drop": ["time"]}


class FirstPassage(Collector):
    """First time at which the condition holds."""

    wanted = Wanted()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._times = _PassageTimes(self.total)

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        self._times.add(chunk, first)

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        times = self._times.values.reshape(*self.layout.shape, self.replicates)
        return "first-passage", {"passage_time": times}, {"drop": ["time", "species"]}


class Events(Collector):
    """Every firing: its reaction and its time."""

    wanted = Wanted(log_first=True)
    stays = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, chunk: Mapping[str, np.ndarray], first: int) -> None:
        numbers = np.arange(first, first + len(chunk["firings"]))
        realization = np.repeat(numbers, chunk["firings"])
        self._parts.append((chunk["log_times"], chunk["log_reactions"], realization))

    def values(self, reached: np.ndarray) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        names = ("firing_time", "reaction", "realization")
        table = self.network.reactions
        own = {
            "drop": ["time", "species"],
            "reaction_name": [table.name_of(j) for j in range(len(table))],
        }
        return "events", dict(zip(names, columns, strict=True)), own


@dataclass(frozen=True)
class Kind:
    """A kind of output."""

    collector: type[Collector]
    over_time: bool = True  # whether it reports every time of the grid, instead of only the last
    needs_stop: bool = False  # whether it needs a stopping condition

    @property
    def wanted(self) -> Wanted:
        """Results to keep of each chunk, for a network without rules."""
        return self.collector.wanted


OUTPUTS = {
    "trajectories": Kind(Trajectories),
    "statistics": Kind(Statistics),
    "histogram": Kind(Histogram),
    "final": Kind(Final, over_time=False),
    "first-passage": Kind(FirstPassage, over_time=False, needs_stop=True),
    "events": Kind(Events, over_time=False),
}
_OF_PARTS = {"sums": Kind(Sums)}


def kind(output: str) -> Kind:
    """The kind of output with this name.

    Raises a PlanError if the name is unknown.
    """
    if isinstance(output, str) and output in _OF_PARTS:
        return _OF_PARTS[output]
    choice("output", output, OUTPUTS)
    return OUTPUTS[output]


def collector(
    output: str,
    tables: Tables,
    grid: np.ndarray,
    layout: Layout,
    replicates: int,
    bins: ArrayLike | None,
    whole: bool,
) -> Collector:
    """The collector of an output.

    Raises a PlanError if `bins` are given for an output without bins, or the output does not fit in
    memory, or the host makes the output and it should stay on the device.
    """
    chosen = kind(output).collector
    if resident.device() is not None and not chosen.stays:
        stay = ", ".join(repr(name) for name, one in OUTPUTS.items() if one.collector.stays)
        raise PlanError(
            f"keep_on_device is for the outputs {stay}; output={output!r} is made on the host"
        )
    if bins is not None and chosen is not Histogram:
        raise PlanError(f"bins are given, but output {output!r} has none")
    return chosen(tables, grid, layout, replicates, bins=bins, whole=whole)


def _edges(bins: ArrayLike) -> np.ndarray:
    try:
        edges = np.asarray(bins, np.float64)
    except (TypeError, ValueError):
        raise PlanError(f"bins is {bins!r}; expected two edges or more that ascend") from None
    if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) > 0).all():
        raise PlanError("bins must be at least two edges that ascend")
    return edges
