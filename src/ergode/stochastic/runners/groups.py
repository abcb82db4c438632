"""Realizations of one network on a GPU, a team of threads for each (see `teams`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from ergode.core import kernels
from ergode.stochastic.group import ops
from ergode.stochastic.group.kernel import TeamNet, TeamWork, realize_teams, team_of
from ergode.stochastic.kernel.interruptions import Waiting
from ergode.stochastic.runners.threads import Ensemble, Wanted
from ergode.stochastic.tables import Interruptions, Tables

QUARTER, WARP, BLOCK = 8, 32, 256
_THREADS = 128
_REGISTERS = 64
_WARPS_A_MULTIPROCESSOR = 32
_SHARED_BYTES = 200 * 1024


@lru_cache(maxsize=64)
def team_kernel(
    method: ModuleType,
    size: int,
    general: bool,
    interrupted: bool,
    options: tuple[tuple[str, Any], ...],
) -> kernels.Kernel:
    """The kernel of a method for teams of so many threads."""
    words = ("value", "prepare", "choose", "follow", "refresh", "count")
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
        "sync": ops.sync_block if block else ops.sync_warp,
        "sum_up_to": ops.sum_up_to_block if block else ops.sum_up_to_warp,
        "one_of": ops.one_of_block if block else ops.one_of_warp,
        "hand_out": ops.hand_out_block if block else ops.hand_out_warp,
        "row_of": team_of,
        "GENERAL": general,
        "INTERRUPTED": interrupted,
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
        self._team_net: tuple[TeamNet, Interruptions] | None = None

    def team_net(self) -> tuple[TeamNet, Interruptions]:
        """The network on the device."""
        if self._team_net is None:
            net, put = self.tables.net, self.device.put
            self._team_net = (
                TeamNet(**{name: put(getattr(net, name)) for name in TeamNet._fields}),
                Interruptions(*(put(array) for array in self.tables.interruptions)),
            )
        return self._team_net

    def options(self, teams: int) -> tuple[int, tuple[tuple[str, Any], ...]]:
        """Numbers that each of so many teams keeps in shared memory, and what is bound."""
        room = shared_doubles(teams, self.size, self.device.core_count)
        doubles, options = self.method.team_options(self.tables, self.size, room)
        return doubles + 1 + (self.size >> 4 if self.size > WARP else 0), options

    def kernel_for(self, teams: int) -> tuple[kernels.Kernel, int]:
        """The kernel for so many teams, and how many numbers of shared memory each has."""
        doubles, options = self.options(teams)
        tables = self.tables
        kernel = team_kernel(
            self.method, self.size, not tables.is_plain, tables.is_interrupted, options
        )
        return kernel, doubles

    def team_work(self, teams: int, asked: int) -> tuple[TeamWork, Waiting, Any]:
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
        waits = teams if tables.is_interrupted else 1
        waiting = Waiting(
            **{name: empty((waits, row[0]), row[1]) for name, row in self._waiting_rows().items()}
        )
        return work, waiting, method.TeamOwn(**parts)

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
        work, waiting, own = self.team_work(teams, count)
        return (
            queue, np.int64(count), np.int64(size), *self.team_net(), work, waiting, own, plan, out,
        )  # fmt: skip

    def _most(self, teams: int, asked: int) -> int:
        """Blocks of so many teams whose rows fit into memory."""
        options = dict(self.options(asked)[1])
        rows = self.method.team_rows(self.tables, self.size, options).values()
        team_bytes = sum(length * np.dtype(kind).itemsize for length, kind in rows)
        return max(1, int(0.8 * self.device.available_bytes()) // max(1, teams * team_bytes))


def shared_doubles(teams: int, size: int, multiprocessors: int) -> int:
    """Numbers of shared memory for each of so many teams, if as many as can be are resident."""
    resident = min(-(-teams // multiprocessors), _WARPS_A_MULTIPROCESSOR * WARP // size)
    return _SHARED_BYTES // 8 // max(_THREADS // size, resident, 1) - 1 - (size >> 4)


def unfit(method: ModuleType, tables: Tables, size: int) -> bool:
    """Whether a team cannot simulate a network: products are late, or it is too large."""
    doubles, _ = method.team_options(tables, size, 0)
    interrupted = tables.is_interrupted or tables.variable_count > tables.species_count
    return (
        (interrupted and not hasattr(method, "team_refresh"))
        or tables.has_delays
        or int(np.diff(tables.net.change_starts).max(initial=0)) > min(size, WARP)
        or 8 * max(1, _THREADS // size) * (doubles + 1 + (size >> 4)) > _SHARED_BYTES
    )
