"""Densities by points that follow the flow, from the first time to the last."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ergode.core import devices
from ergode.core.calls import checkpoint, launch, progress
from ergode.core.calls.launch import room_on
from ergode.core.compiler.language import UserFunction
from ergode.core.errors import FailureWarning, InterruptionWarning, PlanError
from ergode.core.status import Status
from ergode.density.flow import images
from ergode.density.flow.approach import law_of
from ergode.density.flow.carrier import Carrier
from ergode.density.flow.kept import named, restored_start, start_state
from ergode.density.flow.points import Start, start_of, wide_start_of
from ergode.density.flow.relattice import AGREED, FEWEST, HIDDEN, ROUNDS, UNEVEN, next_start
from ergode.density.flow.reliable import unreliable_from
from ergode.density.flow.smoothed import Passage
from ergode.density.flow.weighted import Moments
from ergode.density.grid.lattice import Lattice
from ergode.density.moments import Summary
from ergode.density.record import Record, records_of, values_of, within, write
from ergode.models.estimation.approach import ClosestApproach
from ergode.models.estimation.estimation import Estimation
from ergode.models.estimation.gate import gated
from ergode.models.estimation.likelihood import Undefined, impossible
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.estimation.priors import Prior, Samples

if TYPE_CHECKING:
    from ergode.density.flow.bend import Bend


@dataclass
class Group:
    """Densities that are carried side by side."""

    which: np.ndarray  # [density]: numbers among all densities of the call
    carrier: Carrier
    starts: list[Start]
    active: np.ndarray  # [density]: whether its points still stand for it
    log_mass: np.ndarray  # [density]: logarithm of the mass just after the latest measurement
    lost: np.ndarray  # [density]: mass lost before it
    is_first: bool = True  # whether the points are those of the priors


@dataclass
class FlowSolver:
    """All densities of a call, and the result of each."""

    asked: Estimation
    lattices: list[Lattice]  # of the cells in the result, one per density
    spacings: list[float | None]  # of the points, in deviations of the prior; None: the default
    cut: float  # mass of a Gaussian prior that is left out
    keep: str
    show: bool
    options: dict[str, Any]  # keyword arguments of `Carrier`
    is_wide: bool = False  # whether cells are Gaussians
    bend: Bend | None = None  # of such cells
    smooth: bool = False  # whether results are given all measurements, later ones too
    # What is asked of the nearest places along paths, and the number of their components.
    approach: tuple[ClosestApproach, int] | None = None
    records: list[Record] = field(init=False)
    used: np.ndarray = field(init=False)
    work: dict[str, int] = field(init=False)
    ended_early: str = ""
    # Where the likelihood of a measurement is not a number, by the density and the measurement.
    _undefined: dict[tuple[int, int], Undefined] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        asked, count = self.asked, self.asked.layout.count
        self.records = records_of(
            self.lattices, asked.times, len(asked.measurements), self.keep,
            lossy=self.options.get("killing") is not None, gates=asked.has_gates,
            radii=0 if self.approach is None else len(self.approach[0].radii),
        )  # fmt: skip
        self.used = np.full(count, np.nan)  # no threshold
        self.work = {"points": 0, "lattices": 0}
        self._reached = np.full(count, float(asked.times[0]))
        self._actions = actions(asked, None if self.approach is None else self.approach[0])
        # Whose value a gate leaves out: decided once, when a density first comes to it.
        self._left_out = np.zeros((count, len(asked.measurements)), bool)
        self._waiting: list[tuple[Group, int]] = []  # with the number of the next action
        self._made: dict[Any, Any] = {}  # kernels
        self._single = checkpoint.SingleRun("densities")
        self._batch = np.empty(0, np.int64)

    def solve(self) -> None:
        """Run all densities, as many at a time as fit in memory."""
        starts: dict[tuple[int, float | None], Start] = {}
        alike: dict[int, list[int]] = {}
        each = []
        for which, (prior, spacing) in enumerate(
            zip(self.asked.priors, self.spacings, strict=True)
        ):
            if (id(prior), spacing) not in starts:
                made = wide_start_of if self.is_wide else start_of
                starts[id(prior), spacing] = made(prior, spacing, self.cut)
            each.append(starts[id(prior), spacing])
            alike.setdefault(len(each[-1]), []).append(which)
        with progress.track("density", len(each), unit="densities", show=self.show) as report:
            try:
                for count, some in alike.items():
                    for first, last in devices.spans(len(some), self._count_that_fits(count)):
                        batch = np.array(some[first:last])
                        with checkpoint.single_run("densities", self.options["device"]) as single:
                            self._single, self._batch = single, batch
                            self._waiting = self._begun(batch, [each[one] for one in batch])
                            while self._waiting:
                                self._go(*self._waiting.pop())
                            single.boundary(self._state, 1.0)
                        report(len(batch))
            except KeyboardInterrupt:
                if not any(record.done for record in self.records):
                    raise
                self._interrupt()
        for record in self.records:
            record.work_out()
        self.records[0].whole["time_reached"][...] = self._reached
        self._tell()

    @property
    def _status(self) -> np.ndarray:
        return self.records[0].whole["status"]

    @property
    def unreliable_from(self) -> np.ndarray:
        """Time from which each density is unreliable; NaN if it is reliable throughout."""
        times = np.array([one.time for one in self.asked.measurements])
        found = unreliable_from(values_of(self.records), self.records[0].times, times)
        is_bent = self.bend is not None and np.isfinite(self.bend.time)
        return np.fmin(found, self.bend.time if self.bend and is_bent else np.nan)

    @property
    def undefined(self) -> list[tuple[float, Undefined]]:
        """Times of measurements, and where their likelihoods are not numbers."""
        times = [one.time for one in self.asked.measurements]
        return [(times[index], one) for (_, index), one in self._undefined.items()]

    def _count_that_fits(self, point_count: int) -> int:
        """Number of densities at a time."""
        device = self.options["device"]
        size = len(self.asked.field.variables)
        each = point_count * (56 + 10 * size * (1 + size * self.is_wide))
        room = room_on(device) // 2
        if each > room:
            raise PlanError(
                f"a density needs {point_count:,} points, {each / 1e9:.2g} GB, and there is room "
                f"for {room / 1e9:.2g} GB on {device.name}; use larger widths"
            )
        return int(max(1, min(room // each, _POINTS_AT_ONCE // point_count)))

    # ---- checkpoints

    def _begun(self, batch: np.ndarray, starts: list[Start]) -> list[tuple[Group, int]]:
        """Groups of a batch, each with the number of its next action, new or from a state."""
        state = self._single.state
        if state is None:
            return [(self._group(batch, starts), 0)]
        found, of_prior = [], dict(zip(batch.tolist(), starts, strict=True))
        for k in range(int(state["waiting"])):
            own = within(state, f"group_{k}.")
            which, laid = own["which"], within(own, "start.")
            each = [of_prior[one] for one in which.tolist()]
            if laid:
                each = [restored_start(self.asked.priors[which[0]], laid)]
            group = self._group(which, each)
            group.is_first = not laid
            group.active, group.log_mass, group.lost = (
                own[name] for name in ("active", "log_mass", "lost")
            )
            group.carrier.restore(within(own, "carrier."))
            found.append((group, int(own["number"])))
        for one in batch.tolist():
            self.records[one].restore(within(state, f"record_{one}."))
            self._status[one] = state["status"][one]
        self._reached, self._left_out = state["reached"], state["left_out"]
        self.work = {name: int(state[f"work.{name}"]) for name in self.work}
        self.ended_early = str(state["ended_early"])
        return found

    def _state(self) -> dict[str, Any]:
        """What `_begun` takes."""
        found: dict[str, Any] = named("work.", self.work) | {
            "waiting": len(self._waiting), "reached": self._reached, "left_out": self._left_out,
            "status": self._status,
            "ended_early": self.ended_early,
        }  # fmt: skip
        for k, (group, number) in enumerate(self._waiting):
            own = named("carrier.", group.carrier.state()) | {
                "which": group.which, "number": number, "active": group.active,
                "log_mass": group.log_mass, "lost": group.lost,
            }  # fmt: skip
            if not group.is_first:
                own |= named("start.", start_state(group.starts[0]))
            found |= named(f"group_{k}.", own)
        for one in self._batch.tolist():
            found |= named(f"record_{one}.", self.records[one].state())
        return found

    def _offer(self, group: Group, number: int) -> None:
        """Offer the present state; the next action of a group is `number`."""
        if self._single.is_kept:
            self._waiting.append((group, number))
            self._single.boundary(self._state, number / (1 + len(self._actions)))
            self._waiting.pop()

    # ---- the way through times, maneuvers and measurements

    def _group(self, which: np.ndarray, starts: list[Start]) -> Group:
        asked = self.asked
        away, deviation = scales_of([asked.priors[one] for one in which])
        ones = [k for k, start in enumerate(starts) if len(start.frames) == 1]
        if ones:  # errors of paths are small for a narrow posterior, too
            edges = np.stack([starts[k].frames[0][1] for k in ones]) / deviation[ones][:, :, None]
            least = np.linalg.svd(edges, compute_uv=False)[:, -1:]
            deviation[ones] *= np.minimum(1.0, _NARROW * least)
        scales = away, deviation
        carrier = Carrier(
            asked.field, starts, asked.values[which], scales, made=self._made, **self.options
        )  # fmt: skip
        self.work["points"] += len(which) * carrier.point_count
        self.work["lattices"] += len(which)
        nothing = np.zeros(len(which))
        return Group(which, carrier, starts, np.ones(len(which), bool), nothing, nothing.copy())

    def _go(self, group: Group, first: int) -> None:
        """Take a group through the actions from number `first` on."""
        for number in range(first, len(self._actions)):
            time, action = self._actions[number]
            if isinstance(action, Measurement):
                self._measure(group, action, number)
            elif isinstance(action, Row | ClosestApproach):
                if not self.smooth:
                    self._look(group, number)
            else:
                self._move(group, number)
            if not group.active.any():
                return
            self._offer(group, number + 1)
        if self.smooth:
            self._go_again(group)

    def _go_again(self, group: Group) -> None:
        """Record a group at all times, with the weights that all measurements gave its points."""
        again = self._group(group.which, group.starts)
        again.active, again.log_mass, again.lost = group.active, group.log_mass, group.lost
        if self.is_wide:
            self._go_back(again)
            return
        again.carrier.device.copy(group.carrier.log_weights, again.carrier.log_weights)
        for number, (_, action) in enumerate(self._actions):
            if isinstance(action, Row | ClosestApproach):
                self._look(again, number)
            elif not isinstance(action, Measurement):
                self._move(again, number)

    def _go_back(self, group: Group) -> None:
        """Take Gaussian cells from the first time to the last and back, and record them."""
        carrier = group.carrier
        ways: list[Passage | tuple[float, int]] = []
        for number, (time, action) in enumerate(self._actions):
            if isinstance(action, Row):
                ways.append((time, action.row))
            elif isinstance(action, Measurement):
                self._weigh(group, action, self._index_of(number))
            else:
                move = partial(self._move, group, number)
                ways.append(carrier.passage(move, is_still=isinstance(action, Maneuver)))
        cells, rows = carrier.gaussian_cells, []
        for way in reversed(ways):
            if isinstance(way, Passage):
                cells = way.back(cells)
            else:
                rows.append((*way, cells))
        for time, row, cells in reversed(rows):
            carrier.gaussian_cells = cells
            self._note(group, time, row)

    def _move(self, group: Group, number: int) -> None:
        """Carry the points to the time of an action; it may be a maneuver, which moves them."""
        time, action = self._actions[number]
        if isinstance(action, Maneuver):
            group.carrier.jump(action, self._places(group))
        else:
            group.carrier.follow(self._actions[max(number - 1, 0)][0], time)

    def _places(self, group: Group) -> np.ndarray:
        return self.asked.layout.beside[group.which]

    def _replayed(self, which: np.ndarray, starts: list[Start], until: int) -> Group:
        """A group of new points, taken through all actions before `until`, and nothing recorded."""
        group, begin = self._group(which, starts), self._actions[0][0]
        for number, (time, action) in enumerate(self._actions[:until]):
            if group.carrier.is_steady and not isinstance(action, Measurement | Maneuver):
                continue
            group.carrier.follow(begin, time)
            begin = time
            if isinstance(action, Measurement):
                self._weigh(group, action, self._index_of(number))
            elif isinstance(action, Maneuver):
                group.carrier.jump(action, self._places(group))
        return group

    def _weigh(self, group: Group, measurement: Measurement, index: int) -> np.ndarray:
        """Weigh by a measurement, without what gates have left out; returns constants."""
        left_out = self._left_out[group.which, index]
        return group.carrier.weigh(*measurement.without(left_out, self._places(group)))

    def _measure(self, group: Group, measurement: Measurement, number: int) -> None:
        """Apply a measurement. Densities that need a new lattice go on by themselves."""
        index = self._index_of(number)
        before = group.carrier.moments()
        whole = group.carrier.log_unkilled(before.log_mass)
        distance, left_out = gated(group.carrier, measurement, self._places(group))
        self._left_out[group.which[group.active], index] = left_out[group.active]
        group.carrier.forget_undefined()
        constants = self._weigh(group, measurement, index)
        for place, undefined in group.carrier.undefined().items():
            if group.active[place]:
                self._undefined[int(group.which[place]), index] = undefined
        after = _judged(group)
        for place in np.flatnonzero(group.active).tolist():
            summary = _summary(before, group, place)
            record = self.records[group.which[place]]
            record.at_measurement(index, summary, np.nan)
            record.at_gate(index, distance[place], left_out[place])
        group.lost = group.lost + 1.0 - _ratio(whole, group.log_mass)
        needs = group.active & _which_need(group.starts, after)
        for place in np.flatnonzero(needs).tolist():
            fresh, latest = self._follow_posterior(group, place, number, after)
            one = slice(place, place + 1)
            fresh.lost, fresh.is_first = group.lost[one], False
            was = before.log_mass[one]
            self._conclude(fresh, index, latest, was, constants[one], measurement)
            if number + 1 < len(self._actions):
                _drop_faint(fresh)
            self._waiting.append((fresh, number + 1))
        group.active &= ~needs
        self._conclude(group, index, after, before.log_mass, constants, measurement)

    def _follow_posterior(
        self, group: Group, place: int, number: int, moments: Moments
    ) -> tuple[Group, Moments]:
        """New points for a density of a group, until they stand well for its posterior."""
        which, start = group.which[place : place + 1], group.starts[place]
        posterior, edge = group.carrier.posterior(place, moments), float(moments.edge[place])
        was_at_edge = 0
        for _ in range(ROUNDS):
            is_divided = start.spacing < start.first_spacing
            at_edge = edge > start.edge_most and was_at_edge < _TIMES_AT_EDGE and not is_divided
            was_at_edge += at_edge
            is_resolved = is_divided and bool((_agree([start], moments) & _are_seen(moments))[0])
            is_uneven = bool((_agree([start], moments) & (moments.uneven > UNEVEN))[0])
            following = next_start(
                start, posterior, self.cut, edge if at_edge else 0.0, is_resolved, is_uneven
            )
            fresh = self._replayed(which, [following], number + 1)
            moments = _judged(fresh)
            if following is start or not _which_need([following], moments).any():
                break
            start = following
            posterior, edge = fresh.carrier.posterior(0, moments), float(moments.edge[0])
        return fresh, moments

    def _index_of(self, number: int) -> int:
        """Number of a measurement, from that of its action."""
        return sum(isinstance(one, Measurement) for _, one in self._actions[:number])

    # ---- results

    def _look(self, group: Group, number: int) -> None:
        """Record a group as it is, or how near it will come."""
        time, action = self._actions[number]
        if isinstance(action, Row):
            self._note(group, time, action.row)
            return
        assert isinstance(action, ClosestApproach) and self.approach is not None
        carrier, components = group.carrier, self.approach[1]
        with carrier.aside(
            UserFunction(action.distance, (components,), len(self.asked.field.parameters))
        ) as there:
            for following in range(number + 1, len(self._actions)):
                time, later = self._actions[following]
                if time <= action.end and (later is None or isinstance(later, Maneuver)):
                    self._move(group, following)
            nearest = np.asarray(carrier.device.get(there))
        for place in np.flatnonzero(group.active).tolist():
            values = self.records[group.which[place]].values
            values["approach_probability"][:], values["approach_error"][:] = law_of(
                nearest[1:, place], carrier.host(place)[1], group.starts[place], action, self.cut,
                carrier.device,
            )  # fmt: skip

    def _note(self, group: Group, time: float, row: int) -> None:
        """Record a group at a time of the grid."""
        carrier = group.carrier
        moments = carrier.moments()
        for place in np.flatnonzero(group.active & ~np.isfinite(moments.log_mass)).tolist():
            self._end(group, place, Status.NOT_FINITE, _NOT_FINITE.format(time=time))
        places = np.flatnonzero(group.active)
        which, mean = group.which[places], moments.mean[places]
        self._reached[which] = time
        unkilled = _ratio(carrier.log_unkilled(moments.log_mass), group.log_mass)[places]
        kept = _ratio(moments.log_mass, group.log_mass)[places]
        cut = np.array([self.cut if one.has_cells else 0.0 for one in group.starts])[places]
        records = [self.records[one] for one in which.tolist()]
        values, where = self.records[0].whole, (which, row)
        values["grid_shift"][where] = 0.0
        for record, place, middle in zip(records, places.tolist(), mean, strict=True):
            if self.keep != "none":
                lattice = images.moved(record.lattice, middle)
                values["grid_shift"][record.number, row] = lattice.centre - record.lattice.centre
                is_alone = len(self.records) == 1
                cells = images.cells_of(
                    carrier, place, group.starts[place], lattice, moments.log_mass[place],
                    waits=is_alone and self.keep == "last",
                )  # fmt: skip
                record.keep_cells(row, cells, may_wait=is_alone)
            record.done = row + 1
            if record.lattice.turns is not None:
                middle[...] = record.lattice.near(middle, record.lattice.centre)
        write(
            values, where, mean, moments.covariance[places], kept,
            np.full(carrier.size, np.nan), carrier.point_count,
            {
                "pruned": 0.0, "lost": 1.0 - unkilled, "clipped": 0.0, "absorbed": 0.0,
                "killed": unkilled - kept,
            },
            group.lost[places] + cut,
        )  # fmt: skip
        values["mean_error"][where] = moments.mean_error[places]
        # Both halves may look alike.
        turned = np.array([carrier.turned(place) for place in places.tolist()])
        error = np.where(turned > _TURNED_MOST, np.inf, moments.deviation_error[places])
        values["deviation_error"][where] = error

    def _conclude(
        self, group: Group, index: int, after: Moments, log_before: np.ndarray,
        constants: np.ndarray, measurement: Measurement,
    ) -> None:  # fmt: skip
        """Record evidences and posteriors; impossible measurements end their densities."""
        agreed = _agree(group.starts, after)
        unseen = np.broadcast_to(np.maximum(after.hidden, after.uneven), agreed.shape)
        for place in np.flatnonzero(group.active).tolist():
            record = self.records[group.which[place]]
            evidence = after.log_mass[place] - log_before[place] + constants[place]
            record.values["log_evidence"][index] = evidence
            if not np.isfinite(evidence):
                undefined = self._undefined.pop((record.number, index), None)
                why = impossible(measurement.time, undefined, self.asked.field.variables)
                self._end(group, place, Status.IMPOSSIBLE, why)
                continue
            edge = float(after.edge[place]) if group.starts[place].has_cells else 0.0
            # Halves that disagree leave the error unknown.
            known = agreed[place] or not group.starts[place].has_cells
            error = max(float(after.mean_error[place]), float(unseen[place])) if known else np.inf
            record.after_measurement(
                index, _summary(after, group, place), edge, error,
                float(after.log_mass_error[place]),
            )  # fmt: skip
        group.log_mass = np.where(np.isfinite(after.log_mass), after.log_mass, 0.0)

    def _end(self, group: Group, place: int, status: Status, why: str) -> None:
        which = int(group.which[place])
        group.active[place] = False
        self._status[which] = status
        self.ended_early = self.ended_early or why
        if not self.asked.layout.dims and self.records[which].done == 0:
            raise PlanError(why)

    def _interrupt(self) -> None:
        for record in self.records:
            is_open = self._status[record.number] == Status.NOT_RUN
            if is_open and 0 < record.done < self.asked.times.size:
                self._status[record.number] = Status.INTERRUPTED
        self.ended_early = "interrupted"

    def _tell(self) -> None:
        """Set the status of all, and warn of those that ended early."""
        done = np.array([one.done for one in self.records]) == self.asked.times.size
        self._status[done & (self._status == Status.NOT_RUN)] = Status.DONE
        ended = self._status != Status.DONE
        if not ended.any():
            return
        if not self.asked.layout.dims:
            record = self.records[0]
            record.stop(float(record.times[record.done - 1]))
        some = f" of {ended.sum()} of {ended.size} densities" if not ended.all() else ""
        kind = InterruptionWarning if self.ended_early == "interrupted" else FailureWarning
        time = self._reached[ended].min()
        launch.warn(f"the run{some} ended at time {time:g}: {self.ended_early}", kind)


_NOT_FINITE = (
    "no point of the density is left at time {time:g}: the solutions become infinite, or need too "
    "many steps, or a killing rate is negative"
)
_TURNED_MOST = 0.4  # of a period between neighbours: they have no common direction
_POINTS_AT_ONCE = 1 << 24
_NARROW = 10.0  # times narrower points than the prior's have errors relative to their width
_TIMES_AT_EDGE = 6
_FAINT = 1e-6  # points with at most this share of the weight are left out after a measurement
_FEWER = 0.7  # of the points: if more are left, none is left out


def _drop_faint(group: Group) -> None:
    """Leave out points of a single density that hold next to nothing together."""
    if group.starts[0].has_cells and group.active.all():
        group.starts[0] = group.carrier.only_heavy(_FAINT, _FEWER)


def _judged(group: Group) -> Moments:
    """Moments of a group after a measurement.

    Where halves of the points disagree, the points are laid again, whatever hides between them.
    """
    return group.carrier.judged(partial(_agree, group.starts))


def _which_need(starts: list[Start], moments: Moments) -> np.ndarray:
    """Which densities need a new lattice."""
    fixed = np.array([isinstance(one.prior, Samples) for one in starts])
    inside = moments.edge < np.array([one.edge_most for one in starts])
    return ~fixed & ~(_agree(starts, moments) & inside & _are_seen(moments))


def _are_seen(moments: Moments) -> Any:
    """Whether nothing seems to lie between the points [density]."""
    return np.logical_not(np.logical_or(moments.hidden > HIDDEN, moments.uneven > UNEVEN))


def _agree(starts: list[Start], moments: Moments) -> np.ndarray:
    """Whether enough points have weight, and both halves of them have the same moments."""
    ideal = np.array([one.ideal for one in starts])
    error = np.maximum(moments.mean_error, moments.deviation_error)
    return (moments.effective >= FEWEST * ideal) & (error < AGREED)


class Row(NamedTuple):
    """A time of the grid of results."""

    row: int


def scales_of(priors: list[Prior]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each prior [density, variable]."""
    return (
        np.stack([np.asarray(one.mean, np.float64) for one in priors]),
        np.sqrt(np.stack([one.covariance for one in priors]).diagonal(axis1=1, axis2=2)),
    )


# None carries points to the time.
Action = Maneuver | Measurement | ClosestApproach | Row | None


def actions(
    asked: Estimation, approach: ClosestApproach | None = None
) -> list[tuple[float, Action]]:
    """What is done at each time, in order: carry points, maneuvers, measurements, results."""
    found: list[tuple[float, Action]] = []
    others: list[Maneuver | Measurement] = [*asked.maneuvers, *asked.measurements]
    span = [] if approach is None else [approach.begin, approach.end]
    for time in np.union1d(asked.times, [*(one.time for one in others), *span]).tolist():
        found.append((time, None))
        found += [(time, one) for one in others if one.time == time]
        if approach is not None and time == approach.begin:
            found.append((time, approach))
        found += [(time, Row(int(row))) for row in np.flatnonzero(asked.times == time)]
    return found


def _ratio(log_mass: np.ndarray, log_before: np.ndarray) -> np.ndarray:
    """Mass relative to an earlier one, at most one."""
    return np.asarray(np.exp(np.minimum(log_mass - log_before, 0.0)))


def _summary(moments: Moments, group: Group, place: int) -> Summary:
    kept = float(_ratio(moments.log_mass, group.log_mass)[place])
    return Summary(
        group.carrier.point_count, kept, moments.mean[place], moments.covariance[place],
        np.full(group.carrier.size, np.nan), 0.0,
    )  # fmt: skip
