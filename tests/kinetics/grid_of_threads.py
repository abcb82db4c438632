"""A block of CUDA threads played by Python threads, to run the text of a kernel."""

import re
import threading

import numpy as np


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
        return np.zeros(count, np.int64 if kind is np.int32 else np.float64)


class Block:
    """One block; what its kernel calls `cuda`."""

    def __init__(self, source, threads, shared_count):
        self.own = threading.local()
        self.threads = threads
        self.barrier = threading.Barrier(threads)
        self.warps = [threading.Barrier(32) for _ in range(threads // 32)]
        self.exchanged = [0.0] * threads
        self.shared = self
        self.local = Registers()
        self.atomic = self
        self.memory = np.zeros(shared_count)
        self.threadIdx = Coordinate(lambda: self.own.thread)
        self.blockDim = Coordinate(lambda: threads)
        self.blockIdx = Coordinate(lambda: 0)
        module = {
            "cuda": self,
            "device_function": lambda f: f,
            "kernel": lambda *f, **_: f[0] if f else lambda g: g,
            "fma": lambda a, b, c: a * b + c,
            "opaque_int": lambda x: x,
            "to_bits": lambda x: np.float64(x).view(np.uint64),
            "from_bits": lambda x: np.uint64(x).view(np.float64),
        }
        exec(re.sub(r"from ergode\.core\.cuda import .*", "", source.text), module)
        self.kernel = module[source.entries[0]]

    def array(self, *_):
        return self.memory

    def add(self, array, index, value):
        before = array[index]
        array[index] += value
        return before

    def syncthreads(self):
        self.barrier.wait()

    def syncwarp(self):
        self.warps[self.own.thread >> 5].wait()

    def _from_lane(self, value, lane_of):
        thread = self.own.thread
        self.exchanged[thread] = value
        self.syncwarp()
        lane = lane_of(thread & 31)
        found = self.exchanged[(thread & ~31) + lane] if lane < 32 else value
        self.syncwarp()
        return found

    def shfl_down_sync(self, _, value, shift):
        return self._from_lane(value, lambda lane: lane + shift)

    def shfl_xor_sync(self, _, value, mask):
        return self._from_lane(value, lambda lane: lane ^ mask)

    def run(self, *arguments):
        arguments = _wide(arguments)
        errors = []

        def work(thread):
            self.own.thread = thread
            try:
                with np.errstate(all="ignore"):
                    self.kernel(*arguments)
            except threading.BrokenBarrierError:
                pass
            except BaseException as error:
                errors.append(error)
                for barrier in (self.barrier, *self.warps):
                    barrier.abort()

        workers = [threading.Thread(target=work, args=(k,)) for k in range(self.threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]


def _wide(value):
    """Tables with 64-bit integers, which NumPy's scalars do not widen to by themselves."""
    if isinstance(value, np.ndarray):
        narrow = value.dtype.kind in "iu" and value.itemsize == 4 and value.size > 1
        return value.astype(np.int64) if narrow else value
    if isinstance(value, tuple):
        items = [_wide(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
