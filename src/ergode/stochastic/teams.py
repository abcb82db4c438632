"""Realizations on a GPU by teams of threads: a part of a warp has a realization, or a block has.

What a firing changes and what it searches is shared out over the threads of a team.  A method has
some numbers in shared memory whose sum is that of all propensities, next to each other for every
thread; a search is a sum by every thread over its share, a prefix sum over the team and a vote,
then the same among the numbers of one thread, and then, by the method, among the reactions that
are behind one number: the three levels of M. Komarov, R. D'Souza, PLoS ONE 7 e46693 (2012).
Waiting times and choices of the next firings are drawn at once, one by each thread.  The network,
which all realizations read, is in the cache.

A block has more threads for one realization, and waits longer at each step: it is for few
realizations of networks in which a firing changes much.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ergode.core import kernels
from ergode.core.machine import cuda, real, rolled
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.core.status import Status
from ergode.stochastic.ensemble import Ensemble, Wanted
from ergode.stochastic.indexing import at
from ergode.stochastic.realization import COUNT_LIMIT, INFINITY
from ergode.stochastic.tables import Tables

_DONE = np.uint8(Status.DONE)
_EXTINCT = np.uint8(Status.EXTINCT)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)
_TOO_MANY = np.uint8(Status.TOO_MANY_STEPS)
_OVERFLOW = np.uint8(Status.OVERFLOW)
_NEGATIVE = np.uint8(Status.NEGATIVE_RATE)
_LOW_HALF = np.int64(0xFFFFFFFF)

# Bound for each kernel: threads of a team, those of them in one warp, a mask of as many bits, and
# numbers that the words below pass on through memory.
TEAM, PART, PART_BITS, SCRATCH = 32, 32, np.uint32(0xFFFFFFFF), 0
# Rows of shared memory are longer by one than a team: what is in one column is in many banks.
STRIDE = TEAM + 1


class Member(NamedTuple):
    """A thread of a team, and where in shared memory the team has what."""

    lane: Any  # among the threads of the team in its warp
    number: Any  # among those of the team
    team: Any
    scratch: Any  # where words pass numbers on
    base: Any  # where the method's numbers begin
    memory: Any  # the shared memory


# ---- what a team can do: in a warp, and in a block of warps


def _leader():
    """The lane in which this thread's part of the warp begins."""
    return np.int32(cuda.threadIdx.x & (32 - PART))


def _mates():
    """Lanes of that part."""
    return np.uint32(PART_BITS << np.uint32(_leader()))


def from_lane(value, k):
    """What the thread at lane `k` of the same part has."""
    return cuda.shfl_sync(_mates(), value, np.int32(_leader() + k))


def from_before(value, distance):
    """What the thread so many lanes before has; anything for the first ones."""
    return cuda.shfl_up_sync(_mates(), value, distance)


def sync():
    """Wait for the others of the team: bound to one of the two below."""


def _sync_warp():
    cuda.syncwarp(_mates())


def _sync_block():
    cuda.syncthreads()


def sum_up_to(value, me):
    """Sum of the values of this thread and those before it, and of all."""
    return value, value


def _sum_in_part(value, me):
    distance = 1
    while distance < PART:
        other = from_before(value, distance)
        if me.lane >= distance:
            value += other
        distance *= 2
    return value


def _sum_up_to_warp(value, me):
    value = _sum_in_part(value, me)
    return value, from_lane(value, PART - 1)


def _sum_up_to_block(value, me):
    value = _sum_in_part(value, me)
    memory = me.memory
    warp = at(me.number >> 5)
    if me.lane == 31:
        memory[at(me.scratch + warp)] = value
    cuda.syncthreads()
    before, total = real(0.0), real(0.0)
    for k in range(TEAM >> 5):
        if k == warp:
            before = total
        total += memory[at(me.scratch + k)]
    cuda.syncthreads()
    return before + value, total


def one_of(first, some, me):
    """The first thread for which `first` holds, else the last for which `some` does, else -1."""
    return 0


def _one_of_warp(first, some, me):
    votes = cuda.ballot_sync(_mates(), first)
    if votes != 0:
        return np.int32(cuda.ffs(votes) - 1 - _leader())
    votes = cuda.ballot_sync(_mates(), some)
    return np.int32(31 - cuda.clz(votes) - _leader()) if votes != 0 else np.int32(-1)


def _one_of_block(first, some, me):
    memory = me.memory
    votes, others = cuda.ballot_sync(_mates(), first), cuda.ballot_sync(_mates(), some)
    warps = TEAM >> 5
    if me.lane == 0:
        warp = me.number >> 5
        ahead = me.number + cuda.ffs(votes) - 1 if votes != 0 else TEAM
        behind = me.number + 31 - cuda.clz(others) if others != 0 else -1
        memory[at(me.scratch + warp)] = real(ahead)
        memory[at(me.scratch + warps + warp)] = real(behind)
    cuda.syncthreads()
    found, last = real(TEAM), real(-1.0)
    for k in range(warps):
        found = min(found, memory[at(me.scratch + k)])
        last = max(last, memory[at(me.scratch + warps + k)])
    cuda.syncthreads()
    return np.int32(found) if found < TEAM else np.int32(last)


def hand_out(value, who, me):
    """The value of one thread, to all."""
    return value


def _hand_out_warp(value, who, me):
    return from_lane(value, who)


def _hand_out_block(value, who, me):
    memory = me.memory
    if me.number == who:
        memory[at(me.scratch)] = value
    cuda.syncthreads()
    value = memory[at(me.scratch)]
    cuda.syncthreads()
    return value


def search(value, target, me):
    """Whose value `target` falls into, what is left of it there, and the sum of all values.

    The last who has any if it falls behind all; -1 if none has.
    """
    up_to, total = sum_up_to(value, me)
    some = value > 0.0
    who = one_of(up_to > target and some, some, me)
    if who >= 0:
        target = hand_out(target - (up_to - value), who, me)
    return who, target, total


def anyone(condition, me):
    """Whether it holds for one at least."""
    return one_of(condition, False, me) >= 0


# ---- numbers in shared memory: number i is in column i // width, and there in row i % width


def spot_of(i, width):
    """Where number `i` is, counted from the first."""
    return i % width * STRIDE + i // width


def pick(who, target, me, own):
    """Number of thread `who` into whose value `target` falls, where it is, what is left, if any."""
    number, place = np.int32(-1), np.uint32(0)
    begin = np.int32(0)
    while begin < own.width:
        value = real(0.0)
        k = np.int32(begin + me.number)
        if k < own.width:
            value = team_value(at(me.base + k * STRIDE + who), me, own)
        found, rest, total = search(value, target, me)
        if found >= 0:
            k = np.int32(begin + found)
            number = np.int32(who * own.width + k)
            place = np.uint32(me.base + k * STRIDE + who)
            if target < total:
                target = rest
                break
        target -= total
        begin = np.int32(begin + TEAM)
    return number, place, target


def row_of_change(j, me, own):
    """Of `change_rows` what is of this lane: where the count is, its change, and a list."""
    spot, delta, begin, end = np.int32(-1), np.int32(0), np.int32(0), np.int32(0)
    if me.lane < own.changes_most:
        k = np.int32(4 * (j * own.changes_most + me.lane))
        spot, delta = own.rows[at(k)], own.rows[at(k + 1)]
        begin, end = own.rows[at(k + 2)], own.rows[at(k + 3)]
    return spot, delta, begin, end


# ---- bound for each method


def team_value(place, me, own):
    """A number of which the sum of all propensities is one."""
    return me.memory[place]


def team_count(i, me, work, own):
    """Count of a species."""
    return real(0.0)


def team_prepare(t, point, me, net, work, own):
    """Make everything that the method keeps, from the state at the beginning."""


def team_choose(number, place, target, point, me, work, own):
    """Reaction behind a number at `place` in whose share `target` falls; -1 for none."""
    return 0


def team_follow(j, t, point, me, net, work, own):
    """Change the state by what reaction `j` does, and follow it."""


# ---- the realization


def report(row, cell, cursor, me, work, own, out):
    """Report the state at time `cursor` of the grid; false if a count is too large."""
    species = out.sums.shape[3]
    wrong = False
    for i in rolled(range(me.number, species, TEAM)):
        wrong = wrong or not abs(team_count(i, me, work, own)) < COUNT_LIMIT
    if anyone(wrong, me):
        return False
    if out.counts.shape[2] > 0 and me.number == 0:
        cuda.atomic.add(out.counts, (0, cell, cursor), 1)
    for i in rolled(range(me.number, species, TEAM)):
        n = np.int64(team_count(i, me, work, own))
        if out.amounts.shape[0] > 0:
            out.amounts[row, cursor, i] = n
        if out.counts.shape[2] > 0 and n != 0:
            where = (0, cell, cursor, i)
            cuda.atomic.add(out.sums, where, n)
            cuda.atomic.add(out.squares_low, where, (n * n) & _LOW_HALF)
            if (n * n) >> 32 != 0:
                cuda.atomic.add(out.squares_high, where, (n * n) >> 32)
    return True


def realize_teams(queue, count, size, net, work, own, plan, out):
    """All realizations: a team takes the next from the queue when it has finished one.

    A team has `size` numbers of the shared memory: of the words above, one that says whether a
    propensity is negative, and the method's own.
    """
    memory = cuda.shared.array(0, np.float64)
    scratch = at(cuda.threadIdx.x // TEAM * size)
    alarm = at(scratch + SCRATCH)
    me = Member(
        np.int32(cuda.threadIdx.x & (PART - 1)),
        np.int32(cuda.threadIdx.x & (TEAM - 1)),
        at(cuda.grid(1) // TEAM),
        scratch,
        at(alarm + 1),
        memory,
    )
    grid = out.grid
    times = grid.size
    first_point = plan.first // plan.replicates
    taken = real(0.0)
    if me.number == 0:
        taken = real(cuda.atomic.add(queue, 0, 1))
    row = np.int64(hand_out(taken, 0, me))
    while row < count:
        number = (plan.first + row) // plan.replicates
        replicate = np.uint32(plan.first + row - number * plan.replicates)
        cell = number - first_point
        point = at(number)
        if me.number == 0:
            memory[alarm] = 0.0
        t = plan.begin
        team_prepare(t, point, me, net, work, own)
        sync()
        draw = np.int64(0)
        firings = np.int64(0)
        cursor = 0
        limit = grid[0]
        outcome = _DONE
        waits, choices = real(0.0), real(0.0)
        while True:
            mine = real(0.0)
            place = np.uint32(me.base + me.number)
            k = np.int32(0)
            while k < own.width:
                mine += team_value(place, me, own)
                place = np.uint32(place + STRIDE)
                k = np.int32(k + 1)
            up_to, total = sum_up_to(mine, me)
            if memory[alarm] != 0.0:
                outcome = _NEGATIVE
                break
            if not (total >= 0.0 and total < INFINITY):
                outcome = _NOT_FINITE
                break
            turn = np.int32(draw & (PART - 1))
            if turn == 0:
                w0, w1, w2, w3 = draw_words(
                    plan.seed, replicate, draw >> 32, FIRING, draw + me.lane
                )  # fmt: skip
                waits, choices = exponential(w0, w1), uniform(w2, w3)
            draw += 1
            fires_at = t + from_lane(waits, turn) / total
            if not fires_at < limit:
                while cursor < times and not fires_at < grid[cursor]:
                    if not report(row, cell, cursor, me, work, own, out):
                        outcome = _OVERFLOW
                        break
                    cursor += 1
                if outcome != _DONE:
                    break
                if cursor == times:
                    outcome = _EXTINCT if total == 0.0 else _DONE
                    break
                limit = grid[cursor]
            target = from_lane(choices, turn) * total
            some = mine > 0.0
            who = one_of(up_to > target and some, some, me)
            if who < 0:
                continue
            target = hand_out(target - (up_to - mine), who, me)
            chosen, place, target = pick(who, target, me, own)
            if chosen < 0:
                continue
            j = team_choose(chosen, place, target, point, me, work, own)
            if j < 0:
                continue
            t = fires_at
            firings += 1
            team_follow(j, t, point, me, net, work, own)
            sync()
            if firings >= plan.firings_most:
                outcome = _TOO_MANY
                break
        if me.number == 0:
            out.status[row] = outcome
            out.firings[row] = firings
            out.ended[row] = INFINITY
            taken = real(cuda.atomic.add(queue, 0, 1))
        sync()
        row = np.int64(hand_out(taken, 0, me))


class TeamNet(NamedTuple):
    """What teams read of a network, besides what a method has of its own: as in `tables.Net`."""

    initial: Any
    coefficients: Any
    parameters: Any
    laws: Any
    pairs: Any
    reactant_starts: Any
    reactants: Any
    orders: Any
    program_starts: Any
    operations: Any
    arguments: Any
    constants: Any


class TeamWork(NamedTuple):
    """What propensities read and need; rows of one team each, and of one thread each."""

    x: Any  # [team, variable]
    stack: Any  # [thread, depth]


def team_of(w):
    """The team of a thread."""
    return w // TEAM


WARP, BLOCK = 32, 256
_THREADS = 128
_REGISTERS = 64
_WARPS_A_MULTIPROCESSOR = 32
_SHARED_BYTES = 200 * 1024


@lru_cache(maxsize=64)
def team_kernel(
    method: ModuleType, size: int, general: bool, options: tuple[tuple[str, Any], ...]
) -> kernels.Kernel:
    """The kernel of a method for teams of so many threads."""
    words = ("value", "prepare", "choose", "follow", "count")
    bindings: dict[str, Any] = {
        f"team_{word}": getattr(method, f"team_{word}")
        for word in words
        if hasattr(method, f"team_{word}")
    }
    block = size > WARP
    part = min(size, WARP)
    bindings |= {
        "TEAM": size,
        "PART": part,
        "PART_BITS": np.uint32(2**part - 1),
        "STRIDE": size + 1,
        "SCRATCH": size >> 4 if block else 0,
        "sync": _sync_block if block else _sync_warp,
        "sum_up_to": _sum_up_to_block if block else _sum_up_to_warp,
        "one_of": _one_of_block if block else _one_of_warp,
        "hand_out": _hand_out_block if block else _hand_out_warp,
        "row_of": team_of,
        "GENERAL": general,
        **dict(options),
    }
    return kernels.cuda_kernel(realize_teams, bindings=bindings, registers=_REGISTERS)


class TeamEnsemble(Ensemble):
    """The same as `Ensemble`, with a team of threads for a realization.

    Parameters
    ----------
    size : int
        Threads of a team: a power of two, a block of them if it is more than 32.
    """

    def __init__(self, tables: Tables, *, size: int, **options: Any) -> None:
        super().__init__(tables, **options)
        self.size = size
        self._team_net: TeamNet | None = None

    def team_net(self) -> TeamNet:
        """The network on the device."""
        if self._team_net is None:
            net = self.tables.net
            rest = {name: self.device.put(getattr(net, name)) for name in TeamNet._fields}
            self._team_net = TeamNet(**rest)
        return self._team_net

    def options(self, teams: int) -> tuple[int, tuple[tuple[str, Any], ...]]:
        """Numbers that each of so many teams keeps in shared memory, and what is bound."""
        room = shared_doubles(teams, self.size, self.device.core_count)
        doubles, options = self.method.team_options(self.tables, self.size, room)
        return doubles + 1 + (self.size >> 4 if self.size > WARP else 0), options

    def kernel_for(self, teams: int) -> tuple[kernels.Kernel, int]:
        """The kernel for so many teams, and how many numbers of shared memory each has."""
        doubles, options = self.options(teams)
        return team_kernel(self.method, self.size, not self.tables.is_plain, options), doubles

    def team_work(self, teams: int, asked: int) -> tuple[TeamWork, Any]:
        """Rows of all teams."""
        empty, tables, method = self.device.empty, self.tables, self.method
        options = dict(self.options(asked)[1])
        rows = method.team_rows(tables, self.size, options)
        work = TeamWork(
            empty((teams, rows.pop("x", (1, None))[0]), np.float64),
            empty((teams * self.size if not tables.is_plain else 1, tables.depth), np.float64),
        )
        parts = {name: empty((teams, length), kind) for name, (length, kind) in rows.items()}
        constants = method.team_constants(tables, self.size, options)
        names = method.TeamOwn._fields
        put = self.device.put
        parts |= {
            name: constants[name] if np.isscalar(constants[name]) else put(constants[name])
            for name in names
            if name not in parts
        }
        return work, method.TeamOwn(**parts)

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        from ergode.core import cuda

        plan = self._plan._replace(first=np.int64(first))
        points = -(-(first + count) // self.replicates) - first // self.replicates
        out = self.results(count, 1, points, wanted)
        queue = self._queue()
        kernel, size = self.kernel_for(count)
        compiled = kernel.compiled("cuda")
        threads = max(_THREADS, self.size)
        teams = threads // self.size  # of a block
        shared = 8 * size * teams
        small = self.arguments(queue, count, size, 1, plan, out)
        resident = cuda.cooperative_block_count(compiled, threads, small, shared)
        blocks = max(1, min(resident, -(-count // teams), self._most(teams, count)))
        arguments = self.arguments(queue, count, size, blocks * teams, plan, out)
        cuda.launch(compiled, blocks, threads, arguments, shared)
        cuda.synchronize()
        report(count)
        return self._fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        from ergode.core import cuda

        kernel, size = self.kernel_for(count)
        out = self.results(0, 1, 1, wanted)
        arguments = self.arguments(self._queue(), 0, size, 1, self._plan, out)
        cuda.specialize(kernel.compiled("cuda"), arguments)

    def arguments(
        self, queue: Any, count: int, size: int, teams: int, plan: Any, out: Any
    ) -> tuple[Any, ...]:
        """What the kernel is given."""
        return (
            queue, np.int64(count), np.int64(size), self.team_net(),
            *self.team_work(teams, count), plan, out,
        )  # fmt: skip

    def _most(self, teams: int, asked: int) -> int:
        """Blocks of so many teams whose rows fit into memory."""
        options = dict(self.options(asked)[1])
        rows = self.method.team_rows(self.tables, self.size, options).values()
        team_bytes = sum(length * np.dtype(kind).itemsize for length, kind in rows)
        return max(1, int(0.8 * self.device.available_bytes()) // max(1, teams * team_bytes))


def change_rows(
    tables: Tables, spots: np.ndarray, starts: np.ndarray, by_reaction: bool
) -> np.ndarray:
    """What each reaction changes, and which lists follow it, in rows of one length.

    Returns
    -------
    ndarray of int32, shape [reaction, change, 4]
        Where the count of the variable is (of `spots`; -1 behind the last), its change, and where
        the list begins and ends whose entries depend on it: by `starts` that of the variable, or
        where lists are of reactions, that of the reaction at its first change.
    """
    net = tables.net
    lengths = np.diff(net.change_starts)
    rows = np.zeros((lengths.size, max(1, int(lengths.max(initial=0))), 4), np.int32)
    rows[:, :, 0] = -1
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.arange(row.size) - net.change_starts[:-1][row]
    rows[row, column, 0] = spots[net.changed]
    rows[row, column, 1] = net.changes
    if by_reaction:
        some = np.flatnonzero(lengths)
        rows[some, 0, 2], rows[some, 0, 3] = starts[:-1][some], starts[1:][some]
    else:
        rows[row, column, 2], rows[row, column, 3] = starts[net.changed], starts[net.changed + 1]
    return rows


def spots_of(count: int, size: int) -> np.ndarray:
    """Where in shared memory each of so many numbers is (see `spot_of`)."""
    width = -(-count // size)
    i = np.arange(count)
    return i % width * (size + 1) + i // width


def shared_doubles(teams: int, size: int, multiprocessors: int) -> int:
    """Numbers of shared memory for each of so many teams, if as many as can be are resident."""
    resident = min(-(-teams // multiprocessors), _WARPS_A_MULTIPROCESSOR * WARP // size)
    return _SHARED_BYTES // 8 // max(_THREADS // size, resident, 1) - 1 - (size >> 4)


def unfit(method: ModuleType, tables: Tables, size: int) -> bool:
    """Whether a team cannot simulate a network: something interrupts it, or it is too large."""
    doubles, _ = method.team_options(tables, size, 0)
    return (
        tables.is_interrupted
        or tables.variable_count > tables.species_count
        or int(np.diff(tables.net.change_starts).max(initial=0)) > min(size, WARP)
        or 8 * max(1, _THREADS // size) * (doubles + 1 + (size >> 4)) > _SHARED_BYTES
    )
