"""Run densities side by side, as many at a time as fit in memory; repeat some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ergode.core import devices, log
from ergode.core.calls import launch
from ergode.core.errors import PerformanceWarning, PlanError
from ergode.density import tail
from ergode.density.evolution import EndedError, Evolution
from ergode.density.grid.lattice import Lattice
from ergode.density.initial import Laid, count_estimate, lay_prior, within
from ergode.density.record import Record, records_of, values_of
from ergode.density.resolution import check_count, coarser, is_too_fine
from ergode.density.run import Run
from ergode.density.specialize import Limits
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.priors import Samples

THINNEST = 0.85
"""Least deviation of a reliable posterior, in cells."""

LOWER_BY = 1e-3
"""Factor on the threshold when a run is repeated because a posterior was cut."""

_TRIES = 4


@dataclass
class Solver:
    """Settings shared by all densities of a call, and the result of each."""

    asked: Estimation
    lattices: list[Lattice]  # one per density
    limits: Limits | None  # admissible region of the densities
    # Threshold for the cells of each lattice, by the identity of the lattice. Densities that share
    # a lattice share their prior.
    thresholds: dict[int, float | None]
    # Default threshold as a fraction of the largest cell, by the identity of the lattice.
    tail_level: dict[int, float]
    # Probability that may be lost at once, and per unit of time; given if it determines the
    # threshold.
    allowed: tuple[float, float] | None
    boxed: bool  # whether the cells of the prior fill a box
    keep: str
    show: bool
    options: dict[str, Any]  # keyword arguments of `Evolution`
    records: list[Record] = field(init=False)
    used: np.ndarray = field(init=False)
    work: dict[str, int] = field(
        default_factory=lambda: {"steps": 0, "cell_steps": 0, "cell_count_most": 0}, init=False
    )
    ended_early: str = ""
    # Times of measurements, and where their likelihoods are not numbers.
    undefined: list[tuple[float, Undefined]] = field(default_factory=list, init=False)

    def _records(self, chosen: Iterable[int]) -> list[Record]:
        asked = self.asked
        absorbs = self.limits is not None and self.limits.absorbs
        return records_of(
            [self.lattices[which] for which in chosen], asked.times, len(asked.measurements),
            self.keep, lossy=absorbs or self.options["killing"] is not None, gates=asked.has_gates,
        )  # fmt: skip

    def solve(self) -> None:
        """Run all densities."""
        self._warn_of_fine_cells()
        every = np.arange(self.asked.layout.count)
        records, used, why = self._attempt(every, 1.0)
        self.records, self.used, self.ended_early = records, used, why

    def solve_cut_ones_again(self) -> None:
        """Repeat, with a lower threshold, the densities whose tail a measurement reached."""
        for number in range(1, _TRIES + 1):
            cut = [
                which for which, record in enumerate(self.records)
                if (np.nan_to_num(record.values["posterior_cut"]) > tail.CUT_MOST).any()
                and not isinstance(self.asked.priors[which], Samples)
            ]  # fmt: skip
            if not cut or self.ended_early:
                return
            try:
                records, used, why = self._attempt(np.array(cut), LOWER_BY**number)
            except PlanError:  # not enough memory for the cells
                return
            if why:
                return  # the previous result is the best
            for which, record, threshold in zip(cut, records, used, strict=True):
                self.records[which], self.used[which] = record, threshold

    def check_counts(self) -> None:
        """Refuse more cells of a prior than fit in memory, by a PlanError."""
        for which, count in self._counts.items():
            check_count(count, self.lattices[which], self.options["device"])

    def _warn_of_fine_cells(self) -> None:
        for which, count in self._counts.items():
            lattice = self.lattices[which]
            if is_too_fine(count, lattice, self.asked.priors[which]):
                launch.warn(
                    f"the prior covers about {count:,.0f} cells, far more than are needed to "
                    f"resolve it: the run may take very long; {coarser(lattice, count)}",
                    PerformanceWarning,
                )
                return

    @cached_property
    def _counts(self) -> dict[int, float]:
        """Estimated number of cells of a prior, for one density of each lattice."""
        distinct = {id(one): which for which, one in enumerate(self.lattices)}.values()
        each = {which: self._places(which, 1.0) for which in distinct}
        return {which: count_estimate(*places, **how) for which, (places, how) in each.items()}

    def _places(self, which: int, factor: float) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `lay_prior` takes."""
        name = id(self.lattices[which])
        asked = self.thresholds[name]
        given = self.asked.priors[which], self.lattices[which]
        return (*given, None if asked is None else asked * factor), {
            "boxed": self.boxed and factor == 1.0,
            "cut": None if self.allowed is None else self.allowed[0] * factor,
            "level": self.tail_level[name] * factor,
        }

    def _lay(self, which: int, factor: float) -> Laid:
        places, options = self._places(which, factor)
        return lay_prior(*places, **options)

    def _attempt(self, chosen: np.ndarray, factor: float) -> tuple[list[Record], np.ndarray, str]:
        """Run the chosen densities: their records, thresholds and why a run ended early."""
        asked, values = self.asked, self.asked.values
        device, dimension = self.options["device"], len(asked.field.variables)
        # The cells of a shared lattice are computed once.
        laid: dict[int, Laid] = {}
        for which in chosen.tolist():
            name = id(self.lattices[which])
            if name not in laid:
                laid[name] = self._lay(which, factor)
        each = [laid[id(self.lattices[which])] for which in chosen.tolist()]
        used = np.array([one.threshold for one in each])
        left_out = np.array([one.left_out for one in each])
        records = self._records(chosen.tolist())
        may_lose, loss_rate = self.allowed or (0.0, None)
        most = max(len(one.keys) for one in laid.values())
        log.tell("cells", f"{most:,} in the prior")
        size = Evolution.count_that_fits(dimension, most, device) if len(chosen) > 1 else 1
        ended_early = ""
        for start, stop in devices.spans(len(chosen), size):
            some = chosen[start:stop]
            priors, limits = [], []
            for which, one in zip(some.tolist(), each[start:stop], strict=True):
                keys, mass, limit = within(
                    self.limits, self.lattices[which], values[which], one.keys, one.mass,
                    isinstance(asked.priors[which], Samples),
                )  # fmt: skip
                priors.append((keys, mass))
                limits += [limit] if limit is not None else []
            evolution = Evolution(
                asked.field, [self.lattices[which] for which in some], values[some],
                threshold=used[start:stop], limits=limits,
                loss_rate=None if loss_rate is None else loss_rate * factor, **self.options,
            )  # fmt: skip
            run = Run(
                evolution, records[start:stop], asked.measurements, asked.maneuvers,
                places=asked.layout.beside[some], left_out=left_out[start:stop],
                may_lose=may_lose * factor, alone=asked.layout.count == 1, show=self.show,
            )  # fmt: skip
            try:
                run.go(priors)
            except (EndedError, KeyboardInterrupt) as error:
                if start == 0:
                    raise
                run.tell_at_once(error)  # earlier batches have results
            self._count(evolution.work)
            self.undefined += run.undefined
            ended_early = ended_early or run.ended_early
            if run.is_interrupted:
                break
        return records, used, ended_early

    def _count(self, work: dict[str, int]) -> None:
        for name in ("steps", "cell_steps"):
            self.work[name] += work[name]
        self.work["cell_count_most"] = max(self.work["cell_count_most"], work["cell_count_most"])

    @property
    def unreliable_from(self) -> np.ndarray:
        """Time from which each density is unreliable; NaN if it is reliable throughout."""
        times = np.array([one.time for one in self.asked.measurements])
        first = np.full(len(self.records), np.nan)
        for which, record in enumerate(self.records):
            bad = is_unreliable(record.values)
            wrong = [*times[bad], *(one[0] for one in record.smeared[:1])]
            first[which] = min(wrong, default=np.nan)
        return first


def measurement_warning(solver: Solver, was_lowered: bool, smaller: str) -> str:
    """Warning text for measurements that left unreliable densities; empty if there are none.

    `smaller` is the text about a width that would do.
    """
    values = values_of(solver.records)
    said = []
    faults = _faults(values)
    for (bad, size), (why, what) in zip(
        faults,
        (
            (
                "lies in the tail that the threshold had cut: about {:.2g} of the posterior is "
                "missing", "use a lower threshold" if was_lowered else "pass lower_threshold=True",
            ),
            (
                "lies in a tail that transport has smeared: the mean could be off by up to about "
                "{:.2g} deviations, in many cases by far less", f"use smaller widths{smaller}",
            ),
            (
                "lies in a tail that transport has smeared: its log evidence could be off by up to "
                "about {:.2g}", f"use smaller widths{smaller}",
            ),
            (
                "leaves a density thinner than a cell, {:.2g} cells in a deviation: it lies far "
                "from the density, or its noise is narrower than the cells",
                f"use smaller widths{smaller}",
            ),
        ), strict=True,
    ):  # fmt: skip
        if bad.any():
            time = solver.asked.measurements[int(bad.any(axis=0).argmax())].time
            who = f" of {bad.any(axis=1).sum()} of {len(bad)} densities" if len(bad) > 1 else ""
            worst = size[bad].min() if "thinner" in why else size[bad].max()
            said.append(f"the measurement at time {time:g}{who} {why.format(worst)} - {what}")
    surely = faults[0][0].any() or faults[-1][0].any()  # a shift is what could be
    return "; ".join(said) and (
        f"{'; '.join(said)}. Its evidence and later results {'are' if surely else 'may be'} "
        "unreliable; or use an ensemble (ergode.particles)"
    )


def _faults(values: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Where a posterior was cut, smeared or too thin, and the measure of each fault."""
    cut, shift, evidence = (
        values[name] for name in ("posterior_cut", "posterior_shift", "evidence_shift")
    )
    sharp = np.fmin.reduce(values["posterior_cells_in_deviation"], axis=-1)
    return [
        (cut > tail.CUT_MOST, cut),
        (shift > tail.SHIFT_MOST, shift),
        # A shift of the mean says that the evidence may be wrong too.
        ((evidence > tail.EVIDENCE_MOST) & (shift <= tail.SHIFT_MOST), evidence),
        (sharp < THINNEST, sharp),
    ]


def is_unreliable(values: dict[str, np.ndarray]) -> np.ndarray:
    """Which measurements left an unreliable density."""
    return np.any([bad for bad, _ in _faults(values)], axis=0)


def scale_of(lattice: Lattice, covariance: np.ndarray) -> float:
    """Volume of cells, relative to cells of half a standard deviation of the prior; at most one."""
    deviation = np.sqrt((lattice.axes.T @ covariance @ lattice.axes).diagonal())
    ratio = np.minimum(2.0 * lattice.width / deviation, 1.0)
    # Ignore rounding if the width equals half a deviation.
    return float(np.prod(np.where(ratio > 1 - 1e-9, 1.0, ratio)))


def scaled(threshold: float, scale: float, dimension: int) -> float:
    """A threshold for cells of another volume.

    The mass of a cell is proportional to its volume.  The threshold also scales with the cube of
    the width, so that the truncation error vanishes faster than the second-order error of the
    scheme.
    """
    return threshold * scale ** (1.0 + 3.0 / dimension)
