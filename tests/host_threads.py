"""Python threads in place of those of a GPU."""

import itertools
import threading
from types import SimpleNamespace

import numpy as np
from kernel_text import module_of

from ergode.core import kernels

SHARED = 20_000
"""float64 of the shared memory of a block."""


def run_threads(places, work, barriers):
    """Call ``work(block, thread)`` for all places at once; raise the first error.

    A thread that fails breaks the `barriers` at which others wait for it.
    """
    failed = []

    def watched(block, thread):
        try:
            with np.errstate(all="ignore"):
                work(block, thread)
        except BaseException as error:
            failed.append(error)
            for one in barriers:
                one.abort()

    threads = [threading.Thread(target=watched, args=place) for place in places]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise failed[0]


class Machine:
    """CUDA for Python threads: blocks of whole warps, whose lanes exchange values."""

    def __init__(self, blocks, threads):
        self.shape, self.local, self.lock = (blocks, threads), threading.local(), threading.Lock()
        self.each = [threading.Barrier(threads) for _ in range(blocks)]
        self.warps, self.given = {}, {}
        self.blockDim, self.gridDim = SimpleNamespace(x=threads), SimpleNamespace(x=blocks)
        self.atomic = SimpleNamespace(add=self.add)
        self.memory = [np.zeros(SHARED) for _ in range(blocks)]
        self.shared = SimpleNamespace(array=lambda *_: self.memory[self.local.block])
        self.all = threading.Barrier(blocks * threads)
        grid = SimpleNamespace(sync=lambda: self.all.wait(20))
        self.cg = SimpleNamespace(this_grid=lambda: grid)

    threadIdx = property(lambda self: SimpleNamespace(x=self.local.thread))
    blockIdx = property(lambda self: SimpleNamespace(x=self.local.block))

    def grid(self, _):
        return self.local.block * self.shape[1] + self.local.thread

    def gridsize(self, _):
        return self.shape[0] * self.shape[1]

    def add(self, array, at, amount):
        with self.lock:
            before = array[at]
            array[at] += amount
            return before

    def syncthreads(self):
        self.each[self.local.block].wait(20)

    def lanes(self, mask, value):
        """The values of the lanes of a mask, which all have to take part; and the own lane."""
        place = self.grid(1)
        warp, mask = place // 32, int(mask)
        with self.lock:
            waiting = self.warps.setdefault((warp, mask), threading.Barrier(mask.bit_count()))
        self.given[place] = value
        waiting.wait(20)
        found = [self.given[32 * warp + k] if mask >> k & 1 else None for k in range(32)]
        waiting.wait(20)
        return found, place % 32

    def syncwarp(self, mask):
        self.lanes(mask, None)

    def shfl_sync(self, mask, value, k):
        return self.lanes(mask, value)[0][int(k)]

    def shfl_xor_sync(self, mask, value, turn):
        found, lane = self.lanes(mask, value)
        return found[lane ^ turn]

    def shfl_up_sync(self, mask, value, distance):
        found, lane = self.lanes(mask, value)
        other = found[max(lane - distance, 0)]
        return value if other is None else other

    def shfl_down_sync(self, mask, value, distance):
        found, lane = self.lanes(mask, value)
        return found[lane + distance] if lane + distance < 32 else value

    def ballot_sync(self, mask, wanted):
        found, _ = self.lanes(mask, bool(wanted))
        return sum(1 << lane for lane in range(32) if found[lane])

    popc = staticmethod(lambda x: int(x).bit_count())
    ffs = staticmethod(lambda x: (int(x) & -int(x)).bit_length())
    clz = staticmethod(lambda x: 32 - int(x).bit_length())

    def run(self, body, bindings, *arguments):
        """Run a kernel with this body by all threads."""
        self.run_kernel(kernels.cuda_kernel(body, bindings=bindings), *arguments)

    def run_kernel(self, kernel, *arguments):
        """Run a kernel by all threads."""
        source = kernel.source("cuda")
        module = module_of(
            source.text, self, atomic_add=self.add, acquire=lambda words, at: words[at],
            release_add=self.add,
        )  # fmt: skip

        def work(block, thread):
            self.local.block, self.local.thread = block, thread
            module[source.entries[0]](*arguments)

        places = itertools.product(range(self.shape[0]), range(self.shape[1]))
        run_threads(places, work, (self.all, *self.each, *self.warps.values()))
