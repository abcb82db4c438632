"""What tests of CUDA kernels share: a device that is not there, and how PTX is made."""

import numpy as np

from ergode.core import cuda
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


OPTIONS = {
    "grid": np.linspace(0, 1, 5), "begin": 0.0, "seed": 1, "replicates": range(8),
    "max_firings": 100, "device": Pretended(),
}  # fmt: skip


def ptx(kernel, ensemble, *arguments, optimized=True):
    out = ensemble.results(8, 1, 1, Wanted(amounts=True, statistics=True))
    queue = np.zeros(1, np.int64)
    return cuda.ptx(
        kernel.compiled("cuda"), (queue, np.int64(8), *arguments, ensemble._plan, out),
        optimized=optimized,
    )  # fmt: skip
