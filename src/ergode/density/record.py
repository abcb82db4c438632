"""Results of a density at the times of the grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ergode.core.calls.launch import check_room
from ergode.core.status import Status
from ergode.density.grid.cells import MASS_UNIT
from ergode.density.grid.lattice import Lattice
from ergode.density.moments import Summary

_OF_MEASUREMENTS = (
    "log_evidence", "prior_mean", "prior_covariance", "posterior_cut", "posterior_shift",
    "evidence_shift", "posterior_cells_in_deviation", "innovation_distance", "left_out",
)  # fmt: skip
_OF_APPROACH = "approach_probability", "approach_error"
_OF_LOSSES = "survival", "mass_absorbed", "mass_killed"
_AT_END = "status", "time_reached"  # set when the run ends


def records_of(
    lattices: Sequence[Lattice], times: np.ndarray, measurement_count: int, keep: str, *,
    lossy: bool = False, gates: bool = False, radii: int = 0,
) -> list[Record]:  # fmt: skip
    """Records of densities side by side, whose values are rows of common arrays.

    Walls absorb or a rate kills if it is `lossy`; measurements may have `gates`; a closest approach
    has a number of `radii`.
    """
    size, count, n = times.size, measurement_count, lattices[0].dimension
    shapes: dict[str, tuple[int, ...]] = {
        "mean": (size, n),
        "covariance": (size, n, n),
        "grid_shift": (size, n),
        "mass_lost": (size,),
        "mass_kept": (size,),
        "mass_pruned": (size,),
        "mass_out": (size,),
        "cells_in_deviation": (size, n),
        "mean_error": (size,),
        "deviation_error": (size,),
        "log_evidence": (count,),
        "prior_mean": (count, n),
        "prior_covariance": (count, n, n),
        "posterior_cut": (count,),
        "posterior_shift": (count,),
        "evidence_shift": (count,),
        "posterior_cells_in_deviation": (count, n),
        "cell_count": (size,),
        "time_reached": (),
    } | dict.fromkeys(_OF_LOSSES if lossy else (), (size,))
    if gates:
        shapes |= {"innovation_distance": (count,), "left_out": (count,)}
    if radii:
        shapes |= dict.fromkeys(_OF_APPROACH, (radii,))
    # Values that are not computed stay missing.
    whole = {name: np.full((len(lattices), *shape), np.nan) for name, shape in shapes.items()}
    whole["status"] = np.full(len(lattices), Status.NOT_RUN, np.uint8)
    return [
        Record(lattice, times, keep, whole, which) for which, lattice in enumerate(lattices)
    ]  # fmt: skip


def write(
    values: Mapping[str, np.ndarray], where: Any, mean: np.ndarray, covariance: np.ndarray,
    kept: Any, sharpness: np.ndarray, cell_count: Any, budget: Mapping[str, Any], lost_before: Any,
) -> None:  # fmt: skip
    """Write densities at one time of the grid to the rows `where` of values."""
    values["mean"][where] = mean
    values["covariance"][where] = covariance
    out = budget["lost"] - budget["clipped"]
    values["mass_kept"][where] = kept
    values["mass_pruned"][where] = budget["pruned"]
    values["mass_out"][where] = out
    values["mass_lost"][where] = lost_before + budget["pruned"] + budget["lost"]
    if "survival" in values:
        values["survival"][where] = np.nan_to_num(kept)
        values["mass_absorbed"][where] = budget["absorbed"]
        values["mass_killed"][where] = budget["killed"]
    values["cells_in_deviation"][where] = sharpness
    values["cell_count"][where] = cell_count


@dataclass
class Record:
    """Results at the times of a grid, filled one by one."""

    lattice: Lattice
    times: np.ndarray
    keep: str
    whole: Mapping[str, np.ndarray]  # values of all densities, [density, ...]
    number: int  # of the density
    pieces: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    waiting: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None  # cells not worked out yet
    done: int = 0
    steps: int = 0  # of the transport
    is_complete: bool = False  # no later times will be recorded
    # Times at which transport had smeared the density, with the errors of mean and deviation.
    smeared: list[tuple[float, float, float]] = field(default_factory=list)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Values of this density; thousands that are recorded together need none of them."""
        return {name: value[self.number, ...] for name, value in self.whole.items()}

    def at_time(
        self,
        index: int,
        summary: Summary,
        budget: dict[str, float],
        lost_before: float,
        centre: np.ndarray,
        cells: Callable[[], tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Record the density at one time of the grid; its keys and masses if they are kept."""
        self.values["grid_shift"][index] = centre - self.lattice.centre
        write(
            self.values, index, self.lattice.near(summary.mean, self.lattice.centre),
            summary.covariance, summary.mass, summary.sharpness, summary.cell_count, budget,
            lost_before,
        )  # fmt: skip
        self.keep_cells(index, cells)

    def keep_cells(
        self,
        index: int,
        cells: Callable[[], tuple[np.ndarray, np.ndarray]],
        *,
        may_wait: bool = False,
    ) -> None:
        """Go on to the next time of the grid; keys and masses of cells are kept if asked for.

        Of the last time alone, cells that may wait are worked out by `work_out`.
        """
        if self.keep == "last":
            self.pieces.clear()
        if self.keep != "none":
            self.waiting = cells
            if not (may_wait and self.keep == "last"):
                self.work_out()
        self.done = index + 1

    def work_out(self) -> None:
        """Keep the cells that wait."""
        if self.waiting is not None:
            keys, mass = self.waiting()
            self.pieces.append((keys, mass / _total(mass)))
            self.waiting = None

    def at_measurement(self, index: int, summary: Summary, log_evidence: float) -> None:
        """Record the outcome of a measurement; the density is the prediction before it."""
        self.values["prior_mean"][index] = self.lattice.near(summary.mean, self.lattice.centre)
        self.values["prior_covariance"][index] = summary.covariance
        self.values["log_evidence"][index] = log_evidence

    def at_gate(self, index: int, distance: float, left_out: bool) -> None:
        """Record how far a value was from the expected one, and whether a gate left it out."""
        if "left_out" in self.values:
            self.values["innovation_distance"][index] = distance
            self.values["left_out"][index] = left_out

    def after_measurement(
        self, index: int, summary: Summary, missing: float, shift: float, evidence: float
    ) -> None:
        """Record the posterior of a measurement and its reliability; see `tail`."""
        self.values["posterior_shift"][index] = shift
        self.values["evidence_shift"][index] = evidence
        self.values["posterior_cut"][index] = missing
        self.values["posterior_cells_in_deviation"][index] = summary.sharpness

    def stop(self, time: float) -> None:
        """End the grid at a time; later times are omitted."""
        reached = self.times[: self.done]
        self.is_complete = self.done > 0 and time <= reached[-1]
        self.times = reached if self.is_complete else np.append(reached, time)
        for name, value in self.values.items():
            if name not in _OF_MEASUREMENTS + _OF_APPROACH and value.ndim > 0:
                self.values[name] = value[: self.times.size]

    def state(self) -> dict[str, Any]:
        """What `restore` takes."""
        self.work_out()
        sizes = np.array([len(keys) for keys, _ in self.pieces], np.int64)
        keys = np.concatenate([keys for keys, _ in self.pieces] or [np.empty(0, np.int64)])
        mass = np.concatenate([mass for _, mass in self.pieces] or [np.empty(0)])
        values = {name: value for name, value in self.values.items() if name not in _AT_END}
        return values | {"done": self.done, "sizes": sizes, "keys": keys, "mass": mass}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        for name in self.values.keys() - set(_AT_END):
            self.values[name][...] = state[name]
        self.done = int(state["done"])
        ends = np.cumsum(state["sizes"])[:-1]
        if state["sizes"].size:
            pairs = np.split(state["keys"], ends), np.split(state["mass"], ends)
            self.pieces = list(zip(*pairs, strict=True))

    @property
    def stored(self) -> np.ndarray:
        """Number of cells kept at each time."""
        count = np.zeros(self.times.size, np.int64)
        first = self.done - len(self.pieces)
        count[first : self.done] = [len(keys) for keys, _ in self.pieces]
        return count


def _total(mass: Any) -> float:
    """Sum of masses in whole units: the same bits on every device, whatever the order."""
    return float(np.rint(mass * MASS_UNIT).astype(np.int64).sum()) / float(MASS_UNIT)


def values_of(records: Sequence[Record]) -> dict[str, np.ndarray]:
    """Values of all records [record, ...]."""
    whole = records[0].whole
    is_whole = all(one.whole is whole for one in records) and len(records) == len(whole["mean"])
    if is_whole and records[0].times.size == whole["mean"].shape[1]:
        return dict(whole)
    return {name: np.stack([one.values[name] for one in records]) for name in whole}


def together(records: Sequence[Record]) -> dict[str, np.ndarray]:
    """Variables of all records [record, ...], and the densities themselves, end to end."""
    values = values_of(records)
    count = values["cell_count"]
    if not np.isnan(count).any():
        values["cell_count"] = count.astype(np.int64)
    lattices = [record.lattice for record in records]
    pieces = [piece for record in records for piece in record.pieces]
    stored = np.zeros((len(records), records[0].times.size), np.int64)
    if pieces:
        stored[:] = [record.stored for record in records]
    check_room(
        int(stored.sum()) * (16 + 4 * lattices[0].dimension), "an array of the cells of all times",
        "use keep='last', or larger widths",
    )  # fmt: skip
    keys = np.concatenate([keys for keys, _ in pieces] or [np.empty(0, np.int64)])
    return values | {
        "centre": np.stack([lattice.centre for lattice in lattices]),
        "width": np.stack([lattice.width for lattice in lattices]),
        "axes": np.stack([lattice.axes for lattice in lattices]),
        "cells_stored": stored,
        "cell_start": (np.cumsum(stored) - stored.ravel()).reshape(stored.shape),
        "coordinate": lattices[0].unpack(keys),
        "mass": np.concatenate([mass for _, mass in pieces] or [np.empty(0)]),
    }


def within(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The values of a state whose names have a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
