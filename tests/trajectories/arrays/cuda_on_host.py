"""Kernels for a GPU on a host: their arguments, and Python threads that run their text."""

import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from host_threads import run_threads
from kernel_text import module_of

from ergode.core import kernels
from ergode.core.calls.checkpoint import Keeper
from ergode.core.context import Running, run_with
from ergode.core.devices import resolve
from ergode.trajectories.adaptive.outcome import Outcome, control_of
from ergode.trajectories.arrays import followers as who_follows
from ergode.trajectories.arrays.followers import CUDAFollowers
from ergode.trajectories.arrays.group import IN_SHARED, OVER, STAGE
from ergode.trajectories.arrays.runner import Runner
from ergode.trajectories.delays.mesh import plan_steps
from ergode.trajectories.methods import METHODS


def cuda_kernel(field, method, count, precision, **options):
    """The kernel for a GPU of 132 multiprocessors, and arguments on the host."""
    cpu = resolve("cpu")
    place = SimpleNamespace(
        put=cpu.put, empty=cpu.empty, zeros=cpu.zeros, get=cpu.get, target="cuda", core_count=132,
        memory_bytes=2**36, available_bytes=lambda: 2**36, name="cuda",
    )  # fmt: skip
    runner = Runner(field, METHODS[method], control_of(options), times=np.array([0.0, 1.0]),
                    device=place, precision=precision)  # fmt: skip
    followers = CUDAFollowers(runner, count)
    columns = np.ones((field.size, 2)), np.ones((len(field.parameters), 2))
    step = runner.control.step
    steps = None if step is None else plan_steps(1.0, step, 2, [], [])
    run = runner.arguments(*columns, steps, slice(0, 2))
    out = who_follows.out_of(Outcome.empty(2, field.size, runner.control, 2, precision))
    return followers, (run, out, followers.workspace(2, 2))


def check_ptx(group, field, method, count, precision, **options):
    """Compile the kernel of a run to PTX: it is of this group, and float32 stays float32."""
    pytest.importorskip("numba_cuda")
    from ergode.core.devices import cuda

    followers, arguments = cuda_kernel(field, method, count, precision, **options)
    assert followers.group == group
    with kernels.readable_errors():
        text = cuda.ptx(followers.kernel.compiled("cuda"), arguments, optimized=False)
    assert ".entry" in text
    if precision == "float32":
        assert "fma.rn.f64" not in text and "mul.f64" not in text and "add.f64" not in text


CASES = {
    "thread": (1, 3, 0), "block": (2, 3, 0), "block, all in shared memory": (2, 3, 2),
    "grid": (2, 2, 0),
}  # fmt: skip
"""Blocks, threads of a block, and what is in shared memory (see `group.IN_SHARED`)."""


def states_on_host(
    case, monkeypatch, field, method, times, initial, parameters, options, first=0, **noise
):
    """States [time, unknown, trajectory] by the kernel of a case; the first has number `first`.

    `initial` is [trajectory, unknown]; `options` are of a `Control`.
    """
    out = outcome_on_host(
        case, monkeypatch, field, method, times, initial, parameters, options, first, **noise
    )
    assert (out.status == 0).all()
    return out.states


def outcome_on_host(
    case, monkeypatch, field, method, times, initial, parameters, options, first=0, budget=None,
    **noise,
):  # fmt: skip
    """As `states_on_host`, everything that a run gives; in launches of up to `budget` steps."""
    group, count, n = case.partition(",")[0], initial.shape[0], field.size
    blocks, threads, in_shared = CASES[case]
    monkeypatch.setattr(who_follows, "_FEW_CUDA", 100 if group == "thread" else 0)
    monkeypatch.setattr(who_follows, "_MANY_CUDA", 0 if group == "grid" else 100)
    if case == "block":
        monkeypatch.setattr(who_follows, "_SHARED_MOST", 0)
        monkeypatch.setattr(who_follows, "_SHARED_BYTES", 0)
    place = SimpleNamespace(put=np.asarray, empty=lambda *a: np.full(a[0], np.nan, a[1]),
                            zeros=np.zeros, target="cuda", core_count=2, name="cuda",
                            memory_bytes=2**36, available_bytes=lambda: 2**36)  # fmt: skip
    control = control_of(options)
    with run_with(Running(keeper=None if budget is None else Keeper(None, 1.0))):
        runner = Runner(field, METHODS[method], control, times=times, device=place,
                        precision="float64", **noise)  # fmt: skip
    followers = CUDAFollowers(runner, count)
    assert followers.group == group
    assert followers.kernel.bindings.get(IN_SHARED, 0) == in_shared
    span, steps = float(times[-1] - times[0]), None
    if control.step is not None:
        steps = plan_steps(span, control.step, first + count, [], [])
    run = runner.arguments(initial.T, parameters, steps, slice(first, first + count))
    out = Outcome.empty(times.size, n, control, count, "float64")
    out.states[:] = -777.0  # on a GPU it is not set
    given, w = (run, who_follows.out_of(out)), followers.workspace(blocks, count)
    if budget is None:
        Machine(blocks, threads).run(followers.kernel, (*given, w))
        return out
    launches = 0
    while w.kept.whole[STAGE] != OVER:
        limited = w._replace(kept=w.kept._replace(budget=budget))
        Machine(blocks, threads).run(followers.kernel, (*given, limited))
        launches += 1
    assert launches > 1
    return out


class Machine:
    """What a kernel asks of CUDA, for Python threads that are a grid."""

    def __init__(self, blocks, threads):
        self.blocks, self.threads = blocks, threads
        self.all, self.mine = threading.Barrier(blocks * threads), threading.local()
        self.each = [threading.Barrier(threads) for _ in range(blocks)]
        self.scratch = np.zeros((blocks, threads, 2))
        self.memory = [np.full(10_000, np.nan) for _ in range(blocks)]
        self.local = SimpleNamespace(array=lambda count, _: np.full(count, np.nan))
        self.shared = SimpleNamespace(array=lambda *_: self.memory[self.mine.block])
        self.cg = SimpleNamespace(this_grid=lambda: None)
        self.blockDim, self.gridDim = SimpleNamespace(x=threads), SimpleNamespace(x=blocks)

    threadIdx = property(lambda self: SimpleNamespace(x=self.mine.thread))
    blockIdx = property(lambda self: SimpleNamespace(x=self.mine.block))

    def grid(self, _):
        return self.mine.block * self.threads + self.mine.thread

    def gridsize(self, _):
        return self.blocks * self.threads

    def syncthreads(self):
        self.each[self.mine.block].wait()

    def totals_of_block(self, _, first, second):
        """In place of the one by shuffles of warps."""
        self.scratch[self.mine.block, self.mine.thread] = first, second
        self.syncthreads()
        found = self.scratch[self.mine.block].sum(axis=0)
        self.syncthreads()
        return found[0], found[1]

    def run(self, kernel, arguments):
        """Run the text of a kernel."""
        text = kernel.source("cuda").text
        module = module_of(text, self, **dict.fromkeys(("acquire", "release_add")))
        module["totals_of_block"] = self.totals_of_block
        if "release_add" in text:  # of the grid
            module["barrier"] = lambda _: self.all.wait()
        entry = module[kernel.source("cuda").entries[kernel.number]]

        def work(block, thread):
            self.mine.block, self.mine.thread = block, thread
            entry(*arguments)

        places = itertools.product(range(self.blocks), range(self.threads))
        run_threads(places, work, (self.all, *self.each))
