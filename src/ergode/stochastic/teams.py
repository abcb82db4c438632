"""Realizations on a GPU by teams of threads: a warp has a realization, or a block of warps has.

What a firing changes and what it searches is shared out over the threads of a team.  A search is a
sum by every thread over its share, a prefix sum over the team and a vote, level by level, as in M.
Komarov, R. D'Souza, PLoS ONE 7 e46693 (2012).  Waiting times and choices of the next thirty-two
firings are drawn at once, one by each thread of a warp.  The sums of blocks and what else a method
keeps at hand are in shared memory; the network, which all realizations read, is in the cache.

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
from ergode.core.machine import cuda, real
from ergode.core.random import FIRING, draw_words, exponential, uniform
from ergode.core.status import Status
from ergode.stochastic.ensemble import Ensemble, Wanted
from ergode.stochastic.realization import COUNT_LIMIT, INFINITY
from ergode.stochastic.tables import Tables

_DONE = np.uint8(Status.DONE)
_EXTINCT = np.uint8(Status.EXTINCT)
_NOT_FINITE = np.uint8(Status.NOT_FINITE)
_TOO_MANY = np.uint8(Status.TOO_MANY_STEPS)
_OVERFLOW = np.uint8(Status.OVERFLOW)
_NEGATIVE = np.uint8(Status.NEGATIVE_RATE)
_LOW_HALF = np.int64(0xFFFFFFFF)
ALL = np.uint32(0xFFFFFFFF)

# Bound for each kernel: threads of a team, and numbers that the words below pass on through memory.
TEAM, SCRATCH = 32, 0


def at(i):
    """An index that is never negative: every other one is looked at before it is used."""
    return np.uint32(i)


# ---- what a team can do: of a warp, and of a block of warps


def sync():
    """Wait for the others of the team: bound to one of the two below."""


def _sync_warp():
    cuda.syncwarp()


def _sync_block():
    cuda.syncthreads()


def sum_up_to(value, lane, member, scratch, memory):
    """Sum of the values of this thread and those before it, and of all."""
    return value, value


def _sum_in_warp(value, lane):
    for k in range(5):
        distance = 1 << k
        other = cuda.shfl_up_sync(ALL, value, distance)
        if lane >= distance:
            value += other
    return value


def _sum_up_to_warp(value, lane, member, scratch, memory):
    value = _sum_in_warp(value, lane)
    return value, cuda.shfl_sync(ALL, value, 31)


def _sum_up_to_block(value, lane, member, scratch, memory):
    value = _sum_in_warp(value, lane)
    warp = at(member >> 5)
    if lane == 31:
        memory[at(scratch + warp)] = value
    cuda.syncthreads()
    before, total = real(0.0), real(0.0)
    for k in range(TEAM >> 5):
        if k == warp:
            before = total
        total += memory[at(scratch + k)]
    cuda.syncthreads()
    return before + value, total


def one_of(first, some, lane, member, scratch, memory):
    """The first thread for which `first` holds, else the last for which `some` does, else -1."""
    return 0


def _one_of_warp(first, some, lane, member, scratch, memory):
    votes = cuda.ballot_sync(ALL, first)
    if votes != 0:
        return cuda.ffs(votes) - 1
    return 31 - cuda.clz(cuda.ballot_sync(ALL, some))


def _one_of_block(first, some, lane, member, scratch, memory):
    votes, others = cuda.ballot_sync(ALL, first), cuda.ballot_sync(ALL, some)
    warps = TEAM >> 5
    if lane == 0:
        warp = member >> 5
        ahead = member + cuda.ffs(votes) - 1 if votes != 0 else TEAM
        behind = member + 31 - cuda.clz(others) if others != 0 else -1
        memory[at(scratch + warp)] = real(ahead)
        memory[at(scratch + warps + warp)] = real(behind)
    cuda.syncthreads()
    found, last = real(TEAM), real(-1.0)
    for k in range(warps):
        found = min(found, memory[at(scratch + k)])
        last = max(last, memory[at(scratch + warps + k)])
    cuda.syncthreads()
    return np.int32(found) if found < TEAM else np.int32(last)


def hand_out(value, who, member, scratch, memory):
    """The value of one thread, to all."""
    return value


def _hand_out_warp(value, who, member, scratch, memory):
    return cuda.shfl_sync(ALL, value, who)


def _hand_out_block(value, who, member, scratch, memory):
    if member == who:
        memory[at(scratch)] = value
    cuda.syncthreads()
    value = memory[at(scratch)]
    cuda.syncthreads()
    return value


def search(value, target, lane, member, scratch, memory):
    """Whose value `target` falls into, what is left of it there, and the sum of all values.

    The last who has any if it falls behind all; -1 if none has.
    """
    up_to, total = sum_up_to(value, lane, member, scratch, memory)
    some = value > 0.0
    who = one_of(up_to > target and some, some, lane, member, scratch, memory)
    if who >= 0:
        target = hand_out(target - (up_to - value), who, member, scratch, memory)
    return who, target, total


# ---- bound for each method


def team_count(i, base, team, memory, work):
    """Count of a species."""
    return real(0.0)


def team_prepare(t, point, member, base, team, memory, net, work, own):
    """Make everything that the method keeps, from the state at the beginning."""


def team_share(member, base, team, memory, work, own):
    """What this thread has of the sum of all propensities."""
    return real(0.0)


def team_choose(who, target, point, lane, member, base, scratch, team, memory, work, own):
    """Reaction in whose share of the sum `target` of thread `who` falls; -1 for none."""
    return 0


def team_follow(j, t, point, lane, member, base, team, memory, net, work, own):
    """Change the state by what reaction `j` does, and follow it."""


# ---- the realization


def realize_teams(queue, count, width, net, work, own, plan, out):
    """All realizations: a team takes the next from the queue when it has finished one.

    A team has `width` numbers of the shared memory: of the words above, one that says whether a
    propensity is negative, and the method's own.
    """
    memory = cuda.shared.array(0, np.float64)
    lane = np.int32(cuda.threadIdx.x & 31)
    member = at(cuda.threadIdx.x & (TEAM - 1))
    team = at(cuda.grid(1) // TEAM)
    scratch = at(cuda.threadIdx.x // TEAM * width)
    alarm = at(scratch + SCRATCH)
    base = at(alarm + 1)
    grid = out.grid
    times = grid.size
    species = out.sums.shape[3]
    first_point = plan.first // plan.replicates
    taken = real(0.0)
    if member == 0:
        taken = real(cuda.atomic.add(queue, 0, 1))
    row = np.int64(hand_out(taken, 0, member, scratch, memory))
    while row < count:
        number = (plan.first + row) // plan.replicates
        replicate = np.uint32(plan.first + row - number * plan.replicates)
        cell = number - first_point
        point = at(number)
        if member == 0:
            memory[alarm] = 0.0
        t = plan.begin
        team_prepare(t, point, member, base, team, memory, net, work, own)
        sync()
        draw = np.int64(0)
        firings = np.int64(0)
        cursor = 0
        limit = grid[0]
        outcome = _DONE
        waits, choices = real(0.0), real(0.0)
        while True:
            mine = team_share(member, base, team, memory, work, own)
            up_to, total = sum_up_to(mine, lane, member, scratch, memory)
            if memory[alarm] != 0.0:
                outcome = _NEGATIVE
                break
            if not (total >= 0.0 and total < INFINITY):
                outcome = _NOT_FINITE
                break
            turn = np.int32(draw & 31)
            if turn == 0:
                w0, w1, w2, w3 = draw_words(plan.seed, replicate, draw >> 32, FIRING, draw + lane)
                waits, choices = exponential(w0, w1), uniform(w2, w3)
            draw += 1
            fires_at = t + cuda.shfl_sync(ALL, waits, turn) / total
            if not fires_at < limit:
                while cursor < times and not fires_at < grid[cursor]:
                    fits = 0
                    for i in range(np.int64(member), species, TEAM):
                        if not abs(team_count(i, base, team, memory, work)) < COUNT_LIMIT:
                            fits = 1
                    misfit = one_of(fits == 1, fits == 1, lane, member, scratch, memory)
                    if misfit >= 0:
                        outcome = _OVERFLOW
                        break
                    if out.counts.shape[2] > 0 and member == 0:
                        cuda.atomic.add(out.counts, (0, cell, cursor), 1)
                    for i in range(np.int64(member), species, TEAM):
                        n = np.int64(team_count(i, base, team, memory, work))
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
                limit = grid[cursor]
            target = cuda.shfl_sync(ALL, choices, turn) * total
            some = mine > 0.0
            who = one_of(up_to > target and some, some, lane, member, scratch, memory)
            if who < 0:
                continue
            target = hand_out(target - (up_to - mine), who, member, scratch, memory)
            j = team_choose(
                who, target, point, lane, member, base, scratch, team, memory, work, own
            )
            if j < 0:
                continue
            t = fires_at
            firings += 1
            team_follow(j, t, point, lane, member, base, team, memory, net, work, own)
            sync()
            if firings >= plan.firings_most:
                outcome = _TOO_MANY
                break
        if member == 0:
            out.status[row] = outcome
            out.firings[row] = firings
            out.ended[row] = INFINITY
            taken = real(cuda.atomic.add(queue, 0, 1))
        sync()
        row = np.int64(hand_out(taken, 0, member, scratch, memory))


class TeamNet(NamedTuple):
    """What teams read of a network, besides what a method has of its own."""

    initial: Any  # [point, variable + 1]
    changed: Any  # [reaction, change] variable; -1 behind the last
    changes: Any  # [reaction, change]
    coefficients: Any  # the rest as in `tables.Net`
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
_CHANGES_MOST = 32
_WARPS_A_MULTIPROCESSOR = 32
_SHARED_BYTES = 200 * 1024


@lru_cache(maxsize=64)
def team_kernel(
    method: ModuleType, size: int, general: bool, options: tuple[tuple[str, Any], ...]
) -> kernels.Kernel:
    """The kernel of a method for teams of so many threads."""
    words = ("prepare", "share", "choose", "follow", "count")
    bindings: dict[str, Any] = {f"team_{word}": getattr(method, f"team_{word}") for word in words}
    block = size > WARP
    bindings |= {
        "TEAM": size,
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
        Threads of a team: 32, or a larger power of two.
    """

    def __init__(self, tables: Tables, *, size: int, **options: Any) -> None:
        super().__init__(tables, **options)
        self.size = size
        self._team_net: TeamNet | None = None

    def team_net(self) -> TeamNet:
        """The network on the device."""
        if self._team_net is None:
            put, net = self.device.put, self.tables.net
            changed, changes = _padded(self.tables)
            rest = {name: put(getattr(net, name)) for name in TeamNet._fields[3:]}
            self._team_net = TeamNet(put(net.initial), put(changed), put(changes), **rest)
        return self._team_net

    def kernel_for(self, teams: int) -> tuple[kernels.Kernel, int]:
        """The kernel for so many teams, and how many numbers of shared memory each has."""
        doubles, options = self.method.team_doubles(self.tables), ()
        if hasattr(self.method, "team_options"):
            room = shared_doubles(teams, self.size, self.device.core_count)
            doubles, options = self.method.team_options(self.tables, room)
        kernel = team_kernel(self.method, self.size, not self.tables.is_plain, options)
        return kernel, doubles + 1 + (self.size >> 4 if self.size > WARP else 0)

    def team_work(self, teams: int) -> tuple[TeamWork, Any]:
        """Rows of all teams."""
        empty, tables, method = self.device.empty, self.tables, self.method
        rows = method.team_rows(tables)
        work = TeamWork(
            empty((teams, rows.pop("x", (1, None))[0]), np.float64),
            empty((teams * self.size if not tables.is_plain else 1, tables.depth), np.float64),
        )
        parts = {name: empty((teams, length), kind) for name, (length, kind) in rows.items()}
        constants = method.team_constants(tables, self.size)
        names = method.TeamOwn._fields
        parts |= {name: self.device.put(constants[name]) for name in names if name not in parts}
        return work, method.TeamOwn(**parts)

    def run(
        self, first: int, count: int, wanted: Wanted, report: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        from ergode.core import cuda

        plan = self._plan._replace(first=np.int64(first))
        points = -(-(first + count) // self.replicates) - first // self.replicates
        out = self.results(count, 1, points, wanted)
        queue = self._queue()
        kernel, width = self.kernel_for(count)
        compiled = kernel.compiled("cuda")
        threads = max(_THREADS, self.size)
        teams = threads // self.size  # of a block
        shared = 8 * width * teams
        small = self.arguments(queue, count, width, 1, plan, out)
        resident = cuda.cooperative_block_count(compiled, threads, small, shared)
        blocks = max(1, min(resident, -(-count // teams), self._most(teams)))
        arguments = self.arguments(queue, count, width, blocks * teams, plan, out)
        cuda.launch(compiled, blocks, threads, arguments, shared)
        cuda.synchronize()
        report(count)
        return self._fetch(out, wanted)

    def prepare(self, count: int, wanted: Wanted) -> None:
        from ergode.core import cuda

        kernel, width = self.kernel_for(count)
        out = self.results(0, 1, 1, wanted)
        arguments = self.arguments(self._queue(), 0, width, 1, self._plan, out)
        cuda.specialize(kernel.compiled("cuda"), arguments)

    def arguments(
        self, queue: Any, count: int, width: int, teams: int, plan: Any, out: Any
    ) -> tuple[Any, ...]:
        """What the kernel is given."""
        return (
            queue, np.int64(count), np.int64(width), self.team_net(), *self.team_work(teams),
            plan, out,
        )  # fmt: skip

    def _most(self, teams: int) -> int:
        """Blocks of so many teams whose rows fit into memory."""
        rows = self.method.team_rows(self.tables).values()
        team_bytes = sum(length * np.dtype(kind).itemsize for length, kind in rows)
        return max(1, int(0.8 * self.device.available_bytes()) // max(1, teams * team_bytes))


def _padded(tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """What each reaction changes, in rows of one length."""
    net = tables.net
    lengths = np.diff(net.change_starts)
    width = max(1, int(lengths.max(initial=0)))
    changed = np.full((lengths.size, width), -1, np.int32)
    changes = np.zeros((lengths.size, width))
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.arange(row.size) - net.change_starts[:-1][row]
    changed[row, column], changes[row, column] = net.changed, net.changes
    return changed, changes


def shared_doubles(teams: int, size: int, multiprocessors: int) -> int:
    """Numbers of shared memory for each of so many teams, if as many as can be are resident."""
    resident = min(-(-teams // multiprocessors), _WARPS_A_MULTIPROCESSOR * WARP // size)
    return _SHARED_BYTES // 8 // max(1, resident) - 1 - (size >> 4)


def unfit(method: ModuleType, tables: Tables, size: int) -> bool:
    """Whether a team cannot simulate a network: something interrupts it, or it is too large."""
    return (
        tables.is_interrupted
        or tables.variable_count > tables.species_count
        or int(np.diff(tables.net.change_starts).max(initial=0)) > _CHANGES_MOST
        or 8 * max(1, _THREADS // size) * method.team_doubles(tables) > _SHARED_BYTES
    )
