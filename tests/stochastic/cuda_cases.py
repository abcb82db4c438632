"""What tests of CUDA kernels share: a device that is not there, and how PTX is made."""

import numpy as np

from ergode.core.devices import cuda
from ergode.stochastic.runners.chunks import Wanted


class Pretended:
    """A CUDA device as far as arrays go, which stay on the host."""

    name, target, is_cuda, core_count, memory_bytes = "pretended", "cuda", True, 132, 10**9

    def put(self, array):
        return np.array(array, order="C")

    def empty(self, shape, kind):
        return np.zeros(shape, kind)

    zeros = empty

    def copy(self, source, target):
        target[...] = source

    def available_bytes(self):
        return 10**9


WANTED = Wanted(amounts=True, statistics=True)
OPTIONS = {
    "grid": np.linspace(0, 1, 5), "begin": 0.0, "seed": 1, "replicates": range(8),
    "max_firings": 100, "device": Pretended(),
}  # fmt: skip


def ptx(ensemble, optimized=True, wanted=WANTED, kernel=None):
    """The PTX of the kernel of a runner, or of another one with the same arguments."""
    made, arrays = ensemble.made(8, 4, wanted)
    out = ensemble.results(8, 1, 1, wanted)
    arguments = (np.zeros(1, np.int64), np.int64(8), *arrays, ensemble._plan, out)
    return cuda.ptx((kernel or made).compiled("cuda"), arguments, optimized=optimized)
