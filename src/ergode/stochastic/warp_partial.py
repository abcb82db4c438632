"""Partial propensities on a GPU: a warp computes one realization.

What a firing changes and what it searches is shared out over the 32 threads of a warp; counts and
sums of partial propensities stay in shared memory, and the network, which all realizations read,
in the cache.  A search is a sum by every thread over its share, a prefix sum over the warp and a
vote, as in M. Komarov, R. D'Souza, PLoS ONE 7 e46693 (2012); the method is that of
`partial_propensity`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.machine import cuda, real
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.core.status import Status
from ergode.stochastic import partial_propensity
from ergode.stochastic.ensemble import Ensemble, Wanted
from ergode.stochastic.partial_propensity import ITSELF
from ergode.stochastic.realization import COUNT_LIMIT, INFINITY
from ergode.stochastic.tables import Tables

_DONE = np.uint8(Status.DONE)
_EXTINCT = np.uint8(Status.EXTINCT)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)
_TOO_MANY = np.uint8(Status.TOO_MANY_STEPS)
_OVERFLOW = np.uint8(Status.OVERFLOW)
_ALL = np.uint32(0xFFFFFFFF)
_LOW_HALF = np.int64(0xFFFFFFFF)

WARPS = 4
SHARED_BYTES = 48 * 1024


class Groups(NamedTuple):
    """What warps read of a network; as in `partial_propensity.Own`, coefficients in place."""

    initial: Any  # [point, variable]
    change_starts: Any
    changed: Any
    changes: Any
    factor: Any
    member_starts: Any
    members: Any
    partners: Any
    member_coefficients: Any  # [point, entry]
    touch_starts: Any
    touched: Any
    touch_coefficients: Any  # [point, entry]


def _sum_up_to(value, lane):
    """Sum of the values of this thread and those before it in the warp."""
    for k in range(5):
        distance = 1 << k
        other = cuda.shfl_up_sync(_ALL, value, distance)
        if lane >= distance:
            value += other
    return value


def _partial_of(entry, factor, point, counts, first, groups):
    """Partial propensity of a member of a group."""
    c = groups.member_coefficients[point, entry]
    partner = groups.partners[entry]
    if partner >= 0:
        return c * counts[first + partner]
    if partner == ITSELF:
        return c * max(counts[first + factor] - 1.0, real(0.0))
    return c


def realize_warps(queue, total_count, groups, plan, out):
    """All realizations: a warp takes the next from the queue when it has finished one."""
    memory = cuda.shared.array(0, np.float64)
    lane = cuda.threadIdx.x & 31
    species = out.sums.shape[3]
    group_count = groups.factor.size
    # Counts, then sums of partial propensities.
    counts = (cuda.threadIdx.x >> 5) * (species + group_count)
    sums = counts + species
    share = ((group_count + 31) // 32) | 1  # odd: no two threads in one bank
    begins, ends = min(lane * share, group_count), min((lane + 1) * share, group_count)
    grid = out.grid
    times = grid.size
    first_point = plan.first // plan.replicates
    row = np.int64(0)
    if lane == 0:
        row = cuda.atomic.add(queue, 0, 1)
    row = cuda.shfl_sync(_ALL, row, 0)
    while row < total_count:
        point = (plan.first + row) // plan.replicates
        replicate = np.uint32(plan.first + row - point * plan.replicates)
        cell = point - first_point
        for i in range(lane, species, 32):
            memory[counts + i] = groups.initial[point, i]
        cuda.syncwarp()
        for g in range(group_count):
            value = real(0.0)
            for entry in range(
                groups.member_starts[g] + lane, groups.member_starts[g + 1], 32
            ):  # fmt: skip
                value += _partial_of(entry, groups.factor[g], point, memory, counts, groups)
            value = cuda.shfl_sync(_ALL, _sum_up_to(value, lane), 31)
            if lane == 0:
                memory[sums + g] = value
        cuda.syncwarp()
        t = plan.begin
        draw = np.int64(0)
        firings = np.int64(0)
        cursor = 0
        outcome = _DONE
        while True:
            mine = real(0.0)
            for g in range(begins, ends):
                factor = groups.factor[g]
                n = memory[counts + factor] if factor >= 0 else real(1.0)
                mine += n * memory[sums + g]
            up_to = _sum_up_to(mine, lane)
            total = cuda.shfl_sync(_ALL, up_to, 31)
            if not (total >= 0.0 and total < INFINITY):
                outcome = _NOT_FINITE
                break
            w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw)
            draw += 1
            fires_at = t + exponential(w0, w1) / total
            while cursor < times and not (fires_at < grid[cursor]):
                fits = 1
                for i in range(lane, species, 32):
                    if not abs(memory[counts + i]) < COUNT_LIMIT:
                        fits = 0
                if cuda.all_sync(_ALL, fits) == 0:
                    outcome = _OVERFLOW
                    break
                if out.counts.shape[2] > 0 and lane == 0:
                    cuda.atomic.add(out.counts, (0, cell, cursor), 1)
                for i in range(lane, species, 32):
                    n = np.int64(memory[counts + i])
                    if out.amounts.shape[0] > 0:
                        out.amounts[row, cursor, i] = n
                    if out.counts.shape[2] > 0 and n != 0:
                        where = (0, cell, cursor, i)
                        cuda.atomic.add(out.sums, where, n)
                        cuda.atomic.add(out.squares_low, where, (n * n) & _LOW_HALF)
                        if (n * n) >> 32 != 0:
                            cuda.atomic.add(out.squares_high, where, (n * n) >> 32)
                cursor += 1
            if outcome != _DONE:
                break
            if cursor == times:
                outcome = _EXTINCT if total == 0.0 else _DONE
                break
            if firings >= plan.firings_most:
                outcome = _TOO_MANY
                break
            # The thread in whose share the target falls finds the group.
            target = uniform(w2, w3) * total
            winner = cuda.ffs(cuda.ballot_sync(_ALL, up_to > target)) - 1
            chosen = np.int32(-1)
            inside = real(0.0)
            if lane == winner:
                rest = target - (up_to - mine)
                for g in range(begins, ends):
                    factor = groups.factor[g]
                    n = memory[counts + factor] if factor >= 0 else real(1.0)
                    a = n * memory[sums + g]
                    if a > 0.0:
                        chosen = np.int32(g)
                        inside = rest / n
                        if rest < a:
                            break
                    rest -= a
            winner = max(winner, 0)
            chosen = cuda.shfl_sync(_ALL, chosen, winner)
            inside = cuda.shfl_sync(_ALL, inside, winner)
            if chosen < 0:
                continue
            # And within the group, which is added up anew on the way, the reaction.
            factor = groups.factor[chosen]
            first, last = groups.member_starts[chosen], groups.member_starts[chosen + 1]
            part = (last - first + 31) // 32
            from_entry = min(first + lane * part, last)
            to_entry = min(from_entry + part, last)
            mine = real(0.0)
            for entry in range(from_entry, to_entry):
                mine += _partial_of(entry, factor, point, memory, counts, groups)
            up_to = _sum_up_to(mine, lane)
            within = cuda.shfl_sync(_ALL, up_to, 31)
            cuda.syncwarp()
            if lane == 0:
                memory[sums + chosen] = within
            vote = cuda.ballot_sync(_ALL, up_to > inside and mine > 0.0)
            some = cuda.ballot_sync(_ALL, mine > 0.0)
            cuda.syncwarp()
            if some == 0:
                continue
            winner = cuda.ffs(vote) - 1 if vote != 0 else 31 - cuda.clz(some)
            j = np.int32(-1)
            if lane == winner:
                rest = inside - (up_to - mine)
                for entry in range(from_entry, to_entry):
                    value = _partial_of(entry, factor, point, memory, counts, groups)
                    if value > 0.0:
                        j = np.int32(groups.members[entry])
                        if rest < value:
                            break
                    rest -= value
            j = cuda.shfl_sync(_ALL, j, winner)
            t = fires_at
            firings += 1
            start, stop = groups.change_starts[j], groups.change_starts[j + 1]
            for entry in range(start + lane, stop, 32):
                memory[counts + groups.changed[entry]] += groups.changes[entry]
            for entry in range(start, stop):
                variable = groups.changed[entry]
                delta = groups.changes[entry]
                cuda.syncwarp()
                for k in range(
                    groups.touch_starts[variable] + lane, groups.touch_starts[variable + 1], 32
                ):  # fmt: skip
                    place = sums + groups.touched[k]
                    value = memory[place] + delta * groups.touch_coefficients[point, k]
                    memory[place] = max(value, real(0.0))
            cuda.syncwarp()
        if lane == 0:
            out.status[row] = outcome
            out.firings[row] = firings
            out.ended[row] = INFINITY
            row = cuda.atomic.add(queue, 0, 1)
        row = cuda.shfl_sync(_ALL, row, 0)
        cuda.syncwarp()


def merged(tables: Tables, constants: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Groups that a variable touches, each once, with the sum of their coefficients."""
    net = tables.net
    count = tables.variable_count
    variable = np.repeat(np.arange(count), np.diff(constants["touch_starts"]))
    width = count + 1
    key, place = np.unique(variable * width + constants["touched"], return_inverse=True)
    sums = np.zeros((len(net.coefficients), key.size))
    for point, row in enumerate(net.coefficients):
        sums[point] = np.bincount(place, weights=row[constants["by"]], minlength=key.size)
    starts = np.concatenate([[0], np.cumsum(np.bincount(key // width, minlength=count))])
    return {
        "touch_starts": starts.astype(np.int32),
        "touched": (key % width).astype(np.int32),
        "touch_coefficients": sums,
    }


class WarpEnsemble(Ensemble):
    """The same as `Ensemble` for partial propensities, with a warp for a realization."""

    _groups: Groups | None = None

    def groups(self) -> Groups:
        """The network on the device."""
        if self._groups is None:
            net = self.tables.net
            constants = partial_propensity.constants(self.tables)
            arrays = {
                **{name: constants[name] for name in ("factor", "member_starts", "members")},
                "partners": constants["partners"],
                "member_coefficients": net.coefficients[:, constants["members"]],
                "initial": net.initial,
                "change_starts": net.change_starts,
                "changed": net.changed,
                "changes": net.changes,
                **merged(self.tables, constants),
            }
            self._groups = Groups(**{k: self.device.put(v) for k, v in arrays.items()})
        return self._groups

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        from ergode.core import cuda

        plan = self._plan._replace(first=np.int64(first))
        points = -(-(first + count) // self.replicates) - first // self.replicates
        out = self.results(count, 1, points, wanted)
        queue = self.device.put(np.zeros(1, np.int64))
        arguments = (queue, np.int64(count), self.groups(), plan, out)
        compiled = KERNEL.compiled("cuda")
        threads, shared = 32 * WARPS, shared_bytes(self.tables)
        resident = cuda.cooperative_block_count(compiled, threads, arguments, shared)
        cuda.launch(compiled, min(resident, -(-count // WARPS)), threads, arguments, shared)
        cuda.synchronize()
        report(count)
        return self._fetch(out, wanted)


KERNEL = kernels.cuda_kernel(realize_warps, registers=64)


def shared_bytes(tables: Tables) -> int:
    """Shared memory of a block."""
    return 8 * WARPS * (2 * tables.variable_count + 1)


def fits(tables: Tables) -> bool:
    """Whether counts and sums are small enough, and nothing interrupts a realization."""
    return (
        shared_bytes(tables) <= SHARED_BYTES
        and tables.event_count == 0
        and tables.net.breaks.size == 0
        and tables.net.stop.size == 0
        and not tables.has_delays
    )
