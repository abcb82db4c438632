"""The main loop over times, maneuvers and measurements, for densities side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ergode.core.calls import checkpoint, launch, progress
from ergode.core.errors import Abandoned, FailureWarning, InterruptionWarning
from ergode.core.status import Status
from ergode.density import tail
from ergode.density.evolution import EndedError, Evolution
from ergode.density.record import Record, within
from ergode.models.estimation.gate import gated
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.likelihood import impossible as impossible_text
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement


class Run:
    """A run of densities; each has its record."""

    def __init__(
        self,
        evolution: Evolution,
        records: Sequence[Record],  # one per density; all have the same times
        measurements: Sequence[Measurement],  # in order of time
        maneuvers: Sequence[Maneuver] = (),  # in order of time
        *,
        # [density_count]: index of each density's own measured value, and change by a maneuver.
        places: np.ndarray,
        left_out: np.ndarray,  # [density_count]: probability of the prior outside of its cells
        # Probability that may be pruned after a measurement, if it determines the threshold.
        may_lose: float,
        # Whether this is the call's only density: times that it does not reach are then omitted.
        alone: bool,
        show: bool,
    ) -> None:
        self.evolution, self.records = evolution, records
        self.measurements, self.may_lose, self.show = measurements, may_lose, show
        self._maneuvers = maneuvers
        self._is_alone = alone
        self.ended_early = ""
        self.is_interrupted = False
        self._places = places
        self._lost = left_out.copy()  # lost before the latest measurement
        self._cut = left_out.copy()  # estimated missing probability after it
        self._row = 0  # index of the next time
        self._last_measured = max((one.time for one in measurements), default=-np.inf)
        # Times of measurements, and where their likelihoods are not numbers.
        self.undefined: list[tuple[float, Undefined]] = []
        self._journeys = [tail.Journey(record.lattice) for record in records]

    def go(self, priors: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Run from the first time to the last; `priors` are keys and masses of each density."""
        grid = self.records[0].times
        events = np.union1d(
            grid, [m.time for m in self.measurements] + [m.time for m in self._maneuvers]
        )
        with (
            progress.track("density", len(events), unit="times", show=self.show) as report,
            checkpoint.single_run("a density", self.evolution.device) as single,
        ):
            try:
                first = self._begin(single.state, float(np.ptp(events)), priors)
                report(first)
                keep = partial(self._keep, single, events)
                for number, time in list(enumerate(events.tolist()))[first:]:
                    since = events[max(number - 1, 0)]
                    is_within = bool(self.evolution.times.max() > since)
                    self.evolution.advance(time, partial(keep, number), is_within)
                    self._follow(time)
                    for maneuver in self._maneuvers:
                        if maneuver.time == time:
                            self._jump(maneuver)
                    for index, measurement in enumerate(self.measurements):
                        if measurement.time == time:
                            self._measure(index, measurement)
                    if time in grid:
                        self._note(~self.evolution.has_ended)
                        self._row += 1
                    report(1)
                    keep(number + 1)
            except (EndedError, KeyboardInterrupt) as error:
                self._end_early(error)
        if not self.ended_early and self.evolution.has_ended.any():
            self._tell(self.evolution.why_ended)
        self._note_status()
        for record, time, steps in zip(
            self.records, self.evolution.times.tolist(), self.evolution.steps.tolist(), strict=True
        ):
            record.values["time_reached"][...] = time
            record.steps = steps

    def _begin(
        self,
        state: Mapping[str, np.ndarray] | None,
        span: float,
        priors: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> int:
        """Load the priors, or a state; returns the number of the next event."""
        if state is None:
            self.evolution.load(float(self.records[0].times[0]), priors, span)
            return 0
        self.evolution.restore(state, span)
        for which, (record, journey) in enumerate(zip(self.records, self._journeys, strict=True)):
            record.restore(within(state, f"record_{which}."))
            if followed := within(state, f"journey_{which}."):
                journey.restore(followed)
        self._lost, self._cut, self._row = state["lost"], state["cut"], int(state["row"])
        return int(state["number"])

    def _keep(self, single: checkpoint.SingleRun, events: np.ndarray, number: int) -> None:
        """Offer the present state: event `number` is the next, or the run is on the way to it."""

        def state() -> dict[str, Any]:
            found = self.evolution.state() | {
                "number": number, "lost": self._lost, "cut": self._cut, "row": self._row,
            }  # fmt: skip
            parts: list[tuple[str, Sequence[Any]]] = [("record", self.records)]
            if number < events.size and events[number] <= self._last_measured:
                parts.append(("journey", self._journeys))
            for name, each in parts:
                for which, one in enumerate(each):
                    own = one.state().items()
                    found |= {f"{name}_{which}.{key}": value for key, value in own}
            return found

        times = self.records[0].times
        done = float(self.evolution.times.max() - times[0])
        single.boundary(state, done / max(float(times[-1] - times[0]), done, 1e-300))

    def _follow(self, time: float) -> None:
        """Update the journeys of the densities, up to the last measurement."""
        if time > self._last_measured:
            return
        evolution = self.evolution
        for journey, steps, summary in zip(
            self._journeys, evolution.steps.tolist(), evolution.summaries(), strict=True
        ):
            journey.move(steps, summary.covariance)

    def _note(self, chosen: np.ndarray) -> None:
        """Record the chosen densities at the next time of the grid."""
        if not chosen.any() or self._row == self.records[0].times.size:
            return
        evolution = self.evolution
        budget, summaries = evolution.budget, evolution.summaries()
        for which in np.flatnonzero(chosen).tolist():
            self.records[which].at_time(
                self._row, summaries[which],
                {name: float(values[which]) for name, values in budget.items()},
                float(self._lost[which]), evolution.lattices[which].centre,
                partial(evolution.read, which),
            )  # fmt: skip

    def _jump(self, maneuver: Maneuver) -> None:
        evolution = self.evolution
        evolution.jump(maneuver, self._places)
        if maneuver.covariance is None or maneuver.time > self._last_measured:
            return
        for journey, summary in zip(self._journeys, evolution.summaries(), strict=True):
            journey.widen(summary.covariance)

    def _measure(self, index: int, measurement: Measurement) -> None:
        evolution = self.evolution
        goes_on = ~evolution.has_ended
        before = evolution.summaries()
        budget = evolution.budget
        distance, left_out = gated(evolution, measurement, self._places)
        evidence, faint = evolution.correct(*measurement.without(left_out, self._places))
        for which in np.flatnonzero(goes_on).tolist():
            self.records[which].at_measurement(index, before[which], evidence[which])
            self.records[which].at_gate(index, distance[which], left_out[which])
        dropped = budget["pruned"] + budget["lost"]
        impossible = goes_on & ~np.isfinite(evidence)
        if impossible.any():
            undefined = evolution.undefined.get(int(impossible.argmax()))
            why = impossible_text(measurement.time, undefined, evolution.variables)
            evolution.end(impossible, Status.IMPOSSIBLE, why)
            goes_on &= ~impossible
        found = evolution.undefined.items()
        self.undefined += [(measurement.time, one) for which, one in found if goes_on[which]]
        after = evolution.summaries()
        for which in np.flatnonzero(goes_on).tolist():
            record = self.records[which]
            near = record.lattice.near(after[which].mean, before[which].mean)
            after[which] = replace(after[which], mean=near)
            pull = tail.pull_of(before[which], after[which], record.lattice)
            shown = min(1.0, float(faint[which]) + after[which].beyond)
            cut = float(self._cut[which] + dropped[which])
            missing = max(shown, tail.pulled_over(cut, pull))
            journey = self._journeys[which]
            journey.correct(before[which], after[which])
            shift = evolution.method.shift(journey)
            beside = tail.evidence_shift(journey, shift, evolution.method.shift_order + 1)
            record.after_measurement(index, after[which], missing, shift, beside)
            self._cut[which] = missing
        self._lost += np.where(goes_on, dropped, 0.0)
        evolution.prune(self.may_lose)

    def _end_early(self, error: BaseException) -> None:
        evolution = self.evolution
        if isinstance(error, Abandoned):  # the kernel still writes to the cells
            if self._row == 0:
                raise error
            if self._is_alone:
                self.records[0].stop(float(self.records[0].times[self._row - 1]))
            self.tell_at_once(error, Status.INTERRUPTED)
            return
        if evolution.times.max() <= self.records[0].times[0]:
            raise error
        evolution.settle()
        if self._is_alone:
            self.records[0].stop(float(evolution.times[0]))
            self._note(np.full(1, not self.records[0].is_complete))
        self.tell_at_once(error, Status.INTERRUPTED)

    def tell_at_once(self, error: BaseException, interrupted: Status = Status.NOT_RUN) -> None:
        """Record why the densities ended; `interrupted` is the status after an interruption."""
        self.is_interrupted = not isinstance(error, EndedError)
        self._tell("interrupted" if self.is_interrupted else str(error))
        if self.is_interrupted:
            self.evolution.status[~self.evolution.has_ended] = interrupted
        self._note_status()

    def _note_status(self) -> None:
        for record, status in zip(self.records, self.evolution.status, strict=True):
            record.values["status"][...] = status

    def _tell(self, why: str) -> None:
        ended = self.evolution.has_ended
        some = (
            f" of {ended.sum()} of {ended.size} densities" if 0 < ended.sum() < ended.size else ""
        )
        self.ended_early = why
        time = self.evolution.times.min()
        kind = InterruptionWarning if self.is_interrupted else FailureWarning
        launch.warn(f"the run{some} ended at time {time:g}: {why}", kind)
