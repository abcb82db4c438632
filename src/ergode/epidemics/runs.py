"""The replicates of all points, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ergode.core import log
from ergode.core.calls import launch, progress
from ergode.core.errors import ModelError, PlanError
from ergode.epidemics.methods import Method
from ergode.epidemics.outputs import Collector
from ergode.epidemics.points import Points
from ergode.epidemics.scenario import Scenario
from ergode.epidemics.seeding import seeding_of, seedings_of
from ergode.epidemics.shared.ensemble import Ensemble
from ergode.epidemics.shared.progression import classes_of, stages_of, stages_of_group
from ergode.epidemics.shared.resolution import check_stages
from ergode.epidemics.shared.sweep import ROWS_MOST, PointGroup
from ergode.epidemics.shared.tables import tables_of


class PointRuns:
    """Ensembles of all points of a call, one after another.

    Parameters
    ----------
    points, method, scenarios
        What to run; a scenario for each point.
    replicates : range
        Numbers of the replicates of each point.
    apart : int
        Distance between these numbers as keys of successive points; 0 if points share them.
    listing : bool
        Whether a line list is requested.
    **options
        Options of the method's runner.
    """

    def __init__(
        self,
        points: Points,
        method: Method,
        scenarios: Sequence[Scenario],
        replicates: range,
        apart: int,
        listing: bool,
        **options: Any,
    ) -> None:
        self._points, self._scenarios = points, scenarios
        self._method, self._options = method, options
        self._replicates, self._apart, self._listing = replicates, apart, listing
        together = (
            options["device"].target in method.sweeps
            and points.count > 1
            and points.count * len(replicates) < ROWS_MOST
        )
        self._groups = points.groups(replicates, apart, scenarios) if together else []
        if together and len(self._groups) == points.count:
            together, self._groups = False, []  # kernels of a single point are faster
        self._first = self._ensemble_of(*self._groups[0]) if together else self._ensemble(0)
        # Report errors before anything runs.
        for numbers, group in self._groups[1:]:
            self._check_group(numbers, group)
        if not together:
            self._check(range(1, points.count))
        self._check_scenarios()

    def run(self, collect: Collector, show: bool) -> tuple[np.ndarray, dict[str, Any]]:
        """Run everything.

        Returns
        -------
        done : ndarray of bool, shape [point x replicate]
            Finished replicates; not all of them after an interruption (Ctrl-C).
        counters : dict
            Attributes of the result about the work done.
        """
        total = self._points.count * len(self._replicates)
        done = np.zeros(total, bool)
        counters: list[dict[str, Any]] = []
        with progress.track("epidemics", total, unit="replicates", show=show) as report:
            try:
                for ensemble, begin, rows in self._ensembles():
                    if not log.is_plan_only():
                        ensemble.prepare()
                    work: Any = 0
                    size = ensemble.chunk_size(rows.size)
                    try:
                        for start, stop in launch.chunks(rows.size, size, ensemble.least_chunk):
                            found, counted = ensemble.run(begin + start, stop - start)
                            count = (found[0] if isinstance(found, tuple) else found).shape[0]
                            done_here = rows[start : start + count]
                            if count:
                                collect.add(ensemble, found, begin + start, done_here)
                                work = work + counted
                                done[done_here] = True
                                report(count)
                            if count < stop - start:
                                raise KeyboardInterrupt
                    finally:
                        if np.ndim(work):
                            counters.append(ensemble.counters(work))
            except KeyboardInterrupt:
                if not done.any():
                    raise
        return done, _together(counters)

    def _ensembles(self) -> Iterator[tuple[Ensemble, int, np.ndarray]]:
        """Yield each ensemble, its number of the first row, and the rows of the call."""
        replicates = len(self._replicates)
        rows = np.arange(replicates)
        for number, (numbers, group) in enumerate(self._groups):
            ensemble = self._ensemble_of(numbers, group) if number else self._first
            yield ensemble, 0, (numbers[:, None] * replicates + rows).ravel()
        if self._groups:
            return
        for point in range(self._points.count):
            ensemble = self._ensemble(point) if point else self._first
            begin = self._replicates.start + point * self._apart
            yield ensemble, begin, point * replicates + rows

    def _check_group(self, numbers: np.ndarray, group: PointGroup) -> None:
        """Check the tables of a group."""
        precision, contacts = self._options["precision"], self._scenarios[numbers[0]].contacts
        try:
            stages = stages_of_group(group.models[0], group, precision, contacts)
            check_stages(group.models[0], stages, precision, group)
            seedings_of(group, contacts.node_count, precision)
        except (ModelError, PlanError):
            self._check(numbers.tolist())  # its error names the point
            raise

    def _check(self, numbers: Iterable[int]) -> None:
        """Check the tables of points, one after another."""
        precision, classes, of = self._options["precision"], None, None
        for number in numbers:
            model, contacts = self._points.models[number], self._scenarios[number].contacts
            with self._points.named_in_errors(number):
                if classes is None or of is not contacts:  # points of a network have equal ones
                    classes, of = classes_of(model, contacts), contacts
                check_stages(model, stages_of(model, precision, classes), precision)
                seeding_of(
                    model, self._points.initials[number], contacts.node_count, precision
                )  # fmt: skip

    def _check_scenarios(self) -> None:
        """Check the tables of every other scenario, at the first point that has it."""
        times, precision = self._options["times"], self._options["precision"]
        known = {id(self._scenarios[0])}
        for number, scenario in enumerate(self._scenarios):
            if id(scenario) in known:
                continue
            known.add(id(scenario))
            with self._points.named_in_errors(number):
                tables_of(
                    self._points.models[number], scenario, self._points.initials[number],
                    float(times[0]), float(times[-1] - times[0]), precision,
                )  # fmt: skip

    def _ensemble_of(self, numbers: np.ndarray, group: PointGroup) -> Ensemble:
        try:
            return self._method.runner(
                group.models[0], self._scenarios[numbers[0]], group.initials[0], self._listing,
                group=group, **self._options,
            )  # fmt: skip
        except (ModelError, PlanError):
            for number in numbers.tolist():
                self._ensemble(number)  # its error names the point
            raise

    def _ensemble(self, point: int) -> Ensemble:
        points = self._points
        with points.named_in_errors(point):
            return self._method.runner(
                points.models[point], self._scenarios[point], points.initials[point], self._listing,
                **self._options,
            )  # fmt: skip


def _together(counters: list[dict[str, Any]]) -> dict[str, Any]:
    """Counters of several ensembles: sums of counts, and lists of other values that differ."""
    found: dict[str, Any] = {}
    for name in counters[0]:
        values = [one[name] for one in counters]
        if all(isinstance(value, int) for value in values):
            found[name] = sum(values)
        else:
            found[name] = values[0] if len(set(values)) == 1 else values
    return found
