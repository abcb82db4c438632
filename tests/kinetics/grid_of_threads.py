"""A block of CUDA threads played by Python generators, to run the text of a kernel.

A function that waits for other threads becomes a generator: at a barrier it yields the barrier's
name.  One thread runs at a time, until it waits.  The order of the threads after a barrier is
random, so that a barrier that is missing makes a difference.
"""

import ast
import sys
from collections import deque

import numpy as np
from kernel_text import module_of

WAITING = {"syncthreads", "syncwarp", "shfl_sync", "shfl_down_sync", "shfl_xor_sync"}


class Coordinate:
    def __init__(self, value):
        self.value = value

    @property
    def x(self):
        return self.value()


class Registers:
    """Arrays that every thread has for itself."""

    def array(self, count, kind):
        # As wide as Python's integers, which NumPy's narrower ones do not widen to.
        return np.zeros(count, np.int64 if kind in (np.int32, np.int64) else np.float64)


class WithYields(ast.NodeTransformer):
    """Calls that wait hand over to the other threads."""

    def __init__(self, waiting):
        self.waiting = waiting

    def visit_Call(self, node):
        self.generic_visit(node)
        return ast.YieldFrom(node) if called(node) in self.waiting else node


def called(node):
    """The name of what a call calls."""
    return getattr(node.func, "id", getattr(node.func, "attr", None))


def with_yields(text):
    """The text of a module in which all functions that wait are generators."""
    tree = ast.parse(text)
    waiting = set(WAITING)
    for function in tree.body:  # a function comes after all that it calls
        if isinstance(function, ast.FunctionDef) and any(
            called(part) in waiting for part in ast.walk(function) if isinstance(part, ast.Call)
        ):
            waiting.add(function.name)
    return ast.unparse(ast.fix_missing_locations(WithYields(waiting).visit(tree)))


class Watched:
    """Shared memory that records what a warp reads or changes, and another warp changed or read.

    All since the last barrier of the block.  A number that is set to its own value is not changed.
    """

    def __init__(self, block, memory):
        self.block, self.memory = block, memory
        self.size, self.shape = memory.size, memory.shape

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Watched(self.block, self.memory[index])
        self._note(index, self.block.readers, self.block.changers)
        return self.memory[index]

    def __setitem__(self, index, value):
        if value != self.memory[index]:
            self._note(index, self.block.changers, self.block.changers, self.block.readers)
        self.memory[index] = value

    def _note(self, index, own, *others):
        place, warp = self.memory[index : index + 1].ctypes.data, self.block.thread >> 5
        for other in others:
            if other.get(place, set()) - {warp}:
                frame = sys._getframe(2)
                self.block.races.add((frame.f_code.co_name, frame.f_lineno))
        own.setdefault(place, set()).add(warp)


class Block:
    """One block; what its kernel calls `cuda`."""

    def __init__(self, source, threads, shared_count):
        self.thread = 0  # the one that runs
        self.threads = threads
        self.exchanged = [0.0] * threads
        self.shared = self
        self.local = Registers()
        self.atomic = self
        self.memory = np.zeros(shared_count)
        self.races, self.readers, self.changers = set(), {}, {}
        self.threadIdx = Coordinate(lambda: self.thread)
        self.blockDim = Coordinate(lambda: threads)
        self.blockIdx = Coordinate(lambda: 0)
        module = module_of(with_yields(source.text), self)
        self.kernel = module[source.entries[0]]

    def watch(self):
        """Record races from now on, in `races`."""
        self.memory = Watched(self, self.memory)

    def array(self, *_):
        return self.memory

    def add(self, array, index, value):
        before = array[index]
        array[index] += value
        return before

    def syncthreads(self):
        yield "block", self.threads

    def syncwarp(self, _=None):
        yield f"warp {self.thread >> 5}", 32

    def _from_lane(self, value, lane_of):
        thread = self.thread
        self.exchanged[thread] = value
        yield from self.syncwarp()
        lane = lane_of(thread & 31)
        found = self.exchanged[(thread & ~31) + lane] if lane < 32 else value
        yield from self.syncwarp()
        return found

    def shfl_sync(self, _, value, lane):
        return self._from_lane(value, lambda _: int(lane))

    def shfl_down_sync(self, _, value, shift):
        return self._from_lane(value, lambda lane: lane + shift)

    def shfl_xor_sync(self, _, value, mask):
        return self._from_lane(value, lambda lane: lane ^ mask)

    def _run_thread(self, arguments):
        yield from self.kernel(*arguments) or ()  # no generator if it never waits

    def _let_go(self, barrier, count, waiting, ready, order):
        """Let threads go on if all are at a barrier."""
        there = waiting.get(barrier, ())
        if there and len(there) == count:
            if barrier == "block":
                self.readers.clear()
                self.changers.clear()
            ready.extend(order.permutation(there).tolist())
            del waiting[barrier]

    def run(self, *arguments):
        arguments = _wide(arguments)
        kernels = [self._run_thread(arguments) for _ in range(self.threads)]
        alive = self.threads
        ready, waiting, order = deque(range(self.threads)), {}, np.random.default_rng(1)
        with np.errstate(all="ignore"):
            while ready:
                self.thread = ready.popleft()
                try:
                    barrier, count = next(kernels[self.thread])
                except StopIteration:
                    alive -= 1
                    self._let_go("block", alive, waiting, ready, order)
                    continue
                if barrier == "block":
                    count = alive
                there = waiting.setdefault(barrier, [])
                there.append(self.thread)
                self._let_go(barrier, count, waiting, ready, order)
        assert not waiting, f"not all threads reach a barrier: {waiting}"


def _wide(value):
    """Tables with 64-bit integers, which NumPy's scalars do not widen to by themselves."""
    if isinstance(value, np.ndarray):
        narrow = value.dtype.kind in "iu" and value.itemsize == 4 and value.size > 1
        return value.astype(np.int64) if narrow else value
    if isinstance(value, tuple):
        items = [_wide(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
