"""Densities on one device: their arrays, their kernels, and the calls that advance them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.core.calls import launch, resident
from ergode.core.calls.launch import check_room, room_on
from ergode.core.compiler.source import Precision
from ergode.core.devices import Device
from ergode.core.devices.foreign import on_host
from ergode.core.errors import PerformanceWarning, PlanError
from ergode.core.status import Status
from ergode.density import bayes, difficulty, jump
from ergode.density.grid import cells
from ergode.density.grid.cells import Cells, Masses
from ergode.density.grid.lattice import BITS, DIMENSION, Frame, Lattice, frame_rows
from ergode.density.grid.memory import Memory
from ergode.density.methods import GRIDS
from ergode.density.moments import Summary, mass_word, summaries_of, word_count
from ergode.density.noise import Noise
from ergode.density.runner import FOREVER, PRUNE_EVERY, RUNNERS, CUDARunner
from ergode.density.specialize import (
    Killing,
    Limits,
    ThreadGroup,
    advance_kernel,
    bindings_of,
    forcing_kernel,
    keeps_fluxes,
    keeps_spread,
    reweigh_kernel,
    spread_rows,
    varies,
)
from ergode.density.transport import forcing
from ergode.models.estimation.gate import innovation_of
from ergode.models.estimation.likelihood import Undefined
from ergode.models.estimation.maneuver import Maneuver
from ergode.models.estimation.measurement import Measurement
from ergode.models.fields.vector_field import VectorField

_BYTES_READ = 48  # bytes per cell: keys, masses and their order, and copies of these


class EndedError(PlanError):
    """No density can continue; all keep their state from before the failed step."""


class Evolution:
    """Densities that advance in time side by side.

    Attributes
    ----------
    status : ndarray of uint8, shape [density_count]
        Values of `Status`. A density that is not DONE cannot continue. It keeps its state from
        before the step that failed.
    why_ended : str
        Why the latest of these densities failed.
    """

    def __init__(
        self,
        field: VectorField,
        lattices: Sequence[Lattice],  # one per density; all have the same dimension
        parameters: np.ndarray,  # [density_count, parameter_count]
        *,
        scheme: str,
        # [density_count]: cells with a smaller fraction of the probability may be dropped.
        threshold: float | np.ndarray,
        device: Device,
        precision: Precision = "float64",  # type of masses and rates
        noise: Noise | None = None,
        limits: Sequence[Limits] = (),  # one per density; cells outside are never made
        killing: Killing | None = None,  # rate at which probability vanishes
        # A density that needs more cells is treated as if memory were full.
        max_cells: int | None = None,
        # Probability that may be lost per unit of time; the threshold follows from it.
        loss_rate: float | None = None,
    ) -> None:
        self.lattices = list(lattices)
        self.lattice = lattice = lattices[0]
        self.device = device
        self.precision = precision
        self.method = GRIDS[scheme]
        self.parameters, self.variables = np.atleast_2d(parameters), field.variables
        self._cells_most = max_cells
        count = len(self.parameters)
        self._runner = RUNNERS[device.target](device, count)
        bounds = limits[0] if limits else None
        self._forcing: kernels.Kernel | None = None
        if varies(field, noise, killing):
            self._forcing = forcing_kernel(field, lattices, noise, bounds, killing)
        self._bindings = partial(
            bindings_of, field, lattices, self.method, noise, limits=bounds, killing=killing,
            retained=loss_rate is not None,
        )  # fmt: skip
        self._keeps_spread, self._kills = keeps_spread(noise, bounds), killing is not None
        self._is_lossy = self._kills or (bounds is not None and bounds.absorbs)
        keeps_all = self.method.unsplit and keeps_fluxes(lattice.dimension, device.target)
        self._memory = Memory(
            lattice.dimension, precision, lattice.dimension if keeps_all else 1,
            spread_rows(lattice.dimension, noise, bounds),
            0 if bounds is None else bounds.wall_rows(lattice.dimension), self._kills,
        )  # fmt: skip
        self._kernels: dict[ThreadGroup, kernels.Kernel] = {}
        spread = None if noise is None else np.stack([noise.spread(one) for one in lattices])
        ranges = [(one.least, one.largest) for one in limits]
        rows = frame_rows(lattices, self.parameters, spread, ranges)
        self._frame = Frame(*device.put_together([row.astype(precision) for row in rows]))
        # Likelihoods are computed in double precision, whatever the precision of masses.
        is_exact = precision == "float64"
        self._exact_frame = self._frame if is_exact else Frame(*device.put_together(rows))
        # Counters and controls are one array, copied to the device and back in one transfer.
        words = word_count(lattice.dimension)
        controls = cells.CONTROLS + (cells.PARTS if self._forcing else 0)
        self._words = np.zeros(count * (words + controls), np.int64)
        self._device_words = self._runner.words(self._words)
        self._counters, self._control = self._parts_of(self._words)
        self._device_counters, self._device_control = self._parts_of(self._device_words)
        self._control[:, cells.THRESHOLD] = threshold
        self._control[:, cells.LOSS_RATE] = loss_rate or 0.0
        self.status = np.full(count, Status.DONE, np.uint8)
        self.why_ended = ""
        self.undefined: dict[int, Undefined] = {}  # by density, at the latest measurement
        self._cells: Cells | None = None
        self._masses: Masses | None = None
        self._capacity = 0

    @staticmethod
    def count_that_fits(dimension: int, cell_count: int, device: Device) -> int:
        """Number of densities that fit in memory at a time, with typical growth of their grids."""
        each = 4 * max(CUDARunner.cells_least, 2 * cell_count) * (150 + 16 * dimension)
        return max(1, room_on(device) // each)

    # ---- properties

    @property
    def has_ended(self) -> np.ndarray:
        """Whether each density can no longer continue."""
        return np.asarray(self.status != Status.DONE)

    @property
    def count(self) -> int:
        """Number of densities."""
        return len(self.parameters)

    @property
    def times(self) -> np.ndarray:
        """Time of each density [time]."""
        return self._control[:, cells.TIME].copy()

    @property
    def cell_count(self) -> int:
        """Number of cells of the largest density."""
        return int(self._counters[:, cells.USED].max()) - 1

    @property
    def steps(self) -> np.ndarray:
        """Number of steps that each density has taken [density]."""
        return self._counters[:, cells.STEPS].copy()

    @property
    def work(self) -> dict[str, int]:
        """Steps and cell-steps of all densities, and the largest number of cells so far."""
        counters = self._counters
        return {
            "steps": int(counters[:, cells.STEPS].sum()),
            "cell_steps": int(counters[:, cells.CELL_STEPS].sum()),
            "cell_count_most": int(counters[:, cells.PEAK].max()),
        }

    @property
    def budget(self) -> dict[str, np.ndarray]:
        """Mass balance of each density since loading.

        Mass that was loaded, pruned, lost at faces, made by clipping, absorbed and killed.
        """
        names = ("loaded", "pruned", "lost", "clipped", "absorbed", "killed")
        places = (
            cells.LOADED, cells.PRUNED, cells.LOST, cells.CLIPPED, cells.ABSORBED,
            cells.KILLED_MASS,
        )  # fmt: skip
        return {
            name: self._counters[:, at] / float(cells.MASS_UNIT)
            for name, at in zip(names, places, strict=True)
        }

    # ---- operations

    def load(
        self, time: float, priors: Sequence[tuple[np.ndarray, np.ndarray]], span: float = 1.0
    ) -> None:
        """Load cells: keys and masses of each density, for a run over a `span` of time."""
        self._span = span
        self._control[:, [cells.TIME, cells.NOISE_TIME, cells.LOADED_AT, cells.SEEN]] = time
        self._control[:, [cells.ALLOWED, cells.FLOOR]] = 0.0
        self._allocate(max(len(keys) for keys, _ in priors))
        counters = self._counters
        sums = [cells.PRUNED, cells.LOST, cells.CLIPPED, cells.ABSORBED, cells.KILLED_MASS]
        counters[:, [cells.SINCE, *sums]] = 0
        for which, (keys, mass) in enumerate(priors):
            self._place(which, keys, np.asarray(mass, self.precision))
        self.settle()
        counters[:, cells.LOADED] = counters[:, mass_word(self.lattices[0].dimension)]
        self._check_speed()

    def read(self, which: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Keys of a density in ascending order, and the mass of each cell.

        They stay on the device if results do (see `core.calls.resident`).
        """
        needed = _BYTES_READ * (int(self._counters[which, cells.USED]) - 1)
        if resident.device() is not None and needed > room_on(self.device):
            check_room(needed, "the cells of one more time", "use keep='last', or larger widths")
        key, mass = (resident.fetch(self.device, array) for array in self._filled(which))
        key = key & cells.KEY
        order = np.argsort(key)
        # Rounding errors may be slightly negative.
        return key[order], np.maximum(mass[order].astype(np.float64), 0.0)

    def state(self) -> dict[str, Any]:
        """What `restore` takes: between two calls that advance the densities."""
        found: dict[str, Any] = {
            "words": self._words, "status": self.status,
            "centre": np.stack([one.centre for one in self.lattices]),
        }  # fmt: skip
        if self.has_ended.any():
            found["why_ended"] = self.why_ended
        for which in range(self.count):
            key, mass = self._filled(which)
            found |= {f"key_{which}": self.device.get(key), f"mass_{which}": self.device.get(mass)}
        return found

    def restore(self, state: Mapping[str, np.ndarray], span: float) -> None:
        """Go on from a state, in a run over a `span` of time."""
        self._span = span
        self.status, self.why_ended = state["status"].copy(), str(state.get("why_ended", ""))
        self._move(
            [
                replace(one, centre=at)
                for one, at in zip(self.lattices, state["centre"], strict=True)
            ]
        )
        held = [(state[f"key_{which}"], state[f"mass_{which}"]) for which in range(self.count)]
        self._allocate(max(len(keys) for keys, _ in held))
        self._words[...] = state["words"]
        for which, (keys, mass) in enumerate(held):
            self._place(which, keys, mass)

    def advance(
        self, target: float, paused: Callable[[], None] = lambda: None, is_within: bool = False
    ) -> None:
        """Advance to a time; a density that fails keeps its last valid state.

        `paused` is called where the densities have not reached the time. `is_within`: an earlier
        call has begun the way to it.

        Raises an EndedError if all densities have failed.
        """
        if not is_within:
            self._limit_steps(target)
        while True:
            times = self._control[:, cells.TIME]
            self._control[:, cells.TARGET] = np.where(self.has_ended, times, target)
            self._run(self._runner.steps(self.cell_count))
            state = self._counters[:, cells.STATE]
            full = state == cells.FULL
            at_edge, undefined = state == cells.EDGE, state == cells.UNDEFINED
            if at_edge.any():
                self._end_at_edge(at_edge)
            elif undefined.any():
                known = self._known_of(int(undefined.argmax()))
                self.end(undefined, Status.NOT_FINITE, difficulty.where_undefined(*known))
            elif full.any():
                why_not = self._enlarge()
                if why_not:
                    self.end(full, Status.NO_ROOM, why_not)
            elif (state == cells.REACHED).all():
                return
            else:
                for which in np.flatnonzero(self._counters[:, cells.READY] == 0):
                    self._sort(int(which))
            paused()

    def end(self, chosen: np.ndarray, status: Status, why: str) -> None:
        """Stop the chosen densities; the others continue.

        Raises an EndedError if no density is left.
        """
        self.status[chosen] = status
        self.why_ended = why
        if self.has_ended.all():
            raise EndedError(why)

    def settle(self) -> None:
        """Build grids and summarize densities, without a step."""
        times = self._control[:, cells.TIME]
        self._control[:, cells.TARGET] = times
        self._run((FOREVER, PRUNE_EVERY, FOREVER))

    def summaries(self) -> list[Summary]:
        """Moments and sharpness of each density, from the latest call."""
        return summaries_of(self.lattices, np.asarray(self._counters))

    def innovation(self, measurement: Measurement, places: np.ndarray) -> np.ndarray:
        """Distances of values from what densities expect [density], in deviations."""
        found = np.full(self.count, np.nan)
        for which in np.flatnonzero(~self.has_ended).tolist():
            lattice, one = self.lattices[which], slice(which, which + 1)
            keys, mass = (on_host(part) for part in self.read(which))
            points = lattice.points(lattice.unpack(keys))
            values = self.parameters[one]
            found[which] = innovation_of(
                self.device, measurement, places[one], points[None], values, mass[None]
            )[0]
        return found

    def correct(
        self, measurement: Measurement, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Multiply by the likelihood of a measurement.

        `places` [density] are indices of densities among those that run side by side. Returns the
        logarithm of the evidence [density] (where it is not finite, the measurement is impossible
        and the density is unchanged), and the posterior probability [density] of the cells that
        were below the threshold before. `undefined` then tells where likelihoods are not numbers.
        """
        assert self._cells is not None
        stride = self.cell_count + 1
        log = self.device.empty((self.count, stride), np.float64)
        constants = bayes.find_likelihoods(
            measurement, places, self.lattices, self.device, self._exact_frame, self._cells.key,
            self._cells.counters, log,
        )  # fmt: skip
        sums, outcome = self.device.zeros_together(
            [((self.count, 5), np.int64), ((self.count, 2), np.float64)]
        )
        self.device.copy(np.full((self.count, 2), -np.inf), outcome)
        kernel = reweigh_kernel(
            self.precision, self._thread_group, self._runner.blocks, self._is_lossy
        )
        arguments = (self._cells, self._masses, log, self._device_control, sums, outcome)
        self._start(kernel, arguments)
        words = self.device.get(sums)
        mass = self._counters[:, mass_word(self.lattice.dimension)]
        self.undefined = {
            which: bayes.undefined_of(
                self.lattices[which], self.device.get(self._filled(which)[0]),
                self.device.get(log)[which], self.summaries()[which].mean,
                words[which, 4] / mass[which],
            )
            for which in np.flatnonzero(words[:, 4]).tolist()
        }  # fmt: skip
        self.settle()
        evidence = self.device.get(outcome)[:, 1] + constants
        faint = words[:, 3] / float(cells.MASS_UNIT)
        self._control[:, [cells.NOISE_TIME, cells.LOADED_AT]] = self._control[:, [cells.TIME]]
        self._control[:, cells.FLOOR] = 0.0
        return evidence, faint

    def prune(self, may_lose: float | np.ndarray = 0.0) -> None:
        """Drop the cells below the threshold, or cells with a total mass of at most `may_lose`."""
        self._control[:, cells.ALLOWED] = may_lose
        self._control[:, cells.TO_PRUNE] = 1.0
        self.settle()

    def jump(self, maneuver: Maneuver, places: np.ndarray) -> None:
        """Apply a maneuver; `places` are as for `correct`.

        Raises an EndedError if no density is left.
        """
        changes = maneuver.changes(places)
        self._move([one.moved(by) for one, by in zip(self.lattices, changes, strict=True)])
        self._counters[:, cells.READY] = 0
        self._control[:, cells.FLOOR] = 0.0
        if maneuver.covariance is None:
            self.settle()
            return
        self._spread(maneuver)
        self._control[:, cells.TO_PRUNE] = 1.0
        self.settle()

    # ---- implementation

    def _move(self, lattices: Sequence[Lattice]) -> None:
        """Move the cells: the lattices differ from the present ones by their centres."""
        self.lattices = list(lattices)
        self.lattice = self.lattices[0]
        centre = np.stack([one.centre for one in self.lattices])
        (exact,) = self.device.put_together([centre])
        (rounded,) = self.device.put_together([centre.astype(self.precision)])
        self._exact_frame = self._exact_frame._replace(centre=exact)
        self._frame = self._frame._replace(centre=rounded)
        self._runner.forget()  # kept launches have the former centre

    def _spread(self, maneuver: Maneuver) -> None:
        """Spread mass between cells by the covariance of a maneuver, on the host."""
        filled = [self._filled(which) for which in range(self.count)]
        before = [
            (np.array(self.device.get(key)), np.array(self.device.get(mass)))
            for key, mass in filled
        ]
        after, at_edge = list(before), np.zeros(self.count, bool)
        balance = self.budget
        total = balance["loaded"] - balance["pruned"] - balance["lost"] + balance["clipped"]
        total = total - balance["absorbed"] - balance["killed"]
        for which in np.flatnonzero(~self.has_ended).tolist():
            lattice, (keys, mass) = self.lattices[which], before[which]
            faint = float(self._control[which, cells.THRESHOLD] * total[which])
            found = jump.spread(lattice, keys & cells.KEY, mass, maneuver.covariance, faint)
            if found is None:
                at_edge[which] = True
                continue
            after[which] = found.keys, found.mass.astype(self.precision)
            self._counters[which, cells.PRUNED] += round(found.dropped * float(cells.MASS_UNIT))
        why_not = self._put(after, max(len(keys) for keys, _ in after), before)
        if why_not:
            self.end(~self.has_ended, Status.NO_ROOM, why_not)
        elif at_edge.any():
            self._end_at_edge(at_edge)

    def _put(self, held: Sequence[Any], least: int, otherwise: Sequence[Any]) -> str:
        """Put cells in new arrays for at least `least` of them.

        Kernels expect that places without a cell are zero.  Where there is no room, `otherwise` is
        put in arrays of the present size, and the reason is returned.
        """
        before, why_not = self._capacity, ""
        # All other arrays are freed first, to leave as much memory as possible.
        self._cells = self._masses = None
        self._runner.forget()
        self._capacity = 0
        try:
            self._allocate(least)
        except PlanError as error:
            held, why_not = otherwise, str(error)
            self._make_arrays(before)
        for which, (keys, mass) in enumerate(held):
            self._place(which, keys, mass)
        return why_not

    def _end_at_edge(self, chosen: np.ndarray) -> None:
        which = int(chosen.argmax())
        known, (_, mass) = self._known_of(which), self._filled(which)
        undefined = difficulty.where_undefined(*known)
        boundless = undefined or difficulty.where_boundless(*known, self.device.get(mass))
        self.end(
            chosen, Status.NOT_FINITE if undefined else Status.OUT_OF_LATTICE,
            boundless
            or f"the density reaches the end of the lattice, {self.lattice.reach} cells from its "
            "centre; use larger widths",
        )  # fmt: skip

    def _limit_steps(self, target: float) -> None:
        """Bound the steps if the field depends on time: short steps where it changes fast."""
        begin = float(self.times[~self.has_ended].min(initial=target))
        if self._forcing is None or not begin < target:
            return
        share = (target - begin) / self._span
        samples = forcing.samples_of(share)
        spacing = (target - begin) / (cells.PARTS * samples)
        moments = forcing.moments_along(self.lattices, self.summaries())
        (bends,) = self.device.zeros_together([((self.count, cells.PARTS), np.float64)])
        is_brief = self.count * samples <= 256
        with kernels.readable_errors():
            self.device.run(
                self._forcing, bends.size, begin, spacing, samples,
                *self.device.put_together(moments), self._exact_frame, bends,
                grain=bends.size if is_brief else None, is_brief=is_brief,
            )  # fmt: skip
        bends = self.device.get(bends)
        self._control[:, cells.BEGAN] = begin
        self._control[:, cells.PART_RATE] = cells.PARTS / (target - begin)
        self._control[:, cells.CONTROLS :] = forcing.longest_steps(bends, spacing, samples, share)

    @property
    def _thread_group(self) -> ThreadGroup:
        """The thread group for the present number of cells."""
        return self._runner.thread_group(self.cell_count)

    def _run(self, steps: tuple[int, int, int]) -> None:
        """Advance all densities to their targets, or until the budget of a call is spent."""
        thread_group = self._thread_group
        if thread_group not in self._kernels:
            bindings = self._bindings(thread_group=thread_group, blocks=self._runner.blocks)
            self._kernels[thread_group] = advance_kernel(bindings, self.precision, thread_group)
        arguments = (*steps, self._cells, self._masses, self._frame, self._device_control)
        self.device.copy(self._words, self._device_words)
        self._start(self._kernels[thread_group], arguments, kept_as=steps)

    def _start(
        self, kernel: kernels.Kernel, arguments: tuple[Any, ...], kept_as: Any = None
    ) -> None:
        """Run a kernel for all densities, and copy its words back."""
        assert self._cells is not None and self._masses is not None
        used = self._counters[:, cells.USED]
        with kernels.readable_errors():
            self._runner.start(kernel, arguments, self._cells.barrier_words, used, kept_as)
        found = self.device.get(self._device_words)
        if found is not self._words:
            self._words[...] = found

    def _parts_of(self, words: Any) -> tuple[Any, Any]:
        """Counters and controls, which share one array of words."""
        controls = self.count * (cells.CONTROLS + (cells.PARTS if self._forcing else 0))
        return (
            words[:-controls].reshape(self.count, -1),
            words[-controls:].view(np.float64).reshape(self.count, -1),
        )

    def _filled(self, which: int) -> tuple[Any, Any]:
        """Keys and masses of the cells of a density, on the device."""
        assert self._cells is not None and self._masses is not None
        used = int(self._counters[which, cells.USED])
        return self._cells.key[which, 1:used], self._masses.now[which, 1:used]

    def _sort(self, which: int) -> None:
        """Sort cells in Morton order, so that neighbours are close in memory."""
        key, mass = self._filled(which)
        bound = {DIMENSION: self.lattice.dimension, BITS: self.lattice.bits}
        code = self.device.empty(len(key), np.int64)
        self.device.run(kernels.for_each(cells.interleave, bindings=bound), len(key), 0, key, code)
        self.device.sort_together(code, key, mass)

    def _place(self, which: int, keys: Any, mass: Any) -> None:
        """Put cells into the arrays."""
        self._counters[which, cells.USED] = len(keys) + 1
        self._counters[which, cells.READY] = 0
        for target, array in zip(self._filled(which), (keys, mass), strict=True):
            self.device.copy(array, target)

    def _allocate(self, count: int) -> None:
        """Allocate at least `count` cells for each density, and some spare cells."""
        if self._capacity > count + count // 2:
            return
        wanted = self._runner.room_for(count)
        each = self._memory.bytes_per_cell
        room = room_on(self.device) // (each * self.count)
        limit = f"there is room for {room} on {self.device.name}"
        # The sentinel, cell 0, does not count.
        if self._cells_most is not None and self._cells_most + 1 < room:
            room, limit = self._cells_most + 1, f"max_cells is {self._cells_most}"
        if room <= count:
            which = "the density needs" if self.count == 1 else f"{self.count} densities need"
            fewer = "" if self.count == 1 else ", or fewer densities at a time"
            raise PlanError(
                f"{which} more than {count - 1} cells{' each' if fewer else ''} of {each} bytes, "
                f"{self.count * count * each / 1e9:.2g} GB, and {limit}; use larger widths or a "
                f"larger threshold{fewer}"
            )
        self._make_arrays(min(wanted, room))

    def _make_arrays(self, capacity: int) -> None:
        self._cells, self._masses = self._memory.arrays(
            self.device, self.count, capacity, self._device_counters
        )
        self._capacity = capacity
        self._runner.forget()

    def _known_of(self, which: int) -> tuple[Lattice, np.ndarray, np.ndarray]:
        """Lattice, keys [cell] and rates [row, cell] of a density, on the host."""
        assert self._cells is not None
        used = int(self._counters[which, cells.USED])
        kept = [self._cells.rate] + [self._cells.spread] * self._keeps_spread
        rates = np.concatenate([self.device.get(one[which])[:, 1:used] for one in kept])
        if self._kills:
            decay = self.device.get(self._cells.decay[which])[1:used]
            rates = np.vstack([rates, np.where(decay < 0, np.nan, decay)])
        keys, _ = self._filled(which)
        return self.lattices[which], self.device.get(keys) & cells.KEY, rates

    def _check_speed(self) -> None:
        """End densities whose first rates need steps without end; warn of a run of minutes."""
        assert self._cells is not None
        fastest = self.device.get(self._cells.fastest)[:, 0].astype(np.float64)
        never = difficulty.is_too_fast(fastest, self._span)
        if never.any():
            known = self._known_of(int(never.argmax()))
            self.end(never, Status.NOT_FINITE, difficulty.where_too_fast(*known, self._span))
        counts = self._counters[:, cells.USED] - 1
        said = difficulty.long_run(fastest * ~never, counts, self._span, self.device)
        if said:
            launch.warn(said, PerformanceWarning)

    def _enlarge(self) -> str:
        """Allocate more cells; return the reason if that is impossible, else an empty string."""
        held = [
            [self._runner.copy_of(array) for array in self._filled(which)]
            for which in range(self.count)
        ]
        why_not = self._put(held, max(self.cell_count, self._capacity), held)
        if why_not:
            self.settle()
        return why_not
